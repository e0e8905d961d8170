"""SufficientStatistics: a Problem from them is the Problem from the rows, however they came; and what they refuse."""

from __future__ import annotations

import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from distributed import Client

import whichvars as wv
from support.cases import SLABS
from whichvars.data import moments, row_sums
from whichvars.errors import ArgumentTypeError, DataError, DataWarning

Statistics = wv.SufficientStatistics
N, P = 5000, 7
RNG = np.random.default_rng(4)
NAMES = [f"v{i}" for i in range(P)]
X = RNG.standard_normal((N, P)) + 0.7 * RNG.standard_normal((N, 1))
X[:, 2] = 1e8 + X[:, 2]
X[:, 3] *= 1e-4
Y = 5 + X[:, :3] @ [0.05, -0.04, 0.03] - 3e6 + RNG.standard_normal(N)
W = RNG.uniform(0.2, 3, N)
W[::50] = 0
FRAME = pd.DataFrame(X, columns=NAMES)


def same_statistics(a, b, tolerance=1e-13):
    assert (a.names, a.responses, a.n) == (b.names, b.responses, b.n)
    assert a.total_weight == pytest.approx(b.total_weight, rel=1e-13)
    lengths = np.sqrt(np.diagonal(b.scatter))
    assert np.abs((a.scatter - b.scatter) / lengths / lengths[:, None]).max() < tolerance
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-14)


def same_posterior(a: wv.Problem, b: wv.Problem, tolerance=1e-10):
    """Posterior, evidence and every model's log marginal likelihood."""
    left, right = wv.exact(a), wv.exact(b)
    np.testing.assert_allclose(left.pip, right.pip, atol=tolerance, rtol=0)
    assert left.log_evidence == pytest.approx(right.log_evidence, abs=tolerance)
    marginals = [
        dict(zip(map(tuple, found.models.members), found.models.log_marginal)) for found in (left, right)
    ]
    assert len(marginals[0]) == len(marginals[1]) > 5
    for model, value in marginals[0].items():
        if model in marginals[1]:  # the last ones kept may be tied
            assert value == pytest.approx(marginals[1][model], abs=tolerance)
    np.testing.assert_allclose(
        left.coefficients()[["mean", "sd"]], right.coefficients()[["mean", "sd"]], rtol=1e-8, atol=1e-12
    )
    assert (a.names, a.n, a.nu, a.excluded, a.duplicates) == (b.names, b.n, b.nu, b.excluded, b.duplicates)


# --- the same posterior
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slab", SLABS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weights": W},
        {"always_include": ["v1", "v4"], "weights": W},
        {"scale": "none", "always_include": ["v5"]},
    ],
    ids=["plain", "weighted", "always", "unscaled"],
)
def test_the_posterior_is_that_of_the_rows(slab, options):
    weights = options.get("weights")
    rest = {name: value for name, value in options.items() if name != "weights"}
    direct = wv.Problem(FRAME, Y, slab=SLABS[slab][0], weights=weights, **rest)
    statistics = Statistics.from_arrays(FRAME, Y, weights)
    same_posterior(wv.Problem(statistics, slab=SLABS[slab][0], **rest), direct)


def test_groups_heredity_names_and_sizes_are_those_of_the_rows():
    options = {
        "groups": {"g": ["v5", "v0"], "h": ["v3", "v6"]},
        "heredity": {"h": ["g"]},
        "max_size": 3,
        "model_prior": wv.FixedInclusion(h=[0.2, 0.3, 0.4, 0.5, 0.6]),
    }
    direct = wv.Problem(FRAME, Y, **options)
    same_posterior(wv.Problem(Statistics.from_arrays(FRAME, Y), **options), direct)
    renamed = wv.Problem(Statistics.from_arrays(X, Y), names=list("abcdefg"), max_size=2)
    assert renamed.names == list("abcdefg")
    assert wv.Problem(Statistics.from_arrays(X, Y)).names == [f"x{i}" for i in range(P)]


