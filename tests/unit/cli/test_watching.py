"""``whichvars watch``: what a checkpoint shows of a run while another process samples it, and a page for this machine only."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import whichvars as wv
from support.kinds import by_kind
from whichvars.cli import main, serving, watching
from whichvars.cli.serving import Server, Watched, serve
from whichvars.report.watching import content, headline
from whichvars.sampling.checkpoint import LOCK, Checkpoint
from whichvars.sampling.watching import DONE, RUNNING, STARTING, STOPPED, View, Watcher, is_alive

NAMES = ["<b>dose</b>", *(f"x{j}" for j in range(1, 8))]


def small_problem() -> wv.Problem:
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(60, 8)), columns=NAMES)
    return wv.Problem(X, 2 * X.iloc[:, 0] + rng.normal(size=60))


def sampled(directory: Path, sampler: Any = None, **options: Any) -> wv.Posterior:
    defaults: dict[str, Any] = {"progress": False}
    if sampler is None:
        defaults |= {"draws": 4000, "warmup": 500}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        return wv.sample(
            small_problem(),
            sampler or wv.AddDeleteSwap(),
            replicates=3,
            checkpoint=directory,
            **{**defaults, **options},
        )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, wv.Posterior]:
    place = tmp_path_factory.mktemp("finished") / "run"
    return place, sampled(place)


@pytest.fixture
def run(finished: tuple[Path, wv.Posterior], tmp_path: Path) -> Path:
    """A copy of a run that is done."""
    return Path(shutil.copytree(finished[0], tmp_path / "run"))


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "OFTEN", 0.0)
    monkeypatch.setattr(serving, "REST", 0.0)


def belongs_to(run: Path, process: int, since: float | None = None) -> None:
    """Make the lock say that a process began to sample at this time, by default now."""
    (run / LOCK).write_text(str(process))
    if since is not None:
        os.utime(run / LOCK, (since, since))


def dead() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def unfinished(run: Path) -> None:
    (run / "replicate-2.npz").unlink()


# --- what a checkpoint shows


def test_a_run_that_is_done_shows_its_posterior(finished: tuple[Path, wv.Posterior]) -> None:
    place, posterior = finished
    view = Watcher(place).look()
    assert view.state == DONE
    assert (view.counted, view.replicates, view.fraction) == (3, 3, 1.0)
    assert view.iterations == view.total == posterior.iterations
    assert view.posterior is not None
    np.testing.assert_array_equal(view.posterior.pip, posterior.pip)
    np.testing.assert_array_equal(view.posterior.mcse, posterior.mcse)


@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        (None, {"draws": None, "budget": "300ms"}),
        (None, {"draws": None, "target_mcse": 0.02}),
        (wv.SequentialMonteCarlo(particles=200, steps=3), {}),
    ],
    ids=["budget", "target", "smc"],
)
def test_whatever_ends_a_run_it_is_done(sampler: Any, options: dict[str, Any], tmp_path: Path) -> None:
    sampled(tmp_path / "run", sampler, **options)
    assert Watcher(tmp_path / "run").look().state == DONE


def test_a_process_at_work_is_seen(run: Path) -> None:
    unfinished(run)
    belongs_to(run, os.getpid())
    view = Watcher(run).look()
    assert view.state == RUNNING
    assert view.session is not None
    assert view.session.process == str(os.getpid())
    assert view.fraction == pytest.approx(2 / 3)
    assert view.counted == 2
    assert view.seconds_left is not None


def test_a_process_that_was_killed_is_seen(run: Path) -> None:
    unfinished(run)
    belongs_to(run, dead())
    assert Watcher(run).look().state == STOPPED


def test_a_killed_process_that_nobody_waits_for_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert is_alive(child.pid, time.time())
        child.kill()
        while is_alive(child.pid, time.time()):
            time.sleep(0.01)
    finally:
        child.kill()
        child.communicate()


def test_the_number_of_a_process_may_belong_to_another_by_now(run: Path) -> None:
    unfinished(run)
    belongs_to(run, os.getpid(), since=time.time() - 30 * 86400)
    assert Watcher(run).look().state == STOPPED


def test_a_process_that_released_the_lock_is_not_at_work(run: Path) -> None:
    """As in a notebook whose run was interrupted, and which lives on."""
    with Checkpoint(run):
        assert (run / LOCK).read_text() == str(os.getpid())
        unfinished(run)
        assert Watcher(run).look().state == RUNNING
    assert Watcher(run).look().state == STOPPED


def test_a_run_without_files_is_starting(run: Path) -> None:
    for file in run.glob("*.npz"):
        file.unlink()
    belongs_to(run, os.getpid())
    assert Watcher(run).look().state == STARTING


def test_a_run_in_its_warm_up_has_no_probabilities(tmp_path: Path) -> None:
    def stop(report: Any) -> None:
        if report.done >= 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sampled(tmp_path / "run", draws=2000, warmup=10_000_000, progress=stop, chunk=50)
    view = Watcher(tmp_path / "run").look()
    assert view.state == STOPPED
    assert view.posterior is None
    assert 0 < view.fraction < 1


@pytest.mark.parametrize("name", ["replicate-1.npz", "run.npz"])
def test_a_damaged_file_is_named_and_what_was_read_before_stays(run: Path, name: str) -> None:
    watcher = Watcher(run)
    before = watcher.look()
    content = (run / name).read_bytes()
    (run / name).write_bytes(content[: len(content) // 2])
    view = watcher.look()
    assert len(view.damaged) == 1
    assert name in view.damaged[0]
    assert view.counted == before.counted == 3
    assert watcher.look().damaged == view.damaged
    (run / name).write_bytes(content)
    assert watcher.look().damaged == ()


def test_a_file_that_was_damaged_from_the_start_leaves_the_others(run: Path) -> None:
    (run / "replicate-1.npz").write_bytes(b"half")
    view = Watcher(run).look()
    assert view.counted == 2
    assert view.posterior is not None
    assert view.state == STOPPED


def test_another_run_in_the_same_place_replaces_the_first(run: Path) -> None:
    watcher = Watcher(run)
    watcher.look()
    shutil.rmtree(run)
    posterior = sampled(run, draws=1000, seed=5)
    view = watcher.look()
    assert view.posterior is not None
    np.testing.assert_array_equal(view.posterior.pip, posterior.pip)


def test_watching_writes_nothing_and_takes_no_lock(run: Path) -> None:
    def listed() -> dict[str, tuple[int, int]]:
        return {f.name: (f.stat().st_mtime_ns, f.stat().st_size) for f in [run, *run.iterdir()]}

    before, watcher = listed(), Watcher(run)
    watcher.look()
    assert listed() == before
    with Checkpoint(run):
        assert watcher.look().counted == 3


SAMPLERS = [
    wv.AddDeleteSwap(),
    wv.IndividualAdaptation(chains=2),
    wv.PARNI(chains=2),
    wv.Hybrid(chains=2),
    wv.SubsetGibbs(chains=2),
    wv.ParallelTempering(rungs=3),
]


@pytest.mark.parametrize("sampler", by_kind(SAMPLERS))
def test_every_moment_of_a_run_can_be_looked_at(
    sampler: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first iteration to the last, and in the end the posterior is that of the run."""
    watcher, seen, turn = Watcher(tmp_path / "run"), [], threading.Lock()

    def write_and_look(self: Checkpoint, index: int, replicate: Any, _: Any) -> None:
        self.write(index, replicate)
        with turn:
            seen.append(watcher.look())

    monkeypatch.setattr(Checkpoint, "write_if_due", write_and_look)
    posterior = sampled(tmp_path / "run", sampler, draws=1200, warmup=400, chunk=200, threads=2)
    assert {view.state for view in seen} == {RUNNING}
    assert [view.posterior for view in seen if view.counted == 0] == [None] * sum(
        v.counted == 0 for v in seen
    )
    counted = [view.posterior for view in seen if view.posterior is not None]
    assert len(counted) > 3
    for found in counted:
        assert ((found.pip >= 0) & (found.pip <= 1)).all()
    fractions = [view.fraction for view in seen]
    assert fractions == sorted(fractions)
    last = watcher.look()
    assert (last.state, last.damaged) == (DONE, ())
    assert last.posterior is not None
    np.testing.assert_array_equal(last.posterior.pip, posterior.pip)


