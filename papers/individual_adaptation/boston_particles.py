"""Boston: why the particles of IA-SMC are worth so few independent draws. Runs of the second program that begin with draws from the posterior at
a temperature on the way, that have more particles or moves, and that resample, step and learn in other ways."""

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks import boston
from benchmarks.common import number
from papers.individual_adaptation import independent, particles
from papers.individual_adaptation.particles import MULTINOMIAL, RESIDUAL, STRATIFIED, Options
from papers.individual_adaptation.published import NOT_GIVEN
from papers.individual_adaptation.study import (
    Claim,
    Section,
    Study,
    TooFewRunsError,
    new_figure,
    read_table,
    runs_in_words,
)
from whichvars.plots.drawing import BLUE, GREY, INK, ORANGE

TITLE = "Boston: why particles are worth so few draws"
ABOUT = (
    "The posterior has two modes, which differ in variable 50 among others. The second program, which shares no code with ours, was run with other ways "
    "of resampling, other temperatures, more particles and more moves. To see where accuracy is lost, it was also run from draws from the posterior with its "
    "likelihood to the power t, made by long chains that add, delete and swap at that temperature. *Exact draws* says as how many independent draws those count: a run "
    "that begins with them is hardly worth more.",
)
CLEAR = 3.0  # standard errors
TABLE, SHARES = "boston_particles", "boston_shares"
SEED, BANK_SEED = 2100, 2900
TAU = 0.45
STEPS = 50
MARKER = 49  # variable 50, which the models of the smaller mode have and those of the larger one have not
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # temperatures at which particles are looked at
ANCESTORS = (0.1, 0.3, 0.6)
STARTS = (0.1, 0.3, 0.45, 0.6, 0.8)  # temperatures at which a run begins with draws from the posterior
BATCHES = 5  # of a chain
BANK, CHAINS, THIN = 8000, 4, 2000  # draws from the posterior at a temperature
SMALL = {"particles": 50, "bank": 40}  # the short run that tells one program from another
OURS = Options(groups=8, bound=1.0)  # particles learn as in the package
USUAL = "as in our program"
K25 = "K = 25"
FORMER = "learning in one group, its steps not bounded"
BEGINS = "exact draws at t = "
MORE, FEWER, MOVES = "4 times the particles", "a quarter of the particles", "4 times the moves, K = 200"
MOST = "16 times the particles"
# what is changed, the runs of it, and the option
OPTIONS: dict[str, Options] = {
    USUAL: OURS,
    K25: OURS,
    FORMER: Options(),
    "learning in one group": Options(bound=1.0),
    "steps of learning not bounded": Options(groups=8),
    "stratified resampling": OURS._replace(resampling=STRATIFIED),
    "residual resampling": OURS._replace(resampling=RESIDUAL),
    "multinomial resampling": OURS._replace(resampling=MULTINOMIAL),
    "resampled only below an effective size of .5": OURS._replace(resample_below=0.5),
    "fewer temperatures: effective size .5 of a step": OURS._replace(ess=0.5),
    "more temperatures: effective size .984 of a step": OURS._replace(ess=0.984),
    FEWER: OURS,
    MORE: OURS,
    MOST: OURS,
    MOVES: OURS,
    **{f"{BEGINS}{t:g}": OURS for t in STARTS},
}
OTHER_WAYS = [
    name for name in OPTIONS if name not in (USUAL, K25, FEWER, MORE, MOST, MOVES) and BEGINS not in name
]
RUNS = 10
FEW_RUNS = {MORE: 6, MOST: 3, MOVES: 6}
Row = dict[str, Any]


def setting_of(variant: str, scale: float) -> Row:
    """The sizes of a variant."""
    steps = {K25: 25, MOVES: 4 * STEPS}.get(variant, STEPS)
    factor = {MORE: 4, MOST: 16, FEWER: 0.25}.get(variant, 1)
    base = boston.PARTICLES[25 if variant == K25 else STEPS]
    setting: Row = {"variant": variant, "particles": max(2, round(base * factor * scale)), "steps": steps}
    if variant.startswith(BEGINS):
        setting |= {
            "start": float(variant.removeprefix(BEGINS)),
            "bank": max(2 * CHAINS * BATCHES, round(BANK * scale)),
        }
    return setting


