"""A look at a run that another process samples, from its checkpoint. Nothing is written, and no lock is taken."""

import dataclasses
import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whichvars.errors import DataError
from whichvars.posterior.posterior import Posterior
from whichvars.problem.problem import Problem
from whichvars.sampling.checkpoint import LOCK, RUN, classes, read_replicate, read_run, replicate_files
from whichvars.sampling.estimates import combine, combine_pips, estimate_of, look_at
from whichvars.sampling.plan import Replicate, Settings

# seconds by which the clock may have been set while a process ran
CLOCK_SET = 60.0
STARTING, RUNNING, STOPPED, DONE = "starting", "running", "stopped", "done"


class Session(NamedTuple):
    """One process that samples, or that sampled last. Another session of the same run is one that resumed it."""

    process: str  # its number, as it wrote it; empty if it has released the lock
    since: float  # when it wrote it
    alive: bool


@dataclasses.dataclass(frozen=True)
class View:
    """What can be seen of a run at one moment."""

    state: str  # "starting", "running", "stopped" or "done"
    session: Session | None = None
    written: float | None = None  # when the last file was written
    iterations: int = 0  # of all replicates and chains
    total: int | None = None  # None if it is not known beforehand
    fraction: float = 0.0
    seconds_left: float | None = None
    replicates: int = 0
    counted: int = 0  # replicates that have estimates
    target: float | None = None  # the Monte Carlo error at which the run ends
    posterior: Posterior | None = None  # from what is counted by now
    damaged: tuple[str, ...] = ()  # what is wrong with files that cannot be read
    part: str = ""  # of a run that consists of several: which one this is, such as "Imputation 2 of 5"


