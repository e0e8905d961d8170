"""Short exact checks of the kernels, for copies of the package that may be broken on purpose.

    NUMBA_DISABLE_JIT=1 PYTHONPATH=tests python -m support.mutant_checks copy-1 copy-2=check_walks …

Each argument is a folder that holds a package ``whichvars``, and the check to make if not all. Prints JSON: for
each folder the names of the checks that fail, with the reason. Everything is deterministic, and right to rounding or wrong.
"""

import json
import math
import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib.machinery import SourceFileLoader
from typing import Any

import numpy as np

from support.branching import draw_additions_by_coins, draw_entering_by_sums, law, starting_point


def close(found: Any, expected: Any, what: str) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8, err_msg=what)


def check_enumeration() -> None:
    """Exact posteriors are the oracle's."""
    from support.paired import make_paired, model_priors
    from whichvars.sampling.exact import exact

    for slab in ("independent", "g-prior", "local empirical Bayes"):
        for parts in (
            {"n": 10},
            {"n": 11, "weighted": True, "always": 1, "inverse_gamma": (0.6, 1.1)},
            {"n": 11, "weighted": True, "known_variance": 0.7},
        ):
            case = make_paired(slab, columns=4, groups=[[0], [1, 2], [3]], **parts)
            for name in ("per variable", "beta-binomial"):
                ours, theirs = model_priors(name, case.p)
                found, expected = exact(case.problem(model_prior=ours)), case.posterior(theirs)
                close(found.pip, expected.pips, f"inclusion probabilities, {slab}, {name}")
                close(found.sizes, expected.size_distribution, f"sizes, {slab}, {name}")
                close(found.log_evidence, expected.log_evidence, f"evidence, {slab}, {name}")


def check_lists() -> None:
    """The models of a list have the marginal likelihoods that they have in the enumeration."""
    import whichvars as wv
    from support.paired import make_paired
    from whichvars.posterior.coefficients import KeptModels
    from whichvars.posterior.marginals import log_marginals

    for slab in ("independent", "g-prior"):
        problem = make_paired(slab, columns=6, groups=[[0], [1, 2], [3], [4, 5]]).problem()
        models = wv.exact(problem).models
        found = log_marginals(problem, KeptModels.listed(models.members))
        close(found, models.log_marginal, f"lists, {slab}")


known_marginals: dict[tuple[bytes, str, frozenset[int]], float] = {}  # the oracle's, the same for all copies


def walk(case: Any, problem: Any, slots: int, steps: int, cache_bytes: int = 0) -> None:
    """Proposals accepted and rejected in turn at random; the state is checked after each."""
    from support.kernels import accept_proposal, evaluate_again, propose_flips
    from whichvars._kernels.chain import LOG_MARGINAL, LOG_PRIOR, NEEDED, SIZE, grow, new_chain
    from whichvars._kernels.count.model_table import new_memo

    rng = np.random.default_rng(slots)
    chain, memo, known = new_chain(problem.target(2), 2, cache_bytes), new_memo(slots), {}
    log_odds, log_size = problem.model_prior.log_terms(problem.p)

    def value(members: frozenset[int]) -> tuple[float, float]:
        if members not in known:
            prior = sum(log_odds[j] for j in members) + log_size[len(members)]
            key = case.X.tobytes(), str(case.oracle_slab), members
            if key not in known_marginals:
                known_marginals[key] = case.log_marginal(sorted(members))
            known[members] = known_marginals[key], prior
        return known[members]

    for step in range(steps):
        before = frozenset(chain.order[: chain.ints[SIZE]].tolist())
        flips = rng.permutation(problem.p)[: rng.integers(1, 4)]
        ratio = propose_flips(problem.target(len(chain.slot)), chain, memo, flips)
        if chain.ints[NEEDED]:
            chain = grow(chain, int(chain.ints[NEEDED]))
            ratio = evaluate_again(problem.target(len(chain.slot)), chain, memo)
        after = before ^ frozenset(flips.tolist())
        close(ratio, sum(value(after)) - sum(value(before)), f"log ratio in step {step}")
        if rng.random() < 0.5:
            accept_proposal(problem.target(len(chain.slot)), chain)
            assert frozenset(chain.order[: chain.ints[SIZE]].tolist()) == after
        else:
            after = before
        close(chain.floats[[LOG_MARGINAL, LOG_PRIOR]], value(after), f"state after step {step}")


