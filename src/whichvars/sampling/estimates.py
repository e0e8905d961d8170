"""What the counts of a run say: one replicate's estimates, and all replicates put together."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import logsumexp, softmax

from whichvars._kernels.count.averages import GROUP, GROUP_LENGTH, SCANS
from whichvars._kernels.count.tally import (
    BATCH,
    BATCH_LENGTH,
    MODELS,
    MOST_STAGES,
    NOW,
    RECORDS,
    STAGE,
    STAGE_START,
    THIN,
    Tally,
    count_up_to_now,
)
from whichvars.posterior.checks import compare_models
from whichvars.posterior.consistency import sizes_of, with_mean
from whichvars.posterior.marginals import noise_of_evidence, with_noise
from whichvars.posterior.models import KeptModels, sorted_models, standard_error
from whichvars.posterior.posterior import Models, Posterior, combine_replicates
from whichvars.problem.dilution import Dilution
from whichvars.problem.evaluating import log_dilutions_of
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import Estimate, RaoBlackwell, Run, Sampler, as_rows
from whichvars.samplers.surrogates import found_neighbourhoods
from whichvars.sampling.mixing import RARITIES, chains_are_empty, mix_with_visits

ROUNDING = 1e-7  # of sums of conditional probabilities, kept in single precision
FEWEST_GROUPS = 8  # of scans, whose scatter says something of the error of their mean
MODELS_KEPT = 10_000  # the best ones of all replicates
ENOUGH_DRAWS = 20  # of known models, with which a replicate says something of the evidence
FEWEST_ALIKE = 5  # variables, whose errors say what is typical
TYPICAL = 0.7  # share of the variables of like PIP whose error, relative to their PIP, is smaller than what is typical


def batch_means(run: Run) -> tuple[np.ndarray, np.ndarray, int]:
    """PIPs of one replicate, the variance of each by batch means, and the degrees of freedom; all its chains
    together."""
    for unit in run.units:
        count_up_to_now(unit.chain, unit.tally)
    tallies = [unit.tally for unit in run.units]
    first = tallies[0].ints
    n, complete, length = int(first[NOW]), int(first[BATCH]), int(first[BATCH_LENGTH])
    counts = np.zeros((complete + 1, tallies[0].batch_counts.shape[1]))
    for tally in tallies:
        counts += tally.batch_counts[: complete + 1]
    mean = counts.sum(axis=0) / max(n * len(tallies), 1)
    if complete < 2:
        return mean, np.zeros_like(mean), 0
    means = counts[:complete] / (length * len(tallies))
    # variance of a batch mean, times its share of the whole run
    return mean, means.var(axis=0, ddof=1) * length / n, complete - 1


def rao_blackwell(run: Run) -> RaoBlackwell | None:
    """The replicate's means of conditional inclusion probabilities, with variances by groups of scans, NaN where these are
    too few; None if there were no scans."""
    parts = [getattr(unit, "averages", None) or unit.tally.averages for unit in run.units]
    scans = sum(int(a.ints[SCANS]) for a in parts)
    if scans == 0:
        return None
    total = np.sum([a.running + a.groups[: a.ints[GROUP]].sum(axis=0, dtype=float) for a in parts], axis=0)
    mean = total / scans
    squares, complete, groups = np.zeros_like(mean), 0, 0
    for a in parts:
        length = int(a.ints[GROUP_LENGTH])
        for group in a.groups[: a.ints[GROUP]]:
            squares += (group - length * mean) ** 2
            complete += length
            groups += 1
    if groups < FEWEST_GROUPS:
        return RaoBlackwell(mean, np.full_like(mean, np.nan), 0)
    variance = squares * groups / (groups - 1) / complete / scans
    return RaoBlackwell(mean, variance, groups - 1)


def estimate_of(problem: Problem, sampler: Sampler, run: Run, replicate: int) -> Estimate:
    """What a replicate says."""
    if hasattr(sampler, "estimate"):
        estimate = sampler.estimate(problem, run, replicate)
        if isinstance(problem.model_prior, Dilution) and estimate.log_evidence is not None:
            # it started from draws of the base prior
            log_mean = problem.model_prior.known().log_mean
            estimate = replace(estimate, log_evidence=estimate.log_evidence - log_mean)
        return estimate
    return estimate_from_tallies(problem, run, replicate, look_at(sampler, run), sampler.chains)


def estimate_from_tallies(problem: Problem, run: Run, replicate: int, look: "Look", chains: int) -> Estimate:
    """The estimate of a replicate whose chains have counted."""
    tallies = [unit.tally for unit in run.units]
    models, floor = _visited(tallies)
    known = known_models(tallies)
    evidence = None
    if known is not None and known.draws >= ENOUGH_DRAWS:
        constant = problem.model_prior.log_constant(problem.p, problem.max_size)
        evidence = known.log_mass - float(np.log(known.share)) + constant
    return Estimate(
        **look._asdict(),
        models=models,
        floor=floor,
        trace=_trace(run, replicate),
        records=_records(run),
        iterations=run.iterations * chains,
        log_evidence=evidence,
        known_share=None if known is None else known.share,
        troubles=run.troubles(),
    )


def model_weights(tally: Tally) -> np.ndarray:
    """How many draws each model of the table stands for, (models,), the current stage included; ``tally`` says how."""
    n, stage = int(tally.ints[MODELS]), int(tally.ints[STAGE])
    counts = (tally.model_count[:n] - tally.model_before[:n]).astype(float)
    known = tally.model_first_stage[:n] < stage
    if known.any():
        counts[known] = counts[known].sum() * softmax(_log_laws(tally)[known])
    return tally.model_weight[:n] + counts


def _log_laws(tally: Tally) -> np.ndarray:
    """The log of the law of the models of the table, (models,), at the temperature of the chain that was counted."""
    marginal, prior = tally.model_values[: int(tally.ints[MODELS])].T
    return tally.inverse_temperature[0] * marginal + prior


def _visited(tallies: list[Tally]) -> tuple[dict[tuple[int, ...], tuple[float, float, float]], float]:
    """The chains' tables put together: members → log marginal, log prior, share of the draws."""
    floor = max(float(t.threshold[0]) for t in tallies)
    total = max(sum(int(t.ints[NOW]) for t in tallies), 1)
    models: dict[tuple[int, ...], tuple[float, float, float]] = {}
    for tally in tallies:
        weights = model_weights(tally).tolist()
        n = len(weights)
        starts, values = tally.model_start[: n + 1].tolist(), tally.model_values[:n].tolist()
        pool = tally.pool[: starts[-1]].tolist()
        for e, (weight, (marginal, prior)) in enumerate(zip(weights, values)):
            if marginal + prior > floor:
                key = tuple(sorted(pool[starts[e] : starts[e + 1]]))
                before = models.get(key, (marginal, prior, 0.0))
                models[key] = (*before[:2], before[2] + weight / total)
    return models, floor


