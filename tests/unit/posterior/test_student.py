"""Student responses: predictions, scores, leave-one-out and checks of a posterior, against draws and against other fits; scikit-learn, files and
the command line."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import stats

import whichvars as wv
from whichvars.cli import main
from whichvars.errors import DataError

N, DF = 90, 4


def table(seed: int = 0, n: int = N, df: float = 3) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc")) * [1.0, 10.0, 0.1] + [0.0, 5.0, 0.0]
    y = 100 + 8 * X["a"] + 0.3 * X["b"] + 5 * rng.standard_t(df, n)
    return X, y.rename("y")


X, Y = table()
POSTERIOR = wv.exact(wv.Problem(X, Y, family="student"), progress=False)


def test_a_wild_row_decides_nothing() -> None:
    y = Y.copy()
    y.iloc[0] += 1e5
    wild = wv.exact(wv.Problem(X, y, family="student"), progress=False)
    np.testing.assert_allclose(wild.pip, POSTERIOR.pip, atol=0.1)
    np.testing.assert_allclose(wild.predict(X), POSTERIOR.predict(X), atol=1.0)
    linear = wv.exact(wv.Problem(X, y), progress=False)
    assert linear.pip[0] < 0.5 < wild.pip[0]


def test_predictions_are_those_of_draws() -> None:
    rows = X.head(4)
    drawn = POSTERIOR.draw_response(rows, 40_000, seed=3)
    mean, std, ends = POSTERIOR.predict(rows, return_std=True, interval=0.9)
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - mean), 5 * error)
    for level, end in zip((0.05, 0.95), ends.T):
        share = (drawn < end).mean(axis=0)
        np.testing.assert_allclose(share, level, atol=5 * np.sqrt(0.05 * 0.95 / len(drawn)))
    # as a Gaussian response's, intervals are by default those of a new response; kind="mean" is about its expectation
    np.testing.assert_array_equal(ends, POSTERIOR.predict(rows, interval=0.9, kind="response")[1])
    table = POSTERIOR.draw(40_000, seed=3)
    eta = table["(intercept)"].to_numpy()[:, None] + table[list("abc")].to_numpy() @ rows.to_numpy().T
    narrow, spread = POSTERIOR.predict(rows, kind="mean", return_std=True)
    np.testing.assert_array_equal(narrow, mean)
    np.testing.assert_allclose(eta.std(axis=0), spread, rtol=0.03)
    # s²ν/(ν − 2), averaged over s
    noise = (table["(scale)"] ** 2).mean() * DF / (DF - 2)
    np.testing.assert_allclose(std**2, spread**2 + noise, rtol=0.02)


def test_densities_of_new_responses_are_averages_over_draws() -> None:
    new = pd.Series([100.0, 120.0, 20.0, 99.0])
    draws = POSTERIOR.draw(40_000, seed=5)
    eta = draws["(intercept)"].to_numpy()[:, None] + draws[list("abc")].to_numpy() @ X.head(4).to_numpy().T
    density = stats.t.pdf(new.to_numpy(), DF, eta, draws["(scale)"].to_numpy()[:, None])
    expected = np.log(density.mean(axis=0)).mean()
    error = (density.std(axis=0) / density.mean(axis=0)).max() / np.sqrt(len(draws))
    assert POSTERIOR.log_score(X.head(4), new) == pytest.approx(expected, abs=5 * error + 0.01)


def test_the_scale_is_learnt() -> None:
    scale = POSTERIOR.dispersion()
    assert scale.name == "scale"
    draws = POSTERIOR.draw(20_000, seed=1)["(scale)"]
    assert draws.mean() == pytest.approx(scale["mean"], rel=0.01)
    np.testing.assert_allclose(draws.quantile([0.05, 0.95]), scale[["lower", "upper"]], rtol=0.05)
    # maximum likelihood of location and scale of the residuals is near
    assert scale["lower"] < stats.t.fit(Y - POSTERIOR.predict(X), f0=DF)[2] < scale["upper"]


@pytest.mark.parametrize("row", [0, 7, 40])
def test_leaving_one_out(row: int) -> None:
    found = POSTERIOR.loo()
    others = np.arange(N) != row
    # the same prior of the scale, and units of columns that hardly differ
    family = wv.Student(prior_median=POSTERIOR.problem.family.unit(Y.to_numpy(), np.ones(N)))  # type: ignore[union-attr]
    without = wv.exact(wv.Problem(X[others], Y[others], family=family), progress=False)
    assert found["mean"][row] == pytest.approx(without.predict(X.iloc[[row]])[0], abs=0.1)
    density = without.log_score(X.iloc[[row]], Y.iloc[[row]])
    assert found["log_density"][row] == pytest.approx(density, abs=0.05)
    drawn = without.draw_response(X.iloc[[row]], 20_000, seed=2)[:, 0]
    assert found["pit"][row] == pytest.approx((drawn < Y.iloc[row]).mean(), abs=0.02)


def test_a_row_that_is_fitted_again() -> None:
    y = Y.copy()
    y.iloc[5] = 10_000.0
    posterior = wv.exact(wv.Problem(X, y, family="student"), progress=False)
    found = posterior.loo()
    assert found["refitted"][5]
    assert found["pit"][5] > 0.999
    assert found["mean"][5] == pytest.approx(POSTERIOR.predict(X.iloc[[5]])[0], abs=1.5)


def test_intervals_hold_what_they_say() -> None:
    found = POSTERIOR.interval_calibration(X, Y)
    assert ((found["lower"] <= found["observed"]) & (found["observed"] <= found["upper"])).sum() >= 3
    assert wv.plot_pit(POSTERIOR, X=X, y=Y).get_ylabel() == "rows"
    checks = POSTERIOR.predictive_check(X, Y)
    assert {"skewness", "kurtosis"} <= set(checks.index)
    assert checks["p_value"].between(0.01, 0.99).all()
    assert set(POSTERIOR.scores().index) == {"log_score", "rmse"}
    with pytest.raises(DataError, match="see interval_calibration"):
        POSTERIOR.calibration()


# --- what residuals say


def test_heavy_tails_suggest_the_family_by_name() -> None:
    suggested = 0
    for seed in range(6):
        X, y = table(seed, 300, 2.5)
        remarks = wv.exact(wv.Problem(X, y), progress=False).residual_check(X, y).remarks
        suggested += any('family="student"' in remark for remark in remarks)
        right = wv.exact(wv.Problem(X, y, family=wv.Student(3)), progress=False).residual_check(X, y)
        assert not any("tails" in remark or "skewed" in remark for remark in right.remarks), right.remarks
    assert suggested == 6


def test_skewed_residuals_suggest_a_logarithm_and_not_heavy_tails() -> None:
    rng = np.random.default_rng(1)
    y = np.exp(X["a"] + rng.normal(size=N))
    remarks = wv.exact(wv.Problem(X, y), progress=False).residual_check(X, y).remarks
    assert "np.log(y)" in remarks[0]
    assert not any("student" in remark for remark in remarks)


def test_residual_check_of_a_student_response() -> None:
    check = POSTERIOR.residual_check(X, Y)
    # normal scores: as normal as the family is right
    assert abs(check.kurtosis) < 2
    assert check.points is not None
    residual = Y - POSTERIOR.predict(X)
    scale = np.sqrt((POSTERIOR.draw(20_000)["(scale)"] ** 2).mean())
    expected = stats.norm.ppf(stats.t.cdf(residual / scale, DF))
    np.testing.assert_allclose(check.points[1], expected, atol=0.02)
    y = Y.copy()
    y.iloc[3] += 4000
    X2 = X.set_axis([f"row {i}" for i in range(N)])
    wild = wv.exact(wv.Problem(X, y, family="student", offset=np.linspace(0, 1, N)), progress=False)
    assert wild.residual_check(X2, y).outliers == ("row 3",)
    _, t = table(4, 400, 2.1)
    X4 = table(4, 400)[0]
    heavy = wv.exact(wv.Problem(X4, t, family=wv.Student(30)), progress=False).residual_check(X4, t)
    words = "heavier tails than Student's t distribution with 30 degrees of freedom"
    assert any(words in remark and "Student(df=3)" in remark for remark in heavy.remarks), heavy.remarks


# --- words, files, scikit-learn


def test_words() -> None:
    assert "The noise had Student's t distribution with 4 degrees of freedom" in POSTERIOR.methods()
    assert "variance 1 times s²" in POSTERIOR.methods()
    assert repr(wv.Student(df=5, prior_median=2.0)) == "Student(df=5, prior_median=2.0)"
    assert "odds" not in POSTERIOR.explain()


def test_saving_keeps_the_bits(tmp_path: Path) -> None:
    problem = wv.Problem(X, Y, family=wv.Student(3, prior_sd=1.0), always_include=["c"])
    posterior = wv.exact(problem, progress=False)
    posterior.save(tmp_path / "p.npz")
    again = wv.Posterior.load(tmp_path / "p.npz")
    assert again.problem.family == wv.Student(3, prior_sd=1.0)
    np.testing.assert_array_equal(wv.exact(again.problem, progress=False).pip, posterior.pip)
    np.testing.assert_array_equal(again.loo(), posterior.loo())


def test_columns_that_stay_as_they_are_stored() -> None:
    rng = np.random.default_rng(2)
    genotypes = rng.integers(0, 3, size=(120, 6)).astype(np.int8)
    y = genotypes[:, 0] + rng.standard_t(3, 120)
    bytes_ = wv.Problem(genotypes, y, family="student", slab=wv.GPrior(50.0))
    plain = wv.Problem(genotypes.astype(float), y, family="student", slab=wv.GPrior(50.0))
    np.testing.assert_allclose(
        wv.exact(bytes_, progress=False).pip, wv.exact(plain, progress=False).pip, atol=1e-9
    )
    found = wv.sample(bytes_, wv.Hybrid(), draws=4000, replicates=4, seed=1, progress=False)
    truth = wv.exact(plain, progress=False)
    np.testing.assert_array_less(np.abs(found.pip - truth.pip), 5 * np.nan_to_num(found.mcse) + 2e-3)


def test_estimator() -> None:
    selector = wv.VariableSelector(family="student").fit(X, Y)
    np.testing.assert_array_equal(selector.posterior_.pip, POSTERIOR.pip)
    np.testing.assert_allclose(selector.predict(X), POSTERIOR.predict(X))
    np.testing.assert_allclose(
        selector.predict(X), selector.intercept_ + X.to_numpy() @ selector.coefficients_
    )
    ends = selector.predict(X, interval=0.9)[1]
    assert ((ends[:, 0] < Y) & (ends[:, 1] > Y)).mean() == pytest.approx(0.9, abs=0.1)
    assert selector.remarks_ == []
    assert wv.VariableSelector().fit(*table(2, 300, 2.5)).remarks_[0].endswith('family="student".')
    wv.VariableSelector(family="student").fit(X, Y, sample_weight=np.arange(N) % 3)
    logged = wv.VariableSelector(family="student", log_response=True).fit(X, Y.abs() + 1)
    assert logged.predict(X).min() > 0


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    X.assign(y=Y, known=np.linspace(0, 1, N)).to_csv("d.csv", index=False)

    def run(*arguments: object, code: int = 0) -> Any:
        result = CliRunner().invoke(main, [str(a) for a in arguments], env={"COLUMNS": "100"})
        assert result.exit_code == code, result.output
        return result

    return run


def test_command_line(call: Any) -> None:
    result = call("fit", "d.csv", "-y", "y", "--family", "student", "--offset", "known", "--no-report")
    assert "R² is 0." in result.stderr
    posterior = wv.Posterior.load("d-run/posterior.npz")
    direct = wv.exact(wv.Problem(X, Y, family="student", offset=np.linspace(0, 1, N)), progress=False)
    np.testing.assert_allclose(posterior.pip, direct.pip, atol=1e-9)
    settings = json.loads(Path("d-run/settings.json").read_text())
    assert settings["family"] == "student"
    found = pd.read_csv(io.StringIO(call("predict", "d-run", "d.csv", "--interval", 0.9).stdout))
    expected = direct.predict(X, interval=0.9, offset=np.linspace(0, 1, N))
    np.testing.assert_allclose(found["mean"], expected[0], rtol=1e-6)
    np.testing.assert_allclose(found[["lower", "upper"]], expected[1], rtol=1e-6)
    refused = call(
        "fit", "d.csv", "-y", "y", "--family", "student", "--exposure", "known", "--out", "e", code=2
    )
    assert "--exposure is for counts" in refused.stderr
    X2, y2 = table(2, 300, 2.5)
    X2.assign(y=y2).to_csv("heavy.csv", index=False)
    assert "may fit better: --family student." in call("fit", "heavy.csv", "-y", "y", "--no-report").stderr


def test_report(tmp_path: Path) -> None:
    POSTERIOR.report(tmp_path / "r.html", check=POSTERIOR.residual_check(X, Y))
    page = (tmp_path / "r.html").read_text()
    assert "Student(df=4)" in page
    assert "Are the predicted" not in page


def test_imputed_tables() -> None:
    holes = X.copy()
    holes.loc[::7, "a"] = np.nan
    selector = wv.VariableSelector(family="student", missing="impute").fit(holes, Y)
    mean, ends = selector.predict(holes, interval=0.9)
    assert ((ends[:, 0] < Y) & (ends[:, 1] > Y)).mean() > 0.8
    assert np.isfinite(mean).all()
