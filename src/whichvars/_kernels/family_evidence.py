"""What a model is worth whose mode was found (likelihood.py, where the formulas are): Laplace's approximation of first and second
order, importance sampling, BAS's formula and BIC. Entries for Python.

Where an outer parameter τ is unknown (outer.py), log m(τ) + log π(τ) is integrated by the trapezoid rule, whose error falls
exponentially for such integrands. Nodes begin at a mode, for log r and log s one standard deviation of a normal density as sharp as the peak
apart, and go on to both sides until the integrand is below e^−NEGLIGIBLE of its maximum. Where every second node alone gives an integral
that differs by more than ROUGH, nodes are added half-way between. All of this depends on γ alone.
"""

import math

import numpy as np

from whichvars._kernels.densities import third_and_fourth
from whichvars._kernels.evidence import BIC, EMPIRICAL_BAYES, INDEPENDENT, MIXTURE
from whichvars._kernels.importance import importance
from whichvars._kernels.jit import entry, kernel, routine
from whichvars._kernels.likelihood import (
    BROKEN,
    CENTRE,
    CORRECTION,
    DISPERSION,
    DIVERGING,
    DRAWN,
    ETA,
    EVIDENCE_AUTO,
    FIRST_ORDER,
    FOURTH,
    IMPORTANCE,
    LEVERAGE,
    LOG_MARGINAL,
    MOST_NODES,
    MOST_SECOND_ORDER,
    NODE_CORRECTION,
    NODE_ERROR,
    NODE_LOG,
    NODE_VALUE,
    NODES,
    NOISE_SCALE,
    NOTHING,
    OUTER,
    SAMPLED,
    SAMPLING_ERROR,
    SCRATCH,
    SECOND_ORDER,
    SHRINKAGE,
    STEP_LENGTH,
    THETA,
    THIRD,
    TRIALS,
    WIDTH,
    at_the_mode,
    prepare,
)
from whichvars._kernels.linalg import dot
from whichvars._kernels.newton import FOUND, LOST, TO_INFINITY, climb, find_mode, solve_transposed
from whichvars._kernels.outer import NEAR, VERY_NEAR, find_dispersion, outer_inside, set_outer

# correction of the second order above which importance sampling is used
DOUBTFUL = 0.25
# The trapezoid rule over an outer parameter: the longest step for log r and log s; the step for log g; where it ends; when and how often the
# step is halved
LONGEST, STEP_OF_G = 1.0, 0.8
NEGLIGIBLE = 10.0
ROUGH, MOST_REFINEMENTS = 0.05, 3
# where τ is integrated out, the correction c of the second order at one value is c/(1 + (c/LARGEST_CORRECTION)⁴)^¼
LARGEST_CORRECTION = 1.0
# nodes of a smaller share say nothing of coefficients
SMALLEST_SHARE = 1e-7
# whether a model's evidence is sampled
UNDECIDED, BY_FORMULA, BY_POINTS = range(3)


@kernel
def second_order_correction(likelihood, work):
    """log m₂ − log m₁ of the model whose mode was found. Column by column, so that the sums run along rows of memory."""
    d, rows, whitened, factor = work.ints[WIDTH], work.rows, work.whitened, work.factor
    columns, n = work.columns, rows.shape[1]
    for i in range(n):
        third, fourth = third_and_fourth(likelihood.code, likelihood.y[i], rows[TRIALS, i], rows[ETA, i])
        rows[THIRD, i] = likelihood.weights[i] * third
        rows[FOURTH, i] = likelihood.weights[i] * fourth
        rows[LEVERAGE, i] = 0.0
    for a in range(d):
        for i in range(n):
            whitened[a, i] = columns[a, i]
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


# --- all of it


@routine
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
    if _is_averaged(likelihood, work):
        return _integrate(likelihood, work, half_log_prior)
    if likelihood.outer in (DISPERSION, NOISE_SCALE):
        value, how = find_dispersion(likelihood, work, VERY_NEAR)
    else:
        value, how = find_mode(likelihood, work)
    if how == LOST:
        ints[BROKEN] += 1
        return -np.inf
    if not at_the_mode(likelihood):
        value = _log_evidence_at_maximum(likelihood, work, value, how)
        answers[FIRST_ORDER] = value
        answers[LOG_MARGINAL] = value
        return value
    value = _evidence_here(likelihood, work, value, half_log_prior, UNDECIDED)
    answers[LOG_MARGINAL] = value
    return value


