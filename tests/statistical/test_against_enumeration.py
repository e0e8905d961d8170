"""Every sampler within Monte Carlo error of brute force, for every slab, every model prior and hard cases."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from statistical.samplers_under_test import IN_TURN, KINDS, SAMPLERS
from support.cases import OTHER_SLABS, PRIORS, SLABS, Case, problem, truth
from support.once import once
from support.scores import Scores, scores
from support.strong import IN_ROWS, STRENGTHS, STRUCTURES, is_strong

# ``make test`` and ``make test-rest`` have short runs of the cases called "few", half as many of them; the others have variables that
# hardly ever move, and need long ones. ``make test-slow`` has long runs of every case, and short ones of all cases of strong evidence.
DRAWS = {"quick": 10_000, "long": 30_000}
HARD = [
    Case("duplicate", "independent", "fixed"),
    Case("duplicate", "g", "beta-binomial"),
    Case("duplicate", "bic", "per-variable"),
    Case("always", "hyper-g/n", "per-variable"),
    Case("weights", "independent", "beta-binomial"),
    Case("weights", "zellner-siow", "fixed"),
    Case("groups", "independent", "per-variable"),
    Case("groups", "hyper-g", "max-size"),
    Case("wide", "independent", "fixed"),
    Case("wide", "g", "fixed"),
    Case("inverse-gamma", "independent", "fixed"),
    Case("inverse-gamma", "hyper-g/n", "beta-binomial"),
    Case("growing", "independent", "per-variable", "full"),
    Case("growing", "hyper-g/n", "fixed", "null"),
    Case("growing", "g", "per-variable", "full"),
    Case("columns", "independent", "beta-binomial-max-size"),
    Case("columns", "eb-local", "fixed"),
    Case("unscaled", "independent", "per-variable"),
    Case("known-variance", "independent", "beta-binomial"),
    Case("known-variance", "g", "per-variable", "full"),
    Case("known-variance", "bic", "fixed"),
]
HEREDITY = [
    Case("heredity", "independent", "fixed"),
    Case("heredity", "g", "beta-binomial", "full"),
    Case("heredity-groups", "hyper-g", "per-variable"),
    Case("heredity-groups", "bic", "beta-binomial"),
]
# of the slabs that are not tried with everything else: these in ``make test-slow``, and in ``make test`` two for each sampler in turn
OTHERS = [
    Case("plain", "unknown-g", "fixed"),
    Case("duplicate", "unknown-g", "per-variable"),
    Case("weights", "unknown-g", "beta-binomial"),
    Case("groups", "unknown-g", "max-size"),
    Case("growing", "unknown-g", "per-variable", "full"),
    Case("wide", "unknown-g", "fixed"),
    Case("columns", "unknown-g", "beta-binomial-max-size"),
    Case("known-variance", "unknown-g", "beta-binomial"),
    Case("unscaled", "unknown-g", "per-variable"),
    Case("heredity", "unknown-g", "beta-binomial"),
    Case("plain", "robust", "fixed"),
    Case("always", "robust", "per-variable"),
    Case("groups", "intrinsic", "beta-binomial"),
    Case("duplicate", "intrinsic", "fixed"),
    Case("weights", "beta-prime", "max-size"),
    Case("inverse-gamma", "cch", "beta-binomial-max-size"),
    Case("columns", "cch", "fixed"),
    Case("heredity", "jzs", "per-variable"),
    Case("plain", "jzs", "beta-binomial"),
]
OTHERS_STRONG = [
    Case("strong-stand-ins-3", "unknown-g", "per-variable"),
    Case("strong-stand-ins-7", "unknown-g", "fixed", "null"),
    Case("strong-plain-5", "unknown-g", "beta-binomial"),
    Case("strong-groups-5", "unknown-g", "fixed"),
    Case("strong-duplicate-7", "unknown-g", "per-variable", "null"),
    Case("strong-heredity-5", "unknown-g", "beta-binomial"),
    Case("strong-columns-3", "unknown-g", "fixed", "full"),
    Case("strong-mapped-3", "unknown-g", "beta-binomial"),
    Case("strong-stand-ins-7", "robust", "fixed"),
    Case("strong-groups-5", "intrinsic", "per-variable", "null"),
    Case("strong-plain-3", "beta-prime", "beta-binomial"),
    Case("strong-heredity-5", "cch", "fixed"),
    Case("strong-stand-ins-3", "jzs", "per-variable"),
]
EVERYTHING = [Case("plain", slab, prior) for slab in SLABS for prior in PRIORS] + HARD + HEREDITY
# every slab once, the priors in turn; every other hard case
REDUCED = [Case("plain", slab, PRIORS[i % len(PRIORS)]) for i, slab in enumerate(SLABS)] + HARD[::2]
CASES = {
    "full": EVERYTHING,
    "reduced": REDUCED + HEREDITY[1:3],
    "few": [  # out of "reduced"
        Case("weights", "independent", "beta-binomial"),
        Case("plain", "g", "per-variable"),
        Case("heredity-groups", "hyper-g", "per-variable"),
        Case("plain", "hyper-g/n", "max-size"),
        Case("plain", "zellner-siow", "beta-binomial-max-size"),
        Case("columns", "eb-local", "fixed"),
        Case("duplicate", "bic", "per-variable"),
        Case("known-variance", "independent", "beta-binomial"),
    ],
}

# Strong evidence, see support/strong.py: every structure with every slab, strengths and priors in turn; and every slab at every
# strength, the structures in turn. Duplicates have no mass together but under the independent slab
ROOMY = [prior for prior in PRIORS if "max-size" not in prior]
STRONG_GRID = [
    (structure, strength, slab)
    for structure in STRUCTURES
    for strength in STRENGTHS
    for slab in SLABS
    if (structure != "duplicate" or slab == "independent")
    and not (structure in IN_ROWS and strength == "7")  # as many rows as that
]


def strong_case(i: int, structure: str, strength: str, slab: str) -> Case:
    return Case(f"strong-{structure}-{strength}", slab, ROOMY[i % 3], ("mixed", "null", "full")[i % 7 % 3])


def in_turn(i: int, strength: str, slab: str) -> tuple[str, str, str]:
    possible = [s for s in STRUCTURES if (s, strength, slab) in STRONG_GRID]
    return possible[i % len(possible)], strength, slab


STRONG = [
    strong_case(i, structure, strengths[(j + k) % len(strengths)], slab)
    for i, (j, structure, k, slab) in enumerate(
        (j, structure, k, slab) for j, structure in enumerate(STRUCTURES) for k, slab in enumerate(SLABS)
    )
    if (strengths := [s for s in STRENGTHS if (structure, s, slab) in STRONG_GRID])
]
STRONG_IN_TURN = [
    strong_case(i + 2 * k, *in_turn(2 + 3 * i + k, strength, slab))
    for i, strength in enumerate(STRENGTHS)
    for k, slab in enumerate(SLABS)
]
TIGHT = [
    Case(f"strong-{structure}-{strength}", slab, PRIORS[3 + i % 2], ("mixed", "null")[i % 2])
    for i, (structure, strength, slab) in enumerate(
        [
            ("stand-ins", "3", "independent"),
            ("stand-ins", "5", "g"),
            ("stand-ins", "7", "zellner-siow"),
            ("plain", "3", "hyper-g"),
            ("plain", "5", "bic"),
            ("columns", "3", "hyper-g/n"),
            ("duplicate", "7", "independent"),
        ]
    )
]
QUICK_STRONG = {
    "all": [
        Case("strong-stand-ins-3", "independent", "per-variable"),
        Case("strong-stand-ins-7", "hyper-g", "per-variable"),
        Case("strong-stand-ins-5", "g", "max-size", "null"),
        Case("strong-plain-5", "bic", "beta-binomial-max-size"),
        Case("strong-groups-7", "zellner-siow", "fixed"),
        Case("strong-heredity-5", "eb-local", "beta-binomial"),
        Case("strong-columns-3", "hyper-g/n", "max-size"),
        Case("strong-duplicate-7", "independent", "fixed", "null"),
        Case("strong-mapped-3", "bic", "beta-binomial"),
    ],
    "few": [
        Case("strong-stand-ins-7", "hyper-g", "per-variable"),
        Case("strong-heredity-5", "eb-local", "beta-binomial"),
    ],
    "one": [Case("strong-stand-ins-7", "hyper-g", "per-variable")],
}


def strong_cases_of(sampler: str, length: str) -> list[Case]:
    tested = SAMPLERS[sampler]
    if length == "quick":
        cases = QUICK_STRONG[tested.strong]
    else:
        cases = list(dict.fromkeys((STRONG if tested.jumps else []) + STRONG_IN_TURN + TIGHT))
    return [c for c in cases if tested.swaps or "max-size" not in c.prior]


def cases_of(sampler: str) -> list[Case]:
    return CASES[SAMPLERS[sampler].cases]


def quick_cases_of(sampler: str) -> list[Case]:
    """Those that ``make test`` runs."""
    few = CASES["few"]
    if sampler in IN_TURN:
        first = 3 * IN_TURN.index(sampler)
        return [few[i % len(few)] for i in range(first, first + 3)]
    return [c for c in cases_of(sampler) if c in CASES[SAMPLERS[sampler].quick]]


def others_of(sampler: str, length: str) -> list[Case]:
    """Cases of the other slabs: in ``make test``, one of strong evidence and one besides."""
    if length == "long":
        return OTHERS + OTHERS_STRONG
    i = list(SAMPLERS).index(sampler)
    return [OTHERS[i % len(OTHERS)], OTHERS_STRONG[i % len(OTHERS_STRONG)]]


def test_no_slab_and_no_prior_is_left_out() -> None:
    assert {c.slab for c in OTHERS} == {c.slab for c in OTHERS_STRONG} == set(OTHER_SLABS)
    assert {c for s in SAMPLERS for c in others_of(s, "quick")} == set(OTHERS + OTHERS_STRONG)
    for name in SAMPLERS:
        for cases in (cases_of(name), quick_cases_of(name)) if name not in IN_TURN else (cases_of(name),):
            assert {c.slab for c in cases} == set(SLABS), name
            assert {c.prior for c in cases} == set(PRIORS), name
        assert set(quick_cases_of(name)) <= set(cases_of(name)), name
        strong = strong_cases_of(name, "long")
        assert {c.slab for c in strong} == set(SLABS), name
        for strength in STRENGTHS:
            slabs = {c.slab for c in strong if c.data.endswith(f"-{strength}")}
            assert slabs == set(SLABS), (name, strength)
        for structure in STRUCTURES:
            assert any(c.data.startswith(f"strong-{structure}") for c in strong), (name, structure)
    assert not set(KINDS) & set(IN_TURN)
    assert {c for name in IN_TURN for c in quick_cases_of(name)} == set(CASES["few"])


Result = Callable[[str, Case, str], Scores]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Every case is run once: what is looked at case by case is looked at once more for all of them together."""

    def scores_of(sampler: str, case: Case, length: str) -> Scores:
        name = f"scores {sampler} {case.id} {length}"
        found = once(tmp_path_factory, name, lambda: compute(sampler, case, length).as_lists())
        return Scores.from_lists(found)

    return cache(scores_of)


