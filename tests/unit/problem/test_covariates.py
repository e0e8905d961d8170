"""Columns that are in every model and are given beside X, whatever the form of X."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import whichvars as wv

N, P, Q = 60, 6, 3


def simulated() -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
    """Genotypes that go with the covariates, and a response of both."""
    rng = np.random.default_rng(8)
    Z = pd.DataFrame(rng.normal(size=(N, Q)), columns=["age", "sex", "PC1"])
    Z["sex"] = (Z["sex"] > 0).astype(int)
    G = rng.binomial(2, 1 / (1 + np.exp(-Z[["age"]].to_numpy() + rng.normal(size=(N, P)))))
    return G.astype(np.int8), Z, G[:, 1] * 0.7 + 2 * Z["age"].to_numpy() + rng.normal(size=N)


def forms(folder: Path, G: np.ndarray) -> dict[str, Any]:
    np.save(folder / "G.npy", G.astype(float))
    return {
        "array": G.astype(float),
        "frame": pd.DataFrame(G, columns=[f"rs{i}" for i in range(P)]),
        "genotypes": wv.Genotypes(G),
        "sparse": sparse.csc_array(G.astype(float)),
        "mapped": np.load(folder / "G.npy", mmap_mode="r"),
    }


def together(G: np.ndarray, Z: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([pd.DataFrame(G, columns=[f"rs{i}" for i in range(P)]).astype(float), Z], axis=1)


@pytest.mark.parametrize("form", ["array", "frame", "genotypes", "sparse", "mapped"])
@pytest.mark.parametrize("family", ["gaussian", "logistic"])
@pytest.mark.parametrize("engine", ["gram", "columns"])
def test_the_posterior_is_that_of_always_included_columns(
    form: str, family: str, engine: Any, tmp_path: Path
) -> None:
    G, Z, y = simulated()
    response = y if family == "gaussian" else y > np.median(y)
    if form in ("genotypes", "sparse", "mapped") and engine == "gram":
        engine = "auto"
    whole = together(G, Z)
    expected = wv.exact(
        wv.Problem(whole, response, family=family, always_include=list(Z), engine=engine), progress=False
    )
    X = forms(tmp_path, G)[form]
    slab = wv.IndependentNormal()  # that of genotypes would be another one
    problem = wv.Problem(X, response, family=family, covariates=Z, engine=engine, slab=slab)
    posterior = wv.exact(problem, progress=False)
    assert problem.always_names == list(Z)
    np.testing.assert_allclose(posterior.pip, expected.pip, rtol=1e-7)
    ours, theirs = posterior.coefficients(), expected.coefficients()
    np.testing.assert_allclose(ours.to_numpy(float), theirs.to_numpy(float), rtol=1e-5, atol=1e-8)
    assert list(ours.index[1:4]) == list(Z)
    new = slice(0, 20)
    wanted = expected.predict(whole[new])
    rows = pd.DataFrame(X).iloc[new] if form == "frame" else X[new]
    np.testing.assert_allclose(posterior.predict((rows, Z[new])), wanted, rtol=1e-6)
    np.testing.assert_allclose(posterior.predict((rows, Z[["sex", "PC1", "age"]][new])), wanted, rtol=1e-6)
    np.testing.assert_allclose(posterior.predict((rows, Z.to_numpy()[new])), wanted, rtol=1e-6)
    if form == "frame":
        np.testing.assert_allclose(posterior.predict(whole[new]), wanted, rtol=1e-6)


def test_rows_without_weight_are_left_out_of_covariates_too() -> None:
    G, Z, y = simulated()
    weights = np.ones(N)
    weights[[3, 40]] = 0
    used = weights > 0
    left_out = wv.exact(wv.Problem(G.astype(float), y, covariates=Z, weights=weights), progress=False)
    np.testing.assert_allclose(
        left_out.pip, wv.exact(wv.Problem(G[used].astype(float), y[used], covariates=Z[used]), progress=False).pip
    )  # fmt: skip


def test_beside_columns_of_x_that_are_always_in(tmp_path: Path) -> None:
    G, Z, y = simulated()
    whole = together(G, Z)
    one = wv.exact(wv.Problem(whole, y, always_include=["rs2", *Z]), progress=False)
    two = wv.exact(
        wv.Problem(whole.drop(columns=list(Z)), y, covariates=Z, always_include=["rs2"]), progress=False
    )
    np.testing.assert_allclose(one.pip, two.pip, rtol=1e-9)
    np.testing.assert_allclose(two.predict((whole.drop(columns=list(Z)), Z)), one.predict(whole), rtol=1e-9)
    two.save(tmp_path / "posterior")
    again = wv.Posterior.load(tmp_path / "posterior")
    np.testing.assert_array_equal(
        again.predict((whole.drop(columns=list(Z)), Z)), two.predict((whole.drop(columns=list(Z)), Z))
    )


def test_what_is_refused() -> None:
    G, Z, y = simulated()
    X = together(G, Z).drop(columns=list(Z))
    with pytest.raises(wv.DataError, match="'age': both X and covariates have a column of this name"):
        wv.Problem(X.assign(age=1.0), y, covariates=Z)
    with pytest.raises(wv.DataError, match="covariates"):
        wv.Problem(X, y, covariates=Z[:-1])
    with pytest.raises(wv.DataError, match="covariates"):
        wv.Problem(X.set_index(np.arange(N) + 5), y, covariates=Z.set_index(np.arange(N)[::-1] + 5))
    holes = Z.astype(float)
    holes.loc[4, "age"] = np.nan
    with pytest.raises(wv.DataError, match=r"covariates column 'age'.*row 4"):
        wv.Problem(X, y, covariates=holes)
    with pytest.raises(wv.DataError, match="one-dimensional"):
        wv.Problem(X, y, covariates=Z["age"])
    with pytest.raises(wv.DataError, match="name these in always_include"):
        wv.Problem(wv.SufficientStatistics.from_arrays(X, y), covariates=Z)
    posterior = wv.exact(wv.Problem(X, y, covariates=Z), progress=False)
    with pytest.raises(wv.DataError, match=r"lacks columns.*'age'.*give \(X, covariates\)"):
        posterior.predict(X)
    with pytest.raises(wv.DataError, match="covariates lacks columns the problem was made with: 'sex'"):
        posterior.predict((X, Z.drop(columns="sex")))
    with pytest.raises(wv.DataError, match="60 rows but covariates has 59"):
        posterior.predict((X, Z[1:]))
    by_position = wv.exact(wv.Problem(X.to_numpy(), y, covariates=Z.to_numpy()), progress=False)
    assert by_position.problem.always_names == ["covariate0", "covariate1", "covariate2"]
    with pytest.raises(wv.DataError, match="covariates has 2 columns but the problem was made with 3"):
        by_position.predict((X.to_numpy(), Z.to_numpy()[:, :2]))
    with pytest.raises(wv.DataError, match=r"made with 6 and covariates; give \(X, covariates\)"):
        by_position.predict(X.to_numpy())


def test_sampled_and_without_covariates_nothing_changes() -> None:
    G, Z, y = simulated()
    problem = wv.Problem(wv.Genotypes(G), y, covariates=Z)
    exact = wv.exact(problem, progress=False)
    sampled = wv.sample(problem, wv.AddDeleteSwap(), draws=20_000, seed=3, progress=False)
    assert np.abs((sampled.pip - exact.pip) / sampled.mcse).max() < 4.5
    none = wv.Problem(G.astype(float), y)
    assert none.covariate_names == []
    # age is behind both: without it, what goes with it looks as if it mattered
    assert wv.exact(none, progress=False).pip.max() > exact.pip[[0, 2, 3, 4, 5]].max()


@pytest.mark.parametrize("powers", [16, 50])
@pytest.mark.parametrize("stored", [False, True])
def test_fifty_powers_of_one_covariate(powers: int, stored: bool) -> None:
    """Each differs from combinations of those before it, and together they are collinear: predictions must not be noise."""
    rng = np.random.default_rng(1)
    u = rng.uniform(size=200)
    Z = np.column_stack([u**k for k in range(1, powers + 1)])
    g = rng.binomial(2, 0.3, (200, 1)).astype(np.int8)
    y = 5 * g[:, 0] + u + 0.01 * rng.normal(size=200)
    X = wv.Genotypes(g) if stored else g.astype(float)
    problem = wv.Problem(X, y, covariates=Z)
    # as many columns have coefficients as degrees of freedom were spent
    assert len(problem.flat.z_index) == 200 - problem.nu - 1
    posterior = wv.exact(problem, progress=False)
    assert posterior.pip[0] > 0.999
    assert np.abs(posterior.predict((X, Z)) - y).max() < 0.1


def test_rows_of_genotypes_have_the_names_of_people() -> None:
    """Tables in another order than the genotypes are refused; without names on one side, rows match by position."""
    people = [f"p{i}" for i in range(N)]
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 3, size=(N, 4)).astype(np.int8)
    G = wv.Genotypes(counts, samples=people)
    Z = pd.DataFrame({"age": rng.normal(size=N)}, index=people)
    y = pd.Series(counts[:, 1] + rng.normal(size=N), index=people)
    order = rng.permutation(N)
    with pytest.raises(wv.DataError, match=r"covariates has the rows of X in another order.*X\.index"):
        wv.Problem(G, y, covariates=Z.iloc[order])
    with pytest.raises(wv.DataError, match="y has the rows of X in another order"):
        wv.Problem(G, y.iloc[order])
    with pytest.raises(wv.DataError, match="covariates has the rows of X in another order"):
        wv.sample_many(G, y.to_frame(), covariates=Z.iloc[order])
    want = wv.exact(wv.Problem(counts.astype(float), y.to_numpy(), covariates=Z.to_numpy())).pip
    mixed = Z.iloc[order].loc[G.index], y.iloc[order].loc[G.index]
    slab = wv.IndependentNormal()
    by_name = wv.Problem(G, mixed[1], covariates=mixed[0], slab=slab)
    assert wv.exact(by_name).pip == pytest.approx(want, abs=1e-12)
    # some of the rows and columns keep the names; genotypes without names have none
    some = G[order[:9]].take([0, 2])
    assert some.index.tolist() == some.samples == [people[i] for i in order[:9]]
    plain = wv.Genotypes(counts)
    assert isinstance(plain[order].take([1]).index, pd.RangeIndex)
    by_place = wv.Problem(plain, y, covariates=Z, slab=slab)
    assert wv.exact(by_place).pip == pytest.approx(want, abs=1e-12)


def test_words_among_covariates_are_an_error_that_says_how_to_make_numbers_of_them() -> None:
    _, Z, y = simulated()
    words = Z.assign(sex=np.where(Z["sex"] > 0, "M", "F"))
    with pytest.raises(
        wv.ArgumentTypeError, match=r"covariates column 'sex' contains text.*get_dummies\(covariates"
    ):
        wv.Problem(np.arange(2.0 * N).reshape(N, 2) % 7, y, covariates=words)
