r"""The same models under other weights: another prior, or a condition.

A posterior over models is a list of models γ_i with weights w_i (their probabilities, if exact). Weights v_i ∝ w_i r_i
give another posterior, where r_i is the ratio of the new posterior to the old, or 1 for models that satisfy a condition
and 0 for the others:

.. math:: \widehat{P}(\gamma_j = 1) = \frac{\sum_i w_i r_i \gamma_{ij}}{\sum_i w_i r_i}.

**How much is left.** Kish's effective sample size: N (Σ w r)² / (Σ w · Σ w r²), N the number of draws in the thinned
record of the run.

**Monte Carlo errors.** Each replicate has its own weights, whose mean is w. A ratio of sums differs from its limit by
Σ v_i (γ_ij − pip_j) to first order. The variance of this term between replicates gives the error, which includes the
effects of autocorrelation, of unequal weights and of the denominator. The noise of importance sampling, where marginal likelihoods
were computed by it, is added. With few replicates such a variance is itself
inaccurate, and sometimes far too small by chance. It is therefore bounded below by its average with the variance that would
hold if all variables had the same effective sample size. With a single replicate the terms are summed over BATCHES
consecutive parts of its thinned record instead, whose scatter is larger than the error.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from whichvars.data.frames import find_columns
from whichvars.errors import DataError
from whichvars.posterior.conditions import Condition, log_prior_probability
from whichvars.posterior.consistency import sizes_of
from whichvars.posterior.diagnostics import ENOUGH
from whichvars.posterior.marginals import (
    carried_error,
    log_marginals,
    log_priors,
    noise_of_evidence,
    with_noise,
)
from whichvars.posterior.models import KeptModels, standard_error
from whichvars.posterior.replicates import combine_replicates
from whichvars.problem.problem import Problem

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Models, Posterior


# smallest frequency of a model; below, digits are lost
SMALLEST_FREQUENCY = 1e-290
# batches per replicate
BATCHES = 32
# degrees of freedom with which the average over variables is weighted
POOLED = 4.0
# mass of the models that an exact posterior does not keep
DROPPED = 1e-12
# what is known of a run's own weights alone
NOT_KNOWN: dict[str, Any] = {
    "replicate_variances": None,
    "comparison": None,
    "found": (),
    "frequencies": None,
    "frequency_mcse": None,
    "rao_blackwell": None,
    "rao_blackwell_mcse": None,
}


class Draws(NamedTuple):
    """The models of a posterior with their weights."""

    models: KeptModels
    number: float  # N, the number of draws that they represent; infinite if exact
    dropped: float  # if exact, the mass of the models that were not kept
    record: "Record | None" = None  # None if exact


class Record(NamedTuple):
    """Single draws, in the order in which they were made."""

    models: KeptModels  # a model may occur repeatedly
    replicate: np.ndarray  # (N,) int
    batch: np.ndarray  # (N,) int: batches are numbered through all replicates


class Reweighted(NamedTuple):
    """The models under new weights."""

    models: KeptModels  # those with positive weight
    record: Record | None  # with weights v, which sum to one; None if exact
    ess: float  # effective draws; infinite if exact
    enough: bool
    log_mean_ratio: float  # log Σ w r
    log_mean_ratio_error: float


def read_draws(
    kept: KeptModels,
    trace: pd.DataFrame | None,
    rows: sparse.csr_array | None,
    models: int,
    number: float | None,
) -> Draws:
    """The models of a posterior. It is exact if it has no thinned record; `models` is then the number of all models.
    `number` is the effective number of draws left after an earlier reweighting."""
    if trace is None or rows is None:
        return Draws(kept, np.inf, DROPPED if len(kept) < models else 0.0)
    if kept.by_replicate is None:  # from an older version, without weights by replicate
        kept = of_record(trace, rows)
    record = read_record(trace, rows) if len(trace) else None
    return Draws(kept, float(len(trace)) if number is None else number, 0.0, record)


def read_record(trace: pd.DataFrame, rows: sparse.csr_array) -> Record:
    """The draws of a thinned record."""
    replicate = np.unique(trace["replicate"].to_numpy(), return_inverse=True)[1]
    iteration, batch = trace["iteration"].to_numpy(), np.zeros(len(trace), np.int64)
    for r in range(replicate.max() + 1):
        here = replicate == r
        last = iteration[here].max()
        batch[here] = r * BATCHES + np.minimum((iteration[here] - 1) * BATCHES // last, BATCHES - 1)
    models = KeptModels.of_rows(rows)
    if "weight" in trace:
        models = replace(models, weight=trace["weight"].to_numpy())
    return Record(models, replicate, batch)


def of_record(trace: pd.DataFrame, rows: sparse.csr_array) -> KeptModels:
    """The models of a thinned record, each with its share of the record of each replicate."""
    replicate = np.unique(trace["replicate"].to_numpy(), return_inverse=True)[1]
    weight = trace["weight"].to_numpy() if "weight" in trace else np.ones(len(trace))
    weights: dict[tuple[int, ...], np.ndarray] = {}
    for r, w, row in zip(replicate, weight, np.split(rows.indices, rows.indptr[1:-1])):
        weights.setdefault(tuple(row.tolist()), np.zeros(replicate.max() + 1))[r] += w
    return KeptModels.of_replicates(weights)


def change_weights(draws: Draws, log_ratio_of: Callable[[KeptModels], np.ndarray]) -> Reweighted:
    """New weights proportional to w r; the function returns log r of models."""
    log_ratio = log_ratio_of(draws.models)
    models = draws.models
    old = models.weight
    top = log_ratio.max(initial=-np.inf, where=old > 0)  # models without weight keep none
    if not np.isfinite(top):
        raise DataError(
            "none of the kept models has any weight left; run sample() on the new problem instead"
        )
    ratio = np.where(old > 0, np.exp(np.minimum(log_ratio - top, 0.0)), 0.0)
    total = float(old @ ratio)
    new = models.reweighted(ratio)
    if np.isinf(draws.number):
        missed = draws.dropped / total  # as if the models that were dropped had the largest ratio of all
        error = float(models.error(ratio, exact=True)) / total
        return Reweighted(new, None, np.inf, missed < 1e-3, float(top + np.log(total)), error)
    ess = draws.number * total**2 / float(models.weight @ ratio**2)
    error = float(models.error(ratio, exact=False)) / total
    record = draws.record
    if record is not None and new.by_replicate is not None and len(new.by_replicate) < 2:
        weight = record.models.weight * np.exp(np.minimum(log_ratio_of(record.models) - top, 0.0))
        record = record._replace(models=replace(record.models, weight=weight / max(weight.sum(), 1e-300)))
    return Reweighted(new, record, ess, ess >= ENOUGH, float(top + np.log(total)), error)


def inclusion(new: Reweighted, p: int, exact: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inclusion probabilities under new weights, their Monte Carlo errors, and the estimates of each replicate:
    (p,), (p,), (replicates, p); no replicates if exact."""
    models = new.models
    members, sizes = models.members, np.diff(models.start)

    def pips(weight: np.ndarray) -> np.ndarray:
        return np.bincount(members, np.repeat(weight, sizes), p)

    pip = np.minimum(pips(models.weight), 1.0)
    noise = models.noise_of_pips(p)
    if exact:
        return pip, noise, np.zeros((0, p))
    if models.by_replicate is None:
        return pip, np.full(p, np.nan), np.zeros((0, p))
    sums = np.array([pips(w) for w in models.by_replicate])
    means = np.clip(sums, 0.0, 1.0)
    if len(models.by_replicate) < 2:
        mcse = np.full(p, np.nan) if new.record is None else scatter_of_batches(new.record, pip)
    else:
        mcse = moderated(standard_error(sums), pip, len(models.by_replicate) - 1)
    still = np.minimum(pip, 1 - pip) < 1e-12  # never moved, up to rounding
    return pip, np.where(still, np.nan, np.hypot(mcse, noise)), means


