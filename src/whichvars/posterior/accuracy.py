r"""How good predictions are: scores, calibration, and whether responses vary more than their distribution allows.

Predictions are of new rows, or of the problem's own rows, each from all the others (``Posterior.loo``). With the predicted mean
μ_i of y_i (a probability or a rate), V(μ) the variance of the family and t_i the number of trials:

==========  =======================================================================================================
log score   the mean log predictive density of y_i
Brier       the mean of (y_i − μ_i)², y_i = 0 or 1; of successes among trials, the mean over all trials
AUC         the probability that a success has a larger μ than a failure, ties counting one half
Pearson     Σ (y_i − μ_i)²/V(μ_i), divided by the number of rows
==========  =======================================================================================================

**Overdispersion.** For the problem's own rows, Pearson's statistic with fitted means, divided by n less the mean number of
coefficients, is near 1 if the variance is V(μ). Each term has a variance of 2 + 1/V under a Poisson distribution, at most that under a
binomial distribution, and 2 + 1/V + 6/r under a negative binomial distribution. Responses are said to be overdispersed where the
statistic is above 1.2 and 3 standard deviations above its expectation. Counts of which none is above 1 are not judged: those of survival data
(the follow-up is cut at the event) do not have the distribution of Poisson counts, although they have their likelihood.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from whichvars.errors import DataError
from whichvars.posterior.dispersion import dispersion_values
from whichvars.posterior.family_prediction import moments_of_mean, predict_family
from whichvars.posterior.family_scores import components, log_predictive_of_family
from whichvars.posterior.fits import own_lines
from whichvars.posterior.models import KeptModels
from whichvars.posterior.prediction import predict
from whichvars.posterior.scores import log_predictive
from whichvars.problem.families import Gaussian, Logistic, NegativeBinomial, Student
from whichvars.problem.problem import Problem
from whichvars.problem.responses import read_new_response

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior


# models that fitted values are averaged over, for Pearson's statistic: the heaviest, with this share of the mass
ENOUGH_MASS, MOST_MODELS = 0.99, 200
# when responses are called overdispersed
LEAST_RATIO, LEAST_DEVIATIONS = 1.2, 3.0


class Predicted(NamedTuple):
    """Responses beside what was predicted of them, (n,) each."""

    y: np.ndarray
    trials: np.ndarray
    weight: np.ndarray
    mean: np.ndarray  # of one trial, or a rate
    log_density: np.ndarray
    variance: np.ndarray  # V: of y, if the mean is right


class Pearson(NamedTuple):
    """Pearson's statistic divided by its degrees of freedom, and how many standard deviations that is above 1."""

    ratio: float
    deviations: float

    @property
    def over(self) -> bool:
        """Whether responses vary more than their distribution allows."""
        return self.ratio > LEAST_RATIO and self.deviations > LEAST_DEVIATIONS


def predicted_rows(posterior: "Posterior", X: Any, y: Any, offset: Any, trials: Any) -> Predicted:
    """New rows beside their predictions; without X, the problem's own rows, each predicted from all others."""
    problem, kept, family = posterior.problem, posterior.kept, posterior.problem.family
    if (X is None) != (y is None):
        raise DataError(
            "give both X and y, or neither: then the problem's own rows are predicted, each from all others"
        )
    if isinstance(family, Gaussian):
        if X is None:
            raise DataError("the problem keeps no copy of the rows of a Gaussian response; give X and y")
        mean = predict(problem, kept, X, None, False).mean
        values, one = np.asarray(y, float).ravel(), np.ones(len(mean))
        density = log_predictive(problem, kept, X, y)
        return Predicted(values, one, one, mean, density, np.full(len(mean), np.nan))
    if X is None:
        fit = problem.fit_data
        assert fit is not None
        left_out = posterior.loo()
        mean, density = left_out["mean"].to_numpy(), left_out["log_density"].to_numpy()
        number = fit.trials if isinstance(family, Logistic) else np.ones(problem.n)
        values, weight = fit.y, fit.weights
    else:
        mean = predict_family(problem, kept, X, offset, None, "mean", None, False).mean
        values, number = read_new_response(family, problem.classes, y, len(mean), trials)
        density, weight = log_predictive_of_family(problem, kept, X, y, offset, trials), np.ones(len(mean))
    return Predicted(values, number, weight, mean, density, family_variance(problem, kept, mean, number))


