"""What ``auto`` takes, and what ends a run: draws, an accuracy, a time budget."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import whichvars as wv
from unit.test_sampling import assert_same
from whichvars import sampling
from whichvars.choosing import choose
from whichvars.posterior import Posterior
from whichvars.sampling import FIRST_CHECK, GROWTH


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
    assert "1,024 models are few enough" in posterior.chosen
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
        assert f"{p} variables make too many models" in chosen.why


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


@pytest.mark.parametrize("sampler", ["auto", wv.AddDeleteSwap(), wv.PARNI()], ids=str)
def test_a_budget_ends_the_run(sampler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that counts its looks: as if every look took 10 ms."""
    problem, ticks = a_problem(24), iter(range(10**9))
    monkeypatch.setattr("whichvars.sampling.time.monotonic", lambda: 0.01 * next(ticks))
    posterior = run(problem, sampler, budget="3s", replicates=2, threads=1, chunk=500)
    assert posterior.stopped == "budget"
    assert next(ticks) < 400  # within a chunk or two
    assert posterior.settings["budget"] == "3s"
    assert np.isfinite(posterior.pip).all()
    assert posterior.sizes.sum() == pytest.approx(1)
    assert len(posterior.replicate_pips) == 2  # type: ignore[arg-type]
    assert "the time was up" in posterior.explain()


def test_warmup_takes_a_fifth_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, ticks = a_problem(24), iter(range(10**9))
    monkeypatch.setattr("whichvars.sampling.time.monotonic", lambda: 0.01 * next(ticks))
    began: list[float] = []
    real = sampling._Loop._begin_counting

    def note(self: Any, index: int) -> None:
        began.append(0.01 * next(ticks))
        real(self, index)

    monkeypatch.setattr(sampling._Loop, "_begin_counting", note)
    run(problem, wv.AddDeleteSwap(), budget=4, replicates=2, threads=1, chunk=100, warmup=10**9)
    assert len(began) == 2
    assert all(0.7 < at < 1.2 for at in began)


def test_a_budget_that_is_over_at_once_still_answers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        posterior = run(a_problem(24), wv.AddDeleteSwap(), budget=1e-6, replicates=2, threads=2)
    assert posterior.stopped == "budget"
    assert np.isfinite(posterior.pip).all()


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
