"""Parallel tempering: the ladder of temperatures, exchanges and what they count, resuming, and what is refused."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

import whichvars as wv
from support.cases import Case, problem
from support.kinds import mainly
from whichvars._kernels.chain import LOG_MARGINAL, NEEDED
from whichvars._kernels.count.tally import count_up_to_now
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.samplers.contract import begin_counting
from whichvars.samplers.ladders import NARROWEST, TRIPS, WIDEST, give_temperatures, log_gaps
from whichvars.sampling.advance import advance_run

MOVES: dict[str, Any] = {
    "rapa": wv.IndividualAdaptation(tau=0.35),
    "ia": wv.IndividualAdaptation(tau=0.35, w=0),
    "ads": wv.AddDeleteSwap(),
    "lamnisos": wv.Lamnisos(),
}
PLAIN = Case("plain", "independent", "fixed")


def start_run(
    target: wv.Problem, sampler: wv.ParallelTempering, seed: int = 0, start: list[int] | None = None
) -> Any:
    first = np.array(start or [], np.int64)
    return sampler.init(target, np.random.SeedSequence(seed, spawn_key=(0,)), [first] * sampler.chains)


def mask(position: np.ndarray) -> int:
    return int(sum(1 << int(j) for j in np.flatnonzero(position >= 0)))


# --- the ladder


def ladder_at(rho: Any, kind: str = "ratios") -> Any:
    run = start_run(problem(PLAIN), wv.ParallelTempering(rungs=len(rho) + 1, ladder=kind))
    unit = run.units[0]
    unit.ladder.rho[:] = rho
    give_temperatures(unit.stack, unit.ladder)
    return unit.ladder


@pytest.mark.parametrize("rungs", [1, 2, 4, 9])
def test_ladder_ends_at_one_and_increases(rungs: int) -> None:
    rng = np.random.default_rng(rungs)
    for _ in range(20):
        rho = rng.uniform(NARROWEST, WIDEST, rungs - 1)
        t = ladder_at(rho).temperature
        assert t[-1] == 1.0
        assert np.all(np.diff(t) > 0)
        assert np.all(t > 0)
        np.testing.assert_allclose(t[:-1] / t[1:], np.exp(-np.exp(rho)), rtol=1e-12)


def test_a_ladder_by_differences_is_built_up_from_its_lowest_temperature() -> None:
    rho = np.array([0.01, 0.05, 0.2, 0.3])
    ladder = ladder_at(rho, "differences")
    lowest = 1 - rho.sum()
    np.testing.assert_allclose(ladder.temperature, lowest + np.cumsum([0, *rho]), rtol=1e-12)
    np.testing.assert_array_equal(ladder.rho, rho)
    assert ladder.temperature[-1] == 1.0


def test_differences_that_leave_no_room_are_cut() -> None:
    """Printed as they are, differences may add up to more than 1 or turn negative: temperatures below 0, or out of order."""
    ladder = ladder_at([0.3, -0.1, 0.9, 0.4], "differences")
    t, ratios = ladder.temperature, np.exp(-np.exp([WIDEST, NARROWEST, WIDEST]))
    np.testing.assert_allclose(t[:-1] / t[1:], [*ratios, 0.6], rtol=1e-12)
    np.testing.assert_allclose(ladder.rho, np.diff(t), rtol=1e-9)


@pytest.mark.parametrize("kind", ["ratios", "differences"])
def test_a_new_ladder_can_be_used(kind: str) -> None:
    t = start_run(problem(PLAIN), wv.ParallelTempering(rungs=4, ladder=kind)).units[0].ladder.temperature
    np.testing.assert_allclose(t, np.exp([-3, -2, -1, 0]) if kind == "ratios" else [0.25, 0.5, 0.75, 1])


@pytest.mark.parametrize("chains", mainly([1, 3], [3]))
def test_both_ladders_come_to_the_same_temperatures(chains: int) -> None:
    """Every pair exchanges at the target rate on one ladder only, whichever way it is written: by the spread between replicates, the
    temperatures of the two are the same."""
    found = []
    for kind in ("ratios", "differences"):
        sampler = wv.ParallelTempering(wv.AddDeleteSwap(), rungs=3, chains=chains, ladder=kind)
        learned = wv.sample(
            sharp_problem(), sampler, draws=60_000, warmup=30_000, replicates=8, seed=3, progress=False
        ).adaptation
        np.testing.assert_allclose(np.mean([one["swap_rates"] for one in learned], axis=0), 0.234, atol=0.03)
        found.append(np.log([one["temperatures"][:-1] for one in learned]))
    difference = found[0].mean(axis=0) - found[1].mean(axis=0)
    error = np.sqrt(sum(one.var(axis=0, ddof=1) / len(one) for one in found))
    assert np.all(np.abs(difference) < 4 * error)
    assert np.all(error < 0.2)
    # at the hot end a difference learns in steps that are large for it
    assert found[0][:, 0].std() < 0.5 * found[1][:, 0].std()


@pytest.mark.parametrize("kind", ["ratios", "differences"])
@pytest.mark.parametrize("aim", [1e-6, 1 - 1e-6])
def test_ladder_cannot_collapse_or_cross(aim: float, kind: str) -> None:
    """Towards an acceptance rate that no ladder has, ρ goes to its bounds and stays there."""
    target = problem(Case("plain", "g", "fixed"))
    sampler = wv.ParallelTempering(wv.AddDeleteSwap(), rungs=3, target_swap=aim, chains=2, ladder=kind)
    run = start_run(target, sampler)
    for _ in range(20):
        advance_run(target, sampler, run, 1000, None, 1)
        for unit in run.units:
            t = unit.ladder.temperature
            assert t[-1] == 1.0
            gaps = t[:-1] / t[1:]
            assert np.all(gaps <= math.exp(-math.exp(NARROWEST)) * (1 + 1e-12))
            assert np.all(gaps >= math.exp(-math.exp(WIDEST)) * (1 - 1e-12))
    rho = log_gaps(run.units[0].ladder.temperature)
    assert np.all(rho > WIDEST - 0.01 if aim < 0.5 else rho < -2.0)


def sharp_problem(n: int = 150, p: int = 10, seed: int = 4) -> wv.Problem:
    """A posterior so far from its prior that a ladder of a few rungs can have any acceptance rate."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = X[:, :5] @ np.full(5, 0.8) + rng.normal(size=n)
    return wv.Problem(X, y, slab=wv.GPrior(n), model_prior=wv.FixedInclusion(h=0.3))


