"""Residuals name what a linear model does not reproduce, and are silent where it is right."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import whichvars as wv
from whichvars.cli import main
from whichvars.errors import DataError
from whichvars.posterior.residual_checks import ResidualCheck

N = 300


def table(seed: int = 0) -> tuple[pd.DataFrame, np.random.Generator]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=N), "b": rng.normal(size=N), "g": rng.choice(["u", "v"], N)})
    return X, rng


def check(X: pd.DataFrame, y: np.ndarray) -> ResidualCheck:
    return wv.exact(wv.Problem(X, y)).residual_check(X, y)


def test_nothing_is_said_of_data_that_fit() -> None:
    for seed in range(5):
        X, rng = table(seed)
        found = check(X, (X["a"] + rng.normal(size=N)).to_numpy())
        assert found.remarks == ()
        assert found.loo_r_squared < found.r_squared
        assert found.r_squared == pytest.approx(0.5, abs=0.15)


def test_departures_are_named() -> None:
    X, rng = table()
    skewed = check(X, np.exp(X["a"] + rng.normal(size=N)).to_numpy())
    assert "The residuals are skewed" in skewed.remarks[0]
    assert "y = np.log(y)" in skewed.remarks[0]
    heavy = check(X, X["a"].to_numpy() + rng.standard_t(2, N))
    assert any("heavier tails" in remark or "skewed" in remark for remark in heavy.remarks)
    fan = check(X, (X["a"] + np.exp(X["a"]) * rng.normal(size=N)).to_numpy())
    assert any("the variance is not constant" in remark for remark in fan.remarks)
    curved = check(X, (2 * X["a"] + X["a"] ** 2 + rng.normal(size=N)).to_numpy())
    assert any("The effect of 'a' seems to be curved" in remark for remark in curved.remarks)
    assert any("A spline may fit better: expand=[wv.spline('a')]." in remark for remark in curved.remarks)
    assert not any("'b'" in remark for remark in curved.remarks)
    y = (X["a"] + rng.normal(size=N)).to_numpy().copy()
    y[17] += 9
    away = check(X.set_axis([f"person {i}" for i in range(N)]), y)
    assert away.outliers == ("person 17",)
    assert "Row person 17 is far from its fitted value." in away.remarks


def test_a_row_that_decides_which_models_are_good() -> None:
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40)})
    for b, added in ((12, 8), (40, 20)):
        X.loc[7, "b"] = b
        y = X["a"] + rng.normal(size=40)
        y[7] += added
        found = check(X, y.to_numpy())
        assert found.influential == (7,)
        words = "Row 7 is influential: without it, fitted values or the best models would be different."
        assert words in found.remarks


def test_logarithms_of_the_response(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, rng = table(1)
    price = np.exp(10 + X["a"] + 0.5 * rng.normal(size=N)).to_numpy()
    fitted = wv.VariableSelector().fit(X, price)
    assert any("log_response=True" in remark for remark in fitted.remarks_)
    logged = wv.VariableSelector(log_response=True).fit(X, price)
    assert logged.remarks_ == []
    middle, ends = logged.predict(X, interval=0.9)
    inside = ((ends[:, 0] < price) & (price < ends[:, 1])).mean()
    assert inside == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / N))
    assert (price > middle).mean() == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / N))
    assert logged.score(X, price) > fitted.score(X, price)
    with pytest.raises(DataError, match="y is -1 in row 2, and log_response=True needs positive numbers"):
        wv.VariableSelector(log_response=True).fit(X, np.where(np.arange(N) == 2, -1, price))
    with pytest.raises(DataError, match="leave out return_std"):
        logged.predict(X, return_std=True)
    monkeypatch.chdir(tmp_path)
    X.assign(price=price).to_csv("a.csv", index=False)
    raw = CliRunner().invoke(main, ["exact", "a.csv", "-y", "price", "--no-report", "--out", "raw"])
    assert "The logarithm of the response may fit better: --log." in raw.output
    done = CliRunner().invoke(main, ["exact", "a.csv", "-y", "price", "--no-report", "--log", "--out", "run"])
    assert done.exit_code == 0, done.output
    assert "if each row is predicted from the others" in done.output
    settings = json.loads(Path("run/settings.json").read_text())
    assert settings["transform"] == "log"
    assert settings["fit"]["remarks"] == []
    assert "regression of log(price)" in wv.Posterior.load("run/posterior.npz").methods()
    said = CliRunner().invoke(main, ["predict", "run", "a.csv", "--interval", "0.9", "--out", "p.csv"])
    assert "medians on the original scale" in said.output
    predicted = pd.read_csv("p.csv")
    np.testing.assert_allclose(predicted["median"], middle, rtol=1e-9)
    np.testing.assert_allclose(predicted[["lower", "upper"]], ends, rtol=1e-9)
    X.assign(price=price - 1e5).to_csv("b.csv", index=False)
    refused = CliRunner().invoke(main, ["exact", "b.csv", "-y", "price", "--log"])
    assert "logarithms need positive numbers" in refused.output
