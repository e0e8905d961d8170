"""What a run will take: a short pilot, timed."""

import os
import sys
import tracemalloc
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from whichvars.problem.problem import Problem

FIRST = 500  # iterations of the first pilot
ENOUGH = 0.25  # seconds of the last
DEFAULT_DRAWS = 1_000_000  # of sample()


class Cost(NamedTuple):
    seconds: float
    bytes: float


def estimate_cost(
    problem: "Problem", sampler: Any, draws: int | None, replicates: int, threads: int | None
) -> Cost | None:
    """Seconds and bytes of a run, from short pilots of one replicate; None where a sampler does not go by draws.

    It is rough: at the start models are not yet those of the end, and other programs may come and go.
    """
    if not getattr(sampler, "by_draws", True):
        return None
    draws = draws or DEFAULT_DRAWS
    _pilot(problem, sampler, FIRST)  # compiles or loads kernels, and fills what is kept between runs
    tracemalloc.start()
    try:
        _pilot(problem, sampler, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    begin = _pilot(problem, sampler, 1)
    shorter, before, length, seconds = 1, begin, FIRST, _pilot(problem, sampler, FIRST)
    while seconds - begin < ENOUGH and length < draws:
        shorter, before, length = length, seconds, 4 * length
        seconds = _pilot(problem, sampler, length)
    each = max(seconds - before, 1e-6) / (
        length - shorter
    )  # of the later iterations: the first ones are slower
    width = min(threads or os.cpu_count() or 1, os.cpu_count() or 1, replicates)
    iterations = (draws + draws // 10) * replicates
    return Cost(replicates * begin + iterations * each / width, memory_now(problem) + peak * replicates)


def memory_now(problem: "Problem") -> float:
    """Bytes this process has needed so far; where that cannot be asked, those of the problem's data."""
    try:
        import resource
    except ImportError:  # Windows
        from whichvars.problem.columns import data_bytes

        return float(data_bytes(problem.target(0).design))
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * (
        1 if sys.platform == "darwin" else 1024
    )


def _pilot(problem: "Problem", sampler: Any, draws: int) -> float:
    """Wall seconds of a run of so many draws, compiling not counted: longer ones need kernels that shorter ones do not."""
    import whichvars as wv
    from whichvars.sampling.compiling import clock

    started = clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wv.sample(problem, sampler, draws=draws, warmup=0, replicates=1, threads=1, seed=0, progress=False)
    return clock() - started


def in_time(seconds: float) -> str:
    """A duration as people say it.

    >>> in_time(0.4), in_time(42), in_time(600), in_time(9000)
    ('less than a second', '42 s', '10 min', '2.5 h')
    """
    if seconds < 1:
        return "less than a second"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def in_memory(size: float) -> str:
    """A size as people say it.

    >>> in_memory(3e6), in_memory(2.5e9)
    ('3 MB', '2.5 GB')
    """
    return f"{max(size, 1e6) / 1e6:.0f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"
