"""The PCR example's data and runs. The matrix is not ours to give away, so a design of its size stands in for it, unless
the user has the real one.

The stand-in: correlated blocks as in ``simulate_blocks``, the j-th effect being `DECAY`^j, so that a few are strong and many
are weak, and `WEAK` more are below what can be found one by one.
"""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks.runs import once, side_by_side
from papers.individual_adaptation import published
from papers.individual_adaptation.records import fingerprint
from papers.individual_adaptation.study import FULL, Study
from papers.individual_adaptation.summaries import Summary
from whichvars.datasets import Dataset, simulate_blocks
from whichvars.errors import DataError

BLOCK, CORRELATION, DECAY, EFFECTS, WEAK, NOISE = 20, 0.9, 0.75, 20, 30, 0.05
SLAB = 100.0
SEED = 700
PRIORS: dict[str, Any] = {
    "h ~ Be(1, (p − 5)/5)": wv.BetaBinomial(size=published.PCR_PRIOR_SIZE),
    "h = 5/p": wv.FixedInclusion(size=published.PCR_PRIOR_SIZE),
}
HIERARCHICAL, FIXED = PRIORS
NAMES = {HIERARCHICAL: "hierarchical", FIXED: "fixed"}  # in names of files
LONG = 10_000_000  # iterations, from which a run is saved on its way
ALL_RUNS = "pcr runs"  # under which a study has them
SMALL = {"draws": 1000, "warmup": 100}  # the short run that tells one program from another
Runs = dict[tuple[str, int], list[Summary]]


