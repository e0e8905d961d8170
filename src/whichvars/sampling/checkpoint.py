"""Checkpoints: runs are saved while they are sampled, so that a run that was killed can be continued.

A checkpoint is a directory:

- ``run.npz``, written once: the problem, the settings, the seeds, and the version of whichvars;
- ``replicate-0.npz``, …: the complete state of each replicate, that is chains and the order of their factors, memo,
  tables, adapted parameters, counts and random generators;
- ``lock``, which is locked by the process that samples.

Replicates are independent, so each is saved on its own: between two chunks the thread that advances it copies it, and
another thread writes the copy while sampling continues. Any set of such files is a valid state of the run. A replicate
without a file starts again from its seed, which gives the same bits. A file replaces an older one only when it is complete.

Products of columns that chains and scans keep (``GramCache``, ``KeptRows``) are not saved: computing them again gives the
same bits. Unused entries of a ``RateTable`` are not saved either.
"""

import contextlib
import dataclasses
import hashlib
import importlib
import inspect
import json
import os
import pkgutil
import re
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from whichvars import _kernels, samplers
from whichvars._kernels.count.model_table import Memo, in_whole_lines
from whichvars._kernels.products.gram_cache import GramCache
from whichvars._kernels.products.kept_rows import KeptRows, empty_rows
from whichvars._kernels.scan.rate_table import ENTRIES, RateTable
from whichvars.data import storage
from whichvars.errors import ArgumentTypeError, CheckpointWarning, DataError, OutputError
from whichvars.problem import saving
from whichvars.problem.for_kernels import NOT_KNOWN_BEFORE
from whichvars.problem.problem import Problem
from whichvars.sampling.plan import Plan, Replicate, Settings, parse_budget

RUN, LOCK = "run.npz", "lock"
# largest share of the CPU time that writing may take, whatever `every` is
SHARE = 0.02
# bytes of zeros that a replicate may contain; they take no memory until they are used
MOST_ZEROS = 64 << 30


class NoProducts(NamedTuple):
    """Saved in place of a ``GramCache``."""

    columns: int
    places: int


class NoRows(NamedTuple):
    """Saved in place of ``KeptRows``."""

    columns: int
    places: int


# --- what is saved


