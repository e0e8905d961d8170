"""The marginal likelihood of a model whose mode was found, by importance sampling at points that depend on the model's key alone."""

import math

import numpy as np

from whichvars._kernels.densities import ROOT_2PI, log_density
from whichvars._kernels.jit import kernel
from whichvars._kernels.likelihood import (
    DRAWN,
    ETA,
    MEAN,
    POINTS_EACH,
    SCRAMBLES,
    SCRATCH,
    SOBOL_DIMENSIONS,
    TRIAL,
    TRIALS,
    WIDTH,
    less_penalty,
    log_joint,
)
from whichvars._kernels.newton import solve_transposed
from whichvars._kernels.variational import settle

POINTS = SCRAMBLES * POINTS_EACH * 2
DEGREES = 6  # of freedom of the t distribution that they are drawn from; as many as there are dimensions, if that is more


@kernel
def mixed(x):
    """A random-looking number of 32 bits from another: the last step of MurmurHash3. No product exceeds 64 bits."""
    mask = np.uint64(0xFFFFFFFF)
    x = ((x ^ (x >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & mask
    x = ((x ^ (x >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & mask
    return x ^ (x >> np.uint64(16))


@kernel
def uniform(likelihood, key, scramble, point, dimension):
    """Coordinate of a point in (0, 1): Sobol's, xor a word of the scramble; of dimensions that Sobol's have not got, a word."""
    mask = np.uint64(0xFFFFFFFF)
    word = mixed(mixed(key & mask) ^ (key >> np.uint64(32)))
    word = mixed(word ^ mixed(np.uint64(1 + scramble)))
    word = mixed(word ^ mixed(np.uint64(1 + dimension) * np.uint64(0x9E3779B9) & mask))
    if dimension < SOBOL_DIMENSIONS:
        word ^= np.uint64(likelihood.sobol[point, dimension])
    else:
        word = mixed(word ^ mixed(np.uint64(1 + point)))
    return (np.float64(word) + 0.5) / 4294967296.0


@kernel
def normal_quantile(u):
    """Φ⁻¹(u): Hastings' approximation (Abramowitz and Stegun, 26.2.23) and two steps of Halley's method."""
    tail = u if u < 0.5 else 1.0 - u
    t = math.sqrt(-2.0 * math.log(tail))
    x = (2.515517 + t * (0.802853 + t * 0.010328)) / (
        1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    ) - t
    for _ in range(2):
        error = (0.5 * math.erfc(-x / math.sqrt(2.0)) - tail) * ROOT_2PI * math.exp(0.5 * x * x)
        x -= error / (1.0 + 0.5 * x * error)
    return x if u < 0.5 else -x


@kernel
def half_chi_square_quantile(u, half):
    """Half of the u-quantile of χ² with 2·`half` degrees of freedom, by bisection and Newton's method."""
    x, low, high = float(half), 0.0, np.inf
    for _ in range(200):
        term, total = math.exp(-x), 0.0
        for j in range(half):
            total += term
            if j + 1 < half:
                term *= x / (j + 1)
        excess = 1.0 - total - u
        if excess > 0.0:
            high = x
        else:
            low = x
        new = x - excess / term if term > 0.0 else np.inf
        if not (new > low and new < high):
            new = 0.5 * (low + high) if high < np.inf else 2.0 * x
        if abs(new - x) <= 1e-12 * x:
            return new
        x = new
    return x


@kernel
def log_gamma_ratio(n, d):
    """log Γ(n) − log Γ(n + d/2) of whole numbers. (Python's ``math.lgamma`` has other bits than the compiled one.)"""
    value = 0.0
    start = float(n)
    if d % 2 == 1:
        start += 0.5
        value -= 0.5 * math.log(math.pi)
        for j in range(n):
            value -= math.log(j + 0.5)
            if j > 0:
                value += math.log(j)
    for j in range(d // 2):
        value -= math.log(start + j)
    return value


@kernel
def _fill_change(work):
    """What DRAWN adds to η, into the row SCRATCH."""
    rows, columns = work.rows, work.columns
    for i in range(rows.shape[1]):
        rows[SCRATCH, i] = 0.0
    for a in range(work.ints[WIDTH]):
        x = work.vectors[DRAWN, a]
        for i in range(rows.shape[1]):
            rows[SCRATCH, i] += x * columns[a, i]


@kernel
def _log_joint_aside(likelihood, work, sign):
    """The log of the joint density at MEAN + sign · DRAWN, from the rows ETA and SCRATCH."""
    rows, vectors = work.rows, work.vectors
    for a in range(work.ints[WIDTH]):
        vectors[TRIAL, a] = vectors[MEAN, a] + sign * vectors[DRAWN, a]
    value = 0.0
    for i in range(rows.shape[1]):
        eta = rows[ETA, i] + sign * rows[SCRATCH, i]
        value += likelihood.weights[i] * log_density(likelihood.code, likelihood.y[i], rows[TRIALS, i], eta)
    return less_penalty(likelihood, work, TRIAL, value)


@kernel
def importance(likelihood, work, at_mode):
    r"""log m − log m₁ of the model whose mode was found, and its standard error, from how much the scrambles differ.

    With f the joint density divided by m₁, N the normal density of ``variational.py`` and t that of the points, all in units in
    which N is standard, and e = f/N at its centre, m/m₁ = ∫ f is estimated by e + mean of (f − eN)/t: the mean of N/t is known, and
    most of the variance is common to both. Where that is nearly 0 or below, the mean of f/t is taken. `at_mode` is the log of the
    joint density at the mode.
    """
    d, vectors = work.ints[WIDTH], work.vectors
    shrunk = -at_mode
    for a in range(d):
        shrunk += math.log(work.factor[a, a])
    settle(likelihood, work)
    for a in range(d):
        shrunk -= math.log(work.factor[a, a])
    level = log_joint(likelihood, work, MEAN) + shrunk  # η is now that of MEAN
    half = max(DEGREES, d) // 2
    degrees = 2.0 * half
    key = np.uint64(0x9E3779B97F4A7C15)
    for i in range(work.members[work.members.shape[0] - 1]):
        key ^= likelihood.keys[work.members[i]]
    constant = log_gamma_ratio(half, d) + 0.5 * d * math.log(0.5 * degrees)
    total, control, squares = 0.0, 0.0, 0.0
    for scramble in range(SCRAMBLES):
        part = 0.0
        for point in range(POINTS_EACH):
            stretch = math.sqrt(
                half / half_chi_square_quantile(uniform(likelihood, key, scramble, point, 0), half)
            )
            square = 0.0
            for a in range(d):
                x = stretch * normal_quantile(uniform(likelihood, key, scramble, point, a + 1))
                vectors[DRAWN, a] = x
                square += x * x
            solve_transposed(work.factor, vectors, DRAWN, d)
            _fill_change(work)
            log_ratio = constant - 0.5 * square + 0.5 * (degrees + d) * math.log1p(square / degrees)
            normal = math.exp(log_ratio + level)
            for side in range(2):  # the point and the one opposite: terms of odd order cancel
                sign = 1.0 if side == 0 else -1.0
                joint = math.exp(_log_joint_aside(likelihood, work, sign) + shrunk + 0.5 * square + log_ratio)
                if not joint < np.inf:  # nothing can be learnt from an overflow
                    joint = normal
                total += joint
                control += normal
                part += joint - normal
        squares += part * part
    total, control = total / POINTS, control / POINTS
    difference = total - control
    spread = max(squares / SCRAMBLES / (4 * POINTS_EACH * POINTS_EACH) - difference * difference, 0.0)
    estimate = math.exp(level) + difference
    if not estimate > 0.1 * total:
        estimate = total
    return math.log(estimate), math.sqrt(spread / (SCRAMBLES - 1)) / estimate
