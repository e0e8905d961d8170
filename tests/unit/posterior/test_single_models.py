"""Models that are named, against the oracle: marginal likelihoods, Bayes factors, posteriors given one model, evidences."""

import itertools

import numpy as np
import pytest

import whichvars as wv
from support.paired import SLABS, make_paired, model_priors
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.evaluating import log_marginal_error

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")

GROUPED = {"columns": 6, "groups": [[0], [1, 4], [2], [3, 5]], "weighted": True, "always": 2, "n": 24}


@pytest.mark.parametrize("slab", SLABS)
def test_log_marginals_of_models_with_groups_and_always_included_columns(slab):
    case = make_paired(slab, **GROUPED)
    problem = case.problem()
    for model in ([], [1], [0, 3], [0, 1, 2, 3]):
        names = [problem.names[j] for j in model]
        want = case.log_marginal(model)
        assert problem.log_marginal(names) == pytest.approx(want, rel=1e-8, abs=1e-9)
        assert problem.log_marginal(model) == problem.log_marginal(names)
        assert problem.log_marginal([*names, problem.always_names[0]]) == problem.log_marginal(names)


def test_log_priors_sum_to_one():
    problem = make_paired("g-prior", columns=5, max_size=3).problem(model_prior=wv.BetaBinomial(1, 2))
    every = itertools.chain.from_iterable(itertools.combinations(range(5), k) for k in range(6))
    assert sum(np.exp(problem.log_prior(m)) for m in every) == pytest.approx(1)
    assert problem.log_prior(range(4)) == -np.inf


def test_names_that_are_not_variables():
    data = wv.datasets.load_uscrime()
    X = data.X.assign(one=1.0)
    problem = wv.Problem(X, data.y, slab=wv.GPrior(47), always_include=["M"], groups={"Po": ["Po1", "Po2"]})
    with pytest.raises(DataError, match="'Po1' is a column of the group 'Po'"):
        problem.log_marginal(["Po1"])
    with pytest.raises(DataError, match="'one' is in no model; it was left out because it is constant"):
        problem.log_marginal(["one"])
    with pytest.raises(DataError, match="there is no column 'Edd'; did you mean 'Ed'"):
        problem.log_marginal(["Edd"])
    with pytest.raises(ArgumentTypeError, match="variables must be column names"):
        problem.log_marginal(3.5)


def test_collinear_model_has_no_marginal_likelihood():
    problem = make_paired("g-prior", duplicate=True).problem()
    posterior = wv.exact(problem)
    assert problem.log_marginal(["x0", "x6"]) == -np.inf
    with pytest.raises(DataError, match="a: the model has no marginal likelihood"):
        posterior.bayes_factor(["x0", "x6"], ["x0"])
    with pytest.raises(DataError, match="has no posterior under GPrior"):
        posterior.model(["x0", "x6"])


@pytest.mark.filterwarnings("ignore::whichvars.errors.ConvergenceWarning")
def test_bayes_factors_need_no_visit():
    case = make_paired("hyper-g", columns=7)
    ours, theirs = model_priors("per variable", 7)
    problem, reference = case.problem(model_prior=ours), case.posterior(theirs)
    run = wv.sample(problem, wv.AddDeleteSwap(), draws=200, seed=0, progress=False, replicates=2)
    for a, b in (([0, 3], [0]), ([1, 2, 5, 6], [])):
        found = run.bayes_factor([f"x{j}" for j in a], [f"x{j}" for j in b])
        i, j = sum(1 << v for v in a), sum(1 << v for v in b)
        evidence = reference.log_marginals[i] - reference.log_marginals[j]
        odds = reference.log_priors[i] - reference.log_priors[j]
        want = [np.exp(evidence), evidence, np.exp(odds), np.exp(evidence + odds), evidence + odds, 0]
        np.testing.assert_allclose(found, want, rtol=1e-7, atol=1e-9)
    assert run.bayes_factor(["x0"])["log_bayes_factor"] == problem.log_marginal(["x0"])


