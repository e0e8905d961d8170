r"""Log predictive densities of the averaged model: of new rows, and leave-one-out of the rows of the problem.

**Leave-one-out.** In model γ at given g (the module ``coefficients`` has b, V, q, t, s and the degrees of freedom d)
let f be a row of the flat and the candidate columns, A the posterior precision of all their coefficients where σ² = 1,
w_i the row's weight, e_i its residual from the posterior mean and h_i = w_i fᵀA⁻¹f its leverage. Without row i, by the
Sherman-Morrison formula,

.. math:: y_i \mid y_{-i}, \gamma, g \sim t_{d-1}\Big(y_i - \frac{e_i}{1 - h_i},\;
          \frac{s_{-i}}{w_i (1 - h_i)}\Big), \qquad
          s_{-i} = \frac{d\,s - w_i e_i^2/(1 - h_i)}{d - 1},

or, where σ² is known, normal with the same location and the variance s/(w_i (1 − h_i)). The models' own probabilities
change by Bayes' rule, p(γ, g | y₋ᵢ) ∝ p(γ, g | y) / p(y_i | y₋ᵢ, γ, g), so that

.. math:: p(y_i \mid y_{-i}) = \Big[\sum_{\gamma, g} \frac{p(\gamma, g \mid y)}{p(y_i \mid y_{-i}, \gamma, g)}\Big]^{-1}.

Non-local slabs are in ``moment_scores.py``. Under the others nothing is fitted again, and there is no approximation other than the sampling of models. The priors are those of the whole
data: the scale of the columns, XᵀX in the g-prior and n do not change. BIC and local empirical Bayes have no predictive
density of their own for one row; the same formulas are applied to least squares and to ĝ.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr

from whichvars.data.frames import read_vector
from whichvars.data.rows import check_same_rows
from whichvars.errors import DataError
from whichvars.posterior.fits import Functionals, along, fits, functionals
from whichvars.posterior.models import KeptModels
from whichvars.posterior.moment_scores import leave_one_out_of_moments
from whichvars.posterior.prediction import read_new
from whichvars.posterior.t_mixture import log_t_constant, t_cdf_by_share
from whichvars.problem.moment_priors import MomentPrior
from whichvars.problem.problem import Problem

# bytes of what is computed together
SCORE_BYTES = 32 << 20
# rows, and rows × models × values of g, that are processed together to stay in the processor's cache
ROWS, CELLS = 128, 1 << 15
# least value of 1 − h_i and of s; below, the fit of a row depends on that row alone
LEAST_LEFT = 1e-12
# see `fits`; larger than the default, as an outlying row can give much weight to models of small weight
LEAST_DROP = 19.0


class Piece(NamedTuple):
    """C pairs of a model and a value of g, all with the same degrees of freedom, and R rows."""

    rows: slice
    b: np.ndarray  # (R, C) rowᵀb
    v: np.ndarray  # (R, C) rowᵀV row
    share: np.ndarray  # (C,) weight, of both; positive
    q: np.ndarray  # (C,), as t and s
    t: np.ndarray
    s: np.ndarray
    degrees: float


def _pieces(
    problem: Problem, kept: KeptModels, lines: Functionals, weights: np.ndarray | None = None
) -> Iterator[Piece]:
    """All models and rows, in pieces. If there are weights, b is multiplied by the square root of a row's weight, and v by
    the weight."""
    for fit in fits(problem, kept, least_drop=LEAST_DROP):
        models, nodes = np.flatnonzero(fit.weight > 0), fit.q.shape[1]
        rows = max(1, min(ROWS, SCORE_BYTES // (16 * max(fit.columns.size, 1))))
        for first in range(0, len(lines.centre), rows):
            place = slice(first, first + rows)
            b, v = along(fit, lines.some(place))
            if weights is not None:
                b, v = b * np.sqrt(weights[place, None]), v * weights[place, None]
            together = max(1, CELLS // (nodes * len(b)))
            for at in range(0, len(models), together):
                some = models[at : at + together]
                share = fit.weight[some][:, None] * fit.node_weight[some]
                long_b, long_v = (np.repeat(value[:, some], nodes, axis=1) for value in (b, v))
                q, t, s = (value[some].ravel() for value in (fit.q, fit.t, fit.s))
                yield Piece(place, long_b, long_v, share.ravel(), q, t, s, fit.degrees)


def log_predictive(problem: Problem, kept: KeptModels, X: Any, y: Any) -> np.ndarray:
    """Log density of each new observation under the averaged model, (rows,)."""
    z, x, columns = read_new(problem, kept, X)
    check_same_rows(len(x), X, y=y)
    y = read_vector(y, len(x), "y")
    lines = functionals(problem, np.ones(len(x)), z, x, columns)
    residual = (y - lines.centre) / problem._y_scale  # in the problem's units
    top, total = np.full(len(y), -np.inf), np.zeros(len(y))  # the density is total · exp(top)
    for rows, b, v, share, q, t, s, degrees in _pieces(problem, kept, lines):
        inner = t * v
        inner += 1 + lines.variance[rows, None]
        away = residual[rows, None] - q * b
        away *= away
        if degrees == np.inf:
            away /= -2 * s * inner
            log_p = away
        else:
            away /= (degrees * s) * inner
            away += 1
            log_p = np.log(away, out=away)
            log_p *= -(degrees + 1) / 2
        log_p += np.log(share) - 0.5 * np.log(s) + log_t_constant(degrees)
        new_top = np.maximum(top[rows], log_p.max(axis=1))
        log_p -= new_top[:, None]
        p = np.exp(log_p, out=log_p)
        p /= np.sqrt(inner, out=inner)
        total[rows] = total[rows] * np.exp(top[rows] - new_top) + p.sum(axis=1)
        top[rows] = new_top
    return top + np.log(total) - np.log(problem._y_scale)


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
    if isinstance(problem.slab, MomentPrior):
        own = leave_one_out_of_moments(problem, kept, lines, residual, w)
        unit = problem._y_scale
        parts = own.log_density - np.log(unit), y - unit * own.beyond, own.pit, own.share
        return pd.DataFrame(
            dict(zip(("log_density", "mean", "pit", "share"), parts)), index=_row_labels(X, used)
        )
    # Σ a/p, Σ a/p·√w_i e_i/(1 − h_i), Σ a/p·cdf and Σ a/p², a being shares, all relative to a running maximum of a/p
    top, total = np.full(len(y), -np.inf), np.zeros((4, len(y)))
    root_w = np.sqrt(w)
    for rows, b, v, share, q, t, s, degrees in _pieces(problem, kept, lines, w):
        v *= -t
        v += (1 - w * lines.variance)[rows, None]
        left = np.sqrt(np.maximum(v, LEAST_LEFT, out=v), out=v)  # √(1 − h_i)
        b *= -q
        b += (root_w * residual)[rows, None]
        b /= left  # √w_i e_i/√(1 − h_i)
        log_ratio, cdf = _normal_without_row(b, s) if degrees == np.inf else _t_without_row(b, s, degrees)
        log_ratio += np.log(share)
        new_top = np.maximum(top[rows], log_ratio.max(axis=1))
        total[:, rows] *= np.exp(top[rows] - new_top)
        total[3, rows] *= np.exp(top[rows] - new_top)
        top[rows] = new_top
        log_ratio -= new_top[:, None]
        ratio = np.exp(log_ratio, out=log_ratio)
        ratio /= left
        b /= left
        total[0, rows] += ratio.sum(axis=1)
        total[1, rows] += np.einsum("rc,rc->r", ratio, b)
        total[2, rows] += np.einsum("rc,rc->r", ratio, cdf)
        ratio *= ratio
        total[3, rows] += np.einsum("rc,c->r", ratio, 1 / np.maximum(share, 1e-290))
    unit = problem._y_scale
    return pd.DataFrame(
        {
            "log_density": 0.5 * np.log(w) - top - np.log(total[0]) - np.log(unit),
            "mean": lines.centre + unit * (residual - total[1] / total[0] / root_w),
            "pit": total[2] / total[0],
            "share": total[0] ** 2 / total[3],
        },
        index=_row_labels(X, used),
    )


def _t_without_row(b: np.ndarray, s: np.ndarray, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """−log p(y_i | y₋ᵢ) but for √(w_i (1 − h_i)), and the distribution function at y_i; b is √w_i e_i/√(1 − h_i), (R, C)."""
    r = b / np.sqrt(degrees * s)  # z/√(d − 1 + z²), z of the row's own t distribution
    rest = r * r
    np.subtract(1.0, rest, out=rest)  # (d − 1) s without the row, beside d·s with it
    least = LEAST_LEFT * (degrees - 1) / degrees
    more: Any = 0.0
    if rest.min() < least:  # a model fits the row by itself
        whole = np.maximum(rest, least) + r * r
        r /= np.sqrt(whole)
        np.maximum(rest, least, out=rest)
        more = degrees / 2 * np.log(whole)
    value = np.log(rest, out=rest)
    value *= -(degrees - 1) / 2
    value += 0.5 * np.log(s * degrees / (degrees - 1)) - log_t_constant(degrees - 1)
    value += more
    return value, t_cdf_by_share(degrees - 1, r.ravel()).reshape(r.shape)


def _normal_without_row(b: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same where the noise variance is known."""
    z = b / np.sqrt(s)
    return 0.5 * (z * z + np.log(s)) - log_t_constant(np.inf), ndtr(z)


def _row_labels(X: Any, used: np.ndarray) -> pd.Index:
    index = X.index if isinstance(X, (pd.DataFrame, pd.Series)) else pd.RangeIndex(len(used), name="row")
    return index[used]


def _check_same(problem: Problem, residual: np.ndarray) -> None:
    """DataError unless the residual of y on the intercept and the always-included columns is that of the problem."""
    if len(problem._y) == 0:
        raise DataError(
            "the problem was made from sufficient statistics and has no rows to leave out; make it from X and y instead, "
            "or use log_score for new data"
        )
    same = len(residual) == problem.n and np.abs(residual - problem._y).max() < 1e-6
    if not same:
        raise DataError(
            f"X, y and weights are not those the problem was made with ({problem.n} rows of positive weight); "
            "leaving one out needs the same data. For new data use log_score"
        )
