"""Sequential Monte Carlo against enumeration: inclusion, models, evidence, two modes, models without mass."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import whichvars as wv
from statistical.test_against_enumeration import (
    HARD,
    HEREDITY,
    QUICK_STRONG,
    REDUCED,
    STRONG,
    STRONG_IN_TURN,
    TIGHT,
)
from statistical.test_tempering import assert_add_delete_swap_is_stuck
from support.cases import PRIORS, SLABS, Case, problem, truth
from support.once import once
from support.scores import _between
from support.two_modes import FIRST, SECOND, bimodal
from support.two_modes import STRONG as TWO_MODES
from whichvars.errors import ConvergenceWarning

RUNS = 12
MOVES: dict[str, Any] = {
    "rapa": wv.IndividualAdaptation(),
    "ia": wv.IndividualAdaptation(w=0, tau=0.35),
    "ads": wv.AddDeleteSwap(),
    "lamnisos": wv.Lamnisos(),
}
ALL = [Case("plain", slab, prior) for slab in SLABS for prior in PRIORS] + [
    c for c in HARD + HEREDITY if c.start == "mixed"
]
SOME = [c for c in REDUCED if c.start == "mixed"][::3] + HEREDITY[:1]


def smc_runs(
    target: wv.Problem, sampler: wv.SequentialMonteCarlo, seed: int, runs: int = RUNS
) -> list[wv.Posterior]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [
            wv.sample(target, sampler, replicates=1, threads=1, seed=1000 * seed + i, progress=False)
            for i in range(runs)
        ]


def scores_of(runs: list[wv.Posterior], exact: Any) -> dict[str, np.ndarray]:
    """Normal scores by the spread between runs."""
    inside = np.minimum(exact.pips, 1 - exact.pips) > 2e-3
    common = (exact.size_distribution > 0.005) & (exact.size_distribution < 0.995)
    sizes = np.array([r.sizes for r in runs])
    assert np.all(sizes[:, exact.size_distribution == 0] == 0)
    best = [m for m in np.argsort(-exact.probabilities)[:6] if exact.probabilities[m] > 0.005]
    wanted = [tuple(np.flatnonzero(exact.masks[m]).tolist()) for m in best]
    found = [dict(zip(r.models.members, r.models.frequency)) for r in runs]
    shares = np.array([[f.get(m, 0.0) for m in wanted] for f in found])
    # the estimator of the evidence itself, not its logarithm, has no bias
    evidence = np.exp(np.array([r.log_evidence for r in runs]) - exact.log_evidence)
    return {
        "pips": _between(np.array([r.pip[inside] for r in runs]), exact.pips[inside]),
        "sizes": _between(sizes[:, common], exact.size_distribution[common]),
        "models": _between(shares, exact.probabilities[best]),
        "evidence": _between(evidence[:, None], np.ones(1)),
    }


Result = Callable[[Case, str], dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Every case is run once: what is looked at case by case is looked at once more for all of them together."""

    def scores_by_part(case: Case, move: str) -> dict[str, np.ndarray]:
        found = once(tmp_path_factory, f"smc {move} {case.id}", lambda: compute(case, move))
        return {part: np.array(values, float) for part, values in found.items()}

    return cache(scores_by_part)


def compute(case: Case, move: str) -> dict[str, list[float]]:
    sampler = wv.SequentialMonteCarlo(particles=400, steps=8, groups=3, move=MOVES[move])
    seed = zlib.crc32(f"smc {move} {case.id}".encode()) % 10**6
    found = scores_of(smc_runs(problem(case), sampler, seed), truth(case))
    return {part: values.tolist() for part, values in found.items()}


OFTEN = [c for c in ALL if c in REDUCED + HEREDITY]  # every slab, every prior, half of the hard cases
QUICK = [(c, "rapa") for c in OFTEN] + [(c, m) for m in ("ia", "ads", "lamnisos") for c in SOME]
SLOW = [(c, "rapa") for c in ALL if c not in OFTEN]


@pytest.mark.parametrize(
    ("case", "move"),
    [pytest.param(c, m, id=f"{m}-{c.id}") for c, m in QUICK]
    + [pytest.param(c, m, id=f"{m}-{c.id}", marks=pytest.mark.slow) for c, m in SLOW],
)
def test_within_monte_carlo_error(case: Case, move: str, result: Result) -> None:
    for part, values in result(case, move).items():
        assert np.abs(values).max(initial=0) < 4.5, (part, values)


# --- strong evidence: the first temperatures are of the order of 10⁻³ to 10⁻⁷, and so are the weights' exponents


def from_the_prior(cases: list[Case]) -> list[Case]:
    """Particles start at draws from the prior, whatever start the case has."""
    return list(dict.fromkeys(replace(c, start="mixed") for c in cases))


QUICK_STEEP = [
    (Case("strong-stand-ins-7", "hyper-g", "per-variable"), "rapa"),
    (Case("strong-stand-ins-3", "independent", "per-variable"), "ads"),
    (Case("strong-heredity-5", "eb-local", "beta-binomial"), "rapa"),
    (Case("strong-mapped-5", "bic", "beta-binomial"), "lamnisos"),
]
STEEP = [(c, "rapa") for c in from_the_prior(QUICK_STRONG["all"] + STRONG + TIGHT)] + [
    (c, m) for m in ("ia", "ads", "lamnisos") for c in from_the_prior(QUICK_STRONG["all"] + STRONG_IN_TURN)
]


