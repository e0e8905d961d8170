"""The columns of a file by their roles: the response, columns to select from, and columns with a meaning of their own."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from whichvars.data.categories import Categories
from whichvars.data.encoding import Encoded, Encoding, convert, encode_columns, refuse
from whichvars.data.expanding import Expansion
from whichvars.data.files import Table
from whichvars.data.frames import find_columns, suggest
from whichvars.data.gaps import complete_rows, cost_of_gaps, empty_columns, refuse_gaps, refuse_infinite
from whichvars.data.kinds import DATE, FILE, NUMBER_WITH_COMMA, short, some
from whichvars.errors import DataError

# rows below which a column may increase by 1 from row to row by chance
FEWEST_COUNTED = 10
# families whose response may be words, and what the others are
CLASSES = ("auto", "logistic", "probit")
KINDS = {
    "auto": "linear regression", "gaussian": "linear regression", "student": "linear regression", "poisson": "a regression of counts",
    "negative-binomial": "a regression of counts",
}  # fmt: skip


class EncodedTable(NamedTuple):
    """The arguments of a ``Problem``, and notes for the user."""

    encoded: Encoded  # the columns to select from
    y: pd.Series
    always: list[str]  # columns of the file
    notes: list[str]
    beside: dict[str, pd.Series]  # columns that are neither the response nor in X, such as an offset
    rows: np.ndarray  # (n,): the numbers of the rows in the file, from 1
    frame: pd.DataFrame  # the columns to select from, as they are in the file

    @property
    def X(self) -> pd.DataFrame:
        return self.encoded.X

    @property
    def encoding(self) -> Encoding:
        return self.encoded.encoding


def encode_table(
    table: Table,
    response: str,
    always: Iterable[str] = (),
    drop: Iterable[str] = (),
    missing: str = "error",
    family: str = "gaussian",
    beside: Mapping[str, str] | None = None,
    categories: Categories | None = None,
    expand: Sequence[Expansion] = (),
) -> EncodedTable:
    """Split a table into the response and the columns of X, with words converted to groups of 0/1 columns.

    Parameters
    ----------
    table : Table
    response : str
        Name of the response.
    always, drop : names
        Columns that are in every model, and columns to leave out.
    missing : "error", "drop" or "impute"
        Whether missing values are an error, their rows are left out, or those of columns to select from are left as they are.
    family : str
        Name of the family of the response, or "auto". The response of "logistic" and "probit" may be words; that of "auto" may be
        two words.
    beside : mapping from an option to the name of a column
        Columns that have a meaning of their own, such as the exposure; they are converted to numbers and are not in X.
    categories : Categories
        Columns that are categories although they do not seem to be, and how categories become columns.
    expand : sequence of Expansion
        Dates, and columns with a curved effect.
    """
    names, notes = list(table.frame.columns), list(table.notes)
    if response not in names:
        raise DataError(f"there is no column {response!r} to be the response{suggest(response, names)}")
    dropped = {names[i] for i in find_columns(list(drop), names, "drop")}
    wanted = [names[i] for i in find_columns(list(always), names, "always")]
    options = dict(beside or {})
    _check_roles(names, response, wanted, dropped, options)
    frame = table.frame[[name for name in names if name not in dropped]]
    if missing != "error":
        frame, note = _with_response(frame, response, list(options.values()), missing)
        notes += note
    rows = frame.index.to_numpy() + 1
    refuse_gaps(frame[[response]], FILE, FILE.gaps, "name another response")
    y = read_response_column(table._replace(frame=frame[[response]]), response, family)
    known = {option: _known(table, frame, name, option) for option, name in options.items()}
    frame = frame.drop(columns=[response, *options.values()])
    if frame.shape[1] == 0:
        raise DataError(f"there is no column left besides the response {response!r}; nothing to select from")
    encoded, more = _encode_candidates(table, frame, missing, categories, expand)
    always = [name for name in wanted if name in encoded.encoding.columns]
    return EncodedTable(encoded, y, always, notes + more, known, rows, frame)


def _encode_candidates(
    table: Table,
    frame: pd.DataFrame,
    missing: str,
    categories: Categories | None,
    expand: Sequence[Expansion],
) -> tuple[Encoded, list[str]]:
    """The columns to select from as numbers, and notes for the user."""
    faults: list[str] = []
    encoded = encode_columns(frame, categories or Categories(), faults, FILE, table.decimal_comma, expand)
    _refuse_all(frame, faults, missing)
    X = encoded.X
    refuse_infinite(X.to_numpy(dtype=float), list(X.columns), frame.index)
    numeric = X[[name for name in encoded.encoding.columns if name in X.columns]]
    notes = [
        f"Column {name!r} counts the rows; if it is an identifier, {FILE.to('drop', name)}."
        for name in _counters(numeric)
    ]
    return encoded._replace(X=X.astype(float).reset_index(drop=True)), notes + encoded.notes + encoded.remarks


class EncodedResponses(NamedTuple):
    """The columns and the responses of a file, and notes for the user."""

    encoded: Encoded  # the columns to select from
    Y: pd.DataFrame  # NaN where a response is missing
    notes: list[str]
    rows: np.ndarray  # (n,): the numbers of the rows in the file, from 1


def encode_responses(
    table: Table,
    responses: Sequence[str],
    drop: Iterable[str] = (),
    missing: str = "error",
    categories: Categories | None = None,
    expand: Sequence[Expansion] = (),
) -> EncodedResponses:
    """The same as ``encode_table`` for several responses, of which any may be missing. With `missing` "drop", rows are left out that lack
    one of the columns to select from."""
    names, notes = list(table.frame.columns), list(table.notes)
    wanted = [names[i] for i in find_columns(list(responses), names, "responses")]
    dropped = {names[i] for i in find_columns(list(drop), names, "drop")}
    both = [name for name in wanted if name in dropped]
    if both:
        raise DataError(f"column {both[0]!r} is a response, so it cannot be dropped")
    frame = table.frame[[name for name in names if name not in dropped and name not in wanted]]
    if frame.shape[1] == 0:
        raise DataError("there is no column left besides the responses; nothing to select from")
    kept = np.ones(len(frame), bool)
    if missing == "drop":
        gaps = frame.isna()
        empty = empty_columns(gaps)
        notes += [f"Left out columns without any value: {', '.join(map(repr, empty))}."] if empty else []
        gaps = gaps.drop(columns=empty)
        kept = complete_rows(gaps, np.zeros(len(frame), bool), FILE)
        notes += cost_of_gaps(gaps, np.zeros(len(frame), bool))
        if not kept.all():
            notes.append(f"{int((~kept).sum()):,} of {len(frame):,} rows are left out.")
        frame = frame.loc[kept].drop(columns=empty)
    encoded, more = _encode_candidates(table, frame, missing, categories, expand)
    Y = read_responses(table._replace(frame=table.frame.loc[kept]), wanted)
    return EncodedResponses(encoded, Y, notes + more, frame.index.to_numpy() + 1)


def read_responses(table: Table, names: Sequence[str]) -> pd.DataFrame:
    """Several responses as numbers, NaN where they are missing."""
    columns = {}
    for name in names:
        there = table.frame[name].notna().to_numpy()
        columns[name] = np.full(len(there), np.nan)
        if there.any():
            own = table._replace(frame=table.frame.loc[there, [name]])
            columns[name][there] = read_response_column(own, name, "gaussian").to_numpy(dtype=float)
    return pd.DataFrame(columns)


def _with_response(
    frame: pd.DataFrame, response: str, needed: list[str], missing: str
) -> tuple[pd.DataFrame, list[str]]:
    """The table without columns that have no value, and without rows that are not complete; and what there is to say of it."""
    gaps = frame.isna()
    empty = [name for name in empty_columns(gaps) if name != response and name not in needed]
    notes = [f"Left out columns without any value: {', '.join(map(repr, empty))}."] if empty else []
    gaps = gaps.drop(columns=[*empty, response])
    lost = frame[response].isna().to_numpy()
    if missing == "impute":
        beside = gaps[[name for name in needed if name in gaps.columns]].to_numpy().any(axis=1)
        whole = complete_rows(gaps[[]], lost | beside, FILE)
    else:
        whole = complete_rows(gaps, lost, FILE)
    notes += cost_of_gaps(gaps, lost)
    if not whole.all():
        notes.append(f"{int((~whole).sum()):,} of {len(frame):,} rows are left out.")
    return frame.loc[whole].drop(columns=empty), notes


def encode_complete(table: Table) -> tuple[pd.DataFrame, Encoding, list[str]]:
    """The columns of a table without missing values as numbers, how they were converted, and notes for the user."""
    faults: list[str] = []
    encoded = encode_columns(table.frame, Categories(), faults, FILE, table.decimal_comma)
    refuse(faults)
    X = encoded.X.astype(float)
    refuse_infinite(X.to_numpy(), list(X.columns), table.frame.index)
    return X.reset_index(drop=True), encoded.encoding, encoded.notes + encoded.remarks


def _refuse_all(frame: pd.DataFrame, faults: list[str], missing: str) -> None:
    """DataError for all columns that cannot be used and for missing values, with the options that would make the command work."""
    gaps = ""
    bad = [name for name in frame.columns if any(fault.startswith(f"column {name!r} ") for fault in faults)]
    if missing == "error":
        try:
            refuse_gaps(frame.drop(columns=bad), FILE, FILE.gaps, droppable=True)
        except DataError as error:
            gaps = str(error)
    if not faults or (len(faults) == 1 and not gaps):
        refuse(faults + [gaps] * bool(gaps))
        return
    empty = empty_columns(frame.drop(columns=bad).isna())
    rest = frame.drop(columns=[*bad, *empty])
    options = [f"--drop {shlex.quote(','.join([*bad, *empty]))}"] if len(rest.columns) else []
    if missing == "error" and rest.isna().to_numpy().any():
        whole = int((~rest.isna().any(axis=1)).sum())
        options.append("--missing impute" if whole < len(rest) / 2 else "--missing drop")
    shown = [*faults[:10], *(["…"] if len(faults) > 10 else []), *([gaps] if gaps else [])]
    advice = f"\nThe file can be used as it is with {' '.join(options)}" if options else ""
    start = f"{len(faults)} columns cannot be used" + " and values are missing" * bool(gaps)
    start = start.replace("1 columns", "1 column")
    raise DataError(f"{start}:" + "".join(f"\n- {line}" for line in shown) + advice)


def _check_roles(
    names: list[str], response: str, always: list[str], dropped: set[str], options: dict[str, str]
) -> None:
    """DataError if a column has two roles."""
    for name, what in [(response, "the response"), *((name, "always included") for name in always)]:
        if name in dropped:
            raise DataError(f"column {name!r} is {what}, so it cannot be dropped")
    if response in always:
        raise DataError(f"column {response!r} is the response, so it cannot be always included")
    for option, name in options.items():
        find_columns([name], names, option)
        for others, what in (
            ([response], "the response"),
            (dropped, "dropped"),
            (always, "always included"),
            ([other for key, other in options.items() if key != option], "given by another option"),
        ):
            if name in others:
                raise DataError(f"{option}: column {name!r} is {what}; name another column")


def read_known(table: Table, name: str, option: str) -> pd.Series:
    """The numbers of a column of new data that has a meaning of its own, such as the exposure."""
    if name not in table.frame.columns:
        raise DataError(
            f"the file lacks the column {name!r}, which was the {option} of the run and is needed for predictions too"
        )
    return _known(table, table.frame, name, option)


def _known(table: Table, frame: pd.DataFrame, name: str, option: str) -> pd.Series:
    refuse_gaps(frame[[name]], FILE, "remove such rows from the file", "name another column")
    faults: list[str] = []
    numbers = convert(frame[[name]], faults, FILE, table.decimal_comma, set())[0]
    if faults:
        raise DataError(f"{option}: {faults[0]}")
    values = pd.Series(numbers[name].to_numpy(dtype=float), name=name)
    refuse_infinite(values.to_numpy()[:, None], [name], numbers.index)
    return values


def _counters(frame: pd.DataFrame) -> list[str]:
    """Columns of whole numbers that increase by 1 from each row to the next."""
    if len(frame) < FEWEST_COUNTED:
        return []
    first, second = frame.iloc[:2].to_numpy(dtype=float)  # avoids copying all rows of most columns
    with np.errstate(invalid="ignore"):  # infinite cells are found later
        likely = np.flatnonzero((second - first == 1) & (np.floor(first) == first)).tolist()
    return [str(frame.columns[j]) for j in likely if (np.diff(frame.iloc[:, j].to_numpy(float)) == 1).all()]


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
            f"the response {name!r} is {short(words[0])} in every row; both classes are needed, or there is nothing to explain"
        )
    if words and family in CLASSES and (len(words) == 2 or family != "auto"):
        return pd.Series(column.astype(str).str.strip().to_numpy(dtype=object), name=name)
    if words:
        raise DataError(
            f"the response {name!r} contains words ({some([short(word) for word in words])}), not numbers; this is "
            f"{KINDS[family]}: {_as_numbers(words)}{_or_logistic(len(words))}, or name another response"
        )
    numbers = convert(table.frame, faults, FILE, table.decimal_comma, set())[0]
    if faults:
        raise DataError(f"the response: {faults[0]}")
    y = pd.Series(numbers[name].to_numpy(dtype=float), name=name)
    refuse_infinite(y.to_numpy()[:, None], [name], numbers.index)
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
        return f"write 0 for {short(words[0])} and 1 for {short(words[1])} if you mean that"
    return "write numbers if the words have an order that numbers can represent"
