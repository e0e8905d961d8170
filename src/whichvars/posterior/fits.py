r"""The posterior of coefficients within each model.

In one model, with the flat part integrated out (docs/mathematics.md, "The model"), G = X_γᵀX_γ and c = X_γᵀy of
the residual columns, s the scale of the noise variance and d its degrees of freedom, σ² is scaled-inverse-χ²(d, s) and

.. math:: \beta_\gamma \mid \gamma, y \sim t_d(q\, b,\; s\, t\, V)

===================== ======================= ============ ============ ======================== ======
slab                  V                       b            q, t         s                        d
===================== ======================= ============ ============ ======================== ======
independent           (G + diag(1/g))⁻¹       V c          1, 1         (S₀ − bᵀc)/d             ν
its g unknown         the same for each value of g, averaged over p(g | y, γ)
correlated normal     (G + Σ⁻¹)⁻¹            m + V(c − Gm) 1, 1        S/d (``problem/correlated_prior.py``) ν
non-local             means and covariances of the posterior itself (``problem/moment_factors.py``)
g-prior               G⁻¹                     V c          g/(1 + g)    (S₀ − q bᵀc)/d           ν
local empirical Bayes the g-prior's at ĝ, as if it were known
mixtures of g         the g-prior's, averaged over p(g | y, γ) by quadrature
BIC                   G⁻¹                     V c          1, 1         (S₀ − bᵀc)/d             ν − k
===================== ======================= ============ ============ ======================== ======

BIC thus gives least squares with the usual standard errors, and local empirical Bayes ignores that ĝ was estimated. An
inverse gamma prior on σ² adds 2a to ν and 2b to S₀. If σ² is known, s is its value, d is infinite, and t is normal.

The intercept and the always-included coefficients, like a mean of y at new values of the columns, are linear
in (flat part, β): given the flat prior they are t with the same s and d (`Functionals`).

If the family is not Gaussian, the posterior of all coefficients of a model, flat ones included, is taken as N(θ̂, H⁻¹), θ̂ its mode
and H minus the second derivatives of its log density there (at the maximum of the likelihood for BIC). Where an outer parameter is
integrated out (the dispersion of counts, or g), it is the normal distribution with the mean and covariances averaged over that parameter.
With evidence="bas" it is that of the g-prior with the information at the maximum of the likelihood, averaged over g (``_shrunk``).
"""

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit, softmax

from whichvars._kernels import evidence as codes
from whichvars._kernels.averaging import RIDGE_FACTOR
from whichvars._kernels.evidence import SMALLEST_RESIDUAL
from whichvars._kernels.family_evidence import fit_family_models
from whichvars._kernels.likelihood import SHRINKAGE
from whichvars.errors import DataError, DataWarning
from whichvars.posterior.models import KeptModels, batches, columns_of, full_rank, precisions
from whichvars.problem.correlated_prior import CorrelatedNormal, posteriors
from whichvars.problem.evaluating import averages_over_g
from whichvars.problem.fitting import candidates_at
from whichvars.problem.mixtures import Parameters, nodes_between, where_large
from whichvars.problem.moment_factors import moments_of_coefficients, normal_posteriors
from whichvars.problem.moment_priors import MomentPrior
from whichvars.problem.priors import BIC, GPrior, LocalEmpiricalBayes
from whichvars.problem.problem import Problem
from whichvars.problem.target import MIXTURES, mixture_law

# mean variance of the linear predictors of a model above which its estimates say nothing, and the share of such models that is mentioned
NOTHING_KNOWN, NOTICEABLE = 1e4, 0.01
# largest size of the posteriors of all models that are kept in memory for repeated use
HELD_BYTES = 256 << 20

