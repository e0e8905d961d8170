r"""Sequential Monte Carlo with individual adaptation (Griffin, Łatuszyński & Steel, section 4).

N particles are drawn from the prior, t = 0. Repeat, until t = 1:

1. choose the next temperature :math:`t'` by bisection, so that the weights :math:`w_i = p(y \mid \gamma_i)^{t' - t}` have an effective
   sample size of cN;
2. the log evidence grows by the log of the mean weight; resample (systematic);
3. K moves of every particle, each leaving :math:`p(y \mid \gamma)^{t'} p(\gamma)` invariant, with common adding and deleting probabilities
   that are carried over from one temperature to the next while the counter of the learning rate starts again.

A particle's K moves are made with fixed probabilities; what they have to teach is learned before the next particle
moves. Learning within them, with rates that start again from φ₀ at each temperature, is measurably biased: the kernel
then depends on the state it moves.

Particles are moved in a fixed number of groups; one thread moves a group, with one memo, so that particles
that are equal cost one likelihood. Groups average what they learned after each temperature. The result does
not depend on the number of threads.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, logsumexp

from whichvars._kernels.chain import (
    INVERSE_TEMPERATURE,
    LOG_MARGINAL,
    LOG_PRIOR,
    NEEDED,
    SIZE,
    Chain,
    grow,
    new_chain,
)
from whichvars._kernels.count.averages import scan_cost
from whichvars._kernels.count.model_table import Memo
from whichvars._kernels.count.tally import Tally, new_tally
from whichvars._kernels.evaluate import go_to_model, set_model
from whichvars._kernels.fits import fit_if_room
from whichvars._kernels.jit import by_reference, entry, kernel, routine
from whichvars._kernels.propose.adapt import ADD, DELETE, Shared, merge_adaptations, new_shared
from whichvars._kernels.propose.changes import ITERATION, describe_changes
from whichvars._kernels.scan.scan import scan_model
from whichvars._kernels.scan.scan_work import new_scan
from whichvars.errors import DataError
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import (
    Entries,
    Estimate,
    RaoBlackwell,
    Run,
    Sampler,
    as_rows,
    check_between,
    fit_if_asked,
    memo_of,
    place_chain,
)
from whichvars.samplers.estimated import ITERATION_TIME
from whichvars.samplers.individual import IndividualAdaptation
from whichvars.samplers.moves import MoveState, learn_deferred, new_move_state, read_move, step
from whichvars.samplers.references import GRIFFIN_2014, SCHAFER_2013
from whichvars.samplers.seeding import stream
from whichvars.samplers.starts import prior_draws

FEW_DISTINCT = 0.02  # share of distinct particles below which the result is called degenerate
_RESAMPLING = 1_000_001  # path of the stream that resamples, away from those of the groups

# places in ParticleGroup.cursor
PARTICLE, LOADED, MOVED = range(3)


@by_reference
class Particles(NamedTuple):
    """The models of a group of particles, as kernels are given them."""

    members: np.ndarray
    values: np.ndarray
    sizes: np.ndarray
    cursor: np.ndarray


@dataclass
class ParticleGroup:
    """A share of the particles, as one thread moves it."""

    chain: Chain  # goes from particle to particle
    memo: Memo
    tally: Tally  # counts nothing
    rng: np.random.Generator
    state: MoveState
    members: np.ndarray  # (N_g, capacity) int64
    values: np.ndarray  # (N_g, 2): log marginal, log prior
    sizes: np.ndarray  # (N_g,) int64
    cursor: np.ndarray  # (3,) int64

    def all_chains(self) -> list[Chain]:
        return [self.chain]

    def particles(self) -> Particles:
        return Particles(self.members, self.values, self.sizes, self.cursor)


@dataclass
class Population:
    """What is common to all groups."""

    adaptation: Shared
    rng: np.random.Generator
    temperature: float = 0.0
    log_evidence: float = 0.0
    temperatures: list[float] = field(default_factory=list)
    distinct: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class SequentialMonteCarlo:
    """Settings of sequential Monte Carlo: for posteriors with several modes, and for the evidence.

    Parameters
    ----------
    particles : int
        N.
    steps : int
        K, moves of each particle at each temperature.
    ess : float
        c, effective sample size to which a new temperature brings the particles, as a share of N.
    move : sampler
        ``IndividualAdaptation()`` if not given, or any other sampler that leaves its target invariant.
    groups : int
        Groups in which particles are moved; the result depends on it, but not on the number of threads.
    memo_slots : int
        Models whose marginal likelihood is remembered, per group (16 bytes each); a power of two, or 0 for
        none.

    Notes
    -----
    Its size is set here: ``sample()`` refuses `draws`, `warmup` and `start`. Monte Carlo errors, that of
    ``posterior.log_evidence`` too, come from the replicates, which are independent. ``posterior.adaptation``
    holds `temperatures`, `distinct_particles` at each of them, and what the move learned.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> problem = wv.Problem(data.X, data.y)
    >>> posterior = wv.sample(problem, wv.SequentialMonteCarlo(particles=500, steps=10), seed=0, progress=False)
    >>> bool(abs(posterior.log_evidence - wv.exact(problem).log_evidence) < 5 * posterior.log_evidence_mcse)
    True
    """

    particles: int = 10_000
    steps: int = 25
    ess: float = 0.9
    move: Sampler | None = None
    groups: int = 8
    memo_slots: int = 1 << 18

    words = "sequential Monte Carlo from the prior to the posterior"
    references = (GRIFFIN_2014, SCHAFER_2013)
    invariant_law = "posterior"
    for_families = True
    by_draws = False
    chains = 1

    def __post_init__(self) -> None:
        if self.move is None:
            object.__setattr__(self, "move", IndividualAdaptation())
        read_move(self.move, "SequentialMonteCarlo")
        check_between(self, "ess", 0, 1)
        for name, least in (("particles", 2), ("steps", 1), ("groups", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise DataError(
                    f"SequentialMonteCarlo: {name} must be a whole number of at least {least}, not {value!r}"
                )
        if getattr(self.move, "chains", 1) != 1:
            raise DataError(
                "SequentialMonteCarlo: its move must have chains=1; all particles learn together anyway"
            )

    def init(
        self, problem: Problem, seed: np.random.SeedSequence, starts: list[np.ndarray]
    ) -> Run[ParticleGroup, Population]:
        rng = stream(seed, _RESAMPLING)
        models = prior_draws(problem, rng, self.particles)
        groups = []
        for index, share in enumerate(
            np.array_split(np.arange(self.particles), min(self.groups, self.particles))
        ):
            groups.append(self._new_group(problem, seed, index, [models[i] for i in share]))
        run = Run(groups, Population(new_shared(groups[0].state.adaptation), rng))
        # a model without mass (rank deficient, say) has likelihood zero and is lost at the first resampling
        alive = np.concatenate([np.isfinite(g.values[:, 0]) for g in groups])
        if not alive.any():
            raise DataError(
                "no model drawn from the prior has posterior mass; use more particles or a prior with smaller models"
            )
        run.shared.log_evidence = float(np.log(alive.mean()))
        self._next_temperature(run)
        return run

    def _new_group(
        self, problem: Problem, seed: np.random.SeedSequence, index: int, models: list[np.ndarray]
    ) -> ParticleGroup:
        capacity = max(problem.first_capacity(), min(max(map(len, models), default=1), problem.p))
        group = ParticleGroup(
            chain=new_chain(problem.target(capacity), capacity),
            memo=memo_of(problem, self.memo_slots),
            tally=new_tally(0, 1, 2, 2, 2),
            rng=stream(seed, index),
            state=new_move_state(problem, self.move, deferred=True),
            members=np.zeros((len(models), capacity), np.int64),
            values=np.zeros((len(models), 2)),
            sizes=np.array([len(m) for m in models], np.int64),
            cursor=np.zeros(3, np.int64),
        )
        for i, model in enumerate(models):
            group.members[i, : len(model)] = model
            wanted = model.astype(np.int64)
            while True:
                target = problem.target(len(group.chain.slot))
                has_mass = set_model(target, group.chain, group.memo, wanted, len(wanted))
                if not group.chain.ints[NEEDED]:
                    break
                self._make_room(problem, group)
            group.values[i] = group.chain.floats[[LOG_MARGINAL, LOG_PRIOR]] if has_mass else (-np.inf, 0.0)
        return group

    def _make_room(self, problem: Problem, group: ParticleGroup) -> None:
        if fit_if_asked(problem, group.chain):
            return
        capacity = max(2 * len(group.chain.slot), int(group.chain.ints[NEEDED]))
        group.chain = grow(group.chain, capacity)
        members = np.zeros((len(group.sizes), capacity), np.int64)
        members[:, : group.members.shape[1]] = group.members
        group.members = members

    def advance(
        self, problem: Problem, run: Run[ParticleGroup, Population], unit: int, iterations: int
    ) -> None:
        group = run.units[unit]
        move = read_move(self.move, "SequentialMonteCarlo", deferred=True)
        done = 0
        while done < iterations:
            with ENTRIES.for_problem(problem) as advance_group:
                done += advance_group(
                    problem.target(len(group.chain.slot)), group.chain, group.memo, group.tally, group.rng, group.state, move,
                    group.particles(), self.steps, run.shared.temperature, iterations - done,
                )  # fmt: skip
            if group.chain.ints[NEEDED]:
                self._make_room(problem, group)

    def merge(self, problem: Problem, run: Run[ParticleGroup, Population]) -> None:
        """All particles have made their K moves at this temperature."""
        groups, shared = run.units, run.shared
        merge_adaptations(shared.adaptation, [g.state.adaptation for g in groups], 1 / len(groups))
        logit = np.mean([g.state.logit[0] for g in groups])
        for group in groups:
            group.state.logit[0] = logit
            group.state.changes.ints[ITERATION] = 0
        shared.temperatures.append(shared.temperature)
        shared.distinct.append(len(self._counts(run)))
        if shared.temperature == 1.0:
            run.finished, run.fraction, run.barrier = True, 1.0, None
        else:
            self._next_temperature(run)

    def _next_temperature(self, run: Run[ParticleGroup, Population]) -> None:
        """Steps 1 and 2."""
        groups, shared = run.units, run.shared
        log_likelihood = np.concatenate([g.values[:, 0] for g in groups])
        step = next_step(log_likelihood, 1.0 - shared.temperature, self.ess)
        alive = np.isfinite(log_likelihood)
        log_weights = np.where(alive, step * np.where(alive, log_likelihood, 0.0), -np.inf)
        shared.log_evidence += float(logsumexp(log_weights) - np.log(alive.sum()))
        shared.temperature = 1.0 if step == 1.0 - shared.temperature else shared.temperature + step
        self._resample(run, systematic(np.exp(log_weights - log_weights.max()), shared.rng))
        run.barrier = run.iterations + max(len(g.sizes) for g in groups)
        run.fraction = shared.temperature
        distinct = f", {shared.distinct[-1]} distinct particles" if shared.distinct else ""
        run.status = f"temperature {shared.temperature:.3g}{distinct}"

    def _resample(self, run: Run[ParticleGroup, Population], ancestors: np.ndarray) -> None:
        groups = run.units
        capacity = max(g.members.shape[1] for g in groups)
        members = np.zeros((len(ancestors), capacity), np.int64)
        borders = np.cumsum([0] + [len(g.sizes) for g in groups])
        for group, start in zip(groups, borders):
            members[start : start + len(group.sizes), : group.members.shape[1]] = group.members
        values = np.concatenate([g.values for g in groups])[ancestors]
        sizes = np.concatenate([g.sizes for g in groups])[ancestors]
        members = members[ancestors]
        for group, start, stop in zip(groups, borders, borders[1:]):
            while len(group.chain.slot) < capacity:
                group.chain = grow(group.chain, capacity)
            group.members = np.ascontiguousarray(members[start:stop])
            group.values = np.ascontiguousarray(values[start:stop])
            group.sizes = np.ascontiguousarray(sizes[start:stop])
            group.cursor[:] = 0

    def _counts(
        self, run: Run[ParticleGroup, Population]
    ) -> dict[tuple[int, ...], tuple[float, float, float]]:
        """Members of each distinct particle → log marginal, log prior, number."""
        counts: dict[tuple[int, ...], tuple[float, float, float]] = {}
        for group in run.units:
            for i, size in enumerate(group.sizes):
                key = tuple(sorted(group.members[i, :size].tolist()))
                marginal, prior = group.values[i].tolist()
                before = counts.get(key, (marginal, prior, 0.0))
                counts[key] = (*before[:2], before[2] + 1)
        return counts

    def learned(self, problem: Problem, run: Run[ParticleGroup, Population]) -> dict[str, Any]:
        groups = run.units
        out = {
            **describe_changes([g.state.changes for g in groups]),
            "temperatures": np.array(run.shared.temperatures),
            "distinct_particles": np.array(run.shared.distinct),
            "log_evidence": run.shared.log_evidence,
        }
        if isinstance(self.move, IndividualAdaptation):
            out["add_probability"] = groups[0].state.adaptation.values[:, ADD].copy()
            out["delete_probability"] = groups[0].state.adaptation.values[:, DELETE].copy()
        return out

    def _rao_blackwell(self, problem: Problem, run: Run[ParticleGroup, Population]) -> RaoBlackwell:
        """Conditional inclusion probabilities, averaged over evenly spaced particles: over as many as can be scanned in about
        the time that the iterations took."""
        groups = run.units
        chain, memo = groups[0].chain, groups[0].memo
        models = [g.members[i, :size].astype(np.int64) for g in groups for i, size in enumerate(g.sizes)]
        target = problem.target(len(chain.slot))
        columns = float(np.mean([len(m) for m in models]))
        made = self.particles * self.steps * len(run.shared.temperatures)
        most = max(1, int(made * ITERATION_TIME / scan_cost(target, columns, columns)))
        known: dict[bytes, np.ndarray] = {}
        total, every = np.zeros(problem.p), -(-len(models) // most)
        work = new_scan(target, len(chain.slot), 0)
        for model in models[::every]:
            key = np.sort(model).tobytes()
            if key not in known:
                chain = place_chain(problem, chain, memo, model)
                if len(chain.slot) > len(work.squares):
                    target = problem.target(len(chain.slot))
                    work = new_scan(target, len(chain.slot), 0)
                scan_model(target, chain, work)
                known[key] = expit(work.log_odds)
            total += known[key]
        groups[0].chain = chain
        return RaoBlackwell(total / len(models[::every]), np.zeros(problem.p), 0)

    def estimate(self, problem: Problem, run: Run[ParticleGroup, Population], replicate: int) -> Estimate:
        """From the particles at t = 1, which have equal weights."""
        counts = self._counts(run)
        n = sum(number for *_, number in counts.values())
        pip = np.zeros(problem.p)
        for members, (_, _, number) in counts.items():
            pip[list(members)] += number / n
        groups = run.units
        values = np.concatenate([g.values for g in groups])
        trace = pd.DataFrame(
            {
                "replicate": replicate,
                "chain": 0,
                "iteration": np.arange(1, len(values) + 1),
                "size": np.concatenate([g.sizes for g in groups]),
                "log_posterior": values.sum(axis=1),
            }
        )
        few = len(counts) < FEW_DISTINCT * n and pip.max(initial=0) > 0 and _spread(pip)
        message = (
            f"only {len(counts)} of {int(n)} particles are distinct; the particles may have lost modes. Use more steps or particles",
        )
        return Estimate(
            pip=pip,
            variance=np.zeros(problem.p),
            degrees=0,
            models={m: (marginal, prior, number / n) for m, (marginal, prior, number) in counts.items()},
            floor=-np.inf,
            trace=trace,
            records=as_rows(
                [g.members[i, :size] for g in groups for i, size in enumerate(g.sizes)], problem.p
            ),
            iterations=self.particles * self.steps * len(run.shared.temperatures),
            log_evidence=run.shared.log_evidence,
            rao_blackwell=None if problem.one_by_one else self._rao_blackwell(problem, run),
            troubles=run.troubles(),
            warnings=message if few else (),
        )


def _spread(pip: np.ndarray) -> bool:
    """Whether the posterior is wide enough that many distinct particles are to be expected: whether the entropies of
    all variables sum to more than 7 bits."""
    inside = pip[(pip > 0) & (pip < 1)]
    return float(-(inside * np.log2(inside) + (1 - inside) * np.log2(1 - inside)).sum()) > 7.0


def next_step(log_likelihood: np.ndarray, longest: float, share: float) -> float:
    """The increase of temperature at which the weights have an effective sample size of `share` of the
    particles alive, by bisection."""
    alive = log_likelihood[np.isfinite(log_likelihood)]
    alive = alive - alive.max()

    def effective(step: float) -> float:
        w = np.exp(step * alive)
        return float(w.sum() ** 2 / (w**2).sum() / len(alive))

    if effective(longest) >= share:
        return longest
    low, high = 0.0, longest
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if effective(middle) >= share else (low, middle)
    return max(low, 1e-12)


def systematic(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Systematic resampling: indices, in increasing order, each i about N w_i/Σw times."""
    cumulative = np.cumsum(weights)
    points = (rng.random() + np.arange(len(weights))) * (cumulative[-1] / len(weights))
    # by rounding the last point may be the end itself; what has no weight is never taken
    return np.minimum(np.searchsorted(cumulative, points, side="right"), np.flatnonzero(weights)[-1])


