"""Reading data: every container and dtype gives the same numbers, and what cannot be read is named."""

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from whichvars.data.frames import check_finite, check_unique, find_columns, read_columns, read_vector
from whichvars.errors import ArgumentTypeError, DataError

TABLE = np.array([[0, 1, 1], [1, 0, 3], [1, 1, 0], [0, 0, 2]])
BITS = TABLE % 2
NAMES = ["a", "b", "c"]

# --- containers and dtypes


@pytest.mark.parametrize(
    "dtype", ["b1", "i1", "u1", "i2", "u4", "i8", "u8", "f2", "f4", "f8", "g", "O", ">f8"]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy_dtypes_and_orders(dtype, order):
    values, names, has_names = read_columns(BITS.astype(dtype, order=order))
    assert values.dtype == np.float64
    assert (values == BITS).all()
    assert names == ["x0", "x1", "x2"]
    assert not has_names


@pytest.mark.parametrize(
    "X",
    [
        np.repeat(np.repeat(TABLE, 2, axis=0), 3, axis=1)[::2, ::3],
        TABLE[::-1, ::-1][::-1, ::-1],
        TABLE.tolist(),
        tuple(map(tuple, TABLE)),
        np.asmatrix(TABLE),
        np.ma.array(TABLE, mask=False),
        np.vectorize(Decimal, otypes=[object])(TABLE),
        np.vectorize(lambda v: Fraction(int(v)), otypes=[object])(TABLE),
        *[kind(TABLE) for kind in (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array, sp.coo_array)],
    ],
)
def test_other_arrays(X):
    values, names, _ = read_columns(X)
    assert (values == TABLE).all()
    assert names == ["x0", "x1", "x2"]


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame(TABLE, columns=NAMES),
        pd.DataFrame(TABLE.astype(float), columns=NAMES),
        pd.DataFrame(TABLE, columns=NAMES).astype({"a": bool, "b": "f4", "c": "u1"}),
        pd.DataFrame(TABLE, columns=NAMES).astype({"a": "boolean", "b": "Int64", "c": "Float32"}),
        pd.DataFrame(TABLE, columns=NAMES).astype({"a": "int64[pyarrow]", "b": "double[pyarrow]"}),
        pd.DataFrame(TABLE, columns=NAMES).astype(pd.SparseDtype("float64", 0.0)),
        pd.DataFrame(TABLE, columns=NAMES).astype(object),
        pl.DataFrame(TABLE, schema=NAMES),
        pl.DataFrame(TABLE, schema=NAMES).cast({"a": pl.Boolean, "b": pl.Float32, "c": pl.Decimal(10, 2)}),
    ],
)
def test_frames(X):
    values, names, has_names = read_columns(X)
    assert values.dtype == np.float64
    assert (values == TABLE).all()
    assert names == NAMES
    assert has_names


def test_names_of_frames_become_text():
    assert read_columns(pd.DataFrame(TABLE, columns=[1, 2, "c"])).names == ["1", "2", "c"]


def test_names_given_go_before_those_of_the_frame():
    doubled = pd.DataFrame(TABLE, columns=["a", "a", "b"])
    assert read_columns(doubled, names=NAMES).names == NAMES
    with pytest.raises(DataError, match="column names of X contain 'a' more than once; rename"):
        read_columns(doubled)
    with pytest.raises(DataError, match="column names of X contain '1' more than once"):
        read_columns(pd.DataFrame(TABLE, columns=[1, "1", 2]))


@pytest.mark.parametrize("X", [TABLE.astype(float), pd.DataFrame(TABLE.astype(float))])
def test_what_is_read_is_a_copy(X):
    values = read_columns(X).values
    values[:] = -1
    assert (np.asarray(X) == TABLE).all()
    y = X[:, 0] if isinstance(X, np.ndarray) else X[0]
    read_vector(y, 4, "y")[:] = -1
    assert (np.asarray(y) == TABLE[:, 0]).all()


