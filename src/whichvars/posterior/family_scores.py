r"""Log predictive densities of responses that are not Gaussian: of new rows, and leave-one-out of the rows of the problem.

**Leave-one-out.** In model γ the posterior of a row's linear predictor is N(m, v). Its likelihood is divided out of it: with the
row's score s = w ℓ'(m) and curvature W = −w ℓ''(m), to second order

.. math:: \eta_i \mid y_{-i}, \gamma \sim N\Big(m - \frac{v\,s}{1 - h},\; \frac{v}{1 - h}\Big), \qquad h = v\,W,

the leverage. The density of y_i under it, p(y_i | y₋ᵢ, γ), is an integral in one dimension (``family_density.py``), and the models'
own probabilities change by Bayes' rule, p(γ | y₋ᵢ) ∝ p(γ | y)/p(y_i | y₋ᵢ, γ), as for Gaussian responses (``scores.py``).

**Where a row matters much** this is not accurate. Pareto's k says where: the shape of the tail of the importance ratios
1/p(y_i | η) over draws from the posterior (Vehtari, Simpson, Gelman, Yao & Gabry 2024), above .7 if the posterior with the row says
little of the posterior without it. Rows with a k above .5, and those without which less than a tenth of the models' weights is left, are
left out indeed: all models are fitted again without them, and their marginal likelihoods computed.

At most 2,000 models are averaged over, and 200 fitted again: half of them the heaviest, the others a systematic sample of the
lighter ones that stands for all of these.

**Probability integral transforms.** P(y* < y_i) and P(y* ≤ y_i) of a new response y* given the other rows are averaged over models in the same
way, each by a Gauss–Hermite rule over η. The transform of a count is drawn uniformly between the two, so that it is uniform if the model is right
(Czado, Gneiting & Held 2009, Biometrics 65, 1254–1261).

If the dispersion of counts or the scale of a Student response is unknown, all of this is averaged over its posterior in each model, as if it were independent of η.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from whichvars.data.rows import check_same_rows
from whichvars.errors import ConvergenceWarning, DataError
from whichvars.posterior.dispersion import dispersion_values
from whichvars.posterior.family_density import (
    log_likelihood,
    log_predictive_density,
    observed,
    probabilities_below,
    score_and_curvature,
)
from whichvars.posterior.family_prediction import moments_of_mean, read_offset
from whichvars.posterior.fits import Fits, Functionals, Refits, along, functionals, held_fits, own_lines
from whichvars.posterior.marginals import log_marginals
from whichvars.posterior.models import KeptModels
from whichvars.posterior.prediction import read_new
from whichvars.posterior.t_mixture import heaviest
from whichvars.problem.families import Gaussian, Student
from whichvars.problem.problem import Problem
from whichvars.problem.responses import read_new_response

# bytes of what is computed together
SCORE_BYTES = 16 << 20
# Pareto's k above which, and the effective share of the models' weights below which a row is left out by fitting again; k above which
# results without this are called rough; and the draws from which k is estimated
DOUBTFUL_K, BAD_SHARE, BAD_K, K_DRAWS = 0.5, 0.1, 0.7, 2000
# most models that rows are left out of, and that are fitted again without a row; and most fits in all
MOST_MODELS, MOST_AGAIN, MOST_FITS = 2000, 200, 10_000
# share of the components that the probabilities of smaller responses leave out; and their columns while a table is made
MOST_LEFT_OUT, BELOW = 1e-3, ["below", "up_to"]
# largest leverage of a row, and largest change of η without it, of a Student response in units of its scale
MOST_LEVERAGE, FURTHEST = 1 - 1e-6, 20.0


class Components(NamedTuple):
    """The posteriors of η in all models: a function of rows, and the weights of the models."""

    batches: "list[Fits] | Refits"
    lines: Functionals
    offset: np.ndarray  # (n,)
    weight: np.ndarray  # (C,)
    models: np.ndarray  # (C,) places in `kept`

    def at(self, rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of η, (rows, C)."""
        parts = [along(fit, self.lines.some(rows)) for fit in self.batches]
        m = np.concatenate([b for b, _ in parts], axis=1) + self.offset[rows, None]
        return m, np.maximum(np.concatenate([v for _, v in parts], axis=1), 0.0)

    def rows_at_once(self) -> int:
        widest = max((fit.columns.size for fit in self.batches), default=1)
        return max(1, SCORE_BYTES // (8 * max(len(self.weight), widest, 1)))


def components(problem: Problem, kept: KeptModels, lines: Functionals, offset: np.ndarray) -> Components:
    """The posteriors of the linear predictors `lines` in all kept models."""
    batches = held_fits(problem, kept)
    weight, models = (
        np.concatenate([getattr(fit, name) for fit in batches]) for name in ("weight", "models")
    )
    return Components(batches, lines, offset, weight, models)


def new_lines(problem: Problem, kept: KeptModels, X: Any, offset: Any) -> tuple[Functionals, np.ndarray]:
    """The linear predictors of new rows, and their offsets, (n,)."""
    z, x, columns = read_new(problem, kept, X)
    return functionals(problem, np.ones(len(x)), z, x, columns), read_offset(problem, offset, len(x))


def log_predictive_of_family(
    problem: Problem, kept: KeptModels, X: Any, y: Any, offset: Any, trials: Any
) -> np.ndarray:
    """Log density of each new response under the averaged model, (rows,)."""
    family = problem.family
    assert not isinstance(family, Gaussian)
    lines, known = new_lines(problem, kept, X, offset)
    n = len(lines.row)
    check_same_rows(n, X, y=y)
    counts, number = read_new_response(family, problem.classes, y, n, trials)
    parts = components(problem, kept, lines, known)
    r, shares = dispersion_values(problem, kept)
    with np.errstate(divide="ignore"):
        log_share = np.log(parts.weight[:, None] * shares[parts.models])
    heavy = heaviest(parts.weight)
    step, out = parts.rows_at_once(), np.full(n, -np.inf)
    for first in range(0, n, step):
        rows = slice(first, first + step)
        m, v = (value[:, heavy] for value in parts.at(rows))
        for place, value in enumerate(r):
            data = observed(family, counts[rows], number[rows], value)
            log = log_predictive_density(data, m, v) + log_share[heavy, place]
            out[rows] = np.logaddexp(out[rows], logsumexp(log, axis=1))
    return out


def leave_one_out_of_family(problem: Problem, kept: KeptModels) -> pd.DataFrame:
    """What ``Posterior.loo`` returns; one row for each row of positive weight, numbered from 0."""
    family, fit = problem.family, problem.fit_data
    assert not isinstance(family, Gaussian)
    assert fit is not None
    kept = represented(kept, MOST_MODELS)
    parts = components(problem, kept, *own_lines(problem, kept))
    r, shares = dispersion_values(problem, kept)
    own, n = shares[parts.models], problem.n
    rng = np.random.Generator(np.random.PCG64DXSM(0))
    picked = rng.choice(len(parts.weight), K_DRAWS, p=parts.weight / parts.weight.sum())
    value_of = np.minimum((np.cumsum(own[picked], axis=1) < rng.random((K_DRAWS, 1))).sum(axis=1), len(r) - 1)
    normal = rng.standard_normal(K_DRAWS)
    trials = fit.trials if family.name == "logistic" else np.ones(n)
    heavy = np.flatnonzero(parts.weight > 0)
    # Σ a/p, Σ a/p·mean and Σ a/p², a being shares, relative to a running maximum of a/p; then Σ a/p, Σ a/p·P(y* < y) and Σ a/p·P(y* ≤ y)
    # over components that have nearly all of the shares
    top, total, k = np.full(n, -np.inf), np.zeros((6, n)), np.zeros(n)
    weighty = _heaviest_shares(parts.weight[heavy, None] * own[heavy])
    step = max(1, min(parts.rows_at_once(), SCORE_BYTES // (8 * K_DRAWS)))
    for first in range(0, n, step):
        rows = slice(first, first + step)
        m, v = parts.at(rows)
        ratios = np.zeros((len(m), K_DRAWS))
        for place, value in enumerate(r):
            data = observed(family, fit.y[rows], trials[rows], value, fit.weights[rows])
            some = value_of == place
            at = picked[some]
            ratios[:, some] = -log_likelihood(data, m[:, at] + np.sqrt(v[:, at]) * normal[some])
            score, curvature = score_and_curvature(data, m[:, heavy])
            left = 1 - np.minimum(v[:, heavy] * curvature, MOST_LEVERAGE)
            without = v[:, heavy] / left
            furthest = FURTHEST * (value if isinstance(family, Student) else 1.0)
            centre = m[:, heavy] - np.clip(without * score, -furthest, furthest)
            with np.errstate(divide="ignore"):
                share = parts.weight[heavy] * own[heavy, place]
                log_ratio = np.log(share) - log_predictive_density(data, centre, without)
            new_top = np.maximum(top[rows], log_ratio.max(axis=1))
            total[:, rows] *= np.exp(top[rows] - new_top)
            total[2, rows] *= np.exp(top[rows] - new_top)
            top[rows] = new_top
            ratio = np.exp(log_ratio - new_top[:, None])
            total[0, rows] += ratio.sum(axis=1)
            mean = moments_of_mean(family, centre, without)[0]
            # a component without weight may have an infinite mean
            total[1, rows] += (ratio * np.where(ratio > 0, mean, 0.0)).sum(axis=1)
            total[2, rows] += (ratio**2 / np.maximum(share, 1e-290)).sum(axis=1)
            few = np.flatnonzero(weighty[:, place])
            if len(few) and not _two_values(family):
                both = probabilities_below(
                    family, data.y, trials[rows], value, centre[:, few], without[:, few]
                )
                total[3, rows] += ratio[:, few].sum(axis=1)
                for number, probability in enumerate(both):
                    total[4 + number, rows] += (ratio[:, few] * probability).sum(axis=1)
        k[rows] = _pareto_k(ratios)
    table = pd.DataFrame(
        {
            "log_density": -top - np.log(total[0]),
            "mean": total[1] / total[0],
            "share": total[0] ** 2 / total[2],
            "pareto_k": k,
            "refitted": np.zeros(n, bool),
        },
        index=pd.RangeIndex(n, name="row"),
    )
    with np.errstate(invalid="ignore"):
        table[BELOW] = total[4:].T / total[3][:, None]
    table = _with_refits(problem, kept, table, trials)
    if _two_values(family):
        table[BELOW] = np.column_stack(
            [np.where(fit.y > 0, 1 - table["mean"], 0), np.where(fit.y > 0, 1, 1 - table["mean"])]
        )
    # between the two, at random with a seed of its own
    low, high = (table.pop(name) for name in BELOW)
    table["pit"] = low + np.random.default_rng([0, 1]).random(n) * (high - low)
    return table


def _two_values(family: Any) -> bool:
    """Whether a response is 0 or 1, so that its mean says all of its distribution."""
    return family.name == "probit" or (family.name == "logistic" and family.trials is None)


def _heaviest_shares(share: np.ndarray) -> np.ndarray:
    """Which of the components, (C, L), have all but MOST_LEFT_OUT of the shares together."""
    order = np.argsort(share, axis=None)
    light = np.cumsum(share.ravel()[order]) < MOST_LEFT_OUT * share.sum()
    heavy = np.ones(share.size, bool)
    heavy[order[light]] = False
    return heavy.reshape(share.shape)


def represented(kept: KeptModels, most: int) -> KeptModels:
    """At most so many models that stand for all: the heaviest half of them with their own weights, and a systematic sample of the
    others, by weight, that shares the rest. The heaviest alone would be too much alike."""
    order = np.argsort(-kept.weight, kind="stable")
    if len(order) <= most:
        return KeptModels(kept.members, kept.start, kept.weight / kept.weight.sum())
    first, others = order[: most // 2], order[most // 2 :]
    up_to = np.cumsum(kept.weight[others])
    size = most - len(first)
    drawn, times = np.unique(
        np.searchsorted(up_to, (np.arange(size) + 0.5) / size * up_to[-1]), return_counts=True
    )
    some = kept.some(np.concatenate([first, others[drawn]]))
    weight = np.concatenate([kept.weight[first], times * (up_to[-1] / size)])
    return KeptModels(some.members, some.start, weight / weight.sum())


def _pareto_k(log_ratios: np.ndarray) -> np.ndarray:
    """Shape of the tail of importance ratios, (rows, draws) → (rows,); −∞ if they are all the same."""
    from arviz_stats.base import array_stats  # takes a third of a second to import

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # its advice is on other objects; it takes log likelihoods
        k = np.asarray(array_stats.psislw(-log_ratios, axis=-1)[1], float)
    return np.where(np.ptp(log_ratios, axis=1) > 0, np.nan_to_num(k, nan=np.inf), -np.inf)


def _with_refits(problem: Problem, kept: KeptModels, table: pd.DataFrame, trials: np.ndarray) -> pd.DataFrame:
    """The table, in which rows that matter much were left out by fitting again."""
    bad = np.flatnonzero((table["pareto_k"] > DOUBTFUL_K) | (table["share"] < BAD_SHARE))
    if not len(bad):
        return table
    bad = bad[np.argsort(-table["pareto_k"].to_numpy()[bad], kind="stable")]
    some = represented(kept, MOST_AGAIN)
    before, done = log_marginals(problem, some), []
    for i in bad[: MOST_FITS // len(some)].tolist():
        try:
            names = ["log_density", "mean", "share", *BELOW]
            table.loc[table.index[i], names] = _refit(problem, some, before, trials, i)
        except DataError:  # without the row, a model has no finite estimates under BIC
            continue
        table.loc[table.index[i], "refitted"] = True
        done.append(i)
    rest = np.setdiff1d(bad, done)
    rest = rest[(table["pareto_k"].iloc[rest] > BAD_K) | (table["share"].iloc[rest] < BAD_SHARE)]
    if len(rest):
        rows = ", ".join(str(i) for i in rest[:5].tolist()) + ", …" * (len(rest) > 5)
        warnings.warn(
            f"leaving out {len(rest)} of {problem.n} rows changes the posterior so much that their results are rough (pareto_k above "
            f"{BAD_K} or share below {BAD_SHARE}, rows {rows}); fit the model without each of them, or keep rows for validation and use log_score",
            ConvergenceWarning,
            stacklevel=4,
        )
    return table


def _refit(problem: Problem, kept: KeptModels, before: np.ndarray, trials: np.ndarray, i: int) -> list[float]:
    """log density, mean, share, P(y* < y) and P(y* ≤ y) of a row, from fits of all models without it."""
    family, fit = problem.family, problem.fit_data
    assert fit is not None
    without = problem.without_row(i)
    change = log_marginals(without, kept) - before
    log_weight = np.log(kept.weight) + change
    weight = np.exp(log_weight - logsumexp(log_weight))
    lines, offset = own_lines(problem, kept)
    parts = components(without, kept, lines, offset)
    m, v = parts.at(np.array([i]))
    r, shares = dispersion_values(without, KeptModels(kept.members, kept.start, weight))
    log, below, mean = -np.inf, np.zeros(2), float(weight[parts.models] @ moments_of_mean(family, m, v)[0][0])
    for place, value in enumerate(r):
        data = observed(family, fit.y[[i]], trials[[i]], value, fit.weights[[i]])
        with np.errstate(divide="ignore"):
            share = np.log(weight[parts.models] * shares[parts.models, place])
        log = np.logaddexp(log, logsumexp(log_predictive_density(data, m, v)[0] + share))
        both = probabilities_below(family, data.y, trials[[i]], value, m, v)
        below += [float(np.exp(share) @ probability[0]) for probability in both]
    left = 1 / float((weight**2 / np.maximum(kept.weight / kept.weight.sum(), 1e-290)).sum())
    return [float(log), mean, left, *below.tolist()]


def check_own_rows(problem: Problem, kept: KeptModels, X: Any, y: Any, weights: Any) -> pd.Index:
    """DataError unless these are the data that the problem was made with; the labels of the rows of positive weight."""
    family, fit = problem.family, problem.fit_data
    assert fit is not None
    assert not isinstance(family, Gaussian)
    z, x, columns = read_new(problem, kept, X)
    check_same_rows(len(x), X, y=y, weights=weights)
    w = np.ones(len(x)) if weights is None else np.asarray(weights, float)
    used = w > 0
    trials = getattr(family, "trials", None)
    counts = read_new_response(family, problem.classes, y, len(x), trials)[0][used]
    given = functionals(problem, np.ones(int(used.sum())), z[used], x[used], columns)
    own = own_lines(problem, kept)[0]
    same = len(counts) == problem.n and bool((counts == fit.y).all()) and np.allclose(w[used], fit.weights)
    if not (same and np.allclose(given.row, own.row, rtol=0, atol=1e-6)):
        raise DataError(
            f"X, y and weights are not those the problem was made with ({problem.n} rows of positive weight); leaving one out needs "
            "the same data, or none: loo() takes the problem's own rows. For new data use log_score"
        )
    index = X.index if isinstance(X, (pd.DataFrame, pd.Series)) else pd.RangeIndex(len(used), name="row")
    return index[used]