def moderated(error: np.ndarray, pip: np.ndarray, degrees: int) -> np.ndarray:
    """Standard errors of inclusion probabilities, (p,), with few degrees of freedom, bounded below by an average with those
    of the other variables."""
    squares, spread = error**2, pip * (1 - pip)
    moved = spread > 1e-12
    if not moved.any():
        return error
    typical = spread * float(np.mean(squares[moved] / spread[moved]))
    return np.sqrt(np.maximum(squares, (POOLED * typical + degrees * squares) / (POOLED + degrees)))


def scatter_of_batches(record: Record, pip: np.ndarray) -> np.ndarray:
    """Monte Carlo errors from the draws of a thinned record, (p,)."""
    models, p = record.models, len(pip)
    R, n, sizes = int(record.replicate.max()) + 1, len(record.models), np.diff(record.models.start)
    rows = sparse.csr_array((np.repeat(models.weight, sizes), models.members, models.start), shape=(n, p))
    gather = sparse.csr_array((np.ones(n), (record.batch, np.arange(n))), shape=(R * BATCHES, n))
    mass = (gather @ models.weight).reshape(R, BATCHES, 1)
    sums = np.asarray((gather @ rows).todense()).reshape(R, BATCHES, p) - mass * pip
    return combine_replicates(R * sums.sum(axis=1), R**2 * BATCHES * sums.var(axis=1, ddof=1), BATCHES - 1)[1]


