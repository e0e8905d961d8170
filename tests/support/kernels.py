"""Ways into the kernels for tests: they have no wrapper of their own that Python could call."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np

from whichvars._kernels.chain import (
    ADDED,
    DELETED,
    LOG_MARGINAL,
    SCANNED,
    Chain,
    accept,
    change,
    clear,
    new_chain,
)
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.evaluate import evaluate, set_model
from whichvars._kernels.jit import entry
from whichvars._kernels.scan.scan import scan, scan_odds
from whichvars.problem.problem import Problem


def from_python(kernel: Any) -> Callable[..., Any]:
    """A compiled function of the same arguments that does nothing but call `kernel`."""
    if not hasattr(kernel, "py_func"):  # the JIT is disabled
        return kernel
    names = ", ".join(inspect.signature(kernel.py_func).parameters)
    namespace: dict[str, Any] = {"kernel": kernel}
    exec(f"def call({names}):\n    return kernel({names})", namespace)
    return numba.njit(error_model="numpy")(namespace["call"])


@entry
def _propose_and_evaluate(target, chain, memo, flips, anew):
    if anew:
        clear(chain)
    for i in range(flips.shape[0]):
        change(target, chain, flips[i])
    return evaluate(target, chain, memo)


def propose_flips(target, chain, memo, flips):
    """Propose to flip all of `flips`; the log ratio of the targets."""
    return _propose_and_evaluate(target, chain, memo, flips, True)


def evaluate_again(target, chain, memo):
    """The log ratio of the proposal that waits in the chain."""
    return _propose_and_evaluate(target, chain, memo, np.zeros(0, np.int64), False)


@entry
def accept_proposal(target, chain):
    accept(target, chain)


def chain_at(problem: Problem, members: Sequence[int]) -> Chain | None:
    """A fresh chain moved to a model in one step; None where the model has no mass."""
    model = np.array(members, np.int64)
    capacity = max(1, int(np.diff(problem.offsets)[model].sum()))
    target = problem.target(capacity)
    chain = new_chain(target, capacity, cache_bytes=0)
    return chain if set_model(target, chain, new_memo(0), model, len(model)) else None


def log_marginal_of(problem: Problem, members: Sequence[int]) -> float:
    """Log marginal likelihood of one model relative to the null model, from scratch."""
    if np.diff(problem.offsets)[list(members)].sum() > problem.max_columns:
        return -np.inf
    chain = chain_at(problem, members)
    return -np.inf if chain is None else float(chain.floats[LOG_MARGINAL])


@entry
def scan_odds_model(target, chain, work):
    """``scan_odds`` for Python."""
    return scan_odds(target, chain, work)


@entry
def walk_and_scan(target, chain, memo, kept, fresh, rng, steps):
    """Random flips of one to three variables, some refused; a scan after each that uses the rows of the last
    one, and one from scratch. Returns the number of log odds whose bits differ, and of flips made."""
    p = chain.position.shape[0]
    different = 0
    made = 0
    for _ in range(steps):
        clear(chain)
        first = int(rng.random() * p)
        for i in range(1 + int(rng.random() * 3)):
            change(target, chain, (first + i * 5) % p)
        if evaluate(target, chain, memo) > -np.inf and rng.random() < 0.8:
            made += chain.ints[ADDED] + chain.ints[DELETED]
            accept(target, chain)
        scan(target, chain, kept)
        chain.ints[SCANNED] = 0
        scan(target, chain, fresh)
        for j in range(p):
            if kept.log_odds[j] != fresh.log_odds[j]:
                different += 1
    return different, made
