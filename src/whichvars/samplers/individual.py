r"""Individual adaptation (Griffin, Łatuszyński & Steel, arXiv 1412.6760, sections 2, 3 and 5).

Every variable has its own adding probability :math:`A_j` and deleting probability :math:`D_j`. One iteration:

1. propose γ': each variable that is out enters with probability :math:`A_j`, each that is in leaves with probability
   :math:`D_j`, all independently;
2. accept (``_kernels/decide.py``) with probability
   :math:`a = \min\{1, \frac{\pi(\gamma')}{\pi(\gamma)} \prod_{\mathrm{added}} \frac{D_j}{A_j} \prod_{\mathrm{deleted}} \frac{A_j}{D_j}\}`
   (unchanged coordinates cancel);
3. learn, at the changed coordinates only, on the scale :math:`\mathrm{logit}_\varepsilon`, with step :math:`\phi_i = \phi_0 i^{-\lambda}`
   and :math:`a'` the acceptance probability of the reverse move:
   for an added j, :math:`A_j` by :math:`\phi_i (a - \tau)(1 - wa)` and :math:`D_j` by :math:`\phi_i (a' -
   \tau) w a`; for a deleted j the same with A and D exchanged.

w = 0 is plain individual adaptation (IA), w > 0 uses reverse acceptance probabilities too (RAPA). With
several chains, all learn the same A and D (multiple chain acceleration, MCA). No step costs more than
O(number of changes) plus a small Cholesky factor, for any p.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from whichvars._kernels.chain import ADDED, DELETED, LOG_PROPOSAL, PENDING, SIZE, clear
from whichvars._kernels.count.tally import COUNTING, end_iteration
from whichvars._kernels.decide import ACCEPTED, WAITING, acceptance_of, decide
from whichvars._kernels.fits import fit_if_room
from whichvars._kernels.jit import entry, inlined, kernel, routine
from whichvars._kernels.propose.adapt import (
    ADD,
    DELETE,
    Adaptation,
    Shared,
    add_to_logits,
    learned_probabilities,
    merge_adaptations,
    new_adaptation,
    new_shared,
)
from whichvars._kernels.propose.bernoulli import draw_successes, draw_successes_one_by_one
from whichvars._kernels.propose.changes import (
    ITERATION,
    Changes,
    describe_changes,
    new_changes,
    note_proposal,
)
from whichvars.errors import DataError
from whichvars.problem.model_priors import mean_of_sizes
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import NEVER, Entries, Run, Unit, advance_unit, check_between, new_unit
from whichvars.samplers.references import GRIFFIN_2014

# what a chain learned and what it counted; what chains that learn together have in common
IndividualRun = Run[Unit[tuple[Adaptation, Changes]], Shared | None]


@dataclass(frozen=True)
class IndividualAdaptation:
    r"""Settings of the individual adaptation sampler.

    Parameters
    ----------
    tau : float
        Target τ of the acceptance probability of each kind of move. The larger it is, the fewer variables are changed at
        once. The paper finds .35 to .55 about equally good and uses .45 (.35 inside tempering).
    w : float
        Weight of the reverse acceptance probabilities: 0 is plain IA; the default ½ (RAPA) learns faster.
    nu : float
        Expected number of additions, and of deletions, in the first proposals; .25 to 4 make little
        difference.
    phi0, decay : float
        Learning rate :math:`\phi_i = \phi_0 i^{-\lambda}`, λ = decay in (½, 1]. With φ₀ = 10, proposals
        that change many variables are learned sooner (the paper's figures are reproduced with it), but the levels of A and D
        drift, and a few variables may hardly ever move; φ₀ = 1 learns in smaller steps.
    epsilon : float
        A and D stay inside (ε, 1 − ε). Must be well below 1/p, or the floor alone proposes εp additions at
        each step; 0.1/p if not given.
    chains : int
        Chains that learn together (MCA). The draws are divided among them; i in φ_i counts the iterations of all of them.
    freeze_after : int
        Iterations of each chain after which A and D stay as they are; never if not given.
    merge_every : int
        Most iterations of each chain between two exchanges of what was learned; early on they are more
        frequent.
    memo_slots : int
        Models whose marginal likelihood is remembered, per chain (16 bytes each); a power of two, or 0 for
        none.
    additions : "buckets" or "coins"
        How additions are drawn: by buckets, at a cost independent of p, or with one random number for each variable.
        Their distribution is the same.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> sampler = wv.IndividualAdaptation(chains=5)
    >>> posterior = wv.sample(wv.Problem(data.X, data.y), sampler, draws=20_000, replicates=2, seed=0, progress=False)
    >>> sorted(posterior.adaptation[0])[:3]
    ['acceptance_by_changes', 'add_probability', 'add_probability_along_run']
    """

    tau: float = 0.45
    w: float = 0.5
    nu: float = 1.0
    phi0: float = 1.0
    decay: float = 0.55
    epsilon: float | None = None
    chains: int = 1
    freeze_after: int | None = None
    merge_every: int = 10_000
    memo_slots: int = 1 << 16
    additions: str = "buckets"

    words = "individual adaptation, an adaptive Metropolis–Hastings sampler"
    references = (GRIFFIN_2014,)
    invariant_law = "posterior"
    for_families = True

    def __post_init__(self) -> None:
        check_between(self, "tau", 0, 1)
        check_between(self, "w", 0, 1, closed_below=True, closed_above=True)
        check_between(self, "nu", 0, math.inf)
        check_between(self, "phi0", 0, math.inf)
        check_between(self, "decay", 0.5, 1, closed_above=True)
        if self.epsilon is not None:
            check_between(self, "epsilon", 0, 0.5)
        for name, least in (("chains", 1), ("merge_every", 1), ("freeze_after", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, (int, np.integer)) or value < least):
                raise DataError(
                    f"IndividualAdaptation: {name} must be a whole number of at least {least}, not {value!r}"
                )
        if self.additions not in ("buckets", "coins"):
            raise DataError(
                f'IndividualAdaptation: additions must be "buckets" or "coins", not {self.additions!r}'
            )

    def init(self, problem: Problem, seed: np.random.SeedSequence, starts: list[np.ndarray]) -> IndividualRun:
        units = [
            new_unit(problem, seed, chain, start, self.memo_slots, self.chains).having(
                (self.first_adaptation(problem, self.chains > 1), new_changes())
            )
            for chain, start in enumerate(starts)
        ]
        if self.chains == 1:
            return Run(units, None)
        return Run(units, new_shared(units[0].own[0]), barrier=self.next_barrier(0))

    @property
    def first_rate(self) -> float:
        """What i^{−λ} is multiplied by, i the iteration of each of r chains: φ₀ r^{−λ}.

        The chains' iterations count together, r·i of them: with φ₀ i^{−λ} for each of r chains the shared probabilities would move r
        times as much as those of one chain of the same total length, and so would the bias of learning while sampling.
        """
        return self.phi0 * self.chains**-self.decay

    def next_barrier(self, iteration: int) -> int:
        """When chains exchange what they learned next: often while steps are large, every `merge_every`
        iterations at the end.

        Each chain goes by the others' news late; what r chains learn in w iterations moves a logit by about
        r w φ times its share of the changes. Holding r w φ at about 40 keeps that below one, so the sum
        cannot overshoot.
        """
        step = self.chains * self.first_rate * max(iteration, 1) ** -self.decay
        return iteration + int(min(max(40 / step, 1), self.merge_every))

    def first_adaptation(self, problem: Problem, learn_together: bool) -> Adaptation:
        """A_j = ν/((1−h)p), D_j = ν/(hp), h the prior mean size over p; kept inside (ε, 1 − ε)."""
        p = problem.p
        size = mean_of_sizes(problem.model_prior.size_distribution(p, problem.max_size))
        epsilon = 0.1 / p if self.epsilon is None else self.epsilon
        low, high = epsilon + 0.01 * (0.5 - epsilon), 1 - epsilon - 0.01 * (0.5 - epsilon)
        low = min(low, 2 * epsilon)
        add = np.clip(self.nu / max(p - size, 1e-300), low, high)
        delete = np.clip(self.nu / max(size, 1e-300), low, high)
        return new_adaptation(np.full(p, add), np.full(p, delete), epsilon, learn_together)

    def advance(self, problem: Problem, run: IndividualRun, unit: int, iterations: int) -> None:
        adaptation, changes = run.units[unit].own
        freeze = NEVER if self.freeze_after is None else self.freeze_after
        advance_unit(
            problem, run.units[unit], ENTRIES, iterations,
            adaptation, changes, self.tau, self.w, self.first_rate, self.decay, freeze, self.additions == "buckets",
        )  # fmt: skip

    def merge(self, problem: Problem, run: IndividualRun) -> None:
        if run.shared is not None:
            merge_adaptations(run.shared, [unit.own[0] for unit in run.units])
        run.barrier = self.next_barrier(run.iterations)

    def learned(self, problem: Problem, run: IndividualRun) -> dict[str, Any]:
        add, delete = learned_probabilities(run.shared, [unit.own[0] for unit in run.units])
        return {
            "add_probability": add,
            "delete_probability": delete,
            **describe_changes([unit.own[1] for unit in run.units]),
        }


@inlined
def propose(target, chain, adaptation, rng, by_buckets):
    """Step 1, and the log of the product of step 2."""
    clear(chain)
    ints, position, keys = chain.ints, chain.position, target.design.keys
    values, buckets = adaptation.values, adaptation.buckets
    if by_buckets:
        added = draw_successes(
            buckets.members, buckets.start, buckets.segment, values, position, rng, chain.added
        )
    else:
        added = draw_successes_one_by_one(values, position, rng, chain.added)
    key = chain.keys[0]
    log_ratio = 0.0
    ratio = 1.0
    for i in range(added):
        j = chain.added[i]
        key ^= keys[j]
        ratio *= values[j, DELETE] / values[j, ADD]
        if ratio > 1e200 or ratio < 1e-200:
            log_ratio += math.log(ratio)
            ratio = 1.0
    deleted = 0
    for i in range(ints[SIZE]):
        j = chain.order[i]
        if rng.random() < values[j, DELETE]:
            chain.deleted[deleted] = j
            deleted += 1
            key ^= keys[j]
            ratio *= values[j, ADD] / values[j, DELETE]
            if ratio > 1e200 or ratio < 1e-200:
                log_ratio += math.log(ratio)
                ratio = 1.0
    ints[ADDED] = added
    ints[DELETED] = deleted
    chain.keys[1] = key
    chain.floats[LOG_PROPOSAL] = log_ratio + math.log(ratio)


@inlined
def directions(log_ratio, tau, w):
    """What step 3 moves the probabilities by, but for φ_i: that of the move made, and that of the reverse
    move."""
    a, reverse = acceptance_of(log_ratio), acceptance_of(-log_ratio)
    return (a - tau) * (1.0 - w * a), (reverse - tau) * w * a


@kernel
def learn(chain, adaptation, log_ratio, step, tau, w):
    """Step 3. `log_ratio` is the log of the ratio of step 2, `step` is φ_i."""
    forward, reverse = directions(log_ratio, tau, w)
    for i in range(chain.ints[ADDED]):
        add_to_logits(adaptation, chain.added[i], step * forward, step * reverse)
    for i in range(chain.ints[DELETED]):
        add_to_logits(adaptation, chain.deleted[i], step * reverse, step * forward)


@entry
def advance(
    target, chain, memo, tally, rng, adaptation, changes, tau, w, phi0, decay, freeze, by_buckets, iterations
):
    return _advance(
        target, chain, memo, tally, rng, adaptation, changes, tau, w, phi0, decay, freeze, by_buckets, iterations
    )  # fmt: skip


@entry
def advance_with_fits(
    fits, target, chain, memo, tally, rng, adaptation, changes, tau, w, phi0, decay, freeze, by_buckets, iterations
):  # fmt: skip
    return _advance_with_fits(
        fits, target, chain, memo, tally, rng, adaptation, changes, tau, w, phi0, decay, freeze, by_buckets, iterations
    )  # fmt: skip


ENTRIES = Entries(advance, advance_with_fits)


@kernel
def _advance_with_fits(
    fits, target, chain, memo, tally, rng, adaptation, changes, tau, w, phi0, decay, freeze, by_buckets, iterations
):  # fmt: skip
    done = 0
    while True:
        done += _advance(
            target, chain, memo, tally, rng, adaptation, changes, tau, w, phi0, decay, freeze, by_buckets, iterations - done
        )  # fmt: skip
        if not fit_if_room(fits, chain):
            return done


@routine
def _advance(
    target, chain, memo, tally, rng, adaptation, changes, tau, w, phi0, decay, freeze, by_buckets, iterations
):
    """Advance one chain; returns the iterations done, fewer than asked where the chain needs more room."""
    ints = chain.ints
    counting = tally.ints[COUNTING] == 1
    for done in range(iterations):
        if ints[PENDING] == 0:
            changes.ints[ITERATION] += 1
            propose(target, chain, adaptation, rng, by_buckets)
        verdict, log_ratio = decide(target, chain, memo, tally, rng, counting, False)
        if verdict == WAITING:
            return done
        iteration = changes.ints[ITERATION]
        if iteration <= freeze:
            learn(chain, adaptation, log_ratio, phi0 * math.pow(iteration, -decay), tau, w)
        acceptance, number = acceptance_of(log_ratio), ints[ADDED] + ints[DELETED]
        note_proposal(changes, counting, number, acceptance, verdict == ACCEPTED)
        if counting:
            end_iteration(target, chain, tally)
    return iterations