def bank(study: Study, data: independent.Data, t: float, size: int) -> np.ndarray:
    """Draws from the posterior with its likelihood to the power t, by chains that add, delete and swap; shape (size, p)."""

    def compute() -> np.ndarray:
        rng = np.random.default_rng([BANK_SEED, round(100 * t)])
        chains = [particles.from_chain(data, rng, t, size // CHAINS, THIN, 1 / 3) for _ in range(CHAINS)]
        return np.concatenate(chains)

    return study.once(f"boston draws at {t:g}, {size}", compute)


def independent_draws(draws: np.ndarray, chains: int) -> float:
    """As how many independent draws those of thinned chains count for the share of an indicator, by the variance of batch means; shape
    (draws,), one chain after the other.

    >>> rng = np.random.default_rng(0)
    >>> bool(500 < independent_draws(rng.random(1000) < 0.3, 4) < 2000)
    True
    """
    means = np.array([batch.mean() for batch in np.array_split(draws * 1.0, chains * BATCHES)])
    share = float(draws.mean())
    variance = float(means.var(ddof=1)) / len(means)
    return share * (1 - share) / variance if variance else float("nan")


def results(study: Study) -> tuple[list[Row], list[list[Row]]]:
    """The settings and the runs of each."""
    data, truth = independent.boston_data(), study.truth("boston104").pip
    p = len(truth)

    def run(setting: Row, seed: int) -> Row:
        place = list(OPTIONS).index(setting["variant"])
        rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(seed - SEED, place)))
        draws = bank(study, data, setting["start"], setting["bank"]) if "start" in setting else None
        started = time.thread_time()
        if draws is not None:
            first, t = draws[rng.integers(len(draws), size=setting["particles"])], setting["start"]
        else:
            first, t = particles.from_prior(rng, setting["particles"], p), 0.0
        pip, visited, left = particles.run(
            data, rng, first, t, setting["steps"], TAU, 1.0, 0.55, OPTIONS[setting["variant"]], np.array(ANCESTORS), MARKER
        )  # fmt: skip
        temperatures, rates, marked = np.array(visited).T
        more = {}
        if draws is not None:
            there = draws[:, MARKER]
            more = {"exact_share": float(there.mean()), "exact_draws": independent_draws(there, CHAINS)}
        return {
            "wmse": float(boston.wmse(pip[None], truth)[0]),
            "cpu_seconds": time.thread_time() - started,
            "temperatures": len(visited),
            "mutation_rate": float(rates[-1]),
            **{f"ancestors_at_{level:g}": value for level, value in zip(ANCESTORS, left)},
            **{
                f"share_at_{level:g}": float(np.interp(level, temperatures, marked))
                for level in LEVELS
                if level >= t
            },
            **more,
        }

    settings = [setting_of(variant, study.effort.wmse_scale) for variant in OPTIONS]
    count = min(RUNS, study.effort.variant_runs)

    def due(setting: Row, place: int) -> bool:
        return place < FEW_RUNS.get(setting["variant"], count)

    return settings, study.results(TABLE, settings, [SEED + k for k in range(count)], run, SMALL, due)


def summarise(variant: str, setting: Row, found: list[Row], one_draw: float) -> Row:
    """Means over the runs of a variant."""
    errors = boston.summarise(found)
    return {
        "variant": variant,
        "particles": setting["particles"],
        "K": setting["steps"],
        "runs": errors["runs"],
        "wmse": errors["wmse"],
        "wmse_se": errors["wmse_se"],
        "worth_draws": one_draw / errors["wmse"],
        "exact_draws": found[0].get("exact_draws"),
        **{
            key: float(np.mean([result[key] for result in found]))
            for key in (
                "temperatures",
                *(f"ancestors_at_{level:g}" for level in ANCESTORS[1:]),
                "cpu_seconds",
            )
        },
    }


