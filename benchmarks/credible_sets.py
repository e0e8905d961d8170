"""Credible sets of fine mapping on data simulated from real genotypes: coverage, power and size, beside susieR if R has it.

Genotypes are mosaics of the 574 people of N3finemapping (1,001 variants, without phase). A new person copies one of them, and from each variant to
the next changes to another one with probability 1/SEGMENT. LD is that of real genotypes over about SEGMENT variants, and no two people are the
same. Half of the real people make the people of the study, the other half those of a reference panel, so that these two share nobody.

A data set has n people, and k variants with the same share of the variance of y each, their signs at random. A credible set covers if one of its
variants has an effect. Power is the share of variants with an effect that are in a set; variants that are never polymorphic enough have none.
"""

import json
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import whichvars as wv
from benchmarks import common
from benchmarks.common import ROOT

# expected length of a copied segment; share of the variance that each effect explains; least variance of a variant with an effect
SEGMENT, SHARE, LEAST_VARIANCE = 200, 0.03, 0.1
EFFECTS = (1, 2, 3, 5)
METHODS = ("whichvars", "whichvars, summary", "whichvars, panel", "susieR")

SUSIE = """
suppressMessages(library(susieR))
folder <- commandArgs(TRUE)[1]
n <- as.integer(commandArgs(TRUE)[2])
read <- function(name, count) { file <- file(file.path(folder, name), "rb"); on.exit(close(file)); readBin(file, "double", count) }
y <- read("y", n)
X <- read("x", n * as.integer(commandArgs(TRUE)[3]))
dim(X) <- c(n, length(X) / n)
time <- system.time(fit <- susie(X, y, L = 10))[[1]]
sets <- lapply(fit$sets$cs, function(s) s - 1)
cat("[", time, ",[", paste(sapply(sets, function(s) paste0("[", paste(s, collapse = ","), "]")), collapse = ","), "]]", sep = "")
"""