@pytest.mark.parametrize("move", MOVES)
def test_exchanges_reach_their_target_rate(move: str) -> None:
    sampler = wv.ParallelTempering(MOVES[move], rungs=3)
    posterior = wv.sample(
        sharp_problem(), sampler, draws=40_000, warmup=20_000, replicates=2, seed=1, progress=False
    )
    for learned in posterior.adaptation:
        assert learned["temperatures"][-1] == 1.0
        np.testing.assert_allclose(learned["swap_rates"], 0.234, atol=0.03)
        assert learned["surplus_rungs"] == 0
        times, along = learned["temperatures_along_run"]
        assert np.all(np.diff(times) > 0)
        assert along.shape == (len(times), 3)
        np.testing.assert_array_equal(along[-1][-1], 1.0)
        assert len(learned["mutation_rate_by_rung"]) == 3
        # hotter rungs move more
        assert learned["mutation_rate_by_rung"][0] > learned["mutation_rate_by_rung"][-1]
        if move in ("rapa", "ia"):
            assert learned["add_probability"].shape == (3, 10)


@pytest.mark.parametrize("chains", [5, 25])
def test_temperatures_of_many_ladders_settle(chains: int) -> None:
    """If what the ladders learn between barriers were added up, temperatures would go from one bound to the other at every barrier."""
    sampler = wv.ParallelTempering(wv.AddDeleteSwap(), rungs=3, chains=chains)
    posterior = wv.sample(
        sharp_problem(), sampler, draws=100_000, warmup=50_000, replicates=1, seed=1, progress=False
    )
    learned = posterior.adaptation[0]
    np.testing.assert_allclose(learned["swap_rates"], 0.234, atol=0.03)
    _, along = learned["temperatures_along_run"]
    assert np.abs(np.diff(np.log(along[-6:]), axis=0)).max() < 0.5


