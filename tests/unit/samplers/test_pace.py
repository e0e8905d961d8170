"""How often the hybrid draws, and how long its bursts are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import whichvars as wv
from support.cases import eight_variables
from whichvars.samplers import pace
from whichvars.samplers.contract import Run
from whichvars.samplers.hybrid import MOVES
from whichvars.samplers.pace import CHEAP_EVENT, FEW_DRAWS, Pace, choose_pace, scans_too_many_draws
from whichvars.samplers.tempered_gibbs import LAMBDA
from whichvars.sampling.advance import advance_run


def powers(n: int = 150, columns: int = 8, seed: int = 5) -> wv.Problem:
    """Products and powers up to the third degree of raw columns, which do not have mean 0: many stand in for one another, and chains go
    slowly from one choice to the next."""
    rng = np.random.default_rng(seed)
    raw = rng.uniform(1, 3, (n, columns))
    pairs = [(i, j, a, b) for i in range(columns) for j in range(i) for a, b in ((1, 1), (1, 2), (2, 1))]
    X = np.column_stack([raw, raw**2, raw**3, *(raw[:, i] ** a * raw[:, j] ** b for i, j, a, b in pairs)])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.sin(2 * raw[:, 0]) * raw[:, 1] + rng.normal(size=n)
    return wv.Problem(X, y, slab=wv.IndependentNormal(100), model_prior=wv.FixedInclusion(h=0.2))


def independent(n: int = 200, p: int = 120) -> wv.Problem:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(n, p))
    return wv.Problem(X, X[:, :3].sum(axis=1) + 3 * rng.normal(size=n))


def a_run(problem: wv.Problem, sampler: wv.Hybrid, stages: list[int], seed: int = 1) -> Run[Any, Any]:
    run = sampler.init(problem, np.random.SeedSequence(seed), [np.zeros(0, np.int64)] * sampler.chains)
    advance_run(problem, sampler, run, 500, None, 1)
    sampler.begin_counting(problem, run)
    for iterations in stages:
        advance_run(problem, sampler, run, iterations, None, 1)
    return run


def test_fewer_draws_have_longer_bursts() -> None:
    problem = independent()
    chains = wv.Hybrid().init(problem, np.random.SeedSequence(0), [np.arange(4)] * 5).units[0].chains
    often, seldom = choose_pace(problem, chains, 0.8), choose_pace(problem, chains, 0.8, few_draws=True)
    assert often.draw_rate == 4.0
    assert seldom.draw_rate == FEW_DRAWS
    # an event between two draws, and four flips to one draw
    assert seldom.moves == pytest.approx((1 + 1 / FEW_DRAWS) * often.moves, rel=0.1)
    # where nearly all events are at known models, draws are few as it is
    assert choose_pace(problem, chains, 0.01, few_draws=True) == choose_pace(problem, chains, 0.01)


@pytest.mark.parametrize(
    ("chosen", "conditional", "few"),
    [
        (Pace(9, 4.0), 0.8, True),
        (Pace(9, 4.0), 0.4, False),
        (Pace(CHEAP_EVENT + 1, 4.0), 0.8, False),
        (Pace(9, FEW_DRAWS), 0.8, False),
    ],
)
def test_when_scans_are_made_for_too_many_draws(chosen: Pace, conditional: float, few: bool) -> None:
    """`conditional`: the variance of conditional probabilities between chains, if that of shares of draws is 1."""
    shares = np.random.default_rng(3).normal(size=(5, 120))
    assert scans_too_many_draws(independent(), chosen, np.sqrt(conditional) * shares, shares) is few


def test_nothing_is_said_where_shares_do_not_vary() -> None:
    assert not scans_too_many_draws(independent(), Pace(9, 4.0), np.zeros((5, 3)), np.zeros((5, 3)))


def test_the_hybrid_draws_less_often_where_chains_move_slowly() -> None:
    sampler = wv.Hybrid()
    run = a_run(powers(), sampler, [1200])
    unit = run.units[0]
    assert run.shared.few_draws
    rate = unit.events / float(unit.totals()[1].sum()) - float(unit.floats[LAMBDA])
    assert unit.floats[LAMBDA] < 0.5 * rate
    # what the user chose stays
    chosen = a_run(powers(), wv.Hybrid(draw_rate=4.0), [1200])
    assert not chosen.shared.few_draws
    assert a_run(powers(), wv.Hybrid(moves=9), [1200]).units[0].own.counts[MOVES] == 9
    # and there is nothing to compare with a single chain
    assert not a_run(powers(), wv.Hybrid(chains=1), [1200]).shared.few_draws


def test_it_draws_often_where_conditional_probabilities_are_good() -> None:
    assert not a_run(independent(), wv.Hybrid(), [1200]).shared.few_draws


def test_pieces_of_a_run_do_not_matter() -> None:
    whole, pieces = (a_run(powers(), wv.Hybrid(), stages) for stages in ([3000], [700, 1, 299, 2000]))
    assert whole.shared.few_draws
    assert whole.shared.few_draws == pieces.shared.few_draws
    for a, b in zip(whole.units[0].totals(), pieces.units[0].totals()):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("exact_weights", [True, False])
def test_probabilities_are_right(exact_weights: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a problem that can be enumerated, in which every replicate is made to draw less often: its table holds four models."""
    monkeypatch.setattr(pace, "HARDLY_BETTER", 1e-9)
    problem = eight_variables()
    sampler = wv.Hybrid(exact_weights=exact_weights, table_bytes=1)
    posterior = wv.sample(problem, sampler, draws=20_000, seed=4, replicates=16, progress=False)
    assert all(one["draw_rate"] < 0.5 * one["mean_rate"] for one in posterior.adaptation)
    exact = wv.exact(problem)
    assert (np.abs(posterior.pip - exact.pip) < 4.5 * np.maximum(posterior.mcse, 1e-7)).all()
