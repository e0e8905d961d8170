"""Dates as variables: what they become, the notations that are read, and the messages if they cannot be."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import whichvars as wv
from whichvars.cli import main
from whichvars.errors import ArgumentTypeError, DataError

N = 150


def table() -> tuple[pd.DataFrame, np.ndarray]:
    """Dates of two years, a number, and a response that is larger on Sundays and grows."""
    rng = np.random.default_rng(0)
    when = pd.Timestamp("2023-03-01") + pd.to_timedelta(np.sort(rng.integers(0, 730, N)), unit="D")
    frame = pd.DataFrame({"when": when, "x": rng.normal(size=N)})
    y = 0.01 * np.arange(N) + 2.0 * (frame["when"].dt.day_of_week == 6) + 0.5 * rng.normal(size=N)
    return frame, y.to_numpy()


def problem(frame: Any, y: Any, **settings: Any) -> wv.Problem:
    return wv.Problem(frame, y, expand=[wv.date("when")], **settings)


def test_the_columns_are_those_of_the_calendar() -> None:
    frame, y = table()
    made = problem(frame, y)
    assert made.names == ["when days", "when month", "when weekday", "when season", "x"]
    assert made.reference_levels == {"when month": "Jan", "when weekday": "Mon"}
    X = made.encoding.apply_to_new(frame)
    dates = frame["when"].dt
    np.testing.assert_array_equal(X["when days"], (frame["when"] - frame["when"].min()).dt.days)
    for i, month in enumerate(["Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]):
        np.testing.assert_array_equal(X[f"when month={month}"], dates.month == i + 2)
    for i, day in enumerate(["Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]):
        np.testing.assert_array_equal(X[f"when weekday={day}"], dates.day_of_week == i + 1)
    # a year later the season is the same, half a year later it is the opposite
    later = frame.head(1).assign(when=frame["when"][0] + pd.to_timedelta(365.2425, unit="D"))
    season = ["when season cos", "when season sin"]
    first = X.loc[0, season].to_numpy(dtype=float)
    np.testing.assert_allclose(made.encoding.apply_to_new(later)[season].iloc[0], first, atol=1e-9)
    opposite = frame.head(1).assign(when=frame["when"][0] + pd.to_timedelta(365.2425 / 2, unit="D"))
    np.testing.assert_allclose(made.encoding.apply_to_new(opposite)[season].iloc[0], -first, atol=1e-9)
    assert (first**2).sum() == pytest.approx(1)
    posterior = wv.exact(made)
    assert sorted(posterior.select()) == ["when days", "when weekday"]
    # what is predicted for a row depends on no other row, up to rounding: how BLAS adds depends on their number
    some, everything = posterior.predict(frame.iloc[:5]), posterior.predict(frame)
    np.testing.assert_allclose(some, everything[:5], rtol=1e-12, atol=1e-12)


def test_few_months_have_no_season_and_one_weekday_is_no_category() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"when": pd.date_range("2024-01-01", periods=12, freq="7D"), "x": rng.normal(size=12)}
    )
    assert problem(frame, rng.normal(size=12)).names == ["when days", "when month", "x"]


@pytest.mark.parametrize(
    "write",
    [
        lambda d: d.strftime("%Y-%m-%d"),
        lambda d: d.strftime("%d.%m.%Y"),
        lambda d: d.strftime("%d/%m/%Y"),
        lambda d: d.strftime("%m/%d/%Y"),
        lambda d: d.strftime("%Y/%m/%d"),
        lambda d: int(d.strftime("%Y%m%d")),
        lambda d: d.strftime("%Y-%m-%dT00:00:00Z"),
        lambda d: datetime.date(d.year, d.month, d.day),
        lambda d: f" {d.strftime('%Y-%m-%d')} ",
    ],
)
def test_notations(write: Any) -> None:
    frame, y = table()
    expected = problem(frame, y).encoding.apply_to_new(frame)
    cells = [write(d) for d in frame["when"]]
    other = frame.assign(when=pd.Series(cells, dtype=object if isinstance(cells[0], datetime.date) else None))
    got = problem(other, y).encoding.apply_to_new(other)
    pd.testing.assert_frame_equal(got, expected, check_dtype=False)


def test_frames_of_polars_and_time_zones() -> None:
    polars = pytest.importorskip("polars")
    frame, y = table()
    expected = wv.exact(problem(frame, y)).pip
    other = polars.DataFrame({"when": frame["when"].dt.date.tolist(), "x": frame["x"].to_numpy()})
    assert wv.exact(problem(other, y)).pip.tobytes() == expected.tobytes()
    zone = frame.assign(when=frame["when"].dt.tz_localize("UTC"))
    assert wv.exact(problem(zone, y)).pip.tobytes() == expected.tobytes()


def test_what_is_not_a_date_is_named() -> None:
    frame, y = table()
    text = frame.assign(when=frame["when"].dt.strftime("%Y-%m-%d"))

    def fails(cells: Any, message: str) -> None:
        with pytest.raises(DataError, match=message):
            problem(frame.assign(when=cells), y)

    bad = text["when"].copy()
    bad[7] = "soon"
    fails(bad, r"column 'when' has 'soon' in row 7, which is not a date; write dates as 2024-05-31")
    bad[9] = "later"
    fails(bad, r"'soon' in row 7 \(and 1 more such cell\)")
    fails(
        np.full(N, "01/02/2024"),
        r"'01/02/2024' in row 0, of which it cannot be told whether the day or the month",
    )
    fails(np.full(N, "12:30"), "'12:30' in row 0 .*not a date")
    fails(np.arange(N) + 0.5, "which is not a date")
    fails(pd.to_timedelta(np.arange(N), unit="D"), "contains durations")
    fails(pd.Series([None] * N, dtype=object), "contains no date; leave it out with X.drop")
    with pytest.raises(DataError, match=r"contains dates or times .*; use expand=\[wv.date\('when'\)\]"):
        wv.Problem(text.assign(x="a"), y)
    with pytest.raises(
        ArgumentTypeError, match=r"'when' contains dates or times; name it in expand=\[wv.date"
    ):
        wv.Problem(frame, y)
    with pytest.raises(DataError, match="expand: there is no column 'wen'"):
        wv.Problem(frame, y, expand=[wv.date("wen")])
    with pytest.raises(DataError, match="is said to be a category and a date"):
        problem(frame, y, categories=["when"])
    with pytest.raises(DataError, match="X has no named columns, so that 'when'"):
        problem(frame[["x"]].to_numpy(), y)
    with pytest.raises(ArgumentTypeError, match="expand takes columns such as"):
        wv.Problem(frame, y, expand=["when"])
    with pytest.raises(ArgumentTypeError, match="date takes the name of a column"):
        wv.date(3)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="'when' is named twice"):
        wv.Problem(frame, y, expand=[wv.date("when"), wv.date("when")])
    spring = frame[frame["when"].dt.month.isin([3, 4])]
    posterior = wv.exact(problem(spring, y[spring.index]))
    with pytest.raises(
        DataError, match=r"'when' has the month Jul in row 0, which the data of the run did not"
    ):
        posterior.predict(frame[frame["when"].dt.month == 7])
    with pytest.raises(DataError, match="lacks the column 'when'"):
        posterior.predict(frame[["x"]])


def test_python_and_command_line_agree_to_the_bit_also_with_holes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame, y = table()
    frame.assign(y=y, when=frame["when"].dt.strftime("%d.%m.%Y")).to_csv("a.csv", index=False)
    run = CliRunner().invoke(main, ["exact", "a.csv", "-y", "y", "--date", "when", "--no-report"])
    assert run.exit_code == 0, run.output
    assert "Column 'when' has dates from 2023-03-0" in run.output
    saved = wv.Posterior.load("a-run/posterior.npz")
    selector = wv.VariableSelector(sampler="exact", expand=[wv.date("when")]).fit(frame, y)
    assert saved.pip.tobytes() == selector.posterior_.pip.tobytes()
    assert selector.get_support().tolist() == [True, False]
    done = CliRunner().invoke(main, ["predict", "a-run", "a.csv", "--out", "p.csv"])
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(pd.read_csv("p.csv")["mean"], selector.predict(frame), rtol=1e-12)
    holed = frame.copy()
    holed.loc[::10, "when"] = pd.NaT
    holed.loc[3::10, "x"] = np.nan
    imputed = wv.VariableSelector(sampler="exact", expand=[wv.date("when")], missing="impute", imputations=2)
    imputed.fit(holed, y)
    holed.assign(y=y).to_csv("h.csv", index=False)
    options = ["--date", "when", "--missing", "impute", "--imputations", "2", "--no-report"]
    run = CliRunner().invoke(main, ["exact", "h.csv", "-y", "y", *options])
    assert run.exit_code == 0, run.output
    pooled = wv.PooledPosterior.load("h-run/posterior.npz")
    np.testing.assert_allclose(pooled.pip, imputed.posterior_.pip, rtol=1e-12)
    assert set(imputed.posterior_.select()) == {"when days", "when weekday"}
    assert np.isfinite(imputed.predict(holed)).all()
    # the imputed dates are dates
    first = next(iter(imputed.posterior_.imputations))
    assert first["when"].notna().all()
    assert (first["when"][holed["when"].notna()] == holed["when"].dropna()).all()


def test_every_part_can_be_named_and_all_can_be_always_in() -> None:
    frame, y = table()
    made = problem(frame, y, always_include=["when days"])
    assert made.always_names == ["when days"]
    assert made.names == ["when month", "when weekday", "when season", "x"]
    made = problem(frame, y, always_include=["when"])
    assert len(made.always_names) == 1 + 11 + 6 + 2
    assert made.names == ["x"]
