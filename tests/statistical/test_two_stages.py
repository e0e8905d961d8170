"""Samplers that need scans, for responses that are not Gaussian: two stages of acceptance on a Gaussian surrogate. What they return is
the posterior itself, however bad the surrogate is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import whichvars as wv
from statistical.test_families_sampled import PROBLEMS as LARGER
from statistical.test_families_sampled import agree
from support import family_oracle as oracle
from support.family_cases import PROBLEMS, log_joint, with_reference
from support.family_matrix import REFERENCES, TESTED
from support.in_turn import in_turn
from support.kinds import mainly
from support.once import asked_for, once
from whichvars._kernels.chain import LOG_MARGINAL, SURROGATE, change, clear, new_chain
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.jit import entry
from whichvars._kernels.scan.rate_table import FIRST_RATE, TOTAL, find_rates, new_rate_table
from whichvars._kernels.scan.scan_work import new_scan
from whichvars._kernels.scan.thinning import attempt_flip
from whichvars.problem.surrogate import null_predictor, with_surrogate_at
from whichvars.samplers import surrogates
from whichvars.samplers.contract import fit_if_asked, place_chain

TESTS = Path(__file__).resolve().parents[1]
SEARCH = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]

SAMPLERS = {
    "Hybrid": wv.Hybrid(),
    "Hybrid, no exact weights": wv.Hybrid(exact_weights=False, moves=0),
    "Hybrid, long bursts, small table": wv.Hybrid(moves=40, draw_rate=2.0, table_bytes=1, memo_slots=64),
    "TemperedGibbs": wv.TemperedGibbs(),
    "TemperedGibbs, small table": wv.TemperedGibbs(table_bytes=1, memo_slots=64),
    "SubsetGibbs": wv.SubsetGibbs(subset=4, anchors=1),
    "ASI": wv.ASI(),
    "ASI, always": wv.ASI(adapt="always"),
    "PARNI": wv.PARNI(),
}


# --- the law that is invariant


def name_of(sampler: str, name: str, reference: str) -> str:
    return f"{sampler}={name}={reference}"


@pytest.fixture(scope="module")
def matrices(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict:
    names = [name_of(**parameters) for parameters in asked_for(request, "test_the_posterior_is_invariant")]
    return once(tmp_path_factory, "family-matrices", lambda: compute_matrices(names))


def compute_matrices(names: list[str]) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "support.family_matrix", *names],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([str(TESTS), *SEARCH])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("sampler", TESTED)
def test_the_posterior_is_invariant(sampler: str, name: str, reference: str, matrices: dict) -> None:
    P = np.array(matrices[name_of(sampler, name, reference)])
    joint = log_joint(PROBLEMS[name]()[0], 0.4)
    pi = np.exp(joint - joint.max())
    pi /= pi.sum()
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-13)
    np.testing.assert_allclose(pi @ P, pi, atol=1e-8)
    assert (np.diag(P) < 1)[pi > 1e-3].all()


@entry
def _rates(target, chain, work, table, kappa, sums, weights):
    return find_rates(target, chain, work, table, kappa, sums, weights)


@entry
def _attempt(target, chain, memo, rng, table, sums, j):
    clear(chain)
    change(target, chain, j)
    return attempt_flip(target, chain, memo, rng, table, sums, 0, False)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_rates_balance_once_they_are_thinned(name: str, reference: str) -> None:
    """log π + log rate is the same at both ends of every edge, from e^0 to e^−4000, and probabilities are the true ones."""
    data, problem = PROBLEMS[name]()
    view, joint = with_reference(problem, reference), log_joint(data, 0.4)
    p, rng = problem.p, np.random.default_rng(1)
    target, memo, sums = view.target(p), new_memo(256), np.zeros((1, p))
    work, log_rates = new_scan(target, p), np.zeros((1 << p, p))
    surrogate = 0.0
    for index in range(1 << p):
        members = np.array([j for j in range(p) if index >> j & 1], np.int64)
        table = new_rate_table(p, 1, 1 << 16, surrogate=True)
        for j in range(p):
            chain = place_chain(view, new_chain(target, p + 1), memo, members)
            place = _rates(target, chain, work, table, 0.3, sums, np.zeros(1))
            while _attempt(target, chain, memo, rng, table, sums, j) == 0:
                assert fit_if_asked(view, chain)
        row = table.rows[place]
        rates = row[table.ints[FIRST_RATE] :][:p]
        with np.errstate(divide="ignore"):
            log_rates[index] = rates if row[TOTAL] < 0 else np.log(rates)
        if row[TOTAL] > 0:
            assert row[TOTAL] == pytest.approx(rates.sum(), rel=1e-12)
        gap = [joint[index | 1 << j] - joint[index & ~(1 << j)] for j in range(p)]
        np.testing.assert_allclose(
            table.probabilities[place], 1 / (1 + np.exp(-np.clip(gap, -700, 700))), atol=1e-6
        )
        chain = place_chain(view, new_chain(target, p + 1), memo, members)
        surrogate = max(surrogate, abs(chain.floats[LOG_MARGINAL] - chain.floats[SURROGATE]))
    for index in range(1 << p):
        for j in range(p):
            there, back = (
                joint[index] + log_rates[index, j],
                joint[index ^ 1 << j] + log_rates[index ^ 1 << j, j],
            )
            if min(log_rates[index, j], log_rates[index ^ 1 << j, j]) > -700:
                assert there == pytest.approx(back, abs=1e-6)
    assert surrogate > (0.1 if reference != "found" else 1e-6)  # so that there was something to correct


# --- against enumeration


@pytest.mark.parametrize(("problem", "sampler"), in_turn(LARGER, SAMPLERS))
def test_against_enumeration(problem: str, sampler: str) -> None:
    posterior = wv.sample(
        LARGER[problem], SAMPLERS[sampler], draws=20_000, replicates=6, seed=1, progress=False
    )
    truth = wv.exact(LARGER[problem], progress=False)
    if "duplicates" in problem and not posterior.converged:
        # Only one of a column and its copy can be in, and flips alone lead from one to the other through a model that they seldom
        # reach. The verdict is red then, and what is certain is how often one of the two is in.
        either = [LARGER[problem].names.index(name) for name in ("x1", "x6")]
        assert posterior.pip[either].sum() == pytest.approx(truth.pip[either].sum(), abs=0.01)
        posterior, truth = (
            replace(x, pip=np.delete(x.pip, either), mcse=np.delete(x.mcse, either))
            for x in (posterior, truth)
        )
    agree(posterior, truth, to_the_bit=False)
    assert np.nanmax(posterior.mcse) < (0.06 if "duplicates" in problem else 0.03)


@pytest.fixture
def bad_surrogate(monkeypatch: pytest.MonkeyPatch):
    """Has a problem's samplers use a surrogate at a reference of the test's own."""

    def use(problem: wv.Problem, eta: np.ndarray) -> None:
        monkeypatch.setitem(surrogates._known, problem, with_surrogate_at(problem, eta))

    return use


@pytest.mark.parametrize("sampler", mainly(SAMPLERS, ["Hybrid", "SubsetGibbs", "PARNI"]))
def test_a_bad_surrogate_costs_time_and_nothing_else(sampler: str, bad_surrogate) -> None:
    X, y = oracle.simulate("logistic", 80, 7, 11, effect=1.0)
    problem = wv.Problem(X, y, family="logistic", evidence="laplace")
    bad_surrogate(problem, null_predictor(problem) + np.random.default_rng(2).normal(size=80))
    posterior = wv.sample(problem, SAMPLERS[sampler], draws=30_000, replicates=6, seed=4, progress=False)
    agree(posterior, wv.exact(problem, progress=False), to_the_bit=False)


@pytest.mark.parametrize("sampler", ["Hybrid", "TemperedGibbs", "TemperedGibbs, small table", "SubsetGibbs"])
def test_chains_do_not_hang_where_the_surrogate_overrates_a_variable(sampler: str, bad_surrogate) -> None:
    """Skewed columns and the null model's linear predictor: surrogate log odds of hundreds that are half as large in truth."""
    rng = np.random.default_rng(5)
    X = rng.exponential(size=(300, 5))
    X[:, 1] = X[:, 0] + 0.15 * rng.normal(size=300)
    y = rng.poisson(np.exp(0.2 + 0.45 * X[:, 0] + 0.05 * X[:, 2]))
    problem = wv.Problem(X, y, family="poisson", evidence="laplace")
    bad_surrogate(problem, null_predictor(problem))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        posterior = wv.sample(problem, SAMPLERS[sampler], draws=20_000, replicates=6, seed=4, progress=False)
    agree(posterior, wv.exact(problem, progress=False), to_the_bit=False)


