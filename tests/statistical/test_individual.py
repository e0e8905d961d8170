"""Individual adaptation and Lamnisos where the general harness does not go.

The frozen proposal as a full matrix, buckets included; starts; the largest models allowed; one and two variables; extreme settings.
"""

from __future__ import annotations

import warnings
import zlib
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import whichvars as wv
from support.cases import PRIORS, SLABS, Case, problem, truth
from support.kernels import evaluate_again
from support.kinds import mainly
from support.oracle import OraclePosterior, OracleSlab, enumerate_posterior
from support.scores import scores
from whichvars._kernels.chain import ADDED, DELETED, LOG_PROPOSAL
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.jit import entry
from whichvars._kernels.propose.adapt import ADD, DELETE, Adaptation, new_adaptation
from whichvars.errors import DataError
from whichvars.samplers.individual import propose

# --- detailed balance of the frozen proposal


@entry
def propose_once(target, chain, adaptation, rng, by_buckets):
    propose(target, chain, adaptation, rng, by_buckets)


@entry
def count_proposals(target, chain, adaptation, rng, by_buckets, counts):
    """A million proposals, counted by which variables they flip."""
    for _ in range(1_000_000):
        propose(target, chain, adaptation, rng, by_buckets)
        flips = 0
        for i in range(chain.ints[ADDED]):
            flips |= 1 << chain.added[i]
        for i in range(chain.ints[DELETED]):
            flips |= 1 << chain.deleted[i]
        counts[flips] += 1


def uneven() -> Adaptation:
    """A in three buckets, one of them ≥ ½; D all different."""
    return new_adaptation(np.array([0.31, 0.62, 0.11]), np.array([0.45, 0.2, 0.83]), 0.01, False)


def proposal_matrix(adaptation: Adaptation) -> np.ndarray:
    """q(γ, γ') by the formula: every coordinate on its own."""
    A, D = adaptation.values[:, ADD], adaptation.values[:, DELETE]
    p = len(A)
    Q = np.ones((1 << p, 1 << p))
    for here in range(1 << p):
        for there in range(1 << p):
            for j in range(p):
                flip = D[j] if here >> j & 1 else A[j]
                Q[here, there] *= flip if (here ^ there) >> j & 1 else 1 - flip
    return Q


def mask_of(variables: np.ndarray) -> int:
    return int(sum(1 << int(j) for j in variables))


@pytest.mark.parametrize("additions", ["buckets", "coins"])
@pytest.mark.parametrize(
    "case",
    [
        Case("three", "independent", "fixed"),
        Case("three", "g", "per-variable"),
        Case("three", "hyper-g", "beta-binomial"),
        Case("three", "bic", "max-size"),
        Case("three-duplicate", "g", "per-variable"),
    ],
    ids=lambda c: c.id,
)
def test_detailed_balance_of_the_frozen_proposal(case: Case, additions: str) -> None:
    """All pairs of models: acceptance from the real proposal and evaluation, q by formula; π P = π."""
    target, exact, adaptation = problem(case), truth(case), uneven()
    Q, pi = proposal_matrix(adaptation), exact.probabilities
    np.testing.assert_allclose(Q.sum(axis=1), 1.0, atol=1e-15)
    sampler, rng, memo = wv.IndividualAdaptation(), np.random.default_rng(5), new_memo(0)
    P = np.zeros((8, 8))
    for here in range(8):
        start = np.flatnonzero([here >> j & 1 for j in range(3)])
        try:
            run = sampler.init(target, np.random.SeedSequence(0, spawn_key=(0,)), [start])
        except DataError:
            assert pi[here] == 0
            P[here, here] = 1.0
            continue
        chain, kernel_target = run.units[0].chain, target.target(8)
        acceptance = np.full(8, np.nan)
        acceptance[here] = 1.0
        for _ in range(20_000):
            propose_once(kernel_target, chain, adaptation, rng, additions == "buckets")
            added, deleted = chain.added[: chain.ints[ADDED]], chain.deleted[: chain.ints[DELETED]]
            there = here ^ mask_of(added) ^ mask_of(deleted)
            assert mask_of(added) & here == 0
            assert mask_of(deleted) & ~here == 0
            assert chain.floats[LOG_PROPOSAL] == pytest.approx(
                np.log(Q[there, here] / Q[here, there]), abs=1e-13
            )
            if np.isnan(acceptance[there]):
                log_ratio = evaluate_again(kernel_target, chain, memo) + chain.floats[LOG_PROPOSAL]
                acceptance[there] = np.exp(min(log_ratio, 0.0))
            if not np.isnan(acceptance).any():
                break
        P[here] = Q[here] * acceptance
        P[here, here] += 1 - P[here].sum()
    assert not np.isnan(P).any()
    flow = pi[:, None] * P
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-12)
    np.testing.assert_allclose(pi @ P, pi, rtol=0, atol=1e-12)


