"""The table of variables: all rows as data for the page's script, and the first rows as text for printing and for
browsers without scripts."""

import base64
import gzip
import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.posterior.family_words import outcome, standard_effects
from whichvars.posterior.fits import fits
from whichvars.posterior.posterior import Posterior
from whichvars.problem.problem import Problem

FIRST_ROWS = 25
# with more characters, the data are compressed
MUCH = 200_000
# in em; the same number is in the script
LONGEST_BAR = 5


@dataclass(frozen=True)
class Column:
    """A column of the table; `kind` says how its values are written."""

    label: str
    kind: str  # name, probability, error, count, number; small screens leave out count, range (a probability) and spread (a number)
    values: list[Any]  # str, or float and None for missing values
    about: str = ""
    notes: list[str] = field(
        default_factory=list
    )  # what appears under the pointer, for each row; empty if nothing


class Cell(NamedTuple):
    """A value as it is displayed."""

    kind: str
    text: str
    bar: str  # length of its bar in em; empty if it has none
    note: str  # appears under the pointer


def columns(posterior: Posterior) -> list[Column]:
    """The columns, with rows sorted by descending probability."""
    problem = posterior.problem
    order = np.argsort(-posterior.pip, kind="stable")
    out = [
        Column("Variable", "name", [problem.names[j] for j in order]),
        Column(
            "Probability",
            "probability",
            probabilities(posterior.pip[order]),
            "posterior probability that the variable is in the model",
        ),
    ]
    if posterior.mcse.any():
        out += [
            Column(
                "±",
                "error",
                significant(2 * posterior.mcse[order], 2),
                "two Monte Carlo standard errors of the probability; — for variables that were in all draws or in none",
            ),
        ]
    if (
        posterior.mcse.any() and not posterior.models.exact
    ):  # else nothing was drawn but points of importance sampling
        ess = posterior.inclusion_ess.to_numpy()[order]
        out += [
            Column(
                "Effective draws",
                "count",
                _counts(ess),
                "effective sample size: the number of independent draws that would be as accurate",
            ),
        ]
    single = np.diff(problem.offsets) == 1
    place = problem.offsets[:-1][order]
    ratio = getattr(problem.family, "ratio", None)
    if ratio is not None:
        effects = standard_effects(posterior, 0.95).iloc[place]
        shown = np.broadcast_to(single[order][:, None], effects.shape)
        return [*out, *ratio_columns(problem, ratio, effects.where(shown))]
    table = posterior.coefficients(interval=None).iloc[-len(problem.columns_used) :]
    for label, kind, key, errors, about in (
        ("Coefficient", "number", "mean_included", coefficient_errors(posterior), "mean if the variable is in the model, in the units of the data"),
        ("Its sd", "spread", "sd_included", None, "standard deviation of the coefficient if the variable is in the model"),
    ):  # fmt: skip
        values = np.where(single[order], table[key].to_numpy()[place], np.nan)
        notes = []
        if errors is not None and np.isfinite(errors).any():
            errors = np.where(single[order], 2 * errors[place], np.nan)
            notes = ["" if e is None else f"± {written('number', e)}" for e in significant(errors, 2)]
            about += "; its Monte Carlo error (± two standard errors) appears under the pointer"
        out.append(Column(label, kind, significant(values, 3), about, notes))
    return out


def ratio_columns(problem: Problem, ratio: str, effects: pd.DataFrame) -> list[Column]:
    """Odds ratios or rate ratios with their intervals, from effects on the linear predictor; NaN for groups of several columns."""
    odds = ratio == "odds_ratio"
    of = f"the odds of {outcome(problem)} are" if odds else "the rate is"
    about = (
        f"by how much {of} multiplied for one standard deviation more of the variable, if it is in the model"
    )
    ends = "lower end of its 95 % interval", "upper end of its 95 % interval"
    with np.errstate(over="ignore"):
        table = np.exp(effects)
    labels = "Odds ratio" if odds else "Rate ratio", "From", "To"
    return [
        Column(
            label, "number" if name == "effect" else "spread", significant(table[name].to_numpy(), 3), words
        )
        for label, name, words in zip(labels, ("effect", "lower", "upper"), (about, *ends))
    ]


def coefficient_errors(posterior: Posterior) -> np.ndarray:
    """Monte Carlo standard errors of the means of coefficients given that they are in, (columns,), in the units of the
    data; NaN if there are none, with a single replicate, or if a replicate never had the variable.

    A mean given inclusion is Σ w b / Σ w over the models with the variable. To first order its error is that of an average
    of (b − mean) / Σ w over models.
    """
    problem, kept = posterior.problem, posterior.kept
    P, exact = len(problem.columns_used), posterior.models.exact
    if exact and kept.noise is None:
        return np.full(P, np.nan)
    weights = np.vstack([kept.weight, kept.other_weights])
    mass, total = np.zeros((2, len(weights), P))
    for fit in fits(problem, kept):
        location = np.einsum("mj,mj->m", fit.node_weight, fit.q)[:, None] * fit.b
        at = fit.columns.ravel()
        for r, weight in enumerate(weights[:, fit.models]):
            mass[r] += np.bincount(at, np.repeat(weight, fit.columns.shape[1]), P)
            total[r] += np.bincount(at, (weight[:, None] * location).ravel(), P)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total[0] / mass[0]
        error = kept.error_of((total[1:] - mean * mass[1:]) / mass[0], exact)
    units = problem._y_scale / problem.column_units
    return np.where((mass[1:] > 0).all(axis=0), units * error, np.nan)


