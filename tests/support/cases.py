"""Small problems with a known answer: each is built once for the package and once for the oracle."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
import scipy.sparse

import whichvars as wv
from support.oracle import OraclePosterior, OracleSlab, enumerate_posterior
from support.strong import is_strong, strong_data

# name: the package's slab, the oracle's
SLABS: dict[str, tuple[Any, OracleSlab]] = {
    "independent": (wv.IndependentNormal(g=2.0), OracleSlab("independent", g=2.0)),
    "g": (wv.GPrior(20.0), OracleSlab("g", g=20.0)),
    "hyper-g": (wv.HyperG(), OracleSlab("hyper-g")),
    "hyper-g/n": (wv.HyperGN(a=3.5), OracleSlab("hyper-g/n", a=3.5)),
    "zellner-siow": (wv.ZellnerSiow(), OracleSlab("zellner-siow")),
    "eb-local": (wv.LocalEmpiricalBayes(), OracleSlab("eb-local")),
    "bic": (wv.BIC(), OracleSlab("bic")),
}
# Slabs of which not every combination with other settings is tried. For the first, models are evaluated one by one; the others are tables like
# those of hyper-g
OTHER_SLABS: dict[str, tuple[Any, OracleSlab]] = {
    "unknown-g": (wv.IndependentNormal("estimate"), OracleSlab("unknown-g")),
    "robust": (wv.Robust(), OracleSlab("robust")),
    "intrinsic": (wv.Intrinsic(), OracleSlab("intrinsic")),
    "beta-prime": (wv.BetaPrime(), OracleSlab("beta-prime")),
    "cch": (wv.CCH(1.5, 12.0, 2.0), OracleSlab("cch", cch=(1.5, 12.0, 2.0))),
    "jzs": (wv.ZellnerSiow(r=0.4), OracleSlab("zellner-siow", r=0.4)),
}
ALL_SLABS = SLABS | OTHER_SLABS


def _several(p: int) -> list[float]:
    return np.linspace(0.15, 0.7, p).tolist()


def priors(p: int) -> dict[str, tuple[Any, tuple, int | None]]:
    """name: the package's model prior, the oracle's, max_size."""
    return {
        "fixed": (wv.FixedInclusion(h=0.4), ("fixed", 0.4), None),
        "per-variable": (wv.FixedInclusion(h=_several(p)), ("fixed", np.array(_several(p))), None),
        "beta-binomial": (wv.BetaBinomial(a=1.0, b=2.0), ("beta-binomial", 1.0, 2.0), None),
        "max-size": (wv.FixedInclusion(h=0.5), ("fixed", 0.5), max(2, p // 2 - 1)),
        "beta-binomial-max-size": (
            wv.BetaBinomial(size=p / 3),
            ("beta-binomial", 1.0, (p - p / 3) / (p / 3)),
            max(2, p // 2),
        ),
    }


PRIORS = tuple(priors(4))


@dataclass(frozen=True, eq=False)
class Data:
    """What ``Problem`` is given, and the same in the oracle's words: columns of X, of Z, and groups of them."""

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray | None = None
    groups: list[list[int]] | None = None
    weights: np.ndarray | None = None
    inverse_gamma: tuple[float, float] | None = None
    known_variance: float | None = None
    parents: tuple[tuple[int, ...], ...] | None = None  # of each variable
    options: dict[str, Any] = field(default_factory=dict)  # more arguments of Problem
    copies: int = 1  # of every row: a power of two
    form: Literal["rows", "statistics", "sparse", "mapped"] = "rows"  # in which the package is given X

    @property
    def p(self) -> int:
        return self.X.shape[1] if self.groups is None else len(self.groups)


def _columns(rng: np.random.Generator, n: int, p: int, common: float = 0.7) -> np.ndarray:
    return rng.normal(size=(n, p)) + common * rng.normal(size=(n, 1))


