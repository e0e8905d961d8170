"""The demonstration and the front of the command line: what it prints is right, fits a terminal, and needs none."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import whichvars as wv
from whichvars.cli import demo, main
from whichvars.cli.demonstration import DRAWS, NEXT_STEPS, US_CRIME
from whichvars.cli.show import WIDEST
from whichvars.posterior.tables import in_words


@pytest.fixture(autouse=True, scope="module")
def no_report() -> Iterator[None]:
    """A report takes seconds and is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            wv.Posterior, "report", lambda self, path, *_, **__: path.write_text("report"), raising=False
        )
        yield


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("demo")
    result = CliRunner().invoke(main, ["demo", "--quick", "--out", str(out)], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert wv.Posterior.load(out / "posterior.npz").problem.p == 100
    assert f"Report: {out / 'report.html'}" in result.output
    return result.output


@pytest.mark.filterwarnings("error::whichvars.errors.ConvergenceWarning")
def test_demo_prints_the_exact_probabilities_most_probable_first(output: str) -> None:
    found = re.findall(r"^(\S+) +\S.*?[█░]{10} +([\d.]+)% +(\D+?) *$", output, re.MULTILINE)
    reference = {
        "Ineq": 99.75, "Ed": 97.76, "Prob": 89.63, "M": 85.04, "NW": 67.93, "Po1": 66.55, "U2": 59.96, "Po2": 42.16,
        "Time": 33.33, "Pop": 33.02, "GDP": 31.25, "So": 23.07, "U1": 20.83, "M.F": 16.03, "LF": 15.67,
    }  # fmt: skip
    assert [name for name, _, _ in found] == list(reference)
    for name, percent, words in found:
        assert float(percent) == pytest.approx(reference[name], abs=0.0501)
        assert words == in_words(reference[name] / 100)


def test_demo_samples_with_errors_that_cover_the_reference(output: str) -> None:
    found = {
        name: (float(pip), float(error))
        for name, pip, error in re.findall(r"^(x\d{3}) .*? ([\d.]+) ± +([\d.]+)%", output, re.MULTILINE)
    }
    assert len(found) == 10
    pip, error = found["x041"]
    assert 0 < error < 5
    assert abs(pip - 59.8) < 5 * error + 0.1  # 59.8: a long run of an independent sampler


@pytest.mark.parametrize("columns", [80, 120])
def test_demo_fits_the_terminal(columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["demo", "--quick"], env={"COLUMNS": str(columns)})
    assert (tmp_path / "whichvars-demo" / "settings.json").exists()
    longest = max(result.output.splitlines(), key=len)
    assert len(longest) <= min(columns, WIDEST + 1), longest
    assert "…" not in result.output, "rich cut something off"


def test_demo_survives_a_terminal_without_unicode_blocks(tmp_path: Path) -> None:
    arguments = ["demo", "--quick", "--out", str(tmp_path)]
    result = CliRunner(charset="ascii").invoke(main, arguments, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.exception


def test_the_three_lines_shown_work() -> None:
    data = wv.datasets.load_uscrime()
    lines = NEXT_STEPS.replace("seed=0", "seed=0, draws=1000, progress=False")
    exec(lines, {"X": data.X, "y": data.y})
    assert all(len(line) + 2 <= 80 for line in NEXT_STEPS.splitlines())


def test_words_cover_zero_to_one_in_order() -> None:
    words = [in_words(p) for p in (0.0, 0.02, 0.3, 0.5, 0.95, 1.0)]
    assert words == [
        "almost certainly out",
        "probably out",
        "plausible",
        "probably in",
        "almost certainly in",
        "almost certainly in",
    ]


def test_every_variable_is_explained_and_quick_is_smaller() -> None:
    assert set(US_CRIME) == set(wv.datasets.load_uscrime().X.columns)
    assert DRAWS > 100_000
    assert [p.hidden for p in demo.params if p.name == "quick"] == [True]  # type: ignore[attr-defined]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, whichvars.cli as c\n"
        "c.main(['--help'], standalone_mode=False)\n"
        "print([m for m in ('numba', 'numpy', 'pandas', 'scipy', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "demo" in done.stdout


def test_python_dash_m() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "whichvars", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["whichvars,", "version", wv.__version__]
