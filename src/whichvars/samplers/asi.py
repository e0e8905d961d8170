r"""Adaptively scaled individual adaptation, ASI (Griffin, Łatuszyński & Steel 2021).

Individual adaptation whose 2p probabilities follow from estimates π̂_j of the inclusion probabilities and one
scale ζ. One iteration:

1. propose: each variable that is out enters with :math:`A_j = \zeta \min\{1, \hat\pi_j/(1-\hat\pi_j)\}`, each that is
   in leaves with :math:`D_j = \zeta \min\{1, (1-\hat\pi_j)/\hat\pi_j\}`, independently;
2. accept (``_kernels/decide.py``) with probability :math:`a = \min\{1, \frac{\pi(\gamma')}{\pi(\gamma)}
   \prod_{\mathrm{added}} \frac{1-\hat\pi_j}{\hat\pi_j} \prod_{\mathrm{deleted}} \frac{\hat\pi_j}{1-\hat\pi_j}\}`;
3. move ζ on the scale logit_ε by :math:`i^{-0.7} (a - 0.234)`, a proposal without a change counted as accepted.

Now and then all conditional inclusion probabilities p_j(γ) are computed; π̂_j = κ + (1 − 2κ) · their mean over
iterations and chains, renewed at iterations 128, 256, 512, … until warm-up ends. The same means are the
Rao–Blackwellised PIPs.

Chains that share π̂ agree more easily than they should: where a posterior has separated modes, π̂ describes the
ones that were found in warm-up and keeps all chains there. Their Monte Carlo errors can then be several times
too small. ``Hybrid`` does not have this fault.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from whichvars._kernels.chain import ADDED, DELETED, LOG_PROPOSAL, PENDING, SIZE, clear
from whichvars._kernels.count.averages import NEXT_SCAN, SCAN_INTERVAL, add_scan
from whichvars._kernels.count.tally import COUNTING, end_iteration
from whichvars._kernels.decide import ACCEPTED, WAITING, acceptance_of, decide
from whichvars._kernels.fits import fit_if_room
from whichvars._kernels.jit import entry, inlined, kernel, routine
from whichvars._kernels.propose.changes import ITERATION, describe_changes, note_proposal
from whichvars._kernels.propose.informed import (
    ADD,
    DELETE,
    LOG_ODDS,
    SMALLEST_LOGIT,
    ZETA,
    draw_additions,
    set_scale,
    set_zeta,
)
from whichvars.problem.problem import Problem
from whichvars.samplers import estimated
from whichvars.samplers.contract import Entries, check_between
from whichvars.samplers.estimated import InformedRun
from whichvars.samplers.references import GRIFFIN_2021

GAP = 1e-3  # ζ counts as at least so far below its upper bound, as its logit could not come back from the bound itself


@dataclass(frozen=True)
class ASI:
    """Settings of adaptively scaled individual adaptation.

    Where a posterior has separated modes, the chains of ASI agree too easily, as they share π̂: use ``Hybrid``
    there, or compare ``replicates``, which share nothing.

    Parameters
    ----------
    chains : int
        Chains that estimate π̂ together.
    target : float
        Acceptance rate to which ζ is tuned.
    decay : float
        λ of the learning rate i^−λ of ζ, in (½, 1].
    adapt : "warmup" or "always"
        Learn π̂ and ζ in warm-up only, or go on with ever smaller steps.
    memo_slots : int
        Models whose marginal likelihood is remembered, per chain (16 bytes each); a power of two, or 0 for none.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.sample(wv.Problem(data.X, data.y), wv.ASI(), draws=2000, seed=0, progress=False)
    >>> posterior.iterations
    8800
    """

    chains: int = 5
    target: float = 0.234
    decay: float = 0.7
    adapt: str = "warmup"
    memo_slots: int = 1 << 18

    words = "adaptively scaled individual adaptation"
    references = (GRIFFIN_2021,)
    invariant_law = "posterior"

    def __post_init__(self) -> None:
        estimated.check(self)
        check_between(self, "target", 0, 1)
        check_between(self, "decay", 0.5, 1, closed_above=True)

    def init(self, problem: Problem, seed: np.random.SeedSequence, starts: list[np.ndarray]) -> InformedRun:
        return estimated.init(problem, seed, starts, self.memo_slots)

    def advance(self, problem: Problem, run: InformedRun, unit: int, iterations: int) -> None:
        learning = estimated.is_learning(run, self.adapt)
        settings = self.target, self.decay, learning
        estimated.advance(problem, run.units[unit], ENTRIES, iterations, *settings)

    def merge(self, problem: Problem, run: InformedRun) -> None:
        zetas = [unit.own.informed.floats[ZETA] for unit in run.units]
        estimated.merge(problem, run)
        for unit in run.units:
            set_scale(unit.own.informed, float(np.mean(zetas)))

    def begin_counting(self, problem: Problem, run: InformedRun) -> None:
        estimated.begin_counting(problem, run, self.adapt)

    def learned(self, problem: Problem, run: InformedRun) -> dict[str, Any]:
        informed = run.units[0].own.informed
        zeta = float(informed.floats[ZETA])
        return {
            "add_probability": zeta * informed.values[:, ADD],
            "delete_probability": zeta * informed.values[:, DELETE],
            "zeta": zeta,
            **describe_changes([unit.own.changes for unit in run.units]),
        }


@inlined
def propose(target, chain, informed, rng):
    """Step 1, and the log of the product of step 2."""
    clear(chain)
    ints, keys, values = chain.ints, target.design.keys, informed.values
    added = draw_additions(informed, chain.position, rng, chain.added)
    zeta = informed.floats[ZETA]
    key = chain.keys[0]
    log_ratio = 0.0
    for i in range(added):
        j = chain.added[i]
        key ^= keys[j]
        log_ratio -= values[j, LOG_ODDS]
    deleted = 0
    for i in range(ints[SIZE]):
        j = chain.order[i]
        if rng.random() < zeta * values[j, DELETE]:
            chain.deleted[deleted] = j
            deleted += 1
            key ^= keys[j]
            log_ratio += values[j, LOG_ODDS]
    ints[ADDED] = added
    ints[DELETED] = deleted
    chain.keys[1] = key
    chain.floats[LOG_PROPOSAL] = log_ratio


@kernel
def learn_scale(informed, acceptance, target, step):
    """Step 3."""
    epsilon = 0.1 / informed.values.shape[0]
    zeta = informed.floats[ZETA]
    logit = math.log((zeta - epsilon) / max(1.0 - zeta - epsilon, GAP)) + step * (acceptance - target)
    logit = min(max(logit, SMALLEST_LOGIT), -SMALLEST_LOGIT)
    set_zeta(informed, epsilon + (1.0 - 2.0 * epsilon) / (1.0 + math.exp(-logit)))


@entry
def advance(target, chain, memo, tally, rng, own, aim, decay, learning, iterations):
    return _advance(target, chain, memo, tally, rng, own, aim, decay, learning, iterations)


@entry
def advance_with_fits(fits, target, chain, memo, tally, rng, own, aim, decay, learning, iterations):
    return _advance_with_fits(fits, target, chain, memo, tally, rng, own, aim, decay, learning, iterations)


ENTRIES = Entries(advance, advance_with_fits)


@kernel
def _advance_with_fits(fits, target, chain, memo, tally, rng, own, aim, decay, learning, iterations):
    done = 0
    while True:
        done += _advance(target, chain, memo, tally, rng, own, aim, decay, learning, iterations - done)
        if not fit_if_room(fits, chain):
            return done


@routine
def _advance(target, chain, memo, tally, rng, own, aim, decay, learning, iterations):
    """Advance one chain; returns the iterations done, fewer than asked where the chain needs more room."""
    ints, changes, scans = chain.ints, own.changes, own.averages.ints
    counting = tally.ints[COUNTING] == 1
    for done in range(iterations):
        if ints[PENDING] == 0:
            propose(target, chain, own.informed, rng)
        verdict, log_ratio = decide(target, chain, memo, tally, rng, counting, True)
        if verdict == WAITING:
            return done
        acceptance = acceptance_of(log_ratio)
        changes.ints[ITERATION] += 1
        if learning:
            step = math.pow(changes.ints[ITERATION], -decay)
            learn_scale(own.informed, acceptance, aim, step)
        note_proposal(changes, counting, ints[ADDED] + ints[DELETED], acceptance, verdict == ACCEPTED)
        if counting:
            end_iteration(target, chain, tally)
        if changes.ints[ITERATION] == scans[NEXT_SCAN]:
            add_scan(target, chain, own.averages)
            scans[NEXT_SCAN] += scans[SCAN_INTERVAL]
    return iterations
