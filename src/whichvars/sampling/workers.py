"""What a worker of a cluster does: it keeps the data of a run and advances replicates on request.

For every run, identified by a token, a worker keeps a ``WorkerState``: the problem and the sampler, which are sent once,
and the replicates that it advanced last, so that the next round need not send them again. A ``Request`` names the moment
(iterations and warm-up) at which the replicate is expected to be. If the worker does not have the replicate at that moment,
because it never had it or was restarted, it says so and is sent the complete state. A worker therefore never continues
from a wrong state, and the client must keep the state of every replicate at the start of its round.

States are sent in the format of checkpoints (``storage.prepare``): the same bits come back, arrays that share memory
share it again, and zeros at the end of arrays are left out.
"""

import platform
import threading
import time
from collections import OrderedDict
from functools import lru_cache
from importlib import metadata
from typing import Any, NamedTuple, Protocol

import numpy as np

from whichvars._kernels.jit import source_stamp
from whichvars.data import storage
from whichvars.errors import ClusterError
from whichvars.problem import saving
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import Run, Sampler
from whichvars.samplers.surrogates import problem_for
from whichvars.sampling.advance import Pace, advance_for, cpu_clock
from whichvars.sampling.checkpoint import MOST_ZEROS, classes, layout, needed, version, with_products
from whichvars.sampling.compiling import clock, process

# replicates, or groups of units, that a worker keeps
MOST_HELD = 16
# seconds without a request after which a worker forgets a run, as its client has probably vanished
EXPIRY = 3600.0


# --- messages


class Request(NamedTuple):
    """A request to advance a replicate, or some of its units."""

    token: str  # of the run
    key: tuple[int, ...]  # the replicate, followed by the units unless all of them are meant
    moment: tuple[int, int]  # iterations and warm-up of the replicate at the start
    state: storage.Prepared | None  # of the replicate at the start; None if the worker should have it
    end: int  # iterations at which to stop
    seconds: float  # time limit for a whole replicate; single units always go on to `end`, to stay in step


class Reply(NamedTuple):
    """The reply of a worker."""

    worker: str
    state: storage.Prepared | None  # None: the worker does not have the state it should have
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0  # of sampling only
    compiling: float = 0.0  # seconds that the worker's process spent compiling
    process: str = ""


def pack(run: Run) -> storage.Prepared:
    """A copy of a replicate in the form in which it is sent."""
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
    """Versions that must be the same on all machines of a run, so that its results are the same to the last bit."""
    return {
        "whichvars": version(),
        "numba": metadata.version("numba"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "the source of whichvars": f"{source_stamp()}{layout()}",
    }


def differences(theirs: dict[str, str], ours: dict[str, str]) -> str:
    """A description of all differences; empty if there are none.

    >>> differences({"numpy": "2.0.0", "numba": "0.61"}, {"numpy": "2.1.0", "numba": "0.61"})
    'numpy 2.0.0 there, 2.1.0 here'
    """
    return "; ".join(
        f"{name} differs" if " " in name else f"{name} {theirs.get(name)} there, {ours[name]} here"
        for name in ours
        if theirs.get(name) != ours[name]
    )


def check_software(of_client: dict[str, str]) -> None:
    """ClusterError unless this worker has the same software as the client."""
    if different := differences(software(), of_client):
        raise ClusterError(
            f"a worker has different software from the client: {different}; use the same versions everywhere"
        )


class WorkerState:
    """What a worker keeps of a run: the problem, the sampler, and the replicates it advanced last."""

    def __init__(self, problem: Problem, sampler: Sampler, chunk: int | None) -> None:
        self.content: Any = (problem, sampler, chunk)
        self.client_software = software()
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
                content = storage.prepare("worker state", content, _known(), trim=True)
            except TypeError as error:
                raise ClusterError(f"this run cannot be sent to a cluster: {error}") from error
        return {"content": content, "client_software": self.client_software}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def open(self) -> tuple[Problem, Sampler, int | None]:
        """The problem, the sampler and `chunk`. They are unpacked on first use, after the versions have been compared."""
        with self.lock:
            if isinstance(self.content, storage.Prepared):
                check_software(self.client_software)
                self.content = storage.unpack(self.content, "worker state", _known(), MOST_ZEROS)
        problem, sampler, chunk = self.content
        return problem_for(problem, sampler), sampler, chunk

    def take(self, request: Request) -> Run | None:
        """Remove and return the replicate at the moment that the request names; None if it is not here."""
        with self.lock:
            self.used = time.monotonic()
            moment, run = self.held.pop(request.key, (None, None))
        if request.state is not None:
            return unpack(request.state)
        return run if moment == request.moment else None

    def hold(self, key: tuple[int, ...], run: Run) -> None:
        with self.lock:
            self.held[key] = (moment_of(run), run)
            while len(self.held) > MOST_HELD:
                self.held.popitem(last=False)


def moment_of(run: Run) -> tuple[int, int]:
    """A pair of numbers that changes with every iteration, and when counting begins."""
    return run.iterations, run.warmup


# --- on a worker


class State(Protocol):
    """What a worker keeps of a run."""

    used: float

    def open(self) -> Any: ...


_states: dict[str, State] = {}
_lock = threading.Lock()


def set_up(token: str, state: State) -> str:
    """Keep the state of a run on this worker, and return the address of the worker."""
    state.open()
    now = time.monotonic()
    with _lock:
        for other in [t for t, s in _states.items() if t != token and now - s.used > EXPIRY]:
            del _states[other]
        state.used = now
        _states.setdefault(token, state)
    return address_of_worker()


def state_of(token: str) -> Any:
    """What this worker keeps of a run; None if it has nothing."""
    return _states.get(token)


def address_of_worker() -> str:
    from distributed import get_worker

    return str(get_worker().address)


def forget(token: str) -> None:
    """Forget a run that is over."""
    with _lock:
        _states.pop(token, None)


def run_round(request: Request, sent: WorkerState | None) -> Reply:
    """Advance a replicate, or some of its units, for one round."""
    address = address_of_worker()
    if sent is not None:
        set_up(request.token, sent)
    state = state_of(request.token)
    run = None if state is None else state.take(request)
    if state is None or run is None:
        return Reply(address, None)
    problem, sampler, chunk = state.open()
    began, wall, cpu = time.monotonic(), clock(), cpu_clock()
    units = request.key[1:]
    if units:
        for unit in units:
            sampler.advance(problem, run, unit, request.end - run.iterations)
        run.iterations = request.end
    else:
        pace = state.paces.setdefault(request.key, Pace(chunk))
        advance_for(problem, sampler, run, request.end, request.seconds, pace)
    wall, cpu = clock() - wall, cpu_clock() - cpu
    compiling = max(time.monotonic() - began - wall, 0.0)
    packed = pack(run)
    state.hold(request.key, run)
    return Reply(address, packed, cpu, wall, compiling, process())
