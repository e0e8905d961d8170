"""Marginal likelihoods under non-local slabs by quadrature: tensor products of rules in the coefficients, and a rule in the log of the noise variance.

pMOM is a polynomial in the coefficients, for which Gauss–Hermite rules are exact. peMOM is summed on fine grids, for one or two columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from support.oracle import all_masks, log_model_prior


class Normal(NamedTuple):
    """The posterior under the normal slab: β ~ N(b, σ² A⁻¹), and log p(y | γ, σ²) relative to the null model's, up to a function of S."""

    b: np.ndarray
    A: np.ndarray
    S: float
    S0: float
    log_determinant: float
    nu: float


def normal(X: np.ndarray, y: np.ndarray, tau: float, copies: int = 1) -> Normal:
    n = copies * len(y)
    E, r = X - X.mean(axis=0), y - y.mean()
    E = E / np.sqrt(copies * (E**2).sum(axis=0) / (n - 1))
    k = X.shape[1]
    A = copies * E.T @ E + np.eye(k) / tau
    b = np.linalg.solve(A, copies * E.T @ r)
    S0 = copies * float(r @ r)
    return Normal(
        b, A, S0 - copies * float(b @ E.T @ r), S0, float(np.linalg.slogdet(A)[1] + k * np.log(tau)), n - 1
    )


def noise_rule(S: float, nu: float, variance: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Values of σ² and their posterior weights under the normal slab."""
    if variance is not None:
        return np.array([variance]), np.ones(1)
    x = np.linspace(-10, 10, 121) * np.sqrt(2 / nu)
    x = np.clip(x, -4, 6)
    u = np.log(S / nu) + x
    logs = -nu / 2 * u - S / 2 * np.exp(-u)
    weight = np.gradient(x) * np.exp(logs - logs.max())
    return np.exp(u), weight / weight.sum()


def base(one: Normal, variance: float | None) -> float:
    """log m under the normal slab."""
    if variance is not None:
        return -0.5 * one.log_determinant + (one.S0 - one.S) / (2 * variance)
    return -0.5 * one.log_determinant - one.nu / 2 * np.log(one.S / one.S0)


def log_pmom(
    X: np.ndarray, y: np.ndarray, tau: float, copies: int = 1, variance: float | None = None
) -> float:
    """log m of one model relative to the null model's."""
    k = X.shape[1]
    if k == 0:
        return 0.0
    one = normal(X, y, tau, copies)
    z, w = np.polynomial.hermite_e.hermegauss(k + 1)
    Z = np.stack(np.meshgrid(*[z] * k, indexing="ij"), -1).reshape(-1, k)
    W = np.prod(np.stack(np.meshgrid(*[w / w.sum()] * k, indexing="ij"), -1).reshape(-1, k), axis=1)
    shifts = Z @ np.linalg.inv(np.linalg.cholesky(one.A))  # rows have the covariance A⁻¹
    # a polynomial of degree k in 1/σ²: its values at k + 1 places say what it is everywhere
    sigma2, weight = noise_rule(one.S, one.nu, variance)
    middle = float(sigma2 @ weight)
    places = middle * np.linspace(0.5, 1.5, k + 1)
    values = [W @ np.prod((one.b + np.sqrt(v) * shifts) ** 2 / (tau * v), axis=1) for v in places]
    polynomial = np.polynomial.Polynomial.fit(middle / places, values, k)
    return base(one, variance) + float(np.log(weight @ polynomial(middle / sigma2)))


def log_pemom(X: np.ndarray, y: np.ndarray, tau: float, points: int = 401) -> float:
    """log m of a model of one or two columns."""
    k = X.shape[1]
    if k == 0:
        return 0.0
    one = normal(X, y, tau)
    sd = np.sqrt(np.diag(np.linalg.inv(one.A)))
    total = 0.0
    for sigma2, weight in zip(*noise_rule(one.S, one.nu, None)):
        axes = [b + np.linspace(-20, 20, points) * s * np.sqrt(sigma2) for b, s in zip(one.b, sd)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, k)
        away = grid - one.b
        density = np.exp(-0.5 * np.einsum("ni,ij,nj->n", away, one.A, away) / sigma2)
        with np.errstate(divide="ignore"):
            factor = np.exp((np.sqrt(2) - tau * sigma2 / grid**2).sum(axis=1))
        total += weight * float(density @ factor / density.sum())
    return base(one, None) + np.log(total)


class Enumerated(NamedTuple):
    masks: np.ndarray
    log_marginals: np.ndarray
    pips: np.ndarray
    log_evidence: float


def enumerate_models(log_marginals: np.ndarray, p: int, prior: tuple) -> Enumerated:
    masks = all_masks(p)
    joint = log_marginals + [log_model_prior(mask, p, prior) for mask in masks]
    evidence = float(logsumexp(joint))
    return Enumerated(masks, log_marginals, np.exp(joint - evidence) @ masks, evidence)


def enumerate_pmom(X: np.ndarray, y: np.ndarray, tau: float, prior: tuple, copies: int = 1) -> Enumerated:
    p = X.shape[1]
    return enumerate_models(
        np.array([log_pmom(X[:, mask], y, tau, copies) for mask in all_masks(p)]), p, prior
    )