def shares(found: dict[str, list[Row]], truth: float) -> list[Row]:
    """The share of the particles in the smaller mode by temperature: mean and standard deviation over runs, and for how many independent
    particles that would be the deviation. At temperatures at which other runs begin with draws from the posterior, the share in these."""
    out = []
    for level in LEVELS:
        key = f"share_at_{level:g}"
        values = np.array([result[key] for result in found[USUAL]])
        start = found.get(f"{BEGINS}{level:g}")
        right = truth if level == 1 else float(np.mean([result[key] for result in start])) if start else None
        mean, variance = float(values.mean()), float(values.var(ddof=1))
        about = mean if right is None else right
        out.append(
            {
                "temperature": level,
                "share_by_exact_draws": right,
                "mean_share_of_particles": mean,
                "spread_over_runs": variance**0.5,
                "worth_particles": about * (1 - about) / variance if variance else None,
            }
        )
    return out


def spread_of(row: Row) -> str:
    """WMSE with its standard error."""
    return f"{number(row['wmse'], 2)} ± {number(row['wmse_se'], 2)}"


def judge(rows: Sequence[Row], measured: Sequence[Row]) -> list[Claim]:
    """`measured` are the rows of ``boston_wmse``, none if they are not there."""
    by_name = {row["variant"]: row for row in rows}
    out: list[Claim] = []
    simple = simple_wmse(measured)
    if simple is None:
        return out
    usual = by_name[USUAL]

    def ask(statement: str, names: Sequence[str], why: str) -> None:
        some = [by_name[name] for name in names if name in by_name]
        if some:
            best = min(some, key=lambda row: row["wmse"])
            out.append(
                Claim(
                    statement,
                    NOT_GIVEN,
                    f"{spread_of(best)} at best ({best['variant']}); simple MH {number(simple, 2)}",
                    bool(best["wmse"] < simple),
                    why,
                    fairer=True,
                )
            )

    resampling = [name for name in OPTIONS if "resampl" in name]
    ask(
        f"another way of resampling brings IA-SMC with K = {STEPS} below simple MH",
        resampling,
        f"the best of {len(resampling)}; ours, systematic at each temperature, {spread_of(usual)}",
    )
    temperatures = [name for name in OPTIONS if "temperatures" in name]
    ask(
        f"another number of temperatures brings IA-SMC with K = {STEPS} below simple MH",
        temperatures,
        ", ".join(f"{by_name[name]['temperatures']:.0f}" for name in temperatures if name in by_name)
        + f" temperatures instead of {usual['temperatures']:.0f}",
    )
    ask(
        f"more particles or moves bring IA-SMC with K = {STEPS} below simple MH",
        (MORE, MOST, MOVES),
        "4 and 16 times as many particles, 4 times as many moves",
    )
    former, one = by_name[FORMER], number(usual["wmse"], 2)
    ours = package_row(measured)
    if ours is not None:
        error = float(np.hypot(ours["wmse_se"], usual["wmse_se"]))
        out.append(
            Claim(
                "the two programs have the same WMSE if particles learn in the same way",
                NOT_GIVEN,
                f"{spread_of(ours)} by our program and {spread_of(usual)} by the second one, both with eight groups and bounded steps",
                bool(abs(ours["wmse"] - usual["wmse"]) < CLEAR * error),
                f"holds if they differ by less than {CLEAR:g} standard errors. In other sections all particles of the second program learn in one group, without a "
                f"bound, which gives {spread_of(former)} here",
                fairer=True,
            )
        )
    starts = [name for name in by_name if name.startswith(BEGINS)]
    best = max(starts, key=lambda name: by_name[name]["worth_draws"])
    out.append(
        Claim(
            f"IA-SMC with K = {STEPS} is below simple MH if it begins with draws from the posterior at some temperature",
            NOT_GIVEN,
            "; ".join(
                f"{name.removeprefix('exact draws at ')}: {number(by_name[name]['wmse'], 2)}"
                for name in starts
            )
            + f"; from the prior {one}; simple MH {number(simple, 2)}",
            bool(by_name[best]["wmse"] < simple),
            f"at best {best.removeprefix('exact draws at ')}, worth {number(by_name[best]['worth_draws'], 2)} independent draws; the draws come from chains "
            "that add, delete and swap at that temperature",
            fairer=True,
        )
    )
    return out