@pytest.mark.parametrize(
    ("case", "move"),
    [
        pytest.param(c, m, id=f"{m}-{c.id}", marks=[] if (c, m) in QUICK_STEEP else pytest.mark.slow)
        for c, m in QUICK_STEEP + [pair for pair in STEEP if pair not in QUICK_STEEP]
    ],
)
def test_strong_evidence_within_monte_carlo_error(case: Case, move: str, result: Result) -> None:
    for part, values in result(case, move).items():
        assert np.abs(values).max(initial=0) < 4.5, (part, values)


@pytest.mark.slow
def test_no_bias_over_all_cases_of_strong_evidence(result: Result) -> None:
    assert_no_bias(STEEP, result)


@pytest.mark.parametrize(
    "tested",
    [
        pytest.param(QUICK, id="some", marks=pytest.mark.rest),
        pytest.param(QUICK + SLOW, id="all", marks=pytest.mark.slow),
    ],
)
def test_no_bias_over_all_cases(tested: list[tuple[Case, str]], result: Result) -> None:
    """What is too small to show in one case shows in all of them together."""
    assert_no_bias(tested, result)


def assert_no_bias(tested: list[tuple[Case, str]], result: Result) -> None:
    found = [result(case, move) for case, move in tested]
    for part in found[0]:
        together = np.concatenate([f[part] for f in found])
        assert np.sqrt(np.mean(together**2)) < 1.3, part
        by_case = np.array([f[part].mean() for f in found])
        error = max(by_case.std(ddof=1), 0.3) / np.sqrt(len(by_case))
        assert abs(by_case.mean()) < 3.5 * error, (part, by_case)


# --- two modes


def in_turn(first: list[Any], second: list[Any]) -> list[Any]:
    """All pairs; those in which every value of either occurs are in ``make test``."""
    return [
        pytest.param(a, b, marks=[] if (i + j) % len(second) == 0 else pytest.mark.slow)
        for i, a in enumerate(first)
        for j, b in enumerate(second)
    ]


OFTEN_BIMODAL = [("independent", "rapa"), ("g", "ads"), ("hyper-g/n", "rapa")]


@pytest.mark.parametrize(
    ("slab", "move"),
    [
        pytest.param(
            s,
            m,
            marks=[pytest.mark.rest] * (s == "independent") if (s, m) in OFTEN_BIMODAL else pytest.mark.slow,
        )
        for s in TWO_MODES
        for m in ("rapa", "ads")
    ],
)
def test_two_modes(slab: str, move: str) -> None:
    target, exact = bimodal(slab)
    assert_add_delete_swap_is_stuck(slab)
    sampler = wv.SequentialMonteCarlo(particles=2000, steps=10, move=MOVES[move])
    runs = smc_runs(target, sampler, zlib.crc32(slab.encode()) % 1000, runs=8)
    for part, values in scores_of(runs, exact).items():
        assert np.abs(values).max(initial=0) < 4.5, (part, values)
    for run in runs:  # each run by itself has found both
        assert abs(run.pip[FIRST[0]] - exact.pips[FIRST[0]]) < 0.25
        assert abs(run.pip[SECOND[0]] - exact.pips[SECOND[0]]) < 0.25


# --- evidence


@pytest.mark.parametrize(
    ("slab", "move"), in_turn([wv.GPrior(47), wv.IndependentNormal(100)], ["rapa", "ads"]), ids=str
)
def test_log_evidence_of_uscrime(slab: Any, move: str) -> None:
    data = wv.datasets.load_uscrime()
    target = wv.Problem(data.X, data.y, slab=slab, model_prior=wv.FixedInclusion(h=0.5))
    exact = wv.exact(target)
    sampler = wv.SequentialMonteCarlo(particles=1000, steps=10, move=MOVES[move])
    posterior = wv.sample(target, sampler, replicates=12, seed=3, progress=False)
    assert posterior.log_evidence is not None
    assert posterior.log_evidence_mcse is not None
    assert 0 < posterior.log_evidence_mcse < 0.2
    assert abs(posterior.log_evidence - exact.log_evidence) < 3 * posterior.log_evidence_mcse
    scores = _between(posterior.replicate_pips, exact.pip)
    assert np.abs(scores).max() < 4.5
    assert np.all(posterior.mcse > 0)
    assert np.abs((posterior.pip - exact.pip) / posterior.mcse).max() < 5


@pytest.mark.parametrize(
    ("slab", "data"), in_turn(["g", "hyper-g", "bic", "independent"], ["wide", "duplicate"])
)
def test_prior_draws_without_mass(data: str, slab: str) -> None:
    """More columns than rows, or the same column twice: such models have likelihood zero, as in exact()."""
    case = Case(data, slab, "fixed")
    target, brute = problem(case), truth(case)
    assert wv.exact(target).log_evidence == pytest.approx(brute.log_evidence, abs=1e-8)
    if slab != "independent":
        assert (brute.probabilities == 0).any()
    runs = smc_runs(target, wv.SequentialMonteCarlo(particles=1000, steps=5), seed=77)
    for part, values in scores_of(runs, brute).items():
        assert np.abs(values).max(initial=0) < 4.5, (part, values)
