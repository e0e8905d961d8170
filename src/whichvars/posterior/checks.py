r"""Checks of a run against itself, beside its Monte Carlo errors: do replicates agree, has it stopped drifting, and is it
compatible with what is known exactly?

Errors are estimated from within replicates (batches, or chains) and are too small if a run is short compared with the time it
takes to cross between groups of models. Each check here returns what it has seen, or None if there is nothing to say;
``diagnostics.doubts`` makes sentences of it. Limits are such that a run without faults is suspected by chance in about two cases
of a hundred by all tests together (the F tests have a level of .2 %, those of drift have .6 %); docs/reading.md says what is said of
it.

**Between replicates** (`between_replicates`). With m replicates, whose means differ with variance B, and errors within
replicates of variance W on average, F = B/W has m − 1 degrees of freedom, and those of W. For the PIPs jointly
F = Σ_j B_j / Σ_j W_j; under the same limit, which is exact if they all go together and cautious otherwise. Mean size
and mean log posterior are of the thinned record, in batches.

**Differences that are large in themselves** (`far_apart`). Whatever the errors within replicates are, the standard error of
a PIP by differences between replicates must not exceed what is accepted of an error.

**Drift** (`drift`). The slope of the record, in eight batches, against the logarithm of time, by chain, over all chains of all
replicates: a run that is on its way moves most at first. Its variance is the larger of that between chains and of that by
batches; the first has few degrees of freedom if there is one chain a replicate, the second is too small if batches are too
short. A drift by less than .15 standard deviations is left alone.

**A run that is worth few draws** (`draws_worth`). An inclusion probability with error e is worth PIP(1 − PIP)/e² independent draws.
Among N of them there is none of a group of models with mass 3/N in one case of twenty: below 300, a group with 1 % of the mass
may well be missing, and with it variables whose errors look small. The same is asked of the record (`record_worth`): model size
and log posterior move slowest where models are large, and of a run with fewer than 90 independent draws of them nobody can say
whether it has arrived. The same holds if its m chains are worth fewer than ten draws each. All of them come from the same small models,
so that the spread between chains does not show how far they still are from where they belong. If a chain starts at a distance of δ standard
deviations and is worth x draws, its mean is off by about δ/2x standard deviations. The error of the mean over all chains is √(1/mx), so that
the bias is δ√(m/4x) of these errors: about .7 δ with twenty chains that are worth ten draws each.

**A common trend of all chains** (`lagging`). The chains of the hybrid take turns in one record, whose batches have some chains and not
others. So their sizes are also kept chain by chain, in stages that double in length. A line through the sizes of a chain against the
logarithm of time says by how much its mean is behind where it ends. Each chain is compared with itself, so that twenty of them show a
common trend that the record hides. It is told if it exceeds 2.86 of its errors, and a PIP would change by .03 with it and one error.

**Exact masses** (`unequal_masses`, `too_much_mass`). The posterior mass of a set of visited models is known exactly, up to one
constant. Replicates that have run long enough visited sets of nearly equal mass. And no replicate may claim to have seen nearly
everything where the others found more: with share s_r of its draws on models K_r that were known before, it estimates
the total as Z_r = mass(K_r)/s_r, which the mass of the union of all models that were visited cannot exceed.

**Mass that was found and not visited** (`unvisited`): the same for neighbourhoods that a search for modes found.

**A mode that nobody may find** (`hidden_size`). Of k variables with effects of equal size, each explains at most 1/k of y by itself. The
best of p variables that have nothing to do with y explains about 2 log(p)/n of it. So none of the variables of a model with more than
n/(2 log p) of them has to stand out, and every way to it may lead through models that are far worse than the null model. Whether
there is such a model cannot be seen. But if y had nothing to do with any variable, the evidence relative to the null model, which has
expectation 1 then, would exceed 20 with a probability of at most 1/20. A run is suspected where the prior expects models of such a size,
and the evidence of all that was found is below 20: what was found may then be chance, and what explains y, if anything does, was not found.
Where so many models share the mass that those met have little of it, the evidence is not known, and nothing can be said.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import fdtri, gammaln, logsumexp, stdtrit

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior

LEVEL = 0.002  # of each F test, so that all of them together suspect few faultless runs
DRIFT_LEVEL = 0.006
LEAST_DRIFT = 0.15  # standard deviations, between the first quarter and the second half of the record
BATCHES = 8  # of the thinned record of a replicate, at least
SHORTEST_BATCH = 4  # records
UNEQUAL = 3.0  # ratio of the largest to the smallest mass that replicates visited
KNOWN = 0.001  # share of its draws on models known before, from which on masses of a replicate's models say something
MOST_MASS = 1.1  # of the union of all visited models, in units of the total that a replicate estimates
TRUSTED = 0.05  # share of draws on models known before, from which on the estimated total says something
NOTED = 0.02  # mass of a neighbourhood, as a share of the total, that a run must have visited
SMALLEST = 5e-3  # differences of PIPs (root of the sum of squares) that nobody minds
# evidence relative to the null model, below which what was found may be chance
CHANCE = 20.0
MANY = 1e7  # models of one size, of which a run sees few
# draws that a run is worth: by its inclusion probabilities, and by its record, whose number is itself uncertain by a quarter
FEWEST_DRAWS, FEWEST_OF_RECORD = 300.0, 90.0
FEWEST_OF_CHAIN = 10.0  # draws that the record of each chain is worth, on average
FEWEST_CHAINS = 8  # whose trends say something of their common trend
# a trend in units of its error, below which there is none, and how far a PIP may be behind by it
LEAST_TREND, LARGEST_LAG = 2.86, 0.03


@dataclass(frozen=True)
class Comparison:
    """What the models that replicates visited say of one another. Masses are up to the prior's constant; arrays have
    shape (replicates,)."""

    log_mass: np.ndarray  # of the models that each visited, above what all of them have kept
    log_union: float  # of all of these together
    log_total: np.ndarray  # what each estimates for all models; NaN if it cannot tell
    known: np.ndarray  # share of its draws on models that it had known before
    degrees: int = 0  # of freedom of the variances of its inclusion probabilities
    chains: int = 0  # of all replicates together
    # by how much the mean size of each chain's draws falls behind where a trend of it ends, (chains,); None where it is not known
    lags: np.ndarray | None = None


def compare_models(
    models: Sequence[Mapping[tuple[int, ...], tuple[float, float, float]]],
    floor: float,
    log_total: Sequence[float],
    known: Sequence[float],
    degrees: int,
    chains: int,
    lags: np.ndarray | None = None,
) -> Comparison:
    """Compare the models that replicates visited, each with its log marginal and log prior, as far as they lie above the
    highest of the replicates' floors: of the others some may have been forgotten."""
    values: dict[tuple[int, ...], float] = {}
    masses = []
    for visited in models:
        own = {key: v[0] + v[1] for key, v in visited.items() if v[0] + v[1] > floor}
        values |= own
        masses.append(_log_sum(own.values()))
    return Comparison(
        np.array(masses),
        _log_sum(values.values()),
        np.array(log_total, float),
        np.array(known, float),
        degrees,
        chains,
        lags,
    )


