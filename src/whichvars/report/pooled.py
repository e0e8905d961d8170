"""The report of a posterior that is mixed from those of completed tables: the same page, with a section on missing values."""

from typing import Any

import numpy as np

from whichvars.plots.drawing import short
from whichvars.posterior.diagnostics import doubts
from whichvars.posterior.pooled_effects import included, pooled_standard_effects
from whichvars.posterior.pooling import PooledPosterior
from whichvars.report import chart, figures, table, words
from whichvars.report.table import Column

TOP_MODELS, MOST_COLUMNS = 10, 40


def total_error(pooled: PooledPosterior) -> np.ndarray:
    """Standard errors of inclusion probabilities due to sampling and to the number of imputations together, (p,); NaN if the latter is
    not known."""
    return np.hypot(pooled.mcse, pooled.imputation_error)


def summary(pooled: PooledPosterior, title: str, most_rows: int | None) -> dict[str, Any]:
    """What the report and the summary on one page have in common."""
    opinion, levels = verdict(pooled), words.by_level(pooled)
    of = "standard errors, of sampling and of imputation together"
    numbers = chart.Numbers(pooled.problem, pooled.pip, total_error(pooled), of)
    sets = stand_ins(pooled)
    return {
        "title": title,
        "about": words.about_data(pooled.problem),
        "answer": words.answer_of(levels, sets, opinion, pooled.problem.p),
        "remarks": [],
        "levels": [
            (level if opinion.sound else words.SO_FAR[level], words.listed_short(names))
            for level, names in levels
        ],
        "stand_ins": [
            (words.listed_short(names), table.with_error(table.written("probability", p), error))
            for names, p, error in sets
        ],
        "verdict": opinion,
        "facts": _facts(pooled),
        "charts": chart.charts_of(numbers, chart.others_in(sets), most_rows),
    }


def stand_ins(pooled: PooledPosterior) -> list[tuple[list[str], float, float]]:
    """Sets of variables of which at least one is in the model, although the data cannot say which; with the probability of this and its
    error."""
    clusters = pooled.clusters(level=words.LEVELS[0][0])
    clusters = clusters[clusters["size"] > 1]
    errors = np.hypot(clusters["mcse"], clusters["imputation_error"])
    return list(zip(clusters["variables"], clusters["probability"], errors))


def content(pooled: PooledPosterior) -> dict[str, Any]:
    """The other parts of the report, except the table of variables and the settings."""
    methods, sources = words.sources(pooled)
    return {
        "sets": [],
        "p": pooled.problem.p,
        "exact": all(part.models.exact for part in pooled.parts),
        "errors": True,
        "error_words": "two standard errors of the probability that are due to the number of imputations",
        "about_models": "Probabilities are averages over the imputations; ± is two standard errors that are due to the number of imputations.",
        "results": figures.curves(pooled),
        "trust": figures.agreement(pooled),
        "models": _best_models(pooled),
        "gaussian": False,  # R² differs between imputations
        "methods": methods,
        "sources": sources,
        "missing": _missing(pooled),
        "missing_notes": _notes(pooled)[0],
    }


def verdict(pooled: PooledPosterior) -> words.Verdict:
    """Whether the probabilities of every imputation can be relied on, and how far they differ."""
    m = len(pooled.parts)
    reasons = tuple(
        f"imputation {i}: {reason}" for i, part in enumerate(pooled.parts, start=1) for reason in doubts(part)
    )
    spread = np.ptp([part.pip for part in pooled.parts], axis=0)
    apart, name = float(spread.max(initial=0.0)), pooled.names[int(np.argmax(spread))]
    sentences = [line for line in pooled.explain().splitlines() if line.startswith(("This is", "More imp"))]
    if m > 1:
        sentences.append(
            f"The {words.number(m)} imputations gave inclusion probabilities that differ {words.by_much(apart)} (most for {name})."
        )
    if reasons:
        return words.Verdict(False, words.NOT_YET, words.NOT_YET, ("", *sentences), reasons)
    exact = all(part.models.exact for part in pooled.parts)
    mark = "Exact for each imputation" if exact else "Converged for each imputation"
    clause = (
        f"the {words.number(m)} imputations of missing values differ {words.by_much(apart)}"
        if m > 1
        else "there was only one imputation, which cannot be compared with others"
    )
    if pooled.imputations is not None and not pooled.imputations.gaps.any():
        clause = "no value was missing"
    return words.Verdict(True, mark, clause, tuple(sentences))


