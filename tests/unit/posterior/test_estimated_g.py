"""The posterior of an unknown g of the independent slab if the family is not Gaussian, against problems with a known g."""

import numpy as np
import pytest
from scipy import special

import whichvars as wv
from whichvars.errors import DataError
from whichvars.posterior import shrinkage

RNG = np.random.default_rng(2)
N = 60
X = RNG.normal(size=(N, 4)) * [1.0, 2.0, 0.5, 1.0]
ETA = 0.2 + 0.9 * X[:, 0] + 0.4 * X[:, 1]
PRIOR = wv.FixedInclusion(h=0.3)
FAMILIES = {
    "logistic": (wv.Logistic(), RNG.random(N) < special.expit(ETA)),
    "trials": (wv.Logistic(trials=6), RNG.binomial(6, special.expit(ETA))),
    "probit": (wv.Probit(), RNG.normal(size=N) < ETA),
    "poisson": (wv.Poisson(), RNG.poisson(np.exp(ETA))),
    "negative-binomial": (
        wv.NegativeBinomial(dispersion=2.0),
        RNG.poisson(np.exp(ETA) * RNG.gamma(2, 0.5, N)),
    ),
}


def make(name, slab, **settings):
    family, y = FAMILIES[name]
    return wv.Problem(X, y, family=family, slab=slab, model_prior=PRIOR, evidence="laplace", **settings)


def given_each_value(name, values, prior, **settings):
    """Probabilities of the values, from enumerations with each of them, without the null model."""
    logs = []
    for g in values:
        posterior = wv.exact(make(name, wv.IndependentNormal(g), **settings), progress=False)
        null = dict(zip(posterior.models.members, posterior.models.frequency))[()]
        logs.append(posterior.log_evidence + np.log1p(-null))
    joint = np.log(prior) + logs
    return np.exp(joint - special.logsumexp(joint))


@pytest.mark.parametrize("name", FAMILIES)
def test_against_enumerations_with_known_values(name):
    posterior = wv.exact(make(name, wv.IndependentNormal("estimate")), progress=False)
    table = posterior.estimated_g()
    assert table["prior"].sum() == pytest.approx(1)
    assert table["posterior"].sum() == pytest.approx(1)
    assert table.index[0] == pytest.approx(10 / N)
    want = given_each_value(name, table.index.to_numpy(), table["prior"].to_numpy())
    np.testing.assert_allclose(table["posterior"], want, atol=1e-6)
    assert table["posterior"].max() < 0.9
    assert (table["mcse"] == 0).all()


def test_columns_that_are_not_scaled():
    posterior = wv.exact(make("poisson", wv.IndependentNormal("estimate"), scale="none"), progress=False)
    table = posterior.estimated_g()
    want = given_each_value("poisson", table.index.to_numpy(), table["prior"].to_numpy(), scale="none")
    np.testing.assert_allclose(table["posterior"], want, atol=1e-6)


@pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")
def test_runs_have_errors(monkeypatch):
    problem = make("poisson", wv.IndependentNormal("estimate"))
    exact = wv.exact(problem, progress=False).estimated_g()
    run = wv.sample(problem, wv.AddDeleteSwap(), draws=1500, seed=1, progress=False)
    table = run.estimated_g()
    assert (table["mcse"] > 0).any()
    assert (np.abs(table["posterior"] - exact["posterior"]) < 4.5 * table["mcse"] + 1e-4).all()
    # light models that are not fitted again have the probabilities of the others
    monkeypatch.setattr(shrinkage, "MOST_FITTED", 3)
    np.testing.assert_allclose(run.estimated_g()["posterior"], table["posterior"], atol=0.05)


def test_the_report_tells_it(tmp_path):
    posterior = wv.exact(make("logistic", wv.IndependentNormal("estimate")), progress=False)
    shares = posterior.estimated_g()["posterior"].cumsum()
    middle = shares.index[int((shares < 0.5).sum())]
    page = posterior.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"median {middle:.3g}" in page


def test_what_is_refused():
    known = wv.exact(make("poisson", wv.IndependentNormal(1.0)), progress=False)
    with pytest.raises(
        DataError, match=r'is for slab=IndependentNormal\("estimate"\), not for IndependentNormal\(g=1.0\)'
    ):
        known.estimated_g()
    for family in ("negative-binomial", "student"):
        with pytest.raises(DataError, match="cannot both be averaged over"):
            wv.Problem(X, FAMILIES["poisson"][1], family=family, slab=wv.IndependentNormal("estimate"))
