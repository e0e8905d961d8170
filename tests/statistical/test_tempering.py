"""Parallel tempering where the general harness does not go.

Two modes that add/delete/swap cannot connect, every rung against the enumeration of its own tempered target,
and a long run of many seeds. The harness has the rest: every slab and model prior, groups, duplicates, weights.
"""

from __future__ import annotations

import warnings
import zlib
from functools import cache
from typing import Any

import numpy as np
import pytest

import whichvars as wv
from support.cases import Case, problem, truth
from support.scores import _between
from support.two_modes import FIRST, SECOND, STRONG, bimodal
from whichvars.errors import ConvergenceWarning
from whichvars.samplers import tempering
from whichvars.samplers.ladders import give_temperatures
from whichvars.sampling.advance import advance_run

MOVES: dict[str, Any] = {
    "rapa": wv.IndividualAdaptation(tau=0.35),
    "ia": wv.IndividualAdaptation(tau=0.35, w=0),
    "ads": wv.AddDeleteSwap(),
    "lamnisos": wv.Lamnisos(),
}


def replicates(target: wv.Problem, sampler: Any, **options: Any) -> list[wv.Posterior]:
    """Independent runs of one replicate each."""
    n, seed = options.pop("runs"), options.pop("seed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [
            wv.sample(target, sampler, replicates=1, threads=1, seed=seed + i, progress=False, **options)
            for i in range(n)
        ]


def check_against(exact: Any, runs: list[wv.Posterior], limit: float = 4.5) -> None:
    """PIPs and the best models' probabilities, by the spread between runs."""
    inside = np.minimum(exact.pips, 1 - exact.pips) > 1e-3
    assert (
        np.abs(_between(np.array([r.pip[inside] for r in runs]), exact.pips[inside])).max(initial=0) < limit
    )
    best = [m for m in np.argsort(-exact.probabilities)[:5] if exact.probabilities[m] > 0.01]
    wanted = [tuple(np.flatnonzero(exact.masks[m]).tolist()) for m in best]
    found = [dict(zip(r.models.members, r.models.frequency)) for r in runs]
    shares = np.array([[f.get(m, 0.0) for m in wanted] for f in found])
    assert np.abs(_between(shares, exact.probabilities[best])).max(initial=0) < limit


# --- two modes


@cache
def assert_add_delete_swap_is_stuck(slab: str) -> None:
    """From either mode it never leaves: wrong, and unaware of it."""
    target, exact = bimodal(slab)
    for start, here in ((FIRST, FIRST[0]), (SECOND, SECOND[0])):
        for run in replicates(target, wv.AddDeleteSwap(), draws=20_000, start=start, runs=3, seed=1):
            assert run.pip[here] > 0.99
            off = abs(run.pip[here] - exact.pips[here])
            assert off > 0.2
            assert np.isnan(run.mcse[here]) or off > 10 * run.mcse[here]


# every move is in ``make test``, every slab in ``make test-rest``, all of them together in ``make test-slow``
QUICK_MODES = [("hyper-g", "rapa"), ("g", "ads")]
TWO_MODES = [
    pytest.param(
        s,
        m,
        marks=[]
        if (s, m) in QUICK_MODES
        else pytest.mark.rest
        if i % 2 == ("rapa", "ads").index(m)
        else pytest.mark.slow,
    )
    for i, s in enumerate(STRONG)
    for m in ("rapa", "ads")
] + [
    pytest.param(s, m, marks=[] if (s, m) in (("independent", "ia"), ("g", "lamnisos")) else pytest.mark.slow)
    for s in ("independent", "g")
    for m in ("ia", "lamnisos")
]


@pytest.mark.parametrize(("slab", "move"), TWO_MODES)
def test_two_modes(slab: str, move: str) -> None:
    target, exact = bimodal(slab)
    assert_add_delete_swap_is_stuck(slab)
    sampler = wv.ParallelTempering(MOVES[move], rungs=5)
    runs = replicates(
        target, sampler, draws=30_000, start=FIRST, runs=8, seed=zlib.crc32(slab.encode()) % 1000
    )
    check_against(exact, runs)
    pips = np.mean([r.pip for r in runs], axis=0)
    assert np.abs(pips - exact.pips).max() < 0.1
    assert all(r.adaptation[0]["round_trips"] > 10 for r in runs)


