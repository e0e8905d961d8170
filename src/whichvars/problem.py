"""A ``Problem``: data and priors, brought to the one form that kernels see, and fixed from then on.

The intercept and the always-included columns have flat priors and are integrated out exactly: y and every
column are replaced by their (weighted) residuals on them, and n by the residual degrees of freedom ν. Kernels
never see them again.
"""

import copy
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from whichvars._kernels import target as codes
from whichvars._kernels.target import Design, Target
from whichvars._kernels.target import ModelPrior as KernelPrior
from whichvars._kernels.target import Slab as KernelSlab
from whichvars.errors import ArgumentTypeError, DataError, DataWarning
from whichvars.heredity import ConditionalPrior, given_parents, read_heredity
from whichvars.inputs import check_unique, find_columns, read_columns, read_vector
from whichvars.mixtures import mixture_table
from whichvars.priors import (
    BIC,
    GPrior,
    HyperG,
    HyperGN,
    IndependentNormal,
    InverseGamma,
    Jeffreys,
    LocalEmpiricalBayes,
    ModelPrior,
    Slab,
    ZellnerSiow,
    check_model_prior,
    check_noise,
    check_slab,
    default_model_prior,
    per_variable,
)

MIXTURES = {HyperG: "hyper-g", HyperGN: "hyper-g/n", ZellnerSiow: "zellner-siow"}
GRAM_BYTES = 512 << 20  # largest Gram matrix made without being asked
SMALLEST, LARGEST = 1e-305, 1e305  # squared lengths and units of columns and of y must lie between
WEIGHT_RATIO = 1e-20  # smallest positive weight over the largest; beyond, rounding eats the light rows
ZOBRIST_SEED = 20141220  # of the keys of models; fixed, so that a run depends on its own seed alone


class FlatPart(NamedTuple):
    """What is integrated out, to come back to the user's units: least squares on the intercept and Z, the q of
    the always-included columns that are not combinations of those before them. Means are weighted; Z and X
    are taken less their means, so that the intercept's part is the mean of y."""

    mean_variance: float  # 1/Σ w, of the mean of y where σ² = 1
    y_mean: float
    x_mean: np.ndarray  # (P,) of the candidate columns, as in Problem.columns_used
    z_index: list[int]  # columns of X that are Z
    z_mean: np.ndarray  # (q,)
    z_root: np.ndarray  # (q, q): T with TTᵀ = (ZᵀWZ)⁻¹
    y_on_z: np.ndarray  # (q,)
    x_on_z: np.ndarray  # (q, P)


