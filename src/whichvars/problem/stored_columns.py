"""X in the form in which it is stored: mapped from a .npy file, sparse, or genotypes of one byte each.

It is never converted to float64 as a whole. Means, scales and the regression of every column on the always-included columns
are computed in one pass, some columns at a time; products of columns apply them on the fly
(``_kernels/products/stored.py``).
"""

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from whichvars._kernels.products.stored import (
    DOUBLE_PRECISION,
    MISSING,
    SINGLE_PRECISION,
    SMALL,
    SPARSE,
    Stored,
    new_stored,
    pair_products,
)
from whichvars.data.frames import NUMERIC, check_columns, check_finite, not_finite
from whichvars.data.genotype_files import has_genotypes, open_genotypes
from whichvars.data.genotypes import Genotypes, is_missing
from whichvars.errors import ArgumentTypeError, DataError, DataWarning
from whichvars.problem.columns import Measured, Products, equal_pairs, random_direction, residual_rows
from whichvars.problem.flat import residuals

CODES = {
    np.dtype(np.int8): SMALL,
    np.dtype(np.float32): SINGLE_PRECISION,
    np.dtype(np.float64): DOUBLE_PRECISION,
}
# bytes of the columns that are processed together
BLOCK_BYTES = 16 << 20
# largest entry that can be squared and summed
LARGEST_ENTRY = 1e145
# least share of a squared length that must be left after subtracting means and always-included columns, for ten digits
LEAST_LEFT = 1e-6


def open_columns(X: Any, names: Sequence[str] | None) -> "StoredColumns | None":
    """A reader of X if it is a .npy file or one of genotypes, an array mapped from a file, sparse, or genotypes; None otherwise."""
    if isinstance(X, (str, os.PathLike)):
        X = _open_file(Path(X))
    if isinstance(X, Genotypes):
        return StoredColumns(_Mapped(X.values.T, True), X.names if names is None else names, True)
    if hasattr(X, "tocsc"):
        return StoredColumns(_Sparse(X), names, names is not None)
    if isinstance(X, np.memmap) and X.ndim == 2 and X.dtype == np.bool_:
        X = X.view(np.int8)
    if isinstance(X, np.memmap) and X.ndim == 2 and X.size and X.dtype in CODES:
        return StoredColumns(_Mapped(_by_columns(X), False), names, names is not None)
    return None


def _open_file(path: Path) -> Any:
    kind = path.suffix.lower()
    if has_genotypes(path):
        return open_genotypes(path).read()
    if kind != ".npy":
        raise ArgumentTypeError(
            f"X is the path of a file, {path.name}, that Problem cannot read by itself: it reads .npy, .bed, .pgen, .raw and .vcf. "
            "Read tables first, for instance with pandas.read_csv"
        )
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"X: there is no file {path}") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"X: {path} is not a complete .npy file of numbers ({error}); write it again with numpy.save"
        ) from error
    if array.ndim != 2 or array.dtype.kind not in NUMERIC:
        raise DataError(
            f"X: {path} contains an array of {array.dtype} with {array.ndim} dimensions; it must be a table of numbers"
        )
    if array.dtype == np.bool_ or array.dtype in CODES:
        return array
    raise DataError(
        f"X: {path} contains {array.dtype}; mapped files can contain int8, bool, float32 or float64. Convert it, "
        "or give numpy.load(…) of it, which is then read into memory as float64"
    )


