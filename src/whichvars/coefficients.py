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
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import gammaln, stdtr, stdtrit

from whichvars._kernels import target as codes
from whichvars._kernels.marginal import SMALLEST_RESIDUAL, SMALLEST_TOLERANCE
from whichvars.errors import DataError
from whichvars.mixtures import _quadrature
from whichvars.problem import MIXTURES, Problem

INTERCEPT = "(intercept)"
BATCH_BYTES = 64 << 20  # of the Gram matrices, columns or nodes looked at together
STEP, FEWEST = 0.35, 40  # nodes of g: the trapezoid rule's longest step in log g, and the fewest nodes
T_END, T_CELLS = 30.0, 12000  # of the table of the t distribution function: |asinh z|, and intervals
NEGLIGIBLE = 1e-10  # weight of components that a quantile may do without, all together


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

    def having(self, variable: int) -> np.ndarray:
        """Which models have the variable, (models,) bool."""
        ends = np.flatnonzero(self.members == variable)
        found = np.zeros(len(self), bool)
        found[np.searchsorted(self.start, ends, side="right") - 1] = True
        return found

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
    row: np.ndarray  # (R, P)


def functionals(problem: Problem, intercept: np.ndarray, z: np.ndarray, x: np.ndarray) -> Functionals:
    """Those of intercept·ᾱ + zᵀδ + xᵀβ, ᾱ the intercept of centred columns. Shapes (R,), (R, q), (R, P)."""
    flat = problem.flat
    return Functionals(
        centre=intercept * flat.y_mean + z @ flat.y_on_z,
        variance=intercept**2 * flat.mean_variance + ((z @ flat.z_root) ** 2).sum(axis=1),
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
        diagonal = np.einsum("mkk->mk", V)  # columns have unit length: 1/(1 − R² of one on the others)
        singular = not independent and not ((diagonal > 0) & (diagonal < 10 / SMALLEST_TOLERANCE)).all()
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


@lru_cache(maxsize=64)
def _t_table(degrees: float) -> np.ndarray:
    """Cubics through value and slope of the t distribution function on even steps of asinh(z): (T_END/T_STEP·2,
    4)."""
    u = np.linspace(-T_END, T_END, T_CELLS + 1)
    h = u[1] - u[0]
    z = np.sinh(u)
    value = stdtr(degrees, z)
    log_density = gammaln((degrees + 1) / 2) - gammaln(degrees / 2) - 0.5 * np.log(degrees * np.pi)
    slope = h * np.cosh(u) * np.exp(log_density - (degrees + 1) / 2 * np.log1p(z**2 / degrees))
    rise = np.diff(value)
    left, right = slope[:-1], slope[1:]
    return np.stack([value[:-1], left, 3 * rise - 2 * left - right, left + right - 2 * rise], axis=1)


def t_cdf(degrees: float, z: np.ndarray) -> np.ndarray:
    """Distribution function of t, to about 1e-11: twenty times faster than by the incomplete beta function."""
    place = np.clip((np.arcsinh(z) + T_END) * (T_CELLS / (2 * T_END)), 0.0, T_CELLS * (1 - 1e-12))
    cell = place.astype(np.int64)
    place -= cell
    c = _t_table(degrees)[cell]
    return c[:, 0] + place * (c[:, 1] + place * (c[:, 2] + place * c[:, 3]))


def heaviest(weight: np.ndarray) -> np.ndarray:
    """The components without the lightest, which hold NEGLIGIBLE of the weight: indices."""
    order = np.argsort(weight)
    return np.sort(order[np.searchsorted(np.cumsum(weight[order]), NEGLIGIBLE * weight.sum()) :])


class TMixture:
    """A mixture of t distributions and, where the scale is 0, of points. Arrays (components,)."""

    def __init__(
        self, weight: np.ndarray, location: np.ndarray, scale: np.ndarray, degrees: np.ndarray
    ) -> None:
        spread = scale > 0
        self._all = location, scale, degrees
        self._kinds = np.unique(degrees)
        groups = [np.flatnonzero(spread & (degrees == d)) for d in self._kinds]
        self._parts = [
            (d, weight[g], location[g], 1 / scale[g]) for d, g in zip(self._kinds.tolist(), groups) if g.size
        ]
        self._points = (weight[~spread], location[~spread])

    def cdf(self, x: float) -> float:
        """Probability of at most x."""
        weight, points = self._points
        total = sum(float(w @ t_cdf(d, (x - at) * rate)) for d, w, at, rate in self._parts)
        return total + float(weight @ (points <= x))

    def bracket(self, level: float) -> tuple[float, float]:
        """Between which the quantile lies: the least and the largest of the components' own."""
        location, scale, degrees = self._all
        ends = location + scale * stdtrit(self._kinds, level)[np.searchsorted(self._kinds, degrees)]
        return float(ends.min()), float(ends.max())


def mixture_quantile(
    level: float, weight: np.ndarray, location: np.ndarray, scale: np.ndarray, degrees: np.ndarray
) -> float:
    """The `level` quantile of a mixture of t distributions, by bracketing. Arrays (components,); weights sum
    to one; a scale of 0 is a point mass at the location."""
    mixture = TMixture(weight, location, scale, degrees)
    low, high = mixture.bracket(level)

    def excess(x: float) -> float:
        return mixture.cdf(x) - level

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
    fixed = functionals(problem, np.eye(1 + q)[0], ends, np.vstack([-flat.x_mean[None], np.zeros((q, P))]))
    factor = problem._y_scale / problem.column_units
    mean, sd, mean_in, sd_in, fixed_mean, fixed_sd = _moments(problem, kept, fixed)
    names = [INTERCEPT, *(problem.all_columns[i] for i in flat.z_index), *problem.columns_used]
    ones = np.ones(1 + q)
    table = pd.DataFrame(
        {
            "pip": np.concatenate([ones, np.repeat(pip, np.diff(problem.offsets))]),
            "mean": np.concatenate([fixed_mean, factor * mean]),
            "sd": np.concatenate([fixed_sd, factor * sd]),
            "mean_included": np.concatenate([fixed_mean, factor * mean_in]),
            "sd_included": np.concatenate([fixed_sd, factor * sd_in]),
        },
        index=pd.Index(names, name="coefficient"),
    )
    if interval is None:
        return table
    table["probability_positive"], table["lower"], table["upper"] = _tails(
        problem, kept, fixed, factor, interval
    )
    return table


def _moments(problem: Problem, kept: KeptModels, fixed: Functionals) -> tuple[np.ndarray, ...]:
    """Of the columns, in the problem's units: mean, sd, and both given inclusion, (P,) each; and of the
    functionals, in the user's: mean, sd. Means first, so that nothing cancels in the variances."""
    P, unit = len(problem.columns_used), problem._y_scale
    mass, total, along_total = np.zeros(P), np.zeros(P), np.zeros(len(fixed.centre))
    for fit in fits(problem, kept):
        location = np.einsum("mj,mj->m", fit.node_weight, fit.q)[:, None] * fit.b
        at, share = fit.columns.ravel(), fit.weight[:, None]
        mass += np.bincount(at, np.broadcast_to(share, fit.b.shape).ravel(), P)
        total += np.bincount(at, (share * location).ravel(), P)
    mass = np.minimum(mass, 1.0)
    along_total = fixed.row @ total  # the functionals are linear
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_in = total / mass
    square, along_square = np.zeros(P), np.zeros(len(fixed.centre))
    for fit in fits(problem, kept):
        variance = _t_variance(fit.degrees)
        q1, s1 = (np.einsum("mj,mj->m", fit.node_weight, v) for v in (fit.q, fit.s))  # averages over g
        q_variance = np.einsum("mj,mj->m", fit.node_weight, (fit.q - q1[:, None]) ** 2)
        st = np.einsum("mj,mj,mj->m", fit.node_weight, fit.s, fit.t)
        inner = (q1[:, None] * fit.b - mean_in[fit.columns]) ** 2 + q_variance[:, None] * fit.b**2
        inner += _times(variance, st[:, None] * np.einsum("mkk->mk", fit.V))
        square += np.bincount(fit.columns.ravel(), (fit.weight[:, None] * inner).ravel(), P)
        b, v = along(fit, fixed.row)
        spread = (q1 * b - along_total[:, None]) ** 2 + q_variance * b**2
        spread += _times(variance, fixed.variance[:, None] * s1 + st * v)
        along_square += spread @ fit.weight
    with np.errstate(invalid="ignore", divide="ignore"):
        sd_in = np.sqrt(square / mass)
        sd = np.sqrt(square + np.where(mass > 0, mass * (1 - mass) * mean_in**2, 0.0))
    return total, sd, mean_in, sd_in, fixed.centre + unit * along_total, unit * np.sqrt(along_square)


def _tails(
    problem: Problem, kept: KeptModels, fixed: Functionals, factor: np.ndarray, interval: float
) -> np.ndarray:
    """P(β > 0 | in) and both ends of the interval, (3, functionals + P); `factor` brings columns to the user's
    units."""
    n_fixed = len(fixed.centre)
    columns, always = _Components(), [_Components() for _ in fixed.centre]
    for fit in fits(problem, kept):
        columns.add(fit, fit.columns.ravel(), fit.b, np.einsum("mkk->mk", fit.V))
        b, v = along(fit, fixed.row)
        for r, part in enumerate(always):
            part.add(fit, np.zeros(len(fit.weight), np.int64), b[r][:, None], v[r][:, None])
    out = np.zeros((3, n_fixed + len(factor)))
    out[0] = np.nan
    tails = ((1 - interval) / 2, (1 + interval) / 2)
    for r, part in enumerate(always):
        everything = np.arange(part.count())
        weight, location, scale, degrees = part.parts(everything, fixed.variance[r], problem._y_scale)
        location = location + fixed.centre[r]
        out[0, r] = TMixture(weight, -location, scale, degrees).cdf(0.0)
        out[1:, r] = [mixture_quantile(a, weight, location, scale, degrees) for a in tails]
    for c, rows in columns.by_column():
        weight, location, scale, degrees = columns.parts(rows, 0.0, factor[c])
        spread = scale > 0  # at ĝ = 0 there is nothing but 0
        stuck = weight[~spread].sum()
        weight, location, scale, degrees = (v[spread] for v in (weight, location, scale, degrees))
        below = TMixture(weight, location, scale, degrees).cdf(0.0)
        out[0, n_fixed + c] = (weight.sum() - below + stuck / 2) / (weight.sum() + stuck)
        atom = max(0.0, 1 - weight.sum())
        if len(weight):
            out[1:, n_fixed + c] = [
                _with_atom(a, atom, below, weight, location, scale, degrees) for a in tails
            ]
    return out


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
        yield from zip(values.tolist(), np.split(order, first[1:]))

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
            parts = (weight, location, scale, np.full(weight.shape, fit.degrees))
            out.append(tuple(part.ravel() for part in parts))
        weight, location, scale, degrees = (np.concatenate(x) for x in zip(*out))
        heavy = heaviest(weight)
        weight = weight[heavy] * (weight.sum() / weight[heavy].sum())
        return weight, location[heavy], scale[heavy], degrees[heavy]


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
