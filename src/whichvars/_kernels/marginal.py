"""Log marginal likelihood of a model relative to the null model, for every slab.

With the flat part integrated out (docs/mathematics.md, "The model"), S the posterior residual sum of squares, S₀ = yᵀy,
k columns:

    independent   −½ Σ log g_j − Σ log L_ii − (ν/2) log(S/S₀)
    g-prior       ½(ν−k) log(1+g) − ½ν log(1 + g(1−R²))
    local EB      the same at ĝ = max(F − 1, 0), F = (R²/k) / ((1−R²)/(ν−k))
    BIC           −(n/2) log(1−R²) − (k/2) log n
    mixtures      log ∫ BF(g) π(g) dg, by a table

An inverse-gamma prior on σ² enters as ν + 2a0 for ν and S + 2b0 for S in all of them but BIC.
"""

import math

from whichvars._kernels.jit import kernel
from whichvars._kernels.mixture import mixture_log_bayes_factor
from whichvars._kernels.target import BIC, EMPIRICAL_BAYES, G_PRIOR, INDEPENDENT

SMALLEST_RESIDUAL = 1e-12  # of S/S₀: below it S is rounding error. Held there, counted and reported
SMALLEST_TOLERANCE = (
    1e-10  # of 1 − R²(column | others): below it a model is rank deficient under the R² family
)


@kernel
def log_marginal(slab, columns, residual, sum_half_log_g, log_determinant):
    """Log marginal likelihood relative to the null.

    columns: k, the number of columns; residual: S/S₀ in (0, 1] (for the R² family 1 − R²);
    sum_half_log_g, log_determinant: Σ ½ log g_j and Σ log L_ii, used by the independent slab alone.
    """
    if slab.code == INDEPENDENT:
        return -sum_half_log_g - log_determinant - 0.5 * slab.nu * math.log(residual)
    if columns == 0:
        return 0.0
    nu = slab.nu
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
    return mixture_log_bayes_factor(slab.table, nu, columns, -math.log(residual))
