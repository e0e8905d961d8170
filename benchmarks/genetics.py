"""Genetics at the sizes of its users: a thousand traits on five thousand variants, and covariates beside twenty thousand genotypes."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks import common
from benchmarks.common import Table, number
from benchmarks.wide import genotypes
from whichvars.sampling.sampling_many import ManyPosteriors

TRAITS, VARIANTS, PEOPLE = 1000, 5000, 500
TARGET = 0.02
# traits that are sampled again, with many more draws, so that errors can be compared with those claimed
CHECKED, LONG = 20, 80_000
# people, variants, covariates and draws of the second comparison; models drawn at random, and the best of each run, of which values are compared
COHORT, MANY_VARIANTS, COVARIATES, DRAWS, MODELS, BEST = 5000, 20_000, 12, 100_000, 1000, 500


def measure(
    traits: int = TRAITS, variants: int = MANY_VARIANTS, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Both comparisons; fewer traits and variants for a try."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "environment": common.environment(),
            "traits": many_traits(traits, say),
            "covariates": with_covariates(variants, say),
        }


def many_traits(traits: int, say: Callable[[str], None]) -> dict[str, Any]:
    """CPU seconds of ``sample_many``, and errors of some traits compared with long runs. Each trait has up to three causal variants, of
    which each explains 3 to 10 % of the variance."""
    rng = np.random.default_rng(2)
    G = np.concatenate(list(genotypes(VARIANTS, PEOPLE, seed=3))).T.astype(float)
    standard = (G - G.mean(axis=0)) / np.maximum(G.std(axis=0), 1e-9)
    Y = rng.normal(size=(PEOPLE, traits))
    for t in range(traits):
        causal = rng.choice(VARIANTS, rng.integers(0, 4), replace=False)
        size = np.sqrt(rng.uniform(0.03, 0.1, len(causal)))
        Y[:, t] += standard[:, causal] @ (size * rng.choice([-1, 1], len(causal)))
    wv.sample_many(G[:, :50], Y[:, :2], progress=False)  # compiles
    say(f"{traits:,} traits")
    started = time.process_time()
    many = wv.sample_many(G, Y, target_mcse=TARGET, progress=False)
    cpu = time.process_time() - started
    some = rng.permutation(traits)[:CHECKED]
    say(f"{len(some)} of them again, with {LONG:,} draws")
    long = wv.sample_many(G, Y[:, some], draws=LONG, seed=1, progress=False)
    return {
        "traits": traits,
        "cpu_seconds": cpu,
        "converged": float(many.summary["converged"].mean()),
        "within_target": float((many.summary["largest_mcse"] <= TARGET).mean()),
        "with_sets": float((many.summary["sets"] > 0).mean()),
        **_errors(many, long, [many.summary.index[t] for t in some]),
    }


def _errors(short: ManyPosteriors, long: ManyPosteriors, names: list[str]) -> dict[str, float]:
    """Differences from the long runs, and what they are of the errors claimed by both."""
    differences, claimed = [], []
    for name, other in zip(names, long.summary.index):
        first, second = (
            m.variables[m.variables["response"] == who].set_index("variable")[["pip", "mcse"]]
            for m, who in ((short, name), (long, other))
        )
        both = first.join(second, how="inner", rsuffix="_long").dropna()
        error = np.hypot(both["mcse"], both["mcse_long"])
        differences += (both["pip"] - both["pip_long"])[error > 0].tolist()
        claimed += error[error > 0].tolist()
    differences_, claimed_ = np.array(differences), np.array(claimed)
    return {
        "largest_difference": float(np.abs(differences_).max(initial=0.0)),
        "actual_to_claimed": float(np.sqrt(np.mean((differences_ / claimed_) ** 2)))
        if len(claimed_)
        else np.nan,
    }


def with_covariates(variants: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Genotypes of one byte with covariates beside them, and a dense table with the same columns always included: CPU seconds, log posteriors
    of the same models, some of them drawn at random and some the best of both runs, and inclusion probabilities of two runs with other random numbers."""
    rng = np.random.default_rng(5)
    G = np.concatenate(list(genotypes(variants, COHORT, seed=6))).T
    C = rng.normal(size=(COHORT, COVARIATES))
    causal = rng.choice(variants, 8, replace=False)
    y = (
        G[:, causal] @ rng.choice([-0.15, 0.15], 8)
        + C @ rng.normal(size=COVARIATES)
        + rng.normal(size=COHORT)
    )
    names = [f"rs{j}" for j in range(variants)]
    priors: dict[str, Any] = {"slab": wv.IndependentNormal(0.01), "model_prior": wv.BetaBinomial(size=5)}

    def beside() -> wv.Problem:
        return wv.Problem(wv.Genotypes(G, names=names), y, covariates=C, **priors)

    def dense() -> wv.Problem:
        both = np.column_stack([G.astype(float), C])
        always = [f"c{k}" for k in range(COVARIATES)]
        return wv.Problem(both, y, names=[*names, *always], always_include=always, **priors)

    found: dict[str, Any] = {}
    posteriors, problems = [], []
    # random subsets of the variants with an effect, with and without some others
    models = [
        [names[j] for j in {*rng.choice(causal, rng.integers(0, 9), replace=False), *rng.choice(variants, rng.integers(0, 5))}]
        for _ in range(MODELS)
    ]  # fmt: skip
    wv.sample(wv.Problem(wv.Genotypes(G[:500, :60], names=names[:60]), y[:500], covariates=C[:500]), draws=100, progress=False)  # fmt: skip
    wv.sample(wv.Problem(G[:500, :60].astype(float), y[:500], engine="columns"), draws=100, progress=False)
    for seed, (key, make) in enumerate((("beside", beside), ("dense", dense))):
        say(f"{variants:,} variants and {COVARIATES} covariates: {key}")
        started = time.process_time()
        problem = make()
        found[f"{key}_problem"] = time.process_time() - started
        posteriors.append(wv.sample(problem, draws=DRAWS, seed=seed, threads=1, progress=False))
        found[f"{key}_all"] = time.process_time() - started
        problems.append(problem)
        models += [list(filter(None, best.split(", "))) for best in posteriors[-1].top_models(BEST)["variables"]]  # fmt: skip
    values = [np.array([p.log_marginal(m) - p.log_marginal() + p.log_prior(m) for m in models]) for p in problems]  # fmt: skip
    (pip, other), error = (p.pip for p in posteriors), np.hypot(*(p.mcse for p in posteriors))
    sampled = (np.maximum(pip, other) >= 0.01) & (error > 0)
    scores = (pip - other)[sampled] / error[sampled]
    found["largest_difference"] = float(np.abs(pip - other).max())
    found["largest_mcse"] = float(max(np.nanmax(p.mcse) for p in posteriors))
    found["compared"] = int(sampled.sum())
    found["largest_score"] = float(np.abs(scores).max(initial=0.0))
    found["mean_square_score"] = float(np.mean(scores**2)) if len(scores) else np.nan
    found["log_posteriors"] = float(np.abs(values[0] - values[1]).max())
    found["largest_log_posterior"] = float(np.abs(values[0]).max())
    best = posteriors[0].top_models(BEST)["probability"].sum()
    return found | {"variants": variants, "models": len(models), "best": float(best)}


