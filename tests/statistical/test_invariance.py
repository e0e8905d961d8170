"""π P = π, exactly: the whole transition matrix of one iteration on three variables, from the real code.

Where evidence is strong, at log odds of ±2000, π P = π says nothing: nearly all models have no mass that a number could
hold. There log π + log P is compared edge by edge, and log π + log rate for the samplers that move by rates.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from statistical.samplers_under_test import SAMPLERS
from statistical.test_against_enumeration import QUICK_STRONG, STRONG, TIGHT
from support.cases import PRIORS, SLABS, Case, problem, truth
from support.log_rates import UNDERFLOW, check_balance, check_probabilities, subset_rates, table_rates
from support.once import asked_for, once

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
    Case("three", "unknown-g", "fixed"),
    Case("three-duplicate", "unknown-g", "per-variable"),
    Case("three-heredity", "unknown-g", "beta-binomial"),
]

STEEP = [
    Case("strong-three-2000", "independent", "per-variable"),
    Case("strong-three-2000", "hyper-g/n", "fixed"),
    Case("strong-three-2000", "g", "max-size"),
    Case("strong-three-weak-2000", "bic", "beta-binomial"),
    Case("strong-three-duplicate-2000", "independent", "fixed"),
    Case("strong-three-heredity-2000", "eb-local", "fixed"),
]
# scans of this one are of a surrogate; flips by rates are in test_against_enumeration.py
STEEP_BY_SURROGATE = [Case("strong-three-2000", "unknown-g", "fixed")]


def name_of(sampler: str, case: Case) -> str:
    return f"{sampler}={case.id}"


@pytest.fixture(scope="module")
def matrices(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, list]]:
    """{sampler and case: {temperature: matrix}}: those that are asked for, and the first, which one test changes."""
    tests = ("test_target_is_invariant", "test_steep_edges_are_balanced")
    names = {name_of(**parameters) for parameters in asked_for(request, *tests)}
    names.add(name_of(WITH_MATRIX[0], CASES[0]))
    return once(tmp_path_factory, "matrices", lambda: compute_matrices(sorted(names)))


def compute_matrices(names: list[str]) -> dict[str, dict[str, list]]:
    done = subprocess.run(
        [sys.executable, "-m", "support.transition_matrix", *names],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([str(TESTS), *SEARCH])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
@pytest.mark.parametrize("sampler", WITH_MATRIX)
def test_target_is_invariant(sampler: str, case: Case, matrices: dict) -> None:
    for temperature, rows in matrices[name_of(sampler, case)].items():
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


SMALLEST = -700.0  # log of a probability that is a number with all its digits


def unbalanced(P: np.ndarray, log_pi: np.ndarray) -> tuple[float, int]:
    """By how much log π + log P differs at most between the two directions of an edge, and of how many edges both
    directions are numbers. Where only one is, the other must be too small for a number: infinite if not."""
    with np.errstate(divide="ignore"):
        flow = log_pi[:, None] + np.log(P)
    worst, both = 0.0, 0
    for a in range(len(P)):
        for b in range(a):
            there, back = flow[a, b], flow[b, a]
            if min(there - log_pi[b], back - log_pi[a]) > SMALLEST:
                worst, both = max(worst, abs(there - back)), both + 1
                continue
            missing = (
                there - log_pi[b] if back == -np.inf else back - log_pi[a] if there == -np.inf else -np.inf
            )
            if missing > SMALLEST:
                return np.inf, both
    return worst, both


@pytest.mark.parametrize("case", STEEP + STEEP_BY_SURROGATE, ids=lambda c: c.id)
@pytest.mark.parametrize("sampler", WITH_MATRIX)
def test_steep_edges_are_balanced(sampler: str, case: Case, matrices: dict) -> None:
    for temperature, rows in matrices[name_of(sampler, case)].items():
        log_pi = truth(case, temper=float(temperature)).log_joint
        alive = np.array([row is not None for row in rows])
        assert np.array_equal(alive, log_pi > -np.inf), "the models without mass are others than the oracle's"
        P = np.array([row for row in rows if row is not None])
        assert np.all(P[:, ~alive] == 0), "a move to a model without mass"
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=0, atol=1e-14)
        worst, both = unbalanced(P[:, alive], log_pi[alive])
        assert worst < 1e-7, f"inverse temperature {temperature}"
        assert both >= 1, "no edge that could be compared"


def close_to_oracle(case: Case) -> float:
    """How near log rates can be to the oracle's: products of sparse columns are of centred ones, less digits."""
    return 1e-5 if "sparse" in case.data else 1e-6


RATED = [
    *(pytest.param(c, id=c.id) for c in STEEP + QUICK_STRONG["all"]),
    *(
        pytest.param(c, id=f"{c.id}-long", marks=pytest.mark.slow)
        for c in STRONG + TIGHT
        if c not in QUICK_STRONG["all"]
    ),
]


@pytest.mark.parametrize("case", RATED)
def test_log_flows_of_flips_are_the_same_both_ways(case: Case) -> None:
    target, exact = problem(case), truth(case)
    for floor in (0.01, 5.0):
        rates = table_rates(target, exact, floor / target.p)
        alive = np.isfinite(exact.log_joint)
        assert check_balance(rates, exact, floor / target.p, close_to_oracle(case)) > alive.sum()
        check_probabilities(rates, exact, close_to_oracle(case))
        assert rates.relative.any(), "not a case of strong evidence"
        assert not rates.relative[exact.probabilities > 1e-200].any(), "a model that time is spent in"


@pytest.mark.parametrize("case", RATED)
def test_log_flows_of_flips_in_a_subset_are_the_same_both_ways(case: Case) -> None:
    target, exact = problem(case), truth(case)
    p = target.p
    for anchors, drawn in (([], list(range(p))), ([1], [0, 2]), ([0, 2], [1])):
        rates = subset_rates(target, exact, 0.3, anchors, drawn)
        alive = np.isfinite(exact.log_joint)
        assert check_balance(rates, exact, 0.3, close_to_oracle(case)) > alive.sum()
        check_probabilities(rates, exact, close_to_oracle(case))
        assert not rates.relative[exact.probabilities > 1e-200].any(), "a model that time is spent in"


def test_a_wrong_matrix_would_be_seen(matrices: dict) -> None:
    """The check has teeth: moving a thousandth of one row's mass is far beyond its tolerance."""
    case = CASES[0]
    P = np.array(matrices[name_of(WITH_MATRIX[0], case)]["1"])
    pi = truth(case).probabilities
    off = np.flatnonzero((P[0] > 0) & (np.arange(len(P)) > 0))[0]
    P[0, 0], P[0, off] = P[0, 0] + 1e-3 * P[0, off], P[0, off] * (1 - 1e-3)
    assert np.abs(pi @ P - pi).max() > 1e-9


@pytest.mark.parametrize("wrong", [1e-3, 1.0])
def test_a_wrong_rate_would_be_seen(wrong: float) -> None:
    """Of a flip from a model of mass e^−2000, by a thousandth, or so that two stand-ins have the same."""
    case = STEEP[0]
    target, exact = problem(case), truth(case)
    rates = table_rates(target, exact, 0.5)
    model = 0b100  # neither of the stand-ins is in
    other = int(np.argsort(rates.values[model])[-2])  # the worse of them
    assert rates.relative[model]
    assert other in (0, 1)
    assert UNDERFLOW < rates.values[model, other] < -1e-2
    rates.values[model, other] *= 1 - wrong
    with pytest.raises(AssertionError, match="log rates of model"):
        check_balance(rates, exact, 0.5, 1e-6)
