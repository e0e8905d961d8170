"""Progress of a run: rate, time left, and how accurate it is by now."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whichvars.estimates import batch_means

if TYPE_CHECKING:
    from whichvars.samplers.run import Run


class Report(NamedTuple):
    """What a progress callback is given."""

    done: int  # iterations of all replicates and chains
    total: int | None  # None where it is not known beforehand
    fraction: float  # of the whole that is done, 0 to 1
    seconds: float  # wall time since the start
    largest_mcse: float | None  # of any PIP, across replicates; None while it cannot be told
    status: str  # anything else the sampler says


class Progress:
    """A bar in a terminal or notebook, a callback, or nothing. The bar appears only if the run takes longer
    than a second."""

    def __init__(self, mode: bool | Callable[[Report], None], total: int | None) -> None:
        self.callback = mode if callable(mode) else None
        self.show = mode is True and (sys.stderr.isatty() or "ipykernel" in sys.modules)
        self.total = total
        self.started = self.shown = time.monotonic()
        self.bar: Any = None
        self.told = False
        self.means: dict[int, np.ndarray] = {}

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def waiting(self, runs: list["Run"]) -> None:
        """Called while nothing is finished yet: on a first run, kernels are being compiled."""
        if self.show and not self.told and not any(run.iterations for run in runs):
            self.told = True
            print(
                "compiling kernels; this happens once after an installation and takes half a minute …",
                file=sys.stderr,
            )

    def update(self, runs: list["Run"], idle: list["Run"]) -> None:
        """Called between chunks. Only runs that no thread is working on are looked at closely."""
        from whichvars._kernels.tally import NOW

        now = time.monotonic()
        done = sum(run.iterations * len(run.units) for run in runs)
        if (self.callback is None and not self.show) or (now - self.shown < 0.4 and done != self.total):
            return
        if now - self.started < 1 and self.callback is None:
            return
        self.shown = now
        for run in idle:
            if self.total and run.units[0].tally.ints[NOW] > 0:
                self.means[id(run)] = batch_means(run)[0]
        accuracy = None
        if len(self.means) == len(runs) > 1:
            accuracy = float(np.std(list(self.means.values()), axis=0, ddof=1).max() / np.sqrt(len(runs)))
        fraction = done / self.total if self.total else float(np.mean([run.fraction for run in runs]))
        report = Report(done, self.total, fraction, now - self.started, accuracy, runs[0].status)
        if self.callback is not None:
            self.callback(report)
        else:
            self._draw(report)

    def _draw(self, report: Report) -> None:
        if self.bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            self.bar = RichProgress(
                TextColumn("sampling"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeRemainingColumn(),
                TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[accuracy]}"), console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self.task = self.bar.add_task("", total=1.0, rate="", accuracy="")
            self.bar.start()
        rate = f"{report.done / max(report.seconds, 1e-9) / 1e6:.2f} M iterations/s"
        accuracy = (
            report.status if report.largest_mcse is None else f"largest error ±{report.largest_mcse:.4f}"
        )
        self.bar.update(self.task, completed=report.fraction, rate=rate, accuracy=accuracy)
