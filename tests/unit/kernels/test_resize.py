"""Changes of the size by several variables: the law of what is proposed, its ratio, and when the hybrid makes them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import whichvars as wv
from support.kernels import chain_at
from whichvars._kernels.chain import ADDED, DELETED, LOG_PROPOSAL
from whichvars._kernels.jit import entry
from whichvars._kernels.propose.resize import propose_resize
from whichvars.samplers.kinds_of_moves import LARGEST_STEP, RESIZE, RESIZE_SHARE, SINGLE, STEP, choose_step

P = 6


@entry
def propose_often(target, chain, step, rng, times, counts, ratios):
    """By the bits of the variables that change: how often, and the log ratio."""
    for _ in range(times):
        propose_resize(target, chain, step, rng)
        bits = 0
        for i in range(chain.ints[ADDED]):
            bits ^= 1 << chain.added[i]
        for i in range(chain.ints[DELETED]):
            bits ^= 1 << chain.deleted[i]
        counts[bits] += 1
        ratios[bits] = chain.floats[LOG_PROPOSAL]


def some_problem(p: int = P, n: int = 20) -> wv.Problem:
    rng = np.random.default_rng(1)
    return wv.Problem(rng.normal(size=(n, p)), rng.normal(size=n))


def chance(model: int, other: int, step: int) -> float:
    """By brute force, the probability that `other` is proposed at `model`."""
    possible = [
        m for m in range(1 << P) if (m & model) in (m, model) and abs(_size(m) - _size(model)) == step
    ]
    alike = [m for m in possible if _size(m) == _size(other)]
    return 0.5 / len(alike) if other in alike else 0.0


def _size(model: int) -> int:
    return model.bit_count()


@pytest.mark.parametrize("step", [2, 3])
@pytest.mark.parametrize("model", [0, 0b1, 0b100100, 0b10011, 0b111001, 0b111110, 0b111111])
def test_proposals_and_ratios(model: int, step: int) -> None:
    problem = some_problem()
    chain = chain_at(problem, [j for j in range(P) if model >> j & 1])
    times, counts, ratios = 20_000, np.zeros(1 << P), np.full(1 << P, np.nan)
    propose_often(problem.target(P), chain, step, np.random.default_rng(2), times, counts, ratios)
    law = {m: chance(model, m, step) for m in range(1 << P) if chance(model, m, step) > 0}
    stays = times * max(1 - sum(law.values()), 0.0)
    assert abs(counts[0] - stays) <= 5 * math.sqrt(stays)
    assert counts[0] == 0 or ratios[0] == -np.inf
    assert {int(m) ^ model for m in np.flatnonzero(counts) if m > 0} == set(law)
    for other, there in law.items():
        assert abs(counts[other ^ model] - times * there) < 5 * math.sqrt(times * there)
        assert ratios[other ^ model] == pytest.approx(math.log(chance(other, model, step) / there), abs=1e-12)


def test_the_step_follows_acceptance() -> None:
    """It begins where nearly every move of one variable is accepted, is doubled as long as half of the changes are, and halved where
    few of them are."""
    own = wv.Hybrid().init(some_problem(), np.random.SeedSequence(0), [np.array([0])] * 5).units[0].own

    def after(kind: int, rate: float) -> tuple[int, float]:
        own.counts[kind], own.accepted[kind] = 1000, 1000 * rate
        choose_step(own, swaps=0.2)
        return int(own.resize[STEP]), float(own.resize[RESIZE_SHARE])

    assert after(SINGLE, 0.6) == (0, 0.0)
    step, share = after(SINGLE, 0.9)
    assert step == 2
    assert 0 < share <= 1 / 3
    assert after(RESIZE, 0.4)[0] == 2
    assert after(RESIZE, 0.7) == (4, pytest.approx(1 / 5))
    assert after(RESIZE, 0.7) == (8, pytest.approx(1 / 9))
    assert after(RESIZE, 0.9)[0] == LARGEST_STEP
    assert after(RESIZE, 0.1)[0] == 4
    assert after(RESIZE, 0.1)[0] == 2
    assert after(RESIZE, 0.1) == (0, 0.0)


def many_weak(p: int = 14, n: int = 12) -> wv.Problem:
    """So little information and so even a prior that nearly every move is accepted."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=(n, p))
    return wv.Problem(
        X,
        X[:, 0] + 2 * rng.normal(size=n),
        slab=wv.IndependentNormal(0.1),
        model_prior=wv.BetaBinomial(a=1, b=1),
    )


@pytest.mark.parametrize("exact_weights", [True, False])
def test_the_hybrid_makes_them_and_is_right(exact_weights: bool) -> None:
    target = many_weak()
    posterior = wv.sample(
        target, wv.Hybrid(exact_weights=exact_weights), draws=10_000, seed=4, replicates=16, progress=False
    )
    assert all(one["size_step"] >= 2 for one in posterior.adaptation)
    assert all(one["acceptance"]["size"] > 0.2 for one in posterior.adaptation)
    exact = wv.exact(target)
    assert (np.abs(posterior.pip - exact.pip) < 4.5 * np.maximum(posterior.mcse, 1e-7)).all()
    sizes, truth = posterior.model_size, exact.model_size
    error = np.maximum(sizes["mcse"].to_numpy(), 1e-7)
    assert (np.abs(sizes["posterior"] - truth["posterior"]).to_numpy() < 4.5 * error).all()
