"""Combining independent replicates: their mean, and a standard error that accounts for disagreement."""

import numpy as np
from scipy.special import fdtri

FEWEST_DEGREES = 8  # of freedom of variances that are compared with one another


def combine_replicates(
    means: np.ndarray, variances: np.ndarray, degrees: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean over replicates and its standard error, from each replicate's mean and estimated variance of that
    mean (batch means).

    Within-replicate variances have many degrees of freedom and are used if the replicates agree. If they differ by more
    than their own errors allow (F-test at 1 %), a sign of several modes, the variance between replicates is used. Where
    one replicate's variance is far larger than those of the others (Cochran's test at 1 %), it stands for all: a replicate
    that has not yet met some rare group of models finds too small a variance as well as too small a mean. The error is NaN
    for variables that never moved in any replicate.

    A variance that cannot be told from its replicate alone is 0 or NaN.

    Shapes (replicates, p), (replicates, p) → (p,), (p,).
    """
    replicates = len(means)
    mean = means.mean(axis=0)
    within = np.nan_to_num(variances).mean(axis=0) / replicates
    mcse_squared = within.copy()
    if replicates > 1:
        between = means.var(axis=0, ddof=1) / replicates
        limit = fdtri(replicates - 1, max(degrees * replicates, 1), 0.99)
        disagree = between > limit * within
        uneven = _uneven(np.nan_to_num(variances), degrees)
        mcse_squared[uneven] = np.nan_to_num(variances).max(axis=0)[uneven] / replicates
        mcse_squared[disagree] = np.maximum(mcse_squared, between)[disagree]
    return mean, np.where(mcse_squared > 0, np.sqrt(mcse_squared), np.nan)


def _uneven(variances: np.ndarray, degrees: int) -> np.ndarray:
    """Whether the largest of the replicates' variances is more of their sum than chance explains in one case of a hundred
    (Cochran's test). Shapes (replicates, p) → (p,). With few degrees of freedom, those of a few chains, variances of rare
    variables are uneven by nature, far from those of normal draws, and nothing is said."""
    replicates, total = len(variances), variances.sum(axis=0)
    if degrees < FEWEST_DEGREES:
        return np.zeros(len(total), bool)
    f = fdtri(degrees, (replicates - 1) * degrees, 1 - 0.01 / replicates)
    return variances.max(axis=0) > total / (1 + (replicates - 1) / f)
