"""Inclusion probabilities by two ways at once: means of conditional probabilities, and shares of draws."""

from collections.abc import Sequence

import numpy as np

from whichvars.samplers.contract import RaoBlackwell, ratio

DRAWS_PER_SCAN = 100  # from which on scans are called few
# least time of a replicate's chains that corrects a surrogate; squared differences from shares of draws, over the variance of these
LEAST_TIME, FAR_APART = 10.0, 4.0
LEAST_APART = 2e-3  # difference between two estimates of a PIP that nobody minds
# as many middling variables, or more, whose squared differences are in sum at most so many times what their errors explain, differ by
# chance, but for those whose own is more than so many times as large
ENOUGH_ALIKE, BY_CHANCE, BEYOND_CHANCE = 20, 2.0, 20.0
RARITIES = (1e-4, 1e-3, 1e-2, 1e-1)  # of min(PIP, 1 − PIP): classes of variables


def chains_are_empty(replicates: Sequence[RaoBlackwell]) -> bool:
    """Whether most chains, or all of a replicate's, had no event yet, as in short runs with long bursts of moves; or too little time
    to correct a surrogate, by attempts of flips of rate 1, say, whose own probabilities vary so little that they seem accurate."""
    weights = [replicate.weights for replicate in replicates if replicate.weights is not None]
    if not weights:
        return False
    if any(replicate.surrogate for replicate in replicates) and min(w.sum() for w in weights) < LEAST_TIME:
        return True
    every = np.concatenate(weights)
    return 2 * int(np.count_nonzero(every)) < len(every) or any(not w.any() for w in weights)


def mix_with_visits(replicates: Sequence[RaoBlackwell]) -> tuple[np.ndarray, np.ndarray]:
    """Each replicate's PIPs as a mixture of conditional probabilities and shares of draws, by independent chains that have
    both, and their variances: (replicates, p) each.

    Conditional probabilities have less noise where a variable comes and goes by itself; shares of draws, of which
    there are many more, where it comes and goes with others. The two are weighted by 1 / the squares of their
    variances (they are correlated, so the better one counts for more than if they were not), pooled over variables of
    like PIP and over replicates; errors are those of the mixture itself, chain by chain. Where most chains have no
    conditional probabilities yet, shares of draws are all there is. Those of a surrogate can be wrong by more than they vary, if a flip
    that it underrates was never attempted: where the two are far apart, that is their error.

    Where p is large, a run may have made twenty scans and a hundred thousand draws. If no scan fell into a group of models, conditional
    probabilities know nothing of it, and the error of a variable that is always in elsewhere looks like 0. So where there are more than a
    hundred draws to a scan, and fewer scans than the shares of draws are worth independent draws, the squared difference of the two
    estimates, less the variance of the shares, is taken for the variance of the variable's conditional probabilities if that is larger.
    This is not done for middling variables that differ by chance: it would choose, among many, just those shares that are far off.
    And errors are those of ``with_two_more``.
    """
    visited = [_known(replicate.visited) for replicate in replicates]
    shares, spread_of_shares = zip(
        *(ratio(_known(replicate.visits), n) for replicate, n in zip(replicates, visited))
    )
    if chains_are_empty(replicates):
        return np.array(shares), np.array([_variance(x, n) for x, n in zip(spread_of_shares, visited)])
    weights = [_known(replicate.weights) for replicate in replicates]
    averages, spread = zip(*(ratio(_known(replicate.sums), w) for replicate, w in zip(replicates, weights)))
    mean = np.mean(averages, axis=0)
    # a share of draws that happens not to vary is no better known than by so many independent draws
    independent = mean * (1 - mean) / sum(n.sum() for n in visited)
    rarity = np.digitize(np.fmin(mean, 1 - mean), RARITIES)
    noise, noise_of_shares, least = (
        np.bincount(rarity, x, len(RARITIES) + 1)
        for x in (_mean_square(spread), _mean_square(spread_of_shares), independent)
    )
    noise_of_shares = np.maximum(noise_of_shares, least)
    if any(replicate.surrogate for replicate in replicates):
        apart = np.bincount(rarity, (mean - np.mean(shares, axis=0)) ** 2, len(RARITIES) + 1)
        noise = np.where(apart > FAR_APART * noise_of_shares, np.maximum(noise, apart), noise)
    share = (noise**2 / np.maximum(noise**2 + noise_of_shares**2, 1e-300))[rarity]
    least_share, few = _by_difference(replicates, mean, np.mean(shares, axis=0), spread, spread_of_shares)
    share = np.maximum(share, least_share)
    means = [a + share * (s - a) for a, s in zip(averages, shares)]
    mixed = [a + share * (s - a) for a, s in zip(spread, spread_of_shares)]
    variances = [_variance(x, w) for x, w in zip(mixed, weights)]
    return np.array(means), np.array(
        [np.where(few, with_two_more(a, v), v) for a, v in zip(means, variances)]
    )


