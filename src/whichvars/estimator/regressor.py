"""``VariableSelector``, a regressor with the interface of scikit-learn."""

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from whichvars.data.formula import FormulaData
from whichvars.data.frames import read_vector, refuse_words
from whichvars.data.rows import check_same_rows
from whichvars.errors import DataError
from whichvars.estimator.base import AveragedModel
from whichvars.posterior.posterior import Posterior
from whichvars.posterior.residual_checks import check_residuals
from whichvars.problem.families import Gaussian, Logistic, Probit, Student, is_linear

# probability of an interval whose ends are the median
MIDDLE = 1e-9


class VariableSelector(RegressorMixin, AveragedModel):
    """Regression averaged over all subsets of variables, and a selector of those that matter.

    Parameters are those of ``Problem`` and ``sample``; they are stored as given and checked by ``fit``.

    Parameters
    ----------
    prior_size : float
        Prior expectation of the number of variables that matter, for ``BetaBinomial(size=prior_size)``. The default is
        min(5, p/2) if `model_prior` is not given either.
    family : "gaussian", "student", "poisson", "negative-binomial", or Gaussian, Student, Poisson, NegativeBinomial, Logistic(trials=…)
        How y depends on the linear predictor, as in ``Problem``. Responses of two classes are for ``VariableSelectorClassifier``.
    log_response : bool
        Model the logarithm of y, which must be positive. Predictions are then medians and intervals on the original scale.
        (It is not called ``transform``, as this is the method that selects columns.)
    slab, model_prior, noise, evidence, scale, always_include, groups, categories, expand, heredity, max_size
        As in ``Problem``. Columns are named by the names of a DataFrame, or x0, x1, … Parameters of priors can be set as
        ``slab__g``, also in a grid search.
    group_by_prefix : True or prefixes of names
        One-hot columns that another transformer made of categories, such as ``onehot__city_Bonn`` and ``onehot__city_Trier`` of a
        ``ColumnTransformer``, are one variable each: columns whose names begin with one of the prefixes (``["onehot__city_"]``), or, with True,
        columns of 0 and 1 that share the beginning of their names up to a "_", with at most one 1 in every row. This needs names of columns:
        ``ColumnTransformer(…).set_output(transform="pandas")``.
    missing : "error", "drop" or "impute"
        Whether missing values are an error, their rows are left out, or they are filled in several times (``impute``) and the posteriors
        mixed (``pool``). New rows may then have missing values too.
    imputations : int
        How many times, with ``missing="impute"``.
    sampler : sampler object, "auto" or "exact"
        As in ``sample``: "auto" enumerates all models if there are few. "exact" enumerates all models, however long it
        takes.
    target_mcse : float or None
        Stop sampling when the Monte Carlo error of every inclusion probability is at most this, or after `draws`
        iterations of each replicate (by default a million), whichever comes first.
    draws, warmup, budget, replicates, threads
        As in ``sample``. With a time `budget`, results depend on the machine.
    checkpoint, every
        As in ``sample``: a directory in which the state of a fit is saved regularly. If the fit was killed, ``fit`` with
        the same data and settings continues it. A directory is for one fit only: other data are an error, so it cannot be
        used in cross-validation.
    threshold : float
        Least inclusion probability of a selected column.
    random_state : int, RandomState or None
        The same integer gives exactly the same results; None takes new random numbers at each fit.
    verbose : bool
        Show the progress of sampling in a terminal or notebook.

    Attributes
    ----------
    posterior_ : Posterior, or PooledPosterior with ``missing="impute"``
        The posterior: ``posterior_.summary()``, ``.top_models()``, ``.coefficients()``, …
    inclusion_probabilities_, inclusion_mcse_ : arrays, shape (p,)
        Posterior inclusion probability of each column and its Monte Carlo error. Columns of one group share
        theirs; always-included columns have 1, columns that were left out (constant) 0. ``feature_importances_`` is the same
        array under the name by which ``SelectFromModel`` and others of scikit-learn look for it.
    coefficients_ : array, shape (p,)
        Coefficients averaged over models. If there are categories, it has one for each of their columns.
    columns_ : list of str
        The names of the coefficients.
    intercept_ : float
    remarks_ : list of str
        What residuals say against the linear model, as in ``Posterior.residual_check``; empty if nothing was found.
    n_iter_ : int
        Number of iterations, or of models if exact.
    formula_ : FormulaColumns
        Only after ``from_formula``: the formula and its columns.
    n_features_in_, feature_names_in_
        As in all of scikit-learn; p is the number of columns of X.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> selector = wv.VariableSelector(slab=wv.GPrior(47)).fit(data.X, data.y)
    >>> selector.get_feature_names_out().tolist()
    ['M', 'Ed', 'Po1', 'NW', 'U2', 'Ineq', 'Prob']
    >>> mean, std = selector.predict(data.X, return_std=True)
    """

    def __init__(
        self,
        *,
        prior_size: float | None = None,
        family: Any = "gaussian",
        log_response: bool = False,
        slab: Any = None,
        model_prior: Any = None,
        noise: Any = None,
        evidence: Literal["auto", "laplace", "second-order", "importance", "bas"] = "auto",
        scale: Literal["unit", "none"] = "unit",
        always_include: Any = None,
        groups: Any = None,
        group_by_prefix: Any = None,
        categories: Any = None,
        expand: Any = None,
        missing: Literal["error", "drop", "impute"] = "error",
        imputations: int = 5,
        heredity: Any = None,
        max_size: int | None = None,
        sampler: Any = "auto",
        target_mcse: float | None = 0.01,
        draws: int | None = None,
        warmup: int | None = None,
        budget: Any = None,
        replicates: int = 4,
        threads: int | None = None,
        checkpoint: Any = None,
        every: Any = "30s",
        threshold: float = 0.5,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Learn which columns of X explain y.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix, shape (n, columns)
            A sparse matrix is not converted to a dense one.
        y : array, shape (n,)
        sample_weight : array, shape (n,)
            Precisions: observation i has variance σ²/w_i. They are not frequencies: doubling a weight is not the same as
            repeating the row. If the family is not Gaussian, they multiply the log likelihoods of the rows.
        offset : array, shape (n,)
            If the family is not Gaussian, a known part of the linear predictor, such as the log of an exposure.

        Examples
        --------
        >>> import numpy as np, whichvars as wv
        >>> rng = np.random.default_rng(0)
        >>> X, years = rng.normal(size=(200, 5)), rng.uniform(1, 10, 200)
        >>> visits = rng.poisson(years * np.exp(0.3 * X[:, 0] - 1))
        >>> selector = wv.VariableSelector(family="poisson").fit(X, visits, offset=np.log(years))
        >>> selector.get_support().tolist()
        [True, False, False, False, False]
        >>> selector.predict(X[:2], offset=0).round(2)
        array([0.38, 0.41])
        """
        return self._fit(X, y, sample_weight, offset)

    def _fit(self, X: Any, y: Any, sample_weight: Any, offset: Any, made: FormulaData | None = None) -> Self:
        family = self._family_with(made)
        if isinstance(family, Probit) or (isinstance(family, Logistic) and family.trials is None):
            raise DataError(
                f"family={self.family!r} is for two classes, and VariableSelector for numbers; use "
                f"VariableSelectorClassifier(family={family.name!r}), or family=Logistic(trials=…) for numbers of successes"
            )
        X = self._begin(X, y=y, sample_weight=sample_weight, offset=offset)
        refuse_words(y, "y")
        X, y = self._checked(X, y, y_numeric=True)
        if self.log_response:
            y = _logarithm(y, family)
        coefficients = self._learn(X, y, family, sample_weight, offset, noise=self.noise)
        self.remarks_ = []
        if (
            isinstance(self.posterior_, Posterior)
            and (isinstance(family, Gaussian) or (isinstance(family, Student) and sample_weight is None))
            and self.missing == "error"
        ):
            check = check_residuals(
                self.posterior_,
                X,
                y,
                sample_weight,
                "log_response=True",
                influence=False,
                student='family="student"',
            )
            self.remarks_ = list(check.remarks)
        self.intercept_ = float(coefficients.iloc[0])
        self.coefficients_ = coefficients.to_numpy()[1:]
        return self

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        estimator: str = "BMA",
        interval: float | None = None,
        offset: Any = None,
    ) -> Any:
        """Predict y for new rows, as ``Posterior.predict`` does: rates or, with ``Logistic(trials=…)``, probabilities of one trial,
        if the family is not Gaussian.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> selector = wv.VariableSelector(slab=wv.GPrior(47)).fit(data.X, data.y)
        >>> mean, interval = selector.predict(data.X.head(2), interval=0.9)
        >>> mean.shape, interval.shape
        ((2,), (2, 2))
        """
        if not self.log_response:
            return self._predict(X, offset, estimator=estimator, return_std=return_std, interval=interval)
        if return_std:
            raise DataError(
                "a response whose logarithm was modelled has medians and intervals; leave out return_std"
            )
        settings = {"estimator": estimator, "interval": MIDDLE}
        middle = np.exp(self._predict(X, offset, **settings)[1].mean(axis=1))
        if interval is None:
            return middle
        return middle, np.exp(self._predict(X, offset, **settings | {"interval": interval})[1])

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """R² of the predictions for the rows of X, as in scikit-learn; with ``Logistic(trials=…)``, y are shares of successes."""
        check_same_rows(None, X, y=y, sample_weight=sample_weight)
        return float(r2_score(y, self.predict(X, offset=offset), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        name = str(getattr(self.family, "name", self.family)).lower()
        tags.target_tags.positive_only = name not in ("gaussian", "student")
        return tags


def _logarithm(y: Any, family: Any) -> np.ndarray:
    """The logarithms of a response; DataError if there are none."""
    if not is_linear(family):
        raise DataError(
            f"log_response is for Gaussian and Student responses, not for family={family}; leave it out"
        )
    values = read_vector(y, None, "y")
    bad = np.flatnonzero(values <= 0)
    if bad.size:
        raise DataError(
            f"y is {values[bad[0]]:g} in row {bad[0]}, and log_response=True needs positive numbers; "
            f"{bad.size:,} such row{'s' * (bad.size > 1)} would have to be left out"
        )
    return np.log(values)
