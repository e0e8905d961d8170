"""Degrees of freedom of Student noise against integrals on grids in plain numpy, and averages over them."""

import numpy as np
import pytest
from scipy import special, stats

import whichvars as wv
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.sampling.degrees_of_freedom import VALUES, prior_masses

RNG = np.random.default_rng(5)
N = 20
X = RNG.normal(size=(N, 2))
Y = 3 + 0.6 * X[:, 0] + RNG.standard_t(3, N)
Y[4] += 6
GRID = (3.0, 8.0, 40.0)
MODELS = [(), (0,), (1,), (0, 1)]
PRIOR = wv.FixedInclusion(h=0.4)


def log_integral(df, model):
    """log p(y | model, df): a sum over a grid of the intercept, the coefficients and the log of the scale."""
    k = len(model)
    A = np.column_stack([np.ones(N), (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)])[
        :, [0, *(j + 1 for j in model)]
    ]
    unit = np.median(np.abs(Y - np.median(Y))) / 0.6745
    theta, s = np.linalg.lstsq(A, Y, rcond=None)[0], unit
    for _ in range(200):
        v = (df + 1) / (df + ((Y - A @ theta) / s) ** 2)
        theta = np.linalg.solve(A.T @ (A * v[:, None]), A.T @ (v * Y))
        s = np.sqrt(v @ (Y - A @ theta) ** 2 / N)
    taus, total = np.log(s) + np.linspace(-1.6, 1.5, 45), []
    for tau in taus:
        scale = np.exp(tau)
        side = scale * 1.3 / np.sqrt(N) * np.linspace(-12, 12, {0: 201, 1: 81, 2: 41}[k])
        points = np.stack(np.meshgrid(*[t + side for t in theta], indexing="ij"), -1).reshape(-1, k + 1)
        log = np.full(len(points), N * stats.t.logpdf(0, df, 0, scale))
        for i in range(N):
            log -= (df + 1) / 2 * np.log1p(((Y[i] - points @ A[i]) / scale) ** 2 / df)
        log += stats.norm.logpdf(points[:, 1:], 0, scale).sum(axis=1)  # g = 1
        total.append(special.logsumexp(log) + (k + 1) * np.log(side[1] - side[0]))
    return special.logsumexp(total + stats.norm.logpdf(taus, np.log(unit), 3.0)) + np.log(taus[1] - taus[0])


@pytest.fixture(scope="module")
def found():
    return wv.estimate_df(X, Y, GRID, problem={"model_prior": PRIOR}, progress=False)


def test_against_integrals(found):
    logs = np.array([[log_integral(df, model) for model in MODELS] for df in GRID])
    prior = np.array([0.4 ** len(m) * 0.6 ** (2 - len(m)) for m in MODELS])
    joint = np.log(prior_masses(np.array(GRID)))[:, None] + logs + np.log(prior)
    share = np.exp(joint - special.logsumexp(joint))
    np.testing.assert_allclose(found.table["posterior"], share.sum(axis=1), rtol=0.02)
    assert share.sum(axis=1).max() < 0.95, "more than one value matters"
    pips = [share[:, [j in m for m in MODELS]].sum() for j in range(2)]
    np.testing.assert_allclose(found.inclusion_probabilities, pips, rtol=0.02)
    evidence = special.logsumexp(logs + np.log(prior), axis=1)
    np.testing.assert_allclose(found.table["log_evidence"], evidence - evidence.max(), atol=0.02)


def test_the_prior_is_that_of_a_gamma_distribution():
    masses = prior_masses(np.array(VALUES))
    law = stats.gamma(2, scale=10)
    assert masses.sum() == pytest.approx(1)
    assert masses[2] == pytest.approx((law.cdf(4.5) - law.cdf(3.5)) / law.sf(2))
    assert masses[-1] == pytest.approx(law.sf(75) / law.sf(2))


def test_averages(found):
    w = found.table["posterior"].to_numpy()
    parts = [p.coefficients(interval=None) for p in found.posteriors]
    table = found.coefficients()
    for row in range(3):
        mean = sum(a * p["mean"].iloc[row] for a, p in zip(w, parts))
        square = sum(a * (p["sd"].iloc[row] ** 2 + p["mean"].iloc[row] ** 2) for a, p in zip(w, parts))
        assert table["mean"].iloc[row] == pytest.approx(mean)
        assert table["sd"].iloc[row] == pytest.approx(np.sqrt(square - mean**2))
    mean, std = found.predict(X[:4], return_std=True)
    each = [p.predict(X[:4], return_std=True) for p in found.posteriors]
    np.testing.assert_allclose(mean, sum(a * m for a, (m, _) in zip(w, each)))
    second = sum(a * (s**2 + m**2) for a, (m, s) in zip(w, each))
    np.testing.assert_allclose(std, np.sqrt(second - mean**2))
    np.testing.assert_array_equal(found.predict(X[:4]), mean)
    assert found.best.problem.family.df == found.table["posterior"].idxmax()
    assert f"df = {found.best.problem.family.df:g}" in repr(found)


@pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")
def test_runs_have_errors(found):
    run = wv.estimate_df(
        X,
        Y,
        GRID,
        problem={"model_prior": PRIOR},
        sampler=wv.AddDeleteSwap(),
        draws=2000,
        seed=3,
        progress=False,
    )
    error = np.hypot(run.inclusion_mcse, found.inclusion_mcse)
    assert (error > 0).all()
    assert (np.abs(run.inclusion_probabilities - found.inclusion_probabilities) < 4.5 * error).all()
    both = np.hypot(run.table["mcse"], found.table["mcse"])
    assert (np.abs(run.table["posterior"] - found.table["posterior"]) < 4.5 * both + 1e-9).all()


@pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")
def test_a_run_that_cannot_be_trusted_says_so_first(found):
    assert found.converged
    assert "converged" not in repr(found)
    alone = wv.estimate_df(
        X, Y, GRID, problem={"model_prior": PRIOR}, sampler=wv.AddDeleteSwap(), draws=500, replicates=1, progress=False
    )  # fmt: skip
    assert not alone.converged
    assert repr(alone).startswith("EstimatedDf(not converged for df = ")


@pytest.mark.parametrize(("df", "heavy"), [(3, True), (None, False)])
def test_simulated_noise_is_recognised(df, heavy):
    rng = np.random.default_rng(8)
    columns = rng.normal(size=(400, 2))
    noise = rng.standard_t(df, 400) if df else rng.normal(size=400)
    table = wv.estimate_df(columns, columns[:, 0] + noise, (3, 6, 30, 100), progress=False).table["posterior"]
    assert (table.loc[:6].sum() > 0.95) == heavy
    assert (table.loc[30:].sum() > 0.8) == (not heavy)


def test_what_is_refused():
    for values in ((), (5, 3), [[3, 4]]):
        with pytest.raises(DataError, match="ascending order"):
            wv.estimate_df(X, Y, values)
    with pytest.raises(DataError, match="df must be above 2"):
        wv.estimate_df(X, Y, (1.5, 3))
    with pytest.raises(DataError, match="leave the family out"):
        wv.estimate_df(X, Y, problem={"family": "poisson"})
    with pytest.raises(ArgumentTypeError, match=r"family must be Student\(\)"):
        wv.estimate_df(X, Y, family="student")
    with pytest.raises(DataError, match=r"estimate_df\(X, y\) averages"):
        wv.Student(df="estimate")
