"""Fits of many responses on the same columns, one by one: the same in this process and on the workers of a cluster."""

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.errors import DataError, WhichvarsError
from whichvars.posterior.posterior import Posterior
from whichvars.problem.genetics import wide_enough
from whichvars.problem.many_responses import ManyResponses
from whichvars.problem.model_priors import ModelPrior
from whichvars.problem.prior_width import narrow_prior
from whichvars.problem.problem import Problem
from whichvars.sampling.choosing import choose
from whichvars.sampling.sample import sample

# inclusion probabilities that are kept
LEAST = 0.01
# draws of each replicate, until they are enough
DRAWS = (2_500, 10_000, 40_000, 160_000, 640_000)


class Fit(NamedTuple):
    """What is kept of one response."""

    row: dict[str, Any]
    sets: pd.DataFrame | None = None
    variables: pd.DataFrame | None = None
    error: WhichvarsError | None = None  # why there is no posterior
    narrow: bool = False  # whether the prior is too narrow for an effect


@dataclass(frozen=True)
class Work:
    """The data and settings from which any of the responses can be fitted; sent to workers as it is."""

    X: Any
    covariates: np.ndarray | None
    Y: np.ndarray
    responses: list[str]
    # slab, max_size and names, as in Problem
    settings: dict[str, Any]
    model_prior: ModelPrior | Callable[[int], ModelPrior]
    # whether the slab is made wider for responses with a large effect
    widen: bool
    level: float
    signal: float | None
    target_mcse: float
    draws: int | None
    replicates: int
    seed: int

    def sharing(self, rows: np.ndarray) -> ManyResponses:
        """What responses that are observed in the same rows share."""
        if callable(self.model_prior):
            many = ManyResponses(self.X, rows, self.covariates, **self.settings)
            many.use_prior(self.model_prior)
            return many
        return ManyResponses(self.X, rows, self.covariates, model_prior=self.model_prior, **self.settings)

    def example(self) -> Problem:
        """The problem of an arbitrary response that is observed in all rows. Its fingerprint is that of the columns and priors."""
        y = np.random.default_rng(0).normal(size=len(self.Y))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem = Problem(self.X, y, covariates=self.covariates, engine="columns", **self.settings)
            prior = self.model_prior
            return problem.with_priors(model_prior=prior(problem.p) if callable(prior) else prior)


