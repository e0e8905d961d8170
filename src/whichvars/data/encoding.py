"""Converting the columns of a file to numeric columns, a response and groups.

Columns with few distinct words, and categorical columns, become 0/1 columns, one for each level except the first, which
enter and leave the model together as one group. Dates, free text, missing values and cells that are not numbers are
errors, whose messages name the column and row and say what to do.
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.data.files import Table
from whichvars.data.frames import find_columns, suggest
from whichvars.errors import DataError

# rows below which a column may increase by 1 from row to row by chance
FEWEST_COUNTED = 10
# most levels of a categorical column
MOST_LEVELS = 50
# families whose response may be words, and what the others are
CLASSES = ("auto", "logistic", "probit")
KINDS = {
    "auto": "linear regression", "gaussian": "linear regression", "poisson": "a regression of counts",
    "negative-binomial": "a regression of counts",
}  # fmt: skip
DECIMAL_COMMA = r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?"
NUMBER_WITH_COMMA = r"[+-]?[\d.]*(?:,[\d.]+)+"
DATE = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})(?:[T ]\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(?::\d{2})?"


@dataclass(frozen=True)
class Encoding:
    """The conversion of the columns of a file to columns of X, kept so that new data can be converted in the same way."""

    columns: list[str]  # of the file, in order
    levels: dict[str, list[str]] = field(default_factory=dict)  # of categorical columns, the reference first

    def apply(self, table: Table) -> pd.DataFrame:
        """The columns of X for new data; other columns are ignored."""
        missing = [name for name in self.columns if name not in table.frame.columns]
        if missing:
            rest = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise DataError(
                f"the file lacks the column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing[:3]))}{rest}"
            )
        frame = table.frame[self.columns]
        _refuse_missing(frame, "remove such rows from the file", "fill it in: the run was made with it")
        numeric = [name for name in self.columns if name not in self.levels]
        faults: list[str] = []
        converted = _convert(table._replace(frame=frame[numeric]), faults, categories=False)[0]
        _refuse(faults)
        return self._encode(frame, converted)

    def _encode(self, frame: pd.DataFrame, numbers: pd.DataFrame) -> pd.DataFrame:
        """Numeric and 0/1 columns in the order of the file."""
        values, names = numbers.to_numpy(dtype=float), list(numbers.columns)
        if self.levels:
            place = {name: i for i, name in enumerate(names)}
            blocks, names = [], []
            for name in self.columns:
                if name in self.levels:
                    blocks.append(_dummies(frame[name], self.levels[name]))
                    names += [f"{name}={level}" for level in self.levels[name][1:]]
                else:
                    blocks.append(values[:, [place[name]]])
                    names.append(name)
            values = np.hstack(blocks)
        _refuse_infinite(values, names, frame.index)
        return pd.DataFrame(values, columns=names)


class EncodedTable(NamedTuple):
    """The arguments of a ``Problem``, the encoding, and notes for the user."""

    X: pd.DataFrame
    y: pd.Series
    groups: dict[str, list[str]] | None
    always: list[str]  # columns of X
    encoding: Encoding
    notes: list[str]
    beside: dict[str, pd.Series]  # columns that are neither the response nor in X, such as an offset
    rows: np.ndarray  # (n,): the numbers of the rows in the file, from 1


# --- from columns of a file to a problem


def encode_table(
    table: Table,
    response: str,
    always: Iterable[str] = (),
    drop: Iterable[str] = (),
    drop_missing: bool = False,
    family: str = "gaussian",
    beside: Mapping[str, str] | None = None,
) -> EncodedTable:
    """Split a table into the response and the columns of X, with words converted to groups of 0/1 columns.

    Parameters
    ----------
    table : Table
    response : str
        Name of the response.
    always, drop : names
        Columns that are in every model, and columns to leave out.
    drop_missing : bool
        Leave out rows with missing values; otherwise these are an error.
    family : str
        Name of the family of the response, or "auto". The response of "logistic" and "probit" may be words; that of "auto" may be
        two words.
    beside : mapping from an option to the name of a column
        Columns that have a meaning of their own, such as the exposure; they are converted to numbers and are not in X.
    """
    names, notes = list(table.frame.columns), list(table.notes)
    if response not in names:
        raise DataError(f"there is no column {response!r} to be the response{suggest(response, names)}")
    dropped = {names[i] for i in find_columns(list(drop), names, "drop")}
    wanted = [names[i] for i in find_columns(list(always), names, "always")]
    for name, what in [(response, "the response"), *((name, "always included") for name in wanted)]:
        if name in dropped:
            raise DataError(f"column {name!r} is {what}, so it cannot be dropped")
    if response in wanted:
        raise DataError(f"column {response!r} is the response, so it cannot be always included")
    options = dict(beside or {})
    for option, name in options.items():
        find_columns([name], names, option)
        for others, what in (
            ([response], "the response"),
            (dropped, "dropped"),
            (wanted, "always included"),
            ([other for key, other in options.items() if key != option], "given by another option"),
        ):
            if name in others:
                raise DataError(f"{option}: column {name!r} is {what}; name another column")
    frame = table.frame[[name for name in names if name not in dropped]]
    if drop_missing:
        frame, note = _without_gaps(frame)
        notes += note
    rows = frame.index.to_numpy() + 1
    _refuse_missing(frame[[response]], "leave such rows out with --drop-missing", "name another response")
    y = read_response_column(table._replace(frame=frame[[response]]), response, family)
    known = {option: _known(table, frame, name, option) for option, name in options.items()}
    frame = frame.drop(columns=[response, *options.values()])
    _refuse_missing(frame, "leave such rows out with --drop-missing", "leave it out", droppable=True)
    if frame.shape[1] == 0:
        raise DataError(f"there is no column left besides the response {response!r}; nothing to select from")
    X, encoding, more = encode_columns(table._replace(frame=frame))
    notes += more
    levels = encoding.levels
    groups = {name: [f"{name}={level}" for level in words[1:]] for name, words in levels.items()}
    constant = set(frame.columns) - set(encoding.columns)
    inside = [column for name in wanted if name not in constant for column in groups.get(name, [name])]
    free = {name: columns for name, columns in groups.items() if name not in wanted}
    return EncodedTable(X, y, free or None, inside, encoding, notes, known, rows)


def encode_columns(table: Table) -> tuple[pd.DataFrame, Encoding, list[str]]:
    """The columns of a table without missing values as numbers, how they were converted, and notes for the user."""
    frame, faults = table.frame, list[str]()
    numbers, levels, notes = _convert(table, faults, categories=True)
    _refuse(faults)
    constant = [name for name, words in levels.items() if len(words) == 1]
    notes += [
        f"Column {name!r} counts the rows; if it is an identifier, leave it out with --drop {_quoted(name)}."
        for name in _counters(numbers)
    ]
    notes += [f"Column {name!r} contains only one word and is left out." for name in constant]
    frame = frame.drop(columns=constant)
    levels = {name: words for name, words in levels.items() if name not in constant}
    notes += [
        f"Column {name!r} is a category with {len(words)} levels ({_some(words)}); they enter together, compared with {words[0]!r}."
        for name, words in levels.items()
    ]
    encoding = Encoding(list(frame.columns), levels)
    return encoding._encode(frame, numbers), encoding, notes


def read_known(table: Table, name: str, option: str) -> pd.Series:
    """The numbers of a column of new data that has a meaning of its own, such as the exposure."""
    if name not in table.frame.columns:
        raise DataError(
            f"the file lacks the column {name!r}, which was the {option} of the run and is needed for predictions too"
        )
    return _known(table, table.frame, name, option)


def _known(table: Table, frame: pd.DataFrame, name: str, option: str) -> pd.Series:
    _refuse_missing(frame[[name]], "remove such rows from the file", "name another column")
    faults: list[str] = []
    numbers = _convert(table._replace(frame=frame[[name]]), faults, categories=False)[0]
    if faults:
        raise DataError(f"{option}: {faults[0]}")
    values = pd.Series(numbers[name].to_numpy(dtype=float), name=name)
    _refuse_infinite(values.to_numpy()[:, None], [name], numbers.index)
    return values


def _counters(frame: pd.DataFrame) -> list[str]:
    """Columns of whole numbers that increase by 1 from each row to the next."""
    if len(frame) < FEWEST_COUNTED:
        return []
    first, second = frame.iloc[:2].to_numpy(dtype=float)  # avoids copying all rows of most columns
    with np.errstate(invalid="ignore"):  # infinite cells are found later
        likely = np.flatnonzero((second - first == 1) & (np.floor(first) == first)).tolist()
    return [str(frame.columns[j]) for j in likely if (np.diff(frame.iloc[:, j].to_numpy(float)) == 1).all()]


def _some(items: list[str]) -> str:
    return ", ".join(items[:4]) + ", …" * (len(items) > 4)


def _without_gaps(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    gaps = frame.isna().any(axis=1)
    count = int(gaps.sum())
    if count == len(frame):
        worst = frame.isna().sum().idxmax()
        raise DataError(
            f"every row has a missing value; column {worst!r} has the most: leave it out with --drop"
        )
    note = [f"{count} of {len(frame)} rows have missing values and are left out."] if count else []
    return frame[~gaps], note


def _refuse_missing(frame: pd.DataFrame, rows: str, column: str, droppable: bool = False) -> None:
    """DataError if there are missing values, with advice on their rows, or on the column if it is empty."""
    gaps = frame.isna().to_numpy()
    if not gaps.any():
        return
    first = int(gaps.any(axis=0).argmax())
    row = int(frame.index[int(gaps[:, first].argmax())]) + 1
    count, columns = int(gaps.sum()), int(gaps.any(axis=0).sum())
    name = frame.columns[first]
    drop = f" with --drop {_quoted(name)}" if droppable else ""
    if gaps[:, first].all():
        raise DataError(f"column {name!r} is empty; {column}{drop}")
    more = (
        ""
        if count == 1
        else f" ({count} cells of {columns} column{'s' * (columns > 1)} are missing in total)"
    )
    raise DataError(
        f"column {name!r} has no value in row {row}{more}; fill {'it' if count == 1 else 'them'} in, or {rows}"
        + (f", or the column{drop}" if droppable else "")
    )


def _refuse_infinite(values: np.ndarray, names: list[str], index: Any) -> None:
    bad = np.isinf(values)
    if bad.any():
        column = int(bad.any(axis=0).argmax())
        row = index[int(bad[:, column].argmax())] + 1
        raise DataError(
            f"column {names[column]!r} is infinite in row {row}; correct the cell or leave the row out"
        )


def _refuse(faults: list[str]) -> None:
    if len(faults) == 1:
        raise DataError(faults[0])
    if faults:
        shown = "".join(f"\n- {fault}" for fault in faults[:10])
        raise DataError(f"{len(faults)} columns cannot be used:{shown}" + "\n- …" * (len(faults) > 10))


def read_response_column(table: Table, name: str, family: str) -> pd.Series:
    """The response: numbers, or labels of classes if the family allows them."""
    faults: list[str] = []
    column = table.frame[name]
    if pd.api.types.is_bool_dtype(column.dtype):
        if family in CLASSES:
            return pd.Series(column.to_numpy(dtype=bool), name=name)
        raise DataError(
            f"the response {name!r} contains true and false; this is {KINDS[family]}: write 0 and 1 if you mean that{_or_logistic(2)}"
        )
    words = _words_alone(column)
    if len(words) == 1:
        raise DataError(
            f"the response {name!r} is {_short(words[0])} in every row; both classes are needed, or there is nothing to explain"
        )
    if words and family in CLASSES and (len(words) == 2 or family != "auto"):
        return pd.Series(column.astype(str).str.strip().to_numpy(dtype=object), name=name)
    if words:
        raise DataError(
            f"the response {name!r} contains words ({_some([_short(word) for word in words])}), not numbers; this is "
            f"{KINDS[family]}: {_as_numbers(words)}{_or_logistic(len(words))}, or name another response"
        )
    numbers = _convert(table, faults, categories=False)[0]
    if faults:
        raise DataError(f"the response: {faults[0]}")
    y = pd.Series(numbers[name].to_numpy(dtype=float), name=name)
    _refuse_infinite(y.to_numpy()[:, None], [name], numbers.index)
    return y


def _or_logistic(values: int) -> str:
    return ", or use --family logistic" if values == 2 else ""


def _words_alone(column: pd.Series) -> list[str]:
    """The sorted distinct words of a column; none if it contains numbers in any notation, or dates."""
    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return []
    words = column.astype(str).str.strip()
    numbers = pd.to_numeric(words, errors="coerce").notna() | words.str.fullmatch(NUMBER_WITH_COMMA)
    if numbers.any() or words.str.fullmatch(DATE).all() or pd.api.types.is_timedelta64_dtype(column.dtype):
        return []
    return sorted(words.unique())


def _as_numbers(words: list[str]) -> str:
    if len(words) == 2:
        return f"write 0 for {_short(words[0])} and 1 for {_short(words[1])} if you mean that"
    return "write numbers if the words have an order that numbers can represent"


# --- types of columns


def _convert(
    table: Table, faults: list[str], categories: bool
) -> tuple[pd.DataFrame, dict[str, list[str]], list[str]]:
    """The numeric columns as numbers, the levels of categorical columns, and notes. Errors are appended to `faults`."""
    frame = table.frame
    commas: list[str] = []
    plain = np.array([isinstance(d, np.dtype) and d.kind in "biuf" for d in frame.dtypes], bool)
    numbers: dict[str, np.ndarray] = {}
    levels: dict[str, list[str]] = {}
    for name in frame.columns[~plain]:
        column = frame[name]
        kind, result = classify(column, table.decimal_comma, categories)
        if kind == "fault":
            faults.append(f"column {name!r} {result}")
        elif kind == "levels":
            levels[name] = result
        else:
            numbers[name] = result
            if kind == "comma":
                commas.append(name)
    notes = [f"Commas are read as decimal commas in column {_some(commas)}."] if commas else []
    if plain.all():
        return frame, levels, notes
    kept = [name for name, is_plain in zip(frame.columns, plain) if is_plain or name in numbers]
    converted = pd.concat([frame.loc[:, plain], pd.DataFrame(numbers, index=frame.index)], axis=1)
    return converted[kept], levels, notes


def classify(column: pd.Series, decimal_comma: bool, categories: bool) -> tuple[str, Any]:
    """The type and content of a column without a numeric dtype: ("number", values), ("comma", values), ("levels", levels)
    or ("fault", message)."""
    if pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
        return "fault", _dates(column)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _levels(column, categories)
    if pd.api.types.is_numeric_dtype(column.dtype):
        return "number", _floats(column)
    if all(isinstance(value, (bool, int, float, np.number)) for value in column):
        return "number", _floats(column)
    text = column.astype(str).str.strip()
    numbers = pd.to_numeric(text, errors="coerce")
    words = text[numbers.isna()]
    commas = words.str.fullmatch(DECIMAL_COMMA)
    if decimal_comma and commas.all() and not text.str.contains(".", regex=False).any():
        return "comma", _floats(pd.to_numeric(text.str.replace(",", ".", regex=False)))
    if words.empty:
        return "number", _floats(numbers)
    with_commas = words[words.str.fullmatch(NUMBER_WITH_COMMA)]
    if not with_commas.empty:
        return "fault", (
            f"has {with_commas.iloc[0]!r} in row {with_commas.index[0] + 1}: write numbers with a decimal point and "
            "without commas"
        )
    if words.str.fullmatch(DATE).all():
        return "fault", _dates(column)
    if len(words) <= len(text) / 2 or not categories:
        more = f" (and {len(words) - 1} more such cell{'s' * (len(words) > 2)})" if len(words) > 1 else ""
        return "fault", (
            f"has {_short(words.iloc[0])} in row {words.index[0] + 1}{more}, which is not a number; correct the cell, or leave "
            "it empty if the value is missing"
        )
    return _levels(text, categories)


def _floats(column: pd.Series) -> np.ndarray:
    """Numbers as floats. Integers of more than 308 digits become infinite, which is an error later."""
    try:
        return column.to_numpy(dtype=float)
    except OverflowError:
        return np.array([_float(value) for value in column])


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def _quoted(name: Any) -> str:
    """A name quoted for the shell."""
    return shlex.quote(str(name))


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


def _dates(column: pd.Series) -> str:
    return (
        f"contains dates or times ({column.iloc[0]}); turn it into a number (days since a start, month, hour), "
        f"or leave it out with --drop {_quoted(column.name)}"
    )


def _levels(column: pd.Series, categories: bool) -> tuple[str, Any]:
    levels = sorted(column.astype(str).str.strip().unique())
    if not categories:
        return "fault", f"contains words ({_some([_short(level) for level in levels])}), not numbers"
    if len(levels) > min(MOST_LEVELS, max(2, len(column) // 3)):
        return "fault", (
            f"contains free text: {len(levels)} different values in {len(column)} rows, such as {_short(levels[0])}; "
            f"leave it out with --drop {_quoted(column.name)}, or merge its values into a few categories"
        )
    return "levels", levels


def _dummies(column: pd.Series, levels: list[str]) -> np.ndarray:
    """One 0/1 column for each level except the first, (n, levels − 1)."""
    text = column.astype(str).str.strip().to_numpy(dtype=object)
    unknown = ~np.isin(text, levels)
    if unknown.any():
        row = int(unknown.argmax())
        raise DataError(
            f"column {column.name!r} has {_short(text[row])} in row {column.index[row] + 1}, which the data of the run did not have; its levels are "
            f"{_some(levels)}"
        )
    return (text[:, None] == np.array(levels[1:], dtype=object)[None, :]).astype(float)
