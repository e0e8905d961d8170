"""A clock that stops while Numba compiles, and a record of what has been compiled.

Kernels are compiled, or read from the cache on disk, when they are first called, in whichever thread calls them. This
takes up to minutes after an installation and about a second in every new process. It should not use up the time budget
of a run.

Numba reports its work by events (``numba.core.event``). The event of its lock, "numba:compiler_lock", begins when a thread
wants to compile. It therefore includes waiting for another thread that compiles, and also reading from disk, which
"numba:compile" leaves out. Nothing takes the lock once kernels are in memory. Without such events, as with
``NUMBA_DISABLE_JIT=1`` or in a version of Numba with other events, this is an ordinary clock.

Users are told about "numba:compile" only (``work``), as reading from disk does not take long.
"""

import os
import threading
import time
import uuid
from typing import NamedTuple

KIND, WORK = "numba:compiler_lock", "numba:compile"
_BORN = uuid.uuid4().hex


class Work(NamedTuple):
    """The work of the compiler so far."""

    busy: bool  # whether a thread is compiling now
    seconds: float
    finished: int  # number of functions, including those that were compiled because others call them


class Meter:
    """Adds up the time in which at least one thread compiles.

    The end of a compilation can be missed if an interrupt comes between Numba's lock and its event. A thread that asks for
    the time is therefore assumed not to be compiling, and so is a thread that has ended.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depths: dict[threading.Thread, int] = {}  # nested compilations of each thread
        self.since = 0.0  # when the first of these threads began
        self.total = 0.0  # seconds before `since`
        self.finished = 0

    def begin(self) -> None:
        """Record that the calling thread begins to compile, or to wait for its turn."""
        me = threading.current_thread()
        with self.lock:
            if not self.depths:
                self.since = time.monotonic()
            self.depths[me] = self.depths.get(me, 0) + 1

    def end(self) -> None:
        """Record that the calling thread has finished the compilation that it began last."""
        me = threading.current_thread()
        with self.lock:
            self.finished += 1
            if self.depths.get(me, 0) > 1:
                self.depths[me] -= 1
            else:
                self._remove(me)

    def _remove(self, *threads: threading.Thread) -> None:
        depths = [self.depths.pop(thread, 0) for thread in threads]
        if any(depths) and not self.depths:
            self.total += time.monotonic() - self.since

    def clock(self) -> float:
        """Seconds on the monotonic clock, without the time in which anything was compiled."""
        me = threading.current_thread()
        with self.lock:
            self._remove(*[thread for thread in self.depths if thread is me or not thread.is_alive()])
            return (self.since if self.depths else time.monotonic()) - self.total

    def work(self) -> Work:
        """The work of all threads so far; as in ``clock``, the calling thread is not compiling now."""
        self.clock()  # removes threads whose end was missed
        with self.lock:
            since = time.monotonic() - self.since if self.depths else 0.0
            return Work(bool(self.depths), self.total + since, self.finished)


def listen(meter: Meter, kind: str = KIND) -> bool:
    """Make Numba report its compilations to a meter from now on; False if that is impossible."""
    try:
        from numba.core import event

        class Listener(event.Listener):
            def on_start(self, event: object) -> None:
                meter.begin()

            def on_end(self, event: object) -> None:
                meter.end()

        event.register(kind, Listener())
    except (ImportError, AttributeError, ValueError):
        return False  # this version of Numba has no such module, function or kind of event
    return True


def process() -> str:
    """An identifier of this process, which is unique among all machines."""
    return f"{_BORN}-{os.getpid()}"


_meter = Meter()
# Listeners are never removed: Numba iterates over them without a lock, so that one could be skipped.
listen(_meter)
clock = _meter.clock
_worker = Meter()
listen(_worker, WORK)
work = _worker.work
