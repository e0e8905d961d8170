"""The noise of importance sampling in inclusion probabilities: what is reported is what other scrambles of the points do to them."""

import numpy as np
import pytest

import whichvars as wv
from support import family_oracle as oracle

SCRAMBLES = 120


@pytest.fixture(scope="module")
def case():
    X, y = oracle.simulate("logistic", 40, 5, 7, effect=1.2)
    return X, y, wv.IndependentNormal(20.0)


def with_keys(problem, seed):
    """The same problem with other keys of its variables, which seed the points."""
    keys = np.random.default_rng(seed).integers(1, 2**63, problem.p, dtype=np.uint64)
    design = problem._target.design._replace(keys=keys)
    problem._target = problem._target._replace(design=design)
    problem._likelihood = problem._null_log_marginal = None
    return problem


def test_reported_noise_is_that_of_independent_scrambles(case):
    """The null model has no variables whose keys could change; its points are always the same, and its small share of the mass has
    no part in it."""
    X, y, slab = case
    pips, errors = [], []
    for seed in range(SCRAMBLES):
        problem = with_keys(wv.Problem(X, y, family="logistic", slab=slab, evidence="importance"), seed)
        posterior = wv.exact(problem, progress=False)
        pips.append(posterior.pip)
        errors.append(posterior.mcse)
    spread, claimed = np.std(pips, axis=0, ddof=1), np.sqrt(np.mean(np.square(errors), axis=0))
    assert spread.max() > 5e-4  # there is something to measure
    # a spread of 120 values is known to 1/√240 = 6.5 %, and the errors rest on 7 degrees of freedom for each of a few models
    np.testing.assert_allclose(claimed / spread, 1, atol=0.35)
    truth = wv.exact(wv.Problem(X, y, family="logistic", slab=slab, evidence="second-order"), progress=False)
    assert truth.mcse.max() == 0


def test_samplers_add_it(case):
    X, y, slab = case
    problem = wv.Problem(X, y, family="logistic", slab=slab, evidence="importance")
    truth = wv.exact(problem, progress=False)
    assert any("importance sampling, whose noise is part of the errors" in w for w in truth.warnings)
    assert "Note: marginal likelihoods of some models" in truth.explain()
    assert "the probabilities are exact but for importance sampling's noise" in truth.explain()
    assert truth.log_evidence_mcse > 0
    long = wv.sample(problem, wv.AddDeleteSwap(), draws=100_000, replicates=4, seed=1, progress=False)
    # beyond it, these draws have errors of their own
    assert (long.mcse >= truth.mcse * 0.8).all()
    assert (np.abs(long.pip - truth.pip) < 5 * long.mcse).all()
    plain = wv.Problem(X, y, family="logistic", slab=slab, evidence="laplace")
    np.testing.assert_array_equal(wv.exact(plain, progress=False).mcse, 0)