class Problem:
    r"""Which of these variables explain y? The data and the priors of that question.

    .. math:: y = \alpha 1 + Z\delta + X_\gamma \beta_\gamma + \varepsilon, \qquad
              \varepsilon \sim N(0, \sigma^2 W^{-1}), \quad \gamma \in \{0, 1\}^p

    Parameters
    ----------
    X : array, DataFrame (pandas or polars) or scipy sparse matrix, shape (n, P)
        Candidate columns; those named in `always_include` become Z.
    y : array or Series, shape (n,)
        Response.
    slab : IndependentNormal, GPrior, HyperG, HyperGN, ZellnerSiow, LocalEmpiricalBayes or BIC
        Prior on the coefficients; ``IndependentNormal(g=1)`` if not given.
    model_prior : FixedInclusion or BetaBinomial
        Prior on which variables are in; ``BetaBinomial(size=min(5, p/2))`` if not given.
    noise : Jeffreys or InverseGamma
        Prior on σ².
    scale : "unit" or "none"
        "unit": columns in units of their standard deviation (ddof 1); "none": centred only. Matters for the
        independent slab; all other slabs do not depend on it.
    always_include : names or indices
        Columns that are in every model, with flat priors on their coefficients, like the intercept.
    weights : array, shape (n,)
        Precision weights: observation i has variance σ²/w_i. Rows of weight 0 are left out.
    max_size : int
        Largest number of variables in a model.
    names : sequence of str
        Names of the columns of X; they replace those that X brings.
    groups : mapping from a name to columns, or one label per column
        Columns that enter and leave together (the dummies of a factor): one variable each.
    heredity : mapping from a variable to its parents
        Variables that can be in only while all their parents are, such as ``{"a:b": ["a", "b"]}`` for an
        interaction; a name is that of a column, or of a group. `model_prior` is then that of the variables
        whose parents are in; one given by an expected `size` keeps it.
    engine : "auto", "gram" or "columns"
        Keep XᵀX (p² numbers), or the columns and take products as they are needed.

    Attributes
    ----------
    names : list of str
        The p variables that can be in or out.
    slab, model_prior
        The priors; where they have one value per variable, without those of columns that were left out. Under
        heredity `model_prior` is a ``ConditionalPrior`` around the one given.
    excluded : dict
        Columns that were left out, with the reason.
    duplicates : list of list of str
        Columns perfectly correlated with one another (kept).
    nu : int
        Residual degrees of freedom after the intercept and the always-included columns.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> wv.Problem(data.X, data.y, slab=wv.GPrior(47), model_prior=wv.FixedInclusion(h=0.5))
    Problem(15 variables, 47 rows; GPrior(g=47.0), FixedInclusion(h=0.5), Gram engine)
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *others: Any,
        slab: Slab | None = None,
        model_prior: ModelPrior | None = None,
        noise: Jeffreys | InverseGamma | None = None,
        scale: Literal["unit", "none"] = "unit",
        always_include: Any = None,
        weights: Any = None,
        max_size: int | None = None,
        names: Sequence[str] | None = None,
        groups: Mapping[str, Any] | Sequence[Any] | None = None,
        heredity: Mapping[str, Any] | None = None,
        engine: Literal["auto", "gram", "columns"] = "auto",
    ) -> None:
        _check_positions(X, y, others)
        self.slab = check_slab(IndependentNormal() if slab is None else slab)
        self.noise = check_noise(Jeffreys() if noise is None else noise)
        if model_prior is not None:
            check_model_prior(model_prior)
        _check_bic(self.slab, self.noise)
        _check_choice(scale, ("unit", "none"), "scale")
        _check_choice(engine, ("auto", "gram", "columns"), "engine")
        _check_max_size(max_size)
        self.scale = scale

        values, column_names, has_names = read_columns(X, names=names)
        n, n_columns = values.shape
        if n_columns == 0 or n == 0:
            raise DataError(f"X is empty ({n} rows, {n_columns} columns); nothing can be learnt from it")
        response = read_vector(y, n, "y")
        root_weights = _root_weights(weights, n)
        used = root_weights > 0
        if not used.all():
            values, response, root_weights = values[used], response[used], root_weights[used]
        self.n = len(response)
        if self.n < 3:
            positive = "" if used.all() else " of positive weight"
            raise DataError(f"X has {self.n} row{'s' * (self.n != 1)}{positive}; at least 3 are needed")
        always = (
            [] if always_include is None else find_columns(always_include, column_names, "always_include")
        )
        self.always_names = [column_names[i] for i in always]
        labels = _variable_labels(groups, column_names, always)

        with threadpool_limits(limits=1, user_api="blas"):  # the same bits whatever the machine has
            basis = _flat_basis(values[:, always], root_weights)
            self.nu = self.n - basis.shape[1]
            if self.nu < 2:
                raise DataError(
                    f"{self.n} rows leave {self.nu} degrees of freedom beside the intercept and the {len(always)} "
                    "always-included columns; at least 2 are needed: give more rows or include fewer columns"
                )
            self._read_response(response, root_weights, basis)
            candidates = np.setdiff1d(np.arange(n_columns), always)
            columns, kept = self._read_candidates(values, candidates, column_names, root_weights, basis)
            columns = self._read_variables(columns, kept, candidates, labels)
            variables = list(dict.fromkeys(labels[i] for i in candidates))
            parents = read_heredity(heredity, variables, self.names, self.always_names)
            self.columns_used = [column_names[i] for i in self._column_index]
            self.all_columns, self.has_names = column_names, has_names
            with np.errstate(all="ignore"):  # ratios of units that no number can hold become infinite
                self.flat = _flat_part(values, response, root_weights, always, self._column_index)
            self.duplicates = _find_duplicates(columns, self.columns_used)
            if self.duplicates:
                sets = _listed([" = ".join(group) for group in self.duplicates], 3, "; ")
                warnings.warn(
                    f"perfectly correlated columns, {_count(self.duplicates, 'set')}: {sets}. They are kept and share "
                    "their inclusion probability: read it for the set, not for each",
                    DataWarning,
                    stacklevel=2,
                )
            self._all_variables = len({labels[i] for i in candidates})
            self.slab = _without_excluded(self.slab, self._variable_index, self._all_variables)
            given: ModelPrior = (
                default_model_prior(self.p)
                if model_prior is None
                else _without_excluded(model_prior, self._variable_index, self._all_variables)
            )
            self.model_prior: ModelPrior | ConditionalPrior = (
                given if parents is None else given_parents(given, parents)
            )
            self.max_size = self.p if max_size is None else min(self.p, int(max_size))
            self._build_target(columns, engine)

    # --- reading
    # ------------------------------------------------------------------------------------------------------

    def _read_response(self, y: np.ndarray, root_weights: np.ndarray, basis: np.ndarray) -> None:
        power, top = float(_power_of_two(np.abs(y).max())), float(root_weights.max())
        scaled = y / power
        residual = _residual((scaled - scaled.mean()) * (root_weights / top), basis)
        length = float(np.linalg.norm(residual))
        if not length > 1e-12 * np.linalg.norm(scaled * (root_weights / top)):
            given = " given the always-included columns" if self.always_names else ""
            raise DataError(f"y is constant{given}; there is nothing to explain")
        self._y_scale = length * power * top
        if not SMALLEST < self._y_scale < LARGEST:
            raise DataError(
                f"y is too {'large' if self._y_scale > 1 else 'small'} to compute with (its largest absolute value is "
                f"{np.abs(y).max():g}); multiply it by a power of ten"
            )
        self._y = residual / length  # unit length: results do not depend on the units of y

    def _read_candidates(
        self,
        values: np.ndarray,
        candidates: np.ndarray,
        names: list[str],
        root_weights: np.ndarray,
        basis: np.ndarray,
    ) -> tuple[np.ndarray, list[int]]:
        """Weighted, scaled residuals of the candidate columns as rows (P, n), without those that are
        constant; and which columns of X they are."""
        raw = np.ascontiguousarray(values[:, candidates].T)
        power = _power_of_two(np.abs(raw).max(axis=1))
        raw /= power[:, None]  # so that no square can overflow
        top = root_weights.max()
        root = root_weights / top
        weights = root**2
        whole = np.sqrt(raw**2 @ weights)
        raw -= (raw @ weights / weights.sum())[:, None]  # also keeps the digits of columns with a large mean
        spread = np.sqrt(raw**2 @ weights / (weights.sum() * (self.n - 1) / self.n))
        columns = _residual(raw * root, basis)
        lengths = np.linalg.norm(columns, axis=1)
        alive = lengths > 1e-12 * whole
        self.excluded = {
            names[candidates[i]]: "constant"
            if spread[i] < 4e-12
            else "a combination of the always-included columns"
            for i in np.flatnonzero(~alive)
        }
        if self.excluded:
            why = _listed([f"{name!r} ({reason})" for name, reason in self.excluded.items()], 5, ", ")
            warnings.warn(
                f"left out {_count(self.excluded, 'column')} with nothing to add to the intercept and the "
                f"always-included columns: {why}",
                DataWarning,
                stacklevel=3,
            )
        if not alive.any():
            raise DataError(
                "every candidate column is constant or always included; there is nothing to select from"
            )
        kept = candidates[alive].tolist()
        columns = np.ascontiguousarray(columns[alive])
        self._scale_columns(
            columns, lengths[alive], spread[alive], power[alive], top, [names[i] for i in kept]
        )
        return columns, kept

    def _scale_columns(
        self,
        columns: np.ndarray,
        lengths: np.ndarray,
        spread: np.ndarray,
        power: np.ndarray,
        top: float,
        names: list[str],
    ) -> None:
        """Bring the columns, given in units of `power` and `top`, to the scale asked for, in place."""
        with np.errstate(over="ignore"):
            self._units = np.array([lengths * power * top, spread * power, np.ones(len(columns))])
            self.column_units = self._units[self._unit_kind()]
            if not isinstance(self.slab, IndependentNormal):
                columns /= lengths[:, None]
            elif self.scale == "unit":
                columns /= spread[:, None]
                columns *= top
            else:
                columns *= power[:, None]
                columns *= top
            squares = np.einsum("ij,ij->i", columns, columns)
        self._check_extents(squares, names)

    def _unit_kind(self) -> int:
        """Row of `_units`: length where only the span counts, else standard deviation, or as they are."""
        return (1 if self.scale == "unit" else 2) if isinstance(self.slab, IndependentNormal) else 0

    def _check_extents(self, squares: np.ndarray, names: list[str]) -> None:
        for extent in (self.column_units, squares):
            bad = np.flatnonzero(~((extent > SMALLEST) & (extent < LARGEST)))
            if bad.size:
                hint = ", or use scale='unit'" if self.scale == "none" else ""
                size, remedy = ("large", "divide") if extent[bad[0]] > 1 else ("small", "multiply")
                raise DataError(
                    f"X column {names[bad[0]]!r} (times the root of the weights) is too {size} to be squared; "
                    f"{remedy} it by a power of ten{hint}"
                )

    def _read_variables(
        self, columns: np.ndarray, kept: list[int], candidates: np.ndarray, labels: list[str]
    ) -> np.ndarray:
        """Names and offsets of the variables, and the columns in their order, those of a variable side by
        side."""
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
        self._units = self._units[:, order]
        self.column_units = self._units[self._unit_kind()]
        in_place = (np.diff(order) == 1).all()
        return columns if in_place else np.ascontiguousarray(columns[order])

    # --- what kernels see
    # -----------------------------------------------------------------------------------------------

    def _build_target(self, columns: np.ndarray, engine: str) -> None:
        n_columns = len(columns)
        fits = n_columns**2 * 8 <= GRAM_BYTES
        small = n_columns <= 2048 or self.n >= 256  # else a short dot product is cheaper than a far look-up
        self.engine: Literal["gram", "columns"] = (
            "gram" if engine == "gram" or (engine == "auto" and fits and small) else "columns"
        )
        gram = columns @ columns.T if self.engine == "gram" else np.zeros((0, 0))
        xty = columns @ self._y
        gram = np.ascontiguousarray((gram + gram.T) / 2)
        diagonal = (
            np.diagonal(gram).copy() if self.engine == "gram" else np.einsum("ij,ij->i", columns, columns)
        )
        if self.engine == "gram":
            columns = np.zeros((0, 0))
        self._set_target(gram, columns, diagonal, xty)

    def _set_target(
        self, gram: np.ndarray, columns: np.ndarray, diagonal: np.ndarray, xty: np.ndarray
    ) -> None:
        keys = np.random.Generator(np.random.PCG64DXSM(ZOBRIST_SEED)).integers(
            1, np.iinfo(np.uint64).max, size=self.p, dtype=np.uint64
        )
        links, terms = np.zeros(0, np.int64), np.zeros((0, 3))
        if isinstance(self.model_prior, ConditionalPrior):
            log_odds, log_size, links, terms = self.model_prior.kernel_terms()
        else:
            log_odds, log_size = self.model_prior.log_terms(self.p)
        slab = self._kernel_slab(len(diagonal))
        diagonal, xty, ridge, half_log_g = _side_by_side(diagonal, xty, slab.ridge, slab.half_log_g)
        offsets, keys, log_odds = _side_by_side(self.offsets, keys, log_odds)
        design = Design(
            gram=gram,
            columns=columns,
            diagonal=diagonal,
            xty=xty,
            offsets=offsets,
            keys=keys[: self.p],
        )
        prior = KernelPrior(
            log_odds[: self.p], np.ascontiguousarray(log_size, float), self.max_size, links, terms
        )
        self._target = Target(design, slab._replace(ridge=ridge, half_log_g=half_log_g), prior)
        self._lock = threading.Lock()

    def with_priors(self, slab: Slab | None = None, model_prior: ModelPrior | None = None) -> "Problem":
        """The same data under other priors; what is not given stays.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> wv.Problem(data.X, data.y, slab=wv.GPrior(47)).with_priors(slab=wv.HyperG())
        Problem(15 variables, 47 rows; HyperG(a=3.0), BetaBinomial(size=5.0), Gram engine)
        """
        new = copy.copy(self)
        if slab is not None:
            _check_bic(check_slab(slab), self.noise)
            new.slab = _without_excluded(slab, self._variable_index, self._all_variables)
        if model_prior is not None:
            prior = check_model_prior(model_prior)
            prior = _without_excluded(prior, self._variable_index, self._all_variables)
            old = self.model_prior
            new.model_prior = (
                given_parents(prior, old.parents) if isinstance(old, ConditionalPrior) else prior
            )
        design = self._target.design
        gram, columns, diagonal, xty = design.gram, design.columns, design.diagonal, design.xty
        if new._unit_kind() != self._unit_kind():
            new.column_units = new._units[new._unit_kind()]
            factor = self.column_units / new.column_units
            diagonal, xty = diagonal * factor**2, xty * factor
            gram = gram * factor * factor[:, None] if len(gram) else gram
            columns = columns * factor[:, None] if len(columns) else columns
            new._check_extents(diagonal, self.columns_used)
        new._set_target(gram, columns, diagonal, xty)
        return new

    def _kernel_slab(self, n_columns: int) -> KernelSlab:
        slab = self.slab
        a0, b0 = (self.noise.a, self.noise.b) if isinstance(self.noise, InverseGamma) else (0.0, 0.0)
        ridge, half_log_g = np.zeros(n_columns), np.zeros(n_columns)
        g, max_columns, code = 0.0, min(n_columns, self.nu - 1), codes.MIXTURE
        if isinstance(slab, IndependentNormal):
            by_variable = per_variable(slab.g, self.p, "IndependentNormal: g")
            by_column = np.repeat(by_variable, np.diff(self.offsets))
            ridge, half_log_g = 1.0 / by_column, 0.5 * np.log(by_column)
            code, max_columns = codes.INDEPENDENT, n_columns
        elif isinstance(slab, GPrior):
            code, g = codes.G_PRIOR, slab.value(self.n, self.p)
        elif isinstance(slab, LocalEmpiricalBayes):
            code = codes.EMPIRICAL_BAYES
        elif isinstance(slab, BIC):
            code = codes.BIC
        prior_rss = 2 * b0 / self._y_scale / self._y_scale  # y has unit length here
        if prior_rss > LARGEST:
            raise DataError(
                f"noise: b = {b0:g} is out of proportion to y (residual length {self._y_scale:g}); "
                "b has the units of y squared"
            )
        return KernelSlab(
            code=code,
            ridge=ridge,
            half_log_g=half_log_g,
            nu=float(self.nu + 2 * a0),
            s_null=1.0 + prior_rss,
            rows=float(self.n),
            g=float(g),
            max_columns=int(max_columns),
            table=np.zeros((1, 1, 2)),
        )

    def target(self, capacity: int) -> Target:
        """The target as kernels see it, good for models of up to `capacity` columns."""
        kind = MIXTURES.get(type(self.slab))
        with self._lock:
            table = self._target.slab.table
            widest = int(np.diff(self.offsets).max())  # a scan looks at models with one variable more
            rows = min(capacity + widest, self._target.slab.max_columns) + 1
            if kind is not None and len(table) < rows:
                a = getattr(self.slab, "a", 3.0)
                start = len(table) if table.shape[1] > 1 else 0
                more = mixture_table(kind, self._target.slab.nu, float(self.n), a, start, rows)
                table = np.ascontiguousarray(np.concatenate([table[:start], more]) if start else more)
                self._target = self._target._replace(slab=self._target.slab._replace(table=table))
            return self._target

    @property
    def max_columns(self) -> int:
        """Most columns a model can have: all, or ν − 1 where the slab needs full rank."""
        return self._target.slab.max_columns

    def first_capacity(self) -> int:
        """Columns a chain has room for at first; it grows as needed."""
        widest = int(np.diff(self.offsets).max())
        return int(min(max(32, 2 * widest), max(self.max_columns, 1) + widest))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        design, slab, prior = self._target  # as kernels were compiled for them
        diagonal, xty, ridge, half_log_g = _side_by_side(
            design.diagonal, design.xty, slab.ridge, slab.half_log_g
        )
        offsets, keys, log_odds = _side_by_side(self.offsets, design.keys, prior.log_odds)
        self._target = Target(
            design._replace(diagonal=diagonal, xty=xty, offsets=offsets, keys=keys[: self.p]),
            slab._replace(ridge=ridge, half_log_g=half_log_g),
            prior._replace(log_odds=log_odds[: self.p]),
        )

    def __repr__(self) -> str:
        engine = "Gram" if self.engine == "gram" else "column"
        always = f", {len(self.always_names)} always included" if self.always_names else ""
        return f"Problem({self.p} variables{always}, {self.n} rows; {self.slab}, {self.model_prior}, {engine} engine)"


# --- checks and helpers
# ----------------------------------------------------------------------------------------------------------


def _check_positions(X: Any, y: Any, others: tuple[Any, ...]) -> None:
    """What was given without a name: X and y, and nothing else."""
    if others:
        kind = (
            "model_prior"
            if isinstance(others[0], ModelPrior)
            else "slab"
            if isinstance(others[0], Slab)
            else "…"
        )
        raise ArgumentTypeError(
            f"Problem takes X and y by position and all else by name: write Problem(X, y, {kind}={others[0]!r})"
        )
    if y is None:
        together = hasattr(X, "X") and hasattr(X, "y")
        hint = (
            "this is a data set that holds both: write Problem(data.X, data.y)"
            if together
            else "write Problem(X, y)"
        )
        raise ArgumentTypeError(f"Problem needs the response y beside the columns X; {hint}")


def _check_choice(value: object, choices: tuple[str, ...], what: str) -> None:
    if not (isinstance(value, str) and value in choices):
        raise DataError(f"{what} must be {' or '.join(map(repr, choices))}, not {value!r}")


def _check_bic(slab: Slab, noise: Jeffreys | InverseGamma) -> None:
    if isinstance(slab, BIC) and isinstance(noise, InverseGamma):
        raise DataError(
            "BIC has no prior on the noise variance; use noise=Jeffreys(), or a slab such as GPrior('n')"
        )


def _check_max_size(value: object) -> None:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if value is not None and not (whole and value >= 1):  # type: ignore[operator]
        raise DataError(f"max_size must be a whole number of at least 1, not {value!r}")


def _root_weights(weights: Any, n: int) -> np.ndarray:
    if weights is None:
        return np.ones(n)
    vector = read_vector(weights, n, "weights")
    bad = np.flatnonzero(vector < 0)
    if bad.size:
        raise DataError(
            f"weights is negative in row {bad[0]} ({vector[bad[0]]:g}); weights are precisions and cannot be"
        )
    if not vector.any():
        raise DataError("all weights are zero; at least 3 rows need a positive weight")
    bad = np.flatnonzero((vector > 0) & (vector < WEIGHT_RATIO * vector.max()))
    if bad.size:
        raise DataError(
            f"weights is {vector[bad[0]]:g} in row {bad[0]}, nothing beside the largest, {vector.max():g}; set it to 0 to leave the row out"
        )
    return np.sqrt(vector)


def _variable_labels(groups: Any, names: list[str], always: list[int]) -> list[str]:
    """The variable each column belongs to: its group, or itself."""
    if groups is None:
        return names
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise ArgumentTypeError(
            f"groups must be a mapping from names to columns, or a list of one label per column; not {groups!r}"
        )
    if not isinstance(groups, Mapping):
        labels = [str(label) for label in groups]
        if len(labels) != len(names):
            raise DataError(
                f"groups has {len(labels)} labels but X has {len(names)} columns; give one label per column"
            )
        return labels
    check_unique([str(group) for group in groups], "names of groups")
    owner: dict[int, str] = {}
    for group, members in groups.items():
        indices = find_columns(members, names, f"groups[{group!r}]")
        if not indices:
            raise DataError(f"groups[{group!r}] holds no column; name at least one or leave the group out")
        for i in indices:
            if i in owner:
                raise DataError(
                    f"groups: column {names[i]!r} is in both {owner[i]!r} and {str(group)!r}; a column has one group"
                )
            if i in always:
                raise DataError(
                    f"groups[{group!r}]: column {names[i]!r} is always included, so it cannot be in a group"
                )
            owner[i] = str(group)
    taken = set(owner.values())
    for i, name in enumerate(names):
        if i not in owner and name in taken:
            raise DataError(f"groups: {name!r} is the name of a group and of a column outside it; rename one")
    return [owner.get(i, name) for i, name in enumerate(names)]


def _without_excluded(prior: Any, kept: list[int], count: int) -> Any:
    """`prior`, where it has one value for each of `count` variables, with those of the `kept` alone."""
    for name in ("h", "g"):
        value = getattr(prior, name, None)
        if isinstance(value, tuple) and len(value) == count > len(kept):
            return replace(prior, **{name: [value[i] for i in kept]})
    return prior


def _power_of_two(largest: np.ndarray) -> np.ndarray:
    """The power of two at or just below each of these numbers: dividing by it is exact."""
    return np.ldexp(1.0, np.frexp(largest)[1] - 1)


def _flat_basis(always: np.ndarray, root_weights: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the weighted intercept and always-included columns, shape (n, rank)."""
    root = root_weights / root_weights.max()
    weights = root**2
    scaled = always / _power_of_two(np.abs(always).max(axis=0))
    centred = scaled - weights @ scaled / weights.sum()
    flat = np.column_stack([root, root[:, None] * centred])
    lengths = np.linalg.norm(flat, axis=0)
    varies = lengths > 1e-12 * lengths[0]
    left, singular, _ = np.linalg.svd(flat[:, varies] / lengths[varies], full_matrices=False)
    return left[:, singular > 1e-10 * singular[0]]


