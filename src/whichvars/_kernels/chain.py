"""What moves: one chain's model, its factor, and a proposal on its way to being accepted or rejected.

A sampler's step is always the same four calls:

    clear(chain)                      an empty proposal
    change(target, chain, j)          flip variable j in the proposal (each j at most once)
    evaluate(target, chain, memo)     log of [p(y|γ')^t p(γ')] / [p(y|γ)^t p(γ)], t the inverse temperature of
    this chain
    accept(target, chain)             make the proposal the current model

A sampler makes the first two, and ``decide`` (``decide.py``) the others.

Included variables stand in the order in which they entered, so those that stay longest come first in the
factor and a change near the end leaves most of it valid. Three things are computed only when needed: a
product of two columns when both are in a factor for the first time (`products`, addressed by slots that do
not move while a column is in); the factor's rows beyond `VALID` (a proposal accepted on a remembered value
leaves them for later); the tail of a proposal that the memo does not know.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.count.model_table import recall, remember
from whichvars._kernels.evidence import INDEPENDENT, SMALLEST_TOLERANCE, fits_perfectly, log_marginal
from whichvars._kernels.jit import by_reference, entry, inlined, kernel
from whichvars._kernels.linalg import adopt, append, smallest_tolerance, sum_log
from whichvars._kernels.prior import proposed_heredity
from whichvars._kernels.products.gram_cache import GramCache, new_gram_cache, product
from whichvars._kernels.target import Target

# places in Chain.ints
SIZE = 0  # variables in the model
COLUMNS = 1  # columns in the model
VALID = 2  # leading variables whose rows of the factor are current
ADDED = 3  # variables the proposal adds
DELETED = 4  # variables the proposal deletes
TAIL = 5  # order position from which the proposal's tail was computed, −1 if it was not
NEEDED = 6  # columns of capacity a proposal needs and the chain does not have; 0 if none
PENDING = 7  # 1 if a proposal waits for more capacity
BREAKDOWNS = 8  # factorisations lost to rounding under the independent slab
PERFECT = 9  # models evaluated whose residual sum of squares is zero to rounding
EVALUATIONS = 10  # factorisations made
SCANNED = 11  # leading variables whose rows of the last scan are current: see scan.py
AVAILABLE = 12  # variables with parents whose parents are all in; 0 without heredity
NEW_AVAILABLE = 13  # the same of the proposed model
N_INTS = 14

# places in Chain.floats
LOG_MARGINAL = 0  # of the current model, untempered, relative to the null
LOG_PRIOR = 1
INVERSE_TEMPERATURE = 2
NEW_LOG_MARGINAL = 3
NEW_LOG_PRIOR = 4
LOG_PROPOSAL = 5  # log q(γ', γ) − log q(γ, γ') of a waiting proposal
N_FLOATS = 6

NULL_KEY = np.uint64(0x9E3779B97F4A7C15)


@by_reference
class Chain(NamedTuple):
    """State of one chain. `capacity` columns fit; ``grow`` gives a larger copy."""

    ints: np.ndarray
    floats: np.ndarray
    keys: np.ndarray  # (2,) uint64: of the current and of the proposed model
    position: np.ndarray  # (p,) int32: place of each variable in `order`, −1 if out
    order: np.ndarray  # (capacity,) int64: included variables by time of entry
    row: np.ndarray  # (capacity + 1,) int64: first row of each included variable in the factor
    column: np.ndarray  # (capacity,) int64: the column of X of each row
    slot: np.ndarray  # (capacity,) int64: where each row keeps its products
    filled: np.ndarray  # (capacity,) bool, by slot: products with all earlier columns are known
    free: np.ndarray  # (capacity,) int64: slots not in use; the first capacity − COLUMNS are
    products: np.ndarray  # (capacity, capacity), by slot: [later, earlier] = x_laterᵀ x_earlier
    head: np.ndarray
    head_inverse: np.ndarray
    head_solved: np.ndarray
    tail: np.ndarray
    tail_inverse: np.ndarray
    tail_solved: np.ndarray
    tail_column: np.ndarray  # (capacity,) int64
    tail_slot: np.ndarray  # (capacity,) int64
    work: np.ndarray
    added: np.ndarray  # (p,) int32
    deleted: np.ndarray  # (capacity,) int64
    gram_cache: GramCache


def new_chain(target: Target, capacity: int, cache_bytes: int = 64 << 20) -> Chain:
    """A chain at the null model with room for `capacity` columns."""
    p = len(target.design.offsets) - 1
    keys = np.full(2, NULL_KEY, np.uint64)
    floats = np.zeros(N_FLOATS)
    floats[INVERSE_TEMPERATURE] = 1.0
    floats[LOG_PRIOR] = target.prior.log_size[0]
    return Chain(
        ints=np.zeros(N_INTS, np.int64),
        floats=floats,
        keys=keys,
        position=np.full(p, -1, np.int32),
        added=np.zeros(p, np.int32),
        gram_cache=new_gram_cache(target.design, cache_bytes),
        **_capacity_arrays(capacity),
    )


def _capacity_arrays(capacity: int) -> dict[str, np.ndarray]:
    integers = ("order", "column", "slot", "tail_column", "tail_slot", "deleted")
    vectors = ("head_inverse", "head_solved", "tail_inverse", "tail_solved", "work")
    matrices = ("products", "head", "tail")
    return {
        **{name: np.zeros(capacity, np.int64) for name in integers},
        **{name: np.zeros(capacity) for name in vectors},
        **{name: np.zeros((capacity, capacity)) for name in matrices},
        "row": np.zeros(capacity + 1, np.int64),
        "filled": np.zeros(capacity, np.bool_),
        "free": np.arange(capacity - 1, -1, -1),
    }


def grow(chain: Chain, capacity: int) -> Chain:
    """The same chain with room for `capacity` columns; a waiting proposal waits on."""
    old = len(chain.slot)
    larger = _capacity_arrays(capacity)
    for name, array in larger.items():
        if name == "free":
            continue
        before = getattr(chain, name)
        array[tuple(slice(0, n) for n in before.shape)] = before
    unused = old - int(chain.ints[COLUMNS])
    larger["free"][:unused] = chain.free[:unused]
    larger["free"][unused : unused + capacity - old] = np.arange(capacity - 1, old - 1, -1)
    chain.ints[NEEDED] = 0
    return chain._replace(**larger)  # type: ignore[arg-type]


@inlined
def clear(chain):
    """Start an empty proposal."""
    chain.ints[ADDED] = 0
    chain.ints[DELETED] = 0
    chain.keys[1] = chain.keys[0]


@inlined
def change(target, chain, j):
    """Flip variable j in the proposal."""
    if chain.position[j] < 0:
        chain.added[chain.ints[ADDED]] = j
        chain.ints[ADDED] += 1
    else:
        chain.deleted[chain.ints[DELETED]] = j
        chain.ints[DELETED] += 1
    chain.keys[1] ^= target.design.keys[j]


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


@kernel
def _fill(target, chain, row):
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
            _fill(target, chain, i)
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
                    _fill(target, chain, r)
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


@inlined
def evaluate(target, chain, memo):
    """Log ratio of the tempered targets of the proposed and the current model; −inf where the proposal has no
    mass.

    Where the proposal does not fit, ``ints[NEEDED]`` is set and the answer means nothing: grow the chain and
    ask again.
    """
    ints, floats = chain.ints, chain.floats
    ints[TAIL] = -1
    log_prior = proposed_log_prior(target, chain)
    floats[NEW_LOG_PRIOR] = log_prior
    if log_prior == -np.inf:
        return -np.inf
    offsets = target.design.offsets
    columns = ints[COLUMNS]
    for i in range(ints[ADDED]):
        columns += offsets[chain.added[i] + 1] - offsets[chain.added[i]]
    if columns > chain.slot.shape[0]:
        ints[NEEDED] = columns
        return -np.inf
    key = chain.keys[1]
    value = recall(memo, key)
    if math.isnan(value):
        value = factor_proposal(target, chain)
        remember(memo, key, value)
    floats[NEW_LOG_MARGINAL] = value
    tempered = 0.0
    t = floats[INVERSE_TEMPERATURE]
    if value == -np.inf:
        return -np.inf  # no mass at any temperature: such a model is outside the prior's support
    if t > 0.0:
        tempered = t * (value - floats[LOG_MARGINAL])
    return tempered + (log_prior - floats[LOG_PRIOR])


@inlined
def accept(target, chain):
    """Make the proposal the current model."""
    ints = chain.ints
    order, row, position, offsets = chain.order, chain.row, chain.position, target.design.offsets
    capacity = chain.slot.shape[0]
    size, top = ints[SIZE], capacity - ints[COLUMNS]
    first = size
    for i in range(ints[DELETED]):
        first = min(first, position[chain.deleted[i]])
        position[chain.deleted[i]] = -1
    # close the gaps; a deleted variable is one whose position was just set to −1
    q, n = first, row[first]
    n_freed = 0
    for old in range(first, size):
        j = order[old]
        if position[j] < 0:
            for r in range(row[old], row[old + 1]):
                chain.tail_slot[capacity - 1 - n_freed] = chain.slot[
                    r
                ]  # set aside until the entering ones are placed
                n_freed += 1
        else:
            start = n
            for r in range(row[old], row[old + 1]):
                chain.column[n] = chain.column[r]
                chain.slot[n] = chain.slot[r]
                n += 1
            order[q] = j
            position[j] = q
            row[q] = start
            q += 1
    for i in range(ints[ADDED]):
        j = chain.added[i]
        order[q] = j
        position[j] = q
        row[q] = n
        for column in range(offsets[j], offsets[j + 1]):
            top -= 1
            chain.column[n] = column
            chain.slot[n] = chain.free[top]
            chain.filled[chain.free[top]] = ints[TAIL] >= 0
            n += 1
        q += 1
    for i in range(n_freed):
        chain.free[top] = chain.tail_slot[capacity - 1 - i]
        top += 1
    row[q] = n
    ints[SIZE] = q
    ints[COLUMNS] = n
    if ints[TAIL] >= 0:
        adopt(
            chain.head, chain.head_inverse, chain.head_solved, row[first],
            chain.tail, chain.tail_inverse, chain.tail_solved, n,
        )  # fmt: skip
        ints[VALID] = q
    elif ints[VALID] > first:
        ints[VALID] = first
    if ints[SCANNED] > first:
        ints[SCANNED] = first
    chain.keys[0] = chain.keys[1]
    ints[AVAILABLE] = ints[NEW_AVAILABLE]
    chain.floats[LOG_MARGINAL] = chain.floats[NEW_LOG_MARGINAL]
    chain.floats[LOG_PRIOR] = chain.floats[NEW_LOG_PRIOR]


@entry
def set_model(target, chain, memo, members, n):
    """``go_to_model`` for Python."""
    return go_to_model(target, chain, memo, members, n)


@kernel
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
    accept(target, chain)
    return True
