"""Sums of products by lanes: the order of the additions is the same on every machine, and without the JIT."""

from collections.abc import Callable

import numba
import numpy as np
import pytest

from whichvars._kernels.lanes import fetch, four_sums_by_eights, sum_by_eights, sum_by_fours


def _called(function: Callable[..., float]) -> Callable[..., float]:
    """What a kernel makes of it."""
    if numba.config.DISABLE_JIT:
        return function

    @numba.njit
    def call(a, b, n):
        return function(a, b, n)

    return call


def _four_sums(a: np.ndarray, others: np.ndarray, n: int) -> tuple[float, ...]:
    if numba.config.DISABLE_JIT:
        return four_sums_by_eights(a, *others, n)
    return _call_four(a, others, n)


@numba.njit
def _call_four(a, others, n):
    return four_sums_by_eights(a, others[0], others[1], others[2], others[3], n)


@numba.njit
def _ask_and_read(a, first, last, place):
    fetch(a, first, last)
    return a[place]


def in_order(a: np.ndarray, b: np.ndarray, lanes: int) -> float:
    """The sum as the documentation of the lanes describes it, one addition at a time."""
    whole = len(a) - len(a) % lanes
    sums = [0.0] * lanes
    for start in range(0, whole, lanes):
        for lane in range(lanes):
            sums[lane] += float(a[start + lane]) * float(b[start + lane])
    for t in range(whole, len(a)):
        sums[0] += float(a[t]) * float(b[t])
    if lanes == 4:
        return (sums[0] + sums[2]) + (sums[1] + sums[3])
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))


@pytest.mark.parametrize(("function", "lanes"), [(sum_by_fours, 4), (sum_by_eights, 8)])
def test_bits(function: Callable[..., float], lanes: int) -> None:
    summed, rng = _called(function), np.random.default_rng(0)
    different = 0
    for n in [*range(20), 71, 128, 1001]:
        a, b = rng.normal(size=(2, n + 3)) * 10.0 ** rng.integers(-8, 9, size=(2, n + 3))
        for start in range(3):  # wherever in memory the numbers begin
            x, y = a[start : start + n], b[3 - start : 3 - start + n]
            assert summed(x, y, n) == in_order(x, y, lanes)
            different += in_order(x, y, lanes) != float(np.sum(x * y))
    assert different > 0  # another order would be seen


def test_four_sums_at_once_have_the_bits_of_each() -> None:
    rng = np.random.default_rng(1)
    for n in [*range(20), 71, 128, 1001]:
        a = rng.normal(size=n) * 10.0 ** rng.integers(-8, 9, size=n)
        others = rng.normal(size=(4, n))
        assert _four_sums(a, others, n) == tuple(in_order(a, b, 8) for b in others)
    assert _four_sums(np.ones(11), np.arange(44.0).reshape(4, 11), 2) == (1.0, 23.0, 45.0, 67.0)


def test_the_first_entries_only() -> None:
    a = np.arange(1.0, 12.0)
    assert _called(sum_by_eights)(a, np.ones(11), 9) == 45.0
    assert _called(sum_by_fours)(a, np.ones(11), 0) == 0.0


def test_what_is_not_a_number_stays_so() -> None:
    a, b = np.ones(9), np.ones(9)
    a[8], b[2] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        assert np.isnan(_called(sum_by_eights)(a, b, 9))


@pytest.mark.parametrize("kind", [np.float64, np.uint64, np.int32])
def test_fetching_changes_nothing(kind: type) -> None:
    a = np.arange(100).astype(kind)
    for first, last in ((0, 100), (99, 100), (5, 5), (7, 3)):
        assert _ask_and_read(a, first, last, 42) == 42
    assert (a == np.arange(100)).all()
