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

Where a parameter τ besides θ is unknown (outer.py: log r of a negative binomial distribution, log s of a Student response, or log g of a
mixture of g-priors), these are given τ, and m is their integral over it.

A factor (2π)^{q/2} for the q columns of F, the same for all models, is left out. EVIDENCE_AUTO is the second order, and importance
sampling where the second order's correction is above DOUBTFUL or the model has more than MOST_SECOND_ORDER columns.

A model's columns stand in ascending order, Newton's method starts at the null model's mode, and the points depend on the model's
key. So log m is one function of γ, to the last bit, whatever was computed before.

Kernels allocate nothing: a model is prepared, fitted and evaluated in a ``FitWork``.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.densities import STUDENT, log_density
from whichvars._kernels.evidence import BIC, INDEPENDENT, SMALLEST_TOLERANCE
from whichvars._kernels.jit import by_reference, inlined, kernel
from whichvars._kernels.linalg import dot
from whichvars._kernels.products.stored import NOT_STORED, Stored, fill_column

# Evidence
EVIDENCE_AUTO, LAPLACE, SECOND_ORDER, IMPORTANCE, BAS = range(5)

# What is unknown besides θ
NOTHING, DISPERSION, SHRINKAGE, NOISE_SCALE = range(4)
# most values of it at which a model is fitted, and what is noted of each: the value, the log of the integrand, log m − log m₁ and
# its standard error
MOST_NODES = 400
NODE_VALUE, NODE_LOG, NODE_CORRECTION, NODE_ERROR = range(4)

# points of importance sampling: SCRAMBLES independent sets of POINTS_EACH points and as many opposite ones
SCRAMBLES, POINTS_EACH = 8, 4
# dimensions of the points that come from Sobol's sequence; further ones are random numbers
SOBOL_DIMENSIONS = 64
# most columns of a model for which the second order is computed
MOST_SECOND_ORDER = 20

# places in FitWork.ints
WIDTH = 0  # columns of J: flat ones, then the model's
STEPS = 1  # of Newton's method, in all fits
FITS = 2
BROKEN = 3  # fits lost to rounding
DIVERGING = 4  # fits without a finite maximum of the likelihood
SAMPLED = 5  # models for which importance sampling was used
NODES = 6  # values of the outer parameter at which the last model was fitted
N_FIT_INTS = 7

# places in FitWork.outer
OUTER = 0  # the outer parameter
SCALE = 1  # by which P is multiplied
STEP_LENGTH = 2  # between two values of the outer parameter
N_OUTER = 3

# rows of FitWork.vectors
THETA, TRIAL, GRADIENT, STEP, DRAWN, CENTRE, LENGTH, MEAN = range(8)
# rows of FitWork.rows
ETA, SCORE, CURVATURE, THIRD, FOURTH, LEVERAGE, SCRATCH, TRIALS, OFFSET = range(9)

# what is returned of each model
LOG_MARGINAL, FIRST_ORDER, CORRECTION, SAMPLING_ERROR = range(4)
N_ANSWERS = 4


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
    flat_columns: np.ndarray  # (q, n)
    # (P, n): times √w, in the memory of ``Design.columns``; or (0, 0) if they are stored, as in ``Design``
    candidates: np.ndarray
    stored: Stored
    root: np.ndarray  # (n,) √w
    used: np.ndarray  # (n,) int64: the rows of stored columns that are used, or (0,) if all are
    start: np.ndarray  # (q,) δ at the null model's mode
    offsets: np.ndarray  # (p + 1,) int64: variable j owns candidates offsets[j] … offsets[j + 1] − 1
    keys: np.ndarray  # (p,) uint64
    ridge: np.ndarray  # (P,) 1/g_j for the independent slab
    # for slabs that need full rank: the square root of the metric in which candidates are orthogonal to the flat columns, which is the
    # null model's information (g-prior) or the weights (BIC), (n,); and an orthonormal basis of the flat columns in it, (q, n)
    metric: np.ndarray
    flat_basis: np.ndarray
    g: float
    log_rows: float  # log n
    # (POINTS_EACH, SOBOL_DIMENSIONS) uint32: points without scrambling, as binary fractions
    sobol: np.ndarray
    # what is unknown besides θ, and a value of it to begin with; trials and offset are those of this value
    outer: int
    outer_start: float
    outer_mean: float  # of the normal prior of log r or log s
    outer_sd: float
    # (distinct counts, 2), where r is unknown: the count, and the weights of its rows together
    levels: np.ndarray
    # (values, 4), where g is unknown: log g at equal distances, log(π(g) g), log(1 + g) and 1/(1 + g)
    shrinkage: np.ndarray
    # (2, n): W and W z of a surrogate (problem/surrogate.py), at whose mode Newton's method starts; or (0, 0)
    reference: np.ndarray = np.zeros((0, 0))