def tables(result: dict[str, Any]) -> list[Table]:
    traits, beside = result["traits"], result["covariates"]
    first = Table(
        f"Many traits on {VARIANTS:,} variants of {PEOPLE} people, each to a Monte Carlo error of {TARGET}",
        ["traits", "CPU minutes", "wanted", "CPU s per trait", "converged", "within the target", "with a credible set", "largest difference from long runs", "actual/claimed error"],
    )  # fmt: skip
    wanted = f"< {10 * traits['traits'] / TRAITS:g}"
    first.rows.append(
        [
            f"{traits['traits']:,}", number(traits["cpu_seconds"] / 60), wanted, number(traits["cpu_seconds"] / traits["traits"]),
            *(f"{100 * traits[key]:.1f} %" for key in ("converged", "within_target", "with_sets")),
            number(traits["largest_difference"]), number(traits["actual_to_claimed"]),
        ]
    )  # fmt: skip
    second = Table(
        f"{COHORT:,} people, {beside['variants']:,} variants and {COVARIATES} covariates: CPU seconds",
        ["how", "building the problem", f"with {DRAWS:,} draws of four replicates", "ratio", "wanted"],
    )  # fmt: skip
    ratio = beside["beside_all"] / beside["dense_all"]
    second.rows += [
        ["genotypes of one byte, covariates=…", number(beside["beside_problem"]), number(beside["beside_all"]), number(ratio), "< 1.2"],
        ["dense columns, always_include=…", number(beside["dense_problem"]), number(beside["dense_all"]), "", ""],
    ]  # fmt: skip
    second.note = (
        f"The two problems have the same posterior: its logarithms, up to the same constant, of {beside['models']:,} models are up to "
        f"{number(beside['largest_log_posterior'])} in size, and differ by {beside['log_posteriors']:.1g} at most. These models are subsets of the variants with an effect, "
        f"with and without others, and the {BEST} best of each run, which have {beside['best']:.0%} of the posterior probability. Inclusion probabilities of the two runs, which have random numbers of their own, differ by "
        f"{number(beside['largest_difference'])} at most, with Monte Carlo errors of up to {number(beside['largest_mcse'])}. In units of their combined errors, the "
        f"differences of the {beside['compared']} variants with a probability of at least 0.01 in one of the runs have a mean square of "
        f"{number(beside['mean_square_score'])} (expected: 1), and the largest is {number(beside['largest_score'])}."
    )
    return [first, second]
