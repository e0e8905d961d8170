"""What every sampler's run is made of, and the contract between samplers and ``sample()``.

A sampler is a frozen dataclass of settings with four methods; ``sample()`` knows nothing else about it:

    init(problem, seed, starts) -> Run      states at their starting models
    advance(problem, run, unit, iterations) what one thread does with one unit, GIL released
    merge(problem, run)                     at a barrier, when all units have done ``run.round`` iterations:
    share what was learned
    learned(problem, run) -> dict           what to report

A *unit* is what one thread runs on its own: a chain (or ladder, or share of the particles) with its random
stream, memo and counts. Units share nothing that changes between two barriers, so the result cannot depend on
the number of threads.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from whichvars._kernels.chain import BREAKDOWNS, NEEDED, PERFECT, Chain, grow, new_chain, set_model
from whichvars._kernels.model_table import Memo, new_memo
from whichvars._kernels.tally import Tally, grow_tally, new_tally, start_counting
from whichvars.errors import DataError
from whichvars.seeding import stream

if TYPE_CHECKING:
    from whichvars.problem import Problem

RECORDS = 2048  # models kept in the thinned record of a run, shared among its chains
MODELS = 1 << 14  # best models kept per chain


@dataclass
class Unit:
    """One chain as one thread runs it."""

    chain: Chain
    memo: Memo
    tally: Tally
    rng: np.random.Generator
    own: Any = None  # what this sampler's chains learn or count on their own


@dataclass
class Run:
    """One replicate: its units, what they learn together, and the length of a round between barriers (None:
    no barriers)."""

    units: list[Unit]
    shared: Any = None
    round: int | None = None
    iterations: int = 0  # of each unit, warm-up included
    warmup: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


class Sampler(Protocol):
    """What ``sample()`` asks of a sampler."""

    @property
    def invariant_law(self) -> str: ...
    @property
    def chains(self) -> int: ...
    def init(self, problem: "Problem", seed: np.random.SeedSequence, starts: list[np.ndarray]) -> Run: ...
    def advance(self, problem: "Problem", run: Run, unit: int, iterations: int) -> None: ...
    def merge(self, problem: "Problem", run: Run) -> None: ...
    def learned(self, problem: "Problem", run: Run) -> dict[str, Any]: ...


def batches_for(p: int) -> int:
    """Rows of batch counts: at least 32 batches where memory allows, fewer for very many variables."""
    return 64 if p <= 200_000 else 16


def new_unit(
    problem: "Problem",
    seed: np.random.SeedSequence,
    index: int,
    start: np.ndarray,
    memo_slots: int,
    chains: int = 1,
) -> Unit:
    """Chain number `index` of a replicate, at its starting model."""
    capacity = problem.first_capacity()
    unit = Unit(
        chain=new_chain(problem.target(capacity), capacity),
        memo=new_memo(memo_slots),
        tally=new_tally(problem.p, capacity, MODELS, max(64, RECORDS // chains), batches_for(problem.p)),
        rng=stream(seed, index),
    )
    members = np.ascontiguousarray(start, np.int64)
    while not set_model(problem.target(capacity), unit.chain, unit.memo, members, len(members)):
        if not unit.chain.ints[NEEDED]:
            raise DataError(
                f"the starting model {[problem.names[j] for j in members]} has no posterior mass: it is larger than allowed or "
                "its columns are collinear; start from another one"
            )
        capacity = make_room(problem, unit)
    return unit


def make_room(problem: "Problem", unit: Unit) -> int:
    """Give a chain the capacity its proposal needs."""
    capacity = max(2 * len(unit.chain.slot), int(unit.chain.ints[NEEDED]))
    unit.chain = grow(unit.chain, capacity)
    unit.tally = grow_tally(unit.tally, capacity)
    return capacity


def advance_unit(
    problem: "Problem", unit: Unit, kernel: Callable[..., int], iterations: int, *settings: Any
) -> None:
    """Run `kernel` for `iterations` iterations, making room whenever a proposal does not fit."""
    done = 0
    while done < iterations:
        target = problem.target(len(unit.chain.slot))
        done += kernel(target, unit.chain, unit.memo, unit.tally, unit.rng, *settings, iterations - done)
        if unit.chain.ints[NEEDED]:
            make_room(problem, unit)


def begin_counting(run: Run) -> None:
    """Warm-up is over."""
    run.warmup = run.iterations
    for unit in run.units:
        start_counting(unit.chain, unit.tally)


def rounding_trouble(run: Run) -> dict[str, int]:
    """How often the arithmetic gave out: lost factorisations, and models that fit y perfectly."""
    return {
        "breakdowns": sum(int(unit.chain.ints[BREAKDOWNS]) for unit in run.units),
        "perfect_fits": sum(int(unit.chain.ints[PERFECT]) for unit in run.units),
    }
