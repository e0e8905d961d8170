"""Tables that are joined by identifiers: phenotypes and covariates of the same people, in files of their own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.data.files import Table, read_table
from whichvars.errors import DataError

# columns that identify people in PLINK's files; a family is only half of an identifier
FAMILY, PERSON = "FID", "IID"
SHOWN = 3


class Keyed(NamedTuple):
    """A table and, for each of its rows, the cells that identify it."""

    table: Table  # without the columns of `keys`
    keys: pd.DataFrame  # strings
    path: Path


def read_keyed(path: Path, others: Sequence[str], id_column: str | None = None) -> Keyed:
    """Read a table that is joined with another one, whose columns are `others`.

    Rows are identified by `id_column` if it is given, by IID (and FID, if both tables have it), or by the only column that both
    tables have. Cells of identifiers are compared as they are written: 007 is not 7.
    """
    table = _plain_names(read_table(path, blanks=True))
    chosen = _identifiers(list(table.frame.columns), others, id_column, path)
    # again, now that it is known which columns must not become numbers
    table = _plain_names(read_table(path, text=[*chosen, *(f"#{name}" for name in chosen)], blanks=True))
    keys = as_keys(table.frame[chosen])
    rest = table.frame.drop(columns=chosen)
    if FAMILY in rest.columns:
        rest = rest.drop(columns=FAMILY)
    if rest.shape[1] == 0:
        raise DataError(f"{path} has no column besides {' and '.join(chosen)}; there is nothing to join")
    twice = keys.duplicated().to_numpy()
    if twice.any():
        row = int(twice.argmax())
        first = int((keys == keys.iloc[row]).all(axis=1).to_numpy().argmax())
        raise DataError(
            f"{path}: rows {table.frame.index[first] + 1} and {table.frame.index[row] + 1} both belong to "
            f"{shown_key(keys.iloc[row])}; leave one of them out"
        )
    return Keyed(table._replace(frame=rest), keys, path)


def as_keys(frame: pd.DataFrame) -> pd.DataFrame:
    """Identifiers as strings; whole numbers without a decimal point."""

    def text(cell: Any) -> str:
        return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()

    return pd.DataFrame({name: [text(cell) for cell in frame[name]] for name in frame.columns}, frame.index)


def match(rows: pd.DataFrame, keyed: Keyed, what: str, whose: str) -> tuple[np.ndarray, list[str]]:
    """Where the rows are found in a joined table, (rows,), with −1 for those that are not there; and notes on what did not match.

    Parameters
    ----------
    rows : DataFrame of str
        The identifiers of the rows, among others the columns of ``keyed.keys``.
    keyed : Keyed
    what, whose : str
        What is joined ("covariates"), and what the rows are ("people of cohort.fam").
    """
    names = list(keyed.keys.columns)
    ours = list(zip(*(rows[name] for name in names)))
    if len(set(ours)) < len(ours):
        again = pd.Series(ours, dtype=object)
        key = again[again.duplicated()].iloc[0]
        advice = (
            f"give it a column that can, such as {FAMILY}"
            if FAMILY in rows.columns and FAMILY not in names
            else "give each its own identifier in all files, or leave out all but one of them"
        )
        raise DataError(
            f"several of the {whose} have {' and '.join(names)} {' '.join(key)}, so that {keyed.path} cannot tell them apart; {advice}"
        )
    place = {key: i for i, key in enumerate(zip(*(keyed.keys[name] for name in names)))}
    found = np.array([place.get(key, -1) for key in ours], np.int64)
    missing = np.flatnonzero(found < 0)
    if len(missing) == len(ours):
        raise DataError(_nothing_in_common(rows, keyed, what, whose))
    used, notes = set(found.tolist()), []
    if missing.size:
        some = ", ".join(" ".join(ours[i]) for i in missing[:SHOWN]) + ", …" * (missing.size > SHOWN)
        notes.append(
            f"{missing.size:,} of {len(ours):,} {whose} are not in {keyed.path.name} and are left out: {some}."
        )
    unused = len(place) - len(used - {-1})
    if unused:
        notes.append(
            f"{unused:,} of {len(place):,} rows of {keyed.path.name} match none of the {whose} and are not used."
        )
    return found, notes


def shown_key(key: pd.Series) -> str:
    """An identifier for a message.

    >>> shown_key(pd.Series({"FID": "f1", "IID": "7"}))
    'FID f1, IID 7'
    """
    return ", ".join(f"{name} {value}" for name, value in key.items())


def _plain_names(table: Table) -> Table:
    """PLINK 2 writes #FID or #IID as the first name of a header."""
    return table._replace(frame=table.frame.rename(columns={f"#{name}": name for name in (FAMILY, PERSON)}))


def _identifiers(columns: list[str], others: Sequence[str], id_column: str | None, path: Path) -> list[str]:
    if id_column is not None:
        for names, where in ((columns, str(path)), (others, "the data")):
            if id_column not in names:
                raise DataError(f"--id: {where} has no column {id_column!r}; it has {_listed(names)}")
        return [id_column]
    shared = [name for name in columns if name in others]
    if PERSON in shared:
        return [name for name in (FAMILY, PERSON) if name in shared]
    if len(shared) == 1:
        return shared
    if shared:
        raise DataError(
            f"{path} and the data share the columns {_listed(shared)}; say with --id which of them identifies the rows"
        )
    raise DataError(
        f"{path} has no column that the data have too; it has {_listed(columns)}. To join them, one column must identify the rows in "
        "both, such as IID. If the file has no line of names, write one above its first line, such as FID IID height"
    )


def _nothing_in_common(rows: pd.DataFrame, keyed: Keyed, what: str, whose: str) -> str:
    names = list(keyed.keys.columns)
    message = (
        f"none of the {len(rows):,} {whose} is in {keyed.path}; the first is {shown_key(rows[names].iloc[0])} there and "
        f"{shown_key(keyed.keys.iloc[0])} here"
    )
    if names == [FAMILY, PERSON] and set(rows[PERSON]) & set(keyed.keys[PERSON]):
        return f"{message}. The {PERSON}s do match, but not together with the {FAMILY}s: join by {PERSON} alone with --id {PERSON}"
    return f"{message}. Give the {what} of the same people, with the same identifiers"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:8])) + ", …" * (len(names) > 8)
