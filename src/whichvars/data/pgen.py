"""Genotypes of PLINK 2's .pgen files, with their .pvar and .psam files."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.data.genotypes import MISSING, Genotypes, selected
from whichvars.data.plink import names_of_people, read_psam, read_pvar, variant_table
from whichvars.data.vcf import warn_of_several
from whichvars.errors import DataError, MissingPackageError

# a missing genotype, as Pgenlib returns it
NOT_CALLED = -9
# variants that are read at a time
BLOCK = 256


class PgenFile(NamedTuple):
    """What is known of a file before its genotypes are read."""

    path: Path
    people: pd.DataFrame
    variants: pd.DataFrame
    # the number of each of these variants among all
    records: np.ndarray
    # where the alleles of each variant begin, and their number
    offsets: np.ndarray

    def read(self, rows: Any = None, variants: Any = None, dosages: bool = False) -> Genotypes:
        """The genotypes of some people and variants, or their dosages."""
        kind, missing = (np.float32, np.nan) if dosages else (np.int8, MISSING)
        names = self.variants.index.tolist()
        chosen, wanted = selected(rows, variants, len(self.people), names, self.path)
        values = np.empty((len(chosen), len(wanted)), kind, order="F")
        file = self._open()
        try:
            for first in range(0, len(wanted), BLOCK):
                own = self.records[wanted[first : first + BLOCK]].astype(np.uint32)
                block = np.empty((len(own), len(self.people)), kind)
                (file.read_dosages_list if dosages else file.read_list)(own, block)
                values[:, first : first + BLOCK] = np.where(block == NOT_CALLED, kind(missing), block)[
                    :, chosen
                ].T
        except RuntimeError as error:
            raise DataError(
                f"{self.path} cannot be read: {_said(error)}; create it again with plink2 --make-pgen"
            ) from error
        finally:
            file.close()
        table, people = self.variants.iloc[wanted], names_of_people(self.people)
        return Genotypes(values, table.index.tolist(), [people[i] for i in chosen], table)

    def _open(self) -> Any:
        try:
            from pgenlib import PgenReader
        except ImportError as error:
            raise MissingPackageError(
                'reading .pgen files needs the package Pgenlib; pip install "whichvars[pgen]"'
            ) from error
        try:
            return PgenReader(
                os.fsencode(self.path),
                raw_sample_ct=len(self.people),
                variant_ct=len(self.offsets) - 1,
                allele_idx_offsets=self.offsets,
            )
        except RuntimeError as error:
            raise DataError(
                f"{self.path} cannot be read, or does not belong to its .pvar file of {len(self.offsets) - 1:,} variants and its .psam file of "
                f"{len(self.people):,} people: {_said(error)}"
            ) from error


def _said(error: RuntimeError) -> str:
    """What Pgenlib says, which may be bytes."""
    what = error.args[0] if error.args else ""
    return (what.decode(errors="replace") if isinstance(what, bytes) else str(what)).strip().rstrip(".")


def open_pgen(path: str | os.PathLike[str]) -> PgenFile:
    """The people and the variants of a file; variants with more than two alleles are left out, with a warning."""
    pgen = Path(path)
    pvar, psam = pgen.with_suffix(".pvar"), pgen.with_suffix(".psam")
    for file in (pgen, pvar, psam):
        if not file.is_file():
            packed = file.with_name(f"{file.name}.zst").is_file()
            advice = (
                f"unpack {file.name}.zst with zstd -d"
                if packed
                else "a .pgen file needs its .pvar and .psam files in the same directory"
            )
            raise DataError(f"there is no file {file}; {advice}")
    fields, people = read_pvar(pvar), read_psam(psam)
    if not fields or not len(people):
        raise DataError(f"{psam if fields else pvar} is empty; there is nothing to read")
    alleles = np.array([2 + line[4].count(",") for line in fields])
    records = np.flatnonzero(alleles == 2)
    if not len(records):
        raise DataError(f"{pvar} has no variant with two alleles; there is nothing to read")
    several = [f"{fields[i][0]}:{fields[i][3]}" for i in np.flatnonzero(alleles > 2)]
    warn_of_several(several, len(fields), pvar)
    table = variant_table([fields[i] for i in records], pvar)
    offsets = np.concatenate([[0], np.cumsum(alleles)]).astype(np.uintp)
    return PgenFile(pgen, people, table, records, offsets)


def read_pgen(
    path: str | os.PathLike[str], *, rows: Any = None, variants: Any = None, dosages: bool = False
) -> Genotypes:
    """Read genotypes from a .pgen file of PLINK 2, with its .pvar and .psam files in the same directory.

    Counts are those of the alternative allele (ALT). They are the genotypes that PLINK calls hard calls, unless `dosages` are asked
    for. Variants with more than two alleles are left out, with a warning that counts them. Columns are named as by ``read_bed``.
    Needs the package Pgenlib (extra ``pgen``).

    Parameters
    ----------
    path : path
        The .pgen file.
    rows : indices or booleans
        People to read, in the order of the .psam file; all of them if not given.
    variants : names, indices or booleans
        Variants to read; all of them if not given. What is not read takes no memory.
    dosages : bool
        Read expected counts of the alternative allele instead of counts; where the file has none, they are the counts. They take four
        bytes each.

    Returns
    -------
    Genotypes
        `variants` has `chromosome`, `position`, `allele1` (ALT, which is counted) and `allele2` (REF).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, whichvars as wv
    >>> from pgenlib import PgenWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "small.pgen"
    ...     with PgenWriter(bytes(path), 3, variant_ct=2, nonref_flags=False) as writer:
    ...         writer.append_biallelic_batch(np.array([[0, 1, 2], [1, -9, 0]], np.int8))
    ...     variants = "#CHROM\\tPOS\\tID\\tREF\\tALT\\n6\\t100\\trs1\\tG\\tA\\n6\\t120\\trs2\\tC\\tT\\n"
    ...     written = path.with_suffix(".pvar").write_text(variants)
    ...     written = path.with_suffix(".psam").write_text("#IID\\nann\\nbob\\ncay\\n")
    ...     genotypes = wv.read_pgen(path)
    >>> genotypes.names, genotypes.samples, genotypes.values.tolist()
    (['rs1', 'rs2'], ['ann', 'bob', 'cay'], [[0, 1], [1, -127], [2, 0]])
    """
    return open_pgen(path).read(rows, variants, dosages)


__all__ = ["read_pgen"]
