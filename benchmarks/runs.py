"""One run without a word, and several of them side by side."""

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import whichvars as wv

T = TypeVar("T")


@contextmanager
def quiet() -> Iterator[None]:
    """No word on runs that are too short: what they are worth is measured, not judged.

    The filters of warnings belong to the process, so that only the main thread may change them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        yield


def once(
    problem: wv.Problem, sampler: Any, seed: int, rao_blackwell: bool = True, **size: Any
) -> wv.Posterior:
    """One run: a single replicate on a single thread."""
    with quiet():
        return wv.sample(
            problem, sampler, replicates=1, threads=1, seed=seed, rao_blackwell=rao_blackwell, progress=False, **size
        )  # fmt: skip


def side_by_side(jobs: Sequence[Callable[[], T]], threads: int = 1) -> list[T]:
    """What the jobs return, in their order; `threads` of them run at a time."""
    with quiet():
        if threads == 1:
            return [job() for job in jobs]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda job: job(), jobs))
