r"""Predictions for responses that are not Gaussian.

In model γ the linear predictor η of a new row is taken as normal, N(m, v), by the normal approximation of the coefficients
(``fits.py``). So η averaged over models is a mixture of normal distributions, whose quantiles are computed exactly. The mean
μ = g⁻¹(η) of a new response has expectation Σ_γ w_γ E[g⁻¹(N(m, v))], which is closed for probit and for rates,

.. math:: E\,\Phi(\eta) = \Phi\big(m/\sqrt{1 + v}\big), \qquad E\,e^\eta = e^{m + v/2},

and computed by the trapezoid rule for logistic regression; of a Student response μ is η itself. Ends of intervals of μ are those of η, transformed. Intervals of a new
response y are between quantiles of its own distribution, Σ_γ w_γ ∫ P(y ≤ k | η) N(η; m, v) dη, which are whole numbers, except of a Student
response; its variance is E[V(μ)] + Var[μ], V the variance of the family.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

from whichvars.data.frames import read_vector
from whichvars.errors import DataError
from whichvars.posterior.coefficients import INTERCEPT
from whichvars.posterior.dispersion import dispersion_values
from whichvars.posterior.family_density import PER_SCALE, eta_grid, response_quantile
from whichvars.posterior.fits import along, fits, functionals, held_fits
from whichvars.posterior.models import KeptModels
from whichvars.posterior.prediction import ROWS_BYTES, Prediction, draw_models, read_new
from whichvars.posterior.t_mixture import TMixture, heaviest
from whichvars.problem.families import Family, Gaussian, Student
from whichvars.problem.problem import Problem
from whichvars.problem.responses import read_new_trials

# The trapezoid rule in units of the standard deviation √v: with the step h its error is below exp(−20/(h √v)), that of the Gauss–Hermite
# rule with as many nodes far larger if √v is large. The step is at least FINEST, and at most five times that.
FINEST, FURTHEST = 0.1, 8.5
DISPERSION, SCALE = "(dispersion)", "(scale)"


def inverse_link(family: Family) -> Callable[[np.ndarray], np.ndarray]:
    """From the linear predictor to the mean of a response: a probability (of one trial), a rate, or the linear predictor itself."""
    return {"logistic": expit, "probit": ndtr, "student": np.positive}.get(family.name, np.exp)


def moments_of_mean(family: Family, m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[μ] and E[μ²] where η ~ N(m, v); same shapes."""
    if isinstance(family, Student):
        return m, v + m**2
    if family.name in ("poisson", "negative-binomial"):
        with np.errstate(over="ignore"):
            return np.exp(m + v / 2), np.exp(2 * m + 2 * v)
    step = FINEST * max(1.0, min(5.0, 5.0 / float(np.sqrt(v.max(initial=0.0)) + 1e-300)))
    node = np.linspace(-FURTHEST, FURTHEST, 1 + 2 * int(np.ceil(FURTHEST / step)))
    weight, link = np.exp(-(node**2) / 2), inverse_link(family)
    weight /= weight.sum()
    root, first, second = np.sqrt(v), np.zeros_like(m), np.zeros_like(m)
    for x, w in zip(node, weight):
        mean = link(m + root * x)
        first += w * mean
        second += w * mean**2
    return (ndtr(m / np.sqrt(1 + v)) if family.name == "probit" else first), second


