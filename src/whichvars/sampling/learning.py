"""What a sampler has learned for each variable, recorded along the run.

Adding and deleting probabilities of a single chain are recorded after 0, 64, 90, 128, 181, 256, … iterations, twice for every
doubling, as learning steps become smaller like a power of the iteration. At every point all chains stop and begin again, which takes as long
as a hundred iterations of each; chains that learn together therefore have one point for every doubling. The points depend on nothing but
the numbers of iterations and of chains, so that records are the same for any number of threads or chunks, and after a run was continued.
"""

import math
from typing import Any

import numpy as np

from whichvars.problem.problem import Problem
from whichvars.samplers.asi import ASI
from whichvars.samplers.contract import Run, Sampler
from whichvars.samplers.individual import IndividualAdaptation
from whichvars.samplers.tempering import ParallelTempering

FIRST_POINT = 64
POINTS_PER_DOUBLING = 2  # of a single chain
# variables beyond which nothing is recorded, as every point would take 8 bytes for each of them
MOST_VARIABLES = 50_000
# variables whose records a posterior keeps: the most probable ones
KEPT_VARIABLES = 200

# iterations of each chain, and A and D, (2, p) float32
Point = tuple[int, np.ndarray]


def next_point(iteration: int, chains: int = 1) -> int:
    """The first point after `iteration` at which to record.

    >>> [next_point(i) for i in (0, 64, 100, 1000)]
    [64, 90, 128, 1024]
    >>> [next_point(i, chains=5) for i in (0, 64, 100, 1000)]
    [64, 128, 128, 1024]
    """
    if iteration < FIRST_POINT:
        return FIRST_POINT
    each = POINTS_PER_DOUBLING if chains == 1 else 1
    power = int(each * math.log2(iteration / FIRST_POINT)) - 1
    while _point(power, each) <= iteration:
        power += 1
    return _point(power, each)


def _point(power: int, each: int) -> int:
    """FIRST_POINT times 2^(power/each), rounded down."""
    doublings, part = divmod(power, each)
    return int(FIRST_POINT * 2 ** (part / each) * 2.0**doublings)


def learns_by_variable(problem: Problem, sampler: Sampler | None) -> bool:
    """Whether there is anything to record: adding and deleting probabilities of not too many variables."""
    if isinstance(sampler, ParallelTempering):
        return learns_by_variable(problem, sampler.move)
    return isinstance(sampler, (IndividualAdaptation, ASI)) and problem.p <= MOST_VARIABLES


def look(problem: Problem, sampler: Sampler, run: Run) -> Point:
    """A and D as they are now."""
    return run.iterations, _both(sampler.learned(problem, run))


def _both(learned: dict[str, Any]) -> np.ndarray:
    """A and D, (2, p). If there are several rungs, those of the last one, which samples the posterior."""
    keys = ("add_probability", "delete_probability")
    return np.array([np.atleast_2d(learned[key])[-1] for key in keys], np.float32)


def with_records(learned: dict[str, Any], points: list[Point], run: Run, pip: np.ndarray) -> dict[str, Any]:
    """What a replicate has learned, for ``Posterior.adaptation``, and how it came there if that was recorded."""
    if not points:
        return learned
    if points[-1][0] < run.iterations:
        points = [*points, (run.iterations, _both(learned))]
    kept = np.sort(np.argsort(-pip, kind="stable")[:KEPT_VARIABLES])
    values = np.array([both[:, kept] for _, both in points])
    return learned | {
        "iterations_along_run": np.array([iteration for iteration, _ in points]),
        "variables_along_run": kept,
        "add_probability_along_run": values[:, 0],
        "delete_probability_along_run": values[:, 1],
    }
