"""The hybrid's mixture of flips and moves, after warm-up."""

import numpy as np
import pytest

import whichvars as wv
from support.cases import eight_variables
from whichvars.samplers.contract import Run, lags_of_size
from whichvars.samplers.hybrid import MOVES
from whichvars.samplers.tempered_gibbs import LAMBDA
from whichvars.sampling.advance import advance_run


def after_two_stages(sampler: wv.Hybrid, moves: int) -> tuple[Run, float]:
    """A run whose m was set to another value when counting began, and the λ that it had then."""
    problem = eight_variables()
    run = sampler.init(problem, np.random.SeedSequence(1), [np.zeros(0, np.int64)] * sampler.chains)
    advance_run(problem, sampler, run, 2000, None, 1)
    sampler.begin_counting(problem, run)
    run.units[0].own.counts[MOVES] = moves
    rate = float(run.units[0].floats[LAMBDA])
    advance_run(problem, sampler, run, 8000, None, 1)
    return run, rate


@pytest.mark.parametrize("moves", [9, 1000])
def test_far_too_many_moves_for_events_that_cost_little(moves: int) -> None:
    """All of 256 models are soon in the table, so that an event takes no longer than a move: two of them are chosen."""
    run, rate = after_two_stages(wv.Hybrid(), moves)
    assert run.units[0].own.counts[MOVES] == 2
    assert run.units[0].floats[LAMBDA] != rate


def test_not_so_far_off_nothing_is_changed() -> None:
    run, rate = after_two_stages(wv.Hybrid(), 8)
    assert run.units[0].own.counts[MOVES] == 8
    assert run.units[0].floats[LAMBDA] == rate


def test_the_users_choice_stays() -> None:
    run, rate = after_two_stages(wv.Hybrid(moves=50), 50)
    assert run.units[0].own.counts[MOVES] == 50
    assert run.units[0].floats[LAMBDA] == rate


# --- trends of the size


def ends_of_stages(sizes, chains=2, warmup=100):
    """What chains have counted at the ends of stages of doubling length, if their draws of each stage have these sizes, (stages, chains)."""
    times = warmup * 2.0 ** np.arange(1, len(sizes) + 1)
    lengths = np.diff(np.append(warmup, times))
    draws = np.cumsum(lengths)
    sums = np.cumsum(lengths[:, None] * np.asarray(sizes, float).reshape(len(sizes), -1), axis=0)
    return [np.array([np.full(chains, t), np.full(chains, d), s]) for t, d, s in zip(times, draws, sums)]


def test_lags_are_slopes_against_the_logarithm_of_time():
    middles = np.log([150, 300, 600])
    lengths = np.array([100, 200, 400])
    sizes = np.stack([5 + 2 * middles, np.full(3, 7.0)], axis=1)
    mean = lengths @ middles / lengths.sum()
    np.testing.assert_allclose(
        lags_of_size(100, ends_of_stages(sizes)), [2 * (np.log(800) - mean), 0], atol=1e-9
    )


def test_lags_need_two_stages_with_draws():
    ends = ends_of_stages([[5, 5], [6, 6]])
    assert np.isnan(lags_of_size(100, ends[:1])).all()
    assert np.isfinite(lags_of_size(100, ends)).all()
    # the end of the run is that of a stage: what comes after it has no draws
    np.testing.assert_array_equal(lags_of_size(100, [*ends, ends[-1]]), lags_of_size(100, ends))
    ends[1][1:, 1] = ends[0][1:, 1]  # the second chain had no draw in the second stage
    np.testing.assert_array_equal(np.isnan(lags_of_size(100, ends)), [False, True])


def test_sizes_are_kept_by_stage_and_chain():
    """They add up to all draws, whatever the chunks in which a run is advanced."""
    problem = eight_variables()
    runs = [wv.sample(problem, wv.Hybrid(), draws=8000, replicates=2, seed=3, chunk=chunk, progress=False) for chunk in (None, 100)]  # fmt: skip
    lags = [posterior.comparison.lags for posterior in runs]
    assert lags[0].shape == (10,)
    assert np.isfinite(lags[0]).all()
    np.testing.assert_array_equal(*lags)
    assert wv.sample(problem, wv.TemperedGibbs(), draws=2000, seed=3, progress=False).comparison.lags is None
