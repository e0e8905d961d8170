"""Categories: by one piece of code from frames of all kinds, files and formulas."""

import datetime as dt
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV

import whichvars as wv
from whichvars.cli import main
from whichvars.data.files import read_table
from whichvars.data.kinds import classify
from whichvars.data.roles import encode_table
from whichvars.errors import DataError, DataWarning

N = 80
CATEGORIES = ["words", "text", "declared", "ordered", "many"]


def table() -> pd.DataFrame:
    """Eight kinds of columns, one of them with more levels than a column of words may have unasked."""
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "number": rng.normal(size=N),
            "whole": rng.integers(0, 9, N),
            "nullable": pd.array(rng.integers(0, 5, N), "Int64"),
            "flag": rng.integers(0, 2, N).astype(bool),
            "words": np.array(rng.choice(["south", "east", "north"], N), dtype=object),
            "text": pd.array(rng.choice(["u", "v"], N), "string"),
            "declared": pd.Categorical(rng.choice(["low", "high", "mid"], N), ["low", "mid", "high"]),
            "ordered": pd.Categorical(rng.choice(["S", "M", "L"], N), ["S", "M", "L", "XL"], ordered=True),
            "many": pd.Categorical(rng.integers(0, 8, N).astype(str)),
        }
    )


@pytest.fixture(scope="module")
def data() -> tuple[pd.DataFrame, pd.Series]:
    X = table()
    rng = np.random.default_rng(6)
    y = X["number"] + 1.5 * (X["words"] == "north") + 0.8 * (X["ordered"] == "L") + rng.normal(size=N)
    return X, y.rename("y")


def bits(posterior: wv.Posterior) -> tuple[bytes, bytes]:
    return posterior.pip.tobytes(), posterior.coefficients()["mean"].to_numpy().tobytes()


