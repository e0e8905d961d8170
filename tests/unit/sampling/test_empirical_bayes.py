"""Global empirical Bayes against a maximum found by brute force."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

import whichvars as wv
from support.oracle import all_masks
from whichvars.cli import main
from whichvars.errors import DataError


def data(n=40, p=7, size=0.6, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n, 1))
    return X, size * (X[:, 0] - X[:, 1]) + rng.normal(size=n)


def best_g(X, y, h):
    """By R² of least squares and the formula (1 + g)^((ν − k)/2) (1 + g(1 − R²))^(−ν/2)."""
    r, nu = y - y.mean(), len(y) - 1
    sizes, left = [], []
    for mask in all_masks(X.shape[1]):
        E = X[:, mask] - X[:, mask].mean(axis=0)
        away = r - E @ np.linalg.lstsq(E, r, rcond=None)[0] if mask.any() else r
        sizes.append(mask.sum())
        left.append(away @ away / (r @ r))
    k, left = np.array(sizes), np.array(left)

    def log_evidence(log_g):
        g = np.exp(log_g)
        logs = (nu - k) / 2 * np.log1p(g) - nu / 2 * np.log1p(g * left)
        return logsumexp(logs + k * np.log(h) + (X.shape[1] - k) * np.log1p(-h))

    grid = np.linspace(-3, 12, 301)
    at = grid[np.argmax([log_evidence(v) for v in grid])]
    found = minimize_scalar(
        lambda v: -log_evidence(v), bounds=(at - 0.1, at + 0.1), method="bounded", options={"xatol": 1e-9}
    )
    return float(np.exp(found.x))


@pytest.mark.parametrize(("size", "h"), [(0.6, 0.3), (0.8, 0.5), (3.0, 0.2)])
def test_by_enumeration(size, h):
    X, y = data(size=size)
    slab = wv.global_empirical_bayes(wv.Problem(X, y, model_prior=wv.FixedInclusion(h=h)))
    assert isinstance(slab, wv.GPrior)
    assert slab.g == pytest.approx(best_g(X, y, h), rel=1e-4)


def test_by_runs():
    X, y = data()
    problem = wv.Problem(X, y, model_prior=wv.FixedInclusion(h=0.3))
    found = wv.global_empirical_bayes(problem, sampler=wv.Hybrid(), draws=5000, replicates=4, seed=1)
    assert found.g == pytest.approx(best_g(X, y, 0.3), rel=0.05)
    assert found == wv.global_empirical_bayes(problem, sampler=wv.Hybrid(), draws=5000, replicates=4, seed=1)


def test_short_runs_are_mentioned():
    X, y = data(p=12, size=0.3)
    with pytest.warns(wv.ConvergenceWarning, match="as the runs are too short"):
        wv.global_empirical_bayes(
            wv.Problem(X, y), sampler=wv.AddDeleteSwap(), draws=20, replicates=2, seed=1
        )


def test_words_files_and_what_is_refused(tmp_path):
    X, y = data()
    problem = wv.Problem(X, y)
    posterior = wv.exact(problem.with_priors(slab=wv.global_empirical_bayes(problem)))
    assert "averaged over models (global empirical Bayes)" in posterior.methods()
    assert "george2000" in posterior.bibtex()
    posterior.save(tmp_path / "a.npz")
    assert wv.Posterior.load(tmp_path / "a.npz").problem.slab == posterior.problem.slab
    plain = wv.exact(problem.with_priors(slab=wv.GPrior(posterior.problem.slab.g)))
    np.testing.assert_array_equal(plain.pip, posterior.pip)
    with pytest.raises(DataError, match="is for Gaussian responses"):
        wv.global_empirical_bayes(wv.Problem(X, y > 0, family="logistic"))
    rng = np.random.default_rng(5)
    noise = rng.normal(size=200)
    X = rng.normal(size=(200, 4))
    X -= np.outer(noise - noise.mean(), (noise - noise.mean()) @ (X - X.mean(axis=0))) / noise.var() / 200
    with pytest.raises(DataError, match="do not speak against the null model"):
        wv.global_empirical_bayes(wv.Problem(X, noise))


def test_on_the_command_line(tmp_path):
    X, y = data()
    table = tmp_path / "table.csv"
    pd.DataFrame(X, columns=list("abcdefg")).assign(y=y).to_csv(table, index=False)
    out = ["--out", str(tmp_path / "run"), "--overwrite"]
    arguments = ["fit", str(table), "--response", "y", "--no-report", *out, "--slab"]
    result = CliRunner().invoke(main, [*arguments, "global-empirical-bayes"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    g = wv.global_empirical_bayes(wv.Problem(X, y)).g
    assert f"Under EstimatedG(g={g:.3f}" in result.output
    result = CliRunner().invoke(main, [*arguments, "global-empirical-bayes:3"])
    assert result.exit_code != 0
    assert "takes no number" in " ".join(result.output.split())
    result = CliRunner().invoke(main, [*arguments, "pmom:0.5"], env={"COLUMNS": "200"})
    assert "Under ProductMoment(tau=0.5)" in result.output
