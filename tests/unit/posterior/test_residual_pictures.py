"""Pictures of residuals, on their own and in the report."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import stats

import whichvars as wv
from whichvars import report
from whichvars.cli import main
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.plots.drawing import NothingToDrawError


@pytest.fixture(autouse=True)
def no_open_figures() -> Iterator[None]:
    yield
    plt.close("all")


def fitted(n: int = 120, outlier: float = 0.0) -> tuple[wv.Posterior, pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    y = (X["a"] + rng.normal(size=n)).to_numpy().copy()
    y[5] += outlier
    return wv.exact(wv.Problem(X, y)), X, y


def test_residuals_against_fitted_values_are_those_of_the_posterior() -> None:
    posterior, X, y = fitted(outlier=15.0)
    table = posterior.residuals(X, y)
    ax = wv.plot_residuals(posterior.residual_check(X, y))
    far = next(line for line in ax.lines if line.get_label() == "outliers")
    assert far.get_xdata() == [table["fitted"][5]]
    assert far.get_ydata() == [table["standardised"][5]]
    near = next(line for line in ax.lines if line.get_marker() == "o" and line is not far)
    np.testing.assert_array_equal(near.get_xdata(), table["fitted"].drop(5))
    np.testing.assert_array_equal(near.get_ydata(), table["standardised"].drop(5))
    assert ax.get_ylabel() == "standardised residual"


def test_quantiles_and_their_band() -> None:
    posterior, X, y = fitted()
    check = posterior.residual_check(X, y)
    ax = wv.plot_residuals(check, show="quantiles")
    points = next(line for line in ax.lines if line.get_marker() == "o")
    n = len(y)
    np.testing.assert_allclose(points.get_xdata(), stats.norm.ppf((np.arange(n) + 0.5) / n))
    np.testing.assert_array_equal(points.get_ydata(), np.sort(posterior.residuals(X, y)["standardised"]))
    assert check.quantiles is not None
    rank = np.arange(1, n + 1)
    for level, row in ((0.05, check.quantiles[2]), (0.95, check.quantiles[3])):
        np.testing.assert_allclose(row, stats.norm.ppf(stats.beta(rank, n + 1 - rank).ppf(level)))


def test_the_predictive_picture_is_that_of_the_posterior() -> None:
    posterior, X, y = fitted()
    check = posterior.residual_check(X, y)
    ax = wv.plot_residuals(check, show="predictive")
    other = wv.plot_predictive_check(posterior, X=X, y=y, n=100)
    for one, two in zip(ax.lines, other.lines, strict=True):
        np.testing.assert_array_equal(one.get_xydata(), two.get_xydata())
    for one, two in zip(ax.collections, other.collections, strict=True):
        np.testing.assert_array_equal(one.get_paths()[0].vertices, two.get_paths()[0].vertices)
    assert check.bands is not None
    drawn = posterior.draw_response(X, 100, 0)
    below = (drawn[:, :, None] <= check.bands.grid).mean(axis=1)
    for level, row in ((0.05, "low90"), (0.25, "low50"), (0.75, "high50"), (0.95, "high90")):
        np.testing.assert_allclose(getattr(check.bands, row), np.quantile(below, level, axis=0))
    np.testing.assert_allclose(check.bands.observed, (y[:, None] <= check.bands.grid).mean(axis=0))


def test_many_rows_are_thinned_but_no_outlier_is_lost() -> None:
    posterior, X, y = fitted(6000, outlier=30.0)
    check = posterior.residual_check(X, y)
    assert check.outliers == (5,)
    assert check.points is not None
    assert check.quantiles is not None
    assert check.points.shape[1] in (2000, 2001)
    assert check.points[2].sum() == 1
    # the extremes are all there
    r = np.sort(posterior.residuals(X, y)["standardised"])
    np.testing.assert_array_equal(check.quantiles[1][:50], r[:50])
    np.testing.assert_array_equal(check.quantiles[1][-50:], r[-50:])
    assert check.quantiles.shape[1] < 2200
    assert check.bands is not None


def test_weights_and_rows_of_weight_zero() -> None:
    _, X, y = fitted()
    weights = np.linspace(0.5, 2, len(y))
    check = wv.exact(wv.Problem(X, y, weights=weights)).residual_check(X, y, weights)
    assert check.bands is not None
    weights[3] = 0
    check = wv.exact(wv.Problem(X, y, weights=weights)).residual_check(X, y, weights)
    with pytest.raises(NothingToDrawError):
        wv.plot_residuals(check, show="predictive")
    assert wv.plot_residuals(check).lines


def test_messages() -> None:
    posterior, X, y = fitted()
    with pytest.raises(ArgumentTypeError, match=r"takes what posterior\.residual_check"):
        wv.plot_residuals(posterior)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="show must be"):
        wv.plot_residuals(posterior.residual_check(X, y), show="all")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="check must be what residual_check"):
        posterior.report("r.html", check=X)  # type: ignore[arg-type]


def test_the_report_has_what_residuals_say(tmp_path: Path) -> None:
    posterior, X, y = fitted(outlier=15.0)
    check = posterior.residual_check(X, y)
    page = report.render(posterior, check=check)
    assert 'href="#fit"' in page
    assert 'class="verdict doubtful"' in page
    assert "Row 5 is far from its fitted value." in page
    assert (
        f"explain {100 * check.r_squared:.0f} % of the variance (R²); when each row is predicted from all the others"
        in page
    )
    for title in (
        "Residuals and fitted values",
        "Are the residuals normal?",
        "Responses as the model would produce them",
    ):
        assert f"<h3>{title}</h3>" in page
    assert 'id="fit"' not in report.render(posterior)
    fine, X, y = fitted()
    page = report.render(fine, check=fine.residual_check(X, y))
    assert "Nothing in the residuals speaks against the model." in page
    assert posterior.report(tmp_path / "r.html", check=check).exists()


def test_the_command_line_keeps_them_for_later_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, X, y = fitted(outlier=15.0)
    X.assign(y=y, z=y > 0).to_csv("a.csv", index=False)

    def call(*arguments: Any) -> str:
        result = CliRunner().invoke(main, [str(a) for a in arguments])
        assert result.exit_code == 0, result.output
        return result.output

    call("fit", "a.csv", "-y", "y", "--drop", "z")
    # rows are counted from 1 on the command line
    assert "Row 6 is far from its fitted value." in Path("a-run/report.html").read_text()
    Path("a-run/report.html").unlink()
    call("report", "a-run")
    assert "Row 6 is far from its fitted value." in Path("a-run/report.html").read_text()
    # not those of an older run
    call("fit", "a.csv", "-y", "z", "--drop", "y", "--overwrite")
    assert not Path("a-run/residual_check.npz").exists()
    assert 'id="fit"' not in Path("a-run/report.html").read_text()
    X.mask(np.random.default_rng(0).random(X.shape) < 0.1).assign(y=y).to_csv("b.csv", index=False)
    call("fit", "b.csv", "-y", "y", "--missing", "impute", "--imputations", 2)
    page = Path("b-run/report.html").read_text()
    assert "In one of the completed tables, the fitted values explain" in page
