"""Newton's method for the mode of a model that was prepared (likelihood.py), or for the maximum of its likelihood."""

import math

import numpy as np

from whichvars._kernels.densities import STUDENT, first_and_second, largest_second
from whichvars._kernels.jit import kernel, routine
from whichvars._kernels.likelihood import (
    CURVATURE,
    ETA,
    FITS,
    GRADIENT,
    SCALE,
    SCORE,
    SCRATCH,
    STEP,
    STEPS,
    THETA,
    TRIAL,
    TRIALS,
    WIDTH,
    at_the_mode,
    fill_predictor,
    log_joint,
)  # fmt: skip
from whichvars._kernels.linalg import dot

# It ends when gᵀH⁻¹g is at most CLOSE
CLOSE = 1e-16
MOST_STEPS, MOST_HALVINGS = 500, 40
# of log p(y | θ): what rounding may take away from it in a step
SLACK = 1e-12
# change of every η up to which a step is made without looking at the density; |η| beyond which nothing starts
SMALL_MOVE, FURTHEST_START = 0.25, 300.0
# Without a prior the maximum may be at infinity: where gᵀH⁻¹g is below ALMOST, a step still changes some η by more than STILL_MOVING
ALMOST, STILL_MOVING = 1e-9, 0.02

# how it ended
FOUND, LOST, TO_INFINITY = range(3)


@kernel
def expand(likelihood, work, bounded):
    """Gradient and factor of H at the current θ and η; with `bounded`, of what H would be if every row had the largest curvature that
    it can have (counts: here or at its own mean), and made positive definite. False where that fails."""
    d, q = work.ints[WIDTH], likelihood.flat
    rows, vectors, columns = work.rows, work.vectors, work.columns
    scale = work.outer[SCALE]
    for i in range(rows.shape[1]):
        first, second = first_and_second(likelihood.code, likelihood.y[i], rows[TRIALS, i], rows[ETA, i])
        if bounded:
            second = largest_second(likelihood.code, likelihood.y[i], rows[TRIALS, i], rows[ETA, i], second)
        rows[SCORE, i] = likelihood.weights[i] * first
        rows[CURVATURE, i] = likelihood.weights[i] * second
    for a in range(d):
        slope = dot(rows, SCORE, columns, a)
        for b in range(q, d):
            slope -= scale * work.prior[a, b] * vectors[THETA, b]
        vectors[GRADIENT, a] = slope
    return factorise(work, bounded)


@kernel
def factorise(work, bounded):
    """The factor of H with the curvatures of the rows; False where H is not positive definite."""
    rows, factor, columns = work.rows, work.factor, work.columns
    d, n, scale = work.ints[WIDTH], rows.shape[1], work.outer[SCALE]
    for a in range(d):
        for i in range(n):
            rows[SCRATCH, i] = rows[CURVATURE, i] * columns[a, i]
        for b in range(a + 1):
            factor[a, b] = dot(rows, SCRATCH, columns, b) + scale * work.prior[a, b]
    for a in range(d):
        for b in range(a + 1):
            x = factor[a, b]
            least = 1e-8 * x if bounded else 0.0
            for t in range(b):
                x -= factor[a, t] * factor[b, t]
            if b < a:
                factor[a, b] = x / factor[b, b]
            else:
                x = max(x, least)
                if not (x > 0.0 and x < np.inf):
                    return False
                factor[a, a] = math.sqrt(x)
    return True


@kernel
def solve_transposed(factor, vectors, which, d):
    """L⁻ᵀ times a row of ``vectors``, in place."""
    for a in range(d - 1, -1, -1):
        x = vectors[which, a]
        for t in range(a + 1, d):
            x -= factor[t, a] * vectors[which, t]
        vectors[which, a] = x / factor[a, a]


@kernel
def newton_step(work):
    """H⁻¹ times the gradient, into STEP; returns gᵀH⁻¹g."""
    d, vectors, factor = work.ints[WIDTH], work.vectors, work.factor
    square = 0.0
    for a in range(d):
        x = vectors[GRADIENT, a]
        for t in range(a):
            x -= factor[a, t] * vectors[STEP, t]
        vectors[STEP, a] = x / factor[a, a]
        square += vectors[STEP, a] * vectors[STEP, a]
    solve_transposed(factor, vectors, STEP, d)
    return square


@kernel
def _largest_move(work):
    """The largest change of an η by the step."""
    rows, columns = work.rows, work.columns
    for i in range(rows.shape[1]):
        rows[SCRATCH, i] = 0.0
    for a in range(work.ints[WIDTH]):
        x = work.vectors[STEP, a]
        for i in range(rows.shape[1]):
            rows[SCRATCH, i] += x * columns[a, i]
    largest = 0.0
    for i in range(rows.shape[1]):
        largest = max(largest, abs(rows[SCRATCH, i]))
    return largest


