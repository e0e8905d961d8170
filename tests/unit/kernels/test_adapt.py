"""What individual adaptation learns: the paper's equations in plain numpy, bounds, starting values, learning together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import whichvars as wv
from support.cases import Case, data, priors, problem, truth
from whichvars._kernels.chain import ADDED, DELETED
from whichvars._kernels.jit import entry
from whichvars._kernels.propose.adapt import (
    ADD,
    ADD_LOGIT,
    DELETE,
    DELETE_LOGIT,
    LARGEST_LOGIT,
    TOUCHED,
    Adaptation,
    add_to_logits,
    merge_adaptations,
    new_adaptation,
    new_shared,
)
from whichvars._kernels.propose.bernoulli import new_buckets
from whichvars.samplers.contract import Run
from whichvars.sampling.advance import advance_run


@entry
def nudge_all(adaptation, variables, add_steps, delete_steps):
    for i in range(variables.shape[0]):
        add_to_logits(adaptation, variables[i], add_steps[i], delete_steps[i])


@entry
def nudge_forever(adaptation, times, up, down, runs):
    """Nudge variable 0 by `up` `runs` times, then by `down` `runs` times, and so on; the extremes of A and D."""
    values = adaptation.values
    low, high = 1.0, 0.0
    for i in range(times):
        step = up if (i // runs) % 2 == 0 else down
        add_to_logits(adaptation, 0, step, -step)
        for kind in range(2):
            low = min(low, values[0, kind])
            high = max(high, values[0, kind])
    return low, high


def logit(x: np.ndarray, epsilon: float) -> np.ndarray:
    return np.log(x - epsilon) - np.log(1 - x - epsilon)


def inverse(logits: np.ndarray, epsilon: float) -> np.ndarray:
    return epsilon + (1 - 2 * epsilon) / (1 + np.exp(-logits))


def first_run(sampler: Any, target: wv.Problem, start: list[int], seed: int = 0) -> Run:
    return sampler.init(
        target, np.random.SeedSequence(seed, spawn_key=(0,)), [np.array(start, np.int64)] * sampler.chains
    )


def start_of(sampler: Any, target: wv.Problem) -> Adaptation:
    return first_run(sampler, target, []).units[0].own[0]


# --- the equations


@pytest.mark.parametrize(
    ("case", "settings"),
    [
        (Case("plain", "g", "fixed"), {"w": 0.0}),
        (Case("plain", "g", "fixed"), {"w": 0.5}),
        (Case("plain", "independent", "beta-binomial"), {"w": 0.5, "phi0": 10.0, "decay": 1.0}),
        (Case("plain", "hyper-g", "per-variable"), {"w": 1.0, "tau": 0.25, "epsilon": 0.02}),
        (Case("plain", "g", "max-size"), {"w": 0.5, "nu": 4.0}),  # with proposals that have no mass
        (Case("plain", "g", "fixed"), {"w": 0.5, "additions": "coins"}),
        (Case("plain", "g", "fixed"), {"w": 0.5, "freeze_after": 200}),
        (Case("plain", "g", "fixed"), {"w": 0.5, "freeze_after": 0}),
    ],
    ids=["IA", "RAPA", "phi0=10", "w=1", "max-size", "coins", "frozen", "frozen-from-the-start"],
)
def test_updates_are_the_papers(case: Case, settings: dict[str, Any]) -> None:
    sampler = wv.IndividualAdaptation(**settings)
    target, exact = problem(case), truth(case)
    log_posterior = exact.log_marginals + exact.log_priors
    run = first_run(sampler, target, [0, 1])
    (unit,) = run.units
    adaptation = unit.own[0]
    p, epsilon = target.p, adaptation.epsilon
    w, tau = sampler.w, sampler.tau
    mirror = adaptation.values[:, ADD_LOGIT:].copy()  # follows the equations on its own
    seen = {"nothing": 0, "accepted": 0, "rejected": 0, "no mass": 0, "both ways": 0}

    for i in range(1, 601):
        before, state = adaptation.values.copy(), unit.chain.position >= 0
        sampler.advance(target, run, 0, 1)
        after, new_state = adaptation.values, unit.chain.position >= 0
        added = unit.chain.added[: unit.chain.ints[ADDED]].copy()
        deleted = unit.chain.deleted[: unit.chain.ints[DELETED]].copy()
        if len(added) + len(deleted) == 0:
            seen["nothing"] += 1
            np.testing.assert_array_equal(after, before)
            np.testing.assert_array_equal(new_state, state)
            continue
        assert not state[added].any()
        assert state[deleted].all()
        proposed = state.copy()
        proposed[added], proposed[deleted] = True, False
        assert np.array_equal(new_state, proposed) or np.array_equal(new_state, state)
        seen["accepted" if np.array_equal(new_state, proposed) else "rejected"] += 1
        seen["both ways"] += len(added) > 0 and len(deleted) > 0

        A, D = before[:, ADD], before[:, DELETE]
        here, there = (int(s @ (1 << np.arange(p))) for s in (state, proposed))
        log_ratio = (
            log_posterior[there] - log_posterior[here]
            + np.log(D[added] / A[added]).sum() + np.log(A[deleted] / D[deleted]).sum()
        )  # fmt: skip
        seen["no mass"] += log_ratio == -np.inf
        a, reverse = np.exp(min(log_ratio, 0.0)), np.exp(min(-log_ratio, 0.0))
        if a == 1:
            assert np.array_equal(new_state, proposed)
        if a == 0:
            assert np.array_equal(new_state, state)
        phi = sampler.phi0 * i**-sampler.decay
        if sampler.freeze_after is not None and i > sampler.freeze_after:
            phi = 0.0
        forward, backward = phi * (a - tau) * (1 - w * a), phi * (reverse - tau) * w * a
        step = np.zeros((p, 2))
        step[added] = forward, backward
        step[deleted] = backward, forward
        np.testing.assert_allclose(
            after[:, ADD_LOGIT:], before[:, ADD_LOGIT:] + step, rtol=0, atol=1e-12 * sampler.phi0
        )
        np.testing.assert_allclose(after[:, ADD], inverse(after[:, ADD_LOGIT], epsilon), rtol=1e-14)
        np.testing.assert_allclose(after[:, DELETE], inverse(after[:, DELETE_LOGIT], epsilon), rtol=1e-14)
        unchanged = np.setdiff1d(np.arange(p), np.concatenate([added, deleted]))
        np.testing.assert_array_equal(after[unchanged], before[unchanged])
        mirror += step
    np.testing.assert_allclose(adaptation.values[:, ADD_LOGIT:], mirror, rtol=0, atol=1e-9)
    assert min(seen["nothing"], seen["accepted"], seen["rejected"], seen["both ways"]) > 5, seen
    assert (seen["no mass"] > 0) == (case.prior == "max-size")
    np.testing.assert_array_equal(adaptation.buckets.bucket, new_buckets(adaptation.values[:, ADD]).bucket)


def test_without_reverse_acceptance_only_one_of_the_two_learns() -> None:
    sampler, target = wv.IndividualAdaptation(w=0.0), problem(Case("plain", "g", "fixed"))
    run = first_run(sampler, target, [])
    (unit,) = run.units
    values = unit.own[0].values
    for _ in range(200):
        before = values.copy()
        sampler.advance(target, run, 0, 1)
        deleted = unit.chain.deleted[: unit.chain.ints[DELETED]]
        added = unit.chain.added[: unit.chain.ints[ADDED]]
        np.testing.assert_array_equal(values[added, DELETE], before[added, DELETE])
        np.testing.assert_array_equal(values[deleted, ADD], before[deleted, ADD])


def test_frozen_means_frozen() -> None:
    target = problem(Case("plain", "g", "fixed"))
    sampler = wv.IndividualAdaptation(freeze_after=300)
    run = first_run(sampler, target, [])
    sampler.advance(target, run, 0, 299)
    early = run.units[0].own[0].values.copy()
    sampler.advance(target, run, 0, 2)
    at_freezing = run.units[0].own[0].values.copy()
    sampler.advance(target, run, 0, 5000)
    np.testing.assert_array_equal(run.units[0].own[0].values, at_freezing)
    free = wv.IndividualAdaptation()
    other = first_run(free, target, [])
    free.advance(target, other, 0, 299)
    np.testing.assert_array_equal(
        other.units[0].own[0].values, early
    )  # freezing later changes nothing before
    free.advance(target, other, 0, 5002)
    assert not np.array_equal(other.units[0].own[0].values, at_freezing)


# --- bounds


def assert_inside(adaptation: Adaptation) -> None:
    epsilon = adaptation.epsilon
    for kind in (ADD, DELETE):
        assert np.all(adaptation.values[:, kind] > epsilon)
        assert np.all(adaptation.values[:, kind] < 1 - epsilon)
    assert np.all(np.isfinite(adaptation.values))
    assert np.all(np.abs(adaptation.values[:, ADD_LOGIT:]) <= LARGEST_LOGIT)


@pytest.mark.parametrize("millions", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_bounds_after_millions_of_updates(millions: int) -> None:
    epsilon, times = 1e-7, millions * 1_000_000
    for share, up, down, runs in [
        (0.8, 0.55, -0.45, 1),  # up and down with a drift: ends at a bound and stays there
        (0.1, 1e-3, -1e-3, 100_000),  # from bound to bound
        (0.1, 50.0, -70.0, 3),
        (0.01, 1e300, -1e300, 1),
        (0.01, -np.inf, np.inf, 2),
    ]:
        adaptation = new_adaptation(np.full(1, 1e-3), np.full(1, 0.3), epsilon, False)
        low, high = nudge_forever(adaptation, int(share * times), up, down, runs)
        assert epsilon < low < high < 1 - epsilon
        assert_inside(adaptation)
        assert adaptation.buckets.bucket[0] == new_buckets(adaptation.values[:, ADD]).bucket[0]


@pytest.mark.parametrize("epsilon", [1e-300, 1e-15, 1e-8, 1e-3, 0.1, 0.4, 0.49])
def test_bounds_for_any_epsilon(epsilon: float) -> None:
    p = 20
    rng = np.random.default_rng(0)
    adaptation = new_adaptation(np.full(p, 0.5), np.full(p, 0.5), epsilon, False)
    for scale in (0.1, 10.0, 1e5, 1e300):
        nudge_all(adaptation, rng.integers(0, p, 1000), *(scale * rng.normal(size=(2, 1000))))
        assert_inside(adaptation)


@pytest.mark.parametrize("phi0", [1.0, 1000.0])
def test_bounds_in_a_run(phi0: float) -> None:
    target = problem(Case("plain", "g", "fixed"))
    sampler = wv.IndividualAdaptation(phi0=phi0, chains=3, merge_every=20)
    run = first_run(sampler, target, [])
    for _ in range(40):
        advance_run(target, sampler, run, 100, None, 1)
        for unit in run.units:
            assert_inside(unit.own[0])


# --- starting values


@pytest.mark.parametrize(
    "prior", ["fixed", "per-variable", "beta-binomial", "max-size", "beta-binomial-max-size"]
)
@pytest.mark.parametrize("nu", [0.25, 1.0, 1.5])
def test_starting_values(prior: str, nu: float) -> None:
    case = Case("plain", "g", prior)
    target, p = problem(case), data("plain").p
    exact = truth(case, temper=0.0)  # the prior itself, by enumeration
    h = exact.pips.mean()
    adaptation = start_of(wv.IndividualAdaptation(nu=nu), target)
    epsilon = 0.1 / p
    assert adaptation.epsilon == epsilon
    top = 1 - epsilon - 0.01 * (0.5 - epsilon)
    np.testing.assert_allclose(adaptation.values[:, ADD], min(nu / ((1 - h) * p), top), rtol=1e-10)
    np.testing.assert_allclose(adaptation.values[:, DELETE], min(nu / (h * p), top), rtol=1e-10)
    np.testing.assert_allclose(
        adaptation.values[:, ADD_LOGIT], logit(adaptation.values[:, ADD], epsilon), rtol=1e-12
    )
    np.testing.assert_allclose(
        adaptation.values[:, DELETE_LOGIT], logit(adaptation.values[:, DELETE], epsilon), rtol=1e-12
    )


def test_starting_values_in_the_plain_words_of_the_paper() -> None:
    model_prior, _, _ = priors(7)["per-variable"]
    mean = np.mean(model_prior.h)
    a = start_of(wv.IndividualAdaptation(), problem(Case("plain", "g", "per-variable")))
    np.testing.assert_allclose(a.values[:, ADD], 1 / ((1 - mean) * 7), rtol=1e-12)
    np.testing.assert_allclose(a.values[:, DELETE], 1 / (mean * 7), rtol=1e-12)
    b = start_of(wv.IndividualAdaptation(), problem(Case("plain", "g", "beta-binomial")))  # mean 1/3
    np.testing.assert_allclose(b.values[:, ADD], 1.5 / 7, rtol=1e-12)
    np.testing.assert_allclose(b.values[:, DELETE], 3 / 7, rtol=1e-12)


@pytest.mark.parametrize("nu", [1e-300, 1e-3, 1e3, 1e300])
@pytest.mark.parametrize("epsilon", [None, 1e-300, 1e-12, 0.3, 0.49])
def test_starting_values_are_clipped(nu: float, epsilon: float | None) -> None:
    for case in (Case("plain", "g", "fixed"), Case("three", "g", "max-size")):
        adaptation = start_of(wv.IndividualAdaptation(nu=nu, epsilon=epsilon), problem(case))
        assert_inside(adaptation)
        if nu > 1:
            assert np.all(adaptation.values[:, [ADD, DELETE]] > 0.5)
        else:
            assert np.all(adaptation.values[:, [ADD, DELETE]] < 0.5)


def test_starting_values_where_the_prior_is_nearly_sure() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 4)), rng.normal(size=20)
    for h in (1e-12, 1 - 1e-12):
        target = wv.Problem(X, y, model_prior=wv.FixedInclusion(h=h))
        assert_inside(start_of(wv.IndividualAdaptation(), target))
        wv.sample(target, wv.IndividualAdaptation(), draws=500, replicates=2, progress=False)


# --- learning together


def several(chains: int, p: int, rng: np.random.Generator, epsilon: float = 1e-3) -> list[Adaptation]:
    add, delete = rng.uniform(0.1, 0.9, (2, p))
    return [new_adaptation(add, delete, epsilon, True) for _ in range(chains)]


@pytest.mark.parametrize("chains", [2, 5, 25])
def test_merging_adds_up_increments_in_chain_order(chains: int) -> None:
    p, rng = 30, np.random.default_rng(chains)
    adaptations = several(chains, p, rng)
    shared = new_shared(adaptations[0])
    common = adaptations[0].values[:, ADD_LOGIT:].copy()
    for _ in range(10):  # barriers
        first = adaptations[0].values.copy()
        for adaptation in adaptations:
            some = rng.integers(0, p, 8)
            nudge_all(adaptation, some, *rng.normal(scale=0.3, size=(2, 8)))
            assert set(adaptation.touched[: adaptation.ints[TOUCHED]].tolist()) == set(some.tolist())
        ever = np.zeros(p, bool)
        total = np.zeros((p, 2))
        for adaptation in adaptations:  # chain order
            total += adaptation.values[:, ADD_LOGIT:] - common
            ever |= adaptation.is_touched
        merge_adaptations(shared, adaptations)
        common = np.clip(common + total, -LARGEST_LOGIT, LARGEST_LOGIT)
        for adaptation in adaptations:
            np.testing.assert_array_equal(adaptation.values[:, ADD_LOGIT:][ever], common[ever])
            np.testing.assert_array_equal(adaptation.values[~ever], first[~ever])
            np.testing.assert_allclose(adaptation.values[:, ADD], inverse(common[:, 0], 1e-3), rtol=1e-13)
            np.testing.assert_allclose(adaptation.values[:, DELETE], inverse(common[:, 1], 1e-3), rtol=1e-13)
            np.testing.assert_array_equal(
                adaptation.buckets.bucket, new_buckets(adaptation.values[:, ADD]).bucket
            )
            assert adaptation.ints[TOUCHED] == 0
            assert not adaptation.is_touched.any()
        np.testing.assert_array_equal(shared.add_logit[ever], common[ever, 0])
        np.testing.assert_array_equal(shared.delete_logit[ever], common[ever, 1])
        assert shared.ints[TOUCHED] == 0
        assert not shared.is_touched.any()
        assert not shared.add_sum.any()
        assert not shared.delete_sum.any()


def test_merging_again_changes_nothing() -> None:
    rng = np.random.default_rng(9)
    adaptations = several(4, 12, rng)
    shared = new_shared(adaptations[0])
    start = adaptations[0].values.copy()
    merge_adaptations(shared, adaptations)
    for adaptation in adaptations:
        np.testing.assert_array_equal(adaptation.values, start)
    for adaptation in adaptations:
        nudge_all(adaptation, rng.integers(0, 12, 5), *rng.normal(size=(2, 5)))
    merge_adaptations(shared, adaptations)
    merged = adaptations[0].values.copy()
    merge_adaptations(shared, adaptations)
    for adaptation in adaptations:
        np.testing.assert_array_equal(adaptation.values, merged)


def test_merging_stays_inside_the_bounds() -> None:
    rng = np.random.default_rng(2)
    adaptations = several(25, 6, rng)
    shared = new_shared(adaptations[0])
    for _ in range(5):
        for adaptation in adaptations:
            nudge_all(adaptation, np.arange(6), np.full(6, 20.0), np.full(6, -20.0))
        merge_adaptations(shared, adaptations)
        for adaptation in adaptations:
            assert_inside(adaptation)


def learned(posterior: Any) -> list[np.ndarray]:
    out = [posterior.pip, posterior.sizes, posterior.models.frequency]
    for report in posterior.adaptation:
        out += [np.asarray(value) for value in report.values()]
    return out


def assert_same_numbers(a: Any, b: Any) -> None:
    assert a.models.members == b.models.members
    for x, y in zip(learned(a), learned(b), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("merge_every", [1, 10, 1000])
@pytest.mark.parametrize("chains", [1, 5, 25])
def test_threads_and_chunks_change_nothing(chains: int, merge_every: int) -> None:
    target = problem(Case("plain", "g", "fixed"))
    sampler = wv.IndividualAdaptation(chains=chains, merge_every=merge_every)
    draws = chains * (1100 if merge_every == 1000 and chains < 25 else 60)

    def run(threads: int, chunk: int | None) -> Any:
        return wv.sample(
            target, sampler, draws=draws, warmup=chains * 15, replicates=2, threads=threads, chunk=chunk, seed=4,
            progress=False,
        )  # fmt: skip

    first = run(1, 1000)
    settings = [(2, 7), (5, None)]
    if draws <= 1500:
        settings += [(5, 1)]
    for threads, chunk in settings:
        assert_same_numbers(run(threads, chunk), first)


def test_one_chain_merges_with_nobody() -> None:
    target = problem(Case("plain", "g", "fixed"))
    results = [
        wv.sample(target, wv.IndividualAdaptation(chains=1, merge_every=m), draws=500, seed=1, progress=False)
        for m in (1, 10, 1000)
    ]
    assert_same_numbers(results[1], results[0])
    assert_same_numbers(results[2], results[0])


def test_chains_keep_their_models_and_share_what_they_learn() -> None:
    target = problem(Case("plain", "g", "fixed"))
    sampler = wv.IndividualAdaptation(chains=5, merge_every=10, phi0=0.5)
    run = first_run(sampler, target, [])
    different, apart, pairs = 0, 0, 0
    for _ in range(60):
        assert run.barrier is not None
        assert 1 <= run.barrier - run.iterations <= 10
        alone = run.barrier - run.iterations - 1
        advance_run(target, sampler, run, alone, None, 1)
        values = [unit.own[0].values for unit in run.units]
        apart += not np.array_equal(values[0], values[1])  # before the barrier each has its own
        advance_run(target, sampler, run, 1, None, 1)
        for other in values[1:]:
            np.testing.assert_array_equal(other, values[0])
        states = {tuple(np.flatnonzero(unit.chain.position >= 0).tolist()) for unit in run.units}
        different += len(states) > 1
        pairs += 1
    assert different > 0.8 * pairs
    assert apart > 0.5 * pairs
    arrays = [unit.own[0].values for unit in run.units] + [unit.chain.position for unit in run.units]
    for i, a in enumerate(arrays):
        assert not any(np.shares_memory(a, b) for b in arrays[i + 1 :])


def test_several_chains_in_plain_numpy() -> None:
    """A whole round of MCA: each chain by itself from the common values, then the sum."""
    target = problem(Case("plain", "independent", "fixed"))
    together = wv.IndividualAdaptation(chains=3, merge_every=25)
    run = first_run(together, target, [1, 2])
    start = run.units[0].own[0].values[:, ADD_LOGIT:].copy()
    for unit in range(3):
        together.advance(target, run, unit, 25)
    increments = [unit.own[0].values[:, ADD_LOGIT:] - start for unit in run.units]
    together.merge(target, run)
    for unit in run.units:
        np.testing.assert_allclose(
            unit.own[0].values[:, ADD_LOGIT:], start + sum(increments), rtol=0, atol=1e-13
        )


# --- settings


@pytest.mark.parametrize(
    "settings",
    [
        {"tau": 0.0}, {"tau": 1.0}, {"w": -0.1}, {"w": 1.1}, {"nu": 0.0}, {"phi0": 0.0}, {"decay": 0.5}, {"decay": 1.1},
        {"epsilon": 0.0}, {"epsilon": 0.5}, {"chains": 0}, {"chains": 2.0}, {"merge_every": 0}, {"freeze_after": -1},
        {"additions": "dice"}, {"nu": float("nan")}, {"phi0": float("inf")},
    ],
    ids=str,
)  # fmt: skip
def test_impossible_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(wv.DataError):
        wv.IndividualAdaptation(**settings)
