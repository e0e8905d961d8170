"""Posteriors given a condition: that some variables are in and others are out, or that one model is the right one."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from whichvars.problem.dilution import Dilution
from whichvars.problem.graph_prior import MarkovRandomField
from whichvars.problem.heredity import ConditionalPrior
from whichvars.problem.model_priors import log_sizes_given
from whichvars.problem.problem import Problem

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior


# most names that a sentence lists
MOST_NAMES = 8


@dataclass(frozen=True)
class Condition:
    """What a posterior is conditional on, and how probable that is without the condition."""

    include: tuple[str, ...]  # variables that are in
    exclude: tuple[str, ...]  # and out
    one_model: bool  # whether all other variables are out too
    probability: float  # posterior probability of the condition; NaN if it cannot be told
    mcse: float  # its Monte Carlo error: 0 if exact
    pip_before: np.ndarray  # (p,) inclusion probabilities without the condition
    # whether the models that were kept suffice: False if the condition is so improbable that an exact posterior kept few of them
    enough: bool = True

    def unknown_before(self) -> "Condition":
        """The same condition under other priors, under which nothing is known of the models that do not satisfy it."""
        return replace(
            self, probability=np.nan, mcse=np.nan, pip_before=np.full(len(self.pip_before), np.nan)
        )


def condition_words(condition: Condition) -> str:
    """The condition as the end of a sentence that begins with "given".

    >>> condition_words(Condition(("Ed", "M"), ("Po1",), False, 0.1, 0.0, np.zeros(0)))
    'that Ed and M are in and Po1 is out'
    >>> condition_words(Condition(("Ed",), (), True, 0.1, 0.0, np.zeros(0)))
    'the model with Ed alone'
    """
    if condition.one_model:
        if not condition.include:
            return "the null model"
        return f"the model with {_listed(condition.include)} alone"
    parts = [
        f"{_listed(names)} {'is' if len(names) == 1 else 'are'} {place}"
        for names, place in ((condition.include, "in"), (condition.exclude, "out"))
        if names
    ]
    return "that " + " and ".join(parts)


def _listed(names: tuple[str, ...]) -> str:
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def log_prior_sizes(problem: Problem, condition: Condition) -> np.ndarray | None:
    """log prior probability of the models of each size that satisfy the condition, (p + 1,); None under heredity, for
    graphs and for diluted priors, where it is not known in closed form."""
    prior, names = problem.model_prior, problem.names
    if isinstance(prior, (ConditionalPrior, MarkovRandomField, Dilution)):
        return None
    place = {name: j for j, name in enumerate(names)}
    inside = [place[name] for name in condition.include]
    outside = [place[name] for name in condition.exclude]
    if condition.one_model:
        outside = [j for j in range(problem.p) if j not in set(inside)]
    return log_sizes_given(prior, problem.p, problem.max_size, inside, outside)


def log_prior_probability(problem: Problem, condition: Condition | None) -> float:
    """log prior probability of the condition; 0 without one, NaN under heredity."""
    if condition is None:
        return 0.0
    sizes = log_prior_sizes(problem, condition)
    return float("nan") if sizes is None else float(logsumexp(sizes))


def prior_sizes(posterior: "Posterior") -> np.ndarray:
    """Prior distribution of the model size, given the condition of the posterior if it has one, (p + 1,); NaN if not known."""
    problem, condition = posterior.problem, posterior.condition
    if condition is None:
        return problem.model_prior.size_distribution(problem.p, problem.max_size)
    sizes = log_prior_sizes(problem, condition)
    return np.full(problem.p + 1, np.nan) if sizes is None else np.exp(sizes - logsumexp(sizes))
