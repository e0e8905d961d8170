"""Other programs' adapters: what they are given, what is read back, who is skipped. Nothing is timed."""

from __future__ import annotations

import json
import math
import stat
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import whichvars as wv

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks import common, problems, references  # noqa: E402
from benchmarks.__main__ import main  # noqa: E402
from benchmarks.peers import contest, exchange, process, selection  # noqa: E402
from benchmarks.peers.bms import BMS  # noqa: E402
from benchmarks.peers.particles_smc import Particles  # noqa: E402


def data() -> wv.datasets.Dataset:
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(40, 6)) + 5, columns=list("abcdef"))
    effects = pd.Series([2.0, -2.0, 0.3, 0, 0, 0], X.columns)
    return wv.datasets.Dataset(X, X @ effects + rng.normal(size=40), "six columns", effects)


def problem(slab: object, prior: object = None, **options: object) -> wv.Problem:
    X, y = data()[:2]
    return wv.Problem(X, y, slab=slab, model_prior=prior or wv.FixedInclusion(h=0.3), **options)  # type: ignore[arg-type]


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a problem of a given slab among the benchmarks' as "six"; no files outside tmp_path."""
    monkeypatch.setattr(references, "FOLDER", tmp_path / "references")
    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")

    def put(slab: object, prior: object = None) -> exchange.Workload:
        named = problems.Named("six: variables", lambda: problem(slab, prior), data)
        monkeypatch.setitem(problems.PROBLEMS, "six", named)
        problems.build.cache_clear()
        references.save("six", references.make(problems.build("six"), minutes=1))
        return exchange.workload("six")

    yield put
    problems.build.cache_clear()


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


FAKE_RSCRIPT = """
import csv, pathlib, sys
if sys.argv[1] == "-e":
    sys.exit({missing})
iterations, burn, seed, g, kind, size, folder = sys.argv[2:]
assert pathlib.Path(sys.argv[1]).name == "bms.R"
assert (g, kind, float(size)) == ("40.0", "{kind}", {size}), (g, kind, size)
assert int(burn) == int(iterations) // 10
sum(i * i for i in range(100_000))
folder = pathlib.Path(folder)
names = next(csv.reader((folder / "data.csv").open()))[1:]
with (folder / "pips.csv").open("w") as file:
    file.write("variable,pip\\n" + "".join(f"{{n}},{{0.5 + 0.01 * i}}\\n" for i, n in enumerate(names)))
(folder / "seconds.txt").write_text("0.001\\n")
"""


# --- what goes out
# ----------------------------------------------------------------------------------------------------------


def test_other_programs_get_the_columns_on_the_scale_of_the_slab(named, tmp_path: Path) -> None:
    work = named(wv.IndependentNormal(2.0))
    folder = exchange.write_workload(work, tmp_path / "out")
    table = pd.read_csv(folder / "data.csv")
    assert list(table.columns) == ["y", *"abcdef"]
    np.testing.assert_allclose(table.mean(), 0, atol=1e-12)
    np.testing.assert_allclose(table.iloc[:, 1:].std(), 1)
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["slab"] == {"kind": "independent", "g": 2.0}
    assert settings["model_prior"] == {"kind": "fixed", "h": 0.3}
    # the posterior under these settings, from the file alone, is the reference
    again = wv.Problem(
        table.iloc[:, 1:],
        table["y"],
        slab=wv.IndependentNormal(settings["slab"]["g"]),
        model_prior=wv.FixedInclusion(h=settings["model_prior"]["h"]),
        scale="none",
    )
    np.testing.assert_allclose(wv.exact(again).pip, wv.exact(work.problem).pip, rtol=1e-9)


