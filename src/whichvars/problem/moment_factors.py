r"""What non-local slabs make of a model.

The density of the product moment prior is that of the normal slab :math:`N(0, \tau\sigma^2)` times :math:`\prod_j \beta_j^2/(\tau\sigma^2)`, so that its marginal likelihood is that of the normal slab
times the posterior mean of this product under the normal slab,

.. math:: m(\gamma) = m_N(\gamma)\; E_N\Big[\prod_{j \in \gamma} \frac{\beta_j^2}{\tau\sigma^2} \,\Big|\, y\Big] .

Under the normal slab :math:`\beta \mid \sigma^2 \sim N(b, \sigma^2 V)` and σ² is scaled-inverse-χ²(d, s). Kan (2008) writes a moment of a normal distribution as a sum over
:math:`h \in \{-1, 0, 1\}^k`,

.. math:: E\Big[\prod_j \beta_j^2 \mid \sigma^2\Big] = \sum_h (-2)^{\#\{h_j = 0\}} \sum_{r=0}^k
          \frac{(\sigma^2 h^T V h/2)^r\, (h^T b)^{2k - 2r}}{r!\,(2k - 2r)!},

a polynomial in σ², and the moments of :math:`\sigma^{-2}` are known. Coefficients are first divided by the roots of their second moments, so that little is lost when terms
cancel. As h and −h give the same, there are 3ᵏ/2 terms. Above MOST_EXACT columns, the mean is that over quasi-random points (``moment_points.py``); which of the two it is
depends on k alone, so that m is one function of γ.

The product exponential moment prior has :math:`\exp(\sqrt2 - \tau\sigma^2/\beta_j^2)` in place of :math:`\beta_j^2/(\tau\sigma^2)`, and the mean is always taken over points.

Scans use the normal slab and a factor for each column, without which nearly all of what they propose would be refused: at first that of a variable without an effect, 1/(1 + nτ) or
:math:`\exp(\sqrt2 - \sqrt{2n\tau})`, then its factor in the best model that was found, or if it is added to that (``samplers/surrogates.py``).

Kan, R. (2008). From moments of sum to moments of product. Journal of Multivariate Analysis 99, 542–554.
"""

from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, softmax

from whichvars._kernels.evidence import SMALLEST_RESIDUAL
from whichvars._kernels.target import Target
from whichvars.problem.columns import ColumnsOfModels, columns_at, gram_of, products_with_all
from whichvars.problem.moment_points import log_mean_exponential, weighted_points
from whichvars.problem.moment_priors import MomentPrior, ProductMoment

# most columns for which all terms are summed up
MOST_EXACT = 11
# numbers of arrays that are made at a time
AT_ONCE = 1 << 21
# those that one point takes
NUMBERS_OF_POINT = 8
# quasi-random points, as powers of two: for means of products of squares, which are cheap, and of exponentials; for the posteriors of coefficients
LOG_POINTS_OF_SQUARES, LOG_POINTS, LOG_POINTS_OF_MOMENTS = 13, 10, 8


class NormalPosteriors(NamedTuple):
    """The posteriors of coefficients and noise variance of m models of k columns under the normal slab."""

    b: np.ndarray  # (m, k)
    V: np.ndarray  # (m, k, k)
    s: np.ndarray  # (m,)
    degrees: float


def normal_posteriors(target: Target, columns: np.ndarray) -> NormalPosteriors:
    """Of models with these columns, (m, k)."""
    design, slab = target.design, target.slab
    gram, right = gram_of(design, columns).copy(), design.xty[columns]
    places = np.arange(columns.shape[1])
    gram[:, places, places] += slab.ridge[columns]
    V = np.linalg.inv(gram)
    b = np.linalg.solve(gram, right[:, :, None])[:, :, 0]
    if slab.nu == np.inf:
        return NormalPosteriors(b, V, np.full(len(b), 0.5 / slab.half_precision), np.inf)
    left = slab.s_null - np.einsum("mk,mk->m", b, right)
    return NormalPosteriors(b, V, np.maximum(left, SMALLEST_RESIDUAL * slab.s_null) / slab.nu, slab.nu)


