"""Whatever is put in, there comes a probability or a message: never a crash, a warning of NumPy's, or a number
that is none."""

from __future__ import annotations

import gzip
import html
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import whichvars as wv
from whichvars.data.files import read_table
from whichvars.errors import WhichvarsError

QUICK = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
SLABS = [
    wv.IndependentNormal(1.0), wv.GPrior("n"), wv.HyperG(), wv.ZellnerSiow(), wv.LocalEmpiricalBayes(), wv.BIC(),
]  # fmt: skip
KINDS = ["f8", "f4", "i1", "i4", "i8", "u1", "u8", "?", "O", ">f8", "f2"]


def answer(X: Any, y: Any, **options: Any) -> wv.Posterior | None:
    """The exact posterior, or None where a message was all there was; anything else is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        try:
            posterior = wv.exact(wv.Problem(X, y, **options))
        except WhichvarsError as error:
            said(error)
            return None
    check(posterior)
    return posterior


def said(error: Exception) -> None:
    assert len(str(error)) > 10


def check(posterior: wv.Posterior) -> None:
    """Every number is one, or is said not to be known."""
    assert np.isfinite(posterior.pip).all()
    assert (posterior.pip >= 0).all()
    assert (posterior.pip <= 1 + 1e-12).all()
    assert posterior.sizes.sum() == pytest.approx(1)
    assert posterior.sizes @ np.arange(len(posterior.sizes)) == pytest.approx(posterior.pip.sum(), abs=1e-9)
    frame = posterior.coefficients(interval=None)
    assert np.isfinite(frame["mean"]).all()
    assert (frame["sd"] >= 0).all()  # infinite with 2 degrees of freedom, as that of a t distribution is


# --- arrays of all kinds


@st.composite
def arrays(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Few rows and columns of any kind, in any order, with anything in them."""
    n, p = draw(st.integers(0, 7)), draw(st.integers(0, 3))
    kind = np.dtype(draw(st.sampled_from(KINDS)))
    special = [0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, 1e150, -1e-150, 1e300, 5e-324, 3.0]
    numbers = st.one_of(st.integers(-3, 3).map(float), st.sampled_from(special), st.floats(-10, 10))
    if not draw(st.booleans()):  # mostly without what is refused anyway
        numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-10, 10))
    values = draw(hnp.arrays(np.float64, (n, p), elements=numbers))
    y = draw(hnp.arrays(np.float64, (n,), elements=numbers))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = values.astype(object if kind.kind == "O" else kind)
    layout = draw(st.sampled_from(["C", "F", "strided", "backwards", "read-only"]))
    if layout == "F":
        X = np.asfortranarray(X)
    elif layout == "strided":
        X = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    elif layout == "backwards":
        X, y = X[::-1, ::-1], y[::-1]
    elif layout == "read-only":
        X.setflags(write=False)
    return X, y


@QUICK
@given(arrays(), st.sampled_from(SLABS))
def test_any_small_array(data: tuple[np.ndarray, np.ndarray], slab: Any) -> None:
    X, y = data
    answer(X, y, slab=slab)


@QUICK
@given(arrays())
def test_any_small_array_in_a_selector(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        try:
            found = wv.VariableSelector(sampler="exact").fit(X, y)
        except (ValueError, TypeError) as error:  # scikit-learn's own, or ours
            said(error)
            return
        assert np.isfinite(found.predict(X)).all()
        assert np.isfinite(found.inclusion_probabilities_).all()


@pytest.mark.parametrize(
    "layout", ["C", "F", "strided", "backwards", "float32", "int", "big-endian", "frame"]
)
def test_layouts_change_nothing(layout: str) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.integers(-8, 8, (12, 3)).astype(float), rng.normal(size=12)
    forms = {
        "C": X, "F": np.asfortranarray(X), "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "backwards": X[::-1].copy()[::-1], "float32": X.astype("f4"), "int": X.astype("i8"), "big-endian": X.astype(">f8"),
        "frame": pd.DataFrame(X),
    }  # fmt: skip
    a, b = wv.exact(wv.Problem(X, y)), wv.exact(wv.Problem(forms[layout], y))
    assert a.pip.tobytes() == b.pip.tobytes()


# --- sizes and scales


@QUICK
@given(st.integers(-500, 500), st.integers(-500, 500), st.sampled_from(SLABS), st.integers(0, 5))
def test_units_do_not_matter(x_power: int, y_power: int, slab: Any, seed: int) -> None:
    """10^±150: columns and response in other units, by powers of two, which are exact."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(9, 2)), rng.normal(size=9)
    scaled = answer(np.ldexp(X, [x_power, -x_power]), np.ldexp(y, y_power), slab=slab)
    plain = answer(X, y, slab=slab)
    assert scaled is not None
    assert plain is not None
    np.testing.assert_allclose(scaled.pip, plain.pip, rtol=1e-9, atol=1e-12)


@QUICK
@given(st.floats(1e-18, 1e-2), st.sampled_from(SLABS), st.booleans())
def test_columns_that_nearly_say_the_same(distance: float, slab: Any, fits: bool) -> None:
    """Near-collinear columns; with y a function of them as well."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=10)
    X = np.column_stack([x, x + distance * rng.normal(size=10), rng.normal(size=10)])
    answer(X, x - X[:, 2] if fits else rng.normal(size=10), slab=slab)


@QUICK
@given(
    st.integers(3, 6),
    st.integers(1, 12),
    st.sampled_from(SLABS),
    st.sampled_from(["noise", "fits", "constant"]),
)
def test_few_rows_and_many_columns(n: int, p: int, slab: Any, what: str) -> None:
    """p = 1, p ≫ n, and y perfectly fitted: S → 0."""
    rng = np.random.default_rng(n * 100 + p)
    X = rng.normal(size=(n, p))
    y = {"noise": rng.normal(size=n), "fits": 2 * X[:, 0] + 1, "constant": np.ones(n)}[what]
    posterior = answer(X, y, slab=slab)
    assert (posterior is None) or what != "constant"


def test_perfect_fits_and_breakdowns_are_reported() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 4))
    with pytest.warns(wv.ConvergenceWarning, match="fit y perfectly"):
        posterior = wv.sample(
            wv.Problem(X, X[:, 0] - X[:, 1], slab=wv.BIC()),
            wv.AddDeleteSwap(),
            draws=500,
            replicates=2,
            progress=False,
        )
    assert posterior.troubles["perfect_fits"] > 0
    assert np.isfinite(posterior.pip).all()