def _log_sum(logs: Iterable[float]) -> float:
    array = np.array(list(logs), float)
    return float(logsumexp(array)) if len(array) else -np.inf


# --- replicates against one another


class Apart(NamedTuple):
    """Replicates differ in a quantity by more than errors within them allow."""

    quantity: str  # "size", "log_posterior" or "pips"
    f: float  # ratio of variances
    limit: float
    means: np.ndarray  # (replicates,): of the size or the log posterior; sums of the inclusion probabilities


def between_replicates(
    pips: np.ndarray | None, variances: np.ndarray | None, degrees: int, trace: pd.DataFrame | None
) -> Apart | None:
    """The quantity in which replicates differ by most of what is allowed, if more.

    Shapes (replicates, p). `degrees` are those of the variances within one replicate. A variance of 0 or NaN is unknown.
    """
    found = []
    if pips is not None and variances is not None and len(pips) > 1 and degrees > 0:
        told = (np.nan_to_num(variances) > 0).all(axis=0)
        between, within = pips[:, told].var(axis=0, ddof=1), variances[:, told].mean(axis=0)
        if within.sum() > 0 and between.sum() > SMALLEST**2:
            limit = float(fdtri(len(pips) - 1, len(pips) * degrees, 1 - LEVEL))
            found.append(Apart("pips", float(between.sum() / within.sum()), limit, pips.sum(axis=1)))
    for column in ("size", "log_posterior"):
        means = [] if trace is None else _batches(trace, column)
        if len(means) > 1:
            averages = np.array([part.mean() for part in means])
            # variance of a replicate's mean
            within = float(np.mean([part.var(ddof=1) / len(part) for part in means]))
            freedom = sum(len(part) - 1 for part in means)
            between = float(averages.var(ddof=1))
            limit = float(fdtri(len(means) - 1, freedom, 1 - LEVEL))
            if within > 0:
                found.append(Apart(column, between / within, limit, averages))
    found = [part for part in found if part.f > part.limit]
    return max(found, key=lambda part: part.f / part.limit) if found else None