@kernel
def _is_averaged(likelihood, work):
    """Whether the evidence of the model is an average over an outer parameter. The null model has no g."""
    if not at_the_mode(likelihood):
        return False
    nothing = likelihood.outer == SHRINKAGE and work.ints[WIDTH] == likelihood.flat
    return likelihood.outer != NOTHING and not nothing


@kernel
def _evidence_here(likelihood, work, value, half_log_prior, sampling):
    """log m, given the outer parameter where there is one, of a model whose mode was found; `value` is the log of the joint density
    there. FIRST_ORDER, CORRECTION and SAMPLING_ERROR are noted."""
    d, q, answers = work.ints[WIDTH], likelihood.flat, work.answers
    at_mode = value
    value += half_log_prior
    for a in range(d):
        value -= math.log(work.factor[a, a])
    answers[FIRST_ORDER] = value
    answers[CORRECTION] = 0.0
    answers[SAMPLING_ERROR] = 0.0
    evidence = likelihood.evidence
    sampled = evidence == IMPORTANCE
    if evidence in (SECOND_ORDER, EVIDENCE_AUTO):
        if d - q > MOST_SECOND_ORDER:
            sampled = True
        elif sampling != BY_POINTS:
            answers[CORRECTION] = second_order_correction(likelihood, work)
            sampled = evidence == EVIDENCE_AUTO and not abs(answers[CORRECTION]) <= DOUBTFUL
    if sampling != UNDECIDED:
        sampled = sampling == BY_POINTS
        # far from the mode in τ it can be large without bound, and must not make such values seem probable
        ratio = answers[CORRECTION] / LARGEST_CORRECTION
        answers[CORRECTION] /= math.sqrt(math.sqrt(1.0 + ratio * ratio * ratio * ratio))
    if sampled:
        if sampling == UNDECIDED:
            work.ints[SAMPLED] += 1
        answers[CORRECTION], answers[SAMPLING_ERROR] = importance(likelihood, work, at_mode)
    return value + answers[CORRECTION]


# --- the integral over an outer parameter


@kernel
def _add_node(likelihood, work, tau, half_log_prior, sampling):
    """Fit the model at one value of the outer parameter, from the current θ, and note the log of the integrand there, which is
    returned; −inf where the fit is lost."""
    term = set_outer(likelihood, work, tau)
    value, how = climb(likelihood, work)
    log = -np.inf
    if how == FOUND:
        log = term + _evidence_here(likelihood, work, value, half_log_prior, sampling)
        if not log < np.inf:
            log = -np.inf
    node = work.ints[NODES]
    work.nodes[node, NODE_VALUE] = tau
    work.nodes[node, NODE_LOG] = log
    work.nodes[node, NODE_CORRECTION] = work.answers[CORRECTION]
    work.nodes[node, NODE_ERROR] = work.answers[SAMPLING_ERROR]
    work.ints[NODES] = node + 1
    return log


@kernel
def _return_to_centre(work):
    for a in range(work.ints[WIDTH]):
        work.vectors[THETA, a] = work.vectors[CENTRE, a]


@kernel
def _integrate(likelihood, work, half_log_prior):
    """log ∫ m(τ) π(τ) dτ. All values of τ are sampled, or none: with EVIDENCE_AUTO if the correction of the second order, averaged over
    τ, is above DOUBTFUL."""
    evidence, answers = likelihood.evidence, work.answers
    large = work.ints[WIDTH] - likelihood.flat > MOST_SECOND_ORDER
    sampled = evidence == IMPORTANCE or (large and evidence in (SECOND_ORDER, EVIDENCE_AUTO))
    value = _trapezoid(likelihood, work, half_log_prior, BY_POINTS if sampled else BY_FORMULA)
    if evidence == EVIDENCE_AUTO and not sampled and not abs(answers[CORRECTION]) <= DOUBTFUL:
        sampled = True
        value = _trapezoid(likelihood, work, half_log_prior, BY_POINTS)
    if sampled:
        work.ints[SAMPLED] += 1
    return value


