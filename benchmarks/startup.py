"""What a user waits for besides sampling: import, help, the second fit of a small problem, averages over many models, and the
first answer of each sampler.

But for the first answers, kernels and bytecode are compiled beforehand, as they are when a user does something for the second
time. Wall time depends on what else the machine does; CPU time, of the process and its threads, much less.
"""

import json
import os
import resource
import shutil
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


def measure(
    repeats: int = 5, say: Callable[[str], None] = print, baseline: Path | None = None
) -> dict[str, Any]:
    """Seconds of new processes, `repeats` times each, and those that fits say they sampled; in turns with another checkout."""
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
            ("the same with --quiet too", [*fit, "--no-report", "--quiet"], 3.0),
            ("exact, US crime under ZellnerSiow", [sys.executable, "-c", EVERY_MODEL], None),
            *((f"the same and {name}", [sys.executable, "-c", EVERY_MODEL + call], None) for name, call in AVERAGES.items()),
        ]:  # fmt: skip
            say(what)
            row: dict[str, Any] = {
                "what": what,
                "limit": limit,
                "seconds": [],
                "cpu_seconds": [],
                "sampling_cpu_seconds": [],
            }
            there = {} if baseline is None else {"PYTHONPATH": str(baseline / "src")}
            times(command, bytecode)  # compiles, if need be
            if baseline is not None:
                row["baseline_cpu_seconds"] = []
                times(command, bytecode, **there)
            for _ in range(repeats):
                found = times(command, bytecode)
                row["seconds"].append(found.wall)
                row["cpu_seconds"].append(found.cpu)
                row["sampling_cpu_seconds"].append(sampling_seconds(run) if "fit" in command else 0.0)
                if baseline is not None:
                    row["baseline_cpu_seconds"].append(times(command, bytecode, **there).cpu)
            rows.append(row)
    return {"environment": common.environment(), "rows": rows}


def first_answers(
    names: tuple[str, ...],
    baseline: Path | None,
    repeats: int = 1,
    say: Callable[[str], None] = print,
    wheel: Path | None = None,
) -> dict[str, Any]:
    """CPU seconds of new processes that find no compiled kernels: this checkout, and in turns with it another one and the Python of an
    environment in which a wheel with machine code is installed."""
    who: dict[str, tuple[str, dict[str, str]]] = {"": (sys.executable, {"PYTHONPATH": str(PACKAGE / "src")})}
    if baseline is not None:
        who["baseline_"] = (sys.executable, {"PYTHONPATH": str(baseline / "src")})
    if wheel is not None:
        who["wheel_"] = (str(wheel), {"PYTHONPATH": ""})
    rows: list[dict[str, Any]] = []
    for name in names:
        row: dict[str, Any] = {"what": name}
        for _ in range(repeats):
            for key, (python, there) in who.items():
                say(f"first answer, {name}: {key.removesuffix('_') or 'here'}")
                with tempfile.TemporaryDirectory() as cache:
                    took = times([python, "-c", FIRST_ANSWER, name], None, **there, WHICHVARS_CACHE_DIR=cache)
                row.setdefault(f"{key}cpu_seconds", []).append(took.cpu)
                row.setdefault(f"{key}seconds", []).append(took.wall)
        rows.append(row)
    return {"first_answers": rows}


def further_answers(
    names: tuple[str, ...], baseline: Path | None, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """CPU seconds of new processes that find what the default sampler has compiled, and nothing else; in turns with another checkout."""
    who = {"": PACKAGE} | ({} if baseline is None else {"baseline_": baseline})
    rows: list[dict[str, Any]] = [{"what": name} for name in names if name != "default"]
    with tempfile.TemporaryDirectory() as directory:
        for key, package in who.items():
            compiled = Path(directory) / f"{key}default"
            compiled.mkdir()
            there = {"PYTHONPATH": str(package / "src")}
            say(f"what the default sampler compiles: {key.removesuffix('_') or 'here'}")
            times([sys.executable, "-c", FIRST_ANSWER, "default"], None, **there, WHICHVARS_CACHE_DIR=str(compiled))  # fmt: skip
            for row in rows:
                say(f"further answer, {row['what']}: {key.removesuffix('_') or 'here'}")
                own = Path(directory) / f"{key}{row['what']}"
                shutil.copytree(compiled, own)
                took = times([sys.executable, "-c", FIRST_ANSWER, row["what"]], None, **there, WHICHVARS_CACHE_DIR=str(own))  # fmt: skip
                row[f"{key}cpu_seconds"] = [took.cpu]
                shutil.rmtree(own)
    return {"further_answers": rows}


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
        "Seconds until something happens",
        ["what", "median", "longest", "CPU", "of it sampling", "wanted", "CPU, baseline", "ratio"],
    )
    for row in result["rows"]:
        limit = "" if row["limit"] is None else f"< {row['limit']:g}"
        wall, cpu, sampling = (
            statistics.median(row[name]) for name in ("seconds", "cpu_seconds", "sampling_cpu_seconds")
        )
        table.rows.append(
            [row["what"], number(wall), number(max(row["seconds"])), number(cpu), number(sampling), limit, *_ratio(row)]
        )  # fmt: skip
    first = Table(
        "A first answer, nothing compiled before: CPU seconds of the whole process",
        ["sampler", "checkout", "checkout, baseline", "ratio", "wheel", "wheel, by the clock"],
    )
    for row in result.get("first_answers", []):
        wheel = [_median(row, "wheel_cpu_seconds"), _median(row, "wheel_seconds")]
        first.rows.append([row["what"], _median(row, "cpu_seconds"), *_ratio(row), *wheel])
    further = Table(
        "A further sampler, after the default one: CPU seconds of the whole process",
        ["sampler", "checkout", "checkout, baseline", "ratio"],
    )
    for row in result.get("further_answers", []):
        further.rows.append([row["what"], _median(row, "cpu_seconds"), *_ratio(row)])
    return [one for one in (table, first, further) if one is table or one.rows]


def _median(row: dict[str, Any], key: str) -> str:
    return number(statistics.median(row[key])) if key in row else ""


def _ratio(row: dict[str, Any]) -> list[str]:
    """CPU seconds of the baseline, and what ours are of them."""
    if "baseline_cpu_seconds" not in row:
        return ["", ""]
    own, other = (statistics.median(row[key]) for key in ("cpu_seconds", "baseline_cpu_seconds"))
    return [number(other), number(own / other)]