def compute(sampler: str, case: Case, length: str) -> Scores:
    tested = SAMPLERS[sampler]
    strong_draws = tested.strong_draws if is_strong(case.data) and length == "long" else None
    if is_strong(case.data):  # they are many, and short runs show what is wrong with them
        length = "quick"
    own = strong_draws or (tested.quick_draws if length == "quick" else None) or tested.draws
    return scores(
        problem(case),
        tested.settings,
        truth(case),
        draws=own or DRAWS[length if case in CASES["few"] or is_strong(case.data) else "long"],
        runs=tested.runs_of(length),
        start=case.starting_models,
        seed=zlib.crc32(f"{sampler} {case.id}".encode()) % 10**6,
    )


@pytest.mark.parametrize(
    ("sampler", "case", "length"),
    [
        *(pytest.param(s, c, "quick", id=f"{s}-{c.id}") for s in SAMPLERS for c in quick_cases_of(s)),
        *(
            pytest.param(s, c, "long", id=f"{s}-{c.id}-long", marks=pytest.mark.slow)
            for s in SAMPLERS
            for c in cases_of(s)
        ),
    ],
)
def test_within_monte_carlo_error(sampler: str, case: Case, length: str, result: Result) -> None:
    check(result(sampler, case, length), length)


@pytest.mark.parametrize(
    ("sampler", "case", "length"),
    [
        *(
            pytest.param(s, c, "quick", id=f"{s}-{c.id}")
            for s in SAMPLERS
            for c in strong_cases_of(s, "quick")
        ),
        *(
            pytest.param(s, c, "long", id=f"{s}-{c.id}-long", marks=pytest.mark.slow)
            for s in SAMPLERS
            for c in strong_cases_of(s, "long")
        ),
    ],
)
def test_strong_evidence_within_monte_carlo_error(
    sampler: str, case: Case, length: str, result: Result
) -> None:
    check(result(sampler, case, length), length)


