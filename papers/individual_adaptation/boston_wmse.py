"""Boston: weighted mean squared error of tempering and SMC against τ, and of simple Metropolis-Hastings."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import boston
from benchmarks.common import number, plain
from papers.individual_adaptation import boston_models, boston_particles, boston_trips, published
from papers.individual_adaptation.study import (
    FULL,
    Claim,
    Section,
    Study,
    TooFewRunsError,
    between,
    new_figure,
    read_table,
    runs_in_words,
    times,
)
from whichvars.plots.drawing import AMBER, BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY

TITLE = "Boston: WMSE of SMC, parallel tempering and simple MH"
CLEAR = 2.0  # standard errors
FACTOR = 3.0  # the mean over a few runs of so skewed a quantity is not known better
WELL_BELOW = 0.5
TABLE = "boston_wmse"
VARIANTS = "boston_tempering"  # the table of what was tried
TAUS_TRIED = {0.45: "IA-PT", 0.65: "τ = .65"}  # variants in it
SIMPLE, EQUAL = "MH", "MH, CPU time of PT"
EQUAL_DRAWS = 29_000_000  # with which simple MH takes about as long as IA-PT, by pilot runs
FEW_STEPS = 25  # SMC with fewer has fewer runs in a quick study: the paper leaves it aside
SMALL = {"draws": 1000, "warmup": 100, "particles": 50}  # the short run that tells one program from another
Row = dict[str, Any]


def best_of(rows: list[Row], method: str) -> Row:
    return min((r for r in rows if r["method"].startswith(method)), key=lambda r: r["wmse"])


def size_in_words(scale: float) -> str:
    return "at the paper's sizes" if scale == 1 else f"at {scale:g} of the paper's sizes"


def runs_of(*rows: Row) -> str:
    """How many runs there are, or from how many to how many.

    >>> runs_of({"runs": 20}, {"runs": 20}), runs_of({"runs": 20}, {"runs": 60})
    ('20', '20–60')
    """
    counts = sorted({row["runs"] for row in rows})
    return "–".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))


def smaller(rows: list[Row]) -> str:
    """What is smaller than at full size."""
    few = [row["runs"] for row in rows if (row.get("steps") or FEW_STEPS) < FEW_STEPS]
    others = [row["runs"] for row in rows if (row.get("steps") or FEW_STEPS) >= FEW_STEPS]
    words = runs_in_words(others, FULL.wmse_runs)
    if few and runs_in_words(few, FULL.wmse_few_runs):
        words += (
            "; " if words else ""
        ) + f"SMC with K < {FEW_STEPS}: {runs_in_words(few, FULL.wmse_few_runs)}"
    taus = len({row["tau"] for row in rows if row["tau"] is not None})
    if taus < len(FULL.wmse_taus):
        words += ("; " if words else "") + f"{taus} values of τ instead of {len(FULL.wmse_taus)}"
    return words


def trend(rows: Sequence[Row], method: str) -> tuple[float, float] | None:
    """By how much log WMSE changes from the first τ to the last, on the straight line that fits best, and its standard error; None if
    there are fewer than three τ, or if errors are not known.

    >>> rows = [{"method": "PT", "tau": tau, "wmse": wmse, "wmse_se": wmse} for tau, wmse in ((1, 1.0), (2, 1.0), (3, 1.0))]
    >>> trend(rows, "PT")[0] == 0, round(trend(rows, "PT")[1], 3)
    (True, 1.414)
    """
    some = [row for row in rows if row["method"].startswith(method) and row["tau"] is not None]
    if len(some) < 3 or not all(row.get("wmse_se") for row in some):
        return None
    tau, logs = np.array([row["tau"] for row in some]), np.log([row["wmse"] for row in some])
    weights = np.array([(row["wmse"] / row["wmse_se"]) ** 2 for row in some])
    tau = tau - np.average(tau, weights=weights)
    precision = float(weights @ tau**2)
    length = float(np.ptp(tau))
    return float(weights @ (tau * logs)) / precision * length, length / precision**0.5


def why_no_fall(tempering: Sequence[Row]) -> dict[str, Any]:
    """Reason, brief reason and evidence if WMSE of tempering rises with τ; `tempering` are the rows of ``boston_tempering``. Nothing if they do
    not show it: that the target is met at the hot end of the ladder, and that the chain at the target moves no more often."""
    by_tau = {tau: row for row in tempering for tau, name in TAUS_TRIED.items() if row["variant"] == name}
    if len(by_tau) < len(TAUS_TRIED):
        return {}
    (low, usual), (high, other) = sorted(by_tau.items())
    if other["mutation_rate_top"] > usual["mutation_rate_top"]:
        return {}
    return {
        "reason": f"A larger τ changes the hot rungs only. With τ = {high:g} instead of {low:g}, the hottest rung changes its model in {percent(other['mutation_rate_bottom'])} of its iterations instead of "
        f"{percent(usual['mutation_rate_bottom'])}, but the chain at the target in {percent(other['mutation_rate_top'])} instead of {percent(usual['mutation_rate_top'])}: no τ is met there, and what "
        "tempering lacks is moves on the colder rungs.",
        "brief": "a larger τ brings more moves on the hot rungs only, and none at the target",
        "evidence": [
            ["run of IA-PT", "WMSE", "mutation rate of the hottest rung", "mutation rate at the target"],
            *(
                [f"τ = {tau:g}", f"{number(row['wmse'], 2)} ± {number(row['wmse_se'], 2)}", number(row["mutation_rate_bottom"], 2), number(row["mutation_rate_top"], 2)]
                for tau, row in sorted(by_tau.items())
            ),
        ],
    }  # fmt: skip


def percent(rate: float) -> str:
    return f"{number(100 * rate, 2)} %"


def judge_trend(rows: Sequence[Row], tempering: Sequence[Row] = ()) -> list[Claim]:
    """Does tempering get better with τ, as in the paper? Nothing is said of two values of τ."""
    found = trend(rows, "PT")
    if found is None:
        return []
    change, error = found
    taus = sorted({row["tau"] for row in rows if row["method"].startswith("PT")})
    low, middle, high = (float(np.exp(change + k * error)) for k in (-CLEAR, 0.0, CLEAR))
    falls = change < -CLEAR * error
    return [
        Claim(
            "WMSE of IA-PT falls with τ",
            f"falls; {published.NOT_GIVEN}",
            f"from τ = {taus[0]:g} to τ = {taus[-1]:g} it changes by a factor of {number(middle, 2)} ({number(low, 2)}–{number(high, 2)})",
            True if falls else False if change > CLEAR * error else None,
            f"agrees if the straight line that fits log WMSE best falls by more than {CLEAR:g} standard errors"
            if abs(change) > CLEAR * error
            else f"by these runs it may fall or rise: the line that fits log WMSE best is within {CLEAR:g} standard errors of a level one",
            **(why_no_fall(tempering) if change > CLEAR * error else {}),
        )
    ]


def judge(
    rows: list[Row],
    scale: float,
    one_draw: float,
    table: bool = False,
    trips: Sequence[Row] = (),
    particles: Sequence[Row] = (),
    tempering: Sequence[Row] = (),
) -> list[Claim]:
    """The paper's order of the methods, at its numbers of iterations; then at equal CPU time. `one_draw` is ``boston.of_one_draw``; `table` says
    whether the errors of the paper's table of models are those of our IA-PT (``boston_models.as_tempering``); `trips`, `particles` and `tempering` are the
    rows of ``boston_trips``, ``boston_particles`` and ``boston_tempering``, which have the reasons."""

    simple = next(r for r in rows if r["method"] == SIMPLE)
    equal = next(r for r in rows if r["method"] == EQUAL)
    tempered = best_of(rows, "PT")

    def about(*others: Row) -> str:
        return f"{size_in_words(scale)}, {runs_of(simple, *others)} runs"

    out = [
        Claim(
            "WMSE of a run of simple MH",
            f"{number(published.MH_WMSE, 2)} ({published.MH_WMSE * published.WMSE_RUNS:g} is the sum over {published.WMSE_RUNS} runs)",
            number(simple["wmse"], 2),
            between(simple["wmse"], published.MH_WMSE / FACTOR, published.MH_WMSE * FACTOR)
            if scale == 1
            else None,
            f"agrees if within a factor of {FACTOR:g}; ours is add/delete/swap, the paper's simple MH may have other moves; {about()}"
            + ("" if scale == 1 else ": too few iterations for the paper's number"),
        )
    ]
    out.append(
        Claim(
            f"IA-PT (m = {published.RUNGS_BOSTON}) is well below simple MH",
            f"well below; {published.NOT_GIVEN}",
            f"{number(tempered['wmse'], 2)} at its best (τ = {tempered['tau']:g}) against {number(simple['wmse'], 2)}: "
            f"{times(tempered['wmse'] / simple['wmse'])}",
            bool(tempered["wmse"] < WELL_BELOW * simple["wmse"]),
            f"agrees if at most {WELL_BELOW:g} times; {about(tempered)}",
            **boston_trips.why(trips, one_draw, simple["wmse"], tempered["wmse"], table),
        )
    )
    out += judge_trend(rows, tempering)
    best = best_of(rows, "SMC, K = 50")
    why = boston_particles.why(particles, one_draw, simple["wmse"])
    out.append(
        Claim(
            "IA-SMC with K = 50 is below simple MH",
            f"below; {published.NOT_GIVEN}",
            f"{number(best['wmse'], 2)} at its best (τ = {best['tau']:g}) against {number(simple['wmse'], 2)}",
            bool(best["wmse"] < simple["wmse"]),
            f"agrees if below; {about(best)}",
            **why,
        )
    )
    fewer = {r["tau"]: r for r in rows if r["method"] == "SMC, K = 25"}
    at_least, at_most = fewer[min(fewer)], fewer[max(fewer)]
    smallest, largest = at_least["wmse"], at_most["wmse"]
    out.append(
        Claim(
            "IA-SMC with K = 25 is below simple MH only at small τ",
            f"below at small τ only; {published.NOT_GIVEN}",
            f"τ = {min(fewer):g}: {number(smallest, 2)}, τ = {max(fewer):g}: {number(largest, 2)}",
            bool(smallest < simple["wmse"] <= largest),
            f"agrees if it is below simple MH at the first τ and not at the second; {about(at_least, at_most)}",
            **why,
        )
    )
    ratio = tempered["wmse"] * tempered["cpu_seconds"] / (equal["wmse"] * equal["cpu_seconds"])
    out.append(
        Claim(
            "IA-PT is below simple MH for the same *CPU time*",
            published.NOT_GIVEN,
            f"WMSE × CPU seconds {times(ratio)} that of simple MH",
            bool(ratio < 1),
            f"simple MH ran as long as tempering, {number(equal['cpu_seconds'], 2)} CPU s a run; its memo of marginal likelihoods "
            "makes its iterations cheap, which the paper's count of iterations does not see",
            fairer=True,
        )
    )
    best = best_of(rows, "SMC")
    ratio = best["wmse"] * best["cpu_seconds"] / (simple["wmse"] * simple["cpu_seconds"])
    out.append(
        Claim(
            "IA-SMC is below simple MH in WMSE × CPU seconds",
            published.NOT_GIVEN,
            f"{times(ratio)} that of simple MH, at its best ({best['method']}, τ = {best['tau']:g})",
            bool(ratio < 1),
            about(best),
            fairer=True,
        )
    )
    return out


def measured(study: Study) -> list[Row]:
    """The paper's settings, and simple MH for as long as tempering takes, with their WMSE. Settings without two runs are left out."""
    effort, problem, truth = study.effort, study.problem("boston104"), study.truth("boston104").pip
    simple, *others = boston.plan(effort.wmse_taus, effort.wmse_scale)
    draws = max(2, round(EQUAL_DRAWS * effort.wmse_scale))
    equal = {"method": EQUAL, "tau": None, "draws": draws, "warmup": draws // 10}
    settings = [simple, equal, *others]

    def run(setting: Row, seed: int) -> Row:
        return boston.result_of(boston.run_setting(problem, setting, seed), truth)

    def due(setting: Row, place: int) -> bool:
        return place < effort.wmse_few_runs or setting.get("steps", FEW_STEPS) >= FEW_STEPS

    seeds = [boston.SEED + k for k in range(effort.wmse_runs)]
    found = study.results(TABLE, settings, seeds, run, SMALL, due)
    rows = [{**s, **boston.summarise(results)} for s, results in zip(settings, found) if len(results) > 1]
    have = {row["method"] for row in rows}
    needed = {SIMPLE, EQUAL, f"PT, m = {boston.RUNGS}", "SMC, K = 25", "SMC, K = 50"}
    if not needed <= have:
        raise TooFewRunsError(f"fewer than two runs of {', '.join(sorted(needed - have))}")
    return rows


def make(study: Study) -> Section:
    effort, truth = study.effort, study.truth("boston104")
    rows = plain(measured(study))
    section = Section(TITLE)
    draw(study, section, rows, boston.floor_of(truth))
    kept = [{key: value for key, value in r.items() if key != "wmse_by_run"} for r in rows]
    study.table(section, "boston_wmse", kept, "WMSE by method and τ, with its standard error over runs.")
    runs = [
        {"method": r["method"], "tau": r["tau"], "run": k, "wmse": e}
        for r in rows
        for k, e in enumerate(np.asarray(r["wmse_by_run"]))
    ]
    study.table(section, "boston_wmse_by_run", runs)

    def stored(name: str) -> list[Row]:
        path = study.out / f"{name}.csv"
        return read_table(path) if path.exists() else []

    table = boston_models.as_tempering(stored(boston_models.TABLE))
    trips, experiments = stored(boston_trips.TABLE), stored(boston_particles.TABLE)
    variants = stored(VARIANTS)
    section.claims = judge(
        rows, effort.wmse_scale, boston.of_one_draw(truth.pip), table, trips, experiments, variants
    )
    section.smaller = smaller(rows)
    section.kept_cpu_seconds = sum(row["runs"] * row["cpu_seconds"] for row in rows)
    return section


def drawn(rows: list[Row]) -> Any:
    """WMSE against τ, with two standard errors; lines for what does not depend on τ."""
    figure, axes = new_figure(width=7.0, height=4.4)
    ax = axes[0, 0]
    methods = [m for m in dict.fromkeys(r["method"] for r in rows) if not m.startswith(SIMPLE)]
    shift = 0.004  # so that error bars do not hide one another
    for place, (method, colour) in enumerate(zip(methods, (INK, PURPLE, AMBER, SKY, GREEN, ORANGE))):
        some = [r for r in rows if r["method"] == method]
        ax.errorbar(
            [r["tau"] + shift * (place - (len(methods) - 1) / 2) for r in some],
            [r["wmse"] for r in some],
            yerr=[2 * r["wmse_se"] for r in some],
            fmt="o-",
            markersize=4,
            linewidth=1.4,
            elinewidth=0.8,
            color=colour,
            label=f"IA-{method}",
        )
    lines = {r["method"]: r["wmse"] for r in rows if r["method"].startswith(SIMPLE)}
    ax.axhline(lines[SIMPLE], color=BLUE, linestyle="--", label="simple MH")
    ax.axhline(lines[EQUAL], color=BLUE, linestyle=":", label="simple MH,\nCPU time of IA-PT")
    ax.axhline(published.MH_WMSE, color=GREY, linestyle="--", label="simple MH in the paper")
    ax.set(xlabel="target τ", ylabel="WMSE of a run", yscale="log")
    taus = sorted({r["tau"] for r in rows if r["tau"] is not None})
    ax.set_xticks(taus, [f"{tau:g}" for tau in taus])  # the values that were run, and no others
    ax.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), labelspacing=0.9)
    return figure


def draw(study: Study, section: Section, rows: list[Row], floor: float) -> None:
    counts = runs_of(*rows)
    study.picture(
        section,
        "boston_wmse",
        drawn(rows),
        "Weighted mean squared error of the inclusion probabilities, with two standard errors; "
        f"{counts} runs {size_in_words(study.effort.wmse_scale)}, as the table says. The error of the reference itself adds {number(floor, 2)}.",
    )
