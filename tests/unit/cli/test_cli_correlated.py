"""``--slab correlated:FILE``: covariances and means from a table, joined by name."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import whichvars as wv
from whichvars.cli import main

RNG = np.random.default_rng(0)
NAMES = ["a", "b", "size", "d"]
X = pd.DataFrame(RNG.normal(size=(60, 4)), columns=NAMES)
Y = 0.3 * X["a"] + 0.3 * X["b"] + RNG.normal(size=60)
SIGMA = pd.DataFrame(
    [[1.0, 0.8, 0, 0.1], [0.8, 1.2, 0, 0], [0, 0, 0.5, 0], [0.1, 0, 0, 0.7]], index=NAMES, columns=NAMES
)
MEANS = pd.Series([0.9, 0.6, 0.0, -1.4], index=NAMES, name="mean")
SHUFFLED = ["d", "b", "a", "size"]


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X.assign(y=Y).to_csv("data.csv", index=False)

    def run(*more, code=0, data="data.csv"):
        result = CliRunner().invoke(
            main, ["fit", data, "-y", "y", "--no-report", "--slab", "correlated:prior.csv", *more]
        )
        assert result.exit_code == code, result.output
        return " ".join(result.output.split())

    return run


def write(frame, separator=",", index=True, label="name"):
    frame.to_csv("prior.csv", sep=separator, index=index, index_label=label if index else None)


def pips(names=NAMES):
    return pd.read_csv("data-run/summary.csv").set_index("variable")["pip"][names].to_numpy()


def wanted(means=None):
    return wv.exact(wv.Problem(X, Y, slab=wv.CorrelatedNormal(SIGMA.to_numpy(), means))).pip


@pytest.mark.parametrize("separator", [",", "\t", ";"])
@pytest.mark.parametrize("label", ["name", ""])
def test_rows_and_columns_are_joined_by_name(call, separator, label):
    write(SIGMA.loc[SHUFFLED, NAMES[::-1]], separator, label=label)
    call()
    np.testing.assert_allclose(pips(), wanted(), rtol=1e-10)
    settings = json.loads(Path("data-run/settings.json").read_text())
    assert settings["slab_file"] == "prior.csv"
    assert settings["problem"]["slab"] == "CorrelatedNormal(4 columns)"


def test_rows_without_names_are_in_the_order_of_the_columns(call):
    write(SIGMA.loc[SHUFFLED, SHUFFLED], index=False)
    call()
    np.testing.assert_allclose(pips(), wanted(), rtol=1e-10)


def test_decimal_commas(call):
    SIGMA.to_csv("prior.csv", sep=";", decimal=",", index_label="name")
    call()
    np.testing.assert_allclose(pips(), wanted(), rtol=1e-10)


def test_means(call):
    write(SIGMA.join(MEANS).loc[SHUFFLED])
    call()
    np.testing.assert_allclose(pips(), wanted(MEANS.to_numpy()), rtol=1e-10)
    assert np.abs(pips() - wanted()).max() > 0.01


def test_a_variable_that_is_called_mean(call):
    X.rename(columns={"size": "mean"}).assign(y=Y).to_csv("data.csv", index=False)
    write(SIGMA.rename(index={"size": "mean"}, columns={"size": "mean"}))
    call()
    np.testing.assert_allclose(pips(["a", "b", "mean", "d"]), wanted(), rtol=1e-10)


def test_imputed_tables(call):
    holes = X.assign(y=Y)
    holes.loc[[2, 9], "b"] = np.nan
    holes.to_csv("data.csv", index=False)
    write(SIGMA)
    call("--missing", "impute", "--imputations", "2")
    with_file = pips()
    result = CliRunner().invoke(
        main,
        [
            "fit",
            "data.csv",
            "-y",
            "y",
            "--no-report",
            "--missing",
            "impute",
            "--imputations",
            "2",
            "--overwrite",
        ],
    )
    assert result.exit_code == 0
    assert np.abs(with_file - pips()).max() > 0.005


def test_names_that_do_not_fit_are_all_told(call):
    write(SIGMA.rename(index={"b": "bb"}, columns={"b": "bb"}).drop(index="d", columns="d"))
    said = call(code=2)
    assert "there is no 'b', 'd'; and 'bb', which the data do not have as candidates" in said
    assert "a row and a column for each candidate column: 'a', 'b', 'size', 'd'" in said
    write(SIGMA)
    assert "'a', which the data do not have as candidates" in call("--always", "a", code=2)
    assert "among its rows there is no 'd'" in _after(call, SIGMA.drop(index="d"))
    assert "'a' twice" in _after(call, pd.concat([SIGMA, SIGMA.loc[["a"]]]))


def _after(call, frame, **options):
    write(frame, **options)
    return call(code=2)


def test_other_mistakes(call):
    assert "there is no file prior.csv" in call(code=2)
    assert "has 4 columns of covariances but 3 rows" in _after(call, SIGMA.iloc[:3], index=False)
    words = SIGMA.astype(object)
    words.loc["b", "d"] = "none"
    assert "the cell in row 'b' and column 'd' is 'none'; write a number" in _after(call, words)
    crooked = SIGMA.copy()
    crooked.loc["b", "d"] = 0.3
    assert "prior.csv: CorrelatedNormal" in _after(call, crooked)
    bare = CliRunner().invoke(main, ["fit", "data.csv", "-y", "y", "--slab", "correlated"])
    assert "needs a file of covariances" in " ".join(bare.output.split())
    write(SIGMA)
    assert "CorrelatedNormal" in call("--family", "student", code=2)
    many = CliRunner().invoke(
        main, ["fit", "data.csv", "--responses", "y,d", "--no-report", "--slab", "correlated:prior.csv"]
    )
    assert "leave out --responses" in " ".join(many.output.split())
