"""PCR: inclusion probabilities of three runs, and their pairwise agreement."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.common import number
from papers.individual_adaptation import pcr_correlation, pcr_runs, published
from papers.individual_adaptation.pcr_runs import PRIORS
from papers.individual_adaptation.study import (
    Claim,
    Section,
    Study,
    label_outer,
    new_figure,
    worst_difference,
)
from papers.individual_adaptation.summaries import MOST_MODELS, Summary, exact_masses, exact_pips
from whichvars.plots.drawing import BLUE, GREEN, GREY, ORANGE

TITLE = "PCR: inclusion probabilities of three runs"
CLOSE = 0.1
ENOUGH = 0.5  # in log posterior mass
DRIFT = 0.3  # of the mean model size
ENOUGH_LADDERS = 10
MANY = 400  # sets of runs that are drawn to know what is expected
UNLIKELY = 0.05
SAME = 1e-6  # log posteriors of one model, by factors in another order
Row = dict[str, Any]


def summarise(prior: str, chains: int, runs: Sequence[Summary], block: int | None, part: float) -> Row:
    """How far runs are apart, and what may explain it. `block` is the number of neighbouring columns that can stand in for one another,
    if that is known."""
    pips = np.array([p.pip for p in runs])
    trips = [p.round_trips or 0 for p in runs]
    rates = np.array([p.exchange_rates for p in runs])
    masses = np.array([exact_masses([p]) for p in runs])
    by_block = None
    if block is not None:
        by_block = worst_difference(np.add.reduceat(pips, np.arange(0, pips.shape[1], block), axis=1))
    worst = int(np.ptp(pips, axis=0).argmax())
    quarters = np.array([mean_sizes_by_quarter(p) for p in runs])
    return {
        "prior": prior,
        "chains": chains,
        "runs": len(runs),
        "part": part,
        "largest_difference": worst_difference(pips),
        "smallest_correlation": float(
            min(np.corrcoef(pips[i], pips[j])[0, 1] for i, j in combinations(range(len(pips)), 2))
        ),
        "largest_difference_of_blocks": by_block,
        "largest_difference_by_exact_weights": worst_difference(np.array([exact_pips([p]) for p in runs])),
        **expected_differences(runs),
        "monte_carlo_error_there": float(np.mean([p.mcse[worst] for p in runs])),
        "size_in_the_first_quarter": float(quarters[:, 0].mean()),
        "size_in_the_last_quarter": float(quarters[:, -1].mean()),
        "chains_of_a_run_differ_by": max(float(np.ptp(p.log_posteriors)) for p in runs),
        "smallest_exchange_rate": float(rates.min()),
        "largest_exchange_rate": float(rates.max()),
        "fewest_round_trips": int(min(trips)),
        "most_round_trips": int(max(trips)),
        "best_models_differ_by": float(np.ptp(masses[:, 0])),
        "masses_differ_by": float(np.ptp(masses[:, 1])),
    }


def quantiles(values: np.ndarray) -> list[float]:
    """Of many largest differences: a twentieth, the median and all but a twentieth."""
    return [float(value) for value in np.quantile(values, (0.05, 0.5, 0.95))]


def by_batch_means(runs: Sequence[Summary], rng: np.random.Generator) -> np.ndarray:
    """Largest differences of a PIP between runs whose errors are those that batch means say, normal and independent: many such sets of
    runs."""
    errors = np.nan_to_num(np.array([run.mcse for run in runs]))
    errors = errors[:, errors.max(axis=0) > 0]
    return np.array([np.ptp(errors * rng.normal(size=errors.shape), axis=0).max() for _ in range(MANY)])


def by_their_ladders(ladders: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Largest differences of a PIP between runs that are put together at random from the ladders of these; each has the shape (ladders, p). Ladders
    in even and in odd places start differently, and are drawn apart. If runs differ by no more than this, it is because ladders do."""
    places = len(ladders[0])
    found = np.zeros((MANY, published.PCR_RUNS, ladders[0].shape[1]))
    for first in (0, 1):
        kind = np.concatenate([run[first::2] for run in ladders])
        count = len(range(first, places, 2))
        if count:
            chosen = rng.integers(len(kind), size=(*found.shape[:2], count))
            found += kind[chosen].sum(axis=2) / places
    return np.ptp(found, axis=1).max(axis=1)


