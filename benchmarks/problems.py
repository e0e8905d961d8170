"""The targets on which samplers are compared, by name. Built when asked for, once.

A new target is one function and one line in PROBLEMS.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pandas as pd

import whichvars as wv
from benchmarks import counts_and_classes, hard
from benchmarks.common import ROOT
from whichvars import datasets
from whichvars.datasets import Dataset


@dataclass(frozen=True)
class Named:
    """A problem's builder, and what it is in one line."""

    about: str
    build: Callable[[], wv.Problem]
    data: Callable[[], Dataset] | None = None  # what it is built from, for programs that are not ours


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


def _ar_data() -> Dataset:
    return datasets.simulate_ar(n=500, p=5000, correlation=0.6, snr=2.0, seed=0)


def _ar() -> wv.Problem:
    data = _ar_data()
    return wv.Problem(
        data.X, data.y, slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(size=10), scale="unit"
    )


def _blocks_data(seed: int = 0) -> Dataset:
    return datasets.simulate_blocks(n=60, p=22_576, block=20, correlation=0.9, seed=seed)


def _blocks(seed: int = 0) -> wv.Problem:
    data = _blocks_data(seed)
    return wv.Problem(
        data.X, data.y, slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(size=5), scale="unit"
    )


def _growth() -> wv.Problem:
    data = datasets.load_growth()
    return wv.Problem(data.X, data.y, slab=wv.GPrior(1681), model_prior=wv.FixedInclusion(h=0.5))


def _uscrime() -> wv.Problem:
    data = datasets.load_uscrime()
    return wv.Problem(data.X, data.y, slab=wv.GPrior(47), model_prior=wv.FixedInclusion(h=0.5))


def _frame(X: np.ndarray, y: np.ndarray, note: str, effects: np.ndarray | None = None) -> Dataset:
    table = pd.DataFrame(
        X, columns=[f"x{j}" for j in range(X.shape[1])]
    )  # the names a Problem gives to an array
    truth = None if effects is None else pd.Series(effects, table.columns)
    return Dataset(table, pd.Series(y, name="y"), note, truth)


def _fine_mapping_data() -> Dataset:
    """susieR's N3finemapping (BSD-3): human genotypes, the first of two simulated phenotypes."""
    with np.load(ROOT / "benchmarks" / "data" / "n3finemapping.npz", allow_pickle=False) as data:
        return _frame(data["X"].astype(float), data["Y"][:, 0].astype(float), "N3finemapping")


def _fine_mapping() -> wv.Problem:
    X, y = _fine_mapping_data()[:2]
    return wv.Problem(X, y, slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(h=5 / X.shape[1]))


def _factors_data() -> Dataset:
    """Five latent factors drive all columns; effects of unequal size."""
    rng = np.random.default_rng(20)
    n, p = 150, 800
    X = rng.normal(size=(n, 5)) @ rng.normal(size=(5, p)) + 1.5 * rng.normal(size=(n, p))
    X /= X.std(axis=0)
    effects = np.zeros(p)
    effects[rng.choice(p, 8, replace=False)] = [0.9, -0.8, 0.6, 0.5, -0.45, 0.35, 0.3, -0.25]
    return _frame(X, X @ effects + rng.normal(size=n), "five factors", effects)


def _factors() -> wv.Problem:
    """A beta-binomial prior."""
    X, y = _factors_data()[:2]
    return wv.Problem(X, y, slab=wv.IndependentNormal(1), model_prior=wv.BetaBinomial(size=5))


def _clusters_data() -> Dataset:
    """Clusters of 2 to 12 near copies (correlation .97 with their centre), neighbours related."""
    rng = np.random.default_rng(30)
    n, p = 100, 3000
    centre = rng.normal(size=n)
    columns: list[np.ndarray] = []
    while len(columns) < p:
        centre = 0.5 * centre + math.sqrt(0.75) * rng.normal(size=n)
        size = int(rng.integers(2, 13))
        columns += [0.97 * centre + math.sqrt(1 - 0.97**2) * rng.normal(size=n) for _ in range(size)]
    X = np.array(columns[:p]).T
    effects = np.zeros(p)
    effects[rng.choice(p, 6, replace=False)] = [1.2, -1.0, 0.8, 0.6, -0.5, 0.4]
    return _frame(X, X @ effects + rng.normal(size=n), "clusters of near copies", effects)


