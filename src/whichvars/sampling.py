"""``sample()``: replicates × chunks, warm-up, stopping, threads, progress, interrupt. Knows no algorithm.

Results depend on the problem, the sampler's settings, the seed and the numbers of draws, warm-up iterations
and replicates, and on `target_mcse`; not on threads, chunks or timing, unless a `budget` of time runs out.
"""

import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import fields, replace
from typing import Any

import numpy as np

from whichvars import storage
from whichvars.budgets import parse_budget
from whichvars.checkpoint import Checkpoint, Plan, Replicate, Settings, fingerprint, locked
from whichvars.choosing import check_sampler, choose
from whichvars.diagnostics import ACCEPTABLE, disagreement, lost_arithmetic
from whichvars.enumeration import exact
from whichvars.errors import ArgumentTypeError, ConvergenceWarning, DataError
from whichvars.estimates import combine, combine_pips, estimate_of, look_at
from whichvars.interrupts import Asked, listen
from whichvars.posterior import Posterior, cpu_clock
from whichvars.problem import Problem, check_problem
from whichvars.progress import Progress, Report
from whichvars.samplers.run import Run, Sampler, begin_counting
from whichvars.seeding import plain_entropy, plain_seed, replicate_seeds
from whichvars.starts import starting_models

CHUNK_SECONDS = 0.2
DRAWS = 1_000_000  # if not given
ENOUGH_WARMUP = 100_000  # iterations, where the number of draws is not known beforehand
FIRST_CHECK, GROWTH = 20_000, 1.4  # draws at which accuracy is first looked at, and from one look to the next
WARMUP_SHARE = 0.2  # of a time budget, at most


def sample(
    problem: Problem,
    sampler: Sampler | str = "auto",
    *,
    draws: int | None = None,
    warmup: int | None = None,
    replicates: int = 4,
    threads: int | None = None,
    seed: int | np.random.SeedSequence | None = 0,
    start: Any = None,
    budget: str | float | None = None,
    target_mcse: float | None = None,
    rao_blackwell: bool = True,
    progress: bool | Callable[[Report], None] = True,
    checkpoint: str | os.PathLike[str] | None = None,
    every: str | float = "30s",
    chunk: int | None = None,
) -> Posterior:
    """Sample the posterior distribution over models.

    Parameters
    ----------
    problem : Problem
    sampler : sampler object or "auto"
        "auto": every model is looked at, and the answer is exact, where that takes about a second (up to 20
        variables) and `draws` is not given; else ``Hybrid()``. ``posterior.explain()`` says which it was.
    draws : int
        Iterations counted per replicate, divided among its chains. A million if not given; with `budget`, as many
        as there is time for.
    warmup : int
        Iterations per replicate before counting starts. A tenth of `draws` if not given, 100,000 at most where
        `budget` or `target_mcse` may end the run earlier.
    replicates : int
        Independent runs. Monte Carlo errors and warnings of disagreement rest on them: at least 2, better 4.
    threads : int
        Threads; all cores if not given. Results do not depend on it.
    seed : int, SeedSequence or None
        Results repeat exactly with the same seed; None takes a new one each time.
    start : "null", "prior", "screening", "forward", "mixed", a model or a list of models
        Where chains start; "mixed" if not given: prior draws and draws by marginal correlation in turn.
    budget : str or float
        Wall time, such as "90s", "2m" or a number of seconds: counting ends when it is over, and a fifth of it at
        most is warm-up. What is reached then depends on the machine and does not repeat.
    target_mcse : float
        Stop as soon as every inclusion probability has a Monte Carlo error below this, looked at after 20,000
        draws and again whenever there are 1.4 times as many. Repeats exactly.
    rao_blackwell : bool
        Average conditional inclusion probabilities along the run as well, where the sampler does not live by them
        anyway. They take up to half of the time and are usually worth far more.
    progress : bool or callable
        Show a progress bar in a terminal or notebook, or call a function with a ``Report`` a few times a
        second.
    checkpoint : path
        Directory in which the run is kept while it goes on, so that it can be killed at any moment: ``resume`` goes on
        from there, and so does calling this function again with the same arguments. The numbers are the same, bit for
        bit, as if nothing had happened. It stays when the run is done, for ``extend``. Not used where every model is
        looked at.
    every : str or float
        Time between two checkpoints of a replicate; more where writing one would take over 2 % of it.
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
    >>> float(wv.sample(problem).inclusion_probabilities["Ed"].round(4))  # 15 variables: exact
    0.9776
    """
    check_problem(problem, "sample")
    asked = {
        "draws": draws, "warmup": warmup, "replicates": replicates, "seed": plain_seed(seed), "start": start if isinstance(start, str) else None,
        "budget": budget, "target_mcse": target_mcse,
    }  # fmt: skip
    seconds = None if budget is None else _seconds(budget)
    _plan(
        1, draws, warmup, seconds, target_mcse
    )  # what is wrong is wrong even where "auto" has no use for it
    replicates = _whole(replicates, "replicates", 1)
    threads = (os.cpu_count() or 1) if threads is None else _whole(threads, "threads", 1)
    chunk = None if chunk is None else _whole(chunk, "chunk", 1)
    chosen = None
    if isinstance(sampler, str) and sampler == "auto":
        chosen = choose(problem, draws, seconds)
        if chosen.sampler is None:
            return replace(exact(problem), settings=asked, chosen=chosen.why)
        sampler = chosen.sampler
    why = chosen.why if chosen else ""
    sampler = check_sampler(sampler)
    by_draws = getattr(sampler, "by_draws", True)
    if not by_draws and not (draws is warmup is start is target_mcse is seconds is None):
        raise DataError(
            f"{type(sampler).__name__} takes no draws, warmup, start, budget or target_mcse: its size is `particles` and `steps`, "
            "and it starts from the prior"
        )
    plan = _plan(sampler.chains, draws, warmup, seconds, target_mcse) if by_draws else Plan(0, 1 << 62)
    seeds = replicate_seeds(seed, replicates)
    settings = Settings(
        sampler, plan, plain_entropy(seeds[0]), list(seeds[0].spawn_key[:-1]), replicates, start, rao_blackwell, asked, why
    )  # fmt: skip
    with locked(checkpoint, every) as keeper:
        found: dict[int, Replicate] = {}
        if keeper is not None and keeper.exists():
            settings = _same_run(keeper, problem, settings)
            found = keeper.replicates()
        elif keeper is not None:
            keeper.begin(problem, settings)
        return carry_out(problem, settings, keeper, found, threads, chunk, progress)


