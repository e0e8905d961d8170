r"""Weighted quasi-random points of the posteriors of coefficients under non-local slabs.

In units of the noise, :math:`\beta \mid x \sim N(b, x V)` under the normal slab, where x is scaled-inverse-χ²(d, 1). Coefficients are drawn one after the other. Given those before it,
coefficient j is :math:`\sqrt x L_{jj} (\zeta + a)` with ζ standard normal and L the Cholesky factor of V; it is drawn from this times the slab's factor, whose mean over ζ is
a factor of the point's weight. So all weights are the same if columns are uncorrelated, and the mean of the weights is that of the product of all factors.

- The product moment prior has the factor :math:`L_{jj}^2 (\zeta + a)^2/\tau`, with mean :math:`L_{jj}^2 (1 + a^2)/\tau` and distribution function
  :math:`\Phi(\zeta) - (\zeta + 2a)\varphi(\zeta)/(1 + a^2)`, which is inverted by bisection.
- The product exponential moment prior has the factor :math:`\exp(\sqrt2 - c/(\zeta + a)^2)` with :math:`c = \tau/L_{jj}^2`. Its mean is an integral over both signs of
  :math:`\zeta + a`, by the trapezoid rule around the two modes, and its distribution function is interpolated between the nodes of that rule.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri, ndtr

from whichvars.problem.moment_priors import MomentPrior, ProductMoment

# standard deviations beyond which nothing is looked for, and bisections of the rest
FAR, BISECTIONS = 12.0, 22
# the same around a mode, nodes for each, and steps of Newton's method to find it
REACH, NODES, NEWTON_STEPS = 7.5, 64, 12


class Points(NamedTuple):
    """Weighted points of the posteriors of m models of k columns."""

    beta: np.ndarray  # (m, N, k)
    x: np.ndarray  # (N,): σ² in units of s
    log_weight: np.ndarray  # (m, N)


@lru_cache(maxsize=32)
def _uniform_points(k: int, degrees: float, log_number: int) -> tuple[np.ndarray, np.ndarray]:
    """Uniform points (N, k) and values of x (N,); both of a point and of its reflection."""
    from scipy.stats import qmc  # it takes half a second to import

    uniform = np.clip(qmc.Sobol(k + 1, seed=20_120_606).random_base2(log_number - 1), 1e-12, 1 - 1e-12)
    x = degrees / chdtri(degrees, 1 - uniform[:, k]) if degrees < np.inf else np.ones(len(uniform))
    return np.concatenate([uniform[:, :k], 1 - uniform[:, :k]]), np.concatenate([x, x])


def weighted_points(
    b: np.ndarray, V: np.ndarray, degrees: float, slab: MomentPrior, log_number: int
) -> Points:
    """Points of the posteriors of m models, in units in which s is 1. Shapes (m, k), (m, k, k)."""
    m, k = b.shape
    uniform, x = _uniform_points(k, degrees, log_number)
    root, scale = np.linalg.cholesky(V), np.sqrt(x)
    zeta, log_weight = np.zeros((m, len(x), k)), np.zeros((m, len(x)))
    beta = np.zeros_like(zeta)
    for j in range(k):
        own = root[:, j, j][:, None]
        centre = b[:, j][:, None] + scale * np.einsum("mni,mi->mn", zeta[:, :, :j], root[:, j, :j])
        a, u = centre / (scale * own), np.broadcast_to(uniform[:, j], (m, len(x)))
        if isinstance(slab, ProductMoment):
            zeta[:, :, j] = _tilted_by_square(a, u)
            log_weight += np.log1p(a * a) + 2 * np.log(own) - np.log(slab.tau)
        else:
            zeta[:, :, j], log_mean = _tilted_by_exponential(a, slab.tau / own**2, u)
            log_weight += np.sqrt(2) + log_mean
        beta[:, :, j] = centre + scale * own * zeta[:, :, j]
    return Points(beta, x, log_weight)


def _tilted_by_square(a: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The values of ζ at which the distribution with density ∝ (ζ + a)² φ(ζ) has the distribution function u."""
    low, high = np.full_like(a, -FAR), np.full_like(a, FAR)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        density = np.exp(-0.5 * middle * middle) / np.sqrt(2 * np.pi)
        below = ndtr(middle) - (middle + 2 * a) * density / (1 + a * a) < u
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def _positive_mode(a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The t > 0 with t³ (t − a) = 2c, where −(t − a)²/2 − c/t² is largest."""
    # to the right of it the function is convex and grows, so that Newton's method goes down to it
    t = np.maximum(a, 0.0) + (2 * c) ** 0.25
    for _ in range(NEWTON_STEPS):
        t = t - (t**3 * (t - a) - 2 * c) / (t * t * (4 * t - 3 * a))
    return t


def log_mean_exponential(a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """log of the mean of exp(−c/(ζ + a)²) if ζ is standard normal."""
    return _tilted_by_exponential(a, c, np.full(a.shape, 0.5))[1]


def _tilted_by_exponential(a: np.ndarray, c: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same for the density ∝ exp(−c/(ζ + a)²) φ(ζ), and the log of the mean of that factor under φ."""
    c = np.broadcast_to(c, a.shape)
    steps = np.linspace(-REACH, REACH, NODES)
    sides = []
    for sign in (-1.0, 1.0):
        mode = _positive_mode(sign * a, c)[..., None]
        sides.append(sign * np.sort(np.maximum(mode + steps, 1e-3 * mode), axis=-1))
    t = np.sort(np.concatenate(sides, axis=-1), axis=-1)
    with np.errstate(over="ignore", under="ignore"):
        logs = -0.5 * (t - a[..., None]) ** 2 - c[..., None] / (t * t)
    top = logs.max(axis=-1, keepdims=True)
    density = np.exp(logs - top)
    area = np.zeros_like(t)
    area[..., 1:] = np.cumsum(0.5 * (density[..., 1:] + density[..., :-1]) * np.diff(t, axis=-1), axis=-1)
    total = area[..., -1]
    goal = u * total
    after = np.clip((area < goal[..., None]).sum(axis=-1), 1, t.shape[-1] - 1)[..., None]
    t1, t0 = (np.take_along_axis(t, after - i, axis=-1)[..., 0] for i in (0, 1))
    area1, area0 = (np.take_along_axis(area, after - i, axis=-1)[..., 0] for i in (0, 1))
    share = np.clip((goal - area0) / np.maximum(area1 - area0, 1e-300), 0.0, 1.0)
    zeta = t0 + share * (t1 - t0) - a
    return zeta, np.log(total) + top[..., 0] - 0.5 * np.log(2 * np.pi)