def expected_differences(runs: Sequence[Summary]) -> Row:
    """How large the largest difference of a PIP between three such runs is by chance: by their Monte Carlo errors, and by their ladders, if those
    of at least `ENOUGH_LADDERS` ladders were kept. `by_ladders_share` is the share of the runs put together from ladders that differ by as
    much as the runs themselves."""
    rng = np.random.default_rng(0)
    names = ("low", "median", "high")
    found: Row = {f"by_batch_means_{n}": v for n, v in zip(names, quantiles(by_batch_means(runs, rng)))}
    found |= {f"by_ladders_{name}": None for name in (*names, "share")}
    ladders = [run.ladder_pips for run in runs if len(run.ladder_pips)]
    found["ladders"] = sum(map(len, ladders))
    if found["ladders"] >= ENOUGH_LADDERS:
        seen = max(run.max() for run in ladders)
        shown = np.max([run.max(axis=0) for run in ladders], axis=0) > 0.01 * seen
        differences = by_their_ladders([run[:, shown] for run in ladders], rng)
        found |= {f"by_ladders_{n}": v for n, v in zip(names, quantiles(differences))}
        found["by_ladders_share"] = float(
            np.mean(differences >= worst_difference(np.array([run.pip for run in runs])))
        )
    return found


def mean_sizes_by_quarter(run: Summary) -> list[float]:
    """Mean model size in each quarter of the draws."""
    return [float(quarter.mean()) for quarter in np.array_split(run.mean_sizes, 4)]


def judge(rows: Sequence[Row]) -> list[Claim]:
    """Do three runs agree with one another? `rows` are those of ``summarise``."""
    out = []
    for row in rows:
        length = (
            "as many iterations as the paper"
            if row["part"] >= 1
            else f"{row['part']:.3g} of the paper's iterations"
        )
        agrees = bool(row["largest_difference"] < CLOSE)
        first, last = row["size_in_the_first_quarter"], row["size_in_the_last_quarter"]
        remark = (
            f"; they agree with one another but have not settled: the mean model size is {first:.1f} in the first quarter of the draws and {last:.1f} in the last"
            if agrees and abs(last - first) > DRIFT
            else ""
        )
        out.append(
            Claim(
                f"three runs agree, {row['prior']}, r = {row['chains']}",
                f"they agree; {published.NOT_GIVEN}",
                f"largest difference of a PIP {number(row['largest_difference'], 2)}, smallest correlation {row['smallest_correlation']:.3f}",
                agrees,
                f"agrees if no PIP differs by {CLOSE:g}; {row['runs']} runs of {length}{remark}",
                reason="" if agrees else why_apart(row),
                brief="" if agrees else in_brief(row),
                evidence=[] if agrees else [EVIDENCE, evidence(row)],
            )
        )
    return out


EVIDENCE = [
    "runs",
    "largest difference of a PIP",
    "expected by batch means (nine of ten)",
    "expected by ladders (nine of ten)",
    "by exact weights",
    "ladders differ by",
    "mean size, first and last quarter",
]


def span(row: Row, name: str) -> str:
    """Median and range of what is expected; "–" if it is not known."""
    if row.get(f"{name}_median") is None:
        return "–"
    low, median, high = (number(row[f"{name}_{which}"], 2) for which in ("low", "median", "high"))
    return f"{median} ({low}–{high})"


def evidence(row: Row) -> list[str]:
    """What was measured of runs that do not agree."""
    return [
        f"{row['prior']}, r = {row['chains']}",
        number(row["largest_difference"], 2),
        span(row, "by_batch_means"),
        span(row, "by_ladders")
        + (f", {row['ladders']} ladders" if row.get("by_ladders_median") is not None else ""),
        number(row["largest_difference_by_exact_weights"], 2),
        f"{row['chains_of_a_run_differ_by']:.0f}",
        f"{row['size_in_the_first_quarter']:.1f}, {row['size_in_the_last_quarter']:.1f}",
    ]


