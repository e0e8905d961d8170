"""Markov random fields as priors on models, against sums over all models."""

import numpy as np
import pytest

import whichvars as wv
from support.kinds import by_kind
from support.oracle import all_masks, log_model_prior
from support.paired import make_paired
from whichvars.errors import ArgumentTypeError, DataError

P = 7
EDGES = ((0, 1), (1, 2), (2, 0), (3, 5), (5, 6))
STRENGTHS = (0.8, -0.7, 1.5, 2.0, -1.2)
H = tuple(np.linspace(0.15, 0.6, P).tolist())
PRIOR = wv.MarkovRandomField(EDGES, STRENGTHS, H)
ORACLE = ("graph", H, EDGES, STRENGTHS)


def inclusion_of_prior():
    masks = all_masks(P)
    weight = np.exp([log_model_prior(mask, P, ORACLE) for mask in masks])
    return masks, weight


@pytest.mark.parametrize("slab", ["independent", "g-prior", "hyper-g"])
@pytest.mark.parametrize("engine", ["gram", "columns"])
def test_enumeration(slab, engine):
    case = make_paired(slab, columns=P, n=25)
    reference = case.posterior(ORACLE)
    problem = case.problem(model_prior=PRIOR, engine=engine)
    posterior = wv.exact(problem)
    np.testing.assert_allclose(posterior.pip, reference.pips, rtol=1e-8)
    assert posterior.log_evidence == pytest.approx(reference.log_evidence, rel=1e-8)
    for model in ([], [3], [0, 1, 2], [0, 1, 5, 6]):
        want = reference.log_priors[sum(1 << j for j in model)]
        assert problem.log_prior(model) == pytest.approx(want, abs=1e-10)


SAMPLERS = [
    wv.AddDeleteSwap(), wv.Lamnisos(), wv.IndividualAdaptation(), wv.ASI(), wv.PARNI(), wv.TemperedGibbs(), wv.SubsetGibbs(subset=3),
    wv.Hybrid(), wv.ParallelTempering(), wv.SequentialMonteCarlo(particles=2000),
]  # fmt: skip


@pytest.mark.parametrize("slab", ["independent", "g-prior"])
@pytest.mark.parametrize("sampler", by_kind(SAMPLERS))
def test_samplers(sampler, slab):
    case = make_paired(slab, columns=P, n=25)
    reference = case.posterior(ORACLE)
    settings = {} if isinstance(sampler, wv.SequentialMonteCarlo) else {"draws": 20_000}
    run = wv.sample(case.problem(model_prior=PRIOR), sampler, seed=7, progress=False, **settings)
    assert (np.abs(run.pip - reference.pips) < 5 * run.mcse + 1e-4).all()
    assert run.mcse.max() < 0.02
    assert abs(run.log_evidence - reference.log_evidence) < 5 * run.log_evidence_mcse + 1e-3


def test_particles_start_from_the_prior_with_one_probability_for_all():
    graph = wv.MarkovRandomField(EDGES, STRENGTHS, 0.3)
    case = make_paired("g-prior", columns=P, n=25)
    reference = case.posterior(("graph", (0.3,) * P, EDGES, STRENGTHS))
    sampler = wv.SequentialMonteCarlo(particles=3000)
    run = wv.sample(case.problem(model_prior=graph), sampler, replicates=8, seed=2, progress=False)
    assert abs(run.log_evidence - reference.log_evidence) < 5 * run.log_evidence_mcse
    assert run.log_evidence_mcse < 0.02


def test_a_response_that_is_not_gaussian():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, P))
    y = rng.poisson(np.exp(0.5 * X[:, 0]))
    problem = wv.Problem(X, y, family="poisson", model_prior=PRIOR)
    exact = wv.exact(problem)
    flat = wv.exact(problem.with_priors(model_prior=wv.FixedInclusion(h=0.5)))
    np.testing.assert_allclose(flat.reweight(model_prior=PRIOR).pip, exact.pip, rtol=1e-7)
    masks, prior = inclusion_of_prior()
    log_marginal = [problem.log_marginal(np.flatnonzero(mask).tolist()) for mask in masks]
    share = prior * np.exp(log_marginal - np.max(log_marginal))
    np.testing.assert_allclose(exact.pip, share @ masks / share.sum(), rtol=1e-7)
    run = wv.sample(problem, wv.Hybrid(), draws=4000, seed=3, progress=False)
    assert (np.abs(run.pip - exact.pip) < 5 * run.mcse + 1e-3).all()


