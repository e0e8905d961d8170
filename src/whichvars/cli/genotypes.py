"""Genotypes on the command line: a .bed, .pgen, .raw or .vcf file with phenotypes and covariates in files of their own, and selections of both."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whichvars.cli.loading import Loaded, covariate_columns, covariate_rows, naming, refuse_response
from whichvars.cli.options import names_in
from whichvars.cli.responses import read_response
from whichvars.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from whichvars.data.files import Table
    from whichvars.data.joining import Keyed

# the default prior on effects of genotypes, as --slab would be given it
GENETIC = "independent:0.01"
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
# options for genotypes only, and their values if they are not given
OF_GENOTYPES = {
    "phenotypes": None, "keep": None, "remove": None, "extract": None, "exclude": None, "region": None, "maf": 0.0,
    "geno": 1.0, "mind": 1.0, "dosages": False,
}  # fmt: skip
# names that a note shows
SHOWN = 3
REGION = re.compile(r"([^:]+)(?::(\d+)-(\d+))?")

# options of columns that are no genotypes, and of the response of a table
FOR_TABLES = ("log", "category", "lump", "scores", "differences", "date", "spline", "indicators")


def genotype_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for covariates in a file of their own, and for genotypes."""
    for option in reversed(
        [
            click.option("--covariates", type=FILE, help="File of columns that are in every model, joined by FID and IID or another shared column."),
            click.option("--id", "id_column", metavar="COLUMN", help="Column that identifies rows in the files to be joined."),
            click.option("--phenotypes", type=FILE, help="File with the response, for genotypes; without it, -y phenotype takes the response from the .fam file of a .bed file, or from a .raw file."),
            click.option("--dosages", is_flag=True, help="Read dosages instead of called genotypes, from .vcf (DS), .pgen and .raw files."),
            click.option("--keep", type=FILE, help="File of people to keep: FID and IID, or IID."),
            click.option("--remove", type=FILE, help="File of people to leave out."),
            click.option("--extract", type=FILE, help="File of variants to keep, with one name on each line."),
            click.option("--exclude", type=FILE, help="File of variants to leave out."),
            click.option("--region", metavar="CHR[:FROM-TO]", help="Variants of a chromosome, or of some of its positions."),
            click.option("--maf", type=float, default=0.0, help="Least frequency of the rarer allele, such as 0.01."),
            click.option("--geno", type=float, default=1.0, help="Largest share of people without a genotype of a variant, such as 0.05."),
            click.option("--mind", type=float, default=1.0, help="Largest share of variants without a genotype of a person."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def are_genotypes(options: dict[str, Any]) -> bool:
    """Whether DATA is a file of genotypes; DataError if the options say otherwise."""
    from whichvars.data.genotype_files import has_genotypes

    there = has_genotypes(options["data"])
    if there and options["stream"]:
        raise DataError("--stream is for tables; genotypes are read without it")
    for name, usual in OF_GENOTYPES.items():
        if not there and options[name] != usual:
            raise DataError(
                f"--{name} is for genotypes (.bed, .pgen, .raw, .vcf), and {options['data']} has none by its name"
            )
    return there


def files_of(options: dict[str, Any]) -> str:
    """The names of the files of genotypes and phenotypes."""
    names = [options[name].name for name in ("data", "phenotypes") if options[name] is not None]
    return " and ".join(names)


def load_genotypes(options: dict[str, Any], beside: dict[str, str]) -> Loaded:
    """Read a file of genotypes and the tables beside it. Every selection is reported with its count."""
    from whichvars.cli.runs import file_fingerprint
    from whichvars.data.genotype_files import open_genotypes
    from whichvars.data.joining import match, read_keyed
    from whichvars.data.roles import read_known, read_response_column, read_responses
    from whichvars.problem.genetics import default_region_prior, default_slab

    data: Path = options["data"]
    for name in FOR_TABLES:
        if options[name]:
            raise DataError(f"--{name} is for tables, not for genotypes; leave it out")
    for name in ("maf", "geno", "mind"):
        if not 0 <= options[name] <= (0.5 if name == "maf" else 1.0):
            raise DataError(
                f"--{name} must lie between 0 and {0.5 if name == 'maf' else 1}, not {options[name]:g}"
            )
    file = open_genotypes(data, options["dosages"])
    people, table = file.people, file.variants
    if not len(people) or not len(table):
        empty = "people" if len(table) else "variants"
        raise DataError(f"{data} has no {empty}; there is nothing to read")
    total, notes = (len(people), len(table)), list[str]()
    ids, beside_it = people[[name for name in ("FID", "IID") if name in people.columns]], None
    if options["covariates"] is not None:
        beside_it = read_keyed(options["covariates"], list(ids.columns), options["id_column"])
        options, beside_it = _drop_covariates(options, beside_it, set(table.index))
    columns = _chosen_variants(options, table, notes)
    rows = _chosen_people(options, people, notes)

    phenotypes = _phenotypes(options, people)
    if phenotypes is None:
        keyed = read_keyed(options["phenotypes"], list(ids.columns), options["id_column"])
        place, more = match(ids.iloc[rows], keyed, "phenotypes", "people")
        notes += more
        rows, place = rows[place >= 0], place[place >= 0]
        phenotypes = keyed.table._replace(frame=keyed.table.frame.iloc[place])
    else:
        phenotypes = phenotypes._replace(frame=phenotypes.frame.iloc[rows])
    many = chosen_responses(options, list(phenotypes.frame.columns))
    if many:
        phenotypes = _without_codes(phenotypes, many, notes)
    wanted = [options["response"], *beside.values()]
    known = (
        _with_any_response(phenotypes, many, notes)
        if many
        else _with_response(phenotypes, wanted, options["family"], notes)
    )
    rows, phenotypes = rows[known], phenotypes._replace(frame=phenotypes.frame[known])

    covariates = covariate_encoding = None
    if beside_it is not None:
        keyed = beside_it
        refuse_response(
            keyed,
            many or [options["response"]],
            f"say --drop {(many or [options['response']])[0]}, or leave it out of the file",
        )
        place, more = match(ids.iloc[rows], keyed, "covariates", "people")
        notes += more
        there = place >= 0
        complete = covariate_rows(keyed, place[there], options["missing"] == "drop", notes)
        there[there] = complete
        rows, place, phenotypes = (
            rows[there],
            place[there],
            phenotypes._replace(frame=phenotypes.frame[there]),
        )
        with naming(options["covariates"]):
            covariates, covariate_encoding, more = covariate_columns(keyed, place)
        notes += more

    genotypes = file.read(rows=rows, variants=columns)
    genotypes, there = _filtered(genotypes, options, notes)
    phenotypes = phenotypes._replace(frame=phenotypes.frame[there])
    if covariates is not None:
        covariates = covariates[there].reset_index(drop=True)
    notes.append(
        f"{len(genotypes):,} of {total[0]:,} people and {len(genotypes.names):,} of {total[1]:,} variants are used."
    )
    always = names_in(options["always"], set(genotypes.names))
    loaded = Loaded(
        genotypes, None, always, names_in(options["drop"]), {}, file_fingerprint(data, *total), notes, "gaussian", None, covariates,
        covariate_encoding, genotypes.variants, default_slab(), default_region_prior(len(genotypes.names)),
    )  # fmt: skip
    with naming(options["phenotypes"]):
        if many:
            return loaded._replace(y=read_responses(phenotypes, many), model_prior=default_region_prior)
        y = read_response_column(phenotypes._replace(frame=phenotypes.frame[[options["response"]]]), options["response"], options["family"])  # fmt: skip
        numbers = phenotypes.frame.index.to_numpy() + 1
        known_beside = {option: read_known(phenotypes, name, option) for option, name in beside.items()}
        read = read_response(options, y, known_beside, numbers)
    return loaded._replace(y=y, notes=notes + read.notes, family=read.family, offset=read.offset)


def _drop_covariates(
    options: dict[str, Any], keyed: "Keyed", variants: set[str]
) -> "tuple[dict[str, Any], Keyed]":
    """The options without those names of --drop that are covariates, and the covariates without these."""
    frame = keyed.table.frame
    names = names_in(options["drop"], variants | set(frame.columns))
    left_out = [name for name in names if name in frame.columns and name not in variants]
    if len(left_out) == frame.shape[1]:
        raise DataError(f"--drop leaves no column of {keyed.path}; leave out --covariates instead")
    table = keyed.table._replace(frame=frame.drop(columns=left_out))
    return options | {"drop": tuple(name for name in names if name not in left_out)}, keyed._replace(
        table=table
    )


def chosen_responses(options: dict[str, Any], columns: list[str]) -> list[str]:
    """The columns that --responses names; none if it was not given."""
    from whichvars.data.frames import find_columns

    given = names_in(options.get("responses", ()), set(columns))
    if given == ["all"] and "all" not in columns:
        return columns
    return [columns[i] for i in find_columns(given, columns, "--responses")]


def _phenotypes(options: dict[str, Any], people: "pd.DataFrame") -> "Table | None":
    """The phenotype of the .fam file as a table; None if there is a file of phenotypes."""
    from whichvars.data.files import Table
    from whichvars.data.plink import NO_PHENOTYPE

    if options["phenotypes"] is not None:
        return None
    if options.get("responses"):
        raise DataError(
            "--responses of genotypes are columns of a file of phenotypes; name it with --phenotypes"
        )
    if "phenotype" not in people.columns:
        raise DataError(
            f"{options['data'].name} has no phenotypes that are read; give a file of them with --phenotypes"
        )
    kind = options["data"].suffix.lower()
    source = ".raw" if kind == ".raw" else ".fam"
    if options["response"] != "phenotype":
        raise DataError(
            f"the response {options['response']!r} of a {kind} file is a column of the file named by --phenotypes; without one, the only response "
            f"is that of the {source} file: --response phenotype"
        )
    values = people["phenotype"]
    if values.isin([NO_PHENOTYPE, "NA"]).all():
        raise DataError(
            f"the {source} file has no phenotypes: all are -9; give a file of phenotypes with --phenotypes"
        )
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce")
    wrong = numbers.isna() & ~values.isin(["NA", "nan", "NaN"])
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        line = row + (2 if source == ".raw" else 1)
        raise DataError(f"the phenotype in line {line} of the {source} file is {values[row]!r}, not a number")
    return Table(numbers.to_frame(), [])


def _without_codes(table: "Table", responses: list[str], notes: list[str]) -> "Table":
    """The phenotypes, with missing values in place of -9, which is how PLINK writes them."""
    frame, count = table.frame.copy(), 0
    for name in responses:
        coded = frame[name] == -9
        count += int(coded.sum())
        frame[name] = frame[name].mask(coded)
    if count:
        values = "1 value of a response is" if count == 1 else f"{count:,} values of responses are"
        notes.append(f"{values} -9, which is PLINK's code for a missing phenotype.")
    return table._replace(frame=frame)


def _people(which: "np.ndarray", one: str = "", several: str = "") -> str:
    """How many people these are, with a verb for one or for several."""
    count = int(which.sum())
    return f"1 person{one}" if count == 1 else f"{count:,} people{several}"


def _is(which: "np.ndarray") -> str:
    return "is" if which.sum() == 1 else "are"


def _with_any_response(table: "Table", responses: list[str], notes: list[str]) -> "np.ndarray":
    """Which people have at least one of the responses."""
    known = table.frame[responses].notna().any(axis=1).to_numpy()
    if not known.any():
        raise DataError("nobody has a value of any of the responses; name others")
    if not known.all():
        notes.append(
            f"{_people(~known, ' has', ' have')} no value of any response and {_is(~known)} left out."
        )
    return known


def _with_response(table: "Table", wanted: list[str], family: str, notes: list[str]) -> "np.ndarray":
    """Which people have a response; PLINK writes -9 where there is none."""
    import pandas as pd

    from whichvars.data.frames import find_columns

    find_columns(wanted, list(table.frame.columns), "the phenotypes")
    missing = table.frame[wanted].isna().any(axis=1).to_numpy()
    response = table.frame[wanted[0]]
    _refuse_coded_cases(response, family)
    if family not in ("poisson", "negative-binomial") and pd.api.types.is_numeric_dtype(response.dtype):
        coded = (response == -9).to_numpy() & ~missing
        if coded.any():
            notes.append(
                f"The response is -9, which is PLINK's code for a missing phenotype, of {_people(coded)}."
            )
        missing = missing | coded
    if missing.all():
        raise DataError(f"nobody has a value of {wanted[0]!r}; name another response")
    if missing.any():
        notes.append(
            f"{_people(missing, ' has', ' have')} no value of {', '.join(wanted)} and {_is(missing)} left out."
        )
    return ~missing


def _refuse_coded_cases(response: "pd.Series", family: str) -> None:
    """DataError for a response of 0, 1 and 2, of which PLINK takes 0 for missing."""
    import pandas as pd

    numbers = family in ("auto", "logistic", "probit") and pd.api.types.is_numeric_dtype(response.dtype)
    if numbers and set(response.dropna().unique().tolist()) - {-9} == {0, 1, 2}:
        raise DataError(
            f"the response {str(response.name)!r} is 0, 1 or 2. In PLINK's files 1 is a control, 2 is a case and 0 is missing: write -9 or NA "
            "instead of 0. If these are numbers, say --family gaussian"
        )


def _chosen_people(options: dict[str, Any], people: "pd.DataFrame", notes: list[str]) -> "np.ndarray":
    import numpy as np

    from whichvars.data.plink import people_in

    chosen = np.ones(len(people), bool)
    for option, invert in (("keep", False), ("remove", True)):
        if options[option] is not None:
            file = people_in(options[option], people)
            listed = file.chosen ^ invert
            _count(f"--{option}", chosen, listed, "people", notes, file.unknown)
            chosen &= listed
    if not chosen.any():
        raise DataError("--keep and --remove leave nobody")
    return np.flatnonzero(chosen)


def _chosen_variants(options: dict[str, Any], table: "pd.DataFrame", notes: list[str]) -> "np.ndarray":
    import numpy as np

    from whichvars.data.frames import find_columns
    from whichvars.data.plink import variants_in

    chosen, names = np.ones(len(table), bool), table.index.tolist()
    for option, invert in (("extract", False), ("exclude", True)):
        if options[option] is not None:
            file = variants_in(options[option], names)
            listed = file.chosen ^ invert
            _count(f"--{option}", chosen, listed, "variants", notes, file.unknown)
            chosen &= listed
    if options["region"] is not None:
        inside = _in_region(options["region"], table)
        _count("--region", chosen, inside, "variants", notes)
        chosen &= inside
    dropped = find_columns(names_in(options["drop"], set(names)), names, "drop")
    chosen[dropped] = False
    if not chosen.any():
        raise DataError("--extract, --exclude, --region and --drop leave no variant")
    return chosen


def _in_region(text: str, table: "pd.DataFrame") -> "np.ndarray":
    found = REGION.fullmatch(text.replace(",", ""))
    if found is None:
        raise DataError(
            f"--region {text!r}: write a chromosome, as in 6, or its positions too, as in 6:31000000-32000000"
        )
    if "chromosome" not in table.columns:
        raise DataError("--region: a .raw file has no positions; use --extract with the names of variants")
    chromosome, first, last = found.groups()
    # 6 and chr6 are the same
    same = (_bare(table["chromosome"]) == chromosome.removeprefix("chr")).to_numpy()
    if not same.any():
        known = ", ".join(table["chromosome"].unique()[:25])
        raise DataError(
            f"--region {text}: there is no variant on chromosome {chromosome!r}; the file has {known}"
        )
    if first is not None:
        same = same & table["position"].between(int(first), int(last)).to_numpy()
    if first is not None and int(first) > int(last):
        raise DataError(f"--region {text}: the first position is larger than the last; exchange them")
    if not same.any():
        raise DataError(f"--region {text}: there is no variant between these positions")
    return same


def _bare(chromosomes: "pd.Series[str]") -> "pd.Series[str]":
    return chromosomes.str.removeprefix("chr")


def _filtered(genotypes: Any, options: dict[str, Any], notes: list[str]) -> "tuple[Any, np.ndarray]":
    """Genotypes without people and variants with too many missing values, and then without variants that are too rare; and which of
    the people are left."""
    import numpy as np

    from whichvars.data.genotypes import is_missing

    there = np.ones(len(genotypes), bool)
    if options["mind"] < 1:
        missing = np.zeros(len(genotypes))
        for column in genotypes.values.T:
            missing += is_missing(column)
        there = missing <= options["mind"] * len(genotypes.names)
        _count("--mind", np.ones(len(there), bool), there, "people", notes)
        if not there.any():
            raise DataError("--mind leaves nobody")
        genotypes = genotypes[there]
    for option, column in (("geno", "missing"), ("maf", "minor")):
        if options[option] == (1.0 if option == "geno" else 0.0):
            continue
        shares = genotypes.frequencies()[column].to_numpy()
        kept = shares <= options[option] if option == "geno" else shares >= options[option]
        _count(f"--{option}", np.ones(len(kept), bool), kept, "variants", notes)
        if not kept.any():
            raise DataError(f"--{option} {options[option]:g} leaves no variant")
        genotypes = genotypes.take(kept)
    return genotypes, there


def _count(
    option: str,
    before: "np.ndarray",
    chosen: "np.ndarray",
    what: str,
    notes: list[str],
    unknown: Sequence[str] = (),
) -> None:
    """Say how many are left out, and which lines of the option's file name none of them."""
    left = int((before & ~chosen).sum())
    notes.append(f"{option} leaves out {left:,} of {int(before.sum()):,} {what}.")
    if unknown:
        some = ", ".join(unknown[:SHOWN]) + ", …" * (len(unknown) > SHOWN)
        number = f"1 name in the file of {option} is" if len(unknown) == 1 else f"{len(unknown):,} names in the file of {option} are"  # fmt: skip
        notes.append(f"{number} not among the {what} of the data: {some}.")


def new_genotypes(
    bed: Path, names: list[str], variants: "pd.DataFrame", dosages: bool
) -> "tuple[Any, pd.DataFrame, list[str]]":
    """The genotypes of new people at the variants of a run, as counts of the same alleles; the people; and notes."""
    import numpy as np

    from whichvars.data.genotype_files import open_genotypes
    from whichvars.data.genotypes import MISSING, Genotypes

    file = open_genotypes(bed, dosages)
    new = file.read(variants=names)
    if absent := set(names) - set(new.names):
        raise DataError(f"{bed}: the variant {min(absent)!r} of the run cannot be read")
    known = variants.loc[new.names]
    ours, theirs = (
        list(zip(frame["allele1"].astype(str), frame["allele2"].astype(str)))
        for frame in (known, new.variants)
    )
    values, flipped = new.values, list[int]()
    for j, (a, b) in enumerate(zip(ours, theirs)):
        if a == b[::-1]:
            flipped.append(j)
        elif a != b:
            raise DataError(
                f"variant {new.names[j]!r} has the alleles {'/'.join(b)} in {bed} but {'/'.join(a)} in the run; are these the same variant?"
            )
    people = file.people[[name for name in ("FID", "IID") if name in file.people.columns]]
    if not flipped:
        return new, people, []
    values = values.copy(order="F")
    values[:, flipped] = np.where(values[:, flipped] == MISSING, MISSING, 2 - values[:, flipped])
    note = (
        f"1 variant of {bed.name} counts the other allele; its genotypes are reversed."
        if len(flipped) == 1
        else f"{len(flipped):,} variants of {bed.name} count the other allele; their genotypes are reversed."
    )
    return Genotypes(values, new.names, new.samples, new.variants), people, [note]
