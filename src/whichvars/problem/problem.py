"""A ``Problem``: data and priors, converted to the form that the kernels use. It does not change afterwards.

The intercept and the always-included columns have flat priors and are integrated out exactly: y and every column are
replaced by the residuals of their (weighted) regression on them, and n by the residual degrees of freedom ν.
"""

import copy
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from whichvars._kernels import evidence as codes
from whichvars._kernels.likelihood import Likelihood
from whichvars._kernels.target import Target
from whichvars.data.encoding import Encoding, encode_frame
from whichvars.data.frames import find_columns, read_columns, read_vector
from whichvars.data.moments import Moments
from whichvars.data.records import Record
from whichvars.data.rows import check_same_rows
from whichvars.data.tables import plain_table
from whichvars.errors import DataError, DataWarning
from whichvars.problem.arguments import (
    check_choice,
    check_degrees,
    check_extents,
    check_max_size,
    check_missing,
    check_positions,
    check_rows,
    count,
    listed,
    prior_of_kept,
    read_covariates,
    read_root_weights,
    refuse_covariates_of_moments,
    response_name,
    slab_of_kept,
    variable_labels,
    warn_of_excluded,
    warn_of_table,
)
from whichvars.problem.columns import ColumnReader, HeldColumns, Measured, Products, rescaled
from whichvars.problem.dilution import on_columns
from whichvars.problem.evaluating import NamedModels
from whichvars.problem.families import (
    Gaussian,
    check_arguments_with_family,
    check_slab_with_family,
    read_family,
    read_rows,
)
from whichvars.problem.fitting import (
    FitData,
    Works,
    fit_null,
    with_coordinates,
)
from whichvars.problem.flat import flat_basis, flat_part, scaled_response
from whichvars.problem.from_moments import (
    duplicates_in_gram,
    find_response,
    moments_for_problem,
    reduce_moments,
)
from whichvars.problem.genetics import default_slab, read_slab, wide_enough
from whichvars.problem.heredity import ConditionalPrior, given_parents, read_heredity
from whichvars.problem.missing import Rows, drop_missing
from whichvars.problem.model_priors import ModelPrior, check_model_prior, check_sizes
from whichvars.problem.priors import (
    IndependentNormal,
    Jeffreys,
    Noise,
    Slab,
    check_noise,
    check_slab_with_noise,
)
from whichvars.problem.stored_columns import open_columns
from whichvars.problem.target import choose_engine, kernel_prior, kernel_slab, make_target
from whichvars.problem.wrong_data import telling_all


