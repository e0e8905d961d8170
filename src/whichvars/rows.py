"""Whether X, y and weights are the same observations in the same order, as far as the row labels of pandas tell."""

from typing import Any

import numpy as np
import pandas as pd

from whichvars.errors import DataError
from whichvars.inputs import wrong_length


def check_same_rows(n: int | None, X: Any, *, part: bool = False, **others: Any) -> None:
    """DataError, one for all that is found, where `others` (y, weights; by the names of arguments) are not rows of X.

    Labels are compared where both sides have some; pandas' own 0, 1, 2, … are places and not labels, and arrays, polars
    and the like have none. Lengths are compared with `n`, unless it is None. Where the tables are a `part` of larger
    ones, their places need not begin at 0.
    """
    faults = []
    known = [("X", labels_of(X, part))]
    for what, values in others.items():
        if n is not None and (length := _length(values)) not in (None, n):
            faults.append(wrong_length(what, n, length))
            continue
        labels = labels_of(values, part)
        first, reference = next(((name, index) for name, index in known if index is not None), ("", None))
        if labels is not None and reference is not None and len(labels) == len(reference):
            fault = _difference(first, reference, what, labels)
            if fault:
                faults.append(fault)
                continue
        known.append((what, labels))
    if len(faults) == 1:
        raise DataError(faults[0])
    if faults:
        raise DataError(
            f"the rows of {len(faults)} arguments do not go together:" + "".join(f"\n- {f}" for f in faults)
        )


def labels_of(values: Any, part: bool = False) -> pd.Index | None:
    """The labels of the rows of a pandas object; None where there are none, or only places: 0, 1, 2, …"""
    index = getattr(values, "index", None)  # a method of lists
    if not isinstance(index, pd.Index):
        return None
    if isinstance(index, pd.RangeIndex) and index.step == 1 and (part or index.start == 0):
        return None
    return index


def _length(values: Any) -> int | None:
    """Rows of a single column; None where it is none, which is said elsewhere."""
    shape: tuple[Any, ...] = getattr(values, "shape", ())
    return int(shape[0]) if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1) else None


def _difference(first: str, a: pd.Index, second: str, b: pd.Index) -> str | None:
    """What is wrong with the labels of two tables of the same length, and what to do; None if nothing is."""
    if a.equals(b):
        return None
    ours, theirs = a.tolist(), b.tolist()
    row = next((i for i, (p, q) in enumerate(zip(ours, theirs)) if not _same(p, q)), None)
    if row is None:  # kinds of index differ, labels do not
        return None
    where = f"row {row} is {_shown(ours[row])} in {first} but {_shown(theirs[row])} in {second}"
    by_place = f"if they do belong together as they stand, write {second} = {second}.to_numpy()"
    shared = set(ours) & set(theirs)
    if len(shared) == len(a):
        return (
            f"{second} has the rows of {first} in another order ({where}); "
            f"write {second} = {second}.loc[{first}.index], or, {by_place}"
        )
    if shared == set(ours) == set(theirs):
        return (
            f"{second} has the row labels of {first} in another order, and some of them more than once ({where}), so "
            f"that labels do not tell which rows belong together; take {first} and {second} from one table, or, {by_place}"
        )
    if not shared:
        return (
            f"{first} and {second} have no row label in common ({where}); "
            f"take them from one table, or, {by_place}"
        )
    return (
        f"{first} and {second} have other rows ({where}); take those that both have, "
        f"rows = {first}.index.intersection({second}.index), as {first}.loc[rows] and {second}.loc[rows], or, {by_place}"
    )


def _same(p: Any, q: Any) -> bool:
    if isinstance(p, tuple) and isinstance(q, tuple):
        return len(p) == len(q) and all(map(_same, p, q))
    if pd.isna(p) or pd.isna(q):
        return bool(pd.isna(p) and pd.isna(q))
    return bool(p == q)


def _shown(label: Any) -> str:
    """A label as one would write it, whatever kind of number or date it is."""
    if isinstance(label, tuple):
        return f"({', '.join(map(_shown, label))})"
    if isinstance(label, np.generic):
        label = label.item()
    return repr(label) if isinstance(label, str) else str(label)
