"""The paper's figures run at a tiny size and write their files; its claims are judged rightly, both ways."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import whichvars as wv
from whichvars.errors import DataError

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # papers/ is no part of the installed package

from benchmarks import boston  # noqa: E402
from papers.individual_adaptation import (  # noqa: E402
    boston_models,
    boston_particles,
    boston_tempering,
    boston_trips,
    boston_wmse,
    geo,
    independent,
    page,
    particles,
    pcr_correlation,
    pcr_pips,
    pcr_runs,
    pcr_screening,
    pcr_sizes,
    pcr_time,
    pcr_traces,
    published,
    stored,
    summaries,
    tecator_adaptation,
    tecator_changes,
    tecator_ess,
    tecator_mutation,
    tecator_pips,
    tecator_traces,
)
from papers.individual_adaptation.__main__ import FIGURES, main, make  # noqa: E402
from papers.individual_adaptation.study import (  # noqa: E402
    FULL,
    QUICK,
    Claim,
    Effort,
    Section,
    Study,
    TooFewRunsError,
    worst_difference,
)
from papers.individual_adaptation.summaries import Summary  # noqa: E402

TINY = Effort(
    name="tiny",
    tecator_draws=2000,
    tecator_runs=1,
    all_taus=False,
    adaptation_runs=2,
    trace_draws=200,
    model_draws=2000,
    wmse_runs=2,
    wmse_few_runs=1,
    wmse_scale=0.0005,
    variant_runs=2,
    wmse_taus=(0.25, 0.45),
    pcr_part=1 / 20_000,
    timed_part=1 / 20_000,
    pcr_p=200,
    screen=40,
    threads=2,
)
SLOW = (
    "boston_wmse",
    "boston_trips",
    "boston_particles",
    "boston_tempering",
    "boston_bottlenecks",
    "boston_learning",
)  # sequential Monte Carlo and the second program compile for long


def files_of(out: Path, name: str) -> dict[str, Any]:
    """The section that a figure wrote, all its files being there and none of them empty."""
    section = json.loads((out / f"{name}.json").read_text())
    for file, caption in section["figures"]:
        assert caption
        assert (out / file).stat().st_size > 5000
        assert (out / file).with_suffix(".svg").stat().st_size > 5000
    for file, _ in section["tables"]:
        with (out / file).open(newline="") as opened:
            columns, *rows = csv.reader(opened)
        assert rows
        assert all(len(row) == len(columns) for row in rows)
    assert section["figures"]
    assert section["tables"]
    assert section["claims"]
    return section


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All figures but the slow ones."""
    out = tmp_path_factory.mktemp("paper")
    make(Study(TINY, out), tuple(name for name in FIGURES if name not in SLOW), "a test")
    return out


