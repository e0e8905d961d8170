"""The default beside other samplers on hard problems: who is compared with whom, and that runs are kept and not made twice."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks import common, compare, page, problems, ranking, references  # noqa: E402
from benchmarks.__main__ import main  # noqa: E402

NAME = "fls"
P = 41


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, int, int]]:
    """Every run that is asked for. Those of `asi` are off by .1, of `auto` by .2, of the others by .4, in a millisecond a draw."""
    asked: list[tuple[str, int, int]] = []
    known = references.load(NAME, problems.build(NAME))
    assert isinstance(known, references.Reference)

    def once(problem: Any, contestant: str, draws: int, seed: int) -> dict[str, Any]:
        asked.append((contestant, draws, seed))
        off = {"asi": 0.1, "auto": 0.2}.get(contestant, 0.4) * np.where(np.arange(P) % 2, 1, -1)
        return {
            "pip": known.pip + off,
            "mcse": np.full(P, 0.1),
            "draws": draws,
            "cpu_seconds": draws / 1000,
        }

    monkeypatch.setattr(ranking, "once", once)
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    return asked


def test_costs_are_compared_with_those_of_the_best_other_sampler(made: list[tuple[str, int, int]]) -> None:
    result = ranking.measure([NAME], [4.0], count=3, others=["parni", "asi"])
    found = result["budgets"]["4"][NAME]
    assert found["best"] == "asi"
    assert set(found["rows"]) == {"auto", "ads", "asi"}
    assert found["ratios"]["best"]["gain"] == pytest.approx(1 / 4, rel=1e-3)
    assert found["ratios"]["now"]["gain"] == pytest.approx(4, rel=1e-3)
    assert "before" not in found["ratios"]
    assert found["rows"]["auto"]["calibration"] == pytest.approx(2, rel=1e-3)
    (table,) = ranking.tables(common.plain(result))
    row = dict(zip(table.columns, table.rows[0]))
    assert row["the best other"] == compare.LABELS["asi"]
    assert row["than the best other"] == "0.25"
    assert row["than add/delete/swap before"] == "–"
    assert table.note == "Auto is within 2 × of the best other sampler on 0 of 1 problems (not on fls)."


def test_the_best_sampler_is_chosen_by_other_seeds_than_it_is_judged_by(
    made: list[tuple[str, int, int]],
) -> None:
    ranking.measure([NAME], [1.0], count=2, others=["parni", "asi"])
    seeds = {name: {seed for who, _, seed in made if who == name} - {ranking.SEED - 1} for name in ("auto", "ads", "asi", "parni")}  # fmt: skip
    judged, choosing = {ranking.SEED, ranking.SEED + 1}, {ranking.CHOOSING_SEED, ranking.CHOOSING_SEED + 1}
    assert seeds == {"auto": judged, "ads": judged | choosing, "asi": judged | choosing, "parni": choosing}
    lengths = {draws for _, draws, seed in made if seed != ranking.SEED - 1}
    assert lengths == {1000}  # a second by the pilot, which counts a millisecond a draw


def test_runs_are_kept_and_not_made_twice(made: list[tuple[str, int, int]]) -> None:
    first = ranking.measure([NAME], [1.0], count=2, others=["asi"])
    before = len(made)
    again = ranking.measure([NAME], [1.0], count=2, others=["asi"])
    assert len(made) == before
    assert common.plain(again["budgets"]) == common.plain(first["budgets"])
    ranking.measure([NAME], [1.0], count=3, others=["asi"])
    more = made[before:]
    assert [(who, seed) for who, _, seed in more] == [
        (who, ranking.SEED + 2) for who in ("asi", "auto", "ads")
    ]
    assert {draws for _, draws, _ in more} == {1000}  # as many as before, without a pilot
    nothing_new = ranking.measure([NAME], [1.0, 4.0], count=8, others=["asi"], new_runs=False)
    assert len(made) == before + 3
    assert nothing_new["budgets"]["1"][NAME]["rows"]["auto"]["runs"] == 3
    assert nothing_new["budgets"]["4"][NAME]["rows"] == {}


def test_runs_keep_to_their_time_when_the_machine_gets_slower(
    made: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    free = ranking.once

    def slower(problem: Any, contestant: str, draws: int, seed: int) -> dict[str, Any]:
        run = free(problem, contestant, draws, seed)
        pilot = seed == ranking.SEED - 1
        return run if pilot else {**run, "cpu_seconds": 4 * run["cpu_seconds"]}

    monkeypatch.setattr(ranking, "once", slower)
    ranking.measure([NAME], [8.0], count=3, others=["asi"])
    drawn = [draws for who, draws, seed in made if who == "auto" and seed != ranking.SEED - 1]
    assert drawn == [8000, 2000, 2000]
