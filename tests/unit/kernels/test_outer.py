"""Negative binomial counts of unknown dispersion: derivatives, marginal likelihoods, coefficients and the dispersion itself, against
scipy and an oracle that integrates over log r on a fine grid."""

import numpy as np
import pytest
from scipy import special, stats

import whichvars as wv
from support import family_oracle as oracle
from support.kernels import from_python
from whichvars._kernels import likelihood as kernels
from whichvars._kernels import outer
from whichvars._kernels.jit import entry
from whichvars.errors import DataError
from whichvars.problem.fitting import answers

rising, rising_slopes = from_python(outer.rising), from_python(outer.rising_slopes)
MODELS = [(), (0,), (1,), (0, 1)]


@entry
def joint_and_slopes(likelihood, work, tau):
    """The log of the joint density at the current θ and this log r, and its derivatives in log r."""
    value = outer.set_outer(likelihood, work, tau) + kernels.log_joint(likelihood, work, kernels.THETA)
    first, second = outer.dispersion_slopes(likelihood, work)
    return value, first, second


def listed(models):
    members = np.array([j for m in models for j in m], np.int32)
    return members, np.concatenate([[0], np.cumsum([len(m) for m in models])]).astype(np.int64)


def log_marginals(problem, models=MODELS):
    return answers(problem, *listed(models))[0][:, kernels.LOG_MARGINAL]


