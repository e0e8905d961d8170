"""Odds without logarithms equal the exponentials of the scan's log odds; rows kept between scans change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import whichvars as wv
from support.cases import PRIORS, SLABS, Case, problem
from support.in_turn import in_turn
from support.kernels import scan_odds_model, walk_and_scan
from unit.kernels.test_scan import (
    ENGINES,
    NEAR,
    Setting,
    assert_close,
    build,
    grouped,
    models,
    near_singular,
    setting,
)
from whichvars._kernels.chain import SCANNED
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.scan.scan_work import BLOCK_COLUMNS, LARGEST_LOG_ODDS, new_scan


def odds_of(s: Setting) -> np.ndarray:
    s.work.odds[:] = np.nan
    assert scan_odds_model(s.target, s.chain, s.work) == 0
    return s.work.odds.copy()


def check(s: Setting, note: Any = "") -> np.ndarray:
    """scan_odds against scan at the current model; returns the log odds."""
    log_odds = s.scan()
    found = odds_of(s)
    np.testing.assert_array_equal(found == 0.0, log_odds == -np.inf, err_msg=str(note))
    np.testing.assert_array_equal(found == np.inf, log_odds == np.inf, err_msg=str(note))
    usual = np.abs(log_odds) <= LARGEST_LOG_ODDS
    np.testing.assert_allclose(np.log(found[usual]), log_odds[usual], rtol=0, atol=1e-10, err_msg=str(note))
    beyond = np.isfinite(log_odds) & ~usual  # as steep as the bound at least, and on the right side
    assert np.all(np.log(found[beyond]) * np.sign(log_odds[beyond]) >= LARGEST_LOG_ODDS * (1 - 1e-12)), note
    return log_odds


@pytest.mark.parametrize(("slab", "prior"), in_turn(SLABS, PRIORS))
def test_odds_are_those_of_the_scan(slab, prior):
    for name in ("plain", "duplicate", "groups", "wide", "columns", "unscaled", "weights", "heredity"):
        s = setting(Case(name, slab, prior))
        forbidden = 0
        for model in models(s.p, 40, 1):
            if s.go_to(model):
                forbidden += int(np.isinf(check(s, (name, model))).sum())
        if "max-size" in prior or name == "heredity":
            assert forbidden > 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("slab", SLABS)
def test_groups_and_near_singular_models(slab, engine):
    several = [grouped(slab, "beta-binomial", engine)]
    several += [
        near_singular(slab, engine, near, False, perfect) for near in NEAR for perfect in (False, True)
    ]
    for s in several:
        for model in models(s.p, 20, 2):
            if s.go_to(model):
                check(s, model)


def steep(h: Any, effect: float, n: int = 60, noise: float = 1.0, g: float = 4.0) -> Setting:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 40))
    y = effect * X[:, :3].sum(axis=1) + noise * rng.normal(size=n)
    return Setting(build(X, y, wv.IndependentNormal(g), model_prior=wv.FixedInclusion(h=h)))


STEEP = {
    "strong effects": {"h": 0.1, "effect": 3.0, "n": 2000, "noise": 0.05},
    "a sharp slab": {"h": 0.1, "effect": 1.0, "n": 400, "noise": 1e-3, "g": 1e6},
    "improbable": {"h": 1e-270, "effect": 0.3},
    "hardly possible": {"h": 1e-290, "effect": 0.0},
    "nearly sure": {"h": 1 - 1e-16, "effect": 0.3},
    "all kinds": {"h": np.geomspace(1e-280, 0.999, 40).tolist(), "effect": 3.0, "n": 500, "noise": 0.01},
}


@pytest.mark.parametrize("name", STEEP)
def test_extreme_odds(name):
    s = steep(**STEEP[name])
    largest = 0.0
    for model in ([], [0], [0, 1], [0, 1, 2], [2, 30, 1, 0], [5, 6], *models(40, 10, 4)):
        assert s.go_to(model)
        log_odds = check(s, model)
        largest = max(largest, np.abs(log_odds).max())
    assert largest > (30 if name == "nearly sure" else LARGEST_LOG_ODDS)


def test_odds_across_blocks():
    """Blocks that hold included variables, a last one cut short, and one with an unsound pivot among sound ones."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(120, 2 * BLOCK_COLUMNS + 30))
    X[:, 7] = X[:, 3]
    s = Setting(build(X, X[:, :4] @ [1.0, -1.0, 1.0, 1.0] + rng.normal(size=120), wv.IndependentNormal(1e12)))
    for size in (0, 1, 5, 40):
        assert s.go_to(np.union1d([3], rng.permutation(s.p)[:size]))
        check(s, size)


def kept_and_fresh(s: Setting) -> tuple[Any, Any]:
    return new_scan(s.target, s.n_columns), new_scan(s.target, s.n_columns)


def thirty(slab: Any, engine: str = "gram", **options: Any) -> Setting:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 30)) + 0.8 * rng.normal(size=(80, 1))
    X[:, 17] = X[:, 4] + 1e-6 * X[:, 17]
    return Setting(build(X, X[:, :5].sum(axis=1) + 3 * rng.normal(size=80), slab, engine=engine, **options))


def walk(s: Setting, steps: int, slots: int = 64) -> None:
    kept, fresh = kept_and_fresh(s)
    rng = np.random.default_rng(7)
    s.chain.ints[SCANNED] = 0
    different, made = walk_and_scan(s.target, s.chain, new_memo(slots), kept, fresh, rng, steps)
    assert made > steps / 4
    assert different == 0
    assert_close(kept.log_odds, s.one_by_one(), 1e-10)


@pytest.mark.parametrize("engine", ENGINES)
def test_kept_rows_are_those_of_a_scan_from_scratch(engine):
    walk(thirty(wv.IndependentNormal(2.0), engine), 60_000 if engine == "gram" else 5_000)
    walk(thirty(wv.GPrior(30.0), engine, max_size=12), 5_000)


@pytest.mark.parametrize("case", [Case("groups", "g", "fixed"), Case("growing", "independent", "max-size"), Case("heredity", "hyper-g", "fixed"), Case("duplicate", "bic", "beta-binomial")], ids=lambda c: c.id)  # fmt: skip
def test_kept_rows_in_other_problems(case):
    walk(Setting(problem(case)), 3_000, slots=0)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_kept_rows_after_a_million_flips(engine):
    walk(thirty(wv.IndependentNormal(2.0), engine), 500_000)
    walk(thirty(wv.GPrior(30.0), engine), 500_000)


@pytest.mark.parametrize("slab", [wv.IndependentNormal(2.0), wv.GPrior(30.0)], ids=["independent", "g"])
def test_rows_that_do_not_fit_are_not_kept(slab):
    """With no memory for all of Z the answers have the same bits."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(60, 2 * BLOCK_COLUMNS + 30))
    s = Setting(build(X, X[:, :4].sum(axis=1) + rng.normal(size=60), slab, max_size=30))
    wide, narrow = s.work, new_scan(s.target, s.n_columns, kept_bytes=0)
    assert narrow.z.shape[1] < s.n_columns == wide.z.shape[1]
    for size in (0, 1, 2, 10, 29, 28, 3, 30):
        assert s.go_to(rng.permutation(s.p)[:size])
        answers = []
        for work in (wide, narrow):
            s.work = work
            s.chain.ints[SCANNED] = 0
            answers.append((s.scan(), odds_of(s)))
        for one, other in zip(*answers):
            np.testing.assert_array_equal(one, other)
