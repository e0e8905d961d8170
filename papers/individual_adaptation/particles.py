"""IA-SMC of the second program (``independent``), with everything open that the paper leaves open: how particles are resampled and when, how
many temperatures there are, in how many groups particles learn, and at which temperature and with which particles a run begins."""

from typing import NamedTuple

import numpy as np
from numba import njit

from papers.individual_adaptation.independent import SIZE, first_probabilities, log_marginal, logit

SLOTS = 1 << 18  # models whose marginal likelihood is remembered

# how particles are resampled
SYSTEMATIC, STRATIFIED, RESIDUAL, MULTINOMIAL = range(4)
UNBOUNDED = np.inf


class Options(NamedTuple):
    """What the paper leaves open. The defaults are those of ``independent.particles`` with learning between particles."""

    ess: float = (
        0.9  # effective sample size of the weights of one step, as a share: it decides the next temperature
    )
    resampling: int = SYSTEMATIC
    # particles are resampled where their weights have an effective sample size below this share; 1: at each temperature
    resample_below: float = 1.0
    groups: int = 1  # each learns by itself, and after each temperature takes the mean over all
    bound: float = (
        UNBOUNDED  # on the logarithm by which one particle's K moves may change the odds of a probability
    )


@njit
def effective(log_weights):
    """Effective sample size of weights, as a share."""
    weights = np.exp(log_weights - log_weights.max())
    return weights.sum() ** 2 / (weights**2).sum() / len(weights)


@njit
def next_temperature(log_m, t, share):
    """The temperature at which the weights of a step from t have the effective sample size `share`, at most 1."""
    if effective((1 - t) * log_m) >= share:
        return 1.0
    low, high = t, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if effective((middle - t) * log_m) < share:
            high = middle
        else:
            low = middle
    return max(low, np.nextafter(t, 1.0))


@njit
def ancestors(log_weights, rng, kind):
    """Which particles are taken, in increasing order but for ``MULTINOMIAL``: each as often as its weight says, on average."""
    number = len(log_weights)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    chosen = np.empty(number, np.int64)
    first = 0
    if kind == RESIDUAL:
        for i in range(number):
            whole = int(number * weights[i])
            chosen[first : first + whole] = i
            first += whole
            weights[i] = number * weights[i] - whole
        if first == number:
            return chosen
        weights /= weights.sum()
    left = number - first
    share = np.cumsum(weights)
    common = rng.random()
    for i in range(left):
        if kind == SYSTEMATIC:
            point = (i + common) / left
        elif kind == STRATIFIED:
            point = (i + rng.random()) / left
        else:
            point = rng.random()
        chosen[first + i] = min(np.searchsorted(share, point * share[-1]), number - 1)
    return chosen


@njit
def new_memo(rng, p):
    """A word for each variable, whose exclusive or over a model's variables stands for the model; and the words and log marginal
    likelihoods of models that were seen."""
    words = np.empty(p, np.uint64)
    for j in range(p):
        words[j] = rng.integers(1, 1 << 62)
    return words, np.zeros(SLOTS, np.uint64), np.zeros(SLOTS)


@njit
def remembered(data, gamma, word, memo):
    """Log marginal likelihood of a model, computed where it is not remembered."""
    _, keys, values = memo
    place = word & np.uint64(SLOTS - 1)
    if keys[place] != word or word == 0:
        keys[place] = word
        values[place] = log_marginal(data, gamma)
    return values[place]


@njit
def word_of(gamma, words):
    """Of a model."""
    word = np.uint64(0)
    for j in range(len(gamma)):
        if gamma[j]:
            word ^= words[j]
    return word


@njit
def step(data, rng, gamma, word, log_m, t, add, delete, to_add, to_delete, rise, epsilon, flips, memo, tau):
    """As ``independent.individual_step``; lessons of the size `rise` × (acceptance − τ) go to the logits `to_add` and `to_delete`."""
    changes = 0
    log_ratio = 0.0
    other = word
    for j in range(len(gamma)):
        if rng.random() < (delete[j] if gamma[j] else add[j]):
            flips[changes] = j
            changes += 1
            other ^= memo[0][j]
            one = np.log(add[j] / delete[j]) - data.log_odds
            log_ratio += one if gamma[j] else -one
    if changes == 0:
        return word, log_m, 0.0
    for c in range(changes):
        gamma[flips[c]] = not gamma[flips[c]]
    proposed = remembered(data, gamma, other, memo)
    acceptance = np.exp(min(0.0, log_ratio + t * (proposed - log_m)))
    accepted = rng.random() < acceptance
    for c in range(changes):
        j = flips[c]
        if gamma[j]:
            to_add[j] += rise * (acceptance - tau)
        else:
            to_delete[j] += rise * (acceptance - tau)
        if not accepted:
            gamma[j] = not gamma[j]
    return (other, proposed, acceptance) if accepted else (word, log_m, acceptance)


@njit
def probability(value, epsilon):
    """The inverse of logit."""
    return epsilon + (1 - 2 * epsilon) / (1 + np.exp(-value))


