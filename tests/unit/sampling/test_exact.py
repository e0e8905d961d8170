"""Enumeration against the oracle: every slab with every model prior, and whatever makes a problem awkward."""

import numpy as np
import pytest

from support.paired import KNOWN_VARIANCE, PRIORS, SLABS, Paired, make_paired, model_priors
from whichvars._kernels.enumerate import trie_marginals
from whichvars.errors import TooLargeError
from whichvars.posterior.posterior import Posterior
from whichvars.sampling.exact import count_models, exact

SITUATIONS = {
    "duplicate": {"duplicate": True},
    "weights": {"weighted": True},
    "always included": {"always": 2},
    "groups": {"columns": 8, "groups": [[0], [1, 2, 3], [4], [5, 6], [7]]},
    "interleaved groups": {"columns": 6, "groups": [[0, 3], [1], [2, 5], [4]]},
    "inverse gamma": {"inverse_gamma": (1.3, 0.8)},
    "max size": {"max_size": 3},
    "max size 1": {"max_size": 1},
    "more columns than ν − 1": {"n": 7, "columns": 8},
    "groups wider than ν − 1": {"n": 7, "columns": 9, "groups": [[0, 1, 2], [3, 4, 5], [6], [7], [8]]},
    "scale none": {"scale": "none"},
    "everything": {
        "n": 24, "columns": 8, "groups": [[0], [1, 2], [3], [4, 6], [5], [7]], "weighted": True, "always": 2,
        "inverse_gamma": (0.7, 2.0), "scale": "none", "max_size": 4, "duplicate": True,
    },
}  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")


def assert_equals_oracle(case: Paired, prior_name: str, **settings: object) -> Posterior:
    ours, theirs = model_priors(prior_name, case.p)
    posterior = exact(case.problem(model_prior=ours, **settings))
    expected = case.posterior(theirs)
    np.testing.assert_allclose(posterior.pip, expected.pips, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(posterior.sizes, expected.size_distribution, rtol=1e-10, atol=1e-10)
    assert posterior.log_evidence == pytest.approx(expected.log_evidence, rel=1e-10, abs=1e-10)
    assert not posterior.mcse.any()

    # every model with mass is there once, with its own probability
    models = posterior.models
    numbers = [sum(1 << j for j in members) for members in models.members]
    assert len(set(numbers)) == len(numbers) == posterior.iterations
    assert set(numbers) == set(np.flatnonzero(expected.probabilities).tolist())
    np.testing.assert_allclose(models.frequency, expected.probabilities[numbers], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(models.log_marginal, expected.log_marginals[numbers], rtol=1e-9, atol=1e-9)
    assert (np.diff(models.frequency) <= 0).all()
    assert all(list(members) == sorted(members) for members in models.members)
    return posterior


KNOWN = {
    "plain": {},
    "everything": {
        "n": 24, "columns": 8, "groups": [[0], [1, 2], [3], [4, 6], [5], [7]], "weighted": True, "always": 2,
        "scale": "none", "max_size": 4, "duplicate": True,
    },
    "as many columns as ν": {"n": 6, "columns": 8},
}  # fmt: skip


@pytest.mark.parametrize("engine", ["gram", "columns"])
@pytest.mark.parametrize("variance", [0.3, 40.0])
@pytest.mark.parametrize("situation", KNOWN)
@pytest.mark.parametrize("slab", KNOWN_VARIANCE)
def test_known_variance(slab, situation, variance, engine):
    case = make_paired(slab, known_variance=variance, **KNOWN[situation])
    assert_equals_oracle(case, "beta-binomial", engine=engine)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("slab", SLABS)
def test_every_slab_with_every_model_prior(slab, prior):
    assert_equals_oracle(make_paired(slab), prior)


@pytest.mark.parametrize("slab", ["independent", "g-prior", "hyper-g/n", "local empirical Bayes"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_awkward_problems(slab, situation):
    for prior in PRIORS[1:]:
        assert_equals_oracle(make_paired(slab, **SITUATIONS[situation]), prior)


@pytest.mark.parametrize("slab", ["independent", "g-prior"])
def test_column_engine(slab):
    assert_equals_oracle(make_paired(slab, n=140), "fixed", engine="columns")


def test_one_g_per_variable():
    assert_equals_oracle(make_paired(g=np.geomspace(0.1, 100, 7)), "beta-binomial")


def test_one_variable():
    assert_equals_oracle(make_paired(columns=1), "fixed")


@pytest.mark.parametrize("slab", ["independent", "g-prior"])
def test_duplicates_share_their_probability(slab):
    posterior = assert_equals_oracle(make_paired(slab, duplicate=True), "fixed")
    assert posterior.pip[0] == pytest.approx(posterior.pip[-1], rel=1e-9)
    together = [m for m in posterior.models.members if {0, 6} <= set(m)]
    assert bool(together) == (slab == "independent")


def test_keep_gives_the_best_models_alone():
    case = make_paired()
    whole, part = exact(case.problem()), exact(case.problem(), keep=5)
    assert part.models.members == whole.models.members[:5]
    np.testing.assert_array_equal(part.models.frequency, whole.models.frequency[:5])
    np.testing.assert_array_equal(part.pip, whole.pip)


def test_too_many_models_is_an_error_that_says_what_to_do():
    problem = make_paired(columns=10).problem()
    with pytest.raises(
        TooLargeError,
        match=r"10 variables give 1e\+03 models.*max_models = 1,023.*sample\(problem\).*max_size",
    ):
        exact(problem, max_models=1023)
    assert exact(problem, max_models=1024).iterations == 1024
    wide = make_paired(n=12, columns=60)
    with pytest.raises(TooLargeError, match="60 variables"):
        exact(wide.problem())
    assert exact(wide.problem(max_size=2)).iterations == count_models(60, 2) == 1 + 60 + 60 * 59 // 2


def test_sums_over_a_trie():
    """Inclusion and size sums against a climb from every node to the root."""
    rng = np.random.default_rng(4)
    n, p = 400, 12
    parent, last = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    members: list[list[int]] = [[]]
    for i in range(1, n):
        candidates = [q for q in range(i) if not members[q] or members[q][-1] < p - 1]
        parent[i] = rng.choice(candidates)
        above = members[parent[i]]
        last[i] = rng.integers(above[-1] + 1 if above else 0, p)
        members.append([*above, int(last[i])])
    weight = rng.random(n)
    pip, sizes = np.zeros(p), np.zeros(p + 1)
    trie_marginals(parent, last, weight.copy(), np.zeros(n, np.int32), pip, sizes)
    np.testing.assert_allclose(
        pip, [sum(w for w, m in zip(weight, members) if j in m) for j in range(p)], rtol=1e-12
    )
    np.testing.assert_allclose(
        sizes, np.bincount([len(m) for m in members], weights=weight, minlength=p + 1), rtol=1e-12
    )
