"""Heredity: the prior against coins, walks of a chain, enumeration, draws, starts, and what is refused."""

import pickle

import numpy as np
import pandas as pd
import pytest

import whichvars as wv
from support.cases import PRIORS, Case, data, priors, problem, truth
from support.kernels import accept_proposal, propose_flips
from support.oracle import log_heredity_priors
from whichvars._kernels.chain import AVAILABLE, LOG_PRIOR, new_chain
from whichvars._kernels.count.model_table import new_memo
from whichvars.errors import ArgumentTypeError, DataError, TooLargeError
from whichvars.problem import heredity as module
from whichvars.problem.heredity import ConditionalPrior, given_parents
from whichvars.samplers.starts import prior_draws, starting_models

PARENTS = data("heredity").parents
P = len(PARENTS)
NAMES = ("three-heredity", "heredity", "heredity-groups")
MASKS = [[j for j in range(P) if m >> j & 1] for m in range(1 << P)]


def conditional(name: str) -> tuple[ConditionalPrior, np.ndarray, int | None]:
    ours, theirs, max_size = priors(P)[name]
    return ConditionalPrior(ours, PARENTS), log_heredity_priors(P, theirs, PARENTS, max_size), max_size


@pytest.mark.parametrize("name", PRIORS)
def test_the_prior_is_that_of_coins(name):
    prior, expected, max_size = conditional(name)
    found = np.array([prior.log_prior(m, P) for m in MASKS]) + prior.log_constant(P, max_size)
    sizes = np.array([len(m) for m in MASKS])
    together = prior.log_priors(
        np.array([j for m in MASKS for j in m]), np.concatenate([[0], np.cumsum(sizes)]), P
    )
    np.testing.assert_array_equal(together + prior.log_constant(P, max_size), found)
    allowed = sizes <= (P if max_size is None else max_size)
    np.testing.assert_allclose(found[allowed], expected[allowed], atol=1e-12)
    mass = np.exp(expected)
    np.testing.assert_allclose(
        prior.size_distribution(P, max_size), np.bincount(sizes, mass, P + 1), atol=1e-13
    )
    if max_size is None:
        inside = [sum(mass[i] for i, m in enumerate(MASKS) if j in m) for j in range(P)]
        np.testing.assert_allclose(prior.inclusion(P), inside, atol=1e-13)
    assert prior.count_models(P if max_size is None else max_size) == (mass > 0).sum()


@pytest.mark.parametrize("name", ["fixed", "per-variable", "beta-binomial"])
def test_simulated_sizes(name, monkeypatch):
    prior = conditional(name)[0]
    exact = prior.size_distribution(P)
    assert not prior.simulated
    monkeypatch.setattr(module, "MOST_SETS", 2)
    again = ConditionalPrior(prior.prior, PARENTS)
    assert again.simulated
    error = np.sqrt(exact * (1 - exact) / module.SIMULATED)
    assert (np.abs(again.size_distribution(P) - exact) < 4.5 * error + 1e-12).all()
    assert again.count_models(P) == 1 << P  # a bound


@pytest.mark.parametrize("name", PRIORS)
def test_draws(name):
    prior, expected, max_size = conditional(name)
    n = 40_000
    drawn = prior.draws(np.random.default_rng(3), n, max_size)
    assert len(drawn) == n
    counts = np.bincount([int((1 << m).sum()) for m in drawn], minlength=1 << P)
    mass = np.exp(expected)
    assert not counts[mass == 0].any()
    common = mass > 20 / n
    z = (counts[common] - n * mass[common]) / np.sqrt(n * mass[common] * (1 - mass[common]))
    assert np.abs(z).max() < 4.5
    assert np.sqrt(np.mean(z**2)) < 1.3


def test_draws_that_are_nearly_always_too_large():
    prior = ConditionalPrior(wv.FixedInclusion(h=0.999), (*((),) * 12, (0, 1)))
    with pytest.raises(DataError, match="max_size = 2 variables; lower"):
        prior.draws(np.random.default_rng(0), 1, 2)


@pytest.mark.parametrize("kind", [wv.FixedInclusion, wv.BetaBinomial])
@pytest.mark.parametrize("size", [0.01, 1.0, 3.0, P - 0.1])
def test_an_expected_size_is_kept(kind, size):
    prior = given_parents(kind(size=size), PARENTS)
    assert prior.inclusion(P).sum() == pytest.approx(size)
    assert prior.size_distribution(P) @ np.arange(P + 1) == pytest.approx(size)
    assert given_parents(prior.prior, PARENTS) == prior  # no size: as it is
    with pytest.raises(DataError, match="needs more than the 8 variables"):
        given_parents(kind(size=P), PARENTS)


