"""Genotypes of VCF files (the Variant Call Format, versions 4.x), plain or compressed with gzip or bgzip."""

import gzip
import itertools
import os
import re
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.data.genotypes import MISSING, Genotypes, selected
from whichvars.data.plink import variant_table
from whichvars.errors import DataError, DataWarning

# fields before those of people
FIXED = ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT"]
# counts of the alternative allele, by what is written
COUNTS = {".": MISSING}
for _first, _mark, _second in itertools.product("01.", "/|", "01."):
    _text = _first + _mark + _second
    COUNTS[_text] = MISSING if "." in _text else _text.count("1")
ALLELES = re.compile(r"[01.]([/|][01.])*")


class VcfFile(NamedTuple):
    """What is known of a file before its genotypes are read."""

    path: Path
    people: list[str]
    variants: pd.DataFrame
    # the number of each of these variants among all records
    records: np.ndarray

    def read(self, rows: Any = None, variants: Any = None, dosages: bool = False) -> Genotypes:
        """The genotypes of some people and variants, or their dosages."""
        names = self.variants.index.tolist()
        chosen, wanted = selected(rows, variants, len(self.people), names, self.path)
        place = {int(record): j for j, record in enumerate(self.records[wanted])}
        values = np.empty((len(chosen), len(wanted)), np.float32 if dosages else np.int8, order="F")
        diploid = np.ones(len(wanted), bool)
        for record, (number, line) in enumerate(_records(self.path)):
            if (j := place.get(record)) is not None:
                counts = self._entries(line, number, dosages)
                diploid[j] = counts is not None
                values[:, j] = MISSING if counts is None else counts[chosen]
        if not diploid.all():
            names = [names[i] for i in wanted[~diploid]]
            if len(names) == len(wanted):
                raise DataError(
                    f"{self.path}: no variant has two alleles of everybody; there is nothing to read"
                )
            warnings.warn(
                f"left out {len(names):,} of {len(wanted):,} variants of {self.path.name}, of which some people have another number of alleles than "
                f"two, such as {names[0]}",
                DataWarning,
                stacklevel=3,
            )
        wanted, values = wanted[diploid], values[:, diploid]
        table = self.variants.iloc[wanted]
        return Genotypes(values, table.index.tolist(), [self.people[i] for i in chosen], table)

    def _entries(self, line: str, number: int, dosages: bool) -> np.ndarray | None:
        """Counts of the alternative allele, or dosages; None if somebody has another number of alleles than two."""
        fields = line.split("\t")
        if len(fields) != len(FIXED) + len(self.people):
            raise DataError(
                f"{self.path}: line {number} has {len(fields)} fields, not {len(FIXED) + len(self.people)}; is the file cut short?"
            )
        keys, wanted = fields[8].split(":"), "DS" if dosages else "GT"
        if wanted not in keys:
            raise DataError(
                f"{self.path}: line {number} has no {'dosages' if dosages else 'genotypes'}: its format is {fields[8]}, without {wanted}; select "
                "variants that have it"
            )

        def written(key: str) -> list[str]:
            # fields at the end may be left out
            at = keys.index(key)
            return [(*cell.split(":", at + 1), *("." for _ in range(at + 1)))[at] for cell in fields[9:]]

        counts = self._counts(written("GT"), number) if "GT" in keys else None
        if not dosages or ("GT" in keys and counts is None):
            return counts
        return np.array([self._dosage(text, i, number) for i, text in enumerate(written("DS"))], np.float32)

    def _counts(self, written: list[str], number: int) -> np.ndarray | None:
        try:
            return np.array([COUNTS[text] for text in written], np.int8)
        except KeyError:
            for name, text in zip(self.people, written):
                if ALLELES.fullmatch(text) is None:
                    raise DataError(
                        f"{self.path}: line {number}: the genotype of {name} is {text!r}, which is not one of two alleles"
                    ) from None
            return None

    def _dosage(self, text: str, person: int, number: int) -> float:
        if text == ".":
            return np.nan
        try:
            value = float(text)
        except ValueError:
            value = np.nan
        if not 0 <= value <= 2:
            raise DataError(
                f"{self.path}: line {number}: the dosage of {self.people[person]} is {text!r}, not a number from 0 to 2"
            )
        return value


