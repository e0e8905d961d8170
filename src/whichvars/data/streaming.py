"""Reading CSV or Parquet files and folders a few thousand rows at a time, in bounded memory.

All files are checked before the first row is read: they must have the same columns (in any order) and, if the format
records types, numeric ones. Rows are counted from 1 in each file, without the header.
"""

import gzip
import importlib
import io
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.data.files import cannot_parse, check_names, find_separator, first_bytes, read_header
from whichvars.data.frames import NUMERIC, find_columns
from whichvars.data.kinds import classify
from whichvars.errors import DataError, MissingPackageError

PARQUET = b"PAR1"
# Options of Parquet that limit memory: a column of a row group is read in pieces of this many bytes, and nothing is read
# ahead. The default is to read the whole file.
IN_PORTIONS = {"buffer_size": 1 << 20, "pre_buffer": False}


class Source(NamedTuple):
    """A file and its columns."""

    path: Path
    kind: str  # "csv" or "parquet"
    columns: list[str]
    separator: str = ","


class Portion(NamedTuple):
    """Some rows of a file."""

    path: Path
    first_row: int  # counted from 1
    columns: list[np.ndarray]  # in the order asked for; finite


def find_sources(paths: Any) -> list[Source]:
    """The data files of a file, a folder or a list of them, in the order of their names; DataError if their columns
    differ."""
    wanted: list[Path] = []
    for path in _as_paths(paths):
        wanted += _files_in(path) if path.is_dir() else [path]
    if not wanted:
        raise DataError("no file was given; name a file, a folder or a list of them")
    sources = [_inspect(path) for path in wanted]
    first = sources[0]
    for other in sources[1:]:
        lacking = [name for name in first.columns if name not in other.columns]
        extra = [name for name in other.columns if name not in first.columns]
        if lacking or extra:
            what = (
                f"lacks the column {lacking[0]!r}, which {first.path} has"
                if lacking
                else f"has a column {extra[0]!r}, which {first.path} lacks"
            )
            raise DataError(f"{other.path} {what}; all files must have the same columns")
    return sources


def read_portions(sources: Sequence[Source], columns: Sequence[str], rows: int) -> Iterator[Portion]:
    """The rows of all files, at most `rows` at a time; DataError naming the file, column and row of a value that is not a
    finite number."""
    for source in sources:
        if source.kind == "parquet":
            _check_parquet_types(source, columns)
    for source in sources:
        read = _read_parquet if source.kind == "parquet" else _read_csv
        yield from read(source, list(columns), rows)


def split_columns(
    names: list[str], response: Any, weights: str | None, drop: Any
) -> tuple[list[str], list[str]]:
    """Divide the columns of a file into columns of X and responses."""
    responses = [response] if isinstance(response, str) else list(response)
    if not responses:
        raise DataError("response: name at least one column")
    dropped = {names[i] for i in find_columns(drop, names, "drop")}
    for what, wanted in (("response", responses), ("weights", [] if weights is None else [weights])):
        find_columns(wanted, names, what)
        for name in wanted:
            if name in dropped:
                raise DataError(f"column {name!r} is given as {what}, so it cannot be dropped")
    if weights in responses:
        raise DataError(f"column {weights!r} cannot be both the weights and a response")
    X = [name for name in names if name not in {*responses, weights, *dropped}]
    if not X:
        raise DataError(f"there is no column left besides the response {responses[0]!r}")
    return X, responses


# --- which files


def _as_paths(paths: Any) -> list[Path]:
    if isinstance(paths, (str, os.PathLike)):
        return [Path(paths)]
    if not isinstance(paths, Iterable):
        raise DataError(f"name a file, a folder or a list of them, not {paths!r}")
    return [Path(path) for path in paths]


def _files_in(folder: Path) -> list[Path]:
    """All files except those that other programs leave behind, such as _SUCCESS and .crc."""
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    for path in inside:
        if path.is_dir():
            raise DataError(
                f"{folder} contains a folder {path.name!r}; only files directly in a folder are read: name the inner "
                "folders one by one"
            )
    if not inside:
        raise DataError(f"{folder} contains no files")
    return inside


def _inspect(path: Path) -> Source:
    first = first_bytes(path)
    if first.startswith((b"ARROW1", b"FEA1")):
        raise DataError(f"{path} is a Feather file, which cannot be read in portions; save it as Parquet")
    if first.startswith(PARQUET):
        with _open_parquet(path) as file:
            names = list(file.schema_arrow.names)
        check_names(names, path)
        return Source(path, "parquet", names)
    with _open_text(path) as text:
        line, next_line = _first_line(text, path), text.readline()
    separator = find_separator(line)
    names = read_header(path, line + next_line, separator)
    check_names(names, path)
    unnamed = [i for i, name in enumerate(names) if name == "" and i > 0]  # the first may be row labels
    if unnamed:
        raise DataError(f"{path}: column {unnamed[0] + 1} has no name; give it one, or delete it")
    return Source(path, "csv", names[1:] if names[0] == "" else names, separator)


