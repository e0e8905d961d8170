"""Non-local slabs against quadrature with independent code, and every sampler against enumeration."""

import warnings
from functools import cache

import numpy as np
import pytest

import whichvars as wv
from support.cases import Case
from support.kinds import by_kind
from support.moment_oracle import enumerate_models, enumerate_pmom, log_pemom, log_pmom
from support.oracle import all_masks
from support.paired import make_paired
from whichvars.errors import DataError
from whichvars.problem import moment_factors
from whichvars.problem.moment_factors import moments_of_coefficients, normal_posteriors
from whichvars.sampling.choosing import choose

TAU = 0.348
PRIOR, ORACLE = wv.BetaBinomial(a=1.0, b=2.0), ("beta-binomial", 1.0, 2.0)


def data(columns=6, n=30, seed=0, **parts):
    case = make_paired("independent", n=n, columns=columns, seed=seed, **parts)
    return case.X, case.y


def make(X, y, slab=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.DataWarning)
        return wv.Problem(X, y, slab=slab or wv.ProductMoment(TAU), model_prior=PRIOR, **settings)


@pytest.mark.parametrize("columns", [1, 3, 6])
@pytest.mark.parametrize("engine", ["gram", "columns"])
def test_pmom_against_quadrature(columns, engine):
    X, y = data(columns)
    problem, reference = make(X, y, engine=engine), enumerate_pmom(X, y, TAU, ORACLE)
    for i, mask in enumerate(all_masks(columns)):
        found = problem.log_marginal(np.flatnonzero(mask).tolist())
        assert found == pytest.approx(reference.log_marginals[i], abs=1e-7)
    posterior = wv.exact(problem)
    np.testing.assert_allclose(posterior.pip, reference.pips, atol=1e-7)
    assert posterior.log_evidence == pytest.approx(reference.log_evidence, abs=1e-7)


def test_pmom_with_a_known_variance_and_with_an_inverse_gamma_prior():
    X, y = data(4)
    known = make(X, y, noise=wv.KnownVariance(0.9))
    for model in ([0], [1, 3], [0, 1, 2, 3]):
        want = log_pmom(X[:, model], y, TAU, variance=0.9)
        assert known.log_marginal(model) == pytest.approx(want, abs=1e-8)
    # a prior that knows the variance to five digits
    sharp = make(X, y, noise=wv.InverseGamma(1e9, 0.9e9))
    assert sharp.log_marginal([0, 1, 2]) == pytest.approx(known.log_marginal([0, 1, 2]), abs=1e-5)


def test_points_agree_with_sums_where_there_are_both(monkeypatch):
    X, y = data(9, n=60)
    problem = make(X, y)
    models = ([0], [0, 4], [0, 1, 2, 4], list(range(9)))
    sums = np.array([problem.log_marginal(model) for model in models])
    monkeypatch.setattr(moment_factors, "MOST_EXACT", 0)
    points = np.array([problem.log_marginal(model) for model in models])
    assert 0 < np.abs(points - sums).max() < 0.05
    assert np.abs(points - sums)[:2].max() < 0.002


def test_pemom_against_quadrature():
    X, y = data(4)
    slab = wv.ExponentialMoment(0.119)
    problem = make(X, y, slab)
    for model in ([], [0], [1], [3], [0, 2], [1, 3]):
        assert problem.log_marginal(model) == pytest.approx(log_pemom(X[:, model], y, 0.119), abs=0.005)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 2))
    y = 0.05 * X[:, 0] + rng.normal(size=len(X))
    big = make(X, y, slab)
    for model in ([0], [1]):  # without an effect the factor is exp(−√(2nτ)) = exp(−69)
        want = log_pemom(X[:, model], y, 0.119, points=20_001)
        assert big.log_marginal(model) == pytest.approx(want, abs=0.005)
    assert big.log_marginal([1]) < -40


@cache
def sampled_case(name):
    """A problem, and its posterior by the oracle or, under peMOM, none."""
    if name == "pemom":
        return make(*data(4), wv.ExponentialMoment()), None
    if name in ("plain", "duplicate"):
        X, y = data(6) if name == "plain" else data(6, seed=3, duplicate=True)
        return make(X, y), enumerate_pmom(X, y, TAU, ORACLE)
    structure = {"strong": "stand-ins-3", "stronger": "stand-ins-7"}[name]
    given = Case(f"strong-{structure}", "independent", "fixed").given
    return _strong(given), enumerate_pmom(given.X, given.y, TAU, ORACLE, given.copies)


def _strong(given):
    statistics = wv.SufficientStatistics.from_arrays(given.X, given.y)
    for _ in range(given.copies.bit_length() - 1):
        statistics = statistics + statistics
    return wv.Problem(statistics, slab=wv.ProductMoment(TAU), model_prior=PRIOR)


SAMPLERS = [
    wv.AddDeleteSwap(), wv.Lamnisos(), wv.IndividualAdaptation(), wv.TemperedGibbs(), wv.SubsetGibbs(subset=2),
    wv.Hybrid(), wv.ParallelTempering(), wv.SequentialMonteCarlo(particles=2000),
]  # fmt: skip


@pytest.mark.parametrize("sampler", [wv.ASI(), wv.PARNI()], ids=lambda s: type(s).__name__)
def test_samplers_that_mix_too_slowly_are_refused(sampler):
    with pytest.raises(
        DataError,
        match=r"ASI and PARNI mix too slowly under ProductMoment\(tau=0.348\), a non-local slab; use Hybrid",
    ):
        wv.sample(make(*data(6)), sampler, draws=100, progress=False)


