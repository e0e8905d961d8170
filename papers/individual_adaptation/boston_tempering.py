"""Boston: where tempering and SMC lose against simple MH. What the paper leaves open is tried one at a time, and a second program that
shares no code with the package makes the same runs."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks import boston
from benchmarks.common import number
from benchmarks.runs import once
from papers.individual_adaptation import independent
from papers.individual_adaptation.boston_wmse import WELL_BELOW, runs_of
from papers.individual_adaptation.published import MH_WMSE, NOT_GIVEN, RUNGS_BOSTON, WMSE_RUNS
from papers.individual_adaptation.study import (
    FULL,
    QUICK,
    Claim,
    Section,
    Study,
    TooFewRunsError,
    new_figure,
    runs_in_words,
    times,
)
from whichvars.plots.drawing import BLUE, INK, ORANGE

TITLE = "Boston: where tempering and SMC lose"
TABLE = "boston_tempering"
SEED = 900
TEMPERED, SIMPLE, FLIPS = "IA-PT", "simple MH", "simple MH, without swaps"
FROM_PRIOR, FROM_NULL = "all rungs start at a draw from the prior", "all rungs start at the null model"
SECOND = "second program: "
HELD, TRAVELS = "IA-PT, temperatures held after the burn-in", "IA-PT, A and D travel with the chain"
WITHIN, BETWEEN = "SMC, K = 50, learning within the K moves", "SMC, K = 50, learning between particles"
WITHIN_25, BETWEEN_25 = "SMC, K = 25, learning within the K moves", "SMC, K = 25, learning between particles"
ROUNDS = "SMC, K = 50, learning within the K moves, all particles one move at a time"
NO_RESET = "SMC, K = 50, learning within the K moves, counter not reset"
FULL_ONLY = (FROM_NULL, HELD, TRAVELS, NO_RESET, ROUNDS)  # variants that a quick study leaves out
ALIKE = 3.0  # standard errors between two programs
TAU = 0.45
SMALL = {"draws": 1000, "warmup": 100, "particles": 50}  # the short run that tells one program from another
Row = dict[str, Any]
Result = tuple[np.ndarray, dict[str, float]]  # inclusion probabilities, and what else is known of a run
Job = Callable[[Row, np.random.Generator], Result]  # a run of the second program, of given sizes


def variants() -> dict[str, Any]:
    """Samplers by what distinguishes them from IA-PT with τ = .45 and our settings."""
    individual, ladder = wv.IndividualAdaptation, wv.ParallelTempering
    return {
        TEMPERED: ladder(individual(tau=TAU), rungs=RUNGS_BOSTON),
        "φ₀ = 10": ladder(individual(tau=TAU, phi0=10.0), rungs=RUNGS_BOSTON),
        "φ₀ = 10, λ = .7": ladder(individual(tau=TAU, phi0=10.0, decay=0.7), rungs=RUNGS_BOSTON),
        "λ = 1": ladder(individual(tau=TAU, decay=1.0), rungs=RUNGS_BOSTON),
        "RAPA's update alone (w = 1)": ladder(individual(tau=TAU, w=1.0), rungs=RUNGS_BOSTON),
        "exchanges accepted at .5": ladder(individual(tau=TAU), rungs=RUNGS_BOSTON, target_swap=0.5),
        "exchanges accepted at .7": ladder(individual(tau=TAU), rungs=RUNGS_BOSTON, target_swap=0.7),
        "exchanges accepted at .8": ladder(individual(tau=TAU), rungs=RUNGS_BOSTON, target_swap=0.8),
        "m = 4": ladder(individual(tau=TAU), rungs=4),
        "τ = .65": ladder(individual(tau=0.65), rungs=RUNGS_BOSTON),
        "add/delete/swap on every rung": ladder(wv.AddDeleteSwap(), rungs=RUNGS_BOSTON),
        "add/delete/swap on every rung, exchanges accepted at .7": ladder(
            wv.AddDeleteSwap(), rungs=RUNGS_BOSTON, target_swap=0.7
        ),
    }


def ladder_result(posterior: wv.Posterior, truth: np.ndarray) -> Row:
    """What is kept of a run of tempering."""
    learned = posterior.adaptation[0]
    return {
        **boston.result_of(posterior, truth),
        "lowest_temperature": learned["temperatures"][0],
        "exchange_rate": float(np.mean(learned["swap_rates"])),
        "round_trips": learned["round_trips"],
        "mutation_rate_top": learned["mutation_rate_by_rung"][-1],
        "mutation_rate_bottom": learned["mutation_rate_by_rung"][0],
    }


def summarise(results: list[Row], one_draw: float) -> Row:
    """WMSE over runs, what a run is worth, and means of all else that is known of the runs."""
    row = boston.summarise(results)
    del row["wmse_by_run"]
    rest = {key: float(np.mean([r[key] for r in results])) for key in results[0] if key not in row}
    cpu_seconds = row.pop("cpu_seconds")
    return {**row, "worth_draws": one_draw / row["wmse"], "cpu_seconds": cpu_seconds, **rest}


def readings(rows: list[Row], one_draw: float) -> list[str]:
    """What the numbers mean on the scale of independent draws, and which of two readings of the paper's measure fits which of them."""
    by_name = {r["variant"]: r for r in rows}
    as_sum = one_draw / MH_WMSE
    as_mean = as_sum / WMSE_RUNS
    simple, flips, usual, second = (
        number(by_name[name]["worth_draws"], 2) for name in (SIMPLE, FLIPS, TEMPERED, SECOND + TEMPERED)
    )
    return [
        f"One draw from the posterior itself would have a WMSE of {number(one_draw, 2)}; a run whose WMSE is m times smaller is worth m "
        "independent draws. That is the scale on which methods are compared here.",
        f"The paper's number for simple MH is a sum over {WMSE_RUNS} runs by its formula. Then its simple MH is worth {number(as_sum, 2)} independent draws a run, "
        f"and ours {simple} ({flips} if it only adds and deletes and never swaps). IA-PT would have to be worth more than twice as much. Ours is worth {usual}, and "
        f"{second} in a second program that shares no code with it. If the number were a mean over runs, the paper's simple MH would be worth {number(as_mean, 2)} "
        "draws. Our IA-PT would be well below that, as in the paper, but neither program has so inaccurate a simple MH of that length: see “Boston: exchanges, moves "
        "and round trips”.",
        "Both programs do what the paper prints: A and D belong to a temperature and not to the chain that visits it, one pair of neighbours tries an exchange "
        "after each iteration, the burn-in has 12,500 iterations, and inclusion probabilities are frequencies of the chain at the target alone. The table says where "
        "a variant departs from this. Rungs of the package start at the best model that a search finds, those of the second program at draws from the prior.",
    ]


