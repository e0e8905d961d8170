"""The benchmarks run end to end on a tiny problem, and their ratios are the right way up. Nothing is timed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

import whichvars as wv

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks import calibration, common, compare, credible_sets, default_prior, engine, genetics, messy, page, problems, references, soak, speed, startup, stopping, strong, tall, tecator, wide  # noqa: E402, I001  # fmt: skip
from benchmarks.__main__ import main  # noqa: E402

from whichvars.cli import main as whichvars_main  # noqa: E402


@pytest.fixture(scope="module")
def tiny() -> wv.Problem:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 6)) + 0.7 * rng.normal(size=(40, 1))
    y = X @ [0.6, -0.5, 0.2, 0, 0, 0] + rng.normal(size=40)
    return wv.Problem(X, y, slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(h=0.3))


@pytest.fixture
def only_tiny(tiny: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A problem of its own, and no files outside tmp_path."""
    monkeypatch.setitem(problems.PROBLEMS, "tiny", problems.Named("tiny problem", lambda: tiny))
    monkeypatch.setattr(references, "FOLDER", tmp_path / "references")
    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")
    problems.build.cache_clear()
    yield tmp_path
    problems.build.cache_clear()


# --- arithmetic
# ----------------------------------------------------------------------------------------------------------


def test_score_is_mean_squared_error_times_seconds() -> None:
    pips = np.array([[0.5, 0.2], [0.7, 0.1]])
    found = compare.score(pips, np.array([2.0, 4.0]), np.array([0.5, 0.1]), floor=0.0)
    np.testing.assert_allclose(found["mse_runs"], [0.005, 0.02])
    assert found["cost"] == pytest.approx((0.005 * 2 + 0.02 * 4) / 2)
    assert found["worst_error"] == pytest.approx(0.2)
    assert found["trust"] == compare.FINE


def test_the_reference_error_is_subtracted_flagged_and_refused() -> None:
    pips, seconds, reference = np.array([[0.1], [0.1]]), np.ones(2), np.zeros(1)  # squared error .01

    def at(floor: float) -> dict[str, Any]:
        return compare.score(pips, seconds, reference, floor)

    assert at(0.0005)["trust"] == compare.FINE
    assert at(0.0005)["cost"] == pytest.approx(0.0095)
    assert at(0.004)["trust"] == compare.FLAGGED
    assert at(0.004)["cost"] == pytest.approx(0.006)
    assert at(0.004)["rmse"] == pytest.approx(0.006**0.5)
    assert at(0.006)["trust"] == compare.REFUSED
    assert at(0.006)["cost"] is None
    exact_hit = compare.score(np.zeros((2, 1)), seconds, reference, 0.001)
    assert exact_hit["trust"] == compare.REFUSED


def test_gain_is_above_one_for_the_better_sampler() -> None:
    def with_cost(*costs: float) -> dict[str, Any]:
        return {"cost": float(np.mean(costs)), "costs": np.array(costs)}

    better = compare.gain(with_cost(8, 12), with_cost(2, 3))
    assert better["gain"] == pytest.approx(4.0)
    assert better["gain_low"] < 4.0 < better["gain_high"]
    assert compare.gain(with_cost(1, 1), with_cost(4, 4))["gain"] == pytest.approx(0.25)
    assert compare.gain({"cost": None, "costs": []}, with_cost(1, 1))["gain"] is None


def test_gain_of_simulated_errors_is_the_ratio_of_their_variances_and_times() -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(size=400)
    noise = 0.005 * rng.normal(size=400)  # of the reference
    good = truth + 0.02 * rng.normal(size=(40, 400))
    bad = truth + 0.06 * rng.normal(size=(40, 400))
    scores = [
        compare.score(pips, np.full(40, seconds), truth + noise, 0.005**2)
        for pips, seconds in ((bad, 3.0), (good, 1.0))
    ]
    assert compare.gain(*scores)["gain"] == pytest.approx(27.0, rel=0.05)


def test_ratios_are_taken_repeat_by_repeat() -> None:
    values = {"a": iter([1.0, 2.0, 4.0]), "b": iter([3.0, 8.0, 4.0])}
    found, ratios = engine.in_turns(
        {name: lambda repeat, it=it: next(it) for name, it in values.items()}, base="a", repeats=3
    )
    assert found["b"] == [3.0, 8.0, 4.0]
    assert ratios["b"] == [3.0, 4.0, 1.0]
    line = engine.row("x", ratios["b"], "≥ 2", lambda v: v >= 2, "")
    assert (line["value"], line["low"], line["high"], line["met"]) == (3.0, 1.0, 4.0, True)


