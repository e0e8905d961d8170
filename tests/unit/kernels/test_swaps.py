"""Swaps of variables for their stand-ins: who stands in for whom, and the law of the proposals."""

from __future__ import annotations

import numpy as np
import pytest

import whichvars as wv
from support.kernels import chain_at
from unit.kernels.test_bernoulli import MILLION, chi_square
from whichvars._kernels.chain import ADDED, DELETED, LOG_PROPOSAL
from whichvars._kernels.jit import entry
from whichvars._kernels.propose.stand_ins import (
    ALIKE,
    MOST_EACH,
    MOST_LINKED,
    StandIns,
    find_stand_ins,
    propose_stand_in,
)

PLENTY = 1e12


@entry
def count_swaps(target, chain, stand_ins, rng, times, counts, ratios):
    """counts[i, j] of the times that i was proposed to leave for j, and the log ratio of those proposals; how often there
    was no proposal."""
    none = 0
    for _ in range(times):
        propose_stand_in(target, chain, stand_ins, rng)
        if chain.ints[ADDED] + chain.ints[DELETED] == 0:
            none += 1
        else:
            i, j = chain.deleted[0], chain.added[0]
            counts[i, j] += 1
            ratios[i, j] = chain.floats[LOG_PROPOSAL]
    return none


def neighbours_of(stand_ins: StandIns) -> dict[int, set[int]]:
    return {
        int(j): set(stand_ins.others[stand_ins.starts[a] : stand_ins.starts[a + 1]].tolist())
        for j, a in enumerate(stand_ins.place)
        if a >= 0
    }


def in_blocks(n: int = 60, blocks: int = 6, width: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    common = np.repeat(rng.normal(size=(n, blocks)), width, axis=1)
    X = common + 0.5 * rng.normal(size=common.shape)
    return X, X[:, 0] + rng.normal(size=n)


@pytest.mark.parametrize("engine", ["gram", "columns"])
def test_stand_ins_are_the_correlated_variables(engine: str) -> None:
    X, y = in_blocks()
    design = wv.Problem(X, y, engine=engine).target(0).design
    found = neighbours_of(find_stand_ins(design, np.full(30, 0.1), PLENTY))
    alike = np.corrcoef(X.T) ** 2 > ALIKE
    assert found == {j: {int(i) for i in np.flatnonzero(alike[j]) if i != j} for j in range(30)}
    assert all(len(others) >= 4 for others in found.values())


def test_a_group_is_as_alike_as_its_columns() -> None:
    X, y = in_blocks()
    labels = [f"g{j}" if j > 1 else "both" for j in range(30)]
    labels[7] = "both"  # beside columns 0 and 1, one of the second block
    problem = wv.Problem(X, y, groups=labels)
    found = neighbours_of(find_stand_ins(problem.target(0).design, np.full(problem.p, 0.1), PLENTY))
    both = {problem.names[j] for j in found[problem.names.index("both")]}
    assert both == {"g2", "g3", "g4", "g5", "g6", "g8", "g9"}


def test_they_are_looked_for_as_far_as_time_allows() -> None:
    X, y = in_blocks()
    design = wv.Problem(X, y, engine="columns").target(0).design
    estimate = np.full(30, 0.01)
    estimate[[12, 20]] = 0.5, 0.3
    each = 30 * (2 + 60 / 3)
    assert neighbours_of(find_stand_ins(design, estimate, 0.9 * each)) == {}
    assert set(neighbours_of(find_stand_ins(design, estimate, 1.1 * each))) == set(range(10, 15))
    assert set(neighbours_of(find_stand_ins(design, estimate, 2.1 * each))) == {
        *range(10, 15),
        *range(20, 25),
    }


def test_not_too_many_each_nor_in_all() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 1)) + 0.3 * rng.normal(size=(40, MOST_LINKED + 200))
    design = wv.Problem(X, rng.normal(size=40), engine="columns").target(0).design
    found = find_stand_ins(design, np.linspace(0.1, 0.2, X.shape[1]), PLENTY)
    links = neighbours_of(found)
    assert len(links) <= MOST_LINKED
    assert np.median([len(others) for others in links.values()]) <= 2 * MOST_EACH
    assert all(i in links[j] for i, others in links.items() for j in others)  # symmetric
    assert all(i not in others for i, others in links.items())
    members = sorted(links)
    alike = np.corrcoef(X.T)[np.ix_(members, members)] ** 2
    np.fill_diagonal(alike, 0.0)
    nearest = {
        (i, members[b])
        for i, row in zip(members, alike)
        for b in np.argsort(-row)[:MOST_EACH]
        if row[b] > ALIKE
    }
    assert {(i, j) for i, others in links.items() for j in others} == nearest | {(j, i) for i, j in nearest}


def test_the_law_of_the_proposals() -> None:
    X, y = in_blocks(blocks=2, width=3)
    problem = wv.Problem(X, y, engine="columns")
    # 0 – 1, 0 – 2, 2 – 4; 3 and 5 have no stand-ins
    links = {0: [1, 2], 1: [0], 2: [0, 4], 4: [2]}
    place = np.array([0, 1, 2, -1, 3, -1], np.int32)
    starts = np.cumsum([0, *map(len, links.values())])
    stand_ins = StandIns(place, starts, np.concatenate([*links.values()]).astype(np.int64))
    chain = chain_at(problem, [3, 0, 2])
    counts, ratios = np.zeros((6, 6)), np.full((6, 6), np.nan)
    none = count_swaps(problem.target(8), chain, stand_ins, np.random.default_rng(5), MILLION, counts, ratios)
    # 0 or 2 leaves: 0 for 1, or for 2, which is in; 2 for 4, or for 0, which is in
    law = {(0, 1): 0.25, (2, 4): 0.25}
    assert set(zip(*np.nonzero(counts))) == set(law)
    assert chi_square(np.array([counts[0, 1], counts[2, 4], none]), np.array([0.25, 0.25, 0.5])) > 1e-3
    assert ratios[0, 1] == pytest.approx(np.log(2 / 1))
    assert ratios[2, 4] == pytest.approx(np.log(2 / 1))
    nobody = chain_at(problem, [3, 5])
    assert (
        count_swaps(problem.target(8), nobody, stand_ins, np.random.default_rng(5), 100, counts, ratios)
        == 100
    )


def test_the_hybrid_uses_them() -> None:
    X, y = in_blocks()
    problem = wv.Problem(X, y)
    run = {"draws": 4000, "warmup": 4000, "replicates": 1, "seed": 1, "progress": False}
    with_swaps = wv.sample(problem, wv.Hybrid(), **run).adaptation[0]
    without = wv.sample(problem, wv.Hybrid(swaps=0), **run).adaptation[0]
    assert with_swaps["stand_ins"] > 0
    assert 0 < with_swaps["acceptance"]["stand-in"] < 1
    assert without["acceptance"]["stand-in"] == 0
    with pytest.raises(wv.DataError, match=r"swaps must lie between 0 and 0\.5"):
        wv.Hybrid(swaps=0.6)
