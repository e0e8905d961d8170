"""The subset version of tempered Gibbs: its generator from the real rates, and its answers against brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import whichvars as wv
from support.cases import PRIORS, SLABS, Case, problem, truth
from whichvars._kernels.chain import SCANNED, new_chain
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.evaluate import set_model
from whichvars._kernels.scan.scan import scan_model
from whichvars._kernels.scan.scan_work import new_scan
from whichvars._kernels.scan.subset_scan import Subset, new_subset, set_anchors, subset_rates_of
from whichvars.samplers.subset_gibbs import correlations_with_response

KAPPA = 0.3
SMALL = wv.SubsetGibbs(subset=4, anchors=2)


class Rates:
    """Rates of any model and any set S, as the sampler finds them."""

    def __init__(self, problem: wv.Problem, anchors: tuple[int, ...], size: int) -> None:
        p, n_columns = problem.p, int(problem.offsets[-1])
        self.target = problem.target(n_columns)
        self.chain = new_chain(self.target, n_columns + int(np.diff(problem.offsets).max()))
        self.work = new_scan(self.target, n_columns)
        self.subset: Subset = new_subset(self.target, 1, len(anchors), size, len(self.work.pivot))
        set_anchors(self.subset, np.array(anchors, np.int64), np.random.default_rng(0))
        self.p, self.anchors = p, anchors

    def go_to(self, model: Any) -> bool:
        members = np.array(model, np.int64)
        return bool(set_model(self.target, self.chain, new_memo(0), members, len(members)))

    def at(self, drawn: Any) -> tuple[np.ndarray, np.ndarray]:
        """The rate of every variable and the conditional probabilities of those in S (NaN elsewhere)."""
        self.subset.drawn[0] = drawn
        assert subset_rates_of(self.target, self.chain, self.work, self.subset, 0, KAPPA) == 0
        rates, probabilities = np.zeros(self.p), np.full(self.p, np.nan)
        rates[self.subset.members] = self.subset.entering
        inside = np.flatnonzero(self.chain.position >= 0)
        rates[inside] = self.subset.leaving[self.chain.position[inside]]
        probabilities[self.subset.members] = self.subset.probabilities
        return rates, probabilities


@pytest.mark.parametrize(
    ("case", "anchors", "size"),
    [
        (Case("three", "independent", "fixed"), (1,), 2),
        (Case("three", "g", "beta-binomial"), (), 1),
        (Case("three-duplicate", "hyper-g", "per-variable"), (2,), 2),
        (Case("three-heredity", "independent", "fixed"), (0,), 2),
        (Case("three", "bic", "max-size"), (0,), 3),
    ],
    ids=str,
)
def test_generator_leaves_posterior_times_uniform_invariant(
    case: Case, anchors: tuple[int, ...], size: int
) -> None:
    """The matrix of all rates between pairs (γ, S) is reversible, and step 2 has the right mean."""
    found, exact = Rates(problem(case), anchors, size), truth(case)
    p = found.p
    law = {tuple(mask): x for mask, x in zip(exact.masks.astype(int).tolist(), exact.probabilities) if x > 0}
    rest = [j for j in range(p) if j not in anchors]
    sets = list(itertools.combinations(rest, size - len(anchors)))
    states = {state: i for i, state in enumerate(itertools.product(law, sets))}
    flows = np.zeros((len(states), len(states)))
    means = np.zeros(p)
    for (model, drawn), row in states.items():
        assert found.go_to(np.flatnonzero(model))
        rates, probabilities = found.at(drawn)
        mass = law[model] / len(sets)
        means += mass * np.where(np.isnan(probabilities), model, probabilities)
        for i in np.flatnonzero(rates):
            other = tuple(1 - x if j == i else x for j, x in enumerate(model))
            leaves = model[i] == 1 and i not in anchors
            after = [s for s in sets if i in s] if leaves else sets
            for s in after:
                flows[row, states[other, s]] += mass * rates[i] / len(after)
    assert flows.max() > 0.01
    np.testing.assert_allclose(flows, flows.T, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(means, exact.pips, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    "case",
    [Case("plain", slab, "per-variable") for slab in SLABS]
    + [
        Case("duplicate", "g", "beta-binomial"),
        Case("duplicate", "independent", "fixed"),
        Case("groups", "hyper-g", "max-size"),
        Case("groups", "independent", "fixed"),
        Case("wide", "g", "fixed"),
        Case("columns", "eb-local", "fixed"),
        Case("heredity", "bic", "beta-binomial"),
        Case("heredity-groups", "independent", "fixed"),
    ],
    ids=lambda case: case.id,
)
def test_probabilities_are_those_of_the_full_scan(case: Case) -> None:
    """Along a walk by single flips, so that kept rows of Z are used, and for every set in turn."""
    p = problem(case).p
    found = Rates(problem(case), (0, 3), 4)
    full = new_scan(found.target, found.work.z.shape[0])
    rng = np.random.default_rng(1)
    model: set[int] = set()
    for _ in range(60):
        proposed = model ^ {int(rng.integers(p))}
        order = [j for j in found.chain.order[: len(model)] if j in proposed] + list(proposed - model)
        if not found.go_to(order):
            continue
        model = proposed
        drawn = rng.choice([j for j in range(p) if j not in (0, 3)], size=2, replace=False)
        _, probabilities = found.at(drawn)
        kept = int(found.chain.ints[SCANNED])
        found.chain.ints[SCANNED] = 0
        assert scan_model(found.target, found.chain, full) == 0
        found.chain.ints[SCANNED] = kept
        seen = ~np.isnan(probabilities)
        assert set(np.flatnonzero(seen)) == {0, 3, *drawn.tolist()}
        expected = 1 / (1 + np.exp(-full.log_odds[seen]))
        np.testing.assert_allclose(probabilities[seen], expected, rtol=1e-7, atol=1e-12)


CASES = [Case("plain", slab, PRIORS[i % len(PRIORS)]) for i, slab in enumerate(SLABS)] + [
    Case("duplicate", "independent", "fixed"),
    Case("groups", "hyper-g", "max-size"),
    Case("growing", "independent", "per-variable", "full"),
    Case("columns", "eb-local", "fixed"),
    Case("heredity", "g", "beta-binomial"),
    Case("wide", "independent", "fixed"),
]


# statistical/test_against_enumeration.py has the plain ones, and columns, of this sampler too
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=c.id, marks=pytest.mark.slow if c.data in ("plain", "columns") else [])
        for c in CASES
    ],
)
def test_against_enumeration(case: Case) -> None:
    posteriors = runs(case, SMALL)
    exact = truth(case)
    assert_accurate(posteriors, exact.pips)
    sizes = np.mean([p.sizes for p in posteriors], axis=0)
    np.testing.assert_allclose(sizes, exact.size_distribution, rtol=0, atol=0.04)


def run(case: Case, sampler: Any, draws: int, **options: Any) -> wv.Posterior:
    options = {"seed": 3, "start": case.starting_models, "progress": False} | options
    return wv.sample(problem(case), sampler, draws=draws, **options)


def runs(case: Case, sampler: Any) -> list[wv.Posterior]:
    return [run(case, sampler, 6000, seed=seed) for seed in range(6)]


def assert_accurate(posteriors: list[wv.Posterior], pips: np.ndarray) -> None:
    """By the errors of all runs together: that of a single one rests on too few chains to be exact itself."""
    found = np.mean([p.pip for p in posteriors], axis=0)
    error = np.sqrt(np.mean([p.mcse**2 for p in posteriors], axis=0) / len(posteriors))
    assert error.max() < 0.01
    assert np.abs((found - pips) / np.maximum(error, 1e-9)).max() < 4


@pytest.mark.parametrize(
    "sampler", [wv.SubsetGibbs(subset=7, anchors=3), wv.SubsetGibbs(subset=1, anchors=0)], ids=["all", "one"]
)
def test_all_variables_and_one_variable(sampler: wv.SubsetGibbs) -> None:
    """S of everything is the full version; S of a single variable and no anchors still gives the posterior."""
    case = Case("plain", "independent", "fixed")
    posteriors = runs(case, sampler)
    assert_accurate(posteriors, truth(case).pips)
    if sampler.subset == 7:
        full = runs(case, wv.TemperedGibbs())
        rates = [[a["mean_rate"] for p in ps for a in p.adaptation] for ps in (posteriors, full)]
        assert np.mean(rates[0]) == pytest.approx(np.mean(rates[1]), rel=0.02)


def test_same_bits_for_any_threads_and_chunks() -> None:
    case = Case("growing", "independent", "per-variable")
    first = run(case, SMALL, 3000, threads=1)
    for options in ({"threads": 4}, {"chunk": 37}, {"chunk": 1000, "threads": 2}):
        again = run(case, SMALL, 3000, **options)
        np.testing.assert_array_equal(first.pip, again.pip)
        np.testing.assert_array_equal(first.mcse, again.mcse)
        np.testing.assert_array_equal(first.sizes, again.sizes)
    assert not np.array_equal(first.pip, run(case, SMALL, 3000, seed=4).pip)


def test_anchors_are_the_most_probable() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 300))
    X[:, 7] += 2 * X[:, 250]  # correlated with y by proxy alone
    y = 2 * X[:, 250] - X[:, 120] + rng.normal(size=60)
    target = wv.Problem(X, y, model_prior=wv.FixedInclusion(size=3))
    best = np.argsort(-correlations_with_response(target))[:2]
    assert set(best) == {7, 250}
    sampler = wv.SubsetGibbs(subset=20, anchors=2)
    posterior = wv.sample(target, sampler, draws=5000, seed=0, progress=False)
    for learned in posterior.adaptation:
        assert learned["anchors"].tolist() == [120, 250]
        assert learned["subset"] == 20
    assert posterior.pip[[120, 250]].min() > 0.9


def test_correlation_of_a_group_is_that_of_its_best_column() -> None:
    target = problem(Case("groups", "independent", "fixed"))
    values = correlations_with_response(target)
    assert values.shape == (6,)
    design = target.target(0).design
    each = np.abs(design.xty) / np.sqrt(design.diagonal)
    assert values[1] == each[1:4].max()


def test_defaults() -> None:
    for p in (1, 2, 3, 4, 9, 50, 5000, 10**6):
        size, anchors = wv.SubsetGibbs().counts(p)
        assert 0 <= anchors < size <= p
    assert wv.SubsetGibbs(subset=40).counts(1000) == (40, 20)


@pytest.mark.slow  # compiles for p = 1 alone
def test_one_variable() -> None:
    X = np.random.default_rng(0).normal(size=(20, 1))
    posterior = wv.sample(wv.Problem(X, X[:, 0]), wv.SubsetGibbs(), draws=500, progress=False)
    assert posterior.pip[0] > 0.99


def test_messages() -> None:
    case = Case("plain", "independent", "fixed")
    with pytest.raises(wv.DataError, match="subset must be at most the number of variables, 7, not 8"):
        run(case, replace(SMALL, subset=8), 100)
    with pytest.raises(wv.DataError, match="anchors must be fewer than the number of variables, 7, not 7"):
        run(case, wv.SubsetGibbs(anchors=7), 100)
    with pytest.raises(wv.DataError, match="anchors must be fewer than subset, not 4 with subset=4"):
        wv.SubsetGibbs(subset=4, anchors=4)
    with pytest.raises(wv.DataError, match="subset must be at least 1, not 0"):
        wv.SubsetGibbs(subset=0)
    with pytest.raises(TypeError, match=r"anchors must be a whole number or None, not 2\.5"):
        wv.SubsetGibbs(anchors=2.5)  # type: ignore[arg-type]