def check_walks() -> None:
    """A chain's ratios and state are the oracle's along walks of accepted and rejected proposals."""
    from support.paired import make_paired, model_priors

    for slab in ("independent", "g-prior"):
        for slots in (0, 64):
            case = make_paired(slab, n=14, columns=8, groups=[[0], [1, 2], [3], [4, 5], [6], [7]])
            for name in ("per variable", "beta-binomial"):
                walk(case, case.problem(model_prior=model_priors(name, case.p)[0]), slots, steps=120)
    wide = make_paired(n=128, columns=16)
    walk(wide, wide.problem(engine="columns"), slots=0, steps=150, cache_bytes=8 * 16 * 8)
    # models so large that their inverse is kept, few enough that some are met again
    small = make_paired(n=40, columns=9)
    walk(small, small.problem(), slots=256, steps=600)


def check_heredity() -> None:
    """Enumeration, a walk that flips several variables at once, and the scan are the oracle's under heredity."""
    from support import oracle
    from support.kernels import accept_proposal, propose_flips
    from support.paired import make_paired, model_priors
    from whichvars._kernels.chain import new_chain
    from whichvars._kernels.count.model_table import new_memo
    from whichvars._kernels.scan.scan import scan_model
    from whichvars._kernels.scan.scan_work import new_scan
    from whichvars.sampling.exact import exact

    case = make_paired(n=14, columns=5)
    parents = ((1, 2), (), (), (1,), (0, 3))
    heredity = {f"x{j}": [f"x{i}" for i in own] for j, own in enumerate(parents)}
    for name in ("per variable", "beta-binomial"):
        ours, theirs = model_priors(name, 5)
        problem = case.problem(model_prior=ours, heredity=heredity)
        truth = oracle.enumerate_posterior(
            case.X, case.y, case.oracle_slab, theirs, parents=parents, **case._oracle_options
        )
        close(exact(problem).pip, truth.pips, f"inclusion probabilities, {name}")
        value = np.where(truth.probabilities > 0, truth.log_priors + truth.log_marginals, -np.inf)
        target, rng, now, bits = problem.target(10), np.random.default_rng(0), 0, 1 << np.arange(5)
        chain, work = new_chain(target, 10, 0), new_scan(target, 10)
        for step in range(150):
            flips = rng.permutation(5)[: rng.integers(1, 5)]
            then = now ^ int(bits[flips].sum())
            ratio = propose_flips(target, chain, new_memo(0), flips)
            close(ratio, value[then] - value[now], f"log ratio in step {step}, {name}")
            if np.isfinite(ratio):
                accept_proposal(target, chain)
                now = then
            scan_model(target, chain, work)
            close(work.log_odds, value[now | bits] - value[now & ~bits], f"scan in step {step}, {name}")


def check_proposals() -> None:
    """The ratio of proposal probabilities is that of the proposals really made."""
    from support.paired import make_paired
    from whichvars._kernels.chain import ADDED, DELETED, LOG_PROPOSAL, new_chain
    from whichvars._kernels.count.model_table import new_memo
    from whichvars._kernels.evaluate import set_model
    from whichvars.samplers.add_delete_swap import propose

    problem = make_paired(n=12, columns=3).problem()
    target = problem.target(4)
    probability: dict[tuple[int, int], float] = {}
    claimed: dict[tuple[int, int], float] = {}
    for start in range(8):
        chain = new_chain(target, 4)
        members = np.flatnonzero([(start >> j) & 1 for j in range(3)])
        assert set_model(target, chain, new_memo(0), members, len(members))

        def proposed(rng: Any, chain: Any = chain, start: int = start) -> int:
            propose(target, chain, rng, 0.3)
            flips = [*chain.added[: chain.ints[ADDED]], *chain.deleted[: chain.ints[DELETED]]]
            end = start ^ sum(1 << int(j) for j in flips)
            claimed[start, end] = float(chain.floats[LOG_PROPOSAL])
            return end

        for end, chance in law(proposed).items():
            probability[start, end] = chance
    for (start, end), ratio in claimed.items():
        expected = math.log(probability[end, start] / probability[start, end])
        close(ratio, expected, f"proposal ratio from {start:03b} to {end:03b}")


