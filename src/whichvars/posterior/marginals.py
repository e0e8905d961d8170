"""Log marginal likelihood and log prior of the models that a posterior keeps."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

import numpy as np

from whichvars._kernels.likelihood import LOG_MARGINAL, SAMPLING_ERROR
from whichvars.posterior.models import KeptModels
from whichvars.problem.dilution import Dilution
from whichvars.problem.evaluating import log_marginals_of, log_priors_of
from whichvars.problem.families import Gaussian
from whichvars.problem.fitting import answers
from whichvars.problem.priors import Slab
from whichvars.problem.problem import Problem

# the lightest models, whose squared weights sum to this share of those of all, are not asked for the noise of importance sampling;
# and the most models that are
LIGHT, MOST_SAMPLED = 0.01, 1000

# log marginal likelihoods by slab and list of models, within a block of `each_slab_once`
_remembered: ContextVar[dict[tuple[Slab, bytes, bytes], np.ndarray] | None] = ContextVar(
    "_remembered", default=None
)


@contextmanager
def each_slab_once() -> Iterator[None]:
    """Within this block, which is about one set of data, the marginal likelihoods of a list of models are computed once for each slab,
    whatever the priors on models are."""
    token = _remembered.set({})
    try:
        yield
    finally:
        _remembered.reset(token)


def log_priors(problem: Problem, kept: KeptModels) -> np.ndarray:
    """log p(γ) of each model, including the constant, (models,); −∞ if the model is too large or lacks a parent."""
    return log_priors_of(problem, kept.members, kept.start)


def with_noise(problem: Problem, kept: KeptModels) -> KeptModels:
    """The models with the noise of their marginal likelihoods. Those that matter are computed again; the others, which hardly count in
    any average, are given the root mean square of these."""
    if isinstance(problem.family, Gaussian) or problem.evidence in ("laplace", "bas"):
        return replace(kept, noise=None)
    order = np.argsort(-kept.weight, kind="stable")
    squares = np.cumsum(kept.weight[order] ** 2)
    heavy = order[: 1 + int(np.searchsorted(squares, (1 - LIGHT) * squares[-1]))][:MOST_SAMPLED]
    some = kept.some(heavy)
    known = answers(problem, some.members, some.start)[0][:, SAMPLING_ERROR]
    noise = np.full(len(kept), np.sqrt(np.mean(known**2)))
    noise[heavy] = known
    return replace(kept, noise=noise if noise.any() else None)


def noise_of_evidence(problem: Problem, kept: KeptModels) -> float:
    r"""Standard error of log Σ_γ m(γ) p(γ) − log m(null) that comes from importance sampling, and from the normalising constant of a prior if that is
    simulated.

    With weights π(γ) and the noise c_γ of each model it is to first order the root of Σ_γ (π(γ) − [γ is the null model])² c_γ².
    """
    prior = problem.model_prior
    of_constant = prior.known().error if isinstance(prior, Dilution) else 0.0
    if kept.noise is None:
        return of_constant
    own = answers(problem, np.zeros(0, np.int32), np.zeros(2, np.int64))[0][0, SAMPLING_ERROR]
    null = np.diff(kept.start) == 0
    share = float(kept.weight[null].sum())
    sampled = ((kept.weight * kept.noise)[~null] ** 2).sum() + ((1 - share) * own) ** 2
    return float(np.sqrt(sampled + of_constant**2))


def carried_error(
    error: float | None,
    of_ratio: float,
    before: tuple[Problem, KeptModels],
    after: tuple[Problem, KeptModels],
) -> float:
    """Standard error of a log evidence that was carried over to other priors: `error` with the noise of the old marginal likelihoods
    replaced by that of the new ones, and the error of the ratio of the two."""
    drawn = np.nan if error is None else max(error**2 - noise_of_evidence(*before) ** 2, 0.0)
    return float(np.sqrt(drawn + of_ratio**2 + noise_of_evidence(*after) ** 2))


def log_marginals(problem: Problem, kept: KeptModels) -> np.ndarray:
    """log p(y | γ) − log p(y | null model) of each model, (models,); −∞ if the slab needs full rank and the model does
    not have it."""
    return marginals_with_noise(problem, kept)[0]


def marginals_with_noise(problem: Problem, kept: KeptModels) -> tuple[np.ndarray, np.ndarray | None]:
    """``log_marginals`` and their standard errors by importance sampling, (models,) each; None if none was sampled."""
    if isinstance(problem.family, Gaussian):
        return _gaussian_marginals(problem, kept), None
    values = answers(problem, kept.members, kept.start)[0]
    noise = values[:, SAMPLING_ERROR]
    return values[:, LOG_MARGINAL], noise if noise.any() else None


def _gaussian_marginals(problem: Problem, kept: KeptModels) -> np.ndarray:
    known = _remembered.get()
    if known is None:
        return log_marginals_of(problem, kept.members, kept.start)
    key = problem.slab, kept.members.tobytes(), kept.start.tobytes()
    if key not in known:
        known[key] = log_marginals_of(problem, kept.members, kept.start)
        known[key].setflags(write=False)
    return known[key]
