"""Rows of the arguments of a ``Problem`` that have missing values, and the arguments without them."""

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.data.frames import wrong_length
from whichvars.data.gaps import (
    complete_rows,
    cost_of_gaps,
    empty_columns,
    left_out,
    mostly_missing,
    without_response,
)
from whichvars.data.kinds import FRAME
from whichvars.data.records import Record
from whichvars.data.tables import as_pandas, is_table
from whichvars.errors import DataError, DataWarning


class Rows(NamedTuple):
    """The arguments of a ``Problem`` that have one entry for each row."""

    X: Any
    y: Any
    weights: Any = None
    offset: Any = None
    covariates: Any = None
    family: Any = None

    def at(self, rows: np.ndarray) -> "Rows":
        """Some rows, by position."""
        trials = getattr(self.family, "trials", None)
        family = self.family
        if trials is not None and np.ndim(trials) > 0:
            family = replace(family, trials=np.asarray(trials)[rows])
        X, y, weights, offset, covariates = (_rows_of(v, rows) for v in self[:5])
        return Rows(X, y, weights, offset, covariates, family)


def missing_in(X: Any) -> pd.DataFrame:
    """Which cells of X are missing, (n, columns) bool, by the names of its columns."""
    if is_table(X):
        frame = as_pandas(X)
        return pd.DataFrame(frame.isna().to_numpy(), columns=[str(name) for name in frame.columns])
    if isinstance(X, np.ma.MaskedArray):
        table = np.ma.getmaskarray(X)
    elif isinstance(X, (np.ndarray, list, tuple)) and np.ndim(X) == 2:
        table = pd.isna(np.asarray(X))
    else:
        raise DataError(
            "missing is for tables and arrays in memory; a sparse matrix, genotypes and files are read as they are"
        )
    return pd.DataFrame(table, columns=[f"x{i}" for i in range(table.shape[1])])


def missing_in_vector(values: Any, n: int, what: str) -> np.ndarray:
    """Which entries are missing, (n,) bool."""
    raw = values.to_numpy() if hasattr(values, "to_numpy") else values
    gaps = pd.isna(np.asarray(np.ma.filled(raw, np.nan) if isinstance(raw, np.ma.MaskedArray) else raw))
    gaps = gaps.any(axis=1) if gaps.ndim == 2 else gaps
    if gaps.shape != (n,):
        raise DataError(wrong_length(what, n, len(gaps) if gaps.ndim else None))
    return gaps


def drop_missing(rows: Rows) -> tuple[Rows, tuple[str, ...], Record]:
    """The rows without missing values, what was done, and how many they were. Columns without any value are left out first."""
    gaps = missing_in(rows.X)
    n, X = len(gaps), rows.X
    empty, notes = empty_columns(gaps), []
    if empty and len(empty) < gaps.shape[1]:
        notes.append(f"Left out columns without any value: {', '.join(map(repr, empty))}.")
        X = without_columns(X, gaps.columns.isin(empty))
        gaps = gaps.drop(columns=empty)
    lost = missing_in_vector(rows.y, n, "y")
    for name in ("weights", "offset", "covariates"):
        values = getattr(rows, name)
        if values is not None and np.ndim(values) > 0:
            lost = lost | missing_in_vector(values, n, name)
    whole = complete_rows(gaps, lost, FRAME)
    said = cost_of_gaps(gaps, missing_in_vector(rows.y, n, "y"))
    if not whole.all():
        said.append(left_out(int((~whole).sum()), n))
    notes += said
    if notes:
        warnings.warn(" ".join(notes), DataWarning, stacklevel=3)
    rows = rows._replace(X=X)
    rows = rows if whole.all() else rows.at(np.flatnonzero(whole))
    return rows, tuple(notes), Record("", n, int((~whole).sum()))


def warn_of_gaps(X: Any, y: Any) -> None:
    """A warning of what one should know even if missing values are imputed: rows without a response are left out, and some columns are mostly
    missing."""
    gaps = missing_in(X)
    lost = missing_in_vector(y, len(gaps), "y")
    notes = without_response(lost) + mostly_missing(gaps[~lost])
    if notes:
        warnings.warn(" ".join(notes), DataWarning, stacklevel=4)


def without_columns(X: Any, empty: np.ndarray) -> Any:
    """A table or array without some columns, (columns,) bool."""
    if is_table(X):
        frame = as_pandas(X)
        return frame.loc[:, ~np.asarray(empty)]
    return np.asarray(X)[:, ~np.asarray(empty)]


def _rows_of(values: Any, rows: np.ndarray) -> Any:
    if is_table(values):
        values = as_pandas(values)
    if values is None or np.ndim(values) == 0:
        return values
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if hasattr(values, "gather"):  # a series of polars
        return values.gather(rows)
    return np.asarray(values)[rows]