def check_transitions() -> None:
    """π P = π for the transition matrix of one iteration of add/delete/swap on three variables."""
    from support.paired import make_paired, model_priors
    from whichvars.samplers import contract as runs
    from whichvars.samplers.add_delete_swap import AddDeleteSwap

    runs.KEPT_MODELS = runs.KEPT_RECORDS = 64
    sampler = AddDeleteSwap(swap=0.3, memo_slots=64)
    for slab in ("independent", "g-prior"):
        case = make_paired(slab, n=12, columns=3)
        ours, theirs = model_priors("per variable", 3)
        problem, posterior = case.problem(model_prior=ours), case.posterior(theirs)
        matrix = np.zeros((8, 8))
        for start in range(8):
            members = np.flatnonzero(posterior.masks[start])

            run = sampler.init(problem, np.random.SeedSequence(1, spawn_key=(0,)), [members])
            restore = starting_point(run, run.units[0])

            def iterated(rng: Any, run: Any = run, restore: Any = restore, problem: Any = problem) -> int:
                restore()
                run.units[0].rng = rng
                sampler.advance(problem, run, 0, 1)
                return model_of(run.units[0].chain)

            for end, chance in law(iterated).items():
                matrix[start, end] = chance
        close(matrix.sum(axis=1), 1.0, "rows of the transition matrix")
        np.testing.assert_allclose(
            posterior.probabilities @ matrix, posterior.probabilities, rtol=0, atol=1e-12
        )


def check_counts() -> None:
    """A tally's counts are those of a look after every iteration."""
    from support.paired import make_paired
    from whichvars._kernels.chain import SIZE
    from whichvars._kernels.count.tally import BATCH_LENGTH, count_up_to_now, new_tally
    from whichvars.samplers import contract as runs
    from whichvars.samplers.add_delete_swap import AddDeleteSwap

    runs.KEPT_MODELS = runs.KEPT_RECORDS = 64
    problem, sampler = make_paired(n=15, columns=5).problem(), AddDeleteSwap(memo_slots=64)
    run = sampler.init(problem, np.random.SeedSequence(3, spawn_key=(0,)), [np.array([1, 3])])
    unit = run.units[0]
    unit.tally = new_tally(5, len(unit.chain.slot), models=64, records=16, batches=8, batch_length=3)
    runs.begin_counting(problem, run)
    inside = np.zeros((400, 5), int)
    for i in range(400):
        sampler.advance(problem, run, 0, 1)
        inside[i, unit.chain.order[: unit.chain.ints[SIZE]]] = 1
    count_up_to_now(unit.chain, unit.tally)
    length = int(unit.tally.ints[BATCH_LENGTH])
    batches = [inside[b * length : (b + 1) * length].sum(axis=0) for b in range(8)]
    np.testing.assert_array_equal(unit.tally.batch_counts, batches)
    np.testing.assert_array_equal(unit.tally.sizes, np.bincount(inside.sum(axis=1), minlength=6))
    assert unit.tally.model_count.sum() == 400


def members_of(index: int) -> np.ndarray:
    return np.flatnonzero([(index >> j) & 1 for j in range(3)])


def model_of(chain: Any) -> int:
    return sum(1 << int(j) for j in np.flatnonzero(chain.position >= 0))


def three_variables() -> Any:
    """Problems of three variables with the probabilities of their eight models."""
    from support.paired import make_paired, model_priors

    for slab in ("independent", "g-prior"):
        for name in ("per variable", "beta-binomial"):
            ours, theirs = model_priors(name, 3)
            for parts in ({}, {"max_size": 2}, {"duplicate": True}):
                case = make_paired(slab, n=12, columns=3, **parts)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # duplicates are meant
                    yield case.problem(model_prior=ours), case.posterior(theirs).probabilities


def modes_of_three() -> Any:
    """Modes of one, one, two and no variables: {0} is of the form of two of them, {0, 2} and {0, 1, 2} of none."""
    from whichvars._kernels.propose.mode_jumps import new_mode_jumps

    modes = [
        [(np.array([1, 0]), np.array([0.7, 0.3]))],
        [(np.array([0, 2]), np.array([0.4, 0.6]))],
        [(np.array([1]), np.array([1.0])), (np.array([0, 2]), np.array([0.2, 0.8]))],
        [],
    ]
    return new_mode_jumps(3, modes, np.array([1.0, 0.5, 2.0, 1.5]))


