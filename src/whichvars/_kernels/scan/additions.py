"""The log odds of adding each variable outside the model: the half of a scan whose cost grows with p.

Z, the pivots and the right-hand sides are computed for a block of columns at a time; ``scan.py`` says what they are.
"""

import math

import numpy as np

from whichvars._kernels.chain import COLUMNS, SCANNED, SIZE, scanned_value
from whichvars._kernels.evidence import (
    INDEPENDENT,
    SMALLEST_TOLERANCE,
    log_fit,
    log_marginal,
    log_marginal_at,
    unexplained,
)
from whichvars._kernels.factor import pivot_is_sound
from whichvars._kernels.jit import inlined, kernel
from whichvars._kernels.linalg import append, smallest_tolerance, sum_log
from whichvars._kernels.products.gram_cache import product
from whichvars._kernels.products.kept_rows import claim_rows, kept_products
from whichvars._kernels.scan.scan_work import (
    LARGEST_LOG_ODDS,
    LARGEST_POWER,
    flip_log_odds,
    odds_of,
    sums_of_model,
)


@inlined
def additions(target, chain, work, t, as_odds):
    """Fill ``work.log_odds``, or ``work.odds`` where `as_odds`, of the variables outside the model."""
    size, k = chain.ints[SIZE], chain.ints[COLUMNS]
    slab, prior, offsets = target.slab, target.prior, target.design.offsets
    position, log_odds = chain.position, work.log_odds
    pivots, residuals, powers = work.pivot, work.residual, work.power
    half_log_g, ridge = slab.half_log_g, slab.ridge
    p = offsets.shape[0] - 1
    explained, half, log_determinant = sums_of_model(slab, chain)
    residual = unexplained(slab, explained)
    current = scanned_value(target, chain)
    nu = slab.nu
    independent = slab.code == INDEPENDENT
    by_product = independent and nu <= LARGEST_POWER and nu == math.floor(nu)
    start = -half - log_determinant - current
    together = start + log_fit(slab, residual)
    log_common = together + prior.log_size[size + 1] - prior.log_size[size]
    to_odds, as_odds = as_odds, as_odds and abs(log_common) < LARGEST_LOG_ODDS / 3
    safe = safe_pivot(log_determinant)
    whole = work.z.shape[1] >= offsets[p]
    current_rows = chain.row[chain.ints[SCANNED]] if whole else 0
    claim_rows(work.rows, chain.column, current_rows, k)
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
        residuals_left(work, n, explained, slab)
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
                    value = scan_group(target, chain, work, column, width, i, at + i, explained, half)
                    difference = value - current
            elif independent:
                pivot = pivots[i]
                if pivot > 0.5 * ridge[column]:
                    if by_product and pivot * powers[i] > 1e-280:
                        difference = together - half_log_g[column] - 0.5 * math.log(pivot * powers[i])
                    else:
                        difference = one_column_more(slab, start, column, pivot, residuals[i])
            elif pivot_is_sound(slab, column, pivots[i]):
                full_rank = True
                if many_in_doubt:
                    full_rank = 1.0 / work.largest[i] >= SMALLEST_TOLERANCE
                elif pivots[i] < safe:
                    work.inverse[0] = 1.0 / math.sqrt(pivots[i])
                    full_rank = has_full_rank(work, k, 1, at + i)
                if full_rank:
                    difference = log_marginal_at(slab, k + 1, residuals[i], 0.0, 0.0) - current
            log_odds[v] = flip_log_odds(prior, v, size, t, difference)
            if to_odds:
                work.odds[v] = odds_of(log_odds[v])
                if LARGEST_LOG_ODDS < log_odds[v] < np.inf:
                    work.steep[0] = 1
        j = end


@inlined
def safe_pivot(log_determinant):
    """A pivot above this leaves the determinant, hence every tolerance, above the smallest."""
    return SMALLEST_TOLERANCE * math.exp(min(-2.0 * log_determinant, 700.0))


@inlined
def one_column_more(slab, start, column, pivot, residual):
    """What a column adds to the log marginal likelihood under the independent slab. `start` is what the model's terms make, less its log
    marginal likelihood; `residual` is S/S₀ with the column."""
    return start - slab.half_log_g[column] - 0.5 * math.log(pivot) + log_fit(slab, residual)


@inlined
def _solve_block(target, chain, work, first, n, at, current_rows):
    """Z, pivots and right-hand sides of columns first … first + n − 1 of X; Z from its column `at` on, where
    its first `current_rows` rows are known already."""
    design = target.design
    k = chain.ints[COLUMNS]
    z, pivot, right = work.z, work.pivot, work.right
    diagonal, ridge, xty = design.diagonal, target.slab.ridge, design.xty
    for c in range(n):
        pivot[c] = diagonal[first + c] + ridge[first + c]
        right[c] = xty[first + c]
    for r in range(current_rows, k):
        row = z[r, at : at + n]
        kept_products(design, chain.gram_cache, work.rows, first, n, chain.column[r], row)
    solve_rows(chain, z, current_rows, at, n, pivot, right)


