"""The log Bayes factor under a mixture of g-priors, read from a table made at set-up.

Layout of ``table`` [K + 1, 1 + intervals, 14] (made by :func:`whichvars.problem.mixtures.mixture_table`): row k is of
models with k columns. Its record 0 describes the map from u to the interval's number and the last node,

    0 centre, 1 inverse scale, 2 weight of the logarithm, 3 weight of the linear part, 4 number at u = 0,
    5 last node u_end, 6 log BF(u_end), 7 its derivative there,

and every further record describes one interval: 0 its midpoint, 1 the inverse of its half width, 2 to 13 the
coefficients of a polynomial of degree 11 in s = (u - midpoint) / (half width), constant term first.
"""

import math

from whichvars._kernels.jit import kernel


@kernel
def mixture_log_bayes_factor(table, nu, k, u):
    """Log Bayes factor of a model with `k` columns against the null model, at u = -log(1 - R²) >= 0.

    `nu` is not read, the table was made for it; it is there so that all priors are called alike. Beyond the
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
    even = table[
        k, i, 12
    ]  # two short chains of products, even and odd powers, run side by side in the processor
    odd = table[k, i, 13]
    for j in range(10, 1, -2):
        even = even * s2 + table[k, i, j]
        odd = odd * s2 + table[k, i, j + 1]
    return even + s * odd
