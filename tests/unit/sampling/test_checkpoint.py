"""Checkpoints: a run that was killed and gone on with gives the numbers of one that was not, bit for bit; and
nothing that goes wrong with files costs more than what came after the last of them."""

from __future__ import annotations

import dataclasses
import errno
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numba.core import event

import whichvars as wv
from support.cases import eight_variables
from support.kinds import mainly
from whichvars.data import archives, storage
from whichvars.errors import CheckpointWarning, ConvergenceWarning, DataError, OutputError
from whichvars.posterior.posterior import Posterior
from whichvars.sampling import checkpoint as checkpoints
from whichvars.sampling import compiling, executors
from whichvars.sampling.advance import advance_run
from whichvars.sampling.checkpoint import Checkpoint
from whichvars.sampling.compiling import KIND
from whichvars.sampling.loop import Loop
from whichvars.sampling.plan import Replicate

FEW = {"memo_slots": 1 << 10}
SAMPLERS: dict[str, Any] = {
    "add-delete-swap": wv.AddDeleteSwap(memo_slots=64),
    "lamnisos": wv.Lamnisos(**FEW),
    "individual": wv.IndividualAdaptation(chains=2, merge_every=100, **FEW),
    "asi": wv.ASI(chains=2, **FEW),
    "parni": wv.PARNI(chains=2, adapt="always", **FEW),
    "tempered-gibbs": wv.TemperedGibbs(chains=2, table_bytes=1 << 16, **FEW),
    "subset-gibbs": wv.SubsetGibbs(chains=2, **FEW),
    "hybrid": wv.Hybrid(chains=2, table_bytes=1 << 16, **FEW),
    "tempering": wv.ParallelTempering(rungs=3, chains=2, **FEW),
    "smc": wv.SequentialMonteCarlo(particles=200, steps=4, groups=4, **FEW),
}
# samplers whose runs have different parts; the others have the same parts as one of these
ONE_OF_A_KIND = ("add-delete-swap", "individual", "asi", "hybrid", "tempering", "smc")
TIMES = ("cpu_seconds", "settings")


@pytest.fixture(scope="module")
def problem() -> wv.Problem:
    return eight_variables()