def simple_wmse(rows: Sequence[Row]) -> float | None:
    """Of simple MH, by the rows of ``boston_wmse``."""
    return next((row["wmse"] for row in rows if row["method"] == "MH"), None)


def package_row(measured: Sequence[Row]) -> Row | None:
    """IA-SMC of the package with the same K and τ, by the rows of ``boston_wmse``."""
    name = f"SMC, K = {STEPS}"
    return next((row for row in measured if row["method"] == name and row["tau"] == TAU), None)


def stretch(by_name: dict[str, Row]) -> tuple[str, str]:
    """Between which starts of a run accuracy is lost: the two neighbours whose worth differs by the largest factor, by the names of their
    variants, the first of them the prior."""
    names = [USUAL, *(name for name in by_name if name.startswith(BEGINS))]
    factors = [by_name[b]["worth_draws"] / by_name[a]["worth_draws"] for a, b in pairwise(names)]
    place = int(np.argmax(factors))
    return names[place], names[place + 1]


def why(rows: Sequence[Row], one_draw: float, simple: float) -> dict[str, Any]:
    """Reason, brief reason and evidence for IA-SMC; `simple` is the WMSE of simple MH."""
    by_name = {row["variant"]: row for row in rows}
    if USUAL not in by_name or not any(name.startswith(BEGINS) for name in by_name):
        return {}
    before, after = stretch(by_name)
    usual, many = by_name[USUAL], by_name.get(MOST)
    low, high = (
        name.removeprefix("exact draws at ") if name != USUAL else "t = 0" for name in (before, after)
    )
    least, most, ours = (number(by_name[name]["worth_draws"], 2) for name in (before, after, USUAL))
    others = [row for name, row in by_name.items() if name in OTHER_WAYS]
    best = max(others, key=lambda row: row["worth_draws"])
    reason = (
        f"Particles lose most of their accuracy between {low} and {high}: a run that begins with draws from the posterior at {high} is worth {most} independent draws, one that "
        f"begins at {low} {least}, one from the prior {ours}, and simple MH is worth {number(one_draw / simple, 2)}. On that stretch the descendants of very few "
        f"particles take over: those at the end come effectively from {number(usual['ancestors_at_0.3'], 2)} of {usual['particles']:,} particles at t = 0.3"
        + (f", and from {number(many['ancestors_at_0.3'], 2)} of {many['particles']:,} if there are 16 times as many" if many else "")
        + f".\n\nThe best of {len(others)} other ways of resampling, of choosing temperatures and of learning is worth {number(best['worth_draws'], 2)} draws: see "
        f"“{TITLE}”. For the paper's order of methods, at least {number(one_draw / simple, 2)} lineages would have to survive, or particles would have to change "
        "between modes on that stretch."
    )  # fmt: skip
    evidence = [
        ["run of IA-SMC, τ = .45", "WMSE", "worth independent draws", "particles at t = .3 with descendants"]
    ]
    for row in rows:
        name, begins = row["variant"], row["variant"].startswith(BEGINS)
        if name not in (USUAL, MOST, MOVES, best["variant"]) and not begins:
            continue
        late = begins and float(name.removeprefix(BEGINS)) > 0.3
        evidence.append(
            [
                f"{name}, {row['particles']:,} particles",
                spread_of(row),
                number(row["worth_draws"], 2),
                "–" if late else number(row["ancestors_at_0.3"], 2),
            ]
        )
    return {
        "reason": reason,
        "brief": f"particles lose most of their accuracy between {low} and {high}: worth {ours} independent draws, but {most} from exact draws at {high} on",
        "evidence": evidence,
    }


