"""Families of responses: what is accepted, what is refused and with what words, and that saving and other priors keep them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import whichvars as wv
from whichvars.errors import ArgumentTypeError, DataError, DataWarning

RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 3))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
YES = (X[:, 0] + RNG.normal(size=N) > 0).astype(int)
COUNTS = RNG.poisson(np.exp(0.5 * X[:, 1]) + 0.5)


def pips(problem):
    return wv.exact(problem, progress=False).pip


# --- responses of two values


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (YES, (0, 1)),
        (YES.astype(bool), (False, True)),
        (YES * 2.5 - 1, (-1, 1.5)),
        (np.where(YES, "yes", "no"), ("no", "yes")),
        (pd.Series(np.where(YES, "yes", "no"), name="sold"), ("no", "yes")),
        (pd.Series(np.where(YES, "yes", "no")).astype("category"), ("no", "yes")),
        (pd.DataFrame({"sold": YES}), (0, 1)),
        (pl.Series(np.where(YES, "yes", "no").tolist()), ("no", "yes")),
        (YES.tolist(), (0, 1)),
    ],
)
@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_two_values_of_any_type(y, classes, family):
    problem = wv.Problem(X, y, family=family)
    assert problem.classes == classes
    np.testing.assert_array_equal(pips(problem), pips(wv.Problem(X, YES, family=family)))


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.ones(N), r"y is 1 in every row; both classes are needed"),
        (
            COUNTS,
            r"y has \d+ different values .* needs a response of two values; for numbers of successes give Logistic\(trials",
        ),
        (["a", "b", "c", "a"] * 10, r"y has 3 different values \('a', 'b', 'c'\), but family=Logistic\(\)"),
        (["a", None, "b", "a"] * 10, r"y is missing in row 1"),
        (np.r_[np.nan, YES[1:]], r"y is .* in row 0"),
        (YES[:-1], r"39"),
    ],
)
def test_other_responses_are_refused_by_logistic(y, words):
    with pytest.raises(DataError, match=words):
        wv.Problem(X, y, family="logistic")


def test_text_and_numbers_together_are_refused():
    with pytest.raises(ArgumentTypeError, match="both text and numbers"):
        wv.Problem(X, pd.Series(["a", 1] * 20), family="logistic")


def test_a_warning_of_the_linear_model_names_the_families():
    with pytest.warns(DataWarning, match='family="logistic"'):
        wv.Problem(X, YES)
    with pytest.warns(DataWarning, match='family="poisson"'):
        wv.Problem(X, COUNTS)


# --- counts


@pytest.mark.parametrize("family", ["poisson", wv.NegativeBinomial(dispersion=2)])
def test_counts_are_whole_and_not_negative(family):
    for row, value, what in ((3, -1, "negative"), (7, 2.5, "not a whole number")):
        y = COUNTS.astype(float)
        y[row] = value
        with pytest.raises(DataError, match=rf"y is {value} in row {row}, which is {what}"):
            wv.Problem(X, y, family=family)
    with pytest.raises(DataError, match="y is 0 in every row"):
        wv.Problem(X, np.zeros(N), family=family)


def test_trials():
    trials = np.maximum(COUNTS, 1) + 2
    problem = wv.Problem(X, COUNTS, family=wv.Logistic(trials=trials))
    assert "trials=[40 values]" in repr(problem)
    bad = COUNTS.copy()
    bad[5] = 99
    with pytest.raises(DataError, match=r"y is 99 in row 5, more than the \d+ trials"):
        wv.Problem(X, bad, family=wv.Logistic(trials=trials))
    with pytest.raises(DataError, match="trials is 0 in row 0"):
        wv.Problem(X, COUNTS, family=wv.Logistic(trials=np.r_[0, trials[1:]]))
    with pytest.raises(DataError, match="no successes in any row"):
        wv.Problem(X, np.zeros(N), family=wv.Logistic(trials=3))


def test_trials_are_rows_of_zeros_and_ones():
    """Binomial counts are the same as their trials one by one."""
    successes = RNG.binomial(3, 0.4, N)
    one_by_one = np.concatenate([[1] * s + [0] * (3 - s) for s in successes])
    together = wv.Problem(X, successes, family=wv.Logistic(trials=3), scale="none")
    apart = wv.Problem(np.repeat(X, 3, axis=0), one_by_one, family="logistic", scale="none")
    np.testing.assert_allclose(pips(together), pips(apart), atol=1e-9)


def test_weights_repeat_rows():
    weights = RNG.integers(0, 3, N)
    twice = np.repeat(np.arange(N), weights)
    for family, y in (("logistic", YES), ("poisson", COUNTS), ("probit", YES)):
        weighted = wv.Problem(X, y, family=family, weights=weights, scale="none")
        repeated = wv.Problem(X[twice], y[twice], family=family, scale="none")
        np.testing.assert_allclose(pips(weighted), pips(repeated), atol=1e-9)


# --- what a family cannot have


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"noise": wv.Jeffreys()}, r"noise=Jeffreys\(\) is for Gaussian responses; family=Logistic\(\) has no noise"),
        ({"slab": wv.LocalEmpiricalBayes()}, "LocalEmpiricalBayes"),
        ({"evidence": "bas"}, 'evidence="bas" is the formula of R'),
        ({"evidence": "laplace", "slab": wv.BIC()}, "BIC is an approximation of its own"),
        ({"evidence": "exact"}, "evidence must be one of"),
        ({"X": wv.SufficientStatistics.from_arrays(FRAME, YES)}, "SufficientStatistics are sums over rows"),
        ({"offset": np.full(N, np.nan)}, "offset is .* in row 0"),
        ({"offset": np.zeros(N - 1)}, "offset"),
    ],
)  # fmt: skip
def test_refused_by_name(arguments, words):
    arguments = {"X": X, "y": YES, "family": "logistic"} | arguments
    with pytest.raises(DataError, match=words):
        wv.Problem(arguments.pop("X"), arguments.pop("y"), **arguments)


def test_refused_of_gaussian_responses():
    with pytest.raises(DataError, match="write y − offset for y"):
        wv.Problem(X, X[:, 0] + X[:, 1] ** 2, offset=np.zeros(N))
    with pytest.raises(DataError, match="marginal likelihoods of the linear model are exact"):
        wv.Problem(X, X[:, 0] + X[:, 1] ** 2, evidence="laplace")


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("logit", 'family must be "gaussian", "logistic"'),
        (wv.Logistic, r"write Logistic\(\)"),
        (3, "family must be"),
    ],
)
def test_unknown_families(family, words):
    with pytest.raises((DataError, ArgumentTypeError), match=words):
        wv.Problem(X, YES, family=family)


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_an_always_included_column_that_separates_is_named(family):
    frame = FRAME.assign(sure=YES * 3.0, c=FRAME["c"])
    with pytest.raises(DataError, match="the always-included column 'sure' separates the two classes"):
        wv.Problem(frame, YES, family=family, always_include=["c", "sure"])
    # quasi-separation: all rows with the dummy are of one class
    dummy = np.where(YES == 1, (np.arange(N) % 2).astype(float), 0.0)
    with pytest.raises(DataError, match="the always-included column 'part' separates"):
        wv.Problem(FRAME.assign(part=dummy), YES, family=family, always_include=["part"])
    half = np.where(YES == 1, 1.0, -1.0) * np.abs(X[:, 1])
    both = FRAME.assign(u=half + X[:, 2], v=X[:, 2])
    with pytest.raises(DataError, match="the always-included columns \\('u', 'v'\\) together separate"):
        wv.Problem(both, YES, family=family, always_include=["u", "v"])


def test_counts_of_zero_in_all_rows_of_an_always_included_dummy():
    dummy = (np.arange(N) < 8).astype(float)
    y = np.where(dummy == 1, 0, COUNTS + 1)
    with pytest.raises(
        DataError, match="the always-included column 'closed' separates rows without any count"
    ):
        wv.Problem(FRAME.assign(closed=dummy), y, family="poisson", always_include=["closed"])


# --- the rest of a problem


def test_saving_keeps_the_bits(tmp_path):
    problem = wv.Problem(
        FRAME, COUNTS, family=wv.NegativeBinomial(3.0), offset=np.linspace(-1, 1, N), always_include=["c"]
    )
    posterior = wv.exact(problem, progress=False)
    posterior.save(tmp_path / "p.npz")
    again = wv.Posterior.load(tmp_path / "p.npz")
    assert again.problem.family == wv.NegativeBinomial(3.0)
    np.testing.assert_array_equal(wv.exact(again.problem, progress=False).pip, posterior.pip)
    np.testing.assert_array_equal(again.coefficients(), posterior.coefficients())
    unknown = wv.exact(wv.Problem(FRAME, COUNTS, family=wv.NegativeBinomial(prior_sd=1.0)), progress=False)
    unknown.save(tmp_path / "u.npz")
    again = wv.Posterior.load(tmp_path / "u.npz")
    assert again.problem.family == wv.NegativeBinomial(prior_sd=1.0)
    np.testing.assert_array_equal(wv.exact(again.problem, progress=False).pip, unknown.pip)
    words = wv.exact(wv.Problem(FRAME, np.where(YES, "b", "a"), family=wv.Logistic()), progress=False)
    words.save(tmp_path / "w.npz")
    assert wv.Posterior.load(tmp_path / "w.npz").problem.classes == ("a", "b")


def test_other_priors_on_the_same_data():
    problem = wv.Problem(FRAME, YES, family="logistic", always_include=["c"])
    for slab in (wv.GPrior(20.0), wv.BIC(), wv.IndependentNormal(5.0), wv.HyperG()):
        direct = wv.Problem(FRAME, YES, family="logistic", always_include=["c"], slab=slab)
        np.testing.assert_allclose(pips(problem.with_priors(slab=slab)), pips(direct), atol=1e-10)
    with pytest.raises(DataError, match="LocalEmpiricalBayes"):
        problem.with_priors(slab=wv.LocalEmpiricalBayes())
    flat = wv.FixedInclusion(h=0.2)
    reweighted = wv.exact(problem, progress=False).reweight(slab=wv.GPrior(20.0), model_prior=flat)
    direct = wv.Problem(
        FRAME, YES, family="logistic", always_include=["c"], slab=wv.GPrior(20.0), model_prior=flat
    )
    np.testing.assert_allclose(reweighted.pip, pips(direct), atol=1e-9)


def test_units_of_columns_do_not_matter():
    other = FRAME * [1e3, 1e-5, -7.0] + [5.0, 1.0, -300.0]
    for slab in (wv.IndependentNormal(), wv.GPrior(), wv.BIC()):
        one, two = (wv.Problem(f, COUNTS, family="poisson", slab=slab) for f in (FRAME, other))
        np.testing.assert_allclose(pips(one), pips(two), atol=1e-9)