def _response(rng: np.random.Generator, X: np.ndarray, size: float = 0.35) -> np.ndarray:
    effects = np.zeros(X.shape[1])
    effects[: max(2, X.shape[1] // 2)] = size
    effects[1::2] *= -1
    return 3.0 + X @ effects + rng.normal(size=len(X))


@cache
def data(name: str) -> Data:
    """The data sets of the tests, by name."""
    rng = np.random.default_rng(20260 + sum(map(ord, name)))
    if name == "three":
        X = _columns(rng, 12, 3)
        return Data(X, _response(rng, X, 0.4))
    if name == "three-duplicate":
        X = _columns(rng, 12, 3)
        X[:, 2] = -2.0 * X[:, 0]
        return Data(X, _response(rng, X, 0.4))
    if name == "plain":
        X = _columns(rng, 30, 7)
        return Data(X, _response(rng, X))
    if name == "duplicate":
        X = _columns(rng, 30, 7)
        X[:, 5] = 1.0 - 2.0 * X[:, 0]
        return Data(X, _response(rng, X))
    if name == "always":
        X = _columns(rng, 26, 6)
        Z = rng.normal(size=(26, 2)) + X[:, :2]
        return Data(X, _response(rng, X) + Z @ [1.0, -0.5], Z=Z)
    if name == "weights":
        X = _columns(rng, 30, 6)
        weights = rng.uniform(0.2, 4.0, size=30)
        weights[[3, 17, 18]] = 0.0
        return Data(X, _response(rng, X), weights=weights)
    if name == "groups":  # factors of three, two and four dummies among single columns
        n, widths = 40, [1, 3, 1, 2, 4, 1]
        blocks = []
        for width in widths:
            level = rng.permutation(np.arange(n) % (width + 1))
            blocks.append(
                (level[:, None] == np.arange(1, width + 1)).astype(float)
                if width > 1
                else rng.normal(size=(n, 1))
            )
        X = np.hstack(blocks)
        ends = np.cumsum(widths)
        return Data(
            X,
            _response(rng, X, 0.5),
            groups=[list(range(end - width, end)) for end, width in zip(ends, widths)],
        )
    if name == "wide":  # p > n: under the R² family at most ν − 1 = 5 columns
        X = _columns(rng, 7, 9, common=0.4)
        return Data(X, _response(rng, X, 0.6))
    if name == "inverse-gamma":
        X = _columns(rng, 20, 6)
        return Data(X, _response(rng, X), inverse_gamma=(1.5, 2.0))
    if name == "known-variance":
        X = _columns(rng, 20, 7)
        return Data(X, _response(rng, X), known_variance=1.3, weights=rng.uniform(0.5, 2.0, size=20))
    if name == "growing":  # groups of six columns: more than a chain has room for at first
        n, p, width = 90, 8, 6
        X = rng.normal(size=(n, p * width))
        y = X[:, ::width] @ np.full(p, 0.4) + rng.normal(size=n)
        return Data(X, y, groups=[list(range(j * width, (j + 1) * width)) for j in range(p)])
    if name == "columns":  # the column engine, long enough for its cache of Gram columns
        X = _columns(rng, 140, 9)
        return Data(X, _response(rng, X, 0.15), options={"engine": "columns"})
    if name == "unscaled":
        X = _columns(rng, 24, 6) * [0.3, 1.0, 3.0, 1.0, 0.5, 2.0]
        return Data(X, _response(rng, X, 0.3), options={"scale": "none"})
    if name == "three-heredity":  # the interaction stands before its parents
        X = _columns(rng, 12, 3)
        X[:, 0] = X[:, 1] * X[:, 2]
        return Data(X, _response(rng, X, 0.4), parents=((1, 2), (), ()))
    if name == "heredity":  # b:c, a, b, c, a:b, a²:b, a², and d alone
        a, b, c, d = _columns(rng, 30, 4, common=0.3).T
        X = np.column_stack([b * c, a, b, c, a * b, a**2 * b, a**2, d])
        y = 0.3 * a - 0.8 * b + 0.2 * c + 0.4 * a * b + 0.1 * b * c + rng.normal(size=30)
        return Data(X, y, parents=((2, 3), (), (), (), (1, 2), (4,), (1,), ()))
    if name == "heredity-groups":  # two factors, a number, and their interactions
        n = 60
        f, g = rng.integers(0, 3, size=n), rng.integers(0, 2, size=n)
        x = rng.normal(size=n)
        dummies, other = (f[:, None] == [1, 2]).astype(float), (g == 1).astype(float)[:, None]
        blocks = [x[:, None], dummies, dummies * x[:, None], other, dummies * other]
        y = 0.3 * x + 0.5 * dummies[:, 0] + 0.4 * dummies[:, 1] * x + rng.normal(size=n)
        ends = np.cumsum([block.shape[1] for block in blocks])
        columns = [list(range(end - block.shape[1], end)) for end, block in zip(ends, blocks)]
        return Data(np.hstack(blocks), y, groups=columns, parents=((), (), (0, 1), (), (1, 3)))
    raise ValueError(f"unknown data {name!r}")


def eight_variables(names: list[str] | None = None) -> wv.Problem:
    """A problem to run samplers on where the answer is not looked at."""
    rng = np.random.default_rng(4)
    X = _columns(rng, 47, 8, common=0.8)
    y = X @ [0.5, -0.4, 0.3, 0, 0, 0.2, 0, 0] + rng.normal(size=47)
    return wv.Problem(X, y, slab=wv.GPrior("n"), model_prior=wv.FixedInclusion(h=0.5), names=names)


def eight_variables_and_two_classes() -> wv.Problem:
    """The same for a logistic response."""
    rng = np.random.default_rng(31)
    X = rng.normal(size=(60, 8))
    return wv.Problem(X, rng.random(60) < 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 4])), family="logistic")