def test_surplus_rungs_are_reported() -> None:
    target = problem(PLAIN)
    few = wv.sample(target, wv.ParallelTempering(rungs=2), draws=4000, replicates=1, seed=0, progress=False)
    many = wv.sample(
        target, wv.ParallelTempering(rungs=12), draws=60_000, replicates=1, seed=0, progress=False
    )
    assert many.adaptation[0]["surplus_rungs"] >= 5
    assert few.adaptation[0]["surplus_rungs"] <= 1


@pytest.mark.parametrize("kind", ["ratios", "differences"])
def test_freezing_holds_temperatures_and_probabilities(kind: str) -> None:
    target = problem(PLAIN)
    sampler = wv.ParallelTempering(wv.IndividualAdaptation(freeze_after=0), rungs=4, chains=2, ladder=kind)
    run = start_run(target, sampler)
    before = run.units[0].ladder.temperature.copy()
    probabilities = run.units[0].moves.adaptation.values.copy()
    advance_run(target, sampler, run, 3000, None, 1)
    for unit in run.units:
        np.testing.assert_array_equal(unit.ladder.temperature, before)
        np.testing.assert_array_equal(unit.moves.adaptation.values, probabilities)


def test_ladders_learn_together() -> None:
    target = sharp_problem()
    sampler = wv.ParallelTempering(rungs=3, chains=3, merge_every=50)
    run = start_run(target, sampler)
    advance_run(target, sampler, run, 20_000, None, 1)
    while run.barrier != run.iterations + 50 and run.iterations < 20_100:  # to a barrier
        advance_run(target, sampler, run, 1, None, 1)
    first = run.units[0]
    for unit in run.units[1:]:
        np.testing.assert_array_equal(unit.ladder.temperature, first.ladder.temperature)
        np.testing.assert_array_equal(unit.moves.adaptation.values, first.moves.adaptation.values)


def test_learned_probabilities_of_a_lamnisos_ladder_are_shared() -> None:
    target = sharp_problem()
    sampler = wv.ParallelTempering(wv.Lamnisos(), rungs=2, chains=3, merge_every=50)
    run = start_run(target, sampler)
    advance_run(target, sampler, run, 2000, None, 1)
    while run.barrier != run.iterations + 50:
        advance_run(target, sampler, run, 1, None, 1)
    for unit in run.units[1:]:
        np.testing.assert_array_equal(unit.moves.logit, run.units[0].moves.logit)


@pytest.mark.parametrize("move", mainly(MOVES, ("ads", "ia")))
@pytest.mark.parametrize("case", [PLAIN, Case("growing", "g", "per-variable")])
def test_one_rung_is_the_move_alone(move: str, case: Case) -> None:
    """Bit by bit, what it learns too: impossible moves teach Lamnisos here as there."""
    alone = dataclasses.replace(MOVES[move], memo_slots=1 << 12)
    ladder = wv.ParallelTempering(alone, rungs=1, memo_slots=1 << 12)
    options: Any = {"draws": 4000, "replicates": 2, "seed": 6, "threads": 1, "progress": False}
    one, other = (wv.sample(problem(case), sampler, **options) for sampler in (alone, ladder))
    np.testing.assert_array_equal(one.pip, other.pip)
    np.testing.assert_array_equal(one.sizes, other.sizes)
    assert one.models.members == other.models.members
    if move != "ads":
        for a, b in zip(one.adaptation, other.adaptation):
            assert a["mutation_rate"] == pytest.approx(b["mutation_rate"], rel=1e-9)
            np.testing.assert_array_equal(a["changes_proposed"], b["changes_proposed"])


# --- exchanges


