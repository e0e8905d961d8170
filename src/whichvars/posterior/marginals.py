"""Log marginal likelihood and log prior of the models that a posterior keeps."""

import numpy as np

from whichvars._kernels.enumerate import evaluate_models
from whichvars._kernels.likelihood import LOG_MARGINAL
from whichvars._kernels.linalg import factor_arrays
from whichvars._kernels.products.gram_cache import new_gram_cache
from whichvars.posterior.models import KeptModels
from whichvars.problem.families import Gaussian
from whichvars.problem.fitting import answers
from whichvars.problem.heredity import ConditionalPrior
from whichvars.problem.problem import Problem

# size of the cache for products of columns
CACHE_BYTES = 64 << 20


def log_priors(problem: Problem, kept: KeptModels) -> np.ndarray:
    """log p(γ) of each model, including the constant, (models,); −∞ if the model is too large or lacks a parent."""
    prior, terms = problem.model_prior, problem.target(0).prior
    sizes = np.diff(kept.start)
    if isinstance(prior, ConditionalPrior):
        value = prior.log_priors(kept.members, kept.start, problem.p)
    else:
        owner = np.repeat(np.arange(len(kept)), sizes)
        value = np.bincount(owner, terms.log_odds[kept.members], len(kept)) + terms.log_size[sizes]
    return np.where(sizes <= terms.max_size, value + prior.log_constant(problem.p, problem.max_size), -np.inf)


def log_marginals(problem: Problem, kept: KeptModels) -> np.ndarray:
    """log p(y | γ) − log p(y | null model) of each model, (models,); −∞ if the slab needs full rank and the model does
    not have it."""
    if not isinstance(problem.family, Gaussian):
        return answers(problem, kept.members, kept.start)[0][:, LOG_MARGINAL]
    most = int(np.diff(kept.start).max(initial=0))
    up_to = np.concatenate([[0], np.cumsum(np.diff(problem.offsets)[kept.members])])[kept.start]
    depth = min(int(np.diff(up_to).max(initial=0)), problem.max_columns)
    target = problem.target(depth)
    out = np.zeros(len(kept))
    evaluate_models(
        target,
        new_gram_cache(target.design, CACHE_BYTES),
        np.require(kept.members, np.int32, ["C", "W"]),
        np.require(kept.start, np.int64, ["C", "W"]),
        *factor_arrays(depth + 1),
        np.zeros(depth + 1, np.int64),
        np.zeros(most + 1, np.int32),
        np.zeros(most + 1, np.int64),
        np.zeros((2, most + 1)),
        out,
    )
    return out