@pytest.mark.parametrize("prior", ["fixed", "beta-binomial"])
def test_two_modes_with_ladders_that_learn_together(prior: str) -> None:
    target, exact = bimodal("g", prior)
    sampler = wv.ParallelTempering(rungs=5, chains=3)
    check_against(exact, replicates(target, sampler, draws=60_000, start=[FIRST, SECOND], runs=8, seed=50))


# --- every rung


RUNG_CASES = [
    Case("three", "independent", "fixed"),
    Case("three", "g", "per-variable"),
    Case("three", "hyper-g", "beta-binomial"),
    Case("three", "bic", "max-size"),
    Case("three-duplicate", "g", "fixed"),
    Case("three-duplicate", "independent", "per-variable"),
]


# the default of Lamnisos, up to ten changes, hardly moves among three variables
RUNG_MOVES = {**MOVES, "lamnisos": wv.Lamnisos(max_changes=2)}
RUNGS_TESTED = [(c, m) for c in RUNG_CASES for m in ("rapa", "ads")] + [
    (c, m) for c in RUNG_CASES[:2] for m in ("ia", "lamnisos")
]
# every case and every move
RUNGS_QUICK = [(c, ("rapa", "ads")[i % 2]) for i, c in enumerate(RUNG_CASES)] + [
    (RUNG_CASES[0], "lamnisos"),
    (RUNG_CASES[1], "ia"),
]


@pytest.mark.parametrize(
    ("case", "move"),
    [
        pytest.param(c, m, id=f"{m}-{c.id}", marks=[] if (c, m) in RUNGS_QUICK else pytest.mark.slow)
        for c, m in RUNGS_TESTED
    ],
)
def test_every_rung_has_its_own_target(case: Case, move: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temperatures and probabilities held fixed; all rungs' models after every third iteration: looking costs more than moving,
    and an odd number meets pairs of rungs of either parity in turn."""
    read = tempering.read_move
    monkeypatch.setattr(tempering, "read_move", lambda *a, **k: read(*a, **k)._replace(freeze=0))
    target = problem(case)
    rungs, batches, length = 3, 40, 64
    sampler = wv.ParallelTempering(RUNG_MOVES[move], rungs=rungs)
    run = sampler.init(target, np.random.SeedSequence(8, spawn_key=(0,)), [np.zeros(0, np.int64)])
    unit = run.units[0]
    unit.ladder.rho[:] = -0.2, 0.4
    give_temperatures(unit.stack, unit.ladder)
    temperatures = unit.ladder.temperature.copy()
    np.testing.assert_allclose(temperatures[::-1], np.exp(-np.cumsum([0, np.exp(0.4), np.exp(-0.2)])))
    seen = np.zeros((batches, rungs, 1 << target.p))
    bits = 1 << np.arange(target.p)
    advance_run(target, sampler, run, 100, None, 1)
    for b in range(batches):
        for _ in range(length):
            advance_run(target, sampler, run, 3, None, 1)
            inside = unit.stack.position[unit.ladder.slot] >= 0
            seen[b, np.arange(rungs), inside @ bits] += 1 / length
    np.testing.assert_allclose(unit.ladder.temperature, temperatures, rtol=1e-14)
    assert unit.ladder.slot.shape == (rungs,)
    for k in range(rungs):
        exact = truth(case, temper=float(temperatures[k]))
        common = (exact.probabilities > 0.01) & (exact.probabilities < 0.99)
        assert seen[:, k, exact.probabilities == 0].sum() == 0
        assert np.abs(_between(seen[:, k, common], exact.probabilities[common])).max() < 4.2, k
        inclusion = seen[:, k] @ exact.masks
        free = np.minimum(exact.pips, 1 - exact.pips) > 1e-3
        assert np.abs(_between(inclusion[:, free], exact.pips[free])).max() < 4.2, k


# --- many seeds


@pytest.mark.slow
@pytest.mark.parametrize("move", ["rapa", "ads"])
def test_reported_errors_over_many_seeds(move: str) -> None:
    """Root mean square of (estimate − truth)/reported error over 12 seeds, on two modes: below 1.5."""
    target, exact = bimodal("g")
    sampler = wv.ParallelTempering(MOVES[move], rungs=5, chains=2)
    scores = []
    for seed in range(12):
        posterior = wv.sample(target, sampler, draws=200_000, seed=seed, start=FIRST, progress=False)
        scores.append((posterior.pip - exact.pips) / posterior.mcse)
    found = np.array(scores)
    assert np.isfinite(found).all()
    assert np.sqrt(np.mean(found**2)) < 1.5
