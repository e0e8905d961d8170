"""The estimators among other tools: selection and searches of scikit-learn, and tables of all kinds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import whichvars as wv
from whichvars.errors import DataError, WhichvarsError

N = 80
KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pyarrow": lambda d: pa.Table.from_pandas(d, preserve_index=False),
    "lazy": lambda d: pl.LazyFrame(d.to_dict("list")),
    "polars": lambda d: pl.DataFrame(d.to_dict("list")),
    "dict of arrays": lambda d: {name: d[name].to_numpy() for name in d},
    "dict of lists": lambda d: d.to_dict("list"),
    "nullable": lambda d: d.convert_dtypes(),
    "pandas sparse": lambda d: d.astype(pd.SparseDtype(float, 0.0)),
    "arrow types": lambda d: d.convert_dtypes(dtype_backend="pyarrow"),
}
ARRAYS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "array": lambda d: d.to_numpy(),
    "csr": lambda d: sparse.csr_array(d.to_numpy()),
    "csc": lambda d: sparse.csc_matrix(d.to_numpy()),
    "coo": lambda d: sparse.coo_array(d.to_numpy()),
    "masked": lambda d: np.ma.masked_invalid(d.to_numpy(), copy=True),
}


def data() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(np.round(rng.normal(size=(N, 4)), 3), columns=list("abcd"))
    return X, (2 * X["a"] - X["b"] + rng.normal(size=N)).to_numpy()


@pytest.mark.parametrize("kind", [*KINDS, *ARRAYS])
def test_every_kind_of_table_gives_the_same_answer(kind: str) -> None:
    X, y = data()
    convert = (KINDS | ARRAYS)[kind]
    for estimator, response in (
        (wv.VariableSelector(), y),
        (wv.VariableSelectorClassifier(), np.where(y > 0, "yes", "no")),
    ):
        expected = estimator.fit(X, response)
        pips, predicted = expected.inclusion_probabilities_, expected.predict(X)
        found = estimator.fit(convert(X), response)
        np.testing.assert_allclose(found.inclusion_probabilities_, pips, rtol=1e-9)
        if predicted.dtype.kind == "f":
            np.testing.assert_allclose(found.predict(convert(X)), predicted, rtol=1e-9)
        else:
            np.testing.assert_array_equal(found.predict(convert(X)), predicted)
        assert found.transform(convert(X)).shape == (N, int((pips >= 0.5).sum()))
        assert found.score(convert(X), response) > 0.5
        names = [c if kind in KINDS else f"x{i}" for i, c in enumerate(X) if pips[i] >= 0.5]
        assert found.get_feature_names_out().tolist() == names


@pytest.mark.parametrize("kind", [*KINDS, *ARRAYS])
def test_cells_that_cannot_be_used_are_named(kind: str) -> None:
    X, y = data()
    convert = (KINDS | ARRAYS)[kind]
    column = "b" if kind in KINDS else "x1"
    for value, what in ((np.nan, "missing"), (np.inf, "missing" if kind == "masked" else "infinite")):
        bad = X.copy()
        bad.loc[3, "b"] = value
        for estimator, response in ((wv.VariableSelector(), y), (wv.VariableSelectorClassifier(), y > 0)):
            with pytest.raises(DataError, match=f"X column '{column}' is {what}.* in row 3"):
                estimator.fit(convert(bad), response)
            fitted = estimator.fit(convert(X), response)
            with pytest.raises(DataError, match=f"X column '{column}' is {what}.* in row 3"):
                fitted.predict(convert(bad))
    if kind in KINDS and kind != "pandas sparse":
        for cells, message in (
            ([f"text {i}" for i in range(N)], "column 't' contains free text"),
            ([[1, 2]] * N, "X column 't' contains"),
        ):
            with pytest.raises(WhichvarsError, match=message):
                wv.VariableSelector().fit(convert(X.assign(t=cells)), y)


def test_masked_cells_are_missing_whatever_they_contain() -> None:
    X, y = data()
    masked = np.ma.array(X.to_numpy(), mask=np.zeros(X.shape, bool))
    masked[5, 2] = np.ma.masked
    assert np.isfinite(masked.data).all()
    with pytest.raises(DataError, match=r"X column 'x2' is missing.* in row 5"):
        wv.VariableSelector().fit(masked, y)
    fitted = wv.VariableSelector().fit(X.to_numpy(), y)
    with pytest.raises(DataError, match=r"X column 'x2' is missing.* in row 5"):
        fitted.predict(masked)
    imputed = wv.VariableSelector(missing="impute", imputations=2).fit(masked, y)
    assert int(imputed.posterior_.imputations.gaps.sum()) == 1
    dropped = wv.VariableSelector(missing="drop")
    with pytest.warns(wv.DataWarning, match="1 of 80 rows"):
        assert dropped.fit(masked, y).posterior_.problem.n == N - 1


def test_selection_by_scikit_learn_goes_by_inclusion_probabilities() -> None:
    X, y = data()
    by_model = SelectFromModel(wv.VariableSelector(), threshold=0.5).fit(X, y)
    pips = by_model.estimator_.inclusion_probabilities_
    assert by_model.get_support().tolist() == (pips >= 0.5).tolist() == [True, True, False, False]
    labels = SelectFromModel(wv.VariableSelectorClassifier(), threshold=0.5).fit(X, y > 0)
    assert labels.get_support().tolist() == (labels.estimator_.inclusion_probabilities_ >= 0.5).tolist()
    fitted = wv.VariableSelector().fit(X, y)
    assert SelectFromModel(fitted, threshold=0.5, prefit=True).transform(X).shape == (N, 2)
    pipeline = make_pipeline(StandardScaler(), SelectFromModel(wv.VariableSelector(), threshold=0.5))
    made = pipeline.set_output(transform="pandas").fit(X, y).transform(X)
    assert list(made.columns) == ["a", "b"]
    assert (
        RFE(wv.VariableSelector(), n_features_to_select=1).fit(X, y).support_.tolist() == [True] + [False] * 3
    )
    # a category is one column of the table
    table = X.assign(g=np.where(X["c"] > 0, "u", "v"))
    assert SelectFromModel(wv.VariableSelector(), threshold=0.5).fit(table, y).get_support().tolist() == [
        True, True, False, False, False,
    ]  # fmt: skip


def test_parameters_of_priors_can_be_searched() -> None:
    X, y = data()
    for selector in (wv.VariableSelector(), wv.VariableSelector(slab=wv.IndependentNormal(3.0))):
        search = GridSearchCV(selector, {"slab__g": [1e-6, 1.0]}, cv=3).fit(X, y)
        assert search.best_params_ == {"slab__g": 1.0}
        assert search.best_estimator_.slab == wv.IndependentNormal(1.0)
    pipeline = make_pipeline(StandardScaler(), wv.VariableSelector(slab=wv.GPrior(10)))
    search = GridSearchCV(pipeline, {"variableselector__slab__g": [1e-6, 50.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"variableselector__slab__g": 50.0}
    sizes = GridSearchCV(
        wv.VariableSelectorClassifier(model_prior=wv.BetaBinomial(size=2)),
        {"model_prior__size": [1.0, 3.0]},
        cv=3,
    )
    assert sizes.fit(X, y > 0).best_params_["model_prior__size"] in (1.0, 3.0)
    with pytest.raises(DataError, match="model_prior__size: give model_prior first"):
        wv.VariableSelector().set_params(model_prior__size=3)
    with pytest.raises(DataError, match="has no parameter 'h'"):
        wv.VariableSelector().set_params(slab__h=3)
