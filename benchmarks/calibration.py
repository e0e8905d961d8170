r"""Simulation-based calibration: where data come from the prior, the truth must look like a draw from the posterior.

A data set: γ from the model prior, σ² = 1, β_j ~ N(0, g σ²) in units of the columns' standard deviations (the
independent slab), y = X_γ β_γ + ε. σ² and the intercept have improper priors, which nothing can be drawn from; both are
pivots here: the law of what is ranked does not depend on their values.

For every data set the rank of the truth among posterior draws is uniform: of the model's size, and of the coefficient of
one column drawn at random. Draws equal to the truth (a size is whole, a coefficient can be 0) are split at random.
And the probabilities are to be kept: of all variables given .3, three in ten are in.

Half of the data sets are small, with evidence that is weak. In the others it is *strong*: with 20,000 rows a variable that is
in has log odds of thousands, and yet which one it is remains open, as columns come in blocks of near copies that
differ by about as much as the data can tell. At most three can be in, so that one copy cannot take the place of
another but by way of models that have no mass.

Logistic and Poisson regression likewise, with all models enumerated. Their intercept is known and given as a part of the offset; that of
the model, with its flat prior, is one more coefficient that is near 0. Coefficients are ranked by their distribution function, averaged
over models: where the truth is 0, at random within the jump there.
"""

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2

from benchmarks import common
from benchmarks.common import Table, number

N, P, SIZE, G = 40, 25, 4, 1.0
STRONG_N, BLOCKS, COPIES = 20_000, 3, 30
APART = 3.0  # copies of a column differ by so many standard errors of a coefficient of 1
DRAWS = 127  # posterior draws among which the truth is ranked: 128 possible ranks
BINS = 16
# rows, variables, their expected number, the variance of coefficients and the intercept, by family
FAMILIES = {"logistic": (150, 6, 2, 1.0, -0.5), "poisson": (100, 6, 2, 0.16, 0.3)}
EDGES = np.array([0, 0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.98, 1.0])


def model_prior(strong: bool) -> Any:
    """Where evidence is strong, nearly always as many variables as there may be."""
    import whichvars as wv

    return wv.FixedInclusion(h=0.5) if strong else wv.BetaBinomial(size=SIZE)


