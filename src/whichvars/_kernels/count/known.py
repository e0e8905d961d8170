r"""Models known before: their posterior weights are exact, and need not be estimated by the time spent in them.

How probable two models are relative to one another is known as soon as both have been met. Let K be all models
that any chain of a replicate has met before some moment. From then on the PIPs are estimated by

.. math:: \pi(K)\, \frac{\sum_{\gamma \in K} \pi(\gamma)\, p_j(\gamma)}{\sum_{\gamma \in K} \pi(\gamma)}
          + \sum_{\gamma \notin K} \pi(\gamma)\, p_j(\gamma),

in which a chain's time in K estimates π(K), its time elsewhere the last sum, and the quotient is exact. So chains need
not agree on the weights of modes that they have met; only what is new counts by time. The same holds for shares of
draws, with :math:`\gamma_j` in place of :math:`p_j(\gamma)`, and with another K: models met by moves, which need no scan.

K must not depend on the time that is counted with it: that would favour models that happened to be met. It therefore
changes only at a few moments, the ends of *stages*, each as long as all before it together. What a stage starts with
is then forgotten as the start of any Markov chain is.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.chain import LOG_MARGINAL, LOG_PRIOR, SIZE
from whichvars._kernels.jit import by_reference, entry, inlined, kernel
from whichvars._kernels.lanes import fetch

NEGLIGIBLE = 1e-12  # weight, that of the best model being 1, below which probabilities are not added up

# places in Known.ints
CURRENT_STAGE = 0
N_KNOWN = 1

# places in Known.mass and rows of Known.sums
EARLIER_STAGES, THIS_STAGE = range(2)


@by_reference
class Known(NamedTuple):
    ints: np.ndarray
    keys: np.ndarray  # (slots, a power of two, or none) uint64; 0 where there is none
    first_stage: np.ndarray  # (slots,) uint8: the stage in which a model was first met
    sums: np.ndarray  # (2, p): Σ π(γ) p_j(γ) over K, and over models first met in this stage
    mass: np.ndarray  # (2,) Σ π(γ)
    scale: np.ndarray  # (1,) log posterior that counts as 1


def new_known(p: int, slots: int) -> Known:
    """Nothing is known. Without slots, nothing ever will be."""
    return Known(
        ints=np.zeros(2, np.int64),
        keys=np.zeros(slots, np.uint64),
        first_stage=np.zeros(slots, np.uint8),
        sums=np.zeros((2, p if slots else 0)),
        mass=np.zeros(2),
        scale=np.full(1, -np.inf),
    )


@inlined
def note_scanned_model(known, key, log_posterior, probabilities):
    """Note a model that was scanned, with its conditional inclusion probabilities. Returns whether it was known when the
    stage began."""
    before = False
    if known.keys.shape[0] > 0:
        before = _note_scanned_model(known, key, log_posterior, probabilities)
    return before


@inlined
def _find_slot(keys, key):
    """The slot of a model, or the empty one where it belongs."""
    mask = keys.shape[0] - 1
    slot = np.int64(key & np.uint64(mask))
    while keys[slot] != np.uint64(0) and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@inlined
def fetch_slot(known, key):
    """Whether this model is known will be asked soon."""
    if known.keys.shape[0] > 0:
        slot = np.int64(key & np.uint64(known.keys.shape[0] - 1))
        fetch(known.keys, slot, slot + 1)
        fetch(known.first_stage, slot, slot + 1)


@kernel
def is_known(known, key):
    """Whether a model was known when the stage began."""
    if known.keys.shape[0] == 0 or key == np.uint64(0):
        return False
    slot = _find_slot(known.keys, key)
    return known.keys[slot] == key and known.first_stage[slot] < known.ints[CURRENT_STAGE]


@kernel
def _note_scanned_model(known, key, log_posterior, probabilities):
    before, weight = _note(known, key, log_posterior)
    if weight > NEGLIGIBLE:
        add_scaled(known.sums[THIS_STAGE], probabilities, weight)
    return before


@kernel
def _note(known, key, log_posterior):
    """Whether a model was known when the stage began, and its weight if it has not been met before, else 0."""
    ints, keys = known.ints, known.keys
    if key == np.uint64(0):  # that of no model, but for one in 2⁶⁴
        return False, 0.0
    slot = _find_slot(keys, key)
    if keys[slot] == key:
        return known.first_stage[slot] < ints[CURRENT_STAGE], 0.0
    weight = 0.0
    if 4 * ints[N_KNOWN] < 3 * keys.shape[0]:  # a full set stays as it is
        keys[slot] = key
        known.first_stage[slot] = np.uint8(ints[CURRENT_STAGE])
        ints[N_KNOWN] += 1
        if log_posterior > known.scale[0]:
            _rescale(known, log_posterior)
        weight = math.exp(log_posterior - known.scale[0])
        known.mass[THIS_STAGE] += weight
    return False, weight


@inlined
def note_visited_model(known, chain):
    """Note the chain's model, with its variables in place of probabilities. Returns whether it was known when the stage
    began."""
    before = False
    if known.keys.shape[0] > 0:
        before, weight = _note(known, chain.keys[0], chain.floats[LOG_MARGINAL] + chain.floats[LOG_PRIOR])
        if weight > NEGLIGIBLE:
            for i in range(chain.ints[SIZE]):
                known.sums[THIS_STAGE, chain.order[i]] += weight
    return before


@kernel
def _rescale(known, log_posterior):
    factor = math.exp(known.scale[0] - log_posterior)
    known.scale[0] = log_posterior
    for period in range(2):
        known.mass[period] *= factor
        for j in range(known.sums.shape[1]):
            known.sums[period, j] *= factor


@kernel
def add_scaled(out, values, factor):
    for j in range(out.shape[0]):
        out[j] += factor * float(values[j])  # which is of single precision


@inlined
def has_mass(known):
    """Whether K has any mass compared with the best model. If not, time in K counts as time elsewhere does."""
    return known.mass[EARLIER_STAGES] > 1e-200


@kernel
def add_known(known, held, sums):
    """Add to `sums` what a chain contributes by the time `held` that it spent in K."""
    if held > 0.0:
        add_scaled(sums, known.sums[EARLIER_STAGES], held / known.mass[EARLIER_STAGES])


@kernel
def end_stage(known):
    """Whatever has been met is known from now on."""
    known.ints[CURRENT_STAGE] = min(known.ints[CURRENT_STAGE] + 1, 255)
    known.mass[EARLIER_STAGES] += known.mass[THIS_STAGE]
    known.mass[THIS_STAGE] = 0.0
    for j in range(known.sums.shape[1]):
        known.sums[EARLIER_STAGES, j] += known.sums[THIS_STAGE, j]
        known.sums[THIS_STAGE, j] = 0.0


@entry
def end_stage_of_draws(known, means):
    """``end_stage`` for Python; `means` (p,) become the exact inclusion probabilities within K."""
    end_stage(known)
    if known.mass[EARLIER_STAGES] > 0.0:
        for j in range(means.shape[0]):
            means[j] = known.sums[EARLIER_STAGES, j] / known.mass[EARLIER_STAGES]
