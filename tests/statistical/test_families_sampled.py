"""Samplers for responses that are not Gaussian, against the enumeration of the same evidence."""

import warnings

import numpy as np
import pytest

import whichvars as wv
from support import family_oracle as oracle

SAMPLERS = {
    "AddDeleteSwap": wv.AddDeleteSwap(),
    "Lamnisos": wv.Lamnisos(),
    "IndividualAdaptation": wv.IndividualAdaptation(),
    "frozen": wv.IndividualAdaptation(freeze_after=500),
    "ParallelTempering": wv.ParallelTempering(rungs=3),
    "tempered AddDeleteSwap": wv.ParallelTempering(wv.AddDeleteSwap(), rungs=2),
}


def logistic_with_everything(**others):
    """A group, an always-included column, weights, an offset and a duplicate."""
    X, y = oracle.simulate("logistic", 80, 8, 3)
    X[:, 6] = -X[:, 1]
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.DataWarning)
        return wv.Problem(
            X, y, family="logistic", always_include=[7], groups={"pair": [2, 4]}, weights=rng.choice([0.5, 1, 2], 80),
            offset=rng.normal(0, 0.3, 80), **others,
        )  # fmt: skip


def counts(family):
    X, y = oracle.simulate("negative-binomial", 80, 6, 5, effect=0.4)
    return wv.Problem(X, y, family=family, slab=wv.GPrior(80.0))


PROBLEMS = {
    "logistic": logistic_with_everything(),
    "logistic, g-prior with duplicates": logistic_with_everything(slab=wv.GPrior()),
    "Poisson": counts("poisson"),
    "negative binomial": counts(wv.NegativeBinomial(dispersion=1.5)),
}


def agree(posterior, truth, most=4.5, to_the_bit=True):
    """Inclusion probabilities within Monte Carlo errors, which have few degrees of freedom, and log marginal likelihoods: the same
    bits, or nearly so where fits start elsewhere."""
    error = np.nan_to_num(posterior.mcse, nan=1e-3)
    np.testing.assert_array_less(np.abs(posterior.pip - truth.pip), most * error + 2e-4)
    assert abs(posterior.mean_size - truth.mean_size) < 5 * posterior.mean_size_mcse
    known = dict(zip(truth.models.members, truth.models.log_marginal))
    for model, value in zip(posterior.models.members, posterior.models.log_marginal):
        assert value == known[model] if to_the_bit else value == pytest.approx(known[model], abs=1e-6)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_against_enumeration(problem, sampler):
    posterior = wv.sample(
        PROBLEMS[problem], SAMPLERS[sampler], draws=20_000, replicates=6, seed=1, progress=False
    )
    agree(posterior, wv.exact(PROBLEMS[problem], progress=False))
    assert np.nanmax(posterior.mcse) < 0.03


@pytest.mark.parametrize("problem", ["logistic", "negative binomial"])
def test_sequential_monte_carlo(problem):
    sampler = wv.SequentialMonteCarlo(particles=2_000)
    posterior = wv.sample(PROBLEMS[problem], sampler, replicates=6, seed=1, progress=False)
    truth = wv.exact(PROBLEMS[problem], progress=False)
    agree(posterior, truth)
    assert posterior.log_evidence == pytest.approx(truth.log_evidence, abs=5 * posterior.log_evidence_mcse)


def test_importance_sampling_is_the_same_function_for_all():
    problem = logistic_with_everything(evidence="importance", max_size=3)
    posterior = wv.sample(problem, wv.AddDeleteSwap(), draws=10_000, replicates=6, seed=2, progress=False)
    agree(posterior, wv.exact(problem, progress=False))


@pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")
def test_no_memo_and_little_room():
    """Every proposal is fitted, and chains grow."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 45))
    y = (X[:, 0] > 0).astype(float)
    problem = wv.Problem(X, y, family="logistic", model_prior=wv.FixedInclusion(h=0.9), evidence="laplace")
    same = [
        wv.sample(
            problem, wv.AddDeleteSwap(memo_slots=slots), draws=200, replicates=2, seed=2, progress=False
        )
        for slots in (0, 1 << 12)
    ]
    np.testing.assert_array_equal(same[0].pip, same[1].pip)
    assert same[0].mean_size > 34


def test_the_same_bits_on_any_number_of_threads(tmp_path):
    problem = PROBLEMS["logistic"]
    settings = {"draws": 3000, "seed": 7, "progress": False}
    one = wv.sample(problem, wv.IndividualAdaptation(chains=2), threads=1, **settings)
    two = wv.sample(problem, wv.IndividualAdaptation(chains=2), threads=2, chunk=100, **settings)
    saved = wv.sample(
        problem, wv.IndividualAdaptation(chains=2), checkpoint=tmp_path / "run", every=0.01, **settings
    )
    for other in (two, saved):
        np.testing.assert_array_equal(one.pip, other.pip)
        np.testing.assert_array_equal(one.models.log_marginal, other.models.log_marginal)
    longer = wv.extend(saved, draws=3000, progress=False)
    np.testing.assert_array_equal(
        longer.pip,
        wv.sample(
            problem, wv.IndividualAdaptation(chains=2), **settings | {"draws": 6000, "warmup": 300}
        ).pip,
    )


@pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")
def test_starts():
    problem = PROBLEMS["logistic"]
    for start in ("null", "prior", "screening", "forward", "modes", [["x0", "pair"]]):
        wv.sample(problem, wv.AddDeleteSwap(), start=start, draws=200, progress=False)


def test_auto():
    small = wv.sample(PROBLEMS["logistic"], progress=False)
    assert small.models.exact
    assert "can be fitted quickly" in small.chosen
    rng = np.random.default_rng(4)
    X = rng.normal(size=(100, 40))
    y = rng.poisson(np.exp(X[:, 0]))
    large = wv.sample(wv.Problem(X, y, family="poisson"), draws=2000, progress=False)
    assert large.sampler.startswith("Hybrid")
    assert large.pip[0] > 0.99
    assert np.nanmean(large.pip[1:]) < 0.2
