"""Mixtures of t distributions: distribution function and quantiles, fast for millions of components. With infinite degrees
of freedom t is the normal distribution.

The distribution function of one t is read from a table of cubics. A quantile is first looked for in a sample of the
components, and then by Newton's method in all of them, which takes two to four looks at each.
"""

from functools import lru_cache

import numpy as np
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

# largest |asinh z| and number of intervals of the table of the t distribution function
T_END, T_CELLS = 30.0, 12000
# number of intervals of the table over z/√(d + z²), and the largest |z| that it covers for large d
R_CELLS, R_REACH = 8192, 30.0
# least degrees of freedom of this table, so that it is smooth up to both ends
LEAST_FOR_R = 12.0
# components of a mixture that are processed together
PIECE = 1 << 14
# components of the sample that gives the first guess of a quantile
FEW = 8192
# total weight of the components that a quantile may neglect
NEGLIGIBLE = 1e-10


def log_t_constant(degrees: float) -> float:
    """Logarithm of the density of t at 0."""
    if degrees == np.inf:
        return float(-0.5 * np.log(2 * np.pi))
    return float(gammaln((degrees + 1) / 2) - gammaln(degrees / 2) - 0.5 * np.log(degrees * np.pi))


def t_variance(degrees: float) -> float:
    """Variance of a t distribution of scale 1."""
    if degrees == np.inf:
        return 1.0
    return degrees / (degrees - 2) if degrees > 2 else np.inf


@lru_cache(maxsize=64)
def _t_table(degrees: float) -> np.ndarray:
    """Cubics through value and slope of the t distribution function on even steps of asinh(z): (4, T_CELLS)."""
    u = np.linspace(-T_END, T_END, T_CELLS + 1)
    h = u[1] - u[0]
    z = np.sinh(u)
    if degrees == np.inf:
        value, away = ndtr(z), z**2 / 2
    else:
        value, away = stdtr(degrees, z), (degrees + 1) / 2 * np.log1p(z**2 / degrees)
    slope = h * np.cosh(u) * np.exp(log_t_constant(degrees) - away)
    rise = np.diff(value)
    left, right = slope[:-1], slope[1:]
    return np.stack([value[:-1], left, 3 * rise - 2 * left - right, left + right - 2 * rise])


