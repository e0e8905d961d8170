r"""How well the averaged model predicts: log predictive densities of new rows, and of the rows seen, each left out.

**Leave-one-out.** In model γ at given g (the module ``coefficients`` has b, V, q, t, s and the degrees of freedom d)
let f be a row of the flat and the candidate columns, A the posterior precision of all their coefficients where σ² = 1,
w_i the row's weight, e_i its residual from the posterior mean and h_i = w_i fᵀA⁻¹f its leverage. Without row i, by the
Sherman-Morrison formula,

.. math:: y_i \mid y_{-i}, \gamma, g \sim t_{d-1}\Big(y_i - \frac{e_i}{1 - h_i},\;
          \frac{s_{-i}}{w_i (1 - h_i)}\Big), \qquad
          s_{-i} = \frac{d\,s - w_i e_i^2/(1 - h_i)}{d - 1},

and the models' own probabilities change by Bayes' rule, p(γ, g | y₋ᵢ) ∝ p(γ, g | y) / p(y_i | y₋ᵢ, γ, g), so that

.. math:: p(y_i \mid y_{-i}) = \Big[\sum_{\gamma, g} \frac{p(\gamma, g \mid y)}{p(y_i \mid y_{-i}, \gamma, g)}\Big]^{-1}.

Nothing is fitted again and nothing is approximated, but for what a sample of models leaves open. The priors are those
of the whole data: the scale of the columns, XᵀX in the g-prior and n stay as they are. BIC and local empirical Bayes
have no likelihood of their own for one row; the same formulas are applied to their least squares and their ĝ.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import gammaln, logsumexp

from whichvars.coefficients import Functionals, KeptModels, along, fits, functionals
from whichvars.errors import DataError
from whichvars.inputs import read_vector
from whichvars.prediction import read_new
from whichvars.problem import Problem
from whichvars.rows import check_same_rows
from whichvars.t_mixture import t_cdf

SCORE_BYTES = 32 << 20  # of what is worked out together
LEAST_LEFT = 1e-12  # of 1 − h_i and of s: below, a model fits a row by itself


def log_t(z: np.ndarray, scale: np.ndarray, degrees: float) -> np.ndarray:
    """Log density of location + scale·t at a point z scales away."""
    constant = gammaln((degrees + 1) / 2) - gammaln(degrees / 2) - 0.5 * np.log(degrees * np.pi)
    return constant - np.log(scale) - (degrees + 1) / 2 * np.log1p(z**2 / degrees)


def _batches(problem: Problem, kept: KeptModels, lines: Functionals) -> Iterator[tuple[slice, Any, Any, Any]]:
    """Models and rows, so many at a time that (rows, models, g) stays small: rows, fit, rowᵀb, rowᵀV row."""
    for fit in fits(problem, kept):
        step = max(1, SCORE_BYTES // (8 * max(fit.q.size, 2 * fit.columns.size, 1)))
        for first in range(0, len(lines.centre), step):
            part = slice(first, first + step)
            yield part, fit, *along(fit, lines.some(part))


def log_predictive(problem: Problem, kept: KeptModels, X: Any, y: Any) -> np.ndarray:
    """Log density of each new observation under the averaged model, (rows,)."""
    z, x, columns = read_new(problem, kept, X)
    check_same_rows(len(x), X, y=y)
    y = read_vector(y, len(x), "y")
    lines = functionals(problem, np.ones(len(x)), z, x, columns)
    out, unit = np.full(len(y), -np.inf), problem._y_scale
    for part, fit, b, v in _batches(problem, kept, lines):
        away = (y - lines.centre)[part][:, None, None] - unit * fit.q * b[:, :, None]
        inner = 1 + lines.variance[part][:, None, None] + fit.t * v[:, :, None]
        scale = unit * np.sqrt(fit.s * inner)
        with np.errstate(divide="ignore"):
            log_weight = np.log(fit.weight[:, None] * fit.node_weight)
        terms = log_weight + log_t(away / scale, scale, fit.degrees)
        out[part] = np.logaddexp(out[part], logsumexp(terms, axis=(1, 2)))
    return out


def leave_one_out(problem: Problem, kept: KeptModels, X: Any, y: Any, weights: Any) -> pd.DataFrame:
    """What ``Posterior.loo`` returns."""
    z, x, columns = read_new(problem, kept, X)
    check_same_rows(len(x), X, y=y, weights=weights)
    y = read_vector(y, len(x), "y")
    w = np.ones(len(x)) if weights is None else read_vector(weights, len(x), "weights")
    used = w > 0
    z, x, y, w = z[used], x[used], y[used], w[used]
    lines = functionals(problem, np.ones(len(x)), z, x, columns)
    residual = (y - lines.centre) / problem._y_scale  # of the flat part alone, in the problem's units
    _check_same(problem, residual * np.sqrt(w))
    # log Σ w/p, Σ w/p·location, Σ w/p·cdf and Σ w/p², all relative to a running maximum of w/p
    top, total = np.full(len(y), -np.inf), np.zeros((4, len(y)))
    for part, fit, b, v in _batches(problem, kept, lines):
        if not fit.weight.any():  # no maximum to be relative to
            continue
        e = residual[part][:, None, None] - fit.q * b[:, :, None]
        heavy = w[part][:, None, None]
        left = np.maximum(
            1 - heavy * (lines.variance[part][:, None, None] + fit.t * v[:, :, None]), LEAST_LEFT
        )
        degrees = fit.degrees - 1
        s = (fit.degrees * fit.s - heavy * e**2 / left) / degrees
        scale = np.sqrt(np.maximum(s, LEAST_LEFT * fit.s) / (heavy * left))
        away = e / left / scale
        log_p = log_t(away, scale, degrees)
        share = fit.weight[:, None] * fit.node_weight
        with np.errstate(divide="ignore"):
            ratio = np.log(share) - log_p
        new_top = np.maximum(top[part], ratio.max(axis=(1, 2)))
        total[:, part] *= np.exp(top[part] - new_top)
        total[3, part] *= np.exp(top[part] - new_top)
        top[part] = new_top
        ratio = np.exp(ratio - new_top[:, None, None])
        cdf = t_cdf(degrees, away.ravel()).reshape(away.shape)
        parts = (np.ones_like(ratio), residual[part][:, None, None] - e / left, cdf)
        total[:3, part] += [np.sum(ratio * value, axis=(1, 2)) for value in parts]
        with np.errstate(divide="ignore", invalid="ignore"):
            square = np.where(share > 0, ratio**2 / share, 0.0)
        total[3, part] += square.sum(axis=(1, 2))
    unit = problem._y_scale
    return pd.DataFrame(
        {
            "log_density": -top - np.log(total[0]) - np.log(unit),
            "mean": lines.centre + unit * total[1] / total[0],
            "pit": total[2] / total[0],
            "share": total[0] ** 2 / total[3],
        },
        index=_row_labels(X, used),
    )


def _row_labels(X: Any, used: np.ndarray) -> pd.Index:
    index = X.index if isinstance(X, (pd.DataFrame, pd.Series)) else pd.RangeIndex(len(used), name="row")
    return index[used]


def _check_same(problem: Problem, residual: np.ndarray) -> None:
    """DataError unless y less its flat part is that of the problem."""
    if len(problem._y) == 0:
        raise DataError(
            "the problem was made from sufficient statistics and has no rows to leave out; make it from X and y for that. "
            "For new data use log_score"
        )
    same = len(residual) == problem.n and np.abs(residual - problem._y).max() < 1e-6
    if not same:
        raise DataError(
            f"X, y and weights are not those the problem was made with ({problem.n} rows of positive weight); "
            "leaving one out needs the same data. For new data use log_score"
        )
