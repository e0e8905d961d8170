"""Data sets and priors whose posteriors are hard: modes behind barriers, many near copies, large models, very many mediocre
models.

All are simulated with fixed seeds, or made of data that come with this package or with scikit-learn. Sizes and priors are those
of data sets on which the default was once wrong without saying so.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

import whichvars as wv
from benchmarks.common import ROOT
from whichvars import datasets
from whichvars.datasets import Dataset

DATA = ROOT / "benchmarks" / "data"


def _dataset(X: np.ndarray, y: np.ndarray, note: str) -> Dataset:
    """With the names that a Problem gives to the columns of an array."""
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return Dataset(table, pd.Series(y, name="y"), note, None)


# --- a mode behind a barrier
# ----------------------------------------------------------------------------------------------------------


def barrier_data(n: int = 60, p: int = 22_576, seed: int = 4, strength: float = 0.9) -> Dataset:
    """Blocks of look-alikes and five effects, none of which is worth its place without most of the others.

    `strength` makes the effects of ``simulate_blocks`` larger or smaller.
    """
    data = datasets.simulate_blocks(n=n, p=p, block=20, correlation=0.9, effects=5, seed=seed)
    assert data.truth is not None
    fit = data.X.to_numpy() @ data.truth.to_numpy()
    return Dataset(data.X, data.y - (1 - strength) * fit, data.note, strength * data.truth)


def barrier(g: float = 100, n: int = 60, p: int = 22_576, seed: int = 4, strength: float = 0.9) -> wv.Problem:
    """With g = 100 the null model and the mode of five variables have 2 and 98 % of the mass, and everything between them is
    e⁸ times worse or more."""
    data = barrier_data(n, p, seed, strength)
    return wv.Problem(data.X, data.y, slab=wv.IndependentNormal(g), model_prior=wv.FixedInclusion(size=5))


# --- spectra
# ----------------------------------------------------------------------------------------------------------


def spectra_data(n: int = 28, p: int = 268, seed: int = 60) -> Dataset:
    """Smooth curves: neighbouring wavelengths differ by little more than the noise of the instrument."""
    rng = np.random.default_rng(seed)
    where = np.linspace(0.0, 1.0, p)
    substances = 6
    centres, widths = rng.uniform(0, 1, (substances, 4)), rng.uniform(0.03, 0.15, (substances, 4))
    heights = rng.uniform(0.2, 1.0, (substances, 4))
    bands = (heights[..., None] * np.exp(-0.5 * ((where - centres[..., None]) / widths[..., None]) ** 2)).sum(
        1
    )
    amounts = rng.gamma(4.0, 0.25, (n, substances))
    baseline = 0.3 * rng.normal(size=(n, 1)) + 0.2 * rng.normal(size=(n, 1)) * where
    X = amounts @ bands + baseline + 0.005 * rng.normal(size=(n, p))
    y = 10 * amounts[:, 0] + 0.5 * rng.normal(size=n)
    return _dataset(X, y, "simulated spectra")


def spectra(n: int = 28, p: int = 268, seed: int = 60, size: float = 10) -> wv.Problem:
    """Far more variables in a model than it needs: the data do not mind, the prior has a long tail, and there are so many large
    models that most of the mass is theirs. Chains come from small ones, slowly."""
    X, y = spectra_data(n, p, seed)[:2]
    return wv.Problem(X, y, slab=wv.IndependentNormal(1), model_prior=wv.BetaBinomial(size=size))


# --- gene expression
# ----------------------------------------------------------------------------------------------------------


def expression_data(n: int = 71, p: int = 4088, seed: int = 70, effects: int = 6) -> Dataset:
    """Genes that follow a few of forty programmes each, in unequal measure, and a response that follows some genes and one
    programme."""
    rng = np.random.default_rng(seed)
    programmes = 40
    scores = rng.normal(size=(n, programmes)) * np.linspace(1.6, 0.4, programmes)
    loadings = rng.standard_t(4, size=(programmes, p)) * (rng.random((programmes, p)) < 0.15)
    X = scores @ loadings + rng.uniform(0.4, 1.2, p) * rng.normal(size=(n, p))
    X /= X.std(axis=0)
    genes = rng.choice(p, effects, replace=False)
    y = (
        X[:, genes] @ rng.choice([-1.0, 1.0], effects)
        + 0.5 * scores[:, 3]
        + 0.8 * math.sqrt(effects) * rng.normal(size=n)
    )
    return _dataset(X, y, "simulated expression")


def expression(n: int = 71, p: int = 4088, seed: int = 70, effects: int = 6, size: float = 14) -> wv.Problem:
    X, y = expression_data(n, p, seed, effects)[:2]
    return wv.Problem(X, y, slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(size=size))


# --- products of raw columns
# ----------------------------------------------------------------------------------------------------------


def terms(columns: np.ndarray, degree: int) -> np.ndarray:
    """All products of up to `degree` columns, which may repeat, as they are."""
    chosen = (
        which
        for d in range(1, degree + 1)
        for which in itertools.combinations_with_replacement(range(columns.shape[1]), d)
    )
    return np.column_stack([columns[:, which].prod(axis=1) for which in map(list, chosen)])


def concrete_data(mixtures: int = 206, ages: int = 5, seed: int = 80) -> Dataset:
    """Mixtures of seven ingredients, kg to the cubic metre, tested at several ages. No polynomial of the third degree
    is their strength, so that many are about equally far from it.

    Simulated; ranges and zeros are like those of published mixtures.
    """
    rng = np.random.default_rng(seed)

    def some(low: float, high: float, share: float) -> np.ndarray:
        return np.where(rng.random(mixtures) < share, rng.uniform(low, high, mixtures), 0.0)

    cement = rng.uniform(130, 500, mixtures)
    slag, ash = some(20, 300, 0.55), some(60, 190, 0.45)
    water = rng.uniform(140, 230, mixtures)
    plasticiser = some(2, 20, 0.65)
    water -= 1.5 * plasticiser
    coarse = rng.uniform(800, 1130, mixtures)
    fine = np.clip(2350 - cement - slag - ash - water - coarse + 40 * rng.normal(size=mixtures), 500, 1000)
    recipe = np.column_stack([cement, slag, ash, water, plasticiser, coarse, fine])
    recipe = np.repeat(recipe, ages, axis=0)
    age = np.concatenate([rng.choice([1, 3, 7, 14, 28, 56, 90, 180, 365], ages, replace=False) for _ in range(mixtures)])  # fmt: skip
    cement, slag, ash, water, plasticiser, coarse, fine = recipe.T
    binder = cement + 0.9 * slag * np.sqrt(age / (age + 20)) + 0.6 * ash * age / (age + 60)
    water_to_binder = (water + 1.2 * plasticiser) / binder
    strength = 110 / 8.0**water_to_binder * np.log1p(age) / np.log(29) * (1 - 0.15 * np.log1p(age / 90))
    strength *= (
        1
        + 0.02 * plasticiser * np.exp(-plasticiser / 8)
        + 0.25 * np.cos(18 * (fine / (fine + coarse) - 0.43))
    )
    strength += (
        6 * np.sin(slag / 60) + 4 * np.sin(cement / 50) * np.tanh(ash / 80) + 2 * rng.normal(size=len(age))
    )
    X = terms(np.column_stack([recipe, age.astype(float)]), 3)
    return _dataset(X, strength, "simulated concrete, all terms up to the third degree")


def concrete() -> wv.Problem:
    X, y = concrete_data()[:2]
    return wv.Problem(X, y, slab=wv.IndependentNormal(20), model_prior=wv.FixedInclusion(h=0.5))


WINE: Sequence[str] = (
    "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols", "flavanoids", "color_intensity", "hue",
)  # fmt: skip


def wine_data() -> Dataset:
    """scikit-learn's wine data (178 wines, public domain): all terms up to the third degree of eight measurements, which are to
    explain the alcohol."""
    from sklearn.datasets import load_wine

    table = load_wine(as_frame=True).data
    X = terms(table[list(WINE)].to_numpy(float), 3)
    return _dataset(X, table["alcohol"].to_numpy(float), "wine, all terms up to the third degree")


def wine() -> wv.Problem:
    X, y = wine_data()[:2]
    return wv.Problem(X, y, slab=wv.IndependentNormal(100), model_prior=wv.FixedInclusion(h=0.2))


def boston_products_data() -> Dataset:
    """Boston's 13 columns as recorded, their squares and products; CHAS is 0 or 1 and has no square."""
    data = datasets.load_boston("raw")
    X = _with_products(data.X.to_numpy(float), list(data.X.columns).index("CHAS"))
    return _dataset(X, data.y.to_numpy(float), "Boston, products of raw columns")


