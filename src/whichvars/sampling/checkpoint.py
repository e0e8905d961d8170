"""Runs on disk: written while they go on, so that a run that was killed can be gone on with.

A checkpoint is a directory:

- ``run.npz``, written once: the problem, the settings, the seeds, and by which version;
- ``replicate-0.npz``, …: each replicate with all that it will ever look at again: chains and the order of their
  factors, memo, tables, what was learned, counts, random generators;
- ``lock``, held by the process that runs.

Replicates have nothing to do with one another, so each is written on its own: between two chunks it is copied by the
thread that runs it, and written by a thread that does nothing else, while sampling goes on. Any set of such files is a
state of the run. A replicate without a file starts anew, which its seed does to the last bit. Files take the place of
older ones only when they are whole.

Products of columns that chains and scans keep (``GramCache``, ``KeptRows``) are not written: they are a shortcut, and
the same bits come of computing them again. Nor are the entries of a ``RateTable`` that are not in use.
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
from whichvars._kernels.products.gram_cache import GramCache
from whichvars._kernels.products.kept_rows import KeptRows, empty_rows
from whichvars._kernels.scan.rate_table import ENTRIES, RateTable
from whichvars.data import storage
from whichvars.errors import ArgumentTypeError, CheckpointWarning, DataError, OutputError
from whichvars.problem import saving
from whichvars.problem.problem import Problem
from whichvars.sampling.plan import Plan, Replicate, Settings, parse_budget

RUN, LOCK = "run.npz", "lock"
SHARE = 0.02  # of the processors' time that writing may take, whatever `every` says
MOST_ZEROS = 64 << 30  # bytes of zeros that a replicate may hold; they take no memory until they are used


class NoProducts(NamedTuple):
    """Stands for a ``GramCache``."""

    columns: int
    places: int


class NoRows(NamedTuple):
    """Stands for ``KeptRows``."""

    columns: int
    places: int


# --- what is written


def classes() -> dict[str, type]:
    """Everything that replicates are made of: the named tuples and dataclasses of the samplers and kernels."""
    found: dict[str, type] = {c.__name__: c for c in (Plan, Settings, Replicate, NoProducts, NoRows)}
    for package in (_kernels, samplers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, cls in vars(importlib.import_module(module.name)).items():
                own = inspect.isclass(cls) and cls.__module__ == module.name
                if own and (dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")):
                    found[f"{module.name.removeprefix('whichvars.')}.{name}"] = cls
    return found


def version() -> str:
    return importlib.import_module("whichvars").__version__


def layout() -> str:
    """A word that changes when what replicates are made of changes."""
    made_of = {
        name: [f.name for f in dataclasses.fields(cls)]
        if dataclasses.is_dataclass(cls)
        else list(cls._fields)  # type: ignore[attr-defined]
        for name, cls in sorted(classes().items())
    }
    return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]


def problem_fingerprint(problem: Problem) -> str:
    """SHA-256 of a problem; what it keeps for speed, and extends as models grow, is left out."""
    state = problem.__getstate__()
    target = state["_target"]
    slab = target.slab._replace(table=np.zeros((0, 0, 0)))
    return storage.digest_of({**state, "_target": target._replace(slab=slab)}, saving.CLASSES)


def needed(value: Any) -> Any:
    """The tree without what nobody will look at: every ``GramCache``, all ``KeptRows``, and the unused part of every
    ``RateTable``."""

    def used(table: Any) -> Any:
        rows = int(table.ints[ENTRIES])
        parts = {"rows": table.rows, "probabilities": table.probabilities}
        return table._replace(**{name: storage.Leading(part, rows) for name, part in parts.items()})

    value = _replace(value, GramCache, lambda cache: NoProducts(len(cache.place), len(cache.kept)))
    value = _replace(value, KeptRows, lambda rows: NoRows(len(rows.place), len(rows.held)))
    return _replace(value, RateTable, used)


def with_products(value: Any) -> Any:
    """The tree with empty ones in their places."""

    def empty(n: NoProducts) -> GramCache:
        return GramCache(
            place=np.full(n.columns, -1, np.int32),
            computed=np.zeros(n.columns, np.int32),
            kept=np.full(n.places, -1, np.int64),
            values=np.zeros((n.columns, n.places)),
            next_place=np.zeros(1, np.int64),
        )

    value = _replace(value, NoRows, lambda n: empty_rows(n.columns, n.places))
    return _replace(value, NoProducts, empty)


def _replace(value: Any, cls: type, make: Any) -> Any:
    """A tree with instances of `cls` replaced; what is mutable is copied, arrays are not."""

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
    """A directory that is of no use when the run is done: its end is not written."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)


