"""``sample()``: it checks its arguments, starts or continues the replicates of a run, and combines their estimates.

Results depend on the problem, the sampler's settings, the seed, the numbers of draws, warm-up iterations and replicates,
and on `target_mcse`. They do not depend on threads, workers, chunks or timing, unless a time `budget` runs out.
"""

import os
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from whichvars._kernels.collection import no_collection
from whichvars.data import storage
from whichvars.errors import ArgumentTypeError, ClusterError, ConvergenceWarning, DataError, DataWarning
from whichvars.posterior.diagnostics import doubts, lost_arithmetic
from whichvars.posterior.family_words import overdispersion
from whichvars.posterior.posterior import Posterior
from whichvars.problem.prior_width import narrow_prior
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import Sampler
from whichvars.samplers.seeding import plain_entropy, plain_seed, replicate_seeds
from whichvars.samplers.starts import starting_models
from whichvars.samplers.surrogates import problem_for
from whichvars.sampling.advance import cpu_clock
from whichvars.sampling.announcing import Announcer
from whichvars.sampling.checkpoint import Checkpoint, locked, problem_fingerprint
from whichvars.sampling.choosing import check_sampler, choose
from whichvars.sampling.compiling import clock
from whichvars.sampling.estimates import combine, estimate_of
from whichvars.sampling.exact import check_problem, exact
from whichvars.sampling.executors import Executor, Pool, Threads
from whichvars.sampling.interrupts import listen
from whichvars.sampling.learning import with_records
from whichvars.sampling.loop import Loop
from whichvars.sampling.plan import Plan, Replicate, Settings, parse_budget, whole_number
from whichvars.sampling.progress import Progress, Report

# default number of draws
DRAWS = 1_000_000
# most iterations of warm-up if the number of draws is not known beforehand
ENOUGH_WARMUP = 100_000
# draws after which the accuracy is first checked
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
        "auto" enumerates all models, which gives exact results, if that takes a second or two (up to 20 variables) and
        `draws` is not given. Otherwise it takes ``Hybrid()``. ``posterior.explain()`` says which it was. If the family is not
        Gaussian, all models are fitted if that takes no more than about ten seconds (some 14 variables).
    draws : int
        Iterations counted per replicate, divided among its chains. The default is a million, or with `budget` as many
        as there is time for.
    warmup : int
        Iterations per replicate before counting starts. The default is a tenth of `draws`, and at most 100,000 if
        `budget` or `target_mcse` may end the run earlier.
    replicates : int
        Independent runs. Monte Carlo errors and warnings of disagreement are based on them: use at least 2, better 4.
    threads : int
        Number of threads. The default is one for each core. Results do not depend on it.
    seed : int, SeedSequence or None
        The same seed gives exactly the same results; None takes a new seed each time.
    start : "null", "prior", "screening", "forward", "modes", "mixed", a model or a list of models
        Where chains start. "modes" are the best models that a short search finds. With the default, "mixed", about half of the
        chains start there, and the others at draws from the prior and draws by marginal correlation.
    budget : str or float
        Time to spend sampling, such as "90s", "2m" or a number of seconds. This is wall time without the time for compiling.
        All replicates get the same share of it, however few threads there are, and at most a fifth of it is spent on
        warm-up. However small the budget is, each chain makes 512 draws (or `draws`), because errors could not be estimated
        with fewer; if that takes longer than the budget, there is a warning. With a budget, results depend on the speed of
        the machine and are not reproducible.
    target_mcse : float
        Stop as soon as the Monte Carlo error of every inclusion probability is below this. It is checked after 20,000
        draws, and again whenever there are 1.4 times as many. Results are reproducible.
    rao_blackwell : bool
        Also average conditional inclusion probabilities along the run, for samplers that do not do so anyway. This takes up
        to half of the time, and usually reduces errors far more than the draws it replaces.
    progress : bool or callable
        Show a progress bar in a terminal or notebook, or call a function with a ``Report`` a few times a
        second. A notebook also shows a picture of the most probable variables, with their inclusion probabilities and errors
        by now, about once a second; a function finds those of all variables in ``report.pip`` and ``report.mcse``. Results do
        not depend on who looks. While the sampler is being compiled, once per version, a line says so and estimates how long it will take;
        a function sees ``report.compiling``, every second once the chains have been started.
    checkpoint : path
        Directory in which the state of the run is saved regularly, so that the run can be killed at any moment. ``resume``
        continues it, and so does calling this function again with the same arguments. The results are the same, bit for
        bit, as those of an uninterrupted run. The directory is kept when the run is done, for ``extend``. Not used if all
        models are enumerated.
    every : str or float
        Time between two checkpoints of a replicate; more if writing one would take over 2 % of that time.
    chunk : int
        Iterations between two looks at the clock; by default as many as take a fraction of a second. Results do not depend
        on it.
    executor : executor
        Where the replicates are advanced: by default in `threads` of this process, or by the workers of a cluster with
        ``executor=DaskExecutor("tcp://ADDRESS:8786")``. Results do not depend on it. Not used if all models are enumerated.

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
    _plan(1, draws, warmup, seconds, target_mcse)  # checks the arguments even if "auto" does not need them
    replicates = whole_number(replicates, "replicates", 1)
    executor = executor_of(executor, threads)
    chunk = None if chunk is None else whole_number(chunk, "chunk", 1)
    chosen = None
    if isinstance(sampler, str) and sampler == "auto":
        chosen = choose(problem, draws, seconds)
        if chosen.sampler is None:
            return replace(exact(problem, progress=progress is True), settings=asked, chosen=chosen.why)
        sampler = chosen.sampler
    why = chosen.why if chosen else ""
    sampler = check_sampler(sampler)
    rao_blackwell = rao_blackwell and not problem.one_by_one  # it needs scans
    by_draws = getattr(sampler, "by_draws", True)
    if not by_draws and not (draws is warmup is start is target_mcse is seconds is None):
        raise DataError(
            f"{type(sampler).__name__} takes no draws, warmup, start, budget or target_mcse: its length is set by `particles` "
            "and `steps`, and it starts from the prior"
        )
    plan = _plan(sampler.chains, draws, warmup, seconds, target_mcse) if by_draws else Plan(0, 1 << 62)
    seeds = replicate_seeds(seed, replicates)
    settings = Settings(
        sampler, plan, plain_entropy(seeds[0]), list(seeds[0].spawn_key[:-1]), replicates, start, rao_blackwell, asked, why
    )  # fmt: skip
    with locked(checkpoint, every) as saver:
        saved: dict[int, Replicate] = {}
        if saver is not None and saver.exists():
            settings = _same_run(saver, problem, settings)
            saved = saver.replicates()
        elif saver is not None:
            saver.begin(problem, settings)
        return carry_out(problem, settings, saver, saved, executor, chunk, progress)


