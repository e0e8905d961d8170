"""Proposals informed by π̂: the law of what enters, the alias table, and the bounds of the scale."""

from __future__ import annotations

import numpy as np
import pytest

from support.in_turn import in_turn
from support.kernels import chain_at
from support.paired import make_paired
from unit.kernels.test_bernoulli import MILLION, chi_square, law_of
from whichvars._kernels.jit import entry
from whichvars._kernels.propose.informed import (
    ADD,
    DELETE,
    ENTER,
    LARGEST_ZETA,
    LOG_ODDS,
    PROCESS,
    SMALLEST_ZETA,
    UNIFORM,
    ZETA,
    Informed,
    draw_additions,
    draw_entering,
    new_informed,
    set_estimate,
    set_scale,
    set_zeta,
)
from whichvars.samplers import asi, parni


@entry
def count_additions(informed, position, rng, out, times, counts):
    """Draw `times` times; counts[mask] of each outcome."""
    for _ in range(times):
        mask = 0
        for i in range(draw_additions(informed, position, rng, out)):
            mask |= 1 << out[i]
        counts[mask] += 1


@entry
def count_additions_at_scales(informed, position, rng, out, zetas, times, hits):
    """The scale goes through `zetas` again and again; hits[i, j]: how often j was drawn at the i-th."""
    for t in range(times):
        at = t % zetas.shape[0]
        set_zeta(informed, zetas[at])
        for i in range(draw_additions(informed, position, rng, out)):
            hits[at, out[i]] += 1


@entry
def count_entering(informed, position, rng, times, counts):
    for _ in range(times):
        counts[draw_entering(informed, position, rng)] += 1


@entry
def count_neighbourhoods(chain, informed, rng, out, times, masks, firsts):
    """Of PARNI: counts of each set, and of the first variable of sets that hold 0, 2 and 3."""
    for _ in range(times):
        n = parni.draw_neighbourhood(chain, informed, rng, out)
        mask = 0
        for i in range(n):
            mask |= 1 << out[i]
        masks[mask] += 1
        if mask == 0b01101:
            firsts[0, out[0]] += 1
            firsts[1, out[2]] += 1


@entry
def count_proposals(target, chain, informed, rng, times, counts, ratios):
    """Of ASI: counts of the models proposed, by the variables flipped, and the log ratio of each."""
    for _ in range(times):
        asi.propose(target, chain, informed, rng)
        mask = 0
        for i in range(chain.ints[asi.ADDED]):
            mask |= 1 << chain.added[i]
        for i in range(chain.ints[asi.DELETED]):
            mask |= 1 << chain.deleted[i]
        counts[mask] += 1
        ratios[mask] = chain.floats[asi.LOG_PROPOSAL]


ESTIMATES = {
    "spread": [0.97, 0.5, 0.3, 0.11, 0.04, 0.006],
    "small": [1e-3, 2e-3, 1e-4, 0.05, 1e-2, 3e-3],
    "large": [0.99, 0.6, 0.5, 0.75, 0.9, 0.999],
    "powers of two": [1 / 2, 1 / 3, 1 / 5, 1 / 9, 1 / 17, 2 / 3],
}
ZETAS = (0.0, 0.1, 0.3, 0.5, 0.77, 0.95, 1.0)
OUT = np.full(6, -1, np.int32)


def at_scale(estimate: list[float], zeta: float) -> Informed:
    """At zeta, as far as its bounds allow."""
    informed = new_informed(np.array(estimate))
    set_scale(informed, zeta)
    return informed


@pytest.mark.parametrize(("name", "zeta"), in_turn(ESTIMATES, ZETAS))
def test_law_of_additions(name: str, zeta: float) -> None:
    informed = at_scale(ESTIMATES[name], zeta)
    counts = np.zeros(64, np.int64)
    rng = np.random.default_rng(1)
    count_additions(informed, OUT, rng, np.zeros(6, np.int32), MILLION, counts)
    odds = np.array(ESTIMATES[name]) / (1 - np.array(ESTIMATES[name]))
    probability = informed.floats[ZETA] * np.minimum(1, odds)
    assert chi_square(counts, law_of(probability, OUT)) > 1e-4