class Watcher:
    """Looks at a checkpoint again and again, and reads only files that have changed.

    A file that cannot be read is named in the view, and what was read of its replicate before stays.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self._known = classes()
        self._run: tuple[Problem, Settings, str, str] | None = None
        self._stamps: dict[str, tuple[int, int, int]] = {}
        self._replicates: dict[int, Replicate] = {}
        self._damaged: dict[str, str] = {}
        self._posterior: Posterior | None = None

    def look(self) -> View:
        """The run as its files show it now."""
        session = session_of(self.directory)
        changed = self._read()
        if self._run is None:
            alive = session is None or session.alive
            return View(STARTING if alive else STOPPED, session, damaged=tuple(self._damaged.values()))
        problem, settings = self._run[:2]
        counted = [r for _, r in sorted(self._replicates.items()) if has_counted(r, settings)]
        if changed:
            self._posterior = posterior_so_far(problem, settings, counted) if counted else None
        written = max((s[0] / 1e9 for n, s in self._stamps.items() if n != RUN), default=None)
        view = View(
            STOPPED,
            session,
            written,
            replicates=settings.replicates,
            counted=len(counted),
            target=settings.plan.target,
            posterior=self._posterior,
            damaged=tuple(self._damaged.values()),
            **how_far(settings, list(self._replicates.values()), written),
        )
        if session is not None and session.alive:
            return dataclasses.replace(view, state=RUNNING if self._replicates else STARTING)
        if is_complete(settings, self._replicates, len(counted)):
            return dataclasses.replace(view, state=DONE, fraction=1.0, seconds_left=None)
        return view

    def _read(self) -> bool:
        """Read files that are new; whether there were any."""
        changed = self._is_new(self.directory / RUN)
        if changed:
            run = self._try(self.directory / RUN, lambda path: read_run(path.parent, self._known))
            if run is not None:
                if self._run is None or run[3] != self._run[3]:  # another run in the same place
                    self._replicates.clear()
                    self._stamps = {RUN: self._stamps[RUN]}
                self._run = run
        if self._run is None:
            return changed
        token = self._run[3]
        for index, path in replicate_files(self.directory).items():
            if self._is_new(path):
                changed = True
                replicate = self._try(
                    path, partial(read_replicate, index=index, token=token, known=self._known)
                )
                if replicate is not None:
                    self._replicates[index] = replicate
        return changed

    def _is_new(self, path: Path) -> bool:
        try:
            found = path.stat()
        except OSError:  # not there yet, or not any more
            return False
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if self._stamps.get(path.name) == stamp:
            return False
        self._stamps[path.name] = stamp
        return True

    def _try(self, path: Path, read: Callable[[Path], Any]) -> Any:
        """What `read` makes of a file; None if it cannot be read, which the next view says."""
        try:
            content = read(path)
        except FileNotFoundError:  # removed at this moment, as the run is done
            return None
        except (DataError, OSError) as error:
            self._damaged[path.name] = str(error)
            return None
        self._damaged.pop(path.name, None)
        return content


# --- what files say


def session_of(directory: Path) -> Session | None:
    """The process that is at work in a directory, or was last; None if there was none."""
    try:
        process, since = (directory / LOCK).read_text(encoding="utf-8"), (directory / LOCK).stat().st_mtime
    except PermissionError:  # Windows lets nobody read what is locked
        return Session("unknown", 0.0, True)
    except OSError:
        return None
    return Session(process, since, process.isdigit() and is_alive(int(process), since))


def is_alive(process: int, since: float) -> bool:
    """Whether a process that existed at the time `since` still does. Its number may belong to another one by now."""
    if sys.platform == "win32":  # pragma: no cover - a living process would have the file locked
        return False
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return not Path("/proc/self/stat").exists() and _answers(process)
    # state and start, in ticks since the machine was started, as proc(5) describes them
    state, ticks = fields[0], int(fields[19])
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return state not in "ZX" and boot + ticks / os.sysconf("SC_CLK_TCK") <= since + CLOCK_SET


def _answers(process: int) -> bool:
    try:
        os.kill(process, 0)  # sends nothing
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def has_counted(replicate: Replicate, settings: Settings) -> bool:
    """Whether there are estimates from a replicate yet."""
    if not getattr(settings.sampler, "by_draws", True):
        return replicate.run.finished
    return _draws(replicate) > 0


def _draws(replicate: Replicate) -> int:
    """Draws of each chain that a replicate has counted."""
    return replicate.run.iterations - replicate.run.warmup if replicate.counting else 0


def posterior_so_far(problem: Problem, settings: Settings, replicates: list[Replicate]) -> Posterior:
    """The posterior that a run would give if it ended with these replicates as they are."""
    runs, sampler = [replicate.run for replicate in replicates], settings.sampler
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimates = [estimate_of(problem, sampler, run, i) for i, run in enumerate(runs)]
        posterior = combine(problem, sampler, runs, estimates, sum(r.cpu_seconds for r in replicates))
    return dataclasses.replace(posterior, settings=settings.asked, chosen=settings.chosen)


def how_far(settings: Settings, replicates: list[Replicate], written: float | None) -> dict[str, Any]:
    """Iterations done and in total, the share of the run that is done, and about how many seconds are left, as fields of a ``View``."""
    plan, sampler = settings.plan, settings.sampler
    by_draws = getattr(sampler, "by_draws", True)
    done = sum(replicate.run.iterations for replicate in replicates) * sampler.chains
    total = (plan.warmup + plan.draws) * sampler.chains * settings.replicates if by_draws else None
    if plan.seconds is not None:  # which ends the run before all draws are made
        total = None
    spent = max((replicate.seconds for replicate in replicates), default=0.0)
    if plan.seconds is not None:
        fraction = spent / plan.seconds
    elif total is not None:
        fraction = done / total
    else:
        fraction = sum(replicate.run.fraction for replicate in replicates) / settings.replicates
    fraction, left = min(1.0, fraction), None
    if fraction > 0 and written is not None:
        left = max(0.0, spent * (1 - fraction) / fraction - max(0.0, time.time() - written))
    return {"iterations": done, "total": total, "fraction": fraction, "seconds_left": left}


def is_complete(settings: Settings, replicates: dict[int, Replicate], counted: int) -> bool:
    """Whether nothing is left to be done: every replicate is long enough, the time is up, or the errors are small enough."""
    if counted < settings.replicates:
        return False
    plan = settings.plan
    if all(r.run.finished or _draws(r) >= plan.draws for r in replicates.values()):
        return True
    if plan.seconds is not None and max(r.seconds for r in replicates.values()) >= plan.seconds:
        return True
    if plan.target is None or len({_draws(r) for r in replicates.values()}) > 1:
        return False
    mcse = combine_pips([look_at(settings.sampler, r.run) for r in replicates.values()]).mcse
    return bool(np.isfinite(mcse).any() and np.nanmax(mcse) <= plan.target)
