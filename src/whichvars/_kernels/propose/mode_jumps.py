r"""Jumps between modes that were found before sampling (``samplers/finding.py``).

A mode with the variables v_1, …, v_k has k *slots*. Slot l has a law α_l over the variables that can stand in the place of v_l,
:math:`\alpha_l(j) \propto \pi(\text{mode} - v_l + j)`, each variable in one slot only: near copies exclude one another, so that one of
them is drawn and not each with its own probability. The *core* C is the set of the variables in any slot of any mode. From γ:

1. draw a mode c with probability :math:`w_c`, and one variable for each of its slots;
2. propose these variables in place of :math:`\gamma \cap C`. All other variables stay.

The probability of a core κ is :math:`q(\kappa) = \sum_c w_c \prod_l \alpha_{cl}(\kappa_l)`, over the modes of whose form κ is: one
variable from each slot, and no other. As it does not depend on γ, the ratio of the two proposals is :math:`q(\gamma \cap C)/q(\kappa)`.
Where :math:`\gamma \cap C` has no mode's form the way back has probability 0, and nothing is proposed.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.chain import LOG_PROPOSAL, SIZE, change, clear
from whichvars._kernels.jit import by_reference, inlined, kernel

# the variables that can stand in one place, and the probability of each
Slot = tuple[np.ndarray, np.ndarray]


@by_reference
class ModeJumps(NamedTuple):
    place: np.ndarray  # (p,) int32: row of a variable of the core in what follows, −1 outside of it
    core: np.ndarray  # (n,) int64: its variables
    slot: np.ndarray  # (modes, n) int64: the slot of each, −1 if it is in none of this mode
    log_share: np.ndarray  # (modes, n): log α
    up_to: np.ndarray  # (modes, n): the sum of α over the variables of the same slot up to this one
    last: np.ndarray  # (modes, n) bool: whether it is the last one of its slot
    sizes: np.ndarray  # (modes,) int64: number of slots
    log_weights: np.ndarray  # (modes,): log w
    weights_up_to: np.ndarray  # (modes,): the sum of w up to this one
    drawn: np.ndarray  # (longest,) int64: rows of the core that is proposed
    marked: np.ndarray  # (n,) bool: the same, by row
    seen: np.ndarray  # (longest,) int64: which slots the core has filled


def no_mode_jumps(p: int) -> ModeJumps:
    return new_mode_jumps(p, [], np.zeros(0))


def new_mode_jumps(p: int, modes: list[tuple[Slot, ...]], weights: np.ndarray) -> ModeJumps:
    """Jumps between modes given by their slots, which are drawn with these weights. No variable may be in two slots of a mode."""
    core = sorted({int(j) for slots in modes for variables, _ in slots for j in variables})
    place = np.full(p, -1, np.int32)
    place[core] = np.arange(len(core))
    shape = len(modes), len(core)
    slot, log_share = np.full(shape, -1, np.int64), np.full(shape, -np.inf)
    up_to, last = np.zeros(shape), np.zeros(shape, np.bool_)
    for c, slots in enumerate(modes):
        for number, (variables, shares) in enumerate(slots):
            rows = np.sort(place[variables])
            by_row = np.zeros(len(core))
            by_row[place[variables]] = shares / shares.sum()
            slot[c, rows] = number
            log_share[c, rows] = np.log(by_row[rows])
            up_to[c, rows] = np.cumsum(by_row[rows])
            last[c, rows[-1]] = True
    longest = max((len(slots) for slots in modes), default=0)
    weights = weights / weights.sum() if len(weights) else weights
    return ModeJumps(
        place=place,
        core=np.array(core, np.int64),
        slot=slot,
        log_share=log_share,
        up_to=up_to,
        last=last,
        sizes=np.array([len(slots) for slots in modes], np.int64),
        log_weights=np.log(weights),
        weights_up_to=np.cumsum(weights),
        drawn=np.zeros(longest, np.int64),
        marked=np.zeros(len(core), np.bool_),
        seen=np.zeros(longest, np.int64),
    )


@kernel
def _log_probability(jumps, rows, n):
    """log q of the core that consists of rows[:n]."""
    total = -np.inf
    for c in range(jumps.sizes.shape[0]):
        if jumps.sizes[c] != n:
            continue
        for s in range(n):
            jumps.seen[s] = 0
        value = jumps.log_weights[c]
        for i in range(n):
            s = jumps.slot[c, rows[i]]
            if s < 0 or jumps.seen[s] > 0:
                value = -np.inf
                break
            jumps.seen[s] = 1
            value += jumps.log_share[c, rows[i]]
        if value > total:
            total, value = value, total
        if value > -np.inf:
            total += math.log1p(math.exp(value - total))
    return total


@kernel
def _log_probability_of_core(jumps, chain):
    """log q of the core of the chain's model; −inf where it has no mode's form."""
    n = 0
    for i in range(chain.ints[SIZE]):
        row = jumps.place[chain.order[i]]
        if row >= 0:
            if n == jumps.drawn.shape[0]:
                return -np.inf
            jumps.drawn[n] = row
            n += 1
    return _log_probability(jumps, jumps.drawn, n)


@kernel
def _draw_core(jumps, rng):
    """Draw a core into ``jumps.drawn``; returns how many variables it has."""
    u = rng.random()
    c = 0
    while c < jumps.sizes.shape[0] - 1 and u >= jumps.weights_up_to[c]:
        c += 1
    n = jumps.sizes[c]
    for s in range(n):
        u = rng.random()
        row = 0
        while jumps.slot[c, row] != s or (u >= jumps.up_to[c, row] and not jumps.last[c, row]):
            row += 1
        jumps.drawn[s] = row
    return n


@inlined
def propose_mode_jump(target, chain, jumps, rng):
    """Fill the proposal and its log ratio. The proposal is empty where the core has no mode's form."""
    clear(chain)
    here = _log_probability_of_core(jumps, chain)
    if here > -np.inf:
        n = _draw_core(jumps, rng)
        for i in range(n):
            jumps.marked[jumps.drawn[i]] = True
        for i in range(chain.ints[SIZE]):
            row = jumps.place[chain.order[i]]
            if row >= 0:
                if not jumps.marked[row]:
                    change(target, chain, chain.order[i])
                jumps.marked[row] = False  # it is in already, or not wanted
        for i in range(n):
            if jumps.marked[jumps.drawn[i]]:
                change(target, chain, jumps.core[jumps.drawn[i]])
                jumps.marked[jumps.drawn[i]] = False
        chain.floats[LOG_PROPOSAL] = here - _log_probability(jumps, jumps.drawn, n)
    else:
        chain.floats[LOG_PROPOSAL] = -np.inf
