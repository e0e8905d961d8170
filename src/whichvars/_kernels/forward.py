"""Forward selection on the posterior: a starting model that is better than none."""

from whichvars._kernels.chain import SIZE, accept, change, clear
from whichvars._kernels.evaluate import evaluate
from whichvars._kernels.jit import entry, kernel


@entry
def select_forward(target, chain, memo, max_size):
    """Add the variable that raises the log posterior most, again and again, until none raises it."""
    p = chain.position.shape[0]
    while chain.ints[SIZE] < max_size:
        best = -1
        gain = 0.0
        for j in range(p):
            if chain.position[j] < 0:
                ratio = _propose(target, chain, memo, j)
                if ratio > gain:
                    best = j
                    gain = ratio
        if best < 0:
            return
        _propose(target, chain, memo, best)
        accept(target, chain)


@kernel
def _propose(target, chain, memo, j):
    clear(chain)
    change(target, chain, j)
    return evaluate(target, chain, memo)
