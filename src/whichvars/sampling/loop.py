"""The main loop of a run: replicates are advanced in parallel until they are long enough, accurate enough or out of time.

It works for every sampler, and an executor decides where replicates are advanced.
"""

from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import numpy as np

from whichvars.errors import ClusterError
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import begin_counting
from whichvars.samplers.surrogates import problem_for
from whichvars.sampling.advance import cpu_clock
from whichvars.sampling.checkpoint import Checkpoint
from whichvars.sampling.compiling import clock
from whichvars.sampling.estimates import combine_pips, look_at
from whichvars.sampling.executors import Pool
from whichvars.sampling.interrupts import Asked
from whichvars.sampling.learning import learns_by_variable, look, next_point
from whichvars.sampling.plan import Replicate, Settings
from whichvars.sampling.progress import Progress

# factor by which the number of draws grows from one check of the accuracy to the next
GROWTH = 1.4
# largest share of a time budget that is spent on warm-up
WARMUP_SHARE = 0.2
# Draws of each chain that are made however small the budget is, after half as many iterations of warm-up. Batch means then
# have at least 32 batches, and if chains take turns, of 64 steps at first, every chain has had some.
LEAST_DRAWS = 512
# turns of each replicate if a time budget is divided among more replicates than are advanced at the same time
TURNS = 10