PARTICLES = wv.SequentialMonteCarlo(particles=100, steps=4)


@pytest.mark.parametrize(
    ("sampler", "options"),
    [("exact", {}), (wv.AddDeleteSwap(), {"draws": 2000}), (wv.Hybrid(chains=2), {"draws": 2000}), (PARTICLES, {})],
    ids=["exact", "add-delete-swap", "hybrid", "smc"],
)  # fmt: skip
def test_a_pivot_that_is_not_positive_is_counted_reported_and_given_no_mass(
    sampler: Any, options: Any
) -> None:
    """The same column twice, so large that the ridge is lost in rounding: nobody knows the mass of models with both."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 4))
    y = x[:, 0] + 0.01 * rng.normal(size=30)
    with pytest.warns(wv.DataWarning, match="perfectly correlated"):
        problem = wv.Problem(
            np.column_stack([x, x[:, 0]]) * 1e9, y, scale="none", slab=wv.IndependentNormal(1.0)
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = (
            wv.exact(problem)
            if sampler == "exact"
            else wv.sample(problem, sampler, **options, replicates=2, progress=False)
        )
    assert any("could not be factorised to working precision" in str(w.message) for w in caught)
    assert posterior.troubles["breakdowns"] > 0
    assert posterior.probability_all(["x0", "x4"]) == 0
    assert posterior.pip[[0, 4]].sum() == pytest.approx(1, abs=1e-6)
    assert "given no mass" in posterior.explain()
    if sampler == "exact":
        assert posterior.troubles["breakdowns"] == 8  # of 32 models, those with both


def test_many_rows_do_not_overflow() -> None:
    """n = 10⁵ of small integers, whose sums of squares pass 2³¹ and, as int8, 127."""
    rng = np.random.default_rng(0)
    X = rng.integers(-127, 127, (100_000, 2), dtype=np.int8)
    y = X[:, 0].astype(np.int32) * 300
    a = wv.exact(wv.Problem(X, y + 0.1 * np.arange(100_000)))
    b = wv.exact(wv.Problem(X.astype(float), y + 0.1 * np.arange(100_000)))
    assert a.pip.tobytes() == b.pip.tobytes()
    assert a.pip[0] > 0.999


# --- names


NAMES = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["<script>alert(1)</script>", "=1+1", "+cmd|' /C calc'!A0", "-2", "@x", "a,b", 'q"q', "\x1b[31m", "a\nb", "", "y", "&amp;"]
)  # fmt: skip


@QUICK
@given(st.lists(NAMES, min_size=3, max_size=3))
def test_any_names(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    """Repeated ones are refused by name; all others come back as they were, and no table of ours holds a formula."""
    from whichvars.cli.runs import to_csv

    rng = np.random.default_rng(0)
    X, y = pd.DataFrame(rng.normal(size=(8, 3)), columns=names), rng.normal(size=8)
    posterior = answer(X, y)
    if posterior is None:
        assert len(set(names)) < 3 or not all(name.strip() for name in names)
        return
    assert posterior.problem.names == names
    for frame in (posterior.summary().reset_index(), posterior.top_models(3).reset_index()):
        for line in pd.read_csv(
            pd.io.common.StringIO(to_csv(frame)), dtype=str, keep_default_na=False
        ).itertuples():
            for cell in line[1:]:
                safe = not cell.startswith(("=", "+", "@", "\t", "\r")) and not (
                    cell.startswith("-") and not is_number(cell)
                )
                assert safe, cell


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_names_are_escaped_in_html() -> None:
    rng = np.random.default_rng(0)
    bad = "<img src=x onerror=alert(1)>"
    X = pd.DataFrame(rng.normal(size=(8, 2)), columns=[bad, "<b>"])
    posterior = wv.exact(wv.Problem(X, X[bad] + 0.01 * rng.normal(size=8)))
    page = posterior._repr_html_()
    assert bad not in page
    assert html.escape(bad) in page


# --- files


TABLE = "y,x,g,z\n" + "".join(f"{i * 7 % 5}.5,{i},{'uvw'[i % 3]},{i * i % 11}\n" for i in range(14))


def test_a_gzip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whichvars.data.files.LARGEST_GZIP", 1000)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"x,y\n" + b"0,0\n" * 1_000_000))
    with pytest.raises(WhichvarsError, match="unpacks to over"):
        read_table(path)


def test_lines_that_end_as_on_old_machines(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_bytes(TABLE.replace("\n", "\r").encode())
    assert read_table(path).frame.shape == (14, 4)
