r"""A parameter τ outside of the linear predictor that is integrated out: m = ∫ m(τ) π(τ) dτ.

**DISPERSION**: τ = log r of a negative binomial distribution, with a normal prior. It is a binomial distribution with y + r trials and
log r less in the offset (densities.py), but for Γ(y + r)/Γ(r), which matters now. With μ = e^η, q = μ/(r + μ) and ψ the digamma
function, the derivatives of the log density of a row in τ are

.. math:: \ell_\tau = r\,(\psi(y + r) - \psi(r) - \log(1 + \mu/r) + q) - y(1 - q), \qquad
          \ell_{\tau\tau} = \ell_\tau + r^2(\psi'(y + r) - \psi'(r)) + r q^2 + y (1 - q)^2 .

**NOISE_SCALE**: τ = log s of a Student response with ν degrees of freedom, with a normal prior. The precision P of the slab is that of s = 1,
divided by s². With e = η − y, the log of the joint density of a row and its derivatives in τ are

.. math:: \ell = -\tau - \tfrac{\nu + 1}{2}\log\Big(1 + \frac{e^2}{\nu s^2}\Big), \qquad
          \ell_\tau = -1 + \frac{(\nu + 1)\,e^2}{\nu s^2 + e^2}, \qquad
          \ell_{\tau\tau} = -\frac{2 (\nu + 1)\,\nu s^2 e^2}{(\nu s^2 + e^2)^2} ,

and those of the slab are :math:`-k\tau - \tfrac12 s^{-2}\beta^T P \beta` and what follows from it.

**SHRINKAGE**: τ = log g of a mixture of g-priors, whose density is given on a grid; or of the independent slab, which has the values of the
grid alone.

The integral is taken in family_evidence.py.
"""

import math

from whichvars._kernels.densities import LOG_2PI
from whichvars._kernels.jit import kernel
from whichvars._kernels.likelihood import (
    DISPERSION,
    ETA,
    NOISE_SCALE,
    OFFSET,
    OUTER,
    SCALE,
    STEP_LENGTH,
    THETA,
    TRIALS,
    WIDTH,
    at_the_mode,
    less_penalty,
)
from whichvars._kernels.newton import LOST, climb, find_mode

# values of log r beyond which nothing is looked for, and the distance of log s from its prior mean
LOWEST, HIGHEST = -25.0, 35.0
FURTHEST = 40.0
# up to here gamma functions are products; beyond, Stirling's series is used
SHIFT = 12
# steps to the mode in log r: their number, the longest, and the one, in standard deviations, after which the mode is near enough; the
# same where it is sought for its own sake
MOST_OUTER_STEPS, LONGEST_MOVE, NEAR, VERY_NEAR = 100, 2.0, 0.2, 1e-7


@kernel
def _stirling(x):
    """log Γ(x) − (x − ½) log x + x − ½ log 2π, for x ≥ SHIFT."""
    y = 1.0 / (x * x)
    return (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y / 1680.0))) / x


@kernel
def rising(r, y):
    """log Γ(r + y) − log Γ(r) − y log r for a count y. (Python's ``math.lgamma`` has other bits than the compiled one, and the
    difference of two large numbers would lose digits.)"""
    value = 0.0
    for j in range(1, SHIFT):
        if j < y:
            value += math.log1p(j / r)
    if y <= SHIFT:
        return value
    x, rest = r + SHIFT, y - SHIFT
    value += rest * math.log1p(SHIFT / r) + (x + rest - 0.5) * math.log1p(rest / x) - rest
    return value + _stirling(x + rest) - _stirling(x)


@kernel
def _digamma_rest(x):
    """ψ(x) − log x, for x ≥ SHIFT."""
    y = 1.0 / (x * x)
    return -0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y / 240.0)))


@kernel
def _trigamma(x):
    """ψ'(x), for x ≥ SHIFT."""
    y = 1.0 / (x * x)
    return (1.0 + 0.5 / x + y * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)))) / x


@kernel
def rising_slopes(r, y):
    """ψ(r + y) − ψ(r) and ψ'(r + y) − ψ'(r) for a count y."""
    first, second = 0.0, 0.0
    for j in range(SHIFT):
        if j < y:
            first += 1.0 / (r + j)
            second -= 1.0 / ((r + j) * (r + j))
    if y > SHIFT:
        x, rest = r + SHIFT, y - SHIFT
        first += math.log1p(rest / x) + _digamma_rest(x + rest) - _digamma_rest(x)
        second += _trigamma(x + rest) - _trigamma(x)
    return first, second


@kernel
def set_outer(likelihood, work, value):
    """Give the outer parameter this value. Returns the log of its prior density, and what of the log of the joint density depends on
    it alone."""
    work.outer[OUTER] = value
    rows, levels = work.rows, likelihood.levels
    if likelihood.outer == NOISE_SCALE:
        square, total = math.exp(2.0 * value), 0.0
        for i in range(rows.shape[1]):
            rows[TRIALS, i] = likelihood.y[i] * square
            total += likelihood.weights[i]
        if at_the_mode(likelihood):
            total += work.ints[WIDTH] - likelihood.flat
        work.outer[SCALE] = 1.0 / square
        z = (value - likelihood.outer_mean) / likelihood.outer_sd
        return -0.5 * z * z - math.log(likelihood.outer_sd) - 0.5 * LOG_2PI - total * value
    if likelihood.outer == DISPERSION:
        r, moved = math.exp(value), likelihood.outer_start - value
        for i in range(rows.shape[1]):
            rows[TRIALS, i] = likelihood.y[i] + r
            rows[OFFSET, i] = likelihood.offset[i] + moved
        z = (value - likelihood.outer_mean) / likelihood.outer_sd
        term = -0.5 * z * z - math.log(likelihood.outer_sd) - 0.5 * LOG_2PI
        for i in range(levels.shape[0]):
            term += levels[i, 1] * (rising(r, levels[i, 0]) + levels[i, 0] * value)
        return term
    grid = likelihood.shrinkage
    place = int((value - grid[0, 0]) / (grid[1, 0] - grid[0, 0]) + 0.5)
    work.outer[SCALE] = math.exp(-value)
    return grid[place, 1] - 0.5 * (work.ints[WIDTH] - likelihood.flat) * value


