"""A response of two values and twenty thousand columns: does a run reach a Monte Carlo error of .02, in how much time and memory?

Data sets, priors and seeds were written down before any of them was run: n = 500 rows, p = 20,000 columns whose neighbours are correlated by ½, ten
effects on the log odds, the largest ±1 (``counts_and_classes.py``), data seeds 0 to 5. The prior expects five variables: independently of one another,
as in the other problems of this kind, or with the default of ``Problem``, under which the number of variables varies more.

Each data set is a process of its own. It compiles with a small problem first; then it notes its memory, X and y included, and the CPU time from making
the problem to the posterior. Memory is the largest that was resident, less what was noted.
"""

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import Table, number
from benchmarks.counts_and_classes import sparse_data
from benchmarks.wide import peak_bytes

ROWS, COLUMNS, EFFECT, TARGET = 500, 20_000, 1.0, 0.02
SEEDS = (0, 1, 2, 3, 4, 5)
PRIORS = ("fixed", "default")
WANTED_SECONDS, WANTED_BYTES = 120.0, 1e9


def resident_bytes() -> int:
    """Memory in use now, or at its peak where the system does not say."""
    try:
        with open("/proc/self/status") as status:
            return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    except OSError:
        return peak_bytes()


def run(seed: int, prior: str, columns: int, target: float, budget: float, run_seed: int) -> dict[str, Any]:
    """In this process: one run."""
    import whichvars as wv

    warnings.simplefilter("ignore")

    def problem_of(n: int, p: int) -> tuple[Any, dict[str, Any]]:
        X, y = sparse_data(n, p, EFFECT, seed)[:2]
        priors = {} if prior == "default" else {"model_prior": wv.FixedInclusion(size=5)}
        return (X, y), {"family": "logistic", "engine": "columns", **priors}

    sampling: dict[str, Any] = {"threads": 1, "progress": False, "target_mcse": target}
    small, arguments = problem_of(60, 40)
    wv.sample(wv.Problem(*small, **arguments), wv.Hybrid(), draws=3000, seed=1, **sampling)  # compiles
    data, arguments = problem_of(ROWS, columns)
    before, began = resident_bytes(), time.process_time()
    problem = wv.Problem(*data, **arguments | {"engine": "auto"})
    made = time.process_time()
    posterior = wv.sample(problem, draws=10**9, budget=budget, seed=run_seed, **sampling)
    seconds = time.process_time() - began
    worst = int(np.nanargmax(posterior.mcse))
    learned = posterior.adaptation[0]
    return {
        "seed": seed,
        "prior": prior,
        "stopped": posterior.stopped,
        "converged": posterior.converged,
        "cpu_seconds": seconds,
        "cpu_seconds_to_build": made - began,
        "bytes": peak_bytes() - before,
        "bytes_of_data": data[0].memory_usage().sum(),
        "error": float(posterior.mcse[worst]),
        "worst": problem.names[worst],
        "worst_pip": float(posterior.pip[worst]),
        "mean_size": posterior.mean_size,
        "iterations": posterior.iterations,
        "fits": sum(int(found.get("fits", 0)) for found in posterior.adaptation),
        "moves": learned.get("moves_per_draw"),
        "pip": posterior.pip.astype(np.float32).tolist(),
    }


def measure(
    seeds: tuple[int, ...] = SEEDS,
    priors: tuple[str, ...] = PRIORS,
    columns: int = COLUMNS,
    target: float = TARGET,
    budget: float = 600.0,
    run_seeds: tuple[int, ...] = (0,),
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """One run of each data set under each prior with each seed of a run, `budget` seconds at most."""
    found = []
    for prior in priors:
        for seed in seeds:
            for run_seed in run_seeds:
                say(f"data seed {seed}, {prior} prior, seed {run_seed}")
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.many_columns",
                    *map(str, (seed, prior, columns, target, budget, run_seed)),
                ]
                done = subprocess.run(command, cwd=common.ROOT, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise RuntimeError(done.stderr)
                found.append(json.loads(done.stdout.splitlines()[-1]))
                say(", ".join(f"{name} {value}" for name, value in found[-1].items() if name != "pip"))
    apart = [
        float(np.abs(np.array(one["pip"]) - np.array(other["pip"])).max())
        for i, one in enumerate(found)
        for other in found[:i]
        if (one["seed"], one["prior"]) == (other["seed"], other["prior"])
    ]
    for one in found:
        del one["pip"]
    return {
        "environment": common.environment(), "rows": found, "columns": columns, "target": target, "budget": budget, "apart": apart,
    }  # fmt: skip


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(
        f"Logistic regression, n = {ROWS}, p = {result['columns']:,}: runs that stop at a Monte Carlo error of {result['target']:g}",
        ["data", "prior", "stopped by", "largest error", "of a PIP of", "CPU seconds", "MB beyond X and libraries", "models fitted", "verdict"],
        note=f"Wanted: below {WANTED_SECONDS:g} CPU seconds and {WANTED_BYTES / 1e6:,.0f} MB.",
    )  # fmt: skip
    for row in result["rows"]:
        table.rows.append(
            [
                f"seed {row['seed']}",
                row["prior"],
                row["stopped"],
                number(row["error"]),
                number(row["worst_pip"]),
                number(row["cpu_seconds"]),
                number(row["bytes"] / 1e6),
                f"{row['fits']:,}",
                "converged" if row["converged"] else "not yet",
            ]
        )
    if result["apart"]:
        worst = max(result["apart"])
        table.note += (
            f" Two runs of the same data differ by at most {number(worst)} in an inclusion probability."
        )
    return [table]


if __name__ == "__main__":
    texts = sys.argv[1:]
    outcome = run(int(texts[0]), texts[1], int(texts[2]), float(texts[3]), float(texts[4]), int(texts[5]))
    print(json.dumps(common.plain(outcome)))