@by_reference
class FitWork(NamedTuple):
    """Memory for one fit, with room for `capacity` columns of J."""

    ints: np.ndarray  # (N_FIT_INTS,) int64
    members: np.ndarray  # (capacity,) int64: the model's variables, ascending
    column: np.ndarray  # (capacity,) int64: those of J among all, the flat ones first
    columns: np.ndarray  # (capacity, n): Jᵀ
    spanning: np.ndarray  # (capacity or 0, n): see Likelihood.metric
    whole: np.ndarray  # (1, N or 0): a stored column with the rows that are left out
    vectors: np.ndarray  # (8, capacity)
    factor: np.ndarray  # (capacity, capacity): L, with its diagonal
    prior: np.ndarray  # (capacity, capacity): P, by place in J; rows and columns of the flat part are 0
    rows: np.ndarray  # (9, n)
    whitened: np.ndarray  # (rows, n): L⁻¹Jᵀ, for models that are small enough for the second order
    answers: np.ndarray  # (N_ANSWERS,) of the last model
    outer: np.ndarray  # (N_OUTER,)
    nodes: np.ndarray  # (MOST_NODES, 4), or (1, 4) where nothing but θ is unknown


def new_fit_work(likelihood: Likelihood, capacity: int) -> FitWork:
    """Memory for models of up to `capacity` columns."""
    width, n = likelihood.flat + capacity, len(likelihood.y)
    spans = 0 if likelihood.slab == INDEPENDENT else width
    return FitWork(
        ints=np.zeros(N_FIT_INTS, np.int64),
        members=np.zeros(width + 1, np.int64),
        column=np.zeros(width, np.int64),
        columns=np.zeros((width, n)),
        spanning=np.zeros((spans, n)),
        whole=np.zeros((1, len(likelihood.stored.basis))),
        vectors=np.zeros((8, width)),
        factor=np.zeros((width, width)),
        prior=np.zeros((width, width)),
        rows=np.zeros((9, n)),
        whitened=np.zeros((likelihood.flat + min(capacity, MOST_SECOND_ORDER), n)),
        answers=np.zeros(N_ANSWERS),
        outer=np.array([likelihood.outer_start, 1.0, 0.0]),
        nodes=np.zeros((1 if likelihood.outer == NOTHING else MOST_NODES, 4)),
    )


@kernel
def prepare(likelihood, work):
    """Make J and P of the model of which the first n entries of ``members`` say the variables, in any order, n at its end. Returns
    ½ log|P|, −inf where the slab needs full rank and the model has not got it. Where g is unknown, P is that of g = 1."""
    for i in range(work.rows.shape[1]):
        work.rows[TRIALS, i] = likelihood.trials[i]
        work.rows[OFFSET, i] = likelihood.offset[i]
    work.outer[OUTER] = likelihood.outer_start
    work.outer[SCALE] = 1.0
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
    _fetch_columns(likelihood, work)
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
def _fetch_columns(likelihood, work):
    """Copy the columns of J to where they are adjacent."""
    q, d, n = likelihood.flat, work.ints[WIDTH], work.rows.shape[1]
    columns, stored, root = work.columns, likelihood.stored, likelihood.root
    for a in range(q):
        for i in range(n):
            columns[a, i] = likelihood.flat_columns[a, i]
    for a in range(q, d):
        c = work.column[a] - q
        if stored.code == NOT_STORED:
            for i in range(n):
                columns[a, i] = likelihood.candidates[c, i] / root[i]
            continue
        fill_column(stored, c, work.whole, 0)
        for i in range(n):
            row = likelihood.used[i] if likelihood.used.shape[0] > 0 else i
            columns[a, i] = work.whole[0, row] / root[i]


