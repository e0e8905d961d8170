"""The posterior of the dispersion of negative binomial counts, or of the scale of a Student response, r below: averaged over models, and at a few values in each of them."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from whichvars._kernels import likelihood as kernels
from whichvars._kernels.family_evidence import evaluate_family_models
from whichvars.errors import DataError
from whichvars.posterior.models import KeptModels
from whichvars.problem.families import Family, NegativeBinomial, Student
from whichvars.problem.fitting import widest
from whichvars.problem.problem import Problem

# the lightest models, which together have less than this share of the mass, are left out
LIGHT = 1e-4
# values of log r per unit at which densities are added up, and most of them
PER_UNIT, MOST_VALUES = 2000, 20_000
# values of r over which predictions are averaged; the mass that may lie beyond the first and the last of them; and the most models of
# which each has its own posterior of r
VALUES, BEYOND, MOST_OWN = 15, 1e-6, 3000


def dispersion_summary(problem: Problem, kept: KeptModels, interval: float) -> pd.Series:
    """What ``Posterior.dispersion`` returns."""
    family = problem.family
    if not isinstance(family, (NegativeBinomial, Student)):
        raise DataError(f"family={family} has no dispersion; it is for NegativeBinomial() and Student()")
    if not is_unknown(family):
        raise DataError(f"the dispersion is known, {family}; NegativeBinomial() estimates it")
    some = _heavy(kept, len(kept))[1]
    grid, total = _average(some, _log_densities(problem, some))
    below = np.cumsum(total) - total / 2
    ends = np.exp(np.interp([0.5, (1 - interval) / 2, (1 + interval) / 2], below, grid))
    return pd.Series(
        {"mean": float(total @ np.exp(grid)), "median": ends[0], "lower": ends[1], "upper": ends[2]},
        name="scale" if isinstance(family, Student) else "dispersion",
    )


def is_unknown(family: Family) -> bool:
    """Whether the family has a dispersion or scale that is averaged over."""
    return isinstance(family, Student) or (isinstance(family, NegativeBinomial) and family.dispersion is None)


def dispersion_values(problem: Problem, kept: KeptModels) -> tuple[np.ndarray, np.ndarray]:
    """Values of r, (L,), and their probabilities in each model, (models, L). A Gaussian or Poisson response has one value, infinity; a
    known dispersion is the only value.

    Values of an unknown r have equal distances in log r. Light models, and those beyond the MOST_OWN heaviest, have the average's
    probabilities.
    """
    family = problem.family
    if not is_unknown(family):
        known = family.dispersion if isinstance(family, NegativeBinomial) else None
        return np.array([np.inf if known is None else known]), np.ones((len(kept), 1))
    heavy, some = _heavy(kept, MOST_OWN)
    densities = _log_densities(problem, some)
    from scipy.interpolate import CubicSpline  # slow to import, and few responses are counts

    grid, total = _average(some, densities)
    ends = np.interp([BEYOND, 1 - BEYOND], np.cumsum(total), grid)
    values = np.linspace(ends[0], ends[1], VALUES)
    own = np.zeros((len(some), VALUES))
    for row, (x, log) in zip(own, densities):
        inside = (values >= x[0]) & (values <= x[-1])
        row[inside] = np.exp(CubicSpline(x, log)(values[inside]))
        if not row.any():  # narrower than the distance of the values
            row[np.argmin(np.abs(values - x[np.argmax(log)]))] = 1.0
    own /= own.sum(axis=1, keepdims=True)
    average = some.weight @ own / some.weight.sum()
    probabilities = np.tile(average, (len(kept), 1))
    probabilities[heavy] = own
    return np.exp(values), probabilities


def _heavy(kept: KeptModels, most: int) -> tuple[np.ndarray, KeptModels]:
    """The models that together have all but LIGHT of the mass, at most so many: their places, and themselves."""
    order = np.argsort(-kept.weight, kind="stable")
    heavy = order[: 1 + int(np.searchsorted(np.cumsum(kept.weight[order]), 1 - LIGHT))][:most]
    return heavy, kept.some(heavy)


def _average(
    some: KeptModels, densities: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """The posterior of log r averaged over models, on a grid, and masses that sum to one."""
    from scipy.interpolate import CubicSpline  # slow to import, and few responses are counts

    low, high = min(x[0] for x, _ in densities), max(x[-1] for x, _ in densities)
    grid = np.linspace(low, high, int(np.clip(PER_UNIT * (high - low), 2000, MOST_VALUES)))
    total = np.zeros(len(grid))
    for weight, (x, log) in zip(some.weight, densities):
        first, last = np.searchsorted(grid, [x[0], x[-1]])
        density = np.exp(CubicSpline(x, log)(grid[first:last])) if last > first else np.zeros(0)
        if density.sum() > 0:
            total[first:last] += weight * density / density.sum()
    return grid, total / total.sum()


def _log_densities(problem: Problem, some: KeptModels) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each model, values of log r and the log of its posterior density there, up to a constant. BIC looks at the mode alone, so that
    a normal density is taken which is as sharp as the posterior is there."""
    found = []
    for nodes, mode, spread in nodes_of_models(problem, some):
        if not len(nodes):
            z = np.linspace(-5, 5, 21)
            found.append((mode + z * spread, -z * z / 2))
            continue
        x, log = nodes[np.argsort(nodes[:, 0])].T
        found.append((x, log - log.max()))
    return found


def nodes_of_models(problem: Problem, some: KeptModels) -> Iterator[tuple[np.ndarray, float, float]]:
    """Of each model, the values of the parameter that is integrated out besides the coefficients and the log of its posterior density there, up to a
    constant, (nodes, 2); then its mode, and how far the posterior spreads about it, if there are no such values."""
    likelihood = problem.likelihood()
    with problem.works.borrow(likelihood, widest(problem, some.members, some.start)) as work:
        for i in range(len(some)):
            members = np.require(some.model(i), np.int32, ["C", "W"])
            evaluate_family_models(
                likelihood, work, members, np.array([0, len(members)]), np.zeros((1, kernels.N_ANSWERS))
            )
            nodes = work.nodes[: work.ints[kernels.NODES], [kernels.NODE_VALUE, kernels.NODE_LOG]]
            mode, spread = work.outer[kernels.OUTER], work.outer[kernels.STEP_LENGTH]
            yield nodes[np.isfinite(nodes[:, 1])], float(mode), float(spread)
