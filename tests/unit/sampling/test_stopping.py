"""What ``auto`` takes, and what ends a run: draws, an accuracy, a time budget."""

from __future__ import annotations

import types
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numba.core import event

import whichvars as wv
from unit.sampling.test_sample import Recorder, assert_same
from whichvars.posterior.posterior import Posterior
from whichvars.samplers.contract import begin_counting
from whichvars.sampling import compiling, workers
from whichvars.sampling import sample as sampling
from whichvars.sampling.advance import FIRST_STEPS, Pace, Spent, advance_for
from whichvars.sampling.choosing import choose
from whichvars.sampling.cluster import _compiling_elsewhere
from whichvars.sampling.compiling import KIND
from whichvars.sampling.executors import ThreadPool
from whichvars.sampling.loop import GROWTH, LEAST_DRAWS, Loop
from whichvars.sampling.sample import FIRST_CHECK


def a_problem(p: int, seed: int = 4, n: int = 60, common: float = 0.8, **options: Any) -> wv.Problem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + common * rng.normal(size=(n, 1))
    y = X[:, :4] @ [0.5, -0.4, 0.3, 0.2] + rng.normal(size=n)
    return wv.Problem(X, y, slab=wv.GPrior("n"), **{"model_prior": wv.FixedInclusion(h=0.3), **options})


def run(problem: wv.Problem, sampler: Any = "auto", **options: Any) -> Posterior:
    return wv.sample(problem, sampler, **{"seed": 2, "progress": False, **options})


# --- auto


def test_auto_enumerates_what_is_small() -> None:
    problem = a_problem(10)
    posterior = run(problem)
    assert not posterior.mcse.any()
    np.testing.assert_array_equal(posterior.pip, wv.exact(problem).pip)
    assert "1,024 models can be enumerated" in posterior.chosen
    assert "All 1,024 models were looked at" in posterior.explain()
    assert posterior.settings["draws"] is None


@pytest.mark.parametrize(
    ("p", "options", "enumerates"),
    [
        (20, {}, True),
        (21, {}, False),
        (40, {"max_size": 3}, True),  # 10,701 models
        (400, {"max_size": 3}, False),
    ],
)
def test_auto_by_the_number_of_models(p: int, options: dict[str, Any], enumerates: bool) -> None:
    chosen = choose(a_problem(p, **options), None, None)
    assert (chosen.sampler is None) == enumerates
    if not enumerates:
        assert isinstance(chosen.sampler, wv.Hybrid)
        assert f"{p} variables give more models than can be enumerated" in chosen.why


def test_auto_samples_when_draws_are_asked_for() -> None:
    problem = a_problem(10)
    posterior = run(problem, draws=5000)
    assert posterior.mcse.any()
    assert posterior.sampler.startswith("Hybrid(")
    assert "draws were asked for" in posterior.chosen
    assert posterior.chosen in " ".join(posterior.explain().split())
    assert_same(posterior, run(problem, wv.Hybrid(), draws=5000))


def test_a_longer_budget_allows_larger_enumerations() -> None:
    problem = a_problem(22)
    assert choose(problem, None, 1.0).sampler is not None
    assert choose(problem, None, 60.0).sampler is None
    assert choose(a_problem(25), None, 1e9).sampler is not None


def test_a_sampler_that_was_named_needs_no_reason() -> None:
    assert run(a_problem(8), wv.ASI(), draws=2000).chosen == ""


# --- target_mcse