@routine
def _trapezoid(likelihood, work, half_log_prior, sampling):
    """The integral; notes the answers, and leaves the nodes in ``nodes``."""
    ints, outer, nodes, answers = work.ints, work.outer, work.nodes, work.answers
    ints[NODES] = 0
    if likelihood.outer in (DISPERSION, NOISE_SCALE):
        outer[OUTER] = likelihood.outer_start
        _, how = find_dispersion(likelihood, work, NEAR)
        step = min(outer[STEP_LENGTH], LONGEST)
    else:
        set_outer(likelihood, work, likelihood.outer_start)
        _, how = find_mode(likelihood, work)
        step = STEP_OF_G
        if likelihood.slab == INDEPENDENT:  # g has the values of the grid alone
            step = likelihood.shrinkage[1, 0] - likelihood.shrinkage[0, 0]
    if how == LOST:
        ints[BROKEN] += 1
        return -np.inf
    centre = outer[OUTER]
    for a in range(ints[WIDTH]):
        work.vectors[CENTRE, a] = work.vectors[THETA, a]
    top = _add_node(likelihood, work, centre, half_log_prior, sampling)
    right, left = 0, 0
    for side in range(2):
        _return_to_centre(work)
        while ints[NODES] < MOST_NODES // 2:
            tau = centre + (right + 1) * step if side == 0 else centre - (left + 1) * step
            if not outer_inside(likelihood, tau):
                break
            log = _add_node(likelihood, work, tau, half_log_prior, sampling)
            top = max(top, log)
            if side == 0:
                right += 1
            else:
                left += 1
            if not log >= top - NEGLIGIBLE:
                break
    if top == -np.inf:
        ints[BROKEN] += 1
        return -np.inf
    some, total = 0.0, 0.0
    for i in range(ints[NODES]):
        x = math.exp(nodes[i, NODE_LOG] - top)
        total += x
        place = i if i <= right else i - right
        if place % 2 == 0:
            some += x
    intervals = right + left
    lowest = centre - left * step
    for _ in range(MOST_REFINEMENTS):
        enough = some > 0.0 and abs(math.log(total / (2.0 * some))) <= ROUGH
        enough = enough or (likelihood.outer == SHRINKAGE and likelihood.slab == INDEPENDENT)
        if enough or ints[NODES] + intervals > MOST_NODES:
            break
        step *= 0.5
        for i in range(intervals):
            _return_to_centre(work)
            _add_node(likelihood, work, lowest + (2 * i + 1) * step, half_log_prior, sampling)
        old = ints[NODES] - intervals
        for i in range(ints[NODES]):
            top = max(top, nodes[i, NODE_LOG])
        some, total = 0.0, 0.0
        for i in range(ints[NODES]):
            x = math.exp(nodes[i, NODE_LOG] - top)
            total += x
            if i < old:
                some += x
        intervals *= 2
    correction, error = 0.0, 0.0
    for i in range(ints[NODES]):
        x = math.exp(nodes[i, NODE_LOG] - top) / total
        if x > 0.0:
            correction += x * nodes[i, NODE_CORRECTION]
            # the points are the same for all values, and so nearly are the errors
            error += x * nodes[i, NODE_ERROR]
    value = top + math.log(total * step)
    answers[LOG_MARGINAL] = value
    answers[FIRST_ORDER] = value - correction
    answers[CORRECTION] = correction
    answers[SAMPLING_ERROR] = error
    return value


@kernel
def _log_evidence_at_maximum(likelihood, work, value, how):
    """BIC, or BAS's formula for the g-prior and for mixtures of it. BIC needs the maximum of the likelihood alone; the other formula
    has no meaning where that is at infinity, and such models have no mass."""
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
    k, g = d - q, likelihood.g
    if k == 0:
        return value
    if likelihood.slab == MIXTURE:
        return value + _log_mixture(likelihood.shrinkage, k, fit)
    # BAS leaves out the last term where ĝ = 0, and so overrates such models
    if likelihood.slab == EMPIRICAL_BAYES:
        g = max(fit / k - 1.0, 0.0)
    return value - 0.5 * k * math.log1p(g) - 0.5 * fit / (1.0 + g)


