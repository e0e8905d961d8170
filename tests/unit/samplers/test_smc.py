"""Sequential Monte Carlo: temperatures, resampling, learning by parts, likelihoods made, resuming, and what is refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import whichvars as wv
from support.cases import Case, problem
from support.kernels import from_python
from whichvars._kernels.chain import EVALUATIONS
from whichvars._kernels.propose.adapt import ADD, ADD_LOGIT, DELETE, DELETE_LOGIT
from whichvars.errors import ArgumentTypeError, ConvergenceWarning, DataError
from whichvars.samplers import moves as any_move
from whichvars.samplers.lamnisos import LARGEST_LOGIT_OMEGA
from whichvars.samplers.moves import LAMNISOS, learn_deferred, new_move_state, read_move
from whichvars.samplers.smc import next_step, systematic
from whichvars.sampling.advance import advance_run

PLAIN = Case("plain", "g", "fixed")
MOVES: dict[str, Any] = {
    "rapa": wv.IndividualAdaptation(),
    "ia": wv.IndividualAdaptation(w=0),
    "ads": wv.AddDeleteSwap(),
    "lamnisos": wv.Lamnisos(),
}


def smc(target: wv.Problem, sampler: wv.SequentialMonteCarlo, **options: Any) -> wv.Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return wv.sample(target, sampler, **{"replicates": 2, "seed": 0, "progress": False, **options})


# --- temperatures


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
def test_next_step_hits_the_effective_sample_size(share: float) -> None:
    rng = np.random.default_rng(1)
    for spread in (5.0, 100.0, 1e4):
        values = spread * rng.normal(size=500)
        step = next_step(values, 1.0, share)
        assert 0 < step < 1
        w = np.exp(step * (values - values.max()))
        assert w.sum() ** 2 / (w**2).sum() == pytest.approx(share * 500, rel=1e-6)


def test_next_step_goes_all_the_way_where_it_can() -> None:
    values = 0.01 * np.random.default_rng(0).normal(size=50)
    assert next_step(values, 0.37, 0.9) == 0.37
    assert next_step(np.zeros(5), 1.0, 0.9) == 1.0
    assert next_step(np.array([3.0]), 1.0, 0.9) == 1.0


def test_next_step_counts_only_particles_alive() -> None:
    values = 20 * np.random.default_rng(0).normal(size=300)
    with_dead = np.concatenate([values, np.full(200, -np.inf)])
    assert next_step(with_dead, 1.0, 0.9) == next_step(values, 1.0, 0.9)


@pytest.mark.parametrize("move", MOVES)
def test_temperatures_increase_to_exactly_one(move: str) -> None:
    target = problem(PLAIN)
    posterior = smc(target, wv.SequentialMonteCarlo(particles=301, steps=3, move=MOVES[move]))
    for learned in posterior.adaptation:
        t = learned["temperatures"]
        assert t[0] > 0
        assert t[-1] == 1.0
        assert np.all(np.diff(t) > 0)
        distinct = learned["distinct_particles"]
        assert distinct.shape == t.shape
        assert np.all((distinct >= 1) & (distinct <= 128))
    assert posterior.iterations == sum(301 * 3 * len(a["temperatures"]) for a in posterior.adaptation)


def test_a_flat_likelihood_needs_one_step() -> None:
    rng = np.random.default_rng(0)
    target = wv.Problem(
        rng.normal(size=(10, 4)), rng.normal(size=10), slab=wv.IndependentNormal(1e-9), model_prior=wv.FixedInclusion(h=0.3)
    )  # fmt: skip
    posterior = smc(target, wv.SequentialMonteCarlo(particles=2000, steps=1))
    np.testing.assert_array_equal(posterior.adaptation[0]["temperatures"], [1.0])
    assert abs(posterior.log_evidence) < 1e-6
    np.testing.assert_allclose(posterior.pip, 0.3, atol=0.05)


# --- resampling


def test_systematic_resampling() -> None:
    """In order; each particle floor or ceiling of N w times; unbiased."""
    rng = np.random.default_rng(3)
    weights = rng.exponential(size=37) ** 3
    weights[5] = 0.0
    expected = 37 * weights / weights.sum()
    total, times = np.zeros(37), 20_000
    for _ in range(times):
        ancestors = systematic(weights, rng)
        assert np.all(np.diff(ancestors) >= 0)
        counts = np.bincount(ancestors, minlength=37)
        assert counts.sum() == 37
        assert np.all((counts >= np.floor(expected - 1e-9)) & (counts <= np.ceil(expected + 1e-9)))
        total += counts
    fraction = expected - np.floor(expected)
    error = np.sqrt(np.maximum(fraction * (1 - fraction), 1e-12) / times)
    assert np.all(np.abs(total / times - expected) < 5 * error + 1e-9)


class Extreme:
    """A generator whose next uniform is as large, or as small, as can be."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


