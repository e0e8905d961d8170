"""Does a long run stay as it began: memory, speed, and what its checkpoints cost."""

import os
import statistics
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import common, problems
from benchmarks.common import Table, number

PROBLEM = "blocks22576"
ROWS = 15  # of the table


def resident() -> float:
    """Memory of this process, in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not say how much memory a process has")


@contextmanager
def watched_checkpoints(started: float) -> Iterator[tuple[list[dict[str, float]], list[dict[str, float]]]]:
    """While this lasts, what every file of a checkpoint took, and what every copy did, for which sampling stops."""
    from whichvars.sampling.checkpoint import Checkpoint

    files: list[dict[str, float]] = []
    copies: list[dict[str, float]] = []
    prepare, store = Checkpoint._prepare, Checkpoint._store

    def watched_prepare(self: Checkpoint, *arguments: Any) -> Any:
        clock, cpu = time.monotonic(), time.thread_time()
        prepared = prepare(self, *arguments)
        now = time.monotonic()
        copies.append({"at": now - started, "seconds": now - clock, "cpu": time.thread_time() - cpu})
        return prepared

    def watched_store(self: Checkpoint, index: int, *arguments: Any) -> bool:
        clock, cpu = time.monotonic(), time.thread_time()
        done = store(self, index, *arguments)
        now = time.monotonic()
        size = self._path(index).stat().st_size if done else 0
        files.append(
            {"at": now - started, "replicate": index, "seconds": now - clock, "cpu": time.thread_time() - cpu, "bytes": size}
        )  # fmt: skip
        return done

    Checkpoint._prepare, Checkpoint._store = watched_prepare, watched_store  # type: ignore[method-assign, assignment]
    try:
        yield files, copies
    finally:
        Checkpoint._prepare, Checkpoint._store = prepare, store  # type: ignore[method-assign]


def measure(
    minutes: float,
    every: str = "10s",
    name: str = PROBLEM,
    replicates: int = 4,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Run the default sampler for so long; look at it once a second."""
    import whichvars as wv

    problem = problems.build(name)
    wv.sample(problem, wv.Hybrid(), draws=100, replicates=2, progress=False)  # compiles, if need be
    started, cpu = time.monotonic(), time.process_time()
    looks: list[dict[str, float]] = []

    def look(report: Any) -> None:
        now = time.monotonic() - started
        if not looks or now - looks[-1]["at"] > 1:
            looks.append(
                {"at": now, "iterations": report.done, "megabytes": resident(), "load": os.getloadavg()[0]}
            )

    threads = len(common_cpus())
    with tempfile.TemporaryDirectory() as directory, watched_checkpoints(started) as (files, copies):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wv.ConvergenceWarning)
            posterior = wv.sample(
                problem, wv.Hybrid(), budget=60 * minutes, replicates=replicates, threads=threads, progress=look,
                checkpoint=directory, every=every,
            )  # fmt: skip
    say(f"{posterior.iterations:,} iterations")
    return {
        "environment": common.environment(),
        "problem": problems.PROBLEMS[name].about,
        "minutes": minutes,
        "every": every,
        "replicates": replicates,
        "threads": min(threads, replicates),
        "live_threads": threading.active_count(),
        "looks": looks,
        "files": files,
        "copies": copies,
        "cpu": time.process_time() - cpu,
    }


def common_cpus() -> list[int]:
    """CPUs this process may use."""
    return (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )


def tables(result: dict[str, Any]) -> list[Table]:
    """Equal stretches of the run; and what checkpoints cost in all."""
    looks, files, copies, end = result["looks"], result["files"], result["copies"], 60 * result["minutes"]
    along = Table(
        f"A run of {result['minutes']:g} minutes: {result['problem']}",
        ["until minute", "iterations/s", "memory, MB", "files written", "share of the time, %"],
    )
    stretches = min(ROWS, max(1, len(looks) // 3))
    for i in range(stretches):
        start, stop = end * i / stretches, end * (i + 1) / stretches
        inside = [x for x in looks if start <= x["at"] < stop]
        written = [x for x in files if start <= x["at"] < stop]
        if len(inside) < 2:
            continue
        rate = (inside[-1]["iterations"] - inside[0]["iterations"]) / (inside[-1]["at"] - inside[0]["at"])
        copied = [x for x in copies if start <= x["at"] < stop]
        share = sum(x["cpu"] for x in written + copied) / (result["threads"] * (stop - start))
        along.rows.append(
            [f"{stop / 60:.2f}", number(rate), number(inside[-1]["megabytes"], 4), str(len(written)), f"{100 * share:.2f}"]
        )  # fmt: skip
    apart = sorted(
        b - a for i in range(result["replicates"]) for a, b in pairwise(x["at"] for x in files if x["replicate"] == i)
    )  # fmt: skip
    n = max(len(files), 1)
    busy, paused = sum(x["cpu"] for x in files + copies), sum(x["seconds"] for x in copies)
    cost = Table("Its checkpoints", ["what", "value"])
    cost.rows += [
        ["asked for every", str(result["every"])],
        ["files of replicates", str(len(files))],
        ["seconds from one of a replicate to its next: median", number(statistics.median(apart))],
        ["longest", number(apart[-1])],
        ["megabytes each: mean", number(sum(x["bytes"] for x in files) / n / 1e6)],
        ["largest", number(max(x["bytes"] for x in files) / 1e6)],
        ["seconds of writing each, in the background: mean", number(sum(x["seconds"] for x in files) / n)],
        ["seconds of a processor each, copying included: mean", number(busy / n)],
        [f"processors that others left to the run, of {result['threads']}: mean", number(result["cpu"] / end)],
        ["processes that wanted to run on the machine: mean", number(statistics.mean(x["load"] for x in looks))],
        ["share of what the run got of the processors, %", f"{100 * busy / result['cpu']:.2f}"],
        ["share of the processors' time, %", f"{100 * busy / (result['threads'] * end):.2f}"],
        ["share of the time for which a thread stops to copy, %", f"{100 * paused / (result['threads'] * end):.2f}"],
    ]  # fmt: skip
    return [along, cost]
