"""All one-flip log odds at once: for every variable, the log of p(y|γ) p(γ) with it over that without it.

With L the chain's factor of its k columns and Z = L⁻¹X_γᵀX, a column c that is out has the squared pivot
d_c = x_cᵀx_c + 1/g_c − ‖Z_c‖² and explains (x_cᵀy − Z_cᵀL⁻¹X_γᵀy)²/d_c more of yᵀy. Z is computed a row at a
time, so that the inner loops run along columns of X and vectorise. Without variable j, the rows of the factor
before it stay as they are and those after it are the factor of a Schur complement, which is updated from one
j to the next.

Every pivot and every residual is formed by the operations of ``factor.factor_proposal`` in their order: the two agree
to the rounding of a few logs however near to singular a model is, and on which models have no mass.

Z is kept between scans of a chain: rows of variables that have not moved since the last one stay as they
are, so a scan after one flip costs little more than the rows behind it. They are the rows that a scan from
scratch would give, bit for bit: nothing drifts, and nothing needs a refresh. ``SCANNED`` of the chain says how
many are current; it must be set to 0 when a chain gets another ``Scan`` to work with.

Cost from scratch: P·k²/2 + k⁴/24 products; in the column engine also P·k dot products. Memory beside the
data: k·P; where that would be more than `kept_bytes`, O(P), and every scan is from scratch.
"""

import math

import numpy as np

from whichvars._kernels.chain import (
    AVAILABLE,
    BREAKDOWNS,
    COLUMNS,
    EVALUATIONS,
    INVERSE_TEMPERATURE,
    NO_TAIL,
    PERFECT,
    SCANNED,
    SIZE,
    TAIL,
    change,
    clear,
    scanned_value,
)
from whichvars._kernels.evidence import (
    INDEPENDENT,
    MIXTURE,
    SMALLEST_TOLERANCE,
    bounded_residual,
    log_marginal,
    log_marginal_at,
)
from whichvars._kernels.factor import extend_head, factor_proposal, pivot_is_sound
from whichvars._kernels.jit import entry, inlined, kernel, routine
from whichvars._kernels.linalg import append, sum_log
from whichvars._kernels.prior import add_heredity
from whichvars._kernels.scan.additions import additions
from whichvars._kernels.scan.scan_work import (
    LARGEST_LOG_ODDS,
    LARGEST_POWER,
    flip_log_odds,
    odds_of,
    sums_of_model,
)

WELL_CONDITIONED = 1e3  # variance inflation up to which a deletion is read off the inverse
CLOSE_FIT = 1e-4  # 1 − R² below which it never is
# WELL_CONDITIONED for odds, with ν up to LARGEST_POWER: the rates made of them may be wrong by one part in 10⁸
GOOD_ENOUGH = 1e6


@entry
def scan_model(target, chain, work):
    """``scan`` for Python."""
    return scan(target, chain, work)


@entry
def tempered_scan_model(target, chain, work):
    """``tempered_scan`` for Python."""
    return tempered_scan(target, chain, work)


@inlined
def scan(target, chain, work):
    """Fill ``work.log_odds``: for every j the log of p(y|γ) p(γ) with j over that without j, the other
    variables as in the chain.

    −inf where the model with j has no mass (size, number of columns, rank, heredity); +inf where heredity, or
    rounding, takes it from the one without j. A proposal on its way is dropped; counters stay as they are.

    Returns 0; or, with nothing done, for how many columns `work` and `target` (its table of mixtures) must be
    made.
    """
    return _scan(target, chain, work, 1.0, bool(0))  # a literal False would compile it once more


@inlined
def tempered_scan(target, chain, work):
    """The same for p(y|γ)^t p(γ), t the inverse temperature of the chain."""
    return _scan(target, chain, work, chain.floats[INVERSE_TEMPERATURE], bool(0))


