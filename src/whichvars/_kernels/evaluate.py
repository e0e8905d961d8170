"""What a proposal is worth: its prior, its marginal likelihood, and where they come from."""

import math

import numpy as np

from whichvars._kernels.averaging import average_over_g
from whichvars._kernels.chain import (
    A_FIT,
    ADDED,
    AVAILABLE,
    BREAKDOWNS,
    COLUMNS,
    DELETED,
    EVALUATIONS,
    FITTED,
    INVERSE_TEMPERATURE,
    LOG_MARGINAL,
    LOG_PRIOR,
    NEEDED,
    NEW_AVAILABLE,
    NEW_LOG_MARGINAL,
    NEW_LOG_PRIOR,
    NEW_SURROGATE,
    NO_TAIL,
    ONLY_PRODUCTS,
    PERFECT,
    SIZE,
    SURROGATE,
    TAIL,
    accept,
    change,
    clear,
)
from whichvars._kernels.count.model_table import fetch_bucket, recall, remember
from whichvars._kernels.evidence import BY_FIT, fits_perfectly, log_marginal
from whichvars._kernels.factor import extend_head, factor_proposal, fill_products
from whichvars._kernels.inverse import (
    BEHIND,
    BLOCK,
    CURRENT,
    ENTERING,
    EXPLAINED,
    FAR_BEHIND,
    INFLATION,
    LEAVING,
    LOG_DETERMINANT,
    LOSS,
    MADE,
    ROUNDING,
    ROWS,
    STATE,
    SUM_HALF_LOG_G,
    UPDATES,
    find_inflation,
    inner,
    insert_column,
    invert_factor,
    loses_digits,
    remove_row,
    times_inverse,
)
from whichvars._kernels.jit import entry, inlined, kernel, routine
from whichvars._kernels.prior import proposed_heredity
from whichvars._kernels.products.gram_cache import fetch_column, product, products_with_present

# in the memo, the surrogate's value of a model stands under the model's key xor this
OF_SURROGATE = np.uint64(0xD1B54A32D192ED03)
FEWEST_COLUMNS = 6  # of a model whose inverse is kept: below, the factor of a proposal costs no more


@inlined
def proposed_log_prior(target, chain):
    """log p(γ') up to its constant; −inf where the size, the number of columns or heredity does not allow it."""
    prior = target.prior
    offsets = target.design.offsets
    size = chain.ints[SIZE]
    columns = chain.ints[COLUMNS]
    value = chain.floats[LOG_PRIOR] - prior.log_size[size]
    for i in range(chain.ints[ADDED]):
        j = chain.added[i]
        value += prior.log_odds[j]
        columns += offsets[j + 1] - offsets[j]
    for i in range(chain.ints[DELETED]):
        j = chain.deleted[i]
        value -= prior.log_odds[j]
        columns -= offsets[j + 1] - offsets[j]
    size += chain.ints[ADDED] - chain.ints[DELETED]
    if size > prior.max_size or columns > target.slab.max_columns:
        return -np.inf
    if prior.links.shape[0] > 0:  # heredity
        extra, chain.ints[NEW_AVAILABLE] = proposed_heredity(
            prior, chain.position, chain.ints[SIZE], chain.ints[AVAILABLE],
            chain.added, chain.ints[ADDED], chain.deleted, chain.ints[DELETED],
        )  # fmt: skip
        value += extra
    return value + prior.log_size[size]


@routine
def _find_log_marginal(target, chain):
    """Log marginal likelihood of the proposal, from the inverse where that is cheaper and accurate, else from its factor."""
    if chain.ints[COLUMNS] >= FEWEST_COLUMNS and _bring_inverse_up_to_date(target, chain):
        value = _log_marginal_by_inverse(target, chain)
        if not math.isnan(value):
            chain.ints[EVALUATIONS] += 1
            chain.ints[TAIL] = ONLY_PRODUCTS
            return value
    return factor_proposal(target, chain)


