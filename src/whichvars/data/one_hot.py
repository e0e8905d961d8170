"""One-hot columns that another program made of categories, recognised by the prefixes of their names."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from whichvars.data.kinds import to_floats
from whichvars.data.tables import as_pandas, is_table
from whichvars.errors import ArgumentTypeError, DataError

# between the name of a category and its level
MARK = "_"


def prefix_groups(X: Any, prefixes: Any) -> dict[str, list[str]]:
    """Groups of columns by the prefixes of their names, by the name of the group.

    prefixes : texts with which names begin; or True, to find columns of 0 and 1 that share the text up to a "_" and of which at most one is 1 in
    every row. If several prefixes would do, the shortest is taken, so that levels may contain the mark, and names of categories too.
    """
    if prefixes is None or prefixes is False:
        return {}
    if not is_table(X):
        raise DataError(
            "group_by_prefix needs the names of columns; give a frame, or let the step before make one with set_output(transform='pandas')"
        )
    frame = as_pandas(X)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    if prefixes is True:
        return _found(frame)
    given = [prefixes] if isinstance(prefixes, str) or not isinstance(prefixes, Iterable) else list(prefixes)
    if not all(isinstance(prefix, str) for prefix in given):
        raise ArgumentTypeError(
            f'group_by_prefix must be True or prefixes of names, such as ["city_", "region_"], not {prefixes!r}'
        )
    groups: dict[str, list[str]] = {}
    for prefix in given:
        members = [name for name in frame.columns if name.startswith(prefix)]
        if not members:
            raise DataError(f"group_by_prefix: no column has a name that begins with {prefix!r}")
        groups[_name(prefix, list(frame.columns))] = members
    return groups


def _found(frame: pd.DataFrame) -> dict[str, list[str]]:
    names, columns = [], []
    for i, name in enumerate(frame.columns):
        column = frame.iloc[:, i]
        if MARK not in name or not pd.api.types.is_numeric_dtype(column.dtype):
            continue
        values = to_floats(column)
        if np.isin(values, (0.0, 1.0)).all():
            names.append(name)
            columns.append(values > 0)
    left, groups = dict(zip(names, columns)), dict[str, list[str]]()
    candidates = {name[: i + 1] for name in names for i in range(len(name) - 1) if name[i] == MARK}
    for prefix in sorted(candidates, key=lambda p: (len(p), p)):
        members = [name for name in left if name.startswith(prefix)]
        if len(members) > 1 and np.sum([left[name] for name in members], axis=0).max() <= 1:
            common = max((p for p in candidates if all(name.startswith(p) for name in members)), key=len)
            groups[_name(common, list(frame.columns))] = members
            for name in members:
                del left[name]
    order = {name: i for i, name in enumerate(frame.columns)}
    return dict(sorted(groups.items(), key=lambda item: order[item[1][0]]))


def _name(prefix: str, columns: list[str]) -> str:
    """The name of a group: its prefix without the mark, unless a column is called that."""
    short = prefix.rstrip(MARK) or prefix
    return prefix if short in columns else short
