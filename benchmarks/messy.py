"""A table as people have them, with categories and holes: from a CSV file to the report, by ``whichvars fit``.

Each way of dealing with missing values is a process of its own, with everything from the start of Python to the last file written. The same
command is run on a few rows first, so that the kernels are compiled when it counts.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import ROOT, Table, number
from benchmarks.tall import peak_bytes

NUMBERS, YES_OR_NO, COUNTS, CATEGORIES = (
    18,
    4,
    3,
    (3, 5, 8, 12, 20),
)  # 30 columns; the last are numbers of levels
WITH_HOLES = 15  # columns
# how missing values are dealt with, and the CPU seconds that it may take with 200,000 rows
WAYS = {
    "drop": (["--missing", "drop"], 60),
    "impute": (["--missing", "impute", "--imputations", "5"], 240),
}
MEMORY = 1000  # MB that it may take
WARM_UP_ROWS = 2000


def write_file(path: Path, rows: int, holes: float) -> int:
    """A CSV file with 30 columns and y; each of 15 columns has this share of holes. Returns the bytes of the file."""
    import pandas as pd

    rng = np.random.default_rng(0)
    common_part = rng.standard_normal(rows)
    columns: dict[str, Any] = {
        f"number{i}": np.round(0.5 * common_part + rng.standard_normal(rows), 4) for i in range(NUMBERS)
    }
    columns |= {f"flag{i}": (rng.random(rows) < 0.2 + 0.15 * i).astype(float) for i in range(YES_OR_NO)}
    columns |= {f"count{i}": rng.poisson(1.0 + i, rows).astype(float) for i in range(COUNTS)}
    for levels in CATEGORIES:
        columns[f"category{levels}"] = np.array([f"level {j}" for j in range(levels)], dtype=object)[
            rng.integers(levels, size=rows)
        ]
    y = 0.03 * columns["number0"] - 0.05 * columns["number7"] + 0.1 * columns["flag1"]
    y += 0.04 * (columns["category5"] == "level 2") + rng.standard_normal(rows)
    frame = pd.DataFrame(columns)
    for i in range(WITH_HOLES):
        name = frame.columns[2 * i]  # of every kind
        frame[name] = frame[name].mask(rng.random(rows) < holes)
    frame["y"] = np.round(y, 5)
    frame.to_csv(path, index=False)
    return path.stat().st_size


def measure(
    rows: int = 200_000,
    holes: float = 0.02,
    ways: tuple[str, ...] = tuple(WAYS),
    budget: str | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """CPU seconds and peak memory of ``whichvars fit`` for each way of dealing with missing values; with its own default of draws
    if there is no `budget`."""
    about = common.environment()
    measured = []
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        few, many = folder / "few.csv", folder / "many.csv"
        write_file(few, WARM_UP_ROWS, holes)
        size = write_file(many, rows, holes)
        for way in ways:
            if rows > WARM_UP_ROWS:
                in_process(few, folder / f"{way}-few", way, budget)
            found = in_process(many, folder / way, way, budget)
            say(f"{way}: {found}")
            measured.append({"way": way, **found})
    return {
        "environment": about, "rows": rows, "holes": holes, "bytes": size, "budget": budget, "measured": measured,
    }  # fmt: skip


def in_process(data: Path, out: Path, way: str, budget: str | None) -> dict[str, Any]:
    """What a new process that fits `data` says of itself."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.messy", str(data), str(out), way, *([budget] if budget else [])],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def worker(data: str, out: str, way: str, budget: str | None = None) -> None:
    """Fit, as the command line does, and say what it took; Python's start and its imports count."""
    from whichvars.cli import main

    wall = time.perf_counter()
    command = ["fit", data, "--response", "y", "--seed", "1", "--quiet", "--out", out, *WAYS[way][0]]
    command += ["--budget", budget] if budget else []
    try:
        main(command, prog_name="whichvars")
    except SystemExit as end:
        if end.code not in (0, 3):  # 3: the numbers should not be trusted yet
            raise
        code = end.code
    settings = json.loads((Path(out) / "settings.json").read_text(encoding="utf-8"))
    found = {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time(),
        "peak_bytes": peak_bytes(),
        "converged": not code,
        "report_bytes": (Path(out) / "report.html").stat().st_size,
        "rows": settings["problem"]["rows"],
    }
    print(json.dumps(found))


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(
        f"{result['rows']:,} rows and 30 columns with categories and {100 * result['holes']:g} % holes: from the CSV file to the report",
        ["missing values", "rows fitted", "CPU seconds", "wanted", "peak memory, MB", "wanted", "converged"],
    )
    full = result["rows"] == 200_000 and result["budget"] is None  # what is wanted is wanted of that
    for found in result["measured"]:
        table.rows.append([
            found["way"], f"{found['rows']:,}", number(found["cpu_seconds"]), f"< {WAYS[found['way']][1]}" if full else "",
            number(found["peak_bytes"] / 1e6), f"< {MEMORY}" if full else "", "yes" if found["converged"] else "no",
        ])  # fmt: skip
    table.note = (
        f"{NUMBERS} columns of numbers, {YES_OR_NO} of 0 and 1, {COUNTS} of counts and {len(CATEGORIES)} categories of {CATEGORIES[0]} to {CATEGORIES[-1]} levels; "
        f"{WITH_HOLES} of them have holes. The file has {result['bytes'] / 1e6:.0f} MB. Each line is a process of its own, from the start of Python to the last "
        "file written; kernels were compiled before."
    )
    return [table]


if __name__ == "__main__":
    worker(*sys.argv[1:])
