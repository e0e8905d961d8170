"""One table for all samplers: what a CPU second buys, as a ratio to add/delete/swap in the same run.

Each run is one replicate on one thread with a number of iterations that a pilot found to take `budget` CPU
seconds; runs of different samplers take turns, so that a slow minute of the machine hits all alike. The
measure is

    gain = [mean squared PIP error × CPU seconds of add/delete/swap] / [the same of the sampler]

because the mean squared error of a chain falls like 1/time, the product does not depend on the budget once
the run is long enough. Errors are against a stored reference, whose own squared error is subtracted.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks import problems, runs
from benchmarks.common import TICK, Table, environment, number
from benchmarks.references import Reference, load

# To compare a new sampler, add a line to both.
SAMPLERS: dict[str, Any] = {
    "ads": wv.AddDeleteSwap(),
    "ads-rb": wv.AddDeleteSwap(),
    "lamnisos": wv.Lamnisos(),
    "ia": wv.IndividualAdaptation(w=0),
    "rapa": wv.IndividualAdaptation(),
    "rapa-phi10": wv.IndividualAdaptation(phi0=10),
    "mca5": wv.IndividualAdaptation(chains=5),
    "mca5-phi10": wv.IndividualAdaptation(chains=5, phi0=10),
    "pt-ia": wv.ParallelTempering(rungs=6),
    "pt-ads": wv.ParallelTempering(wv.AddDeleteSwap(), rungs=3, steps=10),
    "smc": wv.SequentialMonteCarlo(),
    "asi": wv.ASI(),
    "parni": wv.PARNI(),
    "tgibbs": wv.TemperedGibbs(),
    "subset": wv.SubsetGibbs(),
    "hybrid": wv.Hybrid(),
}
LABELS = {
    "ads": "add/delete/swap, PIPs by frequency",
    "ads-rb": "add/delete/swap",
    "lamnisos": "Lamnisos",
    "ia": "IA (w = 0)",
    "rapa": "IA, RAPA (w = ½)",
    "rapa-phi10": "IA, RAPA, φ₀ = 10",
    "mca5": "IA, RAPA, 5 chains",
    "mca5-phi10": "IA, RAPA, 5 chains, φ₀ = 10",
    "pt-ia": "tempered IA, 6 rungs",
    "pt-ads": "tempered add/delete/swap, 3 rungs",
    "smc": "sequential Monte Carlo",
    "asi": "ASI, 5 chains",
    "parni": "PARNI, 5 chains",
    "tgibbs": "weighted tempered Gibbs, 5 chains",
    "subset": "weighted tempered Gibbs by subsets",
    "hybrid": "hybrid, 5 chains (what auto takes)",
}
BY_FREQUENCY = {"ads"}  # run without Rao–Blackwell sums: the plain baseline
BASELINE = "ads"
SEED = 1000
INFORMATIVE = 0.01  # minimum ESS is over variables whose reference PIP is this far from 0 and 1

FINE, FLAGGED, REFUSED = "fine", "flagged", "refused"
SMALL_FLOOR = 0.1  # share of the reference's error in a measured one up to which nothing is said
LARGE_FLOOR = 0.5  # and above which no number is given


def once(problem: wv.Problem, sampler: Any, draws: int, seed: int, averages: bool = True) -> wv.Posterior:
    """One run: a single replicate on a single thread. Sequential Monte Carlo takes as many particles instead of draws.

    Surrogates of responses that are not Gaussian are made once for each problem. With a copy of the problem, every run pays for its own.
    """
    problem = copy.copy(problem)
    if isinstance(sampler, wv.SequentialMonteCarlo):
        return runs.once(problem, replace(sampler, particles=draws), seed, averages)
    return runs.once(problem, sampler, seed, averages, draws=draws)


def calibrate(problem: wv.Problem, sampler: Any, budget: float, averages: bool = True) -> int:
    """Draws that take about `budget` CPU seconds, warm-up included; compiles on the way."""
    once(problem, sampler, 1000, 0, averages)
    draws = 2000
    while True:
        seconds = once(problem, sampler, draws, 0, averages).cpu_seconds
        if seconds >= 0.5 * budget:  # unless it has compiled something
            seconds = min(seconds, once(problem, sampler, draws, 0, averages).cpu_seconds)
        if seconds >= 0.5 * budget:  # less would be mostly warm-up, which need not be as fast as the rest
            return max(1000, round(draws * budget / seconds))
        draws = round(draws * min(20.0, max(2.0, 0.7 * budget / max(seconds, 1e-6))))


def minimum_ess(posterior: wv.Posterior, reference: np.ndarray | None) -> float | None:
    """The smallest effective sample size among the variables that are neither surely in nor surely out.

    By the reference, where there is one: then a variable that should have moved and never did counts as 0.
    """
    ess = posterior.inclusion_ess.to_numpy()
    if np.isnan(ess).all():  # one run of particles has no errors of its own
        return None
    ess = np.nan_to_num(ess, nan=0.0, posinf=0.0)
    pip = posterior.pip if reference is None else reference
    open_question = (pip > INFORMATIVE) & (pip < 1 - INFORMATIVE)
    return float(ess[open_question].min()) if open_question.any() else None


def score(pips: np.ndarray, seconds: np.ndarray, reference: np.ndarray, floor: float) -> dict[str, Any]:
    """Errors of several runs against a reference. Shapes (runs, p), (runs,), (p,).

    `cost` is the mean over runs of (mean squared error − floor) × CPU seconds, None where the floor is too
    large a part of the error to be subtracted.
    """
    errors = np.asarray(pips, float) - reference
    squared = (errors**2).mean(axis=1)
    share = float(floor / squared.mean()) if squared.mean() > 0 else (1.0 if floor > 0 else 0.0)
    trust = FINE if share <= SMALL_FLOOR else FLAGGED if share <= LARGE_FLOOR else REFUSED
    costs = (squared - floor) * np.asarray(seconds, float)
    return {
        "mse_runs": squared,
        "rmse": float(np.sqrt(max(squared.mean() - floor, 0.0))),
        "floor_share": share,
        "trust": trust,
        "costs": costs,
        "cost": float(costs.mean()) if trust != REFUSED else None,
        "worst_error": float(np.abs(errors).max()),
    }


def gain(baseline: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Ratio of costs, with a 90 % bootstrap interval over runs; None where either cost was refused."""
    if baseline["cost"] is None or other["cost"] is None or other["cost"] <= 0 or baseline["cost"] <= 0:
        return {"gain": None, "gain_low": None, "gain_high": None}
    rng = np.random.default_rng(0)

    def resampled(costs: np.ndarray) -> np.ndarray:
        costs = np.asarray(costs, float)
        return costs[rng.integers(0, len(costs), (2000, len(costs)))].mean(axis=1)

    above, below = resampled(baseline["costs"]), resampled(other["costs"])
    ratios = np.where(below > 0, above / np.where(below > 0, below, 1.0), np.inf)
    low, high = np.quantile(ratios, [0.05, 0.95]) if len(other["costs"]) > 1 else (np.nan, np.nan)
    return {
        "gain": baseline["cost"] / other["cost"],
        "gain_low": float(low),
        "gain_high": float(high),
    }


