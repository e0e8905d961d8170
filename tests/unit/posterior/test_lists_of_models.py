"""Log marginal likelihoods of the models of a list: those of the enumeration to the last bit, and of the oracle."""

import numpy as np
import pytest
from scipy import sparse

import whichvars as wv
from support.paired import KNOWN_VARIANCE, SLABS, make_paired
from whichvars.posterior.coefficients import KeptModels
from whichvars.posterior.marginals import log_marginals

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")


def all_models(p: int) -> list[tuple[int, ...]]:
    return [tuple(j for j in range(p) if number >> j & 1) for number in range(1 << p)]


SITUATIONS = {
    "plain": {},
    "duplicate": {"duplicate": True},
    "interleaved groups": {"columns": 6, "groups": [[0, 3], [1], [2, 5], [4]]},
    "groups wider than ν − 1": {"n": 7, "columns": 9, "groups": [[0, 1, 2], [3, 4, 5], [6], [7], [8]]},
    "weights, always included": {"weighted": True, "always": 2},
    "inverse gamma": {"inverse_gamma": (1.3, 0.8)},
    "known variance": {"known_variance": 1.4},
}
CASES = [
    (slab, situation)
    for slab in SLABS
    for situation in SITUATIONS
    if not (slab == "bic" and situation == "inverse gamma")
    and (slab in KNOWN_VARIANCE or situation != "known variance")
]


@pytest.mark.parametrize("engine", ["gram", "columns"])
@pytest.mark.parametrize(("slab", "situation"), CASES)
def test_they_are_those_of_the_enumeration_to_the_last_bit(slab, situation, engine):
    problem = make_paired(slab, **SITUATIONS[situation]).problem(engine=engine)
    models = wv.exact(problem, keep=1 << problem.p).models
    enumerated = dict(zip(models.members, models.log_marginal))
    order = np.random.default_rng(1).permutation(1 << problem.p)
    listed = [all_models(problem.p)[i] for i in order]
    found = log_marginals(problem, KeptModels.listed(listed))
    expected = [enumerated.get(model, -np.inf) for model in listed]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("slab", ["independent", "g-prior", "zellner-siow"])
def test_stored_columns(slab):
    case = make_paired(slab, n=60)
    X = np.round(np.abs(case.X))
    kept = KeptModels.listed(all_models(case.p))
    dense = wv.Problem(X, case.y, slab=case.slab)
    stored = wv.Problem(sparse.csc_array(X), case.y, slab=case.slab, engine="columns")
    np.testing.assert_allclose(log_marginals(stored, kept), log_marginals(dense, kept), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("slab", ["g-prior", "hyper-g", "independent"])
def test_models_near_the_bound_of_rank_stay_in(slab):
    """A model that a sampler met must not lose its likelihood to the rounding of another order of its columns."""
    case = make_paired(slab)
    rng = np.random.default_rng(3)
    noise = rng.normal(size=len(case.y))
    # 1 − R² of the last column given the first is about the share: 3e-11 is below the kernels' 1e-10, and not far
    for share, stays in ((3e-11, True), (1e-13, False)):
        case.X[:, -1] = case.X[:, 0] + np.sqrt(share) * case.X[:, 0].std() * noise / noise.std()
        value = log_marginals(case.problem(), KeptModels.listed([(0, case.p - 1), (0,)]))
        assert np.isfinite(value[0]) == (stays or slab == "independent")
        assert np.isfinite(value[1])


def test_no_models_and_the_null_model():
    problem = make_paired("hyper-g").problem()
    assert log_marginals(problem, KeptModels.listed([])).shape == (0,)
    assert log_marginals(problem, KeptModels.listed([(), ()])).tolist() == [0.0, 0.0]


def test_models_read_from_a_file_may_be_read_only():
    problem = make_paired("g-prior").problem()
    kept = KeptModels.listed([(0, 2), (1,)])
    expected = log_marginals(problem, kept)
    for array in (kept.members, kept.start):
        array.flags.writeable = False
    np.testing.assert_array_equal(log_marginals(problem, kept), expected)