def _by_columns(X: np.memmap) -> np.ndarray:
    """The columns as contiguous rows: not copied if they are contiguous already, otherwise copied, to a temporary file if
    they are large."""
    columns, size = X.T, X.size * X.itemsize
    if columns.flags.c_contiguous or size <= BLOCK_BYTES:
        return np.ascontiguousarray(columns)
    warnings.warn(
        f"X is mapped from a file that is stored row by row, so that columns cannot be read quickly; a copy of {size / 1e6:,.0f} MB "
        "is made in the directory for temporary files (TMPDIR). No copy is needed if the file is written with "
        "numpy.save(path, numpy.asfortranarray(X))",
        DataWarning,
        stacklevel=5,
    )
    step = max(1, BLOCK_BYTES // max(X.shape[0] * X.itemsize, 1))
    try:
        with tempfile.TemporaryFile() as stream:
            for first in range(0, X.shape[1], step):
                np.ascontiguousarray(columns[first : first + step]).tofile(stream)
            stream.flush()
            return np.asarray(np.memmap(stream, X.dtype, "r", shape=columns.shape))
    except OSError as error:
        raise DataError(
            f"X: the copy by columns cannot be written ({error.strerror}); set TMPDIR to a directory with "
            f"{size / 1e6:,.0f} MB of free space, or write the file with numpy.asfortranarray"
        ) from error


class _Mapped:
    """Dense columns, stored one after the other."""

    def __init__(self, array: np.ndarray, marks_missing: bool) -> None:
        self.array, self.marks_missing = array, marks_missing
        self.shape = (array.shape[1], array.shape[0])

    def block(self, index: np.ndarray, names: list[str]) -> np.ndarray:
        """Columns as rows of float64, (k, N), NaN where missing."""
        adjacent = len(index) and index[-1] - index[0] == len(index) - 1 and (np.diff(index) == 1).all()
        stored = self.array[index[0] : index[-1] + 1] if adjacent else self.array[index]
        out = stored.astype(np.float64)
        if self.marks_missing:
            out[is_missing(stored)] = np.nan
        if not self.marks_missing or stored.dtype.kind == "f":
            known = np.where(np.isnan(out), 0.0, out) if self.marks_missing else out
            check_finite(known.T, [names[i] for i in index], "X")
        return out

    def fill(self, index: np.ndarray, means: np.ndarray) -> None:
        """Put means in place of missing dosages, in a copy. Kernels know missing counts only."""
        if not (self.marks_missing and self.array.dtype.kind == "f"):
            return
        gaps = [(j, mean) for j, mean in zip(index, means) if np.isnan(self.array[j]).any()]
        if gaps:
            self.array = self.array.copy()
        for j, mean in gaps:
            self.array[j, np.isnan(self.array[j])] = mean

    def arrays(self) -> dict[str, np.ndarray]:
        code = CODES[self.array.dtype]
        return {{SMALL: "small", SINGLE_PRECISION: "single", DOUBLE_PRECISION: "double"}[code]: self.array}

    @property
    def code(self) -> int:
        return CODES[self.array.dtype]


class _Sparse:
    """A copy of the entries of a sparse matrix, by columns."""

    code = SPARSE

    def __init__(self, X: Any) -> None:
        if X.ndim != 2:
            raise DataError(f"X must be a table of rows and columns (2 dimensions), not {X.ndim}")
        if X.dtype.kind not in NUMERIC:
            what = "complex numbers" if X.dtype.kind == "c" else f"{X.dtype}"
            raise ArgumentTypeError(f"X is a sparse matrix of {what}; give it as real numbers")
        self.matrix = sparse.csc_array(X, dtype=np.float64, copy=True)
        self.matrix.sum_duplicates()
        self.shape = self.matrix.shape

    def check(self, names: list[str]) -> None:
        bad = np.flatnonzero(~np.isfinite(self.matrix.data))
        if bad.size:
            column = int(np.searchsorted(self.matrix.indptr, bad[0], side="right")) - 1
            raise not_finite(
                "X", names[column], self.matrix.data[bad[0]], self.matrix.indices[bad[0]], bad.size
            )

        largest = np.zeros(self.shape[1])
        column_of = np.repeat(np.arange(self.shape[1]), np.diff(self.matrix.indptr))
        np.maximum.at(largest, column_of, np.abs(self.matrix.data))
        _check_sizes(largest, names)

    def block(self, index: np.ndarray, names: list[str]) -> np.ndarray:
        return self.matrix[:, index].T.toarray()

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "values": self.matrix.data,
            "rows": self.matrix.indices,
            "starts": self.matrix.indptr,
        }


def _check_sizes(sizes: np.ndarray, names: list[str]) -> None:
    """DataError unless columns with these largest entries, or lengths, can be squared and summed."""
    bad = np.flatnonzero((sizes > 0) & ~((sizes > 1 / LARGEST_ENTRY) & (sizes < LARGEST_ENTRY)))
    if bad.size:
        word, remedy = ("large", "divide") if sizes[bad[0]] > 1 else ("small", "multiply")
        raise DataError(
            f"X column {names[bad[0]]!r} is too {word} to be squared; {remedy} it by a power of ten"
        )


