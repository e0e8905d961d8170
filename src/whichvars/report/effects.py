"""Effects as people read them: what one standard deviation more of a variable goes with, and a level of a category instead of its reference
level."""

from typing import Any

import numpy as np

from whichvars.posterior.diagnostics import count
from whichvars.posterior.family_words import outcome
from whichvars.posterior.pooling import PooledPosterior
from whichvars.posterior.posterior import Posterior
from whichvars.posterior.tables import LEVELS, three_digits
from whichvars.problem.families import Gaussian
from whichvars.problem.problem import Problem
from whichvars.report.words import listed

MOST_EFFECTS, MOST_LABELS = 8, 4


def effects_in_words(posterior: Posterior) -> list[str]:
    """How the response differs for one standard deviation more of each variable, if that variable is in the model. These are the variables
    that are more likely in than out, the most probable first."""
    inside = posterior._moments[0].mean_included
    return sentences(posterior.problem, posterior.pip, inside, posterior.problem.column_spread)


def pooled_effects_in_words(pooled: PooledPosterior) -> list[str]:
    """The same of posteriors of completed tables. With P the inclusion probability, the mean given that a variable is in is E(b)/P."""
    problem = pooled.problem
    table = pooled.coefficients(interval=None).iloc[-len(problem.columns_used) :]
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = (table["mean"] / table["pip"]).to_numpy()
    spread = np.mean([part.problem.column_spread for part in pooled.parts], axis=0)
    return sentences(problem, pooled.pip, inside, spread)


def sentences(problem: Problem, pip: np.ndarray, inside: np.ndarray, spread: np.ndarray) -> list[str]:
    """The sentences, from the means of coefficients given that they are in and the standard deviations of columns, (P,) each."""
    order = np.argsort(-pip, kind="stable")[:MOST_EFFECTS]
    out = []
    for j in order[pip[order] >= LEVELS[1][0]].tolist():
        name, place = problem.names[j], slice(problem.offsets[j], problem.offsets[j + 1])
        columns, mean = problem.columns_used[place], inside[place]
        if np.isnan(mean).any():
            continue
        labels = [column.removeprefix(f"{name}=") for column in columns]
        if name in problem.reference_levels and all(
            label != column for label, column in zip(labels, columns)
        ):
            out.append(f"{name}: {_levels(problem, problem.reference_levels[name], labels, mean)}.")
        elif len(mean) > 1:
            out.append(f"{name} consists of {len(mean)} columns and has no single effect.")
        else:
            sd = float(spread[place][0])
            out.append(f"{name}: {three_digits(sd)} more goes with {_difference(problem, mean[0] * sd)}.")
    return out


def _levels(problem: Problem, reference: str, labels: list[str], mean: np.ndarray) -> str:
    """What levels of a category go with; those of the largest effects if there are many."""
    shown = sorted(np.argsort(-np.abs(mean), kind="stable")[:MOST_LABELS].tolist())
    parts = [
        f"{labels[i]}{' goes' * (k == 0)} with {_difference(problem, mean[i])}" for k, i in enumerate(shown)
    ]
    end = f"; {count(len(labels) - len(shown), 'other level')} left out" if len(shown) < len(labels) else ""
    return f"compared with {reference}, {listed(parts)}{end}"


def _difference(problem: Problem, change: float) -> str:
    family: Any = problem.family
    ratio = getattr(family, "ratio", None)
    if ratio is not None:
        with np.errstate(over="ignore"):
            return ratio_words(problem, ratio, float(np.exp(change)))
    scale = "a response" if isinstance(family, Gaussian) else f"a {family.link}"
    return f"{scale} {three_digits(abs(change))} {'larger' if change > 0 else 'smaller'}"


def ratio_words(problem: Problem, ratio: str | None, factor: float) -> str:
    """Odds or rates, and how many times as large they are."""
    what = f"odds of {outcome(problem)}" if ratio == "odds_ratio" else "rates"
    return f"{what} {three_digits(factor)} times as large"
