"""The columns of a file by their roles: the response, columns to select from, and columns with a meaning of their own."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from whichvars.data.categories import Categories
from whichvars.data.encoding import Encoded, Encoding, convert, encode_columns, refuse
from whichvars.data.expanding import Expansion
from whichvars.data.files import Table
from whichvars.data.frames import find_columns, suggest
from whichvars.data.gaps import (
    complete_rows,
    cost_of_gaps,
    empty_columns,
    left_out,
    refuse_gaps,
    refuse_infinite,
)
from whichvars.data.kinds import DATE, FILE, NUMBER_WITH_COMMA, short, some
from whichvars.errors import DataError

# columns that one message describes
MOST_FAULTS = 10
# rows below which a column may increase by 1 from row to row by chance
FEWEST_COUNTED = 10
# families whose response may be words, and what the others are
CLASSES = ("auto", "logistic", "probit")
KINDS = {
    "auto": "linear regression", "gaussian": "linear regression", "student": "linear regression", "poisson": "a regression of counts",
    "negative-binomial": "a regression of counts",
}  # fmt: skip
Value = TypeVar("Value")


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
    check: Callable[[pd.Series, dict[str, pd.Series], np.ndarray], Any] | None = None,
) -> EncodedTable:
    """Split a table into the response and the columns of X, with words converted to groups of 0/1 columns.

    Whatever is wrong with the response, with columns beside it and with columns of X is told in one error.

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
    check : callable
        What else may be wrong with the response: it is given the response, the columns beside it and the numbers of the rows, and raises a
        DataError.
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
    told: list[str] = []
    _attempt(told, lambda: refuse_gaps(frame[[response]], FILE, FILE.gaps, "name another response"))
    there = frame[response].notna().to_numpy()
    own = table._replace(frame=frame.loc[there, [response]])
    y = _attempt(told, lambda: read_response_column(own, response, family)) if there.any() else None
    known: dict[str, pd.Series] = {}
    for option, name in options.items():
        values = _attempt(told, partial(_known, table, frame, name, option))
        if values is not None:
            known[option] = values
    if check is not None and y is not None and len(known) == len(options):
        beside_it = {option: values[there] for option, values in known.items()}
        _attempt(told, lambda: check(y, beside_it, rows[there]))
    rest = frame.drop(columns=[response, *options.values()])
    if rest.shape[1] == 0:
        told.append(f"there is no column left besides the response {response!r}; nothing to select from")
    encoded, more = _encode_candidates(table, rest, missing, categories, expand, told)
    assert y is not None
    always = [name for name in wanted if name in encoded.encoding.columns]
    return EncodedTable(encoded, y, always, notes + more, known, rows, rest)


def _attempt(told: list[str], make: Callable[[], Value]) -> Value | None:
    """What `make` returns; None if it raises a DataError, whose text is then kept, so that other things can be looked at first."""
    try:
        return make()
    except DataError as error:
        told.append(str(error))
        return None


def _encode_candidates(
    table: Table,
    frame: pd.DataFrame,
    missing: str,
    categories: Categories | None,
    expand: Sequence[Expansion],
    told: list[str],
) -> tuple[Encoded, list[str]]:
    """The columns to select from as numbers, and notes for the user. `told` is what is wrong with other columns."""
    faults: list[str] = []
    encoded = encode_columns(frame, categories or Categories(), faults, FILE, table.decimal_comma, expand)
    X = encoded.X
    _attempt(faults, lambda: refuse_infinite(X.to_numpy(dtype=float), list(X.columns), frame.index))
    _refuse_all(frame, faults, missing, told)
    numeric = X[[name for name in encoded.encoding.columns if name in X.columns]]
    notes = [
        f"Column {name!r} counts the rows; if it is an identifier, {FILE.to('drop', name)}."
        for name in _counters(numeric)
    ]
    notes += encoded.notes + encoded.remarks
    # a problem that is made of them has nothing to say about them again
    return encoded._replace(X=X.astype(float).reset_index(drop=True), remarks=[], constant=[]), notes


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
            notes.append(left_out(int((~kept).sum()), len(frame)))
        frame = frame.loc[kept].drop(columns=empty)
    told: list[str] = []
    Y = _attempt(told, lambda: read_responses(table._replace(frame=table.frame.loc[kept]), wanted))
    encoded, more = _encode_candidates(table, frame, missing, categories, expand, told)
    assert Y is not None
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
        notes.append(left_out(int((~whole).sum()), len(frame)))
    return frame.loc[whole].drop(columns=empty), notes


def encode_complete(table: Table) -> tuple[pd.DataFrame, Encoding, list[str]]:
    """The columns of a table without missing values as numbers, how they were converted, and notes for the user."""
    faults: list[str] = []
    encoded = encode_columns(table.frame, Categories(), faults, FILE, table.decimal_comma)
    refuse(faults)
    X = encoded.X.astype(float)
    refuse_infinite(X.to_numpy(), list(X.columns), table.frame.index)
    return X.reset_index(drop=True), encoded.encoding, encoded.notes + encoded.remarks


def _refuse_all(frame: pd.DataFrame, faults: list[str], missing: str, told: list[str]) -> None:
    """DataError for all columns that cannot be used, for missing values and for what was `told` of the response, with the options that would make
    the command work."""
    gaps: list[str] = []
    bad = [name for name in frame.columns if any(fault.startswith(f"column {name!r} ") for fault in faults)]
    if missing == "error":
        _attempt(gaps, lambda: refuse_gaps(frame.drop(columns=bad), FILE, FILE.gaps, droppable=True))
    lines = [*told, *faults[:MOST_FAULTS], *["…"] * (len(faults) > MOST_FAULTS), *gaps]
    if len(lines) <= 1:
        refuse(lines)
        return
    empty = empty_columns(frame.drop(columns=bad).isna())
    rest = frame.drop(columns=[*bad, *empty])
    options = [f"--drop {shlex.quote(','.join([*bad, *empty]))}"] if len([*bad, *empty]) else []
    if missing == "error" and rest.isna().to_numpy().any():
        whole = int((~rest.isna().any(axis=1)).sum())
        options.append("--missing impute" if whole < len(rest) / 2 else "--missing drop")
    remedies = [_remedy(fault, missing) for fault in told]
    options += [
        option for option in dict.fromkeys(remedies) if option and option.split()[0] not in " ".join(options)
    ]
    first = (
        "The file can be used as it is"
        if all(remedies)
        else "When the response is right, the file can be used"
    )
    advice = f"\n{first} with {' '.join(options)}" if options and len(rest.columns) else ""
    start = f"{len(faults)} columns cannot be used" + " and values are missing" * bool(gaps)
    start = (
        f"{len(told) + len(faults) + len(gaps)} things are wrong"
        if told
        else start.replace("1 columns", "1 column")
    )
    raise DataError(f"{start}:" + "".join(f"\n- {line}" for line in lines) + advice)


def _remedy(fault: str, missing: str) -> str:
    """The option that makes the command work in spite of what is wrong with the response, if the message names one."""
    if "--missing drop" in fault and missing == "error":
        return "--missing drop"
    return "--family logistic" if "use --family logistic" in fault else ""


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
    if faults and "contains dates" in faults[0]:
        raise DataError(
            f"the response {name!r} contains dates or times ({column.iloc[0]}); turn them into numbers, such as days since the first, or name another response"
        )
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