@pytest.mark.parametrize("uniform", [0.0, np.nextafter(1.0, 0.0)])
def test_systematic_resampling_never_takes_a_dead_particle(uniform: float) -> None:
    for weights in ([0.0, 1.0, 0.0], [0.0, 0.1, 0.2, 0.7, 0.0, 0.0], [0.0] * 50 + [0.1] * 70 + [0.0] * 9):
        w = np.array(weights)
        ancestors = systematic(w, Extreme(uniform))  # type: ignore[arg-type]
        assert np.all(w[ancestors] > 0)


# --- learning between particles


@pytest.mark.parametrize("scale", [0.1, 3.0])
def test_deferred_learning_in_plain_numpy(scale: float) -> None:
    """Sums of the steps gathered, at most 1 each."""
    target = problem(PLAIN)
    sampler = wv.IndividualAdaptation()
    move = read_move(sampler, "test", deferred=True)
    state = new_move_state(target, sampler, deferred=True)
    wait, learn = from_python(any_move._add_deferred_step), from_python(learn_deferred)
    rng = np.random.default_rng(0)
    logits = state.adaptation.values[:, [ADD_LOGIT, DELETE_LOGIT]].copy()
    for _ in range(5):
        sums, number = np.zeros((target.p, 2)), np.zeros(target.p)
        for j in rng.integers(0, target.p - 1, size=13):  # the last variable never
            steps = scale * rng.normal(size=2)
            wait(state, j, steps[0], steps[1])
            sums[j] += steps
            number[j] += 1
        assert state.pooled[0] == (number > 0).sum()
        learn(state, move)
        logits += np.clip(sums, -1, 1)
        np.testing.assert_allclose(
            state.adaptation.values[:, [ADD_LOGIT, DELETE_LOGIT]], logits, rtol=1e-13, atol=1e-13
        )
        eps = state.adaptation.epsilon
        expected = eps + (1 - 2 * eps) / (1 + np.exp(-logits))
        np.testing.assert_allclose(state.adaptation.values[:, [ADD, DELETE]], expected, rtol=1e-13)
        assert not state.steps.any()
        assert not state.pooled.any()
    assert set(state.adaptation.touched[: state.adaptation.ints[0]]) <= set(range(target.p - 1))


def test_deferred_learning_of_lamnisos() -> None:
    sampler = wv.Lamnisos()
    move = read_move(sampler, "test", deferred=True)
    assert move.code == LAMNISOS
    state = new_move_state(problem(PLAIN), sampler, deferred=True)
    learn = from_python(learn_deferred)
    state.pooled[1] = 0.3
    learn(state, move)
    assert state.logit[0] == pytest.approx(0.3)
    assert not state.pooled.any()
    learn(state, move)  # nothing gathered, nothing learned
    assert state.logit[0] == pytest.approx(0.3)
    state.pooled[1] = -7.0
    learn(state, move)
    assert state.logit[0] == pytest.approx(-0.7)
    for _ in range(30):
        state.pooled[1] = 7.0
        learn(state, move)
    assert state.logit[0] == LARGEST_LOGIT_OMEGA


