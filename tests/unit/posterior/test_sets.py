"""Questions about sets of variables, against sums over all models."""

from dataclasses import replace

import numpy as np
import pytest

import whichvars as wv
from support.paired import make_paired, model_priors
from whichvars.errors import DataError
from whichvars.posterior.jointness import pair_table
from whichvars.posterior.models import KeptModels


@pytest.fixture(scope="module")
def pair():
    case = make_paired("g-prior", columns=6)
    ours, theirs = model_priors("beta-binomial", 6)
    return wv.exact(case.problem(model_prior=ours)), case.posterior(theirs)


def test_any_and_all(pair):
    posterior, reference = pair
    for names in (["x1", "x4"], ["x0", "x2", "x5"], [3]):
        columns = [int(str(n).removeprefix("x")) for n in names]
        inside = reference.masks[:, columns]
        any_of = reference.probabilities @ inside.any(axis=1)
        all_of = reference.probabilities @ inside.all(axis=1)
        assert posterior.probability_any(names) == pytest.approx(any_of, rel=1e-9)
        assert posterior.probability_all(names) == pytest.approx(all_of, rel=1e-9)
    assert posterior.probability_any("x2") == pytest.approx(posterior.pip[2])


def test_jointness(pair):
    posterior, reference = pair
    found = posterior.jointness("x4", "x1")
    first, second = reference.masks[:, 4], reference.masks[:, 1]
    cells = [first & second, first & ~second, second & ~first, ~first & ~second]
    both, one, other, neither = (reference.probabilities @ c for c in cells)
    np.testing.assert_allclose(found.iloc[:4], [both, one, other, neither], rtol=1e-9)
    assert found["jointness"] == pytest.approx(both / (both + one + other))
    assert found["log_odds_ratio"] == pytest.approx(np.log(both * neither / one / other))


def test_published_measures(pair):
    """Ley and Steel's second, and Hofmarcher et al.'s from the definition with pseudo-probabilities of one half."""
    posterior, reference = pair
    first, second = reference.masks[:, 0], reference.masks[:, 2]
    cells = [first & second, first & ~second, second & ~first, ~first & ~second]
    both, one, other, neither = (reference.probabilities @ c for c in cells)
    found = posterior.jointness(0, 2)
    assert found["jointness_odds"] == pytest.approx(both / (one + other))
    with_half = [p + 0.5 for p in (both, one, other, neither)]
    along, across = with_half[0] * with_half[3], with_half[1] * with_half[2]
    assert found["yule_q"] == pytest.approx((along - across) / (along + across - 0.5))


def test_all_pairs(pair):
    posterior, reference = pair
    matrix = posterior.joint_inclusion(range(6))
    inside = reference.masks.astype(float)
    want = inside.T @ (reference.probabilities[:, None] * inside)
    np.testing.assert_allclose(matrix, want, rtol=1e-9)
    table = posterior.joint_pairs(range(6))
    assert len(table) == 15
    assert table["yule_q"].is_monotonic_decreasing
    for (a, b), row in table.iterrows():
        np.testing.assert_allclose(row, posterior.jointness(a, b), rtol=1e-9, atol=1e-12)
        q, error = posterior.joint_inclusion([a, b], "yule_q", return_mcse=True)
        assert q.loc[a, b] == q.loc[b, a] == pytest.approx(row["yule_q"])
        assert np.isnan(q.loc[a, a])
        assert error.loc[a, b] == 0
    with pytest.raises(DataError, match="measure must be"):
        posterior.joint_inclusion(measure="phi")
    with pytest.raises(DataError, match="no pairs of fewer than two"):
        posterior.joint_pairs(["x1"])
    assert len(posterior.joint_pairs()) >= 1


def test_errors_are_derivatives_times_differences_between_replicates():
    """Of every measure, by moving the weights a little towards those of a replicate."""
    posterior = wv.sample(
        make_paired("g-prior", columns=6).problem(), wv.AddDeleteSwap(), draws=4000, seed=3, progress=False
    )
    kept, step = posterior.kept, 1e-6
    now = posterior.jointness(0, 3)
    names = [name for name in now.index if not name.endswith("_mcse")]
    moved = []
    for weight in kept.by_replicate:
        nearer = replace(kept, weight=(1 - step) * kept.weight + step * weight)
        moved.append((replace(posterior, kept=nearer).jointness(0, 3)[names] - now[names]) / step)
    want = np.std(moved, axis=0, ddof=1) / np.sqrt(len(moved))
    np.testing.assert_allclose(now[[f"{name}_mcse" for name in names]], want, rtol=1e-3)


