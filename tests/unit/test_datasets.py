"""The bundled data sets and the simulators."""

import subprocess
import sys
import warnings
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

from whichvars.datasets import (
    Dataset,
    load_boston,
    load_breast_cancer,
    load_doctor_visits,
    load_growth,
    load_tecator,
    load_uscrime,
    simulate_ar,
    simulate_blocks,
)
from whichvars.errors import ArgumentTypeError, DataError

USCRIME = ["M", "So", "Ed", "Po1", "Po2", "LF", "M.F", "Pop", "NW", "U1", "U2", "GDP", "Ineq", "Prob", "Time"]
BOSTON = ["CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"]


@pytest.mark.parametrize(
    ("load", "shape", "name"),
    [
        (load_tecator, (172, 100), "fat"),
        (lambda: load_tecator(rows="all"), (215, 100), "fat"),
        (lambda: load_tecator(response="water"), (172, 100), "water"),
        (load_boston, (506, 104), "log_CMEDV"),
        (lambda: load_boston(design="raw"), (506, 13), "log_CMEDV"),
        (load_growth, (72, 41), "growth"),
        (load_uscrime, (47, 15), "log_crime"),
        (lambda: load_uscrime(log=False), (47, 15), "crime"),
        (load_doctor_visits, (2019, 9), "visits"),
        (lambda: simulate_ar(n=30, p=40), (30, 40), "y"),
        (lambda: simulate_blocks(n=30, p=45), (30, 45), "y"),
    ],
)
def test_every_dataset_is_complete_and_says_what_it_is(load, shape, name):
    data = load()
    assert isinstance(data, Dataset)
    assert isinstance(data.X, pd.DataFrame)
    assert isinstance(data.y, pd.Series)
    assert data.X.shape == shape
    assert data.y.shape == shape[:1]
    assert data.y.name == name
    assert (data.X.dtypes == np.float64).all()
    assert data.y.dtype == np.float64
    assert np.isfinite(data.X.to_numpy()).all()
    assert np.isfinite(data.y.to_numpy()).all()
    assert data.X.columns.is_unique
    assert data.X.index.is_unique
    assert data.X.index.equals(data.y.index)
    assert f"n = {shape[0]}" in data.note
    assert f"p = {shape[1]}" in data.note
    assert "icence" in data.note
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # pandas warns here if a table is stored column by column
        data.X["another"] = 1.0


def test_loaded_data_are_fresh_at_each_call():
    X = load_growth().X
    X.iloc[0, 0] = -1.0
    assert load_growth().X.iloc[0, 0] == 36.72
    assert load_growth().truth is None


def test_licences_travel_with_the_data():
    folder = files("whichvars.datasets").joinpath("data")
    text = " ".join(folder.joinpath("LICENCES.md").read_text(encoding="utf-8").replace("> ", " ").split())
    assert "The data can be redistributed as long as this permission note is attached." in text
    assert "Tecator Infratec" in text
    for file in folder.iterdir():
        assert file.name == "LICENCES.md" or file.name in text