def test_constants_combinations_and_copies_are_found():
    frame = FRAME.assign(
        same=0.1, copy=-2 * FRAME.v1 + 3, mix=FRAME.v5 + 2 * FRAME.v6 - 7, again=3 * FRAME.v5
    )
    options = {"always_include": ["v5", "again", "v6"]}
    with pytest.warns(DataWarning) as direct_said:
        direct = wv.Problem(frame, Y, **options)
    with pytest.warns(DataWarning) as said:
        found = wv.Problem(Statistics.from_arrays(frame, Y), **options)
    assert [str(w.message) for w in said] == [str(w.message) for w in direct_said]
    assert [w.filename for w in said] == [__file__] * 2  # they point at the user's line
    assert found.excluded == {"same": "constant", "mix": "a combination of the always-included columns"}
    assert found.duplicates == [["v1", "copy"]]
    assert found.flat.z_index == [5, 6]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same_posterior(found, direct)


def test_with_priors_is_that_of_the_rows():
    statistics = wv.Problem(Statistics.from_arrays(FRAME, Y), slab=wv.GPrior(50))
    direct = wv.Problem(FRAME, Y, slab=wv.GPrior(50))
    for slab in (wv.IndependentNormal(0.5), wv.HyperG()):
        same_posterior(statistics.with_priors(slab=slab), direct.with_priors(slab=slab))


def test_what_needs_new_rows_only_works_and_what_needs_the_old_ones_refuses(tmp_path):
    options = {"always_include": ["v1"], "slab": wv.ZellnerSiow()}
    found = wv.exact(wv.Problem(Statistics.from_arrays(FRAME, Y, W), **options))
    direct = wv.exact(wv.Problem(FRAME, Y, weights=W, **options))
    new = FRAME.iloc[:20]
    for estimator in ("BMA", "HPM", "MPM", "BPM"):
        one, other = (
            posterior.predict(new, estimator=estimator, return_std=True) for posterior in (found, direct)
        )
        np.testing.assert_allclose(one[0], other[0], atol=1e-7)  # beside a mean of 1e8
        np.testing.assert_allclose(one[1], other[1], rtol=1e-9)
    np.testing.assert_allclose(found.log_score(new, Y[:20]), direct.log_score(new, Y[:20]), rtol=1e-9)
    with pytest.raises(DataError, match="has no rows to leave out"):
        found.loo(FRAME, Y, W)
    assert found.draw(10, seed=1).shape == direct.draw(10, seed=1).shape
    found.save(tmp_path / "posterior.npz")
    again = wv.Posterior.load(tmp_path / "posterior.npz")
    np.testing.assert_array_equal(again.predict(new), found.predict(new))


def test_sampling_and_checkpoints_work(tmp_path):
    problem = wv.Problem(Statistics.from_arrays(FRAME, Y))
    found = wv.sample(
        problem,
        wv.AddDeleteSwap(),
        draws=2000,
        replicates=2,
        seed=3,
        progress=False,
        checkpoint=tmp_path / "run",
    )
    again = wv.sample(problem, wv.AddDeleteSwap(), draws=2000, replicates=2, seed=3, progress=False)
    np.testing.assert_array_equal(found.pip, again.pip)


# --- however the rows come
# ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """Blocks and slices of few rows, so that there are many."""
    for module in (moments, row_sums):
        monkeypatch.setattr(module, "CELLS", 1000)