def counts(n=50, r=1.5, level=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    mean = np.exp(level + 0.5 * X[:, 0])
    return X, rng.poisson(mean * rng.gamma(r, 1 / r, n) if r < np.inf else mean).astype(float)


def over_dispersion(X, y, phi, function=oracle.log_marginal, models=MODELS, prior=(5.0, 2.0), **others):
    """log of m(γ | r) p(log r) d log r, (models, values of log r)."""
    log_prior = stats.norm.logpdf(phi, np.log(prior[0]), prior[1]) + np.log(phi[1] - phi[0])
    columns = []
    for value, weight in zip(phi, log_prior):
        data = oracle.Data("negative-binomial", X, y, ("independent", 1.0), r=float(np.exp(value)), **others)
        columns.append([function(data, m) + weight for m in models])
    return np.array(columns).T


def relative(table):
    values = special.logsumexp(table, axis=1)
    return values - values[0]


# --- derivatives


@pytest.mark.parametrize("r", [1e-6, 0.03, 1.7, 11.0, 800.0, 1e7])
@pytest.mark.parametrize("y", [0.0, 1.0, 5.0, 12.0, 13.0, 400.0, 1e6])
def test_gamma_functions(r, y):
    """Rounding errors of the difference of two values of scipy's are allowed for."""
    expected = special.gammaln(r + y) - special.gammaln(r) - y * np.log(r)
    rounding = 1e-15 * (abs(special.gammaln(r + y)) + abs(special.gammaln(r)) + y * abs(np.log(r)))
    assert rising(r, y) == pytest.approx(expected, rel=1e-12, abs=8 * rounding + 1e-14)
    first, second = rising_slopes(r, y)
    expected = special.digamma(r + y) - special.digamma(r)
    assert first == pytest.approx(expected, rel=1e-12, abs=1e-14 * max(1, abs(np.log(r + y))))
    expected = special.polygamma(1, r + y) - special.polygamma(1, r)
    assert second == pytest.approx(expected, rel=1e-11, abs=1e-14 / r)


def test_poisson_is_the_limit():
    """log Γ(r + y) − log Γ(r) − y log r → y(y − 1)/(2r), without a loss of digits."""
    assert rising(1e12, 7.0) == pytest.approx(21e-12, rel=1e-9)
    assert rising(1e12, 1e3) == pytest.approx(999e3 / 2 / 1e12, rel=1e-6)


@pytest.mark.parametrize("tau", [-3.0, 0.2, 2.5, 9.0])
def test_derivatives_by_differences(tau):
    X, y = counts()
    y[:3] = 40, 0, 300
    weights = np.linspace(0.5, 2, 50)
    problem = wv.Problem(X, y, family=wv.NegativeBinomial(), weights=weights, offset=np.linspace(-1, 1, 50))
    likelihood, h = problem.likelihood(), 1e-4
    with problem.works.borrow(likelihood, 2) as work:
        answers(problem, *listed([(0,)]))
        work.members[[0, 1, -1]] = 0, 1, 2
        _prepare(likelihood, work)
        work.vectors[kernels.THETA, :3] = 0.3, -0.2, 0.4
        low, here, high = (joint_and_slopes(likelihood, work, tau + d) for d in (-h, 0, h))
        assert here[1] == pytest.approx((high[0] - low[0]) / (2 * h), rel=1e-6, abs=1e-4)
        assert here[2] == pytest.approx((high[1] - low[1]) / (2 * h), rel=1e-6, abs=1e-6)


@entry
def _prepare(likelihood, work):
    return kernels.prepare(likelihood, work)


# --- marginal likelihoods


@pytest.mark.parametrize("evidence", ["laplace", "second-order"])
def test_against_the_oracle_on_a_grid(evidence):
    """With weights and an offset. What is left is the second order's correction, held back where it is large."""
    X, y = counts()
    others = {"weights": np.tile([0.5, 1.0, 2.0, 0.0, 1.0], 10), "offset": np.linspace(-1, 1, 50)}
    problem = wv.Problem(X, y, family=wv.NegativeBinomial(), evidence=evidence, **others)
    truth = relative(over_dispersion(X, y, np.arange(-3, 12, 0.1), evidence=evidence, **others))
    np.testing.assert_allclose(log_marginals(problem), truth, rtol=0, atol=3e-4)


@pytest.mark.parametrize(("r", "level"), [(1.0, 1.0), (np.inf, 1.5), (0.3, 2.0)])
def test_against_quadrature_over_all_parameters(r, level):
    """Two and three dimensions; counts that are Poisson, for which r is large, among them."""
    X, y = counts(25, r, level, 3)
    phi = np.arange(-3.5, 12, 0.35)
    table = over_dispersion(X, y, phi, lambda d, m: oracle.quadrature(d, m, nodes=41), [(), (0,), (1,)])
    truth = relative(table)
    for evidence, tolerance in (("auto", 0.02), ("importance", 0.002)):
        problem = wv.Problem(X, y, family=wv.NegativeBinomial(), evidence=evidence)
        found = answers(problem, *listed([(), (0,), (1,)]))[0]
        noise = np.hypot(found[:, kernels.SAMPLING_ERROR], found[0, kernels.SAMPLING_ERROR])
        assert (np.abs(found[:, kernels.LOG_MARGINAL] - truth) < tolerance + 4 * noise).all()
        assert (noise > 0).all() == (evidence == "importance")


@pytest.mark.parametrize("slab", [wv.IndependentNormal(), wv.GPrior(), wv.BIC()])
def test_a_narrow_prior_is_a_known_dispersion(slab):
    X, y = counts()
    narrow = wv.Problem(X, y, family=wv.NegativeBinomial(prior_median=2.0, prior_sd=1e-4), slab=slab)
    known = wv.Problem(X, y, family=wv.NegativeBinomial(2.0), slab=slab)
    assert narrow.fit_data.dispersion == pytest.approx(2.0, rel=1e-5)
    np.testing.assert_allclose(log_marginals(narrow), log_marginals(known), rtol=0, atol=1e-6)
    one, other = (wv.exact(p, progress=False).coefficients() for p in (narrow, known))
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_bic_is_at_the_joint_mode():
    X, y = counts()
    problem = wv.Problem(X, y, family=wv.NegativeBinomial(), slab=wv.BIC())

    def profile(model, phi):
        data = oracle.Data("negative-binomial", X, y, ("bic",), r=float(np.exp(phi)))
        return oracle.log_marginal(data, model) + stats.norm.logpdf(phi, np.log(5), 2)

    phi = np.arange(-1.5, 2.5, 0.02)
    best = np.array([max(profile(m, f) for f in phi) for m in [(), (0,)]])
    assert log_marginals(problem, [(0,)])[0] == pytest.approx(best[1] - best[0], abs=1e-3)


@pytest.mark.parametrize(
    ("y", "largest"),
    [
        (np.full(60, 4.0), 1.0),  # all equal: no overdispersion at all
        (np.r_[np.zeros(59), 3.0], 2.0),  # a single count
        (1e6 + 1000.0 * np.arange(60), 1.0),
        (np.r_[np.zeros(40), 10.0 ** np.arange(1, 11), 10.0 ** np.arange(1, 11)], 2.0),
    ],
)
def test_extremes_stay_finite(y, largest):
    X = np.random.default_rng(1).normal(size=(60, 2))
    problem = wv.Problem(X, y, family=wv.NegativeBinomial())
    table, troubles = answers(problem, *listed(MODELS))
    assert troubles["breakdowns"] == 0
    assert np.isfinite(table).all()
    assert np.abs(table[:, kernels.CORRECTION]).max() < largest
    summary = wv.exact(problem, progress=False).dispersion()
    assert np.isfinite(summary).all()
    assert 0 < summary["lower"] < summary["median"] < summary["upper"]


def test_counts_of_a_poisson_distribution_are_recognised():
    X, y = counts(300, np.inf, 1.0, 5)
    negative = wv.exact(wv.Problem(X, y, family="negative-binomial"), progress=False)
    poisson = wv.exact(wv.Problem(X, y, family="poisson"), progress=False)
    np.testing.assert_allclose(negative.pip, poisson.pip, atol=0.02)
    assert negative.dispersion()["lower"] > 10


def test_one_function_of_the_model():
    X, y = counts()
    X = np.column_stack([X, X[::-1]])
    problem = wv.Problem(X, y, family=wv.NegativeBinomial())
    models = [(), (0,), (3,), (0, 2), (1, 2, 3)]
    alone = np.array([log_marginals(problem, [m])[0] for m in models])
    np.testing.assert_array_equal(alone[::-1], log_marginals(problem, models[::-1]))


# --- coefficients and the dispersion


def test_dispersion_under_bic_is_near_that_of_a_wide_slab():
    """BIC looks at the mode of log r alone."""
    X, y = counts(300)
    wide, bic = (
        wv.exact(wv.Problem(X, y, family="negative-binomial", slab=slab), progress=False).dispersion()
        for slab in (wv.IndependentNormal(20.0), wv.BIC())
    )
    width = np.log(wide["upper"] / wide["lower"])
    assert np.log(bic["upper"] / bic["lower"]) == pytest.approx(width, rel=0.1)
    assert abs(np.log(bic["median"] / wide["median"])) < 0.1 * width


def test_coefficients_and_dispersion_are_averages_over_it():
    X, y = counts(40)
    y = y[::-1].copy()
    problem = wv.Problem(X, y, family=wv.NegativeBinomial(), evidence="laplace", max_size=1)
    posterior = wv.exact(problem, progress=False)
    phi = np.arange(-2.5, 6, 0.05)
    table = over_dispersion(X, y, phi, evidence="laplace")[:3]
    table += np.array([0.0, *[np.log(w) for w in _prior_odds(problem)]])[:, None]
    share = np.exp(table - special.logsumexp(table))
    mean, square = np.zeros(2), np.zeros(2)
    spread = X.std(axis=0, ddof=1)
    for a, f in enumerate(phi):
        data = oracle.Data("negative-binomial", X, y, ("independent", 1.0), r=float(np.exp(f)))
        for j in range(2):
            J, P = data.model([j])
            theta = oracle.mode(data, J, P)
            V = np.linalg.inv((J * -data.derivatives(J @ theta)[2][:, None]).T @ J + P)
            mean[j] += share[1 + j, a] * theta[1] / spread[j]
            square[j] += share[1 + j, a] * (V[1, 1] + theta[1] ** 2) / spread[j] ** 2
    found = posterior.coefficients(interval=None).iloc[1:]
    np.testing.assert_allclose(found["mean"], mean, rtol=2e-4)
    np.testing.assert_allclose(found["sd"], np.sqrt(square - mean**2), rtol=2e-4)
    below = np.cumsum(share.sum(axis=0)) - share.sum(axis=0) / 2
    expected = np.exp(np.interp([0.5, 0.05, 0.95], below, phi))
    summary = posterior.dispersion(interval=0.9)
    np.testing.assert_allclose(summary[["median", "lower", "upper"]], expected, rtol=5e-3)
    assert summary["mean"] == pytest.approx(share.sum(axis=0) @ np.exp(phi), rel=5e-3)


def _prior_odds(problem):
    posterior = wv.exact(problem, progress=False)
    prior = dict(zip(posterior.models.members, posterior.models.log_prior))
    return [np.exp(prior[(j,)] - prior[()]) for j in range(2)]


def test_words():
    X, y = counts()
    posterior = wv.exact(wv.Problem(X, y, family=wv.NegativeBinomial(prior_sd=1.5)), progress=False)
    assert (
        "negative binomial (unknown dispersion r, log r ~ N(1.609, 1.5²)) regression" in posterior.methods()
    )
    assert "NegativeBinomial(prior_sd=1.5)" in repr(posterior.problem)
    assert posterior.predict(X[:3]).shape == (3,)
    with pytest.raises(DataError, match=r"the dispersion is known, NegativeBinomial\(dispersion=2.0\)"):
        wv.exact(wv.Problem(X, y, family=wv.NegativeBinomial(2)), progress=False).dispersion()
    with pytest.raises(DataError, match=r"family=Poisson\(\) has no dispersion"):
        wv.exact(wv.Problem(X, y, family="poisson"), progress=False).dispersion()
    for wrong in ({"dispersion": 1e12}, {"prior_median": 1e-9}, {"prior_sd": 11.0}):
        with pytest.raises(DataError, match=f"NegativeBinomial: {next(iter(wrong))} must lie between"):
            wv.NegativeBinomial(**wrong)
    with pytest.raises(DataError, match='evidence="bas" has no unknown dispersion'):
        wv.Problem(X, y, family=wv.NegativeBinomial(), slab=wv.GPrior(), evidence="bas")