def jump_step(sampler: Any, problem: Any, start: int, moves_left: int) -> Callable[[Any], tuple[Any, int]]:
    """One step, by a generator, of a hybrid or of tempered Gibbs from a model, estimates as if learned."""
    from whichvars._kernels.propose import informed
    from whichvars._kernels.propose.informed import set_estimate, set_scale
    from whichvars._kernels.propose.stand_ins import StandIns
    from whichvars.samplers import asi, hybrid, tempered_gibbs

    # few models are met: keep the tables small
    tempered_gibbs.KEPT_MODELS = tempered_gibbs.KEPT_RECORDS = tempered_gibbs.KNOWN_MODELS = (
        hybrid.KNOWN_MODELS
    ) = 64
    asi.draw_additions = draw_additions_by_coins
    informed.draw_entering = draw_entering_by_sums
    run = sampler.init(problem, np.random.SeedSequence(1, spawn_key=(0,)), [members_of(start)])
    (unit,) = run.units
    unit.floats[0] = 1.7  # λ
    if unit.own is not None:
        set_estimate(unit.own.informed, np.array([0.2, 0.45, 0.7]))
        set_scale(unit.own.informed, 0.85)
        # 0 – 1 – 2: the one in the middle has two stand-ins
        links = StandIns(np.arange(3, dtype=np.int32), np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1]))
        unit.own = unit.own._replace(stand_ins=links, mode_jumps=modes_of_three())
        unit.own.resize[:] = 0.25, 2  # changes of the size by two
        unit.own.ints[0, 0] = moves_left
    restore = starting_point(run, unit)

    def step(rng: Any) -> tuple[Any, int]:
        restore()
        unit.rng = rng
        sampler.advance(problem, run, 0, 1)
        return unit, model_of(unit.chains[0])

    return step


def check_jumps() -> None:
    """With the mean holding times that the real code notes, the law of its jumps leaves π invariant; flips to models
    without mass have rate 0."""
    from whichvars.samplers import tempered_gibbs
    from whichvars.samplers.hybrid import Hybrid

    small = {"chains": 1, "table_bytes": 1, "memo_slots": 64}
    for sampler in (tempered_gibbs.TemperedGibbs(floor=1.5, **small), Hybrid(floor=1.5, moves=0, **small)):
        for problem, pi in three_variables():
            matrix, held = np.zeros((8, 8)), np.ones(8)
            for start in np.flatnonzero(pi):
                step = jump_step(sampler, problem, start, 0)

                def jumped(rng: Any, step: Any = step) -> Any:
                    unit, end = step(rng)
                    return end, float(unit.totals()[1][0])

                for (end, weight), chance in law(jumped).items():
                    matrix[start, end] += chance
                    held[start] = weight
            assert np.all(matrix[:, pi == 0] == 0)
            flow = (pi / held)[:, None] * matrix
            close(flow, flow.T, "flows from model to model")
            close(np.diag(matrix)[pi > 0], 1.7 * held[pi > 0], "the chance of a draw")


def check_must_stay() -> None:
    """Under heredity a parent does not leave before its children: its rate is 0, its probability 1."""
    from support.paired import make_paired
    from whichvars.samplers import tempered_gibbs

    problem = make_paired(n=14, columns=3).problem(heredity={"x2": ["x0"]})
    sampler = tempered_gibbs.TemperedGibbs(chains=1, memo_slots=64, table_bytes=1)
    step = jump_step(sampler, problem, 0b101, 0)
    ends = law(lambda rng: step(rng)[1])
    assert set(ends) == {0b101, 0b111, 0b001}, ends
    unit, _ = step(np.random.default_rng(0))
    sums, weights = unit.totals()
    assert sums[0, 0] == weights[0]
    close(ends[0b101], 1.7 * weights[0], "the chance of staying is that of a draw")


def check_conditionals() -> None:
    """What the table holds of a model are its conditional inclusion probabilities."""
    from whichvars.samplers import tempered_gibbs

    sampler = tempered_gibbs.TemperedGibbs(chains=1, memo_slots=64, table_bytes=1)
    bits = 1 << np.arange(3)
    for problem, pi in three_variables():
        for start in np.flatnonzero(pi):
            unit, _ = jump_step(sampler, problem, start, 0)(np.random.default_rng(start))
            sums, weights = unit.totals()
            with_j, without = pi[start | bits], pi[start & ~bits]
            np.testing.assert_allclose(sums[0] / weights[0], with_j / (with_j + without), rtol=0, atol=1e-6)


def check_hybrid_moves() -> None:
    """π P = π for the Metropolis–Hastings kernel of the hybrid."""
    from whichvars.samplers.hybrid import Hybrid

    sampler = Hybrid(chains=1, memo_slots=64, table_bytes=1)
    for problem, pi in three_variables():
        matrix = np.zeros((8, 8))
        for start in np.flatnonzero(pi):
            step = jump_step(sampler, problem, start, 1)
            for end, chance in law(lambda rng, step=step: step(rng)[1]).items():
                matrix[start, end] = chance
        close(matrix.sum(axis=1)[pi > 0], 1.0, "rows of the transition matrix")
        np.testing.assert_allclose(pi @ matrix, pi, rtol=0, atol=1e-12)
        alive = matrix[np.ix_(pi > 0, pi > 0)]
        assert np.all(np.linalg.matrix_power(alive, 8) > 0)


