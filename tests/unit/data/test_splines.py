"""Curved effects: the basis against scipy, orthogonality, heredity, new rows, formulas, files and pictures."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.interpolate import CubicSpline

import whichvars as wv
from whichvars.cli import main
from whichvars.data.expanding import learn_spline, natural_basis
from whichvars.errors import DataError


@pytest.fixture(autouse=True)
def no_open_figures() -> Iterator[None]:
    yield
    plt.close("all")


def table(n: int = 200) -> tuple[pd.DataFrame, np.ndarray]:
    """A curved effect of age, a straight one of dose, and noise."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "age": rng.uniform(20, 80, n), "dose": rng.normal(size=n), "noise": rng.exponential(size=n),
        "site": rng.choice(["a", "b"], n),
    })  # fmt: skip
    y = ((frame["age"] - 50) / 15) ** 2 + 0.5 * frame["dose"] + 0.5 * rng.normal(size=n)
    return frame, y.to_numpy()


EXPAND = [wv.spline("age"), wv.spline("dose", df=3)]


def test_the_basis_is_that_of_natural_cubic_splines() -> None:
    """Whatever is interpolated by scipy's natural spline at the knots is a combination of the basis between them, and straight outside."""
    rng = np.random.default_rng(1)
    knots = np.sort(rng.normal(size=6))
    reference = CubicSpline(knots, rng.normal(size=6), bc_type="natural")
    x = np.linspace(knots[0], knots[-1], 400)
    basis = natural_basis(x, knots)
    assert basis.shape == (400, 6)
    assert np.linalg.matrix_rank(basis) == 6
    coefficients, left, *_ = np.linalg.lstsq(basis, reference(x), rcond=None)
    assert left[0] < 1e-18
    for outside in (knots[0] - np.array([0.5, 1.5, 2.5]), knots[-1] + np.array([0.5, 1.5, 2.5])):
        line = natural_basis(outside, knots) @ coefficients
        assert line[0] - 2 * line[1] + line[2] == pytest.approx(0, abs=1e-9)


