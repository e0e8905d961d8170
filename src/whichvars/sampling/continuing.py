"""``resume()`` and ``extend()``, which continue a run from its checkpoint."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from whichvars.errors import ArgumentTypeError, DataError
from whichvars.posterior.posterior import Posterior
from whichvars.sampling.checkpoint import Checkpoint
from whichvars.sampling.executors import Executor
from whichvars.sampling.plan import Replicate, Settings, whole_number
from whichvars.sampling.progress import Report
from whichvars.sampling.sample import carry_out, executor_of


def resume(
    directory: str | os.PathLike[str],
    *,
    threads: int | None = None,
    progress: bool | Callable[[Report], None] = True,
    every: str | float = "30s",
    executor: Executor | None = None,
) -> Posterior:
    """Continue a run that was killed or interrupted.

    The directory contains all that is needed, including the data. Except for times, the result is the same, bit for bit, as
    that of an uninterrupted run on the same machine with the same versions of packages. If the run was already done, its
    result is returned again.

    Parameters
    ----------
    directory : path
        The directory given as `checkpoint` to ``sample``.
    threads : int
        Number of threads. The default is one for each core. Results do not depend on it.
    progress : bool or callable
        As for ``sample``.
    every : str or float
        Time between two checkpoints.
    executor : executor
        Where the replicates are advanced, as for ``sample``; it need not be the executor with which the run began.

    Returns
    -------
    Posterior

    Examples
    --------
    >>> import tempfile
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> problem = wv.Problem(data.X, data.y)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     posterior = wv.sample(problem, draws=2000, checkpoint=directory, progress=False)
    ...     again = wv.resume(directory, progress=False)
    >>> bool((again.pip == posterior.pip).all())
    True
    """
    _check_exists(directory)
    executor = executor_of(executor, threads)
    with Checkpoint(directory, every) as saver:
        problem, settings, _ = saver.read_run()
        return carry_out(problem, settings, saver, saver.replicates(), executor, None, progress)


def extend(
    posterior: Posterior,
    draws: int | None = None,
    *,
    replicates: int | None = None,
    threads: int | None = None,
    progress: bool | Callable[[Report], None] = True,
    every: str | float = "30s",
    executor: Executor | None = None,
) -> Posterior:
    """Extend a run by more draws of every replicate, or by more replicates.

    The state of the run is taken from its checkpoint, so the run must have been made with
    ``sample(..., checkpoint=directory)``, and the directory must still exist; it is extended as well. A run of 10,000 draws
    extended by 5,000 gives the same results, bit for bit, as one of 15,000 draws with the same `warmup`.

    Parameters
    ----------
    posterior : Posterior
        The result of ``sample`` or ``resume``, from this session or loaded from a file.
    draws : int
        Additional iterations to count per replicate. If replicates have counted different numbers of draws, all of them
        continue to the largest number plus this. `budget` and `target_mcse` no longer apply.
    replicates : int
        Replicates to add. They have the same length as the others, or as the longest if a `budget` ended the run. This is
        the only way to extend ``SequentialMonteCarlo``, which has no draws.
    threads, progress, every, executor
        As for ``resume``.

    Returns
    -------
    Posterior
        A new posterior; the old one does not change.

    Examples
    --------
    >>> import tempfile
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> problem = wv.Problem(data.X, data.y)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     first = wv.sample(problem, draws=2000, warmup=500, checkpoint=directory, progress=False)
    ...     longer = wv.extend(first, draws=3000, progress=False)
    >>> first.iterations, longer.iterations
    (10000, 22000)
    """
    if not isinstance(posterior, Posterior):
        raise ArgumentTypeError(f"extend takes a Posterior, not {type(posterior).__name__}")
    if posterior.models.exact:
        raise DataError("this posterior is exact: there is nothing to extend")
    if posterior.reweighting_ess is not None:
        raise DataError(
            "this posterior was made from a run by reweight() or given(), and would not be extended as such; extend that run, and then ask again"
        )
    directory = posterior.settings.get("checkpoint")
    if directory is None:
        raise DataError(
            "the state of this run was not saved; a run can be extended if it is sampled with checkpoint=DIRECTORY"
        )
    if draws is None and replicates is None:
        raise DataError("give draws= or replicates= to add")
    _check_exists(directory)
    executor = executor_of(executor, threads)
    with Checkpoint(directory, every) as saver:
        problem, settings, _ = saver.read_run()
        saved = saver.replicates()
        settings = _longer(settings, saved, draws, replicates)
        saver.change_settings(problem, settings)
        return carry_out(problem, settings, saver, saved, executor, None, progress)


def _check_exists(directory: Any) -> None:
    if not Path(directory).is_dir():
        raise DataError(f"there is no directory {directory}")


def _longer(
    settings: Settings, saved: dict[int, Replicate], draws: int | None, replicates: int | None
) -> Settings:
    """The settings of a run with more draws or replicates."""
    sampler, plan, asked = settings.sampler, settings.plan, dict(settings.asked)
    if draws is not None:
        if not getattr(sampler, "by_draws", True):
            raise DataError(f"{type(sampler).__name__} has no draws; extend it by replicates=")
        more = -(-whole_number(draws, "draws", 1) // sampler.chains)
        counted = [r.run.iterations - r.run.warmup for r in saved.values() if r.counting]
        plan = plan._replace(draws=max(counted, default=0) + more, seconds=None, target=None)
        asked |= {"draws": plan.draws * sampler.chains, "budget": None, "target_mcse": None}
    elif plan.seconds is not None:
        # its time is over, so that new replicates are made as long as the longest of the old ones
        counted = [r.run.iterations - r.run.warmup for r in saved.values() if r.counting]
        plan = plan._replace(draws=max(counted, default=plan.draws), seconds=None)
        asked |= {"draws": plan.draws * sampler.chains, "budget": None}
    if replicates is not None:
        asked["replicates"] = settings.replicates + whole_number(replicates, "replicates", 1)
    return replace(
        settings,
        plan=plan,
        asked=asked,
        replicates=asked["replicates"] if replicates else settings.replicates,
    )


__all__ = ["extend", "resume"]
