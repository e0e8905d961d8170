"""Slabs whose distribution of g depends on the model, CCH and Zellner–Siow's scale: enumeration, coefficients, samplers and words, against
code that integrates over g in other variables."""

import numpy as np
import pytest

import whichvars as wv
from support.oracle import OracleSlab
from support.paired import make_paired
from whichvars.errors import DataError

SLABS = {
    "robust": (wv.Robust(), OracleSlab("robust")),
    "intrinsic": (wv.Intrinsic(), OracleSlab("intrinsic")),
    "beta-prime": (wv.BetaPrime(), OracleSlab("beta-prime")),
    "JZS": (wv.ZellnerSiow(r=0.5), OracleSlab("zellner-siow", r=0.5)),
    "CCH": (wv.CCH(1, 40, 2), OracleSlab("cch", cch=(1.0, 40.0, 2.0))),
}
SITUATIONS = {
    "plain": {"columns": 6},
    "weights, always included, groups": {
        "columns": 6, "groups": [[0], [1, 4], [2], [3, 5]], "weighted": True, "always": 2, "n": 24,
    },
    "inverse gamma": {"columns": 5, "inverse_gamma": (1.3, 0.8)},
    "more columns than rows": {"columns": 9, "n": 8},
}  # fmt: skip


def make(slab, **parts):
    case = make_paired("g-prior", **parts)
    case.slab, case.oracle_slab = SLABS[slab]
    return case


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("slab", SLABS)
def test_enumeration(slab, situation):
    case = make(slab, **SITUATIONS[situation])
    posterior = wv.exact(case.problem(model_prior=wv.BetaBinomial(1, 2)))
    reference = case.posterior(("beta-binomial", 1.0, 2.0))
    np.testing.assert_allclose(posterior.pip, reference.pips, rtol=1e-7)
    assert posterior.log_evidence == pytest.approx(reference.log_evidence, rel=1e-7)


def uniform_nodes(slab, n, k, common):
    """Values of g, equally probable under the prior, for averages: quantiles of its distribution function."""
    from scipy import stats

    u = (np.arange(400_000) + 0.5) / 400_000
    if slab == "robust":
        return (n + 1) / (k + common) / u**2 - 1
    if slab == "intrinsic":
        return n / (k + common) / stats.beta(0.5, 0.5).ppf(u)
    if slab == "beta-prime":
        return 1 / np.maximum(stats.beta(0.25, (n - k - 1.5) / 2).ppf(u), 1e-300) - 1
    return stats.invgamma(0.5, scale=0.25 * n / 2).ppf(u)


@pytest.mark.parametrize("slab", ["robust", "intrinsic", "beta-prime", "JZS"])
def test_coefficients_of_one_model(slab):
    """Averages over g by equally probable values of it, for least squares written out."""
    case = make(slab, n=30, columns=4)
    one = wv.exact(case.problem()).model([0, 2])
    X, y, n, k = case.X[:, [0, 2]] - case.X[:, [0, 2]].mean(axis=0), case.y - case.y.mean(), 30, 2
    slope = np.linalg.lstsq(X, y)[0]
    total, explained = y @ y, y @ X @ slope
    g = uniform_nodes(slab, n, k, 1)
    q = g / (1 + g)
    log_bf = (n - 1 - k) / 2 * np.log1p(g) - (n - 1) / 2 * np.log1p(g * (1 - explained / total))
    weight = np.exp(log_bf - log_bf.max())
    weight /= weight.sum()
    mean = weight @ q
    s = (total - q * explained) / (n - 1 - 2)
    spread = np.linalg.inv(X.T @ X)
    variance = weight @ (q * s) * np.diag(spread) + (weight @ q**2 - mean**2) * slope**2
    table = one.coefficients()
    np.testing.assert_allclose(table.loc[["x0", "x2"], "mean"], mean * slope, rtol=1e-4)
    np.testing.assert_allclose(table.loc[["x0", "x2"], "sd"], np.sqrt(variance), rtol=1e-4)
    assert one.predict(case.X[:1])[0] == pytest.approx(case.y.mean() + mean * X[0] @ slope, rel=1e-4)


@pytest.mark.parametrize("sampler", [wv.Hybrid(), wv.AddDeleteSwap()])
@pytest.mark.parametrize("slab", SLABS)
def test_samplers(slab, sampler):
    case = make(slab, columns=7, n=30)
    problem = case.problem(model_prior=wv.BetaBinomial(1, 2))
    run = wv.sample(problem, sampler, draws=20_000, seed=6, progress=False)
    truth = case.posterior(("beta-binomial", 1.0, 2.0))
    assert (np.abs(run.pip - truth.pips) < 5 * run.mcse + 1e-4).all()


def test_special_cases():
    case = make_paired("g-prior", columns=5)
    for one, other in ((wv.CCH(1, 2), wv.HyperG(3)), (wv.ZellnerSiow(r=1), wv.ZellnerSiow())):
        first, second = (wv.exact(case.problem(slab=slab)).pip for slab in (one, other))
        np.testing.assert_allclose(first, second, rtol=1e-9)


def test_other_slabs_by_reweighting():
    case = make_paired("g-prior", columns=6)
    posterior = wv.exact(case.problem())
    for slab, _ in SLABS.values():
        again = wv.exact(case.problem(slab=slab))
        np.testing.assert_allclose(posterior.reweight(slab=slab).pip, again.pip, rtol=1e-8)


def test_scale_of_zellner_siow_for_counts():
    """r² multiplies n."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = rng.poisson(np.exp(0.5 * X[:, 0]))
    values = [
        wv.Problem(X, y, family="poisson", slab=wv.ZellnerSiow(r=r)).log_marginal([1]) for r in (0.3, 1, 3)
    ]
    assert values[0] > values[1] > values[2]  # the second column is noise: narrower priors cost it less


def test_words_and_files(tmp_path):
    problem = make_paired("g-prior", columns=4).problem()
    for slab, words in (
        (wv.Robust(), "the robust prior."),
        (wv.Intrinsic(), "the intrinsic prior."),
        (wv.BetaPrime(), "the beta-prime prior."),
        (wv.ZellnerSiow(r=0.5), "the Zellner–Siow prior with scale r = 0.5."),
    ):
        posterior = wv.exact(problem.with_priors(slab=slab))
        assert words in posterior.methods()
        assert slab.references[0] in posterior.methods()
        posterior.save(tmp_path / "a.npz")
        assert wv.Posterior.load(tmp_path / "a.npz").problem.slab == slab


def test_what_is_refused():
    case = make_paired("g-prior", columns=3)
    for slab in (wv.Robust(), wv.Intrinsic(), wv.BetaPrime()):
        with pytest.raises(DataError, match="is for Gaussian responses"):
            wv.Problem(case.X, case.y > case.y.mean(), family="logistic", slab=slab)
        with pytest.raises(DataError, match="unknown noise variance only"):
            case.problem(slab=slab, noise=wv.KnownVariance(1.0))
    with pytest.raises(DataError, match="b must be at least 2 if the response is Gaussian"):
        case.problem(slab=wv.CCH(1, 1))
    with pytest.raises(DataError, match="r must lie between"):
        wv.ZellnerSiow(r=0.001)
