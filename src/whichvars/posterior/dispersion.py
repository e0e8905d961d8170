"""The posterior of the dispersion of negative binomial counts, averaged over models."""

import numpy as np
import pandas as pd
from scipy.interpolate import CubicSpline

from whichvars._kernels import likelihood as kernels
from whichvars._kernels.family_evidence import evaluate_family_models
from whichvars.errors import DataError
from whichvars.posterior.models import KeptModels
from whichvars.problem.families import NegativeBinomial
from whichvars.problem.fitting import widest
from whichvars.problem.problem import Problem

# the lightest models, which together have less than this share of the mass, are left out
LIGHT = 1e-4
# values of log r per unit at which densities are added up, and most of them
PER_UNIT, MOST_VALUES = 2000, 20_000


def dispersion_summary(problem: Problem, kept: KeptModels, interval: float) -> pd.Series:
    """What ``Posterior.dispersion`` returns."""
    family = problem.family
    if not isinstance(family, NegativeBinomial):
        raise DataError(f"family={family} has no dispersion; it is for NegativeBinomial()")
    if family.dispersion is not None:
        raise DataError(f"the dispersion is known, {family}; NegativeBinomial() estimates it")
    order = np.argsort(-kept.weight, kind="stable")
    heavy = order[: 1 + int(np.searchsorted(np.cumsum(kept.weight[order]), 1 - LIGHT))]
    some = kept.some(heavy)
    densities = _log_densities(problem, some)
    low, high = min(x[0] for x, _ in densities), max(x[-1] for x, _ in densities)
    grid = np.linspace(low, high, int(np.clip(PER_UNIT * (high - low), 2000, MOST_VALUES)))
    total = np.zeros(len(grid))
    for weight, (x, log) in zip(some.weight, densities):
        first, last = np.searchsorted(grid, [x[0], x[-1]])
        density = np.exp(CubicSpline(x, log)(grid[first:last])) if last > first else np.zeros(0)
        if density.sum() > 0:
            total[first:last] += weight * density / density.sum()
    total /= total.sum()
    below = np.cumsum(total) - total / 2
    ends = np.exp(np.interp([0.5, (1 - interval) / 2, (1 + interval) / 2], below, grid))
    return pd.Series(
        {"mean": float(total @ np.exp(grid)), "median": ends[0], "lower": ends[1], "upper": ends[2]},
        name="dispersion",
    )


def _log_densities(problem: Problem, some: KeptModels) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each model, values of log r and the log of its posterior density there, up to a constant."""
    likelihood, found = problem.likelihood(), []
    with problem.works.borrow(likelihood, widest(problem, some.members, some.start)) as work:
        for i in range(len(some)):
            members = np.require(some.model(i), np.int32, ["C", "W"])
            evaluate_family_models(
                likelihood, work, members, np.array([0, len(members)]), np.zeros((1, kernels.N_ANSWERS))
            )
            nodes = work.nodes[: work.ints[kernels.NODES]]
            nodes = nodes[np.isfinite(nodes[:, kernels.NODE_LOG])]
            x, log = nodes[np.argsort(nodes[:, kernels.NODE_VALUE])][
                :, [kernels.NODE_VALUE, kernels.NODE_LOG]
            ].T
            found.append((x, log - log.max()))
    return found
