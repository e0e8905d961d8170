"""Problem: its arrays against plain numpy on the raw data, every argument's good and bad values, and that
no data whatever makes it fail in a way it does not explain."""

import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import whichvars as wv
from whichvars.errors import ArgumentTypeError, DataError, DataWarning, WhichvarsError
from whichvars.problem import columns as designs

N, P = 20, 5
RNG = np.random.default_rng(8)
X = RNG.standard_normal((N, P)) @ RNG.standard_normal((P, P)) + 3
Y = X[:, 0] - X[:, 1] + RNG.standard_normal(N)
W = RNG.uniform(0.2, 3, N)
NAMES = [f"x{i}" for i in range(P)]


def residual(columns, always, weights):
    """Weighted residuals on [1, always] by least squares, times the roots of the weights."""
    root = np.sqrt(weights)
    flat = root[:, None] * np.column_stack([np.ones(len(weights)), always])
    target = (root * columns.T).T
    return target - flat @ np.linalg.lstsq(flat, target, rcond=None)[0]


def weighted_sd(columns, weights):
    n = len(weights)
    centred = columns - weights @ columns / weights.sum()
    return np.sqrt(weights @ centred**2 / (weights.sum() * (n - 1) / n))


def design(problem):
    return problem.target(0).design


def assert_same_target(a, b, rel=1e-12):
    for name in ("gram", "columns", "diagonal", "xty", "offsets", "keys"):
        left, right = getattr(design(a), name), getattr(design(b), name)
        assert left.shape == right.shape
        assert left == pytest.approx(right, rel=rel, abs=rel * np.abs(right).max(initial=1))
    assert (a.names, a.nu, a.n) == (b.names, b.nu, b.n)


def check_finite_target(problem):
    target = problem.target(problem.first_capacity())
    for part in (*target, target.design.stored):
        for field in part:
            assert isinstance(field, tuple) or np.isfinite(field).all()
    assert (design(problem).diagonal > 0).all()
    assert np.isfinite(problem.column_units).all()
    assert (problem.column_units > 0).all()


# --- the arrays


@pytest.mark.parametrize("engine", ["gram", "columns"])
@pytest.mark.parametrize("weights", [None, W])
@pytest.mark.parametrize("always", [[], [1], [4, 2]])
@pytest.mark.parametrize("scale", ["unit", "none"])
def test_independent_slab_sees_scaled_residuals(scale, always, weights, engine):
    problem = wv.Problem(X, Y, scale=scale, always_include=always, weights=weights, engine=engine)
    w = np.ones(N) if weights is None else weights
    rest = np.setdiff1d(np.arange(P), always)
    sd = weighted_sd(X[:, rest], w) if scale == "unit" else np.ones(len(rest))
    columns = residual(X[:, rest], X[:, always], w) / sd
    y = residual(Y, X[:, always], w)
    seen = design(problem)
    assert seen.xty == pytest.approx(columns.T @ y / np.linalg.norm(y), rel=1e-10)
    assert seen.diagonal == pytest.approx((columns**2).sum(axis=0), rel=1e-10)
    if engine == "gram":
        assert seen.gram == pytest.approx(columns.T @ columns, rel=1e-10, abs=1e-9)
        assert (seen.gram == seen.gram.T).all()
        assert seen.columns.shape == (0, 0)
    else:
        assert seen.columns == pytest.approx(columns.T, rel=1e-9, abs=1e-10)
        assert seen.gram.shape == (0, 0)
    assert problem.column_units == pytest.approx(sd, rel=1e-12)
    assert problem._y == pytest.approx(y / np.linalg.norm(y), rel=1e-9, abs=1e-12)
    assert problem._y_scale == pytest.approx(np.linalg.norm(y))
    assert problem.nu == N - 1 - len(always)
    assert problem.names == [NAMES[i] for i in rest]
    assert problem.always_names == [NAMES[i] for i in sorted(always)]
    # one layout for every problem, or kernels compile anew: matrices in C order, vectors in rows of 32 bytes
    arrays = [
        part for part in seen if isinstance(part, np.ndarray)
    ]  # stored columns have a layout of their own
    for array in arrays:
        assert array.flags.c_contiguous if array.ndim == 2 else array.strides == (32,)
        assert array.flags.writeable
    assert [a.dtype for a in arrays] == [np.float64] * 4 + [np.int64, np.uint64]


@pytest.mark.parametrize("scale", ["unit", "none"])
@pytest.mark.parametrize(
    "slab",
    [wv.GPrior(), wv.HyperG(), wv.HyperGN(), wv.ZellnerSiow(), wv.LocalEmpiricalBayes(), wv.BIC()],
    ids=repr,
)
def test_other_slabs_see_unit_lengths(slab, scale):
    problem = wv.Problem(X, Y, slab=slab, scale=scale, weights=W, always_include=0)
    columns, y = residual(X[:, 1:], X[:, :1], W), residual(Y, X[:, :1], W)
    lengths = np.linalg.norm(columns, axis=0)
    assert design(problem).gram == pytest.approx(columns.T @ columns / np.outer(lengths, lengths), abs=1e-12)
    assert design(problem).xty == pytest.approx(columns.T @ y / lengths / np.linalg.norm(y), abs=1e-12)
    assert problem.column_units == pytest.approx(lengths)
    assert problem.max_columns == 4


