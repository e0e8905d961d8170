"""Is ``target_mcse`` honoured? Runs that stop by it, beside the reference inclusion probabilities.

The largest error of an inclusion probability is the largest of p errors, so it may be above the target: four times that
is allowed. A run that its budget ended is not counted; it says itself that it is not accurate yet.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import common, problems
from benchmarks.common import Table, number
from benchmarks.references import load
from benchmarks.runs import quiet

ALLOWED = 4.0


def measure(
    names: list[str], target: float, runs: int, budget: float, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """`runs` runs on each problem of the sampler that ``auto`` takes, `budget` seconds at most."""
    import whichvars as wv

    rows = []
    for name in names:
        say(name)
        problem = problems.build(name)
        reference = load(name, problem)
        if isinstance(reference, str):
            raise ValueError(f"{name}: {reference}")
        found = []
        for seed in range(runs):
            with quiet():
                posterior = wv.sample(
                    problem, wv.Hybrid(), draws=10**9, target_mcse=target, budget=budget, seed=seed, threads=1, progress=False
                )  # fmt: skip
            found.append(
                {
                    "stopped": posterior.stopped,
                    "seconds": posterior.cpu_seconds,
                    "claimed": float(np.nanmax(posterior.mcse)),
                    "worst": float(np.abs(posterior.pip - reference.pip).max()),
                }
            )
        rows.append({"name": name, "runs": found})
    return {"environment": common.environment(), "target": target, "budget": budget, "rows": rows}


def tables(result: dict[str, Any]) -> list[Table]:
    target = result["target"]
    table = Table(
        f"Runs that stop when every Monte Carlo error is below {target:g}",
        ["problem", "runs that reached it", "CPU seconds, median", "largest error, median", "the worst run's", f"below {ALLOWED:g} times the target"],
    )  # fmt: skip
    for row in result["rows"]:
        reached = [x for x in row["runs"] if x["stopped"] == "target_mcse"]
        cells = ["–"] * 4
        if reached:
            worst = np.array([x["worst"] for x in reached])
            good = int((worst < ALLOWED * target).sum())
            seconds = float(np.median([x["seconds"] for x in reached]))
            cells = [number(seconds), number(float(np.median(worst))), number(float(worst.max())), f"{good} of {len(worst)}"]  # fmt: skip
        table.rows.append([row["name"], f"{len(reached)} of {len(row['runs'])}", *cells])
    return [table]
