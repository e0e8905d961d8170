"""How a replicate is advanced: so many iterations at a time that one can look at it, ask it to stop and move it in between."""

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from whichvars.problem.problem import Problem
from whichvars.samplers.contract import Run, Sampler
from whichvars.sampling.compiling import clock

CHUNK_SECONDS = 0.2
# iterations of a replicate whose time is limited, while it is not known how long they take
FIRST_STEPS = 32


def cpu_clock() -> float:
    """CPU seconds of this thread."""
    return time.thread_time()


class Spent(NamedTuple):
    """What advancing a replicate took that the thread which asked for it cannot see."""

    cpu_seconds: float  # in other threads
    compiling: float = 0.0  # seconds in which other processes compiled before they could do it


class Pace:
    """How many iterations to make between two looks at the clock: those of about CHUNK_SECONDS, or a fixed number."""

    def __init__(self, chunk: int | None) -> None:
        self.fixed = chunk is not None
        self.steps = chunk or 1000
        self.rate: float | None = None  # iterations a second on the clock, as far as is known

    def within(self, seconds: float | None) -> int:
        """Iterations to make next, where no more than so many seconds are left."""
        if self.fixed or seconds is None:
            return self.steps
        most = FIRST_STEPS if self.rate is None else int(self.rate * seconds)
        return max(1, min(self.steps, most))

    def note(self, steps: int, cpu: float, wall: float) -> None:
        """So many iterations took so many CPU seconds, and so many on the clock."""
        if not self.fixed:
            self.rate = steps / max(wall, 1e-6)
            wanted = steps * CHUNK_SECONDS / max(cpu, 1e-6)
            self.steps = max(1, int(np.clip(wanted, steps / 2, steps * 2)))


def advance_run(
    problem: Problem, sampler: Sampler, run: Run, iterations: int, pool: ThreadPoolExecutor | None, width: int
) -> float:
    """Advance all units of a replicate, with a barrier wherever ``run.barrier`` says; returns CPU seconds
    spent in other threads."""
    elsewhere = 0.0

    def advance_units(units: Iterable[int], steps: int) -> float:
        clock = cpu_clock()
        for unit in units:
            sampler.advance(problem, run, unit, steps)
        return cpu_clock() - clock

    while iterations > 0 and not run.finished:
        steps = iterations if run.barrier is None else min(iterations, run.barrier - run.iterations)
        n = len(run.units)
        if pool is None or n == 1:
            advance_units(range(n), steps)
        else:
            elsewhere += sum(
                f.result() for f in [pool.submit(advance_units, share, steps) for share in shares(n, width)]
            )
        iterations -= steps
        end_steps(problem, sampler, run, steps)
    return elsewhere


def shares(units: int, width: int) -> list[range]:
    """Units divided among `width` threads.

    >>> shares(5, 2)
    [range(0, 5, 2), range(1, 5, 2)]
    """
    return [range(s, units, min(width, units)) for s in range(min(width, units))]


def end_steps(problem: Problem, sampler: Sampler, run: Run, steps: int) -> bool:
    """All units have made `steps` iterations; whether they met at a barrier."""
    run.iterations += steps
    meets = run.iterations == run.barrier
    if meets:
        sampler.merge(problem, run)
    return meets


def advance_for(problem: Problem, sampler: Sampler, run: Run, end: int, seconds: float, pace: Pace) -> None:
    """Advance a replicate to iteration `end`, or for about so many seconds, compiling not counted."""
    deadline = clock() + seconds
    while run.iterations < end and not run.finished:
        cpu, wall = cpu_clock(), clock()
        steps = min(pace.within(deadline - wall), end - run.iterations)
        advance_run(problem, sampler, run, steps, None, 1)
        pace.note(steps, cpu_clock() - cpu, clock() - wall)
        if clock() >= deadline:
            break
