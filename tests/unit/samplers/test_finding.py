"""Modes that are found before sampling, against all models."""

from __future__ import annotations

import gc
import itertools

import numpy as np
import pytest

import whichvars as wv
from support.cases import PRIORS, SLABS, Case, eight_variables_and_two_classes, problem, truth
from whichvars._kernels.chain import LOG_MARGINAL, LOG_PRIOR
from whichvars.problem.surrogate import bounded_reference, with_surrogate_at
from whichvars.samplers import finding, surrogates
from whichvars.samplers.finding import Mode, find_modes

CASES = [
    *(Case("plain", slab, "fixed") for slab in SLABS),
    *(Case("plain", "g", prior) for prior in PRIORS if prior != "fixed"),
    Case("duplicate", "g", "per-variable"),
    Case("duplicate", "independent", "fixed"),
    Case("groups", "hyper-g", "beta-binomial"),
    Case("groups", "independent", "max-size"),
    Case("wide", "bic", "fixed"),
    Case("wide", "zellner-siow", "max-size"),
    Case("always", "g", "fixed"),
    Case("known-variance", "independent", "fixed"),
    Case("growing", "independent", "fixed"),
    Case("columns", "g", "beta-binomial"),
    *(Case("heredity", "independent", prior) for prior in PRIORS),
    Case("heredity-groups", "g", "fixed"),
]


def mask(mode: Mode) -> int:
    return int(sum(1 << int(j) for j in mode.members))


def local_optima(case: Case) -> set[int]:
    """Models that no flip and no swap makes more probable, by brute force."""
    values, p = truth(case).log_joint, problem(case).p
    out = set()
    for model in np.flatnonzero(values > -np.inf).tolist():
        inside = [j for j in range(p) if model >> j & 1]
        outside = [j for j in range(p) if not model >> j & 1]
        near = [model ^ (1 << j) for j in range(p)]
        near += [model ^ (1 << i) ^ (1 << j) for i in inside for j in outside]
        if all(values[other] <= values[model] + 1e-6 for other in near):
            out.add(model)
    return out


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_modes_are_those_of_the_enumerated_posterior(case: Case) -> None:
    values, p = truth(case).log_joint, problem(case).p
    modes = find_modes(problem(case))
    found = [mask(mode) for mode in modes]
    assert len(set(found)) == len(found) > 0
    assert set(found) <= local_optima(case)
    assert max(values[found]) == pytest.approx(values.max(), abs=1e-6)  # of 9 variables at most
    for mode, model in zip(modes, found):
        assert mode.log_posterior - modes[0].log_posterior == pytest.approx(
            values[model] - values[found[0]], abs=1e-6
        )
        around = np.logaddexp.reduce(values[[model, *(model ^ (1 << j) for j in range(p))]])
        assert mode.log_mass - mode.log_posterior == pytest.approx(around - values[model], abs=1e-6)
    masses = [mode.log_mass for mode in modes]
    assert masses == sorted(masses, reverse=True)
    assert [mask(mode) for mode in find_modes(problem(case), most=1)] == found[:1]


def hidden_pair(p: int = 60, **options: object) -> wv.Problem:
    """Two columns of which each says nothing about y on its own, and both together nearly all: the null model is a mode."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, p))
    X[:, 1] = X[:, 0] + 0.1 * rng.normal(size=50)
    difference = X[:, 0] - X[:, 1]
    difference -= np.polyval(np.polyfit(X[:, 0], difference, 1), X[:, 0])
    y = 10 * difference + rng.normal(size=50)
    settings = {"slab": wv.IndependentNormal(100), "model_prior": wv.FixedInclusion(size=1), **options}
    return wv.Problem(X, y, **settings)


@pytest.mark.parametrize("engine", ["gram", "columns"])
def test_a_mode_behind_a_descent_is_found(engine: str) -> None:
    modes = find_modes(hidden_pair(engine=engine))
    assert [0, 1] in [mode.members.tolist() for mode in modes]


def products_of_boston() -> wv.Problem:
    """Boston's columns as recorded, with their squares and products: nearly collinear, with many modes in several groups."""
    data = wv.datasets.load_boston("raw")
    raw, binary = data.X.to_numpy(float), list(data.X.columns).index("CHAS")
    pairs = itertools.combinations_with_replacement(range(raw.shape[1]), 2)
    X = np.column_stack([raw, *(raw[:, i] * raw[:, j] for i, j in pairs if not i == j == binary)])
    return wv.Problem(
        X, data.y.to_numpy(float), slab=wv.IndependentNormal(100), model_prior=wv.FixedInclusion(size=5)
    )


