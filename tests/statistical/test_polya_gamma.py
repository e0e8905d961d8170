"""An independent sampler for logistic regression agrees with enumeration: Gibbs sampling of models and coefficients with Pólya–Gamma
variables (Polson, Scott and Windle 2013), in plain numpy. It needs no mode and no expansion, and so is exact in the limit.

ω_i ~ PG(1, η_i) makes the likelihood normal in η: with Ω = diag(ω), κ = y − ½, J = [1, X] and a prior precision P of the coefficients of
model γ, p(γ | ω) ∝ p(γ) |P|^½ |H|^−½ exp(½ bᵀH⁻¹b) with H = JᵀΩJ + P and b = Jᵀκ.
"""

import itertools

import numpy as np
from scipy import special

import whichvars as wv
from support import family_oracle as oracle

TERMS = 100


def polya_gamma(rng, tilt):
    """PG(1, c) = (1/2π²) Σ_k e_k/((k − ½)² + c²/4π²) with exponential e_k: TERMS of them, and the mean of the rest."""
    k = np.arange(1, TERMS + 1) - 0.5
    scale = k**2 + (tilt[:, None] / (2 * np.pi)) ** 2
    total = (rng.exponential(size=scale.shape) / scale).sum(axis=1)
    half = np.abs(tilt) / 2
    mean = np.where(half > 1e-6, np.tanh(half) / np.maximum(4 * half, 1e-12), 0.25)
    rest = mean - (1 / scale).sum(axis=1) / (2 * np.pi**2)
    return total / (2 * np.pi**2) + rest


def gibbs(X, y, g, log_prior, iterations, seed):
    """Means of p(γ | ω) of all models by batch, (batches, models), and the models."""
    rng = np.random.default_rng(seed)
    n, p = X.shape
    scaled = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    J, kappa = np.column_stack([np.ones(n), scaled]), y - 0.5
    models = [m for k in range(p + 1) for m in itertools.combinations(range(p), k)]
    inside = np.array([[True, *(j in m for j in range(p))] for m in models])
    prior = np.array([log_prior(m) - len(m) / 2 * np.log(g) for m in models])
    right = np.where(inside, J.T @ kappa, 0.0)
    diagonal = np.where(
        inside, [0.0, *[1 / g] * p], 1.0
    )  # variables that are out have b = 0, and a precision of 1 that changes nothing
    both = inside[:, :, None] & inside[:, None, :]
    eta, batches = np.zeros(n), np.zeros((40, len(models)))
    for t in range(iterations):
        omega = polya_gamma(rng, eta)
        H = np.where(both, (J * omega[:, None]).T @ J, 0.0) + diagonal[:, :, None] * np.eye(p + 1)
        L = np.linalg.cholesky(H)
        z = np.linalg.solve(L, right[:, :, None])[:, :, 0]
        log = prior - np.log(np.einsum("mii->mi", L)).sum(axis=1) + 0.5 * (z**2).sum(axis=1)
        share = special.softmax(log)
        batches[t * len(batches) // iterations] += share / (iterations / len(batches))
        m = rng.choice(len(models), p=share)
        theta = np.linalg.solve(L[m].T, z[m] + rng.normal(size=p + 1))
        eta = J @ np.where(inside[m], theta, 0.0)
    return models, batches


def test_polya_gamma_draws():
    """Their mean tanh(c/2)/(2c), and their variance (sinh c − c)/(4c³ cosh²(c/2))."""
    rng = np.random.default_rng(0)
    for c in (0.3, 2.0, 7.0):
        draws = polya_gamma(rng, np.full(20_000, c))
        variance = (np.sinh(c) - c) / (4 * c**3 * np.cosh(c / 2) ** 2)
        assert abs(draws.mean() - np.tanh(c / 2) / (2 * c)) < 4 * np.sqrt(variance / 20_000)
        assert abs(draws.var() / variance - 1) < 0.1


def test_an_independent_sampler_agrees_with_enumeration():
    X, y = oracle.simulate("logistic", 40, 4, 12)
    problem = wv.Problem(
        X,
        y,
        family="logistic",
        slab=wv.IndependentNormal(4.0),
        model_prior=wv.BetaBinomial(1, 1),
        evidence="importance",
    )
    posterior = wv.exact(problem, progress=False)
    models, batches = gibbs(X, y, 4.0, lambda m: special.betaln(1 + len(m), 1 + 4 - len(m)), 8000, 1)
    inside = np.array([[j in m for j in range(4)] for m in models])
    by_batch = batches[1:] @ inside  # the first is warm-up
    pip, error = by_batch.mean(axis=0), by_batch.std(axis=0, ddof=1) / np.sqrt(len(by_batch))
    assert error.max() < 0.01
    assert (np.abs(posterior.pip - pip) < 4 * np.hypot(error, posterior.mcse)).all()
    laplace = wv.exact(
        wv.Problem(
            X,
            y,
            family="logistic",
            slab=wv.IndependentNormal(4.0),
            model_prior=wv.BetaBinomial(1, 1),
            evidence="laplace",
        ),
        progress=False,
    )
    assert (np.abs(laplace.pip - pip) > 4 * error).any()  # it can tell the first order from the truth
