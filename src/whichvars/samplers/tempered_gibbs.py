r"""Weighted tempered Gibbs (Zanella & Roberts 2019), in continuous time.

A process on models that never rejects: from γ, variable j flips at rate :math:`r_j(\gamma)` (``_kernels/scan/rate_table.py``),
so that :math:`\pi(\gamma) r_j(\gamma) = \pi(\gamma') r_j(\gamma')` and π is its invariant law. One event at γ, with
:math:`Z = \sum_j r_j` and λ the rate at which the model is noted as a draw:

1. find the rates of γ: from the table, else by a scan of all p variables;
2. add the mean holding time 1/(Z + λ) to its entry, the weight of γ's conditional inclusion probabilities:
   :math:`\hat\pi_j = \sum w\, p_j(\gamma) / \sum w` (Rao–Blackwell in both the flip and the time);
3. with probability λ/(Z + λ), note γ as a draw; else flip j with probability :math:`r_j/(Z + \lambda)`.

Draws come at the times of a Poisson process, so they follow π without weights. The *jump chain* that the flips
make, looked at by itself, has the invariant law π·Z: it is not a move for tempering.

Hybrid (``hybrid.py``) is this process with Metropolis–Hastings moves after every draw.
"""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from whichvars._kernels.chain import (
    ADDED,
    COLUMNS,
    FITS,
    LOG_MARGINAL,
    LOG_PRIOR,
    NEEDED,
    NEW_AVAILABLE,
    NEW_LOG_MARGINAL,
    NEW_LOG_PRIOR,
    NO_TAIL,
    PENDING,
    SCANNED,
    SIZE,
    TAIL,
    Chain,
    change,
    clear,
    grow,
    new_chain,
)
from whichvars._kernels.count.model_table import Memo
from whichvars._kernels.count.tally import (
    COUNTING,
    NOW,
    Tally,
    count_draws,
    grow_tally,
    new_tally,
    start_counting_draws,
)
from whichvars._kernels.decide import WAITING, make_flip
from whichvars._kernels.fits import fit_if_room
from whichvars._kernels.jit import entry, inlined, kernel, routine
from whichvars._kernels.scan.rate_table import (
    ATTEMPTED,
    FIRST_RATE,
    HOLDING,
    MARGINAL,
    N_AVAILABLE,
    PRIOR,
    RATE_HITS,
    RATE_LOOKUPS,
    REFUSED,
    TOTAL,
    RateTable,
    choose_flip,
    end_stage_of_rates,
    find_entry,
    find_rates,
    new_rate_table,
    read_entries,
)
from whichvars._kernels.scan.scan_work import LARGEST_LOG_ODDS, Scan, new_scan
from whichvars._kernels.scan.thinning import attempt_flip, choose_by_logarithms
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import (
    KEPT_MODELS,
    KEPT_RECORDS,
    Entries,
    RaoBlackwell,
    Run,
    batches_for,
    check_between,
    fit_if_asked,
    memo_of,
    place_chain,
)
from whichvars.samplers.estimated import check_chains
from whichvars.samplers.references import ZANELLA_2019
from whichvars.samplers.seeding import stream

# steps of one chain before the next one's turn, from round to round twice as many
FIRST_TURN, TURN = 64, 2048
GIBBS_Z_BYTES = 64 << 20  # for rows of Z that scans keep
ROW_BYTES = 32 << 20  # for rows of XᵀX that scans keep
CACHE_BYTES = 16 << 20  # for products of columns
KNOWN_MODELS = 1 << 20  # models that can be remembered as known (9 bytes each)
FIRST_STAGE_OF_GIBBS = 256  # iterations before models met so far are known for the first time

# places in JumpUnit.floats
LAMBDA = 0
KAPPA = 1
BEST = 2  # the highest log posterior of a model that any of the chains was at

Own = TypeVar("Own")
Other = TypeVar("Other")

# what happened in an event: the chain needs more room first, a draw, a flip
ROOM, DRAW, FLIP = range(3)