def _clusters() -> wv.Problem:
    """A beta-binomial prior and a g-prior, so that models are bounded by n."""
    X, y = _clusters_data()[:2]
    return wv.Problem(X, y, slab=wv.GPrior("n"), model_prior=wv.BetaBinomial(size=4))


def _moving_data() -> Dataset:
    """Each column the mean of ten neighbouring innovations: correlations that fall to 0 in a straight line."""
    rng = np.random.default_rng(40)
    n, p, width = 120, 1500, 10
    innovations = rng.normal(size=(n, p + width - 1))
    X = np.lib.stride_tricks.sliding_window_view(innovations, width, axis=1).sum(axis=2) / math.sqrt(width)
    effects = np.zeros(p)
    effects[rng.choice(p, 9, replace=False)] = [1.0, -0.9, 0.8, -0.7, 0.6, 0.5, -0.4, 0.35, 0.3]
    return _frame(X, X @ effects + rng.normal(size=n), "moving averages", effects)


def _moving() -> wv.Problem:
    """A beta-binomial prior and a mixture of g-priors."""
    X, y = _moving_data()[:2]
    return wv.Problem(X, y, slab=wv.HyperG(), model_prior=wv.BetaBinomial(size=5))


def _rare_data() -> Dataset:
    """Columns of 0 and 1, most of them 0, in pairs that agree in nine rows of ten."""
    rng = np.random.default_rng(50)
    n, p = 250, 6000
    shares = rng.uniform(0.05, 0.4, p // 2)
    first = (rng.random((n, p // 2)) < shares).astype(float)
    second = np.where(rng.random((n, p // 2)) < 0.9, first, (rng.random((n, p // 2)) < shares).astype(float))
    X = np.stack([first, second], axis=2).reshape(n, p)
    effects = np.zeros(p)
    effects[rng.choice(p, 7, replace=False)] = [1.6, -1.4, 1.2, -1.0, 0.8, 0.7, 0.6]
    return _frame(X, X @ effects + rng.normal(size=n), "rare 0/1 columns in pairs", effects)


def _rare() -> wv.Problem:
    X, y = _rare_data()[:2]
    return wv.Problem(X, y, slab=wv.IndependentNormal(1), model_prior=wv.BetaBinomial(size=8))


# n, p, seed and strength. The seed, as that of barrier22576, was taken from a dozen because sequential replacement, a search for
# modes, finds the mode there, not far above the null model. On about four seeds of ten it did not find one as good as the true
# model: these two problems say nothing of such data.
BARRIER_12000 = (50, 12_000, 30, 1.0)

PROBLEMS: dict[str, Named] = {
    "tecator": Named("Tecator: n = 172, p = 100, independent slab g = 100, h = 5/p, columns centred only", _tecator, datasets.load_tecator),
    "boston104": Named(
        "Boston, the paper's design: n = 506, p = 104, independent slab g = 100, h = 5/p, products not rescaled",
        lambda: _boston("none"),
        datasets.load_boston,
    ),
    "boston104-standardised": Named(
        "Boston, all columns standardised: n = 506, p = 104, independent slab g = 100, h = 5/p",
        lambda: _boston("unit"),
        datasets.load_boston,
    ),
    "ar5000": Named(
        "simulated: n = 500, p = 5,000, AR(.6) columns, ten effects at snr 2, independent slab g = 1, h = 10/p", _ar, _ar_data
    ),
    "blocks22576": Named(
        "simulated: n = 60, p = 22,576, blocks of 20 columns correlated .9, two effects, independent slab g = 1, h = 5/p",
        _blocks,
        _blocks_data,
    ),
    **{
        f"blocks22576-{seed}": Named(
            f"the same simulation with seed {seed} instead of 0", partial(_blocks, seed), partial(_blocks_data, seed)
        )
        for seed in (1, 2)
    },
    "fls": Named("growth of 72 countries (FLS): p = 41, g-prior g = 1681, h = ½", _growth, datasets.load_growth),
    "n3finemapping": Named(
        "fine mapping (N3finemapping): n = 574, p = 1,001 genotypes with copies, independent slab g = 1, h = 5/p", _fine_mapping, _fine_mapping_data
    ),
    "factors800": Named(
        "simulated: n = 150, p = 800, five factors, independent slab g = 1, beta-binomial of mean size 5",
        _factors,
        _factors_data,
    ),
    "clusters3000": Named(
        "simulated: n = 100, p = 3,000, clusters of near copies, g-prior g = n, beta-binomial of mean size 4",
        _clusters,
        _clusters_data,
    ),
    "moving1500": Named(
        "simulated, not used for tuning: n = 120, p = 1,500, moving averages, hyper-g, beta-binomial of mean size 5",
        _moving,
        _moving_data,
    ),
    "rare6000": Named(
        "simulated, not used for tuning: n = 250, p = 6,000, columns of 0 and 1 in pairs, independent slab g = 1, beta-binomial of mean size 8",
        _rare,
        _rare_data,
    ),
    "uscrime": Named("US crime: n = 47, p = 15, g-prior g = 47, h = ½; its reference is exact", _uscrime, datasets.load_uscrime),
    "diabetes64": Named(
        "diabetes with squares and products: n = 442, p = 64, independent slab g = 1, h = 10/p", hard.diabetes, hard.diabetes_data
    ),
    "barrier22576": Named(
        "simulated: n = 60, p = 22,576, blocks of 20 columns correlated .9, five effects that need one another, independent slab g = 100, h = 5/p",
        hard.barrier,
        hard.barrier_data,
    ),
    "barrier22576-g1": Named("the same data, independent slab g = 1", partial(hard.barrier, 1), hard.barrier_data),
    "spectra268": Named(
        "simulated spectra: n = 28, p = 268, independent slab g = 1, beta-binomial of mean size 10", hard.spectra, hard.spectra_data
    ),
    "spectra350": Named(
        "simulated spectra: n = 50, p = 350, independent slab g = 1, beta-binomial of mean size 13",
        partial(hard.spectra, 50, 350, 62, 13),
        partial(hard.spectra_data, 50, 350, 62),
    ),
    "expression4088": Named(
        "simulated expression: n = 71, p = 4,088, independent slab g = 1, h = 14/p", hard.expression, hard.expression_data
    ),
    "concrete164": Named(
        "simulated concrete: n = 1,030, all 164 terms up to the third degree of eight raw columns, independent slab g = 20, h = ½",
        hard.concrete,
        hard.concrete_data,
    ),
    "boston-products": Named(
        "Boston, products of raw columns, then standardised: n = 506, p = 103, independent slab g = 100, h = 5/p",
        hard.boston_products,
        hard.boston_products_data,
    ),
    "three-models": Named("made up: n = 6, p = 9, BIC, beta-binomial; its reference is exact", hard.three_models),
    "individual-off": Named(
        "made up: n = 9, p = 7 with a group, local empirical Bayes, beta-binomial; its reference is exact", hard.individual_off
    ),
    "logistic200": Named(
        "simulated classes: n = 500, p = 200, ten effects up to .7 on log odds, independent slab g = 1, h = 5/p",
        partial(counts_and_classes.sparse, 500, 200, 0.7, 101),
        partial(counts_and_classes.sparse_data, 500, 200, 0.7, 101),
    ),
    "logistic200-strong": Named(
        "the same simulation with effects twice as large",
        partial(counts_and_classes.sparse, 500, 200, 1.4, 101),
        partial(counts_and_classes.sparse_data, 500, 200, 1.4, 101),
    ),
    "logistic2000": Named(
        "simulated classes: n = 1,000, p = 2,000, ten effects up to .7 on log odds, independent slab g = 1, h = 5/p",
        partial(counts_and_classes.sparse, 1000, 2000, 0.7, 103),
        partial(counts_and_classes.sparse_data, 1000, 2000, 0.7, 103),
    ),
    "logistic2000-diffuse": Named(
        "simulated classes: n = 300, p = 2,000, thirty effects of ±.4 on log odds, independent slab g = 1, h = 10/p",
        counts_and_classes.diffuse,
        counts_and_classes.diffuse_data,
    ),
    "breast-cancer": Named(
        "breast cancer (Wisconsin): n = 569, p = 30, logistic, independent slab g = 1, h = 1/6",
        counts_and_classes.breast_cancer,
        counts_and_classes.breast_cancer_data,
    ),
    # from here on: FINAL_CHECK
    "barrier12000": Named(
        "simulated: n = 50, p = 12,000, blocks of 20 columns correlated .9, five effects that need one another, independent slab g = 100, h = 5/p",
        partial(hard.barrier, 100, *BARRIER_12000),
        partial(hard.barrier_data, *BARRIER_12000),
    ),
    "spectra401": Named(
        "simulated spectra: n = 60, p = 401, independent slab g = 1, beta-binomial of mean size 15",
        partial(hard.spectra, 60, 401, 61, 15),
        partial(hard.spectra_data, 60, 401, 61),
    ),
    "expression22283": Named(
        "simulated expression: n = 104, p = 22,283, independent slab g = 1, h = 20/p",
        partial(hard.expression, 104, 22_283, 71, 15, 20),
        partial(hard.expression_data, 104, 22_283, 71, 15),
    ),
    "wine164": Named(
        "wine: n = 178, all 164 terms up to the third degree of eight raw columns, independent slab g = 100, h = .2",
        hard.wine,
        hard.wine_data,
    ),
    "copies2000": Named(
        "simulated: n = 40, p = 2,000, blocks of 20 columns correlated .98, eight effects, independent slab g = 1, h = 5/p",
        hard.copies,
        hard.copies_data,
    ),
}  # fmt: skip

DEFAULT = (
    "tecator", "boston104", "boston104-standardised", "fls", "n3finemapping", "ar5000", "blocks22576", "blocks22576-1",
    "blocks22576-2", "factors800", "clusters3000", "moving1500", "rare6000",
)  # fmt: skip

# Responses that are not Gaussian
LOGISTIC = ("logistic200", "logistic200-strong", "logistic2000", "logistic2000-diffuse", "breast-cancer")

# Kept for the final check. Nothing is chosen, tuned or tried on these: they were named, with their sizes, seeds and priors,
# before any sampler was run on them, and differ in seed, dimension or data from the problems of their kind above. A reference
# may be made, and `python -m benchmarks honesty --final` run, when the design is done.
FINAL_CHECK = ("barrier12000", "spectra401", "expression22283", "wine164", "copies2000")

# What `python -m benchmarks honesty` is about: 20 problems with FINAL_CHECK, easy ones among them for false alarms.
HONESTY = (
    "three-models", "individual-off", "uscrime", "fls", "diabetes64", "tecator", "ar5000", "blocks22576", "blocks22576-2",
    "boston-products", "concrete164", "spectra268", "expression4088", "barrier22576", "barrier22576-g1", *FINAL_CHECK,
)  # fmt: skip


@cache
def build(name: str) -> wv.Problem:
    """The problem of that name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.DataWarning)  # Boston's CHAS² is CHAS, and we know
        return PROBLEMS[name].build()


def fingerprint(problem: wv.Problem) -> np.ndarray:
    """A few numbers that change when the data, the slab or the model prior do; shape (9,), or (12,) if the response is not Gaussian."""
    target = problem.target(0)
    design, slab, prior = target.design, target.slab, target.prior
    correlation = design.xty / np.sqrt(design.diagonal)
    weights = 1.0 + np.arange(len(correlation)) / len(correlation)  # so that the order counts too
    family = []
    if getattr(problem, "fit_data", None) is not None:  # problems of older checkouts have no such thing
        likelihood = problem.likelihood()
        family = [likelihood.code, likelihood.slab, likelihood.evidence]
    return np.array([
        problem.n, problem.p, slab.nu, slab.code, slab.g, slab.ridge.sum(), np.abs(correlation) @ weights,
        design.diagonal @ weights, prior.log_odds.sum() + prior.log_size[:10].sum(), *family,
    ])  # fmt: skip
