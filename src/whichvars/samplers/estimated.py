"""Samplers whose chains share estimates π̂ of the inclusion probabilities: what ASI and PARNI have in common.

π̂_j = κ + (1 − 2κ) · the mean of the conditional inclusion probabilities p_j(γ) over the scans of all chains, κ =
min{.001, .1/p}. It is renewed at iterations 128, 256, 512, … (a barrier of all chains); in warm-up what is older
counts half at each renewal. Until the first it is the prior's.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from whichvars._kernels.chain import COLUMNS, NEEDED, SCANNED, Chain
from whichvars._kernels.count.averages import GROUP, NEXT_SCAN, SCANS, Averages, grow_averages, new_averages
from whichvars._kernels.jit import by_reference
from whichvars._kernels.propose.changes import ITERATION, Changes, new_changes
from whichvars._kernels.propose.informed import Informed, new_informed, set_estimate
from whichvars.errors import DataError
from whichvars.problem.model_priors import mean_of_sizes
from whichvars.problem.moment_priors import MomentPrior
from whichvars.problem.problem import Problem
from whichvars.samplers import contract as runs
from whichvars.samplers.contract import Entries, Run, Unit, batches_for, make_room, new_unit

ITERATION_TIME = 500.0  # nanoseconds of the cheapest iterations
FIRST_STAGE_OF_LEARNING = 128  # iterations of each chain before π̂ is estimated for the first time


@by_reference
class InformedState(NamedTuple):
    """What one chain proposes with, and what it counts beside its tally."""

    informed: Informed
    changes: Changes
    averages: Averages
    memory: np.ndarray  # (4, p) int32: memory for a move that takes several steps
    ints: np.ndarray  # which of these steps comes next
    floats: np.ndarray


@dataclass
class Learned:
    """What all chains had learned at the last barrier."""

    sums: np.ndarray  # (p,)
    weight: float = 0.0
    counting: bool = False


InformedRun = Run[Unit[InformedState], Learned]


def check(settings: Any) -> None:
    """Check the settings that such samplers have in common."""
    check_chains(settings)
    if settings.adapt not in ("warmup", "always"):
        raise DataError(
            f'{type(settings).__name__}: adapt must be "warmup" or "always", not {settings.adapt!r}'
        )


def check_chains(settings: Any) -> None:
    """DataError unless `chains` is a whole number of at least 1."""
    whole = isinstance(settings.chains, (int, np.integer)) and not isinstance(settings.chains, bool)
    if not whole or settings.chains < 1:
        raise DataError(
            f"{type(settings).__name__}: chains must be a whole number of at least 1, not {settings.chains!r}"
        )


def first_estimate(problem: Problem) -> np.ndarray:
    """The share of variables that the prior expects in the model, for every variable, (p,)."""
    p = problem.p
    share = mean_of_sizes(problem.model_prior.size_distribution(p, problem.max_size)) / p
    return regular(np.full(problem.p, min(share, 0.5)))


def regular(mean: np.ndarray) -> np.ndarray:
    """π̂ from means of conditional probabilities: away from 0 and 1."""
    kappa = min(0.001, 0.1 / len(mean))
    return np.clip(kappa + (1 - 2 * kappa) * mean, kappa, 1 - kappa)


def init(
    problem: Problem,
    seed: np.random.SeedSequence,
    starts: list[np.ndarray],
    memo_slots: int,
    memory: bool = False,
) -> InformedRun:
    """Chains at their starting models."""
    if isinstance(problem.slab, MomentPrior):
        # proposals are judged by the normal surrogate first, which holds chains for long at models that it underrates: short runs were wrong
        # without a warning
        raise DataError(
            f"ASI and PARNI mix too slowly under {problem.slab}, a non-local slab; use Hybrid(), AddDeleteSwap() or another sampler"
        )
    units = []
    for index, start in enumerate(starts):
        unit = new_unit(problem, seed, index, start, memo_slots, len(starts))
        own = InformedState(
            new_informed(first_estimate(problem)),
            new_changes(),
            _new_averages(problem, unit.chain),
            np.zeros((4, problem.p if memory else 0), np.int32),
            np.zeros(8, np.int64),
            np.zeros(4),
        )
        units.append(unit.having(own))
    return Run(units, Learned(np.zeros(problem.p)), barrier=FIRST_STAGE_OF_LEARNING)


def _new_averages(problem: Problem, chain: Chain) -> Averages:
    """Empty averages. The next scan comes after as many iterations as take the time of a scan of the current model."""
    groups, columns = batches_for(problem.p) // 2, int(chain.ints[COLUMNS])
    return new_averages(problem.target(0), len(chain.slot), groups, columns, ITERATION_TIME)


def is_learning(run: InformedRun, adapt: str) -> bool:
    return adapt == "always" or not run.shared.counting


def advance(
    problem: Problem, unit: Unit[InformedState], entries: Entries, iterations: int, *settings: Any
) -> None:
    """Advance a chain by `iterations` iterations, making room whenever a proposal does not fit."""
    done = 0
    while done < iterations:
        capacity = len(unit.chain.slot)
        target = problem.target(capacity)
        with entries.for_problem(problem) as advance_chain:
            done += advance_chain(
                target, unit.chain, unit.memo, unit.tally, unit.rng, unit.own, *settings, iterations - done
            )
        if unit.chain.ints[NEEDED]:
            make_room(problem, unit)
        if len(unit.chain.slot) > capacity:  # what scans have kept is lost, and the chain knows it
            larger = grow_averages(unit.own.averages, target, len(unit.chain.slot))
            unit.own = unit.own._replace(averages=larger)


def merge(problem: Problem, run: InformedRun) -> None:
    """Renew π̂ from the scans of all chains."""
    shared = run.shared
    sums, weight = shared.sums.copy(), shared.weight
    for unit in run.units:
        averages = unit.own.averages
        sums += averages.running + averages.groups[: averages.ints[GROUP]].sum(axis=0, dtype=float)
        weight += float(averages.ints[SCANS])
    if not shared.counting:
        shared.sums, shared.weight = 0.5 * sums, 0.5 * weight
        _start_scans_anew(problem, run)
    if weight > 0:
        for unit in run.units:
            set_estimate(unit.own.informed, regular(sums / weight))
    run.barrier = max(FIRST_STAGE_OF_LEARNING, 2 * run.iterations)


def _start_scans_anew(problem: Problem, run: InformedRun) -> None:
    for unit in run.units:
        averages = _new_averages(problem, unit.chain)
        averages.ints[NEXT_SCAN] += unit.own.changes.ints[ITERATION]
        unit.own = unit.own._replace(averages=averages)
        unit.chain.ints[SCANNED] = 0


def begin_counting(problem: Problem, run: InformedRun, adapt: str) -> None:
    """Warm-up is over: its scans no longer count, except for π̂."""
    merge(problem, run)
    run.shared.counting = True
    if adapt == "warmup":
        run.barrier = None
    runs.begin_counting(problem, run)
    if problem.target(
        0
    ).slab.surrogate:  # the surrogate's probabilities are good enough to learn from, and for nothing else
        return
    for unit in run.units:
        unit.averages = unit.own.averages
