"""Other priors and conditions by reweighting: against enumeration under the new prior, from exact and from sampled."""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

import whichvars as wv
from support.paired import SLABS, make_paired, model_priors
from whichvars.errors import ArgumentTypeError, ConvergenceWarning, DataError
from whichvars.posterior.reweighting import log_posteriors

SITUATIONS = {
    "plain": {},
    "weights, always included, groups": {
        "columns": 6, "groups": [[0], [1, 4], [2], [3, 5]], "weighted": True, "always": 2, "n": 24,
    },
    "scale none, max size": {"scale": "none", "max_size": 3},
    "inverse gamma": {"inverse_gamma": (1.3, 0.8)},
}  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")


CASES = [
    (before, after, situation)
    for before in ("independent", "g-prior", "hyper-g")
    for after in SLABS
    for situation in SITUATIONS
    if not (after == "bic" and "inverse_gamma" in SITUATIONS[situation])
]


@cache
def made_with_it(slab, situation):
    """The oracle's posterior, and the exact one of a problem that had these priors from the beginning, with its tables."""
    case = make_paired(slab, **SITUATIONS[situation])
    ours, theirs = model_priors("beta-binomial", case.p)
    again = wv.exact(case.problem(model_prior=ours))
    return case.posterior(theirs), again, again.coefficients(0.9), again.top_models(5)