def test_every_prior_has_its_words() -> None:
    assert exchange.settings_of(problem(wv.GPrior("n")))["slab"] == {"kind": "g-prior", "g": 40.0}
    beta = exchange.settings_of(problem(wv.GPrior(3), wv.BetaBinomial(size=2)))["model_prior"]
    assert beta == {"kind": "beta-binomial", "a": 1.0, "b": 2.0}
    uneven = wv.FixedInclusion(h=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert exchange.settings_of(problem(wv.BIC(), uneven))["model_prior"]["kind"] == "by variable"
    assert exchange.settings_of(problem(wv.BIC()))["slab"]["kind"] == "BIC()"


@pytest.mark.parametrize("name", ["tecator", "fls", "uscrime"])
def test_the_data_of_a_benchmark_are_those_of_its_problem(name: str) -> None:
    work = exchange.workload(name)
    diagonal = work.problem.target(0).design.diagonal
    if isinstance(work.problem.slab, wv.IndependentNormal):
        np.testing.assert_allclose((work.X**2).sum(), diagonal, rtol=1e-9)
    correlation = work.problem.target(0).design.xty / np.sqrt(diagonal)
    np.testing.assert_allclose(work.X.corrwith(work.y), correlation, atol=1e-9)


# --- what comes back
# ----------------------------------------------------------------------------------------------------------


def written(folder: Path, pips: str = "variable,pip\na,0.5\nb,1\n", seconds: str = "1.5 0.25\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pips.csv").write_text(pips)
    (folder / "seconds.txt").write_text(seconds)
    return folder


def test_files_are_read(tmp_path: Path) -> None:
    one = exchange.read_outcome(written(tmp_path / "one"), ["b", "a"])
    assert one.pips.tolist() == [1.0, 0.5]  # in the order of the problem
    assert (one.cpu_seconds, one.startup_seconds) == (1.5, 0.25)
    assert math.isnan(
        exchange.read_outcome(written(tmp_path / "two", seconds="3"), ["a", "b"]).startup_seconds
    )
    assert len(exchange.read_outcomes(tmp_path, ["a", "b"])) == 2
    assert len(exchange.read_outcomes(tmp_path / "one", ["a", "b"])) == 1


@pytest.mark.parametrize(
    ("pips", "seconds", "message"),
    [
        ("variable,pip\na,0.5\n", "1", "'b' is missing"),
        ("variable,pip\na,0.5\nb,1\nc,0\n", "1", "'c' is no variable"),
        ("variable,pip\na,0.5\na,0.5\n", "1", "line 3: 'a' was there before"),
        ("variable,pip\na,1.5\nb,1\n", "1", "line 2: '1.5' of 'a' is not a probability"),
        ("variable,pip\na,\nb,1\n", "1", "is not a probability"),
        ("variable,pip\na,nan\nb,1\n", "1", "is not a probability"),
        ("name,p\na,1\n", "1", "columns named variable and pip"),
        ("", "1", "columns named variable and pip"),
        ("variable,pip\na,0.5\nb,1\n", "quick", "one or two numbers"),
        ("variable,pip\na,0.5\nb,1\n", "0", "above 0"),
        ("variable,pip\na,0.5\nb,1\n", "", "above 0"),
        ("variable,pip\na,0.5\nb,1\n", "1 2 3", "above 0"),
    ],
)
def test_bad_files_are_refused_with_a_reason(tmp_path: Path, pips: str, seconds: str, message: str) -> None:
    with pytest.raises(exchange.BadFileError, match=message):
        exchange.read_outcome(written(tmp_path, pips, seconds), ["a", "b"])


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(exchange.BadFileError, match=r"pips\.csv: there is no such file"):
        exchange.read_outcome(tmp_path, ["a"])
    with pytest.raises(exchange.BadFileError, match="neither"):
        exchange.read_outcomes(tmp_path, ["a"])
    with pytest.raises(exchange.BadFileError, match="no such folder"):
        exchange.read_outcomes(tmp_path / "nowhere", ["a"])


# --- adapters
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "kind", "size"),
    [(wv.FixedInclusion(h=0.5), "fixed", 3.0), (wv.BetaBinomial(size=2), "random", 2.0)],
)
def test_bms_is_called_with_the_problems_prior(named, tmp_path: Path, prior, kind: str, size: float) -> None:
    work = named(wv.GPrior("n"), prior)
    fake = script(tmp_path / "Rscript", FAKE_RSCRIPT.format(missing=0, kind=kind, size=size))
    peer = BMS(str(fake))
    peer.check(work)
    outcome = peer.run(work, 1000, 7)
    np.testing.assert_allclose(outcome.pips, 0.5 + 0.01 * np.arange(6))
    assert outcome.cpu_seconds == 0.001
    assert outcome.startup_seconds > 0.001  # what the process took beyond what it says it computed


def test_bms_is_skipped_with_a_reason(named, tmp_path: Path) -> None:
    work = named(wv.GPrior("n"))
    with pytest.raises(exchange.Skipped, match="Rscript is not installed"):
        BMS(str(tmp_path / "nothing")).check(work)
    fake = script(tmp_path / "Rscript", FAKE_RSCRIPT.format(missing=1, kind="", size=0))
    with pytest.raises(exchange.Skipped, match="package BMS is not installed"):
        BMS(str(fake)).check(work)
    with pytest.raises(exchange.Skipped, match="g-priors only"):
        BMS(str(fake)).check(named(wv.IndependentNormal(1)))


