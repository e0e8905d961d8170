"""The chart of inclusion probabilities: SVG in the page itself, so that it follows the page's colours and width, and so that the
script can say which variable a mark belongs to."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from whichvars.plots.drawing import short
from whichvars.plots.variables import MOST_ROWS
from whichvars.posterior.posterior import Posterior
from whichvars.problem.problem import Problem
from whichvars.report import table, words

ROW = 22  # pixels
SKYLINE = 260  # pixels
LEAST = 0.001  # marks below this probability are left out of the skyline
MOST_MARKS = 2000
TOP_ROWS = 20
BRIEF_ROWS = 12  # of the summary on one page
LONGEST_NAME = 40
TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class Mark:
    """One variable of a chart. Places are shares of the width, or of the height, in per cent."""

    row: int  # in the table of variables, the most probable first
    name: str
    number: str  # its probability, with its error
    label: str  # what is read aloud
    x: float
    y: float
    low: float | None  # ends of the error bar, None without one
    high: float | None
    prior: float
    others: str  # for which it stands in; empty if it has a meaning of its own


@dataclass(frozen=True)
class Chart:
    """Marks and the words around them. `kind` is "rows" or "skyline"."""

    kind: str
    title: str
    caption: str
    alt: str
    marks: list[Mark]
    height: int  # pixels, of the marks
    ticks: list[tuple[float, str]]  # place in per cent and label


class Numbers(NamedTuple):
    """What a chart is made of."""

    problem: Problem
    pip: np.ndarray
    mcse: np.ndarray  # errors of the probabilities, NaN if they are not known
    of: str  # what they are


def charts(posterior: Posterior, most_rows: int | None = None) -> list[Chart]:
    """The chart of the most probable variables, at most `most_rows` of them. If there are many variables, a chart of all of them, in the
    order of the columns, comes before it."""
    numbers = Numbers(posterior.problem, posterior.pip, posterior.mcse, "Monte Carlo standard errors")
    return charts_of(numbers, others_in(words.stand_ins(posterior)), most_rows)


def charts_of(posterior: Numbers, others: dict[str, str], most_rows: int | None) -> list[Chart]:
    """The same, given for each variable the other members of its set of stand-ins."""
    p = posterior.problem.p
    order = np.argsort(-posterior.pip, kind="stable")
    rows = (order if p <= MOST_ROWS else order[:TOP_ROWS])[:most_rows]
    error = f" Error bars are ± 2 {posterior.of}." if posterior.mcse.any() else ""
    top = ", ".join(f"{posterior.problem.names[j]} {posterior.pip[j]:.2f}" for j in order[:10])
    prior = posterior.problem.model_prior.inclusion(p)
    step = 100 / len(rows)
    out = [
        Chart(
            "rows",
            "Inclusion probabilities" if len(rows) == p else "The most probable variables",
            f"The vertical strokes are the prior probabilities, before seeing the data.{error}",
            f"Inclusion probabilities, the most probable first. {top}",
            [
                _mark(posterior, prior, others, k, int(j), 100 * float(posterior.pip[j]), step * (k + 0.5))
                for k, j in enumerate(rows)
            ],
            ROW * len(rows),
            [(100 * t, f"{t:.1f}") for t in TICKS],
        )
    ]
    if p > MOST_ROWS:
        shown = [(k, int(j)) for k, j in enumerate(order[:MOST_MARKS]) if posterior.pip[j] >= LEAST]
        shown.sort(key=lambda pair: pair[1])
        marks = [
            _mark(posterior, prior, others, k, j, 100 * (j + 0.5) / p, 100 * (1 - float(posterior.pip[j])))
            for k, j in shown
        ]
        left_out = f" Variables with a probability below {LEAST:g} are left out." if len(shown) < p else ""
        out.insert(
            0,
            Chart(
                "skyline",
                "All variables",
                f"Inclusion probabilities in the order of the columns.{left_out}{error}",
                f"Inclusion probabilities of {p:,} variables in the order of the columns. {top}",
                marks,
                SKYLINE,
                [(100 * (1 - t), f"{t:.1f}") for t in TICKS],
            ),
        )
    return out


def _mark(
    posterior: Numbers, prior: np.ndarray, others: dict[str, str], row: int, j: int, x: float, y: float
) -> Mark:
    pip, error = float(posterior.pip[j]), float(posterior.mcse[j])
    known = np.isfinite(error) and error > 0
    text = table.with_error(table.written("probability", pip), error)
    name = posterior.problem.names[j]
    return Mark(
        row,
        short(name, LONGEST_NAME),
        text,
        f"{name}: {text}",
        round(x, 3),
        round(y, 3),
        round(100 * max(pip - 2 * error, 0), 3) if known else None,
        round(100 * min(pip + 2 * error, 1), 3) if known else None,
        round(100 * float(prior[j]), 3),
        others.get(name, ""),
    )


def others_in(sets: list[tuple[list[str], float, float]]) -> dict[str, str]:
    """The other members of the set, for each variable in one of these sets of stand-ins."""
    return {
        name: words.listed([short(other, LONGEST_NAME) for other in names if other != name], 5)
        for names, _, _ in sets
        for name in names
    }
