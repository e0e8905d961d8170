"""Model averages by dense algebra on raw data: the posterior of (intercept, Z, β) in each model as one
regression with a prior precision, the flat part not taken out first; averages over g by Gauss–Legendre."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats

from support import oracle
from support.paired import Paired


@dataclass
class Component:
    """One model at one g: all coefficients (intercept, X, Z) are t; those out of the model are 0."""

    weight: float
    mask: np.ndarray  # by variable
    mean: np.ndarray
    scale: np.ndarray  # matrix
    noise: float  # scale of σ²
    degrees: float


def components(case: Paired, prior: tuple) -> list[Component]:
    """Everything the averages are made of, in the order: intercept, columns of X, columns of Z."""
    posterior = case.posterior(prior)
    out = []
    for mask, probability in zip(posterior.masks, posterior.probabilities):
        if probability > 0:
            out += _model(case, mask, probability)
    return out


def _model(case: Paired, mask: np.ndarray, probability: float) -> list[Component]:
    n_all, P = case.X.shape
    w = np.ones(n_all) if case.weights is None else case.weights
    keep = w > 0
    w, X, y = w[keep], case.X[keep], case.y[keep]
    Z = np.zeros((len(y), 0)) if case.Z is None else case.Z[keep]
    groups = [[j] for j in range(P)] if case.groups is None else case.groups
    columns = [c for v in np.flatnonzero(mask) for c in groups[v]]
    owner = [v for v in np.flatnonzero(mask) for _ in groups[v]]
    n, k = len(y), len(columns)
    a0, b0 = case.inverse_gamma or (0.0, 0.0)
    F = np.column_stack([np.ones(n), X[:, columns], Z])
    base = np.column_stack([np.ones(n), Z])
    nu = n - base.shape[1]
    root = np.sqrt(w)[:, None]
    residual = root * X[:, columns]
    residual = residual - root * base @ np.linalg.lstsq(root * base, residual, rcond=None)[0]
    inner = residual.T @ residual
    place = [0, *(1 + np.array(columns, int)), *range(1 + P, 1 + P + Z.shape[1])]
    kind = case.oracle_slab.kind

    def component(share: float, precision: np.ndarray, degrees: float) -> Component:
        """precision: of β given σ² = 1."""
        full = F.T @ (w[:, None] * F)
        full[1 : 1 + k, 1 : 1 + k] += precision
        inverse = np.linalg.inv(full)
        mean = inverse @ F.T @ (w * y)
        error = y - F @ mean
        beta = mean[1 : 1 + k]
        noise = (error @ (w * error) + beta @ precision @ beta + 2 * b0) / degrees
        if case.known_variance is not None:
            noise, degrees = case.known_variance, np.inf
        wide_mean, wide = np.zeros(1 + P + Z.shape[1]), np.zeros((1 + P + Z.shape[1],) * 2)
        wide_mean[place], wide[np.ix_(place, place)] = mean, noise * inverse
        return Component(share, mask, wide_mean, wide, noise, degrees)

    if kind == "independent":
        g = np.broadcast_to(np.asarray(case.oracle_slab.g, float), (len(groups),))[owner]
        units = np.ones(k)
        if case.scale == "unit":
            centred = X[:, columns] - w @ X[:, columns] / w.sum()
            units = np.sqrt(w @ centred**2 / (w.sum() * (n - 1) / n))
        return [component(probability, np.diag(units**2 / g), nu + 2 * a0)]
    if kind == "bic":
        return [component(probability, np.zeros((k, k)), nu - k)]
    if k == 0:
        return [component(probability, inner, nu + 2 * a0)]
    null = root[:, 0] * y
    null = null - root * base @ np.linalg.lstsq(root * base, null, rcond=None)[0]
    rss = float(np.sum((null - residual @ np.linalg.lstsq(residual, null, rcond=None)[0]) ** 2))
    c, r, exponent = rss + 2 * b0, float(null @ null) - rss, nu / 2 + a0
    if kind == "g":
        return [component(probability, inner / case.oracle_slab.g, nu + 2 * a0)]
    if kind == "eb-local":
        f = (r / k) / (c / (nu + 2 * a0 - k) if case.known_variance is None else case.known_variance)
        return [component(probability, inner / max(f - 1, 1e-14), nu + 2 * a0)]
    x, weight = oracle._panels(-45.0, 75.0, 40)
    log_f = oracle._log_bf_at(x, k, c, r, exponent)
    log_f = log_f + oracle._log_mixing_density(x, kind, n, case.oracle_slab.a)
    share = weight * np.exp(log_f - log_f.max())
    share /= share.sum()
    return [
        component(probability * s, inner * np.exp(-v), nu + 2 * a0) for s, v in zip(share, x) if s > 1e-13
    ]


def t_variance(degrees: np.ndarray) -> np.ndarray:
    """Variance of t distributions of scale 1; of normal ones, where degrees of freedom are infinite."""
    return scipy.stats.t.var(degrees)


def moments(weight: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> tuple[float, float]:
    """Mean and sd of a mixture."""
    weight = weight / weight.sum()
    centre = float(weight @ mean)
    return centre, float(np.sqrt(weight @ (variance + (mean - centre) ** 2)))


def quantile(
    level: float,
    weight: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
    degrees: np.ndarray,
    atom: float = 0,
) -> float:
    """Of Σ weight·t(mean, scale) + atom·δ₀, by root finding."""

    def cdf(x: float) -> float:
        return float(weight @ scipy.special.stdtr(degrees, (x - mean) / scale))

    below = cdf(0.0)
    if atom and below < level <= below + atom:
        return 0.0
    if atom and level > below:
        level -= atom
    far = 1e4 * (np.abs(mean).max() + scale.max())
    return float(scipy.optimize.brentq(lambda x: cdf(x) - level, -far, far, xtol=1e-14, rtol=1e-14))
