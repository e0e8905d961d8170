"""Reading CSV, Parquet and Feather files into tables with valid column names.

Rows are counted from 1, without the header. The contents of columns are converted in ``encoding.py``.
"""

import csv
import gzip
import io
import os
import re
import warnings
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from whichvars.errors import DataError

# bytes that a gzipped file of any size may unpack to
LARGEST_GZIP = 256 << 20
SEPARATORS = (",", ";", "\t")
LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
# cells of a CSV file that are missing values
GAPS = frozenset(
    [
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "None",
        "n/a",
        "nan",
        "null",
        "",
    ]
)
FOREIGN = {
    b"PK\x03\x04": "an Excel workbook or a zip archive; save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV",
    b"SQLite": "a database; export the table as CSV",
    b"\x6c\x1b\x01": "a PLINK .bed file of genotypes, not a table; `whichvars fit` and whichvars.read_bed read it if its name ends in .bed",
}


class Table(NamedTuple):
    """The named columns of a file, not yet converted to numbers."""

    frame: pd.DataFrame
    notes: list[str]  # for the user, about what was changed
    decimal_comma: bool = False  # whether commas in numbers can only be decimal commas


def read_table(
    path: str | os.PathLike[str], text: Collection[str] = (), blanks: bool = False, label: str = ""
) -> Table:
    """Read a CSV (also gzipped), Parquet or Feather file, recognised by its first bytes.

    The first line of a CSV file has the names of the columns. The separator is the comma, semicolon or tab, whichever is
    most frequent in this line; blanks, if it has none of these and the next line has as many words. Lines above it that begin with # and have fewer
    cells are comments.

    Parameters
    ----------
    path : path
    text : names
        Columns whose cells are kept as they are written, such as identifiers: 007 does not become 7.
    blanks : bool
        Whether columns may be separated by blanks also if the first two lines have different numbers of words.
    label : str
        Name for a first column of a CSV file that has none; without it, such a column is left out.

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
    first = first_bytes(path)
    if first.startswith(b"PAR1"):
        return _read_arrow(path, "read_parquet", "Parquet")
    if first.startswith((b"ARROW1", b"FEA1")):
        return _read_arrow(path, "read_feather", "Feather")
    return _read_csv(path, _decode(path, path.read_bytes()), text, blanks, label)


def first_bytes(path: Path) -> bytes:
    """The first bytes of a file, which identify its format; DataError for the formats of other programs."""
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
    except Exception as error:  # the errors of pyarrow have no common base class
        raise DataError(f"{path} cannot be read as {kind}: {str(error).splitlines()[0]}") from error
    frame.columns = pd.Index([str(name).strip() for name in frame.columns], dtype=object)
    return _tidy(frame.reset_index(drop=True), list(frame.columns), path)


def _read_csv(path: Path, text: str, as_text: Collection[str], blanks: bool, label: str) -> Table:
    text = _without_comments(text)
    separator = find_separator(text)
    if separator not in text.split("\n", 1)[0] and (blanks or _has_blanks(text)):
        text = "\n".join("\t".join(line.split()) for line in text.splitlines() if line.strip()) + "\n"
        separator = "\t"
    names = read_header(path, text, separator)
    names[:1] = [names[0] or label]
    kept = {i: str for i, name in enumerate(names) if name in as_text}
    content = io.BytesIO(text.encode())  # a quarter of what io.StringIO would need
    del text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                content, sep=separator, header=0, names=range(len(names)), low_memory=False,
                skipinitialspace=True, index_col=False, na_values=sorted(GAPS), keep_default_na=False, dtype=kept,
            )  # fmt: skip
    except pd.errors.ParserWarning as warning:  # it would leave out cells
        raise _too_many_cells(path, names, "rows have") from warning
    except pd.errors.ParserError as error:
        raise cannot_parse(path, error, len(names)) from error
    del content
    _empty_blanks(frame)
    return _tidy(frame, names, path)._replace(decimal_comma=separator != ",")


def _without_comments(text: str) -> str:
    """The text without the lines at its top that begin with # and have fewer cells than the line after them."""
    while text.startswith("#"):
        line, _, rest = text.partition("\n")
        after = rest.partition("\n")[0]
        separator = find_separator(after)
        if line.count(separator) >= after.count(separator):
            break
        text = rest
    return text


