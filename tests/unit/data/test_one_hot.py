"""One-hot columns of other transformers, grouped by the prefixes of their names."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import whichvars as wv
from whichvars.data.one_hot import prefix_groups
from whichvars.errors import ArgumentTypeError, DataError


def table() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    n = 200
    X = pd.DataFrame({
        "home_city": rng.choice(["Bonn", "New_York", "Old_Delhi"], n), "region": rng.choice(["north", "south", "west"], n),
        "x_1": rng.normal(size=n), "x_2": rng.normal(size=n), "is_new": rng.integers(0, 2, n), "is_old": rng.integers(0, 2, n),
    })  # fmt: skip
    return X, (X["home_city"] == "Bonn") + X["x_1"] + 0.5 * rng.normal(size=n)


def one_hot(drop: str | None = "first") -> ColumnTransformer:
    encoder = OneHotEncoder(drop=drop, sparse_output=False)
    steps = [("onehot", encoder, ["home_city", "region"]), ("scale", StandardScaler(), ["x_1", "x_2"])]
    return ColumnTransformer(steps, remainder="passthrough")


@pytest.mark.parametrize("drop", ["first", None])
def test_columns_of_a_transformer_are_found(drop: str | None) -> None:
    X, _ = table()
    made = one_hot(drop).set_output(transform="pandas").fit_transform(X)
    groups = prefix_groups(made, True)
    cities = ["Bonn", "New_York", "Old_Delhi"][drop is not None :]
    assert groups == {
        "onehot__home_city": [f"onehot__home_city_{c}" for c in cities],
        "onehot__region": [f"onehot__region_{r}" for r in ["north", "south", "west"][drop is not None :]],
    }
    assert prefix_groups(made, ["onehot__region_", "scale__"]) == {
        "onehot__region": groups["onehot__region"],
        "scale": ["scale__x_1", "scale__x_2"],
    }
    # columns that may be 1 in the same row belong to no category
    assert not prefix_groups(X[["is_new", "is_old"]], True)
    assert prefix_groups(X, None) == {}
    # levels may begin alike
    towns = pd.get_dummies(pd.DataFrame({"town": ["New_York", "New_Delhi", "Bonn"] * 4}), dtype=float)
    assert prefix_groups(towns, True) == {"town": ["town_Bonn", "town_New_Delhi", "town_New_York"]}


def test_the_posterior_is_that_of_categories() -> None:
    X, y = table()
    plain = wv.VariableSelector(sampler="exact").fit(X, y)
    first = one_hot().set_output(transform="pandas")
    pipeline = make_pipeline(first, wv.VariableSelector(sampler="exact", group_by_prefix=True)).fit(X, y)
    selector = pipeline[-1]
    problem = selector.posterior_.problem
    assert problem.names == ["onehot__home_city", "onehot__region", "scale__x_1", "scale__x_2", "remainder__is_new", "remainder__is_old"]  # fmt: skip
    # a scaled column has the same standardised coefficient
    np.testing.assert_allclose(selector.posterior_.pip, plain.posterior_.pip, rtol=1e-9)
    np.testing.assert_allclose(pipeline.predict(X), plain.predict(X), rtol=1e-8)
    # both columns of the city are selected, with one probability
    assert selector.get_support().tolist() == [True, True, False, False, True, False, False, False]
    ungrouped = make_pipeline(first, wv.VariableSelector(sampler="exact")).fit(X, y)[-1]
    assert ungrouped.posterior_.problem.p == 8
    labels = wv.VariableSelectorClassifier(sampler="exact", group_by_prefix=["onehot__home_city_"])
    fitted = labels.fit(first.fit_transform(X), y > 0)
    assert fitted.posterior_.problem.names[0] == "onehot__home_city"
    assert fitted.posterior_.problem.p == 7


def test_other_groups_and_columns_in_every_model_come_first() -> None:
    X, y = table()
    made = one_hot().set_output(transform="pandas").fit_transform(X)
    region = [c for c in made if c.startswith("onehot__region")]
    for settings in ({"groups": {"both": ["scale__x_1", "scale__x_2"]}}, {"always_include": region}):
        problem = wv.VariableSelector(group_by_prefix=True, **settings).fit(made, y).posterior_.problem
        assert "onehot__home_city" in problem.names
        assert ("both" in problem.names) == ("groups" in settings)
        assert ("onehot__region" in problem.names) == ("groups" in settings)
    holed = made.copy()
    holed.loc[::9, "scale__x_1"] = np.nan
    imputed = wv.VariableSelector(group_by_prefix=True, missing="impute", imputations=2).fit(holed, y)
    assert imputed.posterior_.problem.names[:2] == ["onehot__home_city", "onehot__region"]


def test_messages() -> None:
    X, y = table()
    made = one_hot().set_output(transform="pandas").fit_transform(X)
    with pytest.raises(DataError, match=r"needs the names of columns; .* set_output\(transform='pandas'\)"):
        wv.VariableSelector(group_by_prefix=True).fit(made.to_numpy(), y)
    with pytest.raises(DataError, match="no column has a name that begins with 'town_'"):
        wv.VariableSelector(group_by_prefix="town_").fit(made, y)
    with pytest.raises(ArgumentTypeError, match="must be True or prefixes of names"):
        wv.VariableSelector(group_by_prefix=3).fit(made, y)
    with pytest.raises(DataError, match="give group_by_prefix, or groups as one label per column"):
        wv.VariableSelector(group_by_prefix=True, groups=list(made.columns)).fit(made, y)