def test_importing_datasets_does_not_itself_import_pandas():
    code = """
import sys
import whichvars
before = "pandas" in sys.modules
import whichvars.datasets
assert before or "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# Tecator


def test_tecator_values():
    data = load_tecator()
    assert list(data.X.columns) == [f"x{j:03d}" for j in range(1, 101)]
    assert data.X.iloc[0, :3].tolist() == [2.61776, 2.61814, 2.61859]
    assert data.y.iloc[0] == 22.5
    assert load_tecator(response="water").y.iloc[0] == 60.5
    assert load_tecator(response="protein").y.iloc[0] == 16.7
    assert "redistributed as long as this permission note is attached" in data.note
    assert "Tecator Infratec" in data.note


def test_tecator_has_repeated_samples():
    for rows, repeats in (("paper", 14), ("all", 22)):
        data = load_tecator(rows=rows)
        assert pd.concat([data.X, data.y], axis=1).duplicated().sum() == repeats


def test_tecator_paper_rows_are_the_first_172():
    paper, everything = load_tecator(), load_tecator(rows="all")
    pd.testing.assert_frame_equal(paper.X, everything.X.iloc[:172])
    pd.testing.assert_series_equal(paper.y, everything.y.iloc[:172])


# Boston


def boston_by_hand():
    """The 104 columns with numpy only, from the 13 raw columns, by the lower triangle row by row."""
    raw = load_boston(design="raw").X.to_numpy()
    Z = (raw - raw.mean(axis=0)) / np.sqrt(((raw - raw.mean(axis=0)) ** 2).sum(axis=0) / (len(raw) - 1))
    rows, cols = np.tril_indices(13)
    X = np.hstack([Z, Z[:, rows] * Z[:, cols]])
    names = BOSTON + [
        f"{BOSTON[i]}^2" if i == j else f"{BOSTON[i]}*{BOSTON[j]}" for i, j in zip(rows, cols, strict=True)
    ]
    return X - X.mean(axis=0), names


def test_boston_raw_values():
    data = load_boston(design="raw")
    assert list(data.X.columns) == BOSTON
    first = [0.00632, 18, 2.31, 0, 0.538, 6.575, 65.2, 4.09, 1, 296, 15.3, 396.9, 4.98]
    assert data.X.iloc[0].tolist() == first
    assert data.y.iloc[0] == np.log(24.0)
    # In row 8 the corrected value (22.1) differs from the original one (27.1).
    assert data.y.iloc[7] == np.log(22.1)


def test_boston_paper_design_against_independent_reconstruction():
    data = load_boston()
    X, names = boston_by_hand()
    assert list(data.X.columns) == names
    np.testing.assert_allclose(data.X.to_numpy(), X, rtol=0, atol=1e-10)
    np.testing.assert_allclose(data.X.iloc[:, :13].std(ddof=1), 1.0, rtol=1e-12)
    assert data.X.iloc[:, 13:].std(ddof=1).max() > 2.0  # the products are not rescaled


def test_boston_numbering_of_the_paper():
    data = load_boston()
    raw = load_boston(design="raw").X
    Z = (raw - raw.mean()) / raw.std()
    for number, first, second in [(61, "TAX", "INDUS"), (86, "B", "AGE")]:
        assert data.X.columns[number - 1] == f"{first}*{second}"
        product = Z[first] * Z[second]
        np.testing.assert_allclose(data.X.iloc[:, number - 1], product - product.mean(), atol=1e-12)
    assert [data.X.columns[k - 1] for k in (14, 15, 16, 104)] == ["CRIM^2", "ZN*CRIM", "ZN^2", "LSTAT^2"]


def test_boston_chas_squared_is_perfectly_correlated_with_chas():
    X = load_boston().X
    assert list(X.columns[[3, 22]]) == ["CHAS", "CHAS^2"]
    assert np.corrcoef(X["CHAS"], X["CHAS^2"])[0, 1] == pytest.approx(1.0, abs=1e-12)


def test_boston_reproduces_the_papers_leading_model_ratios():
    """Posterior ratios of three models to the first one, under the independent slab g = 100 and h = 5/104."""
    data = load_boston()
    X, y = data.X.to_numpy(), data.y.to_numpy() - data.y.mean()
    g, h, n = 100.0, 5 / 104, len(data.y)

    def log_posterior(model):
        W = X[:, np.array(model) - 1]
        A = W.T @ W + np.eye(len(model)) / g
        rest = y @ y - (W.T @ y) @ np.linalg.solve(A, W.T @ y)
        log_marginal = (
            -0.5 * len(model) * np.log(g) - 0.5 * np.linalg.slogdet(A)[1] - 0.5 * (n - 1) * np.log(rest)
        )
        return log_marginal + len(model) * np.log(h / (1 - h))

    best = [5, 6, 8, 13, 24, 29, 49, 55, 58, 67, 78, 86, 91, 97, 101]
    others = {
        0.146: [k for k in best if k != 49],
        0.023: [*best, 103],
        0.025: [5, 6, 8, 13, 29, 49, 50, 55, 59, 78, 86, 91, 97, 101],
        0.017: [5, 6, 8, 11, 12, 13, 29, 49, 50, 55, 59, 61, 86, 97, 101],
    }
    for expected, model in others.items():
        assert 0.243 * np.exp(log_posterior(model) - log_posterior(best)) == pytest.approx(expected, abs=6e-4)


def test_boston_says_what_b_is():
    assert "built on race" in load_boston().note
    assert load_boston.__doc__ is not None
    assert "built on race" in load_boston.__doc__


# Growth and US crime


def test_growth_values():
    data = load_growth()
    assert data.X.index.name == "country"
    assert list(data.X.index[:3]) == ["DZ", "AR", "AU"]
    assert list(data.X.columns[:3]) == ["Abslat", "Spanish", "French"]
    assert data.X.columns[-1] == "BlMktPm"
    assert data.X.loc["DZ", "GDP60"] == 7.439
    assert data.y["DZ"] == 0.01369


def test_uscrime_values():
    logged, raw = load_uscrime(), load_uscrime(log=False)
    assert list(logged.X.columns) == list(raw.X.columns) == USCRIME
    assert raw.X.iloc[0, :4].tolist() == [151, 1, 91, 58]
    assert raw.y.iloc[0] == 791
    np.testing.assert_allclose(logged.y, np.log(raw.y))
    for name in USCRIME:
        np.testing.assert_allclose(logged.X[name], raw.X[name] if name == "So" else np.log(raw.X[name]))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: load_tecator(rows="first"), DataError, ["rows", "'first'"]),
        (lambda: load_tecator(rows=172), ArgumentTypeError, ["rows", "172"]),
        (lambda: load_tecator(response="salt"), DataError, ["response", "'salt'"]),
        (lambda: load_boston(design="104"), DataError, ["design", "'104'"]),
        (lambda: load_boston(design=None), ArgumentTypeError, ["design", "None"]),
        (lambda: load_uscrime(log="yes"), ArgumentTypeError, ["log", "'yes'"]),
    ],
)
def test_loaders_refuse_bad_arguments(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words)


# Simulators


def standard_error(r, n):
    """Large-sample standard error of an empirical correlation of normal variables."""
    return (1 - r**2) / np.sqrt(n)


def test_ar_truth():
    n, p, snr = 200, 1000, 1.5
    data = simulate_ar(n=n, p=p, snr=snr)
    assert list(data.X.columns[[0, 9, 999]]) == ["x0001", "x0010", "x1000"]
    assert data.truth.index.equals(data.X.columns)
    expected = snr * np.sqrt(np.log(p) / n) * np.array([2, -3, 2, 2, -3, 3, -2, 3, -2, 3])
    np.testing.assert_allclose(data.truth.iloc[:10], expected)
    assert (data.truth.iloc[10:] == 0).all()


def test_ar_defaults():
    data = simulate_ar()
    assert data.X.shape == (500, 5000)


@pytest.mark.parametrize("rho", [0.6, 0.0, -0.5, 0.95])
def test_ar_correlations(rho):
    n, p = 4000, 20
    data = simulate_ar(n=n, p=p, correlation=rho, seed=3)
    lags = np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    expected = np.float_power(rho, lags) if rho >= 0 else np.sign(rho) ** lags * np.abs(rho) ** lags
    error = np.corrcoef(data.X.to_numpy(), rowvar=False) - expected
    off = ~np.eye(p, dtype=bool)
    assert np.max(np.abs(error[off]) / standard_error(expected[off], n)) < 5
    assert np.max(np.abs(data.X.var() - 1)) < 5 * np.sqrt(2 / n)
    assert np.max(np.abs(data.X.mean())) < 5 / np.sqrt(n)


def test_ar_response_has_unit_noise_around_the_truth():
    n = 4000
    data = simulate_ar(n=n, p=20, seed=5)
    residual = data.y - data.X @ data.truth
    assert abs(residual.mean()) < 5 / np.sqrt(n)
    assert abs(residual.var() - 1) < 5 * np.sqrt(2 / n)
    assert np.max(np.abs(data.X.corrwith(residual))) < 5 / np.sqrt(n)


def test_blocks_truth():
    n, p, block, noise = 80, 1003, 20, 2.0
    data = simulate_blocks(n=n, p=p, block=block, effects=4, weak=10, noise=noise, seed=2)
    assert data.truth.index.equals(data.X.columns)
    where = np.flatnonzero(data.truth)
    assert len(set(where // block)) == len(where) == 14
    unit = noise * np.sqrt(np.log(p) / n)
    sizes = np.sort(np.abs(data.truth.iloc[where]))
    np.testing.assert_allclose(sizes, unit * np.repeat([1.0, 4.0], [10, 4]))
    assert set(np.sign(data.truth.iloc[where])) == {-1.0, 1.0}


def test_blocks_with_an_effect_in_every_block_including_the_short_last_one():
    for seed in range(20):
        truth = simulate_blocks(n=5, p=23, block=10, effects=3, seed=seed).truth
        assert sorted(np.flatnonzero(truth) // 10) == [0, 1, 2]


def test_blocks_take_given_coefficients():
    for effects in ([0.5, -2.0, 3.0], (0.5, -2.0, 3.0), np.array([0.5, -2.0, 3.0])):
        truth = simulate_blocks(n=20, p=100, block=10, effects=effects, seed=4).truth
        assert sorted(truth[truth != 0]) == [-2.0, 0.5, 3.0]
    truth = simulate_blocks(n=20, p=100, block=10, effects=[7.0], weak=2, seed=4).truth
    assert (truth != 0).sum() == 3
    assert truth.max() == 7.0
    assert (simulate_blocks(n=20, p=100, effects=0).truth == 0).all()
    assert (simulate_blocks(n=20, p=100, effects=[]).truth == 0).all()


@pytest.mark.parametrize("rho", [0.9, 0.3, 0.0])
def test_blocks_correlations(rho):
    n, p, block = 4000, 23, 5
    data = simulate_blocks(n=n, p=p, block=block, correlation=rho, seed=7)
    same = np.equal.outer(np.arange(p) // block, np.arange(p) // block)
    expected = np.where(same, rho, 0.0)
    error = np.corrcoef(data.X.to_numpy(), rowvar=False) - expected
    off = ~np.eye(p, dtype=bool)
    assert np.max(np.abs(error[off]) / standard_error(expected[off], n)) < 5
    assert np.max(np.abs(data.X.var() - 1)) < 5 * np.sqrt(2 / n)


def test_blocks_with_correlation_one_are_copies():
    X = simulate_blocks(n=10, p=7, block=3, correlation=1.0, effects=1).X.to_numpy()
    assert (X[:, 0] == X[:, 2]).all()
    assert (X[:, 3] != X[:, 2]).all()
    assert np.linalg.matrix_rank(X) == 3


def test_blocks_noise():
    n = 4000
    data = simulate_blocks(n=n, p=30, block=5, noise=3.0, seed=8)
    residual = data.y - data.X @ data.truth
    assert abs(residual.var() / 9 - 1) < 5 * np.sqrt(2 / n)


def test_blocks_default_is_the_size_of_the_papers_pcr_example():
    data = simulate_blocks()
    assert data.X.shape == (60, 22576)
    assert (data.truth != 0).sum() == 2


@pytest.mark.parametrize("simulate", [simulate_ar, simulate_blocks])
def test_simulators_are_reproducible_by_seed(simulate):
    first, again, other = (simulate(n=20, p=100, seed=s) for s in (1, 1, 2))
    pd.testing.assert_frame_equal(first.X, again.X)
    pd.testing.assert_series_equal(first.y, again.y)
    pd.testing.assert_series_equal(first.truth, again.truth)
    assert not np.allclose(first.X, other.X)
    assert not np.allclose(first.y, other.y)
    generator = simulate(n=20, p=100, seed=np.random.default_rng(1))
    pd.testing.assert_frame_equal(first.X, generator.X)
    assert not np.allclose(simulate(n=20, p=100, seed=None).X, simulate(n=20, p=100, seed=None).X)


BAD = [
    (simulate_ar, "n", 1, DataError),
    (simulate_ar, "p", 9, DataError),
    (simulate_ar, "p", 50.0, ArgumentTypeError),
    (simulate_ar, "correlation", 1.0, DataError),
    (simulate_ar, "correlation", -1.5, DataError),
    (simulate_ar, "correlation", float("nan"), DataError),
    (simulate_ar, "correlation", "0.6", ArgumentTypeError),
    (simulate_ar, "snr", -1.0, DataError),
    (simulate_ar, "snr", True, ArgumentTypeError),
    (simulate_ar, "seed", -1, DataError),
    (simulate_ar, "seed", 1.5, ArgumentTypeError),
    (simulate_blocks, "n", 0, DataError),
    (simulate_blocks, "n", True, ArgumentTypeError),
    (simulate_blocks, "p", 1, DataError),
    (simulate_blocks, "block", 0, DataError),
    (simulate_blocks, "block", None, ArgumentTypeError),
    (simulate_blocks, "correlation", -0.1, DataError),
    (simulate_blocks, "correlation", 1.1, DataError),
    (simulate_blocks, "effects", -1, DataError),
    (simulate_blocks, "effects", 4, DataError),
    (simulate_blocks, "effects", True, ArgumentTypeError),
    (simulate_blocks, "effects", 2.5, ArgumentTypeError),
    (simulate_blocks, "effects", "two", ArgumentTypeError),
    (simulate_blocks, "effects", [1.0, "a"], ArgumentTypeError),
    (simulate_blocks, "effects", [1.0, float("inf")], DataError),
    (simulate_blocks, "effects", [1.0, 0.0], DataError),
    (simulate_blocks, "effects", np.ones((2, 2)), DataError),
    (simulate_blocks, "weak", 2, DataError),
    (simulate_blocks, "weak", -1, DataError),
    (simulate_blocks, "noise", 0.0, DataError),
    (simulate_blocks, "noise", float("inf"), DataError),
    (simulate_blocks, "seed", "0", ArgumentTypeError),
]


@pytest.mark.parametrize(("simulate", "name", "value", "error"), BAD)
def test_simulators_refuse_bad_arguments(simulate, name, value, error):
    """With p = 50 there are three blocks, so a fourth effect in a block of its own has no place."""
    with pytest.raises(error) as caught:
        simulate(**{"n": 20, "p": 50, name: value})
    message = str(caught.value)
    assert name in message
    if np.ndim(value) == 0:
        assert str(value) in message


def test_breast_cancer_has_words_for_a_response():
    data = load_breast_cancer()
    assert data.X.shape == (569, 30)
    assert np.isfinite(data.X.to_numpy()).all()
    assert set(data.y) == {"benign", "malignant"}
    assert data.y[data.X["mean_radius"] > 20].eq("malignant").all()
    assert "CC BY 4.0" in data.note


def test_doctor_visits_vary_more_than_their_mean():
    y = load_doctor_visits().y
    assert (y == y.round()).all()
    assert y.var() > 5 * y.mean()
