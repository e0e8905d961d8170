"""Problems whose response is not Gaussian, for ``benchmarks.problems``. Sizes, effects, seeds and priors were written down before any
sampler was run on them."""

import math

import numpy as np
import pandas as pd

import whichvars as wv
from whichvars.datasets import Dataset

# of the ten columns with an effect, in units of `effect`
RELATIVE = np.array([1.0, -1.0, 0.9, -0.8, 0.7, -0.6, 0.5, -0.4, 0.3, -0.2])
CORRELATION = 0.5  # of neighbouring columns


def _columns(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    """Standard normal columns, neighbours correlated."""
    X = rng.normal(size=(n, p))
    for j in range(1, p):
        X[:, j] = CORRELATION * X[:, j - 1] + math.sqrt(1 - CORRELATION**2) * X[:, j]
    return X


def _data(X: np.ndarray, effects: np.ndarray, rng: np.random.Generator, note: str) -> Dataset:
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-(X @ effects)))).astype(float)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return Dataset(table, pd.Series(y, name="y"), note, pd.Series(effects, table.columns))


def sparse_data(n: int, p: int, effect: float, seed: int) -> Dataset:
    """Ten effects, the largest ones ± `effect`."""
    rng = np.random.default_rng(seed)
    X, effects = _columns(rng, n, p), np.zeros(p)
    effects[rng.choice(p, len(RELATIVE), replace=False)] = effect * RELATIVE
    return _data(X, effects, rng, "ten effects on log odds")


def sparse(n: int, p: int, effect: float, seed: int) -> wv.Problem:
    X, y = sparse_data(n, p, effect, seed)[:2]
    return wv.Problem(X, y, family="logistic", model_prior=wv.FixedInclusion(size=5))


def diffuse_data() -> Dataset:
    """Thirty effects that 300 rows cannot tell from noise one by one."""
    rng = np.random.default_rng(104)
    X, effects = _columns(rng, 300, 2000), np.zeros(2000)
    effects[rng.choice(2000, 30, replace=False)] = 0.4 * rng.choice([-1.0, 1.0], 30)
    return _data(X, effects, rng, "thirty small effects on log odds")


def diffuse() -> wv.Problem:
    X, y = diffuse_data()[:2]
    return wv.Problem(X, y, family="logistic", model_prior=wv.FixedInclusion(size=10))


def breast_cancer_data() -> Dataset:
    """scikit-learn's copy of the Wisconsin diagnostic data."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    return Dataset(data.data, data.target.rename("benign"), "breast cancer, Wisconsin diagnostic")


def breast_cancer() -> wv.Problem:
    X, y = breast_cancer_data()[:2]
    return wv.Problem(X, y, family="logistic", model_prior=wv.FixedInclusion(h=1 / 6))