def test_all_containers_give_the_same(small, tmp_path):
    whole = Statistics.from_arrays(X, Y, W, names=NAMES)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for table in (FRAME, pl.DataFrame(X, schema=NAMES), sp.csc_matrix(X), mapped, X.tolist()):
        found = Statistics.from_arrays(table, Y, W, names=NAMES)
        np.testing.assert_array_equal(found.scatter, whole.scatter)
    parts = [(X[i : i + 777], Y[i : i + 777], W[i : i + 777]) for i in range(0, N, 777)]
    chunked = Statistics.from_chunks(iter(parts), names=NAMES)
    np.testing.assert_array_equal(chunked.scatter, whole.scatter)
    added = sum(
        (Statistics.from_arrays(*part, names=NAMES) for part in parts[1:]),
        start=Statistics.from_arrays(*parts[0], names=NAMES),
    )
    assert type(added) is Statistics
    same_statistics(added, whole)
    single = Statistics.from_arrays(X.astype(np.float32), Y, names=NAMES)
    same_statistics(single, Statistics.from_arrays(X.astype(np.float32).astype(float), Y, names=NAMES))


def test_properties_are_those_of_the_rows():
    found = Statistics.from_arrays(FRAME, np.column_stack([Y, X[:, 0]]), W, responses=["one", "two"])
    used = W > 0
    share = W[used] / W.sum()
    both = np.column_stack([X, Y, X[:, 0]])[used]
    centred = both - share @ both
    products = (centred * W[used, None]).T @ centred
    scale = np.sqrt(np.diagonal(products))
    for part, rows, columns in (
        (found.xtx, slice(P), slice(P)),
        (found.xty, slice(P), slice(P, None)),
        (found.yty, slice(P, None), slice(P, None)),
    ):
        expected = products[rows, columns]
        error = np.abs(part - expected) / scale[rows, None] / scale[None, columns]
        assert error.max() < 1e-10
    np.testing.assert_allclose(found.means, share @ both, rtol=1e-12)
    assert list(found.means.index) == [*NAMES, "one", "two"]
    spread = np.sqrt(np.diagonal(products) / (W.sum() * (used.sum() - 1) / used.sum()))
    np.testing.assert_allclose(found.standard_deviations, spread, rtol=1e-10)
    assert repr(found) == "SufficientStatistics(7 columns, 2 responses, 4,900 rows)"


def test_several_responses_share_their_columns():
    other = X[:, 4] * 0.1 + RNG.standard_normal(N)
    found = Statistics.from_arrays(FRAME, pd.DataFrame({"sales": Y, "cost": other}))
    same_posterior(wv.Problem(found, "sales"), wv.Problem(FRAME, Y))
    same_posterior(wv.Problem(found, "cost"), wv.Problem(FRAME, other))
    with pytest.raises(ArgumentTypeError, match=r"2 responses, 'sales', 'cost'; name one"):
        wv.Problem(found)
    with pytest.raises(DataError, match="no response 'price'; they have 'sales', 'cost'"):
        wv.Problem(found, "price")
    with pytest.raises(ArgumentTypeError, match="must be the name of a response"):
        wv.Problem(found, Y)
    assert Statistics.from_arrays(X, np.column_stack([Y, other])).responses == ["y0", "y1"]
    assert Statistics.from_arrays(X, pd.Series(Y, name="sales")).responses == ["sales"]
    assert Statistics.from_arrays(X, Y).responses == ["y"]


