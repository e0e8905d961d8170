"""Columns of X as they are stored (mapped from a file, sparse, genotypes), made into residuals while products are taken.

With a_j a column as stored, m_j its weighted mean, W the diagonal matrix of the weights, Q an orthonormal basis of
what is always included (weighted), and f_j a factor of scale, the column that chains work with is

    x_j = f_j (I − QQᵀ) W^½ (a_j − m_j 1),   so   x_jᵀx_k = f_j f_k [(a_j − m_j)ᵀ W (a_k − m_k) − l_jᵀ l_k],

l_j = QᵀW^½(a_j − m_j). m, f and l are made once; nothing as large as X is ever made. Where all entries are at hand they
are centred before they are multiplied, so that a large mean costs no digits; products of whole numbers are exact;
those of sparse columns run over the entries that are there, and the means are taken off at the end.

A product is the same to the last bit in whichever order its two columns are given.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.jit import by_reference, entry, kernel, routine

# How columns are stored
NOT_STORED = 0  # as ``Design.columns``, or as the Gram matrix
SMALL = 1
SINGLE_PRECISION = 2
DOUBLE_PRECISION = 3
SPARSE = 4

MISSING = -127  # the entry of `small` that stands for a missing one, in columns that have any
LONGEST = 1 << 16  # rows whose products of two bytes cannot overflow a sum of 32 bits


@by_reference
class Stored(NamedTuple):
    """P columns out of those of X, one a row in the arrays that hold them; what is not used has length 0."""

    code: int
    small: np.ndarray  # (columns of X, N) int8
    single: np.ndarray  # (columns of X, N) float32
    double: np.ndarray  # (columns of X, N) float64
    # entries of sparse columns one after the other, their rows (ascending in a column), and where columns begin
    values: np.ndarray  # float64
    rows: np.ndarray  # int32
    starts: np.ndarray  # (columns of X + 1,) int64
    where: np.ndarray  # (P,) int64: the place of a column in the arrays above
    missing: np.ndarray  # (P,) bool: whether it has missing entries, which count as its mean
    centre: np.ndarray  # (P,) m
    factor: np.ndarray  # (P,) f
    loads: np.ndarray  # (P, q) l, or (P, 0) where nothing but the intercept is always included
    weights: np.ndarray  # (N,) or, where all are 1, (0,); rows that are left out have weight 0
    total_weight: float
    basis: np.ndarray  # (N, q) Q


def new_stored(code: int = NOT_STORED, total_weight: float = 0.0, **arrays: np.ndarray) -> Stored:
    """With arrays that are not given empty, and all of them read-only: mapped files are, and kernels are compiled for
    one kind."""
    kinds: dict[str, tuple[type, int]] = {
        "small": (np.int8, 2), "single": (np.float32, 2), "double": (np.float64, 2),
        "values": (np.float64, 1), "rows": (np.int32, 1), "starts": (np.int64, 1),
        "where": (np.int64, 1), "missing": (np.bool_, 1), "centre": (np.float64, 1), "factor": (np.float64, 1),
        "loads": (np.float64, 2), "weights": (np.float64, 1), "basis": (np.float64, 2),
    }  # fmt: skip
    frozen_arrays: dict[str, np.ndarray] = {}
    for name, (kind, dimensions) in kinds.items():
        array = arrays.pop(name, np.zeros((0,) * dimensions))
        frozen_arrays[name] = np.ascontiguousarray(array, dtype=kind).view()
        frozen_arrays[name].flags.writeable = False
    if arrays:
        raise TypeError(f"unknown arrays: {', '.join(arrays)}")
    return Stored(code=code, total_weight=float(total_weight), **frozen_arrays)


def frozen(held: Stored) -> Stored:
    """The same, as kernels were compiled for it."""
    return new_stored(**held._asdict())


def product_length(held: Stored) -> float:
    """What a product of two columns costs on average, in entries of a dot product of float64; bytes go by eight."""
    if held.code == SPARSE:
        return 2.0 * len(held.values) / max(len(held.starts) - 1, 1)
    if held.code == SMALL:
        return len(held.basis) / 8 if not len(held.weights) else 1.0 * len(held.basis)
    return 1.0 * len(held.basis)


def fits_together(held: Stored, n_columns: int) -> bool:
    """Whether the shapes of arrays that were read from a file agree: compiled code trusts them."""
    n, q = held.basis.shape
    by_column = (held.where, held.missing, held.centre, held.factor)
    sparse = held.code == SPARSE
    arrays = {SMALL: held.small, SINGLE_PRECISION: held.single, DOUBLE_PRECISION: held.double}
    whole = arrays.get(held.code, held.double)
    count = len(held.starts) - 1 if sparse else len(whole)
    shapes = (
        (sparse or held.code in arrays)
        and all(len(array) == n_columns for array in by_column)
        and held.loads.shape == (n_columns, q)
        and held.weights.shape in ((0,), (n,))
        and (not len(held.where) or 0 <= held.where.min() <= held.where.max() < count)
    )
    if not shapes or not sparse:
        return bool(shapes and whole.shape[1] == n)
    starts, rows = held.starts, held.rows
    return bool(
        starts[0] == 0
        and (np.diff(starts) >= 0).all()
        and starts[-1] == len(rows) == len(held.values)
        and (not len(rows) or (rows.min() >= 0 and rows.max() < n))
    )


# --- products of two columns


@routine
def stored_product(held, a, b):
    """x_aᵀ x_b."""
    i, j = held.where[a], held.where[b]
    ci, cj = held.centre[a], held.centre[b]
    weighted = held.weights.shape[0] > 0
    if held.code == SPARSE:
        total = _sparse_dot(held.values, held.rows, held.starts, i, j, held.weights)
        total -= (ci * cj) * held.total_weight
    elif held.code == SMALL:
        some_a, some_b = held.missing[a], held.missing[b]
        if weighted and (some_a or some_b):
            total = _weighted_small_dot(held.small, i, ci, some_a, j, cj, some_b, held.weights)
        elif weighted:
            total = _weighted_dot(held.small, i, ci, j, cj, held.weights)
        elif some_a or some_b:
            total = _observed_dot(held.small, i, ci, some_a, j, cj, some_b)
        else:
            n = held.total_weight  # sums of whole numbers: nothing is rounded before the division
            first_sum, second_sum = math.floor(ci * n + 0.5), math.floor(cj * n + 0.5)
            total = (_whole_dot(held.small, i, j) * n - first_sum * second_sum) / n
    elif held.code == SINGLE_PRECISION:
        if weighted:
            total = _weighted_dot(held.single, i, ci, j, cj, held.weights)
        else:
            total = _centred_dot(held.single, i, ci, j, cj)
    else:
        if weighted:
            total = _weighted_dot(held.double, i, ci, j, cj, held.weights)
        else:
            total = _centred_dot(held.double, i, ci, j, cj)
    for t in range(held.loads.shape[1]):
        total -= held.loads[a, t] * held.loads[b, t]
    return total * (held.factor[a] * held.factor[b])


@kernel
def _centred_dot(columns, i, ci, j, cj):
    """(a_i − c_i)ᵀ(a_j − c_j): eight running sums in a fixed order, as in ``linalg.dot``."""
    n = columns.shape[1]
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = n - n % 8
    for t in range(0, whole, 8):
        s0 += (columns[i, t] - ci) * (columns[j, t] - cj)
        s1 += (columns[i, t + 1] - ci) * (columns[j, t + 1] - cj)
        s2 += (columns[i, t + 2] - ci) * (columns[j, t + 2] - cj)
        s3 += (columns[i, t + 3] - ci) * (columns[j, t + 3] - cj)
        s4 += (columns[i, t + 4] - ci) * (columns[j, t + 4] - cj)
        s5 += (columns[i, t + 5] - ci) * (columns[j, t + 5] - cj)
        s6 += (columns[i, t + 6] - ci) * (columns[j, t + 6] - cj)
        s7 += (columns[i, t + 7] - ci) * (columns[j, t + 7] - cj)
    for t in range(whole, n):
        s0 += (columns[i, t] - ci) * (columns[j, t] - cj)
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))


@kernel
def _weighted_dot(columns, i, ci, j, cj, weights):
    n = columns.shape[1]
    s0 = s1 = s2 = s3 = 0.0
    whole = n - n % 4
    for t in range(0, whole, 4):
        s0 += ((columns[i, t] - ci) * (columns[j, t] - cj)) * weights[t]
        s1 += ((columns[i, t + 1] - ci) * (columns[j, t + 1] - cj)) * weights[t + 1]
        s2 += ((columns[i, t + 2] - ci) * (columns[j, t + 2] - cj)) * weights[t + 2]
        s3 += ((columns[i, t + 3] - ci) * (columns[j, t + 3] - cj)) * weights[t + 3]
    for t in range(whole, n):
        s0 += ((columns[i, t] - ci) * (columns[j, t] - cj)) * weights[t]
    return (s0 + s2) + (s1 + s3)


@kernel
def _weighted_small_dot(small, i, ci, some_i, j, cj, some_j, weights):
    """The same for bytes, where missing entries are at the centre."""
    total = 0.0
    for t in range(small.shape[1]):
        x, y = small[i, t], small[j, t]
        u = 0.0 if some_i and x == MISSING else float(x) - ci
        v = 0.0 if some_j and y == MISSING else float(y) - cj
        total += (u * v) * weights[t]
    return total


@kernel
def _whole_dot(small, i, j):
    """a_iᵀa_j of bytes, exactly. In 32 bits the processor adds many at once."""
    n = small.shape[1]
    if n <= LONGEST:
        short = np.int32(0)
        for t in range(n):
            short = np.int32(short + np.int32(small[i, t]) * np.int32(small[j, t]))
        return float(short)
    total = np.int64(0)
    for t in range(n):
        total += np.int64(small[i, t]) * np.int64(small[j, t])
    return float(total)


@kernel
def _observed_dot(small, i, ci, some_i, j, cj, some_j):
    """(a_i − c_i)ᵀ(a_j − c_j) over the rows where neither is missing, from four whole numbers."""
    both = first_sum = second_sum = count = 0
    for t in range(small.shape[1]):
        x, y = np.int64(small[i, t]), np.int64(small[j, t])
        seen = not ((some_i and x == MISSING) or (some_j and y == MISSING))
        both += x * y if seen else 0
        first_sum += x if seen else 0
        second_sum += y if seen else 0
        count += 1 if seen else 0
    return float(both) - (cj * float(first_sum) + ci * float(second_sum)) + (ci * cj) * float(count)


@kernel
def _sparse_dot(values, rows, starts, i, j, weights):
    """a_iᵀWa_j over the rows that both have."""
    s, s_end = starts[i], starts[i + 1]
    t, t_end = starts[j], starts[j + 1]
    total = 0.0
    while s < s_end and t < t_end:
        row, other = rows[s], rows[t]
        if row == other:
            w = weights[row] if weights.shape[0] > 0 else 1.0
            total += (values[s] * values[t]) * w
            s += 1
            t += 1
        elif row < other:
            s += 1
        else:
            t += 1
    return total


# --- for Python


@entry
def pair_products(held, first, second, out):
    """x_aᵀx_b of pairs of columns."""
    for r in range(first.shape[0]):
        out[r] = stored_product(held, first[r], second[r])


@entry
def fill_columns(held, index, out):
    """The columns themselves, x of shape (N,), as rows of `out`."""
    for r in range(index.shape[0]):
        fill_column(held, index[r], out, r)


@kernel
def fill_column(held, a, out, r):
    """One column, as row r of `out`, (…, N)."""
    i, centre = held.where[a], held.centre[a]
    n = out.shape[1]
    if held.code == SPARSE:
        for t in range(n):
            out[r, t] = -centre
        for s in range(held.starts[i], held.starts[i + 1]):
            out[r, held.rows[s]] += held.values[s]
    else:
        for t in range(n):
            out[r, t] = _centred_entry(held, i, centre, held.missing[a], t)
    for t in range(n):
        x = out[r, t]
        if held.weights.shape[0] > 0:
            x *= math.sqrt(held.weights[t])
        for u in range(held.loads.shape[1]):
            x -= held.basis[t, u] * held.loads[a, u]
        out[r, t] = x * held.factor[a]


@kernel
def _centred_entry(held, i, centre, some_missing, t):
    if held.code == SMALL:
        x = held.small[i, t]
        return 0.0 if some_missing and x == MISSING else float(x) - centre
    if held.code == SINGLE_PRECISION:
        return float(held.single[i, t]) - centre
    return held.double[i, t] - centre


@entry
def times_vector(held, vector, onto_basis, out):
    """x_aᵀv for every column: `vector` is W^½v, `onto_basis` is Qᵀv."""
    _times_vector(held, vector, onto_basis, out)


@kernel
def _times_vector(held, vector, onto_basis, out):
    whole = 0.0
    for t in range(vector.shape[0]):
        whole += vector[t]
    for a in range(out.shape[0]):
        i, centre = held.where[a], held.centre[a]
        total = 0.0
        if held.code == SPARSE:
            for s in range(held.starts[i], held.starts[i + 1]):
                total += held.values[s] * vector[held.rows[s]]
            total -= centre * whole
        else:
            for t in range(vector.shape[0]):
                total += _centred_entry(held, i, centre, held.missing[a], t) * vector[t]
        for u in range(held.loads.shape[1]):
            total -= held.loads[a, u] * onto_basis[u]
        out[a] = total * held.factor[a]
