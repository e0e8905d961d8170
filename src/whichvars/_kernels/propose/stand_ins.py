r"""Swaps of a variable for one that looks like it.

Where columns are nearly copies of one another, models differ by which of them is in, and an entering variable drawn
by π̂ seldom is the one that fits: one with a small π̂ that took the place of one with a large π̂ in *this* model is
given back only with probability π̂_small/π̂_large. Here the entering variable is drawn among the *stand-ins* of the
leaving one, the variables whose squared correlation with it is above ``ALIKE``, whatever their π̂:

1. a leaving variable i, uniformly among those of the model that have stand-ins;
2. an entering one j, uniformly among the :math:`n_i` stand-ins of i; if it is in the model, nothing changes.

The relation is symmetric, and i has as many rivals in the one model as j has in the other, so the ratio of the two
proposals is :math:`n_i/n_j`.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.chain import LOG_PROPOSAL, SIZE, change, clear
from whichvars._kernels.jit import by_reference, entry, inlined, kernel
from whichvars._kernels.products.gram_cache import dot_length, dot_products
from whichvars._kernels.target import Design

ALIKE = 0.25  # squared correlation from which a variable can stand for another
MOST_EACH = 31  # stand-ins of one variable that are looked for
MOST_SOUGHT = 256  # variables whose stand-ins are looked for
AT_ONCE = 16  # of these at a time, so that their columns stay in the processor's cache
MOST_LINKED = 1024  # variables that can have stand-ins


@by_reference
class StandIns(NamedTuple):
    place: np.ndarray  # (p,) int32: row of a variable in what follows, −1 if it has no stand-ins
    starts: np.ndarray  # (variables that have any + 1,) int64: where theirs begin
    others: np.ndarray  # int64: the stand-ins, one variable's after the other's


def no_stand_ins(p: int) -> StandIns:
    return StandIns(np.full(p, -1, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int64))


def find_stand_ins(design: Design, estimate: np.ndarray, nanoseconds: float) -> StandIns:
    """The stand-ins of the variables with the largest estimates π̂, shape (p,), and the stand-ins of these in turn.

    The search takes about `nanoseconds`, by the number of products and not by a clock, so that results repeat.
    """
    p = len(estimate)
    product_cost = 2.0 + dot_length(design) / 3
    sought = int(min(MOST_SOUGHT, nanoseconds / (len(design.diagonal) * product_cost)))
    room = int(min(MOST_LINKED, math.sqrt(2 * nanoseconds / product_cost)))
    chosen: dict[int, None] = {}  # a set that keeps its order
    seekers = np.argsort(-estimate, kind="stable")[:sought]
    for first in range(0, len(seekers), AT_ONCE):
        for alike in _squared_correlations(design, seekers[first : first + AT_ONCE], np.arange(p)):
            near = np.flatnonzero(alike > ALIKE)
            near = near[np.argsort(-alike[near], kind="stable")[: MOST_EACH + 1]]
            if len(near) > 1:
                chosen.update(dict.fromkeys(near.tolist()))
    members = np.array(sorted(list(chosen)[:room]), np.int64)
    if len(members) < 2:
        return no_stand_ins(p)
    alike = _squared_correlations(design, members, members)
    np.fill_diagonal(alike, 0.0)
    linked = alike > ALIKE
    crowded = np.flatnonzero(linked.sum(axis=1) > MOST_EACH)
    nearest = np.argsort(-alike[crowded], axis=1, kind="stable")[:, :MOST_EACH]
    linked[crowded] = False
    linked[crowded[:, None], nearest] = True
    linked |= linked.T
    has_any = linked.any(axis=1)
    members, linked = members[has_any], linked[np.ix_(has_any, has_any)]
    place = np.full(p, -1, np.int32)
    place[members] = np.arange(len(members))
    starts = np.concatenate([[0], np.cumsum(linked.sum(axis=1))]).astype(np.int64)
    return StandIns(place, starts, members[np.nonzero(linked)[1]])


def _squared_correlations(design: Design, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The largest squared correlation of any column of one variable with any of another, (rows, columns)."""
    offsets = design.offsets
    single = len(offsets) - 1 == offsets[-1]
    first, second = (some if single else _columns_of(offsets, some) for some in (rows, columns))
    products = np.empty((len(first), len(second)))
    fill_products(design, first, second, products)
    squared = products**2 / np.maximum(np.outer(design.diagonal[first], design.diagonal[second]), 1e-300)
    if single:
        return squared
    begin = [np.cumsum(np.r_[0, np.diff(offsets)[some]])[:-1] for some in (rows, columns)]
    return np.maximum.reduceat(np.maximum.reduceat(squared, begin[0], axis=0), begin[1], axis=1)


def _columns_of(offsets: np.ndarray, variables: np.ndarray) -> np.ndarray:
    return np.concatenate([np.arange(offsets[j], offsets[j + 1]) for j in variables])


@entry
def fill_products(design, first, second, out):
    """x_aᵀ x_b for a in `first` and b in `second`."""
    _fill_products(design, first, second, out)


@kernel
def _fill_products(design, first, second, out):
    for a in range(first.shape[0]):
        if design.gram.shape[0] > 0:
            for b in range(second.shape[0]):
                out[a, b] = design.gram[first[a], second[b]]
        else:
            dot_products(design, first[a], second, second.shape[0], out[a])


@inlined
def propose_stand_in(target, chain, stand_ins, rng):
    """Fill the proposal and its log ratio. The proposal is empty where nothing can be swapped."""
    clear(chain)
    order, place, starts = chain.order, stand_ins.place, stand_ins.starts
    chain.floats[LOG_PROPOSAL] = 0.0
    candidates = 0
    for s in range(chain.ints[SIZE]):
        if place[order[s]] >= 0:
            candidates += 1
    if candidates > 0:
        left = int(rng.random() * candidates)
        s = 0
        while place[order[s]] < 0 or left > 0:
            if place[order[s]] >= 0:
                left -= 1
            s += 1
        i = order[s]
        a = place[i]
        mine = starts[a + 1] - starts[a]
        j = stand_ins.others[starts[a] + int(rng.random() * mine)]
        if chain.position[j] < 0:
            change(target, chain, i)
            change(target, chain, j)
            b = place[j]
            chain.floats[LOG_PROPOSAL] = math.log(mine / (starts[b + 1] - starts[b]))
