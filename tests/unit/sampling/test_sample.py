"""``sample()``: the same numbers for any threads and chunks, seeds, starts, progress, interrupts, errors."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

import whichvars as wv
from statistical.samplers_under_test import SAMPLERS, kinds_first
from support.cases import eight_variables
from support.kinds import mainly
from whichvars.posterior.posterior import Posterior, combine_replicates
from whichvars.sampling.progress import Report


@pytest.fixture(scope="module")
def problem() -> wv.Problem:
    return eight_variables(names=[f"v{j}" for j in range(8)])


def run(problem: wv.Problem, sampler: Any = "auto", **options: Any) -> Posterior:
    defaults = {"draws": 600, "replicates": 3, "seed": 11, "progress": False}
    return wv.sample(problem, sampler, **{**defaults, **options})


def assert_same(a: Posterior, b: Posterior) -> None:
    for name in ("pip", "mcse", "sizes", "replicate_pips"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a.models.members == b.models.members
    np.testing.assert_array_equal(a.models.frequency, b.models.frequency)
    np.testing.assert_array_equal(a.models.log_marginal, b.models.log_marginal)
    assert a.trace is not None
    assert b.trace is not None
    pd.testing.assert_frame_equal(a.trace, b.trace, check_exact=True)
    assert a.iterations == b.iterations


@pytest.mark.parametrize("sampler", kinds_first())
def test_threads_and_chunks_change_nothing(problem: wv.Problem, sampler: str) -> None:
    settings = SAMPLERS[sampler].settings
    chains = settings.chains
    draws = 600 if chains == 1 else 1100 * chains  # where chains exchange what they learned, they do so
    first = run(problem, settings, draws=draws, threads=1, chunk=1000)
    for threads, chunk in [(5, 7 * chains), (2, chains), (1, None)]:
        assert_same(run(problem, settings, draws=draws, threads=threads, chunk=chunk), first)


@pytest.mark.parametrize("sampler", kinds_first())
def test_more_replicates_leave_the_first_ones_alone(problem: wv.Problem, sampler: str) -> None:
    settings = SAMPLERS[sampler].settings
    few, many = (run(problem, settings, replicates=r) for r in (2, 5))
    assert few.replicate_pips is not None
    assert many.replicate_pips is not None
    np.testing.assert_array_equal(few.replicate_pips, many.replicate_pips[:2])


def test_seeds(problem: wv.Problem) -> None:
    assert_same(run(problem, seed=3), run(problem, seed=3))
    assert not np.array_equal(run(problem, seed=3).pip, run(problem, seed=4).pip)
    assert not np.array_equal(run(problem, seed=None).pip, run(problem, seed=None).pip)
    means = run(problem).replicate_pips
    assert means is not None
    assert len(np.unique(means, axis=0)) == len(means)  # replicates differ


@pytest.mark.parametrize("sampler", kinds_first())
def test_all_iterations_are_counted(problem: wv.Problem, sampler: str) -> None:
    settings = SAMPLERS[sampler].settings
    per_chain = -(-1000 // settings.chains), -(-300 // settings.chains)
    posterior = run(problem, settings, draws=1000, warmup=300, replicates=2)
    assert posterior.iterations == 2 * settings.chains * sum(per_chain)
    assert posterior.sizes.sum() == pytest.approx(1)
    assert len(posterior.models.members) == len(posterior.kept)  # 256 models: none was dropped
    assert posterior.kept.weight.sum() == pytest.approx(1)
    np.testing.assert_allclose(posterior.kept.by_replicate.mean(axis=0), posterior.kept.weight)


@pytest.mark.parametrize("sampler", kinds_first())
@pytest.mark.filterwarnings("ignore::whichvars.errors.ConvergenceWarning")
def test_odd_lengths(problem: wv.Problem, sampler: str) -> None:
    settings = SAMPLERS[sampler].settings
    for draws, warmup in [(1, 0), (1, 1), (2, 0), (63, 5), (64, 0), (65, 1), (127, 0), (128, 0), (129, 0)]:
        posterior = run(problem, settings, draws=draws, warmup=warmup, replicates=2)
        each = -(-draws // settings.chains) + -(-warmup // settings.chains)
        assert posterior.iterations == 2 * settings.chains * each
        assert posterior.frequencies is not None
        assert posterior.sizes @ np.arange(9) == pytest.approx(posterior.pip.sum())
        assert np.all((posterior.pip >= 0) & (posterior.pip <= 1))


# --- progress


def test_progress_reports(problem: wv.Problem) -> None:
    reports: list[Report] = []
    run(problem, draws=5000, warmup=500, replicates=2, progress=reports.append)
    assert reports
    done = [r.done for r in reports]
    assert done == sorted(done)
    assert reports[-1].done == reports[-1].total == 2 * 5500
    assert all(r.seconds >= 0 for r in reports)
    assert reports[-1].largest_mcse is not None
    assert 0 < reports[-1].largest_mcse < 0.2


def test_progress_without_warmup_knows_its_accuracy(problem: wv.Problem) -> None:
    reports: list[Report] = []
    run(problem, draws=5000, warmup=0, replicates=2, progress=reports.append)
    assert reports[-1].largest_mcse is not None


def test_watching_changes_nothing(problem: wv.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at the counts between chunks does not disturb them."""
    calls: list[Report] = []
    ticks = iter(range(10**9))
    monkeypatch.setattr("whichvars.sampling.progress.time.monotonic", lambda: float(next(ticks)))
    watched = run(problem, chunk=3, progress=calls.append)
    assert len(calls) > 20
    assert_same(watched, run(problem))


