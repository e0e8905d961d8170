"""Reading frames, arrays and sparse matrices into named float64 columns, each of which is checked."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import pandas as pd

from whichvars.errors import ArgumentTypeError, DataError

# kinds of dtypes that are numbers
NUMERIC = "biuf"
# most names of columns in a message
SHOWN = 20
ENCODE = "encode it as 0/1 columns and name them as one group (groups=…), as VariableSelector.from_formula does, or drop it"
# covariates are always in, and need no groups
DUMMIES = (
    "make 0/1 columns of it, as pandas.get_dummies(covariates, drop_first=True, dtype=float) does, or drop it"
)


class Columns(NamedTuple):
    values: np.ndarray  # (n, P) float64
    names: list[str]
    has_names: bool  # whether the names came with the data


def read_columns(
    X: Any, what: str = "X", names: Sequence[str] | None = None, first_row: int = 0, gaps: bool = False
) -> Columns:
    """X as a new float64 matrix with column names; an error for text, missing and infinite values names the column and
    row.

    `names` replace the names that X has; without either, columns are x0, x1, … Rows are counted from `first_row`. With `gaps`, values may
    be missing, and are NaN.
    """
    if _is_frame(X):
        own_names = [str(c) for c in X.columns]
        table = X.to_numpy(dtype=np.float64, copy=True) if _all_plain(X) else None
        n = len(X)
    else:
        table = _as_array(X.toarray() if hasattr(X, "tocsc") else X, what)
        if table.ndim == 1:
            raise DataError(
                f"{what} is one-dimensional; for a single variable write {what}.reshape(-1, 1), "
                f"or {what}.to_frame() if it is a Series"
            )
        if table.ndim != 2:
            raise DataError(f"{what} must be a table of rows and columns (2 dimensions), not {table.ndim}")
        own_names = [f"x{i}" for i in range(table.shape[1])]
        n = len(table)
    used_names = own_names if names is None else read_names(names, len(own_names), what)
    check_unique(used_names, f"column names of {what}" if names is None else "names")
    if table is not None and table.dtype.kind in NUMERIC:
        with np.errstate(over="ignore"):
            values = table if _is_frame(X) else table.astype(np.float64)  # what frames gave is a copy
    else:  # column by column, so that errors can name it
        values = np.empty((n, len(used_names)), order="F")
        for i, name in enumerate(used_names):
            column = _frame_column(X, i) if table is None else table[:, i]
            advice = DUMMIES if what == "covariates" else ENCODE
            values[:, i] = _as_floats(column, f"{what} column {name!r}", advice)
    check_finite(values, used_names, what, first_row, gaps)
    return Columns(values, used_names, names is not None or _is_frame(X))


def read_vector(values: Any, n: int | None, what: str, first_row: int = 0) -> np.ndarray:
    """`values` as a new float64 vector of length n; an error for other shapes, text, missing and infinite values names
    the row, counted from `first_row`."""
    if _is_frame(values) and len(values.columns) == 1:
        values = _frame_column(values, 0)
    elif hasattr(values, "tocsc"):
        values = values.toarray()
    column = values if _is_series(values) else _as_array(values, what)
    if len(column.shape) == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if len(column.shape) != 1:
        raise DataError(f"{what} must be one column of numbers; it has shape {column.shape}")
    try:
        vector = _as_floats(column, what, "give it as numbers")
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}{_advice_on_words(column, what)}") from None
    if n is not None and len(vector) != n:
        raise DataError(wrong_length(what, n, len(vector)))
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        raise DataError(
            f"{what} is {_describe(vector[bad[0]])} in row {first_row + bad[0]}{_others(bad.size)}; drop or fill such rows first"
        )
    return vector


def refuse_words(values: Any, what: str) -> None:
    """ArgumentTypeError if a vector contains words; nothing else is checked."""
    words = _words_in(values)
    if words and not _are_numbers(words):
        read_vector(values, None, what)


def _words_in(values: Any) -> list[str]:
    """The distinct strings in a vector; none if it contains anything else too."""
    raw = values.to_numpy() if hasattr(values, "to_numpy") else values
    try:
        array = np.asarray(raw)
        distinct = dict.fromkeys([] if array.dtype.kind in NUMERIC else array.ravel().tolist())
    except (TypeError, ValueError):  # it is not a vector
        return []
    texts = [value for value in distinct if isinstance(value, str)]
    return texts if len(texts) == len(distinct) else []


def _are_numbers(words: list[str]) -> bool:
    try:
        return bool(np.isfinite([float(word) for word in words]).all())
    except ValueError:
        return False


# what to do about a response of two words; `problem/wrong_data.py` looks for it
TWO_WORDS = 'family="logistic"'


def _advice_on_words(column: Any, what: str) -> str:
    """The end of a message: how a response of words can be given as numbers; empty for anything else."""
    words = _words_in(column)
    if what != "y" or not words:
        return ""
    if _are_numbers(words):
        return ": write y = np.asarray(y, dtype=float)"
    if len(words) == 2:
        return f", or use {TWO_WORDS} or VariableSelectorClassifier, which model the odds of {max(words)!r}"
    return (
        f": the model is linear, and classes ({', '.join(map(repr, words[:3]))}{', …' if len(words) > 3 else ''}) can be its "
        "response only if they have an order that numbers can represent"
    )


def wrong_length(what: str, n: int, length: int | None) -> str:
    """The message if X has n rows and something else has another number."""
    return f"X has {n} rows but {what} has {length}; they must be the same observations in the same order"


# --- containers


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "__len__") and not isinstance(X, np.ndarray)


def _all_plain(frame: Any) -> bool:
    """Whether every column of a pandas frame has a numeric numpy dtype."""
    return hasattr(frame, "iloc") and all(isinstance(d, np.dtype) and d.kind in NUMERIC for d in frame.dtypes)


def _is_series(values: Any) -> bool:
    return hasattr(values, "to_numpy") and hasattr(values, "dtype") and getattr(values, "ndim", 1) == 1


def _frame_column(frame: Any, i: int) -> Any:
    return frame.iloc[:, i] if hasattr(frame, "iloc") else frame[frame.columns[i]]


def _as_array(values: Any, what: str) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray):  # masked values are missing
        array = values.data.astype(object)
        array[np.ma.getmaskarray(values)] = None
        return array
    try:
        return np.asarray(values)
    except ValueError:
        raise DataError(f"{what} has rows of different lengths; it must be a full table") from None


# --- values


def _as_floats(column: Any, label: str, advice: str) -> np.ndarray:
    """One column, a Series or an array, as float64; missing values become NaN."""
    kind = str(column.dtype).lower()
    if any(word in kind for word in ("date", "time", "duration")):
        raise ArgumentTypeError(
            f"{label} contains dates or times; name it in expand=[wv.date(…)], which makes days, months, weekdays and seasons of dates, turn "
            "times into numbers, or drop it"
        )
    if any(word in kind for word in ("cat", "enum", "str", "utf8")):
        raise ArgumentTypeError(f"{label} contains text or categories; {advice}")
    if "complex" in kind:
        raise ArgumentTypeError(
            f"{label} contains complex numbers; give their real and imaginary parts as columns"
        )
    if isinstance(column, pd.Series) and pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(dtype=float, na_value=np.nan, copy=True)
    raw = column.to_numpy() if _is_series(column) else column
    if raw.dtype.kind in NUMERIC:
        with np.errstate(over="ignore"):
            return raw.astype(np.float64)
    return np.array([_as_float(value, label, advice) for value in raw.tolist()], dtype=float)


def _as_float(value: Any, label: str, advice: str) -> float:
    if value is None or value is pd.NA:
        return np.nan
    try:
        if not isinstance(value, (str, bytes, np.timedelta64)):
            return float(value)
    except OverflowError:
        return np.inf
    except (TypeError, ValueError):
        pass
    raise ArgumentTypeError(f"{label} contains {value!r}, which is not a number; {advice}")


def check_finite(
    values: np.ndarray, names: list[str], what: str, first_row: int = 0, gaps: bool = False
) -> None:
    """DataError naming the column and row of the first value that is infinite or, unless there may be `gaps`, NaN."""
    bad = np.isinf(values) if gaps else ~np.isfinite(values)
    if not bad.any():
        return
    column = int(bad.any(axis=0).argmax())
    row = int(bad[:, column].argmax())
    raise not_finite(what, names[column], values[row, column], first_row + row, int(bad.sum()))


def not_finite(what: str, name: str, value: float, row: int, count: int) -> DataError:
    """The error for `count` values that are NaN or infinite; it names the first of them."""
    return DataError(
        f"{what} column {name!r} is {_describe(value)} in row {row}{_others(count)}; "
        "drop the row or the column, or fill the value in, first"
    )


def _describe(value: float) -> str:
    return "missing (NaN)" if np.isnan(value) else "infinite"


def _others(count: int) -> str:
    return "" if count == 1 else f" (and {count - 1} more such value{'s' if count > 2 else ''})"


# --- names


def check_columns(names: Sequence[str] | None, count: int, what: str) -> list[str]:
    """Names for `count` columns: those given, or x0, x1, …"""
    if names is None:
        return [f"x{i}" for i in range(count)]
    checked = read_names(names, count, what)
    check_unique(checked, "names")
    return checked


def read_names(names: Any, count: int, what: str) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ArgumentTypeError(f"names must be a list with one name per column of {what}, not {names!r}")
    out = [str(name) for name in names]
    if len(out) != count:
        raise DataError(f"names has {len(out)} entries but {what} has {count} columns; give one per column")
    return out


def check_unique(names: list[str], what: str) -> None:
    """DataError naming the first name that occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"the {what} contain {name!r} more than once; rename one of them")
        seen.add(name)


