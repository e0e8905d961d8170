"""How often the hybrid draws, and how long its bursts of moves are: λ and m.

Both follow from what an event, a scan, a fit and a move cost, in nanoseconds as assumed here, and from the share u of events at models
that are not in the table of rates. They rest on counts and not on clocks, so that results repeat.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whichvars._kernels.averaging import average_cost
from whichvars._kernels.chain import COLUMNS, Chain
from whichvars._kernels.count.averages import scan_cost
from whichvars._kernels.fits import fit_cost
from whichvars.problem.evaluating import WORTH_COST
from whichvars.problem.problem import Problem

# nanoseconds: an event, beside its scan, and a move
EVENT, MOVE = 250.0, 300.0
MOST_MOVES = 10_000
# where models are fitted: λ as a multiple of the mean total rate of flips, if scans cost nothing, and the share of moves that need a
# fit, of those to models that are not in the memo. Within a factor of two of these numbers errors hardly change.
DRAW_RATE_OF_FITS, MOVES_WITH_FIT = 0.5, 0.3
MOST_DRAW_RATE = 4.0
# Where an event costs at most so many moves, and conditional probabilities vary between chains by more than this share of what shares of
# draws vary by, λ is no more than this multiple of the rate of flips
CHEAP_EVENT, HARDLY_BETTER, FEW_DRAWS = 100, 0.5, 0.25


@dataclass(frozen=True)
class Pace:
    """m, and λ as a multiple of the mean total rate of flips."""

    moves: int
    draw_rate: float


def choose_pace(problem: Problem, chains: Sequence[Chain], misses: float, few_draws: bool = False) -> Pace:
    """m: as many moves as take about as long as an event. λ: the larger, the more events need a scan, for then it is better to spend
    scans on draws that are far apart.

    few_draws: most scans are made for flips, and a burst takes as long as all events between two draws. If draws are few as it is, because
    most events are at known models, this changes nothing.
    """
    scan, fit = _costs(problem, chains)
    cost = EVENT + misses * (scan + fit)
    draw_rate = DRAW_RATE_OF_FITS * (1 + scan / fit) if fit > 0 else 0.05 + 20 * misses**2
    if few_draws and draw_rate > FEW_DRAWS:
        draw_rate = FEW_DRAWS
        cost *= 1 + 1 / draw_rate
    moves = np.clip(cost / (MOVE + misses * MOVES_WITH_FIT * fit), 2, MOST_MOVES)
    return Pace(int(moves), min(MOST_DRAW_RATE, draw_rate))


def _costs(problem: Problem, chains: Sequence[Chain]) -> tuple[float, float]:
    """What a scan and a fit (or an average over g, or a question to Python) cost, in nanoseconds; 0 where there is nothing of the kind."""
    k = float(np.mean([chain.ints[COLUMNS] for chain in chains]))
    scan = scan_cost(problem.target(0), k, 0.5 * k + 1)
    if problem.corrected:
        return scan, WORTH_COST
    if problem.unknown_g:
        return scan, average_cost(len(problem.target(0).slab.grid), k)
    return scan, fit_cost(problem.n, k) if problem.fit_data is not None else 0.0


def scans_too_many_draws(problem: Problem, pace: Pace, conditional: np.ndarray, shares: np.ndarray) -> bool:
    """Whether most scans are made for draws although conditional probabilities are hardly better than shares of draws.

    Both are estimates of all inclusion probabilities by each chain, (chains, p). What tells is their variance between chains, summed over
    the variables. If it is about the same for both, the error is that chains move slowly; then flips are worth more than scans of draws.
    """
    if problem.target(0).slab.surrogate or pace.moves > CHEAP_EVENT or pace.draw_rate <= FEW_DRAWS:
        return False
    return bool(conditional.var(axis=0).sum() > HARDLY_BETTER * shares.var(axis=0).sum() > 0.0)
