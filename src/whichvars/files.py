"""Data files as people have them, CSV, Parquet and Feather, into columns of numbers, a response and groups.

Columns of few different words, and of categories, become 0/1 columns, one for each level but the first, that enter
and leave together as one group. Dates, free text, gaps and cells that are no numbers are refused by column and row
with advice. Rows are counted from 1, the header not counted.
"""

import csv
import gzip
import io
import os
import re
import shlex
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.errors import DataError
from whichvars.inputs import _suggest, find_columns

MOST_LEVELS = 50  # different words in a column of categories
LARGEST_GZIP = 256 << 20  # bytes that any gzipped file may unpack to
SEPARATORS = (",", ";", "\t")
DECIMAL_COMMA = r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?"
NUMBER_WITH_COMMA = r"[+-]?[\d.]*(?:,[\d.]+)+"
DATE = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})(?:[T ]\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(?::\d{2})?"
FOREIGN = {
    b"PK\x03\x04": "an Excel workbook or a zip archive; save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV",
    b"SQLite": "a database; export the table as CSV",
}


class Table(NamedTuple):
    """A file as read: columns with names, nothing converted yet."""

    frame: pd.DataFrame
    notes: list[str]  # what was done that the user should know
    decimal_comma: bool = False  # whether commas in numbers can be nothing else


@dataclass(frozen=True)
class Encoding:
    """How columns of a file become columns of X; kept, so that new data are treated alike."""

    columns: list[str]  # of the file, in order
    levels: dict[str, list[str]] = field(
        default_factory=dict
    )  # of those that are categories, the reference first

    def apply(self, table: Table) -> pd.DataFrame:
        """New data as columns of X; columns that are not asked for are not looked at."""
        missing = [name for name in self.columns if name not in table.frame.columns]
        if missing:
            rest = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise DataError(
                f"the file lacks the column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing[:3]))}{rest}"
            )
        frame = table.frame[self.columns]
        _refuse_missing(frame)
        numeric = [name for name in self.columns if name not in self.levels]
        faults: list[str] = []
        converted = _convert(table._replace(frame=frame[numeric]), faults, categories=False)[0]
        _refuse(faults)
        return self._encode(frame, converted)

    def _encode(self, frame: pd.DataFrame, numbers: pd.DataFrame) -> pd.DataFrame:
        """Numbers and words side by side, in the order of the file."""
        values, names = numbers.to_numpy(dtype=float), list(numbers.columns)
        if self.levels:
            place = {name: i for i, name in enumerate(names)}
            parts, names = [], []
            for name in self.columns:
                if name in self.levels:
                    parts.append(_dummies(frame[name], self.levels[name]))
                    names += [f"{name}={level}" for level in self.levels[name][1:]]
                else:
                    parts.append(values[:, [place[name]]])
                    names.append(name)
            values = np.hstack(parts)
        _refuse_infinite(values, names, frame.index)
        return pd.DataFrame(values, columns=names)


class Prepared(NamedTuple):
    """What a ``Problem`` is made of."""

    X: pd.DataFrame
    y: pd.Series
    groups: dict[str, list[str]] | None
    always: list[str]  # columns of X
    encoding: Encoding
    notes: list[str]


# --- reading


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a CSV (also gzipped), Parquet or Feather file; what it is is told from its first bytes.

    CSV: the first line has the names; separated by commas, semicolons or tabs, whichever the header has most of.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory) / "data.csv"
    ...     _ = path.write_text("dose;outcome\\n1,5;2\\n2,5;3\\n", encoding="utf-8-sig")
    ...     read_table(path).frame.columns.tolist()
    ['dose', 'outcome']
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path} is a directory; name a file, or read all in it with --stream")
    first = _first_bytes(path)
    if first.startswith(b"PAR1"):
        return _read_arrow(path, "read_parquet", "Parquet")
    if first.startswith((b"ARROW1", b"FEA1")):
        return _read_arrow(path, "read_feather", "Feather")
    return _read_csv(path, path.read_bytes())


def _first_bytes(path: Path) -> bytes:
    """By which the kind of a file is told; refuses those of other programs."""
    with open(path, "rb") as stream:
        first = stream.read(8)
    if not first:
        raise DataError(f"{path} is empty")
    for magic, what in FOREIGN.items():
        if first.startswith(magic):
            raise DataError(f"{path} is {what}")
    return first