def test_order_puts_parents_first():
    prior = ConditionalPrior(wv.FixedInclusion(h=0.5), ((3,), (0, 2), (), (), (1,)))
    assert prior.order.tolist() == [2, 3, 0, 1, 4]
    assert prior.ancestors(4) == {0, 1, 2, 3}
    assert prior.complete(np.array([1])).tolist() == [2, 3, 0, 1]
    assert prior.missing([0, 3, 4]) == (4, 1)
    assert prior.missing([0, 3]) is None


@pytest.mark.parametrize("prior", ["per-variable", "beta-binomial"])
@pytest.mark.parametrize("name", ["heredity", "heredity-groups"])
def test_a_chain_keeps_its_prior(name, prior):
    """Along a walk that flips up to five variables at once, from and to models that are allowed or not."""
    case = Case(name, "independent", prior)
    target_problem, oracle = problem(case), truth(case)
    capacity = int(target_problem.offsets[-1]) * 2
    target = target_problem.target(capacity)
    chain, memo = new_chain(target, capacity), new_memo(64)
    rng = np.random.default_rng(0)
    now, refused = 0, 0
    p = target_problem.p
    for _ in range(3000):
        flips = rng.permutation(p)[: rng.integers(1, 6)]
        then = now ^ int((1 << flips).sum())
        before = chain.position.copy()
        ratio = propose_flips(target, chain, memo, flips)
        np.testing.assert_array_equal(chain.position, before)
        expected = -np.inf
        if oracle.probabilities[then] > 0:
            expected = sum(v[then] - v[now] for v in (oracle.log_priors, oracle.log_marginals))
        assert ratio == pytest.approx(expected, abs=1e-8)
        refused += ratio == -np.inf
        if np.isfinite(ratio) and rng.random() < 0.7:
            accept_proposal(target, chain)
            now = then
        assert chain.floats[LOG_PRIOR] == pytest.approx(oracle.log_priors[now], abs=1e-9)
        available = [bool(i) and oracle.masks[now][list(i)].all() for i in target_problem.model_prior.parents]
        assert chain.ints[AVAILABLE] == sum(available)
    assert 500 < refused < 2900


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("slab", ["independent", "g", "zellner-siow", "bic"])
@pytest.mark.parametrize("name", NAMES)
def test_enumeration(name, slab, prior):
    case = Case(name, slab, prior)
    posterior, oracle = wv.exact(problem(case)), truth(case)
    np.testing.assert_allclose(posterior.pip, oracle.pips, atol=1e-10)
    np.testing.assert_allclose(posterior.sizes, oracle.size_distribution, atol=1e-10)
    assert posterior.log_evidence == pytest.approx(oracle.log_evidence, abs=1e-9)
    numbers = [sum(1 << j for j in m) for m in posterior.models.members]
    assert sorted(numbers) == np.flatnonzero(oracle.probabilities).tolist()
    np.testing.assert_allclose(posterior.models.frequency, oracle.probabilities[numbers], atol=1e-12)
    assert all(list(m) == sorted(m) for m in posterior.models.members)
    kept = [posterior.kept.model(i) for i in range(len(posterior.kept))]
    assert all(list(m) == sorted(m) for m in kept)
    assert set(kept) <= set(posterior.models.members)
    assert posterior.model_size["prior"].sum() == pytest.approx(1)


def test_the_number_of_models_is_that_of_those_allowed():
    target = problem(Case("heredity", "independent", "fixed"))
    allowed = wv.exact(target).iterations
    assert allowed < 1 << target.p
    assert wv.exact(target, max_models=allowed).iterations == allowed
    with pytest.raises(TooLargeError):
        wv.exact(target, max_models=allowed - 1)


@pytest.mark.parametrize("prior", PRIORS)
def test_starts_are_allowed(prior):
    target = problem(Case("heredity", "g", prior))
    seed = np.random.SeedSequence(0, spawn_key=(0,))
    for kind in ("prior", "screening", "mixed", "modes", "forward"):
        for model in starting_models(target, kind, seed, 30):
            assert target.model_prior.missing(model) is None
            assert len(model) <= target.max_size
    assert all(
        target.model_prior.missing(m) is None for m in prior_draws(target, np.random.default_rng(0), 50)
    )


