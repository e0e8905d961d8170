"""Discoveries: the best choice of disjoint sets, with a controlled share of false ones."""

from itertools import combinations

import numpy as np
import pytest

import whichvars as wv
from support.kinds import mainly
from whichvars.errors import DataError
from whichvars.posterior.discoveries import choose


def best_by_hand(sets, probability, fdr):
    """The largest sum of p/|G| over all choices of disjoint sets that are allowed."""
    best = 0.0
    for count in range(1, len(sets) + 1):
        for chosen in combinations(range(len(sets)), count):
            members = [j for i in chosen for j in sets[i]]
            false = sum(1 - probability[i] for i in chosen)
            if len(members) == len(set(members)) and false <= fdr * count + 1e-12:
                best = max(best, sum(probability[i] / len(sets[i]) for i in chosen))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_choice_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    sets = sorted(
        {tuple(sorted(rng.choice(8, rng.integers(1, 5), replace=False).tolist())) for _ in range(11)}
    )
    probability, fdr = rng.beta(4, 1, len(sets)), (0.05, 0.1, 0.3)[seed % 3]
    chosen = choose(sets, probability, fdr)
    members = [j for i in chosen for j in sets[i]]
    assert len(members) == len(set(members))
    assert sum(1 - probability[i] for i in chosen) <= fdr * len(chosen) + 1e-9
    value = sum(probability[i] / len(sets[i]) for i in chosen)
    assert value == pytest.approx(best_by_hand(sets, probability, fdr), abs=1e-6)


def test_certain_discoveries_make_room_for_others():
    sets = [(j,) for j in range(21)]
    probability = np.array([1.0] * 20 + [0.1])
    assert choose(sets, probability, 0.05) == list(range(21))
    assert choose(sets, probability, 0.04) == list(range(20))


def copies_and_single(n=600):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 12))
    X[:, 1:3] = X[:, [0]] + 0.02 * X[:, 1:3]
    return X, 0.5 * X[:, 0] + 0.4 * X[:, 7] + rng.normal(size=n)


def test_copies_are_one_discovery_and_single_variables_are_precise():
    problem = wv.Problem(*copies_and_single(), model_prior=wv.BetaBinomial(size=2))
    posterior = wv.exact(problem)
    table = posterior.discoveries()
    assert sorted(sorted(v) for v in table["variables"]) == [["x0", "x1", "x2"], ["x7"]]
    assert table["probability"].to_numpy() == pytest.approx(
        [posterior.probability_any(v) for v in table["variables"]], abs=1e-9
    )
    assert table["purity"].min() > 0.99
    # too small a size for the copies
    assert posterior.discoveries(largest=1)["variables"].tolist() == [["x7"]]
    sampled = wv.sample(problem, wv.AddDeleteSwap(), draws=20_000, progress=False).discoveries()
    assert sorted(sorted(v) for v in sampled["variables"]) == [["x0", "x1", "x2"], ["x7"]]
    assert (sampled["mcse"] > 0).any()


def test_noise_has_no_discoveries():
    rng = np.random.default_rng(2)
    posterior = wv.exact(wv.Problem(rng.normal(size=(100, 8)), rng.normal(size=100)))
    table = posterior.discoveries()
    assert len(table) == 0
    assert table.columns.tolist() == ["size", "probability", "mcse", "purity", "variables", "pips"]


@pytest.mark.parametrize("fdr", mainly([0.05, 0.2], [0.05]))
def test_the_share_of_false_discoveries_is_what_it_says(fdr):
    """Data drawn from the prior: given the data, the expected share of false discoveries is the mean of 1 − p, and at most fdr."""
    rng, false, promised = np.random.default_rng(11), [], []
    for _ in range(150):
        n, p, h, g = 60, 8, 0.25, 0.3
        X = rng.normal(size=(n, 4))[:, [0, 0, 1, 1, 2, 2, 3, 3]] + 0.5 * rng.normal(size=(n, p))
        X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
        inside = rng.random(p) < h
        y = X @ (inside * rng.normal(size=p) * np.sqrt(g)) + rng.normal(size=n)
        posterior = wv.exact(
            wv.Problem(X, y, slab=wv.IndependentNormal(g), model_prior=wv.FixedInclusion(h=h))
        )
        table = posterior.discoveries(fdr)
        for names, probability in zip(table["variables"], table["probability"]):
            false.append(not any(inside[int(name[1:])] for name in names))
            promised.append(1 - probability)
        assert (1 - table["probability"]).sum() <= fdr * len(table) + 1e-9
    promised = np.array(promised)
    error = np.sqrt((promised * (1 - promised)).sum())
    assert len(false) > 100
    assert abs(sum(false) - promised.sum()) < 3.5 * error


def test_bad_arguments_are_named():
    posterior = wv.exact(wv.Problem(*copies_and_single(50)))
    with pytest.raises(DataError, match="fdr must"):
        posterior.discoveries(fdr=5)
    with pytest.raises(DataError, match="largest must be a whole number of at least 1, not 0"):
        posterior.discoveries(largest=0)
