"""Tecator: the probabilities A and D that were learned, and A/D against the odds of inclusion, over ten runs."""

import numpy as np

from benchmarks.common import number
from benchmarks.tecator import odds_against_odds
from papers.individual_adaptation import published, tecator_runs
from papers.individual_adaptation.study import Claim, Section, Study, between, new_figure
from papers.individual_adaptation.tecator_runs import BOLD, odds
from whichvars.plots.drawing import BLUE, INK, SKY

TITLE = "Tecator: what was learned"
SLOPE, CORRELATION = (0.9, 1.1), 0.98


def judge(
    slopes: np.ndarray, correlations: np.ndarray, level_spread: float, ratio_spread: float
) -> list[Claim]:
    """From each run's regression of log A/D on log odds, and how much levels and ratios differ between runs."""
    slope, correlation = float(np.mean(slopes)), float(np.mean(correlations))
    return [
        Claim(
            "A_j/D_j ≈ PIP_j/(1 − PIP_j)",
            "on the diagonal",
            f"slope of the logs {slope:.2f}, correlation {correlation:.3f}",
            between(slope, *SLOPE) and correlation >= CORRELATION,
            f"agrees if the slope is within {SLOPE[0]:g}–{SLOPE[1]:g} and the correlation at least {CORRELATION:g}; means over the runs",
        ),
        Claim(
            "A and D themselves are learned, not only their ratio",
            published.NOT_GIVEN,
            f"between runs, log √(AD) varies by {number(level_spread, 2)}, log A/D by {number(ratio_spread, 2)} (standard deviations)",
            bool(level_spread <= ratio_spread),
            "the data determine the ratio; how large both are "
            + ("is as certain" if level_spread <= ratio_spread else "drifts, and differs from run to run"),
            fairer=True,
        ),
    ]


def make(study: Study) -> Section:
    runs, tau = study.effort.adaptation_runs, published.CHANGES_TAU
    study.say(f"Tecator: {runs} runs at τ = {tau:g}")
    (found,) = tecator_runs.several(study, [{"sampler": "ia", "tau": tau, "phi0": BOLD}], runs)
    add, delete = (
        np.array([p.adaptation[0][key] for p in found]) for key in ("add_probability", "delete_probability")
    )
    pips = np.array([p.pip for p in found])
    section = Section(TITLE)
    figure, axes = new_figure(3, 1, width=4.2, height=3.8)
    variables = np.arange(1, add.shape[1] + 1)
    for ax, values, name in ((axes[0, 0], add, "A"), (axes[0, 1], delete, "D")):
        ax.plot(variables, values[0], "o", markersize=3, color=BLUE, label="one run")
        ax.fill_between(
            variables,
            values.min(axis=0),
            values.max(axis=0),
            color=SKY,
            alpha=0.35,
            label=f"{runs} runs",
        )
        ax.set(xlabel="variable", ylabel=f"{name} at the end", yscale="log")
    axes[0, 0].legend(fontsize=8, frameon=False)
    ax = axes[0, 2]
    inner = (pips > 0) & (pips < 1)
    x, y = odds(pips[inner]), (add / delete)[inner]
    ends = np.array([x.min(), x.max()])
    ax.plot(ends, ends, color=INK, linewidth=0.9)
    ax.plot(x, y, "o", markersize=3, alpha=0.4, markeredgewidth=0, color=BLUE)
    ax.set(xscale="log", yscale="log", xlabel="PIP / (1 − PIP)", ylabel="A / D")
    study.picture(
        section,
        "tecator_adaptation",
        figure,
        f"Final A and D by variable, and A/D against the odds of inclusion: {runs} runs, τ = {tau:g}, φ₀ = {BOLD:g}.",
    )
    rows = [
        {
            "run": run,
            "variable": int(v),
            "A": add[run, v - 1],
            "D": delete[run, v - 1],
            "pip": pips[run, v - 1],
        }
        for run in range(runs)
        for v in variables
    ]
    study.table(section, "tecator_adaptation", rows)
    fits = [odds_against_odds(a, d, p) for a, d, p in zip(add, delete, pips)]
    level, ratio = np.log(add * delete) / 2, np.log(add / delete)
    section.claims = judge(
        np.array([f["odds_slope"] for f in fits]),
        np.array([f["odds_correlation"] for f in fits]),
        float(level.std(axis=0).mean()),
        float(ratio.std(axis=0).mean()),
    )
    return section