def _with_products(raw: np.ndarray, binary: int) -> np.ndarray:
    """Columns with their squares and products, but for the square of the one that has two values."""
    pairs = itertools.combinations_with_replacement(range(raw.shape[1]), 2)
    return np.column_stack([raw, *(raw[:, i] * raw[:, j] for i, j in pairs if not i == j == binary)])


def boston_products() -> wv.Problem:
    X, y = boston_products_data()[:2]
    return wv.Problem(X, y, slab=wv.IndependentNormal(100), model_prior=wv.FixedInclusion(size=5))


def diabetes_data() -> Dataset:
    """scikit-learn's diabetes data (442 patients): ten measurements, their squares and products, sex without its square."""
    from sklearn.datasets import load_diabetes

    found = load_diabetes(as_frame=True, scaled=True)
    raw = found.data.to_numpy(float)
    X = _with_products(raw / raw.std(axis=0), list(found.data.columns).index("sex"))
    return _dataset(X, found.target.to_numpy(float), "diabetes with squares and products")


def diabetes() -> wv.Problem:
    X, y = diabetes_data()[:2]
    return wv.Problem(X, y, slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(size=10))


# --- near copies
# ----------------------------------------------------------------------------------------------------------


def copies_data(n: int = 40, p: int = 2000, seed: int = 90) -> Dataset:
    return datasets.simulate_blocks(n=n, p=p, block=20, correlation=0.98, effects=4, weak=4, seed=seed)


def copies() -> wv.Problem:
    data = copies_data()
    return wv.Problem(data.X, data.y, slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(size=5))


# --- a few rows
# ----------------------------------------------------------------------------------------------------------


def _small(name: str) -> Dataset:
    path = DATA / f"{name}.csv"
    names = path.read_text().partition("\n")[0].split(",")
    table = pd.DataFrame(np.loadtxt(path, delimiter=",", skiprows=1), columns=names)
    return Dataset(table.drop(columns="y"), table["y"], name, None)


def three_models() -> wv.Problem:
    """Three models of four variables that have none or one in common share nearly all the mass."""
    X, y = _small("three_models")[:2]
    prior = wv.BetaBinomial(a=0.5466098816661283, b=45.70308132291791)
    return wv.Problem(X, y, slab=wv.BIC(), model_prior=prior, scale="none")


def individual_off() -> wv.Problem:
    """The null model has .80, large models together .12, and what lies between them little."""
    X, y = _small("individual_off")[:2]
    prior = wv.BetaBinomial(a=0.1259342097104187, b=2.364943426154029)
    return wv.Problem(
        X, y, slab=wv.LocalEmpiricalBayes(), model_prior=prior, scale="none", groups={"g": [0, 1]}
    )
