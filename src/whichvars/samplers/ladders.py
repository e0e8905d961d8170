r"""The temperatures of parallel tempering, :math:`0 < t_1 < \dots < t_m = 1`: how they follow from what is learned, and exchanges between
neighbours, which teach it.

There are two ways to write a ladder. After an exchange between rungs k and k + 1 that was accepted with probability a, either way
:math:`\rho_k` moves by :math:`\zeta_i (a - \hat a)`.

*By ratios* (Miasojedow, Moulines & Vihola 2013): :math:`t_k = t_{k+1} \exp(-e^{\rho_k})`.

*By differences* (Griffin, Łatuszyński & Steel, section 4): :math:`\rho_k = t_{k+1} - t_k`, and the ladder is built up from its lowest
temperature. This has :math:`t_m = 1` only if it starts from :math:`t_1 = 1 - \sum_k \rho_k`, so that is where it starts.

Several ladders take the mean of their ρ at barriers. Adding up what each has learned would not do: each goes most of the way to where ρ
belongs between two barriers, so that r of them together would go r times as far, and back again at the next barrier.

In both, the factor between two neighbours is bounded, so that they can neither meet nor cross, and no temperature reaches 0. Both rest at
the same ladder: the one at which every pair exchanges at the rate :math:`\hat a`. They differ in how they get there. A difference learns in
steps of the same size at the hot end, where temperatures are small, as at the cold end.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from whichvars._kernels.chain import INVERSE_TEMPERATURE, LOG_MARGINAL
from whichvars._kernels.count.tally import change_chain
from whichvars._kernels.jit import by_reference, inlined

RATIOS, DIFFERENCES = "ratios", "differences"
# bounds of ρ of ratios: neighbouring temperatures differ by a factor of .9991 at most, .011 at least
NARROWEST, WIDEST = -7.0, 1.5
LARGEST_RATIO, SMALLEST_RATIO = math.exp(-math.exp(NARROWEST)), math.exp(-math.exp(WIDEST))

# places in Ladder.ints
RUNG = 0  # the next rung to move, m when all have
LADDER_ITERATION = 1
TRIPS = 2  # round trips: top, bottom, top again
RUNG_MOVES = 3  # moves already made on that rung
BY_DIFFERENCES = 4  # 1 if ρ are differences, 0 if they are ratios
N_INTS = 5


@by_reference
class Ladder(NamedTuple):
    """Where each rung's chain stands, and what the ladder learns."""

    ints: np.ndarray
    slot: np.ndarray  # (m,) int64: which of the stacked chains is at each rung
    temperature: np.ndarray  # (m,) t_k
    rho: np.ndarray  # (m − 1,)
    tried: np.ndarray  # (m − 1,) int64: exchanges tried, after warm-up
    exchanged: np.ndarray  # (m − 1,): sum of their acceptance probabilities
    # (m,) int64, by slot: the end of the ladder at which the chain was last. 1 is the bottom, −1 the top; 0 where it has not
    # been at the top yet
    last_end: np.ndarray


def new_ladder(m: int, kind: str) -> Ladder:
    """A ladder of m rungs that has learned nothing: neighbours differ by a factor of e, or by 1/m."""
    ladder = Ladder(
        np.zeros(N_INTS, np.int64), np.arange(m), np.ones(m), np.zeros(m - 1), np.zeros(m - 1, np.int64), np.zeros(m - 1),
        np.zeros(m, np.int64),
    )  # fmt: skip
    ladder.ints[BY_DIFFERENCES] = kind == DIFFERENCES
    if kind == DIFFERENCES:
        ladder.rho[:] = 1 / m
    return ladder


def give_temperatures(stack: Any, ladder: Ladder) -> None:
    """``set_temperatures``, called from Python."""
    getattr(set_temperatures, "py_func", set_temperatures)(stack, ladder)


def log_gaps(temperature: np.ndarray) -> np.ndarray:
    """ρ by ratios, log log(t_{k+1}/t_k), of any ladder; shapes (m,) → (m − 1,)."""
    return np.log(np.log(temperature[1:] / temperature[:-1]))


@inlined
def set_temperatures(stack, ladder):
    """Temperatures from ρ, given to the chains that stand there, and ρ brought back to its bounds."""
    t = 1.0
    m = ladder.slot.shape[0]
    for k in range(m - 1, -1, -1):
        if k < m - 1:
            rho = ladder.rho[k]
            if ladder.ints[BY_DIFFERENCES] == 1:
                lower = t - rho
                bounded = min(max(lower, t * SMALLEST_RATIO), t * LARGEST_RATIO)
                if bounded != lower:
                    ladder.rho[k] = t - bounded
                t = bounded
            else:
                rho = min(max(rho, NARROWEST), WIDEST)
                ladder.rho[k] = rho
                t *= math.exp(-math.exp(rho))
        ladder.temperature[k] = t
        stack.floats[ladder.slot[k], INVERSE_TEMPERATURE] = t


@inlined
def exchange(stack, chains, tally, rng, ladder, iteration, aim, decay, freeze, counting):
    """Try to exchange the models of a random pair of neighbours, and learn from it."""
    m = ladder.slot.shape[0]
    k = int(rng.random() * (m - 1))
    low, high = ladder.slot[k], ladder.slot[k + 1]
    difference = ladder.temperature[k] - ladder.temperature[k + 1]
    log_ratio = difference * (stack.floats[high, LOG_MARGINAL] - stack.floats[low, LOG_MARGINAL])
    acceptance = math.exp(min(log_ratio, 0.0))
    if counting:
        ladder.tried[k] += 1
        ladder.exchanged[k] += acceptance
    if rng.random() < acceptance:
        if k + 1 == m - 1 and counting:
            change_chain(chains[high], chains[low], tally)
        ladder.slot[k] = high
        ladder.slot[k + 1] = low
        if k == 0:
            ladder.last_end[high] = 1 if ladder.last_end[high] == -1 else ladder.last_end[high]
        if k + 1 == m - 1:
            if ladder.last_end[low] == 1 and counting:
                ladder.ints[TRIPS] += 1
            ladder.last_end[low] = -1
    if iteration <= freeze:
        ladder.rho[k] += math.pow(iteration, -decay) * (acceptance - aim)
    set_temperatures(stack, ladder)