def find_columns(wanted: Any, names: list[str], what: str) -> list[int]:
    """The sorted, distinct indices of columns given by name or by index."""
    if isinstance(wanted, (str, int, np.integer)):
        wanted = [wanted]
    if not isinstance(wanted, Iterable):
        raise ArgumentTypeError(f"{what} must be column names or indices, not {wanted!r}")
    place = {name: i for i, name in enumerate(names)}
    indices = set()
    for item in wanted:
        by_name = place.get(str(item))
        by_index = None
        if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            by_index = int(item) % len(names) if -len(names) <= item < len(names) else None
            if by_index is None and by_name is None:
                raise DataError(
                    f"{what}: there is no column {item}; there are {len(names)} columns, 0 to {len(names) - 1}"
                )
            if by_index is not None and by_name is not None and by_index != by_name:
                raise DataError(
                    f"{what}: {item} could mean the column named {str(item)!r} or the one at index {item}, "
                    f"{names[by_index]!r}; write the name as text: {str(item)!r} or {names[by_index]!r}"
                )
        index = by_index if by_name is None else by_name
        if index is None:
            raise DataError(f"{what}: there is no column {item!r}{suggest(str(item), names)}")
        indices.add(index)
    return sorted(indices)


def suggest(name: str, names: list[str]) -> str:
    close = get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; the columns are {', '.join(names[:SHOWN])}{', …' if len(names) > SHOWN else ''}"


def check_level(interval: object) -> None:
    """DataError unless `interval` is None or a probability between 0 and 1."""
    if interval is not None and not (_is_number(interval) and 0 < interval < 1):
        raise DataError(f"interval must be a probability between 0 and 1, such as 0.9, not {interval!r}")


def check_share(value: object, name: str) -> None:
    """DataError unless `value` is a number from 0 to 1."""
    if not (_is_number(value) and 0 <= value <= 1):
        raise DataError(f"{name} must be a number from 0 to 1, not {value!r}")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