@pytest.mark.parametrize("name", [name for name in FIGURES if name not in SLOW])
def test_every_figure_writes_its_files(tiny: Path, name: str) -> None:
    section = files_of(tiny, name)
    assert section["mode"] == "tiny"
    assert section["environment"]["commit"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_the_slow_figures_write_their_files(tmp_path: Path, name: str) -> None:
    if name == "boston_particles":  # it is judged beside simple MH
        (tmp_path / "boston_wmse.csv").write_bytes(
            (page.DOCS / page.NUMBERS / "boston_wmse.csv").read_bytes()
        )
    make(Study(TINY, tmp_path), (name,), "a test")
    files_of(tmp_path, name)


def test_the_page_has_every_claim_and_says_where_it_comes_from(tiny: Path) -> None:
    text = (tiny / "README.md").read_text()
    sections = page.read_sections(tiny, FIGURES)
    for section in sections.values():
        assert f"## {section['title']}" in text
        assert section["environment"]["commit"] in text
        assert section["environment"]["date"] in text
        for claim in section["claims"]:
            assert claim["statement"].replace("|", "\\|") in text
            assert claim["why"].replace("|", "\\|") in text
        for file, _ in section["figures"]:
            assert f"]({file})" in text
    assert "`a test`" in text
    assert f"Not made: {', '.join(SLOW)}" in text


def test_the_documentation_gets_a_small_copy(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = tmp_path / "paper"
    docs.mkdir()
    (docs / "old.png").write_text("from before")
    size = page.copy_to_docs(tiny, FIGURES, docs)
    assert size < 2_000_000
    assert (docs / "index.md").read_text() == (tiny / "README.md").read_text()
    shown = set(re.findall(r"\]\((\w+\.png)\)", (docs / "index.md").read_text()))
    assert {file.name for file in docs.iterdir()} == shown | {"index.md", page.NUMBERS}
    sections = page.read_sections(docs / page.NUMBERS, FIGURES)
    assert sections == page.read_sections(tiny, FIGURES)
    for table in ("pcr_agreement.csv", "pcr_default.csv", "boston_models.csv"):
        assert (docs / page.NUMBERS / table).read_text() == (tiny / table).read_text()
    monkeypatch.setattr(page, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="more than 1,000"):
        page.copy_to_docs(tiny, FIGURES, docs)
    assert (docs / "index.md").exists()


def test_runs_are_shared_between_figures(tmp_path: Path) -> None:
    study = Study(TINY, tmp_path)
    calls: list[int] = []
    for _ in range(2):
        study.once("x", lambda: calls.append(1))
    assert calls == [1]


def same_summaries(one: Summary, other: Summary) -> None:
    for field in fields(Summary):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        assert np.array_equal(mine, theirs, equal_nan=True) if isinstance(mine, np.ndarray) else mine == theirs, field.name  # fmt: skip


def test_what_is_kept_of_a_run_is_read_again_as_it_was(tmp_path: Path) -> None:
    data = wv.datasets.load_uscrime()
    problem = wv.Problem(data.X.iloc[:, :6], data.y)
    for sampler in (wv.ParallelTempering(rungs=3, chains=2), wv.Hybrid()):
        posterior = wv.sample(problem, sampler, draws=2000, replicates=2, seed=0, progress=False)
        summary = Summary.of(posterior, {"commit": "abc"})
        summary.save(tmp_path / "runs" / "a.npz")
        same_summaries(Summary.load(tmp_path / "runs" / "a.npz"), summary)
        seen = posterior.pip >= summaries.SMALLEST
        assert seen.any()
        assert len(summary.ladder_pips) == len(summary.log_posteriors)
        assert posterior.trace is not None
        assert posterior.trace_models is not None
        last = ((posterior.trace["replicate"] == 1) & (posterior.trace["chain"] == posterior.trace["chain"].max())).to_numpy()  # fmt: skip
        of_last = np.asarray(posterior.trace_models[np.flatnonzero(last)].mean(axis=0)).ravel()
        assert summary.ladder_pips[-1][seen] == pytest.approx(of_last[seen], abs=1e-6)
        assert summary.pip[seen] == pytest.approx(posterior.pip[seen], abs=1e-6)
        assert summary.replicate_pips.shape == (2, 6)
        assert posterior.trace is not None
        together = posterior.trace[posterior.trace["iteration"] == summary.iteration[0]]
        assert summary.mean_sizes[0] == together["size"].mean()
        assert len(summary.mean_sizes) == posterior.trace["iteration"].nunique()
        assert (np.diff(summary.log_posterior) <= 0).all()
        place = summary.members.index(tuple(posterior.models.members[0]))
        members = list(summary.members[place])
        wanted = problem.log_marginal(members) + problem.log_prior(members)
        assert summary.log_posterior[place] == pytest.approx(wanted)
    assert (summary.round_trips, len(summary.temperatures)) == (None, 0)


def full_length(folder: Path) -> Study:
    """A tiny study whose runs count as runs of the paper's length."""
    return Study(replace(TINY, name=FULL.name), folder, kept=folder)


@pytest.fixture
def as_long_as_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny runs have the length that the paper's are asked to have."""
    monkeypatch.setattr(published, "PCR_ITERATIONS", 1000)


@pytest.mark.usefixtures("as_long_as_the_papers")
def test_long_runs_that_come_with_the_program_are_taken(tmp_path: Path) -> None:
    whole = pcr_runs.all_runs(full_length(tmp_path / "kept"))
    assert len(list((tmp_path / "kept").glob("pcr_*.npz"))) == 12
    said: list[str] = []
    found = pcr_runs.all_runs(Study(TINY, tmp_path / "second", said.append, kept=tmp_path / "kept"))
    assert sum("runs of the paper's length" in line for line in said) == 4
    for key, runs in whole.items():
        for one, other in zip(runs, found[key]):
            same_summaries(one, other)


@pytest.mark.usefixtures("as_long_as_the_papers")
def test_long_runs_of_another_program_are_made_again(tmp_path: Path) -> None:
    """The same names, but other data, another length, or kernels that give other results."""
    study = full_length(tmp_path)
    target = pcr_runs.problem(study, pcr_runs.FIXED)
    runs, _ = pcr_runs.three_runs(study, target, 5, "a")
    names, program = ["a_1", "a_2", "a_3"], runs[0].about["program"]
    assert study.finished(names, program) is not None
    assert study.finished([*names, "no such run"], program) is None
    ladder, draws = pcr_runs.sampler(5), 1000 * 10 // 11

    def program_of(target: wv.Problem, draws: int) -> str:
        return pcr_runs.program_of(full_length(tmp_path), target, ladder, "a", draws)

    assert program_of(target, draws) == program
    other = pcr_runs.problem(study, pcr_runs.FIXED, np.arange(TINY.pcr_p - 1))
    different = {program_of(other, draws), program_of(target, draws + 1), program_of(pcr_runs.problem(study, pcr_runs.HIERARCHICAL), draws)}  # fmt: skip
    assert len(different | {program}) == 4
    made: list[str] = []

    def compute() -> wv.Posterior:
        made.append("again")
        return pcr_runs.one_run(tmp_path / "never", target, ladder, 1, draws)

    for wrong in different:
        assert study.finished(names, wrong) is None
        study.kept_run("b", wrong, compute)
        study.kept_run("b", wrong, compute)
    assert made == ["again"] * 3  # once for each program


def test_a_long_run_that_was_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = wv.datasets.load_uscrime()
    problem, ladder = wv.Problem(data.X.iloc[:, :6], data.y), pcr_runs.sampler(2)
    whole = pcr_runs.one_run(tmp_path / "never", problem, ladder, 5, 4000)
    assert not (tmp_path / "never").exists()  # a short run is not saved on its way
    monkeypatch.setattr(pcr_runs, "LONG", 1000)
    directory = tmp_path / "unfinished"

    real = pcr_runs.once

    def interrupted(*arguments: Any, **more: Any) -> None:
        real(*arguments, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(pcr_runs, "once", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pcr_runs.one_run(directory, problem, ladder, 5, 4000)
    assert list(directory.iterdir())  # it was stopped before the folder was removed
    monkeypatch.setattr(pcr_runs, "once", real)
    again = pcr_runs.one_run(directory, problem, ladder, 5, 4000)
    assert (again.pip == whole.pip).all()
    assert not directory.exists()
    directory.mkdir()
    wv.sample(problem, ladder, draws=1000, replicates=1, seed=1, progress=False, checkpoint=directory)
    other = pcr_runs.one_run(directory, problem, ladder, 5, 4000)  # what was there belongs to another run
    assert (other.pip == whole.pip).all()


def test_a_study_can_begin_with_the_documentation(tmp_path: Path) -> None:
    out, docs = tmp_path / "out", tmp_path / "docs"
    (docs / page.NUMBERS).mkdir(parents=True)
    (docs / page.NUMBERS / "a.json").write_text("theirs")
    (docs / page.NUMBERS / "b.csv").write_text("theirs")
    (docs / "a.png").write_text("a picture")
    (docs / "index.md").write_text("the page")
    out.mkdir()
    (out / "a.json").write_text("mine")
    page.copy_from_docs(out, docs)
    found = {file.name: file.read_text() for file in out.iterdir()}
    assert found == {"a.json": "mine", "b.csv": "theirs", "a.png": "a picture"}


def test_sizes_and_times_are_on_the_page() -> None:
    def section(mode: str, seconds: float, **more: Any) -> dict[str, Any]:
        return {"title": f"{mode} {seconds:g}", "mode": mode, "seconds": seconds, "environment": {"cpus": 2, "date": "d"}, **more}  # fmt: skip

    sections = {
        "boston_wmse": section("quick", 7.0, smaller="20 runs instead of 60"),
        "tecator_pips": section("quick", 8.0, smaller=""),
        "tecator_ess": section("full", 600.0, smaller=""),
        "pcr_pips": section("quick", 9.0, smaller="", kept_cpu_seconds=3600.0),
        "pcr_sizes": section("full", 10.0, smaller="a tenth", kept_cpu_seconds=5400.0),
    }
    text = "\n".join(page.sizes_and_times(sections))
    assert "3 of the 5 sections are of full size" in text
    assert "2.5 hours of CPU time" in text
    assert "makes the runs that are missing" in text
    for words in ("| quick 7 | 20 runs instead of 60 | 7.0 s on 2 CPUs", "| quick 8 | full | 8.0 s on 2 CPUs | d |", "| full 600 | full | 10 min on 2 CPUs",
                  "| quick 9 | full | 60 min of CPU time | d |", "| full 10 | a tenth | 90 min of CPU time"):  # fmt: skip
        assert words in text
    complete = {name: s for name, s in sections.items() if not s["smaller"]}
    text = "\n".join(page.sizes_and_times(complete))
    assert "All 3 sections are of full size" in text
    assert "makes the runs that are missing" not in text
    assert "The others" not in text


# --- runs that are kept
# ----------------------------------------------------------------------------------------------------------


class Counted:
    """Runs whose results depend on the setting and the seed, and on the version of the program; those of full size are counted."""

    def __init__(self, version: float = 0.0) -> None:
        self.made: list[tuple[str, int]] = []
        self.version = version

    def __call__(self, setting: dict[str, Any], seed: int) -> dict[str, Any]:
        if setting["draws"] > SMALL["draws"]:
            self.made.append((setting["method"], seed))
        value = 0.1 * seed + len(setting["method"]) + self.version
        return {"value": value, "cpu_seconds": 1.0 + len(self.made), "count": seed, "unknown": None}


SMALL = {"draws": 10}
SETTINGS = [{"method": "MH", "tau": None, "draws": 100}, {"method": "PT, m = 8", "tau": 0.25, "draws": 100}]
BOTH = [(setting["method"], seed) for seed in (1, 2) for setting in SETTINGS]


def kept_results(folder: Path, run: Counted, seeds: tuple[int, ...] = (1, 2), settings: Any = SETTINGS, **more: Any) -> Any:  # fmt: skip
    study = Study(replace(TINY, threads=1), folder / "results", kept=folder / "kept", **more)
    return study.results("t", settings, seeds, run, SMALL)


def test_a_run_that_is_kept_is_not_made_again(tmp_path: Path) -> None:
    first, second = Counted(), Counted()
    found = kept_results(tmp_path, first)
    assert first.made == BOTH  # settings take turns
    assert [[row["count"] for row in rows] for rows in found] == [[1, 2], [1, 2]]
    assert found[1][0]["value"] == 9.1
    assert np.isnan(found[0][0]["unknown"])
    again = kept_results(tmp_path, second)
    assert second.made == []
    assert repr(again) == repr(found)  # NaN included
    (row, *_) = stored.reader(tmp_path / "kept")("t")
    assert re.fullmatch(r"[0-9a-f]{10}\+?|unknown", row["commit"])


@pytest.mark.parametrize(
    ("seeds", "settings", "made"),
    [
        ((1, 2, 3), SETTINGS, [("MH", 3), ("PT, m = 8", 3)]),
        ((1, 2), [{**SETTINGS[1], "tau": 0.35}], [("PT, m = 8", 1), ("PT, m = 8", 2)]),
        ((1, 2), [{**SETTINGS[1], "draws": 101}], [("PT, m = 8", 1), ("PT, m = 8", 2)]),
        ((1, 2), [{**SETTINGS[1], "method": "PT"}, SETTINGS[0]], [("PT", 1), ("PT", 2)]),
    ],
)
def test_runs_of_another_seed_or_setting_are_made(tmp_path: Path, seeds: Any, settings: Any, made: Any) -> None:  # fmt: skip
    kept_results(tmp_path, Counted())
    other = Counted()
    kept_results(tmp_path, other, seeds, settings)
    assert other.made == made
    unchanged = Counted()
    kept_results(tmp_path, unchanged)
    assert unchanged.made == []


def test_runs_of_a_program_that_gives_other_results_are_made_again(tmp_path: Path) -> None:
    """Its short runs tell. Differences in the last bits, as between processors, do not count."""
    kept_results(tmp_path, Counted())
    same, changed = Counted(1e-12), Counted(1e-3)
    kept_results(tmp_path, same)
    assert same.made == []
    assert kept_results(tmp_path, changed)[0][0]["value"] == 2.101
    assert changed.made == BOTH
    assert len(stored.reader(tmp_path / "kept")("t")) == 4  # the others are gone


def test_each_run_is_kept_when_it_ends(tmp_path: Path) -> None:
    class Stopped(Counted):
        def __call__(self, setting: dict[str, Any], seed: int) -> dict[str, Any]:
            if len(self.made) == 3:
                raise KeyboardInterrupt
            return super().__call__(setting, seed)

    with pytest.raises(KeyboardInterrupt):
        kept_results(tmp_path, Stopped())
    rest = Counted()
    kept_results(tmp_path, rest)
    assert rest.made == BOTH[3:]


def test_no_run_is_begun_when_time_is_up(tmp_path: Path) -> None:
    kept_results(tmp_path, Counted(), seeds=(1,))
    late = Counted()
    found = kept_results(tmp_path, late, deadline=0.0)
    assert late.made == []
    assert [len(rows) for rows in found] == [1, 1]
    with pytest.raises(TooFewRunsError):
        Study(TINY, tmp_path, deadline=0.0).kept_run("a", "b", lambda: pytest.fail("was run"))


def test_runs_that_are_not_due_are_left_out(tmp_path: Path) -> None:
    run = Counted()
    study = Study(TINY, tmp_path)
    found = study.results("t", SETTINGS, (1, 2), run, SMALL, lambda setting, place: place == 0 or setting["method"] == "MH")  # fmt: skip
    assert [len(rows) for rows in found] == [2, 1]


def test_runs_on_other_data_are_not_kept_with_the_program(tmp_path: Path) -> None:
    assert Study(TINY, tmp_path, gene_data=object(), kept=tmp_path / "program").kept == tmp_path / "kept"
    assert Study(TINY, tmp_path, kept=tmp_path / "program").kept == tmp_path / "program"


def test_a_section_whose_runs_are_missing_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "boston_models.json").write_text(json.dumps({"title": "from before"}))
    study = Study(TINY, tmp_path, deadline=0.0)
    with pytest.raises(KeyError):  # the page is written, and what is there is no section
        make(study, ("boston_models",), "a test")
    assert json.loads((tmp_path / "boston_models.json").read_text()) == {"title": "from before"}


def test_tables_of_sections_are_the_same_from_runs_that_are_kept(tiny: Path, tmp_path: Path) -> None:
    """Nothing is run, and nothing but dates and times is different."""
    names = ("boston_models", "tecator_mutation", "tecator_ess")
    make(Study(TINY, tmp_path, kept=tiny / "kept", deadline=0.0), names, "a test")
    for name in names:
        section = files_of(tmp_path, name)
        before = files_of(tiny, name)
        for key in ("title", "text", "claims", "tables", "smaller", "kept_cpu_seconds"):
            assert section[key] == before[key], key
        for file, _ in section["tables"]:
            assert (tmp_path / file).read_text() == (tiny / file).read_text()


def test_an_interrupted_study_goes_on_where_it_was(tmp_path: Path) -> None:
    first = Study(TINY, tmp_path)
    runs = pcr_runs.all_runs(first)
    said: list[str] = []
    again = pcr_runs.all_runs(Study(TINY, tmp_path, said.append))
    assert sum("read from an earlier study" in line for line in said) == 12
    for key, posteriors in runs.items():
        for one, other in zip(posteriors, again[key]):
            same_summaries(one, other)


@pytest.mark.usefixtures("as_long_as_the_papers")
def test_finished_runs_of_the_papers_length_are_taken(tmp_path: Path) -> None:
    """Only where all runs of a setting were finished, and the page says which these are."""
    whole = pcr_runs.all_runs(full_length(tmp_path))
    (tmp_path / f"pcr_{pcr_runs.NAMES[pcr_runs.FIXED]}_25_2.npz").unlink()
    study = Study(replace(TINY, pcr_part=2.5), tmp_path, kept=tmp_path)
    found, parts = pcr_runs.all_runs(study), pcr_runs.parts(study)
    lacking = (pcr_runs.FIXED, 25)
    for key, runs in whole.items():
        taken = all((one.pip == other.pip).all() for one, other in zip(runs, found[key]))
        assert taken is (key != lacking)
        assert parts[key] == (2.5 if key == lacking else 1.0)
    parts[lacking] = 0.5
    origins = pcr_pips.lengths_and_time(found, parts)
    assert re.search(r"All 12 runs .* made at commit [0-9a-f]{10}\+?\.$", origins)
    words = pcr_runs.about(study, parts)
    assert "1,000 iterations, as many as in the paper (h ~ Be(1, (p − 5)/5), r = 5 and" in words
    assert "1,000 iterations, 0.5 of the paper's (h = 5/p, r = 25)" in words


def test_exact_masses_count_every_model_once() -> None:
    data = wv.datasets.load_uscrime()
    problem = wv.Problem(data.X.iloc[:, :4], data.y)
    run = wv.sample(problem, wv.AddDeleteSwap(), draws=5000, replicates=1, seed=0, progress=False)
    whole = Summary.of(run)
    assert 4 < len(whole.members) == len(set(whole.members)) <= 16
    best, total = summaries.exact_masses([whole, whole])
    logs = [problem.log_marginal(list(m)) + problem.log_prior(list(m)) for m in whole.members]
    assert best == pytest.approx(max(logs))
    assert total == pytest.approx(np.logaddexp.reduce(logs))


def test_quick_is_the_paper_but_for_the_number_of_runs_and_the_pcr_iterations() -> None:
    assert QUICK.tecator_draws == FULL.tecator_draws == 1_000_000
    assert FULL.tecator_runs == FULL.adaptation_runs == QUICK.adaptation_runs == 10
    assert QUICK.wmse_scale == FULL.wmse_scale == 1.0
    assert (FULL.wmse_runs, FULL.pcr_part) == (60, 1.0)
    assert FULL.timed_part == QUICK.timed_part == 0.1
    assert (FULL.pcr_p, FULL.screen) == (published.PCR_P, published.SCREEN) == (22_576, 2000)


def test_command_line(tmp_path: Path) -> None:
    runner = CliRunner()
    assert "tecator_ess" in runner.invoke(main, ["--help"]).output
    wrong = runner.invoke(main, ["figure_99"])
    assert wrong.exit_code == 2
    matrix = tmp_path / "m.txt"
    matrix.write_text("nothing")
    assert "go together" in runner.invoke(main, ["--genes", str(matrix)]).output
    bad = runner.invoke(main, ["--genes", str(matrix), "--response", "x"])
    assert bad.exit_code == 1
    assert "not a GEO series matrix file" in bad.output.replace("\n", " ")


def test_page_only_writes_the_page_again(tiny: Path) -> None:
    before = (tiny / "README.md").read_text()
    (tiny / "README.md").unlink()
    run = CliRunner().invoke(main, ["--page-only", "--out", str(tiny)])
    assert run.exit_code == 0, run.output
    assert (tiny / "README.md").read_text() == before


# --- claims
# ----------------------------------------------------------------------------------------------------------


def verdicts(claims: list[Claim]) -> list[bool | None]:
    return [claim.agrees for claim in claims]


def test_verdicts_in_words() -> None:
    def words(agrees: bool | None, fairer: bool) -> str:
        return Claim("s", "p", "o", agrees, "w", fairer).verdict

    assert [words(a, False) for a in (True, False, None)] == ["agrees", "**differs**", "not comparable"]
    assert [words(a, True) for a in (True, False, None)] == ["holds", "**does not hold**", "not judged"]


def test_the_page_begins_with_a_table_of_all_claims() -> None:
    claims = [
        Claim("one", "1", "1", True, "x"),
        Claim("two", "1", "2", False, "x", reason="Because."),
        Claim("three", "1", "2", None, "x"),
        Claim("four", "-", "5 s", False, "slow", fairer=True),
        Claim("five", "-", "1 s", True, "fast", fairer=True),
    ]
    sections = {"a": {"title": "Here", "claims": [vars(c) for c in claims[:2]]}, "b": {"title": "There", "claims": [vars(c) for c in claims[2:]]}}  # fmt: skip
    text = "\n".join(page.summary(sections))
    assert "3 claims 1 agree, 1 differ, and 1 cannot" in text
    assert "Besides these claims, we asked 2 questions of our own. 1 come out in favour" in text
    assert "| Here | one | 1 | 1 | agrees |\n|  | two | 1 | 2 | **differs** |\n| There | three |" in text
    assert "four" not in text


def test_claims_with_one_reason_share_a_paragraph_and_a_table() -> None:
    one, two = (
        Claim(name, "1", "2", False, "rule", reason="Because.", brief="in short", evidence=[["run", "value"], [name, "3"], ["both", "4"]])
        for name in ("first", "second")
    )  # fmt: skip
    text = "\n".join(page.reasons([one, two, Claim("third", "1", "2", False, "rule", reason="For another.")]))
    assert text.count("Because.") == 1
    assert "*first; second.* Because." in text
    assert "| run | value |\n|:--|:--|\n| first | 3 |\n| both | 4 |\n| second | 3 |\n" in text
    assert text.count("| both |") == 1
    assert "*third.* For another." in text
    sections = {"a": {"title": "Here", "claims": [vars(one)]}}
    assert "| Here | first | 1 | 2 | **differs**: in short |" in "\n".join(page.summary(sections))


def test_a_section_says_what_agrees_then_what_differs_and_why() -> None:
    claims = [
        Claim("asked", "-", "5 s", False, "slow", fairer=True),
        Claim("other data", "1", "2", None, "not ours"),
        Claim("wrong", "1", "2", False, "rule", reason="Because it is."),
        Claim("unknown", "1", "2", False, "rule"),
        Claim("right", "1", "1", True, "rule"),
    ]
    text = "\n".join(page.claims_text(claims))
    wanted = ["What agrees", "| right |", "What differs, and why", "| wrong |", "*wrong.* Because it is.", "*unknown.* We do not know yet",
              "What cannot be compared", "| other data |", "What the paper does not ask", "| asked |"]  # fmt: skip
    places = [text.index(words) for words in wanted]
    assert places == sorted(places)
    assert "Because" not in "\n".join(
        page.claims_text([Claim("fine", "1", "1", True, "rule", reason="Because.")])
    )


def ess_rows(
    mean: float, minimum: float, seconds: float, error: float, peak: float = 0.45
) -> list[dict[str, Any]]:
    base = {"mean_ess": 30_000, "minimum_ess": 5000, "cpu_seconds": 1.0, "squared_error": 1e-6}
    rows: list[dict[str, Any]] = [
        {"sampler": "ads", **base, "ratio_to_ads": 1.0},
        {"sampler": "lamnisos", **base, "mean_ess": 38_000},
    ]
    for phi0 in (1.0, 10.0):
        for tau in (0.25, 0.45, 0.65):
            here = mean if tau == peak else mean / 2
            rows.append({
                "sampler": "ia", "tau": tau, "chains": 5, "w": 0.5, "phi0": phi0, "mean_ess": here, "minimum_ess": minimum,
                "cpu_seconds": seconds, "squared_error": error, "ratio_to_ads": here / 30_000, "ratio_to_lamnisos": here / 38_000,
            })  # fmt: skip
    return rows


def test_tecator_ess_both_ways() -> None:
    good = tecator_ess.judge(ess_rows(190_000, 6000, 2.0, 1e-7), 1_000_000)
    assert verdicts(good) == [True] * 9
    assert good[3].ours == "6.33"
    bad = tecator_ess.judge(ess_rows(120_000, 600, 5.0, 1e-6, peak=0.65), 1_000_000)
    assert verdicts(bad) == [True, True, False, False, False, False, False, False, False]
    assert "drifts" in bad[6].why
    assert "does not hold" in bad[8].why
    assert tecator_ess.failures(ess_rows(190_000, 6000, 2.0, 1e-7), 1.0) == []
    uneven = ess_rows(190_000, 6000, 2.0, 1e-7)
    uneven += [{**row, "chains": r} for row in uneven if row["sampler"] == "ia" for r in (1, 25)]
    uneven[-1]["mean_ess"] /= 3
    (sentence,) = tecator_ess.failures(uneven, 1.0)
    assert "RAPA, r = 25, τ = 0.65, φ₀ = 10 (31,700 against a median of 95,000)." in sentence
    # ESS per 10⁶ iterations, whatever the length of the runs
    assert verdicts(tecator_ess.judge(ess_rows(190_000, 6000, 2.0, 1e-7), 100_000))[:3] == [False] * 3


def rates(distance: dict[tuple[float, int], float]) -> list[dict[str, Any]]:
    return [
        {"sampler": "ia", "tau": tau, "chains": r, "w": w, "phi0": 10.0, "mutation_rate": tau + d}
        for (w, r), d in distance.items()
        for tau in (0.35, 0.45, 0.55, 0.85)
    ]


def test_tecator_mutation_both_ways() -> None:
    short = rates({(0.0, 1): 0.1, (0.5, 1): 0.05, (0.0, 25): 0.2})
    learning, faster = tecator_mutation.judge(short, rates({(0.0, 1): 0.01}), (10, 100))
    assert "0.10 in 10 iterations, 0.010 in 100" in learning.ours
    assert learning.why.endswith("; nearer in the longer run")
    assert "RAPA is nearer than IA, 25 chains are no nearer" in faster.why
    hardly, _ = tecator_mutation.judge(short, rates({(0.0, 1): 0.099}), (10, 100))
    assert hardly.why.endswith("no nearer in the longer run")
    worse, _ = tecator_mutation.judge(short, rates({(0.0, 1): 0.3}), (10, 100))
    assert worse.why.endswith("no nearer in the longer run")


def test_other_tecator_claims_both_ways() -> None:
    truth = np.array([0.1, 0.5, 0.9])
    near, far = np.tile(truth, (3, 1)), np.tile(truth, (3, 1))
    far[0, 1] += 0.2
    assert verdicts(tecator_pips.judge(near, near, truth)) == [True, True]
    assert verdicts(tecator_pips.judge(far, near, truth)) == [False, False]
    assert verdicts(tecator_pips.judge(near + 0.06, near, truth)) == [
        True,
        False,
    ]  # all wrong in the same way

    def counts(mode: int) -> np.ndarray:
        return np.exp(-0.1 * (np.arange(40) - mode) ** 2)

    assert verdicts(tecator_changes.judge(counts(13), counts(9))) == [True]
    assert verdicts(tecator_changes.judge(counts(9), counts(13))) == [False]
    one = np.ones(3)
    assert verdicts(tecator_adaptation.judge(0.95 * one, 0.99 * one, 0.1, 0.2)) == [True, True]
    assert verdicts(tecator_adaptation.judge(0.5 * one, 0.99 * one, 1.0, 0.2)) == [False, False]
    assert verdicts(tecator_adaptation.judge(0.95 * one, 0.8 * one, 1.0, 0.2)) == [False, False]
    assert verdicts(tecator_traces.judge({"a": 0.5, "b": 0.6, "ia": 0.2}, 10)) == [True]
    assert verdicts(tecator_traces.judge({"a": 0.5, "b": 0.1, "ia": 0.2}, 10)) == [False]
    assert tecator_traces.correlation(np.tile([0.0, 1.0], 500), 1) == pytest.approx(-1, abs=0.01)
    assert tecator_traces.correlation(np.ones(10), 1) == 1.0


def test_boston_models_both_ways() -> None:
    paper = np.array([share for _, share in published.MODELS])
    assert verdicts(boston_models.judge(paper, 14.9, paper)) == [True] * 4
    off = paper.copy()
    off[1] = 0.2
    assert verdicts(boston_models.judge(off, 15.0, paper)) == [True, False, False, False]
    assert verdicts(boston_models.judge(paper + 0.021, 14.8, paper))[0] is False


def accuracy_rows(tempered: tuple[float, float], simple: tuple[float, float]) -> list[dict[str, Any]]:
    return [
        {"run_of": name, "runs": 10, "tenth": low, "median": (low + high) / 2, "nine_tenths": high}
        for name, (low, high) in ((boston_models.TEMPERED, tempered), (boston_models.SIMPLE, simple))
    ]


def test_what_the_papers_table_says_of_its_sampler_both_ways() -> None:
    assert verdicts(boston_models.judge_accuracy(0.06, accuracy_rows((0.02, 0.1), (0.1, 0.2)))) == [True, True]  # fmt: skip
    assert verdicts(boston_models.judge_accuracy(0.06, accuracy_rows((0.1, 0.2), (0.01, 0.02)))) == [False, False]  # fmt: skip


def test_independent_draws_have_the_table_error_that_is_said() -> None:
    exact = np.array([0.3, 0.2, 0.05, 0.45])
    draws, rng = 500, np.random.default_rng(0)
    errors = np.array([boston_models.table_error(rng.multinomial(draws, exact)[:3] / draws, exact[:3]) for _ in range(4000)])  # fmt: skip
    expected = np.sum(1 - exact[:3]) / draws  # the number of models over draws, less what they have together
    assert errors.mean() == pytest.approx(expected, abs=4 * errors.std() / np.sqrt(len(errors)))


def test_the_table_error_of_a_run_is_that_of_the_models_it_visited_most() -> None:
    data = wv.datasets.load_uscrime()
    problem = wv.Problem(data.X.iloc[:, :5], data.y)
    truth = wv.exact(problem, progress=False).models
    run = wv.sample(problem, wv.AddDeleteSwap(), draws=500, replicates=1, seed=0, progress=False)
    assert run.trace is not None
    logs = truth.log_marginal + truth.log_prior
    place = np.abs(run.trace["log_posterior"].to_numpy()[:, None] - logs).argmin(axis=1)
    shares = np.bincount(place, minlength=32) / len(place)
    values, found = boston_models.visits(run)
    assert found.sum() == pytest.approx(1)
    assert np.sort(found) == pytest.approx(np.sort(shares[shares > 0]))
    top = np.abs(values[:13, None] - logs).argmin(axis=1)
    wanted = boston_models.table_error(shares[top], truth.frequency[top])
    visited = boston_models.most_visited(run, logs.max())
    error = boston_models.error_of_run(visited, truth.frequency[logs.argmax()])
    assert error == pytest.approx(wanted, rel=1e-4)
    assert wanted > 13 / 50_000


def test_log_posteriors_of_models_are_those_in_the_record_of_a_run() -> None:
    problem = Study(TINY, Path()).problem("boston104")
    run = wv.sample(problem, wv.AddDeleteSwap(), draws=500, replicates=1, seed=0, progress=False)
    assert run.trace is not None
    models = [[int(j) for j in members] for members in run.models.members]
    found = boston_models.log_posteriors(problem, models)
    assert found == pytest.approx(run.models.log_marginal + run.models.log_prior, abs=1e-8)
    assert found.max() == pytest.approx(run.trace["log_posterior"].max(), abs=1e-8)


def test_the_papers_models_are_those_of_its_table() -> None:
    names = list(wv.datasets.load_boston().X.columns)
    assert len(published.MODELS) == len(published.COMPUTED) == 13
    assert len(names) == 104
    for members, _ in published.MODELS:
        assert list(members) == sorted(set(members))
        assert all(1 <= j <= 104 for j in members)
    assert len({members for members, _ in published.MODELS}) == 13
    assert [names[j - 1] for j in (5, 6, 8, 13)] == ["NOX", "RM", "DIS", "LSTAT"]


def wmse_rows(simple: float, tempered: float, k50: float, k25: tuple[float, float]) -> list[dict[str, Any]]:
    """Results whose sums over 60 runs, which is what the paper prints, would be these numbers."""

    def line(method: str, tau: float | None, wmse: float, seconds: float) -> dict[str, Any]:
        return {"method": method, "tau": tau, "wmse": wmse / 60, "cpu_seconds": seconds, "runs": 3}

    return [
        line("MH", None, simple, 2.0),
        line("MH, CPU time of PT", None, simple / 2, 4.0),
        line("PT, m = 8", 0.25, tempered, 4.0),
        line("PT, m = 8", 0.45, 2 * tempered, 4.0),
        line("SMC, K = 25", 0.25, k25[0], 4.0),
        line("SMC, K = 25", 0.45, k25[1], 4.0),
        line("SMC, K = 50", 0.25, k50, 4.0),
        line("SMC, K = 50", 0.45, 2 * k50, 4.0),
    ]


def test_boston_wmse_both_ways() -> None:
    good = wmse_rows(0.007, 0.001, 0.002, (0.005, 0.01))
    assert verdicts(boston_wmse.judge(good, 1.0, 0.07)) == [True] * 6
    assert boston_wmse.judge(good, 0.1, 0.07)[0].agrees is None  # too few iterations to compare the number
    measured = wmse_rows(60 * 0.00016, 0.001, 0.002, (0.005, 0.01))  # at the paper's size, over three runs
    assert boston_wmse.judge(measured, 1.0, 0.07)[0].agrees is True
    bad = wmse_rows(0.001, 0.004, 0.02, (0.05, 0.04))
    assert verdicts(boston_wmse.judge(bad, 1.0, 0.07)) == [False] * 6
    at_any_tau = wmse_rows(0.007, 0.001, 0.002, (0.005, 0.006))  # "only at small τ" is then wrong
    assert verdicts(boston_wmse.judge(at_any_tau, 1.0, 0.07)) == [True, True, True, False, True, True]
    per_second = wmse_rows(0.007, 0.003, 0.006, (0.005, 0.01))  # better per iteration, not for its time
    per_second[1]["wmse"] = 0.002 / 60
    assert verdicts(boston_wmse.judge(per_second, 1.0, 0.07)) == [True, True, True, True, False, False]


def test_whether_tempering_falls_with_tau_both_ways() -> None:
    def verdict(*wmse: float, error: float = 0.1) -> list[bool | None]:
        rows = [{"method": "PT, m = 8", "tau": 0.25 + 0.1 * k, "wmse": w, "wmse_se": error * w} for k, w in enumerate(wmse)]  # fmt: skip
        return verdicts(boston_wmse.judge_trend([{"method": "MH", "tau": None, "wmse": 1.0, "wmse_se": 1.0}, *rows]))  # fmt: skip

    assert verdict(8.0, 4.0, 2.0, 1.0) == [True]
    assert verdict(1.0, 2.0, 4.0, 8.0) == [False]
    assert verdict(1.0, 1.1, 0.9, 1.0) == verdict(8.0, 4.0, 2.0, 1.0, error=2.0) == [None]
    assert verdict(8.0, 1.0) == []  # two values of τ have no trend to speak of


def test_why_tempering_does_not_fall_with_tau_follows_from_its_mutation_rates() -> None:
    def row(name: str, top: float, bottom: float) -> dict[str, Any]:
        return {"variant": name, "wmse": 2e-3, "wmse_se": 1e-4, "mutation_rate_top": top, "mutation_rate_bottom": bottom}  # fmt: skip

    rows = [row("another", 0.5, 0.5), row("τ = .65", 0.05, 0.75), row("IA-PT", 0.06, 0.55)]
    why = boston_wmse.why_no_fall(rows)
    assert "in 75 % of its iterations instead of 55 %, but the chain at the target in 5.0 % instead of 6.0 %" in why["reason"]  # fmt: skip
    assert [line[0] for line in why["evidence"]] == ["run of IA-PT", "τ = 0.45", "τ = 0.65"]
    assert boston_wmse.why_no_fall(rows[:2]) == {}
    assert (
        boston_wmse.why_no_fall([*rows[:2], row("IA-PT", 0.04, 0.55)]) == {}
    )  # more moves at the target, too
    rising = [{"method": "PT", "tau": 0.1 * k, "wmse": 2.0**k, "wmse_se": 0.1} for k in (1, 2, 3)]
    (claim,) = boston_wmse.judge_trend(rising, rows)
    assert (claim.reason, claim.brief) == (why["reason"], why["brief"])
    falling = [{**r, "wmse": 1 / r["wmse"], "wmse_se": 0.01} for r in rising]
    assert boston_wmse.judge_trend(falling, rows)[0].reason == ""


def test_the_trend_of_tempering_is_that_of_least_squares_with_its_error() -> None:
    """Beside many sets of errors that were drawn: the mean is the true change, and the spread the error that is said."""
    rng, tau = np.random.default_rng(0), np.array([0.25, 0.35, 0.45, 0.55, 0.65])
    shares = np.array([0.05, 0.1, 0.2, 0.1, 0.05])
    found = []
    for _ in range(2000):
        logs = -3 * tau + shares * rng.normal(size=5)
        rows = [{"method": "PT", "tau": t, "wmse": np.exp(x), "wmse_se": s * np.exp(x)} for t, x, s in zip(tau, logs, shares)]  # fmt: skip
        found.append(boston_wmse.trend(rows, "PT"))
    changes, errors = np.array(found).T
    assert changes.mean() == pytest.approx(-3 * 0.4, abs=4 * changes.std() / np.sqrt(2000))
    assert changes.std() == pytest.approx(errors[0], rel=4 / np.sqrt(2 * 2000))


def test_one_draw_from_the_posterior_has_the_wmse_that_is_said() -> None:
    pip = np.array([0.9, 0.5, 0.1])
    draws = np.random.default_rng(0).random((40_000, 3)) < pip
    errors = boston_wmse.boston.wmse(draws, pip)
    assert errors.mean() == pytest.approx(
        boston.of_one_draw(pip), abs=4 * errors.std() / np.sqrt(len(errors))
    )


def trip_rows(
    worth: tuple[float, ...], simple: float, long: float = 5e-4, rarest: float = 1e-3
) -> list[dict[str, Any]]:
    """Ladders that make 10, 20, … round trips, each worth so many draws."""
    trips = boston_trips
    wmse = {trips.USUAL: 1e-3, trips.SHORT: 4e-3, trips.LONG: long, trips.RARER: 1e-3, trips.RAREST: rarest}
    rows: list[dict[str, Any]] = [
        {"variant": name, "draws": 1000, "runs": 10, "wmse": wmse[name], "wmse_se": 1e-4, "worth_draws": 0.07 / wmse[name],
         "round_trips": 10.0 * (k + 1), "worth_of_a_trip": each, "worth_of_a_trip_se": 0.1}
        for k, (name, each) in enumerate(zip(wmse, worth))
    ]  # fmt: skip
    short = {
        "variant": trips.SIMPLE,
        "draws": 1000,
        "runs": 20,
        "wmse": simple,
        "wmse_se": 1e-4,
        "worth_draws": 0.07 / simple,
    }
    return [*rows, {**short, "round_trips": None}]


def test_boston_trips_both_ways() -> None:
    few = trip_rows((0.8, 0.9, 0.7, 0.8, 1.1), 0.006)
    assert verdicts(boston_trips.judge(few)) == [False, False, False, True]
    other = trip_rows((0.8, 0.9, 0.7, 0.8, 1.3), 0.0002, long=5e-5, rarest=2e-3)
    assert verdicts(boston_trips.judge(other)) == [True, True, True, False]


def test_why_tempering_differs_follows_from_exchanges_and_moves() -> None:
    few = trip_rows((0.8, 0.9, 0.7, 0.8, 1.1), 0.006)
    why = boston_trips.why(few, 0.07, 0.0002, 0.001, True)
    assert (
        "worth 70 independent draws, one of simple MH 350; to be well below it, IA-PT would have to be worth 700"
        in why["reason"]
    )
    assert "What it lacks is moves, not exchanges: with 50 round trips instead of 10" in why["reason"]
    assert why["brief"].endswith("runs would have to be 10 times as long")
    assert "change too slowly" in why["brief"]
    assert "only as many iterations as IA-PT has" in why["reason"]
    assert "error of a run of our IA-PT" in why["reason"]
    assert len(why["evidence"]) == 1 + len(few)
    assert why["evidence"][-1][2] == "–"
    other = trip_rows((0.8, 0.9, 0.7, 0.8, 1.3), 0.0002, rarest=2e-3)
    unlike = boston_trips.why(other, 0.07, 0.0002, 0.001, False)
    assert "not exchanges" not in unlike["reason"]
    assert "too few exchanges" in unlike["brief"]
    assert "only as many iterations" not in unlike["reason"]
    assert "most probable models" not in unlike["reason"]
    assert boston_trips.why([], 0.07, 0.0007, 0.001, True) == {}


def particle_rows(worth: dict[str, float]) -> list[dict[str, Any]]:
    particles = boston_particles
    names = [*particles.OPTIONS]
    return [
        {"variant": name, "particles": 1850, "K": 50, "runs": 10, "wmse": 0.07 / worth.get(name, 5.0), "wmse_se": 1e-3,
         "worth_draws": worth.get(name, 5.0), "temperatures": 41.0, "ancestors_at_0.1": 2.0, "ancestors_at_0.3": 3.0, "ancestors_at_0.6": 90.0}
        for name in names
    ]  # fmt: skip


def test_boston_particles_both_ways() -> None:
    particles = boston_particles
    late = {
        f"{particles.BEGINS}0.45": 150.0,
        f"{particles.BEGINS}0.6": 900.0,
        f"{particles.BEGINS}0.8": 950.0,
    }
    rows = particle_rows(late)
    simple = {"method": "MH", "tau": None, "wmse": 0.07 / 300}

    def verdicts_with(worth: dict[str, float], package: float) -> list[bool | None]:
        ours = {"method": "SMC, K = 50", "tau": 0.45, "wmse": package, "wmse_se": 1e-3}
        other = {**ours, "tau": 0.25, "wmse": 1.0}
        return verdicts(particles.judge(particle_rows(worth), [simple, other, ours]))

    assert verdicts_with(late, 0.013) == [False, False, False, True, True]
    good = {name: 1000.0 for name in particles.OPTIONS if name != particles.USUAL}
    assert verdicts_with(good, 0.013) == [True] * 5
    assert verdicts_with({}, 0.03) == [False] * 5
    assert verdicts(particles.judge(rows, [simple])) == [False, False, False, True]
    assert particles.judge(rows, []) == []


def test_why_particles_differ_names_where_accuracy_is_lost() -> None:
    particles = boston_particles
    late = {f"{particles.BEGINS}0.45": 150.0, f"{particles.BEGINS}0.6": 900.0}
    why = particles.why(particle_rows(late), 0.07, 0.0007)
    assert "lose most of their accuracy between t = 0.3 and t = 0.45" in why["reason"]
    assert (
        "at t = 0.45 is worth 150 independent draws, one that begins at t = 0.3 5.0, one from the prior 5.0, and simple MH is worth 100"
        in why["reason"]
    )
    assert "effectively from 3.0 of 1,850 particles" in why["reason"]
    assert "between t = 0.3 and t = 0.45" in why["brief"]
    assert f"The best of {len(particles.OTHER_WAYS)} other ways of" in why["reason"]
    assert len(why["evidence"]) == 1 + 4 + len(particles.STARTS)
    early = particles.why(
        particle_rows({f"{particles.BEGINS}{t:g}": 90.0 for t in particles.STARTS}), 0.07, 0.0007
    )
    assert "between t = 0 and t = 0.1" in early["reason"]
    assert particles.why([], 0.07, 0.0007) == {}


def test_shares_of_the_mode_are_worth_as_many_particles_as_they_spread() -> None:
    particles = boston_particles
    rng = np.random.default_rng(0)

    def run(share: float, size: int) -> dict[str, float]:
        return {f"share_at_{level:g}": rng.binomial(size, share) / size for level in particles.LEVELS}

    found = {particles.USUAL: [run(0.3, 50) for _ in range(400)], f"{particles.BEGINS}0.6": [run(0.3, 50) for _ in range(100)]}  # fmt: skip
    by_level = {row["temperature"]: row for row in particles.shares(found, 0.3)}
    assert by_level[1.0]["share_by_exact_draws"] == 0.3
    assert by_level[0.5]["share_by_exact_draws"] is None
    for level in (0.6, 1.0):
        assert by_level[level]["worth_particles"] == pytest.approx(50, rel=4 * np.sqrt(2 / 400))


def tempering_rows(printed: float, second: float, other: float, within: float) -> list[dict[str, Any]]:
    def line(name: str, wmse: float, **more: Any) -> dict[str, Any]:
        return {"variant": name, "wmse": wmse, "wmse_se": wmse / 10, "worth_draws": 0.07 / wmse, **more}

    names, program = boston_tempering, boston_tempering.SECOND
    return [
        line(names.SIMPLE, 1e-4),
        line(names.FLIPS, 5e-5),
        line(names.TEMPERED, printed, round_trips=60.0),
        line("another", other, round_trips=90.0),
        line("a third", 5e-4, round_trips=90.0),
        line(program + names.SIMPLE, 1.1e-4),
        line(program + names.TEMPERED, second, round_trips=1e9),
        *(line(program + name, 0.01) for name in (names.BETWEEN, names.BETWEEN_25)),
        *(line(program + name, within) for name in (names.WITHIN, names.WITHIN_25, names.ROUNDS)),
        line(program + names.NO_RESET, 0.02),
    ]


def test_boston_tempering_both_ways() -> None:
    assert verdicts(boston_tempering.judge(tempering_rows(1e-3, 1.1e-3, 4e-5, 5e-5))) == [True] * 6
    bad = boston_tempering.judge(tempering_rows(1e-3, 2e-3, 4e-4, 5e-3))
    assert verdicts(bad) == [True] + [False] * 5
    assert "the best of 2 variants (another) has 4.0 times" in bad[2].ours
    left_out = {boston_tempering.SECOND + name for name in boston_tempering.FULL_ONLY}
    fewer = [row for row in tempering_rows(1e-3, 2e-3, 4e-4, 5e-3) if row["variant"] not in left_out]
    assert [claim.statement for claim in boston_tempering.judge(fewer)] == [c.statement for c in bad[:5]]
    assert not any(boston_tempering.wanted(Study(QUICK, Path()), name) for name in boston_tempering.FULL_ONLY)
    assert boston_tempering.wanted(Study(FULL, Path()), boston_tempering.HELD)
    assert "makes 60 round trips" in boston_tempering.judge(tempering_rows(1e-3, 2e-3, 4e-4, 5e-3))[2].why


def test_both_readings_of_the_papers_measure_are_on_the_page() -> None:
    rows = tempering_rows(1e-3, 2e-3, 4e-4, 5e-3)
    text = " ".join(boston_tempering.readings(rows, 0.07))
    assert "simple MH is worth 590 independent draws a run, and ours 700 (1,400 if it only adds" in text
    assert "Ours is worth 70," in text
    assert "would be worth 9.9 draws" in text


def test_the_second_program_has_the_marginal_likelihoods_of_the_package() -> None:
    problem, data = Study(TINY, Path()).problem("boston104"), independent.boston_data()
    models = [[4, 5, 7], [1, 2, 50, 60, 99], [], list(range(0, 104, 5))]

    def ours(members: list[int]) -> float:
        gamma = np.zeros(104, bool)
        gamma[members] = True
        return float(independent.log_marginal(data, gamma))

    theirs = [problem.log_marginal(m) for m in models]
    differences = np.subtract([ours(m) for m in models], theirs)
    assert np.ptp(differences) < 1e-8


@pytest.mark.slow
def test_the_second_program_samples_what_enumeration_finds() -> None:
    whole = independent.boston_data()
    some = np.array([4, 5, 6, 7, 8, 11, 12, 40])
    data = whole._replace(gram=whole.gram[np.ix_(some, some)], xty=whole.xty[some])
    logs, models = [], []
    for bits in range(256):
        gamma = np.array([bits >> j & 1 for j in range(8)], bool)
        logs.append(independent.log_marginal(data, gamma) + gamma.sum() * data.log_odds)
        models.append(gamma)
    weights = np.exp(np.array(logs) - max(logs))
    exact = weights @ np.array(models, float) / weights.sum()
    ladder = np.exp(-0.5 * np.arange(3, -1, -1.0))

    def smc(options: particles.Options, t: float = 0.0) -> Any:
        def run(rng: np.random.Generator) -> np.ndarray:
            start = (
                particles.from_prior(rng, 500, 8)
                if t == 0
                else particles.from_chain(data, rng, t, 500, 40, 1 / 3)
            )
            return particles.run(data, rng, start, t, 20, 0.45, 1.0, 0.55, options, np.empty(0), 0)[0]

        return run

    ours = particles.Options(groups=4, bound=1.0)
    for run in (
        smc(particles.Options()),
        smc(ours),
        smc(ours._replace(resampling=particles.RESIDUAL, resample_below=0.5)),
        smc(ours, 0.5),
        lambda rng: independent.simple(data, rng, 1000, 50_000, 1 / 3),
        lambda rng: independent.tempering(
            data, rng, ladder, 1000, 20_000, 0.45, 1.0, 0.55, 0.234, True, True
        )[0],
        lambda rng: independent.tempering(
            data, rng, ladder, 1000, 20_000, 0.45, 1.0, 0.55, 0.234, False, False
        )[0],
        lambda rng: independent.particles(
            data, rng, 500, 20, 0.45, 1.0, 0.55, 0.9, independent.BETWEEN, True, np.empty(0)
        )[0],
    ):
        pips = np.array([run(np.random.default_rng(s)) for s in range(12)])
        error = pips.std(axis=0, ddof=1) / np.sqrt(len(pips))
        assert (np.abs(pips.mean(axis=0) - exact) < 5 * error + 1e-3).all()
    tempered = np.array(models) @ np.ones(8) * data.log_odds
    tempered = tempered + 0.3 * (np.array(logs) - tempered)
    weights = np.exp(tempered - tempered.max())
    draws = np.array([particles.from_chain(data, np.random.default_rng(s), 0.3, 500, 40, 1 / 3).mean(axis=0) for s in range(12)])  # fmt: skip
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    wanted = weights @ np.array(models, float) / weights.sum()
    assert (np.abs(draws.mean(axis=0) - wanted) < 5 * error + 1e-3).all()


@pytest.mark.slow
def test_every_way_of_resampling_takes_particles_by_their_weights() -> None:
    rng = np.random.default_rng(0)
    log_weights = np.log(np.array([0.05, 3.0, 0.2, 1.0, 0.4, 1e-9]))
    expected = 6 * np.exp(log_weights) / np.exp(log_weights).sum()
    for kind in range(4):
        counts = np.array([np.bincount(particles.ancestors(log_weights, rng, kind), minlength=6) for _ in range(2000)])  # fmt: skip
        assert (counts.sum(axis=1) == 6).all()
        error = counts.std(axis=0, ddof=1) / np.sqrt(len(counts))
        assert (np.abs(counts.mean(axis=0) - expected) < 4 * error + 1e-6).all()
        fixed = (counts >= np.floor(expected)).all()
        assert fixed == (kind in (particles.SYSTEMATIC, particles.RESIDUAL)) or kind == particles.STRATIFIED


def agreement_row(**changes: Any) -> dict[str, Any]:
    row = {
        "prior": pcr_runs.HIERARCHICAL, "chains": 5, "runs": 3, "part": 1.0, "largest_difference": 0.02, "smallest_correlation": 0.99,
        "largest_difference_of_blocks": 0.01, "largest_difference_by_exact_weights": 0.03, "monte_carlo_error_there": 0.04, "size_in_the_first_quarter": 9.0,
        "size_in_the_last_quarter": 9.1, "chains_of_a_run_differ_by": 1.0, "fewest_round_trips": 21, "most_round_trips": 40, "best_models_differ_by": 0.0,
        "masses_differ_by": 0.1, "by_batch_means_low": 0.08, "by_batch_means_median": 0.1, "by_batch_means_high": 0.14,
    }  # fmt: skip
    return {**row, **changes}


def test_pcr_agreement_both_ways() -> None:
    (same,) = pcr_pips.judge([agreement_row()])
    assert (same.agrees, same.reason) == (True, "")
    assert "before they are right" not in same.why
    (drifting,) = pcr_pips.judge([agreement_row(size_in_the_last_quarter=10.0)])
    assert drifting.agrees is True
    assert "have not settled: the mean model size is 9.0" in drifting.why


def test_why_pcr_runs_differ_follows_from_what_was_measured() -> None:
    def claim(**changes: Any) -> Claim:
        (one,) = pcr_pips.judge([agreement_row(largest_difference=0.2, **changes)])
        assert one.agrees is False
        assert one.evidence[0] == pcr_pips.EVIDENCE
        assert len(one.evidence[1]) == len(pcr_pips.EVIDENCE)
        return one

    ladders = {"by_ladders_low": 0.1, "by_ladders_median": 0.15, "by_ladders_high": 0.25}
    by_errors = claim(by_batch_means_high=0.21)
    assert "with the errors that batch means say" in by_errors.brief
    assert "as is to be expected from the Monte Carlo errors" in by_errors.reason
    by_ladders = claim(by_ladders_share=0.3, ladders=10, **ladders)
    assert "put together at random from their ladders" in by_ladders.brief
    assert "more of it than batch means say" in by_ladders.reason
    assert by_ladders.evidence[1][2:4] == ["0.10 (0.080–0.14)", "0.15 (0.10–0.25), 10 ladders"]
    neither = claim(by_ladders_share=0.01, ladders=10, **ladders)
    assert "more than their Monte Carlo errors and their ladders explain" in neither.reason
    not_kept = claim()
    assert "not tested, as the ladders were not kept" in not_kept.reason
    assert not_kept.evidence[1][3] == "–"
    assert claim(best_models_differ_by=3.0).reason == "The runs did not find the same best model."
    assert "but not the same posterior mass" in claim(masses_differ_by=0.7).reason
    assert (
        "differ in other models that they found, too"
        in claim(largest_difference_by_exact_weights=0.15).reason
    )
    assert "--full" not in by_errors.reason
    assert "--full" in claim(part=0.05).reason


def test_the_largest_difference_that_errors_make_likely_is_that_of_such_runs() -> None:
    """Three runs of 200 variables whose errors are known: the difference between them is within nine tenths in nine of ten cases."""
    rng = np.random.default_rng(0)
    errors = rng.uniform(0.001, 0.03, 200)
    low, _, high = pcr_pips.quantiles(
        pcr_pips.by_batch_means([SimpleNamespace(mcse=errors)] * 3, np.random.default_rng(1))
    )
    seen = np.array([worst_difference(errors * rng.normal(size=(3, 200))) for _ in range(400)])
    inside = np.mean((low < seen) & (seen < high))
    assert abs(inside - 0.9) < 4 * np.sqrt(0.9 * 0.1 / 400) * np.sqrt(2)  # both are simulated


def test_runs_are_put_together_from_ladders_that_start_alike() -> None:
    rng = np.random.default_rng(0)
    ladders = np.zeros((3, 5, 4))
    ladders[:, 1::2, 2] = (
        0.8  # ladders in odd places differ from those in even ones, which is no difference between runs
    )
    assert pcr_pips.by_their_ladders(list(ladders), rng).max() == pytest.approx(0, abs=1e-12)
    ladders[0, 0, 1] = (
        1.0  # one of nine ladders in even places is elsewhere: each of three in a run is that one with probability 1/9
    )
    found = pcr_pips.by_their_ladders(list(ladders), rng)
    assert set(np.round(found, 9)) <= {0.0, 0.2, 0.4, 0.6}
    none = (8 / 9) ** 9 + (3 / 9 * (8 / 9) ** 2) ** 3  # no run has it, or each has it once
    assert abs(np.mean(found < 0.1) - none) < 4 * np.sqrt(none / pcr_pips.MANY) + 0.01


def test_runs_differ_by_their_ladders_or_by_more() -> None:
    rng = np.random.default_rng(1)

    def runs(shift: float, kept: bool) -> Any:
        pips = rng.random((3, 5, 30)) * 0.5 + shift * np.arange(3)[:, None, None] / 3
        return [
            SimpleNamespace(mcse=np.full(30, 0.1), pip=run.mean(axis=0), ladder_pips=run if kept else run[:0])
            for run in pips
        ]

    alike, apart, unknown = (
        pcr_pips.expected_differences(some) for some in (runs(0, True), runs(1.5, True), runs(0, False))
    )
    assert alike["by_ladders_share"] > pcr_pips.UNLIKELY
    assert apart["by_ladders_share"] < pcr_pips.UNLIKELY
    assert (unknown["by_ladders_share"], unknown["ladders"]) == (None, 0)
    assert alike["ladders"] == 15


def test_pcr_default_both_ways() -> None:
    def row(difference: float, spread: float, best: float, mass: float) -> dict[str, Any]:
        return {"prior": pcr_runs.FIXED, "runs": 6, "difference": difference, "replicates_differ_by": spread,
                "best_of_the_default": best, "mass_of_the_default": mass,
                "ladders_from_exact_weights": difference, "default_from_exact_weights": 0.1, "difference_by_exact_weights": 0.05}  # fmt: skip

    assert verdicts(pcr_pips.judge_default([row(0.05, 0.02, 0.0, 0.3)])) == [True, True, True]
    assert verdicts(pcr_pips.judge_default([row(0.5, 0.02, 3.0, 4.0)])) == [False, False, False]
    unsure = pcr_pips.judge_default([row(0.05, 0.2, -1.0, -1.2)])  # the judge does not agree with itself
    assert verdicts(unsure) == [None, True, True]
    assert "exp(-1.0) times as probable" in unsure[2].ours


def test_which_of_two_samplers_is_right_is_said_where_it_is_known() -> None:
    row = {"prior": "a", "difference": 0.3, "ladders_from_exact_weights": 0.3, "default_from_exact_weights": 0.02,
           "best_of_the_default": 0.0, "mass_of_the_default": 0.01}  # fmt: skip
    (words,) = pcr_pips.which_is_right([row])
    assert (
        "from which our default is at most 0.020 away and IA-PT 0.30: our default is to be believed" in words
    )
    (other,) = pcr_pips.which_is_right([{**row, "default_from_exact_weights": 0.7}])
    assert "IA-PT is to be believed, and our default was not in each mode" in other
    unknown = (
        {"difference": 0.05},  # they do not differ
        {"default_from_exact_weights": 0.2},  # one is hardly nearer than the other
        {"best_of_the_default": 1.0},  # one has missed something: see its own claim
        {"mass_of_the_default": -0.7},
    )
    assert pcr_pips.which_is_right([{**row, **change} for change in unknown]) == []


def test_the_experiment_with_independent_columns_both_ways() -> None:
    def row(correlation: float, difference: float, apart: float) -> dict[str, Any]:
        return {"prior": "a", "correlation": correlation, "runs": 3, "iterations": 1000, "largest_difference": difference, "ladders_differ_by": apart}  # fmt: skip

    helps, neither, half = ([row(0.9, 0.3, 20.0), row(0.0, *other)] for other in ((0.1, 3.0), (0.4, 30.0), (0.1, 30.0)))  # fmt: skip
    assert verdicts([*pcr_correlation.judge(helps), *pcr_correlation.judge(neither), *pcr_correlation.judge(half)]) == [True, False, False]  # fmt: skip
    assert pcr_correlation.judge([]) == []
    blocks, free = (
        np.corrcoef(pcr_runs.simulated(400, rho).X.to_numpy()[:, :2].T)[0, 1] for rho in (0.9, 0.0)
    )
    assert abs(blocks - 0.9) < 4 * (1 - 0.9**2) / np.sqrt(published.PCR_N)
    assert abs(free) < 4 / np.sqrt(published.PCR_N)


def test_runs_with_few_chains_beside_runs_with_many() -> None:
    def run(*pips: float) -> Any:
        return SimpleNamespace(pip=np.array(pips))

    runs: Any = {(pcr_runs.FIXED, 5): [run(0.2, 0.9), run(0.4, 0.9)], (pcr_runs.FIXED, 25): [run(0.3, 0.5), run(0.3, 0.7)]}  # fmt: skip
    (words,) = pcr_pips.chains_apart(runs)
    assert "differ by up to 0.30" in words
    assert "5 times as short" in words
    del runs[pcr_runs.FIXED, 25]
    assert pcr_pips.chains_apart(runs) == []


def test_pcr_summaries_of_runs() -> None:
    """Two short runs of a small problem, beside what is known about them."""
    data = wv.datasets.load_uscrime()
    problem = wv.Problem(data.X.iloc[:, :6], data.y)
    runs = [
        Summary.of(wv.sample(problem, wv.ParallelTempering(rungs=3), draws=2000, replicates=1, seed=s, progress=False))
        for s in range(2)
    ]  # fmt: skip
    row = pcr_pips.summarise("a prior", 1, runs, 3, 1.0)
    pips = np.array([p.pip for p in runs])
    assert row["largest_difference"] == pytest.approx(np.abs(pips[0] - pips[1]).max())
    sums = pips.reshape(2, 2, 3).sum(axis=2)
    assert row["largest_difference_of_blocks"] == pytest.approx(np.abs(sums[0] - sums[1]).max())
    assert row["smallest_correlation"] == pytest.approx(np.corrcoef(pips)[0, 1])
    assert row["best_models_differ_by"] == pytest.approx(0, abs=1e-9)
    assert 0 < row["fewest_round_trips"] <= row["most_round_trips"]
    worst = int(np.abs(pips[0] - pips[1]).argmax())
    assert row["monte_carlo_error_there"] == pytest.approx(np.mean([p.mcse[worst] for p in runs]))
    assert row["chains_of_a_run_differ_by"] == 0.0  # there is one chain
    quarters = np.array([pcr_pips.mean_sizes_by_quarter(p) for p in runs])
    assert quarters.shape == (2, 4)
    assert row["size_in_the_last_quarter"] == pytest.approx(quarters[:, -1].mean())
    assert quarters.mean() == pytest.approx(np.mean([p.mean_size for p in runs]), abs=0.5)
    default = Summary.of(wv.sample(problem, wv.Hybrid(), draws=2000, replicates=2, seed=0, progress=False))
    beside = pcr_pips.compare("a prior", runs, default)
    assert beside["difference"] == pytest.approx(np.abs(pips.mean(axis=0) - default.pip).max())
    assert beside["best_of_the_default"] == pytest.approx(0, abs=1e-9)
    one, other = (summaries.exact_masses(some)[1] for some in (runs, [default]))
    assert beside["mass_of_the_default"] == pytest.approx(other - one, abs=1e-9)


def test_other_pcr_claims_both_ways() -> None:
    key = pcr_runs.HIERARCHICAL
    means = {(pcr_runs.HIERARCHICAL, 5): [19.6, 20.5], (pcr_runs.FIXED, 5): [4.0, 8.5]}
    default = dict.fromkeys(pcr_runs.PRIORS, 5.0)
    assert verdicts(pcr_sizes.judge(means, default, real=True)) == [True, False]
    assert verdicts(pcr_sizes.judge(means, default, real=False)) == [None, None]

    def timed(seconds: float) -> list[dict[str, Any]]:
        return [
            {"prior": key, "chains": 5, "part": part, "seconds": seconds * part, "whole_seconds": seconds, "whole_cpu": 300.0}
            for part in (0.025, 0.1)
        ]  # fmt: skip

    assert verdicts(pcr_time.judge(timed(170.0), 2, 0.0)) == [True]
    assert verdicts(pcr_time.judge(timed(190.0), 2, 0.0)) == [False]
    assert verdicts(pcr_time.judge(timed(190.0), 2, 6.0)) == [
        None
    ]  # busy, and it might have met the aim: 300/2 < 180
    assert verdicts(pcr_time.judge(timed(170.0), 2, 6.0)) == [True]
    assert verdicts(pcr_time.judge([{**row, "whole_cpu": 400.0} for row in timed(290.0)], 2, 6.0)) == [False]
    assert "busy with other work" in pcr_time.judge(timed(190.0), 2, 6.0)[0].why
    assert "150 s on 2 cores" in pcr_time.judge(timed(190.0), 2, 0.0)[0].why
    assert "no drift" in pcr_traces.judge([0.1, -0.2])[0].why
    assert "on its way" in pcr_traces.judge([0.1, -0.9])[0].why
    assert pcr_traces.drift(np.array([0.0, 0.0, 2.0, 2.0])) == pytest.approx(2.0)


def test_screening_counts_and_claims() -> None:
    pip = np.array([0.9, 0.2, 0.2, 0.06, 0.02, 0.0])
    found = pcr_screening.lost(pip, np.array([0, 1, 3]))
    assert found == {0.5: (1, 1), 0.1: (3, 2), 0.05: (4, 3), 0.01: (5, 3)}
    assert verdicts(pcr_screening.judge(found, (5.0, 6.0), 3, real=False)) == [None, True, True, True, None]
    none_lost = pcr_screening.lost(pip, np.arange(6))
    assert verdicts(pcr_screening.judge(none_lost, (5.0, 4.0), 6, real=True)) == [
        False,
        False,
        False,
        False,
        False,
    ]
    empty = pcr_screening.lost(np.zeros(6), np.array([0]))
    assert verdicts(pcr_screening.judge(empty, (0.0, 0.0), 1, real=False))[1:4] == [None] * 3
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 8)) * np.arange(1, 9) + 100
    assert pcr_screening.best_marginal(X, -X[:, 5] + 0.1 * X[:, 2], 1).tolist() == [5]
    correlation = np.abs(np.corrcoef(X.T, X[:, 0])[-1, :-1])
    assert set(pcr_screening.best_marginal(X, X[:, 0], 3)) == set(np.argsort(-correlation)[:3])


def test_the_stand_in_has_the_papers_size() -> None:
    design = pcr_runs.simulated(400)
    assert design.X.shape == (published.PCR_N, 400)
    assert (design.truth != 0).sum() > 5
    assert design.truth.abs().max() == 1.0


# --- the gene expression matrix
# ----------------------------------------------------------------------------------------------------------

MATRIX = """!Series_title\t"A few mice"
!Sample_geo_accession\t"GSM1"\t"GSM2"\t"GSM3"\t"GSM4"
!Sample_characteristics_ch1\t"scd1: 1.5"\t"scd1: 2.5"\t"scd1: 0.5"\t"scd1: -1"
!Sample_characteristics_ch1\t"strain: BTBR"\t"strain: B6"\t"strain: B6"\t"strain: B6"
!series_matrix_table_begin
"ID_REF"\t"GSM1"\t"GSM2"\t"GSM3"\t"GSM4"
"1415670_at"\t7.25\t7.5\t7.125\t6
"1415671_at"\t-1\t0\t1e1\t2
!series_matrix_table_end
"""


def matrix(folder: Path, text: str = MATRIX, zipped: bool = False) -> Path:
    path = folder / ("m.txt.gz" if zipped else "m.txt")
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    return path


@pytest.mark.parametrize("zipped", [False, True])
def test_a_series_matrix_is_read(tmp_path: Path, zipped: bool) -> None:
    data = geo.load_geo(matrix(tmp_path, zipped=zipped), "scd1")
    assert data.X.shape == (4, 2)
    assert data.X.loc["GSM3", "1415671_at"] == 10.0
    assert data.y.tolist() == [1.5, 2.5, 0.5, -1.0]
    assert data.y.index.equals(data.X.index)
    response = tmp_path / "pcr.csv"
    response.write_text("sample,value\nGSM4,4\nGSM1,1\nGSM2,2\n")  # no GSM3, another order
    data = geo.load_geo(matrix(tmp_path, zipped=zipped), str(response))
    assert list(data.X.index) == ["GSM1", "GSM2", "GSM4"]
    assert data.y.tolist() == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("!series_matrix_table_begin", "!begin"), "not a GEO series matrix file"),
        (("!series_matrix_table_end", ""), "ends too early"),
        (
            ("\t7.5\t", "\tnull\t"),
            r"probe '1415670_at' \(line 7\), sample 'GSM2': 'null' is not a finite number",
        ),
        (("\t7.5\t", "\t\t"), "'' is not a finite number"),
        (("\t7.5\t", "\t"), "has 3 values for 4 samples"),
        (('_at"\t-1', '_at"\tinf'), "'inf' is not a finite number"),
        (("1415671_at", "1415670_at"), "probe '1415670_at' occurs more than once"),
        (('"ID_REF"\t"GSM1"\t"GSM2"', '"ID_REF"\t"GSM1"\t"GSM1"'), "sample 'GSM1' occurs more than once"),
    ],
)
def test_a_damaged_matrix_is_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in MATRIX
    with pytest.raises(DataError, match=message):
        geo.read_matrix(matrix(tmp_path, MATRIX.replace(*change)))


