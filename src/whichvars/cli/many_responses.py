"""``whichvars fit --responses``: many responses on the same columns. It writes tables, but no posteriors.

While such a run is not finished, its checkpoint has what was found of each response that is done, and ``unfinished.json`` the options and
the digests of the files, which are read again.
"""

import datetime
import hashlib
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichvars.cli.genotypes import are_genotypes, chosen_responses, load_genotypes
from whichvars.cli.loading import Loaded, join_complete_covariates, with_covariates
from whichvars.cli.options import names_in, parse_slab, read_categories, read_expand, sample_arguments
from whichvars.cli.show import hundredths, new_console, new_table, notes, plain, print_json, say
from whichvars.errors import DataError

if TYPE_CHECKING:
    from whichvars.sampling.sampling_many import ManyPosteriors

SHOWN = 15  # responses in the table
# options that cannot be combined with --responses, their values if they are not given, and what to do instead
REFUSED: dict[str, tuple[Any, str]] = {
    "response": (None, "name all responses in --responses"),
    "always": ((), "put the columns into a file of their own and name it with --covariates"),
    "log": (False, "write the logarithms of the responses into the file"),
    "stream": (False, "leave it out"),
    "df": (None, "leave it out, as all responses are Gaussian"),
    "trials": (None, "fit the responses one by one with --response"),
    "offset": (None, "fit the responses one by one with --response"),
    "exposure": (None, "fit the responses one by one with --response"),
    "evidence": ("auto", "leave it out, because all responses are Gaussian"),
    "indicators": (False, "leave it out"),
    "sampler": ("auto", "leave it out"),
    "budget": (None, "say how accurate every response is to be with --target-mcse, or name --draws"),
    "watch": (False, "leave it out, because a bar shows how many responses are done"),
    "title": (None, "leave it out, because no report is written"),
    "annotations": (None, "fit the responses one by one with --response"),
}


def check_responses(options: dict[str, Any]) -> None:
    """DataError if there are options that cannot be combined with --responses."""
    for name, (usual, advice) in REFUSED.items():
        if options[name] != usual:
            raise DataError(f"--{name} cannot be combined with --responses; {advice}")
    if options["family"] not in ("auto", "gaussian"):
        raise DataError(
            f"--family {options['family']} cannot be combined with --responses, which fits the linear model to each of them; fit the responses one by "
            "one with --response"
        )
    if options["missing"] == "impute":
        raise DataError(
            "--missing impute cannot be combined with --responses; responses may have missing values, and --missing drop leaves out rows in which "
            "another column has none"
        )


def resume_many(out: Path, unfinished: dict[str, Any], beside: dict[str, Any]) -> bool:
    """Continue a run that was killed or interrupted, and write it; whether the responses are accurate."""
    options = {
        name: Path(value["path"]) if isinstance(value, dict) else value
        for name, value in unfinished["options"].items()
    }
    for name, before in unfinished["files"].items():
        if not options[name].is_file():
            raise DataError(
                f"there is no file {options[name]}, from which the run in {out} began; put it back"
            )
        if _digest(options[name]) != before:
            raise DataError(
                f"{options[name]} has changed since the run in {out} began; start it again with `whichvars fit … --overwrite`"
            )
    return run_many(options | beside, out, resuming=True)


def _unfinished(options: dict[str, Any], responses: list[str]) -> dict[str, Any]:
    """What ``resume_many`` needs besides the checkpoint."""
    paths = {name: value for name, value in options.items() if isinstance(value, Path) and name != "out"}
    return {
        "responses": responses,
        "options": options
        | {"out": None}
        | {name: {"path": str(path.absolute())} for name, path in paths.items()},
        "files": {name: _digest(path) for name, path in paths.items()},
    }