@pytest.mark.parametrize("engine", ["gram", "columns"])
@pytest.mark.parametrize("weights", [None, W * (np.arange(N) != 3)])
def test_a_large_matrix_is_read_in_parts(weights, engine, monkeypatch):
    """Two columns at a time, the last part of one: the same problem."""
    wide = np.column_stack([X, X[:, ::-1] ** 2, np.ones(N)])
    options = {"always_include": ["x1"], "weights": weights, "engine": engine}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of the constant column
        whole = wv.Problem(wide, Y, **options)
        rows = N if weights is None else N - 1
        monkeypatch.setattr(designs, "BLOCK_BYTES", 2 * 8 * rows + 7)
        parts = wv.Problem(wide, Y, **options)
    assert parts.names == whole.names
    assert len(parts.names) == 9
    for name in ("gram", "columns", "diagonal", "xty"):
        ours, theirs = (getattr(p.target(0).design, name) for p in (parts, whole))
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)
    for field in whole.flat._fields:
        np.testing.assert_allclose(getattr(parts.flat, field), getattr(whole.flat, field), rtol=1e-12)


def test_standard_deviations_have_ddof_1():
    assert wv.Problem(X, Y).column_units == pytest.approx(X.std(axis=0, ddof=1))
    ones = wv.Problem(X, Y, weights=np.full(N, 7.0))
    assert ones.column_units == pytest.approx(X.std(axis=0, ddof=1))


def test_slab_and_prior_constants():
    slab = (
        wv.Problem(X, Y, slab=wv.IndependentNormal(g=[1, 2, 3, 4, 5]), noise=wv.InverseGamma(a=2, b=3))
        .target(0)
        .slab
    )
    rss = ((Y - Y.mean()) ** 2).sum()
    assert slab.nu == N - 1 + 4
    assert slab.s_null == pytest.approx(1 + 6 / rss)
    assert slab.ridge == pytest.approx(1 / np.arange(1, 6))
    assert slab.half_log_g == pytest.approx(np.log(np.arange(1, 6)) / 2)
    assert (slab.rows, slab.max_columns) == (N, P)
    target = wv.Problem(
        X, Y, slab=wv.GPrior("bric"), model_prior=wv.BetaBinomial(a=1, b=2), max_size=3
    ).target(0)
    assert target.slab.g == 25
    assert target.prior.max_size == 3
    assert target.prior.log_size == pytest.approx(wv.BetaBinomial(a=1, b=2).log_terms(P)[1])