# --- words


def test_headlines_say_what_to_do() -> None:
    assert "25 % done, about 30 seconds left" in headline(View(RUNNING, fraction=0.25, seconds_left=30), "")
    assert "at most about 10 minutes" in headline(View(RUNNING, seconds_left=600, target=0.01), "")
    assert "To continue it: whichvars resume r" in headline(View(STOPPED), "whichvars resume r")


# --- the server


@pytest.fixture
def server(run: Path) -> Iterator[Server]:
    with serve(Watched(run)) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def fetched(address: str, **options: Any) -> tuple[int, str, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, **options)) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def test_only_this_machine_and_only_with_the_token(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 20
    root = f"http://127.0.0.1:{server.server_port}/"
    for path in (
        "",
        "now",
        "report",
        "wrong/",
        "wrong/now",
        f"{server.token}x/now",
        "%00/",
        "../",
        "é".encode().hex(),
    ):
        status, text, _ = fetched(root + path)
        assert status == 404, path
        assert "dose" not in text
        assert server.token not in text
    assert fetched(server.address)[0] == 200
    for path in ("run.npz", "lock", "../lock", "now/x"):
        assert fetched(server.address + path)[0] == 404
    assert fetched(server.address + "now", method="POST", data=b"x")[0] == 501


def test_two_servers_have_two_tokens(run: Path) -> None:
    with serve(Watched(run)) as one, serve(Watched(run)) as other:
        assert one.token != other.token


def test_nothing_is_kept_or_told_to_others(server: Server) -> None:
    headers = fetched(server.address)[2]
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "Python" not in headers["Server"]


def test_the_page_names_the_run_and_escapes_names(server: Server) -> None:
    assert "<h1>Watching run</h1>" in fetched(server.address)[1]
    text = fetched(server.address + "now")[1]
    assert "<b>dose" not in text
    assert "&lt;b&gt;dose" in text
    assert 'data-state="done"' in text
    assert "largest difference between replicates" in text
    assert "Three independent runs gave inclusion probabilities that differ by " in text


def test_the_title_of_the_run_is_that_of_the_page(server: Server, run: Path) -> None:
    (run / "settings.json").write_text('{"title": "Dose <and> time"}')
    assert "<h1>Dose &lt;and&gt; time</h1>" in fetched(server.address)[1]
    (run / "unfinished.json").write_text('{"title": "Anew"')  # half-written
    assert "<h1>Dose &lt;and&gt; time</h1>" in fetched(server.address)[1]


def test_a_run_without_counts_says_that_it_is_warming_up() -> None:
    view = View(RUNNING, iterations=10, total=100, fraction=0.1, replicates=3)
    assert "All replicates are still warming up." in content(view, [], "resume it")
    assert "still warming up" not in content(View(STOPPED), [], "resume it")


def test_the_whole_report_can_be_read(server: Server, run: Path) -> None:
    status, text, _ = fetched(server.address + "report")
    assert status == 200
    assert "<h1>run</h1>" in text
    unfinished(run)
    assert "<h1>run</h1>" in fetched(server.address + "report")[1], "what was read stays"
    belongs_to(run, os.getpid())
    assert "<h1>run: the draws so far</h1>" in fetched(server.address + "report")[1]


def test_a_run_that_is_killed_and_resumed_is_shown_as_such(server: Server, run: Path) -> None:
    last = run / "replicate-2.npz"
    content = last.read_bytes()
    last.unlink()
    belongs_to(run, os.getpid(), time.time() - 5)
    assert 'data-state="running"' in fetched(server.address + "now")[1]
    belongs_to(run, dead())
    text = fetched(server.address + "now")[1]
    assert 'data-state="stopped"' in text
    assert "To continue it: whichvars.resume(" in text
    belongs_to(run, os.getpid())
    text = fetched(server.address + "now")[1]
    assert 'data-state="running"' in text
    assert f"resumed, and is continued by process {os.getpid()}" in text
    last.write_bytes(content)
    belongs_to(run, 0)
    (run / LOCK).write_text("")
    text = fetched(server.address + "now")[1]
    assert 'data-state="done"' in text
    assert text.count("<li><time>") == 4


def test_a_run_that_vanishes_is_said_to(server: Server, run: Path) -> None:
    fetched(server.address + "now")
    shutil.rmtree(run)
    assert "is not there any more" in fetched(server.address + "now")[1]


# --- the directory of ``whichvars fit``


def fit(tmp_path: Path, *options: str) -> Path:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(50, 6)), columns=list("abcdef")).assign(y=rng.normal(size=50))
    table.to_csv(tmp_path / "d.csv", index=False)
    command = ["fit", tmp_path / "d.csv", "-y", "y", "--out", tmp_path / "out", "--quiet", *options]
    result = CliRunner().invoke(main, [str(part) for part in command])
    assert result.exit_code in (0, 3), result.output
    return tmp_path / "out"