def test_silence(problem: wv.Problem, capfd: pytest.CaptureFixture[str]) -> None:
    run(problem, progress=False)
    run(problem, progress=True)  # no terminal: no bar either
    assert capfd.readouterr() == ("", "")


# --- errors


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"draws": 0}, wv.DataError, "draws must be at least 1"),
        ({"draws": "x"}, wv.ArgumentTypeError, "draws must be a whole number, not 'x'"),
        ({"draws": 10.5}, wv.ArgumentTypeError, "draws must be a whole number"),
        ({"draws": float("nan")}, wv.ArgumentTypeError, "draws must be a whole number"),
        ({"draws": float("inf")}, wv.ArgumentTypeError, "draws must be a whole number"),
        ({"draws": True}, wv.ArgumentTypeError, "draws must be a whole number"),
        ({"warmup": -1}, wv.DataError, "warmup must be at least 0"),
        ({"replicates": 0}, wv.DataError, "replicates must be at least 1"),
        ({"threads": 0}, wv.DataError, "threads must be at least 1"),
        ({"chunk": 0}, wv.DataError, "chunk must be at least 1"),
        ({"seed": "one"}, wv.ArgumentTypeError, "seed must be a whole number or None"),
        ({"seed": 1.5}, wv.ArgumentTypeError, "seed must be a whole number or None"),
        ({"seed": -1}, wv.DataError, "seed"),
        ({"sampler": "foo"}, wv.ArgumentTypeError, "'foo'"),
        ({"sampler": 3}, wv.ArgumentTypeError, "sampler must be"),
        ({"sampler": wv.AddDeleteSwap}, wv.ArgumentTypeError, "AddDeleteSwap"),
        ({"start": "nowhere"}, wv.DataError, "'nowhere'"),
        ({"start": 3.5}, wv.ArgumentTypeError, "start must be"),
        ({"start": ["v1", "v99"]}, wv.DataError, "'v99'"),
        ({"start": [0, 8]}, wv.DataError, "8"),
    ],
    ids=lambda value: "=".join(map(str, *value.items())) if isinstance(value, dict) else "",
)
def test_bad_arguments(problem: wv.Problem, options: dict[str, Any], error: type, says: str) -> None:
    with pytest.raises(error) as caught:
        run(problem, **options)
    assert says in str(caught.value)


def test_whole_numbers_of_other_types(problem: wv.Problem) -> None:
    assert_same(run(problem, draws=600.0, seed=np.int64(11)), run(problem, draws=np.int32(600)))


def test_not_a_problem() -> None:
    with pytest.raises(wv.ArgumentTypeError, match=r"needs a Problem first, not ndarray"):
        wv.sample(np.zeros((3, 3)))  # type: ignore[arg-type]


# --- starts


