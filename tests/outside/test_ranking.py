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


def test_longer_runs_know_from_shorter_ones_how_many_draws_they_need(
    made: list[tuple[str, int, int]],
) -> None:
    ranking.measure([NAME], [1.0], count=2, others=["asi"])
    before = len(made)
    ranking.measure([NAME], [1.0, 4.0], count=1, others=["asi"])
    asked = [(draws, seed) for who, draws, seed in made[before:] if who == "auto"]
    assert asked[-1] == (4000, ranking.SEED)
    assert asked[:-1] == [(1000, ranking.SEED - 1)] * 2 + [(10_000, ranking.SEED - 1)]


def test_a_search_that_takes_most_of_a_short_run_is_no_reason_to_make_few_draws(
    made: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    free = ranking.once

    def with_search(problem: Any, contestant: str, draws: int, seed: int) -> dict[str, Any]:
        run = free(problem, contestant, draws, seed)
        return {**run, "cpu_seconds": 0.6 + draws / 100_000}

    monkeypatch.setattr(ranking, "once", with_search)
    ranking.measure([NAME], [1.0], count=1, others=["asi"])
    assert {draws for _, draws, seed in made if seed != ranking.SEED - 1} == {40_000}
    made.clear()
    monkeypatch.setattr(ranking, "SEED", 8000)
    monkeypatch.setattr(ranking, "CHOOSING_SEED", 9000)
    ranking.measure([NAME], [0.5], count=1, others=["asi"])  # the search alone takes longer
    assert {draws for _, draws, seed in made if seed != ranking.SEED - 1} == {1000}


def test_the_sampler_of_another_checkout_runs_on_the_same_problem(tmp_path: Path) -> None:
    problem = problems.build(NAME)
    with ranking.AnotherCheckout(ROOT) as other:
        assert other.code == ranking.honesty.code()
        run = other.once(NAME, problem, 2000, 7)
        assert run["pip"].shape == (P,)
        assert run["cpu_seconds"] > 0
        here = ranking.once(problem, ranking.NOW, 2000, 7)
        np.testing.assert_array_equal(run["pip"], here["pip"])  # the same code and seed
        with pytest.raises(RuntimeError, match="fls is another problem"):
            other.once(NAME, problems.build("uscrime"), 1000, 7)
        with pytest.raises(RuntimeError, match="no such problem failed"):
            other.once("no such problem", problem, 1000, 7)


def test_problems_of_the_final_check_have_tables_of_their_own() -> None:
    row = {"trust": compare.FINE, "rmse": 0.01, "calibration": 1.0, "runs": 8}
    ratios = {
        key: {"gain": gain, "gain_low": gain / 2, "gain_high": 2 * gain}
        for key, gain in (("before", 5.0), ("now", 2.0), ("best", 0.6))
    }

    def found(final: bool, **other: Any) -> dict[str, Any]:
        return {
            "final_check": final,
            "reference": {"weak": ""},
            "best": "asi",
            "rows": {"auto": row},
            "ratios": ratios | other,
        }

    slow = {"before": {"gain": 2.0, "gain_low": 1.0, "gain_high": 3.0}}
    unknown = {"best": {"gain": None, "gain_low": None, "gain_high": None}}
    rows = {"a": found(False), "b": found(False, **slow), "c": found(True, **unknown)}
    development, final = ranking.tables({"budgets": {"1": rows}})
    assert [cells[0] for cells in development.rows] == ["a", "b"]
    assert [cells[0] for cells in final.rows] == ["c"]
    assert development.note == (
        "Auto is within 2 × of the best other sampler on 2 of 2 problems; it is at least 3 × as good as add/delete/swap before on "
        "1 of 2 problems (not on b)."
    )
    assert final.note == "It is at least 3 × as good as add/delete/swap before on 1 of 1 problems."
    assert "kept for the final check" in final.title


def test_the_command_writes_what_the_page_shows(made: list[tuple[str, int, int]], tmp_path: Path) -> None:
    said = CliRunner().invoke(
        main,
        ["ranking", "--problems", NAME, "--budgets", "1", "--runs", "2", "--others", "asi", "--markdown"],
    )
    assert said.exit_code == 0, said.output
    assert "than the best other" in said.output
    assert (tmp_path / "ranking.json").exists()
    result = common.read_result("ranking")
    assert result is not None
    assert "how many times better auto is" in page.section("ranking", result)
