r"""The flip rates of some of the variables: of a set S, drawn anew after every event, for p too large to scan all.

S has s variables: a *anchors* that are always in it, and s − a others. Its rates are
:math:`c_i r_i(\gamma)`, with :math:`r_i` as in ``rate_table.py``, c = 1 for anchors and (p − a)/(s − a) for the
others, which makes up for their being in S so seldom.

The odds come as in ``scan.py``: Z = L⁻¹X_γᵀx_c for the columns c of S, a block of them at a time, then
pivots, residuals and marginal likelihoods by the same operations. Cost: O(s·(k·n + k²)), and nothing that is O(p).
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.chain import (
    AVAILABLE,
    BREAKDOWNS,
    COLUMNS,
    EVALUATIONS,
    LOG_MARGINAL,
    PERFECT,
    SIZE,
    TAIL,
    _extend_head,
    _pivot_is_sound,
    clear,
)
from whichvars._kernels.gram_cache import product
from whichvars._kernels.jit import entry, inlined, kernel
from whichvars._kernels.linalg import sum_log
from whichvars._kernels.marginal import SMALLEST_TOLERANCE, log_marginal
from whichvars._kernels.scan import (
    GOOD_ENOUGH,
    _bounded,
    _deletions,
    _deletions_by_inverse,
    _deletions_one_by_one,
    _finish_row,
    _group,
    _has_full_rank,
    _invert,
    _log_odds,
    _reduce,
    _residuals,
    _subtract_four,
    _subtract_one,
    odds_of,
)
from whichvars._kernels.size_prior import all_parents_in, children_made_available, log_availability
from whichvars._kernels.target import INDEPENDENT, MIXTURE, Target


class Subset(NamedTuple):
    """S of every chain, and the rates of the one at work."""

    anchors: np.ndarray  # (a,) int64
    others: np.ndarray  # (chains, p − a) int32: the rest in some order; the first s − a of a row are in S
    members: np.ndarray  # (s,) int64: S, anchors first
    rates: np.ndarray  # (s,) c_i r_i
    probabilities: np.ndarray  # (s,) p_i
    columns: np.ndarray  # (block,) int64: columns of X that are being looked at
    # in warm-up, by variable: the holding time while it was in S, and that times p_j
    seen: np.ndarray  # (p,)
    scores: np.ndarray  # (p,)


def new_subset(target: Target, chains: int, n_anchors: int, size: int, block: int) -> Subset:
    """Room for it; ``set_anchors`` says which they are."""
    p = len(target.design.offsets) - 1
    return Subset(
        anchors=np.zeros(n_anchors, np.int64),
        others=np.zeros((chains, p - n_anchors), np.int32),
        members=np.zeros(size, np.int64),
        rates=np.zeros(size),
        probabilities=np.zeros(size),
        columns=np.zeros(block, np.int64),
        seen=np.zeros(p),
        scores=np.zeros(p),
    )


def set_anchors(subset: Subset, anchors: np.ndarray, rng: np.random.Generator) -> None:
    """Other anchors, and a new S for every chain."""
    p = len(subset.seen)
    subset.anchors[:] = np.sort(anchors)
    rest = np.setdiff1d(np.arange(p, dtype=np.int32), subset.anchors.astype(np.int32), assume_unique=True)
    for row in subset.others:
        row[:] = rng.permutation(rest)


@inlined
def draw_subset(others, count, kept, rng):
    """The first `count` of `others` become a uniform draw from those that contains the first `kept` of them: a
    shuffle that stops early, right from whatever order the last one left."""
    n = others.shape[0]
    for t in range(kept, count):
        u = t + np.int64(rng.random() * (n - t))
        others[t], others[u] = others[u], others[t]


@entry
def subset_rates_of(target, chain, work, subset, c, kappa):
    """``find_subset_rates`` for Python."""
    return find_subset_rates(target, chain, work, subset, c, kappa)


@kernel
def find_subset_rates(target, chain, work, subset, c, kappa):
    """Fill `members`, `rates` and `probabilities` of the subset of chain c. Returns 0; or, with nothing done, for
    how many columns `work` and `target` must be made."""
    members, rates, probabilities = subset.members, subset.rates, subset.probabilities
    a, s = subset.anchors.shape[0], members.shape[0]
    for m in range(a):
        members[m] = subset.anchors[m]
    for m in range(a, s):
        members[m] = subset.others[c, m - a]
    needed = _scan_subset(target, chain, work, subset.columns, members)
    if needed > 0:
        return needed
    share = subset.others.shape[1] / (s - a)
    for m in range(s):
        x = odds_of(work.log_odds[members[m]])
        if chain.position[members[m]] >= 0:
            rate = 0.0 if x == np.inf else 1.0 + kappa * (1.0 + 1.0 / x)
            probabilities[m] = 1.0 / (1.0 + 1.0 / x)
        else:
            rate = x + kappa * (1.0 + x) if x > 0.0 else 0.0
            probabilities[m] = x / (1.0 + x)
        rates[m] = rate if m < a else share * rate
    return 0


@kernel
def choose_member(rates, u):
    """The place at which the running sum of the rates passes u; the last that is not 0 where rounding carries
    u past them all."""
    found = -1
    for m in range(rates.shape[0]):
        if rates[m] > 0.0:
            found = m
            if u < rates[m]:
                return m
            u -= rates[m]
    return found


@kernel
def _scan_subset(target, chain, work, columns, members):
    """Fill ``work.log_odds`` for the variables of the model and for those of `members`, as ``scan`` does."""
    ints, slab, prior = chain.ints, target.slab, target.prior
    size, k = ints[SIZE], ints[COLUMNS]
    most = min(k + work.widest, slab.max_columns)
    if k > work.z.shape[0] or (slab.code == MIXTURE and most >= slab.table.shape[0]):
        return k + work.widest
    evaluations, perfect, breakdowns = ints[EVALUATIONS], ints[PERFECT], ints[BREAKDOWNS]
    clear(chain)
    ints[TAIL] = -1
    sound = _extend_head(target, chain, size)
    if sound:
        smallest = _invert(chain.head, chain.head_inverse, k, work.inverse_factor, work.squares)
        inflation = 0.0
        for i in range(k):
            column = chain.column[i]
            norm = target.design.diagonal[column] + slab.ridge[column]
            inflation = max(inflation, work.squares[i] * norm)
        if work.widest == 1 and inflation < GOOD_ENOUGH:
            _deletions_by_inverse(target, chain, work, 1.0)
        elif slab.code == INDEPENDENT or smallest >= 2.0 * SMALLEST_TOLERANCE:
            _deletions(target, chain, work, 1.0)
        else:
            _deletions_one_by_one(target, chain, work, 1.0)
    else:
        _deletions_one_by_one(target, chain, work, 1.0)
    if sound and size < prior.max_size and k < slab.max_columns:
        _additions_of(target, chain, work, columns, members)
    else:
        for m in range(members.shape[0]):
            if chain.position[members[m]] < 0:
                work.log_odds[members[m]] = -np.inf
    if prior.links.shape[0] > 0:
        for m in range(members.shape[0]):
            _add_heredity_of(prior, chain.position, size, ints[AVAILABLE], work.log_odds, members[m])
    ints[EVALUATIONS], ints[PERFECT], ints[BREAKDOWNS] = evaluations, perfect, breakdowns
    return 0


@kernel
def _add_heredity_of(prior, position, size, available, log_odds, j):
    """``add_heredity`` for one variable."""
    links = prior.links
    p = position.shape[0]
    inside = position[j] >= 0
    if not inside and not all_parents_in(prior, position, j, -1):
        log_odds[j] = -np.inf
        return
    for e in range(links[1 + p + j], links[2 + p + j]):
        if position[links[e]] >= 0:
            log_odds[j] = np.inf
            return
    gained, change = children_made_available(prior, position, j)
    k = size - 1 if inside else size  # without j
    before = available - gained if inside else available
    change += log_availability(prior, k + 1, before + gained) - log_availability(prior, k, before)
    log_odds[j] += change


@inlined
def _additions_of(target, chain, work, columns, members):
    size, k = chain.ints[SIZE], chain.ints[COLUMNS]
    slab, prior, offsets, position = target.slab, target.prior, target.design.offsets, chain.position
    pivots, residuals = work.pivot, work.residual
    explained = 0.0
    half = 0.0
    for r in range(k):
        explained += chain.head_solved[r] * chain.head_solved[r]
        half += slab.half_log_g[chain.column[r]]
    log_determinant = -sum_log(chain.head_inverse, 0, k)
    current = chain.floats[LOG_MARGINAL]
    start = -half - log_determinant - current
    independent = slab.code == INDEPENDENT
    # a pivot above this leaves the determinant, hence every tolerance, above the smallest
    safe = SMALLEST_TOLERANCE * math.exp(min(-2.0 * log_determinant, 700.0))
    m = 0
    while m < members.shape[0]:
        # 1. the columns of a block of variables that are out
        first = m
        n = 0
        while m < members.shape[0]:
            j = members[m]
            if position[j] < 0:
                width = offsets[j + 1] - offsets[j]
                if n + width > pivots.shape[0]:
                    break
                for b in range(width):
                    columns[n + b] = offsets[j] + b
                n += width
            m += 1
        _solve_columns(target, chain, work, columns, n)
        _residuals(work, n, explained, slab.s_null)
        # 2. each variable
        i = 0
        for q in range(first, m):
            j = members[q]
            if position[j] >= 0:
                continue
            column = offsets[j]
            width = offsets[j + 1] - column
            difference = -np.inf
            if width > 1:
                if k + width <= slab.max_columns:
                    difference = _group(target, chain, work, column, width, i, i, explained, half) - current
            elif _pivot_is_sound(slab, column, pivots[i]):
                if independent:
                    difference = (
                        start
                        - slab.half_log_g[column]
                        - 0.5 * math.log(pivots[i])
                        - 0.5 * slab.nu * math.log(residuals[i])
                    )
                else:
                    full_rank = True
                    if pivots[i] < safe:
                        work.inverse[0] = 1.0 / math.sqrt(pivots[i])
                        full_rank = _has_full_rank(work, k, 1, i)
                    if full_rank:
                        difference = log_marginal(slab, k + 1, residuals[i], 0.0, 0.0) - current
            work.log_odds[j] = _log_odds(prior, j, size, 1.0, difference)
            i += width


@inlined
def _solve_columns(target, chain, work, columns, n):
    """Z, pivots and right-hand sides of the first n `columns`."""
    design, k = target.design, chain.ints[COLUMNS]
    z, pivot, right, head = work.z, work.pivot, work.right, chain.head
    diagonal, ridge, xty = design.diagonal, target.slab.ridge, design.xty
    for i in range(n):
        column = columns[i]
        pivot[i] = diagonal[column] + ridge[column]
        right[i] = xty[column]
        for r in range(k):
            z[r, i] = product(design, chain.gram_cache, column, chain.column[r])
    for r in range(k):
        row = z[r, :n]
        s = 0
        while s + 4 <= r:
            _subtract_four(
                row, n, z[s, :n], z[s + 1, :n], z[s + 2, :n], z[s + 3, :n],
                head[r, s], head[r, s + 1], head[r, s + 2], head[r, s + 3],
            )  # fmt: skip
            s += 4
        while s < r:
            _subtract_one(row, n, z[s, :n], head[r, s])
            s += 1
        _finish_row(row, n, chain.head_inverse[r])
        _reduce(row, n, chain.head_solved[r], pivot, right)
