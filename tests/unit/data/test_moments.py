"""Sums over rows: against sums in extended precision, whatever the portions, the weights and the scales."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichvars.data import moments
from whichvars.data.moments import Accumulator, Moments, add_all, no_rows
from whichvars.errors import DataError

NAMES = ["a", "b", "c"]


def nothing(names=NAMES):
    return no_rows(Moments, names, ["y"], False)


def rows(n: int, seed: int = 0) -> np.ndarray:
    """(4, n): a mean of 10⁸ sds, one of −3, a constant one, and a response that depends on the first."""
    rng = np.random.default_rng(seed)
    a = 1e8 + rng.standard_normal(n)
    b = 1e-5 * rng.standard_normal(n) - 3e-5
    return np.array([a, b, np.full(n, 0.1), a - 1e5 * b + rng.standard_normal(n)])


def total(table: np.ndarray, weights=None, cuts=()) -> Moments:
    sums = Accumulator(nothing())
    for part in np.split(np.arange(table.shape[1]), sorted(cuts)):
        sums.add(list(table[:, part]), None if weights is None else weights[part])
    return sums.total()


def truth(table, weights=None):
    """Mean and scatter by two passes in extended precision."""
    wide = table.astype(np.longdouble)
    w = np.ones(table.shape[1], np.longdouble) if weights is None else weights.astype(np.longdouble)
    mean = (wide * w).sum(axis=1) / w.sum()
    centred = wide - mean[:, None]
    return mean, (centred * w) @ centred.T


def errors(found: Moments, table, weights=None) -> float:
    """The largest error of a product, relative to the lengths of its two columns."""
    _, scatter = truth(table, weights)
    lengths = np.sqrt(np.diagonal(scatter))
    lengths = np.where(lengths < 1e-9 * np.abs(table).max(axis=1), 1.0, lengths)
    return float(np.max(np.abs(found.scatter - scatter) / lengths / lengths[:, None]))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(moments, "CELLS", 4 * 25)  # 25 rows


@pytest.mark.parametrize("weighted", [False, True])
def test_as_exact_as_two_passes_where_means_are_huge(weighted, small_blocks):
    table = rows(10_000)
    weights = np.random.default_rng(1).uniform(0.1, 5, 10_000) if weighted else None
    found = total(table, weights)
    assert errors(found, table, weights) < 2e-14
    mean, _ = truth(table, weights)
    np.testing.assert_allclose(found.origin.astype(np.longdouble) + found.offset, mean, rtol=1e-15)
    assert found.n == 10_000
    assert found.total_weight == pytest.approx(10_000 if weights is None else weights.sum(), rel=1e-14)
    assert found.scatter[2, 2] < 1e-24 * 10_000 * 0.1**2  # constant
    np.testing.assert_array_equal(found.scatter, found.scatter.T)


def test_the_textbook_formula_would_fail_this():
    """Otherwise the test above shows nothing."""
    table = rows(10_000)
    mean = table.mean(axis=1)
    naive = table @ table.T - 10_000 * np.outer(mean, mean)
    _, scatter = truth(table)
    assert abs(naive[0, 0] / scatter[0, 0] - 1) > 0.01


def test_means_in_two_parts_are_needed(small_blocks):
    """With means rounded to one number, merging blocks costs half of the digits."""
    table = rows(10_000)
    parts = []
    for part in np.split(np.arange(10_000), 400):
        found = total(table[:, part])
        parts.append(Moments(**{**vars(found), "offset": np.zeros(4)}))
    assert errors(add_all(parts), table) > 1e-11


@settings(max_examples=50, deadline=None)
@given(
    n=st.integers(1, 400),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    weighted=st.booleans(),
    seed=st.integers(0, 5),
)
def test_any_portions_give_the_same_bits_and_any_merging_the_same_to_rounding(n, cuts, weighted, seed):
    table = rows(n, seed)
    cuts = [min(cut, n) for cut in cuts]
    weights = np.random.default_rng(seed).integers(0, 3, n).astype(float) if weighted else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "CELLS", 4 * 25)
        whole, portioned = total(table, weights), total(table, weights, cuts)
        merged = add_all(
            total(table[:, part], None if weights is None else weights[part])
            for part in np.split(np.arange(n), sorted(cuts))
        )
    for name in ("n", "total_weight", "weight_range", "origin", "offset", "scatter"):
        np.testing.assert_array_equal(getattr(portioned, name), getattr(whole, name))
    assert (merged.n, merged.total_weight, merged.weight_range) == (
        whole.n,
        whole.total_weight,
        whole.weight_range,
    )
    if whole.n:
        used = slice(None) if weights is None else weights > 0
        assert errors(merged, table[:, used], None if weights is None else weights[used]) < 1e-13
        np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-15)


def test_rows_of_weight_zero_are_not_there():
    table = rows(60)
    weights = np.tile([0.0, 2.0, 1.0], 20)
    some = total(table, weights)
    used = weights > 0
    again = total(table[:, used], weights[used])
    assert some.n == 40
    assert some.weight_range == (1.0, 2.0)
    np.testing.assert_array_equal(some.scatter, again.scatter)


def test_equal_weights_of_one_are_no_weights():
    table = rows(60)
    np.testing.assert_array_equal(total(table, np.ones(60)).scatter, total(table).scatter)


def test_memory_does_not_grow_with_the_rows(small_blocks):
    sums = Accumulator(nothing())
    for seed in range(200):
        sums.add(list(rows(25, seed)))
    assert len(sums.sums) <= 8  # log2(200)
    assert sums.total().n == 5000


def test_nothing_added_is_nothing():
    empty = Accumulator(nothing()).total()
    some = total(rows(10))
    assert empty.n == 0
    for sum_ in (empty + some, some + empty):
        np.testing.assert_array_equal(sum_.scatter, some.scatter)
        assert sum_.n == 10


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a", "b", "d"], "lacks 'c'"),
        (["a", "b", "c", "d"], "has 'd' as well"),
        (["b", "a", "c"], "another order"),
    ],
)
def test_other_columns_are_not_added(names, said):
    with pytest.raises(DataError, match=said):
        nothing() + nothing(names)


def test_only_statistics_are_added():
    with pytest.raises(TypeError):
        nothing() + 1  # type: ignore[operator]


@pytest.mark.parametrize(("factor", "said"), [(1e160, "'b'.* too large"), (1e-160, "'b'.* too small")])
def test_what_cannot_be_squared_is_refused_by_name(factor, said):
    table = np.random.default_rng(0).standard_normal((4, 50))
    table[1] *= factor
    with pytest.raises(DataError, match=said):
        total(table)


def test_two_parts_that_are_too_far_apart_are_refused_by_name():
    table = np.random.default_rng(0).standard_normal((4, 50))
    far = table + np.array([0, 1e170, 0, 0])[:, None]
    with pytest.raises(DataError, match=r"'b'.* too large"):
        total(table) + total(far)
