"""``--slab correlated:FILE``: covariances of coefficients, and their means, from a table with the names of columns."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichvars.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from whichvars.problem.correlated_prior import CorrelatedNormal
    from whichvars.problem.problem import Problem

NAME, MEAN = "correlated", "mean"
# the name of a first column without one
UNNAMED = "(names)"
# names that a message shows
SHOWN = 5


def file_of_slab(text: str | None) -> Path | None:
    """The file that ``--slab`` names; None if it names another slab.

    >>> file_of_slab("correlated:prior.csv").name, file_of_slab("g-prior:100")
    ('prior.csv', None)
    """
    name, _, path = (text or "").partition(":")
    if name != NAME:
        return None
    if not path:
        raise DataError(
            "--slab correlated needs a file of covariances, as in --slab correlated:prior.csv: a square table with the names of the columns in its first line"
        )
    return Path(path)


def with_file_of_slab(problem: "Problem", text: str | None) -> "Problem":
    """The problem under the prior that ``--slab`` names a file of; the same problem if it does not."""
    path = file_of_slab(text)
    return problem if path is None else problem.with_priors(slab=read_correlated(path, problem.columns_used))


def read_correlated(path: Path, names: list[str]) -> "CorrelatedNormal":
    """The prior in a file, for the columns of these names in this order."""
    import whichvars as wv
    from whichvars.data.files import read_table

    if not path.is_file():
        raise DataError(f"--slab correlated: there is no file {path}")
    first = read_table(path, label=UNNAMED).frame.columns[0]
    table = read_table(path, text=[first], label=UNNAMED)
    frame = table.frame
    if table.decimal_comma:
        frame = frame.map(lambda cell: cell.replace(",", ".") if isinstance(cell, str) else cell)
    header = [str(name) for name in frame.columns]
    rows = frame[first].astype(str).str.strip()
    has_means = MEAN in header and MEAN not in names
    columns = [name for name in header if not (has_means and name == MEAN)]
    if str(first) not in names and not set(rows).isdisjoint(columns):
        columns = columns[1:]
        _check_names(path, "rows", rows.tolist(), names)
        frame = frame.set_axis(rows, axis="index")
    _check_names(path, "columns", columns, names)
    if len(frame) != len(columns):
        raise DataError(
            f"{path} has {len(columns)} columns of covariances but {len(frame)} rows; it needs a row for each column, in the same order or with names in the "
            "first column"
        )
    if frame.index.tolist() == list(range(len(frame))):
        frame = frame.set_axis(columns, axis="index")
    covariance = [[_number(path, frame, i, j) for j in names] for i in names]
    means = [_number(path, frame, i, MEAN) for i in names] if has_means else None
    try:
        return wv.CorrelatedNormal(covariance, means)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _check_names(path: Path, what: str, found: list[str], names: list[str]) -> None:
    """DataError unless these are the names, in any order; it tells all that is wrong with them."""
    wrong = []
    if twice := sorted({name for name in found if found.count(name) > 1}):
        wrong.append(f"{_listed(twice)} twice")
    if missing := [name for name in names if name not in set(found)]:
        wrong.append(f"no {_listed(missing)}")
    if more := [name for name in found if name not in set(names)]:
        wrong.append(f"{_listed(more)}, which the data do not have as candidates")
    if wrong:
        raise DataError(
            f"{path}: among its {what} there is {'; and '.join(wrong)}. It needs a row and a column for each candidate column: {_listed(names)}"
        )


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:SHOWN]) + (
        f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    )


def _number(path: Path, frame: "pd.DataFrame", row: Any, column: Any) -> float:
    value = frame.loc[row, column]
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if number != number:
        raise DataError(f"{path}: the cell in row {row!r} and column {column!r} is {value!r}; write a number")
    return number