class StoredColumns:
    """A ``columns.ColumnReader`` of columns that stay as they are stored."""

    def __init__(
        self, source: _Mapped | _Sparse, names: Sequence[str] | None, has_names: bool, what: str = "X"
    ) -> None:
        self.source, self.has_names, self.shape = source, has_names, source.shape
        self.names = check_columns(names, source.shape[1], what)
        if isinstance(source, _Sparse):
            source.check(self.names)
        self.used = np.ones(self.shape[0], bool)

    def keep_rows(self, used: np.ndarray) -> None:
        self.used = used

    def blocks(self, index: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Positions in `index`, and the columns there as rows, (k, n), NaN where missing."""
        step = max(1, BLOCK_BYTES // (8 * self.shape[0]))
        for first in range(0, len(index), step):
            place = slice(first, min(first + step, len(index)))
            block = self.source.block(index[place], self.names)
            yield place, block if self.used.all() else np.ascontiguousarray(block[:, self.used])

    def raw(self, index: Sequence[int]) -> np.ndarray:
        """Columns as float64, (n, k), NaN where missing."""
        out = np.zeros((int(self.used.sum()), len(index)))
        for place, block in self.blocks(np.asarray(index, np.int64)):
            out[:, place] = block.T
        return out

    def take(self, index: Sequence[int], weights: np.ndarray) -> np.ndarray:
        values = self.raw(index)
        _fill_missing(values.T, weights)
        return values

    def measure(
        self, candidates: np.ndarray, root_weights: np.ndarray, basis: np.ndarray, y: np.ndarray
    ) -> Measured:
        self.candidates, self.basis = candidates, basis
        self.root = root_weights / root_weights.max()
        direction = residuals(random_direction(len(y)), basis)
        self.missing = np.zeros(len(candidates), np.int64)
        self.loads = np.zeros((len(candidates), basis.shape[1] if basis.shape[1] > 1 else 0))
        self.along = np.zeros((len(candidates), 2))  # products with y and with the random direction
        if isinstance(self.source, _Sparse):
            self.measured = self._measure_sparse(self.source, y, direction)
        else:
            measured = [self._measure_block(*block, y, direction) for block in self.blocks(candidates)]
            self.measured = Measured(*map(np.concatenate, zip(*measured)))
        self._check_range()
        self._warn_of_missing()
        return self.measured

    def _measure_block(
        self, place: slice, block: np.ndarray, y: np.ndarray, direction: np.ndarray
    ) -> Measured:
        self.missing[place] = _fill_missing(block, self.root**2)
        basis = self.basis if self.loads.shape[1] else None
        columns, measured = residual_rows(block, self.root, basis)  # `block` is centred now
        power = measured.power[:, None]
        if self.loads.shape[1]:
            self.loads[place] = (block * self.root) @ self.basis * power
        self.along[place] = columns @ np.column_stack([y, direction]) * power
        return measured

    def _measure_sparse(self, source: _Sparse, y: np.ndarray, direction: np.ndarray) -> Measured:
        """Measure columns from sums over their entries; columns for which these leave few digits are measured densely."""
        matrix, n = source.matrix, len(y)
        root = self._long(self.root)
        weights = root**2
        total = weights.sum()
        squares = sparse.csc_array((matrix.data**2, matrix.indices, matrix.indptr), matrix.shape)
        whole = (squares.T @ weights)[self.candidates]
        mean = (matrix.T @ weights)[self.candidates] / total
        centred = whole - total * mean**2
        against = self._long(np.column_stack([y, direction, self.basis])) * root[:, None]
        products = (matrix.T @ against)[self.candidates] - mean[:, None] * against.sum(axis=0)
        self.along = products[:, :2]
        if self.loads.shape[1]:
            self.loads = products[:, 2:]
        left = centred - (self.loads**2).sum(axis=1)
        with np.errstate(invalid="ignore"):
            measured = Measured(
                np.ones(len(mean)), np.sqrt(whole), mean,
                np.sqrt(centred / (total * (n - 1) / n)), np.sqrt(left),
            )  # fmt: skip
        doubtful = np.flatnonzero(~(left > LEAST_LEFT * whole))
        for place, block in self.blocks(self.candidates[doubtful]):
            _, accurate = residual_rows(block, self.root, self.basis)
            for old, new in zip(measured, accurate):
                old[doubtful[place]] = new
        return measured

    def _check_range(self) -> None:
        """DataError if entries cannot be squared, or if little of a column is left after projection."""
        m = self.measured
        _check_sizes(m.whole * m.power, [self.names[i] for i in self.candidates])
        alive = m.lengths > 1e-12 * m.whole
        exact = self.source.code == SPARSE
        before = m.whole if exact else m.spread * np.sqrt((self.root**2).sum())
        bad = np.flatnonzero(alive & ~(m.lengths**2 > LEAST_LEFT * before**2))
        if bad.size:
            name = self.names[self.candidates[bad[0]]]
            why, what_to_do = (
                ("constant", "subtract its mean, or ")
                if exact and m.spread[bad[0]] < 1e-2 * abs(m.mean[bad[0]])
                else ("a combination of the always-included columns", "")
            )
            raise DataError(
                f"X column {name!r} is so nearly {why} that products with it have too few digits in the form in which X is "
                f"stored; {what_to_do}leave it out, or give X as an ordinary array"
            )

    def _warn_of_missing(self) -> None:
        count = int(self.missing.sum())
        if count:
            share = count / len(self.missing) / len(self.root)
            warnings.warn(
                f"{count:,} genotype{'s are' if count > 1 else ' is'} missing ({100 * share:.2g}%, in {int((self.missing > 0).sum()):,} of "
                f"{len(self.missing):,} columns); each is replaced by the mean of its column",
                DataWarning,
                stacklevel=4,
            )

    def arrange(self, index: np.ndarray) -> None:
        power = self.measured.power[index]
        self.lengths, self.power = self.measured.lengths[index] * power, power
        self.means = self.measured.mean[index] * power
        self.along, loads = self.along[index], self.loads[index]
        root = self._long(self.root)
        plain = bool((root == 1).all())
        if isinstance(self.source, _Mapped):
            self.source.fill(self.candidates[index], self.means)
        self.held = new_stored(
            self.source.code,
            **self.source.arrays(),
            where=self.candidates[index],
            missing=self.missing[index] > 0,
            centre=self.means,
            factor=1 / self.lengths,
            loads=loads,
            weights=np.zeros(0) if plain else root**2,
            total_weight=float(root @ root),
            basis=self._long(self.basis if loads.shape[1] else np.zeros((len(self.root), 0))),
        )

    def _long(self, rows: np.ndarray) -> np.ndarray:
        """Insert zeros for the rows that are left out."""
        out = np.zeros((len(self.used), *rows.shape[1:]))
        out[self.used] = rows
        return out

    def means_and_products(self, share: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        return self.means, lambda basis: (basis.T @ self.basis) @ self.held.loads.T

    def find_duplicates(self) -> list[list[int]]:
        def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            out = np.zeros(len(a))
            pair_products(self.held, a, b, out)
            return out

        return equal_pairs(np.abs(self.along[:, 1]) / self.lengths, cosines)

    def scale(self, units: np.ndarray, top: float, divide: bool) -> np.ndarray:
        factor = top / (units * self.power) if divide else top * units / self.power
        self.held = new_stored(**{**self.held._asdict(), "factor": factor})
        return (factor * self.lengths) ** 2

    def products(self, gram: bool, y: np.ndarray) -> Products:
        nothing, factor = np.zeros((0, 0)), self.held.factor
        xty = self.along[:, 0] * factor
        if not gram:
            return Products(nothing, nothing, (factor * self.lengths) ** 2, xty, self.held)
        products = gram_matrix(self.held)
        return Products(products, nothing, np.diagonal(products).copy(), xty)


def _fill_missing(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Replace the NaN in each row by its weighted mean; returns their numbers, (k,)."""
    missing = np.isnan(rows)
    count = missing.sum(axis=1)
    for i in np.flatnonzero(count):
        seen = weights * ~missing[i]
        rows[i, missing[i]] = np.nan_to_num(rows[i]) @ seen / seen.sum() if seen.any() else 0.0
    return count


def gram_matrix(held: Stored) -> np.ndarray:
    """XᵀX, computed for some columns or some rows at a time."""
    P, n = len(held.where), len(held.basis)
    out = np.zeros((P, P))
    weights = held.weights if len(held.weights) else np.ones(n)
    if held.code == SPARSE:
        shape = (n, len(held.starts) - 1)
        matrix = sparse.csc_array((held.values, held.rows, held.starts), shape)[:, held.where]
        step = max(1, BLOCK_BYTES // (8 * P))
        for first in range(0, P, step):
            weighted = sparse.csc_array(matrix[:, first : first + step].multiply(weights[:, None]))
            out[:, first : first + step] = (matrix.T @ weighted).toarray()
        out -= held.total_weight * np.outer(held.centre, held.centre)
    else:
        array = {SMALL: held.small, SINGLE_PRECISION: held.single, DOUBLE_PRECISION: held.double}[held.code]
        step = max(1, BLOCK_BYTES // (8 * P))
        for first in range(0, n, step):
            raw = array[:, first : first + step][held.where]
            rows = raw - held.centre[:, None]
            rows[(raw == MISSING) & held.missing[:, None]] = 0.0
            rows *= np.sqrt(weights[first : first + step])
            out += rows @ rows.T
    out -= held.loads @ held.loads.T
    out *= np.outer(held.factor, held.factor)
    return (out + out.T) / 2