@pytest.mark.parametrize("additions", ["buckets", "coins"])
def test_frozen_proposal_over_a_million_draws(additions: str) -> None:
    """q(γ, ·) itself, from every γ."""
    target, adaptation = problem(Case("three", "independent", "fixed")), uneven()
    Q = proposal_matrix(adaptation)
    rng = np.random.default_rng(11)
    for here in range(8):
        start = np.flatnonzero([here >> j & 1 for j in range(3)])
        run = wv.IndividualAdaptation().init(target, np.random.SeedSequence(0, spawn_key=(0,)), [start])
        counts = np.zeros(8, np.int64)
        count_proposals(target.target(8), run.units[0].chain, adaptation, rng, additions == "buckets", counts)
        assert stats.chisquare(counts, 1e6 * Q[here, here ^ np.arange(8)]).pvalue > 1e-4


@pytest.mark.parametrize("epsilon", [1e-300, 1e-13, 0.3])
def test_proposal_ratio_of_extreme_probabilities(epsilon: float) -> None:
    """Products over many variables at the bounds neither overflow nor vanish."""
    p = 60
    rng = np.random.default_rng(0)
    target = wv.Problem(rng.normal(size=(20, p)), rng.normal(size=20), slab=wv.IndependentNormal(g=1.0))
    low, high = epsilon + 1e-12, 1 - epsilon - 1e-12
    start = np.arange(30)
    for add, delete in [(high, low), (low, high), (high, high), (0.5, low), (low, 0.5)]:
        adaptation = new_adaptation(np.full(p, add), np.full(p, delete), epsilon, False)
        run = wv.IndividualAdaptation().init(target, np.random.SeedSequence(0, spawn_key=(0,)), [start])
        chain = run.units[0].chain
        for _ in range(20):
            propose_once(target.target(64), chain, adaptation, rng, True)
            changes = chain.ints[ADDED] - chain.ints[DELETED]
            ratio = np.log(adaptation.values[0, DELETE]) - np.log(adaptation.values[0, ADD])
            assert chain.floats[LOG_PROPOSAL] == pytest.approx(changes * ratio, rel=1e-10, abs=1e-10)


# --- against enumeration


@cache
def small(p: int, n: int, kind: str = "g") -> tuple[wv.Problem, OraclePosterior]:
    """Other shapes than those of the harness."""
    rng = np.random.default_rng(100 * n + p)
    X = rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n, 1))
    y = X @ np.where(np.arange(p) < 2, 0.6, 0.0) + rng.normal(size=n)
    slabs: dict[str, tuple[Any, OracleSlab]] = {
        "g": (wv.GPrior(3.0), OracleSlab("g", g=3.0)),
        "independent": (wv.IndependentNormal(g=1.0), OracleSlab("independent", g=1.0)),
    }
    slab, oracle_slab = slabs[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.DataWarning)
        target = wv.Problem(X, y, slab=slab, model_prior=wv.FixedInclusion(h=0.4))
    return target, enumerate_posterior(X, y, oracle_slab, ("fixed", 0.4))


def check(
    target: wv.Problem, exact: OraclePosterior, sampler: Any, *, draws: int = 20_000, start: Any = "mixed"
) -> np.ndarray:
    found = scores(
        target,
        sampler,
        exact,
        draws=draws,
        start=start,
        seed=zlib.crc32(f"{sampler} {start}".encode()) % 10**6,
    )
    assert np.abs(found.all).max() < 4.5, found
    assert np.sqrt(np.mean(found.pips**2)) < 2.5, found
    return found.pips


RAPA = wv.IndividualAdaptation()
CHECKED = {
    "rapa-bold-frozen": wv.IndividualAdaptation(phi0=10.0, freeze_after=2000),
    "ia-bold-coins-frozen": wv.IndividualAdaptation(w=0.0, phi0=10.0, freeze_after=2000, additions="coins"),
    "frozen": wv.IndividualAdaptation(freeze_after=500),
    "frozen-from-the-start": wv.IndividualAdaptation(freeze_after=0),
    "mca-5-merged-often": wv.IndividualAdaptation(chains=5, merge_every=20),
    "lamnisos-frozen": wv.Lamnisos(freeze_after=500),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "frozen" else pytest.mark.rest) for n in CHECKED]
)
def test_within_monte_carlo_error(name: str) -> None:
    """Every slab and every model prior at least once, in turn, with settings that the harness does not have."""
    offset = list(CHECKED).index(name)
    slabs, priors = list(SLABS), list(PRIORS)
    pooled = []
    for i in range({"rapa-bold-frozen": 7, "mca-5-merged-often": 1}.get(name, 4)):
        case = Case("plain", slabs[(i + offset) % len(slabs)], priors[(i + offset) % len(priors)])
        draws = 40_000 if CHECKED[name].chains > 1 else 20_000
        pooled.append(check(problem(case), truth(case), CHECKED[name], draws=draws))
    assert np.sqrt(np.mean(np.concatenate(pooled) ** 2)) < 1.5


