r"""The posterior of the shrinkage factor g/(1 + g), under g-priors and their mixtures; and that of an unknown g of the independent slab.

In a model, the posterior mean of the coefficients is the least-squares estimate times E[g/(1 + g)]. Its posterior is averaged over models, and
within each over g by the same quadrature as that of coefficients (``fits``). The null model has no coefficients to shrink and is left out.
"""

import numpy as np
import pandas as pd
from scipy.special import expit, logit, softmax

from whichvars._kernels import evidence as codes
from whichvars._kernels.averaging import LOG_WEIGHT, RIDGE_FACTOR
from whichvars.errors import DataError
from whichvars.posterior.dispersion import nodes_of_models
from whichvars.posterior.fits import fits, shares_of_values
from whichvars.posterior.models import KeptModels
from whichvars.problem.families import Gaussian
from whichvars.problem.priors import IndependentNormal, values_of_g
from whichvars.problem.problem import Problem

# the grid of log g on which distributions of models are added up, and into how many parts the steps of their quadratures are divided
EDGES, PARTS = np.linspace(-60.0, 120.0, 18_001), 16
# most models of a response that is not Gaussian of which each has its own posterior of g
MOST_FITTED = 3000


def shrinkage_summary(problem: Problem, kept: KeptModels, interval: float, exact: bool) -> pd.Series:
    """What ``Posterior.shrinkage`` returns."""
    code = problem.slab.code
    if not isinstance(problem.family, Gaussian):
        raise DataError(f"shrinkage() is for Gaussian responses, not for family={problem.family}")
    if code not in (codes.G_PRIOR, codes.MIXTURE, codes.EMPIRICAL_BAYES):
        raise DataError(
            f"{problem.slab} has no shrinkage factor g/(1 + g); it is for g-priors and their mixtures"
            + ("; estimated_g() says what is known of g" if has_unknown_g(problem) else "")
        )
    values, weights, mass = [], [], np.zeros(len(EDGES) - 1)
    means, masses = np.zeros(len(kept)), np.zeros(len(kept))
    for fit in fits(problem, kept):
        if not fit.columns.shape[1]:
            continue
        values.append(fit.q.ravel())
        weights.append((fit.weight[:, None] * fit.node_weight).ravel())
        if code == codes.MIXTURE:
            mass += _histogram(logit(fit.q), fit.node_weight, fit.weight)
        means[fit.models] = np.einsum("mj,mj->m", fit.node_weight, fit.q)
        masses[fit.models] = 1.0
    if not values:
        raise DataError("all kept models are the null model, which has no coefficients to shrink")
    value, weight = np.concatenate(values), np.concatenate(weights)
    whole = weight.sum()
    mean = float(weight @ value / whole)
    ends = (1 - interval) / 2, 0.5, (1 + interval) / 2
    if code == codes.MIXTURE:
        lower, median, upper = expit(np.interp(ends, np.cumsum(mass) / mass.sum(), EDGES[1:]))
    else:
        lower, median, upper = _quantiles(np.array(ends), value, weight)
    error = float(kept.error((means - mean) * masses, exact)) / whole
    return pd.Series(
        {
            "mean": mean,
            "mcse": error,
            "sd": float(np.sqrt(max(weight @ (value - mean) ** 2 / whole, 0.0))),
            "median": float(median),
            "lower": float(lower),
            "upper": float(upper),
        }
    )


def has_unknown_g(problem: Problem) -> bool:
    """Whether the g of the independent slab is unknown, whatever the family."""
    return isinstance(problem.slab, IndependentNormal) and problem.slab.unknown


def estimated_g(problem: Problem, kept: KeptModels, exact: bool) -> pd.DataFrame:
    """What ``Posterior.estimated_g`` returns."""
    if not has_unknown_g(problem):
        raise DataError(f'estimated_g() is for slab=IndependentNormal("estimate"), not for {problem.slab}')
    some = np.diff(kept.start) > 0
    whole = float(kept.weight[some].sum())
    if not whole:
        raise DataError("all kept models are the null model, which has no coefficients and so no g")
    if problem.unknown_g:
        slab = problem.target(0).slab
        shares = shares_of_values(problem, kept)
        g, prior = 1 / (slab.ridge[0] * slab.grid[:, RIDGE_FACTOR]), np.exp(slab.grid[:, LOG_WEIGHT])
    else:
        shares = _shares_of_family(problem, kept)
        values, prior = values_of_g(problem.n)
        g = values / problem.likelihood().ridge[0]
    shares = shares * some[:, None]
    posterior = kept.weight @ shares / whole
    errors = [kept.error((share - mean) * some, exact) / whole for share, mean in zip(shares.T, posterior)]
    return pd.DataFrame(
        {"prior": prior, "posterior": posterior, "mcse": np.array(errors, float)},
        index=pd.Index(g, name="g"),
    )


def _shares_of_family(problem: Problem, kept: KeptModels) -> np.ndarray:
    """The posterior probabilities of the values of g in each model if the family is not Gaussian, (models, values). The lightest models, which are not fitted again,
    have those of the average."""
    heavy = np.argsort(-kept.weight, kind="stable")[:MOST_FITTED]
    few = kept.some(heavy)
    values = np.log(values_of_g(problem.n)[0])
    own = np.zeros((len(few), len(values)))
    for share, (nodes, _, _) in zip(own, nodes_of_models(problem, few)):
        if len(nodes):
            place = np.abs(values[:, None] - nodes[:, 0]).argmin(axis=0)
            np.add.at(share, place, softmax(nodes[:, 1]))
    total = (few.weight * (np.diff(few.start) > 0)) @ own
    shares = np.tile(total / max(total.sum(), 1e-300), (len(kept), 1))
    shares[heavy] = own
    return shares


def _quantiles(levels: np.ndarray, value: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Quantiles of a discrete distribution."""
    order = np.argsort(value, kind="stable")
    place = np.searchsorted(np.cumsum(weight[order]), levels * weight.sum())
    return value[order][np.minimum(place, len(value) - 1)]


def _histogram(log_g: np.ndarray, node_weight: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Masses of the cells of EDGES: the models' distributions of log g times their weights, (m,).

    Nodes are those of the trapezoid rule, (m, J). Up to a node the distribution has half of its weight and all of the weights before it, less
    a twelfth of the change of the density (Euler and Maclaurin). Between nodes it is a cubic with the density as its slope.
    """
    change = np.gradient(node_weight, axis=1)
    up_to = np.cumsum(node_weight, axis=1) - node_weight / 2 - change / 12
    mass = np.zeros(len(EDGES) - 1)
    before = up_to[:, :-1]
    for part in range(1, PARTS + 1):
        t = part / PARTS
        here = (
            (1 + 2 * t) * (1 - t) ** 2 * up_to[:, :-1]
            + t * (1 - t) ** 2 * node_weight[:, :-1]
            + t**2 * (3 - 2 * t) * up_to[:, 1:]
            - t**2 * (1 - t) * node_weight[:, 1:]
        )
        middle = log_g[:, :-1] + (t - 0.5 / PARTS) * np.diff(log_g, axis=1)
        cell = np.clip(np.searchsorted(EDGES, middle.ravel()) - 1, 0, len(mass) - 1)
        mass += np.bincount(cell, (weight[:, None] * (here - before)).ravel(), len(mass))
        before = here
    return np.maximum(mass, 0.0)