def classes() -> dict[str, type]:
    """All classes that replicates consist of: the named tuples and dataclasses of the samplers and kernels."""
    known: dict[str, type] = {c.__name__: c for c in (Plan, Settings, Replicate, NoProducts, NoRows)}
    for package in (_kernels, samplers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, cls in vars(importlib.import_module(module.name)).items():
                defined_here = inspect.isclass(cls) and cls.__module__ == module.name
                if defined_here and (dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")):
                    known[f"{module.name.removeprefix('whichvars.')}.{name}"] = cls
    return known


def version() -> str:
    return importlib.import_module("whichvars").__version__


def layout() -> str:
    """A hash that changes whenever the fields of these classes change."""
    names = {
        name: [f.name for f in dataclasses.fields(cls)]
        if dataclasses.is_dataclass(cls)
        else list(cls._fields)  # type: ignore[attr-defined]
        for name, cls in sorted(classes().items())
    }
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:16]


def problem_fingerprint(problem: Problem) -> str:
    """SHA-256 of a problem, without the table that is kept for speed and extended as models grow."""
    # what only descriptions need does not make it another problem
    state = {name: value for name, value in problem.__getstate__().items() if name not in NOT_KNOWN_BEFORE}
    target = state["_target"]
    slab = target.slab._replace(table=np.zeros((0, 0, 0)))
    return storage.digest_of({**state, "_target": target._replace(slab=slab)}, saving.CLASSES)


def needed(value: Any) -> Any:
    """A state without what need not be saved: every ``GramCache``, all ``KeptRows``, and the unused rows of every
    ``RateTable``."""

    def used(table: Any) -> Any:
        rows = int(table.ints[ENTRIES])
        arrays: dict[str, Any] = {
            "rows": table.rows,
            "probabilities": table.probabilities,
            "tried": table.tried,
        }
        return table._replace(
            **{name: storage.Leading(array, min(rows, len(array))) for name, array in arrays.items()}
        )

    value = _replace(value, GramCache, lambda cache: NoProducts(len(cache.place), len(cache.kept)))
    value = _replace(value, KeptRows, lambda rows: NoRows(len(rows.place), len(rows.held)))
    return _replace(value, RateTable, used)


def with_products(value: Any) -> Any:
    """A state that was read, with empty caches where ``needed`` left them out, and the memo where look-ups are fast."""

    def empty(n: NoProducts) -> GramCache:
        return GramCache(
            place=np.full(n.columns, -1, np.int32),
            computed=np.zeros(n.columns, np.int32),
            kept=np.full(n.places, -1, np.int64),
            values=np.zeros((n.columns, n.places)),
            next_place=np.zeros(1, np.int64),
        )

    value = _replace(value, NoRows, lambda n: empty_rows(n.columns, n.places))
    value = _replace(value, Memo, in_whole_lines)
    return _replace(value, NoProducts, empty)


def _replace(value: Any, cls: type, make: Any) -> Any:
    """A nested structure with all instances of `cls` replaced. Lists and dataclasses are copied, arrays are not."""

    def inner(item: Any) -> Any:
        return _replace(item, cls, make)

    if isinstance(value, cls):
        return make(value)
    if isinstance(value, tuple):
        parts = [inner(item) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [inner(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{f.name: inner(getattr(value, f.name)) for f in dataclasses.fields(value)}
        )
    return value


# --- the directory


@dataclasses.dataclass(frozen=True)
class Passing(os.PathLike[str]):
    """A directory that is deleted when the run is done, so that its final state need not be written."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)


class Checkpoint:
    """The directory of a run, locked until ``close``.

    If writing fails during sampling, there is a warning, the last files stay, and writing is tried again when the next
    files are due.
    """

    def __init__(self, directory: str | os.PathLike[str], every: str | float = "30s") -> None:
        self.directory = Path(directory).absolute()
        self.keeps_end = not isinstance(directory, Passing)
        self.every = parse_every(every)
        self.token = ""
        self.due: dict[int, float] = {}
        self.written: dict[int, tuple[int, int]] = {}
        self.started = time.process_time()
        self.spent = 0.0  # CPU seconds spent on writing
        self.last = 0.0  # CPU seconds spent on the last file
        self._room, self._room_taken = storage.Room(), threading.Lock()
        self._pending: dict[int, Future[bool]] = {}
        self._lock = lock_directory(self.directory)
        self.known = classes()
        for name in ("run", "replicate-*"):  # files that a killed process did not finish
            for unfinished in self.directory.glob(f".{name}.npz.*.tmp"):
                unfinished.unlink()
        self._writer = ThreadPoolExecutor(1)

    def close(self) -> None:
        """Wait until all files are written, and release the lock."""
        self._writer.shutdown()
        if self.keeps_end:
            # nobody is at work, although this process may live on. Without it, results are still to be written
            self._lock.truncate(0)
        self._lock.close()

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def exists(self) -> bool:
        return (self.directory / RUN).exists()

    def begin(self, problem: Problem, settings: Settings) -> None:
        """Write what does not change during a run. The directory must not contain another run."""
        self.token = uuid.uuid4().hex
        self._write_run(problem, settings)

    def _write_run(self, problem: Problem, settings: Settings) -> None:
        content = {
            "token": self.token,
            "version": version(),
            "layout": layout(),
            "fingerprint": problem_fingerprint(problem),
            "settings": settings,
            "problem": problem,
        }
        known = {**self.known, **{c.__name__: c for c in saving.CLASSES}}
        try:
            storage.save(self.directory / RUN, "run", content, known)
        except TypeError as error:
            raise ArgumentTypeError(f"this run cannot be saved in a checkpoint: {error}") from error
        except OSError as error:
            raise OutputError(f"cannot write a checkpoint to {self.directory}: {error.strerror}") from error

    def read_run(self) -> tuple[Problem, Settings, str]:
        """The problem, the settings, and the fingerprint of the problem."""
        problem, settings, fingerprint, self.token = read_run(self.directory, self.known)
        return problem, settings, fingerprint

    def change_settings(self, problem: Problem, settings: Settings) -> None:
        """Save the settings of a run that is extended."""
        self._write_run(problem, settings)

    def replicates(self) -> dict[int, Replicate]:
        """All replicates that were saved."""
        replicates = {
            index: read_replicate(path, index, self.token, self.known)
            for index, path in replicate_files(self.directory).items()
        }
        self.written |= {index: _moment(replicate) for index, replicate in replicates.items()}
        return replicates

    def start_clock(self, replicates: int) -> None:
        """Schedule the first files of the replicates, one after the other."""
        self.started, now = time.process_time(), time.monotonic()
        self.due = {i: now + self.every * (i + 1) / replicates for i in range(replicates)}

    def write_if_due(self, index: int, replicate: Replicate, others: Iterable[int] = ()) -> None:
        """If a file is due, copy a replicate that no thread is working on; another thread writes the copy.

        There is memory for one copy only: while it is being written, other replicates have to wait. The replicate that
        has been due for longest goes first. `others` are the replicates that are still being advanced.
        """
        now = time.monotonic()
        if now < self.due[index] or any(self.due[i] < self.due[index] for i in others):
            return
        if not self._affordable() or not self._is_written(index):
            return
        if not self._room_taken.acquire(blocking=False):
            return
        clock = time.thread_time()
        try:
            prepared = self._prepare(index, replicate, self._room)
        except BaseException:
            self._room_taken.release()
            raise
        self.due[index] = max(self.due[index] + self.every, now)
        self._pending[index] = self._writer.submit(
            self._store_copy, index, prepared, _moment(replicate), time.thread_time() - clock
        )

    def _affordable(self) -> bool:
        """Whether one more file keeps the time spent on writing below its share of the CPU time of the process."""
        return self.spent + self.last <= SHARE * (time.process_time() - self.started)

    def _is_written(self, index: int, wait: bool = False) -> bool:
        """Whether the last file has been written; an error of the thread that wrote it is raised here."""
        pending = self._pending.get(index)
        if pending is not None and (wait or pending.done()):
            del self._pending[index]
            pending.result()
        return index not in self._pending

    def write(self, index: int, replicate: Replicate) -> bool:
        """Write a replicate now; returns False, with a warning, if that is not possible."""
        self._is_written(index, wait=True)
        if self.written.get(index) == _moment(replicate):
            return True
        return self._store(index, self._prepare(index, replicate), _moment(replicate), 0.0)

    def _prepare(
        self, index: int, replicate: Replicate, room: storage.Room | None = None
    ) -> storage.Prepared:
        content = {"token": self.token, "index": index, "replicate": needed(replicate)}
        return storage.prepare("replicate", content, self.known, trim=True, room=room)

    def _store_copy(
        self, index: int, prepared: storage.Prepared, moment: tuple[int, int], copying: float
    ) -> bool:
        try:
            return self._store(index, prepared, moment, copying)
        finally:
            self._room_taken.release()

    def _store(self, index: int, prepared: storage.Prepared, moment: tuple[int, int], copying: float) -> bool:
        # not wall time: other threads can use the CPU while this one waits for the disk
        clock = time.thread_time()
        try:
            storage.write(self._path(index), prepared, quick=True)
        except OSError as error:
            self.due[index] = time.monotonic() + self.every
            warnings.warn(
                f"the checkpoint of replicate {index} could not be written to {self.directory}: {error.strerror or error}. "
                f"Sampling continues; {self._previous(index)}, and writing is tried again in {self.every:g} seconds",
                CheckpointWarning,
                stacklevel=2,
            )
            return False
        finally:
            self.last = copying + time.thread_time() - clock
            self.spent += self.last
        self.written[index] = moment
        return True

    def _path(self, index: int) -> Path:
        return self.directory / f"replicate-{index}.npz"

    def _previous(self, index: int) -> str:
        kept = self._path(index).exists()
        return "the previous checkpoint is kept" if kept else "there is no previous checkpoint"


def _moment(replicate: Replicate) -> tuple[int, int]:
    return replicate.run.iterations, int(replicate.counting)


def parse_every(every: str | float) -> float:
    """Seconds between two checkpoints."""
    seconds = parse_budget(every).seconds
    if seconds is None:
        raise DataError(f'every={every!r} has no unit: give a time such as "30s", or a number of seconds')
    return seconds


# --- reading, which needs no lock: a file is replaced only when the new one is complete


def read_run(directory: Path, known: dict[str, type]) -> tuple[Problem, Settings, str, str]:
    """The problem, the settings, the fingerprint of the problem, and the token of a run."""
    path = directory / RUN
    if not path.exists():
        raise DataError(f"{directory} holds no checkpoint: it has no {RUN}")
    content = storage.load(path, "run", {**known, **{c.__name__: c for c in saving.CLASSES}})
    if (content["version"], content["layout"]) != (version(), layout()):
        raise DataError(
            f"the checkpoint in {directory} was made by another version of whichvars, {content['version']}; this is "
            f"{version()}. Continue with the version that made it, or start again in another directory"
        )
    return content["problem"], content["settings"], content["fingerprint"], content["token"]


def replicate_files(directory: Path) -> dict[int, Path]:
    """The files of the replicates that were saved."""
    matches = ((re.fullmatch(r"replicate-(\d+)\.npz", path.name), path) for path in directory.glob("*.npz"))
    return {int(match[1]): path for match, path in matches if match}


def read_replicate(path: Path, index: int, token: str, known: dict[str, type]) -> Replicate:
    """A replicate of the run with this token."""
    try:
        content = storage.load(path, "replicate", known, MOST_ZEROS)
    except DataError as error:
        raise DataError(
            f"{error}; if you remove this file, its replicate starts again and the others continue"
        ) from error
    if content["token"] != token or content["index"] != index:
        raise DataError(f"{path} belongs to another run; if you remove it, its replicate starts again")
    replicate: Replicate = with_products(content["replicate"])
    return replicate


# --- the lock


def lock_directory(directory: Path) -> IO[str]:
    """Create the directory and lock it. The operating system releases the lock when the process ends for any reason, so a
    run that was killed leaves no lock behind."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        stream = open(directory / LOCK, "a+", encoding="utf-8")  # noqa: SIM115 - stays open during the run
    except OSError as error:
        raise OutputError(
            f"cannot write a checkpoint to {directory}: {error.strerror}; name another directory"
        ) from error
    try:
        _take(stream)
    except OSError:
        stream.seek(0)
        owner = stream.read(20).strip()
        stream.close()
        raise OutputError(
            f"another run is using {directory} (process {owner or 'unknown'}); wait for it, or name another directory"
        ) from None
    stream.truncate(0)
    stream.write(str(os.getpid()))
    stream.flush()
    return stream


if sys.platform == "win32":  # pragma: no cover

    def _take(stream: IO[str]) -> None:
        import msvcrt

        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)

else:

    def _take(stream: IO[str]) -> None:
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def locked(directory: str | os.PathLike[str] | None, every: str | float) -> Iterator[Checkpoint | None]:
    """The checkpoint in a directory, or None without a directory."""
    if directory is None:
        yield None
        return
    with Checkpoint(directory, every) as checkpoint:
        yield checkpoint
