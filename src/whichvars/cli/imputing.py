"""``--missing impute``: a run for each completed copy of a file, and one answer that is mixed from all of them.

While such a run is not finished, its checkpoint has the imputations (``imputations.npz``), the problem of each completed table
(``problem-1.npz``, …), the checkpoint of the table that is being sampled (``imputation-1``, …) and the posteriors of those that are done
(``posterior-1.npz``, …).
"""

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from whichvars.cli.correlated import file_of_slab, with_file_of_slab
from whichvars.cli.genotypes import are_genotypes
from whichvars.cli.loading import join_covariates
from whichvars.cli.options import (
    chosen_sampler,
    names_in,
    parse_slab,
    read_categories,
    read_expand,
    sample_arguments,
)
from whichvars.cli.responses import COLUMNS, check_fit, check_options, read_response
from whichvars.cli.show import (
    bar,
    in_options,
    in_ratio,
    new_console,
    new_table,
    notes,
    percents,
    plain,
    print_json,
    say,
    tenths,
    without_nan,
)
from whichvars.cli.watching import page_beside
from whichvars.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from whichvars.data.encoding import Encoded
    from whichvars.data.imputing import Imputations
    from whichvars.posterior.pooling import PooledPosterior
    from whichvars.posterior.posterior import Posterior
    from whichvars.problem.problem import Problem

SHOWN = 15  # variables in the table
# what is remembered of a run's options, so that it can be continued
ASKED = ("sampler", "draws", "budget", "target_mcse", "replicates", "seed")


class Silence(NamedTuple):
    """What is not printed."""

    progress: bool
    words: bool


def run_imputed(options: dict[str, Any], out: Path, sampled: bool) -> bool:
    """Read, impute, sample each completed table (or enumerate all models), and write the run; whether it is accurate."""
    from whichvars.cli.runs import (
        CHECKPOINT,
        make_directory,
        remove_checkpoint,
        write_check,
        write_unfinished,
    )
    from whichvars.data import storage
    from whichvars.problem import saving

    silence = Silence(options["quiet"], options["quiet"] or options["as_json"])
    started = time.perf_counter()
    imputations, frames, settings = _read(options)
    for note in settings["notes"]:
        say(f"Note: {note}", silence.words)
    make_directory(out)
    remove_checkpoint(out)  # of an older run
    write_check(out, None)
    arguments = sample_arguments(options, len(imputations)) if sampled else None
    parts: list[Posterior] = []
    problems = _problems(options, frames, settings, silence.words)
    first = [next(problems)]
    family = first[0].family.name
    if arguments is None or chosen_sampler(first[0], arguments) is None:
        for problem in _chain(first, problems):
            parts.append(_part(problem, arguments, len(parts), len(imputations), silence, None))
            del problem  # each has a copy of the table
    else:
        write_unfinished(out, settings)
        (out / CHECKPOINT).mkdir(exist_ok=True)
        tables = _chain(first, problems)
        for i in range(1, len(imputations) + 1):
            storage.save(_problem_file(out, i), "problem", next(tables), saving.CLASSES)
        _save_imputations(out, imputations)  # the last: what it belongs to is complete
        with page_beside(out, options["watch"]):
            parts = _sample(out, arguments, len(imputations), silence)
    if family in ("gaussian", "student"):
        say("Residuals of the first completed table:", silence.words)
        with notes(silence.words):
            rows = next(frames.encoded()).X, frames.y
            write_check(out, check_fit(parts[0], rows, settings, silence.words))
    _finish(out, imputations, parts, settings, started, options["report"], options["as_json"], silence.words)
    return all(part.converged for part in parts)


def resume_imputed(
    out: Path,
    settings: dict[str, Any],
    threads: int | None,
    dask: str | None,
    report: bool,
    as_json: bool,
    quiet: bool,
) -> bool:
    """Continue a run that was killed or interrupted, and write it; whether it is accurate."""
    imputations = _load_imputations(out)
    arguments = sample_arguments(settings["asked"] | {"threads": threads, "dask": dask}, len(imputations))
    silence, started = Silence(quiet, quiet or as_json), time.perf_counter()
    parts = _sample(out, arguments, len(imputations), silence)
    _finish(out, imputations, parts, settings, started, report, as_json, silence.words)
    return all(part.converged for part in parts)


