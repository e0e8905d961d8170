"""What a model is worth whose mode was found (likelihood.py, where the formulas are): Laplace's approximation of first and second
order, importance sampling, BAS's formula and BIC. Entries for Python.
"""

import math

import numpy as np

from whichvars._kernels.densities import ROOT_2PI, third_and_fourth
from whichvars._kernels.evidence import BIC
from whichvars._kernels.jit import entry, kernel
from whichvars._kernels.likelihood import (
    BROKEN,
    CORRECTION,
    DIVERGING,
    DRAWN,
    ETA,
    EVIDENCE_AUTO,
    FIRST_ORDER,
    FOUND,
    FOURTH,
    IMPORTANCE,
    LEVERAGE,
    LOG_MARGINAL,
    LOST,
    MOST_SECOND_ORDER,
    POINTS_EACH,
    SAMPLED,
    SAMPLING_ERROR,
    SCRAMBLES,
    SCRATCH,
    SECOND_ORDER,
    SOBOL_DIMENSIONS,
    THETA,
    THIRD,
    TO_INFINITY,
    TRIAL,
    WIDTH,
    at_the_mode,
    find_mode,
    log_joint,
    prepare,
    solve_transposed,
)
from whichvars._kernels.linalg import dot

# correction of the second order above which importance sampling is used
DOUBTFUL = 0.25
POINTS = SCRAMBLES * POINTS_EACH * 2
DEGREES = 6  # of freedom of the t distribution that they are drawn from; as many as there are dimensions, if that is more


@kernel
def second_order_correction(likelihood, work):
    """log m₂ − log m₁ of the model whose mode was found. Column by column, so that the sums run along rows of memory."""
    d, rows, whitened, factor = work.ints[WIDTH], work.rows, work.whitened, work.factor
    columns, n = likelihood.columns, rows.shape[1]
    for i in range(n):
        third, fourth = third_and_fourth(likelihood.code, likelihood.y[i], likelihood.trials[i], rows[ETA, i])
        rows[THIRD, i] = likelihood.weights[i] * third
        rows[FOURTH, i] = likelihood.weights[i] * fourth
        rows[LEVERAGE, i] = 0.0
    for a in range(d):
        c = work.column[a]
        for i in range(n):
            whitened[a, i] = columns[c, i]
        for t in range(a):
            x = factor[a, t]
            for i in range(n):
                whitened[a, i] -= x * whitened[t, i]
        x = 1.0 / factor[a, a]
        for i in range(n):
            whitened[a, i] *= x
            rows[LEVERAGE, i] += whitened[a, i] * whitened[a, i]
    for i in range(n):
        rows[FOURTH, i] *= rows[LEVERAGE, i]
    quartic = dot(rows, FOURTH, rows, LEVERAGE)
    for i in range(n):
        rows[FOURTH, i] = rows[THIRD, i] * rows[LEVERAGE, i]
    single, triple = 0.0, 0.0
    for a in range(d):
        x = dot(rows, FOURTH, whitened, a)
        single += x * x
        for b in range(a + 1):
            for i in range(n):
                rows[SCRATCH, i] = rows[THIRD, i] * whitened[a, i] * whitened[b, i]
            for c in range(b + 1):
                x = dot(rows, SCRATCH, whitened, c)
                times = 6.0
                if a == c:
                    times = 1.0
                elif a == b or b == c:
                    times = 3.0
                triple += times * x * x
    return quartic / 8.0 + single / 8.0 + triple / 12.0


# --- importance sampling


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
def importance(likelihood, work, at_mode):
    r"""log m − log m₁ of the model whose mode was found, and its standard error, from how much the scrambles differ.

    With f the joint density divided by m₁, N the normal density of Laplace's approximation and t that of the points, all in units in
    which N is standard, m/m₁ = ∫ f is estimated by 1 + mean of (f − N)/t: the mean of N/t is known, and most of the variance is
    common to both. Where that is nearly 0 or below, the mean of f/t is taken. `at_mode` is the log of the joint density there.
    """
    d, vectors = work.ints[WIDTH], work.vectors
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
            log_ratio = constant - 0.5 * square + 0.5 * (degrees + d) * math.log1p(square / degrees)
            normal = math.exp(log_ratio)
            for side in range(2):  # the point and the one opposite: terms of odd order cancel
                sign = 1.0 if side == 0 else -1.0
                for a in range(d):
                    vectors[TRIAL, a] = vectors[THETA, a] + sign * vectors[DRAWN, a]
                joint = math.exp(log_joint(likelihood, work, TRIAL) - at_mode + 0.5 * square + log_ratio)
                if not joint < np.inf:  # nothing can be learnt from an overflow
                    joint = normal
                total += joint
                control += normal
                part += joint - normal
        squares += part * part
    total, control = total / POINTS, control / POINTS
    difference = total - control
    spread = max(squares / SCRAMBLES / (4 * POINTS_EACH * POINTS_EACH) - difference * difference, 0.0)
    estimate = 1.0 + difference
    if not estimate > 0.1 * total:
        estimate = total
    return math.log(estimate), math.sqrt(spread / (SCRAMBLES - 1)) / estimate


# --- all of it


