"""PCR: inclusion probabilities of three runs, and their pairwise agreement."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

import whichvars as wv
from benchmarks.common import number
from papers.individual_adaptation import pcr_runs, published
from papers.individual_adaptation.pcr_runs import PRIORS
from papers.individual_adaptation.study import (
    Claim,
    Section,
    Study,
    label_outer,
    new_figure,
    worst_difference,
)
from whichvars.plots.drawing import BLUE, GREEN, GREY, ORANGE

TITLE = "PCR: inclusion probabilities of three runs"
CLOSE = 0.1
ENOUGH = 0.5


def judge(
    pips: dict[tuple[str, int], np.ndarray], default: dict[str, np.ndarray], part: float
) -> list[Claim]:
    """Do three runs agree with one another, and with another sampler? `pips` has shape (runs, p) for each prior and r;
    `default` likewise for each prior."""
    out = []
    length = "as many iterations as the paper" if part >= 1 else f"{part:.3g} of the paper's iterations"
    for (prior, chains), runs in pips.items():
        apart = worst_difference(runs)
        alike = float(min(np.corrcoef(runs[i], runs[j])[0, 1] for i, j in combinations(range(len(runs)), 2)))
        out.append(
            Claim(
                f"three runs agree, {prior}, r = {chains}",
                f"they agree; {published.NOT_GIVEN}",
                f"largest difference of a PIP {number(apart, 2)}, smallest correlation {alike:.3f}",
                bool(apart < CLOSE),
                f"agrees if below {CLOSE:g}; {length}"
                + ("" if apart < CLOSE or part >= 1 else ": too few, maybe; --full has them all"),
            )
        )
    for prior, runs in default.items():
        others = np.concatenate([found for (name, _), found in pips.items() if name == prior])
        off = float(np.abs(others.mean(axis=0) - runs.mean(axis=0)).max())
        spread = worst_difference(runs)
        out.append(
            Claim(
                f"runs that agree are also right, {prior}: their mean is that of another sampler",
                published.NOT_GIVEN,
                f"largest difference of a PIP from our default's {number(off, 2)}",
                bool(off < CLOSE) if spread < CLOSE else None,
                f"holds if below {CLOSE:g}; the default's own two replicates differ by up to {number(spread, 2)}"
                + ("" if spread < CLOSE else ", too much to judge by"),
                fairer=True,
            )
        )
    return out


def exact_masses(runs: Sequence[wv.Posterior]) -> tuple[float, float]:
    """Of all models that these runs kept: the largest log posterior, without its constant, and the log of the sum of all."""
    found: dict[tuple[int, ...], float] = {}
    for posterior in runs:
        models = posterior.models
        values = models.log_marginal + models.log_prior
        found.update({tuple(int(j) for j in m): float(v) for m, v in zip(models.members, values)})
    values = np.array(list(found.values()))
    return float(values.max()), float(np.logaddexp.reduce(values))


def judge_masses(prior: str, ladders: tuple[float, float], default: tuple[float, float]) -> Claim:
    """Where two samplers differ, the one whose models have more posterior mass has seen more of the posterior: log posteriors are
    exact, up to a constant that all models share."""
    best, total = (there - here for here, there in zip(ladders, default))
    return Claim(
        f"IA-PT found where the posterior is, {prior}",
        published.NOT_GIVEN,
        f"the best model of our default is exp({best:.1f}) times as probable as the best one of the six IA-PT runs; all models that it "
        f"kept have exp({total:.1f}) times the mass of all that these kept",
        bool(total < ENOUGH),
        f"holds if below exp({ENOUGH:g}); the ratios are exact, and say which of two samplers that differ has missed something",
        fairer=True,
    )


def make(study: Study) -> Section:
    pips = {key: np.array([p.pip for p in runs]) for key, runs in pcr_runs.all_runs(study).items()}
    default = {}
    for prior in PRIORS:
        replicates = pcr_runs.by_default(study, prior).replicate_pips
        assert replicates is not None
        default[prior] = replicates
    section = Section(TITLE, [pcr_runs.about(study)])
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
        other = default[prior].mean(axis=0)
        for v in np.flatnonzero((runs.max(axis=0) > 0.01) | (other > 0.01)):
            rows.append({"prior": prior, "chains": chains, "variable": names[v], "default": other[v],
                         **{f"run_{k + 1}": run[v] for k, run in enumerate(runs)}})  # fmt: skip
    study.table(section, "pcr_pips", rows)
    section.claims = judge(pips, default, study.effort.pcr_part)
    for prior in PRIORS:
        ladders = [p for (name, _), runs in pcr_runs.all_runs(study).items() if name == prior for p in runs]
        masses = exact_masses(ladders), exact_masses([pcr_runs.by_default(study, prior)])
        section.claims.append(judge_masses(prior, *masses))
    return section
