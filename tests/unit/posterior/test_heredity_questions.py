"""What a posterior can be asked under heredity: other priors, conditions, sensitivity, the methods paragraph."""

import numpy as np
import pandas as pd
import pytest

import whichvars as wv

HEREDITY = {"a:b": ["a", "b"], "b:c": ["b", "c"], "a:b:c": ["a:b", "b:c"]}


def problem(**options):
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(40, 4)), columns=list("abcd"))
    X["a:b"], X["b:c"] = X["a"] * X["b"], X["b"] * X["c"]
    X["a:b:c"] = X["a:b"] * X["c"]
    y = 0.8 * X["a"] + 0.6 * X["b"] + 0.8 * X["a:b"] + rng.normal(size=40)
    options = {"slab": wv.GPrior(40), "model_prior": wv.BetaBinomial(size=2)} | options
    return wv.Problem(X, y, heredity=HEREDITY, **options)


PRIORS = [
    wv.FixedInclusion(h=0.3),
    wv.FixedInclusion(size=1.5),
    wv.FixedInclusion(h=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
    wv.BetaBinomial(1, 4),
    wv.BetaBinomial(size=3),
]


@pytest.mark.parametrize("max_size", [None, 3])
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_an_exact_posterior_under_another_prior_is_the_exact_posterior_there(prior, max_size):
    found = wv.exact(problem(max_size=max_size)).reweight(model_prior=prior, slab=wv.HyperG())
    expected = wv.exact(problem(max_size=max_size, model_prior=prior, slab=wv.HyperG()))
    np.testing.assert_allclose(found.pip, expected.pip, atol=1e-9)
    np.testing.assert_allclose(found.sizes, expected.sizes, atol=1e-9)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-8)
    np.testing.assert_allclose(
        found.top_models(5)["probability"], expected.top_models(5)["probability"], atol=1e-9
    )
    np.testing.assert_allclose(found.models.log_prior[:5], expected.models.log_prior[:5], atol=1e-9)


def test_a_sampled_posterior_is_reweighted_within_its_errors():
    posterior = wv.sample(problem(), wv.AddDeleteSwap(), draws=40_000, seed=2, progress=False)
    found = posterior.reweight(model_prior=wv.FixedInclusion(h=0.3))
    expected = wv.exact(problem(model_prior=wv.FixedInclusion(h=0.3)))
    assert found.reweighting_ess > 100
    known = np.isfinite(found.mcse)
    assert known.sum() >= 6
    assert (np.abs(found.pip - expected.pip) < 5 * found.mcse)[known].all()


@pytest.mark.parametrize(
    "prior", [wv.BetaBinomial(size=2), wv.FixedInclusion(size=2), wv.BetaBinomial(1, 2)], ids=str
)
def test_sensitivity_goes_over_expected_sizes_under_heredity(prior):
    posterior = wv.exact(problem(model_prior=prior))
    table = posterior.sensitivity(g=[40], prior_size=[1, 3], variables=["a:b"])
    for size in (1, 3):
        other = wv.exact(problem(model_prior=type(prior)(size=size)))
        assert table.loc[(40.0, size), "a:b"] == pytest.approx(other.inclusion_probabilities["a:b"], abs=1e-9)
    own = float(posterior.problem.model_prior.inclusion(7).sum())
    whole = posterior.sensitivity(variables=["a:b"])
    assert whole.loc[(40.0, own), "a:b"] == pytest.approx(posterior.inclusion_probabilities["a:b"], abs=1e-9)


def test_sensitivity_keeps_a_prior_that_differs_between_variables():
    table = wv.exact(problem(model_prior=PRIORS[2])).sensitivity(variables=["a"])
    assert len(table) == 5


def test_children_are_out_without_their_parents():
    posterior = wv.exact(problem())
    without = posterior.given(exclude="a").inclusion_probabilities
    assert without["a:b"] == without["a:b:c"] == 0
    inside = posterior.given(include="a:b:c").inclusion_probabilities
    assert (inside[["a", "b", "c", "a:b", "b:c"]] > 1 - 1e-12).all()


def test_methods_name_the_conditional_prior():
    text = wv.exact(problem()).methods()
    assert "3 of the variables could be in the model only together with others" in text
    assert "Beta(1, " in text
    assert "Chipman, H. (1996)" in text
    assert "prior probability 0.3," in wv.exact(problem(model_prior=wv.FixedInclusion(h=0.3))).methods()
