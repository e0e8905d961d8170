"""Runs over many responses that are killed and continued, and runs on clusters: the same tables to the bit."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import whichvars as wv
from tests.support.cluster import Processes, cluster
from whichvars.sampling import many_cluster, many_fits
from whichvars.sampling.executors import Threads
from whichvars.sampling.sampling_many import ManyPosteriors

RNG = np.random.default_rng(12)
N, P = 90, 30
# rows and columns of a larger array, so that neither are contiguous
X = RNG.normal(size=(2 * N, 2 * P))[::2, ::2]
EFFECTS = np.zeros((P, 7))
EFFECTS[2, 0], EFFECTS[9, 3], EFFECTS[9, 5] = 0.8, -0.7, 0.6
Y = pd.DataFrame(X @ EFFECTS + RNG.normal(size=(N, 7)), columns=list("abcdefg"))
Y.loc[:7, "b"] = Y.loc[:7, "e"] = Y.loc[3:5, "g"] = np.nan
PEOPLE = RNG.normal(size=(N, 2))
OPTIONS: dict[str, Any] = {"covariates": PEOPLE, "draws": 400, "seed": 5, "progress": False}
KILLED = """
import os, signal, sys
from tests.unit.sampling.test_many_checkpoint import OPTIONS, X, Y
import whichvars as wv

def kill(report):
    if report.done == 3:
        os.kill(os.getpid(), signal.SIGKILL)

wv.sample_many(X, Y, checkpoint=sys.argv[1], threads=2, **OPTIONS | {"progress": kill})
"""


def assert_same(one: ManyPosteriors, other: ManyPosteriors) -> None:
    """The same tables to the bit, but for the time they took."""
    for name in ("summary", "sets", "variables"):
        first, second = (getattr(many, name).drop(columns="cpu_seconds", errors="ignore") for many in (one, other))  # fmt: skip
        pd.testing.assert_frame_equal(first, second, check_exact=True)


@pytest.fixture(scope="module")
def whole() -> ManyPosteriors:
    return wv.sample_many(X, Y, **OPTIONS)


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The responses that are fitted in this process."""
    names, fit = list[str](), many_fits.Fits.fit

    def noted(self: many_fits.Fits, i: int) -> many_fits.Fit:
        names.append(self.work.responses[i])
        return fit(self, i)

    monkeypatch.setattr(many_fits.Fits, "fit", noted)
    return names


def interrupt_after(count: int) -> Any:
    def progress(report: Any) -> None:
        if report.done == count:
            raise KeyboardInterrupt

    return progress


# --- checkpoints


def test_a_run_that_was_killed_continues_and_gives_the_same_tables(
    tmp_path: Path, whole: ManyPosteriors, fitted: list[str]
) -> None:
    place = tmp_path / "kept"
    done = subprocess.run([sys.executable, "-c", KILLED, str(place)], cwd=Path(__file__).parents[3], check=False)  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    assert len(list(place.glob("response-*.json"))) == 3
    # what a process that is killed while it writes leaves behind
    (place / ".response-6.json.abc.tmp").write_text("half")
    reports: list[Any] = []
    continued = wv.sample_many(X, Y, checkpoint=place, **OPTIONS | {"progress": reports.append})
    assert len(fitted) == 4
    assert [report.status for report in reports] == [f"{i} of 7 responses" for i in (4, 5, 6, 7)]
    assert_same(continued, whole)
    assert not list(place.glob("*.tmp")) + list(place.glob(".*.tmp"))
    fitted.clear()
    assert_same(wv.sample_many(X, Y, checkpoint=place, **OPTIONS), whole)
    assert fitted == []


def test_responses_that_cannot_be_fitted_are_tried_again(tmp_path: Path, fitted: list[str]) -> None:
    table = Y[["a", "c"]].assign(same=1.0)
    for _ in range(2):
        with pytest.warns(wv.DataWarning, match=r"1 of 3 responses could not be fitted, 'same'"):
            many = wv.sample_many(X, table, checkpoint=tmp_path / "kept", **OPTIONS)
    assert "y is constant" in many.summary.loc["same", "not_fitted"]
    assert sorted(fitted) == ["a", "c", "same", "same"]


def test_a_directory_of_another_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, table = tmp_path / "kept", Y[["a", "b"]]

    def run(X: Any = X, Y: Any = table, **other: Any) -> ManyPosteriors:
        return wv.sample_many(X, Y, checkpoint=place, **OPTIONS | other)

    run()
    run(threads=1)
    with pytest.raises(
        wv.DataError, match=r"another run: seed is 5 there and 6 here. Name another directory"
    ):
        run(seed=6)
    with pytest.raises(
        wv.DataError, match=r"draws is 400 there and None here; replicates is 4 there and 3 here"
    ):
        run(draws=None, replicates=3)
    with pytest.raises(
        wv.DataError, match=r"model_prior is BetaBinomial\(size=1.0\) there and BetaBinomial\(size=2.0\) here"
    ):
        run(model_prior=wv.BetaBinomial(size=2.0))
    with pytest.raises(wv.DataError, match=r"Y has other responses"):
        run(Y=Y[["a", "c"]])
    with pytest.raises(wv.DataError, match=r"Y has other responses"):
        run(Y=table.rename(columns={"b": "c"}))
    with pytest.raises(wv.DataError, match=r"X, the covariates or the priors are others"):
        run(covariates=PEOPLE + np.eye(N, 2))
    changed = X.copy()
    # a row in which the only other group of responses is observed too
    changed[40, 7] += 1e-9
    with pytest.raises(wv.DataError, match=r"X, the covariates or the priors are others"):
        run(X=changed)
    monkeypatch.setattr("whichvars.sampling.many_checkpoint.version", lambda: "99.0")
    with pytest.raises(wv.DataError, match=r"made by another version of whichvars, .*; this is 99.0"):
        run()


