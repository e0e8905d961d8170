"""Jumps between modes: the law of what is proposed, and the ratio of its probability and that of the way back."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import whichvars as wv
from support.kernels import chain_at
from whichvars._kernels.chain import ADDED, DELETED, LOG_PROPOSAL, SIZE, accept, new_chain
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.decide import ACCEPTED, judge
from whichvars._kernels.evaluate import set_model
from whichvars._kernels.jit import entry
from whichvars._kernels.propose.mode_jumps import ModeJumps, new_mode_jumps, propose_mode_jump
from whichvars.samplers.finding import find_modes, jumps_between_modes

P = 7
# as variable: probability; {1, 4} is of the form of the first two, 6 is never in the core
SLOTS = [
    [{1: 0.7, 0: 0.3}, {4: 0.5, 5: 0.5}],
    [{2: 0.25, 1: 0.75}, {4: 1.0}],
    [{3: 1.0}],
    [],
]
WEIGHTS = np.array([0.4, 0.3, 0.2, 0.1])


@entry
def propose_often(target, chain, jumps, rng, times, counts, ratios):
    """By the bits of the proposed model: how often, and the log ratio."""
    for _ in range(times):
        propose_mode_jump(target, chain, jumps, rng)
        model = 0
        for j in range(chain.position.shape[0]):
            if chain.position[j] >= 0:
                model ^= 1 << j
        for i in range(chain.ints[ADDED]):
            model ^= 1 << chain.added[i]
        for i in range(chain.ints[DELETED]):
            model ^= 1 << chain.deleted[i]
        counts[model] += 1
        ratios[model] = chain.floats[LOG_PROPOSAL]


def jumps() -> ModeJumps:
    modes = [[(np.array(list(slot)), np.array(list(slot.values()))) for slot in slots] for slots in SLOTS]
    return new_mode_jumps(P, modes, WEIGHTS)


def law_of_cores() -> dict[int, float]:
    """By brute force: the bits of a core, and its probability."""
    law: dict[int, float] = {}
    for weight, slots in zip(WEIGHTS, SLOTS):
        for drawn in itertools.product(*(slot.items() for slot in slots)):
            bits = sum(1 << j for j, _ in drawn)
            law[bits] = law.get(bits, 0.0) + weight * math.prod(share for _, share in drawn)
    return law


@pytest.mark.parametrize("model", range(1 << P))
def test_proposals_and_ratios(model: int) -> None:
    rng = np.random.default_rng(1)
    problem = wv.Problem(rng.normal(size=(20, P)), rng.normal(size=20))
    chain = chain_at(problem, [j for j in range(P) if model >> j & 1])
    times, counts, ratios = 4000, np.zeros(1 << P), np.zeros(1 << P)
    propose_often(problem.target(P), chain, jumps(), rng, times, counts, ratios)
    law, rest = law_of_cores(), model & (1 << 6)
    here = law.get(model ^ rest)
    if here is None:  # no mode's form
        assert counts[model] == times
        assert ratios[model] == -np.inf
        return
    assert {int(m) ^ rest for m in np.flatnonzero(counts)} <= set(law)
    for core, chance in law.items():
        assert abs(counts[core ^ rest] - times * chance) < 5 * math.sqrt(times * chance)
        assert ratios[core ^ rest] == pytest.approx(math.log(here / chance), abs=1e-12)


def two_modes() -> wv.Problem:
    """Columns 0 and 1 explain y together, and so do 4 and 5; each has a near copy."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 12))
    signal = X[:, 0] + X[:, 1]
    X[:, 5] = signal - X[:, 4] + 0.05 * rng.normal(size=60)
    X[:, [2, 3]] = X[:, [0, 1]] + 0.02 * rng.normal(size=(60, 2))
    X[:, [6, 7]] = X[:, [4, 5]] + 0.02 * rng.normal(size=(60, 2))
    y = signal + 0.5 * rng.normal(size=60)
    return wv.Problem(X, y, slab=wv.IndependentNormal(1.0), model_prior=wv.FixedInclusion(size=1))


