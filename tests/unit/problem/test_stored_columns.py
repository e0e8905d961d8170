"""Columns that stay as they are stored, mapped, sparse or of one byte each, give the answers of the dense ones."""

from __future__ import annotations

import pickle
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from bed_reader import to_bed
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import whichvars as wv
from support.in_turn import in_turn
from support.kernels import chain_at, log_marginal_of
from whichvars._kernels.chain import SIZE, new_chain
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.products.stored import MISSING, pair_products
from whichvars._kernels.scan.scan import scan_model
from whichvars._kernels.scan.scan_work import new_scan
from whichvars._kernels.search import select_forward
from whichvars.problem.columns import columns_at, gram_of, products_with_all
from whichvars.sampling.checkpoint import problem_fingerprint

N, P = 150, 14
FORMS = ("csc", "coo", "mapped", "mapped float32", "mapped by rows", "bed", "genotypes", "npy")
RNG = np.random.default_rng(5)
COUNTS = RNG.integers(0, 3, size=(N, P)).astype(np.int8)
COUNTS[:, 4] = np.minimum(COUNTS[:, 3] + (RNG.random(N) < 0.1), 2)  # correlated
Y = COUNTS[:, 3] - 0.8 * COUNTS[:, 7] + RNG.normal(size=N)
WEIGHTS = RNG.random(N) + 0.1
WEIGHTS[[0, 17, N - 1]] = 0.0
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "weights": {"weights": WEIGHTS},
    "always": {"always_include": [0, 11, 12]},
    "both": {"always_include": [0, 11], "weights": WEIGHTS, "slab": wv.GPrior("n")},
    "units": {"scale": "none", "weights": WEIGHTS},
    "groups": {"groups": {"a": [1, 9, 5]}, "slab": wv.HyperG()},
}
MODELS = [[], [3], [2, 3, 6], [0, 1, 4, 8], [7, 5, 2, 1, 0]]


def quiet(X: Any, y: Any = Y, **keywords: Any) -> wv.Problem:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return wv.Problem(X, y, **{"slab": wv.IndependentNormal()} | keywords)


def mapped(path: Path, table: np.ndarray) -> np.memmap:
    np.save(path, table)
    return np.load(path, mmap_mode="r")


def form(name: str, folder: Path, counts: np.ndarray = COUNTS) -> Any:
    by_columns = np.asfortranarray(counts.astype(float))
    if name == "csc":
        return sparse.csc_matrix(counts)
    if name == "coo":
        return sparse.coo_array(counts)
    if name == "mapped":
        return mapped(folder / "m.npy", by_columns)
    if name == "mapped float32":
        return mapped(folder / "s.npy", by_columns.astype(np.float32))
    if name == "mapped by rows":
        return mapped(folder / "r.npy", np.ascontiguousarray(by_columns))
    if name == "npy":
        np.save(folder / "n.npy", by_columns)
        return str(folder / "n.npy")
    if name == "genotypes":
        return wv.Genotypes(counts)
    to_bed(folder / "g.bed", counts, properties={"sid": [f"x{i}" for i in range(counts.shape[1])]})
    return folder / "g.bed"


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


# --- the same answers


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_form_has_the_marginal_likelihoods_and_scans_of_the_dense_one(name, setting, tmp_path):
    keywords = SETTINGS[setting]
    dense = quiet(COUNTS.astype(float), engine="columns", **keywords)
    X = form(name, tmp_path)
    for engine in ("columns", "gram"):
        other = quiet(X, engine=engine, **keywords)
        assert (other.names, other.nu, other.n) == (dense.names, dense.nu, dense.n)
        close(other.column_units, dense.column_units)
        for ours, theirs in zip(other.flat, dense.flat):
            close(ours, theirs)
        for model in MODELS:
            close(log_marginal_of(other, model), log_marginal_of(dense, model))
            odds = []
            for problem in (dense, other):
                chain, target = chain_at(problem, model), problem.target(10)
                work = new_scan(target, 10)
                assert scan_model(target, chain, work) == 0
                odds.append(work.log_odds)
            close(*odds)


