"""The table of jump rates: detailed balance, the law of flips, and that a small one changes nothing but speed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import whichvars as wv
from statistical.test_invariance import CASES
from support.cases import PRIORS, SLABS, Case, problem, truth
from support.kernels import chain_at
from unit.kernels.test_bernoulli import MILLION, chi_square
from whichvars._kernels.chain import SIZE
from whichvars._kernels.jit import entry
from whichvars._kernels.scan.rate_table import (
    ENTRIES,
    FIRST_BLOCK,
    FIRST_RATE,
    HOLDING,
    RATE_HITS,
    RATE_LOOKUPS,
    TOTAL,
    WIDTH,
    RateTable,
    choose_flip,
    find_rates,
    forget_rates,
    new_rate_table,
)
from whichvars._kernels.scan.scan_work import new_scan
from whichvars.sampling.advance import advance_run

# rates under an unknown g are those of a surrogate: flips by them are thinned (statistical/test_against_enumeration.py)
EXACT = [case for case in CASES if case.slab != "unknown-g"]
LARGER = [
    *(Case("plain", slab, PRIORS[i % len(PRIORS)]) for i, slab in enumerate(SLABS)),
    Case("duplicate", "g", "beta-binomial"),
    Case("duplicate", "independent", "fixed"),
    Case("groups", "hyper-g", "max-size"),
    Case("wide", "g", "fixed"),
    Case("columns", "independent", "beta-binomial-max-size"),
    Case("heredity", "independent", "beta-binomial"),
    Case("heredity-groups", "bic", "fixed"),
]


@entry
def rates_of(target, chain, work, table, kappa, sums, weights):
    return find_rates(target, chain, work, table, kappa, sums, weights)


@entry
def count_flips(table, place, rng, times, counts):
    for _ in range(times):
        counts[choose_flip(table, place, rng.random() * table.rows[place, TOTAL])] += 1


@entry
def flip_at(table, place, u):
    return choose_flip(table, place, u)


@pytest.mark.parametrize("floor", [0.01, 5.0])
@pytest.mark.parametrize("case", EXACT + LARGER, ids=lambda case: case.id)
def test_detailed_balance_of_flips(case: Case, floor: float) -> None:
    """π(γ) r_j(γ) is the same on both sides of every flip, and π the oracle's."""
    target, exact = problem(case), truth(case)
    pi, p = exact.probabilities, target.p
    table = new_rate_table(p, 1, 1 << 20)
    columns = int(target.offsets[-1])
    view = target.target(columns)
    work = new_scan(view, columns)
    sums, weights, kappa = np.zeros((1, p)), np.zeros(1), floor / p
    flow = np.zeros((len(pi), p))
    for model in np.flatnonzero(pi > 0):
        chain = chain_at(target, np.flatnonzero(exact.masks[model]).tolist())
        place = rates_of(view, chain, work, table, kappa, sums, weights)
        assert rates_of(view, chain, work, table, kappa, sums, weights) == place
        row = table.rows[place]
        rates = row[table.ints[FIRST_RATE] : table.ints[FIRST_RATE] + p]
        neighbours = pi[model ^ (1 << np.arange(p))]
        np.testing.assert_array_equal(rates == 0, neighbours == 0)  # forbidden flips, and only those
        assert row[TOTAL] == pytest.approx(rates.sum(), rel=1e-12)
        flow[model] = pi[model] * rates
        with_j = np.where(exact.masks[model], pi[model], neighbours)
        np.testing.assert_allclose(table.probabilities[place], with_j / (pi[model] + neighbours), atol=1e-7)
    assert table.ints[ENTRIES] == table.ints[RATE_HITS] == table.ints[RATE_LOOKUPS] / 2 == (pi > 0).sum()
    index = np.arange(len(pi))[:, None] ^ (1 << np.arange(p))
    np.testing.assert_allclose(flow, flow[index, np.arange(p)], rtol=1e-7, atol=1e-12)


# --- the choice of a flip


