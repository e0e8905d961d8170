"""The small Cholesky factors against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.kernels import from_python
from whichvars._kernels import linalg

dot = from_python(linalg.dot)
append = from_python(linalg.append)
adopt = from_python(linalg.adopt)
sum_log = from_python(linalg.sum_log)
smallest_tolerance = from_python(linalg.smallest_tolerance)
solve_transposed = from_python(linalg.solve_transposed)
factorise = from_python(linalg.factorise)

sizes = st.integers(1, 30)
seeds = st.integers(0, 2**32 - 1)
quick = settings(max_examples=40, deadline=None, derandomize=True)


def positive_definite(n: int, seed: int, unit: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """A random matrix XᵀX (with unit diagonal if asked for) and a right-hand side."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n + 3, n)) + 0.5 * rng.normal(size=(2 * n + 3, 1))
    if unit:
        X /= np.linalg.norm(X, axis=0)
    return X.T @ X, rng.normal(size=n)


def factored(matrix: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The library's factor: (factor, inverse pivots, solved)."""
    factor, inverse, solved, work = linalg.factor_arrays(len(matrix))
    assert factorise(matrix, right, factor, inverse, solved, work) == len(matrix)
    return factor, inverse, solved


def assert_is_factor(
    factor: np.ndarray, inverse: np.ndarray, solved: np.ndarray, matrix: np.ndarray, right: np.ndarray
) -> None:
    n = len(matrix)
    lower = np.linalg.cholesky(matrix)
    np.testing.assert_allclose(1 / inverse[:n], np.diag(lower), rtol=1e-10)
    np.testing.assert_allclose(np.tril(factor[:n, :n], -1), np.tril(lower, -1), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(solved[:n], np.linalg.solve(lower, right), rtol=1e-9, atol=1e-10)


@quick
@given(n=st.integers(0, 40), seed=seeds)
def test_dot(n, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(3, n)), rng.normal(size=(2, n))
    assert dot(a, 2, b, 1) == pytest.approx(a[2] @ b[1], abs=1e-12)
    assert dot(a, 2, b, 1) == dot(b, 1, a, 2)


@quick
@given(n=sizes, seed=seeds)
def test_factorise(n, seed):
    matrix, right = positive_definite(n, seed)
    assert_is_factor(*factored(matrix, right), matrix, right)


@quick
@given(n=st.integers(2, 30), seed=seeds, data=st.data())
def test_factorise_stops_at_the_first_pivot_that_is_not_positive(n, seed, data):
    matrix, right = positive_definite(n, seed)
    bad = data.draw(st.integers(0, n - 1))
    matrix[bad, bad] = -1.0
    factor, inverse, solved, work = linalg.factor_arrays(n)
    assert factorise(matrix, right, factor, inverse, solved, work) == bad
    assert_is_factor(factor, inverse, solved, matrix[:bad, :bad], right[:bad])
    assert not factor[bad:].any()
    assert not inverse[bad:].any()


@quick
@given(n=sizes, seed=seeds)
def test_append_returns_the_squared_pivot(n, seed):
    matrix, right = positive_definite(n, seed)
    factor, inverse, solved, work = linalg.factor_arrays(n)
    for i in range(n):
        work[:i] = matrix[i, :i]
        place = (factor, inverse, solved)
        pivot = append(*place, i, *place, i, work, matrix[i, i], right[i])
        others = matrix[:i, :i]
        schur = matrix[i, i] - matrix[i, :i] @ np.linalg.solve(others, matrix[:i, i])
        assert pivot == pytest.approx(schur, rel=1e-8)
    assert_is_factor(factor, inverse, solved, matrix, right)


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_append_with_head_and_tail_at_every_split(n):
    matrix, right = positive_definite(n, n)
    for split in range(n + 1):
        # the head is the factor of another matrix with the same first `split` columns
        other, other_right = positive_definite(n, n + 100)
        other[:split, :split] = matrix[:split, :split]
        other[split:, :split] = other[:split, split:] = 0.0
        other_right[:split] = right[:split]
        head = factored(other, other_right)
        before = [part.copy() for part in head]
        *tail, work = linalg.factor_arrays(n)
        for part in tail:
            part[...] = np.nan  # what the tail holds below the split must not matter
        for i in range(split, n):
            work[:i] = matrix[i, :i]
            assert append(*head, split, *tail, i, work, matrix[i, i], right[i]) > 0
        for part, copy in zip(head, before):
            np.testing.assert_array_equal(part, copy)  # a proposal leaves the head alone
        adopt(*head, split, *tail, n)
        assert_is_factor(*head, matrix, right)


def test_append_writes_nothing_where_the_column_depends_on_the_others():
    factor, inverse, solved, work = linalg.factor_arrays(2)
    place = (factor, inverse, solved)
    append(*place, 0, *place, 0, work, 4.0, 1.0)
    work[0] = 6.0
    before = [part.copy() for part in place]
    assert append(*place, 1, *place, 1, work, 9.0, 5.0) <= 0
    for part, copy in zip(place, before):
        np.testing.assert_array_equal(part, copy)


@quick
@given(n=sizes, seed=seeds, data=st.data())
def test_adopt_copies_the_tail_alone(n, seed, data):
    split = data.draw(st.integers(0, n))
    rng = np.random.default_rng(seed)
    head = [rng.normal(size=(n, n)), rng.normal(size=n), rng.normal(size=n)]
    tail = [rng.normal(size=(n, n)), rng.normal(size=n), rng.normal(size=n)]
    before = [part.copy() for part in head]
    adopt(*head, split, *tail, n)
    below = np.tril(np.ones((n, n), bool), -1)
    below[:split] = False
    np.testing.assert_array_equal(head[0], np.where(below, tail[0], before[0]))
    for now, new, old in zip(head[1:], tail[1:], before[1:]):
        np.testing.assert_array_equal(now, np.concatenate([old[:split], new[split:]]))


@quick
@given(
    logs=st.lists(st.floats(-414.4, 414.4), min_size=1, max_size=30),  # 1e-180 … 1e180
    data=st.data(),
)
def test_sum_log(logs, data):
    values = np.exp(np.array(logs))
    start = data.draw(st.integers(0, len(logs)))
    stop = data.draw(st.integers(start, len(logs)))
    assert sum_log(values, start, stop) == pytest.approx(
        np.log(values[start:stop]).sum(), rel=1e-12, abs=1e-10
    )


@pytest.mark.parametrize("value", [1e-180, 1e180])
@pytest.mark.parametrize("n", [1, 2, 3, 30])
def test_sum_log_of_extreme_values(value, n):
    assert sum_log(np.full(n, value), 0, n) == pytest.approx(n * np.log(value), rel=1e-13)


@quick
@given(n=sizes, seed=seeds, data=st.data())
def test_smallest_tolerance(n, seed, data):
    matrix, right = positive_definite(n, seed, unit=True)
    split = data.draw(st.integers(0, n))
    head, head_inverse, _ = factored(matrix, right)
    tail, tail_inverse = head.copy(), head_inverse.copy()
    head[split:], head_inverse[split:] = np.nan, np.nan
    tail[:split], tail_inverse[:split] = np.nan, np.nan
    found = smallest_tolerance(head, head_inverse, split, tail, tail_inverse, n, np.zeros(n))
    assert found == pytest.approx(1 / np.diag(np.linalg.inv(matrix)).max(), rel=1e-9)

    order = np.random.default_rng(seed).permutation(n)
    factor, inverse, _ = factored(matrix[np.ix_(order, order)], right[order])
    assert smallest_tolerance(factor, inverse, n, factor, inverse, n, np.zeros(n)) == pytest.approx(
        found, rel=1e-9
    )


@quick
@given(n=sizes, seed=seeds)
def test_solve_transposed(n, seed):
    matrix, right = positive_definite(n, seed)
    factor, inverse, solved = factored(matrix, right)
    out = np.full(n, np.nan)
    solve_transposed(factor, inverse, solved, n, out)
    np.testing.assert_allclose(out, np.linalg.solve(matrix, right), rtol=1e-7, atol=1e-9)
