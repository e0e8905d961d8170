"""Log marginal likelihoods: every slab against the oracle, engine against engine, and chains after long walks."""

import itertools

import numpy as np
import pytest

from support.in_turn import in_turn
from support.kernels import accept_proposal, evaluate_again, log_marginal_of, propose_flips
from support.paired import SLABS, Paired, make_paired
from whichvars._kernels.chain import COLUMNS, LOG_MARGINAL, LOG_PRIOR, NEEDED, SIZE, Chain, grow, new_chain
from whichvars._kernels.count.model_table import ALL_HITS, Memo, new_memo
from whichvars._kernels.products.gram_cache import new_gram_cache
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import make_room, new_unit
from whichvars.sampling.exact import exact

SITUATIONS = {
    "plain, even ν": {"n": 21},
    "odd ν": {"n": 22},
    "scale none": {"scale": "none"},
    "weights": {"weighted": True},
    "always included": {"always": 2},
    "groups": {"columns": 8, "groups": [[0], [1, 2, 3], [4], [5, 6], [7]]},
    "interleaved groups": {"columns": 6, "groups": [[0, 3], [1], [2, 5], [4]]},
    "inverse gamma": {"inverse_gamma": (1.3, 0.8)},
    "p > n": {"n": 9, "columns": 14},
    "duplicate": {"duplicate": True},
    "everything": {
        "n": 24, "columns": 8, "groups": [[0], [1, 2], [3], [4, 6], [5], [7]], "weighted": True, "always": 2,
        "inverse_gamma": (0.7, 2.0), "scale": "none",
    },
}  # fmt: skip


def random_models(p: int, count: int, seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    sizes = [0, 1, p, *rng.integers(0, p + 1, count - 3)]
    return [rng.permutation(p)[:k].tolist() for k in sizes]


def assert_equals_oracle(case: Paired, problem: Problem, count: int = 25) -> None:
    for members in random_models(case.p, count, seed=5):
        expected = case.log_marginal(members)
        found = log_marginal_of(problem, members)
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-9), members


@pytest.mark.parametrize(
    ("slab", "situation"),
    [
        (slab, situation)
        for slab in SLABS
        for situation, parts in SITUATIONS.items()
        if not (slab == "bic" and "inverse_gamma" in parts)  # BIC has no prior on the noise variance
    ],
)
@pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")
def test_log_marginal_equals_the_oracle(slab, situation):
    case = make_paired(slab, **SITUATIONS[situation])
    assert_equals_oracle(case, case.problem())


@pytest.mark.parametrize("groups", [None, [[0], [1, 2], [3], [4, 5], [6]]])
@pytest.mark.parametrize("scale", ["unit", "none"])
def test_one_g_per_variable(scale, groups):
    g = np.geomspace(0.1, 400.0, 7 if groups is None else 5)
    case = make_paired(g=g, scale=scale, groups=groups, weighted=True)
    assert_equals_oracle(case, case.problem())


def test_g_by_name():
    for g, value in (("n", 21.0), ("bric", 49.0)):
        case = make_paired("g-prior")
        case.slab, case.oracle_slab = type(case.slab)(g), type(case.oracle_slab)("g", g=value)
        assert_equals_oracle(case, case.problem(), count=8)


@pytest.mark.parametrize("slab", ["independent", "g-prior", "zellner-siow"])
def test_order_of_entry_does_not_matter(slab):
    problem = make_paired(slab).problem()
    members = np.array([5, 1, 3, 6, 0])
    values = [
        log_marginal_of(problem, np.random.default_rng(seed).permutation(members)) for seed in range(20)
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-11)


@pytest.mark.parametrize(("left_over", "deficient"), [(0.5e-10, True), (2e-10, False)])
def test_rank_does_not_depend_on_the_order_of_entry(left_over, deficient):
    """x₂ = x₀ + x₁/100 but for a share `left_over` of its square: in some orders all pivots are above the
    tolerance of 1e-10, whichever side of it the model is on."""
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(np.column_stack([np.ones(30), rng.normal(size=(30, 4))]))[0][:, 1:]
    X = basis[:, [0, 1, 0]] + [0.0, 0.0, 0.01] * basis[:, [1]] + [0.0, 0.0, left_over**0.5] * basis[:, [2]]
    case = make_paired("g-prior", n=30, columns=3)
    case.X, case.y = X, basis @ [1.0, 0.5, 0.0, 0.7]
    problem = case.problem()
    for members in itertools.permutations(range(3)):
        assert (log_marginal_of(problem, members) == -np.inf) == deficient, members
    assert (case.log_marginal([0, 1, 2]) == -np.inf) == deficient
    for order in itertools.permutations(range(3)):
        case.X = X[:, order]
        assert exact(case.problem()).iterations == 8 - deficient, order


