"""The conversion of the columns of X to the input of the kernels: scaled residuals and their products.

Residuals are those of the regression on the intercept and the always-included columns. ``HeldColumns`` has X in memory as
float64; ``stored_columns.StoredColumns`` leaves it as it is stored.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from whichvars._kernels.products.stored import (
    NOT_STORED,
    Stored,
    fill_columns,
    frozen,
    new_stored,
    times_vector,
)
from whichvars._kernels.target import Design
from whichvars.data.frames import Columns
from whichvars.problem.flat import power_of_two, residuals

# seed of the hash keys of models; fixed, so that a run depends only on its own seed
ZOBRIST_SEED = 20141220


# bytes of the columns whose residuals are computed together
BLOCK_BYTES = 16 << 20


class Measured(NamedTuple):
    """The size and spread of every candidate column in units of a power of two, so that no square can overflow."""

    power: np.ndarray  # (C,)
    whole: np.ndarray  # (C,) weighted length
    mean: np.ndarray  # (C,) weighted
    spread: np.ndarray  # (C,) weighted standard deviation, ddof 1
    lengths: np.ndarray  # (C,) of the residual on the intercept and the always-included columns


class Products(NamedTuple):
    """The products of the columns, before keys and priors are added."""

    gram: np.ndarray  # (P, P) or (0, 0)
    columns: np.ndarray  # (P, n) or (0, 0)
    diagonal: np.ndarray  # (P,)
    xty: np.ndarray  # (P,)
    stored: Stored = new_stored()


class ColumnReader(Protocol):
    """Converts the columns of X to a design. The methods are called in this order."""

    names: list[str]
    has_names: bool
    shape: tuple[int, int]

    def keep_rows(self, used: np.ndarray) -> None:
        """Keep only these rows, (n,) bool."""

    def take(self, index: Sequence[int], weights: np.ndarray) -> np.ndarray:
        """Columns as float64, (n, k), with missing values replaced by weighted means."""

    def measure(
        self, candidates: np.ndarray, root_weights: np.ndarray, basis: np.ndarray, y: np.ndarray
    ) -> Measured:
        """Compute the residuals of the regression on the basis, and measure the columns."""

    def arrange(self, index: np.ndarray) -> None:
        """Keep these candidates, in this order."""

    def means_and_products(self, share: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Means of the columns, (P,), with weights `share` that sum to 1; and a function from a matrix B (n, q), whose
        columns lie in the span of the basis, to BᵀW^½(X − means), (q, P)."""

    def find_duplicates(self) -> list[list[int]]:
        """Sets of columns with |correlation| 1."""

    def scale(self, units: np.ndarray, top: float, divide: bool) -> np.ndarray:
        """Bring the columns, (P, n), to these units; returns their squared lengths, (P,)."""

    def products(self, gram: bool, y: np.ndarray) -> Products: ...


def residual_rows(raw: np.ndarray, root: np.ndarray, basis: np.ndarray | None) -> tuple[np.ndarray, Measured]:
    """Weighted residuals of columns given as rows (k, n), in units of `power`. `raw` is overwritten by the centred columns.
    Without a basis, the regression is on the intercept alone."""
    power = power_of_two(np.abs(raw).max(axis=1))
    raw /= power[:, None]
    weights = root**2
    whole = np.sqrt(raw**2 @ weights)
    mean = raw @ weights / weights.sum()
    raw -= mean[:, None]  # also keeps the digits of columns with a large mean
    n = raw.shape[1]
    spread = np.sqrt(raw**2 @ weights / (weights.sum() * (n - 1) / n))
    columns = raw * root if basis is None else residuals(raw * root, basis)
    return columns, Measured(power, whole, mean, spread, np.linalg.norm(columns, axis=1))