@pytest.mark.parametrize("dtype", ["b1", "i1", "u8", "f2", "f4", "f8", "O"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dtypes_give_the_same_target(dtype, order):
    bits = (X > 3).astype(dtype, order=order)
    assert_same_target(wv.Problem(bits, Y), wv.Problem((X > 3).astype(float), Y))


@pytest.mark.parametrize(
    "same",
    [
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        X[::-1][::-1],
        pd.DataFrame(X, columns=NAMES),
        pd.DataFrame(X, columns=NAMES).convert_dtypes(),
        pl.DataFrame(X, schema=NAMES),
        sp.csr_matrix(X),
        sp.csc_array(X),
        sp.coo_array(X),
        X.tolist(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_containers_give_the_same_target(same):
    assert_same_target(wv.Problem(same, Y), wv.Problem(X, Y))
    assert_same_target(
        wv.Problem(same, pl.Series(Y), weights=pd.Series(W)), wv.Problem(X, Y[:, None], weights=W)
    )


def test_what_the_user_brings_is_not_changed():
    table, response, weights = X.copy(order="F"), Y.copy(), W.copy()
    weights[3] = 0
    frame, series = pd.DataFrame(table), pd.Series(response)
    before = weights.copy()
    for scale in ("unit", "none"):
        wv.Problem(table, response, weights=weights, scale=scale, always_include=1)
        wv.Problem(frame, series, weights=weights, scale=scale)
        wv.Problem(table, response, slab=wv.GPrior(), groups=["a", "b", "a", "b", "a"])
    assert (table == X).all()
    assert (frame.to_numpy() == X).all()
    assert (response == Y).all()
    assert (series == Y).all()
    assert (weights == before).all()


def test_later_changes_by_the_user_do_not_reach_the_problem():
    table = X.copy()
    problem = wv.Problem(table, Y, engine="columns")
    before = design(problem).columns.copy()
    table[:] = 0
    assert (design(problem).columns == before).all()


# --- weights and rows


def test_rows_of_weight_zero_are_as_if_dropped():
    weights = W.copy()
    weights[[0, 7, 19]] = 0
    kept = weights > 0
    for options in ({}, {"slab": wv.GPrior()}, {"always_include": [2]}, {"scale": "none"}):
        with_zeros = wv.Problem(X, Y, weights=weights, **options)
        assert_same_target(with_zeros, wv.Problem(X[kept], Y[kept], weights=W[kept], **options))
        assert with_zeros.n == N - 3


def test_equal_weights_only_scale_the_columns():
    plain, heavy = wv.Problem(X, Y), wv.Problem(X, Y, weights=np.full(N, 4.0))
    assert design(heavy).gram == pytest.approx(4 * design(plain).gram)
    assert design(heavy).xty == pytest.approx(2 * design(plain).xty)
    assert_same_target(
        wv.Problem(X, Y, slab=wv.BIC(), weights=[4] * N), wv.Problem(X, Y, slab=wv.BIC()), rel=1e-11
    )


def test_column_that_varies_only_in_rows_of_weight_zero_is_constant():
    table, weights = X.copy(), W.copy()
    table[1:, 2], weights[0] = 5.0, 0.0
    with pytest.warns(DataWarning, match="'x2' \\(constant\\)"):
        assert wv.Problem(table, Y, weights=weights).names == ["x0", "x1", "x3", "x4"]


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (-W, DataError, r"weights is negative in row 0 \(-.*\); weights are precisions"),
        (np.zeros(N), DataError, "all weights are zero; at least 3 rows need a positive weight"),
        (np.r_[1.0, np.nan, np.ones(N - 2)], DataError, r"weights is missing \(NaN\) in row 1"),
        (np.ones(N - 1), DataError, f"X has {N} rows but weights has {N - 1}"),
        (["heavy"] * N, ArgumentTypeError, "weights contains 'heavy', which is not a number"),
        (
            np.r_[1.0, 1.0, np.zeros(N - 2)],
            DataError,
            "X has 2 rows of positive weight; at least 3 are needed",
        ),
        (2.0, DataError, "weights must be one column"),
    ],
)
def test_bad_weights(weights, error, message):
    with pytest.raises(error, match=message):
        wv.Problem(X, Y, weights=weights)


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e200, 1e307])
def test_weights_of_any_size(size):
    assert_same_target(
        wv.Problem(X, Y, slab=wv.GPrior(), weights=np.full(N, size)),
        wv.Problem(X, Y, slab=wv.GPrior()),
        rel=1e-6,
    )
    mixed = np.ones(N)
    mixed[3] = size
    with pytest.raises(
        DataError, match=r"weights is \S+ in row \d, negligible compared with the largest, .*; set it to 0"
    ):
        wv.Problem(X, Y, weights=mixed)
    mixed[3] = 1e-19 if size < 1 else 1e19
    check_finite_target(wv.Problem(X, Y, weights=mixed, always_include=[1]))


# --- bad data


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (X[:2], Y[:2], DataError, "X has 2 rows; at least 3 are needed"),
        (X[:1], Y[:1], DataError, "X has 1 row; at least 3"),
        (np.zeros((0, 3)), [], DataError, r"X is empty \(0 rows, 3 columns\)"),
        (np.zeros((5, 0)), np.arange(5), DataError, r"X is empty \(5 rows, 0 columns\)"),
        (pd.DataFrame(), [], DataError, "X is empty"),
        (pd.DataFrame(index=range(4)), range(4), DataError, r"X is empty \(4 rows, 0 columns\)"),
        (pl.DataFrame(), [], DataError, "X is empty"),
        (X[:, 0], Y, DataError, "X is one-dimensional"),
        (X[None], Y, DataError, r"2 dimensions\), not 3"),
        (X, Y[:-1], DataError, f"X has {N} rows but y has {N - 1}"),
        (X, np.full(N, 3.7), DataError, "y is constant; there is nothing to explain"),
        (X, np.zeros(N), DataError, "y is constant"),
        (X, ["high"] * N, ArgumentTypeError, "y contains 'high', which is not a number"),
        (X, np.where(np.arange(N) == 4, np.nan, Y), DataError, r"y is missing \(NaN\) in row 4"),
        (np.where(np.arange(P) == 2, np.inf, X), Y, DataError, "X column 'x2' is infinite in row 0"),
        (
            pd.DataFrame(X, columns=NAMES).assign(x1=[f"note {i}" for i in range(N)]),
            Y,
            DataError,
            f"column 'x1' contains free text: {N} different values in {N} rows, .* leave it out with X.drop",
        ),
    ],
)
def test_bad_data(x, y, error, message):
    with pytest.raises(error, match=message):
        wv.Problem(x, y)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"scale": "sd"}, DataError, "scale must be 'unit' or 'none', not 'sd'"),
        ({"scale": None}, DataError, "scale must be .*not None"),
        ({"scale": np.ones(2)}, DataError, "scale must be"),
        ({"engine": "fast"}, DataError, "engine must be 'auto' or 'gram' or 'columns', not 'fast'"),
        ({"engine": True}, DataError, "engine must be .*not True"),
        ({"slab": "g-prior"}, ArgumentTypeError, "slab must be one of IndependentNormal.*got 'g-prior'"),
        ({"slab": wv.FixedInclusion(0.5)}, ArgumentTypeError, "slab must be one of"),
        ({"model_prior": 0.5}, ArgumentTypeError, "model_prior must be .*got 0.5"),
        ({"model_prior": wv.GPrior()}, ArgumentTypeError, "model_prior must be"),
        ({"noise": 1.0}, ArgumentTypeError, "noise must be Jeffreys.*got 1.0"),
        ({"slab": wv.BIC(), "noise": wv.InverseGamma(1, 1)}, DataError, "BIC has no prior on the noise"),
        ({"max_size": 0}, DataError, "max_size must be a whole number of at least 1, not 0"),
        ({"max_size": 2.0}, DataError, "max_size .* not 2.0"),
        ({"max_size": True}, DataError, "max_size .* not True"),
        ({"max_size": "3"}, DataError, "max_size .* not '3'"),
        ({"names": ["a", "b"]}, DataError, "names has 2 entries but X has 5 columns"),
        ({"names": list("abcda")}, DataError, "the names contain 'a' more than once"),
        ({"names": "abcde"}, ArgumentTypeError, "names must be a list .*not 'abcde'"),
        ({"names": 5}, ArgumentTypeError, "names must be a list .*not 5"),
        ({"always_include": "x33"}, DataError, "always_include: there is no column 'x33'; did you mean 'x3'"),
        ({"always_include": [5]}, DataError, "always_include: there is no column 5"),
        ({"always_include": 1.5}, ArgumentTypeError, "always_include must be column names or indices"),
        ({"always_include": NAMES}, DataError, "every candidate column is constant or always included"),
        ({"slab": wv.IndependentNormal(g=[1, 2])}, DataError, "g has 2 values but there are 5 variables"),
        ({"model_prior": wv.FixedInclusion(h=[0.1] * 6)}, DataError, "h has 6 values but there are 5"),
        ({"model_prior": wv.FixedInclusion(size=5)}, DataError, "expected size of 5 .* 5 variables"),
    ],
)
def test_bad_settings(options, error, message):
    with pytest.raises(error, match=message):
        wv.Problem(X, Y, **options)