def by_ladders(row: Row) -> bool | None:
    """Whether runs differ by no more than their ladders, put together at random; None if the ladders were not kept."""
    share = row.get("by_ladders_share")
    return None if share is None else bool(share >= UNLIKELY)


def within_errors(row: Row) -> bool:
    """Whether runs differ by no more than batch means say."""
    return bool(row["largest_difference"] <= row["by_batch_means_high"])


def in_brief(row: Row) -> str:
    """The reason in a few words."""
    if row["best_models_differ_by"] >= SAME or row["masses_differ_by"] >= ENOUGH:
        return "the runs found different models"
    if within_errors(row):
        return "Monte Carlo error: three runs with the errors that batch means say differ by as much"
    if by_ladders(row):
        return "Monte Carlo error: runs put together at random from their ladders differ by as much"
    return "the ladders of a run stay in different modes, and three runs differ by more than batch means say"


def why_apart(row: Row) -> str:
    """Why runs do not agree, in two sentences and what qualifies them; the numbers are in ``evidence``."""
    if row["best_models_differ_by"] >= SAME:
        return "The runs did not find the same best model."
    if row["masses_differ_by"] >= ENOUGH:
        return "The runs found the same best model, but not the same posterior mass of all models that they kept."
    said = ["The runs found the same best models, and differ in the time that they spent in them."]
    if row["largest_difference_by_exact_weights"] >= CLOSE:
        said = ["The runs found the same best model, but differ in other models that they found, too."]
    if within_errors(row):
        said.append(
            "The largest of so many differences is as large as is to be expected from the Monte Carlo errors of the runs, so that nothing else has to "
            "be looked for: three runs of this length cannot agree more closely on this design."
        )
    elif by_ladders(row):
        said.append(
            "This is Monte Carlo error, and more of it than batch means say: runs that are put together by drawing from their ladders, with those that start alike in the same places, differ by "
            "as much as the three runs do. Ladders change between modes rarely, and a ladder that stays elsewhere shifts the probabilities of its run."
        )
    elif by_ladders(row) is None:
        said.append(
            "They differ by more than batch means say, because ladders change between modes rarely: the mean log posteriors of the ladders of one run "
            "differ by far more than those of one chain would along its way. Whether that is all was not tested, as the ladders were not kept."
        )
    else:
        said.append("They differ by more than their Monte Carlo errors and their ladders explain.")
    if row["part"] < 1:
        said.append(f"The runs have {row['part']:.3g} of the paper's iterations; --full has them all.")
    return " ".join(said)


def compare(prior: str, ladders: Sequence[Summary], default: Summary) -> Row:
    """IA-PT's runs beside our default's replicates: inclusion probabilities, and the exact posterior mass of the models that each kept."""
    mean = np.mean([p.pip for p in ladders], axis=0)
    (best, total), (their_best, their_total) = exact_masses(ladders), exact_masses([default])
    return {
        "prior": prior,
        "runs": len(ladders),
        "difference": float(np.abs(mean - default.pip).max()),
        "difference_by_exact_weights": float(np.abs(exact_pips(ladders) - exact_pips([default])).max()),
        "ladders_from_exact_weights": float(np.abs(mean - exact_pips([*ladders, default])).max()),
        "default_from_exact_weights": float(np.abs(default.pip - exact_pips([*ladders, default])).max()),
        "replicates_differ_by": worst_difference(default.replicate_pips),
        "best_of_the_default": their_best - best,
        "mass_of_the_default": their_total - total,
    }


