"""Reference inclusion probabilities: exact, or from a run much longer than those it judges.

Each is a small file benchmarks/references/NAME.npz that knows its own Monte Carlo error, its settings, its
date and its commit, and a fingerprint of the problem it belongs to. An error measured against a reference
contains the reference's own; ``benchmarks.compare`` subtracts that *noise floor*, says so where it matters,
and refuses to give a number where it dominates.

The references of hard problems are made twice, by different samplers: where these disagree, a reference is called *weak*.
"""

import json
import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks.common import ROOT, environment, number, plain
from benchmarks.problems import LOGISTIC, PROBLEMS, build, fingerprint
from whichvars.sampling.exact import count_models

FOLDER = ROOT / "benchmarks" / "references"
SEED = 7_000_001  # far from the seeds of runs that are compared
EXACT = 1 << 22  # enumerate up to this many models

DISAGREE = 4.0  # errors by which two runs differ that cannot both be right
MATTERS = 0.01  # an error of a reference, or a difference between two, that is worth a word


@dataclass(frozen=True)
class Recipe:
    """How a reference is made: the run it is taken from, and a second one that it is held against."""

    sampler: Any = None  # Hybrid() if None
    start: Any = "mixed"  # or a function of the problem
    second: Any = None  # no second run if None
    second_start: Any = "mixed"
    share: float = 1 / 3  # of the time, for the second run


def _null_and_truth(name: str, *names: str) -> Any:
    """Starts at the true model and at the null model in turn; the latter is left out without "null"."""

    def start(problem: wv.Problem) -> list[list[int]]:
        data = PROBLEMS[name].data
        assert data is not None
        truth = data().truth
        assert truth is not None
        return [[int(j) for j in np.flatnonzero(truth.to_numpy())], *([[]] if "null" in names else [])]

    return start


_TWICE = Recipe(second=wv.AddDeleteSwap())
_TWICE_BY_MOVES = Recipe(sampler=wv.AddDeleteSwap(), second=wv.Hybrid())

# How the references of problems are made, where that is not one run of Hybrid(). Behind a barrier the first run starts on both
# sides of it, and the second one at the mode alone, where nearly all of the mass is.
RECIPES: dict[str, Recipe] = {
    **dict.fromkeys((
        "diabetes64", "boston-products", "expression4088", "expression22283", "wine164", "copies2000", "spectra268", "spectra350", "spectra401", *LOGISTIC,
    ), _TWICE),
    "concrete164": _TWICE_BY_MOVES,
    **{
        name: Recipe(
            start=_null_and_truth(name, "null"), second=wv.AddDeleteSwap(), second_start=_null_and_truth(name)
        )
        for name in ("barrier22576", "barrier22576-g1", "barrier12000")
    },
}  # fmt: skip


@dataclass(frozen=True)
class Reference:
    """Reference inclusion probabilities of one problem."""

    pip: np.ndarray  # (p,)
    mcse: np.ndarray  # (p,): NaN where a variable never moved in any replicate
    between: np.ndarray  # (p,): standard error from the differences between replicates alone; 0 if exact
    fingerprint: np.ndarray
    about: dict[str, Any]
    second: np.ndarray | None = None  # (p,): inclusion probabilities of a second run, by another sampler
    second_error: np.ndarray | None = None  # (p,)

    @property
    def error(self) -> np.ndarray:
        """Standard error of every PIP, (p,): the larger of two estimates, 0 where neither is known."""
        return np.fmax(np.nan_to_num(self.mcse), np.nan_to_num(self.between))

    @property
    def apart(self) -> tuple[float, float]:
        """Where the second run differs most in the errors of both, among differences that matter: by how much, and by how
        many errors. Zeros where nothing matters or there was no second run."""
        if self.second is None or self.second_error is None:
            return 0.0, 0.0
        difference = np.abs(self.second - self.pip)
        errors = difference / np.maximum(np.hypot(self.error, np.nan_to_num(self.second_error)), 1e-6)
        errors[difference < MATTERS] = 0.0
        j = int(np.argmax(errors))
        return (float(difference[j]), float(errors[j])) if errors[j] > 0 else (0.0, 0.0)

    @property
    def weakness(self) -> str:
        """Why not to build on it, in a few words; empty if nothing speaks against it."""
        difference, errors = self.apart
        found = []
        if self.worst > MATTERS:
            found.append(f"its own error is up to {number(self.worst, 2)}")
        if errors > DISAGREE:
            found.append(f"a second sampler differs by {number(difference, 2)}, {errors:.1f} errors")
        return " and ".join(found)

    @property
    def floor(self) -> float:
        """What the reference's own error adds to a mean squared error: the larger of two estimates."""
        return max(float(np.mean(np.nan_to_num(e) ** 2)) for e in (self.mcse, self.between))

    @property
    def worst(self) -> float:
        """Largest standard error of any one PIP."""
        return max(float(np.max(np.nan_to_num(e), initial=0.0)) for e in (self.mcse, self.between))

    def belongs_to(self, problem: wv.Problem) -> bool:
        """Whether this is a reference for that problem as it is today."""
        now = fingerprint(problem)
        return now.shape == self.fingerprint.shape and np.allclose(now, self.fingerprint, rtol=1e-6)


def path_of(name: str, folder: Path | None = None) -> Path:
    return (folder or FOLDER) / f"{name}.npz"


