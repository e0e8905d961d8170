"""Advancing a replicate in chunks, between which it can be inspected, stopped or moved to another worker."""

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from whichvars.problem.problem import Problem
from whichvars.samplers.contract import Run, Sampler
from whichvars.sampling.compiling import clock

CHUNK_SECONDS = 0.2
# iterations of the first chunk if time is limited, as their speed is not known yet
FIRST_STEPS = 32


def cpu_clock() -> float:
    """CPU time of this thread in seconds."""
    return time.thread_time()


class Spent(NamedTuple):
    """Time that was spent outside the calling thread to advance a replicate."""

    cpu_seconds: float  # in other threads
    compiling: float = 0.0  # seconds that other processes spent compiling first


class Pace:
    """The number of iterations in a chunk: as many as take about CHUNK_SECONDS, or a fixed number."""

    def __init__(self, chunk: int | None) -> None:
        self.fixed = chunk is not None
        self.steps = chunk or 1000
        self.rate: float | None = None  # iterations per second of wall time; None before the first chunk

    def within(self, seconds: float | None) -> int:
        """The number of iterations to make next if only `seconds` are left."""
        if self.fixed or seconds is None:
            return self.steps
        most = FIRST_STEPS if self.rate is None else int(self.rate * seconds)
        return max(1, min(self.steps, most))

    def note(self, steps: int, cpu: float, wall: float) -> None:
        """Record that `steps` iterations took `cpu` seconds of CPU time and `wall` seconds of wall time."""
        if not self.fixed:
            self.rate = steps / max(wall, 1e-6)
            wanted = steps * CHUNK_SECONDS / max(cpu, 1e-6)
            self.steps = max(1, int(np.clip(wanted, steps / 2, steps * 2)))


def advance_run(
    problem: Problem, sampler: Sampler, run: Run, iterations: int, pool: ThreadPoolExecutor | None, width: int
) -> float:
    """Advance all units of a replicate, which wait for each other at every ``run.barrier``; returns the CPU seconds
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
    """Divide the units among `width` threads.

    >>> shares(5, 2)
    [range(0, 5, 2), range(1, 5, 2)]
    """
    return [range(s, units, min(width, units)) for s in range(min(width, units))]


def end_steps(problem: Problem, sampler: Sampler, run: Run, steps: int) -> bool:
    """Record that all units have made `steps` iterations, and merge them at a barrier; returns whether it was one."""
    run.iterations += steps
    at_barrier = run.iterations == run.barrier
    if at_barrier:
        sampler.merge(problem, run)
    return at_barrier


def advance_for(problem: Problem, sampler: Sampler, run: Run, end: int, seconds: float, pace: Pace) -> None:
    """Advance a replicate to iteration `end`, or for about `seconds`, not counting the time spent compiling."""
    deadline = clock() + seconds
    while run.iterations < end and not run.finished:
        cpu, wall = cpu_clock(), clock()
        steps = min(pace.within(deadline - wall), end - run.iterations)
        advance_run(problem, sampler, run, steps, None, 1)
        pace.note(steps, cpu_clock() - cpu, clock() - wall)
        if clock() >= deadline:
            break