def _flat_part(
    values: np.ndarray, y: np.ndarray, root_weights: np.ndarray, always: list[int], candidates: list[int]
) -> FlatPart:
    top = float(root_weights.max())
    root = root_weights / top
    share = root**2 / (root @ root)
    x_mean = (share @ values)[candidates]
    y_mean = float(share @ y)
    raw = values[:, always]
    power = _power_of_two(np.abs(raw).max(axis=0))
    centred = root[:, None] * (raw / power - share @ (raw / power))
    basis, chosen = np.zeros((len(y), 0)), []
    for i in range(len(always)):
        left = _residual(centred[:, i], basis)
        length = np.linalg.norm(left)
        if length > 1e-10 * np.linalg.norm(root * raw[:, i] / power[i]):
            basis = np.column_stack([basis, left / length])
            chosen.append(i)
    power, z_mean = power[chosen], share @ raw[:, chosen]
    triangle = basis.T @ centred[:, chosen]
    x_on_z = np.zeros((len(chosen), len(candidates)))
    if chosen:
        x = values[:, candidates] - x_mean
        x_on_z = np.linalg.solve(triangle, (basis * root[:, None]).T @ x) / power[:, None]
    return FlatPart(
        mean_variance=float(1 / (root @ root) / top / top),
        y_mean=y_mean,
        x_mean=x_mean,
        z_index=[always[i] for i in chosen],
        z_mean=z_mean,
        z_root=np.linalg.inv(triangle) / power[:, None] / top,
        y_on_z=np.linalg.solve(triangle, basis.T @ (root * (y - y_mean))) / power,
        x_on_z=x_on_z,
    )