def log_posteriors(problem: Problem, models: KeptModels) -> np.ndarray:
    """log p(y | γ) p(γ) relative to p(y | null model), (models,)."""
    return log_marginals(problem, models) + log_priors(problem, models)


def condition(models: KeptModels, include: list[int], exclude: list[int]) -> np.ndarray:
    """log of 1 for models with all of `include` and none of `exclude`, of 0 for the others, (models,)."""
    good = np.ones(len(models), bool)
    for j in include:
        good &= models.having(j)
    for j in exclude:
        good &= ~models.having(j)
    return np.where(good, 0.0, -np.inf)


def find_disjoint(include: Any, exclude: Any, names: list[str]) -> tuple[list[int], list[int]]:
    """The variables named, which must not be asked to be both in and out."""
    inside = [] if include is None else find_columns(include, names, "include")
    outside = [] if exclude is None else find_columns(exclude, names, "exclude")
    both = sorted(set(inside) & set(outside))
    if both:
        raise DataError(f"{names[both[0]]!r} is in both include and exclude")
    if not inside and not outside:
        raise DataError("name at least one variable in include or exclude")
    return inside, outside


def thin_warning(ess: float) -> str:
    """The warning about a reweighted posterior that should not be trusted."""
    if np.isinf(ess):
        return "the new posterior may lie on models too improbable to have been kept. Run exact() on the new problem"
    return (
        f"only {ess:.0f} effective draws are left, fewer than {ENOUGH:.0f}: the result is rough. "
        "Run sample() on the new problem instead"
    )


def carry_over(posterior: "Posterior", problem: Problem) -> tuple[Any, bool]:
    """A posterior under the priors of another problem with the same data, and whether enough draws are left to trust it."""
    draws, p = posterior._draws(), problem.p
    before = draws.models
    # what is left of the old marginal likelihoods is which models were drawn: their noise is gone, and that of the new ones has come
    new = change_weights(
        draws._replace(models=replace(before, noise=None)), partial(_log_ratio, posterior.problem, problem)
    )
    new = new._replace(models=with_noise(problem, new.models))
    exact = np.isinf(draws.number)
    pip, mcse, means = inclusion(new, p, exact)
    evidence, error = posterior.log_evidence, posterior.log_evidence_mcse
    if evidence is not None:
        evidence += new.log_mean_ratio
        pair = (posterior.problem, before), (problem, new.models)
        error = carried_error(error, new.log_mean_ratio_error, *pair)
        # the evidence given a condition is relative to the condition's prior probability
        old, now = (log_prior_probability(it, posterior.condition) for it in (posterior.problem, problem))
        evidence += old - now
    trace = posterior.trace
    if trace is not None:
        record = KeptModels.of_rows(posterior.trace_models)
        after = log_posteriors(problem, record)
        weight = np.exp(after - log_posteriors(posterior.problem, record) - new.log_mean_ratio)
        weight *= trace["weight"].to_numpy() if "weight" in trace else 1 / len(trace)
        trace = trace.assign(log_posterior=after, weight=weight / max(weight.sum(), 1e-300))
    sizes, sizes_mcse = sizes_of(new.models, p, exact)
    changes = {
        "problem": problem,
        "pip": pip,
        "mcse": mcse,
        "sizes": sizes,
        "sizes_mcse": None if exact and new.models.noise is None else sizes_mcse,
        "models": carry_models(posterior, problem, new),
        "kept": new.models,
        "log_evidence": evidence,
        "log_evidence_mcse": error,
        "replicate_pips": None if exact else means,
        "trace": trace,
        "reweighting_ess": new.ess,
        "condition": None if posterior.condition is None else posterior.condition.unknown_before(),
    }
    return replace(posterior, **changes, **NOT_KNOWN), new.enough