def test_python_command_line_and_formula_agree_to_the_bit(
    data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = data
    expected = wv.exact(wv.Problem(X, y))
    assert expected.problem.names == list(X.columns)
    monkeypatch.chdir(tmp_path)
    X.assign(y=y).to_parquet("table.parquet")
    result = CliRunner().invoke(main, ["exact", "table.parquet", "-y", "y", "--no-report", "--out", "run"])
    assert result.exit_code == 0, result.output
    by_file = wv.Posterior.load("run/posterior.npz")
    by_formula = wv.VariableSelector.from_formula(
        f"y ~ {' + '.join(X.columns)}", X.assign(y=y), sampler="exact"
    )
    by_estimator = wv.VariableSelector(sampler="exact").fit(X, y)
    for other in (by_file, by_formula.posterior_, by_estimator.posterior_):
        assert other.problem.names == expected.problem.names
        assert bits(other) == bits(expected)
    assert by_file.problem.reference_levels == expected.problem.reference_levels
    assert expected.problem.reference_levels == {
        "words": "east", "text": "u", "declared": "low", "ordered": "S", "many": "0",
    }  # fmt: skip
    # new rows in any form
    new = X.head(7)
    mean = expected.predict(new)
    assert np.isfinite(mean).all()
    np.testing.assert_array_equal(by_file.predict(new), mean)
    np.testing.assert_array_equal(by_estimator.predict(new), mean)
    np.testing.assert_array_equal(by_formula.predict(new), mean)
    X.head(7).to_parquet("new.parquet")
    result = CliRunner().invoke(main, ["predict", "run", "new.parquet", "--out", "predicted.csv"])
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(pd.read_csv("predicted.csv")["mean"], mean, rtol=1e-14)


@pytest.mark.parametrize(
    "change",
    [
        pl.from_pandas,
        lambda X: pl.from_pandas(X).lazy(),
        pa.Table.from_pandas,
        lambda X: {name: X[name] for name in X},
        lambda X: X.astype(dict.fromkeys(CATEGORIES[:-1], object)),
    ],
    ids=["polars", "lazy", "pyarrow", "dict", "object"],
)
def test_all_kinds_of_tables_say_the_same(data: Any, change: Any) -> None:
    X, y = data
    slab = wv.GPrior(N)  # it does not depend on the reference level, which may be another without an order
    expected = wv.exact(wv.Problem(X, y, slab=slab))
    posterior = wv.exact(wv.Problem(change(X), y.to_numpy(), slab=slab))
    assert posterior.problem.names == expected.problem.names
    np.testing.assert_allclose(posterior.pip, expected.pip, rtol=1e-9)
    np.testing.assert_allclose(posterior.predict(change(X)), expected.predict(X), rtol=1e-9)


def test_an_enum_of_polars_keeps_its_order() -> None:
    rng = np.random.default_rng(5)
    sizes = rng.choice(["S", "M", "L"], 60)
    x, y = rng.normal(size=60), rng.normal(size=60)
    frame = pl.DataFrame({"size": pl.Series(sizes.tolist(), dtype=pl.Enum(["S", "M", "L"])), "x": x})
    expected = pd.DataFrame({"size": pd.Categorical(sizes, ["S", "M", "L"]), "x": x})
    posterior = wv.exact(wv.Problem(frame, y))
    assert posterior.problem.reference_levels == {"size": "S"}
    assert posterior.pip.tobytes() == wv.exact(wv.Problem(expected, y)).pip.tobytes()
    scored = wv.Problem(frame, y, categories=wv.Categories(scores={"size": ["S", "M", "L"]}))
    assert scored.names == ["size", "x"]
    without_order = frame.with_columns(pl.col("size").cast(pl.String).cast(pl.Categorical))
    assert wv.Problem(without_order, y).reference_levels == {"size": "L"}


def test_a_saved_posterior_knows_its_levels(data: Any, tmp_path: Path) -> None:
    X, y = data
    posterior = wv.exact(wv.Problem(X[["number", "words"]], y))
    posterior.save(tmp_path / "a.npz")
    again = wv.Posterior.load(tmp_path / "a.npz")
    assert again.problem.encoding == posterior.problem.encoding
    np.testing.assert_array_equal(again.predict(X), posterior.predict(X))
    unknown = X.assign(words=["west", *X["words"][1:]])
    with pytest.raises(DataError, match=r"'words' has 'west' in row 0, .*its levels are east, north, south"):
        again.predict(unknown)
    with pytest.raises(DataError, match="X lacks the column 'words'"):
        again.predict(X[["number"]])


def test_groups_and_always_take_names_of_categories(data: Any) -> None:
    X, y = data
    problem = wv.Problem(X, y, always_include=["words"], groups={"sizes": ["declared", "ordered"]})
    assert problem.always_names == ["words=north", "words=south"]
    assert "sizes" in problem.names
    assert not {"words", "declared", "ordered"} & set(problem.names)
    assert problem.columns_used[-11:-7] == ["declared=mid", "declared=high", "ordered=M", "ordered=L"]
    labelled = wv.Problem(X[["words", "number", "text"]], y, groups=["a", "b", "a"])
    assert labelled.names == ["a", "b"]
    assert labelled.columns_used == ["words=north", "words=south", "text=v", "number"]
    with pytest.raises(DataError, match="groups has 2 labels but X has 3 columns"):
        wv.Problem(X[["words", "number", "text"]], y, groups=["a", "b"])
    with pytest.raises(DataError, match="always_include: there is no column 'word'; did you mean 'words'"):
        wv.Problem(X, y, always_include=["word"])


# --- choices


def test_scores_and_differences() -> None:
    size = ["S", "M", "L", "M", "S", "L"]
    X, y = pd.DataFrame({"size": size, "x": [1.0, 3, 2, 5, 4, 0]}), np.array([1.1, 2.2, 4, 3, 1, 5])
    order = {"size": ["S", "M", "L", "XL"]}
    scores = wv.Problem(X, y, categories=wv.Categories(scores=order))
    assert scores.names == ["size", "x"]
    assert scores.encoding.apply_to_new(X)["size score"].tolist() == [0, 1, 2, 1, 0, 2]
    assert scores.reference_levels == {}
    differences = wv.Problem(X, y, categories=wv.Categories(differences=order))
    made = differences.encoding.apply_to_new(X)
    assert made["size≥M"].tolist() == [0, 1, 1, 1, 0, 1]
    assert made["size≥L"].tolist() == [0, 0, 1, 0, 0, 1]
    # with a prior that sees only the span of a group, differences and levels are the same model
    by_levels = wv.exact(wv.Problem(X, y, slab=wv.GPrior(6), categories=["size"]))
    by_differences = wv.exact(
        wv.Problem(X, y, slab=wv.GPrior(6), categories=wv.Categories(differences=order))
    )
    np.testing.assert_allclose(by_differences.pip, by_levels.pip, rtol=1e-9)
    with pytest.raises(DataError, match="column 'size' has no order; say which"):
        wv.Problem(X, y, categories=wv.Categories(scores=["size"]))
    with pytest.raises(DataError, match="'size' has the level 'L', which is not among those given"):
        wv.Problem(X, y, categories=wv.Categories(scores={"size": ["S", "M"]}))
    with pytest.raises(DataError, match="both scores and differences"):
        wv.Categories(scores=["a"], differences=["a"])


def test_files_may_have_an_order_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    size = pd.Categorical(rng.choice(["S", "M", "L"], 60), ["S", "M", "L"], ordered=True)
    X = pd.DataFrame({"size": size, "grade": rng.integers(1, 4, 60), "x": rng.normal(size=60)})
    y = rng.normal(size=60)
    X.assign(y=y).to_parquet("a.parquet")
    X.assign(y=y).to_csv("a.csv", index=False)

    def call(file: str, *options: str, code: int = 0) -> str:
        run = CliRunner().invoke(main, ["exact", file, "-y", "y", "--no-report", "--overwrite", *options])
        assert run.exit_code == code, run.output
        return run.output

    call("a.parquet", "--differences", "size", "--scores", "grade")
    saved = wv.Posterior.load("a-run/posterior.npz")
    assert saved.problem.columns_used == ["size≥M", "size≥L", "grade score", "x"]
    by_name = wv.Categories(scores=["grade"], differences=["size"])
    np.testing.assert_array_equal(saved.pip, wv.exact(wv.Problem(X, y, categories=by_name)).pip)
    assert "'size' has no order; say which, as in --differences size=L,M,S" in call(
        "a.csv", "--differences", "size", code=2
    )
    assert "--differences must have a name" in call("a.csv", "--differences", "sizes", code=2)
    assert "--differences must have a name" in call("a.csv", "--differences", "size=S", code=2)


def many_levels() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    city = [f"city {i}" for i in np.minimum(rng.geometric(0.02, 900) - 1, 199)]
    return pd.DataFrame({"city": city, "x": rng.normal(size=900)}), rng.normal(size=900)


def test_two_hundred_levels() -> None:
    X, y = many_levels()
    with pytest.raises(DataError, match=r"'city' contains free text: .*categories=\['city'\].*lump=0.01"):
        wv.Problem(X, y)
    forced = wv.Problem(X, y, categories=["city"])
    assert forced.names == ["city", "x"]
    assert len(forced.columns_used) == X["city"].nunique()
    assert wv.Problem(X.astype({"city": "category"}), y).columns_used == forced.columns_used
    lumped = wv.Problem(X, y, categories=wv.Categories(["city"], lump=0.015))
    counts = X["city"].value_counts()
    assert len(lumped.columns_used) == (counts >= 0.015 * 900).sum() + 1
    assert lumped.encoding.levels["city"][-1] == "(other)"
    # rare levels, and levels that the data did not have
    rare = X.head(2).assign(city=[counts.index[-1], "never seen"])
    made = lumped.encoding.apply_to_new(rare)
    assert made["city=(other)"].tolist() == [1, 1]
    with pytest.raises(DataError, match="all of which are rarer than"):
        wv.Problem(X, y, categories=wv.Categories(["city"], lump=0.9))
    with pytest.raises(DataError, match="lump must be a share"):
        wv.Categories(lump=5)


def test_numbers_that_are_codes() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"zip_code": rng.choice([10115, 20095, 80331], 40), "x": rng.normal(size=40)})
    y = rng.normal(size=40)
    with pytest.warns(DataWarning, match=r"'zip' has numbers with zeros before them.*categories=\['zip'\]"):
        wv.Problem(X.assign(zip=X["zip_code"].map(lambda z: f"0{z}")), y)
    forced = wv.Problem(X, y, categories="zip_code")
    assert forced.columns_used == ["zip_code=20095", "zip_code=80331", "x"]
    # also in a table without words, of any kind of numbers and of any library
    codes = X["zip_code"]
    for name, cells in (
        ("PLZ", codes), ("postalCode", codes.astype(float)), ("zip", codes.astype("Int64")), ("region_id", codes),
        ("regionId", codes),
    ):  # fmt: skip
        frame = pd.DataFrame({name: cells, "x": X["x"]})
        for table in (frame, pl.DataFrame(frame.to_dict("list"))):
            with pytest.warns(DataWarning, match=f"'{name}' has whole numbers and the name of a code"):
                assert wv.Problem(table, y).encoding is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # quantities, yes and no, and identifiers of rows
        for name, values in (
            ("zip_area", X["x"] ** 2),
            ("code", codes == 10115),
            ("person_id", rng.permutation(40)),
            ("valid", codes),
        ):
            wv.Problem(pd.DataFrame({name: values, "x": X["x"]}), y)
    with pytest.raises(DataError, match="categories: there is no column 'zap'"):
        wv.Problem(X, y, categories=["zap"])
    with pytest.raises(DataError, match="X has no named columns"):
        wv.Problem(X.to_numpy(), y, categories=["zip_code"])


