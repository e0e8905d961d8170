"""The bucket sampler: its law is that of independent coins, its structure survives any moves, its cost is independent of p."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from support.kernels import from_python
from support.kinds import mainly
from whichvars._kernels.jit import entry
from whichvars._kernels.propose.adapt import ADD, new_adaptation, set_logits
from whichvars._kernels.propose.bernoulli import (
    BUCKETS,
    SEGMENT,
    Buckets,
    bucket_of,
    draw_successes,
    draw_successes_one_by_one,
    move_between_buckets,
    new_buckets,
)

MILLION = 1_000_000
move = from_python(move_between_buckets)
TINY = 2.0**-60  # far below the last bucket's lower end


@entry
def count_outcomes(buckets, values, position, rng, out, by_buckets, times, counts):
    """Draw `times` times; counts[mask] of each outcome of the first few variables."""
    for _ in range(times):
        if by_buckets:
            n = draw_successes(buckets.members, buckets.start, buckets.segment, values, position, rng, out)
        else:
            n = draw_successes_one_by_one(values, position, rng, out)
        mask = 0
        for i in range(n):
            mask |= 1 << out[i]
        counts[mask] += 1


@entry
def count_pairs(buckets, values, position, rng, out, times, together):
    """Draw `times` times; together[i, j]: how often both, on the diagonal how often one."""
    for _ in range(times):
        n = draw_successes(buckets.members, buckets.start, buckets.segment, values, position, rng, out)
        for a in range(n):
            for b in range(n):
                together[out[a], out[b]] += 1


@entry
def set_logits_many(adaptation, variables, logits):
    for i in range(variables.shape[0]):
        set_logits(adaptation, variables[i], logits[i], -logits[i])


def values_of(probability: np.ndarray) -> np.ndarray:
    values = np.full((len(probability), 4), np.nan)
    values[:, ADD] = probability
    return values


def outcomes(
    probability: np.ndarray, position: np.ndarray, *, by_buckets: bool = True, seed: int = 1, shuffle: int = 0
) -> np.ndarray:
    """How often each of the 2^p outcomes came in a million draws."""
    p = len(probability)
    buckets = new_buckets(probability)
    if shuffle:  # the same buckets with their members in another order
        rng = np.random.default_rng(shuffle)
        for j in rng.integers(0, p, 10 * p):
            move(buckets.bucket, buckets.place, buckets.members, buckets.start, j, rng.integers(BUCKETS))
        for j in range(p):
            to = new_buckets(probability).bucket[j]
            move(buckets.bucket, buckets.place, buckets.members, buckets.start, j, to)
    counts = np.zeros(1 << p, np.int64)
    count_outcomes(
        buckets, values_of(probability), position.astype(np.int32), np.random.default_rng(seed),
        np.zeros(p, np.int32), by_buckets, MILLION, counts,
    )  # fmt: skip
    assert counts.sum() == MILLION
    return counts


def law_of(probability: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Exact probability of each outcome of independent coins, for variables that are out."""
    law = np.ones(1)
    for q in np.where(position < 0, probability, 0.0):
        law = np.concatenate([law * (1 - q), law * q])  # variable j is bit j
    return law


def chi_square(counts: np.ndarray, law: np.ndarray) -> float:
    """P-value; outcomes that are expected fewer than ten times are put together."""
    expected = law * counts.sum()
    rare = expected < 10
    assert np.all(counts[law == 0] == 0)
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 1e-3:
        assert observed[-1] == 0
        observed, expected = observed[:-1], expected[:-1]
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, max(len(observed) - 1, 1)))


JOINT = {
    "many buckets": [0.8, 0.3, 0.11, 0.04, 0.017, 0.006],
    "one bucket": [0.3, 0.26, 0.49, 0.4, 0.3, 0.27],
    "two buckets": [0.2, 0.13, 0.24, 0.1, 0.09, 0.12],
    "powers of two": [0.5, 0.25, 0.25, 0.125, 2.0**-4, 2.0**-5],
    "just below powers of two": np.nextafter([0.5, 0.25, 0.25, 0.125, 2.0**-4, 1.0], 0).tolist(),
    "at least a half": [0.5, 0.6, 0.75, 0.9, 0.99, 1 - 1e-12],
    "tiny": [1e-3, 1e-5, 1e-9, TINY, 2.0**-47, 2.0**-48],
    "mixed": [0.97, TINY, 0.5, 2.0**-3, 0.2, 1e-4],
    "ten": [0.7, 0.5, 0.3, 0.3, 0.25, 0.2, 0.126, 0.1, 0.03, 1e-3],
}