def _by_difference(
    replicates: Sequence[RaoBlackwell],
    average: np.ndarray,
    share: np.ndarray,
    spread: Sequence[np.ndarray],
    spread_of_shares: Sequence[np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """How much shares of draws must count at least by how far they are from averages of few scans, and where scans are few; (p,) each."""
    one_scan = (
        sum(1 / max(replicate.scans, 1) for replicate in replicates) / len(replicates) ** 2
    )  # replicates count equally
    draws = sum(float(_known(replicate.visited).sum()) for replicate in replicates)
    one_draw = share * (1 - share)
    noise = np.maximum(_mean_square(spread_of_shares), one_draw / draws)
    few = (one_draw * one_scan > noise) & (draws * one_scan > DRAWS_PER_SCAN)
    excess = np.where(few, np.maximum((average - share) ** 2 - noise, 0.0), 0.0)
    excess[np.abs(average - share) < LEAST_APART] = 0.0
    excess[_middling_by_chance(average, share, _mean_square(spread) + noise)] = 0.0
    return excess**2 / np.maximum(excess**2 + noise**2, 1e-300), few


def _middling_by_chance(average: np.ndarray, share: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Which variables are neither rarely in nor rarely out by either estimate, and differ by no more than chance explains, (p,) bool; none if
    there are few such variables, or if all of them together differ by more. `variance` is that of the differences, or more."""
    squared = (average - share) ** 2
    middling = np.minimum(np.fmin(average, 1 - average), np.fmin(share, 1 - share)) >= RARITIES[-1]
    if middling.sum() < ENOUGH_ALIKE or squared[middling].sum() > BY_CHANCE * variance[middling].sum():
        return np.zeros(len(middling), bool)
    # a variance rests on a few chains, and among many there are some that are too small
    by_chance: np.ndarray = middling & (
        squared <= BEYOND_CHANCE * np.maximum(variance, variance[middling].mean())
    )
    return by_chance


def with_two_more(pip: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The variance of a PIP, (p,), if it had come up two more times and stayed out two more times among the independent draws that it is
    worth, as in the interval of Agresti and Coull: what came up too seldom looks too certain."""
    spread = pip * (1 - pip)
    one_draw = np.divide(variance, spread, out=np.zeros_like(pip), where=spread > 0)  # 1/n
    share = (pip + 2 * one_draw) / (1 + 4 * one_draw)
    return np.fmax(variance, one_draw * share * (1 - share))


def _known(array: np.ndarray | None) -> np.ndarray:
    assert array is not None
    return array


def _mean_square(spread: Sequence[np.ndarray]) -> np.ndarray:
    """The variance of the mean over replicates, (p,), from what each chain adds to the error of its replicate."""
    return np.sum([(x**2).sum(axis=0) for x in spread], axis=0) / len(spread) ** 2


def _variance(spread: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The variance of a replicate's ratio of sums, (p,); NaN where a single chain has counted."""
    rows = int(np.count_nonzero(weights))
    return (spread**2).sum(axis=0) * rows / (rows - 1) if rows > 1 else np.full(spread.shape[1], np.nan)
