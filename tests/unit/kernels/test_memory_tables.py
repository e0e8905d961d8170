"""The bounded tables: the memo of log marginal likelihoods, and the tally against a naive recount."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.in_turn import in_turn
from support.kernels import from_python
from support.paired import make_paired, model_priors
from whichvars._kernels.chain import LOG_MARGINAL, LOG_PRIOR, NULL_KEY, SIZE
from whichvars._kernels.count import model_table, tally
from whichvars._kernels.count.model_table import (
    ALL_HITS,
    ALL_LOOKUPS,
    HITS,
    LOOKUPS,
    REST,
    RESTING,
    WAYS,
    WINDOW,
    new_memo,
)
from whichvars._kernels.count.tally import count_up_to_now, new_tally
from whichvars.problem.problem import Problem
from whichvars.samplers.add_delete_swap import AddDeleteSwap
from whichvars.samplers.contract import Run, begin_counting, new_unit

recall = from_python(model_table.recall)
remember = from_python(model_table.remember)
nth_smallest = from_python(tally._nth_smallest)


# --- memo


def random_keys(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, np.iinfo(np.uint64).max, size=count, dtype=np.uint64)


def test_memo_returns_what_it_was_given():
    memo = new_memo(1 << 12)
    keys = random_keys(500)
    for i, key in enumerate(keys):
        assert np.isnan(recall(memo, key))
        remember(memo, key, float(i))
    found = np.array([recall(memo, key) for key in keys])
    assert ((found == np.arange(500)) | np.isnan(found)).all()
    assert np.isfinite(found).mean() > 0.98  # four ways: hardly anything was pushed out
    assert memo.counters[ALL_LOOKUPS] == 1000
    assert memo.counters[ALL_HITS] == np.isfinite(found).sum()


@pytest.mark.parametrize("slots", [0, 4, 64, 1 << 12])
def test_a_bucket_is_one_line_of_the_processors_cache(slots: int) -> None:
    memo = new_memo(slots)
    assert memo.keys.ctypes.data % (16 * WAYS) == 0
    assert memo.keys.shape == memo.values.shape == (2 * max(slots, WAYS),)
    assert np.shares_memory(memo.keys, memo.values)


def test_memo_keeps_minus_infinity_and_the_null_model():
    memo = new_memo(64)
    remember(memo, NULL_KEY, 0.0)
    assert recall(memo, NULL_KEY) == 0.0
    other = np.uint64(12345)
    remember(memo, other, -np.inf)
    assert recall(memo, other) == -np.inf


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), distinct=st.integers(1, 400))
def test_memo_of_64_slots_is_bounded_and_never_wrong(seed, distinct):
    memo = new_memo(64)
    keys = random_keys(distinct, seed)
    values = {int(key): float(i) for i, key in enumerate(keys)}
    size = memo.keys.nbytes
    for key in np.random.default_rng(seed).choice(keys, 600):
        found = recall(memo, key)
        assert np.isnan(found) or found == values[int(key)]
        if np.isnan(found):
            remember(memo, key, values[int(key)])
            assert recall(memo, key) == values[int(key)]
    assert memo.keys.nbytes == size == 64 * 16
    kept = memo.keys[::2][memo.keys[::2] != 0]
    assert len(set(kept.tolist())) == len(kept) <= 64
    assert memo.counters[LOOKUPS] == memo.counters[ALL_LOOKUPS]
    for entry in np.flatnonzero(memo.keys[::2]):  # each in the bucket its key belongs to
        assert entry // WAYS == int(memo.keys[2 * entry]) % (64 // WAYS)


def test_memo_without_slots_never_answers():
    memo = new_memo(0)
    for key in random_keys(100):
        remember(memo, key, 1.0)
        assert np.isnan(recall(memo, key))
    assert not memo.keys.any()
    assert memo.counters[ALL_LOOKUPS] == 0


@pytest.mark.parametrize("slots", [1, 2, 3, 6, 100])
def test_memo_needs_a_power_of_two(slots):
    with pytest.raises(ValueError, match="power of two"):
        new_memo(slots)


def test_memo_rests_where_few_lookups_are_hits():
    memo = new_memo(64)
    kept, other = random_keys(2)
    remember(memo, kept, 1.0)
    for _ in range(WINDOW):
        recall(memo, other)
    assert memo.counters[RESTING] == REST
    assert np.isnan(recall(memo, kept))  # at rest
    remember(memo, other, 2.0)
    assert other not in memo.keys
    for _ in range(REST - 1):
        recall(memo, kept)
    assert memo.counters[RESTING] == 0
    assert recall(memo, kept) == 1.0  # awake, and it has kept what it had
    assert memo.counters[LOOKUPS] == memo.counters[HITS] == 1


def test_memo_goes_on_where_a_fifth_of_lookups_are_hits():
    memo = new_memo(64)
    kept, other = random_keys(2)
    remember(memo, kept, 1.0)
    for i in range(WINDOW):
        recall(memo, kept if i < WINDOW // 5 + 1 else other)
    assert memo.counters[RESTING] == memo.counters[LOOKUPS] == memo.counters[HITS] == 0


# --- tally


def new_run(problem: Problem, sampler: AddDeleteSwap, **room: Any) -> Run:
    unit = new_unit(
        problem, np.random.SeedSequence(7, spawn_key=(0,)), 0, np.array([1, 2]), sampler.memo_slots
    )
    unit.own = np.zeros((2, 3), np.int64)
    options = {"models": 64, "records": 32, "batches": 8, "batch_length": 3} | room
    unit.tally = new_tally(problem.p, len(unit.chain.slot), **options)
    return Run([unit], None)


def current(run: Run) -> tuple[tuple[int, ...], float, float]:
    chain = run.units[0].chain
    members = tuple(sorted(chain.order[: chain.ints[SIZE]].tolist()))
    return members, float(chain.floats[LOG_MARGINAL]), float(chain.floats[LOG_PRIOR])


def recount(problem: Problem, sampler: AddDeleteSwap, warmup: int, draws: int) -> list:
    """The model after each counted iteration, by looking after every single one."""
    run = new_run(problem, sampler)
    sampler.advance(problem, run, 0, warmup)
    models = []
    for _ in range(draws):
        sampler.advance(problem, run, 0, 1)
        models.append(current(run))
    return models


def counted(problem: Problem, sampler: AddDeleteSwap, warmup: int, chunks: list[int], **room: Any) -> Any:
    """The tally of a run in chunks, looked at between them."""
    run = new_run(problem, sampler, **room)
    sampler.advance(problem, run, 0, warmup)
    begin_counting(problem, run)
    for chunk in chunks:
        sampler.advance(problem, run, 0, chunk)
        count_up_to_now(run.units[0].chain, run.units[0].tally)
    return run.units[0].tally


def kept_models(t: Any) -> dict[tuple[int, ...], int]:
    models = {}
    for e in range(int(t.ints[tally.MODELS])):
        members = tuple(sorted(t.pool[t.model_start[e] : t.model_start[e + 1]].tolist()))
        assert members not in models
        models[members] = int(t.model_count[e])
    return models


def a_problem(**parts: Any) -> Problem:
    case = make_paired(**{"columns": 8, "n": 25, **parts})
    return case.problem(model_prior=model_priors("fixed", case.p)[0])


WARMUP = 57


@pytest.mark.parametrize("draws", [1, 2, 3, 23, 24, 25, 700, 3001])
@pytest.mark.parametrize("chunk", [None, 1, 97])
def test_counts_equal_a_naive_recount(draws, chunk):
    problem, sampler = a_problem(), AddDeleteSwap(memo_slots=64)
    models = recount(problem, sampler, WARMUP, draws)
    size = chunk or draws
    chunks = [size] * (draws // size) + [draws % size] * (draws % size > 0)
    t = counted(problem, sampler, WARMUP, chunks, models=256)
    inside = np.array([[j in members for j in range(problem.p)] for members, *_ in models])

    # batches, merged by twos whenever all 8 rows were full
    length, complete = int(t.ints[tally.BATCH_LENGTH]), int(t.ints[tally.BATCH])
    doublings = 0
    while draws >= 3 * 8 * 2**doublings:
        doublings += 1
    assert length == 3 * 2**doublings
    assert complete == draws // length
    for b in range(8):
        np.testing.assert_array_equal(t.batch_counts[b], inside[b * length : (b + 1) * length].sum(axis=0))
    assert t.ints[tally.NOW] == draws

    np.testing.assert_array_equal(t.sizes, np.bincount(inside.sum(axis=1), minlength=problem.p + 1))
    assert kept_models(t) == Counter(members for members, *_ in models)

    # the record: iterations T, 2T, …, at most 31 of them
    thin, records = int(t.ints[tally.THIN]), int(t.ints[tally.RECORDS])
    assert thin == 1 << max(0, int(np.ceil(np.log2((draws + 1) / 32))))
    assert records == draws // thin < 32
    for r in range(records):
        members, marginal, prior = models[(r + 1) * thin - 1]
        assert tuple(sorted(t.record_models[r, : t.record_size[r]].tolist())) == members
        assert tuple(t.record_values[r]) == (marginal, prior)


@pytest.mark.parametrize(
    ("room", "parts", "memo_slots"),
    in_turn(
        [1, 2, 3, 5, 16],
        [{}, {"duplicate": True}, {"groups": [[0, 1], [2], [3], [4], [5], [6, 7]]}],
        [0, 1 << 12],
    ),
)
@pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")
def test_a_table_that_overflows_keeps_exact_counts(room, parts, memo_slots):
    problem, sampler = a_problem(**parts), AddDeleteSwap(memo_slots=memo_slots)
    models = recount(problem, sampler, WARMUP, 3000)
    t = counted(problem, sampler, WARMUP, [1000, 1, 1999], models=room)
    visits = Counter(members for members, *_ in models)
    assert len(visits) > 2 * room
    kept = kept_models(t)
    assert len(kept) <= room
    assert kept == {members: visits[members] for members in kept}
    # what is in the table is better than all that is not
    value = {members: marginal + prior for members, marginal, prior in models}
    assert sorted(kept) == sorted(m for m in visits if value[m] > t.threshold[0])
    if room >= 5 and not parts:
        assert len(kept) >= room // 2 - 1


@settings(max_examples=100, deadline=None, derandomize=True)
@given(values=st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0, 7.0]) | st.floats(-1e3, 1e3), min_size=1, max_size=40), data=st.data())  # fmt: skip
def test_nth_smallest(values, data):
    count = data.draw(st.integers(1, len(values)))
    nth = data.draw(st.integers(0, count - 1))
    array = np.array(values)
    assert nth_smallest(array, count, nth) == np.sort(values[:count])[nth]
    assert sorted(array[:count]) == sorted(values[:count])
    assert array[count:].tolist() == values[count:]
