"""What moves: one chain's model, its factor, and a proposal on its way to being accepted or rejected.

A sampler's step is always the same four calls:

    clear(chain)                      an empty proposal
    change(target, chain, j)          flip variable j in the proposal (each j at most once)
    evaluate(target, chain, memo)     log of [p(y|γ')^t p(γ')] / [p(y|γ)^t p(γ)], t the inverse temperature of
    this chain
    accept(target, chain)             make the proposal the current model

A sampler makes the first two, and ``decide`` (``decide.py``) the others. ``evaluate`` is in ``evaluate.py``.

Included variables stand in the order in which they entered, so those that stay longest come first in the
factor and a change near the end leaves most of it valid. Three things are computed only when needed: a
product of two columns when both are in a factor for the first time (`products`, addressed by slots that do
not move while a column is in); the factor's rows beyond `VALID` (a proposal accepted on a remembered value
leaves them for later); the tail of a proposal that the memo does not know.
"""

from typing import Any, NamedTuple

import numpy as np

from whichvars._kernels.averaging import Averaging, new_averaging
from whichvars._kernels.inverse import BEHIND, STATE, Inverse, copy_inverse, follow, new_inverse
from whichvars._kernels.jit import by_reference, inlined, routine
from whichvars._kernels.linalg import adopt
from whichvars._kernels.products.gram_cache import GramCache, new_gram_cache
from whichvars._kernels.target import Target

# places in Chain.ints
SIZE = 0  # variables in the model
COLUMNS = 1  # columns in the model
VALID = 2  # leading variables whose rows of the factor are current
ADDED = 3  # variables the proposal adds
DELETED = 4  # variables the proposal deletes
TAIL = 5  # order position from which the proposal's tail was computed, or one of the two below
# columns of capacity that a proposal needs and the chain does not have; or A_FIT; 0 if nothing is needed
NEEDED = 6
PENDING = 7  # 1 if a proposal waits for what it needs; PASSED if it has passed the first of two stages and waits for a fit
BREAKDOWNS = 8  # factorisations lost to rounding under the independent slab
PERFECT = 9  # models evaluated whose residual sum of squares is zero to rounding
EVALUATIONS = 10  # marginal likelihoods computed
SCANNED = 11  # leading variables whose rows of the last scan are current: see scan.py
AVAILABLE = 12  # variables with parents whose parents are all in; 0 without heredity
NEW_AVAILABLE = 13  # the same of the proposed model
FITS = 14  # models fitted, where the response is not Gaussian
JUDGED = 15  # proposals that came to the second of two stages, flips of a model once each
UPHELD = 16  # those of them that were accepted there
N_INTS = 17

# places in Chain.floats
LOG_MARGINAL = 0  # of the current model, untempered, relative to the null
LOG_PRIOR = 1
INVERSE_TEMPERATURE = 2
NEW_LOG_MARGINAL = 3
NEW_LOG_PRIOR = 4
LOG_PROPOSAL = 5  # log q(γ', γ) − log q(γ, γ') of a waiting proposal
FITTED = 6  # log marginal likelihood of the model whose key is keys[2], from a fit
# the surrogate's log marginal likelihoods of the two models, where the response is not Gaussian and a sampler needs scans
SURROGATE = 7
NEW_SURROGATE = 8
N_FLOATS = 9

# for NEEDED, where the response is not Gaussian: Python must find the proposal's log marginal likelihood by a fit
A_FIT = -(1 << 40)
PASSED = 2  # for PENDING

# for TAIL, where the proposal was not factorised: nothing is known; the products of the columns that it adds are
NO_TAIL, ONLY_PRODUCTS = -1, -2

NULL_KEY = np.uint64(0x9E3779B97F4A7C15)


@by_reference
class Chain(NamedTuple):
    """State of one chain. `capacity` columns fit; ``grow`` gives a larger copy."""

    ints: np.ndarray
    floats: np.ndarray
    # (3,) uint64: of the current and of the proposed model, and of the one that was fitted last
    keys: np.ndarray
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
    inverse: Inverse
    averaging: Averaging


def new_chain(target: Target, capacity: int, cache_bytes: int = 64 << 20) -> Chain:
    """A chain at the null model with room for `capacity` columns."""
    p = len(target.design.offsets) - 1
    keys = np.array([NULL_KEY, NULL_KEY, 0], np.uint64)
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
        **_capacity_arrays(capacity, len(target.slab.grid)),
    )


def _capacity_arrays(capacity: int, values_of_g: int) -> dict[str, Any]:
    integers = ("order", "column", "slot", "tail_column", "tail_slot", "deleted")
    vectors = ("head_inverse", "head_solved", "tail_inverse", "tail_solved", "work")
    matrices = ("products", "head", "tail")
    return {
        **{name: np.zeros(capacity, np.int64) for name in integers},
        **{name: np.zeros(capacity) for name in vectors},
        **{name: np.zeros((capacity, capacity)) for name in matrices},
        "inverse": new_inverse(capacity),
        "averaging": new_averaging(capacity, values_of_g),
        "row": np.zeros(capacity + 1, np.int64),
        "filled": np.zeros(capacity, np.bool_),
        "free": np.arange(capacity - 1, -1, -1),
    }


def grow(chain: Chain, capacity: int) -> Chain:
    """The same chain with room for `capacity` columns; a waiting proposal waits on."""
    old = len(chain.slot)
    larger = _capacity_arrays(capacity, len(chain.averaging.logs))
    for name, array in larger.items():
        if name in ("free", "averaging"):
            continue
        if name == "inverse":
            copy_inverse(chain.inverse, array)
            continue
        before = getattr(chain, name)
        array[tuple(slice(0, n) for n in before.shape)] = before
    unused = old - int(chain.ints[COLUMNS])
    larger["free"][:unused] = chain.free[:unused]
    larger["free"][unused : unused + capacity - old] = np.arange(capacity - 1, old - 1, -1)
    chain.ints[NEEDED] = 0
    return chain._replace(**larger)


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


@routine
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
            chain.filled[chain.free[top]] = ints[TAIL] != NO_TAIL
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
    if ints[TAIL] == ONLY_PRODUCTS:
        follow(chain.inverse, target.design, target.slab, chain.work)
    else:
        chain.inverse.ints[STATE] = BEHIND
    chain.keys[0] = chain.keys[1]
    ints[AVAILABLE] = ints[NEW_AVAILABLE]
    chain.floats[LOG_MARGINAL] = chain.floats[NEW_LOG_MARGINAL]
    chain.floats[LOG_PRIOR] = chain.floats[NEW_LOG_PRIOR]
    if target.slab.surrogate:
        chain.floats[SURROGATE] = chain.floats[NEW_SURROGATE]


@inlined
def scanned_value(target, chain):
    """The log marginal likelihood that scans compare others with: that of the surrogate, if there is one."""
    return chain.floats[SURROGATE] if target.slab.surrogate else chain.floats[LOG_MARGINAL]
