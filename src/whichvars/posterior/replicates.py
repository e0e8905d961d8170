"""Combining independent replicates: their mean, and a standard error that accounts for disagreement."""

import numpy as np
from scipy.special import fdtri


def combine_replicates(
    means: np.ndarray, variances: np.ndarray, degrees: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean over replicates and its standard error, from each replicate's mean and estimated variance of that
    mean (batch means).

    Within-replicate variances have many degrees of freedom and are used if the replicates agree. If they differ by more
    than their own errors allow (F-test at 1 %), a sign of several modes, the variance between replicates is used. The
    error is NaN for variables that never moved in any replicate.

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
        mcse_squared[disagree] = between[disagree]
    return mean, np.where(mcse_squared > 0, np.sqrt(mcse_squared), np.nan)
