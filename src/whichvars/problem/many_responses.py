"""Problems that differ in the response only: those that are observed in the same rows share the columns and XᵀX."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from whichvars._kernels.products.stored import NOT_STORED
from whichvars.problem.columns import Products, products_with_all
from whichvars.problem.flat import flat_basis, flat_part, scaled_response
from whichvars.problem.model_priors import ModelPrior
from whichvars.problem.problem import Problem
from whichvars.problem.target import GRAM_BYTES


class ManyResponses:
    """Makes a ``Problem`` for each response that is observed in the same rows, without looking at the columns again.

    Parameters
    ----------
    X, covariates
        As in ``Problem``.
    rows : array of bool, shape (n,)
        The rows in which the responses are observed.
    **settings
        Further arguments of ``Problem``.
    """

    def __init__(self, X: Any, rows: np.ndarray, covariates: np.ndarray | None, **settings: Any) -> None:
        self._rows = rows
        if not rows.all():
            # rows of weight 0 are left out, whatever the form of X
            settings["weights"] = rows.astype(float)
        # a response that is replaced later; it must not be a combination of covariates
        y = np.random.default_rng(0).normal(size=len(rows))
        self._base = Problem(X, y, covariates=covariates, engine="columns", **settings)
        self.columns_share_a_matrix = len(self._base.columns_used) ** 2 * 8 <= GRAM_BYTES
        self._gram = np.zeros((0, 0))
        if self.columns_share_a_matrix:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they have been given above
                whole = Problem(X, y, covariates=covariates, engine="gram", **settings)
            self._gram = whole.target(0).design.gram
        self._design = self._base.target(0).design
        self._values = np.zeros((self._base.n, 0)) if covariates is None else covariates[self._rows]
        self._ones = np.ones(self._base.n)
        with threadpool_limits(limits=1, user_api="blas"):
            self._basis = flat_basis(self._values, self._ones)

    def use_prior(self, make: Callable[[int], ModelPrior]) -> None:
        """Replace the prior on models by one that depends on the number of variables."""
        self._base = self._base.with_priors(model_prior=make(self._base.p))

    def problem(self, y: np.ndarray, name: str) -> Problem:
        """The problem of one response; everything but the response is shared."""
        new, y = copy.copy(self._base), y[self._rows]
        with threadpool_limits(limits=1, user_api="blas"):
            new._y, new._y_scale = scaled_response(y, self._ones, self._basis, new.always_names, False)
            xty = products_with_all(self._design, self._as_stored(new._y)[None])[0]
            count = len(new.columns_used)
            indices = list(range(self._values.shape[1]))
            nothing = (np.zeros(count), lambda basis: np.zeros((basis.shape[1], count)))
            flat = flat_part(self._values, y, self._ones, indices, lambda share: nothing)
            new.flat = new.flat._replace(y_mean=flat.y_mean, y_on_z=flat.y_on_z)
            new.response = name
            if self.columns_share_a_matrix:
                new.engine = "gram"
                products = Products(self._gram, np.zeros((0, 0)), self._design.diagonal, xty)
            else:
                design = self._design
                products = Products(np.zeros((0, 0)), design.columns, design.diagonal, xty, design.stored)
            new._set_target(products)
        return new

    def _as_stored(self, y: np.ndarray) -> np.ndarray:
        """y with zeros in the rows that are left out, if columns are stored with these."""
        if self._design.stored.code == NOT_STORED:
            return y
        out = np.zeros(len(self._rows))
        out[self._rows] = y
        return out
