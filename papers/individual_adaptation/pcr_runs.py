"""The PCR example's data and runs. The matrix is not ours to give away, so a design of its size stands in for it, unless
the user has the real one.

The stand-in: correlated blocks as in ``simulate_blocks``, the j-th effect being `DECAY`^j, so that a few are strong and many
are weak, and `WEAK` more are below what can be found one by one.
"""

from functools import partial
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks.runs import once, side_by_side
from papers.individual_adaptation import published
from papers.individual_adaptation.study import Study
from whichvars.datasets import Dataset, simulate_blocks

BLOCK, CORRELATION, DECAY, EFFECTS, WEAK, NOISE = 20, 0.9, 0.75, 20, 30, 0.05
SLAB = 100.0
SEED = 700
PRIORS: dict[str, Any] = {
    "h ~ Be(1, (p − 5)/5)": wv.BetaBinomial(size=published.PCR_PRIOR_SIZE),
    "h = 5/p": wv.FixedInclusion(size=published.PCR_PRIOR_SIZE),
}
HIERARCHICAL, FIXED = PRIORS
NAMES = {HIERARCHICAL: "hierarchical", FIXED: "fixed"}  # in names of files
Runs = dict[tuple[str, int], list[wv.Posterior]]


def simulated(p: int) -> Dataset:
    """A design of n = 60 rows and p columns with known truth."""
    blocks = -(-p // BLOCK)
    effects = min(EFFECTS, max(1, blocks // 2))
    return simulate_blocks(
        published.PCR_N, p, BLOCK, CORRELATION, [DECAY**j for j in range(effects)], min(WEAK, blocks - effects), NOISE, seed=0
    )  # fmt: skip


def data(study: Study) -> Dataset:
    if study.gene_data is not None:
        return study.gene_data
    return study.once("pcr data", lambda: simulated(study.effort.pcr_p))


def problem(study: Study, prior: str, columns: np.ndarray | None = None) -> wv.Problem:
    """The problem under one of the model priors, with all columns or with some."""
    X, y = data(study)[:2]
    if columns is not None:
        X = X.iloc[:, columns]
    return wv.Problem(X, y, slab=wv.IndependentNormal(SLAB), model_prior=PRIORS[prior], scale="unit")


def sampler(chains: int) -> wv.ParallelTempering:
    """MCA-IA-PT as in the paper."""
    return wv.ParallelTempering(
        wv.IndividualAdaptation(tau=published.PCR_TAU), rungs=published.PCR_RUNGS, chains=chains
    )


def iterations(study: Study) -> int:
    return max(1000, round(published.PCR_ITERATIONS * study.effort.pcr_part))


def three_runs(study: Study, target: wv.Problem, chains: int, name: str) -> list[wv.Posterior]:
    """Three runs with other seeds: an eleventh of the iterations is warm-up. They are kept under `name`."""
    draws = iterations(study) * 10 // 11
    jobs = [
        partial(
            study.kept_run,
            f"{name}_{run + 1}",
            partial(once, target, sampler(chains), SEED + run, False, draws=draws, warmup=draws // 10),
        )
        for run in range(published.PCR_RUNS)
    ]
    return side_by_side(jobs, study.effort.threads)


def all_runs(study: Study) -> Runs:
    """Both model priors, both numbers of chains, three runs each."""

    def compute() -> Runs:
        found = {}
        for prior in PRIORS:
            target = problem(study, prior)
            for chains in published.PCR_CHAINS:
                study.say(f"PCR: {prior}, r = {chains}, {published.PCR_RUNS} runs of {iterations(study):,}")
                found[prior, chains] = three_runs(study, target, chains, f"pcr_{NAMES[prior]}_{chains}")
        return found

    return study.once("pcr runs", compute)


def by_default(study: Study, prior: str) -> wv.Posterior:
    """The same problem by our default sampler: two replicates."""

    def compute() -> wv.Posterior:
        study.say(f"PCR: {prior}, our default")
        target = problem(study, prior)
        draws = max(1000, iterations(study) // 2)
        run = partial(study.sample, target, wv.Hybrid(), draws=draws, replicates=2, seed=SEED)
        return study.kept_run(f"pcr_{NAMES[prior]}_default", run)

    return study.once(f"pcr default {prior}", compute)


def about(study: Study) -> str:
    """What the data are, and how long the runs were."""
    source = "The real matrix: " if study.gene_data is not None else "Not the paper's data: "
    return (
        f"{source}{data(study).note} Independent slab with g = {SLAB:g}, columns standardised, m = {published.PCR_RUNGS} temperatures, "
        f"τ = {published.PCR_TAU:g}; {iterations(study):,} iterations a run, {study.effort.pcr_part:.3g} of the paper's, "
        "one eleventh of them warm-up."
    )


def real(study: Study) -> bool:
    return study.gene_data is not None
