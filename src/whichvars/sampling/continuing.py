"""``resume()`` and ``extend()``: going on with a run that is kept in a checkpoint."""

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
    """Go on with a run that was killed or interrupted.

    The directory holds all that is needed, the data too. The result is that of a run that was never stopped, bit for bit
    (but for times), on the same machine and with the same versions of packages. A run that is already done gives its
    result again.

    Parameters
    ----------
    directory : path
        The directory given as `checkpoint` to ``sample``.
    threads : int
        Threads; all cores if not given. Results do not depend on it.
    progress : bool or callable
        As for ``sample``.
    every : str or float
        Time between two checkpoints.
    executor : executor
        Where the work is done, as for ``sample``; it need not be where the run began.

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
    who = executor_of(executor, threads)
    with Checkpoint(directory, every) as saver:
        problem, settings, _ = saver.read_run()
        return carry_out(problem, settings, saver, saver.replicates(), who, None, progress)


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
    """A longer run: more draws of every replicate, or more replicates, added to what was counted already.

    The state of the run is taken from its checkpoint, so the run must have been made with
    ``sample(..., checkpoint=directory)``, and the directory must still be there; it is extended as well. A run of
    10,000 draws extended by 5,000 gives the numbers of one of 15,000 draws with the same `warmup`, bit for bit.

    Parameters
    ----------
    posterior : Posterior
        What ``sample`` or ``resume`` gave, in this session or loaded from a file.
    draws : int
        Iterations to count in addition, per replicate. Where replicates have counted different numbers of draws, all go to
        the largest of them and so many more. `budget` and `target_mcse` no longer apply.
    replicates : int
        Replicates to add, of the same length, which is that of the longest where a `budget` ended the run. The only way to extend ``SequentialMonteCarlo``, which has no draws.
    threads, progress, every, executor
        As for ``resume``.

    Returns
    -------
    Posterior
        A new one; the old one does not change.

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
    directory = posterior.settings.get("checkpoint")
    if directory is None:
        raise DataError(
            "the state of this run was not kept; sample with checkpoint=DIRECTORY, and it can be extended"
        )
    if draws is None and replicates is None:
        raise DataError("give draws= or replicates=, what to add")
    _check_exists(directory)
    who = executor_of(executor, threads)
    with Checkpoint(directory, every) as saver:
        problem, settings, _ = saver.read_run()
        found = saver.replicates()
        settings = _longer(settings, found, draws, replicates)
        saver.change_settings(problem, settings)
        return carry_out(problem, settings, saver, found, who, None, progress)


def _check_exists(directory: Any) -> None:
    if not Path(directory).is_dir():
        raise DataError(f"there is no directory {directory} with a checkpoint")


def _longer(
    settings: Settings, found: dict[int, Replicate], draws: int | None, replicates: int | None
) -> Settings:
    """The settings of a run with more draws or replicates."""
    sampler, plan, asked = settings.sampler, settings.plan, dict(settings.asked)
    if draws is not None:
        if not getattr(sampler, "by_draws", True):
            raise DataError(f"{type(sampler).__name__} has no draws; extend it by replicates=")
        more = -(-whole_number(draws, "draws", 1) // sampler.chains)
        counted = [r.run.iterations - r.run.warmup for r in found.values() if r.counting]
        plan = plan._replace(draws=max(counted, default=0) + more, seconds=None, target=None)
        asked |= {"draws": plan.draws * sampler.chains, "budget": None, "target_mcse": None}
    elif plan.seconds is not None:
        # its time is over: others can only be made as long as those that are there
        counted = [r.run.iterations - r.run.warmup for r in found.values() if r.counting]
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
