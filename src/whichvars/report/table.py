"""The table of variables: all of it as data for the page's script, the first rows as text for print and for
readers without scripts."""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from whichvars.posterior import Posterior

FIRST_ROWS = 25
LONGEST_BAR = 5  # em; the script has it too


@dataclass(frozen=True)
class Column:
    """A column of the table; `kind` says how its values are written."""

    label: str
    kind: str  # name, probability, error, count, number
    values: list[Any]  # str, or float with None where there is none
    about: str = ""


class Cell(NamedTuple):
    """A value as it is shown."""

    kind: str
    text: str
    bar: str  # length of its bar in em; empty if it has none


def columns(posterior: Posterior) -> list[Column]:
    """The columns, their rows sorted by falling probability."""
    problem = posterior.problem
    order = np.argsort(-posterior.pip, kind="stable")
    out = [
        Column("Variable", "name", [problem.names[j] for j in order]),
        Column(
            "Probability",
            "probability",
            _numbers(posterior.pip[order], 5),
            "posterior probability that the variable is in the model",
        ),
    ]
    if not posterior.models.exact:
        ess = posterior.inclusion_ess.to_numpy()[order]
        out += [
            Column(
                "±",
                "error",
                _significant(2 * posterior.mcse[order], 2),
                "two Monte Carlo standard errors of the probability; — for variables that never moved",
            ),
            Column(
                "Effective draws",
                "count",
                _numbers(ess, 0),
                "effective sample size: so many independent draws would be as accurate",
            ),
        ]
    table = posterior.coefficients(interval=None).iloc[-len(problem.columns_used) :]
    single = np.diff(problem.offsets) == 1
    place = problem.offsets[:-1][order]
    for label, key, about in (
        ("Coefficient", "mean_included", "mean if the variable is in the model, in the units of the data"),
        ("Its sd", "sd_included", "standard deviation of the coefficient if the variable is in the model"),
    ):
        values = np.where(single[order], table[key].to_numpy()[place], np.nan)
        out.append(Column(label, "number", _significant(values, 3), about))
    return out


def _numbers(values: np.ndarray, digits: int) -> list[float | None]:
    return [round(v, digits) if np.isfinite(v) else None for v in values.tolist()]


def _significant(values: np.ndarray, digits: int) -> list[float | None]:
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in values.tolist()]


def as_json(table: list[Column]) -> str:
    """For a script element: no `<` in it, so that no name can end the element."""
    data = [{"kind": c.kind, "values": c.values} for c in table]
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def first_rows(table: list[Column], rows: int = FIRST_ROWS) -> list[list[Cell]]:
    """The first rows as they are shown; the page's script writes the others in the same way."""
    return [
        [Cell(c.kind, written(c.kind, c.values[i]), _bar(c.kind, c.values[i])) for c in table]
        for i in range(min(rows, len(table[0].values)))
    ]


def _bar(kind: str, value: Any) -> str:
    return f"{LONGEST_BAR * value:.2f}" if kind == "probability" else ""


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
    if kind == "number":
        return f"{value:.3g}".replace("-", "−")
    if 0 < value < 0.0005:
        return "<0.001"
    if 0.9995 <= value < 1:
        return ">0.999"
    return f"{value:.3f}"
