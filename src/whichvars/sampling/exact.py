"""Exact results for small p, by enumeration of all models."""

import warnings
from dataclasses import replace
from math import comb

import numpy as np
from scipy.special import logsumexp

from whichvars._kernels.enumerate import enumerate_models, trie_marginals
from whichvars._kernels.evidence import INDEPENDENT
from whichvars._kernels.likelihood import LOG_MARGINAL, SAMPLING_ERROR
from whichvars._kernels.linalg import factor_arrays
from whichvars._kernels.products.gram_cache import new_gram_cache
from whichvars.errors import ArgumentTypeError, DataWarning, TooLargeError
from whichvars.posterior.consistency import sizes_of
from whichvars.posterior.diagnostics import lost_arithmetic
from whichvars.posterior.family_words import overdispersion
from whichvars.posterior.marginals import log_priors, noise_of_evidence
from whichvars.posterior.models import KeptModels
from whichvars.posterior.posterior import Models, Posterior
from whichvars.problem.evaluating import log_marginals_of
from whichvars.problem.families import Gaussian
from whichvars.problem.fitting import answers
from whichvars.problem.heredity import ConditionalPrior
from whichvars.problem.prior_width import narrow_prior
from whichvars.problem.problem import Problem
from whichvars.sampling.advance import cpu_clock
from whichvars.sampling.announcing import Announcer

MAX_MODELS = 1 << 25
# the same if every model needs a fit of its own; and how many are fitted between two looks for Ctrl-C
MAX_FITS, FITS_AT_ONCE = 1 << 20, 1024
# most models that are kept for averages
KEPT = 1 << 20
# by how much the sum of the weights may differ from one before they are normalised again
ROUNDED = 1e-13


def count_models(p: int, max_size: int) -> int:
    """The number of models with at most max_size of p variables; counting stops above 2⁶².

    >>> count_models(10, 10), count_models(100, 2)
    (1024, 5051)
    """
    total = 0
    for k in range(max_size + 1):
        total += comb(p, k)
        if total > 1 << 62:
            break
    return total


def number_of_models(problem: Problem) -> int:
    """The number of models that a problem allows, or an upper bound if counting them would take long."""
    prior = problem.model_prior
    if isinstance(prior, ConditionalPrior) and problem.p <= 40:
        return prior.count_models(problem.max_size)
    return count_models(problem.p, problem.max_size)


