r"""Coefficients within models, and averaged over models.

In one model, with the flat part integrated out (docs/mathematics.md, "The model"), G = X_γᵀX_γ and c = X_γᵀy of
the residual columns, s the scale of the noise variance and d its degrees of freedom, σ² is scaled-inverse-χ²(d, s) and

.. math:: \beta_\gamma \mid \gamma, y \sim t_d(q\, b,\; s\, t\, V)

===================== ======================= ============ ============ ======================== ======
slab                  V                       b            q, t         s                        d
===================== ======================= ============ ============ ======================== ======
independent           (G + diag(1/g))⁻¹       V c          1, 1         (S₀ − bᵀc)/d             ν
g-prior               G⁻¹                     V c          g/(1 + g)    (S₀ − q bᵀc)/d           ν
local empirical Bayes the g-prior's at ĝ, as if it were known
mixtures of g         the g-prior's, averaged over p(g | y, γ) by quadrature
BIC                   G⁻¹                     V c          1, 1         (S₀ − bᵀc)/d             ν − k
===================== ======================= ============ ============ ======================== ======

so that BIC's are least squares with their usual standard errors, and local empirical Bayes ignores that ĝ was
estimated. An inverse gamma prior on σ² adds 2a to ν and 2b to S₀. Where σ² is known, s is that, d is infinite, and t is normal.

The intercept and the always-included coefficients, like a mean of y at new values of the columns, are linear
in (flat part, β): given the flat prior they are t with the same s and d (`Functionals`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import expit

from whichvars._kernels import evidence as codes
from whichvars._kernels.evidence import SMALLEST_RESIDUAL, SMALLEST_TOLERANCE
from whichvars.errors import DataError
from whichvars.posterior.t_mixture import TMixture, heaviest, t_cdf, t_variance
from whichvars.problem.columns import gram_of
from whichvars.problem.mixtures import nodes_between, where_large
from whichvars.problem.problem import Problem
from whichvars.problem.target import MIXTURES

INTERCEPT = "(intercept)"
BATCH_BYTES = 64 << 20  # of the Gram matrices, columns or nodes looked at together
HELD_BYTES = 256 << 20  # of the posteriors of all models, held for a second look
# Nodes of g. The trapezoid rule in log g ends where the density of log g is exp(−drop) of its maximum, and its error is of
# that order too if the step is at most STEP_TIMES_DROP / drop, for the tails (less under priors that end like
# exp(−exp(·))), and STEP_IN_SDS / √drop standard deviations of a normal density as sharp as the peak. `drop` is DROP plus the
# logarithm of what models no heavier weigh together: what counts for little need not be as accurate.
DROP, LEAST_DROP, DROP_STEP = 25.5, 11.0, 4.0
STEP_TIMES_DROP = {"hyper-g": 10.8, "hyper-g/n": 10.8, "zellner-siow": 9.0}
STEP_IN_SDS = (
    3.4  # 4.4 for the normal density itself: its Fourier transform is exp(−drop) at 2π over the step
)
FEW_MODELS, WASTE = (
    64,
    1.1,
)  # models that share a number of nodes: so many, or within this factor of what they need
SPAN_POINTS = (
    65  # values of R² for which the ends of the rule are looked for, where there are many more models
)


@dataclass(frozen=True)
class KeptModels:
    """A sample of the posterior over models: each model once, with its weight."""

    members: np.ndarray  # int32: the variables of all models, one model after the other, sorted within each
    start: np.ndarray  # (models + 1,) int64: where each begins
    weight: np.ndarray  # (models,); sum to one
    # (replicates, models): the weights that each replicate gives them, whose mean is `weight`; None if exact, or not known
    by_replicate: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.weight)

    def model(self, i: int) -> tuple[int, ...]:
        """The variables of one model."""
        return tuple(self.members[self.start[i] : self.start[i + 1]].tolist())

    def having(self, variable: int) -> np.ndarray:
        """Which models have the variable, (models,) bool."""
        ends = np.flatnonzero(self.members == variable)
        found = np.zeros(len(self), bool)
        found[np.searchsorted(self.start, ends, side="right") - 1] = True
        return found

    def error(self, values: np.ndarray) -> Any:
        """Monte Carlo standard error of Σ weight · values, from how much replicates differ.

        Shapes (models,) → a number, (models, q) → (q,). NaN with fewer than two replicates.
        """
        if self.by_replicate is None:
            return np.full(values.shape[1:], np.nan)[()]
        return standard_error(self.by_replicate @ values)

    @classmethod
    def listed(cls, models: list[tuple[int, ...]]) -> "KeptModels":
        """Models in the order given, all with the same weight."""
        start = np.concatenate([[0], np.cumsum([len(m) for m in models], dtype=np.int64)])
        members = np.array([j for m in models for j in m], np.int32)
        return cls(members, start, np.full(len(models), 1 / max(len(models), 1)))

    @classmethod
    def of_rows(cls, rows: sparse.csr_array) -> "KeptModels":
        """The rows of a sparse matrix of booleans, (models, p), all with the same weight; a model may occur repeatedly."""
        n = rows.shape[0]
        return cls(rows.indices.astype(np.int32), rows.indptr.astype(np.int64), np.full(n, 1 / max(n, 1)))

    @classmethod
    def of(cls, weights: dict[tuple[int, ...], float]) -> "KeptModels":
        """From members → weight; the heaviest first."""
        return cls._ordered({m: np.array([w], float) for m, w in weights.items()})._without_replicates()

    @classmethod
    def of_replicates(cls, weights: dict[tuple[int, ...], np.ndarray]) -> "KeptModels":
        """From members → weight in each replicate, (replicates,), all of which count the same; the heaviest first."""
        return cls._ordered(weights)

    @classmethod
    def _ordered(cls, weights: dict[tuple[int, ...], np.ndarray]) -> "KeptModels":
        order = sorted(weights, key=lambda m: (-float(weights[m].sum()), m))
        by_replicate = np.array([weights[m] for m in order], float).T
        by_replicate = by_replicate[by_replicate.sum(axis=1) > 0]  # one that has counted nothing says nothing
        by_replicate /= by_replicate.sum(axis=1, keepdims=True)
        sizes = np.array([len(m) for m in order], np.int64)
        members = np.array([j for m in order for j in sorted(m)], np.int32)
        start = np.concatenate([[0], np.cumsum(sizes)])
        return cls(members, start, by_replicate.mean(axis=0), np.ascontiguousarray(by_replicate))

    def _without_replicates(self) -> "KeptModels":
        return KeptModels(self.members, self.start, self.weight)

    def reweighted(self, ratio: np.ndarray) -> "KeptModels":
        """The models with weights in proportion to weight · ratio, (models,); those without any are left out."""
        left = np.flatnonzero((ratio > 0) & (self.weight > 0))
        sizes = np.diff(self.start)
        inside = np.zeros(len(self), bool)
        inside[left] = True
        start = np.concatenate([[0], np.cumsum(sizes[left])])
        weight = self.weight[left] * ratio[left]
        total = weight.sum()
        new = None if self.by_replicate is None else self.by_replicate[:, left] * ratio[left] / total
        return KeptModels(self.members[np.repeat(inside, sizes)], start, weight / total, new)


def standard_error(means: np.ndarray) -> Any:
    """Standard error of the mean of independent runs, from their means, (replicates, …); NaN with fewer than two."""
    if len(means) < 2:
        return np.full(means.shape[1:], np.nan)[()]
    return means.std(axis=0, ddof=1) / np.sqrt(len(means))


class Fits(NamedTuple):
    """The posteriors of m models of k columns each, over J values of g (J = 1 but for mixtures), in the units
    in which the problem computes."""

    models: np.ndarray  # (m,): which of the kept models
    columns: np.ndarray  # (m, k)
    weight: np.ndarray  # (m,)
    b: np.ndarray  # (m, k)
    V: np.ndarray  # (m, k, k)
    node_weight: np.ndarray  # (m, J)
    q: np.ndarray  # (m, J): shrinkage of b
    t: np.ndarray  # (m, J): of V
    s: np.ndarray  # (m, J): scale of the noise variance
    degrees: float


class Functionals(NamedTuple):
    """R linear functions of the coefficients, written so that the flat part is independent of β: their
    posterior given the model has location `centre` + y_scale·q·rowᵀb and squared scale y_scale²·s·(`variance` +
    t·rowᵀV row)."""

    centre: np.ndarray  # (R,)
    variance: np.ndarray  # (R,)
    row: np.ndarray  # (R, C)
    columns: np.ndarray  # (C,) the columns of the problem that `row` is about, ascending; it is 0 elsewhere

    def some(self, rows: slice) -> "Functionals":
        return Functionals(self.centre[rows], self.variance[rows], self.row[rows], self.columns)


def functionals(
    problem: Problem, intercept: np.ndarray, z: np.ndarray, x: np.ndarray, columns: np.ndarray | None = None
) -> Functionals:
    """Those of intercept·ᾱ + zᵀδ + xᵀβ, ᾱ the intercept of centred columns. Shapes (R,), (R, q), (R, C); `columns`
    says which C columns are meant where it is not all P: those of all models that will be asked."""
    flat, columns = problem.flat, np.arange(len(problem.columns_used)) if columns is None else columns
    return Functionals(
        centre=intercept * flat.y_mean + z @ flat.y_on_z,
        variance=intercept**2 * flat.mean_variance + ((z @ flat.z_root) ** 2).sum(axis=1),
        row=(x - z @ flat.x_on_z[:, columns]) / problem.column_units[columns],
        columns=columns,
    )


def columns_of(problem: Problem, members: np.ndarray) -> np.ndarray:
    """The columns of the variables."""
    offsets = problem.offsets
    if not len(members):
        return np.zeros(0, np.int64)
    return np.concatenate([np.arange(offsets[j], offsets[j + 1]) for j in members])


def batches(problem: Problem, kept: KeptModels) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Which models (m,) and their columns (m, k): models of equally many columns together, as many as
    BATCH_BYTES allows."""
    widths = np.diff(problem.offsets)
    cumulated = np.concatenate([[0], np.cumsum(widths[kept.members])])
    n_columns = cumulated[kept.start[1:]] - cumulated[kept.start[:-1]]
    if (widths == 1).all():
        flat_columns, begin = kept.members.astype(np.int64), kept.start[:-1]
    else:
        flat_columns, begin = columns_of(problem, kept.members), cumulated[kept.start[:-1]]
    long = 1 if problem.engine == "gram" else problem.n
    for k in np.unique(n_columns):
        chosen = np.flatnonzero(n_columns == k)
        room = max(1, int(BATCH_BYTES // (8 * max(k * max(3 * k, long), 1000))))
        for first in range(0, len(chosen), room):
            index = chosen[first : first + room]
            yield index, flat_columns[begin[index][:, None] + np.arange(k)]


def precisions(problem: Problem, columns: np.ndarray) -> np.ndarray:
    """XᵀX of each model's columns (m, k), for the independent slab with its ridge: (m, k, k)."""
    design, slab = problem.target(0).design, problem.target(0).slab
    gram = gram_of(design, columns)
    if slab.code == codes.INDEPENDENT:
        places = np.arange(columns.shape[1])
        gram[:, places, places] += slab.ridge[columns]
    return gram


def full_rank(problem: Problem, inverse: np.ndarray) -> np.ndarray:
    """Which of the models with these (XᵀX)⁻¹, (m, k, k), have columns that the slab can tell apart, (m,)."""
    if problem.target(0).slab.code == codes.INDEPENDENT:
        return np.ones(len(inverse), bool)
    diagonal = np.einsum("mkk->mk", inverse)  # columns have unit length: 1/(1 − R² of one on the others)
    return ((diagonal > 0) & (diagonal < 10 / SMALLEST_TOLERANCE)).all(axis=1)


def fits(
    problem: Problem, kept: KeptModels, *, drop: float = DROP, least_drop: float = LEAST_DROP
) -> Iterator[Fits]:
    """The posterior of every kept model, those with equally many columns and values of g together. With mixtures of g the
    error of averages over models is of the order of exp(−drop), and of one model's average over g exp(−least_drop)
    (see DROP)."""
    drops = _drops(kept.weight, drop, least_drop) if type(problem.slab) in MIXTURES else None
    for index, columns in batches(problem, kept):
        yield from _fit(problem, index, columns, kept.weight[index], None if drops is None else drops[index])


def _drops(weight: np.ndarray, most: float, least: float) -> np.ndarray:
    """The `drop` of each model (see DROP), (models,): one of a few values, so that many share it."""
    order = np.argsort(weight, kind="stable")
    lighter = np.empty(len(weight))
    lighter[order] = np.cumsum(weight[order])  # itself included
    with np.errstate(divide="ignore", invalid="ignore"):
        less = -np.log(lighter / lighter.max(initial=0.0))
    less = np.where(np.isnan(less), 0.0, less)
    return most - DROP_STEP * np.floor(np.clip(less, 0.0, max(most - least, 0.0)) / DROP_STEP)


class Refits:
    """``fits`` that can be gone through again and again, worked out anew each time: for more models than memory
    should hold."""

    def __init__(self, problem: Problem, kept: KeptModels) -> None:
        self._what = problem, kept

    def __iter__(self) -> Iterator[Fits]:
        return fits(*self._what)


def held_fits(problem: Problem, kept: KeptModels) -> "list[Fits] | Refits":
    """``fits`` to go through more than once: a list if that takes no more than HELD_BYTES."""
    k = np.diff(kept.start) * int(np.diff(problem.offsets).max())
    nodes = 60 if type(problem.slab) in MIXTURES else 1
    again = Refits(problem, kept)
    return list(again) if 8 * float((k * k + 3 * k + 4 * nodes).sum()) <= HELD_BYTES else again


def _fit(
    problem: Problem, index: np.ndarray, columns: np.ndarray, weight: np.ndarray, drop: np.ndarray | None
) -> Iterator[Fits]:
    """Of models of equally many columns; `drop` as by ``_drops``, for mixtures of g."""
    design, slab = problem.target(0).design, problem.target(0).slab
    m, k = columns.shape
    independent = slab.code == codes.INDEPENDENT
    if k > problem.max_columns:
        raise DataError(
            f"a model of {k} columns has no posterior under {problem.slab}: at most {problem.max_columns} are possible with {problem.n} rows"
        )
    gram, right = precisions(problem, columns), design.xty[columns]
    try:
        V = np.linalg.inv(gram)
        singular = not full_rank(problem, V).all()
    except np.linalg.LinAlgError:
        singular = True
    if singular:
        raise DataError(
            f"a model has collinear columns, and so no posterior of its own under {problem.slab}; "
            "IndependentNormal() gives it one"
        )
    V = (V + V.transpose(0, 2, 1)) / 2
    b = np.linalg.solve(gram, right[:, :, None])[:, :, 0]
    explained = np.einsum("mk,mk->m", b, right)
    degrees, null = slab.nu, slab.s_null
    known = 0.5 / slab.half_precision if degrees == np.inf else None
    one = np.ones((m, 1))
    q, t = one, one
    if slab.code == codes.BIC:
        degrees = slab.nu - k
    elif not independent and k:
        residual = np.clip(1 - explained / null, SMALLEST_RESIDUAL, 1.0)
        if slab.code == codes.G_PRIOR:
            q = np.full((m, 1), slab.g / (1 + slab.g))
        elif slab.code == codes.EMPIRICAL_BAYES:
            ratio = (1 - residual) * (degrees - k) / (k * residual)
            if known is not None:
                ratio = (1 - residual) * null / (k * known)
            q = np.maximum(1 - 1 / np.maximum(ratio, 1.0), 0.0)[:, None]
        else:
            assert drop is not None
            for some, q, node_weight in _shrinkage_nodes(problem, k, residual, drop):
                s = _noise_scale(null, q, explained[some], degrees)
                one_g = (index[some], columns[some], weight[some], b[some], V[some])
                yield Fits(*one_g, node_weight, q, q, s, float(degrees))
            return
        t = q
    s = _noise_scale(null, q, explained, degrees) if known is None else np.full(q.shape, known)
    yield Fits(index, columns, weight, b, V, np.broadcast_to(one, q.shape), q, t, s, float(degrees))


def _noise_scale(null: float, q: np.ndarray, explained: np.ndarray, degrees: float) -> np.ndarray:
    """Scale of the noise variance, (m, J)."""
    return np.maximum(null - q * explained[:, None], SMALLEST_RESIDUAL * null) / degrees


def _shrinkage_nodes(
    problem: Problem, k: int, residual: np.ndarray, drop: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Values of g/(1 + g) and their weights given the data, for models of k columns with 1 − R² = residual: which
    models (m,), values and weights (m, J). Models that need about equally many values go together."""
    slab = problem.target(0).slab
    kind, a = MIXTURES[type(problem.slab)], getattr(problem.slab, "a", 3.0)
    law = (kind, slab.nu, slab.rows, a, int(k))
    u = -np.log(residual)
    low, high, sd = (np.empty_like(u) for _ in range(3))
    for level in np.unique(drop):
        here = np.flatnonzero(drop == level)
        low[here], high[here], sd[here] = _spans(law, u[here], float(level))
    step = np.minimum(STEP_TIMES_DROP[kind] / drop, STEP_IN_SDS / np.sqrt(drop) * sd)
    needed = np.ceil((high - low) / step) + 1
    order = np.argsort(-needed, kind="stable")
    falling = -needed[order]
    first = 0
    while first < len(order):
        alike = int(np.searchsorted(falling, falling[first] / WASTE, side="right"))
        some = np.sort(order[first : max(alike, first + FEW_MODELS)])
        first += len(some)
        _, x, weight = nodes_between(*law, u[some], low[some], high[some], int(needed[some].max()))
        yield some, expit(x), weight


def _spans(
    law: tuple[str, float, float, float, int], u: np.ndarray, drop: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends of the rule, and the standard deviation of a normal density as sharp as the peak, for each model, (m,). Where
    there are many, the outermost, and the smallest, of those of the next smaller and the next larger of a few values of u."""
    many = len(u) > 2 * SPAN_POINTS
    grid = np.quantile(u, np.linspace(0.0, 1.0, SPAN_POINTS)) if many else u
    low, high = where_large(*law, grid, drop)
    left, right = where_large(*law, grid, 1.0)
    sd = (right - left) / np.sqrt(8.0)  # of a normal density, where it is above 1/e of its maximum
    if not many:
        return low, high, sd
    after = np.clip(np.searchsorted(grid, u), 1, SPAN_POINTS - 1)
    before = after - 1
    return (
        np.minimum(low[before], low[after]),
        np.maximum(high[before], high[after]),
        np.minimum(sd[before], sd[after]),
    )


# --- the table


def coefficient_table(
    problem: Problem, kept: KeptModels, pip: np.ndarray, interval: float | None, exact: bool
) -> pd.DataFrame:
    """What ``Posterior.coefficients`` returns."""
    z_index = problem.flat.z_index
    batches = held_fits(problem, kept)
    moments = coefficient_moments(problem, kept, batches)
    if exact:
        none = np.zeros(len(moments.mean_mcse))
        moments = moments._replace(mean_mcse=none, sd_mcse=none)
    names = [INTERCEPT, *(problem.all_columns[i] for i in z_index), *problem.columns_used]
    always, fixed_mean, fixed_sd = np.ones(1 + len(z_index)), moments.fixed_mean, moments.fixed_sd
    table = pd.DataFrame(
        {
            "pip": np.concatenate([always, np.repeat(pip, np.diff(problem.offsets))]),
            "mean": np.concatenate([fixed_mean, moments.mean]),
            "sd": np.concatenate([fixed_sd, moments.sd]),
            "mean_mcse": moments.mean_mcse,
            "sd_mcse": moments.sd_mcse,
            "mean_included": np.concatenate([fixed_mean, moments.mean_included]),
            "sd_included": np.concatenate([fixed_sd, moments.sd_included]),
        },
        index=pd.Index(names, name="coefficient"),
    )
    if interval is None:
        return table
    table["probability_positive"], table["lower"], table["upper"] = _tails(problem, kept, batches, interval)
    return table


class Moments(NamedTuple):
    """Averages over models in the user's units: of the P columns, and of intercept and always-included columns."""

    mean: np.ndarray
    sd: np.ndarray
    mean_included: np.ndarray
    sd_included: np.ndarray
    fixed_mean: np.ndarray
    fixed_sd: np.ndarray
    # Monte Carlo errors of means and standard deviations, of the intercept and the always-included columns first; NaN
    # where they cannot be told
    mean_mcse: np.ndarray
    sd_mcse: np.ndarray


def coefficient_moments(
    problem: Problem, kept: KeptModels, batches: "list[Fits] | Refits | None" = None
) -> Moments:
    """Means and standard deviations of all coefficients; NaN where no kept model has the column. `batches` are the
    models' posteriors, if they have been worked out."""
    found = _moments(problem, kept, held_fits(problem, kept) if batches is None else batches, _fixed(problem))
    factor = problem._y_scale / problem.column_units
    units = np.concatenate([np.full(len(found.fixed_mean), problem._y_scale), factor])
    return found._replace(
        **{name: factor * getattr(found, name) for name in ("mean", "sd", "mean_included", "sd_included")},
        mean_mcse=units * found.mean_mcse,
        sd_mcse=units * found.sd_mcse,
    )


def positive_probabilities(
    problem: Problem, kept: KeptModels, batches: "list[Fits] | Refits | None" = None
) -> np.ndarray:
    """P(β > 0 | in) of each column, (P,); NaN where no kept model has it. Where ĝ = 0 there is nothing but 0, which
    counts half."""
    P = len(problem.columns_used)
    positive, mass = np.zeros(P), np.zeros(P)
    for fit in Refits(problem, kept) if batches is None else batches:
        if not fit.b.shape[1]:
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            rate = np.where(fit.q > 0, fit.q / np.sqrt(fit.s * fit.t), 0.0)  # (m, J)
        z = fit.b / np.sqrt(np.einsum("mkk->mk", fit.V))
        above = np.zeros_like(z)
        for j in range(rate.shape[1]):  # one g at a time: (m, k) stays small
            above += fit.node_weight[:, j : j + 1] * t_cdf(
                fit.degrees, (rate[:, j : j + 1] * z).ravel()
            ).reshape(z.shape)
        at, share = fit.columns.ravel(), np.broadcast_to(fit.weight[:, None], z.shape)
        positive += np.bincount(at, (share * above).ravel(), P)
        mass += np.bincount(at, share.ravel(), P)
    with np.errstate(invalid="ignore", divide="ignore"):
        return positive / mass


def _fixed(problem: Problem) -> Functionals:
    """The intercept and the always-included coefficients."""
    flat = problem.flat
    q, P = len(flat.z_index), len(problem.columns_used)
    ends = np.vstack([-flat.z_mean, np.eye(q)]) if q else np.zeros((1, 0))
    return functionals(problem, np.eye(1 + q)[0], ends, np.vstack([-flat.x_mean[None], np.zeros((q, P))]))


class _Sums:
    """Sums over models of weight · value by column, under the weights of all replicates together and of each."""

    def __init__(self, kept: KeptModels, columns: int) -> None:
        replicates = np.zeros((0, len(kept))) if kept.by_replicate is None else kept.by_replicate
        self.weights = np.vstack([kept.weight, replicates])
        self.values = np.zeros((len(self.weights), columns))

    def add(self, fit: Fits, value: np.ndarray) -> None:
        """`value` is of each column of each model, (m, k)."""
        at, columns = fit.columns.ravel(), self.values.shape[1]
        for weight, values in zip(self.weights, self.values):
            values += np.bincount(at, (weight[fit.models][:, None] * value).ravel(), columns)

    def add_lines(self, fit: Fits, value: np.ndarray) -> None:
        """`value` is of each of some functionals in each model, (R, m)."""
        self.values += self.weights[:, fit.models] @ value.T


def _moments(problem: Problem, kept: KeptModels, batches: list[Fits] | Refits, fixed: Functionals) -> Moments:
    """Of the columns, in the problem's units: mean, sd, and both given inclusion, (P,) each; and of the
    functionals, in the user's: mean, sd. Means first, so that nothing cancels in the variances. Errors of both are in the
    problem's units.

    Replicates say how large Monte Carlo errors are. Of a variance: E(β − m)² is an average over models like any other,
    and to first order that m is itself estimated makes no difference to it."""
    P, unit = len(problem.columns_used), problem._y_scale
    masses, totals = _Sums(kept, P), _Sums(kept, P)
    for fit in batches:
        location = np.einsum("mj,mj->m", fit.node_weight, fit.q)[:, None] * fit.b
        masses.add(fit, np.ones(fit.b.shape))
        totals.add(fit, location)
    mass, total = np.minimum(masses.values[0], 1.0), totals.values[0]
    along_total = fixed.row @ total  # the functionals are linear
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_in = total / mass
    squares, along_squares = _Sums(kept, P), _Sums(kept, len(fixed.centre))
    for fit in batches:
        variance = t_variance(fit.degrees)
        q1, s1 = (np.einsum("mj,mj->m", fit.node_weight, v) for v in (fit.q, fit.s))  # averages over g
        q_variance = np.einsum("mj,mj->m", fit.node_weight, (fit.q - q1[:, None]) ** 2)
        st = np.einsum("mj,mj,mj->m", fit.node_weight, fit.s, fit.t)
        inner = (q1[:, None] * fit.b - mean_in[fit.columns]) ** 2 + q_variance[:, None] * fit.b**2
        inner += _times(variance, st[:, None] * np.einsum("mkk->mk", fit.V))
        squares.add(fit, inner)
        b, v = along(fit, fixed)
        spread = (q1 * b - along_total[:, None]) ** 2 + q_variance * b**2
        spread += _times(variance, fixed.variance[:, None] * s1 + st * v)
        along_squares.add_lines(fit, spread)
    square, along_sd = squares.values[0], np.sqrt(along_squares.values[0])
    with np.errstate(invalid="ignore", divide="ignore"):
        sd_in = np.sqrt(square / mass)
        sd = np.sqrt(square + np.where(mass > 0, mass * (1 - mass) * mean_in**2, 0.0))
        # E(β − m)² in each replicate: from models that have the column, about their mean, and from those that do not
        centre = np.where(mass > 0, mean_in, 0.0)
        shift = centre - total
        about = squares.values[1:] + masses.values[1:] * shift**2 + (1 - masses.values[1:]) * total**2
        about += 2 * shift * (totals.values[1:] - masses.values[1:] * centre)
        by_replicate = np.hstack([totals.values[1:] @ fixed.row.T, totals.values[1:]])
        variances = np.hstack([along_squares.values[1:], about])
        sds = np.concatenate([along_sd, sd])
        mean_mcse, sd_mcse = standard_error(by_replicate), standard_error(variances) / (2 * sds)
        sd_mcse = np.where(sds > 0, sd_mcse, mean_mcse)
    return Moments(
        total, sd, mean_in, sd_in, fixed.centre + unit * along_total, unit * along_sd, mean_mcse, sd_mcse
    )


def _tails(problem: Problem, kept: KeptModels, batches: list[Fits] | Refits, interval: float) -> np.ndarray:
    """P(β > 0 | in) and both ends of the interval, (3, functionals + P), in the user's units."""
    fixed, n_fixed = _fixed(problem), len(problem.flat.z_index) + 1
    columns, always = _Components(), [_Components() for _ in fixed.centre]
    for fit in batches:
        columns.add(fit, fit.columns.ravel(), fit.b, np.einsum("mkk->mk", fit.V))
        b, v = along(fit, fixed)
        for r, part in enumerate(always):
            part.add(fit, np.zeros(len(fit.weight), np.int64), b[r][:, None], v[r][:, None])
    positive = positive_probabilities(problem, kept, batches)
    factor = problem._y_scale / problem.column_units
    out = np.zeros((3, n_fixed + len(factor)))
    out[0, n_fixed:] = positive
    levels = ((1 - interval) / 2, (1 + interval) / 2)
    for r, part in enumerate(always):
        for _, rows in part.by_quantity():
            weight, location, scale, degrees = part.parts(rows, fixed.variance[r], problem._y_scale)
            mixture = TMixture(weight, location + fixed.centre[r], scale, degrees)
            out[0, r] = 1 - mixture.cdf(0.0)
            out[1:, r] = [mixture.quantile(level) for level in levels]
    for c, rows in columns.by_quantity():
        weight, location, scale, degrees = columns.parts(rows, 0.0, factor[c])
        inside = weight.sum()
        spread = scale > 0  # at ĝ = 0 there is nothing but 0
        weight, location, scale, degrees = (v[spread] for v in (weight, location, scale, degrees))
        stuck, atom = inside - weight.sum(), max(0.0, 1 - weight.sum())
        below = inside * (1 - positive[c]) - stuck / 2
        if len(weight):
            mixture = TMixture(weight, location, scale, degrees)
            out[1:, n_fixed + c] = [_with_atom(mixture, level, atom, below) for level in levels]
    return out


def _with_atom(mixture: TMixture, level: float, atom: float, below: float) -> float:
    """Quantile where beside the components (weights sum to 1 − atom) there is a point mass at 0, `below` being
    the components' probability of less than 0."""
    if level > below:
        if level <= below + atom or atom >= 1:
            return 0.0
        level -= atom
    return mixture.quantile(level, total=1 - atom)


class _Components:
    """t components of many quantities, gathered batch by batch and given out one quantity at a time."""

    def __init__(self) -> None:
        self._fits: list[Fits] = []
        self._gathered: list[tuple[np.ndarray, ...]] = []

    def add(self, fit: Fits, at: np.ndarray, b: np.ndarray, v: np.ndarray) -> None:
        """`at` (m·k,): which quantity; b, v (m, k): its location and squared scale before q, s and t."""
        model = np.repeat(np.arange(b.shape[0]), b.shape[1])
        batch = np.full(at.size, len(self._fits))
        self._gathered.append((at, batch, model, b.ravel(), v.ravel()))
        self._fits.append(fit._replace(V=np.zeros((0, 0, 0))))

    def by_quantity(self) -> Iterator[tuple[int, np.ndarray]]:
        """Each quantity that occurs, with its places."""
        self._at, self._batch, self._model, self._b, self._v = (
            np.concatenate(parts) for parts in zip(*self._gathered)
        )
        order = np.argsort(self._at, kind="stable")
        values, first = np.unique(self._at[order], return_index=True)
        yield from zip(values.tolist(), np.split(order, first[1:]))

    def parts(
        self, rows: np.ndarray, flat_variance: float, unit: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Weights, locations, scales and degrees of freedom of the t components at these places."""
        batch = self._batch[rows]
        order = np.argsort(batch, kind="stable")
        used, first = np.unique(batch[order], return_index=True)
        groups = [(self._fits[i], here) for i, here in zip(used, np.split(rows[order], first[1:]))]
        shares = []
        for fit, here in groups:
            m = self._model[here]
            shares.append(fit.weight[m][:, None] * np.take(fit.node_weight, m, axis=0))
        weight = np.concatenate([share.ravel() for share in shares])
        heavy = heaviest(weight)
        parts, start = [], 0
        for (fit, here), share in zip(groups, shares):
            stop = start + share.size
            near, far = np.searchsorted(heavy, (start, stop))
            place, node = np.divmod(heavy[near:far] - start, share.shape[1])
            one, start = here[place], stop
            node += self._model[one] * share.shape[1]
            q, t, s = (np.take(value, node) for value in (fit.q, fit.t, fit.s))
            scale = unit * np.sqrt(s * (flat_variance + t * self._v[one]))
            parts.append((unit * q * self._b[one], scale, np.full(len(q), fit.degrees)))
        location, scale, degrees = (np.concatenate(part) for part in zip(*parts))
        return weight[heavy] * (weight.sum() / weight[heavy].sum()), location, scale, degrees


def along(fit: Fits, lines: Functionals) -> tuple[np.ndarray, np.ndarray]:
    """rowᵀb and rowᵀV row in every model: (R, m) each."""
    part = lines.row[:, np.searchsorted(lines.columns, fit.columns)]  # (R, m, k)
    return (
        np.einsum("rmk,mk->rm", part, fit.b),
        np.einsum("rmk,rmk->rm", part, np.einsum("mkl,rml->rmk", fit.V, part)),
    )


def _times(factor: float, values: np.ndarray) -> np.ndarray:
    """factor·values with ∞·0 = 0."""
    with np.errstate(invalid="ignore"):
        return np.where(values > 0, factor * values, 0.0)
