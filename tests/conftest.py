"""With ``pytest -n``, no kernel is compiled twice: a process that needs one waits for the other that compiles it.

Numba looks into its cache on disk before it compiles, but two processes that look at the same time both find nothing.
Kernels take most of a minute each, so here one lock a kernel is held from the look to the end of the compilation.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

compile_at_once = Dispatcher.compile
held: set[Path] = set()  # by this process; a kernel that calls itself would wait for itself


def compile_once(self: Any, signature: Any) -> Any:
    import fcntl

    folder = self._cache.cache_path
    with global_compiler_lock:  # first: only one thread of a process can then hold locks of kernels
        name = f"{self.py_func.__module__}.{self.py_func.__qualname__}.lock"
        path = None if folder is None else Path(folder) / name
        if path is None or path in held:
            return compile_at_once(self, signature)
        with path.open("a") as file:
            # callers before callees, in every process: they cannot wait for each other in a circle
            fcntl.flock(file, fcntl.LOCK_EX)
            held.add(path)
            try:
                return compile_at_once(self, signature)
            finally:
                held.remove(path)


if "PYTEST_XDIST_WORKER" in os.environ and os.name == "posix":
    Dispatcher.compile = compile_once