# --- always-included columns


@pytest.mark.parametrize("always", ["x1", 1, -4, ["x1"], [1, "x1"], np.array([1]), ("x1",)])
def test_always_include_by_name_or_index(always):
    problem = wv.Problem(X, Y, always_include=always)
    assert problem.always_names == ["x1"]
    assert problem.names == ["x0", "x2", "x3", "x4"]
    assert problem.nu == N - 2


def test_rank_of_always_included_columns_counts_once():
    table = np.column_stack([X, X[:, 0] + X[:, 1], np.ones(N), 3 * X[:, 0] - 2])
    problem = wv.Problem(table, Y, always_include=[0, 1, 5, 6, 7])
    assert problem.nu == N - 3
    assert_same_target(problem, wv.Problem(X, Y, always_include=[0, 1]), rel=1e-11)


def test_combinations_of_always_included_columns_are_left_out():
    table = pd.DataFrame(X, columns=NAMES).assign(sum=2 * X[:, 0] - X[:, 1] + 4, one=1.0)
    with pytest.warns(
        DataWarning,
        match=r"left out 2 columns .* 'sum' \(a combination of the always-included .*'one' \(constant",
    ):
        problem = wv.Problem(table, Y, always_include=["x0", "x1"])
    assert problem.excluded == {"sum": "a combination of the always-included columns", "one": "constant"}
    assert problem.names == ["x2", "x3", "x4"]


def test_response_explained_by_always_included_columns():
    with pytest.raises(DataError, match="y is constant given the always-included columns"):
        wv.Problem(X, 2 * X[:, 0] + 1, always_include="x0")


def test_too_many_always_included_columns():
    with pytest.raises(
        DataError, match="5 rows leave 1 degrees of freedom besides the intercept and the 3 always"
    ):
        wv.Problem(X[:5], Y[:5], always_include=[0, 1, 2])


# --- columns that are left out, and duplicates


@pytest.mark.parametrize("value", [0.0, 0.1, -1e150, 1e-150, 1e308])
def test_constant_columns_are_left_out_with_a_warning(value):
    table = X.copy()
    table[:, 3] = value
    with pytest.warns(DataWarning, match=r"left out 1 column .*: 'x3' \(constant\)") as caught:
        problem = wv.Problem(table, Y, weights=W)
    assert problem.excluded == {"x3": "constant"}
    assert problem.names == problem.columns_used == ["x0", "x1", "x2", "x4"]
    assert caught[0].filename == __file__
    assert_same_target(problem, wv.Problem(table[:, [0, 1, 2, 4]], Y, weights=W, names=problem.names))


def test_many_constant_columns_are_listed_in_part():
    with pytest.warns(DataWarning, match=r"left out 9 columns .*'x4' \(constant\), …$"):
        wv.Problem(np.column_stack([np.ones((N, 9)), X]), Y)


