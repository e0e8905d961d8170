"""Coefficients averaged over models, against dense algebra by enumeration and within Monte Carlo error."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.special import stdtr

import whichvars as wv
from support.averages import components, moments, quantile, t_variance
from support.paired import KNOWN_VARIANCE, SLABS, make_paired, model_priors
from whichvars.errors import DataError
from whichvars.posterior.models import KeptModels
from whichvars.posterior.t_mixture import TMixture, t_cdf

SITUATIONS = {
    "plain": {},
    "weights": {"weighted": True},
    "always included": {"always": 2},
    "groups": {"columns": 6, "groups": [[0, 3], [1], [2, 5], [4]]},
    "inverse gamma": {"inverse_gamma": (1.3, 0.8)},
    "known variance": {"known_variance": 1.4, "weighted": True, "always": 1},
    "everything": {
        "n": 24, "columns": 6, "groups": [[0], [1, 2], [3], [4, 5]], "weighted": True, "always": 2,
        "inverse_gamma": (0.7, 2.0), "scale": "none",
    },
}  # fmt: skip
CASES = [
    (slab, situation)
    for slab in SLABS
    for situation in SITUATIONS
    if not (slab == "bic" and "inverse_gamma" in SITUATIONS[situation])
    and (slab in KNOWN_VARIANCE or "known_variance" not in SITUATIONS[situation])
]

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")


def paired(slab, situation):
    return make_paired(slab, **{"columns": 4} | SITUATIONS[situation])


def check_row(row, parts, place, interval, tolerance=1e-8):
    """One row of the table against the components in which that coefficient is."""
    weight = np.array([c.weight for c in parts])
    mean = np.array([c.mean[place] for c in parts])
    scale = np.sqrt([c.scale[place, place] for c in parts])
    degrees = np.array([c.degrees for c in parts])
    inside = scale > 0
    variance = scale**2 * t_variance(degrees)
    close = {"rel": 1e-8, "abs": 1e-8 * np.abs(mean).max()}
    assert (row["mean"], row["sd"]) == pytest.approx(moments(weight, mean, variance), **close)
    given = moments(weight[inside], mean[inside], variance[inside])
    assert (row["mean_included"], row["sd_included"]) == pytest.approx(given, **close)
    positive = weight[inside] @ stdtr(degrees[inside], mean[inside] / scale[inside]) / weight[inside].sum()
    assert row["probability_positive"] == pytest.approx(positive, rel=1e-7, abs=1e-8)
    atom = max(1 - weight[inside].sum(), 0.0)
    atom = 0.0 if atom < 1e-9 else atom
    for name, level in (("lower", (1 - interval) / 2), ("upper", (1 + interval) / 2)):
        parts_in = (v[inside] for v in (weight, mean, scale, degrees))
        expected = quantile(level, *parts_in, atom=atom)
        # the reference cannot have ĝ = 0, and spreads what is there by about 1e-7
        assert row[name] == pytest.approx(expected, rel=1e-8, abs=tolerance * variance.max() ** 0.5)


# every third: all slabs and all situations are among them
@pytest.mark.parametrize(
    ("slab", "situation"),
    [pytest.param(*case, marks=[] if i % 3 == 0 else pytest.mark.slow) for i, case in enumerate(CASES)],
)
def test_exact_posterior_equals_dense_algebra(slab, situation):
    case = paired(slab, situation)
    ours, theirs = model_priors("per variable", case.p)
    table = wv.exact(case.problem(model_prior=ours)).coefficients(interval=0.9)
    parts = components(case, theirs)
    P, q = case.X.shape[1], 0 if case.Z is None else case.Z.shape[1]
    names = ["(intercept)", *(f"x{j}" for j in range(P)), *(f"x{P + j}" for j in range(q))]
    assert set(table.index) == set(names)
    for place, name in enumerate(names):
        check_row(table.loc[name], parts, place, 0.9, 1e-6 if slab == "local empirical Bayes" else 1e-8)


def test_columns_and_gram_engines_agree():
    case = paired("hyper-g", "always included")
    tables = [wv.exact(case.problem(engine=e)).coefficients() for e in ("gram", "columns")]
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-9, atol=1e-10)


def test_units_and_origin_of_columns_do_not_matter():
    case = paired("independent", "weights")
    first = wv.exact(case.problem()).coefficients()
    case.X, case.y = case.X * [1, 1e3, 1, 1e-3] + [1e4, 0, 0, 0], 1e5 * case.y
    second = wv.exact(case.problem()).coefficients()
    np.testing.assert_allclose(second["mean"][1:], 1e5 * first["mean"][1:] / [1, 1e3, 1, 1e-3], rtol=1e-8)
    np.testing.assert_allclose(second["pip"], first["pip"], rtol=1e-9)


def test_more_columns_than_rows():
    case = make_paired("independent", n=7, columns=8)
    table = wv.exact(case.problem(model_prior=wv.FixedInclusion(h=0.5))).coefficients()
    check_row(table.loc["x0"], components(case, ("fixed", 0.5)), 1, 0.95)


@pytest.mark.parametrize("sampler", [wv.AddDeleteSwap(), wv.SequentialMonteCarlo(particles=2000, steps=10)])
@pytest.mark.parametrize("slab", ["independent", "hyper-g/n"])
def test_sampled_posterior_is_within_its_error(sampler, slab):
    problem = paired(slab, "always included").problem(model_prior=wv.FixedInclusion(h=0.5))
    expected = wv.exact(problem).coefficients()
    draws = {} if isinstance(sampler, wv.SequentialMonteCarlo) else {"draws": 40_000}
    posterior = wv.sample(problem, sampler, seed=3, progress=False, **draws)
    found = posterior.coefficients()
    kept = posterior.kept
    assert kept.weight.sum() == pytest.approx(1)
    pips = sum(kept.weight[i] * np.isin(np.arange(problem.p), kept.model(i)) for i in range(len(kept)))
    np.testing.assert_allclose(pips, posterior.pip, atol=0.05)
    difference = (found["mean"] - expected["mean"]) / expected["sd"]
    assert np.abs(difference).max() < 0.1  # of thousands of draws
    np.testing.assert_allclose(found["sd"], expected["sd"], rtol=0.15)


def test_exact_keeps_every_model_with_its_probability():
    posterior = wv.exact(paired("g-prior", "plain").problem())
    kept = posterior.kept
    shares = dict(zip(posterior.models.members, posterior.models.frequency))
    assert {kept.model(i): w for i, w in enumerate(kept.weight)} == pytest.approx(shares)


def test_variable_in_no_kept_model_says_so():
    problem = paired("g-prior", "plain").problem()
    posterior = wv.exact(problem)
    object.__setattr__(posterior, "kept", KeptModels.of({(0,): 1.0}))
    row = posterior.coefficients().loc["x1"]
    assert np.isnan(row[["mean_included", "sd_included", "probability_positive"]].astype(float)).all()
    assert (row[["mean", "sd", "lower", "upper"]] == 0).all()


def test_always_included_column_without_own_information_is_left_out():
    case = paired("g-prior", "always included")
    case.Z = np.column_stack([case.Z, case.Z[:, 0] + 1, np.full(len(case.y), 2.0)])
    table = wv.exact(case.problem()).coefficients()
    assert [n for n in table.index if n in ("x4", "x5", "x6", "x7")] == ["x4", "x5"]
    expected = wv.exact(paired("g-prior", "always included").problem()).coefficients()
    np.testing.assert_allclose(table, expected, rtol=1e-8)


def test_problem_survives_pickling():
    problem = paired("hyper-g", "everything").problem()
    again = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(wv.exact(again).pip, wv.exact(problem).pip)


@pytest.mark.parametrize("interval", [0, 1, 95, "90%", True])
def test_interval_must_be_a_probability(interval):
    with pytest.raises(DataError, match="interval must be a probability"):
        wv.exact(paired("g-prior", "plain").problem()).coefficients(interval=interval)


@pytest.mark.parametrize("degrees", [1.0, 2.0, 3.7, 40.0, 1e6])
def test_fast_distribution_function(degrees):
    z = np.concatenate([np.linspace(-40, 40, 5001), [-1e12, 1e12]])
    np.testing.assert_allclose(t_cdf(degrees, z), stdtr(degrees, z), atol=2e-11)


def test_density_is_the_slope():
    rng = np.random.default_rng(0)
    weight, degrees = rng.dirichlet(np.ones(50)), np.repeat([3.0, 20.0], 25)
    location, scale = rng.normal(size=50), rng.uniform(0.1, 2, size=50)
    for x in (-7.0, 0.3, 2.0):
        below, density = TMixture(weight, location, scale, degrees).cdf_and_density(x)
        assert below == pytest.approx(weight @ stats.t.cdf(x, degrees, location, scale), abs=1e-10)
        assert density == pytest.approx(weight @ stats.t.pdf(x, degrees, location, scale), rel=1e-5)


@pytest.mark.parametrize("level", [1e-6, 0.025, 0.5, 0.975])
def test_quantile_of_many_components(level):
    """More than the sample in which it is first looked for; two humps far apart."""
    rng = np.random.default_rng(1)
    n = 20_000
    weight, degrees = rng.dirichlet(np.full(n, 0.2)), np.full(n, 9.0)
    location, scale = rng.choice([-50.0, 3.0], size=n) + rng.normal(size=n), rng.uniform(0.01, 2, size=n)
    found = TMixture(weight, location, scale, degrees).quantile(level)
    assert weight @ stats.t.cdf(found, degrees, location, scale) == pytest.approx(level, abs=1e-10)


def test_quantile_of_points_and_single_components():
    one = np.ones(1)
    assert TMixture(one, 5 * one, 0 * one, 4 * one).quantile(0.3) == 5.0
    half = np.full(2, 0.5)
    assert TMixture(half, np.array([-1.0, 1.0]), np.zeros(2), half * 8).quantile(0.3) == pytest.approx(-1)


def test_variances_are_infinite_with_two_degrees_of_freedom_and_not_remarked_upon():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3, 20)), rng.normal(size=3)
    posterior = wv.sample(wv.Problem(X, y, slab=wv.IndependentNormal(0.5)), draws=500, seed=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = posterior.coefficients()
    assert np.isinf(table["sd"]).all()
    assert np.isfinite(table["mean"]).all()
