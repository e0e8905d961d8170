"""Small problems with responses that are not Gaussian, as the oracle and as the package has them, and surrogates good and bad."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import whichvars as wv
from support import family_oracle as oracle
from whichvars.problem.surrogate import null_predictor, with_surrogate_at
from whichvars.samplers.surrogates import scanned


def logistic() -> tuple[oracle.Data, wv.Problem]:
    X, y = oracle.simulate("logistic", 60, 3, 3)
    return (
        oracle.Data("logistic", X, y, ("independent", 1.0), evidence="laplace"),
        wv.Problem(X, y, family="logistic", evidence="laplace", model_prior=wv.FixedInclusion(h=0.4)),
    )


def poisson() -> tuple[oracle.Data, wv.Problem]:
    X, y = oracle.simulate("poisson", 50, 3, 5, effect=0.4)
    return (
        oracle.Data("poisson", X, y, ("g", 50.0), evidence="laplace"),
        wv.Problem(X, y, family="poisson", evidence="laplace", slab=wv.GPrior(50.0), model_prior=wv.FixedInclusion(h=0.4)),
    )  # fmt: skip


def strong_counts() -> tuple[oracle.Data, wv.Problem]:
    """Counts of thousands: two columns that stand in for one another, with log odds of thousands."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 3))
    X[:, 1] = X[:, 0] + 0.002 * rng.normal(size=200)
    y = rng.poisson(np.exp(7.0 + 0.2 * X[:, 0]))
    return (
        oracle.Data("poisson", X, y, ("independent", 1.0), evidence="laplace"),
        wv.Problem(X, y, family="poisson", evidence="laplace", model_prior=wv.FixedInclusion(h=0.4)),
    )


PROBLEMS: dict[str, Callable[[], tuple[oracle.Data, wv.Problem]]] = {
    "logistic": logistic,
    "poisson": poisson,
    "strong counts": strong_counts,
}


def with_reference(problem: wv.Problem, reference: str) -> wv.Problem:
    """The problem as samplers see it that need scans: the surrogate at the reference that is found, at the null model's or at one
    that has nothing to do with the data."""
    if reference == "found":
        return scanned(problem)
    eta = null_predictor(problem)
    if reference == "far off":
        eta = eta + 0.7 * np.random.default_rng(9).normal(size=problem.n)
    return with_surrogate_at(problem, eta)


def log_joint(data: oracle.Data, h: float) -> np.ndarray:
    """Log posterior of all models, unnormalised, variable 0 the lowest bit; by the oracle."""
    p = len(data.groups)  # type: ignore[arg-type]
    out = np.full(1 << p, -np.inf)
    for index in range(1 << p):
        members = [j for j in range(p) if index >> j & 1]
        value = oracle.log_marginal(data, members)
        out[index] = value + len(members) * np.log(h / (1 - h))
    return out
