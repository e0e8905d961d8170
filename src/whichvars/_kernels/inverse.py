"""The inverse of A = X_γᵀX_γ + ridge of the current model, kept so that a proposal need not be factorised.

With V = A⁻¹ and b = V X_γᵀy at hand, a proposal that deletes the columns D and adds the columns E needs no factor of its own. With
F = V_DD, C = X_γᵀX_E and W = VC,

    what is explained   falls by b_Dᵀ F⁻¹ b_D, then rises by rᵀ S⁻¹ r
    log det A           rises by log det F + log det S
    S = X_EᵀX_E + ridge − CᵀW + W_Dᵀ F⁻¹ W_D
    r = X_Eᵀy − Cᵀb + W_Dᵀ F⁻¹ b_D

so that a deletion costs O(1), and an addition or a swap one product of V and a vector. An accepted change is made in V by an update of
rank one, O(k²). The Cholesky factor (``linalg.py``) costs O(k³) where a column in the middle goes.

Updates lose digits where columns are nearly collinear, and here is how many. Let v = max_i A_ii V_ii, the largest variance inflation
factor of the models since V was made. V is accurate to about ε·v, where ε is the rounding unit. What that does to the log
marginal likelihood of a proposal is about

    ε v (ρ + √(T T₀ ρ)),   ρ = A_jj/S_jj,   T = r²/S over σ²,   T₀ = yᵀy over σ²

(the error of the determinant, and that of the fit). Where this is above ``LOSS`` the proposal is factorised. The same test keeps V
away from models that are nearly rank deficient. V is made anew from the factor after ``UPDATES`` updates, so that errors do not
add up; all of this goes by counts, so that results repeat.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.jit import by_reference, inlined, kernel
from whichvars._kernels.lanes import sum_by_fours

BLOCK = 8  # columns that a proposal may add, or delete
LOSS = 1e-7  # error of a log marginal likelihood that is let pass
UPDATES = 128
ROUNDING = 2.0**-53

# places in Inverse.ints
ROWS = 0  # columns of the model that V belongs to
STATE = 1  # CURRENT, or how long it has not been
MADE = 2  # updates since V was made from the factor
LEAVING = 3  # columns that the proposal last evaluated by V deletes
ENTERING = 4  # columns that it adds
# V belongs to the chain's model; the chain has moved on; it has, and a proposal of its model was factorised since
CURRENT, BEHIND, FAR_BEHIND = range(3)

# places in Inverse.floats
EXPLAINED = 0  # ‖L⁻¹X_γᵀy‖²
LOG_DETERMINANT = 1  # ½ log det A
SUM_HALF_LOG_G = 2
INFLATION = 3  # v, the largest since V was made from the factor

# fields of Inverse that belong to the model; the others hold a proposal
OF_ONE_MODEL = ("ints", "floats", "column", "matrix", "solved")


@by_reference
class Inverse(NamedTuple):
    """V and what belongs to it. The columns stand in the order in which they stand in the chain."""

    ints: np.ndarray  # (5,) int64
    floats: np.ndarray  # (4,)
    column: np.ndarray  # (capacity,) int64: the columns of X that V belongs to
    matrix: np.ndarray  # (capacity, capacity): V
    solved: np.ndarray  # (capacity,): b
    leaving: np.ndarray  # (BLOCK,) int64: D, by rows
    entering: np.ndarray  # (BLOCK,) int64: E, by columns of X
    corner: np.ndarray  # (BLOCK, BLOCK): the Cholesky factor of F, with its diagonal
    corner_solved: np.ndarray  # (BLOCK,)
    products: np.ndarray  # (BLOCK, capacity): Cᵀ
    weights: np.ndarray  # (BLOCK, capacity): Wᵀ
    shared: np.ndarray  # (BLOCK, BLOCK): F^{-1/2} W_D, transposed
    schur: np.ndarray  # (BLOCK, BLOCK): the Cholesky factor of S, with its diagonal
    schur_solved: np.ndarray  # (BLOCK,)


def new_inverse(capacity: int) -> Inverse:
    """The inverse of no matrix yet."""
    ints = np.zeros(5, np.int64)
    ints[STATE] = FAR_BEHIND
    return Inverse(
        ints=ints,
        floats=np.zeros(4),
        column=np.zeros(capacity, np.int64),
        matrix=np.zeros((capacity, capacity)),
        solved=np.zeros(capacity),
        leaving=np.zeros(BLOCK, np.int64),
        entering=np.zeros(BLOCK, np.int64),
        corner=np.zeros((BLOCK, BLOCK)),
        corner_solved=np.zeros(BLOCK),
        products=np.zeros((BLOCK, capacity)),
        weights=np.zeros((BLOCK, capacity)),
        shared=np.zeros((BLOCK, BLOCK)),
        schur=np.zeros((BLOCK, BLOCK)),
        schur_solved=np.zeros(BLOCK),
    )


def copy_inverse(source: Inverse, out: Inverse) -> None:
    """Copy what belongs to the model into a larger one."""
    for name in OF_ONE_MODEL:
        before, array = getattr(source, name), getattr(out, name)
        array[tuple(slice(0, n) for n in before.shape)] = before


@inlined
def inner(a, b, n):
    """aᵀb over the first n entries. Four running sums in a fixed order."""
    return sum_by_fours(a, b, n)


@kernel
def times_inverse(matrix, vector, n, out):
    """out = V vector. By rows of V, four at a time, which is the same as by columns since V is symmetric."""
    for i in range(n):
        out[i] = 0.0
    whole = n - n % 4
    for q in range(0, whole, 4):
        a, b, c, d = vector[q], vector[q + 1], vector[q + 2], vector[q + 3]
        _add_four_rows(matrix[q], matrix[q + 1], matrix[q + 2], matrix[q + 3], a, b, c, d, n, out)
    for q in range(whole, n):
        _add_row(matrix[q], vector[q], n, out)


@inlined
def _add_four_rows(x0, x1, x2, x3, a, b, c, d, n, out):
    for i in range(n):
        out[i] += ((x0[i] * a + x1[i] * b) + x2[i] * c) + x3[i] * d


@inlined
def _add_row(x, factor, n, out):
    for i in range(n):
        out[i] += x[i] * factor


@kernel
def insert_column(inverse, column, weights, pivot, right, half_log_g):
    """Add a column behind the others: pivot and right are its S and r, weights its w = Vc."""
    matrix, solved, floats = inverse.matrix, inverse.solved, inverse.floats
    n = inverse.ints[ROWS]
    factor = 1.0 / pivot
    for i in range(n):
        scaled = weights[i] * factor
        _add_row(weights, scaled, n, matrix[i])
        matrix[i, n] = -scaled
        matrix[n, i] = -scaled
        solved[i] -= scaled * right
    matrix[n, n] = factor
    solved[n] = right * factor
    inverse.column[n] = column
    inverse.ints[ROWS] = n + 1
    inverse.ints[MADE] += 1
    floats[EXPLAINED] += right * right * factor
    floats[LOG_DETERMINANT] += 0.5 * math.log(pivot)
    floats[SUM_HALF_LOG_G] += half_log_g


@kernel
def remove_row(inverse, row, work, half_log_g):
    """Take the column of a row out; those behind it move up. `work` is room for n entries."""
    matrix, solved, floats = inverse.matrix, inverse.solved, inverse.floats
    # room for a row on its way: no proposal of so many columns is under way when rows are removed
    passing = inverse.products[BLOCK - 1]
    n = inverse.ints[ROWS]
    diagonal = matrix[row, row]
    factor, right = 1.0 / diagonal, solved[row]
    _copy(matrix[row], work, n)
    for i in range(n):
        if i != row:
            to = i if i < row else i - 1
            scaled = work[i] * factor
            _subtract(matrix[i], work, scaled, n, passing)
            _copy_closed(passing, row, n, matrix[to])
            solved[to] = solved[i] - scaled * right
    for i in range(row + 1, n):
        inverse.column[i - 1] = inverse.column[i]
    inverse.ints[ROWS] = n - 1
    inverse.ints[MADE] += 1
    floats[EXPLAINED] -= right * right * factor
    floats[LOG_DETERMINANT] += 0.5 * math.log(diagonal)
    floats[SUM_HALF_LOG_G] -= half_log_g


@inlined
def _copy(source, out, n):
    for i in range(n):
        out[i] = source[i]


@inlined
def _subtract(x, y, factor, n, out):
    for i in range(n):
        out[i] = x[i] - factor * y[i]


@inlined
def _copy_closed(source, row, n, out):
    """Copy all but the entry at `row`."""
    for i in range(row):
        out[i] = source[i]
    for i in range(row, n - 1):
        out[i] = source[i + 1]


@inlined
def find_inflation(inverse, diagonal, ridge):
    """Bring v up to date."""
    largest = inverse.floats[INFLATION]
    for i in range(inverse.ints[ROWS]):
        column = inverse.column[i]
        largest = max(largest, (diagonal[column] + ridge[column]) * inverse.matrix[i, i])
    inverse.floats[INFLATION] = largest


@kernel
def follow(inverse, design, slab, work):
    """The proposal that was last evaluated by the inverse is accepted: make its changes, for which all is at hand.

    Where more than one column comes or goes, or many changes have been made since V was made from the factor, it is left BEHIND.
    """
    ints, weights = inverse.ints, inverse.weights[0]
    leaving, entering = ints[LEAVING], ints[ENTERING]
    if ints[STATE] != CURRENT or leaving > 1 or entering > 1 or ints[MADE] + 2 > UPDATES:
        ints[STATE] = BEHIND
        return
    if leaving == 1:
        row = inverse.leaving[0]
        if entering == 1:
            # w of the model without the column that leaves
            n, passing = ints[ROWS], inverse.products[BLOCK - 1]
            _subtract(weights, inverse.matrix[row], weights[row] / inverse.matrix[row, row], n, passing)
            _copy_closed(passing, row, n, weights)
        remove_row(inverse, row, work, slab.half_log_g[inverse.column[row]])
    if entering == 1:
        column, root = inverse.entering[0], inverse.schur[0, 0]
        insert_column(
            inverse, column, weights, root * root, root * inverse.schur_solved[0], slab.half_log_g[column]
        )
    find_inflation(inverse, design.diagonal, slab.ridge)


@kernel
def invert_factor(inverse, factor, inverse_pivot, solved, columns, half_log_g, work, n):
    """Make V anew from a Cholesky factor of n rows. `work` is room for n × n entries."""
    matrix = inverse.matrix
    # row i of L⁻¹, from the rows before it
    for i in range(n):
        for t in range(i):
            work[i, t] = 0.0
        for t in range(i):
            _add_row(work[t], -factor[i, t], t + 1, work[i])
        for t in range(i):
            work[i, t] *= inverse_pivot[i]
        work[i, i] = inverse_pivot[i]
    # V = L⁻ᵀL⁻¹
    for i in range(n):
        for t in range(n):
            matrix[i, t] = 0.0
        inverse.solved[i] = 0.0
    explained = half_log_determinant = sum_half_log_g = 0.0
    for i in range(n):
        for r in range(i + 1):
            _add_row(work[i], work[i, r], i + 1, matrix[r])
        _add_row(work[i], solved[i], i + 1, inverse.solved)
        explained += solved[i] * solved[i]
        half_log_determinant -= math.log(inverse_pivot[i])
        sum_half_log_g += half_log_g[columns[i]]
        inverse.column[i] = columns[i]
    inverse.ints[ROWS] = n
    inverse.ints[MADE] = 0
    inverse.floats[EXPLAINED] = explained
    inverse.floats[LOG_DETERMINANT] = half_log_determinant
    inverse.floats[SUM_HALF_LOG_G] = sum_half_log_g
    inverse.floats[INFLATION] = 1.0


@inlined
def loses_digits(inverse, ratio, fit, precision, s_null):
    """Whether the log marginal likelihood of a change cannot be told to within LOSS from V: ratio is ρ, fit is r²/S, precision is
    1/σ²."""
    noise = precision * math.sqrt(fit * s_null * ratio)
    return not ROUNDING * inverse.floats[INFLATION] * (ratio + noise) <= LOSS
