"""IndependentNormal("estimate"): the unknown g averaged over, against the oracle and against problems with each of its values."""

from __future__ import annotations

import numpy as np
import pytest

import whichvars as wv
from support.cases import Case, problem, truth
from whichvars.posterior.scores import log_predictive
from whichvars.problem.priors import values_of_g

UNKNOWN = wv.IndependentNormal("estimate")
CASES = [
    Case("three-duplicate", "unknown-g", "fixed"),
    Case("always", "unknown-g", "beta-binomial"),
    Case("weights", "unknown-g", "per-variable"),
    Case("groups", "unknown-g", "max-size"),
    Case("wide", "unknown-g", "fixed"),
    Case("inverse-gamma", "unknown-g", "fixed"),
    Case("known-variance", "unknown-g", "fixed"),
    Case("columns", "unknown-g", "beta-binomial"),
    Case("unscaled", "unknown-g", "fixed"),
    Case("heredity", "unknown-g", "beta-binomial"),
    Case("strong-stand-ins-3", "unknown-g", "fixed"),
    Case("strong-duplicate-5", "unknown-g", "fixed"),
    Case("strong-sparse-3", "unknown-g", "fixed"),
    Case("strong-mapped-3-tall", "unknown-g", "fixed"),
    Case("strong-groups-7", "unknown-g", "fixed"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_enumeration_agrees_with_the_oracle(case: Case) -> None:
    found, exact = wv.exact(problem(case), progress=False), truth(case)
    rounding = 1e-9 * max(1.0, abs(exact.log_evidence))
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=rounding)
    np.testing.assert_allclose(found.pip, exact.pips, atol=10 * rounding)
    np.testing.assert_allclose(found.sizes, exact.size_distribution, atol=10 * rounding)


def data(n: int = 40, p: int = 5, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n, 1))
    return X, 2 + X[:, 0] - 0.4 * X[:, 1] + rng.normal(size=n)


@pytest.fixture(scope="module")
def averaged() -> tuple[wv.Posterior, list[wv.Posterior], np.ndarray]:
    """The posterior with g unknown, those with each of its values, and the posterior probabilities of these."""
    X, y = data()
    whole = wv.exact(wv.Problem(X, y, slab=UNKNOWN), progress=False)
    g, prior = values_of_g(len(y))
    parts = [
        wv.exact(wv.Problem(X, y, slab=wv.IndependentNormal(float(value))), progress=False) for value in g
    ]
    logs = np.log(prior) + [part.log_evidence for part in parts]
    shares = np.exp(logs - logs.max())
    return whole, parts, shares / shares.sum()


