"""PCR: an experiment on why runs differ. The simulated design is made once more with independent columns, and nothing else is changed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.common import number
from benchmarks.runs import once
from papers.individual_adaptation import pcr_runs, published
from papers.individual_adaptation.study import Claim, Study, TooFewRunsError, worst_difference

TABLE = "pcr_correlation"
CAPTION = (
    "An experiment: the design with correlated and with independent columns, three runs each, shorter than the paper's, r = 5. *Ladders "
    "differ by* is the largest difference between the mean log posteriors of two ladders of a run."
)
PART = 1 / 20  # of the paper's iterations
CHAINS = 5
CORRELATIONS = (pcr_runs.CORRELATION, 0.0)
SMALL = {"draws": 1000, "warmup": 100}  # the short run that tells one program from another
Row = dict[str, Any]


def rows(study: Study) -> list[Row]:
    """A row for each prior and correlation; none if the data are real, or if time is up before the runs are made."""
    if pcr_runs.real(study):
        return []
    part = min(PART, study.effort.pcr_part)
    draws = max(1000, round(published.PCR_ITERATIONS * part)) * 10 // 11

    def run(setting: Row, seed: int) -> Row:
        data = pcr_runs.simulated(study.effort.pcr_p, setting["correlation"])
        target = pcr_runs.problem_of(data, setting["prior"])
        size = {"draws": setting["draws"], "warmup": setting["warmup"]}
        found = [once(target, pcr_runs.sampler(CHAINS), seed + k, False, **size) for k in range(published.PCR_RUNS)]  # fmt: skip
        apart = [p.trace.groupby("chain")["log_posterior"].mean() for p in found if p.trace is not None]
        return {
            "largest_difference": worst_difference(np.array([p.pip for p in found])),
            "ladders_differ_by": max(float(np.ptp(means.to_numpy())) for means in apart),
            "smallest_mean_size": min(p.mean_size for p in found),
            "largest_mean_size": max(p.mean_size for p in found),
            "cpu_seconds": sum(p.cpu_seconds for p in found),
        }

    settings: list[Row] = [
        {"prior": prior, "correlation": correlation, "draws": draws, "warmup": draws // 10}
        for prior in pcr_runs.PRIORS
        for correlation in CORRELATIONS
    ]
    found = study.results(TABLE, settings, [pcr_runs.SEED], run, SMALL)
    if not all(found):
        raise TooFewRunsError("the experiment with independent columns is not there")
    return [
        {"prior": s["prior"], "correlation": s["correlation"], "runs": published.PCR_RUNS, "iterations": s["draws"] + s["warmup"], **results[0]}
        for s, results in zip(settings, found)
    ]  # fmt: skip


def pair(found: Sequence[Row], prior: str) -> tuple[Row, Row]:
    """The rows of a prior: correlated and independent columns."""
    with_correlation, without = sorted((r for r in found if r["prior"] == prior), key=lambda r: -r["correlation"])  # fmt: skip
    return with_correlation, without


def judge(found: Sequence[Row]) -> list[Claim]:
    """Are runs nearer to one another if columns are independent?"""
    out = []
    for prior in dict.fromkeys(r["prior"] for r in found):
        blocks, free = pair(found, prior)
        out.append(
            Claim(
                f"runs differ less if the columns of the design are independent, {prior}",
                published.NOT_GIVEN,
                f"largest difference of a PIP {number(free['largest_difference'], 2)} instead of {number(blocks['largest_difference'], 2)}; ladders of a run "
                f"differ by {number(free['ladders_differ_by'], 2)} instead of {number(blocks['ladders_differ_by'], 2)} in mean log posterior",
                bool(
                    free["largest_difference"] < blocks["largest_difference"]
                    and free["ladders_differ_by"] < blocks["ladders_differ_by"]
                ),
                f"holds if both are smaller; {free['runs']} runs of {free['iterations']:,} iterations, r = {CHAINS}, all else as above",
                fairer=True,
            )
        )
    return out