# --- CSV


@contextmanager
def _open_text(path: Path) -> Iterator[io.TextIOWrapper]:
    """The text of a file, decompressed if necessary; errors name the file."""
    with open(path, "rb") as raw:
        first = raw.read(2)
        raw.seek(0)
        stream: Any = gzip.GzipFile(fileobj=raw) if first == b"\x1f\x8b" else raw
        encoding = "utf-16" if first in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        try:
            yield io.TextIOWrapper(stream, encoding=encoding, newline="")
        except UnicodeError as error:
            raise DataError(f"{path} is not a text file in UTF-8; save it as CSV in UTF-8") from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{path} is a damaged gzip file: {error}") from error


def _first_line(text: io.TextIOWrapper, path: Path) -> str:
    for line in text:
        if "\0" in line:
            raise DataError(f"{path} is not a text file; save the table as CSV or Parquet")
        if line.strip():
            return line
    raise DataError(f"{path} is empty")


def _read_csv(source: Source, columns: list[str], rows: int) -> Iterator[Portion]:
    path = source.path
    with _open_text(path) as text:
        header = read_header(path, _first_line(text, path), source.separator)
    place = {name: i for i, name in enumerate(header)}
    with _open_text(path) as text:
        try:
            reader = pd.read_csv(
                text, sep=source.separator, header=0, names=range(len(header)), chunksize=rows, skipinitialspace=True,
                low_memory=False,
            )  # fmt: skip
            for frame in reader:
                if len(frame):
                    values = [_numbers(frame[place[name]].rename(name), source) for name in columns]
                    yield Portion(path, int(frame.index[0]) + 1, values)
        except pd.errors.EmptyDataError:
            return
        except pd.errors.ParserError as error:
            raise cannot_parse(path, error, len(header)) from error


def _numbers(column: pd.Series, source: Source) -> np.ndarray:
    first = int(column.index[0]) + 1
    if not (isinstance(column.dtype, np.dtype) and column.dtype.kind in NUMERIC):
        gaps = column.isna().to_numpy()
        if not gaps.any():
            reading = classify(column, source.separator != ",", categories=False)
            if reading.values is None:
                raise DataError(f"{source.path}: column {column.name!r} {reading.words}")
            return _finite(reading.values, str(column.name), source.path, first)
        _refuse(np.where(gaps, np.nan, 0.0), str(column.name), source.path, first)
    return _finite(column.to_numpy(dtype=float), str(column.name), source.path, first)


def _finite(values: np.ndarray, name: str, path: Path, first_row: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        if not np.isfinite(
            values.sum()
        ):  # a sum needs no memory, but it may overflow though all values are finite
            _refuse(values, name, path, first_row)
    return values


def _refuse(values: np.ndarray, name: str, path: Path, first_row: int) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        missing = np.isnan(values[bad[0]])
        raise DataError(
            f"{path}: column {name!r} {'has no value' if missing else 'is infinite'} in row {first_row + bad[0]}; "
            "fill it in, or leave the row or the column out"
        )


# --- Parquet


def _arrow() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet"), importlib.import_module("pyarrow")
    except ImportError:
        raise MissingPackageError(
            "Parquet files need the package pyarrow: pip install pyarrow; or save them as CSV"
        ) from None


def _open_parquet(path: Path) -> Any:
    parquet, arrow = _arrow()
    try:
        return parquet.ParquetFile(path, **IN_PORTIONS)
    except (arrow.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _check_parquet_types(source: Source, columns: Sequence[str]) -> None:
    _, arrow = _arrow()
    kinds = arrow.types
    with _open_parquet(source.path) as file:
        schema = file.schema_arrow
    for name in columns:
        kind = schema.field(name).type
        number = any(
            test(kind)
            for test in (
                kinds.is_floating,
                kinds.is_integer,
                kinds.is_boolean,
                kinds.is_decimal,
                kinds.is_null,
            )
        )
        if not number:
            raise DataError(
                f"{source.path}: column {name!r} contains {kind}, not numbers; turn it into numbers (words into 0/1 columns), "
                "or drop it"
            )


def _read_parquet(source: Source, columns: list[str], rows: int) -> Iterator[Portion]:
    _, arrow = _arrow()
    path, first = source.path, 1
    with _open_parquet(path) as file:
        try:
            for batch in file.iter_batches(batch_size=rows, columns=columns, use_threads=True):
                values = [
                    _finite(_from_arrow(batch.column(name), arrow), name, path, first) for name in columns
                ]
                yield Portion(path, first, values)
                first += batch.num_rows
        except (arrow.ArrowInvalid, OSError) as error:
            raise DataError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def _from_arrow(column: Any, arrow: Any) -> np.ndarray:
    """An arrow array as numbers; without a copy if there is nothing to convert."""
    kinds = arrow.types
    plain = kinds.is_floating(column.type) or kinds.is_integer(column.type)
    if column.null_count or not plain:
        column = column.cast(arrow.float64())
    return column.to_numpy(zero_copy_only=False)