# --- reading


class Frames(NamedTuple):
    """The completed tables, and the other arguments of their problems."""

    imputations: "Imputations"
    y: "pd.Series"
    always: list[str]
    categories: Any
    expand: Any
    family: Any
    offset: Any
    record: Any

    def encoded(self) -> "Iterator[Encoded]":
        """The completed tables as numbers."""
        from whichvars.data.imputing import encode_alike

        tables = encode_alike(self.imputations, self.categories, self.expand)
        return map(lambda table: table._replace(record=self.record), tables)


def _read(options: dict[str, Any]) -> "tuple[Imputations, Frames, dict[str, Any]]":
    """The imputations of a file, what their problems need, and the content of settings.json."""
    import pandas as pd

    from whichvars.cli.runs import file_fingerprint
    from whichvars.data.encoding import without_commas
    from whichvars.data.files import read_table
    from whichvars.data.imputing import impute_frame
    from whichvars.data.kinds import FILE
    from whichvars.data.records import Record
    from whichvars.data.roles import encode_table

    if options["stream"]:
        raise DataError("--missing impute needs the whole table; leave out --stream")
    if are_genotypes(options):
        raise DataError("--missing impute is for tables; missing genotypes are replaced by means without it")
    if options["signal"] is not None or options["level"] != 0.95:
        raise DataError(
            "--signal and --level are about credible sets, and completed tables have none; leave them out"
        )
    beside = check_options(options)
    table = read_table(options["data"])
    shape = table.frame.shape
    always, drop = (names_in(options[name], set(table.frame.columns)) for name in ("always", "drop"))
    categories = read_categories(options, set(table.frame.columns))
    expand = read_expand(options, set(table.frame.columns))
    said, covariates = list[str](), None
    if options["covariates"] is not None:
        table, keyed, place, said = join_covariates(options, table)
        columns = without_commas(keyed.table).iloc[place].set_axis(table.frame.index)
        table = table._replace(frame=pd.concat([table.frame, columns], axis=1))
        always = [*always, *columns.columns]
        drop = [*drop, *(name for name in keyed.keys.columns if name not in drop)]
        covariates = {"id": list(keyed.keys.columns), "columns": list(columns.columns)}
        said = [f"Covariates of {keyed.path.name}, in every model: {', '.join(columns.columns)}.", *said]
    made = encode_table(
        table, options["response"], always, drop, "impute", options["family"], beside, categories, expand,
        lambda y, known, rows: read_response(options, y, known, rows),
    )  # fmt: skip
    read = read_response(options, made.y, made.beside, made.rows)
    known, columns, decimal_comma = made.notes, [made.frame], table.decimal_comma
    encoding, always_in, used = made.encoding, made.always, len(made.rows)
    del made, table  # each has a copy of all columns
    imputations = impute_frame(
        columns, read.y, options["imputations"], options.get("seed", 0), 10, categories, options["indicators"], FILE, decimal_comma, expand,
    )  # fmt: skip
    remarks = [*known, *said, *read.notes, *(note for note in imputations.notes if note not in known)]
    settings = {
        "data": file_fingerprint(options["data"], *shape),
        "response": options["response"],
        "title": options["title"],
        "family": options["family"],
        "df": options["df"],
        **{name: options[name] for name in COLUMNS},
        "always": always,
        "drop": drop,
        "encoding": asdict(encoding),
        "covariates": covariates,
        "missing": {
            "how": "impute", "imputations": len(imputations), "rows_read": shape[0],
            "rows_used": used, "cells_imputed": int(imputations.gaps.sum()),
        },
        "transform": "log" if options["log"] else None,
        "notes": remarks,
        "asked": {name: options[name] for name in ASKED if name in options} or {"sampler": "exact"},
    }  # fmt: skip
    record = Record(options["data"].name, shape[0], shape[0] - used)
    frames = Frames(imputations, read.y, always_in, categories, expand, read.family, read.offset, record)
    return imputations, frames, settings