@pytest.mark.parametrize("rungs", [1, 2, 3, 5])
@pytest.mark.parametrize("move", ["rapa", "ads", "lamnisos"])
def test_counts_equal_a_naive_recount(rungs: int, move: str) -> None:
    """The cold chain is looked at after every iteration; inclusion, sizes, models and round trips follow from that."""
    target = problem(Case("plain", "g", "per-variable"))
    sampler = wv.ParallelTempering(MOVES[move], rungs=rungs)
    run = start_run(target, sampler)
    unit, warmup, draws = run.units[0], 37, 400
    visited, slots = [], [unit.ladder.slot.copy()]
    for i in range(warmup + draws):
        advance_run(target, sampler, run, 1, None, 1)
        unit = run.units[0]
        assert sorted(unit.ladder.slot) == list(range(rungs))
        np.testing.assert_array_equal(
            unit.stack.floats[unit.ladder.slot, 2], unit.ladder.temperature
        )  # each chain has its rung's temperature
        slots.append(unit.ladder.slot.copy())
        if i >= warmup:
            visited.append(mask(unit.chain.position))
        if i == warmup - 1:
            begin_counting(target, run)
    count_up_to_now(unit.chain, unit.tally)
    inside = np.array([[m >> j & 1 for j in range(target.p)] for m in visited])
    np.testing.assert_array_equal(unit.tally.batch_counts.sum(axis=0), inside.sum(axis=0))
    np.testing.assert_array_equal(unit.tally.sizes, np.bincount(inside.sum(axis=1), minlength=target.p + 1))
    counted = {}
    for e in range(int(unit.tally.ints[10])):
        members = unit.tally.pool[unit.tally.model_start[e] : unit.tally.model_start[e + 1]]
        counted[sum(1 << int(j) for j in members)] = int(unit.tally.model_count[e])
    assert counted == {m: visited.count(m) for m in set(visited)}
    # a chain's round trip: at the top, then at the bottom, then at the top; its first arrival there counts from then on
    trips, heading = 0, np.zeros(rungs, int)
    for i in range(1, len(slots)):
        if rungs > 1 and not np.array_equal(slots[i], slots[i - 1]):
            bottom, top = slots[i][0], slots[i][-1]
            if slots[i - 1][0] != bottom and heading[bottom] == -1:
                heading[bottom] = 1
            if slots[i - 1][-1] != top:
                trips += int(heading[top] == 1 and i > warmup)
                heading[top] = -1
    assert unit.ladder.ints[TRIPS] == trips
    if rungs > 1:
        assert not np.array_equal(slots[-1], slots[0]) or trips > 0


def test_round_trips_are_counted_in_long_runs() -> None:
    posterior = wv.sample(
        problem(PLAIN), wv.ParallelTempering(rungs=3), draws=5000, replicates=1, seed=2, progress=False
    )
    assert posterior.adaptation[0]["round_trips"] > 50
    alone = wv.sample(
        problem(PLAIN), wv.ParallelTempering(rungs=1), draws=500, replicates=1, seed=2, progress=False
    )
    assert alone.adaptation[0]["round_trips"] == 0
    assert alone.adaptation[0]["swap_rates"].shape == (0,)


def test_only_the_top_rung_is_counted_in_the_record() -> None:
    target = problem(PLAIN)
    sampler = wv.ParallelTempering(rungs=3)
    run = start_run(target, sampler)
    begin_counting(target, run)
    seen = []
    for _ in range(60):
        advance_run(target, sampler, run, 1, None, 1)
        seen.append(run.units[0].chain.floats[LOG_MARGINAL])
    np.testing.assert_array_equal(run.units[0].tally.record_values[:60, 0], seen)


# --- room, threads and chunks


