"""Every sampler where evidence is strong and near copies of the strong variables are there too, beside all models summed.

Two problems. In the first, the second of eight columns is a near copy of the first, whose t-value grows from 5 to 400. In the second,
there are three blocks of 60 near copies and room for three variables, in 20,000 rows and in 10 million. Until commit b42f46d, the
samplers that move by rates were wrong on both, with small errors.

The sums over all models are computed here from correlations, in numpy and without the package.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

import whichvars as wv
from benchmarks.common import Table, environment, number
from benchmarks.runs import quiet

N, P = 5000, 8  # rows and columns of the first problem
TS = (5, 36, 40, 50, 100, 400)  # the t-value of its first column
BLOCKS, COPIES = 3, 60
BLOCK_CASES = ((20_000, 0.3), (10_000_000, 0.3))  # rows, effect
SAMPLERS: dict[str, Any] = {
    "Hybrid()": wv.Hybrid(),
    "Hybrid(exact_weights=False)": wv.Hybrid(exact_weights=False),
    "TemperedGibbs()": wv.TemperedGibbs(),
    "TemperedGibbs(exact_weights=False)": wv.TemperedGibbs(exact_weights=False),
    "SubsetGibbs()": wv.SubsetGibbs(),
    "AddDeleteSwap()": wv.AddDeleteSwap(),
    "Lamnisos()": wv.Lamnisos(),
    "IndividualAdaptation()": wv.IndividualAdaptation(),
    "IndividualAdaptation(chains=5)": wv.IndividualAdaptation(chains=5),
    "ParallelTempering(rungs=4)": wv.ParallelTempering(rungs=4),
    "ASI()": wv.ASI(),
    "PARNI()": wv.PARNI(),
    "SequentialMonteCarlo(particles=500)": wv.SequentialMonteCarlo(particles=500),
}
# without swaps, they cannot go from one model of the maximal size to another, if smaller ones have no mass
NO_SWAPS = ("ASI()", "PARNI()")
ROUNDING = 1e-6  # conditional probabilities are kept in single precision: the least error that is divided by
REPLICATES = 4


# --- a near copy


def near_copy(t: float) -> tuple[np.ndarray, np.ndarray]:
    """A column whose t-value is about t, beside it one that is nearer to it than the data can tell, and noise."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, P))
    X[:, 1] = X[:, 0] + 1.2 / t * rng.normal(size=N)
    return X, t / np.sqrt(N) * X[:, 0] + rng.normal(size=N)


def near_copy_problem(t: float) -> wv.Problem:
    return wv.Problem(*near_copy(t))


@cache
def near_copy_truth(t: float) -> np.ndarray:
    """Inclusion probabilities by all 256 models."""
    X, y = near_copy(t)
    moments = np.corrcoef(X, y, rowvar=False)
    return inclusion(moments[:P, :P], moments[:P, P], N, _log_prior(P, P, P / 2))


# --- blocks of near copies


def block_moments(n: int, effect: float) -> tuple[np.ndarray, np.ndarray]:
    """Correlations of three blocks of near copies, and with y: with as many rows as one likes."""
    rng = np.random.default_rng(11)
    p = BLOCKS * COPIES
    rows = 4 * p
    base = np.linalg.qr(rng.normal(size=(rows, p + BLOCKS + 1)))[0] * np.sqrt(rows)
    spread = 1.0 / (effect * np.sqrt(n))  # at which copies differ by a log odds of about ½
    X = np.repeat(base[:, :BLOCKS], COPIES, axis=1) + spread * base[:, BLOCKS : BLOCKS + p]
    # chance: t-values of about one along what each copy has of its own
    own = base[:, BLOCKS : BLOCKS + p] @ rng.normal(size=p) / np.sqrt(n)
    y = effect * base[:, :BLOCKS].sum(axis=1) + own + base[:, -1]
    joint = np.column_stack([X, y])
    joint = joint / np.sqrt((joint**2).mean(axis=0))
    moments = joint.T @ joint / rows
    return moments[:p, :p], moments[:p, p]


def block_problem(n: int, effect: float) -> wv.Problem:
    R, r = block_moments(n, effect)
    return wv.Problem(wv.SufficientStatistics.from_correlations(R, r, n), max_size=3)


@cache
def block_truth(n: int, effect: float) -> np.ndarray:
    """Inclusion probabilities by all models of at most three variables."""
    R, r = block_moments(n, effect)
    return inclusion(R, r, n, _log_prior(len(r), 3, 5))


