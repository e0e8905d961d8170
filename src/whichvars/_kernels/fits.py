"""Where the response is not Gaussian: the fit that a chain waits for (``A_FIT`` in ``chain.py``), and what a surrogate is made of."""

import numpy as np

from whichvars._kernels.chain import (
    ADDED,
    BREAKDOWNS,
    DELETED,
    EVALUATIONS,
    FITS,
    FITTED,
    NEEDED,
    SIZE,
)
from whichvars._kernels.densities import first_and_second
from whichvars._kernels.family_evidence import log_evidence
from whichvars._kernels.jit import entry, kernel
from whichvars._kernels.likelihood import BROKEN


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