def test_a_start_without_a_parent_is_refused():
    target = problem(Case("heredity", "g", "fixed"))
    with pytest.raises(DataError, match=r"has 'x4' without its parent 'x2'"):
        wv.sample(target, draws=10, start=["x1", "x4"], progress=False)


def test_a_limit_that_prior_draws_hardly_meet_is_no_obstacle_to_chains():
    d = data("heredity")
    target = wv.Problem(
        d.X, d.y, heredity={"x4": ["x1", "x2"]}, model_prior=wv.FixedInclusion(h=0.99), max_size=2
    )
    posterior = wv.sample(target, wv.AddDeleteSwap(), draws=20_000, seed=1, progress=False)
    exact = wv.exact(target)
    assert posterior.pip[4] == exact.pip[4] == 0  # it needs two parents
    assert np.abs((posterior.pip - exact.pip) / posterior.mcse)[[0, 1, 2]].max() < 4.5


# --- what a problem makes of it


def columns(**more):
    rng = np.random.default_rng(0)
    base = {name: rng.normal(size=30) for name in "abc"}
    X = {**base, "a:b": base["a"] * base["b"], "b:c": base["b"] * base["c"], **more}
    X["a:b:c"] = base["a"] * base["b"] * base["c"]
    return pd.DataFrame(X), base["a"] + X["a:b"] + rng.normal(size=30)


FAMILY = {"a:b": ["a", "b"], "b:c": "b", "a:b:c": ["a:b", "b:c"]}


def test_names_indices_and_always_included():
    X, y = columns()
    prior = wv.Problem(X, y, heredity=FAMILY).model_prior
    assert prior.parents == ((), (), (), (0, 1), (1,), (3, 4))
    assert prior.inclusion(6).sum() == pytest.approx(3)  # the default's
    assert wv.Problem(X, y, heredity={3: [0, 1]}).model_prior.parents[3] == (0, 1)
    some = wv.Problem(X, y, heredity=FAMILY, always_include=["b"])
    assert some.names == ["a", "c", "a:b", "b:c", "a:b:c"]
    assert some.model_prior.parents == ((), (), (0,), (), (2, 3))
    assert "with heredity of 2 variables" in repr(some)
    for nothing in ({}, {"a": []}, {"a:b": "b", "b:c": ["b"]}):
        plain = wv.Problem(X, y, heredity=nothing, always_include=["b"])
        assert isinstance(plain.model_prior, wv.BetaBinomial)


def test_what_was_left_out_hands_its_parents_on():
    X, y = columns()
    X["a:b"] = 2.0
    with pytest.warns(wv.DataWarning, match="a:b"):
        target = wv.Problem(X, y, heredity=FAMILY)
    assert target.names == ["a", "b", "c", "b:c", "a:b:c"]
    assert target.model_prior.parents == ((), (), (), (1,), (0, 1, 3))


def test_per_variable_values_of_columns_left_out_go():
    X, y = columns()
    X["c"] = 1.0
    h = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    with pytest.warns(wv.DataWarning):
        target = wv.Problem(X, y, heredity=FAMILY, model_prior=wv.FixedInclusion(h=h))
    assert target.model_prior.prior.h == (0.1, 0.2, 0.4, 0.5, 0.6)


@pytest.mark.parametrize(
    ("heredity", "error", "message"),
    [
        ([("a:b", "a")], ArgumentTypeError, "mapping from a variable to its parents"),
        ({"a:B": ["a"]}, DataError, r"heredity: there is no column 'a:B'; did you mean 'a:b'"),
        ({"a:b": ["A", "b"]}, DataError, r"heredity\['a:b'\]: there is no column 'A'"),
        ({"a": ["a:b"], "a:b": ["a"]}, DataError, "'a' needs 'a:b' needs 'a'; none"),
        ({"a": ["a"]}, DataError, "circular: 'a' needs 'a'"),
        ({"c": ["a"]}, DataError, "'c' is always included, so it cannot depend"),
    ],
)
def test_refused(heredity, error, message):
    X, y = columns()
    with pytest.raises(error, match=message):
        wv.Problem(X, y, heredity=heredity, always_include=["c"])


def test_a_copy_is_the_same():
    target = problem(Case("heredity", "independent", "per-variable"))
    copy = pickle.loads(pickle.dumps(target))
    run = {"draws": 2000, "replicates": 1, "seed": 1, "progress": False}
    np.testing.assert_array_equal(wv.sample(copy, **run).pip, wv.sample(target, **run).pip)
    np.testing.assert_array_equal(wv.exact(copy).pip, wv.exact(target).pip)
