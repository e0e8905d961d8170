"""How inclusion probabilities depend on the priors: kept models under a grid of others (``reweighting``)."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from whichvars.errors import DataError
from whichvars.posterior.marginals import log_priors, marginals_with_noise
from whichvars.posterior.models import KeptModels
from whichvars.posterior.reweighting import Draws, change_weights, inclusion, log_posteriors
from whichvars.problem.dilution import Dilution
from whichvars.problem.graph_prior import MarkovRandomField
from whichvars.problem.heredity import ConditionalPrior
from whichvars.problem.model_priors import Complexity, FixedInclusion, PoissonSize, SizeDistribution
from whichvars.problem.priors import GPrior, HyperG, HyperGN, IndependentNormal
from whichvars.problem.problem import Problem

# default multiples of the slab's g, of the a of hyper-g priors (which must be above 2), and of the prior's expected size
FACTORS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
A_FACTORS = (0.75, 1.0, 4 / 3)
SIZE_FACTORS = (1 / 4, 1 / 2, 1.0, 2.0, 4.0)


def _slabs(problem: Problem, values: Any) -> tuple[str, list[tuple[float, Any]]]:
    """The name of the slab's parameter, and its values with the slabs they make."""
    slab = problem.slab
    if isinstance(slab, (HyperG, HyperGN)):
        grid = [a for a in _grid(values, A_FACTORS, slab.a) if values is not None or a > 2]
        return "a", [(a, type(slab)(a)) for a in grid]
    if isinstance(slab, IndependentNormal) and isinstance(slab.g, tuple):
        own = slab.g
        factors = _grid(values, FACTORS, 1.0)
        return "factor_of_g", [(f, IndependentNormal(tuple(f * g for g in own))) for f in factors]
    if isinstance(slab, IndependentNormal) and isinstance(slab.g, float):
        return "g", [(g, IndependentNormal(g)) for g in _grid(values, FACTORS, slab.g)]
    if isinstance(slab, GPrior):
        return "g", [(g, GPrior(g)) for g in _grid(values, FACTORS, slab.value(problem.n, problem.p))]
    if values is not None:
        raise DataError(f"g: {slab} has no parameter; reweight(slab=…) compares it with another slab")
    return "g", [(np.nan, slab)]


def _model_priors(problem: Problem, values: Any) -> list[tuple[float, Any]]:
    """Expected sizes with the model priors they make; None is the problem's own."""
    prior, p = problem.model_prior, problem.p
    own = float(prior.inclusion(p).sum())
    if isinstance(prior, ConditionalPrior):
        prior = prior.prior  # `with_priors` puts it under the same heredity again, at the size asked for
    if isinstance(prior, FixedInclusion) and isinstance(prior.h, tuple):
        if values is not None:
            raise DataError("prior_size: the prior has one inclusion probability per variable, not one size")
        return [(own, None)]
    if isinstance(prior, (Complexity, SizeDistribution, MarkovRandomField, Dilution)):
        if values is not None:
            raise DataError(f"prior_size: {prior} is not given by a size")
        return [(own, None)]
    kind: Any = type(prior)
    if isinstance(prior, PoissonSize):
        own = prior.size
    sizes = [s for s in _grid(values, SIZE_FACTORS, own) if values is not None or s < 0.9 * p]
    return [(s, None if s == own else kind(size=s)) for s in sizes]


def _grid(values: Any, factors: tuple[float, ...], own: float) -> list[float]:
    return [own * f for f in factors] if values is None else [float(v) for v in np.atleast_1d(values)]


def sensitivity_table(
    problem: Problem, draws: Draws, g: Any, prior_size: Any, variables: list[int]
) -> pd.DataFrame:
    """What ``Posterior.sensitivity`` returns."""
    models = draws.models
    before = log_posteriors(problem, models)
    label, slabs = _slabs(problem, g)
    priors = [
        (size, log_priors(problem.with_priors(model_prior=prior), models))
        for size, prior in _model_priors(problem, prior_size)
    ]
    rows = []
    for value, slab in slabs:
        marginals, noise = marginals_with_noise(problem.with_priors(slab=slab), models)
        noisy = draws._replace(models=replace(models, noise=noise), record=None)
        for size, log_prior in priors:
            after = marginals + log_prior
            new = change_weights(noisy, partial(_difference, after, before))
            pip, mcse, _ = inclusion(new, problem.p, np.isinf(draws.number))
            row = {label: value, "prior_size": size, "ess": new.ess, "enough": new.enough}
            row["mcse"] = float(np.nanmax(mcse[variables], initial=0.0))
            row["mean_size"] = float(pip.sum())
            rows.append(row | {problem.names[j]: float(pip[j]) for j in variables})
    return pd.DataFrame(rows).set_index([label, "prior_size"])


def _difference(after: np.ndarray, before: np.ndarray, models: KeptModels) -> np.ndarray:
    """The log ratio for ``change_weights`` if both log posteriors are known already."""
    return after - before
