"""Models known before, with their exact weights: against sums written out, and against enumeration where only part of
the space is known."""

import warnings
from typing import Any

import numpy as np
import pytest

import whichvars as wv
from support.kernels import from_python
from whichvars._kernels.chain import LOG_MARGINAL, LOG_PRIOR, new_chain
from whichvars._kernels.count.known import (
    CURRENT_STAGE,
    EARLIER_STAGES,
    N_KNOWN,
    add_known,
    end_stage,
    end_stage_of_draws,
    has_mass,
    is_known,
    new_known,
    note_scanned_model,
    note_visited_model,
)
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.evaluate import set_model
from whichvars.datasets import simulate_blocks
from whichvars.samplers.contract import ratio_of_sums

met = from_python(note_scanned_model)
met_model = from_python(note_visited_model)
known_now = from_python(is_known)
next_stage = from_python(end_stage)
add = from_python(add_known)
massive = from_python(has_mass)


def models(n: int, p: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    keys = rng.integers(1, 2**63, n).astype(np.uint64)
    return keys, rng.normal(-300, 4, n), rng.random((n, p)).astype(np.float32)


def test_sums_are_those_written_out() -> None:
    keys, logs, probabilities = models(200, 7, 0)
    known = new_known(7, 512)
    for i in np.random.default_rng(1).integers(0, 100, 400):  # the first half, many of them several times
        assert not met(known, keys[i], logs[i], probabilities[i])
    first = [i for i in range(100) if known_now(known, keys[i])]
    assert first == []  # not before the stage is over
    next_stage(known)
    seen = [i for i in range(100) if known_now(known, keys[i])]
    assert len(seen) == known.ints[N_KNOWN] > 90
    for i in range(100, 200):
        assert not met(known, keys[i], logs[i], probabilities[i])
    weights = np.exp(logs[seen] - logs.max())
    expected = weights @ probabilities[seen].astype(float) / weights.sum()
    sums = np.ones(7)
    add(known, 2.5, sums)
    np.testing.assert_allclose(sums, 1 + 2.5 * expected, rtol=1e-9)
    next_stage(known)
    seen = [i for i in range(200) if known_now(known, keys[i])]
    weights = np.exp(logs[seen] - logs.max())
    np.testing.assert_allclose(known.sums[EARLIER_STAGES] / known.mass[EARLIER_STAGES], weights @ probabilities[seen] / weights.sum(), rtol=1e-6)  # fmt: skip
    assert known.ints[CURRENT_STAGE] == 2


def test_a_full_set_stays_as_it_is() -> None:
    keys, logs, probabilities = models(100, 3, 2)
    known = new_known(3, 64)
    for i in range(100):
        met(known, keys[i], logs[i], probabilities[i])
    next_stage(known)
    assert known.ints[N_KNOWN] == 48
    assert [known_now(known, key) for key in keys] == [True] * 48 + [False] * 52
    weights = np.exp(logs[:48] - logs[:48].max())
    np.testing.assert_allclose(known.sums[EARLIER_STAGES] / known.mass[EARLIER_STAGES], weights @ probabilities[:48] / weights.sum(), rtol=1e-6)  # fmt: skip


def test_nothing_is_known_without_slots() -> None:
    known = new_known(3, 0)
    assert not met(known, np.uint64(5), -1.0, np.ones(3, np.float32))
    next_stage(known)
    assert not known_now(known, np.uint64(5))
    assert not massive(known)


def test_models_without_mass_beside_a_better_one() -> None:
    """A chain is still where it started, and another has met a model e^2000 times as probable."""
    known = new_known(2, 16)
    met(known, np.uint64(1), -3000.0, np.array([1, 0], np.float32))
    next_stage(known)
    assert massive(known)
    met(known, np.uint64(2), -1000.0, np.array([0, 1], np.float32))
    assert not massive(known)
    next_stage(known)
    sums = np.zeros(2)
    add(known, 1.0, sums)
    assert sums.tolist() == [0, 1]


def sampled(sampler: Any, problem: wv.Problem, draws: int, seed: int) -> wv.Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        return wv.sample(problem, sampler, draws=draws, replicates=2, seed=seed, threads=1, progress=False)


@pytest.mark.parametrize("sampler", [wv.Hybrid, wv.TemperedGibbs])
def test_right_where_part_of_the_space_is_known(sampler: Any) -> None:
    """Runs that meet part of 16,384 models: errors as claimed, and smaller than by time alone."""
    problem = small_problem()
    exact = wv.exact(problem).pip
    scores = []
    errors: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for seed in range(24):
        for weights in errors:
            posterior = sampled(sampler(exact_weights=weights), problem, 2000, seed)
            error = posterior.pip - exact
            errors[weights].append(error)
            if weights:
                scores.append(error / posterior.mcse)
    assert 0.7 < np.sqrt(np.mean(np.square(scores))) < 1.5
    off = np.mean(errors[True], axis=0) / np.std(errors[True], axis=0, ddof=1) * np.sqrt(24)
    assert np.abs(off).max() < 4  # no variable is off in all runs
    assert np.sum(np.square(errors[True])) < 0.5 * np.sum(np.square(errors[False]))


def place(problem: wv.Problem, chain: Any, members: list[int]) -> None:
    assert set_model(problem.target(4), chain, new_memo(0), np.array(members, np.int64), len(members))


def test_draws_of_known_models_have_exact_weights() -> None:
    """The null model, {0, 2} twice and {1}, then the end of the stage; {3} is new in the next."""
    problem = small_problem()
    chain = new_chain(problem.target(4), 4)
    known, means = new_known(14, 64), np.zeros(14)
    logs, models = [], [[], [0, 2], [0, 2], [1]]
    for members in models:
        place(problem, chain, members)
        logs.append(chain.floats[LOG_MARGINAL] + chain.floats[LOG_PRIOR])
        assert not met_model(known, chain)
    end_stage_of_draws(known, means)
    weights = np.exp(np.array(logs) - max(logs))
    weights[2] = 0  # met before
    expected = np.zeros(14)
    for weight, members in zip(weights / weights.sum(), models):
        expected[members] += weight
    np.testing.assert_allclose(means, expected, rtol=1e-12)
    assert met_model(known, chain)
    place(problem, chain, [3])
    assert not met_model(known, chain)
    assert not met_model(known, chain)  # as long as the stage lasts


def small_problem() -> wv.Problem:
    data = simulate_blocks(n=40, p=14, block=7, correlation=0.7, effects=[0.5, 0.4], seed=3)
    return wv.Problem(data.X, data.y, slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(h=0.25))


def test_shares_of_draws_are_right_where_part_of_the_space_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small_problem()
    exact = wv.exact(problem).pip
    averages, last = wv.Hybrid.averages, []

    def keep(self: wv.Hybrid, run: Any) -> Any:
        last.append(averages(self, run))
        return last[-1]

    monkeypatch.setattr(wv.Hybrid, "averages", keep)
    scores = []
    errors: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for seed in range(24):
        for weights in errors:
            sampled(wv.Hybrid(moves=20, exact_weights=weights), problem, 4000, seed)
            visits, visited = (
                np.concatenate([getattr(x, name) for x in last[-2:]]) for name in ("visits", "visited")
            )
            pip, variance = ratio_of_sums(visits, visited)
            errors[weights].append(pip - exact)
            if weights:
                scores.append((pip - exact) / np.sqrt(variance))
    assert 0.7 < np.sqrt(np.mean(np.square(scores))) < 1.5
    off = np.mean(errors[True], axis=0) / np.std(errors[True], axis=0, ddof=1) * np.sqrt(24)
    assert np.abs(off).max() < 4
    assert np.sum(np.square(errors[True])) < 0.5 * np.sum(np.square(errors[False]))