def test_the_directory_of_fit_before_during_and_after(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "fitted"
    out.mkdir()
    (out / "unfinished.json").write_text("{}")
    watched = Watched(out)
    assert 'data-state="starting"' in watched.content()
    unfinished(run)
    shutil.move(run, out / "checkpoint")
    belongs_to(out / "checkpoint", os.getpid())
    assert 'data-state="running"' in watched.content()
    belongs_to(out / "checkpoint", dead())
    text = watched.content()
    assert f"To continue it: whichvars resume {out}" in text
    shutil.rmtree(out)
    fit(tmp_path, "--sampler", "add-delete-swap", "--draws", "2000", "--no-report").rename(out)
    text = watched.content()
    assert 'data-state="done"' in text
    assert "The run is done." in watched.events[-1][1]
    assert "4 of 4" in text


def test_imputations_are_watched_one_after_the_other(run: Path, tmp_path: Path) -> None:
    out, place = tmp_path / "fitted", tmp_path / "fitted" / "checkpoint"
    place.mkdir(parents=True)
    (out / "unfinished.json").write_text("{}")
    for name in ("imputations.npz", "problem-1.npz", "problem-2.npz"):
        (place / name).write_text("")
    watched = Watched(out)
    assert "Imputation 1 of 2 has started" in watched.content()
    unfinished(run)
    shutil.copytree(run, place / "imputation-1")
    belongs_to(place / "imputation-1", os.getpid())
    assert "Imputation 1 of 2 is running: 67 % done" in watched.content()
    (place / "posterior-1.npz").write_text("")
    shutil.move(place / "imputation-1", place / "imputation-2")
    assert "Imputation 2 of 2 is running" in watched.content()
    belongs_to(place / "imputation-2", dead())
    assert "interrupted when 67 % of imputation 2 of 2 were saved" in watched.content()
    told = [sentence for _, sentence in watched.events]
    assert told[1:3] == [f"Imputation {k} of 2 is being sampled by process {os.getpid()}." for k in (1, 2)]
    assert "killed" in told[3]


def test_the_report_of_results_is_that_of_the_run(tmp_path: Path) -> None:
    out = fit(tmp_path)
    (out / "report.html").write_text("the report of the run")
    watched = Watched(out)
    assert '<a href="report">' in watched.content()
    assert watched.report() == "the report of the run"


def test_nothing_to_watch_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["watch", str(tmp_path)])
    assert result.exit_code == 2
    assert "contains no run" in result.output


