"""All models, depth first, or those of a list. Each model is another one with more variables at the end, so every factor is
that of the other plus new columns: nothing is ever taken out, and no rounding error builds up.

All models are written down as a trie in the order in which they are met: model i is model ``parent[i]`` with
variable ``last[i]``.
"""

import math

import numpy as np

from whichvars._kernels.evidence import INDEPENDENT, SMALLEST_TOLERANCE, fits_perfectly, log_marginal
from whichvars._kernels.jit import entry, kernel
from whichvars._kernels.linalg import append, smallest_tolerance, sum_log
from whichvars._kernels.prior import all_parents_in, children_made_available, in_order, log_availability
from whichvars._kernels.products.gram_cache import product

# The bounds at which a model of a list counts as rank deficient are multiplied by this. The model was sound with its columns in
# another order, and rounding must not make it deficient
LENIENT = 0.1


@kernel
def _append_variable(target, cache, factor, inverse, solved, work, column, n, j, strictness):
    """Append the columns of variable j to a factor of n columns. Returns whether it stays sound, what they explain, and
    their Σ ½ log g."""
    design, slab = target.design, target.slab
    gained = 0.0
    half = 0.0
    for c in range(design.offsets[j], design.offsets[j + 1]):
        for r in range(n):
            work[r] = product(design, cache, c, column[r])
        pivot = append(
            factor, inverse, solved, n, factor, inverse, solved, n, work,
            design.diagonal[c] + slab.ridge[c], design.xty[c],
        )  # fmt: skip
        smallest = 0.5 * slab.ridge[c] if slab.code == INDEPENDENT else SMALLEST_TOLERANCE
        if not pivot > strictness * smallest:
            return False, 0.0, 0.0
        column[n] = c
        gained += solved[n] * solved[n]
        half += slab.half_log_g[c]
        n += 1
    return True, gained, half


@kernel
def _log_determinant(slab, factor, inverse, n, work, strictness):
    """Σ log L_ii; infinite where the slab needs full rank and the model has not got it."""
    value = -sum_log(inverse, 0, n)
    smallest = strictness * SMALLEST_TOLERANCE
    if (
        slab.code != INDEPENDENT
        and 2.0 * value < math.log(smallest)
        and not smallest_tolerance(factor, inverse, n, factor, inverse, n, work) >= smallest
    ):
        return np.inf
    return value


@entry
def enumerate_models(
    target,
    cache,
    depth,
    factor,
    inverse,
    solved,
    work,
    path,
    sums,
    column,
    parent,
    last,
    marginal,
    prior,
    troubles,
):
    """Fill parent, last, log marginal and log prior of every model with mass; returns how many there are.

    depth: most columns a model can have. A subtree is left out where the slab gives it no mass: too many
    variables or columns, or (R² family) a rank-deficient root, as all that contain it are deficient too.

    path (5, p + 1): place in the order of variables, number, columns, and variables available under heredity
    of the model at each level of the current path, level 0 the null model; and by variable 0 if in it, else −1;
    sums (4, p + 1): its Σ log odds, Σ ½ log g, explained sum of squares and Σ of heredity's terms; column
    (depth,): its columns; troubles: counts of breakdowns and perfect fits.

    Under heredity parents come before their children, so that a model that is not allowed is the root of none
    that is.
    """
    design, slab, prior_terms = target.design, target.slab, target.prior
    offsets = design.offsets
    p = offsets.shape[0] - 1
    place, node, columns, available, inside = path[0], path[1], path[2], path[3], path[4, :p]
    inside[:] = -1
    odds, half_log_g, explained, extra = sums[0], sums[1], sums[2], sums[3]
    heredity = prior_terms.links.shape[0] > 0
    parent[0] = -1
    last[0] = -1
    marginal[0] = 0.0
    prior[0] = prior_terms.log_size[0]
    count = 1
    level = 0
    next_place = 0
    while True:
        if next_place == p or level == prior_terms.max_size:  # nothing more to add: go back up
            if level == 0:
                return count
            next_place = place[level] + 1
            inside[in_order(prior_terms, place[level], p)] = -1
            level -= 1
            continue
        # 1. append variable j to the model at this level
        j = in_order(prior_terms, next_place, p)
        n = columns[level]
        width = offsets[j + 1] - offsets[j]
        log_determinant = np.inf
        gained = 0.0
        half = 0.0
        if n + width <= depth and (not heredity or all_parents_in(prior_terms, inside, j, -1)):
            sound, gained, half = _append_variable(
                target, cache, factor, inverse, solved, work, column, n, j, 1.0
            )
            n += width
            if sound:
                log_determinant = _log_determinant(slab, factor, inverse, n, work, 1.0)
            elif slab.code == INDEPENDENT:
                troubles[0] += 1
        if log_determinant == np.inf:
            next_place += 1
            continue
        # 2. write it down
        level += 1
        place[level] = next_place
        inside[j] = 0
        columns[level] = n
        odds[level] = odds[level - 1] + prior_terms.log_odds[j]
        half_log_g[level] = half_log_g[level - 1] + half
        explained[level] = explained[level - 1] + gained
        if fits_perfectly(slab, explained[level]):
            troubles[1] += 1
        node[level] = count
        parent[count] = node[level - 1]
        last[count] = j
        marginal[count] = log_marginal(slab, n, explained[level], half_log_g[level], log_determinant)
        prior[count] = odds[level] + prior_terms.log_size[level]
        if heredity:
            number, change = children_made_available(prior_terms, inside, j)
            available[level] = available[level - 1] + number
            extra[level] = extra[level - 1] + change
            prior[count] += extra[level] + log_availability(prior_terms, level, available[level])
        count += 1
        # 3. and go down
        next_place += 1


