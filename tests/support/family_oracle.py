"""A brute-force oracle for responses that are not Gaussian, in plain numpy and scipy. It shares no code with the library.

* Columns are used as they are, next to the intercept and the always-included columns; the library takes residuals.
* Derivatives of the log density in η come from Cauchy's integral over a circle in the complex plane.
* The second-order term is written out with the full tensors.
* `quadrature` integrates the joint density over all coefficients on a product grid, for up to three of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg, optimize, special, stats

CIRCLE = 0.4 * np.exp(2j * np.pi * np.arange(64) / 64)


def log_density(family: str, y, trials, r, eta):
    """log p(y | η), complex η allowed, with all constants."""
    if family == "logistic":
        constant = special.gammaln(trials + 1) - special.gammaln(y + 1) - special.gammaln(trials - y + 1)
        return y * eta - trials * _softplus(eta) + constant
    if family == "poisson":
        return y * eta - np.exp(eta) - special.gammaln(y + 1)
    if family == "negative-binomial":
        shifted = eta - math.log(r)
        constant = special.gammaln(y + r) - special.gammaln(r) - special.gammaln(y + 1)
        return y * shifted - (y + r) * _softplus(shifted) + constant
    return special.log_ndtr((2 * y - 1) * eta)


def _softplus(eta):
    """log(1 + e^η), also for complex η of small imaginary part."""
    high = np.real(eta) > 0
    return np.where(high, eta, 0) + np.log1p(np.exp(np.where(high, -eta, eta)))


@dataclass
class Data:
    """The data and the prior: `slab` is ("independent", g), ("g", g) or ("bic",)."""

    family: str
    X: np.ndarray
    y: np.ndarray
    slab: tuple
    Z: np.ndarray | None = None
    offset: np.ndarray | None = None
    weights: np.ndarray | None = None
    trials: np.ndarray | None = None
    r: float = 1.0
    groups: Sequence[Sequence[int]] | None = None
    evidence: str = "second-order"
    F: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.y)
        self.weights = np.ones(n) if self.weights is None else self.weights
        used = self.weights > 0
        self.X, self.y, self.weights = self.X[used], self.y[used].astype(float), self.weights[used]
        self.offset = np.zeros(used.sum()) if self.offset is None else self.offset[used]
        self.trials = np.ones(used.sum()) if self.trials is None else self.trials[used]
        n = len(self.y)
        ones = np.ones((n, 1))
        self.F = ones if self.Z is None else np.hstack([ones, self.Z[used]])
        mean = self.weights @ self.X / self.weights.sum()
        spread = np.sqrt(self.weights @ (self.X - mean) ** 2 / (self.weights.sum() * (n - 1) / n))
        self.scaled = (self.X - mean) / spread
        self.groups = [[j] for j in range(self.X.shape[1])] if self.groups is None else self.groups
        self.null = mode(self, self.F, np.zeros((self.F.shape[1],) * 2))

    def log_likelihood(self, eta):
        return log_density(self.family, self.y, self.trials, self.r, eta) @ self.weights

    def derivatives(self, eta):
        """Weighted derivatives 0 to 4 of the log density, (5, n)."""
        around = log_density(
            self.family, self.y[:, None], self.trials[:, None], self.r, eta[:, None] + CIRCLE
        )
        powers = CIRCLE[None] ** -np.arange(5)[:, None]
        factorials = np.array([1, 1, 2, 6, 24])
        return self.weights * factorials[:, None] * np.real(powers @ around.T) / len(CIRCLE)

    def expected_information(self, eta):
        """E[−ℓ''] = Var(ℓ') of each row."""
        if self.family == "poisson":
            return np.exp(eta)
        if self.family == "negative-binomial":
            return np.exp(eta) / (1 + np.exp(eta) / self.r)
        if self.family == "logistic":
            return self.trials / (2 + 2 * np.cosh(eta))
        return np.exp(-(eta**2)) / (2 * np.pi * special.ndtr(eta) * special.ndtr(-eta))

    def model(self, variables: Sequence[int]):
        """J and P of a model; None if it has no mass."""
        columns = [c for j in variables for c in self.groups[j]]
        X = self.scaled[:, columns]
        q, k = self.F.shape[1], len(columns)
        P = np.zeros((q + k, q + k))
        if self.slab[0] == "independent":
            g = np.asarray(self.slab[1], float)
            by_column = np.repeat(np.broadcast_to(g, len(self.groups)), [len(m) for m in self.groups])
            P[q:, q:] = np.diag(1 / by_column[columns]) if g.ndim else np.eye(k) / float(g)
        elif k:
            eta = self.offset + self.F @ self.null
            metric = self.weights * (self.expected_information(eta) if self.slab[0] == "g" else 1.0)
            root = np.sqrt(metric)[:, None]
            left = root * X - root * self.F @ np.linalg.lstsq(root * self.F, root * X, rcond=None)[0]
            unit = left / np.linalg.norm(root * X, axis=0)
            if k > len(self.y) - q or np.linalg.svd(unit, compute_uv=False)[-1] < 1e-5:
                return None
            if self.slab[0] == "g":
                P[q:, q:] = left.T @ left / self.slab[1]
        return np.hstack([self.F, X]), P


def mode(data: Data, J: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Damped Newton to the posterior mode."""
    theta = np.zeros(J.shape[1])
    if data.family in ("poisson", "negative-binomial"):
        theta[0] = math.log(data.weights @ data.y / (data.weights @ np.exp(data.offset)))

    def value(t):
        with np.errstate(over="ignore"):
            return data.log_likelihood(data.offset + J @ t) - t @ P @ t / 2

    for _ in range(300):
        d = data.derivatives(data.offset + J @ theta)
        slope, H = J.T @ d[1] - P @ theta, (J * -d[2][:, None]).T @ J + P
        step = linalg.solve(H, slope, assume_a="pos")
        if slope @ step < 1e-18:
            break
        share = 1.0
        while not value(theta + share * step) >= value(theta) - 1e-11 and share > 1e-10:
            share /= 2
        theta = theta + share * step
    return theta


def log_marginal(data: Data, variables: Sequence[int]) -> float:
    """log m(γ), without (2π)^{q/2}; −inf if the model has no mass."""
    made = data.model(variables)
    if made is None:
        return -np.inf
    J, P = made
    q, k = data.F.shape[1], J.shape[1] - data.F.shape[1]
    if data.slab[0] == "bic":
        theta = mode(data, J, P)
        return data.log_likelihood(data.offset + J @ theta) - k / 2 * math.log(len(data.y))
    if data.evidence == "bas":
        theta = mode(data, J, 0 * P)
        eta = data.offset + J @ theta
        W = -data.derivatives(eta)[2]
        FWF = (data.F * W[:, None]).T @ data.F
        left = J[:, q:] - data.F @ np.linalg.solve(FWF, (data.F * W[:, None]).T @ J[:, q:])
        Q, g = W @ (left @ theta[q:]) ** 2, data.slab[1]
        return (
            data.log_likelihood(eta) - np.linalg.slogdet(FWF)[1] / 2 - k / 2 * math.log1p(g) - Q / 2 / (1 + g)
        )
    theta = mode(data, J, P)
    d = data.derivatives(data.offset + J @ theta)
    H = (J * -d[2][:, None]).T @ J + P
    first = d[0].sum() - theta @ P @ theta / 2 - np.linalg.slogdet(H)[1] / 2
    first += np.linalg.slogdet(P[q:, q:])[1] / 2 if k else 0.0
    if data.evidence == "laplace":
        return first
    S = np.linalg.inv(H)
    h = np.einsum("ia,ab,ib->i", J, S, J)
    third = np.einsum("i,ia,ib,ic->abc", d[3], J, J, J, optimize=True)
    mean = np.einsum("i,i,ia->a", d[3], h, J)
    cubic = np.einsum("abc,def,ad,be,cf->", third, third, S, S, S, optimize=True)
    return first + (d[4] @ h**2) / 8 + mean @ S @ mean / 8 + cubic / 12


def quadrature(data: Data, variables: Sequence[int], nodes: int = 81, width: float = 9.0) -> float:
    """log m(γ) by a product rule over all coefficients, in units of their posterior standard deviations."""
    J, P = data.model(variables)
    q, k = data.F.shape[1], J.shape[1] - data.F.shape[1]
    theta = mode(data, J, P)
    d = data.derivatives(data.offset + J @ theta)
    root = np.linalg.inv(np.linalg.cholesky((J * -d[2][:, None]).T @ J + P)).T
    line = np.sinh(np.linspace(-np.arcsinh(3 * width), np.arcsinh(3 * width), nodes))
    weight = np.cosh(np.arcsinh(line)) * (2 * np.arcsinh(3 * width) / (nodes - 1))
    total = []
    for place in itertools.product(range(nodes), repeat=q + k - 1):
        head = line[list(place)]
        z = np.column_stack([np.tile(head, (nodes, 1)), line])
        t = theta + z @ root.T
        with np.errstate(over="ignore"):
            ll = log_density(data.family, data.y, data.trials, data.r, data.offset + t @ J.T) @ data.weights
        value = ll - np.einsum("ia,ab,ib->i", t, P, t) / 2
        total.append(special.logsumexp(value + np.log(weight)) + np.log(weight[list(place)]).sum())
    log_prior = np.linalg.slogdet(P[q:, q:])[1] / 2 if k else 0.0
    constant = np.linalg.slogdet(root)[1] + log_prior - (q + k) / 2 * math.log(2 * math.pi)
    return float(special.logsumexp(total) + constant)


def enumerate_all(data: Data, log_prior, allowed=lambda model: True):
    """All models as (members, log m relative to the null, probability), and the inclusion probabilities. `log_prior` is a function of
    the model."""
    p = len(data.groups)
    models = [m for k in range(p + 1) for m in itertools.combinations(range(p), k) if allowed(m)]
    null = log_marginal(data, ())
    marginal = np.array([log_marginal(data, m) - null for m in models])
    joint = marginal + np.array([log_prior(m) for m in models])
    probability = np.exp(joint - special.logsumexp(joint))
    pips = np.array([sum(pr for m, pr in zip(models, probability) if j in m) for j in range(p)])
    return models, marginal, probability, pips


def simulate(family: str, n: int, p: int, seed: int, *, effect: float = 0.7, r: float = 1.5):
    """X and y of a small problem with two effects."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ (np.eye(p) + 0.3 * np.ones((p, p)) / math.sqrt(p))
    eta = effect * X[:, 0] - effect * X[:, min(1, p - 1)] + 0.2
    if family == "logistic":
        return X, (rng.random(n) < special.expit(eta)).astype(float)
    if family == "probit":
        return X, (rng.random(n) < special.ndtr(eta)).astype(float)
    if family == "poisson":
        return X, rng.poisson(np.exp(eta)).astype(float)
    mean = np.exp(eta)
    return X, rng.poisson(mean * rng.gamma(r, 1 / r, n)).astype(float)


def sampled_correction(X, y, number):
    """log m − log m₁ of one logistic model with N(0, 1) slabs, by plain importance sampling around the mode: the value and its error."""
    n, k = X.shape
    J, penalty, y = np.column_stack([np.ones(n), X]), np.r_[0.0, np.ones(k)], np.asarray(y, float)

    def log_joint(theta):
        eta = theta @ J.T
        return (y * eta - np.logaddexp(0, eta)).sum(axis=-1) - 0.5 * (theta**2) @ penalty

    mode = optimize.minimize(
        lambda t: -log_joint(t), np.zeros(k + 1), jac=lambda t: J.T @ (special.expit(J @ t) - y) + penalty * t, method="BFGS", tol=1e-8
    ).x  # fmt: skip
    mean = special.expit(J @ mode)
    root = np.linalg.cholesky((J.T * (mean * (1 - mean))) @ J + np.diag(penalty))
    d, rng = k + 1, np.random.default_rng(5)
    x = rng.standard_normal((number, d)) * np.sqrt(d / rng.chisquare(d, (number, 1)))
    log_t = stats.multivariate_t(np.zeros(d), np.eye(d), df=d).logpdf(x)
    log_normal = 0.5 * d * np.log(2 * np.pi)
    both = [log_joint(mode + s * linalg.solve_triangular(root.T, x.T).T) for s in (1, -1)]
    ratio = np.mean([np.exp(b - log_joint(mode) - log_t - log_normal) for b in both], axis=0)
    return float(np.log(ratio.mean())), float(ratio.std() / ratio.mean() / np.sqrt(number))
