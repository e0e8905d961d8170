"""A report of a posterior as one HTML file: the result in words, the table, the plots and the diagnostics.

The file is self-contained: it needs neither a network nor fonts nor other files.
"""

import os
import platform
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from whichvars.errors import ArgumentTypeError, OutputError
from whichvars.plots.comparisons import with_few_digits
from whichvars.plots.drawing import require
from whichvars.plots.questions import one_blas_thread
from whichvars.posterior.diagnostics import count
from whichvars.posterior.family_words import overdispersion
from whichvars.posterior.pooling import PooledPosterior
from whichvars.posterior.posterior import Posterior
from whichvars.posterior.residual_checks import ResidualCheck
from whichvars.posterior.tables import shown_models
from whichvars.problem.families import Gaussian
from whichvars.problem.prior_width import narrow_prior
from whichvars.report import chart, figures, pooled, table, words
from whichvars.report.effects import effects_in_words, pooled_effects_in_words
from whichvars.sampling.checkpoint import version

HERE = Path(__file__).parent
TITLE = "Which variables matter?"
TOP_MODELS, MOST_SETS = 10, 50
# the facts for readers in a hurry: how many variables and rows there are, and how large models are
BRIEF_FACTS = 4
# settings that say nothing about a result for which nothing was sampled
OF_SAMPLING = {
    "replicates",
    "seed",
    "target_mcse",
    "draws",
    "warmup",
    "budget",
    "thin",
    "start",
    "rao_blackwell",
}
# settings whose names are not words, and why a run stopped
LABELS = {"target_mcse": "Monte Carlo error asked for", "rao_blackwell": "Rao–Blackwell averages"}
STOPPED = {
    "draws": "all draws were made", "target_mcse": "every probability was as accurate as asked for", "budget": "the time was up",
    "interrupted": "it was interrupted",
}  # fmt: skip
# settings that are numbers of iterations
OF_DRAWS = {"draws", "warmup", "thin"}


def _with_unit(name: str, value: object) -> object:
    """The value of a setting as the report shows it.

    >>> _with_unit("draws", 20000), _with_unit("budget", 5.0), _with_unit("seed", 1)
    ('20,000', '5 s', 1)
    """
    if isinstance(value, int) and name in OF_DRAWS:
        return f"{value:,}"
    if isinstance(value, (int, float)) and name == "budget":
        return f"{value:,g} s"
    return value


def write_report(
    posterior: Posterior | PooledPosterior,
    path: str | os.PathLike[str],
    title: str | None = None,
    brief: bool = False,
    check: ResidualCheck | None = None,
    level: float = 0.95,
    signal: float | None = None,
) -> Path:
    """Write a report, as ``Posterior.report`` does."""
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(f"path must be the name of a file, such as 'report.html', not {path!r}")
    if title is not None and not isinstance(title, str):
        raise ArgumentTypeError(f"title must be text, not {title!r}")
    if check is not None and not isinstance(check, ResidualCheck):
        raise ArgumentTypeError(
            f"check must be what residual_check(X, y) returns, not {type(check).__name__}"
        )
    for package in ("matplotlib", "jinja2"):
        require(package, "reports")
    target = Path(path).absolute()
    _check_place(target)  # before the work begins
    with one_blas_thread():
        if isinstance(posterior, PooledPosterior):
            page = render_pooled(posterior, title, brief, check)
        else:
            page = render_brief(posterior, title) if brief else render(posterior, title, check, level, signal)
    write_whole(target, page)
    return target


def render(
    posterior: Posterior,
    title: str | None = None,
    check: ResidualCheck | None = None,
    level: float = 0.95,
    signal: float | None = None,
) -> str:
    """The page as HTML."""
    columns = table.columns(posterior)
    methods, sources = words.sources(posterior)
    return fill(
        "page.html",
        **_summary(posterior, title),
        effects=effects_in_words(posterior),
        sets=_credible_sets(posterior, level, signal),
        level=level,
        given_signal=signal is not None,
        columns=columns,
        rows=table.first_rows(columns),
        data=table.as_json(columns),
        p=posterior.problem.p,
        exact=posterior.models.exact,
        errors=not posterior.models.exact or posterior.models.mcse is not None,
        error_words="two Monte Carlo standard errors of the probability",
        about_models=_about_models(posterior),
        missing=[],
        missing_notes=[],
        fit=_fit(check),
        results=figures.results(posterior),
        trust=figures.trust(posterior),
        models=_best_models(posterior),
        gaussian=isinstance(posterior.problem.family, Gaussian),
        settings=settings(posterior),
        methods=methods,
        sources=sources,
        script=_script(),
    )


