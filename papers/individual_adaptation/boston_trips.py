"""Boston: what limits IA-PT, its exchanges or its moves, and how long simple MH would have to be for the paper's number to be that of one run."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks import boston
from benchmarks.common import number
from benchmarks.runs import once
from papers.individual_adaptation.published import MH_WMSE, NOT_GIVEN, RUNGS_BOSTON, WMSE_RUNS
from papers.individual_adaptation.study import (
    Claim,
    Section,
    Study,
    TooFewRunsError,
    between,
    new_figure,
    runs_in_words,
)
from whichvars.plots.drawing import BLUE, GREY

TITLE = "Boston: exchanges, moves and round trips"
TABLE = "boston_trips"
SEED = 2500
TAU = 0.45
RUNS = 10
USUAL, SHORT, LONG = "IA-PT", "IA-PT, a quarter as long", "IA-PT, 4 times as long"
RARER, RAREST = "IA-PT, an exchange after 5 moves", "IA-PT, an exchange after 25 moves"
EVERY = {RARER: 5, RAREST: 25}  # moves of each rung between two exchanges
LENGTHS = {SHORT: 0.25, LONG: 4.0}
WELL_BELOW = 0.5
FACTOR = 3.0  # the mean over a few runs of so skewed a quantity is not known better
CLEAR = 2.0  # standard errors
ABOUT = (
    "A model of another mode comes to the target from the hot end of the ladder. Are there too few exchanges, or do models change too slowly on the rungs? IA-PT was "
    "run with an exchange after 5 and after 25 moves instead of each, with as many moves as before, and for a quarter and four times as long.",
    "The paper's number for simple MH, .0071, is a sum over 60 runs by the formula that the paper gives. Simple MH was also run with as many iterations as IA-PT has, to "
    "see what a single run would then have.",
)
SIMPLE = "simple MH, as many iterations as IA-PT has"
FEW_RUNS = {LONG: 6}
LEAST = 40_000  # moves of a rung, so that there are round trips
SMALL = {"draws": 1000, "warmup": 100}  # the short run that tells one program from another
Row = dict[str, Any]


def setting_of(variant: str, scale: float) -> Row:
    """The sizes of a variant; all ladders make as many moves but for those that are longer or shorter."""
    factor = scale * LENGTHS.get(variant, 1.0) / EVERY.get(variant, 1)
    return {
        "variant": variant,
        "draws": max(LEAST // EVERY.get(variant, 1), round(boston.PT_DRAWS * factor)),
        "warmup": max(2, round(boston.PT_WARMUP * scale / EVERY.get(variant, 1))),
    }


def results(study: Study) -> tuple[list[Row], list[list[Row]]]:
    """The settings and the runs of each."""
    problem, truth = study.problem("boston104"), study.truth("boston104").pip

    def run(setting: Row, seed: int) -> Row:
        size = {key: setting[key] for key in ("draws", "warmup")}
        if setting["variant"] == SIMPLE:
            posterior = once(problem, wv.AddDeleteSwap(), seed, False, **size)
            return boston.result_of(posterior, truth)
        sampler = wv.ParallelTempering(
            wv.IndividualAdaptation(tau=TAU), rungs=RUNGS_BOSTON, steps=EVERY.get(setting["variant"], 1)
        )
        posterior = once(problem, sampler, seed, False, **size)
        learned = posterior.adaptation[0]
        return {
            **boston.result_of(posterior, truth),
            "round_trips": learned["round_trips"],
            "lowest_temperature": learned["temperatures"][0],
            "exchange_rate": float(np.mean(learned["swap_rates"])),
        }

    settings = [
        setting_of(variant, study.effort.wmse_scale)
        for variant in (USUAL, SHORT, LONG, RARER, RAREST, SIMPLE)
    ]
    count = min(RUNS, study.effort.variant_runs)

    def due(setting: Row, place: int) -> bool:
        if setting["variant"] == SIMPLE:
            return place < 2 * count
        return place < min(count, FEW_RUNS.get(setting["variant"], count))

    seeds = [SEED + k for k in range(2 * count)]
    return settings, study.results(TABLE, settings, seeds, run, SMALL, due)


def summarise(variant: str, setting: Row, found: list[Row], one_draw: float) -> Row:
    """Means over the runs of a variant, and what a round trip is worth, with its standard error by the delta method."""
    errors = boston.summarise(found)
    row: Row = {
        "variant": variant,
        "draws": setting["draws"],
        "runs": errors["runs"],
        "wmse": errors["wmse"],
        "wmse_se": errors["wmse_se"],
        "worth_draws": one_draw / errors["wmse"],
    }
    if "round_trips" in found[0]:
        trips = float(np.mean([result["round_trips"] for result in found]))
        each = row["worth_draws"] / trips if trips else float("nan")
        row |= {
            "round_trips": trips,
            "worth_of_a_trip": each,
            "worth_of_a_trip_se": each * errors["wmse_se"] / errors["wmse"],
        }
    return {**row, "cpu_seconds": errors["cpu_seconds"]}


def ladders(rows: Sequence[Row]) -> list[Row]:
    """Those of IA-PT that made round trips."""
    return [row for row in rows if row.get("round_trips")]


def plus_minus(row: Row, key: str = "wmse") -> str:
    """A number of a row with its standard error."""
    return f"{number(row[key], 2)} ± {number(row[f'{key}_se'], 2)}"


def fewer_exchanges_cost(rows: Sequence[Row]) -> bool:
    """Whether WMSE is larger with fewer exchanges and as many moves."""
    by_name = {row["variant"]: row for row in rows}
    usual, rarest = by_name[USUAL], by_name[RAREST]
    return bool(rarest["wmse"] - usual["wmse"] > CLEAR * np.hypot(rarest["wmse_se"], usual["wmse_se"]))


def judge(rows: Sequence[Row]) -> list[Claim]:
    by_name = {row["variant"]: row for row in rows}
    usual, rarest, short, long = (by_name[name] for name in (USUAL, RAREST, SIMPLE, LONG))
    most = max(ladders(rows), key=lambda row: row["worth_of_a_trip"])
    as_mean = MH_WMSE * WMSE_RUNS
    return [
        Claim(
            "IA-PT is less accurate with fewer exchanges and as many moves",
            NOT_GIVEN,
            f"WMSE {plus_minus(rarest)} with an exchange after {EVERY[RAREST]} moves, {plus_minus(usual)} with one after each; {rarest['round_trips']:.0f} and "
            f"{usual['round_trips']:.0f} round trips",
            fewer_exchanges_cost(rows),
            f"holds if larger by {CLEAR:g} standard errors; if not, exchanges are not what is missing",
            fairer=True,
        ),
        Claim(
            "a round trip of the ladder is worth more than one independent draw",
            NOT_GIVEN,
            "; ".join(f"{row['variant']}: {plus_minus(row, 'worth_of_a_trip')}" for row in ladders(rows)),
            bool(most["worth_of_a_trip"] - CLEAR * most["worth_of_a_trip_se"] > 1),
            f"holds if by {CLEAR:g} standard errors in the ladder in which it is worth most",
            fairer=True,
        ),
        Claim(
            "IA-PT that runs four times as long is well below simple MH with the paper's iterations",
            NOT_GIVEN,
            f"WMSE {plus_minus(long)}; simple MH in the paper {number(MH_WMSE, 2)}",
            bool(long["wmse"] < WELL_BELOW * MH_WMSE),
            f"holds if at most {WELL_BELOW:g} times",
            fairer=True,
        ),
        Claim(
            "a single run of simple MH with as many iterations as IA-PT has the WMSE that the paper gives as a sum over its runs",
            NOT_GIVEN,
            f"{plus_minus(short)} with {short['draws']:,} iterations; {as_mean:.4f} in the paper",
            between(short["wmse"], as_mean / FACTOR, as_mean * FACTOR),
            f"holds if within a factor of {FACTOR:g}",
            fairer=True,
        ),
    ]  # fmt: skip


def why(rows: Sequence[Row], one_draw: float, simple: float, tempered: float, table: bool) -> dict[str, Any]:
    """Reason, brief reason and evidence for IA-PT; `simple` and `tempered` are WMSEs of simple MH and of IA-PT at its best, and `table` says whether
    the paper's own table of models has the error of our IA-PT."""
    if not rows:
        return {}
    by_name = {row["variant"]: row for row in rows}
    usual, rarest, short = (by_name[name] for name in (USUAL, RAREST, SIMPLE))
    draws = one_draw / (WELL_BELOW * simple)
    longer = number(tempered / (WELL_BELOW * simple), 2)
    reason = (
        f"A run of IA-PT is worth {number(one_draw / tempered, 2)} independent draws, one of simple MH {number(one_draw / simple, 2)}; to be well below it, IA-PT would have to be worth "
        f"{number(draws, 2)}. "
    )
    slow = not fewer_exchanges_cost(rows)
    if slow:
        reason += (
            f"What it lacks is moves, not exchanges: with {rarest['round_trips']:.0f} round trips instead of {usual['round_trips']:.0f}, and as many moves, WMSE is "
            f"{plus_minus(rarest)} instead of {plus_minus(usual)}. "
        )
    reason += f"See “{TITLE}”, and “Boston: where tempering and SMC lose” for what the paper leaves open, which does not come near. "
    as_mean = MH_WMSE * WMSE_RUNS
    reason += f"\n\nWhat the authors' program did cannot be known. With our moves, their runs would have to be {longer} times as long as the paper says. "
    if between(short["wmse"], as_mean / FACTOR, as_mean * FACTOR) and tempered < short["wmse"]:
        reason += (
            f"Or the paper's {as_mean:.4f} would have to be the mean over runs of simple MH with only as many iterations as IA-PT has: ours is then at {plus_minus(short)}, and "
            f"our IA-PT is below it, at {number(tempered, 2)}. "
        )
    if table:
        reason += "The model probabilities that the paper prints have the error of a run of our IA-PT, too: see “Boston: the most probable models”. "
    evidence = [["run of", "WMSE", "round trips", "worth independent draws", "draws for a round trip"]]
    for row in rows:
        some = bool(row.get("round_trips"))
        evidence.append(
            [
                row["variant"],
                plus_minus(row),
                f"{row['round_trips']:.0f}" if some else "–",
                number(row["worth_draws"], 2),
                plus_minus(row, "worth_of_a_trip") if some else "–",
            ]
        )
    lacks = (
        "models change too slowly on the rungs of our ladder, however often they are exchanged"
        if slow
        else "there are too few exchanges on our ladder"
    )
    return {
        "reason": reason.strip().replace(" \n", "\n"),
        "brief": f"{lacks}; runs would have to be {longer} times as long",
        "evidence": evidence,
    }  # fmt: skip


