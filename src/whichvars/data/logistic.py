"""Logistic regressions on the columns of one large table, several at once.

The predictors are standardised columns, (c − mean)/unit, which are never made as a whole: every pass visits the table in blocks of rows
that fit into the processor's cache, and takes all regressions one step further. What is standardised are the results.

Coefficients have a normal prior. Those of the intercept are first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

# precision of the normal prior on standardised coefficients, and on the intercept
LOGISTIC_PRECISION, INTERCEPT_PRECISION = 0.5, 1e-2
NEWTON_STEPS = 12
# A search ends when it is this many posterior standard deviations away from the mode. Steps with a Hessian of another place go on as long as each
# is that much shorter than the one before. Steps longer than one standard deviation change no log odds by more than the last number.
NEAR, SHRINKING, LONGEST = 1e-3, 0.3, 5.0
# rows that are visited at once
BLOCK = 2048


class Mode(NamedTuple):
    """Of a logistic regression."""

    beta: np.ndarray  # the intercept and the coefficients, (1 + C,)
    factor: np.ndarray  # of a Hessian nearby, (1 + C, 1 + C)
    value: float  # the log posterior density, up to a constant


@dataclass(frozen=True)
class Predictors:
    """Some columns of a table, to be standardised."""

    columns: np.ndarray  # (n, all columns)
    chosen: np.ndarray  # (C,)
    mean: np.ndarray  # (C,)
    unit: np.ndarray  # (C,)

    def rows(self, columns: np.ndarray) -> np.ndarray:
        """The standardised columns of other rows of the table."""
        return (columns[:, self.chosen] - self.mean) / self.unit

    def without(self, q: int) -> "Predictors":
        """All but the first q."""
        return replace(self, chosen=self.chosen[q:], mean=self.mean[q:], unit=self.unit[q:])

    def weights(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of the columns as they are, (all columns, K), and what is added to their sums, (K,), from standardised ones, (1 + C, K)."""
        slopes = beta[1:] / self.unit[:, None]
        weight = np.zeros((self.columns.shape[1], beta.shape[1]))
        weight[self.chosen] = slopes
        return weight, beta[0] - self.mean @ slopes


@dataclass(frozen=True)
class Outcomes:
    """What is explained by K regressions.

    Regression k = 1, …, K is of the rows of group k against those of group 0. With `shared` there are the groups 0 and 1 only, and all
    regressions are of the same rows. Regression k leaves the first ``skipped[k − 1]`` predictors out.
    """

    group: np.ndarray  # (n,): −1 for rows that are not used
    skipped: Sequence[int]
    shared: bool = False

    def __len__(self) -> int:
        return len(self.skipped)

    def free(self, k: int, coefficients: int) -> np.ndarray:
        """The coefficients that the k-th regression, from 0, has."""
        return np.concatenate([[0], np.arange(1 + self.skipped[k], coefficients)])


def logistic_modes(
    predictors: Predictors, outcomes: Outcomes, before: Sequence[Mode | None] | None = None
) -> list[Mode]:
    """The modes of several regressions, and the factors of Hessians nearby.

    If the mode of a similar regression is known from `before`, steps begin there and are made with its Hessian. One Hessian is used as long as
    steps shrink fast enough, as each then takes only one pass over the rows. What is left after a step is about as much shorter than the step as this
    one is than the last.
    """
    K, C = len(outcomes), len(predictors.chosen)
    starts = list(before) if before is not None else [None] * K
    beta, value, last = (
        np.zeros((1 + C, K)),
        np.zeros(K),
        np.zeros(K),
    )  # the last steps' lengths, 0 before the first
    stale = np.array([start is None for start in starts])
    factors = [np.eye(1) if start is None else start.factor for start in starts]
    counts = np.bincount(outcomes.group + 1, minlength=K + 2)[1:]
    free = [outcomes.free(k, 1 + C) for k in range(K)]
    for k, start in enumerate(starts):
        if start is None:
            ones, zeros = counts[1 if outcomes.shared else k + 1], counts[0]
            beta[0, k] = np.log((ones + 0.5) / (zeros + 0.5))
        else:
            beta[free[k], k] = start.beta
    precision = _precision(C)
    active = np.arange(K)
    for _ in range(NEWTON_STEPS):
        for k in active[stale[active]].tolist():
            factors[k] = hessian_factor(predictors, outcomes, k, beta[free[k], k])
        slope, value[active] = _slopes(predictors, outcomes, beta, active)
        slope -= precision[:, None] * beta[:, active]
        value[active] -= 0.5 * (precision @ beta[:, active] ** 2)
        steps, length = np.zeros_like(slope), np.zeros(len(active))
        for i, k in enumerate(active.tolist()):
            steps[free[k], i] = _solve(factors[k], slope[free[k], i])
            length[i] = np.sqrt(max(slope[:, i] @ steps[:, i], 0.0))
        far = length > 1
        if far.any():
            steps[:, far] *= np.minimum(1, LONGEST / _longest(predictors, steps[:, far]))
        beta[:, active] += steps
        value[active] += 0.5 * length**2  # of the last step, where it is right up to a small part of itself
        shrunk = np.where(last[active] > 0, length / np.maximum(last[active], 1e-300), 1.0)
        stale[active] = (shrunk > SHRINKING) & (last[active] > 0)
        last[active] = length
        active = active[length * np.minimum(shrunk, 1.0) >= NEAR]
        if not len(active):
            break
    return [Mode(beta[free[k], k], factors[k], float(value[k])) for k in range(K)]