def test_the_curve_is_orthogonal_to_the_line() -> None:
    frame, y = table()
    problem = wv.Problem(frame, y, expand=EXPAND)
    assert problem.names == ["age", "age curve", "dose", "dose curve", "noise", "site"]
    X = problem.encoding.apply_to_new(frame)
    curve = X[[f"age curve {k}" for k in (1, 2, 3)]].to_numpy()
    np.testing.assert_allclose(curve.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(curve.T @ (X["age"] - X["age"].mean()), 0, atol=1e-7)
    np.testing.assert_allclose(curve.T @ curve / 199, np.eye(3), atol=1e-10)
    np.testing.assert_array_equal(X["age"], frame["age"])
    knots = problem.encoding.expansions["age"]
    expected = np.quantile(frame["age"], [0.05, 0.275, 0.5, 0.725, 0.95])
    np.testing.assert_allclose(knots.centre + knots.unit * np.array(knots.knots), expected)


def test_new_rows_have_the_same_knots_and_curves_need_their_lines(tmp_path: Path) -> None:
    frame, y = table()
    posterior = wv.exact(wv.Problem(frame, y, expand=EXPAND))
    assert sorted(posterior.select()) == ["age", "age curve", "dose"]
    whole = posterior.predict(frame)
    # also if the new rows are a few, extreme ones
    np.testing.assert_allclose(posterior.predict(frame.iloc[[3, 7]]), whole[[3, 7]], rtol=1e-10)
    truth = ((frame["age"] - 50) / 15) ** 2 + 0.5 * frame["dose"]
    assert np.corrcoef(whole, truth)[0, 1] > 0.98
    for members in (posterior.kept.model(i) for i in range(len(posterior.kept))):
        names = {posterior.problem.names[j] for j in members}
        assert "age curve" not in names or "age" in names
        assert "dose curve" not in names or "dose" in names
    posterior.save(tmp_path / "p.npz")
    again = wv.Posterior.load(tmp_path / "p.npz")
    assert again.predict(frame).tobytes() == whole.tobytes()
    # a problem with the columns made by hand and heredity written down gives the same
    X = posterior.problem.encoding.apply_to_new(frame)
    by_hand = wv.Problem(
        X, y, heredity={"age curve": ["age"], "dose curve": ["dose"]},
        groups={"age curve": [f"age curve {k}" for k in (1, 2, 3)], "dose curve": ["dose curve 1", "dose curve 2"], "site": ["site=b"]},
    )  # fmt: skip
    np.testing.assert_allclose(wv.exact(by_hand).pip, posterior.pip, rtol=1e-10)
    np.testing.assert_array_equal(posterior.predict(X), whole)


def test_columns_in_every_model_and_groups() -> None:
    frame, y = table()
    always = wv.Problem(frame, y, expand=EXPAND, always_include=["age"])
    assert always.always_names == ["age", "age curve 1", "age curve 2", "age curve 3"]
    assert always.names == ["dose", "dose curve", "noise", "site"]
    grouped = wv.Problem(frame, y, expand=EXPAND, groups={"both": ["age", "noise"]})
    assert grouped.names == ["both", "dose", "dose curve", "site"]
    line = wv.Problem(frame, y, expand=EXPAND, heredity={"noise": ["dose"]})
    at = {name: j for j, name in enumerate(line.names)}
    assert line.model_prior.parents[at["noise"]] == (at["dose"],)
    assert line.model_prior.parents[at["age curve"]] == (at["age"],)


def test_formula_python_and_command_line_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame, y = table()
    monkeypatch.chdir(tmp_path)
    expected = wv.VariableSelector(sampler="exact", expand=EXPAND).fit(frame.drop(columns="site"), y)
    by_formula = wv.VariableSelector.from_formula(
        "y ~ spline(age) + spline(dose, df=3) + noise", frame.assign(y=y), sampler="exact"
    )
    names = expected.posterior_.problem.names
    assert set(by_formula.posterior_.problem.names) == set(names)
    np.testing.assert_allclose(
        by_formula.posterior_.inclusion_probabilities[names], expected.posterior_.pip, rtol=1e-9
    )
    np.testing.assert_allclose(by_formula.predict(frame.head(5)), expected.predict(frame.head(5).drop(columns="site")), rtol=1e-8)  # fmt: skip
    frame.drop(columns="site").assign(y=y).to_csv("a.csv", index=False)
    run = CliRunner().invoke(main, ["exact", "a.csv", "-y", "y", "--spline", "age,dose:3"])
    assert run.exit_code == 0, run.output
    assert "Column 'age' may have a curved effect: 'age curve', with 5 knots" in run.output
    saved = wv.Posterior.load("a-run/posterior.npz")
    np.testing.assert_allclose(saved.pip, expected.posterior_.pip, rtol=1e-9)
    page = Path("a-run/report.html").read_text()
    assert page.index("Effect of age") < page.index("Effect of dose")
    done = CliRunner().invoke(main, ["predict", "a-run", "a.csv", "--out", "p.csv"])
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(pd.read_csv("p.csv")["mean"], expected.predict(frame.drop(columns="site")))


def test_with_holes_all_imputations_have_the_same_knots() -> None:
    frame, y = table()
    holed = frame.mask(np.random.default_rng(2).random(frame.shape) < 0.05)
    fitted = wv.VariableSelector(missing="impute", imputations=2, sampler="exact", expand=EXPAND).fit(
        holed, y
    )
    one, two = (part.problem.encoding.expansions["age"] for part in fitted.posterior_.parts)
    assert one == two
    assert {"age", "age curve"} <= set(fitted.posterior_.select())
    assert np.corrcoef(fitted.predict(holed), ((frame["age"] - 50) / 15) ** 2)[0, 1] > 0.8
    ax = wv.plot_effect(fitted.posterior_, "age")
    assert ax.get_xlabel() == "age"


def test_what_cannot_be_a_spline_is_named() -> None:
    frame, y = table()

    def fails(message: str, data: Any = frame, expand: Any = EXPAND) -> None:
        with pytest.raises(DataError, match=message):
            wv.Problem(data, y, expand=expand)

    fails("'age' has only 3 different values for a spline with 4", frame.assign(age=np.arange(200) % 3))
    fails("'age' has too many equal values", frame.assign(age=np.maximum(frame["age"], 70)))
    fails("'site' contains words, and a spline needs numbers", expand=[wv.spline("site")])
    fails("expand: there is no column 'agee'", expand=[wv.spline("agee")])
    for df in (1, 21, 2.5, True):
        with pytest.raises(DataError, match="df must be a whole number from 2 to 20"):
            wv.spline("age", df=df)  # type: ignore[arg-type]
    data = frame.assign(y=y)
    for formula, message in (
        ("y ~ spline(agee)", "there is no column 'agee'"),
        ("y ~ spline(age, 2, 3)", "must have a column and a number"),
        ("y ~ spline(age, df=dose)", "must have a column and a number"),
        ("y ~ spline(site)", "needs numbers, and the column has words"),
        ("y ~ spline(age):dose", "are terms of their own after the ~"),
        ("y ~ spline(age) + spline(age, 3)", "'age' is named twice"),
    ):
        with pytest.raises(DataError, match=message):
            wv.VariableSelector.from_formula(formula, data)
    with pytest.raises(DataError, match="expand comes from the formula"):
        wv.VariableSelector.from_formula("y ~ age", data, expand=EXPAND)
    with pytest.raises(DataError, match="cannot be used here"):
        wv.VariableSelector.from_formula("y ~ dose", data, always="spline(age)")
    posterior = wv.exact(wv.Problem(frame, y, expand=[wv.spline("age")]))
    with pytest.raises(DataError, match=r"'dose' has no spline \(those that have one: 'age'\)"):
        wv.plot_effect(posterior, "dose")
    result, words = learn_spline(pd.Series(np.arange(40.0)), 4)
    assert result is not None
    assert words == ""


def test_the_picture_is_that_of_predictions() -> None:
    """The mean effect differs by a constant from predictions along the column, all else equal."""
    frame, y = table()
    posterior = wv.exact(wv.Problem(frame, y, expand=EXPAND))
    ax = wv.plot_effect(posterior, "age", draws=20_000)
    line = next(part for part in ax.lines if len(part.get_xdata()) == 201)
    x, drawn = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    assert (x[0], x[-1]) == (frame["age"].min(), frame["age"].max())
    rows = pd.concat([frame.head(1)] * 201, ignore_index=True).assign(age=x)
    predicted = posterior.predict(rows)
    # 20,000 draws; at each place the standard deviation is at most a third of the band of 90 %
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    error = np.ptp(band) / 3 / np.sqrt(20_000)
    np.testing.assert_allclose(drawn - drawn.mean(), predicted - predicted.mean(), atol=6 * error)
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["90 % interval", "mean effect (in with probability 1.00, curved with probability 1.00)"]
    labels = wv.Problem(frame, y > 1, family="logistic", expand=EXPAND)
    assert wv.plot_effect(wv.exact(labels), "dose").get_ylabel() == "effect on the log odds"


def test_few_holes_in_the_band() -> None:
    """The truth is inside the pointwise band at most places."""
    frame, y = table(400)
    posterior = wv.exact(wv.Problem(frame, y, expand=[wv.spline("age", df=6)]))
    ax = wv.plot_effect(posterior, "age", interval=0.95)
    x = np.linspace(frame["age"].min(), frame["age"].max(), 201)
    vertices = ax.collections[0].get_paths()[0].vertices
    low, high = (np.array([pick(vertices[np.isclose(vertices[:, 0], v), 1]) for v in x]) for pick in (np.min, np.max))  # fmt: skip
    learnt = posterior.problem.encoding.expansions["age"]
    truth = ((x - 50) / 15) ** 2
    centred = truth - np.mean(((frame["age"] - 50) / 15) ** 2)
    assert learnt.centre == pytest.approx(frame["age"].mean())
    assert ((low <= centred) & (centred <= high)).mean() > 0.8