@pytest.mark.parametrize("w", mainly([0.0, 0.5], [0.5]))
def test_bold_steps_bias_early_estimates_only(w: float) -> None:
    """While A and D move by φ_i, averages are off by about as much as φ_i: no sampler error, diminishing adaptation.

    At φ₀ = 10 this shows beyond Monte Carlo error after 2,000 iterations (some 0.005 here) and must be gone after 200,000.
    """
    case = Case("plain", "g", "fixed")
    sampler = wv.IndividualAdaptation(phi0=10.0, w=w)
    errors = {}
    for warmup in (2_000, 200_000):
        pips = np.array(
            [
                wv.sample(
                    problem(case),
                    sampler,
                    draws=20_000,
                    warmup=warmup,
                    replicates=1,
                    threads=1,
                    seed=run,
                    progress=False,
                ).pip
                for run in range(16)
            ]
        )
        error = pips.mean(axis=0) - truth(case).pips
        errors[warmup] = error, error / (pips.std(axis=0, ddof=1) / 4)
    assert np.abs(errors[2_000][0]).max() < 0.012
    assert np.abs(errors[200_000][0]).max() < 0.003
    assert np.abs(errors[200_000][1]).max() < 4.5


STARTS = ["null", "prior", "forward", "screening", "full", "own", "several"]


@pytest.mark.parametrize(
    ("sampler", "start"),
    [  # every start once in ``make test``
        pytest.param(sampler, start, id=f"{name}-{start}", marks=[] if i % 2 == j else pytest.mark.slow)
        for j, (name, sampler) in enumerate({"rapa": RAPA, "lamnisos": wv.Lamnisos()}.items())
        for i, start in enumerate(STARTS)
    ],
)
def test_any_start(sampler: Any, start: str) -> None:
    case = Case("plain", "g", "fixed")
    starts: dict[str, Any] = {"full": list(range(7)), "own": [2, 5], "several": [[], [0], [1, 2, 3]]}
    check(problem(case), truth(case), sampler, draws=10_000, start=starts.get(start, start))


@pytest.mark.parametrize(
    "sampler",
    [
        wv.IndividualAdaptation(nu=3.0),
        pytest.param(wv.IndividualAdaptation(chains=5, merge_every=50), marks=pytest.mark.rest),
        wv.Lamnisos(target=0.2),
    ],
    ids=["rapa", "mca", "lamnisos"],
)
def test_models_as_large_as_the_data_allow(sampler: Any) -> None:
    """n = 8, p = 12 under the g-prior: up to ν − 1 = 6 variables, often met."""
    target, exact = small(12, 8)
    assert exact.size_distribution[6] > 0.05
    assert np.all(exact.size_distribution[7:] == 0)
    check(target, exact, sampler, draws=50_000 if sampler.chains > 1 else 30_000)


def test_starts_at_the_largest_model() -> None:
    target, exact = small(12, 8)
    check(target, exact, RAPA, start=[[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]])
    with pytest.raises(wv.DataError):
        wv.sample(target, RAPA, draws=10, start=list(range(7)), progress=False)


# vectors of length 1 are contiguous to Numba, so that all kernels compile once more for p = 1
@pytest.mark.parametrize("p", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(
    "sampler",
    [
        wv.IndividualAdaptation(),
        wv.IndividualAdaptation(w=0.0, additions="coins"),
        wv.IndividualAdaptation(epsilon=0.49),
        wv.Lamnisos(),
        wv.Lamnisos(max_changes=1),
    ],
    ids=["rapa", "ia-coins", "rapa-wide-floor", "lamnisos", "lamnisos-one"],
)
def test_one_and_two_variables(sampler: Any, p: int) -> None:
    for kind in ("g", "independent"):
        check(*small(p, 12, kind), sampler, draws=10_000)


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 1e-300},
        pytest.param({"epsilon": 1e-12}, marks=pytest.mark.rest),
        pytest.param({"epsilon": 0.2}, marks=pytest.mark.rest),
        {"epsilon": 0.45, "nu": 1e300},
        pytest.param({"nu": 1e-3}, marks=pytest.mark.rest),
        pytest.param({"nu": 1e3}, marks=pytest.mark.rest),
        pytest.param({"tau": 0.01, "freeze_after": 1000}, marks=pytest.mark.rest),
        {"tau": 0.95},
        {"phi0": 100.0, "decay": 1.0, "freeze_after": 1000},
        {"w": 1.0},
    ],
    ids=str,
)
def test_extreme_settings(settings: dict[str, Any]) -> None:
    case = Case("plain", "g", "fixed")
    check(problem(case), truth(case), wv.IndividualAdaptation(**settings), draws=20_000)


@pytest.mark.parametrize("phi0", [1.0, 1e3, 1e300])
@pytest.mark.parametrize("nu", [1e-300, 1e300])
def test_absurd_settings_do_no_harm(nu: float, phi0: float) -> None:
    """The chain may hardly move, but stays where it may be and its numbers stay numbers."""
    sampler = wv.IndividualAdaptation(epsilon=1e-300, nu=nu, phi0=phi0, chains=3, merge_every=7)
    posterior = wv.sample(
        problem(Case("plain", "g", "max-size")), sampler, draws=3000, replicates=2, progress=False
    )
    assert posterior.sizes[3:].sum() == 0
    for report in posterior.adaptation:
        for name in ("add_probability", "delete_probability"):
            assert np.all((report[name] > 0) & (report[name] < 1))