@kernel
def outer_slopes(likelihood, work):
    """The first two derivatives in log r or log s of the log of the joint density, prior included, at the current θ and η."""
    if likelihood.outer == NOISE_SCALE:
        return _noise_slopes(likelihood, work)
    return dispersion_slopes(likelihood, work)


@kernel
def _noise_slopes(likelihood, work):
    rows = work.rows
    first, second = 0.0, 0.0
    for i in range(rows.shape[1]):
        y, w, trials = likelihood.y[i], likelihood.weights[i], rows[TRIALS, i]
        square = rows[ETA, i] * rows[ETA, i]
        share = square / (trials + square)
        first += w * ((y + 1.0) * share - 1.0)
        second -= w * 2.0 * (y + 1.0) * share * trials / (trials + square)
    if at_the_mode(likelihood):
        penalty = -less_penalty(likelihood, work, THETA, 0.0)
        first += 2.0 * penalty - (work.ints[WIDTH] - likelihood.flat)
        second -= 4.0 * penalty
    z = (work.outer[OUTER] - likelihood.outer_mean) / likelihood.outer_sd
    return first - z / likelihood.outer_sd, second - 1.0 / (likelihood.outer_sd * likelihood.outer_sd)


@kernel
def dispersion_slopes(likelihood, work):
    """The same for log r."""
    tau = work.outer[OUTER]
    r, rows, levels = math.exp(tau), work.rows, likelihood.levels
    first, rest = 0.0, 0.0
    for i in range(levels.shape[0]):
        one, two = rising_slopes(r, levels[i, 0])
        first += levels[i, 1] * r * one
        rest += levels[i, 1] * r * r * two
    for i in range(rows.shape[1]):
        eta = rows[ETA, i]  # log μ − log r
        small = math.exp(-abs(eta))
        share = 1.0 / (1.0 + small) if eta > 0.0 else small / (1.0 + small)
        other = small / (1.0 + small) if eta > 0.0 else 1.0 / (1.0 + small)
        log_sum = math.log1p(small) + max(eta, 0.0)
        w, y = likelihood.weights[i], likelihood.y[i]
        first += w * (r * (share - log_sum) - y * other)
        rest += w * (r * share * share + y * other * other)
    z = (tau - likelihood.outer_mean) / likelihood.outer_sd
    second = first + rest - 1.0 / (likelihood.outer_sd * likelihood.outer_sd)
    return first - z / likelihood.outer_sd, second


@kernel
def outer_inside(likelihood, value):
    """Whether the outer parameter may have this value."""
    if likelihood.outer == DISPERSION:
        return value >= LOWEST and value <= HIGHEST
    if likelihood.outer == NOISE_SCALE:
        return abs(value - likelihood.outer_mean) <= FURTHEST
    grid = likelihood.shrinkage
    rounding = 0.25 * (grid[1, 0] - grid[0, 0])
    return value >= grid[0, 0] - rounding and value <= grid[grid.shape[0] - 1, 0] + rounding


@kernel
def find_dispersion(likelihood, work, near):
    """Newton's method in log r or log s, with θ at its mode given that, until a step is shorter than `near` standard deviations. Returns the log
    of the joint density there, terms of r or s and its prior included, and how the last fit ended; OUTER and STEP_LENGTH are the place and
    the standard deviation.

    The curvature leaves out what θ does meanwhile, which is little: mean and dispersion, and location and scale, are orthogonal parameters.
    """
    tau = work.outer[OUTER]
    value = set_outer(likelihood, work, tau)
    fit, how = find_mode(likelihood, work)
    value += fit
    if how == LOST:
        return value, how
    flattest = 0.25 / (likelihood.outer_sd * likelihood.outer_sd)
    for _ in range(MOST_OUTER_STEPS):
        first, second = outer_slopes(likelihood, work)
        curvature = max(-second, flattest)
        work.outer[STEP_LENGTH] = 1.0 / math.sqrt(curvature)
        move = min(max(first / curvature, -LONGEST_MOVE), LONGEST_MOVE)
        if not abs(move) > near * work.outer[STEP_LENGTH]:
            break
        better = False
        while abs(move) > 0.1 * near * work.outer[STEP_LENGTH]:
            if outer_inside(likelihood, tau + move):
                new = set_outer(likelihood, work, tau + move)
                fit, how = climb(likelihood, work)
                new += fit
                if how != LOST and new > value:
                    better = True
                    break
            move *= 0.5
        if not better:
            break
        tau += move
        value = new
    value = set_outer(likelihood, work, tau)
    fit, how = climb(likelihood, work)
    return value + fit, how
