"""``sample()``: replicates × chunks, warm-up, stopping, progress, interrupt. Knows no algorithm, and leaves to an
executor where replicates are advanced.

Results depend on the problem, the sampler's settings, the seed and the numbers of draws, warm-up iterations
and replicates, and on `target_mcse`; not on threads, workers, chunks or timing, unless a `budget` of time runs out.
"""

import os
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from whichvars.data import storage
from whichvars.errors import ArgumentTypeError, ClusterError, ConvergenceWarning, DataError
from whichvars.posterior.diagnostics import doubts, lost_arithmetic
from whichvars.posterior.posterior import Posterior
from whichvars.problem.problem import Problem, check_problem
from whichvars.samplers.contract import Sampler
from whichvars.samplers.seeding import plain_entropy, plain_seed, replicate_seeds
from whichvars.samplers.starts import starting_models
from whichvars.sampling.announcing import Announcer
from whichvars.sampling.checkpoint import Checkpoint, locked, problem_fingerprint
from whichvars.sampling.choosing import check_sampler, choose
from whichvars.sampling.estimates import combine, estimate_of
from whichvars.sampling.exact import exact
from whichvars.sampling.executors import Executor, Pool, Threads
from whichvars.sampling.interrupts import listen
from whichvars.sampling.loop import Loop
from whichvars.sampling.plan import Plan, Replicate, Settings, parse_budget, whole_number
from whichvars.sampling.progress import Progress, Report

# draws, if not given
DRAWS = 1_000_000
# iterations of warm-up, where the number of draws is not known beforehand
ENOUGH_WARMUP = 100_000
# draws at which accuracy is first looked at
FIRST_CHECK = 20_000


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
    executor: Executor | None = None,
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
        Time to spend sampling, such as "90s", "2m" or a number of seconds: wall time, in which compiling does not count.
        All replicates get the same share of it, on however few threads, and a fifth of it at most is warm-up. However
        small it is, each chain makes 512 draws (or `draws`), without which errors could not be estimated; where that takes
        longer, a warning says so. What is reached depends on the machine and does not repeat.
    target_mcse : float
        Stop as soon as every inclusion probability has a Monte Carlo error below this, looked at after 20,000
        draws and again whenever there are 1.4 times as many. Repeats exactly.
    rao_blackwell : bool
        Average conditional inclusion probabilities along the run as well, where the sampler does not live by them
        anyway. They take up to half of the time and are usually worth far more.
    progress : bool or callable
        Show a progress bar in a terminal or notebook, or call a function with a ``Report`` a few times a
        second. While the sampler is being compiled, once per version, a line says so and about how long it will take;
        a function is told by ``report.compiling``, every second from when chains are started.
    checkpoint : path
        Directory in which the run is kept while it goes on, so that it can be killed at any moment: ``resume`` goes on
        from there, and so does calling this function again with the same arguments. The numbers are the same, bit for
        bit, as if nothing had happened. It stays when the run is done, for ``extend``. Not used where every model is
        looked at.
    every : str or float
        Time between two checkpoints of a replicate; more where writing one would take over 2 % of it.
    chunk : int
        Iterations between two looks at the clock; chosen by time if not given. Results do not depend on it.
    executor : executor
        Where the work is done: in `threads` of this process if not given, or by the workers of a cluster, as in
        ``executor=DaskExecutor("tcp://ADDRESS:8786")``. Results do not depend on it. Not used where every model is looked at.

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
    replicates = whole_number(replicates, "replicates", 1)
    who = executor_of(executor, threads)
    chunk = None if chunk is None else whole_number(chunk, "chunk", 1)
    chosen = None
    if isinstance(sampler, str) and sampler == "auto":
        chosen = choose(problem, draws, seconds)
        if chosen.sampler is None:
            return replace(exact(problem, progress=progress is True), settings=asked, chosen=chosen.why)
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
    with locked(checkpoint, every) as saver:
        found: dict[int, Replicate] = {}
        if saver is not None and saver.exists():
            settings = _same_run(saver, problem, settings)
            found = saver.replicates()
        elif saver is not None:
            saver.begin(problem, settings)
        return carry_out(problem, settings, saver, found, who, chunk, progress)


