"""The text files beside PLINK's .bed and .pgen files: variants (.bim, .pvar), people (.fam, .psam), and lists of either."""

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from whichvars.errors import DataError

# a phenotype in a .fam file that is missing
NO_PHENOTYPE = "-9"


def read_bim(path: Path) -> pd.DataFrame:
    """Variants: `chromosome`, `position`, `allele1` (the one that is counted) and `allele2`, by name.

    Names that are missing or not unique are replaced by chromosome:position:A1:A2, and numbered if that is not unique either.
    """
    return variant_table(_read_fields(path, 6), path)


def variant_table(fields: list[list[str]], path: Path) -> pd.DataFrame:
    """The same from the fields of a .bim file: chromosome, name, any field, position, A1 and A2."""
    frame = pd.DataFrame(
        {
            "chromosome": [line[0] for line in fields],
            "position": [_whole(line[3], path, i + 1) for i, line in enumerate(fields)],
            "allele1": [line[4] for line in fields],
            "allele2": [line[5] for line in fields],
        }
    )
    frame.index = pd.Index(_unique(fields), dtype=object, name="variant")
    return frame


def read_fam(path: Path) -> pd.DataFrame:
    """People: `FID`, `IID`, `sex` and `phenotype`, all as they are written."""
    fields = _read_fields(path, 6)
    return pd.DataFrame(
        {
            name: [line[i] for line in fields]
            for i, name in ((0, "FID"), (1, "IID"), (4, "sex"), (5, "phenotype"))
        }
    )


def names_of_people(people: pd.DataFrame) -> list[str]:
    """The names of people for the rows of genotypes: IID, or FID_IID as in PLINK's VCF files if several families have the same IID.

    >>> names_of_people(pd.DataFrame({"FID": ["f", "g"], "IID": ["1", "1"]}))
    ['f_1', 'g_1']
    """
    if "FID" in people.columns and people["IID"].duplicated().any():
        return (people["FID"] + "_" + people["IID"]).tolist()
    return people["IID"].tolist()


def read_psam(path: Path) -> pd.DataFrame:
    """People: `IID`, and `FID` if the file has it."""
    lines = [line for line in _lines(path) if not line[0].startswith("##")]
    if not lines or lines[0][0] not in ("#FID", "#IID"):
        raise DataError(
            f"{path}: the first line must have names that begin with #FID or #IID; is it the right file?"
        )
    names = [name.lstrip("#") for name in lines[0]]
    for i, line in enumerate(lines):
        if len(line) != len(names):
            raise DataError(
                f"{path}: person {i} has {len(line)} fields, not {len(names)}; is it the right file?"
            )
    if "IID" not in names:
        raise DataError(f"{path}: there is no column IID; is it the right file?")
    return pd.DataFrame(
        {name: [line[names.index(name)] for line in lines[1:]] for name in ("FID", "IID") if name in names}
    )


def read_pvar(path: Path) -> list[list[str]]:
    """Variants, multiallelic ones too, as fields in the order of a .bim file. The counted allele is ALT."""
    lines = [line for line in _lines(path) if not line[0].startswith("##")]
    if not lines or lines[0][:5] != ["#CHROM", "POS", "ID", "REF", "ALT"]:
        raise DataError(
            f"{path}: there is no line #CHROM POS ID REF ALT above the variants; create the file again with plink2 --make-pgen"
        )
    for i, line in enumerate(lines):
        if len(line) < 5:
            raise DataError(f"{path}: variant {i} has {len(line)} fields, not 5; is it the right file?")
        if i and not line[1].isdigit():
            raise DataError(
                f"{path}: the position of variant {i} is {line[1]!r}, not a whole number; is it the right file?"
            )
    return [[line[0], line[2], "0", line[1], line[4], line[3]] for line in lines[1:]]


class Listed(NamedTuple):
    """What a file lists."""

    chosen: np.ndarray  # (n,) bool: which of the people or variants
    unknown: list[str]  # names in the file that nobody and nothing has, in its order


def people_in(path: Path, people: pd.DataFrame) -> Listed:
    """Which of the people a file lists: by FID and IID in its first two columns, or by IID in its only one."""
    lines = [
        tuple(line[:2]) for line in _lines(path) if line[0] not in ("#FID", "#IID", "FID", "IID")
    ]  # fmt: skip
    with_family = "FID" in people.columns
    known: set[tuple[str, ...]] = {(iid,) for iid in people["IID"]}
    if with_family:
        known |= set(zip(people["FID"], people["IID"]))
    listed = {line if with_family else line[-1:] for line in lines}
    families = people["FID"] if with_family else people["IID"]
    chosen = [(fid, iid) in listed or (iid,) in listed for fid, iid in zip(families, people["IID"])]
    unknown = [" ".join(line) for line in dict.fromkeys(lines) if (line if with_family else line[-1:]) not in known]  # fmt: skip
    return _not_empty(np.array(chosen, bool), unknown, path, "people", "FID and IID, or IID alone")


def variants_in(path: Path, names: Collection[str]) -> Listed:
    """Which of the variants a file lists: by name, in its first column."""
    listed, known = dict.fromkeys(line[0] for line in _lines(path)), set(names)
    unknown = [name for name in listed if name not in known]
    return _not_empty(np.array([name in listed for name in names], bool), unknown, path, "variants", "a name")


def _not_empty(chosen: np.ndarray, unknown: list[str], path: Path, what: str, content: str) -> Listed:
    if not chosen.any():
        raise DataError(f"{path} lists none of the {len(chosen):,} {what}; each line has {content}")
    return Listed(chosen, unknown)


def _lines(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8-sig", errors="replace") as stream:
        return [line.split() for line in stream if line.strip()]


def _read_fields(path: Path, count: int) -> list[list[str]]:
    """The fields of each line of a .bim or .fam file; each line must have `count` of them."""
    out = []
    with open(path, encoding="utf-8", errors="replace") as stream:
        for i, line in enumerate(stream):
            fields = line.split()
            if len(fields) != count:
                raise DataError(
                    f"{path}: line {i + 1} has {len(fields)} fields, not {count}; is it the right file?"
                )
            out.append(fields)
    return out


def _whole(text: str, path: Path, line: int) -> int:
    try:
        return int(text)
    except ValueError:
        raise DataError(
            f"{path}: the position in line {line} is {text!r}, not a whole number; is it the right file?"
        ) from None


def _unique(fields: list[list[str]]) -> list[str]:
    """The names of variants, replaced by chromosome:position:A1:A2 if they are missing or not unique."""
    names = [line[1] for line in fields]
    counts = Counter(names)
    if len(counts) == len(names) and "." not in counts:
        return names
    places = [
        f"{line[0]}:{line[3]}:{line[4]}:{line[5]}" if line[1] == "." or counts[line[1]] > 1 else line[1]
        for line in fields
    ]
    seen: Counter[str] = Counter()
    for i, place in enumerate(places):
        seen[place] += 1
        if seen[place] > 1:
            places[i] = f"{place}:{seen[place]}"
    return places