# every third: all slabs, before and after, and all situations are among them
@pytest.mark.parametrize(
    ("before", "after", "situation"),
    [pytest.param(*case, marks=[] if i % 3 == 0 else pytest.mark.slow) for i, case in enumerate(CASES)],
)
def test_exact_posterior_under_another_slab(before, after, situation):
    case = make_paired(before, **SITUATIONS[situation])
    new = wv.exact(case.problem()).reweight(
        slab=SLABS[after][0], model_prior=model_priors("beta-binomial", case.p)[0]
    )
    reference, again, coefficients, best = made_with_it(after, situation)
    np.testing.assert_allclose(new.pip, reference.pips, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(new.sizes, reference.size_distribution, rtol=1e-8, atol=1e-10)
    assert new.log_evidence == pytest.approx(reference.log_evidence, rel=1e-8, abs=1e-8)
    assert (new.mcse == 0).all()
    assert new.reweighting_ess == np.inf
    np.testing.assert_allclose(new.coefficients(0.9), coefficients, rtol=1e-6, atol=1e-7)
    assert new.models.members[:5] == again.models.members[:5]
    table = new.top_models(5)
    for column in ("probability", "log_marginal", "r_squared"):
        np.testing.assert_allclose(table[column], best[column], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("engine", ["gram", "columns"])
def test_problem_with_other_priors_is_the_problem_made_with_them(engine):
    case = make_paired("independent", weighted=True, always=1)
    for slab in (wv.HyperG(), wv.IndependentNormal(7.0)):
        made = case.problem(engine=engine, slab=slab)
        changed = case.problem(engine=engine, slab=wv.BIC()).with_priors(slab=slab)
        np.testing.assert_allclose(wv.exact(changed).pip, wv.exact(made).pip, rtol=1e-10)
        np.testing.assert_allclose(changed.column_units, made.column_units)
        assert repr(changed) == repr(made)


def test_collinear_models_lose_their_weight():
    case = make_paired("independent", duplicate=True)
    new = wv.exact(case.problem()).reweight(slab=wv.GPrior(13.0))
    again = wv.exact(make_paired("g-prior", duplicate=True).problem())
    np.testing.assert_allclose(new.pip, again.pip, rtol=1e-7)
    assert new.probability_all(["x0", "x6"]) == 0
    assert np.isfinite(new.models.log_posterior).all()


@pytest.fixture(scope="module")
def sampled():
    case = make_paired("g-prior", n=30, columns=8, seed=3)
    problem = case.problem(model_prior=wv.FixedInclusion(h=0.4))
    return wv.exact(problem), wv.sample(problem, wv.AddDeleteSwap(), draws=32_768, seed=4, progress=False)


NEW = {"slab": wv.GPrior(40.0), "model_prior": wv.BetaBinomial(size=3)}


def test_sampled_posterior_is_within_its_error(sampled):
    exact, run = sampled
    truth, new = exact.reweight(**NEW), run.reweight(**NEW)
    score = (new.pip - truth.pip) / new.mcse
    degrees = len(run.replicate_pips) - 1  # errors are the scatter of so many replicates
    assert np.abs(score).max() < stats.t.isf(3e-5, degrees)
    assert np.abs(score).mean() > 0.1  # errors are not absurdly large either
    assert 100 < new.reweighting_ess < len(run.trace)
    np.testing.assert_allclose(new.coefficients(None)["mean"], truth.coefficients(None)["mean"], atol=0.1)
    np.testing.assert_allclose(
        new.top_models(3)["probability"], truth.top_models(3)["probability"], rtol=0.25
    )
    np.testing.assert_allclose(
        new.top_models(3)["log_marginal"], truth.top_models(3)["log_marginal"], rtol=1e-8
    )


def test_errors_are_the_scatter_of_replicates(sampled):
    """A ratio's error by the delta method, replicate by replicate, written out for one variable."""
    _, run = sampled
    new = run.reweight(**NEW)
    ratio = np.exp(log_posteriors(new.problem, run.kept) - log_posteriors(run.problem, run.kept))
    inside = run.kept.having(2)
    assert new.pip[2] == pytest.approx(run.kept.weight @ (ratio * inside) / (run.kept.weight @ ratio))
    off = [w @ (ratio * (inside - new.pip[2])) / (run.kept.weight @ ratio) for w in run.kept.by_replicate]
    assert len(off) == 4
    # one of few replicates may be small by chance: not below an average with the other variables
    least = np.std(off, ddof=1) / 2
    assert least * (1 - 1e-9) <= new.mcse[2] < 10 * least
    largest = int(np.argmax(new.mcse**2 / (new.pip * (1 - new.pip))))
    inside = run.kept.having(largest)
    off = [
        w @ (ratio * (inside - new.pip[largest])) / (run.kept.weight @ ratio) for w in run.kept.by_replicate
    ]
    assert new.mcse[largest] == pytest.approx(np.std(off, ddof=1) / 2, rel=1e-9)


def test_there_and_back_is_where_it_was(sampled):
    _, run = sampled
    back = run.reweight(**NEW).reweight(slab=run.problem.slab, model_prior=run.problem.model_prior)
    same = run.reweight()
    np.testing.assert_allclose(back.pip, same.pip, rtol=1e-9)
    np.testing.assert_allclose(back.mcse, same.mcse, rtol=1e-6)
    assert same.reweighting_ess == pytest.approx(len(run.trace))
    np.testing.assert_allclose(same.pip, run.pip, atol=0.03)  # the record against the whole run


def test_far_away_is_warned_of(sampled):
    _, run = sampled
    with pytest.warns(ConvergenceWarning, match="only .* effective draws are left, fewer than 100"):
        run.reweight(slab=wv.GPrior(1e9), model_prior=wv.FixedInclusion(h=0.9))


def test_exact_answer_that_may_have_dropped_what_is_now_needed():
    """Models without x0 have 1e-10 of the mass: some were kept, others not, and now they have nearly all of it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5))
    y = 0.95 * X[:, 0] + rng.normal(size=100)
    posterior = wv.exact(wv.Problem(X, y, slab=wv.GPrior(100.0), model_prior=wv.FixedInclusion(h=0.2)))
    without = 1 - posterior.kept.having(0) @ posterior.kept.weight
    assert 1e-12 < without < 1e-9
    assert len(posterior.kept) < 32
    with pytest.warns(ConvergenceWarning, match="too improbable to have been kept"):
        posterior.reweight(model_prior=wv.FixedInclusion(h=[1e-20, 0.2, 0.2, 0.2, 0.2]))
    everything = wv.exact(make_paired("g-prior").problem())
    assert len(everything.kept) == 128
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        everything.reweight(model_prior=wv.FixedInclusion(h=1 - 1e-12))  # all models are there


def test_sequential_monte_carlo_carries_its_evidence_over():
    case = make_paired("g-prior")
    problem = case.problem(model_prior=wv.FixedInclusion(h=0.4))
    run = wv.sample(problem, wv.SequentialMonteCarlo(particles=2000, steps=10), seed=1, progress=False)
    truth, new = wv.exact(problem).reweight(**NEW), run.reweight(**NEW)
    assert abs(new.log_evidence - truth.log_evidence) < 4 * new.log_evidence_mcse
    assert new.log_evidence_mcse > run.log_evidence_mcse
    assert np.abs((new.pip - truth.pip) / new.mcse).max() < 8  # by four replicates


def test_wrong_priors_are_named(sampled):
    exact, _ = sampled
    with pytest.raises(ArgumentTypeError, match="slab must be one of"):
        exact.reweight(slab=3)
    with pytest.raises(ArgumentTypeError, match="model_prior must be"):
        exact.reweight(model_prior=0.5)


# --- sensitivity


def test_sensitivity_is_enumeration_at_each_prior(sampled):
    exact, run = sampled
    table = exact.sensitivity(g=[5, 13], prior_size=[2, 4], variables=["x0", "x4"])
    assert table.index.names == ["g", "prior_size"]
    for g, size in table.index:
        problem = exact.problem.with_priors(wv.GPrior(g), wv.FixedInclusion(size=size))
        truth = wv.exact(problem)
        row = table.loc[(g, size)]
        assert row[["x0", "x4"]].tolist() == pytest.approx(truth.pip[[0, 4]].tolist(), rel=1e-8)
        assert row["mean_size"] == pytest.approx(truth.mean_size, rel=1e-8)
    assert table["enough"].all()
    rough = run.sensitivity(g=[13, 1e9], prior_size=[3.2, 7.9])
    assert rough["enough"].tolist() == [
        True,
        False,
        False,
        True,
    ]  # far from the run's prior but in one corner
    assert rough.loc[(13, 3.2), "ess"] == pytest.approx(len(run.trace))


@pytest.mark.parametrize("slab", SLABS)
def test_default_grid(slab):
    posterior = wv.exact(make_paired(slab).problem(model_prior=wv.BetaBinomial(a=1, b=1)))
    table = posterior.sensitivity()
    own = [i for i, (_, size) in enumerate(table.index) if size == 3.5]
    pips = table.iloc[own][[c for c in table.columns if c.startswith("x")]]
    names = pips.columns
    assert any(np.allclose(row, posterior.inclusion_probabilities[names]) for row in pips.to_numpy())


def test_parameters_of_the_grid_are_checked(sampled):
    exact, _ = sampled
    with pytest.raises(DataError, match=r"GPrior: g must be positive"):
        exact.sensitivity(g=[-1])
    with pytest.raises(DataError, match="there is no column 'x99'"):
        exact.sensitivity(variables="x99")
    with pytest.raises(DataError, match="has no parameter"):
        exact.reweight(slab=wv.BIC()).sensitivity(g=[1])
    several = exact.reweight(model_prior=wv.FixedInclusion(h=np.linspace(0.1, 0.8, 8)))
    with pytest.raises(DataError, match="one inclusion probability per variable"):
        several.sensitivity(prior_size=[1])


# --- conditions


def test_given_is_bayes_rule(sampled):
    exact, run = sampled
    case = make_paired("g-prior", n=30, columns=8, seed=3)
    reference = case.posterior(("fixed", 0.4))
    good = reference.masks[:, 1] & ~reference.masks[:, 4] & ~reference.masks[:, 6]
    share = reference.probabilities * good
    want = share @ reference.masks / share.sum()
    found = exact.given(include="x1", exclude=["x4", 6])
    names = exact.problem.names
    np.testing.assert_allclose(found.pip, want, rtol=1e-9, atol=1e-12)
    assert found.condition.probability == pytest.approx(share.sum(), rel=1e-9)
    np.testing.assert_array_equal(found.summary().loc[names, "pip_before"], exact.pip)
    rough = run.given(include="x1", exclude=["x4", 6]).summary(coefficients=False).loc[names]
    free = [j for j in range(8) if j not in (1, 4, 6)]
    score = ((rough["pip"] - want) / rough["mcse"]).iloc[free]
    assert np.abs(score).max() < 4
    assert (rough["mcse"].iloc[[1, 4, 6]] == 0).all()


def test_conditions_are_checked(sampled):
    exact, run = sampled
    with pytest.raises(DataError, match="'x1' is in both"):
        exact.given(include="x1", exclude="x1")
    with pytest.raises(DataError, match="name at least one variable"):
        exact.given()
    with pytest.warns(ConvergenceWarning, match="draws satisfy the condition"):
        run.given(include=[2, 3, 5, 7], exclude=[1])


def test_condition_that_no_draw_satisfies(sampled):
    _, run = sampled
    sizes = np.diff(run.kept.start)
    few = run.kept.reweighted((sizes < 8).astype(float))  # as if the largest model had never been met
    with pytest.raises(DataError, match="none of the kept models has any weight"):
        replace(run, kept=few).given(include=list(range(8)))
