"""``--annotations``: prior inclusion probabilities from a table of annotations, which say what is known about each variable."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from whichvars.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from whichvars.problem.problem import Problem

Command = TypeVar("Command", bound=Callable[..., Any])


def annotation_options(command: Command) -> Command:
    """Options for annotations of variables."""
    for option in (
        click.option(
            "--enrichment", multiple=True, metavar="NAME=ODDS,…",
            help="By what factor each annotation multiplies the prior odds of a variable, such as coding=5,enhancer=3. Estimated from the data if not given.",
        ),
        click.option(
            "--annotations", type=click.Path(path_type=Path),
            help="File of what is known about each variable, such as 1 for variants in enhancers; the first column has the names of variables.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def check_annotations(options: dict[str, Any]) -> None:
    """DataError if annotations cannot be combined with other options."""
    if options["enrichment"] and options["annotations"] is None:
        raise DataError("--enrichment needs --annotations, the file with the annotations that it names")
    if options["annotations"] is not None and options["missing"] == "impute":
        raise DataError("--annotations cannot be combined with --missing impute; use --missing drop")


def with_annotations(
    problem: "Problem", path: Path, enrichment: tuple[str, ...], size: float
) -> "tuple[Problem, list[str], dict[str, Any]]":
    """The problem under a prior from annotations, notes for the user, and an entry for settings.json."""
    import numpy as np

    import whichvars as wv

    table, notes = _read(path, problem.names)
    if enrichment:
        odds = _odds(enrichment, list(table.columns))
        ignored = [name for name in table.columns if name not in odds]
        if ignored:
            notes.append(f"Annotations without --enrichment are not used: {', '.join(ignored)}.")
        table = table[list(odds)]
        prior = wv.annotated_prior(
            table, {name: float(np.log(value)) for name, value in odds.items()}, size=size
        )
        return problem.with_priors(model_prior=prior), notes, {"file": path.name, "odds_ratios": odds}
    found = wv.estimate_enrichment(problem, table, size=size)
    for name, row in found.table.iterrows():
        low, high = (np.exp(row["coefficient"] + sign * 1.96 * row["se"]) for sign in (-1, 1))
        notes.append(
            f"{name} multiplies the prior odds by {_short(row['odds_ratio'])} (95 % interval {_short(low)} to {_short(high)}), estimated from these data."
        )
    odds = {str(name): float(value) for name, value in found.table["odds_ratio"].items()}
    said = {"file": path.name, "odds_ratios": odds, "estimated": True}
    return problem.with_priors(model_prior=found.prior(table)), notes, said


def _short(factor: float) -> str:
    """Two digits, without exponents up to a million.

    >>> _short(163.2), _short(0.0234)
    ('160', '0.023')
    """
    return f"{float(f'{factor:.2g}'):,g}"


def _read(path: Path, names: list[str]) -> "tuple[pd.DataFrame, list[str]]":
    """A row of annotations for each variable; those that are not in the file have zeros."""
    import pandas as pd

    from whichvars.data.files import read_table

    if not path.is_file():
        raise DataError(f"--annotations: there is no file {path}")
    columns = list(read_table(path, blanks=True).frame.columns)
    if len(columns) < 2:
        raise DataError(
            f"{path} has only one column; the first must have the names of variables, and the others are annotations"
        )
    frame = read_table(path, text=[columns[0]], blanks=True).frame
    frame = frame.set_index(frame[columns[0]].astype(str).str.strip()).drop(columns=columns[0])
    twice = frame.index[frame.index.duplicated()]
    if len(twice):
        raise DataError(f"{path} has two rows for {twice[0]!r}; leave one of them out")
    there = frame.index.intersection(names)
    if not len(there):
        raise DataError(
            f"none of the variables, such as {names[0]!r}, is in the first column of {path}, which has {frame.index[0]!r}"
        )
    numbers = frame.loc[there].apply(pd.to_numeric, errors="coerce")
    for name in numbers.columns:
        if numbers[name].isna().any():
            who = numbers.index[numbers[name].isna()][0]
            raise DataError(
                f"{path}: the annotation {name!r} of {who!r} is {frame.loc[who, name]!r}; write a number, such as 1 or 0"
            )
    notes = []
    if (lacking := len(names) - len(there)) > 0:
        first = next(name for name in names if name not in set(there))
        notes.append(f"{lacking:,} of {len(names):,} variables are not in {path} and have no annotations: {first}{', …' if lacking > 1 else ''}.")  # fmt: skip
    return numbers.astype(float).reindex(names, fill_value=0.0), notes


def _odds(given: tuple[str, ...], names: list[str]) -> dict[str, float]:
    """Odds ratios by annotation, from NAME=ODDS."""
    from whichvars.data.frames import suggest

    odds: dict[str, float] = {}
    for text in (part for one in given for part in one.split(",")):
        name, equals, value = (piece.strip() for piece in text.rpartition("="))
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not equals or not 0 < number < float("inf"):
            raise DataError(
                f"--enrichment {text!r}: write NAME=ODDS with a positive number, such as coding=5"
            )
        if name not in names:
            raise DataError(f"--enrichment: there is no annotation {name!r}{suggest(name, names)}")
        odds[name] = number
    return odds
