"""What a user waits for before anything is computed: import, help, and the second fit of a small problem."""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.common import Table, number

DRAWS = 1000  # so few that computing takes no time
WHICHVARS = [sys.executable, "-m", "whichvars"]


def measure(repeats: int = 5, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Seconds of wall time of new processes, `repeats` times each; kernels are compiled beforehand."""
    import whichvars as wv

    rows = []
    with tempfile.TemporaryDirectory() as directory:
        data = wv.datasets.load_growth()
        path = Path(directory) / "growth.csv"
        data.X.assign(response=data.y).to_csv(path, index=False)
        fit = [*WHICHVARS, "fit", str(path), "--response", "response", "--draws", str(DRAWS), "--overwrite", "--out", f"{directory}/run"]  # fmt: skip
        seconds([*fit, "--quiet"])  # compiles, if need be
        for what, command, limit in [
            ("python alone", [sys.executable, "-c", "pass"], None),
            ("import whichvars", [sys.executable, "-c", "import whichvars"], 1.0),
            ("import whichvars, Problem and sample", [sys.executable, "-c", "from whichvars import Problem, sample"], None),
            ("whichvars --help", [*WHICHVARS, "--help"], 1.0),
            ("second whichvars fit, 41 variables", fit, 3.0),
            ("the same without a report", [*fit, "--no-report"], 3.0),
            ("the same with --quiet too: without a pilot", [*fit, "--no-report", "--quiet"], 3.0),
        ]:  # fmt: skip
            say(what)
            rows.append({"what": what, "limit": limit, "seconds": [seconds(command) for _ in range(repeats)]})
    return {"environment": common.environment(), "rows": rows}


def seconds(command: list[str]) -> float:
    """Wall time of a process; one that fails for want of accuracy (exit code 3) is as good as any."""
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return time.perf_counter() - started


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table("Seconds until something happens", ["what", "median", "longest", "wanted"])
    for row in result["rows"]:
        limit = "" if row["limit"] is None else f"< {row['limit']:g}"
        table.rows.append(
            [row["what"], number(statistics.median(row["seconds"])), number(max(row["seconds"])), limit]
        )
    return [table]