# --- what is refused in X


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            ["u", "v", "w"],
            "X column 'c' contains text or categories; encode it as 0/1 columns .*groups.* or drop",
        ),
        (pd.Categorical([1, 2, 3]), "X column 'c' contains text or categories"),
        (pd.array(["u", "v", "w"], "string"), "X column 'c' contains text or categories"),
        (pd.date_range("2020", periods=3), "X column 'c' contains dates or times; name it in expand="),
        (pd.to_timedelta([1, 2, 3]), "X column 'c' contains dates or times"),
        (pd.date_range("2020", periods=3, tz="CET"), "X column 'c' contains dates or times"),
        (pd.period_range("2020", periods=3), "X column 'c' contains Period.* not a number"),
        (
            pd.Series([1, "two", 3], dtype=object),
            "X column 'c' contains 'two', which is not a number; encode",
        ),
        (pd.Series(["1", "2", "3"], dtype=object), "X column 'c' contains '1', which is not a number"),
        (pd.Series([dt.date(2020, 1, 1)] * 3, dtype=object), r"X column 'c' contains datetime.date\("),
        (pd.Series([[1], [2], [3]], dtype=object), r"X column 'c' contains \[1\]"),
        (np.array([1j, 2, 3]), "X column 'c' contains complex numbers"),
    ],
)
def test_pandas_columns_that_are_not_numbers(column, message):
    with pytest.raises(ArgumentTypeError, match=message):
        read_columns(pd.DataFrame({"a": [1, 2, 3], "c": column}))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pl.Series(["u", "v", "w"]), "X column 'c' contains text or categories"),
        (pl.Series(["u", "v", "w"], dtype=pl.Categorical), "X column 'c' contains text or categories"),
        (
            pl.Series(["u", "v", "w"], dtype=pl.Enum(["u", "v", "w"])),
            "X column 'c' contains text or categories",
        ),
        (pl.Series([dt.date(2020, 1, d) for d in (1, 2, 3)]), "X column 'c' contains dates or times"),
        (pl.Series([dt.timedelta(d) for d in (1, 2, 3)]), "X column 'c' contains dates or times"),
        (pl.Series([dt.time(d) for d in (1, 2, 3)]), "X column 'c' contains dates or times"),
        (pl.Series([[1], [2], [3]]), "X column 'c' contains .* not a number"),
        (pl.Series([b"1", b"2", b"3"]), "X column 'c' contains b'1', which is not a number"),
    ],
)
def test_polars_columns_that_are_not_numbers(column, message):
    with pytest.raises(ArgumentTypeError, match=message):
        read_columns(pl.DataFrame({"a": [1, 2, 3], "c": column}))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([["1", "2"], ["3", "4"]]), "X column 'x0' contains .*; encode"),
        (np.array([[1, "b"], [2, "c"]], dtype=object), "X column 'x1' contains 'b', which is not a number"),
        (np.array([[b"1"], [b"2"]]), "X column 'x0' contains b'1'"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "X column 'x0' contains dates or times"),
        (np.array([[3]], dtype="m8[s]"), "X column 'x0' contains dates or times"),
        (np.array([[np.timedelta64(3, "s")]], dtype=object), "X column 'x0' contains .*timedelta64"),
        (np.array([[1j, 2]]), "X column 'x0' contains complex numbers; give their real and imaginary parts"),
        (np.array([[1, 2j]], dtype=object), "X column 'x1' contains 2j"),
    ],
)
def test_arrays_that_are_not_numbers(X, message):
    with pytest.raises(ArgumentTypeError, match=message):
        read_columns(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.arange(3), r"X is one-dimensional; .* X.reshape\(-1, 1\)"),
        (pd.Series([1, 2, 3]), r"X is one-dimensional; .*X.to_frame\(\)"),
        ([], "X is one-dimensional"),
        (np.zeros((2, 2, 2)), r"2 dimensions\), not 3"),
        (3.0, r"2 dimensions\), not 0"),
        (None, r"2 dimensions\), not 0"),
        ("data.csv", r"2 dimensions\), not 0"),
        ([[1, 2], [3]], "X has rows of different lengths"),
    ],
)
def test_shapes_that_are_not_tables(X, message):
    with pytest.raises(DataError, match=message):
        read_columns(X)


