r"""Add, delete or swap one variable (Brown, Vannucci & Fearn 1998): the baseline. One iteration:

1. propose. At a model of k variables, with probability `swap` exchange one that is in for one that is out; otherwise
   add or delete one, each with probability (1 − swap)/2. At the null model only an addition is possible and has
   probability 1, at the full model only a deletion;
2. accept or reject (``_kernels/decide.py``). The ratio of proposal probabilities is

   .. math:: \frac{q(\gamma', \gamma)}{q(\gamma, \gamma')} = \frac{d_{k+1}/(k+1)}{a_k/(p-k)} \quad\text{for an addition,}

   its inverse for a deletion, 1 for a swap. Here a_k and d_k are the probabilities of adding and deleting at k
   variables.

Nothing is learned.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from whichvars._kernels.chain import ADDED, DELETED, LOG_PROPOSAL, PENDING, SIZE, change, clear
from whichvars._kernels.count.tally import COUNTING, end_iteration
from whichvars._kernels.decide import ACCEPTED, WAITING, decide
from whichvars._kernels.fits import fit_if_room
from whichvars._kernels.jit import entry, inlined, kernel, routine
from whichvars._kernels.propose.moves import draw_excluded, draw_included
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import Entries, Run, Unit, advance_unit, check_between, new_unit
from whichvars.samplers.references import BROWN_1998

ADD, DELETE, SWAP = range(3)


@dataclass(frozen=True)
class AddDeleteSwap:
    """Settings of the add/delete/swap sampler.

    Parameters
    ----------
    swap : float
        Probability of proposing a swap, in [0, 1).
    memo_slots : int
        Models whose marginal likelihood is remembered (16 bytes each); a power of two, or 0 for none.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.sample(wv.Problem(data.X, data.y), wv.AddDeleteSwap(), draws=2000, seed=0, progress=False)
    >>> posterior.iterations
    8800
    """

    swap: float = 1 / 3
    memo_slots: int = 1 << 18

    words = "Metropolis–Hastings moves that add, delete or swap variables"
    references = (BROWN_1998,)
    invariant_law = "posterior"
    for_families = True
    chains = 1

    def __post_init__(self) -> None:
        check_between(self, "swap", 0, 1, closed_below=True)

    def init(
        self, problem: Problem, seed: np.random.SeedSequence, starts: list[np.ndarray]
    ) -> Run[Unit[np.ndarray], None]:
        counts = np.zeros((2, 3), np.int64)  # proposed, accepted × add, delete, swap
        return Run([new_unit(problem, seed, 0, starts[0], self.memo_slots).having(counts)], None)

    def advance(self, problem: Problem, run: Run[Unit[np.ndarray], None], unit: int, iterations: int) -> None:
        advance_unit(problem, run.units[unit], ENTRIES, iterations, run.units[unit].own, self.swap)

    def merge(self, problem: Problem, run: Run[Unit[np.ndarray], None]) -> None:
        """Nothing is shared."""

    def learned(self, problem: Problem, run: Run[Unit[np.ndarray], None]) -> dict[str, Any]:
        proposed, accepted = run.units[0].own
        total = accepted.sum() / max(proposed.sum(), 1)
        rates = accepted / np.maximum(proposed, 1)
        return {
            "mutation_rate": float(total),
            "acceptance": dict(zip(("add", "delete", "swap"), rates.tolist())),
        }


@kernel
def log_add_ratio(size, p, swap):
    """log q(γ', γ)/q(γ, γ') where γ' has one variable more than γ, which has `size`."""
    add = 1.0 if size == 0 else 0.5 * (1.0 - swap)
    delete = 1.0 if size + 1 == p else 0.5 * (1.0 - swap)
    return math.log(delete / (size + 1)) - math.log(add / (p - size))


@inlined
def propose(target, chain, rng, swap):
    """Step 1, and the log ratio of proposal probabilities of step 2."""
    clear(chain)
    size = chain.ints[SIZE]
    p = chain.position.shape[0]
    if size == 0:
        move = ADD
    elif size == p:
        move = DELETE
    elif rng.random() < swap:
        move = SWAP
    elif rng.random() < 0.5:
        move = ADD
    else:
        move = DELETE
    ratio = 0.0
    if move == ADD:
        change(target, chain, draw_excluded(chain, rng))
        ratio = log_add_ratio(size, p, swap)
    elif move == DELETE:
        change(target, chain, draw_included(chain, rng))
        ratio = -log_add_ratio(size - 1, p, swap)
    else:
        change(target, chain, draw_included(chain, rng))
        change(target, chain, draw_excluded(chain, rng))
    chain.floats[LOG_PROPOSAL] = ratio


@entry
def advance(target, chain, memo, tally, rng, counts, swap, iterations):
    return _advance(target, chain, memo, tally, rng, counts, swap, iterations)


@entry
def advance_with_fits(fits, target, chain, memo, tally, rng, counts, swap, iterations):
    return _advance_with_fits(fits, target, chain, memo, tally, rng, counts, swap, iterations)


ENTRIES = Entries(advance, advance_with_fits)


@kernel
def _advance_with_fits(fits, target, chain, memo, tally, rng, counts, swap, iterations):
    done = 0
    while True:
        done += _advance(target, chain, memo, tally, rng, counts, swap, iterations - done)
        if not fit_if_room(fits, chain):
            return done


@routine
def _advance(target, chain, memo, tally, rng, counts, swap, iterations):
    """Advance one chain; returns the iterations done, fewer than asked where the chain needs more room."""
    ints = chain.ints
    counting = tally.ints[COUNTING] == 1
    for done in range(iterations):
        if ints[PENDING] == 0:
            propose(target, chain, rng, swap)
        verdict, _ = decide(target, chain, memo, tally, rng, counting, False)
        if verdict == WAITING:
            return done
        move = SWAP if ints[ADDED] == ints[DELETED] else (ADD if ints[ADDED] == 1 else DELETE)
        counts[0, move] += 1
        if verdict == ACCEPTED:
            counts[1, move] += 1
        if counting:
            end_iteration(target, chain, tally)
    return iterations