@dataclass(frozen=True)
class Recorder:
    """Add/delete/swap that notes where its chains start, and can be interrupted."""

    starts: list[tuple[int, ...]] = field(default_factory=list)
    interrupt_at: int = -1  # call of advance
    calls: list[int] = field(default_factory=list)
    inner: wv.AddDeleteSwap = field(default_factory=wv.AddDeleteSwap)
    invariant_law = "posterior"
    chains = 1

    def init(self, problem: Any, seed: Any, starts: Any) -> Any:
        self.starts.extend(tuple(sorted(s.tolist())) for s in starts)
        return self.inner.init(problem, seed, starts)

    def advance(self, problem: Any, run: Any, unit: int, iterations: int) -> None:
        self.calls.append(iterations)
        if len(self.calls) == self.interrupt_at:
            raise KeyboardInterrupt
        self.inner.advance(problem, run, unit, iterations)

    def merge(self, problem: Any, run: Any) -> None:
        self.inner.merge(problem, run)

    def learned(self, problem: Any, run: Any) -> dict[str, Any]:
        return self.inner.learned(problem, run)


def starts_of(problem: wv.Problem, start: Any, replicates: int = 6) -> list[tuple[int, ...]]:
    recorder = Recorder()
    run(problem, recorder, draws=20, replicates=replicates, start=start)
    return recorder.starts


def test_starts(problem: wv.Problem) -> None:
    assert starts_of(problem, "null") == [()] * 6
    forward = starts_of(problem, "forward")
    assert len(set(forward)) == 1
    assert 0 in forward[0]
    for random in ("prior", "screening", "mixed", None):
        assert len(set(starts_of(problem, random))) > 1
    assert starts_of(problem, None) == starts_of(problem, "mixed")
    prior, screening, modes, mixed = (
        starts_of(problem, kind) for kind in ("prior", "screening", "modes", "mixed")
    )
    assert set(mixed[::2]) == set(modes)
    assert mixed[1::4] == screening[1::4]
    assert mixed[3::4] == prior[3::4]
    assert starts_of(problem, ["v2", "v0"]) == [(0, 2)] * 6
    assert starts_of(problem, [2, -1]) == [(2, 7)] * 6
    assert starts_of(problem, ("v2",)) == [(2,)] * 6
    assert starts_of(problem, []) == [()] * 6
    assert starts_of(problem, ["v1", "v1", 1]) == [(1,)] * 6
    assert starts_of(problem, [["v0"], [], ("v1", "v2")]) == [(0,), (), (1, 2)] * 2
    assert starts_of(problem, np.array([3, 4])) == [(3, 4)] * 6


@pytest.mark.parametrize("sampler", kinds_first())
@pytest.mark.parametrize(
    "start", ["null", "prior", "screening", "forward", "modes", "mixed", ["v7", "v6"], list(range(8))]
)
def test_every_sampler_starts_anywhere(problem: wv.Problem, sampler: str, start: Any) -> None:
    posterior = run(problem, SAMPLERS[sampler].settings, draws=400, replicates=2, start=start)
    assert 0 < posterior.pip.mean() < 1


@pytest.mark.parametrize("sampler", mainly(SAMPLERS, ["ads", "hybrid", "pt-rapa"]))
def test_a_start_without_mass_names_its_variables(sampler: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 4))
    X[:, 3] = 2 * X[:, 1]
    names = ["a", "b", "c", "twin"]
    with pytest.warns(wv.DataWarning, match="b = twin"):
        collinear = wv.Problem(X, rng.normal(size=20), slab=wv.GPrior(), names=names)
    settings = SAMPLERS[sampler].settings
    with pytest.raises(wv.DataError, match=r"'b', 'twin'.*collinear"):
        run(collinear, settings, start=["b", "twin"])
    bounded = wv.Problem(rng.normal(size=(20, 4)), rng.normal(size=20), names=list("abcd"), max_size=1)
    with pytest.raises(wv.DataError, match=r"'a', 'c'.*larger than allowed"):
        run(bounded, settings, start=["a", "c"])
    for kind in (
        "prior",
        "screening",
        "forward",
        "modes",
        "mixed",
    ):  # random starts find a model that has mass
        assert np.isfinite(run(collinear, settings, start=kind).pip).all()
        assert run(bounded, settings, start=kind).sizes[2:].sum() == 0


# --- interrupts


def test_interrupt_from_the_callback_keeps_what_was_counted(problem: wv.Problem) -> None:
    def stop(report: Report) -> None:
        if report.done > 0.001 * report.total:
            raise KeyboardInterrupt

    with pytest.warns(wv.ConvergenceWarning, match=r"interrupted after [\d,]+ "):
        posterior = run(problem, draws=10**9, warmup=1000, replicates=2, chunk=100_000, progress=stop)
    assert 0 < posterior.iterations < 2 * 10**9
    exact = wv.exact(problem)
    np.testing.assert_allclose(posterior.pip, exact.pip, atol=6 * np.nanmax(posterior.mcse))
    assert posterior.sizes.sum() == pytest.approx(1)