def test_other_bad_gene_files(tmp_path: Path) -> None:
    path = matrix(tmp_path, zipped=True)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="gzipped file is damaged"):
        geo.read_matrix(path)
    path.write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(DataError, match="not UTF-8"):
        geo.read_matrix(path)
    with pytest.raises(DataError, match="cannot be read"):
        geo.read_matrix(tmp_path / "nowhere")
    good = matrix(tmp_path)
    with pytest.raises(DataError, match=r"neither a CSV file nor a characteristic .*scd1, strain"):
        geo.load_geo(good, "gpat")
    with pytest.raises(DataError, match="'BTBR' of sample 'GSM1' is not a number"):
        geo.load_geo(good, "strain")
    response = tmp_path / "r.csv"
    for text, message in (
        ("a,1\nb,2\n", "only 0 of the 4 samples"),
        ("GSM1,1\nGSM1,2\n", "'GSM1' occurs more than once"),
        ("GSM1,1,x\n", "row 1 has 3 columns"),
    ):
        response.write_text(text)
        with pytest.raises(DataError, match=message):
            geo.load_geo(good, str(response))


def test_the_real_matrix_takes_the_place_of_the_simulated_one(tmp_path: Path) -> None:
    data = geo.load_geo(matrix(tmp_path), "scd1")
    study = Study(TINY, tmp_path, gene_data=data)
    assert pcr_runs.data(study) is data
    assert "The real matrix: GEO series matrix m.txt: n = 4, p = 2." in pcr_runs.about_data(study)


def test_a_section_without_claims_makes_a_page(tmp_path: Path) -> None:
    study = Study(TINY, tmp_path)
    section = Section("Nothing")
    study.table(section, "t", [{"a": 1.23456, "b": None}, {"a": 2.0, "c": "x|y"}], "A table")
    study.write("pcr_time", section, "c", 0.0)
    text = page.write_page(tmp_path, FIGURES).read_text()
    assert "| 1.235 | – | – |" in text
    assert "x\\|y" in text
