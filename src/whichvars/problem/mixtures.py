r"""Mixtures of g-priors: log Bayes factors by quadrature, and tables of them for the compiled samplers.

Given g, a model with k columns, coefficient of determination R² and ν residual degrees of freedom has the
Bayes factor against the null model

.. math:: BF(g) = (1 + g)^{(\nu - k)/2} \, (1 + g (1 - R^2))^{-\nu/2},

and a mixture integrates it over a prior of g (Liang, Paulo, Molina, Clyde and Berger, 2008, "Mixtures of g
priors for Bayesian variable selection", Journal of the American Statistical Association 103, 410-423):

================= ========================================================
``hyper-g``       π(g) = (a - 2) / 2 · (1 + g)^(-a/2)
``hyper-g/n``     π(g) = (a - 2) / (2 n) · (1 + g/n)^(-a/2)
``zellner-siow``  π(g) = (n/2)^(1/2) / Γ(1/2) · g^(-3/2) exp(-n / (2 g))
``cch``           π(u) ∝ u^(a/2-1) (1-u)^(b/2-1) exp(-s u / 2), u = 1 / (1 + g)
``beta-prime``    the same with a = 1/2, b = n - k - 3/2 and s = 0
``robust``        π(g) = (1 + m)^(1/2) / 2 · (1 + g)^(-3/2), g > m
``intrinsic``     π(g) = m^(1/2) / π · g^(-1) (g - m)^(-1/2), g > m
================= ========================================================

The last two have a least value of g, m = (n + 1)/(k + k₀) - 1 and m = n/(k + k₀), k₀ being the number of columns that all models have. The
integral of the robust prior is taken in x = log(g - m), where it is as smooth as those of the others in log g. That of the intrinsic prior is taken in the x > 0
with g = m cosh² x, which has the density 2/(π cosh x): an even function, so that there is no tail to the left.

**The integral** is taken in x = log g. There the integrand exp f(x) has one mode (f' times its positive
denominators is a polynomial in g of degree at most three with one change of sign), tails that fall at least
as fast as exp(x) and exp(-x/2), and no singularity nearer to the real line than π, so that the trapezoid rule
converges exponentially fast. Only the interval where f is within DROP of its maximum matters; it is found by
evaluating f on a coarse grid and zooming in.

**The table** is over u = -log(1 - R²). With p = g exp(-u) / (1 + g exp(-u)), L = log BF has the derivatives

.. math:: L'(u) = \tfrac{\nu}{2} E[p], \qquad L''(u) = \tfrac{\nu^2}{4} Var[p] - \tfrac{\nu}{2} E[p (1 - p)],

with moments over the posterior of g, so one quadrature gives L, L' and L''. L bends where R² is what pure
noise would give (or, if g has a least value, what the best g of that value would be), near u_k = -log(1 - k/ν), over a width of s_k = sqrt(2 k / (ν (ν - k))). Away from there it
is smooth relative to the distance from u_k, and for large u on the scale one. The intervals are therefore
equally long in

.. math:: w = sign(t) (PER\_LOG \log(1 + |t|) + PER\_UNIT \, s_k |t|), \qquad t = (u - u_k) / s_k,

and on each of them L is replaced by the polynomial of degree 11 that has the right value and two right
derivatives at four points, the zeros of the Chebyshev polynomial of degree four stretched to reach both ends.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, expit, hyp1f1, log_expit, wrightomega

from whichvars.problem.priors import CCH, HyperG, HyperGN, ZellnerSiow, values_of_g

__all__ = [
    "KINDS",
    "log_bayes_factor",
    "mixture_nodes",
    "mixture_table",
    "nodes_between",
    "posterior_nodes",
    "shrinkage_grid",
    "where_large",
]

KINDS = ("hyper-g", "hyper-g/n", "zellner-siow", "cch", "beta-prime", "robust", "intrinsic")
# what a kind has besides n: a; nothing; a, b and s; nothing; k₀
Parameters = float | tuple[float, float, float]

Array = NDArray[np.float64]

# the integrand is neglected where it is below exp(-DROP) times its maximum
DROP = 32.0
# rounds of the search for the remaining interval, and points in each
ZOOMS, COARSE = 3, 25
# points of the quadrature on this interval
FINE = 240
# last node of the table: 1 - R² = 5e-15
U_END = 33.0
# intervals per factor e in t, and per unit of u
PER_LOG, PER_UNIT = 2.0, 1.0
# The grid of log g for responses that are not Gaussian: its ends and its step. A multiple of the step is that of the trapezoid rule
# in _kernels/family_evidence.py
GRID_ENDS, GRID_STEP = (-60.0, 80.0), 0.1
# points in each interval
POINTS = np.array([-1.0, 1.0 - np.sqrt(2.0), np.sqrt(2.0) - 1.0, 1.0])


def _hermite_to_powers() -> Array:
    """The matrix [12, 12] from (values, first, second derivatives) at POINTS to coefficients of powers."""
    powers = np.arange(12)
    rows = []
    for order in range(3):
        factor = np.prod([powers - i for i in range(order)], axis=0)
        rows.append(factor * POINTS[:, None] ** np.maximum(powers - order, 0))
    return np.linalg.inv(np.concatenate(rows))


HERMITE = _hermite_to_powers()


def _effective(kind: str, nu: float, n: float, a: Parameters, k: int) -> tuple[float, Any]:
    """Check the parameters and return n and a as the integrand uses them.

    Hyper-g is hyper-g/n with n = 1, and beta-prime is a special case of CCH.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    if kind not in ("hyper-g", "zellner-siow") and not 1 < n < np.inf:
        raise ValueError(f"need n > 1, got n = {n}")
    if kind in ("hyper-g", "hyper-g/n") and not (isinstance(a, (int, float)) and 2 < a < np.inf):
        raise ValueError(f"need a > 2, got a = {a}")
    if kind == "hyper-g/n" and float(a) > n + 2:  # type: ignore[arg-type]
        raise ValueError(f"need a <= n + 2, got a = {a} and n = {n}")
    if not 1 <= k < nu < np.inf:
        raise ValueError(f"need 1 <= k < nu, got k = {k} and nu = {nu}")
    if kind == "zellner-siow" and not 0 < n < np.inf:
        raise ValueError(f"need n > 0, got n = {n}")
    if kind == "beta-prime" and not n - k >= 2:
        raise ValueError(f"need n >= k + 2, got n = {n} and k = {k}")
    if kind in ("robust", "intrinsic") and not (isinstance(a, (int, float)) and 1 <= a < n + 1 - k):
        raise ValueError(f"need 1 <= a < n + 1 - k, got a = {a}, n = {n} and k = {k}")
    if kind == "beta-prime":
        return float(n), (0.5, n - k - 1.5, 0.0)
    if kind == "cch":
        return float(n), a
    return (1.0 if kind == "hyper-g" else float(n)), (3.0 if kind == "zellner-siow" else float(a))  # type: ignore[arg-type]