def _same_run(keeper: Checkpoint, problem: Problem, settings: Settings) -> Settings:
    """The settings of the run in a directory, if it is the one asked for."""
    _, before, data = keeper.read_run()
    where = f"{keeper.directory} holds the checkpoint of another run"
    advice = "name another directory, or remove this one"
    if data != fingerprint(problem):
        raise DataError(f"{where}, with other data or priors: {advice}")
    if settings.asked["seed"] is None:
        settings = replace(settings, entropy=before.entropy, path=before.path)
    known = {**keeper.known, Settings.__name__: Settings}
    names = [f.name for f in fields(Settings) if f.name not in ("asked", "chosen")]
    other = [
        name
        for name in names
        if storage.digest_of(getattr(before, name), known)
        != storage.digest_of(getattr(settings, name), known)
    ]
    if other:
        words = {"plan": "draws, warmup, budget or target_mcse", "entropy": "seed", "path": "seed"}
        differ = ", ".join(dict.fromkeys(words.get(name, name) for name in other))
        raise DataError(f"{where}, which differs in {differ}: {advice}; resume() goes on with what is there")
    return before


def carry_out(
    problem: Problem,
    settings: Settings,
    keeper: Checkpoint | None,
    found: dict[int, Replicate],
    threads: int | None,
    chunk: int | None,
    progress: bool | Callable[[Report], None],
) -> Posterior:
    """Start a run, or go on with the replicates that were `found`, and say what came of it."""
    sampler, plan = settings.sampler, settings.plan
    threads = (os.cpu_count() or 1) if threads is None else _whole(threads, "threads", 1)
    chunk = None if chunk is None else _whole(chunk, "chunk", 1)
    replicates = [
        found[i]
        if i in found
        else Replicate(
            sampler.init(problem, seed, starting_models(problem, settings.start, seed, sampler.chains))
        )
        for i, seed in enumerate(settings.seeds())
    ]
    runs = [replicate.run for replicate in replicates]
    by_draws = getattr(sampler, "by_draws", True)
    spare = max(1, threads // len(runs))
    total = (plan.warmup + plan.draws) * sampler.chains * len(runs) if by_draws else None
    with listen(keeper is not None) as asked, Progress(progress, total, sampler, plan.seconds) as bar:
        with ThreadPoolExecutor(threads) as outer, ThreadPoolExecutor(threads) as inner:
            pool = inner if spare > 1 else None
            loop = _Loop(problem, settings, replicates, chunk, pool, spare, keeper, asked)
            if keeper is not None:
                keeper.start_clock(len(runs))
            stopped = loop.run(outer, min(threads, len(runs)), bar)
        if keeper is not None and (keeper.keeps_end or stopped == "interrupted"):
            for i in range(len(runs)):
                keeper.write(i, loop.snapshot(i))
    counted = [run for i, run in enumerate(runs) if loop.has_counted(i)]
    go_on = f"; go on with whichvars.resume({str(keeper.directory)!r})" if keeper else ""
    if not counted:  # it was interrupted
        raise KeyboardInterrupt(f"interrupted before anything was counted{go_on}")
    if stopped in ("interrupted", "budget"):  # replicates that have counted nothing yet have nothing to say
        runs = counted
    estimates = [estimate_of(problem, sampler, run, i) for i, run in enumerate(runs)]
    kept = {} if keeper is None else {"checkpoint": str(keeper.directory)}
    posterior = replace(
        combine(problem, sampler, runs, estimates, sum(loop.cpu)),
        settings=settings.asked | kept,
        chosen=settings.chosen,
        stopped=stopped,
    )
    if stopped == "interrupted":
        warnings.warn(
            f"interrupted after {posterior.iterations:,} iterations; the result is what was counted until then{go_on}",
            ConvergenceWarning,
            stacklevel=3,
        )
    _warn_of_trouble(posterior)
    return posterior


def _plan(chains: int, draws: Any, warmup: Any, seconds: float | None, target: float | None) -> Plan:
    open_ended = seconds is not None or target is not None
    if target is not None and not (isinstance(target, (int, float, np.number)) and 0 < target < 1):
        raise DataError(f"target_mcse must be a number between 0 and 1, such as 0.01, not {target!r}")
    whole = _whole(draws, "draws", 1) if draws is not None else DRAWS if seconds is None else 1 << 50
    most = ENOUGH_WARMUP if open_ended else whole
    warm = min(whole // 10, most) if warmup is None else _whole(warmup, "warmup", 0)
    each = [-(-n // chains) for n in (warm, whole, FIRST_CHECK)]
    return Plan(each[0], each[1], seconds, None if target is None else float(target), each[2])


def _seconds(budget: Any) -> float:
    found = parse_budget(budget)
    if found.seconds is None:
        raise DataError(
            f'budget {budget!r} has no unit: give a time such as "90s", or the number of draws as draws='
        )
    return found.seconds


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
        settings: Settings,
        replicates: list[Replicate],
        chunk: int | None,
        inner: ThreadPoolExecutor | None,
        spare: int,
        keeper: Checkpoint | None,
        asked: Asked,
    ) -> None:
        self.problem, self.sampler, self.plan = problem, settings.sampler, settings.plan
        self.by_draws, self.rao_blackwell = getattr(self.sampler, "by_draws", True), settings.rao_blackwell
        self.chunk, self.inner, self.spare, self.keeper, self.asked = chunk, inner, spare, keeper, asked
        self.runs = [replicate.run for replicate in replicates]
        self.counting = [replicate.counting for replicate in replicates]
        self.cpu = [replicate.cpu_seconds for replicate in replicates]
        self.chunks = [chunk or 1000] * len(replicates)
        self.started = time.monotonic() - max(replicate.seconds for replicate in replicates)
        first = self.plan.draws if self.plan.target is None else min(self.plan.first_check, self.plan.draws)
        self.check = min(self.plan.draws, max(first, *(replicate.check for replicate in replicates)))

    def snapshot(self, index: int) -> Replicate:
        """A replicate as it is now; not a copy."""
        seconds = time.monotonic() - self.started
        return Replicate(self.runs[index], self.counting[index], self.check, seconds, self.cpu[index])

    def _begin_counting(self, index: int) -> None:
        self.counting[index] = True
        if hasattr(self.sampler, "begin_counting"):
            self.sampler.begin_counting(self.problem, self.runs[index])
        elif self.by_draws:
            begin_counting(self.problem, self.runs[index], self.rao_blackwell)

    def has_counted(self, index: int) -> bool:
        """Whether a replicate has anything to say yet."""
        return self._counted(index) > 0 if self.by_draws else self.runs[index].finished

    def _counted(self, index: int) -> int:
        """Iterations of each chain of a replicate since warm-up."""
        return self.runs[index].iterations - self.runs[index].warmup if self.counting[index] else 0

    def _time_is_up(self, share: float = 1.0) -> bool:
        seconds = self.plan.seconds
        return seconds is not None and time.monotonic() - self.started > share * seconds

    def _unfinished(self) -> list[int]:
        """Replicates that have something to do before accuracy is looked at."""
        indices = range(len(self.runs))
        return [i for i in indices if not self.runs[i].finished and self._counted(i) < self.check]

    def _goes_on(self) -> bool:
        """Whether there is more to do when all replicates have counted `check` draws."""
        if self.check >= self.plan.draws or self._is_accurate():
            return False
        self.check = min(self.plan.draws, int(GROWTH * self.check))
        return True

    def run(self, outer: ThreadPoolExecutor, width: int, bar: Progress) -> str:
        """Why it stopped."""
        indices = range(len(self.runs))
        for index in indices:
            if self.plan.warmup == 0 and not self.counting[index]:
                self._begin_counting(index)
        waiting, working = self._unfinished(), dict[Future[None], int]()
        stopped = "budget" if self._time_is_up() and any(map(self.has_counted, indices)) else ""
        while waiting or working or (not stopped and self._goes_on()):
            try:
                if not waiting and not working:
                    waiting = self._unfinished()
                if self.asked.times:
                    stopped = stopped or "interrupted"
                while waiting and len(working) < width and not stopped:
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
                    future.result()
                    if not self.runs[index].finished and self._counted(index) < self.check:
                        waiting.append(index)
                bar.update(self.runs, idle=[r for i, r in enumerate(self.runs) if i not in working.values()])
                if self._time_is_up() and any(map(self.has_counted, indices)):
                    stopped = stopped or "budget"
            except KeyboardInterrupt:
                nothing = self.keeper is None and not any(map(self.has_counted, indices))
                if self.asked.times or stopped == "interrupted" or nothing:
                    raise
                stopped = "interrupted"
        if stopped:
            return stopped
        return "target_mcse" if self.plan.target is not None and self._is_accurate() else "draws"

    def _is_accurate(self) -> bool:
        """Whether every inclusion probability is known to `target_mcse`. Called when all replicates have counted
        equally many draws."""
        target, mcse = self.plan.target, combine_pips([look_at(self.sampler, run) for run in self.runs]).mcse
        return target is not None and bool(np.isfinite(mcse).any() and np.nanmax(mcse) <= target)

    def _advance(self, index: int) -> None:
        """One chunk of one replicate, and a checkpoint of it where one is due."""
        run = self.runs[index]
        clock = cpu_clock()
        end = run.warmup + self.check if self.counting[index] else self.plan.warmup
        steps = min(self.chunks[index], end - run.iterations)
        spent = advance_run(self.problem, self.sampler, run, steps, self.inner, self.spare)
        if not self.counting[index] and (
            run.iterations == self.plan.warmup or self._time_is_up(WARMUP_SHARE)
        ):
            self._begin_counting(index)
        spent += cpu_clock() - clock
        if self.chunk is None:
            wanted = steps * CHUNK_SECONDS / max(spent, 1e-6)
            self.chunks[index] = max(1, int(np.clip(wanted, steps / 2, steps * 2)))
        self.cpu[index] += spent
        if self.keeper is not None:
            self.keeper.write_if_due(index, self.snapshot(index))


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
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
    worst = np.nanmax(posterior.mcse, initial=0.0)
    if worst > ACCEPTABLE:
        name = posterior.problem.names[int(np.nanargmax(posterior.mcse))]
        why = disagreement(posterior) or "use more draws, or a larger budget"
        warnings.warn(
            f"inclusion probabilities are not accurate yet: that of {name!r} has a Monte Carlo error of {worst:.2f}; {why}. "
            "posterior.explain() says more",
            ConvergenceWarning,
            stacklevel=4,
        )
    target = posterior.settings.get("target_mcse")
    if target is not None and posterior.stopped != "target_mcse" and target < worst <= ACCEPTABLE:
        warnings.warn(
            f"the run ended ({posterior.stopped}) with a largest Monte Carlo error of {worst:.3g}, above target_mcse = {target:g}; "
            "give it more draws or a larger budget",
            ConvergenceWarning,
            stacklevel=4,
        )
    for message in lost_arithmetic(posterior):
        warnings.warn(message, ConvergenceWarning, stacklevel=4)


__all__ = ["sample"]