def exact(
    problem: Problem, *, keep: int = 10_000, max_models: int | None = None, progress: bool = True
) -> Posterior:
    r"""Enumerate all models: exact inclusion probabilities, model probabilities and evidence.

    Every one of the :math:`\sum_{k \le \mathrm{max\_size}} \binom pk` models is visited once, depth first, at
    the cost of one new row of a Cholesky factor each: 2²⁰ models take a second or two.

    Parameters
    ----------
    problem : Problem
    keep : int
        Number of best models that the result keeps.
    max_models : int
        Refuse to visit more models than this. The default is 2²⁵ models, which take about a minute and 1 GB, and 2²⁰ if the family
        is not Gaussian, g is unknown, the slab is not normal or the prior is a ``Dilution``: every model is then evaluated on its own, which takes from 20 microseconds (100 rows) to a millisecond
        (several thousand rows).
    progress : bool
        Display a line in a terminal or notebook while the enumeration is being compiled, once per version.

    Returns
    -------
    Posterior
        With Monte Carlo errors of zero (those of importance sampling, where the family is not Gaussian and it was used) and a ``log_evidence``: log Σ_γ p(y | γ) p(γ) relative to p(y | null
        model). If the slab needs full rank, models without it get likelihood zero; the prior is not renormalised
        over the other models.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47), model_prior=wv.FixedInclusion(h=0.5))
    >>> wv.exact(problem).inclusion_probabilities.round(4).head(3)
    M     0.8504
    So    0.2307
    Ed    0.9776
    Name: inclusion_probability, dtype: float64
    """
    check_problem(problem, "exact")
    total = number_of_models(problem)
    gaussian = isinstance(problem.family, Gaussian)
    if max_models is None:
        max_models = MAX_FITS if problem.one_by_one else MAX_MODELS
    if total > max_models:
        each = "" if gaussian else ", each of which needs a fit"
        raise TooLargeError(
            f"{problem.p} variables give {'over ' if total > 1 << 62 else ''}{float(total):.2g} models{each}, more than max_models = {max_models:,}; use sample(problem) instead, "
            "or set max_size"
        )
    if problem.one_by_one:
        with Announcer(progress, "exact"):
            posterior = _fit_all(problem, keep)
        for message in (*lost_arithmetic(posterior), *overdispersion(posterior), *narrow_prior(problem)):
            warnings.warn(message, DataWarning, stacklevel=2)
        return posterior
    started = cpu_clock()
    depth = int(min(problem.max_columns, np.sort(np.diff(problem.offsets))[::-1][: problem.max_size].sum()))
    target = problem.target(depth)
    factor, inverse, solved, work = factor_arrays(max(depth, 1) + 1)
    parent, last = np.empty(total, np.int32), np.empty(total, np.int32)
    marginal, prior = np.empty(total), np.empty(total)
    troubles = np.zeros(2, np.int64)
    cache = new_gram_cache(target.design, 0)
    path, sums = np.zeros((5, problem.p + 1), np.int64), np.zeros((4, problem.p + 1))
    column = np.zeros(depth + 1, np.int64)
    with Announcer(progress, "exact"):
        n = enumerate_models(
            target,
            cache,
            depth,
            factor,
            inverse,
            solved,
            work,
            path,
            sums,
            column,
            parent,
            last,
            marginal,
            prior,
            troubles,
        )
    parent, last, marginal, prior = parent[:n], last[:n], marginal[:n], prior[:n]
    log_posterior = marginal + prior
    log_total = logsumexp(log_posterior)
    weight = np.exp(log_posterior - log_total)
    total_weight = weight.sum()
    if abs(total_weight - 1) > ROUNDED:  # a `log_total` of millions is itself accurate to nine decimals only
        weight /= total_weight
    order = np.argsort(-weight, kind="stable")
    # models whose weight underflows to zero are sorted by their log posterior
    mass = np.count_nonzero(weight)
    order[mass:] = order[mass:][np.argsort(-log_posterior[order[mass:]], kind="stable")]
    best = order[:keep]
    models = Models(
        members=[_climb(parent, last, i) for i in best],
        log_marginal=marginal[best],
        log_prior=prior[best],
        frequency=weight[best],
        exact=True,
    )
    kept = _keep(parent, last, weight, order)  # before `weight` is overwritten below
    pip, sizes = np.zeros(problem.p), np.zeros(problem.p + 1)
    trie_marginals(parent, last, weight, np.zeros(n, np.int32), pip, sizes)
    posterior = Posterior(
        problem=problem,
        sampler="exact enumeration",
        pip=pip,
        mcse=np.zeros(problem.p),
        sizes=sizes,
        models=models,
        kept=kept,
        log_evidence=float(log_total + problem.model_prior.log_constant(problem.p, problem.max_size)),
        log_evidence_mcse=0.0,
        iterations=n,
        cpu_seconds=cpu_clock() - started,
        troubles={"breakdowns": int(troubles[0]), "perfect_fits": int(troubles[1])},
    )
    for message in (*lost_arithmetic(posterior), *narrow_prior(problem)):
        warnings.warn(message, DataWarning, stacklevel=2)
    return posterior


def _all_models(problem: Problem) -> KeptModels:
    """All models that the prior allows, with equal weights."""
    prior, p = problem.model_prior, problem.p
    parents = prior.parents if isinstance(prior, ConditionalPrior) else ((),) * p
    order = prior.order.tolist() if isinstance(prior, ConditionalPrior) else list(range(p))
    models: list[tuple[int, ...]] = [()]
    for j in order:
        models += [(*m, j) for m in models if len(m) < problem.max_size and all(i in m for i in parents[j])]
    return KeptModels.listed([tuple(sorted(m)) for m in models])