def test_impossible_model_has_no_odds_against_it():
    posterior = wv.exact(make_paired("g-prior", max_size=2).problem())
    assert posterior.bayes_factor([0, 1, 2], [0])["posterior_odds"] == 0
    with pytest.raises(DataError, match="b: the model has a prior probability of 0"):
        posterior.bayes_factor([0], [0, 1, 2])


def test_posterior_given_one_model_is_that_of_a_problem_with_nothing_else():
    """Least squares and the g-prior's shrinkage, written out."""
    case = make_paired("g-prior", n=30)
    posterior = wv.exact(case.problem())
    one = posterior.model(["x0", "x3"])
    X, y, g, nu = case.X[:, [0, 3]], case.y, 13.0, 29
    centred = X - X.mean(axis=0)
    slope = np.linalg.lstsq(centred, y - y.mean())[0]
    rest = ((y - y.mean()) ** 2).sum() - g / (1 + g) * (y @ centred @ slope)
    table = one.coefficients()
    np.testing.assert_allclose(table.loc[["x0", "x3"], "mean"], g / (1 + g) * slope, rtol=1e-10)
    variance = g / (1 + g) * rest / (nu - 2) * np.linalg.inv(centred.T @ centred)
    np.testing.assert_allclose(table.loc[["x0", "x3"], "sd"], np.sqrt(np.diag(variance)), rtol=1e-9)
    assert (table.loc[["x1", "x2", "x4"], "mean"] == 0).all()
    fitted = y.mean() + g / (1 + g) * centred @ slope
    np.testing.assert_allclose(one.predict(case.X), fitted, rtol=1e-10)
    found = one.residuals(case.X, y)
    np.testing.assert_allclose(found["residual"], y - fitted, rtol=1e-8)
    np.testing.assert_allclose(found["standardised"], (y - fitted) / np.sqrt(rest / (nu - 2)), rtol=1e-8)
    r_squared = y @ centred @ slope / ((y - y.mean()) ** 2).sum()
    assert one.r_squared()["mean"] == pytest.approx(r_squared)
    assert one.top_models()["r_squared"].tolist() == pytest.approx([r_squared])
    assert one.log_evidence == pytest.approx(case.log_marginal([0, 3]))
    i = posterior.models.members.index((0, 3))
    assert one.condition.probability == pytest.approx(posterior.models.frequency[i])
    assert one.converged
    assert "given the model with x0 and x3 alone" in one.explain()


def test_averages_over_models_are_averages_of_posteriors_given_one():
    case = make_paired("zellner-siow", columns=3)
    posterior = wv.exact(case.problem())
    models = [posterior.model(m) for m in posterior.models.members]
    weights = [one.condition.probability for one in models]
    assert sum(weights) == pytest.approx(1)
    mean = sum(w * one.predict(case.X) for w, one in zip(weights, models))
    np.testing.assert_allclose(posterior.predict(case.X), mean, rtol=1e-9)
    r_squared = sum(w * one.r_squared()["mean"] for w, one in zip(weights, models))
    assert posterior.r_squared()["mean"] == pytest.approx(r_squared)


def test_one_model_of_a_sampled_posterior_has_no_error(tmp_path):
    problem = make_paired("g-prior", n=30).problem()
    run = wv.sample(problem, wv.AddDeleteSwap(), draws=4000, seed=1, progress=False)
    exact = wv.exact(problem).model([0])
    one = run.model([0])
    np.testing.assert_allclose(one.coefficients(), exact.coefficients())
    assert abs(one.condition.probability - exact.condition.probability) < 4 * one.condition.mcse
    assert one.condition.mcse > 0
    one.save(tmp_path / "one.npz")
    again = wv.Posterior.load(tmp_path / "one.npz")
    assert again.condition.include == ("x0",)
    assert repr(again) == repr(one)
    assert "given the model with x0 alone" in repr(one)
    assert "Only one model was used." in one.methods()