def judge_default(rows: Sequence[Row]) -> list[Claim]:
    """Are runs that agree also right? Where two samplers differ, the one whose models have more posterior mass has seen more of the
    posterior: log posteriors are exact, up to a constant that all models share."""
    out = []
    for row in rows:
        off, spread = row["difference"], row["replicates_differ_by"]
        out.append(
            Claim(
                f"the inclusion probabilities of IA-PT are those of another sampler, {row['prior']}",
                published.NOT_GIVEN,
                f"the mean of {row['runs']} runs differs from our default by at most {number(off, 2)}",
                bool(off < CLOSE) if spread < CLOSE else None,
                f"holds if below {CLOSE:g}; the default's own two replicates differ by up to {number(spread, 2)}"
                + ("" if spread < CLOSE else ", too much to judge by"),
                fairer=True,
            )
        )
        theirs, ours = row["ladders_from_exact_weights"], row["default_from_exact_weights"]
        out.append(
            Claim(
                f"where IA-PT and our default differ, IA-PT is nearer to the exact weights of the models that they found, {row['prior']}",
                published.NOT_GIVEN,
                f"the largest distance of a PIP from that by exact weights is {number(theirs, 2)} for the mean of {row['runs']} runs of IA-PT and "
                f"{number(ours, 2)} for our default",
                bool(theirs < ours),
                f"exact weights of all models that either kept, {MOST_MODELS:,} of each run, which leave out the less probable models; with these "
                f"weights the models of IA-PT and those of the default give PIPs that differ by at most {number(row['difference_by_exact_weights'], 2)}",
                fairer=True,
            )
        )
        best, total = row["best_of_the_default"], row["mass_of_the_default"]
        out.append(
            Claim(
                f"IA-PT found where the posterior is, {row['prior']}",
                published.NOT_GIVEN,
                f"the best model of our default is exp({signed(best)}) times as probable as the best one of these {row['runs']} runs; all models "
                f"that it kept have exp({signed(total)}) times the mass of all that these kept",
                bool(total < ENOUGH),
                f"holds if below exp({ENOUGH:g}); the ratios are exact, and say which of two samplers has missed something",
                fairer=True,
            )
        )
    return out


def which_is_right(rows: Sequence[Row]) -> list[str]:
    """In words, which of IA-PT and our default to believe where they differ; `rows` are those of ``compare``. A row where one of them
    found more of the posterior than the other, or where each is as near to the exact weights, says nothing."""
    out = []
    for row in rows:
        theirs, ours = row["ladders_from_exact_weights"], row["default_from_exact_weights"]
        if abs(row["best_of_the_default"]) >= SAME or abs(row["mass_of_the_default"]) >= ENOUGH:
            continue
        if row["difference"] < CLOSE or max(theirs, ours) < 2 * min(theirs, ours):
            continue
        nearer, farther = ("our default", "IA-PT") if ours < theirs else ("IA-PT", "our default")
        out.append(
            f"Under {row['prior']}, IA-PT and our default differ by up to {number(row['difference'], 2)} in an inclusion probability. Both found the same best model, and the models "
            f"that each kept have nearly the same exact posterior mass, so neither missed what the other found. Their exact weights give inclusion probabilities from which {nearer} is at most "
            f"{number(min(theirs, ours), 2)} away and {farther} {number(max(theirs, ours), 2)}: {nearer} is to be believed, and {farther} was not in each mode for the right share of its time. "
            "These weights leave out the less probable models, of which only some were kept."
        )
    return out


def signed(value: float) -> str:
    """One digit after the point, and no minus before a zero.

    >>> signed(-0.04), signed(2.25), signed(-1.3)
    ('0.0', '2.2', '-1.3')
    """
    return f"{round(value, 1) + 0.0:.1f}"


def lengths_and_time(runs: pcr_runs.Runs, parts: dict[tuple[str, int], float]) -> str:
    """How long the runs are, what they cost, and at which commits they were made."""
    commits = sorted({run.about["commit"] for some in runs.values() for run in some if "commit" in run.about})
    minutes = sum(run.cpu_seconds for some in runs.values() for run in some) / 60
    return (
        f"{pcr_runs.lengths(parts)} All {sum(map(len, runs.values()))} runs together took {number(minutes, 2)} minutes of CPU time."
        + (f" They were made at commit{'s' * (len(commits) > 1)} {', '.join(commits)}." if commits else "")
    )


