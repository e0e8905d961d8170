"""What ``from_summary`` and ``check_summary`` are given: scores, effects with standard errors, correlations and numbers."""

from typing import Any

import numpy as np
import pandas as pd

from whichvars.data.frames import check_unique, read_columns, read_vector
from whichvars.errors import ArgumentTypeError, DataError

# rows of a problem whose number is not known
UNKNOWN_ROWS = 10**9
# largest difference of R and its transpose that is taken as rounding
ASYMMETRY = 1e-5
# variants that an error names
SHOWN = 8


def read_summary(
    z: Any, beta: Any, se: Any, R: Any, names: Any
) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray | None]:
    """The names, the z-scores, the symmetric matrix of correlations and the standard errors, all in the order of R."""
    if (z is None) == (beta is None) or (beta is None) != (se is None):
        raise ArgumentTypeError("give z, or beta and se")
    _refuse_variants_that_do_not_vary(R, names)
    table = read_columns(R, "R", names)
    labels, matrix = table.names, np.array(table.values, float)
    check_unique(labels, "names of variants")
    p = len(labels)
    if matrix.shape != (p, p) or p == 0:
        raise DataError(f"R must be a square table, not of shape {matrix.shape}")
    if hasattr(R, "iloc") and names is None:
        rows = [str(name) for name in R.index]
        if sorted(rows) == sorted(labels) and rows != labels:
            raise DataError(
                "R has the names of its columns as row labels, but in another order; write R.loc[R.columns]"
            )
    known, given = labels if table.has_names else None, z if z is not None else beta
    if known is None and _is_labelled(given) and len(given) == p:
        # R has no names, so that those of the scores are the only ones
        known = [str(name) for name in given.index]
        check_unique(known, f"names of {'z' if z is not None else 'beta'}")
        labels = labels if given.index.dtype.kind in "iuf" else known
    errors = None if se is None else _one_each(se, known, p, "se")
    scores = _one_each(given, known, p, "z" if z is not None else "beta")
    if errors is not None:
        bad = np.flatnonzero(errors <= 0)
        if bad.size:
            raise DataError(
                f"se is {errors[bad[0]]:g} {_place(known, bad[0])}; standard errors are positive: leave the variant out of beta, se and R"
            )
        scores = scores / errors
    if not scores.any():
        raise DataError(
            f"all {'z' if z is not None else 'beta'} are 0; there is nothing to explain. Is this the right column?"
        )
    _check_matrix(matrix, labels)
    return labels, scores, (matrix + matrix.T) / 2, errors


def _refuse_variants_that_do_not_vary(R: Any, names: Any) -> None:
    """DataError that names variants without any correlation, as variants have that are the same in all people."""
    values = np.asarray(R)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or values.dtype.kind != "f":
        return
    empty = np.flatnonzero(np.isnan(values).sum(axis=1) >= max(len(values) - 1, 2))
    if empty.size:
        labels = names if names is not None else R.columns if hasattr(R, "columns") else None
        some = ", ".join(f"x{j}" if labels is None else repr(str(labels[j])) for j in empty[:SHOWN])
        raise DataError(
            f"R has no correlations of {empty.size:,} variant{'s' * (empty.size > 1)} ({some}{', …' * (empty.size > SHOWN)}), probably because "
            f"{'they do' if empty.size > 1 else 'it does'} not vary in the people of R; leave {'them' if empty.size > 1 else 'it'} out of R and of the scores"
        )


def _is_labelled(values: Any) -> bool:
    return isinstance(values, pd.Series) and not isinstance(values.index, pd.RangeIndex)


def _place(labels: list[str] | None, i: int) -> str:
    return f"in row {i}" if labels is None else f"of {labels[i]!r}, row {i} of R"


def _one_each(values: Any, labels: list[str] | None, p: int, what: str) -> np.ndarray:
    """One number for each variant. Labels of a Series are compared with the names of R, and may be in another order."""
    if isinstance(values, pd.DataFrame) and values.shape[1] == 1:
        values = values.iloc[:, 0]
    if _is_labelled(values) and labels is not None:
        own = [str(name) for name in values.index]
        check_unique(own, f"names of {what}")
        theirs, ours = set(labels), set(own)
        lacking, more = (
            [name for name in labels if name not in ours],
            [name for name in own if name not in theirs],
        )
        if lacking or more:
            who, where = (lacking, "R but not in " + what) if lacking else (more, what + " but not in R")
            raise DataError(
                f"{len(who):,} variants are in {where}, such as {who[0]!r}; take those that both have, in one order"
            )
        place = {name: i for i, name in enumerate(own)}
        values = values.iloc[[place[name] for name in labels]]
    if len(values) == p and getattr(getattr(values, "dtype", None), "kind", "") == "f":
        bad = np.flatnonzero(~np.isfinite(np.asarray(values).ravel()))
        if bad.size:
            what_is = "missing (NaN)" if np.isnan(np.asarray(values).ravel()[bad[0]]) else "infinite"
            raise DataError(
                f"{what} is {what_is} {_place(labels, bad[0])} (one of {bad.size:,}); leave such variants out here and in R"
            )
    vector = read_vector(values, None, what)
    if len(vector) != p:
        raise DataError(f"{what} has {len(vector)} numbers but R has {p} variants")
    return vector


def _check_matrix(matrix: np.ndarray, labels: list[str]) -> None:
    off = np.argwhere(np.abs(matrix - matrix.T) > ASYMMETRY)
    if len(off):
        a, b = off[0]
        raise DataError(
            f"R is not symmetric: {matrix[a, b]:g} of {labels[a]!r} with {labels[b]!r}, {matrix[b, a]:g} the other way; if it is one half of "
            "the matrix, add its transpose"
        )
    wrong = np.flatnonzero(np.abs(np.diagonal(matrix) - 1) > 1e-3)
    if wrong.size:
        j = wrong[0]
        raise DataError(
            f"the correlation of {labels[j]!r} with itself is {matrix[j, j]:g} in R, not 1; divide covariances by standard deviations"
        )
    np.fill_diagonal(matrix, 1.0)
    large = np.argwhere(np.abs(matrix) > 1 + ASYMMETRY)
    if len(large):
        a, b = large[0]
        raise DataError(
            f"the correlation of {labels[a]!r} with {labels[b]!r} is {matrix[a, b]:g}; it must lie between -1 and 1"
        )
    np.clip(matrix, -1.0, 1.0, out=matrix)


def read_n(n: Any) -> int:
    if n is None:
        return UNKNOWN_ROWS
    if isinstance(n, (float, np.floating)) and float(n).is_integer():
        n = int(n)
    if np.ndim(n):
        raise DataError(
            "n must be one number for all variants; if it differs, take the variants measured in nearly everybody, and the number of these people"
        )
    if isinstance(n, (float, np.floating)) and n >= 3 and np.isfinite(n):
        raise DataError(f"n must be a whole number, not {n!r}; round it")
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 3:
        raise DataError(f"n must be a whole number of at least 3, not {n!r}")
    return int(n)


def read_share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value <= 1:
        raise DataError(f"regularise must be 'auto' or a number between 0 and 1, not {value!r}")
    return float(value)


def read_y_sd(value: Any) -> float:
    """The standard deviation of y; 1 if it was not given."""
    if value is None:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
        raise DataError(f"y_sd must be a positive number, the standard deviation of y, not {value!r}")
    return float(value)