# --- walks


class Walk:
    """A chain on a random walk of accepted and rejected proposals, whatever their probability."""

    def __init__(
        self, problem: Problem, capacity: int, memo: Memo, seed: int, cache_bytes: int = 1 << 20
    ) -> None:
        self.problem, self.memo, self.rng = problem, memo, np.random.default_rng(seed)
        self.chain: Chain = new_chain(problem.target(capacity), capacity, cache_bytes)
        self.grown = self.accepted = self.rejected = 0

    def propose(self, flips: np.ndarray) -> float:
        ratio = propose_flips(self.problem.target(len(self.chain.slot)), self.chain, self.memo, flips)
        while self.chain.ints[NEEDED]:
            capacity = int(self.chain.ints[NEEDED]) + 1
            self.chain = grow(self.chain, capacity)
            self.grown += 1
            ratio = evaluate_again(self.problem.target(capacity), self.chain, self.memo)
        return ratio

    def step(self, largest: int) -> None:
        count = min(1 + self.rng.geometric(0.6), self.problem.p)
        flips = self.rng.permutation(self.problem.p)[:count]
        excess = int(self.chain.ints[SIZE]) - largest
        if excess > 0:  # drift back to small models
            flips = self.rng.permutation(self.chain.order[: self.chain.ints[SIZE]])[: excess + 2]
        before = self.chain.floats[LOG_MARGINAL] + self.chain.floats[LOG_PRIOR]
        ratio = self.propose(flips)
        if ratio > -np.inf and self.rng.random() < 0.5:
            accept_proposal(self.problem.target(len(self.chain.slot)), self.chain)
            after = self.chain.floats[LOG_MARGINAL] + self.chain.floats[LOG_PRIOR]
            assert after - before == pytest.approx(ratio, rel=1e-9, abs=1e-9)
            self.accepted += 1
        else:
            self.rejected += 1

    def members(self) -> list[int]:
        return self.chain.order[: self.chain.ints[SIZE]].tolist()

    def check(self, expected_log_marginal: float) -> None:
        chain, problem = self.chain, self.problem
        members = self.members()
        assert chain.floats[LOG_MARGINAL] == pytest.approx(expected_log_marginal, rel=1e-8, abs=1e-8)
        log_odds, log_size = problem.model_prior.log_terms(problem.p)
        expected_prior = log_odds[members].sum() + log_size[len(members)]
        assert chain.floats[LOG_PRIOR] == pytest.approx(expected_prior, abs=1e-8)
        assert chain.ints[COLUMNS] == np.diff(problem.offsets)[members].sum()
        assert [int(chain.position[j]) for j in members] == list(range(len(members)))
        assert (chain.position >= 0).sum() == len(members)


WALKS = {
    "single columns": {"n": 40, "columns": 25},
    "groups": {"n": 41, "columns": 30, "groups": [[3 * i, 3 * i + 1, 3 * i + 2][: 1 + i % 3] for i in range(10)]},
}  # fmt: skip


def walking_case(slab: str, kind: str) -> Paired:
    case = make_paired(slab, **WALKS[kind])
    if case.groups is not None:  # keep only the columns that are in a group
        used = sorted(c for columns in case.groups for c in columns)
        case.X = case.X[:, used]
        case.groups = [[used.index(c) for c in columns] for columns in case.groups]
    return case


@pytest.mark.parametrize(
    ("slots", "slab", "kind", "engine"),
    in_turn([0, 64, 1 << 14], ["independent", "g-prior", "hyper-g"], WALKS, ["gram", "columns"]),
)
def test_long_walk_stays_right(slab, kind, slots, engine):
    case = walking_case(slab, kind)
    walk = Walk(case.problem(engine=engine), capacity=2, memo=new_memo(slots), seed=slots)
    for i in range(1, 2001):
        walk.step(largest=6)
        if i % 100 == 0:
            walk.check(case.log_marginal(walk.members()))
    assert walk.grown > 0
    assert min(walk.accepted, walk.rejected) > 300
    if slots == 1 << 14:
        assert walk.memo.counters[ALL_HITS] > 0