def render_pooled(
    posterior: PooledPosterior, title: str | None, brief: bool, check: ResidualCheck | None = None
) -> str:
    """The page, or the summary on one page, of posteriors of completed tables, as HTML."""
    start = pooled.summary(posterior, title or TITLE, chart.BRIEF_ROWS if brief else None)
    if brief:
        return fill("brief.html", **start, effects=pooled_effects_in_words(posterior))
    columns = pooled.columns(posterior)
    return fill(
        "page.html",
        **start,
        **pooled.content(posterior),
        effects=pooled_effects_in_words(posterior),
        fit=_fit(check, "In one of the completed tables, "),
        columns=columns,
        rows=table.first_rows(columns),
        data=table.as_json(columns),
        settings=pooled.settings(posterior, settings(posterior.parts[0])),
        script=_script(),
    )


def _fit(check: ResidualCheck | None, whose: str = "") -> dict[str, Any] | None:
    """Whether the model fits; None if the residuals are not known."""
    if check is None:
        return None
    explained = f"{whose}{'the' if whose else 'The'} fitted values explain {100 * check.r_squared:.0f} % of the variance (R²)"
    if check.loo_r_squared is not None:
        share = f"{100 * check.loo_r_squared:.0f} % of it" if check.loo_r_squared > 0 else "none of it"
        explained += f"; when each row is predicted from all the others, predictions explain {share}"
    return {"explained": f"{explained}.", "remarks": check.remarks, "pictures": figures.residuals(check)}


def _script() -> str:
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in ("page.js", "charts.js"))


def _about_models(posterior: Posterior) -> str:
    if not posterior.models.exact:
        return (
            "Probabilities are estimated from the draws and from the exact ratios of the models' probabilities; ± is two Monte Carlo "
            "standard errors, and — means that they are not known."
        )
    if posterior.models.mcse is not None:
        return (
            "Probabilities are exact, except for the noise of importance sampling; ± is two standard errors."
        )
    return "Probabilities are exact."


def render_brief(posterior: Posterior, title: str | None = None) -> str:
    """The summary on one page as HTML."""
    return fill(
        "brief.html",
        **_summary(posterior, title, chart.BRIEF_ROWS) | {"facts": _facts(posterior)[:BRIEF_FACTS]},
        effects=effects_in_words(posterior),
    )


