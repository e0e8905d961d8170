"""Progress: what it says, in a terminal and in a notebook, and when it says nothing."""

import io
import itertools
import re
import sys
import types
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import whichvars as wv
from whichvars.sampling import progress
from whichvars.sampling.live_picture import LEFT, RIGHT, picture
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
    np.testing.assert_allclose(last.pip, posterior.pip)
    np.testing.assert_allclose(last.mcse, posterior.mcse)
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


class Notebook:
    """Stands for IPython in a notebook, and keeps what is displayed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[dict[str, str]] = []
        display, shell = types.ModuleType("IPython.display"), types.ModuleType("IPython")
        display.display = self.display  # type: ignore[attr-defined]
        shell.get_ipython = lambda: types.SimpleNamespace(kernel=None)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
        monkeypatch.setitem(sys.modules, "IPython", shell)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, bundle: dict[str, str], raw: bool, display_id: bool) -> "Notebook":
        return self.update(bundle, raw)

    def update(self, bundle: dict[str, str], raw: bool) -> "Notebook":
        self.shown.append(bundle)
        return self

    def pictures(self) -> list[str]:
        return [bundle["text/html"] for bundle in self.shown if "<svg" in bundle.get("text/html", "")]


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    """A notebook in which ten seconds seem to pass between two chunks."""
    seconds = itertools.count(0.0, 10.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    return Notebook(monkeypatch)


def test_a_notebook_sees_the_same_without_widgets(problem: wv.Problem, notebook: Notebook) -> None:
    wv.sample(problem, wv.Hybrid(), draws=30_000, chunk=1000, replicates=2)
    *_, last, end = notebook.shown
    assert re.search(r"largest error \d", last["text/plain"])
    assert re.search(r"replicates differ by \d", last["text/html"])
    assert "<progress" in last["text/html"]
    assert end == {"text/plain": "", "text/html": ""}


def test_a_notebook_sees_inclusion_probabilities_settle(problem: wv.Problem, notebook: Notebook) -> None:
    posterior = wv.sample(problem, wv.AddDeleteSwap(), draws=50_000, chunk=1000, replicates=2, seed=3)
    pictures = notebook.pictures()
    assert len(pictures) > 3
    order = posterior.summary().index
    assert re.findall("<title>(.*?)</title>", pictures[-1]) == list(order)
    # the last look is at all draws of the run
    for name, pip, error in zip(order, posterior.summary()["pip"], posterior.summary()["mcse"]):
        assert f">{pip:.3f} ± {np.ceil(2000 * error) / 1000:.3f}<" in pictures[-1], name

    def widest(picture: str) -> float:
        return max(
            float(high) - float(low) for low, high in re.findall(r'd="M([\d.]+) \d+H([\d.]+)', picture)
        )

    assert widest(pictures[-1]) < widest(pictures[0])


def test_a_notebook_is_drawn_at_most_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now, page = [0.0], Notebook(monkeypatch)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    run: Any = types.SimpleNamespace(iterations=0, units=[None], fraction=0.0, status="")
    with Progress(True, 1000) as bar:
        for tick in range(1, 31):
            now[0], run.iterations = 0.25 * tick, tick
            bar.update([run], idle=[])
    # at 1, 2, ..., 7 seconds, after an empty line and before its removal
    assert len(page.shown) == 1 + 7 + 1


@pytest.mark.parametrize("sampler", [wv.Hybrid(), wv.IndividualAdaptation(chains=2)], ids=str)
def test_looking_does_not_change_a_bit(sampler: Any, problem: wv.Problem, notebook: Notebook) -> None:
    options: dict[str, Any] = {"draws": 8000, "chunk": 500, "replicates": 2, "seed": 4}
    unseen = wv.sample(problem, sampler, progress=False, **options)
    assert not notebook.shown
    seen = wv.sample(problem, sampler, **options)
    assert len(notebook.pictures()) > 3
    np.testing.assert_array_equal(seen.pip, unseen.pip)
    np.testing.assert_array_equal(seen.mcse, unseen.mcse)
    assert seen.trace is not None
    assert seen.trace.equals(unseen.trace)


def test_the_picture_has_the_most_probable_variables() -> None:
    names = [f"x{j}" for j in range(30)] + ["<b> & a very long name of a variable"]
    pip = np.append(np.linspace(0.01, 0.3, 30), 0.999)
    mcse = np.append(np.full(30, 0.01), np.nan)
    drawn = picture(names, pip, mcse)
    root = ElementTree.fromstring(drawn)
    assert [title.text for title in root.iter("title")] == [names[30], *names[29:20:-1]]
    texts = [text.text for text in root.iter("text")]
    assert texts[:4] == ["<b> & a very l…ariable", "0.999", "x29", "0.300 ± 0.020"]
    assert ">Inclusion probabilities so far: the 10 most probable of 31 variables, with error bars" in drawn
    bars = [rect for rect in root.iter("rect") if "fill" in rect.attrib]
    assert float(bars[1].attrib["width"]) / (RIGHT - LEFT) == pytest.approx(0.3, abs=1e-3)
    assert len(list(root.iter("path"))) == 9, "there is no error bar where the error is not known"


def test_the_picture_of_few_variables_without_errors() -> None:
    drawn = picture(["a", "b"], np.array([0.5, 1.0]), np.full(2, np.nan))
    assert ">Inclusion probabilities so far: all variables.<" in drawn
    assert "±" not in drawn


def test_a_report_says_how_accurate_the_run_is_to_be(problem: wv.Problem, quick: None) -> None:
    reports, _ = watch(problem, wv.Hybrid(), target_mcse=0.02, chunk=500, replicates=2)
    assert {report.target_mcse for report in reports} == {0.02}


CELLS = """
import numpy as np, whichvars as wv
X = np.random.default_rng(1).normal(size=(40, 30))
problem = wv.Problem(X, X[:, 0] + np.random.default_rng(2).normal(size=40))
unseen = wv.sample(problem, draws=300_000, replicates=2, seed=1, progress=False)
posterior = wv.sample(problem, draws=300_000, replicates=2, seed=1)
assert (posterior.pip == unseen.pip).all()
posterior
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
    assert "the 10 most probable of 30 variables" in last["text/html"]
    assert "<title>x0</title>" in last["text/html"]
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
    towards = report._replace(largest_mcse=0.0304, target_mcse=0.01, disagreement=0.1)
    assert progress_words(towards, whole=False) == [
        " 50%",
        "<1:02:05 left",
        "1.23 M/s",
        "error 0.0304 (target 0.01)",
    ]
