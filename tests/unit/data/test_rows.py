"""Rows of X, y and weights that do not belong together by their labels are refused wherever such data come in."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import cross_val_score

import whichvars as wv
from whichvars.data.rows import check_same_rows
from whichvars.errors import DataError

N = 12
RNG = np.random.default_rng(3)
VALUES = RNG.normal(size=(N, 3))
ORDER = RNG.permutation(N)
WORDS = pd.Index([f"id{i}" for i in range(N)])
PAIRS = pd.MultiIndex.from_product([["a", "b", "c"], range(4)])
DAYS = pd.date_range("2020-01-01", periods=N)
TWICE = pd.Index([f"id{i // 2}" for i in range(N)])
REACHED = pd.RangeIndex(100, 100 + N)  # of data.iloc[100:]
PLAIN = pd.RangeIndex(N)


def table(index=None):
    return pd.DataFrame(VALUES, columns=["a", "b", "c"], index=index)


def response(index=None):
    return pd.Series(VALUES @ [1.0, -1.0, 0.0] + 0.1 * VALUES[::-1, 0], name="y", index=index)


LABELS = {"words": WORDS, "pairs": PAIRS, "days": DAYS, "reached": REACHED, "numbers": pd.Index(np.arange(N))}  # fmt: skip


# --- what is refused


@pytest.mark.parametrize("kind", LABELS)
def test_the_same_labels_in_another_order(kind):
    index = LABELS[kind]
    y = response(index).iloc[ORDER]
    with pytest.raises(DataError, match="y has the rows of X in another order") as caught:
        wv.Problem(table(index), y)
    advice = re.search(
        r"write (y = y\.loc\[X\.index\]), or, .* write (y = y\.to_numpy\(\))$", str(caught.value)
    )
    assert advice, caught.value
    X = table(index)
    for line, same in zip(advice.groups(), (response(), y.to_numpy())):  # what the message says, done
        scope = {"X": X, "y": y}
        exec(line, scope)
        found = wv.exact(wv.Problem(X, scope["y"])).pip
        np.testing.assert_array_equal(found, wv.exact(wv.Problem(X.to_numpy(), same)).pip)


def test_the_first_row_that_differs_is_named():
    swapped = WORDS[[0, 1, 2, 4, 3, *range(5, N)]]
    with pytest.raises(DataError, match=r"\(row 3 is 'id3' in X but 'id4' in y\)"):
        wv.Problem(table(WORDS), response(swapped))
    with pytest.raises(DataError, match=r"\(row 0 is \('a', 0\) in X but \('c', 3\) in y\)"):
        wv.Problem(table(PAIRS), response(PAIRS[::-1]))
    with pytest.raises(DataError, match=r"\(row 0 is 100 in X but 111 in y\)"):
        wv.Problem(table(REACHED), response(REACHED[::-1]))
    with pytest.raises(
        DataError, match=r"\(row 0 is 2020-01-01 00:00:00 in X but 2020-01-12 00:00:00 in y\)"
    ):
        wv.Problem(table(DAYS), response(DAYS[::-1]))


def test_labels_of_which_some_are_shared():
    y = response(pd.Index([f"id{i}" for i in range(3, 3 + N)]))
    X = table(WORDS)
    with pytest.raises(
        DataError, match=r"X and y have different rows \(row 0 is 'id0' in X but 'id3' in y\)"
    ) as caught:
        wv.Problem(X, y)
    assert "rows = X.index.intersection(y.index), as X.loc[rows] and y.loc[rows], or, if" in str(caught.value)
    rows = X.index.intersection(y.index)
    assert wv.Problem(X.loc[rows], y.loc[rows]).n == N - 3


EVERY_OTHER = pd.RangeIndex(0, 2 * N, 2)  # of data.iloc[::2]


@pytest.mark.parametrize("other", [PAIRS, DAYS, REACHED, EVERY_OTHER, pd.Index(list("abcdefghijkl"))])
def test_labels_of_which_none_is_shared(other):
    with pytest.raises(
        DataError, match=r"X and y have no row label in common .* take them from one table, or, if"
    ):
        wv.Problem(table(WORDS), response(other))


def test_labels_that_occur_more_than_once():
    assert wv.Problem(table(TWICE), response(TWICE)).n == N
    with pytest.raises(DataError, match=r"in another order, and some of them more than once") as caught:
        wv.Problem(table(TWICE), response(TWICE[::-1]))
    assert ".loc" not in str(caught.value)  # which would give each row several times


def test_a_column_as_a_frame_has_labels_too():
    with pytest.raises(DataError, match="another order"):
        wv.Problem(table(WORDS), response(WORDS[::-1]).to_frame())


def test_all_that_is_wrong_is_said_at_once():
    y, weights = response(WORDS[::-1]), pd.Series(np.ones(N), index=DAYS)
    with pytest.raises(
        DataError, match=r"^the rows of 2 arguments do not match:\n- y .*\n- X and weights .*$"
    ):
        wv.Problem(table(WORDS), y, weights=weights)
    with pytest.raises(
        DataError, match=r"^the rows of 2 .*\n- y has the rows of X .*\n- X has 12 rows but weights has 5;"
    ):
        wv.Problem(table(WORDS), y, weights=np.ones(5))
    with pytest.raises(DataError, match=r"^X has 12 rows but y has 11; they must be the same observations"):
        wv.Problem(table(WORDS), y.iloc[1:], weights=np.ones(N))


def test_weights_are_compared_with_y_where_x_has_no_labels():
    y, weights = response(WORDS), pd.Series(np.ones(N), index=WORDS)
    for X in (VALUES, table(), pl.DataFrame(VALUES)):
        assert wv.Problem(X, y, weights=weights).n == N
        with pytest.raises(
            DataError, match=r"^weights has the rows of y in another order .*weights\.loc\[y\.index\]"
        ):
            wv.Problem(X, y, weights=weights.iloc[::-1])


@pytest.mark.parametrize("plain", ["X", "y"])
def test_the_places_of_the_other_in_another_order(plain):
    """``df.sample(frac=1)`` shuffles X and leaves y as it was, or the other way round."""
    shuffled = pd.Index(ORDER)
    X, y = (table(), response(shuffled)) if plain == "X" else (table(shuffled), response())
    with pytest.raises(
        DataError, match=r"^y has the rows of X in another order .* write y = y\.loc\[X\.index\]"
    ):
        wv.Problem(X, y)
    other = pd.Index(ORDER + 1)  # no longer the places of the other: by position
    assert wv.Problem(table(other) if plain == "y" else X, response(other) if plain == "X" else y).n == N


# --- what is taken


@pytest.mark.parametrize("kind", LABELS)
def test_equal_labels_and_no_labels_go_by_position(kind):
    index = LABELS[kind]
    weights = pd.Series(np.ones(N), index=index)
    want = wv.exact(wv.Problem(VALUES, response().to_numpy())).pip
    for X, y, w in [
        (table(index), response(index), weights),
        (table(index), response(), None),  # 0, 1, 2, … are places
        (table(), response(index), None),
        (table(index[ORDER] if kind != "numbers" else index), response(), weights.set_axis(PLAIN)),
        (table(index), response().to_numpy(), weights),
        (table(index), pl.Series(response().to_numpy()), None),
        (pl.DataFrame(VALUES), response(index), None),
        (table(index), response().tolist(), None),
    ]:
        np.testing.assert_allclose(wv.exact(wv.Problem(X, y, weights=w)).pip, want, rtol=1e-10)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (WORDS, pd.CategoricalIndex(WORDS)),
        (pd.CategoricalIndex(WORDS), pd.CategoricalIndex(WORDS, categories=WORDS[::-1])),
        (REACHED, pd.Index(np.arange(100, 100 + N))),
        (REACHED, pd.Index(np.arange(100.0, 100 + N))),
        (PAIRS, pd.Index(list(PAIRS), tupleize_cols=False)),
        (WORDS.rename("one"), WORDS.rename("other")),
        (DAYS.tz_localize("UTC"), DAYS.tz_localize("UTC").tz_convert("CET")),
        (pd.Index([pd.NA, *range(1, N)], dtype="Int64"), pd.Index([np.nan, *range(1, N)])),
        (pd.Index([*range(1, N), pd.NA], dtype="Int64"), pd.Index([*range(1, N), np.nan])),
        (pd.Index([np.nan, *range(1, N)]), pd.Index([None, *range(1, N)], dtype=object)),
    ],
)
def test_the_same_labels_in_another_kind_of_index(one, other):
    check_same_rows(N, table(one), y=response(other))
    with pytest.raises(DataError):
        check_same_rows(N, table(one), y=response(other[::-1]))


# --- wherever rows come in


def test_the_selector():
    X, y, weights = table(WORDS), response(WORDS), pd.Series(np.ones(N), index=WORDS)
    selector = wv.VariableSelector().fit(X, y, weights)
    with pytest.raises(DataError, match=r"^y has the rows of X in another order"):
        wv.VariableSelector().fit(X, y.iloc[::-1], weights)
    with pytest.raises(
        DataError, match=r"^sample_weight has the rows of X .* sample_weight\.loc\[X\.index\]"
    ):
        wv.VariableSelector().fit(X, y, weights.iloc[::-1])
    assert selector.score(X, y) == pytest.approx(selector.score(table(), y.to_numpy()))
    assert selector.score(X, y, weights) > 0.5
    with pytest.raises(DataError, match=r"^y has the rows of X in another order"):
        selector.score(X, y.iloc[::-1])
    assert np.isfinite(cross_val_score(wv.VariableSelector(), X, y, cv=3)).all()
    frame = X.assign(y=y)
    wv.VariableSelector.from_formula("y ~ a + b", frame, sample_weight=weights)
    with pytest.raises(DataError, match=r"^sample_weight has the rows of X in another order"):
        wv.VariableSelector.from_formula("y ~ a + b", frame, sample_weight=weights.iloc[::-1])


def test_scores_of_a_posterior():
    X, y, weights = table(WORDS), response(WORDS), pd.Series(np.ones(N), index=WORDS)
    posterior = wv.exact(wv.Problem(X, y, weights=weights))
    assert posterior.loo(X, y, weights).index.equals(WORDS)
    assert np.isfinite(posterior.log_score(X, y))
    turned = y.iloc[::-1]
    with pytest.raises(DataError, match="y has the rows of X in another order"):
        posterior.log_score(X, turned)
    with pytest.raises(DataError, match="2 arguments do not match"):
        posterior.loo(X, turned, weights.iloc[::-1])


def test_sufficient_statistics():
    statistics = wv.SufficientStatistics
    X, y, weights = table(WORDS), response(WORDS), pd.Series(np.ones(N), index=WORDS)
    turned = weights.iloc[::-1]
    with pytest.raises(DataError, match="weights has the rows of X in another order"):
        statistics.from_arrays(X, y, turned)
    with pytest.raises(DataError, match="chunk 1: weights has the rows of X in another order"):
        statistics.from_chunks([(X, y, weights), (X, y, turned)])
    parts = [
        (table().iloc[rows], y.iloc[rows]) for rows in (slice(0, 6), slice(6, N))
    ]  # 6, 7, … are places too
    assert statistics.from_chunks(parts).n == N


def test_parts_of_dask():
    dask = pytest.importorskip("dask.dataframe")
    X = dask.from_pandas(table(WORDS.sort_values()), npartitions=2)
    y = response(WORDS.sort_values())
    assert wv.SufficientStatistics.from_dask(X, dask.from_pandas(y, npartitions=2)).n == N
    turned = dask.from_pandas(y.iloc[::-1], npartitions=2, sort=False)
    with pytest.raises(DataError, match=r"part [01]: "):
        wv.SufficientStatistics.from_dask(X, turned)
