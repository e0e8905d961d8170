"""Where the response is not Gaussian: the fit that a chain waits for (``A_FIT`` in ``chain.py``), and what a surrogate is made of.

Kernels of Gaussian problems know nothing of fits: they stop, and are called again when the fit was made. Every sampler has a second
entry ``advance_with_fits`` that does so without going back to Python for each model.
"""

from typing import NamedTuple

import numpy as np

from whichvars._kernels.chain import (
    A_FIT,
    ADDED,
    BREAKDOWNS,
    COLUMNS,
    DELETED,
    EVALUATIONS,
    FITS,
    FITTED,
    NEEDED,
    SIZE,
)
from whichvars._kernels.densities import first_and_second
from whichvars._kernels.family_evidence import log_evidence
from whichvars._kernels.jit import by_reference, entry, kernel
from whichvars._kernels.likelihood import BROKEN, FitWork, Likelihood


@by_reference
class Fits(NamedTuple):
    """What a kernel needs to fit models by itself."""

    likelihood: Likelihood
    work: FitWork
    null: float  # log marginal likelihood of the null model


def fit_cost(n: int, k: float) -> float:
    """What a fit of a model of k columns costs, in nanoseconds, roughly: four steps of Newton's method and the second order."""
    return n * (40.0 + k * k + k**3 / 15.0)


@kernel
def fit_if_room(fits, chain):
    """Fit the proposed model if the chain waits for that and there is room for it; says whether that was done."""
    ints, offsets, work = chain.ints, fits.likelihood.offsets, fits.work
    if ints[NEEDED] != A_FIT:
        return False
    columns = ints[COLUMNS]
    for i in range(ints[ADDED]):
        columns += offsets[chain.added[i] + 1] - offsets[chain.added[i]]
    if fits.likelihood.flat + columns > work.column.shape[0]:
        return False
    _fit_proposal(fits.likelihood, work, chain, fits.null)
    return True


@entry
def fit_proposal(likelihood, work, chain, null):
    """``_fit_proposal`` for Python."""
    _fit_proposal(likelihood, work, chain, null)


@kernel
def _fit_proposal(likelihood, work, chain, null):
    """Fit the proposed model, and leave its log marginal likelihood relative to the null model's, `null`, in ``floats[FITTED]``.
    `work` must have room for the model."""
    ints = chain.ints
    n = 0
    for q in range(ints[SIZE]):
        j = chain.order[q]
        stays = True
        for i in range(ints[DELETED]):
            stays = stays and chain.deleted[i] != j
        if stays:
            work.members[n] = j
            n += 1
    for i in range(ints[ADDED]):
        work.members[n] = chain.added[i]
        n += 1
    work.members[work.members.shape[0] - 1] = n
    broken = work.ints[BROKEN]
    value = log_evidence(likelihood, work)
    chain.floats[FITTED] = value - null if value > -np.inf else -np.inf
    chain.keys[2] = chain.keys[1]
    ints[EVALUATIONS] += 1
    ints[FITS] += 1
    ints[BREAKDOWNS] += work.ints[BROKEN] - broken
    ints[NEEDED] = 0


@entry
def derivatives_at(likelihood, eta, score, curvature):
    """``_derivatives_at`` for Python."""
    _derivatives_at(likelihood, eta, score, curvature)


@kernel
def _derivatives_at(likelihood, eta, score, curvature):
    """Fill in w ℓ' and −w ℓ'' of every row at this linear predictor, (n,) each."""
    for i in range(eta.shape[0]):
        first, second = first_and_second(likelihood.code, likelihood.y[i], likelihood.trials[i], eta[i])
        score[i] = likelihood.weights[i] * first
        curvature[i] = likelihood.weights[i] * second