@njit
def move(data, rng, gamma, words, log_m, t, logits, steps, tau, phi0, decay, options, memo):
    """K moves of each particle. A particle moves with A and D as they are, and its group learns from it before the next one moves.
    Returns the mutation rate."""
    number, p = gamma.shape
    epsilon = 0.1 / p
    flips = np.empty(p, np.int64)
    total = np.zeros((2, p))
    accepted = 0.0
    for g in range(options.groups):
        own = logits.copy()
        chances = probability(own, epsilon)
        lesson = np.zeros((2, p))
        counter = 0
        for i in range(g * number // options.groups, (g + 1) * number // options.groups):
            for _ in range(steps):
                counter += 1
                words[i], log_m[i], acceptance = step(
                    data, rng, gamma[i], words[i], log_m[i], t, chances[0], chances[1], lesson[0], lesson[1], phi0 * counter**-decay, epsilon, flips, memo, tau
                )  # fmt: skip
                accepted += acceptance
            for kind in range(2):
                for j in range(p):
                    if lesson[kind, j] != 0:
                        own[kind, j] += min(max(lesson[kind, j], -options.bound), options.bound)
                        chances[kind, j] = probability(own[kind, j], epsilon)
                        lesson[kind, j] = 0
        total += own
    logits[:] = total / options.groups
    return accepted / (number * steps)


@njit(nogil=True)
def run(data, rng, start, t, steps, tau, phi0, decay, options, levels, marker):
    """IA-SMC from the particles `start`, shape (number, p), at temperature t. Returns the inclusion probabilities; the temperatures that were
    visited, each with the mutation rate and the share of the particles that have the variable `marker`; and for each of the temperatures
    `levels` the effective number of particles there whose descendants are left: 1/Σ s², where s is the share of the last particles that
    descend from one of them."""
    number, p = start.shape
    gamma = start.copy()
    log_m = np.array([log_marginal(data, gamma[i]) for i in range(number)])
    memo = new_memo(rng, p)
    words = np.array([word_of(gamma[i], memo[0]) for i in range(number)])
    logits = np.empty((2, p))
    logits[0], logits[1] = first_probabilities(p)
    for j in range(p):
        for kind in range(2):
            logits[kind, j] = logit(logits[kind, j], 0.1 / p)
    log_weights = np.zeros(number)
    ancestor = np.zeros((len(levels), number), np.int64)
    since = np.zeros(len(levels), np.bool_)
    visited = []
    while t < 1:
        new = next_temperature(log_m, t, options.ess)
        log_weights = log_weights + (new - t) * log_m
        t = new
        if options.resample_below >= 1 or effective(log_weights) < options.resample_below:
            chosen = ancestors(log_weights, rng, options.resampling)
            gamma, words, log_m = gamma[chosen], words[chosen], log_m[chosen]
            log_weights = np.zeros(number)
            for k in range(len(levels)):
                if since[k]:
                    ancestor[k] = ancestor[k][chosen]
        for k in range(len(levels)):
            if not since[k] and t >= levels[k]:
                ancestor[k] = np.arange(number)
                since[k] = True
        rate = move(data, rng, gamma, words, log_m, t, logits, steps, tau, phi0, decay, options, memo)
        weights = np.exp(log_weights - log_weights.max())
        visited.append((t, rate, (weights * gamma[:, marker]).sum() / weights.sum()))
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    pip = np.zeros(p)
    for i in range(number):
        for j in range(p):
            if gamma[i, j]:
                pip[j] += weights[i]
    left = np.empty(len(levels))
    for k in range(len(levels)):
        shares = np.bincount(ancestor[k], weights)
        left[k] = 1 / (shares**2).sum()
    return pip, visited, left


@njit
def from_prior(rng, number, p):
    """Draws from the prior of a fixed inclusion probability, shape (number, p)."""
    return rng.random((number, p)) < SIZE / p


@njit(nogil=True)
def from_chain(data, rng, t, number, thin, swap):
    """Draws from the posterior with its likelihood to the power t: a chain that adds, deletes and swaps, thinned, after a tenth of it has been
    left out. Shape (number, p)."""
    p = len(data.xty)
    gamma = rng.random(p) < SIZE / p
    k = gamma.sum()
    memo = new_memo(rng, p)
    word = word_of(gamma, memo[0])
    log_m = log_marginal(data, gamma)
    kept = np.empty((number, p), np.bool_)
    first = number // 10
    for place in range(first + number):
        for _ in range(thin):
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
            size = k + (into >= 0) - (out >= 0)
            log_ratio = (size - k) * data.log_odds
            if size != k:
                smaller = min(size, k)
                growing = 1.0 if smaller == 0 else (1 - swap) / 2
                shrinking = 1.0 if smaller + 1 == p else (1 - swap) / 2
                one = np.log(shrinking / (smaller + 1)) - np.log(growing / (p - smaller))
                log_ratio += one if size > k else -one
            other = word
            if out >= 0:
                gamma[out] = False
                other ^= memo[0][out]
            if into >= 0:
                gamma[into] = True
                other ^= memo[0][into]
            proposed = remembered(data, gamma, other, memo)
            if np.log(rng.random()) < log_ratio + t * (proposed - log_m):
                log_m, k, word = proposed, size, other
            else:
                if out >= 0:
                    gamma[out] = True
                if into >= 0:
                    gamma[into] = False
        if place >= first:
            kept[place - first] = gamma
    return kept