class Simulated(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    causal: list[int]
    panel: np.ndarray  # correlations of other people


class Found(NamedTuple):
    sets: list[list[int]]
    seconds: float


def real_genotypes() -> np.ndarray:
    """Genotypes of the 574 people of N3finemapping, (574, 1001)."""
    with np.load(ROOT / "benchmarks" / "data" / "n3finemapping.npz", allow_pickle=False) as data:
        return data["X"].astype(float)


def mosaics(people: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n new people who copy segments of those given."""
    p = people.shape[1]
    changes = rng.random((n, p)) < 1 / SEGMENT
    changes[:, 0] = True
    sources = rng.integers(len(people), size=(n, p))
    last = np.maximum.accumulate(np.where(changes, np.arange(p), 0), axis=1)
    return people[np.take_along_axis(sources, last, axis=1), np.arange(p)]


def simulate(effects: int, n: int, panel: int, seed: int) -> Simulated:
    """A data set with this many effects, and correlations of a panel of other people."""
    rng = np.random.default_rng([seed, effects])
    real = real_genotypes()
    order = rng.permutation(len(real))
    halves = real[order[: len(real) // 2]], real[order[len(real) // 2 :]]
    X, others = mosaics(halves[0], n, rng), mosaics(halves[1], panel, rng)
    both = (X.std(axis=0) > 1e-9) & (others.std(axis=0) > 1e-9)
    X, others = X[:, both], others[:, both]
    causal = rng.choice(np.flatnonzero(X.var(axis=0) > LEAST_VARIANCE), effects, replace=False)
    signs = rng.choice([-1.0, 1.0], effects)
    y = X[:, causal] / X[:, causal].std(axis=0) @ signs * np.sqrt(SHARE)
    y = y + rng.normal(size=n) * np.sqrt(max(1 - effects * SHARE, 0.1))
    return Simulated(X, y, sorted(causal.tolist()), np.corrcoef(others.T))


def scores(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """z-scores of simple regressions."""
    n, x, centred = len(y), X - X.mean(axis=0), y - y.mean()
    r = (x.T @ centred) / np.sqrt((x**2).sum(axis=0) * (centred**2).sum())
    return r * np.sqrt((n - 2) / (1 - r**2))


def by_whichvars(data: Simulated, method: str, budget: float) -> Found:
    """The sets of level 95 % of one problem; from the data, from their summary, or with LD of the panel."""
    n = len(data.X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == "whichvars":
            prior = wv.BetaBinomial(size=1.0)
            problem = wv.Problem(data.X, data.y, slab=wv.IndependentNormal(0.01), model_prior=prior)
        else:
            R = np.corrcoef(data.X.T) if method.endswith("summary") else data.panel
            problem = wv.from_summary(z=scores(data.X, data.y), R=R, n=n)
        posterior = wv.sample(problem, target_mcse=0.02, budget=budget, threads=1, progress=False, seed=1)
        sets = posterior.credible_sets()
    place = {name: j for j, name in enumerate(problem.all_columns)}
    return Found(
        [[place[name] for name in s] for s in sets["variables"][sets["reached"]]], posterior.cpu_seconds
    )


def by_susie(data: Simulated) -> Found | None:
    """The sets of susieR with its defaults and ten effects; None if it is not installed."""
    if shutil.which("Rscript") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        data.y.tofile(Path(folder) / "y")
        np.asfortranarray(data.X).T.tofile(Path(folder) / "x")
        (Path(folder) / "susie.R").write_text(SUSIE)
        n, p = data.X.shape
        run = subprocess.run(
            ["Rscript", str(Path(folder) / "susie.R"), folder, str(n), str(p)],
            capture_output=True,
            text=True,
            check=False,
        )
    if run.returncode:
        return None
    seconds, sets = json.loads(run.stdout)
    return Found(sets, seconds)


def study(
    data_sets: int, n: int, panel: int, budget: float, methods: tuple[str, ...] = METHODS
) -> Iterator[dict[str, Any]]:
    """A row for each number of effects, data set and method."""
    for effects in EFFECTS:
        for seed in range(data_sets):
            data = simulate(effects, n, panel, seed)
            for method in methods:
                try:
                    found = by_susie(data) if method == "susieR" else by_whichvars(data, method, budget)
                except wv.DataError:  # z and the panel's LD contradict each other
                    found, refused = Found([], 0.0), True
                else:
                    refused = False
                if found is None:
                    continue
                covering = [bool(set(s) & set(data.causal)) for s in found.sets]
                inside = set().union(*found.sets)
                yield {
                    "effects": effects, "data": seed, "method": method, "refused": refused, "sets": len(found.sets), "covering": sum(covering),
                    "found": len(inside & set(data.causal)), "size": float(np.median([float(len(s)) for s in found.sets] or [np.nan])),
                    "seconds": found.seconds,
                }  # fmt: skip


def measure(data_sets: int, n: int, panel: int, budget: float, say: Callable[[str], None]) -> dict[str, Any]:
    """The study, as it is written to a file."""
    environment, rows = common.environment(), list[dict[str, Any]]()
    for row in study(data_sets, n, panel, budget):
        rows.append(row)
        if row["method"] == METHODS[0]:
            say(f"{row['effects']} effects, data set {row['data'] + 1} of {data_sets}")
    return {
        "environment": environment,
        "data_sets": data_sets,
        "n": n,
        "panel": panel,
        "budget": budget,
        "rows": rows,
    }


def tables(result: dict[str, Any]) -> list[common.Table]:
    """Coverage, power and size by number of effects and method."""
    frame = pd.DataFrame(result["rows"])
    out = common.Table(
        f"95 % credible sets, n = {result['n']:,}, {result['data_sets']} data sets for each number of effects",
        ["effects", "method", "sets", "coverage", "power", "median size", "refused", "CPU seconds"],
    )
    for (effects, method), some in frame.groupby(["effects", "method"], sort=False):
        used = some[~some["refused"]]
        total, causal = int(used["sets"].sum()), int(effects) * len(used)
        sizes = used["size"].dropna()
        out.rows.append(
            [
                str(effects), str(method), str(total), _share(int(used["covering"].sum()), total), _share(int(used["found"].sum()), causal),
                common.number(float(sizes.median())) if len(sizes) else "–", str(int(some["refused"].sum())),
                common.number(float(used["seconds"].mean())) if len(used) else "–",
            ]
        )  # fmt: skip
    pooled = frame[~frame["refused"]].groupby("method", sort=False)[["covering", "sets"]].sum()
    shares = "; ".join(
        f"{method} {_share(int(row['covering']), int(row['sets']))} of {int(row['sets'])} sets"
        for method, row in pooled.iterrows()
    )
    out.note = (
        f"Mosaics of the real genotypes of N3finemapping; each effect explains {SHARE:.0%} of the variance. Coverage: share of sets with a variant that has an "
        "effect. Power: share of variants with an effect that are in a set. Both ± one binomial standard error. *summary*: z-scores and LD of the same people; "
        f"*panel*: LD of {result['panel']} other people, regularised; *refused*: data sets in which z and the panel's LD contradict each other. "
        f"Coverage over all numbers of effects: {shares}."
    )
    return [out]


def _share(part: int, whole: int) -> str:
    if not whole:
        return "–"
    share = part / whole
    return f"{share:.3f} ± {np.sqrt(share * (1 - share) / whole):.3f}"
