"""Dilution priors against sums over all models."""

import warnings

import numpy as np
import pytest

import whichvars as wv
from support.cases import Case, problem, truth
from support.diluted import dilute
from support.kinds import by_kind
from whichvars.errors import ArgumentTypeError, DataError

POWER = 1.5
CASES = [
    Case("plain", "g", "per-variable"),
    Case("duplicate", "independent", "beta-binomial"),
    Case("duplicate", "hyper-g", "max-size"),
    Case("always", "zellner-siow", "fixed"),
    Case("weights", "unknown-g", "beta-binomial"),
    Case("groups", "independent", "max-size"),
    Case("wide", "independent", "fixed"),
    Case("columns", "bic", "beta-binomial-max-size"),
    Case("known-variance", "g", "fixed"),
    Case("strong-stand-ins-3", "independent", "per-variable"),
    Case("strong-duplicate-7", "independent", "fixed"),
    Case("strong-mapped-3", "hyper-g", "beta-binomial"),
]


def diluted(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.DataWarning)
        undiluted = problem(case)
        return undiluted.with_priors(model_prior=wv.Dilution(undiluted.model_prior, POWER))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_enumeration(case):
    reference, ours = dilute(case.given, truth(case), POWER), diluted(case)
    exact = wv.exact(ours)
    tolerance = 1e-5 if case.data.endswith("7") else 1e-7
    np.testing.assert_allclose(exact.pip, reference.pips, atol=tolerance)
    assert exact.log_evidence == pytest.approx(reference.log_evidence, rel=1e-8, abs=1e-8)
    np.testing.assert_allclose(ours.model_prior.inclusion(ours.p), reference.prior_pips, rtol=1e-7)
    sizes = ours.model_prior.size_distribution(ours.p)
    assert sizes @ np.arange(ours.p + 1) == pytest.approx(reference.prior_pips.sum())
    for model in ([], [0], [0, 1], [0, 2, 3], [0, 5]):
        want = reference.log_priors[sum(1 << j for j in model)]
        assert ours.log_prior(model) == pytest.approx(want, abs=1e-7)


SAMPLERS = [
    wv.AddDeleteSwap(), wv.Lamnisos(), wv.IndividualAdaptation(), wv.ASI(), wv.PARNI(), wv.TemperedGibbs(), wv.SubsetGibbs(subset=3),
    wv.Hybrid(), wv.ParallelTempering(), wv.SequentialMonteCarlo(particles=2000),
]  # fmt: skip
# every sampler meets a duplicate and strong evidence
SAMPLED = [CASES[i] for i in (0, 1, 4, 5, 7, 9, 10)]


@pytest.mark.parametrize("case", SAMPLED, ids=lambda c: c.id)
@pytest.mark.parametrize("sampler", by_kind(SAMPLERS))
def test_samplers(sampler, case):
    reference = dilute(case.given, truth(case), POWER)
    settings = {} if isinstance(sampler, wv.SequentialMonteCarlo) else {"draws": 20_000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        run = wv.sample(diluted(case), sampler, seed=5, replicates=8, progress=False, **settings)
    told = np.isfinite(run.mcse)
    assert (np.abs(run.pip - reference.pips)[told] < 5 * run.mcse[told] + 1e-3).all(), run.pip
    # what never moved is nearly certain
    assert np.abs(run.pip - reference.pips)[~told].max(initial=0) < 1e-3
    assert np.nanmax(run.mcse) < 0.06
    table = run.models
    prior = [run.problem.log_prior(model) for model in table.members[:3]]
    constant = run.problem.model_prior.log_constant(run.problem.p, run.problem.max_size)
    np.testing.assert_allclose(table.log_prior[:3] + constant, prior, atol=1e-6)


def test_two_copies_are_never_in_together():
    case = Case("duplicate", "independent", "beta-binomial")
    ours = diluted(case)
    assert ours.log_prior([0, 5]) == -np.inf
    assert np.isfinite(ours.log_marginal([0, 5]))
    run = wv.sample(ours, wv.Hybrid(), draws=4000, seed=1, progress=False)
    assert not any({0, 5} <= set(model) for model in run.models.members)
    started = wv.sample(ours, wv.AddDeleteSwap(), draws=200, seed=1, start="forward", progress=False)
    assert not any({0, 5} <= set(model) for model in started.models.members)
    with pytest.raises(DataError, match="no posterior mass"):
        wv.sample(ours, wv.AddDeleteSwap(), draws=100, start=[0, 5], progress=False)


@pytest.mark.rest
def test_evidence_of_particles_and_of_known_models():
    case = CASES[0]
    reference = dilute(case.given, truth(case), POWER)
    for sampler, settings in (
        (wv.SequentialMonteCarlo(particles=3000), {}),
        (wv.Hybrid(), {"draws": 10_000}),
        (wv.AddDeleteSwap(), {"draws": 20_000}),
    ):
        run = wv.sample(diluted(case), sampler, seed=3, replicates=8, progress=False, **settings)
        assert abs(run.log_evidence - reference.log_evidence) < 5 * run.log_evidence_mcse + 1e-4


def test_a_response_that_is_not_gaussian():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 6))
    X[:, 1] = X[:, 0] + 0.3 * X[:, 1]
    y = rng.poisson(np.exp(0.5 * X[:, 0]))
    prior = wv.Dilution(wv.FixedInclusion(h=0.4))
    ours = wv.Problem(X, y, family="poisson", model_prior=prior)
    exact = wv.exact(ours)
    flat = wv.exact(ours.with_priors(model_prior=wv.FixedInclusion(h=0.4)))
    np.testing.assert_allclose(flat.reweight(model_prior=prior).pip, exact.pip, rtol=1e-7)
    for sampler in (wv.Hybrid(), wv.AddDeleteSwap()):
        run = wv.sample(ours, sampler, draws=4000, seed=3, replicates=8, progress=False)
        assert (np.abs(run.pip - exact.pip) < 5 * run.mcse + 1e-3).all()


