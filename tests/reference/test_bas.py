"""Numbers of R's package BAS (bas.glm), by its own formula, and ours of the same data by importance sampling.

BAS was run on MASS's data: columns in their order, Beta-binomial(1, 1) prior on models unless it says uniform. Its numbers are known
to five digits, log marginal likelihoods to four decimals.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import whichvars as wv

DATA = Path(__file__).parent / "data"
BETA_BINOMIAL, UNIFORM = wv.BetaBinomial(1, 1), wv.FixedInclusion(h=0.5)


def pima(rows):
    table = pd.read_csv(DATA / "pima.csv")
    if rows == 200:
        table = table[table["part"] == "tr"]
    return table.drop(columns=["part", "type"]), table["type"]


def quine():
    table = pd.read_csv(DATA / "quine.csv")
    columns = {
        "EthN": table["Eth"] == "N", "SexM": table["Sex"] == "M", "AgeF1": table["Age"] == "F1",
        "AgeF2": table["Age"] == "F2", "AgeF3": table["Age"] == "F3", "LrnSL": table["Lrn"] == "SL",
    }  # fmt: skip
    return pd.DataFrame(columns).astype(float), table["Days"]


def log_marginal_of_bas(posterior):
    """BAS's log marginal likelihood of the best model: with all constants and (2π)^½ of the intercept, in whose own units it is."""
    problem = posterior.problem
    unit = (
        np.log(np.abs(problem.fit_data.coordinates[0, 0]))
        if problem.slab != wv.BIC()
        else -0.5 * np.log(2 * np.pi)
    )
    value = problem.null_log_marginal + posterior.models.log_marginal[0] + problem.fit_data.constant
    return value + 0.5 * np.log(2 * np.pi) + unit


CASES = {
    "Pima.tr, g = 200": (
        pima(200), "logistic", wv.GPrior(200), BETA_BINOMIAL,
        [0.46254, 0.99999, 0.11110, 0.16213, 0.64247, 0.81751, 0.68929], (1, 4, 5, 6), 0.18245, -102.0312,
    ),
    "Pima.tr, CCH(1, 266, 0)": (
        pima(200), "logistic", wv.CCH(1, 266), BETA_BINOMIAL,
        [0.56844, 0.99999, 0.21987, 0.26539, 0.74250, 0.88610, 0.74600], (1, 4, 5, 6), None, -101.7878,
    ),
    "Pima.tr, BIC": (
        pima(200), "logistic", wv.BIC(), UNIFORM,
        [0.42611, 0.99999, 0.07073, 0.12647, 0.61699, 0.81052, 0.67184], (1, 4, 5, 6), None, -101.1374,
    ),
    "Pima, g = 532": (
        pima(532), "logistic", wv.GPrior(532), UNIFORM,
        [0.93894, 1, 0.04548, 0.05082, 0.99707, 0.98461, 0.23051], (0, 1, 4, 5), 0.68976, -249.0640,
    ),
    "quine, g = 146": (
        quine(), "poisson", wv.GPrior(146), BETA_BINOMIAL,
        [1, 0.99842, 0.99997, 0.99965, 1, 1], (0, 1, 2, 3, 4, 5), None, -1161.762,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_numbers_of_bas(case):
    (X, y), family, slab, prior, pips, best, probability, log_marginal = CASES[case]
    posterior = wv.exact(
        wv.Problem(X, y, family=family, slab=slab, model_prior=prior, evidence="bas"), progress=False
    )
    np.testing.assert_allclose(posterior.pip, pips, rtol=0, atol=6e-6)
    assert posterior.models.members[0] == best
    assert log_marginal_of_bas(posterior) == pytest.approx(
        log_marginal, abs=6e-4 if family == "poisson" else 6e-5
    )
    if probability is not None:
        assert posterior.models.frequency[0] == pytest.approx(probability, abs=6e-6)


# by importance sampling with 2,048 points, to about .001
OURS = {
    "Pima.tr, g = 200": (
        pima(200), "logistic", wv.GPrior(200), BETA_BINOMIAL, [0.4933, 1, 0.1482, 0.2013, 0.6946, 0.8590, 0.7138],
    ),
    "Pima.tr, N(0, 1)": (
        pima(200), "logistic", wv.IndependentNormal(1), BETA_BINOMIAL, [0.7043, 1, 0.3890, 0.4546, 0.8556, 0.9454, 0.8517],
    ),
    "Pima, g = 532": (
        pima(532), "logistic", wv.GPrior(532), UNIFORM, [0.9428, 1, 0.0556, 0.0620, 0.9973, 0.9884, 0.2485],
    ),
    "Pima, N(0, 1)": (
        pima(532), "logistic", wv.IndependentNormal(1), BETA_BINOMIAL, [0.9707, 1, 0.3407, 0.3715, 0.9984, 0.9965, 0.6860],
    ),
    "quine, negative binomial": (
        quine(), wv.NegativeBinomial(1.3), wv.GPrior(146), BETA_BINOMIAL, [0.9702, 0.0872, 0.8329, 0.1013, 0.1368, 0.1361],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OURS)
@pytest.mark.parametrize("evidence", ["auto", "importance"])
def test_our_own_evidence(case, evidence):
    (X, y), family, slab, prior, pips = OURS[case]
    posterior = wv.exact(
        wv.Problem(X, y, family=family, slab=slab, model_prior=prior, evidence=evidence), progress=False
    )
    np.testing.assert_allclose(posterior.pip, pips, rtol=0, atol=0.0025)
