"""Boston: what holds tempering and SMC back. Tempering: how often models travel the whole ladder, beside how often they would if each
exchange were independent of the last. SMC: how many particles of a high temperature have descendants at the end."""

import time
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks import boston
from benchmarks.common import number
from benchmarks.runs import once
from papers.individual_adaptation import independent
from papers.individual_adaptation.published import NOT_GIVEN, RUNGS_BOSTON
from papers.individual_adaptation.study import (
    FULL,
    Claim,
    Section,
    Study,
    TooFewRunsError,
    new_figure,
    runs_in_words,
)
from whichvars.plots.drawing import BLUE, GREEN, GREY, INK, ORANGE, SKY

TITLE = "Boston: what holds tempering and SMC back"
SEED = 1300
TAU = 0.45
RATIOS, DIFFERENCES, HELD = (
    "temperatures by ratios",
    "temperatures by differences",
    "by ratios, all learning ends with the burn-in",
)
ABOUT = (
    "Modes mix at the hot end of a ladder, and a model helps the chain at the target only once it has come up from there. So the "
    "round trips of models are counted, from the target to the hottest rung and back, beside those that would be made if each "
    "exchange succeeded or failed independently of the last. The ladder is written in two ways: by ratios of neighbouring "
    "temperatures, and by differences as in the paper.",
    "Each particle of IA-SMC descends from one particle at every earlier temperature. If few of these have descendants at the end, "
    "the run knows the weights of modes no better than so few draws can tell.",
)
LEVELS = (0.01, 0.03, 0.1, 0.3, 0.6)
STEPS = (25, 50)
FEW = 0.1  # of the round trips or of the particles
SMALL = {"draws": 1000, "warmup": 100, "particles": 50}  # the short run that tells one program from another
Row = dict[str, Any]


def independent_trips(rates: np.ndarray, draws: int) -> float:
    """Round trips to expect in a run if exchanges between neighbours succeed at these rates whatever happened before; shape (m − 1,).

    In an iteration one of the m − 1 pairs is tried. A chain then walks up and down the ladder at random, with probability r_k/(m − 1)
    between rungs k and k + 1; its round trips take m Σ_k (m − 1)/r_k iterations on average, and there are m chains.

    >>> independent_trips(np.array([0.5]), 100)  # with two rungs, every exchange ends a round trip
    50.0
    """
    rates = np.asarray(rates, float)
    return float(draws / (len(rates) * np.sum(1 / rates)))


def samplers(burn_in: int) -> dict[str, wv.ParallelTempering]:
    """IA-PT with the ladder written in two ways, and one that learns in the burn-in only."""
    move = wv.IndividualAdaptation(tau=TAU)
    held = wv.IndividualAdaptation(tau=TAU, freeze_after=burn_in)
    return {
        RATIOS: wv.ParallelTempering(move, rungs=RUNGS_BOSTON),
        DIFFERENCES: wv.ParallelTempering(move, rungs=RUNGS_BOSTON, ladder="differences"),
        HELD: wv.ParallelTempering(held, rungs=RUNGS_BOSTON),
    }


def ladder_result(posterior: wv.Posterior, truth: np.ndarray, draws: int) -> Row:
    """What is kept of a run of tempering; rungs are numbered from the hottest."""
    learned = posterior.adaptation[0]
    rates = np.asarray(learned["swap_rates"], float)
    by_rung = {
        "temperature": learned["temperatures"],
        "exchange": rates,
        "mutation": learned["mutation_rate_by_rung"],
    }
    return {
        **boston.result_of(posterior, truth),
        "round_trips": learned["round_trips"],
        "independent_round_trips": independent_trips(rates, draws),
        **{f"{name}_{k + 1}": value for name, values in by_rung.items() for k, value in enumerate(values)},
    }


