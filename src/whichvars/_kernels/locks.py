"""Two processes do not compile the same function: the second waits for the first and reads what it has made.

Numba looks into its cache on disk before it compiles, but two processes that look at the same time both find nothing. Here a function
has a file, and whoever looks for the function and compiles it holds that file locked. Functions lock their callees after themselves and
none calls itself, so that processes cannot wait for each other in a circle. The system unlocks the files of a process that ends.

Where files cannot be locked, or another process is not done after a long time (it may have been stopped), everybody compiles alone.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

PATIENCE = 180.0  # seconds; several times as long as any function takes
POLL_INTERVAL = 0.02  # seconds from one try to the next

_held: set[Path] = set()  # by this process


def share(dispatcher: Any) -> Any:
    """Have this function of Numba's compiled by one process at a time."""
    alone = dispatcher.compile

    def compile_once(signature: Any) -> Any:
        with global_compiler_lock:  # first: of a process, only one thread can then hold files
            folder = dispatcher._cache.cache_path
            if folder is None or fcntl is None:
                return alone(signature)
            function = dispatcher.py_func
            with _locked(Path(folder) / f"{function.__module__}.{function.__qualname__}.lock"):
                return alone(signature)

    dispatcher.compile = compile_once
    return dispatcher


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold this file, if that is possible."""
    if path in _held:
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError:
        yield
        return
    with file:
        if _lock(file):
            _held.add(path)
        try:
            yield
        finally:
            _held.discard(path)


def _lock(file: Any) -> bool:
    """Lock a file, after waiting for others; False if that cannot be done."""
    if (locked := _try_to_lock(file)) is not None:
        return locked
    # another process compiles for us, so users are told that kernels are being compiled
    with event.trigger_event("numba:compile"):
        until = time.monotonic() + PATIENCE
        while locked is None and time.monotonic() < until:
            time.sleep(POLL_INTERVAL)
            locked = _try_to_lock(file)
    return bool(locked)


def _try_to_lock(file: Any) -> bool | None:
    """Whether it is locked now; None while another process holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError:  # some network file systems
        return False
    return True
