r"""Leave-one-out under non-local slabs.

Under the normal slab, model γ without row i is known in closed form (``scores.py``). With r the row of the model's columns as residuals on the flat part, w its weight, e its
residual from the posterior mean, h its leverage and h₀ its leverage in the flat part alone, by the Sherman–Morrison formula

.. math:: b_{-i} = b - \frac{w e}{1 - h} V r, \qquad V_{-i} = V + \frac{w}{1 - h} V r r^T V, \qquad
          y_i \mid \beta, \sigma^2, y_{-i} \sim N\Big(y_i - \frac{e}{1 - h} + \frac{r^T (\beta - b_{-i})}{1 - h_0},\; \frac{\sigma^2}{w (1 - h_0)}\Big) .

A non-local slab multiplies the normal one by f(β, σ²), so that

.. math:: p(y_i \mid y_{-i}, \gamma) = p_N(y_i \mid y_{-i}, \gamma)\; \frac{E_N[f \mid y, \gamma]}{E_N[f \mid y_{-i}, \gamma]} .

Both means are those of marginal likelihoods (``problem/moment_factors.py``): sums of all terms under ``ProductMoment``, up to 11 columns, else means over the same points, whose
errors nearly cancel. The prediction and the probability of a smaller response are means over points of the posterior without the row. No model is taken to be the same
without the row, and nothing is approximated by a normal distribution.

Every model is worked out again for every row, so that at most as many models take part as fit into MOST_SECONDS, but no fewer than FEWEST_MODELS: the heaviest, and a systematic
sample of the others that stands for these (``family_scores.represented``).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, softmax

from whichvars.posterior.family_scores import represented
from whichvars.posterior.fits import Functionals
from whichvars.posterior.models import KeptModels, batches
from whichvars.posterior.t_mixture import log_t_constant
from whichvars.problem.moment_factors import (
    NormalPosteriors,
    factor_cost,
    log_mean_factors,
    normal_posteriors,
)
from whichvars.problem.moment_points import weighted_points
from whichvars.problem.moment_priors import MomentPrior
from whichvars.problem.problem import Problem

# points of a posterior for the prediction and the probability of a smaller response, as a power of two, and nanoseconds that one column of them takes
LOG_POINTS, COST_OF_POINTS = 7, 3e5
MOST_SECONDS, FEWEST_MODELS = 60.0, 50
# numbers of the arrays that are made at a time
AT_ONCE = 1 << 20
# least value of 1 − h and of 1 − h₀
LEAST_LEFT = 1e-12


class LeftOut(NamedTuple):
    """Rows predicted from all others, in the problem's units, (n,) each."""

    log_density: np.ndarray
    beyond: np.ndarray  # the response less its prediction
    pit: np.ndarray
    share: np.ndarray


def leave_one_out_of_moments(
    problem: Problem, kept: KeptModels, lines: Functionals, residual: np.ndarray, w: np.ndarray
) -> LeftOut:
    """Of rows with these residuals from the flat part and these weights, (n,)."""
    slab, target, n = problem.slab, problem.formula(0), len(residual)
    assert isinstance(slab, MomentPrior)
    sizes = np.diff(kept.start)
    columns = float(kept.weight @ sizes / kept.weight.sum())
    cost = n * (factor_cost(slab, int(np.ceil(columns))) + COST_OF_POINTS * columns)
    kept = represented(kept, max(FEWEST_MODELS, int(MOST_SECONDS * 1e9 / cost)))
    log_p, beyond, pit = (np.zeros((len(kept), n)) for _ in range(3))
    for index, of_models in batches(problem, kept):
        place = np.searchsorted(lines.columns, of_models)
        normal = normal_posteriors(target, of_models)
        k = of_models.shape[1]
        whole = log_mean_factors(normal, slab) if k else np.zeros(len(index))
        step = max(1, AT_ONCE // max(3 ** min(k, 11), (8 * k + 4) << LOG_POINTS))
        pairs = np.arange(len(index) * n)
        for first in range(0, len(pairs), step):
            model, row = np.divmod(pairs[first : first + step], n)
            x = lines.row[row[:, None], place[model]]
            one = _without_rows(normal, slab, model, x, residual[row], lines.variance[row], w[row])
            at = index[model], row
            log_p[at] = one.log_density + whole[model]
            beyond[at], pit[at] = one.beyond, one.pit
    log_weight = np.log(kept.weight)[:, None] - log_p
    weight = softmax(log_weight, axis=0)
    return LeftOut(
        -logsumexp(log_weight, axis=0),
        np.einsum("mn,mn->n", weight, beyond),
        np.einsum("mn,mn->n", weight, pit),
        1 / (weight**2 / kept.weight[:, None]).sum(axis=0),
    )


def _without_rows(
    normal: NormalPosteriors,
    slab: MomentPrior,
    model: np.ndarray,
    x: np.ndarray,
    residual: np.ndarray,
    flat: np.ndarray,
    w: np.ndarray,
) -> LeftOut:
    """Pairs of a model and a row. `model` is which of the models, (pairs,); x the rows of their columns, (pairs, k); `flat` the variances of the flat part."""
    b, V, s, degrees = normal.b[model], normal.V[model], normal.s[model], normal.degrees
    turned = np.einsum("pkl,pl->pk", V, x)
    e = residual - np.einsum("pk,pk->p", x, b)
    flat_left = np.maximum(1 - w * flat, LEAST_LEFT)
    left = np.maximum(flat_left - w * np.einsum("pk,pk->p", x, turned), LEAST_LEFT)
    z = w * e**2 / left
    fewer = np.inf if degrees == np.inf else degrees - 1
    if fewer < np.inf:
        s = np.maximum(degrees * s - z, LEAST_LEFT * degrees * s) / fewer
        log_normal = log_t_constant(fewer) - degrees / 2 * np.log1p(z / (fewer * s))
    else:
        log_normal = log_t_constant(np.inf) - z / (2 * s)
    log_normal += 0.5 * np.log(w * left / s)
    b = b - (w * e / left)[:, None] * turned
    V = V + (w / left)[:, None, None] * turned[:, :, None] * turned[:, None, :]
    factor = log_mean_factors(NormalPosteriors(b, V, s, fewer), slab) if b.shape[1] else np.zeros(len(b))
    scale = np.sqrt(s)[:, None]
    points = weighted_points(b / scale, V, fewer, slab, LOG_POINTS)
    weight = softmax(points.log_weight, axis=1)
    away = np.einsum("pnk,pk->pn", points.beta * scale[:, :, None] - b[:, None, :], x)
    distance = (e / left)[:, None] - away / flat_left[:, None]
    spread = scale * np.sqrt(points.x / (w * flat_left)[:, None])
    return LeftOut(
        log_normal - factor,
        np.einsum("pn,pn->p", weight, distance),
        np.einsum("pn,pn->p", weight, ndtr(distance / spread)),
        np.ones(len(b)),
    )
