"""A noise variance that is known: what is said and refused, its limit, and what needs no tables of its own. Enumeration, scans,
samplers, coefficients, predictions and scores with it are in the tests of these."""

import numpy as np
import pandas as pd
import pytest

import whichvars as wv
from support.paired import KNOWN_VARIANCE, SLABS, make_paired
from whichvars.errors import ArgumentTypeError, DataError

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")


@pytest.mark.parametrize("slab", [name for name in SLABS if name not in KNOWN_VARIANCE])
def test_mixtures_of_g_refuse_it(slab):
    case = make_paired(slab)
    name = type(case.slab).__name__
    with pytest.raises(
        DataError,
        match=rf"^{name}\(.*unknown noise variance only; with noise=KnownVariance\(variance=2.0\) use",
    ):
        case.problem(noise=wv.KnownVariance(2.0))
    problem = make_paired("g-prior", known_variance=2.0).problem()
    with pytest.raises(DataError, match=rf"^{name}\("):
        wv.exact(problem).reweight(slab=case.slab)


def test_bad_variances():
    for bad in (0, -1.0, np.inf, np.nan):
        with pytest.raises(DataError, match="KnownVariance: variance must be positive"):
            wv.KnownVariance(bad)
    with pytest.raises(ArgumentTypeError, match="KnownVariance: variance must be a number, not '1'"):
        wv.KnownVariance("1")  # type: ignore[arg-type]
    case = make_paired()
    with pytest.raises(DataError, match="a variance of 1e-20 is negligible compared with that of y"):
        case.problem(noise=wv.KnownVariance(1e-20))
    with pytest.raises(ArgumentTypeError, match=r"or KnownVariance\(variance\); got 2"):
        case.problem(noise=2)


@pytest.mark.parametrize("slab", ["independent", "g-prior"])
def test_it_is_the_limit_of_ever_more_certain_priors(slab):
    """InverseGamma(a, a σ²) for large a says that the variance is σ², and nearly nothing else."""
    known, prior = make_paired(slab, known_variance=1.7), make_paired(slab, inverse_gamma=(1e9, 1.7e9))
    one, other = (wv.exact(case.problem()) for case in (known, prior))
    np.testing.assert_allclose(one.pip, other.pip, rtol=1e-5)
    np.testing.assert_allclose(
        one.coefficients()[["mean", "sd"]], other.coefficients()[["mean", "sd"]], rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("slab", KNOWN_VARIANCE)
def test_units_of_y(slab):
    case = make_paired(slab, weighted=True)
    one = wv.exact(case.problem(noise=wv.KnownVariance(1.7)))
    case.y = 1e3 * case.y
    other = wv.exact(case.problem(noise=wv.KnownVariance(1.7e6)))
    np.testing.assert_allclose(one.pip, other.pip, rtol=1e-9)
    np.testing.assert_allclose(1e3 * one.coefficients()["sd"], other.coefficients()["sd"], rtol=1e-9)


def test_statistics_in_place_of_rows():
    case = make_paired("independent", known_variance=1.7)
    statistics = wv.SufficientStatistics.from_arrays(case.X, case.y)
    found = wv.exact(wv.Problem(statistics, slab=case.slab, noise=wv.KnownVariance(1.7)))
    np.testing.assert_allclose(found.pip, wv.exact(case.problem()).pip, rtol=1e-9)


@pytest.mark.parametrize("before", KNOWN_VARIANCE)
@pytest.mark.parametrize("after", KNOWN_VARIANCE)
def test_reweighting(before, after):
    one, other = (make_paired(slab, known_variance=1.7) for slab in (before, after))
    new, again = wv.exact(one.problem()).reweight(slab=other.slab), wv.exact(other.problem())
    np.testing.assert_allclose(new.pip, again.pip, rtol=1e-8)
    assert new.log_evidence == pytest.approx(again.log_evidence, rel=1e-9)
    np.testing.assert_allclose(new.coefficients(), again.coefficients(), rtol=1e-6, atol=1e-8)


def test_y_that_the_columns_explain_whole_is_no_trouble():
    """The likelihood has no pole where nothing is left: σ² is not learnt from it."""
    case = make_paired("g-prior")
    case.y = case.X[:, 0] - case.X[:, 3]
    with pytest.warns(wv.DataWarning, match="Is y a function of the columns"):
        assert wv.exact(case.problem()).troubles["perfect_fits"] > 0
    case.known_variance = 1.7
    posterior = wv.exact(case.problem())
    assert posterior.troubles["perfect_fits"] == 0
    np.testing.assert_allclose(posterior.pip, case.posterior(("beta-binomial", 1.0, 1.0)).pips, rtol=1e-9)


def test_draws_and_words_and_files(tmp_path):
    case = make_paired("g-prior", known_variance=1.7)
    posterior = wv.exact(case.problem())
    draws = posterior.draw(20_000, seed=1)
    table = posterior.coefficients()
    np.testing.assert_allclose(draws["(noise variance)"], 1.7)
    error = (draws[table.index].mean() - table["mean"]) / (table["sd"] / np.sqrt(len(draws)))
    assert np.abs(error).max() < 4
    np.testing.assert_allclose(draws[table.index].std(), table["sd"], rtol=0.05)
    assert "The noise variance was assumed to be known, σ² = 1.7." in posterior.methods()
    posterior.save(tmp_path / "one.npz")
    again = wv.Posterior.load(tmp_path / "one.npz")
    assert again.problem.noise == wv.KnownVariance(1.7)
    pd.testing.assert_frame_equal(again.coefficients(), table)