def log_moment_factors(
    target: Target, offsets: np.ndarray, members: np.ndarray, start: np.ndarray, slab: MomentPrior
) -> np.ndarray:
    """log of m(γ) over what the target's formula says of each model, (models,). Models are given as for ``log_priors_of``."""
    columns = ColumnsOfModels.of(offsets, members, start)
    sizes = np.diff(columns.start)
    # what the formula has for each column besides the normal slab
    out = sizes * float(target.slab.half_log_g[0] - 0.5 * np.log(slab.tau))
    for k in np.unique(sizes[sizes > 0]):
        chosen = np.flatnonzero(sizes == k)
        rows = 3 ** int(k) // 2 if is_exact(slab, k) else NUMBERS_OF_POINT << _log_points(slab)
        step = max(1, AT_ONCE // int(k * max(rows, len(target.design.columns.T))))
        for first in range(0, len(chosen), step):
            some = chosen[first : first + step]
            index = columns.columns[columns.start[some][:, None] + np.arange(k)]
            out[some] += log_mean_factors(normal_posteriors(target, index), slab)
    return out


def is_exact(slab: MomentPrior, k: int) -> bool:
    """Whether the factor of a model of k columns is a sum of all terms."""
    return isinstance(slab, ProductMoment) and k <= MOST_EXACT


def _log_points(slab: MomentPrior) -> int:
    return LOG_POINTS_OF_SQUARES if isinstance(slab, ProductMoment) else LOG_POINTS


def factor_cost(slab: MomentPrior, k: int) -> float:
    """What the factor of a model of k columns costs, in nanoseconds, roughly."""
    return 50.0 * 3**k if is_exact(slab, k) else 4e6 * k


def log_mean_factors(normal: NormalPosteriors, slab: MomentPrior) -> np.ndarray:
    """log of the mean of what the slab multiplies the normal density by, of each model, (m,)."""
    if is_exact(slab, normal.b.shape[1]):
        return _log_mean_products(normal, slab.tau)
    b = normal.b / np.sqrt(normal.s)[:, None]
    logs = weighted_points(b, normal.V, normal.degrees, slab, _log_points(slab)).log_weight
    return logsumexp(logs, axis=1) - np.log(logs.shape[1])


def _log_mean_products(normal: NormalPosteriors, tau: float) -> np.ndarray:
    """log E_N[Π β_j²/(τσ²)] of each model, (m,)."""
    k = normal.b.shape[1]
    length = np.sqrt(normal.b**2 + normal.s[:, None] * np.einsum("mkk->mk", normal.V))
    scaled = normal.b / length
    V = normal.V * normal.s[:, None, None] / (length[:, :, None] * length[:, None, :])
    h, sign = _signs(k)
    along = (scaled @ h.T) ** 2  # (m, terms)
    spread = 0.5 * np.einsum("tk,mkt->mt", h, V @ h.T)
    total = np.zeros_like(along)
    for r in range(k + 1):
        log_weight = _log_inverse_moment(k - r, normal.degrees) - gammaln(r + 1) - gammaln(2 * (k - r) + 1)
        total += np.exp(log_weight) * spread**r * along ** (k - r)
    constant = 2 * np.log(length).sum(axis=1) - k * np.log(tau * normal.s)
    return constant + np.log(np.maximum(2 * total @ sign, 1e-300))


@lru_cache(maxsize=MOST_EXACT)
def _signs(k: int) -> tuple[np.ndarray, np.ndarray]:
    """One of h and −h each, (terms, k), and the factors of their terms, (terms,)."""
    h = np.array(list(product((1.0, 0.0, -1.0), repeat=k))[: 3**k // 2])
    return h, (-2.0) ** (h == 0).sum(axis=1)


def _log_inverse_moment(q: int, degrees: float) -> float:
    """log E[x^(−q)] if x is scaled-inverse-χ²(degrees, 1)."""
    if degrees == np.inf:
        return 0.0
    return float(q * np.log(2 / degrees) + gammaln(degrees / 2 + q) - gammaln(degrees / 2))


def log_factors_near(target: Target, columns: np.ndarray, slab: MomentPrior) -> np.ndarray:
    """log of the mean factor of each column, (P,), as if the others were independent of it: of those of a model in that model, of every other one if it
    is added to it."""
    design = target.design
    P = len(target.slab.ridge) if not len(design.gram) else len(design.gram)
    ridge, diagonal, xty = (v[:P] for v in (target.slab.ridge, design.diagonal, design.xty))
    normal = normal_posteriors(target, columns[None])
    b, V, s = normal.b[0], normal.V[0], float(normal.s[0])
    if len(design.gram):
        shared = design.gram[columns]
    else:
        shared = products_with_all(design, columns_at(design, columns))[:, :P]
    left = np.maximum(diagonal + ridge - np.einsum("kp,kl,lp->p", shared, V, shared, optimize=True), ridge)
    spread, centre = 1 / left, (xty - b @ shared) / left
    spread[columns], centre[columns] = np.diagonal(V), b
    return _log_single_factors(centre / np.sqrt(s), spread, slab)


def _log_single_factors(b: np.ndarray, variance: np.ndarray, slab: MomentPrior) -> np.ndarray:
    """The same for normal posteriors N(b, variance) each, in units of the noise."""
    if isinstance(slab, ProductMoment):
        return np.log((b * b + variance) / slab.tau)
    out = np.zeros(len(b))
    for first in range(0, len(b), AT_ONCE >> 7):
        here = slice(first, first + (AT_ONCE >> 7))
        out[here] = np.sqrt(2) + log_mean_exponential(
            b[here] / np.sqrt(variance[here]), slab.tau / variance[here]
        )
    return out


def moments_of_coefficients(
    normal: NormalPosteriors, slab: MomentPrior
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posterior means (m, k) and covariances (m, k, k) of the coefficients, and means of the noise variance (m,), by quasi-random points."""
    m, k = normal.b.shape
    if k == 0:
        mean_of_x = 1.0 if normal.degrees == np.inf else normal.degrees / max(normal.degrees - 2, 0.5)
        return np.zeros((m, 0)), np.zeros((m, 0, 0)), normal.s * mean_of_x
    mean, covariance, noise = np.zeros((m, k)), np.zeros((m, k, k)), np.zeros(m)
    step = max(1, AT_ONCE // (NUMBERS_OF_POINT * k << LOG_POINTS_OF_MOMENTS))
    for first in range(0, m, step):
        here = slice(first, first + step)
        scale = np.sqrt(normal.s[here])
        points = weighted_points(
            normal.b[here] / scale[:, None], normal.V[here], normal.degrees, slab, LOG_POINTS_OF_MOMENTS
        )
        weight = softmax(points.log_weight, axis=1)
        mean[here] = np.einsum("mn,mnk->mk", weight, points.beta) * scale[:, None]
        away = points.beta * scale[:, None, None] - mean[here][:, None, :]
        covariance[here] = np.einsum("mn,mnk,mnl->mkl", weight, away, away, optimize=True)
        noise[here] = scale**2 * (weight @ points.x)
    return mean, covariance, noise
