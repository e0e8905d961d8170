"""The memo: log marginal likelihoods of models already met, in bounded memory.

A model's 64-bit key is the xor of one random word per included variable (Zobrist). The table is a
set-associative cache: a key belongs to one bucket of four neighbouring entries (one cache line); a new key
takes an empty entry, else it takes the place of one of the four. So memory is bounded, nothing is ever
rehashed, and a table that is too small costs only time.

Values are *untempered* log marginal likelihoods, so the rungs of a ladder and the particles of a task can
share a memo. A memo belongs to the one thread that runs it. Two models of one key (chance 3·10⁻⁸ per run of
10⁶ distinct models) would share a value.

Where fewer than a fifth of a window of look-ups are hits, the memo rests for four windows, then tries again:
where every proposal is new it costs almost nothing.
"""

from typing import NamedTuple

import numpy as np

from whichvars._kernels.jit import by_reference, inlined
from whichvars._kernels.lanes import fetch

WAYS = 4
WINDOW = 65_536
REST = 4 * WINDOW
LOOKUPS, HITS, RESTING, ALL_LOOKUPS, ALL_HITS = range(5)


@by_reference
class Memo(NamedTuple):
    """`keys` and `values` are two views of the same memory: key and value of entry e at 2e and 2e + 1."""

    keys: np.ndarray  # (2·slots,) uint64
    values: np.ndarray  # (2·slots,) float64
    mask: np.ndarray  # (1,) uint64: buckets − 1
    counters: np.ndarray  # (5,) int64


def new_memo(slots: int) -> Memo:
    """A memo of `slots` entries (a power of two, at least 4), or one that is always at rest where slots =
    0."""
    if slots and (slots < WAYS or slots & (slots - 1)):
        raise ValueError(
            f"a memo's number of slots must be 0 or a power of two of at least {WAYS}, not {slots}"
        )
    raw = _whole_lines(2 * max(slots, WAYS))
    counters = np.zeros(5, np.int64)
    if not slots:
        counters[RESTING] = np.iinfo(np.int64).max
    return Memo(raw, raw.view(np.float64), np.array([max(slots, WAYS) // WAYS - 1], np.uint64), counters)


def in_whole_lines(memo: Memo) -> Memo:
    """The same memo, each bucket in one line of the processor's cache. That of a memo that was read may be in two."""
    raw = _whole_lines(len(memo.keys))
    raw[:] = memo.keys
    return memo._replace(keys=raw, values=raw.view(np.float64))


def _whole_lines(words: int) -> np.ndarray:
    """Zeros that begin where a line of the processor's cache does, which is as long as a bucket."""
    zeros = np.zeros(words + 2 * WAYS, np.uint64)
    skipped = -zeros.ctypes.data % (16 * WAYS) // 8
    return zeros[skipped : skipped + words]


@inlined
def fetch_bucket(memo, key):
    """The memo will be asked for `key` soon, unless it is at rest."""
    if memo.counters[RESTING] > 0:
        return
    first = np.int64(key & memo.mask[0]) * (2 * WAYS)
    fetch(memo.keys, first, first + 2 * WAYS)


@inlined
def recall(memo, key):
    """The value kept for `key`, or NaN."""
    counters = memo.counters
    if counters[RESTING] > 0:
        counters[RESTING] -= 1
        return np.nan
    counters[LOOKUPS] += 1
    counters[ALL_LOOKUPS] += 1
    if counters[LOOKUPS] == WINDOW:
        if counters[HITS] < WINDOW // 5:
            counters[RESTING] = REST
        counters[LOOKUPS] = 0
        counters[HITS] = 0
    first = np.int64(key & memo.mask[0]) * (2 * WAYS)
    for entry in range(first, first + 2 * WAYS, 2):
        if memo.keys[entry] == key:
            counters[HITS] += 1
            counters[ALL_HITS] += 1
            return memo.values[entry + 1]
    return np.nan


@inlined
def remember(memo, key, value):
    """Keep `value` for `key`, which is not in the table."""
    if memo.counters[RESTING] > 0:
        return
    first = np.int64(key & memo.mask[0]) * (2 * WAYS)
    place = first + np.int64(2) * np.int64(key >> np.uint64(62))
    for entry in range(first, first + 2 * WAYS, 2):
        if memo.keys[entry] == np.uint64(0):
            place = entry
            break
    memo.keys[place] = key
    memo.values[place + 1] = value
