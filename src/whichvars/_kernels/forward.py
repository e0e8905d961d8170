"""Forward selection on the posterior: a starting model that is better than none."""

from whichvars._kernels.chain import SIZE, accept, change, clear, evaluate
from whichvars._kernels.jit import entry


@entry
def select_forward(target, chain, memo, max_size):
    """Add the variable that raises the log posterior most, again and again, until none raises it."""
    p = chain.position.shape[0]
    while chain.ints[SIZE] < max_size:
        best = -1
        gain = 0.0
        for j in range(p):
            if chain.position[j] < 0:
                clear(chain)
                change(target, chain, j)
                ratio = evaluate(target, chain, memo)
                if ratio > gain:
                    best = j
                    gain = ratio
        if best < 0:
            return
        clear(chain)
        change(target, chain, best)
        evaluate(target, chain, memo)
        accept(target, chain)
