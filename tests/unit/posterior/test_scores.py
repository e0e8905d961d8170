"""Log predictive densities against dense algebra, leave-one-out against leaving each row out."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

import whichvars as wv
from support.averages import components
from support.left_out import left_out_densities
from support.paired import KNOWN_VARIANCE, SLABS, make_paired, model_priors
from whichvars.errors import DataError

PARTS = {"columns": 5, "groups": [[0], [1, 4], [2], [3]], "weighted": True, "always": 1}

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")


def data_of(case):
    return case.X if case.Z is None else np.hstack([case.X, case.Z])


@pytest.mark.parametrize(
    ("slab", "variance"), [(slab, None) for slab in SLABS] + [(slab, 1.4) for slab in KNOWN_VARIANCE]
)
def test_log_score_equals_dense_algebra(slab, variance):
    case = make_paired(slab, n=24, known_variance=variance, **PARTS)
    ours, theirs = model_priors("fixed", case.p)
    posterior = wv.exact(case.problem(model_prior=ours))
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(4, 6)) + 1, rng.normal(size=4) * 3
    parts = components(case, theirs)
    weight, noise, degrees = (
        np.array([getattr(c, name) for c in parts]) for name in ("weight", "noise", "degrees")
    )
    want = []
    for row, value in zip(np.column_stack([np.ones(4), X]), y):
        mean = np.array([row @ c.mean for c in parts])
        scale = np.sqrt(noise + [row @ c.scale @ row for c in parts])
        want.append(np.log(weight @ t.pdf(value, degrees, mean, scale) / weight.sum()))
    assert posterior.log_score(X, y) == pytest.approx(np.mean(want), rel=1e-8)


LEFT_OUT = [
    (slab, parts)
    for slab in ("independent", "g-prior", "hyper-g")
    for parts in ({"columns": 3}, PARTS | {"columns": 4, "groups": [[0], [1, 3], [2]]}, {"columns": 2, "inverse_gamma": (1.3, 0.8)})
] + [
    (slab, PARTS | {"columns": 4, "groups": [[0], [1, 3], [2]], "known_variance": 1.4}) for slab in ("independent", "g-prior")
]  # fmt: skip


@pytest.mark.parametrize(("slab", "parts"), LEFT_OUT)
def test_leaving_one_out_equals_leaving_it_out(slab, parts):
    case = make_paired(slab, n=12, **parts)
    ours, theirs = model_priors("per variable", case.p)
    posterior = wv.exact(case.problem(model_prior=ours))
    found = posterior.loo(data_of(case), case.y, case.weights)
    np.testing.assert_allclose(found["log_density"], left_out_densities(case, theirs), rtol=1e-7, atol=1e-8)
    weights = np.ones(len(case.y)) if case.weights is None else case.weights
    assert found.index.tolist() == np.flatnonzero(weights > 0).tolist()


def test_mean_and_pit_are_those_of_the_problem_without_the_row():
    """Under a prior that does not depend on the rows: scale="none"."""
    case = make_paired("independent", n=15, columns=4, scale="none")
    case.X = case.X - case.X.mean(axis=0)
    posterior = wv.exact(case.problem(model_prior=wv.FixedInclusion(h=0.3)))
    found = posterior.loo(case.X, case.y)
    rest = np.arange(15) != 4
    problem = wv.Problem(
        case.X[rest], case.y[rest], slab=case.slab, model_prior=wv.FixedInclusion(h=0.3), scale="none"
    )
    without = wv.exact(problem)
    assert found.loc[4, "mean"] == pytest.approx(without.predict(case.X[4:5])[0], rel=1e-8)
    assert found.loc[4, "log_density"] == pytest.approx(without.log_score(case.X[4:5], case.y[4:5]), rel=1e-8)
    # the predictive quantile at its own probability is y itself
    level = abs(2 * found.loc[4, "pit"] - 1)
    _, ends = without.predict(case.X[4:5], interval=level)
    assert np.abs(ends[0] - case.y[4]).min() < 1e-6


def test_share_is_one_where_a_row_says_nothing_of_models():
    case = make_paired("g-prior", n=40, columns=3)
    problem = case.problem()
    one = wv.exact(problem.with_priors(model_prior=wv.FixedInclusion(h=1e-12)))
    np.testing.assert_allclose(one.loo(case.X, case.y)["share"], 1, rtol=1e-4)


def test_rows_in_pieces_are_the_same(monkeypatch):
    case = make_paired("zellner-siow")
    posterior = wv.exact(case.problem())
    together, score = posterior.loo(case.X, case.y), posterior.log_score(case.X, case.y)
    monkeypatch.setattr("whichvars.posterior.scores.SCORE_BYTES", 1)
    pd.testing.assert_frame_equal(posterior.loo(case.X, case.y), together, rtol=1e-12)
    assert posterior.log_score(case.X, case.y) == pytest.approx(score, rel=1e-12)


def test_other_data_are_refused():
    case = make_paired("g-prior")
    posterior = wv.exact(case.problem())
    for X, y in ((case.X, case.y + np.arange(len(case.y))), (case.X[1:], case.y[1:])):
        with pytest.raises(DataError, match="not those the problem was made with"):
            posterior.loo(X, y)


def test_sampled_posterior_scores_like_the_exact_one():
    case = make_paired("g-prior")
    problem = case.problem(model_prior=wv.FixedInclusion(h=0.5))
    exact, sampled = wv.exact(problem), wv.sample(problem, draws=40_000, seed=2, progress=False)
    assert sampled.log_score(case.X, case.y) == pytest.approx(exact.log_score(case.X, case.y), abs=0.02)
    difference = sampled.loo(case.X, case.y) - exact.loo(case.X, case.y)
    assert np.abs(difference["log_density"]).max() < 0.1
    assert abs(difference["log_density"].mean()) < 0.02