def _digest(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def run_many(options: dict[str, Any], out: Path, resuming: bool = False) -> bool:
    """Read the files, fit every response and write the run; whether those that were fitted are accurate."""
    import whichvars as wv
    from whichvars.cli.runs import (
        CHECKPOINT,
        has_checkpoint,
        make_directory,
        remove_checkpoint,
        remove_if_empty,
        write_many,
        write_unfinished,
        write_variants,
    )
    from whichvars.problem.model_priors import default_model_prior
    from whichvars.problem.priors import IndependentNormal

    started, quiet = time.perf_counter(), options["quiet"] or options["as_json"]
    arguments = {key: value for key, value in sample_arguments(options).items() if key != "sampler"}
    with notes(quiet) as said:
        table = load_genotypes(options, {}) if are_genotypes(options) else _load_table(options)
    for note in table.notes:
        say(f"Note: {note}", quiet)
    slab = parse_slab(options["slab"]) if options["slab"] is not None else None
    if slab is None and table.slab is None:
        slab = IndependentNormal()
    prior = table.model_prior or default_model_prior
    if options["prior_size"] is not None:
        prior = wv.BetaBinomial(size=options["prior_size"])
    make_directory(out)
    if not resuming:
        write_unfinished(out, _unfinished(options, list(table.y.columns)))
    write_variants(out, table.variants)
    several = "s" * (table.y.shape[1] != 1)
    say(f"{table.y.shape[1]:,} response{several} in {len(table.y):,} rows.", quiet)
    try:
        with notes(quiet) as more:
            many = wv.sample_many(
                table.X, table.y, covariates=table.covariates, slab=slab, model_prior=prior, max_size=options["max_size"],
                level=options["level"], signal=options["signal"], progress=not options["quiet"], checkpoint=out / CHECKPOINT, **arguments,
            )  # fmt: skip
    except BaseException:
        if not has_checkpoint(out):
            remove_checkpoint(out)
            remove_if_empty(out)
        raise
    fitted = many.summary[many.summary["not_fitted"] == ""]
    accurate = bool(fitted["converged"].all())
    if options["target_mcse"] is not None:
        accurate = accurate and bool((fitted["largest_mcse"] <= options["target_mcse"]).all())
    settings = _settings(options, table, many, slab, [*table.notes, *said, *more])
    settings["result"]["wall_seconds"] = time.perf_counter() - started
    settings["result"]["converged"] = accurate
    write_many(out, many, settings)
    remove_checkpoint(out)
    if options["as_json"]:
        print_json({"run": str(out), **settings, "table": _records(many.summary.reset_index()), "credible_sets": _records(many.sets)})  # fmt: skip
    elif not quiet:
        _show(out, many, accurate)
    return accurate


def _load_table(options: dict[str, Any]) -> Loaded:
    """Read a table with several responses, with covariates that may be in a file of their own."""
    from dataclasses import asdict

    from whichvars.cli.runs import file_fingerprint
    from whichvars.data.files import read_table
    from whichvars.data.roles import encode_responses

    table = read_table(options["data"])
    shape, columns = table.frame.shape, list(table.frame.columns)
    responses, drop = chosen_responses(options, columns), names_in(options["drop"], set(columns))
    said, joined = list[str](), None
    if options["covariates"] is not None:
        joined = join_complete_covariates(options, table)
        table, said = joined.table, joined.notes
        drop = [*drop, *(name for name in joined.keyed.keys.columns if name not in drop)]
    made = encode_responses(
        table, responses, drop, options["missing"], read_categories(options, set(columns)), read_expand(options, set(columns))
    )  # fmt: skip
    loaded = Loaded(
        made.encoded, made.Y, [], drop, asdict(made.encoded.encoding), file_fingerprint(options["data"], *shape), made.notes + said
    )  # fmt: skip
    return loaded if joined is None else with_covariates(loaded, joined, made.rows)


def _settings(
    options: dict[str, Any], table: Loaded, many: "ManyPosteriors", slab: Any, said: list[str]
) -> dict[str, Any]:
    """The content of settings.json."""
    from whichvars.cli.runs import PACKAGES, versions

    asked = ("draws", "target_mcse", "replicates", "seed", "prior_size", "max_size")
    return {
        "data": table.fingerprint,
        "responses": many.summary.index.tolist(),
        "family": "gaussian",
        "drop": table.drop,
        "encoding": table.encoding,
        "covariates": table.covariate_encoding,
        "genotypes": table.variants is not None,
        "dosages": options["dosages"],
        "sets": {name: options[name] for name in ("level", "signal")},
        "asked": {name: options[name] for name in asked},
        "notes": said,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "problem": {
            "rows": len(table.y),
            "slab": f"{table.slab}, wider for responses with a large effect" if slab is None else repr(slab),
        },
        "result": {
            "cpu_seconds": float(many.summary["cpu_seconds"].sum()),
            "not_fitted": int((many.summary["not_fitted"] != "").sum()),
        },
        "versions": {"python": platform.python_version(), **versions(PACKAGES)},
    }


def _records(frame: Any) -> list[dict[str, Any]]:
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def _show(out: Path, many: "ManyPosteriors", accurate: bool) -> None:
    """Print the responses whose most probable variables are the most probable, and whether to trust them."""
    console, summary = new_console(), many.summary
    fitted = summary[summary["not_fitted"] == ""].sort_values("pip", ascending=False, kind="stable")
    table = new_table()
    for name in ("response", "rows", "credible sets", "most probable", "probability", "largest error"):
        table.add_column(
            name,
            justify="left" if name in ("response", "most probable") else "right",
            no_wrap=True,
            max_width=30,
        )
    for name, row in fitted.head(SHOWN).iterrows():
        error = hundredths(row["largest_mcse"]) if row["largest_mcse"] else "0"
        table.add_row(plain(str(name)), f"{row['rows']:,}", str(row["sets"]), plain(row["lead"]), f"{row['pip']:.1%}", f"{error}%")  # fmt: skip
    console.print()
    doubtful = [str(name) for name in fitted.index[~fitted["converged"].astype(bool)]]
    if not accurate:
        named = f" ({', '.join(doubtful[:5])}{', …' if len(doubtful) > 5 else ''})" if doubtful else ""
        text = f"DO NOT TRUST ALL OF THESE NUMBERS YET: {len(doubtful):,} of {len(fitted):,} responses have not converged{named}, or are less accurate than asked for. Use more --draws."
        console.print(plain(text), style="bold")
        console.print()
    console.print(table)
    if len(fitted) > SHOWN:
        console.print(f"{len(fitted) - SHOWN:,} more responses, each with a lower probability.", style="dim")
    console.print()
    found = int((summary["sets"] > 0).sum())
    verb = "has" if found == 1 else "have"
    console.print(f"{found:,} of {len(summary):,} responses {verb} a credible set.")
    console.print(f"Written to {out}", markup=False, soft_wrap=True)