def simulated(p: int, correlation: float = CORRELATION) -> Dataset:
    """A design of n = 60 rows and p columns with known truth; columns of a block have the given correlation."""
    blocks = -(-p // BLOCK)
    effects = min(EFFECTS, max(1, blocks // 2))
    return simulate_blocks(
        published.PCR_N, p, BLOCK, correlation, [DECAY**j for j in range(effects)], min(WEAK, blocks - effects), NOISE, seed=0
    )  # fmt: skip


def data(study: Study) -> Dataset:
    if study.gene_data is not None:
        return study.gene_data
    return study.once("pcr data", lambda: simulated(study.effort.pcr_p))


def problem(study: Study, prior: str, columns: np.ndarray | None = None) -> wv.Problem:
    """The problem under one of the model priors, with all columns or with some."""
    return problem_of(data(study), prior, columns)


def problem_of(data: Dataset, prior: str, columns: np.ndarray | None = None) -> wv.Problem:
    """The same for given data."""
    X, y = data[:2]
    if columns is not None:
        X = X.iloc[:, columns]
    return wv.Problem(X, y, slab=wv.IndependentNormal(SLAB), model_prior=PRIORS[prior], scale="unit")


def sampler(chains: int) -> wv.ParallelTempering:
    """MCA-IA-PT as in the paper."""
    return wv.ParallelTempering(
        wv.IndividualAdaptation(tau=published.PCR_TAU), rungs=published.PCR_RUNGS, chains=chains
    )


def name_of(prior: str, chains: int) -> str:
    """Of the files of runs, without their number."""
    return f"pcr_{NAMES[prior]}_{chains}"


def iterations(study: Study) -> int:
    """Of a run of this study."""
    return max(1000, round(published.PCR_ITERATIONS * study.effort.pcr_part))


def program_of(study: Study, target: wv.Problem, sampler: Any, name: str, draws: int) -> str:
    """What a kept run must have in common with the one that is wanted: its length, and the results of a short run of the same problem
    and sampler, whose fingerprint this is (``records``)."""

    def short() -> dict[str, Any]:
        posterior = once(target, sampler, SEED, False, **SMALL)
        place = np.arange(1, target.p + 1)
        return {
            "p": target.p,
            "mean_size": posterior.mean_size,
            "pips": float(posterior.pip @ place),
            "best": float(np.max(posterior.models.log_marginal)),
        }

    return fingerprint({**study.once(f"short run of {name}", short), "draws": draws})


def three_runs(study: Study, target: wv.Problem, chains: int, name: str) -> tuple[list[Summary], float]:
    """Three runs with other seeds, and their length as a part of the paper's: an eleventh of the iterations is warm-up. They are kept
    under `name`. Where runs of the paper's length were finished earlier, they are taken, whatever the size of this study."""
    names = [f"{name}_{run + 1}" for run in range(published.PCR_RUNS)]
    program = partial(program_of, study, target, sampler(chains), name)
    if finished := study.finished(names, program(published.PCR_ITERATIONS * 10 // 11)):
        study.say(f"{name}: runs of the paper's length, read from an earlier study")
        return finished, FULL.pcr_part
    draws = iterations(study) * 10 // 11
    jobs = [
        partial(
            study.kept_run,
            names[run],
            program(draws),
            partial(
                one_run,
                study.out / "runs" / "unfinished" / names[run],
                target,
                sampler(chains),
                SEED + run,
                draws,
            ),
        )
        for run in range(published.PCR_RUNS)
    ]
    return side_by_side(jobs, study.effort.threads), study.effort.pcr_part


def one_run(
    directory: Path, target: wv.Problem, tempering: wv.ParallelTempering, seed: int, draws: int
) -> wv.Posterior:
    """One run on one thread. A long one is saved every ten minutes in a folder of its own, and goes on from there if it was interrupted."""
    size = {"draws": draws, "warmup": draws // 10}
    if draws < LONG:
        return once(target, tempering, seed, False, **size)
    run = partial(once, target, tempering, seed, False, **size, checkpoint=directory, every="10min")
    try:
        posterior = run()
    except DataError:  # what is there was left by another version
        shutil.rmtree(directory)
        posterior = run()
    shutil.rmtree(directory)
    return posterior


def all_runs(study: Study) -> Runs:
    """Both model priors, both numbers of chains, three runs each."""
    return {key: runs for key, (runs, _) in _runs_and_parts(study).items()}


def parts(study: Study) -> dict[tuple[str, int], float]:
    """How long the runs of ``all_runs`` are, as parts of the paper's."""
    return {key: part for key, (_, part) in _runs_and_parts(study).items()}


def _runs_and_parts(study: Study) -> dict[tuple[str, int], tuple[list[Summary], float]]:
    def compute() -> dict[tuple[str, int], tuple[list[Summary], float]]:
        found = {}
        for prior in PRIORS:
            target = problem(study, prior)
            for chains in published.PCR_CHAINS:
                study.say(f"PCR: {prior}, r = {chains}, {published.PCR_RUNS} runs")
                found[prior, chains] = three_runs(study, target, chains, name_of(prior, chains))
        return found

    return study.once(ALL_RUNS, compute)


def were_made(study: Study) -> bool:
    """Whether this study has made or read the runs of ``all_runs``."""
    return ALL_RUNS in study.done


def by_default(study: Study, prior: str) -> Summary:
    """The same problem by our default sampler: two replicates."""

    def compute() -> Summary:
        study.say(f"PCR: {prior}, our default")
        name = f"pcr_{NAMES[prior]}_default"
        target = problem(study, prior)
        program = partial(program_of, study, target, wv.Hybrid(), name)
        if finished := study.finished([name], program(published.PCR_ITERATIONS // 2)):
            return finished[0]
        draws = max(1000, iterations(study) // 2)
        return study.kept_run(
            name,
            program(draws),
            partial(study.sample, target, wv.Hybrid(), draws=draws, replicates=2, seed=SEED),
        )

    return study.once(f"pcr default {prior}", compute)


def length_in_words(part: float) -> str:
    """The length of runs, beside that of the paper's.

    >>> print(length_in_words(0.05))
    1,200,000 iterations, 0.05 of the paper's
    """
    count = max(1000, round(published.PCR_ITERATIONS * part))
    return f"{count:,} iterations, " + (
        "as many as in the paper" if part >= 1 else f"{part:.3g} of the paper's"
    )


def lengths(parts: dict[tuple[str, int], float]) -> str:
    """How long runs are, by prior and number of chains."""
    by_part: dict[float, list[str]] = {}
    for (prior, chains), part in parts.items():
        by_part.setdefault(part, []).append(f"{prior}, r = {chains}")
    sizes = "; ".join(
        length_in_words(part) + (f" ({' and '.join(which)})" if len(by_part) > 1 else "")
        for part, which in by_part.items()
    )
    return f"Length of the runs: {sizes}; one eleventh of the iterations is warm-up."


def smaller(parts: dict[tuple[str, int], float]) -> str:
    """What is smaller than in the paper, "" if nothing is."""
    short = [f"{prior}, r = {chains}" for (prior, chains), part in parts.items() if part < 1]
    if not short:
        return ""
    least = min(parts.values())
    return f"{least:.3g} of the iterations ({'; '.join(short)})" if len(short) < len(parts) else f"{least:.3g} of the iterations"  # fmt: skip


def cpu_seconds(*groups: list[Summary]) -> float:
    """Of all runs."""
    return sum(run.cpu_seconds for runs in groups for run in runs)


def about(study: Study, parts: dict[tuple[str, int], float]) -> str:
    """On which data the runs were made, and how long they are."""
    return f"{which_data(study)} {lengths(parts)}"


def which_data(study: Study) -> str:
    """In one sentence."""
    if real(study):
        return "The real matrix."
    return "The simulated design that is described in the section on inclusion probabilities."


def about_data(study: Study) -> str:
    """What the data are, and the settings that all figures share."""
    source = "The real matrix: " if real(study) else "Not the paper's data, but a design of the same size. "
    return (
        f"{source}{data(study).note} The slab is independent normal with g = {SLAB:g}, columns are standardised, and the sampler is "
        f"MCA-IA-PT with {published.PCR_RUNGS} temperatures and τ = {published.PCR_TAU:g}."
    )


def real(study: Study) -> bool:
    return study.gene_data is not None
