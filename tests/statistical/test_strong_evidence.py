"""Strong evidence as users have it: a near copy of a strong variable, blocks of near copies, and unkind starts.

The samplers that move by rates once bounded log odds at 600, and had two stand-ins of a variable equally probable from
there on: at a t-value of 40, and with errors that claimed three digits. See also ``support/strong.py``, whose
problems every sampler meets.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whichvars as wv
from support.cases import Case, problem, truth
from support.oracle import OracleSlab, enumerate_posterior
from whichvars.errors import ConvergenceWarning

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks.strong import (  # noqa: E402
    TS,
    block_problem,
    block_truth,
    near_copy,
    near_copy_problem,
    near_copy_truth,
)

SETTINGS: dict[str, Any] = {
    "default": wv.Hybrid(),
    "hybrid-by-time": wv.Hybrid(exact_weights=False),
    "tempered-gibbs-by-time": wv.TemperedGibbs(exact_weights=False),
    "subset-gibbs": wv.SubsetGibbs(),
    "individual": wv.IndividualAdaptation(),
}
QUICK = [
    ("default", 40),
    ("hybrid-by-time", 5),
    ("hybrid-by-time", 40),
    ("hybrid-by-time", 400),
    ("tempered-gibbs-by-time", 100),
    ("subset-gibbs", 50),
    ("individual", 40),
]


def test_all_models_are_summed_as_the_oracle_does() -> None:
    """The truth below is computed from correlations, in extended precision; the oracle does it from rows."""
    for t in (5, 400):
        brute = enumerate_posterior(
            *near_copy(t), OracleSlab("independent", g=1.0), ("beta-binomial", 1.0, 1.0)
        )
        np.testing.assert_allclose(near_copy_truth(t), brute.pips, atol=1e-9)


def runs_of(target: wv.Problem, sampler: Any, **settings: Any) -> wv.Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return wv.sample(
            target, sampler, threads=1, progress=False, **{"seed": 5, "replicates": 8} | settings
        )


def estimates(posterior: wv.Posterior) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Every estimate of inclusion probabilities that there is, with its error."""
    found = {
        "pip": (posterior.pip, posterior.mcse),
        "frequencies": (posterior.frequencies, posterior.frequency_mcse),
    }
    if posterior.rao_blackwell is not None:
        found["averages"] = posterior.rao_blackwell, posterior.rao_blackwell_mcse
    return found


def assert_right(posterior: wv.Posterior, exact: np.ndarray, most: float = 4.5) -> None:
    """Within Monte Carlo error of the truth; what never moved must be certain."""
    certain = np.minimum(exact, 1 - exact) < 1e-3
    for what, (value, error) in estimates(posterior).items():
        moved = ~np.isnan(error)
        assert np.all(moved | certain), (what, "a variable that should move never did")
        # single precision of the conditional probabilities is all the error that exact weights may leave
        score = (value - exact)[moved] / np.maximum(error[moved], 1e-6)
        assert np.abs(score).max(initial=0) < most, (what, score.round(1), value.round(4), exact.round(4))


@pytest.mark.parametrize(
    ("sampler", "t"),
    [
        pytest.param(s, t, marks=[] if (s, t) in QUICK else pytest.mark.slow)
        for s, t in itertools.product(SETTINGS, TS)
    ],
)
def test_a_near_copy_of_a_strong_variable(sampler: str, t: int) -> None:
    target, exact = near_copy_problem(t), near_copy_truth(t)
    assert 0.3 < exact[1] < exact[0] < 0.9995  # at 400 they share a coefficient that is large beside its prior
    assert_right(runs_of(target, SETTINGS[sampler], draws=20_000), exact)


# --- blocks of near copies

BLOCK_CASES = [(20_000, 0.15), (20_000, 0.3), (10_000_000, 0.3)]


@pytest.mark.parametrize(
    ("n", "effect", "sampler"),
    [
        pytest.param(n, effect, name, marks=[] if name == "default" and (n, effect) == BLOCK_CASES[2] else pytest.mark.slow)
        for n, effect in BLOCK_CASES
        for name in ("default", "hybrid-by-time", "tempered-gibbs-by-time", "subset-gibbs")
    ],
)  # fmt: skip
def test_blocks_of_near_copies(n: int, effect: float, sampler: str) -> None:
    """No single error is large: it is their root mean square that tells."""
    target, exact = block_problem(n, effect), block_truth(n, effect)
    if n == BLOCK_CASES[1][0]:
        np.testing.assert_allclose(exact.sum(), 3, atol=0.01)
    assert exact.max() < 0.7
    posterior = runs_of(target, SETTINGS[sampler], draws=100_000, replicates=4)
    for what, (value, error) in estimates(posterior).items():
        score = (value - exact) / np.maximum(error, 1e-6)
        assert np.sqrt(np.nanmean(score**2)) < 1.3, (what, np.abs(value - exact).max(), np.nanmax(error))