def test_interrupt_from_a_worker(problem: wv.Problem) -> None:
    with pytest.warns(wv.ConvergenceWarning, match="interrupted"):
        posterior = run(
            problem,
            Recorder(interrupt_at=15),
            draws=100_000,
            warmup=1000,
            replicates=3,
            chunk=1000,
            threads=2,
        )
    assert posterior.iterations < 3 * 101_000
    assert not posterior.warnings  # all three have counted


def test_replicates_interrupted_in_warmup_do_not_count(problem: wv.Problem) -> None:
    """One thread takes the replicates in turn: at the interrupt the first has counted, the last is warming up."""
    with pytest.warns(wv.ConvergenceWarning, match="interrupted"):
        posterior = run(
            problem, Recorder(interrupt_at=6), draws=1000, warmup=100, replicates=4, chunk=100, threads=1
        )
    assert posterior.frequencies is not None
    assert posterior.sizes @ np.arange(9) == pytest.approx(posterior.pip.sum())
    assert posterior.replicate_pips is not None
    assert posterior.replicate_pips.sum(axis=1).min() > 0
    assert len(posterior.replicate_pips) == 1
    assert posterior.warnings[0].startswith("the result uses only 1 of the 4 replicates asked for")
    assert "Note: the result uses only 1 of the 4 replicates" in posterior.explain()


def test_interrupt_before_anything_was_counted(problem: wv.Problem) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(problem, Recorder(interrupt_at=3), draws=1000, warmup=1000, chunk=100, threads=1)


def test_an_error_in_a_worker_comes_through(problem: wv.Problem) -> None:
    class Broken(Recorder):
        def advance(self, *args: Any) -> None:
            raise ZeroDivisionError("in a worker")

    with pytest.raises(ZeroDivisionError, match="in a worker"):
        run(problem, Broken(), threads=2)


# --- Monte Carlo errors


QUICKLY_HONEST: dict[str, tuple[()]] = {"ads": (), "hybrid-by-time": ()}


@pytest.mark.parametrize(
    "sampler",
    [
        pytest.param(
            s, marks=QUICKLY_HONEST.get(s, pytest.mark.rest if t.quick == "reduced" else pytest.mark.slow)
        )
        for s, t in SAMPLERS.items()
    ],
)
def test_reported_errors_are_honest(problem: wv.Problem, sampler: str) -> None:
    exact = wv.exact(problem)
    z = []
    for seed in range(40):
        found = run(problem, SAMPLERS[sampler].settings, draws=40_000, replicates=2, threads=1, seed=seed)
        z.append((found.pip - exact.pip) / found.mcse)
    share = np.mean(np.abs(z) < 2)
    assert 0.85 < share < 1


def test_combine_replicates() -> None:
    means = np.array(
        [[0.50, 0.1, 0.0, 0.2], [0.52, 0.9, 0.0, 0.2], [0.48, 0.1, 0.0, 0.2], [0.50, 0.9, 0.0, 0.7]]
    )
    variances = np.full((4, 4), 0.02**2)
    variances[:, 2] = 0.0  # never moved
    variances[:, 3] = 0.0  # moved in no replicate, but they differ
    pip, mcse = combine_replicates(means, variances, degrees=31)
    np.testing.assert_allclose(pip, [0.5, 0.5, 0.0, 0.325])
    assert mcse[0] == pytest.approx(0.02 / 2)  # they agree: within
    assert mcse[1] == pytest.approx(means[:, 1].std(ddof=1) / 2)  # they do not: between
    assert np.isnan(mcse[2])
    assert mcse[3] == pytest.approx(means[:, 3].std(ddof=1) / 2)
    pip, mcse = combine_replicates(means[:1], variances[:1], degrees=31)
    np.testing.assert_allclose(pip, means[0])
    np.testing.assert_allclose(mcse[:2], 0.02)


def test_cpu_seconds_do_not_include_compiling(problem: wv.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the package stops while anything is compiled; here it never goes."""
    for module in ("loop", "sample"):
        monkeypatch.setattr(importlib.import_module(f"whichvars.sampling.{module}"), "clock", lambda: 0.0)
    assert run(problem, wv.AddDeleteSwap(), threads=1).cpu_seconds == 0