def test_saved_and_loaded_bit_for_bit(tmp_path):
    path = tmp_path / "statistics.npz"
    found = Statistics.from_arrays(FRAME, Y, W)
    found.save(path)
    again = Statistics.load(path)
    assert type(again) is Statistics
    assert vars(again).keys() == vars(found).keys()
    for name, value in vars(found).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    with np.load(path, allow_pickle=False) as archive:
        assert "header" in archive
    with pytest.raises(DataError, match="contains a table of sufficient statistics, not a posterior"):
        wv.Posterior.load(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        Statistics.load(path)


# --- Dask
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_dask_arrays_and_frames(scheduler):
    whole = Statistics.from_arrays(FRAME, Y, W)
    cuts = (1200, 1, 0, 2799, 1000)
    arrays = [
        da.from_array(X, chunks=(cuts, (3, 4))),
        da.from_array(Y, chunks=700),
        da.from_array(W, chunks=N),
    ]
    table = FRAME.assign(y=Y, w=W)
    frame = dd.from_pandas(table, npartitions=9)
    with dask.config.set(scheduler=scheduler):
        same_statistics(Statistics.from_dask(*arrays, names=NAMES), whole)
        found = Statistics.from_dask(frame, "y", "w")
        same_statistics(found, whole)
        np.testing.assert_array_equal(Statistics.from_dask(frame, "y", "w").scatter, found.scatter)
        same_statistics(Statistics.from_dask(frame[NAMES], frame["y"], frame["w"]), whole)
        unknown = frame[NAMES].to_dask_array(), frame["y"].to_dask_array(), frame["w"].to_dask_array()
        same_statistics(Statistics.from_dask(*unknown, names=NAMES), whole)
        both = Statistics.from_dask(frame, ["y", "v0"], "w")
        assert (both.names, both.responses) == (NAMES[1:], ["y", "v0"])
        some = frame[frame.v0 > 1.5]  # parts of few rows, or none
        assert Statistics.from_dask(some, "y").n == int((X[:, 0] > 1.5).sum())


def test_a_distributed_client_is_used_if_there_is_one():
    frame = dd.from_pandas(FRAME.assign(y=Y), npartitions=11)
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        found = Statistics.from_dask(frame, "y")
        ran = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter)
    assert ran > 11
    same_statistics(found, Statistics.from_arrays(FRAME, pd.Series(Y, name="y")))


@pytest.mark.parametrize("parts", [1, 2, 8, 9, 65])
def test_trees_of_any_size(parts):
    frame = dd.from_pandas(FRAME.assign(y=Y).iloc[:650], npartitions=parts)
    assert frame.npartitions == parts
    with dask.config.set(scheduler="synchronous"):
        same_statistics(
            Statistics.from_dask(frame, "y"),
            Statistics.from_arrays(FRAME.iloc[:650], pd.Series(Y[:650], name="y")),
        )


def test_dask_refuses_by_part_and_row():
    bad = X.copy()
    bad[1234, 3] = np.nan
    frame = dd.from_pandas(pd.DataFrame(bad, columns=NAMES).assign(y=Y), npartitions=5)
    word = frame.assign(v1=frame.v1.astype(str))
    y = da.from_array(Y, chunks=1000)
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(DataError, match=r"'x3' is missing .* in row 1234"):
            Statistics.from_dask(da.from_array(bad, chunks=(1000, P)), y)
        with pytest.raises(DataError, match="part 1: X column 'v3' is missing"):
            Statistics.from_dask(frame, "y")
        with pytest.raises(ArgumentTypeError, match=r"part \d: X column 'v1' contains text"):
            Statistics.from_dask(word, "y")
        with pytest.raises(DataError, match="X has 5000 rows but y has 4999"):
            Statistics.from_dask(da.from_array(X, chunks=(1000, P)), da.from_array(Y[1:], chunks=1000))
        with pytest.raises(DataError, match="X has 5 parts but y has 2"):
            Statistics.from_dask(frame[NAMES], frame["y"].repartition(npartitions=2))
        with pytest.raises(DataError, match="y: there is no column 'v9'"):
            Statistics.from_dask(frame, "v9")
        with pytest.raises(ArgumentTypeError, match="not ndarray"):
            Statistics.from_dask(X, Y)
        with pytest.raises(ArgumentTypeError, match="y must be a Dask collection"):
            Statistics.from_dask(da.from_array(X, chunks=(1000, P)), Y)
        with pytest.raises(DataError, match="2 dimensions"):
            Statistics.from_dask(y, y)


# --- correlations
# ----------------------------------------------------------------------------------------------------------


