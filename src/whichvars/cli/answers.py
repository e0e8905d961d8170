"""``whichvars predict``, ``report`` and ``compare``, which read run directories."""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whichvars.cli.show import new_console, new_table, notes, plain, print_json, say, shortened
from whichvars.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from whichvars.cli.runs import SavedRun

RUN = click.Path(path_type=Path)
# probability of an interval whose ends are the median
MIDDLE = 1e-9


@click.command(short_help="Predict the response for the rows of a new file.")
@click.argument("run", type=RUN)
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--estimator", type=click.Choice(["BMA", "HPM", "MPM", "BPM"]), default="BMA", show_default=True,
              help="Average over models, or one model: most probable, median probability, best predictive.")  # fmt: skip
@click.option("--interval", type=float, help="Probability of a predictive interval, such as 0.9.")
@click.option("--covariates", type=RUN, help="File of the covariates of the new rows, if the run had one.")
@click.option("--out", type=click.Path(path_type=Path), help="CSV file; the default is standard output.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of CSV.")
def predict(
    run: Path,
    new: Path,
    estimator: str,
    interval: float | None,
    covariates: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Predict the response for the rows of the file NEW from a run directory.

    NEW needs the columns of the data that the run was made with, in any order, that of the offset or exposure included; other
    columns are ignored. Predictions of responses that are not gaussian are probabilities or expected counts, and their standard
    deviations and intervals are those of the probabilities and expected counts themselves.
    """
    import pandas as pd

    from whichvars.cli.responses import predicted
    from whichvars.cli.runs import read_run, write_csv

    saved = read_run(run)
    settings: dict[str, Any] = {"interval": interval}
    if "missing" not in saved.settings:
        X, settings["offset"] = _new_rows(saved, new, covariates)
        settings["estimator"] = estimator
    elif estimator == "BMA":
        X, settings["offset"] = _rows_with_gaps(saved, new, covariates)
    else:
        raise DataError("predictions from imputed data are averages over models; leave out --estimator")
    name, sentence = predicted(saved.posterior.problem)
    with notes(quiet=False):
        if saved.settings.get("transform") == "log":
            middle, *ends = on_original_scale(saved.posterior, X, settings)
            frame = pd.DataFrame({"row": range(1, len(middle) + 1), "median": middle})
            sentence = "Predictions are medians on the original scale of the response."
        else:
            mean, std, *ends = saved.posterior.predict(X, return_std=True, **settings)
            frame = pd.DataFrame({"row": range(1, len(mean) + 1), name: mean, "std": std})
    if sentence:
        say(sentence)
    if ends:
        frame["lower"], frame["upper"] = ends[0].T
    if out is not None:
        write_csv(frame, out)
        say(f"Written to {out}")
    elif as_json:
        print_json(frame.to_dict("records"))
    else:
        sys.stdout.write(frame.to_csv(index=False))  # only numbers, so that no text needs protection


def on_original_scale(posterior: Any, X: Any, settings: dict[str, Any]) -> list[Any]:
    """Medians, and the ends of intervals if they are asked for, of a response whose logarithm was modelled."""
    import numpy as np

    found = posterior.predict(X, **settings | {"interval": MIDDLE})[1].mean(axis=1)
    ends = [] if settings["interval"] is None else [posterior.predict(X, **settings)[1]]
    return [np.exp(part) for part in (found, *ends)]


def _rows_with_gaps(saved: "SavedRun", new: Path, path: Path | None) -> tuple[Any, Any]:
    """The columns of a new file with its covariates, whose missing values are drawn, and their offset."""
    import pandas as pd

    from whichvars.cli.loading import matched_covariates
    from whichvars.cli.responses import new_offset
    from whichvars.data.encoding import without_commas
    from whichvars.data.files import read_table

    settings, table = saved.settings, read_table(new)
    frame, rows = without_commas(table), table.frame
    if settings.get("covariates"):  # once more, with identifiers as they are written
        rows = read_table(new, text=settings["covariates"]["id"]).frame
    beside = matched_covariates(settings, path, rows, f"rows of {new.name}")
    if beside is not None:
        lacking = [name for name in settings["covariates"]["columns"] if name not in beside.frame.columns]
        if lacking:
            raise DataError(f"{path} lacks the column {lacking[0]!r}")
        columns = without_commas(beside)[settings["covariates"]["columns"]].set_axis(frame.index)
        frame = pd.concat([frame, columns], axis=1)
    return frame, new_offset(settings, table)


def _new_rows(saved: "SavedRun", new: Path, path: Path | None) -> tuple[Any, Any]:
    """X, or X and covariates, of new rows, and their offset."""
    from whichvars.cli.genotypes import new_genotypes
    from whichvars.cli.loading import new_covariates
    from whichvars.cli.responses import new_offset
    from whichvars.cli.runs import read_variants
    from whichvars.data.encoding import Encoding
    from whichvars.data.files import read_table

    settings, variants = saved.settings, read_variants(saved.directory)
    if variants is not None:
        if any(settings.get(name) for name in ("offset", "exposure")):
            raise DataError(
                "the run had an offset, and a file of genotypes has none; predict in Python, with posterior.predict"
            )
        X, rows, remarks = new_genotypes(
            new, variants.index.tolist(), variants, settings.get("dosages", False)
        )
        offset, whose = None, f"people of {new.name}"
        for remark in remarks:
            say(f"Note: {remark}")
    else:
        table = read_table(new)
        problem = saved.posterior.problem
        encoding = problem.encoding or Encoding(list(problem.all_columns))  # if it was made by --stream
        X, offset = encoding.apply(table), new_offset(settings, table)
        rows, whose = table.frame, f"rows of {new.name}"
        if settings.get("covariates"):  # once more, with identifiers as they are written
            rows = read_table(new, text=settings["covariates"]["id"]).frame
    covariates = new_covariates(settings, path, rows, whose)
    return X if covariates is None else (X, covariates), offset


@click.command()
@click.argument("run", type=RUN)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="HTML file; the default is report.html in the run directory, or summary.html with --brief.",
)
@click.option("--title", help="Heading of the page; by default that of `fit --title`.")
@click.option("--brief", is_flag=True, help="Write a summary that fits on one printed page instead.")
def report(run: Path, out: Path | None, title: str | None, brief: bool) -> None:
    """Write the report of a run directory again: one HTML file."""
    from whichvars.cli.runs import BRIEF, REPORT, read_run, write_report

    saved = read_run(run)
    with notes(quiet=False):
        path = write_report(
            saved.directory,
            saved.posterior,
            out or saved.directory / (BRIEF if brief else REPORT),
            title or saved.settings.get("title"),
            brief,
            saved.settings,
        )
    if not isinstance(path, Path):
        raise DataError(f"no report was written; {path}")
    click.echo(path)


@click.command(short_help="Inclusion probabilities of two runs side by side.")
@click.argument("first", type=RUN)
@click.argument("second", type=RUN)
@click.option(
    "--rows",
    type=int,
    default=20,
    show_default=True,
    help="Number of variables to show; those with the largest differences come first.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all of them as JSON.")
def compare(first: Path, second: Path, rows: int, as_json: bool) -> None:
    """Inclusion probabilities of two runs side by side, with differences in units of their error.

    Differences of less than 2 or 3 errors may be due to chance; between exact runs every difference is real.
    """
    from whichvars.cli.runs import read_run

    one, other = read_run(first), read_run(second)
    frame, differences = side_by_side(one, other), _settings_that_differ(one, other)
    if as_json:
        print_json({"differences": differences, "variables": frame.reset_index().to_dict("records")})
        return
    console = new_console()
    for line in differences:
        console.print(plain(line))
    shown = frame.head(max(rows, 1))
    table = new_table()
    names = [path.name or str(path) for path in (first, second)]
    if names[0] == names[1]:
        names = ["first", "second"]
    table.add_column("variable", no_wrap=True)
    for title in (*names, "difference, points", "standard errors"):
        table.add_column(plain(title), justify="right", no_wrap=title not in names)
    for name, row in shown.iterrows():
        table.add_row(
            plain(str(name)),
            _share(row["pip_first"]),
            _share(row["pip_second"]),
            _signed(row["difference"]),
            _errors(row["errors"]),
        )
    console.print(table)
    if len(frame) > len(shown):
        console.print(
            f"[dim]{len(frame) - len(shown):,} more, with smaller differences; --rows shows more of them.[/]"
        )


def side_by_side(one: "SavedRun", other: "SavedRun") -> "pd.DataFrame":
    """A row for each variable: both probabilities, their difference, and the difference in units of its standard error."""
    import numpy as np
    import pandas as pd

    tables = [_with_errors(run).add_suffix(f"_{which}") for run, which in ((one, "first"), (other, "second"))]
    frame = pd.concat(tables, axis=1)
    frame["difference"] = frame["pip_second"] - frame["pip_first"]
    with np.errstate(divide="ignore", invalid="ignore"):
        frame["errors"] = frame["difference"] / np.hypot(frame["mcse_first"], frame["mcse_second"])
    frame.index.name = "variable"
    order = frame["difference"].abs().fillna(-1.0).sort_values(ascending=False, kind="stable").index
    return pd.DataFrame(frame.loc[order])


def _with_errors(run: "SavedRun") -> "pd.DataFrame":
    """Inclusion probabilities and their errors; that of the number of imputations is part of them."""
    import numpy as np

    table = run.posterior.summary()
    if "imputation_error" in table:
        table["mcse"] = np.hypot(table["mcse"].fillna(0.0), table["imputation_error"])
    return table[["pip", "mcse"]]


def _settings_that_differ(one: "SavedRun", other: "SavedRun") -> list[str]:
    """Differences between two runs other than their results."""
    messages = []
    if one.settings["data"]["sha256"] != other.settings["data"]["sha256"]:
        messages.append(
            f"Different data: {one.settings['data']['file']} and {other.settings['data']['file']}."
        )
    pairs: list[tuple[str, Any, Any]] = [
        (name.replace("_", " "), one.settings["problem"].get(name), other.settings["problem"].get(name))
        for name in ("family", "slab", "model_prior", "noise", "scale", "max_size", "always_included", "rows")
    ]
    pairs += [(name, one.settings.get(name), other.settings.get(name)) for name in ("offset", "exposure")]
    pairs.append(("response", one.settings["response"], other.settings["response"]))
    pairs.append(("sampler", one.posterior.sampler.split("(")[0], other.posterior.sampler.split("(")[0]))
    return messages + [
        f"Different {name}: {shortened(a)} and {shortened(b)}." for name, a, b in pairs if a != b
    ]


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1%}"


def _signed(value: float) -> str:
    """A difference of probabilities in percentage points.

    >>> _signed(0.0512), _signed(-0.0001), _signed(math.nan)
    ('+5.1', '0.0', '–')
    """
    if math.isnan(value):
        return "–"
    return "0.0" if abs(value) < 0.0005 else f"{100 * value:+.1f}"


def _errors(value: float) -> str:
    """The same in standard errors. That it is far more than chance can do is all that large numbers say.

    >>> _errors(-2.13), _errors(9596.2), _errors(math.inf)
    ('-2.1', '>+99', '–')
    """
    if not math.isfinite(value):
        return "–"
    return f"{value:+.1f}" if abs(value) < 99.95 else ">+99" if value > 0 else "<-99"
