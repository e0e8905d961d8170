"""A ``Problem``: data and priors, brought to the one form that kernels see, and fixed from then on.

The intercept and the always-included columns have flat priors and are integrated out exactly: y and every
column are replaced by their (weighted) residuals on them, and n by the residual degrees of freedom ν. Kernels
never see them again.
"""

import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from whichvars._kernels import target as codes
from whichvars._kernels.target import Design, Target
from whichvars._kernels.target import ModelPrior as KernelPrior
from whichvars._kernels.target import Slab as KernelSlab
from whichvars.errors import DataError, DataWarning
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
ZOBRIST_SEED = 20141220  # of the keys of models; fixed, so that a run depends on its own seed alone


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
        Names of the columns of X, where X does not bring them.
    groups : mapping from a name to columns, or one label per column
        Columns that enter and leave together (the dummies of a factor): one variable each.
    engine : "auto", "gram" or "columns"
        Keep XᵀX (p² numbers), or the columns and take products as they are needed.

    Attributes
    ----------
    names : list of str
        The p variables that can be in or out.
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
    Problem(15 variables, 47 rows; GPrior(g=47.0), FixedInclusion(h=0.5, size=None), Gram engine)
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        slab: Slab | None = None,
        model_prior: ModelPrior | None = None,
        noise: Jeffreys | InverseGamma | None = None,
        scale: Literal["unit", "none"] = "unit",
        always_include: Any = None,
        weights: Any = None,
        max_size: int | None = None,
        names: Sequence[str] | None = None,
        groups: Mapping[str, Any] | Sequence[Any] | None = None,
        engine: Literal["auto", "gram", "columns"] = "auto",
    ) -> None:
        self.slab = check_slab(IndependentNormal() if slab is None else slab)
        self.noise = check_noise(Jeffreys() if noise is None else noise)
        if isinstance(self.slab, BIC) and isinstance(self.noise, InverseGamma):
            raise DataError(
                "BIC has no prior on the noise variance; use noise=Jeffreys(), or a slab such as GPrior('n')"
            )
        _check_choice(scale, ("unit", "none"), "scale")
        _check_choice(engine, ("auto", "gram", "columns"), "engine")
        self.scale = scale

        values, column_names, _ = read_columns(X)
        if names is not None:
            column_names = [str(name) for name in names]
            if len(column_names) != values.shape[1]:
                raise DataError(f"names has {len(column_names)} entries but X has {values.shape[1]} columns")
            check_unique(column_names, "names")
        n, n_columns = values.shape
        if n_columns == 0 or n == 0:
            raise DataError(f"X is empty ({n} rows, {n_columns} columns); nothing can be learnt from it")
        response = read_vector(y, n, "y")
        root_weights = _root_weights(weights, n)
        used = root_weights > 0
        values, response, root_weights = values[used], response[used], root_weights[used]
        self.n = len(response)
        if self.n < 3:
            raise DataError(
                f"there are {self.n} rows{' of positive weight' if weights is not None else ''}; at least 3 are needed"
            )

        always = (
            find_columns(always_include, column_names, "always_include") if always_include is not None else []
        )
        self.always_names = [column_names[i] for i in always]
        basis = _flat_basis(values[:, always], root_weights)
        self.nu = self.n - basis.shape[1]
        if self.nu < 2:
            raise DataError(
                f"{self.n} rows leave {self.nu} degrees of freedom beside the intercept and {len(always)} always-included "
                "columns; at least 2 are needed"
            )
        self._read_response(response * root_weights, basis)
        candidates = [i for i in range(n_columns) if i not in set(always)]
        columns, kept = self._read_candidates(values, candidates, column_names, root_weights, basis)
        self._read_groups(groups, kept, column_names, candidates)
        self.columns_used = [column_names[i] for i in self._column_index]
        self.duplicates = _find_duplicates(columns, self.columns_used)
        if self.duplicates:
            shown = "; ".join(" = ".join(group) for group in self.duplicates[:3])
            warnings.warn(
                f"{len(self.duplicates)} sets of columns are perfectly correlated ({shown}{'; …' if len(self.duplicates) > 3 else ''}). "
                "They are kept and share their inclusion probability: read it for the set, not for each",
                DataWarning,
                stacklevel=2,
            )
        self.p = len(self.names)
        self.model_prior = check_model_prior(
            default_model_prior(self.p) if model_prior is None else _subset(model_prior, self._variable_index)
        )
        if max_size is not None and (
            isinstance(max_size, bool) or not isinstance(max_size, (int, np.integer)) or max_size < 1
        ):
            raise DataError(f"max_size must be a whole number of at least 1, not {max_size!r}")
        self.max_size = min(self.p, self.p if max_size is None else int(max_size))
        self._build_target(columns, engine)

    # --- reading
    # ------------------------------------------------------------------------------------------------------

    def _read_response(self, weighted: np.ndarray, basis: np.ndarray) -> None:
        largest = np.abs(weighted).max()
        residual = _residual(weighted[:, None] / (largest or 1.0), basis)[:, 0]
        if not np.linalg.norm(residual) > 1e-12 * np.sqrt(self.n):
            raise DataError(
                "y is constant"
                + (" given the always-included columns" if self.always_names else "")
                + "; there is nothing to explain"
            )
        self._y_scale = float(np.linalg.norm(residual)) * float(largest)
        self._y = residual / np.linalg.norm(residual)  # unit length: results do not depend on the units of y

    def _read_candidates(
        self,
        values: np.ndarray,
        candidates: list[int],
        names: list[str],
        root_weights: np.ndarray,
        basis: np.ndarray,
    ) -> tuple[np.ndarray, list[int]]:
        """Weighted, scaled residuals of the candidate columns as rows (P, n), without those that are
        constant."""
        raw = np.ascontiguousarray(values[:, candidates].T)
        largest = np.abs(raw).max(axis=1)
        largest[largest == 0] = 1.0
        raw /= largest[:, None]  # so that no square can overflow
        weights = root_weights**2
        means = raw @ weights / weights.sum()
        with np.errstate(under="ignore"):
            variances = ((raw - means[:, None]) ** 2) @ weights / (weights.sum() * (self.n - 1) / self.n)
        spread = np.sqrt(variances)
        raw *= root_weights
        lengths = np.linalg.norm(raw, axis=1)
        columns = _residual(raw.T, basis).T
        residual_lengths = np.linalg.norm(columns, axis=1)
        alive = residual_lengths > 1e-12 * lengths
        self.excluded = {
            names[candidates[i]]: "constant"
            if spread[i] <= 1e-12
            else "a combination of the always-included columns"
            for i in np.flatnonzero(~alive)
        }
        if self.excluded:
            listed = ", ".join(f"{name!r} ({why})" for name, why in list(self.excluded.items())[:5])
            warnings.warn(
                f"{len(self.excluded)} columns cannot be told from the intercept or the always-included ones and are left out: "
                f"{listed}{', …' if len(self.excluded) > 5 else ''}",
                DataWarning,
                stacklevel=3,
            )
        if not alive.any():
            raise DataError(
                "every candidate column is constant or always included; there is nothing to select from"
            )
        # unit: x / sd. none: x. R² family: unit length, as only the span counts
        if not isinstance(self.slab, IndependentNormal):
            units = residual_lengths * largest
            columns = columns[alive] / residual_lengths[alive, None]
        elif self.scale == "unit":
            units = spread * largest
            columns = columns[alive] / spread[alive, None]
        else:
            units = np.ones(len(candidates))
            columns = columns[alive] * largest[alive, None]
        self.column_units = units[alive]
        if not np.isfinite(columns).all() or not np.isfinite((columns**2).sum(axis=1)).all():
            worst = names[candidates[int(np.flatnonzero(alive)[np.argmax(np.abs(columns).max(axis=1))])]]
            raise DataError(
                f"column {worst!r} is too large to be squared; use scale='unit', or divide it by a power of ten"
            )
        return np.ascontiguousarray(columns), [candidates[i] for i in np.flatnonzero(alive)]

    def _read_groups(self, groups: Any, kept: list[int], names: list[str], candidates: list[int]) -> None:
        """Names, offsets and column order of the variables: one column each, or as `groups` says."""
        label: dict[int, str] = {i: names[i] for i in candidates}
        if isinstance(groups, Mapping):
            owner: dict[int, str] = {}
            for name, members in groups.items():
                for i in find_columns(members, names, f"groups[{name!r}]"):
                    if i in owner:
                        raise DataError(f"groups: column {names[i]!r} is in both {owner[i]!r} and {name!r}")
                    if i not in label:
                        raise DataError(
                            f"groups[{name!r}]: column {names[i]!r} is always included, so it cannot be in a group"
                        )
                    owner[i] = label[i] = str(name)
        elif groups is not None:
            labels = [str(g) for g in groups]
            if len(labels) != len(names):
                raise DataError(
                    f"groups has {len(labels)} labels but X has {len(names)} columns; give one label per column"
                )
            label = {i: labels[i] for i in candidates}
        all_variables = list(dict.fromkeys(label[i] for i in candidates))
        members_of: dict[str, list[int]] = {}
        for place, i in enumerate(kept):
            members_of.setdefault(label[i], []).append(place)
        self.names = [name for name in all_variables if name in members_of]
        single = {label[i] for i in candidates if label[i] == names[i]}
        clash = [
            name
            for name in members_of
            if name in single and len(members_of[name]) > 1 and groups is not None and name in names
        ]
        if clash:
            raise DataError(
                f"groups: {clash[0]!r} is the name of a group and of a column outside it; rename one"
            )
        self._variable_index = (
            [all_variables.index(name) for name in self.names]
            if len(self.names) < len(all_variables)
            else None
        )
        places = [place for name in self.names for place in members_of[name]]
        self._places = None if places == list(range(len(kept))) else np.array(places)
        self._column_index = [kept[place] for place in places]
        widths = [len(members_of[name]) for name in self.names]
        self.offsets = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)

    # --- what kernels see
    # -----------------------------------------------------------------------------------------------

    def _build_target(self, columns: np.ndarray, engine: str) -> None:
        if self._places is not None:
            columns = np.ascontiguousarray(columns[self._places])
            self.column_units = self.column_units[self._places]
        n_columns = len(columns)
        fits = n_columns**2 * 8 <= GRAM_BYTES
        small = (
            n_columns <= 2048 or self.n >= 256
        )  # short columns: a dot product is cheaper than a far look-up
        self.engine: Literal["gram", "columns"] = (
            "gram" if engine == "gram" or (engine == "auto" and fits and small) else "columns"
        )
        with threadpool_limits(limits=1, user_api="blas"):  # the same bits whatever the machine has
            gram = columns @ columns.T if self.engine == "gram" else np.zeros((0, 0))
            xty = columns @ self._y
        gram = np.ascontiguousarray((gram + gram.T) / 2)
        diagonal = (
            np.diagonal(gram).copy() if self.engine == "gram" else np.einsum("ij,ij->i", columns, columns)
        )
        keys = np.random.Generator(np.random.PCG64DXSM(ZOBRIST_SEED)).integers(
            1, np.iinfo(np.uint64).max, size=self.p, dtype=np.uint64
        )
        design = Design(
            gram, columns if self.engine == "columns" else np.zeros((0, 0)), diagonal, xty, self.offsets, keys
        )
        log_odds, log_size = self.model_prior.log_terms(self.p)
        prior = KernelPrior(
            np.ascontiguousarray(log_odds, float), np.ascontiguousarray(log_size, float), self.max_size
        )
        self._target = Target(design, self._kernel_slab(n_columns), prior)
        self._lock = threading.Lock()

    def _kernel_slab(self, n_columns: int) -> KernelSlab:
        slab = self.slab
        a0, b0 = (self.noise.a, self.noise.b) if isinstance(self.noise, InverseGamma) else (0.0, 0.0)
        ridge, half_log_g = np.zeros(n_columns), np.zeros(n_columns)
        g, max_columns, code = 0.0, min(n_columns, self.nu - 1), codes.MIXTURE
        if isinstance(slab, IndependentNormal):
            subset = _subset(slab, self._variable_index)
            by_variable = per_variable(subset.g, self.p, "IndependentNormal: g")
            by_column = np.repeat(by_variable, np.diff(self.offsets))
            ridge, half_log_g = 1.0 / by_column, 0.5 * np.log(by_column)
            code, max_columns = codes.INDEPENDENT, n_columns
        elif isinstance(slab, GPrior):
            code, g = codes.G_PRIOR, slab.value(self.n, self.p)
        elif isinstance(slab, LocalEmpiricalBayes):
            code = codes.EMPIRICAL_BAYES
        elif isinstance(slab, BIC):
            code = codes.BIC
        return KernelSlab(
            code=code,
            ridge=ridge,
            half_log_g=half_log_g,
            nu=float(self.nu + 2 * a0),
            s_null=1.0 + 2 * b0 / self._y_scale**2,
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
            rows = min(capacity, self._target.slab.max_columns) + 1
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

    def __repr__(self) -> str:
        engine = "Gram" if self.engine == "gram" else "column"
        always = f", {len(self.always_names)} always included" if self.always_names else ""
        return f"Problem({self.p} variables{always}, {self.n} rows; {self.slab}, {self.model_prior}, {engine} engine)"


def _check_choice(value: object, choices: tuple[str, ...], what: str) -> None:
    if value not in choices:
        raise DataError(f"{what} must be {' or '.join(map(repr, choices))}, not {value!r}")


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
    return np.sqrt(vector)


def _flat_basis(always: np.ndarray, root_weights: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the weighted intercept and always-included columns, shape (n, rank)."""
    flat = np.column_stack([np.ones(len(root_weights)), always])
    flat = flat / np.abs(flat).max(axis=0, initial=0, where=np.isfinite(flat)).clip(min=np.finfo(float).tiny)
    flat[:, 1:] -= flat[:, 1:].mean(axis=0)
    lengths = np.linalg.norm(flat, axis=0)
    flat = flat[:, lengths > 1e-12 * np.sqrt(len(flat))] * root_weights[:, None]
    left, singular, _ = np.linalg.svd(flat / np.linalg.norm(flat, axis=0), full_matrices=False)
    return left[:, singular > 1e-10 * singular[0]]


def _residual(columns: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Columns less their projection, twice: the second time takes out the rounding error of the first."""
    for _ in range(2):
        columns = columns - basis @ (basis.T @ columns)
    return columns


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


def _subset(prior: Any, kept: list[int] | None) -> Any:
    """A prior given per variable, without the values of the variables that were left out."""
    for name in ("h", "g"):
        value = getattr(prior, name, None)
        if kept is not None and isinstance(value, tuple) and len(value) > max(kept):
            return type(prior)(**{name: [value[i] for i in kept]})
    return prior