# --- unkind starts and settings

JUMPS: dict[str, Any] = {
    "hybrid": wv.Hybrid(),
    "hybrid-by-time": wv.Hybrid(exact_weights=False),
    "hybrid-no-moves": wv.Hybrid(moves=0, draw_rate=2.0),
    "tempered-gibbs-by-time": wv.TemperedGibbs(exact_weights=False),
    "tempered-gibbs-4-rates": wv.TemperedGibbs(table_bytes=1, memo_slots=0),
    "subset-gibbs": wv.SubsetGibbs(subset=4, anchors=2),
    "subset-gibbs-no-anchors": wv.SubsetGibbs(subset=3, anchors=0),
}
# ``make test`` has one setting of each kind, and the others where evidence is strongest
KINDS = ("hybrid", "hybrid-by-time", "tempered-gibbs-by-time", "subset-gibbs")
KINDS_FIRST = [name if name in KINDS else pytest.param(name, marks=pytest.mark.slow) for name in JUMPS]


@pytest.mark.parametrize(
    ("strength", "sampler"),
    [
        pytest.param(strength, name, marks=[] if strength == "7" or name in KINDS else pytest.mark.slow)
        for strength in ("5", "7")
        for name in JUMPS
    ],
)
def test_from_the_null_model(sampler: str, strength: str) -> None:
    case = Case(f"strong-stand-ins-{strength}", "hyper-g/n", "fixed", "null")
    posterior = runs_of(problem(case), JUMPS[sampler], draws=20_000, warmup=500, start="null")
    assert_right(posterior, truth(case).pips)


@pytest.mark.parametrize("sampler", KINDS_FIRST)
def test_where_every_neighbour_is_far_better(sampler: str) -> None:
    """Eight orthogonal columns of equal strength: from the null model all flips have log odds above 10⁵, all the same;
    with at most one variable each must have an eighth."""
    p, n = 8, 10**6
    statistics = wv.SufficientStatistics.from_correlations(np.eye(p), np.full(p, 0.35), n)
    for max_size, expected in ((None, 1.0), (1, 1 / p), (3, 3 / p)):
        target = wv.Problem(statistics, max_size=max_size)
        posterior = runs_of(target, JUMPS[sampler], draws=20_000, start="null")
        if expected == 1.0:  # but for a first draw that each chain makes wherever warm-up has left it
            assert posterior.frequencies.min() > 1 - 5 / posterior.adaptation[0]["draws"]
            assert posterior.rao_blackwell.min() > 1 - 1e-6  # no time in a model without mass
            continue
        for what, (value, error) in estimates(posterior).items():
            score = (value - expected) / np.maximum(error, 1e-6)
            assert np.abs(score).max() < 4.5, (what, value, error)


@pytest.mark.parametrize("sampler", KINDS_FIRST)
def test_no_draw_of_a_model_without_mass(sampler: str) -> None:
    p = 8
    statistics = wv.SufficientStatistics.from_correlations(np.eye(p), np.full(p, 0.35), 10**6)
    posterior = runs_of(wv.Problem(statistics, max_size=1), JUMPS[sampler], draws=5000)
    assert posterior.sizes[0] == 0.0
    assert () not in posterior.models.members


@pytest.mark.parametrize("sampler", KINDS_FIRST)
def test_one_replicate_of_one_chain(sampler: str) -> None:
    """Errors of a single chain come from its batches or not at all; the answer is the same."""
    case = Case("strong-stand-ins-7", "bic", "max-size")
    one = replace(JUMPS[sampler], chains=1)
    found = [runs_of(problem(case), one, draws=20_000, replicates=1, seed=s).pip for s in range(8)]
    spread = np.maximum(np.std(found, axis=0, ddof=1) / np.sqrt(8), 1e-6)
    score = (np.mean(found, axis=0) - truth(case).pips) / spread
    assert np.abs(score).max() < 6, score  # eight runs: t with seven degrees of freedom


@pytest.mark.parametrize("sampler", KINDS_FIRST)
def test_the_best_models_have_their_probabilities(sampler: str) -> None:
    """Models as the posterior lists them, relative to one another."""
    case = Case("strong-groups-5", "independent", "per-variable", "full")
    exact = truth(case)
    posterior = runs_of(problem(case), JUMPS[sampler], draws=20_000, start=case.starting_models)
    found = dict(zip(posterior.models.members, posterior.models.frequency))
    best = np.argsort(-exact.probabilities)[:3]
    names = [tuple(np.flatnonzero(exact.masks[m]).tolist()) for m in best]
    assert set(names) <= set(found)
    for members, mass in found.items():
        if mass > 1e-3:
            assert exact.probabilities[sum(1 << j for j in members)] > 1e-6, members
