"""Priors under which models of the same size are equally probable, against sums over all models."""

import math

import numpy as np
import pytest

import whichvars as wv
from support.kinds import by_kind
from support.paired import make_paired
from whichvars.errors import ArgumentTypeError, DataError

P = 6
# name: the package's prior, the weights of the sizes 0 … P
PRIORS = {
    "poisson": (wv.PoissonSize(size=2.5), [2.5**k / math.factorial(k) for k in range(P + 1)]),
    "complexity": (wv.Complexity(a=0.5, c=1.3), [1.3**-k * P ** (-0.5 * k) for k in range(P + 1)]),
    "sizes": (wv.SizeDistribution([1, 3, 5, 2, 1, 0.5, 0.1]), [1, 3, 5, 2, 1, 0.5, 0.1]),
}


@pytest.mark.parametrize("max_size", [None, 3])
@pytest.mark.parametrize("slab", ["independent", "hyper-g"])
@pytest.mark.parametrize("name", PRIORS)
def test_enumeration(name, slab, max_size):
    case = make_paired(slab, columns=P, max_size=max_size)
    prior, weights = PRIORS[name]
    reference = case.posterior(("sizes", weights))
    problem = case.problem(model_prior=prior)
    posterior = wv.exact(problem)
    np.testing.assert_allclose(posterior.pip, reference.pips, rtol=1e-8)
    np.testing.assert_allclose(posterior.sizes, reference.size_distribution, rtol=1e-8, atol=1e-14)
    assert posterior.log_evidence == pytest.approx(reference.log_evidence, rel=1e-8)
    assert problem.log_prior([1, 4]) == pytest.approx(reference.log_priors[0b10010])
    most = P if max_size is None else max_size
    want = np.array(weights[: most + 1]) / sum(weights[: most + 1])
    np.testing.assert_allclose(prior.size_distribution(P, max_size)[: most + 1], want)
    np.testing.assert_allclose(prior.inclusion(P), np.arange(P + 1) @ weights / sum(weights) / P)


@pytest.mark.parametrize(
    "sampler", by_kind([wv.Hybrid(), wv.AddDeleteSwap(), wv.PARNI(), wv.SubsetGibbs(), wv.ASI()])
)
@pytest.mark.parametrize("name", PRIORS)
def test_samplers(name, sampler):
    case = make_paired("g-prior", columns=P, max_size=4)
    prior, weights = PRIORS[name]
    if name == "sizes":
        prior = wv.SizeDistribution(weights[:5])
    problem = case.problem(model_prior=prior)
    truth = wv.exact(problem)
    run = wv.sample(problem, sampler, draws=20_000, seed=5, progress=False)
    assert (np.abs(run.pip - truth.pip) < 5 * run.mcse + 1e-4).all()
    np.testing.assert_allclose(truth.pip, case.posterior(("sizes", weights)).pips, rtol=1e-8)


@pytest.mark.parametrize("name", PRIORS)
def test_draws_have_the_distribution_of_sizes(name):
    prior, weights = PRIORS[name]
    rng = np.random.default_rng(3)
    drawn = np.bincount([len(prior.draw(rng, P)) for _ in range(4000)], minlength=P + 1) / 4000
    want = np.array(weights) / sum(weights)
    assert (np.abs(drawn - want) < 4 * np.sqrt(want * (1 - want) / 4000) + 1e-9).all()


def test_poisson_sizes_approach_independent_inclusion():
    sizes = wv.PoissonSize(size=5).size_distribution(20_000)
    np.testing.assert_allclose(
        sizes[:30], wv.FixedInclusion(size=5).size_distribution(20_000)[:30], atol=1e-3
    )


def test_other_priors_by_reweighting():
    case = make_paired("g-prior", columns=P)
    posterior = wv.exact(case.problem())
    for prior, weights in PRIORS.values():
        new = posterior.reweight(model_prior=prior)
        np.testing.assert_allclose(new.pip, case.posterior(("sizes", weights)).pips, rtol=1e-8)


def test_sensitivity_to_the_expected_size():
    problem = make_paired("g-prior", columns=P).problem(model_prior=wv.PoissonSize(size=2))
    table = wv.exact(problem).sensitivity(g=[13.0], prior_size=[2, 3])
    again = wv.exact(problem.with_priors(model_prior=wv.PoissonSize(size=3)))
    assert table.loc[(13.0, 3.0), "mean_size"] == pytest.approx(again.mean_size)
    strict = wv.exact(problem.with_priors(model_prior=wv.Complexity()))
    assert len(strict.sensitivity(g=[13.0])) == 1
    with pytest.raises(DataError, match="is not given by a size"):
        strict.sensitivity(prior_size=[3])


def test_conditions_and_files(tmp_path):
    problem = make_paired("g-prior", columns=P).problem(model_prior=wv.Complexity())
    posterior = wv.exact(problem)
    assert posterior.given(include=[0]).model_size["prior"].sum() == pytest.approx(1, abs=1e-5)
    posterior.save(tmp_path / "a.npz")
    assert wv.Posterior.load(tmp_path / "a.npz").problem.model_prior == wv.Complexity()


def test_words():
    problem = make_paired("g-prior", columns=P).problem()
    words = {
        name: wv.exact(problem.with_priors(model_prior=prior)).methods()
        for name, (prior, _) in PRIORS.items()
    }
    assert "had a Poisson prior with mean 2.5, cut off at 6" in words["poisson"]
    assert "proportional to p^(−0.5k) 1.3^(−k) with p = 6 (complexity prior" in words["complexity"]
    assert "Castillo, I., Schmidt-Hieber" in words["complexity"]
    assert "had a prior distribution with mean 2.07" in words["sizes"]


def test_bad_arguments():
    case = make_paired("g-prior", columns=P)
    with pytest.raises(DataError, match="PoissonSize: size must be positive"):
        wv.PoissonSize(size=-1)
    with pytest.raises(DataError, match="Complexity: a must be positive"):
        wv.Complexity(a=0)
    for not_a_list in (2.0, {1: 0.5, 3: 0.5}, "1, 2"):
        with pytest.raises(ArgumentTypeError, match="a list with one positive number for each of the sizes"):
            wv.SizeDistribution(not_a_list)
    with pytest.raises(DataError, match="there are 8 weights, but 6 variables"):
        case.problem(model_prior=wv.SizeDistribution([1] * 8))
    with pytest.raises(DataError, match="give max_size=2 too"):
        case.problem(model_prior=wv.SizeDistribution([1, 1, 1]))
    with pytest.raises(DataError, match="give max_size=2 too"):
        case.problem().with_priors(model_prior=wv.SizeDistribution([1, 1, 1]))
    names = ["a", "b", "a:b"]
    with pytest.raises(DataError, match="heredity needs FixedInclusion or BetaBinomial"):
        wv.Problem(
            case.X[:, :3],
            case.y,
            names=names,
            heredity={"a:b": ["a", "b"]},
            model_prior=wv.PoissonSize(size=1),
        )
