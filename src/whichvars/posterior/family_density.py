r"""Predictive distributions of responses that are not Gaussian, where the linear predictor η is normal.

In one model η ~ N(m, v) (``fits.py``), so that a response y of weight w has the predictive density

.. math:: p(y) = \int p(y \mid \eta)^w\, N(\eta; m, v)\, d\eta.

The integrand is log-concave, but for Student responses. Its mode is found by Newton's method between m and m + v ℓ'(m), where it must lie, and the integral is
computed by the trapezoid rule in u, with η = mode + s·sinh(u) and s⁻² minus the second derivative at the mode. This follows a
narrow likelihood, such as that of a large count, as well as long tails, and its error is of the order of 1e-10. The density of a Student response is
not narrow beside N(m, v), so that the trapezoid rule between m ± 9√v does as well.

Quantiles of counts need the distribution of η averaged over models. It is put on a grid, on which p(y ≤ k | η) is summed.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainc, expit, gammaincc, gammaln, log_ndtr, ndtr, stdtr

from whichvars._kernels.densities import BINOMIAL, POISSON, STUDENT
from whichvars.problem.families import Family, NegativeBinomial, Student

# the trapezoid rule: its end in standard deviations √v, its step in u, and the longest step in η beside the width of a logistic curve
FURTHEST, STEP, LONGEST = 9.0, 0.12, 0.4
# most steps to either side: only if nearly nothing is known of η, as under a wide prior and separation, are there more
MOST_POINTS = 400
MOST_STEPS = 80  # of Newton's method
SMALLEST_VARIANCE = 1e-24
# grid of η for quantiles: nodes for one standard deviation of the narrowest component, and most of them
PER_SD, MOST_NODES = 10.0, 6000
# steps of the same for one scale of a Student response
PER_SCALE = 10.0
# of the Gauss–Hermite rule for probabilities of responses below those observed
PIT_NODES = 21


class Observed(NamedTuple):
    """n responses as the log density of a family needs them: ℓ(y, η) with `trials`, at η + shift, plus a constant."""

    code: int
    y: np.ndarray  # (n,)
    trials: np.ndarray  # (n,)
    shift: float
    constant: np.ndarray  # (n,)
    weight: np.ndarray  # (n,)
    df: float = 0.0  # of a Student response, whose `trials` are df · s²

    def some(self, rows: slice | np.ndarray) -> "Observed":
        return self._replace(
            y=self.y[rows],
            trials=self.trials[rows],
            constant=self.constant[rows],
            weight=self.weight[rows],
        )


def observed(
    family: Family,
    y: np.ndarray,
    trials: np.ndarray,
    r: float | None = None,
    weight: np.ndarray | None = None,
) -> Observed:
    """Responses of a family; r is the dispersion of negative binomial counts, or the scale of a Student response."""
    assert family.name != "gaussian"
    w = np.ones(len(y)) if weight is None else weight
    if isinstance(family, NegativeBinomial):
        assert r is not None
        constant = gammaln(y + r) - gammaln(r) - gammaln(y + 1)
        return Observed(family.code, y, y + r, -float(np.log(r)), constant, w)
    if isinstance(family, Student):
        assert r is not None
        df = float(family.df)
        level = gammaln((df + 1) / 2) - gammaln(df / 2) - np.log(df * np.pi) / 2 - np.log(r)
        return Observed(family.code, y, np.full(len(y), df * r * r), 0.0, np.full(len(y), level), w, df)
    constant = -gammaln(y + 1) if family.name == "poisson" else np.zeros(len(y))
    if family.name == "logistic":
        constant = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)
    return Observed(family.code, y, trials, 0.0, constant, w)  # type: ignore[union-attr]


def log_likelihood(data: Observed, eta: np.ndarray) -> np.ndarray:
    """w (ℓ(y, η) + constant) at η, (n, C)."""
    constant, weight = data.constant[:, None], data.weight[:, None]
    return weight * (_varying(data, eta + data.shift) + constant)


def score_and_curvature(data: Observed, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """w ℓ' and −w ℓ'' at η, (n, C)."""
    first, second = _derivatives(data, eta + data.shift)
    return data.weight[:, None] * first, data.weight[:, None] * second


