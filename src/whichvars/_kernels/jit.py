"""The one decorator that compiles a kernel, and where compiled code is kept.

Numba keeps compiled functions on disk, but checks only the file of the function itself: one whose *callee in
another file* changed would be served stale after an upgrade. So the cache directory carries a hash of every
kernel source, of Python's and of Numba's version: a change anywhere is a new directory.

The cached files are pickles, which run code when read; a directory is therefore used only if it belongs to
this user and nobody else can write to it. Order of choice: ``WHICHVARS_CACHE_DIR``, the user's cache
directory, a private directory in the temporary directory, and if none can be written, no cache at all
(kernels compile in every process).

A wheel may hold the machine code of all entries (shipped.py); then nothing is compiled and nothing cached. With
``WHICHVARS_COMPILE=1`` it is left alone.
"""

import hashlib
import os
import platform
import stat
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numba

try:  # they use what Numba does not promise to keep
    from whichvars._kernels import linking, locks, references, shipped
except (ImportError, AttributeError):
    linking = locks = references = shipped = None  # type: ignore[assignment]

numba_config: Any = numba.config
PACKAGE = Path(__file__).resolve().parent.parent
Named = TypeVar("Named", bound=type)


def _can_link() -> bool:
    """Whether to use what references.py and linking.py make of Numba; else kernels are plain Numba functions, which give the
    same bits but take four times as long to compile."""
    if numba_config.DISABLE_JIT or os.environ.get("WHICHVARS_PLAIN_NUMBA", "0") not in ("", "0"):
        return False
    return linking is not None and not linking.missing()


LINKED = _can_link()
KERNEL: dict[str, Any] = {"_nrt": False, "no_cpython_wrapper": True}
ENTRY: dict[str, Any] = {}
if LINKED:
    KERNEL["pipeline_class"] = linking.KernelCompiler
    KERNEL["no_rewrites"] = True  # they are for expressions of whole arrays, which kernels have none of
    ENTRY["pipeline_class"] = linking.EntryCompiler


# In the machine code of a wheel, an entry has all that it needs in one file.
ROUTINES = (
    LINKED and linking.can_make_routines() and os.environ.get("WHICHVARS_ROUTINES", "1") not in ("", "0")
)
SOURCES = (PACKAGE / "_kernels", PACKAGE / "samplers")


def hash_of_sources(folders: tuple[Path, ...] = SOURCES) -> str:
    """A hash of all kernel sources."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def source_stamp(folders: tuple[Path, ...] = SOURCES) -> str:
    """A hash of all kernel sources and of what compiles them."""
    compiler = f"{platform.python_version()} numba {numba.__version__} {LINKED} {ROUTINES}"
    return hashlib.sha256(f"{compiler} {hash_of_sources(folders)}".encode()).hexdigest()[:16]


def _find_shipped() -> tuple[Any, str]:
    if numba_config.DISABLE_JIT:
        return None, "NUMBA_DISABLE_JIT is set, so that kernels run as plain Python"
    if not LINKED:
        return None, "kernels are plain Numba functions"
    if os.environ.get("WHICHVARS_COMPILE", "0") not in ("", "0"):
        return None, "WHICHVARS_COMPILE is set"
    return shipped.find(hash_of_sources())


# machine code that came with the package, or why none is used
SHIPPED, WHY_NOT_SHIPPED = _find_shipped()
entries: list[Any] = []  # every entry, in the order in which they were defined


def _candidates() -> list[Path]:
    chosen = os.environ.get("WHICHVARS_CACHE_DIR")
    if chosen:
        return [Path(chosen)]
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    # relative: the "~" of a user without a home
    candidates = [Path(base) / "whichvars"] if os.path.isabs(base) else []
    try:
        user = getattr(os, "getuid", lambda: "user")()
        candidates.append(Path(tempfile.gettempdir()) / f"whichvars-{user}")
    except OSError:  # not even a temporary directory can be written
        pass
    return candidates


def _private_and_writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = directory.stat()
        if hasattr(os, "getuid") and (
            status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        ):
            return False
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


@lru_cache(maxsize=1)
def cache_directory() -> Path | None:
    """The directory of this version's compiled kernels, or None when nothing can be written."""
    stamp = source_stamp()
    for base in _candidates():
        directory = base / f"kernels-{stamp}"
        if _private_and_writable(base) and _private_and_writable(directory):
            return directory
    return None


def by_reference(cls: Named) -> Named:
    """A class of named tuples that kernels take as one pointer; see references.py. Nothing changes for Python."""
    if LINKED:
        references.register(cls)
    return cls


class _Several(tuple[Any, ...]):
    """One type for Numba, however many there are in it."""


# Named tuples of one type, of which a kernel chooses by number: ``several[i]``. To plain Numba every length is a type of its own.
Several: type[tuple[Any, ...]] = _Several if LINKED else tuple
if LINKED:
    references.register_several(_Several)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` with Numba: without the GIL, without fastmath, kept on disk under the stamp.

    Kernels allocate nothing and count no references (``_nrt=False``): with some 40 arrays in the named
    tuples, reference counts would take most of the time. They are called from other kernels only; what Python
    calls is an ``entry``, and only there is machine code made of them (linking.py). With ``NUMBA_DISABLE_JIT=1`` a
    kernel stays a plain Python function that gives the same bits.
    """
    return _compile(function, **KERNEL)


def routine(function: Callable[..., Any]) -> Any:
    """Like ``kernel``: for large functions that many entries need. It gets machine code of its own, which they share, where an
    entry would otherwise compile all of it again; nothing of it is inlined where it is called."""
    if not ROUTINES:
        return kernel(function)
    return _compile(function, **KERNEL | {"pipeline_class": linking.RoutineCompiler})


def inlined(function: Callable[..., Any]) -> Any:
    """Like ``kernel``: for small functions, which LLVM inlines by itself where that pays. In plain Numba, where each would be
    given the large named tuples by value, it is written out in place wherever it is called."""
    return _compile(function, **KERNEL, **({} if LINKED else {"inline": "always"}))


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls: it alone counts references and unpacks named tuples. Let its body
    be a call of a ``kernel``."""
    compiled = _compile(function, **ENTRY)
    if SHIPPED is not None:
        compiled._cache = shipped.Cache(function, SHIPPED, compiled._cache)
    entries.append(compiled)
    return compiled


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    if numba_config.DISABLE_JIT:
        return function
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    directory = cache_directory()
    if directory is None:
        return numba.njit(**options)(function)
    before = numba_config.CACHE_DIR
    numba_config.CACHE_DIR = str(directory)  # read by Numba while it decorates
    try:
        if not LINKED or options.get("_nrt", True):
            compiled: Any = numba.njit(cache=True, **options)(function)
        else:
            compiled = linking.without_literals(numba.njit(**options)(function))
            if options["pipeline_class"] is linking.RoutineCompiler:
                compiled._cache = linking.RoutineCache(function)
            else:
                compiled._cache = linking.KernelCache(function, directory)
        return compiled if locks is None or SHIPPED is not None else locks.share(compiled)
    finally:
        numba_config.CACHE_DIR = before
