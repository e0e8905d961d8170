"""Boston: weighted mean squared error of tempering and SMC against τ, and of simple Metropolis-Hastings."""

from typing import Any

import numpy as np

from benchmarks import boston
from benchmarks.common import number, plain
from papers.individual_adaptation import boston_models, published
from papers.individual_adaptation.study import Claim, Section, Study, between, new_figure, read_table, times
from whichvars.plots.drawing import AMBER, BLUE, GREEN, INK, ORANGE, PALE, PURPLE, SKY

TITLE = "Boston: WMSE of SMC, parallel tempering and simple MH"
FACTOR = 3.0  # the mean over a few runs of so skewed a quantity is not known better
WELL_BELOW = 0.5
FEW_ANCESTORS = (
    "At the end they descend from few of the particles that there were at high temperatures, where the modes separate: see “Boston: what "
    "holds tempering and SMC back”."
)
PAPERS_TABLE = (
    "The model probabilities that the paper prints are evidence, too: they are as far from the truth as those of one of our runs of IA-PT, and "
    "no nearer than those of simple MH: see “Boston: the most probable models”. "
)
Row = dict[str, Any]


def best_of(rows: list[Row], method: str) -> Row:
    return min((r for r in rows if r["method"].startswith(method)), key=lambda r: r["wmse"])


def of_one_draw(pip: np.ndarray) -> float:
    """Expected WMSE of one draw from the posterior itself, Σ_j w_j θ_j (1 − θ_j): a run with this WMSE divided by m is worth m
    independent draws."""
    return float(pip / pip.sum() @ (pip * (1 - pip)))


def size_in_words(scale: float) -> str:
    return "at the paper's sizes" if scale == 1 else f"at {scale:g} of the paper's sizes"


def judge(rows: list[Row], scale: float, one_draw: float, table: bool = False) -> list[Claim]:
    """The paper's order of the methods, at its numbers of iterations; then at equal CPU time. `one_draw` is ``of_one_draw``; `table` says
    whether the errors of the paper's table of models are those of our IA-PT (``boston_models.as_tempering``)."""

    simple = next(r for r in rows if r["method"] == "MH")
    equal = next(r for r in rows if r["method"].startswith("MH, "))
    tempered = best_of(rows, "PT")
    about = f"{size_in_words(scale)}, {simple['runs']} runs"
    out = [
        Claim(
            "WMSE of a run of simple MH",
            f"{number(published.MH_WMSE, 2)} ({published.MH_WMSE * published.WMSE_RUNS:g} is the sum over {published.WMSE_RUNS} runs)",
            number(simple["wmse"], 2),
            between(simple["wmse"], published.MH_WMSE / FACTOR, published.MH_WMSE * FACTOR)
            if scale == 1
            else None,
            f"agrees if within a factor of {FACTOR:g}; ours is add/delete/swap, the paper's simple MH may have other moves; {about}"
            + ("" if scale == 1 else ": too few iterations for the paper's number"),
        ),
        Claim(
            f"IA-PT (m = {published.RUNGS_BOSTON}) is well below simple MH",
            f"well below; {published.NOT_GIVEN}",
            f"{number(tempered['wmse'], 2)} at its best (τ = {tempered['tau']:g}) against {number(simple['wmse'], 2)}: "
            f"{times(tempered['wmse'] / simple['wmse'])}",
            bool(tempered["wmse"] < WELL_BELOW * simple["wmse"]),
            f"agrees if at most {WELL_BELOW:g} times; {about}",
            reason=f"A run of IA-PT is worth {number(one_draw / tempered['wmse'], 2)} independent draws from the posterior, one of simple MH "
            f"{number(one_draw / simple['wmse'], 2)}. Two programs that share no code agree on both "
            "numbers, and no choice that the paper leaves open changes the order: see “Boston: where tempering and SMC lose”. What limits IA-PT "
            "is how rarely a model travels the whole ladder: see “Boston: what holds tempering and SMC back”. "
            + (PAPERS_TABLE if table else "")
            + "We do not know what the authors' program did differently.",
        ),
    ]
    particles = best_of(rows, "SMC, K = 50")
    out.append(
        Claim(
            "IA-SMC with K = 50 is below simple MH",
            f"below; {published.NOT_GIVEN}",
            f"{number(particles['wmse'], 2)} at its best (τ = {particles['tau']:g}) against {number(simple['wmse'], 2)}",
            bool(particles["wmse"] < simple["wmse"]),
            f"agrees if below; {about}",
            reason=f"Its {published.PARTICLES_50:,} particles would have to be worth {number(one_draw / simple['wmse'], 2)} independent draws, and are "
            f"worth {number(one_draw / particles['wmse'], 2)}. {FEW_ANCESTORS} Learning within the K moves, as the paper prints it, makes no "
            "difference: see “Boston: where tempering and SMC lose”.",
        )
    )
    fewer = {r["tau"]: r["wmse"] for r in rows if r["method"] == "SMC, K = 25"}
    smallest, largest = fewer[min(fewer)], fewer[max(fewer)]
    out.append(
        Claim(
            "IA-SMC with K = 25 is below simple MH only at small τ",
            f"below at small τ only; {published.NOT_GIVEN}",
            f"τ = {min(fewer):g}: {number(smallest, 2)}, τ = {max(fewer):g}: {number(largest, 2)}",
            bool(smallest < simple["wmse"] <= largest),
            f"agrees if it is below simple MH at the first τ and not at the second; {about}",
            reason=f"Its particles are worth {number(one_draw / smallest, 2)} and {number(one_draw / largest, 2)} independent draws, those of simple MH "
            f"{number(one_draw / simple['wmse'], 2)}. {FEW_ANCESTORS}",
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
            about,
            fairer=True,
        )
    )
    return out


