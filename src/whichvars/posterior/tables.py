"""The variables and the best models of a posterior as tables, for the terminal, a notebook and a paper."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from whichvars.errors import DataError
from whichvars.posterior.conditions import condition_words
from whichvars.posterior.consistency import within_pips
from whichvars.posterior.diagnostics import rough
from whichvars.posterior.notebooks import MOST_ROWS, notebook_table
from whichvars.problem.columns import gram_of
from whichvars.problem.problem import Problem

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Models, Posterior


VERY_LARGE = "> 10 million"
STILL = "mcse –: never in, or never out; diagnostics() says how sure that is"
# columns that are left out if there is no Monte Carlo error
EXACT_COLUMNS = ("mcse", "ess")

# least inclusion probabilities, and the words for them
LEVELS = ((0.95, "almost certainly in"), (0.5, "probably in"), (0.1, "plausible"))


def in_words(probability: float) -> str:
    """An inclusion probability in words.

    >>> in_words(0.997), in_words(0.7), in_words(0.2), in_words(0.05), in_words(0.001)
    ('almost certainly in', 'probably in', 'plausible', 'probably out', 'almost certainly out')
    """
    for least, words in LEVELS:
        if probability >= least:
            return words
    return "probably out" if probability >= 0.01 else "almost certainly out"


def three_digits(value: float) -> str:
    """A number in a sentence: three significant digits, zeros at the end included, and commas for thousands.

    >>> [three_digits(v) for v in (1.3, 0.8999, 22.2, 14_850.0, 0.00012, -1.1, 3.2e9, 0.0, float("inf"))]
    ['1.30', '0.900', '22.2', '14,800', '0.000120', '-1.10', '3.20e+09', '0', 'inf']
    """
    if not np.isfinite(value) or value == 0:
        return f"{value:g}"
    power = int(f"{value:.2e}".split("e")[1])
    if power in (3, 4, 5, 6):
        return f"{float(f'{value:.2e}'):,.0f}"
    return f"{value:.{2 - power}f}" if -5 < power < 3 else f"{value:.2e}"


def summary_table(posterior: "Posterior", coefficients: bool) -> pd.DataFrame:
    """What ``Posterior.summary`` returns."""
    problem = posterior.problem
    columns = {"pip": posterior.pip, "mcse": posterior.mcse}
    if coefficients:
        moments, positive = posterior._moments
        single, first = np.diff(problem.offsets) == 1, problem.offsets[:-1]
        sign = np.maximum(positive, 1 - positive)
        for name, values in (("mean", moments.mean), ("sd", moments.sd), ("sign_probability", sign)):
            columns[name] = np.where(single, values[first], np.nan)
    columns["ess"] = posterior.inclusion_ess.to_numpy()
    if posterior.condition is not None:
        columns["pip_before"] = posterior.condition.pip_before
    frame = pd.DataFrame(columns, index=pd.Index(problem.names, name="variable"))
    return frame.sort_values("pip", ascending=False, kind="stable")


def shown_models(posterior: "Posterior", n: int) -> "Models":
    """The n most probable models, best first, with probabilities that do not contradict the inclusion probabilities."""
    models = posterior.models
    best = replace(
        models,
        members=models.members[:n],
        log_marginal=models.log_marginal[:n],
        log_prior=models.log_prior[:n],
        frequency=models.frequency[:n],
        mcse=None if models.mcse is None else models.mcse[:n],
    )
    return within_pips(best, posterior.pip)


def model_table(posterior: "Posterior", n: int) -> pd.DataFrame:
    """What ``Posterior.top_models`` returns."""
    models = shown_models(posterior, n)
    n = len(models.members)
    names = posterior.problem.names
    with np.errstate(over="ignore"):  # with a strong prior, the Bayes factor of another model may overflow
        bayes_factor = np.exp(models.log_marginal[:n] - models.log_marginal[:1])
    gaussian = posterior.problem.fit_data is None
    table = pd.DataFrame(
        {
            "size": [len(m) for m in models.members[:n]],
            "probability": models.frequency[:n],
            "mcse": models.mcse[:n] if models.mcse is not None else 0.0 if models.exact else np.nan,
            "log_marginal": models.log_marginal[:n],
            "bayes_factor": bayes_factor,
            "r_squared": [
                r_squared(posterior.problem, m) if gaussian else np.nan for m in models.members[:n]
            ],
            "variables": [", ".join(names[j] for j in sorted(m)) for m in models.members[:n]],
        },
        index=pd.RangeIndex(1, n + 1, name="model"),
    )
    return table if gaussian else table.drop(columns="r_squared")


def r_squared(problem: Problem, members: tuple[int, ...]) -> float:
    """R² of the least-squares fit of a model's columns to y, given the always-included columns."""
    if not members:
        return 0.0
    design = problem.target(0).design
    columns = np.concatenate([np.arange(problem.offsets[j], problem.offsets[j + 1]) for j in members])
    right = design.xty[columns]
    gram = gram_of(design, columns)
    return float(min(1.0, right @ np.linalg.lstsq(gram, right, rcond=1e-12)[0]))


