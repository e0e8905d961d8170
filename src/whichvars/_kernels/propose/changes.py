"""What a sampler that changes several variables at once reports: how many it proposes, how many are accepted,
and how often it moves."""

from typing import NamedTuple

import numpy as np

from whichvars._kernels.jit import by_reference, inlined

MOST_CHANGES = 256  # proposals of MOST_CHANGES − 1 changes or more share the last place
MOST_BLOCKS = 256  # of iterations; when all are full, neighbours are merged
# places in Changes.ints
ITERATION = 0
CURRENT_BLOCK = 1
BLOCK_LENGTH = 2  # iterations in a block
IN_BLOCK = 3  # iterations in the current block


@by_reference
class Changes(NamedTuple):
    ints: np.ndarray
    proposed: np.ndarray  # (MOST_CHANGES,) int64: proposals by number of changes, after warm-up
    accepted: np.ndarray  # (MOST_CHANGES,) int64
    acceptance: np.ndarray  # (MOST_CHANGES,): sum of acceptance probabilities
    mutation: np.ndarray  # (MOST_BLOCKS,): sum of C·a over blocks of iterations, warm-up included


def new_changes() -> Changes:
    ints = np.zeros(4, np.int64)
    ints[BLOCK_LENGTH] = 64
    return Changes(
        ints,
        np.zeros(MOST_CHANGES, np.int64),
        np.zeros(MOST_CHANGES, np.int64),
        np.zeros(MOST_CHANGES),
        np.zeros(MOST_BLOCKS),
    )


@inlined
def note_proposal(changes, counting, number, acceptance, accepted):
    """One iteration: `number` of changes proposed, with its acceptance probability."""
    ints = changes.ints
    if number > 0:
        changes.mutation[ints[CURRENT_BLOCK]] += acceptance
    if counting:
        place = min(number, MOST_CHANGES - 1)
        changes.proposed[place] += 1
        changes.acceptance[place] += acceptance
        if accepted:
            changes.accepted[place] += 1
    ints[IN_BLOCK] += 1
    if ints[IN_BLOCK] == ints[BLOCK_LENGTH]:
        ints[IN_BLOCK] = 0
        ints[CURRENT_BLOCK] += 1
        if ints[CURRENT_BLOCK] == MOST_BLOCKS:
            for b in range(MOST_BLOCKS // 2):
                changes.mutation[b] = changes.mutation[2 * b] + changes.mutation[2 * b + 1]
            for b in range(MOST_BLOCKS // 2, MOST_BLOCKS):
                changes.mutation[b] = 0.0
            ints[CURRENT_BLOCK] = MOST_BLOCKS // 2
            ints[BLOCK_LENGTH] *= 2


def describe_changes(by_chain: list[Changes]) -> dict[str, object]:
    """The counts of all chains together, for ``posterior.adaptation``.

    `mutation_rate`: mean over iterations after warm-up of 1{some change}·(acceptance probability);
    `mutation_rate_along_run`: the same in blocks of `block_length` iterations, warm-up included;
    `changes_proposed`, `changes_accepted`: iterations by number of changes (0, 1, 2, …);
    `acceptance_by_changes`: mean acceptance probability by number of changes proposed, NaN where there were
    none.
    """
    proposed = np.sum([c.proposed for c in by_chain], axis=0)
    accepted = np.sum([c.accepted for c in by_chain], axis=0)
    acceptance = np.sum([c.acceptance for c in by_chain], axis=0)
    last = int(np.flatnonzero(proposed)[-1]) + 1 if proposed.any() else 1
    block, length = int(by_chain[0].ints[CURRENT_BLOCK]), int(by_chain[0].ints[BLOCK_LENGTH])
    along = np.sum([c.mutation[:block] for c in by_chain], axis=0) / (length * len(by_chain))
    with np.errstate(invalid="ignore"):
        by_number = np.where(proposed > 0, acceptance / np.maximum(proposed, 1), np.nan)
    return {
        "mutation_rate": float(acceptance[1:].sum() / max(proposed.sum(), 1)),
        "mutation_rate_along_run": along,
        "block_length": length,
        "changes_proposed": proposed[:last],
        "changes_accepted": accepted[:last],
        "acceptance_by_changes": by_number[:last],
    }