def test_all_columns_constant():
    with pytest.warns(DataWarning), pytest.raises(DataError, match="every candidate column is constant"):
        wv.Problem(np.ones((N, 2)), Y)


@pytest.mark.parametrize(("spread", "kept"), [(1e-9, True), (1e-11, True), (1e-14, False), (1e-16, False)])
def test_nearly_constant_columns(spread, kept):
    table = X.copy()
    table[:, 0] = 1 + spread * (X[:, 0] - 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        problem = wv.Problem(table, Y)
    assert ("x0" in problem.names) == kept
    assert ("x0" in problem.excluded) != kept
    if kept:  # what rounding has left of the numbers
        assert design(problem).xty[0] == pytest.approx(design(wv.Problem(X, Y)).xty[0], rel=1e-14 / spread)


@pytest.mark.parametrize("weights", [None, W])
def test_a_large_mean_costs_no_digits(weights):
    small = np.round(X * 1024) / 1024
    y = np.round(Y * 1024) / 1024
    plain = wv.Problem(small, y, weights=weights, always_include=4)
    shifted = wv.Problem(small + 2.0**30, y + 2.0**30, weights=weights, always_include=4)  # exact sums
    assert_same_target(shifted, plain, rel=1e-12)


def test_residuals_of_nearly_collinear_columns_are_orthogonal():
    table = X.copy()
    table[:, 1] = X[:, 0] + 1e-9 * X[:, 2]
    problem = wv.Problem(table, Y, always_include=0, engine="columns")
    centred = X[:, 0] - X[:, 0].mean()
    column = design(problem).columns[0]
    assert abs(column @ centred) < 1e-13 * np.linalg.norm(column) * np.linalg.norm(centred)
    assert abs(column.sum()) < 1e-13 * np.linalg.norm(column)


@pytest.mark.parametrize("slab", [wv.IndependentNormal(), wv.GPrior()])
def test_duplicates_are_kept_and_reported(slab):
    table = pd.DataFrame(X, columns=NAMES).assign(
        same=X[:, 0], flipped=-X[:, 0], rescaled=1e-5 * X[:, 1] + 5, close=X[:, 2] + 1e-4 * X[:, 3]
    )
    with pytest.warns(
        DataWarning, match="correlated columns, 2 sets: x0 = same = flipped; x1 = rescaled. They"
    ) as caught:
        problem = wv.Problem(table, Y, slab=slab)
    assert caught[0].filename == __file__
    assert problem.duplicates == [["x0", "same", "flipped"], ["x1", "rescaled"]]
    assert problem.p == 9
    assert wv.Problem(X, Y, slab=slab).duplicates == []


def test_columns_may_be_duplicates_given_the_always_included_ones():
    table = np.column_stack([X, X[:, 1] + 2 * X[:, 0]])
    assert wv.Problem(table, Y).duplicates == []
    with pytest.warns(DataWarning, match="1 set: x1 = x5"):
        wv.Problem(table, Y, always_include=0)


def test_duplicates_are_named_rightly_within_groups():
    table = np.column_stack([X, X[:, 1]])
    with pytest.warns(DataWarning, match="x1 = x5"):
        problem = wv.Problem(table, Y, groups={"g": ["x0", "x3"], "h": ["x2", "x5"]})
    assert problem.duplicates == [["x1", "x5"]]
    assert problem.columns_used == ["x0", "x3", "x1", "x2", "x5", "x4"]


def test_many_pairs_of_duplicates():
    wide = np.random.default_rng(1).standard_normal((12, 300))
    with pytest.warns(DataWarning, match="300 sets: .*; …. They are kept"):
        problem = wv.Problem(np.hstack([wide, -3 * wide]), Y[:12])
    assert problem.duplicates == [[f"x{i}", f"x{i + 300}"] for i in range(300)]


# --- p ≥ n, sizes, engines


@pytest.mark.parametrize(
    "slab", [wv.GPrior(), wv.HyperG(), wv.ZellnerSiow(), wv.BIC(), wv.LocalEmpiricalBayes()]
)
def test_more_columns_than_rows(slab):
    wide = np.random.default_rng(2).standard_normal((12, 40))
    problem = wv.Problem(wide, Y[:12], slab=slab, always_include=0)
    assert (problem.p, problem.nu, problem.max_columns) == (39, 10, 9)
    assert problem.first_capacity() == 10
    check_finite_target(problem)
    assert wv.Problem(wide, Y[:12]).max_columns == 40


@pytest.mark.parametrize(("given_size", "size"), [(None, P), (1, 1), (np.int64(4), 4), (P, P), (99, P)])
def test_max_size(given_size, size):
    problem = wv.Problem(X, Y, max_size=given_size)
    assert problem.max_size == size
    assert problem.target(1).prior.max_size == size


def test_defaults():
    problem = wv.Problem(X, Y)
    assert problem.slab == wv.IndependentNormal(g=1)
    assert problem.model_prior == wv.BetaBinomial(size=2.5)
    assert problem.noise == wv.Jeffreys()
    assert (problem.scale, problem.engine, problem.p, problem.n) == ("unit", "gram", P, N)
    assert (problem.excluded, problem.duplicates, problem.always_names) == ({}, [], [])
    assert problem.offsets.tolist() == list(range(P + 1))
    assert wv.Problem(X[:, :1], Y).model_prior == wv.BetaBinomial(size=0.5)


def test_engine_is_chosen_by_size(monkeypatch):
    wide = np.random.default_rng(2).standard_normal((12, 2100))
    assert wv.Problem(wide, Y[:12]).engine == "columns"
    assert wv.Problem(wide[:, :2048], Y[:12]).engine == "gram"
    assert wv.Problem(X, Y, engine="columns").engine == "columns"
    monkeypatch.setattr("whichvars.problem.target.GRAM_BYTES", 8 * P * P - 1)
    assert wv.Problem(X, Y).engine == "columns"
    assert wv.Problem(X, Y, engine="gram").engine == "gram"


def test_tables_of_mixtures_grow_with_capacity():
    problem = wv.Problem(X, Y, slab=wv.HyperG())
    first = problem.target(1).slab.table
    assert len(first) == 3  # sizes 0 and 1, and 2 for what a scan asks of its neighbours
    grown = problem.target(3).slab.table
    assert len(grown) == 5
    assert (grown[:3] == first).all()
    assert problem.target(99).slab.table.shape[0] == P + 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {},
            "Problem(5 variables, 20 rows; IndependentNormal(g=1.0), BetaBinomial(size=2.5), Gram engine)",
        ),
        (
            {
                "slab": wv.GPrior(),
                "always_include": 0,
                "engine": "columns",
                "model_prior": wv.FixedInclusion(0.5),
            },
            "Problem(4 variables, 1 always included, 20 rows; GPrior(g='n'), FixedInclusion(h=0.5), column engine)",
        ),
    ],
)
def test_repr(options, expected):
    assert repr(wv.Problem(X, Y, **options)) == expected


