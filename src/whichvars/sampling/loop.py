"""The loop of a run: replicates are advanced, each in a thread of its own, until they are long enough, accurate enough or out of time.
It knows no algorithm, and leaves to an executor where replicates are advanced."""

from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import numpy as np

from whichvars.errors import ClusterError
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import begin_counting
from whichvars.sampling.advance import cpu_clock
from whichvars.sampling.checkpoint import Checkpoint
from whichvars.sampling.compiling import clock
from whichvars.sampling.estimates import combine_pips, look_at
from whichvars.sampling.executors import Pool
from whichvars.sampling.interrupts import Asked
from whichvars.sampling.plan import Replicate, Settings
from whichvars.sampling.progress import Progress

# how many times as many draws there are from one look at the accuracy to the next
GROWTH = 1.4
# largest share of a time budget that warm-up takes
WARMUP_SHARE = 0.2
# Draws of each chain, and half as many of warm-up, that are made however small a budget is. Batch means then have at least 32
# batches, and chains that take turns, of 64 steps at first, have all had some.
LEAST_DRAWS = 512
# turns of each replicate, where a budget is divided among more replicates than are advanced at the same time
TURNS = 10


class Loop:
    """Has a pool advance all replicates, a chunk at a time, each in a thread of its own."""

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        replicates: list[Replicate],
        pool: Pool,
        saver: Checkpoint | None,
        asked: Asked,
    ) -> None:
        self.problem, self.sampler, self.plan = problem, settings.sampler, settings.plan
        self.by_draws, self.rao_blackwell = getattr(self.sampler, "by_draws", True), settings.rao_blackwell
        self.pool, self.saver, self.asked = pool, saver, asked
        self.lost: ClusterError | None = None  # why a cluster cannot go on
        self.runs = [replicate.run for replicate in replicates]
        self.counting = [replicate.counting for replicate in replicates]
        self.cpu = [replicate.cpu_seconds for replicate in replicates]
        self.own = [replicate.own_seconds for replicate in replicates]  # spent on each
        self.late = [replicate.late for replicate in replicates]
        self.away = [0.0] * len(replicates)  # seconds of compiling in other processes
        self.started = clock() - max(replicate.seconds for replicate in replicates)
        first = self.plan.draws if self.plan.target is None else min(self.plan.first_check, self.plan.draws)
        self.check = min(self.plan.draws, max(first, *(replicate.check for replicate in replicates)))

    def snapshot(self, index: int) -> Replicate:
        """A replicate as it is now; not a copy."""
        return Replicate(
            self.runs[index],
            self.counting[index],
            self.check,
            self.spent(),
            self.cpu[index],
            self.own[index],
            self.late[index],
        )

    def _begin_counting(self, index: int) -> None:
        self.counting[index] = True
        if hasattr(self.sampler, "begin_counting"):
            self.sampler.begin_counting(self.problem, self.runs[index])
        elif self.by_draws:
            begin_counting(self.problem, self.runs[index], self.rao_blackwell)

    def has_counted(self, index: int) -> bool:
        """Whether a replicate has anything to say yet."""
        return self._counted(index) > 0 if self.by_draws else self.runs[index].finished

    def _counted(self, index: int) -> int:
        """Iterations of each chain of a replicate since warm-up."""
        return self.runs[index].iterations - self.runs[index].warmup if self.counting[index] else 0

    # --- time

    def spent(self) -> float:
        """Seconds of sampling so far. Processes that compile do so at the same time: that of the slowest is left out."""
        return clock() - self.started - max(self.away)

    def _time_left(self) -> float:
        return np.inf if self.plan.seconds is None else self.plan.seconds - self.spent()

    def _share(self) -> float:
        """Seconds of the budget that can be spent on each replicate, so that all get the same."""
        assert self.plan.seconds is not None
        return self.plan.seconds * min(1.0, self.pool.width / len(self.runs))

    def _warmup_left(self, index: int) -> float:
        """Seconds that a replicate still has for its warm-up."""
        if self.plan.seconds is None:
            return np.inf
        return min(WARMUP_SHARE * self._share() - self.own[index], self._time_left())

    def _least_warmup(self) -> int:
        return min(self.plan.warmup, LEAST_DRAWS // 2)

    def _least(self, index: int) -> int:
        """Draws of each chain that a replicate makes even where its time is up. As many as in warm-up at least: turns that
        chains take have become so long by then."""
        return min(self.check, max(LEAST_DRAWS, self.runs[index].warmup))

    def _next(self, index: int) -> tuple[int, float | None]:
        """The iteration towards which to advance a replicate, and seconds after which to stop on the way; None: as seems
        fit."""
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

    # --- what is to be done

    def _unfinished(self) -> list[int]:
        """Replicates that have something to do before accuracy is looked at, or before a run whose time is up can end."""
        in_time = self._time_left() > 0
        return [
            i
            for i, run in enumerate(self.runs)
            if not run.finished and self._counted(i) < (self.check if in_time else self._least(i))
        ]

    def _waiting(self, order: list[int], working: Iterable[int]) -> list[int]:
        """Those that nobody is working on, in this order; by the time spent on them where time is short."""
        unfinished, busy = set(self._unfinished()), set(working)
        waiting = [i for i in order if i in unfinished and i not in busy]
        return waiting if self.plan.seconds is None else sorted(waiting, key=self.own.__getitem__)

    def _reason_to_stop(self) -> str:
        """Why nobody has anything to do; "" if it was for a look at the accuracy, after which all go on."""
        if any(not run.finished and self._counted(i) < self.check for i, run in enumerate(self.runs)):
            return "budget"
        accurate = self.plan.target is not None and self._is_accurate()
        if accurate or self.check >= self.plan.draws:
            return "target_mcse" if accurate else "draws"
        self.check = min(self.plan.draws, int(GROWTH * self.check))
        return ""

    def run(self, bar: Progress) -> str:
        """Why it stopped."""
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
        """Whether every inclusion probability is known to `target_mcse`. Called when all replicates have counted
        equally many draws."""
        target, mcse = self.plan.target, combine_pips([look_at(self.sampler, run) for run in self.runs]).mcse
        return target is not None and bool(np.isfinite(mcse).any() and np.nanmax(mcse) <= target)

    def _advance(self, index: int) -> None:
        """One chunk of one replicate, and a checkpoint of it where one is due."""
        run, began, cpu = self.runs[index], clock(), cpu_clock()
        end, seconds = self._next(index)
        if end > run.iterations:
            self.late[index] |= seconds is None and self._time_left() <= 0
            spent = self.pool.advance(index, run, end, seconds)
            self.cpu[index] += spent.cpu_seconds
            self.away[index] += spent.compiling
            began += spent.compiling
        now = clock()
        self.own[index] += max(now - began, 0.0)
        enough = run.iterations >= self._least_warmup() and self._warmup_left(index) <= 0
        if not self.counting[index] and (run.iterations == self.plan.warmup or enough):
            self._begin_counting(index)
            self.own[index] += clock() - now
        self.cpu[index] += cpu_clock() - cpu
        if self.saver is not None:
            self.saver.write_if_due(index, self.snapshot(index), self._unfinished())
