"""Weights of models by stages, written out in plain Python beside what the tally makes of the same draws."""

import numpy as np
import pytest

import whichvars as wv
from whichvars._kernels.chain import LOG_MARGINAL, LOG_PRIOR, new_chain
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.count.tally import (
    FIRST_STAGE_OF_WEIGHTS,
    NOW,
    STAGE,
    new_tally,
    note_draw,
    start_counting_draws,
)
from whichvars._kernels.evaluate import set_model
from whichvars.sampling.estimates import known_models, model_weights

P = 5


def sequence(length):
    """Models that come again and again, the better ones more often than chance, and new ones until the end."""
    rng = np.random.default_rng(2)
    often = [tuple(np.flatnonzero(rng.random(P) < 0.4).tolist()) for _ in range(6)]
    others = [tuple(np.flatnonzero(rng.random(P) < 0.5).tolist()) for _ in range(length)]
    return [often[rng.integers(6)] if rng.random() < 0.8 else others[i] for i in range(length)]


def stages(draws, log_posterior):
    """Weights, and for every stage the known models, how many draws were of them, and how many there were."""
    weights = dict.fromkeys(draws, 0.0)
    known, met, found, now, end = set(), set(), [], [], FIRST_STAGE_OF_WEIGHTS
    for i, model in enumerate(draws, 1):
        now.append(model)
        if i == end or i == len(draws):
            held = [m for m in now if m in known]
            total = sum(np.exp(log_posterior[m]) for m in known)
            for m in known:
                weights[m] += len(held) * np.exp(log_posterior[m]) / total
            for m in now:
                weights[m] += m not in known
            found.append((set(known), len(held), len(now)))
            met |= set(now)
            if i == end:
                known, now, end = set(met), [], 2 * end
    return weights, found


@pytest.mark.parametrize("length", [5, 31, 32, 33, 64, 100, 300, 513])
def test_draws_are_shared_out_by_stages(length):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, P))
    problem = wv.Problem(X, 0.5 * X[:, 0] + rng.normal(size=30))
    target, memo = problem.target(P), new_memo(0)
    chain, tally = new_chain(target, P), new_tally(P, P, 64, 16, 8)
    start_counting_draws(tally, [])
    draws, log_posterior = sequence(length), {}
    for model in draws:
        assert set_model(target, chain, memo, np.array(model, np.int64), len(model))
        log_posterior[model] = float(chain.floats[LOG_MARGINAL] + chain.floats[LOG_PRIOR])
        note_draw(chain, tally)
    want, found = stages(draws, log_posterior)
    weights = model_weights(tally)
    assert tally.ints[NOW] == length
    for e, weight in enumerate(weights):
        model = tuple(sorted(tally.pool[tally.model_start[e] : tally.model_start[e + 1]].tolist()))
        assert weight == pytest.approx(want.pop(model), rel=1e-9), model
    assert not want
    assert weights.sum() == pytest.approx(length)
    # what the evidence is made of: the longest stage in which something was known, the last of several
    usable = [s for s in found if s[0]]
    known = known_models([tally])
    if not usable:
        assert known is None
        return
    models, held, total = max(reversed(usable), key=lambda s: s[2])
    assert known.share == pytest.approx(held / total)
    assert known.log_mass == pytest.approx(np.log(sum(np.exp(log_posterior[m]) for m in models)))
    assert (
        tally.ints[STAGE] == max(0, int(np.log2(length / FIRST_STAGE_OF_WEIGHTS)) + 1)
        if length >= FIRST_STAGE_OF_WEIGHTS
        else True
    )
