"""Moments of arrays, frames and Dask collections, computed from a slice of rows at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pandas as pd

from whichvars.data.frames import find_columns, read_columns, read_vector, wrong_length
from whichvars.data.moments import CELLS, Accumulator, M, check_same_columns, no_rows
from whichvars.data.rows import check_same_rows
from whichvars.errors import ArgumentTypeError, DataError


def sum_rows(
    cls: type[M],
    X: Any,
    y: Any,
    weights: Any,
    names: Any,
    responses: Any,
    first_row: int = 0,
) -> M:
    """The statistics of arrays or frames, from a slice of their rows at a time."""
    total: Accumulator | None = None
    for start, tables in _slices(X, y, weights):
        total = add_rows(cls, total, *tables, names, responses, first_row + start)
    assert total is not None  # a table without rows gives one empty slice
    return total.total()  # type: ignore[return-value]


def _slices(X: Any, y: Any, weights: Any) -> Iterator[tuple[int, tuple[Any, Any, Any]]]:
    """The first row of each slice, and the same rows of X, y and weights; objects without a shape are not sliced."""
    given = [table.tocsr() if hasattr(table, "tocsr") else table for table in (X, y, weights)]
    shapes: list[Any] = [getattr(table, "shape", None) for table in given if table is not None]
    if not all(shapes):
        yield 0, (X, y, weights)
        return
    n = shapes[0][0]
    for what, shape in zip(("y", "weights"), shapes[1:]):
        if shape[0] != n:
            raise DataError(wrong_length(what, n, shape[0]))
    step = max(1, CELLS // max(1, sum(int(np.prod(shape[1:])) for shape in shapes)))
    for start in range(0, max(n, 1), step):
        rows = slice(start, start + step)
        X, y, weights = (
            None if table is None else table.iloc[rows] if hasattr(table, "iloc") else table[rows]
            for table in given
        )
        yield start, (X, y, weights)


def add_rows(
    cls: type[M],
    total: Accumulator | None,
    X: Any,
    y: Any,
    weights: Any,
    names: Any,
    responses: Any,
    first_row: int = 0,
) -> Accumulator:
    values, names, has_names = read_columns(X, names=names, first_row=first_row)
    if not names:
        raise DataError("X has no columns; nothing can be learnt from it")
    outcome, responses = _read_responses(y, len(values), responses, first_row)
    precision = None
    if weights is not None:
        precision = read_vector(weights, len(values), "weights", first_row)
        check_weights(precision, first_row)
    if total is None:
        total = Accumulator(no_rows(cls, names, responses, has_names))
    check_same_columns(total.empty, names, responses, "this one")
    total.add([*values.T, *outcome.T], precision)
    return total


def _read_responses(y: Any, n: int, responses: Any, first_row: int) -> tuple[np.ndarray, list[str]]:
    """Responses as columns, (n, r), and their names."""
    if isinstance(responses, str):
        responses = [responses]
    several = len(getattr(y, "shape", ())) == 2 and y.shape[1] != 1
    if several:
        values, names, has_names = read_columns(y, "y", responses, first_row)
        if not names:
            raise DataError("y has no columns")
        if len(values) != n:
            raise DataError(f"X has {n} rows but y has {len(values)}; they must be the same observations")
        return values, names if has_names else [f"y{i}" for i in range(len(names))]
    name_of_y = getattr(y, "columns", [getattr(y, "name", None)])[0]
    names = ["y" if name_of_y is None else str(name_of_y)] if responses is None else list(map(str, responses))
    if len(names) != 1:
        raise DataError(f"responses has {len(names)} names but y is one column")
    return read_vector(y, n, "y", first_row)[:, None], names


def check_weights(weights: np.ndarray, first_row: int) -> None:
    bad = np.flatnonzero(weights < 0)
    if bad.size:
        raise DataError(
            f"weights is negative in row {first_row + bad[0]} ({weights[bad[0]]:g}); weights are precisions and cannot be negative"
        )


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Make the messages of errors inside begin with a place."""
    try:
        yield
    except (DataError, ArgumentTypeError) as error:
        raise type(error)(f"{where}: {error}") from error


# --- Dask


def dask_parts(X: Any, y: Any, weights: Any) -> Iterator[tuple[str, int, Any, Any, Any]]:
    """For each part of X: its name in messages, its first row (0 if unknown), and its X, y and weights."""
    if not hasattr(X, "to_delayed"):
        raise ArgumentTypeError(
            f"from_dask needs a Dask array or data frame, not {type(X).__name__}; use from_arrays for other data"
        )
    is_frame = hasattr(X, "columns")
    starts = [0]
    if not is_frame:
        if X.ndim != 2:
            raise DataError(f"X must be a table of rows and columns (2 dimensions), not {X.ndim}")
        X = X.rechunk({1: -1})
        starts = np.concatenate([[0], np.cumsum(X.chunks[0])]).tolist()
    pieces = X.to_delayed() if is_frame else X.to_delayed().ravel()
    others = [_beside(table, X, len(pieces), what) for table, what in ((y, "y"), (weights, "weights"))]
    for i, piece in enumerate(pieces):
        known = i < len(starts) and np.isfinite(starts[i])
        place = "" if known and not is_frame else f"part {i}"
        yield place, int(starts[i]) if known else 0, piece, others[0][i], others[1][i]


def _beside(table: Any, X: Any, parts: int, what: str) -> Sequence[Any]:
    """The parts of y or of weights that match those of X."""
    if table is None:
        return [None] * parts
    if _names_in(table) and hasattr(X, "columns"):
        find_columns(_names_in(table), [str(name) for name in X.columns], what)
        return [table] * parts
    if not hasattr(table, "to_delayed"):
        raise ArgumentTypeError(
            f"{what} must be a Dask collection like X, or the name of a column of a data frame, not {type(table).__name__}"
        )
    if hasattr(table, "rechunk") and hasattr(X, "rechunk"):
        if np.isfinite(X.shape[0]) and np.isfinite(table.shape[0]):
            if table.shape[0] != X.shape[0]:
                raise DataError(
                    f"X has {X.shape[0]} rows but {what} has {table.shape[0]}; they must be the same observations"
                )
            table = table.rechunk({0: X.chunks[0]})
        table = table.rechunk({1: -1}) if table.ndim == 2 else table
    pieces = table.to_delayed()
    pieces = pieces.ravel() if hasattr(pieces, "ravel") else pieces
    if len(pieces) != parts:
        raise DataError(
            f"X has {parts} parts but {what} has {len(pieces)}; divide them in the same way (repartition or rechunk)"
        )
    return pieces


def sum_part(
    cls: type[M],
    place: str,
    first_row: int,
    X: Any,
    y: Any,
    weights: Any,
    names: Any,
    responses: Any,
) -> M:
    """The statistics of one part of a Dask collection, computed on a worker."""
    with placed(place) if place else nullcontext():
        if isinstance(X, pd.DataFrame):
            taken = [*_names_in(y), *_names_in(weights)]
            y = X[_names_in(y)] if _names_in(y) else y
            weights = X[weights] if isinstance(weights, str) else weights
            X = X.drop(columns=taken)
        check_same_rows(None, X, part=True, y=y, weights=weights)
        return sum_rows(cls, X, y, weights, names, responses, first_row)


def _names_in(given: Any) -> list[str]:
    """The names of columns, if names are given instead of numbers."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, (list, tuple)) and all(isinstance(name, str) for name in given):
        return list(given)
    return []