def hessian_factor(predictors: Predictors, outcomes: Outcomes, k: int, beta: np.ndarray) -> np.ndarray:
    """The factor of the Hessian of the k-th regression, from 0, at its own coefficients."""
    C = len(predictors.chosen)
    free = outcomes.free(k, 1 + C)
    own = np.zeros((1 + C, 1))
    own[free, 0] = beta
    weight, shift = predictors.weights(own)
    one = 1 if outcomes.shared else k + 1
    wide = 1 + predictors.columns.shape[1]
    total, work = np.zeros((wide, wide)), np.empty((BLOCK, wide))
    for block, group in _blocks(predictors, outcomes):
        used = (group == 0) | (group == one)
        few = 2 * np.count_nonzero(used) < len(used)
        if few:
            block = block[used]
        p = _probabilities(block @ weight[:, 0] + shift[0])
        root = np.sqrt(p * (1 - p))
        if not few:
            root[~used] = 0.0
        rows = work[: len(block)]
        rows[:, 0] = root
        np.multiply(block, root[:, None], out=rows[:, 1:])
        total += rows.T @ rows
    # from the columns as they are to standardised ones
    chosen, mean = 1 + predictors.chosen, predictors.mean
    zero, sums = total[0, 0], total[0, chosen]
    hessian = np.empty((1 + C, 1 + C))
    hessian[0, 0] = zero
    hessian[0, 1:] = hessian[1:, 0] = (sums - zero * mean) / predictors.unit
    cross = np.outer(sums, mean)
    centred = total[np.ix_(chosen, chosen)] - cross - cross.T + zero * np.outer(mean, mean)
    hessian[1:, 1:] = centred / np.outer(predictors.unit, predictors.unit)
    hessian[np.diag_indices(1 + C)] += _precision(C)
    return np.linalg.cholesky(hessian[np.ix_(free, free)])


def _blocks(predictors: Predictors, outcomes: Outcomes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """A few rows of the columns at a time, and their groups."""
    for first in range(0, len(outcomes.group), BLOCK):
        yield predictors.columns[first : first + BLOCK], outcomes.group[first : first + BLOCK]


def _slopes(
    predictors: Predictors, outcomes: Outcomes, beta: np.ndarray, which: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of the log likelihoods of some of the regressions, (1 + C, len(which)), and the log likelihoods, (len(which),)."""
    weight, shift = predictors.weights(beta[:, which])
    products, sums, values = np.zeros_like(weight), np.zeros(len(which)), np.zeros(len(which))
    # the place of each group among the regressions that are looked at; the last is for rows that are not used
    place = np.full(len(outcomes) + 2, -1)
    place[1 + which] = np.arange(len(which))
    for block, group in _blocks(predictors, outcomes):
        eta = block @ weight
        eta += shift
        rest = np.zeros_like(eta)
        zero = np.flatnonzero(group == 0)
        if outcomes.shared:
            used = np.flatnonzero(group >= 0)
            hit = (group[used] == 1)[:, None]
            p, log_one_less = _probabilities_and_logs(eta[used])
            rest[used] = hit - p
            values += (np.where(hit, eta[used], 0.0) + log_one_less).sum(axis=0)
        else:
            p, log_one_less = _probabilities_and_logs(eta[zero])
            rest[zero] = -p
            values += log_one_less.sum(axis=0)
            at = place[group]
            own = np.flatnonzero((group > 0) & (at >= 0))
            p, log_one_less = _probabilities_and_logs(eta[own, at[own]])
            rest[own, at[own]] = 1 - p
            values += np.bincount(at[own], log_one_less + eta[own, at[own]], len(which))
        products += block.T @ rest
        sums += rest.sum(axis=0)
    chosen, mean, unit = predictors.chosen, predictors.mean, predictors.unit
    slopes = (products[chosen] - mean[:, None] * sums) / unit[:, None]
    return np.vstack([sums, slopes]), values


def _longest(predictors: Predictors, steps: np.ndarray) -> np.ndarray:
    """By how much steps, (1 + C, K), change log odds at most, (K,)."""
    weight, shift = predictors.weights(steps)
    longest = np.zeros(steps.shape[1])
    for first in range(0, len(predictors.columns), BLOCK):
        change = np.abs(predictors.columns[first : first + BLOCK] @ weight + shift)
        longest = np.maximum(longest, change.max(axis=0))
    return np.maximum(longest, 1e-300)


def _probabilities(eta: np.ndarray) -> np.ndarray:
    p: np.ndarray = 1 / (1 + np.exp(-np.clip(eta, -30, 30)))
    return p


def _probabilities_and_logs(eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p and log(1 − p)."""
    small = np.exp(-np.abs(eta))
    p = np.where(eta > 0, 1.0, small) / (1 + small)
    return p, -np.maximum(eta, 0) - np.log1p(small)


def _precision(C: int) -> np.ndarray:
    """Of the normal prior of the intercept and the coefficients, (1 + C,)."""
    precision = np.full(1 + C, LOGISTIC_PRECISION)
    precision[0] = INTERCEPT_PRECISION
    return precision


def _solve(factor: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return np.linalg.solve(factor.T, np.linalg.solve(factor, slope))
