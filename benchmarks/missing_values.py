"""Are inclusion probabilities and intervals right if values are missing? Simulated tables with holes at random.

Every table has n rows and p correlated normal columns. The true model and its coefficients are drawn from the prior of the analysis, so that
inclusion probabilities should be calibrated: among variables with a probability of about q, a share q is in the true model. Half of the
holes are made with a probability that depends on another column, which is complete (missing at random).

Coverage of intervals is measured in the same way. As coefficients come from the prior of the analysis, a right interval of 90 % has the coefficient in
90 % of all cases, whatever in the data they are chosen by: among variables with a probability above .9 as well. (Where a variable may be out, an interval
with an end at 0 has it more often.) The complete data show what chance does with so many variables. A sharper measure is the sum of squared errors of
coefficients over the sum of their posterior variances, which is 1 for a right posterior.

Compared are the table before holes were made, imputation, complete cases, and the mean of the column in place of each hole.
"""

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

import whichvars as wv
from benchmarks.common import number

METHODS = ("complete data", "impute", "complete cases", "mean")


def simulate(rng: np.random.Generator, n: int, p: int, share: float) -> tuple[np.ndarray, ...]:
    """A table, the same with holes, the response, and the true coefficients, whose prior is that of the analysis."""
    X = np.sqrt(0.5) * rng.normal(size=(n, p)) + np.sqrt(0.5) * rng.normal(size=(n, 1))
    inside = rng.random(p) < 4 / p
    sigma = 1.0
    beta = np.where(inside, rng.normal(size=p) * sigma * np.sqrt(PRIOR_VARIANCE), 0.0)
    y = X @ beta + sigma * rng.normal(size=n)
    holed = X.copy()
    # the second half of the columns is complete, and decides with its first column where half of the holes are
    some = p // 2
    drive = 1 / (1 + np.exp(-2 * X[:, [some]]))
    chance = np.where(np.arange(some) % 2 == 0, share, np.clip(2 * share * drive, 0, 0.95))
    gaps = rng.random((n, some)) < chance
    holed[:, :some][gaps] = np.nan
    return X, holed, y, beta


PRIOR_VARIANCE = 0.05


def analyse(X: np.ndarray, y: np.ndarray, p: int) -> wv.Posterior:
    problem = wv.Problem(
        X, y, slab=wv.IndependentNormal(PRIOR_VARIANCE), scale="none", model_prior=wv.FixedInclusion(4 / p)
    )
    if p <= 12:
        return wv.exact(problem, progress=False)
    return wv.sample(problem, draws=10_000, replicates=2, threads=1, seed=1, progress=False)


def one(seed: int, n: int, p: int, share: float, m: int) -> list[dict[str, Any]]:
    """For every method and variable: its probability, whether it is in, and whether the interval has its coefficient."""
    rng = np.random.default_rng([21, seed])
    X, holed, y, beta = simulate(rng, n, p, share)
    rows: list[dict[str, Any]] = []
    for method in METHODS:
        started = time.process_time()
        if method == "impute":
            made = wv.impute(holed, y, m=m, seed=seed)
            posterior: Any = wv.pool([analyse(Xi.to_numpy(), y, p) for Xi in made])
        elif method == "complete cases":
            whole = ~np.isnan(holed).any(axis=1)
            posterior = analyse(holed[whole], y[whole], p) if whole.sum() >= 10 else None
        else:
            filled = (
                X
                if method == "complete data"
                else np.where(np.isnan(holed), np.nanmean(holed, axis=0), holed)
            )
            posterior = analyse(filled, y, p)
        if posterior is None:
            continue
        table = posterior.coefficients(interval=0.9).iloc[1:]
        seconds = time.process_time() - started
        for j in range(p):
            lower, upper = table["lower"].iloc[j], table["upper"].iloc[j]
            rows.append({
                "method": method, "seed": seed, "share": share, "pip": float(posterior.pip[j]), "inside": bool(beta[j] != 0),
                "covered": bool(lower - 1e-9 <= beta[j] <= upper + 1e-9), "error": float(table["mean"].iloc[j] - beta[j]),
                "sd": float(table["sd"].iloc[j]), "seconds": seconds,
            })  # fmt: skip
    return rows


def share_with_error(covered: pd.Series) -> str:
    """A share ± the standard error that it has if it is 0.9."""
    return "–" if covered.empty else f"{covered.mean():.3f} ± {np.sqrt(0.09 / len(covered)):.3f}"


def ratio_with_error(part: pd.DataFrame) -> str:
    """Squared errors over posterior variances, ± a standard error from the differences between tables."""
    sums = part.assign(error=part["error"] ** 2, sd=part["sd"] ** 2).groupby("seed")[["error", "sd"]].sum()
    ratio = sums["error"].sum() / sums["sd"].sum()
    left = sums["error"] - ratio * sums["sd"]
    return f"{ratio:.2f} ± {np.sqrt((left**2).sum()) / sums['sd'].sum():.2f}"


def table_of(results: pd.DataFrame) -> pd.DataFrame:
    """For every share of holes and method: calibration, coverage, power and error."""
    out = []
    for (share, method), part in results.groupby(["share", "method"], sort=False):
        inside = part[part["inside"]]
        # of all variables: the number that are in, beside the number that the probabilities expect, in standard errors
        expected, count = part["pip"].sum(), part["inside"].sum()
        spread = np.sqrt((part["pip"] * (1 - part["pip"])).sum())
        likely, certain = part[part["pip"] > 0.5], part[part["pip"] > 0.9]
        out.append({
            "holes": f"{share:.0%}", "method": method, "data sets": part["seed"].nunique(),
            "in − expected (SE)": (count - expected) / spread,
            "in, if PIP > 0.5": likely["inside"].mean(), "expected": likely["pip"].mean(),
            "PIP > 0.9": len(certain), "their coverage": share_with_error(certain["covered"]), "coverage, all": part["covered"].mean(),
            "squared errors / variances": ratio_with_error(part),
            "found (PIP > 0.5)": (inside["pip"] > 0.5).mean(), "RMSE": np.sqrt((part["error"] ** 2).mean()),
        })  # fmt: skip
    return pd.DataFrame(out)


def main(
    tables: int = 200, n: int = 300, p: int = 30, m: int = 5, shares: tuple[float, ...] = (0.1, 0.25, 0.4)
) -> pd.DataFrame:
    warnings.simplefilter("ignore")
    rows = [row for seed in range(tables) for row in one(seed, n, p, shares[seed % len(shares)], m)]
    return table_of(pd.DataFrame(rows))


def as_markdown(table: pd.DataFrame) -> str:
    """The table as it is in docs/missing.md."""
    lines = [list(table.columns), [":--"] * 2 + ["--:"] * (table.shape[1] - 2)]
    lines += [
        ["–" if v != v else number(v) if isinstance(v, float) else str(v) for v in row]
        for row in table.to_numpy(dtype=object)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    import sys

    # numbers of tables and of columns
    given = [int(word) for word in sys.argv[1:]]
    print(as_markdown(main(given[0] if given else 200, p=given[1] if len(given) > 1 else 30)))
