"""A run on a Dask cluster, seen from the client: which worker advances which replicate, and what happens when one is lost.

The client keeps the state of every replicate at the start of its round, and receives the state at the end of the round in
the worker's reply (``workers.py``). When a worker dies, Dask gives its task to another one. If that worker does not have
the state that the task starts from, it says so, and the client sends the request again with the complete state.
"""

import logging
import pickle
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, NamedTuple

from whichvars.errors import ClusterError
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import Run, Sampler
from whichvars.sampling.advance import CHUNK_SECONDS, Spent, end_steps, shares
from whichvars.sampling.compiling import process
from whichvars.sampling.workers import (
    Reply,
    Request,
    WorkerState,
    differences,
    forget,
    moment_of,
    pack,
    software,
    unpack,
)

# share of a round that sending may take before rounds are made longer
OVERHEAD_SHARE = 0.05
# units are divided among workers if that saves at least this many times the seconds it costs in sending
LEAST_GAIN = 2.0
# seconds to wait for a scheduler, and for its first worker
PATIENCE = 10.0
# seconds after which a cluster without any workers is given up
WITHOUT_WORKERS = 60.0
# seconds between two updates of the list of workers
UPDATE_SECONDS = 5.0
# attempts at one round, if a worker or the data are lost each time
TRIES = 20


class Holder(NamedTuple):
    """The worker that has a replicate or some of its units, and the moment of the state that it has."""

    worker: str
    moment: tuple[int, int]