def judge(rows: list[Row]) -> list[Claim]:
    by_name = {r["variant"]: r for r in rows}
    simple = by_name[SIMPLE]
    out = []
    for name, what in ((SIMPLE, "simple MH"), (TEMPERED, "IA-PT")):
        one, other = by_name[name], by_name[SECOND + name]
        error = float(np.hypot(one["wmse_se"], other["wmse_se"]))
        out.append(
            Claim(
                f"two programs that share no code have the same WMSE of {what}",
                NOT_GIVEN,
                f"{number(one['wmse'], 2)} ± {number(one['wmse_se'], 2)} and {number(other['wmse'], 2)} ± {number(other['wmse_se'], 2)}",
                bool(abs(one["wmse"] - other["wmse"]) < ALIKE * error),
                f"holds if they differ by less than {ALIKE:g} standard errors; if it holds, the difference from the paper is not a slip in one of them",
                fairer=True,
            )
        )
    ladders = [r for r in rows if "round_trips" in r and r["variant"] not in (TEMPERED, SECOND + TEMPERED)]
    best = min(ladders, key=lambda r: r["wmse"])
    least = best["wmse"] / simple["wmse"]
    usual = by_name[TEMPERED]
    out.append(
        Claim(
            "a choice that the paper leaves open brings tempering well below simple MH",
            NOT_GIVEN,
            f"the best of {len(ladders)} variants ({best['variant']}) has {times(least)} the WMSE of simple MH",
            bool(least < WELL_BELOW),
            f"holds if at most {WELL_BELOW:g} times. With our settings a ladder makes "
            f"{usual['round_trips']:.0f} round trips in a run and is worth {number(usual['worth_draws'], 2)} independent draws, simple MH "
            f"{number(simple['worth_draws'], 2)}: exchanges are accepted as often as they should be, but models from the lower rungs are replaced "
            "before they reach the top",
            fairer=True,
        )
    )
    for steps, (inside, after) in {50: (WITHIN, BETWEEN), 25: (WITHIN_25, BETWEEN_25)}.items():
        if SECOND + inside not in by_name:
            continue
        within, between = by_name[SECOND + inside], by_name[SECOND + after]
        out.append(
            Claim(
                f"learning within the K = {steps} moves of a particle, as printed, brings IA-SMC below simple MH",
                NOT_GIVEN,
                f"{number(within['wmse'], 2)} ± {number(within['wmse_se'], 2)}, and {number(between['wmse'], 2)} ± {number(between['wmse_se'], 2)} if "
                f"learning is between particles; simple MH {number(simple['wmse'], 2)}",
                bool(within["wmse"] < simple["wmse"]),
                "both by the second program, τ = .45, with a common A and D and a counter that starts again at each temperature",
                fairer=True,
            )
        )
    other_readings = {
        NO_RESET: "the counter is not reset",
        ROUNDS: "all particles make one move before any makes the next",
    }
    others = {
        words: by_name[SECOND + name] for name, words in other_readings.items() if SECOND + name in by_name
    }
    if not others:
        return out
    out.append(
        Claim(
            "another reading of how particles learn brings IA-SMC with K = 50 below simple MH",
            NOT_GIVEN,
            "; ".join(
                f"{name}: {number(r['wmse'], 2)} ± {number(r['wmse_se'], 2)}"
                for name, r in others.items()
            ),
            bool(min(r["wmse"] for r in others.values()) < simple["wmse"]),
            f"by the second program, τ = .45, learning within the K moves; simple MH {number(simple['wmse'], 2)}",
            fairer=True,
        )
    )  # fmt: skip
    return out


