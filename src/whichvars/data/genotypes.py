"""Genotypes: counts of an allele, stored as one byte each, and read from PLINK's .bed files."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whichvars.data.frames import check_columns
from whichvars.errors import ArgumentTypeError, DataError, MissingPackageError

# the first bytes of a .bed file that is stored variant by variant
MAGIC = b"\x6c\x1b\x01"


class Genotypes:
    """A table of allele counts with one byte for each entry. ``Problem`` takes it as X and never expands it.

    Parameters
    ----------
    values : array of int8, shape (n, P)
        Counts; −127 means missing. Not copied if columns are contiguous (Fortran order).
    names : sequence of str
        A name for each column. The default is x0, x1, …
    samples : sequence of str
        A name for each row, which whichvars itself does not use.

    Examples
    --------
    >>> import numpy as np
    >>> import whichvars as wv
    >>> counts = np.random.default_rng(1).integers(0, 3, size=(100, 4)).astype(np.int8)
    >>> X = wv.Genotypes(counts, names=["rs1", "rs2", "rs3", "rs4"])
    >>> X
    Genotypes(100 rows, 4 columns)
    >>> wv.Problem(X, counts[:, 1] + np.sin(np.arange(100)))
    Problem(4 variables, 100 rows; IndependentNormal(g=1.0), BetaBinomial(size=2.0), Gram engine)
    """

    def __init__(
        self, values: Any, names: Sequence[str] | None = None, samples: Sequence[str] | None = None
    ) -> None:
        array = np.asarray(values)
        if array.dtype != np.int8 or array.ndim != 2:
            raise ArgumentTypeError(
                f"Genotypes needs a table of int8, not of {array.dtype} with {array.ndim} dimensions; "
                "write values.astype(numpy.int8)"
            )
        self.values = np.asfortranarray(array).view()
        self.values.flags.writeable = False
        self.names = check_columns(names, array.shape[1], "values")
        self.samples = (
            [str(i) for i in range(len(array))] if samples is None else [str(name) for name in samples]
        )
        if len(self.samples) != len(array):
            raise DataError(f"samples has {len(self.samples)} entries but values has {len(array)} rows")

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> "Genotypes":
        """Some of the rows, by a slice, indices or booleans."""
        chosen = np.atleast_1d(np.arange(len(self.values))[rows])
        return Genotypes(self.values[chosen], self.names, [self.samples[i] for i in chosen])

    def __repr__(self) -> str:
        return f"Genotypes({len(self.values)} rows, {len(self.names)} columns)"


def read_bed(path: str | os.PathLike[str]) -> Genotypes:
    """Read genotypes from a PLINK .bed file, with its .bim and .fam files in the same directory.

    Counts are those of the first allele of the .bim file (A1). Columns are named after the variants, or
    chromosome:position:A1:A2 if names are missing or not unique. Needs the package bed-reader (extra ``genetics``).

    Parameters
    ----------
    path : path
        The .bed file.

    Returns
    -------
    Genotypes
        Each genotype takes two bits in the file and one byte in memory: 1 GB for 1,000 rows and 10⁶ variants.

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
    names, people = _read_fields(bim, 6, (1,)), _read_fields(fam, 6, (1,))
    if not names or not people:
        raise DataError(f"{bim if people else fam} is empty; there is nothing to read")
    _check_size(bed, len(people), len(names))
    try:
        from bed_reader import open_bed
    except ImportError as error:
        raise MissingPackageError(
            'reading .bed files needs the package bed-reader; pip install "whichvars[genetics]"'
        ) from error
    # the shape is known, so that bed-reader need not read .bim and .fam again, which it would do with its own errors
    with open_bed(bed, iid_count=len(people), sid_count=len(names), properties=dict.fromkeys(("fid", "iid", "father", "mother", "sex", "pheno", "chromosome", "sid", "cm_position", "bp_position", "allele_1", "allele_2"))) as file:  # fmt: skip
        values = file.read(dtype="int8", order="F", num_threads=1)
    return Genotypes(values, _unique(names, bim), people)


def _read_fields(path: Path, count: int, wanted: tuple[int, ...]) -> list[str]:
    """The wanted fields of each line of a .bim or .fam file, joined by colons; each line must have `count` fields."""
    out = []
    with open(path, encoding="utf-8", errors="replace") as stream:
        for i, line in enumerate(stream):
            fields = line.split()
            if len(fields) != count:
                raise DataError(
                    f"{path}: line {i + 1} has {len(fields)} fields, not {count}; is it the right file?"
                )
            out.append(":".join(fields[field] for field in wanted))
    return out


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
        return
    held = (size - 3) / each
    says = f"{bed.with_suffix('.bim').name} has {variants:,} variants and {bed.with_suffix('.fam').name} {people:,} people"
    room = f"{held:,.0f} variants" if held == int(held) else f"{held:,.2f} variants, not a whole number,"
    raise DataError(
        f"{bed} has {size:,} bytes, room for {room} of {people:,} people, but {says}: {3 + each * variants:,} bytes. "
        "The .bed file is cut short, or one of the others belongs to another file"
    )


def _unique(names: list[str], bim: Path) -> list[str]:
    """The names of variants, replaced by chromosome:position:A1:A2 if they are missing or not unique."""
    counts = Counter(names)
    if len(counts) == len(names) and "." not in counts:
        return names
    places = _read_fields(bim, 6, (0, 3, 4, 5))
    return [place if name == "." or counts[name] > 1 else name for name, place in zip(names, places)]
