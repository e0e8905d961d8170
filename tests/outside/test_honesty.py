"""Runs are judged as the honesty table says, kept one by one, and not made twice."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import whichvars as wv

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks import common, hard, honesty, page, problems, references  # noqa: E402
from benchmarks.__main__ import main  # noqa: E402

NAN = float("nan")


def verdict(
    pip: list[float],
    claimed: list[float],
    warned: bool = False,
    truth: float = 0.5,
    own: float | list[float] = 0.0,
) -> dict[str, Any]:
    size = len(pip)
    return honesty.judge(
        np.array(pip), np.array(claimed), warned, np.full(size, truth), np.broadcast_to(own, size).astype(float)
    )  # fmt: skip


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(references, "FOLDER", tmp_path / "references")
    references.save("individual-off", references.make(hard.individual_off(), minutes=1))
    return tmp_path


# --- judging
# ----------------------------------------------------------------------------------------------------------


def test_a_run_is_wrong_by_its_own_errors_and_only_where_it_matters() -> None:
    assert verdict([0.53, 0.5], [0.005, 0.1])["silently_wrong"]  # six errors of that variable
    assert not verdict([0.53, 0.5], [0.008, 0.0])["wrong"]  # less than four
    assert not verdict([0.519, 0.5], [0.0001, 0.1])["wrong"]  # 190 errors, but nobody minds
    assert not verdict([0.5, 0.9], [0.001, 0.11])["wrong"]
    assert verdict([0.5, 0.9], [0.11, 0.001])["wrong"]  # another variable's error is no excuse
    assert verdict([0.53], [0.0])["silently_wrong"]  # claimed to be exact


def test_a_warning_makes_a_wrong_run_an_honest_one() -> None:
    found = verdict([0.9], [0.01], warned=True)
    assert found["wrong"]
    assert not found["silently_wrong"]
    assert not found["false_alarm"]


def test_the_error_of_the_reference_is_allowed_for() -> None:
    assert verdict([0.54], [0.003], own=0.0)["wrong"]
    assert not verdict([0.54], [0.003], own=0.012)["wrong"]
    assert verdict([0.6], [0.003], own=0.012)["wrong"]
    assert not verdict([0.54], [0.003], own=[NAN])[
        "accurate"
    ]  # an unknown error of the reference counts as none
    assert not verdict([0.512], [0.003], warned=True, own=0.0)["false_alarm"]
    assert verdict([0.512], [0.003], warned=True, own=0.009)["false_alarm"]


def test_false_alarms_are_warnings_of_accurate_runs() -> None:
    assert verdict([0.505], [0.002], warned=True)["false_alarm"]
    assert not verdict([0.505], [0.002])["false_alarm"]
    assert verdict([0.505], [0.002])["accurate"]
    between = verdict([0.515], [0.01], warned=True)
    assert not between["false_alarm"]
    assert not between["accurate"]
    assert not between["wrong"]


def test_unknown_errors_count_as_a_warning() -> None:
    nothing_known = verdict([0.9, 0.1], [NAN, NAN])
    assert nothing_known["warned"]
    assert nothing_known["wrong"]
    assert not nothing_known["silently_wrong"]
    assert not nothing_known["wrong_where_unknown"]
    assert (
        nothing_known["largest_claimed"] is nothing_known["rms_z"] is nothing_known["squared_claimed"] is None
    )
    one_unknown = verdict([0.0, 0.5], [NAN, 0.01])
    assert one_unknown["wrong"]
    assert not one_unknown["warned"]
    assert not one_unknown["silently_wrong"]
    assert one_unknown["wrong_where_unknown"]
    assert one_unknown["unknown_errors"] == 1
    both = verdict([0.0, 0.6], [NAN, 0.01])
    assert both["silently_wrong"]
    assert not both["wrong_where_unknown"]
    harmless = verdict([0.5, 0.5], [NAN, 0.01])
    assert not harmless["warned"]
    assert harmless["accurate"]


def test_no_number_is_as_wrong_as_can_be() -> None:
    assert verdict([NAN, 0.5], [0.01, 0.01])["silently_wrong"]
    assert verdict([NAN, 0.5], [0.01, 0.01])["largest_error"] == 1.0


def test_z_and_ratio_of_simulated_errors() -> None:
    rng = np.random.default_rng(1)
    truth, own, claimed = rng.uniform(0.2, 0.8, 3000), 0.002, 0.01
    reference = truth + own * rng.normal(size=3000)
    runs = [
        honesty.judge(truth + 0.02 * rng.normal(size=3000), np.full(3000, claimed), False, reference, np.full(3000, own))
        for _ in range(5)
    ]  # fmt: skip
    assert runs[0]["rms_z"] == pytest.approx(2.0, rel=0.05)
    found = honesty.ratio(runs)
    assert found["value"] == pytest.approx(2.0, rel=0.03)
    assert found["why"] == ""


def test_no_ratio_where_the_reference_is_not_better_than_the_run() -> None:
    def runs(squared: float, claimed: float | None = 1e-4) -> list[dict[str, Any]]:
        return [{"squared_error": squared, "squared_claimed": claimed, "squared_reference": 1e-4}]

    assert honesty.ratio(runs(1.5e-4)) == {"value": None, "why": "refused"}
    assert honesty.ratio(runs(4e-4))["why"] == "≈ "
    assert honesty.ratio(runs(4e-4))["value"] == pytest.approx(3**0.5)
    assert honesty.ratio(runs(1e-2))["why"] == ""
    assert honesty.ratio(runs(1e-2, None)) == honesty.ratio([]) == {"value": None, "why": "–"}
    exact = [{"squared_error": 1e-17, "squared_claimed": 1e-14, "squared_reference": 0.0}]
    assert honesty.ratio(exact)["why"] == "both < .0001"
    assert honesty.ratio(runs(1e-2, 0.0))["value"] is None  # nothing was claimed


def test_counts_and_their_table() -> None:
    runs = [
        verdict([0.9], [0.01]),
        verdict([0.9], [0.01], warned=True),
        verdict([0.501], [0.01], warned=True),
        verdict([0.501], [0.01]),
    ]
    found = honesty.count(runs)
    assert found["runs"] == 4
    assert (found["wrong"], found["silently_wrong"], found["accurate"], found["false_alarm"]) == (2, 1, 2, 1)
    told = {"budget": 1.0, "cpu_seconds": 1.0}
    reference = {"worst_error": 0.02, "weak": "its own error is up to 0.020"}
    problem = {"final_check": True, "reference": reference, "runs": [{**told, **run} for run in runs]}
    result = {"sampler": "auto", "seeds": 4, "budgets": [1.0], "problems": {"some": problem, "none": {**problem, "runs": []}}}  # fmt: skip
    (table,) = honesty.tables(common.plain(result))
    assert table.rows[0][:6] == ["some *", "4", "2", "1 of 4 (25 %)", "0", "1 of 2 (50 %)"]
    assert table.rows[0][-1] == "± 0.020, weak"
    assert [row[0] for row in table.rows] == ["some *", "in all"]
    assert "some: its own error" in table.note
    (line,) = honesty.details(common.plain(result)).rows
    assert line[-4:] == ["2 of 4", "2 of 4", "1 of 4", "1 of 4"]


# --- references
# ----------------------------------------------------------------------------------------------------------


def reference_with(second: float, own: float = 0.001) -> references.Reference:
    pip = np.array([0.5, 0.1])
    error = np.full(2, own)
    return references.Reference(pip, error, error, np.zeros(9), {}, np.array([second, 0.1]), error)


def test_a_reference_is_weak_where_two_runs_disagree_or_its_error_is_large() -> None:
    assert reference_with(0.5).weakness == ""
    assert reference_with(0.508).weakness == ""  # six errors, but they do not matter
    assert "second sampler differs by 0.10" in reference_with(0.6).weakness
    assert reference_with(0.6).apart == pytest.approx((0.1, 0.1 / 0.001 / 2**0.5))
    assert "its own error is up to 0.050" in reference_with(0.6, 0.05).weakness
    assert "differs" not in reference_with(0.6, 0.05).weakness


def test_a_reference_made_twice_is_stored_with_its_second_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 5))
    problem = wv.Problem(X, X[:, 0] + rng.normal(size=30), model_prior=wv.FixedInclusion(h=0.3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(references, "EXACT", 0)
        recipe = references.Recipe(second=wv.AddDeleteSwap(), second_start=lambda problem: [[0], []])
        made = references.make(problem, 0.003, 4, recipe, threads=1)
    references.save("some", made, tmp_path)
    stored = references.load("some", problem, tmp_path)
    assert isinstance(stored, references.Reference)
    assert stored.second is not None
    np.testing.assert_allclose(stored.second, made.second, atol=1e-7)
    assert np.abs(stored.second - wv.exact(problem).pip).max() < 0.05
    assert "AddDeleteSwap" in stored.about["second"]["sampler"]
    assert stored.about["second"]["start"] == [[0], []]


def test_only_missing_or_weak_references_are_made_again(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def instead(problem: wv.Problem, *_: Any) -> references.Reference:
        made.append(str(problem.p))
        return references.from_posterior(problem, wv.exact(problem), {})

    monkeypatch.setattr(references, "make", instead)
    names = ["three-models", "individual-off"]  # the latter has one
    for option, expected in (("--missing", ["9"]), ("--weak", []), ("--no-progress", ["9", "7"])):
        made.clear()
        result = CliRunner().invoke(main, ["reference", *names, option])
        assert result.exit_code == 0, result.output
        assert made == expected
    off = references.load("individual-off", hard.individual_off())
    assert isinstance(off, references.Reference)
    off.mcse[:] = 0.1
    references.save("individual-off", off)
    shown = CliRunner().invoke(main, ["reference", "individual-off", "--show"])
    assert "WEAK: its own error is up to 0.10" in shown.output
    made.clear()
    CliRunner().invoke(main, ["reference", *names, "--weak"])
    assert made == ["7"]


# --- problems
# ----------------------------------------------------------------------------------------------------------


def test_there_are_twenty_problems_and_some_are_kept_for_the_end() -> None:
    assert len(set(problems.HONESTY)) == 20
    assert set(problems.FINAL_CHECK) < set(problems.HONESTY)
    assert set(problems.HONESTY) <= set(problems.PROBLEMS)
    assert not set(problems.FINAL_CHECK) & set(problems.DEFAULT)
    assert set(references.RECIPES) <= set(problems.PROBLEMS)


def test_hard_problems_are_what_they_are_called() -> None:
    assert hard.concrete_data().X.shape == (1030, 164)
    assert hard.wine_data().X.shape == (178, 164)
    assert hard.boston_products_data().X.shape == (506, 103)
    assert hard.diabetes_data().X.shape == (442, 64)
    assert hard.spectra_data().X.shape == (28, 268)
    neighbours = np.corrcoef(hard.spectra_data().X.T)[np.arange(267), np.arange(1, 268)]
    assert neighbours.min() > 0.95
    terms = hard.terms(np.array([[2.0, 3.0]]), 3)
    assert terms.tolist() == [[2, 3, 4, 6, 9, 8, 12, 18, 27]]


def test_three_models_share_the_mass() -> None:
    best = wv.exact(hard.three_models()).top_models(3)
    np.testing.assert_allclose(best["probability"], [0.647, 0.344, 0.008], atol=6e-4)
    pips = wv.exact(hard.individual_off()).pip
    np.testing.assert_allclose(pips, [0.082, 0.070, 0.066, 0.074, 0.076, 0.076, 0.053], atol=6e-4)


# --- end to end
# ----------------------------------------------------------------------------------------------------------


def test_the_smallest_problem_from_the_command_line(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = elsewhere / "found" / "h.json"
    arguments = ["honesty", "--problems", "individual-off", "--budgets", "0.02,0.05", "--out", str(out), "--markdown", "--details"]  # fmt: skip
    first = CliRunner().invoke(main, [*arguments, "--seeds", "2"])
    assert first.exit_code == 0, first.output
    stored = json.loads(out.read_text())
    runs = stored["problems"]["individual-off"]["runs"]
    assert [(run["budget"], run["seed"]) for run in runs] == [
        (b, s) for b in (0.02, 0.05) for s in (3000, 3001)
    ]
    assert all(run["largest_error"] < 0.1 for run in runs)
    assert "| individual-off | 4 | 0 |" in first.output
    assert "| in all | 4 |" in first.output
    assert len(list((elsewhere / "found" / "h").rglob("*.npz"))) == 4

    made: list[int] = []
    once = honesty.once

    def counted(problem: wv.Problem, sampler: Any, draws: int, seed: int, threads: int = 1) -> dict[str, Any]:
        made.append(seed)
        return once(problem, sampler, draws, seed, threads)

    monkeypatch.setattr(honesty, "once", counted)
    second = CliRunner().invoke(main, [*arguments, "--seeds", "3"])  # goes on where the first one ended
    assert second.exit_code == 0, second.output
    assert [seed for seed in made if seed >= honesty.SEED] == [3002, 3002]
    again = json.loads(out.read_text())["problems"]["individual-off"]["runs"]
    assert [run for run in again if run["seed"] < 3002] == runs
    assert len({run["draws"] for run in again if run["budget"] == 0.02}) == 1

    made.clear()
    monkeypatch.setattr(honesty, "code", lambda: "other")
    assert CliRunner().invoke(main, [*arguments, "--no-runs"]).exit_code == 0
    assert json.loads(out.read_text())["problems"]["individual-off"]["runs"] == []
    taken = CliRunner().invoke(main, [*arguments, "--no-runs", "--any-code"])
    assert "| individual-off | 6 | 0 |" in taken.output
    assert not made


def test_a_wrong_reference_makes_runs_wrong(elsewhere: Path) -> None:
    folder = elsewhere / "runs"
    honesty.measure(["individual-off"], [0.02], 2, folder=folder)
    off = references.from_posterior(hard.individual_off(), wv.exact(hard.individual_off()), {})
    off.pip[0] += 0.3
    references.save("individual-off", off)
    found = honesty.measure(["individual-off"], [0.02], 2, folder=folder, new_runs=False)
    runs = found["problems"]["individual-off"]["runs"]
    assert [run["wrong"] for run in runs] == [True, True]
    assert all(run["silently_wrong"] or run["warned"] for run in runs)


def test_a_problem_without_a_reference_is_left_out(elsewhere: Path) -> None:
    said: list[str] = []
    found = honesty.measure(["three-models"], [0.02], 1, folder=elsewhere, say=said.append)
    assert found["problems"] == {}
    assert "no reference" in said[0]


def test_numbers_on_the_command_line() -> None:
    for wrong in ("1,x", "0", "-1", "inf", ""):
        result = CliRunner().invoke(main, ["honesty", "--budgets", wrong])
        assert result.exit_code == 2, wrong
        assert "list of positive numbers" in result.output


def test_the_page_has_a_section_for_it(elsewhere: Path) -> None:
    result = common.plain(honesty.measure(["individual-off"], [0.02], 1, folder=elsewhere / "runs"))
    common.write_result("honesty", result)
    place = elsewhere / "page.md"
    place.write_text("# A page\n")
    assert page.assemble(place) == ["page.md: unchanged"]
    place.write_text("# A page\n\n<!-- begin honesty -->\n<!-- end honesty -->\n")
    page.assemble(place)
    assert "| individual-off | 1 |" in place.read_text()
