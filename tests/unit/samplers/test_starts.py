"""Where chains start."""

from __future__ import annotations

import numpy as np
from scipy.linalg import hadamard

import whichvars as wv
from whichvars.samplers.starts import screening_draw


def test_a_response_that_no_variable_explains_at_all() -> None:
    """Columns of a Hadamard matrix are orthogonal to the last bit, so that there is nothing to screen by."""
    columns = hadamard(32).astype(float)
    problem = wv.Problem(columns[:, 1:28], columns[:, 31], model_prior=wv.FixedInclusion(h=0.5), scale="none")
    assert not problem.target(0).design.xty.any()
    rng = np.random.default_rng(1)
    sizes = [len(screening_draw(problem, rng)) for _ in range(200)]
    assert abs(np.mean(sizes) - 13.5) < 5 * np.std(sizes) / np.sqrt(200)  # draws from the prior
    posterior = wv.sample(problem, draws=2000, seed=1, progress=False)
    assert posterior.pip.max() < 0.5
    np.testing.assert_allclose(posterior.pip, posterior.pip.mean(), atol=5 * posterior.mcse.max())
