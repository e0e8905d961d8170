"""Tecator: inclusion probabilities at three targets τ, and against one another."""

from itertools import combinations

import numpy as np

from benchmarks.common import number
from papers.individual_adaptation import tecator_runs
from papers.individual_adaptation.published import NOT_GIVEN
from papers.individual_adaptation.study import Claim, Section, Study, new_figure, worst_difference
from papers.individual_adaptation.tecator_runs import BOLD, CALM
from whichvars.plots.drawing import BLUE, GREY, ORANGE

TITLE = "Tecator: inclusion probabilities at τ = .35, .45 and .55"
TAUS = (0.35, 0.45, 0.55)
CLOSE = 0.05


def judge(bold: np.ndarray, calm: np.ndarray, truth: np.ndarray) -> list[Claim]:
    """Do runs at different targets agree with one another, and with a long run of another sampler?"""
    apart, calm_apart = worst_difference(bold), worst_difference(calm)
    off, calm_off = (float(np.abs(pips - truth).max()) for pips in (bold, calm))
    return [
        Claim(
            "the inclusion probabilities do not depend on τ: all on the diagonal",
            f"a figure; {NOT_GIVEN}",
            f"largest difference between two of the runs {number(apart, 2)}",
            bool(apart < CLOSE),
            f"agrees if below {CLOSE:g}, φ₀ = {BOLD:g}; with φ₀ = {CALM:g}: {number(calm_apart, 2)}",
            fairer=True,
        ),
        Claim(
            "inclusion probabilities by individual adaptation are right: none is far from the reference",
            NOT_GIVEN,
            f"worst error {number(off, 2)}",
            bool(off < CLOSE),
            f"holds if below {CLOSE:g}, φ₀ = {BOLD:g}; with φ₀ = {CALM:g}: {number(calm_off, 2)}",
            fairer=True,
        ),
    ]


def make(study: Study) -> Section:
    section = Section(TITLE)
    bold, calm = (np.array([p.pip for p in tecator_runs.by_tau(study, phi0, TAUS)]) for phi0 in (BOLD, CALM))
    truth = study.truth("tecator").pip
    wavelength = np.arange(1, len(truth) + 1)
    figure, axes = new_figure(3, 2, width=3.8, height=3.3)
    for ax, tau, pip in zip(axes[0], TAUS, bold):
        ax.bar(wavelength, pip, width=1.0, color=BLUE, label="this run")
        ax.plot(wavelength, truth, color=ORANGE, linewidth=0.9, label="reference")
        ax.set_title(f"τ = {tau:g}", fontsize=10)
        ax.set(xlabel="wavelength", ylim=(0, 0.75))
    axes[0, 0].set_ylabel("inclusion probability")
    axes[0, 0].legend(fontsize=8, frameon=False)
    for ax, (i, j) in zip(axes[1], combinations(range(3), 2)):
        ax.plot([0, 0.75], [0, 0.75], color=GREY, linewidth=0.8)
        ax.plot(bold[i], bold[j], "o", markersize=3.5, color=BLUE)
        ax.set(xlabel=f"τ = {TAUS[i]:g}", ylabel=f"τ = {TAUS[j]:g}")
    study.picture(
        section,
        "tecator_pips",
        figure,
        f"Above: inclusion probabilities at three targets τ, φ₀ = {BOLD:g}. Below: the runs against one another.",
    )
    rows = [
        {
            "variable": int(v),
            "reference": truth[v - 1],
            **{f"tau_{tau:g}_phi0_{phi0:g}": pips[k][v - 1] for phi0, pips in ((BOLD, bold), (CALM, calm)) for k, tau in enumerate(TAUS)},
        }
        for v in wavelength
    ]  # fmt: skip
    study.table(section, "tecator_pips", rows)
    section.claims = judge(bold, calm, truth)
    return section
