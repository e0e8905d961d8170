"""Logistic regressions on the columns of one table: modes, Hessians and densities against an optimiser and plain formulas."""

import numpy as np
import pytest
from scipy.optimize import minimize

from whichvars.data import logistic
from whichvars.data.logistic import (
    INTERCEPT_PRECISION,
    LOGISTIC_PRECISION,
    NEAR,
    Mode,
    Outcomes,
    Predictors,
    hessian_factor,
    logistic_modes,
)


def table(n: int = 500) -> tuple[Predictors, np.ndarray]:
    """Six columns, of which four are predictors, and the predictors standardised by hand."""
    rng = np.random.default_rng(7)
    columns = rng.normal(size=(n, 6)) * [1, 2, 0.1, 1, 30, 1] + [0, 5, -0.3, 1, 100, 0]
    chosen = np.array([1, 2, 3, 4])
    mean, unit = columns[:, chosen].mean(axis=0), columns[:, chosen].std(axis=0)
    return Predictors(columns, chosen, mean, unit), (columns[:, chosen] - mean) / unit


def hits(Z: np.ndarray) -> np.ndarray:
    """A 0/1 response that depends on the predictors."""
    chance = 1 / (1 + np.exp(0.5 - Z @ [1.0, -0.5, 0.0, 2.0]))
    return (np.random.default_rng(8).random(len(Z)) < chance).astype(int)


def log_density(Z: np.ndarray, x: np.ndarray, beta: np.ndarray) -> float:
    eta = beta[0] + Z @ beta[1:]
    prior = 0.5 * (INTERCEPT_PRECISION * beta[0] ** 2 + LOGISTIC_PRECISION * (beta[1:] ** 2).sum())
    return float(x @ eta - np.logaddexp(0, eta).sum() - prior)


def right_mode(Z: np.ndarray, x: np.ndarray) -> np.ndarray:
    start = np.zeros(1 + Z.shape[1])
    found = minimize(lambda beta: -log_density(Z, x, beta), start, method="BFGS", options={"gtol": 1e-7})
    return np.asarray(found.x)


def check(mode: Mode, Z: np.ndarray, x: np.ndarray) -> None:
    """The mode is right up to a small part of the posterior standard deviation, and so is the density there."""
    away = np.linalg.norm(mode.factor.T @ (mode.beta - right_mode(Z, x)))
    assert away < 5 * NEAR
    assert mode.value == pytest.approx(log_density(Z, x, mode.beta), abs=25 * NEAR**2)


@pytest.mark.parametrize(
    "start", ["nothing", "a mode nearby", "a mode far away", "the mode of other columns"]
)
def test_a_regression_has_the_same_mode_wherever_it_begins(start: str) -> None:
    predictors, Z = table()
    x = hits(Z)
    changed = predictors.columns.copy()
    changed[:10, 2] = changed[-10:, 2]
    other = np.round(changed[:, ::-1]) * [9, 0.1, 1, 1, 1, 1]
    before = {
        "nothing": None,
        "a mode nearby": (changed, x),
        "a mode far away": (predictors.columns, 1 - x),
        "the mode of other columns": (other, x),
    }[start]
    starts = None
    if before is not None:
        columns, response = before
        starts = logistic_modes(
            Predictors(columns, predictors.chosen, predictors.mean, predictors.unit), Outcomes(response, [0])
        )
    (mode,) = logistic_modes(predictors, Outcomes(x, [0]), starts)
    check(mode, Z, x)


@pytest.mark.parametrize("block", [64, 2048])
def test_several_regressions_at_once_are_those_of_their_rows(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each level against the first, in the rows that have one of the two; the rows of group −1 belong to none."""
    monkeypatch.setattr(logistic, "BLOCK", block)
    predictors, Z = table()
    group = np.random.default_rng(9).choice([-1, 0, 1, 2, 3], size=len(Z), p=[0.1, 0.4, 0.3, 0.15, 0.05])
    group[Z[:, 3] > 1] = 2  # an effect
    outcomes = Outcomes(group, [0, 0, 0])
    modes = logistic_modes(predictors, outcomes)
    for k, mode in enumerate(modes):
        two = (group == 0) | (group == k + 1)
        rows, x = Z[two], (group[two] == k + 1).astype(int)
        check(mode, rows, x)
        with_one = np.column_stack([np.ones(len(rows)), rows])
        p = 1 / (1 + np.exp(-with_one @ mode.beta))
        precision = np.diag([INTERCEPT_PRECISION, *[LOGISTIC_PRECISION] * 4])
        factor = hessian_factor(predictors, outcomes, k, mode.beta)
        right = (with_one * (p * (1 - p))[:, None]).T @ with_one + precision
        np.testing.assert_allclose(factor @ factor.T, right, rtol=1e-8, atol=1e-8)


def test_the_same_rows_with_and_without_some_predictors() -> None:
    predictors, Z = table()
    x = hits(Z)
    x[:20] = -1
    both = logistic_modes(predictors, Outcomes(x, (0, 2), shared=True))
    for skipped, mode in zip((0, 2), both):
        rows = Z[20:, skipped:]
        check(mode, rows, x[20:])
    assert both[0].value > both[1].value
    # and again from there, where nothing is left to do
    again = logistic_modes(predictors, Outcomes(x, (0, 2), shared=True), both)
    for one, two in zip(both, again):
        assert np.linalg.norm(one.factor.T @ (one.beta - two.beta)) < 5 * NEAR


def test_groups_that_predictors_separate() -> None:
    """The likelihood has no maximum then, but the posterior density has."""
    predictors, Z = table(80)
    x = (Z[:, 0] > 0).astype(int)
    (mode,) = logistic_modes(predictors, Outcomes(x, [0]))
    check(mode, Z, x)
