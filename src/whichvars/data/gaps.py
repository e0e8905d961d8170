"""Missing values in tables: what they cost, rows without them, and the error if they are not to be there."""

from typing import Any

import numpy as np
import pandas as pd

from whichvars.data.kinds import FILE, Advice
from whichvars.errors import DataError

# share of a column's cells above which it is remarked upon that most are missing
MOST = 0.5
# most columns that a note names
NAMED = 8


def empty_columns(gaps: pd.DataFrame) -> list[str]:
    """Columns in which every cell is missing; `gaps`, (n, columns) bool, says which are."""
    return [str(name) for name, empty in zip(gaps.columns, gaps.to_numpy().all(axis=0)) if empty]


def cost_of_gaps(gaps: pd.DataFrame, response: np.ndarray | None = None) -> list[str]:
    """What is to be said about missing values: how many each column has, and how many rows have no other.

    `response`, (n,) bool, says in which rows the response is missing; these are not counted for the columns.
    """
    notes = without_response(response)
    if response is not None:
        gaps = gaps[~response]
    table = gaps.to_numpy()
    if not table.any():
        return notes
    by_row = table.sum(axis=1)
    counts, alone = table.sum(axis=0), (table & (by_row == 1)[:, None]).sum(axis=0)
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    shown = [f"{gaps.columns[i]!r} in {counts[i]:,} (alone in {alone[i]:,})" for i in order[:NAMED].tolist()]
    rest = f", and {len(order) - NAMED} more columns" if len(order) > NAMED else ""
    rows = int((by_row > 0).sum())
    verb = "has" if rows == 1 else "have"
    notes.append(f"{rows:,} of {len(table):,} rows {verb} missing values: {', '.join(shown)}{rest}.")
    return notes + mostly_missing(gaps)


def without_response(response: np.ndarray | None) -> list[str]:
    """What is to be said of rows whose response is missing, (n,) bool."""
    if response is None or not response.any():
        return []
    count = int(response.sum())
    verb = "is" if count == 1 else "are"
    return [f"The response is missing in {count:,} of {len(response):,} rows, which {verb} left out."]


def left_out(rows: int, among: int) -> str:
    """
    >>> left_out(1, 30), left_out(1200, 3000)
    ('1 of 30 rows is left out.', '1,200 of 3,000 rows are left out.')
    """
    return f"{rows:,} of {among:,} rows {'is' if rows == 1 else 'are'} left out."


def mostly_missing(gaps: pd.DataFrame) -> list[str]:
    """What is to be said of columns with more than half of their cells missing."""
    counts = gaps.to_numpy().sum(axis=0)
    order = np.argsort(-counts, kind="stable")
    much = [i for i in order.tolist() if MOST * len(gaps) < counts[i] < len(gaps)]
    return [
        f"Column {gaps.columns[i]!r} is missing in {counts[i] / len(gaps):.0%} of the rows; what it says rests on the others."
        for i in much[:NAMED]
    ]


def complete_rows(gaps: pd.DataFrame, response: np.ndarray | None, advice: Advice) -> np.ndarray:
    """The rows without missing values, (n,) bool; DataError if there are none."""
    table = gaps.to_numpy()
    whole = ~table.any(axis=1)
    if response is not None:
        whole &= ~response
    if not whole.any():
        if response is not None and response.all():
            raise DataError("the response is missing in every row; name another response")
        worst = str(gaps.columns[int(table.sum(axis=0).argmax())])
        raise DataError(
            f"every row has a missing value; column {worst!r} has the most: {advice.to('drop', worst)}, or {advice.impute}"
        )
    return whole


def refuse_gaps(
    frame: pd.DataFrame, advice: Advice, rows: str, column: str = "", droppable: bool = False
) -> None:
    """DataError if there are missing values, with advice on their rows, or on the column if it is empty."""
    gaps = frame.isna().to_numpy()
    if not gaps.any():
        return
    first = int(gaps.any(axis=0).argmax())
    row = advice.row(frame, int(gaps[:, first].argmax()))
    count, columns = int(gaps.sum()), int(gaps.any(axis=0).sum())
    name = frame.columns[first]
    if gaps[:, first].all():
        what = column or (advice.to("drop", name) if droppable else "fill it in: the run was made with it")
        raise DataError(f"column {name!r} is empty; {what}")
    more = (
        ""
        if count == 1
        else f" ({count} cells of {columns} column{'s' * (columns > 1)} are missing in total)"
    )
    fill = advice.impute if droppable else "fill them in"
    if count == 1:
        fill = fill.replace("them", "it")
    raise DataError(
        f"column {name!r} has no value in row {row}{more}; {fill}, or {rows}"
        + (f", or {advice.to('drop', name)}" if droppable else "")
    )


def refuse_infinite(values: np.ndarray, names: list[str], index: Any) -> None:
    """DataError if a cell of a file is infinite."""
    bad = np.isinf(values)
    if bad.any():
        column = int(bad.any(axis=0).argmax())
        row = index[int(bad[:, column].argmax())] + FILE.first_row
        raise DataError(
            f"column {names[column]!r} is infinite in row {row}; correct the cell or leave the row out"
        )
