"""Boston: the table of the most probable models."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks import boston
from benchmarks.common import number
from benchmarks.runs import once
from papers.individual_adaptation import published
from papers.individual_adaptation.study import (
    FULL,
    Claim,
    Effort,
    Section,
    Study,
    TooFewRunsError,
    new_figure,
    runs_in_words,
)
from whichvars.plots.drawing import BLUE, GREY, ORANGE

TITLE = "Boston: the most probable models"
CLOSE = 0.02  # between two probabilities of a model
CLOSE_SIZE = 0.1
SEED = 900
DIGITS = 6  # of log posteriors by which models are told apart
TABLE = "boston_accuracy"
TEMPERED, SIMPLE = "IA-PT, m = 8, τ = .45", "simple MH"
DEFAULT = "our default"
SMALL = {"draws": 1000, "warmup": 100}  # the short run that tells one program from another
ERRORS = (
    "How far the probabilities of the thirteen models are from the truth, Σ (share − probability)²/probability. Each of our runs has its own "
    "thirteen models, those that it visited most in a record of about 1,000 of its iterations; 1,000 "
    "independent draws would have an error of about 0.01. Quantiles over runs that start at draws from "
    "the prior, and the number of independent draws for which the median would be expected."
)
PRINTED = [[j - 1 for j in members] for members, _ in published.MODELS]  # columns of the paper's models
Row = dict[str, Any]


def log_posteriors(problem: wv.Problem, models: Sequence[Sequence[int]] = PRINTED) -> np.ndarray:
    """Of models by their columns, as in the record of a run: without the constant that all models share, the prior relative to that of
    the null model."""
    null = problem.log_prior([])
    return np.array([problem.log_marginal(list(m)) + problem.log_prior(list(m)) - null for m in models])


def shares(posterior: wv.Posterior) -> np.ndarray:
    """The share of the draws of each model of the paper's table; 0 for one that was not met."""
    found = {tuple(sorted(int(j) for j in m)): float(f) for m, f in zip(posterior.models.members, posterior.models.frequency)}  # fmt: skip
    return np.array([found.get(tuple(j - 1 for j in members), 0.0) for members, _ in published.MODELS])


def numbered(name: str, values: np.ndarray) -> Row:
    """Values as results of a run: name_1, name_2, …"""
    return {f"{name}_{k + 1}": float(value) for k, value in enumerate(values)}


def array_of(result: Row, name: str) -> np.ndarray:
    """Back from ``numbered``."""
    return np.array([value for key, value in result.items() if key.startswith(f"{name}_")])


def judge(ours: np.ndarray, mean_size: float, tempered: np.ndarray) -> list[Claim]:
    """From the shares of the thirteen models, by our default and by the paper's sampler."""
    paper = np.array([share for _, share in published.MODELS])
    computed = np.array(published.COMPUTED)
    near = np.abs(ours - paper) <= CLOSE
    within = f"agrees if within {CLOSE:g}"
    return [
        Claim(
            "probability of the best model",
            f"{paper[0]:.3f}",
            f"{ours[0]:.3f}",
            bool(near[0]),
            f"{within}; IA-PT as in the paper, here: {tempered[0]:.3f}",
        ),
        Claim(
            "probability of the second model (the first without variable 49)",
            f"{paper[1]:.3f}; {computed[1]:.3f} by an independent sampler",
            f"{ours[1]:.3f}",
            bool(abs(ours[1] - computed[1]) <= CLOSE),
            f"{within} of the second; IA-PT as in the paper, here: {tempered[1]:.3f}",
        ),
        Claim(
            "all models of the paper's table",
            "see the table",
            f"{int(near.sum())} of {len(near)} within {CLOSE:g}, largest difference {number(float(np.abs(ours - paper).max()), 2)}",
            bool(near.all()),
            "ratios of two models' probabilities are exact here; where the paper's differ from them, that is its Monte Carlo error between modes",
        ),
        Claim(
            "mean model size",
            f"{published.NOT_GIVEN}; {published.COMPUTED_MEAN_SIZE:g} by an independent sampler",
            f"{mean_size:.2f}",
            bool(abs(mean_size - published.COMPUTED_MEAN_SIZE) <= CLOSE_SIZE),
            f"agrees if within {CLOSE_SIZE:g}",
        ),
    ]


def table_error(shares: np.ndarray, exact: np.ndarray) -> float:
    """How far a table of model probabilities is from the truth, Σ (share − exact)²/exact. For the shares of m independent draws it
    has a mean of about the number of models over m.

    >>> round(table_error(np.array([0.3, 0.1]), np.array([0.25, 0.1])), 6)
    0.01
    """
    return float(np.sum((shares - exact) ** 2 / exact))


