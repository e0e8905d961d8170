"""``whichvars fit``, ``resume`` and ``exact``: from a data file to a run directory."""

import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whichvars.cli.annotations import annotation_options, check_annotations, with_annotations
from whichvars.cli.correlated import file_of_slab, with_file_of_slab
from whichvars.cli.genotypes import GENETIC, are_genotypes, files_of, genotype_options, load_genotypes
from whichvars.cli.loading import Loaded, load_portions, load_table
from whichvars.cli.options import (
    GLOBAL,
    SAMPLERS,
    SLABS,
    chosen_sampler,
    executor_at,
    parse_slab,
    sample_arguments,
)
from whichvars.cli.responses import COLUMNS, check_fit, check_options, family_options
from whichvars.cli.show import (
    best_models,
    inclusion_table,
    new_console,
    notes,
    plain,
    print_json,
    say,
    shortened,
)
from whichvars.cli.watching import page_beside
from whichvars.errors import DataError, WhichvarsError

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior
    from whichvars.problem.problem import Problem

NOT_ACCURATE, INTERRUPTED = 3, 130  # exit codes
SHOWN = 15  # variables in the table
# seconds above which the expected time and memory of enumeration are printed, and the numbers for this estimate
LONG, MODELS_A_SECOND, BYTES_A_MODEL = 4.0, 5e5, 32


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of all commands that read data and write a run directory."""
    for option in reversed(
        [
            click.argument("data", type=click.Path(path_type=Path)),
            click.option("--response", "-y", help="Column of the response."),
            click.option("--always", multiple=True, metavar="A,B", help="Columns that are in every model."),
            click.option("--drop", multiple=True, metavar="A,B", help="Columns to leave out, such as an identifier."),
            click.option("--log", is_flag=True, help="Take the logarithm of the response; predictions are on the original scale."),
            click.option("--date", multiple=True, metavar="A,B", help="Columns of dates, which become days since the first, month, weekday and season."),
            click.option("--spline", multiple=True, metavar="A:DF,B", help="Columns whose effect may be curved, with the degrees of freedom if they are not 4."),
            click.option("--category", multiple=True, metavar="A,B", help="Columns that are categories, although they contain numbers or very many words."),
            click.option("--lump", type=float, metavar="SHARE", help="Merge levels of categories that occur in less than this share of the rows, such as 0.01."),
            click.option("--scores", multiple=True, metavar="NAME=A,B,C", help="An ordered category with its levels, which count as 0, 1, 2, …; without levels if the file has their order."),
            click.option("--differences", multiple=True, metavar="NAME=A,B,C", help="An ordered category with its levels, each compared with the one before; without levels if the file has their order."),
            click.option(
                "--missing", type=click.Choice(["error", "drop", "impute"]), default="error", show_default=True,
                help="Missing values are an error, their rows are left out, or they are filled in several times.",
            ),
            click.option("--imputations", type=click.IntRange(1), default=5, show_default=True, help="How many times they are filled in."),
            click.option("--indicators", is_flag=True, help="With --missing impute, add columns that say where a value was missing."),
            click.option(
                "--stream", is_flag=True,
                help="Read in portions, for data beyond memory: CSV or Parquet, numbers only; DATA may be a folder of such files.",
            ),
            click.option(
                "--slab", metavar="NAME[:VALUE]",
                help=f"Prior on coefficients: {', '.join([*SLABS, 'correlated', GLOBAL])}; as in g-prior:bric, independent:100, independent:estimate or correlated:FILE. The default "
                f"is independent:1, and {GENETIC} for genotypes.",
            ),
            click.option("--prior-size", type=float, help="How many variables you expect to matter; the default is min(5, p/2), and 1 for genotypes."),
            click.option("--max-size", type=int, help="Largest number of variables in a model."),
            click.option("--out", type=click.Path(path_type=Path), help="Run directory; the default is DATA-run."),
            click.option("--overwrite", is_flag=True, help="Replace an existing run."),
            click.option("--report/--no-report", default=True, help="Whether to write the report, which takes a few seconds."),
            click.option("--level", type=click.FloatRange(0, 1), default=0.95, show_default=True, help="Level of credible sets."),
            click.option("--signal", type=click.FloatRange(0, 1), metavar="PROBABILITY", help="Credible sets given the signal, as those of susieR and FINEMAP, for signals with at least this probability, such as 0.5."),
            click.option("--title", help="Heading of the report."),
            click.option("--json", "as_json", is_flag=True, help="Print the results as JSON."),
            click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors (and JSON, if asked for)."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


dask_option = click.option(
    "--dask", "dask", metavar="ADDRESS",
    help="Run on the Dask cluster of the scheduler at this address, such as tcp://ADDRESS:8786; the results are the same.",
)  # fmt: skip


@click.command()
@data_options
@family_options
@genotype_options
@annotation_options
@click.option(
    "--responses",
    multiple=True,
    metavar="A,B",
    help="Several responses, each of which is fitted by itself; or all, for all columns of --phenotypes. Writes tables and no report.",
)
@click.option(
    "--sampler", type=click.Choice(["auto", *SAMPLERS]), default="auto", show_default=True,
    help="auto enumerates all models if there are at most a million (20 variables; about 14 if the family is not gaussian), and otherwise uses hybrid.",
)  # fmt: skip
@click.option("--draws", type=float, help="Iterations of each replicate; the default is a million.")
@click.option(
    "--budget",
    help="Time to spend sampling, such as 90s, 2m or 1h, without compiling; or draws of all replicates together, such as 1e7.",
)
@click.option(
    "--target-mcse",
    type=float,
    help="Stop when every inclusion probability has at most this Monte Carlo error.",
)
@click.option("--replicates", type=int, default=4, show_default=True, help="Independent runs.")
@click.option("--threads", type=int, help="All cores if not given; results do not depend on it.")
@dask_option
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same numbers.")
@click.option(
    "--watch", is_flag=True, help="Serve a page about the run, as `whichvars watch` does, until it ends."
)
def fit(**options: Any) -> None:
    """Find out which columns of DATA explain the response.

    A response of two values is modelled by logistic regression, any other by the linear model; --family chooses another kind of
    response, such as counts.

    DATA is a CSV file (also gzipped; separated by commas, semicolons or tabs), a Parquet or a Feather file. Columns with
    few distinct words are treated as categories, whose levels enter the model together. With --stream, DATA may be larger
    than memory, and may be a folder of files. DATA may also be a file of genotypes: .bed, .pgen, .raw, .vcf or .vcf.gz. The command writes a run directory with the summary, the best models, a report
    and all that `whichvars predict` needs.

    A run may be killed at any moment: `whichvars resume` continues from its last checkpoint, at most half a minute earlier.
    Ctrl-C stops a run in the same way; its result is based on the draws until then.

    Exit code 0: accurate; 3: done, but not accurate enough; 2: the data or an option cannot be used; 130: interrupted.
    """
    _run(options, sampled=True)


@click.command(short_help="Continue a run that was killed or interrupted.")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--threads", type=int, help="All cores if not given; results do not depend on it.")
@dask_option
@click.option("--report/--no-report", default=True, help="Whether to write the report.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors (and JSON, if asked for).")
def resume(
    directory: Path, threads: int | None, dask: str | None, report: bool, as_json: bool, quiet: bool
) -> None:
    """Continue a run of `whichvars fit` that was killed or interrupted.

    DIRECTORY contains all that is needed, including the data; a run of several responses reads its files again, which must not have
    changed. The results are those of an uninterrupted run.
    """
    import whichvars as wv
    from whichvars.cli.runs import CHECKPOINT, read_unfinished, with_advice
    from whichvars.sampling.checkpoint import Passing

    settings = read_unfinished(directory)
    if "responses" in settings:
        from whichvars.cli.many_responses import resume_many

        beside = {"threads": threads, "dask": dask, "as_json": as_json, "quiet": quiet}
        return _in_parts(lambda: resume_many(directory, settings, beside), directory)
    started = time.perf_counter()
    target = settings["asked"].get("target_mcse")
    try:
        if "missing" in settings:
            from whichvars.cli.imputing import resume_imputed

            if not resume_imputed(directory, settings, threads, dask, report, as_json, quiet):
                click.get_current_context().exit(NOT_ACCURATE)
            return
        with notes(quiet or as_json):
            posterior = wv.resume(
                Passing(directory / CHECKPOINT),
                threads=threads,
                progress=not quiet,
                executor=executor_at(dask),
            )
    except KeyboardInterrupt as error:
        raise with_advice(error, directory) from error
    _finish(directory, posterior, settings, target, started, report, as_json, quiet or as_json)


@click.command(short_help="Enumerate all models: up to about 20 columns.")
@data_options
@family_options
@genotype_options
@annotation_options
def exact(**options: Any) -> None:
    """Enumerate all models: up to about 20 columns (16 if the response is not gaussian), or more with --max-size."""
    _run(options, sampled=False)


def _run(options: dict[str, Any], sampled: bool) -> None:
    from whichvars.cli.runs import (
        CHECKPOINT,
        check_directory,
        has_checkpoint,
        make_directory,
        remove_checkpoint,
        remove_if_empty,
        with_advice,
        write_check,
        write_unfinished,
        write_variants,
    )
    from whichvars.sampling.checkpoint import Passing

    data: Path = options["data"]
    quiet = options["quiet"] or options["as_json"]
    out = options["out"] or Path(f"{data.name.split('.')[0] or 'data'}-run")
    if options.get("responses"):
        from whichvars.cli.many_responses import check_responses, run_many

        check_responses(options)
        check_directory(out, options["overwrite"])
        return _in_parts(lambda: run_many(options, out), out)
    if options["response"] is None:
        raise DataError(
            f"name the response with --response{', or several with --responses' if sampled else ''}"
        )
    arguments = sample_arguments(options) if sampled else {}
    check_annotations(options)
    check_directory(out, options["overwrite"])
    if options["missing"] == "impute":
        from whichvars.cli.imputing import run_imputed

        return _in_parts(lambda: run_imputed(options, out, sampled), out)
    with notes(quiet) as said:
        remarks, problem, settings, loaded = _read(options)
        variants, rows = loaded.variants, loaded.rows_to_check()
    for note in remarks:
        say(f"Note: {note}", quiet)
    make_directory(out)
    write_variants(out, variants)
    write_check(out, None)
    started = time.perf_counter()
    settings["notes"] = [*remarks, *said]
    try:
        if sampled:
            watch = options["watch"]
            if chosen_sampler(problem, arguments) is not None:
                write_unfinished(out, settings)
                arguments["checkpoint"] = Passing(out / CHECKPOINT)
            elif watch:
                say("There is nothing to watch, because all models are enumerated.", quiet)
                watch = False
            with page_beside(out, watch):
                posterior = _sample(problem, arguments, options["quiet"], quiet)
        else:
            remove_checkpoint(out)  # of an older run
            posterior = _enumerate(problem, options["quiet"], quiet)
    except BaseException as error:
        if has_checkpoint(out):
            raise with_advice(error, out) from error
        remove_checkpoint(out)
        remove_if_empty(out)
        raise
    if (
        rows is not None
        and problem.family.name in ("gaussian", "student")
        and posterior.stopped != "interrupted"
    ):
        with notes(quiet):
            write_check(out, check_fit(posterior, rows, settings, quiet))
    target = options.get("target_mcse")
    try:
        _finish(out, posterior, settings, target, started, options["report"], options["as_json"], quiet)
    except WhichvarsError:  # such as coefficients that are infinite
        remove_if_empty(out)
        raise


def _in_parts(run: Callable[[], bool], out: Path) -> None:
    """A run that keeps each of its parts when it is done; the exit code says whether all are accurate."""
    from whichvars.cli.runs import has_checkpoint, with_advice

    try:
        accurate = run()
    except BaseException as error:
        if has_checkpoint(out):
            raise with_advice(error, out) from error
        raise
    if not accurate:
        click.get_current_context().exit(NOT_ACCURATE)


def _finish(
    out: Path,
    posterior: "Posterior",
    settings: dict[str, Any],
    target: float | None,
    started: float,
    report: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write and display the results of a run."""
    from whichvars.cli.runs import describe, is_accurate, remove_checkpoint, write_run

    # without the path of the checkpoint on this machine
    public = {name: value for name, value in posterior.settings.items() if name != "checkpoint"}
    posterior = replace(posterior, settings=public)
    settings |= describe(posterior, target)
    settings["result"]["wall_seconds"] = time.perf_counter() - started
    interrupted = posterior.stopped == "interrupted"
    with notes(quiet):  # of coefficients that cannot be relied on
        write_run(out, posterior, settings)
        if not interrupted:
            remove_checkpoint(out)
        if as_json:
            print_json(_for_machines(out, posterior, settings))
        elif not quiet:
            _show(out, posterior, target)
        if report:  # last, as it takes a few seconds
            add_report(out, posterior, quiet, settings.get("title"), settings)
    if interrupted:
        say(f"Continue with: whichvars resume {shlex.quote(str(out))}", quiet)
        click.get_current_context().exit(INTERRUPTED)
    if not is_accurate(posterior, target):
        click.get_current_context().exit(NOT_ACCURATE)


