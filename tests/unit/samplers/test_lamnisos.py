"""Lamnisos: proposal probabilities by enumeration, uniform choice of variables, ω by the equation and on target."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import whichvars as wv
from support.cases import Case, problem, truth
from support.kernels import from_python
from whichvars._kernels.chain import ADDED, DELETED, LOG_PROPOSAL, SIZE, Chain, change, clear, new_chain
from whichvars._kernels.jit import entry
from whichvars._kernels.propose.changes import ITERATION
from whichvars._kernels.propose.moves import draw_new_excluded, draw_new_included
from whichvars.samplers.lamnisos import LARGEST_LOGIT_OMEGA, log_add_ratio, propose


@entry
def propose_many(target, chain, rng, swap, max_changes, omega, proposals, log_ratios):
    """Proposed models as masks, −1 where the move was not possible."""
    for i in range(proposals.shape[0]):
        propose(target, chain, rng, swap, max_changes, omega)
        mask = 0
        for j in range(chain.position.shape[0]):
            if chain.position[j] >= 0:
                mask |= 1 << j
        for a in range(chain.ints[ADDED]):
            mask ^= 1 << chain.added[a]
        for d in range(chain.ints[DELETED]):
            mask ^= 1 << chain.deleted[d]
        log_ratios[i] = chain.floats[LOG_PROPOSAL]
        proposals[i] = mask if log_ratios[i] > -np.inf else -1


@entry
def draw_many(target, chain, rng, first, adding, counts):
    """Where `first` are in the proposal already, which variable is drawn next; counts by variable."""
    for _ in range(200_000):
        clear(chain)
        for i in range(first.shape[0]):
            change(target, chain, first[i])
        j = draw_new_excluded(chain, rng) if adding else draw_new_included(chain, rng)
        counts[j] += 1


def bare_problem(p: int) -> wv.Problem:
    rng = np.random.default_rng(p)
    return wv.Problem(
        rng.normal(size=(30, p)),
        rng.normal(size=30),
        slab=wv.IndependentNormal(g=1.0),
        model_prior=wv.FixedInclusion(h=0.5),
    )


def chain_with(target: wv.Problem, members: list[int]) -> Chain:
    """A chain said to be at a model, without any factor: enough to propose."""
    chain = new_chain(target.target(target.p), target.p, cache_bytes=0)
    chain.ints[SIZE] = len(members)
    chain.order[: len(members)] = members
    chain.position[members] = np.arange(len(members))
    return chain


# --- proposal probabilities


def proposal_matrix(p: int, swap: float, most: int, omega: float) -> tuple[np.ndarray, np.ndarray]:
    """Q[γ, γ'] by enumeration of kind, number and variables; and the probability of an impossible move."""
    Q, impossible = np.zeros((1 << p, 1 << p)), np.zeros(1 << p)
    for here in range(1 << p):
        inside = [j for j in range(p) if here >> j & 1]
        outside = [j for j in range(p) if not here >> j & 1]
        if not inside:
            kinds = {"add": 1.0}
        elif not outside:
            kinds = {"delete": 1.0}
        else:
            kinds = {"add": (1 - swap) / 2, "delete": (1 - swap) / 2, "swap": swap}
        for kind, weight in kinds.items():
            for m in range(1, most + 1):
                chance = weight * stats.binom.pmf(m - 1, most - 1, omega)
                enter = list(itertools.combinations(outside, m)) if kind != "delete" else [()]
                leave = list(itertools.combinations(inside, m)) if kind != "add" else [()]
                if not enter or not leave:
                    impossible[here] += chance
                    continue
                for changed in itertools.product(enter, leave):
                    mask = sum(1 << j for j in (*changed[0], *changed[1]))
                    Q[here, here ^ mask] += chance / (len(enter) * len(leave))
    np.testing.assert_allclose(Q.sum(axis=1) + impossible, 1.0, atol=1e-13)
    return Q, impossible


@pytest.mark.parametrize(
    ("p", "swap", "most", "omega"),
    [
        (4, 1 / 3, 4, 0.5),
        (4, 0.8, 6, 0.3),
        (4, 0.05, 1, 0.5),
        (4, 0.5, 10, 0.9),
        (2, 1 / 3, 3, 0.5),
        (1, 1 / 3, 2, 0.5),
    ],
)
def test_proposal_by_enumeration(p: int, swap: float, most: int, omega: float) -> None:
    Q, impossible = proposal_matrix(p, swap, most, omega)
    assert np.all((Q > 0) == (Q.T > 0))
    target, rng, times = bare_problem(p), np.random.default_rng(3), 40_000
    pvalues = []
    for here in range(1 << p):
        chain = chain_with(target, [j for j in range(p) if here >> j & 1])
        proposals, log_ratios = np.zeros(times, np.int64), np.zeros(times)
        propose_many(target.target(p), chain, rng, swap, most, omega, proposals, log_ratios)
        possible = proposals >= 0
        there = proposals[possible]
        assert np.all(Q[here, there] > 0)
        np.testing.assert_allclose(
            log_ratios[possible], np.log(Q[there, here]) - np.log(Q[here, there]), rtol=0, atol=1e-12
        )
        expected = times * np.append(Q[here], impossible[here])
        counts = np.append(np.bincount(there, minlength=1 << p), np.sum(~possible))
        assert np.all(counts[expected == 0] == 0)
        often = expected > 5
        assert np.all(counts[often] > 0)  # so every ratio that matters was seen
        if often.sum() > 1:
            pvalues.append(
                stats.chisquare(
                    counts[often], expected[often] * counts[often].sum() / expected[often].sum()
                ).pvalue
            )
    assert min(pvalues, default=1.0) > 1e-4


def test_ratio_of_adding() -> None:
    """d_{k+m}/a_k · C(p−k, m)/C(k+m, m), with a_0 = 1 and d_p = 1."""
    ratio = from_python(log_add_ratio)
    for p in (1, 2, 4, 30):
        for swap in (0.01, 1 / 3, 0.9):
            for k in range(p):
                for m in range(1, p - k + 1):
                    add = 1.0 if k == 0 else (1 - swap) / 2
                    delete = 1.0 if k + m == p else (1 - swap) / 2
                    expected = math.log(delete / add * math.comb(p - k, m) / math.comb(k + m, m))
                    assert ratio(k, m, p, swap) == pytest.approx(expected, abs=1e-12)


# --- choice of variables


@pytest.mark.parametrize(
    ("p", "size", "already"),
    [
        (1, 0, 0),
        (5, 2, 0),
        (5, 2, 2),
        (64, 10, 3),
        (65, 0, 0),
        (65, 20, 4),
        (100, 10, 8),
        (100, 49, 0),
        (100, 60, 5),
        (100, 99, 0),
    ],
)
def test_excluded_variables_are_drawn_uniformly(p: int, size: int, already: int) -> None:
    rng = np.random.default_rng(p + size)
    target = bare_problem(p)
    order = rng.permutation(p)
    members, first, rest = order[:size], order[size : size + already], order[size + already :]
    counts = np.zeros(p, np.int64)
    draw_many(target.target(p), chain_with(target, members.tolist()), rng, first, True, counts)
    assert counts[members].sum() == counts[first].sum() == 0
    assert len(rest) == 1 or stats.chisquare(counts[rest]).pvalue > 1e-4


@pytest.mark.parametrize(
    ("p", "size", "already"), [(1, 1, 0), (5, 3, 0), (5, 3, 2), (100, 60, 5), (100, 100, 20), (100, 7, 6)]
)
def test_included_variables_are_drawn_uniformly(p: int, size: int, already: int) -> None:
    rng = np.random.default_rng(p + size)
    target = bare_problem(p)
    members = rng.permutation(p)[:size]
    first, rest = members[::-1][:already], members[::-1][already:]
    counts = np.zeros(p, np.int64)
    draw_many(target.target(p), chain_with(target, members.tolist()), rng, first, False, counts)
    assert counts[rest].sum() == counts.sum()
    assert len(rest) == 1 or stats.chisquare(counts[rest]).pvalue > 1e-4


# --- ω


def first_run(sampler: Any, target: wv.Problem, start: list[int]) -> Any:
    return sampler.init(target, np.random.SeedSequence(1, spawn_key=(0,)), [np.array(start, np.int64)])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"target": 0.6, "phi0": 5.0, "decay": 1.0},
        {"freeze_after": 100},
        {"max_changes": 3},
        {"phi0": 1000.0},
    ],
    ids=str,
)
def test_omega_follows_its_equation(settings: dict[str, Any]) -> None:
    sampler = wv.Lamnisos(**settings)
    case = Case("plain", "g", "fixed")
    target, exact = problem(case), truth(case)
    log_posterior = exact.log_marginals + exact.log_priors
    run = first_run(sampler, target, [0, 2])
    (unit,) = run.units
    logit, changes = unit.own
    assert logit[0] == 0
    proposed_nothing = 0
    for i in range(1, 401):
        before, state = logit[0], unit.chain.position >= 0
        sampler.advance(target, run, 0, 1)
        assert changes.ints[ITERATION] == i
        flips = np.concatenate(
            [unit.chain.added[: unit.chain.ints[ADDED]], unit.chain.deleted[: unit.chain.ints[DELETED]]]
        ).astype(int)
        a = 0.0
        if len(flips):
            here = int(state @ (1 << np.arange(7)))
            there = here ^ int(np.sum(1 << flips))
            a = math.exp(
                min(log_posterior[there] - log_posterior[here] + unit.chain.floats[LOG_PROPOSAL], 0.0)
            )
        else:
            proposed_nothing += 1
        step = sampler.phi0 * i**-sampler.decay * (a - sampler.target)
        if sampler.freeze_after is not None and i > sampler.freeze_after:
            step = 0.0
        assert logit[0] == pytest.approx(
            np.clip(before + step, -LARGEST_LOGIT_OMEGA, LARGEST_LOGIT_OMEGA), abs=1e-11 * sampler.phi0
        )
        assert abs(logit[0]) <= LARGEST_LOGIT_OMEGA
    if sampler.max_changes == 10:
        assert proposed_nothing > 0