def test_coefficients_are_averages_over_g(averaged: tuple) -> None:
    whole, parts, shares = averaged
    table, tables = whole.coefficients(interval=0.8), [part.coefficients(interval=0.8) for part in parts]
    mean = sum(share * each["mean"] for share, each in zip(shares, tables))
    square = sum(share * (each["sd"] ** 2 + each["mean"] ** 2) for share, each in zip(shares, tables))
    inside = sum(share * each["pip"] for share, each in zip(shares, tables))
    mean_in = sum(share * each["pip"] * each["mean_included"] for share, each in zip(shares, tables)) / inside
    above = sum(share * each["pip"] * each["probability_positive"] for share, each in zip(shares, tables))
    np.testing.assert_allclose(table["mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(table["sd"], np.sqrt(square - mean**2), rtol=1e-9)
    np.testing.assert_allclose(table["mean_included"], mean_in, rtol=1e-9)
    np.testing.assert_allclose(table["probability_positive"], above / inside, rtol=1e-8)
    drawn = whole.draw(40_000, seed=1)
    assert np.abs((drawn.mean() - table["mean"]) / table["sd"])[table.index].max() < 4.5 / np.sqrt(40_000)
    ends = drawn[table.index].quantile([0.1, 0.9])
    for name in table.index:  # quantiles of draws, by the share of draws below the ends
        for level, end in zip((0.1, 0.9), table.loc[name, ["lower", "upper"]]):
            below, at = np.mean(drawn[name] < end), np.mean(drawn[name] == end)
            assert below - 0.01 < level < below + at + 0.01, (name, ends[name])


def test_predictions_and_scores_are_averages_over_g(averaged: tuple) -> None:
    whole, parts, shares = averaged
    X, y = data(seed=4)
    mean = sum(share * part.predict(X) for share, part in zip(shares, parts))
    np.testing.assert_allclose(whole.predict(X), mean, rtol=1e-9)
    density = sum(
        share * np.exp(log_predictive(part.problem, part.kept, X, y)) for share, part in zip(shares, parts)
    )
    np.testing.assert_allclose(log_predictive(whole.problem, whole.kept, X, y), np.log(density), rtol=1e-9)
    for estimator in ("HPM", "MPM", "BPM"):
        assert np.isfinite(whole.predict(X, estimator=estimator)).all()


def test_the_best_predictive_model_is_that_of_the_average_over_g(averaged: tuple) -> None:
    whole = averaged[0]
    X, _ = data()
    target = whole.predict(X)
    distances = {
        tuple(members): float(np.sum((whole.model([whole.problem.names[j] for j in members]).predict(X) - target) ** 2))
        for members in whole.models.members
    }  # fmt: skip
    best = min(distances, key=lambda members: distances[members])
    own = whole.predict(X, estimator="BPM")
    np.testing.assert_allclose(own, whole.model([whole.problem.names[j] for j in best]).predict(X), rtol=1e-9)


def test_the_posterior_of_g(averaged: tuple) -> None:
    whole, parts, shares = averaged
    null = np.array([part.models.frequency[part.models.members.index(())] for part in parts])
    expected = shares * (1 - null)
    table = whole.estimated_g()
    np.testing.assert_allclose(table["posterior"], expected / expected.sum(), rtol=1e-9)
    np.testing.assert_allclose(table.index, values_of_g(40)[0])
    np.testing.assert_allclose(table["prior"].sum(), 1.0)
    with pytest.raises(wv.WhichvarsError, match="estimated_g"):
        parts[0].estimated_g()
    with pytest.raises(wv.WhichvarsError, match="estimated_g"):
        whole.shrinkage()


def test_reweighting_to_and_from_a_known_g(averaged: tuple) -> None:
    whole, parts, _ = averaged
    known = wv.IndependentNormal(float(values_of_g(40)[0][3]))
    np.testing.assert_allclose(whole.reweight(slab=known).pip, parts[3].pip, rtol=1e-9)
    np.testing.assert_allclose(parts[3].reweight(slab=UNKNOWN).pip, whole.pip, rtol=1e-9)


def test_pure_noise_gives_small_models() -> None:
    """A slab that shrinks to a spike would take all variables in: the trap of a g without a least value."""
    sizes = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(200, 10)), rng.normal(size=200)
        found = wv.exact(
            wv.Problem(X, y, slab=UNKNOWN, model_prior=wv.FixedInclusion(size=2)), progress=False
        )
        sizes.append(found.pip.sum())
    assert np.mean(sizes) < 0.8, sizes


def test_rescaling_all_columns_changes_nothing() -> None:
    X, y = data()
    found = [
        wv.exact(wv.Problem(unit * X, y, slab=UNKNOWN, scale="none"), progress=False).pip for unit in (1, 50)
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_values_of_g() -> None:
    for n in (4, 10, 47, 1000, 10**6):
        g, probability = values_of_g(n)
        assert g[0] == pytest.approx(10 / n)
        assert len(g) >= 8
        np.testing.assert_allclose(g[1:] / g[:-1], 2.0)
        assert g[-1] > 70
        assert probability.sum() == pytest.approx(1)
    with pytest.raises(wv.WhichvarsError, match="estimate"):
        wv.IndependentNormal("unknown")


def test_words_and_files(tmp_path, averaged: tuple) -> None:
    whole = averaged[0]
    assert "half-Cauchy" in whole.methods()
    assert "Gelman, A. (2006)" in whole.methods()
    assert "gelman2006" in whole.bibtex()
    whole.save(tmp_path / "posterior")
    again = wv.Posterior.load(tmp_path / "posterior")
    assert again.problem.slab == UNKNOWN
    np.testing.assert_array_equal(again.estimated_g(), whole.estimated_g())
    assert again.problem.log_marginal([0, 1]) == whole.problem.log_marginal([0, 1])


def test_statistics_give_the_same_as_rows() -> None:
    X, y = data()
    rows = wv.exact(wv.Problem(X, y, slab=UNKNOWN), progress=False)
    sums = wv.exact(wv.Problem(wv.SufficientStatistics.from_arrays(X, y), slab=UNKNOWN), progress=False)
    np.testing.assert_allclose(sums.pip, rows.pip, rtol=1e-9)
    np.testing.assert_allclose(sums.estimated_g(), rows.estimated_g(), rtol=1e-8)


def test_a_sampled_posterior_reports_g_with_an_error() -> None:
    X, y = data(n=60, p=12, seed=5)
    problem = wv.Problem(X, y, slab=UNKNOWN)
    truth = wv.exact(problem, progress=False).estimated_g()["posterior"]
    found = wv.sample(problem, wv.Hybrid(), draws=4_000, seed=1, progress=False).estimated_g()
    assert (found["mcse"] < 0.02).all()
    assert (np.abs(found["posterior"] - truth) < 4.5 * found["mcse"] + 1e-4).all()


def test_columns_whose_variance_overflows() -> None:
    X = np.zeros((6, 2))
    X[:, 0] = np.arange(6)
    X[5, 1] = 3e154
    y = np.array([0.1, 1, 0, 2, 1.5, 3])
    with pytest.raises(wv.DataError, match="use scale='unit'"):
        wv.Problem(X, y, slab=wv.IndependentNormal("estimate"), scale="none")
    wv.Problem(X, y, slab=wv.GPrior("n"), scale="none")  # others do not need the variance