def _log_ratio(before: Problem, after: Problem, models: KeptModels) -> np.ndarray:
    """log of the new posterior over the old, (models,)."""
    return log_posteriors(after, models) - log_posteriors(before, models)


def carry_models(posterior: "Posterior", problem: Problem, new: Reweighted) -> Any:
    """The table of the best models under the priors of another problem, best first."""
    old = posterior.models
    table = old.listed
    before = log_posteriors(posterior.problem, table)
    marginal, prior = log_marginals(problem, table), log_priors(problem, table)
    log_factor = marginal + prior - before - new.log_mean_ratio
    frequency = _carry_frequencies(posterior, before, log_factor)
    order = np.lexsort((-(marginal + prior), -frequency))
    order = order[np.isfinite((marginal + prior)[order])]
    constant = problem.model_prior.log_constant(problem.p, problem.max_size)
    if old.exact:
        mcse = None if new.models.noise is None else new.models.noise_of_models(old.members)
    else:
        mcse = None if old.mcse is None else old.mcse * np.exp(np.minimum(log_factor, 600.0))
    return replace(
        old,
        members=[old.members[i] for i in order],
        log_marginal=marginal[order],
        log_prior=prior[order] - constant,
        frequency=frequency[order],
        mcse=None if mcse is None else mcse[order],
    )


def _carry_frequencies(posterior: "Posterior", before: np.ndarray, log_ratio: np.ndarray) -> np.ndarray:
    """The models' frequencies times the ratios of the new posterior to the old, (models,).

    With strong evidence a frequency may underflow, or a ratio overflow. Their logs are then used; for an exact posterior
    the log frequencies are known.
    """
    old = posterior.models
    plain = (old.frequency > SMALLEST_FREQUENCY) & (log_ratio < -np.log(SMALLEST_FREQUENCY))
    with np.errstate(divide="ignore"):
        log_frequency = before - posterior.log_evidence if old.exact else np.log(old.frequency)
        by_logs = np.exp(np.minimum(log_frequency + log_ratio, 0.0))
    return np.where(plain, old.frequency * np.exp(np.where(plain, log_ratio, 0.0)), by_logs)


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
        if exact:
            evidence_error = noise_of_evidence(problem, new.models)
        else:
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
        models=_models_satisfying(posterior.models, rule, share, new.models),
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
    models: "Models", rule: Callable[[KeptModels], np.ndarray], probability: float, kept: KeptModels
) -> "Models":
    """The best models that satisfy a condition of this probability."""
    good = np.flatnonzero(np.isfinite(rule(models.listed)))
    frequency = np.minimum(models.frequency[good] / probability, 1.0)
    members = [models.members[i] for i in good]
    mcse = None if models.mcse is None else models.mcse[good] / probability
    return replace(
        models,
        members=members,
        log_marginal=models.log_marginal[good],
        log_prior=models.log_prior[good],
        frequency=frequency,
        mcse=kept.noise_of_models(members) if models.exact and kept.noise is not None else mcse,
    )
