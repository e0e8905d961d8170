"""Test problems as the library and as the oracle are given them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from support import oracle
from support.oracle import OraclePosterior, OracleSlab
from whichvars.problem.model_priors import BetaBinomial, FixedInclusion
from whichvars.problem.priors import (
    BIC,
    GPrior,
    HyperG,
    HyperGN,
    IndependentNormal,
    InverseGamma,
    KnownVariance,
    LocalEmpiricalBayes,
    ZellnerSiow,
)
from whichvars.problem.problem import Problem

SLABS: dict[str, tuple[Any, OracleSlab]] = {
    "independent": (IndependentNormal(2.5), OracleSlab("independent", g=2.5)),
    "g-prior": (GPrior(13.0), OracleSlab("g", g=13.0)),
    "hyper-g": (HyperG(3.5), OracleSlab("hyper-g", a=3.5)),
    "hyper-g/n": (HyperGN(), OracleSlab("hyper-g/n", a=3.0)),
    "zellner-siow": (ZellnerSiow(), OracleSlab("zellner-siow")),
    "local empirical Bayes": (LocalEmpiricalBayes(), OracleSlab("eb-local")),
    "bic": (BIC(), OracleSlab("bic")),
}
KNOWN_VARIANCE = ("independent", "g-prior", "local empirical Bayes", "bic")  # slabs that can do with it
PRIORS = ("fixed", "per variable", "beta-binomial")


def model_priors(name: str, p: int) -> tuple[Any, tuple]:
    """A model prior for p variables: the library's, the oracle's."""
    h = np.linspace(0.15, 0.7, p)
    return {
        "fixed": (FixedInclusion(h=0.3), ("fixed", 0.3)),
        "per variable": (FixedInclusion(h=h), ("fixed", h)),
        "beta-binomial": (BetaBinomial(a=1.0, b=2.5), ("beta-binomial", 1.0, 2.5)),
    }[name]


@dataclass
class Paired:
    """One set of data and priors. `groups` holds the columns of each variable, in the order of the columns."""

    X: np.ndarray
    y: np.ndarray
    slab: Any
    oracle_slab: OracleSlab
    Z: np.ndarray | None = None
    weights: np.ndarray | None = None
    groups: list[list[int]] | None = None
    scale: Any = "unit"
    inverse_gamma: tuple[float, float] | None = None
    known_variance: float | None = None
    max_size: int | None = None

    @property
    def p(self) -> int:
        return self.X.shape[1] if self.groups is None else len(self.groups)

    def problem(self, **settings: Any) -> Problem:
        X = self.X if self.Z is None else np.hstack([self.X, self.Z])
        options: dict[str, Any] = {}
        if self.Z is not None:
            options["always_include"] = list(range(self.X.shape[1], X.shape[1]))
        if self.groups is not None:
            options["groups"] = {f"v{i}": columns for i, columns in enumerate(self.groups)}
        if self.inverse_gamma is not None:
            options["noise"] = InverseGamma(*self.inverse_gamma)
        if self.known_variance is not None:
            options["noise"] = KnownVariance(self.known_variance)
        for name in ("slab", "weights", "scale", "max_size"):
            options[name] = getattr(self, name)
        return Problem(X, self.y, **options | settings)

    @property
    def _oracle_options(self) -> dict[str, Any]:
        names = ("Z", "weights", "groups", "scale", "inverse_gamma", "known_variance")
        return {name: getattr(self, name) for name in names}

    def log_marginal(self, variables: Any) -> float:
        return oracle.log_marginal(
            self.X, self.y, [int(v) for v in variables], self.oracle_slab, **self._oracle_options
        )

    def posterior(self, prior: tuple) -> OraclePosterior:
        return oracle.enumerate_posterior(
            self.X, self.y, self.oracle_slab, prior, max_size=self.max_size, **self._oracle_options
        )


def make_paired(
    slab: str = "independent", n: int = 21, columns: int = 7, seed: int = 0, **parts: Any
) -> Paired:
    """Correlated columns on unequal scales with unequal means, of which a few matter.

    always=q gives q always-included columns, weighted=True weights of which two are zero, duplicate=True a
    last column that is the first one rescaled, g one g per variable of the independent slab.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns)) @ (np.eye(columns) + 0.25 * rng.normal(size=(columns, columns)))
    X = X * np.linspace(0.5, 2.0, columns) + rng.normal(size=columns)
    always, weighted = parts.pop("always", 0), parts.pop("weighted", False)
    if parts.pop("duplicate", False):
        X[:, -1] = 3.0 - 2.0 * X[:, 0]
    y = 2.0 + 0.8 * X[:, 0] - 0.5 * X[:, columns // 2] + rng.normal(size=n)
    if always:
        parts["Z"] = rng.normal(size=(n, always)) + 0.3 * X[:, :1]
        y = y + parts["Z"][:, 0]
    if weighted:
        parts["weights"] = rng.uniform(0.3, 2.0, size=n)
        parts["weights"][[1, n - 2]] = 0.0
    ours, theirs = SLABS[slab]
    if "g" in parts:
        g = parts.pop("g")
        ours, theirs = IndependentNormal(g), OracleSlab("independent", g=np.asarray(g))
    return Paired(X, y, ours, theirs, **parts)
