"""The family of a response in a file, and the columns that belong to it: trials, offset and exposure."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from whichvars.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from whichvars.data.files import Table
    from whichvars.posterior.residual_checks import ResidualCheck
    from whichvars.problem.problem import Problem

EVIDENCE = ("auto", "laplace", "second-order", "importance", "bas")
FAMILIES = ("auto", "gaussian", "student", "logistic", "probit", "poisson", "negative-binomial")
COUNTS = ("poisson", "negative-binomial")
# options that name a column
COLUMNS = ("trials", "offset", "exposure")


def family_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say what kind of response it is."""
    for option in reversed(
        [
            click.option(
                "--family", type=click.Choice(FAMILIES), default="auto", show_default=True,
                help="Kind of response; auto is logistic for two values, and otherwise gaussian, the linear model; student is the linear model with heavy tails.",
            ),
            click.option("--df", type=float, help="Degrees of freedom of --family student, above 2; fewer are heavier tails. The default is 4."),
            click.option("--trials", metavar="COLUMN", help="Column of numbers of trials; the response is the number of successes."),
            click.option("--offset", metavar="COLUMN", help="Column that is added to the linear predictor, without a coefficient."),
            click.option(
                "--evidence", type=click.Choice(EVIDENCE), default="auto", show_default=True,
                help="How marginal likelihoods are computed if the family is not gaussian; bas reproduces the numbers of R's BAS.",
            ),
            click.option("--exposure", metavar="COLUMN", help="Column such as person-years, whose log is the offset of counts."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def check_options(options: dict[str, Any]) -> dict[str, str]:
    """The columns that were named, by option; DataError if options cannot be combined."""
    family, named = options["family"], {name: options[name] for name in COLUMNS if options[name] is not None}
    if options["stream"] and (family not in ("auto", "gaussian") or named):
        what = f"--family {family}" if family not in ("auto", "gaussian") else f"--{next(iter(named))}"
        raise DataError(
            f"{what} needs the rows themselves, and --stream keeps only sums over them; leave out --stream, with a sample of the "
            "rows if there are too many"
        )
    if options["df"] is not None and family != "student":
        raise DataError("--df is for --family student; add that, or leave it out")
    if "offset" in named and "exposure" in named:
        raise DataError("give --offset or --exposure, not both; the log of an exposure is an offset")
    if "trials" in named and family not in ("auto", "logistic"):
        raise DataError(f"--trials is for --family logistic, not for {family}")
    known = next((name for name in ("offset", "exposure") if name in named), None)
    if known and family == "gaussian":
        raise DataError(
            f"--{known} is not for the linear model (--family gaussian); subtract the column from the response instead"
        )
    if known == "exposure" and family in ("auto", "student"):
        raise DataError("--exposure is for counts; add --family poisson or --family negative-binomial")
    return {f"--{name}": column for name, column in named.items()}


class Read(NamedTuple):
    """What a problem is told about its response."""

    y: "pd.Series"  # or its logarithm
    family: Any
    offset: "np.ndarray | None"
    notes: list[str]


def read_response(
    options: dict[str, Any], y: "pd.Series", beside: "dict[str, pd.Series]", rows: "np.ndarray"
) -> Read:
    """The response with its logarithm taken if that was asked for, the family and the offset, from the values of the response and of the columns
    given by options."""
    import whichvars as wv

    if options["log"]:
        y = log_response(options, y, rows)
    family, notes = options["family"], []
    trials = beside.get("--trials")
    if trials is not None:
        _check_trials(y, trials, rows)
        return Read(y, wv.Logistic(trials=trials.to_numpy()), _offset(beside, rows), [])
    if family == "auto":
        values = sorted(y.unique().tolist())
        family = "logistic" if len(values) == 2 else "gaussian"
        if family == "logistic":
            first, second = (_shown(value) for value in values)
            notes = [
                f"The response {str(y.name)!r} has two values ({first}, {second}): logistic regression for {second}; "
                "--family gaussian for the linear model."
            ]
        elif "--offset" in beside:
            raise DataError(
                f"--offset is not for the linear model, and the response {str(y.name)!r} has {len(values)} values; say what it is, "
                "such as --family poisson"
            )
    if family in COUNTS:
        _check_counts(y, rows, f"the response {str(y.name)!r}")
    if family in ("gaussian", "student") and len(y) > 2 and y.nunique() == 1:
        raise DataError(
            f"the response {str(y.name)!r} is {_shown(y.iloc[0])} in every row; there is nothing to explain, so name another response"
        )
    if options["df"] is not None:
        family = wv.Student(df=options["df"])
    return Read(y, family, _offset(beside, rows), notes)


def log_response(options: dict[str, Any], y: "pd.Series", rows: "np.ndarray") -> "pd.Series":
    """The logarithm of the response, for --log."""
    import numpy as np

    if options["family"] not in ("auto", "gaussian", "student"):
        raise DataError(
            f"--log is for the linear model, not for --family {options['family']}; leave out one of them"
        )
    if y.dtype.kind not in "iuf":
        raise DataError(f"--log: the response {str(y.name)!r} has no numbers; leave it out")
    bad = np.flatnonzero(y.to_numpy() <= 0)
    if bad.size:
        raise DataError(
            f"--log: the response {str(y.name)!r} is {y.iloc[bad[0]]:g} in row {rows[bad[0]]}, and logarithms need positive numbers; "
            f"{bad.size:,} such row{'s' * (bad.size > 1)} would have to be left out"
        )
    return np.log(y).rename(f"log({y.name})")


def check_fit(
    posterior: Any, rows: tuple[Any, Any], settings: dict[str, Any], quiet: bool
) -> "ResidualCheck":
    """Check the residuals, print what was found, and put it into settings.json; returns the check. Rows are counted from 1."""
    from whichvars.cli.show import say
    from whichvars.posterior.residual_checks import check_residuals

    X, y = rows
    check = check_residuals(
        posterior, X.set_axis(range(1, len(X) + 1)), y.set_axis(range(1, len(X) + 1)), None, "--log",
        spline="--spline {name}", student="--family student",
    )  # fmt: skip
    settings["fit"] = {
        "r_squared": check.r_squared, "loo_r_squared": check.loo_r_squared, "skewness": check.skewness, "excess_kurtosis": check.kurtosis,
        "remarks": list(check.remarks),
    }  # fmt: skip
    loo = (
        ""
        if check.loo_r_squared is None
        else f"; {check.loo_r_squared:.2f} if each row is predicted from the others"
    )
    say(f"R² is {check.r_squared:.2f}{loo}.", quiet)
    for remark in check.remarks:
        say(f"Note: {remark}", quiet)
    return check


def new_offset(settings: dict[str, Any], table: "Table") -> "np.ndarray | None":
    """The offset of the rows of a new file; None if the run was made without one."""
    from whichvars.data.roles import read_known

    for option in ("offset", "exposure"):
        name = settings.get(option)
        if name is not None:
            beside = {f"--{option}": read_known(table, name, option)}
            return _offset(beside, table.frame.index.to_numpy() + 1)
    return None


def predicted(problem: "Problem") -> tuple[str, str]:
    """The name of the column of predictions, and a sentence about them."""
    from whichvars.problem.families import is_linear

    name = problem.family.name
    if name in COUNTS:
        return "mean", "Means are expected counts."
    if is_linear(problem.family):
        return "mean", ""
    if not problem.classes:
        return "probability", "Probabilities are those of a success in one trial."
    return "probability", f"Probabilities are those of {_shown(problem.classes[1])}."


def _offset(beside: "dict[str, pd.Series]", rows: "np.ndarray") -> "np.ndarray | None":
    import numpy as np

    if "--exposure" in beside:
        exposure = beside["--exposure"]
        bad = np.flatnonzero(exposure.to_numpy() <= 0)
        if bad.size:
            raise DataError(
                f"--exposure: column {str(exposure.name)!r} is {exposure[bad[0]]:g} in row {rows[bad[0]]}; exposures are positive, "
                "as their logs are needed: correct the cell or leave the row out"
            )
        return np.log(exposure.to_numpy())
    return beside["--offset"].to_numpy() if "--offset" in beside else None


def _check_trials(y: "pd.Series", trials: "pd.Series", rows: "np.ndarray") -> None:
    import numpy as np

    if y.dtype.kind not in "iuf":
        raise DataError(
            f"the response {str(y.name)!r} must be the number of successes among the trials of column {str(trials.name)!r}, "
            "not words or true and false"
        )
    _check_counts(y, rows, f"the response {str(y.name)!r}")
    _check_counts(trials, rows, f"--trials: column {str(trials.name)!r}")
    for bad, what in (
        (np.flatnonzero(trials < 1), "there must be at least one trial: leave such rows out"),
        (
            np.flatnonzero(y > trials),
            "there cannot be more successes than trials: give the number of successes, not a share",
        ),
    ):
        if bad.size:
            i = bad[0]
            raise DataError(
                f"row {rows[i]} has {y[i]:g} successes (column {str(y.name)!r}) in {trials[i]:g} trials (column "
                f"{str(trials.name)!r}); {what}"
            )


def _check_counts(values: "pd.Series", rows: "np.ndarray", what: str) -> None:
    import numpy as np

    numbers = values.to_numpy(dtype=float)
    bad = np.flatnonzero((numbers < 0) | (numbers != np.floor(numbers)))
    if bad.size:
        value = numbers[bad[0]]
        wrong = "negative" if value < 0 else "not a whole number"
        raise DataError(
            f"{what} is {value:g} in row {rows[bad[0]]}, which is {wrong}; counts are whole numbers from 0 up"
        )


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
