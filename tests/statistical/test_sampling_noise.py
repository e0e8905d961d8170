"""The noise of importance sampling: what is reported is what other scrambles of the points do to every estimate."""

from dataclasses import replace

import numpy as np
import pytest

import whichvars as wv
from support import family_oracle as oracle

SCRAMBLES = 120


@pytest.fixture(scope="module")
def case():
    X, y = oracle.simulate("logistic", 40, 5, 7, effect=1.2)
    return X, y, wv.IndependentNormal(20.0)


def estimates(posterior, X):
    """Everything that an exact posterior says with an error, in an order that does not depend on it: names of quantities with their
    values and errors."""
    names = posterior.problem.names
    models = posterior.top_models(2**posterior.problem.p).set_index("variables").sort_index()
    coefficients = posterior.coefficients(interval=None)
    probability, probability_mcse = posterior.predict(X, return_mcse=True)
    link, link_mcse = posterior.predict(X, kind="link", return_mcse=True)
    pair, pair_mcse = posterior.probability_all(names[:2], return_mcse=True)
    given = posterior.given(include=names[0])
    joint = posterior.jointness(names[1], names[2])
    size = posterior.model_size.reindex(range(posterior.problem.p + 1))
    reweighted = posterior.reweight(slab=wv.IndependentNormal(10.0), model_prior=wv.BetaBinomial(1, 1))
    others = reweighted.top_models(2**posterior.problem.p).set_index("variables").sort_index()
    sensitivity = posterior.sensitivity(g=[10.0], prior_size=[2.0], variables=names[2])
    return {
        "inclusion probabilities": (posterior.pip, posterior.mcse),
        "model probabilities": (models["probability"], models["mcse"]),
        "sizes": (size["posterior"], size["mcse"]),
        "mean size": (posterior.mean_size, posterior.mean_size_mcse),
        "means of coefficients": (coefficients["mean"], coefficients["mean_mcse"]),
        "standard deviations": (coefficients["sd"], coefficients["sd_mcse"]),
        "predicted probabilities": (probability, probability_mcse),
        "linear predictors": (link, link_mcse),
        "joint probability": (pair, pair_mcse),
        "conditional probabilities": (given.pip[1:], given.mcse[1:]),
        "evidence given a variable": (given.log_evidence, given.log_evidence_mcse),
        "log odds ratio": (joint["log_odds_ratio"], joint["log_odds_ratio_mcse"]),
        "evidence": (posterior.log_evidence, posterior.log_evidence_mcse),
        "other priors": (reweighted.pip, reweighted.mcse),
        "models under other priors": (others["probability"], others["mcse"]),
        "evidence under other priors": (reweighted.log_evidence, reweighted.log_evidence_mcse),
        "sensitivity": (sensitivity[names[2]], sensitivity["mcse"]),
    }


@pytest.mark.rest
def test_reported_noise_is_that_of_independent_scrambles(case, monkeypatch):
    """The null model has no variables whose keys could change; its points are always the same, and its small share of the mass has
    no part in it. A spread of 120 values is known to 1/√240 = 6.5 %, and the errors rest on 7 degrees of freedom for each of a few
    models."""
    X, y, slab = case
    found = []
    for seed in range(SCRAMBLES):
        # of the keys of variables, which seed the points
        monkeypatch.setattr("whichvars.problem.target.ZOBRIST_SEED", seed)
        problem = wv.Problem(X, y, family="logistic", slab=slab, evidence="importance")
        found.append(estimates(wv.exact(problem, progress=False), X[:5]))
    for name in found[0]:
        values, errors = (np.array([np.atleast_1d(f[name][i]) for f in found]) for i in range(2))
        spread, claimed = np.std(values, axis=0, ddof=1), np.sqrt(np.mean(np.square(errors), axis=0))
        # there is something to measure; rounding is not it, nor are light models, whose own noise is not computed
        seen = spread > max(1e-5, 0.1 * spread.max())
        assert seen.any(), name
        np.testing.assert_allclose(claimed[seen] / spread[seen], 1, atol=0.35, err_msg=name)


def test_without_importance_sampling_there_is_none(case):
    X, y, slab = case
    for evidence in ("laplace", "second-order"):
        problem = wv.Problem(X, y, family="logistic", slab=slab, evidence=evidence)
        for name, (_, errors) in estimates(wv.exact(problem, progress=False), X[:5]).items():
            np.testing.assert_array_equal(errors, 0, err_msg=name)


def test_noise_of_many_models_is_that_of_independent_ones():
    """More models than the signs have columns: the variance of an average is still the sum over models."""
    rng = np.random.default_rng(3)
    models = [(i,) for i in range(2000)]
    kept = wv.posterior.models.KeptModels.of(
        {m: float(w) for m, w in zip(models, rng.exponential(size=2000))}
    )
    kept = replace(kept, noise=rng.uniform(0.0, 0.2, 2000))
    values = rng.standard_normal((2000, 300))
    away = values - kept.weight @ values
    truth = np.sqrt((kept.weight * kept.noise) ** 2 @ away**2)
    ratio = kept.error(values, exact=True) / truth
    # each rests on 64 rows, and all of them on the same signs
    assert abs(np.sqrt(np.mean(ratio**2)) - 1) < 0.1
    assert ratio.min() > 0.6
    assert ratio.max() < 1.5


def test_samplers_add_it(case):
    X, y, slab = case
    problem = wv.Problem(X, y, family="logistic", slab=slab, evidence="importance")
    truth = wv.exact(problem, progress=False)
    assert (
        "Marginal likelihoods of some models were computed by importance sampling, whose noise"
        in truth.explain()
    )
    assert "the probabilities are exact but for importance sampling's noise" in truth.explain()
    long = wv.sample(problem, wv.AddDeleteSwap(), draws=100_000, replicates=4, seed=1, progress=False)
    mine, exactly = estimates(long, X[:5]), estimates(truth, X[:5])
    for name, (value, error) in mine.items():
        value, error, true, noise = map(np.atleast_1d, (value, error, *exactly[name]))
        if "models" in name or "model probabilities" in name:
            common = exactly[name][0].index.intersection(mine[name][0].index)
            value, error = (mine[name][i][common].to_numpy() for i in range(2))
            true, noise = (exactly[name][i][common].to_numpy() for i in range(2))
        # beyond the noise, which is common to both, these draws have errors of their own
        seen = noise > max(1e-5, 0.1 * noise.max())
        assert (error[seen] >= 0.7 * noise[seen]).all(), name
        assert (np.abs(value - true)[seen] < 5 * error[seen]).all(), name
    plain = wv.Problem(X, y, family="logistic", slab=slab, evidence="laplace")
    np.testing.assert_array_equal(wv.exact(plain, progress=False).mcse, 0)
