"""Randomised probability integral transforms of responses that are not Gaussian: uniform if the model is right, and otherwise not."""

import numpy as np
import pytest
from scipy import integrate, special, stats

import whichvars as wv
from support.kinds import mainly
from whichvars.posterior.family_density import probabilities_below

N, DRAWS = 400, 20_000
LAWS = {
    "logistic": (wv.Logistic(), lambda eta: stats.bernoulli(special.expit(eta))),
    "trials": (wv.Logistic(trials=8), lambda eta: stats.binom(8, special.expit(eta))),
    "probit": (wv.Probit(), lambda eta: stats.bernoulli(stats.norm.cdf(eta))),
    "poisson": (wv.Poisson(), lambda eta: stats.poisson(np.exp(eta))),
    "negative-binomial": (wv.NegativeBinomial(), lambda eta: stats.nbinom(1.5, 1.5 / (1.5 + np.exp(eta)))),
    "student": (wv.Student(df=4), lambda eta: stats.t(4, eta, 0.7)),
}


def uniform_p_value(pit):
    """Of twenty bars of equal expected height."""
    return stats.chisquare(np.histogram(pit, 20, (0, 1))[0]).pvalue


def average(law, k, m, s):
    """Of P(y ≤ k | η) over η ~ N(m, s²)."""
    return integrate.quad(lambda e: law(e).cdf(k) * stats.norm.pdf(e, m, s), m - 9 * s, m + 9 * s)[0]


@pytest.mark.parametrize("name", mainly(LAWS, ["trials", "negative-binomial", "student"]))
def test_probabilities_below_are_integrals(name):
    family, law = LAWS[name]
    m, v = np.array([[0.3, -1.0], [1.2, 0.4]]), np.array([[0.5, 0.1], [0.05, 2.0]])
    y, trials = (
        (np.array([1.0, 0.0]), np.ones(2))
        if name in ("logistic", "probit")
        else (np.array([0.0, 3.0]), np.full(2, 8.0))
    )
    r = {"negative-binomial": 1.5, "student": 0.7}.get(name, np.inf)
    below, up_to = probabilities_below(family, y, trials, r, m, v)
    for found, k in ((below, y if name == "student" else y - 1), (up_to, y)):
        for i, j in np.ndindex(2, 2):
            want = average(law, k[i], m[i, j], np.sqrt(v[i, j]))
            assert found[i, j] == pytest.approx(want, abs=5e-4)


@pytest.mark.parametrize("name", mainly(LAWS, ["logistic", "poisson", "student"]))
def test_transforms_are_uniform_if_the_model_is_right(name):
    family, law = LAWS[name]
    rng = np.random.default_rng(11)
    X = rng.normal(size=(N, 3))
    y = law(0.3 + 0.7 * X[:, 0]).rvs(random_state=rng)
    posterior = wv.exact(wv.Problem(X, y, family=family))
    table = posterior.loo()
    assert table["pit"].between(0, 1).all()
    assert uniform_p_value(table["pit"]) > 0.01
    covered = posterior.interval_calibration(levels=(0.5, 0.9))
    assert covered["observed"].between(covered["lower"] - 0.01, covered["upper"] + 0.01).all()
    np.testing.assert_array_equal(table["pit"], wv.exact(wv.Problem(X, y, family=family)).loo(X, y)["pit"])


@pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")
@pytest.mark.parametrize(
    ("family", "draw", "too_narrow"),
    [
        (wv.Poisson(), lambda rng, eta: rng.poisson(np.exp(eta) * rng.gamma(1, 1, N)), True),
        (
            wv.NegativeBinomial(dispersion=30.0),
            lambda rng, eta: rng.poisson(np.exp(eta) * rng.gamma(1, 1, N)),
            True,
        ),
        (wv.NegativeBinomial(dispersion=0.5), lambda rng, eta: rng.poisson(np.exp(eta + 1)), False),
        (wv.Logistic(trials=8), lambda rng, eta: rng.binomial(8, rng.beta(0.5, 0.5, N)), True),
        (wv.Student(df=3), lambda rng, eta: eta + rng.uniform(-1, 1, N), False),
    ],
    ids=["poisson", "too little dispersion", "too much dispersion", "trials", "student"],
)
def test_transforms_are_not_uniform_if_the_model_is_wrong(family, draw, too_narrow):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(N, 2))
    posterior = wv.exact(wv.Problem(X, draw(rng, 0.3 + 0.7 * X[:, 0]), family=family))
    assert uniform_p_value(posterior.loo()["pit"]) < 1e-6
    most = posterior.interval_calibration(levels=0.9)
    outside = most["observed"] < most["lower"] if too_narrow else most["observed"] > most["upper"]
    assert outside.all()


@pytest.mark.parametrize("name", ["poisson", "negative-binomial", "trials", "probit"])
def test_transforms_are_those_of_fits_without_the_row(name):
    family, law = LAWS[name]
    rng = np.random.default_rng(13)
    X = rng.normal(size=(40, 2))
    y = law(0.3 + 0.7 * X[:, 0]).rvs(random_state=rng)
    whole = wv.Problem(X, y, family=family)
    found, u = wv.exact(whole).loo()["pit"], np.random.default_rng([0, 1]).random(40)
    for row in (0, 7, 23, int(np.argmax(y))):
        others = np.delete(np.arange(40), row)
        # the same prior on coefficients: those of columns that are standardised by all rows
        scale = X[others].std(axis=0) / X.std(axis=0)
        without = wv.exact(
            wv.Problem(X[others], y[others], family=family, slab=wv.IndependentNormal(g=scale**2))
        )
        trials = {"trials": 8} if name == "trials" else {}
        drawn = without.draw_response(X[[row]], DRAWS, seed=row, **trials)[:, 0]
        below, up_to = (drawn < y[row]).mean(), (drawn <= y[row]).mean()
        # besides Monte Carlo error, the error of leaving a row out without a fit
        assert found[row] == pytest.approx(
            below + u[row] * (up_to - below), abs=4.5 * np.sqrt(0.25 / DRAWS) + 0.01
        )


def test_two_values_have_the_transforms_of_their_probability():
    rng = np.random.default_rng(14)
    X = rng.normal(size=(60, 2))
    y = rng.random(60) < special.expit(X[:, 0])
    table = wv.exact(wv.Problem(X, y, family="logistic")).loo()
    u = np.random.default_rng([0, 1]).random(60)
    no = 1 - table["mean"]
    np.testing.assert_allclose(table["pit"], np.where(y, no + u * table["mean"], u * no), rtol=1e-12)