def columns(pooled: PooledPosterior) -> list[Column]:
    """The columns of the table of variables, with rows sorted by descending probability."""
    found = pooled.summary()
    order = [pooled.names.index(str(name)) for name in found.index]
    out = [
        Column("Variable", "name", list(map(str, found.index))),
        Column(
            "Probability", "probability", table.probabilities(found["pip"].to_numpy()),
            "posterior probability that the variable is in the model, averaged over imputations",
        ),
        Column(
            "±", "error", table.significant(2 * total_error(pooled)[order], 2),
            "two standard errors of the probability, due to sampling and to the number of imputations",
        ),
        Column("Lowest", "range", table.significant(found["lowest"].to_numpy(), 3), "smallest probability of an imputation"),
        Column("Highest", "range", table.significant(found["highest"].to_numpy(), 3), "largest probability of an imputation"),
    ]  # fmt: skip
    ratio = getattr(pooled.problem.family, "ratio", None)
    if ratio is not None:
        effects = pooled_standard_effects(pooled, 0.95).iloc[order]
        return out + table.ratio_columns(pooled.problem, ratio, effects)
    mean, sd = included(pooled)
    labels = ("Coefficient", "mean if the variable is in the model, in the units of the data"), (
        "Its sd", "standard deviation of the coefficient if the variable is in the model, within imputations and between them",
    )  # fmt: skip
    return out + [
        Column(label, kind, table.significant(values[order], 3), about)
        for values, kind, (label, about) in zip((mean, sd), ("number", "spread"), labels)
    ]


def settings(pooled: PooledPosterior, first: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The settings of the first part without those that apply to it alone, and the settings of the imputation."""
    shown = {
        name: value
        for name, value in first
        if name not in ("Log evidence", "Stopped because", "CPU time", "Posterior of g")
    }
    cells = 0 if pooled.imputations is None else int(pooled.imputations.gaps.sum())
    more = [
        *([("Columns as they were read", " ".join(others))] if (others := _notes(pooled)[1]) else []),
        ("Imputations", f"{len(pooled.parts)}"),
        *([("Cells that were imputed", f"{cells:,}")] if pooled.imputations is not None else []),
        ("CPU time", f"{sum(part.cpu_seconds for part in pooled.parts):,.1f} s"),
    ]
    end = [name for name in ("whichvars", "Python", "Report made") if name in shown]
    return [*((n, v) for n, v in shown.items() if n not in end), *more, *((n, shown[n]) for n in end)]


def _facts(pooled: PooledPosterior) -> list[tuple[str, str]]:
    problem = pooled.problem
    cells = 0 if pooled.imputations is None else int(pooled.imputations.gaps.sum())
    return [
        ("variables", f"{problem.p:,}"),
        ("rows", f"{problem.n:,}"),
        ("in the model, on average", f"{pooled.mean_size:.1f}"),
        *([("missing cells", f"{cells:,}")] if pooled.imputations is not None else []),
        ("imputations", f"{len(pooled.parts)}"),
    ]


def _best_models(pooled: PooledPosterior) -> list[dict[str, Any]]:
    models, _ = pooled._best_models(TOP_MODELS)
    return [
        {
            "probability": table.model_probability(row["probability"]),
            "error": "—"
            if np.isnan(row["imputation_error"])
            else table.model_probability(2 * row["imputation_error"]),
            "r_squared": "",
            "size": row["size"],
            "variables": words.model_words([pooled.names[j] for j in members], pooled.names),
        }
        for (_, row), members in zip(pooled.top_models(TOP_MODELS).iterrows(), models)
    ]


def _notes(pooled: PooledPosterior) -> tuple[list[str], list[str]]:
    """What was said when the table was read: about missing values, and about other things, such as the levels of categories."""
    said = () if pooled.imputations is None else pooled.imputations.notes
    missing = [note for note in said if "missing" in note or "without any value" in note]
    return missing, [note for note in said if note not in missing]


def _missing(pooled: PooledPosterior) -> list[dict[str, str]]:
    """The rows of the table of columns with missing values, beginning with the column that has most of them."""
    if pooled.imputations is None:
        return []
    names, counts = pooled.imputations.kinds.names, pooled.imputations.gaps.sum(axis=0)
    order = [j for j in np.argsort(-counts, kind="stable").tolist() if counts[j]]
    return [
        {
            "name": short(names[j], words.LONGEST_NAME),
            "cells": f"{counts[j]:,}",
            "share": f"{100 * counts[j] / len(pooled.imputations.gaps):.1f} %",
        }
        for j in order[:MOST_COLUMNS]
    ]