def test_a_search_goes_on_while_it_finds_good_modes() -> None:
    """The first modes found are not the best ones: a long run finds a model 6 above them in log posterior, and a quarter of the mass in
    models that have column 9 in the place of column 8, the best of them 2.6 below the best."""
    modes = find_modes(products_of_boston())
    best = max(mode.log_posterior for mode in modes)
    values = {tuple(mode.members.tolist()): mode.log_posterior - best for mode in modes}
    assert values[(8, 13, 16, 17, 22, 61, 67, 70, 78, 79, 96, 102)] == 0
    assert max(value for model, value in values.items() if 9 in model and 8 not in model) > -2.7


def test_a_mode_behind_a_descent_that_takes_several_variables_at_once_is_found() -> None:
    """Five effects among 60 blocks of near copies. No search that begins at the null model comes there, and the null model is
    the best model that they find; rebuilding models of fixed sizes does."""
    data = wv.datasets.simulate_blocks(n=40, p=1200, block=20, correlation=0.9, effects=5, seed=68)
    target = wv.Problem(data.X, data.y, slab=wv.IndependentNormal(100), model_prior=wv.FixedInclusion(size=5))
    assert target.p > finding.LARGE
    best = find_modes(target)[0]
    assert best.log_posterior > 3
    assert data.truth is not None
    blocks = set((np.flatnonzero(data.truth) // 20).tolist())
    assert blocks < {int(j) // 20 for j in best.members}


@pytest.mark.parametrize("seed", [406, 411, 413])
def test_a_mode_of_eight_variables_behind_a_descent_is_found(seed: int) -> None:
    """Sequential replacement upwards alone does not come there, as often as it begins again; with the way down it does."""
    data = wv.datasets.simulate_blocks(n=40, p=1100, block=20, correlation=0.9, effects=8, seed=seed)
    assert data.truth is not None
    effects = np.flatnonzero(data.truth)
    y = data.y + 0.5 * data.X.to_numpy() @ data.truth.to_numpy()
    target = wv.Problem(data.X, y, slab=wv.IndependentNormal(100), model_prior=wv.FixedInclusion(size=5))
    true_model = finding._Searcher(target)
    assert true_model.go_to(effects)
    best = find_modes(target)[0]
    assert value_at(true_model) > null_value(target) + 3
    assert best.log_posterior > value_at(true_model) - 1e-6
    assert len({int(j) // 20 for j in best.members} & set((effects // 20).tolist())) >= 7


@pytest.mark.parametrize("case", [c for c in CASES if not c.data.startswith("heredity")], ids=lambda c: c.id)
def test_rebuilt_models_are_the_best_of_their_sizes(case: Case) -> None:
    values, p = truth(case).log_joint, problem(case).p
    size = np.array([bin(model).count("1") for model in range(len(values))])
    everything = finding.part_of(finding._Searcher(problem(case)).target, np.arange(p))
    for seed in (1, 2):
        models = finding._rebuilt(problem(case), everything, np.arange(p), [], p, seed)
        assert [len(model) for model in models] == list(range(1, len(models) + 1))
        for model in models:
            number = sum(1 << int(j) for j in model)
            assert values[number] == pytest.approx(values[size == len(model)].max(), abs=1e-6)


def test_the_same_modes_every_time() -> None:
    first, second = (find_modes(hidden_pair()) for _ in range(2))
    assert [m.members.tolist() for m in first] == [m.members.tolist() for m in second]
    assert [m.log_mass for m in first] == [m.log_mass for m in second]


def test_modes_are_looked_for_once_and_forgotten_with_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    target = hidden_pair()
    first = find_modes(target)
    monkeypatch.setattr(finding, "_search", lambda _: pytest.fail("searched again"))
    assert find_modes(target) == first
    before = len(finding._known)
    del target
    gc.collect()
    assert len(finding._known) < before


def test_nothing_is_looked_for_where_a_scan_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "LONGEST_SCAN", 1.0)
    assert find_modes(hidden_pair()) == []


@pytest.mark.parametrize("slab", [wv.GPrior(), wv.IndependentNormal(1.0)])
def test_copies_count_once(slab: object) -> None:
    """Exact copies are neither exchanged for one another for ever nor modes of their own."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    y = x @ [3.0, -3.0] + rng.normal(size=30)
    with pytest.warns(wv.DataWarning):
        target = wv.Problem(np.repeat(x, 20, axis=1), y, slab=slab, model_prior=wv.FixedInclusion(size=2))
    modes = find_modes(target)
    assert sorted(len(mode.members) for mode in modes) in ([2], [0, 2])  # the null model can be one
    assert [int(j) // 20 for j in modes[0].members] == [0, 1]


@pytest.mark.parametrize("case", [c for c in CASES if not c.data.startswith("heredity")], ids=lambda c: c.id)
def test_a_part_of_the_variables_has_the_same_posterior(case: Case) -> None:
    """All other variables stay out; with all of them, in another order, modes are those of the problem."""
    target = problem(case)
    values = truth(case).log_joint
    variables = np.array([4, 0, 3, 1])
    whole = finding._Searcher(target).target
    one = finding._Searcher(target, finding.part_of(whole, variables))
    for places in ([], [0], [1, 3], [2, 1, 0]):
        model = sum(1 << int(variables[a]) for a in places)
        if values[model] > -np.inf:
            assert one.go_to(np.array(places, np.int64))
            assert value_at(one) == pytest.approx(values[model] - values[0] + null_value(target), abs=1e-6)


def null_value(target: wv.Problem) -> float:
    return value_at(finding._Searcher(target))


def value_at(one: finding._Searcher) -> float:
    return float(one.chain.floats[LOG_MARGINAL] + one.chain.floats[LOG_PRIOR])


@pytest.mark.parametrize("case", [c for c in CASES if not c.data.startswith("heredity")], ids=lambda c: c.id)
def test_search_in_a_part_of_the_variables(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where p is large: modes are still modes among all variables, and the best of so few is found."""
    monkeypatch.setattr(finding, "LARGE", 3)
    found = [mask(mode) for mode in finding._search(problem(case))]
    assert set(found) <= local_optima(case)
    values = truth(case).log_joint
    assert max(values[found]) == pytest.approx(values.max(), abs=1e-6)


@pytest.mark.parametrize(("size", "searches"), [(0.5, 3), (60.0, 1)])
def test_one_search_where_chains_leave_the_best_mode_at_once(
    size: float, searches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nothing stands out, and hardly any variable is expected, a hidden mode is looked for three times. If sixty are expected, the mass is
    spread over larger models than any mode."""
    rng = np.random.default_rng(6)
    target = wv.Problem(
        rng.normal(size=(40, 100)), rng.normal(size=40), slab=wv.IndependentNormal(1.0), model_prior=wv.FixedInclusion(size=size)
    )  # fmt: skip
    monkeypatch.setattr(finding, "LARGE", 50)
    monkeypatch.setattr(finding, "STRONGEST", 30)
    search, made = finding._search_part, []

    def counted(*arguments):
        made.append(arguments)
        return search(*arguments)

    monkeypatch.setattr(finding, "_search_part", counted)
    finding._search(target)
    assert len(made) == searches


def test_a_search_that_is_over_before_anything_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "LARGE", 3)
    monkeypatch.setattr(finding, "scans_allowed", lambda _: 1)
    assert all(isinstance(mode, Mode) for mode in finding._search(hidden_pair()))


def test_a_mode_that_only_the_surrogate_has_is_no_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far from its reference a surrogate can have modes that the posterior does not have."""
    classes = eight_variables_and_two_classes()
    models = wv.exact(classes, progress=False).models
    best, poor = (np.array(models.members[i]) for i in (0, len(models.members) // 2))
    answers = iter([best, poor, best])
    monkeypatch.setattr(surrogates, "_best_mode", lambda seen: next(answers))
    found = surrogates.find_surrogate(classes)
    fitted = surrogates.fitted_reference(classes, best)
    assert fitted is not None
    expected = with_surrogate_at(classes, bounded_reference(classes, fitted[0]))
    np.testing.assert_array_equal(found.target(0).design.xty, expected.target(0).design.xty)
