r"""Jump rates of models already met, in bounded memory.

With odds :math:`E_j(\gamma)` of the model with variable j to that without it, the rate of flipping j is

.. math:: r_j = E_j + \kappa(1 + E_j) \text{ for j out of the model,} \qquad r_j = 1 + \kappa(1 + 1/E_j) \text{ for j in it,}

so that :math:`\pi(\gamma) r_j(\gamma)` is the same on both sides of the flip: with
:math:`p_j = E_j/(1 + E_j)`, it is :math:`p_j + \kappa` times the mass of the two models together. A flip to a
model without mass has rate 0.

An entry holds the rates of one model, their sums over blocks, its conditional inclusion probabilities
:math:`p_j`, and the holding time each chain has spent there. So an event at a model met before costs a look-up,
and its contribution to the PIPs is added once for all its visits. A full table is emptied into the sums.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.averages import probability
from whichvars._kernels.jit import entry, kernel
from whichvars._kernels.scan import scan

WIDTH = 32  # rates in a block
STEEPEST = 600.0  # log odds beyond which rates stay as they are: nothing overflows

# places in ints
ENTRIES = 0
LOOKUPS = 1
HITS = 2


class RateTable(NamedTuple):
    ints: np.ndarray
    lookup: np.ndarray  # (cells, a power of two) int32: hash to entry + 1
    keys: np.ndarray  # (entries,) uint64
    total: np.ndarray  # (entries,) Z, the sum of all rates
    blocks: np.ndarray  # (entries, ⌈p / WIDTH⌉) sums of rates
    rates: np.ndarray  # (entries, p)
    probabilities: np.ndarray  # (entries, p) float32: p_j
    holding: np.ndarray  # (entries, chains)


def new_rate_table(p: int, chains: int, max_bytes: int, most: int = 1 << 20) -> RateTable:
    """An empty table of at most `most` entries that takes about `max_bytes`; at least 4 entries."""
    each = 12 * p + 8 * (p // WIDTH + 1) + 8 * chains + 24
    entries = int(min(max(max_bytes // each, 4), most))
    cells = 8
    while cells < 2 * entries:
        cells *= 2
    return RateTable(
        ints=np.zeros(3, np.int64),
        lookup=np.zeros(cells, np.int32),
        keys=np.zeros(entries, np.uint64),
        total=np.zeros(entries),
        blocks=np.zeros((entries, -(-p // WIDTH))),
        rates=np.zeros((entries, p)),
        probabilities=np.zeros((entries, p), np.float32),
        holding=np.zeros((entries, chains)),
    )


@kernel
def find_rates(target, chain, work, table, kappa, sums, weights):
    """The entry of the chain's model, made if it is not there; or −(columns to make room for).

    Where the table is full it is emptied into `sums` and `weights` first.
    """
    ints, lookup = table.ints, table.lookup
    key = chain.keys[0]
    mask = lookup.shape[0] - 1
    ints[LOOKUPS] += 1
    cell = np.int64(key & np.uint64(mask))
    while lookup[cell] > 0:
        if table.keys[lookup[cell] - 1] == key:
            ints[HITS] += 1
            return np.int64(lookup[cell] - 1)
        cell = (cell + 1) & mask
    needed = scan(target, chain, work)
    if needed > 0:
        return -needed
    if ints[ENTRIES] == table.keys.shape[0]:
        empty_rates(table, sums, weights)
        cell = np.int64(key & np.uint64(mask))
    place = ints[ENTRIES]
    ints[ENTRIES] += 1
    lookup[cell] = place + 1
    table.keys[place] = key
    _fill(chain, work.log_odds, kappa, table.rates[place], table.probabilities[place])
    table.total[place] = _sum_blocks(table.rates[place], table.blocks[place])
    for c in range(table.holding.shape[1]):
        table.holding[place, c] = 0.0
    return place


@kernel
def _fill(chain, log_odds, kappa, rates, probabilities):
    for j in range(rates.shape[0]):
        x = log_odds[j]
        probabilities[j] = probability(x)
        if abs(x) == np.inf:
            rates[j] = 0.0
            continue
        x = min(max(x, -STEEPEST), STEEPEST)
        odds = math.exp(x)
        if chain.position[j] < 0:
            rates[j] = odds + kappa * (1.0 + odds)
        else:
            rates[j] = 1.0 + kappa * (1.0 + 1.0 / odds)


@kernel
def _sum_blocks(rates, blocks):
    total = 0.0
    for b in range(blocks.shape[0]):
        part = 0.0
        for j in range(b * WIDTH, min((b + 1) * WIDTH, rates.shape[0])):
            part += rates[j]
        blocks[b] = part
        total += part
    return total


@kernel
def choose_flip(table, place, u):
    """The variable at which the running sum of the rates passes u, for u between 0 and their total."""
    blocks, rates = table.blocks[place], table.rates[place]
    last = blocks.shape[0] - 1
    b = 0
    while b < last and u >= blocks[b]:
        u -= blocks[b]
        b += 1
    found = -1
    while found < 0:  # rounding may carry u past the last rate: then the last that is not 0
        for j in range(b * WIDTH, min((b + 1) * WIDTH, rates.shape[0])):
            if rates[j] > 0.0:
                found = j
                if u < rates[j]:
                    return j
                u -= rates[j]
        b -= 1
    return found


@kernel
def empty_rates(table, sums, weights):
    """Add what the entries hold to `sums` (chains, p) and `weights` (chains,), and forget them."""
    _add_entries(table, sums, weights)
    table.ints[ENTRIES] = 0
    for cell in range(table.lookup.shape[0]):
        table.lookup[cell] = 0


@kernel
def _add_entries(table, sums, weights):
    for place in range(table.ints[ENTRIES]):
        for c in range(sums.shape[0]):
            held = table.holding[place, c]
            if held > 0.0:
                weights[c] += held
                _add_scaled(sums[c], table.probabilities[place], held)


@kernel
def _add_scaled(out, values, factor):
    for j in range(out.shape[0]):
        out[j] += factor * values[j]


@entry
def forget_rates(table, sums, weights):
    """``empty_rates`` for Python."""
    empty_rates(table, sums, weights)


@entry
def add_entries(table, sums, weights):
    """Add what the entries hold to `sums` and `weights`, which the caller has copied; the table stays as it
    is."""
    _add_entries(table, sums, weights)