@dataclass(frozen=True)
class Case:
    """A data set, a slab and a model prior, by name."""

    data: str
    slab: str
    prior: str
    start: str = "mixed"  # or "full": all variables in

    @property
    def id(self) -> str:
        return f"{self.data}:{self.slab}:{self.prior}" + (f":{self.start}" if self.start != "mixed" else "")

    @property
    def given(self) -> Data:
        """Strong ones have weak variables about which the slab is undecided; the others are the same for all slabs."""
        return strong(self.data, self.slab) if is_strong(self.data) else data(self.data)

    @property
    def starting_models(self) -> Any:
        return list(range(self.given.p)) if self.start == "full" else self.start


@cache
def strong(name: str, slab: str) -> Data:
    return Data(**strong_data(name, slab))


def as_given(X: np.ndarray, d: Data) -> tuple[Any, Any]:
    """X and y in the form in which the package is given them, with all copies."""
    if d.form == "statistics":
        statistics = wv.SufficientStatistics.from_arrays(X, d.y, d.weights)
        for _ in range(d.copies.bit_length() - 1):
            statistics = statistics + statistics
        return statistics, None
    X, y = np.tile(X, (d.copies, 1)), np.tile(d.y, d.copies)
    if d.form == "mapped":
        return mapped(X), y
    return (scipy.sparse.csc_array(X) if d.form == "sparse" else X), y


def mapped(X: np.ndarray) -> np.memmap:
    """The columns in a file that goes when nobody maps it any more."""
    with tempfile.TemporaryFile() as stream:
        stream.write(np.asfortranarray(X).tobytes(order="F"))
        stream.flush()
        return np.memmap(stream, X.dtype, "r", shape=X.shape, order="F")


@cache
def problem(case: Case) -> wv.Problem:
    """The case as the package sees it."""
    d = case.given
    model_prior, theirs, max_size = priors(d.p)[case.prior]
    if d.parents is not None and model_prior.size is not None:  # a size would be that under heredity
        model_prior = wv.BetaBinomial(*theirs[1:])
    X, always = (
        (d.X, None)
        if d.Z is None
        else (np.hstack([d.X, d.Z]), list(range(d.X.shape[1], d.X.shape[1] + d.Z.shape[1])))
    )
    groups = None if d.groups is None else {f"v{j}": columns for j, columns in enumerate(d.groups)}
    name = "x{}" if groups is None else "v{}"
    heredity = None
    if d.parents is not None:
        heredity = {name.format(j): [name.format(i) for i in parents] for j, parents in enumerate(d.parents)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.DataWarning)  # duplicates are meant
        X, y = as_given(X, d)
        return wv.Problem(
            X,
            y,
            slab=ALL_SLABS[case.slab][0],
            model_prior=model_prior,
            max_size=max_size,
            noise=_noise(d),
            always_include=always,
            weights=None if d.form == "statistics" else d.weights,
            groups=groups,
            heredity=heredity,
            **d.options,
        )


def _noise(d: Data) -> Any:
    if d.known_variance is not None:
        return wv.KnownVariance(d.known_variance)
    return None if d.inverse_gamma is None else wv.InverseGamma(*d.inverse_gamma)


@cache
def truth(case: Case, temper: float = 1.0) -> OraclePosterior:
    """The exact answer, by brute force."""
    d = case.given
    _, prior, max_size = priors(d.p)[case.prior]
    return enumerate_posterior(
        d.X,
        d.y,
        ALL_SLABS[case.slab][1],
        prior,
        groups=d.groups,
        Z=d.Z,
        weights=d.weights,
        copies=d.copies,
        scale=d.options.get("scale", "unit"),
        inverse_gamma=d.inverse_gamma,
        known_variance=d.known_variance,
        max_size=max_size,
        parents=d.parents,
        temper=temper,
    )
