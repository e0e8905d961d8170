r"""Coefficients within models, and averaged over models.

In one model, with the flat part integrated out (algorithms.md §1), G = X_γᵀX_γ and c = X_γᵀy of the residual
columns, s the scale of the noise variance and d its degrees of freedom, σ² is scaled-inverse-χ²(d, s) and

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
estimated. An inverse gamma prior on σ² adds 2a to ν and 2b to S₀.

The intercept and the always-included coefficients, like a mean of y at new values of the columns, are linear
in (flat part, β): given the flat prior they are t with the same s and d (`Functionals`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import stdtr, stdtrit

from whichvars._kernels import target as codes
from whichvars._kernels.marginal import SMALLEST_RESIDUAL
from whichvars.errors import DataError
from whichvars.mixtures import _quadrature
from whichvars.problem import MIXTURES, Problem

INTERCEPT = "(intercept)"
BATCH_BYTES = 64 << 20  # of the Gram matrices, columns or nodes looked at together
STEP, FEWEST = 0.7, 40  # nodes of g: the trapezoid rule's longest step in log g, and the fewest nodes


@dataclass(frozen=True)
class KeptModels:
    """A sample of the posterior over models: each model once, with its weight."""

    members: np.ndarray  # int32: the variables of all models, one model after the other, sorted within each
    start: np.ndarray  # (models + 1,) int64: where each begins
    weight: np.ndarray  # (models,); sum to one

    def __len__(self) -> int:
        return len(self.weight)

    def model(self, i: int) -> tuple[int, ...]:
        """The variables of one model."""
        return tuple(self.members[self.start[i] : self.start[i + 1]].tolist())

    @classmethod
    def of(cls, weights: dict[tuple[int, ...], float]) -> "KeptModels":
        """From members → weight; the heaviest first."""
        order = sorted(weights, key=lambda m: (-weights[m], m))
        weight = np.array([weights[m] for m in order], float)
        sizes = np.array([len(m) for m in order], np.int64)
        members = np.array([j for m in order for j in sorted(m)], np.int32)
        return cls(members, np.concatenate([[0], np.cumsum(sizes)]), weight / weight.sum())


class Fits(NamedTuple):
    """The posteriors of m models of k columns each, over J values of g (J = 1 but for mixtures), in the units
    in which the problem computes."""

    index: np.ndarray  # (m,): which of the kept models
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
    row: np.ndarray  # (R, P)


def functionals(problem: Problem, intercept: np.ndarray, z: np.ndarray, x: np.ndarray) -> Functionals:
    """Those of intercept·ᾱ + zᵀδ + xᵀβ, ᾱ the intercept of centred columns. Shapes (R,), (R, q), (R, P)."""
    flat = problem.flat
    return Functionals(
        centre=intercept * flat.y_mean + z @ flat.y_on_z,
        variance=intercept**2 / flat.weight + np.einsum("ri,ij,rj->r", z, flat.z_covariance, z),
        row=(x - z @ flat.x_on_z) / problem.column_units,
    )


def columns_of(problem: Problem, members: np.ndarray) -> np.ndarray:
    """The columns of the variables."""
    offsets = problem.offsets
    if not len(members):
        return np.zeros(0, np.int64)
    return np.concatenate([np.arange(offsets[j], offsets[j + 1]) for j in members])


def fits(problem: Problem, kept: KeptModels) -> Iterator[Fits]:
    """The posterior of every kept model, those with equally many columns together."""
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
            columns = flat_columns[begin[index][:, None] + np.arange(k)]
            yield _fit(problem, index, columns, kept.weight[index])


def _fit(problem: Problem, index: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> Fits:
    design, slab = problem.target(0).design, problem.target(0).slab
    m, k = columns.shape
    if problem.engine == "gram":
        gram = design.gram[columns[:, :, None], columns[:, None, :]]
    else:
        block = design.columns[columns]
        gram = block @ block.transpose(0, 2, 1)
    independent = slab.code == codes.INDEPENDENT
    if independent:
        gram[:, np.arange(k), np.arange(k)] += slab.ridge[columns]
    elif k > problem.max_columns:
        raise DataError(
            f"a model of {k} columns has no posterior under {problem.slab}: at most {problem.max_columns} are possible with {problem.n} rows"
        )
    right = design.xty[columns]
    try:
        V = np.linalg.inv(gram)
    except np.linalg.LinAlgError:
        raise DataError(
            "a model has collinear columns, and so no posterior of its own under this slab"
        ) from None
    V = (V + V.transpose(0, 2, 1)) / 2
    b = np.linalg.solve(gram, right[:, :, None])[:, :, 0]
    explained = np.einsum("mk,mk->m", b, right)
    degrees, null = slab.nu, slab.s_null
    one = np.ones((m, 1))
    node_weight, q, t = one, one, one
    if slab.code == codes.BIC:
        degrees = slab.nu - k
    elif not independent and k:
        residual = np.clip(1 - explained / null, SMALLEST_RESIDUAL, 1.0)
        if slab.code == codes.G_PRIOR:
            q = np.full((m, 1), slab.g / (1 + slab.g))
        elif slab.code == codes.EMPIRICAL_BAYES:
            ratio = (1 - residual) * (degrees - k) / (k * residual)
            q = np.maximum(1 - 1 / np.maximum(ratio, 1.0), 0.0)[:, None]
        else:
            q, node_weight = _shrinkage_nodes(problem, k, residual)
        t = q
    s = np.maximum(null - q * explained[:, None], SMALLEST_RESIDUAL * null) / degrees
    return Fits(index, columns, weight, b, V, np.broadcast_to(node_weight, q.shape), q, t, s, float(degrees))


def _shrinkage_nodes(problem: Problem, k: int, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values of g/(1 + g) and their weights given the data, (m, J), for models of k columns with 1 − R² =
    residual."""
    slab = problem.target(0).slab
    kind, a = MIXTURES[type(problem.slab)], getattr(problem.slab, "a", 3.0)
    _, x, weight = _quadrature(kind, slab.nu, slab.rows, a, int(k), -np.log(residual))
    step = (x[:, -1] - x[:, 0]).max() / (x.shape[1] - 1)
    stride = max(1, min(x.shape[1] // FEWEST, int(STEP / step)))  # it has converged long before
    x, weight = x[:, ::stride], weight[:, ::stride]
    return 1 / (1 + np.exp(-x)), weight / weight.sum(axis=1, keepdims=True)


# --- mixtures of t


def mixture_quantile(
    level: float, weight: np.ndarray, location: np.ndarray, scale: np.ndarray, degrees: np.ndarray
) -> float:
    """The `level` quantile of a mixture of t distributions, by bracketing. Arrays (components,); weights sum
    to one; a scale of 0 is a point mass at the location."""
    spread = scale > 0
    ends = location + np.where(spread, scale, 0.0) * stdtrit(degrees, level)
    low, high = float(ends.min()), float(ends.max())
    safe = np.where(spread, scale, 1.0)

    def excess(x: float) -> float:
        z = (x - location) / safe
        return float(weight @ np.where(spread, stdtr(degrees, z), z >= 0)) - level

    if not low < high:
        return low
    if not np.isfinite(high - low):
        return np.nan
    if excess(low) >= 0:
        return low
    if excess(high) <= 0:
        return high
    return float(brentq(excess, low, high, xtol=1e-13 * (high - low), rtol=1e-14))


def _with_atom(
    level: float,
    atom: float,
    below: float,
    weight: np.ndarray,
    location: np.ndarray,
    scale: np.ndarray,
    degrees: np.ndarray,
) -> float:
    """Quantile where beside the components (weights sum to 1 − atom) there is a point mass at 0, `below` being
    the components' probability of less than 0."""
    if level > below:
        if level <= below + atom or atom >= 1:
            return 0.0
        level -= atom
    return mixture_quantile(level / (1 - atom), weight / (1 - atom), location, scale, degrees)


# --- the table


def coefficient_table(
    problem: Problem, kept: KeptModels, pip: np.ndarray, interval: float | None
) -> pd.DataFrame:
    """What ``Posterior.coefficients`` returns."""
    flat, P = problem.flat, len(problem.columns_used)
    q = len(flat.z_index)
    ends = np.vstack([-flat.z_mean, np.eye(q)]) if q else np.zeros((1, 0))
    fixed = functionals(
        problem, np.eye(1 + q)[0], ends, np.vstack([-flat.x_mean[None], np.zeros((q, P))])
    )
    batches = list(fits(problem, kept))
    factor = problem._y_scale / problem.column_units
    mass, first, second = (np.zeros(P) for _ in range(3))
    columns = _Components()
    always = [_Components() for _ in range(1 + q)]
    fixed_first, fixed_second = np.zeros(1 + q), np.zeros(1 + q)
    for fit in batches:
        variance = _t_variance(fit.degrees)
        # averages over g, (m,)
        q1, q2 = (np.einsum("mj,mj->m", fit.node_weight, fit.q**power) for power in (1, 2))
        st = np.einsum("mj,mj,mj->m", fit.node_weight, fit.s, fit.t)
        diagonal = np.einsum("mkk->mk", fit.V)
        at = fit.columns.ravel()
        share = np.broadcast_to(fit.weight[:, None], fit.b.shape)
        mass += np.bincount(at, share.ravel(), P)
        first += np.bincount(at, (share * q1[:, None] * fit.b).ravel(), P)
        square = q2[:, None] * fit.b**2 + _times(variance, st[:, None] * diagonal)
        second += np.bincount(at, (share * square).ravel(), P)
        if interval is not None:
            columns.add(fit, at, fit.b, diagonal)
        mean, within = along(fit, fixed.row)  # rowᵀb, rowᵀV row: (1 + q, m)
        s1 = np.einsum("mj,mj->m", fit.node_weight, fit.s)
        location = fixed.centre[:, None] + problem._y_scale * q1 * mean
        spread = problem._y_scale**2 * (
            (q2 - q1**2) * mean**2 + _times(variance, fixed.variance[:, None] * s1 + st * within)
        )
        fixed_first += (location - fixed.centre[:, None]) @ fit.weight
        fixed_second += ((location - fixed.centre[:, None]) ** 2 + spread) @ fit.weight
        if interval is not None:
            for r, part in enumerate(always):
                part.add(fit, np.zeros(len(fit.weight), np.int64), mean[r][:, None], within[r][:, None])
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_in = first / mass
        sd_in = np.sqrt(np.maximum(second / mass - mean_in**2, 0.0))
    sd = np.sqrt(np.maximum(second - first**2, 0.0))
    fixed_sd = np.sqrt(np.maximum(fixed_second - fixed_first**2, 0.0))
    fixed_mean = fixed.centre + fixed_first
    names = [INTERCEPT, *(problem.all_columns[i] for i in flat.z_index), *problem.columns_used]
    ones = np.ones(1 + q)
    table = pd.DataFrame(
        {
            "pip": np.concatenate([ones, np.repeat(pip, np.diff(problem.offsets))]),
            "mean": np.concatenate([fixed_mean, factor * first]),
            "sd": np.concatenate([fixed_sd, factor * sd]),
            "mean_included": np.concatenate([fixed_mean, factor * mean_in]),
            "sd_included": np.concatenate([fixed_sd, factor * sd_in]),
        },
        index=pd.Index(names, name="coefficient"),
    )
    if interval is None:
        return table
    positive, lower, upper = np.full((3, 1 + q + P), np.nan)
    tails = ((1 - interval) / 2, (1 + interval) / 2)
    for r, part in enumerate(always):
        weight, location, scale, degrees = part.parts(
            np.arange(part.count()), fixed.variance[r], problem._y_scale
        )
        location = location + fixed.centre[r]
        positive[r] = weight @ stdtr(degrees, location / scale)
        lower[r], upper[r] = (mixture_quantile(a, weight, location, scale, degrees) for a in tails)
    lower[1 + q :], upper[1 + q :] = 0.0, 0.0
    for c, rows in columns.by_column():
        weight, location, scale, degrees = columns.parts(rows, 0.0, factor[c])
        spread = scale > 0  # at ĝ = 0 there is nothing but 0
        stuck = weight[~spread].sum()
        weight, location, scale, degrees = (v[spread] for v in (weight, location, scale, degrees))
        below = float(weight @ stdtr(degrees, -location / scale))
        positive[1 + q + c] = (weight.sum() - below + stuck / 2) / (weight.sum() + stuck)
        atom = max(0.0, 1 - weight.sum())
        if len(weight):
            lower[1 + q + c], upper[1 + q + c] = (
                _with_atom(a, atom, below, weight, location, scale, degrees) for a in tails
            )
    table["probability_positive"], table["lower"], table["upper"] = positive, lower, upper
    return table


class _Components:
    """t components of many quantities, gathered batch by batch and given out one quantity at a time."""

    def __init__(self) -> None:
        self._at: list[np.ndarray] = []
        self._batch: list[np.ndarray] = []
        self._model: list[np.ndarray] = []
        self._b: list[np.ndarray] = []
        self._v: list[np.ndarray] = []
        self._fits: list[Fits] = []

    def add(self, fit: Fits, at: np.ndarray, b: np.ndarray, v: np.ndarray) -> None:
        """`at` (m·k,): which quantity; b, v (m, k): its location and squared scale before q, s and t."""
        self._at.append(at)
        self._batch.append(np.full(at.size, len(self._fits)))
        self._model.append(np.repeat(np.arange(b.shape[0]), b.shape[1]))
        self._b.append(b.ravel())
        self._v.append(v.ravel())
        self._fits.append(fit._replace(V=np.zeros((0, 0, 0))))

    def count(self) -> int:
        return sum(map(len, self._at))

    def by_column(self) -> Iterator[tuple[int, np.ndarray]]:
        """Each quantity that occurs, with its places."""
        at = np.concatenate(self._at)
        order = np.argsort(at, kind="stable")
        values, first = np.unique(at[order], return_index=True)
        for value, rows in zip(values.tolist(), np.split(order, first[1:])):
            yield value, rows

    def parts(
        self, rows: np.ndarray, flat_variance: float, unit: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Weights, locations, scales and degrees of freedom of the t components at these places."""
        out: list[tuple[np.ndarray, ...]] = []
        batch = np.concatenate(self._batch)[rows]
        model, b, v = (np.concatenate(x)[rows] for x in (self._model, self._b, self._v))
        for i in np.unique(batch):
            fit, here = self._fits[i], batch == i
            m = model[here]
            weight = fit.weight[m][:, None] * fit.node_weight[m]
            location = unit * fit.q[m] * b[here][:, None]
            scale = unit * np.sqrt(fit.s[m] * (flat_variance + fit.t[m] * v[here][:, None]))
            heavy = weight > 1e-15
            out.append((weight[heavy], location[heavy], scale[heavy], np.full(heavy.sum(), fit.degrees)))
        weight, location, scale, degrees = (np.concatenate(x) for x in zip(*out))
        return weight, location, scale, degrees


def along(fit: Fits, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """rowᵀb and rowᵀV row of rows (R, P) in every model: (R, m) each."""
    part = rows[:, fit.columns]  # (R, m, k)
    return (
        np.einsum("rmk,mk->rm", part, fit.b),
        np.einsum("rmk,rmk->rm", part, np.einsum("mkl,rml->rmk", fit.V, part)),
    )


def _t_variance(degrees: float) -> float:
    """Variance of a t distribution of scale 1."""
    return degrees / (degrees - 2) if degrees > 2 else np.inf


def _times(factor: float, values: np.ndarray) -> np.ndarray:
    """factor·values with ∞·0 = 0."""
    with np.errstate(invalid="ignore"):
        return np.where(values > 0, factor * values, 0.0)
