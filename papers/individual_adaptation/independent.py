"""The paper's IA-PT, IA-SMC and simple MH written a second time, without any code of the package but the loader of the data.

If two programs that share nothing have the same WMSE on Boston, a difference from the paper is not a slip in one of them. This one
also does what the package does not: particles learn within their K moves, as the paper prints it; temperatures stop learning with the
burn-in while A and D go on; A and D belong to a chain and travel with it along the ladder.

The independent slab with known g and the prior with fixed h are all that Boston needs. Every proposal flips coins for all
variables and factorises the proposed model from nothing.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from whichvars import datasets

LARGEST = 100  # variables in a model
SIZE = 5.0  # prior mean
# when particles learn: after their K moves; within them; within them, all particles making a move before any makes the next
BETWEEN, WITHIN, ROUNDS = range(3)


class Data(NamedTuple):
    """Products of the columns, and the priors."""

    gram: np.ndarray
    xty: np.ndarray
    yty: float
    g: float
    nu: float
    log_odds: float  # of a variable, by the prior


def boston_data() -> Data:
    """Boston in the paper's design: products of centred columns, g = 100, h = 5/104."""
    data = datasets.load_boston()
    X, y = data.X.to_numpy(float), data.y.to_numpy(float)
    X, y = X - X.mean(axis=0), y - y.mean()
    h = SIZE / X.shape[1]
    return Data(X.T @ X, X.T @ y, float(y @ y), 100.0, len(y) - 1.0, float(np.log(h / (1 - h))))


@njit
def log_marginal(data, gamma):
    """Log marginal likelihood of a model, without its constant; −inf beyond LARGEST variables."""
    members = np.flatnonzero(gamma)
    k = len(members)
    if k > LARGEST:
        return -np.inf
    root = np.empty((k, k))
    solved = np.empty(k)
    log_det = 0.0
    rest = data.yty
    for i in range(k):
        for j in range(i + 1):
            total = data.gram[members[i], members[j]]
            if i == j:
                total += 1 / data.g
            for m in range(j):
                total -= root[i, m] * root[j, m]
            if i == j:
                root[i, i] = np.sqrt(total)
            else:
                root[i, j] = total / root[j, j]
        total = data.xty[members[i]]
        for m in range(i):
            total -= root[i, m] * solved[m]
        solved[i] = total / root[i, i]
        rest -= solved[i] ** 2
        log_det += np.log(root[i, i])
    return -0.5 * k * np.log(data.g) - log_det - 0.5 * data.nu * np.log(rest)


@njit
def logit(x, epsilon):
    return np.log((x - epsilon) / (1 - x - epsilon))


@njit
def expit(v, epsilon):
    return epsilon + (1 - 2 * epsilon) / (1 + np.exp(-v))


@njit
def individual_step(data, rng, gamma, log_m, t, add, delete, to_add, to_delete, tau, rate, epsilon, flips):
    """One iteration of individual adaptation at temperature t, whose lesson goes to `to_add` and `to_delete`. Returns the log
    marginal likelihood of the model after it and the probability of acceptance, 0 where nothing was proposed."""
    p = len(gamma)
    changes = 0
    log_ratio = 0.0
    for j in range(p):
        if gamma[j]:
            if rng.random() < delete[j]:
                flips[changes] = j
                changes += 1
                log_ratio += np.log(add[j] / delete[j]) - data.log_odds
        elif rng.random() < add[j]:
            flips[changes] = j
            changes += 1
            log_ratio += np.log(delete[j] / add[j]) + data.log_odds
    if changes == 0:
        return log_m, 0.0
    for c in range(changes):
        gamma[flips[c]] = not gamma[flips[c]]
    proposed = log_marginal(data, gamma)
    acceptance = np.exp(min(0.0, log_ratio + t * (proposed - log_m)))
    accepted = rng.random() < acceptance
    for c in range(changes):
        j = flips[c]
        # gamma holds the proposed model here
        if gamma[j]:
            to_add[j] = expit(logit(to_add[j], epsilon) + rate * (acceptance - tau), epsilon)
        else:
            to_delete[j] = expit(logit(to_delete[j], epsilon) + rate * (acceptance - tau), epsilon)
        if not accepted:
            gamma[j] = not gamma[j]
    return proposed if accepted else log_m, acceptance


