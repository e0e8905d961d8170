r"""Marginal likelihoods of models whose response is not Gaussian.

Given the coefficients the rows are independent, with weights w_i on their log likelihoods and

.. math:: \eta = o + F\delta + X_\gamma\beta_\gamma, \qquad \log p(y \mid \theta) = \sum_i w_i\,\ell(y_i, \eta_i),

where o is the offset, F are the intercept and the always-included columns (flat prior on δ), and β_γ ~ N(0, P⁻¹). With J = [F, X_γ],
θ̂ the posterior mode, W_i = −w_i ℓ''_i, H = JᵀWJ + P = LLᵀ and v_i = L⁻¹J_i, h_i = ‖v_i‖², all at θ̂:

    Laplace        log m₁ = log p(y | θ̂) − ½ β̂ᵀPβ̂ + ½ log|P| − ½ log|H|
    second order   log m₂ = log m₁ + ⅛ Σ w ℓ'''' h² + ⅛ ‖Σ w ℓ''' h v‖² + ¹⁄₁₂ Σ_abc (Σ_i w_i ℓ'''_i v_ia v_ib v_ic)²
    importance     by the mean of p(y | θ) p(θ) / t(θ; θ̂, H⁻¹) over POINTS fixed points, with the normal density as control variate
    BAS            at the maximum of the likelihood, with H = JᵀWJ: log p(y | θ̂) − ½ log|FᵀWF| − ½ k log(1 + g) − ½ Q/(1 + g),
                   Q = β̂ᵀ(H/FᵀWF)β̂
    BIC            at the maximum of the likelihood: log p(y | θ̂) − ½ k log n

A factor (2π)^{q/2} for the q columns of F, the same for all models, is left out. EVIDENCE_AUTO is the second order, and importance
sampling where the second order's correction is above DOUBTFUL or the model has more than MOST_SECOND_ORDER columns.

A model's columns stand in ascending order, Newton's method starts at the null model's mode, and the points depend on the model's
key. So log m is one function of γ, to the last bit, whatever was computed before.

Kernels allocate nothing: a model is prepared, fitted and evaluated in a ``FitWork``.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.densities import first_and_second, largest_second, log_density
from whichvars._kernels.evidence import G_PRIOR, INDEPENDENT, SMALLEST_TOLERANCE
from whichvars._kernels.jit import by_reference, inlined, kernel
from whichvars._kernels.linalg import dot

# Evidence
EVIDENCE_AUTO, LAPLACE, SECOND_ORDER, IMPORTANCE, BAS = range(5)

# points of importance sampling: SCRAMBLES independent sets of POINTS_EACH points and as many opposite ones
SCRAMBLES, POINTS_EACH = 8, 16
# dimensions of the points that come from Sobol's sequence; further ones are random numbers
SOBOL_DIMENSIONS = 64
# most columns of a model for which the second order is computed
MOST_SECOND_ORDER = 20

# Newton's method: it ends when gᵀH⁻¹g is at most CLOSE
CLOSE = 1e-16
MOST_STEPS, MOST_HALVINGS = 500, 40
# of log p(y | θ): what rounding may take away from it in a step
SLACK = 1e-12
# change of every η up to which a step is made without looking at the density; |η| beyond which nothing starts
SMALL_MOVE, FURTHEST_START = 0.25, 300.0
# Without a prior the maximum may be at infinity: where gᵀH⁻¹g is below ALMOST, a step still changes some η by more than STILL_MOVING
ALMOST, STILL_MOVING = 1e-9, 0.02

# places in FitWork.ints
WIDTH = 0  # columns of J: flat ones, then the model's
STEPS = 1  # of Newton's method, in all fits
FITS = 2
BROKEN = 3  # fits lost to rounding
DIVERGING = 4  # fits without a finite maximum of the likelihood
SAMPLED = 5  # models for which importance sampling was used
N_FIT_INTS = 6

# rows of FitWork.vectors
THETA, TRIAL, GRADIENT, STEP, DRAWN = range(5)
# rows of FitWork.rows
ETA, SCORE, CURVATURE, THIRD, FOURTH, LEVERAGE, SCRATCH = range(7)

# what is returned of each model
LOG_MARGINAL, FIRST_ORDER, CORRECTION, SAMPLING_ERROR = range(4)
N_ANSWERS = 4

# how Newton's method ended
FOUND, LOST, TO_INFINITY = range(3)


@by_reference
class Likelihood(NamedTuple):
    """What is fixed: the data, the family and the slab. n rows, q flat columns, P columns of p variables."""

    code: int  # family
    evidence: int
    slab: int  # code, see evidence.py
    flat: int  # q
    y: np.ndarray  # (n,)
    trials: np.ndarray  # (n,)
    weights: np.ndarray  # (n,)
    offset: np.ndarray  # (n,)
    columns: np.ndarray  # (q + P, n): the flat columns, then the candidates
    start: np.ndarray  # (q,) δ at the null model's mode
    offsets: np.ndarray  # (p + 1,) int64: variable j owns candidates offsets[j] … offsets[j + 1] − 1
    keys: np.ndarray  # (p,) uint64
    ridge: np.ndarray  # (P,) 1/g_j for the independent slab
    # for slabs that need full rank: columns of unit length, (P, n), whose products are those of the candidates, orthogonal to the
    # flat ones, in the metric of the null model's information (g-prior) or of the weights; and the lengths they had, (P,)
    spanning: np.ndarray
    lengths: np.ndarray
    g: float
    log_rows: float  # log n
    # (POINTS_EACH, SOBOL_DIMENSIONS) uint32: points without scrambling, as binary fractions
    sobol: np.ndarray
    # (2, n): W and W z of a surrogate (problem/surrogate.py), at whose mode Newton's method starts; or (0, 0)
    reference: np.ndarray = np.zeros((0, 0))


@by_reference
class FitWork(NamedTuple):
    """Memory for one fit, with room for `capacity` columns of J."""

    ints: np.ndarray  # (N_FIT_INTS,) int64
    members: np.ndarray  # (capacity,) int64: the model's variables, ascending
    column: np.ndarray  # (capacity,) int64: rows of Likelihood.columns
    vectors: np.ndarray  # (5, capacity)
    factor: np.ndarray  # (capacity, capacity): L, with its diagonal
    prior: np.ndarray  # (capacity, capacity): P, by place in J; rows and columns of the flat part are 0
    rows: np.ndarray  # (7, n)
    whitened: np.ndarray  # (rows, n): L⁻¹Jᵀ, for models that are small enough for the second order
    answers: np.ndarray  # (N_ANSWERS,) of the last model


def new_fit_work(likelihood: Likelihood, capacity: int) -> FitWork:
    """Memory for models of up to `capacity` columns."""
    width, n = likelihood.flat + capacity, len(likelihood.y)
    return FitWork(
        ints=np.zeros(N_FIT_INTS, np.int64),
        members=np.zeros(width + 1, np.int64),
        column=np.zeros(width, np.int64),
        vectors=np.zeros((5, width)),
        factor=np.zeros((width, width)),
        prior=np.zeros((width, width)),
        rows=np.zeros((7, n)),
        whitened=np.zeros((likelihood.flat + min(capacity, MOST_SECOND_ORDER), n)),
        answers=np.zeros(N_ANSWERS),
    )


@kernel
def prepare(likelihood, work):
    """Make J and P of the model of which the first n entries of ``members`` say the variables, in any order, n at its end. Returns
    ½ log|P|, −inf where the slab needs full rank and the model has not got it."""
    members, column = work.members, work.column
    n = members[members.shape[0] - 1]
    for i in range(1, n):
        j = members[i]
        place = i
        while place > 0 and members[place - 1] > j:
            members[place] = members[place - 1]
            place -= 1
        members[place] = j
    q = likelihood.flat
    for a in range(q):
        column[a] = a
    d = q
    for i in range(n):
        j = members[i]
        for c in range(likelihood.offsets[j], likelihood.offsets[j + 1]):
            column[d] = q + c
            d += 1
    work.ints[WIDTH] = d
    prior = work.prior
    for a in range(d):
        for b in range(a + 1):
            prior[a, b] = 0.0
            prior[b, a] = 0.0
    if likelihood.slab == INDEPENDENT:
        half = 0.0
        for a in range(q, d):
            ridge = likelihood.ridge[column[a] - q]
            prior[a, a] = ridge
            half += 0.5 * math.log(ridge)
        return half
    return _prepare_spanning(likelihood, work)


@kernel
def _prepare_spanning(likelihood, work):
    """The same for slabs that need full rank; P is that of the g-prior, and 0 where the likelihood is maximised."""
    q, d = likelihood.flat, work.ints[WIDTH]
    column, factor, prior = work.column, work.factor, work.prior
    half = 0.0
    for a in range(q, d):
        for b in range(q, a + 1):
            prior[a, b] = dot(likelihood.spanning, column[a] - q, likelihood.spanning, column[b] - q)
    for a in range(q, d):
        for b in range(q, a + 1):
            x = prior[a, b]
            for t in range(q, b):
                x -= factor[a, t] * factor[b, t]
            if b < a:
                factor[a, b] = x / factor[b, b]
            else:
                if not x > SMALLEST_TOLERANCE:
                    return -np.inf
                factor[a, a] = math.sqrt(x)
                half += 0.5 * math.log(x) + math.log(likelihood.lengths[column[a] - q])
    for a in range(q, d):
        for b in range(q, a + 1):
            x = 0.0
            if at_the_mode(likelihood):
                lengths = likelihood.lengths[column[a] - q] * likelihood.lengths[column[b] - q]
                x = prior[a, b] * lengths / likelihood.g
            prior[a, b] = x
            prior[b, a] = x
    if not at_the_mode(likelihood):
        return 0.0
    return half - 0.5 * (d - q) * math.log(likelihood.g)


@inlined
def at_the_mode(likelihood):
    """Whether the posterior is expanded at its mode, not the likelihood at its maximum."""
    return likelihood.slab == INDEPENDENT or (likelihood.slab == G_PRIOR and likelihood.evidence != BAS)


@kernel
def _fill_predictor(likelihood, work, which):
    """η in the row ETA, at the θ in row `which` of ``vectors``."""
    rows, columns = work.rows, likelihood.columns
    n = rows.shape[1]
    for i in range(n):
        rows[ETA, i] = likelihood.offset[i]
    for a in range(work.ints[WIDTH]):
        c, x = work.column[a], work.vectors[which, a]
        for i in range(n):
            rows[ETA, i] += x * columns[c, i]


@kernel
def log_joint(likelihood, work, which):
    """log p(y | θ) − ½ βᵀPβ, at the θ in row `which` of ``vectors``; fills the row ETA."""
    d, q = work.ints[WIDTH], likelihood.flat
    rows, theta = work.rows, work.vectors
    _fill_predictor(likelihood, work, which)
    value = 0.0
    for i in range(rows.shape[1]):
        value += likelihood.weights[i] * log_density(
            likelihood.code, likelihood.y[i], likelihood.trials[i], rows[ETA, i]
        )
    for a in range(q, d):
        x = 0.0
        for b in range(q, d):
            x += work.prior[a, b] * theta[which, b]
        value -= 0.5 * theta[which, a] * x
    return value


@kernel
def _expand(likelihood, work, bounded):
    """Gradient and factor of H at the current θ and η; with `bounded`, of what H would be if every row had the largest curvature that
    it can have (counts: here or at its own mean), and made positive definite. False where that fails."""
    d, q = work.ints[WIDTH], likelihood.flat
    rows, vectors, columns, column = work.rows, work.vectors, likelihood.columns, work.column
    for i in range(rows.shape[1]):
        first, second = first_and_second(likelihood.code, likelihood.y[i], likelihood.trials[i], rows[ETA, i])
        if bounded:
            second = largest_second(likelihood.code, likelihood.y[i], likelihood.trials[i], second)
        rows[SCORE, i] = likelihood.weights[i] * first
        rows[CURVATURE, i] = likelihood.weights[i] * second
    for a in range(d):
        c = column[a]
        slope = dot(rows, SCORE, columns, c)
        for b in range(q, d):
            slope -= work.prior[a, b] * vectors[THETA, b]
        vectors[GRADIENT, a] = slope
    return _factor(likelihood, work, bounded)


@kernel
def _factor(likelihood, work, bounded):
    """The factor of H with the curvatures of the rows; False where H is not positive definite."""
    rows, factor, columns, column = work.rows, work.factor, likelihood.columns, work.column
    d, n = work.ints[WIDTH], rows.shape[1]
    for a in range(d):
        c = column[a]
        for i in range(n):
            rows[SCRATCH, i] = rows[CURVATURE, i] * columns[c, i]
        for b in range(a + 1):
            factor[a, b] = dot(rows, SCRATCH, columns, column[b]) + work.prior[a, b]
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
def _newton_step(work):
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
def _largest_move(likelihood, work):
    """The largest change of an η by the step."""
    rows, columns = work.rows, likelihood.columns
    for i in range(rows.shape[1]):
        rows[SCRATCH, i] = 0.0
    for a in range(work.ints[WIDTH]):
        c, x = work.column[a], work.vectors[STEP, a]
        for i in range(rows.shape[1]):
            rows[SCRATCH, i] += x * columns[c, i]
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
            vectors[GRADIENT, a] = dot(reference, 1, likelihood.columns, work.column[a])
        if _factor(likelihood, work, False):
            _newton_step(work)
            for a in range(d):
                vectors[THETA, a] = vectors[STEP, a]
            _fill_predictor(likelihood, work, THETA)
            furthest = 0.0
            for i in range(rows.shape[1]):
                furthest = max(furthest, abs(rows[ETA, i]))
            if furthest < FURTHEST_START:
                return
    for a in range(d):
        vectors[THETA, a] = likelihood.start[a] if a < likelihood.flat else 0.0
    _fill_predictor(likelihood, work, THETA)


@kernel
def _make_small_step(likelihood, work):
    """Make the step if it changes no η by more than SMALL_MOVE; says whether it was made. The curvature of no row changes by much
    then, so that a whole step of Newton's method is safe, and no log density need be computed."""
    if not _largest_move(likelihood, work) <= SMALL_MOVE:
        return False
    rows, vectors = work.rows, work.vectors
    for a in range(work.ints[WIDTH]):
        vectors[THETA, a] += vectors[STEP, a]
    for i in range(rows.shape[1]):
        rows[ETA, i] += rows[SCRATCH, i]
    return True


@kernel
def find_mode(likelihood, work):
    """Newton's method with step halving for the model that was prepared. Returns the log of the joint density at the mode, and how
    it ended; θ, η, the derivatives and the factor of H are then those of the mode.

    Where H is singular to rounding, as all rows that matter are far from where they have any curvature (huge offsets), a step is
    made with an upper bound of the curvature instead, and lengthened as long as that helps.
    """
    ints = work.ints
    _start(likelihood, work)
    value, known = 0.0, False  # the log of the joint density, and whether it is that of the current θ
    ints[FITS] += 1
    decrement = np.inf
    for _ in range(MOST_STEPS):
        bounded = not _expand(likelihood, work, False)
        if bounded:
            if decrement < 1e-6 and not at_the_mode(likelihood):
                return log_joint(likelihood, work, THETA), TO_INFINITY  # where H vanishes at last
            if not _expand(likelihood, work, True):
                return value, LOST
        decrement = _newton_step(work)
        flat = decrement < ALMOST and not at_the_mode(likelihood)
        if flat and _largest_move(likelihood, work) > STILL_MOVING:
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
            if not _expand(likelihood, work, True):
                return value, LOST
            decrement = _newton_step(work)
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
