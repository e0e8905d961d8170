"""exact() for every family and slab against brute force with the oracle: weights, offsets, groups, heredity, duplicates, separation."""

import warnings

import numpy as np
import pytest
from scipy import special

import whichvars as wv
from support import family_oracle as oracle
from support.kinds import mainly

FAMILIES = ("logistic", "probit", "poisson", "negative-binomial")
R = 1.5
SLABS = {
    "independent": (wv.IndependentNormal(1.5), ("independent", 1.5)),
    "g": (wv.GPrior(40.0), ("g", 40.0)),
    "bic": (wv.BIC(), ("bic",)),
}


def log_beta_binomial(p, a=1.0, b=1.0):
    return lambda model: special.betaln(a + len(model), b + p - len(model))


def solve(problem):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.DataWarning)
        return wv.exact(problem, progress=False)


def compare(problem, data, log_prior, atol=1e-8, allowed=lambda model: True):
    posterior = solve(problem)
    models, marginal, probability, pips = oracle.enumerate_all(data, log_prior, allowed)
    np.testing.assert_allclose(posterior.pip, pips, rtol=0, atol=atol)
    found = dict(zip(posterior.models.members, posterior.models.log_marginal))
    assert set(found) == {m for m, value in zip(models, marginal) if np.isfinite(value)}
    for model, value in zip(models, marginal):
        if np.isfinite(value):
            assert found[model] == pytest.approx(value, abs=10 * atol * max(1, abs(value)))
    sizes = np.bincount([len(m) for m in models], probability, problem.p + 1)
    np.testing.assert_allclose(posterior.sizes, sizes, rtol=0, atol=atol)
    return posterior


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("slab", SLABS)
def test_with_everything(name, slab):
    """Weights (some of them 0), an offset, two always-included columns and a group of two columns."""
    X, y = oracle.simulate(name, 60, 8, 21)
    rng = np.random.default_rng(4)
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], 60)
    offset = rng.normal(0, 0.5, 60)
    family = wv.NegativeBinomial(R) if name == "negative-binomial" else name
    theirs, ours = SLABS[slab][1], SLABS[slab][0]
    evidence = "auto" if slab == "bic" else "second-order"
    problem = wv.Problem(
        X, y, family=family, slab=ours, weights=weights, offset=offset, always_include=[6, 7],
        groups={"pair": [2, 4]}, model_prior=wv.BetaBinomial(1, 1), evidence=evidence,
    )  # fmt: skip
    groups = [[0], [1], [2, 4], [3], [5]]
    assert problem.names == ["x0", "x1", "pair", "x3", "x5"]
    data = oracle.Data(
        name, X[:, :6], y, theirs, Z=X[:, 6:], offset=offset, weights=weights, groups=groups, r=R
    )
    compare(problem, data, log_beta_binomial(5))


@pytest.mark.parametrize("evidence", ["laplace", "second-order", "bas"])
def test_ways_to_the_evidence(evidence):
    X, y = oracle.simulate("logistic", 70, 5, 8)
    slab, theirs = SLABS["g"]
    problem = wv.Problem(
        X, y, family="logistic", slab=slab, model_prior=wv.FixedInclusion(0.3), evidence=evidence
    )
    data = oracle.Data("logistic", X, y, theirs, evidence=evidence)
    compare(problem, data, lambda model: len(model) * np.log(0.3 / 0.7))


def test_trials():
    X, _ = oracle.simulate("logistic", 40, 4, 8)
    rng = np.random.default_rng(1)
    trials = rng.integers(1, 9, 40)
    y = rng.binomial(trials, special.expit(X[:, 0]))
    problem = wv.Problem(
        X, y, family=wv.Logistic(trials=trials), evidence="laplace", model_prior=wv.BetaBinomial(1, 1)
    )
    data = oracle.Data(
        "logistic", X, y, ("independent", 1.0), trials=trials.astype(float), evidence="laplace"
    )
    compare(problem, data, log_beta_binomial(4))


@pytest.mark.parametrize("slab", SLABS)
@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_duplicates(name, slab):
    X, y = oracle.simulate(name, 40, 4, 9)
    X = np.column_stack([X, -3 * X[:, 0]])
    with pytest.warns(wv.DataWarning, match="perfectly correlated"):
        problem = wv.Problem(
            X, y, family=name, slab=SLABS[slab][0], model_prior=wv.BetaBinomial(1, 1),
            evidence="auto" if slab == "bic" else "second-order",
        )  # fmt: skip
    posterior = compare(problem, oracle.Data(name, X, y, SLABS[slab][1]), log_beta_binomial(5))
    assert posterior.pip[0] == pytest.approx(posterior.pip[4], abs=1e-8)


