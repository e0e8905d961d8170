"""The one-flip scan against one-by-one marginal likelihoods, the chain's own and the oracle's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import whichvars as wv
from support.cases import PRIORS, SLABS, Case, data, priors, problem, truth
from support.in_turn import in_turn
from support.kernels import propose_flips
from whichvars._kernels.chain import (
    BREAKDOWNS,
    EVALUATIONS,
    INVERSE_TEMPERATURE,
    PERFECT,
    SIZE,
    VALID,
    Chain,
    new_chain,
)
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.evaluate import set_model
from whichvars._kernels.inverse import BEHIND, ROWS, STATE
from whichvars._kernels.scan.scan import scan_model, tempered_scan_model
from whichvars._kernels.scan.scan_work import BLOCK_COLUMNS, Scan, new_scan
from whichvars._kernels.target import Target

TESTS = Path(__file__).resolve().parents[2]
ENGINES = ("gram", "columns")
WIDTHS = (1, 3, 1, 2, 1, 1)
NO_MEMO = new_memo(0)


class Setting:
    """A problem with a chain and room for scans, moved from model to model."""

    def __init__(self, problem: wv.Problem) -> None:
        self.p = problem.p
        widest = int(np.diff(problem.offsets).max())
        self.n_columns = int(problem.offsets[-1])
        self.target: Target = problem.target(self.n_columns)
        self.chain: Chain = new_chain(self.target, self.n_columns + widest)
        self.work: Scan = new_scan(self.target, self.n_columns)

    def go_to(self, members: Any) -> bool:
        """False where the model has no mass."""
        model = np.array(members, np.int64)
        return bool(set_model(self.target, self.chain, NO_MEMO, model, len(model)))

    def scan(self) -> np.ndarray:
        self.work.log_odds[:] = np.nan
        assert scan_model(self.target, self.chain, self.work) == 0
        return self.work.log_odds.copy()

    def tempered_scan(self) -> np.ndarray:
        self.work.log_odds[:] = np.nan
        assert tempered_scan_model(self.target, self.chain, self.work) == 0
        return self.work.log_odds.copy()

    def one_by_one(self) -> np.ndarray:
        """The same from p evaluations, all of them by factors."""
        ratios = []
        for j in range(self.p):
            self.chain.inverse.ints[[ROWS, STATE]] = 0, BEHIND
            ratios.append(propose_flips(self.target, self.chain, NO_MEMO, np.array([j], np.int64)))
        return np.where(self.chain.position >= 0, -1.0, 1.0) * ratios


def assert_close(found: np.ndarray, expected: np.ndarray, tolerance: float, note: Any = "") -> None:
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite], err_msg=str(note))
    np.testing.assert_allclose(found[finite], expected[finite], rtol=0, atol=tolerance, err_msg=str(note))


def models(p: int, count: int, seed: int) -> list[np.ndarray]:
    """The null, the full and random models of every size, each in a random order."""
    rng = np.random.default_rng(seed)
    sizes = [*range(p + 1), *rng.integers(0, p + 1, size=count)]
    return [rng.permutation(p)[:size] for size in sizes]


def build(X: np.ndarray, y: np.ndarray, slab: Any, **options: Any) -> wv.Problem:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.DataWarning)  # duplicates are meant
        return wv.Problem(X, y, slab=slab, **options)


@cache
def setting(case: Case) -> Setting:
    return Setting(problem(case))


@cache
def grouped(slab: str, prior: str, engine: str) -> Setting:
    """Variables of one, two and three columns in either engine."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(24, sum(WIDTHS))) + rng.normal(size=(24, 1))
    labels = [f"v{j}" for j, width in enumerate(WIDTHS) for _ in range(width)]
    model_prior, _, max_size = priors(len(WIDTHS))[prior]
    options = {"model_prior": model_prior, "max_size": max_size, "groups": labels, "engine": engine}
    return Setting(build(X, X[:, 0] - X[:, 2] + rng.normal(size=24), SLABS[slab][0], **options))


NEAR = {
    "1 - 1e-7": 1e-7,
    "1 - 1e-9": 1e-9,
    "above the tolerance": 0.7e-10,
    "at it": 0.5e-10,
    "below it": 0.3e-10,
    "duplicate": 0.0,
}