def test_impossible_moves_teach_lamnisos() -> None:
    """Of seven variables ten cannot be changed at once: ω falls."""
    sampler = wv.SequentialMonteCarlo(particles=400, steps=5, move=wv.Lamnisos())
    run = sampler.init(problem(PLAIN), np.random.SeedSequence(1, spawn_key=(0,)), [])
    while not run.finished:
        advance_run(problem(PLAIN), sampler, run, 100, None, 1)
    assert all(unit.state.logit[0] < -1.0 for unit in run.units)
    assert all(unit.state.logit[0] == run.units[0].state.logit[0] for unit in run.units)


def test_probabilities_are_learned_and_can_be_frozen() -> None:
    target = problem(PLAIN)
    learned = smc(target, wv.SequentialMonteCarlo(particles=400, steps=5)).adaptation[0]
    assert np.ptp(learned["add_probability"]) > 0.02
    frozen = wv.SequentialMonteCarlo(particles=400, steps=5, move=wv.IndividualAdaptation(freeze_after=0))
    learned = smc(target, frozen).adaptation[0]
    assert np.ptp(learned["add_probability"]) == 0
    assert np.ptp(learned["delete_probability"]) == 0


# --- cost


@pytest.mark.parametrize(
    "case", [PLAIN, Case("plain", "independent", "fixed"), Case("growing", "hyper-g/n", "fixed")]
)
@pytest.mark.parametrize("move", ["rapa", "ads"])
def test_equal_particles_cost_one_likelihood(case: Case, move: str) -> None:
    """With a memo, no more factorisations than there are models; without one, many times as many."""
    target = problem(case)
    made = []
    for slots in (1 << 18, 0):
        sampler = wv.SequentialMonteCarlo(
            particles=500, steps=4, groups=1, move=MOVES[move], memo_slots=slots
        )
        run = sampler.init(target, np.random.SeedSequence(1, spawn_key=(0,)), [])
        while not run.finished:
            advance_run(target, sampler, run, 100, None, 1)
        made.append(int(run.units[0].chain.ints[EVALUATIONS]))
    assert made[0] <= 2**target.p
    assert made[1] > 10 * made[0]


def test_each_group_pays_for_itself() -> None:
    target = problem(PLAIN)
    sampler = wv.SequentialMonteCarlo(particles=800, steps=3, groups=4)
    run = sampler.init(target, np.random.SeedSequence(1, spawn_key=(0,)), [])
    while not run.finished:
        advance_run(target, sampler, run, 100, None, 1)
    assert len(run.units) == 4
    assert all(unit.chain.ints[EVALUATIONS] <= 2**target.p for unit in run.units)


# --- degeneracy


def wide_problem() -> wv.Problem:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 40)) + 1.5 * rng.normal(size=(60, 1))
    y = X[:, :6] @ np.full(6, 0.5) + rng.normal(size=60)
    return wv.Problem(X, y, slab=wv.IndependentNormal(0.5), model_prior=wv.FixedInclusion(h=0.3))


def test_degeneracy_is_measured_and_warned_of() -> None:
    """Proposals that are almost never accepted: the particles are copies of a few."""
    target = wide_problem()
    stiff = wv.IndividualAdaptation(nu=30.0, freeze_after=0)
    poor = wv.SequentialMonteCarlo(particles=3000, steps=1, ess=0.5, move=stiff)
    with pytest.warns(ConvergenceWarning, match="particles are distinct"):
        posterior = wv.sample(target, poor, replicates=2, seed=0, progress=False)
    assert posterior.warnings
    assert min(learned["distinct_particles"][-1] for learned in posterior.adaptation) < 0.02 * 3000
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        wv.sample(
            target, wv.SequentialMonteCarlo(particles=500, steps=10), replicates=2, seed=0, progress=False
        )
        # a narrow posterior has few models, and that is no fault
        wv.sample(
            problem(PLAIN), wv.SequentialMonteCarlo(particles=8000, steps=2), replicates=2, seed=0, progress=False
        )  # fmt: skip