def _read_arrow(path: Path, reader: str, kind: str) -> Table:
    try:
        frame = getattr(pd, reader)(path)
    except ImportError:
        raise DataError(
            f"{kind} files need the package pyarrow: pip install pyarrow; or save {path} as CSV"
        ) from None
    except MemoryError:
        raise
    except Exception as error:  # pyarrow's own errors share no base
        raise DataError(f"{path} cannot be read as {kind}: {str(error).splitlines()[0]}") from error
    frame.columns = pd.Index([str(name).strip() for name in frame.columns], dtype=object)
    return _tidy(frame.reset_index(drop=True), list(frame.columns), path)


def _read_csv(path: Path, content: bytes) -> Table:
    text = _decode(path, content)
    separator = _separator(text)
    names = _header(path, text, separator)
    try:
        frame = pd.read_csv(
            io.StringIO(text), sep=separator, header=0, names=range(len(names)), low_memory=False,
            skipinitialspace=True,
        )  # fmt: skip
    except pd.errors.ParserError as error:
        raise _cannot_parse(path, error, len(names)) from error
    return _tidy(frame, names, path)._replace(decimal_comma=separator != ",")


def _cannot_parse(path: Path, error: Exception, names: int) -> DataError:
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if found is None:
        return DataError(f"{path} cannot be read as CSV: {str(error).splitlines()[0]}")
    return DataError(
        f"{path}: line {found[2]} has {found[3]} cells but the header has {names} names; "
        "put text that holds the separator in double quotes"
    )


def _decode(path: Path, content: bytes) -> str:
    if content.startswith(b"\x1f\x8b"):
        most = LARGEST_GZIP + 100 * len(content)  # no table of numbers is that repetitive
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
                content = stream.read(most + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path} is a damaged gzip file: {error}") from error
        if len(content) > most:
            raise DataError(
                f"{path} unpacks to over {most >> 20:,} MB, as no table does; unpack it yourself if it is one"
            )
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path} is not a text file in UTF-8: line {line} has a byte that is none; save it as CSV in UTF-8"
        ) from error
    if "\0" in text:
        raise DataError(f"{path} is not a text file; save the table as CSV, Parquet or Feather")
    text = text.lstrip("\r\n")
    if not text.strip():
        raise DataError(f"{path} is empty")
    return text


def _separator(text: str) -> str:
    header = re.sub(r'"[^"]*"', "", text.split("\n", 1)[0])
    return max(SEPARATORS, key=header.count)


def _header(path: Path, text: str, separator: str) -> list[str]:
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    try:
        names, row = [name.strip() for name in next(lines)], next(lines, [])
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV: {error}") from error
    if len(row) > len(names):  # pandas would take the first cells for row labels
        raise DataError(
            f"{path}: the header has {len(names)} name{'s' * (len(names) != 1)} but the first row has more cells; "
            "give every column a name"
        )
    if all(_is_number(name) for name in names):
        raise DataError(
            f"{path} has no header: its first line holds numbers ({', '.join(names[:3])}{', …' * (len(names) > 3)}); "
            "put a line with the names of the columns first"
        )
    return names


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _tidy(frame: pd.DataFrame, names: list[str], path: Path) -> Table:
    """Names checked; empty rows, empty unnamed columns and row labels left out."""
    notes = []
    _check_names(names, path)
    frame = frame.copy()  # with columns of one kind side by side: far quicker where they are many
    frame.columns = pd.Index(names, dtype=object)
    if frame.empty:
        raise DataError(f"{path} has {'a header but no rows' if len(names) else 'no columns'}")
    unnamed = np.array([name == "" for name in names])
    if unnamed.any():
        blank = unnamed & frame.isna().all().to_numpy()
        labels = unnamed & ~blank
        if labels[0]:
            notes.append("The first column has no name and is taken for row labels: it is left out.")
            labels[0] = False
        if labels.any():
            raise DataError(
                f"{path}: column {int(labels.argmax()) + 1} has no name; give it one, or delete it"
            )
        frame = frame.loc[:, ~unnamed]
    empty = frame.isna().all(axis=1)
    if empty.any():
        frame = frame[~empty]  # whose index still counts the rows of the file
        notes.append(f"{int(empty.sum())} empty row{'s' * bool(empty.sum() > 1)} left out.")
    if frame.empty:
        raise DataError(f"{path} has names but no values")
    return Table(frame, notes)