@kernel
def _bring_inverse_up_to_date(target, chain):
    """Make the inverse that of the chain's model. False where it is not, and one factor costs less than that.

    The columns of both stand in the order of their entry, so that those the inverse lacks come last. Few changes are made one by
    one; for many, the inverse is made anew from the factor, but not before a second proposal of the same model asks for it.
    """
    inverse, design, ridge = chain.inverse, target.design, target.slab.ridge
    half_log_g = target.slab.half_log_g
    if inverse.ints[STATE] == CURRENT:
        return True
    n = chain.ints[COLUMNS]
    common = 0
    for i in range(inverse.ints[ROWS]):
        if common < n and inverse.column[i] == chain.column[common]:
            common += 1
    changes = inverse.ints[ROWS] + n - 2 * common
    many = changes > max(2, n // 6)
    if many and inverse.ints[STATE] == BEHIND:
        inverse.ints[STATE] = FAR_BEHIND
        return False
    if many or inverse.ints[MADE] + changes > UPDATES:
        return _invert(target, chain)
    row = 0
    while row < inverse.ints[ROWS]:
        if row < common and inverse.column[row] == chain.column[row]:
            row += 1
        else:
            remove_row(inverse, row, chain.work, half_log_g[inverse.column[row]])
    for row in range(common, n):
        column, slot = chain.column[row], chain.slot[row]
        if not chain.filled[slot]:
            fill_products(target, chain, row)
        products, weights = inverse.products[0], inverse.weights[0]
        for r in range(row):
            products[r] = chain.products[slot, chain.slot[r]]
        times_inverse(inverse.matrix, products, row, weights)
        diagonal = design.diagonal[column] + ridge[column]
        pivot = diagonal - inner(products, weights, row)
        if not ROUNDING * inverse.floats[INFLATION] * diagonal <= LOSS * pivot:
            return _invert(target, chain)
        right = design.xty[column] - inner(products, inverse.solved, row)
        insert_column(inverse, column, weights, pivot, right, half_log_g[column])
    find_inflation(inverse, design.diagonal, ridge)
    inverse.ints[STATE] = CURRENT
    return True


@kernel
def _invert(target, chain):
    """Make the inverse anew from the factor. False if rounding forbids."""
    if not extend_head(target, chain, chain.ints[SIZE]):
        return False
    inverse, design, slab = chain.inverse, target.design, target.slab
    invert_factor(
        inverse, chain.head, chain.head_inverse, chain.head_solved, chain.column, slab.half_log_g, chain.tail,
        chain.ints[COLUMNS],
    )  # fmt: skip
    find_inflation(inverse, design.diagonal, slab.ridge)
    inverse.ints[STATE] = CURRENT
    return True


@kernel
def _log_marginal_by_inverse(target, chain):
    """Log marginal likelihood of the proposed model by the formulas of ``inverse.py``; NaN where too many columns change or too many
    digits are lost."""
    inverse, design, slab = chain.inverse, target.design, target.slab
    corner, corner_solved, shared = inverse.corner, inverse.corner_solved, inverse.shared
    schur, schur_solved = inverse.schur, inverse.schur_solved
    offsets, n = design.offsets, chain.ints[COLUMNS]
    leaving = 0
    for i in range(chain.ints[DELETED]):
        q = chain.position[chain.deleted[i]]
        for r in range(chain.row[q], chain.row[q + 1]):
            if leaving == BLOCK:
                return np.nan
            inverse.leaving[leaving] = r
            leaving += 1
    entering = 0
    for i in range(chain.ints[ADDED]):
        j = chain.added[i]
        for column in range(offsets[j], offsets[j + 1]):
            if entering == BLOCK:
                return np.nan
            inverse.entering[entering] = column
            entering += 1
    inverse.ints[LEAVING], inverse.ints[ENTERING] = leaving, entering
    half_log_determinant = inverse.floats[LOG_DETERMINANT]
    sum_half_log_g = inverse.floats[SUM_HALF_LOG_G]

    # 1. the columns D that leave: the factor of F = V_DD
    fall, ratio = 0.0, 1.0
    for i in range(leaving):
        row = inverse.leaving[i]
        right = inverse.solved[row]
        for t in range(i):
            x = inverse.matrix[row, inverse.leaving[t]]
            for s in range(t):
                x -= corner[i, s] * corner[t, s]
            corner[i, t] = x / corner[t, t]
            right -= corner[i, t] * corner_solved[t]
        pivot = inverse.matrix[row, row]
        for t in range(i):
            pivot -= corner[i, t] * corner[i, t]
        if not pivot > 0.0:
            return np.nan
        ratio = max(ratio, inverse.matrix[row, row] / pivot)
        corner[i, i] = math.sqrt(pivot)
        corner_solved[i] = right / corner[i, i]
        fall += corner_solved[i] * corner_solved[i]
        half_log_determinant += 0.5 * math.log(pivot)
        sum_half_log_g -= slab.half_log_g[chain.column[row]]

    # 2. the columns E that enter: the factor of S
    rise = 0.0
    top = chain.slot.shape[0] - n
    for a in range(entering):
        column = inverse.entering[a]
        slot = chain.free[top - 1 - a]
        products, weights = inverse.products[a], inverse.weights[a]
        products_with_present(design, chain.gram_cache, column, chain.column, n, products)
        for r in range(n):
            chain.products[slot, chain.slot[r]] = products[r]
        times_inverse(inverse.matrix, products, n, weights)
        right = design.xty[column] - inner(products, inverse.solved, n)
        for i in range(leaving):
            x = weights[inverse.leaving[i]]
            for t in range(i):
                x -= corner[i, t] * shared[a, t]
            shared[a, i] = x / corner[i, i]
            right += shared[a, i] * corner_solved[i]
        for e in range(a):
            x = product(design, chain.gram_cache, column, inverse.entering[e])
            chain.products[slot, chain.free[top - 1 - e]] = x
            x -= inner(products, inverse.weights[e], n)
            for i in range(leaving):
                x += shared[a, i] * shared[e, i]
            for s in range(e):
                x -= schur[a, s] * schur[e, s]
            schur[a, e] = x / schur[e, e]
            right -= schur[a, e] * schur_solved[e]
        diagonal = design.diagonal[column] + slab.ridge[column]
        pivot = diagonal - inner(products, weights, n)
        for i in range(leaving):
            pivot += shared[a, i] * shared[a, i]
        for s in range(a):
            pivot -= schur[a, s] * schur[a, s]
        if not pivot > 0.0:
            return np.nan
        ratio = max(ratio, diagonal / pivot)
        schur[a, a] = math.sqrt(pivot)
        schur_solved[a] = right / schur[a, a]
        rise += schur_solved[a] * schur_solved[a]
        half_log_determinant += 0.5 * math.log(pivot)
        sum_half_log_g += slab.half_log_g[column]

    explained = inverse.floats[EXPLAINED] - fall + rise
    if slab.nu == np.inf:
        precision = 2.0 * slab.half_precision / slab.s_null
    else:
        precision = slab.nu / max(slab.s_null - explained, 1e-300)
    if loses_digits(inverse, ratio, fall + rise, precision, slab.s_null):
        return np.nan
    if fits_perfectly(slab, explained):
        chain.ints[PERFECT] += 1
    return log_marginal(slab, n - leaving + entering, explained, sum_half_log_g, half_log_determinant)


@routine
def _average_proposal(target, chain):
    """Log marginal likelihood of the proposal, averaged over g."""
    design, averaging = target.design, chain.averaging
    offsets, column, gram = design.offsets, averaging.column, averaging.gram
    chain.ints[EVALUATIONS] += 1
    n = 0
    for q in range(chain.ints[SIZE]):
        stays = True
        for i in range(chain.ints[DELETED]):
            stays = stays and chain.deleted[i] != chain.order[q]
        if stays:
            for row in range(chain.row[q], chain.row[q + 1]):
                if not chain.filled[chain.slot[row]]:
                    fill_products(target, chain, row)
                # where the earlier ones of those that stay stand in the chain is kept in `work`
                for r in range(n):
                    gram[n, r] = chain.products[chain.slot[row], int(averaging.work[r])]
                averaging.work[n] = chain.slot[row]
                column[n] = chain.column[row]
                n += 1
    for i in range(chain.ints[ADDED]):
        j = chain.added[i]
        for c in range(offsets[j], offsets[j + 1]):
            for r in range(n):
                gram[n, r] = product(design, chain.gram_cache, c, column[r])
            column[n] = c
            n += 1
    value = average_over_g(target, averaging, n)
    if value == -np.inf:
        chain.ints[BREAKDOWNS] += 1
    return value


@inlined
def evaluate(target, chain, memo):
    """Log ratio of the tempered targets of the proposed and the current model; −inf where the proposal has no
    mass.

    Where the proposal does not fit, ``ints[NEEDED]`` is set and the answer means nothing: grow the chain and
    ask again. So it is where the response is not Gaussian and the memo does not know the model: NEEDED is then A_FIT, Python fits
    the model and leaves the value in ``floats[FITTED]``, and kernels of Gaussian problems need not know how.

    If there is a surrogate, the ratio is that of the surrogate's targets, and no fit is needed; see ``second_stage``.
    """
    ints, floats = chain.ints, chain.floats
    ints[TAIL] = NO_TAIL
    offsets = target.design.offsets
    key = chain.keys[1]
    current = floats[LOG_MARGINAL]
    if target.slab.surrogate:
        key ^= OF_SURROGATE
        current = floats[SURROGATE]
    fetch_bucket(memo, key)
    for i in range(ints[ADDED]):
        fetch_column(target.design, offsets[chain.added[i]])
    log_prior = proposed_log_prior(target, chain)
    floats[NEW_LOG_PRIOR] = log_prior
    if log_prior == -np.inf:
        return -np.inf
    columns = ints[COLUMNS]
    for i in range(ints[ADDED]):
        columns += offsets[chain.added[i] + 1] - offsets[chain.added[i]]
    if columns > chain.slot.shape[0]:
        ints[NEEDED] = columns
        return -np.inf
    value = recall(memo, key)
    if math.isnan(value):
        if target.slab.code != BY_FIT:
            value = _find_log_marginal(target, chain)
        elif is_averaged(target):
            value = _average_proposal(target, chain)
        elif chain.keys[2] == key:
            value = floats[FITTED]
        else:
            ints[NEEDED] = A_FIT
            return -np.inf
        remember(memo, key, value)
    if target.slab.surrogate:
        floats[NEW_SURROGATE] = value
    else:
        floats[NEW_LOG_MARGINAL] = value
    tempered = 0.0
    t = floats[INVERSE_TEMPERATURE]
    if value == -np.inf:
        return -np.inf  # no mass at any temperature: such a model is outside the prior's support
    if t > 0.0:
        tempered = t * (value - current)
    return tempered + (log_prior - floats[LOG_PRIOR])


@kernel
def fitted_value(target, chain, memo):
    """log m(γ') of the proposal; where the memo does not know it and only a fit can tell, which was not made last, NEEDED is A_FIT."""
    key = chain.keys[1]
    value = recall(memo, key)
    if math.isnan(value):
        if is_averaged(target):
            value = _average_proposal(target, chain)
        elif chain.keys[2] != key:
            chain.ints[NEEDED] = A_FIT
            return -np.inf
        else:
            value = chain.floats[FITTED]
        remember(memo, key, value)
    return value


@kernel
def second_stage(target, chain, memo):
    r"""log w(γ')/w(γ), to the power of the inverse temperature; w = m/m̃ is the ratio of the marginal likelihood to the surrogate's.

    ``evaluate`` comes first. Where the memo does not know m(γ'), NEEDED is A_FIT and the answer means nothing, as there.
    """
    floats = chain.floats
    value = fitted_value(target, chain, memo)
    floats[NEW_LOG_MARGINAL] = value
    if value == -np.inf:
        return -np.inf
    ratio = (value - floats[NEW_SURROGATE]) - (floats[LOG_MARGINAL] - floats[SURROGATE])
    return floats[INVERSE_TEMPERATURE] * ratio


@inlined
def evaluate_fully(target, chain, memo):
    """``evaluate``; where marginal likelihoods are averages over g, the ratio of the targets themselves even if there is a surrogate. Averages
    cost little, and a second stage can hold a chain for long at a model that the surrogate underrates."""
    ratio = evaluate(target, chain, memo)
    if is_averaged(target) and target.slab.surrogate and ratio > -np.inf:
        ratio += second_stage(target, chain, memo)
    return ratio


@inlined
def is_averaged(target):
    """Whether marginal likelihoods are averages over g."""
    return target.slab.grid.shape[0] > 0


@inlined
def has_second_stage(target):
    """Whether proposals that the surrogate accepts are fitted and judged again."""
    return target.slab.surrogate and not is_averaged(target)


@entry
def set_model(target, chain, memo, members, n):
    """``go_to_model`` for Python."""
    return go_to_model(target, chain, memo, members, n)


@routine
def go_to_model(target, chain, memo, members, n):
    """Move the chain to the model members[:n] outright. False if that model has no mass; NEEDED as for
    ``evaluate``."""
    clear(chain)
    for i in range(chain.ints[SIZE]):
        j = chain.order[i]
        stays = False
        for m in range(n):
            if members[m] == j:
                stays = True
                break
        if not stays:
            change(target, chain, j)
    for m in range(n):
        if chain.position[members[m]] < 0:
            change(target, chain, members[m])
    if evaluate(target, chain, memo) == -np.inf:
        return False
    if target.slab.surrogate and second_stage(target, chain, memo) == -np.inf:
        return False
    accept(target, chain)
    return True