def wanted(study: Study, name: str) -> bool:
    """Whether a study of this size makes a variant."""
    return name not in FULL_ONLY or study.effort.name != QUICK.name


def package_runs(study: Study) -> dict[str, tuple[Any, Row]]:
    """Samplers of the package and the sizes of their runs, by the names of the variants."""

    def sized(number: int) -> int:
        return max(2, round(number * study.effort.wmse_scale))

    long: Row = {"draws": sized(boston.MH_DRAWS), "warmup": sized(boston.MH_WARMUP)}
    size: Row = {"draws": sized(boston.PT_DRAWS), "warmup": sized(boston.PT_WARMUP)}
    usual = variants()[TEMPERED]
    return {
        SIMPLE: (wv.AddDeleteSwap(swap=1 / 3), long),
        FLIPS: (wv.AddDeleteSwap(swap=0.0), long),
        **{name: (sampler, size) for name, sampler in variants().items()},
        "ten times the burn-in": (usual, {**size, "warmup": 10 * size["warmup"]}),
        FROM_PRIOR: (usual, {**size, "start": "prior"}),
        FROM_NULL: (usual, {**size, "start": "null"}),
    }


def measured(study: Study) -> list[Row]:
    """A row for each variant that has two runs."""
    problem, truth = study.problem("boston104"), study.truth("boston104").pip
    package, second = package_runs(study), second_program(study)

    def run(setting: Row, seed: int) -> Row:
        name, size = setting["variant"], {key: value for key, value in setting.items() if key != "variant"}
        if name.startswith(SECOND):
            job = second[name.removeprefix(SECOND)][0]
            stream = np.random.SeedSequence(SEED, spawn_key=(seed - SEED,))
            started = time.thread_time()
            pip, more = job(size, np.random.default_rng(stream))
            seconds = time.thread_time() - started
            return {"wmse": float(boston.wmse(pip[None], truth)[0]), "cpu_seconds": seconds, **more}
        posterior = once(problem, package[name][0], seed, False, **size)
        return (
            boston.result_of(posterior, truth) if name in (SIMPLE, FLIPS) else ladder_result(posterior, truth)
        )

    settings = [{"variant": name, **size} for name, (_, size) in package.items()]
    settings += [{"variant": SECOND + name, **size} for name, (_, size) in second.items()]
    settings = [s for s in settings if wanted(study, s["variant"].removeprefix(SECOND))]
    seeds = [SEED + k for k in range(study.effort.variant_runs)]
    found = study.results(TABLE, settings, seeds, run, SMALL)
    one_draw = boston.of_one_draw(truth)
    rows = [
        {"variant": setting["variant"], **summarise(results, one_draw)}
        for setting, results in zip(settings, found)
        if len(results) > 1
    ]
    missing = {SIMPLE, FLIPS, TEMPERED, SECOND + SIMPLE, SECOND + TEMPERED} - {r["variant"] for r in rows}
    if missing:
        raise TooFewRunsError(f"fewer than two runs of {', '.join(sorted(missing))}")
    return rows


