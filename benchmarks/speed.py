"""Iterations per CPU second of every sampler, beside those of another checkout.

Both checkouts run in a process of their own on the same problems with the same numbers of draws, in turns, so that a slow minute of
the machine hits both alike. All chains start at the null model, and only the time in which they move is counted: how starting models
are found is another matter, and ``cpu_seconds`` of a posterior has counted it in some versions and not in others. Iterations mean the
same in both checkouts only as long as the sampler does; where it was changed in between, `compare` says which of the two is better.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks import compare
from benchmarks.common import Table, environment, number

PACKAGE = Path(__file__).resolve().parent.parent
PROBLEMS = ("boston104", "tecator", "fls", "ar5000")
# sequential Monte Carlo has particles instead of draws, and the same moves as the others
SAMPLERS = tuple(name for name in compare.SAMPLERS if name not in ("ads-rb", "smc"))
PILOT = 2000  # draws, which also compile what is not compiled yet
WORKER = """
import json, sys, time, warnings
import whichvars as wv
from benchmarks import compare, problems
warnings.simplefilter("ignore")
spent = 0.0

def timed(advance):
    def advance_and_time(*arguments):
        global spent
        began = time.process_time()
        advance(*arguments)
        spent += time.process_time() - began
    return advance_and_time

for kind in {type(sampler) for sampler in compare.SAMPLERS.values()}:
    kind.advance = timed(kind.advance)
for line in sys.stdin:
    problem, sampler, draws, seed = json.loads(line)
    spent = 0.0
    posterior = wv.sample(problems.build(problem), compare.SAMPLERS[sampler], draws=draws, warmup=draws // 10, seed=seed, start="null",
                          replicates=1, threads=1, rao_blackwell=False, progress=False)
    print(json.dumps(posterior.iterations / spent), flush=True)
"""


class Checkout:
    """A process that runs samplers with the sources of one checkout."""

    def __init__(self, where: Path) -> None:
        path = os.pathsep.join([str(where / "src"), str(where)])
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=where, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def rate(self, problem: str, sampler: str, draws: int, seed: int) -> float:
        """Iterations per CPU second."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([problem, sampler, draws, seed]), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{sampler} on {problem} failed in another process; its message is above")
        return float(json.loads(answer))

    def __enter__(self) -> "Checkout":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()


def measure(
    baseline: Path,
    problems: Sequence[str] = PROBLEMS,
    samplers: Sequence[str] = SAMPLERS,
    repeats: int = 5,
    seconds: float = 0.5,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Rates of both checkouts, as they are written to JSON. `seconds` is about how long a run takes."""
    result: dict[str, Any] = {"environment": environment(), "repeats": repeats, "rows": []}
    with Checkout(PACKAGE) as here, Checkout(baseline) as there:
        for problem in problems:
            for sampler in samplers:
                say(f"{sampler} on {problem}")
                there.rate(problem, sampler, PILOT, 0)
                here.rate(problem, sampler, PILOT, 0)  # compiles
                draws = max(PILOT, int(seconds * here.rate(problem, sampler, PILOT, 0)))
                rates: dict[str, list[float]] = {"rates": [], "baseline_rates": []}
                for repeat in range(repeats):
                    both = [("rates", here), ("baseline_rates", there)]
                    for name, checkout in both if repeat % 2 else reversed(both):
                        rates[name].append(checkout.rate(problem, sampler, draws, repeat))
                result["rows"].append({"problem": problem, "sampler": sampler, "draws": draws, **rates})
    return result


def tables(result: dict[str, Any]) -> list[Table]:
    """One row per sampler, one column per problem: the median ratio to the baseline, and its range."""
    names = list(dict.fromkeys(row["problem"] for row in result["rows"]))
    table = Table(
        f"Iterations per CPU second, as a ratio to the baseline's: median and range of {result['repeats']} pairs of runs",
        ["sampler", *names],
    )
    for sampler in dict.fromkeys(row["sampler"] for row in result["rows"]):
        cells = {row["problem"]: row for row in result["rows"] if row["sampler"] == sampler}
        table.rows.append([compare.LABELS[sampler], *(_cell(cells[name]) for name in names)])
    return [table]


def _cell(row: dict[str, Any]) -> str:
    ratios = [a / b for a, b in zip(row["rates"], row["baseline_rates"])]
    return f"{number(statistics.median(ratios))} ({number(min(ratios))} – {number(max(ratios))})"
