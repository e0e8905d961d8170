"""Runs on Tecator that several figures rest on; by ``benchmarks.tecator``, which has the settings."""

from functools import partial
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks import tecator
from benchmarks.common import plain
from benchmarks.runs import once, side_by_side
from papers.individual_adaptation.study import FULL, Study, TooFewRunsError, runs_in_words
from whichvars.plots.drawing import BLUE, GREEN, ORANGE

BOLD, CALM = 10.0, 1.0  # φ₀: the paper gives none; its figures are met with 10, our default is 1
COLOURS = {1: BLUE, 5: ORANGE, 25: GREEN}  # by number of chains
TABLE = "tecator"  # of the runs that are kept
SMALL = {"draws": 1000, "warmup": 100}  # the short run that tells one program from another
Row = dict[str, Any]


def grid(study: Study, draws: int) -> list[Row]:
    """Both competitors and every τ × r × w × φ₀, means over runs."""
    effort = study.effort

    def compute() -> list[Row]:
        study.say(f"Tecator: all settings, {effort.tecator_runs} runs of {draws:,} iterations")
        problem, truth = study.problem("tecator"), study.truth("tecator").pip

        def run(setting: Row, seed: int) -> Row:
            settings = {key: value for key, value in setting.items() if key not in SMALL}
            return tecator.measure(problem, settings, setting["draws"], setting["warmup"], seed, truth)

        settings = tecator.plan(effort.all_taus)
        sized = [{**setting, "draws": draws, "warmup": draws // 10} for setting in settings]
        seeds = [tecator.SEED + k for k in range(effort.tecator_runs)]
        found = study.results(TABLE, sized, seeds, run, SMALL)
        if not all(found):
            raise TooFewRunsError("not every setting has a run")
        return plain(tecator.summarise(settings, found))

    return study.once(f"tecator grid {draws}", compute)


def smaller(rows: list[Row]) -> str:
    """What is smaller than at full size."""
    words = runs_in_words([row["runs"] for row in rows], FULL.tecator_runs)
    return f"{words} of each setting" if words else ""


def cpu_seconds(rows: list[Row]) -> float:
    """Of all runs."""
    return sum(row["runs"] * row["cpu_seconds"] for row in rows)


def chosen(rows: list[Row], **having: Any) -> list[Row]:
    """The rows of individual adaptation that have these settings, by τ."""
    found = [
        r for r in rows if r["sampler"] == "ia" and all(r[key] == value for key, value in having.items())
    ]
    return sorted(found, key=lambda r: r["tau"])


def best(rows: list[Row], **having: Any) -> Row:
    """The row of individual adaptation with the largest mean ESS."""
    return max(chosen(rows, **having), key=lambda r: r["mean_ess"])


def several(study: Study, settings: list[Row], runs: int = 1) -> list[list[wv.Posterior]]:
    """Posteriors of individual adaptation, PIPs by frequency, in the order of the settings."""
    draws = study.effort.tecator_draws
    problem = study.problem("tecator")
    jobs = [
        partial(
            once, problem, tecator.sampler_of(s), tecator.SEED + 50 + run, False, draws=draws, warmup=draws // 10
        )
        for s in settings
        for run in range(runs)
    ]  # fmt: skip
    found = side_by_side(jobs, study.effort.threads)
    return [found[i * runs : (i + 1) * runs] for i in range(len(settings))]


def by_tau(study: Study, phi0: float, taus: tuple[float, ...] = (0.35, 0.45, 0.55)) -> list[wv.Posterior]:
    """A run at each τ."""

    def compute() -> list[wv.Posterior]:
        study.say(f"Tecator: a run at each of τ = {', '.join(f'{t:g}' for t in taus)}, φ₀ = {phi0:g}")
        return [
            runs[0] for runs in several(study, [{"sampler": "ia", "tau": tau, "phi0": phi0} for tau in taus])
        ]

    return study.once(f"tecator by tau {phi0} {taus}", compute)


def odds(probability: np.ndarray) -> np.ndarray:
    return probability / (1 - probability)