def _residual(rows: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Rows less their projection, twice: the second time takes out the rounding error of the first."""
    for _ in range(2):
        rows = rows - (rows @ basis) @ basis.T
    return rows


def check_problem(problem: object, caller: str) -> None:
    """TypeError that says what to write where something else than a Problem was given."""
    if not isinstance(problem, Problem):
        raise ArgumentTypeError(
            f"{caller}() needs a Problem first, not {type(problem).__name__}; write {caller}(Problem(X, y))"
        )


def _side_by_side(*arrays: np.ndarray) -> list[np.ndarray]:
    """The same vectors as strided views of one table of 32 bytes a row, as long as the longest.

    A kernel that meets a variable for the first time in a while wants all of them: one line of memory instead of four.
    """
    fields = [(str(i), a.dtype) for i, a in enumerate(arrays)] + [
        (f"unused{i}", np.float64) for i in range(4 - len(arrays))
    ]
    table = np.zeros(max(map(len, arrays)), dtype=fields)
    for i, array in enumerate(arrays):
        table[str(i)][: len(array)] = array
    return [table[str(i)] for i in range(len(arrays))]


def _find_duplicates(columns: np.ndarray, names: list[str]) -> list[list[str]]:
    """Sets of columns with |correlation| 1, by sorting their products with one random direction."""
    lengths = np.linalg.norm(columns, axis=1)
    direction = np.random.Generator(np.random.PCG64DXSM(ZOBRIST_SEED)).standard_normal(columns.shape[1])
    shadow = np.abs(columns @ direction) / lengths
    order = np.argsort(shadow, kind="stable")
    sets: list[list[int]] = []
    for place in np.flatnonzero(np.diff(shadow[order]) < 1e-8):
        a, b = int(order[place]), int(order[place + 1])
        if abs(columns[a] @ columns[b]) > (1 - 1e-12) * lengths[a] * lengths[b]:
            if sets and sets[-1][-1] == a:
                sets[-1].append(b)
            else:
                sets.append([a, b])
    return [[names[i] for i in sorted(group)] for group in sorted(map(sorted, sets))]


def _listed(items: list[str], most: int, separator: str) -> str:
    return separator.join(items[:most] + ["…"] * (len(items) > most))


def _count(items: Sized, noun: str) -> str:
    return f"1 {noun}" if len(items) == 1 else f"{len(items)} {noun}s"