def chains_apart(runs: pcr_runs.Runs) -> list[str]:
    """How far runs with few chains are from runs with many, under each prior: runs that agree with one another need not be right."""
    out = []
    for prior in PRIORS:
        means = {chains: np.mean([p.pip for p in some], axis=0) for (name, chains), some in runs.items() if name == prior}  # fmt: skip
        for one, other in combinations(sorted(means), 2):
            out.append(
                f"Under {prior}, the mean inclusion probabilities of the runs with r = {one} and of those with r = {other} differ by up to "
                f"{number(float(np.abs(means[one] - means[other]).max()), 2)}. With r = {other} each chain is {other // one} times as short."
            )
    return out


def make(study: Study) -> Section:
    found = pcr_runs.all_runs(study)
    pips = {key: np.array([p.pip for p in runs]) for key, runs in found.items()}
    default = {prior: pcr_runs.by_default(study, prior) for prior in PRIORS}
    section = Section(
        TITLE,
        [
            pcr_runs.about_data(study),
            lengths_and_time(found, pcr_runs.parts(study)),
            " ".join(chains_apart(found)),
        ],
    )
    figure, axes = new_figure(2, 2, width=5.4, height=2.6, sharex=True, sharey=True)
    scatter, pairs = new_figure(4, 2, width=3.0, height=3.0, sharex=True, sharey=True)
    for place, ((prior, chains), runs) in enumerate(pips.items()):
        ax = axes.flat[place]
        index = np.arange(1, runs.shape[1] + 1)
        for run, colour in zip(runs, (BLUE, ORANGE, GREEN)):
            shown = run > 1e-3
            ax.plot(index[shown], run[shown], ".", color=colour, markersize=4, alpha=0.7, rasterized=True)
        ax.set_title(f"{prior}, r = {chains}", fontsize=10)
        ax.set_ylim(0, 1.03)
        for row, (i, j) in enumerate(((0, 1), (0, 2))):
            ax = pairs[row, place]
            ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
            ax.plot(runs[i], runs[j], "o", color=BLUE, markersize=3, alpha=0.6, rasterized=True)
            ax.set(xlabel=f"run {i + 1}", ylabel=f"run {j + 1}")
            if row == 0:
                ax.set_title(f"{prior}, r = {chains}", fontsize=10)
    label_outer(axes, "variable", "inclusion probability")
    study.picture(
        section,
        "pcr_pips",
        figure,
        "Inclusion probabilities above .001; the three runs in three colours.",
    )
    study.picture(
        section, "pcr_agreement", scatter, "The same, run against run: on the diagonal where they agree."
    )
    names = list(pcr_runs.data(study).X.columns)
    rows = []
    for (prior, chains), runs in pips.items():
        other = default[prior].pip
        for v in np.flatnonzero((runs.max(axis=0) > 0.01) | (other > 0.01)):
            rows.append({"prior": prior, "chains": chains, "variable": names[v], "default": other[v],
                         **{f"run_{k + 1}": run[v] for k, run in enumerate(runs)}})  # fmt: skip
    study.table(section, "pcr_pips", rows)
    block = None if pcr_runs.real(study) else pcr_runs.BLOCK
    parts = pcr_runs.parts(study)
    rows = [summarise(*key, runs, block, parts[key]) for key, runs in found.items()]
    study.table(section, "pcr_agreement", rows)
    longest = {prior: max(part for (name, _), part in parts.items() if name == prior) for prior in PRIORS}
    ladders = {
        prior: [
            p for key, runs in found.items() if key[0] == prior and parts[key] == longest[prior] for p in runs
        ]
        for prior in PRIORS
    }
    others = [compare(prior, ladders[prior], default[prior]) for prior in PRIORS]
    study.table(section, "pcr_default", others)
    section.text += which_is_right(others)
    experiment = pcr_correlation.rows(study)
    if experiment:
        study.table(section, pcr_correlation.TABLE, experiment, pcr_correlation.CAPTION)
    section.claims = judge(rows) + judge_default(others) + pcr_correlation.judge(experiment)
    section.smaller = pcr_runs.smaller(parts)
    section.kept_cpu_seconds = pcr_runs.cpu_seconds(*found.values(), list(default.values()))
    return section