def _read(options: dict[str, Any]) -> tuple[list[str], "Problem", dict[str, Any], Loaded]:
    """Read the files; returns notes for the user, the problem, the content of settings.json, and the data."""
    import whichvars as wv
    from whichvars.data.records import Record
    from whichvars.problem.genetics import wide_enough

    size, beside, given = options["prior_size"], check_options(options), file_of_slab(options["slab"])
    if are_genotypes(options):
        table = load_genotypes(options, beside)
    else:
        table = load_portions(options) if options["stream"] else load_table(options, beside)
    problem = wv.Problem(
        table.X,
        table.y,
        family=table.family,
        offset=table.offset,
        covariates=table.covariates,
        slab=table.slab
        if options["slab"] in (None, GLOBAL) or given is not None
        else parse_slab(options["slab"]),
        evidence=options["evidence"],
        model_prior=table.model_prior if size is None else wv.BetaBinomial(size=size),
        always_include=table.always or None,
        max_size=options["max_size"],
    )
    if table.variants is not None:
        problem.record = Record(files_of(options))
    problem = with_file_of_slab(problem, options["slab"])
    if table.variants is not None and options["slab"] is None:
        problem = wide_enough(problem)
    annotations = None
    if options["annotations"] is not None:
        expected = (1.0 if table.variants is not None else min(5.0, problem.p / 2)) if size is None else size
        problem, more, annotations = with_annotations(
            problem, options["annotations"], options["enrichment"], expected
        )
        table = table._replace(notes=[*table.notes, *more])
    if options["slab"] == GLOBAL:
        problem = problem.with_priors(slab=wv.global_empirical_bayes(problem))
    asked = {
        name: options[name]
        for name in ("sampler", "draws", "budget", "target_mcse", "replicates", "seed")
        if name in options
    }
    settings = {
        "data": table.fingerprint,
        "title": options["title"],
        "response": options["response"],
        "family": options["family"],
        "df": options["df"],
        **{name: options[name] for name in COLUMNS},
        "always": table.always,
        "drop": table.drop,
        "encoding": table.encoding,
        "covariates": table.covariate_encoding,
        "genotypes": table.variants is not None,
        "sets": {name: options[name] for name in ("level", "signal")},
        "dosages": options["dosages"],
        "annotations": annotations,
        "slab_file": None if given is None else given.name,
        "transform": "log" if options["log"] else None,
        "asked": asked or {"sampler": "exact"},
    }  # fmt: skip
    return table.notes, problem, settings, table


