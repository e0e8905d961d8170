"""π P = π, exactly: the whole transition matrix of one iteration on three variables, from the real code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from statistical.samplers_under_test import SAMPLERS
from support.cases import PRIORS, SLABS, Case, truth

TESTS = Path(__file__).resolve().parent.parent
SEARCH = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
WITH_MATRIX = [name for name, tested in SAMPLERS.items() if tested.one_step is not None]
CASES = [
    *(Case("three", slab, "fixed") for slab in SLABS),
    *(Case("three", "independent", prior) for prior in PRIORS if prior != "fixed"),
    Case("three", "g", "max-size"),
    Case("three-duplicate", "g", "per-variable"),  # models that hold both have no mass
    Case("three-duplicate", "independent", "per-variable"),
    *(Case("three-heredity", "independent", prior) for prior in PRIORS),
    Case("three-heredity", "g", "beta-binomial"),
]


@cache
def matrices(sampler: str) -> dict[str, dict[str, list]]:
    temperatures = SAMPLERS[sampler].temperatures if SAMPLERS[sampler].tempers else (1.0,)
    done = subprocess.run(
        [sys.executable, "-m", "support.transition_matrix", sampler, *(c.id for c in CASES), "--temperatures"]
        + [f"{t:g}" for t in temperatures],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([str(TESTS), *SEARCH])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
@pytest.mark.parametrize("sampler", WITH_MATRIX)
def test_target_is_invariant(sampler: str, case: Case) -> None:
    for temperature, rows in matrices(sampler)[case.id].items():
        pi = truth(case, temper=float(temperature)).probabilities
        alive = np.array([row is not None for row in rows])
        assert np.array_equal(alive, pi > 0), "the models without mass are others than the oracle's"
        P = np.array([row for row in rows if row is not None])
        assert np.all(P >= 0)
        assert np.all(P[:, ~alive] == 0), "a move to a model without mass"
        P, pi = P[:, alive], pi[alive]
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=0, atol=1e-14)
        np.testing.assert_allclose(
            pi @ P, pi, rtol=0, atol=1e-12, err_msg=f"inverse temperature {temperature}"
        )
        reached = np.linalg.matrix_power(np.eye(len(P)) + P, len(P)) > 0
        assert reached.all(), "some models cannot be reached from others"


def test_a_wrong_matrix_would_be_seen() -> None:
    """The check has teeth: moving a thousandth of one row's mass is far beyond its tolerance."""
    case = CASES[0]
    P = np.array(matrices(WITH_MATRIX[0])[case.id]["1"])
    pi = truth(case).probabilities
    off = np.flatnonzero((P[0] > 0) & (np.arange(len(P)) > 0))[0]
    P[0, 0], P[0, off] = P[0, 0] + 1e-3 * P[0, off], P[0, off] * (1 - 1e-3)
    assert np.abs(pi @ P - pi).max() > 1e-9
