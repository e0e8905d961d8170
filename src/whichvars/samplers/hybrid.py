r"""The hybrid: weighted tempered Gibbs with Metropolis–Hastings moves in between.

A process on models in continuous time with generator :math:`Q + \lambda(P^m - I)`: Q the flips of weighted
tempered Gibbs (``tempered_gibbs.py``), P a Metropolis–Hastings kernel with invariant law π. Both leave π
invariant, so their sum does. Flips cross between modes and give every visited model's exact surroundings; the
moves P are cheap, where a scan of all p variables is not. One event at γ:

1. find the rates of γ: from the table, else by a scan of all p variables;
2. add the mean holding time 1/(Z + λ) to its entry, the weight of γ's conditional inclusion probabilities;
3. with probability λ/(Z + λ), make m moves of P, and count γ and every model after one of them as a draw; else flip j
   with probability r_j/(Z + λ).

P is one of five: with chance .2 that of ``asi.py``; with chance 1/64, where several modes were found before sampling
(``finding.py``), a jump from one to another (``_kernels/propose/mode_jumps.py``); where most moves of one variable are
accepted, with chance 1/(1 + d), at most .29, a change of the size by d variables (``_kernels/propose/resize.py``); else a swap of a variable for
one that is correlated with it (``_kernels/propose/stand_ins.py``), or add/delete/swap whose entering variable is drawn by
.7·π̂/Σπ̂ + .3/p.

In warm-up, at iterations 128, 256, 512, …, π̂ is estimated from the Rao–Blackwell sums so far (what is older counts
half each time), stand-ins are looked for and d, λ and m are chosen: m so that a burst of moves takes about as long as an
event, and λ by the share u of events at models not in the table, min{4, .05 + 20u²} times the mean of Z. Where flips
come from the table they are the better moves; where each needs a scan, draws far apart are worth more. Where the response is not
Gaussian, events and moves cost a fit as well, and λ is ½ (1 + scan/fit) times the mean of Z, by what a scan and a fit cost,
but no more than 4 times. All of it rests on counts of events and not on clocks, so that results repeat. Afterwards nothing is adapted but for two
cases, both judged at the ends of stages that double in length. Where an event costs more than four times what m was chosen for, or less
than a quarter, λ and m are chosen anew: warm-up may have been in a region whose models are all in the table, and the mass elsewhere. And
where conditional probabilities differ between chains nearly as much as shares of draws do, λ falls to at most a quarter of the mean of Z
and bursts become longer in turn, so that most scans are made for flips (``pace.py``).

Two of the chains warm up, with all of the steps. When counting begins, the others start from where these two are.
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from whichvars._kernels.chain import ADDED, DELETED, PENDING, SIZE, accept
from whichvars._kernels.count.known import (
    Known,
    end_stage_of_draws,
    fetch_slot,
    new_known,
    note_visited_model,
)
from whichvars._kernels.count.tally import COUNTING, count_draws
from whichvars._kernels.decide import ACCEPTED, WAITING, acceptance_of, judge
from whichvars._kernels.fits import fit_if_room
from whichvars._kernels.jit import by_reference, entry, inlined, kernel, routine
from whichvars._kernels.propose.informed import ZETA, Informed, new_informed, propose_single, set_estimate
from whichvars._kernels.propose.mode_jumps import ModeJumps, propose_mode_jump
from whichvars._kernels.propose.resize import propose_resize
from whichvars._kernels.propose.stand_ins import StandIns, find_stand_ins, no_stand_ins, propose_stand_in
from whichvars._kernels.scan.rate_table import RATE_HITS, RATE_LOOKUPS
from whichvars.problem.problem import Problem
from whichvars.samplers import asi
from whichvars.samplers import references as papers
from whichvars.samplers.contract import Entries, RaoBlackwell, Run, check_between, lags_of_size
from whichvars.samplers.estimated import FIRST_STAGE_OF_LEARNING, check_chains, first_estimate, regular
from whichvars.samplers.finding import jumps_between_modes
from whichvars.samplers.kinds_of_moves import (
    CHANGES,
    GIBBS_FLIP,
    JUMP_SHARE,
    MODE_JUMP,
    RESIZE,
    RESIZE_SHARE,
    SCALED,
    SCALED_SHARE,
    SHARE,
    SINGLE,
    STAND_IN,
    STEP,
    choose_scaled,
    choose_step,
)
from whichvars.samplers.pace import MOVE, Pace, choose_pace, scans_too_many_draws
from whichvars.samplers.tempered_gibbs import (
    DRAW,
    KNOWN_MODELS,
    LAMBDA,
    ROOM,
    JumpUnit,
    describe_jumps,
    flip,
    new_jump_unit,
    next_event,
    take_turns,
)

# chains that take part in warm-up. A fifth of the steps each would still be on their way in when the others are there.
WARMING_UP = 2
FOR_STAND_INS = 0.3  # of the time so far may go into looking for them at the end of a stage

# places in HybridState.ints, one row a chain
# moves left of the current event; the kind of a proposal that waits for room; draws of the current model not yet counted
LEFT, KIND, STAYED = range(3)
# place in HybridState.counts: m. Those of the kinds of moves, in which it is counted how often each was tried, come after it
MOVES = 0


@by_reference
class HybridState(NamedTuple):
    informed: Informed
    stand_ins: StandIns
    mode_jumps: ModeJumps
    ints: np.ndarray  # (chains, 3)
    counts: np.ndarray  # (6,) int64
    accepted: np.ndarray  # (6,): by kind, sums of acceptance probabilities
    visits: np.ndarray  # (chains, p): draws that had the variable in
    visited: np.ndarray  # (chains,): draws
    known: Known  # K, models met by moves
    held: np.ndarray  # (chains,): draws of models in K in this stage, in `visited` but not yet in `visits`
    # (p,): exact inclusion probabilities within K, as of the beginning of the stage: the sums of `known` can be far below
    # 1e-300 by its end, where a far better model was met
    means: np.ndarray
    # (2,): the share of scaled moves, and how many variables they proposed to change, in all
    scaled: np.ndarray
    resize: np.ndarray  # (2,): the share of changes of the size by several variables, and by how many


@dataclass
class Stage:
    """What the last stage of warm-up left."""

    weight: float = 0.0  # of sums older than this stage
    learning: bool = True
    # whether conditional probabilities turned out to be hardly better than shares of draws
    few_draws: bool = False
    # after warm-up, before this stage: events, look-ups in the table of rates, and those that found the model there
    events: int = 0
    lookups: int = 0
    hits: int = 0
    # at the ends of stages after warm-up, by chain, (3, chains): iterations since the start, draws, and the sum of their sizes
    sizes: list[np.ndarray] = field(default_factory=list)


HybridRun = Run[JumpUnit[HybridState], Stage]


@dataclass(frozen=True)
class Hybrid:
    """Settings of the hybrid sampler, which ``sampler="auto"`` takes.

    Parameters
    ----------
    chains : int
        Chains that share a table of rates and π̂; nothing else, once warm-up is over, and Monte Carlo errors
        rest on how much they differ. The first two warm up; the others start where these are when counting begins.
    floor : float
        κ = floor/p: the larger, the more often improbable variables are tried.
    moves : int
        m, the Metropolis–Hastings moves after each draw; chosen in warm-up if not given.
    draw_rate : float
        λ as a multiple of the mean total rate of flips; chosen in warm-up if not given.
    swaps : float
        Share of the moves that swap a variable for one correlated with it, at most ½.
    table_bytes : int
        Memory for the rates of models already met, per replicate.
    memo_slots : int
        Models whose marginal likelihood is remembered, per replicate (16 bytes each); a power of two, or 0 for
        none.
    exact_weights : bool
        Whether models that any chain met in an earlier stage of the run are averaged with their exact posterior weights,
        and not by the time spent in them (``_kernels/count/known.py``).

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.sample(wv.Problem(data.X, data.y), wv.Hybrid(), draws=2000, seed=0, progress=False)
    >>> posterior.iterations
    8800
    """

    chains: int = 5
    floor: float = 5.0
    moves: int | None = None
    draw_rate: float | None = None
    swaps: float = 0.2
    table_bytes: int = 64 << 20
    memo_slots: int = 1 << 18
    exact_weights: bool = True

    words = (
        "weighted tempered Gibbs sampling in continuous time, interrupted at random times by "
        "Metropolis–Hastings moves of an adaptively scaled sampler"
    )
    references = (papers.ZANELLA_2019, papers.GRIFFIN_2021)
    invariant_law = "the posterior, in continuous time"

    def __post_init__(self) -> None:
        check_chains(self)
        check_between(self, "floor", 0, np.inf)
        if self.draw_rate is not None:
            check_between(self, "draw_rate", 0, np.inf)
        check_between(self, "swaps", 0, 0.5, closed_below=True, closed_above=True)

    def init(self, problem: Problem, seed: np.random.SeedSequence, starts: list[np.ndarray]) -> HybridRun:
        kappa = self.floor / problem.p
        chains = new_jump_unit(
            problem, seed, starts, self.memo_slots, self.table_bytes, kappa, self.exact_weights
        )
        own = HybridState(
            informed=new_informed(first_estimate(problem)),
            stand_ins=no_stand_ins(problem.p),
            mode_jumps=jumps_between_modes(problem),
            ints=np.zeros((self.chains, 3), np.int64),
            counts=np.zeros(6, np.int64),
            accepted=np.zeros(6),
            visits=np.zeros((self.chains, problem.p)),
            visited=np.zeros(self.chains),
            known=new_known(problem.p, KNOWN_MODELS if self.exact_weights else 0),
            held=np.zeros(self.chains),
            means=np.zeros(problem.p),
            scaled=np.array([SCALED_SHARE, 0.0]),
            resize=np.zeros(2),
        )
        unit = chains.having(own)
        unit.taking_part = min(WARMING_UP, self.chains)
        run = Run([unit], Stage(), barrier=FIRST_STAGE_OF_LEARNING)
        self._choose(problem, unit, 5.0, 1.0)
        return run

    def advance(self, problem: Problem, run: HybridRun, unit: int, iterations: int) -> None:
        own = run.units[unit].own
        swaps = float(self.swaps) if len(own.stand_ins.others) else 0.0  # a whole number would compile anew
        settings = own, swaps, run.shared.learning
        take_turns(problem, run.units[unit], ENTRIES, iterations * self.chains, *settings)

    def merge(self, problem: Problem, run: HybridRun) -> None:
        """The end of a stage: models met are known from now on. In warm-up, learn from it."""
        unit = run.units[0]
        run.barrier = max(FIRST_STAGE_OF_LEARNING, 2 * run.iterations)
        unit.own.visits[:] = visits_with_known(unit.own)
        unit.own.held[:] = 0
        end_stage_of_draws(unit.own.known, unit.own.means)
        if not run.shared.learning:
            run.shared.sizes.append(sizes_so_far(run))
            unit.end_stage()
            self._choose_anew(problem, run)
            return
        sums, weights = unit.totals()
        if weights.sum() > 0:
            estimate = regular(sums.sum(axis=0) / weights.sum())
            set_estimate(unit.own.informed, estimate)
            time_so_far = run.iterations * self.chains * MOVE
            stand_ins = find_stand_ins(problem.target(0).design, estimate, FOR_STAND_INS * time_so_far)
            unit.own = unit.own._replace(stand_ins=stand_ins)
        new = float(weights.sum()) - run.shared.weight
        lookups, hits = unit.table.ints[RATE_LOOKUPS], unit.table.ints[RATE_HITS]
        if new > 0 and lookups > 0:
            rate = max(unit.events / new - float(unit.floats[LAMBDA]), 1e-3)
            self._choose(problem, unit, rate, 1 - hits / lookups)
        unit.forget()
        unit.events, unit.table.ints[RATE_LOOKUPS], unit.table.ints[RATE_HITS] = 0, 0, 0
        unit.sums[:], unit.weights[:] = 0.5 * sums, 0.5 * weights
        run.shared.weight = float(unit.weights.sum())

    def _choose_anew(self, problem: Problem, run: HybridRun) -> None:
        """After warm-up: λ and m from the counts of the stage that ends, where the old ones are far off, or where scans turn out to be
        made for too many draws."""
        unit = run.units[0]
        stage = run.shared
        lookups, hits = int(unit.table.ints[RATE_LOOKUPS]), int(unit.table.ints[RATE_HITS])
        weight = float(unit.weights.sum())
        new = weight - stage.weight
        if self.moves is None and new > 0 and lookups > stage.lookups:
            misses = 1 - (hits - stage.hits) / (lookups - stage.lookups)
            pace = self._pace(problem, unit, misses)
            fewer = (
                self.draw_rate is None and not stage.few_draws and self._wants_few_draws(problem, unit, pace)
            )
            stage.few_draws = stage.few_draws or fewer
            if stage.few_draws:
                pace = self._pace(problem, unit, misses, few_draws=True)
            if fewer or not 0.25 <= pace.moves / unit.own.counts[MOVES] <= 4.0:
                rate = max((unit.events - stage.events) / new - float(unit.floats[LAMBDA]), 1e-3)
                unit.own.counts[MOVES] = pace.moves
                unit.floats[LAMBDA] = rate * pace.draw_rate
        stage.weight, stage.events, stage.lookups, stage.hits = weight, unit.events, lookups, hits

    def _choose(self, problem: Problem, unit: JumpUnit[HybridState], rate: float, misses: float) -> None:
        """λ and m from the mean total rate of flips and the share of events at new models."""
        pace = self._pace(problem, unit, misses)
        unit.own.counts[MOVES] = pace.moves
        choose_scaled(unit.own)
        choose_step(unit.own, self.swaps)
        unit.floats[LAMBDA] = rate * pace.draw_rate

    def _wants_few_draws(self, problem: Problem, unit: JumpUnit[HybridState], pace: Pace) -> bool:
        (sums, weights), visited = unit.totals(), unit.own.visited
        if len(weights) < 2 or weights.min() <= 0 or visited.min() <= 0:
            return False
        shares = visits_with_known(unit.own) / visited[:, None]
        return scans_too_many_draws(problem, pace, sums / weights[:, None], shares)

    def _pace(
        self, problem: Problem, unit: JumpUnit[HybridState], misses: float, few_draws: bool = False
    ) -> Pace:
        pace = choose_pace(problem, unit.chains[: unit.taking_part], misses, few_draws)
        return Pace(
            pace.moves if self.moves is None else self.moves,
            pace.draw_rate if self.draw_rate is None else self.draw_rate,
        )

    def begin_counting(self, problem: Problem, run: HybridRun) -> None:
        if run.iterations > 0:
            self.merge(problem, run)
        run.warmup, run.shared.learning, run.shared.sizes = run.iterations, False, []
        run.barrier = max(FIRST_STAGE_OF_LEARNING, 2 * run.iterations)
        unit = run.units[0]
        if run.warmup > 0:
            unit.place_idle_chains(problem)
        unit.taking_part = self.chains
        unit.forget()
        unit.events, run.shared.weight = 0, 0.0
        unit.table.ints[RATE_LOOKUPS], unit.table.ints[RATE_HITS] = 0, 0
        unit.own.counts[1:] = 0
        unit.own.accepted[:] = 0
        unit.own.ints[:, STAYED] = 0
        unit.start_counting()

    def averages(self, run: HybridRun) -> RaoBlackwell:
        unit = run.units[0]
        visits, visited = visits_with_known(unit.own), unit.own.visited.copy()
        lags = lags_of_size(run.warmup, [*run.shared.sizes, sizes_so_far(run)])
        return RaoBlackwell.of_chains(*unit.totals(), visits, visited, unit.has_surrogate, unit.events, lags)

    def learned(self, problem: Problem, run: HybridRun) -> dict[str, Any]:
        unit = run.units[0]
        accepted = unit.own.accepted[1:] / np.maximum(unit.own.counts[1:], 1)
        return {
            **describe_jumps(unit),
            "moves_per_draw": int(unit.own.counts[MOVES]),
            "zeta": float(unit.own.informed.floats[ZETA]),
            "stand_ins": int(np.count_nonzero(unit.own.stand_ins.place >= 0)),
            "acceptance": dict(
                zip(("scaled", "add/delete/swap", "stand-in", "mode jump", "size"), accepted.tolist())
            ),
            "modes": len(unit.own.mode_jumps.sizes),
            "size_step": int(unit.own.resize[STEP]),
        }


def visits_with_known(own: HybridState) -> np.ndarray:
    """Draws by chain that had each variable in, (chains, p), those of known models by their exact weights."""
    visits = own.visits.copy()
    for row, held in zip(visits, own.held):
        row += held * own.means
    return visits


def sizes_so_far(run: HybridRun) -> np.ndarray:
    """Iterations since the start, draws, and the sum of their sizes, by chain, (3, chains)."""
    own = run.units[0].own
    iterations = np.full(len(own.visited), float(run.iterations))
    return np.array([iterations, own.visited, visits_with_known(own).sum(axis=1)])


@inlined
def propose_move(target, chain, own, c, swaps, rng):
    """A proposal of P, of which the share `swaps` are for stand-ins."""
    u = rng.random()
    if u < own.scaled[SHARE]:
        own.ints[c, KIND] = SCALED
        asi.propose(target, chain, own.informed, rng)
    elif u >= 1.0 - JUMP_SHARE and own.mode_jumps.sizes.shape[0] > 1:
        own.ints[c, KIND] = MODE_JUMP
        propose_mode_jump(target, chain, own.mode_jumps, rng)
    elif u >= 1.0 - JUMP_SHARE - own.resize[RESIZE_SHARE] and u < 1.0 - JUMP_SHARE:
        own.ints[c, KIND] = RESIZE
        propose_resize(target, chain, int(own.resize[STEP]), rng)
    elif u < own.scaled[SHARE] + swaps:
        own.ints[c, KIND] = STAND_IN
        propose_stand_in(target, chain, own.stand_ins, rng)
    else:
        own.ints[c, KIND] = SINGLE
        propose_single(target, chain, own.informed, rng)


@inlined
def note_move(chain, own, kind, acceptance, learning):
    """Count a move of P, and tune ζ by it."""
    own.counts[kind] += 1
    own.accepted[kind] += acceptance
    if learning and kind == SCALED:
        own.scaled[CHANGES] += chain.ints[ADDED] + chain.ints[DELETED]
        asi.learn_scale(own.informed, acceptance, 0.234, math.pow(own.counts[SCALED], -0.7))


@inlined
def count_stay(chain, tally, own, c):
    """Count the draws of the current model that have not been counted yet."""
    times = own.ints[c, STAYED]
    own.ints[c, STAYED] = 0
    if times > 0:
        known = note_visited_model(own.known, chain)
        if tally.ints[COUNTING] > 0:
            count_draws(chain, tally, times)
            own.visited[c] += times
            if known:
                own.held[c] += times
            else:
                visits = own.visits
                for i in range(chain.ints[SIZE]):
                    visits[c, chain.order[i]] += times


@entry
def advance(
    target, chain, memo, tally, rng, work, table, floats, sums, weights, c, own, swaps, learning, steps
):
    return _advance(
        target, chain, memo, tally, rng, work, table, floats, sums, weights, c, own, swaps, learning, steps
    )


@entry
def advance_with_fits(
    fits, target, chain, memo, tally, rng, work, table, floats, sums, weights, c, own, swaps, learning, steps
):
    return _advance_with_fits(
        fits, target, chain, memo, tally, rng, work, table, floats, sums, weights, c, own, swaps, learning, steps
    )  # fmt: skip


ENTRIES = Entries(advance, advance_with_fits)


@kernel
def _advance_with_fits(
    fits, target, chain, memo, tally, rng, work, table, floats, sums, weights, c, own, swaps, learning, steps
):
    done, events = 0, 0
    while True:
        more, also = _advance(
            target, chain, memo, tally, rng, work, table, floats, sums, weights, c, own, swaps, learning, steps - done
        )  # fmt: skip
        done += more
        events += also
        if not fit_if_room(fits, chain):
            return done, events


@routine
def _advance(
    target, chain, memo, tally, rng, work, table, floats, sums, weights, c, own, swaps, learning, steps
):
    """Advance chain c; returns the steps (flips and moves) done, fewer than asked where it needs more room,
    and the events."""
    ints, state = chain.ints, own.ints
    done = 0
    events = 0
    while done < steps:
        if ints[PENDING] == 0:
            if state[c, LEFT] > 0:
                propose_move(target, chain, own, c, swaps, rng)
            else:
                event = next_event(target, chain, rng, work, table, floats, sums, weights, c)
                if event == ROOM:
                    return done, events
                events += 1
                if event == DRAW:
                    state[c, LEFT] = own.counts[MOVES]
                    state[c, STAYED] = 1
                    if own.counts[MOVES] == 0:
                        count_stay(chain, tally, own, c)
                        done += 1
                    continue
                state[c, KIND] = GIBBS_FLIP
        kind = state[c, KIND]
        if kind == GIBBS_FLIP:
            if not flip(target, chain, memo, rng, table, floats, sums, c):
                return done, events
        else:
            verdict, log_ratio = judge(target, chain, memo, rng, True)
            if verdict == WAITING:
                return done, events
            note_move(chain, own, kind, acceptance_of(log_ratio), learning)
            if verdict == ACCEPTED:
                count_stay(chain, tally, own, c)
                accept(target, chain)
                fetch_slot(own.known, chain.keys[0])
            state[c, STAYED] += 1
            state[c, LEFT] -= 1
            if state[c, LEFT] == 0:
                count_stay(chain, tally, own, c)
        done += 1
    return done, events
