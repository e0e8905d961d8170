"""Choosing which variables a proposal changes."""

from whichvars._kernels.chain import ADDED, DELETED, SIZE
from whichvars._kernels.jit import inlined, kernel


@inlined
def draw_included(chain, rng):
    """A variable in the model, uniformly."""
    return chain.order[int(rng.random() * chain.ints[SIZE])]


@inlined
def draw_excluded(chain, rng):
    """A variable not in the model, uniformly: by counting where that is short, else by trying again."""
    position = chain.position
    p = position.shape[0]
    size = chain.ints[SIZE]
    if p <= 64 or 2 * size > p:
        left = int(rng.random() * (p - size))
        j = 0
        while True:
            if position[j] < 0:
                if left == 0:
                    return j
                left -= 1
            j += 1
    j = int(rng.random() * p)
    while position[j] >= 0:
        j = int(rng.random() * p)
    return j


@kernel
def draw_new_included(chain, rng):
    """A variable in the model that the proposal does not delete yet, uniformly."""
    already = chain.ints[DELETED]
    left = int(rng.random() * (chain.ints[SIZE] - already))
    i = 0
    while True:
        j = chain.order[i]
        if not _among(chain.deleted, already, j):
            if left == 0:
                return j
            left -= 1
        i += 1


@kernel
def draw_new_excluded(chain, rng):
    """A variable not in the model that the proposal does not add yet, uniformly."""
    position = chain.position
    p = position.shape[0]
    already = chain.ints[ADDED]
    left = p - chain.ints[SIZE] - already
    if p > 64 and 2 * left > p:
        j = int(rng.random() * p)
        while position[j] >= 0 or _among(chain.added, already, j):
            j = int(rng.random() * p)
        return j
    left = int(rng.random() * left)
    j = 0
    while True:
        if position[j] < 0 and not _among(chain.added, already, j):
            if left == 0:
                return j
            left -= 1
        j += 1


@kernel
def _among(values, n, j):
    for i in range(n):
        if values[i] == j:
            return True
    return False