class DaskPool:
    """The client's side of a run. It keeps the state of every replicate at the start of its round."""

    def __init__(
        self,
        cluster: Any,
        round_seconds: tuple[float, float],
        spread: bool | None,
        problem: Problem,
        sampler: Sampler,
        replicates: int,
        chunk: int | None,
    ) -> None:
        self.cluster, self.round_seconds, self.spread = cluster, round_seconds, spread
        self.problem, self.sampler, self.replicates = problem, sampler, replicates
        self.worker_state = WorkerState(problem, sampler, chunk)
        self.token = uuid.uuid4().hex
        self.lock, self.sending = threading.Lock(), threading.Lock()
        self.given_up = False
        self.stack = ExitStack()
        self.threads: dict[str, int] = {}  # of each worker
        self.updated = 0.0
        self.without_workers_since: float | None = None
        self.with_data: set[str] = set()  # workers that were sent the problem and the sampler
        self.busy: Counter[str] = Counter()
        self.pending: set[Any] = set()
        self.holders: dict[tuple[int, ...], Holder] = {}
        self.speed: dict[int, float] = {}  # iterations per second of a whole replicate on one thread
        self.overhead: float | None = (
            None  # seconds of a round of a whole replicate that are not spent sampling
        )
        self.overhead_of_units: dict[int, float] = {}

    # --- opening and closing

    def __enter__(self) -> "DaskPool":
        import dask

        cluster = self.cluster
        with self.stack:  # closes whatever was opened if there is an error
            if isinstance(cluster, str):
                self.stack.enter_context(_quiet())
                self.client = self.stack.enter_context(_connect(cluster))
            else:
                self.client = cluster
            if self.client.status != "running":
                raise ClusterError(
                    f"the client is {self.client.status}, not running; connect a new one to the scheduler"
                )
            self.address = self.client.scheduler.address
            # tasks contain the states, so that the scheduler can give them to another worker
            limit = {"distributed.admin.large-graph-warning-threshold": "1 TB"}
            self.stack.enter_context(dask.config.set(limit))
            self._wait_for_workers(PATIENCE)
            self._update_workers()
            self._check_software()
            self.stack.callback(self._forget_run)
            self._send_data()
            self.pool = self.stack.enter_context(ThreadPoolExecutor(max(2, 2 * sum(self.threads.values()))))
            self.stack.callback(self.give_up)
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def _check_software(self) -> None:
        """Raise an error unless every worker has the same software.

        The check itself works without whichvars on the worker, but it needs the same version of Python.
        """
        ours = software()
        versions = self.client.get_versions()
        python = ours["python"].rsplit(".", 1)[0]
        for name, info in [("the scheduler", versions["scheduler"]), *versions["workers"].items()]:
            theirs = ".".join(info["host"]["python"].split(".")[:3])
            if theirs.rsplit(".", 1)[0] != python:
                raise ClusterError(
                    f"{name} has Python {theirs}, but this process has {ours['python']}; use the same version everywhere"
                )
        for worker, installed in self.client.run(_installed_software).items():
            if isinstance(installed, str):
                raise ClusterError(
                    f"worker {worker} cannot import whichvars {ours['whichvars']} ({installed}); install it on every worker"
                )
            different = differences(installed, ours)
            if different:
                raise ClusterError(
                    f"worker {worker} has different software from this process: {different}. Results could differ: install "
                    "the same versions on every worker"
                )

    def _send_data(self) -> None:
        """Send the data to every worker: once from the client, then from worker to worker."""
        self.scattered = self.client.scatter(self.worker_state, hash=False)
        futures = {
            worker: self.client.submit(
                _set_up, self.token, self.scattered, workers=[worker], allow_other_workers=True, pure=False
            )
            for worker in self.threads
        }
        for worker, future in futures.items():
            try:
                self.with_data.add(self._result(future, worker))
            except ClusterError:
                raise
            except _losses():
                continue  # the worker is lost; one that replaces it is sent the data with its first round
        if not self.with_data:
            raise ClusterError(f"the data could not be sent to any worker of {self.address}")

    def _forget_run(self) -> None:
        """Make all workers that can be reached forget the run."""
        if self.client.status == "running":
            with suppress(OSError, TimeoutError, *_losses()):
                self.client.run(forget, self.token, on_error="ignore")

    def give_up(self) -> None:
        """Cancel all pending rounds, so that no thread waits for them any longer."""
        self.given_up = True
        with self.lock:
            pending = list(self.pending)
        if pending and self.client.status == "running":
            with suppress(OSError, TimeoutError, *_losses()):
                self.client.cancel(pending, force=True)

    # --- workers

    @property
    def width(self) -> int:
        return max(1, min(self.replicates, self._slots()))

    def _slots(self) -> int:
        """The number of threads of all workers together."""
        if time.monotonic() - self.updated > UPDATE_SECONDS:
            self._update_workers()
        return sum(self.threads.values())

    def _update_workers(self) -> None:
        """Update the list of workers. A scheduler that is too busy to answer in time does not count as lost."""
        if self.client.status != "running":
            raise self._lost()
        try:
            threads = self.client.sync(self.client.scheduler.ncores, callback_timeout=PATIENCE)
        except TimeoutError:
            return
        except Exception as error:  # a connection that is being closed may raise anything
            raise self._lost() from error
        with self.lock:
            self.threads, self.updated = dict(threads), time.monotonic()
            self.with_data = {worker for worker in self.with_data if worker in self.threads}
            if self.threads:
                self.without_workers_since = None
            elif self.without_workers_since is None:
                self.without_workers_since = time.monotonic()
        if (
            self.without_workers_since is not None
            and time.monotonic() - self.without_workers_since > WITHOUT_WORKERS
        ):
            raise ClusterError(
                f"the scheduler at {self.address} has had no workers for {WITHOUT_WORKERS:g} seconds"
            )

    def _wait_for_workers(self, seconds: float) -> None:
        try:
            self.client.wait_for_workers(1, timeout=seconds)
        except TimeoutError:
            raise ClusterError(
                f"the scheduler at {self.address} still has no workers after {seconds:g} seconds; start some with: "
                f"dask worker {self.address}"
            ) from None

    def _lost(self) -> ClusterError:
        return ClusterError(f"the scheduler at {self.address} can no longer be reached")

    def _reserve(self, preferred: str | None) -> str | None:
        """The worker to ask next: the preferred one, unless it is busier than others."""
        with self.lock:
            workers = sorted(
                self.threads, key=lambda w: (self.busy[w] // self.threads[w], w != preferred, self.busy[w], w)
            )
            if not workers:
                return None
            self.busy[workers[0]] += 1
            return workers[0]

    def _release(self, worker: str | None) -> None:
        if worker is not None:
            with self.lock:
                self.busy[worker] -= 1

    # --- rounds

    def advance(self, index: int, run: Run, end: int, seconds: float | None) -> Spent:
        shortest, longest = self.round_seconds
        limit = min(max(shortest, (self.overhead or 0.0) / OVERHEAD_SHARE), longest)
        if seconds is not None:
            limit = min(limit, max(seconds, CHUNK_SECONDS))
        width = self._width_of_units(index, run, end, limit)
        if width > 1:
            return self._advance_units(index, run, end, limit, width)
        return self._advance_whole(index, run, end, limit)

    def _advance_whole(self, index: int, run: Run, end: int, limit: float) -> Spent:
        started, before = time.perf_counter(), run.iterations
        reply, moved = self._round((index,), run, end, limit)
        vars(run).update(vars(moved))
        overhead = time.perf_counter() - started - reply.wall_seconds - reply.compiling
        with self.lock:
            self.overhead = overhead if self.overhead is None else 0.7 * self.overhead + 0.3 * overhead
        self.speed[index] = (run.iterations - before) / max(reply.wall_seconds, 1e-6)
        return Spent(reply.cpu_seconds, _compiling_elsewhere(reply))

    def _steps(self, run: Run, end: int) -> int:
        """Iterations that the units can make before they exchange what they have learned."""
        return (end if run.barrier is None else min(end, run.barrier)) - run.iterations

    def _width_of_units(self, index: int, run: Run, end: int, limit: float) -> int:
        """The number of workers among which to divide the units of a replicate in the next round."""
        spread, units = self.spread, len(run.units)
        if spread is False or units == 1:
            return 1
        width = min(units, max(self._slots() // self.replicates, 2 if spread else 1))
        if spread or width == 1:
            return width
        if index not in self.speed:  # its speed is not known yet
            return 1
        seconds = min(limit * width, self._steps(run, end) / max(self.speed[index], 1e-9))
        cost = self.overhead_of_units.get(index, self.overhead or 0.0)
        return width if seconds * (1 - 1 / width) > LEAST_GAIN * cost else 1

    def _advance_units(self, index: int, run: Run, end: int, limit: float, width: int) -> Spent:
        started = time.perf_counter()
        steps = self._steps(run, end)
        if index in self.speed:
            steps = min(steps, max(1, int(limit * width * self.speed[index])))
        else:
            steps = min(steps, 1000)
        groups = [tuple(share) for share in shares(len(run.units), width)]

        def advance(group: tuple[int, ...]) -> tuple[Reply, Run]:
            subset = replace(run, units=[u if i in group else None for i, u in enumerate(run.units)])
            return self._round((index, *group), subset, run.iterations + steps, limit)

        futures = [self.pool.submit(advance, group) for group in groups]
        replies = []
        for group, (reply, advanced) in zip(groups, [future.result() for future in futures]):
            replies.append(reply)
            for unit in group:
                run.units[unit] = advanced.units[unit]
        if end_steps(self.problem, self.sampler, run, steps):
            for group in groups:  # the units have exchanged what they learned: no worker has the new states
                self.holders.pop((index, *group), None)
        work = sum(reply.wall_seconds for reply in replies)
        self.speed[index] = steps / max(work, 1e-6)
        slowest = max(reply.wall_seconds + reply.compiling for reply in replies)
        self.overhead_of_units[index] = time.perf_counter() - started - slowest
        return Spent(sum(reply.cpu_seconds for reply in replies), max(map(_compiling_elsewhere, replies)))

    def _round(self, key: tuple[int, ...], run: Run, end: int, limit: float) -> tuple[Reply, Run]:
        """Have a worker advance a replicate or some of its units; try again if the worker is lost."""
        moment, holder = moment_of(run), self.holders.pop(key, None)
        preferred = holder.worker if holder and holder.moment == moment else None
        has_it = preferred is not None
        for _ in range(TRIES):
            worker = self._reserve(preferred)
            try:
                expected = has_it and worker == preferred and worker in self.with_data
                request = Request(self.token, key, moment, None if expected else pack(run), end, limit)
                reply = self._ask(request, worker)
            finally:
                self._release(worker)
            if reply is not None and reply.state is not None:
                moved = unpack(reply.state)
                self.with_data.add(reply.worker)
                self.holders[key] = Holder(reply.worker, moment_of(moved))
                return reply, moved
            if reply is not None and not expected:  # the state was sent, so the worker lacks the data
                self.with_data.discard(reply.worker)
            has_it, preferred = False, None if reply is None else reply.worker
            self._update_workers()
        raise ClusterError(
            f"replicate {key[0]} could not be advanced on {self.address}: workers were lost in {TRIES} attempts"
        )

    def _ask(self, request: Request, worker: str | None) -> Reply | None:
        """The reply of a worker, preferably of the one named; None if the worker or the data were lost."""
        state = None if worker in self.with_data else self.scattered
        where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        try:
            future = self.client.submit(
                _run_round, pickle.dumps(request, protocol=5), state, pure=False, **where
            )
            with self.lock:
                self.pending.add(future)
            try:
                reply: Reply = self._result(future, worker)
                return reply
            finally:
                with self.lock:
                    self.pending.discard(future)
                future.release()
        except _losses() as error:
            if (
                self.given_up
                or self.client.status != "running"
                or "scheduler" in str(getattr(error, "reason", ""))
            ):
                raise self._lost() from error
            self._send_again()
            return None

    def _send_again(self) -> None:
        """Scatter the data again if they were lost together with the worker that kept them for new workers."""
        with self.sending:
            if self.scattered.status != "finished":
                self._wait_for_workers(WITHOUT_WORKERS)
                self.scattered = self.client.scatter(self.worker_state, hash=False)

    def _result(self, future: Any, worker: str | None) -> Any:
        """The result of a task. While waiting, check regularly that there are still workers.

        A task that prefers a worker which is lost is cancelled: if all other workers were lost too, Dask would not give
        it to a new one. This may happen even after the task is done, while its result still lies with the worker.
        """
        import distributed

        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        try:
            while True:
                if done.wait(UPDATE_SECONDS):
                    with suppress(TimeoutError):
                        return future.result(timeout=UPDATE_SECONDS)
                self._update_workers()
                if worker is not None and worker not in self.threads:
                    future.cancel(force=True)
        except ImportError as error:
            raise ClusterError(f"a worker of {self.address} cannot import what it needs: {error}") from error
        except distributed.scheduler.KilledWorker as error:
            raise ClusterError(
                f"several workers of {self.address} died during the same task; do they have enough memory? {error}"
            ) from error
        except Exception as error:
            if self.client.status != "running":
                raise self._lost() from error
            raise


def _compiling_elsewhere(reply: Reply) -> float:
    """Seconds that another process spent compiling. Compiling in this process is already left out by its clock."""
    return 0.0 if reply.process == process() else reply.compiling


def _remote_functions() -> tuple[Any, Any, Any]:
    """The functions that workers call.

    Nested functions are pickled by value and not by name, and requests are sent as bytes. The scheduler, which unpickles
    every task, therefore does not need whichvars, and a worker without whichvars can report that.
    """

    def installed_software() -> Any:
        try:
            from whichvars.sampling.workers import software

            return software()
        except ImportError as error:
            return str(error)

    def set_up(token: str, state: Any) -> Any:
        from whichvars.sampling import workers

        return workers.set_up(token, state)

    def run_round(request: bytes, state: Any) -> Any:
        import pickle

        from whichvars.sampling import workers

        return workers.run_round(pickle.loads(request), state)

    return installed_software, set_up, run_round


_installed_software, _set_up, _run_round = _remote_functions()


def _losses() -> tuple[type[BaseException], ...]:
    """The exceptions that are raised when a scheduler, a worker or data are lost."""
    import distributed

    return (CancelledError, distributed.CancelledError, distributed.comm.CommClosedError)


def _connect(address: str) -> Any:
    import distributed

    try:
        return distributed.Client(address, timeout=PATIENCE / 2, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address!r}: {error}; is it running, and is the address right?"
        ) from error


class _quiet:
    """Silence distributed's loggers below critical errors: what a user must know is raised or warned about."""

    def __enter__(self) -> None:
        self.logger = logging.getLogger("distributed")
        self.before = self.logger.level
        self.logger.setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        self.logger.setLevel(self.before)