# --- room, threads and chunks


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize(
    "case", [Case("growing", "independent", "per-variable"), Case("plain", "g", "fixed")]
)
def test_growing_changes_nothing(move: str, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    target = problem(case)
    sampler = wv.SequentialMonteCarlo(particles=90, steps=3, groups=2, move=MOVES[move])
    found = []
    for capacity in (1, target.max_columns + 6):
        monkeypatch.setattr(wv.Problem, "first_capacity", lambda self, c=capacity: c)
        found.append(smc(target, sampler))
    same(*found)


def same(a: wv.Posterior, b: wv.Posterior) -> None:
    np.testing.assert_array_equal(a.pip, b.pip)
    np.testing.assert_array_equal(a.sizes, b.sizes)
    assert a.models.members == b.models.members
    np.testing.assert_array_equal(a.models.frequency, b.models.frequency)
    assert a.log_evidence == b.log_evidence
    for one, other in zip(a.adaptation, b.adaptation):
        np.testing.assert_array_equal(one["temperatures"], other["temperatures"])
        np.testing.assert_array_equal(one["distinct_particles"], other["distinct_particles"])


@pytest.mark.parametrize("move", MOVES)
def test_threads_and_chunks_do_not_matter(move: str) -> None:
    target = problem(Case("growing", "g", "per-variable"))
    sampler = wv.SequentialMonteCarlo(particles=101, steps=3, groups=3, move=MOVES[move])
    first = smc(target, sampler, threads=1)
    for threads, chunk in [(1, 1), (2, 7), (5, None)]:
        same(first, smc(target, sampler, threads=threads, chunk=chunk))


def test_fewer_particles_than_groups_and_parts() -> None:
    posterior = smc(problem(PLAIN), wv.SequentialMonteCarlo(particles=5, steps=2, groups=8))
    assert np.all((posterior.pip >= 0) & (posterior.pip <= 1))


# --- arguments


@pytest.mark.parametrize(
    "option", [{"draws": 100}, {"warmup": 0}, {"start": "null"}, {"budget": "1s"}, {"target_mcse": 0.01}]
)
def test_sample_refuses_what_does_not_apply(option: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="takes no draws, warmup, start, budget or target_mcse"):
        wv.sample(problem(PLAIN), wv.SequentialMonteCarlo(particles=10), progress=False, **option)


@pytest.mark.parametrize(
    "wrong",
    [
        {"particles": 1},
        {"particles": 10.5},
        {"particles": True},
        {"steps": 0},
        {"groups": 0},
        {"ess": 0},
        {"ess": 1.0},
        {"ess": None},
    ],
)
def test_wrong_arguments(wrong: dict[str, Any]) -> None:
    with pytest.raises((DataError, ArgumentTypeError), match=next(iter(wrong))):
        wv.SequentialMonteCarlo(**wrong)


def test_no_mass_at_all_is_said() -> None:
    """Every model that the prior draws is larger than the rows allow."""
    rng = np.random.default_rng(0)
    target = wv.Problem(
        rng.normal(size=(6, 60)), rng.normal(size=6), slab=wv.GPrior(10), model_prior=wv.FixedInclusion(h=0.9)
    )
    with pytest.raises(DataError, match="no model drawn from the prior has posterior mass"):
        wv.sample(target, wv.SequentialMonteCarlo(particles=50), progress=False)


def test_progress_says_temperature_and_distinct_particles() -> None:
    reports: list[Any] = []
    sampler = wv.SequentialMonteCarlo(particles=200, steps=2)
    run = sampler.init(problem(PLAIN), np.random.SeedSequence(1, spawn_key=(0,)), [])
    assert run.status.startswith("temperature ")
    while not run.finished:
        advance_run(problem(PLAIN), sampler, run, 25, None, 1)
        reports.append((run.fraction, run.status))
    fractions = [fraction for fraction, _ in reports]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert any("distinct particles" in status for _, status in reports)