@pytest.mark.parametrize("name", mainly(JOINT, ["many buckets", "just below powers of two", "tiny", "mixed"]))
def test_joint_law_over_a_million_draws(name: str) -> None:
    probability = np.array(JOINT[name])
    nothing_in = np.full(len(probability), -1)
    law = law_of(probability, nothing_in)
    assert chi_square(outcomes(probability, nothing_in), law) > 1e-4
    assert chi_square(outcomes(probability, nothing_in, seed=2, shuffle=5), law) > 1e-4


def test_coins_have_the_same_law() -> None:
    probability = np.array(JOINT["ten"])
    nothing_in = np.full(len(probability), -1)
    assert (
        chi_square(outcomes(probability, nothing_in, by_buckets=False), law_of(probability, nothing_in))
        > 1e-4
    )


@pytest.mark.parametrize("by_buckets", [True, False])
def test_included_variables_are_not_drawn_and_do_not_disturb_the_others(by_buckets: bool) -> None:
    probability = np.array(JOINT["ten"])
    position = np.full(10, -1)
    position[[0, 3, 4, 8]] = [2, 0, 1, 3]
    counts = outcomes(probability, position, by_buckets=by_buckets, seed=3)
    hit = np.array([counts[(np.arange(1024) >> j) & 1 == 1].sum() for j in range(10)])
    assert np.all(hit[position >= 0] == 0)
    assert np.all(hit[position < 0] > 0)
    assert chi_square(counts, law_of(probability, position)) > 1e-4


def test_a_wrong_law_would_be_seen() -> None:
    probability = np.array(JOINT["many buckets"])
    nothing_in = np.full(6, -1)
    wrong = probability.copy()
    wrong[4] *= 1.08  # by 0.0014
    assert chi_square(outcomes(probability, nothing_in), law_of(wrong, nothing_in)) < 1e-6


def test_marginals_and_pairs_of_three_hundred() -> None:
    p, times = 300, 300_000
    rng = np.random.default_rng(8)
    probability = np.exp(rng.uniform(np.log(1e-5), np.log(0.6), p))
    probability[:40] = rng.uniform(0.125, 0.25, 40)  # many in one bucket
    probability[40:45] = [0.5, 0.25, 0.9, 0.125, 0.999]
    together = np.zeros((p, p), np.int64)
    buckets = new_buckets(probability)
    count_pairs(
        buckets, values_of(probability), np.full(p, -1, np.int32), rng, np.zeros(p, np.int32), times, together
    )
    expected = times * probability
    z = (np.diag(together) - expected) / np.sqrt(expected * (1 - probability))
    usable = expected > 30
    assert usable.sum() > 150
    assert np.abs(z[usable]).max() < 4.5
    assert stats.kstest(z[usable], "norm").pvalue > 1e-3
    np.testing.assert_array_less(
        stats.poisson.isf(1 - 1e-6, expected[~usable]) - 1, np.diag(together)[~usable]
    )
    np.testing.assert_array_less(np.diag(together)[~usable], stats.poisson.isf(1e-6, expected[~usable]) + 1)

    i, j = np.triu_indices(p, 1)
    both = probability[i] * probability[j]
    # covariance of two centred indicators at the known probabilities: mean 0, variance q_i(1−q_i)q_j(1−q_j) each draw
    covariance = (
        together[i, j]
        - probability[i] * together[j, j]
        - probability[j] * together[i, i]
        + times * both
    )  # fmt: skip
    pair_z = covariance / np.sqrt(times * both * (1 - probability[i]) * (1 - probability[j]))
    frequent = times * both > 30
    assert frequent.sum() > 5000
    assert np.abs(pair_z[frequent]).max() < 5.5
    assert 0.95 < np.mean(pair_z[frequent] ** 2) < 1.05
    place = buckets.place.astype(int)
    neighbours = frequent & (np.abs(place[i] - place[j]) == 1)  # segments that touch
    assert neighbours.sum() > 60
    assert np.abs(pair_z[neighbours]).max() < 4.5
    assert abs(pair_z[neighbours].mean()) < 4 / math.sqrt(neighbours.sum())


# --- structure


def assert_consistent(buckets: Buckets, bucket: np.ndarray) -> None:
    p = len(bucket)
    np.testing.assert_array_equal(buckets.bucket, bucket)
    np.testing.assert_array_equal(np.sort(buckets.members), np.arange(p))
    np.testing.assert_array_equal(buckets.place[buckets.members], np.arange(p))
    assert buckets.start[0] == 0
    assert buckets.start[BUCKETS] == p
    np.testing.assert_array_equal(np.diff(buckets.start), np.bincount(bucket, minlength=BUCKETS))
    np.testing.assert_array_equal(
        bucket[buckets.members], np.repeat(np.arange(BUCKETS), np.diff(buckets.start))
    )


