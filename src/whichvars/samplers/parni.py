r"""Pointwise implementation of an adaptive random neighbourhood informed proposal, PARNI (Liang, Livingstone &
Griffin 2022).

With π̂_j estimates of the inclusion probabilities (``estimated.py``), one iteration:

1. draw a neighbourhood: each variable that is out with probability :math:`\min\{1, \hat\pi_j/(1-\hat\pi_j)\}`, each
   that is in with :math:`\min\{1, (1-\hat\pi_j)/\hat\pi_j\}`, independently (times 1 − .1/p, which cancels);
2. visit its variables in a uniformly random order (a fixed one would not do); at j, with γ the model reached so
   far, :math:`r = \frac{\pi(\mathrm{flip}_j\gamma)}{\pi(\gamma)} \left(\frac{\hat\pi_j}{1-\hat\pi_j}\right)^{2\gamma_j-1}`
   and b(r) = min{1, r}, flip it with probability ω b(r)/Z, Z = ω b(r) + 1 − ω;
3. accept the model reached with probability min{1, Π Z/Z'}, where the reverse has Z' = ω b(1/r) + 1 − ω for the
   variables flipped and Z' = Z for the others; else go back;
4. move logit ω by :math:`i^{-0.7}(a - 0.65)`.

Where the response is not Gaussian, steps 1 to 3 are made on a Gaussian surrogate of the posterior, and what they accept is kept in a
second stage (``_kernels/decide.py``): one fit an iteration, of the model reached at last. The probability a is then the product of
both stages'.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from whichvars._kernels.chain import BREAKDOWNS, LOG_MARGINAL, NEEDED, SIZE, SURROGATE, change, clear
from whichvars._kernels.count.averages import NEXT_SCAN, SCAN_INTERVAL, add_scan
from whichvars._kernels.count.tally import COUNTING, end_iteration
from whichvars._kernels.decide import ACCEPTED, REJECTED, WAITING, accept_and_count
from whichvars._kernels.evaluate import evaluate, evaluate_fully, fitted_value, has_second_stage
from whichvars._kernels.jit import entry, kernel
from whichvars._kernels.propose.changes import ITERATION, describe_changes, note_proposal
from whichvars._kernels.propose.informed import (
    DELETE,
    LOG_ODDS,
    SMALLEST_LOGIT,
    ZETA,
    draw_additions,
    set_scale,
)
from whichvars.problem.problem import Problem
from whichvars.samplers import estimated
from whichvars.samplers.contract import check_between
from whichvars.samplers.estimated import InformedRun
from whichvars.samplers.references import LIANG_2022

# places in Own.ints
PHASE, COUNT, NEXT_NEIGHBOUR, FLIPPED = range(4)
BEGIN, VISIT, FIT, JUDGED, RETURN = range(5)  # phases
# places in Own.floats
LOGIT_OMEGA, LOG_RATIO, OLD_MARGINAL, OLD_SURROGATE = range(4)
# rows of Own.memory
NEIGHBOURS, FLIPS = range(2)


@dataclass(frozen=True)
class PARNI:
    """Settings of PARNI.

    As with ``ASI``, chains that share π̂ agree more easily than they should where a posterior has separated
    modes.

    Parameters
    ----------
    chains : int
        Chains that estimate π̂ together.
    target : float
        Acceptance rate to which ω is tuned.
    decay : float
        λ of the learning rate i^−λ of ω, in (½, 1].
    adapt : "warmup" or "always"
        Learn π̂ and ω in warm-up only, or go on with ever smaller steps.
    memo_slots : int
        Models whose marginal likelihood is remembered, per chain (16 bytes each); a power of two, or 0 for none.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.sample(wv.Problem(data.X, data.y), wv.PARNI(), draws=2000, seed=0, progress=False)
    >>> posterior.iterations
    8800
    """

    chains: int = 5
    target: float = 0.65
    decay: float = 0.7
    adapt: str = "warmup"
    memo_slots: int = 1 << 18

    words = "a pointwise adaptive random neighbourhood sampler with informed proposals"
    references = (LIANG_2022,)
    invariant_law = "posterior"

    def __post_init__(self) -> None:
        estimated.check(self)
        check_between(self, "target", 0, 1)
        check_between(self, "decay", 0.5, 1, closed_above=True)

    def init(self, problem: Problem, seed: np.random.SeedSequence, starts: list[np.ndarray]) -> InformedRun:
        run = estimated.init(problem, seed, starts, self.memo_slots, memory=True)
        for unit in run.units:
            set_scale(unit.own.informed, 1.0)
        return run

    def advance(self, problem: Problem, run: InformedRun, unit: int, iterations: int) -> None:
        learning = estimated.is_learning(run, self.adapt)
        estimated.advance(problem, run.units[unit], advance, iterations, self.target, self.decay, learning)

    def merge(self, problem: Problem, run: InformedRun) -> None:
        estimated.merge(problem, run)
        logit = float(np.mean([unit.own.floats[LOGIT_OMEGA] for unit in run.units]))
        for unit in run.units:
            unit.own.floats[LOGIT_OMEGA] = logit
            set_scale(unit.own.informed, 1.0)

    def begin_counting(self, problem: Problem, run: InformedRun) -> None:
        estimated.begin_counting(problem, run, self.adapt)
        for unit in run.units:
            set_scale(unit.own.informed, 1.0)

    def learned(self, problem: Problem, run: InformedRun) -> dict[str, Any]:
        return {
            "omega": float(1 / (1 + np.exp(-run.units[0].own.floats[LOGIT_OMEGA]))),
            **describe_changes([unit.own.changes for unit in run.units]),
        }


@kernel
def draw_neighbourhood(chain, informed, rng, out):
    """Step 1, and the random order of step 2; returns the number of variables."""
    count = draw_additions(informed, chain.position, rng, out)
    zeta = informed.floats[ZETA]
    for i in range(chain.ints[SIZE]):
        j = chain.order[i]
        if rng.random() < zeta * informed.values[j, DELETE]:
            out[count] = j
            count += 1
    for i in range(count - 1, 0, -1):
        other = int(rng.random() * (i + 1))
        out[i], out[other] = out[other], out[i]
    return count


@kernel
def visit(target, chain, memo, tally, rng, own, counting):
    """Step 2; False where the chain needs more room, to be called again then."""
    ints, floats = own.ints, own.floats
    omega = 1.0 / (1.0 + math.exp(-floats[LOGIT_OMEGA]))
    while ints[NEXT_NEIGHBOUR] < ints[COUNT]:
        j = own.memory[NEIGHBOURS, ints[NEXT_NEIGHBOUR]]
        clear(chain)
        change(target, chain, j)
        log_r = evaluate_fully(target, chain, memo)
        if chain.ints[NEEDED] > 0:
            return False
        present = chain.position[j] >= 0
        log_r += own.informed.values[j, LOG_ODDS] if present else -own.informed.values[j, LOG_ODDS]
        weight = omega * math.exp(min(log_r, 0.0))
        z = weight + (1.0 - omega)
        ints[NEXT_NEIGHBOUR] += 1
        if rng.random() * z < weight:
            reverse = omega * math.exp(min(-log_r, 0.0)) + (1.0 - omega)
            floats[LOG_RATIO] += math.log(z) - math.log(reverse)
            own.memory[FLIPS, ints[FLIPPED]] = j
            ints[FLIPPED] += 1
            accept_and_count(target, chain, tally, counting)
    return True


@kernel
def go_back(target, chain, memo, tally, own, counting):
    """Undo all flips; False where the chain needs more room, to be called again then."""
    clear(chain)
    for i in range(own.ints[FLIPPED]):
        change(target, chain, own.memory[FLIPS, i])
    possible = evaluate(target, chain, memo) > -np.inf
    if chain.ints[NEEDED] > 0:
        return False
    if possible:
        accept_and_count(target, chain, tally, counting)
        if target.slab.surrogate:
            chain.floats[LOG_MARGINAL] = own.floats[OLD_MARGINAL]
            chain.floats[SURROGATE] = own.floats[OLD_SURROGATE]
    else:  # by rounding: the model that it came from was sound with its columns in another order
        chain.ints[BREAKDOWNS] += 1
    return True


@kernel
def judge_again(target, chain, memo, own, rng):
    """The second stage, of the model reached: WAITING, REJECTED or ACCEPTED. ``floats[LOG_RATIO]`` becomes the product of both."""
    floats = chain.floats
    clear(chain)
    value = fitted_value(target, chain, memo)
    if chain.ints[NEEDED] != 0:
        return WAITING
    floats[LOG_MARGINAL] = value
    difference = (value - floats[SURROGATE]) - (own.floats[OLD_MARGINAL] - own.floats[OLD_SURROGATE])
    own.floats[LOG_RATIO] = min(own.floats[LOG_RATIO], 0.0) + min(difference, 0.0)
    return ACCEPTED if difference >= 0.0 or rng.random() < math.exp(difference) else REJECTED


@entry
def advance(target, chain, memo, tally, rng, own, aim, decay, learning, iterations):
    return _advance(target, chain, memo, tally, rng, own, aim, decay, learning, iterations)


@kernel
def _advance(target, chain, memo, tally, rng, own, aim, decay, learning, iterations):
    """Advance one chain; returns the iterations done, fewer than asked where the chain needs more room."""
    ints, floats, changes, scans = own.ints, own.floats, own.changes, own.averages.ints
    counting = tally.ints[COUNTING] == 1
    accepted = False
    for done in range(iterations):
        if ints[PHASE] == BEGIN:
            ints[COUNT] = draw_neighbourhood(chain, own.informed, rng, own.memory[NEIGHBOURS])
            ints[NEXT_NEIGHBOUR] = 0
            ints[FLIPPED] = 0
            floats[LOG_RATIO] = 0.0
            floats[OLD_MARGINAL] = chain.floats[LOG_MARGINAL]
            floats[OLD_SURROGATE] = chain.floats[SURROGATE]
            ints[PHASE] = VISIT
        if ints[PHASE] == VISIT:
            if not visit(target, chain, memo, tally, rng, own, counting):
                return done
            changes.ints[ITERATION] += 1
            accepted = rng.random() < math.exp(min(floats[LOG_RATIO], 0.0))
            ints[PHASE] = FIT if accepted and ints[FLIPPED] > 0 and has_second_stage(target) else JUDGED
        if ints[PHASE] == FIT:
            verdict = judge_again(target, chain, memo, own, rng)
            if verdict == WAITING:
                return done
            accepted = verdict == ACCEPTED
            ints[PHASE] = JUDGED
        if ints[PHASE] == JUDGED:
            acceptance = math.exp(min(floats[LOG_RATIO], 0.0))
            if learning and ints[COUNT] > 0:
                step = math.pow(changes.ints[ITERATION], -decay)
                logit = floats[LOGIT_OMEGA] + step * (acceptance - aim)
                floats[LOGIT_OMEGA] = min(max(logit, SMALLEST_LOGIT), -SMALLEST_LOGIT)
            note_proposal(changes, counting, ints[FLIPPED], acceptance, accepted)
            ints[PHASE] = BEGIN if accepted or ints[FLIPPED] == 0 else RETURN
        if ints[PHASE] == RETURN:
            if not go_back(target, chain, memo, tally, own, counting):
                return done
            ints[PHASE] = BEGIN
        if counting:
            end_iteration(target, chain, tally)
        if changes.ints[ITERATION] == scans[NEXT_SCAN]:
            add_scan(target, chain, own.averages)
            scans[NEXT_SCAN] += scans[SCAN_INTERVAL]
    return iterations
