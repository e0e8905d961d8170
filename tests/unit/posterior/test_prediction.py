"""Predictions against dense algebra by enumeration, and draws against the coefficients."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import whichvars as wv
from support.averages import components, moments, quantile, t_variance
from support.paired import KNOWN_VARIANCE, SLABS, make_paired, model_priors
from whichvars.errors import DataError
from whichvars.posterior.fits import held_fits
from whichvars.posterior.prediction import best_predictive

PARTS = {"columns": 6, "groups": [[0], [1, 4], [2], [3, 5]], "weighted": True, "always": 2}

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")


def new_rows(case, rows=3):
    rng = np.random.default_rng(5)
    return rng.normal(size=(rows, case.X.shape[1] + (0 if case.Z is None else case.Z.shape[1]))) + 1


def expected(parts, row, interval):
    """Mean, sd and interval of y at one row of X and Z."""
    row = np.concatenate([[1.0], row])
    weight = np.array([c.weight for c in parts])
    weight = weight / weight.sum()
    mean = np.array([row @ c.mean for c in parts])
    scale = np.sqrt([row @ c.scale @ row + c.noise for c in parts])
    degrees = np.array([c.degrees for c in parts])
    ends = [quantile(a, weight, mean, scale, degrees) for a in ((1 - interval) / 2, (1 + interval) / 2)]
    return *moments(weight, mean, scale**2 * t_variance(degrees)), *ends


def fitted(case, parts):
    """Averaged fit to the rows of positive weight, times the roots of the weights."""
    w = np.ones(len(case.y)) if case.weights is None else case.weights
    F = np.column_stack([np.ones(len(w)), case.X, *([] if case.Z is None else [case.Z])])
    return np.sqrt(w) * (F @ sum(c.weight * c.mean for c in parts)) / sum(c.weight for c in parts)


@cache
def by_enumeration(slab, variance):
    """A case, its exact posterior, and the same by dense algebra."""
    case = make_paired(slab, n=24, known_variance=variance, **PARTS)
    ours, theirs = model_priors("fixed", case.p)
    return case, wv.exact(case.problem(model_prior=ours)), components(case, theirs), case.posterior(theirs)


@pytest.mark.parametrize("estimator", ["BMA", "HPM", "MPM", "BPM"])
@pytest.mark.parametrize(
    ("slab", "variance"), [(slab, None) for slab in SLABS] + [(slab, 1.4) for slab in KNOWN_VARIANCE]
)
def test_exact_posterior_equals_dense_algebra(slab, variance, estimator):
    case, posterior, parts, reference = by_enumeration(slab, variance)
    if estimator != "BMA":
        if estimator == "HPM":
            mask = reference.masks[reference.probabilities.argmax()]
        elif estimator == "MPM":
            mask = reference.pips > 0.5
        else:
            models = [[c for c in parts if (c.mask == m).all()] for m in reference.masks]
            distance = [np.sum((fitted(case, m) - fitted(case, parts)) ** 2) if m else np.inf for m in models]
            mask = reference.masks[int(np.argmin(distance))]
            assert best_predictive(posterior.problem, posterior.kept) == tuple(np.flatnonzero(mask))
        parts = [c for c in parts if (c.mask == mask).all()]
    X = new_rows(case)
    mean, std, ends = posterior.predict(X, estimator, return_std=True, interval=0.8)
    want = np.array([expected(parts, row, 0.8) for row in X])
    np.testing.assert_allclose(np.column_stack([mean, std, ends]), want, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(posterior.predict(X, estimator), mean, rtol=1e-12)
    np.testing.assert_array_equal(posterior.predict(X, estimator, interval=0.8)[1], ends)


def test_engines_agree():
    case = make_paired("zellner-siow", n=24, **PARTS)
    answers = [
        wv.exact(case.problem(engine=e)).predict(new_rows(case), "BPM", return_std=True, interval=0.5)
        for e in ("gram", "columns")
    ]
    for one, other in zip(*answers):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_many_rows_are_the_same_as_one_by_one(monkeypatch):
    case = make_paired("hyper-g")
    posterior = wv.exact(case.problem())
    X = new_rows(case, 7)
    together = posterior.predict(X, return_std=True)
    monkeypatch.setattr("whichvars.posterior.prediction.ROWS_BYTES", 1)
    for one, other in zip(posterior.predict(X, return_std=True), together):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_columns_are_found_by_name():
    case = make_paired()
    frame = pd.DataFrame(case.X, columns=list("abcdefg"))
    posterior = wv.exact(wv.Problem(frame, case.y))
    X = pd.DataFrame(new_rows(case), columns=frame.columns)
    want = posterior.predict(X)
    np.testing.assert_array_equal(posterior.predict(X[X.columns[::-1]].assign(other=3.0)), want)
    np.testing.assert_array_equal(posterior.predict(X.to_numpy()), want)
    with pytest.raises(DataError, match="lacks columns the problem was made with: 'c', 'd'"):
        posterior.predict(X.drop(columns=["c", "d"]))
    with pytest.raises(DataError, match="X has 6 columns but the problem was made with 7"):
        posterior.predict(X.to_numpy()[:, 1:])


def test_column_that_was_left_out_need_not_be_there():
    case = make_paired()
    frame = pd.DataFrame(case.X, columns=list("abcdefg")).assign(g=1.0)
    posterior = wv.exact(wv.Problem(frame, case.y))
    posterior.predict(frame.drop(columns="g"))


def test_unknown_estimator():
    with pytest.raises(DataError, match="estimator must be 'BMA'"):
        wv.exact(make_paired().problem()).predict(make_paired().X, "median")


def test_sampled_posterior_predicts_like_the_exact_one():
    case = make_paired("g-prior")
    problem = case.problem(model_prior=wv.FixedInclusion(h=0.5))
    mean, std = wv.exact(problem).predict(case.X, return_std=True)
    sampled = wv.sample(problem, draws=40_000, seed=2, progress=False).predict(case.X, return_std=True)
    assert np.abs((sampled[0] - mean) / std).max() < 0.05
    np.testing.assert_allclose(sampled[1], std, rtol=0.05)


@pytest.mark.parametrize("slab", ["independent", "zellner-siow", "local empirical Bayes"])
def test_draws_have_the_moments_of_the_coefficients(slab):
    case = make_paired(slab, n=24, **PARTS)
    posterior = wv.exact(case.problem(model_prior=wv.FixedInclusion(h=0.4)))
    n = 20_000
    draws, table = posterior.draw(n, seed=1), posterior.coefficients()
    assert draws.shape == (n, len(table) + 1)
    error = (draws[table.index].mean() - table["mean"]) / (table["sd"] / np.sqrt(n))
    assert np.abs(error).max() < 4
    np.testing.assert_allclose(draws[table.index].std(), table["sd"], rtol=0.05)
    inside = (draws[posterior.problem.columns_used] != 0).mean()
    if slab != "local empirical Bayes":
        np.testing.assert_allclose(inside, table["pip"][inside.index], atol=4 * 0.5 / np.sqrt(n))
    # and of predictions
    row = new_rows(case, 1)[0]
    names = [*(f"x{j}" for j in range(8))]
    noise = np.sqrt(draws["(noise variance)"]) * np.random.default_rng(0).standard_normal(n)
    y = draws["(intercept)"] + draws[names] @ row + noise
    mean, std = posterior.predict(row[None], return_std=True)
    assert abs(y.mean() - mean[0]) < 4 * std[0] / np.sqrt(n)
    assert y.std() == pytest.approx(std[0], rel=0.05)
    pd.testing.assert_frame_equal(draws.head(5), posterior.draw(n, seed=1).head(5))


@pytest.mark.parametrize("n", [0, 2.5, "many", True])
def test_number_of_draws_is_whole(n):
    with pytest.raises(DataError, match="n must be a whole number"):
        wv.exact(make_paired().problem()).draw(n)


@pytest.mark.parametrize(
    "slab",
    [
        pytest.param(wv.IndependentNormal(1.0), id="independent"),
        pytest.param(wv.GPrior(20.0), id="g", marks=pytest.mark.slow),  # of which hyper-g is a mixture
        pytest.param(wv.HyperG(), id="hyper-g", marks=pytest.mark.rest),
    ],
)
def test_intervals_cover_what_they_say(slab):
    """Truth drawn from the prior: 90 % intervals cover 88 to 92 % of 200 data sets × 10 points."""
    rng = np.random.default_rng(20)
    covered = 0
    for _ in range(200):
        X = rng.normal(size=(40, 4)) @ np.array([[1, 0.7, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.5], [0, 0, 0, 1]])
        seen = X[:30] - X[:30].mean(axis=0)
        inside = rng.random(4) < 0.4
        k, beta = int(inside.sum()), np.zeros(4)
        if isinstance(slab, wv.IndependentNormal):
            beta[inside] = rng.normal(size=k) / seen[:, inside].std(axis=0, ddof=1)
        elif k:
            # hyper-g: 1/(1 + g) is Beta(a/2 − 1, 1)
            g = slab.g if isinstance(slab, wv.GPrior) else 1 / rng.beta(0.5, 1) - 1
            root = np.linalg.cholesky(np.linalg.inv(seen[:, inside].T @ seen[:, inside]))
            beta[inside] = np.sqrt(g) * root @ rng.normal(size=k)
        y = 3 + X @ beta + rng.normal(size=40)
        posterior = wv.exact(wv.Problem(X[:30], y[:30], slab=slab, model_prior=wv.FixedInclusion(h=0.4)))
        _, ends = posterior.predict(X[30:], interval=0.9)
        covered += int(((ends[:, 0] < y[30:]) & (y[30:] < ends[:, 1])).sum())
    assert 0.88 <= covered / 2000 <= 0.92


def test_median_model_that_is_collinear_is_refused():
    case = make_paired("g-prior", duplicate=True)
    posterior = wv.exact(case.problem())
    object.__setattr__(posterior, "pip", np.where(np.isin(np.arange(7), [0, 6]), 0.6, 0.1))
    with pytest.raises(DataError, match="collinear"):
        posterior.predict(case.X, "MPM")


@pytest.mark.parametrize("slab", ["independent", "hyper-g"])
def test_more_models_than_memory_should_hold(monkeypatch, slab):
    case = make_paired(slab)
    posterior = wv.exact(case.problem())
    X = new_rows(case, 4)
    held = [posterior.predict(X, e, return_std=True, interval=0.8) for e in ("BMA", "BPM")]
    monkeypatch.setattr("whichvars.posterior.fits.HELD_BYTES", 0)
    for one, other in zip(
        held, [posterior.predict(X, e, return_std=True, interval=0.8) for e in ("BMA", "BPM")]
    ):
        for a, b in zip(one, other):
            np.testing.assert_array_equal(a, b)
    assert not isinstance(held_fits(posterior.problem, posterior.kept), list)
