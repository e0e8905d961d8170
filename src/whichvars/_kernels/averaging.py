r"""The marginal likelihood of a model under the independent slab with an unknown g, which has finitely many values:

.. math:: m(\gamma) = \sum_l \omega_l\, m(\gamma \mid g_l) .

The values and their prior probabilities ω are those of the problem. They are the same for every model, so that m is one function of
γ. Each value has another ridge and so another Cholesky factor. The products of columns are taken once.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.evidence import log_marginal_of_independent
from whichvars._kernels.jit import by_reference, entry, kernel
from whichvars._kernels.linalg import append, sum_log
from whichvars._kernels.products.gram_cache import product

# columns of Slab.grid
RIDGE_FACTOR, LOG_WEIGHT, HALF_LOG_FACTOR = range(3)


@by_reference
class Averaging(NamedTuple):
    """Memory for one model of up to `capacity` columns."""

    column: np.ndarray  # (capacity,) int64: columns of the model
    gram: (
        np.ndarray
    )  # (capacity, capacity): their products, by place in `column`; entries above the diagonal are not used
    factor: np.ndarray  # (capacity, capacity)
    inverse_pivot: np.ndarray  # (capacity,)
    solved: np.ndarray  # (capacity,)
    work: np.ndarray  # (capacity,)
    logs: np.ndarray  # (values,): log ω_l m(γ | g_l) of the last model


def new_averaging(capacity: int, values: int) -> Averaging:
    """Memory for models of up to `capacity` columns and so many values of g; none if there is no value."""
    n = capacity if values else 0
    return Averaging(
        column=np.zeros(n, np.int64),
        gram=np.zeros((n, n)),
        factor=np.zeros((n, n)),
        inverse_pivot=np.zeros(n),
        solved=np.zeros(n),
        work=np.zeros(n),
        logs=np.zeros(values),
    )


def average_cost(values: int, k: float) -> float:
    """What the average of a model of k columns costs, in nanoseconds, roughly."""
    return values * (50.0 + 2.0 * k * k + k**3 / 6.0)


@kernel
def average_over_g(target, averaging, n):
    """log m of the model of the first n columns in ``column``, whose products are in ``gram``; the terms of the sum are left in
    ``logs``. −inf where rounding forbids a factor."""
    design, slab = target.design, target.slab
    column, gram, work, logs = averaging.column, averaging.gram, averaging.work, averaging.logs
    factor, inverse, solved = averaging.factor, averaging.inverse_pivot, averaging.solved
    half = 0.0
    for i in range(n):
        half += slab.half_log_g[column[i]]
    top = -np.inf
    for node in range(logs.shape[0]):
        explained = 0.0
        for i in range(n):
            c = column[i]
            for r in range(i):
                work[r] = gram[i, r]
            ridge = slab.ridge[c] * slab.grid[node, RIDGE_FACTOR]
            pivot = append(
                factor, inverse, solved, i, factor, inverse, solved, i, work,
                design.diagonal[c] + ridge, design.xty[c],
            )  # fmt: skip
            if not pivot > 0.5 * ridge:
                return -np.inf
            explained += solved[i] * solved[i]
        value = log_marginal_of_independent(
            slab, explained, half + n * slab.grid[node, HALF_LOG_FACTOR], -sum_log(inverse, 0, n)
        )
        logs[node] = slab.grid[node, LOG_WEIGHT] + value
        top = max(top, logs[node])
    total = 0.0
    for node in range(logs.shape[0]):
        total += math.exp(logs[node] - top)
    return top + math.log(total)


@entry
def average_models(target, cache, averaging, members, start, out, logs):
    """``_average_models`` for Python."""
    _average_models(target, cache, averaging, members, start, out, logs)


@kernel
def _average_models(target, cache, averaging, members, start, out, logs):
    """Fill `out` with the log marginal likelihoods of a list of models, and `logs` (models, values) with the terms of their sums. Model i is
    members[start[i]], …, members[start[i + 1] − 1]. There must be room for the largest."""
    design, offsets, column = target.design, target.design.offsets, averaging.column
    for i in range(out.shape[0]):
        n = 0
        for m in range(start[i], start[i + 1]):
            j = members[m]
            for c in range(offsets[j], offsets[j + 1]):
                for r in range(n):
                    averaging.gram[n, r] = product(design, cache, c, column[r])
                column[n] = c
                n += 1
        out[i] = average_over_g(target, averaging, n)
        for node in range(logs.shape[1]):
            logs[i, node] = averaging.logs[node]