def _problems(
    options: dict[str, Any], made: Frames, settings: dict[str, Any], quiet: bool
) -> "Iterator[Problem]":
    """The problem of each completed table, one after the other; `settings` records what there is to say about them."""
    import whichvars as wv

    size, given = options["prior_size"], file_of_slab(options["slab"])
    for X in made.encoded():
        with notes(quiet) as said:
            problem = wv.Problem(
                X,
                made.y,
                family=made.family,
                offset=made.offset,
                slab=None if options["slab"] is None or given is not None else parse_slab(options["slab"]),
                evidence=options["evidence"],
                model_prior=None if size is None else wv.BetaBinomial(size=size),
                always_include=made.always or None,
                max_size=options["max_size"],
            )
            problem = with_file_of_slab(problem, options["slab"])
        settings["notes"] += [message for message in said if message not in settings["notes"]]
        quiet = True  # the others have the same to say
        del X
        yield problem
        del problem


def _chain(first: "list[Problem]", others: "Iterator[Problem]") -> "Iterator[Problem]":
    """The only problem of a list, which is given away, and the others."""
    yield first.pop()
    yield from others


# --- sampling


def _sample(out: Path, arguments: dict[str, Any], m: int, silence: Silence) -> "list[Posterior]":
    """Sample each completed table, from its problem in the checkpoint; those that are done are read."""
    import whichvars as wv
    from whichvars.cli.runs import CHECKPOINT
    from whichvars.data import storage
    from whichvars.problem import saving

    parts = []
    for i in range(1, m + 1):
        done, place = out / CHECKPOINT / f"posterior-{i}.npz", out / CHECKPOINT / f"imputation-{i}"
        if done.exists():
            parts.append(wv.Posterior.load(done))
            continue
        problem = storage.load(_problem_file(out, i), "problem", saving.CLASSES)
        part = _part(problem, arguments, i - 1, m, silence, place)
        if part.stopped == "interrupted":
            raise KeyboardInterrupt
        part.save(done)
        shutil.rmtree(place)
        parts.append(part)
    return parts


def _part(
    problem: "Problem", arguments: dict[str, Any] | None, i: int, m: int, silence: Silence, place: Path | None
) -> "Posterior":
    """The posterior of one completed table, whose state is saved at `place`, if there is one."""
    import whichvars as wv
    from whichvars.data.imputing import seed_of_part
    from whichvars.sampling.checkpoint import RUN, Passing

    say(f"Imputation {i + 1} of {m}", silence.words)
    with notes(silence.words or i > 0):
        if arguments is None:
            return wv.exact(problem, progress=not silence.progress)
        show = not silence.progress
        if place is not None and (place / RUN).exists():
            executor = arguments.get("executor")
            part = wv.resume(Passing(place), threads=arguments["threads"], progress=show, executor=executor)
        else:
            own = {"seed": seed_of_part(arguments["seed"], i)}
            checkpoint = {} if place is None else {"checkpoint": Passing(place)}
            part = wv.sample(problem, progress=show, **arguments | own | checkpoint)
    # without the path of the checkpoint on this machine
    public = {name: value for name, value in part.settings.items() if name != "checkpoint"}
    return replace(part, settings=public)


def _problem_file(out: Path, i: int) -> Path:
    from whichvars.cli.runs import CHECKPOINT

    return out / CHECKPOINT / f"problem-{i}.npz"


def _save_imputations(out: Path, imputations: "Imputations") -> None:
    from whichvars.cli.runs import CHECKPOINT, IMPUTATIONS
    from whichvars.data import storage
    from whichvars.data.chained import Kinds
    from whichvars.data.imputing import to_stored

    storage.save(out / CHECKPOINT / IMPUTATIONS, "imputations", to_stored(imputations), (Kinds,))


def _load_imputations(out: Path) -> "Imputations":
    from whichvars.cli.runs import CHECKPOINT, IMPUTATIONS
    from whichvars.data import storage
    from whichvars.data.chained import Kinds
    from whichvars.data.imputing import from_stored

    place = out / CHECKPOINT / IMPUTATIONS
    if not place.exists():
        raise DataError(
            f"the run in {out} was killed before it began to sample; start it again with --overwrite"
        )
    return from_stored(storage.load(place, "imputations", (Kinds,)))


# --- results