def save(name: str, reference: Reference, folder: Path | None = None) -> Path:
    path = path_of(name, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    second = {}
    if reference.second is not None and reference.second_error is not None:
        second = {"second": reference.second.astype(np.float32), "second_error": reference.second_error.astype(np.float32)}  # fmt: skip
    np.savez_compressed(
        path,
        **second,  # type: ignore[arg-type]
        pip=reference.pip,
        mcse=reference.mcse.astype(np.float32),
        between=reference.between.astype(np.float32),
        fingerprint=reference.fingerprint,
        about=np.array(json.dumps(plain(reference.about))),
    )
    return path


def load(name: str, problem: wv.Problem, folder: Path | None = None) -> Reference | str:
    """The stored reference, or why there is none that can be used."""
    path = path_of(name, folder)
    if not path.exists():
        return f"no reference: run `python -m benchmarks reference {name} --minutes 10`"
    with np.load(path, allow_pickle=False) as file:
        reference = Reference(
            pip=file["pip"],
            mcse=file["mcse"].astype(float),
            between=file["between"].astype(float),
            fingerprint=file["fingerprint"],
            about=json.loads(str(file["about"])),
            second=file["second"].astype(float) if "second" in file else None,
            second_error=file["second_error"].astype(float) if "second" in file else None,
        )
    if not reference.belongs_to(problem):
        return f"the stored reference is of other data or priors: run `python -m benchmarks reference {name}` again"
    return reference


def from_posterior(problem: wv.Problem, posterior: wv.Posterior, settings: dict[str, Any]) -> Reference:
    """A reference out of a long run with many replicates (or exact enumeration)."""
    between = np.zeros(problem.p)
    if posterior.replicate_pips is not None and len(posterior.replicate_pips) > 1:
        between = posterior.replicate_pips.std(axis=0, ddof=1) / np.sqrt(len(posterior.replicate_pips))
    about = {
        "sampler": posterior.sampler,
        **settings,
        "iterations": posterior.iterations,
        "cpu_seconds": round(posterior.cpu_seconds, 1),
        "mean_size": posterior.mean_size,
        "never_moved": int(np.isnan(posterior.mcse).sum()),
        "environment": environment(),
    }
    return Reference(posterior.pip, posterior.mcse, between, fingerprint(problem), about)


def make(
    problem: wv.Problem,
    minutes: float,
    replicates: int = 32,
    recipe: Recipe | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> Reference:
    """Enumerate where that is possible; else `minutes` of wall time on all threads, in many replicates."""
    if count_models(problem.p, problem.max_size) <= EXACT:
        return from_posterior(problem, wv.exact(problem), {})
    recipe = recipe or Recipe()
    sampler = wv.Hybrid() if recipe.sampler is None else recipe.sampler
    time = minutes * (threads or os.cpu_count() or 1)
    first = time if recipe.second is None else (1 - recipe.share) * time
    made = from_posterior(
        problem, *_long_run(problem, sampler, recipe.start, first, replicates, SEED, threads, progress)
    )
    if recipe.second is None:
        return made
    other, settings = _long_run(
        problem, recipe.second, recipe.second_start, time - first, replicates, SEED + 1, threads, progress
    )
    held = from_posterior(problem, other, settings)
    about = {**made.about, "second": {k: v for k, v in held.about.items() if k != "environment"}}
    return replace(made, second=held.pip, second_error=held.error, about=about)


def _long_run(
    problem: wv.Problem,
    sampler: Any,
    start: Any,
    minutes: float,
    replicates: int,
    seed: int,
    threads: int | None,
    progress: bool,
) -> tuple[wv.Posterior, dict[str, Any]]:
    """A run of about so many CPU minutes, a tenth of it warm-up, and its settings."""
    start = start(problem) if callable(start) else start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        options: dict[str, Any] = {"progress": False, "threads": 1, "replicates": 1, "seed": seed - 1000, "start": start}  # fmt: skip
        wv.sample(problem, sampler, draws=1000, **options)  # compile
        pilot = wv.sample(problem, sampler, draws=100_000, **options)
        rate = pilot.iterations / pilot.cpu_seconds
        draws = max(1000, int(rate * 60 * minutes / replicates / 1.1))
        settings = {
            "draws": draws,
            "warmup": draws // 10,
            "replicates": replicates,
            "seed": seed,
            "start": start,
        }
        posterior = wv.sample(
            problem, sampler, draws=draws, warmup=draws // 10, replicates=replicates, seed=seed,
            threads=threads or os.cpu_count() or 1, start=start, progress=progress,
        )  # fmt: skip
    return posterior, settings


def describe(name: str, reference: Reference) -> str:
    """What a reference says and how well it knows it."""
    about = reference.about
    top = np.argsort(-reference.pip)[:8]
    names = build(name).names
    pips = ", ".join(
        f"{names[j]} {reference.pip[j]:.4f} ± {np.nan_to_num(reference.mcse[j]):.4f}" for j in top
    )
    second = ""
    if "second" in about:
        other, (difference, errors) = about["second"], reference.apart
        second = (
            f"\n  second run: {other['sampler']}, {other['iterations']:,} iterations, mean size {other['mean_size']:.3f}; "
            + (f"differs most by {number(difference, 2)}, {errors:.1f} errors" if errors else f"nowhere differs by {MATTERS:g}")
        )  # fmt: skip
    if reference.weakness:
        second += f"\n  WEAK: {reference.weakness}"
    return (
        f"{name}: {about['sampler']}, {about['iterations']:,} iterations, {about['cpu_seconds']:,} CPU s, "
        f"{about['environment']['date']}, commit {about['environment']['commit']}\n"
        f"  mean size {about['mean_size']:.3f}; {pips}\n"
        f"  root mean squared Monte Carlo error {number(reference.floor**0.5)}, worst {number(reference.worst)}, "
        f"{about['never_moved']:,} variables never moved" + second
    )
