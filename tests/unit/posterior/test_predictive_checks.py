"""Draws of responses have the moments of predictions; checks find what is wrong and leave alone what is right."""

import numpy as np
import pytest
from matplotlib import pyplot

import whichvars as wv
from support.paired import make_paired
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.posterior.predictive_checks import coverage_table

N = 20_000


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


def test_draws_have_the_moments_of_predictions():
    case = make_paired("hyper-g", n=24, columns=5, always=2, weighted=True)
    posterior = wv.exact(case.problem())
    new = np.random.default_rng(0).normal(size=(6, 7))
    mean, std = posterior.predict(new, return_std=True)
    drawn = posterior.draw_response(new, n=N, seed=3)
    assert drawn.shape == (N, 6)
    assert (np.abs(drawn.mean(axis=0) - mean) < 4.5 * std / np.sqrt(N)).all()
    np.testing.assert_allclose(drawn.std(axis=0), std, rtol=0.05)
    np.testing.assert_array_equal(drawn[:3], posterior.draw_response(new, n=N, seed=3)[:3])
    heavier = posterior.draw_response(new, n=N, seed=3, weights=np.full(6, 4.0))
    noise = posterior.draw(N, 3)["(noise variance)"].to_numpy().mean()
    want = drawn.var(axis=0) - 0.75 * noise
    np.testing.assert_allclose(heavier.var(axis=0), want, rtol=0.1)


@pytest.mark.parametrize(
    "family", ["logistic", "probit", "poisson", wv.NegativeBinomial(dispersion=2.0), wv.NegativeBinomial()]
)
def test_draws_of_other_families(family):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    y = rng.poisson(np.exp(0.4 * X[:, 0]) * rng.gamma(2, 0.5, 80))
    if isinstance(family, str) and family != "poisson":
        y = y > 0
    counts = family == "poisson" or not isinstance(family, str)
    offset = np.full(80, 0.3) if counts else None
    posterior = wv.exact(wv.Problem(X, y, family=family, offset=offset))
    given = {"offset": 0.3} if counts else {}
    mean, std = posterior.predict(X[:5], kind="response", return_std=True, **given)
    drawn = posterior.draw_response(X[:5], n=N, seed=2, **given)
    assert (drawn >= 0).all()
    assert (drawn == np.round(drawn)).all()
    assert (np.abs(drawn.mean(axis=0) - mean) < 4.5 * drawn.std(axis=0) / np.sqrt(N)).all()
    np.testing.assert_allclose(drawn.std(axis=0), std, rtol=0.06)


def test_successes_among_trials():
    rng = np.random.default_rng(1)
    X, trials = rng.normal(size=(50, 2)), rng.integers(1, 9, 50)
    y = rng.binomial(trials, 0.4)
    posterior = wv.exact(wv.Problem(X, y, family=wv.Logistic(trials=trials)))
    drawn = posterior.draw_response(X, n=500, trials=trials)
    assert (drawn <= trials).all()
    table = posterior.predictive_check(X, y, trials=trials)
    assert table.loc["mean", "observed"] == pytest.approx(y.mean())


def test_a_model_that_fits_and_one_that_does_not():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 3))
    good = X[:, 0] + rng.normal(size=200)
    bad = X[:, 0] + rng.exponential(size=200) ** 2
    for y, fits in ((good, True), (bad, False)):
        posterior = wv.exact(wv.Problem(X, y))
        table = posterior.predictive_check(X, y)
        assert table["p_value"].between(0.02, 0.98).all() == fits
        assert table["observed"].between(table["lower"], table["upper"]).all() == fits
    assert table.loc["skewness", "p_value"] < 0.01
    assert table.loc["skewness", "observed"] == pytest.approx(np.mean(((y - y.mean()) / y.std()) ** 3))


@pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")
def test_counts_that_vary_too_much():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 2))
    y = rng.poisson(3 * rng.gamma(0.7, 1 / 0.7, 150))
    found = {
        family: wv.exact(wv.Problem(X, y, family=family)).predictive_check(X, y)
        for family in ("poisson", "negative-binomial")
    }
    for name in ("variance_over_mean", "share_of_zeros"):
        assert found["poisson"].loc[name, "p_value"] < 0.005
        assert 0.02 < found["negative-binomial"].loc[name, "p_value"] < 0.98


def test_own_statistics():
    case = make_paired("g-prior", n=30)
    posterior = wv.exact(case.problem())
    table = posterior.predictive_check(case.X, case.y, {"median": np.median}, n=200)
    assert table.index.tolist() == ["median"]
    drawn = np.median(posterior.draw_response(case.X, n=200), axis=1)
    assert table.loc["median", "p_value"] == pytest.approx((drawn > np.median(case.y)).mean())
    assert table.loc["median", "mcse"] > 0
    for bad in ("median", {"median": 3}, {}):
        with pytest.raises(ArgumentTypeError, match="mapping from names to functions"):
            posterior.predictive_check(case.X, case.y, bad)


def test_coverage_of_intervals():
    pit = (np.arange(1000) + 0.5) / 1000
    table = coverage_table(pit, [0.5, 0.9])
    assert table["observed"].tolist() == [0.5, 0.9]
    from scipy.stats import binom

    np.testing.assert_allclose(table["lower"], binom.ppf(0.05, 1000, [0.5, 0.9]) / 1000)
    np.testing.assert_allclose(table["upper"], binom.ppf(0.95, 1000, [0.5, 0.9]) / 1000)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + rng.normal(size=300)
    found = wv.exact(wv.Problem(X, y)).interval_calibration(X, y)
    assert found["observed"].between(found["lower"] - 0.02, found["upper"] + 0.02).all()
    narrow = wv.exact(wv.Problem(X, y, noise=wv.KnownVariance(0.1))).interval_calibration(X, y)
    assert (narrow["observed"] < narrow["lower"]).all()
    with pytest.raises(DataError, match="levels must lie between"):
        coverage_table(pit, [1.2])


def test_what_is_refused():
    case = make_paired("g-prior", columns=3)
    posterior = wv.exact(case.problem())
    with pytest.raises(DataError, match="weights must be positive"):
        posterior.draw_response(case.X, weights=np.zeros(len(case.y)))
    yes = wv.exact(wv.Problem(case.X, case.y > case.y.mean(), family="logistic"))
    with pytest.raises(DataError, match="weights are for Gaussian"):
        yes.draw_response(case.X, weights=np.ones(len(case.y)))
    with pytest.raises(DataError, match="give both X and y"):
        posterior.residuals(case.X)


def test_pictures():
    case = make_paired("g-prior", n=40)
    posterior = wv.exact(case.problem())
    ax = wv.plot_pit(posterior, X=case.X, y=case.y, bins=5)
    pit = posterior.loo(case.X, case.y)["pit"]
    heights = [bar.get_height() for bar in ax.patches if bar.get_height() > 0][:5]
    assert sum(np.histogram(pit, 5, (0, 1))[0]) == 40
    assert heights[0] == np.histogram(pit, 5, (0, 1))[0][0]
    line = wv.plot_predictive_check(posterior, X=case.X, y=case.y).lines[0]
    assert line.get_ydata()[-1] == 1
    counts = np.random.default_rng(0).poisson(2, 40)
    other = wv.exact(wv.Problem(case.X[:, :3], counts, family="poisson"))
    assert wv.plot_predictive_check(other, X=case.X[:, :3], y=counts).get_xlabel() == "response"
    heights = [bar.get_height() for bar in wv.plot_pit(other, bins=4).patches]
    assert heights == np.histogram(other.loo()["pit"], 4, (0, 1))[0].tolist()