def test_normalising_constant_of_long_chains_and_grids():
    """A chain against the product of transfer matrices, a grid against sums over all models."""
    p, b, h = 200, 0.7, 0.2
    chain = wv.MarkovRandomField([(j, j + 1) for j in range(p - 1)], b, h)
    odds = h / (1 - h)
    step = np.array([[1, odds], [1, odds * np.exp(b)]])
    state = np.array([1, odds])
    for _ in range(p - 1):
        state = np.array([state @ [1, 1], state @ [odds, odds * np.exp(b)]])
    assert step.shape == (2, 2)
    assert -chain.log_constant(p) == pytest.approx(np.log(state.sum()))
    grid = [
        (4 * r + c, 4 * r + c + d)
        for r in range(3)
        for c in range(4)
        for d in (1, 4)
        if (d == 4 and r < 2) or (d == 1 and c < 3)
    ]
    masks = all_masks(12)
    value = masks.sum(axis=1) * np.log(odds) + b * sum(masks[:, i] & masks[:, j] for i, j in grid)
    assert -wv.MarkovRandomField(grid, b, h).log_constant(12) == pytest.approx(np.log(np.exp(value).sum()))


def test_draws_and_what_is_simulated():
    masks, weight = inclusion_of_prior()
    rng = np.random.default_rng(5)
    drawn = np.zeros((4000, P), bool)
    for row in drawn:
        row[PRIOR.draw(rng, P)] = True
    want = weight @ masks
    error = np.sqrt(want * (1 - want))
    assert (np.abs(drawn.mean(axis=0) - want) < 4.5 * error / np.sqrt(4000)).all()
    assert (np.abs(PRIOR.inclusion(P) - want) < 4.5 * error / np.sqrt(100_000) + 1e-12).all()
    sizes = np.bincount(masks.sum(axis=1), weight, P + 1)
    assert np.abs(PRIOR.size_distribution(P) - sizes).max() < 0.01
    assert PRIOR.inclusion(P)[4] == pytest.approx(H[4])  # it has no neighbours


def test_edges_by_name_and_columns_that_are_left_out():
    case = make_paired("g-prior", columns=4)
    X = np.column_stack([case.X[:, 0], np.ones(len(case.y)), case.X[:, 1:]])
    by_name = wv.MarkovRandomField([("a", "c"), ("b", "c"), ("c", "d")], [1.0, 5.0, 2.0], 0.3)
    by_index = wv.MarkovRandomField([(0, 2), (1, 2), (2, 3)], [1.0, 5.0, 2.0], 0.3)
    for prior in (by_name, by_index):
        with pytest.warns(wv.DataWarning):
            problem = wv.Problem(
                X, case.y, slab=case.slab, names=["a", "b", "c", "d", "e"], model_prior=prior
            )
        assert problem.model_prior == wv.MarkovRandomField([(0, 1), (1, 2)], (1.0, 2.0), 0.3)
        again = problem.with_priors(model_prior=prior)
        assert again.model_prior == problem.model_prior


def test_files_conditions_and_words(tmp_path):
    posterior = wv.exact(
        make_paired("g-prior", columns=P).problem(model_prior=wv.MarkovRandomField(EDGES, 1.0, 0.2))
    )
    posterior.save(tmp_path / "a.npz")
    again = wv.Posterior.load(tmp_path / "a.npz")
    assert again.problem.model_prior == posterior.problem.model_prior
    assert again.given(include=[0]).log_evidence is None
    text = posterior.methods()
    assert (
        "graph with 5 edges: a variable had prior probability 0.2, and each of its neighbours in the model multiplied its prior odds by 2.72"
        in text
    )
    assert "Li, F. and Zhang, N. R. (2010)" in text
    assert len(posterior.sensitivity(g=[13.0])) == 1


def test_bad_arguments():
    case = make_paired("g-prior", columns=P)
    for edges, message in (
        ("ab", "edges must be pairs"),
        ([(1, 2, 3)], "an edge must be a pair"),
        ([(1, 2.5)], "an edge must be a pair"),
    ):
        with pytest.raises(ArgumentTypeError, match=message):
            wv.MarkovRandomField(edges)
    for edges, message in (
        ([], "edges is empty"),
        ([(0, 9)], "there is no variable 9"),
        ([("x0", "y")], "there is no variable 'y'"),
        ([(0, 1), (1, 0)], "occurs twice"),
        ([(1, 1)], "joins 'x1' with itself"),
    ):
        with pytest.raises(DataError, match=message):
            case.problem(model_prior=wv.MarkovRandomField(edges))
    with pytest.raises(DataError, match="strength has 2 values but there are 1 edges"):
        wv.MarkovRandomField([(0, 1)], [1.0, 2.0])
    with pytest.raises(DataError, match="strength must lie between"):
        wv.MarkovRandomField([(0, 1)], 50.0)
    with pytest.raises(DataError, match="cannot be combined with max_size"):
        case.problem(model_prior=PRIOR, max_size=3)
    with pytest.raises(DataError, match="heredity needs FixedInclusion or BetaBinomial"):
        wv.Problem(
            case.X[:, :3],
            case.y,
            names=["a", "b", "a:b"],
            heredity={"a:b": ["a", "b"]},
            model_prior=wv.MarkovRandomField([(0, 1)]),
        )
    many = [(i, j) for i in range(30) for j in range(i)]
    with pytest.raises(DataError, match="the graph is too dense"):
        wv.MarkovRandomField(many, 0.1, 0.1).log_constant(30)