MISSING = r"X column 'c' is missing \(NaN\) in row 1"


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (pd.DataFrame({"a": [1, 2], "c": [1, np.nan]}), MISSING + "; drop the row or the column, or fill"),
        (pd.DataFrame({"a": [1, 2], "c": pd.array([1, None], "Int64")}), MISSING),
        (pd.DataFrame({"a": [1, 2], "c": pd.array([True, None], "boolean")}), MISSING),
        (pd.DataFrame({"a": [1, 2], "c": pd.array([1, None], "int64[pyarrow]")}), MISSING),
        (pd.DataFrame({"a": [1, 2], "c": pd.Series([1, None], dtype=object)}), MISSING),
        (pd.DataFrame({"a": [1, 2], "c": pd.Series([1, pd.NA], dtype=object)}), MISSING),
        (pl.DataFrame({"a": [1, 2], "c": [1, None]}), MISSING),
        (pl.DataFrame({"a": [1, 2], "c": [True, None]}), MISSING),
        (np.ma.array([[1, 2], [3, 4]], mask=[[0, 0], [0, 1]]), r"X column 'x1' is missing \(NaN\) in row 1"),
        (sp.csr_array(np.array([[1, 0], [np.nan, 0]])), r"X column 'x0' is missing \(NaN\) in row 1"),
        (np.array([[1, np.inf], [0, 1]]), "X column 'x1' is infinite in row 0;"),
        (
            np.array([[1, -np.inf], [np.inf, 1]]),
            r"X column 'x0' is infinite in row 1 \(and 1 more such value\)",
        ),
        (np.array([[1, np.nan], [np.nan, np.nan]]), r"'x0'.* row 1 \(and 2 more such values\)"),
        (np.array([[10**400, 1]], dtype=object), "X column 'x0' is infinite in row 0"),
        (np.array([[np.longdouble("1e4000"), 1]]), "X column 'x0' is infinite in row 0"),
    ],
)
def test_missing_and_infinite_values_are_named(X, message):
    with pytest.raises(DataError, match=message):
        read_columns(X)


def test_finite_values_of_any_size_pass():
    check_finite(np.full((50, 2), 1.7e308), ["a", "b"], "X")
    check_finite(np.zeros((0, 2)), ["a", "b"], "X")


# --- y and weights


