"""What a user waits for besides sampling: import, help, the second fit of a small problem, averages over many models, and the
first answer of each sampler.

But for the first answers, kernels and bytecode are compiled beforehand, as they are when a user does something for the second
time. Wall time depends on what else the machine does; CPU time, of the process and its threads, much less.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import common
from benchmarks.common import Table, number

DRAWS = 1000  # so few that sampling takes hardly any time
EVERY_MODEL = """import matplotlib; matplotlib.use("Agg"); import whichvars as wv
data = wv.datasets.load_uscrime(); posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.ZellnerSiow()))
"""
AVERAGES = {  # over 32,768 models and g
    "coefficients": "posterior.coefficients(interval=0.95)",
    "loo": "posterior.loo(data.X, data.y)",
    "log_score": "posterior.log_score(data.X, data.y)",
    "plot_coefficients": "wv.plot_coefficients(posterior)",
}
WHICHVARS = [sys.executable, "-m", "whichvars"]
PACKAGE = Path(__file__).resolve().parent.parent
FIRST = (
    "default", "AddDeleteSwap", "IndividualAdaptation", "Lamnisos", "ASI", "PARNI", "TemperedGibbs", "SubsetGibbs",
    "ParallelTempering", "SequentialMonteCarlo", "exact",
)  # fmt: skip
FIRST_ANSWER = """
import sys, warnings
import whichvars as wv
warnings.simplefilter("ignore")
name, small = sys.argv[1], {"seed": 1, "threads": 1, "progress": False}
if name == "exact":
    data = wv.datasets.load_uscrime()
    wv.exact(wv.Problem(data.X, data.y))
else:
    data = wv.datasets.load_growth()
    settings = {"particles": 200} if name == "SequentialMonteCarlo" else {}
    small |= {"replicates": 1} if settings else {"draws": 1000, "warmup": 2000}
    wv.sample(wv.Problem(data.X, data.y), *([] if name == "default" else [getattr(wv, name)(**settings)]), **small)
"""


class Times(NamedTuple):
    """Seconds of a process."""

    wall: float
    cpu: float


def measure(repeats: int = 5, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Seconds of new processes, `repeats` times each, and those that fits say they sampled."""
    import whichvars as wv

    rows = []
    with tempfile.TemporaryDirectory() as directory:
        data = wv.datasets.load_growth()
        path, run, bytecode = (Path(directory) / name for name in ("growth.csv", "run", "bytecode"))
        data.X.assign(response=data.y).to_csv(path, index=False)
        fit = [*WHICHVARS, "fit", str(path), "--response", "response", "--draws", str(DRAWS), "--overwrite", "--out", str(run)]  # fmt: skip
        for what, command, limit in [
            ("python alone", [sys.executable, "-c", "pass"], None),
            ("import whichvars", [sys.executable, "-c", "import whichvars"], 1.0),
            ("import whichvars, Problem and sample", [sys.executable, "-c", "from whichvars import Problem, sample"], None),
            ("whichvars --help", [*WHICHVARS, "--help"], 1.0),
            ("second whichvars fit, 41 variables", fit, 3.0),
            ("the same without a report", [*fit, "--no-report"], 3.0),
            ("the same with --quiet too: without a pilot", [*fit, "--no-report", "--quiet"], 3.0),
            ("exact, US crime under ZellnerSiow", [sys.executable, "-c", EVERY_MODEL], None),
            *((f"the same and {name}", [sys.executable, "-c", EVERY_MODEL + call], None) for name, call in AVERAGES.items()),
        ]:  # fmt: skip
            say(what)
            times(command, bytecode)  # compiles, if need be
            found, sampled = [], []
            for _ in range(repeats):
                found.append(times(command, bytecode))
                sampled.append(sampling_seconds(run) if "fit" in command else 0.0)
            rows.append(
                {
                    "what": what,
                    "limit": limit,
                    "seconds": [one.wall for one in found],
                    "cpu_seconds": [one.cpu for one in found],
                    "sampling_cpu_seconds": sampled,
                }
            )
    return {"environment": common.environment(), "rows": rows}


def first_answers(
    names: tuple[str, ...], baseline: Path | None, repeats: int = 1, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """CPU seconds of new processes that find no compiled kernels: this checkout, and in turns with it another one."""
    checkouts = {"cpu_seconds": PACKAGE, **({} if baseline is None else {"baseline_cpu_seconds": baseline})}
    rows: list[dict[str, Any]] = [{"what": name, **{key: [] for key in checkouts}} for name in names]
    for row in rows:
        for _ in range(repeats):
            for key, checkout in checkouts.items():
                say(f"first answer, {row['what']}: {key.removesuffix('_cpu_seconds')}")
                with tempfile.TemporaryDirectory() as cache:
                    there = {"PYTHONPATH": str(checkout / "src"), "WHICHVARS_CACHE_DIR": cache}
                    command = [sys.executable, "-c", FIRST_ANSWER, row["what"]]
                    row[key].append(times(command, None, **there).cpu)
    return {"first_answers": rows}


def times(command: list[str], bytecode: Path | None, **more: str) -> Times:
    """Of a process that keeps its bytecode there, or where it is kept anyway (else the first process of a comparison would make it
    for all); one that fails for want of accuracy (exit code 3) is as good as any."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {} if bytecode is None else {"PYTHONPYCACHEPREFIX": str(bytecode)}
    environment |= more
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3):
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return Times(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def sampling_seconds(run: Path) -> float:
    """CPU time that a fit spent on sampling, as its run directory says."""
    return float(json.loads((run / "settings.json").read_text(encoding="utf-8"))["result"]["cpu_seconds"])


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(
        "Seconds until something happens", ["what", "median", "longest", "CPU", "of it sampling", "wanted"]
    )
    for row in result["rows"]:
        limit = "" if row["limit"] is None else f"< {row['limit']:g}"
        wall, cpu, sampling = (
            statistics.median(row[name]) for name in ("seconds", "cpu_seconds", "sampling_cpu_seconds")
        )
        table.rows.append(
            [row["what"], number(wall), number(max(row["seconds"])), number(cpu), number(sampling), limit]
        )
    first = Table("CPU seconds of a first answer, nothing compiled", ["sampler", "CPU", "baseline", "ratio"])
    for row in result.get("first_answers", []):
        own = statistics.median(row["cpu_seconds"])
        other = statistics.median(row["baseline_cpu_seconds"]) if "baseline_cpu_seconds" in row else None
        ratio = ["", ""] if other is None else [number(other), number(own / other)]
        first.rows.append([row["what"], number(own), *ratio])
    return [table, first] if first.rows else [table]
