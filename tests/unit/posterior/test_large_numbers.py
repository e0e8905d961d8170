"""Log posteriors of millions, and priors of almost nothing: what comes after the kernels keeps its digits."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

import whichvars as wv
from whichvars.errors import DataError
from whichvars.posterior.models import KeptModels
from whichvars.posterior.reweighting import Draws, change_weights
from whichvars.problem.heredity import given_parents

ROWS = 10_000_000
PARENTS = ((), (), (), (0, 1), (1, 2), (0, 2))


def tall_problem(slab, r2=0.9, h=0.1):
    """Two true variables, each with a near copy, and three others, from the sums of ten million rows."""
    z = 40.0
    likeness = 1 - (1.2 / z) ** 2 / 2
    basis = np.eye(9)
    columns = np.zeros((7, 9))
    columns[0], columns[2] = basis[0], 0.3 * basis[0] + math.sqrt(1 - 0.09) * basis[2]
    for i in (0, 2):
        columns[i + 1] = likeness * columns[i] + math.sqrt(1 - likeness**2) * basis[i + 1]
    columns[4:] = basis[4:7]
    noise = np.array([0.3, 0.9, -0.4, -1.2, 0.8, -0.5, 1.1, 0.0, 0.0]) + math.sqrt(ROWS) * basis[8]
    effects = math.sqrt(r2) * columns[0] + math.sqrt(1 - r2) * z / math.sqrt(ROWS) * columns[2]
    y = effects + math.sqrt((1 - r2) / ROWS) * noise
    y /= np.linalg.norm(y)
    statistics = wv.SufficientStatistics.from_correlations(
        columns @ columns.T, columns @ y, n=ROWS, names=[f"x{i}" for i in range(7)]
    )
    return wv.Problem(statistics, slab=slab, model_prior=wv.FixedInclusion(h=h))


SLABS = [wv.IndependentNormal(), wv.GPrior("n"), wv.HyperG(), wv.LocalEmpiricalBayes(), wv.BIC()]


@pytest.mark.parametrize("slab", SLABS, ids=lambda slab: type(slab).__name__)
@pytest.mark.parametrize("r2", [0.5, 0.99])
def test_exact_weights_sum_to_one_where_log_posteriors_are_millions(slab, r2):
    posterior = wv.exact(tall_problem(slab, r2))
    assert posterior.log_evidence > 1e6
    assert posterior.sizes.sum() == pytest.approx(1, abs=1e-14)
    assert posterior.pip.max() <= 1 + 1e-15
    # what is kept: as much as promised, and nothing without weight
    assert (posterior.kept.weight > 0).all()
    log_posterior = posterior.models.log_posterior
    shares = np.exp(log_posterior - log_posterior.max())
    assert shares[len(posterior.kept) :].sum() <= 1.01e-12 * shares.sum()
    # the table goes on in order where probabilities are too small for a number
    assert (posterior.models.frequency == 0).any()
    assert (np.diff(log_posterior) <= 0).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rows_left_out_where_most_models_have_no_weight(seed):
    # of weights that sum to 1 − 3·10⁻¹², all were kept: models of probability 0, of one size, made NaN of every row
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20_000, 4))
    y = X @ [3.0, 2.0, 0.0, 0.0] + 0.5 * rng.normal(size=len(X))
    posterior = wv.exact(wv.Problem(X, y, slab=wv.GPrior("n")))
    left_out = posterior.loo(X, y)
    assert np.isfinite(left_out.to_numpy()).all()
    # the same where a posterior from elsewhere has them
    kept = posterior.kept
    longer = KeptModels(kept.members, np.append(0, kept.start), np.append(0.0, kept.weight))
    again = dataclasses.replace(posterior, kept=longer).loo(X, y)
    np.testing.assert_allclose(again, left_out, rtol=1e-12)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_another_slab_of_a_far_weaker_shrinkage_gives_numbers():
    # Bayes factors change by e^(10⁶): ratios and frequencies that no number can hold
    posterior = wv.exact(tall_problem(wv.HyperG(), 0.5))
    new = posterior.reweight(slab=wv.GPrior(1.0))
    again = wv.exact(posterior.problem.with_priors(slab=wv.GPrior(1.0)))
    assert again.log_evidence < posterior.log_evidence - 1e5
    np.testing.assert_allclose(new.pip, again.pip, atol=2e-3)
    assert new.log_evidence == pytest.approx(again.log_evidence, abs=4e-3)
    assert new.models.members == again.models.members
    np.testing.assert_allclose(new.models.frequency, again.models.frequency, rtol=4e-3, atol=1e-12)


def test_draws_without_weight_stay_without():
    # one without weight whose ratio is beyond all others': after another reweighting, say
    kept = KeptModels(np.array([0, 1], np.int32), np.array([0, 0, 1, 2]), np.array([0.25, 0.75, 0.0]))
    draws = Draws(kept, np.inf, 0.0)
    new = change_weights(draws, lambda _: np.array([0.0, math.log(2), 5000.0]))
    np.testing.assert_allclose(new.models.weight, [1 / 7, 6 / 7], rtol=1e-14)
    assert new.log_mean_ratio == pytest.approx(math.log(1.75))
    with pytest.raises(DataError, match="any weight left"):
        change_weights(draws, lambda _: np.array([-np.inf, -np.inf, 0.0]))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_bayes_factors_too_large_for_a_number_are_infinite():
    # the prior is for the null model, the evidence, e^1290, for both variables
    statistics = wv.SufficientStatistics.from_correlations(np.eye(2), [0.79, 0.55], n=1000, names=["a", "b"])
    problem = wv.Problem(statistics, slab=wv.BIC(), model_prior=wv.FixedInclusion(h=1e-300))
    table = wv.exact(problem).top_models(4)
    assert table["bayes_factor"].tolist()[:2] == [1.0, math.inf]


# --- priors


@pytest.mark.parametrize("size", [2.0, 1e-2, 1e-6, 1e-9, 1e-12])
def test_rare_variables_under_heredity(size):
    prior = given_parents(wv.BetaBinomial(size=size), PARENTS)
    assert prior.inclusion(6).sum() == pytest.approx(size, rel=1e-11)
    a, b = prior.prior.parameters(6)
    log_odds, log_size, _, terms = prior.kernel_terms()
    assert (log_odds == 0).all()
    for k in range(4):
        for model in itertools.combinations(range(6), k):
            if prior.missing(model):
                continue
            m = sum(set(parents) <= set(model) for parents in PARENTS)
            # B(a + k, b + m − k) / B(a, b), by products
            steps = [math.log(a + i) for i in range(k)] + [math.log(b + i) for i in range(m - k)]
            expected = math.fsum(steps + [-math.log(a + b + i) for i in range(m)])
            value = log_size[k] + terms[m - k, 1] + terms[m, 2]
            assert value == pytest.approx(expected, rel=1e-13, abs=1e-11)
            assert prior.log_prior(model, 6) == pytest.approx(expected, rel=1e-13, abs=1e-7)