def test_a_process_that_fails_or_takes_too_long_is_skipped(named, tmp_path: Path) -> None:
    work = named(wv.GPrior("n"))
    fails = script(tmp_path / "fails", "import sys\nprint('first', file=sys.stderr)\nsys.exit('no memory')\n")
    with pytest.raises(exchange.Skipped, match="ended with code 1: no memory"):
        process.run([str(fails)], work)
    slow = script(tmp_path / "slow", "import time\ntime.sleep(30)\n")
    with pytest.raises(exchange.Skipped, match="given up"):
        process.run([str(slow)], work, patience=0.2)
    silent = script(tmp_path / "silent", "")
    with pytest.raises(exchange.BadFileError, match="no such file"):
        process.run([str(silent)], work)


def test_particles_is_skipped_with_a_reason(named, tmp_path: Path) -> None:
    with pytest.raises(exchange.Skipped, match="independent slab only"):
        Particles(tmp_path).check(named(wv.GPrior("n")))
    with pytest.raises(exchange.Skipped, match="independent inclusion only"):
        Particles(tmp_path).check(named(wv.IndependentNormal(1), wv.BetaBinomial(size=2)))
    with pytest.raises(exchange.Skipped, match="--environments"):
        Particles(None).check(named(wv.IndependentNormal(1)))


def test_particles_runs_in_its_own_environment(named, tmp_path: Path) -> None:
    """A fake package in the place of the real one: the adapter's script must give it our prior and read its particles."""
    work = named(wv.IndependentNormal(4.0))
    package = tmp_path / "particles"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import numpy as np\n"
        "class SMC:\n"
        "    def __init__(self, fk, N):\n"
        "        self.model, self.N = fk.model, N\n"
        "    def run(self):\n"
        "        m = self.model\n"
        "        assert (m.nu, m.lamb, m.iv2, m.prior.h, m.X.shape) == (-1.0, 0.0, 0.25, 0.3, (40, 6))\n"
        "        assert abs(m.X.mean()) < 1e-12 and self.N == 2\n"
        "        self.W = np.array([0.25, 0.75])\n"
        "        self.X = type('X', (), {'theta': np.array([[1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 1]], bool)})\n"
    )
    (package / "binary_smc.py").write_text(
        "class Bernoulli:\n    def __init__(self, h): self.h = h\n"
        "class BinaryMetropolis: pass\n"
        "class BayesianVS:\n"
        "    def __init__(self, data, prior, nu, lamb, iv2):\n"
        "        self.X, self.prior, self.nu, self.lamb, self.iv2 = data[0], prior, nu, lamb, iv2\n"
    )
    (package / "distributions.py").write_text("def IID(law, p):\n    assert p == 6\n    return law\n")
    (package / "smc_samplers.py").write_text(
        "def MCMCSequenceWF(mcmc, len_chain): return mcmc\n"
        "class AdaptiveTempering:\n    def __init__(self, model, len_chain, move): self.model = model\n"
    )
    python = tmp_path / "environments" / "particles" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\nPYTHONPATH='{tmp_path}' exec '{sys.executable}' \"$@\"\n")
    python.chmod(0o755)
    peer = Particles(tmp_path / "environments")
    peer.check(work)  # works, so nothing is installed
    outcome = peer.run(work, 100, 1)
    np.testing.assert_allclose(outcome.pips, [1, 0.25, 0, 0, 0, 0.75])


def test_selectors_find_strong_effects(named) -> None:
    work = named(wv.IndependentNormal(1.0))
    for selector in selection.SELECTORS.values():
        chosen, seconds = selection.timed(selector, work, 0)
        assert chosen[:2].all()
        assert seconds > 0


def test_bayesian_ridge_is_left_out_where_it_does_not_fit(named, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "LARGEST_RIDGE", 5)
    with pytest.raises(exchange.Skipped, match="5 variables"):
        selection.ridge(named(wv.IndependentNormal(1.0)), 0)


# --- the contest
# ----------------------------------------------------------------------------------------------------------


class Noisy:
    """A peer whose PIPs are the exact ones plus noise of a size that falls like 1/√size; it says it takes size/1000 s."""

    name, first_size, least_size = "noisy", 1000, 100

    def __init__(self, noise: float) -> None:
        self.noise = noise

    def check(self, work: exchange.Workload) -> None:
        return

    def run(self, work: exchange.Workload, size: int, seed: int) -> exchange.Outcome:
        shift = self.noise / np.sqrt(size) * np.where(np.arange(work.problem.p) % 2, 1, -1)
        return exchange.Outcome(wv.exact(work.problem).pip + shift, size / 1000, 0.5)


class Absent(Noisy):
    name = "absent"

    def check(self, work: exchange.Workload) -> None:
        raise exchange.Skipped("is not installed")