def compare_on(
    problem: wv.Problem,
    samplers: dict[str, Any],
    budget: float,
    runs: int,
    reference: Reference | str,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """All samplers on one problem. `reference` is a text where there is none."""
    draws = {}
    for name, sampler in samplers.items():
        draws[name] = calibrate(problem, sampler, budget, name not in BY_FREQUENCY)
        say(f"  {name}: {draws[name]:,} draws")
    found: dict[str, list[wv.Posterior]] = {name: [] for name in samplers}
    for run in range(runs):
        order = list(samplers)
        order = order[run % len(order) :] + order[: run % len(order)]
        for name in order:
            averages = name not in BY_FREQUENCY
            found[name].append(once(problem, samplers[name], draws[name], SEED + run, averages))
    known = reference if isinstance(reference, Reference) else None
    rows = {}
    for name, posteriors in found.items():
        seconds = np.array([posterior.cpu_seconds for posterior in posteriors])
        ess = [minimum_ess(posterior, known.pip if known else None) for posterior in posteriors]
        mutation = [posterior.adaptation[0].get("mutation_rate", np.nan) for posterior in posteriors]
        row: dict[str, Any] = {
            "draws": draws[name],
            "cpu_seconds": seconds,
            "iterations_per_second": float(
                np.median([p.iterations / max(p.cpu_seconds, TICK) for p in posteriors])
            ),
            "mutation_rate": float(np.mean(mutation)),
            "minimum_ess": None if None in ess else float(np.median(ess)),  # type: ignore[arg-type]
        }
        if known:
            row |= score(np.array([p.pip for p in posteriors]), seconds, known.pip, known.floor)
            errors = np.array([p.mcse for p in posteriors])
            claimed = 0.0 if np.isnan(errors).all() else np.sqrt(np.mean(np.nanmean(errors**2, axis=1)))
            row["calibration"] = row["rmse"] / claimed if claimed > 0 else None
        rows[name] = row
    if known:
        for name, row in rows.items():
            if BASELINE in rows:
                row |= (
                    gain(rows[BASELINE], row) if name != BASELINE else {"gain": 1.0 if row["cost"] else None}
                )
    about = {
        "reference": known.about | {"rms_error": known.floor**0.5, "worst_error": known.worst}
        if known
        else str(reference)
    }
    return {**about, "runs": runs, "samplers": rows}


def compare(
    names: Sequence[str],
    samplers: Sequence[str],
    budget: float,
    runs: int,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """The whole comparison, as it is written to JSON."""
    chosen = {name: SAMPLERS[name] for name in samplers}
    result: dict[str, Any] = {"environment": environment(), "budget": budget, "runs": runs, "problems": {}}
    result["settings"] = {name: repr(sampler) for name, sampler in chosen.items()}
    for name in names:
        say(name)
        problem = problems.build(name)
        reference = load(name, problem)
        result["problems"][name] = {
            "about": problems.PROBLEMS[name].about,
            "commit": result["environment"]["commit"],
            **compare_on(problem, chosen, budget, runs, reference, say),
        }
    return result


COLUMNS = [
    "sampler",
    "iterations/s",
    "mutation rate",
    "gain",
    "90 %",
    "RMS error",
    "actual/claimed",
    "worst error",
    "min ESS",
]


def tables(result: dict[str, Any]) -> list[Table]:
    """One table a problem."""
    out = []
    for found in result["problems"].values():
        table = Table(f"{found['about']}", COLUMNS)
        for name, row in found["samplers"].items():
            mark = "≈ " if row.get("trust") == FLAGGED else ""
            value = row.get("gain")
            interval = "–"
            if row.get("gain_low") is not None and row.get("gain_high") is not None:
                interval = f"{number(row['gain_low'], 2)} – {number(row['gain_high'], 2)}"
            table.rows.append([
                LABELS.get(name, name),
                number(row["iterations_per_second"]),
                number(row["mutation_rate"]),
                "refused" if row.get("trust") == REFUSED else mark + number(value),
                interval,
                "refused" if row.get("trust") == REFUSED else mark + number(row.get("rmse")),
                "refused" if row.get("trust") == REFUSED else number(row.get("calibration"), 2),
                number(row.get("worst_error")),
                number(row["minimum_ess"]),
            ])  # fmt: skip
        reference = found["reference"]
        if isinstance(reference, str):
            table.note = reference
        else:
            table.note = (
                f"Reference: {reference['sampler']}, {reference['iterations']:,} iterations ({reference['environment']['date']}, "
                f"commit {reference['environment']['commit']}); its own RMS error {number(reference['rms_error'], 2)}, "
                f"worst {number(reference['worst_error'], 2)}."
            )
            marks = {row.get("trust") for row in found["samplers"].values()}
            if FLAGGED in marks:
                table.note += f" ≈: the reference's error is more than {SMALL_FLOOR:.0%} of the measured one (subtracted)."
            if REFUSED in marks:
                table.note += f" refused: it is more than {LARGE_FLOOR:.0%} of it; make a longer reference."
        if found.get("runs", result["runs"]) != result["runs"]:
            table.note += f" {found['runs']} runs of each sampler."
        commit = result["environment"]["commit"]
        if found.get("commit", commit) != commit:
            table.note += f" Measured at commit {found['commit']}."
        out.append(table)
    return out


EXPLANATION = (
    "gain: mean squared PIP error × CPU seconds of add/delete/swap over that of the sampler (> 1 is better), with a "
    "90 % bootstrap interval over runs; actual/claimed: root mean squared error over the root mean squared Monte Carlo "
    "error that the runs report; worst error: largest of any PIP in any run; min ESS: smallest effective sample size of "
    "an inclusion indicator whose reference PIP is between .01 and .99, median over runs (0: it never moved)."
)
