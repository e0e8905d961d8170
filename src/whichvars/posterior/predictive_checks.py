r"""Does the model fit? Draws of new responses, and comparisons of the observed ones with them.

A posterior predictive check draws responses y* for the same rows, from models, coefficients and noise drawn from the posterior, and compares a
statistic T of them with that of the observed responses. Its p-value is P(T(y*) ≥ T(y)), a tie counting one half: near 0 or 1 the
model does not produce data like those observed (Gelman, Meng and Stern 1996, Statistica Sinica 6, 733–807). Because the rows took part in the fit,
p-values are nearer to one half than uniform ones. The probability integral transforms of ``Posterior.loo``, which leave each row out, are not.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import bdtr, bdtrik, expit, ndtr

from whichvars.data.frames import read_vector
from whichvars.data.rows import check_same_rows
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.posterior.family_prediction import DISPERSION, SCALE, inverse_link, read_offset
from whichvars.posterior.prediction import NOISE, read_new
from whichvars.problem.families import Gaussian, NegativeBinomial, Student, is_linear
from whichvars.problem.responses import read_new_response, read_new_trials

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior


Statistic = Callable[[np.ndarray], float]
# points at which distributions are compared
CDF_POINTS = 300
# largest mean of a count that is drawn
MOST = 1e15


def draw_responses(
    posterior: "Posterior", X: Any, n: int, seed: int | None, weights: Any, offset: Any, trials: Any
) -> np.ndarray:
    """What ``Posterior.draw_response`` returns."""
    problem, kept, family = posterior.problem, posterior.kept, posterior.problem.family
    draws = posterior.draw(n, seed)
    # another stream than that of the coefficients
    rng = np.random.default_rng(None if seed is None else [seed, 1])
    z, x, columns = read_new(problem, kept, X)
    rows, q, flat = len(x), len(problem.flat.z_index), problem.flat
    table = draws.to_numpy()
    level, delta, beta = table[:, 0], table[:, 1 : 1 + q], table[:, 1 + q : 1 + q + len(problem.columns_used)]
    level = level + delta @ flat.z_mean + beta @ flat.x_mean
    eta = level[:, None] + delta @ z.T + beta[:, columns] @ x.T
    if isinstance(family, Gaussian):
        weight = np.ones(rows) if weights is None else read_vector(weights, rows, "weights")
        if not (weight > 0).all():
            raise DataError(
                "weights must be positive; leave out rows of weight 0, whose responses have no variance"
            )
        spread = np.sqrt(draws[NOISE].to_numpy()[:, None] / weight)
        return eta + spread * rng.standard_normal(eta.shape)
    if weights is not None:
        raise DataError("weights are for Gaussian responses")
    eta += read_offset(problem, offset, rows)
    if isinstance(family, Student):
        return eta + draws[SCALE].to_numpy()[:, None] * rng.standard_t(family.df, eta.shape)
    if family.name in ("logistic", "probit"):
        number = read_new_trials(family, trials, rows)
        share = expit(eta) if family.name == "logistic" else ndtr(eta)
        return rng.binomial(number.astype(np.int64), share).astype(float)
    mean = np.minimum(inverse_link(family)(eta), MOST)
    if isinstance(family, NegativeBinomial):
        r = draws[DISPERSION].to_numpy() if DISPERSION in draws else np.full(n, family.start)
        mean = np.minimum(mean * rng.gamma(r[:, None], 1 / r[:, None], mean.shape), MOST)
    return rng.poisson(mean).astype(float)


def default_statistics(posterior: "Posterior") -> dict[str, Statistic]:
    """What is compared unless something else is asked for."""
    family = posterior.problem.family
    if family.name in ("logistic", "probit"):
        return {"mean": np.mean, "sd": np.std}
    found: dict[str, Statistic] = {"mean": np.mean, "sd": np.std, "min": np.min, "max": np.max}
    if is_linear(family):
        return found | {"skewness": _skewness, "kurtosis": _kurtosis}
    return found | {
        "share_of_zeros": lambda y: float(np.mean(y == 0)),
        "variance_over_mean": lambda y: float(np.var(y) / np.maximum(np.mean(y), 1e-300)),
    }


def _standardised(y: np.ndarray) -> np.ndarray:
    return (y - y.mean()) / max(float(y.std()), 1e-300)


def _skewness(y: np.ndarray) -> float:
    return float(np.mean(_standardised(y) ** 3))


def _kurtosis(y: np.ndarray) -> float:
    return float(np.mean(_standardised(y) ** 4))


def check_table(
    posterior: "Posterior",
    X: Any,
    y: Any,
    statistics: Any,
    n: int,
    seed: int | None,
    weights: Any,
    offset: Any,
    trials: Any,
) -> pd.DataFrame:
    """What ``Posterior.predictive_check`` returns."""
    chosen = default_statistics(posterior) if statistics is None else statistics
    if not isinstance(chosen, Mapping) or not all(callable(f) for f in chosen.values()) or not chosen:
        raise ArgumentTypeError(
            "statistics must be a mapping from names to functions of a response, such as {'median': numpy.median}"
        )
    drawn = draw_responses(posterior, X, n, seed, weights, offset, trials)
    observed = observed_responses(posterior, X, y, drawn.shape[1], trials)
    rows = {}
    for name, statistic in chosen.items():
        value = float(statistic(observed))
        values = np.array([float(statistic(row)) for row in drawn])
        above = (values > value) + 0.5 * (values == value)
        lower, upper = np.quantile(values, (0.05, 0.95))
        share = float(above.mean())
        rows[name] = {
            "observed": value,
            "mean": float(values.mean()),
            "lower": float(lower),
            "upper": float(upper),
            "p_value": share,
            "mcse": float(np.sqrt(share * (1 - share) / n)),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("statistic")


def observed_responses(posterior: "Posterior", X: Any, y: Any, rows: int, trials: Any) -> np.ndarray:
    """The responses as numbers: 0 and 1 for two values."""
    check_same_rows(rows, X, y=y)
    family = posterior.problem.family
    if isinstance(family, Gaussian):
        return read_vector(y, rows, "y")
    return read_new_response(family, posterior.problem.classes, y, rows, trials)[0]


class Bands(NamedTuple):
    """Shares of responses below each value of a grid: those observed, and ends of bands with 50 and 90 % of the draws."""

    grid: np.ndarray
    observed: np.ndarray
    low90: np.ndarray
    low50: np.ndarray
    high50: np.ndarray
    high90: np.ndarray
    draws: int
    whole: bool  # whether the responses are whole numbers


def bands_of(drawn: np.ndarray, observed: np.ndarray, counts: bool) -> Bands:
    """Compare the distribution of observed responses, (rows,), with those drawn, (draws, rows); `counts` are whole numbers."""
    low, high = min(observed.min(), np.quantile(drawn, 0.001)), max(observed.max(), np.quantile(drawn, 0.999))
    whole = counts and high - low <= CDF_POINTS
    grid = np.arange(low, high + 1) if whole else np.linspace(low, high, CDF_POINTS)
    below = np.array([np.searchsorted(np.sort(row), grid, side="right") for row in drawn]) / drawn.shape[1]
    own = np.searchsorted(np.sort(observed), grid, side="right") / len(observed)
    ends = np.quantile(below, (0.05, 0.25, 0.75, 0.95), axis=0)
    return Bands(grid, own, ends[0], ends[1], ends[2], ends[3], len(drawn), bool(whole))


def coverage_table(pit: np.ndarray, levels: Any) -> pd.DataFrame:
    """What ``Posterior.interval_calibration`` returns, from the probability integral transforms of rows."""
    levels = np.atleast_1d(np.asarray(levels, float))
    if not ((levels > 0) & (levels < 1)).all():
        raise DataError(f"levels must lie between 0 and 1, not {levels.tolist()}")
    n = len(pit)
    inside = np.array([(np.abs(pit - 0.5) <= level / 2).mean() for level in levels])
    # smallest numbers of rows up to which the binomial distribution has 5 % and 95 %
    low, high = (
        np.array([_binomial_quantile(n, level, end) for level in levels]) / n for end in (0.05, 0.95)
    )
    return pd.DataFrame(
        {"rows": n, "observed": inside, "lower": low, "upper": high}, index=pd.Index(levels, name="level")
    )


def _binomial_quantile(n: int, p: float, level: float) -> float:
    k = max(int(np.ceil(bdtrik(level, n, p))), 0)
    while k > 0 and bdtr(k - 1, n, p) >= level:
        k -= 1
    return float(k)
