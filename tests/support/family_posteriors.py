"""Small posteriors of responses that are not Gaussian, and what plain numpy says of them."""

import numpy as np
import pandas as pd
from scipy import optimize, special

import whichvars as wv
from support import family_oracle as oracle

FAMILIES = ("logistic", "probit", "poisson", "negative-binomial")
R = 1.5
INVERSE = {"logistic": special.expit, "probit": special.ndtr, "poisson": np.exp, "negative-binomial": np.exp}


def case(name, slab, **others):
    """A posterior, the same data for the oracle, and all models with their weights."""
    X, y = oracle.simulate(name, 50, 4, 2)
    X = X * [1.0, 10.0, 0.1, 1.0] + [3.0, 0.0, -1.0, 100.0]
    frame = pd.DataFrame(X, columns=list("abcz"))
    family = wv.NegativeBinomial(R) if name == "negative-binomial" else name
    problem = wv.Problem(frame, y, family=family, slab=slab, always_include=["z"], **others)
    kinds = {wv.IndependentNormal: ("independent", 2.0), wv.GPrior: ("g", 50.0), wv.BIC: ("bic",)}
    data = oracle.Data(name, X[:, :3], y, kinds[type(slab)], Z=X[:, 3:], r=R, offset=others.get("offset"))
    return frame, y, wv.exact(problem, progress=False), data


def components(posterior, data, rows):
    """Weights, means and variances of linear functions of (intercept, z, x) over models; rows (R, 5) in the user's units."""
    kept, means, variances = posterior.kept, [], []
    spread = data.X.std(axis=0, ddof=1)
    centre = data.X.mean(axis=0)
    for i in range(len(kept)):
        model = list(kept.model(i))
        J, P = data.model(model)
        theta = oracle.mode(data, J, P)
        H = (J * -data.derivatives(data.offset + J @ theta)[2][:, None]).T @ J + P
        x = rows[:, 2:][:, model]
        # the oracle's columns are (x − centre)/spread; the functionals are of raw columns
        x = (x - np.outer(rows[:, 0], centre[model])) / spread[model]
        L = np.column_stack([rows[:, 0], rows[:, 1], x])
        means.append(L @ theta)
        variances.append(np.einsum("ra,ab,rb->r", L, np.linalg.inv(H), L))
    return kept.weight, np.array(means), np.array(variances)


def quantile(weight, mean, variance, level, atom=0.0):
    def below(x):
        return weight @ special.ndtr((x - mean) / np.sqrt(variance)) + atom * (x >= 0) - level

    if below(0.0) >= 0 > below(-1e-12):
        return 0.0
    return optimize.brentq(below, -500, 500, xtol=1e-12)
