"""Credible sets: at least one member is in, disjoint, pure; signals that do not reach the level; near copies that are in together."""

from dataclasses import replace

import numpy as np
import pytest

import whichvars as wv
from whichvars.errors import DataError
from whichvars.posterior.models import KeptModels


def problem_with(correlation, n=400, seed=0, effect=1.0, **settings):
    """Columns 0 to 2 stand in for one another; so do 3 and 4, with the opposite sign; 5 to 8 are on their own."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 9))
    for group in ([0, 1, 2], [3, 4]):
        X[:, group] = np.sqrt(correlation) * rng.normal(size=(n, 1)) + np.sqrt(1 - correlation) * X[:, group]
    X[:, 4] *= -1
    y = effect * (X[:, 0] + X[:, 3] + X[:, 5]) + rng.normal(size=n) * 0.5
    return wv.Problem(X, y, **({"model_prior": wv.FixedInclusion(h=0.05)} | settings))


@pytest.mark.parametrize("engine", ["gram", "columns"])
def test_near_copies_are_a_set(engine):
    posterior = wv.exact(problem_with(0.9999, engine=engine))
    table = posterior.credible_sets()
    assert sorted(sorted(v) for v in table["variables"]) == [["x0", "x1", "x2"], ["x3", "x4"], ["x5"]]
    assert table["reached"].all()
    X = posterior.problem.target(0).design
    gram = X.gram if engine == "gram" else X.columns @ X.columns.T
    r = np.abs(gram / np.sqrt(np.outer(X.diagonal, X.diagonal)))
    for _, row in table.iterrows():
        chosen = [posterior.problem.names.index(name) for name in row["variables"]]
        assert row["probability"] == pytest.approx(posterior.probability_any(row["variables"]), rel=1e-9)
        assert row["purity"] == pytest.approx(r[np.ix_(chosen, chosen)].min())
        assert row["pips"] == pytest.approx(posterior.inclusion_probabilities[row["variables"]].tolist())
        assert row["pips"] == sorted(row["pips"], reverse=True)
        assert row["expected"] == pytest.approx(sum(row["pips"]))
        assert (row["lead"], row["size"], row["mcse"]) == (row["variables"][0], len(row["variables"]), 0)


def test_copies_that_are_in_together_are_still_one_set():
    """With a prior of small effects two near copies share a large one; each alone has a probability below the level."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    X[:, 1] = X[:, 0] + 0.1 * rng.normal(size=500)
    y = 0.3 * X[:, 0] + rng.normal(size=500)
    prior = wv.BetaBinomial(size=1)
    posterior = wv.exact(wv.Problem(X, y, slab=wv.IndependentNormal(0.01), model_prior=prior))
    assert posterior.probability_all(["x0", "x1"]) > 0.3
    first = posterior.credible_sets().iloc[0]
    assert set(first["variables"]) == {"x0", "x1"}
    assert first["probability"] > 0.99


@pytest.mark.parametrize("known_rows", [True, False])
def test_three_copies_with_overwhelming_evidence_are_one_set(known_rows):
    """Models with neither of two copies have the third, so that no two of them alone exclude each other; z is 400, with 10⁷ rows."""
    R = np.eye(5)
    R[0, 1] = R[1, 0] = 1.0
    R[2, :2] = R[:2, 2] = 1 - 1e-8
    n = 10**7
    z = R @ np.array([400.0, 0, 0, 0, 2])
    posterior = wv.exact(wv.from_summary(z=z, R=R, n=n if known_rows else None))
    table = posterior.credible_sets()
    assert [sorted(v) for v in table["variables"]] == [["x0", "x1", "x2"]]
    assert table["probability"].tolist() == pytest.approx([1.0])
    assert posterior.pip[:3].max() < 0.6


