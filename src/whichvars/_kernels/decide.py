r"""What becomes of a proposal: the step of Metropolis and Hastings, the same for every sampler.

A sampler proposes and learns. It proposes with ``clear`` and ``change``, and leaves log q(γ', γ) − log q(γ, γ') in
``floats[LOG_PROPOSAL]``. Then ``decide``

1. evaluates the target at the proposed model γ'. Where the chain has no room for γ', or γ' must be fitted first, the verdict is
   WAITING and ``ints[PENDING]`` is 1: the sampler returns to Python, which makes room or fits and calls again, and the same
   proposal is decided then;
2. accepts with probability

   .. math:: a = \min\Big\{1, \frac{\pi(\gamma')\,q(\gamma', \gamma)}{\pi(\gamma)\,q(\gamma, \gamma')}\Big\},

   where π is tempered as the chain is. A proposal that changes nothing is not evaluated: the first of the two ratios is 1;
3. counts what the change brings to an end, and makes γ' the current model.

It returns the verdict and the log of the ratio in step 2, for the sampler to learn from; ``acceptance_of`` makes a of it.

``judge`` is steps 1 and 2 alone, for samplers that count in their own way. ``make_flip`` is for processes in continuous time,
which choose a flip by its rate and do not test it.

Where the response is not Gaussian and a sampler needs scans, acceptance has two stages. In the first, π is π̃, a Gaussian surrogate
with marginal likelihood m̃. What passes it is kept with probability min{1, w'/w}, where w = m/m̃ and m is the marginal likelihood
itself, which takes a fit. With q̃ the kernel of the first stage, which is reversible for π̃,

.. math:: \pi(\gamma)\,\tilde q(\gamma, \gamma') \min\{1, w'/w\} \propto \tilde\pi(\gamma)\,\tilde q(\gamma, \gamma') \min\{w, w'\}

is symmetric in γ and γ', so that π is invariant however good or bad the surrogate is (Christen & Fox 2005). The ratio that is
returned is then the product of both acceptance probabilities, or of the first one alone if that was a rejection. Flips of processes
in continuous time are thinned in the same way (``scan/thinning.py``). Where m is an average over g (``averaging.py``), which costs little,
there is a surrogate for scans, and proposals have one stage with m itself.
"""

import math

import numpy as np

from whichvars._kernels.chain import (
    ADDED,
    DELETED,
    JUDGED,
    LOG_PROPOSAL,
    NEEDED,
    PASSED,
    PENDING,
    UPHELD,
    accept,
)
from whichvars._kernels.count.tally import count_changes, count_time_in_model
from whichvars._kernels.evaluate import evaluate, evaluate_fully, has_second_stage, second_stage
from whichvars._kernels.jit import inlined, kernel

# Verdicts are returned and not kept in the chain: one more store to its arrays takes 6 % of the fastest sampler's time.
WAITING, REJECTED, ACCEPTED = range(3)


@inlined
def acceptance_of(log_ratio):
    """The acceptance probability a."""
    return 1.0 if log_ratio >= 0.0 else math.exp(log_ratio)


@inlined
def judge(target, chain, memo, rng, always_draw):
    """Steps 1 and 2: the verdict, and the log of the ratio.

    always_draw: draw a random number even where a is 1. ASI and the hybrid do, the others do not, and each keeps the stream
    of random numbers that it has always had.
    """
    ints = chain.ints
    log_ratio = chain.floats[LOG_PROPOSAL]
    if ints[ADDED] + ints[DELETED] == 0:
        return REJECTED, log_ratio
    if ints[PENDING] != PASSED:
        log_ratio += evaluate_fully(target, chain, memo)
        ints[PENDING] = 1 if ints[NEEDED] != 0 else 0
        if ints[NEEDED] != 0:
            return WAITING, log_ratio
        acceptance = acceptance_of(log_ratio)
        if not ((log_ratio >= 0.0 and not always_draw) or rng.random() < acceptance):
            return REJECTED, log_ratio
    if has_second_stage(target):
        return _judge_again(target, chain, memo, rng, log_ratio)
    return ACCEPTED, log_ratio


@kernel
def _judge_again(target, chain, memo, rng, log_ratio):
    """The second stage. While it waits for a fit, the log ratio of the first one is kept in the place of the proposal's."""
    ints = chain.ints
    log_ratio = min(log_ratio, 0.0)
    difference = second_stage(target, chain, memo)
    ints[PENDING] = PASSED if ints[NEEDED] != 0 else 0
    if ints[NEEDED] != 0:
        chain.floats[LOG_PROPOSAL] = log_ratio
        return WAITING, log_ratio
    verdict = ACCEPTED if difference >= 0.0 or rng.random() < math.exp(difference) else REJECTED
    ints[JUDGED] += 1
    ints[UPHELD] += 1 if verdict == ACCEPTED else 0
    return verdict, log_ratio + min(difference, 0.0)


@inlined
def accept_and_count(target, chain, tally, counting):
    """Step 3. Counting comes first, as it needs the model from which the chain moves away."""
    if counting:
        count_time_in_model(chain, tally)
        count_changes(chain, tally, chain.ints[ADDED], chain.ints[DELETED])
    accept(target, chain)


@inlined
def decide(target, chain, memo, tally, rng, counting, always_draw):
    """Steps 1 to 3: the verdict, and the log of the ratio."""
    verdict, log_ratio = judge(target, chain, memo, rng, always_draw)
    if verdict == ACCEPTED:
        accept_and_count(target, chain, tally, counting)
    return verdict, log_ratio


@inlined
def make_flip(target, chain, memo, known):
    """Make a flip that was chosen by its rate; False, and nothing done, where the chain needs more room.

    known: whether the chain has the new model's values already, so that it need not be evaluated. A model without mass has rate
    0, and only rounding can say otherwise: the flip is then left out.
    """
    ints = chain.ints
    possible = known or evaluate(target, chain, memo) > -np.inf
    ints[PENDING] = 1 if ints[NEEDED] > 0 else 0
    if possible:
        accept(target, chain)
    return ints[NEEDED] == 0