def a_row(rates: np.ndarray) -> RateTable:
    """A table with one entry of these rates."""
    table = new_rate_table(len(rates), 1, 1)
    row = table.rows[0]
    row[table.ints[FIRST_RATE] : table.ints[FIRST_RATE] + len(rates)] = rates
    for b, start in enumerate(range(0, len(rates), WIDTH)):
        row[table.ints[FIRST_BLOCK] + b] = rates[start : start + WIDTH].sum()
    row[TOTAL] = rates.sum()
    return table


@pytest.mark.parametrize("p", [1, 3, WIDTH, WIDTH + 1, 100])
def test_law_of_flips(p: int) -> None:
    rng = np.random.default_rng(p)
    rates = np.exp(rng.normal(size=p))
    rates[1::3] = 0.0
    rates[5::7] = 1e-9
    if p == 100:
        rates[2 * WIDTH : 3 * WIDTH] = 0.0  # a block of nothing
    counts = np.zeros(p, np.int64)
    count_flips(a_row(rates), 0, rng, MILLION, counts)
    assert chi_square(counts, rates / rates.sum()) > 1e-4


def test_rounding_never_chooses_a_flip_of_rate_zero() -> None:
    rates = np.zeros(3 * WIDTH)
    rates[[4, WIDTH + 2]] = [0.1, 0.3]
    table = a_row(rates)
    for u in (0.0, 0.05, np.nextafter(0.1, 0)):
        assert flip_at(table, 0, u) == 4
    for u in (0.1, 0.2, np.nextafter(0.4, 0), 0.4, np.nextafter(0.4, 1)):
        assert flip_at(table, 0, u) == WIDTH + 2


# --- a table that overflows


def test_emptying_keeps_the_sums() -> None:
    case = Case("plain", "independent", "fixed")
    target, p = problem(case), problem(case).p
    view = target.target(p)
    work, rng = new_scan(view, p), np.random.default_rng(0)
    tables = {name: new_rate_table(p, 2, size) for name, size in (("large", 1 << 20), ("small", 1))}
    totals = {}
    visits = [
        (rng.permutation(p)[: rng.integers(p + 1)].tolist(), rng.integers(2), rng.random())
        for _ in range(300)
    ]
    for name, table in tables.items():
        sums, weights = np.zeros((2, p)), np.zeros(2)
        for members, chain, held in visits:
            place = rates_of(view, chain_at(target, members), work, table, 0.3, sums, weights)
            table.rows[place, HOLDING + chain] += held
        assert table.ints[ENTRIES] <= len(table.rows)
        forget_rates(table, sums, weights)
        assert table.ints[ENTRIES] == 0
        assert not table.lookup.any()
        totals[name] = sums, weights
    assert len(tables["small"].rows) == 4
    for large, small in zip(*totals.values()):
        np.testing.assert_allclose(small, large, rtol=1e-6)
    np.testing.assert_allclose(
        totals["small"][1], [sum(h for _, c, h in visits if c == chain) for chain in range(2)], rtol=1e-12
    )


