r"""Jump rates of models already met, in bounded memory.

With odds :math:`E_j(\gamma)` of the model with variable j to that without it, the rate of flipping j is

.. math:: r_j = E_j + \kappa(1 + E_j) \text{ for j out of the model,} \qquad r_j = 1 + \kappa(1 + 1/E_j) \text{ for j in it,}

so that :math:`\pi(\gamma) r_j(\gamma)` is the same on both sides of the flip: with
:math:`p_j = E_j/(1 + E_j)`, it is :math:`p_j + \kappa` times the mass of the two models together. A flip to a
model without mass has rate 0.

Where evidence is strong, rates can be larger than any number a computer has. Only their ratios matter for which
variable flips, and the time spent in such a model is 0: its mass is at most :math:`1/r_j` of that of its neighbour.
Where a log rate may exceed 600, the rates of the model are therefore divided by the largest of them, in logarithms,
and ``TOTAL`` is the *negative* of their sum. ``next_event`` in ``tempered_gibbs.py`` gives it no time and no draw.

An entry holds the rates of one model, their sums over blocks, its conditional inclusion probabilities
:math:`p_j`, and the holding time each chain has spent there. So an event at a model met before costs a look-up,
and its contribution to the PIPs is added once for all its visits. A full table is emptied into the sums. Time in
models that were known before (``known.py``) is added up whatever the model.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.chain import AVAILABLE, LOG_MARGINAL, LOG_PRIOR, SIZE
from whichvars._kernels.count.known import (
    Known,
    add_known,
    add_scaled,
    end_stage,
    has_mass,
    is_known,
    new_known,
    note_scanned_model,
)
from whichvars._kernels.jit import by_reference, entry, inlined, kernel, routine
from whichvars._kernels.scan.scan import scan_odds
from whichvars._kernels.scan.scan_work import probability

WIDTH = 32  # rates in a block

# places in RateTable.ints
ENTRIES = 0
RATE_LOOKUPS = 1
RATE_HITS = 2
FIRST_BLOCK = 3  # where the sums of blocks begin in a row
FIRST_RATE = 4  # where the rates begin in a row
CHAINS = 5
ATTEMPTED = 6  # flips whose model was worth a fit, where there is a surrogate; see thinning.py
REFUSED = 7  # those of them that were not made

# places in a row. All of an entry is in one row, as memory that is far away is slow
KEY = 0
TOTAL = 1  # Z, the sum of all rates; −(the sum) where they are relative to the largest of them
MARGINAL = 2  # the model's log marginal likelihood, as the chain keeps it
PRIOR = 3  # its log prior
N_AVAILABLE = 4  # the number of variables available under heredity
KNOWN = 5  # 1 if the model was known when the stage began
HOLDING = 6  # holding time of each chain


@by_reference
class RateTable(NamedTuple):
    ints: np.ndarray
    lookup: np.ndarray  # (cells, a power of two) int32: hash to entry + 1
    rows: np.ndarray  # (entries, …): see above
    keys: np.ndarray  # the same memory as unsigned integers
    probabilities: np.ndarray  # (entries, p) float32: p_j
    known: Known
    tried: np.ndarray  # (entries, p) bool: flips that were attempted, where there is a surrogate; else (0, 0)


def new_rate_table(
    p: int, chains: int, max_bytes: int, known_slots: int = 0, surrogate: bool = False
) -> RateTable:
    """An empty table that takes about `max_bytes`, with at least 4 entries."""
    blocks = HOLDING + chains
    rates = -(-(blocks + -(-p // WIDTH)) // 8) * 8
    width = -(-(rates + p) // 8) * 8
    entries = int(max(max_bytes // (8 * width + 4 * p + 8), 4))
    cells = 8
    while cells < 2 * entries:
        cells *= 2
    rows = np.zeros((entries, width))
    return RateTable(
        ints=np.array([0, 0, 0, blocks, rates, chains, 0, 0]),
        lookup=np.zeros(cells, np.int32),
        rows=rows,
        keys=rows.view(np.uint64),
        probabilities=np.zeros((entries, p), np.float32),
        known=new_known(p, known_slots),
        tried=np.zeros((entries, p) if surrogate else (0, 0), np.bool_),
    )


@inlined
def find_entry(table, key):
    """The entry of a model, or −1."""
    lookup, keys = table.lookup, table.keys
    mask = lookup.shape[0] - 1
    cell = np.int64(key & np.uint64(mask))
    while lookup[cell] > 0 and keys[lookup[cell] - 1, KEY] != key:
        cell = (cell + 1) & mask
    return np.int64(lookup[cell]) - 1


@inlined
def find_rates(target, chain, work, table, kappa, sums, weights):
    """The entry of the chain's model, made if it is not there; or −(columns to make room for).

    Where the table is full it is emptied into `sums` and `weights` first.
    """
    table.ints[RATE_LOOKUPS] += 1
    place = find_entry(table, chain.keys[0])
    if place >= 0:
        table.ints[RATE_HITS] += 1
    else:
        place = _make_entry(target, chain, work, table, kappa, sums, weights)
    return place


@routine
def _make_entry(target, chain, work, table, kappa, sums, weights):
    needed = scan_odds(target, chain, work)
    if needed > 0:
        return np.int64(-needed)
    ints = table.ints
    if ints[ENTRIES] == table.rows.shape[0]:
        empty_rates(table, sums, weights)
    place = ints[ENTRIES]
    ints[ENTRIES] += 1
    mask = table.lookup.shape[0] - 1
    cell = np.int64(chain.keys[0] & np.uint64(mask))
    while table.lookup[cell] > 0:
        cell = (cell + 1) & mask
    table.lookup[cell] = place + 1
    table.keys[place, KEY] = chain.keys[0]
    row = table.rows[place]
    row[MARGINAL] = chain.floats[LOG_MARGINAL]
    row[PRIOR] = chain.floats[LOG_PRIOR]
    row[N_AVAILABLE] = chain.ints[AVAILABLE]
    for c in range(ints[CHAINS]):
        row[HOLDING + c] = 0.0
    p = work.odds.shape[0]
    rates = row[ints[FIRST_RATE] : ints[FIRST_RATE] + p]
    probabilities = table.probabilities[place]
    if target.slab.surrogate:
        tried = table.tried[place]
        for j in range(p):
            tried[j] = False
    if work.steep[0] > 0 and target.slab.surrogate:
        _fill_log_rates(work.log_odds, chain.position, kappa, rates, probabilities)
        row[TOTAL] = -1.0
    elif work.steep[0] > 0:
        _fill_scaled_rates(work.log_odds, chain.position, kappa, rates, probabilities)
        row[TOTAL] = -sum_blocks(rates, row[ints[FIRST_BLOCK] : ints[FIRST_RATE]])
    else:
        _fill_rates(work.odds, kappa, rates, probabilities)
        for i in range(chain.ints[SIZE]):
            j = chain.order[i]
            x = work.odds[j]
            rates[j] = 0.0 if x == np.inf else 1.0 + kappa * (1.0 + 1.0 / x)
            probabilities[j] = 1.0 / (1.0 + 1.0 / x)
        row[TOTAL] = sum_blocks(rates, row[ints[FIRST_BLOCK] : ints[FIRST_RATE]])
    before = note_scanned_model(table.known, chain.keys[0], row[MARGINAL] + row[PRIOR], probabilities)
    row[KNOWN] = 1.0 if before else 0.0
    return place


@kernel
def _fill_rates(odds, kappa, rates, probabilities):
    """Rates and probabilities of variables that are out."""
    for j in range(rates.shape[0]):
        x = odds[j]
        rates[j] = x + kappa * (1.0 + x) if x > 0.0 else 0.0
        probabilities[j] = x / (1.0 + x)


@kernel
def log_rate(log_odds, kappa, inside):
    """The logarithm of the rate of a flip, whatever its odds; −inf where one of the two models has no mass."""
    if log_odds == np.inf or log_odds == -np.inf:
        return -np.inf
    first = math.log1p(kappa) + (0.0 if inside else log_odds)
    second = math.log(kappa) - (log_odds if inside else 0.0)
    larger = max(first, second)
    return larger + math.log1p(math.exp(min(first, second) - larger))


@kernel
def _fill_log_rates(log_odds, position, kappa, rates, probabilities):
    for j in range(rates.shape[0]):
        rates[j] = log_rate(log_odds[j], kappa, position[j] >= 0)
        probabilities[j] = probability(log_odds[j])


@kernel
def _fill_scaled_rates(log_odds, position, kappa, rates, probabilities):
    """Rates of all variables, divided by the largest of them, and their probabilities."""
    _fill_log_rates(log_odds, position, kappa, rates, probabilities)
    largest = -np.inf
    for j in range(rates.shape[0]):
        largest = max(largest, rates[j])
    for j in range(rates.shape[0]):
        rates[j] = math.exp(rates[j] - largest)


@kernel
def sum_blocks(rates, blocks):
    p = rates.shape[0]
    total = 0.0
    for b in range((p + WIDTH - 1) // WIDTH):
        block_sum = 0.0
        for j in range(b * WIDTH, min((b + 1) * WIDTH, p)):
            block_sum += rates[j]
        blocks[b] = block_sum
        total += block_sum
    return total


@inlined
def choose_flip(table, place, u):
    """The variable at which the running sum of the rates passes u, for u between 0 and their total."""
    return _choose(
        table.rows[place], table.ints[FIRST_BLOCK], table.ints[FIRST_RATE], table.probabilities.shape[1], u
    )


@kernel
def _choose(row, first, at, p, u):
    last = (p + WIDTH - 1) // WIDTH - 1
    b = 0
    while b < last and u >= row[first + b]:
        u -= row[first + b]
        b += 1
    last_positive = -1
    while last_positive < 0:  # rounding may carry u past the last rate; then take the last that is not 0
        for j in range(b * WIDTH, min((b + 1) * WIDTH, p)):
            if row[at + j] > 0.0:
                last_positive = j
                if u < row[at + j]:
                    return j
                u -= row[at + j]
        b -= 1
    return last_positive


@kernel
def empty_rates(table, sums, weights):
    """Add what the entries hold to `sums` (chains, p) and `weights` (chains,), and forget them."""
    add_entries(table, sums, weights)
    table.ints[ENTRIES] = 0
    for cell in range(table.lookup.shape[0]):
        table.lookup[cell] = 0


@kernel
def add_entries(table, sums, weights):
    """Add what the entries hold to `sums` and `weights`; the table stays as it is."""
    rows = table.rows
    exact = has_mass(table.known)
    for c in range(sums.shape[0]):
        known = 0.0
        for place in range(table.ints[ENTRIES]):
            held = rows[place, HOLDING + c]
            weights[c] += held
            if exact and rows[place, KNOWN] > 0.0:
                known += held
            elif held > 0.0:
                add_scaled(sums[c], table.probabilities[place], held)
        add_known(table.known, known, sums[c])


@entry
def forget_rates(table, sums, weights):
    """``empty_rates`` for Python."""
    empty_rates(table, sums, weights)


@entry
def read_entries(table, sums, weights):
    """``add_entries`` for Python."""
    add_entries(table, sums, weights)


@entry
def end_stage_of_rates(table, sums, weights):
    """The end of a stage: add what the entries hold to `sums` and `weights`, and keep their rates."""
    add_entries(table, sums, weights)
    end_stage(table.known)
    for place in range(table.ints[ENTRIES]):
        table.rows[place, KNOWN] = 1.0 if is_known(table.known, table.keys[place, KEY]) else 0.0
        for c in range(table.ints[CHAINS]):
            table.rows[place, HOLDING + c] = 0.0