def test_labels_that_are_nearly_the_same_are_remarked_upon() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"sex": rng.choice(["F", "f", "M", " M "], 40), "x": rng.normal(size=40)})
    with pytest.warns(DataWarning, match=r"'sex' has levels that differ only in capitals.*'F' and 'f'"):
        problem = wv.Problem(X, rng.normal(size=40))
    assert problem.encoding.levels == {"sex": ["F", "M", "f"]}  # blanks around labels do not count
    for alike in (
        ["New York", "new-york"],
        ["Köln", "Koln"],
        ["caf\u00e9", "cafe\u0301"],
        ["St. Ives", "St Ives"],
    ):
        with pytest.warns(DataWarning, match="differ only in capitals, accents or punctuation"):
            wv.Problem(X.assign(sex=rng.choice([*alike, "other"], 40)), rng.normal(size=40))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for apart in (["A", "A+", "A-"], ["<5", ">5", "5.5"], ["0-10", "010-", "1.5"], ["C", "C#", "C++"]):
            wv.Problem(X.assign(sex=rng.choice(["b", *apart], 40)), rng.normal(size=40))


def test_one_level_is_left_out_and_said() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"same": ["a"] * 20, "x": rng.normal(size=20)})
    with pytest.warns(DataWarning, match="left out categories that have only one level: same"):
        problem = wv.Problem(X, rng.normal(size=20), always_include=["same"])
    assert (problem.names, problem.always_names) == (["x"], [])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([dt.datetime(2024, 1, d) for d in range(1, 21)], "column 'c' contains dates or times .*X.drop"),
        ([f"2024-01-{d:02d}" for d in range(1, 21)], "column 'c' contains dates or times"),
        ([*map(str, range(19)), "oops"], "column 'c' has 'oops' in row 19, which is not a number"),
        ([f"note {i}" for i in range(20)], "column 'c' contains free text: 20 different values in 20 rows"),
        (["1,000", "2,000"] * 10, "column 'c' has '1,000' in row 0: write numbers with a decimal point"),
        ([None, *"ab" * 9, "a"], r"X column 'c=b' is missing \(NaN\) in row 0"),
    ],
)
def test_what_is_refused_in_frames(column: Any, message: str) -> None:
    X = pd.DataFrame({"g": list("uv") * 10, "c": column})
    with pytest.raises(DataError, match=message):
        wv.Problem(X, np.arange(20.0) % 7)