def _varying(data: Observed, eta: np.ndarray) -> np.ndarray:
    y, trials = data.y[:, None], data.trials[:, None]
    if data.code == BINOMIAL:
        return y * eta - trials * np.logaddexp(0.0, eta)
    if data.code == POISSON:
        with np.errstate(over="ignore"):
            return y * eta - np.exp(eta)
    if data.code == STUDENT:
        return -(data.df + 1) / 2 * np.log1p((y - eta) ** 2 / trials)
    return log_ndtr((2 * y - 1) * eta)


def _derivatives(data: Observed, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ℓ' and −ℓ''."""
    y, trials = data.y[:, None], data.trials[:, None]
    if data.code == BINOMIAL:
        share = expit(eta)
        return y - trials * share, trials * share * expit(-eta)
    if data.code == POISSON:
        with np.errstate(over="ignore"):
            mean = np.exp(eta)
        return y - mean, mean
    if data.code == STUDENT:
        whole = trials + (y - eta) ** 2
        pull = (data.df + 1) / whole
        return pull * (y - eta), pull * (2 * trials / whole - 1)
    sign = 2 * y - 1
    t = sign * eta
    mills = np.exp(-t * t / 2 - log_ndtr(t)) / np.sqrt(2 * np.pi)
    return sign * mills, np.maximum(mills * (t + mills), 0.0)


def log_predictive_density(data: Observed, m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """log ∫ p(y | η)^w N(η; m, v) dη of n responses in C models, (n, C)."""
    if data.code == STUDENT:
        return _log_student_density(data, m, v)
    m, v, weight = m + data.shift, np.maximum(v, SMALLEST_VARIANCE), data.weight[:, None]
    mode, precision = _mode(data, m, v)
    s = 1 / np.sqrt(precision)
    widest = float(s.max(initial=1e-6))
    end = float(np.arcsinh(FURTHEST * np.sqrt(v) / s).max(initial=1.0))
    step = min(STEP, LONGEST / widest)
    nodes = np.linspace(-end, end, 2 * int(min(np.ceil(end / step), MOST_POINTS)) + 1)
    top = weight * _varying(data, mode) - (mode - m) ** 2 / (2 * v)
    total = np.zeros_like(m)
    for u in nodes:
        eta = mode + s * np.sinh(u)
        value = weight * _varying(data, eta)
        value -= (eta - m) ** 2 / (2 * v)
        value -= top
        total += np.cosh(u) * np.exp(value)
    log = np.log(total * (nodes[1] - nodes[0])) + np.log(s) - 0.5 * np.log(2 * np.pi * v)
    return top + log + weight * data.constant[:, None]


def _log_student_density(data: Observed, m: np.ndarray, v: np.ndarray) -> np.ndarray:
    root = np.sqrt(v)
    shortest = float(np.sqrt(data.trials.min() / data.df))
    # by half a standard deviation of η or four tenths of the scale
    step = min(0.5, LONGEST * shortest / max(float(root.max(initial=0.0)), 1e-300))
    steps = int(min(np.ceil(FURTHEST / step), MOST_POINTS))
    total, top = np.zeros_like(m), log_likelihood(data, m)
    nodes = np.linspace(-FURTHEST, FURTHEST, 2 * steps + 1)
    for u in nodes:
        total += np.exp(log_likelihood(data, m + root * u) - top - u * u / 2)
    return top + np.log(total * (nodes[1] - nodes[0])) - 0.5 * np.log(2 * np.pi)


def probabilities_below(
    family: Family, y: np.ndarray, trials: np.ndarray, r: float, m: np.ndarray, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """P(y* < y) and P(y* ≤ y) of new responses y* of the family with dispersion or scale r, where η ~ N(m, v), (n, C)."""
    node, weight = np.polynomial.hermite_e.hermegauss(PIT_NODES)
    k, number, below, up_to = y[:, None], trials[:, None], np.zeros_like(m), np.zeros_like(m)
    for x, w in zip(node, weight / weight.sum()):
        eta = m + np.sqrt(v) * x
        up_to += w * _cdf(family, k, number, eta, r)
        if not isinstance(family, Student):
            below += w * _cdf(family, k - 1, number, eta, r)
    return (up_to if isinstance(family, Student) else below), up_to


def _mode(data: Observed, m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where w ℓ(y, η) − (η − m)²/2v is largest, and minus its second derivative there."""
    weight = data.weight[:, None]
    first, _ = _derivatives(data, m)
    with np.errstate(over="ignore"):
        far = np.clip(m + v * weight * first, -1e300, 1e300)
    low, high = np.minimum(m, far), np.maximum(m, far)
    if data.code == POISSON:  # beyond log y the likelihood falls
        high = np.minimum(high, np.maximum(m, np.log(np.maximum(data.y, 1e-300))[:, None]))
    x = m.copy()
    for _ in range(MOST_STEPS):
        first, second = _derivatives(data, x)
        slope, precision = weight * first - (x - m) / v, weight * second + 1 / v
        low, high = np.where(slope >= 0, x, low), np.where(slope <= 0, x, high)
        new = x + slope / precision
        new = np.where((new >= low) & (new <= high), new, (low + high) / 2)
        moved = np.abs(new - x) * np.sqrt(precision)
        x = new
        if not (moved > 1e-5).any():
            break
    return x, weight * _derivatives(data, x)[1] + 1 / v


# --- quantiles


def eta_grid(
    weight: np.ndarray, m: np.ndarray, v: np.ndarray, step: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The mixture Σ weight · N(m, v) on a grid: nodes (K,) and their masses, (K,) or for several columns of weights (C, L) → (L, K),
    which sum to one in total. Nodes are `step` apart, or a tenth of the smallest standard deviation."""
    sd = np.sqrt(np.maximum(v, SMALLEST_VARIANCE))
    low, high = float((m - 8 * sd).min()), float((m + 8 * sd).max())
    count = int(
        np.clip(np.ceil((high - low) / (sd.min() / PER_SD if step is None else step)), 60, MOST_NODES)
    )
    nodes = np.linspace(low, high, count)
    # masses between the middles of nodes, which also hold a component that is narrower than the grid
    edges = (nodes[1:] + nodes[:-1]) / 2
    below = ndtr((edges - m[:, None]) / sd[:, None])
    masses = np.diff(np.column_stack([np.zeros(len(m)), below, np.ones(len(m))]), axis=1)
    return nodes, weight.T @ masses


def response_quantile(
    family: Family, trials: float, nodes: np.ndarray, masses: np.ndarray, r: np.ndarray, level: float
) -> float:
    """The smallest k with P(y ≤ k) ≥ level, y a count (or a number of successes, or a number), η and r as given: nodes (K,), masses (L, K),
    r (L,)."""

    def below(k: float) -> float:
        return float((_cdf(family, k, trials, nodes, r[:, None]) * masses).sum())

    if isinstance(family, Student):
        return _student_quantile(below, float(nodes[0]), float(nodes[-1]), float(r.max()), level)
    low, high = -1.0, 1.0
    most = trials if family.name in ("logistic", "probit") else np.inf
    while high < most and below(high) < level:
        low, high = high, 2 * high + 1
    high = min(high, most)
    while high - low > 1:
        middle = float(np.floor((low + high) / 2))
        low, high = (middle, high) if below(middle) < level else (low, middle)
    return high


def _student_quantile(
    below: Callable[[float], float], low: float, high: float, unit: float, level: float
) -> float:
    """Where `below`, which rises from 0 to 1, is `level`."""
    from scipy.optimize import brentq  # slow to import

    while below(low) > level:
        low -= unit
        unit *= 2
    while below(high) < level:
        high += unit
        unit *= 2
    return float(brentq(lambda k: below(k) - level, low, high, xtol=1e-12 * unit, rtol=1e-10))


def _cdf(family: Family, k: Any, trials: Any, eta: np.ndarray, r: Any) -> np.ndarray:
    """P(y ≤ k | η), k, trials, η and r of shapes that go together."""
    if isinstance(family, Student):
        return stdtr(family.df, (k - eta) / r)
    inside = np.maximum(k, 0)
    if family.name in ("logistic", "probit"):
        other = expit(-eta) if family.name == "logistic" else ndtr(-eta)
        value = np.where(k >= trials, 1.0, betainc(np.maximum(trials - k, 1), inside + 1, other))
    else:
        with np.errstate(over="ignore"):
            mean = np.exp(eta)
        value = (
            gammaincc(inside + 1, mean)
            if family.name == "poisson"
            else betainc(r, inside + 1, r / (r + mean))
        )
    return np.where(k < 0, 0.0, value)