def test_correlations_are_enough():
    used = FRAME[["v0", "v1", "v4", "v5"]]
    table = used.assign(y=Y).corr()
    found = Statistics.from_correlations(
        table.loc[used.columns, used.columns], table["y"].drop("y").iloc[::-1], n=N,
        sd=used.std(), y_sd=Y.std(ddof=1), means=used.mean(), y_mean=Y.mean(),
    )  # fmt: skip
    options = {
        "always_include": ["v1"],
        "slab": wv.IndependentNormal(3.0),
        "noise": wv.InverseGamma(2.0, 1.5),
    }
    direct, problem = wv.Problem(used, Y, **options), wv.Problem(found, **options)
    same_posterior(problem, direct, tolerance=1e-9)  # pandas' correlations are rounded once more
    np.testing.assert_allclose(
        wv.exact(problem).predict(used.iloc[:9]), wv.exact(direct).predict(used.iloc[:9]), rtol=1e-9
    )


TWO = np.array([[1.0, 0.5], [0.5, 1.0]])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]], [0, 0, 0], 50), "not positive semi-definite.*-0.8"),
        ((TWO, [0.9, -0.9], 50), "not positive semi-definite"),
        ((TWO + np.array([[0, 0.1], [0, 0]]), [0, 0], 50), "not symmetric: 0.6 of 'x0' with 'x1', 0.5"),
        ((4 * TWO, [0, 0], 50), "of 'x0' with itself is 4, not 1; if these are covariances"),
        (([[1, 1.2], [1.2, 1]], [0, 0], 50), "of 'x0' with 'x1' is 1.2"),
        ((TWO, [0.3, 1.5], 50), "of 'x1' with 'y' is 1.5"),
        ((TWO, [0.3], 50), "y_correlations has 1 numbers but there are 2 columns"),
        ((TWO, [0.3, np.nan], 50), "y_correlations is missing"),
        ((np.ones((2, 3)), [0, 0, 0], 50), "square"),
        ((TWO, [0, 0.1], 2), "n must be a whole number of at least 3, not 2"),
        ((TWO, [0, 0.1], 10.5), "n must be a whole number"),
    ],
)  # fmt: skip
def test_correlations_of_no_data_are_refused(arguments, said):
    with pytest.raises(DataError, match=said):
        Statistics.from_correlations(*arguments)


def test_other_faults_of_correlations():
    with pytest.raises(DataError, match="deviation of 'x1' is -1; it must be positive"):
        Statistics.from_correlations(TWO, [0, 0.1], 50, sd=[1, -1])
    with pytest.raises(DataError, match="deviation of 'y' is 0"):
        Statistics.from_correlations(TWO, [0, 0.1], 50, y_sd=0)
    with pytest.raises(DataError, match="too large or too small"):
        Statistics.from_correlations(TWO, [0, 0.1], 50, sd=1e200)
    frame = pd.DataFrame(TWO, columns=["a", "b"], index=["b", "a"])
    with pytest.raises(DataError, match="different orders"):
        Statistics.from_correlations(frame, [0, 0.1], 50)


# --- bad rows
# ----------------------------------------------------------------------------------------------------------


def broken(row, column, value):
    table = X.copy()
    table[row, column] = value
    return table


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        ((broken(3210, 2, np.nan), Y), DataError, "X column 'x2' is missing .* in row 3210"),
        ((broken(4999, 6, np.inf), Y), DataError, "X column 'x6' is infinite in row 4999"),
        ((X, np.where(np.arange(N) == 4321, np.nan, Y)), DataError, "y is missing .* in row 4321"),
        ((X, Y, np.where(np.arange(N) == 4000, -1.0, 1)), DataError, "weights is negative in row 4000"),
        ((X, Y, np.where(np.arange(N) == 4000, np.nan, 1)), DataError, "weights is missing .* in row 4000"),
        ((X, Y[:-1]), DataError, "X has 5000 rows but y has 4999"),
        ((X, Y, W[1:]), DataError, "X has 5000 rows but weights has 4999"),
        ((X, Y, np.zeros(N)), DataError, "there are no rows"),
        ((X[:0], Y[:0]), DataError, "there are no rows"),
        ((X[:, :0], Y), DataError, "X has no columns"),
        ((X[:, 0], Y), DataError, "one-dimensional"),
        ((FRAME.assign(v2="word"), Y), ArgumentTypeError, "X column 'v2' contains"),
        ((FRAME.assign(v2=pd.Categorical(["a"] * N)), Y), ArgumentTypeError, "X column 'v2' contains text or cat"),
    ],
)  # fmt: skip
def test_bad_rows_are_refused_by_row_and_column(arguments, kind, said, small):
    with pytest.raises(kind, match=said):
        Statistics.from_arrays(*arguments)