# --- all models


def _log_prior(p: int, largest: int, mean: float) -> np.ndarray:
    """By size up to `largest`, up to a constant: beta-binomial(1, b) with that mean, which is what `Problem` takes by itself."""
    sizes, b = np.arange(largest + 1), (p - mean) / mean
    return gammaln(1 + sizes) + gammaln(b + p - sizes)


def inclusion(R: np.ndarray, r: np.ndarray, n: int, log_prior: np.ndarray) -> np.ndarray:
    """Inclusion probabilities by all models of at most ``len(log_prior)`` − 1 variables: R and r are correlations of the columns and with
    y, ``log_prior`` is by size. The independent slab has g = 1, in units of standard deviations."""
    p = len(r)
    log_mass, log_in = [], []
    for k in range(len(log_prior)):
        # by their first variable, so that not all are in memory together
        for first in range(p) if k > 0 else [-1]:
            rest = np.array(list(itertools.combinations(range(first + 1, p), max(k - 1, 0))), int)
            models = rest if k == 0 else np.column_stack([np.full(len(rest), first), rest])
            if len(models) == 0:
                continue
            value = log_prior[k] + _log_marginals(R, r, n, models)
            top = value.max()
            weights = np.repeat(np.exp(value - top), k)
            log_mass.append(logsumexp(value))
            with np.errstate(divide="ignore"):
                log_in.append(top + np.log(np.bincount(models.ravel(), weights=weights, minlength=p)))
    return np.exp(logsumexp(log_in, axis=0) - logsumexp(log_mass))


def _log_marginals(R: np.ndarray, r: np.ndarray, n: int, models: np.ndarray) -> np.ndarray:
    """By elimination in extended precision, one column of the factor at a time, all models together."""
    rows, k = models.shape
    scale = n - 1.0  # yᵀy, and the degrees of freedom
    A, b = R * scale + np.eye(len(r)), r * scale
    M = A[models[:, :, None], models[:, None, :]].astype(np.longdouble)
    v = b[models].astype(np.longdouble)
    log_determinant, explained = np.zeros(rows, np.longdouble), np.zeros(rows, np.longdouble)
    for i in range(k):
        pivot = M[:, i, i]
        log_determinant += np.log(pivot)
        explained += v[:, i] ** 2 / pivot
        for j in range(i + 1, k):
            factor = M[:, j, i] / pivot
            M[:, j, :] -= factor[:, None] * M[:, i, :]
            v[:, j] -= factor * v[:, i]
    return np.asarray(-0.5 * log_determinant - 0.5 * scale * np.log1p(-explained / scale), float)


# --- runs


