"""Making estimates that are shown together consistent with one another.

Inclusion probabilities are means of conditional probabilities if possible, which are far more accurate than shares of draws.
Model probabilities, sizes, coefficients and predictions are averages over weighted models. The two differ by Monte Carlo
error; ``diagnostics`` says when they differ by more than that. The remaining differences are removed here: the mean size is
the sum of the inclusion probabilities, and no set of models is more probable than these allow.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.special import softmax

from whichvars.posterior.models import KeptModels
from whichvars.problem.model_priors import mean_of_sizes

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Models


# most contradictions that are corrected one by one
STEPS = 500
# rounding error of sums of probabilities
ROUNDING = 1e-13
# difference of mean sizes that may be due to single precision
ROUNDED = 1e-6


def within_pips(models: "Models", pip: np.ndarray) -> "Models":
    """The models, best first, with probabilities that do not contradict the inclusion probabilities.

    The two are estimated in different ways and differ by Monte Carlo error. A page must not say that x is in with
    probability .97 and also show models without x whose probabilities sum to .04. Model probabilities are therefore lowered
    until those with a variable sum to no more than its inclusion probability, and those without it to no more than the rest.
    If only a few models are shown, there is usually nothing to lower.
    """
    if models.exact or not models.members:
        return models
    listed = KeptModels.listed([tuple(sorted(m)) for m in models.members])
    variables, place = np.unique(listed.members, return_inverse=True)
    others = np.delete(
        pip, variables
    )  # among variables in none of the models, only the most probable one matters
    pip = np.append(pip[variables], others.max(initial=0.0))
    inside = sparse.csr_array((np.ones(len(place)), place, listed.start), shape=(len(listed), len(pip)))
    frequency = models.frequency.copy()
    _lower(inside, frequency, pip, STEPS)
    # for any contradictions that are left, lower each model by its smallest factor
    frequency *= _worst(inside, *_factors(inside, frequency, pip))
    order = np.lexsort((-models.log_posterior, -frequency))
    return replace(
        models,
        members=[models.members[i] for i in order],
        log_marginal=models.log_marginal[order],
        log_prior=models.log_prior[order],
        frequency=frequency[order],
        mcse=None if models.mcse is None else models.mcse[order],
    )


def _lower(inside: sparse.csr_array, frequency: np.ndarray, pip: np.ndarray, steps: int) -> None:
    """Lower frequencies in place, correcting the worst contradiction first, until none is left or for at most `steps` steps.
    Correcting the worst one also removes most of the others."""
    by_variable = inside.tocsc()
    for _ in range(steps):
        when_in, when_out = _factors(inside, frequency, pip)
        j, k = int(np.argmin(when_in)), int(np.argmin(when_out))
        if min(when_in[j], when_out[k]) == 1:
            return
        v = j if when_in[j] <= when_out[k] else k
        lowered = np.zeros(len(frequency), bool)
        lowered[by_variable.indices[by_variable.indptr[v] : by_variable.indptr[v + 1]]] = True
        frequency[lowered if when_in[j] <= when_out[k] else ~lowered] *= min(when_in[j], when_out[k])


def _factors(
    inside: sparse.csr_array, frequency: np.ndarray, pip: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The factors by which models with each variable, and those without it, must be lowered; 1 if they need not be."""
    having = frequency @ inside
    lacking = frequency.sum() - having
    with np.errstate(divide="ignore", invalid="ignore"):
        return (
            np.where(having > pip + ROUNDING, pip / having, 1.0),
            np.where(lacking > 1 - pip + ROUNDING, (1 - pip) / lacking, 1.0),
        )


def _worst(inside: sparse.csr_array, when_in: np.ndarray, when_out: np.ndarray) -> np.ndarray:
    """For each model the smallest of the factors of its variables when they are in, and of the others when they are out."""
    factor = np.ones(inside.shape[0])
    filled = np.diff(inside.indptr) > 0
    factor[filled] = np.minimum.reduceat(when_in[inside.indices], inside.indptr[:-1][filled])
    left = np.arange(len(factor))  # models that have all variables looked at so far
    by_variable = inside.tocsc()
    for j in np.argsort(when_out, kind="stable"):
        if not len(left) or when_out[j] >= 1:
            break
        having = by_variable.indices[by_variable.indptr[j] : by_variable.indptr[j + 1]]
        lacking = np.setdiff1d(left, having, assume_unique=True)
        factor[lacking] = np.minimum(factor[lacking], when_out[j])
        left = np.intersect1d(left, having, assume_unique=True)
    return factor


def sizes_of(kept: KeptModels, p: int, exact: bool) -> tuple[np.ndarray, np.ndarray]:
    """Distribution of the model size under the weights of the kept models, (p + 1,), and its Monte Carlo errors."""
    sizes = np.diff(kept.start)
    rows = [np.bincount(sizes, w, p + 1) for w in kept.other_weights]
    return np.bincount(sizes, kept.weight, p + 1), kept.error_of(np.reshape(rows, (-1, p + 1)), exact)


def with_mean(sizes: np.ndarray, mean: float, largest: int) -> np.ndarray:
    """A distribution of sizes close to `sizes` with this mean: proportional to sizes · e^(θ size).

    If there is no such θ, because the mean lies outside the sizes that occur, probability is moved to the next size.

    >>> with_mean(np.array([0.5, 0.5, 0.0]), 0.6, 2).round(3).tolist(), with_mean(np.array([0, 1.0, 0]), 1.1, 2).round(3).tolist()
    ([0.4, 0.6, 0.0], [0.0, 0.9, 0.1])
    """
    present = np.flatnonzero(sizes)
    low, high = int(present[0]), int(present[-1])
    now = mean_of_sizes(sizes)
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
        out = np.zeros(len(sizes))
        out[present] = tilted(_tilt(tilted, present, mean, bound))
        return out
    if abs(mean - now) < ROUNDED:
        return sizes
    # one size further than those that occur, or as far as the mean
    beyond = (
        min(max(high + 1, int(np.ceil(mean))), largest) if mean >= high else max(min(low - 1, int(mean)), 0)
    )
    if beyond == now:
        return sizes
    share = (mean - now) / (beyond - now)
    out = (1 - share) * sizes
    out[beyond] += share
    return out


def _tilt(tilted: Callable[[float], np.ndarray], values: np.ndarray, mean: float, bound: float) -> float:
    """The θ within ±bound for which Σ values · tilted(θ) is `mean`, by Newton's method (the derivative is the variance), with
    bisection if a step leaves the interval. (scipy.optimize would take longer to import than a small run.)"""
    low, high, theta = -bound, bound, 0.0
    for _ in range(200):
        weights = tilted(theta)
        excess = float(weights @ values) - mean
        low, high = (low, theta) if excess > 0 else (theta, high)
        step = excess / max(float(weights @ (values - mean) ** 2) - excess**2, 1e-300)
        following = theta - step if low < theta - step < high else 0.5 * (low + high)
        if excess == 0 or following == theta:
            break
        theta = following
    return theta