def visits(posterior: wv.Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Log posteriors of the models in the record of a run, and their shares of it, the largest first. The probabilities in
    ``posterior.models`` are better than these shares, but the paper's are shares."""
    assert posterior.trace is not None
    values, counts = np.unique(posterior.trace["log_posterior"].round(DIGITS), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return values[order], counts[order] / counts.sum()


def most_visited(posterior: wv.Posterior, best: float) -> Row:
    """The models that a run visited most, as many as the paper has in its table: their log posteriors less that of the best model, and
    their shares of the record."""
    values, found = (array[: len(published.MODELS)] for array in visits(posterior))
    return {**numbered("value", values - best), **numbered("share", found)}


def error_of_run(result: Row, probability: float) -> float:
    """``table_error`` of the models that a run visited most. `probability` is that of the best model."""
    return table_error(array_of(result, "share"), probability * np.exp(array_of(result, "value")))


def accuracy(study: Study, best: float, probability: float) -> list[Row]:
    """Errors of such tables from single runs at the paper's sizes, which start at draws from the prior. `best` is the log posterior of
    the best model."""
    effort, problem = study.effort, study.problem("boston104")
    ladder = wv.ParallelTempering(wv.IndividualAdaptation(tau=0.45), rungs=boston.RUNGS)
    samplers = {TEMPERED: ladder, SIMPLE: wv.AddDeleteSwap()}

    def run(setting: Row, seed: int) -> Row:
        size = {"draws": setting["draws"], "warmup": setting["warmup"]}
        posterior = once(problem, samplers[setting["run_of"]], seed, False, start="prior", **size)
        return {**most_visited(posterior, best), "cpu_seconds": posterior.cpu_seconds}

    settings = [
        {"run_of": name, "draws": max(1000, round(draws * effort.wmse_scale)), "warmup": max(2, round(warmup * effort.wmse_scale))}
        for name, draws, warmup in (
            (TEMPERED, boston.PT_DRAWS, boston.PT_WARMUP),
            (SIMPLE, boston.MH_DRAWS, boston.MH_WARMUP),
        )
    ]  # fmt: skip
    found = study.results(TABLE, settings, [SEED + k for k in range(effort.variant_runs)], run, SMALL)
    if not all(found):
        raise TooFewRunsError("no run whose table of models could be compared")
    rows = []
    for setting, results in zip(settings, found):
        errors = [error_of_run(result, probability) for result in results]
        low, middle, high = np.quantile(errors, (0.1, 0.5, 0.9))
        rows.append(
            {
                "run_of": setting["run_of"],
                "runs": len(errors),
                "cpu_seconds": float(np.mean([result["cpu_seconds"] for result in results])),
                "tenth": low,
                "median": middle,
                "nine_tenths": high,
                "independent_draws": len(published.MODELS) / middle,
            }
        )
    return rows


def judge_accuracy(theirs: float, rows: list[Row]) -> list[Claim]:
    """What the paper's own table says of the sampler that made it. `theirs` is its ``table_error``."""
    tempered, simple = ({r["run_of"]: r for r in rows}[name] for name in (TEMPERED, SIMPLE))

    def span(row: Row) -> str:
        return f"{number(row['tenth'], 2)}–{number(row['nine_tenths'], 2)}"

    return [
        Claim(
            "the paper's own table has the error of a run of our IA-PT",
            f"{number(theirs, 2)}, from its table",
            f"{span(tempered)} in eight of ten runs; {number(theirs, 2)} in the paper",
            bool(tempered["tenth"] <= theirs <= tempered["nine_tenths"]),
            "the error is the sum of (share − probability)²/probability over the thirteen models of a table, each run having its own "
            f"thirteen; holds if the paper's is between a tenth and nine tenths of our {tempered['runs']} runs. How long a run the paper's "
            "table is from, we do not know",
            fairer=True,
        ),
        Claim(
            "the paper's own table is more accurate than a run of simple MH",
            f"{number(theirs, 2)}, from its table",
            f"simple MH {span(simple)} in eight of ten runs; {number(theirs, 2)} in the paper",
            bool(theirs < simple["tenth"]),
            "holds if it is below a tenth of our runs, as it would be if the table came from runs that are well below simple MH in WMSE",
            fairer=True,
        ),
    ]


def row_of_paper(error: float) -> Row:
    """The paper's table beside those of our runs."""
    return {
        "run_of": "the paper",
        "runs": None,
        "cpu_seconds": None,
        "tenth": None,
        "median": error,
        "nine_tenths": None,
        "independent_draws": len(published.MODELS) / error,
    }


def as_tempering(table: list[Row]) -> bool:
    """Whether the paper's table is as accurate as a run of our IA-PT, and no more accurate than one of simple MH. The first row is the
    paper's; False without rows."""
    if not table:
        return False
    paper, *rows = table
    return [claim.agrees for claim in judge_accuracy(paper["median"], rows)] == [True, False]


def long_runs(study: Study, logs: np.ndarray) -> tuple[Row, Row]:
    """Our default and IA-PT, four replicates each: shares of the thirteen models, whose log posteriors are given."""
    effort, problem = study.effort, study.problem("boston104")
    ladder = wv.ParallelTempering(wv.IndividualAdaptation(tau=0.35), rungs=boston.RUNGS)

    def run(setting: Row, seed: int) -> Row:
        size = {"draws": setting["draws"], "replicates": 4, "seed": seed}
        if setting["run_of"] == DEFAULT:
            posterior = study.sample(problem, wv.Hybrid(), **size)
            found = shares(posterior)
        else:
            posterior = study.sample(problem, ladder, rao_blackwell=False, **size)
            values, frequencies = visits(posterior)
            found = np.array([frequencies[np.abs(values - log) < 2 * 10.0**-DIGITS].sum() for log in logs])
        return {
            "mean_size": posterior.mean_size,
            "iterations": posterior.iterations,
            "cpu_seconds": posterior.cpu_seconds,
            **numbered("share", found),
        }

    settings = [
        {"run_of": DEFAULT, "draws": effort.model_draws},
        {"run_of": "IA-PT", "draws": max(1000, round(boston.PT_DRAWS * effort.wmse_scale))},
    ]
    default, tempered = study.results("boston_models", settings, [SEED], run, SMALL)
    if not (default and tempered):
        raise TooFewRunsError("the long runs are not there")
    return default[0], tempered[0]


def smaller(effort: Effort, rows: list[Row]) -> str:
    """What is smaller than at full size."""
    words = runs_in_words([row["runs"] for row in rows], FULL.variant_runs) if rows else ""
    draws = f"{effort.model_draws:,} draws a replicate instead of {FULL.model_draws:,}"
    return "; ".join([draws] * (effort.model_draws < FULL.model_draws) + [f"{words} for the error of a table"] * bool(words))  # fmt: skip


def make(study: Study) -> Section:
    logs = log_posteriors(study.problem("boston104"))
    default, tempered = long_runs(study, logs)
    ours, theirs = (array_of(result, "share") for result in (default, tempered))
    exact = ours[0] * np.exp(logs - logs[0])
    section = Section(TITLE)
    rows = [
        {
            "model": " ".join(map(str, members)),
            "paper": share,
            "independent sampler": computed,
            "by exact ratio to the best": round(float(exact[k]), 4),
            "hybrid": round(float(ours[k]), 4),
            "IA-PT": round(float(theirs[k]), 4),
        }
        for k, ((members, share), computed) in enumerate(
            zip(published.MODELS, published.COMPUTED, strict=True)
        )
    ]
    study.table(
        section,
        "boston_models",
        rows,
        f"Probabilities of models in the paper's numbering, from {default['iterations']:,} iterations of our default and "
        f"{tempered['iterations']:,} of IA-PT (m = {boston.RUNGS}, τ = .35).",
    )
    figure, axes = new_figure(width=6.4, height=3.6)
    place = np.arange(len(rows))
    for shift, key, colour in ((-0.25, "paper", GREY), (0, "hybrid", BLUE), (0.25, "IA-PT", ORANGE)):  # fmt: skip
        axes[0, 0].bar(place + shift, [row[key] for row in rows], 0.25, color=colour, label=key)
    axes[0, 0].set(xlabel="model, in the order of the paper's table", ylabel="probability", xticks=place)
    axes[0, 0].set_xticklabels([str(k + 1) for k in place])
    axes[0, 0].legend(fontsize=8, frameon=False)
    study.picture(section, "boston_models", figure, "The paper's probabilities of the models and ours.")
    section.claims = judge(ours, default["mean_size"], theirs)
    section.smaller = smaller(study.effort, [])
    section.kept_cpu_seconds = default["cpu_seconds"] + tempered["cpu_seconds"]
    if ours[0] > 0:  # a short run may have missed the best model
        errors = accuracy(study, float(logs[0]), float(ours[0]))
        section.smaller = smaller(study.effort, errors)
        section.kept_cpu_seconds += sum(float(row["runs"] * row["cpu_seconds"]) for row in errors)
        paper = table_error(np.array([share for _, share in published.MODELS]), exact)
        study.table(section, TABLE, [row_of_paper(paper), *errors], ERRORS)
        section.claims += judge_accuracy(paper, errors)
    return section