def test_strong_evidence() -> None:
    """Two columns stand in for one another, and the models without both have log odds of thousands against them."""
    problem = PROBLEMS["strong counts"]()[1]
    truth = wv.exact(problem, progress=False)
    assert 0.05 < truth.pip[1] < 0.95
    for name in SAMPLERS:
        sampler = wv.SubsetGibbs(subset=2, anchors=1) if name == "SubsetGibbs" else SAMPLERS[name]
        posterior = wv.sample(problem, sampler, draws=20_000, replicates=6, seed=2, progress=False)
        agree(posterior, truth, to_the_bit=False)


def test_corrections_go_to_every_chain_that_was_there() -> None:
    """Short runs of five chains that share a table: the mean over many seeds shows a bias that one run cannot."""
    X, y = oracle.simulate("logistic", 40, 6, 21, effect=1.0)
    problem = wv.Problem(X, y, family="logistic", evidence="laplace")
    view = with_reference(problem, "far off")
    truth = wv.exact(problem, progress=False)
    rng = np.random.default_rng(3)
    weight = np.exp(truth.models.log_marginal + truth.models.log_prior)
    sampler, means = wv.TemperedGibbs(), []
    for seed in range(300):
        at = rng.choice(len(weight), size=5, p=weight / weight.sum())
        starts = [np.array(truth.models.members[i], np.int64) for i in at]
        run = sampler.init(view, np.random.SeedSequence(seed, spawn_key=(0,)), starts)
        sampler.begin_counting(view, run)
        sampler.advance(view, run, 0, 300)
        sums, weights = run.units[0].totals()
        means.append(np.append(sums.sum(axis=0), weights.sum()))
    means = np.array(means)
    total = means.mean(axis=0)
    pip = total[:-1] / total[-1]
    errors = (means[:, :-1] - pip * means[:, -1:]) / total[-1]
    z = (pip - truth.pip) / (errors.std(axis=0) / np.sqrt(len(means)))
    assert np.abs(z).max() < 4


