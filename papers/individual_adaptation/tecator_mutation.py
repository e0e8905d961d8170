"""Tecator: the mutation rate against τ, for 1, 5 and 25 chains, with and without RAPA, in short and in long runs."""

import numpy as np

from benchmarks.common import number
from papers.individual_adaptation import tecator_runs
from papers.individual_adaptation.published import FLAT_TAUS, NOT_GIVEN
from papers.individual_adaptation.study import Claim, Section, Study, label_outer, new_figure
from papers.individual_adaptation.tecator_runs import BOLD, CALM, Row
from whichvars.plots.drawing import BLUE, GREY, ORANGE

TITLE = "Tecator: mutation rate against τ"
MARGIN = 0.9


def off_target(rows: list[Row], **having: float) -> float:
    """Mean |mutation rate − τ| over τ in the range the paper recommends."""
    inside = [r for r in tecator_runs.chosen(rows, **having) if FLAT_TAUS[0] <= r["tau"] <= FLAT_TAUS[1]]
    return float(np.mean([abs(r["mutation_rate"] - r["tau"]) for r in inside]))


def nearer(distance: float, than: float) -> str:
    """In words, whether a distance is the smaller one by a tenth at least: less than that is chance."""
    return "nearer" if distance < MARGIN * than else "no nearer"


def judge(short: list[Row], long: list[Row], lengths: tuple[int, int]) -> list[Claim]:
    """What the rates say on learning: is the target met, and do RAPA and several chains come nearer to it."""
    plain_short, plain_long = (off_target(rows, phi0=BOLD, chains=1, w=0.0) for rows in (short, long))
    rapa, many = (
        off_target(short, phi0=BOLD, chains=1, w=0.5),
        off_target(short, phi0=BOLD, chains=25, w=0.0),
    )
    return [
        Claim(
            "the mutation rate comes to the target τ as the run gets longer (IA, one chain, φ₀ = 10)",
            f"a figure; {NOT_GIVEN}",
            f"mean distance from τ {number(plain_short, 2)} in {lengths[0]:,} iterations, {number(plain_long, 2)} in {lengths[1]:,}",
            None,
            f"distance over τ from {FLAT_TAUS[0]:g} to {FLAT_TAUS[1]:g}; "
            + f"{nearer(plain_long, plain_short)} in the longer run",
            fairer=True,
        ),
        Claim(
            "RAPA and several chains learn sooner: nearer to τ in the short run",
            f"a figure; {NOT_GIVEN}",
            f"mean distance {number(plain_short, 2)} with IA, {number(rapa, 2)} with RAPA, {number(many, 2)} with 25 chains",
            None,
            f"RAPA is {nearer(rapa, plain_short)} than IA, 25 chains are "
            f"{nearer(many, plain_short)} than one; all runs have the same number of iterations in total",
            fairer=True,
        ),
    ]


def make(study: Study) -> Section:
    long_draws = study.effort.tecator_draws
    lengths = (long_draws // 10, long_draws)
    short, long = (tecator_runs.grid(study, draws) for draws in lengths)
    section = Section(TITLE)
    figure, axes = new_figure(3, 2, sharex=True, sharey=True)
    for line, rows, draws in ((0, short, lengths[0]), (1, long, lengths[1])):
        for place, chains in enumerate((1, 5, 25)):
            ax = axes[line, place]
            for phi0, width, alpha in ((BOLD, 1.8, 1.0), (CALM, 1.0, 0.6)):
                for w, style, name in ((0.0, "o--", "IA"), (0.5, "s-", "RAPA")):
                    some = tecator_runs.chosen(rows, chains=chains, w=w, phi0=phi0)
                    ax.plot([r["tau"] for r in some], [r["mutation_rate"] for r in some], style, linewidth=width, markersize=4,
                            color=BLUE if phi0 == BOLD else ORANGE, alpha=alpha, label=f"{name}, φ₀ = {phi0:g}")  # fmt: skip
            ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, zorder=0)
            ax.set_title(f"r = {chains}, {draws:,} iterations", fontsize=10)
            ax.set(xlim=(0.1, 0.9), ylim=(0, 0.9))
    label_outer(axes, "target τ", "mutation rate")
    axes[0, 0].legend(fontsize=8, frameon=False)
    study.picture(
        section,
        "tecator_mutation",
        figure,
        "Mutation rate against the target τ; the grey line is rate = τ. Iterations after a tenth as many of warm-up.",
    )
    rows = [{"iterations": draws, **r} for draws, found in zip(lengths, (short, long)) for r in found]
    study.table(section, "tecator_mutation", rows)
    section.claims = judge(short, long, lengths)
    section.smaller = tecator_runs.smaller([*short, *long])
    section.kept_cpu_seconds = tecator_runs.cpu_seconds([*short, *long])
    return section
