r"""Add, delete or swap several variables at once, as many as suits (Lamnisos, Griffin & Steel 2012, 2013). One
iteration:

1. propose. The kind of move is drawn as in ``add_delete_swap``; the number of variables it concerns is
   1 + Binomial(N − 1, ω), and they are drawn uniformly;
2. accept or reject (``_kernels/decide.py``). The ratio of proposal probabilities for adding m variables to k is

   .. math:: \frac{d_{k+m}}{a_k} \binom{p-k}{m} \Big/ \binom{k+m}{m},

   its inverse for deleting them again, 1 for a swap. A move that is not possible (more variables than there are)
   leaves the model as it is, and its acceptance probability a is 0;
3. learn: ω is moved by Robbins–Monro on its logit, by :math:`\phi_i (a - \mathrm{target})`, until proposals are as
   bold as the target acceptance rate allows.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from whichvars._kernels.chain import ADDED, DELETED, LOG_PROPOSAL, PENDING, SIZE, change, clear
from whichvars._kernels.count.tally import COUNTING, end_iteration
from whichvars._kernels.decide import ACCEPTED, WAITING, acceptance_of, decide
from whichvars._kernels.fits import fit_if_room
from whichvars._kernels.jit import entry, inlined, kernel, routine
from whichvars._kernels.propose.changes import (
    ITERATION,
    Changes,
    describe_changes,
    new_changes,
    note_proposal,
)
from whichvars._kernels.propose.moves import draw_new_excluded, draw_new_included
from whichvars.errors import DataError
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import NEVER, Entries, Run, Unit, advance_unit, check_between, new_unit
from whichvars.samplers.references import LAMNISOS_2013

LARGEST_LOGIT_OMEGA = 12.0  # bound of |logit ω|


@dataclass(frozen=True)
class Lamnisos:
    """Settings of the adaptive add/delete/swap sampler.

    Parameters
    ----------
    target : float
        Acceptance rate to aim for; .25 to .7 made little difference in the paper.
    swap : float
        Probability of proposing a swap.
    max_changes : int
        N, the most variables a move adds or deletes (a swap does both).
    phi0, decay : float
        Learning rate φ_i = φ₀ i^{−λ} of logit ω, λ = decay in (½, 1].
    freeze_after : int
        Iterations after which ω stays as it is; never if not given.
    memo_slots : int
        Models whose marginal likelihood is remembered (16 bytes each); a power of two, or 0 for none.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.sample(wv.Problem(data.X, data.y), wv.Lamnisos(), draws=5000, seed=0, progress=False)
    >>> 0 < posterior.adaptation[0]["omega"] < 1
    True
    """

    target: float = 0.3
    swap: float = 1 / 3
    max_changes: int = 10
    phi0: float = 1.0
    decay: float = 0.55
    freeze_after: int | None = None
    memo_slots: int = 1 << 16

    words = "an adaptive Metropolis–Hastings sampler"
    references = (LAMNISOS_2013,)
    invariant_law = "posterior"
    for_families = True
    chains = 1

    def __post_init__(self) -> None:
        check_between(self, "target", 0, 1)
        check_between(self, "swap", 0, 1, closed_below=True)
        check_between(self, "phi0", 0, math.inf)
        check_between(self, "decay", 0.5, 1, closed_above=True)
        for name, least in (("max_changes", 1), ("freeze_after", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, (int, np.integer)) or value < least):
                raise DataError(f"Lamnisos: {name} must be a whole number of at least {least}, not {value!r}")

    def init(
        self, problem: Problem, seed: np.random.SeedSequence, starts: list[np.ndarray]
    ) -> Run[Unit[tuple[np.ndarray, Changes]], None]:
        own = (np.zeros(1), new_changes())  # logit ω, starting at ω = ½
        return Run([new_unit(problem, seed, 0, starts[0], self.memo_slots).having(own)], None)

    def advance(
        self, problem: Problem, run: Run[Unit[tuple[np.ndarray, Changes]], None], unit: int, iterations: int
    ) -> None:
        logit, changes = run.units[unit].own
        freeze = NEVER if self.freeze_after is None else self.freeze_after
        advance_unit(
            problem, run.units[unit], ENTRIES, iterations,
            logit, changes, self.target, self.swap, self.max_changes, self.phi0, self.decay, freeze,
        )  # fmt: skip

    def merge(self, problem: Problem, run: Run[Unit[tuple[np.ndarray, Changes]], None]) -> None:
        """Nothing is shared."""

    def learned(self, problem: Problem, run: Run[Unit[tuple[np.ndarray, Changes]], None]) -> dict[str, Any]:
        logit, changes = run.units[0].own
        return {"omega": float(1 / (1 + np.exp(-logit[0]))), **describe_changes([changes])}


@kernel
def log_choose(n, m):
    """log of n over m, for small m."""
    value = 0.0
    for i in range(m):
        value += math.log((n - i) / (i + 1))
    return value


@kernel
def log_add_ratio(size, m, p, swap):
    """log q(γ', γ)/q(γ, γ') where γ' has m variables more than γ, which has `size`."""
    add = 1.0 if size == 0 else 0.5 * (1.0 - swap)
    delete = 1.0 if size + m == p else 0.5 * (1.0 - swap)
    return math.log(delete / add) + log_choose(p - size, m) - log_choose(size + m, m)


