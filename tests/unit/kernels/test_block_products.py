"""Products of one column with many at once: the bits of one product at a time, in every engine."""

import numpy as np
import pytest

import whichvars as wv
from support.kernels import from_python
from whichvars._kernels.products.gram_cache import (
    block_products,
    new_gram_cache,
    product,
    products_with_present,
)
from whichvars._kernels.propose.stand_ins import fill_products

blocks = from_python(block_products)
one = from_python(product)
with_present = from_python(products_with_present)


@pytest.mark.parametrize("engine", ["gram", "columns"])
@pytest.mark.parametrize("n", [7, 8, 60, 131])
def test_same_bits_as_one_at_a_time(engine: str, n: int) -> None:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 90))
    design = wv.Problem(X, X[:, 3] + rng.normal(size=n), engine=engine).target(0).design
    cache = new_gram_cache(design, 1 << 20)
    out = np.full(43, np.nan)
    for _ in range(4):  # a column that is asked for often moves into the cache
        for first, many, present in ((0, 43, 5), (50, 40, 5), (13, 1, 80), (13, 0, 80)):
            blocks(design, cache, first, many, present, out)
            expected = [one(design, cache, first + c, present) for c in range(many)]
            np.testing.assert_array_equal(out[:many], expected)
    assert (cache.kept >= 0).any() == (engine == "columns" and n >= 128)


@pytest.mark.parametrize("engine", ["gram", "columns"])
@pytest.mark.parametrize("n", [7, 71, 131])
def test_with_columns_anywhere(engine: str, n: int) -> None:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 30))
    design = wv.Problem(X, X[:, 3] + rng.normal(size=n), engine=engine).target(0).design
    cache = new_gram_cache(design, 1 << 20)
    some = rng.permutation(30).astype(np.int64)
    for many in range(12):  # whole fours, and what is left over
        out = np.full(12, np.nan)
        with_present(design, cache, 4, some, many, out)
        np.testing.assert_array_equal(out[:many], [one(design, cache, 4, j) for j in some[:many]])
        assert np.isnan(out[many:]).all()
    table = np.empty((5, 11))
    fill_products(design, some[:5], some[9:20], table)
    np.testing.assert_array_equal(table, [[one(design, cache, i, j) for j in some[9:20]] for i in some[:5]])