def family_variance(problem: Problem, kept: KeptModels, mean: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """V of responses with these means (of one trial)."""
    if problem.family.name in ("logistic", "probit"):
        return trials * mean * (1 - mean)
    if isinstance(problem.family, Student):
        s, shares = dispersion_values(problem, kept)
        square = float(kept.weight @ (shares @ s**2) / kept.weight.sum())
        return np.full(len(mean), problem.family.noise_factor * square)
    if not isinstance(problem.family, NegativeBinomial):
        return mean
    r, shares = dispersion_values(problem, kept)
    return mean + mean**2 * float(kept.weight @ (shares @ (1 / r)) / kept.weight.sum())


def score_table(posterior: "Posterior", X: Any, y: Any, offset: Any, trials: Any) -> pd.Series:
    """What ``Posterior.scores`` returns."""
    name = posterior.problem.family.name
    rows = predicted_rows(posterior, X, y, offset, trials)
    w, whole = rows.weight, float(rows.weight.sum())
    scores = {"log_score": float(rows.log_density.sum()) / whole}
    if name in ("logistic", "probit"):
        failures = rows.trials - rows.y
        squares = rows.y * (1 - rows.mean) ** 2 + failures * rows.mean**2
        scores["brier"] = float(w @ squares / (w @ rows.trials))
        scores["auc"] = area_under_curve(rows.mean, w * rows.y, w * failures)
    else:
        scores["rmse"] = float(np.sqrt(w @ (rows.y - rows.mean) ** 2 / whole))
    if name in ("poisson", "negative-binomial"):
        scores["pearson"] = float(w @ ((rows.y - rows.mean) ** 2 / rows.variance) / whole)
    return pd.Series(scores, name="score")


def area_under_curve(mean: np.ndarray, successes: np.ndarray, failures: np.ndarray) -> float:
    """The probability that a success has a larger mean than a failure; NaN if there are none of either. Arrays (n,).

    >>> area_under_curve(np.array([0.1, 0.4, 0.4, 0.9]), np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0]))
    0.875
    """
    place = np.unique(mean, return_inverse=True)[1]
    hit, miss = np.bincount(place, successes), np.bincount(place, failures)
    if not (hit.sum() > 0 and miss.sum() > 0):
        return float("nan")
    below = np.cumsum(miss) - miss / 2
    return float(hit @ below / (hit.sum() * miss.sum()))


def roc_curve(rows: Predicted) -> tuple[np.ndarray, np.ndarray]:
    """Shares of failures and of successes with a mean of at least a threshold, for all thresholds, from 0 to 1."""
    place = np.unique(-rows.mean, return_inverse=True)[1] + 1
    hit = np.bincount(place, rows.weight * rows.y)
    miss = np.bincount(place, rows.weight * (rows.trials - rows.y))
    return np.cumsum(miss) / miss.sum(), np.cumsum(hit) / hit.sum()


def calibration_table(rows: Predicted, bins: int) -> pd.DataFrame:
    """What ``Posterior.calibration`` returns."""
    n = len(rows.mean)
    whole = isinstance(bins, (int, np.integer)) and not isinstance(bins, bool)
    if not (whole and bins >= 1):
        raise DataError(f"bins must be a whole number of at least 1, not {bins!r}")
    order = np.argsort(rows.mean, kind="stable")
    lines = []
    for members in np.array_split(order, min(int(bins), n)):
        w = rows.weight[members]
        number = float(w @ rows.trials[members])
        predicted = float(w @ (rows.trials[members] * rows.mean[members])) / number
        error = ndtri(0.95) * np.sqrt(float(w**2 @ rows.variance[members])) / number
        lines.append(
            {
                "rows": len(members),
                "predicted": predicted,
                "observed": float(w @ rows.y[members]) / number,
                "lower": max(predicted - error, 0.0),
                "upper": predicted + error,
            }
        )
    table = pd.DataFrame(lines, index=pd.RangeIndex(1, len(lines) + 1, name="bin"))
    if (rows.y <= rows.trials).all() and rows.mean.max() <= 1:
        table["upper"] = np.minimum(table["upper"], 1.0)
    return table


def fitted_means(problem: Problem, kept: KeptModels) -> np.ndarray:
    """Expectations of the problem's own responses (of one trial), averaged over models, (n,), if the family is not Gaussian."""
    parts = components(problem, kept, *own_lines(problem, kept))
    step, mean = parts.rows_at_once(), np.zeros(problem.n)
    for first in range(0, problem.n, step):
        rows = slice(first, first + step)
        mean[rows] = moments_of_mean(problem.family, *parts.at(rows))[0] @ parts.weight
    return mean


def pearson_statistic(problem: Problem, kept: KeptModels) -> Pearson | None:
    """Of counts, and of successes among several trials; None for other responses, for which it says nothing, and where there is no more than
    one trial or event in a row."""
    family, fit = problem.family, problem.fit_data
    if fit is None or family.name in ("probit", "student"):
        return None
    if (fit.trials if isinstance(family, Logistic) else fit.y).max() <= 1:
        return None
    order = np.argsort(-kept.weight, kind="stable")
    heavy = order[: 1 + int(np.searchsorted(np.cumsum(kept.weight[order]), ENOUGH_MASS))][:MOST_MODELS]
    some = kept.some(heavy)
    some = KeptModels(some.members, some.start, some.weight / some.weight.sum())
    mean = fitted_means(problem, some)
    trials = fit.trials if isinstance(family, Logistic) else np.ones(problem.n)
    variance = np.maximum(family_variance(problem, some, mean, trials), 1e-300)
    widths = np.diff(problem.offsets)[some.members]
    size = float(np.repeat(some.weight, np.diff(some.start)) @ widths)
    left = max(problem.n - len(fit.flat) - size, 1.0)
    terms = fit.weights * (fit.y - trials * mean) ** 2 / variance
    spread = fit.weights**2 * (2 + 1 / variance)
    if isinstance(family, NegativeBinomial):
        r, shares = dispersion_values(problem, some)
        spread += fit.weights**2 * 6 * float(some.weight @ (shares @ (1 / r)))
    total = float(terms.sum()) * problem.n / float(fit.weights.sum())
    return Pearson(total / left, (total - left) / float(np.sqrt(spread.sum())))


def overdispersion_words(problem: Problem, pearson: Pearson | None) -> list[str]:
    """What to say of responses that vary more than their distribution allows; empty if they do not."""
    if pearson is None or not pearson.over:
        return []
    family, many = problem.family, f"{pearson.ratio:.1f} times"
    if family.name == "poisson":
        return [
            f"the counts vary {many} as much as a Poisson distribution allows (Pearson's statistic over its degrees of freedom), so that "
            'variables seem more certain than they are; use family="negative-binomial"'
        ]
    if isinstance(family, Logistic):
        return [
            f"the numbers of successes vary {many} as much as a binomial distribution allows (Pearson's statistic over its degrees of "
            "freedom), so that variables seem more certain than they are; trials of a row may depend on one another, or a variable "
            "is missing. Weights of about "
            f"{1 / pearson.ratio:.2g} for all rows would allow for it"
        ]
    unknown = getattr(family, "dispersion", None) is None
    other = (
        "and for a variable that is missing"
        if unknown
        else "or leave the dispersion unknown, NegativeBinomial()"
    )
    return [
        f"the counts vary {many} as much as this negative binomial distribution allows (Pearson's statistic over its degrees of freedom); "
        f"look for outlying rows, {other}"
    ]