FORMS = {
    "pip": "{:.4f}", "mcse": "{:.2g}", "mean": "{:.4g}", "sd": "{:.3g}", "sign_probability": "{:.3f}", "ess": "{:,.0f}",
    "pip_before": "{:.4f}", "mean_mcse": "{:.2g}", "sd_mcse": "{:.2g}", "mean_included": "{:.4g}", "sd_included": "{:.3g}",
    "probability_positive": "{:.3f}", "lower": "{:.4g}", "upper": "{:.4g}", "size": "{:.0f}", "probability": "{:.4f}",
    "lowest": "{:.4f}", "highest": "{:.4f}", "imputation_error": "{:.2g}", "log_marginal": "{:.3f}", "bayes_factor": "{:.3g}", "r_squared": "{:.3f}",
}  # fmt: skip
PROBABILITIES = (
    "pip",
    "pip_before",
    "lowest",
    "highest",
    "sign_probability",
    "probability_positive",
    "probability",
    "r_squared",
)


def formatted(table: pd.DataFrame, exact: bool, digits: int | None = None) -> pd.DataFrame:
    """The numbers as text with suitable digits, or with as many as are given, without columns that carry no information."""
    shown = [c for c in table.columns if not (exact and c in EXACT_COLUMNS)]
    forms = dict(FORMS)
    if digits is not None:
        forms |= {name: f"{{:.{digits}f}}" if name in PROBABILITIES else f"{{:.{digits}g}}" for name in FORMS}
        forms |= {name: FORMS[name] for name in ("size", "ess")}
    return pd.DataFrame(
        {
            c: list(table[c]) if c == "variables" else [_written(c, forms[c], v) for v in table[c]]
            for c in shown
        },
        index=table.index,
    )


def _written(column: str, form: str, value: float) -> str:
    if not np.isfinite(value):
        return "–"
    if column == "imputation_error" and 0 < value < 0.00005:
        return "<0.0001"
    if column == "ess":  # averages of conditional probabilities may be very accurate
        return VERY_LARGE if value >= 1e7 else form.format(rough(value))
    return form.format(value)


def terminal(posterior: "Posterior", table: pd.DataFrame, rows: int = 10) -> str:
    """``repr`` of a posterior."""
    text = _compact(posterior, table.head(rows)).to_string()
    rest = f"\n… and {len(table) - rows:,} more" if len(table) > rows else ""
    still = f"\n{STILL}" if _any_still(posterior, table.head(rows)) else ""
    return f"{heading(posterior)}\n{text}{rest}{still}"


def html(posterior: "Posterior", table: pd.DataFrame) -> str:
    """The same for a notebook."""
    first = table.head(MOST_ROWS)
    notes = [STILL] if _any_still(posterior, first) else []
    return notebook_table(
        heading(posterior), _compact(posterior, first), first, len(table) - len(first), notes
    )


def _any_still(posterior: "Posterior", table: pd.DataFrame) -> bool:
    """Whether a table has variables that never moved, although others did."""
    still = table["mcse"].isna()
    return bool(still.any() and not np.isnan(posterior.mcse).all())


def _compact(posterior: "Posterior", table: pd.DataFrame) -> pd.DataFrame:
    """Formatted, with the name of the index in the line of the headings."""
    return formatted(table, not posterior.mcse.any()).rename_axis(None).rename_axis("variable", axis=1)