@pytest.mark.parametrize(
    "y",
    [
        [0, 1, 1, 0],
        np.array([0, 1, 1, 0], bool),
        np.array([0, 1, 1, 0], "f2"),
        np.array([[0], [1], [1], [0]]),
        np.array([0, 1, 1, 0], object),
        np.repeat([0, 1, 1, 0], 2)[::2],
        pd.Series([0, 1, 1, 0], index=list("dcba")),
        pd.Series([0, 1, 1, 0], dtype="Int64"),
        pd.Series([0, 1, 1, 0], dtype="boolean"),
        pd.DataFrame({"y": [0, 1, 1, 0]}),
        pl.Series([0, 1, 1, 0]),
        pl.DataFrame({"y": [False, True, True, False]}),
        sp.csc_array(np.array([[0], [1], [1], [0]])),
        range(4),
    ],
)
def test_vectors(y):
    vector = read_vector(y, 4, "y")
    assert vector.dtype == np.float64
    assert vector.shape == (4,)
    assert (vector == (np.arange(4) if isinstance(y, range) else [0, 1, 1, 0])).all()


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        ([1, 2, 3], DataError, "X has 4 rows but y has 3; they must be the same observations"),
        (np.zeros((4, 2)), DataError, r"y must be one column of numbers; it has shape \(4, 2\)"),
        (pd.DataFrame({"a": [1.0] * 4, "b": [1.0] * 4}), DataError, r"y must be one column.*\(4, 2\)"),
        (np.zeros((1, 4)), DataError, r"shape \(1, 4\)"),
        (2.0, DataError, r"shape \(\)"),
        (None, DataError, r"shape \(\)"),
        ([[1], [2, 3], [4], [5]], DataError, "y has rows of different lengths"),
        (
            [1, np.nan, 3, np.nan],
            DataError,
            r"y is missing \(NaN\) in row 1 \(and 1 more such value\); drop or",
        ),
        ([1, 2, -np.inf, 3], DataError, "y is infinite in row 2;"),
        (pd.Series([1, 2, 3, None], dtype="Int64"), DataError, r"y is missing \(NaN\) in row 3"),
        (pl.Series([1, 2, None, 3]), DataError, r"y is missing \(NaN\) in row 2"),
        (
            ["a", "b", "c", "d"],
            ArgumentTypeError,
            "y contains 'a', which is not a number; give it as numbers",
        ),
        (["1", "2", "3", "4"], ArgumentTypeError, "y contains '1', which is not a number"),
        (pd.Series(list("abcd")), ArgumentTypeError, "y contains text or categories"),
        (pd.Series(list("abcd"), dtype="category"), ArgumentTypeError, "y contains text or categories"),
        (pd.Series(pd.date_range("2020", periods=4)), ArgumentTypeError, "y contains dates or times"),
        (pl.Series(list("abcd")), ArgumentTypeError, "y contains text or categories"),
        (np.array([1, 2, 3, 4j]), ArgumentTypeError, "y contains complex numbers"),
        ([1, 2, {}, 4], ArgumentTypeError, "y contains {}, which is not a number"),
    ],
)
def test_vectors_that_are_refused(y, error, message):
    with pytest.raises(error, match=message):
        read_vector(y, 4, "y")


# --- names


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("b", [1]),
        (1, [1]),
        (np.int64(-1), [2]),
        (["c", "a"], [0, 2]),
        (["c", 2, -1], [2]),
        (np.array([2, 0]), [0, 2]),
        (pd.Index(["b"]), [1]),
        ({"c", "b"}, [1, 2]),
        ([], []),
    ],
)
def test_find_columns(wanted, expected):
    assert find_columns(wanted, NAMES, "always_include") == expected


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        (["weigth"], DataError, "always_include: there is no column 'weigth'; did you mean 'weight'?"),
        ("zzz", DataError, "there is no column 'zzz'; the columns are height, weight"),
        ([3], DataError, "there is no column 3; there are 2 columns, 0 to 1"),
        (-3, DataError, "there is no column -3"),
        (True, DataError, "there is no column True"),
        ([0.5], DataError, "there is no column 0.5"),
        (1.5, ArgumentTypeError, "always_include must be column names or indices, not 1.5"),
    ],
)
def test_columns_that_are_not_there(wanted, error, message):
    with pytest.raises(error, match=message):
        find_columns(wanted, ["height", "weight"], "always_include")


def test_a_number_that_is_an_index_and_a_name_is_refused():
    names = ["1", "2", "3"]
    with pytest.raises(
        DataError, match="1 could mean the column named '1' or the one at index 1, '2'; write"
    ):
        find_columns(1, names, "always_include")
    assert find_columns("1", names, "always_include") == [0]
    assert find_columns(3, names, "always_include") == [2]  # no index 3
    assert find_columns(0, names, "always_include") == [0]  # no name 0
    assert find_columns([0, 1, 2], ["0", "1", "2"], "always_include") == [0, 1, 2]


def test_long_lists_of_columns_are_cut():
    with pytest.raises(DataError, match=r"the columns are x0, x1, .*, x18, x19, …$"):
        find_columns("income", [f"x{i}" for i in range(30)], "groups")


def test_check_unique():
    check_unique(["a", "b"], "names")
    with pytest.raises(DataError, match="the names contain 'a' more than once"):
        check_unique(["a", "b", "a"], "names")