def _t_cell(degrees: float, z: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """The cubics for these z, by power, and the place within their cells."""
    place = np.arcsinh(z)
    place += T_END
    place *= T_CELLS / (2 * T_END)
    np.clip(place, 0.0, T_CELLS * (1 - 1e-12), out=place)
    cell = place.astype(np.int64)
    place -= cell
    return [np.take(power, cell) for power in _t_table(degrees)], place  # ten times as fast as [cell]


def _cubic(c: list[np.ndarray], at: np.ndarray) -> np.ndarray:
    value = c[3] * at
    for lower in (c[2], c[1]):
        value += lower
        value *= at
    value += c[0]
    return value


def t_cdf(degrees: float, z: np.ndarray) -> np.ndarray:
    """Distribution function of t, to about 1e-11: a hundred times faster than by the incomplete beta function.
    Shape (n,)."""
    return _cubic(*_t_cell(degrees, z))


@lru_cache(maxsize=64)
def _r_table(degrees: float) -> tuple[float, np.ndarray]:
    """How far the table over r = z/√(degrees + z²) reaches, and its cubics through value and slope, (4, R_CELLS)."""
    reach = min(1.0, R_REACH / np.sqrt(degrees))
    r = np.linspace(-reach, reach, R_CELLS + 1)
    rest = np.maximum(1 - r * r, 0.0)
    with np.errstate(divide="ignore"):
        value = stdtr(degrees, r * np.sqrt(degrees / rest))
    constant = np.exp(gammaln((degrees + 1) / 2) - gammaln(degrees / 2)) / np.sqrt(np.pi)
    slope = (r[1] - r[0]) * constant * rest ** (degrees / 2 - 1)
    rise = np.diff(value)
    left, right = slope[:-1], slope[1:]
    return reach, np.stack([value[:-1], left, 3 * rise - 2 * left - right, left + right - 2 * rise])


def t_cdf_by_share(degrees: float, r: np.ndarray) -> np.ndarray:
    """Distribution function of t at the z of which r = z/√(degrees + z²) in [-1, 1] is given, to about 1e-11; no
    function but a table is needed. Shape (n,).

    >>> print(t_cdf_by_share(20.0, np.array([0.0, 2 / np.sqrt(24)])).round(6))
    [0.5      0.970367]
    """
    if degrees < LEAST_FOR_R:
        with np.errstate(divide="ignore"):
            return t_cdf(degrees, r * np.sqrt(degrees / np.maximum(1 - r * r, 0.0)))
    reach, table = _r_table(degrees)
    at = r * (R_CELLS / (2 * reach))
    at += R_CELLS / 2
    np.clip(at, 0.0, R_CELLS * (1 - 1e-12), out=at)
    cell = at.astype(np.int64)
    at -= cell
    return _cubic([np.take(power, cell) for power in table], at)


def _t_cdf_and_density(degrees: float, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``t_cdf`` and its derivative."""
    c, at = _t_cell(degrees, z)
    slope = 3 * c[3]
    slope *= at
    slope += 2 * c[2]
    slope *= at
    slope += c[1]
    slope *= T_CELLS / (2 * T_END)
    slope /= np.sqrt(1 + z * z)
    return _cubic(c, at), slope


def heaviest(weight: np.ndarray) -> np.ndarray:
    """The indices of all components except those of smallest weight, which together have less than NEGLIGIBLE of it."""
    return np.flatnonzero(weight > NEGLIGIBLE * weight.sum() / max(len(weight), 1))


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    """aᵀb without BLAS, whose threads take longer to start than this takes."""
    return float(np.einsum("i,i", a, b))


class TMixture:
    """A mixture of t distributions and, if the scale is 0, of point masses. Arrays (components,)."""

    def __init__(
        self, weight: np.ndarray, location: np.ndarray, scale: np.ndarray, degrees: np.ndarray
    ) -> None:
        spread = scale > 0
        self._all = weight, location, scale, degrees
        self._kinds = np.unique(degrees)
        self._parts = []  # in pieces that stay in the processor's cache
        for d in self._kinds.tolist():
            group = np.flatnonzero(spread & (degrees == d))
            for first in range(0, len(group), PIECE):
                g = group[first : first + PIECE]
                self._parts.append((d, weight[g], location[g], 1 / scale[g]))
        self._points = (weight[~spread], location[~spread])

    def cdf(self, x: float) -> float:
        """Probability of at most x."""
        weight, points = self._points
        total = sum(_dot(w, t_cdf(d, (x - at) * rate)) for d, w, at, rate in self._parts)
        return total + float(weight @ (points <= x))

    def cdf_and_density(self, x: float) -> tuple[float, float]:
        """The same with its derivative; for mixtures without points."""
        total = density = 0.0
        for d, w, at, rate in self._parts:
            below, slope = _t_cdf_and_density(d, (x - at) * rate)
            total += _dot(w, below)
            density += _dot(w * rate, slope)
        return total, density

    def bracket(self, level: float) -> tuple[float, float]:
        """Bounds of the quantile: the smallest and the largest quantile of the components."""
        _, location, scale, degrees = self._all
        quantiles = np.where(self._kinds == np.inf, ndtri(level), stdtrit(self._kinds, level))
        ends = location + scale * quantiles[np.searchsorted(self._kinds, degrees)]
        return float(ends.min()), float(ends.max())

    def quantile(self, level: float, total: float = 1.0) -> float:
        """Where the distribution function reaches `level`; the weights sum to `total`."""
        low, high = self.bracket(level / total)
        if not low < high:
            return low
        if not np.isfinite(high - low):
            return np.nan
        if len(self._points[0]):  # with jumps, by bracketing alone
            return self._bracketed(level, low, high)
        return self._newton(level, total, low, high)

    def _bracketed(self, level: float, low: float, high: float) -> float:
        def excess(x: float) -> float:
            return self.cdf(x) - level

        if excess(low) >= 0:
            return low
        if excess(high) <= 0:
            return high
        from scipy.optimize import brentq  # slow to import, and few mixtures have jumps

        return float(brentq(excess, low, high, xtol=1e-13 * (high - low), rtol=1e-14))

    def _newton(self, level: float, total: float, low: float, high: float) -> float:
        """Newton's method from the quantile of a sample of the components, with bisection if a step leaves the bracket.

        Convergence is quadratic. The last step needs no check if it is short compared with the scale of every component,
        and if it corrects little compared with both tails.
        """
        scale = self._all[2]
        x = self._first_guess(level, low, high)
        small, short = 1e-7 * min(level, total - level), 1e-3 * float(scale.min())
        for _ in range(200):
            value, slope = self.cdf_and_density(x)
            low, high = (x, high) if value < level else (low, x)
            step = (value - level) / slope if slope > 0 else np.inf
            new = x - step if low <= x - step <= high else (low + high) / 2
            done = abs(value - level) <= small and abs(step) <= short
            if done or abs(new - x) <= 1e-13 * (abs(x) + high - low) or new in (low, high):
                return float(new)
            x = new
        return float(x)

    def _first_guess(self, level: float, low: float, high: float) -> float:
        """The quantile of FEW components drawn evenly by weight."""
        weight = self._all[0]
        if len(weight) <= 2 * FEW:
            return (low + high) / 2
        points = (np.arange(FEW) + 0.5) * (weight.sum() / FEW)
        some = np.minimum(np.searchsorted(np.cumsum(weight), points), len(weight) - 1)
        location, scale, degrees = (v[some] for v in self._all[1:])
        sample = TMixture(np.full(FEW, weight.sum() / FEW), location, scale, degrees)
        return sample._bracketed(level, low, high)