def test_new_buckets() -> None:
    rng = np.random.default_rng(0)
    powers = 2.0 ** -np.arange(1.0, 60)
    probability = np.concatenate(
        [
            powers,
            np.nextafter(powers, 0),
            np.nextafter(powers, 1),
            2.0 ** -rng.uniform(0, 60, 500),
            [1.0, 1e-300],
        ]
    )
    buckets = new_buckets(probability)
    b = buckets.bucket.astype(int)
    assert np.all(probability[b > 0] < np.ldexp(1.0, -b[b > 0]))
    ordinary = (b > 0) & (b < BUCKETS - 1)
    assert np.all(probability[ordinary] >= np.ldexp(1.0, -b[ordinary] - 1))
    assert np.all(probability[b == 0] >= 0.5)
    assert np.all(b[probability < 2.0**-48] == BUCKETS - 1)
    assert_consistent(buckets, b)
    of = from_python(bucket_of)
    assert [of(q) for q in probability] == b.tolist()


def test_segments() -> None:
    assert SEGMENT[0] == np.inf
    np.testing.assert_allclose(-np.expm1(-SEGMENT[1:]), 2.0 ** -np.arange(1.0, BUCKETS), rtol=1e-15)


@pytest.mark.parametrize("p", [1, 2, 7, 200])
def test_buckets_after_thousands_of_moves(p: int) -> None:
    rng = np.random.default_rng(p)
    buckets = new_buckets(2.0 ** -rng.uniform(0, 10, p))
    bucket = buckets.bucket.astype(int)
    for step in range(4000):
        j = int(rng.integers(p))
        to = (
            int(rng.integers(BUCKETS))
            if step % 3 == 0
            else int(np.clip(bucket[j] + rng.integers(-2, 3), 0, BUCKETS - 1))
        )
        move(buckets.bucket, buckets.place, buckets.members, buckets.start, j, to)
        bucket[j] = to
        if step % 10 == 0 or p < 10:
            assert_consistent(buckets, bucket)
    assert_consistent(buckets, bucket)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 6), st.lists(st.tuples(st.integers(0, 5), st.integers(0, BUCKETS - 1)), max_size=30))
def test_buckets_after_any_moves(p: int, moves: list[tuple[int, int]]) -> None:
    buckets = new_buckets(np.full(p, 0.1))
    bucket = np.full(p, 3)
    for j, to in moves:
        move(buckets.bucket, buckets.place, buckets.members, buckets.start, j % p, to)
        bucket[j % p] = to
        assert_consistent(buckets, bucket)


def test_learning_keeps_variables_in_the_bucket_of_their_probability() -> None:
    p = 50
    rng = np.random.default_rng(3)
    adaptation = new_adaptation(np.full(p, 0.1), np.full(p, 0.4), 1e-6, False)
    for _ in range(40):
        set_logits_many(adaptation, rng.integers(0, p, 100), rng.normal(scale=12, size=100))
        assert_consistent(adaptation.buckets, new_buckets(adaptation.values[:, ADD]).bucket.astype(int))


# --- cost


class Counting:
    """A generator that counts how often it was asked."""

    def __init__(self, seed: int) -> None:
        self.rng, self.calls = np.random.default_rng(seed), 0

    def random(self) -> float:
        self.calls += 1
        return float(self.rng.random())


@pytest.mark.parametrize("shape", ["one bucket", "spread"])
def test_random_numbers_used_do_not_grow_with_p(shape: str) -> None:
    plain = getattr(draw_successes, "py_func", draw_successes)
    successes_wanted, times = 4.0, 400
    used = {}
    for p in (100, 10_000, 1_000_000):
        weights = np.ones(p) if shape == "one bucket" else np.geomspace(1.0, 1e-4, p)
        probability = successes_wanted * weights / weights.sum()
        buckets = new_buckets(probability)
        values, position, out = values_of(probability), np.full(p, -1, np.int32), np.zeros(p, np.int32)
        rng = Counting(p)
        successes = sum(
            plain(buckets.members, buckets.start, buckets.segment, values, position, rng, out)
            for _ in range(times)
        )
        assert abs(successes / times - successes_wanted) < 5 * math.sqrt(successes_wanted / times)
        used[p] = rng.calls / times
    # one to start with; a success takes at most two points on average and each point two numbers
    assert max(used.values()) < 1 + 4 * successes_wanted * 1.1
    assert used[10_000] > successes_wanted