def _sample(problem: "Problem", arguments: dict[str, Any], silent: bool, quiet: bool) -> "Posterior":
    import whichvars as wv

    chosen = chosen_sampler(problem, arguments)
    if chosen is None:
        _say_models(problem, quiet)
    else:
        say(f"{_size(problem)}, sampled by {type(chosen).__name__}.", quiet)
    with notes(quiet):
        return wv.sample(problem, progress=not silent, **arguments)


def _enumerate(problem: "Problem", silent: bool, quiet: bool) -> "Posterior":
    import whichvars as wv

    _say_models(problem, quiet)
    with notes(quiet):
        return wv.exact(problem, progress=not silent)


def _size(problem: "Problem") -> str:
    return f"{problem.p:,} variable{'s' * (problem.p != 1)}, {problem.n:,} rows"


def _say_models(problem: "Problem", quiet: bool) -> None:
    from whichvars.cli.show import in_memory, in_time
    from whichvars.sampling.choosing import fits_a_second
    from whichvars.sampling.exact import MAX_FITS, MAX_MODELS, number_of_models

    total, quick = number_of_models(problem), not problem.one_by_one
    done = "enumerated" if problem.family.name == "gaussian" else "fitted"
    say(f"{_size(problem)}: {total:,} models, which are all {done}.", quiet)
    seconds = total / (MODELS_A_SECOND if quick else fits_a_second(problem))
    if seconds > LONG and total <= (MAX_MODELS if quick else MAX_FITS):
        say(f"Expected, roughly: {in_time(seconds)}; {in_memory(total * BYTES_A_MODEL)} of memory.", quiet)