def _finish(
    out: Path,
    imputations: "Imputations",
    parts: "list[Posterior]",
    settings: dict[str, Any],
    started: float,
    report: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write and display the results of a run."""
    import whichvars as wv
    from whichvars.cli.runs import (
        BEST,
        POSTERIOR,
        REPORT,
        SETTINGS,
        SUMMARY,
        TOP_MODELS,
        describe,
        remove_checkpoint,
        write_csv,
        write_report,
        write_text,
    )

    pooled = wv.pool(parts, imputations)
    settings |= describe(parts[0], settings["asked"].get("target_mcse"))
    settings["result"] |= {
        "mean_size": pooled.mean_size, "converged": pooled.converged, "iterations": sum(p.iterations for p in parts),
        "largest_mcse": float(pooled.mcse.max(initial=0.0)), "cpu_seconds": sum(p.cpu_seconds for p in parts),
        "wall_seconds": time.perf_counter() - started,
    }  # fmt: skip
    with notes(quiet):  # of coefficients that cannot be relied on
        summary, ratios = pooled.summary(), pooled_ratios(pooled)
        if ratios is not None:
            summary[f"{ratios.name}_per_sd"] = ratios[summary.index]
        (out / SETTINGS).unlink(missing_ok=True)
        (out / REPORT).unlink(missing_ok=True)
        pooled.save(out / POSTERIOR)
        write_csv(summary.reset_index(), out / SUMMARY)
        write_csv(pooled.top_models(BEST).reset_index(), out / TOP_MODELS)
        write_text(json.dumps(without_nan(settings), indent=1, ensure_ascii=False) + "\n", out / SETTINGS)
        remove_checkpoint(out)
        if as_json:
            print_json(
                {
                    "run": str(out), **settings, "variables": summary.reset_index().to_dict("records"),
                    "top_models": pooled.top_models(10).reset_index().to_dict("records"),
                }
            )  # fmt: skip
        elif not quiet:
            _show(pooled, out)
        if report:  # last, as it takes a few seconds
            path = write_report(out, pooled, out / REPORT, settings.get("title"))
            if not quiet:
                click.echo(f"Report: {path}" if isinstance(path, Path) else f"No report was written; {path}")


def pooled_ratios(pooled: "PooledPosterior") -> "pd.Series | None":
    """By variable, the factor by which odds or rates are multiplied by one standard deviation more of it, given that it is in; NaN for groups of
    columns. None if the family has no ratios."""
    import numpy as np

    from whichvars.posterior.pooled_effects import pooled_standard_effects

    ratio = getattr(pooled.problem.family, "ratio", None)
    if ratio is None:
        return None
    with np.errstate(over="ignore"):
        return np.exp(pooled_standard_effects(pooled)["effect"]).rename(ratio)


def _show(pooled: "PooledPosterior", out: Path) -> None:
    from whichvars.posterior.tables import in_words

    console = new_console()
    table = new_table()
    ratios = pooled_ratios(pooled)
    for title in ("variable", "probability it matters", "imputation error", "in words"):
        table.add_column(title, justify="right" if title == "imputation error" else "left", no_wrap=True)
    if ratios is not None:
        table.add_column(str(ratios.name).replace("_", " "), no_wrap=True, justify="right")
    summary = pooled.summary()
    first = summary.head(SHOWN)
    for (name, row), percent in zip(first.iterrows(), percents(console, pooled, first["pip"], first["mcse"])):
        share = f"{bar(console, row['pip'])} {percent}"
        last = [] if ratios is None else [in_ratio(ratios[name])]
        table.add_row(plain(str(name)), share, tenths(row["imputation_error"]), in_words(row["pip"]), *last)
    console.print()
    console.print(table)
    unknown = "; ? means that one is not known" * bool(
        summary[["mcse", "imputation_error"]].isna().any(axis=None)
    )
    console.print(f"[dim]Errors are one standard error, in percentage points{unknown}.[/]")
    console.print()
    known = [] if pooled.imputations is None else pooled.imputations.notes  # they have been printed above
    for line in pooled.explain().splitlines():
        if line not in known:
            console.print(plain(in_options(line)))
    console.print()
    console.print(f"Written to {out}", markup=False, soft_wrap=True)
