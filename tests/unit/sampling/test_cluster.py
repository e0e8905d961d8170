"""Runs on a Dask cluster: scheduler and workers are processes of their own, on loopback TCP. The numbers are those of this
machine alone, bit for bit, whoever dies in between."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import whichvars as wv
from support.cases import eight_variables, eight_variables_and_two_classes
from support.cluster import SOURCE, Processes, cluster
from unit.sampling.test_sample import assert_same
from whichvars.cli import main
from whichvars.data import storage
from whichvars.posterior.posterior import Posterior
from whichvars.samplers.contract import Run
from whichvars.sampling import checkpoint as checkpoints
from whichvars.sampling import cluster as client_side
from whichvars.sampling import connection, progress, workers
from whichvars.sampling.checkpoint import Checkpoint
from whichvars.sampling.progress import Report

pytest.importorskip("distributed")

FEW = {"memo_slots": 1 << 10}
SAMPLERS: dict[str, Any] = {
    "hybrid": wv.Hybrid(chains=2, table_bytes=1 << 16, **FEW),
    "individual": wv.IndividualAdaptation(chains=3, merge_every=500, **FEW),
    "tempering": wv.ParallelTempering(rungs=3, chains=2, **FEW),
    "smc": wv.SequentialMonteCarlo(particles=200, steps=4, groups=4, **FEW),
    "asi": wv.ASI(chains=2, **FEW),
}


@pytest.fixture(scope="module")
def problem() -> wv.Problem:
    return eight_variables()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Two workers, which no test may end."""
    with cluster(tmp_path_factory.mktemp("cluster"), 2) as found:
        yield found


@pytest.fixture
def nobody(tmp_path: Path) -> Iterator[Processes]:
    """A scheduler without workers."""
    with cluster(tmp_path, 0) as found:
        yield found


