"""Robbins–Monro learning of adding and deleting probabilities, on the scale logit_ε(x) = log((x − ε)/(1 − x −
ε)).

A chain learns on its own copy; at a barrier the increments of all chains are added up in chain order and
every copy is set to the sum (multiple chain acceleration). Only coordinates that changed since the last
barrier are touched.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.jit import by_reference, entry, inlined, kernel
from whichvars._kernels.propose.bernoulli import Buckets, bucket_of, move_between_buckets, new_buckets

# bound of |logit_ε|, which keeps probabilities strictly inside (ε, 1 − ε) after any number of updates
LARGEST_LOGIT = 30.0

TOUCHED = 0  # place in ints: coordinates touched since the last barrier

# places in Adaptation.values. They are next to each other, as a variable that is changed needs all four and memory that is
# far away is slow
ADD = 0  # A_j
DELETE = 1  # D_j
ADD_LOGIT = 2
DELETE_LOGIT = 3


@by_reference
class Adaptation(NamedTuple):
    """One chain's adding and deleting probabilities, as logits and as numbers, and the buckets by adding
    probability."""

    values: np.ndarray  # (p, 4)
    buckets: Buckets
    touched: np.ndarray  # (p,) int32
    is_touched: np.ndarray  # (p,) bool
    ints: np.ndarray  # (1,) int64
    epsilon: float


@by_reference
class Shared(NamedTuple):
    """What chains that learn together had in common at the last barrier, and room for their increments."""

    add_logit: np.ndarray
    delete_logit: np.ndarray
    add_sum: np.ndarray
    delete_sum: np.ndarray
    touched: np.ndarray  # (p,) int32
    is_touched: np.ndarray  # (p,) bool
    ints: np.ndarray  # (1,) int64


def new_adaptation(add: np.ndarray, delete: np.ndarray, epsilon: float, learn_together: bool) -> Adaptation:
    """Start at adding probabilities `add` and deleting probabilities `delete`, shapes (p,)."""
    p = len(add)
    add_logit, delete_logit = (
        np.clip(np.log(x - epsilon) - np.log(1 - x - epsilon), -LARGEST_LOGIT, LARGEST_LOGIT)
        for x in (add, delete)
    )
    add, delete = (epsilon + (1 - 2 * epsilon) / (1 + np.exp(-x)) for x in (add_logit, delete_logit))
    marks = p if learn_together else 0
    return Adaptation(
        np.ascontiguousarray(np.column_stack([add, delete, add_logit, delete_logit])), new_buckets(add),
        np.zeros(marks, np.int32), np.zeros(marks, np.bool_), np.zeros(1, np.int64), float(epsilon),
    )  # fmt: skip


def new_shared(adaptation: Adaptation) -> Shared:
    """The common values of chains that all start at `adaptation`."""
    p = len(adaptation.values)
    return Shared(
        adaptation.values[:, ADD_LOGIT].copy(), adaptation.values[:, DELETE_LOGIT].copy(), np.zeros(p), np.zeros(p),
        np.zeros(p, np.int32), np.zeros(p, np.bool_), np.zeros(1, np.int64),
    )  # fmt: skip


@inlined
def bounded_logit(logit):
    return min(max(logit, -LARGEST_LOGIT), LARGEST_LOGIT)


@inlined
def probability_of(logit, epsilon):
    """The inverse of logit_ε."""
    return epsilon + (1.0 - 2.0 * epsilon) / (1.0 + math.exp(-logit))


@kernel
def set_logits(adaptation, j, add_logit, delete_logit):
    """Give variable j new logits (bounded), and all that follows from them."""
    add_logit, delete_logit = bounded_logit(add_logit), bounded_logit(delete_logit)
    values = adaptation.values
    probability = probability_of(add_logit, adaptation.epsilon)
    values[j, ADD] = probability
    values[j, DELETE] = probability_of(delete_logit, adaptation.epsilon)
    values[j, ADD_LOGIT] = add_logit
    values[j, DELETE_LOGIT] = delete_logit
    to = bucket_of(probability)
    buckets = adaptation.buckets
    if buckets.bucket[j] != to:
        move_between_buckets(buckets.bucket, buckets.place, buckets.members, buckets.start, j, to)


@kernel
def add_to_logits(adaptation, j, add_step, delete_step):
    """Add to the logits of variable j, and note that it was touched where chains learn together."""
    set_logits(
        adaptation,
        j,
        adaptation.values[j, ADD_LOGIT] + add_step,
        adaptation.values[j, DELETE_LOGIT] + delete_step,
    )
    if adaptation.is_touched.shape[0] > 0 and not adaptation.is_touched[j]:
        adaptation.is_touched[j] = True
        adaptation.touched[adaptation.ints[TOUCHED]] = j
        adaptation.ints[TOUCHED] += 1


@entry
def gather(shared, adaptation):
    """Barrier, first half, once per chain in chain order: add up the chain's increments since the last
    barrier."""
    for i in range(adaptation.ints[TOUCHED]):
        j = adaptation.touched[i]
        adaptation.is_touched[j] = False
        shared.add_sum[j] += adaptation.values[j, ADD_LOGIT] - shared.add_logit[j]
        shared.delete_sum[j] += adaptation.values[j, DELETE_LOGIT] - shared.delete_logit[j]
        if not shared.is_touched[j]:
            shared.is_touched[j] = True
            shared.touched[shared.ints[TOUCHED]] = j
            shared.ints[TOUCHED] += 1
    adaptation.ints[TOUCHED] = 0


@entry
def move_common_values(shared, weight):
    """Barrier, middle: the common values move by `weight` times the sum of all chains' increments."""
    for i in range(shared.ints[TOUCHED]):
        j = shared.touched[i]
        shared.add_logit[j] = bounded_logit(shared.add_logit[j] + weight * shared.add_sum[j])
        shared.delete_logit[j] = bounded_logit(shared.delete_logit[j] + weight * shared.delete_sum[j])
        shared.add_sum[j] = 0.0
        shared.delete_sum[j] = 0.0
        shared.is_touched[j] = False


