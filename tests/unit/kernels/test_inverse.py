"""Proposals evaluated by the inverse of the current model, against the same models factorised from scratch and against dense algebra."""

import numpy as np
import pytest

import whichvars as wv
from support.kernels import accept_proposal, evaluate_again, log_marginal_of, propose_flips
from whichvars._kernels.chain import (
    COLUMNS,
    LOG_MARGINAL,
    NEEDED,
    NEW_LOG_MARGINAL,
    ONLY_PRODUCTS,
    SIZE,
    TAIL,
    grow,
    new_chain,
)
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.evaluate import FEWEST_COLUMNS
from whichvars._kernels.inverse import BLOCK, CURRENT, MADE, ROWS, STATE, UPDATES

SLABS = {
    "independent": wv.IndependentNormal(3.0),
    "g": wv.GPrior(),
    "bic": wv.BIC(),
    "eb": wv.LocalEmpiricalBayes(),
    "zs": wv.ZellnerSiow(),
}


def data(n=60, columns=24, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    X[:, 1:] += 0.6 * X[:, :-1]
    return X, X[:, :6].sum(axis=1) + rng.normal(size=n)


def walk(problem, steps, most=5, memo_slots=0, seed=1, accept=0.5):
    """Random proposals of up to `most` flips, some of them accepted; for each the log marginal likelihood, the model, and whether it came
    by the inverse. The chain is handed over after each step."""
    rng = np.random.default_rng(seed)
    chain, memo = new_chain(problem.target(2), 2), new_memo(memo_slots)
    for _ in range(steps):
        members = set(chain.order[: chain.ints[SIZE]].tolist())
        flips = rng.permutation(problem.p)[: rng.integers(1, most + 1)]
        ratio = propose_flips(problem.target(len(chain.slot)), chain, memo, flips)
        if chain.ints[NEEDED]:
            chain = grow(chain, int(chain.ints[NEEDED]))
            ratio = evaluate_again(problem.target(len(chain.slot)), chain, memo)
        proposed = sorted(members ^ set(flips.tolist()))
        by_inverse = chain.ints[TAIL] == ONLY_PRODUCTS
        yield chain, proposed, float(chain.floats[NEW_LOG_MARGINAL]), bool(by_inverse)
        if ratio > -np.inf and rng.random() < accept:
            accept_proposal(problem.target(len(chain.slot)), chain)


@pytest.mark.parametrize("slab", SLABS)
@pytest.mark.parametrize("layout", ["single", "groups", "columns"])
def test_values_are_those_of_the_factor(slab, layout):
    X, y = data()
    options = {"groups": np.repeat(np.arange(12), 2)} if layout == "groups" else {}
    if layout == "columns":
        options = {"engine": "columns"}
    problem = wv.Problem(X, y, slab=SLABS[slab], **options)
    used = 0
    for _, proposed, value, by_inverse in walk(problem, 300):
        assert value == pytest.approx(log_marginal_of(problem, proposed), abs=1e-9)
        used += by_inverse
    assert used > 150


def test_the_matrix_is_the_inverse():
    X, y = data()
    problem = wv.Problem(X, y, slab=wv.IndependentNormal(2.0))
    design, ridge = problem.target(0).design, problem.target(0).slab.ridge
    gram = np.array(design.gram)
    looked_at = 0
    for chain, _, _, _ in walk(problem, 200, most=3):
        n = int(chain.ints[COLUMNS])
        if chain.inverse.ints[STATE] == CURRENT and n >= FEWEST_COLUMNS:
            columns = chain.column[:n]
            assert chain.inverse.ints[ROWS] == n
            np.testing.assert_array_equal(chain.inverse.column[:n], columns)
            dense = np.linalg.inv(gram[np.ix_(columns, columns)] + np.diag(ridge[columns]))
            np.testing.assert_allclose(chain.inverse.matrix[:n, :n], dense, atol=1e-12)
            np.testing.assert_allclose(chain.inverse.solved[:n], dense @ design.xty[columns], atol=1e-10)
            looked_at += 1
    assert looked_at > 100


def test_it_is_made_anew_after_so_many_updates():
    X, y = data()
    problem = wv.Problem(X, y, slab=wv.IndependentNormal(2.0))
    made = [int(chain.inverse.ints[MADE]) for chain, *_ in walk(problem, 1500, most=2, accept=0.9)]
    assert max(made) <= UPDATES
    assert np.count_nonzero(np.diff(made) < -UPDATES // 2) >= 3


def test_values_do_not_depend_on_the_memo():
    """A model that is entered on a remembered value leaves the inverse behind."""
    X, y = data(columns=10)
    problem = wv.Problem(X, y)
    for _, proposed, value, _ in walk(problem, 2000, most=2, memo_slots=256):
        assert value == pytest.approx(log_marginal_of(problem, proposed), abs=1e-9)


@pytest.mark.parametrize("slab", ["independent", "g", "zs"])
@pytest.mark.parametrize("noise", [1e-2, 1e-3, 1e-4, 1e-6])
def test_nearly_collinear_columns(slab, noise):
    """Where updates would lose digits, proposals are factorised: errors stay below what anybody could see in a run."""
    rng = np.random.default_rng(3)
    X, y = data(n=200, columns=12)
    X = np.hstack([X, X + noise * rng.normal(size=X.shape)])
    problem = wv.Problem(X, y, slab=SLABS[slab])
    for _, proposed, value, _ in walk(problem, 300):
        expected = log_marginal_of(problem, proposed)
        assert value == expected or value == pytest.approx(expected, abs=1e-5)


def test_strong_evidence_by_ten_million_rows():
    """t-values of hundreds: an error of a digit in what is explained would be one of thousands here."""
    rng = np.random.default_rng(5)
    n, p = 10_000_000, 14
    A = rng.normal(size=(40, p))
    covariance = A.T @ A / 40 + 1e-4 * np.eye(p)
    covariance[:, 1] = covariance[1, :] = covariance[:, 0]
    covariance[1, 1] = covariance[0, 0] + 1e-5
    effects = np.zeros(p)
    effects[:8] = 0.3
    scale = np.sqrt(np.diag(covariance))
    with_y = covariance @ effects
    y_scale = np.sqrt(effects @ with_y + 1.0)
    statistics = wv.SufficientStatistics.from_correlations(
        covariance / np.outer(scale, scale), with_y / (scale * y_scale), n=n
    )
    problem = wv.Problem(statistics, slab=wv.GPrior())
    for _, proposed, value, _ in walk(problem, 300, most=3):
        expected = log_marginal_of(problem, proposed)
        assert value == pytest.approx(expected, abs=1e-5, rel=1e-11)


def test_proposals_of_many_columns_are_factorised():
    X, y = data(n=100, columns=40)
    problem = wv.Problem(X, y)
    large = [
        by_inverse
        for chain, proposed, _, by_inverse in walk(problem, 200, most=30)
        if len(set(proposed) - set(chain.order[: chain.ints[SIZE]].tolist())) > BLOCK
    ]
    assert large
    assert not any(large)


def test_a_chain_stays_where_it_is_when_it_grows():
    X, y = data()
    problem = wv.Problem(X, y)
    *_, (chain, _, _, _) = walk(problem, 100, most=3)
    members = chain.order[: chain.ints[SIZE]].tolist()
    larger = grow(chain, 2 * len(chain.slot))
    flips = np.array([j for j in range(problem.p) if j not in members][:1])
    propose_flips(problem.target(len(larger.slot)), larger, new_memo(0), flips)
    expected = log_marginal_of(problem, sorted({*members, *flips.tolist()}))
    assert larger.floats[NEW_LOG_MARGINAL] == pytest.approx(expected, abs=1e-9)
    assert larger.floats[LOG_MARGINAL] == chain.floats[LOG_MARGINAL]


@pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")
def test_fifty_collinear_columns():
    """Three directions and hardly anything else in sixty columns, of which a model has fifty: two samplers agree."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)) @ rng.normal(size=(3, 60)) + 1e-3 * rng.normal(size=(120, 60))
    y = X[:, :5].sum(axis=1) + rng.normal(size=120)
    problem = wv.Problem(X, y, slab=wv.IndependentNormal(1.0), model_prior=wv.FixedInclusion(0.85))
    a, b = (
        wv.sample(problem, sampler, draws=draws, seed=draws, progress=False)
        for sampler, draws in ((wv.Hybrid(), 20_000), (wv.AddDeleteSwap(), 100_000))
    )
    scores = (a.pip - b.pip) / np.hypot(a.mcse, b.mcse)
    assert np.abs(scores).max() < 5
    assert np.sqrt(np.mean(scores**2)) < 1.4
    assert a.mean_size > 45
