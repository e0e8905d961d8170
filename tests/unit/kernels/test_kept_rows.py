"""Rows of XᵀX that scans keep: the same bits as without them, whatever has to make room for what."""

from typing import Any

import numpy as np
import pytest

import whichvars as wv
from support.kernels import from_python
from whichvars._kernels.chain import SCANNED, new_chain
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.evaluate import set_model
from whichvars._kernels.products.kept_rows import USED, claim_rows, empty_rows, new_kept_rows
from whichvars._kernels.scan.scan import scan_model
from whichvars._kernels.scan.scan_work import new_scan
from whichvars.samplers import tempered_gibbs
from whichvars.sampling.checkpoint import needed, with_products

claim = from_python(claim_rows)
P = 600  # more than two blocks of columns


@pytest.fixture(scope="module")
def problem() -> wv.Problem:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(21, P))
    y = X[:, :3].sum(axis=1) + rng.normal(size=21)
    return wv.Problem(
        X, y, engine="columns", slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(size=5)
    )


def ask(rows: Any, *columns: int) -> list[bool]:
    """What a scan that needs these rows does; which of them it has to compute."""
    wanted = np.array([-1, *columns], np.int64)  # the first row is current
    claim(rows, wanted, 1, len(wanted))
    return [bool(rows.new[rows.place[c]]) for c in columns]


def test_rows_are_computed_once_while_there_is_room() -> None:
    rows = empty_rows(20, 8)
    assert ask(rows, 3, 4) == [True, True]
    assert ask(rows, 4, 5, 3) == [False, True, False]
    assert sorted(rows.held[rows.held >= 0]) == [3, 4, 5]
    assert (rows.place[rows.held[:3]] == np.arange(3)).all()


def test_what_was_asked_for_lately_stays() -> None:
    rows = empty_rows(20, 4)
    ask(rows, 0, 1, 2, 3)
    ask(rows, 9)  # the hand goes round: none but 9 has been asked for since
    assert ask(rows, 1) == [False]
    ask(rows, 10)  # takes the place of 2, not of 1
    assert [int(rows.place[c]) >= 0 for c in (0, 1, 2, 3, 9, 10)] == [False, True, False, True, True, True]


def test_a_scan_does_not_take_places_from_its_own_rows() -> None:
    rows = empty_rows(20, 4)
    ask(rows, 0, 1, 2, 3)
    assert ask(rows, 7, 3, 8, 0) == [True, False, True, False]
    assert sorted(rows.held) == [0, 3, 7, 8]
    assert (rows.held[rows.place[[0, 3, 7, 8]]] == [0, 3, 7, 8]).all()
    assert (rows.used == USED).all()


def test_more_rows_than_places() -> None:
    rows = empty_rows(20, 4)
    ask(rows, 0, 1)
    before = rows.held.copy()
    claim(rows, np.arange(2, 7), 0, 5)
    np.testing.assert_array_equal(rows.held, before)
    assert (rows.place[2:7] == -1).all()


def test_none_where_they_are_of_no_use(problem: wv.Problem) -> None:
    design = problem.target(0).design
    assert new_kept_rows(design, 8 * 8 * P).values.shape == (8, P)
    assert new_kept_rows(design, 8 * 8 * P - 1).values.shape == (0, 0)
    gram = wv.Problem(np.eye(12)[:, :10] * 3 + 1, np.arange(12.0), engine="gram").target(0).design
    assert len(new_kept_rows(gram, 1 << 20).held) == 0


@pytest.mark.parametrize("kept_bytes", [0, 1 << 20], ids=["Z in parts", "Z kept"])
def test_scans_have_the_same_bits(problem: wv.Problem, kept_bytes: int) -> None:
    target = problem.target(20)
    chain, memo = new_chain(target, 20, 0), new_memo(0)
    with_rows = new_scan(target, 20, kept_bytes, row_bytes=8 * 9 * P)
    without = new_scan(target, 20, kept_bytes)
    assert len(with_rows.rows.held) == 9
    rng = np.random.default_rng(1)
    members = list(range(4))
    met = set(members)
    for step in range(60):
        if step % 20 == 19:
            members = rng.permutation(P)[:11].tolist()  # more than there are places for
        else:
            members = members[-6:]
            members[int(rng.integers(len(members)))] = int(rng.integers(30))
            members = list(dict.fromkeys(members))
        met.update(members)
        assert set_model(target, chain, memo, np.array(members), len(members))
        assert scan_model(target, chain, with_rows) == 0
        after = chain.ints[SCANNED]
        chain.ints[SCANNED] = 0
        assert scan_model(target, chain, without) == 0
        chain.ints[SCANNED] = after
        np.testing.assert_array_equal(with_rows.log_odds, without.log_odds)
    assert len(met) > 30  # so places were given away many times


@pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")
def test_runs_have_the_same_bits(problem: wv.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for row_bytes in (0, 8 * 8 * P, 1 << 20):
        monkeypatch.setattr(tempered_gibbs, "ROW_BYTES", row_bytes)
        found.append(
            wv.sample(problem, wv.Hybrid(chains=2), draws=3000, seed=1, replicates=1, progress=False)
        )
    assert found[0].pip.tobytes() == found[1].pip.tobytes() == found[2].pip.tobytes()


def test_checkpoints_leave_them_out(problem: wv.Problem) -> None:
    work = new_scan(problem.target(10), 10, row_bytes=1 << 20)
    ask(work.rows, 1, 2)
    work.rows.values[0] = 1.0
    again = with_products(needed(work)).rows
    assert again.values.shape == work.rows.values.shape
    assert (again.held == -1).all()
    assert (again.place == -1).all()
    for mine, theirs in zip(again, work.rows):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
