"""The paper's measure on Boston, and how often runs were at their best models."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import whichvars as wv

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks import boston  # noqa: E402


def test_wmse_of_each_run() -> None:
    truth = np.array([0.5, 0.25, 0.25])
    pips = np.array([[0.5, 0.25, 0.25], [0.7, 0.25, 0.05]])
    np.testing.assert_allclose(boston.wmse(pips, truth), [0.0, 0.5 * 0.04 + 0.25 * 0.04])


def test_shares_of_models_are_those_of_iterations() -> None:
    """Not probabilities by exact weights, which agree between runs that were hardly ever there."""
    data = wv.datasets.load_uscrime()
    problem = wv.Problem(data.X.iloc[:, :5], data.y)
    runs = [
        wv.sample(problem, wv.AddDeleteSwap(), draws=3200, replicates=1, seed=s, progress=False)
        for s in range(3)
    ]
    exact = wv.exact(problem, progress=False)
    for place, model in enumerate(boston.top_two(runs)):
        members = exact.models.members[place]
        assert model["members"] == [j + 1 for j in members]
        value = problem.log_marginal(list(members)) + problem.log_prior(list(members))
        wanted = [float((np.abs(r.trace["log_posterior"] - value) < 1e-6).mean()) for r in runs]
        np.testing.assert_allclose(model["shares"], wanted, atol=1e-9)
        assert np.ptp(model["shares"]) > 0
        assert abs(np.mean(model["shares"]) - exact.models.frequency[place]) < 5 * np.mean(model["errors"])