def test_three_copies_and_an_effect_of_its_own_are_two_sets():
    """The effect of its own is correlated with the copies, but its near copy does not make it stand in for them."""
    rng = np.random.default_rng(1)
    n = 2000
    X = rng.normal(size=(n, 7))
    X[:, 1:3] = X[:, [0]] + 1e-4 * X[:, 1:3]
    X[:, 3] = 0.7 * X[:, 0] + 0.7 * X[:, 3]
    X[:, 4] = X[:, 3] + 1e-3 * X[:, 4]
    y = 3 * X[:, 0] + 3 * X[:, 3] + rng.normal(size=n)
    slab = wv.IndependentNormal(5.0)
    table = wv.exact(wv.Problem(X, y, slab=slab, model_prior=wv.BetaBinomial(size=2))).credible_sets()
    assert sorted(sorted(v) for v in table["variables"]) == [["x0", "x1", "x2"], ["x3", "x4"]]


@pytest.mark.parametrize(
    ("weights", "sets"),
    [
        # effects of their own: each is in or not whatever the other does
        ({(0, 1): 0.64, (0,): 0.16, (1,): 0.16, (): 0.04}, [{"x0"}, {"x1"}]),
        # one or the other
        ({(0,): 0.5, (1,): 0.45, (): 0.05}, [{"x0", "x1"}]),
        # one or the other or both
        ({(0, 1): 0.5, (0,): 0.3, (1,): 0.2}, [{"x0", "x1"}]),
        # none without the other
        ({(0, 1): 0.8, (): 0.2}, [{"x0"}, {"x1"}]),
    ],
)
def test_what_distinguishes_stand_ins_from_effects_of_their_own(weights, sets):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 4))
    X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]
    posterior = wv.exact(wv.Problem(X, X[:, 0] + rng.normal(size=150)))
    pip = np.array([sum(w for m, w in weights.items() if j in m) for j in range(4)])
    posterior = replace(posterior, kept=KeptModels.of(weights), pip=pip)
    assert [set(v) for v in posterior.credible_sets()["variables"]] == sets


def test_sets_given_the_signal_have_a_share_of_its_probability():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 5))
    X[:, 1:4] = 0.9 * X[:, [0]] + 0.4 * X[:, 1:4]
    posterior = wv.exact(wv.Problem(X, X[:, 0] + rng.normal(size=150)))
    # the signal is there with probability 0.96, of which x0 and x1 have more than 0.95 · 0.96 = 0.912
    weights = {(0,): 0.72, (1,): 0.20, (2,): 0.025, (3,): 0.015, (): 0.04}
    pip = np.array([weights.get((j,), 0.0) for j in range(5)])
    posterior = replace(posterior, kept=KeptModels.of(weights), pip=pip)
    (usual,), (given,) = (posterior.credible_sets(signal=own).to_dict("records") for own in (None, 0.95))
    assert usual["variables"] == ["x0", "x1", "x2", "x3"]
    assert usual["probability"] == pytest.approx(0.96)
    assert given["variables"] == ["x0", "x1"]
    assert given["probability"] == pytest.approx(0.92)
    assert given["signal"] == pytest.approx(0.96)
    assert given["reached"]
    # the signal has 0.96 and no more, and a higher level of the set does not ask more of the signal
    assert not posterior.credible_sets(signal=0.97)["reached"].any()
    higher = posterior.credible_sets(level=0.97, signal=0.95).iloc[0]
    assert higher["variables"] == ["x0", "x1", "x2"]
    assert higher["reached"]
    rows = posterior.credible_sets(signal=0.5, long=True)
    assert rows["signal"].tolist() == pytest.approx([0.96, 0.96])
    assert "signal" not in posterior.credible_sets(long=True).columns