def test_names():
    assert wv.Problem(X, Y, names=["α", "b c", "<b>", 4, ""]).names == ["α", "b c", "<b>", "4", ""]
    assert wv.Problem(pd.DataFrame(X), Y).names == list("01234")
    assert wv.Problem(pd.DataFrame(X), Y, names=NAMES).names == NAMES


# --- scales


@pytest.mark.parametrize("slab", [wv.IndependentNormal(), wv.GPrior()])
@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e-20, 1e20, 1e150, 1e300])
def test_answers_do_not_depend_on_units(slab, size):
    factors = np.array([size, 1, 1 / size, 1, 1])
    plain, scaled = wv.Problem(X, Y, slab=slab), wv.Problem(X * factors, Y * size, slab=slab)
    assert_same_target(scaled, plain, rel=1e-11)
    assert scaled.column_units == pytest.approx(plain.column_units * factors)
    assert scaled._y_scale == pytest.approx(plain._y_scale * size)
    always = wv.Problem(X * factors, Y * size, slab=slab, always_include=[0, 2], weights=W)
    assert_same_target(always, wv.Problem(X, Y, slab=slab, always_include=[0, 2], weights=W), rel=1e-11)


def test_powers_of_two_change_no_bit():
    factors = 2.0 ** np.array([500, -500, 3, 0, 1])
    plain, scaled = design(wv.Problem(X, Y)), design(wv.Problem(X * factors, Y * 2.0**-300))
    assert (plain.gram == scaled.gram).all()
    assert (plain.xty == scaled.xty).all()


@pytest.mark.parametrize(
    ("size", "words"),
    [(1e160, "large to be squared; divide"), (1e300, "large"), (1e-160, "small to be squared; multiply")],
)
def test_columns_that_cannot_be_squared(size, words):
    table = X.copy()
    table[:, 2] *= size
    with pytest.raises(DataError, match=f"X column 'x2' .* is too {words}.* or use scale='unit'|too {words}"):
        wv.Problem(table, Y, scale="none")
    check_finite_target(wv.Problem(table, Y))
    check_finite_target(wv.Problem(X * 1e150, Y, scale="none"))
    check_finite_target(wv.Problem(X * 1e-150, Y, scale="none"))


@pytest.mark.parametrize(("size", "word"), [(1e307, "large"), (1e-310, "small")])
def test_values_at_the_end_of_the_range(size, word):
    with pytest.raises(DataError, match=f"y is too {word} to compute with"):
        wv.Problem(X, Y / np.abs(Y).max() * size)
    with pytest.raises(DataError, match=f"X column 'x0' .* is too {word}"):
        wv.Problem(X / np.abs(X).max() * size, Y)


@pytest.mark.parametrize("scale", ["unit", "none"])
@pytest.mark.parametrize("slab", [wv.IndependentNormal(), wv.GPrior()])
def test_the_largest_numbers_there_are(scale, slab):
    table = X.copy()
    table[:, 1] = np.where(np.arange(N) % 2, 1, -1) * np.finfo(float).max
    with pytest.raises(DataError, match=r"X column 'x1' .* is too large"):
        wv.Problem(table, Y, scale=scale, slab=slab)
    with pytest.raises(DataError, match="y is too large"):
        wv.Problem(X, table[:, 1])
    assert wv.Problem(table, Y, always_include=1).nu == N - 2


