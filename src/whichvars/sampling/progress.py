"""Progress of a run: its speed, the time left, its accuracy so far, and whether the replicates agree."""

import html
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whichvars.sampling import compiling
from whichvars.sampling.announcing import Announcer
from whichvars.sampling.estimates import Look, Pips, combine_pips, look_at
from whichvars.sampling.live_picture import picture

if TYPE_CHECKING:
    from whichvars.samplers.contract import Run, Sampler

# least seconds between two reports, and between two pictures in a notebook
OFTEN, OFTEN_IN_NOTEBOOKS = 0.4, 1.0
# largest share of the time that computing reports may take
SHARE = 0.05
# columns of a terminal that is wide enough for unabbreviated words
WIDE = 100


class Report(NamedTuple):
    """The argument of a progress callback."""

    done: int  # iterations of all replicates and chains
    total: int | None  # None if it is not known beforehand
    fraction: float  # share of the run that is done, 0 to 1
    seconds: float  # wall time since the start
    largest_mcse: float | None  # of any PIP, as the posterior would report it now; None if not known yet
    status: str  # anything else that the sampler reports
    rate: float = 0.0  # iterations per second, without the time for compiling
    seconds_left: float | None = None
    disagreement: float | None = None  # largest difference between two replicates' PIPs of one variable
    compiling: bool = False  # nothing is sampled yet, as kernels are being compiled
    target_mcse: float | None = None  # the run may end earlier, when `largest_mcse` is at most this
    pip: np.ndarray | None = None  # (p,), inclusion probabilities by now; None if not known yet
    mcse: np.ndarray | None = None  # (p,), their errors; NaN where they are not known


class Progress:
    """A line in a terminal, a line and a picture in a notebook, a callback, or nothing.

    The line appears only if the run takes longer than a second, and disappears when it is done. While kernels are being
    compiled, the line of the announcer replaces it.

    Between chunks, every replicate that no thread is working on is asked for its counts. That changes nothing that is
    counted later, so that draws do not depend on whether anybody looks. When all replicates have counted, these looks are
    combined in the same way as at the end of the run.
    """

    def __init__(
        self,
        mode: bool | Callable[[Report], None],
        total: int | None,
        sampler: "Sampler | None" = None,
        budget: float | None = None,
        announcer: Announcer | None = None,
        target: float | None = None,
        names: Sequence[str] = (),
    ) -> None:
        self.callback = mode if callable(mode) else None
        self.announcer = Announcer(mode, type(sampler).__name__) if announcer is None else announcer
        self.show = self.announcer.show
        self.total, self.sampler, self.budget = total, sampler, budget
        self.target, self.names = target, names
        self.often = OFTEN_IN_NOTEBOOKS if self.show and self.announcer.notebook else OFTEN
        self.started = time.monotonic()
        self.next_look = self.started + (0.0 if self.callback else 1.0)
        # time, iterations and fraction when iterations were first reported
        self.first: tuple[float, int, float] | None = None
        self.line: Any = None
        self.looks: dict[int, Look] = {}

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.line is not None:
            self.line.stop()

    def waiting(self, runs: list["Run"]) -> None:
        """Called every second until the first chunk is done: on a first run, kernels are being compiled."""
        if self.callback is not None and compiling.work().busy:
            done = self._done(runs)
            seconds = time.monotonic() - self.started
            fraction = self._fraction(runs, done, 0.0)
            status = runs[0].status
            self.callback(Report(done, self.total, fraction, seconds, None, status, compiling=True))

    def _done(self, runs: list["Run"]) -> int:
        return sum(run.iterations * getattr(self.sampler, "chains", len(run.units)) for run in runs)

    def update(self, runs: list["Run"], idle: list["Run"], spent: float | None = None) -> None:
        """Called between chunks. `spent` is the part of the budget used so far in seconds, by default the wall time. Only
        `idle` runs, which no thread is working on, are inspected closely."""
        if self.callback is None and not self.show:
            return
        now = time.monotonic()
        done = self._done(runs)
        fraction = self._fraction(runs, done, now - self.started if spent is None else spent)
        if self.first is None and done:
            self.first = (now, done, fraction)
        if now < self.next_look and done != self.total:
            return
        clock = time.perf_counter()
        self._look_at(idle)
        report = self._report(runs, done, fraction, now)
        self.next_look = now + max(self.often, (time.perf_counter() - clock) / SHARE)
        if self.callback is not None:
            self.callback(report)
        else:
            self._draw(report)

    def _fraction(self, runs: list["Run"], done: int, seconds: float) -> float:
        fraction = done / self.total if self.total else float(np.mean([run.fraction for run in runs]))
        return min(1.0, max(fraction, seconds / self.budget if self.budget else 0.0))

    def _look_at(self, idle: list["Run"]) -> None:
        from whichvars._kernels.count.tally import NOW

        for run in idle:
            if self.total and run.units[0].tally.ints[NOW] > 0:
                assert self.sampler is not None
                self.looks[id(run)] = look_at(self.sampler, run)

    def _report(self, runs: list["Run"], done: int, fraction: float, now: float) -> Report:
        assert self.first is not None
        since, before, fraction_before = self.first
        elapsed = max(now - since, 1e-9)
        progress = fraction - fraction_before
        left = elapsed * (1 - fraction) / progress if progress > 0 else None
        rate = (done - before) / elapsed
        report = Report(
            done, self.total, fraction, now - self.started, None, runs[0].status, rate, left,
            target_mcse=self.target,
        )  # fmt: skip
        pips = self._pips(len(runs))
        if pips is None:
            return report
        means = pips.replicate_pips
        return report._replace(
            largest_mcse=float(np.nanmax(pips.mcse)) if np.isfinite(pips.mcse).any() else None,
            disagreement=float(np.ptp(means, axis=0).max()) if len(means) > 1 else None,
            pip=pips.pip,
            mcse=pips.mcse,
        )

    def _pips(self, replicates: int) -> Pips | None:
        """Inclusion probabilities by now, once all replicates have counted."""
        looks = list(self.looks.values())
        return None if len(looks) < replicates else combine_pips(looks)

    def _draw(self, report: Report) -> None:
        if self.line is None:
            self.line = _NotebookLine(self.names) if self.announcer.notebook else _TerminalLine()
        self.announcer.draw(self.line, report)