@dataclass
class JumpUnit(Generic[Own]):
    """Chains that share a table of rates and a memo, as one thread runs them, each for a turn of steps."""

    chains: list[Chain]
    memo: Memo
    tally: Tally  # of the draws of all chains
    rng: np.random.Generator
    scan: Scan
    table: RateTable
    floats: np.ndarray
    # (chains, p): holding times · conditional inclusion probabilities, without those that the table holds
    sums: np.ndarray
    weights: np.ndarray  # (chains,): holding times
    taking_part: int  # so many of the chains take turns, the first ones
    own: Own  # what chains of this sampler learn or count beside this
    turn: int = 0  # the chain whose turn it is
    left: int = FIRST_TURN  # steps left of this turn
    length: int = FIRST_TURN  # of each turn in this round: short at first, so that all chains warm up
    events: int = 0  # since ``weights`` were last set to 0

    def having(self, own: Other) -> "JumpUnit[Other]":
        """The same chains with a sampler's own state."""
        return JumpUnit(**{**vars(self), "own": own})

    @property
    def chain(self) -> Chain:
        return self.chains[0]

    def all_chains(self) -> list[Chain]:
        return self.chains

    @property
    def has_surrogate(self) -> bool:
        """Whether conditional probabilities are those of a surrogate, which models are fitted to correct."""
        return any(int(chain.ints[FITS]) > 0 for chain in self.chains)

    def totals(self) -> tuple[np.ndarray, np.ndarray]:
        """`sums` and `weights` with what the table holds. Changes nothing."""
        sums, weights = self.sums.copy(), self.weights.copy()
        read_entries(self.table, sums, weights)
        return sums, weights

    def end_stage(self) -> None:
        """The end of a stage: models met so far are known from now on."""
        end_stage_of_rates(self.table, self.sums, self.weights)

    def forget(self) -> None:
        """The same, and all sums are 0 again."""
        self.end_stage()
        self.sums[:] = 0
        self.weights[:] = 0

    def start_counting(self) -> None:
        """Warm-up is over: the first draws are the models that chains are at, but for those without mass."""
        values = [float(chain.floats[LOG_MARGINAL] + chain.floats[LOG_PRIOR]) for chain in self.chains]
        least = max(float(self.floats[BEST]), *values) - LARGEST_LOG_ODDS
        start_counting_draws(self.tally, [c for c, value in zip(self.chains, values) if value >= least])

    def place_idle_chains(self, problem: Problem) -> None:
        """Have the chains that took no part so far start where the others are."""
        for c in range(self.taking_part, len(self.chains)):
            model = self.chains[c % self.taking_part]
            members = model.order[: model.ints[SIZE]].copy()
            self.chains[c] = place_chain(problem, self.chains[c], self.memo, members)
            self.chains[c].ints[SCANNED] = 0
        largest = max(len(chain.slot) for chain in self.chains)
        if largest > self.tally.record_models.shape[1]:
            self.tally = grow_tally(self.tally, problem.target(largest), largest)
        self.turn, self.left, self.length = 0, FIRST_TURN, FIRST_TURN

    def make_room(self, problem: Problem, c: int) -> None:
        """Give chain c, and the scans and the tally, the capacity it needs; or the fit that it asks for."""
        if fit_if_asked(problem, self.chains[c]):
            return
        capacity = max(2 * len(self.chains[c].slot), int(self.chains[c].ints[NEEDED]))
        self.chains[c] = grow(self.chains[c], capacity)
        self.chains[c].ints[SCANNED] = 0
        target = problem.target(capacity)
        if capacity > self.scan.inverse_factor.shape[0]:
            self.scan = new_scan(target, capacity, GIBBS_Z_BYTES, ROW_BYTES)
        if capacity > self.tally.record_models.shape[1]:
            self.tally = grow_tally(self.tally, target, capacity)


