"""A clock that stands still while Numba compiles, and what it compiles at the moment.

Kernels are compiled, or read from where compiled ones are kept, when they are first called, in whichever thread that
happens: minutes after an installation, a second in every new process. No time that a run is given should go into that.

Numba tells of it by events (``numba.core.event``). That of its lock, "numba:compiler_lock", begins when a thread wants to
compile, so that waiting for another thread that compiles is in it, and so is reading from disk, which "numba:compile"
leaves out. Nothing takes the lock once kernels are there. Where there are no such events, as with
``NUMBA_DISABLE_JIT=1`` or in a Numba that has others, this is a clock like any other.

"numba:compile" is what users are told of (``work``): what is only read from disk is there soon.
"""

import os
import threading
import time
import uuid
from typing import NamedTuple

KIND, WORK = "numba:compiler_lock", "numba:compile"
_BORN = uuid.uuid4().hex


class Work(NamedTuple):
    """What was compiled so far."""

    busy: bool  # a thread is at it now
    seconds: float
    finished: int  # functions, of which some were compiled for the sake of others


class Meter:
    """Adds up the time in which at least one thread compiles.

    An end may get lost, where an interrupt comes between Numba's lock and its event. So a thread that asks for the time is
    not taken to be compiling, nor is one that has ended.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depths: dict[threading.Thread, int] = {}  # of compilations within compilations, by thread
        self.since = 0.0  # when the first of these threads began
        self.total = 0.0  # seconds, but for those since then
        self.finished = 0

    def begin(self) -> None:
        """The thread that calls begins to compile, or to wait for its turn."""
        me = threading.current_thread()
        with self.lock:
            if not self.depths:
                self.since = time.monotonic()
            self.depths[me] = self.depths.get(me, 0) + 1

    def end(self) -> None:
        """It is done with what it began last."""
        me = threading.current_thread()
        with self.lock:
            self.finished += 1
            if self.depths.get(me, 0) > 1:
                self.depths[me] -= 1
            else:
                self._leave(me)

    def _leave(self, *threads: threading.Thread) -> None:
        left = [self.depths.pop(thread, 0) for thread in threads]
        if any(left) and not self.depths:
            self.total += time.monotonic() - self.since

    def clock(self) -> float:
        """Seconds on the monotonic clock, without those in which anything was compiled."""
        me = threading.current_thread()
        with self.lock:
            self._leave(*[thread for thread in self.depths if thread is me or not thread.is_alive()])
            return (self.since if self.depths else time.monotonic()) - self.total

    def work(self) -> Work:
        """What was compiled so far, by all threads; as for ``clock``, not by the one that asks now."""
        self.clock()  # takes lost ends away
        with self.lock:
            since = time.monotonic() - self.since if self.depths else 0.0
            return Work(bool(self.depths), self.total + since, self.finished)


def listen(meter: Meter, kind: str = KIND) -> bool:
    """Have Numba tell a meter of its compilations from now on; False if it cannot."""
    try:
        from numba.core import event

        class Listener(event.Listener):
            def on_start(self, event: object) -> None:
                meter.begin()

            def on_end(self, event: object) -> None:
                meter.end()

        event.register(kind, Listener())
    except (
        ImportError,
        AttributeError,
        ValueError,
    ):  # no such module, no such function, no such kind of event
        return False
    return True


def process() -> str:
    """A word for this process: those of two machines differ too."""
    return f"{_BORN}-{os.getpid()}"


_meter = Meter()
# once and for good: Numba goes through its list of listeners without a lock, and one that came while others go could be
# passed over
listen(_meter)
clock = _meter.clock
_worker = Meter()
listen(_worker, WORK)
work = _worker.work