# Nodes of g. The trapezoid rule in log g ends where the density of log g is exp(−drop) of its maximum, and its error is of
# that order too if the step is at most STEP_TIMES_DROP / drop, for the tails (less under priors that end like
# exp(−exp(·))), and STEP_IN_SDS / √drop standard deviations of a normal density as sharp as the peak. `drop` is DROP plus the
# logarithm of the total weight of all models of no larger weight: models of small weight need less accuracy.
DROP, LEAST_DROP, DROP_STEP = 25.5, 11.0, 4.0
STEP_TIMES_DROP = {
    "hyper-g": 10.8, "hyper-g/n": 10.8, "zellner-siow": 9.0, "cch": 7.0, "beta-prime": 9.0, "robust": 9.0, "intrinsic": 5.0,
}  # fmt: skip
# 4.4 for the normal density itself, whose Fourier transform is exp(−drop) at 2π over the step
STEP_IN_SDS = 3.4
# Models use the same number of nodes if there are at most FEW_MODELS of them, or if the numbers they need differ by at most
# the factor WASTE.
FEW_MODELS, WASTE = 64, 1.1
# posterior probability of a value of an unknown g below which it is left out
NEGLIGIBLE_SHARE = 1e-12
# degrees of freedom above which a t distribution has a variance that says something
FEWEST_DEGREES = 2.5
# number of values of R² for which the ends of the rule are computed, if there are many more models
SPAN_POINTS = 65


class Fits(NamedTuple):
    """The posteriors of m models of k columns each, for J values of g (J = 1 except for mixtures), in the problem's
    internal units."""

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
    # (m,) if g of the independent slab is unknown and the batch is of one of its values: the posterior probability of that value in each model,
    # by which `weight` is multiplied already; and which of the values it is
    share: np.ndarray | None = None
    value: int = 0
    # of families that are not Gaussian: the flat coefficients (m, q), their covariances (m, q, q), and those with β (m, q, k)
    flat_b: np.ndarray | None = None
    flat_V: np.ndarray | None = None
    flat_cross: np.ndarray | None = None


class Functionals(NamedTuple):
    """R linear functions of the coefficients, written so that the flat part is independent of β: their
    posterior given the model has location `centre` + y_scale·q·rowᵀb and squared scale y_scale²·s·(`variance` +
    t·rowᵀV row)."""

    centre: np.ndarray  # (R,)
    variance: np.ndarray  # (R,)
    row: np.ndarray  # (R, C)
    columns: np.ndarray  # (C,) the columns of the problem that `row` refers to, ascending; others have 0
    # (R, q) of the flat coefficients of families that are not Gaussian, which are not independent of β; else (R, 0)
    flat: np.ndarray

    def some(self, rows: slice | np.ndarray) -> "Functionals":
        return Functionals(
            self.centre[rows], self.variance[rows], self.row[rows], self.columns, self.flat[rows]
        )


def functionals(
    problem: Problem, intercept: np.ndarray, z: np.ndarray, x: np.ndarray, columns: np.ndarray | None = None
) -> Functionals:
    """The functionals intercept·ᾱ + zᵀδ + xᵀβ, where ᾱ is the intercept of centred columns. Shapes (R,), (R, q), (R, C).
    `columns` are the C columns, by default all P; they must include those of all models that are used."""
    flat, columns = problem.flat, np.arange(len(problem.columns_used)) if columns is None else columns
    row = (x - z @ flat.x_on_z[:, columns]) / problem.column_units[columns]
    if problem.fit_data is not None:
        nothing, parts = np.zeros(len(row)), np.column_stack([intercept, z])
        return Functionals(nothing, nothing, row, columns, parts @ problem.fit_data.coordinates)
    return Functionals(
        centre=intercept * flat.y_mean + z @ flat.y_on_z,
        variance=intercept**2 * flat.mean_variance + ((z @ flat.z_root) ** 2).sum(axis=1),
        row=row,
        columns=columns,
        flat=np.zeros((len(row), 0)),
    )


def own_lines(problem: Problem, kept: KeptModels) -> tuple[Functionals, np.ndarray]:
    """If the family is not Gaussian: the linear predictors of the problem's own rows of positive weight, without their offsets, and
    these, (n,)."""
    assert problem.fit_data is not None
    columns, likelihood = columns_of(problem, np.unique(kept.members)), problem.likelihood()
    given, nothing = problem.fit_data.given, np.zeros(problem.n)
    rows, flat = candidates_at(likelihood, columns).T, likelihood.flat_columns.T
    return Functionals(nothing, nothing, rows, columns, flat), given if len(given) else nothing