def _fit_all(problem: Problem, keep: int) -> Posterior:
    """What ``exact`` returns if the family is not Gaussian, g of the independent slab is unknown, or the problem is `corrected`: every model is evaluated on its own."""
    started, gaussian = cpu_clock(), isinstance(problem.family, Gaussian)
    everything = _all_models(problem)
    constant = problem.model_prior.log_constant(problem.p, problem.max_size)
    prior = log_priors(problem, everything) - constant
    marginal, errors, troubles = np.empty(len(prior)), np.zeros(len(prior)), {"breakdowns": 0, "diverging": 0}
    for first in range(0, len(prior), FITS_AT_ONCE):
        start = everything.start[first : first + FITS_AT_ONCE + 1]
        here, variables = slice(first, first + FITS_AT_ONCE), everything.members[start[0] : start[-1]]
        if gaussian:
            marginal[here] = log_marginals_of(problem, variables, start - start[0])
            if problem.slab.code == INDEPENDENT:  # the others need full rank
                troubles["breakdowns"] += int((np.isinf(marginal[here]) & np.isfinite(prior[here])).sum())
            continue
        some, trouble = answers(problem, variables, start - start[0])
        marginal[here], errors[here] = some[:, LOG_MARGINAL], some[:, SAMPLING_ERROR]
        troubles = {name: count + trouble[name] for name, count in troubles.items()}
    log_posterior = marginal + prior
    log_total = logsumexp(log_posterior)
    weight = np.exp(log_posterior - log_total)
    weight /= weight.sum()
    order = np.lexsort((np.arange(len(weight)), -log_posterior))
    order = order[np.isfinite(log_posterior[order])]
    best = order[:keep]
    heavy = order[: np.count_nonzero(weight[order])]
    heavy = heavy[: 1 + int(np.searchsorted(np.cumsum(weight[heavy]), 1 - 1e-12))]
    kept = replace(
        KeptModels.listed([everything.model(i) for i in heavy]),
        weight=weight[heavy] / weight[heavy].sum(),
        noise=errors[heavy] if errors[heavy].any() else None,
    )
    members = [everything.model(i) for i in best]
    sampled = kept.noise is not None
    models = Models(
        members=members,
        log_marginal=marginal[best],
        log_prior=prior[best],
        frequency=weight[best],
        exact=True,
        mcse=kept.noise_of_models(members) if sampled else None,
    )
    sizes = np.diff(everything.start)
    return Posterior(
        problem=problem,
        sampler="exact enumeration",
        pip=np.minimum(np.bincount(everything.members, np.repeat(weight, sizes), problem.p), 1.0),
        mcse=kept.noise_of_pips(problem.p),
        sizes=np.bincount(sizes, weight, problem.p + 1),
        sizes_mcse=sizes_of(kept, problem.p, exact=True)[1] if sampled else None,
        models=models,
        kept=kept,
        log_evidence=float(log_total + constant),
        log_evidence_mcse=noise_of_evidence(problem, kept),
        iterations=len(order),
        cpu_seconds=cpu_clock() - started,
        troubles=troubles,
    )


def _keep(parent: np.ndarray, last: np.ndarray, weight: np.ndarray, order: np.ndarray) -> KeptModels:
    """The best models, in descending order, that together have 1 − 1e-12 of the mass; at most KEPT, all of positive weight."""
    order = order[: np.count_nonzero(weight)]
    order = order[: 1 + int(np.searchsorted(np.cumsum(weight[order]), 1 - 1e-12))][:KEPT]
    node, members = order.astype(np.int64), []
    while (node > 0).any():
        members.append(np.where(node > 0, last[node], -1).astype(np.int32))
        node = np.where(node > 0, parent[node], 0)
    table = np.array(members[::-1], np.int32).reshape(len(members), len(order)).T
    table = np.sort(table, axis=1)  # ascending, −1 first
    inside = table >= 0
    start = np.concatenate([[0], np.cumsum(inside.sum(axis=1))]).astype(np.int64)
    return KeptModels(table[inside], start, weight[order] / weight[order].sum())


def _climb(parent: np.ndarray, last: np.ndarray, node: int) -> tuple[int, ...]:
    """The members of the model at a node of the tree of models."""
    members = []
    while node > 0:
        members.append(int(last[node]))
        node = int(parent[node])
    return tuple(sorted(members))  # under heredity they are not added in ascending order


def check_problem(problem: object, caller: str) -> None:
    """TypeError with advice, if something other than a Problem was given."""
    if not isinstance(problem, Problem):
        raise ArgumentTypeError(
            f"{caller}() needs a Problem first, not {type(problem).__name__}; write {caller}(Problem(X, y))"
        )
