"""Imputation: draws that are as uncertain as they should be, pooled posteriors, and awkward tables."""

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import whichvars as wv
from whichvars.cli import main
from whichvars.data import chained
from whichvars.data.chained import (
    Chain,
    Kinds,
    Regression,
    draw_category,
    draw_count,
    draw_number,
    kind_of,
    sums_of,
)
from whichvars.data.imputing import encode_alike
from whichvars.data.logistic import Predictors
from whichvars.errors import ArgumentTypeError, DataError, DataWarning


def simulated(
    n: int = 150, share: float = 0.2, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """A table of numbers, a flag, counts and a category; the same with holes; and a response."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    b = 0.8 * a + 0.6 * rng.normal(size=n)
    X = pd.DataFrame(
        {
            "a": a,
            "b": b,
            "flag": (a + rng.logistic(size=n) > 0).astype(float),
            "count": rng.poisson(np.exp(0.5 * b)).astype(float),
            "g": np.array(["low", "mid", "high"], object)[np.digitize(b + 0.5 * rng.normal(size=n), [-1, 1])],
        }
    )
    y = X["a"] + 1.0 * (X["g"] == "high") + rng.normal(size=n)
    return X, X.mask(rng.random(X.shape) < share), y.to_numpy()


def posterior_of(X: pd.DataFrame, y: Any, **settings: Any) -> wv.PooledPosterior:
    made = wv.impute(X, y, **settings)
    return wv.pool([wv.exact(wv.Problem(Xi, made.y)) for Xi in made], made)


# --- draws


def test_numbers_have_the_spread_of_the_predictive_distribution() -> None:
    """With few rows the uncertainty about parameters is a large part: a t distribution, wider than with estimates for parameters."""
    rng = np.random.default_rng(1)
    n = 12
    Z = rng.normal(size=(n, 1))
    Z = (Z - Z.mean()) / Z.std()
    x = 2 * Z[:, 0] + rng.normal(size=n)
    new = np.array([[3.0]])
    tau2 = 1e8  # as good as flat
    draws = np.array([draw_number(sums_of(Z, x), new, tau2, rng)[0][0] for _ in range(20_000)])
    slope = Z[:, 0] @ (x - x.mean()) / n
    left = ((x - x.mean() - slope * Z[:, 0]) ** 2).sum()
    # σ² is left/χ² with n − 1 degrees of freedom, as β has a (nearly flat) proper prior
    variance = left / (n - 3) * (1 + 1 / n + 9 / n)
    assert draws.mean() == pytest.approx(x.mean() + 3 * slope, abs=4 * np.sqrt(variance / 20_000))
    # the variance of the variance of a t distribution with 11 degrees of freedom: kurtosis 3 + 6/7
    error = variance * np.sqrt((3 + 6 / 7 - 1) / 20_000)
    assert draws.var() == pytest.approx(variance, abs=4 * error)


def test_shares_of_levels_are_drawn_with_their_uncertainty() -> None:
    rng = np.random.default_rng(2)
    x = np.repeat([0.0, 1.0, 2.0], [20, 15, 5])
    fit = Regression(
        Predictors(np.zeros((40, 1)), np.zeros(0, int), *np.zeros((2, 0))), np.ones(40, bool), x, None
    )
    shares = np.array([
        np.bincount(draw_category(fit, np.zeros((200, 0)), rng, {}).astype(int), minlength=3) / 200 for _ in range(2000)
    ])  # fmt: skip
    expected = np.array([20, 15, 5]) / 40
    # of the share, and of the number of 200 that are drawn with it
    spread = np.sqrt(expected * (1 - expected) * (1 / 40 + 1 / 200))
    # the normal approximation of a posterior of log odds is a little skewed back to shares
    np.testing.assert_allclose(shares.mean(axis=0), expected, atol=0.015)
    np.testing.assert_allclose(shares.std(axis=0), spread, rtol=0.2)


def test_counts_are_values_that_occur() -> None:
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(200, 1))
    x = rng.poisson(np.exp(1 + Z[:, 0])).astype(float)
    predictors = Predictors(Z, np.array([0]), np.zeros(1), np.ones(1))
    fit = Regression(predictors, np.ones(200, bool), x, sums_of(Z, np.log1p(x)))
    drawn, _ = draw_count(fit, x, np.linspace(-3, 3, 500)[:, None], 1.0, rng)
    assert set(drawn) <= set(x)
    assert drawn[:100].mean() < 1 < 5 < drawn[-100:].mean()
    assert [kind_of(np.array(v)) for v in ([0.0, 1, np.nan], [0.0, 2, 5], [0.5, 1], [-1.0, 2])] == [
        "binary", "count", "number", "number",
    ]  # fmt: skip


def test_chains_keep_what_was_observed_and_how_columns_go_together() -> None:
    X, holed, _ = simulated(400, 0.3, seed=4)
    codes = X.assign(g=X["g"].map({"low": 0.0, "mid": 1.0, "high": 2.0})).to_numpy(dtype=float)
    gaps = holed.isna().to_numpy()
    values = np.where(gaps, np.nan, codes)
    kinds = Kinds(
        list(X.columns), ["number", "number", "binary", "count", "category"], {"g": ["low", "mid", "high"]}
    )
    made = []
    for i in range(10):
        chain = Chain(kinds, values, np.zeros((400, 0)), np.random.default_rng(i), np.ones(400, bool))
        for _ in range(8):
            chain.sweep()
        np.testing.assert_array_equal(chain.values[~gaps], codes[~gaps])
        made.append(np.corrcoef(chain.values.T))
    # the standard error of a correlation of 400 rows is about 0.05
    np.testing.assert_allclose(np.mean(made, axis=0), np.corrcoef(codes.T), atol=0.15)
    assert np.mean(made, axis=0)[0, 1] == pytest.approx(np.corrcoef(codes.T)[0, 1], abs=0.06)


@pytest.mark.parametrize("odd", [False, True])
def test_kept_sums_are_those_of_the_rows(odd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With kept cross-products the same cells are drawn as from the rows themselves, also of columns with large values and few of them."""
    X, holed, y = simulated(300, 0.2, seed=14)
    values = holed.assign(g=holed["g"].map({"low": 0.0, "mid": 1.0, "high": 2.0})).to_numpy(dtype=float)
    if odd:
        values[:, 0] = values[:, 0] + 1e6
        values[np.arange(300) % 10 > 0, 1] = np.nan
        # hardly any variation where the first column was observed
        values[:, 3] = np.where(np.isnan(values[:, 0]) & ~np.isnan(values[:, 3]), 1e5, values[:, 3])
    kinds = Kinds(
        list(X.columns), ["number", "number", "binary", "count", "category"], {"g": ["low", "mid", "high"]}
    )
    learn = np.arange(300) < 280
    made = []
    for least in (chained.LEAST_SPREAD, np.inf):  # the second always takes the rows themselves
        monkeypatch.setattr(chained, "LEAST_SPREAD", least)
        chain = Chain(kinds, values, y[:, None], np.random.default_rng(3), learn)
        for _ in range(3):
            chain.sweep()
        columns = (kinds.columns(chain.values, y[:, None])[0] - chain.centre) / chain.unit
        np.testing.assert_allclose(chain.columns, columns, atol=1e-8)
        np.testing.assert_allclose(chain.products, columns[learn].T @ columns[learn], atol=1e-6)
        np.testing.assert_allclose(chain.sums, columns[learn].sum(axis=0), atol=1e-6)
        made.append(chain.values)
    np.testing.assert_allclose(made[0], made[1], rtol=1e-6, atol=1e-8)


def test_tables_after_the_first_do_not_hold_its_memory() -> None:
    _, holed, y = simulated(seed=15)
    tables = encode_alike(wv.impute(holed, y, m=2), wv.Categories(), ())
    first = next(tables).X
    column = first["a"].to_numpy()
    where = weakref.ref(column if column.base is None else column.base)
    del first, column
    next(tables)
    gc.collect()
    assert where() is None


def test_the_response_belongs_to_the_models() -> None:
    """Without it, the slope of a column with half of its values missing would come out at half."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=400)
    y = x + 0.5 * rng.normal(size=400)
    X = pd.DataFrame({"x": np.where(rng.random(400) < 0.5, np.nan, x), "z": rng.normal(size=400)})
    table = posterior_of(X, y, m=10).coefficients()
    assert table.loc["x", "mean"] == pytest.approx(1, abs=4 * table.loc["x", "sd"])
    assert table.loc["x", "lower"] < 1 < table.loc["x", "upper"]
    assert table.loc["x", "missing_share"] > 0.1 > table.loc["(intercept)", "missing_share"] * 0
    blind = wv.impute(X, rng.normal(size=400), m=10)
    slopes = [wv.exact(wv.Problem(Xi, y)).coefficients(interval=None).loc["x", "mean"] for Xi in blind]
    assert np.mean(slopes) < 0.7


# --- pooled posteriors


def test_without_holes_it_is_the_posterior_of_the_table() -> None:
    X, _, y = simulated()
    whole = wv.exact(wv.Problem(X, y))
    pooled = posterior_of(X, y, m=2)
    # the order of levels is that of the table
    assert pooled.names == whole.problem.names
    np.testing.assert_allclose(pooled.pip, whole.pip, rtol=1e-10)
    assert not pooled.imputation_error.any()
    np.testing.assert_allclose(pooled.predict(X), whole.predict(X), rtol=1e-9)
    assert pooled.imputations.notes == (
        "Column 'g' is a category with 3 levels (high, low, mid); they enter together, compared with 'high'.",
    )


def test_the_same_seed_gives_the_same_bits_and_few_holes_change_little() -> None:
    X, holed, y = simulated()
    one, again, other = (posterior_of(holed, y, m=3, seed=s) for s in (0, 0, 1))
    assert one.pip.tobytes() == again.pip.tobytes() != other.pip.tobytes()
    assert (one.imputation_error > 0).any()
    whole = wv.exact(wv.Problem(X, y))
    few = X.copy()
    few.iloc[0, 1] = np.nan
    np.testing.assert_allclose(posterior_of(few, y).pip, whole.pip, atol=0.05)


def test_averages_and_errors_are_those_of_the_parts(tmp_path: Path) -> None:
    _, holed, y = simulated(seed=7)
    made = wv.impute(holed, y, m=4)
    parts = [
        wv.sample(wv.Problem(Xi, made.y), wv.AddDeleteSwap(), draws=2000, seed=i, progress=False)
        for i, Xi in enumerate(made)
    ]
    pooled = wv.pool(parts, made)
    pips = np.array([part.pip for part in parts])
    np.testing.assert_allclose(pooled.pip, pips.mean(axis=0))
    np.testing.assert_allclose(pooled.imputation_error, pips.std(axis=0, ddof=1) / 2)
    np.testing.assert_allclose(pooled.mcse, np.sqrt(np.sum([p.mcse**2 for p in parts], axis=0)) / 4)
    tables = [part.coefficients() for part in parts]
    table = pooled.coefficients(interval=0.9)
    means = np.array([t["mean"] for t in tables])
    within = np.mean([t["sd"] ** 2 for t in tables], axis=0)
    # Rubin's rule: (1 + 1/m) times the variance between imputations, which is known from m of them
    m = len(tables)
    np.testing.assert_allclose(table["sd"], np.sqrt(within + (1 + 1 / m) * means.var(axis=0, ddof=1)))
    assert ((table["lower"] <= table["mean"]) & (table["mean"] <= table["upper"])).all()
    summary = pooled.summary()
    assert summary.index[0] == pooled.inclusion_probabilities.idxmax()
    assert np.isnan(summary.loc["g", "mean"])
    assert summary.loc["a", "mean"] == table.loc["a", "mean"]
    assert "missing at random" in pooled.explain()
    pooled.save(tmp_path / "p.npz")
    again = wv.PooledPosterior.load(tmp_path / "p.npz")
    assert again.predict(holed).tobytes() == pooled.predict(holed).tobytes()
    assert "pip" in repr(again)
    # what was observed is kept once, and every completed table by the cells that were missing
    assert [cells.shape for cells in again.imputations.values.cells] == [(int(made.gaps.sum()),)] * 4
    for one, two in zip(made, again.imputations):
        pd.testing.assert_frame_equal(one, two)
    with pytest.raises(ArgumentTypeError, match="pool needs posteriors"):
        wv.pool([])
    with pytest.raises(DataError, match="posterior 2 has other variables than the first"):
        wv.pool([parts[0], wv.exact(wv.Problem(holed[["a"]].fillna(0), y))])
    with pytest.raises(DataError, match="there are 2 posteriors but 4 imputations"):
        wv.pool(parts[:2], made)


def test_new_rows_with_holes_are_less_certain() -> None:
    X, holed, y = simulated(300, 0.15, seed=8)
    pooled = posterior_of(holed, y)
    mean, std, ends = pooled.predict(X.head(40), return_std=True, interval=0.9)
    assert (ends[:, 0] < mean).all()
    assert (mean < ends[:, 1]).all()
    hidden = X.head(40).assign(a=np.nan)
    _, wider = pooled.predict(hidden, return_std=True)
    assert (wider > std).mean() > 0.9
    # b says much of a, so that predictions still follow the truth
    assert np.corrcoef(pooled.predict(hidden), mean)[0, 1] > 0.7
    all_hidden = X.head(3).assign(a=np.nan, b=np.nan, flag=np.nan, count=np.nan, g=None)
    # 100 draws of rows of which nothing is known, worth about 30 independent ones
    np.testing.assert_allclose(pooled.predict(all_hidden), y.mean(), atol=4 * y.std() / np.sqrt(30))
    with pytest.raises(DataError, match="'g' has 'huge' in row 0"):
        pooled.predict(X.head(1).assign(g="huge"))


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_other_families(family: str) -> None:
    _, holed, y = simulated(seed=9)
    response: Any = (
        np.where(y > 0, "yes", "no")
        if family == "logistic"
        else np.random.default_rng(0).poisson(np.exp(y / 2))
    )
    made = wv.impute(holed, response, m=2)
    pooled = wv.pool([wv.exact(wv.Problem(Xi, made.y, family=family)) for Xi in made], made)
    mean, ends = pooled.predict(holed.head(5), interval=0.9)
    assert ((ends[:, 0] < mean) & (mean < ends[:, 1])).all()
    assert pooled.inclusion_probabilities["a"] > 0.5


# --- awkward tables


def test_extremes() -> None:
    X, holed, y = simulated(10, 0.2, seed=10)
    assert posterior_of(holed[["a", "b"]], y, m=2).names == ["a", "b"]
    # every row has a hole
    everywhere = X[["a", "b"]].copy()
    everywhere.loc[::2, "a"] = np.nan
    everywhere.loc[1::2, "b"] = np.nan
    assert np.isfinite(posterior_of(everywhere, y, m=2).pip).all()
    # a column without any value, one with a single value, and one level
    odd = X.assign(none=np.nan, once=[2.5] + [np.nan] * 9, same="u", x=np.arange(10) % 4)
    made = wv.impute(odd.drop(columns="g"), y, m=1)
    assert "Left out columns without any value: 'none'." in made.notes
    assert "Column 'same' contains only one word and is left out." in made.notes
    assert "Column 'once' is missing in 90% of the rows; what it says rests on the others." in made.notes
    assert next(iter(made))["once"].tolist() == [2.5] * 10 or np.isfinite(next(iter(made))["once"]).all()
    # more columns than rows
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(20, 60))
    wide[rng.random(wide.shape) < 0.1] = np.nan
    assert all(np.isfinite(Xi.to_numpy()).all() for Xi in wv.impute(wide, rng.normal(size=20), m=2))
    # a response with holes
    hollow = np.where(np.arange(10) == 4, np.nan, y)
    made = wv.impute(holed[["a", "b"]], hollow, m=1)
    assert made.rows.tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert made.notes[0] == "The response is missing in 1 of 10 rows, which is left out."
    for arguments, message in (
        ((X, y * np.nan), "the response is missing in every row"),
        ((X[["a"]] * np.nan, y), "no column of X has any value"),
        ((X, y[:-1]), "X has 10 rows but y has 9"),
        ((X[["a"]].assign(a=np.inf), y), "X column 'a' is infinite in row 0"),
        ((X, list("abcdefghij")), "y contains words of 10 kinds"),
    ):
        with pytest.raises(DataError, match=message):
            wv.impute(*arguments)
    with pytest.raises(DataError, match="m must be a whole number of at least 1, not 0"):
        wv.impute(X, y, m=0)


def test_estimators_say_what_imputing_does_not_mend() -> None:
    rng = np.random.default_rng(8)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    y = pd.Series(rng.normal(size=40))
    X.loc[:25, "b"], y[39] = np.nan, np.nan
    selector = wv.VariableSelector(missing="impute", imputations=2)
    with pytest.warns(DataWarning, match="missing in 1 of 40 rows, which is left out. Column 'b' is missing in 67% of the rows"):  # fmt: skip
        selector.fit(X, y)
    made = selector.posterior_.imputations
    assert repr(made) == "Imputations(2 tables of 39 rows and 3 columns, 26 cells filled in)"


def test_two_hundred_levels_with_holes() -> None:
    rng = np.random.default_rng(11)
    city = np.array([f"city {i}" for i in rng.integers(0, 200, 1000)], object)
    X = pd.DataFrame({"city": np.where(rng.random(1000) < 0.1, None, city), "x": rng.normal(size=1000)})
    made = wv.impute(X, rng.normal(size=1000), m=1, sweeps=2, categories=["city"])
    assert next(iter(made))["city"].nunique() == len(set(city) - {None})
    lumped = wv.impute(
        X, rng.normal(size=1000), m=1, sweeps=2, categories=wv.Categories(["city"], lump=0.006)
    )
    assert "(other)" in set(next(iter(lumped))["city"])


def test_indicators_say_where_values_were_missing() -> None:
    _, holed, y = simulated(seed=12)
    made = wv.impute(holed, y, m=1, indicators=True)
    frame = next(iter(made))
    for name in holed:
        assert frame[f"{name} missing"].tolist() == holed[name].isna().astype(float).tolist()
    pooled = wv.pool([wv.exact(wv.Problem(frame, made.y))], made)
    assert np.isfinite(pooled.predict(holed)).all()
    assert np.isnan(pooled.imputation_error).all()  # it cannot be known from one imputation


# --- estimators and the command line


def test_estimators_and_command_line_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, holed, y = simulated(seed=13)
    expected = posterior_of(holed, y, m=3)
    fitted = wv.VariableSelector(missing="impute", imputations=3, sampler="exact").fit(holed, y)
    assert fitted.posterior_.pip.tobytes() == expected.pip.tobytes()
    np.testing.assert_array_equal(fitted.predict(holed), expected.predict(holed))
    assert fitted.get_support().tolist() == (expected.pip >= 0.5).tolist()
    monkeypatch.chdir(tmp_path)
    holed.assign(y=y).to_parquet("a.parquet")
    run = CliRunner().invoke(
        main, ["exact", "a.parquet", "-y", "y", "--missing", "impute", "--imputations", "3", "--out", "run"]
    )
    assert run.exit_code == 0, run.output
    assert "imputation error" in run.output
    summary = pd.read_csv("run/summary.csv", index_col="variable")
    np.testing.assert_allclose(summary["pip"][expected.names], expected.pip, rtol=1e-12)
    settings = json.loads(Path("run/settings.json").read_text())
    assert settings["missing"] == {
        "how": "impute", "imputations": 3, "rows_read": 150, "rows_used": 150,
        "cells_imputed": int(holed.isna().sum().sum()),
    }  # fmt: skip
    done = CliRunner().invoke(main, ["predict", "run", "a.parquet", "--out", "p.csv"])
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(pd.read_csv("p.csv")["mean"], expected.predict(holed), rtol=1e-10)
    array = holed[["a", "b"]].to_numpy()
    by_array = wv.VariableSelector(missing="impute", imputations=2).fit(array, y)
    assert np.isfinite(by_array.predict(array)).all()
    labels = wv.VariableSelectorClassifier(missing="impute", imputations=2).fit(holed, y > 0)
    assert labels.predict_proba(holed).shape == (150, 2)
    with pytest.raises(DataError, match="missing must be"):
        wv.VariableSelector(missing="mean").fit(holed, y)
    dropped = wv.VariableSelector(missing="drop").fit(holed, y)
    assert dropped.posterior_.problem.n == len(holed.dropna())


def test_two_runs_with_imputed_values_are_compared_with_the_errors_of_imputation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(11)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    table = X.mask(rng.random(X.shape) < 0.15).assign(y=3 * X["a"] + rng.normal(size=60))
    table.to_csv("data.csv", index=False)
    run = ["fit", "data.csv", "-y", "y", "--missing", "impute", "--imputations", "3", "--no-report", "--budget", "4000"]  # fmt: skip
    for seed in ("1", "2"):
        result = CliRunner().invoke(main, [*run, "--seed", seed, "--out", f"run{seed}"])
        assert result.exit_code in (0, 3), result.output
        assert "nan" not in result.output
    runs = [json.loads(Path(f"run{seed}/settings.json").read_text()) for seed in (1, 2)]
    assert all(found["problem"]["rows"] == 60 for found in runs)
    result = CliRunner().invoke(main, ["compare", "run1", "run2", "--json"])
    for row in json.loads(result.output)["variables"]:
        if row["errors"] is not None and abs(row["difference"]) > 1e-3:
            assert abs(row["errors"]) < 6, (
                row
            )  # by the errors of sampling alone, which are 0, they would be infinite
    shown = CliRunner().invoke(main, ["compare", "run1", "run2"]).output
    assert "-0.0 " not in shown