class KnownModels(NamedTuple):
    """Models that were known before, of the stage with the most draws."""

    log_mass: float  # log Σ p(y | γ) p(γ), up to the prior's constant
    share: float  # of the draws of the stage
    draws: int  # of them


def known_models(tallies: list[Tally]) -> KnownModels | None:
    """The known models of a replicate: their posterior mass, and how much of the draws fell on them.

    With K fixed beforehand, E[share of draws in K] = Σ_K p(y, γ) / p(y): the quotient of the two estimates the evidence.
    Chains that know different models are put together as Σ share / Σ mass.
    """
    chains = [chain for chain in map(_longest_stage, tallies) if chain is not None]
    if not chains:
        return None
    share = float(np.mean([chain.share for chain in chains]))
    log_mass = float(logsumexp([chain.log_mass for chain in chains]) - np.log(len(chains)))
    return KnownModels(log_mass, share, sum(chain.draws for chain in chains))


def _longest_stage(tally: Tally) -> KnownModels | None:
    """Of the stages in which something was known, the last of those with the most draws."""
    n, stage = int(tally.ints[MODELS]), int(tally.ints[STAGE])
    known = tally.model_first_stage[:n] < stage
    stages = [tuple(row) for row in tally.stages[1 : min(stage, MOST_STAGES)].tolist()]
    if known.any():
        held = float((tally.model_count[:n] - tally.model_before[:n])[known].sum())
        mass = float(logsumexp(_log_laws(tally)[known]))
        stages.append((mass, held, float(tally.ints[NOW] - tally.ints[STAGE_START])))
    usable = [(length, i) for i, (_, _, length) in enumerate(stages) if length > 0]
    if not usable:
        return None
    log_mass, held, length = stages[max(usable)[1]]
    return KnownModels(log_mass, held / length, int(held))


