"""What every sampler's run is made of, and the contract between samplers and ``sample()``.

A sampler is a frozen dataclass of settings with a few methods; ``sample()`` knows nothing else about it:

    init(problem, seed, starts) -> Run      states at their starting models
    advance(problem, run, unit, iterations) what one thread does with one unit, GIL released
    merge(problem, run)                     when all units have reached ``run.barrier``: share what was
    learned
    learned(problem, run) -> dict           what to report
    for_families                            True where it needs nothing of a model but its marginal likelihood and its prior
    estimate(problem, run, replicate)       only where ``run.units`` do not count in a ``Tally``

A *unit* is what one thread runs on its own: a chain (or ladder, or share of the particles) with its random
stream, memo and counts. Units share nothing that changes between two barriers, so the result cannot depend on
the number of threads.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import pandas as pd
from scipy import sparse

from whichvars._kernels.chain import (
    A_FIT,
    ADDED,
    BREAKDOWNS,
    COLUMNS,
    DELETED,
    EVALUATIONS,
    FITS,
    FITTED,
    JUDGED,
    NEEDED,
    PERFECT,
    SCANNED,
    SIZE,
    UPHELD,
    Chain,
    grow,
    new_chain,
)
from whichvars._kernels.count.averages import Averages, new_averages
from whichvars._kernels.count.model_table import LOOKUPS, Memo, new_memo
from whichvars._kernels.count.tally import Tally, grow_tally, new_tally, start_counting
from whichvars._kernels.evaluate import set_model
from whichvars._kernels.evidence import BY_FIT
from whichvars._kernels.fits import Fits, fit_proposal
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.evaluating import log_worths_of
from whichvars.samplers.seeding import stream

if TYPE_CHECKING:
    from whichvars.problem.problem import Problem

SHORTEST_ITERATION = 100.0  # nanoseconds: of add/delete/swap at models that the memo knows
KEPT_RECORDS = 2048  # models kept in the thinned record of a run, shared among its chains
KEPT_MODELS = 1 << 14  # best models kept per chain
NEVER = np.iinfo(np.int64).max  # the iteration after which learning ends, if it never does


# what a sampler's chains learn or count on their own, the units of its runs, and what these have in common
Own = TypeVar("Own")
Other = TypeVar("Other")
AUnit = TypeVar("AUnit", bound="HasChains")
Common = TypeVar("Common")


class HasChains(Protocol):
    """What every sampler's units have."""

    def all_chains(self) -> list[Chain]: ...


@dataclass
class Unit(Generic[Own]):
    """One chain as one thread runs it."""

    chain: Chain
    memo: Memo
    tally: Tally
    rng: np.random.Generator
    own: Own  # what this sampler's chains learn or count on their own
    averages: Averages | None = None  # Rao–Blackwell sums that the sampler keeps itself, not in the tally

    def all_chains(self) -> list[Chain]:
        return [self.chain]

    def having(self, own: Other) -> "Unit[Other]":
        """The same chain with a sampler's own state."""
        return Unit(self.chain, self.memo, self.tally, self.rng, own, self.averages)


@dataclass
class Run(Generic[AUnit, Common]):
    """One replicate: its units, what they learn together, and the iteration of its next barrier.

    Each sampler says what its units are, `Unit` or what it has in its place, and what they have in common. Code that is for the runs of all
    samplers has `Run` without either.
    """

    units: list[AUnit]
    shared: Common
    barrier: int | None = None  # iteration at which all units wait for one another; None: never
    iterations: int = 0  # of each unit, warm-up included
    warmup: int = 0
    finished: bool = False  # set by a sampler whose length is not a number of draws
    fraction: float = 0.0  # of such a run that is done, roughly
    status: str = ""  # what its progress bar says

    def troubles(self) -> dict[str, int]:
        """How often the arithmetic gave out: lost factorisations, and models that fit y perfectly."""
        ints = [chain.ints for unit in self.units for chain in unit.all_chains()]
        return {
            "breakdowns": sum(int(i[BREAKDOWNS]) for i in ints),
            "perfect_fits": sum(int(i[PERFECT]) for i in ints),
        }

    def fit_counts(self) -> dict[str, int]:
        """Models fitted, and how many proposals came to the second of two stages and were accepted there; empty if the response is
        Gaussian."""
        ints = np.array([chain.ints for unit in self.units for chain in unit.all_chains()]).sum(axis=0)
        if not ints[FITS]:
            return {}
        return {"fits": int(ints[FITS]), "judged": int(ints[JUDGED]), "upheld": int(ints[UPHELD])}