@pytest.mark.parametrize(
    ("sampler", "case", "length"),
    [
        *(
            pytest.param(s, c, "quick", id=f"{s}-{c.id}", marks=() if s in KINDS else pytest.mark.rest)
            for s in SAMPLERS
            for c in others_of(s, "quick")
        ),
        *(
            pytest.param(s, c, "long", id=f"{s}-{c.id}-long", marks=pytest.mark.slow)
            for s in SAMPLERS
            for c in others_of(s, "long")
        ),
    ],
)
def test_other_slabs_within_monte_carlo_error(sampler: str, case: Case, length: str, result: Result) -> None:
    check(result(sampler, case, length), length)


def check(found: Scores, length: str) -> None:
    # ``make test-slow`` has some fifty thousand scores, one of which is likely to exceed 4.5 by chance
    limit = {"quick": 4.5, "long": 5.0}[length]
    assert np.abs(found.pips).max(initial=0) < limit, found
    assert np.abs(found.frequencies).max(initial=0) < limit, found
    assert np.abs(found.averages).max(initial=0) < limit, found
    assert np.abs(found.sizes).max(initial=0) < limit, found
    assert np.abs(found.models).max(initial=0) < limit, found


POOLED = [
    *(
        pytest.param(s, quick_cases_of(s), "quick", id=s, marks=pytest.mark.rest)
        for s in SAMPLERS
        if SAMPLERS[s].quick not in ("few", "some")
    ),
    *(pytest.param(s, cases_of(s), "long", id=f"{s}-all", marks=pytest.mark.slow) for s in SAMPLERS),
    *(
        pytest.param(s, strong_cases_of(s, "quick"), "quick", id=f"{s}-strong", marks=pytest.mark.rest)
        for s in SAMPLERS
        if SAMPLERS[s].strong == "all"
    ),
    *(
        pytest.param(s, strong_cases_of(s, "long"), "long", id=f"{s}-strong-all", marks=pytest.mark.slow)
        for s in SAMPLERS
    ),
]


