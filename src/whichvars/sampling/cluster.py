"""A run on a Dask cluster, seen from the client: which worker advances which replicate, and what happens when one is lost.

The client keeps the state of every replicate at the start of its round, and receives the state at the end of the round in
the worker's reply (``workers.py``). When a worker dies, Dask gives its task to another one. If that worker does not have
the state that the task starts from, it says so, and the client sends the request again with the complete state.
"""

import time
from dataclasses import replace
from typing import Any, NamedTuple

from whichvars.errors import ClusterError
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import Run, Sampler
from whichvars.sampling.advance import CHUNK_SECONDS, Spent, end_steps, shares
from whichvars.sampling.compiling import process
from whichvars.sampling.connection import TRIES, Connection
from whichvars.sampling.workers import Reply, Request, WorkerState, moment_of, pack, unpack

# share of a round that sending may take before rounds are made longer
OVERHEAD_SHARE = 0.05
# units are divided among workers if that saves at least this many times the seconds it costs in sending
LEAST_GAIN = 2.0


class Holder(NamedTuple):
    """The worker that has a replicate or some of its units, and the moment of the state that it has."""

    worker: str
    moment: tuple[int, int]


class DaskPool(Connection):
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
        super().__init__(cluster, WorkerState(problem, sampler, chunk))
        self.round_seconds, self.spread = round_seconds, spread
        self.problem, self.sampler, self.replicates = problem, sampler, replicates
        self.holders: dict[tuple[int, ...], Holder] = {}
        self.speed: dict[int, float] = {}  # iterations per second of a whole replicate on one thread
        # seconds of a round of a whole replicate that are not spent sampling
        self.overhead: float | None = None
        self.overhead_of_units: dict[int, float] = {}

    @property
    def width(self) -> int:
        return max(1, min(self.replicates, self.slots()))

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
        width = min(units, max(self.slots() // self.replicates, 2 if spread else 1))
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
            worker = self.reserve(preferred)
            try:
                expected = has_it and worker == preferred and worker in self.with_data
                request = Request(self.token, key, moment, None if expected else pack(run), end, limit)
                reply: Reply | None = self.ask("whichvars.sampling.workers.run_round", request, worker)
            finally:
                self.release(worker)
            if reply is not None and reply.state is not None:
                moved = unpack(reply.state)
                self.with_data.add(reply.worker)
                self.holders[key] = Holder(reply.worker, moment_of(moved))
                return reply, moved
            if reply is not None and not expected:  # the state was sent, so the worker lacks the data
                self.with_data.discard(reply.worker)
            has_it, preferred = False, None if reply is None else reply.worker
            self.update_workers()
        raise ClusterError(
            f"replicate {key[0]} could not be advanced on {self.address}: workers were lost in {TRIES} attempts"
        )


def _compiling_elsewhere(reply: Reply) -> float:
    """Seconds that another process spent compiling. Compiling in this process is already left out by its clock."""
    return 0.0 if reply.process == process() else reply.compiling
