r"""Is the linear model fit for this response? What residuals say about it.

A remark is made where a departure is both large enough to matter and too large to be due to chance (more than four standard errors): skewness above 1,
excess kurtosis above 2 (tails are called heavy and not skewed if the middle of the residuals is symmetric), a rank correlation above 0.2 between fitted values and the sizes of residuals, or between residuals and the square of a
selected variable. A row is an outlier if a residual as large as its own is expected less than once in a hundred such tables.

Residuals of a Student response, divided by its scale, are replaced by the normal quantiles of their probabilities under its t distribution. They are
then normal if the family is right, and the same checks apply.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import betaincinv, ndtr, ndtri, stdtr

from whichvars.data.frames import read_vector
from whichvars.errors import DataError
from whichvars.posterior.prediction import read_new
from whichvars.posterior.predictive_checks import Bands, bands_of, draw_responses
from whichvars.posterior.scores import leave_one_out
from whichvars.problem.families import Student
from whichvars.problem.moment_priors import MomentPrior

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior

# rows below which nothing is said of shapes
FEWEST = 20
# standard errors beyond which a departure is not due to chance
STRONG = 4.0
SKEWED, HEAVY, RELATED = 1.0, 2.0, 0.2
# (q₉₀ + q₁₀ − 2 q₅₀)/(q₉₀ − q₁₀) of residuals, q their deciles, up to which their middle is called symmetric, or 1.5 standard
# errors of it, 1/√n each, if that is more
SYMMETRIC = 0.15
# rows times models up to which each row is predicted from the others
MOST_LEFT_OUT = 30_000_000
# least share of the models' weights that is left without a row that does not decide which models are good
LEAST_SHARE = 0.1
# standard deviations of the noise by which a row may move its own fitted value
MOST_MOVED = 2.0
NAMED = 5
# of freedom, which are suggested if those of a Student response are too many
FEWEST_DEGREES = 3
# rows of a picture, order statistics at each end of it, draws, and most rows that are drawn for if X is no frame
MOST_DRAWN, ENDS, DRAWS, MOST_ROWS = 2000, 50, 100, 20_000
# how to have a curved effect, and heavy tails, in Python
SPLINE = "expand=[wv.spline({name!r})]"
STUDENT = 'Problem(…, family="student")'


@dataclass(frozen=True)
class ResidualCheck:
    """What residuals say about a model; made by ``Posterior.residual_check``.

    ``remarks`` has sentences for what was found, and is empty if nothing speaks against the model. ``r_squared`` is that of the averaged fit, and
    ``loo_r_squared`` that of predictions of each row from all others, None if it was not computed. ``outliers`` and ``influential`` are row labels.
    ``plot_residuals`` draws it, and ``Posterior.report(…, check=…)`` has the pictures.
    """

    remarks: tuple[str, ...]
    skewness: float
    kurtosis: float  # excess over that of a normal distribution
    spread_trend: float  # rank correlation of fitted values and sizes of residuals
    curved: dict[str, float]  # rank correlations of residuals and squares of selected variables
    outliers: tuple[Any, ...]
    influential: tuple[Any, ...]
    r_squared: float
    loo_r_squared: float | None
    # for pictures, of at most 2,000 rows: fitted values, standardised residuals and whether they are outliers, (3, rows)
    points: np.ndarray | None = field(default=None, repr=False, compare=False)
    # normal quantiles, sorted residuals, and where these lie with 90 % probability if they are normal, (4, rows)
    quantiles: np.ndarray | None = field(default=None, repr=False, compare=False)
    # responses drawn and compared with those observed
    bands: Bands | None = field(default=None, repr=False, compare=False)


def check_residuals(
    posterior: "Posterior",
    X: Any,
    y: Any,
    weights: Any,
    log: str,
    influence: bool = True,
    spline: str = SPLINE,
    student: str = STUDENT,
) -> ResidualCheck:
    """What ``Posterior.residual_check`` returns; `log`, `spline` and `student` say how to take logarithms, and how to have curves and heavy tails.
    Without `influence`, rows are not predicted from the others."""
    table = _own_residuals(posterior, X, y, weights)
    r = table["standardised"].to_numpy()
    used = np.isfinite(r)
    labels, r, fitted = np.asarray(table.index)[used], r[used], table["fitted"].to_numpy()[used]
    observed = read_vector(y, len(table), "y")[used]
    n, family = len(r), posterior.problem.family
    noise = (
        float(np.median(np.abs((observed - fitted) / np.where(r == 0, np.nan, r))[r != 0]))
        if r.any()
        else 1.0
    )
    if isinstance(family, Student):
        r = _normal_scores(family, r)
    z = (r - r.mean()) / max(r.std(), 1e-300)
    skewness, kurtosis = float((z**3).mean()), float((z**4).mean() - 3)
    trend = _rank_correlation(fitted, np.abs(z))
    curved = _curvature(posterior, X, used, z)
    extreme = 2 * ndtr(-np.abs(r)) * n < 0.01
    outliers = tuple(labels[np.flatnonzero(extreme)[np.argsort(-np.abs(r[extreme]), kind="stable")]].tolist())
    r_squared = _explained(observed, fitted, observed.mean())
    influential: tuple[Any, ...] = ()
    loo_r_squared = None
    # leaving rows out takes long under non-local slabs, and here nobody has asked for it
    possible = n > 3 and not isinstance(posterior.problem.slab, MomentPrior)
    if influence and possible and n * len(posterior.kept) <= MOST_LEFT_OUT:
        if isinstance(family, Student):
            left = posterior.loo()
        else:
            left = leave_one_out(posterior.problem, posterior.kept, X, y, weights)
        moved = np.abs(left["mean"].to_numpy() - fitted) / max(noise, 1e-300)
        weak = (left["share"].to_numpy() < LEAST_SHARE) | (moved > MOST_MOVED)
        influential = tuple(labels[weak].tolist())
        # against the mean of the other rows
        others = observed - (observed - observed.mean()) * n / (n - 1)
        loo_r_squared = _explained(observed, left["mean"].to_numpy(), others)
    drawn = _drawn(posterior, X, weights, used, observed) if influence else None
    log = f" The logarithm of the response may fit better: {log}." if (observed > 0).all() else ""
    advice = f" Noise with heavy tails (Student's t distribution) may fit better: {student}."
    normal = "a normal distribution"
    if isinstance(family, Student):
        normal, advice = f"Student's t distribution with {family.df:g} degrees of freedom", ""
        if family.df > FEWEST_DEGREES:
            fewer = f"--df {FEWEST_DEGREES}" if student.startswith("--") else f"Student(df={FEWEST_DEGREES})"
            advice = f" Fewer degrees of freedom may fit better: {fewer}."
    low, middle, high = np.quantile(z, (0.1, 0.5, 0.9))
    symmetric = abs(high + low - 2 * middle) <= max(SYMMETRIC, 1.5 / np.sqrt(n)) * (high - low)
    remarks = _remarks(
        n, skewness, kurtosis, symmetric, trend, curved, outliers, influential, log, spline, normal, advice
    )
    return ResidualCheck(
        tuple(remarks), skewness, kurtosis, trend, curved, outliers, influential, r_squared, loo_r_squared,
        _points(fitted, r, extreme), _quantiles(r), drawn,
    )  # fmt: skip


def _own_residuals(posterior: "Posterior", X: Any, y: Any, weights: Any) -> pd.DataFrame:
    """Residuals of the rows that the problem was made with. A Student response, whose problem has these rows, may have an offset."""
    if not isinstance(posterior.problem.family, Student):
        return posterior.residuals(X, y, weights=weights)
    if weights is not None:
        raise DataError("weights are for Gaussian responses; those of a Student response are known")
    table = posterior.residuals()
    if len(X) != len(table):
        raise DataError(
            f"X has {len(X)} rows, but the problem was made with {len(table)} of positive weight; give these"
        )
    return table.set_axis(X.index) if isinstance(X, (pd.DataFrame, pd.Series)) else table


def _normal_scores(family: Student, r: np.ndarray) -> np.ndarray:
    """Normal quantiles of the probabilities of residuals that are divided by the standard deviation of the noise, (n,)."""
    tail = stdtr(family.df, -np.abs(r) * np.sqrt(family.noise_factor))
    return -np.sign(r) * ndtri(np.maximum(tail, 1e-300))


def _some(n: int) -> np.ndarray:
    """At most so many rows as a picture has, chosen at random."""
    if n <= MOST_DRAWN:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, MOST_DRAWN, replace=False))


def _points(fitted: np.ndarray, r: np.ndarray, outlier: np.ndarray) -> np.ndarray:
    rows = np.union1d(_some(len(r)), np.flatnonzero(outlier)[:MOST_DRAWN])
    return np.array([fitted[rows], r[rows], outlier[rows].astype(float)])


def _quantiles(r: np.ndarray) -> np.ndarray:
    """Sorted residuals beside normal quantiles, and the 5 % and 95 % quantiles of order statistics: Φ⁻¹ of those of Beta(i, n + 1 − i)."""
    n = len(r)
    rank = np.arange(1, n + 1)
    if n > MOST_DRAWN:  # all at both ends, where they matter
        rank = np.unique(np.concatenate([rank[:ENDS], np.linspace(1, n, MOST_DRAWN).round().astype(int), rank[-ENDS:]]))  # fmt: skip
    ends = [ndtri(betaincinv(rank, n + 1 - rank, level)) for level in (0.05, 0.95)]
    return np.array([ndtri((rank - 0.5) / n), np.sort(r)[rank - 1], *ends])


def _drawn(
    posterior: "Posterior", X: Any, weights: Any, used: np.ndarray, observed: np.ndarray
) -> Bands | None:
    """Responses drawn for some rows, beside those observed."""
    if not used.all():
        return None  # rows of weight 0 have no variance
    rows = np.arange(len(observed))
    if hasattr(X, "iloc") and len(observed) > MOST_DRAWN:
        rows = _some(len(observed))
        X, observed = X.iloc[rows], observed[rows]
        weights = None if weights is None else np.asarray(weights)[rows]
    elif len(observed) > MOST_ROWS:
        return None
    fit = posterior.problem.fit_data
    offset = None if fit is None or not len(fit.given) else fit.given[rows]
    return bands_of(draw_responses(posterior, X, DRAWS, 0, weights, offset, None), observed, False)


def _explained(observed: np.ndarray, fitted: np.ndarray, plain: np.ndarray | float) -> float:
    """The share of the variation about `plain` that is explained; squares are of shares of the largest value, so that none overflows."""
    unit = float(np.abs(observed).max(initial=0.0)) or 1.0
    left, whole = (float((((observed - about) / unit) ** 2).sum()) for about in (fitted, plain))
    return 1 - left / max(whole, 1e-300)


def _remarks(
    n: int,
    skewness: float,
    kurtosis: float,
    symmetric: bool,
    trend: float,
    curved: dict[str, float],
    outliers: tuple[Any, ...],
    influential: tuple[Any, ...],
    log: str,
    spline: str,
    normal: str,
    advice: str,
) -> list[str]:
    """Sentences; `log` and `advice` are further sentences on what to do about skewness and heavy tails, or empty."""
    remarks = []
    if n >= FEWEST:
        heavy = kurtosis > max(HEAVY, STRONG * np.sqrt(24 / n))
        skewed = abs(skewness) > max(SKEWED, STRONG * np.sqrt(6 / n)) and not (heavy and symmetric)
        if skewed:
            better = log if skewness > 0 and log else advice if heavy else ""
            remarks.append(f"The residuals are skewed (skewness {skewness:.1f}).{better}")
        elif heavy:
            remarks.append(
                f"The residuals have heavier tails than {normal} (excess kurtosis {kurtosis:.1f}); a few rows may decide the result.{advice}"
            )
        if abs(trend) > max(RELATED, STRONG / np.sqrt(n - 1)):
            how = "larger" if trend > 0 else "smaller"
            remarks.append(
                f"Residuals are {how} where fitted values are large (rank correlation {trend:.2f}): the variance is not constant."
                f"{log if trend > 0 and not skewed else ''}"
            )
        remarks += [
            f"The effect of {name!r} seems to be curved: its square explains some of the residuals (rank correlation {value:.2f}). A spline may fit better: "
            f"{spline.format(name=name)}."
            for name, value in curved.items()
            if abs(value) > max(RELATED, STRONG / np.sqrt(n - 1))
        ]
    if outliers:
        remarks.append(f"{_rows(outliers)} far from {'its' if len(outliers) == 1 else 'their'} fitted value.")
    if influential:
        one = "it" if len(influential) == 1 else "one of them"
        remarks.append(
            f"{_rows(influential)} influential: without {one}, fitted values or the best models would be different."
        )
    return remarks


def _rows(labels: tuple[Any, ...]) -> str:
    shown = ", ".join(map(str, labels[:NAMED])) + ", …" * (len(labels) > NAMED)
    return f"Row {shown} is" if len(labels) == 1 else f"{len(labels)} rows ({shown}) are"


def _curvature(posterior: "Posterior", X: Any, used: np.ndarray, z: np.ndarray) -> dict[str, float]:
    """Rank correlations of residuals and the squares of selected variables, less what is linear in these."""
    problem = posterior.problem
    _, x, columns = read_new(problem, posterior.kept, X)
    place = {int(column): i for i, column in enumerate(columns)}
    found = {}
    for j in np.flatnonzero((posterior.pip >= 0.5) & (np.diff(problem.offsets) == 1)).tolist():
        i = place.get(int(problem.offsets[j]))
        if i is None:
            continue
        values = x[used, i] - x[used, i].mean()
        if len(np.unique(values)) < 5:
            continue
        square = values**2
        square = square - square.mean() - values * (values @ square) / max(float(values @ values), 1e-300)
        found[problem.names[j]] = _rank_correlation(square, z)
    return found


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(pd.Series(a).rank(), pd.Series(b).rank())[0, 1])
