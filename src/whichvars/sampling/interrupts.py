"""Requests to stop a run: Ctrl-C, or the SIGTERM that schedulers of clusters send."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Asked:
    """The number of requests to stop so far."""

    times = 0


@contextmanager
def listen(active: bool) -> Iterator[Asked]:
    """Inside this context, the first signal is only counted, and the second raises KeyboardInterrupt.

    It does nothing unless `active`, nor outside the main thread, where Python does not allow signal handlers.
    """
    asked = Asked()

    def handle(number: int, frame: Any) -> None:
        asked.times += 1
        if asked.times > 1:
            raise KeyboardInterrupt
        print("stopping after this chunk; once more stops at once", file=sys.stderr)

    if not active or threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