def test_slots_of_found_modes_are_laws_of_swaps() -> None:
    target = two_modes()
    modes = find_modes(target)
    values = {m: v for m, v in zip(*exact_posteriors(target))}
    slotted = [mode for mode in modes if mode.slots]
    assert len(slotted) >= 2
    for mode in slotted:
        members = mode.members.tolist()
        variables = [j for slot, _ in mode.slots for j in slot.tolist()]
        assert len(set(variables)) == len(variables)  # each in one slot only
        for v, (slot, shares) in zip(members, mode.slots):
            assert v in slot
            assert shares.sum() == pytest.approx(1)
            there = np.array([values[tuple(sorted({*members} - {v} | {int(j)}))] for j in slot])
            np.testing.assert_allclose(
                shares, np.exp(there - there.max()) / np.exp(there - there.max()).sum(), rtol=1e-6
            )
    jumps = jumps_between_modes(target)
    assert len(jumps.sizes) == len(slotted)


def exact_posteriors(target: wv.Problem) -> tuple[list[tuple[int, ...]], list[float]]:
    posterior = wv.exact(target)
    return list(posterior.models.members), posterior.models.log_posterior.tolist()


def test_no_jumps_with_one_mode() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 5))
    target = wv.Problem(X, X[:, 0] * 3 + rng.normal(size=50), model_prior=wv.FixedInclusion(size=1))
    assert len(find_modes(target)) == 1
    assert len(jumps_between_modes(target).sizes) == 0


def test_the_hybrid_jumps() -> None:
    target = two_modes()
    posterior = wv.sample(target, wv.Hybrid(exact_weights=False), draws=60_000, seed=1, progress=False)
    assert posterior.adaptation[0]["modes"] >= 2
    assert posterior.adaptation[0]["acceptance"]["mode jump"] > 0
    exact = wv.exact(target)
    assert (np.abs(posterior.pip - exact.pip) < 5 * np.maximum(posterior.mcse, 1e-3)).all()


# --- the mode of 2 % of blocks of look-alikes


@entry
def cross_often(target, chain, memo, jumps, rng, times, crossed):
    """Metropolis–Hastings steps by jumps alone: how often each size was left for another, and how often it was there."""
    for _ in range(times):
        size = chain.ints[SIZE]
        propose_mode_jump(target, chain, jumps, rng)
        verdict, _ratio = judge(target, chain, memo, rng, True)
        if verdict == ACCEPTED:
            accept(target, chain)
        crossed[0, size] += chain.ints[SIZE] != size
        crossed[1, size] += 1


def test_a_mode_of_two_per_cent_behind_a_barrier_is_found_and_crossed_to() -> None:
    """The problem ``blocks22576`` of the benchmarks: 2 % of the mass are on models of three variables, to which every way by one or two
    variables at a time leads over models that are e⁸ times worse (docs/dev/hybrid.md). Jumps went there in one proposal of 120 in a study
    of them, so that 20,000 proposals cross some hundred times each way."""
    data = wv.datasets.simulate_blocks(n=60, p=22_576, block=20, correlation=0.9, seed=0)
    target = wv.Problem(
        data.X, data.y, slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(size=5), scale="unit"
    )
    main, small = find_modes(target)[:2]
    assert (len(main.members), len(small.members)) == (2, 3)
    assert main.log_posterior - small.log_posterior == pytest.approx(6.6, abs=0.1)
    jumps = jumps_between_modes(target)
    assert len(jumps.sizes) >= 2
    chain, memo, crossed = new_chain(target.target(8), 8, cache_bytes=0), new_memo(0), np.zeros((2, 9))
    assert set_model(target.target(8), chain, memo, main.members, 2)
    cross_often(target.target(8), chain, memo, jumps, np.random.default_rng(3), 20_000, crossed)
    assert crossed[0, 2] > 30
    assert crossed[0, 3] > 30
    assert crossed[1, 2:4].sum() == 20_000
    share = crossed[1, 3] / 20_000
    assert 0.005 < share < 0.08
