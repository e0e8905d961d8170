r"""Flips of a process in continuous time whose rates come from a surrogate.

The table's rates :math:`r_j` balance for the surrogate's law :math:`\tilde\pi`. A flip from γ to γ' that they choose is made with
probability min{1, w'/w}, w = m/m̃ as in ``decide.py``, so that flips happen at the rate :math:`r_j \min\{1, w'/w\}`. That balances for
π, as :math:`\pi(\gamma)\, r_j(\gamma) \min\{1, w'/w\} = \tilde\pi(\gamma)\, r_j(\gamma) \min\{w, w'\}` is the same on both sides. The
mean holding time of an *attempt* is 1/(Z + λ), whether or not it succeeds.

**The first attempt of j at γ** needs m(γ'). From then on the entry of γ has the rate :math:`r_j \min\{1, w'/w\}`, and flips of j need no
test: this is the same process with its thinning written out. Without it, chains can be stuck for long where the surrogate is far off:
a variable that it overrates leaves at rate 1, and the way back is tried and refused for ever.

**Conditional inclusion probabilities** of the surrogate are biased. Let :math:`\hat p_j(\gamma)` be the entry's, whatever they are, and
:math:`p_j(\gamma)` the true ones. Where J is attempted at the rate :math:`r_J`, the sum of chain c gets
:math:`(p_J - \hat p_J)/r_J` more. An attempt of j has probability :math:`r_j/(Z + \lambda)`, so that the mean of what is added in an event at
γ is :math:`(p_j - \hat p_j)/(Z + \lambda)`, which is what :math:`\hat p_j` was short of for its holding time. So the sums estimate without
bias what true ones would. After that the entry has :math:`p_J` in place of :math:`\hat p_J` for time to come; time that was spent before
stays as it was counted.

Where a log rate may exceed 600 (``rate_table.py``), the rates of an entry are kept as logarithms, as those of attempted flips fall: when
none is above 600 any more, they become rates as all others have them.
"""

import math

import numpy as np

from whichvars._kernels.chain import (
    ADDED,
    JUDGED,
    LOG_MARGINAL,
    LOG_PRIOR,
    NEEDED,
    NEW_LOG_MARGINAL,
    NEW_LOG_PRIOR,
    PENDING,
    UPHELD,
    accept,
)
from whichvars._kernels.decide import ACCEPTED, REJECTED, WAITING
from whichvars._kernels.evaluate import evaluate, second_stage
from whichvars._kernels.jit import inlined, kernel
from whichvars._kernels.scan.rate_table import (
    ATTEMPTED,
    CHAINS,
    FIRST_BLOCK,
    FIRST_RATE,
    HOLDING,
    REFUSED,
    TOTAL,
    WIDTH,
    find_entry,
    sum_blocks,
)
from whichvars._kernels.scan.scan_work import LARGEST_LOG_ODDS, probability


@kernel
def choose_by_logarithms(row, first, p, u):
    """The variable that a uniform number u in (0, 1) means, of p whose log rates begin at `first`; −1 if all rates are 0."""
    largest = -np.inf
    for j in range(p):
        largest = max(largest, row[first + j])
    if largest == -np.inf:
        return -1
    total = 0.0
    for j in range(p):
        total += math.exp(row[first + j] - largest)
    left = u * total
    last = -1
    for j in range(p):
        x = math.exp(row[first + j] - largest)
        if x > 0.0:
            last = j
            if left < x:
                return j
            left -= x
    return last


@kernel
def probability_of_flipped(chain, adds, ratio):
    """The true p_j of the variable j that the proposal flips; `ratio` is −inf where one of the two models has no mass."""
    floats = chain.floats
    log_odds = -np.inf  # of the proposed model to the current one
    if ratio > -np.inf:
        log_odds = (floats[NEW_LOG_MARGINAL] + floats[NEW_LOG_PRIOR]) - (
            floats[LOG_MARGINAL] + floats[LOG_PRIOR]
        )
    return probability(log_odds if adds else -log_odds)


@inlined
def second_stage_of_flip(target, chain, memo):
    """log w'/w of the flip that is proposed, −inf where the other model has no mass. ``PENDING`` says whether it must wait, for room or
    for a fit."""
    ints = chain.ints
    ratio = -np.inf
    possible = evaluate(target, chain, memo) > -np.inf
    if possible:
        ratio = second_stage(target, chain, memo)
    ints[PENDING] = 1 if ints[NEEDED] != 0 else 0
    return ratio


@kernel
def attempt_flip(target, chain, memo, rng, table, sums, c, has_time):
    """Attempt the flip that is proposed, and note what is learnt from it: WAITING, REJECTED or ACCEPTED, and made.

    has_time: whether time was counted for the event, and sums must be corrected.
    """
    ints = chain.ints
    ratio = second_stage_of_flip(target, chain, memo)
    if ints[PENDING] != 0:
        return WAITING
    adds = ints[ADDED] == 1
    j = np.int64(chain.added[0]) if adds else chain.deleted[0]
    place = find_entry(table, chain.keys[0])
    if not table.tried[place, j]:
        table.ints[ATTEMPTED] += 1
        ints[JUDGED] += 1
        _note_attempt(table, place, j, c, ratio, probability_of_flipped(chain, adds, ratio), sums, has_time)
        if ratio < 0.0 and not rng.random() < math.exp(ratio):
            table.ints[REFUSED] += 1
            return REJECTED
        ints[UPHELD] += 1
    elif not ratio > -np.inf:
        return REJECTED
    accept(target, chain)
    return ACCEPTED


@kernel
def _note_attempt(table, place, j, c, ratio, p_j, sums, has_time):
    """Thin the rate of j and replace its probability."""
    row, ints = table.rows[place], table.ints
    at = ints[FIRST_RATE]
    table.tried[place, j] = True
    before = np.float64(table.probabilities[place, j])
    table.probabilities[place, j] = p_j
    after = np.float64(table.probabilities[place, j])
    if has_time and row[TOTAL] > 0.0:
        sums[c, j] += (p_j - before) / row[at + j]
    for other in range(ints[CHAINS]):
        sums[other, j] += row[HOLDING + other] * (before - after)
    p = table.probabilities.shape[1]
    if row[TOTAL] < 0.0:
        row[at + j] += min(ratio, 0.0)
        for i in range(p):
            if row[at + i] > LARGEST_LOG_ODDS:
                return
        for i in range(p):
            row[at + i] = math.exp(row[at + i])
        row[TOTAL] = sum_blocks(row[at : at + p], row[ints[FIRST_BLOCK] : at])
    elif ratio < 0.0:
        row[at + j] *= math.exp(ratio)
        first, b = ints[FIRST_BLOCK], j // WIDTH
        block_sum = 0.0
        for i in range(b * WIDTH, min((b + 1) * WIDTH, p)):
            block_sum += row[at + i]
        row[first + b] = block_sum
        total = 0.0
        for i in range((p + WIDTH - 1) // WIDTH):
            total += row[first + i]
        row[TOTAL] = total