@kernel
def _fetch_spanning(likelihood, work):
    """The candidates of J orthogonal to the flat columns, in the metric of the slab and of unit length; the lengths they had are left
    in the row LENGTH of ``vectors``."""
    q, d, n = likelihood.flat, work.ints[WIDTH], work.rows.shape[1]
    spanning, basis = work.spanning, likelihood.flat_basis
    for a in range(q, d):
        for i in range(n):
            spanning[a, i] = work.columns[a, i] * likelihood.metric[i]
        for _ in range(2):  # twice, for accuracy
            for b in range(q):
                x = dot(spanning, a, basis, b)
                for i in range(n):
                    spanning[a, i] -= x * basis[b, i]
        length = math.sqrt(dot(spanning, a, spanning, a))
        work.vectors[LENGTH, a] = length
        if length > 0.0:
            for i in range(n):
                spanning[a, i] /= length


@kernel
def _prepare_spanning(likelihood, work):
    """The same for slabs that need full rank; P is that of the g-prior, and 0 where the likelihood is maximised."""
    q, d = likelihood.flat, work.ints[WIDTH]
    factor, prior = work.factor, work.prior
    _fetch_spanning(likelihood, work)
    half = 0.0
    for a in range(q, d):
        for b in range(q, a + 1):
            prior[a, b] = dot(work.spanning, a, work.spanning, b)
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
                half += 0.5 * math.log(x) + math.log(work.vectors[LENGTH, a])
    for a in range(q, d):
        for b in range(q, a + 1):
            x = 0.0
            if at_the_mode(likelihood):
                lengths = work.vectors[LENGTH, a] * work.vectors[LENGTH, b]
                x = prior[a, b] * lengths / likelihood.g
            prior[a, b] = x
            prior[b, a] = x
    if not at_the_mode(likelihood):
        return 0.0
    return half - 0.5 * (d - q) * math.log(likelihood.g)


@inlined
def at_the_mode(likelihood):
    """Whether the posterior is expanded at its mode, not the likelihood at its maximum."""
    return likelihood.evidence != BAS and likelihood.slab != BIC


@inlined
def unit_of_predictor(likelihood, work):
    """The unit of η: the scale s of a Student response, and 1 of all others."""
    return math.sqrt(work.rows[TRIALS, 0] / likelihood.y[0]) if likelihood.code == STUDENT else 1.0


@kernel
def fill_predictor(likelihood, work, which):
    """η in the row ETA, at the θ in row `which` of ``vectors``."""
    rows, columns = work.rows, work.columns
    n = rows.shape[1]
    for i in range(n):
        rows[ETA, i] = rows[OFFSET, i]
    for a in range(work.ints[WIDTH]):
        x = work.vectors[which, a]
        for i in range(n):
            rows[ETA, i] += x * columns[a, i]


@kernel
def log_joint(likelihood, work, which):
    """log p(y | θ) − ½ βᵀPβ, at the θ in row `which` of ``vectors``; fills the row ETA."""
    rows = work.rows
    fill_predictor(likelihood, work, which)
    value = 0.0
    for i in range(rows.shape[1]):
        value += likelihood.weights[i] * log_density(
            likelihood.code, likelihood.y[i], rows[TRIALS, i], rows[ETA, i]
        )
    return less_penalty(likelihood, work, which, value)


@kernel
def less_penalty(likelihood, work, which, value):
    """`value` − ½ βᵀPβ, at the θ in row `which` of ``vectors``."""
    d, q, theta = work.ints[WIDTH], likelihood.flat, work.vectors
    scale = work.outer[SCALE]
    for a in range(q, d):
        x = 0.0
        for b in range(q, d):
            x += work.prior[a, b] * theta[which, b]
        value -= 0.5 * scale * theta[which, a] * x
    return value