def along(fit: Fits, lines: Functionals) -> tuple[np.ndarray, np.ndarray]:
    """rowᵀb and rowᵀV row in every model: (R, m) each."""
    row = lines.row[:, np.searchsorted(lines.columns, fit.columns)]  # (R, m, k)
    b = np.einsum("rmk,mk->rm", row, fit.b)
    v = np.einsum("rmk,rmk->rm", row, np.einsum("mkl,rml->rmk", fit.V, row))
    if fit.flat_b is None or fit.flat_V is None or fit.flat_cross is None:
        return b, v
    b += lines.flat @ fit.flat_b.T
    v += np.einsum("rq,mqp,rp->rm", lines.flat, fit.flat_V, lines.flat, optimize=True)
    v += 2 * np.einsum("rmk,rmk->rm", row, np.einsum("rq,mqk->rmk", lines.flat, fit.flat_cross))
    return b, v


def fits(
    problem: Problem, kept: KeptModels, *, drop: float = DROP, least_drop: float = LEAST_DROP
) -> Iterator[Fits]:
    """The posteriors of all kept models, in batches with the same numbers of columns and of values of g. With mixtures of g
    the error of averages over models is of the order of exp(−drop), and that of the average over g in one model of the
    order of exp(−least_drop) (see DROP)."""
    if problem.fit_data is not None:
        yield from _fits_of_family(problem, kept)
        return
    if problem.unknown_g:
        yield from _fits_by_value_of_g(problem, kept)
        return
    if isinstance(problem.slab, MomentPrior):
        yield from _fits_of_moment_prior(problem, kept)
        return
    if isinstance(problem.slab, CorrelatedNormal):
        yield from _fits_of_correlated_slab(problem, kept)
        return
    drops = _drops(kept.weight, drop, least_drop) if type(problem.slab) in MIXTURES else None
    for index, columns in batches(problem, kept):
        yield from _fit(problem, index, columns, kept.weight[index], None if drops is None else drops[index])


def _fits_by_value_of_g(problem: Problem, kept: KeptModels) -> Iterator[Fits]:
    """The posteriors of all kept models if g of the independent slab is unknown: for each batch of models, one batch for each value of g
    that is not negligible in all of them."""
    slab = problem.target(0).slab
    for index, columns in batches(problem, kept):
        shares = shares_of_values(problem, kept.some(index))
        for value in np.flatnonzero(shares.any(axis=0)).tolist():
            share, ridge = shares[:, value], slab.ridge * slab.grid[value, RIDGE_FACTOR]
            (fit,) = _fit(problem, index, columns, kept.weight[index] * share, None, ridge)
            yield fit._replace(share=share, value=value)


def _fits_of_moment_prior(problem: Problem, kept: KeptModels) -> Iterator[Fits]:
    """The posteriors of all kept models under a non-local slab: t distributions with its means and covariances, and a noise variance with its
    mean."""
    target = problem.formula(0)
    assert isinstance(problem.slab, MomentPrior)
    for index, columns in batches(problem, kept):
        normal = normal_posteriors(target, columns)
        mean, covariance, noise = moments_of_coefficients(normal, problem.slab)
        degrees = normal.degrees if normal.degrees > FEWEST_DEGREES else np.inf
        share = 1.0 if degrees == np.inf else (degrees - 2) / degrees
        s, one = (noise * share)[:, None], np.ones((len(index), 1))
        V = covariance / noise[:, None, None]
        yield Fits(index, columns, kept.weight[index], mean, V, one, one, one, s, float(degrees))


