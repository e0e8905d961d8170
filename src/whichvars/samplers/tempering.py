r"""Parallel tempering with adaptive moves and temperatures (Griffin, Łatuszyński & Steel, section 4;
Miasojedow, Moulines & Vihola 2013).

A *ladder* has m rungs; rung k is a chain with target :math:`\pi_k \propto p(y \mid \gamma)^{t_k} p(\gamma)`,
:math:`0 < t_1 < \dots < t_m = 1`: only the likelihood is tempered. One iteration:

1. one move (or `steps`) on every rung, each with its own adding and deleting probabilities;
2. a random pair of neighbours k, k + 1 exchanges its models with probability
   :math:`a = \min\{1, \exp[(t_k - t_{k+1})(\ell_{k+1} - \ell_k)]\}`, ℓ the log marginal likelihoods;
3. the gap between the two learns, so that exchanges are accepted with probability :math:`\hat a` = .234 in the long run; see
   ``samplers/ladders.py``.

Several ladders learn probabilities and temperatures together (MCA-IA-PT). Only the top rung,
t = 1, is counted.

An exchange moves no model: the two chains exchange their temperatures, probabilities and counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whichvars._kernels.chain import NEEDED, SCANNED, Chain, grow, new_chain
from whichvars._kernels.count.model_table import Memo
from whichvars._kernels.count.tally import COUNTING, Tally, end_iteration, grow_tally, new_tally
from whichvars._kernels.inverse import OF_ONE_MODEL, Inverse
from whichvars._kernels.jit import Several, entry, kernel
from whichvars._kernels.propose.adapt import ADD, DELETE, Shared, merge_adaptations, new_shared
from whichvars._kernels.propose.changes import describe_changes
from whichvars.errors import DataError
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import (
    KEPT_MODELS,
    KEPT_RECORDS,
    Run,
    Sampler,
    batches_for,
    check_between,
    fit_if_asked,
    memo_of,
    place_chain,
)
from whichvars.samplers.individual import IndividualAdaptation
from whichvars.samplers.ladders import (
    DIFFERENCES,
    LADDER_ITERATION,
    RATIOS,
    RUNG,
    RUNG_MOVES,
    TRIPS,
    WIDEST,
    Ladder,
    exchange,
    give_temperatures,
    log_gaps,
    new_ladder,
)
from whichvars.samplers.moves import (
    MoveState,
    move_state_of_rung,
    new_move_state,
    read_move,
    stack_move_states,
    step,
)
from whichvars.samplers.references import GRIFFIN_2014, MIASOJEDOW_2013
from whichvars.samplers.seeding import stream

SURPLUS = 0.5  # a pair that exchanges more often than this, its gap at the bound, has a rung too many
HISTORY = 256  # temperatures kept along the run

SHARED_FIELDS = (
    "tail",
    "tail_inverse",
    "tail_solved",
    "tail_column",
    "tail_slot",
    "work",
    "added",
    "deleted",
    "averaging",
)


def chain_of_slot(stack: Chain, s: int) -> Chain:
    """One of the stacked chains, as views; what holds a proposal is common to all, as one chain moves at a
    time."""
    return Chain(
        stack.ints[s],
        stack.floats[s],
        stack.keys[s],
        stack.position[s],
        stack.order[s],
        stack.row[s],
        stack.column[s],
        stack.slot[s],
        stack.filled[s],
        stack.free[s],
        stack.products[s],
        stack.head[s],
        stack.head_inverse[s],
        stack.head_solved[s],
        stack.tail,
        stack.tail_inverse,
        stack.tail_solved,
        stack.tail_column,
        stack.tail_slot,
        stack.work,
        stack.added,
        stack.deleted,
        stack.gram_cache,
        Inverse(
            stack.inverse.ints[s],
            stack.inverse.floats[s],
            stack.inverse.column[s],
            stack.inverse.matrix[s],
            stack.inverse.solved[s],
            stack.inverse.leaving,
            stack.inverse.entering,
            stack.inverse.corner,
            stack.inverse.corner_solved,
            stack.inverse.products,
            stack.inverse.weights,
            stack.inverse.shared,
            stack.inverse.schur,
            stack.inverse.schur_solved,
        ),
        stack.averaging,
    )


def stack_chains(chains: list[Chain]) -> Chain:
    """One ``Chain`` whose arrays have the slot as leading dimension, but for those that all share."""
    fields: dict[str, Any] = {"gram_cache": chains[0].gram_cache}
    fields["inverse"] = Inverse(**_stack([chain.inverse for chain in chains], OF_ONE_MODEL))
    own = [name for name in Chain._fields if name not in SHARED_FIELDS and name not in fields]
    return Chain(**_stack(chains, own, fields))


def _stack(tuples: Sequence[Any], own: Sequence[str], done: dict[str, Any] | None = None) -> dict[str, Any]:
    """The fields of named tuples, those that each has for itself with a leading dimension more."""
    fields = dict(done or {})
    for name in tuples[0]._fields:
        if name in own:
            fields[name] = np.ascontiguousarray(np.stack([getattr(x, name) for x in tuples]))
        elif name not in fields:
            fields[name] = getattr(tuples[0], name)
    return fields


@dataclass
class LadderUnit:
    """One ladder as one thread runs it; one memo for all its rungs, as it keeps untempered values."""

    stack: Chain
    memo: Memo
    tally: Tally
    rng: np.random.Generator
    ladder: Ladder
    moves: MoveState

    @property
    def chain(self) -> Chain:
        """The chain at the top rung: the one that counts."""
        return chain_of_slot(self.stack, int(self.ladder.slot[-1]))

    def all_chains(self) -> list[Chain]:
        return [chain_of_slot(self.stack, s) for s in range(len(self.ladder.slot))]

    def capacity(self) -> int:
        return len(self.stack.work)

    def make_room(self, problem: Problem) -> None:
        """Give all rungs the capacity that one of them needs, or fit the models that they ask for."""
        if sum(fit_if_asked(problem, chain) for chain in self.all_chains()):
            return
        needed = int(self.stack.ints[:, NEEDED].max())
        capacity = max(2 * self.capacity(), needed)
        self.stack = stack_chains([grow(chain, capacity) for chain in self.all_chains()])
        self.stack.ints[:, SCANNED] = 0
        self.tally = grow_tally(self.tally, problem.target(0), capacity)


@dataclass
class SharedLadder:
    """What ladders had in common at the last barrier."""

    rungs: list[Shared]  # empty where nothing is learned by variable
    times: list[int] = field(default_factory=list)
    temperatures: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True)
class ParallelTempering:
    """Settings of parallel tempering: for posteriors with several modes.

    Parameters
    ----------
    move : sampler
        The move on every rung: ``IndividualAdaptation(tau=.35)`` if not given, or any other sampler that
        leaves its target invariant.
    rungs : int
        m, the number of temperatures, the target itself included. 1 is the move alone.
    steps : int
        Moves of every rung between two exchanges, one by default as in the paper. An iteration is all of them and one exchange; several pay
        where moves are cheap and mostly rejected.
    target_swap : float
        Acceptance rate of exchanges to which temperatures adapt.
    chains : int
        r, ladders that learn together. The draws are divided among them.
    merge_every : int
        Most iterations between two exchanges of what was learned.
    memo_slots : int
        Models whose marginal likelihood is remembered, per ladder (16 bytes each); a power of two, or 0 for
        none.
    ladder : "ratios" or "differences"
        What is learned of two neighbouring temperatures: their ratio, as in Miasojedow, Moulines and Vihola, or their difference, as in
        Griffin, Łatuszyński and Steel. Both come to the same temperatures, "ratios" sooner at the hot end.

    Notes
    -----
    ``posterior.adaptation`` holds for each replicate `temperatures` (lowest first), `temperatures_along_run`,
    `swap_rates` of neighbours, `round_trips`, `surplus_rungs` (rungs at the hot end that could be spared),
    and by rung `mutation_rate`, `add_probability`, `delete_probability`.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> sampler = wv.ParallelTempering(rungs=3)
    >>> posterior = wv.sample(wv.Problem(data.X, data.y), sampler, draws=5000, replicates=2, seed=0, progress=False)
    >>> float(posterior.adaptation[0]["temperatures"][-1])
    1.0
    """

    move: Sampler | None = None
    rungs: int = 6
    steps: int = 1
    target_swap: float = 0.234
    chains: int = 1
    merge_every: int = 10_000
    memo_slots: int = 1 << 18
    ladder: str = RATIOS

    words = "parallel tempering with a ladder of temperatures that adapts"
    references = (GRIFFIN_2014, MIASOJEDOW_2013)
    invariant_law = "posterior"
    for_families = True

    def __post_init__(self) -> None:
        if self.move is None:
            object.__setattr__(self, "move", IndividualAdaptation(tau=0.35))
        read_move(self.move, "ParallelTempering")
        check_between(self, "target_swap", 0, 1)
        if self.ladder not in (RATIOS, DIFFERENCES):
            raise DataError(
                f'ParallelTempering: ladder must be "{RATIOS}" or "{DIFFERENCES}", not {self.ladder!r}'
            )
        for name in ("rungs", "steps", "chains", "merge_every"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise DataError(
                    f"ParallelTempering: {name} must be a whole number of at least 1, not {value!r}"
                )
        if getattr(self.move, "chains", 1) != 1:
            raise DataError("ParallelTempering: give `chains` to ParallelTempering itself, not to its move")

    def init(
        self, problem: Problem, seed: np.random.SeedSequence, starts: list[np.ndarray]
    ) -> Run[LadderUnit, SharedLadder]:
        units = [self._new_unit(problem, seed, index, start) for index, start in enumerate(starts)]
        shared = SharedLadder([new_shared(self._rung(units[0], k).adaptation) for k in range(self.rungs)])
        return Run(units, shared, barrier=self._next_barrier(0))

    def _new_unit(
        self, problem: Problem, seed: np.random.SeedSequence, index: int, start: np.ndarray
    ) -> LadderUnit:
        m = self.rungs
        memo = memo_of(problem, self.memo_slots)
        capacity = problem.first_capacity()
        chains = []
        for _ in range(m):
            chain = place_chain(problem, new_chain(problem.target(capacity), capacity), memo, start)
            capacity = len(chain.slot)
            chains.append(chain)
        chains = [grow(c, capacity) if len(c.slot) < capacity else c for c in chains]
        ladder = new_ladder(m, self.ladder)
        unit = LadderUnit(
            stack=stack_chains(chains),
            memo=memo,
            tally=new_tally(
                problem.p, capacity, KEPT_MODELS, max(64, KEPT_RECORDS // self.chains), batches_for(problem.p)
            ),
            rng=stream(seed, index),
            ladder=ladder,
            moves=stack_move_states([new_move_state(problem, self.move) for _ in range(m)]),
        )
        give_temperatures(unit.stack, ladder)
        return unit

    def _rung(self, unit: LadderUnit, k: int) -> MoveState:
        return move_state_of_rung(unit.moves, k)

    def _next_barrier(self, iteration: int) -> int:
        """The next barrier. As for individual adaptation, barriers are more frequent while learning steps are large."""
        decay = getattr(self.move, "decay", 0.55)
        rate = getattr(self.move, "phi0", 1.0) * (self.chains * max(iteration, 1)) ** -decay
        return iteration + int(min(max(40 / (self.chains * rate), 1), self.merge_every))

    def advance(
        self, problem: Problem, run: Run[LadderUnit, SharedLadder], unit: int, iterations: int
    ) -> None:
        own = run.units[unit]
        move = read_move(self.move, "ParallelTempering")
        move = move._replace(phi0=move.phi0 * self.chains**-move.decay)  # as in individual adaptation
        done = 0
        while done < iterations:
            target = problem.target(own.capacity())
            chains = Several(own.all_chains())
            states = Several(self._rung(own, k) for k in range(self.rungs))
            done += advance(
                target, own.stack, chains, own.memo, own.tally, own.rng, own.ladder, states, move, self.steps, self.target_swap,
                iterations - done,
            )  # fmt: skip
            if own.stack.ints[:, NEEDED].any():
                own.make_room(problem)

    def merge(self, problem: Problem, run: Run[LadderUnit, SharedLadder]) -> None:
        units, shared = run.units, run.shared
        for k in range(self.rungs):
            merge_adaptations(shared.rungs[k], [self._rung(unit, k).adaptation for unit in units])
        logit = np.mean([unit.moves.logit for unit in units], axis=0)
        rho = np.mean([unit.ladder.rho for unit in units], axis=0)
        for unit in units:
            unit.ladder.rho[:] = rho
            unit.moves.logit[:] = logit
            give_temperatures(unit.stack, unit.ladder)
        shared.times.append(run.iterations)
        shared.temperatures.append(units[0].ladder.temperature.copy())
        if len(shared.times) > HISTORY:
            del shared.times[1::2], shared.temperatures[1::2]
        run.barrier = self._next_barrier(run.iterations)

    def learned(self, problem: Problem, run: Run[LadderUnit, SharedLadder]) -> dict[str, Any]:
        units = run.units
        tried = np.sum([u.ladder.tried for u in units], axis=0)
        rates = np.sum([u.ladder.exchanged for u in units], axis=0) / np.maximum(tried, 1)
        by_rung = [describe_changes([self._rung(u, k).changes for u in units]) for k in range(self.rungs)]
        gaps = log_gaps(units[0].ladder.temperature)
        out = {
            **by_rung[-1],
            "temperatures": units[0].ladder.temperature.copy(),
            "temperatures_along_run": (np.array(run.shared.times), np.array(run.shared.temperatures)),
            "swap_rates": rates,
            "round_trips": int(sum(u.ladder.ints[TRIPS] for u in units)),
            "surplus_rungs": int(((rates > SURPLUS) & (gaps > WIDEST - 0.1)).sum()),
            "mutation_rate_by_rung": [d["mutation_rate"] for d in by_rung],
        }
        if isinstance(self.move, IndividualAdaptation):
            out["add_probability"] = units[0].moves.adaptation.values[:, :, ADD].copy()
            out["delete_probability"] = units[0].moves.adaptation.values[:, :, DELETE].copy()
        return out


@entry
def advance(target, stack, chains, memo, tally, rng, ladder, states, move, steps, aim, iterations):
    return _advance(target, stack, chains, memo, tally, rng, ladder, states, move, steps, aim, iterations)


@kernel
def _advance(target, stack, chains, memo, tally, rng, ladder, states, move, steps, aim, iterations):
    """Advance one ladder; returns the iterations done, fewer than asked where a chain needs more room.

    `chains` are those of the stack, by slot; `states` are those of the moves, by rung.
    """
    counting = tally.ints[COUNTING] == 1
    m = ladder.slot.shape[0]
    for done in range(iterations):
        # step 1, continued where it was interrupted when a chain needed room
        while ladder.ints[RUNG] < m:
            k = ladder.ints[RUNG]
            chain, state = chains[ladder.slot[k]], states[k]
            while ladder.ints[RUNG_MOVES] < steps:
                if not step(target, chain, memo, tally, rng, state, move, counting and k == m - 1, counting):
                    return done
                ladder.ints[RUNG_MOVES] += 1
            ladder.ints[RUNG_MOVES] = 0
            ladder.ints[RUNG] += 1
        ladder.ints[RUNG] = 0
        ladder.ints[LADDER_ITERATION] += 1
        if m > 1:
            exchange(
                stack,
                chains,
                tally,
                rng,
                ladder,
                ladder.ints[LADDER_ITERATION],
                aim,
                move.decay,
                move.freeze,
                counting,
            )
        if counting:
            end_iteration(target, chains[ladder.slot[m - 1]], tally)
    return iterations