def test_cost_worst_error_and_seconds_needed_are_those_of_the_runs(named) -> None:
    work = named(wv.IndependentNormal(1.0))
    reference = references.load("six", work.problem)
    assert isinstance(reference, references.Reference)
    outcomes = contest.run_peer(Noisy(1.0), work, budget=16.0, count=2, seed=0)  # up to 16,000, error 1/√size
    row = contest.row_of(outcomes, reference)
    assert row["cost"] == pytest.approx(1 / 1000)  # 1/size × size/1000
    assert row["worst_error"] == pytest.approx(16_000**-0.5)
    assert (row["seconds_needed"], row["reached"]) == (4.0, True)  # 1/√1000 > .02 ≥ 1/√4000
    assert row["startup_seconds"] == 0.5
    far = contest.row_of(contest.run_peer(Noisy(10.0), work, 16.0, 1, 0), reference)
    assert (far["seconds_needed"], far["reached"]) == (16.0, False)
    assert far["cost"] == pytest.approx(100 * row["cost"])


def test_sizes_below_the_least_are_not_repeated(named) -> None:
    peer = Noisy(1.0)
    peer.least_size = 5000  # type: ignore[misc]
    outcomes = contest.run_peer(peer, named(wv.IndependentNormal(1.0)), 16.0, 1, 0)
    assert [o[0].cpu_seconds for o in outcomes.values()] == [5.0, 16.0]


def test_contest_end_to_end(named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = named(wv.IndependentNormal(1.0))
    monkeypatch.setattr(contest, "CANDIDATES", ("hybrid", "ads-rb"))
    given = {"six": {"theirs": [exchange.Outcome(wv.exact(work.problem).pip + 0.1, 2.0)]}}
    said: list[str] = []
    result = common.plain(contest.measure(["six"], [Noisy(1.0), Absent(1.0)], given, 0.02, 2, said.append))
    found = result["workloads"]["six"]
    assert found["skipped"] == {"absent": "is not installed"}
    assert "absent skipped: is not installed" in said
    rows = found["rows"]
    assert rows["whichvars, default (every model)"]["worst_error"] < 1e-12
    base = rows["whichvars, by sampling nevertheless"]
    assert base["ratio"] == 1.0
    assert rows["theirs (from files)"]["ratio"] == pytest.approx(0.01 * 2 / base["cost"])
    assert rows["noisy"]["ratio"] == pytest.approx(0.001 / base["cost"])
    assert not rows["theirs (from files)"]["reached"]
    picks = found["selection"]["scikit-learn LassoCV"]
    assert (picks["true"], picks["true_found"]) == (3, 3)
    headline, selected = contest.tables(result)
    assert "absent is skipped: it is not installed." in headline.note
    assert [row[0] for row in headline.rows][-2:] == ["noisy", "theirs (from files)"]
    assert headline.rows[0][1] == "exact"
    assert headline.rows[-1][3] == "> 2.0"
    assert selected.rows[0][0] == "whichvars, PIP > ½"


def test_peers_command(named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = named(wv.IndependentNormal(1.0))
    monkeypatch.setitem(problems.PROBLEMS, "uscrime", problems.PROBLEMS["six"])  # names of options are fixed
    references.save("uscrime", references.make(work.problem, minutes=1))
    monkeypatch.setattr(contest, "CANDIDATES", ("hybrid",))
    theirs = written(tmp_path / "theirs", "variable,pip\n" + "".join(f"{n},0.4\n" for n in "abcdef"))
    arguments = ["peers", "--problems", "uscrime", "--budget", "0.01", "--runs", "1", "--markdown"]
    run = CliRunner().invoke(main, [*arguments, "--file", f"uscrime:theirs={theirs}"])
    assert run.exit_code == 0, run.output
    assert "| theirs (from files) |" in run.output
    assert "BMS is skipped: it has g-priors only" in run.output
    assert "particles is skipped: it needs an environment of its own" in run.output
    assert (common.RESULTS / "peers.json").exists()
    for text, message in (
        ("uscrime=x", "PROBLEM:NAME=FOLDER"),
        ("seven:x=y", "'seven' is not one of uscrime"),
        (f"uscrime:x={tmp_path / 'nowhere'}", "no such folder"),
    ):
        wrong = CliRunner().invoke(main, [*arguments, "--file", text])
        assert wrong.exit_code == 2
        assert message in wrong.output.replace("\n", " ")
    run = CliRunner().invoke(main, ["peers", "--problems", "uscrime", "--export", str(tmp_path / "out")])
    assert run.exit_code == 0
    assert (tmp_path / "out" / "uscrime" / "data.csv").exists()
