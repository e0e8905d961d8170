"""Rows with missing values are left out when asked, and what that costs is said."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import whichvars as wv
from whichvars.errors import DataError, DataWarning

N = 30
RNG = np.random.default_rng(3)
X = pd.DataFrame(
    {"a": RNG.normal(size=N), "b": RNG.normal(size=N), "g": np.array(RNG.choice(["u", "v", "w"], N), object)}
)
Y = pd.Series(X["a"] + RNG.normal(size=N), name="y")


def holed() -> tuple[pd.DataFrame, pd.Series]:
    frame, y = X.copy(), Y.copy()
    frame.loc[[2, 5], "a"] = np.nan
    frame.loc[[5, 9], "g"] = None
    y[[11]] = np.nan
    return frame, y


@pytest.mark.parametrize("change", [lambda f: f, pl.from_pandas, lambda f: {c: f[c] for c in f}])
def test_rows_are_left_out(change: Any) -> None:
    frame, y = holed()
    keep = [i for i in range(N) if i not in (2, 5, 9, 11)]
    weights = np.linspace(1, 2, N)
    with pytest.warns(DataWarning, match="4 of 30 rows are left out"):
        problem = wv.Problem(change(frame), y.to_numpy(), weights=weights, missing="drop")
    expected = wv.exact(wv.Problem(X.iloc[keep], Y.iloc[keep], weights=weights[keep]))
    assert wv.exact(problem).pip.tobytes() == expected.pip.tobytes()
    assert problem.about_missing == (
        "The response is missing in 1 of 30 rows, which is left out.",
        "3 of 29 rows have missing values: 'a' in 2 (alone in 1), 'g' in 2 (alone in 1).",
        "4 of 30 rows are left out.",
    )


def test_what_to_do_about_missing_values_is_said() -> None:
    frame, _ = holed()
    with pytest.raises(DataError, match=r'column .a. is missing \(NaN\) in row 2 .*missing="drop", or let wv.VariableSelector\(missing="impute"\)'):  # fmt: skip
        wv.Problem(frame[["a", "b"]], Y)
    with pytest.raises(DataError, match=r'a Problem has one: use wv.VariableSelector\(missing="impute"\), or imputations = wv.impute'):  # fmt: skip
        wv.Problem(frame, Y, missing="impute")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="missing must be 'error' or 'drop', not 'leave'"):
        wv.Problem(frame, Y, missing="leave")  # type: ignore[arg-type]


def test_one_row_is_written_as_one() -> None:
    frame = X.copy()
    frame.loc[4, "a"] = np.nan
    with pytest.warns(DataWarning, match="1 of 30 rows has missing values: .* 1 of 30 rows is left out"):
        wv.Problem(frame, Y, missing="drop")
    assert repr(wv.Problem(X[["a"]], Y)).startswith("Problem(1 variable, 30 rows;")
    assert str(wv.exact(wv.Problem(X[["a"]], Y))).startswith("Posterior of 1 variable by")


def test_arrays_offsets_and_trials() -> None:
    array = X[["a", "b"]].to_numpy().copy()
    array[4, 0] = np.nan
    trials, offset = RNG.integers(3, 6, N), np.linspace(0, 1, N)
    successes = RNG.integers(0, 4, N)
    keep = np.arange(N) != 4
    with pytest.warns(DataWarning):
        problem = wv.Problem(
            array, successes, family=wv.Logistic(trials=trials), offset=offset, missing="drop"
        )
    expected = wv.Problem(
        array[keep], successes[keep], family=wv.Logistic(trials=trials[keep]), offset=offset[keep]
    )
    assert wv.exact(problem).pip.tobytes() == wv.exact(expected).pip.tobytes()


def test_extremes() -> None:
    empty = X.assign(none=np.nan)
    with pytest.warns(DataWarning, match="Left out columns without any value: 'none'"):
        assert wv.Problem(empty, Y, missing="drop").names == ["a", "b", "g"]
    few = X.copy()
    few.loc[2:, "b"] = np.nan
    with (
        pytest.warns(DataWarning, match="'b' is missing in 93% of the rows"),
        pytest.raises(DataError, match="X has 2 rows; at least 3 are needed"),
    ):
        wv.Problem(few, Y, missing="drop")
    all_rows = X.copy()
    all_rows.loc[::2, "a"] = np.nan
    all_rows.loc[1::2, "b"] = np.nan
    with pytest.raises(
        DataError, match="every row has a missing value; column 'a' has the most: leave it out"
    ):
        wv.Problem(all_rows, Y, missing="drop")
    with pytest.raises(DataError, match="the response is missing in every row"):
        wv.Problem(X, Y * np.nan, missing="drop")
    with pytest.raises(DataError, match="missing must be 'error' or 'drop', not 'mean'"):
        wv.Problem(X, Y, missing="mean")
    with pytest.raises(DataError, match="X has 30 rows but y has 29"):
        wv.Problem(X, Y[:-1], missing="drop")