def _check_names(names: list[str], path: Path) -> None:
    seen: dict[str, int] = {}
    for i, name in enumerate(names, start=1):
        if name and name in seen:
            raise DataError(
                f"{path}: columns {seen[name]} and {i} are both called {name!r}; rename one of them"
            )
        seen[name] = i


# --- from columns of a file to a problem


def prepare(
    table: Table,
    response: str,
    always: Iterable[str] = (),
    drop: Iterable[str] = (),
    drop_missing: bool = False,
) -> Prepared:
    """Split a table into response and columns of X, words turned into groups of 0/1 columns.

    Parameters
    ----------
    table : Table
    response : str
        Name of the column to explain.
    always, drop : names
        Columns that are in every model, and columns not to be looked at.
    drop_missing : bool
        Leave out rows with gaps, instead of refusing them.
    """
    names, notes = list(table.frame.columns), list(table.notes)
    if response not in names:
        raise DataError(f"there is no column {response!r} to be the response{_suggest(response, names)}")
    dropped = {names[i] for i in find_columns(list(drop), names, "drop")}
    wanted = [names[i] for i in find_columns(list(always), names, "always")]
    for name, what in [(response, "the response"), *((name, "always included") for name in wanted)]:
        if name in dropped:
            raise DataError(f"column {name!r} is {what}, so it cannot be dropped")
    if response in wanted:
        raise DataError(f"column {response!r} is the response, so it cannot be always included")
    frame = table.frame[[name for name in names if name not in dropped]]
    if drop_missing:
        frame, note = _without_gaps(frame)
        notes += note
    _refuse_missing(frame)
    y = _response(table._replace(frame=frame[[response]]), response)
    frame = frame.drop(columns=response)
    if frame.shape[1] == 0:
        raise DataError(f"there is no column left beside the response {response!r}; nothing to select from")
    faults: list[str] = []
    numbers, levels, more = _convert(table._replace(frame=frame), faults, categories=True)
    _refuse(faults)
    constant = [name for name, found in levels.items() if len(found) == 1]
    notes += more + [f"Column {name!r} holds one word only and is left out." for name in constant]
    frame = frame.drop(columns=constant)
    levels = {name: found for name, found in levels.items() if name not in constant}
    encoding = Encoding(list(frame.columns), levels)
    X = encoding._encode(frame, numbers)
    groups = {name: [f"{name}={level}" for level in found[1:]] for name, found in levels.items()}
    notes += [
        f"Column {name!r} is a category of {len(found)} levels ({_some(found)}); they enter together, compared with {found[0]!r}."
        for name, found in levels.items()
    ]
    inside = [column for name in wanted if name not in constant for column in groups.get(name, [name])]
    free = {name: columns for name, columns in groups.items() if name not in wanted}
    return Prepared(X, y, free or None, inside, encoding, notes)


def _some(items: list[str]) -> str:
    return ", ".join(items[:4]) + ", …" * (len(items) > 4)