def test_bad_chunks_are_refused_by_number():
    good = (X[:100], Y[:100])
    for chunk, kind, said in (
        ((broken(7, 1, np.nan)[:100], Y[:100]), DataError, "chunk 2: X column 'x1' is missing .* in row 7"),
        ((X[:100, :6], Y[:100]), DataError, "chunk 2: the columns are not the same: this one lacks 'x6'"),
        ((X[:100], Y[:99]), DataError, "chunk 2: X has 100 rows but y has 99"),
        ((X[:100], X[:100, :2]), DataError, "chunk 2: the responses are not the same"),
        (X[:100], ArgumentTypeError, r"chunk 2 must be \(X, y\) or \(X, y, weights\), not ndarray"),
        ((X[:100],), ArgumentTypeError, "chunk 2 must be .* not a tuple of 1"),
    ):
        with pytest.raises(kind, match=said):
            Statistics.from_chunks([good, good, chunk, good])
    with pytest.raises(DataError, match="there are no chunks"):
        Statistics.from_chunks([])
    with pytest.raises(DataError, match="responses has 2 names but y is one column"):
        Statistics.from_arrays(X, Y, responses=["a", "b"])
    with pytest.raises(DataError, match="names has 1 entries"):
        Statistics.from_arrays(X, Y, names=["a"])


def test_a_problem_refuses_what_statistics_cannot_give():
    found = Statistics.from_arrays(FRAME, Y)
    for options, kind, said in (
        ({"weights": W}, DataError, "give the weights there"),
        ({"engine": "columns"}, DataError, "needs the rows"),
        ({"names": ["a"]}, DataError, "names has 1 entries but the statistics has 7 columns"),
        ({"names": ["a"] * 7}, DataError, "more than once"),
        ({"always_include": NAMES}, DataError, "nothing to select from"),
        ({"always_include": "v9"}, DataError, "no column 'v9'; the columns are"),
    ):
        with pytest.raises(kind, match=said):
            wv.Problem(found, **options)
    with pytest.raises(ArgumentTypeError, match="VariableSelector needs rows"):
        wv.VariableSelector().fit(found, "y")
    with pytest.raises(DataError, match="X has 2 rows; at least 3 are needed"):
        wv.Problem(Statistics.from_arrays(X[:2], Y[:2]))
    with pytest.raises(DataError, match="4 rows leave 1 degrees of freedom"):
        wv.Problem(Statistics.from_arrays(X[:4], Y[:4]), always_include=[0, 1])
    with pytest.raises(DataError, match=r"y \('y'\) is constant; there is nothing"):
        wv.Problem(Statistics.from_arrays(X, np.full(N, 0.1)))
    with pytest.raises(DataError, match=r"constant given the always-included"):
        wv.Problem(Statistics.from_arrays(X, 2 * X[:, 4] - 1), always_include=4)
    heavy = np.ones(N)
    heavy[5] = 1e30
    with pytest.raises(DataError, match="smallest weight, 1, is negligible compared with the largest"):
        wv.Problem(Statistics.from_arrays(X, Y, heavy))
    with pytest.raises(TypeError, match="all other arguments by name"):
        wv.Problem(found, "y", wv.BIC())