class CountedProgress:
    """The same for items of about the same size, such as the responses of ``sample_many``."""

    def __init__(
        self, mode: bool | Callable[[Report], None], total: int, items: str, before: int = 0
    ) -> None:
        # `before` items were done in an earlier run
        self.before = before
        self.callback = mode if callable(mode) else None
        self.announcer = Announcer(mode, "Hybrid")
        self.total, self.items = total, items
        self.started, self.first = time.monotonic(), 0.0
        self.line: Any = None

    def __enter__(self) -> "CountedProgress":
        self.announcer.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.announcer.stop()
        if self.line is not None:
            self.line.stop()

    def update(self, done: int) -> None:
        """Called when one more item is done. Kernels are compiled for the first one, which does not count for the speed."""
        now = time.monotonic()
        if (new := done - self.before) == 1:
            self.first = now
        elapsed = max(now - self.first, 1e-9)
        left = elapsed * (self.total - done) / (new - 1) if new > 1 else None
        status = f"{done:,} of {self.total:,} {self.items}"
        report = Report(done, self.total, done / self.total, now - self.started, None, status, (new - 1) / elapsed, left)  # fmt: skip
        if self.callback is not None:
            self.callback(report)
        elif self.announcer.show:
            if self.line is None:
                self.line = _NotebookLine() if self.announcer.notebook else _TerminalLine()
            self.announcer.draw(self.line, report)


def progress_words(report: Report, whole: bool = True) -> list[str]:
    """The parts of a progress line.

    >>> report = Report(600, 1000, 0.6, 9.0, 0.0123, "", 66.7, 6.0, 0.04)
    >>> progress_words(report)
    [' 60%', '0:06 left', '67 iterations/s', 'largest error 0.0123', 'replicates differ by 0.04']
    >>> progress_words(report, whole=False)
    [' 60%', '0:06 left', '67/s', 'error 0.0123', 'apart 0.04']

    If the run ends as soon as it is accurate enough, nobody knows when that will be, but there is a largest number of draws.

    >>> progress_words(report._replace(target_mcse=0.01))[1:4]
    ['at most 0:06 left', '67 iterations/s', 'largest error 0.0123 (target 0.01)']
    """
    parts, target = [f"{report.fraction:4.0%}"], report.target_mcse
    if report.seconds_left is not None:
        most = "" if target is None else "at most " if whole else "<"
        parts.append(f"{most}{_clock(report.seconds_left)} left")
    if not report.status:  # samplers with a status do not count iterations
        parts.append(_speed(report.rate) + (" iterations/s" if whole else "/s"))
    if report.largest_mcse is not None:
        goal = "" if target is None else f" (target {target:.3g})"
        parts.append(f"{'largest error' if whole else 'error'} {report.largest_mcse:.3g}{goal}")
    # a narrow terminal has no room for both
    if report.disagreement is not None and (whole or target is None):
        parts.append(f"{'replicates differ by' if whole else 'apart'} {report.disagreement:.2g}")
    return [*parts, report.status] if report.status else parts


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _speed(rate: float) -> str:
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if rate >= size:
            return f"{rate / size:.3g}{letter}"
    return f"{rate:.2g}"


class _TerminalLine:
    """A progress bar and text on standard error."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        console = Console(stderr=True)
        self.whole = console.width >= WIDE
        self.bar = Progress(
            TextColumn("sampling"),
            BarColumn(bar_width=20 if self.whole else 12),
            TextColumn("{task.fields[words]}", markup=False),
            console=console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=1.0, words="")

    def update(self, report: Report) -> None:
        self.bar.start()  # if it was paused
        words = "  ".join(progress_words(report, self.whole))
        self.bar.update(self.task, completed=report.fraction, words=words)

    def pause(self) -> None:
        """Hide the line until the next report."""
        self.bar.stop()

    def stop(self) -> None:
        self.bar.stop()


class _NotebookLine:
    """A progress bar and text in the output of a notebook cell, and a picture below; without widgets."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        from IPython.display import display

        self.names = names
        self.handle: Any = display({"text/plain": "sampling"}, raw=True, display_id=True)

    def update(self, report: Report) -> None:
        words = ", ".join(part.strip() for part in progress_words(report))
        bar = f'<progress value="{report.fraction:.4f}" max="1"></progress>'
        below = (
            "" if report.pip is None or report.mcse is None else picture(self.names, report.pip, report.mcse)
        )
        self.handle.update(
            {
                "text/plain": f"sampling: {words}",
                "text/html": f"<div>sampling {bar} {html.escape(words)}</div>{below}",
            },
            raw=True,
        )

    def pause(self) -> None:
        """Nothing to do: a notebook shows both lines."""

    def stop(self) -> None:
        self.handle.update({"text/plain": "", "text/html": ""}, raw=True)