def _has_blanks(text: str) -> bool:
    """Whether the first two lines have the same number of words, at least two."""
    first, second = (len(line.split()) for line in (*text.splitlines()[:2], "", "")[:2])
    return first == second >= 2


def _empty_blanks(frame: pd.DataFrame) -> None:
    """Replace cells that contain only blanks, of any kind and also in quotes, by missing values. Blanks around a code for
    missing values are ignored."""
    for name, kind in zip(frame.columns, frame.dtypes):
        if isinstance(kind, np.dtype) and kind.kind in "biuf":
            continue
        gaps = frame[name].map(lambda cell: isinstance(cell, str) and cell.strip() in GAPS)
        if gaps.any():
            frame[name] = frame[name].mask(gaps.astype(bool))


def _too_many_cells(path: Path, names: list[str], subject: str) -> DataError:
    return DataError(
        f"{path}: the header has {len(names)} name{'s' * (len(names) != 1)} but {subject} more cells; "
        "give every column a name"
    )


def cannot_parse(path: Path, error: Exception, names: int) -> DataError:
    match = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if match is None:
        return DataError(f"{path} cannot be read as CSV: {str(error).splitlines()[0]}")
    return DataError(
        f"{path}: line {match[2]} has {match[3]} cells but the header has {names} names; "
        "put text that contains the separator in double quotes"
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
                f"{path} unpacks to over {most >> 20:,} MB, which is unusual for a table; unpack it yourself if it is one"
            )
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path} is not a text file in UTF-8: line {line} has an invalid byte; save it as CSV in UTF-8"
        ) from error
    if "\0" in text:
        raise DataError(f"{path} is not a text file; save the table as CSV, Parquet or Feather")
    text = text.lstrip("\r\n")
    if not text.strip():
        raise DataError(f"{path} is empty")
    return text


def find_separator(text: str) -> str:
    header = re.sub(r'"[^"]*"', "", text.split("\n", 1)[0])
    return max(SEPARATORS, key=header.count)


def read_header(path: Path, text: str, separator: str) -> list[str]:
    one_by_one = (found[0] for found in LINE.finditer(text))  # io.StringIO would copy the whole text
    lines = csv.reader(one_by_one, delimiter=separator, skipinitialspace=True)
    try:
        names, row = [name.strip() for name in next(lines)], next(lines, [])
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV: {error}") from error
    if len(row) > len(names):
        raise _too_many_cells(path, names, "the first row has")
    if all(_is_number(name) for name in names):
        raise DataError(
            f"{path} has no header: its first line contains only numbers ({', '.join(names[:3])}{', …' * (len(names) > 3)}); "
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
    """Check the names, and leave out empty rows, empty columns without a name, and row labels."""
    notes = []
    check_names(names, path)
    frame = frame.copy()  # puts columns of one dtype side by side, which is far quicker if there are many
    frame.columns = pd.Index(names, dtype=object)
    if frame.empty:
        raise DataError(f"{path} has {'a header but no rows' if len(names) else 'no columns'}")
    unnamed = np.array([name == "" for name in names])
    if unnamed.any():
        blank = unnamed & frame.isna().all().to_numpy()
        labels = unnamed & ~blank
        if labels[0]:
            notes.append("The first column has no name; it is assumed to contain row labels and left out.")
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


def check_names(names: list[str], path: Path) -> None:
    seen: dict[str, int] = {}
    for i, name in enumerate(names, start=1):
        if name and name in seen:
            raise DataError(
                f"{path}: columns {seen[name]} and {i} are both called {name!r}; rename one of them"
            )
        seen[name] = i
