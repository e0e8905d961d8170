"""Files of genotypes by the ends of their names: .bed, .pgen, .raw, .vcf and .vcf.gz."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from whichvars.data.genotypes import Genotypes, read_bed
from whichvars.data.pgen import open_pgen
from whichvars.data.plink import read_bim, read_fam
from whichvars.data.raw import open_raw
from whichvars.data.vcf import open_vcf
from whichvars.errors import DataError

ENDS = (".bed", ".pgen", ".raw", ".vcf", ".vcf.gz")


class GenotypeFile(NamedTuple):
    """A file of genotypes."""

    # IID, and FID and phenotype if the file has them
    people: pd.DataFrame
    # chromosome and position, if the file has them, and alleles, by name
    variants: pd.DataFrame
    # the genotypes, given `rows` and `variants`
    read: Callable[..., Genotypes]


def has_genotypes(path: str | os.PathLike[str]) -> bool:
    """Whether a file has genotypes, by its name.

    >>> has_genotypes("cohort.vcf.gz"), has_genotypes("cohort.csv.gz")
    (True, False)
    """
    return Path(path).name.lower().endswith(ENDS)


def open_genotypes(path: Path, dosages: bool = False) -> GenotypeFile:
    """The people and the variants of a file, whose genotypes or dosages are read later."""
    kind = path.suffix.lower()
    if kind == ".pgen":
        pgen = open_pgen(path)
        return GenotypeFile(pgen.people, pgen.variants, partial(pgen.read, dosages=dosages))
    if kind == ".raw":
        raw = open_raw(path)
        return GenotypeFile(raw.people, raw.variants, partial(raw.read, dosages=dosages))
    if kind != ".bed":
        vcf = open_vcf(path)
        return GenotypeFile(
            pd.DataFrame({"IID": vcf.people}), vcf.variants, partial(vcf.read, dosages=dosages)
        )
    if dosages:
        raise DataError(f"{path} has counts of alleles only; dosages are in .pgen, .raw and .vcf files")
    for file in (path, path.with_suffix(".bim"), path.with_suffix(".fam")):
        if not file.is_file():
            raise DataError(
                f"there is no file {file}; a .bed file needs its .bim and .fam files in the same directory"
            )
    people: Any = read_fam(path.with_suffix(".fam"))
    return GenotypeFile(people, read_bim(path.with_suffix(".bim")), partial(read_bed, path))
