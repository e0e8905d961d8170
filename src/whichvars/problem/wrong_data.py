"""All that is wrong with the data of a ``Problem``, told at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from whichvars.data.encoding import numbered
from whichvars.data.frames import TWO_WORDS, read_vector
from whichvars.data.gaps import refuse_gaps
from whichvars.data.kinds import FRAME
from whichvars.data.tables import is_table
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.arguments import read_root_weights
from whichvars.problem.families import Gaussian, read_rows
from whichvars.problem.missing import Rows

MISSING = "is missing (NaN)"
IMPUTING = 'let wv.VariableSelector(missing="impute") fill them in'


@contextmanager
def telling_all(rows: Rows) -> Iterator[None]:
    """If an error about X is raised inside, raise one that also tells what is wrong with y, weights and offset, and which other values of X are
    missing."""
    try:
        yield
    except DataError as error:
        of_columns = _lines(str(error))
        of_columns += _wrong_in_others(rows.X, _named(rows.X, of_columns), of_columns)
        names = _named(rows.X, of_columns)
        of_rows = _faults_beside(rows)
        if not of_rows and len(of_columns) == len(_lines(str(error))):
            if len(of_columns) == 1 and MISSING in of_columns[0]:
                raise DataError(f"{of_columns[0]}, or {FRAME.gaps}, or {IMPUTING}") from error
            raise
        lines = [*of_rows, *of_columns]
        shown = "".join(f"\n- {line}" for line in lines)
        raise DataError(
            f"{len(lines)} things are wrong:{shown}{_advice(rows, names, of_rows, of_columns)}"
        ) from error


def _lines(text: str) -> list[str]:
    first, *others = text.split("\n- ")
    return others or [first]


def _named(X: Any, lines: list[str]) -> list[str]:
    """The columns of a table that cannot be used, except for missing values."""
    if not is_table(X):
        return []
    wrong = [line.removeprefix("X ") for line in lines if MISSING not in line and FRAME.gaps not in line]
    return [
        name for name in map(str, X.columns) if any(line.startswith(f"column {name!r} ") for line in wrong)
    ]


def _wrong_in_others(X: Any, names: list[str], lines: list[str]) -> list[str]:
    """Infinite and missing values in columns that are not named; missing ones unless they are what the error was about."""
    if not is_table(X) or not (names or any(MISSING in line for line in lines)):
        return []
    frame = numbered(X)[0].drop(columns=names)
    numbers = frame.select_dtypes("number")
    bad = np.isinf(numbers.to_numpy(dtype=float, na_value=np.nan))
    found = [
        f"column {numbers.columns[j]!r} is infinite in row {int(bad[:, j].argmax())}; correct the value, or leave out the row or the column"
        for j in np.flatnonzero(bad.any(axis=0)).tolist()
    ]
    if any(MISSING in line for line in lines):
        return found
    return found + _attempts(lambda: refuse_gaps(frame, FRAME, FRAME.gaps, droppable=True))


def _faults_beside(rows: Rows) -> list[str]:
    """What is wrong with y, weights and offset."""
    try:
        n = len(rows.y)
    except TypeError:
        return []
    everything = np.ones(n, bool)
    faults = _attempts(lambda: read_root_weights(rows.weights, n))
    if isinstance(rows.family, Gaussian):
        return faults + _attempts(lambda: _check_gaussian(rows.y, n))
    return faults + _attempts(lambda: read_rows(rows.family, rows.y, rows.offset, everything))


def _check_gaussian(y: Any, n: int) -> None:
    if n > 1 and np.ptp(read_vector(y, n, "y")) == 0:
        raise DataError("y is constant; there is nothing to explain")


def _attempts(check: Callable[[], Any]) -> list[str]:
    try:
        check()
    except (DataError, ArgumentTypeError) as error:
        return _lines(str(error))
    return []


def _advice(rows: Rows, names: list[str], of_rows: list[str], of_columns: list[str]) -> str:
    """The call that would work, if the columns that are wrong can be left out."""
    if not is_table(rows.X) or len(names) == rows.X.shape[1]:
        return ""
    gaps = any(MISSING in line or FRAME.gaps in line for line in [*of_rows, *of_columns])
    X = f"X.drop(columns={names!r})" if names else "X"
    two_words = any(TWO_WORDS in line for line in of_rows)
    more = f", {TWO_WORDS}" * two_words + ', missing="drop"' * gaps
    call = f"wv.Problem({X}, y{more})"
    right = all(MISSING in line or TWO_WORDS in line for line in of_rows)
    return (
        f"\nThe data can be used with {call}"
        if right
        else f"\nWhen y is right, the data can be used with {call}"
    )
