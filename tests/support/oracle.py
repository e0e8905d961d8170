"""A brute-force oracle for the tests: exact posteriors of small problems by dense linear algebra on raw data.

Nothing here is shared with the library, and where the mathematics allows it another route is taken:

* The independent slab uses the marginal covariance V = I + X D Xᵀ of the data, through the singular values of
  X D^½ (the library factorises XᵀX + D⁻¹).
* R² comes from two least squares fits of the raw weighted data, on [1, Z, X_γ] and on [1, Z].
* A Bayes factor at fixed g is written in S(g) = RSS + (S₀ − RSS)/(1 + g); the mixtures over g are integrated
  in log g by a composite Gauss–Legendre rule that is refined until it stands still; robust and intrinsic priors in a variable that
  is uniform under the prior; local empirical Bayes finds the root of the score.

Conventions. Rows of weight zero are dropped; n is the number of rows left, also in the priors on g and BIC.
A constant column is a column of zeros under scale="unit". Everything is relative to the null model [1, Z].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.special
import scipy.stats

KINDS = (
    "independent", "unknown-g", "g", "hyper-g", "hyper-g/n", "zellner-siow", "cch", "beta-prime", "robust", "intrinsic", "eb-local", "bic",
)  # fmt: skip
MIXTURES = ("hyper-g", "hyper-g/n", "zellner-siow")
RANK_TOLERANCE = 1e-10

# ("fixed", h) with h a scalar or one per variable; ("beta-binomial", a, b); ("sizes", weights of the sizes 0, 1, …); or
# ("graph", h of each variable, edges, their strengths)
Prior = tuple


@dataclass(frozen=True)
class OracleSlab:
    """Prior of the coefficients. g: a number, or one per variable (independent only); a: of hyper-g(/n); r: scale of Zellner–Siow;
    cch: a, b and s."""

    kind: str
    g: float | np.ndarray | None = None
    a: float = 3.0
    r: float = 1.0
    cch: tuple[float, float, float] = (1.0, 2.0, 0.0)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown slab {self.kind!r}")
        if self.kind in ("independent", "g"):
            if self.g is None or np.any(np.asarray(self.g) <= 0):
                raise ValueError(f"slab {self.kind!r} needs g > 0")
            if self.kind == "g" and np.ndim(self.g) != 0:
                raise ValueError("the g-prior has one g")
        if self.kind.startswith("hyper-g") and not self.a > 2:
            raise ValueError("hyper-g needs a > 2")


@dataclass(frozen=True, eq=False)
class OraclePosterior:
    """All 2^p models; row i of `masks` is the binary expansion of i, variable 0 the lowest bit."""

    masks: np.ndarray
    log_priors: np.ndarray
    log_marginals: np.ndarray
    probabilities: np.ndarray
    pips: np.ndarray
    size_distribution: np.ndarray
    log_evidence: float
    log_joint: (
        np.ndarray
    )  # log prior + temper · log marginal, −inf without mass: where probabilities are below any number


class _Data:
    """Scaled columns and response times the square root of the weights, and their residuals on [1, Z]."""

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        groups: Sequence[Sequence[int]] | None,
        Z: np.ndarray | None,
        weights: np.ndarray | None,
        scale: str,
        copies: int = 1,
    ) -> None:
        X = np.asarray(X, dtype=float)
        y = np.asarray(y, dtype=float)
        Z = np.empty((y.size, 0)) if Z is None else np.asarray(Z, dtype=float).reshape(y.size, -1)
        w = np.ones(y.size) if weights is None else np.asarray(weights, dtype=float)
        if X.ndim != 2 or X.shape[0] != y.size or w.shape != y.shape or np.any(w < 0):
            raise ValueError("X is n by columns, y and weights have n entries, weights are not negative")
        if scale not in ("unit", "none"):
            raise ValueError(f"unknown scale {scale!r}")
        keep = w > 0
        X, y, Z, w = X[keep], y[keep], Z[keep], copies * w[keep]

        self.n = copies * y.size
        self.groups = [[j] for j in range(X.shape[1])] if groups is None else [list(c) for c in groups]
        mean = w @ X / w.sum()
        centred = X - mean
        constant = np.abs(centred).max(axis=0) <= 1e-12 * np.abs(X).max(axis=0)
        centred[:, constant] = 0.0
        self.mean_variance = 1.0
        if scale == "none":
            self.mean_variance = float(np.mean(w @ centred**2 / (w.sum() * (self.n - 1) / self.n)))
        if scale == "unit":
            sd = np.sqrt(w @ centred**2 / (w.sum() * (self.n - 1) / self.n))
            sd[constant] = 1.0
            X = np.where(constant, 0.0, X / sd)
            centred = centred / sd

        root = np.sqrt(w)[:, None]
        self.X = root * X
        self.y = root[:, 0] * y
        self.base = np.hstack([root, root * Z])

        # An orthonormal basis of [1, Z]: Z is centred first, what is left of a constant column is dropped.
        Zc = root * (Z - w @ Z / w.sum())
        size = np.linalg.norm(Zc, axis=0)
        varies = size > 1e-12 * np.linalg.norm(root * Z, axis=0)
        basis = np.hstack([root / np.linalg.norm(root), Zc[:, varies] / size[varies]])
        self.basis = scipy.linalg.orth(basis, rcond=1e-10)
        self.nu = self.n - self.basis.shape[1]

        self.Xr = self._residual(root * centred)
        self.yr = self._residual(self.y)
        self.null_ss = float(_rss(self.base, self.y))
        if self.nu < 1 or not self.null_ss > 1e-24 * float(self.y @ self.y):
            raise ValueError("the null model fits y exactly")
        centred_ss = np.sum((root * centred) ** 2, axis=0)
        residual_ss = np.sum(self.Xr**2, axis=0)
        self.in_base = constant | (residual_ss <= RANK_TOLERANCE * centred_ss)

    def _residual(self, a: np.ndarray) -> np.ndarray:
        for _ in range(2):  # the second pass removes the rounding of the first
            a = a - self.basis @ (self.basis.T @ a)
        return a

    def columns(self, variables: Sequence[int]) -> list[int]:
        if len(set(variables)) != len(variables):
            raise ValueError("a variable occurs twice")
        return [c for v in variables for c in self.groups[v]]

    def deficient(self, columns: list[int]) -> bool:
        """Whether a residual column has 1 − R² on the others below the tolerance, by SVD of unit columns."""
        if np.any(self.in_base[columns]):
            return True
        E = self.Xr[:, columns]
        _, s, vt = np.linalg.svd(E / np.linalg.norm(E, axis=0), full_matrices=False)
        if s[-1] <= 1e-14:
            return True
        unexplained = 1.0 / np.sum((vt / s[:, None]) ** 2, axis=0)
        return bool(unexplained.min() < RANK_TOLERANCE)


def _rss(A: np.ndarray, y: np.ndarray) -> float:
    """Residual sum of squares of y on A by least squares; columns are brought to unit length first."""
    size = np.linalg.norm(A, axis=0)
    A = A[:, size > 0] / size[size > 0]
    coef, *_ = np.linalg.lstsq(A, y, rcond=None)
    residual = y - A @ coef
    coef, *_ = np.linalg.lstsq(A, residual, rcond=None)  # one step of refinement
    residual = residual - A @ coef
    return float(residual @ residual)


def _log_marginal_independent(
    data: _Data, variables: Sequence[int], slab: OracleSlab, a0: float, b0: float
) -> float:
    columns = data.columns(variables)
    g = np.broadcast_to(np.asarray(slab.g, dtype=float), (len(data.groups),))
    d = np.array([g[v] for v in variables for _ in data.groups[v]])
    # On the ν-dimensional residual space y ~ N(0, σ² V), V = I + A Aᵀ, eigenvalues 1 + s² and 1.
    u, s, _ = np.linalg.svd(data.Xr[:, columns] * np.sqrt(d), full_matrices=False)
    along = u.T @ data.yr
    rest = data.yr - u @ along
    quadratic = float(rest @ rest + np.sum(along**2 / (1.0 + s**2)))
    null = float(data.yr @ data.yr)
    log_ratio = np.log((quadratic + 2 * b0) / (null + 2 * b0))
    return float(-0.5 * np.sum(np.log1p(s**2)) - 0.5 * (data.nu + 2 * a0) * log_ratio)


def _log_marginal_known(data: _Data, variables: Sequence[int], slab: OracleSlab, variance: float) -> float:
    """With σ² known: y ~ N(0, σ² V) on the residual space, V = I + A Aᵀ, with the dense n × n matrix. BIC is
    the maximum of the likelihood, and local empirical Bayes the largest of the g-priors'."""
    columns = data.columns(variables)
    k, E, y = len(columns), data.Xr[:, columns], data.yr
    coefficients, *_ = np.linalg.lstsq(E / np.linalg.norm(E, axis=0), y, rcond=None)
    fitted = E / np.linalg.norm(E, axis=0) @ coefficients
    if slab.kind == "bic":
        return float((y @ y - np.sum((y - fitted) ** 2)) / (2 * variance) - k / 2 * np.log(data.n))

    def log_ratio(prior_covariance: np.ndarray) -> float:
        V = np.eye(y.size) + E @ prior_covariance @ E.T
        return float(-0.5 * np.linalg.slogdet(V)[1] - (y @ np.linalg.solve(V, y) - y @ y) / (2 * variance))

    if slab.kind == "independent":
        g = np.broadcast_to(np.asarray(slab.g, dtype=float), (len(data.groups),))
        return log_ratio(np.diag([g[v] for v in variables for _ in data.groups[v]]))
    spread = np.linalg.inv(E.T @ E)
    if slab.kind == "g":
        return log_ratio(slab.g * spread)
    if slab.kind == "eb-local":
        best = scipy.optimize.minimize_scalar(
            lambda u: -log_ratio(np.expm1(np.exp(u)) * spread), bounds=(-12.0, 2.6), method="bounded",
            options={"xatol": 1e-9},
        )  # fmt: skip
        return max(0.0, -float(best.fun))
    raise ValueError(f"{slab.kind} has no form for a known variance")


