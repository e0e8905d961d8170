"""Normal slabs with given covariances and means against the n × n covariance of the response."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp

import whichvars as wv
from support.cases import Case
from support.kinds import by_kind
from support.oracle import all_masks, log_model_prior
from support.paired import make_paired
from whichvars.errors import ArgumentTypeError, DataError

P = 6
PRIOR, ORACLE = wv.BetaBinomial(a=1.0, b=2.0), ("beta-binomial", 1.0, 2.0)


def covariance(p, seed=1):
    root = np.random.default_rng(seed).normal(size=(p, p)) / np.sqrt(p)
    return root @ root.T + 0.2 * np.eye(p)


MEANS = np.array([0.6, -0.3, 0.0, 0.5, 0.2, -1.0])


def log_marginal(X, y, sigma, means, variance=None, inverse_gamma=(0.0, 0.0), Z=None, weights=None, copies=1):
    """With the covariance I + XΣXᵀ of all rows, of which one row may stand for many."""
    w = copies * (np.ones(len(y)) if weights is None else weights)
    n, root = copies * len(y), np.sqrt(w)
    base = np.ones((len(y), 1)) if Z is None else np.column_stack([np.ones(len(y)), Z])
    centred = X - w @ X / w.sum()
    E = centred / np.sqrt(w @ centred**2 / (w.sum() * (n - 1) / n))
    Q = np.linalg.qr(root[:, None] * base)[0]
    E, r = root[:, None] * E, root * y
    E, r = E - Q @ (Q.T @ E), r - Q @ (Q.T @ r)
    V = np.eye(len(y)) + E @ sigma @ E.T
    away = r - E @ means
    S, S0 = away @ np.linalg.solve(V, away), r @ r
    half = -0.5 * np.linalg.slogdet(V)[1]
    if variance is not None:
        return half + (S0 - S) / (2 * variance)
    a, b = inverse_gamma
    return half - (n - base.shape[1] + 2 * a) / 2 * np.log((S + 2 * b) / (S0 + 2 * b))


def enumerate_posterior(X, y, sigma, means, **options):
    masks = all_masks(X.shape[1])
    logs = np.array(
        [
            log_marginal(X[:, m], y, sigma[np.ix_(m, m)], means[m], **options) if m.any() else 0.0
            for m in masks
        ]
    )
    joint = logs + [log_model_prior(m, X.shape[1], ORACLE) for m in masks]
    evidence = logsumexp(joint)
    return masks, logs, np.exp(joint - evidence) @ masks, evidence


def make(X, y, slab, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.DataWarning)
        return wv.Problem(X, y, slab=slab, model_prior=PRIOR, **settings)


SETTINGS = {
    "jeffreys": ({}, {}),
    "columns": ({"engine": "columns"}, {}),
    "known": ({"noise": wv.KnownVariance(0.8)}, {"variance": 0.8}),
    "inverse gamma": ({"noise": wv.InverseGamma(1.5, 2.0)}, {"inverse_gamma": (1.5, 2.0)}),
}


@pytest.mark.parametrize("means", [None, MEANS], ids=["zero", "means"])
@pytest.mark.parametrize("name", SETTINGS)
def test_enumeration(name, means):
    ours, theirs = SETTINGS[name]
    case, sigma = make_paired("independent", columns=P, n=25), covariance(P)
    problem = make(case.X, case.y, wv.CorrelatedNormal(sigma, means), **ours)
    masks, logs, pips, evidence = enumerate_posterior(
        case.X, case.y, sigma, np.zeros(P) if means is None else means, **theirs
    )
    posterior = wv.exact(problem)
    np.testing.assert_allclose(posterior.pip, pips, rtol=1e-8)
    assert posterior.log_evidence == pytest.approx(evidence, abs=1e-8)
    for i in (0, 1, 5, 38, 63):
        model = np.flatnonzero(masks[i]).tolist()
        assert problem.log_marginal(model) == pytest.approx(logs[i], abs=1e-8)


def test_weights_always_included_columns_and_columns_left_out():
    case, sigma = make_paired("independent", columns=P, n=25, always=2, weighted=True), covariance(P)
    used = case.weights > 0
    _, _, pips, _ = enumerate_posterior(
        case.X[used], case.y[used], sigma, MEANS, Z=case.Z[used], weights=case.weights[used]
    )
    problem = case.problem(slab=wv.CorrelatedNormal(sigma, MEANS), model_prior=PRIOR)
    np.testing.assert_allclose(wv.exact(problem).pip, pips, rtol=1e-8)
    # a constant column in the second place is left out, with its row and its mean
    X = np.insert(case.X, 1, 3.0, axis=1)
    wider = np.insert(np.insert(sigma, 1, 0.0, axis=0), 1, 0.0, axis=1)
    wider[1, 1] = 5.0
    slab = wv.CorrelatedNormal(wider, np.insert(MEANS, 1, 7.0))
    left_out = make(X, case.y, slab, covariates=case.Z, weights=case.weights)
    np.testing.assert_allclose(wv.exact(left_out).pip, pips, rtol=1e-8)
    again = wv.exact(left_out.with_priors(slab=wv.GPrior(20)).with_priors(slab=slab))
    np.testing.assert_allclose(again.pip, pips, rtol=1e-8)


def test_it_contains_the_independent_slab():
    case = make_paired("independent", columns=P, n=25)
    plain = wv.exact(make(case.X, case.y, wv.IndependentNormal(2.0)))
    for slab in (wv.CorrelatedNormal(2.0), wv.CorrelatedNormal(2.0 * np.eye(P), np.zeros(P))):
        same = wv.exact(make(case.X, case.y, slab))
        np.testing.assert_allclose(same.pip, plain.pip, rtol=1e-9)
        np.testing.assert_allclose(
            same.coefficients().to_numpy(float), plain.coefficients().to_numpy(float), rtol=1e-6
        )
        np.testing.assert_allclose(same.predict(case.X), plain.predict(case.X), rtol=1e-8)
        ours, theirs = same.loo(case.X, case.y), plain.loo(case.X, case.y)
        np.testing.assert_allclose(ours.to_numpy(float), theirs.to_numpy(float), rtol=1e-6)


def test_coefficients_and_leaving_one_out_with_means():
    """Against the normal equations, with and without the first row."""
    rng = np.random.default_rng(8)
    X, sigma = rng.normal(size=(30, 2)), np.array([[0.5, 0.2], [0.2, 0.4]])
    y = X @ [0.5, -0.5] + rng.normal(size=30)
    means = np.array([0.8, 0.3])
    problem = make(X, y, wv.CorrelatedNormal(sigma, means), noise=wv.KnownVariance(1.0))
    full = wv.exact(problem).model([0, 1])
    sd = X.std(axis=0, ddof=1)
    E, r = (X - X.mean(axis=0)) / sd, y - y.mean()
    V = np.linalg.inv(E.T @ E + np.linalg.inv(sigma))
    b = V @ (E.T @ r + np.linalg.solve(sigma, means))
    table = full.coefficients()
    np.testing.assert_allclose(table["mean"].to_numpy()[1:3], b / sd, rtol=1e-8)
    np.testing.assert_allclose(table["sd"].to_numpy()[1:3], np.sqrt(np.diag(V)) / sd, rtol=1e-8)
    # p(y_0 | the others), with the columns scaled as they are
    both = np.column_stack([np.ones(30), E])
    P0 = np.zeros((3, 3))
    P0[1:, 1:] = np.linalg.inv(sigma)
    A = both[1:].T @ both[1:] + P0
    centre = np.linalg.solve(A, both[1:].T @ y[1:] + P0 @ np.append(0.0, means))
    mean, variance = both[0] @ centre, 1 + both[0] @ np.linalg.solve(A, both[0])
    left = full.loo(X, y).iloc[0]
    assert left["mean"] == pytest.approx(mean, rel=1e-8)
    want = -0.5 * np.log(2 * np.pi * variance) - (y[0] - mean) ** 2 / (2 * variance)
    assert left["log_density"] == pytest.approx(want, rel=1e-8)


SAMPLERS = [
    wv.AddDeleteSwap(), wv.Lamnisos(), wv.IndividualAdaptation(), wv.ASI(), wv.PARNI(), wv.TemperedGibbs(), wv.SubsetGibbs(subset=3),
    wv.Hybrid(), wv.ParallelTempering(), wv.SequentialMonteCarlo(particles=2000),
]  # fmt: skip


def sampled(name):
    if name == "strong":
        given = Case("strong-stand-ins-3", "independent", "fixed").given
        p = given.X.shape[1]
        sigma, means = covariance(p), 0.2 * np.resize(MEANS, p)
        reference = enumerate_posterior(given.X, given.y, sigma, means, copies=given.copies)
        statistics = wv.SufficientStatistics.from_arrays(given.X, given.y)
        for _ in range(given.copies.bit_length() - 1):
            statistics = statistics + statistics
        return wv.Problem(statistics, slab=wv.CorrelatedNormal(sigma, means), model_prior=PRIOR), reference
    case = make_paired("independent", columns=P, n=25, duplicate=name == "duplicate")
    # strict means in the wrong place, where the surrogate is far off
    sigma, means = (0.05 * covariance(P), 2 * MEANS) if name == "strict" else (covariance(P), MEANS)
    return make(case.X, case.y, wv.CorrelatedNormal(sigma, means)), enumerate_posterior(
        case.X, case.y, sigma, means
    )


@pytest.mark.parametrize("name", ["plain", "duplicate", "strict", "strong"])
@pytest.mark.parametrize("sampler", by_kind(SAMPLERS))
def test_samplers(sampler, name):
    problem, (_, _, pips, _) = sampled(name)
    settings = {} if isinstance(sampler, wv.SequentialMonteCarlo) else {"draws": 20_000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        run = wv.sample(problem, sampler, seed=6, replicates=8, progress=False, **settings)
    told = np.isfinite(run.mcse)
    assert (np.abs(run.pip - pips)[told] < 5 * run.mcse[told] + 1e-3).all(), (run.pip, pips)
    assert np.abs(run.pip - pips)[~told].max(initial=0) < 1e-3
    assert np.nanmax(run.mcse) < 0.06


def test_files_and_words(tmp_path):
    case = make_paired("independent", columns=P, n=25)
    posterior = wv.exact(make(case.X, case.y, wv.CorrelatedNormal(covariance(P), MEANS)))
    posterior.save(tmp_path / "a.npz")
    again = wv.Posterior.load(tmp_path / "a.npz")
    assert again.problem.slab == posterior.problem.slab
    assert str(again.problem.slab) == "CorrelatedNormal(6 columns, with means)"
    assert again.problem.log_marginal([0, 2]) == posterior.problem.log_marginal([0, 2])
    assert "a joint normal prior with given means and a given covariance matrix" in posterior.methods()
    assert "chipman2001" in posterior.bibtex()
    assert (
        "with mean zero and variance 0.5 σ²"
        in wv.exact(make(case.X, case.y, wv.CorrelatedNormal(0.5))).methods()
    )


def test_covariances_and_means_of_models():
    columns = np.array([[0, 2], [5, 1]])
    sigma = covariance(P)
    slab = wv.CorrelatedNormal(sigma, MEANS)
    np.testing.assert_array_equal(slab.among(columns), [sigma[np.ix_(model, model)] for model in columns])
    np.testing.assert_array_equal(slab.means_of(columns), MEANS[columns])
    np.testing.assert_array_equal(slab.variances(P), np.diag(sigma))
    # one number for a billion columns takes the memory of the models that are asked for
    many = wv.CorrelatedNormal(2.0)
    np.testing.assert_array_equal(many.among(np.array([[3, 10**9]])), [2 * np.eye(2)])
    np.testing.assert_array_equal(many.means_of(np.array([[3, 10**9]])), [[0, 0]])
    assert many.variances(3).tolist() == [2, 2, 2]


def test_bad_arguments():
    X, y = make_paired("independent", columns=3).X, make_paired("independent", columns=3).y
    with pytest.raises(ArgumentTypeError, match="square matrix"):
        wv.CorrelatedNormal([[1.0, 2.0]])
    with pytest.raises(DataError, match="symmetric"):
        wv.CorrelatedNormal([[1.0, 0.5], [0.1, 1.0]])
    with pytest.raises(DataError, match="positive definite"):
        wv.CorrelatedNormal([[1.0, 1.0], [1.0, 1.0]])
    with pytest.raises(DataError, match="there are 3 means, but covariance has 2 rows"):
        wv.CorrelatedNormal(np.eye(2), [1.0, 2.0, 3.0])
    with pytest.raises(ArgumentTypeError, match="means must be a list"):
        wv.CorrelatedNormal(1.0, "a")
    with pytest.raises(DataError, match="for 2 columns, but there are 3 candidate columns"):
        wv.Problem(X, y, slab=wv.CorrelatedNormal(np.eye(2)))
    with pytest.raises(DataError, match="is for Gaussian responses"):
        wv.Problem(X, y > 0, family="logistic", slab=wv.CorrelatedNormal(1.0))
