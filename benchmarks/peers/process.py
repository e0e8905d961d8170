"""Peers that run as a process of their own."""

import resource
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.peers.exchange import Outcome, Skipped, Workload, read_outcome, write_workload

PATIENCE = 600.0  # seconds of wall time after which a run is given up


def children_cpu() -> float:
    """CPU seconds of all processes that this one started and that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: Sequence[str], work: Workload, patience: float | None = None) -> Outcome:
    """Give a program the data and read what it wrote; both in a folder that is its last argument.

    The program says itself how long it computed; whatever CPU time it took beyond that is its start-up.
    """
    patience = PATIENCE if patience is None else patience
    with tempfile.TemporaryDirectory() as directory:
        folder = write_workload(work, Path(directory))
        before = children_cpu()
        try:
            done = subprocess.run(
                [*command, str(folder)], capture_output=True, text=True, check=False, timeout=patience
            )
        except subprocess.TimeoutExpired:
            raise Skipped(f"took more than {patience:g} s, given up") from None
        whole = children_cpu() - before
        if done.returncode != 0:
            last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
            raise Skipped(f"ended with code {done.returncode}: {last[:300]}")
        outcome = read_outcome(folder, list(work.problem.names))
        return replace(outcome, startup_seconds=max(whole - outcome.cpu_seconds, 0.0))
