r"""The normal distribution that is nearest to the posterior of a model's coefficients, from which importance sampling draws.

Laplace's approximation N(θ̂, H⁻¹) is the posterior near its mode. Where the posterior is skewed, its mean lies elsewhere, and its
tails are wider to one side. Among normal distributions q = N(c, C) the smallest divergence KL(q ‖ p) is reached where

.. math:: \sum_i w_i\,E_q[\ell'(\eta_i)]\,J_i - Pc = 0, \qquad C^{-1} = \sum_i w_i\,E_q[-\ell''(\eta_i)]\,J_i J_i^T + P,

the equations of the mode with derivatives averaged over η_i ~ N(J_i c, J_i C J_iᵀ) (Opper and Archambeau 2009). They are
solved by a few steps of Newton's method from Laplace's approximation, averages by the Gauss–Hermite rule with five nodes. Whatever
comes out, importance sampling stays right: a bad c only makes it noisy.
"""

import math

import numpy as np

from whichvars._kernels.densities import first_and_second
from whichvars._kernels.jit import kernel
from whichvars._kernels.likelihood import (
    CURVATURE,
    DRAWN,
    ETA,
    GRADIENT,
    LEVERAGE,
    MEAN,
    SCALE,
    SCORE,
    SCRATCH,
    STEP,
    THETA,
    TRIALS,
    WIDTH,
    fill_predictor,
    unit_of_predictor,
)
from whichvars._kernels.linalg import dot
from whichvars._kernels.newton import expand, factorise, newton_step, solve_transposed

SETTLING_STEPS = 2
# Gauss–Hermite nodes for the standard normal distribution, besides 0, with their weights
NEAR_NODE, FAR_NODE = 1.355626179974266, 2.856970013872806
CENTRE_WEIGHT, NEAR_WEIGHT, FAR_WEIGHT = 0.5333333333333333, 0.2220759220056126, 0.011257411327720691
# largest change of an η by all steps together; beyond, the mode is better
FURTHEST_MEAN = 20.0


@kernel
def settle(likelihood, work):
    """From the mode, where η and the factor of H must be: c into the row MEAN of ``vectors``, and the factor of C⁻¹. If the equations
    cannot be solved, they are left as they are at the mode."""
    d, vectors, rows = work.ints[WIDTH], work.vectors, work.rows
    for a in range(d):
        vectors[MEAN, a] = vectors[THETA, a]
    good = True
    for _ in range(SETTLING_STEPS):
        _fill_variances(work)
        _average_derivatives(likelihood, work)
        good = factorise(work, False)
        if not good:
            break
        newton_step(work)
        for a in range(d):
            vectors[MEAN, a] += vectors[STEP, a]
        fill_predictor(likelihood, work, MEAN)
    if good:
        for i in range(rows.shape[1]):
            rows[SCRATCH, i] = rows[ETA, i]
        fill_predictor(likelihood, work, THETA)
        furthest = FURTHEST_MEAN * unit_of_predictor(likelihood, work)
        for i in range(rows.shape[1]):
            good = good and abs(rows[SCRATCH, i] - rows[ETA, i]) < furthest
    if not good:
        for a in range(d):
            vectors[MEAN, a] = vectors[THETA, a]
        fill_predictor(likelihood, work, THETA)
        expand(likelihood, work, False)


@kernel
def _fill_variances(work):
    """The variance J_i C J_iᵀ of every η, into the row LEVERAGE; C⁻¹ has the current factor."""
    d, vectors, factor, rows, columns = (work.ints[WIDTH], work.vectors, work.factor, work.rows, work.columns)
    n = rows.shape[1]
    for i in range(n):
        rows[LEVERAGE, i] = 0.0
    for a in range(d):
        for b in range(d):
            vectors[DRAWN, b] = 0.0
        for b in range(a, d):
            x = 1.0 if b == a else 0.0
            for t in range(a, b):
                x -= factor[b, t] * vectors[DRAWN, t]
            vectors[DRAWN, b] = x / factor[b, b]
        solve_transposed(factor, vectors, DRAWN, d)
        x = vectors[DRAWN, a]
        for i in range(n):
            rows[SCRATCH, i] = x * columns[a, i]
        for b in range(a):
            x = 2.0 * vectors[DRAWN, b]
            for i in range(n):
                rows[SCRATCH, i] += x * columns[b, i]
        for i in range(n):
            rows[LEVERAGE, i] += rows[SCRATCH, i] * columns[a, i]


@kernel
def _average_derivatives(likelihood, work):
    """Averages of w ℓ' and −w ℓ'' over η ~ N(ETA, LEVERAGE), and the gradient at the row MEAN."""
    d, q, rows, vectors = work.ints[WIDTH], likelihood.flat, work.rows, work.vectors
    for i in range(rows.shape[1]):
        y, trials, eta = likelihood.y[i], rows[TRIALS, i], rows[ETA, i]
        width = math.sqrt(max(rows[LEVERAGE, i], 0.0))
        first, second = first_and_second(likelihood.code, y, trials, eta)
        first *= CENTRE_WEIGHT
        second *= CENTRE_WEIGHT
        for side in range(2):
            away = width if side == 0 else -width
            one, two = first_and_second(likelihood.code, y, trials, eta + NEAR_NODE * away)
            first += NEAR_WEIGHT * one
            second += NEAR_WEIGHT * two
            one, two = first_and_second(likelihood.code, y, trials, eta + FAR_NODE * away)
            first += FAR_WEIGHT * one
            second += FAR_WEIGHT * two
        if not (abs(first) < np.inf and second < np.inf):
            first, second = np.nan, np.nan
        rows[SCORE, i] = likelihood.weights[i] * first
        rows[CURVATURE, i] = likelihood.weights[i] * second
    scale = work.outer[SCALE]
    for a in range(d):
        slope = dot(rows, SCORE, work.columns, a)
        for b in range(q, d):
            slope -= scale * work.prior[a, b] * vectors[MEAN, b]
        vectors[GRADIENT, a] = slope