@pytest.mark.parametrize("slots", [0, 64, 1 << 14])
def test_walk_on_few_models_with_many_hits(slots):
    """Accepting remembered values leaves rows of the factor for later; they must be made good."""
    case = make_paired("independent", columns=6)
    walk = Walk(case.problem(), capacity=6, memo=new_memo(slots), seed=1)
    known = {}
    for _ in range(3000):
        walk.step(largest=4)
        members = tuple(sorted(walk.members()))
        if members not in known:
            known[members] = case.log_marginal(members)
        walk.check(known[members])


def test_rank_deficient_models_are_never_entered():
    case = make_paired("g-prior", columns=6, duplicate=True)
    with pytest.warns(UserWarning, match="perfectly correlated"):
        problem = case.problem()
    walk = Walk(problem, capacity=6, memo=new_memo(64), seed=2)
    for _ in range(2000):
        walk.step(largest=6)
        assert not {0, 5} <= set(walk.members())
    walk.check(case.log_marginal(walk.members()))
    assert walk.propose(np.array([j for j in (0, 5) if j not in walk.members()])) == -np.inf


# --- engines


@pytest.mark.parametrize("slab", ["independent", "g-prior", "zellner-siow"])
@pytest.mark.parametrize("places", [0, 8, 40])
def test_engines_agree_on_a_walk(slab, places):
    """n ≥ 128, so that Gram columns are kept; 8 places for 40 columns, so that they are given away too."""
    case = make_paired(slab, n=150, columns=40)
    gram, columns = case.problem(engine="gram"), case.problem(engine="columns")
    walks = [
        Walk(problem, capacity=3, memo=new_memo(0), seed=9, cache_bytes=places * 40 * 8) for problem in (gram, columns)
    ]  # fmt: skip
    one, other = walks
    assert len(other.chain.gram_cache.kept) == places
    for i in range(1, 1501):
        one.step(largest=8)
        other.step(largest=8)
        assert one.members() == other.members()
        assert one.chain.floats[LOG_MARGINAL] == pytest.approx(
            other.chain.floats[LOG_MARGINAL], rel=1e-10, abs=1e-10
        )
        if i % 300 == 0:
            other.check(case.log_marginal(other.members()))
    cache = other.chain.gram_cache
    places_in_use = np.flatnonzero(cache.kept >= 0)
    assert len(places_in_use) >= min(places, 30)
    np.testing.assert_array_equal(cache.place[cache.kept[places_in_use]], places_in_use)
    assert (cache.place >= 0).sum() == len(places_in_use)
    X = columns.target(0).design.columns
    if places:
        expected = X @ X[cache.kept[places_in_use]].T
        np.testing.assert_allclose(cache.values[:, places_in_use], expected, rtol=1e-12, atol=1e-12)


def test_gram_cache_is_left_out_where_it_does_not_pay():
    assert (
        len(new_gram_cache(make_paired(n=127).problem(engine="columns").target(0).design, 1 << 20).kept) == 0
    )
    design = make_paired(n=128, columns=10).problem(engine="columns").target(0).design
    assert len(new_gram_cache(design, 1 << 20).kept) == 10
    assert len(new_gram_cache(design, 7 * 8 * 10).kept) == 0
    assert len(new_gram_cache(make_paired(n=128).problem(engine="gram").target(0).design, 1 << 20).kept) == 0


def test_make_room_keeps_the_waiting_proposal():
    case = make_paired("hyper-g", n=60, columns=50)
    problem = case.problem()
    unit = new_unit(problem, np.random.SeedSequence(0, spawn_key=(0,)), 0, np.arange(30), memo_slots=64)
    assert len(unit.chain.slot) == 32
    flips = np.array([2, 40, 41, 42, 43, 7])
    propose_flips(problem.target(32), unit.chain, unit.memo, flips)
    assert unit.chain.ints[NEEDED] == 34
    make_room(problem, unit)
    capacity = len(unit.chain.slot)
    assert capacity == unit.tally.record_models.shape[1] == 64
    assert unit.chain.ints[NEEDED] == 0
    assert evaluate_again(problem.target(capacity), unit.chain, unit.memo) > -np.inf
    accept_proposal(problem.target(capacity), unit.chain)
    members = sorted(unit.chain.order[: unit.chain.ints[SIZE]].tolist())
    assert members == sorted((set(range(30)) - {2, 7}) | {40, 41, 42, 43})
    assert unit.chain.floats[LOG_MARGINAL] == pytest.approx(case.log_marginal(members), abs=1e-8)