def three_digits(value: float) -> str:
    """A number with three significant digits, zeros at the end included, so that columns of numbers are equally accurate to look at.
    The page's script writes numbers in the same way.

    >>> [three_digits(v) for v in (0.054, -1.5, 123456.0, 0.0000454, 1.25e-7, 0.0)]
    ['0.0540', '−1.50', '1.23e+5', '0.0000454', '1.25e−7', '0.00']
    """
    mantissa, exponent = f"{value:.2e}".split("e")
    power = int(exponent)
    text = (
        f"{value:.{2 - power}f}" if -7 < power < 3 else f"{mantissa}e{'+' if power > 0 else '-'}{abs(power)}"
    )
    return text.replace("-", "−")


def _counts(values: np.ndarray) -> list[int | None]:
    """Effective draws, which are estimates: with three significant digits."""
    return [None if v is None else round(v) for v in significant(values, 3)]


def probabilities(values: np.ndarray) -> list[float | None]:
    """Rounded probabilities; only those that are exactly 0 or 1 are shown as such."""
    least = 1e-5
    return [v if v in (0, 1) else round(min(max(v, least), 1 - least), 5) for v in values.tolist()]


def significant(values: np.ndarray, digits: int) -> list[float | None]:
    """Numbers rounded to some significant digits, with None for those that are not finite."""
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in values.tolist()]


def as_json(table: list[Column]) -> str:
    """JSON for a script element, without `<`, so that no name can end the element; if it is long, compressed by gzip, in base 64."""
    data = [
        {"kind": c.kind, "label": c.label, "values": c.values} | ({"notes": c.notes} if c.notes else {})
        for c in table
    ]
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if len(text) > MUCH:
        # names may contain lone surrogates; the time of compression is left out, so that the same table gives the same file
        return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), mtime=0)).decode("ascii")
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def first_rows(table: list[Column], rows: int = FIRST_ROWS) -> list[list[Cell]]:
    """The first rows as they are displayed; the page's script formats the others in the same way."""
    return [
        [
            Cell(
                c.kind, written(c.kind, c.values[i]), _bar(c.kind, c.values[i]), c.notes[i] if c.notes else ""
            )
            for c in table
        ]
        for i in range(min(rows, len(table[0].values)))
    ]


def _bar(kind: str, value: Any) -> str:
    return f"{LONGEST_BAR * value:.2f}" if kind == "probability" else ""


def with_error(value: str, error: float | None, least: float = 0.001) -> str:
    """A formatted number with ± two standard errors, rounded up to its last digit; a bound has none if they are no larger than that digit.

    >>> with_error("0.997", 0.0011), with_error(">0.999", 1e-9), with_error("0.997", 0.0), with_error("0.5", float("nan"))
    ('0.997 ± 0.003', '>0.999', '0.997', '0.5')
    >>> with_error("1.000", 1e-16)  # an error of rounding
    '1.000'
    """
    if error is None or not np.isfinite(error) or error < 1e-12:
        return value
    if value[0] in "<>" and 2 * error <= least:  # the bound says as much
        return value
    places = round(-np.log10(least))
    return f"{value} ± {np.ceil(2 * error / least - 1e-9) * least:.{places}f}"


def written(kind: str, value: str | float | None) -> str:
    """A value as text.

    >>> written("probability", 0.12345), written("probability", 0.00001), written("probability", 0.9998)
    ('0.123', '<0.001', '>0.999')
    >>> written("count", 15_243_032_606_593.0)  # averages of conditional probabilities may be that accurate
    '>10,000,000'
    >>> written("error", None), written("error", 0.0123), written("count", 12345.0), written("number", -0.0123)
    ('—', '0.012', '12,345', '−0.0123')
    """
    if value is None:
        return "—"
    if isinstance(value, str):
        return value
    if kind == "count":
        return f"{value:,.0f}" if value < 1e7 else ">10,000,000"
    if kind in ("number", "spread"):
        return three_digits(value)
    if 0 < value < 0.0005:
        return "<0.001"
    if 0.9995 <= value < 1:
        return ">0.999"
    return f"{value:.3f}"


def model_probability(value: float) -> str:
    """
    >>> model_probability(0.01234), model_probability(0.00001), model_probability(0.0)
    ('0.0123', '<0.0001', '0.0000')
    """
    return "<0.0001" if 0 < value < 0.00005 else f"{value:.4f}"