@entry
def evaluate_models(
    target, cache, members, start, factor, inverse, solved, work, column, path, columns, sums, out
):
    """``_evaluate_models`` for Python."""
    _evaluate_models(
        target, cache, members, start, factor, inverse, solved, work, column, path, columns, sums, out
    )


@kernel
def _evaluate_models(
    target, cache, members, start, factor, inverse, solved, work, column, path, columns, sums, out
):
    """Fill `out` with the log marginal likelihoods of a list of models; −inf where the slab needs full rank and a model has
    not got it, or has too many columns.

    Model i is members[start[i]], …, members[start[i + 1] − 1]. It shares the rows of the factor with the model before it as
    far as both begin with the same variables; its value is the same to the last bit wherever in the list it stands.

    path (most variables,): variables in the factor; columns, sums[0], sums[1] (that + 1,): columns, explained sum of squares
    and Σ ½ log g of the model of the first 0, 1, … of them.
    """
    slab, offsets = target.slab, target.design.offsets
    explained, half_log_g = sums[0], sums[1]
    level = 0
    for i in range(out.shape[0]):
        first, size = start[i], start[i + 1] - start[i]
        shared = 0
        while shared < min(level, size) and path[shared] == members[first + shared]:
            shared += 1
        level = shared
        sound = True
        while sound and level < size:
            j = members[first + level]
            n = columns[level]
            width = offsets[j + 1] - offsets[j]
            sound = n + width <= slab.max_columns
            if sound:
                sound, gained, half = _append_variable(
                    target, cache, factor, inverse, solved, work, column, n, j, LENIENT
                )
                if sound:
                    path[level] = j
                    level += 1
                    columns[level] = n + width
                    explained[level] = explained[level - 1] + gained
                    half_log_g[level] = half_log_g[level - 1] + half
        out[i] = -np.inf
        if sound:
            n = columns[level]
            log_determinant = _log_determinant(slab, factor, inverse, n, work, LENIENT)
            if log_determinant < np.inf:
                out[i] = log_marginal(slab, n, explained[level], half_log_g[level], log_determinant)


@entry
def trie_marginals(parent, last, weight, depth, pip, size_weight):
    """Sums of `weight` over the models with each variable, and by size. `weight` is overwritten by sums over
    subtrees, `depth` by sizes."""
    n = parent.shape[0]
    size_weight[0] += weight[0]
    for i in range(1, n):
        depth[i] = depth[parent[i]] + 1
        size_weight[depth[i]] += weight[i]
    for i in range(n - 1, 0, -1):
        pip[last[i]] += weight[i]
        weight[parent[i]] += weight[i]