def _same_run(saver: Checkpoint, problem: Problem, settings: Settings) -> Settings:
    """The settings of the run in a directory, if it is the one asked for."""
    _, before, data = saver.read_run()
    where = f"{saver.directory} holds the checkpoint of another run"
    advice = "name another directory, or remove this one"
    if data != problem_fingerprint(problem):
        raise DataError(f"{where}, with other data or priors: {advice}")
    if settings.asked["seed"] is None:
        settings = replace(settings, entropy=before.entropy, path=before.path)
    known = {**saver.known, Settings.__name__: Settings}
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
    saver: Checkpoint | None,
    found: dict[int, Replicate],
    executor: Executor,
    chunk: int | None,
    progress: bool | Callable[[Report], None],
) -> Posterior:
    """Start a run, or go on with the replicates that were `found`, and say what came of it."""
    with Announcer(progress, type(settings.sampler).__name__) as announcer:
        with executor.start(problem, settings.sampler, settings.replicates, chunk) as pool:
            loop, stopped = _advance_all(problem, settings, saver, found, pool, progress, announcer)
        return _conclude(problem, settings, saver, loop, stopped, announcer)


def executor_of(executor: Executor | None, threads: int | None) -> Executor:
    """The executor that was given, or threads of this process."""
    if executor is None:
        return Threads((os.cpu_count() or 1) if threads is None else whole_number(threads, "threads", 1))
    if isinstance(executor, type) or not hasattr(executor, "start"):
        raise ArgumentTypeError(f"executor must be an object such as DaskExecutor(address), not {executor!r}")
    if threads is not None:
        raise DataError("threads are those of this process; with an executor, leave them out")
    return executor


def _advance_all(
    problem: Problem,
    settings: Settings,
    saver: Checkpoint | None,
    found: dict[int, Replicate],
    pool: Pool,
    progress: bool | Callable[[Report], None],
    announcer: Announcer,
) -> tuple[Loop, str]:
    """Advance all replicates until there is a reason to stop; the loop that did it, and the reason."""
    sampler, plan = settings.sampler, settings.plan
    replicates = [
        found[i]
        if i in found
        else Replicate(
            sampler.init(problem, seed, starting_models(problem, settings.start, seed, sampler.chains))
        )
        for i, seed in enumerate(settings.seeds())
    ]
    total = (
        (plan.warmup + plan.draws) * sampler.chains * len(replicates)
        if getattr(sampler, "by_draws", True)
        else None
    )
    bar = Progress(progress, total, sampler, plan.seconds, announcer)
    with listen(saver is not None) as asked, bar:
        loop = Loop(problem, settings, replicates, pool, saver, asked)
        if saver is not None:
            saver.start_clock(len(replicates))
        stopped = loop.run(bar)
        if saver is not None and (saver.keeps_end or stopped == "interrupted"):
            for i in range(len(replicates)):
                saver.write(i, loop.snapshot(i))
    return loop, stopped