@pytest.fixture(autouse=True)
def many_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little time there is between two of them, and a report after each."""
    monkeypatch.setattr(progress, "OFTEN", 0.0)
    monkeypatch.setattr(progress, "SHARE", np.inf)
    monkeypatch.setattr(client_side, "OVERHEAD_SHARE", np.inf)
    monkeypatch.setattr(connection, "UPDATE_SECONDS", 0.5)


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 1.0)


def run(problem: wv.Problem, sampler: Any, where: str | None = None, **options: Any) -> Posterior:
    """On the cluster at an address, in rounds as short as can be, or here."""
    spread, length = options.pop("spread", None), options.pop("round_seconds", 0.01)
    executor = None if where is None else wv.DaskExecutor(where, round_seconds=length, spread=spread)
    defaults: dict[str, Any] = {
        "replicates": 3,
        "seed": 11,
        "progress": False,
        "executor": executor,
        "chunk": 500,
    }
    if getattr(sampler, "by_draws", True):
        defaults |= {"draws": 3000, "warmup": 600}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        return wv.sample(problem, sampler, **{**defaults, **options})


class At:
    """A progress callback that does something when so much of a run is done, once for each part."""

    def __init__(self, **what: Callable[[], Any]) -> None:
        self.left = sorted((float(name.removeprefix("p")) / 100, do) for name, do in what.items())

    def __call__(self, report: Report) -> None:
        if self.left and report.fraction >= self.left[0][0]:
            self.left.pop(0)[1]()


# --- the same bits


@pytest.mark.parametrize(
    ("name", "spread"),
    [  # a replicate that stays with one worker is sent as a whole, whatever the sampler
        pytest.param(
            name,
            spread,
            marks=[]
            if (name, spread) in (("hybrid", False), ("individual", True))
            else pytest.mark.rest
            if spread or name == "smc"
            else pytest.mark.slow,
        )
        for name in SAMPLERS
        for spread in (False, True)
    ],
)
def test_a_cluster_gives_the_same_bits(problem: wv.Problem, two: Processes, name: str, spread: bool) -> None:
    there = run(problem, SAMPLERS[name], two.address, spread=spread)
    assert_same(there, run(problem, SAMPLERS[name]))
    assert there.cpu_seconds > 0


@pytest.mark.rest
@pytest.mark.parametrize("sampler", [SAMPLERS["hybrid"], wv.AddDeleteSwap(**FEW)], ids=["hybrid", "ads"])
def test_responses_that_are_not_gaussian(two: Processes, sampler: Any) -> None:
    """The hybrid fits within its kernel, add/delete/swap comes back for each fit."""
    problem, short = eight_variables_and_two_classes(), {"draws": 900, "warmup": 300}
    assert_same(run(problem, sampler, two.address, **short), run(problem, sampler, **short))


@pytest.mark.rest
def test_accuracy_is_looked_at_at_the_same_draws(problem: wv.Problem, two: Processes) -> None:
    options: dict[str, Any] = {"draws": 200_000, "warmup": 500, "target_mcse": 0.01}
    here = run(problem, SAMPLERS["asi"], **options)
    assert here.stopped == "target_mcse"
    assert here.iterations < 3 * 200_500
    assert_same(run(problem, SAMPLERS["asi"], two.address, **options), here)


@pytest.mark.rest
def test_a_budget_ends_a_run_within_its_round(problem: wv.Problem, two: Processes) -> None:
    posterior = run(
        problem, SAMPLERS["hybrid"], two.address, draws=None, warmup=100, budget=1.0, round_seconds=15.0
    )
    assert posterior.stopped == "budget"
    assert posterior.iterations > 0


@pytest.mark.rest
def test_states_stay_with_workers_and_are_sent_again_when_counting_begins(
    problem: wv.Problem, two: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, bool]] = []
    ask = client_side.DaskPool.ask

    def note(self: Any, function: str, order: workers.Request, worker: str | None) -> Any:
        sent.append((order.moment[1], order.state is not None))
        return ask(self, function, order, worker)

    monkeypatch.setattr(client_side.DaskPool, "ask", note)
    run(problem, SAMPLERS["hybrid"], two.address, replicates=2, draws=200_000)
    assert len(sent) >= 7
    first = [state for when, state in sent if when == 0]
    then = [state for when, state in sent if when > 0]
    # both replicates once at the start and once after warm-up; Dask may let another worker take a task, but seldom
    assert first.count(True) >= 2 <= then.count(True)
    assert first.count(False) + then.count(False) >= 2


# --- somebody dies


@pytest.mark.rest
def test_a_worker_that_is_killed_costs_nothing_but_time(problem: wv.Problem, tmp_path: Path) -> None:
    """First one of two, then the one that is left while a new one comes: nobody has the data any more."""
    sampler, options = SAMPLERS["hybrid"], {"draws": 100_000, "replicates": 2}
    with cluster(tmp_path, 2) as found:

        def kill_and_replace() -> None:
            found.workers[1].kill()
            found.add_worker()

        act = At(p20=found.workers[0].kill, p50=kill_and_replace)
        there = run(problem, sampler, found.address, progress=act, chunk=2000, **options)
        assert not act.left
        assert found.workers[0].wait() == found.workers[1].wait() == -signal.SIGKILL
    assert_same(there, run(problem, sampler, **options))


@pytest.mark.rest
def test_the_scheduler_is_killed_and_the_run_goes_on_anywhere(
    problem: wv.Problem, two: Processes, tmp_path: Path
) -> None:
    sampler, options = SAMPLERS["individual"], {"draws": 90_000}
    kept, copy = tmp_path / "kept", tmp_path / "copy"
    (tmp_path / "processes").mkdir()
    with cluster(tmp_path / "processes", 1) as found:
        act = At(p30=found.scheduler.kill)
        with pytest.raises(wv.ClusterError, match=r"can no longer be reached.*resume\(.*kept"):
            run(problem, sampler, found.address, progress=act, checkpoint=kept, chunk=2000, **options)
    with Checkpoint(kept) as saver:
        saver.read_run()
        done = [replicate.run.iterations for replicate in saver.replicates().values()]
    assert len(done) == 3
    assert 0 < max(done) < 31_200
    shutil.copytree(kept, copy)
    here = run(problem, sampler, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        assert_same(wv.resume(kept, progress=False), here)
        assert_same(wv.resume(copy, progress=False, executor=wv.DaskExecutor(two.address)), here)


@pytest.mark.rest
def test_without_a_checkpoint_the_result_is_what_was_counted(problem: wv.Problem, tmp_path: Path) -> None:
    with cluster(tmp_path, 1) as found:
        act = At(p40=found.scheduler.kill)
        executor = wv.DaskExecutor(found.address, round_seconds=0.01)
        options: dict[str, Any] = {"draws": 100_000, "warmup": 1000, "replicates": 1, "chunk": 2000}
        with pytest.warns(wv.ConvergenceWarning, match="can no longer be reached: ended after"):
            posterior = wv.sample(problem, SAMPLERS["hybrid"], progress=act, executor=executor, **options)
    assert posterior.stopped == "interrupted"
    assert 0.35 * 100_000 < posterior.iterations < 101_000


@pytest.mark.rest
def test_ctrl_c_keeps_everything(problem: wv.Problem, two: Processes, tmp_path: Path) -> None:
    sampler, options = SAMPLERS["hybrid"], {"draws": 100_000, "checkpoint": tmp_path}
    act = At(p30=lambda: os.kill(os.getpid(), signal.SIGINT))
    posterior = run(problem, sampler, two.address, progress=act, chunk=2000, **options)
    assert posterior.stopped == "interrupted"
    assert posterior.iterations < 3 * 100_000
    executor = wv.DaskExecutor(two.address)
    assert_same(wv.resume(tmp_path, progress=False, executor=executor), run(problem, sampler, draws=100_000))


# --- what cannot be used


def refused(problem: wv.Problem, where: Any, match: str) -> None:
    started = time.monotonic()
    with pytest.raises(wv.ClusterError, match=match):
        run(problem, SAMPLERS["hybrid"], where)
    assert time.monotonic() - started < 60  # it does not hang


@pytest.mark.rest
def test_a_worker_without_the_package(problem: wv.Problem, nobody: Processes, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "whichvars.py").write_text("raise ImportError('No module named whichvars')\n")
    nobody.add_worker(str(hidden))
    nobody.wait_for_workers(1)
    refused(
        problem,
        nobody.address,
        r"worker tcp://127\.0\.0\.1:\d+ cannot import whichvars .*install it on every worker",
    )


@pytest.mark.rest
@pytest.mark.parametrize(
    ("file", "before", "after", "match"),
    [
        ("__init__.py", '__version__ = "', '__version__ = "9.', r"whichvars 9\.\S+ there, \d.* here"),
        ("samplers/contract.py", "RECORDS = 2048", "RECORDS = 2047", "the source of whichvars differs"),
    ],
)
def test_other_versions_on_a_worker(
    problem: wv.Problem, nobody: Processes, tmp_path: Path, file: str, before: str, after: str, match: str
) -> None:
    shutil.copytree(Path(SOURCE) / "whichvars", tmp_path / "other" / "whichvars")
    path = tmp_path / "other" / "whichvars" / file
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")
    nobody.add_worker(str(tmp_path / "other"))
    nobody.wait_for_workers(1)
    refused(problem, nobody.address, rf"worker tcp://\S+ has different software from this process: {match}")


@pytest.mark.rest
def test_a_worker_with_other_versions_that_comes_later(
    problem: wv.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = pickle.dumps(workers.WorkerState(problem, SAMPLERS["asi"], None))
    monkeypatch.setattr(workers, "software", lambda: {"numpy": "1.0"})
    with pytest.raises(wv.ClusterError, match=r"different software.*numpy 1\.0 there"):
        pickle.loads(sent).open()


def test_nobody_answers(problem: wv.Problem, short_patience: None, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            wv.ClusterError, match=rf"no Dask scheduler answers at '{address}'.*is it running"
        ):
            run(problem, SAMPLERS["hybrid"], address, checkpoint=tmp_path)
    # and nothing is lost
    assert_same(run(problem, SAMPLERS["hybrid"], checkpoint=tmp_path), run(problem, SAMPLERS["hybrid"]))


def test_an_address_that_is_none(problem: wv.Problem) -> None:
    refused(problem, "nonsense://what", "no Dask scheduler answers at 'nonsense://what'")


@pytest.mark.rest
def test_a_scheduler_without_workers(problem: wv.Problem, nobody: Processes, short_patience: None) -> None:
    refused(
        problem,
        nobody.address,
        r"still has no workers after 1 seconds; start some with: dask worker tcp://",
    )


@pytest.mark.rest
def test_a_client_that_was_closed(problem: wv.Problem, two: Processes) -> None:
    from distributed import Client

    with Client(two.address, set_as_default=False) as client:
        executor = wv.DaskExecutor(client)
    with pytest.raises(wv.ClusterError, match="the client is closed, not running"):
        wv.sample(problem, SAMPLERS["hybrid"], draws=100, executor=executor)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: wv.DaskExecutor(8786), TypeError, "address of a scheduler or a distributed.Client, not int"),
        (lambda: wv.DaskExecutor("tcp://a:1", round_seconds=0), ValueError, "round_seconds must lie between 0 and 15"),
        (lambda: wv.DaskExecutor("tcp://a:1", spread="yes"), TypeError, "spread must be True, False or None"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(make: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()


def test_executors_that_are_none(problem: wv.Problem) -> None:
    with pytest.raises(TypeError, match=r"executor must be an object such as DaskExecutor\(address\)"):
        wv.sample(problem, draws=10, executor="tcp://127.0.0.1:1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="threads applies to this process only"):
        wv.sample(problem, draws=10, threads=2, executor=wv.DaskExecutor("tcp://127.0.0.1:1"))


def test_without_dask_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(wv.MissingPackageError, match=r"pip install 'whichvars\[dask\]'"):
        wv.DaskExecutor("tcp://127.0.0.1:1")


# --- what a worker does


def a_run(problem: wv.Problem, sampler: Any) -> Run:
    seed = np.random.SeedSequence(3)
    found: Run = sampler.init(problem, seed, [np.array([0])] * sampler.chains)
    return found


def test_what_travels_comes_back_and_shares_no_memory(problem: wv.Problem) -> None:
    run = a_run(problem, SAMPLERS["hybrid"])
    sent = workers.pack(run)
    known = checkpoints.classes()
    digest = storage.digest_of(checkpoints.needed(run), known)
    again = workers.unpack(pickle.loads(pickle.dumps(sent)))
    assert storage.digest_of(checkpoints.needed(again), known) == digest
    run.units[0].sums[:] = 1.0
    assert storage.digest_of(checkpoints.needed(workers.unpack(sent)), known) == digest


def test_a_worker_goes_on_from_the_moment_named_or_not_at_all(
    problem: wv.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "address_of_worker", lambda: "here")
    monkeypatch.setattr(workers, "MOST_HELD", 2)
    sampler = SAMPLERS["hybrid"]
    run = a_run(problem, sampler)
    order = workers.Request("t", (0,), (0, 0), workers.pack(run), 300, 60.0)
    assert workers.run_round(order, None).state is None  # it has not the data
    first = workers.run_round(order, workers.WorkerState(problem, sampler, 100))
    assert first.state is not None
    assert workers.unpack(first.state).iterations == 300
    stale = order._replace(state=None, moment=(200, 0), end=400)
    assert workers.run_round(stale, None).state is None
    assert (
        workers.run_round(stale._replace(moment=(300, 0)), None).state is None
    )  # what it had is gone by now
    for index in range(3):
        assert workers.run_round(order._replace(key=(index,)), None).state is not None
    following = order._replace(state=None, moment=(300, 0), end=400)
    assert workers.run_round(following, None).state is None  # two are kept, and this is the third
    assert workers.run_round(following._replace(key=(2,)), None).state is not None
    workers.forget("t")
    assert workers.run_round(order, None).state is None


def test_sites_of_clients_that_vanished_are_forgotten(
    problem: wv.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "address_of_worker", lambda: "here")
    old, new = (workers.WorkerState(problem, SAMPLERS["hybrid"], None) for _ in range(2))
    workers.set_up("old", old)
    old.used -= 2 * workers.EXPIRY
    workers.set_up("new", new)
    assert set(workers._states) == {"new"}
    workers.forget("new")


# --- the command line


def test_fit_and_resume_on_a_cluster(two: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = wv.datasets.load_uscrime()
    data.X.assign(response=data.y).to_csv("crime.csv", index=False)
    fit = ["fit", "crime.csv", "-y", "response", "--draws", "3000", "--quiet", "--no-report"]
    for out, more in [("here", []), ("there", ["--dask", two.address])]:
        result = CliRunner().invoke(main, [*fit, "--out", out, *more])
        assert result.exit_code in (0, 3), result.output
    assert (tmp_path / "here/summary.csv").read_text() == (tmp_path / "there/summary.csv").read_text()
    result = CliRunner().invoke(main, [*fit, "--out", "twice", "--dask", two.address, "--threads", "2"])
    assert result.exit_code == 2
    assert "threads" in result.output
    monkeypatch.setattr(connection, "PATIENCE", 1.0)
    result = CliRunner().invoke(main, [*fit, "--out", "none", "--dask", "tcp://127.0.0.1:9"])
    assert result.exit_code == 2
    assert "no Dask scheduler answers" in result.output
    assert not (tmp_path / "none").exists()
    result = CliRunner().invoke(main, ["resume", "there", "--dask", two.address])
    assert "is finished" in result.output
