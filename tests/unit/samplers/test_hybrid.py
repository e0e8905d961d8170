"""The hybrid's mixture of flips and moves, after warm-up."""

import numpy as np
import pytest

import whichvars as wv
from support.cases import eight_variables
from whichvars.samplers.contract import Run
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