def simulate(rng: np.random.Generator, strong: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and the true coefficients in units of the columns' standard deviations."""
    if strong:
        X = np.repeat(rng.normal(size=(STRONG_N, BLOCKS)), COPIES, axis=1)
        X += APART / np.sqrt(STRONG_N) * rng.normal(size=X.shape)
    else:
        common_part = rng.normal(size=(N, 1))
        X = rng.normal(size=(N, P)) + 0.7 * common_part
    n, p = X.shape
    X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    beta = np.zeros(p)
    members = model_prior(strong).draw(rng, p, BLOCKS if strong else p)
    beta[members] = np.sqrt(G) * rng.normal(size=len(members))
    return X, X @ beta + rng.normal(size=n), beta


def rank(truth: float, draws: np.ndarray, rng: np.random.Generator) -> int:
    """How many draws are below the truth, those equal to it being split at random."""
    return int((draws < truth).sum() + rng.integers((draws == truth).sum() + 1))


def one(seed: int, draws: int, strong: bool = False) -> dict[str, Any]:
    """Ranks, and inclusion probabilities beside the truth, of one data set."""
    import whichvars as wv

    rng = np.random.default_rng([2026, seed, 1] if strong else [2026, seed])
    X, y, beta = simulate(rng, strong)
    p = X.shape[1]
    problem = wv.Problem(
        X,
        y,
        slab=wv.IndependentNormal(G),
        model_prior=model_prior(strong),
        max_size=BLOCKS if strong else None,
    )
    posterior = wv.sample(
        problem, wv.Hybrid(), draws=draws, replicates=2, seed=seed, threads=1, progress=False
    )
    coefficients = posterior.draw(DRAWS, seed=seed).to_numpy()[:, 1 : p + 1]
    sizes = (coefficients != 0).sum(axis=1)
    column = int(rng.integers(p))
    inside = np.flatnonzero(beta)
    ranks = {
        "model size": rank(len(inside), sizes, rng),
        "coefficient of a random column": rank(beta[column], coefficients[:, column], rng),
    }
    return {"ranks": ranks, "pip": posterior.pip.tolist(), "in": (beta != 0).tolist()}


def measure(sets: int, draws: int = 20_000, say: Callable[[str], None] = print) -> dict[str, Any]:
    """All data sets: as many of weak evidence, whose results stand first, as of strong evidence."""
    return {
        "environment": common.environment(),
        "draws": draws,
        **measure_kind(sets, draws, False, say),
        "strong": measure_kind(sets, draws, True, say),
        "families": {family: measure_family(family, sets) for family in FAMILIES},
    }


def one_of_family(family: str, seed: int, spread: float = 1.0) -> dict[str, Any]:
    """The same for a response that is not Gaussian. With a `spread` other than 1 the standard deviations of coefficients are not those
    of the prior, and calibration must be lost."""
    import whichvars as wv
    from whichvars.posterior.fits import fits

    rng = np.random.default_rng([2027, seed, list(FAMILIES).index(family)])
    n, p, size, g, level = FAMILIES[family]
    X = rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n, 1))
    X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    prior = wv.BetaBinomial(size=size)
    beta = np.zeros(p)
    members = prior.draw(rng, p, p)
    beta[members] = spread * np.sqrt(g) * rng.normal(size=len(members))
    offset = level + 0.5 * rng.normal(size=n)
    eta = offset + X @ beta
    y = rng.random(n) < 1 / (1 + np.exp(-eta)) if family == "logistic" else rng.poisson(np.exp(eta))
    problem = wv.Problem(X, y, family=family, offset=offset, slab=wv.IndependentNormal(g), model_prior=prior)
    posterior = wv.exact(problem, progress=False)
    column, below, mass = int(rng.integers(p)), 0.0, 0.0
    for fit in fits(problem, posterior.kept):
        which, place = np.nonzero(fit.columns == column)
        mean, variance = fit.b[which, place], fit.V[which, place, place]
        below += float(
            fit.weight[which] @ ndtr((beta[column] * problem.column_units[column] - mean) / np.sqrt(variance))
        )
        mass += float(fit.weight[which].sum())
    out = max(1 - mass, 0.0)
    below += out * (rng.random() if beta[column] == 0 else float(beta[column] > 0))
    weights = np.cumsum(posterior.sizes)
    k = len(members)
    size_below = (weights[k - 1] if k else 0.0) + rng.random() * posterior.sizes[k]
    ranks = {
        "model size": min(int(size_below * (DRAWS + 1)), DRAWS),
        "coefficient of a random column": min(int(below * (DRAWS + 1)), DRAWS),
    }
    return {"ranks": ranks, "pip": posterior.pip.tolist(), "in": (beta != 0).tolist()}


def measure_family(family: str, sets: int, spread: float = 1.0) -> dict[str, Any]:
    """All data sets of one family."""
    return summarised([one_of_family(family, seed, spread) for seed in range(sets)])


def measure_kind(sets: int, draws: int, strong: bool, say: Callable[[str], None] = print) -> dict[str, Any]:
    """All data sets of one kind."""
    import whichvars as wv

    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        for seed in range(sets):
            found.append(one(seed, draws, strong))
            if (seed + 1) % 50 == 0:
                say(f"{seed + 1} of {sets}{' of strong evidence' * strong}")
    return summarised(found)