def open_vcf(path: str | os.PathLike[str]) -> VcfFile:
    """The people and the variants of a file; variants with more than two alleles are left out, with a warning."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"there is no file {file}")
    people = _people(file)
    fields, records, several = [], [], list[str]()
    for record, (number, line) in enumerate(_records(file)):
        first = line.split("\t", 5)
        if len(first) < 6:
            raise DataError(
                f"{file}: line {number} has {len(first)} fields, not {len(FIXED) + len(people)}; is the file cut short?"
            )
        chromosome, position, name, reference, other = first[:5]
        if not position.isdigit():
            raise DataError(f"{file}: the position in line {number} is {position!r}, not a whole number")
        if "," in other:
            several.append(f"{chromosome}:{position}")
            continue
        fields.append([chromosome, name, "0", position, other, reference])
        records.append(record)
    if not fields:
        raise DataError(f"{file} has no variant with two alleles; there is nothing to read")
    warn_of_several(several, len(several) + len(fields), file)
    return VcfFile(file, people, variant_table(fields, file), np.array(records))


def warn_of_several(places: list[str], total: int, file: Path) -> None:
    """Say how many variants have more than two alleles."""
    if places:
        warnings.warn(
            f"left out {len(places):,} of {total:,} variants of {file.name}, which have more than two alleles, such as that at {places[0]}; "
            "to keep them, split them first, for instance with bcftools norm -m -any",
            DataWarning,
            stacklevel=4,
        )


def read_vcf(
    path: str | os.PathLike[str], *, rows: Any = None, variants: Any = None, dosages: bool = False
) -> Genotypes:
    """Read genotypes from a VCF file, plain or compressed with gzip or bgzip.

    Counts are those of the alternative allele (ALT), from the field GT, phased or not. A genotype of which an allele is not known is
    missing. Variants with more than two alleles, and those of which somebody has another number of alleles than two, such as men
    on the X chromosome, are left out, with a warning that counts them. Columns are named as by ``read_bed``. The file is read
    twice: for the list of its variants, and for the genotypes of those that are wanted.

    Parameters
    ----------
    path : path
        The .vcf or .vcf.gz file.
    rows : indices or booleans
        People to read, in the order of the file; all of them if not given.
    variants : names, indices or booleans
        Variants to read; all of them if not given. What is not read takes no memory.
    dosages : bool
        Read expected counts of the alternative allele, from the field DS, instead of counts. They take four bytes each.

    Returns
    -------
    Genotypes
        `variants` has `chromosome`, `position`, `allele1` (ALT, which is counted) and `allele2` (REF).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import whichvars as wv
    >>> lines = [
    ...     "##fileformat=VCFv4.2",
    ...     "#CHROM POS ID REF ALT QUAL FILTER INFO FORMAT ann bob cay",
    ...     "6 100 rs1 G A . . . GT 0/0 0|1 1/1",
    ...     "6 120 rs2 C T . . . GT:DP 0/1:9 ./.:0 0/0:8",
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "small.vcf"
    ...     written = path.write_text("\\n".join(line.replace(" ", "\\t") for line in lines))
    ...     genotypes = wv.read_vcf(path)
    >>> genotypes.names, genotypes.samples, genotypes.values.tolist()
    (['rs1', 'rs2'], ['ann', 'bob', 'cay'], [[0, 1], [1, -127], [2, 0]])
    """
    return open_vcf(path).read(rows, variants, dosages)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, from 1."""
    with open(path, "rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    number = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") if packed else open(path, encoding="utf-8") as text:
            for number, line in enumerate(text, start=1):
                yield number, line.rstrip("\r\n")
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} cannot be read beyond line {number}: {error}; it is damaged or cut short"
        ) from error


def _people(path: Path) -> list[str]:
    for number, line in _lines(path):
        if line.startswith("##"):
            continue
        fields = line.split("\t")
        if fields[: len(FIXED)] != FIXED:
            raise DataError(
                f"{path}: line {number} should have the names of columns, from #CHROM to FORMAT, separated by tabs; is it a VCF file with genotypes?"
            )
        people = fields[len(FIXED) :]
        twice = (
            [name for i, name in enumerate(people) if name in set(people[:i])]
            if len(set(people)) < len(people)
            else []
        )
        if twice or not people:
            raise DataError(
                f"{path}: {f'two people are called {twice[0]}' if twice else 'there are no people'} in line {number}"
            )
        return people
    raise DataError(f"{path} has no line that begins with #CHROM; is it a VCF file?")


def _records(path: Path) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in _lines(path) if line and not line.startswith("#"))


__all__ = ["read_vcf"]