@routine
def scan_odds(target, chain, work):
    """Like ``scan``, but fill ``work.odds``. Each is between e^−600 and e^600, or 0, or infinite. ``work.log_odds`` cannot be
    used afterwards. Under the independent slab this takes few logarithms, and odds have eight correct digits.

    Where a variable that is out has log odds above 600, or one that is in has log odds below −600, ``work.steep`` is 1 and
    ``work.log_odds`` is filled for all variables instead: odds at their bound cannot be told from one another.
    """
    prior = target.prior
    fast = (
        target.slab.code == INDEPENDENT
        and work.widest == 1
        and work.multiplies
        and prior.links.shape[0] == 0
        and target.slab.nu <= LARGEST_POWER
        and target.slab.nu == math.floor(target.slab.nu)
    )
    work.steep[0] = 0
    needed = _scan(target, chain, work, 1.0, fast)
    if needed > 0:
        return needed
    if not fast:
        for j in range(work.odds.shape[0]):
            work.odds[j] = odds_of(work.log_odds[j])
            if LARGEST_LOG_ODDS < work.log_odds[j] < np.inf and chain.position[j] < 0:
                work.steep[0] = 1
    for i in range(chain.ints[SIZE]):
        j = chain.order[i]
        work.odds[j] = odds_of(work.log_odds[j])
        if -np.inf < work.log_odds[j] < -LARGEST_LOG_ODDS:
            work.steep[0] = 1
    if fast and work.steep[0] > 0:
        return _scan(target, chain, work, 1.0, bool(0))  # rows of Z are kept: this is the cheaper half
    return 0


@routine
def _scan(target, chain, work, t, as_odds):
    ints, prior, offsets = chain.ints, target.prior, target.design.offsets
    p = offsets.shape[0] - 1
    needed = columns_needed(target, chain, work)
    if needed > 0:
        return needed
    if scan_included(target, chain, work, t, GOOD_ENOUGH if as_odds else WELL_CONDITIONED):
        additions(target, chain, work, t, as_odds)
        ints[SCANNED] = ints[SIZE] if work.z.shape[1] >= offsets[p] else 0
    else:
        for j in range(p):
            if chain.position[j] < 0:
                work.log_odds[j] = -np.inf
                work.odds[j] = 0.0
    if prior.links.shape[0] > 0:
        add_heredity(prior, chain.position, ints[SIZE], ints[AVAILABLE], work.log_odds)
    return 0


# --- what every scan begins with


@inlined
def columns_needed(target, chain, work):
    """For how many columns `work` and `target` must be made before the chain's model can be scanned; 0 if they are
    large enough."""
    slab, k = target.slab, chain.ints[COLUMNS]
    most = min(k + work.widest, slab.max_columns)
    if k > work.z.shape[0] or (slab.code == MIXTURE and most >= slab.table.shape[0]):
        return k + work.widest
    return 0


@inlined
def scan_included(target, chain, work, t, most_inflation):
    """Drop a waiting proposal and fill ``work.log_odds`` of the variables in the model; see ``_scan_deletions`` for
    `most_inflation`. Returns whether other variables can be added: the model has not reached its largest size, and its
    factor is sound. The chain's counters stay as they are."""
    ints = chain.ints
    evaluations, perfect, breakdowns = ints[EVALUATIONS], ints[PERFECT], ints[BREAKDOWNS]
    clear(chain)
    ints[TAIL] = NO_TAIL
    sound = extend_head(target, chain, ints[SIZE])
    _scan_deletions(target, chain, work, t, most_inflation, sound)
    ints[EVALUATIONS], ints[PERFECT], ints[BREAKDOWNS] = evaluations, perfect, breakdowns
    return sound and ints[SIZE] < target.prior.max_size and ints[COLUMNS] < target.slab.max_columns


@kernel
def _invert(factor, inverse_pivot, n, out, squares):
    """Columns of L⁻¹ as rows of `out`, their squared lengths, and 1 / the largest of these; as in
    ``smallest_tolerance``."""
    largest = 1.0
    for j in range(n):
        for r in range(j, n):
            out[j, r] = 0.0
        out[j, j] = 1.0
        total = 0.0
        for t in range(j, n):
            x = out[j, t] * inverse_pivot[t]
            out[j, t] = x
            total += x * x
            for r in range(t + 1, n):
                out[j, r] -= x * factor[r, t]
        squares[j] = total
        largest = max(largest, total)
    return 1.0 / largest


# --- variables in the model


@inlined
def _scan_deletions(target, chain, work, t, most_inflation, sound):
    """The log odds of the variables in the model, by the quickest of three ways that is accurate. They are read off the
    inverse where no variance inflation is above `most_inflation`. `sound` says whether the chain's head could be extended
    to all of the model: rounding may allow a model in one order of its columns and not in another."""
    slab, k = target.slab, chain.ints[COLUMNS]
    if not sound:
        _deletions_one_by_one(target, chain, work, t)
        return
    smallest = _invert(chain.head, chain.head_inverse, k, work.inverse_factor, work.squares)
    inflation = 0.0
    unexplained = slab.s_null
    for i in range(k):
        column = chain.column[i]
        unexplained -= chain.head_solved[i] * chain.head_solved[i]
        inflation = max(inflation, work.squares[i] * (target.design.diagonal[column] + slab.ridge[column]))
    if unexplained < CLOSE_FIT * slab.s_null:  # what is left of y is itself known to few digits
        inflation = np.inf
    if work.widest == 1 and inflation < most_inflation:
        _deletions_by_inverse(target, chain, work, t)
    elif slab.code == INDEPENDENT or smallest >= 2.0 * SMALLEST_TOLERANCE:
        # no model inside this one can be deficient
        _deletions_by_schur(target, chain, work, t)
    else:
        _deletions_one_by_one(target, chain, work, t)


