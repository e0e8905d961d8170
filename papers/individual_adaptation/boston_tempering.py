"""Boston: where tempering and SMC lose against simple MH. What the paper leaves open is tried one at a time, and a second program that
shares no code with the package makes the same runs."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks import boston
from benchmarks.common import number
from benchmarks.runs import once, side_by_side
from papers.individual_adaptation import independent
from papers.individual_adaptation.boston_wmse import WELL_BELOW, of_one_draw
from papers.individual_adaptation.published import MH_WMSE, NOT_GIVEN, RUNGS_BOSTON, WMSE_RUNS
from papers.individual_adaptation.study import QUICK, Claim, Section, Study, new_figure, times
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
Row = dict[str, Any]
Result = tuple[np.ndarray, dict[str, float]]  # inclusion probabilities, and what else is known of a run


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
        "the same, exchanges accepted at .7": ladder(wv.AddDeleteSwap(), rungs=RUNGS_BOSTON, target_swap=0.7),
    }


def measures(errors: np.ndarray, seconds: float | None, one_draw: float, **more: Any) -> Row:
    """WMSE over runs, and what a run is worth."""
    mean = float(errors.mean())
    return {
        "wmse": mean,
        "wmse_se": float(errors.std(ddof=1) / np.sqrt(len(errors))),
        "worth_draws": one_draw / mean,
        "cpu_seconds": seconds,
        **more,
    }


def ladder_measures(posteriors: list[wv.Posterior], truth: np.ndarray, one_draw: float) -> Row:
    learned = [p.adaptation[0] for p in posteriors]

    def mean(key: str, place: int) -> float:
        return float(np.mean([a[key][place] for a in learned]))

    return measures(
        boston.wmse(np.array([p.pip for p in posteriors]), truth),
        float(np.mean([p.cpu_seconds for p in posteriors])),
        one_draw,
        lowest_temperature=mean("temperatures", 0),
        exchange_rate=float(np.mean([np.mean(a["swap_rates"]) for a in learned])),
        round_trips=float(np.mean([a["round_trips"] for a in learned])),
        mutation_rate_top=mean("mutation_rate_by_rung", -1),
        mutation_rate_bottom=mean("mutation_rate_by_rung", 0),
    )


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
        f"The paper's formula adds up {WMSE_RUNS} runs. Read in this way, its simple MH is worth {number(as_sum, 2)} independent draws a run, and ours {simple} ({flips} if it "
        "only adds and deletes and never swaps): they agree within the factor that so skewed a quantity allows. IA-PT would then have to be worth more than twice as much. Ours is worth "
        f"{usual}, and {second} in a second program that shares no code with it. If the numbers in the paper's figure were means over runs instead, its simple MH "
        f"would be worth {number(as_mean, 2)} draws, and our IA-PT would be well below it, as in the paper; but the simple MH of neither program "
        "would be near it: no reading fits both.",
        "As the paper prints it, A and D belong to a temperature and not to the chain that visits it, one pair of neighbours tries an exchange "
        "after each iteration, the burn-in has 12,500 iterations, and inclusion probabilities are frequencies of the chain at the target alone. "
        "Both programs do so where the table does not say otherwise. All rungs of the package start at the best model that a search finds, those "
        "of the second program each at its own draw from the prior.",
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


def make(study: Study) -> Section:
    effort, problem, truth = study.effort, study.problem("boston104"), study.truth("boston104").pip
    runs, one_draw = effort.variant_runs, of_one_draw(truth)

    def sized(number: int) -> int:
        return max(2, round(number * effort.wmse_scale))

    def key(name: str) -> Row:
        return {"variant": name, "runs": runs, "scale": effort.wmse_scale}

    def simple(sampler: wv.AddDeleteSwap) -> Row:
        size = {"draws": sized(boston.MH_DRAWS), "warmup": sized(boston.MH_WARMUP)}
        jobs = [partial(once, problem, sampler, SEED + k, False, **size) for k in range(runs)]
        found = side_by_side(jobs, effort.threads)
        seconds = float(np.mean([p.cpu_seconds for p in found]))
        return measures(boston.wmse(np.array([p.pip for p in found]), truth), seconds, one_draw)

    def tempered(sampler: Any, sizes: dict[str, Any]) -> Row:
        jobs = [partial(once, problem, sampler, SEED + k, False, **sizes) for k in range(runs)]
        return ladder_measures(side_by_side(jobs, effort.threads), truth, one_draw)

    rows = []
    for name, swaps in ((SIMPLE, 1 / 3), (FLIPS, 0.0)):
        study.say(f"{name}: {runs} runs")
        rows.append(study.row(TABLE, key(name), partial(simple, wv.AddDeleteSwap(swap=swaps))))
    size: dict[str, Any] = {"draws": sized(boston.PT_DRAWS), "warmup": sized(boston.PT_WARMUP)}
    usual = variants()[TEMPERED]
    settings = {name: (sampler, size) for name, sampler in variants().items()}
    settings |= {
        "ten times the burn-in": (usual, {**size, "warmup": 10 * size["warmup"]}),
        FROM_PRIOR: (usual, {**size, "start": "prior"}),
        FROM_NULL: (usual, {**size, "start": "null"}),
    }
    for name, (sampler, sizes) in settings.items():
        if not wanted(study, name):
            continue
        study.say(f"tempering, {name}: {runs} runs")
        rows.append(study.row(TABLE, key(name), partial(tempered, sampler, sizes)))
    rows += second_program(study, key, sized, truth, one_draw)
    section = Section(TITLE, readings(rows, one_draw))
    draw(study, section, rows)
    study.table(section, TABLE, rows, "What was tried; temperatures and rates are means over runs.")
    section.claims = judge(rows)
    return section


def draw(study: Study, section: Section, rows: list[Row]) -> None:
    figure, axes = new_figure(width=7.0, height=4.4)
    ax = axes[0, 0]
    shown = rows[::-1]
    colours = [INK if SIMPLE in r["variant"] else ORANGE if "SMC" in r["variant"] else BLUE for r in shown]
    for place, (row, colour) in enumerate(zip(shown, colours)):
        ax.errorbar(row["wmse"], place, xerr=2 * row["wmse_se"], fmt="o", color=colour, markersize=4)
    ax.axvline(rows[0]["wmse"], color=INK, linewidth=0.8, linestyle=":")
    ax.set_yticks(range(len(shown)), [r["variant"] for r in shown], fontsize=8)
    ax.set(xlabel="WMSE of a run, with two standard errors", xscale="log")
    study.picture(
        section,
        "boston_tempering",
        figure,
        f"WMSE of the variants, {rows[0]['runs']} runs each; the dotted line is simple MH.",
    )


def second_program(
    study: Study,
    key: Callable[[str], Row],
    sized: Callable[[int], int],
    truth: np.ndarray,
    one_draw: float,
) -> list[Row]:
    """Simple MH, IA-PT and IA-SMC by ``independent``."""
    runs = study.effort.variant_runs
    data = independent.boston_data()
    start = np.exp(-0.5 * np.arange(RUNGS_BOSTON - 1, -1, -1.0))
    burn_in, draws = sized(boston.PT_WARMUP), sized(boston.PT_DRAWS)

    def simple(rng: np.random.Generator) -> Result:
        return independent.simple(data, rng, sized(boston.MH_WARMUP), sized(boston.MH_DRAWS), 1 / 3), {}

    def tempered(held: bool, travels: bool, rng: np.random.Generator) -> Result:
        pip, temperatures, rates, moved, trips = independent.tempering(
            data, rng, start, burn_in, draws, TAU, 1.0, 0.55, 0.234, held, travels
        )
        return pip, {
            "lowest_temperature": temperatures[0],
            "exchange_rate": rates[:-1].mean(),
            "round_trips": trips,
            "mutation_rate_top": moved[-1],
            "mutation_rate_bottom": moved[0],
        }

    def particles(steps: int, learning: int, reset: bool, rng: np.random.Generator) -> Result:
        number = sized(boston.PARTICLES[steps])
        return independent.particles(
            data, rng, number, steps, TAU, 1.0, 0.55, 0.9, learning, reset, np.empty(0)
        )[0], {}

    jobs: dict[str, Callable[[np.random.Generator], Result]] = {
        SIMPLE: simple,
        TEMPERED: partial(tempered, False, False),
        BETWEEN: partial(particles, 50, independent.BETWEEN, True),
        WITHIN: partial(particles, 50, independent.WITHIN, True),
        BETWEEN_25: partial(particles, 25, independent.BETWEEN, True),
        WITHIN_25: partial(particles, 25, independent.WITHIN, True),
        HELD: partial(tempered, True, False),
        TRAVELS: partial(tempered, False, True),
        NO_RESET: partial(particles, 50, independent.WITHIN, False),
        ROUNDS: partial(particles, 50, independent.ROUNDS, True),
    }

    def compute(job: Callable[[np.random.Generator], Result]) -> Row:
        streams = np.random.SeedSequence(SEED).spawn(runs)
        found = side_by_side([partial(job, np.random.default_rng(s)) for s in streams], study.effort.threads)
        errors = boston.wmse(np.array([pip for pip, _ in found]), truth)
        more = {key: float(np.mean([other[key] for _, other in found])) for key in found[0][1]}
        return measures(errors, None, one_draw, **more)

    rows = []
    for name, job in jobs.items():
        if not wanted(study, name):
            continue
        study.say(f"the second program, {name}: {runs} runs")
        rows.append(study.row(TABLE, key(SECOND + name), partial(compute, job)))
    return rows