def _without_gaps(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    gaps = frame.isna().any(axis=1)
    count = int(gaps.sum())
    if count == len(frame):
        worst = frame.isna().sum().idxmax()
        raise DataError(
            f"every row has a missing value; column {worst!r} has the most of them: leave it out with --drop"
        )
    note = [f"{count} of {len(frame)} rows have missing values and are left out."] if count else []
    return frame[~gaps], note


def _refuse_missing(frame: pd.DataFrame) -> None:
    gaps = frame.isna().to_numpy()
    if not gaps.any():
        return
    column = int(gaps.any(axis=0).argmax())
    row = int(frame.index[int(gaps[:, column].argmax())]) + 1
    count, columns = int(gaps.sum()), int(gaps.any(axis=0).sum())
    name = frame.columns[column]
    if gaps[:, column].all():
        raise DataError(f"column {name!r} is empty; leave it out with --drop {_quoted(name)}")
    more = (
        "" if count == 1 else f" (in all {count} cells of {columns} column{'s' * (columns > 1)} are missing)"
    )
    raise DataError(
        f"column {name!r} has no value in row {row}{more}; fill them in, or leave such rows out with --drop-missing, "
        "or the column with --drop"
    )


def _refuse_infinite(values: np.ndarray, names: list[str], index: Any) -> None:
    bad = np.isinf(values)
    if bad.any():
        column = int(bad.any(axis=0).argmax())
        row = index[int(bad[:, column].argmax())] + 1
        raise DataError(
            f"column {names[column]!r} is infinite in row {row}; mend the cell or leave the row out"
        )


def _refuse(faults: list[str]) -> None:
    if len(faults) == 1:
        raise DataError(faults[0])
    if faults:
        shown = "".join(f"\n- {fault}" for fault in faults[:10])
        raise DataError(f"{len(faults)} columns cannot be used:{shown}" + "\n- …" * (len(faults) > 10))


def _response(table: Table, name: str) -> pd.Series:
    faults: list[str] = []
    if pd.api.types.is_bool_dtype(table.frame[name].dtype):
        raise DataError(
            f"the response {name!r} holds true and false; this is linear regression: write 0 and 1 if you mean that"
        )
    numbers = _convert(table, faults, categories=False)[0]
    if faults:
        raise DataError(f"the response: {faults[0]}")
    y = pd.Series(numbers[name].to_numpy(dtype=float), name=name)
    _refuse_infinite(y.to_numpy()[:, None], [name], numbers.index)
    return y


# --- kinds of columns


def _convert(
    table: Table, faults: list[str], categories: bool
) -> tuple[pd.DataFrame, dict[str, list[str]], list[str]]:
    """Columns of numbers as numbers; levels of those that are categories; notes. What is neither goes to `faults`."""
    frame, notes = table.frame, []
    plain = np.array([isinstance(d, np.dtype) and d.kind in "biuf" for d in frame.dtypes], bool)
    numbers: dict[str, np.ndarray] = {}
    levels: dict[str, list[str]] = {}
    for name in frame.columns[~plain]:
        column = frame[name]
        kind, found = _look_at(column, table.decimal_comma, categories)
        if kind == "fault":
            faults.append(f"column {name!r} {found}")
        elif kind == "levels":
            levels[name] = found
        else:
            numbers[name] = found
            if kind == "comma":
                notes.append(f"Column {name!r} has decimal commas, which are read as such.")
    if plain.all():
        return frame, levels, notes
    kept = [name for name, is_plain in zip(frame.columns, plain) if is_plain or name in numbers]
    converted = pd.concat([frame.loc[:, plain], pd.DataFrame(numbers, index=frame.index)], axis=1)
    return converted[kept], levels, notes


def _look_at(column: pd.Series, decimal_comma: bool, categories: bool) -> tuple[str, Any]:
    """What a column is that is not plain numbers: ("number", values), ("comma", values), ("levels", them) or
    ("fault", what is wrong and what to do)."""
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
            f"has {_short(words.iloc[0])} in row {words.index[0] + 1}{more}, which is not a number; mend the cell, or leave "
            "it empty if the value is missing"
        )
    return _levels(text, categories)


def _floats(column: pd.Series) -> np.ndarray:
    """Numbers as floats; integers of more than 308 digits are infinite, and refused as such later."""
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
    """As a shell wants it."""
    return shlex.quote(str(name))


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


def _dates(column: pd.Series) -> str:
    return (
        f"holds dates or times ({column.iloc[0]}); turn it into a number (days since a start, month, hour), "
        f"or leave it out with --drop {_quoted(column.name)}"
    )


def _levels(column: pd.Series, categories: bool) -> tuple[str, Any]:
    levels = sorted(column.astype(str).str.strip().unique())
    if not categories:
        return "fault", f"holds words ({_some([_short(level) for level in levels])}), not numbers"
    if len(levels) > min(MOST_LEVELS, max(2, len(column) // 3)):
        return "fault", (
            f"holds free text: {len(levels)} different values in {len(column)} rows, such as {_short(levels[0])}; "
            f"leave it out with --drop {_quoted(column.name)}, or merge its values into a few categories"
        )
    return "levels", levels


def _dummies(column: pd.Series, levels: list[str]) -> np.ndarray:
    """One 0/1 column for each level but the first, (n, levels − 1)."""
    text = column.astype(str).str.strip().to_numpy(dtype=object)
    unknown = ~np.isin(text, levels)
    if unknown.any():
        row = int(unknown.argmax())
        raise DataError(
            f"column {column.name!r} has {_short(text[row])} in row {column.index[row] + 1}, which the run has not seen; its levels are "
            f"{_some(levels)}"
        )
    return (text[:, None] == np.array(levels[1:], dtype=object)[None, :]).astype(float)