def _trace(run: Run, replicate: int) -> pd.DataFrame:
    """Thinned model size and log posterior (up to a constant) by chain."""
    tallies = [unit.tally for unit in run.units]
    lengths = [int(t.ints[RECORDS]) for t in tallies]
    records = [
        (t.ints[THIN] * np.arange(1, n + 1), t.record_size[:n], t.record_values[:n].sum(axis=1))
        for t, n in zip(tallies, lengths)
    ]
    columns = dict(zip(("iteration", "size", "log_posterior"), map(np.concatenate, zip(*records))))
    chain = np.repeat(np.arange(len(tallies)), lengths)
    return pd.DataFrame({"replicate": np.full(len(chain), replicate), "chain": chain, **columns})


def _records(run: Run) -> sparse.csr_array:
    """The models of the thinned record, one row for each of the trace."""
    tallies = [unit.tally for unit in run.units]
    return as_rows(
        [t.record_models[r, : t.record_size[r]] for t in tallies for r in range(int(t.ints[RECORDS]))],
        len(run.units[0].chain.position),
    )


def weigh_models(estimates: list[Estimate], keep: int = MODELS_KEPT) -> tuple[Models, KeptModels]:
    """The best models of all replicates, and all that averages are taken over: the same models with the same weights.

    The `keep` best models have the weights that replicates give them, which count the same. What each replicate drew
    besides is represented by the models of its thinned record that are not among these. Models that are not above every
    replicate's floor may have been forgotten by some of them, so that their weights would be too small: they are of that
    rest, too.
    """
    floor, replicates = max(e.floor for e in estimates), len(estimates)
    values = {
        key: (marginal, prior)
        for estimate in estimates
        for key, (marginal, prior, _) in estimate.models.items()
        if marginal + prior > floor
    }
    visited = list(values)
    worth = np.array(list(values.values())).reshape(-1, 2).sum(axis=1)
    best = [visited[i] for i in sorted_models(visited, -worth)[:keep].tolist()]
    # all of this as lists, whose items and slices cost little: those of arrays take as long as a short run
    weights = {m: [0.0] * replicates for m in best}
    for r, estimate in enumerate(estimates):
        for key, (_, _, share) in estimate.models.items():
            if key in weights:
                weights[key][r] += share
    listed_models = set(best)
    listed = np.cumsum([[0.0] * replicates, *weights.values()], axis=0)[-1].tolist()  # one after the other
    for r, estimate in enumerate(estimates):
        variables = estimate.records.indices.tolist()
        bounds = [0, *estimate.records.indptr[1:-1].tolist(), len(variables)]
        rows = (tuple(variables[first:end]) for first, end in pairwise(bounds))
        others = [key for key in rows if key not in listed_models]
        for key in others:
            weights.setdefault(key, [0.0] * replicates)[r] += max(1 - listed[r], 0.0) / len(others)
    kept = KeptModels.of_replicates(weights)
    place = {model: i for i, model in enumerate(kept.models())}
    best = [m for m in best if m in place]
    index = np.array([place[m] for m in best], np.int64)
    error = standard_error(kept.other_weights[:, index])
    columns = np.array([values[m] for m in best]).reshape(-1, 2)
    order = sorted_models(best, -kept.weight[index], -columns.sum(axis=1))
    columns = columns[order]
    models = Models(
        [best[i] for i in order.tolist()],
        columns[:, 0],
        columns[:, 1],
        kept.weight[index][order],
        mcse=error[order],
    )
    return models, kept


def _with_own_priors(problem: Problem, models: Models) -> Models:
    """The models, with what kernels take for a part of the marginal likelihood of a diluted prior in its place."""
    if not isinstance(problem.model_prior, Dilution):
        return models
    listed = models.listed
    extra = log_dilutions_of(problem, listed.members, listed.start)
    return replace(models, log_marginal=models.log_marginal - extra, log_prior=models.log_prior + extra)


def combine_evidence(values: list[float]) -> tuple[float, float]:
    """log of the mean of exp(values), and its standard error on the log scale; NaN with a single value."""
    logs = np.array(values)
    ratios = np.exp(logs - logs.max())
    mean = float(ratios.mean())
    error = float(ratios.std(ddof=1) / np.sqrt(len(logs)) / mean) if len(logs) > 1 else float("nan")
    return float(logs.max() + np.log(mean)), error