class Problem(NamedModels):
    r"""The data and the priors of a variable selection problem: which of these variables explain y?

    .. math:: y = \alpha 1 + Z\delta + X_\gamma \beta_\gamma + \varepsilon, \qquad
              \varepsilon \sim N(0, \sigma^2 W^{-1}), \quad \gamma \in \{0, 1\}^p

    or, for the other families, a response whose distribution depends on :math:`\eta = o + \alpha 1 + Z\delta + X_\gamma
    \beta_\gamma` with the offset o.

    Parameters
    ----------
    X : array, DataFrame (pandas or polars), pyarrow table or dict of columns, shape (n, P)
        Candidate columns; those named in `always_include` become Z. Columns of words and pandas Categoricals are categories
        (see `categories`). Some forms are not copied to float64: scipy sparse matrices, ``Genotypes``, arrays mapped from .npy files
        (``numpy.memmap``), and the path of a .npy, .bed, .pgen, .raw or .vcf file. ``SufficientStatistics`` can replace rows that do not fit into memory.
    y : array or Series, shape (n,)
        Response; or its name, if X are statistics of several responses. Rows are matched by position. If two of X, y and
        weights have pandas row labels other than the default 0, 1, 2, …, these must be the same in the same order;
        otherwise there is an error that says how to align them. There is a ``DataWarning`` if y has only two values, or
        consists of small whole numbers (none negative, nine in ten at most 10): a linear model treats these as
        continuous, which is an approximation. This is not checked for statistics.
    family : "gaussian", "student", "logistic", "probit", "poisson", "negative-binomial", or Student, Logistic, Probit, Poisson, NegativeBinomial
        How y depends on the linear predictor. Two-valued responses of any type are for "logistic" and "probit"; counts are for
        "poisson", "negative-binomial" and ``Logistic(trials=…)``. "student" is a linear model whose noise has heavy tails.
    offset : array, shape (n,)
        A part o of the linear predictor that is known, such as the log of an exposure; not for "gaussian".
    evidence : "auto", "laplace", "second-order", "importance" or "bas"
        How marginal likelihoods are computed if the family is not Gaussian. "auto" is Laplace's approximation of second order,
        and importance sampling for models for which that is doubtful. "bas" is the formula of R's package BAS, for g-priors,
        their mixtures, ``LocalEmpiricalBayes`` and ``BIC``.
    slab : IndependentNormal, CorrelatedNormal, ProductMoment, ExponentialMoment, GPrior, HyperG, HyperGN, ZellnerSiow, CCH, BetaPrime, Robust, Intrinsic, LocalEmpiricalBayes or BIC
        Prior on the coefficients. The default is ``IndependentNormal(g=1)``, and for genotypes ``IndependentNormal(0.01)`` or wider. If the family is not Gaussian, the g of
        ``IndependentNormal`` is the variance itself (of Student responses, in units of their squared scale), and ``GPrior`` and its mixtures have the null model's information in place of
        σ⁻²XᵀX. ``CorrelatedNormal``, ``ProductMoment``, ``ExponentialMoment``, ``BetaPrime``, ``Robust`` and ``Intrinsic`` are for Gaussian responses alone.
    model_prior : FixedInclusion, BetaBinomial, PoissonSize, Complexity, SizeDistribution, MarkovRandomField or Dilution
        Prior on which variables are in the model. The default is ``BetaBinomial(size=min(5, p/2))``.
    noise : Jeffreys, InverseGamma or KnownVariance
        Prior on σ², or its value; only if the family is Gaussian.
    scale : "unit" or "none"
        "unit": columns in units of their standard deviation (ddof 1); "none": columns are only centred. For normal and non-local slabs.
    always_include : names or indices
        Columns that are in every model, with flat priors on their coefficients, like the intercept.
    covariates : array or DataFrame, shape (n, q)
        More columns that are in every model, beside X: age, sex and principal components beside genotypes, for instance. They
        are numbers, and X can have any form but statistics. What is said of `always_include` holds for them too; for new
        rows, give ``(X, covariates)`` where X is asked for.
    weights : array, shape (n,)
        Precision weights: observation i has variance σ²/w_i. If the family is not Gaussian, they multiply the log likelihoods
        of the rows: a weight of 2 is the same row twice. Rows of weight 0 are left out.
    max_size : int
        Largest number of variables in a model.
    names : sequence of str
        Names of the columns of X; they replace those of X itself.
    groups : mapping from a name to columns, or one label per column
        Columns that enter and leave the model together, such as the dummies of a factor; each group is one variable.
    categories : names of columns, or Categories
        Columns that are categories although they contain numbers or very many words; ``Categories`` has more choices. A category is
        one variable with a 0/1 column for each level except the first, its reference level (`reference_levels`).
    expand : list of date and spline
        Columns that become several variables, such as ``[date("when"), spline("age")]``: parts of dates, and curved effects.
    missing : "error" or "drop"
        Whether missing values (NaN, None) are an error, or their rows are left out with a ``DataWarning`` that says what this costs.
        Columns without any value are then left out too. ``impute`` fills missing values in instead.
    heredity : mapping from a variable to its parents
        Variables that can be in the model only if all their parents are, such as ``{"a:b": ["a", "b"]}`` for an
        interaction; names are those of columns or of groups. `model_prior` then applies to the variables whose parents
        are in the model; if it is given by an expected `size`, this remains the expected size.
    engine : "auto", "gram" or "columns"
        Compute XᵀX (p² numbers) once, or keep the columns and compute products when they are needed. If the family is not
        Gaussian, this is the matrix of the linear model that guides the samplers.

    Attributes
    ----------
    names : list of str
        The p variables to select from.
    slab, model_prior
        The priors; if they have one value per variable, without those of variables that were left out. Under heredity
        `model_prior` is a ``ConditionalPrior`` that contains the one given.
    excluded : dict
        Columns that were left out, with the reason.
    duplicates : list of list of str
        Columns perfectly correlated with one another (kept).
    nu : int
        Residual degrees of freedom after the intercept and the always-included columns.
    family, evidence
        As given; a string is replaced by the family it means.
    reference_levels : dict
        The level with which the other levels of each category are compared.
    classes : tuple
        Of a two-valued response under "logistic" or "probit": the value that counts as 0 and the one that counts as 1.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> wv.Problem(data.X, data.y, slab=wv.GPrior(47), model_prior=wv.FixedInclusion(h=0.5))
    Problem(15 variables, 47 rows; GPrior(g=47.0), FixedInclusion(h=0.5), Gram engine)

    Is crime above its median? Logistic regression models the log odds of True:

    >>> wv.Problem(data.X, data.y > data.y.median(), family="logistic").classes
    (False, True)
    """

    # of problems without them, among them those that earlier versions saved
    covariate_names: Sequence[str] = ()
    # how a table with words became numbers
    encoding: Encoding | None = None
    # what was said of missing values, and where the rows come from
    about_missing: tuple[str, ...] = ()
    record: Record = Record()

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *others: Any,
        family: Any = "gaussian",
        offset: Any = None,
        evidence: Literal["auto", "laplace", "second-order", "importance", "bas"] = "auto",
        slab: Slab | None = None,
        model_prior: ModelPrior | None = None,
        noise: Noise | None = None,
        scale: Literal["unit", "none"] = "unit",
        always_include: Any = None,
        covariates: Any = None,
        weights: Any = None,
        max_size: int | None = None,
        names: Sequence[str] | None = None,
        groups: Mapping[str, Any] | Sequence[Any] | None = None,
        categories: Any = None,
        expand: Any = None,
        missing: Literal["error", "drop"] = "error",
        heredity: Mapping[str, Any] | None = None,
        engine: Literal["auto", "gram", "columns"] = "auto",
    ) -> None:
        check_positions(X, X if isinstance(X, Moments) else y, others)
        self.slab = read_slab(slab, X)
        self.family = read_family(family)
        self.evidence, self.classes = evidence, ()
        check_slab_with_family(self.slab, self.family, evidence)
        check_arguments_with_family(self.family, X, offset, noise)
        self.fit_data: FitData | None = None
        self.works = Works()
        self.noise = check_noise(Jeffreys() if noise is None else noise)
        if model_prior is not None:
            check_model_prior(model_prior)
        check_slab_with_noise(self.slab, self.noise)
        check_choice(scale, ("unit", "none"), "scale")
        check_choice(engine, ("auto", "gram", "columns"), "engine")
        check_missing(missing)
        check_max_size(max_size)
        self.scale, self.response = scale, y if isinstance(y, str) else response_name(y)
        self.rows_left_out, self.weighted, self.surrogate_gram = 0, False, False
        self.engine: Literal["gram", "columns"] = "gram"
        if isinstance(X, Moments):
            refuse_covariates_of_moments(covariates)
            with threadpool_limits(limits=1, user_api="blas"):
                moments = moments_for_problem(X, weights, names, engine)
                products, parents = self._read_moments(moments, y, always_include, groups, heredity)
                self._read_priors(model_prior, parents, max_size)
                self._set_target(products)
            return

        X = plain_table(X)
        if missing == "drop":
            left = drop_missing(Rows(X, y, weights, offset, covariates, self.family))
            (X, y, weights, offset, covariates, self.family), self.about_missing, self.record = left
        with telling_all(Rows(X, y, weights, offset, covariates, self.family)):
            encoded = encode_frame(X, names, categories, expand)
            warn_of_table(X, encoded)
            if encoded is not None:
                X, names, self.encoding = encoded.X, None, encoded.encoding
                self.record = encoded.record or self.record
                always_include = encoded.columns_of(always_include, "always_include")
                groups = encoded.groups_with(groups, always_include)
                heredity = encoded.heredity_with(heredity, groups)
            reader: ColumnReader = open_columns(X, names) or HeldColumns(read_columns(X, names=names))
        column_names, (n, n_columns) = reader.names, reader.shape
        if n_columns == 0 or n == 0:
            raise DataError(f"X is empty ({n} rows, {n_columns} columns); nothing can be learnt from it")
        beside = {"offset": offset, "covariates": covariates}
        check_same_rows(n, X, y=y, weights=weights, **{k: v for k, v in beside.items() if v is not None})
        root_weights = read_root_weights(weights, n)
        used = root_weights > 0
        read = None if isinstance(self.family, Gaussian) else read_rows(self.family, y, offset, used)
        response = read_vector(y, n, "y")[used] if read is None else np.zeros(0)
        if not used.all():
            reader.keep_rows(used)
            root_weights = root_weights[used]
        self.rows_left_out = n - len(root_weights)
        self.weighted = bool(np.ptp(root_weights) > 0) if len(root_weights) else False
        self.n = len(root_weights)
        check_rows(self.n, " of positive weight" * (not used.all()))
        always, labels = self._read_always(always_include, groups, column_names)
        self.covariate_names, covariate_values = read_covariates(covariates, column_names, used)

        with threadpool_limits(limits=1, user_api="blas"):  # so that results are the same on every machine
            always_values = np.column_stack([reader.take(always, root_weights**2), covariate_values])
            # covariates are counted as columns behind those of X
            always += range(n_columns, n_columns + len(self.covariate_names))
            self.always_names += self.covariate_names
            basis = flat_basis(always_values, root_weights)
            self.nu = check_degrees(self.n, basis.shape[1], len(always))
            if read is not None and not isinstance(self.family, Gaussian):
                self.classes = read[0].classes
                fitted = fit_null(
                    self.family, *read, root_weights**2, basis, always_values, self.always_names
                )
                self.fit_data, response = fitted, fitted.score
            scaled = scaled_response(response, root_weights, basis, self.always_names, read is not None)
            self._y, self._y_scale = scaled
            if read is None and (remark := Gaussian().remark(response, response_name(y))):
                warnings.warn(remark, DataWarning, stacklevel=2)
            candidates = np.setdiff1d(np.arange(n_columns), always)
            measured = reader.measure(candidates, root_weights, basis, self._y)
            alive = self._leave_out(measured, candidates, column_names)
            order = self._read_variables(candidates[alive].tolist(), candidates, labels)
            reader.arrange(alive[order])
            parents = self._name_columns(column_names, reader.has_names, labels, candidates, heredity)
            with np.errstate(all="ignore"):  # ratios of units may overflow to infinity
                self.flat = flat_part(
                    always_values, response, root_weights, always, reader.means_and_products
                )
            if self.fit_data is not None:
                z = always_values[:, [always.index(i) for i in self.flat.z_index]]
                self.fit_data, self._y_scale = with_coordinates(self.fit_data, z, self.flat.z_mean), 1.0
            same = reader.find_duplicates()
            self.duplicates = [[self.columns_used[i] for i in group] for group in same]
            self._scale(reader, measured, alive[order], float(root_weights.max()))
            self._read_priors(model_prior, parents, max_size)
            wide = len(self.columns_used)
            self.engine, self.surrogate_gram = choose_engine(engine, wide, self.n, read is None)
            self._set_target(reader.products(self.engine == "gram", self._y))
        if slab is None and self.slab == default_slab():
            self.__dict__.update(vars(wide_enough(self)))

    # --- reading

    def _read_always(
        self, always_include: Any, groups: Any, column_names: list[str]
    ) -> tuple[list[int], list[str]]:
        """The columns that are always included, and the variable that each column belongs to."""
        always = (
            [] if always_include is None else find_columns(always_include, column_names, "always_include")
        )
        self.always_names = [column_names[i] for i in always]
        return always, variable_labels(groups, column_names, always)

    def _read_moments(
        self, moments: Moments, y: Any, always_include: Any, groups: Any, heredity: Any
    ) -> tuple[Products, Any]:
        """Read sums over rows instead of rows; returns XᵀX and Xᵀy for the kernels, and the parents under heredity."""
        self.n = moments.n
        check_rows(self.n, "")
        response = find_response(moments, y)
        always, labels = self._read_always(always_include, groups, moments.names)
        candidates = np.setdiff1d(np.arange(len(moments.names)), always)
        reduced = reduce_moments(moments, response, always, candidates.tolist())
        self.nu = check_degrees(self.n, 1 + reduced.rank, len(always))
        self._y, self._y_scale = np.zeros(0), reduced.y_scale
        self.excluded = {moments.names[i]: reason for i, reason in reduced.excluded.items()}
        warn_of_excluded(self.excluded, len(reduced.kept) > 0)
        reduced = reduced.ordered(self._read_variables(reduced.kept, candidates, labels))
        self._units = np.array([reduced.lengths, reduced.spread, np.ones(len(reduced.kept))])
        self.column_units = self._units[self._unit_kind()]
        parents = self._name_columns(moments.names, moments.has_names, labels, candidates, heredity)
        self.flat = reduced.flat
        self.duplicates = [
            [self.columns_used[i] for i in group] for group in duplicates_in_gram(reduced.gram)
        ]
        factor = reduced.lengths / self.column_units
        gram = reduced.gram * factor * factor[:, None]
        check_extents((self.column_units, np.diagonal(gram)), self.columns_used, self.scale)
        gram = np.ascontiguousarray((gram + gram.T) / 2)
        return Products(gram, np.zeros((0, 0)), np.diagonal(gram).copy(), reduced.xty * factor), parents

    def _name_columns(
        self,
        column_names: list[str],
        has_names: bool,
        labels: list[str],
        candidates: np.ndarray,
        heredity: Any,
    ) -> Any:
        """Set the names of the columns; returns the parents under heredity."""
        self.columns_used = [column_names[i] for i in self._column_index]
        self.all_columns, self.has_names = [*column_names, *self.covariate_names], has_names
        variables = list(dict.fromkeys(labels[i] for i in candidates))
        self._all_variables = len(variables)
        return read_heredity(heredity, variables, self.names, self.always_names)

    def _read_priors(self, model_prior: ModelPrior | None, parents: Any, max_size: int | None) -> None:
        if self.duplicates:
            sets = listed([" = ".join(group) for group in self.duplicates], 3, "; ")
            warnings.warn(
                f"perfectly correlated columns, {count(self.duplicates, 'set')}: {sets}. They are kept and share "
                "their inclusion probability: interpret it for the set, not for each column",
                DataWarning,
                stacklevel=3,
            )
        self.slab = self._slab_of_kept(self.slab)
        given = self._prior_of_kept(model_prior)
        self.model_prior: ModelPrior | ConditionalPrior = (
            given if parents is None else given_parents(given, parents)
        )
        self.max_size = self.p if max_size is None else min(self.p, int(max_size))
        check_sizes(given, self.p, self.max_size)

    def _slab_of_kept(self, slab: Slab) -> Slab:
        candidates = [i for i, name in enumerate(self.all_columns) if name not in self.always_names]
        return slab_of_kept(slab, self._variable_index, self._all_variables, self._column_index, candidates)

    def _prior_of_kept(self, prior: ModelPrior | None) -> ModelPrior:
        """The prior on models, for the variables that were not left out."""
        return prior_of_kept(prior, self.names, self._variable_index, self._all_variables, self.excluded)

    def _leave_out(self, measured: Measured, candidates: np.ndarray, names: list[str]) -> np.ndarray:
        """The positions of the candidates that are not combinations of the always-included columns."""
        alive = measured.lengths > 1e-12 * measured.whole
        self.excluded = {
            names[candidates[i]]: "constant"
            if measured.spread[i] < 4e-12
            else "a combination of the always-included columns"
            for i in np.flatnonzero(~alive)
        }
        warn_of_excluded(self.excluded, bool(alive.any()))
        return np.flatnonzero(alive)

    def _scale(self, reader: ColumnReader, measured: Measured, kept: np.ndarray, top: float) -> None:
        """Bring the columns, given in units of `measured.power` and `top`, to the requested scale."""
        power, spread, lengths = (v[kept] for v in (measured.power, measured.spread, measured.lengths))
        with np.errstate(over="ignore"):
            self._units = np.array([lengths * power * top, spread * power, np.ones(len(kept))])
            self.column_units = self._units[self._unit_kind()]
            if self.slab.code != codes.INDEPENDENT:
                squares = reader.scale(lengths, 1.0, divide=True)
            elif self.scale == "unit":
                squares = reader.scale(spread, top, divide=True)
            else:
                squares = reader.scale(power, top, divide=False)
        check_extents((self.column_units, squares), self.columns_used, self.scale)

    @property
    def column_spread(self) -> np.ndarray:
        """Standard deviations of the columns, (P,), in the user's units."""
        return self._units[1]

    def _unit_kind(self) -> int:
        """The row of `_units` to use: lengths if only the span matters, else standard deviations or the given units."""
        return (1 if self.scale == "unit" else 2) if self.slab.code == codes.INDEPENDENT else 0

    def _read_variables(self, kept: list[int], candidates: np.ndarray, labels: list[str]) -> np.ndarray:
        """Set the names and offsets of the variables; returns the order in which columns of a variable are adjacent."""
        alive = {labels[i] for i in kept}
        everything = dict.fromkeys(labels[i] for i in candidates)
        self._variable_index = [j for j, name in enumerate(everything) if name in alive]
        self.names = [name for name in everything if name in alive]
        self.p = len(self.names)
        place = {name: j for j, name in enumerate(self.names)}
        owner = np.array([place[labels[i]] for i in kept])
        self.offsets = np.concatenate([[0], np.cumsum(np.bincount(owner))]).astype(np.int64)
        order = np.argsort(owner, kind="stable")
        self._column_index = [kept[i] for i in order]
        return order

    # --- input of the kernels

    def _set_target(self, products: Products) -> None:
        # an unknown g is in units of the mean variance of columns that are not scaled
        unit = float(np.mean(self.column_spread**2)) if self._unit_kind() == 2 else 1.0
        slab = kernel_slab(self.slab, self.noise, self.offsets, self.n, self.nu, self._y_scale, unit)
        prior = kernel_prior(self.model_prior, self.p, self.max_size)
        self._surrogate: Target | None = None
        self._likelihood: Likelihood | None = None
        self._null_log_marginal: float | None = None
        if self.fit_data is not None:
            most = len(self.columns_used) if isinstance(self.slab, IndependentNormal) else self.nu
            slab = slab._replace(
                code=codes.BY_FIT, max_columns=min(len(self.columns_used), most), grid=np.zeros((0, 3))
            )
        self._target = make_target(products, slab, prior, self.offsets)
        self.model_prior = on_columns(self.model_prior, self._target.design, self.offsets, self.max_size)
        self._lock = threading.Lock()

    def with_priors(self, slab: Slab | None = None, model_prior: ModelPrior | None = None) -> "Problem":
        """The same data under other priors; a prior that is not given stays the same.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> wv.Problem(data.X, data.y, slab=wv.GPrior(47)).with_priors(slab=wv.HyperG())
        Problem(15 variables, 47 rows; HyperG(a=3.0), BetaBinomial(size=5.0), Gram engine)
        """
        new = copy.copy(self)
        if slab is not None:
            check_slab_with_noise(read_slab(slab, None), self.noise)
            check_slab_with_family(slab, self.family, self.evidence)
            new.slab = self._slab_of_kept(slab)
        if model_prior is not None:
            prior = self._prior_of_kept(check_model_prior(model_prior))
            check_sizes(prior, self.p, self.max_size)
            old = self.model_prior
            new.model_prior = (
                given_parents(prior, old.parents) if isinstance(old, ConditionalPrior) else prior
            )
        factor = np.ones(1)
        if new._unit_kind() != self._unit_kind():
            new.column_units = new._units[new._unit_kind()]
            factor = self.column_units / new.column_units
        products = rescaled(self._target.design, factor)
        check_extents((new.column_units, products.diagonal), self.columns_used, self.scale)
        new._set_target(products)
        return new