@pytest.mark.parametrize("case", ["plain", "duplicate", "strong", "stronger", "pemom"])
@pytest.mark.parametrize("sampler", by_kind(SAMPLERS))
def test_samplers(sampler, case):
    problem, reference = sampled_case(case)
    if reference is None:
        logs = np.array([problem.log_marginal(np.flatnonzero(mask)) for mask in all_masks(problem.p)])
        reference = enumerate_models(logs, problem.p, ORACLE)
    settings = {} if isinstance(sampler, wv.SequentialMonteCarlo) else {"draws": 20_000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        run = wv.sample(problem, sampler, seed=4, replicates=8, progress=False, **settings)
    told = np.isfinite(run.mcse)
    assert (np.abs(run.pip - reference.pips)[told] < 5 * run.mcse[told] + 1e-3).all(), (
        run.pip,
        reference.pips,
    )
    assert np.abs(run.pip - reference.pips)[~told].max(initial=0) < 1e-3
    assert np.nanmax(run.mcse) < 0.06


def test_together_with_a_dilution():
    X, y = data(6, seed=3, duplicate=True)
    problem = make(X, y).with_priors(model_prior=wv.Dilution(wv.FixedInclusion(h=0.3)))
    exact = wv.exact(problem)
    masks, R = all_masks(6), np.corrcoef(X.T)
    joint = []
    for mask in masks:
        d = np.linalg.det(R[np.ix_(mask, mask)]) if mask.any() else 1.0
        log_d = np.log(d) if d > 1e-9 else -np.inf
        joint.append(log_pmom(X[:, mask], y, TAU) + log_d + mask.sum() * np.log(0.3 / 0.7))
    weight = np.exp(np.array(joint) - np.max(joint))
    np.testing.assert_allclose(exact.pip, weight @ masks / weight.sum(), atol=1e-7)
    run = wv.sample(problem, wv.Hybrid(), draws=5000, seed=1, progress=False)
    assert (np.abs(run.pip - exact.pip) < 5 * run.mcse + 1e-3).all()


@pytest.mark.parametrize("slab", [wv.ProductMoment(), wv.ExponentialMoment()], ids=["pmom", "pemom"])
def test_moments_of_coefficients_against_a_grid(slab):
    """For one column; the means of two are those of a grid in two dimensions."""
    X, y = data(2)
    problem = make(X, y, slab)
    for model in ([0], [1], [0, 1]):
        normal = normal_posteriors(problem.formula(0), np.array([model]))
        mean, covariance, _ = moments_of_coefficients(normal, slab)
        rng = np.random.default_rng(0)
        x = normal.degrees / rng.chisquare(normal.degrees, size=400_000)
        root = np.linalg.cholesky(normal.V[0] * normal.s[0])
        beta = normal.b[0] + np.sqrt(x)[:, None] * (rng.normal(size=(len(x), len(model))) @ root.T)
        ratio = beta**2 / (slab.tau * normal.s[0] * x[:, None])
        weight = np.prod(ratio if isinstance(slab, wv.ProductMoment) else np.exp(-1 / ratio), axis=1)
        want = weight @ beta / weight.sum()
        sd = np.sqrt(weight @ (beta - want) ** 2 / weight.sum())
        assert (np.abs(mean[0] - want) < 0.04 * sd).all()
        np.testing.assert_allclose(np.sqrt(np.diag(covariance[0])), sd, rtol=0.05)


def test_what_a_posterior_says(tmp_path):
    X, y = data(6)
    posterior = wv.exact(make(X, y))
    posterior.save(tmp_path / "a.npz")
    assert wv.Posterior.load(tmp_path / "a.npz").problem.slab == wv.ProductMoment(TAU)
    table = posterior.coefficients()
    assert np.isfinite(table.to_numpy(float)).all()
    assert np.isfinite(posterior.predict(X)).all()
    assert np.isfinite(posterior.log_score(X, y)).all()
    assert posterior.residual_check(X, y) is not None
    text = posterior.methods()
    assert "product moment prior (pMOM) with scale τ = 0.348" in text
    assert "scaled to unit standard deviation" in text
    assert "Johnson, V. E. and Rossell, D. (2012)" in text
    text = wv.exact(make(X[:, :3], y, wv.ExponentialMoment())).methods()
    assert "exp(√2 − τσ²/β²)" in text
    assert "Rossell, D., Telesca, D. and Johnson, V. E. (2013)" in text
    assert "johnson2012" in posterior.bibtex()
    back = posterior.reweight(slab=wv.IndependentNormal(TAU))
    np.testing.assert_allclose(back.pip, wv.exact(make(X, y, wv.IndependentNormal(TAU))).pip, atol=1e-8)


def test_bad_arguments():
    X, y = data(3)
    with pytest.raises(DataError, match="tau must be positive"):
        wv.ProductMoment(0)
    with pytest.raises(DataError, match="is for Gaussian responses"):
        wv.Problem(X, y > 0, family="logistic", slab=wv.ProductMoment())


@pytest.mark.parametrize(("slab", "most"), [(wv.ProductMoment(), 13), (wv.ExponentialMoment(), 9)])
def test_models_are_enumerated_only_where_it_takes_seconds(slab, most):
    X = np.random.default_rng(0).normal(size=(40, most + 1))
    y = X[:, 0] + np.random.default_rng(1).normal(size=40)
    assert choose(wv.Problem(X[:, :most], y, slab=slab), None, None).sampler is None
    assert choose(wv.Problem(X, y, slab=slab), None, None).sampler is not None
