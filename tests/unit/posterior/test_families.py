"""What a posterior says of coefficients and new observations if the family is not Gaussian, against plain numpy."""

import numpy as np
import pytest

import whichvars as wv
from support.family_posteriors import FAMILIES, INVERSE, case, components, quantile
from whichvars.errors import DataError


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("slab", [wv.IndependentNormal(2.0), wv.GPrior(50.0), wv.BIC()])
def test_coefficients(name, slab):
    _, _, posterior, data = case(name, slab)
    table = posterior.coefficients(interval=0.9)
    assert list(table.index) == ["(intercept)", "z", "a", "b", "c"]
    # a functional that is a coefficient of a raw column has no part of the intercept
    rows = np.eye(5)
    weight, means, variances = components(posterior, data, rows)
    inside = np.array(
        [[True, True, *(j in posterior.kept.model(i) for j in range(3))] for i in range(len(weight))]
    )
    means, variances = np.where(inside, means, 0), np.where(inside, variances, 0)
    mean = weight @ means
    sd = np.sqrt(weight @ (variances + (means - mean) ** 2))
    np.testing.assert_allclose(table["mean"], mean, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(table["sd"], sd, rtol=1e-5)
    for r, name_ in enumerate(table.index):
        some = inside[:, r]
        atom = weight[~some].sum()
        ends = [quantile(weight[some], means[some, r], variances[some, r], p, atom) for p in (0.05, 0.95)]
        np.testing.assert_allclose(
            table.loc[name_, ["lower", "upper"]].to_numpy(float), ends, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("name", FAMILIES)
def test_predictions(name):
    offset = np.linspace(-0.5, 0.5, 50)
    frame, _, posterior, data = case(name, wv.IndependentNormal(2.0), offset=offset)
    new = frame.iloc[:6].add([0.5, 4.0, -0.1, 1.0])
    with pytest.raises(DataError, match="predictions need offset="):
        posterior.predict(new)
    rows = np.column_stack([np.ones(6), new["z"], new[["a", "b", "c"]]])
    weight, means, variances = components(posterior, data, rows)
    means = means + 0.3
    link, std, ends = posterior.predict(new, kind="link", offset=0.3, return_std=True, interval=0.8)
    np.testing.assert_allclose(link, weight @ means, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(std, np.sqrt(weight @ (variances + (means - weight @ means) ** 2)), rtol=1e-5)
    expected = [[quantile(weight, means[:, r], variances[:, r], p) for p in (0.1, 0.9)] for r in range(6)]
    np.testing.assert_allclose(ends, expected, rtol=1e-5, atol=1e-6)
    mean, std, ends = posterior.predict(new, offset=np.full(6, 0.3), return_std=True, interval=0.8)
    x, w = np.polynomial.legendre.leggauss(400)
    x, w = 12 * x, 12 * w * np.exp(-((12 * x) ** 2) / 2) / np.sqrt(2 * np.pi)
    mu = INVERSE[name](means[:, :, None] + np.sqrt(variances)[:, :, None] * x)
    np.testing.assert_allclose(mean, weight @ (mu @ w), rtol=1e-5)
    np.testing.assert_allclose(std, np.sqrt(weight @ (mu**2 @ w) - (weight @ (mu @ w)) ** 2), rtol=1e-4)
    np.testing.assert_allclose(ends, INVERSE[name](np.array(expected)), rtol=1e-5)
    one = posterior.predict(new, estimator="HPM", kind="link", offset=0.3)
    np.testing.assert_allclose(one, means[0], rtol=1e-5, atol=1e-6)


def test_ratios():
    _, _, posterior, _ = case("logistic", wv.IndependentNormal(2.0))
    table, ratios = posterior.coefficients(), posterior.coefficients(scale="odds_ratio")
    np.testing.assert_allclose(ratios["ratio"], np.exp(table["mean"]))
    np.testing.assert_allclose(ratios[["lower", "upper"]], np.exp(table[["lower", "upper"]]))
    assert "lower" not in posterior.coefficients(interval=None, scale="odds_ratio")
    with pytest.raises(DataError, match="scale='rate_ratio' does not apply to family=Logistic"):
        posterior.coefficients(scale="rate_ratio")
    _, _, counts, _ = case("poisson", wv.GPrior(50.0))
    assert (
        counts.coefficients(scale="rate_ratio")["upper"] >= counts.coefficients(scale="rate_ratio")["lower"]
    ).all()
    with pytest.raises(DataError, match="no ratios"):
        case("probit", wv.GPrior(50.0))[2].coefficients(scale="odds_ratio")


def test_what_does_not_depend_on_the_family():
    _, _, posterior, _ = case("poisson", wv.IndependentNormal(2.0))
    assert "r_squared" not in posterior.top_models()
    assert posterior.top_models()["probability"].sum() == pytest.approx(1)
    assert posterior.model_size["posterior"].sum() == pytest.approx(1)
    assert posterior.summary().shape == (3, 6)
    assert "Poisson regression" in posterior.methods()
    assert "noise" not in posterior.methods()
    assert "8 models were looked at" in posterior.explain()
    assert posterior.given(include="a").inclusion_probabilities["a"] == pytest.approx(1)
    both = posterior.sensitivity(g=[0.5, 2.0], prior_size=[1.0, 1.5])
    own = both.loc[(2.0, 1.5)]
    np.testing.assert_allclose(
        own[list("ab")].to_numpy(float), posterior.inclusion_probabilities[list("ab")], atol=1e-9
    )
    assert len(posterior.clusters(level=0.5)) >= 1
    assert repr(posterior).startswith("Posterior of 3 variables")


def test_separated_models_have_no_estimates_under_bic():
    x = np.linspace(-1, 1, 30)
    X = np.column_stack([x, np.sin(9 * x)])
    posterior = wv.exact(wv.Problem(X, x > 0.03, family="logistic", slab=wv.BIC()), progress=False)
    assert posterior.pip[0] > 0.99  # the likelihood's supremum is finite
    with pytest.raises(DataError, match="have no finite estimates under BIC"):
        posterior.coefficients()
    # what is printed says so, and does not fail
    assert "Effects cannot be told" in posterior.explain()
    assert "Posterior of 2 variables" in repr(posterior)
    only = np.column_stack([x > 0.03, np.sin(9 * x)])
    counts = wv.exact(
        wv.Problem(only, np.where(x > 0.03, 3, 0), family="poisson", slab=wv.BIC()), progress=False
    )
    assert counts.pearson is None
