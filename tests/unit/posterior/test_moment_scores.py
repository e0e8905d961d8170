"""Leave-one-out under non-local slabs against fits without the row."""

import numpy as np
import pytest
from scipy import stats

import whichvars as wv
from whichvars.posterior import moment_scores

N = 22
SLABS = [wv.ProductMoment(0.4), wv.ExponentialMoment(0.15)]


def data(columns=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, columns))
    X[:, 1] += 0.8 * X[:, 0]
    y = 2 + 0.7 * X[:, 0] + rng.normal(size=N)
    y[3] += 4  # a row that changes which models are good
    return X, y


def make(X, y, slab, **settings):
    # columns as they are, so that priors do not depend on the rows that are there
    return wv.Problem(X, y, slab=slab, scale="none", **settings)


def log_null(F, y, w, i, variance=None):
    """log p(y_i | other rows) of the model with the flat columns F alone."""
    others = np.delete(np.arange(len(y)), i)
    A, W, t = F[others], w[others], y[others]
    inverse = np.linalg.inv(A.T @ (W[:, None] * A))
    b = inverse @ A.T @ (W * t)
    spread = 1 / w[i] + F[i] @ inverse @ F[i]
    if variance is not None:
        return stats.norm(F[i] @ b, np.sqrt(variance * spread)).logpdf(y[i])
    degrees = len(t) - A.shape[1]
    s = W @ (t - A @ b) ** 2 / degrees
    return stats.t(degrees, F[i] @ b, np.sqrt(s * spread)).logpdf(y[i])


@pytest.mark.parametrize("slab", SLABS, ids=["pmom", "pemom"])
@pytest.mark.parametrize("kind", ["plain", "weights and a covariate", "known variance"])
def test_log_densities_are_ratios_of_evidences(slab, kind):
    X, y = data()
    columns, w, settings = np.ones((N, 1)), np.ones(N), {}
    if kind == "weights and a covariate":
        w = np.random.default_rng(1).uniform(0.5, 2, N)
        columns = np.column_stack([columns, X[:, 2]])
        settings["always_include"] = [2]
    variance = 1.3 if kind == "known variance" else None
    if variance:
        settings["noise"] = wv.KnownVariance(variance)
    whole = wv.exact(make(X, y, slab, weights=w, **settings))
    found = whole.loo(X, y, w)
    for i in (0, 3, 11):
        others = np.delete(np.arange(N), i)
        without = wv.exact(make(X[others], y[others], slab, weights=w[others], **settings))
        ratio = whole.log_evidence - without.log_evidence
        want = log_null(columns, y, w, i, variance) + ratio
        assert found.loc[i, "log_density"] == pytest.approx(want, abs=1e-7)
        # which models are good without the row: effective number of weights with it, beside those without it
        before, after = (dict(zip(p.models.members, p.models.frequency)) for p in (whole, without))
        share = 1 / sum(after[m] ** 2 / before[m] for m in before)
        assert found.loc[i, "share"] == pytest.approx(share, rel=1e-4)
        mean, sd = without.predict(X[[i]], return_std=True)
        assert found.loc[i, "mean"] == pytest.approx(mean[0], abs=0.01 * sd[0])


@pytest.mark.parametrize("slab", SLABS, ids=["pmom", "pemom"])
def test_predictions_and_transforms_are_those_of_simulated_responses(slab):
    """Coefficients and noise are drawn from the normal slab's posterior without the row, and weighted by what the slab multiplies it by."""
    X, y = data(2)
    whole = wv.exact(make(X, y, slab))
    found, draws = whole.loo(X, y), 300_000
    for i in (3, 8):
        others = np.delete(np.arange(N), i)
        without = wv.exact(make(X[others], y[others], slab))
        centre, level = X[others].mean(axis=0), y[others].mean()
        below, mean, second = 0.0, 0.0, 0.0
        for model, weight in zip(without.models.members, without.models.frequency):
            rng, cols = np.random.default_rng([i, len(model)]), list(model)
            E, r = X[others][:, cols] - centre[cols], y[others] - level
            A = E.T @ E + np.eye(len(cols)) / slab.tau
            b = np.linalg.solve(A, E.T @ r)
            noise = (r @ r - b @ E.T @ r) / rng.chisquare(N - 2, draws)
            root = np.linalg.cholesky(np.linalg.inv(A))
            beta = b + np.sqrt(noise)[:, None] * (rng.normal(size=(draws, len(cols))) @ root.T)
            ratio = beta**2 / (slab.tau * noise[:, None])
            factor = np.prod(ratio if isinstance(slab, wv.ProductMoment) else np.exp(-1 / ratio), axis=1)
            factor /= factor.sum()
            location = level + beta @ (X[i, cols] - centre[cols])
            spread = np.sqrt(noise * (1 + 1 / (N - 1)))
            below += weight * float(factor @ stats.norm.cdf((y[i] - location) / spread))
            mean += weight * float(factor @ location)
            second += weight * float(factor @ (location**2 + spread**2))
        sd = np.sqrt(second - mean**2)
        # 128 points: accurate to about one per cent of a standard deviation
        assert found.loc[i, "mean"] == pytest.approx(mean, abs=0.01 * sd)
        assert found.loc[i, "pit"] == pytest.approx(below, abs=0.01)


def test_few_models_stand_for_all(monkeypatch):
    X, y = data(7)
    posterior = wv.exact(make(X, y, wv.ProductMoment()))
    all_models = posterior.loo(X, y)
    monkeypatch.setattr(moment_scores, "MOST_SECONDS", 0.0)
    some = posterior.loo(X, y)
    assert (some["log_density"] != all_models["log_density"]).any()
    np.testing.assert_allclose(some["log_density"], all_models["log_density"], atol=0.1)


def test_the_methods_that_need_it():
    X, y = data(3)
    posterior = wv.exact(make(X, y, wv.ProductMoment()))
    table = posterior.interval_calibration(X, y, levels=0.9)
    assert 0.7 < table["observed"].iloc[0] <= 1
    with pytest.raises(wv.DataError, match="are not those the problem was made with"):
        posterior.loo(X, y + 1e-3 * np.arange(N))