def drawn(
    rows: Sequence[Row], along: Sequence[Row], found: dict[str, list[Row]], simple: float | None
) -> Any:
    """WMSE by where a run begins and by its number of particles, and the share of the smaller mode along the runs."""
    figure, axes = new_figure(3, width=4.0, height=3.3)
    by_name = {row["variant"]: row for row in rows}
    ax = axes[0, 0]
    for name, row in by_name.items():
        if name == USUAL or name.startswith(BEGINS):
            t = float(name.removeprefix(BEGINS)) if name != USUAL else 0.0
            ax.errorbar(
                t,
                row["wmse"],
                yerr=min(2 * row["wmse_se"], 0.9 * row["wmse"]),
                fmt="o",
                color=BLUE,
                markersize=4,
            )
    ax.set(xlabel="temperature t at which a run begins", ylabel="WMSE of a run", yscale="log")
    ax = axes[0, 1]
    levels = [row["temperature"] for row in along]
    for result in found[USUAL]:
        ax.plot(
            levels, [result[f"share_at_{level:g}"] for level in levels], color=BLUE, linewidth=0.8, alpha=0.6
        )
    exact = [row for row in along if row["share_by_exact_draws"] is not None]
    ax.plot(
        [r["temperature"] for r in exact],
        [r["share_by_exact_draws"] for r in exact],
        "o",
        color=INK,
        markersize=5,
    )
    ax.set(xlabel="temperature t", ylabel="share of the smaller mode", ylim=(0, 1))
    ax = axes[0, 2]
    for name in (FEWER, USUAL, MORE, MOST):
        if name in by_name:
            row = by_name[name]
            ax.errorbar(
                row["particles"],
                row["wmse"],
                yerr=min(2 * row["wmse_se"], 0.9 * row["wmse"]),
                fmt="o",
                color=ORANGE,
                markersize=4,
            )
    ax.set(xlabel="particles", ylabel="WMSE of a run", xscale="log", yscale="log")
    if simple is not None:
        for place in (0, 2):
            axes[0, place].axhline(simple, color=GREY, linestyle="--", linewidth=0.9)
    return figure  # fmt: skip


def make(study: Study) -> Section:
    settings, every = results(study)
    truth = study.truth("boston104").pip
    one_draw = boston.of_one_draw(truth)
    found = {s["variant"]: some for s, some in zip(settings, every) if len(some) > 1}
    if {USUAL, FORMER, *(f"{BEGINS}{t:g}" for t in STARTS)} - set(found):
        raise TooFewRunsError("fewer than two runs of a variant")
    rows = [
        summarise(s["variant"], s, found[s["variant"]], one_draw) for s in settings if s["variant"] in found
    ]
    along = shares(found, float(truth[MARKER]))
    path = study.out / "boston_wmse.csv"
    measured = read_table(path) if path.exists() else []
    section = Section(TITLE, list(ABOUT))
    study.picture(
        section,
        TABLE,
        drawn(rows, along, found, simple_wmse(measured)),
        "Left: WMSE of runs that begin with draws from the posterior at temperature t; 0 is the prior. Middle: the share of the particles in the smaller mode "
        "along each run that begins at the prior, and by exact draws (black). Right: WMSE by the number of particles. The dashed line is simple MH.",
    )
    study.table(
        section,
        TABLE,
        rows,
        "What was tried; K = 50 where nothing else is said, τ = .45. Means over runs. *Ancestors at 0.3* is the effective number of the particles at t = 0.3 "
        "that have descendants at the end.",
    )
    study.table(
        section, SHARES, along, "Share of the particles that have variable 50, which marks the smaller mode."
    )
    section.claims = judge(rows, measured)
    counts = [row["runs"] for row in rows if row["variant"] not in FEW_RUNS]
    section.smaller = runs_in_words(counts, RUNS)
    section.kept_cpu_seconds = sum(row["runs"] * row["cpu_seconds"] for row in rows)
    return section
