"""PCR: posterior distributions of the model size under both model priors."""

import numpy as np

from papers.individual_adaptation import pcr_runs, published
from papers.individual_adaptation.pcr_runs import FIXED, HIERARCHICAL, PRIORS
from papers.individual_adaptation.study import Claim, Section, Study, new_figure
from whichvars.plots.drawing import BLUE, GREEN, INK, ORANGE

TITLE = "PCR: the model size"
SLACK = 0.5  # beyond the range of the paper's three runs


def judge(means: dict[tuple[str, int], list[float]], default: dict[str, float], real: bool) -> list[Claim]:
    """Mean model sizes by prior and r, a value a run."""
    out = []
    for prior, (low, high) in (
        (HIERARCHICAL, published.PCR_SIZE_HIERARCHICAL),
        (FIXED, published.PCR_SIZE_FIXED),
    ):
        ours = [mean for (name, _), values in means.items() if name == prior for mean in values]
        inside = bool(min(ours) >= low - SLACK and max(ours) <= high + SLACK)
        out.append(
            Claim(
                f"mean model size, {prior}",
                f"{low:.1f}–{high:.1f}",
                f"{min(ours):.1f}–{max(ours):.1f} over {len(ours)} runs; our default {default[prior]:.1f}",
                inside if real else None,
                f"agrees if within {SLACK:g} of the paper's range" if real else "other data: a simulated design of the same size",
            )
        )  # fmt: skip
    return out


def make(study: Study) -> Section:
    runs = pcr_runs.all_runs(study)
    section = Section(TITLE, [pcr_runs.about(study, pcr_runs.parts(study))])
    shown = [p for found in runs.values() for p in found] + [
        pcr_runs.by_default(study, prior) for prior in PRIORS
    ]
    longest = max(int(np.flatnonzero(p.sizes > 1e-3)[-1]) for p in shown)
    figure, axes = new_figure(2, 2, width=5.0, height=2.8, sharex=True)
    rows = []
    for ax, ((prior, chains), found) in zip(axes.flat, runs.items()):
        for run, (posterior, colour) in enumerate(zip(found, (BLUE, ORANGE, GREEN))):
            shares = posterior.sizes[: longest + 1]
            ax.plot(shares, "o-", color=colour, markersize=3, linewidth=1, label=f"run {run + 1}")
            rows += [
                {"prior": prior, "chains": chains, "run": run + 1, "size": k, "probability": s}
                for k, s in enumerate(shares)
            ]
        other = pcr_runs.by_default(study, prior).sizes[: longest + 1]
        ax.plot(other, color=INK, linewidth=1, linestyle=":", label="our default")
        ax.set_title(f"{prior}, r = {chains}", fontsize=10)
        ax.set_ylabel("probability")
    for ax in axes[1]:
        ax.set_xlabel("model size")
    axes[0, 0].legend(fontsize=8, frameon=False)
    study.picture(section, "pcr_sizes", figure, "Posterior distribution of the model size, the three runs.")
    study.table(section, "pcr_sizes", rows)
    means = {key: [p.mean_size for p in found] for key, found in runs.items()}
    default = {prior: pcr_runs.by_default(study, prior).mean_size for prior in PRIORS}
    section.claims = judge(means, default, pcr_runs.real(study))
    section.smaller = pcr_runs.smaller(pcr_runs.parts(study))
    return section