@kernel
def log_evidence(likelihood, work):
    """log m of the model in ``members``, up to what all models have in common; more of it in ``answers``."""
    ints, answers = work.ints, work.answers
    answers[CORRECTION] = 0.0
    answers[SAMPLING_ERROR] = 0.0
    answers[LOG_MARGINAL] = -np.inf
    answers[FIRST_ORDER] = -np.inf
    half_log_prior = prepare(likelihood, work)
    if half_log_prior == -np.inf:
        return -np.inf
    value, how = find_mode(likelihood, work)
    if how == LOST:
        ints[BROKEN] += 1
        return -np.inf
    d, q = ints[WIDTH], likelihood.flat
    if not at_the_mode(likelihood):
        value = _log_evidence_at_maximum(likelihood, work, value, how)
        answers[FIRST_ORDER] = value
        answers[LOG_MARGINAL] = value
        return value
    at_mode = value
    value += half_log_prior
    for a in range(d):
        value -= math.log(work.factor[a, a])
    answers[FIRST_ORDER] = value
    evidence = likelihood.evidence
    sampled = evidence == IMPORTANCE
    if evidence in (SECOND_ORDER, EVIDENCE_AUTO):
        if d - q > MOST_SECOND_ORDER:
            sampled = True
        else:
            answers[CORRECTION] = second_order_correction(likelihood, work)
            sampled = evidence == EVIDENCE_AUTO and not abs(answers[CORRECTION]) <= DOUBTFUL
    if sampled:
        ints[SAMPLED] += 1
        answers[CORRECTION], answers[SAMPLING_ERROR] = importance(likelihood, work, at_mode)
    value += answers[CORRECTION]
    answers[LOG_MARGINAL] = value
    return value


@kernel
def _log_evidence_at_maximum(likelihood, work, value, how):
    """BIC, or BAS's formula for the g-prior. BIC needs the maximum of the likelihood alone; the other formula has no meaning where
    that is at infinity, and such models have no mass."""
    d, q = work.ints[WIDTH], likelihood.flat
    if how == TO_INFINITY:
        work.ints[DIVERGING] += 1
    if likelihood.slab == BIC:
        return value - 0.5 * (d - q) * likelihood.log_rows
    if how == TO_INFINITY:
        return -np.inf
    fit = 0.0
    for b in range(q, d):
        x = 0.0
        for a in range(b, d):
            x += work.factor[a, b] * work.vectors[THETA, a]
        fit += x * x
    for a in range(q):
        value -= math.log(work.factor[a, a])
    return value - 0.5 * (d - q) * math.log1p(likelihood.g) - 0.5 * fit / (1.0 + likelihood.g)


@entry
def fit_null_model(likelihood, work):
    """``_fit_null_model`` for Python."""
    return _fit_null_model(likelihood, work)


@kernel
def _fit_null_model(likelihood, work):
    """Fit the flat columns alone; says how it ended."""
    work.members[work.members.shape[0] - 1] = 0
    prepare(likelihood, work)
    _, how = find_mode(likelihood, work)
    return how


@entry
def evaluate_family_models(likelihood, work, members, start, out):
    """``_evaluate_family_models`` for Python."""
    _evaluate_family_models(likelihood, work, members, start, out)


@kernel
def _evaluate_family_models(likelihood, work, members, start, out):
    """Fill out (models, N_ANSWERS) for a list of models: model i is members[start[i]], …, members[start[i + 1] − 1]. There must be
    room for the largest."""
    for i in range(out.shape[0]):
        n = start[i + 1] - start[i]
        for m in range(n):
            work.members[m] = members[start[i] + m]
        work.members[work.members.shape[0] - 1] = n
        log_evidence(likelihood, work)
        for a in range(out.shape[1]):
            out[i, a] = work.answers[a]


@entry
def fit_family_models(likelihood, work, members, start, modes, covariances):
    """``_fit_family_models`` for Python."""
    return _fit_family_models(likelihood, work, members, start, modes, covariances)


@kernel
def _fit_family_models(likelihood, work, members, start, modes, covariances):
    """Fill in θ̂, (models, columns of J), and H⁻¹, (models, columns, columns), of a list of models that have all the same number of
    columns. Returns the first model that has none, or the number of models."""
    vectors, factor = work.vectors, work.factor
    for i in range(modes.shape[0]):
        n = start[i + 1] - start[i]
        for m in range(n):
            work.members[m] = members[start[i] + m]
        work.members[work.members.shape[0] - 1] = n
        if prepare(likelihood, work) == -np.inf:
            return i
        _, how = find_mode(likelihood, work)
        if how != FOUND:
            return i
        d = work.ints[WIDTH]
        for a in range(d):
            modes[i, a] = vectors[THETA, a]
        for a in range(d):
            for b in range(d):
                vectors[DRAWN, b] = 0.0
            for b in range(a, d):  # L⁻¹e_a, then L⁻ᵀ of it
                x = 1.0 if b == a else 0.0
                for t in range(a, b):
                    x -= factor[b, t] * vectors[DRAWN, t]
                vectors[DRAWN, b] = x / factor[b, b]
            solve_transposed(factor, vectors, DRAWN, d)
            for b in range(d):
                covariances[i, a, b] = vectors[DRAWN, b]
    return modes.shape[0]
