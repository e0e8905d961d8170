"""A posterior with two modes that changes of one or two variables cannot connect."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np

import whichvars as wv
from support.cases import SLABS
from support.oracle import OraclePosterior, OracleSlab, enumerate_posterior

# g so large that both modes stand out under every slab
STRONG: dict[str, tuple[Any, OracleSlab]] = {
    **SLABS,
    "independent": (wv.IndependentNormal(g=100.0), OracleSlab("independent", g=100.0)),
    "g": (wv.GPrior(400.0), OracleSlab("g", g=400.0)),
}
FIRST, SECOND = [0, 1, 2], [3, 4, 5]
MAX_SIZE = 4
PRIORS: dict[str, tuple[Any, tuple]] = {
    "fixed": (wv.FixedInclusion(h=0.3), ("fixed", 0.3)),
    "beta-binomial": (wv.BetaBinomial(a=1.0, b=2.0), ("beta-binomial", 1.0, 2.0)),
}


@cache
def two_modes() -> tuple[np.ndarray, np.ndarray]:
    """Two sets of three variables whose sums are the same signal, nearly; any part of a set says nothing.

    The members of a set are large, and cancel but for the signal. With at most four variables in a model there
    is no way from one set to the other but through models that explain nothing. Two more columns are noise.
    """
    rng = np.random.default_rng(4)
    signal = rng.normal(size=40)
    columns = []
    for _ in range(2):
        large = 3.0 * rng.normal(size=(40, 2))
        like_signal = signal + 0.02 * rng.normal(size=40)
        columns += [large[:, 0], large[:, 1], like_signal - large.sum(axis=1)]
    columns += list(rng.normal(size=(2, 40)))
    return np.column_stack(columns), signal + 0.25 * rng.normal(size=40)


@cache
def bimodal(slab: str, prior: str = "fixed") -> tuple[wv.Problem, OraclePosterior]:
    X, y = two_modes()
    ours, oracles = STRONG[slab]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.DataWarning)
        target = wv.Problem(X, y, slab=ours, model_prior=PRIORS[prior][0], max_size=MAX_SIZE)
    exact = enumerate_posterior(X, y, oracles, PRIORS[prior][1], max_size=MAX_SIZE)
    in_first, in_second = exact.pips[FIRST[0]], exact.pips[SECOND[0]]
    assert min(in_first, in_second) > 0.2  # two modes
    assert in_first + in_second > 0.97
    return target, exact
