"""Every sampler with every family of responses and every prior on coefficients, adapting and frozen, against the enumeration of all
models. (That the enumeration is right is shown by an oracle that shares no code with it: test_families_exact.py, test_family_mixtures.py,
test_outer.py.) Some combinations are in ``make test``, all of them in ``make test-slow``."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import whichvars as wv
from support import family_oracle as oracle
from support.in_turn import in_turn

N, P, TRIALS = 70, 5, 4
FAMILIES = ("logistic", "binomial", "probit", "poisson", "negative-binomial", "unknown dispersion", "student")
SLABS = {
    "independent": (wv.IndependentNormal(1.5), "auto"),
    "g-prior": (wv.GPrior(40.0), "auto"),
    "BIC": (wv.BIC(), "auto"),
    "hyper-g": (wv.HyperG(3.5), "laplace"),
    "hyper-g/n": (wv.HyperGN(), "laplace"),
    "Zellner-Siow": (wv.ZellnerSiow(), "second-order"),
    "CCH": (wv.CCH(1, 40, 2), "auto"),
    "independent, g unknown": (wv.IndependentNormal("estimate"), "auto"),
    "g-prior of BAS": (wv.GPrior(40.0), "bas"),
    "local empirical Bayes of BAS": (wv.LocalEmpiricalBayes(), "bas"),
}
MIXTURES = ("hyper-g", "hyper-g/n", "Zellner-Siow", "CCH", "independent, g unknown")
SAMPLERS = {
    "add, delete, swap": wv.AddDeleteSwap(),
    "Lamnisos": wv.Lamnisos(),
    "Lamnisos, frozen": wv.Lamnisos(freeze_after=500),
    "individual adaptation": wv.IndividualAdaptation(),
    "individual adaptation, frozen": wv.IndividualAdaptation(freeze_after=500),
    "parallel tempering": wv.ParallelTempering(rungs=3),
    "sequential Monte Carlo": wv.SequentialMonteCarlo(particles=400, steps=10),
    "hybrid": wv.Hybrid(),
    "hybrid, by time": wv.Hybrid(exact_weights=False),
    "tempered Gibbs": wv.TemperedGibbs(),
    "subset Gibbs": wv.SubsetGibbs(subset=3, anchors=1),
    "ASI": wv.ASI(),
    "ASI, always": wv.ASI(adapt="always"),
    "PARNI": wv.PARNI(),
}


def is_possible(family: str, slab: str) -> bool:
    """An unknown dispersion or scale goes neither with a mixture nor with BAS's formula."""
    return family not in ("unknown dispersion", "student") or not (slab in MIXTURES or "BAS" in slab)


@cache
def problem_of(family: str, slab: str) -> wv.Problem:
    kind = {"binomial": "logistic", "unknown dispersion": "negative-binomial"}.get(family, family)
    X, y = oracle.simulate("poisson" if kind == "student" else kind, N, P, 5, effect=0.5)
    if kind == "student":
        y = 50 * (X[:, 0] - 0.5 * X[:, 1] + np.random.default_rng(3).standard_t(3, N))
    chosen: wv.Logistic | wv.NegativeBinomial | str = family
    if family == "binomial":
        y = np.random.default_rng(3).binomial(TRIALS, 0.2 + 0.6 * y)
        chosen = wv.Logistic(trials=TRIALS)
    elif kind == "negative-binomial":
        chosen = (
            wv.NegativeBinomial() if family == "unknown dispersion" else wv.NegativeBinomial(dispersion=1.5)
        )
    prior, evidence = SLABS[slab]
    return wv.Problem(
        X, y, family=chosen, slab=prior, evidence=evidence, model_prior=wv.FixedInclusion(h=0.4)
    )


@cache
def truth_of(family: str, slab: str) -> wv.Posterior:
    return wv.exact(problem_of(family, slab), progress=False)


COMBINATIONS = [
    case for case in in_turn(FAMILIES, SLABS, SAMPLERS) if is_possible(case.values[0], case.values[1])
]


@pytest.mark.parametrize(("family", "slab", "sampler"), COMBINATIONS)
@pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")
def test_sampler_with_family_and_slab(family: str, slab: str, sampler: str) -> None:
    problem, truth = problem_of(family, slab), truth_of(family, slab)
    # errors of sequential Monte Carlo come from the differences between replicates alone, and need more of them
    by_replicates = "Carlo" in sampler
    settings = {"replicates": 16} if by_replicates else {"replicates": 6, "draws": 10_000}
    posterior = wv.sample(problem, SAMPLERS[sampler], seed=len(sampler) + 3, progress=False, **settings)
    error = np.nan_to_num(posterior.mcse, nan=1e-3)
    most = 6.5 if by_replicates else 4.5
    np.testing.assert_array_less(np.abs(posterior.pip - truth.pip), most * error + 5e-4)
    assert np.nanmax(posterior.mcse) < 0.03
    known = dict(zip(truth.models.members, truth.models.log_marginal))
    for model, value in zip(posterior.models.members, posterior.models.log_marginal):
        assert value == pytest.approx(known[model], abs=1e-6)


def test_every_value_is_in_make_test() -> None:
    quick = [case.values for case in COMBINATIONS if not case.marks]
    assert {v[0] for v in quick} == set(FAMILIES)
    assert {v[1] for v in quick} == set(SLABS)
    assert {v[2] for v in quick} == set(SAMPLERS)
    assert len(quick) < 90