def heading(posterior: "Posterior") -> str:
    name = posterior.sampler.split("(")[0]  # without its settings
    given = "" if posterior.condition is None else f", given {condition_words(posterior.condition)}"
    head = f"Posterior of {posterior.problem.p:,} variable{'s' * (posterior.problem.p != 1)} by {name}{given}: mean model size {posterior.mean_size:.2f}"
    if not posterior.mcse.any():
        return head
    unknown = np.isnan(posterior.mcse).all()
    error = (
        "unknown Monte Carlo error"
        if unknown
        else f"largest Monte Carlo error {np.nanmax(posterior.mcse):.2g}"
    )
    return (
        f"{head}, {error}"
        if posterior.converged
        else f"NOT TO BE TRUSTED YET, see explain(). {head}, {error}"
    )


LATEX_HEADS = {
    "pip": "PIP", "mcse": "MCSE", "mean": "Mean (all models)", "sd": "SD (all models)", "sign_probability": "P(sign)", "ess": "ESS", "pip_before": "PIP before",
    "mean_mcse": "MCSE of mean", "sd_mcse": "MCSE of SD", "mean_included": "Mean if in", "sd_included": "SD if in",
    "probability_positive": "P(positive)", "lower": "Lower", "upper": "Upper", "size": "Size", "probability": "Probability",
    "log_marginal": "Log marginal", "bayes_factor": "Bayes factor", "r_squared": "$R^2$", "variables": "Variables",
}  # fmt: skip
LATEX_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def with_coefficients(
    posterior: "Posterior", table: pd.DataFrame, columns: Sequence[str] | None
) -> pd.DataFrame:
    """The summary with the columns of ``coefficients`` that are asked for; NaN for variables of several columns."""
    missing = [name for name in columns or () if name not in table]
    if not missing:
        return table
    problem = posterior.problem
    found = posterior.coefficients(0.95 if {"lower", "upper", "probability_positive"} & {*missing} else None)
    of_columns = found.iloc[len(found) - len(problem.columns_used) :]
    single, first = np.diff(problem.offsets) == 1, problem.offsets[:-1]
    more = {
        name: pd.Series(np.where(single, of_columns[name].to_numpy()[first], np.nan), problem.names)
        for name in missing
        if name in found
    }
    return table.assign(**{name: values.reindex(table.index) for name, values in more.items()})


def latex(
    posterior: "Posterior",
    table: pd.DataFrame,
    caption: str | None,
    label: str | None,
    columns: Sequence[str] | None = None,
    digits: int | None = None,
) -> str:
    """What ``Posterior.to_latex`` returns."""
    if columns is not None:
        wrong = [name for name in columns if name not in table]
        if wrong:
            raise DataError(
                f"columns: there is no column {wrong[0]!r}; choose among those of summary(), coefficients() and, with models=True, top_models()"
            )
        table = table[list(columns)]
    if digits is not None and (isinstance(digits, bool) or not isinstance(digits, int) or digits < 1):
        raise DataError(f"digits must be a whole number of at least 1, not {digits!r}")
    shown = formatted(table, not posterior.mcse.any() and columns is None, digits)
    last = shown.columns[-1:] == ["variables"]
    lines = [
        r"\begin{tabular}{l" + "r" * (shown.shape[1] - int(last.any())) + "l" * int(last.any()) + "}",
        r"\toprule",
    ]
    of_rows = "Model" if table.index.name == "model" else "Variable"
    lines += [" & ".join([of_rows, *(LATEX_HEADS[c] for c in shown.columns)]) + r" \\", r"\midrule"]
    for name, row in zip(shown.index, shown.to_numpy().tolist()):
        cells = [
            "--" if v == "–" else escape(v) if c == "variables" else _number(v)
            for c, v in zip(shown.columns, row)
        ]
        lines.append(" & ".join([escape(str(name)), *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if caption is None and label is None:
        return "\n".join(lines) + "\n"
    head = [r"\begin{table}", r"\centering", *([rf"\caption{{{caption}}}"] if caption else [])]
    head += [rf"\label{{{label}}}"] if label else []
    return "\n".join([*head, *lines, r"\end{table}"]) + "\n"


def _number(text: str) -> str:
    """A number in LaTeX, with powers of ten and minus signs in math mode."""
    if text == VERY_LARGE:
        return "$> 10^7$"
    if "e" in text:
        digits, power = text.split("e")
        return rf"${digits} \times 10^{{{int(power)}}}$"
    return f"${text}$" if text.startswith("-") else text


def escape(text: str) -> str:
    """Text in which all special characters of LaTeX are escaped."""
    return "".join(LATEX_SPECIAL.get(character, character) for character in text)
