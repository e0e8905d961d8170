"""The clock that stands still while Numba compiles, turned by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from numba.core import event

import whichvars
from whichvars.sampling import compiling
from whichvars.sampling.compiling import KIND, WORK, Meter, clock, listen


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the monotonic clock says."""
    time = [100.0]
    monkeypatch.setattr(compiling.time, "monotonic", lambda: time[0])
    return time


class Other:
    """Another thread, which does what it is told."""

    def __enter__(self) -> Other:
        self.goes_on, self.waits = threading.Event(), threading.Event()
        self.do: Callable[[], None] | None = None
        self.thread = threading.Thread(target=self._work)
        self.thread.start()
        return self

    def _work(self) -> None:
        while self.goes_on.wait() and self.do is not None:
            self.goes_on.clear()
            self.do()
            self.waits.set()

    def __call__(self, do: Callable[[], None] | None) -> None:
        """None: it ends."""
        self.do = do
        self.waits.clear()
        self.goes_on.set()
        if do is None:
            self.thread.join()
        else:
            self.waits.wait()

    def __exit__(self, *_: object) -> None:
        if self.thread.is_alive():
            self(None)


def test_numba_tells_of_what_it_compiles(now: list[float]) -> None:
    start = clock()
    now[0] += 2
    event.start_event(KIND)
    now[0] += 50
    event.end_event(KIND)
    now[0] += 3
    assert clock() - start == pytest.approx(5)


def test_compilations_within_compilations_count_once(now: list[float]) -> None:
    meter = Meter()
    start = meter.clock()
    for step in (meter.begin, meter.begin, meter.end, meter.begin, meter.end, meter.end):
        step()
        now[0] += 10
    assert meter.clock() - start == pytest.approx(10)  # what came after the last


def test_two_threads_at_the_same_time_count_once(now: list[float]) -> None:
    meter = Meter()
    start = meter.clock()
    with Other() as first, Other() as second:
        first(meter.begin)
        now[0] += 10
        second(meter.begin)
        now[0] += 10
        assert meter.clock() == start  # it stands still
        first(meter.end)
        now[0] += 10
        assert meter.clock() == start
        second(meter.end)
        now[0] += 1
    assert meter.clock() - start == pytest.approx(1)
    assert meter.total == pytest.approx(30)


def test_an_end_that_got_lost_does_not_stop_the_clock_for_good(now: list[float]) -> None:
    meter = Meter()
    with Other() as other:
        meter.begin()
        other(meter.begin)
        now[0] += 10
        start = meter.clock()  # who asks does not compile; the other one does
        now[0] += 10
        assert meter.clock() == start
        other(None)
        meter.clock()
        now[0] += 1
        assert meter.clock() - start == pytest.approx(1)
    meter.end()  # of what began before anybody listened
    now[0] += 1
    assert meter.clock() - start == pytest.approx(2)


def test_a_numba_without_such_events(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = Meter()
    assert not listen(meter, "numba:unheard of")
    with monkeypatch.context() as patch:
        patch.delattr(event, "register")
        assert not listen(meter)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "numba.core", None)
        assert not listen(meter)
    assert listen(meter)


@pytest.mark.parametrize(("disabled", "compiles"), [("0", True), ("1", False)])
def test_with_and_without_the_compiler(disabled: str, compiles: bool, tmp_path: Path) -> None:
    """In a process of its own, where nothing is compiled yet and nothing is kept."""
    code = (
        "import numba; from whichvars.sampling import compiling; f = numba.njit(lambda x: x + 1); f(1); "
        "print(compiling.clock() > 0, compiling._meter.total > 0)"
    )
    source = str(Path(whichvars.__file__).parents[1])
    env = {
        **os.environ,
        "NUMBA_DISABLE_JIT": disabled,
        "PYTHONPATH": source,
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", str(compiles)]


def test_what_is_being_compiled(now: list[float]) -> None:
    meter = Meter()
    with Other() as other:
        other(meter.begin)
        now[0] += 5
        other(meter.begin)
        other(meter.end)
        assert meter.work() == (True, 5.0, 1)
        other(meter.end)
        now[0] += 5
        assert meter.work() == (False, 5.0, 2)


def test_an_end_that_got_lost_is_no_work(now: list[float]) -> None:
    meter = Meter()
    meter.begin()
    now[0] += 5
    assert meter.work() == (False, 5.0, 0)


def test_only_what_is_compiled_is_work(now: list[float]) -> None:
    before = compiling.work()
    with Other() as other:
        other(lambda: event.start_event(KIND))  # it may be read from disk
        assert not compiling.work().busy
        other(lambda: event.start_event(WORK))
        now[0] += 3
        work = compiling.work()
        assert work.busy
        assert work.seconds - before.seconds == pytest.approx(3)
        other(lambda: event.end_event(WORK))
        other(lambda: event.end_event(KIND))
    work = compiling.work()
    assert not work.busy
    assert work.finished == before.finished + 1