def _batches(trace: pd.DataFrame, column: str) -> list[np.ndarray]:
    """The means of a column of the record by batch, one array for each replicate; empty if a chain is too short."""
    replicates = _by_chain(trace, column)
    per_chain = max(2, -(-BATCHES // max(len(chains) for chains in replicates)))
    if min(len(chain) for chains in replicates for chain in chains) < per_chain * SHORTEST_BATCH:
        return []
    return [np.concatenate([_means(chain, per_chain) for chain in chains]) for chains in replicates]


def _by_chain(trace: pd.DataFrame, column: str) -> list[list[np.ndarray]]:
    """A column of the record by replicate and chain, in order. As ``groupby`` has it, which takes milliseconds: as long as
    a short run."""
    replicate, chain = trace["replicate"].to_numpy(), trace["chain"].to_numpy()
    order = np.lexsort((chain, replicate))
    replicate, chain, values = replicate[order], chain[order], trace[column].to_numpy(float)[order]
    by_replicate: dict[int, list[np.ndarray]] = {}
    ends = np.flatnonzero((np.diff(replicate) != 0) | (np.diff(chain) != 0)) + 1
    first = 0
    for end in [*ends.tolist(), len(values)]:
        by_replicate.setdefault(int(replicate[first]), []).append(values[first:end])
        first = end
    return list(by_replicate.values())


def _means(values: np.ndarray, batches: int) -> np.ndarray:
    """Means of consecutive batches of equal length; records that are left over at the beginning are left out."""
    length = len(values) // batches
    return values[len(values) - batches * length :].reshape(batches, length).mean(axis=1)


def far_apart(pips: np.ndarray | None, acceptable: float) -> tuple[int, float] | None:
    """The variable on whose inclusion probability replicates differ most, and its standard error by these differences, if
    that is more than acceptable. Shape (replicates, p)."""
    if pips is None or len(pips) < 3:
        return None
    error = pips.std(axis=0, ddof=1) / np.sqrt(len(pips))
    j = int(np.argmax(error))
    return (j, float(error[j])) if error[j] > acceptable else None


class Drift(NamedTuple):
    """A quantity that changes in the course of the run."""

    quantity: str  # "size" or "log_posterior"
    first: float  # mean over the first quarter
    second: float  # and over the second half
    t: float


def drift(trace: pd.DataFrame | None) -> Drift | None:
    """The quantity that drifts most, if by more than errors allow and by more than nobody minds."""
    if trace is None:
        return None
    slope = np.log(np.arange(1.0, BATCHES + 1))
    slope -= slope.mean()
    slope /= np.sqrt(slope @ slope)
    found = []
    for column in ("size", "log_posterior"):
        chains = [chain for chains in _by_chain(trace, column) for chain in chains]
        if min(map(len, chains)) < BATCHES * SHORTEST_BATCH:
            continue
        means = np.array([_means(chain, BATCHES) for chain in chains])  # (chains, batches)
        slopes, n = means @ slope, len(chains)
        rest = means - means.mean(axis=1, keepdims=True) - slopes.mean() * slope
        freedom = n * (BATCHES - 1) - 1
        scatter = float((rest**2).sum()) / freedom / n
        if n > 1:
            scatter = max(scatter, float(slopes.var(ddof=1)) / n)
        average = means.mean(axis=0)
        first, second = float(average[: BATCHES // 4].mean()), float(average[BATCHES // 2 :].mean())
        matters = abs(second - first) > LEAST_DRIFT * np.concatenate(chains).std()
        if scatter > 0 and matters:
            t = float(slopes.mean() / np.sqrt(scatter))
            if abs(t) > stdtrit(freedom, 1 - DRIFT_LEVEL / 2):
                found.append(Drift(column, first, second, t))
    return max(found, key=lambda part: abs(part.t)) if found else None


def draws_worth(pip: np.ndarray, mcse: np.ndarray) -> float | None:
    """How many independent draws the least certain tenth of the inclusion probabilities are worth, if too few.

    Shapes (p,). Only variables are looked at that are neither nearly always out nor nearly always in, and whose error is known.
    """
    told = np.isfinite(mcse) & (mcse > 0) & (np.fmin(pip, 1 - pip) > NOTED)
    if not told.any():
        return None
    draws = pip[told] * (1 - pip[told]) / mcse[told] ** 2
    worth = float(np.quantile(draws, 0.1))
    return worth if worth < FEWEST_DRAWS else None


class Lag(NamedTuple):
    """A variable whose inclusion probability falls behind, because the size has a trend."""

    variable: int
    pip: float  # by how much, with one error of the trend
    size: float  # by how much the mean size falls behind


def lagging(lags: np.ndarray | None, trace: pd.DataFrame | None, models: Any) -> Lag | None:
    """The variable whose inclusion probability falls behind most by the trend of the size, if that matters.

    `lags` are those of the mean size, by chain; `models` has a row for each record of the trace. What a change of the size by one means for a
    variable is the slope of its indicator against the size.
    """
    told = np.zeros(0) if lags is None else lags[np.isfinite(lags)]
    if len(told) < FEWEST_CHAINS or trace is None or models is None:
        return None
    size = trace["size"].to_numpy(float)
    error, variance = float(told.std(ddof=1) / np.sqrt(len(told))), float(size.var())
    lag = float(told.mean())
    if variance == 0 or abs(lag) <= LEAST_TREND * error:
        return None
    slopes = np.abs(models.T @ (size - size.mean())) / len(size) / variance
    j = int(np.argmax(slopes))
    moved = float(slopes[j]) * (abs(lag) + error)
    return Lag(j, moved, lag) if moved > LARGEST_LAG else None


def record_worth(trace: pd.DataFrame | None, chains: int = 0) -> float | None:
    """How many independent draws the record of model size or log posterior is worth, by batches, if too few.

    `chains` are those that the run has in all; those of a replicate may share one record, in which they take turns.
    Batches of chains that hardly move look independent and are as many draws. So there are about 32 of them, whatever the number
    of chains, which is well below what a run must be worth.
    """
    found = []
    for column in ("size", "log_posterior"):
        records = [] if trace is None else [chain for part in _by_chain(trace, column) for chain in part]
        if len(records) and min(map(len, records)) >= BATCHES * SHORTEST_BATCH:
            batches = max(min(BATCHES, 4 * BATCHES // len(records)), 1)
            means = np.array([_means(record, batches) for record in records])
            if means.size > 1 and means.var() > 0:
                found.append(float(np.concatenate(records).var() * means.size / means.var(ddof=1)))
    worth = min(found, default=np.inf)
    return worth if worth < max(FEWEST_OF_RECORD, FEWEST_OF_CHAIN * chains) else None


# --- what is known exactly


def unequal_masses(comparison: Comparison) -> float | None:
    """How many times the mass of the models that one replicate visited is that of another's, if too many.

    Where hardly any model is drawn twice, masses are those of a few lucky finds and never equal: this says nothing unless
    every replicate has a share of draws on models that it knew before.
    """
    masses = comparison.log_mass
    if len(masses) < 2 or not np.isfinite(masses).any() or np.median(comparison.known) < KNOWN:
        return None
    ratio = float(np.exp(min(masses.max() - masses.min(), 700.0)))
    return ratio if ratio > UNEQUAL else None


def too_much_mass(comparison: Comparison) -> float | None:
    """The mass of the union of all visited models, in units of the total that a replicate claims, if that is too much."""
    usable = np.isfinite(comparison.log_total) & (comparison.known >= TRUSTED)
    if not usable.any() or len(comparison.log_total) < 2:
        return None
    excess = float(np.exp(min(comparison.log_union - comparison.log_total[usable].min(), 700.0)))
    return excess if excess > MOST_MASS else None


class Unvisited(NamedTuple):
    """A neighbourhood that was found and not visited."""

    model: tuple[int, ...]
    share: float  # its mass as a share of the total that the run estimates


def unvisited(
    found: Sequence[tuple[float, tuple[int, ...]]],
    visited: "set[tuple[int, ...]] | Mapping[tuple[int, ...], object]",
    log_total: float | None,
    known: float | None,
    noted: float = NOTED,
) -> Unvisited | None:
    """The heaviest neighbourhood that a search for modes found and the run never visited, if it matters.

    `found` has the log mass of each neighbourhood, on the scale of `log_total` (both up to the same constant), and the
    model in its middle, sorted; `visited` all models that were visited. The estimated total is trusted only where a
    share `known` of at least 5 % of the draws were of models known before.
    """
    if log_total is None or known is None or known < TRUSTED:
        return None
    missed = [(mass, model) for mass, model in found if tuple(model) not in visited]
    if not missed:
        return None
    mass, model = max(missed)
    share = float(np.exp(min(mass - log_total, 700.0)))
    return Unvisited(tuple(model), share) if share > noted else None


def hidden_size(log_evidence: float, n: int, p: int, sizes: np.ndarray) -> int | None:
    """The smallest size of models that may be there and that nobody may have found; None if that is not to be feared.

    `log_evidence` is that of all models that were found, relative to the null model; `sizes` the prior's distribution of sizes, shape
    (p + 1,).
    """
    expected = int(np.searchsorted(np.cumsum(sizes), 0.5))  # the median
    smallest = int(n / (2 * np.log(max(p, 2)))) + 1
    if not log_evidence < np.log(CHANCE) or expected < smallest or _choose(p, expected) < np.log(MANY):
        return None
    return smallest


def _choose(p: int, k: int) -> float:
    """The logarithm of the number of models of size k."""
    return float(gammaln(p + 1) - gammaln(k + 1) - gammaln(p - k + 1))


# --- in words


def _times(ratio: float) -> str:
    """A ratio in at most three digits.

    >>> _times(2.344), _times(3412.0), _times(4e9)
    ('2.34', '3,410', 'more than a million')
    """
    if ratio >= 1e6:
        return "more than a million"
    return f"{ratio:.3g}" if ratio < 1000 else f"{float(f'{ratio:.3g}'):,.0f}"


def against_itself(posterior: "Posterior", acceptable: float, disagree: bool) -> list[str]:
    """What replicates that differ by more than their errors allow, drift, and masses that contradict one another say
    against a run. `disagree`: it was said already that replicates disagree."""
    comparison, pips = posterior.comparison, posterior.replicate_pips
    if comparison is None or posterior.reweighting_ess is not None:
        return []
    # without errors from within replicates, the record is no sequence of draws: particles, or a run that is too short
    trace = posterior.trace if comparison.degrees > 0 else None
    found = []
    if not disagree:
        apart = between_replicates(pips, posterior.replicate_variances, comparison.degrees, trace)
        far = far_apart(pips, acceptable)
        if apart is not None:
            what = "mean log posteriors" if apart.quantity == "log_posterior" else "mean model sizes"
            means = ", ".join(f"{value:.4g}" for value in apart.means)
            found.append(
                f"replicates differ by more than their errors allow: {what} of {means}"
                + (", and inclusion probabilities accordingly" if apart.quantity == "pips" else "")
                + ". Some of them have not found, or not left, a group of good models: use more draws"
            )
        elif far is not None and pips is not None and np.nanmax(posterior.mcse) <= acceptable:
            j, error = far
            found.append(
                f"replicates differ on {posterior.problem.names[j]!r}: inclusion probabilities from {pips[:, j].min():.2f} to "
                f"{pips[:, j].max():.2f}, so that their mean may be off by {error:.2g} or more. Use more draws"
            )
    moving = drift(trace)
    if moving is not None:
        what = "mean model size" if moving.quantity == "size" else "mean log posterior"
        found.append(
            f"the run is still on its way: the {what} was {moving.first:.4g} in its first quarter and {moving.second:.4g} in its "
            "second half, further apart than errors allow. Use a longer warm-up and more draws"
        )
    behind = lagging(comparison.lags, trace, posterior.trace_models)
    if behind is not None and moving is None:
        found.append(
            f"the run may still be on its way: by the trend of its chains, the mean model size is about {abs(behind.size):.2g} "
            f"{'below' if behind.size > 0 else 'above'} where they end, so that the inclusion probability of "
            f"{posterior.problem.names[behind.variable]!r} may be off by {behind.pip:.2g}. Use more draws"
        )
    worths = draws_worth(posterior.pip, posterior.mcse), record_worth(trace, comparison.chains)
    few = [draws for draws in worths if draws]
    if few and not found and trace is not None and not (posterior.mcse > acceptable).any():
        worth = max(min(few), 3.0)
        found.append(
            f"the run is too short: it is worth about {worth:.0f} independent draws, so that groups of models with up to "
            f"{300 / worth:.0f} % of the posterior mass may be missing. Use more draws"
        )
    excess, times = too_much_mass(comparison), unequal_masses(comparison)
    if excess is not None:
        found.append(
            f"the models that all replicates visited together have {_times(excess)} times the posterior mass that one of them takes for "
            "the whole: it has missed good models, and others may have too. Use more draws"
        )
    elif times is not None:
        found.append(
            f"the models that one replicate visited have {_times(times)} times the posterior mass of those that another visited: not "
            "all of them have found the good models. Use more draws"
        )
    missed = _missed(posterior, comparison) if posterior.found else None
    if missed is not None:
        names = ", ".join(posterior.problem.names[j] for j in missed.model[:5]) or "no variable"
        more = ", …" if len(missed.model) > 5 else ""
        found.append(
            f"a search found a group of models around the one with {names}{more} that the run never visited, with {missed.share:.2g} "
            "times the posterior mass that it takes for the whole. Use more draws, or start there with start="
        )
    return [*found, *_may_be_hidden(posterior, comparison)]


def _may_be_hidden(posterior: "Posterior", comparison: Comparison) -> list[str]:
    """Whether good models may be where no search finds them."""
    problem = posterior.problem
    prior, p = problem.model_prior, problem.p
    if posterior.log_evidence is None:  # those that were met have little of the mass
        return []
    masses = [comparison.log_union, *(mass for mass, _ in posterior.found)]
    evidence = max(max(masses) + prior.log_constant(p, problem.max_size), posterior.log_evidence)
    size = hidden_size(evidence, problem.n, p, prior.size_distribution(p, problem.max_size))
    if size is None:
        return []
    return [
        f"good models may be hidden: with {problem.n:,} rows and {p:,} variables, none of the variables of a model with {size} or more of "
        "them, as the prior expects, has to stand out by itself, and all that was found explains y hardly better than no variable does: "
        f"the evidence is {np.exp(evidence):.2g} times that of the null model, and below {CHANCE:.0f} it may be chance. More draws may "
        "find such models; more rows, or a prior that expects fewer variables, make them improbable"
    ]


def _missed(posterior: "Posterior", comparison: Comparison) -> Unvisited | None:
    """The heaviest neighbourhood that was found and not visited."""
    totals = comparison.log_total
    if not np.isfinite(totals).all():
        return None
    visited = {*map(tuple, posterior.models.members), *posterior.kept.models()}
    total = float(logsumexp(totals) - np.log(len(totals)))
    return unvisited(posterior.found, visited, total, float(comparison.known.mean()))
