"""Tecator: traces of the model size of the three samplers."""

from functools import partial

import numpy as np

import whichvars as wv
from benchmarks import tecator
from benchmarks.common import number
from benchmarks.runs import once, side_by_side
from papers.individual_adaptation.published import NOT_GIVEN
from papers.individual_adaptation.study import Claim, Section, Study, new_figure
from papers.individual_adaptation.tecator_runs import BOLD
from whichvars.plots.drawing import BLUE

TITLE = "Tecator: traces of the model size"
SAMPLERS = {
    "multi-move": wv.AddDeleteSwap(),
    "Lamnisos et al.": wv.Lamnisos(),
    f"IA, τ = .45, φ₀ = {BOLD:g}": wv.IndividualAdaptation(w=0.0, phi0=BOLD),
}


def correlation(sizes: np.ndarray, lag: int) -> float:
    """Autocorrelation at a lag; 1 for a series that never moves."""
    centred = sizes - sizes.mean()
    square = float(centred @ centred)
    return 1.0 if square == 0 else float(centred[:-lag] @ centred[lag:]) / square


def judge(by_name: dict[str, float], lag: int) -> list[Claim]:
    values = list(by_name.values())
    return [
        Claim(
            "individual adaptation forgets its model size sooner than both competitors",
            f"a figure; {NOT_GIVEN}",
            "; ".join(f"{name} {number(value, 2)}" for name, value in by_name.items()),
            bool(values[-1] < min(values[:-1])),
            f"autocorrelation of the model size at lag {lag}, smallest for individual adaptation",
            fairer=True,
        )
    ]


def make(study: Study) -> Section:
    draws, lag = study.effort.trace_draws, 10
    warmup = study.effort.tecator_draws // 10
    problem = study.problem("tecator")
    jobs = [
        partial(once, problem, s, tecator.SEED, False, draws=draws, warmup=warmup) for s in SAMPLERS.values()
    ]
    section = Section(TITLE)
    figure, axes = new_figure(1, len(SAMPLERS), width=9, height=1.9, sharex=True, sharey=True)
    found, rows = {}, []
    for ax, name, posterior in zip(
        axes[:, 0], SAMPLERS, side_by_side(jobs, study.effort.threads), strict=True
    ):
        assert posterior.trace is not None
        iteration, size = (posterior.trace[key].to_numpy() for key in ("iteration", "size"))
        step = int(iteration[1] - iteration[0])
        ax.plot(iteration, size, linewidth=0.7, color=BLUE)
        ax.set_title(name, fontsize=10)
        ax.set_ylabel("model size")
        found[name] = correlation(size.astype(float), max(1, lag // step))
        rows += [{"sampler": name, "iteration": int(i), "size": int(k)} for i, k in zip(iteration, size)]
    axes[-1, 0].set_xlabel(f"iteration after {warmup:,} of warm-up")
    study.picture(section, "tecator_traces", figure, "Model size along the run, the three samplers alike.")
    study.table(section, "tecator_traces", rows)
    section.claims = judge(found, lag)
    return section