# --- the rest


def test_the_same_bits_on_any_number_of_threads(tmp_path: Path) -> None:
    problem, sampler = LARGER["logistic"], wv.Hybrid()
    settings = {"draws": 3000, "seed": 7, "progress": False}
    one = wv.sample(problem, sampler, threads=1, **settings)
    others = [
        wv.sample(problem, sampler, threads=2, chunk=100, **settings),
        wv.sample(problem, sampler, checkpoint=tmp_path / "run", every=0.01, **settings),
    ]
    for other in others:
        np.testing.assert_array_equal(one.pip, other.pip)
        np.testing.assert_array_equal(one.models.log_marginal, other.models.log_marginal)
    longer = wv.extend(others[1], draws=3000, progress=False)
    again = wv.sample(problem, sampler, **settings | {"draws": 6000, "warmup": 300})
    np.testing.assert_array_equal(longer.pip, again.pip)


@pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")
@pytest.mark.parametrize("slab", [wv.IndependentNormal(g=4.0), wv.GPrior(), wv.BIC()], ids=str)
def test_separation_and_many_variables(slab) -> None:
    """Two columns separate the classes, and there are more columns than rows."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(50, 80))
    y = X[:, 3] + X[:, 7] > 0
    problem = wv.Problem(X, y, family="logistic", slab=slab, max_size=4, model_prior=wv.BetaBinomial(size=2))
    posterior = wv.sample(problem, wv.Hybrid(), draws=4000, seed=1, progress=False)
    assert posterior.pip[[3, 7]].min() > 0.5
    assert np.isfinite(posterior.pip).all()
    assert (posterior.pip >= 0).all()
    assert (posterior.pip <= 1).all()


def test_probabilities_stay_between_0_and_1() -> None:
    """Corrected sums may leave the interval in a short run; what is reported may not."""
    X, y = oracle.simulate("logistic", 40, 12, 4, effect=2.0)
    problem = wv.Problem(X, y, family="logistic")
    for seed in range(6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wv.ConvergenceWarning)
            posterior = wv.sample(problem, wv.TemperedGibbs(), draws=50, warmup=5, seed=seed, progress=False)
        assert ((posterior.pip >= 0) & (posterior.pip <= 1)).all()
        assert ((posterior.replicate_pips >= 0) & (posterior.replicate_pips <= 1)).all()
