"""Genotypes: counts of an allele, stored as one byte each, and read from PLINK's .bed files."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from whichvars.data.frames import check_columns, find_columns
from whichvars.data.plink import names_of_people, read_bim, read_fam
from whichvars.errors import ArgumentTypeError, DataError, MissingPackageError

# the first bytes of a .bed file that is stored variant by variant
MAGIC = b"\x6c\x1b\x01"
# a genotype that is missing
MISSING = -127
# variants of a .bed file of which the last byte is looked at
ENDS = 1000
# what other programs write for a missing dosage
NOT_A_DOSAGE = -9.0
# columns that are counted at a time
BLOCK = 1024


class Genotypes:
    """A table of allele counts with one byte for each entry, or of dosages. ``Problem`` takes it as X and never expands it.

    Parameters
    ----------
    values : array of int8 or float32, shape (n, P)
        Counts, of which −127 means missing; or dosages, which are expected counts, of which NaN means missing. Not copied if columns are
        contiguous (Fortran order). ``Problem`` replaces missing entries by the mean of their column, for which dosages are copied.
    names : sequence of str
        A name for each column. The default is x0, x1, …
    samples : sequence of str
        A name for each row. If y or the covariates are pandas objects with row labels, these must be the same, in the same order.
    variants : DataFrame, P rows
        What is known of each column: ``read_bed`` gives `chromosome`, `position`, `allele1` (the one that is counted) and
        `allele2`. The default has no columns.

    Attributes
    ----------
    values, names, samples, variants
        As given; `variants` has the names as its index.
    index : Index
        The samples, or the positions 0, 1, 2, … if none were given: ``people.loc[X.index]`` has the rows of a table in the order of X.

    Examples
    --------
    >>> import numpy as np
    >>> import whichvars as wv
    >>> counts = np.random.default_rng(1).integers(0, 3, size=(100, 4)).astype(np.int8)
    >>> X = wv.Genotypes(counts, names=["rs1", "rs2", "rs3", "rs4"])
    >>> X
    Genotypes(100 rows, 4 columns)
    >>> wv.Problem(X, 0.1 * counts[:, 1] + np.sin(np.arange(100)))
    Problem(4 variables, 100 rows; IndependentNormal(g=0.028), BetaBinomial(size=2.0), Gram engine)
    """

    def __init__(
        self,
        values: Any,
        names: Sequence[str] | None = None,
        samples: Sequence[str] | None = None,
        variants: pd.DataFrame | None = None,
    ) -> None:
        array = np.asarray(values)
        if array.dtype not in (np.int8, np.float32) or array.ndim != 2:
            raise ArgumentTypeError(
                f"Genotypes needs a table of int8, not of {array.dtype} with {array.ndim} dimensions; "
                "write values.astype(numpy.int8), or values.astype(numpy.float32) if they are dosages"
            )
        self.values = np.asfortranarray(array).view()
        self.values.flags.writeable = False
        self.names = check_columns(names, array.shape[1], "values")
        self.index = (
            pd.RangeIndex(len(array))
            if samples is None
            else pd.Index([str(name) for name in samples], dtype=object)
        )
        _refuse_codes(self.values, self.names)
        self.samples = [str(name) for name in self.index]
        if len(self.samples) != len(array):
            raise DataError(f"samples has {len(self.samples)} entries but values has {len(array)} rows")
        if variants is not None and len(variants) != array.shape[1]:
            raise DataError(f"variants has {len(variants)} rows but values has {array.shape[1]} columns")
        self.variants = pd.DataFrame(index=range(array.shape[1])) if variants is None else variants.copy()
        self.variants.index = pd.Index(self.names, dtype=object, name="variant")

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> "Genotypes":
        """Some of the rows, by a slice, indices or booleans."""
        chosen = np.atleast_1d(np.arange(len(self.values))[rows])
        return Genotypes(self.values[chosen], self.names, self._samples(chosen), self.variants)

    def _samples(self, chosen: np.ndarray) -> list[str] | None:
        """The names of some rows; None if they have none."""
        return None if isinstance(self.index, pd.RangeIndex) else [self.samples[i] for i in chosen]

    def take(self, columns: Any) -> "Genotypes":
        """Some of the columns, by names, indices or booleans, in their present order.

        Examples
        --------
        >>> import numpy as np
        >>> import whichvars as wv
        >>> X = wv.Genotypes(np.array([[0, 1, 0], [1, 2, 0], [-127, 0, 1]], np.int8), names=["rs1", "rs2", "rs3"])
        >>> X.take(["rs3", "rs1"]).names
        ['rs1', 'rs3']
        """
        chosen = _chosen(columns, self.names, "columns")
        names = [self.names[i] for i in chosen]
        samples = self._samples(np.arange(len(self.values)))
        return Genotypes(self.values[:, chosen], names, samples, self.variants.iloc[chosen])

    def frequencies(self) -> pd.DataFrame:
        """How frequent the counted allele is, and how many genotypes are missing, by variant.

        Returns
        -------
        DataFrame, P rows
            `frequency` of the counted allele among the alleles of people whose genotype is known (half of the mean count); `minor`,
            that of the less frequent allele; `missing`, the share of people whose genotype is missing. Both frequencies are NaN if
            all are missing.

        Examples
        --------
        >>> import numpy as np
        >>> import whichvars as wv
        >>> X = wv.Genotypes(np.array([[2, 1], [1, 2], [-127, 0]], np.int8), names=["rs1", "rs2"])
        >>> X.frequencies().round(2)
                 frequency  minor  missing
        variant
        rs1           0.75   0.25     0.33
        rs2           0.50   0.50     0.00
        """
        n, p = self.values.shape
        sums, known = np.zeros(p), np.zeros(p)
        for first in range(0, p, BLOCK):
            block = self.values[:, first : first + BLOCK]
            there = ~is_missing(block)
            known[first : first + BLOCK] = there.sum(axis=0)
            sums[first : first + BLOCK] = np.where(there, block, 0).sum(axis=0, dtype=float)
        with np.errstate(invalid="ignore", divide="ignore"):
            frequency = sums / (2 * known)
        return pd.DataFrame(
            {
                "frequency": frequency,
                "minor": np.minimum(frequency, 1 - frequency),
                "missing": 1 - known / n,
            },
            self.variants.index,
        )

    def __repr__(self) -> str:
        return f"Genotypes({len(self.values)} rows, {len(self.names)} columns)"


def _refuse_codes(values: np.ndarray, names: list[str]) -> None:
    """DataError for numbers that other programs write for missing genotypes, such as −1 and −9."""
    counts = values.dtype.kind == "i"
    for first in range(0, values.shape[1], BLOCK):
        block = values[:, first : first + BLOCK]
        if counts and block.min(initial=0) >= 0:
            continue
        wrong = (block < 0) & (block != MISSING) if counts else block == NOT_A_DOSAGE
        if wrong.any():
            column = int(wrong.any(axis=0).argmax())
            row = int(wrong[:, column].argmax())
            code, missing = f"{block[row, column]:g}", str(MISSING) if counts else "NaN"
            raise DataError(
                f"values: {names[first + column]!r} is {code} in row {row}, which is no {'count' if counts else 'dosage'}. A missing one is {missing} here: "
                f"write np.where(values == {code}, {'np.int8(-127)' if counts else 'np.float32(np.nan)'}, values)"
            )


def is_missing(values: np.ndarray) -> np.ndarray:
    """Which entries of a table of counts or dosages are missing."""
    return np.isnan(values) if values.dtype.kind == "f" else values == MISSING


def read_bed(path: str | os.PathLike[str], *, rows: Any = None, variants: Any = None) -> Genotypes:
    """Read genotypes from a PLINK .bed file, with its .bim and .fam files in the same directory.

    Counts are those of the first allele of the .bim file (A1). Columns are named after the variants, or
    chromosome:position:A1:A2 if names are missing or not unique. Rows are named by IID, or FID_IID if several families have the same IID. Needs the package bed-reader (extra ``genetics``).

    Parameters
    ----------
    path : path
        The .bed file.
    rows : indices or booleans
        People to read, in the order of the .fam file; all of them if not given.
    variants : names, indices or booleans
        Variants to read; all of them if not given. What is not read takes no memory.

    Returns
    -------
    Genotypes
        With what the .bim file says in ``variants``. Each genotype takes two bits in the file and one byte in memory: 1 GB for 1,000 rows and 10⁶ variants.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> import whichvars as wv
    >>> from bed_reader import to_bed
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "small.bed"
    ...     to_bed(path, np.array([[0, 1], [2, -127], [1, 0]], np.int8), properties={"sid": ["rs1", "rs2"]})
    ...     genotypes = wv.read_bed(path)
    >>> genotypes.names, genotypes.values.tolist()
    (['rs1', 'rs2'], [[0, 1], [2, -127], [1, 0]])
    """
    bed = Path(path)
    bim, fam = bed.with_suffix(".bim"), bed.with_suffix(".fam")
    for file in (bed, bim, fam):
        if not file.is_file():
            raise DataError(
                f"there is no file {file}; a .bed file needs its .bim and .fam files in the same directory"
            )
    table, people = read_bim(bim), names_of_people(read_fam(fam))
    if not len(table) or not people:
        raise DataError(f"{bim if people else fam} is empty; there is nothing to read")
    _check_size(bed, len(people), len(table))
    names = table.index.tolist()
    chosen, wanted = selected(rows, variants, len(people), names, bed)
    try:
        from bed_reader import open_bed
    except ImportError as error:
        raise MissingPackageError(
            'reading .bed files needs the package bed-reader; pip install "whichvars[genetics]"'
        ) from error
    # the shape is known, so that bed-reader need not read .bim and .fam again, which it would do with its own errors
    with open_bed(bed, iid_count=len(people), sid_count=len(table), properties=dict.fromkeys(("fid", "iid", "father", "mother", "sex", "pheno", "chromosome", "sid", "cm_position", "bp_position", "allele_1", "allele_2"))) as file:  # fmt: skip
        values = file.read(np.s_[chosen, wanted], dtype="int8", order="F", num_threads=1)
    return Genotypes(values, [names[i] for i in wanted], [people[i] for i in chosen], table.iloc[wanted])


def selected(
    rows: Any, variants: Any, people: int, names: list[str], path: Path
) -> tuple[np.ndarray, np.ndarray]:
    """The indices of the people and variants that are to be read from a file."""
    chosen = np.arange(people)
    if rows is not None:
        given = np.asarray(rows)
        chosen = chosen[given if given.size else given.astype(int)]
    wanted = np.arange(len(names)) if variants is None else _chosen(variants, names, "variants")
    if not len(chosen) or not len(wanted):
        raise DataError(
            f"{path}: no {'variants' if len(chosen) else 'people'} are left; there is nothing to read"
        )
    return chosen, wanted


def _chosen(given: Any, names: list[str], what: str) -> np.ndarray:
    """Indices of columns given by names, indices or booleans."""
    array = np.atleast_1d(np.asarray(given))
    if array.dtype != bool:
        return np.array(find_columns(array.tolist(), names, what), np.int64)
    if array.shape != (len(names),):
        raise DataError(f"{what} has {array.size} booleans but there are {len(names)} columns")
    return np.flatnonzero(array)


def _check_ends(bed: Path, people: int, variants: int) -> None:
    """DataError if there are genotypes of more people than the .fam file has.

    Genotypes of four people are one byte. What is left of the last byte of a variant is 0, so that people who are missing in the .fam file show, even
    if the file has the right size.
    """
    if people % 4 == 0:
        return
    with open(bed, "rb") as stream:
        for j in np.unique(np.linspace(0, variants - 1, ENDS).astype(int)).tolist():
            stream.seek(3 + (j + 1) * -(-people // 4) - 1)
            if stream.read(1)[0] >> 2 * (people % 4):
                raise DataError(
                    f"{bed} has genotypes of more people than the {people:,} of {bed.with_suffix('.fam').name}. Lines are missing in that file, or it "
                    "belongs to another .bed file"
                )


def _check_size(bed: Path, people: int, variants: int) -> None:
    """DataError unless the .bed file has a format that can be read, and the size that the other two files imply."""
    with open(bed, "rb") as stream:
        begin = stream.read(3)
    if begin[:2] != MAGIC[:2]:
        raise DataError(f"{bed} is not a PLINK .bed file: its first bytes are wrong")
    if begin != MAGIC:
        raise DataError(
            f"{bed} is in the old format, person by person; create it again with plink --make-bed"
        )
    size, each = bed.stat().st_size, -(-people // 4)
    if size == 3 + each * variants:
        _check_ends(bed, people, variants)
        return
    held = (size - 3) / each
    says = f"{bed.with_suffix('.bim').name} has {variants:,} variants and {bed.with_suffix('.fam').name} {people:,} people"
    room = f"{held:,.0f} variants" if held == int(held) else f"{held:,.2f} variants, not a whole number,"
    raise DataError(
        f"{bed} has {size:,} bytes, room for {room} of {people:,} people, but {says}: {3 + each * variants:,} bytes. "
        "The .bed file is cut short, or one of the others belongs to another file"
    )
