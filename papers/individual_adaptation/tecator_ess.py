"""Tecator: effective sample sizes against τ, beside the multi-move sampler and that of Lamnisos, Griffin and Steel."""

import numpy as np

from benchmarks.common import number
from papers.individual_adaptation import published, tecator_runs
from papers.individual_adaptation.published import NOT_GIVEN
from papers.individual_adaptation.study import (
    MILLION,
    Claim,
    Section,
    Study,
    between,
    label_outer,
    new_figure,
    times,
)
from papers.individual_adaptation.tecator_runs import BOLD, CALM, COLOURS, Row
from whichvars.plots.drawing import GREY, INK

TITLE = "Tecator: effective sample size against τ"
FACTOR = 1.5  # effective sample sizes within this factor are the same: estimators of them differ by as much
LEAST_RATIO = 5.0  # to the multi-move sampler
LEAST_RATIO_LAMNISOS = 4.0  # the paper's 5, less what such ratios vary by


def same(ours: float, paper: float) -> bool:
    return between(ours, paper / FACTOR, paper * FACTOR)


def optimum(rows: list[Row], **having: float) -> float:
    """The τ with the largest mean ESS, that averaged over r and w: a single setting's is a matter of luck."""
    taus = sorted({r["tau"] for r in tecator_runs.chosen(rows, **having)})
    means = [np.mean([r["mean_ess"] for r in tecator_runs.chosen(rows, tau=tau, **having)]) for tau in taus]
    return float(taus[int(np.argmax(means))])


def judge(rows: list[Row], draws: int) -> list[Claim]:
    """The paper's comparison, then the same by the least effective variable and by the CPU second."""
    per = MILLION / draws
    ads, lamnisos = (next(r for r in rows if r["sampler"] == name) for name in ("ads", "lamnisos"))
    top = tecator_runs.best(rows, phi0=BOLD)
    calm = tecator_runs.best(rows, phi0=CALM)
    tau = optimum(rows, phi0=BOLD)
    kind = f"{'RAPA' if top['w'] else 'IA'}, r = {top['chains']}, τ = {top['tau']:g}, φ₀ = {BOLD:g}"
    within = f"agrees if within a factor of {FACTOR:g}"
    out = [
        Claim("mean ESS of the multi-move sampler per 10⁶ iterations", f"{published.MULTI_MOVE_ESS:,.0f}",
              number(ads["mean_ess"] * per), same(ads["mean_ess"] * per, published.MULTI_MOVE_ESS), within),
        Claim("mean ESS of the sampler of Lamnisos et al.", f"{published.LAMNISOS_ESS:,.0f}",
              number(lamnisos["mean_ess"] * per), same(lamnisos["mean_ess"] * per, published.LAMNISOS_ESS), within),
        Claim("mean ESS of the best individual adaptation", f"about {published.BEST_IA_ESS:,.0f}",
              f"{number(top['mean_ess'] * per)} ({kind})", same(top["mean_ess"] * per, published.BEST_IA_ESS),
              f"{within}; the best of {len(tecator_runs.chosen(rows, phi0=BOLD))} settings; with φ₀ = {CALM:g}, our default, it is {number(calm['mean_ess'] * per)}"),
        Claim("ratio of mean ESS, best individual adaptation to multi-move", published.RATIO_TO_MULTI_MOVE,
              number(top["ratio_to_ads"]), top["ratio_to_ads"] >= LEAST_RATIO, f"agrees if at least {LEAST_RATIO:g}, per iteration"),
        Claim("ratio of mean ESS, best individual adaptation to Lamnisos et al.", published.RATIO_TO_LAMNISOS,
              number(top["ratio_to_lamnisos"]), top["ratio_to_lamnisos"] >= LEAST_RATIO_LAMNISOS,
              f"agrees if at least {LEAST_RATIO_LAMNISOS:g}, per iteration"),
        Claim("the best target τ", f"flat over {published.FLAT_TAUS[0]:g}–{published.FLAT_TAUS[1]:g}", f"{tau:g}",
              between(tau, *published.FLAT_TAUS), f"largest mean ESS at φ₀ = {BOLD:g}, averaged over r and w"),
    ]  # fmt: skip
    return out + fairer_claims(ads, top, calm, per)