def looks(most: int, chains: int) -> list[int]:
    """Draws of each chain at which accuracy is looked at."""
    out = [-(-FIRST_CHECK // chains)]
    while out[-1] < most:
        out.append(min(most, int(GROWTH * out[-1])))
    return out


@pytest.mark.parametrize("sampler", [wv.Hybrid(), wv.AddDeleteSwap(), wv.ASI(), wv.TemperedGibbs()], ids=lambda s: type(s).__name__)  # fmt: skip
def test_stops_when_it_is_accurate(sampler: Any) -> None:
    problem = a_problem(12)
    posterior = run(problem, sampler, target_mcse=0.01, replicates=4)
    assert posterior.stopped == "target_mcse"
    assert np.nanmax(posterior.mcse) <= 0.01
    each = posterior.iterations // (4 * sampler.chains) - sampling.ENOUGH_WARMUP // sampler.chains
    assert each in looks(sampling.DRAWS // sampler.chains, sampler.chains)
    assert each * sampler.chains < sampling.DRAWS / 4
    errors = np.abs(posterior.pip - wv.exact(problem).pip)
    assert errors.max() < 4.5 * 0.01


def test_a_stricter_target_takes_longer_and_repeats_exactly() -> None:
    problem = a_problem(12)
    options: dict[str, Any] = {"draws": 300_000, "warmup": 2000, "replicates": 3}
    first = run(problem, target_mcse=0.3, **options)
    target = 0.6 * float(np.nanmax(first.mcse))
    runs = [
        first,
        run(problem, target_mcse=target, **options),
        run(problem, target_mcse=target / 2, **options),
    ]
    counts = [posterior.iterations for posterior in runs]
    assert counts[0] == 3 * (FIRST_CHECK + 2000)  # the first look
    assert counts[0] < counts[1] < counts[2]
    for threads, chunk in [(1, None), (2, 777), (5, 100_000)]:
        assert_same(runs[1], run(problem, target_mcse=target, threads=threads, chunk=chunk, **options))
    # looking changes nothing: the same draws without a target are the same run
    draws = counts[1] // 3 - 2000
    assert_same(runs[1], run(problem, draws=draws, warmup=2000, replicates=3))


def test_draws_are_the_most() -> None:
    problem = a_problem(12)
    with pytest.warns(wv.ConvergenceWarning, match=r"ended \(draws\).*above target_mcse = 1e-05.*more draws"):
        posterior = run(problem, draws=30_000, warmup=1000, target_mcse=1e-5, replicates=2)
    assert posterior.stopped == "draws"
    assert posterior.iterations == 2 * 31_000


def test_fewer_draws_than_the_first_look() -> None:
    problem = a_problem(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", wv.ConvergenceWarning)
        posterior = run(problem, draws=15_000, target_mcse=0.05)
    assert posterior.stopped == "target_mcse"
    assert posterior.iterations == 4 * 16_500


def test_without_a_target_draws_end_the_run() -> None:
    assert run(a_problem(8), draws=2000).stopped == "draws"


# --- budget


ITERATION = 1 / 1024  # seconds on the clock of `Timed`: sums of them are exact


@dataclass(frozen=True)
class Timed(Recorder):
    """Add/delete/swap by a clock that is turned by hand: each iteration takes the same time. It compiles, for
    `compiling` seconds, when it is first advanced and whenever it begins to count."""

    now: list[float] = field(default_factory=lambda: [0.0])
    compiling: float = 0.0
    warm: dict[int, int] = field(default_factory=dict)  # iterations before counting began, by replicate
    ran: dict[int, int] = field(default_factory=dict)  # and in all
    runs: list[Any] = field(default_factory=list)

    def init(self, problem: Any, seed: Any, starts: Any) -> Any:
        self.runs.append(super().init(problem, seed, starts))
        return self.runs[-1]

    def compile(self) -> None:
        if self.compiling:
            with event.trigger_event(KIND):
                self.now[0] += self.compiling

    def advance(self, problem: Any, run: Any, unit: int, iterations: int) -> None:
        if not self.ran:
            self.compile()
        super().advance(problem, run, unit, iterations)
        self.now[0] += ITERATION * iterations
        index = [run is other for other in self.runs].index(True)
        self.ran[index] = self.ran.get(index, 0) + iterations

    def begin_counting(self, problem: Any, run: Any) -> None:
        self.compile()
        self.warm[[run is other for other in self.runs].index(True)] = run.iterations
        begin_counting(problem, run, rao_blackwell=True)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes samplers by whose clock everything goes."""
    now = [0.0]
    monkeypatch.setattr(compiling.time, "monotonic", lambda: now[0])
    return lambda **options: Timed(now=now, **options)


def spend(sampler: Any, budget: Any, **options: Any) -> Posterior:
    """A run on one thread, without a word on its errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        return run(a_problem(8), sampler, **{"budget": budget, "threads": 1, "chunk": 100, **options})


@pytest.mark.parametrize("replicates", [1, 4])
def test_a_budget_ends_the_run(timed: Any, replicates: int) -> None:
    sampler = timed()
    posterior = spend(sampler, "20s", replicates=replicates)
    assert posterior.stopped == "budget"
    assert posterior.settings["budget"] == "20s"
    assert 20 * 1024 <= posterior.iterations < 20 * 1024 + 100  # within a chunk
    assert posterior.iterations == sum(sampler.ran.values())
    assert posterior.sizes.sum() == pytest.approx(1)
    assert "the time was up" in posterior.explain()
    assert not posterior.warnings


def test_replicates_have_equal_shares_of_a_budget(timed: Any) -> None:
    """On one thread each of four has a quarter of the time, and a fifth of that for its warm-up."""
    sampler = timed()
    posterior = spend(sampler, 20, warmup=10**9)
    assert len(posterior.replicate_pips) == 4  # type: ignore[arg-type]
    for index in range(4):
        assert 1024 <= sampler.warm[index] < 1124
        assert abs(sampler.ran[index] - 5 * 1024) <= 100


def test_compiling_is_no_part_of_a_budget(timed: Any) -> None:
    """Nor of the share of it that warm-up has."""
    first, other = timed(), timed(compiling=3600.0)
    without, posterior = (spend(sampler, 20, warmup=10**9) for sampler in (first, other))
    assert other.now[0] > 5 * 3600  # it did compile, five times
    assert first.warm == other.warm
    # the last chunk may go to any of those that have had as much time
    assert sum(first.ran.values()) == sum(other.ran.values()) == without.iterations == posterior.iterations
    assert all(abs(first.ran[i] - other.ran[i]) <= 100 for i in first.ran)


def test_compiling_elsewhere_is_no_part_of_a_budget_either(timed: Any) -> None:
    """As the one worker of a cluster does before its first round."""
    sampler = timed()

    class Elsewhere(ThreadPool):
        def advance(self, index: int, run: Any, end: int, seconds: float | None) -> Spent:
            away = 0.0 if sampler.ran else 3600.0
            sampler.now[0] += away
            return Spent(super().advance(index, run, end, seconds).cpu_seconds, away)

    class Executor:
        def start(self, *what: Any) -> Any:
            return Elsewhere(1, *what)

    posterior = spend(sampler, 20, warmup=10**9, threads=None, executor=Executor())
    assert posterior.stopped == "budget"
    assert 20 * 1024 <= posterior.iterations < 20 * 1024 + 100
    for index in range(4):
        assert 1024 <= sampler.warm[index] < 1124


def test_workers_compile_at_the_same_time(timed: Any) -> None:
    """So that the slowest of them is what goes by."""
    now = timed().now
    loop: Any = types.SimpleNamespace(started=compiling.clock(), compiling_elsewhere=[3600.0, 3599.0, 0.0])
    now[0] += 3605.0
    assert Loop.spent(loop) == 5.0


def test_the_draws_that_errors_need_are_always_made(timed: Any) -> None:
    sampler = timed()
    with pytest.warns(
        wv.ConvergenceWarning, match=r"budget of 0\.5 seconds is too small.* 2\.5 seconds longer"
    ):
        posterior = run(a_problem(8), sampler, budget=0.5, threads=1, chunk=64)
    assert posterior.stopped == "budget"
    assert sampler.warm == dict.fromkeys(range(4), LEAST_DRAWS // 2)
    assert sampler.ran == dict.fromkeys(range(4), LEAST_DRAWS // 2 + LEAST_DRAWS)
    assert np.isfinite(posterior.mcse).all()
    assert "Note: the budget of 0.5 seconds is too small" in posterior.explain()


def test_no_more_draws_than_were_asked_for(timed: Any) -> None:
    sampler = timed()
    posterior = spend(sampler, 0.01, draws=100, warmup=20)
    assert posterior.stopped == "draws"
    assert sampler.ran == dict.fromkeys(range(4), 120)
    assert "is too small" in posterior.warnings[0]


def test_a_late_run_may_be_accurate(timed: Any) -> None:
    """The target is looked at once the draws for the first look are there."""
    sampler = timed()
    posterior = spend(sampler, 0.01, draws=300, warmup=20, target_mcse=0.9)
    assert posterior.stopped == "target_mcse"
    assert spend(timed(), 0.01, warmup=20, target_mcse=1e-9).stopped == "budget"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sampler", ["auto", wv.AddDeleteSwap(), wv.PARNI(), wv.TemperedGibbs()], ids=str)
def test_a_budget_that_is_over_at_once_still_answers(sampler: Any, threads: int) -> None:
    """By the clock on the wall."""
    problem = a_problem(24)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        posterior = run(problem, sampler, budget=1e-6, threads=threads)
    assert posterior.stopped == "budget"
    assert posterior.replicate_pips is not None
    assert len(posterior.replicate_pips) == 4
    assert np.isfinite(posterior.mcse).all()
    assert "the budget of 1e-06 seconds is too small" in posterior.explain()


def test_a_chunk_is_no_longer_than_the_time_that_is_left() -> None:
    pace = Pace(None)
    assert pace.within(None) == 1000
    assert pace.within(0.5) == FIRST_STEPS  # how long they take is not known yet
    pace.note(FIRST_STEPS, cpu=0.001, wall=0.01)
    assert pace.steps == 2 * FIRST_STEPS
    assert pace.within(0.01) == FIRST_STEPS
    assert pace.within(1.0) == 2 * FIRST_STEPS
    assert pace.within(-1.0) == 1
    assert Pace(70).within(1e-9) == 70


def test_a_worker_has_its_seconds_for_sampling(timed: Any) -> None:
    problem = a_problem(8)
    iterations = []
    for sampler in (timed(), timed(compiling=3600.0)):
        state = sampler.init(problem, np.random.SeedSequence(1), [np.zeros(0, np.int64)])
        advance_for(problem, sampler, state, 10**9, 2.0, Pace(100))
        iterations.append(state.iterations)
    assert iterations == [2100, 2100]  # 2,048, in chunks


def test_a_worker_says_how_long_it_compiled(timed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, sampler = a_problem(8), timed(compiling=3600.0)
    monkeypatch.setattr(workers, "address_of_worker", lambda: "here")
    monkeypatch.setattr(workers, "_states", {})
    state = sampler.init(problem, np.random.SeedSequence(1), [np.zeros(0, np.int64)])
    kept = workers.WorkerState(problem, sampler, 100)
    kept.hold((0,), state)
    answer = workers.run_round(workers.Request("token", (0,), (0, 0), None, 10**9, 2.0), kept)
    assert answer.wall_seconds == pytest.approx(2100 * ITERATION)
    assert answer.compiling == pytest.approx(3600.0)
    # a worker in another process; one in this process moves the clock here, which has left it out
    assert _compiling_elsewhere(answer._replace(process="another")) == answer.compiling
    assert _compiling_elsewhere(answer) == 0.0


def test_draws_before_the_budget_is_over() -> None:
    problem = a_problem(8)
    posterior = run(problem, draws=2000, budget="1h")
    assert posterior.stopped == "draws"
    assert_same(posterior, run(problem, draws=2000, warmup=200))


def test_the_target_before_the_budget_is_over() -> None:
    posterior = run(a_problem(24), wv.Hybrid(), budget="1h", target_mcse=0.02, warmup=2000)
    assert posterior.stopped == "target_mcse"


# --- arguments


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"target_mcse": 0}, wv.DataError, "target_mcse must be a number between 0 and 1"),
        ({"target_mcse": 1.5}, wv.DataError, "target_mcse"),
        ({"target_mcse": -0.01}, wv.DataError, "target_mcse"),
        ({"target_mcse": float("nan")}, wv.DataError, "target_mcse"),
        ({"target_mcse": "abc"}, wv.DataError, "'abc'"),
        ({"target_mcse": True}, wv.DataError, "target_mcse"),
        ({"budget": "5"}, wv.DataError, "no unit"),
        ({"budget": "soon"}, wv.WhichvarsError, "soon"),
        ({"budget": -3}, wv.WhichvarsError, "budget"),
        ({"budget": 0}, wv.WhichvarsError, "budget"),
        ({"budget": [1]}, wv.WhichvarsError, "budget"),
        ({"replicates": 0}, wv.DataError, "replicates must be at least 1"),
        ({"warmup": "x"}, wv.ArgumentTypeError, "warmup must be a whole number"),
        ({"threads": 0}, wv.DataError, "threads must be at least 1"),
        ({"sampler": wv.Hybrid}, wv.ArgumentTypeError, "did you mean Hybrid()?"),
        ({"sampler": wv.ASI}, wv.ArgumentTypeError, "did you mean ASI()?"),
        ({"sampler": "hybrid"}, wv.ArgumentTypeError, "'hybrid'"),
    ],
    ids=lambda value: "=".join(map(str, *value.items())) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("p", [8, 24])
def test_bad_arguments(p: int, options: dict[str, Any], error: type, says: str) -> None:
    """Whether or not auto would need them."""
    with pytest.raises(error) as caught:
        run(a_problem(p), **options)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: wv.ASI(chains=0),
        lambda: wv.ASI(target=0),
        lambda: wv.ASI(decay=0.5),
        lambda: wv.ASI(adapt="never"),
        lambda: wv.PARNI(chains=2.5),
        lambda: wv.PARNI(target=1),
        lambda: wv.TemperedGibbs(floor=0),
        lambda: wv.TemperedGibbs(draw_every=-1),
        lambda: wv.TemperedGibbs(chains=True),
        lambda: wv.Hybrid(draw_rate=0),
        lambda: wv.Hybrid(floor="5"),
        lambda: wv.Hybrid(chains=0),
    ],
)
def test_bad_settings(make: Any) -> None:
    with pytest.raises(wv.WhichvarsError, match=r"^(ASI|PARNI|TemperedGibbs|Hybrid): "):
        make()


# --- is it honoured?


@pytest.mark.slow
def test_the_target_is_honoured() -> None:
    """On ten problems the largest actual error is below four times the target in at least nine."""
    good = 0
    for seed in range(10):
        problem = a_problem(
            10 + seed % 9,
            seed,
            n=25 + 15 * (seed % 4),
            common=[0.3, 1.0, 3.0][seed % 3],
            model_prior=[wv.FixedInclusion(h=0.3), wv.BetaBinomial(a=1.0, b=2.0)][seed % 2],
        )
        posterior = run(problem, draws=2_000_000, target_mcse=0.01, seed=seed)
        assert posterior.stopped == "target_mcse"
        good += bool(np.abs(posterior.pip - wv.exact(problem).pip).max() < 0.04)
    assert good >= 9


def test_fits_of_large_models_are_known_to_take_longer() -> None:
    """A file of 150 rows with 15 variables of two columns each: fitting all 32,768 models takes a quarter of a minute, as most have many
    columns for their rows; with formulas alone it takes two seconds."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 30)), rng.integers(2, size=150)
    groups = [f"g{j // 2}" for j in range(30)]
    slow = wv.Problem(X, y, family="logistic", groups=groups)
    assert choose(slow, None, None).sampler is not None
    assert choose(slow, None, 60.0).sampler is None
    quick = wv.Problem(X, y, family="logistic", groups=groups, evidence="laplace")
    assert choose(quick, None, None).sampler is None
