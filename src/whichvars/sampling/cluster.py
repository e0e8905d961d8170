"""A run on a Dask cluster, seen from the client: who advances what, and what to do when somebody is lost.

The client has every replicate as it was at the start of its round, and takes the state at its end from the answer of the
worker (``workers.py``). Dask itself gives the task of a worker that died to another one; where that one does not have
what the task goes by, it says so and is asked again with all of it.
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

OVERHEAD_SHARE = 0.05  # of a round that sending may take before rounds are made longer
PAYS = 2.0  # times what a round of units costs in sending must be saved by dividing it
PATIENCE = 10.0  # seconds to wait for a scheduler, and for its first worker
WITHOUT_WORKERS = 60.0  # seconds after which a cluster that has lost all workers is given up
LOOK = 5.0  # seconds between two looks at who is there
TRIES = 20  # of one round, each with a worker or the data of a run lost


class Holder(NamedTuple):
    """Which worker has a replicate, or a part of it, and as it was when."""

    worker: str
    moment: tuple[int, int]


class DaskPool:
    """The client's side of a run: it has every replicate as it was at the start of its round."""

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
        self.site = WorkerState(problem, sampler, chunk)
        self.token = uuid.uuid4().hex
        self.lock, self.sending = threading.Lock(), threading.Lock()
        self.given_up = False
        self.stack = ExitStack()
        self.threads: dict[str, int] = {}  # of each worker
        self.looked = 0.0
        self.alone: float | None = None  # since when there are no workers
        self.settled: set[str] = set()
        self.busy: Counter[str] = Counter()
        self.pending: set[Any] = set()
        self.holders: dict[tuple[int, ...], Holder] = {}
        self.speed: dict[int, float] = {}  # iterations a second of a whole replicate on one thread
        self.overhead: float | None = None  # seconds of a round of a whole replicate that are not advancing
        self.overhead_of_units: dict[int, float] = {}

    # --- beginning and end

    def __enter__(self) -> "DaskPool":
        import dask

        cluster = self.cluster
        with self.stack:  # closes what was opened if something goes wrong
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
            # states are part of the tasks, so that the scheduler can give these to another worker
            limit = {"distributed.admin.large-graph-warning-threshold": "1 TB"}
            self.stack.enter_context(dask.config.set(limit))
            self._wait_for_workers(PATIENCE)
            self._look()
            self._check_software()
            self.stack.callback(self._leave)
            self._settle_all()
            self.pool = self.stack.enter_context(ThreadPoolExecutor(max(2, 2 * sum(self.threads.values()))))
            self.stack.callback(self.give_up)
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def _check_software(self) -> None:
        """Every worker must have the same software. What is sent for that needs no whichvars there, but the same Python."""
        ours = software()
        versions = self.client.get_versions()
        python = ours["python"].rsplit(".", 1)[0]
        for who, found in [("the scheduler", versions["scheduler"]), *versions["workers"].items()]:
            theirs = ".".join(found["host"]["python"].split(".")[:3])
            if theirs.rsplit(".", 1)[0] != python:
                raise ClusterError(
                    f"{who} has Python {theirs}, here it is {ours['python']}; use the same everywhere"
                )
        for worker, found in self.client.run(_look_at_software).items():
            if isinstance(found, str):
                raise ClusterError(
                    f"worker {worker} cannot import whichvars {ours['whichvars']} ({found}); install it on every worker"
                )
            different = differences(found, ours)
            if different:
                raise ClusterError(
                    f"worker {worker} has other software than this process: {different}. The numbers could differ: install "
                    "the same versions on every worker"
                )

    def _settle_all(self) -> None:
        """Send the data to every worker: from here once, and from worker to worker."""
        self.data = self.client.scatter(self.site, hash=False)
        futures = {
            worker: self.client.submit(
                _set_up, self.token, self.data, workers=[worker], allow_other_workers=True, pure=False
            )
            for worker in self.threads
        }
        for worker, future in futures.items():
            try:
                settled = self._result(future, worker)
                self.settled.add(settled)
            except ClusterError:
                raise
            except _losses():
                continue  # it has gone; who comes in its place is sent the data with a round
        if not self.settled:
            raise ClusterError(f"the data could be sent to none of the workers of {self.address}")

    def _leave(self) -> None:
        """Have the workers forget the run, those that can be reached."""
        if self.client.status == "running":
            with suppress(OSError, TimeoutError, *_losses()):
                self.client.run(forget, self.token, on_error="ignore")

    def give_up(self) -> None:
        """No thread waits for a round any longer."""
        self.given_up = True
        with self.lock:
            pending = list(self.pending)
        if pending and self.client.status == "running":
            with suppress(OSError, TimeoutError, *_losses()):
                self.client.cancel(pending, force=True)

    # --- who is there

    @property
    def width(self) -> int:
        return max(1, min(self.replicates, self._slots()))

    def _slots(self) -> int:
        """Threads of all workers."""
        if time.monotonic() - self.looked > LOOK:
            self._look()
        return sum(self.threads.values())

    def _look(self) -> None:
        """See which workers there are; a scheduler that is too busy to say so is not taken for one that has gone."""
        if self.client.status != "running":
            raise self._lost()
        try:
            found = self.client.sync(self.client.scheduler.ncores, callback_timeout=PATIENCE)
        except TimeoutError:
            return
        except Exception as error:  # whatever comes out of a connection that is being closed
            raise self._lost() from error
        with self.lock:
            self.threads, self.looked = dict(found), time.monotonic()
            self.settled = {worker for worker in self.settled if worker in self.threads}
            if self.threads:
                self.alone = None
            elif self.alone is None:
                self.alone = time.monotonic()
        if self.alone is not None and time.monotonic() - self.alone > WITHOUT_WORKERS:
            raise ClusterError(
                f"the scheduler at {self.address} has had no workers for {WITHOUT_WORKERS:g} seconds"
            )

    def _wait_for_workers(self, seconds: float) -> None:
        try:
            self.client.wait_for_workers(1, timeout=seconds)
        except TimeoutError:
            raise ClusterError(
                f"the scheduler at {self.address} has no workers, {seconds:g} seconds after it was asked; start some with: "
                f"dask worker {self.address}"
            ) from None

    def _lost(self) -> ClusterError:
        return ClusterError(f"the scheduler at {self.address} cannot be reached any longer")

    def _reserve(self, preferred: str | None) -> str | None:
        """The worker that is to be asked next: the preferred one, unless it is busy while others are not."""
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
        answer, moved = self._round((index,), run, end, limit)
        vars(run).update(vars(moved))
        overhead = time.perf_counter() - started - answer.wall_seconds - answer.compiling
        with self.lock:
            self.overhead = overhead if self.overhead is None else 0.7 * self.overhead + 0.3 * overhead
        self.speed[index] = (run.iterations - before) / max(answer.wall_seconds, 1e-6)
        return Spent(answer.cpu_seconds, _compiling_elsewhere(answer))

    def _steps(self, run: Run, end: int) -> int:
        """Iterations that units can make on their own."""
        return (end if run.barrier is None else min(end, run.barrier)) - run.iterations

    def _width_of_units(self, index: int, run: Run, end: int, limit: float) -> int:
        """Among how many workers to divide the units of a replicate for the next round."""
        spread, units = self.spread, len(run.units)
        if spread is False or units == 1:
            return 1
        width = min(units, max(self._slots() // self.replicates, 2 if spread else 1))
        if spread or width == 1:
            return width
        if index not in self.speed:  # it has yet to be seen how fast it is
            return 1
        seconds = min(limit * width, self._steps(run, end) / max(self.speed[index], 1e-9))
        cost = self.overhead_of_units.get(index, self.overhead or 0.0)
        return width if seconds * (1 - 1 / width) > PAYS * cost else 1

    def _advance_units(self, index: int, run: Run, end: int, limit: float, width: int) -> Spent:
        started = time.perf_counter()
        steps = self._steps(run, end)
        if index in self.speed:
            steps = min(steps, max(1, int(limit * width * self.speed[index])))
        else:
            steps = min(steps, 1000)
        groups = [tuple(share) for share in shares(len(run.units), width)]

        def advance(group: tuple[int, ...]) -> tuple[Reply, Run]:
            part = replace(run, units=[u if i in group else None for i, u in enumerate(run.units)])
            return self._round((index, *group), part, run.iterations + steps, limit)

        rounds = [self.pool.submit(advance, group) for group in groups]
        answers = []
        for group, found in zip(groups, [future.result() for future in rounds]):
            answers.append(found[0])
            for unit in group:
                run.units[unit] = found[1].units[unit]
        if end_steps(self.problem, self.sampler, run, steps):
            for group in groups:  # what was learned was shared out: no worker has it yet
                self.holders.pop((index, *group), None)
        work = sum(answer.wall_seconds for answer in answers)
        self.speed[index] = steps / max(work, 1e-6)
        slowest = max(answer.wall_seconds + answer.compiling for answer in answers)
        self.overhead_of_units[index] = time.perf_counter() - started - slowest
        return Spent(sum(answer.cpu_seconds for answer in answers), max(map(_compiling_elsewhere, answers)))

    def _round(self, key: tuple[int, ...], run: Run, end: int, limit: float) -> tuple[Reply, Run]:
        """Have one worker advance a replicate or a part of it, however often it takes."""
        moment, holder = moment_of(run), self.holders.pop(key, None)
        preferred = holder.worker if holder and holder.moment == moment else None
        has_it = preferred is not None
        for _ in range(TRIES):
            worker = self._reserve(preferred)
            try:
                expected = has_it and worker == preferred and worker in self.settled
                order = Request(self.token, key, moment, None if expected else pack(run), end, limit)
                answer = self._ask(order, worker)
            finally:
                self._release(worker)
            if answer is not None and answer.state is not None:
                moved = unpack(answer.state)
                self.settled.add(answer.worker)
                self.holders[key] = Holder(answer.worker, moment_of(moved))
                return answer, moved
            if answer is not None and not expected:
                self.settled.discard(answer.worker)  # it has not even the data
            has_it, preferred = False, None if answer is None else answer.worker
            self._look()
        raise ClusterError(
            f"replicate {key[0]} could not be advanced on {self.address}: workers are lost again and again"
        )

    def _ask(self, order: Request, worker: str | None) -> Reply | None:
        """The answer of a worker, by preference the one named; None if what it needed was lost on the way."""
        site = None if worker in self.settled else self.data
        where = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        try:
            future = self.client.submit(
                _run_round, pickle.dumps(order, protocol=5), site, pure=False, **where
            )
            with self.lock:
                self.pending.add(future)
            try:
                answer: Reply = self._result(future, worker)
                return answer
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
        """Where the data of the run went with the worker that was to keep them for newcomers."""
        with self.sending:
            if self.data.status != "finished":
                self._wait_for_workers(WITHOUT_WORKERS)
                self.data = self.client.scatter(self.site, hash=False)

    def _result(self, future: Any, worker: str | None) -> Any:
        """The result of a task, with a look now and then whether there is anybody to work at it.

        A task that prefers a worker which has gone is given up: should all others have gone too, Dask would not give it
        to one that comes.
        """
        import distributed

        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        while not done.wait(LOOK):
            self._look()
            if worker is not None and worker not in self.threads:
                future.cancel(force=True)
        try:
            return future.result()
        except ImportError as error:
            raise ClusterError(f"a worker of {self.address} cannot import what it needs: {error}") from error
        except distributed.scheduler.KilledWorker as error:
            raise ClusterError(
                f"workers of {self.address} died one after the other at the same task; have they enough memory? {error}"
            ) from error
        except Exception as error:
            if self.client.status != "running":
                raise self._lost() from error
            raise


def _compiling_elsewhere(answer: Reply) -> float:
    """Seconds of compiling for an answer; those of a worker in this process, the clock here has left out already."""
    return 0.0 if answer.process == process() else answer.compiling


def _travelling() -> tuple[Any, Any, Any]:
    """What workers are asked to call. Functions inside a function travel whole and not by their names, and orders as bytes: the
    scheduler reads every task, and so need not have whichvars; a worker that does not have it can say so."""

    def look_at_software() -> Any:
        try:
            from whichvars.sampling.workers import software

            return software()
        except ImportError as error:
            return str(error)

    def set_up(token: str, site: Any) -> Any:
        from whichvars.sampling import workers

        return workers.set_up(token, site)

    def run_round(order: bytes, site: Any) -> Any:
        import pickle

        from whichvars.sampling import workers

        return workers.run_round(pickle.loads(order), site)

    return look_at_software, set_up, run_round


_look_at_software, _set_up, _run_round = _travelling()


def _losses() -> tuple[type[BaseException], ...]:
    """What is raised where a scheduler, a worker or data have gone."""
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
    """Within it, distributed's loggers say nothing below an error: what a user must know is raised or warned of."""

    def __enter__(self) -> None:
        self.logger = logging.getLogger("distributed")
        self.before = self.logger.level
        self.logger.setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        self.logger.setLevel(self.before)
