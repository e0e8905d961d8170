"""Boston: does IA-SMC lose accuracy by the way in which its particles learn? Readings of what the paper
prints, in many short runs of the second program, so that differences have error bars."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import boston
from benchmarks.common import number
from papers.individual_adaptation import independent
from papers.individual_adaptation.published import NOT_GIVEN
from papers.individual_adaptation.study import (
    FULL,
    Claim,
    Section,
    Study,
    TooFewRunsError,
    new_figure,
    runs_in_words,
)
from whichvars.plots.drawing import BLUE, INK, ORANGE

TITLE = "Boston: how the particles of IA-SMC learn"
ABOUT = (
    "The paper adapts A and D within the K moves of a particle, all particles sharing them, and starts the counter of the adaptation again at "
    "each temperature. In our program a particle makes its K moves with A and D as they are, and what it learned is used from the next particle "
    "on, because learning within the moves was biased. Here both ways are compared, each with a counter that starts again at each temperature "
    "and with one that goes on. The runs are small, so that there can be many of them: only ratios between the ways of learning can be read off."
)
TABLE = "boston_learning"
CLEAR = 2.0  # standard errors
CAPTION = (
    "How particles learn, in runs with a sixteenth of the paper's particles, by the second program, τ = .45. *Ratio* is the mean WMSE "
    "divided by that of our way of learning, with its standard error; *counter* says whether the counter of the adaptation starts again at "
    "each temperature."
)
SEED = 1700
RUNS = 40  # of each reading
PART = 16  # the paper's particles are divided by this
TAU = 0.45
STEPS = (50, 25)
BETWEEN, WITHIN = "between particles", "within the K moves"
RESET, GOES_ON = "starts again", "goes on"
SMALL = {"particles": 20}  # the short run that tells one program from another
LEARNING = {BETWEEN: independent.BETWEEN, WITHIN: independent.WITHIN}
READINGS = ((BETWEEN, RESET), (WITHIN, RESET), (BETWEEN, GOES_ON), (WITHIN, GOES_ON))
Row = dict[str, Any]


def ratio_of(values: np.ndarray, usual: np.ndarray) -> tuple[float, float]:
    """The ratio of two means and its standard error, by the delta method; the runs of the two are independent.

    >>> ratio_of(np.array([2.0, 4.0]), np.array([1.0, 1.0]))
    (3.0, 1.0)
    """
    means = values.mean(), usual.mean()
    parts = [v.std(ddof=1) / np.sqrt(len(v)) / m for v, m in zip((values, usual), means)]
    ratio = means[0] / means[1]
    return float(ratio), float(ratio * np.hypot(*parts))


def rows(study: Study) -> list[Row]:
    """A row for each K and reading that has two runs; none if our own way has none."""
    data, truth = independent.boston_data(), study.truth("boston104").pip

    def run(setting: Row, seed: int) -> Row:
        place = [(steps, *reading) for steps in STEPS for reading in READINGS].index(
            (setting["steps"], setting["learning"], setting["counter"])
        )
        rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(seed - SEED, place)))
        started = time.thread_time()
        pip, temperatures, distinct, _ = independent.particles(
            data, rng, setting["particles"], setting["steps"], TAU, 1.0, 0.55, 0.9,
            LEARNING[setting["learning"]], setting["counter"] == RESET, np.empty(0),
        )  # fmt: skip
        return {
            "wmse": float(boston.wmse(pip[None], truth)[0]),
            "cpu_seconds": time.thread_time() - started,
            "temperatures": temperatures,
            "distinct": distinct,
        }

    settings: list[Row] = [
        {
            "steps": steps,
            "learning": learning,
            "counter": counter,
            "particles": max(2, round(boston.PARTICLES[steps] * study.effort.wmse_scale / PART)),
        }
        for learning, counter in READINGS
        for steps in STEPS
    ]
    count = min(RUNS, 2 * study.effort.variant_runs)
    found = study.results(TABLE, settings, [SEED + k for k in range(count)], run, SMALL)
    errors = {
        (s["steps"], s["learning"], s["counter"]): np.array([r["wmse"] for r in results])
        for s, results in zip(settings, found)
    }
    out = []
    for setting, results in zip(settings, found):
        usual = errors[setting["steps"], BETWEEN, RESET]
        if len(results) < 2 or len(usual) < 2:
            continue
        summary = boston.summarise(results)
        ratio, error = ratio_of(errors[setting["steps"], setting["learning"], setting["counter"]], usual)
        ours = (setting["learning"], setting["counter"]) == (BETWEEN, RESET)
        out.append(
            {
                "K": setting["steps"],
                "particles": setting["particles"],
                "learning": setting["learning"],
                "counter": setting["counter"],
                "runs": summary["runs"],
                "wmse": summary["wmse"],
                "wmse_se": summary["wmse_se"],
                "ratio": None if ours else ratio,
                "ratio_se": None if ours else error,
                "temperatures": float(np.mean([r["temperatures"] for r in results])),
                "distinct_models": float(np.mean([r["distinct"] for r in results])),
                "cpu_seconds": summary["cpu_seconds"],
            }
        )
    return sorted(out, key=lambda row: -row["K"])


def in_words(row: Row) -> str:
    """One reading of how particles learn.

    >>> in_words({"learning": "within the K moves", "counter": "goes on"})
    'learning within the K moves, counter goes on'
    """
    return f"learning {row['learning']}, counter {row['counter']}"


def judge(found: Sequence[Row]) -> list[Claim]:
    """For each K and reading: is it more accurate than ours?"""
    out = []
    for row in found:
        if row.get("ratio") is None:
            continue
        ratio, error = row["ratio"], row["ratio_se"]
        better, worse = ratio < 1 - CLEAR * error, ratio > 1 + CLEAR * error
        out.append(
            Claim(
                f"IA-SMC with K = {row['K']} is more accurate by {in_words(row)}",
                NOT_GIVEN,
                f"WMSE {number(ratio, 2)} ± {number(error, 2)} times that of our way of learning",
                better if better or worse else None,
                f"judged if the ratio is at least {CLEAR:g} standard errors from 1; {row['runs']} runs with {row['particles']:,} particles",
                fairer=True,
            )
        )
    return out


def drawn(found: Sequence[Row]) -> Any:
    """WMSE of each reading, with two standard errors."""
    figure, axes = new_figure(width=7.0, height=3.2)
    ax, shown = axes[0, 0], list(found)[::-1]
    for place, row in enumerate(shown):
        colour = INK if row.get("ratio") is None else ORANGE if row["learning"] == WITHIN else BLUE
        ax.errorbar(row["wmse"], place, xerr=CLEAR * row["wmse_se"], fmt="o", color=colour, markersize=4)
    ax.set_yticks(range(len(shown)), [f"K = {r['K']}, {in_words(r)}" for r in shown], fontsize=8)
    ax.set(xlabel="WMSE of a run, with two standard errors")
    return figure


def make(study: Study) -> Section:
    found = rows(study)
    if len(found) < len(STEPS) * len(READINGS):
        raise TooFewRunsError("fewer than two runs of a way of learning")
    section = Section(TITLE, [ABOUT])
    study.picture(
        section, TABLE, drawn(found), "WMSE by the way in which particles learn; black is our program's way."
    )
    study.table(section, TABLE, found, CAPTION)
    section.claims = judge(found)
    section.smaller = runs_in_words([row["runs"] for row in found], min(RUNS, 2 * FULL.variant_runs))
    section.kept_cpu_seconds = sum(row["runs"] * row["cpu_seconds"] for row in found)
    return section