@inlined
def solve_rows(chain, z, known, at, n, pivot, right):
    """Turn n columns of `z`, from column `at` on, from products with the model's columns into columns of Z = L⁻¹X_γᵀX,
    and subtract what they take from the pivots and the right-hand sides. The first `known` rows are those of Z
    already."""
    head, inverse, solved = chain.head, chain.head_inverse, chain.head_solved
    for r in range(known):
        _reduce_by_row(z[r, at : at + n], n, solved[r], pivot, right)
    for r in range(known, chain.ints[COLUMNS]):
        row = z[r, at : at + n]
        _subtract_rows(row, n, z, at, np.int64(0), r, head[r])
        _scale_row(row, n, inverse[r])
        _reduce_by_row(row, n, solved[r], pivot, right)


@inlined
def _subtract_rows(out, n, z, at, first, last, factors):
    """Subtract rows first … last − 1 of `z` from `out`, each times its factor and one after the other, in as few
    passes over `out` as possible."""
    s = first
    while s + 4 <= last:
        _subtract_four(
            out, n,
            z[s, at : at + n], z[s + 1, at : at + n], z[s + 2, at : at + n], z[s + 3, at : at + n],
            factors[s], factors[s + 1], factors[s + 2], factors[s + 3],
        )  # fmt: skip
        s += 4
    while s < last:
        _subtract_one(out, n, z[s, at : at + n], factors[s])
        s += 1


@kernel
def _subtract_four(row, n, z0, z1, z2, z3, f0, f1, f2, f3):
    for c in range(n):
        row[c] = (((row[c] - z0[c] * f0) - z1[c] * f1) - z2[c] * f2) - z3[c] * f3


@kernel
def _subtract_one(row, n, z0, f0):
    for c in range(n):
        row[c] -= z0[c] * f0


@kernel
def _scale_row(row, n, inverse):
    for c in range(n):
        row[c] *= inverse


@kernel
def _reduce_by_row(row, n, solved, pivot, right):
    """Subtract what a row of Z takes from the pivots and the right-hand sides."""
    for c in range(n):
        x = row[c]
        pivot[c] -= x * x
        right[c] -= x * solved


@inlined
def residuals_left(work, n, explained, slab):
    """S/S₀ with each column of the block added. It means nothing where the pivot is not sound."""
    pivot, right, residual = work.pivot, work.right, work.residual
    for c in range(n):
        d = pivot[c] if pivot[c] > 0.0 else 1.0
        x = right[c] * (1.0 / math.sqrt(d))
        residual[c] = unexplained(slab, explained + x * x)


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
    """The odds of n variables of one column each. False, and the odds mean nothing, where one of them needs its logarithm
    or has no sound pivot; variables in the model never have one."""
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
    """What ``has_full_rank`` compares, for every column of the block at once."""
    z, last, largest, inverse_factor = work.z, work.scratch, work.largest, work.inverse_factor
    pivot = work.pivot
    for c in range(n):
        x = 1.0 / math.sqrt(pivot[c] if pivot[c] > 0.0 else 1.0)
        largest[c] = x * x
    for j in range(k):
        for c in range(n):
            last[c] = 0.0
        _subtract_rows(last, n, z, at, j, k, inverse_factor[j])
        _take_larger(last, pivot, work.squares[j], largest, n)


@kernel
def _take_larger(last, pivot, squares, largest, n):
    for c in range(n):
        x = last[c] * (1.0 / math.sqrt(pivot[c] if pivot[c] > 0.0 else 1.0))
        total = squares + x * x
        largest[c] = total if total > largest[c] else largest[c]


@kernel
def scan_group(target, chain, work, column, width, i, at, explained, half):
    """The log marginal likelihood with columns column … column + width − 1 added. Their pivots begin at place i, and
    their columns of Z at `at`."""
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
        if not pivot_is_sound(slab, column + b, pivot):
            return -np.inf
        explained += solved[b] * solved[b]
        half += slab.half_log_g[column + b]
    log_determinant = -sum_log(chain.head_inverse, 0, k) - sum_log(inverse, 0, width)
    if (
        slab.code != INDEPENDENT
        and 2.0 * log_determinant < math.log(SMALLEST_TOLERANCE)
        and not has_full_rank(work, k, width, at)
    ):
        return -np.inf
    return log_marginal(slab, k + width, explained, half, log_determinant)


@kernel
def has_full_rank(work, k, width, at):
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