@pytest.fixture
def write_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At every chunk, by the thread that samples."""
    monkeypatch.setattr(Checkpoint, "write_if_due", lambda self, i, replicate, _: self.write(i, replicate))


@pytest.fixture(autouse=True)
def write_as_often_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SHARE", np.inf)


def run(problem: wv.Problem, sampler: Any, **options: Any) -> Posterior:
    defaults: dict[str, Any] = {"replicates": 3, "seed": 11, "progress": False, "threads": 2}
    if getattr(sampler, "by_draws", True):
        defaults |= {"draws": 2400, "warmup": 600}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return wv.sample(problem, sampler, **{**defaults, **options})


def resume(directory: Path, **options: Any) -> Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return wv.resume(directory, progress=False, **options)


def extend(posterior: Posterior, **more: int) -> Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return wv.extend(posterior, progress=False, **more)


def bits(value: Any) -> Any:
    """Something that two values have in common only if they are equal to the last bit."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, pd.DataFrame):
        return [(name, bits(value[name].to_numpy())) for name in value.columns]
    if hasattr(value, "indptr"):
        return [bits(part) for part in (value.data, value.indices, value.indptr)]
    if dataclasses.is_dataclass(value):
        return [bits(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name not in TIMES]
    if isinstance(value, dict):
        return [(key, bits(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [bits(item) for item in value]
    return repr(value)


def assert_same(a: Posterior, b: Posterior) -> None:
    for f in dataclasses.fields(Posterior):
        if f.name not in (*TIMES, "problem"):
            assert bits(getattr(a, f.name)) == bits(getattr(b, f.name)), f.name


class Killed(BaseException):
    """In place of a signal that ends the process."""


def die_after(monkeypatch: pytest.MonkeyPatch, chunks: int) -> None:
    """Let so many chunks be done, then let every thread die at its next one."""
    done = iter(range(chunks))
    advance = Loop._advance

    def fragile(self: Any, index: int) -> None:
        if next(done, None) is None:
            raise Killed
        advance(self, index)

    monkeypatch.setattr(Loop, "_advance", fragile)


# --- going on


@pytest.mark.parametrize("name", mainly(SAMPLERS, ONE_OF_A_KIND))
def test_a_run_that_died_goes_on_as_if_nothing_had_happened(
    problem: wv.Problem, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = SAMPLERS[name]
    whole = run(problem, sampler)
    for deaths, threads in enumerate((1, 5)):
        place = tmp_path / str(threads)
        chunks, length = (5, 14)[deaths], 15 if name == "smc" else 90
        with monkeypatch.context() as patch:
            die_after(patch, chunks)
            with pytest.raises(Killed):
                run(problem, sampler, checkpoint=place, every=1e-9, chunk=length, threads=threads)
        with monkeypatch.context() as patch:  # and once more, on the way
            die_after(patch, 1)
            with pytest.raises(Killed):
                resume(place, every=1e-9, threads=1)
        assert_same(resume(place, threads=threads), whole)
        assert_same(resume(place), whole)  # done already


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_is_read_is_what_was_written(problem: wv.Problem, name: str, tmp_path: Path) -> None:
    """Types, kinds of numbers, layouts, and which arrays are the same memory."""
    place = tmp_path / "run"
    run(problem, SAMPLERS[name], checkpoint=place, replicates=1)
    with Checkpoint(place) as saver:
        saver.read_run()
        (a,) = saver.replicates().values()
        saver.written.clear()
        assert saver.write(0, a)
        (b,) = saver.replicates().values()
    fresh = SAMPLERS[name].init(problem, np.random.SeedSequence(0, spawn_key=(0,)), [np.zeros(0, int)] * SAMPLERS[name].chains)  # fmt: skip
    assert bits_of_run(a.run) == bits_of_run(b.run)
    assert shared_memory(a.run) == shared_memory(b.run)
    for unit in b.run.units:
        if getattr(unit, "memo", None) is not None:
            assert unit.memo.keys.ctypes.data % 64 == 0  # a bucket is one line of the processor's cache
    assert set(shared_memory(fresh)) <= set(shared_memory(b.run))
    ours, theirs = dict(walk(b.run)), dict(walk(fresh))
    for path, array in theirs.items():
        if isinstance(array, np.ndarray) and path in ours:
            assert ours[path].dtype == array.dtype, path
            assert ours[path].ndim == array.ndim, path
            for flag in ("c_contiguous", "writeable", "aligned"):  # what kernels are compiled for
                assert getattr(ours[path].flags, flag) == getattr(array.flags, flag) == True, path  # noqa: E712


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, np.random.Generator):
        yield path, value.bit_generator.state
    elif dataclasses.is_dataclass(value):
        for f in dataclasses.fields(value):
            yield from walk(getattr(value, f.name), f"{path}.{f.name}")
    elif isinstance(value, (tuple, list)):
        names = getattr(value, "_fields", range(len(value)))
        for name, item in zip(names, value):
            if name != "gram_cache":
                yield from walk(item, f"{path}.{name}")
    else:
        yield path, value


def bits_of_run(value: Any) -> Any:
    return [(path, bits(item)) for path, item in walk(value)]


def shared_memory(value: Any) -> list[str]:
    seen: dict[tuple[int, int], str] = {}
    found = []
    for path, array in walk(value):
        if isinstance(array, np.ndarray) and array.size:
            memory = (array.ctypes.data, array.nbytes)
            if memory in seen:
                found.append(f"{seen[memory]} = {path}")
            seen.setdefault(memory, path)
    return found


def test_views_are_views_again(problem: wv.Problem, tmp_path: Path) -> None:
    run(problem, SAMPLERS["hybrid"], checkpoint=tmp_path, replicates=1)
    with Checkpoint(tmp_path) as saver:
        saver.read_run()
        unit = saver.replicates()[0].run.units[0]
    unit.memo.keys[3], unit.table.keys[0, 0] = 77, 78
    assert unit.memo.values.view(np.uint64)[3] == 77
    assert unit.table.rows.view(np.uint64)[0, 0] == 78


def test_large_problems_and_growing_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The column engine with its kept products, a mixture of g whose table grows, models that outgrow their room."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 200))
    y = X[:, :45] @ rng.choice([-1, 1], 45) + 0.3 * rng.normal(size=150)
    problem = wv.Problem(X, y, slab=wv.HyperG(), model_prior=wv.FixedInclusion(size=40), engine="columns")
    options = {"draws": 1500, "warmup": 200, "replicates": 2, "start": "null"}
    whole = run(problem, wv.AddDeleteSwap(), **options)
    for chunks in (3, 9):
        place = tmp_path / str(chunks)
        with monkeypatch.context() as patch:
            die_after(patch, chunks)
            with pytest.raises(Killed):
                run(problem, wv.AddDeleteSwap(), **options, checkpoint=place, every=1e-9, chunk=100)
        assert_same(resume(place), whole)


def chunks_of(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> int:
    """How many chunks a run has."""
    done, advance = [], Loop._advance
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_advance", lambda self, i: (done.append(i), advance(self, i))[1])
        work()
    return len(done)


@pytest.mark.usefixtures("write_at_once")
def test_accuracy_is_looked_at_at_the_same_draws(
    problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"draws": 200_000, "warmup": 1000, "target_mcse": 0.004, "rao_blackwell": False, "threads": 1, "chunk": 5000}  # fmt: skip
    whole = run(problem, wv.AddDeleteSwap(), **options)
    assert whole.stopped == "target_mcse"
    assert whole.iterations > 3 * 1000 + 3 * 20_000  # more than one look
    total = chunks_of(monkeypatch, lambda: run(problem, wv.AddDeleteSwap(), **options))
    for chunks in (
        4,
        total - 1,
    ):  # in the second, all but a few draws are there, but it is too early for a look
        place = tmp_path / str(chunks)
        with monkeypatch.context() as patch:
            die_after(patch, chunks)
            with pytest.raises(Killed):
                run(problem, wv.AddDeleteSwap(), **options, checkpoint=place)
        assert_same(resume(place), whole)


def test_the_same_call_goes_on_too(
    problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = SAMPLERS["hybrid"]
    with monkeypatch.context() as patch:
        die_after(patch, 4)
        with pytest.raises(Killed):
            run(problem, sampler, checkpoint=tmp_path, every=1e-9, chunk=90)
    assert_same(run(problem, sampler, checkpoint=tmp_path), run(problem, sampler))


def test_a_seed_nobody_gave_is_kept(problem: wv.Problem, tmp_path: Path) -> None:
    first = run(problem, wv.AddDeleteSwap(), seed=None, checkpoint=tmp_path)
    assert_same(run(problem, wv.AddDeleteSwap(), seed=None, checkpoint=tmp_path), first)


def test_a_budget_goes_on_where_it_was(problem: wv.Problem, tmp_path: Path) -> None:
    first = run(problem, wv.AddDeleteSwap(), draws=None, warmup=100, budget=0.3, checkpoint=tmp_path)
    assert first.stopped == "budget"
    assert_same(resume(tmp_path), first)


@pytest.mark.usefixtures("write_at_once")
def test_the_time_that_was_compiled_is_not_kept_as_spent(
    problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that an hour of compiling moves, and each chunk by a second: the run that died has as much time in all as one
    that did not, and each replicate as much for its warm-up."""
    now, advance = [0.0], executors.ThreadPool.advance

    def slow(*what: Any) -> Any:
        with event.trigger_event(KIND):
            now[0] += 3600.0
        now[0] += 1.0
        return advance(*what)

    monkeypatch.setattr(executors.ThreadPool, "advance", slow)
    monkeypatch.setattr(compiling.time, "monotonic", lambda: now[0])
    options: dict[str, Any] = {"draws": None, "warmup": 10**9, "budget": 62.5, "threads": 1, "chunk": 600}
    whole = run(problem, wv.AddDeleteSwap(), **options)
    assert whole.stopped == "budget"
    assert whole.iterations == 63 * 600
    for chunks in (5, 31):
        with monkeypatch.context() as patch:
            die_after(patch, chunks)
            with pytest.raises(Killed):
                run(problem, wv.AddDeleteSwap(), **options, checkpoint=tmp_path / str(chunks))
        assert_same(run(problem, wv.AddDeleteSwap(), **options, checkpoint=tmp_path / str(chunks)), whole)


def test_a_late_run_says_so_again(problem: wv.Problem, tmp_path: Path) -> None:
    first = run(problem, wv.AddDeleteSwap(), draws=None, budget=1e-6, checkpoint=tmp_path)
    for posterior in (first, resume(tmp_path)):
        assert len(posterior.warnings) == 1
        assert "is too small" in posterior.warnings[0]


def test_replicates_can_be_added_to_a_run_that_its_budget_ended(problem: wv.Problem, tmp_path: Path) -> None:
    first = run(problem, wv.AddDeleteSwap(), draws=None, warmup=100, budget=0.1, checkpoint=tmp_path)
    more = extend(first, replicates=2)
    assert first.replicate_pips is not None
    assert more.replicate_pips is not None
    assert more.stopped == "draws"
    assert len(more.replicate_pips) == len(first.replicate_pips) + 2
    assert more.iterations == len(more.replicate_pips) * (100 + more.settings["draws"])
    assert more.settings["budget"] is None


# --- extending


@pytest.mark.parametrize("name", mainly([name for name in SAMPLERS if name != "smc"], ONE_OF_A_KIND))
def test_an_extended_run_is_a_longer_run(problem: wv.Problem, name: str, tmp_path: Path) -> None:
    short = run(problem, SAMPLERS[name], draws=1000, checkpoint=tmp_path)
    longer = extend(short, draws=1400)
    assert_same(longer, run(problem, SAMPLERS[name], draws=2400))
    assert longer.settings["draws"] == 2400
    assert_same(resume(tmp_path), longer)


@pytest.mark.parametrize("name", ["smc", "hybrid"])
def test_replicates_can_be_added(problem: wv.Problem, name: str, tmp_path: Path) -> None:
    few = run(problem, SAMPLERS[name], replicates=2, checkpoint=tmp_path)
    assert_same(extend(few, replicates=2), run(problem, SAMPLERS[name], replicates=4))


def test_what_cannot_be_extended(problem: wv.Problem, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="exact"):
        wv.extend(wv.exact(problem), draws=10)
    with pytest.raises(DataError, match="checkpoint=DIRECTORY"):
        wv.extend(run(problem, wv.AddDeleteSwap()), draws=10)
    particles = run(problem, SAMPLERS["smc"], checkpoint=tmp_path / "smc")
    with pytest.raises(DataError, match="replicates="):
        wv.extend(particles, draws=10)
    with pytest.raises(DataError, match="draws= or replicates="):
        wv.extend(particles)
    (tmp_path / "smc").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="there is no directory"):
        wv.extend(particles, replicates=1)


def test_an_interrupted_run_is_extended_from_where_it_is(problem: wv.Problem, tmp_path: Path) -> None:
    def interrupt(report: Any) -> None:
        if report.done > 3 * 20_000:
            os.kill(os.getpid(), signal.SIGINT)

    stopped = run(
        problem, wv.AddDeleteSwap(), draws=10**9, checkpoint=tmp_path, progress=interrupt, chunk=5000
    )
    assert stopped.stopped == "interrupted"
    longer = wv.extend(stopped, draws=1000, progress=False)
    assert stopped.iterations < longer.iterations < 1.5 * stopped.iterations


# --- what is refused


def test_other_runs_are_refused(problem: wv.Problem, tmp_path: Path) -> None:
    run(problem, SAMPLERS["hybrid"], checkpoint=tmp_path)
    other = wv.Problem(np.random.default_rng(0).normal(size=(47, 8)), np.arange(47.0))
    for what, change in {
        "draws, warmup": {"draws": 2401},
        "seed": {"seed": 12},
        "replicates": {"replicates": 4},
        "start": {"start": "null"},
        "rao_blackwell": {"rao_blackwell": False},
    }.items():
        with pytest.raises(DataError, match=f"differs in {what}"):
            run(problem, SAMPLERS["hybrid"], checkpoint=tmp_path, **change)
    with pytest.raises(DataError, match="differs in sampler"):
        run(problem, SAMPLERS["asi"], checkpoint=tmp_path)
    with pytest.raises(DataError, match="other data or priors"):
        run(other, SAMPLERS["hybrid"], checkpoint=tmp_path)
    again = wv.Problem(*data_of(problem), slab=wv.GPrior("n"), model_prior=wv.FixedInclusion(h=0.25))
    with pytest.raises(DataError, match="other data or priors"):
        run(again, SAMPLERS["hybrid"], checkpoint=tmp_path)


def data_of(problem: wv.Problem) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(47, 8)) + 0.8 * rng.normal(size=(47, 1))
    return X, X @ [0.5, -0.4, 0.3, 0, 0, 0.2, 0, 0] + rng.normal(size=47)


def test_other_versions_are_refused(
    problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(wv, "__version__", "0.0.9")
        with pytest.raises(DataError, match=r"made by another version of whichvars.*version that made it"):
            wv.resume(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "layout", lambda: "other")
        with pytest.raises(DataError, match="made by another version"):
            wv.resume(tmp_path)


def test_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no directory"):
        wv.resume(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"holds no checkpoint: it has no run\.npz"):
        wv.resume(tmp_path)


def test_arguments(problem: wv.Problem, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="every='30' has no unit"):
        run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path, every="30")
    with pytest.raises(DataError, match="pool_size of 4, not 8"):
        run(problem, wv.AddDeleteSwap(), seed=np.random.SeedSequence(1, pool_size=8))


@pytest.mark.parametrize("entropy", [5, [3, 2**40], np.array([7, 8], np.uint32), None])
def test_seed_sequences_are_kept_by_their_parts(
    problem: wv.Problem, tmp_path: Path, entropy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = np.random.SeedSequence(entropy).spawn(3)[2]
    whole = run(problem, wv.AddDeleteSwap(), seed=seed)
    with monkeypatch.context() as patch:
        die_after(patch, 4)
        with pytest.raises(Killed):
            run(problem, wv.AddDeleteSwap(), seed=seed, checkpoint=tmp_path, every=1e-9, chunk=300)
    again = resume(tmp_path)
    assert_same(again, whole)
    assert_same(run(problem, wv.AddDeleteSwap(), seed=seed, checkpoint=tmp_path), whole)
    assert again.settings["seed"]["spawn_key"] == [2]
    again.save(tmp_path / "posterior")
    assert Posterior.load(tmp_path / "posterior").settings["seed"] == again.settings["seed"]
    assert "spawn key [2]" in again.methods()
    with pytest.raises(DataError, match="differs in seed"):
        run(problem, wv.AddDeleteSwap(), seed=np.random.SeedSequence(entropy), checkpoint=tmp_path)


@pytest.mark.usefixtures("write_at_once")
def test_a_selector_that_died_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data_of_long()
    settings: Any = {
        "sampler": SAMPLERS["hybrid"], "draws": 3000, "warmup": 300, "target_mcse": None, "replicates": 2, "threads": 1,
    }  # fmt: skip
    whole = wv.VariableSelector(**settings).fit(X, y)
    selector = wv.VariableSelector(**settings, checkpoint=tmp_path, every="1s")
    with monkeypatch.context() as patch:
        die_after(patch, 3)
        with pytest.raises(Killed):
            selector.fit(X, y)
    assert sorted(path.name for path in tmp_path.glob("replicate*"))
    assert_same(selector.fit(X, y).posterior_, whole.posterior_)
    np.testing.assert_array_equal(selector.coefficients_, whole.coefficients_)
    with pytest.raises(DataError, match="other data or priors"):
        selector.fit(X[1:], y[1:])
    with pytest.raises(DataError, match="has no unit"):
        wv.VariableSelector(**settings, checkpoint=tmp_path, every="1").fit(X, y)


def test_what_cannot_be_stored_is_refused_before_the_run(problem: wv.Problem, tmp_path: Path) -> None:
    class Mine(wv.AddDeleteSwap):
        pass

    with pytest.raises(TypeError, match="cannot be saved in a checkpoint: cannot store 'Mine'"):
        run(problem, Mine(), checkpoint=tmp_path)


def test_an_exact_answer_needs_no_checkpoint(problem: wv.Problem, tmp_path: Path) -> None:
    assert wv.sample(problem, checkpoint=tmp_path / "none").models.exact
    assert not (tmp_path / "none").exists()


def test_paths_with_spaces_and_letters_of_all_kinds(problem: wv.Problem, tmp_path: Path) -> None:
    place = tmp_path / "a b" / "größe 变量 'x'"
    assert_same(run(problem, wv.AddDeleteSwap(), checkpoint=place), resume(place))


# --- interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_stops_and_keeps_everything(
    problem: wv.Problem, number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    sent = []

    def stop(report: Any) -> None:
        if not sent:
            sent.append(report.done)
            os.kill(os.getpid(), number)

    options = {"draws": 40_000, "warmup": 0, "replicates": 3, "seed": 11}
    with pytest.warns(
        ConvergenceWarning, match=re.escape(f"continue with whichvars.resume({str(tmp_path)!r})")
    ):
        stopped = wv.sample(
            problem, wv.AddDeleteSwap(), **options, progress=stop, chunk=1000, checkpoint=tmp_path, every="1h"
        )  # fmt: skip
    assert stopped.stopped == "interrupted"
    assert sent[0] <= stopped.iterations < 3 * 20_000
    assert "once more stops at once" in capsys.readouterr().err
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before
    assert_same(resume(tmp_path), run(problem, wv.AddDeleteSwap(), **options))


def test_a_signal_before_anything_was_counted(problem: wv.Problem, tmp_path: Path) -> None:
    options = {"draws": 1000, "warmup": 20_000}

    def stop(report: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="continue with"):
        run(problem, wv.AddDeleteSwap(), **options, progress=stop, chunk=1000, threads=1, checkpoint=tmp_path)
    assert list(tmp_path.glob("replicate-*.npz"))
    assert_same(resume(tmp_path), run(problem, wv.AddDeleteSwap(), **options))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_signals_stop_at_once_and_the_last_checkpoint_stands(
    problem: wv.Problem, number: int, tmp_path: Path
) -> None:
    options = {"draws": 40_000}

    def stop(report: Any) -> None:
        if report.done > 10_000:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt):
        run(
            problem, wv.AddDeleteSwap(), **options, progress=stop, chunk=1000, checkpoint=tmp_path, every=1e-9
        )
    assert list(tmp_path.glob("replicate-*.npz"))
    assert_same(resume(tmp_path), run(problem, wv.AddDeleteSwap(), **options))


def test_other_threads_leave_signals_alone(problem: wv.Problem, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    found: list[Any] = []

    def work() -> None:
        run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path, progress=lambda r: found.append(signal.getsignal(signal.SIGTERM)))  # fmt: skip

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found
    assert set(found) == {before}


# --- faults


def full_disk(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.usefixtures("write_at_once")
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_ends_nothing(
    problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Checkpoints fail for a while: sampling goes on, the file before stands, and later ones are written."""
    options = {"draws": 4000, "warmup": 600, "threads": 1, "replicates": 1}
    real, calls = getattr(os, call), iter(range(1000))

    def sometimes(*arguments: Any) -> Any:
        return full_disk() if 4 < next(calls) < 9 else real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(archives.os, call, sometimes)
        with pytest.warns(
            CheckpointWarning, match="No space left.*Sampling continues; the previous checkpoint is kept"
        ):
            done = run(problem, wv.AddDeleteSwap(), **options, checkpoint=tmp_path, every=1e-9, chunk=200)
    whole = run(problem, wv.AddDeleteSwap(), **options)
    assert_same(done, whole)
    assert_same(resume(tmp_path), whole)
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.usefixtures("write_at_once")
def test_a_disk_that_stays_full(problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"draws": 4000, "warmup": 600, "threads": 1, "replicates": 1}
    calls = iter(range(1000))
    real = os.fsync
    with monkeypatch.context() as patch:
        patch.setattr(archives.os, "fsync", lambda f: full_disk() if next(calls) > 6 else real(f))
        with pytest.warns(CheckpointWarning, match="No space left"):
            done = run(problem, wv.AddDeleteSwap(), **options, checkpoint=tmp_path, every=1e-9, chunk=200)
    assert_same(done, run(problem, wv.AddDeleteSwap(), **options))
    assert_same(resume(tmp_path), done)  # from the last one that could be written


def test_no_room_for_the_first_file_is_an_error(
    problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives.os, "fsync", full_disk)
    with pytest.raises(OutputError, match=r"cannot write a checkpoint to .*No space left"):
        run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path)


LIMITED = """
import resource, signal, sys, warnings
import numpy as np, whichvars as wv
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
rng = np.random.default_rng(0)
problem = wv.Problem(rng.normal(size=(40, 8)), rng.normal(size=40))
wv.sample(problem, wv.AddDeleteSwap(), draws=10, replicates=1, progress=False)  # compiled code is kept in files too
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    posterior = wv.sample(problem, wv.AddDeleteSwap(), draws=2000, replicates=1, progress=False, checkpoint=sys.argv[1])
print(posterior.iterations, [w.message.args[0] for w in caught if issubclass(w.category, wv.CheckpointWarning)])
"""


def test_files_that_may_not_be_that_large(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, check=False, env=environment()
    )  # fmt: skip
    assert done.stdout.startswith("2200 "), done.stderr
    assert "File too large" in done.stdout
    assert not list(tmp_path.glob(".*.tmp"))


def test_the_directory_vanishes(problem: wv.Problem, tmp_path: Path) -> None:
    place = tmp_path / "run"

    def remove(report: Any) -> None:
        if place.exists():
            place.rename(tmp_path / "gone")

    with pytest.warns(CheckpointWarning, match="No such file or directory"):
        done = run(problem, wv.AddDeleteSwap(), checkpoint=place, every=1e-9, chunk=300, progress=remove)
    assert_same(done, run(problem, wv.AddDeleteSwap()))


def test_a_place_that_cannot_be_written_to(problem: wv.Problem, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(OutputError, match="cannot write a checkpoint"):
        run(problem, wv.AddDeleteSwap(), checkpoint=file)
    with pytest.raises(OutputError, match="cannot write a checkpoint"):
        run(problem, wv.AddDeleteSwap(), checkpoint=file / "below")
    if Path("/proc/self").exists():  # nobody may make anything there, not even root
        with pytest.raises(OutputError, match="cannot write a checkpoint to /proc/whichvars"):
            run(problem, wv.AddDeleteSwap(), checkpoint="/proc/whichvars")


def read_only(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_a_read_only_target_is_an_error_before_the_run(
    problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives.tempfile, "mkstemp", read_only)
    with pytest.raises(OutputError, match=r"cannot write a checkpoint to .*Read-only file system"):
        run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path / "run")
    monkeypatch.setattr(Path, "mkdir", read_only)
    with pytest.raises(OutputError, match=r"Read-only file system; name another directory"):
        run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path / "other")


@pytest.mark.usefixtures("write_at_once")
def test_a_target_that_becomes_read_only_ends_nothing(
    problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As disks do on an error: what was written stands, and sampling goes on."""
    real, calls = archives.tempfile.mkstemp, iter(range(1000))
    with monkeypatch.context() as patch:
        patch.setattr(archives.tempfile, "mkstemp", lambda **o: read_only() if next(calls) > 3 else real(**o))
        with pytest.warns(CheckpointWarning, match="Read-only file system.*previous checkpoint is kept"):
            done = run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path, chunk=200, threads=1, replicates=1)
    whole = run(problem, wv.AddDeleteSwap(), replicates=1)
    assert_same(done, whole)
    assert_same(resume(tmp_path), whole)


def test_two_runs_on_one_directory(problem: wv.Problem, tmp_path: Path) -> None:
    with Checkpoint(tmp_path):
        with pytest.raises(OutputError, match=f"another run is using .*process {os.getpid()}"):
            run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path)
    run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path)


def test_a_lock_of_a_dead_process_is_taken_over(problem: wv.Problem, tmp_path: Path) -> None:
    code = "import os, sys; from whichvars.sampling.checkpoint import Checkpoint; c = Checkpoint(sys.argv[1]); os._exit(1)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, env=environment())
    assert (tmp_path / "lock").read_text().isdigit()
    run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path)


@pytest.mark.parametrize("file", ["run.npz", "replicate-1.npz"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_damaged_files_are_refused(problem: wv.Problem, tmp_path: Path, file: str, damage: str) -> None:
    whole = run(problem, wv.AddDeleteSwap(memo_slots=64), checkpoint=tmp_path)
    path = tmp_path / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes({"cut": content[: len(content) // 3], "flipped": content, "empty": b""}[damage])
    with pytest.raises(DataError, match=re.escape(str(path))):
        wv.resume(tmp_path, progress=False)
    if file != "run.npz":  # as the message says
        path.unlink()
        assert_same(resume(tmp_path), whole)


def test_a_file_of_another_run_is_refused(problem: wv.Problem, tmp_path: Path) -> None:
    for name in "ab":
        run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path / name)
    (tmp_path / "a" / "replicate-0.npz").replace(tmp_path / "b" / "replicate-0.npz")
    with pytest.raises(DataError, match="belongs to another run"):
        wv.resume(tmp_path / "b")
    run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path / "c")
    (tmp_path / "c" / "replicate-0.npz").replace(tmp_path / "c" / "replicate-1.npz")
    with pytest.raises(DataError, match="belongs to another run"):
        wv.resume(tmp_path / "c")


@pytest.mark.usefixtures("write_at_once")
def test_an_error_in_a_thread_is_raised_and_hangs_nothing(
    problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written before the error stands, and the replicate in which it happened is not written after it."""
    real, calls = wv.AddDeleteSwap.advance, iter(range(1000))

    def broken(self: Any, *arguments: Any) -> None:
        if next(calls) > 8:
            raise ZeroDivisionError("in a thread")
        real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(wv.AddDeleteSwap, "advance", broken)
        with pytest.raises(ZeroDivisionError, match="in a thread"):
            run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path, every=1e-9, chunk=200)
    assert_same(resume(tmp_path), run(problem, wv.AddDeleteSwap()))


def test_clocks_that_jump(problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the monotonic clock is asked, which does not jump."""
    rng, asked = random.Random(1), set()

    def jumping() -> float:
        asked.add(sys._getframe(1).f_globals["__name__"].split(".")[0])
        return rng.uniform(-1e10, 1e10)

    monkeypatch.setattr(time, "time", jumping)
    options: dict[str, Any] = {"budget": "1h", "progress": lambda report: None, "chunk": 300}
    kept = run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path, every=0.001, **options)
    assert "whichvars" not in asked
    assert_same(kept, run(problem, wv.AddDeleteSwap()))
    assert kept.stopped == "draws"


def test_writing_takes_a_small_share_of_the_time(problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """However short `every` is: clocks that are turned by hand say when the next file may be written."""
    monkeypatch.setattr(checkpoints, "SHARE", 0.02)
    now, got, busy = [100.0], [7.0], [0.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(checkpoints.time, "process_time", lambda: got[0])
    monkeypatch.setattr(checkpoints.time, "thread_time", lambda: busy.append(busy[-1] + 0.5) or busy[-1])
    sampler = wv.AddDeleteSwap()
    state = sampler.init(problem, np.random.SeedSequence(0, spawn_key=(0,)), [np.zeros(0, np.int64)])
    with Checkpoint(tmp_path, every=1e-6) as saver:
        saver.start_clock(replicates=1)
        now[0] += 1
        saver.write_if_due(0, Replicate(state))
        assert saver._is_written(0, wait=True)
        assert saver.spent == 1.0  # half a second of copying, and half of writing
        state.iterations += 1
        for later, written in ((99.9, False), (100.1, True)):  # a second and one more are 2 % of 100
            now[0], got[0] = now[0] + 1000, 7 + later
            saver.write_if_due(0, Replicate(state))
            saver._is_written(0, wait=True)
            assert (saver.written[0] == (1, 0)) == written


def test_files_fall_due_every_so_often(problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Being a little late once does not make the next one later."""
    now = [0.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    sampler = wv.AddDeleteSwap()
    state = sampler.init(problem, np.random.SeedSequence(0, spawn_key=(0,)), [np.zeros(0, np.int64)])
    written = []
    with Checkpoint(tmp_path, every=10) as saver:
        saver.start_clock(replicates=2)
        for tenth in range(0, 600, 3):
            now[0] = tenth / 10
            state.iterations += 1
            before = saver.written.get(0)
            saver.write_if_due(0, Replicate(state))
            saver._is_written(0, wait=True)
            if saver.written.get(0) != before:
                written.append(now[0])
    assert written == [5.1, 15.0, 25.2, 35.1, 45.0, 55.2]


def test_the_replicate_that_waited_longest_goes_first(problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Whoever asks first; one that will not come again is not waited for."""
    now, affordable = [0.0], [True]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Checkpoint, "_affordable", lambda self: affordable[0])
    sampler = wv.AddDeleteSwap()
    seed = np.random.SeedSequence(0, spawn_key=(0,))
    states = [sampler.init(problem, seed, [np.zeros(0, np.int64)]) for _ in range(3)]
    order = []
    with Checkpoint(tmp_path, every=1) as saver:
        saver.start_clock(replicates=3)
        for second in range(1, 61):  # all are overdue all the time; a file can be afforded every ten seconds
            now[0], affordable[0] = float(second), second % 10 == 0
            coming = [0, 1, 2] if second <= 40 else [0, 2]
            for i in coming:
                states[i].iterations += 1
                saver.write_if_due(i, Replicate(states[i]), coming)
                saver._is_written(i, wait=True)
                if saver.written.get(i) == (states[i].iterations, 0):
                    order.append(i)
                    affordable[0] = False
    assert order == [0, 1, 2, 0, 2, 0]


def test_nobody_waits_for_a_replicate_that_is_done(problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    seen = []
    monkeypatch.setattr(Checkpoint, "write_if_due", lambda self, i, r, others: seen.append((i, r.run.iterations, list(others))))  # fmt: skip
    run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path, chunk=1000, threads=1)
    done = set()
    for index, iterations, others in seen:
        done |= {index} if iterations == 3000 else set()
        assert set(others) == {0, 1, 2} - done
    assert done == {0, 1, 2}


def test_what_is_written_is_what_was_copied(problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Sampling goes on while the copy is written, and a copy is not overwritten before it is on the disk."""
    real, gate, writing = archives.write, threading.Event(), threading.Event()

    def slow(*arguments: Any) -> None:
        writing.set()
        gate.wait(10)
        real(*arguments)

    sampler = SAMPLERS["hybrid"]
    seed = np.random.SeedSequence(0, spawn_key=(0,))
    states = [sampler.init(problem, seed, [np.zeros(0, np.int64)] * 2) for _ in range(2)]
    for state in states:
        advance_run(problem, sampler, state, 50, None, 1)
    with Checkpoint(tmp_path, every=1e-9) as saver:
        settings = checkpoints.Settings(sampler, checkpoints.Plan(0, 1), 0, [], 2, None, True, {})
        saver.begin(problem, settings)
        saver.start_clock(replicates=2)
        before = seal(states[0])
        monkeypatch.setattr(archives, "write", slow)
        saver.write_if_due(0, Replicate(states[0]))
        assert writing.wait(10)
        advance_run(problem, sampler, states[0], 50, None, 1)
        saver.write_if_due(1, Replicate(states[1]))  # has to wait, and is not lost: it is due again
        gate.set()
        assert saver._is_written(0, wait=True)
        assert 1 not in saver.written
        saver.write_if_due(1, Replicate(states[1]))
        assert saver._is_written(1, wait=True)
        found = saver.replicates()
    assert seal(found[0].run) == before != seal(states[0])
    assert found[0].run.iterations == found[1].run.iterations == 50
    advance_run(problem, sampler, found[0].run, 50, None, 1)
    assert seal(found[0].run) == seal(states[0])


def seal(state: Any) -> str:
    """A checksum of all that a run will look at again."""
    return storage.digest_of(checkpoints.needed(state), checkpoints.classes())


def test_an_error_of_the_thread_that_writes_is_not_lost(
    problem: wv.Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # which writes the first file and the last ones
    real, main = archives._write_array, threading.main_thread()

    def broken(*arguments: Any) -> None:
        if threading.current_thread() is not main:
            raise ZeroDivisionError("while writing")
        real(*arguments)

    monkeypatch.setattr(archives, "_write_array", broken)
    with pytest.raises(ZeroDivisionError, match="while writing"):
        run(problem, wv.AddDeleteSwap(), checkpoint=tmp_path, every=1e-9, chunk=100)


# --- storage


def test_zeros_that_were_left_out_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "zeros"
    wide = np.zeros((1000, 1000))
    wide[0, 1] = -0.0
    wide[2, 3] = 5.0
    storage.save(path, "test", [wide, wide.view(np.uint64)], (), trim=True)
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match="longer than allowed"):
        storage.load(path, "test", ())
    again, view = storage.load(path, "test", (), most_zeros=8_000_000)
    assert again.tobytes() == wide.tobytes()
    view[0, 0] = 1
    assert again[0, 0] > 0


def test_generators_go_on(tmp_path: Path) -> None:
    rng = np.random.Generator(np.random.PCG64DXSM(5))
    rng.integers(10, dtype=np.uint32)  # half of a word is left
    storage.save(tmp_path / "g", "test", rng, ())
    again = storage.load(tmp_path / "g", "test", ())
    assert (
        again.integers(1 << 30, size=9, dtype=np.uint32) == rng.integers(1 << 30, size=9, dtype=np.uint32)
    ).all()
    with pytest.raises(TypeError, match="PCG64"):
        storage.save(tmp_path / "h", "test", np.random.default_rng(1), ())


# --- kill -9


def environment() -> dict[str, str]:
    source = str(Path(wv.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([source, str(Path(__file__).parents[2])])}


VICTIM = """
import os, sys, time, random, threading
import numpy as np
import whichvars as wv
from whichvars.data import archives
from whichvars.sampling import checkpoint as checkpoints
from whichvars.sampling.loop import Loop
from unit.sampling import test_checkpoint as tests
name, place, moment, where = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
checkpoints.SHARE = float("inf")
countdown = [int(moment)]
def count(*_):
    countdown[0] -= 1
    if countdown[0] <= 0:
        os.kill(os.getpid(), 9)
if where == "writing":
    real = archives._write_array
    def write(stream, array_name, array):
        if array_name == "array3":
            count()
        real(stream, array_name, array)
    archives._write_array = write
elif where == "renaming":
    real_replace = os.replace
    os.replace = lambda *a: (count(), real_replace(*a))
elif where == "merging":
    cls = type(tests.SAMPLERS[name])
    real_merge = cls.merge
    cls.merge = lambda *a: (count(), real_merge(*a))
else:
    def soon():
        time.sleep(0.03 * (moment % 1))
        os.kill(os.getpid(), 9)
    real_advance = Loop._advance
    def advance(self, index):
        countdown[0] -= 1
        if countdown[0] == 0:
            threading.Thread(target=soon).start()
        real_advance(self, index)
    Loop._advance = advance
tests.run(tests.long_problem(), tests.SAMPLERS[name], checkpoint=place, every=1e-9, chunk=60, **tests.length(name))
"""


def long_problem() -> wv.Problem:
    return wv.Problem(*data_of_long(), slab=wv.GPrior("n"), model_prior=wv.FixedInclusion(h=0.3))


def data_of_long() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 12)) + rng.normal(size=(60, 1))
    return X, X[:, 0] - X[:, 1] + rng.normal(size=60)


def length(name: str) -> dict[str, Any]:
    return {} if name == "smc" else {"draws": 6000, "warmup": 1500}


def kill_and_resume(name: str, moment: float, where: str, place: Path, whole: Posterior) -> float:
    """Start a process that is killed at the `moment`-th time that it is at this place, go on, and compare. One that is
    done before is no test: then it is killed at half the number of times. Returns the number it was."""
    for attempt in range(9):
        directory = place / str(attempt)
        command = [sys.executable, "-c", VICTIM, name, str(directory), str(moment), where]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment(), timeout=900
        )
        assert done.returncode in (0, -9), done.stderr
        if done.returncode == -9:
            assert (directory / "run.npz").exists()
            assert_same(resume(directory), whole)
            return moment
        assert moment >= 2, f"{name} is never killed at {where}"
        moment = max(moment / 2, 1.0)
    raise AssertionError("not reached")


def number_of_merges(name: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often chains of this sampler wait for one another in a run."""
    cls, merges = type(SAMPLERS[name]), []
    real = cls.merge
    with monkeypatch.context() as patch:
        patch.setattr(cls, "merge", lambda *arguments: (merges.append(1), real(*arguments))[1])
        run(long_problem(), SAMPLERS[name], **length(name))
    return len(merges)


@pytest.mark.parametrize(
    ("name", "moment", "where"),
    [  # one that is killed at each kind of moment is in ``make test``
        ("hybrid", 6, "writing"), ("individual", 5, "merging"),
        pytest.param("asi", 9.4, "anywhere", marks=pytest.mark.rest), ("smc", 4.7, "anywhere"),
    ],
)  # fmt: skip
def test_killed_and_resumed(name: str, moment: float, where: str, tmp_path: Path) -> None:
    whole = run(long_problem(), SAMPLERS[name], **length(name))
    kill_and_resume(name, moment, where, tmp_path, whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_killed_again_and_again(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five kills of each of ten samplers at random moments and places: 50 in all, none of which came too late."""
    whole = run(long_problem(), SAMPLERS[name], **length(name))
    rng = random.Random(name)
    merges = number_of_merges(name, monkeypatch)
    places = ["writing", "renaming", "merging" if merges else "writing", "anywhere", "anywhere"]
    most = {"writing": 14, "renaming": 14, "merging": merges, "anywhere": 60}
    killed = []
    for i, where in enumerate(places):
        # files: the first is that of the run itself
        moment = rng.uniform(2 if where in ("writing", "renaming") else 1, most[where])
        killed.append((where, kill_and_resume(name, moment, where, tmp_path / str(i), whole)))
    print(name, ", ".join(f"{where} {moment:.1f}" for where, moment in killed))
    assert len(killed) == 5