def test_included_variables_do_not_enter() -> None:
    informed = at_scale(ESTIMATES["spread"], 0.9)
    position = np.array([1, -1, 0, -1, -1, 2], np.int32)
    counts = np.zeros(64, np.int64)
    count_additions(informed, position, np.random.default_rng(2), np.zeros(6, np.int32), MILLION, counts)
    probability = 0.9 * informed.values[:, ADD]
    assert chi_square(counts, law_of(probability, position)) > 1e-4


def test_a_scale_that_moves_keeps_the_law() -> None:
    """Segments are made for a scale a little above ζ and used while it is near."""
    estimate = np.array(ESTIMATES["spread"])
    informed = new_informed(estimate)
    zetas = np.array([0.5, 0.53, 0.47, 0.44, 0.41, 0.6, 0.98, 0.9, 0.8, 0.79, 1.0, 0.3])
    hits = np.zeros((len(zetas), 6), np.int64)
    times = 200_000 * len(zetas)
    rng = np.random.default_rng(3)
    count_additions_at_scales(informed, OUT, rng, np.zeros(6, np.int32), zetas, times, hits)
    bounded = np.clip(zetas, informed.floats[SMALLEST_ZETA], informed.floats[LARGEST_ZETA])
    expected = 200_000 * bounded[:, None] * np.minimum(1, estimate / (1 - estimate))
    z = (hits - expected) / np.sqrt(expected * (1 - expected / 200_000))
    assert np.abs(z).max() < 4.5
    assert 0.6 < np.sqrt(np.mean(z**2)) < 1.4


def test_a_wrong_scale_would_be_seen() -> None:
    informed = at_scale(ESTIMATES["spread"], 0.5)
    counts = np.zeros(64, np.int64)
    count_additions(informed, OUT, np.random.default_rng(1), np.zeros(6, np.int32), MILLION, counts)
    assert chi_square(counts, law_of(1.01 * informed.floats[ZETA] * informed.values[:, ADD], OUT)) < 1e-6


# --- the alias table


@pytest.mark.parametrize("p", [1, 2, 3, 6, 100, 1000])
def test_alias_table_is_exact(p: int) -> None:
    rng = np.random.default_rng(p)
    for estimate in (rng.uniform(0.01, 0.99, p), rng.beta(0.05, 1, p).clip(1e-6, 1 - 1e-6), np.full(p, 0.2)):
        informed = new_informed(estimate)
        share = (1 - UNIFORM) * estimate / estimate.sum() + UNIFORM / p
        np.testing.assert_allclose(informed.values[:, ENTER], share, rtol=1e-12)
        assert np.all((informed.alias_cut >= 0) & (informed.alias_cut <= 1 + 1e-12))
        found = np.bincount(np.arange(p), informed.alias_cut, minlength=p)
        found += np.bincount(informed.alias_other, 1 - informed.alias_cut, minlength=p)
        np.testing.assert_allclose(found / p, share, rtol=1e-9)


def test_law_of_the_entering_variable() -> None:
    informed = new_informed(np.array(ESTIMATES["spread"]))
    position = np.array([0, -1, -1, 1, -1, -1], np.int32)
    counts = np.zeros(6, np.int64)
    count_entering(informed, position, np.random.default_rng(4), MILLION, counts)
    share = np.where(position < 0, informed.values[:, ENTER], 0)
    assert chi_square(counts, share / share.sum()) > 1e-4


# --- the scale


@pytest.mark.parametrize("p", [1, 2, 7, 300])
def test_the_scale_stays_within_its_bounds(p: int) -> None:
    rng = np.random.default_rng(p)
    informed = new_informed(np.full(p, 0.3))
    for _ in range(40):
        sharp = rng.choice([0.05, 1.0, 20.0])
        estimate = rng.beta(sharp, sharp, p).clip(1e-7, 1 - 1e-7)
        set_scale(informed, float(rng.choice([0.0, 0.2, 0.9, 1.0, rng.random()])))
        before = informed.floats[ZETA]
        set_estimate(informed, estimate)
        low, high = informed.floats[SMALLEST_ZETA], informed.floats[LARGEST_ZETA]
        assert 0 < low <= high == 1 - 0.1 / p
        assert informed.floats[ZETA] == min(max(before, low), high)
        assert informed.floats[ZETA] <= informed.floats[PROCESS] <= high
        np.testing.assert_allclose(informed.values[:, LOG_ODDS], np.log(estimate / (1 - estimate)), rtol=1e-9)
        np.testing.assert_allclose(
            informed.values[:, ADD] / informed.values[:, DELETE],
            np.exp(informed.values[:, LOG_ODDS]),
            rtol=1e-9,
        )
        probability = informed.values[:, ADD]  # each in the bucket of its probability
        np.testing.assert_array_equal(
            informed.buckets.bucket, np.clip(-np.frexp(probability)[1], 0, 47).astype(np.int8)
        )


