"""Posteriors given that some variables are in and others out: against a problem made so, and with everything a posterior has."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot

import whichvars as wv
from support.paired import make_paired, model_priors
from whichvars.errors import ConvergenceWarning, DataError
from whichvars.posterior.conditions import log_prior_sizes
from whichvars.report.words import answer

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def pair():
    problem = make_paired("g-prior", n=30, columns=8, seed=3).problem(model_prior=wv.FixedInclusion(h=0.4))
    return wv.exact(problem), wv.sample(problem, wv.AddDeleteSwap(), draws=32_768, seed=4, progress=False)


@pytest.mark.parametrize("prior", ["fixed", "per variable", "beta-binomial"])
@pytest.mark.parametrize("max_size", [None, 4])
def test_everything_against_the_oracle(prior, max_size):
    case = make_paired("g-prior", n=30, columns=6, max_size=max_size)
    ours, theirs = model_priors(prior, 6)
    found = wv.exact(case.problem(model_prior=ours)).given(include=[1], exclude=[4])
    reference = case.posterior(theirs)
    good = reference.masks[:, 1] & ~reference.masks[:, 4]
    share, sizes = reference.probabilities * good, reference.masks.sum(axis=1)
    np.testing.assert_allclose(found.pip, share @ reference.masks / share.sum(), rtol=1e-9, atol=1e-12)
    by_size = np.bincount(sizes, share, 7) / share.sum()
    np.testing.assert_allclose(found.sizes, by_size, rtol=1e-9, atol=1e-12)
    allowed = good & (sizes <= (max_size or 6))
    before = np.exp(reference.log_priors) * allowed
    prior_sizes = np.bincount(sizes, before, 7) / before.sum()
    table = found.model_size
    np.testing.assert_allclose(table["prior"], prior_sizes[: len(table)], rtol=1e-9, atol=1e-12)
    evidence = np.log(before @ np.exp(reference.log_marginals) / before.sum())
    assert found.log_evidence == pytest.approx(evidence)
    best = np.argsort(-share, kind="stable")[:3]
    np.testing.assert_allclose(found.top_models(3)["probability"], share[best] / share.sum(), rtol=1e-8)
    assert found.condition.probability == pytest.approx(share.sum())
    assert found.converged
    assert (found.mcse == 0).all()


def test_without_some_columns_it_is_a_problem_without_them():
    case = make_paired("g-prior", n=30, columns=6)
    h = wv.FixedInclusion(h=0.4)
    found = wv.exact(case.problem(model_prior=h)).given(exclude=[2, 5])
    rest = [0, 1, 3, 4]
    again = wv.exact(wv.Problem(case.X[:, rest], case.y, slab=case.slab, model_prior=h))
    np.testing.assert_allclose(found.pip[rest], again.pip, rtol=1e-9)
    assert found.log_evidence == pytest.approx(again.log_evidence)
    names = ["(intercept)", *(f"x{j}" for j in rest)]
    np.testing.assert_allclose(
        found.coefficients().loc[names], again.coefficients().to_numpy(), rtol=1e-7, atol=1e-10
    )
    np.testing.assert_allclose(found.predict(case.X), again.predict(case.X[:, rest]))


def test_a_condition_on_a_condition(pair):
    for posterior in pair:
        once = posterior.given(include=[0], exclude=[5])
        twice = posterior.given(include=[0]).given(exclude=[5])
        np.testing.assert_allclose(twice.pip, once.pip, rtol=1e-10)
        np.testing.assert_allclose(twice.mcse, once.mcse, rtol=1e-6)
        assert twice.condition.probability == pytest.approx(once.condition.probability)
        assert twice.log_evidence == pytest.approx(once.log_evidence)
        assert (twice.condition.include, twice.condition.exclude) == (("x0",), ("x5",))
        np.testing.assert_array_equal(twice.condition.pip_before, posterior.pip)


def test_other_priors_given_a_condition(pair):
    exact, _ = pair
    new = {"slab": wv.HyperG(), "model_prior": wv.BetaBinomial(1, 2)}
    found, again = exact.given(include=[1]).reweight(**new), exact.reweight(**new).given(include=[1])
    np.testing.assert_allclose(found.pip, again.pip, rtol=1e-9)
    assert found.log_evidence == pytest.approx(again.log_evidence)
    assert np.isnan(found.condition.probability)
    assert found.summary()["pip_before"].isna().all()


def test_a_sampled_posterior_is_within_its_errors(pair):
    exact, run = pair
    found, right = run.given(include="x1", exclude="x4"), exact.given(include="x1", exclude="x4")
    free = [0, 2, 3, 5, 6, 7]
    assert (np.abs(found.pip - right.pip) < 4 * found.mcse)[free].all()
    assert (found.mcse[[1, 4]] == 0).all()
    assert abs(found.log_evidence - right.log_evidence) < 4 * found.log_evidence_mcse
    assert abs(found.condition.probability - right.condition.probability) < 4 * found.condition.mcse
    table, want = found.coefficients(None), right.coefficients(None)
    known = table["mean_mcse"] > 0
    assert (np.abs(table["mean"] - want["mean"]) < 5 * table["mean_mcse"])[known].all()
    assert (found.diagnostics().loc[["x1", "x4"], "note"] == "").all()
    assert found.trace_models[:, [1]].toarray().all()
    assert not found.trace_models[:, [4]].toarray().any()
    assert len(found.trace) == found.trace_models.shape[0]
    assert found.converged
    words = found.explain()
    assert words.startswith("Given that x1 is in and x4 is out, ")
    assert "effective ones satisfy the condition, whose probability is" in words
    assert "All results are given that x1 is in and x4 is out." in found.methods()


def test_too_few_draws_are_said_everywhere(pair):
    _, run = pair
    with pytest.warns(ConvergenceWarning, match="draws satisfy the condition, fewer than 100"):
        found = run.given(include=[2, 3, 5, 7], exclude=[1])
    assert not found.converged
    assert "effective draws satisfy the condition" in found.explain().splitlines()[0]
    assert repr(found).startswith("NOT TO BE TRUSTED YET")


def test_a_condition_that_an_exact_posterior_hardly_kept():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    noise = rng.normal(size=200)
    strong, weaker = (
        wv.exact(wv.Problem(X, effect * X[:, 0] + noise, slab=wv.GPrior("n"))) for effect in (5, 0.58)
    )
    with pytest.raises(DataError, match="none of the kept models"):
        strong.given(exclude=[0])
    with pytest.warns(ConvergenceWarning, match="so improbable that few"):
        found = weaker.given(exclude=[0])
    assert found.condition.probability < 1e-9
    assert not found.converged
    assert found.explain().startswith("Do not trust these numbers yet: the condition is so improbable")


def test_pictures_and_files(pair, tmp_path):
    for posterior in pair:
        for new in (posterior.given(include="x1", exclude="x4"), posterior.model(["x1", "x2"])):
            for plot in (wv.plot_inclusion, wv.plot_models, wv.plot_model_size, wv.plot_coefficients):
                assert plot(new) is not None
            assert new.report(tmp_path / "report.html").exists()
            new.save(tmp_path / "new.npz")
            again = wv.Posterior.load(tmp_path / "new.npz")
            assert repr(again) == repr(new)
            assert again.condition.include == new.condition.include
            assert new.to_latex()
            assert len(new.draw(10)) == 10
            assert new.clusters() is not None


def test_draws_for_arviz_satisfy_the_condition(pair):
    data = pair[1].given(include="x1", exclude="x4").to_arviz(variables=["x1", "x4"])
    gamma = data["posterior"]["gamma"].to_numpy()
    assert gamma[..., 0].all()
    assert not gamma[..., 1].any()


@pytest.mark.filterwarnings("ignore::whichvars.errors.ConvergenceWarning")
def test_conditions_that_the_record_does_not_satisfy(pair):
    run = pair[1]
    few = replace(run, trace=run.trace.iloc[:3], trace_models=run.trace_models[:3])
    rare = few.given(include=[2, 3, 5, 7], exclude=[1])
    assert len(rare.trace) == 0
    with pytest.raises(DataError, match="no recorded draws that satisfy the condition"):
        rare.to_arviz()
    with pytest.raises(DataError, match="nothing to draw"):
        wv.plot_trace(rare)
    assert rare.given(include=[4]).pip[4] == pytest.approx(1)


def test_a_derived_posterior_is_not_extended(tmp_path):
    problem = make_paired("g-prior", columns=4).problem()
    run = wv.sample(problem, wv.AddDeleteSwap(), draws=2000, checkpoint=tmp_path / "run", progress=False)
    for derived in (run.given(include=[0]), run.reweight(model_prior=wv.FixedInclusion(h=0.4))):
        with pytest.raises(DataError, match="extend that run, and then ask again"):
            wv.extend(derived, draws=100)


def test_the_report_says_what_was_assumed(pair):
    assert answer(pair[0].given(exclude="x4")).startswith("Given that x4 is out: ")
    assert not answer(pair[0]).startswith("Given")


def test_heredity_has_no_prior_in_closed_form():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 2))
    X = np.column_stack([X, X[:, 0] * X[:, 1]])
    problem = wv.Problem(
        X, X[:, 0] + rng.normal(size=40), names=["a", "b", "a:b"], heredity={"a:b": ["a", "b"]}
    )
    found = wv.exact(problem).given(include="a")
    assert log_prior_sizes(problem, found.condition) is None
    assert found.model_size["prior"].isna().all()
    assert found.log_evidence is None
    assert np.isnan(found.evidence()["log_evidence"])
    assert found.pip[0] == pytest.approx(1)
