"""PCR: the simulated design with more noise. Do three runs agree once the posterior has no modes that are far apart?"""

from typing import Any

import numpy as np

import whichvars as wv
from benchmarks.common import number
from papers.individual_adaptation import pcr_pips, pcr_runs, published
from papers.individual_adaptation.pcr_runs import NOISE, PRIORS
from papers.individual_adaptation.published import LEVELS, NOT_GIVEN
from papers.individual_adaptation.study import Claim, Section, Study, new_figure
from papers.individual_adaptation.summaries import Summary
from whichvars.plots.drawing import BLUE, GREY, ORANGE

TITLE = "PCR: the same design with more noise"
CHAINS = published.PCR_CHAINS[0]
NOISES = (NOISE, 1.0)  # standard deviations; the first is that of the other sections
ABOUT = (
    "In the simulated design the noise is so small, {small:g} where the largest effect is 1, that models differ by tens in log posterior and a chain "
    "at the target hardly leaves the mode that it is in. The paper's data are not like that: only {strong} inclusion probabilities are above .5. "
    "So the same columns and strong effects are taken with a response that has more noise, and the three runs are made again; weak effects are "
    "in proportion to the noise."
)
Row = dict[str, Any]


def name_of(study: Study, noise: float, prior: str) -> str:
    """Of the files of runs, without their number. With the noise of the other sections the runs are the same as there, unless those are
    runs on the real matrix."""
    usual = pcr_runs.name_of(prior, CHAINS)
    return usual if noise == NOISE and not pcr_runs.real(study) else f"{usual}_noise{noise:g}"


def problem(study: Study, noise: float, prior: str) -> wv.Problem:
    X, y = study.once(f"pcr data {noise}", lambda: pcr_runs.simulated(study.effort.pcr_p, noise))[:2]
    return wv.Problem(X, y, slab=wv.IndependentNormal(pcr_runs.SLAB), model_prior=PRIORS[prior], scale="unit")


def describe(noise: float, prior: str, runs: list[Summary], part: float) -> Row:
    """How the posterior looks, and how far its three runs are apart."""
    mean = np.mean([run.pip for run in runs], axis=0)
    about = pcr_pips.summarise(prior, CHAINS, runs, pcr_runs.BLOCK, part)
    return {
        "noise": noise,
        "prior": prior,
        "runs": len(runs),
        "part": part,
        **{f"above_{level:g}": int((mean > level).sum()) for level in LEVELS},
        "mean_size": float(np.mean([run.mean_size for run in runs])),
        "largest_difference": about["largest_difference"],
        "smallest_correlation": about["smallest_correlation"],
        "chains_of_a_run_differ_by": about["chains_of_a_run_differ_by"],
        "fewest_round_trips": about["fewest_round_trips"],
    }


def judge(rows: list[Row]) -> list[Claim]:
    """For each prior, with the most noise."""
    out = []
    for prior in PRIORS:
        some = sorted((r for r in rows if r["prior"] == prior), key=lambda r: r["noise"])
        least, most = some[0], some[-1]
        out.append(
            Claim(
                f"three runs agree if there is more noise, {prior}, r = {CHAINS}",
                NOT_GIVEN,
                "largest difference of a PIP "
                + ", ".join(f"{number(r['largest_difference'], 2)} with noise {r['noise']:g}" for r in some),
                bool(most["largest_difference"] < pcr_pips.CLOSE),
                f"holds if below {pcr_pips.CLOSE:g} with noise {most['noise']:g}, where {most['above_0.5']} inclusion probabilities are above .5; the "
                f"runs have {most['part']:.3g} of the paper's iterations, those with noise {least['noise']:g} {least['part']:.3g}. The chains of a run differ by up to "
                f"{number(most['chains_of_a_run_differ_by'], 2)} in mean log posterior, with noise {least['noise']:g} by {number(least['chains_of_a_run_differ_by'], 2)}",
                fairer=True,
            )
        )
    return out


def make(study: Study) -> Section:
    section = Section(TITLE, [ABOUT.format(small=NOISE, strong=published.ABOVE[0.5])])
    rows, seconds, parts = [], 0.0, {}
    figure, axes = new_figure(len(NOISES), len(PRIORS), width=3.4, height=3.4, sharex=True, sharey=True)
    for line, prior in enumerate(PRIORS):
        for column, noise in enumerate(NOISES):
            study.say(f"PCR: noise {noise:g}, {prior}, r = {CHAINS}, {published.PCR_RUNS} runs")
            runs, part = pcr_runs.three_runs(
                study, problem(study, noise, prior), CHAINS, name_of(study, noise, prior)
            )
            rows.append(describe(noise, prior, runs, part))
            parts[f"noise {noise:g}, {prior}", CHAINS] = part
            seconds += pcr_runs.cpu_seconds(runs)
            ax = axes[line, column]
            ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
            for other, colour in ((1, BLUE), (2, ORANGE)):
                ax.plot(runs[0].pip, runs[other].pip, "o", color=colour, markersize=3, alpha=0.6, label=f"run {other + 1}")  # fmt: skip
            ax.set_title(f"{prior}, noise {noise:g}", fontsize=9)
            ax.set(xlabel="run 1", ylabel="runs 2 and 3")
    axes[0, 0].legend(fontsize=8, frameon=False)
    study.picture(
        section,
        "pcr_noise",
        figure,
        f"Inclusion probabilities by the amount of noise, run against run; r = {CHAINS}.",
    )
    study.table(
        section,
        "pcr_noise",
        rows,
        "How many inclusion probabilities are above a level, how far three runs are apart, and how far the chains of a run are in mean log "
        "posterior. The part is that of the paper's iterations.",
    )
    section.claims = judge(rows)
    section.smaller = pcr_runs.smaller(parts)
    section.kept_cpu_seconds = seconds
    return section
