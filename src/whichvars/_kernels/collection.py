"""Python's garbage collector, out of the way while many objects are made that will stay."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Within it, the collector does not look for what can be thrown away.

    It looks when many containers have been made, and now and then at all objects of the process, which takes as long as a short run. One
    such block within another finds the collector off and leaves it so.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