@pytest.mark.parametrize("name", ["logistic", "probit"])
def test_separation(name):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 5))
    y = (X[:, 0] + X[:, 1] > 0).astype(float)
    problem = wv.Problem(X, y, family=name, model_prior=wv.BetaBinomial(1, 1), evidence="second-order")
    posterior = compare(problem, oracle.Data(name, X, y, ("independent", 1.0)), log_beta_binomial(5))
    assert posterior.pip[:2].min() > 0.95


def test_separation_under_bas_is_said_and_bic_stays_finite():
    """BAS gives a separating model a log marginal likelihood above 0; here it has no mass, and a warning says so."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] > 0).astype(float)
    with pytest.warns(wv.DataWarning, match="4 models separated the response"):
        bas = wv.exact(wv.Problem(X, y, family="logistic", slab=wv.GPrior(), evidence="bas"), progress=False)
    assert bas.pip[0] == 0
    bic = wv.exact(wv.Problem(X, y, family="logistic", slab=wv.BIC()), progress=False)
    best = bic.models.log_marginal[0] + bic.problem.null_log_marginal
    assert bic.models.members[0] == (0,)
    assert best == pytest.approx(-0.5 * np.log(40), abs=1e-6)


def test_heredity_and_max_size():
    X, y = oracle.simulate("poisson", 50, 4, 10)
    X = np.column_stack([X, X[:, 0] * X[:, 1]])
    problem = wv.Problem(
        X, y, family="poisson", heredity={"x4": ["x0", "x1"]}, max_size=3, model_prior=wv.FixedInclusion(h=0.4),
        evidence="second-order",
    )  # fmt: skip

    def log_prior(model):
        """h or 1 − h for each variable that is available."""
        available = 4 + (0 in model and 1 in model)
        return len(model) * np.log(0.4) + (available - len(model)) * np.log(0.6)

    def allowed(model):
        return len(model) <= 3 and (4 not in model or (0 in model and 1 in model))

    compare(problem, oracle.Data("poisson", X, y, ("independent", 1.0)), log_prior, allowed=allowed)


def test_strong_evidence():
    """Log odds of thousands: probabilities are 0 and 1 without a warning of numpy, and ratios of the rest are right."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 4))
    y = rng.poisson(np.exp(2 + 0.8 * X[:, 0] + 0.5 * X[:, 1])).astype(float)
    problem = wv.Problem(X, y, family="poisson", evidence="laplace", model_prior=wv.BetaBinomial(1, 1))
    posterior = compare(
        problem,
        oracle.Data("poisson", X, y, ("independent", 1.0), evidence="laplace"),
        log_beta_binomial(4),
        atol=1e-7,
    )
    assert posterior.models.log_marginal[0] - posterior.models.log_marginal[-1] > 5000
    np.testing.assert_allclose(posterior.pip[:2], 1, rtol=0, atol=1e-15)


def test_overdispersed_counts_need_the_negative_binomial():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 6))
    y = rng.poisson(5 * rng.gamma(0.8, 1 / 0.8, 200))
    poisson, negative = (
        solve(wv.Problem(X, y, family=f)).pip for f in ("poisson", wv.NegativeBinomial(dispersion=0.8))
    )
    assert poisson.max() > 0.99
    assert negative.max() < 0.6


@pytest.mark.parametrize("name", mainly(FAMILIES, ["logistic", "negative-binomial"]))
def test_an_unknown_g_is_averaged_over(name):
    """The integral leaves out values of g whose terms are below e^−10 of the largest."""
    X, y = oracle.simulate(name, 60, 5, 8, effect=0.7)
    family = wv.NegativeBinomial(R) if name == "negative-binomial" else name
    slab = wv.IndependentNormal("estimate")
    problem = wv.Problem(X, y, family=family, slab=slab, evidence="laplace")
    g, terms = 10 / 60, []
    while len(terms) < 8 or g <= 100 * np.sqrt(2):
        data = oracle.Data(name, X, y, ("independent", g), r=R, evidence="laplace")
        models, marginal, *_ = oracle.enumerate_all(data, log_beta_binomial(5))
        terms.append((np.sqrt(g) / (1 + g), marginal))
        g *= 2
    weights = np.array([weight for weight, _ in terms])
    values = special.logsumexp(np.array([m for _, m in terms]), b=(weights / weights.sum())[:, None], axis=0)
    for model, value in zip(models, values):
        assert problem.log_marginal(model) == pytest.approx(value, abs=5e-4), model
    assert values.max() > 1
    with pytest.raises(wv.WhichvarsError, match="dispersion"):
        wv.Problem(X, np.abs(np.round(X[:, 0])), family="negative-binomial", slab=slab)
