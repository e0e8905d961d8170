"""Genotypes of PLINK's .raw files (``plink --recode A`` and ``plink2 --export A``): a text table with one line for each person."""

import os
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.data.genotypes import MISSING, Genotypes, selected
from whichvars.data.plink import names_of_people
from whichvars.errors import DataError, DataWarning

# fields before those of variants
FIXED = ["FID", "IID", "PAT", "MAT", "SEX", "PHENOTYPE"]
# the counted allele, after the last underscore of a name, and the other one, if plink was told to write it
NAME = re.compile(r"(.+)_([^_(]+)(?:\(/(.+)\))?")
HETEROZYGOUS = "_HET"


class RawFile(NamedTuple):
    """What is known of a file before its genotypes are read."""

    path: Path
    people: pd.DataFrame  # FID, IID, sex and phenotype, as they are written
    variants: pd.DataFrame  # allele1 (the one that is counted) and allele2, by name
    fields: np.ndarray  # the place of each of these variants in a line

    def read(self, rows: Any = None, variants: Any = None, dosages: bool = False) -> Genotypes:
        """The genotypes of some people and variants: counts, or dosages if these are asked for or if some of them are not whole numbers."""
        names = self.variants.index.tolist()
        chosen, wanted = selected(rows, variants, len(self.people), names, self.path)
        places = self.fields[wanted]
        values = self._numbers(places)[chosen]
        if not dosages and not np.any(values % 1 > 0):
            values = np.where(np.isnan(values), MISSING, values).astype(np.int8)
        table = self.variants.iloc[wanted]
        people = names_of_people(self.people)
        return Genotypes(values, table.index.tolist(), [people[i] for i in chosen], table)

    def _numbers(self, places: np.ndarray) -> np.ndarray:
        """The fields at some places of all lines, (n, places)."""
        settings: dict[str, Any] = {
            "sep": r"\s+",
            "header": None,
            "skiprows": 1,
            "usecols": sorted(places.tolist()),
        }
        try:
            frame = pd.read_csv(self.path, dtype=np.float32, **settings)
        except ValueError:
            frame = pd.read_csv(self.path, dtype=str, **settings).apply(pd.to_numeric, errors="coerce")
            written = pd.read_csv(self.path, dtype=str, keep_default_na=False, **settings)
            wrong = frame.isna() & ~written.isin(["NA", "nan"])
            self._say(wrong, written)
            raise
        self._say((frame < 0) | (frame > 2), frame)
        return frame[places.tolist()].to_numpy(np.float32)

    def _say(self, wrong: pd.DataFrame, written: pd.DataFrame) -> None:
        """DataError that names the first of the wrong genotypes, if there are any."""
        found = np.argwhere(wrong.to_numpy())
        if len(found):
            row, column = found[0]
            name = self.variants.index[self.fields.tolist().index(written.columns[column])]
            raise DataError(
                f"{self.path}: the genotype of {self.people['IID'].iloc[row]} at {name!r} in line {row + 2} is {written.iloc[row, column]!s}, not a number from 0 to 2 or NA"
            )


def open_raw(path: str | os.PathLike[str]) -> RawFile:
    """The people and the variants of a file. Columns of heterozygous people (``--recode AD``) are left out, with a warning."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"there is no file {file}")
    with open(file, encoding="utf-8-sig", errors="replace") as stream:
        names = stream.readline().split()
        counts = [(number, len(line.split())) for number, line in enumerate(stream, start=2) if line.strip()]
    if names[: len(FIXED)] != FIXED:
        raise DataError(
            f"{file}: the first line must begin with {' '.join(FIXED)}; create the file with plink --recode A or plink2 --export A"
        )
    for number, fields in counts:
        if fields != len(names):
            raise DataError(
                f"{file}: line {number} has {fields} fields, not {len(names)}; is the file cut short?"
            )
    places = [i for i in range(len(FIXED), len(names)) if not names[i].endswith(HETEROZYGOUS)]
    if not places or not counts:
        raise DataError(f"{file} has no {'people' if places else 'variants'}; there is nothing to read")
    if left := len(names) - len(FIXED) - len(places):
        warnings.warn(
            f"left out {left:,} columns of {file.name} that say who is heterozygous, such as {next(name for name in names if name.endswith(HETEROZYGOUS))}",
            DataWarning,
            stacklevel=3,
        )
    parts = []
    for i in places:
        found = NAME.fullmatch(names[i])
        parts.append((names[i], "", "") if found is None else (found[1], found[2], found[3] or ""))
    labels = [part[0] for part in parts]
    if len(set(labels)) < len(labels):
        labels = [names[i] for i in places]
    if len(set(labels)) < len(labels):
        twice = next(name for i, name in enumerate(labels) if name in labels[:i])
        raise DataError(f"{file}: two variants are called {twice!r}; give them other names")
    table = pd.DataFrame(
        {"allele1": [part[1] for part in parts], "allele2": [part[2] for part in parts]},
        index=pd.Index(labels, dtype=object, name="variant"),
    )
    people = pd.read_csv(
        file, sep=r"\s+", header=None, skiprows=1, usecols=[0, 1, 4, 5], dtype=str, keep_default_na=False
    )
    people.columns = pd.Index(["FID", "IID", "sex", "phenotype"])
    return RawFile(file, people, table, np.array(places))


def read_raw(
    path: str | os.PathLike[str], *, rows: Any = None, variants: Any = None, dosages: bool = False
) -> Genotypes:
    """Read genotypes from a .raw file, which ``plink --recode A`` and ``plink2 --export A`` write.

    Counts are those of the allele after the last underscore of a column's name. Columns are named after the variants, without the allele, or
    with it if names would not be unique. The file has no positions: `variants` has the alleles only.

    Parameters
    ----------
    path : path
        The .raw file.
    rows : indices or booleans
        People to read, in the order of the file; all of them if not given.
    variants : names, indices or booleans
        Variants to read; all of them if not given. What is not read takes no memory.
    dosages : bool
        Keep the numbers as dosages of four bytes each, even if all of them are whole. Numbers that are not whole are kept as dosages anyway.

    Returns
    -------
    Genotypes
        `variants` has `allele1` (which is counted) and `allele2`, empty unless the file has it (``include-alt``).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import whichvars as wv
    >>> lines = ["FID IID PAT MAT SEX PHENOTYPE rs1_A rs2_T", "f ann 0 0 2 1.5 0 1", "f bob 0 0 1 -9 2 NA"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "small.raw"
    ...     written = path.write_text("\\n".join(lines))
    ...     genotypes = wv.read_raw(path)
    >>> genotypes.names, genotypes.samples, genotypes.values.tolist()
    (['rs1', 'rs2'], ['ann', 'bob'], [[0, 1], [2, -127]])
    """
    return open_raw(path).read(rows, variants, dosages)


__all__ = ["read_raw"]