class Checkpoint:
    """A directory in which a run is kept, locked until ``close``.

    Failing to write while sampling is going on ends nothing: there is a warning, the last files stand, and it is tried
    again when the next ones are due.
    """

    def __init__(self, directory: str | os.PathLike[str], every: str | float = "30s") -> None:
        self.directory = Path(directory).absolute()
        self.keeps_end = not isinstance(directory, Passing)
        self.every = parse_every(every)
        self.token = ""
        self.due: dict[int, float] = {}
        self.written: dict[int, tuple[int, int]] = {}
        self.started = time.process_time()
        self.spent = 0.0  # seconds of a processor, in all
        self.last = 0.0  # and on the last file
        self._room, self._room_taken = storage.Room(), threading.Lock()
        self._pending: dict[int, Future[bool]] = {}
        self._lock = _lock(self.directory)
        self.known = classes()
        for name in ("run", "replicate-*"):  # what a process that was killed was writing
            for left in self.directory.glob(f".{name}.npz.*.tmp"):
                left.unlink()
        self._writer = ThreadPoolExecutor(1)

    def close(self) -> None:
        """Wait for what is being written, and give the lock back."""
        self._writer.shutdown()
        self._lock.close()

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def exists(self) -> bool:
        return (self.directory / RUN).exists()

    def begin(self, problem: Problem, settings: Settings) -> None:
        """Write what does not change; a run that is already there must be given up first."""
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
            raise ArgumentTypeError(f"this run cannot be kept in a checkpoint: {error}") from error
        except OSError as error:
            raise OutputError(f"cannot write a checkpoint to {self.directory}: {error.strerror}") from error

    def read_run(self) -> tuple[Problem, Settings, str]:
        """The problem, the settings, and the fingerprint of the problem."""
        path = self.directory / RUN
        if not path.exists():
            raise DataError(f"{self.directory} holds no checkpoint: it has no {RUN}")
        known = {**self.known, **{c.__name__: c for c in saving.CLASSES}}
        content = storage.load(path, "run", known)
        if (content["version"], content["layout"]) != (version(), layout()):
            raise DataError(
                f"the checkpoint in {self.directory} was made by another version of whichvars, {content['version']}; this is "
                f"{version()}. Go on with the version it was made by, or start again in another directory"
            )
        self.token = content["token"]
        return content["problem"], content["settings"], content["fingerprint"]

    def change_settings(self, problem: Problem, settings: Settings) -> None:
        """The same run, made longer."""
        self._write_run(problem, settings)

    def replicates(self) -> dict[int, Replicate]:
        """All replicates that were written."""
        found = {}
        for path in self.directory.glob("replicate-*.npz"):
            match = re.fullmatch(r"replicate-(\d+)\.npz", path.name)
            if match:
                found[int(match[1])] = self._read(path, int(match[1]))
        return found

    def _read(self, path: Path, index: int) -> Replicate:
        try:
            content = storage.load(path, "replicate", self.known, MOST_ZEROS)
        except DataError as error:
            raise DataError(
                f"{error}; without this file its replicate starts anew, and the others go on"
            ) from error
        if content["token"] != self.token or content["index"] != index:
            raise DataError(f"{path} belongs to another run; without it its replicate starts anew")
        replicate: Replicate = with_products(content["replicate"])
        self.written[index] = _moment(replicate)
        return replicate

    def start_clock(self, replicates: int) -> None:
        """Have the replicates' files fall due one after the other."""
        self.started, now = time.process_time(), time.monotonic()
        self.due = {i: now + self.every * (i + 1) / replicates for i in range(replicates)}

    def write_if_due(self, index: int, replicate: Replicate, others: Iterable[int] = ()) -> None:
        """Where it is time, copy a replicate that no thread is working on, and have it written meanwhile.

        Only one copy is kept: while it is being written, the next replicate has to wait. The one that has been due
        for longest goes first, so each waits for a turn of all at most; `others` are those that will come again soon.
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
        """Whether all that was spent on writing, and what one more file will take, is no more than its share of the time
        that the process got."""
        return self.spent + self.last <= SHARE * (time.process_time() - self.started)

    def _is_written(self, index: int, wait: bool = False) -> bool:
        """Whether the last file is; an error of the thread that wrote it is raised here."""
        pending = self._pending.get(index)
        if pending is not None and (wait or pending.done()):
            del self._pending[index]
            pending.result()
        return index not in self._pending

    def write(self, index: int, replicate: Replicate) -> bool:
        """Write a replicate now; False, and a warning, if that cannot be done."""
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
        clock = time.thread_time()  # while it waits for the disk, others can use the processor
        try:
            storage.write(self._path(index), prepared, quick=True)
        except OSError as error:
            self.due[index] = time.monotonic() + self.every
            warnings.warn(
                f"the checkpoint of replicate {index} could not be written to {self.directory}: {error.strerror or error}. "
                f"Sampling goes on; {self._left(index)}, and it is tried again in {self.every:g} seconds",
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

    def _left(self, index: int) -> str:
        kept = self._path(index).exists()
        return "the one written before stands" if kept else "there is none of it yet"


def _moment(replicate: Replicate) -> tuple[int, int]:
    return replicate.run.iterations, int(replicate.counting)


def parse_every(every: str | float) -> float:
    """Seconds between two checkpoints."""
    found = parse_budget(every)
    if found.seconds is None:
        raise DataError(f'every={every!r} has no unit: give a time such as "30s", or a number of seconds')
    return found.seconds


# --- the lock


def _lock(directory: Path) -> IO[str]:
    """Make the directory and lock it. The system gives the lock back when its process ends, however it ends, so none
    is left behind by a run that was killed."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        stream = open(directory / LOCK, "a+", encoding="utf-8")  # noqa: SIM115 - stays open while the run goes on
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
    """The checkpoint in a directory, or None where there is to be none."""
    if directory is None:
        yield None
        return
    with Checkpoint(directory, every) as checkpoint:
        yield checkpoint
