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
import pandas as pd

from whichvars._kernels.tally import BATCH, BATCH_LENGTH, MODELS, NOW, RECORDS, THIN, settle
from whichvars.errors import ArgumentTypeError, ConvergenceWarning, DataError
from whichvars.posterior import Models, Posterior, combine_replicates, cpu_clock
from whichvars.problem import Problem
from whichvars.progress import Progress, Report
from whichvars.samplers.add_delete_swap import AddDeleteSwap
from whichvars.samplers.run import Run, Sampler, begin_counting, rounding_trouble
from whichvars.seeding import replicate_seeds
from whichvars.starts import starting_models

CHUNK_SECONDS = 0.2


def sample(
    problem: Problem,
    sampler: Sampler | str = "auto",
    *,
    draws: int = 1_000_000,
    warmup: int | None = None,
    replicates: int = 4,
    threads: int | None = None,
    seed: int | None = 0,
    start: Any = None,
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
        Iterations counted per replicate, divided among its chains.
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
    if not isinstance(problem, Problem):
        raise ArgumentTypeError(
            f"sample() needs a Problem first, not {type(problem).__name__}; write sample(Problem(X, y))"
        )
    if sampler == "auto":
        sampler = AddDeleteSwap()
    if isinstance(sampler, str) or not hasattr(sampler, "advance"):
        raise ArgumentTypeError(
            f'sampler must be "auto" or an object such as AddDeleteSwap(), not {sampler!r}'
        )
    draws = _whole(draws, "draws", 1)
    warmup = draws // 10 if warmup is None else _whole(warmup, "warmup", 0)
    replicates = _whole(replicates, "replicates", 1)
    threads = (os.cpu_count() or 1) if threads is None else _whole(threads, "threads", 1)
    chunk = None if chunk is None else _whole(chunk, "chunk", 1)
    phases = (-(-warmup // sampler.chains), -(-draws // sampler.chains))  # iterations per chain

    seeds = replicate_seeds(seed, replicates)
    runs = [sampler.init(problem, s, starting_models(problem, start, s, sampler.chains)) for s in seeds]
    spare = max(1, threads // replicates)
    with Progress(progress, total=sum(phases) * sampler.chains * replicates, problem=problem) as bar:
        with ThreadPoolExecutor(threads) as outer, ThreadPoolExecutor(threads) as inner:
            loop = _Loop(problem, sampler, runs, phases, chunk, inner if spare > 1 else None, spare)
            interrupted = loop.run(outer, min(threads, replicates), bar)
    posterior = _collect(problem, sampler, runs, loop.cpu_seconds)
    if interrupted:
        warnings.warn(
            f"interrupted after {posterior.iterations:,} of {sum(phases) * sampler.chains * replicates:,} iterations; the result is what was "
            "counted until then",
            ConvergenceWarning,
            stacklevel=2,
        )
    _warn_of_trouble(posterior)
    return posterior


def _whole(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer, float)) or value != int(value):
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
        chunk: int | None,
        inner: ThreadPoolExecutor | None,
        spare: int,
    ) -> None:
        self.problem, self.sampler, self.runs, self.phases = problem, sampler, runs, phases
        self.chunk, self.inner, self.spare = chunk, inner, spare
        self.cpu_seconds = 0.0
        self.chunks = [chunk or 1000] * len(runs)

    def run(self, outer: ThreadPoolExecutor, width: int, bar: Progress) -> bool:
        """True if it was interrupted."""
        waiting = list(range(len(self.runs)))
        working: dict[Future[float], int] = {}
        interrupted = False
        for run, index in zip(self.runs, waiting):
            if self.phases[0] == 0:
                begin_counting(run)
            self.chunks[index] = self.chunk or 1000
        while waiting or working:
            try:
                while waiting and len(working) < width and not interrupted:
                    index = waiting.pop(0)
                    working[outer.submit(self._advance, index)] = index
                if not working:
                    break
                done, _ = wait(working, return_when=FIRST_COMPLETED)
                for future in done:
                    index = working.pop(future)
                    self.cpu_seconds += future.result()
                    run = self.runs[index]
                    if run.iterations < sum(self.phases):
                        waiting.append(index)
                bar.update(self.runs, idle=[r for i, r in enumerate(self.runs) if i not in working.values()])
            except KeyboardInterrupt:
                if interrupted or not any(run.warmup or self.phases[0] == 0 for run in self.runs):
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
            begin_counting(run)
        spent += cpu_clock() - clock
        if self.chunk is None:
            self.chunks[index] = int(np.clip(steps * CHUNK_SECONDS / max(spent, 1e-6), steps / 2, steps * 2))
        return spent


def advance_run(
    problem: Problem, sampler: Sampler, run: Run, iterations: int, pool: ThreadPoolExecutor | None, width: int
) -> float:
    """Advance all units of a replicate, with a barrier every ``run.round`` iterations; returns CPU seconds
    spent in other threads."""
    elsewhere = 0.0

    def advance_units(units: range, steps: int) -> float:
        clock = cpu_clock()
        for unit in units:
            sampler.advance(problem, run, unit, steps)
        return cpu_clock() - clock

    while iterations > 0:
        steps = iterations if run.round is None else min(iterations, run.round - run.iterations % run.round)
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
        if run.round is not None and run.iterations % run.round == 0:
            sampler.merge(problem, run)
    return elsewhere


def batch_means(run: Run) -> tuple[np.ndarray, np.ndarray, int]:
    """PIPs of one replicate, the variance of each by batch means, and the degrees of freedom; all its chains
    together."""
    for unit in run.units:
        settle(unit.chain, unit.tally)
    tallies = [unit.tally for unit in run.units]
    first = tallies[0].ints
    n, complete, length = int(first[NOW]), int(first[BATCH]), int(first[BATCH_LENGTH])
    counts = np.zeros((complete + 1, tallies[0].batch_counts.shape[1]))
    for tally in tallies:
        counts += tally.batch_counts[: complete + 1]
    mean = counts.sum(axis=0) / max(n * len(tallies), 1)
    if complete < 2:
        return mean, np.zeros_like(mean), 0
    means = counts[:complete] / (length * len(tallies))
    # variance of a batch mean, times its share of the whole run
    return mean, means.var(axis=0, ddof=1) * length / n, complete - 1


def _collect(problem: Problem, sampler: Sampler, runs: list[Run], cpu_seconds: float) -> Posterior:
    estimates = [batch_means(run) for run in runs]
    means = np.array([e[0] for e in estimates])
    pip, mcse = combine_replicates(means, np.array([e[1] for e in estimates]), min(e[2] for e in estimates))
    tallies = [unit.tally for run in runs for unit in run.units]
    sizes = np.sum([t.sizes for t in tallies], axis=0)
    troubles: dict[str, int] = {}
    for run in runs:
        for name, count in rounding_trouble(run).items():
            troubles[name] = troubles.get(name, 0) + count
    return Posterior(
        problem=problem,
        sampler=repr(sampler),
        pip=pip,
        mcse=mcse,
        sizes=sizes / max(sizes.sum(), 1),
        models=_best_models(tallies),
        iterations=sum(run.iterations * len(run.units) for run in runs),
        cpu_seconds=cpu_seconds,
        replicate_pips=means,
        trace=_trace(runs),
        adaptation=[sampler.learned(problem, run) for run in runs],
        troubles=troubles,
    )


def _best_models(tallies: list[Any], keep: int = 10_000) -> Models:
    """The chains' tables put together. Only models above every chain's threshold have exact counts; the
    others are left out."""
    floor = max(float(t.threshold[0]) for t in tallies)
    found: dict[tuple[int, ...], list[float]] = {}
    for tally in tallies:
        for e in range(int(tally.ints[MODELS])):
            marginal, prior = tally.model_values[e]
            if marginal + prior > floor:
                key = tuple(sorted(tally.pool[tally.model_start[e] : tally.model_start[e + 1]].tolist()))
                entry = found.setdefault(key, [float(marginal), float(prior), 0.0])
                entry[2] += float(tally.model_count[e])
    order = sorted(found, key=lambda m: (-(found[m][0] + found[m][1]), m))[:keep]
    values = np.array([found[m] for m in order]).reshape(-1, 3)
    total = max(sum(int(t.ints[NOW]) for t in tallies), 1)
    return Models(order, values[:, 0], values[:, 1], values[:, 2] / total)


def _trace(runs: list[Run]) -> pd.DataFrame:
    """Thinned model size and log posterior (up to a constant) by replicate and chain."""
    parts = []
    for replicate, run in enumerate(runs):
        for chain, unit in enumerate(run.units):
            n, thin = int(unit.tally.ints[RECORDS]), int(unit.tally.ints[THIN])
            parts.append(
                pd.DataFrame(
                    {
                        "replicate": replicate,
                        "chain": chain,
                        "iteration": thin * np.arange(1, n + 1),
                        "size": unit.tally.record_size[:n],
                        "log_posterior": unit.tally.record_values[:n].sum(axis=1),
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def _warn_of_trouble(posterior: Posterior) -> None:
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
