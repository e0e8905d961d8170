"""PCR: what is lost when only the variables with the largest marginal correlations are looked at."""

import numpy as np

from papers.individual_adaptation import pcr_runs, published
from papers.individual_adaptation.pcr_runs import HIERARCHICAL
from papers.individual_adaptation.published import LEVELS
from papers.individual_adaptation.study import Claim, Section, Study, new_figure
from whichvars.plots.drawing import BLUE, GREY, ORANGE

TITLE = "PCR: the screening study"
CHAINS = published.PCR_CHAINS[0]


def best_marginal(X: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    """Columns with the largest absolute correlation with y, in their order; shapes (n, p), (n,) → (count,)."""
    centred = X - X.mean(axis=0)
    correlation = np.abs(centred.T @ (y - y.mean())) / np.sqrt((centred**2).sum(axis=0))
    return np.sort(np.argsort(-correlation, kind="stable")[:count])


def lost(pip: np.ndarray, kept: np.ndarray) -> dict[float, tuple[int, int]]:
    """For each level, how many variables are above it, and how many of these were kept."""
    stays = np.zeros(len(pip), bool)
    stays[kept] = True
    return {level: (int((pip > level).sum()), int((stays & (pip > level)).sum())) for level in LEVELS}


def judge(
    found: dict[float, tuple[int, int]], sizes: tuple[float, float], screen: int, real: bool
) -> list[Claim]:
    """The paper: variables that matter do not survive, and models become larger."""
    above = {level: count for level, (count, _) in found.items()}
    gone = {level: count - kept for level, (count, kept) in found.items()}
    out = [
        Claim(
            "variables with PIP above .5, .1, .05, .01, all data",
            ", ".join(str(published.ABOVE[level]) for level in LEVELS),
            ", ".join(str(above[level]) for level in LEVELS),
            bool(above[0.5] == published.ABOVE[0.5]) if real else None,
            "agrees if the first number is the same"
            if real
            else "other data: a simulated design of the same size",
        )
    ]
    for level in LEVELS[1:]:
        out.append(
            Claim(
                f"of those with PIP > {level:g}, a screen to the {screen:,} largest marginal correlations loses some",
                f"{published.ABOVE[level] - published.KEPT[level]} of {published.ABOVE[level]} lost",
                f"{gone[level]} of {above[level]} lost",
                bool(gone[level] > 0) if above[level] > 0 else None,
                ("agrees if any is lost" if above[level] > 0 else "no variable is above that level here")
                + ("" if real else "; other data, so only the direction is compared"),
                reason="Whether a screen loses variables depends on the data: these have other correlations. At lower levels it loses some here, too."
                if above[level] > 0 and gone[level] == 0
                else "",
            )
        )
    larger = sizes[1] > sizes[0]
    out.append(
        Claim(
            "the mean model size after screening, and before",
            f"{published.SIZE_SCREENED:g} and {published.SIZE_FULL:g}",
            f"{sizes[1]:.1f} and {sizes[0]:.1f}",
            larger if real else None,
            ("agrees if larger after it" if real else "other data; here it is " + ("larger" if larger else "not larger") + " after it"),
        )
    )  # fmt: skip
    return out


def make(study: Study) -> Section:
    X, y = pcr_runs.data(study)[:2]
    screen = min(study.effort.screen, X.shape[1])
    kept = best_marginal(X.to_numpy(float), y.to_numpy(float), screen)
    whole = pcr_runs.all_runs(study)[HIERARCHICAL, CHAINS]
    study.say(f"PCR: screened to {screen:,} variables")
    part, length = pcr_runs.three_runs(
        study, pcr_runs.problem(study, HIERARCHICAL, kept), CHAINS, "pcr_screened"
    )
    pip = np.mean([p.pip for p in whole], axis=0)
    screened = np.zeros(len(pip))
    screened[kept] = np.mean([p.pip for p in part], axis=0)
    sizes = (float(np.mean([p.mean_size for p in whole])), float(np.mean([p.mean_size for p in part])))
    lengths = {
        (HIERARCHICAL, CHAINS): pcr_runs.parts(study)[HIERARCHICAL, CHAINS],
        ("after the screen", CHAINS): length,
    }
    section = Section(TITLE, [pcr_runs.about(study, lengths)])
    figure, axes = new_figure(width=4.6, height=4.2)
    ax = axes[0, 0]
    stays = np.zeros(len(pip), bool)
    stays[kept] = True
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    for some, marker, color, label in ((stays, "o", BLUE, "kept"), (~stays, "x", ORANGE, "screened out")):
        ax.plot(
            pip[some],
            screened[some],
            marker,
            markersize=4,
            alpha=0.6,
            color=color,
            label=label,
            rasterized=True,
        )
    ax.set(
        xlabel="inclusion probability, all variables",
        ylabel=f"the {screen:,} best marginal correlations only",
    )
    ax.legend(fontsize=8, frameon=False)
    study.picture(
        section,
        "pcr_screening",
        figure,
        f"Inclusion probabilities with all variables and with {screen:,}; means of three runs, {HIERARCHICAL}, r = {CHAINS}.",
    )
    default = pcr_runs.by_default(study, HIERARCHICAL)
    rows = []
    for name, values in (("IA-PT, mean of three runs", pip), ("our default", default.pip)):
        for level, (above, left) in lost(values, kept).items():
            rows.append(
                {
                    "by": name,
                    "PIP above": level,
                    "variables": above,
                    "of them kept": left,
                    "lost": above - left,
                }
            )
    study.table(
        section,
        "pcr_screening",
        rows,
        f"Variables above a level, and how many of them are among the {screen:,} kept.",
    )
    names = list(X.columns)
    study.table(
        section,
        "pcr_screening_pips",
        [{"variable": names[j], "all": pip[j], "screened": screened[j], "kept": bool(stays[j])} for j in np.flatnonzero((pip > 0.001) | (screened > 0.001))],
    )  # fmt: skip
    section.claims = judge(lost(pip, kept), sizes, screen, pcr_runs.real(study))
    section.smaller = pcr_runs.smaller(lengths)
    section.kept_cpu_seconds = pcr_runs.cpu_seconds(part)
    return section