def combine_rao_blackwell(
    estimates: Sequence[Any], moved: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """PIPs by Rao–Blackwell sums and their Monte Carlo errors; None unless every replicate has them, and most chains
    where these have sums of their own. `moved` says which variables came and went."""
    averages = [e.rao_blackwell for e in estimates]
    replicates = [replicate for replicate in averages if replicate is not None]
    if len(replicates) < len(averages) or chains_are_empty(replicates):
        return None
    means, variances = (
        np.array([getattr(replicate, name) for replicate in replicates]) for name in ("pip", "variance")
    )
    return _combine_equally(means, variances, min(replicate.degrees for replicate in replicates), moved)


def _combine_equally(
    means: np.ndarray, variances: np.ndarray, degrees: int, moved: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The mean over replicates, which all count the same, and its error. Shapes (replicates, p), (replicates, p), (p,).

    Time is no weight: each replicate chooses for itself how often it notes a draw, and one that stands still may hold nearly
    all of the time.
    """
    mean, mcse = combine_replicates(means, variances, degrees)
    told = len(means) > 1 or not np.isnan(variances).any()
    variance = np.where(np.isnan(mcse), 0.0, mcse**2) if told else np.full(len(mean), np.nan)
    return mean, error_of(variance, moved)


def error_of(variance: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Standard errors from variances, (p,), of sums that are rounded.

    A variance of NaN cannot be told, and neither can the error. One of 0 did not vary: that is as good as known of a
    variable that came and went in the draws, and says nothing of one that never moved.
    """
    still = np.where(moved, ROUNDING, np.nan)
    return np.where(variance == 0, still, np.hypot(np.sqrt(variance), ROUNDING))


class Look(NamedTuple):
    """What one replicate says of the inclusion probabilities: an ``Estimate`` without the rest."""

    pip: np.ndarray
    variance: np.ndarray
    degrees: int
    rao_blackwell: RaoBlackwell | None


def look_at(sampler: Sampler, run: Run) -> Look:
    """A replicate's inclusion probabilities by now. Changes nothing that is counted later."""
    averages = sampler.averages(run) if hasattr(sampler, "averages") else rao_blackwell(run)
    return Look(*batch_means(run), averages)


class Pips(NamedTuple):
    """Inclusion probabilities of all replicates together: by whichever of two ways has the smaller errors, or by
    both."""

    pip: np.ndarray
    mcse: np.ndarray
    replicate_pips: np.ndarray  # (replicates, p)
    replicate_variances: np.ndarray
    degrees: int  # of freedom of each of these variances
    frequencies: tuple[np.ndarray, np.ndarray]  # with their errors
    rao_blackwell: tuple[np.ndarray, np.ndarray] | None


def combine_pips(looks: Sequence[Look | Estimate]) -> Pips:
    """All replicates' inclusion probabilities, and their Monte Carlo errors."""
    means, variances = np.array([x.pip for x in looks]), np.array([x.variance for x in looks])
    degrees = min(x.degrees for x in looks)
    pip, mcse = frequencies = combine_replicates(means, variances, degrees)
    moved = ~np.isnan(mcse)
    averaged = combine_rao_blackwell(looks, moved)
    replicates = [x.rao_blackwell for x in looks if x.rao_blackwell is not None]
    visited = [r for r in replicates if r.visited is not None and r.visited.any()]
    if len(visited) == len(looks) and (averaged is not None or any(r.surrogate for r in replicates)):
        degrees = min(r.degrees for r in replicates)
        pip, mcse = _combine_equally(*mix_with_visits(replicates), degrees, moved)
        # what a replicate says by itself does not depend on the others
        means, variances = (np.concatenate(x) for x in zip(*(mix_with_visits([r]) for r in replicates)))
    elif averaged is None or (replicates[0].sums is None and np.isnan(averaged[1]).all() and moved.any()):
        pass  # there are none, or too few scans to tell how accurate their average is
    elif not np.nansum(averaged[1] ** 2) > np.nansum(mcse**2) > 0:
        pip, mcse = averaged
        means, variances = np.array([r.pip for r in replicates]), np.array([r.variance for r in replicates])
        degrees = min(r.degrees for r in replicates)
    pip = np.clip(pip, 0.0, 1.0)
    return Pips(pip, typical_at_least(pip, mcse), means, variances, degrees, frequencies, averaged)


def typical_at_least(pip: np.ndarray, mcse: np.ndarray) -> np.ndarray:
    """The errors, none smaller than is typical of the variables of like PIP. Shapes (p,).

    An error rests on few degrees of freedom, and that of a rare variable on the few times it came up: one that came up too
    seldom has a PIP that is too small and an error that is far too small. Among thousands of variables there are always
    some. PIP(1 − PIP)/mcse² is the number of independent draws that a PIP is worth. With n such that 70 % of the variables have
    a larger number, an error is at least that of n draws in which the variable came up two more times and stayed out two more times, as in the
    interval of Agresti and Coull. Where there are fewer than FEWEST_ALIKE like variables, nothing is changed.
    """
    out, spread = mcse.copy(), pip * (1 - pip)
    told = np.isfinite(mcse) & (mcse > 2 * ROUNDING) & (spread > 0)
    rarity = np.digitize(np.fmin(pip, 1 - pip), RARITIES)
    for group in range(len(RARITIES) + 1):
        alike = np.flatnonzero(told & (rarity == group))
        if len(alike) < FEWEST_ALIKE:
            continue
        one_draw = float(np.quantile(mcse[alike] ** 2 / spread[alike], TYPICAL))  # 1/n
        share = (pip[alike] + 2 * one_draw) / (1 + 4 * one_draw)
        out[alike] = np.maximum(mcse[alike], np.sqrt(one_draw * share * (1 - share)))
    return out


def _lags(estimates: Sequence[Estimate]) -> np.ndarray | None:
    """Those of all chains of all replicates; None unless every replicate has them."""
    lags = [None if e.rao_blackwell is None else e.rao_blackwell.lags for e in estimates]
    told = [x for x in lags if x is not None]
    return np.concatenate(told) if told and len(told) == len(lags) else None


def combine(
    problem: Problem, sampler: Sampler, runs: list[Run], estimates: list[Estimate], cpu_seconds: float
) -> Posterior:
    """The posterior that all replicates together estimate."""
    pips = combine_pips(estimates)
    evidences = [e.log_evidence for e in estimates if e.log_evidence is not None]
    known = len(evidences) == len(estimates)
    evidence, evidence_mcse = combine_evidence(evidences) if known else (None, None)
    shares = [0.0 if e.known_share is None else e.known_share for e in estimates]
    models, kept = weigh_models(estimates)
    models = _with_own_priors(problem, models)
    kept = with_noise(problem, kept)
    if evidence_mcse is not None:
        evidence_mcse = float(np.hypot(evidence_mcse, noise_of_evidence(problem, kept)))
    if kept.noise is not None and models.mcse is not None:
        models = replace(models, mcse=np.hypot(models.mcse, kept.noise_of_models(models.members)))
    constant = problem.model_prior.log_constant(problem.p, problem.max_size)
    comparison = compare_models(
        [e.models for e in estimates],
        max(e.floor for e in estimates),
        [np.nan if e.log_evidence is None else e.log_evidence - constant for e in estimates],
        shares,
        pips.degrees,
        sampler.chains * len(estimates),
        _lags(estimates),
    )
    sizes, sizes_mcse = sizes_of(kept, problem.p, exact=False)
    troubles: dict[str, int] = {}
    for estimate in estimates:
        for name, count in estimate.troubles.items():
            troubles[name] = troubles.get(name, 0) + count
    averaged = pips.rao_blackwell
    return Posterior(
        problem=problem,
        sampler=repr(sampler),
        pip=pips.pip,
        mcse=np.hypot(pips.mcse, kept.noise_of_pips(problem.p)),
        sizes=with_mean(sizes, float(pips.pip.sum()), problem.max_size),
        sizes_mcse=sizes_mcse,
        models=models,
        kept=kept,
        known_share=float(np.mean(shares)),
        comparison=comparison,
        found=tuple(found_neighbourhoods(problem)),
        iterations=sum(e.iterations for e in estimates),
        cpu_seconds=cpu_seconds,
        log_evidence=evidence,
        log_evidence_mcse=evidence_mcse,
        replicate_pips=pips.replicate_pips,
        replicate_variances=pips.replicate_variances,
        frequencies=pips.frequencies[0],
        frequency_mcse=pips.frequencies[1],
        rao_blackwell=None if averaged is None else averaged[0],
        rao_blackwell_mcse=None if averaged is None else averaged[1],
        trace=pd.concat([e.trace for e in estimates], ignore_index=True),
        trace_models=sparse.vstack([e.records for e in estimates], "csr"),
        adaptation=[sampler.learned(problem, run) | run.fit_counts() for run in runs],
        troubles=troubles,
        warnings=tuple(dict.fromkeys(w for e in estimates for w in e.warnings)),
    )