@njit
def first_probabilities(p):
    add = np.full(p, 1 / (p - SIZE))
    delete = np.full(p, 1 / SIZE)
    return add, delete


@njit(nogil=True)
def tempering(data, rng, temperatures, burn_in, draws, tau, phi0, decay, target, held, travels):
    """IA-PT; returns inclusion frequencies, temperatures, exchange rates, mutation rates and round trips.

    `held`: whether temperatures stay as they are after the burn-in. `travels`: whether A and D belong to a chain, which takes them along
    when it exchanges its temperature, and not to the temperature. Each rung starts at its own draw from the prior."""
    p, m = len(data.xty), len(temperatures)
    epsilon = 0.1 / p
    gamma = np.zeros((m, p), np.bool_)
    log_m = np.empty(m)
    add, delete = np.empty((m, p)), np.empty((m, p))
    rho = np.zeros(max(m - 1, 1))
    for k in range(m):
        for j in range(p):
            gamma[k, j] = rng.random() < SIZE / p
        log_m[k] = log_marginal(data, gamma[k])
        add[k], delete[k] = first_probabilities(p)
    for k in range(m - 1):
        rho[k] = np.log(np.log(temperatures[k + 1] / temperatures[k]))
    t = temperatures.copy()
    slot, end = np.arange(m), np.zeros(m, np.int64)
    flips = np.empty(p, np.int64)
    count, tried, exchanged, moved = np.zeros(p), np.zeros(m), np.zeros(m), np.zeros(m)
    trips = 0
    for i in range(1, burn_in + draws + 1):
        counting = i > burn_in
        rate = phi0 * i**-decay
        for k in range(m):
            s = slot[k]
            own = s if travels else k
            log_m[s], accepted = individual_step(
                data,
                rng,
                gamma[s],
                log_m[s],
                t[k],
                add[own],
                delete[own],
                add[own],
                delete[own],
                tau,
                rate,
                epsilon,
                flips,
            )
            if counting:
                moved[k] += accepted
        if m > 1:
            k = int(rng.random() * (m - 1))
            low, high = slot[k], slot[k + 1]
            acceptance = np.exp(min(0.0, (t[k] - t[k + 1]) * (log_m[high] - log_m[low])))
            if counting:
                tried[k] += 1
                exchanged[k] += acceptance
            if rng.random() < acceptance:
                slot[k], slot[k + 1] = high, low
                if k == 0 and end[high] == 2:
                    end[high] = 1
                if k + 1 == m - 1:
                    if end[low] == 1 and counting:
                        trips += 1
                    end[low] = 2
            if not (counting and held):
                rho[k] = min(max(rho[k] + i**-decay * (acceptance - target), -7.0), 1.5)
            for r in range(m - 2, -1, -1):
                t[r] = t[r + 1] * np.exp(-np.exp(rho[r]))
        if counting:
            top = gamma[slot[m - 1]]
            for j in range(p):
                count[j] += top[j]
    return count / draws, t, exchanged / np.maximum(tried, 1), moved / draws, trips