def small_first_capacity(monkeypatch: pytest.MonkeyPatch, capacity: int) -> None:
    monkeypatch.setattr(wv.Problem, "first_capacity", lambda self: capacity)


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize(
    "case", [Case("growing", "independent", "per-variable"), Case("plain", "g", "fixed")]
)
def test_growing_in_the_middle_of_a_sweep_changes_nothing(
    move: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = problem(case)
    sampler = wv.ParallelTempering(MOVES[move], rungs=4)
    grown, results = [], []
    for capacity in (6 if case.data == "growing" else 1, target.max_columns + 6):
        small_first_capacity(monkeypatch, capacity)
        run = start_run(target, sampler)
        begin_counting(target, run)
        grown.append(run.units[0].capacity())
        advance_run(target, sampler, run, 1500, None, 1)
        unit = run.units[0]
        assert not unit.stack.ints[:, NEEDED].any()
        count_up_to_now(unit.chain, unit.tally)
        grown.append(unit.capacity())
        results.append(
            (
                unit.tally.batch_counts.copy(),
                unit.tally.sizes.copy(),
                unit.ladder.temperature.copy(),
                unit.ladder.slot.copy(),
                unit.stack.position.copy(),
                unit.moves.logit.copy(),
                unit.moves.adaptation.values.copy(),
            )
        )
    assert grown[0] < grown[1]  # the small one had to grow
    assert grown[2] == grown[3]
    for small, large in zip(*results):
        np.testing.assert_array_equal(small, large)


def same(a: wv.Posterior, b: wv.Posterior) -> None:
    np.testing.assert_array_equal(a.pip, b.pip)
    np.testing.assert_array_equal(a.sizes, b.sizes)
    np.testing.assert_array_equal(a.mcse, b.mcse)
    assert a.models.members == b.models.members
    np.testing.assert_array_equal(a.models.frequency, b.models.frequency)
    for one, other in zip(a.adaptation, b.adaptation):
        np.testing.assert_array_equal(one["temperatures"], other["temperatures"])
        np.testing.assert_array_equal(one["swap_rates"], other["swap_rates"])
        assert one["round_trips"] == other["round_trips"]


@pytest.mark.parametrize("move", mainly(MOVES, ("ads", "ia")))
def test_threads_and_chunks_do_not_matter(move: str) -> None:
    target = problem(Case("growing", "g", "per-variable"))
    sampler = wv.ParallelTempering(MOVES[move], rungs=3, chains=3, merge_every=50)

    def run(threads: int, chunk: int | None) -> wv.Posterior:
        return wv.sample(
            target, sampler, draws=360, warmup=120, replicates=2, seed=5, threads=threads, chunk=chunk, progress=False,
            start=list(range(8)),
        )  # fmt: skip

    first = run(1, None)
    for threads, chunk in [(1, 1), (2, 7), (5, None)]:
        same(first, run(threads, chunk))


# --- arguments


class Tilted:
    """A sampler whose chains have another law."""

    invariant_law = "posterior × Z"
    chains = 1

    def advance(self) -> None: ...


class Unknown:
    """One that this version has no code for."""

    invariant_law = "posterior"
    chains = 1

    def advance(self) -> None: ...


@pytest.mark.parametrize("owner", [wv.ParallelTempering, wv.SequentialMonteCarlo])
def test_a_move_that_does_not_fit_is_refused_with_the_reason(owner: Any) -> None:
    with pytest.raises(DataError, match=rf"{owner.__name__}: Tilted leaves posterior × Z invariant.*biased"):
        owner(move=Tilted())
    with pytest.raises(DataError, match="cannot be used as a move"):
        owner(move=Unknown())
    for wrong in ("ia", 3, wv.AddDeleteSwap):
        with pytest.raises((ArgumentTypeError, DataError), match=rf"^{owner.__name__}: .*move"):
            owner(move=wrong)
    with pytest.raises(DataError, match="chains"):
        owner(move=wv.IndividualAdaptation(chains=5))
    with pytest.raises((ArgumentTypeError, DataError)):
        owner(move=wv.ParallelTempering())


@pytest.mark.parametrize(
    "wrong",
    [
        {"rungs": 0},
        {"rungs": 2.0},
        {"rungs": True},
        {"chains": 0},
        {"merge_every": 0},
        {"target_swap": 0},
        {"target_swap": 1.0},
        {"target_swap": "a"},
        {"ladder": "sums"},
    ],
)
def test_wrong_arguments(wrong: dict[str, Any]) -> None:
    with pytest.raises((DataError, ArgumentTypeError), match=next(iter(wrong))):
        wv.ParallelTempering(**wrong)


@pytest.mark.parametrize("slots", [3, -1])
def test_wrong_memo(slots: int) -> None:
    for owner in (wv.ParallelTempering, wv.SequentialMonteCarlo):
        with pytest.raises(ValueError, match="power of two"):
            wv.sample(problem(PLAIN), owner(memo_slots=slots), progress=False)
