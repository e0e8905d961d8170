"""Leave-one-out densities by brute force: absolute marginal likelihoods of all rows and of all rows but one, by
dense algebra on raw data, summed over models and g."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, logsumexp

from support import oracle
from support.paired import Paired


def log_likelihood(
    F: np.ndarray, y: np.ndarray, w: np.ndarray, precision: np.ndarray, flat: int, noise: tuple | float
) -> float:
    """log p(y) of y = Fθ + ε, ε ~ N(0, σ²/w), the last columns of θ ~ N(0, σ² precision⁻¹), the first `flat` of them
    flat, p(σ²) ∝ σ^(−2a−2) exp(−b/σ²) for a pair (a, b), or σ² given."""
    A = F.T @ (w[:, None] * F)
    A[flat:, flat:] += precision
    theta = np.linalg.solve(A, F.T @ (w * y))
    error, beta = y - F @ theta, theta[flat:]
    S = error @ (w * error) + beta @ precision @ beta
    determinants = 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * np.linalg.slogdet(A)[1]
    value = determinants + 0.5 * np.log(w).sum() - (len(y) - flat) / 2 * np.log(2 * np.pi)
    if not isinstance(noise, tuple):
        return float(value - (len(y) - flat) / 2 * np.log(noise) - S / (2 * noise))
    a, b = noise
    d = len(y) - flat + 2 * a
    return float(value + gammaln(d / 2) - d / 2 * np.log((S + 2 * b) / 2))


def left_out_densities(case: Paired, prior: tuple) -> np.ndarray:
    """log p(y_i | all others) of the rows of positive weight."""
    w = np.ones(len(case.y)) if case.weights is None else case.weights
    keep = w > 0
    X, y, w = case.X[keep], case.y[keep], w[keep]
    Z = np.zeros((len(y), 0)) if case.Z is None else case.Z[keep]
    base = np.column_stack([np.ones(len(y)), Z])
    groups = [[j] for j in range(X.shape[1])] if case.groups is None else case.groups
    noise = case.known_variance or case.inverse_gamma or (0.0, 0.0)
    rows = [np.arange(len(y)), *(np.delete(np.arange(len(y)), i) for i in range(len(y)))]
    total = np.full(len(rows), -np.inf)
    for mask in oracle.all_masks(len(groups)):
        columns = [c for v in np.flatnonzero(mask) for c in groups[v]]
        F = np.column_stack([base, X[:, columns]])
        log_prior = oracle.log_model_prior(mask, len(groups), prior)
        for log_weight, precision in _precisions(case, X[:, columns], w, base):
            for r, chosen in enumerate(rows):
                value = log_likelihood(F[chosen], y[chosen], w[chosen], precision, base.shape[1], noise)
                total[r] = np.logaddexp(total[r], log_prior + log_weight + value)
    return total[0] - total[1:]


def _precisions(
    case: Paired, X: np.ndarray, w: np.ndarray, base: np.ndarray
) -> list[tuple[float, np.ndarray]]:
    """Log weight and prior precision of β at σ² = 1, for each g; from all rows."""
    k, slab = X.shape[1], case.oracle_slab
    if k == 0:
        return [(0.0, np.zeros((0, 0)))]
    if slab.kind == "independent":
        centred = X - w @ X / w.sum()
        units = np.sqrt(w @ centred**2 / (w.sum() * (len(w) - 1) / len(w)))
        return [(0.0, np.diag(units**2 / slab.g))]
    root = np.sqrt(w)[:, None]
    residual = root * X - root * base @ np.linalg.lstsq(root * base, root * X, rcond=None)[0]
    inner = residual.T @ residual
    if slab.kind == "g":
        return [(0.0, inner / slab.g)]
    x, weight = oracle._panels(-20.0, 30.0, 8)
    log_density = oracle._log_mixing_density(x, slab.kind, len(w), slab.a) + np.log(weight)
    log_density -= logsumexp(log_density)
    return [(d, inner * np.exp(-v)) for d, v in zip(log_density, x)]
