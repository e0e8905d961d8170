r"""The flip rates of some of the variables: of a set S, drawn anew after every event, for p too large to scan all.

S has s variables: a *anchors* that are always in it, and s − a others, drawn uniformly. With :math:`r_i` as in
``rate_table.py``, the rates are :math:`r_i(\gamma)` for anchors and for whatever is in the model;
:math:`\frac{p-a}{s-a} r_i(\gamma)` for the others in S, which makes up for their being in it so seldom; 0 for the rest.

The odds come as in ``scan.py``: Z = L⁻¹X_γᵀx_c for the columns c of S, a block of them at a time, then pivots,
residuals and marginal likelihoods by the same operations. For anchors the rows of Z are kept between events as
they are there. Cost: O((s − a)(k·n + k²) + a·k) as a rule, and nothing that is O(p).
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.chain import AVAILABLE, COLUMNS, SCANNED, SIZE, scanned_value
from whichvars._kernels.evidence import INDEPENDENT, log_marginal_at
from whichvars._kernels.factor import pivot_is_sound
from whichvars._kernels.jit import by_reference, entry, inlined, kernel
from whichvars._kernels.prior import add_heredity_of
from whichvars._kernels.products.gram_cache import product
from whichvars._kernels.scan.additions import (
    has_full_rank,
    one_column_more,
    residuals_left,
    safe_pivot,
    scan_group,
    solve_rows,
)
from whichvars._kernels.scan.rate_table import log_rate
from whichvars._kernels.scan.scan import GOOD_ENOUGH, WELL_CONDITIONED, columns_needed, scan_included
from whichvars._kernels.scan.scan_work import (
    LARGEST_LOG_ODDS,
    LARGEST_POWER,
    flip_log_odds,
    odds_of,
    sums_of_model,
)
from whichvars._kernels.target import Target

MOST_ATTEMPTS = 64
KEPT_ROWS = 64  # of Z for anchors; larger models, and variables of several columns, start from scratch


@by_reference
class Subset(NamedTuple):
    """S of every chain, and the rates of the one at work."""

    anchors: np.ndarray  # (a,) int64
    is_anchor: np.ndarray  # (p,) bool
    others: np.ndarray  # (p − a,) int32: the rest, in whatever order the last shuffle left
    drawn: np.ndarray  # (chains, s − a) int64: those of them that are in S
    members: np.ndarray  # (s,) int64: S of the chain at work, anchors first
    entering: np.ndarray  # (s,) rates of those that are out
    probabilities: np.ndarray  # (s,) p_i
    leaving: np.ndarray  # (p,) rates of the variables of the model, in their order
    # (1,) int64: 1 where rates are relative to the largest of them, which is above e^600: no time is spent in the model
    steep: np.ndarray
    columns: np.ndarray  # (block,) int64: columns of X that are being looked at
    kept: np.ndarray  # (KEPT_ROWS, a) Z of the anchors, for the chain whose turn it is
    # Where there is a surrogate, what was learnt from attempts to flip variables of the current model, by chain: which variables,
    # log w'/w and the true p_j. Only the last MOST_ATTEMPTS are remembered
    attempted: np.ndarray  # (chains, MOST_ATTEMPTS) int64
    attempts: np.ndarray  # (chains,) int64: how many there were
    log_thinning: np.ndarray  # (chains, MOST_ATTEMPTS)
    true: np.ndarray  # (chains, MOST_ATTEMPTS)
    # in warm-up, by variable: the holding time while it was in S, and that times p_j
    seen: np.ndarray  # (p,)
    scores: np.ndarray  # (p,)


def new_subset(target: Target, chains: int, n_anchors: int, size: int, block: int) -> Subset:
    """Arrays for so many chains and anchors; ``set_anchors`` says which variables are anchors."""
    p = len(target.design.offsets) - 1
    return Subset(
        anchors=np.zeros(n_anchors, np.int64),
        is_anchor=np.zeros(p, np.bool_),
        others=np.zeros(p - n_anchors, np.int32),
        drawn=np.zeros((chains, size - n_anchors), np.int64),
        members=np.zeros(size, np.int64),
        entering=np.zeros(size),
        probabilities=np.zeros(size),
        leaving=np.zeros(p),
        steep=np.zeros(1, np.int64),
        columns=np.zeros(block, np.int64),
        kept=np.zeros((KEPT_ROWS, n_anchors)),
        attempted=np.zeros((chains, MOST_ATTEMPTS), np.int64),
        attempts=np.zeros(chains, np.int64),
        log_thinning=np.zeros((chains, MOST_ATTEMPTS)),
        true=np.zeros((chains, MOST_ATTEMPTS)),
        seen=np.zeros(p),
        scores=np.zeros(p),
    )


def set_anchors(subset: Subset, anchors: np.ndarray, rng: np.random.Generator) -> None:
    """Set the anchors and draw a new S for every chain. The caller must set ``SCANNED`` of the chains to 0."""
    subset.anchors[:] = np.sort(anchors)
    subset.is_anchor[:] = False
    subset.is_anchor[anchors] = True
    subset.others[:] = np.flatnonzero(~subset.is_anchor)
    for row in subset.drawn:
        row[:] = rng.choice(subset.others, size=len(row), replace=False)


@inlined
def draw_subset(subset, c, containing, rng):
    """A new S for chain c, drawn uniformly; among those that contain a variable where `containing` is ≥ 0.

    A shuffle that stops early is right from whatever order the last one left. A variable that must be there but
    is not takes the place of the first, which is any of them with equal chance.
    """
    others, drawn = subset.others, subset.drawn
    n = others.shape[0]
    missing = containing >= 0
    for t in range(drawn.shape[1]):
        u = t + np.int64(rng.random() * (n - t))
        others[t], others[u] = others[u], others[t]
        drawn[c, t] = others[t]
        missing = missing and others[t] != containing
    if missing:
        drawn[c, 0] = containing


@entry
def subset_rates_of(target, chain, work, subset, c, kappa):
    """``find_subset_rates`` for Python."""
    return find_subset_rates(target, chain, work, subset, c, kappa)


@kernel
def find_subset_rates(target, chain, work, subset, c, kappa):
    """Fill `members`, `entering`, `probabilities` and `leaving` for chain c. Returns 0; or, if nothing was done, the number
    of columns for which `work` and `target` must be made."""
    members, entering, probabilities = subset.members, subset.entering, subset.probabilities
    a, s = subset.anchors.shape[0], members.shape[0]
    for m in range(a):
        members[m] = subset.anchors[m]
    for m in range(a, s):
        members[m] = subset.drawn[c, m - a]
    needed = _scan_subset(target, chain, work, subset)
    if needed > 0:
        return needed
    steep = False
    for q in range(chain.ints[SIZE]):
        log_odds = work.log_odds[chain.order[q]]
        x = odds_of(log_odds)
        subset.leaving[q] = 0.0 if x == np.inf else 1.0 + kappa * (1.0 + 1.0 / x)
        steep = steep or -np.inf < log_odds < -LARGEST_LOG_ODDS
    share = subset.others.shape[0] / (s - a)
    for m in range(s):
        log_odds = work.log_odds[members[m]]
        x = odds_of(log_odds)
        entering[m] = 0.0
        if chain.position[members[m]] >= 0:
            probabilities[m] = 1.0 / (1.0 + 1.0 / x)
        else:
            probabilities[m] = x / (1.0 + x)
            if x > 0.0:
                entering[m] = (x + kappa * (1.0 + x)) * (1.0 if m < a else share)
                steep = steep or log_odds > LARGEST_LOG_ODDS
    subset.steep[0] = 1 if steep else 0
    if target.slab.surrogate and subset.attempts[c] > 0:
        _thin_rates(chain, work, subset, c, kappa, share)
    elif steep:
        _scale_rates(chain, work, subset, kappa, share)
    return 0


@kernel
def _scale_rates(chain, work, subset, kappa, share):
    """Divide the rates by the largest of them, which is too large a number."""
    _fill_log_rates(chain, work, subset, kappa, share)
    _exponentiate(chain, subset, _largest_log_rate(chain, subset))


@kernel
def _fill_log_rates(chain, work, subset, kappa, share):
    """The logarithms of all rates, in the places of the rates."""
    members, entering = subset.members, subset.entering
    for q in range(chain.ints[SIZE]):
        subset.leaving[q] = log_rate(work.log_odds[chain.order[q]], kappa, True)
    for m in range(members.shape[0]):
        entering[m] = -np.inf
        if chain.position[members[m]] < 0:
            entering[m] = log_rate(work.log_odds[members[m]], kappa, False)
            entering[m] += 0.0 if m < subset.anchors.shape[0] else math.log(share)


@kernel
def _largest_log_rate(chain, subset):
    largest = -np.inf
    for q in range(chain.ints[SIZE]):
        largest = max(largest, subset.leaving[q])
    for m in range(subset.members.shape[0]):
        largest = max(largest, subset.entering[m])
    return largest


@kernel
def _exponentiate(chain, subset, scale):
    """From logarithms to rates, divided by e^scale."""
    for q in range(chain.ints[SIZE]):
        subset.leaving[q] = math.exp(subset.leaving[q] - scale)
    for m in range(subset.members.shape[0]):
        subset.entering[m] = math.exp(subset.entering[m] - scale)


@kernel
def _thin_rates(chain, work, subset, c, kappa, share):
    """Thin the rates of the flips that were attempted from this model, and put in the true probabilities: see ``thinning.py``."""
    members, entering, leaving = subset.members, subset.entering, subset.leaving
    _fill_log_rates(chain, work, subset, kappa, share)
    for i in range(min(subset.attempts[c], MOST_ATTEMPTS)):
        j = subset.attempted[c, i]
        for m in range(members.shape[0]):
            if members[m] == j:
                subset.probabilities[m] = subset.true[c, i]
                entering[m] += min(subset.log_thinning[c, i], 0.0)
        if chain.position[j] >= 0:
            leaving[chain.position[j]] += min(subset.log_thinning[c, i], 0.0)
    largest = _largest_log_rate(chain, subset)
    subset.steep[0] = 1 if largest > LARGEST_LOG_ODDS else 0
    _exponentiate(chain, subset, largest if subset.steep[0] > 0 else 0.0)


@kernel
def find_attempt(subset, c, j):
    """Where chain c remembers an attempt to flip j from its model, or −1."""
    for i in range(min(subset.attempts[c], MOST_ATTEMPTS)):
        if subset.attempted[c, i] == j:
            return i
    return -1


@kernel
def sum_of(values, n):
    total = 0.0
    for i in range(n):
        total += values[i]
    return total


@kernel
def choose_among(rates, n, u):
    """The place at which the running sum of the first n rates passes u. Where rounding carries u past them all, it is the
    last rate that is not 0; where all are 0, it is −1."""
    last_positive = -1
    for m in range(n):
        if rates[m] > 0.0:
            last_positive = m
            if u < rates[m]:
                return m
            u -= rates[m]
    return last_positive


@kernel
def _scan_subset(target, chain, work, subset):
    """Fill ``work.log_odds`` for the variables of the model and of S, as ``scan`` does."""
    ints, prior, members = chain.ints, target.prior, subset.members
    size, k = ints[SIZE], ints[COLUMNS]
    needed = columns_needed(target, chain, work)
    if needed > 0:
        return needed
    most_inflation = GOOD_ENOUGH if target.slab.nu <= LARGEST_POWER else WELL_CONDITIONED
    if scan_included(target, chain, work, 1.0, most_inflation):
        begin = 0
        if work.widest == 1 and k <= subset.kept.shape[0]:
            known = chain.row[ints[SCANNED]]
            begin = subset.anchors.shape[0]
            _additions_of(target, chain, work, subset, subset.kept, 0, begin, known, True)
            ints[SCANNED] = size
        else:
            ints[SCANNED] = 0
        _additions_of(target, chain, work, subset, work.z, begin, members.shape[0], 0, False)
    else:
        for m in range(members.shape[0]):
            if chain.position[members[m]] < 0:
                work.log_odds[members[m]] = -np.inf
    if prior.links.shape[0] > 0:
        for q in range(size):
            add_heredity_of(prior, chain.position, size, ints[AVAILABLE], work.log_odds, chain.order[q])
        for m in range(members.shape[0]):
            if chain.position[members[m]] < 0:
                add_heredity_of(prior, chain.position, size, ints[AVAILABLE], work.log_odds, members[m])
    return 0


@kernel
def _additions_of(target, chain, work, subset, z, begin, end, known, keeps):
    """The log odds of those of members begin … end − 1 that are out. If `keeps`, `z` has a column for each of them, whose
    first `known` rows are current; else `z` is ``work.z`` and is filled again for each block."""
    size, k = chain.ints[SIZE], chain.ints[COLUMNS]
    slab, prior, offsets = target.slab, target.prior, target.design.offsets
    members, columns, pivots, residuals = subset.members, subset.columns, work.pivot, work.residual
    explained, half, log_determinant = sums_of_model(slab, chain)
    current = scanned_value(target, chain)
    start = -half - log_determinant - current
    safe = safe_pivot(log_determinant)
    m = begin
    while m < end:
        # 1. a block of variables: all their columns, those in the model too, which have no pivot
        first = m
        n = 0
        while m < end and n + offsets[members[m] + 1] - offsets[members[m]] <= pivots.shape[0]:
            for column in range(offsets[members[m]], offsets[members[m] + 1]):
                columns[n] = column
                n += 1
            m += 1
        at = first - begin if keeps else 0
        _solve_columns(target, chain, work, z, columns, n, at, known)
        residuals_left(work, n, explained, slab)
        # 2. each of them
        i = np.int64(0)  # where its columns begin in the block; a literal 0 compiles scan_group once more
        for q in range(first, m):
            j = members[q]
            column = offsets[j]
            width = offsets[j + 1] - column
            difference = -np.inf
            if chain.position[j] >= 0:
                i += width
                continue
            if width > 1:
                if k + width <= slab.max_columns:
                    value = scan_group(target, chain, work, column, width, i, i, explained, half)
                    difference = value - current
            elif pivot_is_sound(slab, column, pivots[i]):
                if slab.code == INDEPENDENT:
                    difference = one_column_more(slab, start, column, pivots[i], residuals[i])
                elif pivots[i] >= safe or _stays_full_rank(work, z, k, at + i, pivots[i], keeps):
                    difference = log_marginal_at(slab, k + 1, residuals[i], 0.0, 0.0) - current
            work.log_odds[j] = flip_log_odds(prior, j, size, 1.0, difference)
            i += width


@kernel
def _stays_full_rank(work, z, k, at, pivot, keeps):
    """``has_full_rank`` for one column, whose Z is column `at` of `z`."""
    work.inverse[0] = 1.0 / math.sqrt(pivot)
    if keeps:  # then ``work.z`` is free
        for r in range(k):
            work.z[r, 0] = z[r, at]
        at = 0
    return has_full_rank(work, k, 1, at)


@inlined
def _solve_columns(target, chain, work, z, columns, n, at, known):
    """Z from its column `at` on, pivots and right-hand sides of the first n `columns`; `known` rows of Z are
    current."""
    design, k = target.design, chain.ints[COLUMNS]
    pivot, right = work.pivot, work.right
    diagonal, ridge, xty = design.diagonal, target.slab.ridge, design.xty
    for i in range(n):
        column = columns[i]
        pivot[i] = diagonal[column] + ridge[column]
        right[i] = xty[column]
        for r in range(known, k):
            z[r, at + i] = product(design, chain.gram_cache, column, chain.column[r])
    solve_rows(chain, z, known, at, n, pivot, right)