class HeldColumns:
    """X in memory, as a matrix (n, columns) of float64."""

    def __init__(self, table: Columns) -> None:
        self.values, self.names, self.has_names = table
        self.shape = self.values.shape

    def keep_rows(self, used: np.ndarray) -> None:
        self.values = self.values[used]

    def take(self, index: Sequence[int], weights: np.ndarray) -> np.ndarray:
        return self.values[:, index]

    def measure(
        self, candidates: np.ndarray, root_weights: np.ndarray, basis: np.ndarray, y: np.ndarray
    ) -> Measured:
        self.candidates, self.root = candidates, root_weights / root_weights.max()
        self.columns = np.empty((len(candidates), len(self.values)))
        measured, first = [], 0
        for some in self._some_at_a_time():
            rows, sizes = residual_rows(np.ascontiguousarray(self.values[:, some].T), self.root, basis)
            self.columns[first : first + len(rows)] = rows
            measured.append(sizes)
            first += len(rows)
        self.measured = Measured(*map(np.concatenate, zip(*measured)))
        return self.measured

    def _some_at_a_time(self) -> Iterator[np.ndarray]:
        """The candidates, in blocks of limited memory."""
        step = max(1, BLOCK_BYTES // (8 * len(self.values)))
        return (
            self.candidates[first : first + step] for first in range(0, max(len(self.candidates), 1), step)
        )

    def arrange(self, index: np.ndarray) -> None:
        if len(index) < len(self.columns) or (np.diff(index) != 1).any():
            self.columns = np.ascontiguousarray(self.columns[index])
        self.candidates = self.candidates[index]
        self.lengths = self.measured.lengths[index]

    def means_and_products(self, share: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        means = share @ self.values

        def products(basis: np.ndarray) -> np.ndarray:
            weighted = (basis * self.root[:, None]).T
            return np.hstack([weighted @ (self.values[:, i] - means[i]) for i in self._some_at_a_time()])

        return means[self.candidates], products

    def find_duplicates(self) -> list[list[int]]:
        shadow = np.abs(self.columns @ random_direction(self.columns.shape[1])) / self.lengths

        def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            products = [self.columns[i] @ self.columns[j] for i, j in zip(a, b)]
            return np.array(products) / self.lengths[a] / self.lengths[b]

        return equal_pairs(shadow, cosines)

    def scale(self, units: np.ndarray, top: float, divide: bool) -> np.ndarray:
        if divide:
            self.columns /= units[:, None]
        else:
            self.columns *= units[:, None]
        self.columns *= top
        return np.einsum("ij,ij->i", self.columns, self.columns)

    def products(self, gram: bool, y: np.ndarray) -> Products:
        columns, nothing = self.columns, np.zeros((0, 0))
        xty = columns @ y
        if not gram:
            return Products(nothing, columns, np.einsum("ij,ij->i", columns, columns), xty)
        products = columns @ columns.T
        products = np.ascontiguousarray((products + products.T) / 2)
        return Products(products, nothing, np.diagonal(products).copy(), xty)


# --- duplicated columns


def random_direction(n: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64DXSM(ZOBRIST_SEED)).standard_normal(n)


def equal_pairs(
    shadow: np.ndarray, cosines: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> list[list[int]]:
    """Sets of columns with |correlation| 1. They are found by sorting `shadow`, the absolute products of the columns with
    one random vector."""
    order = np.argsort(shadow, kind="stable")
    near = np.flatnonzero(np.diff(shadow[order]) < 1e-8)
    if not near.size:
        return []
    a, b = order[near], order[near + 1]
    same = np.abs(cosines(a, b)) > 1 - 1e-12
    sets: list[list[int]] = []
    for i, j in zip(a[same].tolist(), b[same].tolist()):
        if sets and sets[-1][-1] == i:
            sets[-1].append(j)
        else:
            sets.append([i, j])
    return sorted(map(sorted, sets))


# --- input of the kernels


def side_by_side(*arrays: np.ndarray) -> list[np.ndarray]:
    """The same vectors as strided views of one table with 32 bytes per row, as long as the longest.

    A kernel usually needs all of them for the same variable: this costs one cache line instead of four.
    """
    fields = [(str(i), a.dtype) for i, a in enumerate(arrays)] + [
        (f"unused{i}", np.float64) for i in range(4 - len(arrays))
    ]
    table = np.zeros(max(map(len, arrays)), dtype=fields)
    for i, array in enumerate(arrays):
        table[str(i)][: len(array)] = array
    return [table[str(i)] for i in range(len(arrays))]


def rescaled(design: Design, factor: np.ndarray) -> Products:
    """The products of columns that are each multiplied by a factor, (P,), or all by 1."""
    if (factor == 1).all():
        return Products(design.gram, design.columns, design.diagonal, design.xty, design.stored)
    held = design.stored
    return Products(
        gram=design.gram * factor * factor[:, None] if len(design.gram) else design.gram,
        columns=design.columns * factor[:, None] if len(design.columns) else design.columns,
        diagonal=design.diagonal * factor**2,
        xty=design.xty * factor,
        stored=held
        if held.code == NOT_STORED
        else frozen(held._replace(factor=np.asarray(held.factor * factor))),
    )


# --- products that are needed after sampling


def columns_at(design: Design, index: Any) -> np.ndarray:
    """The residual columns at these indices, (…, n); not in the Gram engine."""
    if design.stored.code == NOT_STORED:
        return design.columns[index]
    return stored_columns_at(design.stored, index)


def stored_columns_at(held: Stored, index: Any) -> np.ndarray:
    """The same of columns that are stored, (…, N)."""
    index = np.asarray(index, np.int64)
    rows = row_count(held)
    out = np.zeros((index.size, rows))
    fill_columns(held, index.ravel(), out)
    return out.reshape(*index.shape, rows)  # also for an empty model


def row_count(held: Stored) -> int:
    """The number of stored rows, including those of weight 0."""
    return len(held.basis)


def gram_of(design: Design, index: np.ndarray) -> np.ndarray:
    """XᵀX of the columns at these indices: (…, k, k) for (…, k)."""
    if len(design.gram):
        return design.gram[index[..., :, None], index[..., None, :]]
    block = columns_at(design, index)
    return block @ np.swapaxes(block, -1, -2)


def products_with_all(design: Design, vectors: np.ndarray) -> np.ndarray:
    """xᵀv of all columns x and some vectors v (m, n): (m, P); not in the Gram engine."""
    if design.stored.code == NOT_STORED:
        return vectors @ design.columns.T
    held, out = design.stored, np.zeros((len(vectors), len(design.diagonal)))
    root = np.sqrt(held.weights) if len(held.weights) else 1.0
    for vector, row in zip(vectors, out):
        times_vector(held, vector * root, vector @ held.basis, row)
    return out


class ColumnsOfModels(NamedTuple):
    """The columns of models, which are given by their variables one after the other."""

    columns: np.ndarray  # all columns, those of a model one after the other
    start: np.ndarray  # (models + 1,): where each model's begin

    @classmethod
    def of(cls, offsets: np.ndarray, members: np.ndarray, start: np.ndarray) -> "ColumnsOfModels":
        members = np.asarray(members, np.int64)
        widths = (offsets[1:] - offsets[:-1])[members]
        ends = np.concatenate([[0], np.cumsum(widths)])
        index = np.arange(ends[-1]) + np.repeat(offsets[members] - ends[:-1], widths)
        return cls(index, ends[start])