@entry
def scatter(shared, adaptation):
    """Barrier, second half, once per chain: take over the common values."""
    for i in range(shared.ints[TOUCHED]):
        j = shared.touched[i]
        set_logits(adaptation, j, shared.add_logit[j], shared.delete_logit[j])


def merge_adaptations(shared: Shared, adaptations: list[Adaptation], weight: float = 1.0) -> None:
    """The whole barrier: every chain's increments since the last one, added in chain order.

    Weight 1 adds them up, which is right between frequent barriers. Weight 1/(number of chains) averages them, which is
    right where each chain has had time to learn the same thing by itself.
    """
    for adaptation in adaptations:
        gather(shared, adaptation)
    move_common_values(shared, weight)
    for adaptation in adaptations:
        scatter(shared, adaptation)
    shared.ints[TOUCHED] = 0


def learned_probabilities(
    shared: Shared | None, adaptations: list[Adaptation]
) -> tuple[np.ndarray, np.ndarray]:
    """(A, D) as all chains together have learned them, what they learned since the last barrier included. Shapes (p,)."""
    first = adaptations[0]
    if shared is None:
        return first.values[:, ADD].copy(), first.values[:, DELETE].copy()
    out = []
    for base, place in ((shared.add_logit, ADD_LOGIT), (shared.delete_logit, DELETE_LOGIT)):
        logit = base + np.sum([a.values[:, place] - base for a in adaptations], axis=0)
        logit = np.clip(logit, -LARGEST_LOGIT, LARGEST_LOGIT)
        out.append(first.epsilon + (1 - 2 * first.epsilon) / (1 + np.exp(-logit)))
    return out[0], out[1]
