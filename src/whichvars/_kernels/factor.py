"""The Cholesky factor of a chain's model, and of a proposal: brought up to date only as far as is needed."""

import math

import numpy as np

from whichvars._kernels.chain import (
    ADDED,
    BREAKDOWNS,
    COLUMNS,
    DELETED,
    EVALUATIONS,
    PERFECT,
    SIZE,
    TAIL,
    VALID,
)
from whichvars._kernels.evidence import INDEPENDENT, SMALLEST_TOLERANCE, fits_perfectly, log_marginal
from whichvars._kernels.jit import kernel
from whichvars._kernels.linalg import append, smallest_tolerance, sum_log
from whichvars._kernels.products.gram_cache import product


@kernel
def fill_products(target, chain, row):
    """Products of the column in `row` with all the columns before it, whether or not a proposal deletes
    them."""
    column, slot = chain.column[row], chain.slot[row]
    for r in range(row):
        chain.products[slot, chain.slot[r]] = product(
            target.design, chain.gram_cache, column, chain.column[r]
        )
    chain.filled[slot] = True


@kernel
def pivot_is_sound(slab, column, pivot):
    if slab.code == INDEPENDENT:
        return pivot > 0.5 * slab.ridge[column]  # never below the ridge but by rounding
    return pivot > SMALLEST_TOLERANCE


@kernel
def extend_head(target, chain, stop):
    """Bring the factor's rows up to order position `stop` up to date. False if rounding forbids."""
    first = chain.row[chain.ints[VALID]]
    last = chain.row[stop]
    head, inverse, solved = chain.head, chain.head_inverse, chain.head_solved
    columns, slots, work, products = chain.column, chain.slot, chain.work, chain.products
    for i in range(first, last):
        column, slot = columns[i], slots[i]
        if not chain.filled[slot]:
            fill_products(target, chain, i)
        for r in range(i):
            work[r] = products[slot, slots[r]]
        diagonal = target.design.diagonal[column] + target.slab.ridge[column]
        pivot = append(
            head, inverse, solved, i, head, inverse, solved, i, work, diagonal, target.design.xty[column]
        )
        if not pivot > 0.0:  # this model was found sound when it was entered
            return False
    if stop > chain.ints[VALID]:
        chain.ints[VALID] = stop
    return True


@kernel
def factor_proposal(target, chain):
    """Log marginal likelihood of the proposed model from its factor: shared head, own tail."""
    ints = chain.ints
    design, slab = target.design, target.slab
    offsets = design.offsets
    ints[EVALUATIONS] += 1

    # 1. the first order position that changes; everything before it is shared
    split_at = ints[SIZE]
    for i in range(ints[DELETED]):
        split_at = min(split_at, chain.position[chain.deleted[i]])
    if not extend_head(target, chain, split_at):
        ints[BREAKDOWNS] += 1
        return -np.inf
    split = chain.row[split_at]

    # 2. which columns stand in the tail: those that stay behind the split, then those that enter
    tail_column, tail_slot = chain.tail_column, chain.tail_slot
    n = split
    for q in range(split_at, ints[SIZE]):
        j = chain.order[q]
        stays = True
        for i in range(ints[DELETED]):
            if chain.deleted[i] == j:
                stays = False
                break
        if stays:
            for r in range(chain.row[q], chain.row[q + 1]):
                if not chain.filled[chain.slot[r]]:
                    fill_products(target, chain, r)
                tail_column[n] = chain.column[r]
                tail_slot[n] = chain.slot[r]
                n += 1
    top = chain.slot.shape[0] - ints[COLUMNS]
    for i in range(ints[ADDED]):
        j = chain.added[i]
        for column in range(offsets[j], offsets[j + 1]):
            top -= 1
            tail_column[n] = column
            tail_slot[n] = chain.free[top]
            n += 1
    first_added = n - (chain.slot.shape[0] - ints[COLUMNS] - top)

    # 3. factor the tail
    columns, slots, work, products = chain.column, chain.slot, chain.work, chain.products
    head, head_inverse, head_solved = chain.head, chain.head_inverse, chain.head_solved
    tail, tail_inverse, tail_solved = chain.tail, chain.tail_inverse, chain.tail_solved
    diagonals, ridge, xty = design.diagonal, slab.ridge, design.xty
    for i in range(split, n):
        column, slot = tail_column[i], tail_slot[i]
        if i >= first_added:
            for r in range(split):
                work[r] = product(design, chain.gram_cache, column, columns[r])
                products[slot, slots[r]] = work[r]
            for r in range(split, i):
                work[r] = product(design, chain.gram_cache, column, tail_column[r])
                products[slot, tail_slot[r]] = work[r]
        else:
            for r in range(split):
                work[r] = products[slot, slots[r]]
            for r in range(split, i):
                work[r] = products[slot, tail_slot[r]]
        pivot = append(
            head, head_inverse, head_solved, split, tail, tail_inverse, tail_solved, i, work,
            diagonals[column] + ridge[column], xty[column],
        )  # fmt: skip
        if not pivot_is_sound(slab, column, pivot):
            if slab.code == INDEPENDENT:
                ints[BREAKDOWNS] += 1
            return -np.inf
    ints[TAIL] = split_at

    # 4. the log marginal likelihood
    log_determinant = -sum_log(head_inverse, 0, split) - sum_log(tail_inverse, split, n)
    if (
        slab.code != INDEPENDENT
        and 2.0 * log_determinant
        < math.log(SMALLEST_TOLERANCE)  # det ≤ smallest tolerance: only now can it fail
        and smallest_tolerance(head, head_inverse, split, tail, tail_inverse, n, work) < SMALLEST_TOLERANCE
    ):
        return -np.inf
    explained = 0.0
    sum_half_log_g = 0.0
    half_log_g = slab.half_log_g
    for r in range(split):
        explained += head_solved[r] * head_solved[r]
        sum_half_log_g += half_log_g[columns[r]]
    for r in range(split, n):
        explained += tail_solved[r] * tail_solved[r]
        sum_half_log_g += half_log_g[tail_column[r]]
    if fits_perfectly(slab, explained):
        ints[PERFECT] += 1
    return log_marginal(slab, n, explained, sum_half_log_g, log_determinant)
