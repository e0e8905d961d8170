"""The line that says that kernels are being compiled, with work that is made up."""

from __future__ import annotations

import io
import re
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numba.core import event

import whichvars as wv
from whichvars.cli import main
from whichvars.sampling import announcing, compiling
from whichvars.sampling.announcing import EFFORTS, LOWERING, Announcer, Effort, Forecast
from whichvars.sampling.choosing import SAMPLERS
from whichvars.sampling.compiling import WORK, Work
from whichvars.sampling.progress import Progress, Report

LINE = r"compiling the sampler, once per version"


class Terminal(io.StringIO):
    """What is shown, and a word when it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.monkeypatch = monkeypatch
        self.written = threading.Event()

    def turn_on(self) -> None:
        """Within a test: pytest sets standard error itself between fixtures and it."""
        self.monkeypatch.setattr(sys, "stderr", self)

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "compiling" in text:
            self.written.set()
        return super().write(text)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal(monkeypatch)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "_forecasts", {})


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[Work]:
    """What Numba is said to have done."""
    said = [Work(False, 0.0, 0)]
    monkeypatch.setattr(compiling, "work", lambda: said[0])
    monkeypatch.setattr(announcing, "EVERY", 3600.0)  # nobody looks by himself
    monkeypatch.setattr(announcing, "_kept", lambda: 0)
    return said


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "EVERY", 0.001)
    monkeypatch.setattr(announcing, "PATIENCE", 0.0)


def compile_until(happened: threading.Event) -> None:
    """As Numba tells of it when this thread compiles."""
    event.start_event(WORK)
    try:
        assert happened.wait(60)
    finally:
        event.end_event(WORK)


@pytest.fixture(scope="module")
def problem() -> wv.Problem:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 8))
    return wv.Problem(X, X[:, 0] + rng.normal(size=40))


# --- what is shown when


def test_it_comes_after_half_a_second_and_goes_when_all_is_compiled(
    screen: Terminal, work: list[Work]
) -> None:
    screen.turn_on()
    with Announcer(True, "Hybrid") as announcer:
        announcer.look()
        work[0] = Work(True, 0.4, 1)
        announcer.look()
        assert "compiling" not in screen.getvalue()
        work[0] = Work(True, 0.6, 2)
        announcer.look()
        assert re.search(LINE + r", about \d+ s left", screen.getvalue())
        work[0] = Work(False, 30.0, 160)
        announcer.look()
        assert screen.getvalue().rstrip().endswith("\x1b[2K"), "the line is not wiped"
        assert announcer.line is None


@pytest.mark.parametrize(("mode", "tty"), [(False, True), (True, False), (print, True)])
def test_nobody_is_told_who_does_not_want_it(
    mode: Any, tty: bool, screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen.turn_on()
    monkeypatch.setattr(screen, "isatty", lambda: tty)
    with Announcer(mode, "Hybrid") as announcer:
        assert announcer.thread is None


def test_without_an_estimate_there_is_no_number(screen: Terminal, work: list[Work]) -> None:
    screen.turn_on()
    with Announcer(True, "SamplerOfMine") as announcer:
        work[0] = Work(True, 3.0, 2)
        announcer.look()
    assert re.search(LINE + r"\s*(\x1b|$)", screen.getvalue())
    assert "left" not in screen.getvalue()


def test_the_bar_makes_way_and_comes_back(screen: Terminal, work: list[Work]) -> None:
    screen.turn_on()
    drawn: list[str] = []
    bar = types.SimpleNamespace(update=drawn.append, pause=lambda: drawn.append("pause"))
    with Announcer(True, "Hybrid") as announcer:
        announcer.draw(bar, "1")
        work[0] = Work(True, 2.0, 2)
        announcer.look()
        announcer.draw(bar, "2")
        work[0] = Work(False, 2.0, 2)
        announcer.look()
        announcer.draw(bar, "3")
    assert drawn == ["1", "pause", "3"]


def test_a_bar_of_rich_can_pause(screen: Terminal, work: list[Work]) -> None:
    screen.turn_on()
    run: Any = types.SimpleNamespace(iterations=10, units=[None], fraction=0.0, status="")
    with Announcer(True, "Hybrid") as announcer, Progress(True, 1000, None, None, announcer) as bar:
        for busy, iterations in [(False, 100), (True, 100), (False, 400)]:
            work[0], run.iterations, bar.next_look = Work(busy, 3.0, 1), iterations, 0.0
            announcer.look()
            bar.update([run], idle=[])
    plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen.getvalue())
    assert re.search(r"sampling .* 10%.*compiling the sampler.*sampling .* 40%", plain, re.DOTALL)


def test_a_notebook_is_told_too(work: list[Work], monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = types.SimpleNamespace(update=lambda bundle, raw: shown.append(bundle["text/plain"]))
    module = types.ModuleType("IPython.display")
    module.display = lambda bundle, raw, display_id: handle  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(announcing, "in_notebook", lambda: True)
    with Announcer(True, "Hybrid") as announcer:
        work[0] = Work(True, 2.0, 2)
        announcer.look()
        announcer.look()
    assert len(shown) == 2
    assert re.match(LINE, shown[0])
    assert shown[1] == ""


# --- how long


def test_a_forecast_comes_true_on_any_machine() -> None:
    for slower in (0.5, 1.0, 4.0):
        forecast = Forecast(Effort(100, 5.0), kept=0)
        lowered = slower * LOWERING * 100
        whole = lowered + slower * 5.0
        for done in range(1, 101):
            left = forecast.left(lowered * done / 100, done)
        assert left == pytest.approx(whole - lowered, rel=0.5)
        assert forecast.left(lowered + 1.0, 100) == pytest.approx(left - 1.0)
        assert forecast.left(lowered + left + 1.0, 100) < 0  # and no number is shown


def test_what_was_optimised_is_over() -> None:
    forecast = Forecast(Effort(100, 10.0), kept=0)
    for done in range(1, 51):
        before = forecast.left(LOWERING * done, done)
    after = forecast.left(LOWERING * 51 + 4.0, 51)  # an entry with its 50 functions
    assert after == pytest.approx(before - 4.0, abs=0.2)


def test_a_run_goes_on_with_the_forecast_of_its_pilots(screen: Terminal, work: list[Work]) -> None:
    screen.turn_on()
    with Announcer(True, "Hybrid") as pilot:
        work[0] = Work(True, 2.0, 20)
        pilot.look()
    work[0] = Work(False, 500.0, EFFORTS["Hybrid"].functions)
    screen.truncate(0)
    with Announcer(True, "Hybrid") as announcer:
        work[0] = Work(True, 501.0, EFFORTS["Hybrid"].functions + 1)
        announcer.look()
    assert LINE in screen.getvalue()
    assert "left" not in screen.getvalue()


def test_what_is_on_the_disk_need_not_be_compiled() -> None:
    effort = Effort(100, 5.0)
    assert Forecast(effort, kept=0).left(0.0, 0) == pytest.approx(100 * LOWERING + 5)
    assert Forecast(effort, kept=60).left(0.0, 0) == pytest.approx(40 * LOWERING + 5)
    assert Forecast(effort, kept=500).left(0.0, 0) == pytest.approx(20 * LOWERING + 5)


def test_all_samplers_have_a_forecast() -> None:
    assert set(EFFORTS) == {"exact", *SAMPLERS.values()}


# --- where it is shown


def slowly(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, happened: threading.Event) -> None:
    """Have a function compile first, until something happened."""
    function: Callable[..., Any] = getattr(owner, name)

    def slow(*arguments: Any, **options: Any) -> Any:
        compile_until(happened)
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, slow)


@pytest.mark.parametrize("where", ["init", "advance"])
def test_sample_says_it_from_the_start(
    where: str, problem: wv.Problem, screen: Terminal, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen.turn_on()
    slowly(monkeypatch, wv.AddDeleteSwap, where, screen.written)
    wv.sample(problem, wv.AddDeleteSwap(), draws=2000, replicates=2)
    assert LINE in screen.getvalue()
    assert screen.getvalue().rstrip().endswith("\x1b[2K")


def test_exact_says_it(
    problem: wv.Problem, screen: Terminal, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen.turn_on()
    slowly(monkeypatch, sys.modules["whichvars.sampling.exact"], "enumerate_models", screen.written)
    wv.exact(problem)
    assert "compiling the enumeration, once per version" in screen.getvalue()


def test_a_function_is_told(problem: wv.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[Report] = []
    told = threading.Event()

    def note(report: Report) -> None:
        assert threading.current_thread() is threading.main_thread()
        reports.append(report)
        told.set()

    slowly(monkeypatch, wv.AddDeleteSwap, "advance", told)
    wv.sample(problem, wv.AddDeleteSwap(), draws=2000, replicates=2, progress=note)
    assert reports[0].compiling
    assert reports[0].done == 0
    assert not reports[-1].compiling
    assert reports[-1].fraction == 1


def test_fit_says_it_and_quiet_does_not(
    problem: wv.Problem, screen: Terminal, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whichvars.cli.fitting import _sample

    slowly(monkeypatch, wv.AddDeleteSwap, "advance", screen.written)
    arguments = {"sampler": wv.AddDeleteSwap(), "draws": 1000, "replicates": 2, "threads": 1, "seed": 0}
    screen.turn_on()
    _sample(problem, arguments, silent=False, quiet=False)
    shown = screen.getvalue()
    assert shown.index("sampled by AddDeleteSwap") < shown.index("compiling")
    before = len(shown)
    _sample(problem, arguments, silent=True, quiet=True)
    assert len(screen.getvalue()) == before


# --- ahead of time


def test_doctor_compiles_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def compile_one(name: str) -> float:
        asked.append(name)
        return 12.34 if name == "hybrid" else 0.0

    monkeypatch.setattr("whichvars.cli.checkup.compile_one", compile_one)
    result = CliRunner().invoke(main, ["doctor", "--compile"])
    assert result.exit_code == 0, result.output
    assert asked == ["exact", *SAMPLERS, "stored columns", "families"]
    *lines, _, last = result.output.splitlines()
    assert len(lines) == len(asked)
    assert re.fullmatch(r" 9/13  hybrid +12\.3 s", lines[8])
    assert lines[0].endswith("already compiled")
    assert re.match(r"Done in \d+ s\. Machine code: made on this machine", last)


@pytest.mark.slow
def test_after_it_nothing_is_left_to_compile() -> None:
    from whichvars.cli.checkup import compile_one

    for _ in range(2):
        result = CliRunner().invoke(main, ["doctor", "--compile"])
        assert result.exit_code == 0, result.output
    assert result.output.count("already compiled") == 13
    assert all(compile_one(name) == 0 for name in SAMPLERS)
