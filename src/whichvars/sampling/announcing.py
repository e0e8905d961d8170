"""A line in a terminal or notebook that says, from the first second, that kernels are being compiled.

On the first run of a version this takes half a minute, in which nothing else would be displayed. A separate thread watches
the compiler (``compiling.work``), as the main thread may be the one that compiles.
"""

import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from whichvars._kernels.jit import cache_directory
from whichvars.sampling import compiling

# seconds between two checks
EVERY = 0.2
# seconds of compiling before anything is displayed
PATIENCE = 0.5
# seconds to lower one function, on the machine on which EFFORTS were measured
LOWERING = 0.07
# A function that takes this many seconds longer than expected includes optimising a whole kernel.
LONG = 0.8
# share of a sampler's functions that no other sampler uses, roughly
LEAST_NEW = 0.2


class Effort(NamedTuple):
    """The work of compiling a sampler."""

    functions: int
    optimising: float  # CPU seconds, after the functions were lowered one by one


# measured with an empty cache directory; only rough, as it changes with every version
EFFORTS = {
    "exact": Effort(43, 0.7),
    "Hybrid": Effort(207, 7.1),
    "AddDeleteSwap": Effort(168, 5.5),
    "Lamnisos": Effort(173, 5.7),
    "IndividualAdaptation": Effort(180, 5.9),
    "ASI": Effort(172, 6.0),
    "PARNI": Effort(171, 5.9),
    "TemperedGibbs": Effort(182, 6.2),
    "SubsetGibbs": Effort(177, 7.4),
    "ParallelTempering": Effort(202, 6.2),
    "SequentialMonteCarlo": Effort(187, 6.1),
}


class Forecast:
    """Predicts how long compiling will still take, from the time it took on another machine and the speed of this one."""

    def __init__(self, effort: Effort, kept: int) -> None:
        """`kept`: number of functions that are on disk already, for any sampler."""
        self.functions = max(effort.functions - kept, round(LEAST_NEW * effort.functions))
        self.optimising = effort.optimising
        self.done, self.at = 0, 0.0  # functions done, and the seconds after which they were
        self.lowered = 0.0  # seconds spent on them without optimising

    def left(self, seconds: float, done: int) -> float:
        """Seconds left when `done` functions took `seconds`; negative if the prediction was too optimistic."""
        if done > self.done:
            self._note(seconds, done)
        work = LOWERING * max(self.functions - self.done, 0) + self.optimising
        return work / self._speed() - (seconds - self.at)

    def _speed(self) -> float:
        """The speed relative to the other machine; at first it is assumed to be the same."""
        return (1 + LOWERING * self.done) / (1 + self.lowered)

    def _note(self, seconds: float, done: int) -> None:
        took, expected = seconds - self.at, LOWERING * (done - self.done) / self._speed()
        if took > expected + LONG / self._speed():  # a whole kernel was optimised meanwhile
            self.optimising = max(self.optimising - (took - expected) * self._speed(), 0.0)
            took = expected
        self.lowered += took
        self.done, self.at = done, seconds


def compiling_words(what: str, left: float | None) -> str:
    """The text of the line.

    >>> compiling_words("the sampler", 7.3), compiling_words("the sampler", 43.0)
    ('compiling the sampler, once per version, about 7 s left', 'compiling the sampler, once per version, about 45 s left')
    >>> compiling_words("the enumeration", None)
    'compiling the enumeration, once per version'
    """
    words = f"compiling {what}, once per version"
    if left is None or left < 0.5:
        return words
    return f"{words}, about {5 * round(left / 5) if left > 20 else round(left)} s left"


# by name of the sampler, with the work done before; kept for the whole process, as several runs may follow one another
_forecasts: dict[str, tuple[Forecast, compiling.Work]] = {}


class Announcer:
    """Displays a line while anything is compiled inside this context, if `mode` is True and in a terminal or notebook."""

    def __init__(self, mode: bool | Callable[..., None], name: str) -> None:
        """`name`: the name of the sampler's class, or "exact"."""
        self.what = "the enumeration" if name == "exact" else "the sampler"
        self.name = name
        self.notebook = in_notebook()
        self.show = mode is True and (sys.stderr.isatty() or self.notebook)
        self.lock = threading.Lock()  # for `line` and `bar`, which must not be drawn at the same time
        self.line: Any = None
        self.bar: Any = None  # a progress bar, which is hidden while the line is displayed
        self.over = threading.Event()
        self.thread: threading.Thread | None = None

    def __enter__(self) -> "Announcer":
        if self.show:
            self.before = compiling.work()
            # a notebook needs the context to know to which cell the output belongs
            run = contextvars.copy_context().run
            self.thread = threading.Thread(target=run, args=(self._watch,), daemon=True)
            self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the line and stop watching."""
        self.over.set()
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        with self.lock:
            self._hide()

    def draw(self, bar: Any, report: Any) -> None:
        """Draw a progress bar, unless the line is displayed."""
        with self.lock:
            if self.line is None:
                self.bar = bar
                bar.update(report)

    def _watch(self) -> None:
        while not self.over.wait(EVERY):
            self.look()

    def look(self) -> None:
        """Display the line if anything is being compiled, and hide it otherwise."""
        work = compiling.work()
        left = self._left(work) if work.busy else None
        with self.lock:
            if not work.busy:
                self._hide()
            elif work.seconds - self.before.seconds >= PATIENCE:
                self._display(compiling_words(self.what, left))

    def _left(self, work: compiling.Work) -> float | None:
        if self.name not in _forecasts:
            if self.name not in EFFORTS:
                return None
            kept = max(_kept() - (work.finished - self.before.finished), 0)
            _forecasts[self.name] = Forecast(EFFORTS[self.name], kept), self.before
        forecast, before = _forecasts[self.name]
        return forecast.left(work.seconds - before.seconds, work.finished - before.finished)

    def _display(self, words: str) -> None:
        if self.line is None:
            if self.bar is not None:
                self.bar.pause()
            self.line = _NotebookWords() if self.notebook else _TerminalWords()
        self.line.say(words)

    def _hide(self) -> None:
        if self.line is not None:
            self.line.stop()
            self.line = None


def _kept() -> int:
    """The number of compiled functions on disk."""
    directory = cache_directory()
    return 0 if directory is None else sum(1 for _ in directory.rglob("*.nbi"))


def in_notebook() -> bool:
    """Whether this runs in a notebook. That ipykernel is loaded is not enough, as distributed loads it too."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel")


class _TerminalWords:
    """A line on standard error."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self.live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)
        self.live.start()

    def say(self, words: str) -> None:
        from rich.text import Text

        self.live.update(Text(words, no_wrap=True, overflow="ellipsis"), refresh=True)

    def stop(self) -> None:
        self.live.stop()


class _NotebookWords:
    """A line in the output of a notebook cell."""

    def __init__(self) -> None:
        from IPython.display import display

        self.handle: Any = display({"text/plain": ""}, raw=True, display_id=True)
        self.said = ""

    def say(self, words: str) -> None:
        if words != self.said:
            self.said = words
            self.handle.update({"text/plain": words, "text/html": words}, raw=True)

    def stop(self) -> None:
        self.handle.update({"text/plain": "", "text/html": ""}, raw=True)