@pytest.mark.parametrize("aim", [0.15, 0.3, 0.4])
def test_acceptance_reaches_its_target(aim: float) -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 40))
    y = X[:, :20] @ np.full(20, 0.12) + rng.normal(size=60)
    target = wv.Problem(X, y, slab=wv.IndependentNormal(g=0.05), model_prior=wv.FixedInclusion(h=0.5))
    posterior = wv.sample(
        target,
        wv.Lamnisos(target=aim, max_changes=20),
        draws=60_000,
        warmup=20_000,
        replicates=2,
        seed=2,
        progress=False,
    )
    for report in posterior.adaptation:
        proposed = report["changes_proposed"]
        acceptance = np.nansum(report["acceptance_by_changes"] * proposed) / proposed.sum()
        assert abs(acceptance - aim) < 0.02
        assert 1e-3 < report["omega"] < 1 - 1e-3  # within reach, not at a bound


def test_bolder_where_the_target_is_lower() -> None:
    target = problem(Case("columns", "independent", "fixed"))
    omegas = [
        wv.sample(target, wv.Lamnisos(target=t), draws=20_000, replicates=1, progress=False).adaptation[0][
            "omega"
        ]
        for t in (0.1, 0.3, 0.6)
    ]
    assert omegas[0] > omegas[1] > omegas[2]


def test_frozen_from_the_start() -> None:
    target = problem(Case("plain", "g", "fixed"))
    posterior = wv.sample(target, wv.Lamnisos(freeze_after=0), draws=500, replicates=1, progress=False)
    assert posterior.adaptation[0]["omega"] == 0.5


@pytest.mark.parametrize(
    "settings",
    [
        {"target": 0.0},
        {"target": 1.0},
        {"swap": 1.0},
        {"max_changes": 0},
        {"max_changes": 2.5},
        {"phi0": 0.0},
        {"decay": 0.5},
    ],
    ids=str,
)
def test_impossible_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(wv.DataError):
        wv.Lamnisos(**settings)