def test_minimum_ess_counts_a_frozen_variable_as_zero(tiny: wv.Problem) -> None:
    posterior = compare.once(tiny, wv.AddDeleteSwap(), 5000, 0)
    assert compare.minimum_ess(posterior, None) > 0
    mcse = posterior.mcse.copy()
    mcse[2] = np.nan
    frozen = wv.Posterior(**{**vars_of(posterior), "mcse": mcse})
    assert compare.minimum_ess(frozen, np.full(6, 0.5)) == 0.0
    assert compare.minimum_ess(frozen, np.array([0.5, 0.5, 0.001, 0.5, 0.5, 0.5])) > 0


def vars_of(posterior: wv.Posterior) -> dict[str, Any]:
    return {name: getattr(posterior, name) for name in posterior.__dataclass_fields__}


def test_views_of_one_memory_count_once() -> None:
    words = np.zeros(10, np.uint64)
    found = engine.arrays_in({"a": [words, words.view(float)], "b": (words[2:5],)})
    assert sum(array.nbytes for array in found.values()) == 80


def test_compiled_and_scipy_marginal_likelihoods_are_the_same_thing() -> None:
    (line,) = engine.marginal_likelihood(engine.Effort(repeats=1, iterations=1))  # asserts their equality
    assert line["value"] > 0


def test_tecator_arithmetic() -> None:
    pip = np.array([0.1, 0.5, 0.9, 0.0])
    odds = np.where(pip > 0, pip / (1 - pip), 0.0)
    found = tecator.odds_against_odds(0.3 * odds**2, np.ones(4), pip)
    assert found["odds_slope"] == pytest.approx(2.0)
    assert found["odds_correlation"] == pytest.approx(1.0)
    assert tecator.proposal_sizes(np.array([1, 40, 100, 50, 1]))["changes_mode"] == 2
    assert len(tecator.plan(full=True)) == 2 + 8 * 3 * 2 * 2


# --- references
# ----------------------------------------------------------------------------------------------------------


def test_a_reference_is_exact_where_it_can_be(only_tiny: Path, tiny: wv.Problem) -> None:
    made = references.make(tiny, minutes=1)
    references.save("tiny", made)
    stored = references.load("tiny", tiny)
    assert isinstance(stored, references.Reference)
    np.testing.assert_array_equal(stored.pip, wv.exact(tiny).pip)
    assert stored.floor == 0
    assert {"date", "commit"} <= set(stored.about["environment"])


def test_a_sampled_reference_knows_its_error(
    only_tiny: Path, tiny: wv.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "EXACT", 0)
    made = references.make(tiny, minutes=0.0005, replicates=4, threads=1)
    assert 0 < made.floor < 0.01
    error = made.pip - wv.exact(tiny).pip
    assert np.mean(error**2) < 30 * made.floor
    assert made.about["replicates"] == 4


def test_a_reference_of_another_problem_is_not_used(only_tiny: Path, tiny: wv.Problem) -> None:
    assert "no reference" in str(references.load("tiny", tiny))
    references.save("tiny", references.make(tiny, minutes=1))
    rng = np.random.default_rng(9)
    other = wv.Problem(rng.normal(size=(40, 6)), rng.normal(size=40), model_prior=wv.FixedInclusion(h=0.3))
    assert "other data or priors" in str(references.load("tiny", other))


def test_stored_references_are_small_and_belong_to_known_problems() -> None:
    for path in (ROOT / "benchmarks" / "references").glob("*.npz"):
        assert path.stem in problems.PROBLEMS
        assert path.stat().st_size < 1_000_000


# --- end to end
# ----------------------------------------------------------------------------------------------------------


def test_compare_end_to_end(only_tiny: Path, tiny: wv.Problem) -> None:
    references.save("tiny", references.make(tiny, minutes=1))
    result = compare.compare(["tiny"], list(compare.SAMPLERS), budget=0.003, runs=2)
    where = common.write_result("compare", result)
    stored = json.loads(where.read_text())
    assert {"date", "commit", "versions", "cpus"} <= set(stored["environment"])
    rows = stored["problems"]["tiny"]["samplers"]
    assert set(rows) == set(compare.SAMPLERS) == set(compare.LABELS)
    assert rows["ads"]["gain"] == 1.0
    assert rows["smc"]["minimum_ess"] is rows["smc"]["calibration"] is None  # not known from one replicate
    for row in rows.values():
        assert row["gain"] > 0
        assert row["mutation_rate"] is None or 0 < row["mutation_rate"] < 1  # flips are never rejected
        assert 0 < row["worst_error"] < 1
        assert row is rows["smc"] or row["minimum_ess"] > 0
    (table,) = compare.tables(stored)
    assert len(table.rows) == len(compare.SAMPLERS)
    assert table.markdown().count("\n| ") == 1 + len(compare.SAMPLERS)