def _log_bf_at(log_g: np.ndarray | float, k: int, c: float, r: float, exponent: float) -> np.ndarray:
    """log BF at g. c = RSS + 2 b0, r = S₀ − RSS, exponent = (ν + 2 a0)/2; V = I + gP has |V| = (1 + g)^k."""
    v = np.asarray(log_g, dtype=float)
    shrunk = c + r * scipy.special.expit(-v)
    return -0.5 * k * np.logaddexp(0.0, v) - exponent * (np.log(shrunk) - np.log(c + r))


def _log_mixing_density(log_g: np.ndarray, kind: str, n: float, a: float) -> np.ndarray:
    """Log density of log g (the Jacobian is included)."""
    if kind == "hyper-g":
        return np.log((a - 2) / 2) - a / 2 * np.logaddexp(0.0, log_g) + log_g
    if kind == "hyper-g/n":
        t = log_g - np.log(n)
        return np.log((a - 2) / 2) - a / 2 * np.logaddexp(0.0, t) + t
    if kind == "zellner-siow":
        return 0.5 * np.log(n / 2) - 0.5 * np.log(np.pi) - 0.5 * log_g - n / 2 * np.exp(-log_g)
    raise ValueError(kind)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def _panels(lower: float, upper: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    edges = np.linspace(lower, upper, count + 1)
    half = (upper - lower) / count / 2
    x = (edges[:-1] + half)[:, None] + half * _NODES
    return x.ravel(), np.tile(half * _WEIGHTS, count)


@lru_cache(maxsize=200_000)
def _log_truncated_mixture(
    kind: str, n: int, k: int, common: int, c: float, r: float, exponent: float
) -> float:
    """log ∫ BF(g) π(g) dg with g + 1 = (n + 1)/(k + common)/w², w uniform on (0, 1), or g = n/(k + common)/sin²θ, θ uniform on (0, π/2)."""
    if c == 0:
        return np.inf
    last = np.nan
    for doubling in range(12):
        # panels halve towards 0, where g is infinite
        edges = np.concatenate([[0.0], 2.0 ** -np.linspace(60, 0, 1 + (60 << doubling))])
        half = np.diff(edges) / 2
        w = ((edges[:-1] + half)[:, None] + half[:, None] * _NODES).ravel()
        weight = (half[:, None] * _WEIGHTS).ravel()
        g = (
            (n + 1) / (k + common) / w**2 - 1
            if kind == "robust"
            else n / (k + common) / np.sin(np.pi / 2 * w) ** 2
        )
        value = float(scipy.special.logsumexp(_log_bf_at(np.log(g), k, c, r, exponent), b=weight))
        if abs(value - last) < 1e-11 * max(1.0, abs(value)):
            return value
        last = value
    raise ArithmeticError("the integral over g did not settle")


@lru_cache(maxsize=200_000)
def _log_cch_mixture(a: float, b: float, s: float, k: int, c: float, r: float, exponent: float) -> float:
    """log ∫ BF(g) π(g) dg, g ~ beta prime(b/2, a/2) of scipy times exp(−s/(2 (1 + g))), normalised by the same rule."""
    law = scipy.stats.betaprime(b / 2, a / 2)
    last = np.nan
    for doubling in range(9):
        x, weight = _panels(-220.0, 220.0, 128 << doubling)
        with np.errstate(all="ignore"):
            density = law.logpdf(np.exp(x)) + x
        # the same in logs, where scipy has no digits
        plain = -scipy.special.betaln(b / 2, a / 2) + b / 2 * x - (a + b) / 2 * np.logaddexp(0.0, x)
        log_pi = np.where(
            np.isfinite(density) & (np.abs(x) < 20), density, plain
        ) - s / 2 * scipy.special.expit(-x)
        value = float(
            scipy.special.logsumexp(log_pi + _log_bf_at(x, k, c, r, exponent), b=weight)
            - scipy.special.logsumexp(log_pi, b=weight)
        )
        if abs(value - last) < 1e-11 * max(1.0, abs(value)):
            return value
        last = value
    raise ArithmeticError("the integral over g did not settle")


@lru_cache(maxsize=200_000)
def _log_mixture(kind: str, a: float, n: float, k: int, c: float, r: float, exponent: float) -> float:
    """log ∫ BF(g) π(g) dg, in log g."""

    def log_f(v: np.ndarray) -> np.ndarray:
        return _log_bf_at(v, k, c, r, exponent) + _log_mixing_density(v, kind, n, a)

    grid = np.linspace(-90.0, 260.0, 7001)
    values = log_f(grid)
    if values.argmax() >= grid.size - 100:
        return np.inf  # an exact fit: the integral diverges, or as good as
    alive = np.flatnonzero(values > values.max() - 48.0)
    lower, upper = grid[max(alive[0] - 1, 0)], grid[min(alive[-1] + 1, grid.size - 1)]
    last = np.nan
    for doubling in range(9):
        x, weight = _panels(lower, upper, 32 << doubling)
        log_integral = float(scipy.special.logsumexp(log_f(x), b=weight))
        if abs(log_integral - last) < 1e-11 * max(1.0, abs(log_integral)):
            return log_integral
        last = log_integral
    raise ArithmeticError("the integral over g did not settle")


def _log_eb_local(k: int, c: float, r: float, exponent: float) -> float:
    """max over g ≥ 0 of log BF(g), a concave function of u = log(1 + g), by the root of its derivative."""

    def score(u: float) -> float:
        return -k / 2 + exponent * r * np.exp(-u) / (c + r * np.exp(-u))

    if score(0.0) <= 0:
        return 0.0
    if c == 0:
        return np.inf
    upper = 1.0
    while score(upper) > 0:
        upper *= 2
    u = scipy.optimize.brentq(score, 0.0, upper, xtol=1e-13)
    return float(-k / 2 * u - exponent * (np.log(c + r * np.exp(-u)) - np.log(c + r)))


def values_of_unknown_g(data: _Data) -> list[tuple[float, float]]:
    """The values that the unknown g of the independent slab can have, and the logs of their probabilities: doubled from 10/n to no more than
    100·√2, but eight at least, in units of the mean variance of the columns; the half-Cauchy density of √g in log g."""
    g = [10.0 / data.n]
    while len(g) < 8 or 2.0 * g[-1] <= 100.0 * np.sqrt(2.0):
        g.append(2.0 * g[-1])
    density = scipy.stats.halfcauchy.pdf(np.sqrt(g)) * np.sqrt(g) / 2
    return list(zip(np.array(g) / data.mean_variance, np.log(density / density.sum())))


def _log_marginal(
    data: _Data,
    variables: Sequence[int],
    slab: OracleSlab,
    inverse_gamma: tuple[float, float] | None,
    known_variance: float | None = None,
) -> float:
    if slab.kind == "unknown-g":
        terms = [
            w + _log_marginal(data, variables, OracleSlab("independent", g=g), inverse_gamma, known_variance)
            for g, w in values_of_unknown_g(data)
        ]
        return float(scipy.special.logsumexp(terms))
    if known_variance is not None:
        if len(variables) == 0:
            return 0.0
        if slab.kind != "independent":
            columns = data.columns(variables)
            if len(columns) > data.nu or data.deficient(columns):
                return -np.inf
        return _log_marginal_known(data, variables, slab, known_variance)
    if slab.kind == "bic" and inverse_gamma is not None:
        raise ValueError("BIC takes no prior on the variance")
    a0, b0 = (0.0, 0.0) if inverse_gamma is None else inverse_gamma
    if len(variables) == 0:
        return 0.0
    if slab.kind == "independent":
        return _log_marginal_independent(data, variables, slab, a0, b0)

    columns = data.columns(variables)
    k = len(columns)
    if k > data.nu - 1 or data.deficient(columns):
        return -np.inf
    rss = min(_rss(np.hstack([data.base, data.X[:, columns]]), data.y), data.null_ss)
    c, r, exponent = rss + 2 * b0, data.null_ss - rss, data.nu / 2 + a0
    if slab.kind == "g":
        return float(_log_bf_at(np.log(float(slab.g)), k, c, r, exponent))  # type: ignore[arg-type]
    if slab.kind == "eb-local":
        return _log_eb_local(k, c, r, exponent)
    if slab.kind == "bic":
        return float(-data.n / 2 * np.log(rss / data.null_ss) - k / 2 * np.log(data.n))
    if slab.kind in ("robust", "intrinsic"):
        return _log_truncated_mixture(slab.kind, data.n, k, data.n - data.nu, c, r, exponent)
    if slab.kind in ("cch", "beta-prime"):
        a, b, s = slab.cch if slab.kind == "cch" else (0.5, data.n - k - 1.5, 0.0)
        return _log_cch_mixture(a, b, s, k, c, r, exponent)
    scale = slab.r**2 * data.n if slab.kind == "zellner-siow" else data.n
    return _log_mixture(slab.kind, slab.a, scale, k, c, r, exponent)


def log_marginal(
    X: np.ndarray,
    y: np.ndarray,
    variables: Sequence[int],
    slab: OracleSlab,
    *,
    groups: Sequence[Sequence[int]] | None = None,
    Z: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    copies: int = 1,
    scale: Literal["unit", "none"] = "unit",
    inverse_gamma: tuple[float, float] | None = None,
    known_variance: float | None = None,
) -> float:
    """Log Bayes factor of the model with these variables against the null model.

    groups: column indices of each variable (None: one column each). Z: columns in besides the intercept.
    weights: ε_i ~ N(0, σ²/w_i). copies: how many rows, all the same, each row stands for. scale="unit": columns of X over their weighted sample sd.
    inverse_gamma=(a0, b0): σ² ~ InvGamma instead of 1/σ²; known_variance: σ² itself. All slabs but the independent one give
    −inf to a rank-deficient model and to more than ν − 1 columns, or ν where σ² is known.
    """
    return _log_marginal(
        _Data(X, y, groups, Z, weights, scale, copies), tuple(variables), slab, inverse_gamma, known_variance
    )


def log_model_prior(
    model: Sequence[int] | np.ndarray, p: int, prior: Prior, max_size: int | None = None
) -> float:
    """Normalised log prior probability of a model, given by its variables or as a boolean mask of length p.

    With max_size the prior is conditioned on at most that many variables.
    """
    model = np.asarray(model)
    if model.dtype == bool:
        if model.shape != (p,):
            raise ValueError("a mask has p entries")
        included = model
    else:
        included = np.zeros(p, dtype=bool)
        included[model.astype(int)] = True
    k = int(included.sum())
    if max_size is not None and k > max_size:
        return -np.inf

    if prior[0] == "fixed":
        h = np.broadcast_to(np.asarray(prior[1], dtype=float), (p,))
        with np.errstate(divide="ignore"):
            log_prior = float(np.sum(np.log(h[included])) + np.sum(np.log1p(-h[~included])))
        if max_size is not None and max_size < p:
            sizes = np.zeros(max_size + 1)  # Poisson-binomial, one variable at a time
            sizes[0] = 1.0
            for hj in h:
                sizes[1:] = sizes[1:] * (1 - hj) + sizes[:-1] * hj
                sizes[0] *= 1 - hj
            log_prior -= float(np.log(sizes.sum()))
        return log_prior
    if prior[0] == "beta-binomial":
        log_sizes = _log_beta_binomial(p, float(prior[1]), float(prior[2]))
        ways = scipy.special.gammaln(p + 1) - scipy.special.gammaln(k + 1) - scipy.special.gammaln(p - k + 1)
        log_prior = float(log_sizes[k] - ways)
        if max_size is not None and max_size < p:
            log_prior -= float(np.log(np.sum(np.exp(log_sizes[: max_size + 1]))))
        return log_prior
    if prior[0] == "graph":
        if max_size is not None:
            raise ValueError("the graph prior is not cut off")
        return float(_log_graph_prior(p, *prior[1:])[int(included @ (1 << np.arange(p)))])
    if prior[0] == "sizes":
        most = p if max_size is None else min(max_size, p)
        shares = np.asarray(prior[1][: most + 1], float) / sum(prior[1][: most + 1])
        return float(np.log(shares[k]) - np.log(scipy.special.comb(p, k)))
    raise ValueError(f"unknown prior {prior[0]!r}")


@lru_cache
def _log_graph_prior(
    p: int, h: tuple[float, ...], edges: tuple[tuple[int, int], ...], strengths: tuple[float, ...]
) -> np.ndarray:
    """Of all 2^p models in the order of ``all_masks``: Π odds · exp(Σ strengths of edges inside), over its sum."""
    masks = all_masks(p)
    value = masks @ np.log(np.array(h) / (1 - np.array(h)))
    for (a, b), strength in zip(edges, strengths):
        value = value + strength * masks[:, a] * masks[:, b]
    return value - scipy.special.logsumexp(value)


@lru_cache
def _log_beta_binomial(p: int, a: float, b: float) -> np.ndarray:
    """Of all sizes, (p + 1,): SciPy takes longer to make a distribution than to evaluate it."""
    return scipy.stats.betabinom(p, a, b).logpmf(np.arange(p + 1))


def log_heredity_priors(
    p: int, prior: Prior, parents: Sequence[Sequence[int]], max_size: int | None = None
) -> np.ndarray:
    """Log prior probability of all 2^p models, in the order of ``all_masks``, where a variable can be in only with
    all its parents: from all 2^p outcomes of independent coins, out of which whatever lacks a parent is taken,
    again and again. With max_size the prior is conditioned on at most that many variables."""
    coins = all_masks(p)
    left = coins.copy()
    while True:
        before = left.copy()
        for j in range(p):
            left[:, j] &= before[:, list(parents[j])].all(axis=1)
        if np.array_equal(left, before):
            break
    chance = np.exp([log_model_prior(mask, p, prior) for mask in coins])
    mass = np.bincount(left @ (1 << np.arange(p)), weights=chance, minlength=2**p)
    if max_size is not None:
        mass[coins.sum(axis=1) > max_size] = 0.0
        mass /= mass.sum()
    with np.errstate(divide="ignore"):
        return np.log(mass)


def all_masks(p: int) -> np.ndarray:
    """The 2^p models as a boolean array in binary counting order, variable 0 the lowest bit."""
    return (np.arange(2**p)[:, None] >> np.arange(p)) & 1 == 1


def enumerate_posterior(
    X: np.ndarray,
    y: np.ndarray,
    slab: OracleSlab,
    prior: Prior,
    *,
    groups: Sequence[Sequence[int]] | None = None,
    Z: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    copies: int = 1,
    scale: Literal["unit", "none"] = "unit",
    inverse_gamma: tuple[float, float] | None = None,
    known_variance: float | None = None,
    max_size: int | None = None,
    parents: Sequence[Sequence[int]] | None = None,
    temper: float = 1.0,
) -> OraclePosterior:
    """The exact posterior over all 2^p models, probabilities ∝ prior · marginal^temper.

    parents: of each variable, without all of which it cannot be in. copies: rows, all the same, that each row stands
    for: sums over n rows of which there are few different ones, without their rounding errors.

    log_evidence is the log of Σ prior · marginal^temper: at temper = 1 the evidence relative to the null
    model's. A model of marginal zero (rank-deficient) has probability zero at temper = 0 too; log_priors and
    log_evidence are not renormalised for it.
    """
    data = _Data(X, y, groups, Z, weights, scale, copies)
    p = len(data.groups)
    if p > 16:
        raise ValueError("too many variables to enumerate")
    masks = all_masks(p)
    if parents is None:
        log_priors = np.array([log_model_prior(mask, p, prior, max_size) for mask in masks])
    else:
        log_priors = log_heredity_priors(p, prior, parents, max_size)
    log_marginals = np.array(
        [
            _log_marginal(data, tuple(np.flatnonzero(mask)), slab, inverse_gamma, known_variance)
            for mask in masks
        ]
    )
    possible = np.isfinite(log_priors) & (log_marginals > -np.inf)
    log_joint = np.full(len(masks), -np.inf)
    log_joint[possible] = log_priors[possible] + temper * log_marginals[possible]
    log_evidence = float(scipy.special.logsumexp(log_joint))
    probabilities = np.exp(log_joint - log_evidence)
    sizes = masks.sum(axis=1)
    return OraclePosterior(
        masks=masks,
        log_priors=log_priors,
        log_marginals=log_marginals,
        probabilities=probabilities,
        pips=probabilities @ masks,
        size_distribution=np.bincount(sizes, weights=probabilities, minlength=p + 1),
        log_evidence=log_evidence,
        log_joint=log_joint,
    )