def test_what_is_simulated_where_there_are_many_models():
    rng = np.random.default_rng(6)
    common = rng.normal(size=(80, 1))
    X = rng.normal(size=(80, 16)) + 0.8 * common
    y = X[:, 0] + rng.normal(size=80)
    base = wv.FixedInclusion(h=0.25)
    ours = wv.Problem(X, y, slab=wv.GPrior(80), model_prior=wv.Dilution(base))
    known = ours.model_prior.of_columns
    assert 0 < known.error < 0.05
    R = np.corrcoef(X.T)
    weight, inside = np.zeros(1 << 16), (np.arange(1 << 16)[:, None] >> np.arange(16)) & 1
    for k in range(17):
        rows = np.flatnonzero(inside.sum(axis=1) == k)
        index = np.nonzero(inside[rows])[1].reshape(len(rows), k)
        weight[rows] = np.linalg.det(R[index[:, :, None], index[:, None, :]]) * 0.25**k * 0.75 ** (16 - k)
    assert abs(known.log_mean - np.log(weight.sum())) < 4 * known.error
    assert np.abs(known.inclusion - weight @ inside / weight.sum()).max() < 0.05
    posterior = wv.exact(ours)
    assert posterior.log_evidence_mcse == pytest.approx(known.error)


def test_files_words_and_other_priors(tmp_path):
    case = CASES[0]
    posterior = wv.exact(diluted(case))
    posterior.save(tmp_path / "a.npz")
    again = wv.Posterior.load(tmp_path / "a.npz")
    assert again.problem.model_prior == posterior.problem.model_prior
    np.testing.assert_array_equal(
        again.problem.model_prior.inclusion(7), posterior.problem.model_prior.inclusion(7)
    )
    assert again.given(include=[0]).log_evidence is None
    assert wv.Dilution().base is None
    assert str(wv.Dilution(wv.FixedInclusion(h=0.5), 2)) == "Dilution(FixedInclusion(h=0.5), power=2.0)"
    text = posterior.methods()
    assert (
        "multiplied by the determinant of the correlation matrix of the variables in the model to the power of 1.5"
        in text
    )
    assert "George, E. I. (2010). Dilution priors" in text
    assert "george2010" in posterior.bibtex()
    base = posterior.problem.model_prior.base
    back = posterior.reweight(model_prior=base)
    np.testing.assert_allclose(back.pip, truth(case).pips, rtol=1e-6)
    table = wv.compare_priors(posterior, [wv.GPrior(20.0)], [base, wv.Dilution(base, 0.5)], ["x0"])
    assert len(table) == 3
    assert len(posterior.sensitivity(g=[13.0])) == 1


def test_bad_arguments():
    X = np.random.default_rng(1).normal(size=(8, 30))
    with pytest.raises(DataError, match="power must be positive"):
        wv.Dilution(power=0)
    with pytest.raises(DataError, match="base is diluted itself"):
        wv.Dilution(wv.Dilution())
    with pytest.raises(ArgumentTypeError, match="model_prior must be one of"):
        wv.Problem(X, X[:, 0], model_prior=wv.Dilution(0.5))
    with pytest.raises(DataError, match="depends on the columns"):
        wv.Dilution().inclusion(3)
    with pytest.raises(DataError, match="no model that was drawn from"):
        wv.Problem(X, X[:, 0] + X[:, 1], model_prior=wv.Dilution(wv.FixedInclusion(h=0.99)))
    with pytest.raises(DataError, match="heredity needs FixedInclusion or BetaBinomial"):
        wv.Problem(
            X[:, :3],
            X[:, 4],
            names=["a", "b", "a:b"],
            heredity={"a:b": ["a", "b"]},
            model_prior=wv.Dilution(),
        )
