r"""Proposals that change the size of a model by several variables at once.

Where many variables matter so little that nearly every addition and deletion is accepted, the size of the model does a random walk
in steps of one. A standard deviation of s then takes some s² steps. In steps of d it takes (s/d)².

1. With probability ½ each, add or delete;
2. draw d of the variables out of the model, or d of those in it, uniformly. If there are fewer, nothing is proposed.

With k variables in the model γ and γ' the model with d more,

.. math:: \frac{q(\gamma', \gamma)}{q(\gamma, \gamma')} = \binom{p - k}{d} \Big/ \binom{k + d}{d}.
"""

import math

import numpy as np

from whichvars._kernels.chain import LOG_PROPOSAL, SIZE, change, clear
from whichvars._kernels.jit import kernel
from whichvars._kernels.propose.moves import draw_new_excluded, draw_new_included


@kernel
def log_resize_ratio(size, p, step):
    """log q(γ', γ)/q(γ, γ') where γ' has `step` variables more than γ, which has `size`."""
    ratio = 0.0
    for i in range(step):
        ratio += math.log((p - size - i) / (size + step - i))
    return ratio


@kernel
def propose_resize(target, chain, step, rng):
    """Fill the proposal and its log ratio. The proposal is empty, and its log ratio −∞, where there are too few variables."""
    clear(chain)
    chain.floats[LOG_PROPOSAL] = -np.inf
    size, p = chain.ints[SIZE], chain.position.shape[0]
    adds = rng.random() < 0.5
    if adds and size + step <= p:
        for _ in range(step):
            change(target, chain, draw_new_excluded(chain, rng))
        chain.floats[LOG_PROPOSAL] = log_resize_ratio(size, p, step)
    elif not adds and size >= step:
        for _ in range(step):
            change(target, chain, draw_new_included(chain, rng))
        chain.floats[LOG_PROPOSAL] = -log_resize_ratio(size - step, p, step)