def check_estimated() -> None:
    """π P = π for one iteration of ASI and of PARNI with estimates as if learned."""
    from whichvars._kernels.propose.informed import set_estimate, set_scale
    from whichvars.samplers import asi, parni
    from whichvars.samplers import contract as runs

    runs.KEPT_MODELS = runs.KEPT_RECORDS = 64
    asi.draw_additions = parni.draw_additions = draw_additions_by_coins
    problem, pi = next(three_variables())
    for sampler in (asi.ASI(chains=1, memo_slots=64), parni.PARNI(chains=1, memo_slots=64)):
        matrix = np.zeros((8, 8))
        for start in range(8):
            run = sampler.init(problem, np.random.SeedSequence(1, spawn_key=(0,)), [members_of(start)])
            (unit,) = run.units
            set_estimate(unit.own.informed, np.array([0.2, 0.45, 0.7]))
            set_scale(unit.own.informed, 0.85)
            restore = starting_point(run, unit)

            def iterated(
                rng: Any, run: Any = run, unit: Any = unit, restore: Any = restore, sampler: Any = sampler
            ) -> int:
                restore()
                unit.rng = rng
                sampler.advance(problem, run, 0, 1)
                return model_of(unit.chain)

            for end, chance in law(iterated).items():
                matrix[start, end] = chance
        close(matrix.sum(axis=1), 1.0, "rows of the transition matrix")
        np.testing.assert_allclose(pi @ matrix, pi, rtol=0, atol=1e-12, err_msg=type(sampler).__name__)


def strong_cases() -> Any:
    """Problems of three variables with log odds of about 2000, and their posteriors."""
    from support.cases import Case, problem, truth

    for case in (
        Case("strong-three-2000", "independent", "per-variable"),  # rates by products in place of logarithms
        Case("strong-three-2000", "g", "max-size"),
    ):
        yield problem(case), truth(case)


def check_strong_rates() -> None:
    """Rates are in detailed balance where they are too large for a number."""
    from support.log_rates import check_balance, table_rates

    for problem, exact in strong_cases():
        check_balance(table_rates(problem, exact, 0.5), exact, 0.5, 1e-6)


def check_strong_subsets() -> None:
    """The same for rates of some of the variables."""
    from support.log_rates import check_balance, subset_rates

    for problem, exact in strong_cases():
        for anchors, drawn in (([], [0, 1, 2]), ([1], [0])):
            check_balance(subset_rates(problem, exact, 0.5, anchors, drawn), exact, 0.5, 1e-6)


def check_strong_jumps() -> None:
    """From a model of no mass that has neither of two stand-ins, one of them enters at once, with their odds."""
    from whichvars.samplers import tempered_gibbs
    from whichvars.samplers.hybrid import Hybrid

    small = {"chains": 1, "table_bytes": 1, "memo_slots": 64}
    for sampler in (tempered_gibbs.TemperedGibbs(floor=1.5, **small), Hybrid(floor=1.5, moves=0, **small)):
        for problem, exact in strong_cases():
            step = jump_step(sampler, problem, 0b100, 0)

            def jumped(rng: Any, step: Any = step) -> Any:
                unit, end = step(rng)
                return end, float(unit.totals()[1][0])

            ends = law(jumped)
            ratio = math.exp(exact.log_joint[0b101] - exact.log_joint[0b110])
            assert set(ends) == {(0b101, 0.0), (0b110, 0.0)}, ends
            close(ends[0b101, 0.0] / ends[0b110, 0.0], ratio, "odds of two stand-ins")


