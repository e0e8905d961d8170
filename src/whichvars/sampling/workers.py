"""What one thread does with a replicate, in this process or on a worker of a cluster.

A worker keeps, by the token of a run, a ``WorkerState``: the problem and the sampler, sent once, and the replicates that it
advanced last, so that the next round need not send them again. Whatever a worker is asked for comes as an ``Request``
that says at which moment the replicate is expected to stand. Where the worker has it at no such moment (it never had
it, or was started anew) it says so, and is sent the whole. A worker can therefore never go on from a wrong state, and
whoever sends the orders must keep the state of every replicate at the start of its round.

States travel in the form in which checkpoints are written (``storage.prepare``): the same bits come back, arrays that
share memory share it again, and zeros at the end of arrays are left out.
"""

import platform
import threading
import time
from collections import OrderedDict
from functools import lru_cache
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np

from whichvars._kernels.jit import source_stamp
from whichvars.data import storage
from whichvars.errors import ClusterError
from whichvars.problem import saving
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import Run, Sampler
from whichvars.sampling.advance import Pace, advance_for, cpu_clock
from whichvars.sampling.checkpoint import MOST_ZEROS, classes, layout, needed, version, with_products
from whichvars.sampling.compiling import clock, process

HELD = 16  # replicates, or parts of them, that a worker keeps
FORGOTTEN = 3600.0  # seconds without an order after which a site is taken for one of a client that vanished


# --- advancing


# --- what travels


class Request(NamedTuple):
    """What a worker is asked for: to advance a replicate, or some of its units."""

    token: str  # of the run
    key: tuple[int, ...]  # the replicate; then the units, where not all of them
    moment: tuple[int, int]  # iterations and warm-up of the replicate at the start
    state: storage.Prepared | None  # of the replicate then; None: the worker is expected to have it
    end: int  # iterations at which to stop
    seconds: float  # after which to stop before that; units alone go to the end, as they must stay together


class Reply(NamedTuple):
    """What a worker says."""

    worker: str
    state: storage.Prepared | None  # None: the worker does not have what was expected
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0  # of advancing alone
    compiling: float = 0.0  # seconds of compiling meanwhile, in the process of the worker
    process: str = ""


def pack(run: Run) -> storage.Prepared:
    """A replicate as it travels; it may be changed afterwards."""
    try:
        return storage.prepare("replicate", needed(run), _known(), trim=True, room=storage.Room())
    except TypeError as error:
        raise ClusterError(f"this run cannot be sent to a cluster: {error}") from error


def unpack(prepared: storage.Prepared) -> Run:
    run: Run = with_products(storage.unpack(prepared, "replicate", _known(), MOST_ZEROS))
    return run


@lru_cache(maxsize=1)
def _known() -> dict[str, type]:
    return {**classes(), **{c.__name__: c for c in saving.CLASSES}}


@lru_cache(maxsize=1)
def software() -> dict[str, str]:
    """What must be the same wherever a run goes on, for the same bits to come of it."""
    return {
        "whichvars": version(),
        "numba": metadata.version("numba"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "the source of whichvars": f"{source_stamp()}{layout()}",
    }


def differences(theirs: dict[str, str], ours: dict[str, str]) -> str:
    """What is not the same, in words; empty where all is.

    >>> differences({"numpy": "2.0.0", "numba": "0.61"}, {"numpy": "2.1.0", "numba": "0.61"})
    'numpy 2.0.0 there, 2.1.0 here'
    """
    return "; ".join(
        f"{name} differs" if " " in name else f"{name} {theirs.get(name)} there, {ours[name]} here"
        for name in ours
        if theirs.get(name) != ours[name]
    )


class WorkerState:
    """The problem and the sampler of a run as a worker has them, and the replicates it advanced last."""

    def __init__(self, problem: Problem, sampler: Sampler, chunk: int | None) -> None:
        self.content: Any = (problem, sampler, chunk)
        self.asked = software()
        self._prepare()

    def _prepare(self) -> None:
        self.lock = threading.Lock()
        self.used = time.monotonic()
        self.held: OrderedDict[tuple[int, ...], tuple[tuple[int, int], Run]] = OrderedDict()
        self.paces: dict[tuple[int, ...], Pace] = {}

    def __getstate__(self) -> dict[str, Any]:
        content = self.content
        if not isinstance(content, storage.Prepared):
            try:
                content = storage.prepare("site", content, _known(), trim=True)
            except TypeError as error:
                raise ClusterError(f"this run cannot be sent to a cluster: {error}") from error
        return {"content": content, "asked": self.asked}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def open(self) -> tuple[Problem, Sampler, int | None]:
        """The content, read when it is first asked for: where versions differ it cannot be."""
        with self.lock:
            if isinstance(self.content, storage.Prepared):
                found = differences(software(), self.asked)
                if found:
                    raise ClusterError(
                        f"a worker has other software than the client: {found}; use the same everywhere"
                    )
                self.content = storage.unpack(self.content, "site", _known(), MOST_ZEROS)
        problem, sampler, chunk = self.content
        return problem, sampler, chunk

    def take(self, order: Request) -> Run | None:
        """The replicate at the moment the order names, which nobody else has from now on; None if it is not here."""
        with self.lock:
            self.used = time.monotonic()
            moment, run = self.held.pop(order.key, (None, None))
        if order.state is not None:
            return unpack(order.state)
        return run if moment == order.moment else None

    def hold(self, key: tuple[int, ...], run: Run) -> None:
        with self.lock:
            self.held[key] = (moment_of(run), run)
            while len(self.held) > HELD:
                self.held.popitem(last=False)


def moment_of(run: Run) -> tuple[int, int]:
    """Changes with every iteration, and when counting begins."""
    return run.iterations, run.warmup


# --- on a worker

_sites: dict[str, WorkerState] = {}
_lock = threading.Lock()


def set_up(token: str, site: WorkerState) -> str:
    """Have a site here; gives back the address of the worker."""
    site.open()
    now = time.monotonic()
    with _lock:
        for other in [t for t, s in _sites.items() if t != token and now - s.used > FORGOTTEN]:
            del _sites[other]
        site.used = now
        _sites.setdefault(token, site)
    return _address()


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)


def forget(token: str) -> None:
    """The run is over."""
    with _lock:
        _sites.pop(token, None)


def run_round(order: Request, site: WorkerState | None) -> Reply:
    """A round of a replicate, or of some of its units."""
    where = _address()
    if site is not None:
        set_up(order.token, site)
    here = _sites.get(order.token)
    run = None if here is None else here.take(order)
    if here is None or run is None:
        return Reply(where, None)
    problem, sampler, chunk = here.open()
    began, wall, cpu = time.monotonic(), clock(), cpu_clock()
    units = order.key[1:]
    if units:
        for unit in units:
            sampler.advance(problem, run, unit, order.end - run.iterations)
        run.iterations = order.end
    else:
        pace = here.paces.setdefault(order.key, Pace(chunk))
        advance_for(problem, sampler, run, order.end, order.seconds, pace)
    wall, cpu = clock() - wall, cpu_clock() - cpu
    compiling = max(time.monotonic() - began - wall, 0.0)
    state = pack(run)
    here.hold(order.key, run)
    return Reply(where, state, cpu, wall, compiling, process())
