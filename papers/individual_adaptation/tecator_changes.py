"""Tecator: the distribution of the number of variables that a proposal changes."""

import numpy as np

from benchmarks.tecator import proposal_sizes
from papers.individual_adaptation import published, tecator_runs
from papers.individual_adaptation.study import Claim, Section, Study, between, label_outer, new_figure
from papers.individual_adaptation.tecator_runs import BOLD, CALM
from whichvars.plots.drawing import BLUE, GREY, PALE

TITLE = "Tecator: number of changes proposed"
TAUS = (0.35, 0.45, 0.55)
NEAR = 2  # changes between two modes that are the same


def judge(bold: np.ndarray, calm: np.ndarray) -> list[Claim]:
    """From the counts by number of changes at τ = .35, with φ₀ = 10 and with 1."""
    sizes, calm_sizes = proposal_sizes(bold), proposal_sizes(calm)

    def words(found: dict[str, float]) -> str:
        return f"{found['changes_mode']} ({found['changes_low']}–{found['changes_high']})"

    low, high = published.CHANGES_RANGE
    return [
        Claim(
            f"modal number of changes proposed at τ = {published.CHANGES_TAU:g} (range)",
            f"{published.CHANGES_MODE} ({low}–{high})",
            f"{words(sizes)}, a range that contains 95 %",
            between(sizes["changes_mode"], published.CHANGES_MODE - NEAR, published.CHANGES_MODE + NEAR),
            f"agrees if within {NEAR} of the mode, φ₀ = {BOLD:g}; with φ₀ = {CALM:g} it is {words(calm_sizes)}",
        )
    ]


def make(study: Study) -> Section:
    section = Section(TITLE)
    counts = {
        (phi0, tau): [
            np.asarray(posterior.adaptation[0][key], float)
            for key in ("changes_proposed", "changes_accepted")
        ]
        for phi0 in (BOLD, CALM)
        for tau, posterior in zip(TAUS, tecator_runs.by_tau(study, phi0, TAUS))
    }
    figure, axes = new_figure(3, 2, sharex=True, sharey="row", width=3.8, height=2.8)
    rows = []
    for line, phi0 in enumerate((BOLD, CALM)):
        for place, tau in enumerate(TAUS):
            proposed, accepted = (count / counts[phi0, tau][0].sum() for count in counts[phi0, tau])
            ax = axes[line, place]
            number = np.arange(len(proposed))
            ax.bar(number, proposed, color=PALE, edgecolor=GREY, linewidth=0.4, label="proposed")
            ax.bar(number, accepted, color=BLUE, width=0.5, label="accepted")
            ax.set_xlim(-0.7, 32)
            ax.set_title(f"τ = {tau:g}, φ₀ = {phi0:g}", fontsize=10)
            rows += [
                {
                    "phi0": phi0,
                    "tau": tau,
                    "changes": int(k),
                    "proposed": proposed[k],
                    "accepted": accepted[k],
                }
                for k in number
            ]
    label_outer(axes, "variables changed at once", "share of iterations")
    axes[0, 0].legend(fontsize=8, frameon=False)
    study.picture(
        section,
        "tecator_changes",
        figure,
        "How many variables a proposal changes, and how often that was accepted.",
    )
    study.table(section, "tecator_changes", rows)
    judged = [counts[phi0, published.CHANGES_TAU][0] for phi0 in (BOLD, CALM)]
    section.claims = judge(*judged)
    return section
