"""Frames of other libraries as frames of pandas, without the packages that these libraries need for it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from whichvars.errors import DataError


def is_table(X: Any) -> bool:
    """Whether X is a table with named columns: a frame of pandas or polars, a pyarrow table or a dictionary of columns."""
    if isinstance(X, np.ndarray) or hasattr(X, "tocsc"):
        return False
    if isinstance(X, Mapping):
        return True
    return (hasattr(X, "columns") and hasattr(X, "__len__")) or _is_lazy(X)


def _is_lazy(X: Any) -> bool:
    return type(X).__name__ == "LazyFrame" and hasattr(X, "collect")


def plain_table(X: Any) -> Any:
    """X; a lazy frame, a pyarrow table or a dictionary of columns as a frame."""
    if isinstance(X, Mapping) and is_table(X):
        try:
            return pd.DataFrame(dict(X))
        except ValueError as error:
            raise DataError(f"X is a dictionary that is no table: {error}") from None
    if _is_lazy(X):
        return X.collect()
    return X.to_pandas() if hasattr(X, "column_names") and hasattr(X, "to_pandas") else X


def as_pandas(X: Any) -> pd.DataFrame:
    """A table with named columns as a frame of pandas."""
    X = plain_table(X)
    if isinstance(X, pd.DataFrame):
        return X
    if not hasattr(X, "get_columns"):  # something else with columns, such as a frame of Dask
        return pd.DataFrame({name: pd.Series(list(X[name])) for name in X.columns})
    series = [_of_polars(column) for column in X.get_columns()]
    frame = pd.concat(series, axis=1) if series else pd.DataFrame(index=range(len(X)))
    return frame.set_axis(list(X.columns), axis=1)


def _of_polars(column: Any) -> pd.Series:
    """A column of polars. An Enum has an order of its own, and the categories of a Categorical have none."""
    kind = str(column.dtype)
    if kind.startswith("Enum"):
        return pd.Series(pd.Categorical(column.to_list(), column.dtype.categories.to_list()))
    if kind.startswith("Categorical"):
        values = column.to_list()
        levels = sorted({value for value in values if value is not None})
        return pd.Series(pd.Categorical(values, levels))
    if kind == "String":
        return pd.Series(column.to_list(), dtype=object)
    if kind.startswith(("Int", "UInt", "Float", "Boolean")) and column.null_count() == 0:
        return pd.Series(column.to_numpy())
    if kind.startswith("Date"):
        return pd.Series(pd.to_datetime(column.to_list()))
    if kind.startswith("Duration"):
        return pd.Series(pd.to_timedelta(column.to_list()))
    return pd.Series(column.to_list(), dtype=object)
