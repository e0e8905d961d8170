"""Log marginal likelihood of a model relative to the null model, for every slab: written here and nowhere else.

With the flat part integrated out (docs/mathematics.md, "The model"), S the posterior residual sum of squares, S₀ = yᵀy,
k columns:

    independent   −½ Σ log g_j − Σ log L_ii − (ν/2) log(S/S₀)
    g-prior       ½(ν−k) log(1+g) − ½ν log(1 + g(1−R²))
    local EB      the same at ĝ = max(F − 1, 0), F = (R²/k) / ((1−R²)/(ν−k))
    BIC           −(n/2) log(1−R²) − (k/2) log n
    mixtures      log ∫ BF(g) π(g) dg, by a table

An inverse-gamma prior on σ² enters as ν + 2a0 for ν and S + 2b0 for S in all of them but BIC.

Where σ² is known, ν is infinite, and with E = (S₀ − S)/(2σ²):

    independent   −½ Σ log g_j − Σ log L_ii + E
    g-prior       g/(1+g) E − (k/2) log(1+g)
    local EB      the same at ĝ = max(2E/k − 1, 0)
    BIC           E − (k/2) log n
"""

import math

import numpy as np

from whichvars._kernels.jit import inlined, kernel

# Slab codes. INDEPENDENT needs the determinant of its factor; all others are functions of (R², k, ν).
INDEPENDENT = 0
G_PRIOR = 1
EMPIRICAL_BAYES = 2
BIC = 3
MIXTURE = 4
# There is no formula. A model is worth what a fit of it says, which kernels ask Python for (evaluate.py), if the response is not Gaussian;
# or an average over g (averaging.py)
BY_FIT = 5

# of S/S₀: below it S is rounding error. Held there, counted and reported
SMALLEST_RESIDUAL = 1e-12
# of 1 − R²(column | others): below it a model is rank deficient under the R² family
SMALLEST_TOLERANCE = 1e-10


@kernel
def log_marginal(slab, columns, explained, sum_half_log_g, log_determinant):
    """Log marginal likelihood relative to the null, of a model whose factor is at hand.

    columns: k, the number of columns; explained: ‖L⁻¹X_γᵀy‖², what the model explains of yᵀy;
    sum_half_log_g, log_determinant: Σ ½ log g_j and Σ log L_ii, used by the independent slab alone.
    """
    return log_marginal_at(slab, columns, unexplained(slab, explained), sum_half_log_g, log_determinant)


@kernel
def unexplained(slab, explained):
    """S/S₀ (for the R² family 1 − R²) of a model that explains so much of yᵀy."""
    return bounded_residual(1.0 - explained / slab.s_null)


@kernel
def bounded_residual(residual):
    """S/S₀ without what rounding did to it: at least SMALLEST_RESIDUAL, at most 1."""
    if residual < SMALLEST_RESIDUAL:
        return SMALLEST_RESIDUAL
    if residual > 1.0:
        return 1.0
    return residual


@kernel
def fits_perfectly(slab, explained):
    """Whether nothing but rounding error is left of y, and the noise variance is to be learnt from that."""
    return slab.nu < np.inf and 1.0 - explained / slab.s_null < SMALLEST_RESIDUAL


@kernel
def log_marginal_at(slab, columns, residual, sum_half_log_g, log_determinant):
    """``log_marginal`` where S/S₀ in (0, 1] is known already."""
    if slab.code == INDEPENDENT:
        return _independent(slab, residual, sum_half_log_g, log_determinant)
    if columns == 0:
        return 0.0
    nu = slab.nu
    if nu == np.inf:
        return _log_marginal_known(slab, columns, log_fit(slab, residual))
    if slab.code == G_PRIOR:
        return 0.5 * (nu - columns) * math.log1p(slab.g) - 0.5 * nu * math.log1p(slab.g * residual)
    if slab.code == EMPIRICAL_BAYES:
        ratio = (1.0 - residual) * (nu - columns) / (columns * residual)
        if ratio <= 1.0:
            return 0.0
        g = ratio - 1.0
        return 0.5 * (nu - columns) * math.log1p(g) - 0.5 * nu * math.log1p(g * residual)
    if slab.code == BIC:
        return -0.5 * slab.rows * math.log(residual) - 0.5 * columns * math.log(slab.rows)
    if slab.code == BY_FIT:
        return np.nan
    return mixture_log_bayes_factor(slab.table, columns, -math.log(residual))


@kernel
def log_marginal_of_independent(slab, explained, sum_half_log_g, log_determinant):
    """``log_marginal`` of the independent slab, whatever the slab's code."""
    return _independent(slab, unexplained(slab, explained), sum_half_log_g, log_determinant)


@inlined
def _independent(slab, residual, sum_half_log_g, log_determinant):
    return -sum_half_log_g - log_determinant + log_fit(slab, residual)


@kernel
def log_fit(slab, residual):
    """What the fit adds under the independent slab, the determinants aside; where σ² is known, E."""
    if slab.nu == np.inf:
        return slab.half_precision * (1.0 - residual)
    return -0.5 * slab.nu * math.log(residual)


@kernel
def _log_marginal_known(slab, columns, fit):
    """The R² family where σ² is known; `fit` is E."""
    if slab.code == G_PRIOR:
        return slab.g / (1.0 + slab.g) * fit - 0.5 * columns * math.log1p(slab.g)
    if slab.code == BIC:
        return fit - 0.5 * columns * math.log(slab.rows)
    ratio = 2.0 * fit / columns
    if ratio <= 1.0:
        return 0.0
    return (1.0 - 1.0 / ratio) * fit - 0.5 * columns * math.log(ratio)


@kernel
def mixture_log_bayes_factor(table, k, u):
    """Log Bayes factor of a model with `k` columns under a mixture of g-priors, at u = -log(1 - R²) >= 0, read from a
    table.

    Layout of `table` [K + 1, 1 + intervals, 14] (made by :func:`whichvars.problem.mixtures.mixture_table`): row k is
    of models with k columns. Its record 0 describes the map from u to the interval's number and the last node,

        0 centre, 1 inverse scale, 2 weight of the logarithm, 3 weight of the linear part, 4 number at u = 0,
        5 last node u_end, 6 log BF(u_end), 7 its derivative there,

    and every further record describes one interval: 0 its midpoint, 1 the inverse of its half width, 2 to 13 the
    coefficients of a polynomial of degree 11 in s = (u - midpoint) / (half width), constant term first. Beyond the
    table's last node the value goes on linearly in u. A NaN gives a NaN.
    """
    if k == 0:
        return 0.0
    end = table[k, 0, 5]
    if not u < end:
        return table[k, 0, 6] + table[k, 0, 7] * (u - end)
    t = (u - table[k, 0, 0]) * table[k, 0, 1]
    number = table[k, 0, 2] * math.log(1.0 + abs(t)) + table[k, 0, 3] * abs(t)
    if t < 0.0:
        number = -number
    i = min(max(1 + int(number - table[k, 0, 4]), 1), table.shape[1] - 1)
    s = (u - table[k, i, 0]) * table[k, i, 1]
    s2 = s * s
    # two short chains of products, even and odd powers, run side by side in the processor
    even = table[k, i, 12]
    odd = table[k, i, 13]
    for j in range(10, 1, -2):
        even = even * s2 + table[k, i, j]
        odd = odd * s2 + table[k, i, j + 1]
    return even + s * odd