class Loop:
    """Advances all replicates, each in its own thread, a chunk at a time."""

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        replicates: list[Replicate],
        pool: Pool,
        saver: Checkpoint | None,
        asked: Asked,
    ) -> None:
        self.problem, self.sampler = problem_for(problem, settings.sampler), settings.sampler
        self.plan = settings.plan
        self.by_draws, self.rao_blackwell = getattr(self.sampler, "by_draws", True), settings.rao_blackwell
        self.pool, self.saver, self.asked = pool, saver, asked
        self.lost: ClusterError | None = None  # the error that ended the work of a cluster
        self.runs = [replicate.run for replicate in replicates]
        self.counting = [replicate.counting for replicate in replicates]
        self.cpu = [replicate.cpu_seconds for replicate in replicates]
        self.own_seconds = [replicate.own_seconds for replicate in replicates]
        self.late = [replicate.late for replicate in replicates]
        self.learned = [replicate.learned for replicate in replicates]
        self.records = learns_by_variable(self.problem, self.sampler)
        self.compiling_elsewhere = [0.0] * len(replicates)  # seconds, in other processes
        self.started = clock() - max(replicate.seconds for replicate in replicates)
        first = self.plan.draws if self.plan.target is None else min(self.plan.first_check, self.plan.draws)
        self.check = min(self.plan.draws, max(first, *(replicate.check for replicate in replicates)))

    def snapshot(self, index: int) -> Replicate:
        """The current state of a replicate, not copied."""
        return Replicate(
            self.runs[index],
            self.counting[index],
            self.check,
            self.spent(),
            self.cpu[index],
            self.own_seconds[index],
            self.late[index],
            list(self.learned[index]),
        )

    def _begin_counting(self, index: int) -> None:
        self.counting[index] = True
        if hasattr(self.sampler, "begin_counting"):
            self.sampler.begin_counting(self.problem, self.runs[index])
        elif self.by_draws:
            begin_counting(self.problem, self.runs[index], self.rao_blackwell)

    def has_counted(self, index: int) -> bool:
        """Whether there are estimates from a replicate yet."""
        return self._counted(index) > 0 if self.by_draws else self.runs[index].finished

    def _counted(self, index: int) -> int:
        """Iterations of each chain of a replicate since warm-up."""
        return self.runs[index].iterations - self.runs[index].warmup if self.counting[index] else 0

    # --- time

    def spent(self) -> float:
        """Seconds of sampling so far. Other processes compile at the same time: the time of the slowest is left out."""
        return clock() - self.started - max(self.compiling_elsewhere)

    def _time_left(self) -> float:
        return np.inf if self.plan.seconds is None else self.plan.seconds - self.spent()

    def _share(self) -> float:
        """Seconds of the budget for each replicate, if all get the same."""
        assert self.plan.seconds is not None
        return self.plan.seconds * min(1.0, self.pool.width / len(self.runs))

    def _warmup_left(self, index: int) -> float:
        """Seconds left for the warm-up of a replicate."""
        if self.plan.seconds is None:
            return np.inf
        return min(WARMUP_SHARE * self._share() - self.own_seconds[index], self._time_left())

    def _least_warmup(self) -> int:
        return min(self.plan.warmup, LEAST_DRAWS // 2)

    def _least(self, index: int) -> int:
        """Draws of each chain that a replicate makes even if its time is up. There are at least as many as in warm-up, as
        the turns that chains take have become that long by then."""
        return min(self.check, max(LEAST_DRAWS, self.runs[index].warmup))

    def _next(self, index: int) -> tuple[int, float | None]:
        """The iteration towards which to advance a replicate next, and a limit in seconds, or None without a budget."""
        run, seconds = self.runs[index], None
        if not self.counting[index]:
            left = self._warmup_left(index)
            end = self.plan.warmup if left > 0 else self._least_warmup()
        else:
            left = self._time_left()
            end = run.warmup + (self.check if left > 0 else self._least(index))
        if self.plan.seconds is not None and left > 0:
            share = self._share()
            seconds = left if self.pool.width >= len(self.runs) else min(left, share / TURNS)
        return end, seconds

    # --- scheduling

    def _unfinished(self) -> list[int]:
        """Replicates that must be advanced before the accuracy is checked, or before a run whose time is up can end."""
        in_time = self._time_left() > 0
        return [
            i
            for i, run in enumerate(self.runs)
            if not run.finished and self._counted(i) < (self.check if in_time else self._least(i))
        ]

    def _waiting(self, order: list[int], working: Iterable[int]) -> list[int]:
        """Unfinished replicates that no thread is working on, in the given order, or by the time spent on them if there is
        a budget."""
        unfinished, busy = set(self._unfinished()), set(working)
        waiting = [i for i in order if i in unfinished and i not in busy]
        return waiting if self.plan.seconds is None else sorted(waiting, key=self.own_seconds.__getitem__)

    def _reason_to_stop(self) -> str:
        """Why the run stops now that all replicates are done; "" if it goes on, up to the next check of the accuracy."""
        if any(not run.finished and self._counted(i) < self.check for i, run in enumerate(self.runs)):
            return "budget"
        accurate = self.plan.target is not None and self._is_accurate()
        if accurate or self.check >= self.plan.draws:
            return "target_mcse" if accurate else "draws"
        self.check = min(self.plan.draws, int(GROWTH * self.check))
        return ""

    def run(self, bar: Progress) -> str:
        """Run to the end, and return the reason for stopping."""
        with ThreadPoolExecutor(len(self.runs)) as outer:
            try:
                return self._run(outer, bar)
            except BaseException:
                self.pool.give_up()
                raise

    def _run(self, outer: ThreadPoolExecutor, bar: Progress) -> str:
        indices = range(len(self.runs))
        for index in indices:
            if self.plan.warmup == 0 and not self.counting[index]:
                self._begin_counting(index)
        order, working, stopped = list(indices), dict[Future[None], int](), ""
        while working or not stopped:
            try:
                if self.asked.times:
                    stopped = stopped or "interrupted"
                waiting = [] if stopped else self._waiting(order, working.values())
                while waiting and len(working) < self.pool.width:
                    index = waiting.pop(0)
                    working[outer.submit(self._advance, index)] = index
                if not working:
                    stopped = stopped or self._reason_to_stop()
                    continue
                done, _ = wait(working, timeout=1.0, return_when=FIRST_COMPLETED)
                if not done:
                    bar.waiting(self.runs)
                    continue
                for future in done:
                    index = working.pop(future)
                    future.result()
                    order.remove(index)
                    order.append(index)
                idle = [r for i, r in enumerate(self.runs) if i not in working.values()]
                bar.update(self.runs, idle, self.spent())
            except KeyboardInterrupt:
                nothing = self.saver is None and not any(map(self.has_counted, indices))
                if self.asked.times or stopped == "interrupted" or nothing:
                    raise
                stopped = "interrupted"
            except ClusterError as error:
                self.lost, stopped = error, "interrupted"
        return stopped

    def _is_accurate(self) -> bool:
        """Whether the Monte Carlo error of every inclusion probability is at most `target_mcse`. Called when all replicates
        have counted the same number of draws."""
        target, mcse = self.plan.target, combine_pips([look_at(self.sampler, run) for run in self.runs]).mcse
        return target is not None and bool(np.isfinite(mcse).any() and np.nanmax(mcse) <= target)

    def _advance(self, index: int) -> None:
        """Advance one replicate by one chunk, and write a checkpoint of it if one is due."""
        run, began, cpu = self.runs[index], clock(), cpu_clock()
        entered = began
        end, seconds = self._next(index)
        if self.records:
            self._record(index)
            end = min(end, next_point(run.iterations, len(run.units)))
        if end > run.iterations:
            self.late[index] |= seconds is None and self._time_left() <= 0
            spent = self.pool.advance(index, run, end, seconds)
            self.cpu[index] += spent.cpu_seconds
            self.compiling_elsewhere[index] += spent.compiling
            began += spent.compiling
        if self.records:
            self._record(index)
        now = clock()
        self.own_seconds[index] += max(now - began, 0.0)
        enough = run.iterations >= self._least_warmup() and self._warmup_left(index) <= 0
        if not self.counting[index] and (run.iterations == self.plan.warmup or enough):
            self._begin_counting(index)
            self.own_seconds[index] += clock() - now
        self.cpu[index] += min(
            cpu_clock() - cpu, clock() - entered
        )  # the second clock stops while anything is compiled
        if self.saver is not None:
            self.saver.write_if_due(index, self.snapshot(index), self._unfinished())

    def _record(self, index: int) -> None:
        """Record what a replicate has learned, if it is at a point at which that is due."""
        run, learned = self.runs[index], self.learned[index]
        due = next_point(learned[-1][0], len(run.units)) if learned else 0
        if run.iterations == due:
            learned.append(look(self.problem, self.sampler, run))
