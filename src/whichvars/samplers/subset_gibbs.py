r"""Weighted tempered Gibbs that looks at few variables at a time, for p beyond 10⁵ (after Jankowiak 2023).

The process of ``tempered_gibbs.py`` on pairs (γ, S): S is a set of s variables, a of them *anchors* that are always
in it and the others drawn uniformly. Flip rates are, with :math:`r_i` as there and c = (p − a)/(s − a),

- :math:`r_i(\gamma)` for anchors, and for other variables that are in the model, whether in S or not;
- :math:`c\, r_i(\gamma)` for other variables that are out and in S; 0 for the rest.

One event, with Z the sum of these rates:

1. find the rates, by a scan of S and of the model;
2. add the mean holding time w = 1/(Z + λ): as the weight of :math:`p_j(\gamma)` for j in S, of
   :math:`\gamma_j` for the others;
3. with probability λ/(Z + λ), note γ as a draw; else flip i with probability its rate/(Z + λ). Draw S anew: among
   the sets that contain i where that was no anchor and left, else among all.

The process is reversible with the invariant law π(γ) · uniform(S). Let i be no anchor, out of γ and in γ'. From (γ, S),
i ∈ S, to (γ', S') the flow is :math:`\pi(\gamma) U(S)\, c\, r_i(\gamma) U(S')`; back it is
:math:`\pi(\gamma') U(S') r_i(\gamma') U(S \mid i \in S)`. They are equal: :math:`\pi r_i` is the same at γ and γ', and c is
1/P(i ∈ S). Under this law S is independent of γ, so that step 2 estimates inclusion probabilities without
bias, at O(s + k) an event.

Jankowiak's version has the rate c·r also for variables that leave, and draws S among the sets that contain i after every
flip: what has just entered then leaves at rate c ≫ 1, so that nearly all flips of other variables are undone at
once. Here they stay as long as in the full version.

Where the response is not Gaussian, flips are attempted at the rates of a Gaussian surrogate and made with probability min{1, w'/w}
(``_kernels/scan/thinning.py``), which leaves the flows above equal, each being multiplied by the same number.

In warm-up, at iterations 128, 256, 512, …, the anchors become the variables with the largest mean of
:math:`p_j(\gamma)` over the events that had them in S (what is older counts half each time); at first they are those
most correlated with y. Afterwards nothing is adapted.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from whichvars._kernels.chain import ADDED, NEEDED, PENDING, SCANNED, SIZE, accept, change, clear
from whichvars._kernels.count.tally import COUNTING, NOW, count_draws
from whichvars._kernels.decide import ACCEPTED, REJECTED, WAITING, make_flip
from whichvars._kernels.fits import fit_if_room
from whichvars._kernels.jit import entry, inlined, kernel, routine
from whichvars._kernels.scan.subset_scan import (
    Subset,
    choose_among,
    draw_subset,
    find_attempt,
    find_subset_rates,
    new_subset,
    set_anchors,
    sum_of,
)
from whichvars._kernels.scan.thinning import probability_of_flipped, second_stage_of_flip
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import Entries, RaoBlackwell, Run, check_between
from whichvars.samplers.estimated import FIRST_STAGE_OF_LEARNING, check_chains
from whichvars.samplers.references import JANKOWIAK_2023, ZANELLA_2019
from whichvars.samplers.tempered_gibbs import (
    DRAW,
    FLIP,
    KAPPA,
    LAMBDA,
    ROOM,
    JumpUnit,
    chain_averages,
    has_no_mass,
    mean_rate,
    new_jump_unit,
    take_turns,
)

ANCHORS = 100  # most anchors that are chosen if their number is not given


@dataclass
class Learning:
    """Whether anchors are still being chosen, as they are in warm-up."""

    learning: bool = True


@dataclass(frozen=True)
class SubsetGibbs:
    """Settings of weighted tempered Gibbs on subsets of the variables: for p beyond 100,000, where looking at all of
    them takes too long.

    Parameters
    ----------
    subset : int
        s, the variables that are looked at in an event. Twice the anchors if not given.
    anchors : int
        a, the variables that are always among them: those that seem most probable in warm-up. Fewer than
        `subset`. A quarter of all variables if not given, and 100 at most.
    chains : int
        Chains that share the anchors; they are independent otherwise, and Monte Carlo errors rest on how much
        they differ.
    floor : float
        κ = floor/p: the larger, the more often improbable variables are tried.
    draw_every : float
        Flips between two draws, on average.
    memo_slots : int
        Models whose marginal likelihood is remembered (16 bytes each); a power of two, or 0 for none.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> sampler = wv.SubsetGibbs(subset=6, anchors=3)
    >>> posterior = wv.sample(wv.Problem(data.X, data.y), sampler, draws=2000, seed=0, progress=False)
    >>> len(posterior.adaptation[0]["anchors"])
    3
    """

    subset: int | None = None
    anchors: int | None = None
    chains: int = 5
    floor: float = 5.0
    draw_every: float = 4.0
    memo_slots: int = 1 << 18

    words = (
        "a variant of subset weighted tempered Gibbs sampling, in continuous time, in which variables leave "
        "the model at the rates that they have where all variables are looked at,"
    )
    references = (JANKOWIAK_2023, ZANELLA_2019)
    invariant_law = "the posterior, in continuous time, times the uniform law of the subset"

    def __post_init__(self) -> None:
        check_chains(self)
        check_between(self, "floor", 0, np.inf)
        check_between(self, "draw_every", 0, np.inf)
        _check_count("subset", self.subset, 1)
        _check_count("anchors", self.anchors, 0)
        if self.subset is not None and self.anchors is not None and self.anchors >= self.subset:
            raise DataError(
                f"SubsetGibbs: anchors must be fewer than subset, not {self.anchors} with subset={self.subset}: variables that "
                "are no anchors could never enter"
            )

    def counts(self, p: int) -> tuple[int, int]:
        """s and a for p variables."""
        if self.subset is not None and self.subset > p:
            raise DataError(
                f"SubsetGibbs: subset must be at most the number of variables, {p}, not {self.subset}"
            )
        if self.anchors is not None and self.anchors >= p:
            raise DataError(
                f"SubsetGibbs: anchors must be fewer than the number of variables, {p}, not {self.anchors}"
            )
        if self.anchors is not None:
            anchors = self.anchors
        else:
            anchors = min(ANCHORS, p // 4 if self.subset is None else self.subset // 2)
        subset = min(p, max(2 * anchors, anchors + 4)) if self.subset is None else self.subset
        return subset, anchors

    def init(
        self, problem: Problem, seed: np.random.SeedSequence, starts: list[np.ndarray]
    ) -> Run[JumpUnit[Subset], Learning]:
        size, n_anchors = self.counts(problem.p)
        chains = new_jump_unit(problem, seed, starts, self.memo_slots, 0, self.floor / problem.p)
        room = len(chains.scan.pivot)
        unit = chains.having(new_subset(problem.target(0), self.chains, n_anchors, size, room))
        _choose_anchors(problem, unit)
        return Run([unit], Learning(), barrier=FIRST_STAGE_OF_LEARNING)

    def advance(
        self, problem: Problem, run: Run[JumpUnit[Subset], Learning], unit: int, iterations: int
    ) -> None:
        own = run.units[unit].own
        take_turns(problem, run.units[unit], ENTRIES, iterations * self.chains, own, run.shared.learning)

    def merge(self, problem: Problem, run: Run[JumpUnit[Subset], Learning]) -> None:
        """End of a stage of warm-up: choose λ by the mean of Z in it, and the anchors."""
        unit = run.units[0]
        unit.floats[LAMBDA] = mean_rate(unit) / self.draw_every
        _choose_anchors(problem, unit)
        unit.own.seen[:] *= 0.5
        unit.own.scores[:] *= 0.5
        unit.forget()
        unit.events = 0
        run.barrier = 2 * run.iterations

    def begin_counting(self, problem: Problem, run: Run[JumpUnit[Subset], Learning]) -> None:
        if run.iterations > 0:
            self.merge(problem, run)
        run.warmup, run.barrier, run.shared.learning = run.iterations, None, False
        unit = run.units[0]
        unit.start_counting()

    def averages(self, run: Run[JumpUnit[Subset], Learning]) -> RaoBlackwell:
        return chain_averages(run.units[0])

    def learned(self, problem: Problem, run: Run[JumpUnit[Subset], Learning]) -> dict[str, Any]:
        unit = run.units[0]
        return {
            "mean_rate": mean_rate(unit),
            "draw_rate": float(unit.floats[LAMBDA]),
            "draws": int(unit.tally.ints[NOW]),
            "subset": len(unit.own.members),
            "anchors": unit.own.anchors.copy(),
        }


def _check_count(name: str, value: object, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ArgumentTypeError(f"SubsetGibbs: {name} must be a whole number or None, not {value!r}")
    if value < least:
        raise DataError(f"SubsetGibbs: {name} must be at least {least}, not {value!r}")


def _choose_anchors(problem: Problem, unit: JumpUnit[Subset]) -> None:
    """The variables of the largest mean p_j; where nothing is known of them, by their correlation with y."""
    own = unit.own
    mean = np.divide(own.scores, own.seen, out=np.zeros(problem.p), where=own.seen > 0)
    best = np.lexsort((-correlations_with_response(problem), -mean))
    set_anchors(own, best[: len(own.anchors)], unit.rng)
    for chain in unit.chains:
        chain.ints[SCANNED] = 0


def correlations_with_response(problem: Problem) -> np.ndarray:
    """The absolute correlation of each variable with y, up to a factor: of its best column, (p,)."""
    design = problem.target(0).design
    squares = np.where(design.diagonal > 0, design.diagonal, np.inf)
    return np.maximum.reduceat(np.abs(design.xty) / np.sqrt(squares), design.offsets[:-1])


@entry
def advance(target, chain, memo, tally, rng, work, table, floats, sums, weights, c, subset, learning, steps):
    return _advance(target, chain, memo, tally, rng, work, floats, sums, weights, c, subset, learning, steps)


@entry
def advance_with_fits(
    fits, target, chain, memo, tally, rng, work, table, floats, sums, weights, c, subset, learning, steps
):
    return _advance_with_fits(
        fits, target, chain, memo, tally, rng, work, floats, sums, weights, c, subset, learning, steps
    )


ENTRIES = Entries(advance, advance_with_fits)


@kernel
def _advance_with_fits(
    fits, target, chain, memo, tally, rng, work, floats, sums, weights, c, subset, learning, steps
):
    done, events = 0, 0
    while True:
        more, also = _advance(
            target, chain, memo, tally, rng, work, floats, sums, weights, c, subset, learning, steps - done
        )
        done += more
        events += also
        if not fit_if_room(fits, chain):
            return done, events


@inlined
def next_subset_event(target, chain, tally, rng, work, floats, sums, weights, c, subset, learning):
    """Steps 1 to 3 for chain c. The flip is left as a proposal. Returns FLIP, DRAW, or ROOM where the chain
    needs room first."""
    needed = find_subset_rates(target, chain, work, subset, c, floats[KAPPA])
    if needed > 0:
        chain.ints[NEEDED] = needed
        return ROOM
    size, n = chain.ints[SIZE], subset.members.shape[0]
    out = sum_of(subset.leaving, size)
    if has_no_mass(chain, floats) or subset.steep[0] > 0:  # rates so large that no time is spent here
        u = rng.random() * (out + sum_of(subset.entering, n))
    else:
        total = floats[LAMBDA] + out + sum_of(subset.entering, n)
        weights[c] += 1.0 / total
        _add(chain, work.vector, subset, sums[c], 1.0 / total)
        if learning:
            _learn(subset, 1.0 / total)
        u = rng.random() * total - floats[LAMBDA]
    flipped = -1
    if u >= out:
        place = choose_among(subset.entering, n, u - out)
        flipped = subset.members[place] if place >= 0 else -1
    elif u >= 0.0:
        flipped = chain.order[choose_among(subset.leaving, size, u)]
    if flipped < 0:
        if tally.ints[COUNTING] > 0:
            count_draws(chain, tally, 1)
        draw_subset(subset, c, -1, rng)
        return DRAW
    clear(chain)
    change(target, chain, flipped)
    if not target.slab.surrogate:
        _draw_subset_after(chain, subset, c, flipped, rng)
    return FLIP


@inlined
def _draw_subset_after(chain, subset, c, flipped, rng):
    """Draw S anew after a flip, which is still a proposal."""
    leaves = chain.position[flipped] >= 0 and not subset.is_anchor[flipped]
    draw_subset(subset, c, flipped if leaves else -1, rng)


@kernel
def attempt_subset_flip(target, chain, memo, rng, sums, c, subset, has_time):
    """Attempt the flip that is proposed where there is a surrogate, as ``attempt_flip`` in ``thinning.py`` does. There is no table:
    what is learnt from attempts is remembered as long as the chain stays where it is. Where the flip is refused, S stays."""
    ints = chain.ints
    ratio = second_stage_of_flip(target, chain, memo)
    if ints[PENDING] != 0:
        return WAITING
    adds = ints[ADDED] == 1
    j = np.int64(chain.added[0]) if adds else chain.deleted[0]
    if find_attempt(subset, c, j) < 0:
        p_j = probability_of_flipped(chain, adds, ratio)
        for m in range(subset.members.shape[0]):
            if subset.members[m] == j and has_time and subset.steep[0] == 0:
                rate = subset.entering[m] if adds else subset.leaving[chain.position[j]]
                sums[c, j] += (p_j - subset.probabilities[m]) / rate
        i = subset.attempts[c] % subset.attempted.shape[1]
        subset.attempted[c, i] = j
        subset.log_thinning[c, i] = ratio
        subset.true[c, i] = p_j
        subset.attempts[c] += 1
        if ratio < 0.0 and not rng.random() < math.exp(ratio):
            return REJECTED
    elif not ratio > -np.inf:
        return REJECTED
    subset.attempts[c] = 0
    _draw_subset_after(chain, subset, c, j, rng)
    accept(target, chain)
    return ACCEPTED


@inlined
def _add(chain, marks, subset, sums, weight):
    """Step 2. `marks` has one number for each variable of the model, to note whether it is in S."""
    size, position, members = chain.ints[SIZE], chain.position, subset.members
    for q in range(size):
        marks[q] = 0.0
    for m in range(members.shape[0]):
        j = members[m]
        sums[j] += weight * subset.probabilities[m]
        if position[j] >= 0:
            marks[position[j]] = 1.0
    for q in range(size):
        if marks[q] == 0.0:
            sums[chain.order[q]] += weight


@inlined
def _learn(subset, weight):
    for m in range(subset.members.shape[0]):
        subset.seen[subset.members[m]] += weight
        subset.scores[subset.members[m]] += weight * subset.probabilities[m]


@routine
def _advance(target, chain, memo, tally, rng, work, floats, sums, weights, c, subset, learning, steps):
    """Advance chain c; returns the steps done, fewer than asked where it needs more room, and the events."""
    ints = chain.ints
    done = 0
    events = 0
    while done < steps:
        if ints[PENDING] == 0:
            event = next_subset_event(
                target, chain, tally, rng, work, floats, sums, weights, c, subset, learning
            )
            if event == ROOM:
                return done, events
            events += 1
            if event == DRAW:
                done += 1
                continue
        if target.slab.surrogate:
            has_time = not has_no_mass(chain, floats)
            if attempt_subset_flip(target, chain, memo, rng, sums, c, subset, has_time) == WAITING:
                return done, events
        elif not make_flip(target, chain, memo, False):
            return done, events
        done += 1
    return done, events