def fairer_claims(ads: Row, top: Row, calm: Row, per: float) -> list[Claim]:
    """The comparison with multi-move by the least effective variable, and by the CPU second."""

    def least(row: Row) -> float:
        return row["minimum_ess"] / ads["minimum_ess"] if ads["minimum_ess"] > 0 else np.nan

    def a_second(row: Row) -> float:
        return (row["mean_ess"] / row["cpu_seconds"]) / (ads["mean_ess"] / ads["cpu_seconds"])

    def accuracy(row: Row) -> float:
        return ads["squared_error"] * ads["cpu_seconds"] / (row["squared_error"] * row["cpu_seconds"])

    with_calm = f"with φ₀ = {CALM:g}, at its best"
    frozen = "a mean over variables hides those that hardly move: the data determine the ratio A/D, but not how large both are, which drifts"
    out = [
        Claim(
            "the *minimum* ESS of individual adaptation is above that of multi-move",
            NOT_GIVEN,
            f"{number(top['minimum_ess'] * per)} against {number(ads['minimum_ess'] * per)}: {times(least(top))}",
            bool(least(top) > 1),
            f"{'no variable is left behind' if least(top) > 1 else frozen}; {with_calm}: {times(least(calm))}",
            fairer=True,
        ),
        Claim(
            "individual adaptation has more mean ESS per CPU second than multi-move",
            NOT_GIVEN,
            f"{times(a_second(top))} that of multi-move",
            bool(a_second(top) > 1),
            f"an iteration of individual adaptation takes {times(top['cpu_seconds'] / ads['cpu_seconds'])} as long here; "
            f"{with_calm}: {times(a_second(calm))}",
            fairer=True,
        ),
    ]
    if "squared_error" in top:
        holds = accuracy(top) > 1
        out.append(
            Claim(
                "individual adaptation has a smaller squared PIP error × CPU seconds than multi-move",
                NOT_GIVEN,
                f"{times(accuracy(top))} as accurate per CPU second as multi-move",
                bool(holds),
                "mean over variables of (PIP − reference)², PIPs by frequency as in the paper: by this measure the claim "
                f"{'holds too' if holds else 'does not hold'}; {with_calm}: {times(accuracy(calm))}",
                fairer=True,
            )
        )
    return out


def failures(rows: list[Row], per: float) -> list[str]:
    """A sentence on settings whose mean ESS is less than half of the median of those with the same τ and φ₀."""
    bad = []
    for row in (r for r in rows if r["sampler"] == "ia"):
        alike = [r["mean_ess"] for r in tecator_runs.chosen(rows, tau=row["tau"], phi0=row["phi0"])]
        if row["mean_ess"] < 0.5 * np.median(alike):
            kind = "RAPA" if row["w"] else "IA"
            bad.append(
                f"{kind}, r = {row['chains']}, τ = {row['tau']:g}, φ₀ = {row['phi0']:g} ({number(row['mean_ess'] * per)} against "
                f"a median of {number(float(np.median(alike)) * per)})"
            )
    if not bad:
        return []
    return [f"Settings that fell far behind those with the same τ and φ₀ in mean ESS: {'; '.join(bad)}."]


def make(study: Study) -> Section:
    draws = study.effort.tecator_draws
    rows = tecator_runs.grid(study, draws)
    per = MILLION / draws
    section = Section(TITLE, failures(rows, per))
    figure, axes = new_figure(3, 2, sharex=True, sharey="row", width=4.0)
    for line, phi0 in enumerate((BOLD, CALM)):
        for place, (key, name) in enumerate((("mean_ess", "mean"), ("median_ess", "median"), ("minimum_ess", "minimum"))):  # fmt: skip
            ax = axes[line, place]
            for chains, colour in COLOURS.items():
                for w, style in ((0.0, "o--"), (0.5, "s-")):
                    some = tecator_runs.chosen(rows, chains=chains, w=w, phi0=phi0)
                    ax.plot([r["tau"] for r in some], [max(r[key] * per, 1) for r in some], style, color=colour, markersize=4,
                            linewidth=1.4, label=f"{'RAPA' if w else 'IA'}, r = {chains}")  # fmt: skip
            for r, label, shade in (
                (rows[0], "multi-move", INK),
                (rows[1], "Lamnisos et al.", GREY),
            ):
                ax.axhline(max(r[key] * per, 1), color=shade, linewidth=1, linestyle=":", label=label)
            ax.set_yscale("log")
            ax.set_title(f"{name} ESS, φ₀ = {phi0:g}", fontsize=10)
    label_outer(axes, "target τ", "per 10⁶ iterations")
    axes[1, 0].legend(fontsize=7, frameon=False, ncols=2)
    study.picture(
        section,
        "tecator_ess",
        figure,
        "Effective sample size of the inclusion indicators per 10⁶ iterations: mean, median and minimum over the 100 variables.",
    )
    study.table(section, "tecator_ess", rows)
    section.claims = judge(rows, draws)
    section.smaller = tecator_runs.smaller(rows)
    return section
