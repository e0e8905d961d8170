"""Any of the package's Metropolis–Hastings moves, as a part of tempering and sequential Monte Carlo.

The moves here leave the (tempered) posterior of the chain they are given invariant; a sampler says so by its
``invariant_law``. Which one applies is an integer code, so that tempering compiles once for all of them.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from whichvars._kernels.chain import ADDED, DELETED, PENDING
from whichvars._kernels.decide import ACCEPTED, WAITING, acceptance_of, decide
from whichvars._kernels.jit import by_reference, inlined, kernel
from whichvars._kernels.propose.adapt import Adaptation, add_to_logits, new_adaptation
from whichvars._kernels.propose.bernoulli import Buckets
from whichvars._kernels.propose.changes import ITERATION, Changes, new_changes, note_proposal
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.problem import Problem
from whichvars.samplers import add_delete_swap, individual, lamnisos
from whichvars.samplers.contract import NEVER, Sampler

INDIVIDUAL, ADD_DELETE_SWAP, LAMNISOS = range(3)


@by_reference
class Move(NamedTuple):
    """Settings of a move; those of the other moves are ignored."""

    code: int
    tau: float
    w: float
    phi0: float
    decay: float
    freeze: int
    by_buckets: bool
    swap: float
    max_changes: int
    deferred: bool  # gather what is to be learned, and learn it when ``learn_deferred`` is called


@by_reference
class MoveState(NamedTuple):
    """What a move learns and counts, for one chain; with one more leading dimension, for all rungs of a
    ladder."""

    adaptation: Adaptation
    logit: np.ndarray  # (1,): of ω, for Lamnisos
    changes: Changes
    # used where learning is deferred:
    steps: np.ndarray  # (p, 3): steps of A_j and D_j, and 1 if there are any
    waiting: np.ndarray  # (p,) int32: variables that have such steps
    pooled: np.ndarray  # (2,): number of variables waiting; step of logit ω


def read_move(sampler: Sampler | None, owner: str, deferred: bool = False) -> Move:
    """The settings of `sampler` as a move, or an error that says why it cannot be one."""
    law = getattr(sampler, "invariant_law", None)
    if law is None or not hasattr(sampler, "advance"):
        raise ArgumentTypeError(
            f"{owner}: move must be a sampler such as IndividualAdaptation(), not {sampler!r}"
        )
    if law != "posterior":
        raise DataError(
            f"{owner}: {type(sampler).__name__} leaves {law} invariant, not the tempered posterior itself, so it would be biased "
            "here; use IndividualAdaptation(), AddDeleteSwap() or Lamnisos()"
        )
    freeze = getattr(sampler, "freeze_after", None)
    blank = Move(0, 0.0, 0.0, 1.0, 0.55, NEVER if freeze is None else int(freeze), True, 1 / 3, 1, deferred)
    if isinstance(sampler, individual.IndividualAdaptation):
        return blank._replace(
            code=INDIVIDUAL, tau=sampler.tau, w=sampler.w, phi0=sampler.phi0, decay=sampler.decay,
            by_buckets=sampler.additions == "buckets",
        )  # fmt: skip
    if isinstance(sampler, add_delete_swap.AddDeleteSwap):
        return blank._replace(code=ADD_DELETE_SWAP, swap=sampler.swap)
    if isinstance(sampler, lamnisos.Lamnisos):
        return blank._replace(
            code=LAMNISOS, tau=sampler.target, phi0=sampler.phi0, decay=sampler.decay, swap=sampler.swap,
            max_changes=int(sampler.max_changes),
        )  # fmt: skip
    raise DataError(
        f"{owner}: {type(sampler).__name__} cannot be used as a move yet; use IndividualAdaptation()"
    )


def new_move_state(problem: Problem, sampler: Sampler | None, deferred: bool = False) -> MoveState:
    """What the move starts from; nothing is learned by variable unless it is individual adaptation."""
    if isinstance(sampler, individual.IndividualAdaptation):
        adaptation = sampler.first_adaptation(problem, True)
    else:
        adaptation = new_adaptation(np.zeros(0), np.zeros(0), 0.1, True)
    rows = len(adaptation.values) if deferred else 0
    return MoveState(
        adaptation, np.zeros(1), new_changes(), np.zeros((rows, 3)), np.zeros(rows, np.int32), np.zeros(2)
    )


def stack_move_states(states: list[MoveState]) -> MoveState:
    """One move state whose arrays have the rung as leading dimension."""

    def stack(items: list[Any]) -> Any:
        if isinstance(items[0], tuple):
            return type(items[0])(*(stack([p[i] for p in items]) for i in range(len(items[0]))))
        return np.ascontiguousarray(np.stack(items)) if isinstance(items[0], np.ndarray) else items[0]

    return stack(states)


def move_state_of_rung(stack: MoveState, k: int) -> MoveState:
    """Rung k of stacked move states, as views."""
    adaptation, buckets, changes = stack.adaptation, stack.adaptation.buckets, stack.changes
    return MoveState(
        Adaptation(
            adaptation.values[k],
            Buckets(
                buckets.bucket[k], buckets.place[k], buckets.members[k], buckets.start[k], buckets.segment[k]
            ),
            adaptation.touched[k],
            adaptation.is_touched[k],
            adaptation.ints[k],
            adaptation.epsilon,
        ),
        stack.logit[k],
        Changes(
            changes.ints[k],
            changes.proposed[k],
            changes.accepted[k],
            changes.acceptance[k],
            changes.mutation[k],
        ),
        stack.steps[k],
        stack.waiting[k],
        stack.pooled[k],
    )


@kernel
def defer(chain, state, move, log_ratio, rate):
    """Gather what this proposal has to teach, at learning rate φ_i = `rate`."""
    state.pooled[1] += rate * (acceptance_of(log_ratio) - move.tau)
    if move.code != INDIVIDUAL:
        return
    forward, reverse = individual.directions(log_ratio, move.tau, move.w)
    for i in range(chain.ints[ADDED]):
        _add_deferred_step(state, chain.added[i], rate * forward, rate * reverse)
    for i in range(chain.ints[DELETED]):
        _add_deferred_step(state, chain.deleted[i], rate * reverse, rate * forward)


@inlined
def _add_deferred_step(state, j, add_step, delete_step):
    """Add to the steps of variable j that are to be learned later."""
    if state.steps[j, 2] == 0.0:
        state.waiting[int(state.pooled[0])] = j
        state.pooled[0] += 1.0
    state.steps[j, 0] += add_step
    state.steps[j, 1] += delete_step
    state.steps[j, 2] = 1.0


@inlined
def _at_most_one(step):
    return min(max(step, -1.0), 1.0)


@kernel
def learn_deferred(state, move):
    """Learn what was gathered. Each sum of steps is bounded by 1, as no step took the others into account."""
    for i in range(int(state.pooled[0])):
        j = state.waiting[i]
        add_to_logits(state.adaptation, j, _at_most_one(state.steps[j, 0]), _at_most_one(state.steps[j, 1]))
        state.steps[j, 0] = 0.0
        state.steps[j, 1] = 0.0
        state.steps[j, 2] = 0.0
    if move.code == LAMNISOS:
        state.logit[0] = lamnisos.bounded_logit_omega(state.logit[0] + _at_most_one(state.pooled[1]))
    state.pooled[0] = 0.0
    state.pooled[1] = 0.0


@inlined
def step(target, chain, memo, tally, rng, state, move, counting, noting):
    """One iteration of one chain at its own temperature; False, and nothing done, where it needs more room
    first.

    counting: whether to add the chain's change to the tally; noting: whether to add to the counts of changes.
    """
    ints = chain.ints
    if ints[PENDING] == 0:
        state.changes.ints[ITERATION] += 1
        if move.code == INDIVIDUAL:
            individual.propose(target, chain, state.adaptation, rng, move.by_buckets)
        elif move.code == ADD_DELETE_SWAP:
            add_delete_swap.propose(target, chain, rng, move.swap)
        else:
            omega = 1.0 / (1.0 + math.exp(-state.logit[0]))
            lamnisos.propose(target, chain, rng, move.swap, move.max_changes, omega)
    verdict, log_ratio = decide(target, chain, memo, tally, rng, counting, False)
    if verdict == WAITING:
        return False
    acceptance = acceptance_of(log_ratio)
    iteration = state.changes.ints[ITERATION]
    if iteration <= move.freeze:
        rate = move.phi0 * math.pow(iteration, -move.decay)
        if move.deferred:
            defer(chain, state, move, log_ratio, rate)
        elif move.code == INDIVIDUAL:
            individual.learn(chain, state.adaptation, log_ratio, rate, move.tau, move.w)
        elif move.code == LAMNISOS:
            state.logit[0] = lamnisos.bounded_logit_omega(state.logit[0] + rate * (acceptance - move.tau))
    note_proposal(state.changes, noting, ints[ADDED] + ints[DELETED], acceptance, verdict == ACCEPTED)
    return True
