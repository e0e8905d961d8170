"""The targets on which samplers are compared, by name. Built when asked for, once.

A new target is one function and one line in PROBLEMS.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

import whichvars as wv
from whichvars import datasets


@dataclass(frozen=True)
class Named:
    """A problem's builder, and what it is in one line."""

    about: str
    build: Callable[[], wv.Problem]


def _tecator() -> wv.Problem:
    data = datasets.load_tecator()
    return wv.Problem(
        data.X,
        data.y,
        slab=wv.IndependentNormal(100),
        model_prior=wv.FixedInclusion(size=5),
        scale="none",
    )


def _boston(scale: str) -> wv.Problem:
    data = datasets.load_boston()
    return wv.Problem(
        data.X,
        data.y,
        slab=wv.IndependentNormal(100),
        model_prior=wv.FixedInclusion(size=5),
        scale=scale,  # type: ignore[arg-type]
    )


def _ar() -> wv.Problem:
    data = datasets.simulate_ar(n=500, p=5000, correlation=0.6, snr=2.0, seed=0)
    return wv.Problem(
        data.X, data.y, slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(size=10), scale="unit"
    )


def _blocks() -> wv.Problem:
    data = datasets.simulate_blocks(n=60, p=22_576, block=20, correlation=0.9, seed=0)
    return wv.Problem(
        data.X, data.y, slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(size=5), scale="unit"
    )


def _growth() -> wv.Problem:
    data = datasets.load_growth()
    return wv.Problem(data.X, data.y, slab=wv.GPrior(1681), model_prior=wv.FixedInclusion(h=0.5))


def _uscrime() -> wv.Problem:
    data = datasets.load_uscrime()
    return wv.Problem(data.X, data.y, slab=wv.GPrior(47), model_prior=wv.FixedInclusion(h=0.5))


PROBLEMS: dict[str, Named] = {
    "tecator": Named("Tecator: n = 172, p = 100, independent slab g = 100, h = 5/p, columns centred only", _tecator),
    "boston104": Named(
        "Boston, the paper's design: n = 506, p = 104, independent slab g = 100, h = 5/p, products not rescaled",
        lambda: _boston("none"),
    ),
    "boston104-standardised": Named(
        "Boston, all columns standardised: n = 506, p = 104, independent slab g = 100, h = 5/p",
        lambda: _boston("unit"),
    ),
    "ar5000": Named(
        "simulated: n = 500, p = 5,000, AR(.6) columns, ten effects at snr 2, independent slab g = 1, h = 10/p", _ar
    ),
    "blocks22576": Named(
        "simulated: n = 60, p = 22,576, blocks of 20 columns correlated .9, two effects, independent slab g = 1, h = 5/p",
        _blocks,
    ),
    "fls": Named("growth of 72 countries (FLS): p = 41, g-prior g = 1681, h = ½", _growth),
    "uscrime": Named("US crime: n = 47, p = 15, g-prior g = 47, h = ½; its reference is exact", _uscrime),
}  # fmt: skip

DEFAULT = ("tecator", "boston104", "boston104-standardised", "ar5000", "blocks22576", "fls")


@cache
def build(name: str) -> wv.Problem:
    """The problem of that name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.DataWarning)  # Boston's CHAS² is CHAS, and we know
        return PROBLEMS[name].build()


def fingerprint(problem: wv.Problem) -> np.ndarray:
    """A few numbers that change when the data, the slab or the model prior do; shape (9,)."""
    target = problem.target(0)
    design, slab, prior = target.design, target.slab, target.prior
    correlation = design.xty / np.sqrt(design.diagonal)
    weights = 1.0 + np.arange(len(correlation)) / len(correlation)  # so that the order counts too
    return np.array([
        problem.n, problem.p, slab.nu, slab.code, slab.g, slab.ridge.sum(), np.abs(correlation) @ weights,
        design.diagonal @ weights, prior.log_odds.sum() + prior.log_size[:10].sum(),
    ])  # fmt: skip