def measured(study: Study) -> list[Row]:
    """A row for each variant that has two runs."""
    settings, found = results(study)
    one_draw = boston.of_one_draw(study.truth("boston104").pip)
    rows = [summarise(s["variant"], s, some, one_draw) for s, some in zip(settings, found) if len(some) > 1]
    if len(rows) < len(settings):
        raise TooFewRunsError("fewer than two runs of a variant")
    return rows


def drawn(rows: Sequence[Row]) -> Any:
    """WMSE against the round trips of a run."""
    figure, axes = new_figure(width=6.4, height=3.4)
    ax = axes[0, 0]
    for row in ladders(rows):
        error = min(CLEAR * row["wmse_se"], 0.9 * row["wmse"])
        ax.errorbar(row["round_trips"], row["wmse"], yerr=error, fmt="o", color=BLUE, markersize=4)
        words = row["variant"].removeprefix("IA-PT, ").replace("IA-PT", "as in the paper")
        ax.annotate(
            words,
            (row["round_trips"], row["wmse"]),
            (6, -22 if "25" in words else -36 if "5" in words else 4),
            textcoords="offset points",
            fontsize=7,
        )
    short = next(row["wmse"] for row in rows if row["variant"] == SIMPLE)
    for value, style in ((short, ":"), (MH_WMSE, "--")):
        ax.axhline(value, color=GREY, linewidth=0.9, linestyle=style)
    ax.set(xlabel="round trips in a run", ylabel="WMSE of a run", xscale="log", yscale="log", xlim=(10, 700))
    return figure


def make(study: Study) -> Section:
    rows = measured(study)
    section = Section(TITLE, list(ABOUT))
    study.picture(
        section,
        TABLE,
        drawn(rows),
        "WMSE of IA-PT against the round trips of its ladder, with two standard errors. Lines: simple MH in the paper (dashed), and ours with as many iterations "
        "as IA-PT has (dotted).",
    )
    study.table(section, TABLE, rows, "Means over runs.")
    section.claims = judge(rows)
    words = runs_in_words([row["runs"] for row in rows if row["variant"] not in FEW_RUNS], RUNS)
    section.smaller = words
    section.kept_cpu_seconds = sum(row["runs"] * row["cpu_seconds"] for row in rows)
    return section
