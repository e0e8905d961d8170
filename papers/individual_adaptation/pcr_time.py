"""PCR: how long the paper's 24·10⁶ iterations at six temperatures take."""

import time
from typing import Any

import numpy as np

from benchmarks.common import environment, number
from papers.individual_adaptation import pcr_runs, published
from papers.individual_adaptation.pcr_runs import PRIORS
from papers.individual_adaptation.study import Claim, Section, Study, new_figure
from whichvars.plots.drawing import BLUE, ORANGE, SKY

TITLE = "PCR: time"
AIM = 180.0  # seconds
Row = dict[str, Any]


def met(row: Row, threads: int, busy: bool) -> bool | None:
    """Whether the aim is met; None where other work took so much of the time that one cannot tell.

    CPU time over threads is the least that the seconds could be.
    """
    if busy:
        return (
            None if row["whole_cpu"] / threads < AIM <= row["whole_seconds"] else row["whole_seconds"] < AIM
        )
    return row["whole_seconds"] < AIM


def judge(rows: list[Row], threads: int, load: float) -> list[Claim]:
    """From the longest part that was timed of each setting."""
    out = []
    for prior, chains in dict.fromkeys((r["prior"], r["chains"]) for r in rows):
        timed = [r for r in rows if (r["prior"], r["chains"]) == (prior, chains)]
        last = max(timed, key=lambda r: r["part"])
        busy = load > 0.5 * threads
        out.append(
            Claim(
                f"{published.PCR_ITERATIONS:,} iterations × {published.PCR_RUNGS} temperatures take under {AIM / 60:g} minutes, {prior}, r = {chains}",
                published.NOT_GIVEN,
                f"{number(last['whole_seconds'])} s on {threads} threads, extrapolated from {last['part']:.3g} of it ({number(last['seconds'])} s)",
                met(last, threads, busy),
                f"CPU time of the whole: {number(last['whole_cpu'])} s, that is {number(last['whole_cpu'] / threads)} s on {threads} cores if both are busy "
                "all the time"
                + (f"; the machine was busy with other work (load {load:.1f}), so that the seconds are too many" if busy else ""),
                fairer=True,
            )
        )  # fmt: skip
    return out


def whole_runs(study: Study) -> list[str]:
    """What the runs of the other sections took, if these were made before this one and all have the paper's own length."""
    if not pcr_runs.were_made(study) or any(part < 1 for part in pcr_runs.parts(study).values()):
        return []
    found = []
    for (prior, chains), runs in pcr_runs.all_runs(study).items():
        seconds = [run.cpu_seconds for run in runs]
        found.append(f"{number(min(seconds), 2)}–{number(max(seconds), 2)} s ({prior}, r = {chains})")
    return [f"The whole runs of the section on inclusion probabilities took so much CPU time each: {', '.join(found)}."]  # fmt: skip


def make(study: Study) -> Section:
    section = Section(TITLE, [pcr_runs.which_data(study), *whole_runs(study)])
    load = environment()["load_at_start"]
    rows: list[Row] = []
    for prior in PRIORS:
        target = pcr_runs.problem(study, prior)
        for chains in published.PCR_CHAINS:
            # short, so that nothing that is timed has to be compiled first
            study.sample(
                target, pcr_runs.sampler(chains), draws=1000, warmup=100, replicates=1, rao_blackwell=False
            )
            study.say(f"PCR: time, {prior}, r = {chains}")
            for part in (study.effort.timed_part / 4, study.effort.timed_part):
                whole = max(1000, round(published.PCR_ITERATIONS * part))
                started = time.monotonic()
                posterior = study.sample(
                    target,
                    pcr_runs.sampler(chains),
                    draws=whole * 10 // 11,
                    warmup=whole // 11,
                    replicates=1,
                    seed=pcr_runs.SEED,
                    rao_blackwell=False,
                )
                seconds = time.monotonic() - started
                factor = published.PCR_ITERATIONS / posterior.iterations
                rows.append(
                    {
                        "prior": prior,
                        "chains": chains,
                        "part": part,
                        "iterations": posterior.iterations,
                        "mean_size": round(posterior.mean_size, 2),
                        "seconds": round(seconds, 2),
                        "cpu_seconds": round(posterior.cpu_seconds, 2),
                        "whole_seconds": round(seconds * factor, 1),
                        "whole_cpu": round(posterior.cpu_seconds * factor, 1),
                    }
                )
    study.table(
        section,
        "pcr_time",
        rows,
        f"Two parts of the whole, so that one sees whether time is in proportion; {study.effort.threads} threads.",
    )
    figure, axes = new_figure(width=7.0, height=3.2)
    ax = axes[0, 0]
    names = list(dict.fromkeys((r["prior"], r["chains"]) for r in rows))
    for shift, shade, which in ((-0.2, SKY, 0), (0.2, BLUE, 1)):
        of_each = [[r for r in rows if (r["prior"], r["chains"]) == name][which] for name in names]
        ax.bar(
            np.arange(len(names)) + shift,
            [r["whole_seconds"] for r in of_each],
            0.4,
            color=shade,
            label=f"from {of_each[0]['part']:.3g} of it",
        )
    ax.axhline(AIM, color=ORANGE, linewidth=1, label="3 minutes")
    ax.set_xticks(range(len(names)), [f"{prior}\nr = {chains}" for prior, chains in names], fontsize=8)
    ax.set_ylabel("seconds for the whole")
    ax.legend(fontsize=8, frameon=False)
    study.picture(section, "pcr_time", figure, "Time of the paper's whole run, extrapolated.")
    section.claims = judge(rows, study.effort.threads, load)
    return section