@cache
def near_singular(slab: str, engine: str, near: str, groups: bool, perfect: bool) -> Setting:
    """Six columns, and six that are each correlated 1 − NEAR[near] with one of them; `perfect`: y is a
    combination of columns, to rounding or to 1e-5."""
    rng = np.random.default_rng(list(NEAR).index(near))
    n = 30
    first = rng.normal(size=(n, 12))
    first -= first.mean(axis=0)
    basis = np.linalg.qr(first)[0]
    mixed = basis[:, :6] @ (np.eye(6) + 0.3 * rng.normal(size=(6, 6)))
    mixed /= np.linalg.norm(mixed, axis=0)
    r = 1.0 - NEAR[near]
    other = r * mixed + np.sqrt((1 - r) * (1 + r)) * basis[:, 6:12]
    X = np.hstack([mixed, other])
    noise = rng.normal(size=n) * (1e-5 if slab != "g" else 0.0) if perfect else rng.normal(size=n) / 5
    y = X[:, 0] - X[:, 8] + noise
    labels = [f"v{j}" for j in ([0, 0, 1, 2, 3, 4, 5, 6, 6, 7, 8, 9] if groups else range(12))]
    order = rng.permutation(12)
    return Setting(build(X[:, order], y, SLABS[slab][0], groups=labels, engine=engine))


@pytest.mark.parametrize(("slab", "prior"), in_turn(SLABS, PRIORS))
def test_against_one_by_one(slab, prior):
    for name in ("plain", "duplicate", "groups", "wide", "columns", "unscaled"):
        s = setting(Case(name, slab, prior))
        visited = set()
        for model in models(s.p, 60, 1):
            if s.go_to(model):
                visited.add(len(model))
                assert_close(s.scan(), s.one_by_one(), 1e-10, (name, model))
        assert len(visited) >= 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("slab", SLABS)
def test_groups_in_both_engines(slab, engine):
    for prior in PRIORS:
        s = grouped(slab, prior, engine)
        other = grouped(slab, prior, "gram")
        for model in models(s.p, 40, 2):
            if s.go_to(model):
                found = s.scan()
                assert_close(found, s.one_by_one(), 1e-10, model)
                assert other.go_to(model)
                assert_close(found, other.scan(), 1e-10, model)


@pytest.mark.parametrize("slab", ["g", "zellner-siow", "bic", "independent"])
def test_groups_that_do_not_fit_into_the_rows(slab):
    """Eight rows, so ν − 1 = 6 columns under the R² family: a group of two has no place beside five."""
    rng = np.random.default_rng(13)
    X = rng.normal(size=(8, sum(WIDTHS)))
    labels = [f"v{j}" for j, width in enumerate(WIDTHS) for _ in range(width)]
    s = Setting(build(X, rng.normal(size=8), SLABS[slab][0], groups=labels))
    for model in ([1, 0, 2], [1, 4, 5], [0, 2, 4, 3], *models(s.p, 20, 14)):
        if s.go_to(model):
            assert_close(s.scan(), s.one_by_one(), 1e-10, model)
    assert s.go_to([1, 0, 2])
    assert np.isfinite(s.scan()[[3, 4, 5]]).tolist() == [slab == "independent", True, True]


ORACLE_CASES = [
    *(Case(name, slab, PRIORS[i % 5]) for name in ("plain", "groups") for i, slab in enumerate(SLABS)),
    *(Case("plain", "independent", prior) for prior in PRIORS),
    *(Case("wide", slab, "fixed") for slab in ("independent", "g", "bic")),
    *(Case("duplicate", slab, "max-size") for slab in ("independent", "g", "eb-local")),
    *(
        Case(name, "independent", "per-variable")
        for name in ("columns", "always", "weights", "inverse-gamma")
    ),
    *(
        Case(name, "g", "beta-binomial-max-size")
        for name in ("columns", "always", "weights", "inverse-gamma")
    ),
    Case("unscaled", "independent", "beta-binomial"),
    *(
        Case("known-variance", slab, PRIORS[i])
        for i, slab in enumerate(("independent", "g", "eb-local", "bic"))
    ),
]


