"""Strong evidence as users have it: a near copy of a strong variable, blocks of near copies, and unkind starts.

The samplers that move by rates once bounded log odds at 600, and had two stand-ins of a variable equally probable from
there on: at a t-value of 40, and with errors that claimed three digits. See also ``support/strong.py``, whose
problems every sampler meets.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import whichvars as wv
from support.cases import Case, problem, truth
from support.oracle import OraclePosterior, OracleSlab, enumerate_posterior
from whichvars.errors import ConvergenceWarning

PRIOR = ("fixed", 0.2)
TS = (5, 36, 40, 50, 100, 400)  # the t-value of the first column
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


N, ROWS = 5000, 40  # rows, and how many different ones: the oracle works on these


def near_copy(t: float, p: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """A column of t-value t, and beside it one that is nearer to it than the data can tell."""
    rng = np.random.default_rng(7)
    start = rng.normal(size=(ROWS, p + 1))
    # without chance: the copy's own part and the noise of y have nothing to do with one another
    base = np.linalg.qr(start - start.mean(axis=0))[0] * np.sqrt(ROWS)
    X, noise = base[:, :p].copy(), base[:, p]
    X[:, 1] = X[:, 0] + 1.2 / t * X[:, 1]
    return X, t / np.sqrt(N) * X[:, 0] + noise


@cache
def near_copy_truth(t: float) -> OraclePosterior:
    X, y = near_copy(t)
    return enumerate_posterior(X, y, OracleSlab("independent", g=1.0), PRIOR, copies=N // ROWS)


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
    X, y = near_copy(t)
    X, y = np.tile(X, (N // ROWS, 1)), np.tile(y, N // ROWS)
    target = wv.Problem(X, y, model_prior=wv.FixedInclusion(h=PRIOR[1]))
    exact = near_copy_truth(t).pips
    assert 0.3 < exact[1] < exact[0] < 0.999  # at 400 they share a coefficient that is large beside its prior
    assert_right(runs_of(target, SETTINGS[sampler], draws=20_000), exact)


# --- blocks of near copies

BLOCKS, COPIES = 3, 60


def block_moments(n: int, effect: float) -> tuple[np.ndarray, np.ndarray]:
    """Correlations of three blocks of near copies, and with y: with as many rows as one likes."""
    rng = np.random.default_rng(11)
    p = BLOCKS * COPIES
    rows = 4 * p
    base = np.linalg.qr(rng.normal(size=(rows, p + BLOCKS + 1)))[0] * np.sqrt(rows)
    spread = 1.0 / (effect * np.sqrt(n))  # at which copies differ by a log odds of about ½
    X = np.repeat(base[:, :BLOCKS], COPIES, axis=1) + spread * base[:, BLOCKS : BLOCKS + p]
    # chance: t-values of about one along what each copy has of its own
    own = base[:, BLOCKS : BLOCKS + p] @ rng.normal(size=p) / np.sqrt(n)
    y = effect * base[:, :BLOCKS].sum(axis=1) + own + base[:, -1]
    joint = np.column_stack([X, y])
    joint = joint / np.sqrt((joint**2).mean(axis=0))
    moments = joint.T @ joint / rows
    return moments[:p, :p], moments[:p, p]


@cache
def block_truth(n: int, effect: float) -> np.ndarray:
    """Inclusion probabilities by all models of at most three variables, without the package.

    Under the independent slab with g = 1, in units of standard deviations: all 3 × 3 determinants and quadratic forms at
    once. Beta-binomial(1, b) with a mean of five variables, cut at three.
    """
    R, r = block_moments(n, effect)
    p = len(r)
    A, b, nu = R * (n - 1) + np.eye(p), r * (n - 1), n - 1.0
    scale = float(n - 1)  # yᵀy
    b_prior = (p - 5) / 5
    sizes = np.arange(4)
    # Beta(1 + k, b + p − k)/Beta(1, b), up to what all have in common
    log_prior = gammaln(1 + sizes) + gammaln(b_prior + p - sizes)

    def log_marginals(models: np.ndarray) -> np.ndarray:
        """By elimination, one column of the factor at a time, all models together."""
        k = models.shape[1]
        M = A[models[:, :, None], models[:, None, :]].astype(np.longdouble)
        v = b[models].astype(np.longdouble)
        log_det, explained = np.zeros(len(models), np.longdouble), np.zeros(len(models), np.longdouble)
        for i in range(k):
            pivot = M[:, i, i]
            log_det += np.log(pivot)
            explained += v[:, i] ** 2 / pivot
            for j in range(i + 1, k):
                factor = M[:, j, i] / pivot
                M[:, j, :] -= factor[:, None] * M[:, i, :]
                v[:, j] -= factor * v[:, i]
        return -0.5 * log_det - 0.5 * nu * np.log1p(-explained / scale)

    log_mass, log_in = [], []
    for k in range(4):
        for first in range(p) if k == 3 else [-1]:
            if k == 3:
                pairs = np.array(list(itertools.combinations(range(first + 1, p), 2)), int).reshape(-1, 2)
                models = np.column_stack([np.full(len(pairs), first), pairs])
            else:
                models = np.array(
                    list(itertools.combinations(range(p), k)), int
                )  # one row, of no columns, for k = 0
            if len(models) == 0:
                continue
            value = np.asarray(log_marginals(models) + log_prior[k], float)
            log_mass.append(logsumexp(value))
            inside = np.full(p, -np.inf)
            top = value.max()
            with np.errstate(divide="ignore"):
                inside = top + np.log(
                    np.bincount(models.ravel(), weights=np.repeat(np.exp(value - top), k), minlength=p)
                )
            log_in.append(inside)
    return np.exp(logsumexp(log_in, axis=0) - logsumexp(log_mass))


def block_problem(n: int, effect: float) -> wv.Problem:
    R, r = block_moments(n, effect)
    statistics = wv.SufficientStatistics.from_correlations(R, r, n)
    return wv.Problem(statistics, max_size=3)


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
