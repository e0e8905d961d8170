"""Choosing which variables a proposal changes."""

from whichvars._kernels.chain import SIZE
from whichvars._kernels.jit import inlined


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
