"""Files that go to other programs and come back from them.

To a program: a folder with ``data.csv``, the response in the first column ``y`` and then one column a variable (centred, and
brought to the scale on which the slab is given), and ``settings.json``: what the slab and the model prior are.

From a program: a folder with ``pips.csv``, the columns ``variable`` and ``pip``, and ``seconds.txt``: CPU seconds of
computing and, if known, a second number, those of starting up and reading. Several runs are subfolders of that kind.
"""

import csv
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import whichvars as wv
from benchmarks import problems


class Skipped(Exception):
    """This peer does not take part, and why."""


class BadFileError(ValueError):
    """What came back from another program cannot be used."""


@dataclass(frozen=True)
class Workload:
    """A problem as other programs get it."""

    name: str
    problem: wv.Problem
    X: pd.DataFrame  # centred, on the scale of the slab
    y: pd.Series  # centred
    truth: pd.Series | None = None


@dataclass(frozen=True)
class Outcome:
    """What a run of a peer gave."""

    pips: np.ndarray  # (p,)
    cpu_seconds: float  # of computing, children included
    startup_seconds: float = math.nan  # CPU time of starting and reading


def workload(name: str) -> Workload:
    """One of the benchmarks' problems with its data."""
    problem, data = problems.build(name), problems.PROBLEMS[name].data
    if data is None:
        raise Skipped(f"{name}: its data are not at hand for other programs")
    X, y, _, truth = data()
    X = X[list(problem.names)].astype(float)
    X = X - X.mean()
    if problem.scale == "unit":
        X = X / X.std()
    return Workload(name, problem, X, y - y.mean(), truth)


def settings_of(problem: wv.Problem) -> dict[str, Any]:
    """Slab and model prior in plain words and numbers."""
    slab: dict[str, Any]
    if isinstance(problem.slab, wv.IndependentNormal):
        slab = {"kind": "independent", "g": problem.slab.g}
    elif isinstance(problem.slab, wv.GPrior):
        slab = {"kind": "g-prior", "g": problem.slab.value(problem.n, problem.p)}
    else:
        slab = {"kind": repr(problem.slab)}
    prior: dict[str, Any]
    if isinstance(problem.model_prior, wv.FixedInclusion):
        h = problem.model_prior.inclusion(problem.p)
        prior = {"kind": "fixed", "h": float(h[0])} if np.ptp(h) == 0 else {"kind": "by variable"}
    elif isinstance(problem.model_prior, wv.BetaBinomial):
        a, b = problem.model_prior.parameters(problem.p)
        prior = {"kind": "beta-binomial", "a": a, "b": b}
    else:
        prior = {"kind": repr(problem.model_prior)}
    return {"n": problem.n, "p": problem.p, "slab": slab, "model_prior": prior, "noise": repr(problem.noise)}


def write_workload(work: Workload, folder: Path) -> Path:
    """data.csv and settings.json."""
    folder.mkdir(parents=True, exist_ok=True)
    pd.concat([work.y.rename("y"), work.X], axis=1).to_csv(folder / "data.csv", index=False)
    settings = {"workload": work.name, **settings_of(work.problem)}
    (folder / "settings.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    return folder


def read_outcome(folder: Path, names: list[str]) -> Outcome:
    """pips.csv and seconds.txt; every variable must be there once, with a probability."""
    path, clock = folder / "pips.csv", folder / "seconds.txt"
    for needed in (path, clock):
        if not needed.is_file():
            raise BadFileError(f"{needed}: there is no such file; pips.csv and seconds.txt are needed")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"variable", "pip"} <= rows[0].keys():
        raise BadFileError(f"{path}: columns named variable and pip are needed in its first line")
    found: dict[str, float] = {}
    for number, row in enumerate(rows, 2):
        name, text = row["variable"], row["pip"]
        try:
            value = float(text)
        except (TypeError, ValueError):
            value = math.nan
        if not 0 <= value <= 1:
            raise BadFileError(f"{path}, line {number}: {text!r} of {name!r} is not a probability")
        if name in found:
            raise BadFileError(f"{path}, line {number}: {name!r} was there before")
        found[name] = value
    missing, unknown = [n for n in names if n not in found], sorted(set(found) - set(names))
    if missing or unknown:
        which = f"{missing[0]!r} is missing" if missing else f"{unknown[0]!r} is no variable of the problem"
        raise BadFileError(
            f"{path}: {which} ({len(missing)} missing, {len(unknown)} unknown); names must be those of data.csv"
        )
    try:
        seconds = [float(word) for word in clock.read_text(encoding="utf-8").split()]
    except ValueError as error:
        raise BadFileError(f"{clock}: {error}; one or two numbers are needed") from error
    if len(seconds) not in (1, 2) or not all(math.isfinite(s) and s >= 0 for s in seconds) or seconds[0] == 0:
        raise BadFileError(f"{clock}: CPU seconds above 0 are needed and, if known, those of starting up")
    return Outcome(np.array([found[n] for n in names]), *seconds)


def read_outcomes(folder: Path, names: list[str]) -> list[Outcome]:
    """All runs in a folder: itself, or its subfolders."""
    if not folder.is_dir():
        raise BadFileError(f"{folder}: there is no such folder")
    if (folder / "pips.csv").exists():
        return [read_outcome(folder, names)]
    runs = sorted(path for path in folder.iterdir() if path.is_dir())
    if not runs:
        raise BadFileError(f"{folder}: neither pips.csv nor subfolders with one are there")
    return [read_outcome(run, names) for run in runs]
