"""PCR: traces of the model size."""

import numpy as np

from benchmarks.common import number
from papers.individual_adaptation import pcr_runs
from papers.individual_adaptation.published import NOT_GIVEN
from papers.individual_adaptation.study import Claim, Section, Study, label_outer, new_figure
from whichvars.plots.drawing import BLUE, GREEN, ORANGE

TITLE = "PCR: traces of the model size"


def drift(sizes: np.ndarray) -> float:
    """Difference of the means of the two halves of a trace, in standard deviations of the trace; 0 if it never moves."""
    half = len(sizes) // 2
    spread = float(sizes.std())
    return 0.0 if spread == 0 else float(sizes[half:].mean() - sizes[:half].mean()) / spread


def judge(drifts: list[float]) -> list[Claim]:
    worst = max(np.abs(drifts))
    return [
        Claim(
            "the chains are where they belong: the model size does not drift",
            f"a figure; {NOT_GIVEN}",
            f"largest drift {number(float(worst), 2)}",
            None,
            "mean over chains of the second half of a run less that of its first half, in standard deviations of the run: "
            + ("no drift to speak of" if worst < 0.5 else "at least one run was still on its way"),
            fairer=True,
        )
    ]


def make(study: Study) -> Section:
    runs = pcr_runs.all_runs(study)
    section = Section(TITLE, [pcr_runs.about(study, pcr_runs.parts(study))])
    figure, axes = new_figure(2, 2, width=5.6, height=2.4, sharex="col")
    rows, drifts = [], []
    for ax, ((prior, chains), found) in zip(axes.flat, runs.items()):
        for run, (summary, colour) in enumerate(zip(found, (BLUE, ORANGE, GREEN))):
            ax.plot(
                summary.iteration, summary.mean_sizes, linewidth=0.8, color=colour, label=f"run {run + 1}"
            )
            drifts.append(drift(summary.mean_sizes))
            rows += [
                {"prior": prior, "chains": chains, "run": run + 1, "iteration": int(i), "mean_size": s}
                for i, s in zip(summary.iteration, summary.mean_sizes)
            ]
        ax.set_title(f"{prior}, r = {chains}", fontsize=10)
    label_outer(axes, "iteration of each chain, after warm-up", "model size, mean of chains")
    axes[0, 0].legend(fontsize=8, frameon=False)
    study.picture(
        section, "pcr_traces", figure, "Model size along the runs, averaged over the r chains at the target."
    )
    study.table(section, "pcr_traces", rows)
    section.claims = judge(drifts)
    section.smaller = pcr_runs.smaller(pcr_runs.parts(study))
    return section
