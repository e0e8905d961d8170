"""The posterior of g/(1 + g), against quadrature over the prior of g written out."""

import numpy as np
import pytest

import whichvars as wv
from support.paired import make_paired
from whichvars.errors import DataError


def test_hyper_g_against_quadrature():
    """Equally spaced values of u = 1/(1 + g), which has the density (a − 2)/2 · u^(a/2 − 2)."""
    case = make_paired("hyper-g", n=30, columns=3)  # a = 3.5
    posterior = wv.exact(case.problem(model_prior=wv.FixedInclusion(h=0.5)))
    reference = case.posterior(("fixed", 0.5))
    v = (np.arange(200_000) + 0.5) / 200_000
    u = v ** (1 / 0.75)  # P(u ≤ x) = x^(a/2 − 1)
    share = np.zeros_like(u)
    y = case.y - case.y.mean()
    for mask, probability in zip(reference.masks[1:], reference.probabilities[1:]):
        X = case.X[:, mask] - case.X[:, mask].mean(axis=0)
        k, fitted = mask.sum(), X @ np.linalg.lstsq(X, y)[0]
        r2 = fitted @ fitted / (y @ y)
        log_bf = -(29 - k) / 2 * np.log(u) - 29 / 2 * np.log1p((1 / u - 1) * (1 - r2))
        density = np.exp(log_bf - log_bf.max())
        share += probability * density / density.sum()
    share /= share.sum()
    found = posterior.shrinkage(0.8)
    mean = share @ (1 - u)
    assert found["mean"] == pytest.approx(mean, rel=1e-5)
    assert found["sd"] == pytest.approx(np.sqrt(share @ (1 - u - mean) ** 2), rel=1e-3)
    below = 1 - np.cumsum(share)  # P(g/(1 + g) ≤ 1 − u)
    for name, level in (("lower", 0.1), ("median", 0.5), ("upper", 0.9)):
        assert found[name] == pytest.approx(1 - u[np.argmin(np.abs(below - level))], abs=2e-3)
    assert found["mcse"] == 0


def test_known_g_and_its_estimate():
    case = make_paired("g-prior", columns=4)
    found = wv.exact(case.problem()).shrinkage()
    assert found["mean"] == pytest.approx(13 / 14)
    assert found["sd"] == pytest.approx(0, abs=1e-7)
    one = wv.exact(case.problem(slab=wv.LocalEmpiricalBayes())).model([0, 2])
    F = one.r_squared()["mean"] / 2 / ((1 - one.r_squared()["mean"]) / (20 - 2))
    assert one.shrinkage()["mean"] == pytest.approx(1 - 1 / F)


def test_a_sampled_posterior_is_within_its_error():
    problem = make_paired("zellner-siow", n=30).problem()
    truth = wv.exact(problem).shrinkage()
    run = wv.sample(problem, wv.AddDeleteSwap(), draws=20_000, seed=1, progress=False).shrinkage()
    assert abs(run["mean"] - truth["mean"]) < 4 * run["mcse"]
    assert run["mcse"] < 0.01


def test_what_has_none():
    case = make_paired("independent", columns=3)
    with pytest.raises(DataError, match="has no shrinkage factor"):
        wv.exact(case.problem()).shrinkage()
    yes = wv.Problem(case.X, case.y > case.y.mean(), family="logistic", slab=wv.HyperGN())
    with pytest.raises(DataError, match="for Gaussian responses"):
        wv.exact(yes).shrinkage()
    with pytest.raises(DataError, match="no coefficients to shrink"):
        wv.exact(case.problem(slab=wv.HyperG())).model([]).shrinkage()
