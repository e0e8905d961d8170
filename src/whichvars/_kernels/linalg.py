"""Small Cholesky factors: append a column, extend, solve, and how near to singular a factor is.

The factor L of A = X_γᵀX_γ + ridge is kept by rows, ``factor[r, t] = L_rt`` for t < r; in place of the diagonal
``inverse_pivot[i] = 1 / L_ii``; beside it, ``solved = L⁻¹ X_γᵀy``. Appending column i is a forward substitution.

A proposal shares its first ``split`` rows with the current factor (the *head*) and has its own rows after that (the
*tail*). Only the tail is computed; the head stays valid when the proposal is rejected.
"""

import math

import numpy as np

from whichvars._kernels.jit import inlined, kernel
from whichvars._kernels.lanes import four_sums_by_eights, sum_by_eights


@kernel
def dot(a, i, b, j):
    """Row i of a times row j of b. Eight running sums in a fixed order, which give the same bits everywhere."""
    return sum_by_eights(a[i], b[j], a.shape[1])


@inlined
def four_dots(a, i, j0, j1, j2, j3):
    """``dot`` of row i of a with four of its rows, to the same bits."""
    return four_sums_by_eights(a[i], a[j0], a[j1], a[j2], a[j3], a.shape[1])


@inlined
def _substitute(rows, inverse_pivot, solved, start, stop, work, pivot, right):
    """Forward substitution of `work` through rows start … stop−1 of a factor, the rows before them done already.

    Four rows at a time, so that four sums run side by side; each is summed in the same order as it would be alone. Returns what is
    left of the pivot and of the right-hand side.
    """
    r = start
    while r + 3 < stop:
        s0, s1, s2, s3 = work[r], work[r + 1], work[r + 2], work[r + 3]
        for t in range(r):
            x = work[t]
            s0 -= x * rows[r, t]
            s1 -= x * rows[r + 1, t]
            s2 -= x * rows[r + 2, t]
            s3 -= x * rows[r + 3, t]
        s0 = s0 * inverse_pivot[r]
        s1 = (s1 - s0 * rows[r + 1, r]) * inverse_pivot[r + 1]
        s2 = ((s2 - s0 * rows[r + 2, r]) - s1 * rows[r + 2, r + 1]) * inverse_pivot[r + 2]
        s3 = (
            ((s3 - s0 * rows[r + 3, r]) - s1 * rows[r + 3, r + 1]) - s2 * rows[r + 3, r + 2]
        ) * inverse_pivot[r + 3]
        work[r], work[r + 1], work[r + 2], work[r + 3] = s0, s1, s2, s3
        pivot = (((pivot - s0 * s0) - s1 * s1) - s2 * s2) - s3 * s3
        right = (((right - s0 * solved[r]) - s1 * solved[r + 1]) - s2 * solved[r + 2]) - s3 * solved[r + 3]
        r += 4
    while r < stop:
        s0 = work[r]
        for t in range(r):
            s0 -= work[t] * rows[r, t]
        s0 *= inverse_pivot[r]
        work[r] = s0
        pivot -= s0 * s0
        right -= s0 * solved[r]
        r += 1
    return pivot, right


@inlined
def append(head, head_inverse, head_solved, split, tail, tail_inverse, tail_solved, i, work, diagonal, xty):
    """Append column i to a factor whose rows below `split` are in the head and the others in the tail.

    ``work[:i]`` holds the new column's products with columns 0 … i−1 and is overwritten. Returns the squared
    pivot; where it is not positive the column depends on the others to rounding, and nothing is written. To
    append in place, pass the head as tail too, with split = i.
    """
    pivot, right = _substitute(head, head_inverse, head_solved, 0, split, work, diagonal, xty)
    pivot, right = _substitute(tail, tail_inverse, tail_solved, split, i, work, pivot, right)
    if not pivot > 0.0:
        return pivot
    inverse = 1.0 / math.sqrt(pivot)
    for t in range(i):
        tail[i, t] = work[t]
    tail_inverse[i] = inverse
    tail_solved[i] = right * inverse
    return pivot


@kernel
def adopt(head, head_inverse, head_solved, split, tail, tail_inverse, tail_solved, n):
    """Copy the tail's rows split … n−1 into the head: the proposal was accepted."""
    for r in range(split, n):
        for t in range(r):
            head[r, t] = tail[r, t]
        head_inverse[r] = tail_inverse[r]
        head_solved[r] = tail_solved[r]


@kernel
def sum_log(values, start, stop):
    """Σ log values[i], by logs of products; right for values from 1e-200 to 1e200."""
    total = 0.0
    product = 1.0
    for i in range(start, stop):
        product *= values[i]
        if product < 1e-100 or product > 1e100:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@kernel
def smallest_tolerance(head, head_inverse, split, tail, tail_inverse, n, work):
    """min_j 1 − R²(column j on all the others), for columns of unit length: 1 / max_j (A⁻¹)_jj.

    Unlike the smallest pivot this does not depend on the order of the columns.
    """
    largest = 0.0
    for j in range(n):
        # column j of L⁻¹, by forward substitution from the j-th unit vector
        squares = 0.0
        for r in range(j, n):
            work[r] = 0.0
        work[j] = 1.0
        for t in range(j, n):
            x = work[t] * (head_inverse[t] if t < split else tail_inverse[t])
            squares += x * x
            for r in range(t + 1, n):
                work[r] -= x * (head[r, t] if r < split else tail[r, t])
        largest = max(largest, squares)
    return 1.0 / largest


@kernel
def solve_transposed(factor, inverse_pivot, right, n, out):
    """out = L⁻ᵀ right, by back substitution: turns ``solved`` into the posterior mean of the coefficients."""
    for i in range(n - 1, -1, -1):
        x = right[i]
        for r in range(i + 1, n):
            x -= factor[r, i] * out[r]
        out[i] = x * inverse_pivot[i]


@kernel
def factorise(matrix, right, factor, inverse_pivot, solved, work):
    """Cholesky factor of a whole small matrix; returns the number of columns before the first pivot that is
    not positive."""
    n = matrix.shape[0]
    for i in range(n):
        for t in range(i):
            work[t] = matrix[i, t]
        pivot = append(
            factor, inverse_pivot, solved, i, factor, inverse_pivot, solved, i, work, matrix[i, i], right[i]
        )
        if not pivot > 0.0:
            return i
    return n


def factor_arrays(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Room for a factor of n columns: (factor, inverse_pivot, solved, work)."""
    return np.zeros((n, n)), np.zeros(n), np.zeros(n), np.zeros(n)
