"""``VariableSelector``, an estimator with the interface of scikit-learn."""

from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from whichvars.data.formula import read_formula
from whichvars.data.frames import refuse_words
from whichvars.data.moments import Moments
from whichvars.data.rows import check_same_rows
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.model_priors import BetaBinomial
from whichvars.problem.problem import Problem
from whichvars.sampling.exact import exact
from whichvars.sampling.sample import sample


class VariableSelector(RegressorMixin, SelectorMixin, BaseEstimator):
    """Linear regression averaged over all subsets of variables, and a selector of those that matter.

    Parameters are those of ``Problem`` and ``sample``; they are stored as given and checked by ``fit``.

    Parameters
    ----------
    prior_size : float
        Prior expectation of the number of variables that matter, for ``BetaBinomial(size=prior_size)``. The default is
        min(5, p/2) if `model_prior` is not given either.
    slab, model_prior, noise, scale, always_include, groups, heredity, max_size
        As in ``Problem``. Columns are named by the names of a DataFrame, or x0, x1, …
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
    posterior_ : Posterior
        The posterior: ``posterior_.summary()``, ``.top_models()``, ``.coefficients()``, …
    inclusion_probabilities_, inclusion_mcse_ : arrays, shape (p,)
        Posterior inclusion probability of each column and its Monte Carlo error. Columns of one group share
        theirs; always-included columns have 1, columns that were left out (constant) 0.
    coef_ : array, shape (p,)
        Coefficients averaged over models.
    intercept_ : float
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
        slab: Any = None,
        model_prior: Any = None,
        noise: Any = None,
        scale: Literal["unit", "none"] = "unit",
        always_include: Any = None,
        groups: Any = None,
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
        self.prior_size = prior_size
        self.slab = slab
        self.model_prior = model_prior
        self.noise = noise
        self.scale = scale
        self.always_include = always_include
        self.groups = groups
        self.heredity = heredity
        self.max_size = max_size
        self.sampler = sampler
        self.target_mcse = target_mcse
        self.draws = draws
        self.warmup = warmup
        self.budget = budget
        self.replicates = replicates
        self.threads = threads
        self.checkpoint = checkpoint
        self.every = every
        self.threshold = threshold
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "VariableSelector":
        """Learn which columns of X explain y.

        Parameters
        ----------
        X : array or DataFrame, shape (n, columns)
        y : array, shape (n,)
        sample_weight : array, shape (n,)
            Precisions: observation i has variance σ²/w_i. They are not frequencies: doubling a weight is not the same as
            repeating the row.
        """
        if self.prior_size is not None and self.model_prior is not None:
            raise DataError("give prior_size or model_prior, not both")
        if isinstance(X, Moments):
            raise ArgumentTypeError(
                "VariableSelector needs rows; for statistics use a Problem: sample(Problem(statistics, y))"
            )
        if hasattr(self, "formula_"):  # from an earlier fit with a formula
            del self.formula_
        check_same_rows(None, X, y=y, sample_weight=sample_weight)
        refuse_words(y, "y")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=3)
        problem = Problem(
            X,
            y,
            slab=self.slab,
            model_prior=self.model_prior if self.prior_size is None else BetaBinomial(size=self.prior_size),
            noise=self.noise,
            scale=self.scale,
            always_include=self.always_include,
            weights=sample_weight,
            max_size=self.max_size,
            names=[str(n) for n in self.feature_names_in_] if hasattr(self, "feature_names_in_") else None,
            groups=self.groups,
            heredity=self.heredity,
        )
        if isinstance(self.sampler, str) and self.sampler == "exact":
            posterior = exact(problem, progress=bool(self.verbose))
        else:
            by_draws = getattr(self.sampler, "by_draws", True)
            posterior = sample(
                problem,
                self.sampler,
                draws=self.draws if by_draws else None,
                warmup=self.warmup if by_draws else None,
                target_mcse=self.target_mcse if by_draws else None,
                budget=self.budget if by_draws else None,
                replicates=self.replicates,
                threads=self.threads,
                seed=_seed(self.random_state),
                progress=bool(self.verbose),
                checkpoint=self.checkpoint,
                every=self.every,
            )
        self.posterior_ = posterior
        self.n_iter_ = posterior.iterations
        place = {name: i for i, name in enumerate(problem.all_columns)}
        used = [place[name] for name in problem.columns_used]
        owner = np.repeat(np.arange(problem.p), np.diff(problem.offsets))
        always = [place[name] for name in problem.always_names]
        self.inclusion_probabilities_ = np.zeros(len(place))
        self.inclusion_mcse_ = np.zeros(len(place))
        self.inclusion_probabilities_[used] = posterior.pip[owner]
        self.inclusion_mcse_[used] = posterior.mcse[owner]
        self.inclusion_probabilities_[always] = 1.0
        table = posterior.coefficients(interval=None)["mean"]
        self.intercept_ = float(table.iloc[0])
        self.coef_ = np.zeros(len(place))
        self.coef_[[place[name] for name in table.index[1:]]] = table.iloc[1:]
        return self

    def predict(
        self, X: Any, return_std: bool = False, estimator: str = "BMA", interval: float | None = None
    ) -> Any:
        """Predict y for new rows, as ``Posterior.predict`` does."""
        check_is_fitted(self)
        X = validate_data(self, self._encoded(X), reset=False, dtype=np.float64)
        return self.posterior_.predict(X, estimator, return_std=return_std, interval=interval)  # type: ignore[arg-type]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions for the rows of X, as in scikit-learn."""
        check_same_rows(None, X, y=y, sample_weight=sample_weight)
        return float(super().score(X, y, sample_weight))

    def transform(self, X: Any) -> Any:
        """The selected columns of X; after ``from_formula``, the selected columns of the formula."""
        check_is_fitted(self)
        return super().transform(self._encoded(X))

    def _encoded(self, X: Any) -> Any:
        return self.formula_.encode(X) if hasattr(self, "formula_") else X

    @classmethod
    def from_formula(
        cls,
        formula: str,
        data: Any,
        *,
        heredity: bool = False,
        always: str | None = None,
        sample_weight: Any = None,
        **settings: Any,
    ) -> "VariableSelector":
        """A fitted estimator from a formula and a table with numbers and factors, with the extra ``formula``.

        Every term is one variable: the dummies of a factor, and all columns of an interaction with a factor, enter and
        leave the model together. ``predict``, ``transform`` and ``score`` then take tables like `data` and compute the same
        columns from them; a level that `data` does not have is an error.

        Parameters
        ----------
        formula : str
            In the syntax of formulaic: ``"y ~ (a + b)**2 + C(region)"``, ``"log(y) ~ poly(age, 3) + ."``. The intercept
            is always in.
        data : DataFrame (pandas or polars)
        heredity : bool
            Interactions are in the model only together with all terms of the formula that they contain: a:b only with a
            and b, and a:b:c only with a:b, a:c and b:c too. See ``Problem``.
        always : str
            Terms in every model, such as ``"age + C(site)"``.
        sample_weight : array, shape (n,), or the name of a column
            As in ``fit``.
        settings
            Other parameters of ``VariableSelector``.

        Notes
        -----
        A formula may use only columns, formulaic's own transformations and numpy's elementwise functions; any other name
        is an error. The columns that it produces are in ``formula_.columns``. A later call of ``fit`` takes plain columns.

        Examples
        --------
        >>> import pandas as pd
        >>> import whichvars as wv
        >>> crime = wv.datasets.load_uscrime()
        >>> table = crime.X[["M", "Ed", "Ineq"]].assign(
        ...     south=crime.X["So"].map({0: "no", 1: "yes"}), crimes=crime.y
        ... )
        >>> selector = wv.VariableSelector.from_formula(
        ...     "crimes ~ (Ed + Ineq + C(south))**2", table, always="M", heredity=True
        ... )
        >>> selector.posterior_.problem.names
        ['Ed', 'Ineq', 'south', 'Ed:Ineq', 'Ed:south', 'Ineq:south']
        >>> selector.predict(table.head(2)).shape
        (2,)
        """
        for name in ("groups", "always_include"):
            if name in settings:
                raise DataError(
                    f"from_formula: {name} comes from the formula; leave it out (use always=… for terms)"
                )
        encoding, X, y = read_formula(formula, data, always)
        selector = cls(
            groups=encoding.groups or None,
            always_include=list(encoding.always) or None,
            heredity=encoding.parents if heredity else None,
            **settings,
        )
        selector.fit(X, y, data[sample_weight] if isinstance(sample_weight, str) else sample_weight)
        selector.formula_ = encoding
        return selector

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self.inclusion_probabilities_ >= self.threshold


def _seed(random_state: Any) -> int | None:
    if random_state is None:
        return None
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))
