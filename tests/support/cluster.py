"""A Dask scheduler and workers as processes of their own, on the loopback interface, dashboards off."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import whichvars

SOURCE = str(Path(whichvars.__file__).parent.parent)
SECONDS = 120.0  # within which a process must be there


class Processes:
    """A scheduler and its workers; all are ended with ``stop``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.workers: list[subprocess.Popen[bytes]] = []
        self.file = directory / "scheduler.json"
        self.scheduler = self._start(
            ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(self.file)]
        )  # fmt: skip
        deadline = time.monotonic() + SECONDS
        while not self._is_written():
            if self.scheduler.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the scheduler did not start")
            time.sleep(0.05)

    def _is_written(self) -> bool:
        """Whether the scheduler's file is there, and whole: it is written in place."""
        return self.file.exists() and self.file.read_text().rstrip().endswith("}")

    @property
    def address(self) -> str:
        found: str = json.loads(self.file.read_text())["address"]
        return found

    def add_worker(self, path: str = SOURCE, threads: int = 1) -> subprocess.Popen[bytes]:
        """A worker process; `path` is where it looks for modules first."""
        arguments = ["worker", self.address, "--host", "127.0.0.1", "--nthreads", str(threads), "--no-nanny", "--no-dashboard", "--death-timeout", "20"]  # fmt: skip
        folder = self.directory / f"worker-{len(self.workers)}"
        folder.mkdir()
        process = self._start([*arguments, "--local-directory", str(folder)], path)
        self.workers.append(process)
        return process

    def wait_for_workers(self, number: int) -> None:
        from distributed import Client

        with Client(self.address, timeout=SECONDS, set_as_default=False) as client:
            client.wait_for_workers(number, timeout=SECONDS)

    def _start(self, arguments: list[str], path: str = SOURCE) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        with open(self.directory / "log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments], env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )  # fmt: skip

    def stop(self) -> None:
        for process in [*self.workers, self.scheduler]:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


@contextlib.contextmanager
def cluster(directory: Path, workers: int = 2) -> Iterator[Processes]:
    """A scheduler with so many workers of one thread each, when all have come."""
    found = Processes(directory)
    try:
        for _ in range(workers):
            found.add_worker()
        if workers:
            found.wait_for_workers(workers)
        yield found
    finally:
        found.stop()
