"""The kernels that fit one model of a family: derivatives, modes, and the ways to a marginal likelihood, against an oracle that
shares no code with them, and against quadrature."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

import whichvars as wv
from support import family_oracle as oracle
from support.kernels import from_python
from support.kinds import mainly
from whichvars._kernels import densities, family_evidence, importance
from whichvars._kernels import likelihood as kernels
from whichvars.problem.fitting import answers

FAMILIES = ("logistic", "probit", "poisson", "negative-binomial")
CODES = {
    "logistic": densities.BINOMIAL, "probit": densities.PROBIT, "poisson": densities.POISSON, "student": densities.STUDENT,
}  # fmt: skip
R = 1.5

log_density = from_python(densities.log_density)
first_and_second = from_python(densities.first_and_second)
third_and_fourth = from_python(densities.third_and_fourth)
normal_quantile = from_python(importance.normal_quantile)
log_gamma_ratio = from_python(importance.log_gamma_ratio)
half_chi_square_quantile = from_python(importance.half_chi_square_quantile)


def family_of(name):
    return wv.NegativeBinomial(dispersion=R) if name == "negative-binomial" else name


def listed(models):
    members = np.array([j for m in models for j in m], np.int32)
    return members, np.concatenate([[0], np.cumsum([len(m) for m in models])]).astype(np.int64)


def log_marginals(problem, models):
    return answers(problem, *listed(models))[0][:, kernels.LOG_MARGINAL]


def relative(data, models, function=oracle.log_marginal):
    return np.array([function(data, m) for m in models]) - function(data, ())


# --- derivatives


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("eta", [-3.0, -0.4, 0.0, 1.3, 4.0])
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_derivatives_by_differences(name, eta, y):
    code, trials = CODES[name], 1.0 if name == "probit" else 3.0
    h = 1e-3

    def derivatives(at):
        first, second = first_and_second(code, y, trials, at)
        return (log_density(code, y, trials, at), first, -second, *third_and_fourth(code, y, trials, at))

    below, here, above = derivatives(eta - h), derivatives(eta), derivatives(eta + h)
    for order in range(4):
        difference = (above[order] - below[order]) / (2 * h)
        assert here[order + 1] == pytest.approx(difference, rel=2e-5, abs=2e-6), order + 1


@pytest.mark.parametrize("eta", [-200.0, -30.0, -8.0, -5.0, -4.99, 0.0, 6.0, 40.0])
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_probit_far_from_zero(eta, y):
    """Against formulas with scipy's log Φ; where both lose digits, the limits: ℓ'' → −1 and ℓ''' , ℓ'''' → 0."""
    t = (2 * y - 1) * eta
    assert log_density(densities.PROBIT, y, 1.0, eta) == pytest.approx(special.log_ndtr(t), rel=1e-13)
    ratio = np.exp(-t * t / 2 - special.log_ndtr(t)) / np.sqrt(2 * np.pi)
    first, second = first_and_second(densities.PROBIT, y, 1.0, eta)
    assert first == pytest.approx((2 * y - 1) * ratio, rel=1e-11, abs=1e-300)
    assert second == pytest.approx(ratio * (t + ratio), rel=1e-9 * max(1, t * t), abs=1e-12)
    assert 0 <= second <= 1
    third, fourth = third_and_fourth(densities.PROBIT, y, 1.0, eta)
    assert abs(third) < 0.3
    assert abs(fourth) < 0.4
    if t < -20:
        assert second == pytest.approx(1 - 1 / t**2, abs=20 / t**4)
        assert abs(third) < 3 / abs(t) ** 3


@pytest.mark.parametrize("eta", [-745.0, -300.0, 300.0, 745.0])
def test_logistic_far_from_zero_keeps_its_digits(eta):
    for y in (0.0, 1.0):
        t = (2 * y - 1) * eta
        assert log_density(densities.BINOMIAL, y, 1.0, eta) == pytest.approx(-np.logaddexp(0, -t), rel=1e-14)
        first, second = first_and_second(densities.BINOMIAL, y, 1.0, eta)
        assert first == pytest.approx((2 * y - 1) * special.expit(-t), rel=1e-13)
        assert second == pytest.approx(special.expit(t) * special.expit(-t), rel=1e-13)


@pytest.mark.parametrize("u", [2.0**-33, 1e-6, 0.01, 0.3, 0.5, 0.77, 0.999, 1 - 2.0**-33])
def test_quantiles(u):
    assert normal_quantile(u) == pytest.approx(special.ndtri(u), rel=1e-9, abs=1e-12)
    for half in (3, 4, 12):
        expected = stats.chi2.ppf(u, 2 * half) / 2
        assert half_chi_square_quantile(u, half) == pytest.approx(expected, rel=1e-6)


def test_ratio_of_gamma_functions():
    for n in (3, 4, 11):
        for d in (1, 2, 5, 8, 21):
            expected = special.gammaln(n) - special.gammaln(n + d / 2)
            assert log_gamma_ratio(n, d) == pytest.approx(expected, rel=1e-13)


# --- log marginal likelihoods


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("evidence", ["laplace", "second-order"])
def test_against_the_oracle(name, evidence):
    X, y = oracle.simulate(name, 45, 4, 1)
    data = oracle.Data(name, X, y, ("independent", 2.0), r=R, evidence=evidence)
    problem = wv.Problem(X, y, family=family_of(name), slab=wv.IndependentNormal(2.0), evidence=evidence)
    models = [m for k in range(5) for m in itertools.combinations(range(4), k)]
    np.testing.assert_allclose(log_marginals(problem, models), relative(data, models), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", mainly(FAMILIES, ["logistic", "negative-binomial"]))
def test_against_quadrature(name):
    """Absolute errors: the first order is off, the second is nearly right, importance sampling is right within its error."""
    X, y = oracle.simulate(name, 30, 2, 3)
    data = oracle.Data(name, X, y, ("independent", 1.0), r=R)
    models = [(0,), (1,), (0, 1)]
    truth = relative(data, models, oracle.quadrature)
    found = {}
    for evidence in ("laplace", "second-order", "importance"):
        problem = wv.Problem(X, y, family=family_of(name), evidence=evidence)
        table = answers(problem, *listed([(), *models]))[0]
        found[evidence] = table[1:, kernels.LOG_MARGINAL]
        error = np.hypot(table[1:, kernels.SAMPLING_ERROR], table[0, kernels.SAMPLING_ERROR])
    first, second = np.abs(found["laplace"] - truth).max(), np.abs(found["second-order"] - truth).max()
    assert second < 0.01
    assert second < first * (0.8 if name == "probit" else 0.5)
    assert (error > 0).all()
    assert (error < 0.02).all()
    assert (np.abs(found["importance"] - truth) < 5 * error + 1e-4).all()


def test_importance_sampling_is_unbiased_and_knows_its_error():
    """The same model under many names of its variables, which seed the points: the mean is right, and the spread is the error."""
    X, y = oracle.simulate("logistic", 25, 2, 11, effect=2.0)
    data = oracle.Data("logistic", X, y, ("independent", 10.0))
    truth = oracle.quadrature(data, (0, 1)) - oracle.quadrature(data, ())
    many = 60
    copies = np.hstack([X] * many)
    with pytest.warns(wv.DataWarning, match="perfectly correlated"):
        problem = wv.Problem(
            copies, y, family="logistic", slab=wv.IndependentNormal(10.0), evidence="importance"
        )
    table = answers(problem, *listed([(2 * i, 2 * i + 1) for i in range(many)]))[0]
    ratio = np.exp(table[:, kernels.LOG_MARGINAL] + problem.null_log_marginal)
    null = oracle.quadrature(data, ()) - oracle.log_marginal(
        oracle.Data("logistic", X, y, ("independent", 10.0), evidence="laplace"), ()
    )
    laplace = wv.Problem(X, y, family="logistic", slab=wv.IndependentNormal(10.0), evidence="laplace")
    ratio /= np.exp(truth + null + laplace.null_log_marginal)
    spread = ratio.std(ddof=1)
    assert abs(ratio.mean() - 1) < 4 * spread / np.sqrt(many)
    assert 0.6 < np.sqrt(np.mean(table[:, kernels.SAMPLING_ERROR] ** 2)) / spread < 1.6


def test_auto_takes_importance_sampling_where_the_correction_is_large():
    """Separated classes, few rows, a wide slab."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20, 3))
    y = (X[:, 0] > 0).astype(float)
    problems = {
        how: wv.Problem(X, y, family="logistic", slab=wv.IndependentNormal(1e4), evidence=how)
        for how in ("auto", "second-order", "importance")
    }
    models = [(), (0,), (0, 1), (2,)]
    tables = {how: answers(p, *listed(models))[0] for how, p in problems.items()}
    doubtful = np.abs(tables["second-order"][:, kernels.CORRECTION]) > family_evidence.DOUBTFUL
    assert doubtful.any()
    assert not doubtful.all()
    auto = tables["auto"][:, kernels.LOG_MARGINAL] + problems["auto"].null_log_marginal
    for how, where in (("importance", doubtful), ("second-order", ~doubtful)):
        same = tables[how][:, kernels.LOG_MARGINAL] + problems[how].null_log_marginal
        np.testing.assert_array_equal(auto[where], same[where])


def test_large_models_take_importance_sampling_by_their_size_alone():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 24))
    y = (rng.random(400) < special.expit(X[:, 0])).astype(float)
    problem = wv.Problem(X, y, family="logistic", evidence="second-order")
    most = kernels.MOST_SECOND_ORDER
    table = answers(problem, *listed([tuple(range(most)), tuple(range(most + 1))]))[0]
    assert table[0, kernels.SAMPLING_ERROR] == 0
    assert 0 < table[1, kernels.SAMPLING_ERROR] < 0.2
    # both are close to one another: the second order at the smaller model is confirmed by sampling it
    sampled = answers(
        wv.Problem(X, y, family="logistic", evidence="importance"), *listed([tuple(range(most))])
    )[0]
    assert table[0, 0] == pytest.approx(sampled[0, 0], abs=0.05 + 5 * sampled[0, kernels.SAMPLING_ERROR])


def test_points_lie_where_the_posterior_is():
    """Near separation, posteriors of large models are so skewed that points around their modes miss most of the mass: with steps of
    ``variational.py`` left out, these errors are above .1. Sums of independent points, around the mode and far more of them, agree."""
    data = wv.datasets.load_breast_cancer()
    rng = np.random.default_rng(0)
    models = [tuple(sorted(rng.choice(30, 20, replace=False).tolist())) for _ in range(6)]
    problem = wv.Problem(data.X, data.y, family="logistic", evidence="importance")
    table = answers(problem, *listed(models))[0]
    assert np.sqrt(np.mean(table[:, kernels.SAMPLING_ERROR] ** 2)) < 0.08
    X = (data.X / data.X.std(ddof=0)).to_numpy()
    for model, row in zip(models[:2], table):
        correction, error = oracle.sampled_correction(
            X[:, model] - X[:, model].mean(axis=0), data.y == "malignant", 20_000
        )
        assert row[kernels.CORRECTION] == pytest.approx(
            correction, abs=4 * np.hypot(error, row[kernels.SAMPLING_ERROR])
        )


# --- one function of γ


@pytest.mark.parametrize("evidence", ["auto", "importance"])
def test_the_same_bits_in_any_order_and_company(evidence):
    X, y = oracle.simulate("logistic", 50, 6, 5)
    problem = wv.Problem(X, y, family="logistic", evidence=evidence)
    models = [m for k in range(4) for m in itertools.combinations(range(6), k)]
    alone = np.array([log_marginals(problem, [m])[0] for m in models])
    np.testing.assert_array_equal(alone, log_marginals(problem, models))
    np.testing.assert_array_equal(alone[::-1], log_marginals(problem, [m[::-1] for m in models[::-1]]))
    assert alone[0] == 0.0


# --- extremes


def test_separation_and_duplicates_stay_finite():
    rng = np.random.default_rng(7)
    x = rng.normal(size=40)
    X = np.column_stack([x, x, -2 * x, rng.normal(size=40)])
    y = (x > 0).astype(float)
    with pytest.warns(wv.DataWarning, match="perfectly correlated"):
        problem = wv.Problem(X, y, family="logistic", slab=wv.IndependentNormal(1e6))
    values = log_marginals(problem, [(0,), (0, 1), (0, 1, 2, 3), (3,)])
    assert np.isfinite(values).all()
    assert (
        values < 40 * np.log(2) + 10
    ).all()  # what can be gained by a perfect fit, and the width of the intercept's prior
    assert values[0] > values[3] + 20


@pytest.mark.parametrize("g", [1.0, 10.0, 100.0])
def test_separation_against_quadrature(g):
    """One column that separates 30 rows; β by a fine grid, and the intercept by one that covers its ridge."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=30)
    y = (x > 0).astype(float)
    problem = wv.Problem(x[:, None], y, family="logistic", slab=wv.IndependentNormal(g))
    table = answers(problem, *listed([(0,)]))[0][0]
    scaled = (x - x.mean()) / x.std(ddof=1)
    beta = np.linspace(-7, 7, 601) * np.sqrt(g)
    integrals = []
    for b in beta:
        level = np.linspace(-np.abs(b * scaled).max() - 40, np.abs(b * scaled).max() + 40, 1201)
        eta = level[:, None] + b * scaled
        values = (y * eta - np.logaddexp(0, eta)).sum(axis=1)
        integrals.append(special.logsumexp(values) + np.log(level[1] - level[0]))
    log_prior = stats.norm.logpdf(beta, scale=np.sqrt(g))
    truth = special.logsumexp(np.array(integrals) + log_prior) + np.log(beta[1] - beta[0])
    null = oracle.quadrature(oracle.Data("logistic", x[:, None], y, ("independent", g)), ())
    truth -= null + 0.5 * np.log(2 * np.pi)
    # the null model's own second-order error, and importance sampling's if it was used
    assert table[kernels.LOG_MARGINAL] == pytest.approx(
        truth, abs=0.05 + table[kernels.CORRECTION] ** 2 + 4 * table[kernels.SAMPLING_ERROR]
    )


def test_slabs_that_need_full_rank_give_no_mass_without_it():
    rng = np.random.default_rng(7)
    x = rng.normal(size=12)
    X = np.column_stack([x, 3 * x, rng.normal(size=(12, 14))])
    y = rng.poisson(2.0, 12).astype(float)
    for slab in (wv.GPrior(), wv.BIC()):
        with pytest.warns(wv.DataWarning, match="perfectly correlated"):
            problem = wv.Problem(X, y, family="poisson", slab=slab)
        values = log_marginals(problem, [(0,), (1,), (0, 1), tuple(range(1, 14)), (1, 2, 3)])
        assert np.isfinite(values[[0, 1, 4]]).all()
        assert values[0] == pytest.approx(values[1], abs=1e-9)
        assert (values[[2, 3]] == -np.inf).all()


def test_more_columns_than_rows():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(15, 40))
    y = (X[:, 0] > 0).astype(float)
    problem = wv.Problem(X, y, family="probit")
    values = log_marginals(problem, [(0,), tuple(range(20)), tuple(range(40))])
    assert np.isfinite(values).all()
    assert values[0] > values[1] > values[2] - 5


@pytest.mark.parametrize("name", FAMILIES)
def test_huge_offsets(name):
    """An offset of a thousand in all rows is a matter of the intercept; one of ±1000 by class leaves nothing to learn."""
    X, y = oracle.simulate(name, 40, 2, 4)
    plain = log_marginals(wv.Problem(X, y, family=family_of(name)), [(0,), (0, 1)])
    moved = log_marginals(wv.Problem(X, y, family=family_of(name), offset=np.full(40, 1e3)), [(0,), (0, 1)])
    np.testing.assert_allclose(plain, moved, atol=1e-7)


def test_rows_that_an_offset_decides_say_nothing():
    """Most rows have an offset of ±200 of their own class: they have probability 1, whatever the coefficients are."""
    X, y = oracle.simulate("logistic", 60, 3, 4)
    offset = np.where(np.arange(60) < 40, 200.0 * (2 * y - 1), 0.0)
    models = [(0,), (1, 2), (0, 1, 2)]
    few = wv.Problem(X[40:], y[40:], family="logistic", scale="none")
    many = wv.Problem(X, y, family="logistic", offset=offset, scale="none")
    np.testing.assert_allclose(log_marginals(few, models), log_marginals(many, models), atol=1e-7)


@pytest.mark.parametrize("name", ["logistic", "probit", "poisson"])
@pytest.mark.parametrize("seed", range(4))
def test_offsets_that_leave_no_curvature_at_the_start(name, seed):
    """Maximum likelihood with offsets of ±50: the likelihood never falls from a model to a larger one, and no fit is lost."""
    rng = np.random.default_rng(seed)
    X, y = oracle.simulate(name, 40, 3, seed)
    problem = wv.Problem(X, y, family=name, slab=wv.BIC(), offset=rng.normal(0, 50, 40))
    models = [m for k in range(4) for m in itertools.combinations(range(3), k)]
    table, troubles = answers(problem, *listed(models))
    assert troubles["breakdowns"] == 0
    fit = {m: v + len(m) / 2 * np.log(40) for m, v in zip(models, table[:, kernels.LOG_MARGINAL])}
    for m in models:
        for j in set(range(3)) - set(m):
            assert fit[tuple(sorted((*m, j)))] >= fit[m] - 1e-6


def test_one_event():
    rng = np.random.default_rng(12)
    X = rng.normal(size=(50, 2))
    for name in ("logistic", "poisson"):
        y = np.zeros(50)
        y[7] = 1
        data = oracle.Data(name, X, y, ("independent", 1.0))
        truth = relative(data, [(0,), (0, 1)], oracle.quadrature)
        values = log_marginals(wv.Problem(X, y, family=name), [(0,), (0, 1)])
        np.testing.assert_allclose(values, truth, atol=0.1)


def test_large_counts():
    rng = np.random.default_rng(13)
    X = rng.normal(size=(60, 3))
    y = rng.poisson(np.exp(13 + 0.01 * X[:, 0])).astype(float)
    data = oracle.Data("poisson", X, y, ("independent", 1.0))
    models = [(0,), (1,), (0, 1, 2)]
    values = log_marginals(wv.Problem(X, y, family="poisson"), models)
    np.testing.assert_allclose(values, relative(data, models), rtol=1e-9, atol=1e-4)
