"""Executors, which decide where the replicates of a run are advanced: in threads of this process, or by a Dask cluster.

``executor.start(...)`` returns a pool, a context manager with

    width                                   the number of replicates that can be advanced at the same time
    advance(index, run, end, seconds)       advance one replicate towards iteration `end`, for no longer than
                                            `seconds` if given; returns the time ``Spent`` elsewhere
    give_up()                               stop whatever is being advanced as soon as possible

Results do not depend on the executor: neither the place nor the number of iterations at a time changes a bit of them.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol

from whichvars.errors import ArgumentTypeError, DataError, MissingPackageError
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import Run, Sampler
from whichvars.samplers.surrogates import problem_for
from whichvars.sampling.advance import Pace, Spent, advance_run, cpu_clock
from whichvars.sampling.compiling import clock

ROUND_SECONDS, LONGEST_ROUND = 3.0, 15.0  # seconds


class Pool(Protocol):
    """Something that advances the replicates of a run."""

    @property
    def width(self) -> int: ...
    def advance(self, index: int, run: Run, end: int, seconds: float | None) -> Spent: ...
    def give_up(self) -> None: ...


class Executor(Protocol):
    """What ``sample`` expects of its argument `executor`."""

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
    """Advances each replicate in the calling thread, or its units in several threads if there are enough."""

    def __init__(
        self, threads: int, problem: Problem, sampler: Sampler, replicates: int, chunk: int | None
    ) -> None:
        self.problem, self.sampler = problem_for(problem, sampler), sampler
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
        """Nothing to do: chunks are short."""


class DaskExecutor:
    """Sample on the workers of a Dask cluster: ``sample(..., executor=DaskExecutor(...))``.

    The data are sent to each worker once. Each replicate is then advanced by one thread of a worker, in rounds of a few
    seconds. If there are more workers than replicates, the chains of a replicate can be divided among several of them. The
    state is sent back at the end of every round, so a worker that dies costs only its current round. The results are the
    same as those of a run on one machine, bit for bit, for any number of workers.

    Every worker must have the same versions of whichvars, Python, numpy and numba as the client; this is checked.

    Parameters
    ----------
    cluster : str or distributed.Client
        The address of a scheduler, such as "tcp://ADDRESS:8786", or a client that is connected to one.
    round_seconds : float
        Length of a round. Rounds become longer, up to 15 seconds, where sending states takes more than 5 % of the time.
    spread : bool or None
        Whether the chains of a replicate may be divided among several workers. None: if they can run for long enough before
        they next have to exchange what they have learned.

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