def new_jump_unit(
    problem: Problem,
    seed: np.random.SeedSequence,
    starts: list[np.ndarray],
    memo_slots: int,
    table_bytes: int,
    kappa: float,
    exact_weights: bool = False,
) -> JumpUnit[None]:
    """Chains at their starting models, with an empty table."""
    p, r = problem.p, len(starts)
    memo, surrogate = memo_of(problem, memo_slots), problem.target(0).slab.surrogate
    capacity = problem.first_capacity()
    chains: list[Chain] = []
    for start in starts:
        new = new_chain(problem.target(capacity), capacity, CACHE_BYTES if not chains else 0)
        if chains:  # products of columns are the same for all
            new = new._replace(gram_cache=chains[0].gram_cache)
        chain = place_chain(problem, new, memo, start)
        capacity = len(chain.slot)
        chains.append(chain)
    return JumpUnit(
        chains=chains,
        memo=memo,
        tally=new_tally(p, capacity, KEPT_MODELS, KEPT_RECORDS, batches_for(p)),
        rng=stream(seed, 0),
        scan=new_scan(problem.target(capacity), capacity, GIBBS_Z_BYTES, ROW_BYTES),
        # exact weights are for the probabilities of scans; those of a surrogate are not exact
        table=new_rate_table(
            p, r, table_bytes, KNOWN_MODELS if exact_weights and not surrogate else 0, surrogate
        ),
        floats=np.array([1.0, kappa, -np.inf]),
        sums=np.zeros((r, p)),
        weights=np.zeros(r),
        taking_part=r,
        own=None,
    )


def take_turns(problem: Problem, unit: JumpUnit[Own], entries: Entries, steps: int, *settings: Any) -> None:
    """Make `steps` steps in all, the chains taking turns. The result does not depend on how steps are divided into calls."""
    while steps > 0:
        c = unit.turn
        chain = unit.chains[c]
        ask = min(steps, unit.left)
        target = problem.target(max(len(chain.slot), unit.scan.inverse_factor.shape[0]))
        with entries.for_problem(problem) as advance:
            done, events = advance(
                target, chain, unit.memo, unit.tally, unit.rng, unit.scan, unit.table, unit.floats, unit.sums,
                unit.weights, c, *settings, ask,
            )  # fmt: skip
        unit.events += events
        steps -= done
        unit.left -= done
        if unit.chains[c].ints[NEEDED]:
            unit.make_room(problem, c)
        elif unit.left == 0:
            unit.turn = (c + 1) % unit.taking_part
            if unit.turn == 0:
                unit.length = min(2 * unit.length, TURN)
            unit.left = unit.length
            unit.chains[unit.turn].ints[SCANNED] = 0  # the rows kept are those of another chain


def chain_averages(unit: JumpUnit[Own]) -> RaoBlackwell:
    """The replicate's PIPs from its chains' sums."""
    sums, weights = unit.totals()
    return RaoBlackwell.of_chains(sums, weights, surrogate=unit.has_surrogate)


