"""Reading what users bring: frames, arrays and sparse matrices into columns of float64 with names, checked
one by one."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from whichvars.errors import ArgumentTypeError, DataError


class Columns(NamedTuple):
    values: np.ndarray  # (n, P) float64
    names: list[str]
    has_names: bool  # whether the names came with the data


def read_columns(X: Any, what: str = "X") -> Columns:
    """X as a float64 matrix with column names; refuses text, missing and infinite values by column and
    row."""
    if hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, np.ndarray):
        out = _from_frame(X, what)
    elif hasattr(X, "tocsc"):
        out = _from_array(X.toarray(), what)
    else:
        out = _from_array(X, what)
    check_unique(out.names, f"column names of {what}")
    check_finite(out.values, out.names, what)
    return out


def _from_frame(frame: Any, what: str) -> Columns:
    names = [str(c) for c in frame.columns]
    n = len(frame)
    values = np.empty((n, len(names)))
    for i, name in enumerate(names):
        series = frame.iloc[:, i] if hasattr(frame, "iloc") else frame[frame.columns[i]]
        values[:, i] = _as_floats(series, f"{what} column {name!r}")
    return Columns(values, names, True)


def _as_floats(series: Any, label: str) -> np.ndarray:
    kind = str(series.dtype)
    if any(word in kind.lower() for word in ("date", "time", "duration")):
        raise ArgumentTypeError(
            f"{label} holds dates or times; turn it into a number (days since a start, month, …) or drop it"
        )
    if any(word in kind.lower() for word in ("cat", "enum", "str", "utf8")):
        raise ArgumentTypeError(
            f"{label} holds text or categories; encode it as 0/1 columns and name them as one group (groups=…), or drop it"
        )
    try:
        raw = series.to_numpy(dtype=float, na_value=np.nan) if hasattr(series, "iloc") else series.to_numpy()
        return np.asarray(raw, dtype=float)
    except (ValueError, TypeError):
        raise ArgumentTypeError(
            f"{label} holds {_first_text(series)!r}, which is not a number; encode or drop the column"
        ) from None


def _first_text(values: Iterable[Any]) -> Any:
    for value in values:
        try:
            float(value)
        except (ValueError, TypeError):
            return value
    return "a value"


def _from_array(X: Any, what: str) -> Columns:
    array = np.asarray(X)
    if array.ndim == 1 and array.dtype != object:
        raise DataError(f"{what} is one-dimensional; for a single variable write {what}.reshape(-1, 1)")
    if array.ndim != 2:
        raise DataError(f"{what} must be a table of rows and columns (2 dimensions), not {array.ndim}")
    if array.dtype.kind == "c":
        raise ArgumentTypeError(
            f"{what} holds complex numbers; give their real and imaginary parts as columns"
        )
    names = [f"x{i}" for i in range(array.shape[1])]
    if array.dtype.kind not in "biuf":
        for i, name in enumerate(names):
            try:
                array[:, i].astype(float)
            except (ValueError, TypeError):
                raise ArgumentTypeError(
                    f"{what} column {i} ({name}) holds {_first_text(array[:, i])!r}, which is not a number; encode or drop it"
                ) from None
    return Columns(array.astype(np.float64, order="C"), names, False)


def read_vector(values: Any, n: int | None, what: str) -> np.ndarray:
    """`values` as a float64 vector of length n; refuses other shapes, text, missing and infinite values by
    row."""
    if hasattr(values, "tocsc"):
        values = values.toarray()
    raw = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if raw.ndim == 2 and raw.shape[1] == 1:
        raw = raw[:, 0]
    if raw.ndim != 1:
        raise DataError(f"{what} must be one column of numbers; it has shape {raw.shape}")
    try:
        if raw.dtype.kind in "cMm":
            raise TypeError
        vector = raw.astype(np.float64)
    except (ValueError, TypeError):
        raise ArgumentTypeError(f"{what} holds {_first_text(raw)!r}, which is not a number") from None
    if n is not None and len(vector) != n:
        raise DataError(
            f"X has {n} rows but {what} has {len(vector)}; they must be the same observations in the same order"
        )
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        raise DataError(
            f"{what} is {_describe(vector[bad[0]])} in row {bad[0]}{_others(bad.size)}; drop or fill such rows first"
        )
    return vector


def check_finite(values: np.ndarray, names: list[str], what: str) -> None:
    """DataError naming column and row of the first value that is NaN or infinite."""
    if np.isfinite(values.sum()) or np.isfinite(values).all():
        return
    rows, columns = np.nonzero(~np.isfinite(values))
    first = np.lexsort((rows, columns))[0]
    row, column = rows[first], columns[first]
    raise DataError(
        f"{what} column {names[column]!r} is {_describe(values[row, column])} in row {row}{_others(len(rows))}; "
        "drop the row or the column, or fill the value in, first"
    )


def _describe(value: float) -> str:
    return "missing (NaN)" if np.isnan(value) else "infinite"


def _others(count: int) -> str:
    return f" (and {count - 1} more such values)" if count > 1 else ""


def check_unique(names: list[str], what: str) -> None:
    """DataError naming the first name that occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"the {what} hold {name!r} more than once; rename one of them")
        seen.add(name)


def find_columns(wanted: Any, names: list[str], what: str) -> list[int]:
    """Indices of columns given by name or by index."""
    if isinstance(wanted, (str, int, np.integer)):
        wanted = [wanted]
    place = {name: i for i, name in enumerate(names)}
    found = []
    for item in wanted:
        if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            if not -len(names) <= item < len(names):
                raise DataError(
                    f"{what}: there is no column {item}; X has {len(names)} columns, 0 to {len(names) - 1}"
                )
            found.append(int(item) % len(names))
        elif str(item) in place:
            found.append(place[str(item)])
        else:
            raise DataError(f"{what}: there is no column {item!r}{_suggest(str(item), names)}")
    return list(dict.fromkeys(found))


def _suggest(name: str, names: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, names, n=1)
    return (
        f"; did you mean {close[0]!r}?"
        if close
        else f"; the columns are {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
    )