def measure(
    runs: int = 8,
    draws: int = 20_000,
    block_draws: int = 100_000,
    samplers: Sequence[str] = tuple(SAMPLERS),
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """`runs` runs of each sampler on each problem, each of four replicates; half as many on the blocks, which take longer."""
    result: dict[str, Any] = {
        "environment": environment(),
        "runs": runs,
        "draws": draws,
        "block_draws": block_draws,
    }
    result["near_copy"], result["blocks"] = [], []
    for t in TS:
        problem, exact = near_copy_problem(t), near_copy_truth(t)
        for name in samplers:
            say(f"{name} on a near copy, t = {t}")
            found = [_run(problem, name, exact, draws, seed) for seed in range(runs)]
            result["near_copy"].append(
                {"t": t, "sampler": name, "exact": exact[:2].tolist(), **_together(found)}
            )
    for n, effect in BLOCK_CASES:
        problem, exact = block_problem(n, effect), block_truth(n, effect)
        for name in samplers:
            if name not in NO_SWAPS:
                say(f"{name} on blocks of near copies, n = {n:,}, effects {effect:g}")
                found = [_run(problem, name, exact, block_draws, seed) for seed in range((runs + 1) // 2)]
                result["blocks"].append({"n": n, "effect": effect, "sampler": name, **_together(found)})
    return result


Estimates = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]


def _run(problem: wv.Problem, name: str, exact: np.ndarray, draws: int, seed: int) -> tuple[Estimates, bool]:
    """Inclusion probabilities and shares of draws, each with its error and its distance from the truth; and whether the run is content."""
    settings: dict[str, Any] = {} if name.startswith("Sequential") else {"draws": draws}
    with quiet():
        posterior = wv.sample(
            problem, SAMPLERS[name], replicates=REPLICATES, threads=1, seed=seed, progress=False, **settings
        )
    both = {
        "pip": (posterior.pip, posterior.mcse),
        "frequencies": (posterior.frequencies, posterior.frequency_mcse),
    }
    return {what: (value, error, value - exact) for what, (value, error) in both.items()}, posterior.converged


def _together(found: list[tuple[Estimates, bool]]) -> dict[str, Any]:
    """Several runs in a few numbers: means and errors of the first two variables, root mean square of all errors in units of the
    claimed ones."""
    together: dict[str, Any] = {"converged": sum(content for _, content in found), "runs": len(found)}
    for what in ("pip", "frequencies"):
        value, error, difference = (np.array([run[what][i] for run, _ in found]) for i in range(3))
        score = difference / np.maximum(error, ROUNDING)
        together[what] = {
            "estimate": value[:, :2].mean(axis=0),
            # of the mean over runs
            "error": np.sqrt((error[:, :2] ** 2).mean(axis=0) / len(value)),
            "rms": float(np.sqrt(np.nanmean(score**2))) if np.isfinite(score).any() else None,
            "largest": float(np.abs(difference).max()),
            "claimed": float(np.nanmax(error)) if np.isfinite(error).any() else None,
        }
    return together


def tables(result: dict[str, Any]) -> list[Table]:
    """Estimates on the first problem, their root mean square scores, and the same of the blocks."""
    ts = list(dict.fromkeys(row["t"] for row in result["near_copy"]))
    cells = {(row["sampler"], row["t"]): row for row in result["near_copy"]}
    names = list(dict.fromkeys(row["sampler"] for row in result["near_copy"]))
    estimates = Table(
        f"A near copy: inclusion probabilities of the two, means of {result['runs']} runs and the larger of their errors",
        ["sampler", *(f"z = {t:g}" for t in ts)],
    )
    scores = Table(
        "A near copy: root mean square of (estimate − exact)/claimed error, over all eight variables and all runs; 1 is expected",
        ["sampler", *(f"z = {t:g}" for t in ts)],
        note=f"Errors below {ROUNDING:g} count as {ROUNDING:g}, so that with exact weights, whose errors are rounding, less than 1 is expected.",
    )
    exact = [cells[names[0], t]["exact"] for t in ts]
    estimates.rows.append(["all models", *(f"{a:.4f}, {b:.4f}" for a, b in exact)])
    for name in names:
        # with exact weights, the probabilities of so few models are exact whatever the draws are
        weighted = getattr(SAMPLERS[name], "exact_weights", False)
        for what, label in (("pip", name), ("frequencies", f"{name}, shares of draws")):
            if what == "pip" or weighted:
                row = [cells[name, t][what] for t in ts]
                estimates.rows.append([label, *(_estimate(cell) for cell in row)])
                scores.rows.append([label, *(number(cell["rms"]) for cell in row)])
    return [estimates, scores, *_block_tables(result)]


def _estimate(cell: dict[str, Any]) -> str:
    a, b = cell["estimate"]
    error = max((e for e in cell["error"] if e is not None), default=None)
    return f"{a:.4f}, {b:.4f} ± {'not known' if error is None else f'{error:.4f}'}"


def _block_tables(result: dict[str, Any]) -> list[Table]:
    found = []
    for n, effect in dict.fromkeys((row["n"], row["effect"]) for row in result["blocks"]):
        rows = [row for row in result["blocks"] if (row["n"], row["effect"]) == (n, effect)]
        table = Table(
            f"Three blocks of {COPIES} near copies, n = {n:,}, effects of {effect:g}, at most three variables: {rows[0]['runs']} runs",
            ["sampler", "largest error", "largest error claimed", "root mean square z", "of draws", "runs that say converged"],
        )  # fmt: skip
        for row in rows:
            pip = row["pip"]
            table.rows.append(
                [
                    row["sampler"],
                    number(pip["largest"]),
                    number(pip["claimed"]),
                    number(pip["rms"]),
                    number(row["frequencies"]["rms"]),
                    f"{row['converged']} of {row['runs']}",
                ]
            )
        found.append(table)
    if found:
        who = " and ".join(NO_SWAPS)
        found[
            -1
        ].note = (
            f"{who} are left out: they do not swap variables, and models of fewer than three have no mass."
        )
    return found