@dataclass(frozen=True)
class TemperedGibbs:
    """Settings of weighted tempered Gibbs.

    Parameters
    ----------
    chains : int
        Chains that share a table of rates; they are independent otherwise, and Monte Carlo errors rest on how
        much they differ.
    floor : float
        κ = floor/p: the larger, the more often improbable variables are tried.
    draw_every : float
        Flips between two draws, on average.
    table_bytes : int
        Memory for the rates of models already met.
    memo_slots : int
        Models whose marginal likelihood is remembered (16 bytes each); a power of two, or 0 for none.
    exact_weights : bool
        Whether models that any chain met in an earlier stage of the run are averaged with their exact posterior weights,
        and not by the time spent in them (``_kernels/count/known.py``).

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.sample(wv.Problem(data.X, data.y), wv.TemperedGibbs(), draws=2000, seed=0, progress=False)
    >>> posterior.iterations
    8800
    """

    chains: int = 5
    floor: float = 5.0
    draw_every: float = 4.0
    table_bytes: int = 64 << 20
    memo_slots: int = 1 << 18
    exact_weights: bool = True

    words = "weighted tempered Gibbs sampling in continuous time"
    references = (ZANELLA_2019,)
    invariant_law = "the posterior times the total rate of its flips"

    def __post_init__(self) -> None:
        check_chains(self)
        check_between(self, "floor", 0, np.inf)
        check_between(self, "draw_every", 0, np.inf)

    def init(
        self, problem: Problem, seed: np.random.SeedSequence, starts: list[np.ndarray]
    ) -> Run[JumpUnit[None], None]:
        kappa = self.floor / problem.p
        unit = new_jump_unit(
            problem, seed, starts, self.memo_slots, self.table_bytes, kappa, self.exact_weights
        )
        return Run([unit], None, barrier=FIRST_STAGE_OF_GIBBS)

    def advance(self, problem: Problem, run: Run[JumpUnit[None], None], unit: int, iterations: int) -> None:
        take_turns(problem, run.units[unit], ENTRIES, iterations * self.chains)

    def merge(self, problem: Problem, run: Run[JumpUnit[None], None]) -> None:
        """At intervals that double: models met are known from now on. In warm-up, choose λ by the mean of Z so
        far."""
        unit = run.units[0]
        if unit.tally.ints[COUNTING]:
            unit.end_stage()
        else:
            unit.floats[LAMBDA] = mean_rate(unit) / self.draw_every
            unit.forget()
            unit.events = 0
        run.barrier = max(FIRST_STAGE_OF_GIBBS, 2 * run.iterations)

    def begin_counting(self, problem: Problem, run: Run[JumpUnit[None], None]) -> None:
        unit = run.units[0]
        unit.forget()
        unit.events = 0
        run.warmup, run.barrier = run.iterations, max(FIRST_STAGE_OF_GIBBS, 2 * run.iterations)
        unit.start_counting()

    def averages(self, run: Run[JumpUnit[None], None]) -> RaoBlackwell:
        return chain_averages(run.units[0])

    def learned(self, problem: Problem, run: Run[JumpUnit[None], None]) -> dict[str, Any]:
        return describe_jumps(run.units[0])


def mean_rate(unit: JumpUnit[Own]) -> float:
    """Mean of Z under the posterior, from the events since the sums were last set to 0."""
    weight = float(unit.totals()[1].sum())
    return max(unit.events / weight - float(unit.floats[LAMBDA]), 1e-3) if weight > 0 else 1.0


def describe_jumps(unit: JumpUnit[Own]) -> dict[str, Any]:
    """What ``posterior.adaptation`` says."""
    ints = unit.table.ints
    two_stages = {}
    if unit.table.tried.size:
        two_stages = {"second_stage_acceptance": 1 - float(ints[REFUSED] / max(ints[ATTEMPTED], 1))}
    return {
        "mean_rate": mean_rate(unit),
        "draw_rate": float(unit.floats[LAMBDA]),
        "draws": int(unit.tally.ints[NOW]),
        "rate_table_hits": float(ints[RATE_HITS] / max(ints[RATE_LOOKUPS], 1)),
        **two_stages,
    }


@entry
def advance(target, chain, memo, tally, rng, work, table, floats, sums, weights, c, steps):
    return _advance(target, chain, memo, tally, rng, work, table, floats, sums, weights, c, steps)


@entry
def advance_with_fits(fits, target, chain, memo, tally, rng, work, table, floats, sums, weights, c, steps):
    return _advance_with_fits(
        fits, target, chain, memo, tally, rng, work, table, floats, sums, weights, c, steps
    )


ENTRIES = Entries(advance, advance_with_fits)


@kernel
def _advance_with_fits(fits, target, chain, memo, tally, rng, work, table, floats, sums, weights, c, steps):
    done, events = 0, 0
    while True:
        more, also = _advance(
            target, chain, memo, tally, rng, work, table, floats, sums, weights, c, steps - done
        )
        done += more
        events += also
        if not fit_if_room(fits, chain):
            return done, events


