"""What kernels are given of a ``Problem``: the target distribution and, if the response is not Gaussian, the likelihood."""

import copy
import threading
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from whichvars._kernels.evidence import BY_FIT
from whichvars._kernels.likelihood import Likelihood
from whichvars._kernels.target import Target
from whichvars.problem.correlated_prior import CorrelatedNormal
from whichvars.problem.dilution import Dilution
from whichvars.problem.families import Family, Gaussian
from whichvars.problem.fitting import FitData, Works, make_likelihood, null_answer
from whichvars.problem.moment_priors import MomentPrior
from whichvars.problem.priors import Slab
from whichvars.problem.target import as_compiled, with_known_g, with_mixture_rows

# what a problem knows for descriptions alone; files may be older
NOT_KNOWN_BEFORE: dict[str, Any] = {"response": None, "rows_left_out": 0, "weighted": False}


class ForKernels:
    """The part of ``Problem`` that the kernels use. The constructor of ``Problem`` sets all of these attributes."""

    n: int
    p: int
    nu: int
    family: Family
    evidence: str
    slab: Slab
    model_prior: Any
    offsets: np.ndarray
    fit_data: FitData | None
    works: Works
    surrogate_gram: bool  # whether XᵀWX of a surrogate is computed ahead
    response: str | None  # name of y, if it has one
    rows_left_out: int  # rows of weight 0
    weighted: bool  # whether the others have different weights
    _target: Target
    _surrogate: Target | None
    _likelihood: Likelihood | None
    _null_log_marginal: float | None
    _lock: threading.Lock
    # how a sampler sees a problem whose models are not worth what the formulas of the kernels say; see `seen`
    _seen: Literal["whole", "by fits", "by scans"] = "whole"

    def with_surrogate(self, surrogate: Target, reference: np.ndarray) -> Self:
        """The same problem for samplers that need scans: ``target`` is this Gaussian surrogate, and fits start at its modes."""
        new = copy.copy(self)
        new._surrogate, new._likelihood = surrogate, self.likelihood()._replace(reference=reference)
        new.works, new._null_log_marginal = self.works, self.null_log_marginal
        return new

    def with_surrogate_g(self, g: float) -> Self:
        """The same for an unknown g of the independent slab: the surrogate has `g` times the value that g has at 1."""
        new = copy.copy(self)
        new._surrogate = with_known_g(self._target, g, surrogate=True)
        return new

    def with_surrogate_terms(self, half_log_g: np.ndarray) -> Self:
        """The same for a slab that kernels do not know: the surrogate is the independent one with these terms of its columns, (P,)."""
        new, target = copy.copy(self), self.formula(0)
        slab = target.slab._replace(half_log_g=half_log_g, ridge=target.slab.ridge[: len(half_log_g)])
        new._surrogate = as_compiled(target._replace(slab=slab), self.offsets)
        return new

    @property
    def corrected(self) -> bool:
        """Whether models are worth something else than the formulas of the kernels say: the prior on models depends on correlations,
        or the slab is not one of theirs."""
        return isinstance(self.model_prior, Dilution) or isinstance(self.slab, MomentPrior | CorrelatedNormal)

    def seen(self, how: Literal["whole", "by fits", "by scans"]) -> Self:
        """A problem that is `corrected` as samplers see it. "by fits": kernels ask Python what each model is worth (``BY_FIT``). "by scans": what
        the kernels' formulas say is a surrogate, and they ask in the second stage."""
        new = copy.copy(self)
        new._seen, new._surrogate, new.works = how, self._surrogate, self.works
        new._likelihood, new._null_log_marginal = self._likelihood, self._null_log_marginal
        return new

    @property
    def unknown_g(self) -> bool:
        """Whether marginal likelihoods of a Gaussian response are averages over the g of the independent slab."""
        return len(self._target.slab.grid) > 0

    @property
    def one_by_one(self) -> bool:
        """Whether there is no formula by which kernels scan neighbouring models: the response is not Gaussian, g is unknown, or the problem is
        `corrected`."""
        return self.corrected or self._target.slab.code == BY_FIT

    def without_row(self, i: int) -> Self:
        """The same problem without the i-th row of positive weight, if the response is not Gaussian. Scales of columns and priors stay
        those of all rows, and log marginal likelihoods stay relative to the null model of all rows."""
        new, likelihood = copy.copy(self), self.likelihood()
        weights, levels = likelihood.weights.copy(), likelihood.levels.copy()
        if len(levels):
            levels[levels[:, 0] == likelihood.y[i], 1] -= weights[i]
        weights[i] = 0.0
        new._likelihood = likelihood._replace(weights=weights, levels=levels)
        new._null_log_marginal = self.null_log_marginal
        return new

    def target(self, capacity: int) -> Target:
        """The target distribution for the kernels, valid for models of up to `capacity` columns."""
        target = self.formula(capacity) if self._surrogate is None else self._surrogate
        if self._seen == "whole":
            return target
        # an average over g is a part of what Python is asked for
        slab = target.slab._replace(grid=np.zeros((0, 3)))
        slab = slab._replace(code=BY_FIT) if self._seen == "by fits" else slab._replace(surrogate=True)
        return target._replace(slab=slab)

    def formula(self, capacity: int) -> Target:
        """The target without a correction and without a surrogate, for models of up to `capacity` columns."""
        columns = capacity + self.widest  # a scan evaluates models with one variable more
        with self._lock:
            self._target = with_mixture_rows(self._target, self.slab, columns, self.n - self.nu)
            return self._target

    def likelihood(self) -> Likelihood:
        """The family, the data and the slab for the kernels that fit models; not for Gaussian responses."""
        assert self.fit_data is not None
        with self._lock:
            if self._likelihood is None:
                self._likelihood = make_likelihood(self, self._target, self.fit_data, self.evidence)
            return self._likelihood

    @property
    def null_log_marginal(self) -> float:
        """Log marginal likelihood of the null model up to a constant, for families that are not Gaussian."""
        if self._null_log_marginal is None:
            self._null_log_marginal = null_answer(self, self.likelihood())
        return self._null_log_marginal

    @cached_property
    def widest(self) -> int:
        """The most columns of one variable."""
        return int(np.diff(self.offsets).max())

    @property
    def max_columns(self) -> int:
        """The most columns in a model: all, or if the slab needs full rank, ν − 1 (ν if no noise variance is learnt)."""
        return self._target.slab.max_columns

    def first_capacity(self) -> int:
        """The number of columns for which a chain has memory at first; it grows when needed."""
        return int(min(max(32, 2 * self.widest), max(self.max_columns, 1) + self.widest))

    def __getstate__(self) -> dict[str, Any]:
        made_again = ("_lock", "works", "_likelihood", "_null_log_marginal", "_surrogate", "_seen", "widest")
        return {name: value for name, value in self.__dict__.items() if name not in made_again}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # files of Gaussian problems may be older than families
        before = {
            "family": Gaussian(),
            "evidence": "auto",
            "classes": (),
            "fit_data": None,
            "surrogate_gram": False,
            **NOT_KNOWN_BEFORE,
        }
        self.__dict__.update(state | {name: value for name, value in before.items() if name not in state})
        self._lock, self.works, self._target = (
            threading.Lock(),
            Works(),
            as_compiled(self._target, self.offsets),
        )
        self._likelihood = self._null_log_marginal = self._surrogate = None
