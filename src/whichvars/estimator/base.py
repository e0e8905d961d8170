"""What the two estimators share: the problem of their parameters, its posterior, formulas, and the selected columns."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from whichvars.data.categories import read_categories
from whichvars.data.encoding import Encoded
from whichvars.data.expanding import read_expansions
from whichvars.data.formula import FormulaData, read_formula
from whichvars.data.imputing import encode_alike, impute, seed_of_part
from whichvars.data.moments import Moments
from whichvars.data.one_hot import prefix_groups
from whichvars.data.rows import check_same_rows
from whichvars.data.tables import is_table, plain_table
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.posterior.pooling import PooledPosterior, pool
from whichvars.posterior.posterior import Posterior
from whichvars.problem.arguments import check_choice
from whichvars.problem.families import Family, Logistic, read_family
from whichvars.problem.missing import Rows, warn_of_gaps
from whichvars.problem.model_priors import BetaBinomial
from whichvars.problem.priors import IndependentNormal
from whichvars.problem.problem import Problem
from whichvars.sampling.exact import exact
from whichvars.sampling.sample import sample

# forms of sparse matrices that are not converted to others
SPARSE = ("csc", "csr")


class AveragedModel(SelectorMixin, BaseEstimator):
    """The base of the estimators. They have their own ``__init__``, as scikit-learn reads the parameters from it."""

    # whether a response is labels of classes, which may be words
    labels = False

    def _keep(self, parameters: dict[str, Any]) -> None:
        """Store the parameters as given, which is all that scikit-learn lets ``__init__`` do."""
        for name in self._get_param_names():
            setattr(self, name, parameters[name])

    # --- fitting

    def _begin(self, X: Any, **others: Any) -> Any:
        """Check that parameters and rows go together, and forget an earlier fit's formula; returns X, as a frame if it is a table."""
        if self.prior_size is not None and self.model_prior is not None:
            raise DataError("give prior_size or model_prior, not both")
        if isinstance(X, Moments):
            raise ArgumentTypeError(
                f"{type(self).__name__} needs rows; for statistics use a Problem: sample(Problem(statistics, y))"
            )
        if hasattr(self, "formula_"):
            del self.formula_
        check_choice(self.missing, ("error", "drop", "impute"), "missing")
        X = _plain(X)
        check_same_rows(None, X, **{name: values for name, values in others.items() if values is not None})
        return X

    def _checked(self, X: Any, y: Any, **settings: Any) -> tuple[Any, Any]:
        """X and y as scikit-learn checks them. A frame stays as it is: ``Problem`` reads it, and its messages name columns."""
        if not is_table(X) and self.missing != "error":
            validate_data(self, X, skip_check_array=True)
            array = np.asarray(X)
            if array.ndim != 2:
                raise DataError(f"X must be a table of rows and columns, not of shape {array.shape}")
            return pd.DataFrame(array, columns=[f"x{i}" for i in range(array.shape[1])]), y
        if not is_table(X):
            with np.errstate(invalid="ignore"):  # scikit-learn adds up infinities of both signs
                # whether all is finite is checked by ``Problem``, whose message names the column and row
                return validate_data(
                    self, X, y, dtype=np.float64, accept_sparse=SPARSE, ensure_min_samples=3, ensure_all_finite=False, **settings
                )  # fmt: skip
        validate_data(self, X, skip_check_array=True)
        return X, column_or_1d(y, warn=True) if not hasattr(y, "isna") else y

    def _family_with(self, made: FormulaData | None) -> Family:
        """The family; with the trials of a formula, if it has them."""
        family = read_family(self.family)
        if made is None or made.trials is None:
            return family
        written = f"cbind({', '.join(made.counted)})"
        if not isinstance(family, Logistic):
            raise DataError(
                f'formula: {written} is a number of successes among some trials, which needs family="logistic", not {self.family!r}'
            )
        if family.trials is not None:
            raise DataError(f'formula: {written} has the trials; give family="logistic" without them')
        return Logistic(trials=made.trials)

    def _learn(self, X: Any, y: Any, family: Family, weights: Any, offset: Any, **others: Any) -> pd.Series:
        """Set the posterior and the inclusion probabilities; returns the averaged coefficients by name, the intercept first."""
        rows = Rows(X, y, weights, offset, None, family)
        posterior: Posterior | PooledPosterior
        if self.missing == "impute":
            seed = _seed(self.random_state)
            made = impute(
                X, y, m=self.imputations, seed=0 if seed is None else seed, categories=self.categories, expand=self.expand
            )  # fmt: skip
            warn_of_gaps(X, y)
            rows = rows.at(made.rows)
            X = next(iter(made))
            categories = replace(read_categories(self.categories), lump=None)
            expand = read_expansions(self.expand)
            tables = encode_alike(made, categories, expand) if expand else made
            parts = [
                self._posterior(rows._replace(X=Xi, y=made.y), categories, others, seed, i)
                for i, Xi in enumerate(tables)
            ]
            posterior = pool(parts, made)
            self.n_iter_ = sum(part.iterations for part in parts)
        else:
            posterior = self._posterior(rows, self.categories, others, _seed(self.random_state))
            self.n_iter_ = posterior.iterations
        problem = posterior.problem
        self.posterior_ = posterior
        place = {name: i for i, name in enumerate(problem.all_columns)}
        used = [place[name] for name in problem.columns_used]
        owner = np.repeat(np.arange(problem.p), np.diff(problem.offsets))
        always = [place[name] for name in problem.always_names]
        pips, errors = np.zeros(len(place)), np.zeros(len(place))
        pips[used], errors[used], pips[always] = posterior.pip[owner], posterior.mcse[owner], 1.0
        self.columns_ = list(place)
        if problem.encoding is not None:  # of each category, that of its columns
            encoding = problem.encoding
            columns = [
                [place[c] for c in encoding.columns_of(name)] if name in encoding.columns else []
                for name in map(str, X.columns)
            ]
            pips, errors = (np.array([v[c].max(initial=0.0) for c in columns]) for v in (pips, errors))
        self.inclusion_probabilities_, self.inclusion_mcse_ = pips, errors
        table = posterior.coefficients(interval=None)["mean"]
        coefficients = pd.Series(0.0, ["(intercept)", *place])
        coefficients[table.index] = table
        return coefficients

    def _groups(self, X: Any) -> Any:
        """The groups that were given, and those of columns whose names have the same prefix, without columns in every model."""
        found = prefix_groups(X.X if isinstance(X, Encoded) else X, self.group_by_prefix)
        if not found:
            return self.groups
        if self.groups is not None and not isinstance(self.groups, Mapping):
            raise DataError("give group_by_prefix, or groups as one label per column, not both")
        taken = {str(c) for members in (self.groups or {}).values() for c in members}
        if self.always_include is not None and not isinstance(self.always_include, (str, int)):
            taken.update(map(str, self.always_include))
        found = {name: [c for c in members if c not in taken] for name, members in found.items()}
        return {**{name: members for name, members in found.items() if members}, **(self.groups or {})}

    def _posterior(
        self, rows: Rows, categories: Any, others: dict[str, Any], seed: int | None, part: int | None = None
    ) -> Posterior:
        """The posterior of one complete table; `part` counts the imputations, if there are any."""
        problem = Problem(
            rows.X,
            rows.y,
            family=rows.family,
            offset=rows.offset,
            evidence=self.evidence,
            slab=self.slab,
            model_prior=self.model_prior if self.prior_size is None else BetaBinomial(size=self.prior_size),
            scale=self.scale,
            always_include=self.always_include,
            weights=rows.weights,
            max_size=self.max_size,
            groups=self._groups(rows.X),
            categories=categories,
            expand=self.expand,
            missing="error" if self.missing == "impute" else self.missing,
            heredity=self.heredity,
            **others,
        )
        if isinstance(self.sampler, str) and self.sampler == "exact":
            return exact(problem, progress=bool(self.verbose))
        by_draws = getattr(self.sampler, "by_draws", True)
        checkpoint = self.checkpoint
        if part is not None and checkpoint is not None:
            checkpoint = Path(checkpoint) / f"imputation-{part + 1}"
        return sample(
            problem,
            self.sampler,
            draws=self.draws if by_draws else None,
            warmup=self.warmup if by_draws else None,
            target_mcse=self.target_mcse if by_draws else None,
            budget=self.budget if by_draws else None,
            replicates=self.replicates,
            threads=self.threads,
            seed=seed if part is None else seed_of_part(seed, part),
            progress=bool(self.verbose),
            checkpoint=checkpoint,
            every=self.every,
        )

    # --- new rows

    def _predict(self, X: Any, offset: Any, **settings: Any) -> Any:
        """What ``Posterior.predict`` says of new rows, which a formula may have to convert first."""
        check_is_fitted(self)
        if hasattr(self, "formula_"):
            if self.formula_.offsets and offset is not None:
                raise DataError("the formula has an offset, which is computed from X; leave out offset")
            known = self.formula_.offset(X)
            offset = offset if known is None else known
        rows = self._encoded(X)
        if isinstance(self.posterior_, PooledPosterior):
            if settings.pop("estimator", "BMA") != "BMA":
                raise DataError("predictions from imputed data are averages over models; leave out estimator")
            if not is_table(rows):
                rows = pd.DataFrame(np.asarray(rows)).add_prefix("x")
            return self.posterior_.predict(rows, offset=offset, **settings)
        if is_table(rows):
            validate_data(self, rows, reset=False, skip_check_array=True)
        else:
            rows = validate_data(
                self, rows, reset=False, dtype=self._dtype(), accept_sparse=SPARSE, ensure_all_finite=False
            )
        return self.posterior_.predict(rows, offset=offset, **settings)

    def _dtype(self) -> Any:
        """What arrays of new rows are converted to; those with categories may contain anything."""
        encoding = self.posterior_.problem.encoding
        return np.float64 if encoding is None else None

    def transform(self, X: Any) -> Any:
        """The selected columns of X; after ``from_formula``, the selected columns of the formula."""
        check_is_fitted(self)
        return super().transform(self._encoded(X))

    def _encoded(self, X: Any) -> Any:
        return self.formula_.encode(X) if hasattr(self, "formula_") else _plain(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.missing == "error"
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    @property
    def feature_importances_(self) -> np.ndarray:
        """The inclusion probabilities, by which ``sklearn.feature_selection.SelectFromModel`` and ``RFE`` select."""
        check_is_fitted(self)
        return self.inclusion_probabilities_

    # --- parameters of priors, such as slab__g

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; those of priors are named with two underscores if `deep`, as in ``slab__g``."""
        params: dict[str, Any] = super().get_params(deep)
        inner: dict[str, Any] = {}
        for name, value in params.items() if deep else ():
            if is_dataclass(value) and not isinstance(value, type):
                inner |= {f"{name}__{f.name}": getattr(value, f.name) for f in fields(value) if f.init}
        return params | inner

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``slab__g=10`` replaces the slab by one with another g."""
        inside: dict[str, dict[str, Any]] = {}
        for name in list(params):
            owner, _, key = name.partition("__")
            value = params.get(owner, getattr(self, owner, None))
            if key and value is None and owner == "slab":  # the default of ``Problem``
                value = params["slab"] = IndependentNormal()
            if key and value is None and owner in ("model_prior", "noise", "sampler"):
                raise DataError(f"{name}: give {owner} first, as None has no parameter {key!r}")
            if key and is_dataclass(value):
                inside.setdefault(owner, {})[key] = params.pop(name)
        super().set_params(**params)
        for owner, changes in inside.items():
            value = getattr(self, owner)
            unknown = [key for key in changes if key not in {f.name for f in fields(value) if f.init}]
            if unknown:
                raise DataError(f"{owner}__{unknown[0]}: {value!r} has no parameter {unknown[0]!r}")
            setattr(self, owner, replace(value, **changes))
        return self

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self.inclusion_probabilities_ >= self.threshold

    # --- formulas

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
    ) -> Self:
        """A fitted estimator from a formula and a table with numbers and factors, with the extra ``formula``.

        Every term is one variable: the dummies of a factor, and all columns of an interaction with a factor, enter and
        leave the model together. ``predict``, ``transform`` and ``score`` then take tables like `data` and compute the same
        columns from them; a level that `data` does not have is an error.

        Parameters
        ----------
        formula : str
            In the syntax of formulaic: ``"y ~ (a + b)**2 + C(region)"``, ``"log(y) ~ poly(age, 3) + ."``. The intercept
            is always in. ``spline(age, df=4)`` is an effect that may be curved, as in ``spline``. If the family is not Gaussian, a term ``offset(log(n))`` is a known part of the linear predictor;
            ``cbind(successes, failures) ~ …`` is a number of successes among some trials, for ``family="logistic"``.
        data : DataFrame (pandas or polars)
        heredity : bool
            Interactions are in the model only together with all terms of the formula that they contain: a:b only with a
            and b, and a:b:c only with a:b, a:c and b:c too. See ``Problem``.
        always : str
            Terms in every model, such as ``"age + C(site)"``.
        sample_weight : array, shape (n,), or the name of a column
            As in ``fit``.
        settings
            Other parameters of the estimator.

        Notes
        -----
        A formula may use only columns, formulaic's own transformations and numpy's elementwise functions; any other name
        is an error. The columns that it produces are in ``formula_.columns``. A later call of ``fit`` takes plain columns.

        Examples
        --------
        >>> import numpy as np
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

        Counts per year of observation, as in R:

        >>> rng = np.random.default_rng(0)
        >>> table = table.assign(years=rng.uniform(1, 9, 47)).assign(
        ...     cases=lambda t: rng.poisson(t["years"] * 2)
        ... )
        >>> rates = wv.VariableSelector.from_formula("cases ~ M + Ed + offset(log(years))", table, family="poisson")
        >>> rates.predict(table.head(2).assign(years=1)).round(1)
        array([2.2, 2.2])
        """
        for name in ("groups", "always_include", "expand"):
            if name in settings:
                raise DataError(
                    f"from_formula: {name} comes from the formula; leave it out (use always=… for terms)"
                )
        made = read_formula(formula, data, always, labels=cls.labels)
        encoding = made.encoding
        selector = cls(
            groups=encoding.groups or None,
            always_include=list(encoding.always) or None,
            heredity=encoding.parents if heredity else None,
            expand=list(made.expand) or None,
            **settings,
        )
        weights = data[sample_weight] if isinstance(sample_weight, str) else sample_weight
        selector._fit(made.X, made.y, weights, made.offset, made)
        selector.formula_ = encoding
        return selector


def _plain(X: Any) -> Any:
    """X; a table of another kind as a frame, and NaN in place of cells that an array masks, which scikit-learn would ignore."""
    X = plain_table(X)
    return np.ma.filled(X.astype(float), np.nan) if isinstance(X, np.ma.MaskedArray) else X


def _seed(random_state: Any) -> int | None:
    if random_state is None:
        return None
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))
