"""Numbers that stand side by side do not contradict one another.

Inclusion probabilities are means of conditional probabilities as far as possible, and far more accurate than shares of
draws; model probabilities, sizes, coefficients and predictions are averages over weighted models. The two differ by
Monte Carlo error. ``diagnostics`` says when they differ by more than that. What is left is taken out here: mean size is
the sum of the inclusion probabilities, and no set of models is more probable than these allow.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import softmax

from whichvars.coefficients import KeptModels, standard_error


def within_pips(models: Any, pip: np.ndarray) -> Any:
    """Models whose probabilities do not contradict the inclusion probabilities.

    The two are estimated in different ways and differ by Monte Carlo error. A page must not say that x is in with
    probability .97 and show models without x of probability .04 in all. So a model's probability is scaled down until
    the models with a variable have no more than its inclusion probability, and those without it no more than the rest.
    """
    if models.exact or not models.members:
        return models
    listed = KeptModels.listed([tuple(sorted(m)) for m in models.members])
    inside = sparse.csr_array(
        (np.ones(len(listed.members)), listed.members, listed.start), shape=(len(listed), len(pip))
    )
    having = models.frequency @ inside
    missing = models.frequency.sum() - having
    with np.errstate(divide="ignore", invalid="ignore"):
        when_in = np.where(having > pip, pip / having, 1.0)
        when_out = np.where(missing > 1 - pip, (1 - pip) / missing, 1.0)
    factor = np.ones(len(models.members))
    filled = np.diff(inside.indptr) > 0
    factor[filled] = np.minimum.reduceat(when_in[inside.indices], inside.indptr[:-1][filled])
    left = np.arange(len(factor))  # models for which no variable that they lack was met yet
    by_variable = inside.tocsc()
    for j in np.argsort(when_out, kind="stable"):
        if not len(left) or when_out[j] >= 1:
            break
        having_j = by_variable.indices[by_variable.indptr[j] : by_variable.indptr[j + 1]]
        lacking = np.setdiff1d(left, having_j, assume_unique=True)
        factor[lacking] = np.minimum(factor[lacking], when_out[j])
        left = np.intersect1d(left, having_j, assume_unique=True)
    frequency = models.frequency * factor
    order = np.lexsort((-models.log_posterior, -frequency))
    return replace(
        models,
        members=[models.members[i] for i in order],
        log_marginal=models.log_marginal[order],
        log_prior=models.log_prior[order],
        frequency=frequency[order],
        mcse=None if models.mcse is None else models.mcse[order],
    )


def sizes_of(kept: KeptModels, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Distribution of the model size under the weights of the kept models, (p + 1,), and its Monte Carlo errors."""
    sizes = np.diff(kept.start)
    if kept.by_replicate is None or len(kept.by_replicate) < 2:
        error = np.full(p + 1, np.nan)
    else:
        error = standard_error(np.array([np.bincount(sizes, w, p + 1) for w in kept.by_replicate]))
    return np.bincount(sizes, kept.weight, p + 1), error


def with_mean(sizes: np.ndarray, mean: float, largest: int) -> np.ndarray:
    """A distribution of sizes near to `sizes` that has this mean: in proportion to sizes · e^(θ size).

    Where no θ gives it, for the mean lies outside the sizes that occur, the size next to them gets what is missing.

    >>> with_mean(np.array([0.5, 0.5, 0.0]), 0.6, 2).round(3).tolist(), with_mean(np.array([0, 1.0, 0]), 1.1, 2).round(3).tolist()
    ([0.4, 0.6, 0.0], [0.0, 0.9, 0.1])
    """
    k = np.arange(len(sizes))
    present = np.flatnonzero(sizes)
    low, high = int(present[0]), int(present[-1])
    now = float(sizes @ k)
    mean = float(np.clip(mean, 0, largest))
    if abs(mean - now) < 1e-14 * max(mean, 1.0):
        return sizes
    if low < mean < high:
        logs = np.log(sizes[present])

        def tilted(theta: float) -> np.ndarray:
            return softmax(logs + theta * present)

        bound = 1.0
        while not tilted(-bound) @ present < mean < tilted(bound) @ present:
            bound *= 2
        theta = brentq(lambda t: tilted(t) @ present - mean, -bound, bound, xtol=1e-15, rtol=1e-15)
        out = np.zeros(len(sizes))
        out[present] = tilted(theta)
        return out
    # one size further than those that occur, or as far as the mean itself lies
    beyond = (
        min(max(high + 1, int(np.ceil(mean))), largest) if mean >= high else max(min(low - 1, int(mean)), 0)
    )
    if beyond == now:
        return sizes
    share = (mean - now) / (beyond - now)
    out = (1 - share) * sizes
    out[beyond] += share
    return out