@entry
def learn_many(informed, acceptance, target, times):
    for i in range(times):
        asi.learn_scale(informed, acceptance, target, (i + 1.0) ** -0.7)


@pytest.mark.parametrize("acceptance", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("estimate", [[0.3] * 5, [1e-6] * 8, [0.999999] * 3, [0.5] * 40, [0.02]])
def test_the_scale_can_come_back_from_its_bounds(estimate: list[float], acceptance: float) -> None:
    """Where π̂ is sharp both bounds are one, and ζ stays there; it is a number in any case."""
    informed = new_informed(np.array(estimate))
    for start in (0.0, 0.5, 1.0):
        set_scale(informed, start)
        learn_many(informed, acceptance, 0.234, 2000)
        floats = informed.floats
        assert floats[SMALLEST_ZETA] <= floats[ZETA] <= floats[LARGEST_ZETA]
        if floats[SMALLEST_ZETA] < 0.9 and acceptance == 0.0:
            assert floats[ZETA] < 0.6
        if acceptance == 1.0:
            assert floats[ZETA] > 0.95 * floats[LARGEST_ZETA]


# --- whole proposals


def a_chain(members: list[int]):
    problem = make_paired(n=20, columns=5).problem()
    chain = chain_at(problem, members)
    assert chain is not None
    return problem.target(8), chain


def flips_law(informed: Informed, members: list[int], p: int) -> np.ndarray:
    """Of independent coins: A_j for those out of the model, D_j for those in it."""
    inside = np.isin(np.arange(p), members)
    probability = informed.floats[ZETA] * np.where(
        inside, informed.values[:, DELETE], informed.values[:, ADD]
    )
    return law_of(probability, np.full(p, -1))


@pytest.mark.parametrize("members", [[], [1, 4], [0, 1, 2, 3, 4]])
def test_law_and_ratio_of_asi(members: list[int]) -> None:
    informed = at_scale([0.8, 0.5, 0.3, 0.1, 0.02], 0.85)
    target, chain = a_chain(members)
    counts, ratios = np.zeros(32, np.int64), np.zeros(32)
    count_proposals(target, chain, informed, np.random.default_rng(5), MILLION, counts, ratios)
    law = flips_law(informed, members, 5)
    assert chi_square(counts, law) > 1e-4
    start = sum(1 << j for j in members)
    for mask in np.flatnonzero(counts):  # the reverse proposal's law over this one's
        end = [j for j in range(5) if (start ^ mask) >> j & 1]
        assert ratios[mask] == pytest.approx(np.log(flips_law(informed, end, 5)[mask] / law[mask]), abs=1e-9)


@pytest.mark.parametrize("members", [[], [1, 4], [0, 1, 2, 3, 4]])
def test_law_of_neighbourhoods(members: list[int]) -> None:
    """Independent coins, then a uniformly random order."""
    informed = at_scale([0.6, 0.5, 0.45, 0.4, 0.35], 1.0)
    _, chain = a_chain(members)
    masks, firsts = np.zeros(32, np.int64), np.zeros((2, 5), np.int64)
    rng = np.random.default_rng(6)
    count_neighbourhoods(chain, informed, rng, np.zeros(5, np.int32), MILLION, masks, firsts)
    assert chi_square(masks, flips_law(informed, members, 5)) > 1e-4
    for counts in firsts:
        assert counts.sum() > 150
        assert chi_square(counts, np.array([1, 0, 1, 1, 0]) / 3) > 1e-4
