"""Responses that are not Gaussian with columns that stay as they are stored: results are those of the same columns in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import whichvars as wv
from whichvars._kernels.products.stored import NOT_STORED
from whichvars.samplers.surrogates import scanned

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")

N, P = 90, 6
RNG = np.random.default_rng(12)
ALLELES = RNG.integers(0, 3, (N, P)).astype(np.int8)
YES = RNG.random(N) < 1 / (1 + np.exp(-(1.0 * ALLELES[:, 0] - 1.2 * ALLELES[:, 3])))
VISITS = RNG.poisson(np.exp(0.5 * ALLELES[:, 1]))
SOME_ROWS = {"weights": RNG.integers(0, 3, N).astype(float)}  # rows of weight 0 among them
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "independent": (YES, {"family": "logistic"}),
    "weights": (YES, {"family": "logistic", **SOME_ROWS}),
    "always": (VISITS, {"family": "poisson", "always_include": ["x2"], **SOME_ROWS}),
    "g-prior": (YES, {"family": "probit", "slab": wv.GPrior(), "always_include": ["x2"], **SOME_ROWS}),
    "mixture of g": (YES, {"family": "logistic", "slab": wv.HyperGN(), "evidence": "laplace"}),
    "BIC, groups": (VISITS, {"family": "poisson", "slab": wv.BIC(), "groups": {"both": ["x4", "x5"]}}),
}
HYBRID = wv.Hybrid()
NAMES = [f"x{j}" for j in range(P)]


def stored(kind: str, folder: Path, values: np.ndarray) -> Any:
    if kind == "sparse":
        return sparse.csr_array(values.astype(float))
    if kind == "genotypes":
        return wv.Genotypes(values, names=NAMES)
    path = folder / "columns.npy"
    np.save(path, np.asfortranarray(values.astype(np.float32 if kind == "single precision" else np.int8)))
    return path


def short_run(problem: wv.Problem, sampler: Any = HYBRID) -> wv.Posterior:
    return wv.sample(problem, sampler, draws=200, replicates=2, seed=1, progress=False)


@pytest.mark.parametrize("kind", ["sparse", "genotypes", "bytes in a file", "single precision"])
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_the_same_columns_in_memory(case: str, kind: str, tmp_path: Path) -> None:
    y, settings = CASES[case]
    settings = {"slab": wv.IndependentNormal()} | settings  # that of genotypes would be another one
    dense = wv.Problem(ALLELES.astype(float), y, **settings)
    problem = wv.Problem(stored(kind, tmp_path, ALLELES), y, names=NAMES, **settings)
    assert problem.target(0).design.stored.code != NOT_STORED
    assert problem.likelihood().candidates.size == 0
    np.testing.assert_allclose(
        wv.exact(problem, progress=False).pip, wv.exact(dense, progress=False).pip, atol=1e-9
    )
    # the same surrogate too, or chains would go other ways
    np.testing.assert_allclose(short_run(problem).pip, short_run(dense).pip, atol=1e-7)


def test_products_of_a_surrogate_without_its_gram_matrix() -> None:
    y, settings = CASES["always"]
    settings = {"slab": wv.IndependentNormal()} | settings
    targets = [
        scanned(wv.Problem(X, y, engine=engine, names=NAMES, **settings)).target(0)
        for X in (ALLELES.astype(float), sparse.csc_array(ALLELES.astype(float)), wv.Genotypes(ALLELES))
        for engine in ("gram", "columns")
    ]
    gram = targets[0].design.gram
    assert gram.shape == (P - 1, P - 1)
    for target in targets:
        np.testing.assert_allclose(target.design.diagonal[: P - 1], np.diagonal(gram), rtol=1e-9)
        np.testing.assert_allclose(
            target.design.xty[: P - 1], targets[0].design.xty[: P - 1], rtol=1e-7, atol=1e-9
        )
    assert [len(target.design.gram) > 0 for target in targets] == 3 * [True, False]
    for target in targets[2::2]:
        np.testing.assert_allclose(target.design.gram, gram, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("engine", ["gram", "columns"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_both_engines_give_the_same_results(kind: str, engine: str) -> None:
    y, settings = CASES["weights"]
    X = ALLELES.astype(float) if kind == "dense" else sparse.csc_array(ALLELES.astype(float))
    sampler = wv.TemperedGibbs()  # the hybrid's rules depend on what scans cost
    expected = short_run(wv.Problem(ALLELES.astype(float), y, **settings), sampler).pip
    found = short_run(wv.Problem(X, y, engine=engine, **settings), sampler).pip  # type: ignore[arg-type]
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.filterwarnings("ignore::whichvars.DataWarning")
def test_missing_genotypes_are_at_the_mean_of_their_column() -> None:
    holes = ALLELES.copy()
    holes[[3, 17, 40], 0], holes[5, 3] = -127, -127
    filled = ALLELES.astype(float)
    weights = CASES["weights"][1]["weights"]
    for column in (0, 3):
        seen = holes[:, column] != -127
        filled[~seen, column] = np.average(ALLELES[seen, column], weights=weights[seen])
    y, settings = CASES["weights"]
    settings = {"slab": wv.IndependentNormal()} | settings
    problem, dense = wv.Problem(wv.Genotypes(holes), y, **settings), wv.Problem(filled, y, **settings)
    np.testing.assert_allclose(
        wv.exact(problem, progress=False).pip, wv.exact(dense, progress=False).pip, atol=1e-9
    )
    np.testing.assert_allclose(short_run(problem).pip, short_run(dense).pip, atol=1e-7)


def test_a_saved_posterior_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    y, settings = CASES["weights"]
    posterior = short_run(wv.Problem(sparse.csc_array(ALLELES.astype(float)), y, **settings))
    posterior.save(tmp_path / "posterior")
    again = wv.Posterior.load(tmp_path / "posterior")
    np.testing.assert_array_equal(short_run(again.problem).pip, posterior.pip)


def test_fits_share_the_columns_of_the_problem() -> None:
    """No second copy of X is kept."""
    problem = wv.Problem(ALLELES.astype(float), YES, family="logistic")
    assert np.shares_memory(problem.likelihood().candidates, problem.target(0).design.columns)