def test_words_that_are_numbers_and_amounts() -> None:
    price = ["$1,200", "$12.5", "-$3", "$ 7"] * 5
    share = ["12 %", "7.5%", "0 %", "3%"] * 5
    X = pd.DataFrame({"text": [str(i / 2) for i in range(20)], "price": price, "share": share})
    problem = wv.Problem(X, np.arange(20.0) ** 2)
    made = problem.encoding.apply_to_new(X)
    assert made["price"].tolist()[:4] == [1200, 12.5, -3, 7]
    assert made["share"].tolist()[:4] == [12, 7.5, 0, 3]
    assert made["text"].tolist() == [i / 2 for i in range(20)]
    # files with semicolons may have decimal commas in amounts too
    reading = classify(pd.Series(["1.200,50 €", "3,5 €", "7 €"] * 5), True, True)
    assert reading.kind == "amount"
    np.testing.assert_array_equal(reading.values, [1200.5, 3.5, 7] * 5)
    mixed = X.assign(price=["$1", "€2", "$3", "£4"] * 5)
    with pytest.warns(
        DataWarning, match=r"'price' has amounts \(\$1, \$3, £4, €2\) but is read as a category"
    ):
        assert wv.Problem(mixed, np.arange(20.0) ** 2).encoding.levels["price"] == ["$1", "$3", "£4", "€2"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wv.Problem(X.assign(code=np.arange(20) % 5), np.arange(20.0) ** 2, categories=["code"])


def test_the_command_line_has_the_same_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = many_levels()
    X["grade"] = np.array(["low", "mid", "high"])[np.arange(900) % 3]
    X["code"] = np.arange(900) % 4 + 7
    monkeypatch.chdir(tmp_path)
    X.assign(y=y).to_csv("a.csv", index=False)
    refused = CliRunner().invoke(main, ["exact", "a.csv", "-y", "y", "--no-report"])
    assert refused.exit_code == 2
    assert "--category city" in refused.output
    assert "--lump 0.01" in refused.output
    options = ["--category", "city,code", "--lump", "0.015", "--differences", "grade=low,mid,high"]
    done = CliRunner().invoke(main, ["exact", "a.csv", "-y", "y", "--no-report", *options])
    assert done.exit_code == 0, done.output
    expected = wv.exact(
        wv.Problem(
            X,
            y,
            categories=wv.Categories(["city", "code"], 0.015, differences={"grade": ["low", "mid", "high"]}),
        )
    )
    assert bits(wv.Posterior.load("a-run/posterior.npz")) == bits(expected)
    wrong = CliRunner().invoke(main, ["exact", "a.csv", "-y", "y", "--scores", "grade", "--overwrite"])
    assert "'grade' has no order; say which, as in --scores grade=high,low,mid" in wrong.output
    codes = encode_table(read_table("a.csv"), "y", drop=["city", "grade"]).notes
    assert codes == [
        "Column 'code' has whole numbers and the name of a code; it is read as a quantity. If it is a category, make it one "
        "with --category code."
    ]


# --- scikit-learn


def test_estimators_select_columns_of_the_table(data: Any) -> None:
    X, y = data
    fitted = wv.VariableSelector().fit(X, y)
    by_name = fitted.posterior_.inclusion_probabilities
    assert fitted.feature_names_in_.tolist() == list(X.columns)
    np.testing.assert_array_equal(fitted.inclusion_probabilities_, by_name[list(X.columns)])
    assert len(fitted.coefficients_) == len(fitted.columns_) == len(fitted.posterior_.problem.all_columns)
    assert fitted.transform(X).shape == (N, int((by_name >= 0.5).sum()))
    chosen = SelectFromModel(wv.VariableSelector(), threshold=0.5).fit(X, y)
    assert chosen.get_support().tolist() == (fitted.inclusion_probabilities_ >= 0.5).tolist()
    assert chosen.get_support().any()
    classifier = wv.VariableSelectorClassifier(max_size=2).fit(X[["number", "words"]], y > 0)
    assert classifier.predict(X[["number", "words"]].to_numpy()).tolist() == (
        classifier.predict(X[["number", "words"]]).tolist()
    )


def test_parameters_of_priors_in_a_grid(data: Any) -> None:
    X, y = data
    selector = wv.VariableSelector(slab=wv.GPrior(5))
    found = GridSearchCV(selector, {"slab__g": [0.01, 80]}, cv=3).fit(X[["number", "words"]], y)
    assert found.best_params_ == {"slab__g": 80}
    assert selector.slab == wv.GPrior(5)
    assert selector.get_params()["slab__g"] == 5
    assert clone(selector).set_params(slab__g=7).slab == wv.GPrior(7)
    with pytest.raises(DataError, match=r"slab__h: GPrior\(g=5.0\) has no parameter 'h'"):
        selector.set_params(slab__h=1)


def test_messages_of_estimators_name_the_column(data: Any) -> None:
    X, y = data
    with pytest.raises(DataError, match=r"X column 'number' is missing \(NaN\) in row 3"):
        wv.VariableSelector().fit(X.assign(number=X["number"].where(np.arange(N) != 3)), y)


# --- what is told


def test_report_settings_and_methods_say_where_the_data_come_from(
    data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = data
    monkeypatch.chdir(tmp_path)
    table = X[["number", "words"]].assign(y=y)
    table.loc[[1, 4], "number"] = np.nan
    table.to_csv("my data.csv", index=False)
    done = CliRunner().invoke(main, ["exact", "my data.csv", "-y", "y", "--missing", "drop", "--out", "run"])
    assert done.exit_code == 0, done.output
    settings = json.loads(Path("run/settings.json").read_text())["problem"]
    assert (settings["rows_read"], settings["rows_dropped"], settings["rows"]) == (N, 2, N - 2)
    assert settings["reference_levels"] == {"words": "east"}
    posterior = wv.Posterior.load("run/posterior.npz")
    methods = posterior.methods()
    assert "regression of y, " in methods
    assert "read from my data.csv (80 rows), of which 2 were left out because of missing values." in methods
    assert "compared with a reference level: words with 'east'." in methods
    report = Path("run/report.html").read_text()
    for words in ("my data.csv", "words: east", "2, with missing values"):
        assert words in report
    assert "compared with a reference level: words with east" in posterior.explain()
    with pytest.warns(DataWarning, match="2 of 80 rows are left out"):
        problem = wv.Problem(table[["number", "words"]], y, missing="drop")
    assert "The data had 80 rows, of which 2 were left out" in wv.exact(problem).methods()
