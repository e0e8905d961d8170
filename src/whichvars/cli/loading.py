"""From the files that a command names to the arguments of a ``Problem``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from whichvars.cli.options import names_in, read_categories, read_expand, refuse_with_stream
from whichvars.cli.responses import read_response
from whichvars.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from whichvars.data.files import Table
    from whichvars.data.joining import Keyed


class Loaded(NamedTuple):
    """The arguments of a problem, and what is recorded about the data."""

    X: Any
    y: Any
    always: list[str]  # columns that are always included
    drop: list[str]
    encoding: dict[str, Any]
    fingerprint: dict[str, Any]
    notes: list[str]
    family: Any = "gaussian"
    offset: Any = None
    covariates: "pd.DataFrame | None" = None
    covariate_encoding: dict[str, Any] | None = None
    variants: "pd.DataFrame | None" = None  # of genotypes: chromosome, position, alleles
    # if none was asked for; for several responses, the prior is a function of the number of variables
    slab: Any = None
    model_prior: Any = None

    def rows_to_check(self) -> tuple[Any, Any] | None:
        """X and y of a table, whose residuals can be checked; None for genotypes, statistics and covariates in a file of their own."""
        return (self.X.X, self.y) if hasattr(self.X, "encoding") and self.covariates is None else None


def load_table(options: dict[str, Any], beside: dict[str, str]) -> Loaded:
    """Read a file as a whole, with covariates that may be in a file of their own."""
    from whichvars.cli.runs import file_fingerprint
    from whichvars.data.files import read_table
    from whichvars.data.records import Record
    from whichvars.data.roles import encode_table

    if options["indicators"]:
        raise DataError("--indicators is for --missing impute; leave it out")
    table = read_table(options["data"])
    shape = table.frame.shape
    always, drop = (names_in(options[name], set(table.frame.columns)) for name in ("always", "drop"))
    notes, joined = list[str](), None
    if options["covariates"] is not None:
        joined = join_complete_covariates(options, table)
        table, notes = joined.table, joined.notes
        drop = [*drop, *(name for name in joined.keyed.keys.columns if name not in drop)]
    made = encode_table(
        table, options["response"], always, drop, options["missing"], options["family"], beside,
        read_categories(options, set(table.frame.columns)), read_expand(options, set(table.frame.columns)),
        lambda y, known, rows: read_response(options, y, known, rows),
    )  # fmt: skip
    read = read_response(options, made.y, made.beside, made.rows)
    loaded = Loaded(
        made.encoded._replace(record=Record(options["data"].name, shape[0], shape[0] - len(made.rows))), read.y,
        made.always, drop, asdict(made.encoding),
        file_fingerprint(options["data"], *shape), made.notes + notes + read.notes, read.family, read.offset,
    )  # fmt: skip
    return loaded if joined is None else with_covariates(loaded, joined, made.rows)


def with_covariates(loaded: Loaded, joined: "Joined", rows: "np.ndarray") -> Loaded:
    """The covariates of these rows, which are numbers of rows of the file, beside what was read of it."""
    left = {row: i for i, row in enumerate((joined.table.frame.index.to_numpy() + 1).tolist())}
    place = joined.place[[left[row] for row in rows.tolist()]]
    with naming(joined.keyed.path):
        values, encoding, notes = covariate_columns(joined.keyed, place)
    return loaded._replace(covariates=values, covariate_encoding=encoding, notes=loaded.notes + notes)


class Joined(NamedTuple):
    """The rows of a table that have covariates in another file."""

    table: "Table"
    keyed: "Keyed"
    place: "np.ndarray"  # (n,): where each row is found in the other file
    notes: list[str]


def join_covariates(options: dict[str, Any], table: "Table") -> Joined:
    """Find the rows of a table in the file of its covariates."""
    from whichvars.data.files import read_table
    from whichvars.data.joining import as_keys, match, read_keyed

    columns = [name for name in table.frame.columns if name != options["response"]]
    keyed = read_keyed(options["covariates"], columns, options["id_column"])
    several = names_in(options.get("responses") or (), set(table.frame.columns))
    refuse_response(keyed, several or [options["response"]], "leave it out of the file")
    ids = list(keyed.keys.columns)
    rows = as_keys(read_table(options["data"], text=ids).frame[ids])
    found, notes = match(rows, keyed, "covariates", f"rows of {options['data'].name}")
    return Joined(table._replace(frame=table.frame[found >= 0]), keyed, found[found >= 0], notes)


def join_complete_covariates(options: dict[str, Any], table: "Table") -> Joined:
    """The same without rows whose covariates have gaps; these are an error unless they may be left out."""
    table, keyed, place, notes = join_covariates(options, table)
    complete = covariate_rows(keyed, place, options["missing"] == "drop", notes)
    return Joined(table._replace(frame=table.frame[complete]), keyed, place[complete], notes)


def _with_gaps(missing: "np.ndarray") -> str:
    count = int(missing.sum())
    return "1 row has missing covariates" if count == 1 else f"{count:,} rows have missing covariates"


def covariate_rows(keyed: "Keyed", place: "np.ndarray", drop_missing: bool, notes: list[str]) -> "np.ndarray":
    """Which of the matched rows have all covariates; missing ones are an error unless they may be left out."""
    gaps = keyed.table.frame.iloc[place].isna()
    missing = gaps.any(axis=1).to_numpy()
    if missing.any() and not drop_missing:
        column = gaps.any(axis=0).idxmax()
        row = int(keyed.table.frame.index[place[int(gaps[column].to_numpy().argmax())]]) + 1
        raise DataError(
            f"{keyed.path}: column {column!r} has no value in row {row} ({_with_gaps(missing)} in total"
            "); fill them in, or leave such rows out with --missing drop"
        )
    if missing.any():
        notes.append(f"{_with_gaps(missing)} and {'is' if missing.sum() == 1 else 'are'} left out.")
    if missing.all():
        raise DataError(
            f"{keyed.path}: every row that is needed has a missing covariate; leave out a column of the file"
        )
    return ~missing


def refuse_response(keyed: "Keyed", responses: Sequence[str], how: str) -> None:
    """DataError if a response is among the columns that would be in every model."""
    for name in responses:
        if name in keyed.table.frame.columns:
            raise DataError(
                f"{keyed.path} has a column {name!r}, which is the response and cannot be a covariate too; {how}"
            )


@contextmanager
def naming(path: Path | None) -> Iterator[None]:
    """Errors about the data name the file that they are about, as there are several."""
    try:
        yield
    except DataError as error:
        if path is None or str(path) in str(error):
            raise
        raise DataError(f"{path}: {error}") from error


def covariate_columns(
    keyed: "Keyed", place: "np.ndarray"
) -> "tuple[pd.DataFrame, dict[str, Any], list[str]]":
    """The covariates of the matched rows as numbers; how they were converted and joined, for settings.json; and notes."""
    from whichvars.data.roles import encode_complete

    frame = keyed.table.frame.iloc[place]
    values, encoding, notes = encode_complete(keyed.table._replace(frame=frame))
    for name in frame.columns:
        if name in values.columns and (values[name] == -9).any():
            notes.append(
                f"Covariate {name!r} is -9 in {int((values[name] == -9).sum()):,} of the rows and is taken as a number; leave the cell empty if it is "
                "missing."
            )
    first = f"Covariates of {keyed.path.name}, in every model: {', '.join(values.columns)}."
    return values, {"id": list(keyed.keys.columns), **asdict(encoding)}, [first, *notes]


def load_portions(options: dict[str, Any]) -> Loaded:
    """Read a file or a folder in portions, as sufficient statistics."""
    import whichvars as wv
    from whichvars.cli.runs import stream_fingerprint
    from whichvars.data.encoding import Encoding
    from whichvars.data.streaming import find_sources

    if options["covariates"] is not None:
        raise DataError("--covariates needs the whole table; leave out either it or --stream")
    refuse_with_stream(options)
    sources = find_sources(options["data"])
    known = set(sources[0].columns)
    always, drop = (names_in(options[name], known) for name in ("always", "drop"))
    statistics = wv.SufficientStatistics.from_files(options["data"], options["response"], drop=drop)
    digest = stream_fingerprint(options["data"], [source.path for source in sources], statistics)
    encoding = asdict(Encoding(statistics.names))
    return Loaded(statistics, None, always, drop, encoding, digest, [])


def new_covariates(settings: dict[str, Any], path: Path | None, rows: "pd.DataFrame", whose: str) -> Any:
    """The covariates of new rows, identified by `rows`, converted as those of the run; None if it had none."""
    from whichvars.data.encoding import Encoding

    table = matched_covariates(settings, path, rows, whose)
    if table is None:
        return None
    known = settings["covariates"]
    return Encoding(known["columns"], known["levels"], known.get("codings", {})).apply(table)


def matched_covariates(
    settings: dict[str, Any], path: Path | None, rows: "pd.DataFrame", whose: str
) -> "Table | None":
    """The same as they are in their file."""
    from whichvars.data.joining import as_keys, match, read_keyed

    known = settings.get("covariates")
    if known is None:
        if path is not None:
            raise DataError("the run was made without --covariates, so that predictions need none")
        return None
    if path is None:
        names = ", ".join(known["columns"])
        raise DataError(
            f"the run was made with covariates ({names}); name the file that has those of the new rows with --covariates"
        )
    lacking = [name for name in known["id"] if name not in rows.columns]
    if lacking:
        raise DataError(
            f"the new rows have no column {lacking[0]!r}, by which the run was joined with its covariates; give a file that has it, or fit again with "
            "--id and a column that the new rows have too"
        )
    keyed = read_keyed(path, known["id"])
    place, _ = match(as_keys(rows), keyed, "covariates", whose)
    if (place < 0).any():
        row = int((place < 0).argmax())
        raise DataError(
            f"{path} has no covariates of row {row + 1} of the new rows; every one of them needs its covariates"
        )
    return keyed.table._replace(frame=keyed.table.frame.iloc[place])