def test_pairs_that_are_never_apart_or_never_together():
    kept = KeptModels.of({(0, 1): 0.5, (): 0.5})
    table = pair_table(kept, [0], [1], ["a", "b"], exact=True)
    assert table["yule_q"].item() == 1
    apart = pair_table(KeptModels.of({(0,): 0.3, (1,): 0.7}), [0], [1], ["a", "b"], exact=True)
    assert apart["yule_q"].item() == pytest.approx(-1)
    assert apart["jointness"].item() == 0


def test_a_variable_with_itself(pair):
    found = pair[0].jointness("x1", "x1")
    assert found["jointness"] == 1
    assert found["log_odds_ratio"] == np.inf


def test_selection(pair):
    posterior, _ = pair
    pips = posterior.inclusion_probabilities.sort_values(ascending=False)
    assert posterior.select() == list(pips.index[pips >= 0.5])
    assert posterior.select(threshold=0) == list(pips.index)
    assert posterior.select(fdr=0) == []
    for fdr in (0.01, 0.2, 0.5, 1):
        chosen = posterior.select(fdr=fdr)
        assert chosen == list(pips.index[: len(chosen)])
        assert not chosen or (1 - pips[chosen]).mean() <= fdr
        more = pips.index[: len(chosen) + 1]
        assert len(chosen) == 6 or (1 - pips[more]).mean() > fdr


@pytest.mark.parametrize("bad", [{"threshold": 2}, {"fdr": -0.1}, {"fdr": "5%"}, {"threshold": True}])
def test_bounds_are_probabilities(pair, bad):
    with pytest.raises(DataError, match=f"{next(iter(bad))} must be a number from 0 to 1"):
        pair[0].select(**bad)


def test_unknown_and_missing_names(pair):
    with pytest.raises(DataError, match="there is no column 'x9'"):
        pair[0].probability_any(["x9"])
    with pytest.raises(DataError, match="names is empty"):
        pair[0].probability_all([])


def test_a_sampled_posterior_answers_too(pair):
    exact, _ = pair
    posterior = wv.sample(exact.problem, draws=40_000, seed=1, progress=False)
    assert posterior.probability_any(["x1", "x4"]) == pytest.approx(
        exact.probability_any(["x1", "x4"]), abs=0.05
    )


@pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")  # the runs are short
@pytest.mark.parametrize("seed", range(3))
def test_clusters_of_sampled_models_agree_with_inclusion_probabilities(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 8))
    X[:, 1] = X[:, 0] + 0.1 * rng.normal(size=60)
    y = X[:, 0] + 0.5 * X[:, 2] + rng.normal(size=60)
    posterior = wv.sample(wv.Problem(X, y), draws=200, replicates=2, seed=seed, progress=False)
    by_models = np.bincount(
        posterior.kept.members, np.repeat(posterior.kept.weight, np.diff(posterior.kept.start)), 8
    )
    assert np.abs(by_models - posterior.pip).max() > 1e-4, "else this test tests nothing"
    table = posterior.clusters(level=0.3)
    assert len(table)
    assert (table["size"] == 1).any()
    for _, row in table.iterrows():
        pips = posterior.inclusion_probabilities[row["variables"]]
        assert pips.max() <= row["probability"] <= min(pips.sum(), 1)
        assert row["expected"] == pytest.approx(pips.sum())
        assert list(pips) == sorted(pips, reverse=True)
        if row["size"] == 1:
            assert row["mcse"] == posterior.inclusion_mcse[row["lead"]]


def test_models_are_told_by_their_variables(pair):
    posterior, _ = pair
    table = posterior.top_models(3)
    assert list(table.columns)[-1] == "variables"
    assert len(table.drop(columns="variables").to_string().splitlines()[0]) < 80
    assert repr(posterior).splitlines()[0].startswith("Posterior of 6 variables by exact enumeration:")