@pytest.mark.parametrize(("sampler", "cases", "length"), POOLED)
def test_no_bias_over_all_cases(sampler: str, cases: list[Case], length: str, result: Result) -> None:
    """What is too small to show in one case shows in all of them together."""
    found = [result(sampler, case, length) for case in cases]
    # of few scans, as in long columns, their error is not known, and they have no scores
    assert any(len(f.averages) for f in found), "every sampler averages conditional probabilities"
    rest = np.concatenate([np.append(f.sizes, f.models) for f in found])
    exact = getattr(SAMPLERS[sampler].settings, "exact_weights", False)
    for kind in ("pips", "frequencies", "averages"):
        values = np.concatenate([getattr(f, kind) for f in found])
        # at least 0.6: reported errors are not much too large either, unless all there is to them is rounding
        least = 0.0 if exact and kind != "frequencies" else 0.6
        assert least < np.sqrt(np.mean(values**2)) < SAMPLERS[sampler].rms, (kind, values)
    assert np.sqrt(np.mean(rest**2)) < SAMPLERS[sampler].rms, rest
    # the cases are independent, the scores within one are not
    by_case = {  # and the least their standard deviation can be, as a few values may happen to lie close together
        "inclusion": (np.array([f.pips.mean() for f in found if len(f.pips)]), 0.3),
        "conditional inclusion": (np.array([f.averages.mean() for f in found if len(f.averages)]), 0.3),
        "mean size": (np.array([f.mean_size for f in found]), 1.0),
    }
    for what, (values, least) in by_case.items():
        error = max(values.std(ddof=1), least) / np.sqrt(len(values))
        assert abs(values.mean()) < 3.5 * error, (what, values)