def test_kernels_are_compiled_once_for_all_forms(tmp_path):
    dense = numba.typeof(quiet(COUNTS.astype(float)).target(0))
    for name in FORMS:
        for engine in ("columns", "gram"):
            problem = quiet(form(name, tmp_path), engine=engine, always_include=[2])
            assert numba.typeof(problem.target(0)) == dense
            assert numba.typeof(pickle.loads(pickle.dumps(problem)).target(0)) == dense


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(3, 40), st.integers(1, 6), st.integers(0, 2), st.booleans(), st.booleans())  # fmt: skip
def test_products_are_those_of_weighted_residuals(seed, n, p, always, weighted, large_mean):
    """For any numbers, weights and always-included columns, in every form, by plain linear algebra."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 120, size=(n + always, p + always)).astype(np.int8)
    counts = np.where(rng.random(table.shape) < 0.1, MISSING, table).astype(np.int8)
    w = rng.random(len(table)) + 0.1 if weighted else np.ones(len(table))
    filled = counts.astype(float)
    for column in filled.T:
        missing = column == MISSING
        column[missing] = w[~missing] @ column[~missing] / w[~missing].sum() if (~missing).any() else 0.0
    shifted = table + (1000.0 if large_mean else 0.0)
    cases = [(wv.Genotypes(counts), filled), (sparse.csc_array(table), table.astype(float))]
    with tempfile.TemporaryDirectory() as folder:
        cases.append((mapped(Path(folder) / "x.npy", np.asfortranarray(shifted)), shifted))
        for X, values in cases:
            root = np.sqrt(w)[:, None]
            flat = root * np.column_stack([np.ones(len(w)), values[:, p:]])
            left = root * values[:, :p] - flat @ np.linalg.lstsq(flat, root * values[:, :p], rcond=1e-12)[0]
            lengths = np.linalg.norm(left, axis=0)
            if (lengths < 1e-2 * np.linalg.norm(root * values[:, :p], axis=0)).any():
                continue  # close to collinear: there are tests of their own for that
            if n - np.linalg.matrix_rank(flat) + always < 2:
                continue
            y = rng.normal(size=len(w))
            problem = quiet(X, y, slab=wv.GPrior(5), weights=w if weighted else None, engine="columns", always_include=list(range(p, p + always)))  # fmt: skip
            design = problem.target(0).design
            want = (left / lengths).T @ (left / lengths)
            first, second = (index.astype(np.int64) for index in np.indices((p, p)).reshape(2, -1))
            found = np.zeros(p * p)
            pair_products(design.stored, first, second, found)
            np.testing.assert_allclose(found.reshape(p, p), want, atol=1e-10)
            assert (found.reshape(p, p) == found.reshape(p, p).T).all()  # to the last bit
            np.testing.assert_allclose(columns_at(design, np.arange(p)), (left / lengths).T, atol=1e-10)
            vector = rng.normal(size=len(w))
            np.testing.assert_allclose(
                products_with_all(design, vector[None])[0], (left / lengths).T @ vector, atol=1e-9
            )
            np.testing.assert_allclose(gram_of(design, np.arange(p)), want, atol=1e-10)


def test_long_columns_of_bytes_are_added_up_in_more_bits():
    """Sums of 32 bits would overflow."""
    n = (1 << 20) + 3
    counts = np.full((n, 2), 127, np.int8)
    counts[::2] = 0
    counts[::3, 1] = 5
    problem = quiet(wv.Genotypes(counts), np.arange(n) % 11, engine="columns")
    found = np.zeros(1)
    pair_products(problem.target(0).design.stored, np.array([0]), np.array([1]), found)
    want = np.corrcoef(counts.astype(float).T)[0, 1] * (n - 1)
    assert found[0] == pytest.approx(want, rel=1e-10)


def test_a_large_mean_costs_mapped_columns_no_digits(tmp_path):
    shifted = COUNTS + 1e6 * (1 + RNG.random(P))
    dense = quiet(shifted, engine="columns")
    other = quiet(mapped(tmp_path / "x.npy", np.asfortranarray(shifted)), engine="columns")
    for model in MODELS:
        close(log_marginal_of(other, model), log_marginal_of(dense, model))


# --- missing genotypes


@pytest.mark.parametrize("keywords", [{}, {"weights": WEIGHTS, "always_include": [2]}])
def test_missing_genotypes_count_as_the_mean_of_their_column(keywords, tmp_path):
    counts = COUNTS.copy()
    gone = RNG.random(counts.shape) < 0.05
    counts[gone] = MISSING
    w = keywords.get("weights", np.ones(N))
    filled = COUNTS.astype(float)
    for j in range(P):
        filled[gone[:, j], j] = w[~gone[:, j]] @ filled[~gone[:, j], j] / w[~gone[:, j]].sum()
    dense = quiet(filled, engine="columns", **keywords)
    candidates = [j for j in range(P) if j not in keywords.get("always_include", [])]
    count = gone[w > 0][:, candidates].sum()
    with pytest.warns(wv.DataWarning, match=rf"{count} genotypes are missing .*mean of its column"):
        bed = wv.Problem(
            form("bed", tmp_path, counts), Y, engine="columns", slab=wv.IndependentNormal(), **keywords
        )
    gram = quiet(wv.Genotypes(counts), engine="gram", **keywords)
    for model in MODELS:
        for problem in (bed, gram):
            close(log_marginal_of(problem, model), log_marginal_of(dense, model))
    # and in prediction, as the mean of the rows that were seen
    posterior, other = (wv.exact(problem) for problem in (dense, bed))
    some = COUNTS[:5].copy()
    some[2, candidates[1]] = MISSING
    plain = some.astype(float)
    plain[2, candidates[1]] = dense.flat.x_mean[1]
    with pytest.warns(wv.DataWarning, match="1 genotype of X is missing"):
        found = other.predict(wv.Genotypes(some, bed.all_columns))
    np.testing.assert_allclose(found, posterior.predict(plain), rtol=1e-9)


# --- everything after


@pytest.mark.parametrize("name", ["csc", "mapped float32", "genotypes"])
def test_a_posterior_of_stored_columns_answers_every_question(name, tmp_path):
    keywords: dict[str, Any] = {"always_include": [12], "weights": WEIGHTS, "engine": "columns"}
    X = form(name, tmp_path)
    dense, problem = quiet(COUNTS.astype(float), **keywords), quiet(X, **keywords)
    theirs, ours = wv.exact(dense), wv.exact(problem)
    np.testing.assert_allclose(ours.pip, theirs.pip, atol=1e-10)
    np.testing.assert_allclose(ours.coefficients(), theirs.coefficients(), atol=1e-8)
    new = X if name == "genotypes" else form(name, tmp_path, COUNTS)
    for a, b in zip(ours.predict(new, return_std=True), theirs.predict(COUNTS, return_std=True)):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_allclose(ours.predict(COUNTS), theirs.predict(COUNTS), rtol=1e-9)
    np.testing.assert_allclose(
        ours.loo(new, Y, weights=WEIGHTS), theirs.loo(COUNTS, Y, weights=WEIGHTS), rtol=1e-7
    )
    np.testing.assert_allclose(
        ours.predict(new, estimator="BPM"), theirs.predict(COUNTS, estimator="BPM"), rtol=1e-9
    )
    assert list(ours.clusters()["lead"]) == list(theirs.clusters()["lead"]) != []
    np.testing.assert_allclose(ours.clusters()["purity"], theirs.clusters()["purity"], rtol=1e-9)
    np.testing.assert_allclose(ours.draw(20, seed=1), theirs.draw(20, seed=1), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.top_models(5)["r_squared"], theirs.top_models(5)["r_squared"], rtol=1e-9)
    ours.save(tmp_path / "p.npz")
    again = wv.Posterior.load(tmp_path / "p.npz")
    assert (again.predict(new) == ours.predict(new)).all()
    assert problem_fingerprint(again.problem) == problem_fingerprint(problem) != problem_fingerprint(dense)
    copied = pickle.loads(pickle.dumps(problem))
    assert (wv.exact(copied).pip == ours.pip).all()
    priors = {"slab": wv.GPrior("n"), "model_prior": wv.FixedInclusion(h=0.3)}
    changed = [wv.exact(p.with_priors(**priors)).pip for p in (dense, problem)]
    np.testing.assert_allclose(*changed, atol=1e-10)


def test_the_empty_model_of_stored_columns_has_coefficients():
    """Models are refitted size by size, and that of size 0 has no columns."""
    rng = np.random.default_rng(0)
    X, y = np.abs(rng.normal(size=(30, 6))), rng.normal(size=30)
    dense, stored = (quiet(form, y, engine="columns") for form in (X, sparse.csc_matrix(X)))
    ours, theirs = (wv.exact(problem).coefficients() for problem in (stored, dense))
    np.testing.assert_allclose(ours, theirs, atol=1e-10)


SAMPLERS = (
    wv.AddDeleteSwap(), wv.IndividualAdaptation(), wv.Lamnisos(), wv.ASI(), wv.PARNI(), wv.TemperedGibbs(),
    wv.SubsetGibbs(), wv.Hybrid(), wv.ParallelTempering(), wv.SequentialMonteCarlo(particles=400),
)  # fmt: skip


@pytest.mark.parametrize(
    ("sampler", "name"),
    in_turn(SAMPLERS, ["csc", "bed", "mapped"]),
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_every_sampler_finds_the_exact_probabilities(sampler, name, tmp_path):
    problem = quiet(form(name, tmp_path), always_include=[12], engine="columns")
    exact = wv.exact(problem).pip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws = 4000 if getattr(sampler, "by_draws", True) else None
        found = wv.sample(problem, sampler, draws=draws, seed=3, progress=False)
    error = np.fmax(found.mcse, 2e-3)  # of variables that hardly move it is known badly, or not at all (NaN)
    assert (np.abs(found.pip - exact) < 6 * error).all()


def test_cached_products_are_the_same_bits():
    """Whole Gram columns are bought for what is often asked for; no answer changes by a bit."""
    counts = RNG.integers(0, 3, size=(1100, 60)).astype(np.int8)
    y = counts[:, :9] @ np.ones(9) + RNG.normal(size=1100)
    target = quiet(wv.Genotypes(counts), y, engine="columns").target(60)
    out = []
    for room in (0, 1 << 20):
        chain = new_chain(target, 60, cache_bytes=room)
        select_forward(target, chain, new_memo(0), 20)
        assert (chain.gram_cache.kept >= 0).sum() == (0 if room == 0 else chain.ints[SIZE] - 1)
        out.append((chain.position.tolist(), chain.floats.tolist(), chain.ints[SIZE]))
    assert out[0] == out[1]
    assert out[0][2] >= 9


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    problem = quiet(form("bed", tmp_path), engine="columns")
    sampler = wv.AddDeleteSwap()
    settings_: dict[str, Any] = {"draws": 3000, "warmup": 200, "seed": 4, "progress": False, "replicates": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = wv.sample(problem, sampler, **settings_)
        half = wv.sample(problem, sampler, **{**settings_, "draws": 1500}, checkpoint=tmp_path / "run")
        longer = wv.extend(half, draws=1500, progress=False)
    assert len(half.pip) == P
    assert (longer.pip == whole.pip).all()


# --- what is left out, and what is refused


@pytest.mark.parametrize("name", FORMS)
def test_constant_and_equal_columns_are_found(name, tmp_path):
    counts = COUNTS.copy()
    counts[:, 2], counts[:, 6], counts[:, 8] = 1, 0, counts[:, 5]
    counts[:, 10] = 2 - counts[:, 1]
    with pytest.warns(wv.DataWarning):
        problem = wv.Problem(form(name, tmp_path, counts), Y, engine="columns", always_include=[13])
    assert problem.excluded == {"x2": "constant", "x6": "constant"}
    assert problem.duplicates == [["x1", "x10"], ["x5", "x8"]]
    counts[:, 9] = 2 - counts[:, 13]
    problem = quiet(form(name, tmp_path, counts), always_include=[13])
    assert problem.excluded["x9"] == "a combination of the always-included columns"


def nearly(name: str, tmp_path: Path) -> Any:
    table = COUNTS.astype(float)
    table[:, 3] = table[:, 0] + 1e-7 * RNG.normal(size=N)
    return sparse.csc_array(table) if name == "csc" else mapped(tmp_path / "x.npy", np.asfortranarray(table))


@pytest.mark.parametrize("name", ["csc", "mapped"])
def test_columns_without_enough_digits_are_refused(name, tmp_path):
    with pytest.raises(wv.DataError, match="'x3' is so nearly a combination of the always-included"):
        wv.Problem(nearly(name, tmp_path), Y, always_include=[0])


def test_sparse_columns_far_from_zero_are_refused():
    table = COUNTS.astype(float)
    table[:, 3] += 1e5
    with pytest.raises(wv.DataError, match=r"'x3' is so nearly constant .* subtract its mean"):
        wv.Problem(sparse.csc_array(table), Y)


def with_nan(column: int = 4, row: int = 8, value: float = np.nan) -> np.ndarray:
    table = np.asfortranarray(COUNTS.astype(float))
    table[row, column] = value
    return table


def truncated(folder: Path) -> Path:
    path = form("bed", folder)
    path.write_bytes(path.read_bytes()[:-7])
    return path


def longer_bim(folder: Path) -> Path:
    path = form("bed", folder)
    bim = path.with_suffix(".bim")
    bim.write_text(bim.read_text() + "1\trs99\t0\t7\tA\tC\n")
    return path


def spoiled_bim(folder: Path) -> Path:
    path = form("bed", folder)
    path.with_suffix(".bim").write_text("1 x 0\n" * P)
    return path


def not_a_bed(folder: Path) -> Path:
    path = form("bed", folder)
    path.write_bytes(b"abc" + path.read_bytes()[3:])
    return path


def without_fam(folder: Path) -> Path:
    path = form("bed", folder)
    path.with_suffix(".fam").unlink()
    return path


def saved(folder: Path, table: np.ndarray) -> Path:
    np.save(folder / "x.npy", table)
    return folder / "x.npy"


def cut(folder: Path) -> Path:
    path = saved(folder, COUNTS.astype(float))
    path.write_bytes(path.read_bytes()[:-100])
    return path


BAD: dict[str, tuple[Any, str]] = {
    "bim": (longer_bim, r"room for 14 variants .*g\.bim has 15 variants and g\.fam 150 people"),
    "truncated": (truncated, r"room for 13\.82 variants, not a whole number.*cut short"),
    "fields": (spoiled_bim, r"g\.bim: line 1 has 3 fields, not 6"),
    "magic": (not_a_bed, "not a PLINK .bed file"),
    "fam": (without_fam, r"there is no file .*g\.fam"),
    "no file": (lambda folder: folder / "none.bed", r"there is no file .*none\.bed"),
    "no npy": (lambda folder: folder / "none.npy", r"there is no file .*none\.npy"),
    "cut npy": (cut, r"x\.npy is not a complete .npy file"),
    "csv": (lambda folder: folder / "x.csv", r"x\.csv, that Problem cannot read by itself"),
    "integers": (lambda folder: saved(folder, COUNTS.astype(np.int32)), "contains int32; mapped files can contain"),
    "text": (lambda folder: saved(folder, np.array([["a", "b"]])), "must be a table of numbers"),
    "one dimension": (lambda folder: saved(folder, np.ones(5)), "with 1 dimensions"),
    "NaN in a map": (
        lambda folder: mapped(folder / "x.npy", with_nan()),
        r"column 'x4' is missing \(NaN\) in row 8",
    ),
    "NaN in CSC": (
        lambda folder: sparse.csc_array(with_nan()),
        r"column 'x4' is missing \(NaN\) in row 8",
    ),
    "infinite in CSR": (
        lambda folder: sparse.csr_matrix(with_nan(value=np.inf)),
        "column 'x4' is infinite in row 8",
    ),
    "complex": (lambda folder: sparse.csc_array(COUNTS * 1j), "complex numbers"),
    "complex map": (lambda folder: mapped(folder / "x.npy", COUNTS * 1j), "complex numbers"),
    "text map": (lambda folder: mapped(folder / "x.npy", COUNTS.astype(str)), "not a number|text"),
    "large": (lambda folder: sparse.csc_array(COUNTS * 1e200), "'x0' is too large to be squared"),
    "large map": (lambda folder: mapped(folder / "x.npy", np.asfortranarray(COUNTS * 1e-200)), "'x0' is too small"),
    "small": (lambda folder: sparse.csc_array(COUNTS * 1e-200), "'x0' is too small to be squared"),
    "empty": (lambda folder: sparse.csc_array((N, 0)), "X is empty"),
    "all constant": (lambda folder: sparse.csc_array((N, 3)), "every candidate column is constant"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::whichvars.DataWarning")
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case, tmp_path):
    make, message = BAD[case]
    with pytest.raises(wv.WhichvarsError, match=message):
        wv.Problem(make(tmp_path), Y)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"values": COUNTS.astype(float)}, "table of int8, not of float64"),
        ({"values": COUNTS[0]}, "with 1 dimensions"),
        ({"values": COUNTS, "names": ["a"]}, "names has 1 entries"),
        ({"values": COUNTS, "names": ["a"] * P}, "'a' more than once"),
        ({"values": COUNTS, "samples": ["a"]}, "samples has 1 entries"),
        (
            {"values": np.array([[0, -127], [1, 2], [2, -9]], np.int8)},
            "'x1' is -9 in row 2, .* A missing one is -127",
        ),
        ({"values": np.array([[0, 1], [-1, 2]], np.int8)}, "'x0' is -1 in row 1"),
        (
            {"values": np.array([[0, np.nan], [0.1, -9]], np.float32)},
            "'x1' is -9 in row 1, .* A missing one is NaN",
        ),
    ],
)
def test_bad_genotypes_are_named(keywords, message):
    with pytest.raises(wv.WhichvarsError, match=message):
        wv.Genotypes(**keywords)


def test_the_default_slab_for_genotypes_is_that_of_small_effects():
    """In Python as on the command line; and it is wider if a variant has a large effect."""
    X = wv.Genotypes(COUNTS)
    noise = np.random.default_rng(8).normal(size=len(COUNTS))
    # chance alone may make an effect of more than a tenth
    assert 0.01 <= wv.Problem(X, noise).slab.g < 0.1
    large = wv.Problem(X, COUNTS[:, 0] + 0.1 * noise)
    assert large.slab.g > 1
    again = wv.Problem(X, COUNTS[:, 0] + 0.1 * noise, slab=large.slab)
    assert large.log_marginal([0]) == again.log_marginal([0])
    assert wv.Problem(COUNTS.astype(float), noise).slab == wv.IndependentNormal(1.0)
    assert wv.Problem(X, noise, slab=wv.IndependentNormal(1.0)).slab == wv.IndependentNormal(1.0)


def test_variants_without_a_name_of_their_own_go_by_their_place(tmp_path):
    sid = ["rs1", ".", "rs3", "rs3", *(f"rs{i}" for i in range(5, P + 1))]
    to_bed(tmp_path / "g.bed", COUNTS, properties={
        "sid": sid, "chromosome": ["2"] * P, "bp_position": list(range(P)), "allele_1": ["A"] * P, "allele_2": ["T"] * P,
        "iid": [f"person{i}" for i in range(N)],
    })  # fmt: skip
    found = wv.read_bed(tmp_path / "g.bed")
    assert found.names[:5] == ["rs1", "2:1:A:T", "2:2:A:T", "2:3:A:T", "rs5"]
    assert found.samples[:2] == ["person0", "person1"]
    assert (found.values == COUNTS).all()
    assert (found[[3, 1]].values == COUNTS[[3, 1]]).all()
    assert found[5:7].samples == ["person5", "person6"]
    problem = wv.Problem(found, Y, always_include="rs1")
    assert problem.names[0] == "2:1:A:T"


def test_a_large_map_by_rows_is_copied_with_a_word_about_it(tmp_path, monkeypatch):
    monkeypatch.setattr("whichvars.problem.stored_columns.BLOCK_BYTES", 8 * N * P - 1)
    X = form("mapped by rows", tmp_path)
    with pytest.warns(wv.DataWarning, match=r"row by row.*asfortranarray"):
        problem = wv.Problem(X, Y, engine="columns")
    assert (problem.target(0).design.stored.double == COUNTS.T).all()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(wv.DataError, match="copy by columns cannot be written"), pytest.warns(wv.DataWarning):
        wv.Problem(X, Y)


@pytest.mark.parametrize("name", ["csc", "mapped", "bed"])
def test_a_few_columns_or_rows_at_a_time_come_to_the_same(name, tmp_path, monkeypatch):
    X = form(name, tmp_path)
    whole = [quiet(X, engine=engine, **SETTINGS["both"]).target(0).design for engine in ("columns", "gram")]
    monkeypatch.setattr("whichvars.problem.stored_columns.BLOCK_BYTES", 8 * N * 3)
    parts = [quiet(X, engine=engine, **SETTINGS["both"]).target(0).design for engine in ("columns", "gram")]
    for one, other in zip(whole, parts):
        close(one.xty, other.xty)
        close(one.diagonal, other.diagonal)
        close(gram_of(one, np.arange(len(one.xty))), gram_of(other, np.arange(len(one.xty))))


def test_sparse_columns_are_copied_and_others_are_not(tmp_path):
    matrix = sparse.csc_array(COUNTS.astype(float))
    problem = quiet(matrix, engine="columns")
    before = log_marginal_of(problem, [2])
    matrix.data[:] = 7
    assert log_marginal_of(problem, [2]) == before
    genotypes = wv.Genotypes(np.asfortranarray(COUNTS))
    assert np.shares_memory(
        quiet(genotypes, engine="columns").target(0).design.stored.small, genotypes.values
    )


def test_predictions_need_the_same_columns(tmp_path):
    problem = quiet(wv.Genotypes(COUNTS, [f"rs{i}" for i in range(P)]))
    posterior = wv.exact(problem)
    with pytest.raises(wv.DataError, match="lacks columns the problem was made with: 'rs0'"):
        posterior.predict(wv.Genotypes(COUNTS))
    with pytest.raises(wv.DataError, match="X has 3 columns"):
        posterior.predict(sparse.csc_array(COUNTS[:, :3]))


def test_too_many_draws_are_refused(monkeypatch):
    monkeypatch.setattr("whichvars.posterior.prediction.DRAWS_BYTES", 16 * P * 100)
    posterior = wv.exact(quiet(sparse.csc_array(COUNTS)))
    assert len(posterior.draw(100, seed=1)) == 100
    with pytest.raises(wv.TooLargeError, match="draw fewer: 100 are possible"):
        posterior.draw(101, seed=1)
