"""Checks, by the row labels of pandas objects, that X, y and weights have the same observations in the same order."""

from typing import Any

import numpy as np
import pandas as pd

from whichvars.data.frames import wrong_length
from whichvars.errors import DataError


def check_same_rows(n: int | None, X: Any, *, part: bool = False, **others: Any) -> None:
    """Raise one DataError for all of `others` (y, weights; by name of the argument) whose rows differ from those of X.

    Labels are compared if both tables have them. Arrays and polars frames have none. The default labels of pandas, 0, 1,
    2, …, count as positions and not as labels, unless the other table has the same numbers in another order; if the tables
    are a `part` of larger ones, positions need not begin at 0. Lengths are compared with `n`, unless it is None.
    """
    faults = []
    known = [("X", X)]
    for what, values in others.items():
        if n is not None and (length := _length(values)) not in (None, n):
            faults.append(wrong_length(what, n, length))
            continue
        pairs = ((name, _labels_of_both(other, values, part)) for name, other in known)
        first, pair = next(((name, pair) for name, pair in pairs if pair is not None), ("", None))
        fault = None if pair is None else _difference(first, pair[0], what, pair[1])
        if fault:
            faults.append(fault)
        else:
            known.append((what, values))
    if len(faults) == 1:
        raise DataError(faults[0])
    if faults:
        raise DataError(
            f"the rows of {len(faults)} arguments do not match:" + "".join(f"\n- {f}" for f in faults)
        )


def labels_of(values: Any, part: bool = False) -> pd.Index | None:
    """The row labels of a pandas object or of genotypes; None if it has none, or only positions: 0, 1, 2, …"""
    index = getattr(values, "index", None)  # for lists, this is a method
    if not isinstance(index, pd.Index):
        return None
    if isinstance(index, pd.RangeIndex) and index.step == 1 and (part or index.start == 0):
        return None
    return index


def _labels_of_both(first: Any, second: Any, part: bool) -> tuple[pd.Index, pd.Index] | None:
    """The labels of two tables of the same length, if both have labels that can be compared."""
    a, b = labels_of(first, part), labels_of(second, part)
    if a is None and b is not None and _reorders(b, first):
        a = first.index
    elif b is None and a is not None and _reorders(a, second):
        b = second.index
    return None if a is None or b is None or len(a) != len(b) else (a, b)


def _reorders(labels: pd.Index, values: Any) -> bool:
    """Whether labels are the positions 0, 1, 2, … of a pandas object in another order, as after ``df.sample(frac=1)``."""
    index = getattr(values, "index", None)
    if not (isinstance(index, pd.RangeIndex) and index.start == 0 and len(index) == len(labels)):
        return False
    return labels.dtype.kind in "iu" and bool((np.sort(labels.to_numpy()) == np.arange(len(labels))).all())


def _length(values: Any) -> int | None:
    """The number of rows of a single column; None for anything else, for which there is an error elsewhere."""
    shape: tuple[Any, ...] = getattr(values, "shape", ())
    return int(shape[0]) if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1) else None


def _difference(first: str, a: pd.Index, second: str, b: pd.Index) -> str | None:
    """How the labels of two tables of the same length differ, and what to do; None if they are the same."""
    if a.equals(b):
        return None
    ours, theirs = a.tolist(), b.tolist()
    row = next((i for i, (p, q) in enumerate(zip(ours, theirs)) if not _same(p, q)), None)
    if row is None:  # only the types of the indices differ
        return None
    where = f"row {row} is {_shown(ours[row])} in {first} but {_shown(theirs[row])} in {second}"
    by_place = f"if the rows do match in their present order, write {second} = {second}.to_numpy()"
    shared = set(ours) & set(theirs)
    if len(shared) == len(a):
        return (
            f"{second} has the rows of {first} in another order ({where}); "
            f"write {second} = {second}.loc[{first}.index], or, {by_place}"
        )
    if shared == set(ours) == set(theirs):
        return (
            f"{second} has the row labels of {first} in another order, and some of them more than once ({where}), so "
            f"that labels cannot tell which rows match; take {first} and {second} from one table, or, {by_place}"
        )
    if not shared:
        return (
            f"{first} and {second} have no row label in common ({where}); "
            f"take them from one table, or, {by_place}"
        )
    return (
        f"{first} and {second} have different rows ({where}); take those that both have, "
        f"rows = {first}.index.intersection({second}.index), as {first}.loc[rows] and {second}.loc[rows], or, {by_place}"
    )


def _same(p: Any, q: Any) -> bool:
    if isinstance(p, tuple) and isinstance(q, tuple):
        return len(p) == len(q) and all(map(_same, p, q))
    if pd.isna(p) or pd.isna(q):
        return bool(pd.isna(p) and pd.isna(q))
    return bool(p == q)


def _shown(label: Any) -> str:
    """A label in plain notation, for any type of number or date."""
    if isinstance(label, tuple):
        return f"({', '.join(map(_shown, label))})"
    if isinstance(label, np.generic):
        label = label.item()
    return repr(label) if isinstance(label, str) else str(label)