def _fits_of_correlated_slab(problem: Problem, kept: KeptModels) -> Iterator[Fits]:
    """The posteriors of all kept models under a normal slab with a given covariance matrix and means."""
    target, slab = problem.formula(0), problem.slab
    assert isinstance(slab, CorrelatedNormal)
    for index, columns in batches(problem, kept):
        found, one = posteriors(target, columns, slab, problem._y_scale), np.ones((len(index), 1))
        degrees = float(target.slab.nu)
        s = found.S[:, None] / degrees if degrees < np.inf else one * (0.5 / target.slab.half_precision)
        yield Fits(index, columns, kept.weight[index], found.b, found.V, one, one, one, s, degrees)


def shares_of_values(problem: Problem, kept: KeptModels) -> np.ndarray:
    """The posterior probabilities of the values of an unknown g of the independent slab in each model, (models, values), without negligible
    ones. The null model, in which g means nothing, has the first value."""
    shares = averages_over_g(problem, kept.members, kept.start)[1]
    shares[np.diff(kept.start) == 0] = np.eye(shares.shape[1])[0]
    shares[shares < NEGLIGIBLE_SHARE] = 0.0
    return shares / shares.sum(axis=1, keepdims=True)


def _fits_of_family(problem: Problem, kept: KeptModels) -> Iterator[Fits]:
    """The normal approximations N(θ̂, H⁻¹) of all kept models if the family is not Gaussian, in batches."""
    likelihood = problem.likelihood()
    q, unknown = likelihood.flat, 0.0
    for index, columns in batches(problem, kept):
        m, k = columns.shape
        few = kept.some(index)
        modes, covariances = np.zeros((m, q + k)), np.zeros((m, q + k, q + k))
        with problem.works.borrow(likelihood, k) as work:
            done = fit_family_models(
                likelihood, work, np.require(few.members, np.int32, ["C", "W"]), few.start, modes, covariances
            )
        if done < m:
            names = [problem.names[j] for j in few.model(done)]
            raise DataError(
                f"the coefficients of the model {names} have no finite estimates under {problem.slab}: it separates the response, "
                "or its columns are collinear. Use IndependentNormal()"
            )
        if problem.evidence == "bas" and not isinstance(problem.slab, BIC) and k:
            modes, covariances = _shrunk(problem, modes, covariances, q)
        if likelihood.outer == SHRINKAGE:
            flat = np.broadcast_to(likelihood.flat_columns, (m, *likelihood.flat_columns.shape))
            columns_at = np.concatenate([flat, candidates_at(likelihood, columns)], axis=1)
            variance = (
                np.einsum("man,mab,mbn->m", columns_at, covariances, columns_at, optimize=True) / problem.n
            )
            unknown += float(kept.weight[index] @ (variance > NOTHING_KNOWN))
        one = np.ones((m, 1))
        yield Fits(
            index, columns, kept.weight[index], modes[:, q:], covariances[:, q:, q:], one, one, one, one, np.inf, None, 0,
            modes[:, :q], covariances[:, :q, :q], covariances[:, :q, q:],
        )  # fmt: skip
    if unknown > NOTICEABLE:
        warnings.warn(
            f"models with {unknown:.0%} of the probability have linear predictors with a standard deviation above "
            f"{np.sqrt(NOTHING_KNOWN):.0f}: they separate the response, and {problem.slab} allows any g. Coefficients and predictions are "
            "averaged over g by their means and variances, which says nothing then; use IndependentNormal() or GPrior(g)",
            DataWarning,
            stacklevel=3,
        )


