r"""Predictions for responses that are not Gaussian.

In model γ the linear predictor η of a new row is taken as normal, N(m, v), by the normal approximation of the coefficients
(``fits.py``). So η averaged over models is a mixture of normal distributions, whose quantiles are computed exactly. The mean
μ = g⁻¹(η) of a new response has expectation Σ_γ w_γ E[g⁻¹(N(m, v))], which is closed for probit and for rates,

.. math:: E\,\Phi(\eta) = \Phi\big(m/\sqrt{1 + v}\big), \qquad E\,e^\eta = e^{m + v/2},

and computed by the trapezoid rule for logistic regression. Ends of intervals of μ are those of η, transformed.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from whichvars.data.frames import read_vector
from whichvars.errors import DataError, NotAvailableError
from whichvars.posterior.fits import along, functionals, held_fits
from whichvars.posterior.models import KeptModels, standard_error
from whichvars.posterior.prediction import ROWS_BYTES, Prediction, read_new
from whichvars.posterior.t_mixture import TMixture, heaviest
from whichvars.problem.families import Family, Gaussian
from whichvars.problem.problem import Problem

# The trapezoid rule in units of the standard deviation √v: its error is below exp(−200/√v), that of the Gauss–Hermite rule with as many
# nodes far larger where √v is
NODES, FURTHEST = 171, 8.5


def gaussian_only(problem: Problem, what: str, instead: str) -> None:
    """NotAvailableError, unless the response is Gaussian."""
    if not isinstance(problem.family, Gaussian):
        raise NotAvailableError(f"{what} is not available for family={problem.family} yet; {instead}")


def inverse_link(family: Family) -> Callable[[np.ndarray], np.ndarray]:
    """From the linear predictor to the mean of a response: a probability (of one trial) or a rate."""
    return {"logistic": expit, "probit": ndtr}.get(family.name, np.exp)


def _moments_of_mean(family: Family, m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[μ] and E[μ²] where η ~ N(m, v); same shapes."""
    if family.name in ("poisson", "negative-binomial"):
        with np.errstate(over="ignore"):
            return np.exp(m + v / 2), np.exp(2 * m + 2 * v)
    node = np.linspace(-FURTHEST, FURTHEST, NODES)
    weight, link = np.exp(-(node**2) / 2), inverse_link(family)
    weight /= weight.sum()
    root, first, second = np.sqrt(v), np.zeros_like(m), np.zeros_like(m)
    for x, w in zip(node, weight):
        mean = link(m + root * x)
        first += w * mean
        second += w * mean**2
    return (ndtr(m / np.sqrt(1 + v)) if family.name == "probit" else first), second


def predict_family(
    problem: Problem,
    kept: KeptModels,
    X: Any,
    offset: Any,
    kind: str,
    interval: float | None,
    errors: bool,
) -> Prediction:
    """Mean, standard deviation and interval of μ ("mean") or η ("link") of new rows, under a weighted set of models."""
    z, x, columns = read_new(problem, kept, X)
    n = len(x)
    known = _read_offset(problem, offset, n)
    lines = functionals(problem, np.ones(n), z, x, columns)
    batches = held_fits(problem, kept)
    weight = np.concatenate([fit.weight for fit in batches])
    models = np.concatenate([fit.models for fit in batches])
    replicates = np.zeros((0, len(kept))) if kept.by_replicate is None else kept.by_replicate
    mean, std, ends, mcse = np.zeros(n), np.zeros(n), np.zeros((n, 2)), np.full(n, np.nan)
    step = max(1, ROWS_BYTES // (8 * 4 * max(len(weight), max(fit.columns.size for fit in batches), 1)))
    for first in range(0, n, step):
        part = slice(first, first + step)
        parts = [along(fit, lines.some(part)) for fit in batches]
        m = np.concatenate([b for b, _ in parts], axis=1) + known[part, None]
        v = np.maximum(np.concatenate([v for _, v in parts], axis=1), 0.0)
        centre, square = (m, v + m**2) if kind == "link" else _moments_of_mean(problem.family, m, v)
        mean[part] = centre @ weight
        spread = v if kind == "link" else np.maximum(square - centre**2, 0.0)
        std[part] = np.sqrt((spread + (centre - mean[part, None]) ** 2) @ weight)
        if errors:
            mcse[part] = standard_error(replicates[:, models] @ centre.T)
        if interval is not None:
            heavy = heaviest(weight)
            share, degrees = weight[heavy] / weight[heavy].sum(), np.full(len(heavy), np.inf)
            for r in range(len(m)):
                mixture = TMixture(share, m[r, heavy], np.sqrt(v[r, heavy]), degrees)
                ends[first + r] = [mixture.quantile(p) for p in ((1 - interval) / 2, (1 + interval) / 2)]
    if kind == "mean":
        with np.errstate(over="ignore"):
            ends = inverse_link(problem.family)(ends)
    return Prediction(mean, std, None if interval is None else ends, mcse if errors else None)


def _read_offset(problem: Problem, offset: Any, n: int) -> np.ndarray:
    assert problem.fit_data is not None
    if offset is not None:
        return read_vector(np.full(n, offset) if np.ndim(offset) == 0 else offset, n, "offset")
    if len(problem.fit_data.given):
        raise DataError(
            "the problem was made with an offset, so that predictions need offset= too: one number for each row of X, or 0 for "
            "a rate per unit of exposure"
        )
    return np.zeros(n)
