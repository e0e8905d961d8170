"""All one-flip log odds at once: for every variable, the log of p(y|γ) p(γ) with it over that without it.

With L the chain's factor of its k columns and Z = L⁻¹X_γᵀX, a column c that is out has the squared pivot
d_c = x_cᵀx_c + 1/g_c − ‖Z_c‖² and explains (x_cᵀy − Z_cᵀL⁻¹X_γᵀy)²/d_c more of yᵀy. Z is computed a row at a
time, so that the inner loops run along columns of X and vectorise. Without variable j, the rows of the factor
before it stay as they are and those after it are the factor of a Schur complement, which is updated from one
j to the next.

Every pivot and every residual is formed by the operations of ``chain.evaluate`` in their order: the two agree
to the rounding of a few logs however near to singular a model is, and on which models have no mass.

Z is kept between scans of a chain: rows of variables that have not moved since the last one stay as they
are, so a scan after one flip costs little more than the rows behind it. They are the rows that a scan from
scratch would give, bit for bit: nothing drifts, and nothing needs a refresh. ``SCANNED`` of the chain says how
many are current; whoever gives a chain other room to work sets it to 0.

Cost from scratch: P·k²/2 + k⁴/24 products; in the column engine also P·k dot products. Memory beside the
data: k·P; where that would be more than `kept_bytes`, O(P), and every scan is from scratch.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.chain import (
    AVAILABLE,
    BREAKDOWNS,
    COLUMNS,
    EVALUATIONS,
    INVERSE_TEMPERATURE,
    LOG_MARGINAL,
    PERFECT,
    SCANNED,
    SIZE,
    TAIL,
    _extend_head,
    _factor_proposal,
    _pivot_is_sound,
    change,
    clear,
)
from whichvars._kernels.gram_cache import block_products, product
from whichvars._kernels.jit import entry, inlined, kernel
from whichvars._kernels.linalg import append, smallest_tolerance, sum_log
from whichvars._kernels.marginal import SMALLEST_RESIDUAL, SMALLEST_TOLERANCE, log_marginal
from whichvars._kernels.size_prior import add_heredity, log_flip_odds
from whichvars._kernels.target import INDEPENDENT, MIXTURE, Target

BLOCK = 256  # columns at a time: k rows of Z for them stay in the processor's first cache
STEEPEST = 600.0  # bound of the log of finite odds
WELL_CONDITIONED = 1e3  # variance inflation up to which a deletion is read off the inverse
CLOSE_FIT = 1e-4  # 1 − R² below which it is not
GOOD_ENOUGH = 1e6  # the same for odds: the rates made of them may be off by one in 10⁸
LARGEST_POWER = 4096  # ν up to which (S⁺/S)^ν is a product: one log a variable instead of two


class Scan(NamedTuple):
    """The answer, `log_odds` or `odds`, and room to work for models of up to `capacity` columns."""

    log_odds: np.ndarray  # (p,)
    odds: np.ndarray  # (p,): filled by ``scan_odds`` only
    weight: np.ndarray  # (p,) e^(log prior odds)/√g: what the odds of a variable of one column have in common
    widest: int  # columns of the widest variable
    z: np.ndarray  # (capacity, P) Z; (capacity, block) of it where it is not kept
    pivot: np.ndarray  # (block,) d_c
    right: np.ndarray  # (block,) x_cᵀy − Z_cᵀL⁻¹X_γᵀy
    residual: np.ndarray  # (block,) S/S₀ with column c in, within its bounds
    power: np.ndarray  # (block,) (S⁺/S)^ν
    largest: np.ndarray  # (block,) max_j (A⁻¹)_jj with column c in, for the R² family
    scratch: np.ndarray  # (block,)
    lanes: np.ndarray  # (8, block)
    inverse_factor: np.ndarray  # (capacity, capacity): row i is column i of L⁻¹
    squares: np.ndarray  # (capacity,) its squared length
    schur: np.ndarray  # (capacity, capacity): products of columns given those before a variable
    schur_pivot: np.ndarray  # (capacity,)
    schur_right: np.ndarray  # (capacity,)
    # a small factor: of the columns behind a variable that leaves, or of those of one that enters
    factor: np.ndarray
    inverse: np.ndarray
    solved: np.ndarray
    vector: np.ndarray


def new_scan(target: Target, capacity: int, kept_bytes: int = 64 << 20) -> Scan:
    """Room for scans at models of up to `capacity` columns."""
    design = target.design
    widest = int(np.diff(design.offsets).max())
    n_columns = int(design.offsets[-1])
    capacity = max(capacity, 1)
    most = max(capacity, widest)
    block = min(max(BLOCK, widest), n_columns)
    kept = n_columns if 8 * capacity * n_columns <= kept_bytes else block
    if kept % 512 == 0:
        kept += 8  # rows a multiple of 4 kB apart would compete for the same cache lines
    return Scan(
        log_odds=np.zeros(len(design.offsets) - 1),
        odds=np.zeros(len(design.offsets) - 1),
        weight=np.exp(target.prior.log_odds - target.slab.half_log_g[design.offsets[:-1]]),
        widest=widest,
        z=np.zeros((capacity, kept)),
        **{name: np.zeros(block) for name in ("pivot", "right", "residual", "power", "largest", "scratch")},
        lanes=np.zeros((8, block)),
        **{name: np.zeros((capacity, capacity)) for name in ("inverse_factor", "schur")},
        **{name: np.zeros(capacity) for name in ("squares", "schur_pivot", "schur_right")},
        factor=np.zeros((most, most)),
        **{name: np.zeros(most) for name in ("inverse", "solved", "vector")},
    )


def no_scan() -> Scan:
    """Of the same type, with no room."""
    matrices = ("z", "lanes", "inverse_factor", "schur", "factor")
    arrays = {name: np.zeros((0, 0) if name in matrices else 0) for name in Scan._fields if name != "widest"}
    return Scan(widest=1, **arrays)


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
    return _scan(target, chain, work, 1.0, False)


@inlined
def tempered_scan(target, chain, work):
    """The same for p(y|γ)^t p(γ), t the inverse temperature of the chain."""
    return _scan(target, chain, work, chain.floats[INVERSE_TEMPERATURE], False)


@kernel
def scan_odds(target, chain, work):
    """Like ``scan``, but fill ``work.odds``, between e^−600 and e^600 or 0 or infinite; ``work.log_odds`` is good
    for nothing afterwards. Under the independent slab this takes few logarithms, and odds are good to eight digits."""
    prior = target.prior
    fast = (
        target.slab.code == INDEPENDENT
        and work.widest == 1
        and prior.links.shape[0] == 0
        and target.slab.nu <= LARGEST_POWER
        and target.slab.nu == math.floor(target.slab.nu)
    )
    needed = _scan(target, chain, work, 1.0, fast)
    if needed > 0:
        return needed
    for i in range(chain.ints[SIZE]):
        j = chain.order[i]
        work.odds[j] = odds_of(work.log_odds[j])
    if not fast:
        for j in range(work.odds.shape[0]):
            work.odds[j] = odds_of(work.log_odds[j])
    return 0


@kernel
def odds_of(log_odds):
    """exp(log_odds) where that is finite and not 0, else its nearest bound; 0 and infinity stay."""
    if log_odds == np.inf or log_odds == -np.inf:
        return math.exp(log_odds)
    return math.exp(min(max(log_odds, -STEEPEST), STEEPEST))


@kernel
def _scan(target, chain, work, t, as_odds):
    ints, slab, prior, offsets = chain.ints, target.slab, target.prior, target.design.offsets
    size, k = ints[SIZE], ints[COLUMNS]
    p = offsets.shape[0] - 1
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
        unexplained = slab.s_null
        for i in range(k):
            column = chain.column[i]
            unexplained -= chain.head_solved[i] * chain.head_solved[i]
            inflation = max(
                inflation, work.squares[i] * (target.design.diagonal[column] + slab.ridge[column])
            )
        if unexplained < CLOSE_FIT * slab.s_null:  # what is left of y is itself known to few digits
            inflation = np.inf
        if work.widest == 1 and inflation < (GOOD_ENOUGH if as_odds else WELL_CONDITIONED):
            _deletions_by_inverse(target, chain, work, t)
        elif slab.code == INDEPENDENT or smallest >= 2.0 * SMALLEST_TOLERANCE:
            # no model inside this one can be deficient
            _deletions(target, chain, work, t)
        else:
            _deletions_one_by_one(target, chain, work, t)
        if size < prior.max_size and k < slab.max_columns:
            _additions(target, chain, work, t, as_odds)
            ints[SCANNED] = size if work.z.shape[1] >= offsets[p] else 0
    else:  # rounding allowed this model in one order of its columns and not in this one
        _deletions_one_by_one(target, chain, work, t)
    if not (sound and size < prior.max_size and k < slab.max_columns):
        for j in range(p):
            if chain.position[j] < 0:
                work.log_odds[j] = -np.inf
                work.odds[j] = 0.0
    if prior.links.shape[0] > 0:
        add_heredity(prior, chain.position, size, ints[AVAILABLE], work.log_odds)
    ints[EVALUATIONS], ints[PERFECT], ints[BREAKDOWNS] = evaluations, perfect, breakdowns
    return 0


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


@kernel
def _bounded(residual):
    if residual < SMALLEST_RESIDUAL:
        return SMALLEST_RESIDUAL
    if residual > 1.0:
        return 1.0
    return residual


@kernel
def _log_odds(prior, j, size_without, t, difference):
    """t · difference + the log prior odds; an infinite difference is one at every t."""
    odds = log_flip_odds(prior, j, size_without)
    if odds == -np.inf or difference == -np.inf:
        return -np.inf
    if difference == np.inf:
        return np.inf
    return t * difference + odds


# --- variables in the model


@kernel
def _deletions_one_by_one(target, chain, work, t):
    size = chain.ints[SIZE]
    for q in range(size):
        j = chain.order[q]
        clear(chain)
        change(target, chain, j)
        value = _factor_proposal(target, chain)
        work.log_odds[j] = _log_odds(target.prior, j, size - 1, t, chain.floats[LOG_MARGINAL] - value)
    clear(chain)
    chain.ints[TAIL] = -1


@inlined
def _deletions_by_inverse(target, chain, work, t):
    """With F = A⁻¹ and b = F X_γᵀy, deleting column j adds b_j²/F_jj to the residual sum of squares and takes F_jj
    from 1/det A. Loses as many digits as the columns are collinear."""
    size, k = chain.ints[SIZE], chain.ints[COLUMNS]
    slab, prior = target.slab, target.prior
    inverse_factor, squares, solved = work.inverse_factor, work.squares, chain.head_solved
    explained = 0.0
    half = 0.0
    for r in range(k):
        explained += solved[r] * solved[r]
        half += slab.half_log_g[chain.column[r]]
    log_determinant = -sum_log(chain.head_inverse, 0, k)
    residual = 1.0 - explained / slab.s_null
    current = chain.floats[LOG_MARGINAL]
    for i in range(k):
        b = 0.0
        for r in range(i, k):
            b += inverse_factor[i, r] * solved[r]
        less = _bounded(residual + b * b / squares[i] / slab.s_null)
        without = half - slab.half_log_g[chain.column[i]]
        value = log_marginal(slab, k - 1, less, without, log_determinant + 0.5 * math.log(squares[i]))
        j = chain.order[i]
        work.log_odds[j] = _log_odds(prior, j, size - 1, t, current - value)


@inlined
def _deletions(target, chain, work, t):
    size, k = chain.ints[SIZE], chain.ints[COLUMNS]
    current = chain.floats[LOG_MARGINAL]
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
            if not _pivot_is_sound(slab, columns[i], pivot):
                sound = False
                break
            explained += solved[n] * solved[n]
            half += half_log_g[columns[i]]
        # 3. the log marginal likelihood
        value = -np.inf
        if sound:
            log_determinant = -sum_log(head_inverse, 0, first) - sum_log(inverse, 0, k - last)
            residual = _bounded(1.0 - explained / slab.s_null)
            value = log_marginal(slab, k - (last - first), residual, half, log_determinant)
        work.log_odds[j] = _log_odds(target.prior, j, size - 1, t, current - value)


# --- variables outside the model


@inlined
def _additions(target, chain, work, t, as_odds):
    size, k = chain.ints[SIZE], chain.ints[COLUMNS]
    slab, prior, offsets = target.slab, target.prior, target.design.offsets
    position, log_odds = chain.position, work.log_odds
    pivots, residuals, powers = work.pivot, work.residual, work.power
    half_log_g, ridge = slab.half_log_g, slab.ridge
    p = offsets.shape[0] - 1
    # what the current factor gives
    explained = 0.0
    half = 0.0
    for r in range(k):
        explained += chain.head_solved[r] * chain.head_solved[r]
        half += half_log_g[chain.column[r]]
    log_determinant = -sum_log(chain.head_inverse, 0, k)
    residual = _bounded(1.0 - explained / slab.s_null)
    current = chain.floats[LOG_MARGINAL]
    nu = slab.nu
    independent = slab.code == INDEPENDENT
    by_product = independent and nu <= LARGEST_POWER and nu == math.floor(nu)
    start = -half - log_determinant - current
    together = start - 0.5 * nu * math.log(residual)
    log_common = together + prior.log_size[size + 1] - prior.log_size[size]
    to_odds, as_odds = as_odds, as_odds and abs(log_common) < STEEPEST / 3
    # a pivot above this leaves the determinant, hence every tolerance, above the smallest
    safe = SMALLEST_TOLERANCE * math.exp(min(-2.0 * log_determinant, 700.0))
    whole = work.z.shape[1] >= offsets[p]
    current_rows = chain.row[chain.ints[SCANNED]] if whole else 0
    j = 0
    while j < p:
        # 1. a block of variables
        first = offsets[j]
        end = j + 1
        while end < p and offsets[end + 1] - first <= pivots.shape[0]:
            end += 1
        n = offsets[end] - first
        at = first if whole else 0  # where in z the block begins
        _solve_block(target, chain, work, first, n, at, current_rows)
        _residuals(work, n, explained, slab.s_null)
        if by_product:
            _powers(work, n, residual, int(nu))
        many_in_doubt = not independent and _count_below(pivots, n, safe) > n // 8
        if many_in_doubt:
            _largest_squares(work, k, n, at)
        # 2. all of them at once, where that is possible
        if as_odds and _block_odds(work, j, n, math.exp(log_common), ridge):
            j = end
            continue
        # 3. each of them
        for v in range(j, end):
            if position[v] >= 0:
                continue
            column = offsets[v]
            i = column - first
            width = offsets[v + 1] - column
            difference = -np.inf
            if width > 1:
                if k + width <= slab.max_columns:
                    value = _group(target, chain, work, column, width, i, at + i, explained, half)
                    difference = value - current
            elif independent:
                pivot = pivots[i]
                if pivot > 0.5 * ridge[column]:
                    if by_product and pivot * powers[i] > 1e-280:
                        difference = together - half_log_g[column] - 0.5 * math.log(pivot * powers[i])
                    else:
                        difference = (
                            start
                            - half_log_g[column]
                            - 0.5 * math.log(pivot)
                            - 0.5 * nu * math.log(residuals[i])
                        )
            elif _pivot_is_sound(slab, column, pivots[i]):
                full_rank = True
                if many_in_doubt:
                    full_rank = 1.0 / work.largest[i] >= SMALLEST_TOLERANCE
                elif pivots[i] < safe:
                    work.inverse[0] = 1.0 / math.sqrt(pivots[i])
                    full_rank = _has_full_rank(work, k, 1, at + i)
                if full_rank:
                    difference = log_marginal(slab, k + 1, residuals[i], 0.0, 0.0) - current
            log_odds[v] = _log_odds(prior, v, size, t, difference)
            if to_odds:
                work.odds[v] = odds_of(log_odds[v])
        j = end


@inlined
def _solve_block(target, chain, work, first, n, at, current_rows):
    """Z, pivots and right-hand sides of columns first … first + n − 1 of X; Z from its column `at` on, where
    its first `current_rows` rows are known already."""
    design = target.design
    k = chain.ints[COLUMNS]
    z, pivot, right, head = work.z, work.pivot, work.right, chain.head
    diagonal, ridge, xty = design.diagonal, target.slab.ridge, design.xty
    for c in range(n):
        pivot[c] = diagonal[first + c] + ridge[first + c]
        right[c] = xty[first + c]
    for r in range(current_rows):
        _reduce(z[r, at : at + n], n, chain.head_solved[r], pivot, right)
    for r in range(current_rows, k):
        row = z[r, at : at + n]
        block_products(design, chain.gram_cache, first, n, chain.column[r], work.lanes, row)
        s = 0
        while s + 4 <= r:
            _subtract_four(
                row, n,
                z[s, at : at + n], z[s + 1, at : at + n], z[s + 2, at : at + n], z[s + 3, at : at + n],
                head[r, s], head[r, s + 1], head[r, s + 2], head[r, s + 3],
            )  # fmt: skip
            s += 4
        while s < r:
            _subtract_one(row, n, z[s, at : at + n], head[r, s])
            s += 1
        _finish_row(row, n, chain.head_inverse[r])
        _reduce(row, n, chain.head_solved[r], pivot, right)


@kernel
def _subtract_four(row, n, z0, z1, z2, z3, f0, f1, f2, f3):
    for c in range(n):
        row[c] = (((row[c] - z0[c] * f0) - z1[c] * f1) - z2[c] * f2) - z3[c] * f3


@kernel
def _subtract_one(row, n, z0, f0):
    for c in range(n):
        row[c] -= z0[c] * f0


@kernel
def _finish_row(row, n, inverse):
    for c in range(n):
        row[c] *= inverse


@kernel
def _reduce(row, n, solved, pivot, right):
    """What a row of Z takes from pivots and right-hand sides."""
    for c in range(n):
        x = row[c]
        pivot[c] -= x * x
        right[c] -= x * solved


@inlined
def _residuals(work, n, explained, s_null):
    """S/S₀ with each column of the block in; nonsense where its pivot is not sound."""
    pivot, right, residual = work.pivot, work.right, work.residual
    for c in range(n):
        d = pivot[c] if pivot[c] > 0.0 else 1.0
        x = right[c] * (1.0 / math.sqrt(d))
        value = 1.0 - (explained + x * x) / s_null
        value = value if value > SMALLEST_RESIDUAL else SMALLEST_RESIDUAL
        residual[c] = value if value < 1.0 else 1.0


@inlined
def _powers(work, n, residual, exponent):
    """(S⁺/S)^exponent by repeated squaring."""
    residuals, power, base = work.residual, work.power, work.scratch
    for c in range(n):
        base[c] = residuals[c] / residual
        power[c] = 1.0
    while exponent > 0:
        if exponent % 2 == 1:
            for c in range(n):
                power[c] *= base[c]
        exponent //= 2
        for c in range(n):
            base[c] *= base[c]


@inlined
def _block_odds(work, first, n, common, ridge):
    """The odds of n variables of one column each; False, and nonsense, where one of them needs its logarithm or
    has no sound pivot (included ones among them: they have none)."""
    odds, weight, pivot, power = work.odds, work.weight, work.pivot, work.power
    for c in range(n):
        product = pivot[c] * power[c]
        odds[first + c] = common * weight[first + c] / math.sqrt(product if product > 1e-280 else 1e-280)
    for c in range(n):
        if not (pivot[c] > 0.5 * ridge[first + c] and pivot[c] * power[c] > 1e-280):
            return False
    return True


@kernel
def _count_below(values, n, bound):
    count = 0
    for c in range(n):
        if values[c] < bound:
            count += 1
    return count


@inlined
def _largest_squares(work, k, n, at):
    """What ``_has_full_rank`` compares, for every column of the block at once."""
    z, last, largest, inverse_factor = work.z, work.scratch, work.largest, work.inverse_factor
    pivot = work.pivot
    for c in range(n):
        x = 1.0 / math.sqrt(pivot[c] if pivot[c] > 0.0 else 1.0)
        largest[c] = x * x
    for j in range(k):
        for c in range(n):
            last[c] = 0.0
        s = j
        while s + 4 <= k:
            _subtract_four(
                last, n,
                z[s, at : at + n], z[s + 1, at : at + n], z[s + 2, at : at + n], z[s + 3, at : at + n],
                inverse_factor[j, s], inverse_factor[j, s + 1],
                inverse_factor[j, s + 2], inverse_factor[j, s + 3],
            )  # fmt: skip
            s += 4
        while s < k:
            _subtract_one(last, n, z[s, at : at + n], inverse_factor[j, s])
            s += 1
        _take_larger(last, pivot, work.squares[j], largest, n)


@kernel
def _take_larger(last, pivot, squares, largest, n):
    for c in range(n):
        x = last[c] * (1.0 / math.sqrt(pivot[c] if pivot[c] > 0.0 else 1.0))
        total = squares + x * x
        largest[c] = total if total > largest[c] else largest[c]


@kernel
def _group(target, chain, work, column, width, i, at, explained, half):
    """Log marginal likelihood with columns column … column + width − 1 in; their pivots are from place i on,
    their Z from its column `at` on."""
    design, slab, k = target.design, target.slab, chain.ints[COLUMNS]
    z, factor, inverse, solved, vector = work.z, work.factor, work.inverse, work.solved, work.vector
    for b in range(width):
        for a in range(b):
            x = product(design, chain.gram_cache, column + b, column + a)
            for s in range(k):
                x -= z[s, at + b] * z[s, at + a]
            vector[a] = x
        pivot = append(
            factor,
            inverse,
            solved,
            b,
            factor,
            inverse,
            solved,
            b,
            vector,
            work.pivot[i + b],
            work.right[i + b],
        )
        if not _pivot_is_sound(slab, column + b, pivot):
            return -np.inf
        explained += solved[b] * solved[b]
        half += slab.half_log_g[column + b]
    log_determinant = -sum_log(chain.head_inverse, 0, k) - sum_log(inverse, 0, width)
    if (
        slab.code != INDEPENDENT
        and 2.0 * log_determinant < math.log(SMALLEST_TOLERANCE)
        and not _has_full_rank(work, k, width, at)
    ):
        return -np.inf
    residual = _bounded(1.0 - explained / slab.s_null)
    return log_marginal(slab, k + width, residual, half, log_determinant)


@kernel
def _has_full_rank(work, k, width, at):
    """Whether no column, of the model or of the `width` in ``work.factor`` that enter, has 1 − R² on the
    others below the smallest tolerance. The last rows of L⁻¹ follow from those it has."""
    z, factor, inverse, vector = work.z, work.factor, work.inverse, work.vector
    if smallest_tolerance(factor, inverse, width, factor, inverse, width, vector) < SMALLEST_TOLERANCE:
        return False
    largest = 1.0
    for j in range(k):
        total = work.squares[j]
        for b in range(width):
            x = 0.0
            for s in range(j, k):
                x -= work.inverse_factor[j, s] * z[s, at + b]
            vector[b] = x
        for b in range(width):
            x = vector[b] * inverse[b]
            total += x * x
            for c in range(b + 1, width):
                vector[c] -= x * factor[c, b]
        largest = max(largest, total)
    return 1.0 / largest >= SMALLEST_TOLERANCE