@njit(nogil=True)
def simple(data, rng, burn_in, draws, swap):
    """Add, delete or swap one variable; returns inclusion frequencies."""
    p = len(data.xty)
    gamma = np.zeros(p, np.bool_)
    for j in range(p):
        gamma[j] = rng.random() < SIZE / p
    k = gamma.sum()
    log_m = log_marginal(data, gamma)
    since, time = np.zeros(p), np.zeros(p)
    for i in range(burn_in + draws):
        if i == burn_in:
            since[:] = i
        out = into = -1
        u = rng.random()
        if 0 < k < p and u < swap:
            out, into = 1, 1
        elif k == 0 or (k < p and u < swap + (1 - swap) / 2):
            into = 1
        else:
            out = 1
        if into == 1:
            into = int(rng.random() * p)
            while gamma[into]:
                into = int(rng.random() * p)
        if out == 1:
            out = int(rng.random() * p)
            while not gamma[out]:
                out = int(rng.random() * p)
        log_ratio = 0.0
        if out < 0:
            there = 1.0 if k == 0 else (1 - swap) / 2
            back = 1.0 if k + 1 == p else (1 - swap) / 2
            log_ratio = np.log(back / (k + 1)) - np.log(there / (p - k)) + data.log_odds
        elif into < 0:
            there = 1.0 if k == p else (1 - swap) / 2
            back = 1.0 if k == 1 else (1 - swap) / 2
            log_ratio = np.log(back / (p - k + 1)) - np.log(there / k) - data.log_odds
        if out >= 0:
            gamma[out] = False
        if into >= 0:
            gamma[into] = True
        proposed = log_marginal(data, gamma)
        if np.log(rng.random()) < log_ratio + proposed - log_m:
            log_m = proposed
            k += (into >= 0) - (out >= 0)
            if i >= burn_in:
                if out >= 0:
                    time[out] += i - since[out]
                if into >= 0:
                    since[into] = i
        else:
            if out >= 0:
                gamma[out] = True
            if into >= 0:
                gamma[into] = False
    for j in range(p):
        if gamma[j]:
            time[j] += burn_in + draws - since[j]
    return time / draws


@njit(nogil=True)
def particles(data, rng, number, steps, tau, phi0, decay, ess, learning, reset, levels):
    """IA-SMC; returns mean inclusion over the particles, the number of temperatures, how many distinct particles are left, and for each
    of the temperatures `levels` the effective number of particles there whose descendants are left: 1/Σ s², where s is the share of
    the last particles that descend from one of them. `learning`: BETWEEN, WITHIN or ROUNDS; in rounds, the rate of learning falls from one
    round to the next, as if the particles were the chains of multiple chain adaptation. `reset`: whether the counter on which the rate
    of learning depends starts again at each temperature."""
    p = len(data.xty)
    epsilon = 0.1 / p
    gamma = rng.random((number, p)) < SIZE / p
    log_m = np.array([log_marginal(data, gamma[i]) for i in range(number)])
    add, delete = first_probabilities(p)
    flips = np.empty(p, np.int64)
    t, temperatures, counter = 0.0, 0, 0
    ancestor = np.zeros((len(levels), number), np.int64)
    since = np.zeros(len(levels), np.bool_)
    while t < 1:
        low, high = t, 1.0
        weights = np.exp((high - t) * (log_m - log_m.max()))
        if weights.sum() ** 2 / (weights**2).sum() < ess * number:
            for _ in range(60):
                middle = (low + high) / 2
                weights = np.exp((middle - t) * (log_m - log_m.max()))
                if weights.sum() ** 2 / (weights**2).sum() < ess * number:
                    high = middle
                else:
                    low = middle
            high = max(low, np.nextafter(t, 1.0))
        weights = np.exp((high - t) * (log_m - log_m.max()))
        t = high
        temperatures += 1
        share = np.cumsum(weights) / weights.sum()
        place = (np.arange(number) + rng.random()) / number
        chosen = np.minimum(np.searchsorted(share, place), number - 1)
        gamma, log_m = gamma[chosen], log_m[chosen]
        for k in range(len(levels)):
            if since[k]:
                ancestor[k] = ancestor[k][chosen]
            elif t >= levels[k]:
                ancestor[k] = np.arange(number)
                since[k] = True
        if reset:
            counter = 0
        for _turn in range(steps if learning == ROUNDS else 1):
            if learning == ROUNDS:
                counter += 1
            for i in range(number):
                fixed_add, fixed_delete = (
                    (add.copy(), delete.copy()) if learning == BETWEEN else (add, delete)
                )
                for _step in range(1 if learning == ROUNDS else steps):
                    if learning != ROUNDS:
                        counter += 1
                    rate = phi0 * counter**-decay
                    log_m[i], _ = individual_step(
                        data,
                        rng,
                        gamma[i],
                        log_m[i],
                        t,
                        fixed_add,
                        fixed_delete,
                        add,
                        delete,
                        tau,
                        rate,
                        epsilon,
                        flips,
                    )
    left = np.empty(len(levels))
    for k in range(len(levels)):
        left[k] = number**2 / (np.bincount(ancestor[k]) ** 2).sum()
    return gamma.sum(axis=0) / number, temperatures, len(np.unique(log_m)), left
