"""``VariableSelector``: all of it behind scikit-learn's manners."""

from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from whichvars.enumeration import exact
from whichvars.errors import DataError
from whichvars.priors import BetaBinomial
from whichvars.problem import Problem
from whichvars.sampling import sample

ENUMERATE = 15  # most variables for which "auto" looks at every model


class VariableSelector(RegressorMixin, SelectorMixin, BaseEstimator):
    """Linear regression averaged over all choices of variables, and a selector of those that matter.

    Parameters are those of ``Problem`` and ``sample``; they are stored as given and looked at by ``fit``.

    Parameters
    ----------
    prior_size : float
        Prior expectation of the number of variables that matter, as ``BetaBinomial(size=prior_size)``;
        min(5, p/2) if neither this nor `model_prior` is given.
    slab, model_prior, noise, scale, always_include, groups, max_size
        As in ``Problem``. Columns are named by the names of a DataFrame, or x0, x1, …
    sampler : sampler object, "auto" or "exact"
        "auto": every model is looked at if there are no more than 15 variables, else ``sample`` chooses.
        "exact": every model, however long it takes.
    draws : int
        Iterations per replicate when models are sampled; None takes ``sample``'s default.
    warmup, replicates, threads
        As in ``sample``.
    threshold : float
        Inclusion probability from which on a column is selected.
    random_state : int, RandomState or None
        Results repeat exactly with the same integer; None takes new random numbers at each fit.
    verbose : bool
        Show the progress of sampling in a terminal or notebook.

    Attributes
    ----------
    posterior_ : Posterior
        Everything that was learnt: ``posterior_.summary()``, ``.top_models()``, ``.coefficients()``, …
    inclusion_probabilities_, inclusion_mcse_ : arrays, shape (p,)
        Posterior inclusion probability of each column and its Monte Carlo error. Columns of one group share
        theirs; always-included columns have 1, columns that were left out (constant) 0.
    coef_ : array, shape (p,)
        Coefficients averaged over models.
    intercept_ : float
    n_iter_ : int
        Iterations (exact: models looked at).
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
        max_size: int | None = None,
        sampler: Any = "auto",
        draws: int | None = 100_000,
        warmup: int | None = None,
        replicates: int = 4,
        threads: int | None = None,
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
        self.max_size = max_size
        self.sampler = sampler
        self.draws = draws
        self.warmup = warmup
        self.replicates = replicates
        self.threads = threads
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
            Precisions: observation i has variance σ²/w_i. They are not numbers of repetitions: twice the
            weight is not the same as the row twice.
        """
        if self.prior_size is not None and self.model_prior is not None:
            raise DataError("give prior_size or model_prior, not both: the size is part of the prior")
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
        )
        everything = isinstance(self.sampler, str) and self.sampler == "exact"
        if isinstance(self.sampler, str) and self.sampler == "auto":
            everything = problem.p <= ENUMERATE
        if everything:
            posterior = exact(problem)
        else:
            by_draws = getattr(self.sampler, "by_draws", True)
            posterior = sample(
                problem,
                self.sampler,
                draws=self.draws if by_draws else None,
                warmup=self.warmup if by_draws else None,
                replicates=self.replicates,
                threads=self.threads,
                seed=_seed(self.random_state),
                progress=bool(self.verbose),
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
        """Predict y at new rows; as ``Posterior.predict``."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self.posterior_.predict(X, estimator, return_std=return_std, interval=interval)  # type: ignore[arg-type]

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self.inclusion_probabilities_ >= self.threshold


def _seed(random_state: Any) -> int | None:
    if random_state is None:
        return None
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))