def test_a_row_that_only_some_responses_have_counts_as_data(tmp_path: Path) -> None:
    table = Y[["b", "g"]].assign(g=Y["g"].where(np.arange(N) > 20))
    wv.sample_many(X, table, checkpoint=tmp_path, **OPTIONS)
    changed = X.copy()
    changed[0, 0] += 1e-9
    with pytest.raises(wv.DataError, match=r"X, the covariates or the priors are others"):
        wv.sample_many(changed, table, checkpoint=tmp_path, **OPTIONS)


def test_a_directory_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("dear")
    with pytest.raises(wv.DataError, match=r"contains something else, such as thesis.txt: name a new"):
        wv.sample_many(X, Y, checkpoint=tmp_path, **OPTIONS)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]
    one = tmp_path / "one"
    wv.sample(wv.Problem(X, Y["a"]), draws=200, checkpoint=one, progress=False)
    with pytest.raises(wv.DataError, match=r"holds the checkpoint of one response, not of sample_many"):
        wv.sample_many(X, Y, checkpoint=one, **OPTIONS)


def test_damaged_and_foreign_files_are_named(tmp_path: Path) -> None:
    table = Y[["a", "c"]]
    for name, seed in (("first", 1), ("second", 2)):
        wv.sample_many(X, table, checkpoint=tmp_path / name, **OPTIONS | {"seed": seed})
    file = tmp_path / "first" / "response-1.json"
    good = file.read_text()
    file.write_text(good.replace("0.", "1.", 1))
    with pytest.raises(wv.DataError, match=r"response-1.json is damaged .* its response is fitted again"):
        wv.sample_many(X, table, checkpoint=tmp_path / "first", **OPTIONS | {"seed": 1})
    file.write_text((tmp_path / "second" / "response-1.json").read_text())
    with pytest.raises(wv.DataError, match=r"response-1.json belongs to another run"):
        wv.sample_many(X, table, checkpoint=tmp_path / "first", **OPTIONS | {"seed": 1})
    file.write_text((tmp_path / "first" / "response-0.json").read_text())
    with pytest.raises(wv.DataError, match=r"response-1.json belongs to another run"):
        wv.sample_many(X, table, checkpoint=tmp_path / "first", **OPTIONS | {"seed": 1})


# --- clusters


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with cluster(tmp_path_factory.mktemp("cluster"), 2) as processes:
        yield processes


@pytest.mark.rest
def test_a_cluster_gives_the_same_tables(
    two: Processes, whole: ManyPosteriors, fitted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = wv.DaskExecutor(two.address)
    with monkeypatch.context() as patched:
        # three responses in a task, instead of one
        patched.setattr(many_cluster, "TASKS", 1)
        assert_same(wv.sample_many(X, Y, executor=executor, **OPTIONS), whole)
    assert_same(wv.sample_many(X, Y, executor=executor, **OPTIONS), whole)
    # begun on the cluster, continued here
    with pytest.raises(KeyboardInterrupt):
        wv.sample_many(X, Y, executor=executor, checkpoint=tmp_path, **OPTIONS | {"progress": interrupt_after(3)})  # fmt: skip
    assert fitted == []
    assert_same(wv.sample_many(X, Y, checkpoint=tmp_path, **OPTIONS), whole)
    assert len(fitted) == 4


@pytest.mark.rest
def test_data_are_sent_from_here_once(two: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, state = [], many_cluster.ManyState.__getstate__
    monkeypatch.setattr(many_cluster.ManyState, "__getstate__", lambda self: sent.append(1) or state(self))
    wv.sample_many(X, Y, executor=wv.DaskExecutor(two.address), **OPTIONS)
    assert len(sent) == 1


@pytest.mark.rest
def test_frames_genotypes_and_functions_can_be_sent(two: Processes) -> None:
    counts = RNG.integers(0, 3, size=(N, P)).astype(np.int8)
    forms = {"frame": pd.DataFrame(X).add_prefix("v"), "genotypes": wv.Genotypes(counts)}
    for form in forms.values():
        options = OPTIONS | {"model_prior": lambda p: wv.FixedInclusion(h=1 / p)}
        here = wv.sample_many(form, Y[["a", "b"]].to_numpy(), **options)
        there = wv.sample_many(
            form, Y[["a", "b"]].to_numpy(), executor=wv.DaskExecutor(two.address), **options
        )
        assert_same(here, there)


@pytest.mark.rest
def test_a_worker_that_is_lost_changes_nothing(tmp_path: Path, whole: ManyPosteriors) -> None:
    with cluster(tmp_path, 2) as processes:

        def kill(report: Any) -> None:
            if report.done == 1:
                processes.workers[0].kill()

        executor = wv.DaskExecutor(processes.address)
        assert_same(wv.sample_many(X, Y, executor=executor, **OPTIONS | {"progress": kill}), whole)


def test_executors_that_cannot_fit_responses_are_refused() -> None:
    with pytest.raises(wv.ArgumentTypeError, match=r"executor must be an object such as DaskExecutor"):
        wv.sample_many(X, Y, executor="tcp://ADDRESS:8786", **OPTIONS)  # type: ignore[arg-type]
    with pytest.raises(wv.ArgumentTypeError, match=r"executor must be a DaskExecutor, not <.*Threads"):
        wv.sample_many(X, Y, executor=Threads(2), **OPTIONS)  # type: ignore[arg-type]