def _shrunk(
    problem: Problem, modes: np.ndarray, covariances: np.ndarray, q: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means (m, q + k) and covariances (m, q + k, q + k) of coefficients under BAS's g-prior, whose information is that at the maximum
    of the likelihood: with S the covariance of β there and s = g/(1 + g), β ~ N(s β̂, s S), and independently of it the coefficients
    of the flat columns F if X is orthogonal to them, δ + Cβ, as at the maximum. Averaged over g, if that is unknown."""
    likelihood, beta = problem.likelihood(), modes[:, q:]
    S, cross, k = covariances[:, q:, q:], covariances[:, :q, q:], modes.shape[1] - q
    precision = np.linalg.inv(S)
    fit = np.einsum("ma,mab,mb->m", beta, precision, beta)
    slope = -cross @ precision  # C
    if isinstance(problem.slab, LocalEmpiricalBayes):
        g = np.maximum(fit / k - 1, 0.0)
        share, spread = g / (1 + g), np.zeros(len(g))
    elif isinstance(problem.slab, GPrior):
        share, spread = np.full(len(fit), likelihood.g / (1 + likelihood.g)), np.zeros(len(fit))
    else:
        _, log_prior, log_one_plus, rest = likelihood.shrinkage.T
        weight = softmax(log_prior - (k * log_one_plus + fit[:, None] * rest) / 2, axis=1)
        share = weight @ (1 - rest)
        spread = np.maximum(weight @ (1 - rest) ** 2 - share**2, 0.0)
    variance = share[:, None, None] * S + spread[:, None, None] * beta[:, :, None] * beta[:, None, :]
    mean, covariance = modes.copy(), covariances.copy()
    mean[:, q:] = share[:, None] * beta
    mean[:, :q] += np.einsum("mqk,mk->mq", slope, beta - mean[:, q:])
    turned = slope.transpose(0, 2, 1)
    covariance[:, q:, q:] = variance
    covariance[:, :q, q:] = -slope @ variance
    covariance[:, q:, :q] = -variance @ turned
    covariance[:, :q, :q] += slope @ (variance - S) @ turned
    return mean, covariance


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
    """``fits`` that can be iterated over repeatedly and are computed again each time, for models that would take too much
    memory."""

    def __init__(self, problem: Problem, kept: KeptModels) -> None:
        self._arguments = problem, kept

    def __iter__(self) -> Iterator[Fits]:
        return fits(*self._arguments)


def held_fits(problem: Problem, kept: KeptModels) -> "list[Fits] | Refits":
    """``fits`` for repeated iteration: a list if that takes no more than HELD_BYTES."""
    k = np.diff(
        np.concatenate([[0], np.cumsum(np.diff(problem.offsets)[kept.members])])[kept.start]
    )  # columns of each model
    nodes = 60 if type(problem.slab) in MIXTURES else 1
    copies = len(problem.target(0).slab.grid) if problem.unknown_g else 1
    again = Refits(problem, kept)
    return list(again) if 8 * copies * float((k * k + 3 * k + 4 * nodes).sum()) <= HELD_BYTES else again


def _fit(
    problem: Problem,
    index: np.ndarray,
    columns: np.ndarray,
    weight: np.ndarray,
    drop: np.ndarray | None,
    ridge: np.ndarray | None = None,
) -> Iterator[Fits]:
    """The posteriors of models with the same number of columns; `drop` is that of ``_drops``, for mixtures of g; `ridge` is 1/g_j of each
    column, (P,), where the target does not say it."""
    design, slab = problem.target(0).design, problem.target(0).slab
    m, k = columns.shape
    independent = slab.code == codes.INDEPENDENT or ridge is not None
    if k > problem.max_columns:
        raise DataError(
            f"a model of {k} columns has no posterior under {problem.slab}: at most {problem.max_columns} are possible with {problem.n} rows"
        )
    gram, right = precisions(problem, columns, ridge), design.xty[columns]
    try:
        V = np.linalg.inv(gram)
        singular = not (independent or full_rank(problem, V).all())
    except np.linalg.LinAlgError:
        singular = True
    if singular:
        raise DataError(
            f"a model has collinear columns, and so no proper posterior under {problem.slab}; use IndependentNormal()"
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
    """Values of g/(1 + g) and their posterior weights for models of k columns with 1 − R² = residual, in batches of models
    that need about the same number of values: their indices (m,), values and weights (m, J)."""
    slab = problem.target(0).slab
    kind, n, a = mixture_law(problem.slab, slab.rows, problem.n - problem.nu)
    law = (kind, slab.nu, n, a, int(k))
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
    law: tuple[str, float, float, Parameters, int], u: np.ndarray, drop: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ends of the rule, and the standard deviation of a normal density as sharp as the peak, for each model, (m,). If
    there are many models, they are computed on a grid of u, and the most conservative of the two neighbours is used."""
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
