r"""``global_empirical_bayes``: the one g of the g-prior under which the data are most probable, averaged over models (George and Foster 2000).

With p(y | γ, g) the marginal likelihood of a model, ĝ maximises

.. math:: p(y \mid g) = \sum_\gamma p(y \mid \gamma, g)\, p(\gamma) .

From the posterior at one value :math:`g_0`, with weights w of the models, this is known for others nearby, up to a constant:
:math:`p(y \mid g)/p(y \mid g_0) = \sum_\gamma w_\gamma\, p(y \mid \gamma, g)/p(y \mid \gamma, g_0)`. So g goes to where this is largest, no further than REACH in log g, and there is a new posterior there,
until it stays. If all models can be enumerated, this begins at the best value of a grid, as there may be several maxima.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from whichvars.errors import ConvergenceWarning, DataError
from whichvars.posterior.marginals import log_marginals
from whichvars.posterior.posterior import Posterior
from whichvars.problem.families import Gaussian
from whichvars.problem.priors import EstimatedG, GPrior
from whichvars.problem.problem import Problem
from whichvars.sampling.choosing import choose
from whichvars.sampling.exact import check_problem, exact
from whichvars.sampling.sample import sample

# how far log g may go from one posterior to the next, and the change at which it stays, of enumerations and of runs
REACH, STAYS, STAYS_IN_RUNS = 1.5, 1e-5, 0.02
# the grid of log g for enumerations: its least value, its largest in excess of log n, and its step
LEAST, MOST_ABOVE, STEP = np.log(0.05), np.log(1e4), 1.0
MOST_ROUNDS = 30
# of log g where the data are most probable
ACCURACY = 1e-7
# standard error of log ĝ that is mentioned
NOTICEABLE = 0.2


def global_empirical_bayes(problem: Problem, **sampling: Any) -> EstimatedG:
    r"""The g-prior with the g that maximises the marginal likelihood of the data, averaged over models: global empirical Bayes (George and Foster
    2000).

    The result is an ordinary ``GPrior`` that knows where its g comes from: make a problem with it by ``problem.with_priors``. That g was estimated from the same
    data is not allowed for, which matters little unless there are few of them; mixtures such as ``HyperGN`` average over g instead, and
    ``LocalEmpiricalBayes`` has a g of its own for each model.

    Parameters
    ----------
    problem : Problem
        With a Gaussian response. Its prior on models is used, its slab is not.
    **sampling
        Arguments of ``sample`` for the runs, if there are too many models to enumerate: `draws`, `replicates` and `seed`, for instance.

    Returns
    -------
    EstimatedG
        With ``g``. If it comes from runs, it is the maximum near g = n, and has a Monte Carlo error of a few per cent.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> problem = wv.Problem(data.X, data.y, model_prior=wv.FixedInclusion(h=0.5))
    >>> slab = wv.global_empirical_bayes(problem)
    >>> round(slab.g, 1)
    19.6
    >>> posterior = wv.exact(problem.with_priors(slab=slab))
    """
    check_problem(problem, "global_empirical_bayes")
    if not isinstance(problem.family, Gaussian):
        raise DataError(
            f"global_empirical_bayes() is for Gaussian responses, not for family={problem.family}"
        )
    first = problem.with_priors(slab=GPrior("n"))
    if not sampling and choose(first, None, None).sampler is None:
        return EstimatedG(_enumerated(problem))
    return EstimatedG(_sampled(problem, {"progress": False} | sampling))


def _enumerated(problem: Problem) -> float:
    grid = np.arange(LEAST, np.log(problem.n) + MOST_ABOVE, STEP)
    evidence = [_exact_at(problem, log_g).log_evidence for log_g in grid]
    best = int(np.argmax(np.array(evidence, float)))
    if best == 0:
        raise DataError(
            "global_empirical_bayes: the smaller g, the more probable are the data: nothing is known of g, as they do not speak against the null "
            'model. Use GPrior("n") or a mixture such as HyperGN()'
        )
    return _climb(float(grid[best]), lambda log_g: _exact_at(problem, log_g), STAYS)[0]


def _exact_at(problem: Problem, log_g: float) -> Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return exact(problem.with_priors(slab=GPrior(float(np.exp(log_g)))), progress=False)


def _sampled(problem: Problem, sampling: dict[str, Any]) -> float:
    def run_at(log_g: float) -> Posterior:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return sample(problem.with_priors(slab=GPrior(float(np.exp(log_g)))), **sampling)

    g, last = _climb(float(np.log(problem.n)), run_at, STAYS_IN_RUNS)
    error = _error_of_log_g(last)
    if error > NOTICEABLE or not last.converged:
        warnings.warn(
            f"g = {g:.3g} may be off by {error:.0%} or more, as the runs are too short. Use more draws",
            ConvergenceWarning,
            stacklevel=3,
        )
    return g


def _climb(log_g: float, posterior_at: Callable[[float], Posterior], stays: float) -> tuple[float, Posterior]:
    """g at the maximum that is reached from here, and the posterior with the g before it."""
    for _ in range(MOST_ROUNDS):
        posterior = posterior_at(log_g)
        new = _maximum(posterior, log_g, posterior.kept.weight)
        if abs(new - log_g) < stays:
            return float(np.exp(new)), posterior
        log_g = new
        if log_g < LEAST:
            raise DataError(
                'global_empirical_bayes: g goes to 0, as the data do not speak against the null model. Use GPrior("n") or a mixture such as HyperGN()'
            )
    return float(np.exp(log_g)), posterior


def _maximum(posterior: Posterior, log_g: float, weight: np.ndarray) -> float:
    """The log g at which the data are most probable as far as these weights of the models tell, no further than REACH from here."""
    before = log_marginals(posterior.problem, posterior.kept)
    with np.errstate(divide="ignore"):
        log_weight = np.log(np.maximum(weight, 0.0))

    def log_ratio(value: float) -> float:
        problem = posterior.problem.with_priors(slab=GPrior(float(np.exp(value))))
        return float(logsumexp(log_weight + log_marginals(problem, posterior.kept) - before))

    places = np.linspace(log_g - REACH, log_g + REACH, 7)
    best = int(np.argmax([log_ratio(value) for value in places]))
    nearby = places[max(best - 1, 0)], places[min(best + 1, 6)]
    found = minimize_scalar(
        lambda value: -log_ratio(value), bounds=nearby, method="bounded", options={"xatol": ACCURACY}
    )
    return float(found.x)


def _error_of_log_g(posterior: Posterior) -> float:
    """Standard error of log ĝ, from the weights of each replicate; NaN if there is one alone."""
    by_replicate = posterior.kept.by_replicate
    if by_replicate is None or len(by_replicate) < 2:
        return float("nan")
    slab = posterior.problem.slab
    assert isinstance(slab, GPrior)
    log_g = float(np.log(slab.value(posterior.problem.n, posterior.problem.p)))
    found = [_maximum(posterior, log_g, weight) for weight in by_replicate]
    return float(np.std(found, ddof=1) / np.sqrt(len(found)))
