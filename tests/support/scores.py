"""Monte Carlo estimates against exact values, in standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

import whichvars as wv
from support.oracle import OraclePosterior
from whichvars._kernels.chain import INVERSE_TEMPERATURE
from whichvars.posterior.consistency import sizes_of

RUNS = 16
RARE = 0.005  # sizes and models less probable than this are visited too seldom for a standard error
SMALLEST = 1e-7  # the smallest error that a posterior claims: averages of conditional probabilities are kept in single precision


class AtTemperature:
    """Any sampler with its chains at another inverse temperature from the start."""

    def __init__(self, sampler: Any, inverse_temperature: float) -> None:
        self.sampler, self.inverse_temperature = sampler, inverse_temperature

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sampler, name)

    def init(self, problem: Any, seed: Any, starts: Any) -> Any:
        run = self.sampler.init(problem, seed, starts)
        for unit in run.units:
            unit.chain.floats[INVERSE_TEMPERATURE] = self.inverse_temperature
        return run


@dataclass(frozen=True)
class Scores:
    """Estimate less truth, over its standard error."""

    pips: np.ndarray  # by the errors that the runs report, as are the next two
    frequencies: np.ndarray  # the same from shares of draws
    averages: np.ndarray  # and from means of conditional probabilities; empty where there are none
    sizes: np.ndarray  # by the spread between runs, as are the rest
    models: np.ndarray
    mean_size: float

    @property
    def all(self) -> np.ndarray:
        parts = self.pips, self.frequencies, self.averages, self.sizes, self.models, [self.mean_size]
        return np.concatenate(parts)

    def as_lists(self) -> dict[str, Any]:
        """For JSON, which keeps every digit."""
        return {name: np.asarray(value).tolist() for name, value in vars(self).items()}

    @classmethod
    def from_lists(cls, lists: dict[str, Any]) -> Scores:
        return cls(**{name: np.array(v, float) if isinstance(v, list) else v for name, v in lists.items()})


def _between(values: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Normal scores of the t-statistics of independent runs, shape (runs, quantities)."""
    runs = len(values)
    spread = values.std(axis=0, ddof=1) / np.sqrt(runs)
    t = (values.mean(axis=0) - truth) / np.maximum(spread, SMALLEST)
    return _normal_score(t, runs - 1)


def _normal_score(t: np.ndarray, degrees: int) -> np.ndarray:
    return np.sign(t) * stats.norm.isf(np.maximum(stats.t.sf(np.abs(t), degrees), 1e-300))


def _by_reported_errors(
    pips: list[Any],
    errors: list[Any],
    truth: np.ndarray,
    certain: np.ndarray,
    degrees: int,
    as_replicates: bool,
) -> np.ndarray:
    """Scores of means over runs by the errors that the runs report.

    With exact weights the error of a run that never met a rare group of models is that of all other models, and close to 0: one
    replicate cannot know better, several can. Such runs are scored `as_replicates` of one run: by the larger of the errors that they
    report and of the error that follows from how much they differ. Where nearly all of the error is that of one run, it is known to no more degrees of freedom than that run has, and the score is a
    normal score of t.
    """
    found, mcse = np.array(pips), np.array(errors)
    stuck = np.isnan(mcse)
    assert not np.any(stuck & ~certain), "a variable that should move never did"
    known = ~stuck.any(axis=0)
    squares = mcse[:, known] ** 2
    error = np.sqrt(squares.sum(axis=0)) / len(found)
    if as_replicates:
        error = np.maximum(error, found[:, known].std(axis=0, ddof=1) / np.sqrt(len(found)))
    score = (found.mean(axis=0) - truth)[known] / error
    of_one_run = squares.max(axis=0) > 0.9 * squares.sum(axis=0)
    return np.where(of_one_run, _normal_score(score, degrees), score)


def scores(
    problem: wv.Problem,
    sampler: Any,
    truth: OraclePosterior,
    *,
    draws: int,
    start: Any,
    seed: int,
    conditional: bool = True,
    runs: int = RUNS,
) -> Scores:
    """Independent runs of one replicate each, scored against the truth.

    conditional: whether conditional inclusion probabilities, which are the posterior's, belong to this truth.
    """
    posteriors = [
        wv.sample(
            problem, sampler, draws=draws, replicates=1, threads=1, seed=1000 * seed + run, start=start, progress=False,
            rao_blackwell=conditional,
        )
        for run in range(runs)
    ]  # fmt: skip
    certain = (
        np.minimum(truth.pips, 1 - truth.pips) < 4e-3
    )  # may well never move in a run: visits come in groups
    chains = getattr(sampler, "chains", 1)
    degrees = chains - 1 if chains > 1 else 31  # of the error of one run: from its chains or from batches
    exact = getattr(sampler, "exact_weights", False)
    pip_scores = {"averages": np.zeros(0)}
    kinds = {"pips": ("pip", "mcse"), "frequencies": ("frequencies", "frequency_mcse")}
    if not conditional:
        kinds["pips"] = kinds["frequencies"]
    elif all(p.rao_blackwell is not None and not np.isnan(p.rao_blackwell_mcse).all() for p in posteriors):
        kinds["averages"] = ("rao_blackwell", "rao_blackwell_mcse")
    for kind, names in kinds.items():
        values, errors = ([getattr(p, name) for p in posteriors] for name in names)
        pip_scores[kind] = _by_reported_errors(values, errors, truth.pips, certain, degrees, exact)

    common = truth.size_distribution > RARE
    common &= truth.size_distribution < 1 - RARE
    # sizes follow inclusion probabilities; where those are not of this truth, take what the models say by themselves
    sizes = np.array(
        [p.sizes if conditional else sizes_of(p.kept, problem.p, exact=False)[0] for p in posteriors]
    )
    allowed = np.bincount(truth.masks.sum(axis=1), truth.log_joint > -np.inf) > 0
    assert np.all(sizes[:, ~allowed] == 0), "models of a size that is not allowed"
    assert np.all(sizes[:, truth.size_distribution == 0] < 1e-12), "models of a size that has no mass"

    best = np.argsort(-truth.probabilities)[:6]
    best = best[truth.probabilities[best] > RARE]
    wanted = [tuple(np.flatnonzero(truth.masks[m]).tolist()) for m in best]
    found = [dict(zip(p.models.members, p.models.frequency)) for p in posteriors]
    models = np.array([[frequency.get(m, 0.0) for m in wanted] for frequency in found])

    k = np.arange(sizes.shape[1])
    mean_size = _between((sizes @ k)[:, None], np.array([truth.size_distribution @ k]))
    return Scores(
        **pip_scores,
        sizes=_between(sizes[:, common], truth.size_distribution[common]),
        models=_between(models, truth.probabilities[best]),
        mean_size=float(mean_size[0]),
    )
