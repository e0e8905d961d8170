"""Plots and the report of responses that are not Gaussian: odds and rates, ROC and calibration, and no R²."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
from scipy import integrate, special

import whichvars as wv
from whichvars import report
from whichvars.errors import DataError
from whichvars.report import table, words

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.DataWarning")


def data(n=80):
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(n, 3)) * [1.0, 20.0, 0.1], columns=["dose", "age", "time"])
    eta = X["dose"] - 0.04 * X["age"]
    return (
        X,
        np.where(rng.random(n) < special.expit(eta), "yes", "no"),
        rng.poisson(np.exp(eta) * rng.gamma(1, 1, n)),
    )


@pytest.fixture(scope="module")
def logistic():
    X, y, _ = data()
    return wv.exact(wv.Problem(X, y, family="logistic"), progress=False)


@pytest.fixture(scope="module")
def counts():
    X, _, y = data()
    return wv.exact(wv.Problem(X, y, family="poisson", offset=np.zeros(80)), progress=False)


def test_coefficients_are_those_of_one_standard_deviation(logistic):
    ax = wv.plot_coefficients(logistic, names=["age"])
    assert ax.get_xlabel() == "change of the log odds for one standard deviation"
    hump = ax.collections[-1].get_paths()[0].vertices
    mode = hump[np.argmin(hump[:, 1]), 0]
    want = logistic.coefficients(interval=None).loc["age", "mean_included"] * data()[0]["age"].std()
    assert mode == pytest.approx(want, abs=0.05)


def test_roc(logistic, counts):
    ax = wv.plot_roc(logistic)
    x, y = ax.lines[1].get_data()
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    assert integrate.trapezoid(y, x) == pytest.approx(logistic.scores()["auc"])
    assert ax.get_ylabel() == "share of yes above the threshold"
    X, response, _ = data()
    new = wv.plot_roc(logistic, X=X, y=response)
    assert integrate.trapezoid(*new.lines[1].get_data()[::-1]) == pytest.approx(
        logistic.scores(X, response)["auc"]
    )
    with pytest.raises(DataError, match="only one value"):
        wv.plot_roc(logistic, X=X[:1], y=response[:1])
    with pytest.raises(DataError, match="needs a response with two values"):
        wv.plot_roc(counts)


def test_calibration(logistic, counts):
    for posterior, bins in ((logistic, None), (counts, 3)):
        ax = wv.plot_calibration(posterior, bins=bins)
        want = posterior.calibration(bins=bins or 8)
        np.testing.assert_allclose(ax.lines[1].get_data(), want[["predicted", "observed"]].to_numpy().T)
    assert ax.get_xlabel() == "predicted rate"
    X = data()[0]
    with pytest.raises(DataError, match="plot_calibration is for probabilities"):
        wv.plot_calibration(wv.exact(wv.Problem(X, X["age"] + X["dose"] ** 2), progress=False))


def test_other_plots_work(logistic, counts):
    for plot in (
        wv.plot_inclusion,
        wv.plot_models,
        wv.plot_model_size,
        wv.plot_correlation,
        wv.plot_jointness,
    ):
        plot(logistic)
        plot(counts)


def test_report_of_two_classes(logistic):
    page = report.render(logistic)
    assert "R²" not in page
    assert "How well the two values are told apart" in page
    assert "area under the ROC curve" in page
    assert "yes counts as 1, no as 0" in page
    assert "Prior on the noise" not in page
    assert "log odds of yes" in page
    labels = {column.label: column for column in table.columns(logistic)}
    first = logistic.summary().index[0]
    X = data()[0]
    row = logistic.coefficients(interval=None).loc[first]
    ratio = np.exp(X[first].std() * (row["mean_included"] + np.array([0, -1.96, 1.96]) * row["sd_included"]))
    found = [labels[name].values[0] for name in ("Odds ratio", "From", "To")]
    np.testing.assert_allclose(found, ratio, rtol=6e-3)


def test_report_of_counts_that_vary_too_much(counts):
    page = report.render(counts)
    assert counts.pearson.over
    assert '<p class="remark doubtful">The counts vary' in page
    assert "more than this family allows" in page
    assert "Pearson dispersion" in page
    assert "Rate ratio" in page
    assert ("Offset", "given") in words.family_settings(counts.problem)


def test_report_of_probit_has_coefficients():
    X, y, _ = data()
    posterior = wv.exact(wv.Problem(X, y, family="probit"), progress=False)
    assert "Its sd" in [column.label for column in table.columns(posterior)]
    assert "changes of the probit of yes" in report.render(posterior)


def test_report_of_gaussian_has_nothing_of_this():
    X = data()[0]
    page = report.render(
        wv.exact(wv.Problem(X, X["age"] + X["dose"] ** 2, slab=wv.GPrior(100)), progress=False)
    )
    assert "R²" in page
    assert "ROC" not in page
    assert 'class="remark' not in page


def test_the_report_of_counts_shows_whether_predictive_distributions_are_right(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 2))
    counts = wv.exact(wv.Problem(X, rng.poisson(np.exp(0.5 * X[:, 0])), family="poisson"))
    inside = counts.interval_calibration(levels=0.9)["observed"].iloc[0]
    page = counts.report(tmp_path / "counts.html").read_text(encoding="utf-8")
    assert f"{100 * inside:.0f} % of the responses are within their 90 % intervals" in page
    classes = wv.exact(wv.Problem(X, rng.random(80) < 0.5, family="logistic"))
    assert "within their 90 % intervals" not in classes.report(tmp_path / "classes.html").read_text(
        encoding="utf-8"
    )