def _tails(kind: str, n: float, a: Any) -> tuple[float, float, float]:
    """How the density of x falls, besides the Bayes factor: as exp(left · x) and exp(-(right - 2)/2 · x), and a scale of g that is no less than where it
    begins to fall."""
    if kind in ("cch", "beta-prime"):
        return min(a[1] / 2, 1.0), a[0] + 2.0, max(n, a[1] + abs(a[2]))
    return 1.0, (3.0 if kind in ("robust", "intrinsic") else a), n


def _least(kind: str, n: float, a: Any, k: int) -> float:
    """log of the least value of g; -∞ if that is 0."""
    if kind == "robust":
        return float(np.log((n + 1) / (k + a) - 1))
    return float(np.log(n / (k + a))) if kind == "intrinsic" else -np.inf


def _log1p_exp(x: Array) -> Array:
    """log(1 + exp(x)) without overflow."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _log_integrand(kind: str, nu: float, n: float, a: Any, k: int, u: Array, x: Array) -> Array:
    """f(x) = log(BF(g) π(g) dg/dx)."""
    least, log_g = _least(kind, n, a, k), _log_g(kind, n, a, k, x)
    log_bf = 0.5 * (nu - k) * _log1p_exp(log_g) - 0.5 * nu * _log1p_exp(log_g - u)
    if kind in ("cch", "beta-prime"):
        return log_bf + _log_cch(a[0], a[1], a[2], x)
    if kind == "robust":
        return log_bf + 0.5 * np.log1p(np.exp(least)) - np.log(2.0) - 1.5 * _log1p_exp(log_g) + x
    if kind == "intrinsic":
        return log_bf + np.log(2.0 / np.pi) - _log_cosh(x)
    if kind == "zellner-siow":
        return log_bf + 0.5 * np.log(0.5 * n / np.pi) - 0.5 * x - 0.5 * n * np.exp(-x)
    return log_bf + np.log(0.5 * (a - 2.0) / n) + x - 0.5 * a * _log1p_exp(x - np.log(n))


def _log_cosh(x: Array) -> Array:
    return np.abs(x) + np.log1p(np.exp(-2.0 * np.abs(x))) - np.log(2.0)


def _log_g(kind: str, n: float, a: Any, k: int, x: Array) -> Array:
    """log g at x."""
    if kind == "robust":
        return np.logaddexp(_least(kind, n, a, k), x)
    return _least(kind, n, a, k) + 2.0 * _log_cosh(x) if kind == "intrinsic" else x


def _log_cch(a: float, b: float, s: float, x: Array) -> Array:
    """log of the density of x = log g under CCH(a, b, s)."""
    # Kummer's transformation, where the function itself would be a difference of large numbers
    log_hyper = (
        np.log(hyp1f1(a / 2, (a + b) / 2, -s / 2))
        if s <= 0
        else np.log(hyp1f1(b / 2, (a + b) / 2, s / 2)) - s / 2
    )
    return a / 2 * log_expit(-x) + b / 2 * log_expit(x) - s * expit(-x) / 2 - betaln(a / 2, b / 2) - log_hyper


def posterior_nodes(
    kind: str, nu: float, n: float, a: Parameters, k: int, u: Array
) -> tuple[Array, Array, Array]:
    """For every element of u [m], u = -log(1 - R²): log BF [m], and FINE nodes of log g and weights [m, FINE] of the
    posterior of g. Parameters are those of :func:`log_bayes_factor`."""
    return nodes_between(kind, nu, n, a, k, u, *where_large(kind, nu, n, a, k, u, DROP), FINE)


def where_large(
    kind: str, nu: float, n: float, a: Parameters, k: int, u: Array, drop: float
) -> tuple[Array, Array]:
    """The lower and upper ends [m] of the interval of x where the integrand is above exp(-drop) times its maximum."""
    n, a = _effective(kind, nu, n, a, k)
    u = u[:, None]
    # Initial bracket: below g = exp(-3) / (k + a), f' is almost 1 or more; above
    # g = exp(5) max(ν exp(u), n) it is almost -(k + a - 2) / 2.
    left, right, scale = _tails(kind, n, a)
    low = np.full_like(u, -np.log(k + right) - 3.0 - 1.1 * drop / left)
    high = np.maximum(u + np.log(nu), np.log(scale)) + 5.0 + 2.2 * drop / (k + right - 2.0)
    if kind == "intrinsic":
        low, high = np.zeros_like(u), np.maximum(0.5 * (high - _least(kind, n, a, k)), 0.0) + 1.0
    unit = np.linspace(0.0, 1.0, COARSE)
    for _ in range(ZOOMS):
        f = _log_integrand(kind, nu, n, a, k, u, low + (high - low) * unit)
        inside = f > np.max(f, axis=1, keepdims=True) - drop
        before = np.maximum(np.argmax(inside, axis=1)[:, None] - 1, 0)
        after = np.minimum(COARSE - np.argmax(inside[:, ::-1], axis=1)[:, None], COARSE - 1)
        cell = (high - low) / (COARSE - 1)
        low, high = low + before * cell, low + after * cell
    return low[:, 0], high[:, 0]


def nodes_between(
    kind: str, nu: float, n: float, a: Parameters, k: int, u: Array, low: Array, high: Array, points: int
) -> tuple[Array, Array, Array]:
    """As :func:`posterior_nodes`, with `points` nodes between given ends [m], equally spaced in x."""
    n, a = _effective(kind, nu, n, a, k)
    u, low, high = u[:, None], low[:, None], high[:, None]
    x = low + (high - low) * np.linspace(0.0, 1.0, points)
    f = _log_integrand(kind, nu, n, a, k, u, x)
    top = np.max(f, axis=1, keepdims=True)
    weights = np.exp(f - top)
    if kind == "intrinsic":
        weights[:, 0] *= np.where(low[:, 0] == 0, 0.5, 1.0)  # half of an even function
    total = np.sum(weights, axis=1, keepdims=True)
    log_bf = top + np.log(total * (high - low) / (points - 1))
    return log_bf[:, 0], _log_g(kind, n, a, k, x), weights / total


def log_bayes_factor(kind: str, nu: float, n: float, a: Parameters, k: int, r2: ArrayLike) -> Array:
    r"""Log Bayes factor of models with `k` columns against the null model, by quadrature.

    Parameters
    ----------
    kind : one of ``KINDS``.
    nu : ν, the residual degrees of freedom of the null model, more than `k`; n - 1 with an intercept.
    n : the prior's n > 1, the number of observations; not used by hyper-g.
    a : the prior's a > 2, at most n + 2 for hyper-g/n; (a, b, s) for CCH; the number k₀ of columns that all models have for robust and
        intrinsic; not used by the others.
    k : number of columns; the Bayes factor of k = 0 is one.
    r2 : coefficients of determination in [0, 1), of any shape.

    Returns
    -------
    Array of the shape of `r2`: :math:`\log \int BF(g) \pi(g) dg`.

    Examples
    --------
    Hyper-g has the closed form (a - 2) / (k + a - 2) ₂F₁(ν/2, 1; (k + a)/2; R²) of Liang et al. (2008):

    >>> import numpy as np
    >>> from scipy.special import hyp2f1
    >>> print(round(float(log_bayes_factor("hyper-g", 30, 31, 3, 2, 0.4)), 6))
    3.522643
    >>> print(round(float(np.log(1 / 3 * hyp2f1(15, 1, 2.5, 0.4))), 6))
    3.522643
    """
    r2 = np.asarray(r2, dtype=np.float64)
    if not np.all((r2 >= 0.0) & (r2 < 1.0)):
        raise ValueError("r2 must be at least 0 and less than 1")
    if k == 0:
        return np.zeros(r2.shape)
    return posterior_nodes(kind, nu, n, a, k, -np.log1p(-r2.ravel()))[0].reshape(r2.shape)


def mixture_nodes(kind: str, nu: float, n: float, a: Parameters, k: int, u: float) -> tuple[Array, Array]:
    r"""Nodes and weights for expectations over the posterior of g within one model.

    The distribution is :math:`p(g \mid y, \gamma) \propto BF(g) \pi(g)` for a model with `k` columns and
    u = -log(1 - R²); the other parameters are those of :func:`log_bayes_factor`.

    Returns
    -------
    g, weights : arrays [FINE]; the weights sum to one, and E[h(g)] is sum(weights * h(g)) for functions h
        that are bounded and smooth in log g, such as the shrinkage g / (1 + g).

    Examples
    --------
    >>> g, weights = mixture_nodes("zellner-siow", 99, 100, 3, 2, 0.5)
    >>> print(round(float(weights @ (g / (1 + g))), 6))
    0.981956
    """
    _, x, weights = posterior_nodes(kind, nu, n, a, k, np.array([u], dtype=np.float64))
    return np.exp(np.minimum(x[0], 700.0)), weights[0]


def _span(nu: float, k: int, least: float = -np.inf) -> tuple[float, float, Array]:
    """Where L bends, u_k and s_k, and the values of w [2] at u = 0 and u = U_END. If g has a least value, of which the log is given, this is where the best g
    is that value."""
    centre, scale = -np.log1p(-k / nu), np.sqrt(2.0 * k / (nu * (nu - k)))
    if least > -np.inf:
        centre = np.log1p((1.0 + np.exp(least)) * k / (nu - k))
    t = (np.array([0.0, U_END]) - centre) / scale
    return centre, scale, np.sign(t) * (PER_LOG * np.log1p(np.abs(t)) + PER_UNIT * scale * np.abs(t))


def _row(kind: str, nu: float, n: float, a: Parameters, k: int, intervals: int) -> Array:
    """One row [1 + intervals, 14] of the table."""
    centre, scale, ends = _span(nu, k, _least(kind, *_effective(kind, nu, n, a, k), k))
    w = np.linspace(ends[0], ends[1], intervals + 1)
    b = PER_UNIT * scale / PER_LOG
    # y = 1 + |t| solves log(y) + b y = |w| / PER_LOG + b, which is what Wright's omega function does
    y = wrightomega(np.abs(w) / PER_LOG + b + np.log(b)) / b
    edges = centre + scale * np.sign(w) * (y - 1.0)
    edges[0], edges[-1] = 0.0, U_END
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)

    # Three points per interval and the last end: an interval's right end is the left end of the next.
    u = np.append((middle[:, None] + half[:, None] * POINTS[:3]).ravel(), U_END)
    value, x, weights = posterior_nodes(kind, nu, n, a, k, u)
    p = expit(x - u[:, None])
    mean = np.sum(weights * p, axis=1)
    variance = np.sum(weights * (p - mean[:, None]) ** 2, axis=1)
    first = 0.5 * nu * mean
    second = 0.25 * nu**2 * variance - 0.5 * nu * np.sum(weights * p * (1.0 - p), axis=1)

    at = 3 * np.arange(intervals)[:, None] + np.arange(4)  # the four points of every interval
    # The line through the ends can be large: it is kept out of the matrix product for the sake of rounding.
    level = 0.5 * (value[at[:, 3]] + value[at[:, 0]])
    slope = 0.5 * (value[at[:, 3]] - value[at[:, 0]])
    rest = value[at] - level[:, None] - slope[:, None] * POINTS
    rest_first = half[:, None] * first[at] - slope[:, None]
    rest_second = half[:, None] ** 2 * second[at]

    row = np.zeros((1 + intervals, 14))
    step = w[1] - w[0]
    row[0, :5] = centre, 1.0 / scale, PER_LOG / step, PER_UNIT * scale / step, w[0] / step
    row[0, 5:8] = U_END, value[-1], first[-1]
    row[1:, 0], row[1:, 1] = middle, 1.0 / half
    row[1:, 2:] = np.concatenate([rest, rest_first, rest_second], axis=1) @ HERMITE.T
    row[1:, 2] += level
    row[1:, 3] += slope
    return row


def mixture_table(kind: str, nu: float, n: float, a: Parameters, k_from: int, k_to: int) -> Array:
    """Tables of log BF over u = -log(1 - R²) for models with k_from, ..., k_to - 1 columns.

    Parameters are those of :func:`log_bayes_factor`. A row depends on its k but not on `k_from` and `k_to`,
    and all tables of one `nu` have equally long rows: a table grows by concatenating new rows. For ν up to
    1e6 and k up to 2000 the error of log BF is about 1e-8, or 1e-13 of its value if that is more.

    Returns
    -------
    Array [k_to - k_from, 1 + intervals, 14], the row of k = 0 being zero. A table that begins at k = 0 is
    read by ``mixture_log_bayes_factor(table, k, u)``, where its layout is described.

    Examples
    --------
    >>> table = mixture_table("hyper-g", 30.0, 31.0, 3.0, 0, 5)
    >>> table.shape
    (5, 49, 14)
    """
    if k_to > 1:
        _effective(kind, nu, n, a, k_to - 1)
    _, _, ends = _span(max(nu, 2.0), 1)  # the longest in w is k = 1
    intervals = int(np.ceil((1.6 if kind in ("robust", "intrinsic") else 1.0) * (ends[1] - ends[0])))
    table = np.zeros((k_to - k_from, 1 + intervals, 14))
    for k in range(max(k_from, 1), k_to):
        table[k - k_from] = _row(kind, nu, n, a, k, intervals)
    return table


def shrinkage_grid(slab: HyperG | HyperGN | ZellnerSiow | CCH, n: int) -> Array:
    r"""Values of g for the integrals of models whose response is not Gaussian, which are not functions of R².

    Returns
    -------
    Array [values, 4]: x = log g at equal distances; log(π(g) g), the log of the prior density of x; log(1 + g); 1/(1 + g).

    Examples
    --------
    >>> import numpy as np
    >>> grid = shrinkage_grid(CCH(a=1, b=266), 200)
    >>> print(round(float(np.exp(grid[:, 1]).sum() * (grid[1, 0] - grid[0, 0])), 9))
    1.0
    """
    x = np.linspace(*GRID_ENDS, round((GRID_ENDS[1] - GRID_ENDS[0]) / GRID_STEP) + 1)
    log_one_plus, share = _log1p_exp(x), expit(-x)
    if isinstance(slab, CCH):
        log_prior = _log_cch(slab.a, slab.b, slab.s, x)
    elif isinstance(slab, ZellnerSiow):
        scaled = n * slab.r**2
        log_prior = 0.5 * np.log(0.5 * scaled / np.pi) - 0.5 * x - 0.5 * scaled * np.exp(-x)
    else:
        scale = 1.0 if isinstance(slab, HyperG) else float(n)
        log_prior = np.log(0.5 * (slab.a - 2.0) / scale) + x - 0.5 * slab.a * _log1p_exp(x - np.log(scale))
    return np.ascontiguousarray(np.column_stack([x, log_prior, log_one_plus, share]))


def grid_of_g(n: int) -> Array:
    """The same for the independent slab with an unknown g, which has these values alone. The density is the probability of a value over the
    distance of two.

    Examples
    --------
    >>> grid = grid_of_g(100)
    >>> print(grid.shape, round(float(np.exp(grid[:, 1]).sum() * np.log(2)), 9))
    (11, 4) 1.0
    """
    values, probabilities = values_of_g(n)
    x = np.log(values)
    return np.ascontiguousarray(
        np.column_stack([x, np.log(probabilities / np.log(2.0)), _log1p_exp(x), expit(-x)])
    )
