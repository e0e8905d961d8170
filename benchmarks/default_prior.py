"""Candidates for the default prior on coefficients: how well they predict real data, and what they find in simulated data.

Real data: the mean log score of rows that were left out, by cross-validation. Simulated data: the number of variables without an effect
whose inclusion probability is above ½, the share of those with an effect for which it is, and the Brier score of all inclusion
probabilities. The model prior is the package's default, BetaBinomial(size=min(5, p/2)), for all of them.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks.common import Table, environment, number
from whichvars.posterior.scores import log_predictive

CANDIDATES: dict[str, Any] = {
    "IndependentNormal(1)": wv.IndependentNormal(1.0),
    'IndependentNormal("estimate")': wv.IndependentNormal("estimate"),
    'GPrior("n")': wv.GPrior("n"),
    'GPrior("bric")': wv.GPrior("bric"),
    "HyperGN()": wv.HyperGN(),
    "ZellnerSiow()": wv.ZellnerSiow(),
    "BIC()": wv.BIC(),
}
FOLDS = 5
# rows, columns, and columns with an effect
SETTINGS = [
    (n, p, k) for n, p in ((50, 20), (50, 100), (200, 20), (200, 100), (1000, 100)) for k in (0, 3, 10)
]
# t-values that effects would have by themselves, in one row for each: between these, uniformly, with random signs
SMALLEST, LARGEST = 2.0, 6.0
CORRELATION = 0.5


def real_data() -> dict[str, Any]:
    """The data sets of the package with a continuous response."""
    return {
        "US crime": wv.datasets.load_uscrime(),
        "growth": wv.datasets.load_growth(),
        "Boston": wv.datasets.load_boston("raw"),
        "Tecator": wv.datasets.load_tecator(),
    }


def posterior_of(X: Any, y: Any, slab: Any, draws: int, seed: int) -> wv.Posterior:
    """The posterior under the default model prior: all models where they are few, otherwise a short run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short runs, and duplicates in a fold
        problem = wv.Problem(X, y, slab=slab)
        if problem.p <= 13:
            return wv.exact(problem, progress=False)
        return wv.sample(
            problem, wv.Hybrid(), draws=draws, replicates=2, threads=1, seed=seed, progress=False
        )


def predictive(data: Any, draws: int, seed: int) -> dict[str, list[float]]:
    """The log scores of all rows by candidate, each row predicted from the folds that do not have it."""
    X, y = np.asarray(data.X, float), np.asarray(data.y, float)
    fold = np.random.default_rng(seed).permutation(len(y)) % FOLDS
    scores: dict[str, list[float]] = {name: [] for name in CANDIDATES}
    for left_out in range(FOLDS):
        rest, here = fold != left_out, fold == left_out
        varies = X[rest].std(axis=0) > 0
        for name, slab in CANDIDATES.items():
            posterior = posterior_of(X[rest][:, varies], y[rest], slab, draws, seed)
            scores[name] += log_predictive(
                posterior.problem, posterior.kept, X[here][:, varies], y[here]
            ).tolist()
    return scores


def simulate(n: int, p: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Equally correlated columns, a response with k effects and noise of variance 1, and which columns have one."""
    X = np.sqrt(1 - CORRELATION) * rng.normal(size=(n, p)) + np.sqrt(CORRELATION) * rng.normal(size=(n, 1))
    effects = np.zeros(p)
    chosen = rng.choice(p, k, replace=False)
    effects[chosen] = rng.uniform(SMALLEST, LARGEST, k) * rng.choice([-1, 1], k)
    y = X @ effects / np.sqrt(n * (1 - CORRELATION)) + rng.normal(size=n)
    return X, y, effects != 0


def found(n: int, p: int, k: int, repeats: int, draws: int, seed: int) -> dict[str, list[float]]:
    """By candidate: false positives, share of true positives (NaN without effects), and the Brier score, averaged over data sets."""
    sums = {name: np.zeros(3) for name in CANDIDATES}
    for repeat in range(repeats):
        X, y, real = simulate(n, p, k, np.random.default_rng([seed, n, p, k, repeat]))
        for name, slab in CANDIDATES.items():
            pip = posterior_of(X, y, slab, draws, seed + repeat).pip
            true = (pip[real] > 0.5).mean() if k else np.nan
            sums[name] += [(pip[~real] > 0.5).sum(), true, np.mean((pip - real) ** 2)]
    return {name: (value / repeats).tolist() for name, value in sums.items()}


def measure(draws: int, repeats: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Both comparisons."""
    result: dict[str, Any] = {
        "environment": environment(),
        "draws": draws,
        "repeats": repeats,
        "seed": seed,
        "real": {},
        "simulated": [],
    }
    for name, data in real_data().items():
        say(f"{name}: {len(data.y)} rows, {np.shape(data.X)[1]} columns")
        scores = predictive(data, draws, seed)
        base = np.array(scores["IndependentNormal(1)"])
        result["real"][name] = {
            slab: {
                "mean": float(np.mean(values)),
                "difference": float(np.mean(values - base)),
                "error": float(np.std(values - base, ddof=1) / np.sqrt(len(base))),
            }
            for slab, values in scores.items()
        }
    for n, p, k in SETTINGS:
        say(f"simulated: n = {n}, p = {p}, {k} effects")
        result["simulated"].append({"n": n, "p": p, "k": k} | found(n, p, k, repeats, draws, seed))
    return result


def tables(result: dict[str, Any]) -> list[Table]:
    """Both comparisons as tables."""
    names = list(result["real"])
    rows = [
        [
            slab,
            *(
                number(result["real"][name][slab]["mean"], 3)
                if slab == "IndependentNormal(1)"
                else f"{result['real'][name][slab]['difference']:+.3f} ± {result['real'][name][slab]['error']:.3f}"
                for name in names
            ),
        ]
        for slab in CANDIDATES
    ]
    out = [
        Table(
            f"Mean log score of rows that were left out ({FOLDS}-fold cross-validation): of the default, and by how much others are better",
            ["slab", *names],
            rows,
        )
    ]
    for place, what in enumerate(
        (
            "False positives",
            "Share of effects that were found",
            "Brier score of inclusion probabilities, times 1000",
        )
    ):
        cells = []
        for setting in result["simulated"]:
            if place == 1 and not setting["k"]:
                continue
            values = [setting[slab][place] * (1000 if place == 2 else 1) for slab in CANDIDATES]
            cells.append(
                [
                    *(str(setting[name]) for name in ("n", "p", "k")),
                    *(f"{v:.2f}" if place < 2 else f"{v:.1f}" for v in values),
                ]
            )
        out.append(
            Table(f"{what}, mean of {result['repeats']} data sets", ["n", "p", "effects", *CANDIDATES], cells)
        )
    return out