def smaller(rows: list[Row]) -> str:
    """What is smaller than at full size."""
    words = runs_in_words([row["runs"] for row in rows], FULL.variant_runs)
    made = {row["variant"].removeprefix(SECOND) for row in rows}
    missing = [name for name in FULL_ONLY if name not in made]
    return "; ".join([words] * bool(words) + [f"{len(missing)} variants fewer"] * bool(missing))


def make(study: Study) -> Section:
    one_draw = boston.of_one_draw(study.truth("boston104").pip)
    rows = measured(study)
    section = Section(TITLE, readings(rows, one_draw))
    draw(study, section, rows)
    study.table(section, TABLE, rows, "What was tried; temperatures and rates are means over runs.")
    section.claims = judge(rows)
    section.smaller = smaller(rows)
    section.kept_cpu_seconds = sum(row["runs"] * row["cpu_seconds"] for row in rows)
    return section


def draw(study: Study, section: Section, rows: list[Row]) -> None:
    figure, axes = new_figure(width=8.6, height=0.9 + 0.21 * len(rows))
    ax = axes[0, 0]
    shown = rows[::-1]
    colours = [INK if SIMPLE in r["variant"] else ORANGE if "SMC" in r["variant"] else BLUE for r in shown]
    for place, (row, colour) in enumerate(zip(shown, colours)):
        marker = "s" if row["variant"].startswith(SECOND) else "o"
        ax.errorbar(row["wmse"], place, xerr=2 * row["wmse_se"], fmt=marker, color=colour, markersize=4)
    ax.axvline(rows[0]["wmse"], color=INK, linewidth=0.8, linestyle=":")
    ax.set_yticks(range(len(shown)), [r["variant"].removeprefix(SECOND) for r in shown], fontsize=8)
    ax.set_ylim(-0.7, len(shown) - 0.3)
    ax.set(xlabel="WMSE of a run, with two standard errors", xscale="log")
    study.picture(
        section,
        "boston_tempering",
        figure,
        f"WMSE of the variants, {runs_of(*rows)} runs each; circles are runs of our program, squares of the second one. The dotted line is simple MH.",
    )


def second_program(study: Study) -> dict[str, tuple[Job, Row]]:
    """Simple MH, IA-PT and IA-SMC by ``independent``, and the sizes of their runs, by the names of the variants."""
    data = independent.boston_data()
    start = np.exp(-0.5 * np.arange(RUNGS_BOSTON - 1, -1, -1.0))

    def sized(number: int) -> int:
        return max(2, round(number * study.effort.wmse_scale))

    def simple(size: Row, rng: np.random.Generator) -> Result:
        return independent.simple(data, rng, size["warmup"], size["draws"], 1 / 3), {}

    def tempered(held: bool, travels: bool, size: Row, rng: np.random.Generator) -> Result:
        pip, temperatures, rates, moved, trips = independent.tempering(
            data, rng, start, size["warmup"], size["draws"], TAU, 1.0, 0.55, 0.234, held, travels
        )
        return pip, {
            "lowest_temperature": temperatures[0],
            "exchange_rate": rates[:-1].mean(),
            "round_trips": trips,
            "mutation_rate_top": moved[-1],
            "mutation_rate_bottom": moved[0],
        }

    def particles(steps: int, learning: int, reset: bool, size: Row, rng: np.random.Generator) -> Result:
        pip, *_ = independent.particles(
            data, rng, size["particles"], steps, TAU, 1.0, 0.55, 0.9, learning, reset, np.empty(0)
        )
        return pip, {}

    long = {"draws": sized(boston.MH_DRAWS), "warmup": sized(boston.MH_WARMUP)}
    ladder = {"draws": sized(boston.PT_DRAWS), "warmup": sized(boston.PT_WARMUP)}
    many, few = ({"particles": sized(boston.PARTICLES[steps])} for steps in (25, 50))
    return {
        SIMPLE: (simple, long),
        TEMPERED: (partial(tempered, False, False), ladder),
        BETWEEN: (partial(particles, 50, independent.BETWEEN, True), few),
        WITHIN: (partial(particles, 50, independent.WITHIN, True), few),
        BETWEEN_25: (partial(particles, 25, independent.BETWEEN, True), many),
        WITHIN_25: (partial(particles, 25, independent.WITHIN, True), many),
        HELD: (partial(tempered, True, False), ladder),
        TRAVELS: (partial(tempered, False, True), ladder),
        NO_RESET: (partial(particles, 50, independent.WITHIN, False), few),
        ROUNDS: (partial(particles, 50, independent.ROUNDS, True), few),
    }