@entry
def advance(target, chain, memo, tally, rng, state, move, particles, steps, temperature, iterations):
    return _advance(target, chain, memo, tally, rng, state, move, particles, steps, temperature, iterations)


@entry
def advance_with_fits(
    fits, target, chain, memo, tally, rng, state, move, particles, steps, temperature, iterations
):
    return _advance_with_fits(
        fits, target, chain, memo, tally, rng, state, move, particles, steps, temperature, iterations
    )


ENTRIES = Entries(advance, advance_with_fits)


@kernel
def _advance_with_fits(
    fits, target, chain, memo, tally, rng, state, move, particles, steps, temperature, iterations
):
    done = 0
    while True:
        done += _advance(
            target, chain, memo, tally, rng, state, move, particles, steps, temperature, iterations - done
        )
        if not fit_if_room(fits, chain):
            return done


@routine
def _advance(target, chain, memo, tally, rng, state, move, particles, steps, temperature, iterations):
    """Move the next `iterations` particles, `steps` times each; returns how many were moved, fewer where the
    chain needs room."""
    members, values, sizes, cursor = particles.members, particles.values, particles.sizes, particles.cursor
    for done in range(iterations):
        i = cursor[PARTICLE]
        if i >= sizes.shape[0]:
            return iterations
        if cursor[LOADED] == 0:
            chain.floats[INVERSE_TEMPERATURE] = temperature
            go_to_model(target, chain, memo, members[i], sizes[i])
            if chain.ints[NEEDED] != 0:
                return done
            cursor[LOADED] = 1
        while cursor[MOVED] < steps:
            if not step(target, chain, memo, tally, rng, state, move, False, True):
                return done
            cursor[MOVED] += 1
        sizes[i] = chain.ints[SIZE]
        for r in range(sizes[i]):
            members[i, r] = chain.order[r]
        values[i, 0] = chain.floats[LOG_MARGINAL]
        values[i, 1] = chain.floats[LOG_PRIOR]
        cursor[PARTICLE] = i + 1
        cursor[LOADED] = 0
        cursor[MOVED] = 0
        learn_deferred(state, move)
    return iterations