def test_signals_as_probable_as_asked_for_are_reached():
    """x0 and x1 have a signal of 0.7 together, and x4 one of its own of 0.3, which is listed if that is asked for."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 5))
    X[:, 1] = 0.9 * X[:, 0] + 0.4 * X[:, 1]
    posterior = wv.exact(wv.Problem(X, X[:, 0] + rng.normal(size=150)))
    weights = {(0,): 0.45, (0, 4): 0.20, (1,): 0.05, (4,): 0.1, (): 0.2}
    pip = np.array([sum(w for m, w in weights.items() if j in m) for j in range(5)])
    posterior = replace(posterior, kept=KeptModels.of(weights), pip=pip)
    for signal, members, reached in (
        (0.95, [["x0", "x1"]], [False]),
        (0.5, [["x0", "x1"]], [True]),
        (0.25, [["x0", "x1"], ["x4"]], [True, True]),
    ):
        table = posterior.credible_sets(signal=signal)
        assert table["variables"].tolist() == members
        assert table["reached"].tolist() == reached
    assert table["signal"].tolist() == pytest.approx([0.7, 0.3])
    assert table["probability"].tolist() == pytest.approx([0.7, 0.3])


def test_a_signal_that_does_not_reach_the_level_says_how_far_it_gets():
    posterior = wv.exact(problem_with(0.99, effect=0.07, model_prior=wv.FixedInclusion(0.03)))
    table = posterior.credible_sets(level=0.999, least=0.1)
    short = table[~table["reached"]]
    assert len(short)
    for _, row in short.iterrows():
        assert 0.1 * 0.99 <= row["probability"] < 0.999
        assert row["probability"] == pytest.approx(posterior.probability_any(row["variables"]), rel=1e-9)
    assert len(posterior.credible_sets(level=0.999, least=0.1)) >= len(
        posterior.credible_sets(level=0.999, least=0.9)
    )


def test_sets_are_disjoint_and_pure_and_sampled_ones_agree_with_exact_ones():
    problem = problem_with(0.97, effect=0.2)
    exact, sampled = wv.exact(problem), wv.sample(problem, wv.Hybrid(), draws=20_000, seed=3, progress=False)
    for posterior in (exact, sampled):
        table = posterior.credible_sets(purity=0.9)
        everything = [name for names in table["variables"] for name in names]
        assert len(set(everything)) == len(everything)
        assert (table["purity"] >= 0.9).all()
    ours, theirs = (posterior.credible_sets() for posterior in (sampled, exact))
    assert [set(v) for v in ours["variables"]] == [set(v) for v in theirs["variables"]]
    assert (ours["mcse"] >= 0).all()
    error = np.maximum(ours["mcse"], 1e-6)
    assert (np.abs(ours["probability"] - theirs["probability"]) < 5 * error).all()


def test_a_higher_level_needs_more_variables():
    posterior = wv.exact(problem_with(0.999, effect=0.3))
    sizes = [posterior.credible_sets(level=level)["size"].sum() for level in (0.5, 0.9, 0.99)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_the_long_form_has_a_row_for_each_member():
    posterior = wv.exact(problem_with(0.9999))
    short, long = posterior.credible_sets(), posterior.credible_sets(long=True)
    assert long["variable"].tolist() == [name for names in short["variables"] for name in names]
    assert long.groupby("set").size().tolist() == short["size"].tolist()
    assert long["pip"].tolist() == pytest.approx(posterior.inclusion_probabilities[long["variable"]].tolist())
    assert long["set_probability"].tolist() == np.repeat(short["probability"], short["size"]).tolist()


def test_no_signal_no_set():
    rng = np.random.default_rng(0)
    posterior = wv.exact(wv.Problem(rng.normal(size=(100, 5)), rng.normal(size=100)))
    assert posterior.credible_sets().empty
    assert posterior.credible_sets(long=True).empty


@pytest.mark.parametrize("keywords", [{"level": 1.5}, {"purity": -1}, {"least": "half"}, {"signal": 2}])
def test_shares_lie_between_0_and_1(keywords):
    posterior = wv.exact(problem_with(0.9))
    with pytest.raises(DataError, match=f"{next(iter(keywords))} must be a number from 0 to 1"):
        posterior.credible_sets(**keywords)