@kernel
def propose(target, chain, rng, swap, max_changes, omega):
    """Step 1, and the log ratio of proposal probabilities of step 2: −inf, with nothing proposed, where the move
    that was drawn is not possible."""
    clear(chain)
    size = chain.ints[SIZE]
    p = chain.position.shape[0]
    swapping = False
    adding = size == 0
    if 0 < size < p:
        if rng.random() < swap:
            swapping = True
        else:
            adding = rng.random() < 0.5
    m = 1
    for _ in range(max_changes - 1):
        if rng.random() < omega:
            m += 1
    if ((adding or swapping) and m > p - size) or ((not adding) and m > size):
        chain.floats[LOG_PROPOSAL] = -np.inf
        return
    if swapping or not adding:
        for _ in range(m):
            change(target, chain, draw_new_included(chain, rng))
    if swapping or adding:
        for _ in range(m):
            change(target, chain, draw_new_excluded(chain, rng))
    if swapping:
        chain.floats[LOG_PROPOSAL] = 0.0
    elif adding:
        chain.floats[LOG_PROPOSAL] = log_add_ratio(size, m, p, swap)
    else:
        chain.floats[LOG_PROPOSAL] = -log_add_ratio(size - m, m, p, swap)


@inlined
def bounded_logit_omega(logit):
    return min(max(logit, -LARGEST_LOGIT_OMEGA), LARGEST_LOGIT_OMEGA)


@entry
def advance(
    target, chain, memo, tally, rng, logit, changes, aim, swap, max_changes, phi0, decay, freeze, iterations
):
    return _advance(
        target, chain, memo, tally, rng, logit, changes, aim, swap, max_changes, phi0, decay, freeze, iterations
    )  # fmt: skip


@entry
def advance_with_fits(
    fits, target, chain, memo, tally, rng, logit, changes, aim, swap, max_changes, phi0, decay, freeze, iterations
):  # fmt: skip
    return _advance_with_fits(
        fits, target, chain, memo, tally, rng, logit, changes, aim, swap, max_changes, phi0, decay, freeze, iterations
    )  # fmt: skip


ENTRIES = Entries(advance, advance_with_fits)


@kernel
def _advance_with_fits(
    fits, target, chain, memo, tally, rng, logit, changes, aim, swap, max_changes, phi0, decay, freeze, iterations
):  # fmt: skip
    done = 0
    while True:
        done += _advance(
            target, chain, memo, tally, rng, logit, changes, aim, swap, max_changes, phi0, decay, freeze, iterations - done
        )  # fmt: skip
        if not fit_if_room(fits, chain):
            return done


@routine
def _advance(
    target, chain, memo, tally, rng, logit, changes, aim, swap, max_changes, phi0, decay, freeze, iterations
):
    """Advance one chain; returns the iterations done, fewer than asked where the chain needs more room."""
    ints = chain.ints
    counting = tally.ints[COUNTING] == 1
    for done in range(iterations):
        if ints[PENDING] == 0:
            changes.ints[ITERATION] += 1
            propose(target, chain, rng, swap, max_changes, 1.0 / (1.0 + math.exp(-logit[0])))
        verdict, log_ratio = decide(target, chain, memo, tally, rng, counting, False)
        if verdict == WAITING:
            return done
        acceptance = acceptance_of(log_ratio)
        iteration = changes.ints[ITERATION]
        if iteration <= freeze:
            logit[0] = bounded_logit_omega(logit[0] + phi0 * math.pow(iteration, -decay) * (acceptance - aim))
        note_proposal(changes, counting, ints[ADDED] + ints[DELETED], acceptance, verdict == ACCEPTED)
        if counting:
            end_iteration(target, chain, tally)
    return iterations