def test_estimators_are_models():
    posterior = wv.exact(make_paired("g-prior", n=30).problem())
    for estimator in ("HPM", "MPM", "BPM"):
        names = posterior.which_model(estimator)
        table = posterior.coefficients(estimator=estimator)
        np.testing.assert_array_equal(table, posterior.model(names).coefficients())
        assert sorted(table.index[(table["pip"] == 1) & (table.index != "(intercept)")]) == sorted(names)
        X = np.arange(14.0).reshape(2, 7)
        np.testing.assert_allclose(
            posterior.predict(X, estimator=estimator), posterior.model(names).predict(X)
        )
    assert posterior.which_model("MPM") == [
        n for n, p in posterior.inclusion_probabilities.items() if p >= 0.5
    ]
    with pytest.raises(DataError, match="if one model is meant"):
        posterior.which_model("BMA")


def test_evidence_of_two_problems():
    case = make_paired("g-prior", columns=6)
    first, second = case.problem(), case.problem(slab=wv.HyperG(3.5))
    want = case.posterior(("fixed", 0.5)), make_paired("hyper-g", columns=6).posterior(("fixed", 0.5))
    one, two = (wv.exact(p.with_priors(model_prior=wv.FixedInclusion(h=0.5))) for p in (first, second))
    found = one.evidence(against=two)
    assert found["log_evidence"] == pytest.approx(want[0].log_evidence)
    assert found["log_bayes_factor"] == pytest.approx(want[0].log_evidence - want[1].log_evidence, abs=1e-7)
    assert found["bayes_factor"] == pytest.approx(np.exp(found["log_bayes_factor"]))
    assert found["mcse"] == found["log_bayes_factor_mcse"] == 0
    run = wv.sample(one.problem, wv.AddDeleteSwap(), draws=20_000, seed=2, progress=False).evidence(two)
    assert abs(run["log_evidence"] - found["log_evidence"]) < 4 * run["mcse"]
    assert run["log_bayes_factor_mcse"] == run["mcse"] > 0


def test_evidences_of_other_null_models_are_not_compared():
    case = make_paired("g-prior", columns=4)
    posterior = wv.exact(case.problem())
    other = wv.Problem(case.X, case.y + case.X[:, 0], slab=case.slab)
    with pytest.raises(DataError, match="different responses or weights"):
        posterior.evidence(against=wv.exact(other))
    other = wv.Problem(case.X[1:], case.y[1:], slab=case.slab)
    with pytest.raises(DataError, match="different numbers of rows"):
        posterior.evidence(against=wv.exact(other))
    other = wv.Problem(case.X, case.y, slab=case.slab, always_include=[2])
    with pytest.raises(DataError, match="different always-included columns"):
        posterior.evidence(against=wv.exact(other))


def test_models_of_a_response_that_is_not_gaussian():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 4))
    y = rng.poisson(np.exp(0.3 + 0.5 * X[:, 0]))
    problem = wv.Problem(X, y, family="poisson", groups=[0, 1, 1, 2])
    posterior = wv.exact(problem)
    best = posterior.models.members[0]
    assert problem.log_marginal(best) == pytest.approx(posterior.models.log_marginal[0])
    one = posterior.model(best)
    assert one.condition.probability == pytest.approx(posterior.models.frequency[0])
    np.testing.assert_allclose(one.predict(X), posterior.predict(X, estimator="HPM"))
    found = one.residuals()
    np.testing.assert_allclose(found["fitted"], one.predict(X), rtol=1e-9)
    np.testing.assert_allclose(found["standardised"], (y - found["fitted"]) / np.sqrt(found["fitted"]))
    np.testing.assert_allclose(one.residuals(X, y), found, rtol=1e-9)
    with pytest.raises(DataError, match="for Gaussian responses"):
        one.r_squared()
    assert one.bayes_factor(best, [])["log_error"] >= 0


def test_one_model_keeps_the_noise_of_its_marginal_likelihood() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(40, 4))
    problem = wv.Problem(
        X, rng.random(40) < 1 / (1 + np.exp(-X[:, 0])), family="logistic", evidence="importance"
    )
    posterior = wv.exact(problem, progress=False)
    noise = log_marginal_error(problem, (0,))
    assert noise > 0
    one = posterior.model([0])
    assert one.log_evidence_mcse == noise
    assert one.condition is not None
    assert one.condition.mcse >= one.condition.probability * noise