def check_strong_blocks() -> None:
    """Rates too large for a number of more variables than a scan looks at at once, of which it can do some without a
    logarithm: log rates differ as log marginal likelihoods do."""
    from support.log_rates import one_row
    from support.oracle import OracleSlab, log_marginal
    from whichvars.problem.priors import IndependentNormal
    from whichvars.problem.problem import Problem

    rng = np.random.default_rng(3)
    n, p = 600, 300
    x = rng.normal(size=(n, 1))
    X = 1.1 * x + rng.normal(size=(n, p))
    X[:, :3] = x + 0.1 * X[:, :3]
    y = 3.6 * x[:, 0] + rng.normal(size=n)
    found, relative = one_row(Problem(X, y, slab=IndependentNormal(2.0)), [], 0.01)
    looked_at = [0, 1, 2, 100, 255, 256, 299]
    slab = OracleSlab("independent", g=2.0)
    expected = np.array([log_marginal(X, y, [j], slab) for j in looked_at])
    assert relative
    assert expected[0] > 650
    assert expected[-1] < 300  # the last are done without a logarithm
    close(found[looked_at] - found[0], expected - expected[0], "log rates")


def check_averages() -> None:
    """Rao–Blackwell sums are those of scans at equal intervals, of the models there."""
    from support.paired import make_paired
    from whichvars._kernels.chain import SCANNED
    from whichvars._kernels.count.averages import SCAN_INTERVAL, SCANS
    from whichvars._kernels.scan.scan import scan_model
    from whichvars._kernels.scan.scan_work import new_scan
    from whichvars.samplers import contract as runs
    from whichvars.samplers.add_delete_swap import AddDeleteSwap
    from whichvars.samplers.asi import ASI
    from whichvars.sampling.estimates import rao_blackwell

    runs.KEPT_MODELS = runs.KEPT_RECORDS = 64
    problem = make_paired(n=15, columns=5).problem()
    for sampler in (AddDeleteSwap(memo_slots=64), ASI(chains=1, memo_slots=64)):
        run = sampler.init(problem, np.random.SeedSequence(3, spawn_key=(0,)), [np.array([1, 3])])
        if isinstance(sampler, ASI):
            sampler.begin_counting(problem, run)
            averages = run.units[0].averages
        else:
            runs.begin_counting(problem, run, rao_blackwell=True)
            averages = run.units[0].tally.averages
        unit, every = run.units[0], int(averages.ints[SCAN_INTERVAL])
        work, sums, scans = new_scan(problem.target(8), 8), np.zeros(5), 0
        for i in range(1, 60 * every + 1):
            sampler.advance(problem, run, 0, 1)
            if i % every == 0:
                unit.chain.ints[SCANNED] = 0
                scan_model(problem.target(8), unit.chain, work)
                sums += 1 / (1 + np.exp(-work.log_odds))
                scans += 1
        assert averages.ints[SCANS] == scans
        found = rao_blackwell(run)
        assert found is not None
        np.testing.assert_allclose(found.pip, sums / scans, rtol=1e-6)  # groups are kept in single precision


CHECKS: tuple[Callable[[], None], ...] = (
    check_enumeration,
    check_lists,
    check_walks,
    check_heredity,
    check_proposals,
    check_transitions,
    check_counts,
    check_jumps,
    check_must_stay,
    check_conditionals,
    check_hybrid_moves,
    check_estimated,
    check_averages,
    check_strong_rates,
    check_strong_subsets,
    check_strong_jumps,
    check_strong_blocks,
)


compile_source = SourceFileLoader.source_to_code


@cache
def compiled(source: bytes, name: str) -> Any:
    return compile_source(SourceFileLoader(name, name), source, name)


def source_to_code(self: SourceFileLoader, data: Any, path: Any, **options: Any) -> Any:
    """Copies differ in one file: the others are compiled once."""
    return compiled(bytes(data), self.name)


USE_PACKAGE = ("support.paired", "support.kernels", "support.cases", "support.log_rates")


def failures(folder: str, wanted: str = "") -> dict[str, str]:
    """Run all checks, or the one that is wanted, on the package in `folder`."""
    for name in list(sys.modules):
        if name.split(".")[0] == "whichvars" or name in USE_PACKAGE:
            del sys.modules[name]
    sys.path.insert(0, folder)
    try:
        import whichvars

        assert str(whichvars.__file__).startswith(folder), whichvars.__file__
        failed = {}
        for check in CHECKS:
            if wanted not in ("", check.__name__):
                continue
            try:
                check()
            except Exception as error:
                lines = str(error).strip().splitlines()
                failed[check.__name__] = f"{type(error).__name__}: {' '.join(lines[:2])}"
        return failed
    finally:
        sys.path.remove(folder)


if __name__ == "__main__":
    SourceFileLoader.source_to_code = source_to_code  # type: ignore[method-assign]
    asked = [argument.split("=") for argument in sys.argv[1:]]
    json.dump({folder: failures(folder, *wanted) for folder, *wanted in asked}, sys.stdout)