def _for_machines(out: Path, posterior: "Posterior", settings: dict[str, Any]) -> dict[str, Any]:
    from whichvars.cli.runs import summary_with_ratios

    summary, best = summary_with_ratios(posterior), posterior.top_models(10)
    return {
        "run": str(out),
        **settings,
        "variables": summary.reset_index().to_dict("records"),
        "top_models": best.reset_index().to_dict("records"),
    }


def _show(out: Path, posterior: "Posterior", target: float | None) -> None:
    from whichvars.cli.runs import is_accurate, verdict
    from whichvars.posterior.explaining import stand_ins

    console = new_console()
    sentence, accurate = plain(verdict(posterior, target)), is_accurate(posterior, target)
    console.print()
    if not accurate:  # a warning before the numbers
        console.print(sentence, style="bold")
        console.print()
    console.print(inclusion_table(console, posterior, min(SHOWN, posterior.problem.p)))
    ratio = getattr(posterior.problem.family, "ratio", None)
    if ratio:
        per = f"{ratio.replace('_', ' ').capitalize()}s: for one standard deviation more, given that the variable is in."
        console.print(per, style="dim")
    for line in stand_ins(posterior):
        console.print(plain(line))
    problem = posterior.problem
    priors = f"Under {shortened(problem.slab)} for coefficients and {shortened(problem.model_prior)} for models; --slab and --prior-size choose others."
    console.print(plain(priors), style="dim")
    console.print()
    console.print(best_models(console, posterior, 3))
    console.print()
    if accurate:
        console.print(sentence)
    console.print(f"Written to {out}", markup=False, soft_wrap=True)


def add_report(
    out: Path,
    posterior: "Posterior",
    quiet: bool,
    title: str | None = None,
    settings: dict[str, Any] | None = None,
) -> None:
    """Write the report to a run directory, or say why there is none."""
    from whichvars.cli.runs import REPORT, write_report

    path = write_report(out, posterior, out / REPORT, title, settings=settings)
    if not quiet:
        click.echo(f"Report: {path}" if isinstance(path, Path) else f"No report was written; {path}")