@kernel
def _log_mixture(grid, k, fit):
    """log ∫ (1 + g)^(−k/2) exp(−Q/(2(1 + g))) π(g) dg with Q = `fit`, by the trapezoid rule in log g. Far from the maximum
    the integrand is 0 to rounding."""
    top = -np.inf
    for i in range(grid.shape[0]):
        top = max(top, grid[i, 1] - 0.5 * (k * grid[i, 2] + fit * grid[i, 3]))
    total = 0.0
    for i in range(grid.shape[0]):
        x = grid[i, 1] - 0.5 * (k * grid[i, 2] + fit * grid[i, 3]) - top
        if x > -40.0:
            total += math.exp(x)
    return top + math.log(total * (grid[1, 0] - grid[0, 0]))


@entry
def fit_null_model(likelihood, work):
    """``_fit_null_model`` for Python."""
    return _fit_null_model(likelihood, work)


@kernel
def _fit_null_model(likelihood, work):
    """Fit the flat columns alone, and the dispersion or scale where it is unknown; says how it ended."""
    work.members[work.members.shape[0] - 1] = 0
    prepare(likelihood, work)
    if likelihood.outer in (DISPERSION, NOISE_SCALE):
        _, how = find_dispersion(likelihood, work, VERY_NEAR)
    else:
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
    columns; where an outer parameter is integrated out, the mean of θ and its covariances, by averages over that parameter. Returns the
    first model that has none, or the number of models."""
    for i in range(modes.shape[0]):
        n = start[i + 1] - start[i]
        for m in range(n):
            work.members[m] = members[start[i] + m]
        work.members[work.members.shape[0] - 1] = n
        if prepare(likelihood, work) == -np.inf:
            return i
        d = work.ints[WIDTH]
        if _is_averaged(likelihood, work):
            if log_evidence(likelihood, work) == -np.inf:
                return i
            _average_over_nodes(likelihood, work, i, modes, covariances)
            continue
        if likelihood.outer in (DISPERSION, NOISE_SCALE):
            _, how = find_dispersion(likelihood, work, VERY_NEAR)
        else:
            _, how = find_mode(likelihood, work)
        if how != FOUND:
            return i
        for a in range(d):
            work.vectors[CENTRE, a] = 0.0
        _add_fit(work, i, 1.0, modes, covariances)
    return modes.shape[0]


@kernel
def _add_fit(work, i, share, modes, covariances):
    """Add share · (θ̂ − CENTRE) and share · H⁻¹ to what is noted of model i."""
    d, vectors, factor = work.ints[WIDTH], work.vectors, work.factor
    for a in range(d):
        modes[i, a] += share * (vectors[THETA, a] - vectors[CENTRE, a])
        for b in range(d):
            vectors[DRAWN, b] = 0.0
        for b in range(a, d):  # L⁻¹e_a, then L⁻ᵀ of it
            x = 1.0 if b == a else 0.0
            for t in range(a, b):
                x -= factor[b, t] * vectors[DRAWN, t]
            vectors[DRAWN, b] = x / factor[b, b]
        solve_transposed(factor, vectors, DRAWN, d)
        for b in range(d):
            covariances[i, a, b] += share * vectors[DRAWN, b]


@kernel
def _average_over_nodes(likelihood, work, i, modes, covariances):
    """The mean and the covariances of θ over the nodes that ``log_evidence`` left."""
    d, vectors, nodes, ints = work.ints[WIDTH], work.vectors, work.nodes, work.ints
    top, total = -np.inf, 0.0
    for node in range(ints[NODES]):
        top = max(top, nodes[node, NODE_LOG])
    for node in range(ints[NODES]):
        total += math.exp(nodes[node, NODE_LOG] - top)
    for node in range(ints[NODES]):
        share = math.exp(nodes[node, NODE_LOG] - top) / total
        if share < SMALLEST_SHARE:
            continue
        _return_to_centre(work)
        set_outer(likelihood, work, nodes[node, NODE_VALUE])
        _, how = climb(likelihood, work)
        if how != FOUND:
            continue
        _add_fit(work, i, share, modes, covariances)
        for a in range(d):
            for b in range(d):
                x = (vectors[THETA, a] - vectors[CENTRE, a]) * (vectors[THETA, b] - vectors[CENTRE, b])
                covariances[i, a, b] += share * x
    for a in range(d):
        for b in range(d):
            covariances[i, a, b] -= modes[i, a] * modes[i, b]
    for a in range(d):
        modes[i, a] += vectors[CENTRE, a]