def test_noise_prior_out_of_proportion():
    with pytest.raises(DataError, match=r"noise: b = 1 is out of proportion to y .*units of y squared"):
        wv.Problem(X, Y * 1e-160, noise=wv.InverseGamma(a=1, b=1))
    assert wv.Problem(X, Y * 1e200, noise=wv.InverseGamma(a=1, b=1)).target(0).slab.s_null == 1
    assert wv.Problem(X, Y * 1e-160).target(0).slab.s_null == 1


def test_integers_do_not_overflow():
    counts = np.arange(N, dtype=np.int64)[:, None] * 10**17
    small = np.arange(250, 250 + N).astype(np.uint8)[:, None]
    assert design(wv.Problem(counts, Y)).diagonal == pytest.approx([N - 1])
    assert design(wv.Problem(small, Y)).diagonal == pytest.approx([N - 1])


# --- groups

GROUPINGS = [
    {"g": ["x0", "x3"], "h": [4, "x1"]},
    {"h": ["x1", "x4"], "g": [3, 0]},
    ["g", "h", "x2", "g", "h"],
    pd.Series(["g", "h", "x2", "g", "h"]),
]


@pytest.mark.parametrize("groups", GROUPINGS, ids=["mapping", "other order", "labels", "series"])
@pytest.mark.parametrize("engine", ["gram", "columns"])
def test_groups_are_side_by_side(groups, engine):
    problem = wv.Problem(X, Y, groups=groups, engine=engine, slab=wv.IndependentNormal(g=[1, 2, 3]))
    assert problem.names == ["g", "h", "x2"]
    assert problem.p == 3
    assert problem.offsets.tolist() == [0, 2, 4, 5]
    assert problem.columns_used == ["x0", "x3", "x1", "x4", "x2"]
    order = [0, 3, 1, 4, 2]
    plain = wv.Problem(X, Y, engine=engine)
    assert design(problem).xty == pytest.approx(design(plain).xty[order])
    assert design(problem).diagonal == pytest.approx(design(plain).diagonal[order])
    if engine == "gram":
        assert design(problem).gram == pytest.approx(design(plain).gram[np.ix_(order, order)])
    else:
        assert design(problem).columns == pytest.approx(design(plain).columns[order])
    assert problem.column_units == pytest.approx(plain.column_units[order])
    assert problem.target(0).slab.ridge == pytest.approx([1, 1, 1 / 2, 1 / 2, 1 / 3])
    assert len(design(problem).keys) == 3


def test_a_group_may_be_named_after_one_of_its_columns():
    assert wv.Problem(X, Y, groups={"x0": ["x0", "x1"]}).names == ["x0", "x2", "x3", "x4"]
    assert wv.Problem(X, Y, groups=["x0", "x0", "a", "a", "b"]).names == ["x0", "a", "b"]


def test_excluded_columns_within_a_group():
    table = np.column_stack([np.ones(N), X])  # x0 constant, x1 … x5
    with pytest.warns(DataWarning, match="'x0'"):
        problem = wv.Problem(table, Y, groups={"first": ["x0", "x5"], "second": ["x1", "x3"]})
    assert problem.names == ["first", "second", "x2", "x4"]
    assert problem.columns_used == ["x5", "x1", "x3", "x2", "x4"]
    assert problem.offsets.tolist() == [0, 1, 3, 4, 5]
    assert design(problem).xty == pytest.approx(design(wv.Problem(X, Y)).xty[[4, 0, 2, 1, 3]])


def test_one_column_left_of_each_group_still_moves():
    """As many columns as variables, but not in the order of X."""
    table = np.column_stack([np.ones(N), X[:, 0], X[:, 1]])
    with pytest.warns(DataWarning):
        problem = wv.Problem(table, Y, groups=["late", "early", "late"])
    assert problem.names == ["late", "early"]
    assert problem.columns_used == ["x2", "x1"]
    assert design(problem).xty == pytest.approx(design(wv.Problem(X[:, [1, 0]], Y)).xty)