@kernel
def _start(likelihood, work):
    """Go to where Newton's method starts: the mode of the surrogate if there is one, else that of the null model."""
    d, rows, vectors, reference = work.ints[WIDTH], work.rows, work.vectors, likelihood.reference
    if reference.shape[0] > 0:
        for i in range(rows.shape[1]):
            rows[CURVATURE, i] = reference[0, i]
        for a in range(d):
            vectors[GRADIENT, a] = dot(reference, 1, work.columns, a)
        if factorise(work, False):
            newton_step(work)
            for a in range(d):
                vectors[THETA, a] = vectors[STEP, a]
            fill_predictor(likelihood, work, THETA)
            furthest = 0.0
            for i in range(rows.shape[1]):
                furthest = max(furthest, abs(rows[ETA, i]))
            if furthest < FURTHEST_START or likelihood.code == STUDENT:
                return
    for a in range(d):
        vectors[THETA, a] = likelihood.start[a] if a < likelihood.flat else 0.0
    fill_predictor(likelihood, work, THETA)


@kernel
def _make_small_step(likelihood, work):
    """Make the step if it changes no η by more than SMALL_MOVE; says whether it was made. The curvature of no row changes by much
    then, so that a whole step of Newton's method is safe, and no log density need be computed. That of a Student response, whose η has the
    units of the response and whose log density is not concave, is always computed."""
    if likelihood.code == STUDENT or not _largest_move(work) <= SMALL_MOVE:
        return False
    rows, vectors = work.rows, work.vectors
    for a in range(work.ints[WIDTH]):
        vectors[THETA, a] += vectors[STEP, a]
    for i in range(rows.shape[1]):
        rows[ETA, i] += rows[SCRATCH, i]
    return True


@kernel
def find_mode(likelihood, work):
    """Newton's method for the model that was prepared, from where it starts: see ``_ascend``."""
    _start(likelihood, work)
    return _ascend(likelihood, work)


@kernel
def climb(likelihood, work):
    """The same from the current θ, after the outer parameter has changed."""
    fill_predictor(likelihood, work, THETA)
    return _ascend(likelihood, work)


@routine
def _ascend(likelihood, work):
    """Newton's method with step halving from the current θ and η. Returns the log of the joint density at the mode, and how it
    ended; θ, η, the derivatives and the factor of H are then those of the mode.

    Where H is singular to rounding, as all rows that matter are far from where they have any curvature (huge offsets), or is not positive
    definite, as the log density of a Student response is not concave, a step is made with an upper bound of the curvature instead, and
    lengthened as long as that helps.
    """
    ints = work.ints
    # a Student response always has a finite maximum
    endless = not at_the_mode(likelihood) and likelihood.code != STUDENT
    value, known = 0.0, False  # the log of the joint density, and whether it is that of the current θ
    ints[FITS] += 1
    decrement = np.inf
    for _ in range(MOST_STEPS):
        bounded = not expand(likelihood, work, False)
        if bounded:
            if decrement < 1e-6 and endless:
                return log_joint(likelihood, work, THETA), TO_INFINITY  # where H vanishes at last
            if not expand(likelihood, work, True):
                return value, LOST
        decrement = newton_step(work)
        flat = decrement < ALMOST and endless
        if flat and _largest_move(work) > STILL_MOVING:
            return log_joint(likelihood, work, THETA), TO_INFINITY
        if not decrement > CLOSE:
            how = LOST if bounded or math.isnan(decrement) else FOUND
            return log_joint(likelihood, work, THETA), how
        ints[STEPS] += 1
        if not bounded and _make_small_step(likelihood, work):
            known = False
            continue
        if not known:
            value, known = log_joint(likelihood, work, THETA), True
        new = _make_step(likelihood, work, value, decrement, bounded)
        if math.isnan(new) and not bounded:  # H is regular, but so small that the step leads nowhere
            log_joint(likelihood, work, THETA)
            if not expand(likelihood, work, True):
                return value, LOST
            decrement = newton_step(work)
            new = _make_step(likelihood, work, value, decrement, True)
        if math.isnan(new):
            return value, LOST
        value = new
    return value, LOST


@kernel
def _make_step(likelihood, work, value, decrement, longer):
    """Move θ along the step, halved until the log of the joint density rises, or doubled as long as it rises further if `longer`;
    returns what it is then, NaN where it does not rise. η is left at that θ."""
    d, vectors = work.ints[WIDTH], work.vectors
    slack = SLACK * (1.0 + abs(value))
    share, new = 1.0, np.nan
    for _ in range(MOST_HALVINGS):
        trial = _log_joint_along(likelihood, work, share)
        if trial >= value + 1e-4 * share * decrement - slack and trial < np.inf:
            new = trial
            break
        share *= 0.5
    if math.isnan(new):
        return new
    while longer and share >= 1.0 and share < 1e6:
        further = _log_joint_along(likelihood, work, 2.0 * share)
        if not further > new:
            break
        new = further
        share *= 2.0
    if longer:
        new = _log_joint_along(likelihood, work, share)
    for a in range(d):
        vectors[THETA, a] = vectors[TRIAL, a]
    return new


@kernel
def _log_joint_along(likelihood, work, share):
    """log_joint at θ + share · step, which is left in TRIAL."""
    for a in range(work.ints[WIDTH]):
        work.vectors[TRIAL, a] = work.vectors[THETA, a] + share * work.vectors[STEP, a]
    return log_joint(likelihood, work, TRIAL)
