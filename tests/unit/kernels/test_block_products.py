"""Products of one column with many at once: the bits of one product at a time, in every engine."""

import numpy as np
import pytest

import whichvars as wv
from support.kernels import from_python
from whichvars._kernels.products.gram_cache import block_products, new_gram_cache, product
from whichvars.problem.columns import by_rows

blocks = from_python(block_products)
one = from_python(product)


@pytest.mark.parametrize("engine", ["gram", "columns"])
@pytest.mark.parametrize("n", [7, 8, 60, 131])
@pytest.mark.parametrize("rows", [True, False])
def test_same_bits_as_one_at_a_time(engine: str, n: int, rows: bool) -> None:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 90))
    design = wv.Problem(X, X[:, 3] + rng.normal(size=n), engine=engine).target(0).design
    assert design.rows.shape == ((n, 90) if engine == "columns" else (0, 0))
    if not rows:
        design = design._replace(rows=np.zeros((0, 0)))
    cache = new_gram_cache(design, 1 << 20)
    out, lanes = np.full(40, np.nan), np.zeros((8, 64))
    for _ in range(4):  # a column that is asked for often moves into the cache
        for first, many, present in ((0, 40, 5), (50, 40, 5), (13, 1, 80), (13, 0, 80)):
            blocks(design, cache, first, many, present, lanes, out)
            expected = [one(design, cache, first + c, present) for c in range(many)]
            np.testing.assert_array_equal(out[:many], expected)
    assert (cache.kept >= 0).any() == (engine == "columns" and n >= 128)


def test_large_matrices_are_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(10, 20))
    assert by_rows(X).shape == (20, 10)
    monkeypatch.setattr("whichvars.problem.columns.ROWS_BYTES", X.nbytes - 1)
    assert by_rows(X).shape == (0, 0)
