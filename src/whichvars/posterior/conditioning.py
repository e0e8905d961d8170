"""Posteriors given that some variables are in and others are out: the kept models that satisfy the condition, weighed anew."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from whichvars.posterior.conditions import Condition, log_prior_probability
from whichvars.posterior.consistency import sizes_of
from whichvars.posterior.models import KeptModels
from whichvars.posterior.reweighting import NOT_KNOWN, change_weights, condition, find_disjoint, inclusion

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Models, Posterior


def conditional(posterior: "Posterior", include: Any, exclude: Any) -> "Posterior":
    """What ``Posterior.given`` returns."""
    problem, before = posterior.problem, posterior.condition
    inside, outside = find_disjoint(include, exclude, problem.names)
    draws = posterior._draws()
    rule = partial(condition, include=inside, exclude=outside)
    new = change_weights(draws, rule)
    exact = np.isinf(draws.number)
    pip, mcse, means = inclusion(new, problem.p, exact)
    mcse[inside + outside] = 0.0
    log_probability, error = new.log_mean_ratio, new.log_mean_ratio_error
    assumed = _both(before, problem.names, inside, outside)
    known = np.flatnonzero([name in {*assumed.include, *assumed.exclude} for name in problem.names])
    mcse[known] = 0.0
    evidence, evidence_error = posterior.log_evidence, posterior.log_evidence_mcse
    prior = log_prior_probability(problem, assumed)
    if evidence is not None and np.isfinite(prior):
        evidence += log_probability + log_prior_probability(problem, before) - prior
        evidence_error = float(np.hypot(np.nan if evidence_error is None else evidence_error, error))
    else:
        evidence = evidence_error = None
    share = float(np.exp(log_probability))
    earlier, earlier_error = (1.0, 0.0) if before is None else (before.probability, before.mcse)
    assumed = replace(
        assumed,
        probability=share * earlier,
        mcse=float(np.hypot(share * error * earlier, share * earlier_error)),
        pip_before=posterior.pip if before is None else before.pip_before,
        enough=new.enough,
    )
    trace, rows = posterior.trace, posterior.trace_models
    if trace is not None and rows is not None:
        good = np.isfinite(rule(KeptModels.of_rows(rows)))
        trace, rows = trace.loc[good].reset_index(drop=True), rows[np.flatnonzero(good)]
    sizes, sizes_mcse = sizes_of(new.models, problem.p, exact)
    return replace(
        posterior,
        pip=pip,
        mcse=mcse,
        sizes=sizes,
        sizes_mcse=None if exact and new.models.noise is None else sizes_mcse,
        models=_models_satisfying(posterior.models, rule, share),
        kept=new.models,
        log_evidence=evidence,
        log_evidence_mcse=evidence_error,
        replicate_pips=None if exact else means,
        trace=trace,
        trace_models=rows,
        reweighting_ess=new.ess,
        condition=assumed,
        **NOT_KNOWN,
    )


def _both(before: Condition | None, names: list[str], inside: list[int], outside: list[int]) -> Condition:
    """A condition and an earlier one together; its probability is left open."""
    include, exclude = ([names[j] for j in variables] for variables in (inside, outside))
    one_model = False
    if before is not None:
        include = [*dict.fromkeys([*before.include, *include])]
        exclude = [*dict.fromkeys([*before.exclude, *exclude])]
        one_model = before.one_model
    return Condition(tuple(include), tuple(exclude), one_model, np.nan, np.nan, np.zeros(0))


def _models_satisfying(
    models: "Models", rule: Callable[[KeptModels], np.ndarray], probability: float
) -> "Models":
    """The best models that satisfy a condition of this probability."""
    good = np.flatnonzero(np.isfinite(rule(KeptModels.listed(models.members))))
    frequency = np.minimum(models.frequency[good] / probability, 1.0)
    return replace(
        models,
        members=[models.members[i] for i in good],
        log_marginal=models.log_marginal[good],
        log_prior=models.log_prior[good],
        frequency=frequency,
        mcse=None if models.mcse is None else models.mcse[good] / probability,
    )
