"""Log marginal likelihood and log prior of the models that a posterior keeps."""

import numpy as np

from whichvars._kernels.likelihood import SAMPLING_ERROR
from whichvars.posterior.models import KeptModels
from whichvars.problem.evaluating import log_marginals_of, log_priors_of
from whichvars.problem.families import Gaussian
from whichvars.problem.fitting import answers
from whichvars.problem.problem import Problem

# the lightest models, whose squared weights sum to this share of those of all, add nothing to the noise of importance sampling; and
# the most models that are looked at
LIGHT, MOST_SAMPLED = 0.01, 1000
# noise of inclusion probabilities that is mentioned
NOTICEABLE = 5e-4


def log_priors(problem: Problem, kept: KeptModels) -> np.ndarray:
    """log p(γ) of each model, including the constant, (models,); −∞ if the model is too large or lacks a parent."""
    return log_priors_of(problem, kept.members, kept.start)


def noise_of_sampling(kept: KeptModels, errors: np.ndarray, p: int) -> np.ndarray:
    r"""Standard errors of inclusion probabilities, (p,), that come from those of the models' marginal likelihoods by importance sampling.

    With the relative errors c_γ of independent estimates, `errors`, and weights π(γ), the variance of the normalised average is to
    first order Σ_γ π(γ)² c_γ² (γ_j − π_j)².
    """
    sizes = np.diff(kept.start)
    pip = np.bincount(kept.members, np.repeat(kept.weight, sizes), p)
    variance = kept.weight**2 * np.where(kept.weight > 0, errors, 0.0) ** 2
    inside = np.bincount(kept.members, np.repeat(variance, sizes), p)
    return np.sqrt(np.maximum(inside * (1 - 2 * pip) + pip**2 * variance.sum(), 0.0))


def sampling_noise(problem: Problem, kept: KeptModels) -> np.ndarray:
    """``noise_of_sampling`` of the models that matter, whose errors are computed again; 0 if no model is sampled."""
    if isinstance(problem.family, Gaussian) or problem.evidence in ("laplace", "bas"):
        return np.zeros(problem.p)
    order = np.argsort(-kept.weight, kind="stable")
    squares = np.cumsum(kept.weight[order] ** 2)
    heavy = order[: 1 + int(np.searchsorted(squares, (1 - LIGHT) * squares[-1]))][:MOST_SAMPLED]
    some = kept.some(heavy)
    errors = np.zeros(len(kept))
    errors[heavy] = answers(problem, some.members, some.start)[0][:, SAMPLING_ERROR]
    return noise_of_sampling(kept, errors, problem.p)


def noise_in_words(noise: np.ndarray) -> tuple[str, ...]:
    """A note on the noise of importance sampling, if there is any to speak of."""
    if not noise.max(initial=0.0) > NOTICEABLE:
        return ()
    return (
        "marginal likelihoods of some models were computed by importance sampling, whose noise is part of the errors: it adds "
        f"{noise.max():.1g} to that of an inclusion probability, at most",
    )


def log_marginals(problem: Problem, kept: KeptModels) -> np.ndarray:
    """log p(y | γ) − log p(y | null model) of each model, (models,); −∞ if the slab needs full rank and the model does
    not have it."""
    return log_marginals_of(problem, kept.members, kept.start)