@kernel
def _deletions_one_by_one(target, chain, work, t):
    size = chain.ints[SIZE]
    current = scanned_value(target, chain)
    for q in range(size):
        j = chain.order[q]
        clear(chain)
        change(target, chain, j)
        value = factor_proposal(target, chain)
        work.log_odds[j] = flip_log_odds(target.prior, j, size - 1, t, current - value)
    clear(chain)
    chain.ints[TAIL] = NO_TAIL


@inlined
def _deletions_by_inverse(target, chain, work, t):
    """With F = A⁻¹ and b = F X_γᵀy, deleting column j adds b_j²/F_jj to the residual sum of squares and takes F_jj
    from 1/det A. Loses as many digits as the columns are collinear."""
    size, k = chain.ints[SIZE], chain.ints[COLUMNS]
    slab, prior = target.slab, target.prior
    inverse_factor, squares, solved = work.inverse_factor, work.squares, chain.head_solved
    explained, half, log_determinant = sums_of_model(slab, chain)
    residual = 1.0 - explained / slab.s_null
    current = scanned_value(target, chain)
    for i in range(k):
        b = 0.0
        for r in range(i, k):
            b += inverse_factor[i, r] * solved[r]
        less = bounded_residual(residual + b * b / squares[i] / slab.s_null)
        without = half - slab.half_log_g[chain.column[i]]
        value = log_marginal_at(slab, k - 1, less, without, log_determinant + 0.5 * math.log(squares[i]))
        j = chain.order[i]
        work.log_odds[j] = flip_log_odds(prior, j, size - 1, t, current - value)


@inlined
def _deletions_by_schur(target, chain, work, t):
    size, k = chain.ints[SIZE], chain.ints[COLUMNS]
    current = scanned_value(target, chain)
    design, slab = target.design, target.slab
    columns, slots, rows, products = chain.column, chain.slot, chain.row, chain.products
    head, head_inverse, head_solved = chain.head, chain.head_inverse, chain.head_solved
    schur, schur_pivot, schur_right = work.schur, work.schur_pivot, work.schur_right
    factor, inverse, solved, vector = work.factor, work.inverse, work.solved, work.vector
    half_log_g = slab.half_log_g
    for i in range(k):
        schur_pivot[i] = design.diagonal[columns[i]] + slab.ridge[columns[i]]
        schur_right[i] = design.xty[columns[i]]
        for r in range(i):
            schur[i, r] = products[slots[i], slots[r]]
    explained_before = 0.0
    half_before = 0.0
    done = 0
    for q in range(size):
        j = chain.order[q]
        first, last = rows[q], rows[q + 1]
        # 1. the Schur complement given the rows before j
        for s in range(done, first):
            explained_before += head_solved[s] * head_solved[s]
            half_before += half_log_g[columns[s]]
            for i in range(last, k):
                x = head[i, s]
                schur_pivot[i] -= x * x
                schur_right[i] -= x * head_solved[s]
                for r in range(last, i):
                    schur[i, r] -= x * head[r, s]
        done = first
        # 2. its factor without the rows of j
        explained, half = explained_before, half_before
        sound = True
        for i in range(last, k):
            n = i - last
            for r in range(n):
                vector[r] = schur[i, last + r]
            pivot = append(
                factor, inverse, solved, n, factor, inverse, solved, n, vector, schur_pivot[i], schur_right[i]
            )
            if not pivot_is_sound(slab, columns[i], pivot):
                sound = False
                break
            explained += solved[n] * solved[n]
            half += half_log_g[columns[i]]
        # 3. the log marginal likelihood
        value = -np.inf
        if sound:
            log_determinant = -sum_log(head_inverse, 0, first) - sum_log(inverse, 0, k - last)
            value = log_marginal(slab, k - (last - first), explained, half, log_determinant)
        work.log_odds[j] = flip_log_odds(target.prior, j, size - 1, t, current - value)