@pytest.mark.parametrize("case", ORACLE_CASES, ids=lambda case: case.id)
def test_against_the_oracle(case):
    s, exact = setting(case), truth(case)
    possible = exact.probabilities > 0
    joint = np.where(possible, exact.log_priors + exact.log_marginals, -np.inf)
    bits = 1 << np.arange(s.p)
    for i in np.flatnonzero(possible):
        assert s.go_to(np.flatnonzero(exact.masks[i]))
        assert_close(s.scan(), joint[i | bits] - joint[i & ~bits], 1e-8, exact.masks[i])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    slab=st.sampled_from(list(SLABS)),
    engine=st.sampled_from(ENGINES),
    near=st.sampled_from(list(NEAR)),
    groups=st.booleans(),
    perfect=st.booleans(),
    data=st.data(),
)
def test_near_singular_models(slab, engine, near, groups, perfect, data):
    s = near_singular(slab, engine, near, groups, perfect)
    order = data.draw(st.permutations(range(s.p)))
    size = data.draw(st.integers(0, s.p))
    assert s.go_to([])
    for model in (order[:size], order[: size // 2], order[size // 2 :], order):
        if s.go_to(model):
            assert_close(s.scan(), s.one_by_one(), 1e-10, model)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("slab", ["g", "zellner-siow", "bic"])
def test_every_kind_of_near_singular_pair(slab, engine):
    """Pairs with tolerances on both sides of the smallest one: evaluate says what has no mass."""
    without_mass, close_to_it = 0, 0
    for near in NEAR:
        s = near_singular(slab, engine, near, False, False)
        for model in models(s.p, 40, 3):
            if s.go_to(model):
                found = s.scan()
                assert_close(found, s.one_by_one(), 1e-10, (near, model))
                without_mass += int(np.isinf(found).sum())
                close_to_it += near in ("above the tolerance", "at it") and len(model) > 6
    assert without_mass > 50
    assert close_to_it > 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("copies", [1, 5])
@pytest.mark.parametrize(("epsilon", "has_mass"), [(0.6e-5, False), (2e-5, True)])
def test_an_innocent_column_that_makes_another_one_deficient(engine, groups, copies, epsilon, has_mass):
    """b = a + 1e-4·c + epsilon·e: the pivot of c given a and b is far from zero, that of b given a and c is
    epsilon²."""
    rng = np.random.default_rng(12)
    draws = rng.normal(size=(50, 36))
    basis = np.linalg.qr(draws - draws.mean(axis=0))[0]
    a, c, e = basis[:, 0], basis[:, 1], basis[:, 2]
    b = a + 1e-4 * c + epsilon * e
    near_c = c[:, None] + 0.02 * basis[:, 3 : 3 + copies] * (np.arange(copies) > 0)
    others = 28 if copies == 1 else 7  # few or many of the columns are in doubt
    X = np.column_stack([a, b, near_c, basis[:, 8 : 8 + others]])
    labels = ["a", "b", *(f"c{i}" for i in range(copies)), *(f"d{i}" for i in range(others))]
    if groups:
        labels[-copies:] = labels[2 : 2 + copies]  # each c with a column of its own
    s = Setting(build(X, a + c + rng.normal(size=50) / 5, wv.GPrior(30.0), groups=labels, engine=engine))
    for model in ([0, 1], [1, 0], [1, s.p - 1, 0]):
        assert s.go_to(model)
        found = s.scan()
        assert_close(found, s.one_by_one(), 1e-10, model)
        if s.p - 1 not in model or not groups:
            assert np.isfinite(found[2]) == has_mass
    if has_mass:
        assert s.go_to([1, 2, 0])
        assert_close(s.scan(), s.one_by_one(), 1e-10)


@pytest.mark.parametrize("slab", ["independent", "bic", "eb-local"])
def test_perfect_fits_stay_at_the_floor(slab):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(15, 5))
    s = Setting(
        build(X, X[:, 0] + X[:, 3], wv.IndependentNormal(1e15) if slab == "independent" else SLABS[slab][0])
    )
    for model in models(5, 30, 4):
        assert s.go_to(model)
        assert_close(s.scan(), s.one_by_one(), 1e-10, model)
    assert s.chain.ints[PERFECT] > 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("nu_is_whole", [True, False])
def test_many_columns(engine, nu_is_whole):
    """More columns than a block, groups across its border, a last block cut short; ν whole or not."""
    rng = np.random.default_rng(9)
    n, columns = 150, 2 * BLOCK_COLUMNS + 30
    X = rng.normal(size=(n, columns)) + 0.5 * rng.normal(size=(n, 1))
    labels = np.arange(columns)
    labels[BLOCK_COLUMNS - 1] = labels[BLOCK_COLUMNS] = labels[BLOCK_COLUMNS + 1] = BLOCK_COLUMNS - 1
    labels[3:10] = 3
    y = X[:, :4] @ [1.0, -1.0, 1.0, 1.0] + rng.normal(size=n)
    noise = wv.InverseGamma(1.0 if nu_is_whole else 0.3, 1.0)
    groups = [f"v{label}" for label in labels]
    s = Setting(build(X, y, wv.IndependentNormal(4.0), engine=engine, groups=groups, noise=noise))
    for size in (0, 1, 9, 60):
        assert s.go_to(rng.permutation(s.p)[:size])
        assert_close(s.scan(), s.one_by_one(), 1e-10)


def test_the_gram_engine_keeps_z():
    X, y = data("plain").X, data("plain").y
    s = Setting(build(X, y, wv.IndependentNormal(2.0), engine="gram"))
    members = [5, 0, 3]
    assert s.go_to(members)
    s.scan()
    gram = s.target.design.gram
    lower = np.linalg.cholesky(gram[np.ix_(members, members)] + np.eye(3) / 2.0)
    np.testing.assert_allclose(
        s.work.z[:3, : s.p], np.linalg.solve(lower, gram[members]), rtol=1e-10, atol=1e-10
    )


def test_a_very_large_nu():
    """(S⁺/S)^ν underflows."""
    rng = np.random.default_rng(10)
    for n in (3_000, 5_000):
        X = rng.normal(size=(n, 3))
        s = Setting(build(X, X @ [1.0, 1.0, 1e-3] + 0.01 * rng.normal(size=n), wv.IndependentNormal(1.0)))
        for model in ([], [0], [1], [1, 0], [2, 0]):
            assert s.go_to(model)
            found = s.scan()
            assert np.isfinite(found).all()
            assert_close(found, s.one_by_one(), 1e-10 * np.abs(found).max(), model)


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("slab", ["independent", "g", "zellner-siow"])
def test_tempered(slab, t):
    for name in ("duplicate", "groups"):
        s = Setting(problem(Case(name, slab, "beta-binomial-max-size")))
        s.chain.floats[INVERSE_TEMPERATURE] = t
        for model in models(s.p, 30, 6):
            if s.go_to(model):
                found = s.tempered_scan()
                assert_close(found, s.one_by_one(), 1e-10, model)
                if t == 1.0:
                    np.testing.assert_array_equal(found, s.scan())


def test_the_plain_scan_knows_no_temperature():
    s = Setting(problem(Case("plain", "g", "fixed")))
    assert s.go_to([1, 4])
    before = s.scan()
    s.chain.floats[INVERSE_TEMPERATURE] = 0.5
    np.testing.assert_array_equal(s.scan(), before)
    assert np.abs(s.tempered_scan() - before).max() > 0.1


@pytest.mark.parametrize("slab", ["independent", "hyper-g"])
def test_too_little_room(slab):
    """Asks for what it needs and touches nothing; what it asked for is enough."""
    target = problem(Case("growing", slab, "fixed")).target(18)
    chain = new_chain(target, 18, cache_bytes=0)
    assert set_model(target, chain, NO_MEMO, np.array([2, 0, 5]), 3)
    work = new_scan(target, 12)
    work.log_odds[:] = 7.0
    assert scan_model(target, chain, work) == 24
    assert (work.log_odds == 7.0).all()

    target = problem(Case("growing", slab, "fixed")).target(24)
    work = new_scan(target, 24)
    assert scan_model(target, chain, work) == 0
    s = setting(Case("growing", slab, "fixed"))
    assert s.go_to([2, 0, 5])
    assert_close(work.log_odds, s.one_by_one(), 1e-10)


def test_a_table_too_short_is_not_read_past_its_end():
    fresh = Setting(build(data("plain").X, data("plain").y, wv.HyperG()))
    short = fresh.target._replace(slab=fresh.target.slab._replace(table=fresh.target.slab.table[:3].copy()))
    assert fresh.go_to([0])
    assert scan_model(short, fresh.chain, fresh.work) == 0
    assert fresh.go_to([0, 1])
    assert scan_model(short, fresh.chain, fresh.work) == 3


@pytest.mark.parametrize("slab", ["independent", "g"])
def test_the_chain_is_left_as_it_was(slab):
    """Model, values and counters stay, and so do the bits of what is evaluated afterwards."""
    touched, alone = (Setting(problem(Case("groups", slab, "fixed"))) for _ in range(2))
    for model in models(touched.p, 20, 7):
        for s in (touched, alone):
            assert s.go_to(model)
        before = touched.chain.ints[[SIZE, EVALUATIONS, PERFECT, BREAKDOWNS]].copy()
        touched.scan()
        np.testing.assert_array_equal(touched.chain.ints[[SIZE, EVALUATIONS, PERFECT, BREAKDOWNS]], before)
        np.testing.assert_array_equal(touched.chain.floats, alone.chain.floats)
        np.testing.assert_array_equal(touched.chain.keys, alone.chain.keys)
        np.testing.assert_array_equal(touched.one_by_one(), alone.one_by_one())


def test_a_factor_lost_to_rounding():
    """Where the current model cannot be factored again, the answers are those of evaluate."""
    s = Setting(problem(Case("plain", "g", "fixed")))
    assert s.go_to([1, 4, 2, 6])
    column = s.chain.slot[2]
    s.chain.products[column] *= 40.0  # no longer positive definite, as if rounding had made it so
    s.chain.ints[VALID] = 0
    counters = s.chain.ints.copy()
    found = s.scan()
    np.testing.assert_array_equal(
        s.chain.ints[[EVALUATIONS, BREAKDOWNS]], counters[[EVALUATIONS, BREAKDOWNS]]
    )
    expected = s.one_by_one()
    assert_close(found, expected, 1e-10)
    assert (found[[0, 3, 5]] == -np.inf).all()
    assert np.isfinite(found[2])
    assert found[6] == np.inf


@pytest.mark.parametrize(
    ("prior", "slab", "name"),
    in_turn(PRIORS, ["independent", "g", "hyper-g/n"], ["three-heredity", "heredity", "heredity-groups"]),
)
def test_heredity(name, slab, prior):
    """At every model that is allowed: the oracle's, forbidden flips too."""
    case = Case(name, slab, prior)
    s, oracle = setting(case), truth(case)
    value = np.where(oracle.probabilities > 0, oracle.log_priors + oracle.log_marginals, -np.inf)
    for index in np.flatnonzero(oracle.probabilities > 0):
        model = np.random.default_rng(index).permutation(np.flatnonzero(oracle.masks[index]))
        assert s.go_to(model)
        found = s.scan()
        assert_close(found, s.one_by_one(), 1e-10, model)
        bits = 1 << np.arange(s.p)
        assert_close(found, value[index | bits] - value[index & ~bits], 1e-8, model)
        assert (found == np.inf).sum() == sum(
            bool(value[index ^ bit] == -np.inf) for bit in bits[oracle.masks[index]]
        )


# --- the same bits without the JIT


def print_bits() -> None:
    out = {}
    settings_by_name = {"columns": setting(Case("columns", "independent", "max-size"))}
    for prior in ("per-variable", "beta-binomial"):
        settings_by_name[f"heredity {prior}"] = setting(Case("heredity", "independent", prior))
    for slab in SLABS:
        for engine in ENGINES:
            settings_by_name[f"{slab} {engine}"] = grouped(slab, "beta-binomial", engine)
    for slab in ("g", "independent"):
        for near in NEAR:
            settings_by_name[f"{slab} {near}"] = near_singular(slab, "gram", near, False, False)
    for name, s in settings_by_name.items():
        for i, model in enumerate(models(s.p, 0, 11)):
            if s.go_to(model):
                out[f"{name} {i}"] = [float(x).hex() for x in s.scan()]
                s.chain.floats[INVERSE_TEMPERATURE] = 0.4
                out[f"{name} {i} tempered"] = [float(x).hex() for x in s.tempered_scan()]
                s.chain.floats[INVERSE_TEMPERATURE] = 1.0
    print(json.dumps(out))


def run_print_bits(**environment: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"}
    search = [str(TESTS), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return subprocess.Popen(
        [sys.executable, "-W", "error::RuntimeWarning", __file__],
        env={**kept, "PYTHONPATH": os.pathsep.join(search), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.rest
def test_same_bits_without_the_jit():
    processes = [run_print_bits(), run_print_bits(NUMBA_DISABLE_JIT="1")]
    outputs = [process.communicate() for process in processes]
    for process, (_, errors) in zip(processes, outputs):
        assert process.returncode == 0, errors
    compiled, plain = (json.loads(output) for output, _ in outputs)
    assert len(compiled) > 150
    assert compiled == plain


if __name__ == "__main__":
    print_bits()
