"""Who advances the replicates of a run: threads of this process, or the workers of a Dask cluster.

An executor is asked to ``start`` and gives a pool, a context manager with

    width                                   replicates that can be advanced at the same time
    advance(index, run, end, seconds)       advance one of them some way towards iteration `end`, for no longer
                                            than `seconds` if given; returns what was ``Spent`` elsewhere
    give_up()                               have those who advance something stop as soon as they can

Results do not depend on the executor: how far a pool goes at a time, and where, changes no bit (``workers.py``).
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol

from whichvars.errors import ArgumentTypeError, DataError, MissingPackageError
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import Run, Sampler
from whichvars.sampling.advance import Pace, Spent, advance_run, cpu_clock
from whichvars.sampling.compiling import clock

ROUND_SECONDS, LONGEST_ROUND = 3.0, 15.0  # seconds


class Pool(Protocol):
    """What a run is advanced by."""

    @property
    def width(self) -> int: ...
    def advance(self, index: int, run: Run, end: int, seconds: float | None) -> Spent: ...
    def give_up(self) -> None: ...


class Executor(Protocol):
    """What ``sample`` asks of `executor`."""

    def start(
        self, problem: Problem, sampler: Sampler, replicates: int, chunk: int | None
    ) -> AbstractContextManager[Pool]: ...


class Threads:
    """Threads of this process."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def start(self, problem: Problem, sampler: Sampler, replicates: int, chunk: int | None) -> "ThreadPool":
        return ThreadPool(self.threads, problem, sampler, replicates, chunk)


class ThreadPool:
    """Each replicate in the thread that calls; where threads are left over, its units in others."""

    def __init__(
        self, threads: int, problem: Problem, sampler: Sampler, replicates: int, chunk: int | None
    ) -> None:
        self.problem, self.sampler = problem, sampler
        self.width = min(threads, replicates)
        self.spare = max(1, threads // replicates)
        self.pool = ThreadPoolExecutor(threads) if self.spare > 1 else None
        self.paces = [Pace(chunk) for _ in range(replicates)]

    def __enter__(self) -> "ThreadPool":
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown()

    def advance(self, index: int, run: Run, end: int, seconds: float | None) -> Spent:
        pace, cpu, wall = self.paces[index], cpu_clock(), clock()
        steps = min(pace.within(seconds), end - run.iterations)
        elsewhere = advance_run(self.problem, self.sampler, run, steps, self.pool, self.spare)
        pace.note(steps, elsewhere + cpu_clock() - cpu, clock() - wall)
        return Spent(elsewhere)

    def give_up(self) -> None:
        """A chunk is over soon enough."""


class DaskExecutor:
    """The workers of a Dask cluster, as ``sample(..., executor=DaskExecutor(...))``.

    The data are sent once to each worker. Each replicate is then advanced on a worker in rounds of a few seconds, one
    thread each; where there are more workers than replicates, and where it pays, so are its chains. At the end of every
    round the state comes back, so a worker that dies costs the round it was at. Numbers are those of a run on one machine,
    bit for bit, for any number of workers.

    Every worker must have the same versions of whichvars, Python, numpy and numba as the client; this is checked.

    Parameters
    ----------
    cluster : str or distributed.Client
        The address of a scheduler, such as "tcp://ADDRESS:8786", or a client that is connected to one.
    round_seconds : float
        Length of a round. Rounds become longer, up to 15 seconds, where sending states takes more than 5 % of the time.
    spread : bool or None
        Whether chains of one replicate go to different workers. None: where rounds between two exchanges of what chains
        learn are long enough for it.

    Examples
    --------
    >>> import whichvars as wv
    >>> from distributed import Client, LocalCluster
    >>> data = wv.datasets.load_uscrime()
    >>> problem = wv.Problem(data.X, data.y)
    >>> options = {"draws": 2000, "seed": 1, "progress": False}
    >>> with LocalCluster(processes=False, n_workers=1, dashboard_address=None) as cluster, Client(cluster) as client:
    ...     posterior = wv.sample(problem, executor=wv.DaskExecutor(client), **options)
    >>> bool((posterior.pip == wv.sample(problem, **options).pip).all())
    True
    """

    def __init__(
        self, cluster: Any, *, round_seconds: float = ROUND_SECONDS, spread: bool | None = None
    ) -> None:
        distributed = _require()
        if not isinstance(cluster, (str, distributed.Client)):
            raise ArgumentTypeError(
                f"DaskExecutor takes the address of a scheduler or a distributed.Client, not {type(cluster).__name__}"
            )
        if isinstance(cluster, distributed.Client) and cluster.asynchronous:
            raise ArgumentTypeError("DaskExecutor needs a client made without asynchronous=True")
        number = isinstance(round_seconds, (int, float)) and not isinstance(round_seconds, bool)
        if not (number and 0 < round_seconds <= LONGEST_ROUND):
            raise DataError(f"round_seconds must lie between 0 and {LONGEST_ROUND:g}, not {round_seconds!r}")
        if spread not in (None, True, False):
            raise ArgumentTypeError(f"spread must be True, False or None, not {spread!r}")
        self.cluster, self.round_seconds, self.spread = cluster, float(round_seconds), spread

    def start(
        self, problem: Problem, sampler: Sampler, replicates: int, chunk: int | None
    ) -> AbstractContextManager[Pool]:
        from whichvars.sampling.cluster import DaskPool

        rounds = (self.round_seconds, LONGEST_ROUND)
        return DaskPool(self.cluster, rounds, self.spread, problem, sampler, replicates, chunk)


def _require() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise MissingPackageError(
            "runs on a cluster need dask and distributed, which are not installed: pip install 'whichvars[dask]'"
        ) from error
    return distributed


__all__ = ["DaskExecutor"]
