"""Reference inclusion probabilities: exact, or from a run much longer than those it judges.

Each is a small file benchmarks/references/NAME.npz that knows its own Monte Carlo error, its settings, its
date and its commit, and a fingerprint of the problem it belongs to. An error measured against a reference
contains the reference's own; ``benchmarks.compare`` subtracts that *noise floor*, says so where it matters,
and refuses to give a number where it dominates.
"""

import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks.common import ROOT, environment, number, plain
from benchmarks.problems import build, fingerprint
from whichvars.sampling.exact import count_models

FOLDER = ROOT / "benchmarks" / "references"
SEED = 7_000_001  # far from the seeds of runs that are compared
EXACT = 1 << 22  # enumerate up to this many models

# the sampler that makes the reference of a problem, where it is not Hybrid()
BEST: dict[str, Any] = {}


@dataclass(frozen=True)
class Reference:
    """Reference inclusion probabilities of one problem."""

    pip: np.ndarray  # (p,)
    mcse: np.ndarray  # (p,): NaN where a variable never moved in any replicate
    between: np.ndarray  # (p,): standard error from the differences between replicates alone; 0 if exact
    fingerprint: np.ndarray
    about: dict[str, Any]

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
    np.savez_compressed(
        path,
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
    sampler: Any = None,
    threads: int | None = None,
    progress: bool = False,
) -> Reference:
    """Enumerate where that is possible; else `minutes` of wall time on all threads, in many replicates."""
    if count_models(problem.p, problem.max_size) <= EXACT:
        return from_posterior(problem, wv.exact(problem), {})
    sampler = wv.Hybrid() if sampler is None else sampler
    threads = threads or os.cpu_count() or 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        options: dict[str, Any] = {"progress": False, "threads": 1, "replicates": 1, "seed": SEED - 1}
        wv.sample(problem, sampler, draws=1000, **options)  # compile
        pilot = wv.sample(problem, sampler, draws=100_000, **options)
        rate = pilot.iterations / pilot.cpu_seconds
        draws = max(1000, int(rate * 60 * minutes * threads / replicates / 1.1))
        settings = {
            "draws": draws,
            "warmup": draws // 10,
            "replicates": replicates,
            "seed": SEED,
            "start": "mixed",
        }
        posterior = wv.sample(
            problem, sampler, draws=draws, warmup=draws // 10, replicates=replicates, seed=SEED, threads=threads,
            start="mixed", progress=progress,
        )  # fmt: skip
    return from_posterior(problem, posterior, settings)


def describe(name: str, reference: Reference) -> str:
    """What a reference says and how well it knows it."""
    about = reference.about
    top = np.argsort(-reference.pip)[:8]
    names = build(name).names
    pips = ", ".join(
        f"{names[j]} {reference.pip[j]:.4f} ± {np.nan_to_num(reference.mcse[j]):.4f}" for j in top
    )
    return (
        f"{name}: {about['sampler']}, {about['iterations']:,} iterations, {about['cpu_seconds']:,} CPU s, "
        f"{about['environment']['date']}, commit {about['environment']['commit']}\n"
        f"  mean size {about['mean_size']:.3f}; {pips}\n"
        f"  root mean squared Monte Carlo error {number(reference.floor**0.5)}, worst {number(reference.worst)}, "
        f"{about['never_moved']:,} variables never moved"
    )
