"""``VariableSelectorClassifier``, a classifier with the interface of scikit-learn."""

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from whichvars.data.formula import FormulaData
from whichvars.data.frames import read_vector
from whichvars.data.rows import check_same_rows
from whichvars.errors import DataError
from whichvars.estimator.base import AveragedModel
from whichvars.problem.families import Logistic, Probit


class VariableSelectorClassifier(ClassifierMixin, AveragedModel):
    r"""Logistic or probit regression averaged over all subsets of variables, and a selector of those that matter.

    There are two classes, labelled by anything: text, numbers or booleans. The probability of the second of them in sorted order is
    averaged over models and coefficients,

    .. math:: P(y = 1 \mid x) = \sum_\gamma p(\gamma \mid \mathrm{data})\, E[g^{-1}(\alpha + x_\gamma^T \beta_\gamma)
              \mid \gamma, \mathrm{data}],

    with the inverse link g⁻¹ of the family. Parameters are those of ``Problem`` and ``sample``; they are stored as given and checked
    by ``fit``.

    Parameters
    ----------
    prior_size : float
        Prior expectation of the number of variables that matter, for ``BetaBinomial(size=prior_size)``. The default is
        min(5, p/2) if `model_prior` is not given either.
    family : "logistic" or "probit", or Logistic, Probit
        How the probability depends on the linear predictor.
    slab, model_prior, evidence, scale, always_include, groups, categories, expand, heredity, max_size
        As in ``Problem``. Columns are named by the names of a DataFrame, or x0, x1, …
    class_weight : dict, "balanced" or None
        Weights of the classes, by which the log likelihoods of their rows are multiplied, as in scikit-learn: "balanced" gives both
        classes the same total weight. Probabilities are then those of a population with such shares of the classes.
    group_by_prefix, missing, imputations, sampler, target_mcse, draws, warmup, budget, replicates, threads, checkpoint, every, threshold, random_state, verbose
        As in ``VariableSelector``.

    Attributes
    ----------
    classes_ : array, shape (2,)
        The two labels; ``predict_proba`` has their probabilities in this order.
    posterior_ : Posterior
        The posterior: ``posterior_.summary()``, ``.top_models()``, ``.coefficients(scale="odds_ratio")``, …
    inclusion_probabilities_, inclusion_mcse_ : arrays, shape (p,)
        As in ``VariableSelector``.
    columns_ : list of str
        The names of the coefficients.
    coefficients_ : array, shape (1, p)
        Coefficients of the linear predictor averaged over models, changes of the log odds of the second class if the family is
        logistic.
    intercept_ : array, shape (1,)
    n_iter_, formula_, n_features_in_, feature_names_in_
        As in ``VariableSelector``.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> X = data.X[["M", "Ed", "Po1", "NW", "Ineq", "Prob"]]
    >>> much = (data.y > data.y.median()).map({False: "little", True: "much"})
    >>> classifier = wv.VariableSelectorClassifier().fit(X, much)
    >>> classifier.classes_.tolist(), classifier.get_feature_names_out().tolist()
    (['little', 'much'], ['M', 'Ed', 'Po1', 'NW', 'Ineq', 'Prob'])
    >>> classifier.predict(X.head(2)).tolist(), classifier.predict_proba(X.head(2)).round(2).tolist()
    (['little', 'much'], [[0.7, 0.3], [0.13, 0.87]])
    """

    labels = True

    def __init__(
        self,
        *,
        prior_size: float | None = None,
        family: Any = "logistic",
        slab: Any = None,
        model_prior: Any = None,
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
        class_weight: Any = None,
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
        """Learn which columns of X tell the classes y apart.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix, shape (n, columns)
            A sparse matrix is not converted to a dense one.
        y : array, shape (n,)
            Labels of two classes.
        sample_weight : array, shape (n,)
            They multiply the log likelihoods of the rows: a weight of 2 counts a row twice.
        offset : array, shape (n,)
            A known part of the linear predictor.

        Examples
        --------
        >>> import numpy as np, whichvars as wv
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 4))
        >>> late = 2 * X[:, 2] + rng.normal(size=200) > 1
        >>> classifier = wv.VariableSelectorClassifier(class_weight="balanced").fit(X, late)
        >>> classifier.get_support().tolist()
        [False, False, True, False]
        """
        return self._fit(X, y, sample_weight, offset)

    def _fit(self, X: Any, y: Any, sample_weight: Any, offset: Any, made: FormulaData | None = None) -> Self:
        family = self._family_with(made)
        if not isinstance(family, (Logistic, Probit)):
            raise DataError(
                f'family must be "logistic" or "probit" for classes, not {self.family!r}; use VariableSelector for numbers'
            )
        trials = made is not None and made.trials is not None
        if getattr(family, "trials", None) is not None and not trials:
            raise DataError(
                "Logistic(trials=…) has numbers of successes for a response, not classes; use VariableSelector"
            )
        X = self._begin(X, y=y, sample_weight=sample_weight, offset=offset)
        if made is not None and trials:
            if self.class_weight is not None:
                raise DataError(
                    "class_weight needs one row for each observation, and rows of cbind(…) have both classes; leave it out"
                )
            validate_data(self, X, skip_check_array=True)
            self.classes_ = np.array(made.counted[::-1])
        else:
            X, y = self._checked(X, y)
            y = np.asarray(y)
            self.classes_ = _two_classes(y)
            sample_weight = self._weights(y, sample_weight)
        coefficients = self._learn(X, y, family, sample_weight, offset)
        self.intercept_ = coefficients.to_numpy()[:1]
        self.coefficients_ = coefficients.to_numpy()[None, 1:]
        return self

    def _weights(self, y: np.ndarray, sample_weight: Any) -> Any:
        """Weights of rows times those of their classes; None if there are neither."""
        if self.class_weight is None:
            return sample_weight
        if isinstance(self.class_weight, dict):
            unknown = [label for label in self.class_weight if label not in self.classes_]
            if unknown:
                raise DataError(
                    f"class_weight has the class {unknown[0]!r}, but y has only {', '.join(map(repr, self.classes_.tolist()))}"
                )
        by_class = compute_sample_weight(self.class_weight, y)
        return (
            by_class
            if sample_weight is None
            else by_class * read_vector(sample_weight, len(y), "sample_weight")
        )

    # --- new rows

    def predict_proba(self, X: Any, offset: Any = None) -> np.ndarray:
        """Probabilities of the two classes, averaged over models, shape (m, 2), in the order of ``classes_``.

        Examples
        --------
        >>> import numpy as np, whichvars as wv
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(100, 2))
        >>> classifier = wv.VariableSelectorClassifier().fit(X, X[:, 0] + rng.normal(size=100) > 0)
        >>> bool(np.allclose(classifier.predict_proba(X).sum(axis=1), 1))
        True
        """
        second = self._predict(X, offset)
        return np.column_stack([1 - second, second])

    def predict_log_proba(self, X: Any, offset: Any = None) -> np.ndarray:
        """Logarithms of ``predict_proba``, shape (m, 2)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, offset))

    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """The more probable class of each row, shape (m,)."""
        second = self.predict_proba(X, offset)[:, 1] > 0.5
        return self.classes_[second.astype(int)]

    def decision_function(self, X: Any, offset: Any = None) -> np.ndarray:
        """The linear predictor averaged over models, shape (m,): ``intercept_ + X @ coefficients_[0]``, and the offset.

        It has the sign of ``predict`` but for rows of which the two classes are about equally probable, as the average of
        probabilities is not the probability of an average.
        """
        linear: np.ndarray = self._predict(X, offset, kind="link")
        return linear

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """The share of rows of X whose class is predicted correctly, as in scikit-learn."""
        check_same_rows(None, X, y=y, sample_weight=sample_weight)
        return float(accuracy_score(y, self.predict(X, offset), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _two_classes(y: np.ndarray) -> np.ndarray:
    """The two labels in sorted order; more classes are an error."""
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) > 2:
        some = ", ".join(map(repr, classes[:4].tolist())) + ", …" * (len(classes) > 4)
        raise DataError(
            f"Only binary classification is supported. The type of the target is multiclass: y has {len(classes)} classes ({some}). "
            "Tell one class from the others, y == label, or use sklearn.multiclass.OneVsRestClassifier(VariableSelectorClassifier())"
        )
    return classes