def test_a_port_that_is_taken_is_an_error(run: Path) -> None:
    with serve(Watched(run)) as server:
        result = CliRunner().invoke(main, ["watch", str(run), "--port", str(server.server_port)])
    assert result.exit_code == 2
    assert "cannot be used" in result.output


def test_ctrl_c_ends_it_and_nothing_else(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Server) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "serve_forever", interrupted)
    result = CliRunner().invoke(main, ["watch", str(run)])
    assert result.exit_code == 0
    assert "http://127.0.0.1:" in result.output
    assert "the run is not affected" in result.output


class Beside:
    """In place of the process that serves the page."""

    started: ClassVar[list[list[str]]] = []
    ended = 0

    def __init__(self, command: list[str], **_: Any) -> None:
        assert (Path(command[-1]) / "unfinished.json").exists(), "else there would be nothing to watch"
        self.started.append(command[1:])

    def terminate(self) -> None:
        Beside.ended += 1

    def wait(self) -> None:
        pass


def test_fit_serves_a_page_while_it_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching.subprocess, "Popen", Beside)
    monkeypatch.setattr(Beside, "started", [])
    monkeypatch.setattr(Beside, "ended", 0)
    out = fit(tmp_path, "--sampler", "add-delete-swap", "--draws", "2000", "--no-report", "--watch")
    assert Beside.started == [["-m", "whichvars", "watch", str(out)]]
    assert Beside.ended == 1
    fit(tmp_path, "--overwrite", "--no-report", "--watch")
    assert len(Beside.started) == 1, "there is nothing to watch if all models are enumerated"
    impute = ("--missing", "impute", "--imputations", "2")
    fit(
        tmp_path,
        *impute,
        "--overwrite",
        "--sampler",
        "add-delete-swap",
        "--draws",
        "1000",
        "--no-report",
        "--watch",
    )
    assert (len(Beside.started), Beside.ended) == (2, 2)


def test_new_results_in_the_same_place_are_read(tmp_path: Path) -> None:
    out = fit(tmp_path, "--sampler", "add-delete-swap", "--draws", "2000", "--no-report")
    watched = Watched(out)
    first = watched.content()
    assert watched.content() == first
    fit(tmp_path, "--sampler", "add-delete-swap", "--draws", "4000", "--no-report", "--overwrite")
    assert watched.content() != first


def test_a_browser_that_goes_away_is_not_worth_a_word(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for error, said in ((BrokenPipeError(), False), (RuntimeError("worth a word"), True)):
        try:
            raise error
        except (OSError, RuntimeError):
            server.handle_error(None, ("127.0.0.1", 1))
        assert ("worth a word" in capsys.readouterr().err) is said


def test_the_title_of_a_fit_is_kept_for_later_reports(tmp_path: Path) -> None:
    out = fit(tmp_path, "--title", "Yield & dose")
    assert "<h1>Yield &amp; dose</h1>" in (out / "report.html").read_text(encoding="utf-8")
    assert json.loads((out / "settings.json").read_text())["title"] == "Yield & dose"
    assert CliRunner().invoke(main, ["report", str(out), "--brief"]).exit_code == 0
    assert "<h1>Yield &amp; dose</h1>" in (out / "summary.html").read_text(encoding="utf-8")
