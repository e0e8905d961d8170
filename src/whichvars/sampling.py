"""``sample()``: replicates × chunks, warm-up, threads, progress, interrupt. Knows no algorithm.

Results depend on the problem, the sampler's settings, the seed and the numbers of draws, warm-up iterations
and replicates; not on threads, chunks or timing.
"""

import os
import warnings
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from whichvars.errors import ArgumentTypeError, ConvergenceWarning, DataError
from whichvars.estimates import combine, estimate_of
from whichvars.posterior import Posterior, cpu_clock
from whichvars.problem import Problem, check_problem
from whichvars.progress import Progress, Report
from whichvars.samplers.add_delete_swap import AddDeleteSwap
from whichvars.samplers.run import Run, Sampler, begin_counting
from whichvars.seeding import replicate_seeds
from whichvars.starts import starting_models

CHUNK_SECONDS = 0.2
ACCEPTABLE = 0.05  # Monte Carlo error of an inclusion probability above which a run is not called accurate


def sample(
    problem: Problem,
    sampler: Sampler | str = "auto",
    *,
    draws: int | None = None,
    warmup: int | None = None,
    replicates: int = 4,
    threads: int | None = None,
    seed: int | None = 0,
    start: Any = None,
    rao_blackwell: bool = True,
    progress: bool | Callable[[Report], None] = True,
    chunk: int | None = None,
) -> Posterior:
    """Sample the posterior distribution over models.

    Parameters
    ----------
    problem : Problem
    sampler : sampler object or "auto"
        For instance ``AddDeleteSwap()``, which "auto" stands for.
    draws : int
        Iterations counted per replicate, divided among its chains; a million if not given.
    warmup : int
        Iterations per replicate before counting starts; a tenth of `draws` if not given.
    replicates : int
        Independent runs. Monte Carlo errors and warnings of disagreement rest on them: at least 2, better 4.
    threads : int
        Threads; all cores if not given. Results do not depend on it.
    seed : int or None
        Results repeat exactly with the same seed; None takes a new one each time.
    start : "null", "prior", "screening", "forward", "mixed", a model or a list of models
        Where chains start; "mixed" if not given: prior draws and draws by marginal correlation in turn.
    rao_blackwell : bool
        Average conditional inclusion probabilities along the run as well. They take up to half of the time and
        are usually worth far more.
    progress : bool or callable
        Show a progress bar in a terminal or notebook, or call a function with a ``Report`` a few times a
        second.
    chunk : int
        Iterations between two looks at the clock; chosen by time if not given. Results do not depend on it.

    Returns
    -------
    Posterior

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47), model_prior=wv.FixedInclusion(h=0.5))
    >>> posterior = wv.sample(problem, draws=50_000, seed=1, progress=False)
    >>> bool(abs(posterior.inclusion_probabilities["Ed"] - 0.9776) < 4 * posterior.inclusion_mcse["Ed"])
    True
    """
    check_problem(problem, "sample")
    if sampler == "auto":
        sampler = AddDeleteSwap()
    if isinstance(sampler, (str, type)) or not hasattr(sampler, "advance"):
        raise ArgumentTypeError(
            f'sampler must be "auto" or an object such as AddDeleteSwap(), not {sampler!r}'
        )
    by_draws = getattr(sampler, "by_draws", True)
    if not by_draws and (draws is not None or warmup is not None or start is not None):
        raise DataError(
            f"{type(sampler).__name__} takes no draws, warmup or start: its size is `particles` and `steps`, and it starts from the prior"
        )
    draws = 1_000_000 if draws is None else _whole(draws, "draws", 1)
    warmup = draws // 10 if warmup is None else _whole(warmup, "warmup", 0)
    replicates = _whole(replicates, "replicates", 1)
    threads = (os.cpu_count() or 1) if threads is None else _whole(threads, "threads", 1)
    chunk = None if chunk is None else _whole(chunk, "chunk", 1)
    # iterations per chain; a sampler not sized by draws says itself when it is finished
    phases = (-(-warmup // sampler.chains), -(-draws // sampler.chains)) if by_draws else (0, 1 << 62)

    seeds = replicate_seeds(seed, replicates)
    runs = [sampler.init(problem, s, starting_models(problem, start, s, sampler.chains)) for s in seeds]
    spare = max(1, threads // replicates)
    total = sum(phases) * sampler.chains * replicates if by_draws else None
    with Progress(progress, total, sampler) as bar:
        with ThreadPoolExecutor(threads) as outer, ThreadPoolExecutor(threads) as inner:
            pool = inner if spare > 1 else None
            loop = _Loop(problem, sampler, runs, phases, by_draws, chunk, pool, spare, rao_blackwell)
            interrupted = loop.run(outer, min(threads, replicates), bar)
    if interrupted:  # replicates that have counted nothing yet have nothing to say
        runs = [run for run in runs if loop.has_counted(run)]
    estimates = [estimate_of(problem, sampler, run, i) for i, run in enumerate(runs)]
    posterior = combine(problem, sampler, runs, estimates, loop.cpu_seconds)
    if interrupted:
        warnings.warn(
            f"interrupted after {posterior.iterations:,} iterations; the result is what was counted until then",
            ConvergenceWarning,
            stacklevel=2,
        )
    _warn_of_trouble(posterior)
    return posterior


def _whole(value: Any, name: str, least: int) -> int:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, np.integer, float))
        or not float(value).is_integer()
    ):
        raise ArgumentTypeError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise DataError(f"{name} must be at least {least}, not {value}")
    return int(value)


