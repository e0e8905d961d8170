"""Progress: what it says, in a terminal and in a notebook, and when it says nothing."""

import io
import itertools
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whichvars as wv
from whichvars.sampling import progress
from whichvars.sampling.progress import Progress, Report, progress_words


@pytest.fixture(scope="module")
def problem() -> wv.Problem:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 8))
    return wv.Problem(X, X[:, 0] + rng.normal(size=40))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that runs a hundred times as fast, so that short runs are long enough to be shown."""
    slow = progress.time.monotonic
    monkeypatch.setattr(progress.time, "monotonic", lambda: 100 * slow())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watch(problem: wv.Problem, sampler: Any = "auto", **options: Any) -> tuple[list[Report], wv.Posterior]:
    reports: list[Report] = []
    posterior = wv.sample(problem, sampler, progress=reports.append, seed=5, **options)
    return reports, posterior


@pytest.mark.parametrize("sampler", ["auto", wv.IndividualAdaptation(chains=2), wv.Hybrid(chains=2)], ids=str)
def test_the_last_report_says_what_the_posterior_says(sampler: Any, problem: wv.Problem, quick: None) -> None:
    reports, posterior = watch(problem, sampler, draws=4000, replicates=3, chunk=250)
    last = reports[-1]
    assert last.fraction == 1
    assert last.largest_mcse == pytest.approx(np.nanmax(posterior.mcse))
    means = posterior.replicate_pips
    assert means is not None
    assert last.disagreement == pytest.approx((means.max(axis=0) - means.min(axis=0)).max())
    assert last.seconds_left == 0
    assert all(a.fraction <= b.fraction for a, b in itertools.pairwise(reports))


def test_time_left_and_rate_do_not_count_compilation() -> None:
    reports: list[Report] = []
    now = [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress.time, "monotonic", lambda: now[0])
        run: Any = types.SimpleNamespace(iterations=0, units=[None], fraction=0.0, status="")
        bar = Progress(reports.append, 1000)
        for seconds, iterations in [
            (30.0, 100),
            (31.0, 200),
            (33.0, 400),
        ]:  # 30 s of compiling, then 100 a second
            now[0], run.iterations = seconds, iterations
            bar.update([run], idle=[])
    assert reports[0].seconds_left is None
    assert reports[-1].rate == pytest.approx(100)
    assert reports[-1].seconds_left == pytest.approx(6)


def test_a_budget_is_a_measure_of_what_is_done() -> None:
    reports: list[Report] = []
    now = [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress.time, "monotonic", lambda: now[0])
        run: Any = types.SimpleNamespace(iterations=0, units=[None], fraction=0.0, status="")
        bar = Progress(reports.append, 10**9, budget=20.0)
        for seconds in (1.0, 6.0, 25.0):
            now[0], run.iterations = seconds, int(100 * seconds)
            bar.update([run], idle=[])
    assert [r.fraction for r in reports] == [0.05, 0.3, 1.0]
    assert reports[1].seconds_left == pytest.approx(14)


def test_of_a_budget_only_the_time_spent_sampling_counts() -> None:
    reports: list[Report] = []
    run: Any = types.SimpleNamespace(iterations=100, units=[None], fraction=0.0, status="")
    bar = Progress(reports.append, 10**9, budget=20.0)
    bar.started -= 3600.0  # of compiling
    bar.update([run], idle=[], spent=5.0)
    assert reports[0].fraction == 0.25


def test_one_replicate_has_no_disagreement(problem: wv.Problem) -> None:
    reports, _ = watch(problem, draws=5000, replicates=1)
    assert reports[-1].disagreement is None
    assert reports[-1].largest_mcse is not None


def test_a_terminal_sees_one_line_and_then_none(problem: wv.Problem, quick: None, monkeypatch: Any) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    wv.sample(problem, draws=30_000, chunk=1000, replicates=2)
    shown = screen.getvalue()
    assert "sampling" in shown
    for words in ("left", "/s", "error ", "apart "):
        assert words in shown
    assert "…" not in shown, "it does not fit"
    assert shown.rstrip().endswith("\x1b[2K"), "the line is not wiped"


def test_a_notebook_sees_the_same_without_widgets(problem: wv.Problem, quick: None, monkeypatch: Any) -> None:
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, bundle: dict[str, str], raw: bool) -> None:
            shown.append(bundle)

    def display(bundle: dict[str, str], raw: bool, display_id: bool) -> Handle:
        shown.append(bundle)
        return Handle()

    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    module = types.ModuleType("IPython.display")
    module.display = display  # type: ignore[attr-defined]
    shell = types.ModuleType("IPython")
    shell.get_ipython = lambda: types.SimpleNamespace(kernel=None)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    wv.sample(problem, draws=30_000, chunk=1000, replicates=2)
    assert re.search(r"largest error \d", shown[-2]["text/plain"])
    assert re.search(r"replicates differ by \d", shown[-2]["text/html"])
    assert "<progress" in shown[-2]["text/html"]
    assert shown[-1]["text/plain"] == ""


CELLS = """
import numpy as np, whichvars as wv
X = np.random.default_rng(1).normal(size=(40, 30))
problem = wv.Problem(X, X[:, 0] + np.random.default_rng(2).normal(size=40))
wv.sample(problem, draws=300_000, replicates=2)
"""


def test_a_real_notebook_shows_progress_and_a_table() -> None:
    """A kernel as notebooks have it is asked to sample; what it displays meanwhile is kept."""
    nbclient = pytest.importorskip("nbclient")
    from nbformat import v4

    shown: list[dict[str, str]] = []

    class Client(nbclient.NotebookClient):  # type: ignore[misc,name-defined]
        def process_message(self, message: Any, cell: Any, cell_index: int) -> Any:
            if message["msg_type"] == "update_display_data":
                shown.append(message["content"]["data"])
            return super().process_message(message, cell, cell_index)

    notebook = v4.new_notebook(cells=[v4.new_code_cell(CELLS)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(wv.__file__).parents[1]))
        Client(notebook, timeout=300, kernel_name="python3").execute()
    while_running = [data for data in shown if data["text/plain"]]
    assert while_running
    last = while_running[-1]
    for words in ("left", "iterations/s", "largest error ", "replicates differ by "):
        assert words in last["text/plain"]
        assert words in last["text/html"]
    assert "<progress" in last["text/html"]
    assert shown[-1]["text/html"] == "", "the line is not wiped"
    (result,) = [out for out in notebook.cells[0].outputs if out.output_type == "execute_result"]
    assert "<table" in result["data"]["text/html"]
    assert "x0" in result["data"]["text/html"]
    assert not [out for out in notebook.cells[0].outputs if out.output_type == "error"]


@pytest.mark.parametrize(("verbose", "expected"), [(False, False), (True, True)])
def test_the_estimator_is_silent_unless_verbose(verbose: bool, expected: bool, monkeypatch: Any) -> None:
    asked: list[Any] = []

    def sample(problem: Any, *arguments: Any, **options: Any) -> wv.Posterior:
        asked.append(options["progress"])
        return wv.exact(problem)

    monkeypatch.setattr("whichvars.estimator.base.sample", sample)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 16))
    wv.VariableSelector(verbose=verbose).fit(X, X[:, 0] + rng.normal(size=30))
    assert asked == [expected]


def test_words() -> None:
    report = Report(5, 10, 0.5, 3.0, None, "", 1_234_567.0, 3725.0, None)
    assert progress_words(report) == [" 50%", "1:02:05 left", "1.23 M iterations/s"]
    assert progress_words(report._replace(rate=5432.0, seconds_left=None), whole=False) == [
        " 50%",
        "5.43 k/s",
    ]
    assert progress_words(report._replace(status="temperature 0.5", seconds_left=None)) == [
        " 50%",
        "temperature 0.5",
    ]
