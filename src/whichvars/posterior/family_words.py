"""What there is to say of a posterior whose family is not Gaussian: effects as odds and rates, fits, and counts that vary too much."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from whichvars._kernels.likelihood import FIRST_ORDER, LOG_MARGINAL
from whichvars.errors import DataError
from whichvars.posterior.accuracy import overdispersion_words
from whichvars.posterior.models import KeptModels
from whichvars.posterior.tables import three_digits
from whichvars.problem.families import Gaussian, Logistic, is_linear
from whichvars.problem.fitting import answers
from whichvars.problem.priors import BIC
from whichvars.problem.problem import Problem

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior


FITS, SECOND_STAGE, LAPLACE, PEARSON = "(fits)", "(second stage)", "(Laplace)", "(Pearson dispersion)"
# variables whose effects ``explain`` mentions, and the most models that it averages them over
MENTIONED, AT_A_GLANCE = 3, 40_000
# models with which orders of Laplace's approximation are compared: the heaviest
MOST_COMPARED = 1000
# noise of an inclusion probability that is mentioned
NOTICEABLE = 5e-4


def outcome(problem: Problem) -> str:
    """What odds are of: a value of the response, or a success."""
    if isinstance(problem.family, Logistic) and problem.family.trials is not None:
        return "a success"
    return str(problem.classes[1]) if problem.classes else ""


def standard_effects(posterior: "Posterior", level: float = 0.9) -> pd.DataFrame:
    """Effects of one standard deviation more of each column if it is in the model, and an interval, on the scale of the linear predictor:
    `effect`, `lower` and `upper`, by column. NaN if no kept model has it.

    The interval is that of a normal distribution with the mean and variance of the coefficient given that it is in.
    """
    problem = posterior.problem
    moments, _ = posterior._moments
    spread = problem.column_spread
    effect, reach = spread * moments.mean_included, ndtri((1 + level) / 2) * spread * moments.sd_included
    return pd.DataFrame(
        {"effect": effect, "lower": effect - reach, "upper": effect + reach}, index=problem.columns_used
    )


def effects(posterior: "Posterior") -> list[str]:
    """A sentence on the effects of the most probable variables, those of one column each; empty if the family is Gaussian or Student."""
    problem, family = posterior.problem, posterior.problem.family
    order = np.argsort(-posterior.pip, kind="stable")
    single = np.diff(problem.offsets) == 1
    chosen = [int(j) for j in order if posterior.pip[j] >= 0.5 and single[j]][:MENTIONED]
    if isinstance(family, Gaussian) or is_linear(family) or not chosen or len(posterior.kept) > AT_A_GLANCE:
        return []
    try:
        table = standard_effects(posterior).iloc[problem.offsets[chosen]]
    except DataError as error:  # under BIC, coefficients may have no finite estimates
        return [f"Effects cannot be told: {error}."]
    return effect_sentence(problem, table)


def effect_sentence(problem: Problem, table: pd.DataFrame) -> list[str]:
    """The sentence on these effects and the ends of their 90 % intervals, by name; none if there are no effects, or if they are changes of the response
    itself."""
    family = problem.family
    if isinstance(family, Gaussian) or is_linear(family) or not len(table):
        return []
    does, of = f"adds to the {family.link} of {outcome(problem)}", ""
    if family.ratio is not None:
        with np.errstate(over="ignore"):
            table = np.exp(table)
        does = (
            f"multiplies the odds of {outcome(problem)} by"
            if problem.classes or family.name == "logistic"
            else "multiplies the rate by"
        )
    parts: list[str] = []
    for name, row in table.iterrows():
        effect, lower, upper = (three_digits(row[part]) for part in ("effect", "lower", "upper"))
        numbers = f"{effect} ({lower} to {upper}"
        parts.append(f"{of}{name} {does} {numbers}{' with 90 % probability' if not parts else ''})")
        of, does = "of ", "by" if family.ratio is not None else ""
    listed = ", ".join(" ".join(part.split()) for part in parts)
    return [f"If it is in the model, one standard deviation more of {listed}."]


def first_order_change(posterior: "Posterior") -> tuple[float, str] | None:
    """The largest change of an inclusion probability if marginal likelihoods were Laplace's approximations of first order, and the
    variable; None where these are not what the evidence corrects.

    Only the heaviest kept models are compared; their weights are multiplied by the ratio of the two marginal likelihoods.
    """
    problem = posterior.problem
    if (
        isinstance(problem.family, Gaussian)
        or isinstance(problem.slab, BIC)
        or problem.evidence in ("laplace", "bas")
    ):
        return None
    kept = posterior.kept
    some = kept.some(np.argsort(-kept.weight, kind="stable")[:MOST_COMPARED])
    found = answers(problem, some.members, some.start)[0]
    ratio = np.exp(np.clip(found[:, FIRST_ORDER] - found[:, LOG_MARGINAL], -50, 50))
    change = np.abs(_pips(some, some.weight * ratio, problem.p) - _pips(some, some.weight, problem.p))
    return float(change.max()), problem.names[int(change.argmax())]


def _pips(models: KeptModels, weight: np.ndarray, p: int) -> np.ndarray:
    return np.bincount(models.members, np.repeat(weight / weight.sum(), np.diff(models.start)), p)


def fit_rows(posterior: "Posterior") -> list[dict[str, Any]]:
    """Rows of ``Posterior.diagnostics`` about fits: their name, a number and what it means."""
    if isinstance(posterior.problem.family, Gaussian):
        return []
    rows = []
    fits = sum(learned.get("fits", 0) for learned in posterior.adaptation)
    note = "models fitted by all chains together"
    if posterior.models.exact and posterior.reweighting_ess is None:
        fits, note = posterior.iterations, "models fitted: all"
    if fits:
        rows.append({"name": FITS, "estimate": float(fits), "note": note})
    judged = sum(learned.get("judged", 0) for learned in posterior.adaptation)
    if judged:
        upheld = sum(learned.get("upheld", 0) for learned in posterior.adaptation)
        note = "share of what the surrogate suggested that the fits accepted"
        rows.append({"name": SECOND_STAGE, "estimate": upheld / judged, "note": note})
    change = posterior.laplace_change
    if change is not None:
        note = f"largest change of a probability by Laplace's first order ({change[1]})"
        rows.append({"name": LAPLACE, "estimate": change[0], "note": note})
    pearson = posterior.pearson
    if pearson is not None:
        note = (
            "counts vary too much for this family"
            if pearson.over
            else "near 1: counts vary as the family says"
        )
        rows.append({"name": PEARSON, "estimate": pearson.ratio, "note": note})
    return rows


def with_fit_rows(table: pd.DataFrame, posterior: "Posterior") -> pd.DataFrame:
    """The diagnostics with the rows about fits on top."""
    rows = fit_rows(posterior)
    if not rows:
        return table
    top = pd.DataFrame(rows).set_index("name").reindex(columns=table.columns)
    return pd.concat([top.astype(dict.fromkeys(top.columns[:-1], float)), table]).rename_axis("quantity")


def about_fits(posterior: "Posterior") -> list[str]:
    """How far marginal likelihoods can be believed, for ``explain``."""
    change = posterior.laplace_change
    if change is None:
        return []
    if change[0] < 0.001:
        return [
            "Laplace's approximation is good to 0.001 here: its correction changes no inclusion probability by more."
        ]
    return [
        f"Laplace's approximation alone is good to {change[0]:.3f} here: its correction changed the probability of {change[1]} by that "
        "much, and all others by less."
    ]


def about_noise(posterior: "Posterior") -> list[str]:
    """What importance sampling adds to the errors, for ``explain``, if there is anything to speak of."""
    noise = posterior.kept.noise_of_pips(posterior.problem.p)
    if not noise.max(initial=0.0) > NOTICEABLE:
        return []
    j = int(noise.argmax())
    return [
        "Marginal likelihoods of some models were computed by importance sampling, whose noise is part of all errors: it adds "
        f"{noise[j]:.1g} to that of the probability of {posterior.problem.names[j]}, and less to the others."
    ]


def overdispersion(posterior: "Posterior") -> list[str]:
    """A remark on responses that vary more than their distribution allows."""
    return overdispersion_words(posterior.problem, posterior.pearson)