def _conclude(
    problem: Problem,
    settings: Settings,
    saver: Checkpoint | None,
    loop: Loop,
    stopped: str,
    announcer: Announcer,
) -> Posterior:
    """What came of a run, with a warning of whatever is wrong with it."""
    sampler, runs = settings.sampler, loop.runs
    counted = [run for i, run in enumerate(runs) if loop.has_counted(i)]
    go_on = f"; go on with whichvars.resume({str(saver.directory)!r})" if saver else ""
    if loop.lost is not None and (saver is not None or not counted):
        kept_too = f"; what was done before its last round is kept{go_on}" if saver else ""
        raise ClusterError(f"{loop.lost}{kept_too}") from loop.lost
    if stopped == "interrupted":  # replicates that have counted nothing yet have nothing to say
        if not counted:
            raise KeyboardInterrupt(f"interrupted before anything was counted{go_on}")
        runs = counted
    estimates = [estimate_of(problem, sampler, run, i) for i, run in enumerate(runs)]
    kept = {} if saver is None else {"checkpoint": str(saver.directory)}
    posterior = combine(problem, sampler, runs, estimates, sum(loop.cpu))
    announcer.stop()  # warnings need a line of their own
    posterior = replace(
        posterior,
        warnings=(*posterior.warnings, *_shortcomings(settings, loop, stopped, len(runs))),
        settings=settings.asked | kept,
        chosen=settings.chosen,
        stopped=stopped,
    )
    if stopped == "interrupted":
        why = "interrupted" if loop.lost is None else f"{loop.lost}: ended"
        warnings.warn(
            f"{why} after {posterior.iterations:,} iterations; the result is what was counted until then{go_on}",
            ConvergenceWarning,
            stacklevel=4,
        )
    _warn_of_trouble(posterior)
    return posterior


def _shortcomings(settings: Settings, loop: Loop, stopped: str, replicates: int) -> list[str]:
    """What is to be said of a run that has fewer replicates than asked for, or took longer than it was to."""
    found = []
    if replicates < settings.replicates:
        when = "the run was interrupted" if loop.lost is None else "the cluster was lost"
        found.append(
            f"only {replicates} of the {settings.replicates} replicates asked for {'is' if replicates == 1 else 'are'} in the "
            f"answer: the others had counted nothing when {when}"
        )
    budget = settings.plan.seconds
    if budget is not None and stopped != "interrupted" and any(loop.late):
        found.append(
            f"the budget of {budget:g} seconds is too small for the draws without which errors cannot be estimated: they were "
            f"made all the same, and the run took {loop.spent() - budget:.2g} seconds longer"
        )
    return found


def _plan(chains: int, draws: Any, warmup: Any, seconds: float | None, target: float | None) -> Plan:
    open_ended = seconds is not None or target is not None
    if target is not None and not (isinstance(target, (int, float, np.number)) and 0 < target < 1):
        raise DataError(f"target_mcse must be a number between 0 and 1, such as 0.01, not {target!r}")
    whole = whole_number(draws, "draws", 1) if draws is not None else DRAWS if seconds is None else 1 << 50
    most = ENOUGH_WARMUP if open_ended else whole
    warm = min(whole // 10, most) if warmup is None else whole_number(warmup, "warmup", 0)
    each = [-(-n // chains) for n in (warm, whole, FIRST_CHECK)]
    return Plan(each[0], each[1], seconds, None if target is None else float(target), each[2])


def _seconds(budget: Any) -> float:
    found = parse_budget(budget)
    if found.seconds is None:
        raise DataError(
            f'budget {budget!r} has no unit: give a time such as "90s", or the number of draws as draws='
        )
    return found.seconds


def _warn_of_trouble(posterior: Posterior) -> None:
    """Say what speaks against trusting a result, and what else there is to know of it."""
    reasons = doubts(posterior)
    for message in posterior.warnings:
        warnings.warn(message, ConvergenceWarning, stacklevel=5)
    for reason in reasons:
        warnings.warn(f"{reason}. posterior.explain() says more", ConvergenceWarning, stacklevel=5)
    target, worst = posterior.settings.get("target_mcse"), np.nanmax(posterior.mcse, initial=0.0)
    if target is not None and posterior.stopped != "target_mcse" and worst > target and not reasons:
        warnings.warn(
            f"the run ended ({posterior.stopped}) with a largest Monte Carlo error of {worst:.3g}, above target_mcse = {target:g}; "
            "give it more draws or a larger budget",
            ConvergenceWarning,
            stacklevel=5,
        )
    for message in lost_arithmetic(posterior):
        warnings.warn(message, ConvergenceWarning, stacklevel=5)


__all__ = ["sample"]