def summarised(found: list[dict[str, Any]]) -> dict[str, Any]:
    """What all data sets of one kind say together."""
    ranks = {name: [x["ranks"][name] for x in found] for name in found[0]["ranks"]}
    pip, inside = (np.array([x[name] for x in found]).ravel() for name in ("pip", "in"))
    return {
        "sets": len(found),
        "ranks": ranks,
        "uniform": {name: uniformity(np.array(values)) for name, values in ranks.items()},
        "reliability": reliability(pip, inside),
    }


def uniformity(ranks: np.ndarray) -> float:
    """Probability of counts as uneven as these, if all ranks are equally probable: χ² over equal bins."""
    counts = np.bincount(ranks * BINS // (DRAWS + 1), minlength=BINS)
    expected = len(ranks) / BINS
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), BINS - 1))


def reliability(pip: np.ndarray, inside: np.ndarray) -> list[dict[str, float]]:
    """By classes of the inclusion probability: its mean, the share that is in, and by how many standard errors they
    differ."""
    rows = []
    for low, high in itertools.pairwise(EDGES):
        chosen = (pip >= low) & ((pip < high) if high < 1 else (pip <= 1))
        n = int(chosen.sum())
        if n:
            error = np.sqrt((pip[chosen] * (1 - pip[chosen])).sum()) / n
            mean, share = float(pip[chosen].mean()), float(inside[chosen].mean())
            rows.append({"low": low, "high": high, "n": n, "said": mean, "is": share, "z": (share - mean) / max(error, 1e-12)})  # fmt: skip
    return rows


def tables(result: dict[str, Any]) -> list[Table]:
    kinds = {"": result}
    if "strong" in result:  # older results have none
        kinds[" and strong evidence"] = result["strong"]
    for family, part in result.get("families", {}).items():
        kinds[f" and {'Poisson' if family == 'poisson' else family} regression"] = part
    found = []
    even = Table("Ranks of the truth among posterior draws", ["of what", "probability of ranks as uneven"])
    for kind, part in kinds.items():
        kept = Table(
            f"Of the variables given a probability, how many are in: {part['sets']} data sets from the prior{kind}",
            ["given", "variables", "mean given, %", "in, %", "standard errors apart"],
        )
        for row in part["reliability"]:
            kept.rows.append(
                [f"{row['low']:g} to {row['high']:g}", f"{row['n']:,}", f"{100 * row['said']:.1f}", f"{100 * row['is']:.1f}", f"{row['z']:+.1f}"]
            )  # fmt: skip
        found.append(kept)
        even.rows += [[name + kind.replace(" and", ","), number(p)] for name, p in part["uniform"].items()]
    return [*found, even]


def picture(result: dict[str, Any], path: Path) -> None:
    """Reliability, and the histograms of the ranks with the band in which 95 % of the bars should lie."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from scipy.stats import binom

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    rows = result["reliability"]
    said, true, n = (np.array([row[name] for row in rows]) for name in ("said", "is", "n"))
    axes[0].plot([0, 1], [0, 1], color="0.7", linewidth=1)
    error = 1.96 * np.sqrt(said * (1 - said) / n)
    axes[0].errorbar(said, true, error, fmt="o", markersize=4, color="#0072B2", capsize=2)
    axes[0].set(xlabel="probability given", ylabel="share that is in", title="Are the probabilities right?")
    axes[0].set_ylim(-0.03, 1.03)
    expected = result["sets"] / BINS
    band = np.asarray(binom.ppf([0.025, 0.975], result["sets"], 1 / BINS))
    for axis, (name, ranks) in zip(axes[1:], result["ranks"].items()):
        axis.axhspan(float(band[0]), float(band[1]), color="0.9")
        axis.axhline(expected, color="0.6", linewidth=1)
        counts = np.bincount(np.array(ranks) * BINS // (DRAWS + 1), minlength=BINS)
        axis.bar((np.arange(BINS) + 0.5) / BINS, counts, 0.9 / BINS, color="#0072B2")
        axis.set(xlabel="rank of the truth", ylabel="data sets", title=name)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