def predict_family(
    problem: Problem,
    kept: KeptModels,
    X: Any,
    offset: Any,
    trials: Any,
    kind: str,
    interval: float | None,
    errors: bool,
    exact: bool = False,
) -> Prediction:
    """Mean, standard deviation and interval of μ ("mean"), of η ("link") or of y ("response") of new rows, under a weighted set of models."""
    family = problem.family
    assert not isinstance(family, Gaussian)
    if kind != "response":
        refuse_trials_of_mean(trials, kind)
    z, x, columns = read_new(problem, kept, X)
    n = len(x)
    known = read_offset(problem, offset, n)
    number = read_new_trials(family, trials, n) if kind == "response" else np.ones(n)
    lines = functionals(problem, np.ones(n), z, x, columns)
    batches = held_fits(problem, kept)
    weight = np.concatenate([fit.weight for fit in batches])
    models = np.concatenate([fit.models for fit in batches])
    r, shares = (
        dispersion_values(problem, kept)
        if kind == "response"
        else (np.full(1, np.inf), np.ones((len(kept), 1)))
    )
    shares = weight[:, None] * shares[models]
    others = kept.other_weights[:, models] if errors else np.zeros((0, len(models)))
    mean, std, ends, mcse = np.zeros(n), np.zeros(n), np.zeros((n, 2)), np.full(n, np.nan)
    step = max(1, ROWS_BYTES // (8 * 4 * max(len(weight), max(fit.columns.size for fit in batches), 1)))
    for first in range(0, n, step):
        part = slice(first, first + step)
        parts = [along(fit, lines.some(part)) for fit in batches]
        m = np.concatenate([b for b, _ in parts], axis=1) + known[part, None]
        v = np.maximum(np.concatenate([v for _, v in parts], axis=1), 0.0)
        same = kind == "link" or isinstance(family, Student)
        centre, square = (m, v + m**2) if same else moments_of_mean(family, m, v)
        spread = v if same else np.maximum(square - centre**2, 0.0)
        if kind == "response" and isinstance(family, Student):
            spread = spread + family.noise_factor * (shares @ r**2) / np.maximum(weight, 1e-300)
        elif kind == "response":
            t = number[part, None]
            own = t * (centre - square) if family.name in ("logistic", "probit") else centre
            with np.errstate(divide="ignore", invalid="ignore"):
                own = own + square * (shares @ (1 / r) / weight)
            centre, spread = t * centre, np.nan_to_num(own) + t**2 * spread
        mean[part] = centre @ weight
        std[part] = np.sqrt((spread + (centre - mean[part, None]) ** 2) @ weight)
        if errors:
            mcse[part] = kept.error_of(others @ centre.T, exact)
        if interval is not None:
            heavy = heaviest(weight)
            share, degrees = weight[heavy] / weight[heavy].sum(), np.full(len(heavy), np.inf)
            levels = (1 - interval) / 2, (1 + interval) / 2
            for row in range(len(m)):
                if kind == "response":
                    apart = float(r.min()) / PER_SCALE if isinstance(family, Student) else None
                    own = shares[heavy] / shares[heavy].sum()
                    grid = eta_grid(own, m[row, heavy], v[row, heavy], apart)
                    count = number[first + row]
                    ends[first + row] = [response_quantile(family, count, *grid, r, p) for p in levels]
                else:
                    mixture = TMixture(share, m[row, heavy], np.sqrt(v[row, heavy]), degrees)
                    ends[first + row] = [mixture.quantile(p) for p in levels]
    if kind == "mean":
        with np.errstate(over="ignore"):
            ends = inverse_link(family)(ends)
    return Prediction(mean, std, None if interval is None else ends, mcse if errors else None)


def refuse_trials_of_mean(trials: Any, kind: str) -> None:
    """DataError if there are trials, of which a probability or a linear predictor has none."""
    if trials is not None:
        raise DataError(
            f'trials is for kind="response", not kind={kind!r}, which is about one trial; leave it out'
        )


def read_offset(problem: Problem, offset: Any, n: int) -> np.ndarray:
    """The offset of new rows, (n,)."""
    assert problem.fit_data is not None
    if offset is not None:
        return read_vector(np.full(n, offset) if np.ndim(offset) == 0 else offset, n, "offset")
    if len(problem.fit_data.given):
        raise DataError(
            "the problem was made with an offset, so that predictions need offset= too: one number for each row of X, or 0 for "
            "a rate per unit of exposure"
        )
    return np.zeros(n)


def draw_of_family(problem: Problem, kept: KeptModels, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """What ``Posterior.draw`` returns if the family is not Gaussian."""
    flat, P, fit_data = problem.flat, len(problem.columns_used), problem.fit_data
    assert fit_data is not None
    some, times = draw_models(problem, kept, n, rng)
    r, shares = dispersion_values(problem, some)
    beta, parts, dispersion, done = np.zeros((n, P)), np.zeros((n, len(fit_data.flat))), np.zeros(n), 0
    for fit in fits(problem, some):
        assert fit.flat_b is not None
        assert fit.flat_V is not None
        assert fit.flat_cross is not None
        turned = fit.flat_cross.transpose(0, 2, 1)
        values, vectors = np.linalg.eigh(np.block([[fit.flat_V, fit.flat_cross], [turned, fit.V]]))
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]  # variances are 0 where ĝ is
        q = fit.flat_b.shape[1]
        for i, model in enumerate(fit.models.tolist()):
            rows = slice(done, done + times[model])
            theta = rng.standard_normal((times[model], len(roots[i]))) @ roots[i].T
            parts[rows] = fit.flat_b[i] + theta[:, :q]
            beta[rows, fit.columns[i]] = fit.b[i] + theta[:, q:]
            dispersion[rows] = rng.choice(r, size=times[model], p=shares[model])
            done += times[model]
    beta /= problem.column_units
    level, *delta = fit_data.coordinates @ parts.T
    slopes = np.reshape(delta, (-1, n)).T - beta @ flat.x_on_z.T
    intercept = level - beta @ flat.x_mean - slopes @ flat.z_mean
    names = [INTERCEPT, *(problem.all_columns[i] for i in flat.z_index), *problem.columns_used]
    table = pd.DataFrame(np.column_stack([intercept, slopes, beta]), columns=names)
    if len(r) > 1:
        table[SCALE if isinstance(problem.family, Student) else DISPERSION] = dispersion
    return table.iloc[rng.permutation(n)].set_axis(pd.RangeIndex(n, name="draw"))