def _same_run(saver: Checkpoint, problem: Problem, settings: Settings) -> Settings:
    """The settings of the run in a directory; an error if it is another run than the one asked for."""
    _, before, data = saver.read_run()
    where = f"{saver.directory} holds the checkpoint of another run"
    advice = "name another directory, or remove this one"
    if data != problem_fingerprint(problem):
        raise DataError(f"{where}, with other data or priors: {advice}")
    if settings.asked["seed"] is None:
        settings = replace(settings, entropy=before.entropy, path=before.path)
    known = {**saver.known, Settings.__name__: Settings}
    names = [f.name for f in fields(Settings) if f.name not in ("asked", "chosen")]
    different = [
        name
        for name in names
        if storage.digest_of(getattr(before, name), known)
        != storage.digest_of(getattr(settings, name), known)
    ]
    if different:
        words = {"plan": "draws, warmup, budget or target_mcse", "entropy": "seed", "path": "seed"}
        differ = ", ".join(dict.fromkeys(words.get(name, name) for name in different))
        raise DataError(f"{where}, which differs in {differ}: {advice}; resume() continues the run in it")
    return before


def carry_out(
    problem: Problem,
    settings: Settings,
    saver: Checkpoint | None,
    saved: dict[int, Replicate],
    executor: Executor,
    chunk: int | None,
    progress: bool | Callable[[Report], None],
) -> Posterior:
    """Start a run, or continue it from `saved` replicates, and return the posterior."""
    with Announcer(progress, type(settings.sampler).__name__) as announcer:
        with executor.start(problem, settings.sampler, settings.replicates, chunk) as pool:
            loop, stopped = _advance_all(problem, settings, saver, saved, pool, progress, announcer)
        return _conclude(problem, settings, saver, loop, stopped, announcer)


def executor_of(executor: Executor | None, threads: int | None) -> Executor:
    """The executor that was given, or threads of this process."""
    if executor is None:
        return Threads((os.cpu_count() or 1) if threads is None else whole_number(threads, "threads", 1))
    if isinstance(executor, type) or not hasattr(executor, "start"):
        raise ArgumentTypeError(f"executor must be an object such as DaskExecutor(address), not {executor!r}")
    if threads is not None:
        raise DataError("threads applies to this process only; leave it out if there is an executor")
    return executor


def _new_replicate(problem: Problem, settings: Settings, seed: np.random.SeedSequence) -> Replicate:
    """A replicate at its starting models. The time that it takes to find them counts, that of compiling does not."""
    sampler, began, cpu = settings.sampler, clock(), cpu_clock()
    problem = problem_for(problem, sampler)
    run = sampler.init(problem, seed, starting_models(problem, settings.start, seed, sampler.chains))
    # the one leaves compiling out, the other what other processes take
    return Replicate(run, cpu_seconds=min(clock() - began, cpu_clock() - cpu))