def describe_rungs(name: str, results: list[Row]) -> list[Row]:
    """A row for each rung of a ladder; means over runs."""

    def values(key: str) -> np.ndarray:
        return np.array([result[key] for result in results])

    rungs = sum(key.startswith("temperature_") for key in results[0])
    return [
        {
            "ladder": name,
            "rung": k,
            "temperature": float(values(f"temperature_{k}").mean()),
            "spread_of_its_log": float(np.log(values(f"temperature_{k}")).std(ddof=1)),
            "exchanges_with_the_next": float(values(f"exchange_{k}").mean()) if k < rungs else None,
            "mutation_rate": float(values(f"mutation_{k}").mean()),
        }
        for k in range(1, rungs + 1)
    ]


def summarise(method: str, results: list[Row], one_draw: float, **more: Any) -> Row:
    """Means over runs, but for what is known of single rungs."""
    errors = boston.summarise(results)
    rest = {
        key: float(np.mean([r[key] for r in results]))
        for key in results[0]
        if key not in errors and not key.startswith(("temperature_", "exchange_", "mutation_"))
    }
    return {
        "method": method,
        "runs": errors["runs"],
        "wmse": errors["wmse"],
        "wmse_se": errors["wmse_se"],
        "worth_draws": one_draw / errors["wmse"],
        "cpu_seconds": errors["cpu_seconds"],
        **more,
        **rest,
    }


def judge(rows: list[Row]) -> list[Claim]:
    by_method = {r["method"]: r for r in rows}
    usual, other, held = (by_method[f"IA-PT, {name}"] for name in (RATIOS, DIFFERENCES, HELD))
    share = usual["round_trips"] / usual["independent_round_trips"]
    out = [
        Claim(
            "models travel the ladder as fast as the exchange rates allow",
            NOT_GIVEN,
            f"{number(usual['round_trips'], 2)} round trips in a run; {number(usual['independent_round_trips'], 2)} if exchanges were independent",
            bool(share >= FEW),
            f"holds if at least {FEW:g} of the second number. Neighbours exchange as often as they should, but mostly the same models "
            "back and forth: those of the lower rungs hardly ever reach the top",
            fairer=True,
        )
    ]
    error = float(np.hypot(usual["wmse_se"], other["wmse_se"]))
    out.append(
        Claim(
            "a ladder built up from its lowest temperature by differences does better than one by ratios",
            NOT_GIVEN,
            f"WMSE {number(other['wmse'], 2)} ± {number(other['wmse_se'], 2)} and {number(usual['wmse'], 2)} ± {number(usual['wmse_se'], 2)}; "
            f"{number(other['round_trips'], 2)} and {number(usual['round_trips'], 2)} round trips",
            bool(other["wmse"] < usual["wmse"] - 2 * error),
            "holds if better by two standard errors; both ladders have one resting place, where each pair exchanges at the rate .234; "
            f"if learning ends with the burn-in, WMSE is {number(held['wmse'], 2)} ± {number(held['wmse_se'], 2)}",
            fairer=True,
        )
    )
    for steps in STEPS:
        row = by_method[f"IA-SMC, K = {steps}"]
        left = {level: row[f"ancestors_at_{level:g}"] for level in LEVELS}
        out.append(
            Claim(
                f"the particles of IA-SMC with K = {steps} at the end descend from most of those at t = 0.1",
                NOT_GIVEN,
                f"effectively from {number(left[0.1], 2)} of {int(row['particles']):,}; the run is worth {number(row['worth_draws'], 2)} independent draws",
                bool(left[0.1] >= FEW * row["particles"]),
                f"holds if from at least {FEW:g} of them; effectively, the numbers of particles with descendants are "
                + ", ".join(f"{number(value, 2)} at t = {level:g}" for level, value in left.items())
                + ". What these few got wrong about the modes, K moves at each later temperature do not put right",
                fairer=True,
            )
        )
    return out