def ratio(sums: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ sums / Σ weights, (p,), and what each row adds to its error, (rows, p). Shapes (rows, p), (rows,)."""
    total = max(weights.sum(), 1e-300)
    mean = sums.sum(axis=0) / total
    return mean, (sums - mean * weights[:, None]) / total


def ratio_of_sums(sums: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ sums / Σ weights and the variance of that ratio, from independent rows: NaN where there is but one.
    Shapes (rows, p), (rows,)."""
    mean, errors = ratio(sums, weights)
    rows = np.count_nonzero(weights)
    if rows < 2:  # one row says nothing of its error
        return mean, np.full_like(mean, np.nan)
    return mean, (errors**2).sum(axis=0) * rows / (rows - 1)


def lags_of_size(warmup: int, ends: Sequence[np.ndarray]) -> np.ndarray:
    """By how much the mean size of each chain's draws falls behind where a trend of it ends, (chains,): the slope of its size against the
    logarithm of time, stage by stage, times how far its mean draw lies before the end on that scale. NaN of a chain that has no two stages
    with draws.

    `ends` has one array for each stage, as it was at its end, (3, chains): iterations since the start, warm-up included; draws; and the sum of
    their sizes, both since counting began.
    """
    first = np.zeros_like(ends[0])
    first[0] = warmup
    times, draws, sums = np.array([first, *ends]).transpose(1, 0, 2)
    weights = np.diff(draws, axis=0)  # (stages, chains)
    told = (weights > 0) & (np.diff(times, axis=0) > 0)
    weights = np.where(told, weights, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes = np.where(told, np.diff(sums, axis=0) / weights, 0.0)
        when = np.where(told, np.log((times[1:] + times[:-1]) / 2), 0.0)
        middle = (weights * when).sum(axis=0) / weights.sum(axis=0)
        apart = np.where(told, when - middle, 0.0)
        slopes = (weights * apart * sizes).sum(axis=0) / (weights * apart**2).sum(axis=0)
        return slopes * (np.log(times[-1]) - middle)


@dataclass(frozen=True)
class RaoBlackwell:
    """PIPs of one replicate as means of conditional inclusion probabilities."""

    pip: np.ndarray
    variance: np.ndarray  # of each as an estimate; 0 where it did not vary, NaN where that cannot be told
    degrees: int  # of freedom of the variances
    # where the chains' own sums and weights are kept, (chains, p) and (chains,): chains are independent
    # replicates too, and errors come from all of them together
    sums: np.ndarray | None = None
    weights: np.ndarray | None = None
    # where the same chains count how often they had each variable in, (chains, p), of how many draws, (chains,)
    visits: np.ndarray | None = None
    visited: np.ndarray | None = None
    # whether conditional probabilities are those of a surrogate, which fits correct when a flip is attempted; `weights` are then times,
    # and a flip is attempted as often, on average, as its rate times the time
    surrogate: bool = False
    # models whose conditional probabilities the sums are of, as often as chains came there
    scans: float = np.inf
    # by how much the mean size of each chain's draws falls behind where a trend of it ends, (chains,); NaN where that cannot be told
    lags: np.ndarray | None = None

    @classmethod
    def of_chains(
        cls,
        sums: np.ndarray,
        weights: np.ndarray,
        visits: np.ndarray | None = None,
        visited: np.ndarray | None = None,
        surrogate: bool = False,
        scans: float = np.inf,
        lags: np.ndarray | None = None,
    ) -> "RaoBlackwell":
        """From the sums and weights of independent chains, (chains, p) and (chains,)."""
        return cls(
            *ratio_of_sums(sums, weights), len(weights) - 1, sums, weights, visits, visited, surrogate, scans, lags
        )  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """What one replicate says."""

    pip: np.ndarray
    variance: np.ndarray  # of each PIP as an estimate; 0 where it cannot be told from this replicate alone
    degrees: int  # of freedom of the variances
    # members → log marginal, log prior, share of the draws, by the best weights there are
    models: dict[tuple[int, ...], tuple[float, float, float]]
    floor: float  # log posterior above which every visited model is in `models`
    trace: pd.DataFrame
    records: sparse.csr_array  # (rows of the trace, p): its models
    iterations: int
    log_evidence: float | None = None
    known_share: float | None = None  # of the draws, in models that were known before
    rao_blackwell: "RaoBlackwell | None" = None
    troubles: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def as_rows(models: list[np.ndarray], p: int) -> sparse.csr_array:
    """Models given by their variables as the rows of a sparse matrix of booleans, (models, p)."""
    lengths = np.array([len(m) for m in models], np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    variables = np.concatenate(models) if models else np.zeros(0)
    variables = variables[np.lexsort((variables, np.repeat(np.arange(len(models)), lengths)))]
    return sparse.csr_array(
        (np.ones(len(variables), bool), variables.astype(np.int64), starts), shape=(len(models), p)
    )


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


def check_between(
    settings: object,
    name: str,
    low: float,
    high: float,
    *,
    closed_below: bool = False,
    closed_above: bool = False,
) -> None:
    """DataError unless a setting lies between low and high; turns it into a float, so that kernels compile
    once."""
    value = getattr(settings, name)
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(f"{type(settings).__name__}: {name} must be a number, not {value!r}")
    inside = (low <= value if closed_below else low < value) and (
        value <= high if closed_above else value < high
    )
    if not inside:
        raise DataError(
            f"{type(settings).__name__}: {name} must lie between {low:g} and {high:g}, not {value!r}"
        )
    object.__setattr__(settings, name, float(value))


def batches_for(p: int) -> int:
    """Rows of batch counts, fewer where p is large: each takes 4 bytes a variable. At least half of them are in use."""
    return 64 if p <= 5_000 else 32 if p <= 100_000 else 16


def new_unit(
    problem: "Problem",
    seed: np.random.SeedSequence,
    index: int,
    start: np.ndarray,
    memo_slots: int,
    chains: int = 1,
) -> Unit[None]:
    """Chain number `index` of a replicate, at its starting model."""
    capacity = problem.first_capacity()
    unit = Unit(
        chain=new_chain(problem.target(capacity), capacity),
        memo=memo_of(problem, memo_slots),
        tally=new_tally(
            problem.p, capacity, KEPT_MODELS, max(64, KEPT_RECORDS // chains), batches_for(problem.p)
        ),
        rng=stream(seed, index),
        own=None,
    )
    unit.chain = place_chain(problem, unit.chain, unit.memo, start)
    unit.tally = grow_tally(unit.tally, problem.target(0), len(unit.chain.slot))
    return unit


def memo_of(problem: "Problem", slots: int) -> Memo:
    """A new memo. Where models must be fitted it never rests, as a fit takes much longer than looking up all there is."""
    memo = new_memo(slots)
    slab = problem.target(0).slab
    if slab.code == BY_FIT or slab.surrogate:
        memo.counters[LOOKUPS] = -(1 << 62)
    return memo


@dataclass(frozen=True)
class Entries:
    """What advances chains: for Gaussian responses, and for others, where it is given ``Fits`` before all else."""

    gaussian: Callable[..., Any]
    with_fits: Callable[..., Any]

    @contextmanager
    def for_problem(self, problem: "Problem") -> Iterator[Callable[..., Any]]:
        """The one for this problem, with the memory that it needs."""
        if problem.fit_data is None or problem.corrected:
            yield self.gaussian
            return
        likelihood = problem.likelihood()
        with problem.works.borrow(likelihood, 0) as work:
            fits = Fits(likelihood, work, problem.null_log_marginal)
            yield lambda *arguments: self.with_fits(fits, *arguments)


def fit_if_asked(problem: "Problem", chain: Chain) -> bool:
    """Fit the proposed model, if the chain waits for that (the memo does not know the model, and the response is not Gaussian
    or the problem is corrected)."""
    ints = chain.ints
    if ints[NEEDED] != A_FIT:
        return False
    if problem.corrected:
        _ask_what_it_is_worth(problem, chain)
        return True
    likelihood, columns = problem.likelihood(), int(ints[COLUMNS]) + _columns_added(problem, chain)
    with problem.works.borrow(likelihood, columns) as work:
        fit_proposal(likelihood, work, chain, problem.null_log_marginal)
    return True


def _ask_what_it_is_worth(problem: "Problem", chain: Chain) -> None:
    """What kernels do for a response that is not Gaussian (``_kernels/fits.py``), in Python."""
    ints = chain.ints
    deleted = chain.deleted[: ints[DELETED]].tolist()
    stays = [j for j in chain.order[: ints[SIZE]].tolist() if j not in deleted]
    # in ascending order, so that the value is the same to the last bit however the chain came there
    members = np.array(sorted([*stays, *chain.added[: ints[ADDED]].tolist()]), np.int32)
    chain.floats[FITTED] = log_worths_of(problem, members, np.array([0, len(members)]))[0]
    chain.keys[2] = chain.keys[1]
    ints[EVALUATIONS] += 1
    ints[NEEDED] = 0


def _columns_added(problem: "Problem", chain: Chain) -> int:
    """The columns of the variables that the proposal adds."""
    added = chain.added[: chain.ints[ADDED]]
    return int((problem.offsets[added + 1] - problem.offsets[added]).sum())


def place_chain(problem: "Problem", chain: Chain, memo: Memo, start: np.ndarray) -> Chain:
    """The chain moved to the model `start`, with as much room as that needs."""
    members = np.ascontiguousarray(start, np.int64)
    while not set_model(problem.target(len(chain.slot)), chain, memo, members, len(members)):
        if not chain.ints[NEEDED]:
            raise DataError(
                f"the starting model {[problem.names[j] for j in members]} has no posterior mass: it is larger than allowed or "
                "its columns are collinear; start from another one"
            )
        if fit_if_asked(problem, chain):
            continue
        chain = grow(chain, max(2 * len(chain.slot), int(chain.ints[NEEDED])))
    return chain


def make_room(problem: "Problem", unit: Unit) -> None:
    """Give a chain the capacity its proposal needs, or the fit that it asks for."""
    if fit_if_asked(problem, unit.chain):
        return
    capacity = max(2 * len(unit.chain.slot), int(unit.chain.ints[NEEDED]))
    unit.chain = grow(unit.chain, capacity)
    unit.chain.ints[SCANNED] = 0
    unit.tally = grow_tally(unit.tally, problem.target(0), capacity)


def advance_unit(problem: "Problem", unit: Unit, entries: Entries, iterations: int, *settings: Any) -> None:
    """Advance a chain by `iterations` iterations, making room whenever a proposal does not fit."""
    done = 0
    while done < iterations:
        target = problem.target(len(unit.chain.slot))
        with entries.for_problem(problem) as advance:
            done += advance(target, unit.chain, unit.memo, unit.tally, unit.rng, *settings, iterations - done)
        if unit.chain.ints[NEEDED]:
            make_room(problem, unit)


def begin_counting(problem: "Problem", run: Run, rao_blackwell: bool = False) -> None:
    """Warm-up is over. With `rao_blackwell`, conditional inclusion probabilities are averaged too."""
    run.warmup = run.iterations
    for unit in run.units:
        if rao_blackwell:
            capacity, groups = unit.tally.record_models.shape[1], batches_for(problem.p) // 2
            columns = run.units[0].chain.ints[COLUMNS]
            averages = new_averages(problem.target(0), capacity, groups, int(columns), SHORTEST_ITERATION)
            unit.tally = unit.tally._replace(averages=averages)
        start_counting(unit.chain, unit.tally)
