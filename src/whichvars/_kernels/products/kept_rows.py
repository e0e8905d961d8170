"""Rows of XᵀX that scans have needed before, in bounded memory.

Without the Gram matrix, a scan takes the products of each column of the model with all P columns of X, which is most of
its cost; and from one scan to the next models have most of their columns in common, if not in the same order. A row
that is asked for while all places are taken gets the place of one that has not been asked for since the *hand* last
went by it. The bits are those of ``block_products``, whether a row was kept or not.

A scan calls ``claim_rows`` once, then ``kept_products`` for each of its rows and blocks of columns: all blocks of a row
that is new, so that it is complete when the scan ends.
"""

from typing import NamedTuple

import numpy as np

from whichvars._kernels.jit import by_reference, inlined, kernel
from whichvars._kernels.products.gram_cache import block_products
from whichvars._kernels.target import Design

FEWEST = 8  # places; with fewer it is not worth keeping any

# what KeptRows.used says of a place: not used since the hand last went by, used since then, used by this scan
UNUSED, USED, IN_USE = range(3)


@by_reference
class KeptRows(NamedTuple):
    place: np.ndarray  # (P,) int32: where the row of a column is kept, −1 if it is not
    held: np.ndarray  # (places,) int64: whose row each place holds, −1 none
    used: np.ndarray  # (places,) uint8
    hand: np.ndarray  # (1,) int64: the place to look at next
    new: np.ndarray  # (places,) bool: the scan that goes on fills it
    values: np.ndarray  # (places, P)


def new_kept_rows(design: Design, max_bytes: int) -> KeptRows:
    """No row is kept yet; in the Gram engine, and where fewer than 8 would fit, none will be."""
    n_columns = len(design.diagonal)
    places = min(n_columns, max_bytes // (8 * n_columns))
    if places < FEWEST or len(design.gram):
        n_columns = places = 0
    return empty_rows(n_columns, places)


def empty_rows(n_columns: int, places: int) -> KeptRows:
    return KeptRows(
        place=np.full(n_columns, -1, np.int32),
        held=np.full(places, -1, np.int64),
        used=np.zeros(places, np.uint8),
        hand=np.zeros(1, np.int64),
        new=np.zeros(places, np.bool_),
        values=np.zeros((places, n_columns)),
    )


@kernel
def claim_rows(rows, columns, first, last):
    """Give a place to each row of columns[first:last] that has none; to no row if there are more rows than places."""
    place, held, used, hand = rows.place, rows.held, rows.used, rows.hand
    places = held.shape[0]
    if last - first > places:
        return
    for i in range(first, last):
        at = place[columns[i]]
        if at >= 0:
            used[at] = IN_USE
            rows.new[at] = False
    for i in range(first, last):
        if place[columns[i]] < 0:
            at = hand[0]
            while used[at] != UNUSED:
                if used[at] == USED:
                    used[at] = UNUSED
                at = (at + 1) % places
            hand[0] = (at + 1) % places
            if held[at] >= 0:
                place[held[at]] = -1
            held[at] = columns[i]
            place[columns[i]] = at
            used[at] = IN_USE
            rows.new[at] = True
    for i in range(first, last):
        used[place[columns[i]]] = USED


@inlined
def kept_products(design, cache, rows, first, n, present, out):
    """x_cᵀ x_present for columns first … first + n − 1. They are read from the row that is kept; a new row is filled."""
    at = np.int64(-1)
    if rows.held.shape[0] > 0:
        at = np.int64(rows.place[present])
    if at < 0:
        block_products(design, cache, first, n, present, out)
    else:
        row = rows.values[at, first : first + n]
        if rows.new[at]:
            block_products(design, cache, first, n, present, row)
        for c in range(n):
            out[c] = row[c]