def fill(template: str, **values: Any) -> str:
    """A template of this folder with its values filled in; text is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(HERE, encoding="utf-8")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = (HERE / "page.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(style=style, version=version(), **values)


def _summary(posterior: Posterior, title: str | None, most_rows: int | None = None) -> dict[str, Any]:
    """What the report and the summary on one page have in common; the chart of the latter has at most `most_rows` rows."""
    verdict = words.verdict(posterior)
    return {
        "title": title or TITLE,
        "about": words.about_data(posterior.problem),
        "answer": words.answer(posterior),
        "remarks": [
            remark[0].upper() + remark[1:]
            for remark in (*overdispersion(posterior), *narrow_prior(posterior.problem))
        ],
        "levels": [
            (level if verdict.sound else words.SO_FAR[level], words.listed_short(names))
            for level, names in words.by_level(posterior)
        ],
        "stand_ins": [
            (words.listed_short(names), table.with_error(table.written("probability", p), error))
            for names, p, error in words.stand_ins(posterior)
        ],
        "verdict": verdict,
        "facts": _facts(posterior),
        "charts": chart.charts(posterior, most_rows),
    }


def _credible_sets(posterior: Posterior, level: float, signal: float | None) -> list[dict[str, Any]]:
    """The rows of the table of credible sets; none if every set is a single variable."""
    sets = posterior.credible_sets(level, signal=signal)
    if not (sets["size"] > 1).any():
        return []
    return [
        {
            "probability": table.with_error(table.written("probability", row["probability"]), row["mcse"]),
            "signal": table.written("probability", row["signal"]) if signal is not None else "",
            "reached": row["reached"],
            "size": row["size"],
            "purity": f"{row['purity']:.2f}",
            "variables": words.listed_short(
                [
                    f"{name} ({table.written('probability', pip)})"
                    for name, pip in zip(row["variables"], row["pips"])
                ],
                12,
            ),
        }
        for _, row in sets.head(MOST_SETS).iterrows()
    ]


def _best_models(posterior: Posterior) -> list[dict[str, Any]]:
    """The rows of the table of models."""
    names = posterior.problem.names
    best = posterior.top_models(TOP_MODELS)
    return [
        {
            "probability": table.model_probability(row["probability"]),
            "error": "—" if np.isnan(row["mcse"]) else table.model_probability(2 * row["mcse"]),
            "r_squared": f"{row['r_squared']:.3f}" if "r_squared" in row else "",
            "size": row["size"],
            "variables": words.model_words([names[j] for j in members], names),
        }
        for (_, row), members in zip(best.iterrows(), shown_models(posterior, TOP_MODELS).members)
    ]


def _mean_size(posterior: Posterior) -> str:
    """The mean size with as many decimals as its error allows, at most two."""
    error = posterior.mean_size_mcse
    if not np.isfinite(error) or error == 0:
        return f"{posterior.mean_size:.1f}"
    places = 1 if 2 * error > 0.1 else 2
    return table.with_error(f"{posterior.mean_size:.{places}f}", error, 10.0**-places)


def _facts(posterior: Posterior) -> list[tuple[str, str]]:
    """The most important numbers."""
    problem = posterior.problem
    cumulated = np.cumsum(posterior.sizes)
    low, high = (int(np.searchsorted(cumulated, level)) for level in (0.05, 0.95))
    facts = [
        ("variables", f"{problem.p:,}"),
        ("rows", f"{problem.n:,}"),
        ("in the model, on average", _mean_size(posterior)),
        ("with 90 % probability", f"{low}" if low == high else f"{low} to {high}"),
    ]
    facts += [(words.SCORES[name], f"{value:.2f}") for name, value in words.shown_scores(posterior).items()]
    if posterior.models.exact:
        return [*facts, ("models, all visited", f"{posterior.iterations:,}")]
    return [*facts, ("iterations", f"{posterior.iterations:,}")]


def settings(posterior: Posterior) -> list[tuple[str, str]]:
    """The settings that are needed to reproduce the result."""
    problem = posterior.problem
    rows: list[tuple[str, Any]] = [
        ("File", problem.record.file),
        ("Response", problem.response or ""),
        ("Rows read", f"{problem.record.rows_read:,}" if problem.record.rows_read else ""),
        (
            "Rows left out",
            f"{problem.record.rows_dropped:,}, with missing values" if problem.record.rows_dropped else "",
        ),
        (
            "Reference levels",
            ", ".join(f"{name}: {level}" for name, level in problem.reference_levels.items()),
        ),
        *words.family_settings(problem),
        ("Prior on coefficients", problem.slab),
        ("Posterior of g", words.words_of_g(posterior)),
        ("Prior on models", problem.model_prior),
        ("Prior on the noise", problem.noise if isinstance(problem.family, Gaussian) else ""),
        ("Scaling of the columns", {"unit": "standard deviations", "none": "as given"}[problem.scale]),
        ("Always in the model", ", ".join(["the intercept", *problem.always_names])),
        (
            "Largest model allowed",
            count(problem.max_size, "variable") if problem.max_size < problem.p else "",
        ),
        ("Left out", "; ".join(f"{name} ({why})" for name, why in problem.excluded.items())),
        ("Copies of one another", "; ".join(" = ".join(names) for names in problem.duplicates)),
        ("Sampler", with_few_digits(posterior.sampler)),
        ("Chosen because", posterior.chosen),
        ("Replicates", "" if posterior.replicate_pips is None else len(posterior.replicate_pips)),
        *(
            (
                LABELS.get(name, name.replace("_", " ").capitalize()),
                _with_unit(name, value),
            )
            for name, value in posterior.settings.items()
            if not (posterior.models.exact and name in OF_SAMPLING)
        ),
        ("Stopped because", STOPPED.get(posterior.stopped or "", posterior.stopped)),
        ("CPU time", f"{posterior.cpu_seconds:,.1f} s"),
        ("Log evidence", _evidence(posterior)),
        ("whichvars", version()),
        ("Python", platform.python_version()),
        ("Report made", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
    ]
    shown: dict[str, str] = {}
    for name, value in rows:
        if value is not None and str(value):
            shown.setdefault(name, str(value))
    return list(shown.items())


def _evidence(posterior: Posterior) -> str:
    if posterior.log_evidence is None:
        return ""
    error = posterior.log_evidence_mcse
    return f"{posterior.log_evidence:.3f}" + (f" ± {2 * error:.3f}" if error and np.isfinite(error) else "")


def _check_place(target: Path) -> None:
    if os.path.isdir(target):
        raise OutputError(f"{target} is a directory; give the name of a file in it, such as 'report.html'")
    if not os.path.isdir(target.parent):
        raise OutputError(f"the directory {target.parent} does not exist; create it first")


def write_whole(target: Path, text: str) -> None:
    """Write a file under a temporary name and then rename it, so that it is never incomplete."""
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(beside, "xb") as file:
            file.write(text.encode("utf-8", "replace"))  # names may contain lone surrogates
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except OSError as error:
        if os.path.exists(beside):
            os.remove(beside)
        raise OutputError(f"{target} could not be written: {error.strerror or error}") from error