def test_groups_beside_always_included_columns():
    problem = wv.Problem(X, Y, always_include=["x1"], groups=["a", "z", "a", "b", "b"])
    assert problem.names == ["a", "b"]
    assert problem.offsets.tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ({"g": ["x0", "x1"], "h": ["x1"]}, DataError, "groups: column 'x1' is in both 'g' and 'h'"),
        ({"g": ["x0", "x11"]}, DataError, r"groups\['g'\]: there is no column 'x11'; did you mean 'x1'"),
        ({"g": [7]}, DataError, r"groups\['g'\]: there is no column 7"),
        ({"g": ["x4"]}, DataError, r"groups\['g'\]: column 'x4' is always included"),
        ({"x2": ["x0", "x1"]}, DataError, "groups: 'x2' is the name of a group and of a column outside it"),
        ({"x4": ["x0", "x1"]}, DataError, "'x4' is the name of a group and of a column outside it; rename"),
        ({"g": []}, DataError, r"groups\['g'\] has no columns"),
        ({"g": 1.5}, ArgumentTypeError, r"groups\['g'\] must be column names or indices, not 1.5"),
        ({1: ["x0"], "1": ["x1"]}, DataError, "names of groups contain '1' more than once"),
        (["a", "b"], DataError, "groups has 2 labels but X has 5 columns; give one label per column"),
        ("aabbc", ArgumentTypeError, "groups must be a mapping .* not 'aabbc'"),
        (3, ArgumentTypeError, "groups must be a mapping .* not 3"),
    ],
)
def test_bad_groups(groups, error, message):
    with pytest.raises(error, match=message):
        wv.Problem(X, Y, groups=groups, always_include="x4")


# --- priors with one value per variable


def test_values_of_excluded_variables_are_left_out():
    table = X.copy()
    table[:, 1] = 1
    g, h = np.arange(1.0, 6), np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    rest = [0, 2, 3, 4]
    with pytest.warns(DataWarning):
        problem = wv.Problem(table, Y, slab=wv.IndependentNormal(g=g), model_prior=wv.FixedInclusion(h=h))
    assert problem.slab == wv.IndependentNormal(g=g[rest])
    assert problem.model_prior == wv.FixedInclusion(h=h[rest])
    assert problem.target(0).slab.ridge == pytest.approx(1 / g[rest])
    assert problem.target(0).prior.log_odds == pytest.approx(np.log(h / (1 - h))[rest])
    with pytest.warns(DataWarning):  # one value for each variable that is left is right too
        assert wv.Problem(table, Y, slab=wv.IndependentNormal(g=g[rest])).slab.g == tuple(g[rest])
    for wrong in (g[:3], np.r_[g, 1.0]):
        with (
            pytest.warns(DataWarning),
            pytest.raises(DataError, match=f"g has {len(wrong)} values but there are 4"),
        ):
            wv.Problem(table, Y, slab=wv.IndependentNormal(g=wrong))
        with (
            pytest.warns(DataWarning),
            pytest.raises(DataError, match=f"h has {len(wrong)} values but there are 4"),
        ):
            wv.Problem(table, Y, model_prior=wv.FixedInclusion(h=wrong / 10))


def test_values_count_variables_that_can_be_in_or_out():
    problem = wv.Problem(X, Y, always_include=2, slab=wv.IndependentNormal(g=[1, 2, 4, 5]))
    assert problem.target(0).slab.ridge == pytest.approx([1, 1 / 2, 1 / 4, 1 / 5])


# --- anything at all

ANY = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 1e150, -1e150, 1e-150, 1e308, 5e-324, -2e-310, 1 + 1e-12]),
    st.floats(-10, 10),
    st.floats(allow_nan=True, allow_infinity=True),
)
SLABS = st.sampled_from(
    [wv.IndependentNormal(), wv.IndependentNormal(g=100), wv.GPrior(), wv.BIC(), wv.LocalEmpiricalBayes()]
)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_data_is_read_or_refused_with_reason(data):
    n, p = data.draw(st.sampled_from([6, 5, 4, 4, 3, 2, 1, 0])), data.draw(st.sampled_from([4, 3, 2, 1, 0]))
    moderate, finite = ANY.filter(lambda v: abs(v) < 1e160), ANY.filter(math.isfinite)
    elements = data.draw(st.sampled_from([moderate, moderate, finite, ANY]))
    x, y = data.draw(arrays(float, (n, p), elements=elements)), data.draw(arrays(float, n, elements=elements))
    options = {
        "slab": data.draw(SLABS),
        "scale": data.draw(st.sampled_from(["unit", "none"])),
        "noise": data.draw(st.sampled_from([None, wv.InverseGamma(a=1, b=1)])),
        "always_include": data.draw(st.sampled_from([None, 0, -1])),
        "weights": data.draw(st.one_of(st.none(), st.none(), arrays(float, n, elements=elements.map(abs)))),
        "engine": data.draw(st.sampled_from(["gram", "columns"])),
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            problem = wv.Problem(x, y, **options)
    except WhichvarsError:
        return
    check_finite_target(problem)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((X, Y, wv.GPrior(5)), r"all other arguments by name: write Problem\(X, y, slab=GPrior\(g=5.0\)\)"),
        ((X, Y, wv.BetaBinomial(size=2)), r"Problem\(X, y, model_prior=BetaBinomial\(size=2.0\)\)"),
        ((wv.datasets.load_uscrime(),), r"a data set that contains both: write Problem\(data.X, data.y\)"),
        ((X,), r"needs the response y besides the columns X; write Problem\(X, y\)"),
    ],
)
def test_what_is_given_by_position(given, message):
    with pytest.raises(ArgumentTypeError, match=message):
        wv.Problem(*given)
