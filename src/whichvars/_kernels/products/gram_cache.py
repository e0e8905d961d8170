"""Products of two columns of X: from the Gram matrix, from a bounded cache of Gram columns, or by a dot
product.

In the column engine, a product is a dot product of length n. A column of the model needs many of them. Once it has
needed as many as its whole Gram column would take, the whole column is computed and kept. The cost is at most twice that
of the best decision in hindsight. The cache is only a shortcut: the same ``dot`` gives the same bits, whatever is kept.
"""

from typing import NamedTuple

import numpy as np

from whichvars._kernels.jit import by_reference, inlined, kernel, routine
from whichvars._kernels.lanes import fetch
from whichvars._kernels.linalg import dot, four_dots
from whichvars._kernels.products.stored import NOT_STORED, product_length, stored_product
from whichvars._kernels.target import Design

SHORTEST = 128  # rows from which a look-up is cheaper than a dot product (benchmarks/engine.py)
FETCHED = 128  # entries of a column that are asked for before they are needed; after these, the processor fetches ahead by itself


@by_reference
class GramCache(NamedTuple):
    place: np.ndarray  # (P,) int32: where a column is kept, −1 if it is not
    computed: np.ndarray  # (P,) int32: dot products computed with each column so far
    kept: np.ndarray  # (slots,) int64: which column each place holds, −1 none
    values: np.ndarray  # (P, slots): x_cᵀ x_kept
    next_place: np.ndarray  # (1,) int64: the place that the next column gets


def new_gram_cache(design: Design, max_bytes: int) -> GramCache:
    """An empty cache; without places in the Gram engine, for short columns, or where not even 8 would fit."""
    n_columns, n = len(design.diagonal), dot_length(design)
    places = min(n_columns, max_bytes // max(8 * n_columns, 1))
    if n < SHORTEST or places < 8:
        n_columns = places = 0
    return GramCache(
        place=np.full(n_columns, -1, np.int32),
        computed=np.zeros(n_columns, np.int32),
        kept=np.full(places, -1, np.int64),
        values=np.zeros((n_columns, places)),
        next_place=np.zeros(1, np.int64),
    )


def dot_length(design: Design) -> float:
    """Entries that a dot product of two columns looks at; 0 in the Gram engine."""
    return product_length(design.stored) if design.stored.code != NOT_STORED else design.columns.shape[1]


@inlined
def dot_product(design, a, b):
    """x_aᵀ x_b, from the columns."""
    if design.stored.code == NOT_STORED:
        return dot(design.columns, a, design.columns, b)
    return stored_product(design.stored, a, b)


@inlined
def fetch_column(design, column):
    """Products of this column with several others will be needed soon."""
    if design.columns.shape[0] > 0 and design.gram.shape[0] == 0:
        fetch(design.columns[column], 0, min(design.columns.shape[1], FETCHED))


@inlined
def product(design, cache, entering, present):
    """x_enteringᵀ x_present, where `present` is the one more likely to be asked for again."""
    # this function is small enough to be inlined; products with all present columns are in one row of the Gram matrix, or of `values`
    if design.gram.shape[0] > 0:
        return design.gram[entering, present]
    if cache.kept.shape[0] > 0:
        place = cache.place[present]
        if place >= 0:
            return cache.values[entering, place]
    return _product_of_columns(design, cache, entering, present)


@routine
def _product_of_columns(design, cache, entering, present):
    """The same where `present` is not kept."""
    if cache.kept.shape[0] == 0:
        return dot_product(design, entering, present)
    place = cache.place[entering]
    if place >= 0:
        return cache.values[present, place]
    cache.computed[present] += 1
    if cache.computed[present] >= design.diagonal.shape[0]:
        _keep_column(design, cache, present)
    return dot_product(design, entering, present)


@kernel
def _keep_column(design, cache, column):
    """Compute a whole Gram column and keep it, in place of the one that was kept longest."""
    place = cache.next_place[0]
    cache.next_place[0] = (place + 1) % cache.kept.shape[0]
    if cache.kept[place] >= 0:
        cache.place[cache.kept[place]] = -1
        cache.computed[cache.kept[place]] = 0
    cache.kept[place] = column
    cache.place[column] = place
    for c in range(design.diagonal.shape[0]):
        cache.values[c, place] = dot_product(design, c, column)


# --- products with many columns at once


@inlined
def products_with_present(design, cache, entering, present, n, out):
    """``product`` of one column with columns present[0] … present[n − 1]."""
    if design.gram.shape[0] > 0 or cache.kept.shape[0] > 0:
        for r in range(n):
            out[r] = product(design, cache, entering, present[r])
    else:
        dot_products(design, entering, present, n, out)


@routine
def dot_products(design, entering, present, n, out):
    """``dot_product`` of one column with columns present[0] … present[n − 1]."""
    if design.stored.code != NOT_STORED:
        for r in range(n):
            out[r] = stored_product(design.stored, entering, present[r])
        return
    columns = design.columns
    r = 0
    while r + 3 < n:
        out[r], out[r + 1], out[r + 2], out[r + 3] = four_dots(
            columns, entering, present[r], present[r + 1], present[r + 2], present[r + 3]
        )
        r += 4
    while r < n:
        out[r] = dot(columns, entering, columns, present[r])
        r += 1


@routine
def block_products(design, cache, first, n, present, out):
    """x_cᵀ x_present for columns first … first + n − 1, to the last bit as ``product`` has them."""
    place = -1
    if cache.kept.shape[0] > 0:
        if cache.place[present] < 0:
            cache.computed[present] += n
            if cache.computed[present] >= design.diagonal.shape[0]:
                _keep_column(design, cache, present)
        place = cache.place[present]
    if design.gram.shape[0] > 0:
        _copy(design.gram[present, first : first + n], out, n)
    elif place >= 0:
        _copy(cache.values[first : first + n, place], out, n)
    elif design.stored.code == NOT_STORED:
        _dot_products_of_block(design.columns, first, n, present, out)
    else:
        for c in range(n):
            out[c] = stored_product(design.stored, first + c, present)


@kernel
def _dot_products_of_block(columns, first, n, present, out):
    c = 0
    while c + 3 < n:
        j = first + c
        out[c], out[c + 1], out[c + 2], out[c + 3] = four_dots(columns, present, j, j + 1, j + 2, j + 3)
        c += 4
    while c < n:
        out[c] = dot(columns, first + c, columns, present)
        c += 1


@kernel
def _copy(source, out, n):
    for c in range(n):
        out[c] = source[c]