@inlined
def note_best(chain, floats):
    floats[BEST] = max(floats[BEST], chain.floats[LOG_MARGINAL] + chain.floats[LOG_PRIOR])


@inlined
def has_no_mass(chain, floats):
    """Whether the chain's model is so much less probable than another one that no time is spent in it. A chain can be there
    all the same, on its way from one model to the next."""
    note_best(chain, floats)
    return chain.floats[LOG_MARGINAL] + chain.floats[LOG_PRIOR] < floats[BEST] - LARGEST_LOG_ODDS


@inlined
def next_event(target, chain, rng, work, table, floats, sums, weights, c):
    """Steps 1 to 3 for chain c. The flip is left as a proposal. Returns FLIP, DRAW, or ROOM where the chain
    needs room first."""
    place = find_rates(target, chain, work, table, floats[KAPPA], sums, weights)
    if place < 0:
        chain.ints[NEEDED] = -place
        return ROOM
    if table.rows[place, TOTAL] < 0.0:  # rates so large that no time is spent here
        note_best(chain, floats)
        if target.slab.surrogate:
            j = choose_by_logarithms(
                table.rows[place], table.ints[FIRST_RATE], table.probabilities.shape[1], rng.random()
            )
            clear(chain)
            change(target, chain, j)
            return FLIP
        u = rng.random() * -table.rows[place, TOTAL]
    elif has_no_mass(chain, floats) and table.rows[place, TOTAL] > 0.0:
        u = rng.random() * table.rows[place, TOTAL]
    else:
        total = table.rows[place, TOTAL] + floats[LAMBDA]
        table.rows[place, HOLDING + c] += 1.0 / total
        u = rng.random() * total
        if u < floats[LAMBDA]:
            return DRAW
        u -= floats[LAMBDA]
    clear(chain)
    change(target, chain, choose_flip(table, place, u))
    return FLIP


@inlined
def look_up_flip(target, chain, table):
    """Take what is known of the proposed model from the table; False if it is not there, or does not fit."""
    place = find_entry(table, chain.keys[1])
    columns = chain.ints[COLUMNS]
    if chain.ints[ADDED] == 1:
        j = chain.added[0]
        columns += target.design.offsets[j + 1] - target.design.offsets[j]
    known = place >= 0 and columns <= chain.slot.shape[0]
    if known:
        chain.floats[NEW_LOG_MARGINAL] = table.rows[place, MARGINAL]
        chain.floats[NEW_LOG_PRIOR] = table.rows[place, PRIOR]
        chain.ints[NEW_AVAILABLE] = int(table.rows[place, N_AVAILABLE])
        chain.ints[TAIL] = NO_TAIL
    return known


@inlined
def flip(target, chain, memo, rng, table, floats, sums, c):
    """Make the flip that was chosen, or attempt it if there is a surrogate; False where the chain needs something first."""
    if target.slab.surrogate:
        has_time = not has_no_mass(chain, floats)
        return attempt_flip(target, chain, memo, rng, table, sums, c, has_time) != WAITING
    return make_flip(target, chain, memo, look_up_flip(target, chain, table))


@routine
def _advance(target, chain, memo, tally, rng, work, table, floats, sums, weights, c, steps):
    """Advance chain c; returns the steps done, fewer than asked where it needs more room, and the events."""
    ints = chain.ints
    done = 0
    events = 0
    while done < steps:
        if ints[PENDING] == 0:
            event = next_event(target, chain, rng, work, table, floats, sums, weights, c)
            if event == ROOM:
                return done, events
            events += 1
            if event == DRAW:
                if tally.ints[COUNTING] > 0:
                    count_draws(chain, tally, 1)
                done += 1
                continue
        if not flip(target, chain, memo, rng, table, floats, sums, c):
            return done, events
        done += 1
    return done, events
