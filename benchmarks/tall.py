"""Rows beyond memory: sufficient statistics streamed from a folder of Parquet, against reading the folder alone.

Every measurement is a process of its own, so that its peak memory is its own; the files are written in portions and
deleted afterwards.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import ROOT, Table, number

COLUMNS = 50
FILES = 10
ROW_GROUP = 100_000
EFFECTS = {3: 0.004, 17: -0.003, 31: 0.002}  # by column, in standard deviations of the noise


def write_folder(folder: Path, rows: int, columns: int = COLUMNS) -> int:
    """Parquet files of `rows` rows in all: columns of a common factor, means of up to 10⁶, and y. Returns their bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    means = np.linspace(0, 1e6, columns)
    names = [f"x{i}" for i in range(columns)]
    schema = pa.schema([(name, pa.float64()) for name in [*names, "y"]])
    size = -(-rows // FILES)
    for i in range(FILES):
        left = min(size, rows - i * size)
        path = folder / f"part{i:02d}.parquet"
        with pq.ParquetWriter(path, schema, compression="snappy", use_dictionary=False) as writer:
            while left > 0:
                n = min(ROW_GROUP, left)
                X = rng.standard_normal((columns, n)) + 0.5 * rng.standard_normal(n)
                y = rng.standard_normal(n)
                for j, effect in EFFECTS.items():
                    y += effect * X[j]
                X += means[:, None]
                writer.write_table(pa.table([*X, y], schema=schema))
                left -= n
    return sum(path.stat().st_size for path in folder.iterdir())


def measure(rows: int = 10_000_000, repeats: int = 3, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Seconds, processor seconds and peak memory of reading alone and of the statistics, by number of files."""
    about = common.environment()  # before anybody edits on
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        started = time.perf_counter()
        size = write_folder(folder, rows)
        say(f"{rows:,} rows, {size / 1e9:.2f} GB written in {time.perf_counter() - started:.0f} s")
        done: list[dict[str, Any]] = []
        for files in sorted({1, FILES}):
            runs: dict[str, list[dict[str, Any]]] = {task: [] for task in TASKS}
            for _ in range(repeats):
                for task, found in runs.items():  # in turns: other work on the machine hits all alike
                    found.append(in_process(task, folder, files))
                    say(f"{task}, {files} of {FILES} files: {found[-1]}")
            done += [{"task": task, "files": files, "runs": found} for task, found in runs.items()]
    return {
        "environment": about,
        "rows": rows,
        "columns": COLUMNS,
        "bytes": size,
        "repeats": repeats,
        "measured": done,
    }


def in_process(task: str, folder: Path, files: int) -> dict[str, Any]:
    """What ``TASKS[task]`` says of itself, in a new process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tall", task, str(folder), str(files)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


# --- in the process


def paths_of(folder: Path, files: int) -> list[Path]:
    return sorted(folder.iterdir())[:files]


def nothing(paths: list[Path]) -> dict[str, Any]:
    """For the memory that imports take."""
    return {"rows": 0}


def read_alone(paths: list[Path]) -> dict[str, Any]:
    """Every column of every row into memory, as the statistics read them, and nothing done with it."""
    rows = 0
    for batch in batches(paths):
        rows += batch.num_rows
    return {"rows": rows}


def batches(paths: list[Path]) -> Iterator[Any]:
    import pyarrow.parquet as pq

    from whichvars.data.moments import CELLS
    from whichvars.data.streaming import IN_PORTIONS

    for path in paths:
        with pq.ParquetFile(path, **IN_PORTIONS) as file:
            yield from file.iter_batches(batch_size=CELLS // (COLUMNS + 1))


def sum_up(paths: list[Path]) -> dict[str, Any]:
    """The statistics, and then the problem."""
    import whichvars as wv

    found = wv.SufficientStatistics.from_files(paths, "y")
    made = time.perf_counter()
    wv.Problem(found, slab=wv.GPrior("n"))
    return {"rows": found.n, "problem_seconds": time.perf_counter() - made}


TASKS = {"nothing": nothing, "read": read_alone, "statistics": sum_up}


def peak_bytes() -> int:
    """The most memory this process has had (of its own: a parent's is not counted)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not say how much memory a process had")


def worker(task: str, folder: str, files: str) -> None:
    import pyarrow.parquet

    import whichvars as wv

    assert pyarrow.parquet
    assert wv.SufficientStatistics  # type: ignore[truthy-function]
    assert wv.Problem  # type: ignore[truthy-function]
    wall, busy = time.perf_counter(), time.process_time()
    found = TASKS[task](paths_of(Path(folder), int(files)))
    found |= {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - busy,
        "peak_bytes": peak_bytes(),
    }
    print(json.dumps(found))


# --- the table


def median(entry: dict[str, Any], name: str) -> float:
    return statistics.median(run[name] for run in entry["runs"])


def ratio(entry: dict[str, Any], other: dict[str, Any], name: str) -> str:
    """The median of the ratios of runs that took turns, with the smallest and the largest."""
    found = [a[name] / b[name] for a, b in zip(entry["runs"], other["runs"])]
    return f"{number(statistics.median(found))} ({number(min(found))} – {number(max(found))})"


def tables(result: dict[str, Any]) -> list[Table]:
    entries = {(entry["task"], entry["files"]): entry for entry in result["measured"]}
    table = Table(
        f"Sufficient statistics of {result['columns']} columns and y, streamed from Parquet",
        ["rows", "seconds", "rows/s", "rows/s of a processor", "time / reading alone", "processor time / reading alone", "peak memory, MB", "reading alone, MB", "imports alone, MB"],
    )  # fmt: skip
    for files in sorted({files for _, files in entries}):
        ours, read = entries["statistics", files], entries["read", files]
        rows, seconds, busy = ours["runs"][0]["rows"], median(ours, "seconds"), median(ours, "cpu_seconds")
        table.rows.append(
            [
                f"{rows:,}", number(seconds), number(rows / seconds), number(rows / busy),
                ratio(ours, read, "seconds"), ratio(ours, read, "cpu_seconds"),
                *(number(median(entries[task, files], "peak_bytes") / 2**20) for task in ("statistics", "read", "nothing")),
            ]
        )  # fmt: skip
    problem = max(median(entries["statistics", files], "problem_seconds") for _, files in entries)
    load, cpus = result["environment"]["load_at_start"], result["environment"]["cpus"]
    table.note = (
        f"{FILES} files, {result['bytes'] / 1e9:.2f} GB of float64 in all, in row groups of {ROW_GROUP:,}; medians of "
        f"{result['repeats']} runs, each a process of its own, in turns, the files in the system's cache. Ratios: median, "
        f"smallest and largest. A problem from the statistics then takes {number(1000 * problem)} ms, whatever the rows."
    )
    if load is not None and load > 0.5 * cpus:
        table.note += (
            f" The machine was busy with other work (load {load:g} on {cpus} CPUs at the start): read processor time, not "
            "seconds."
        )
    return [table]


if __name__ == "__main__":
    worker(*sys.argv[1:])