def _advance_all(
    problem: Problem,
    settings: Settings,
    saver: Checkpoint | None,
    saved: dict[int, Replicate],
    pool: Pool,
    progress: bool | Callable[[Report], None],
    announcer: Announcer,
) -> tuple[Loop, str]:
    """Advance all replicates until there is a reason to stop; returns the loop and the reason."""
    sampler, plan = settings.sampler, settings.plan
    replicates = [
        saved[i] if i in saved else _new_replicate(problem, settings, seed)
        for i, seed in enumerate(settings.seeds())
    ]
    total = (
        (plan.warmup + plan.draws) * sampler.chains * len(replicates)
        if getattr(sampler, "by_draws", True)
        else None
    )
    bar = Progress(progress, total, sampler, plan.seconds, announcer, plan.target, problem.names)
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
    """The posterior of a run that has ended, with warnings about anything that is wrong with it."""
    sampler, runs, learned = settings.sampler, loop.runs, loop.learned
    counted = [i for i in range(len(runs)) if loop.has_counted(i)]
    advice = f"; continue with whichvars.resume({str(saver.directory)!r})" if saver else ""
    if loop.lost is not None and (saver is not None or not counted):
        kept = f"; all rounds but the last are saved{advice}" if saver else ""
        raise ClusterError(f"{loop.lost}{kept}") from loop.lost
    if stopped == "interrupted":  # replicates that have not counted any draws yet have no estimates
        if not counted:
            raise KeyboardInterrupt(f"interrupted before any draws were counted{advice}")
        runs, learned = [runs[i] for i in counted], [learned[i] for i in counted]
    where = {} if saver is None else {"checkpoint": str(saver.directory)}
    # thousands of models are put into dictionaries; the collector would go through all objects of the process, for as long as a short run
    with no_collection():
        estimates = [estimate_of(problem, sampler, run, i) for i, run in enumerate(runs)]
        posterior = combine(problem, sampler, runs, estimates, sum(loop.cpu))
    announcer.stop()  # warnings need a line of their own
    posterior = replace(
        posterior,
        adaptation=[
            with_records(final, points, run, posterior.pip)
            for final, points, run in zip(posterior.adaptation, learned, runs)
        ],
        warnings=(*posterior.warnings, *_shortcomings(settings, loop, stopped, len(runs))),
        settings=settings.asked | where,
        chosen=settings.chosen,
        stopped=stopped,
    )
    if stopped == "interrupted":
        why = "interrupted" if loop.lost is None else f"{loop.lost}: ended"
        warnings.warn(
            f"{why} after {posterior.iterations:,} iterations; the result is based on the draws until then{advice}",
            ConvergenceWarning,
            stacklevel=4,
        )
    _warn_of_trouble(posterior)
    return posterior


def _in_seconds(seconds: float) -> str:
    """
    >>> _in_seconds(0.04), _in_seconds(2.81), _in_seconds(171.3), _in_seconds(12345.6)
    ('0.04', '2.8', '171', '12,346')
    """
    return f"{seconds:.2g}" if seconds < 10 else f"{seconds:,.0f}"


def _shortcomings(settings: Settings, loop: Loop, stopped: str, replicates: int) -> list[str]:
    """Warnings about a run that has fewer replicates than asked for, or took longer than its budget."""
    messages = []
    if replicates < settings.replicates:
        when = "the run was interrupted" if loop.lost is None else "the cluster was lost"
        messages.append(
            f"the result uses only {replicates} of the {settings.replicates} replicates asked for: the others had not counted "
            f"any draws when {when}"
        )
    budget = settings.plan.seconds
    if budget is not None and stopped != "interrupted" and any(loop.late):
        messages.append(
            f"the budget of {budget:g} seconds is too small for the draws that are needed to estimate errors: these were made "
            f"nevertheless, and the run took {_in_seconds(loop.spent() - budget)} seconds longer"
        )
    return messages


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
    seconds = parse_budget(budget).seconds
    if seconds is None:
        raise DataError(
            f'budget {budget!r} has no unit: give a time such as "90s", or the number of draws as draws='
        )
    return seconds


def _warn_of_trouble(posterior: Posterior) -> None:
    """Warn about all reasons to doubt a result."""
    reasons = doubts(posterior)
    for message in posterior.warnings:
        warnings.warn(message, ConvergenceWarning, stacklevel=5)
    for reason in reasons:
        warnings.warn(f"{reason}. posterior.explain() says more", ConvergenceWarning, stacklevel=5)
    target, worst = posterior.settings.get("target_mcse"), np.nanmax(posterior.mcse, initial=0.0)
    if target is not None and posterior.stopped != "target_mcse" and worst > target and not reasons:
        warnings.warn(
            f"the run ended ({posterior.stopped}) with a largest Monte Carlo error of {worst:.3g}, above target_mcse = {target:g}; "
            "use more draws or a larger budget",
            ConvergenceWarning,
            stacklevel=5,
        )
    for message in lost_arithmetic(posterior):
        warnings.warn(message, ConvergenceWarning, stacklevel=5)
    for message in (*overdispersion(posterior), *narrow_prior(posterior.problem)):
        warnings.warn(message, DataWarning, stacklevel=5)


__all__ = ["sample"]