def make(study: Study) -> Section:
    effort, problem, truth = study.effort, study.problem("boston104"), study.truth("boston104").pip
    one_draw, data = boston.of_one_draw(truth), independent.boston_data()
    draws, burn_in = (max(2, round(size * effort.wmse_scale)) for size in (boston.PT_DRAWS, boston.PT_WARMUP))
    ladders = {f"IA-PT, {name}": sampler for name, sampler in samplers(burn_in).items()}

    def run(setting: Row, seed: int) -> Row:
        if setting["method"] in ladders:
            size = {key: setting[key] for key in ("draws", "warmup")}
            posterior = once(problem, ladders[setting["method"]], seed, False, **size)
            return ladder_result(posterior, truth, setting["draws"])
        rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(seed - SEED,)))
        started = time.thread_time()
        pip, *_, left = independent.particles(
            data, rng, setting["particles"], setting["steps"], TAU, 1.0, 0.55, 0.9, independent.BETWEEN, True, np.array(LEVELS)
        )  # fmt: skip
        return {
            "wmse": float(boston.wmse(pip[None], truth)[0]),
            "cpu_seconds": time.thread_time() - started,
            **{f"ancestors_at_{level:g}": value for level, value in zip(LEVELS, left)},
        }

    settings: list[Row] = [{"method": name, "draws": draws, "warmup": burn_in} for name in ladders]
    settings += [
        {
            "method": f"IA-SMC, K = {steps}",
            "particles": max(2, round(boston.PARTICLES[steps] * effort.wmse_scale)),
            "steps": steps,
        }
        for steps in STEPS
    ]
    seeds = [SEED + k for k in range(effort.variant_runs)]
    found = study.results("boston_bottlenecks", settings, seeds, run, SMALL)
    if min(map(len, found)) < 2:
        raise TooFewRunsError("fewer than two runs of a method")
    totals, rungs = [], []
    for setting, results in zip(settings, found):
        size = {"particles": setting["particles"]} if "particles" in setting else {}
        totals.append(summarise(setting["method"], results, one_draw, **size))
        if setting["method"] in ladders:
            rungs += describe_rungs(setting["method"].removeprefix("IA-PT, "), results)
    section = Section(TITLE, list(ABOUT))
    draw(study, section, rungs, totals)
    study.table(
        section,
        "boston_bottlenecks",
        totals,
        "Round trips of models on the ladder; and, by the second program, how many particles at a temperature have descendants at the end. "
        "Means over runs.",
    )
    study.table(
        section, "boston_rungs", rungs, "The rungs of the ladders, the hottest first; means over runs."
    )
    section.claims = judge(totals)
    words = runs_in_words([row["runs"] for row in totals], FULL.variant_runs)
    section.smaller = f"{words} of each variant" if words else ""
    section.kept_cpu_seconds = sum(row["runs"] * row["cpu_seconds"] for row in totals)
    return section


def draw(study: Study, section: Section, rungs: list[Row], totals: list[Row]) -> None:
    figure, axes = new_figure(3, width=4.0, height=3.2)
    for name, colour, style in ((RATIOS, BLUE, "o-"), (DIFFERENCES, ORANGE, "s--"), (HELD, GREEN, "^:")):
        some = [r for r in rungs if r["ladder"] == name]
        for ax, key in zip(axes[0], ("temperature", "mutation_rate")):
            ax.plot(
                [r["rung"] for r in some],
                [r[key] for r in some],
                style,
                color=colour,
                markersize=4,
                label=name,
            )
    axes[0, 0].set(xlabel="rung", ylabel="inverse temperature", yscale="log")
    axes[0, 1].set(xlabel="rung", ylabel="mutation rate")
    axes[0, 0].legend(fontsize=7, frameon=False)
    ax = axes[0, 2]
    for steps, colour in zip(STEPS, (SKY, INK)):
        row = next(r for r in totals if r["method"] == f"IA-SMC, K = {steps}")
        ax.plot(
            LEVELS,
            [row[f"ancestors_at_{level:g}"] for level in LEVELS],
            "o-",
            color=colour,
            label=f"K = {steps}",
        )
        ax.axhline(row["particles"], color=colour, linewidth=0.8, linestyle=":")
    ax.axhline(1, color=GREY, linewidth=0.8)
    ax.set(
        xlabel="inverse temperature t", ylabel="particles at t with descendants", xscale="log", yscale="log"
    )
    ax.legend(fontsize=8, frameon=False)
    study.picture(
        section,
        "boston_bottlenecks",
        figure,
        "Tempering: temperature and mutation rate of each rung. SMC: the effective number of particles at a temperature that have "
        "descendants at the end; the dotted lines are all particles.",
    )