def drawn(rows: list[Row], floor: float) -> Any:
    """The picture: a line for each method over the target τ, and one across for each run of simple MH. `floor` is the reference's own
    error."""
    figure, axes = new_figure(width=6.4, height=4.2)
    ax = axes[0, 0]
    methods = [m for m in dict.fromkeys(r["method"] for r in rows) if not m.startswith("MH")]
    for method, colour in zip(methods, (INK, PURPLE, AMBER, SKY, GREEN, ORANGE)):
        some = [r for r in rows if r["method"] == method]
        ax.plot([r["tau"] for r in some], [r["wmse"] for r in some], "o-", color=colour, label=method)
    for r, style in zip((r for r in rows if r["method"].startswith("MH")), ("--", ":")):
        ax.axhline(r["wmse"], color=BLUE, linestyle=style, label=r["method"])
    ax.axhline(floor, color=PALE, label="the reference's own error")
    ax.set(xlabel="target τ", ylabel="WMSE", yscale="log")
    taus = sorted({r["tau"] for r in rows if r["tau"] is not None})
    ax.set_xticks(taus, [f"{tau:g}" for tau in taus])  # the values that were run, and no others
    ax.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def make(study: Study) -> Section:
    effort, problem = study.effort, study.problem("boston104")
    truth = study.truth("boston104")
    settings = boston.plan(effort.wmse_taus, effort.wmse_scale)
    rows = plain(
        boston.run_settings(
            problem, truth.pip, settings, effort.wmse_runs, effort.threads, study.say, effort.wmse_few_runs
        )
    )
    section = Section(TITLE)
    figure = drawn(rows, boston.floor_of(truth))
    study.picture(
        section,
        "boston_wmse",
        figure,
        f"Weighted mean squared error of the inclusion probabilities, {effort.wmse_runs} runs {size_in_words(effort.wmse_scale)}.",
    )
    kept = [{key: value for key, value in r.items() if key != "wmse_by_run"} for r in rows]
    study.table(section, "boston_wmse", kept, "WMSE by method and τ, with its standard error over runs.")
    runs = [
        {"method": r["method"], "tau": r["tau"], "run": k, "wmse": e}
        for r in rows
        for k, e in enumerate(np.asarray(r["wmse_by_run"]))
    ]
    study.table(section, "boston_wmse_by_run", runs)
    path = study.out / f"{boston_models.TABLE}.csv"
    table = boston_models.as_tempering(read_table(path) if path.exists() else [])
    section.claims = judge(rows, effort.wmse_scale, of_one_draw(truth.pip), table)
    return section