class _Loop:
    """Advances all replicates, a chunk at a time, each in a thread of its own."""

    def __init__(
        self,
        problem: Problem,
        sampler: Sampler,
        runs: list[Run],
        phases: tuple[int, int],
        by_draws: bool,
        chunk: int | None,
        inner: ThreadPoolExecutor | None,
        spare: int,
        rao_blackwell: bool,
    ) -> None:
        self.problem, self.sampler, self.runs, self.phases = problem, sampler, runs, phases
        self.by_draws, self.chunk, self.inner, self.spare = by_draws, chunk, inner, spare
        self.rao_blackwell = rao_blackwell
        self.cpu_seconds = 0.0
        self.chunks = [chunk or 1000] * len(runs)

    def _begin_counting(self, run: Run) -> None:
        if hasattr(self.sampler, "begin_counting"):
            self.sampler.begin_counting(self.problem, run)
        else:
            begin_counting(self.problem, run, self.rao_blackwell)

    def has_counted(self, run: Run) -> bool:
        """Whether a replicate has anything to say yet."""
        return run.iterations > self.phases[0] if self.by_draws else run.finished

    def run(self, outer: ThreadPoolExecutor, width: int, bar: Progress) -> bool:
        """True if it was interrupted."""
        waiting = list(range(len(self.runs)))
        working: dict[Future[float], int] = {}
        interrupted = False
        for run, index in zip(self.runs, waiting):
            if self.phases[0] == 0 and self.by_draws:
                self._begin_counting(run)
            self.chunks[index] = self.chunk or 1000
        while waiting or working:
            try:
                while waiting and len(working) < width and not interrupted:
                    index = waiting.pop(0)
                    working[outer.submit(self._advance, index)] = index
                if not working:
                    break
                done, _ = wait(working, timeout=1.0, return_when=FIRST_COMPLETED)
                if not done:
                    bar.waiting(self.runs)
                    continue
                for future in done:
                    index = working.pop(future)
                    self.cpu_seconds += future.result()
                    run = self.runs[index]
                    if run.iterations < sum(self.phases) and not run.finished:
                        waiting.append(index)
                bar.update(self.runs, idle=[r for i, r in enumerate(self.runs) if i not in working.values()])
            except KeyboardInterrupt:
                if interrupted or not any(self.has_counted(run) for run in self.runs):
                    raise
                interrupted = True
        return interrupted

    def _advance(self, index: int) -> float:
        """One chunk of one replicate; returns CPU seconds."""
        run = self.runs[index]
        clock = cpu_clock()
        end = self.phases[0] if run.iterations < self.phases[0] else sum(self.phases)
        steps = min(self.chunks[index], end - run.iterations)
        spent = advance_run(self.problem, self.sampler, run, steps, self.inner, self.spare)
        if run.iterations == self.phases[0] and self.phases[0] > 0:
            self._begin_counting(run)
        spent += cpu_clock() - clock
        if self.chunk is None:
            wanted = steps * CHUNK_SECONDS / max(spent, 1e-6)
            self.chunks[index] = max(1, int(np.clip(wanted, steps / 2, steps * 2)))
        return spent


def advance_run(
    problem: Problem, sampler: Sampler, run: Run, iterations: int, pool: ThreadPoolExecutor | None, width: int
) -> float:
    """Advance all units of a replicate, with a barrier wherever ``run.barrier`` says; returns CPU seconds
    spent in other threads."""
    elsewhere = 0.0

    def advance_units(units: range, steps: int) -> float:
        clock = cpu_clock()
        for unit in units:
            sampler.advance(problem, run, unit, steps)
        return cpu_clock() - clock

    while iterations > 0 and not run.finished:
        steps = iterations if run.barrier is None else min(iterations, run.barrier - run.iterations)
        n = len(run.units)
        if pool is None or n == 1:
            advance_units(range(n), steps)
        else:
            shares = [range(s, n, min(width, n)) for s in range(min(width, n))]
            elsewhere += sum(
                f.result() for f in [pool.submit(advance_units, share, steps) for share in shares]
            )
        run.iterations += steps
        iterations -= steps
        if run.iterations == run.barrier:
            sampler.merge(problem, run)
    return elsewhere


def _warn_of_trouble(posterior: Posterior) -> None:
    for message in posterior.warnings:
        warnings.warn(message, ConvergenceWarning, stacklevel=3)
    worst = np.nanmax(posterior.mcse, initial=0.0)
    if worst > ACCEPTABLE:
        name = posterior.problem.names[int(np.nanargmax(posterior.mcse))]
        warnings.warn(
            f"inclusion probabilities are not accurate yet: that of {name!r} has a Monte Carlo error of {worst:.2f}. Use more "
            "draws; if replicates stay apart, ParallelTempering() crosses between modes",
            ConvergenceWarning,
            stacklevel=3,
        )
    if posterior.troubles.get("breakdowns"):
        warnings.warn(
            f"{posterior.troubles['breakdowns']} models could not be factorised to working precision and were given no mass; "
            "columns are nearly collinear at very different scales: use scale='unit'",
            ConvergenceWarning,
            stacklevel=3,
        )
    if posterior.troubles.get("perfect_fits"):
        warnings.warn(
            "some models fit y perfectly to rounding; their probabilities relative to one another rest on that rounding. "
            "Is y a function of the columns? Otherwise give noise=InverseGamma(a, b)",
            ConvergenceWarning,
            stacklevel=3,
        )


__all__ = ["sample"]
