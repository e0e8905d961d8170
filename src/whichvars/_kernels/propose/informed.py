r"""Proposals informed by estimates π̂_j of the inclusion probabilities.

At scale ζ, variable j enters with probability :math:`A_j = \zeta \min\{1, \hat\pi_j/(1-\hat\pi_j)\}` and leaves
with :math:`D_j = \zeta \min\{1, (1-\hat\pi_j)/\hat\pi_j\}`; whatever ζ is, :math:`A_j/D_j` is the odds of π̂_j.
Entering variables are drawn as in ``bernoulli``, with all rates scaled by ζ.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.chain import LOG_PROPOSAL, SIZE, change, clear
from whichvars._kernels.jit import by_reference, entry, inlined, kernel
from whichvars._kernels.propose.bernoulli import BUCKETS, Buckets, draw_by_process, new_buckets
from whichvars._kernels.propose.moves import draw_included

# places in Informed.values
ADD = 0  # min{1, odds}: the first, where ``draw_by_process`` looks for it
DELETE = 1  # min{1, 1/odds}
LOG_ODDS = 2  # of π̂
ENTER = 3  # probability of being drawn by ``draw_entering``

# places in Informed.floats
ZETA = 0
PROCESS = 1  # the scale the segments are made for, ζ or a little more
SMALLEST_ZETA = 2
LARGEST_ZETA = 3

SMALLEST_LOGIT = -30.0  # of ζ
UNIFORM = 0.3  # share of entering variables drawn uniformly


@by_reference
class Informed(NamedTuple):
    values: np.ndarray  # (p, 4)
    buckets: Buckets  # by ADD
    alias_cut: np.ndarray  # (p,)
    alias_other: np.ndarray  # (p,) int32
    floats: np.ndarray


def new_informed(estimate: np.ndarray) -> Informed:
    """From estimates π̂, shape (p,), strictly between 0 and 1; ζ = ½."""
    p = len(estimate)
    informed = Informed(
        np.zeros((p, 4)), new_buckets(np.full(p, 0.5)), np.zeros(p), np.zeros(p, np.int32), np.full(4, 0.5)
    )
    set_estimate(informed, estimate)
    return informed


def set_estimate(informed: Informed, estimate: np.ndarray) -> None:
    """Change the estimates; ζ stays, within its new bounds."""
    p = len(estimate)
    odds = estimate / (1 - estimate)
    share = (1 - UNIFORM) * estimate / estimate.sum() + UNIFORM / p
    informed.values[:] = np.column_stack(
        [np.minimum(1, odds), np.minimum(1, 1 / odds), np.log(odds), share / share.sum()]
    )
    for mine, new in zip(informed.buckets, new_buckets(informed.values[:, ADD])):
        mine[:] = new
    scaled = np.ascontiguousarray(informed.values[:, ENTER]) * p
    fill_alias(scaled, np.zeros(p, np.int32), informed.alias_cut, informed.alias_other)
    epsilon = 0.1 / p
    smallest = 0.5 / np.minimum(estimate, 1 - estimate).sum()
    informed.floats[SMALLEST_ZETA] = min(1 - epsilon, smallest)
    informed.floats[LARGEST_ZETA] = 1 - epsilon
    set_scale(informed, informed.floats[ZETA])


@entry
def set_scale(informed, zeta):
    """``set_zeta`` for Python; makes the segments anew in any case."""
    informed.floats[PROCESS] = 0.0
    set_zeta(informed, zeta)


@kernel
def set_zeta(informed, zeta):
    """Change ζ, within its bounds."""
    floats = informed.floats
    zeta = min(max(zeta, floats[SMALLEST_ZETA]), floats[LARGEST_ZETA])
    floats[ZETA] = zeta
    if zeta > floats[PROCESS] or zeta < 0.8 * floats[PROCESS]:
        scale = min(1.1 * zeta, floats[LARGEST_ZETA])
        floats[PROCESS] = scale
        for b in range(BUCKETS):
            informed.buckets.segment[b] = -math.log1p(-math.ldexp(scale, -b))


@kernel
def draw_additions(informed, position, rng, out):
    """Draw all variables with position < 0 with probabilities A_j into `out`; returns their number."""
    buckets, floats = informed.buckets, informed.floats
    return draw_by_process(
        buckets.members,
        buckets.start,
        buckets.segment,
        0,
        floats[PROCESS],
        floats[ZETA],
        informed.values,
        position,
        rng,
        out,
        0,
    )


@entry
def fill_alias(scaled, work, cut, other):
    """Walker's alias table for probabilities scaled/p; `scaled` and `work` (int32), shapes (p,), are
    overwritten."""
    _fill_alias(scaled, work, cut, other)


@kernel
def _fill_alias(scaled, work, cut, other):
    p = scaled.shape[0]
    small, large = 0, p  # below 1: work[:small]; 1 or more: work[large:]
    for j in range(p):
        cut[j] = 1.0
        other[j] = j
        if scaled[j] < 1.0:
            work[small] = j
            small += 1
        else:
            large -= 1
            work[large] = j
    while small > 0 and large < p:
        small -= 1
        a, b = work[small], work[large]
        cut[a] = scaled[a]
        other[a] = b
        scaled[b] -= 1.0 - scaled[a]
        if scaled[b] < 1.0:
            large += 1
            work[small] = b
            small += 1


@inlined
def draw_entering(informed, position, rng):
    """A variable not in the model, with probability proportional to ENTER."""
    p = position.shape[0]
    while True:
        x = rng.random() * p
        j = int(x)
        if x - j >= informed.alias_cut[j]:
            j = np.int64(informed.alias_other[j])
        if position[j] < 0:
            return j


@inlined
def entering_share(chain, informed):
    """The probability that ``draw_entering`` is of, summed over the variables out of the model."""
    inside = 0.0
    for i in range(chain.ints[SIZE]):
        inside += informed.values[chain.order[i], ENTER]
    return 1.0 - inside


@inlined
def propose_single(target, chain, informed, rng):
    """Add, delete or swap, the entering variable drawn by its share. Fills the proposal and its log ratio."""
    clear(chain)
    size, p = chain.ints[SIZE], chain.position.shape[0]
    third = 1.0 / 3.0
    u = rng.random()
    adds = size == 0 or (size < p and u < third)
    deletes = not adds and (size == p or u < 2.0 * third)
    outside = entering_share(chain, informed)
    ratio = 1.0
    if adds:
        j = draw_entering(informed, chain.position, rng)
        change(target, chain, j)
        forward = (1.0 if size == 0 else third) * informed.values[j, ENTER] / outside
        ratio = (1.0 if size + 1 == p else third) / (size + 1) / forward
    elif deletes:
        j = draw_included(chain, rng)
        change(target, chain, j)
        share = informed.values[j, ENTER]
        backward = (1.0 if size == 1 else third) * share / (outside + share)
        ratio = backward / ((1.0 if size == p else third) / size)
    else:
        i = draw_included(chain, rng)
        change(target, chain, i)
        j = draw_entering(informed, chain.position, rng)
        change(target, chain, j)
        leaving, entering = informed.values[i, ENTER], informed.values[j, ENTER]
        ratio = (leaving / (outside + leaving - entering)) / (entering / outside)
    chain.floats[LOG_PROPOSAL] = math.log(ratio)