SMALL = {
    "4 entries": {"table_bytes": 1},
    "50 entries, a memo of 64": {"table_bytes": "fifty", "memo_slots": 64},
    "no memo": {"memo_slots": 0},
}


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize(
    "sampler",
    [wv.TemperedGibbs(exact_weights=False), wv.Hybrid(moves=3, draw_rate=0.5, exact_weights=False)],
    ids=["tempered-gibbs", "hybrid"],
)
def test_small_tables_change_nothing_but_speed(sampler: Any, small: str) -> None:
    """The same seed: the same draws, and the same probabilities but for rounding."""
    for case in (Case("columns", "independent", "beta-binomial"), Case("heredity", "g", "fixed")):
        target = problem(case)
        settings = dict(SMALL[small])
        if settings.get("table_bytes") == "fifty":
            one = new_rate_table(target.p, sampler.chains, 1)
            settings["table_bytes"] = 50 * (one.rows.nbytes // 4 + 4 * target.p + 8)
            assert len(new_rate_table(target.p, sampler.chains, settings["table_bytes"]).rows) == 50
        large, other = (
            wv.sample(target, s, draws=10_000, replicates=2, seed=3, threads=1, progress=False)
            for s in (sampler, replace(sampler, **settings))
        )
        hits = [posterior.adaptation[0]["rate_table_hits"] for posterior in (large, other)]
        assert hits[1] < hits[0] or small == "no memo"
        np.testing.assert_allclose(large.sizes, other.sizes, rtol=1e-9)
        np.testing.assert_allclose(large.pip, other.pip, rtol=0, atol=1e-7)
        np.testing.assert_allclose(large.mcse, other.mcse, rtol=1e-3)


@pytest.mark.parametrize("sampler", [wv.TemperedGibbs(), wv.Hybrid()], ids=["tempered-gibbs", "hybrid"])
def test_looking_at_totals_changes_nothing(sampler: Any) -> None:
    target = problem(Case("plain", "g", "fixed"))
    found = []
    for look in (False, True):
        run = sampler.init(
            target, np.random.SeedSequence(5, spawn_key=(0,)), [np.array([0])] * sampler.chains
        )
        for i in range(40):
            if i == 20:
                sampler.begin_counting(target, run)
            advance_run(target, sampler, run, 100, None, 1)
            if look:
                first, second = run.units[0].totals(), run.units[0].totals()
                for one, other in zip(first, second):
                    np.testing.assert_array_equal(one, other)
        found.append((*run.units[0].totals(), run.units[0].tally.sizes))
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)


def test_every_chain_warms_up() -> None:
    """However short a run, no chain is left at its starting model: those that take part in warm-up have had about equally many
    turns, and the others go where these are."""
    target = problem(Case("growing", "independent", "per-variable"))
    for sampler in (wv.TemperedGibbs(), wv.Hybrid()):
        starts = [np.arange(target.p)] * sampler.chains  # a model of no consequence
        run = sampler.init(target, np.random.SeedSequence(5, spawn_key=(0,)), starts)
        advance_run(target, sampler, run, 200, None, 1)
        unit = run.units[0]
        for chain in unit.chains[: unit.taking_part]:
            assert (chain.position >= 0).sum() < target.p
        sampler.begin_counting(target, run)
        for chain in unit.chains:
            assert (chain.position >= 0).sum() < target.p
        advance_run(target, sampler, run, 400, None, 1)
        assert np.all(run.units[0].totals()[1] > 0)


def test_without_warm_up_every_chain_starts_at_its_own_model() -> None:
    target = problem(Case("growing", "independent", "per-variable"))
    sampler = wv.Hybrid()
    starts = [np.array([j]) for j in range(sampler.chains)]
    run = sampler.init(target, np.random.SeedSequence(5, spawn_key=(0,)), starts)
    sampler.begin_counting(target, run)
    unit = run.units[0]
    assert [chain.order[: chain.ints[SIZE]].tolist() for chain in unit.chains] == [s.tolist() for s in starts]
    advance_run(target, sampler, run, 400, None, 1)
    assert np.all(unit.totals()[1] > 0)


@pytest.mark.parametrize(
    "sampler",
    [wv.TemperedGibbs(), wv.Hybrid(), wv.Hybrid(moves=0)],
    ids=["tempered-gibbs", "hybrid", "hybrid-flips"],
)
def test_a_flip_that_waited_for_room_is_made_once(sampler: Any) -> None:
    """The model that a chain has no room for may be in the table already, put there by another chain."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 40))
    target = wv.Problem(X, X[:, :36].sum(axis=1) + rng.normal(size=200), slab=wv.GPrior(20.0))
    run = sampler.init(target, np.random.SeedSequence(1, spawn_key=(0,)), [np.arange(30)] * sampler.chains)
    chains = run.units[0].chains
    assert len(chains[0].slot) == 32
    for _ in range(60):
        sampler.advance(target, run, 0, 1)
        for chain in chains:
            members = chain.order[: chain.ints[SIZE]]
            assert sorted(members) == np.flatnonzero(chain.position >= 0).tolist()
    assert len(chains[0].slot) > 32
