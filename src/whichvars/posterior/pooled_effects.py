r"""Effects, intervals, and sets of stand-ins of posteriors of completed tables that are mixed.

Coefficients given that a variable is in, effects of one standard deviation more, and clusters are defined as those of a single posterior. Models
of all tables together have their average probabilities, correlations are averages over the tables, and so are standard deviations of columns.

**Intervals.** Given that a variable is in, part i has the mean :math:`\mu_i` of its coefficient, with weights :math:`w_i` in proportion to its inclusion
probabilities, the mean :math:`\bar\mu` and the variance B between parts. Draws of the m parts are those within a part, moved to a common mean,
plus what is between parts,

.. math:: \beta - \mu_i + \bar\mu + \sqrt{\tfrac{M + 1}{M - 1}\, B}\; t, \qquad M = 1 / \textstyle\sum_i w_i^2 ,

with t of Student's t distribution with M − 1 degrees of freedom, as B is known from M parts alone (Rubin 1987). Draws of 0, in which the variable is
out, stay 0. If M is below 2, B says nothing and draws are left as they are.
"""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import ndtri

from whichvars.posterior.clusters import cluster_table
from whichvars.posterior.models import KeptModels

if TYPE_CHECKING:
    from whichvars.posterior.pooling import PooledPosterior


def few_parts(m: int) -> float:
    """By how much the variance of the means of m parts about their own mean must be multiplied: (m + 1)/(m − 1), and 1 for a single part."""
    return (m + 1) / (m - 1) if m > 1 else 1.0


def spread_draws(draws: list[np.ndarray], means: np.ndarray, pips: np.ndarray, seed: int) -> np.ndarray:
    """Draws of coefficients of all parts together, (draws of all parts, columns), from those of each part, (draws, columns), the means of
    coefficients that are in, and inclusion probabilities, (parts, columns)."""
    total = pips.sum(axis=0)
    weight = np.divide(pips, total, out=np.zeros_like(pips), where=total > 0)
    means = np.where(weight > 0, means, 0.0)
    centre = (weight * means).sum(axis=0)
    between = (weight * (means - centre) ** 2).sum(axis=0)
    parts = 1 / np.maximum((weight**2).sum(axis=0), 1e-300)
    known = (total > 0) & (parts >= 2) & (between > 0)
    parts = np.where(known, parts, 2.0)
    reach = np.sqrt((parts + 1) / (parts - 1) * between)
    rng = np.random.default_rng([seed, 1])
    out = []
    for drawn, mean in zip(draws, means):
        moved = drawn + centre - mean + reach * rng.standard_t(parts - 1, drawn.shape)
        out.append(np.where(known & (drawn != 0), moved, drawn))
    return np.concatenate(out)


def included(pooled: "PooledPosterior") -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the coefficients of variables given that they are in, (p,) each; NaN for variables of several columns.

    With P the inclusion probability, E(b | in) = E(b)/P and E(b² | in) = E(b²)/P, as b is 0 otherwise.
    """
    found = pooled.summary().loc[pooled.names]
    share, mean, sd = (found[name].to_numpy() for name in ("pip", "mean", "sd"))
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = mean / share
        return inside, np.sqrt(np.maximum((sd**2 + mean**2) / share - inside**2, 0.0))


def spreads(pooled: "PooledPosterior") -> np.ndarray:
    """Standard deviations of the first column of each variable, averaged over the tables, (p,)."""
    first = pooled.problem.offsets[:-1]
    out: np.ndarray = np.mean([part.problem.column_spread[first] for part in pooled.parts], axis=0)
    return out


def pooled_standard_effects(pooled: "PooledPosterior", level: float = 0.9) -> pd.DataFrame:
    """Effects of one standard deviation more of each variable if it is in the model, and an interval, on the scale of the linear predictor: `effect`,
    `lower` and `upper`, by variable; NaN for variables of several columns. The interval is that of a normal distribution with the mean and
    variance of the coefficient given that it is in, within imputations and between them."""
    mean, sd = included(pooled)
    spread = spreads(pooled)
    reach = ndtri((1 + level) / 2) * spread * sd
    return pd.DataFrame(
        {"effect": spread * mean, "lower": spread * mean - reach, "upper": spread * mean + reach},
        index=pooled.names,
    )


def pooled_clusters(pooled: "PooledPosterior", level: float, correlation: float) -> pd.DataFrame:
    """What ``PooledPosterior.clusters`` returns."""
    parts = pooled.parts
    ends = np.cumsum([0, *(part.kept.start[-1] for part in parts)])
    start = np.concatenate([part.kept.start[:-1] + end for part, end in zip(parts, ends)] + [ends[-1:]])
    weight = np.concatenate([part.kept.weight for part in parts]) / len(parts)
    together = KeptModels(np.concatenate([part.kept.members for part in parts]), start, weight)
    tables = [part.problem for part in parts]
    table = cluster_table(pooled.problem, together, level, correlation, pooled.pip, True, tables)
    place = {name: j for j, name in enumerate(pooled.names)}
    sampling, between = [], []
    for names in table["variables"]:
        members = [place[name] for name in names]
        if len(members) == 1:
            sampling.append(pooled.mcse[members[0]])
            between.append(pooled.imputation_error[members[0]])
            continue
        any_in = [
            np.logical_or.reduce([part.kept.having(j) for j in members]).astype(float) for part in parts
        ]
        errors = [part.kept.error(values, part.models.exact) for part, values in zip(parts, any_in)]
        sampling.append(np.sqrt(np.sum(np.square(errors))) / len(parts))
        between.append(
            pooled.error_between([part.kept.weight @ values for part, values in zip(parts, any_in)])
        )
    table["mcse"] = np.array(sampling, float)
    table.insert(table.columns.get_loc("mcse") + 1, "imputation_error", np.array(between, float))
    return table