class Fits:
    """Fits any of the responses; several threads may do so at the same time."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.sharing = SharedByRows(work.sharing, ~np.isnan(work.Y))

    def fit(self, i: int) -> Fit:
        """The i-th response, which must have been announced by ``sharing.expect``."""
        work, sharing = self.work, self.sharing
        name, rows = work.responses[i], int(sharing.observed[:, i].sum())
        try:
            problem = sharing.prepare(i).problem(work.Y[:, i], name)
            if work.widen:
                problem = wide_enough(problem)
            return _summary(_accurate(problem, work), name, work.level, work.signal)
        except WhichvarsError as error:
            return _not_fitted(name, rows, error)
        finally:
            sharing.done(i)


class SharedByRows:
    """What responses that are observed in the same rows share. It is kept until what others share is needed.

    Parameters
    ----------
    make : function of rows, (n,) bool
        What is shared.
    observed : array of bool, shape (n, r)
        Which responses are observed in which rows.
    """

    def __init__(self, make: Callable[[np.ndarray], ManyResponses], observed: np.ndarray) -> None:
        self.observed, self._make = observed, make
        members: dict[bytes, list[int]] = {}
        for i in range(observed.shape[1]):
            members.setdefault(observed[:, i].tobytes(), []).append(i)
        groups = sorted(members.values(), key=lambda own: -int(observed[:, own[0]].sum()))
        self.group = {i: group for group, own in enumerate(groups) for i in own}
        self._expected: Counter[int] = Counter()
        self._lock, self._locks = threading.Lock(), [threading.Lock() for _ in groups]
        self._made: dict[int, ManyResponses | WhichvarsError] = {}
        # responses of a group follow one another; the group with most rows is the first
        self.order = [i for own in groups for i in own]

    def expect(self, responses: Iterable[int]) -> None:
        """Announce responses that will be fitted, so that what they share is kept until they are done."""
        with self._lock:
            self._expected.update(self.group[i] for i in responses)

    def done(self, i: int) -> None:
        with self._lock:
            self._expected[self.group[i]] -= 1

    def prepare(self, i: int) -> ManyResponses:
        """What the i-th response shares with others, made when it is first needed."""
        group = self.group[i]
        with self._locks[group]:
            if group not in self._made:
                with self._lock:
                    for other in [g for g in self._made if self._expected[g] <= 0]:
                        del self._made[other]
                made = self._of(self.observed[:, i])
                with self._lock:
                    self._made[group] = made
            made = self._made[group]
        if isinstance(made, WhichvarsError):
            raise made
        return made

    def _of(self, rows: np.ndarray) -> ManyResponses | WhichvarsError:
        if (count := int(rows.sum())) < 3:
            return DataError(
                f"{count or 'no'} row{'s have' if count == 2 else ' has'} a value; at least 3 are needed"
            )
        try:
            return self._make(rows)
        except WhichvarsError as error:
            return error


def fit_in_threads(fits: Fits, order: Sequence[int], threads: int) -> Iterator[tuple[int, Fit]]:
    """The responses as they are done; the first is fitted alone, so that kernels are compiled once."""
    if not order:
        return
    fits.sharing.expect(order)
    yield order[0], fits.fit(order[0])
    with ThreadPoolExecutor(threads) as pool:
        futures = {pool.submit(fits.fit, i): i for i in order[1:]}
        try:
            for future in as_completed(list(futures)):
                yield futures.pop(future), future.result()
        finally:
            for future in futures:
                future.cancel()


_silence, _silent, _before = threading.Lock(), 0, warnings.catch_warnings()


@contextmanager
def without_warnings() -> Iterator[None]:
    """No warnings while any thread is in this context: every row says whether it has converged."""
    global _silent, _before
    with _silence:
        _silent += 1
        if _silent == 1:
            _before = warnings.catch_warnings()
            _before.__enter__()
            warnings.simplefilter("ignore")
    try:
        yield
    finally:
        with _silence:
            _silent -= 1
            if not _silent:
                _before.__exit__(None, None, None)


def _accurate(problem: Problem, work: Work) -> Posterior:
    """A posterior that is accurate enough, by as few draws as seem necessary."""
    settings: dict[str, Any] = {"replicates": work.replicates, "threads": 1, "seed": work.seed, "progress": False}  # fmt: skip
    if work.draws is not None:
        return sample(problem, draws=work.draws, **settings)
    if choose(problem, None, None).sampler is None:
        return sample(problem, **settings)
    for count in DRAWS:
        posterior = sample(problem, draws=count, **settings)
        if posterior.converged and np.nanmax(posterior.mcse, initial=0.0) <= work.target_mcse:
            break
    return posterior


def _summary(posterior: Posterior, name: str, level: float, signal: float | None) -> Fit:
    sets = posterior.credible_sets(level=level, signal=signal, long=True)
    reached = sets.loc[sets["reached"], "set"].nunique()
    best, problem = int(np.argmax(posterior.pip)), posterior.problem
    row = {
        "response": name, "rows": int(problem.n), "variables": int(problem.p), "mean_size": float(posterior.mean_size), "sets": int(reached),
        "lead": problem.names[best], "pip": float(posterior.pip[best]), "largest_mcse": float(np.nanmax(posterior.mcse, initial=0.0)),
        "converged": bool(posterior.converged), "cpu_seconds": float(posterior.cpu_seconds), "not_fitted": "",
    }  # fmt: skip
    table = posterior.summary().reset_index()
    table = table.loc[table["pip"] >= LEAST, ["variable", "pip", "mcse", "mean", "sd"]]
    sets.insert(0, "response", name)
    table.insert(0, "response", name)
    return Fit(row, sets, table, narrow=bool(narrow_prior(problem)))


def _not_fitted(name: str, rows: int, error: WhichvarsError) -> Fit:
    row = {
        "response": name, "rows": rows, "variables": pd.NA, "mean_size": np.nan, "sets": pd.NA, "lead": None, "pip": np.nan,
        "largest_mcse": np.nan, "converged": False, "cpu_seconds": 0.0, "not_fitted": str(error),
    }  # fmt: skip
    return Fit(row, error=error)