def test_compare_without_a_reference_still_gives_rates(only_tiny: Path) -> None:
    result = common.plain(compare.compare(["tiny"], ["ads", "rapa"], budget=0.002, runs=1))
    assert "no reference" in result["problems"]["tiny"]["reference"]
    (table,) = compare.tables(result)
    assert "no reference" in table.note
    assert "gain" not in result["problems"]["tiny"]["samplers"]["rapa"]


def test_effective_sizes_are_those_of_the_means_of_the_draws() -> None:
    """The variance of a PIP over many runs is that of so many independent draws, for each variable and not for the typical one."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 12))
    X[:, 1::2] = X[:, ::2] + np.linspace(0.1, 1.5, 6) * rng.normal(
        size=(60, 6)
    )  # some pairs mix far less than others
    y = X[:, ::2] @ np.full(6, 0.25) + rng.normal(size=60)
    problem = wv.Problem(X, y, slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(h=0.4))
    runs = [
        wv.sample(problem, wv.AddDeleteSwap(swap=0.0), draws=20_000, replicates=1, seed=s, rao_blackwell=False, progress=False)
        for s in range(200)
    ]  # fmt: skip
    pips = np.array([run.pip for run in runs])
    said = np.array([run.pip * (1 - run.pip) / tecator.effective_sizes(run) for run in runs]).mean(axis=0)
    np.testing.assert_allclose(said, pips.var(axis=0, ddof=1), rtol=4 * np.sqrt(2 / 199))
    never = SimpleNamespace(frequencies=np.array([0.0, 0.5]), frequency_mcse=np.array([np.nan, 0.05]))
    assert tecator.effective_sizes(never).tolist() == pytest.approx([0.0, 100.0])


def test_tecator_end_to_end(only_tiny: Path, tiny: wv.Problem) -> None:
    result = tecator.replicate(full=False, runs=2, draws=2000, warmup=200, problem=tiny)
    assert result["rows"][0]["ratio_to_ads"] == 1.0
    assert result["rows"][1]["ratio_to_lamnisos"] == 1.0
    result = json.loads(common.write_result("tecator", result).read_text())
    csv = tecator.write_csv(result, only_tiny / "tecator.csv").read_text().splitlines()
    assert len(csv) == 1 + len(tecator.plan(full=False))
    claims, *by_tau = tecator.tables(result)
    assert claims.rows[0][1] == "30,300"
    assert len(by_tau) == 4


def test_page_puts_results_between_its_markers(only_tiny: Path, tiny: wv.Problem, tmp_path: Path) -> None:
    (source,) = [path for path in page.PAGES if "compare" in page.kinds_of(path.read_text())]
    text = source.read_text()
    copy = tmp_path / source.name
    copy.write_text(text)
    said = page.assemble(copy)
    assert copy.read_text() == text  # nothing measured, nothing changed
    assert "no result" in said[0]
    result = compare.compare(["tiny"], ["ads"], budget=0.002, runs=1)
    common.write_result("compare", result)
    page.assemble(copy)
    assert "tiny problem" in copy.read_text()
    assert result["environment"]["commit"] in copy.read_text()
    page.assemble(copy)
    assert copy.read_text().count("tiny problem") == 1
    with pytest.raises(ValueError, match="markers"):
        page.replace("no markers", "compare", "x")


def test_every_result_has_one_place() -> None:
    kinds = [kind for path in page.PAGES for kind in page.kinds_of(path.read_text())]
    assert sorted(kinds) == sorted(page.SECTIONS)
    assert not page.kinds_of(page.STORY.read_text())


def test_the_story_has_the_numbers_of_the_tables() -> None:
    """Typical errors and gains are those of the default sampler in 2 CPU seconds; other numbers are somewhere in the tables."""
    tables = "\n".join(path.read_text() for path in page.PAGES)
    default = [
        line for line in tables.splitlines() if line.startswith("| hybrid, 5 chains (what auto takes)")
    ]
    story = page.STORY.read_text()
    rows = [line.strip("| ").split(" | ") for line in story.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 7
    for name, _, gain, error in rows:
        found = [line.strip("| ").split(" | ") for line in default if f"| {gain} |" in line]
        millionths = float(error.removeprefix("≈ "))
        sign = "≈ " * error.startswith("≈ ")
        assert any(cell == f"{sign}{1e-6 * millionths:.3g}" for cells in found for cell in cells), name
    text = story.split("**Compared with")[1].split("All of this")[0]
    numbers = re.findall(r"\d[\d,]*\.\d+|\d{1,3}(?:,\d{3})+|\d{2,}", text.replace("10,000,000 rows", ""))
    assert len(numbers) > 9
    for number in numbers:
        assert re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d]|[.,]\d)", tables), number


def test_command_line(only_tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = CliRunner()
    assert "compare" in runner.invoke(main, ["--help"]).output
    wrong = runner.invoke(main, ["--samplers", "ads,nonsense"])
    assert wrong.exit_code == 2
    assert "'nonsense' is not one of" in wrong.output
    out = only_tiny / "e.json"
    monkeypatch.setattr(engine, "SMALL", engine.Effort(repeats=1, iterations=1, enumerate=4))
    run = runner.invoke(
        main, ["engine", "--small", "--only", "marginal,exact", "--out", str(out), "--markdown"]
    )
    assert run.exit_code == 0, run.output
    assert len(json.loads(out.read_text())["rows"]) == 4
    assert "| log marginal likelihood at k = 15" in run.output


def test_speed_beside_another_checkout() -> None:
    result = speed.measure(ROOT, ["fls"], ["ads", "hybrid"], repeats=2, seconds=0.01)
    assert [row["sampler"] for row in result["rows"]] == ["ads", "hybrid"]
    for row in result["rows"]:
        assert len(row["rates"]) == len(row["baseline_rates"]) == 2
        assert min(row["rates"] + row["baseline_rates"]) > 0
    (table,) = speed.tables(result)
    assert table.columns == ["sampler", "fls"]
    assert [row[0] for row in table.rows] == [compare.LABELS["ads"], compare.LABELS["hybrid"]]
    with speed.Checkout(ROOT) as here, pytest.raises(RuntimeError, match="ads on no such problem failed"):
        here.rate("no such problem", "ads", 100, 0)


def test_results_name_no_machine() -> None:
    text = json.dumps(common.environment())
    host = subprocess.run(["uname", "-n"], capture_output=True, text=True, check=False).stdout.strip()
    assert not host or host not in text
    assert str(ROOT) not in text


def test_startup_is_measured_and_failures_are_not_taken_for_speed(tmp_path, monkeypatch):
    def in_this_process(command: list[str], _, **environment: str) -> startup.Times:
        if command[1:3] == ["-m", "whichvars"]:
            assert CliRunner().invoke(whichvars_main, command[3:]).exit_code in (0, 3), command
        return startup.Times(float(len(command)), 2.0)

    with pytest.raises(RuntimeError, match=r"[Nn]o such option"):
        startup.times([*startup.WHICHVARS, "--nonsense"], tmp_path / "bytecode")
    assert list((tmp_path / "bytecode").rglob("*.pyc")), "as a user's Python does"
    monkeypatch.setattr(startup, "times", in_this_process)
    out = tmp_path / "startup.json"
    result = CliRunner().invoke(main, ["startup", "--repeats", "1", "--out", str(out), "--markdown"])
    assert result.exit_code == 0, result.output
    assert "| import whichvars | 3.00 | 3.00 | 2.00 | 0 | < 1 |  |  |" in result.output
    rows = {row["what"]: row for row in json.loads(out.read_text())["rows"]}
    assert 0 < rows["second whichvars fit, 41 variables"]["sampling_cpu_seconds"][0] < 60


def test_first_answers_take_turns_with_a_baseline_and_a_wheel(tmp_path, monkeypatch):
    seen: list[tuple[str, str, str]] = []

    def instead(command: list[str], _, **there: str) -> startup.Times:
        assert not list(Path(there["WHICHVARS_CACHE_DIR"]).iterdir())
        seen.append((command[0], command[-1], there["PYTHONPATH"]))
        if command[0] == "installed":
            return startup.Times(3.0, 2.0)
        return startup.Times(0.0, 40.0 if str(tmp_path) in there["PYTHONPATH"] else 10.0)

    monkeypatch.setattr(startup, "times", instead)
    names, wheel = ("default", "exact"), Path("installed")
    found = startup.first_answers(names, tmp_path, 2, lambda text: None, wheel)
    who = [(sys.executable, str(startup.PACKAGE / "src")), (sys.executable, str(tmp_path / "src")), ("installed", "")]  # fmt: skip
    assert seen == [(python, name, where) for name in names for python, where in who * 2]
    _, table = startup.tables({"rows": [], **found})
    assert table.rows == [[name, "10.0", "40.0", "0.250", "2.00", "3.00"] for name in names]
    (alone,) = startup.first_answers(("exact",), None, 1, lambda text: None)["first_answers"]
    assert alone == {"what": "exact", "cpu_seconds": [10.0], "seconds": [0.0]}


def test_further_answers_find_what_the_default_has_compiled(tmp_path, monkeypatch):
    found: list[tuple[str, list[str]]] = []

    def instead(command: list[str], _, **there: str) -> startup.Times:
        cache = Path(there["WHICHVARS_CACHE_DIR"])
        cache.mkdir(exist_ok=True)
        found.append((command[-1], [file.name for file in cache.iterdir()]))
        (cache / command[-1]).touch()
        return startup.Times(0.0, 20.0 if str(tmp_path) in there["PYTHONPATH"] else 4.0)

    monkeypatch.setattr(startup, "times", instead)
    result = startup.further_answers(("default", "ASI", "exact"), tmp_path, lambda text: None)
    assert found == [("default", []), ("ASI", ["default"]), ("exact", ["default"])] * 2
    _, table = startup.tables({"rows": [], **result})
    assert table.rows == [[name, "4.00", "20.0", "0.200"] for name in ("ASI", "exact")]


def test_simulated_genotypes_are_written_as_they_are_read(tmp_path, monkeypatch):
    path = tmp_path / "g.bed"
    wide.write_bed(path, 130, n=90)
    found = wv.read_bed(path)
    assert (np.concatenate(list(wide.genotypes(130, n=90))) == found.values.T).all()
    neighbours = np.corrcoef(found.values.T.astype(float))[np.arange(129), np.arange(1, 130)]
    starts = (np.arange(1, 130) % wide.LINKED) == 0
    assert np.abs(neighbours[starts]).max() < 0.5 < neighbours[~starts].mean()
    monkeypatch.setattr(wide, "SAMPLERS", {"AddDeleteSwap": 300})
    sizes = [wide.run_size(path, ["AddDeleteSwap"]) for _ in range(2)]
    assert [size["p"] for size in sizes] == [130, 130]
    text = page.section("wide", {"environment": common.environment(), "sizes": sizes, "rows": 90})
    assert "**Iterations per CPU second**" in text
    assert text.count("| 130 |") == 2


def test_many_columns_in_one_row_a_run():
    row = {
        "seed": 1, "prior": "fixed", "stopped": "target_mcse", "converged": True, "cpu_seconds": 59.3, "bytes": 9.2e8, "error": 0.0107,
        "worst_pip": 0.053, "fits": 83363,
    }  # fmt: skip
    result = {
        "environment": common.environment(),
        "rows": [row],
        "columns": 20_000,
        "target": 0.02,
        "budget": 600.0,
        "apart": [0.03],
    }
    text = page.section("columns", result)
    assert "| seed 1 | fixed | target_mcse | 0.0107 | 0.0530 | 59.3 | 920 | 83,363 | converged |" in text
    assert "differ by at most 0.0300" in text


def test_genetics_compares_errors_with_those_claimed(monkeypatch):
    for name, value in {
        "VARIANTS": 60,
        "PEOPLE": 120,
        "CHECKED": 2,
        "LONG": 2000,
        "COHORT": 150,
        "COVARIATES": 2,
        "DRAWS": 500,
        "MODELS": 20,
        "BEST": 5,
    }.items():
        monkeypatch.setattr(genetics, name, value)
    result = genetics.measure(4, 80, lambda text: None)
    first, second = genetics.tables(result)
    assert first.rows[0][0] == "4"
    assert result["traits"]["largest_difference"] < 0.2
    # the same posterior, whichever way covariates are given; the runs have random numbers of their own
    compared = result["covariates"]
    assert compared["log_posteriors"] < 1e-9 * compared["largest_log_posterior"]
    assert compared["largest_log_posterior"] > 1
    assert 0 < compared["largest_score"] < 5
    assert "30 models" in second.note
    assert len(second.rows) == 2


# --- reliability
# ----------------------------------------------------------------------------------------------------------


def test_soak_says_what_checkpoints_cost(only_tiny: Path) -> None:
    stored = common.plain(soak.measure(0.06, "0.5s", "tiny", say=lambda _: None))
    assert len(stored["files"]) >= 4
    assert all(file["bytes"] > 0 for file in stored["files"])
    text = page.section("soak", stored)
    assert "**Its checkpoints**" in text
    assert "share of the processors' time" in text
    assert text.count("|\n") > 8


def test_stopping_counts_runs_that_reached_the_target(only_tiny: Path, tiny: wv.Problem) -> None:
    references.save("tiny", references.make(tiny, minutes=1))
    rows = stopping.measure(["tiny"], 0.01, 2, 60, say=lambda _: None)["rows"]
    text = stopping.tables({"target": 0.01, "rows": rows})[0].markdown()
    assert "| tiny | 2 of 2 |" in text
    assert "| 2 of 2 |\n" in text
    for row in rows[0]["runs"]:
        row["worst"] = 0.05
    rows[0]["runs"][0]["stopped"] = "budget"
    text = stopping.tables({"target": 0.01, "rows": rows})[0].markdown()
    assert "| tiny | 1 of 2 |" in text
    assert "| 0 of 1 |" in text


def test_strong_evidence_beside_all_models(only_tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strong, "TS", (40,))
    monkeypatch.setattr(strong, "BLOCK_CASES", strong.BLOCK_CASES[1:])
    monkeypatch.setattr(strong, "COPIES", 4)
    strong.block_truth.cache_clear()
    names = "Hybrid(),AddDeleteSwap(),ASI()"
    arguments = ["strong", "--runs", "2", "--draws", "3000", "--block-draws", "3000", "--samplers", names]
    result = CliRunner().invoke(main, [*arguments, "--markdown"])
    strong.block_truth.cache_clear()
    assert result.exit_code == 0, result.output
    stored = json.loads((common.RESULTS / "strong.json").read_text())
    assert [row["sampler"] for row in stored["near_copy"]] == names.split(",")
    assert [row["sampler"] for row in stored["blocks"]] == ["Hybrid()", "AddDeleteSwap()"]
    text = page.section("strong", stored)
    assert "| all models | 0.7132, 0.3616 |" in text
    for row in stored["near_copy"]:
        assert row["exact"] == pytest.approx([0.7132, 0.3616], abs=1e-4)
        assert row["pip"]["estimate"] == pytest.approx(row["exact"], abs=0.05), row["sampler"]
    assert "| Hybrid() | 0.71" in text
    assert text.count("| Hybrid(), shares of draws |") == 2
    assert "n = 10,000,000" in text


def test_scores_of_strong_evidence_are_in_units_of_claimed_errors() -> None:
    """Two runs that are off by two and by no errors; what is not known does not count; rounding is not divided by."""
    nan = float("nan")
    exact = np.array([0.5, 0.25, 0.0])
    runs = []
    for off in (0.02, 0.0):
        value = np.add(exact, [off, -off, 0.0])
        error = np.array([0.01, 0.01, nan])
        runs.append(
            ({"pip": (value, error, value - exact), "frequencies": (exact, 0 * exact, 0 * exact)}, off == 0)
        )
    found = strong._together(runs)
    assert found["converged"] == 1
    assert found["pip"]["rms"] == pytest.approx(np.sqrt(2))
    assert found["pip"]["estimate"] == pytest.approx([0.51, 0.24])
    assert found["pip"]["error"] == pytest.approx([0.01 / np.sqrt(2)] * 2)
    assert found["pip"]["largest"] == pytest.approx(0.02)
    assert found["frequencies"]["rms"] == 0


def test_calibration_of_a_few_data_sets(only_tiny: Path) -> None:
    arguments = [
        "calibration",
        "--sets",
        "3",
        "--draws",
        "500",
        "--picture",
        str(only_tiny / "c.png"),
        "--markdown",
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert (only_tiny / "c.png").stat().st_size > 10_000
    stored = json.loads((common.RESULTS / "calibration.json").read_text())
    assert sum(row["n"] for row in stored["reliability"]) == 3 * calibration.P
    assert "model size" in page.section("calibration", stored)


def test_calibration_sees_what_is_not_calibrated() -> None:
    rng = np.random.default_rng(0)
    ranks = rng.integers(calibration.DRAWS + 1, size=1000)
    assert calibration.uniformity(ranks) > 0.01
    assert calibration.uniformity(ranks // 2) < 1e-6
    pip = rng.random(5000)
    good = calibration.reliability(pip, rng.random(5000) < pip)
    bad = calibration.reliability(pip, rng.random(5000) < pip**2)
    assert max(abs(row["z"]) for row in good) < 4
    assert max(abs(row["z"]) for row in bad) > 6
    equal = [calibration.rank(0.0, np.zeros(calibration.DRAWS), rng) for _ in range(1000)]
    assert calibration.uniformity(np.array(equal)) > 0.01  # ties are split at random


def test_tall_data_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tall, "ROW_GROUP", 300)
    said: list[str] = []
    result = common.plain(tall.measure(1005, 1, said.append))
    rows = {(entry["task"], entry["files"]): entry["runs"][0]["rows"] for entry in result["measured"]}
    assert rows == {
        ("nothing", 1): 0, ("read", 1): 101, ("statistics", 1): 101,
        ("nothing", 10): 0, ("read", 10): 1005, ("statistics", 10): 1005,
    }  # fmt: skip
    (table,) = tall.tables(result)
    assert [row[0] for row in table.rows] == ["101", "1,005"]
    assert len(table.rows[0]) == len(table.columns)
    assert "10 files" in table.note
    folder = tmp_path / "data"
    folder.mkdir()
    tall.write_folder(folder, 2000, columns=40)
    found = wv.SufficientStatistics.from_files(folder, "y")
    assert found.n == 2000
    assert found.means["x39"] == pytest.approx(1e6, abs=1)


def test_a_table_with_categories_and_holes_end_to_end(only_tiny: Path) -> None:
    command = [
        "messy",
        "--rows",
        "400",
        "--holes",
        "0.02",
        "--ways",
        "drop,impute",
        "--budget",
        "4000",
        "--markdown",
    ]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    stored = json.loads((common.RESULTS / "messy.json").read_text())
    dropped, imputed = stored["measured"]
    assert imputed["rows"] == 400
    kept = 400 * 0.98**messy.WITH_HOLES  # holes are independent
    assert abs(dropped["rows"] - kept) < 4 * np.sqrt(kept * (1 - kept / 400))
    for found in (dropped, imputed):
        assert found["cpu_seconds"] > 0
        assert found["peak_bytes"] > 1e7
        assert found["report_bytes"] > 10_000
    assert "| impute | 400 |" in result.output
    assert "< 240" not in result.output  # what is wanted is wanted of 200,000 rows
    assert "< 240" in page.section("messy", stored | {"rows": 200_000, "budget": None})


def test_candidates_for_the_default_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    crime = wv.datasets.load_uscrime()
    few = crime._replace(X=crime.X.iloc[:, :5])
    monkeypatch.setattr(default_prior, "real_data", lambda: {"crime": few})
    monkeypatch.setattr(default_prior, "SETTINGS", [(60, 8, 0), (60, 8, 2)])
    result = common.plain(default_prior.measure(200, 2, 1, lambda line: None))
    scores = result["real"]["crime"]
    assert scores["IndependentNormal(1)"]["difference"] == 0
    for slab, score in scores.items():
        assert score["mean"] == pytest.approx(scores["IndependentNormal(1)"]["mean"] + score["difference"]), (
            slab
        )
    predictions, false, true, brier = default_prior.tables(result)
    assert [len(t.rows) for t in (predictions, false, true, brier)] == [
        len(default_prior.CANDIDATES),
        2,
        1,
        2,
    ]
    assert all(len(row) == len(t.columns) for t in (predictions, false, true, brier) for row in t.rows)
    assert all(0 <= float(share) <= 1 for share in true.rows[0][3:])


def test_simulated_effects_have_the_t_values_they_should() -> None:
    X, y, real = default_prior.simulate(20_000, 5, 2, np.random.default_rng(1))
    slopes, *_ = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)
    t = slopes / np.sqrt(np.diag(np.linalg.inv((X - X.mean(axis=0)).T @ (X - X.mean(axis=0)))))
    assert (np.abs(t[real]) > default_prior.SMALLEST - 3).all()
    assert (np.abs(t[real]) < default_prior.LARGEST + 3).all()
    assert (np.abs(t[~real]) < 4.5).all()


def test_tall_ratios_are_ours_over_reading_alone() -> None:
    def runs(*seconds: float) -> dict[str, Any]:
        return {"runs": [{"seconds": s} for s in seconds]}

    assert tall.ratio(runs(2, 3, 8), runs(1, 1, 2), "seconds") == "3.00 (2.00 – 4.00)"


def test_credible_sets_are_those_of_the_data_and_are_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(credible_sets, "EFFECTS", (2,))
    monkeypatch.setattr(credible_sets, "SHARE", 0.1)
    monkeypatch.setattr(credible_sets, "FLIPPED", 1)
    people = np.arange(40)[:, None] * np.ones(500)
    new = credible_sets.mosaics(people, 30, np.random.default_rng(0))
    changes = (np.diff(new, axis=1) != 0).mean()
    assert 0.5 / credible_sets.SEGMENT < changes < 2 / credible_sets.SEGMENT
    data = credible_sets.simulate(2, 300, 200, 0)
    assert data.X.shape[1] == len(data.panel)
    fits = [stats.linregress(data.X[:, j], data.y) for j in data.causal]
    assert credible_sets.scores(data.X, data.y)[data.causal] == pytest.approx(
        [f.slope / f.stderr for f in fits]
    )
    methods = (
        "whichvars",
        "whichvars, given the signal",
        "whichvars, panel",
        "whichvars, panel, given the signal",
    )
    monkeypatch.setattr(credible_sets, "PASSES", (methods[::2], ("flip",)))
    keep = tmp_path / "rows.jsonl"

    def run(data_sets: int, n: int = 300) -> list[dict[str, Any]]:
        return credible_sets.measure(data_sets, n, 200, lambda text: None, keep)["rows"]

    first, rows = run(1), run(2)
    # what was done is not done again, and is the same
    assert rows[: len(first)] == first
    assert [(row["data"], row["method"]) for row in rows] == [
        *((0, m) for m in methods),
        (0, "flip"),
        *((1, m) for m in methods),
    ]
    assert [json.loads(line) for line in keep.read_text().splitlines()[1:]] == rows
    with pytest.raises(SystemExit, match="other settings"):
        run(2, n=301)
    assert rows[4]["flip"]["same people"] == "named"
    ours = [row for row in rows if row["method"] == "whichvars"]
    assert sum(len(row["sets"]) for row in ours) >= 2
    assert all(row["covering"] <= len(row["sets"]) and row["found"] <= 2 for row in ours)
    rates, differences, _, flips = credible_sets.tables(
        {"rows": rows, "n": 300, "data_sets": 2, "panel": 200}
    )
    assert [row[:2] for row in rates.rows] == [[effects, m] for effects in ("2", "all") for m in methods]
    power = sum(row["found"] for row in ours) / 4
    assert rates.rows[0][4].startswith(f"{power:.3f}")
    assert differences.rows == []
    assert flips.rows[0] == ["same people", "1", "1", "0", "0"]


def test_sets_are_counted_by_the_probability_of_their_signals() -> None:
    """Two effects, 1 and 5; a false set, of a signal with a probability of 0.7, and a true one of 0.85."""
    own = {
        "effects": 2, "data": 0, "method": "whichvars, given the signal", "refused": "", "seconds": 1.0, "causal": [1, 5],
        "sets": [[1, 2], [4], [5]], "signals": [0.99, 0.7, 0.85], "covering": 2, "found": 2,
    }  # fmt: skip
    other = own | {"method": "susieR", "sets": [[1], [9]], "covering": 1, "found": 1}
    del other["signals"]
    rates, differences, by_signal = credible_sets.tables({"rows": [own, other], "n": 1, "data_sets": 1, "panel": 1})  # fmt: skip
    assert credible_sets.SIGNAL == 0.8
    assert rates.rows[0][:3] == ["2", "whichvars, given the signal", "2"]
    assert rates.rows[0][3:5] == ["1.000 ± 0.000", "1.000 ± 0.000"]
    assert differences.rows[0][4] == "–"
    counted = {row[1]: (row[2], row[3][:5], row[4][:5]) for row in by_signal.rows}
    assert counted["0.5"] == ("3", "0.667", "1.000")
    assert counted["0.8"] == ("2", "1.000", "1.000")
    assert counted["0.9"] == ("1", "1.000", "0.500")
    first = credible_sets.paired([credible_sets.at_least(own, 0.9), other], own["method"], "susieR")
    assert first[["power", "false"]].to_numpy().tolist() == [[0.0, -1]]


def test_differences_are_between_sets_that_share_a_variant() -> None:
    def row(
        data: int, method: str, sets: list[list[int]], found: int, covering: int, refused: str = ""
    ) -> dict[str, Any]:
        return {
            "effects": 2,
            "data": data,
            "method": method,
            "sets": sets,
            "found": found,
            "covering": covering,
            "refused": refused,
            "seconds": 1.0,
        }

    rows = [
        row(0, "whichvars", [[1, 2, 3], [7]], 2, 2), row(0, "susieR", [[2], [9, 10]], 1, 1),
        row(1, "whichvars", [[4]], 1, 1), row(1, "susieR", [[4, 5]], 1, 1),
        row(2, "whichvars", [], 0, 0, "refused"), row(2, "susieR", [[1]], 1, 1),
    ]  # fmt: skip
    found = credible_sets.paired(rows, "whichvars", "susieR")
    assert sorted(found["power"]) == [0.0, 0.5]
    assert sorted(found["false"]) == [-1, 0]
    assert sorted(found["size"]) == [-1.0, 2.0]
    assert sorted(found["log_size"]) == pytest.approx([-np.log(2), np.log(3)])
    (table,) = [t for t in credible_sets.tables({"rows": rows, "n": 1, "data_sets": 3, "panel": 1}) if "Paired" in t.title]  # fmt: skip
    assert table.rows[-1][:3] == ["whichvars – susieR", "all", "2"]
    assert table.rows[-1][3] == "+0.250 ± 0.250"
    assert table.rows[-1][6] == "+0.50 ± 1.50"
