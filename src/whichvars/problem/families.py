"""Families: how the response depends on the linear predictor η, and what a response must look like.

The kernels of samplers know one likelihood, a normal linear model with weights. A Gaussian response is given to them as it is. For
the other families they get a stand-in, in which the response is replaced by the score of the null model; what a model is worth then
comes from a fit of that model (``fitting.py``, ``_kernels/likelihood.py``).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln

from whichvars._kernels import densities
from whichvars._kernels import likelihood as kernels
from whichvars.data.frames import NUMERIC, read_vector
from whichvars.data.moments import Moments
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.arguments import response_name
from whichvars.problem.correlated_prior import CorrelatedNormal
from whichvars.problem.mixture_priors import BetaPrime, Intrinsic, Robust
from whichvars.problem.moment_priors import MomentPrior
from whichvars.problem.priors import (
    BIC,
    CCH,
    HyperG,
    HyperGN,
    IndependentNormal,
    LocalEmpiricalBayes,
    Slab,
    ZellnerSiow,
    positive,
)

# a response consists of small whole numbers if at least the share MOSTLY is at most SMALL_NUMBER
SMALL_NUMBER, MOSTLY = 10, 0.9
# counts above this are refused: sums of their logarithms would be inaccurate
LARGEST_COUNT = 1e12
MIXTURES_OF_G = (HyperG, HyperGN, ZellnerSiow, CCH)
EVIDENCE = {
    "auto": kernels.EVIDENCE_AUTO,
    "laplace": kernels.LAPLACE,
    "second-order": kernels.SECOND_ORDER,
    "importance": kernels.IMPORTANCE,
    "bas": kernels.BAS,
}


class Response(NamedTuple):
    """A response as the kernels of a family see it."""

    y: np.ndarray  # (n,)
    trials: np.ndarray  # (n,)
    shift: float  # added to the offset
    constant: np.ndarray  # (n,): terms of the log density that do not depend on η
    classes: tuple[Any, ...] = ()  # of two-valued responses: the values that are counted as 0 and as 1


@dataclass(frozen=True)
class Gaussian:
    """Normal noise, the default: a linear model for y itself.

    Examples
    --------
    >>> Gaussian()
    Gaussian()
    """

    name: ClassVar[str] = "gaussian"

    def remark(self, y: np.ndarray, name: str | None = None) -> str | None:
        """A warning about a response for which a linear model is only an approximation, as it has two values or consists of
        small whole numbers; None for any other."""
        what = f"the response {name!r}" if name else "the response"
        low, high = float(y.min()), float(y.max())
        if ((y == low) | (y == high)).all():
            return (
                f"{what} has only two values, {low:g} and {high:g}. The linear model treats them as numbers with normal noise (a "
                "linear probability model). Inclusion probabilities are then approximate, however exactly they are computed, "
                'and predictions can lie outside the two values. Problem(…, family="logistic") models the log odds of the '
                "second value instead"
            )
        if low >= 0 and (y == np.floor(y)).all() and np.mean(y <= SMALL_NUMBER) >= MOSTLY:
            return (
                f"{what} consists of small whole numbers, such as counts or grades. The linear model treats them as numbers with "
                "normal noise of constant variance. Inclusion probabilities are then approximate, however exactly they are "
                'computed. For counts use Problem(…, family="poisson"), or family="negative-binomial" if their '
                "variance is larger than their mean. Models for ordered classes are not part of whichvars yet"
            )
        return None


@dataclass(frozen=True, eq=False)
class Logistic:
    r"""Logistic regression of a two-valued response, or of the number of successes in some trials,
    :math:`P(y_i = 1) = 1/(1 + e^{-\eta_i})`.

    Coefficients are changes of the log odds. Without `trials`, y has two distinct values of any type: the first in sorted order
    counts as 0, the second as 1 (``Problem.classes``).

    Parameters
    ----------
    trials : int or array, shape (n,)
        The number of trials of each row; y is then the number of successes among them.

    Examples
    --------
    >>> import numpy as np, whichvars as wv
    >>> Logistic()
    Logistic()
    >>> X, successes = np.eye(6)[:, :3], np.array([3, 1, 4, 2, 5, 2])
    >>> wv.Problem(X, successes, family=wv.Logistic(trials=5))
    Problem(3 variables, 6 rows; Logistic(trials=5), IndependentNormal(g=1.0), BetaBinomial(size=1.5))
    """

    trials: Any = None
    name: ClassVar[str] = "logistic"
    code: ClassVar[int] = densities.BINOMIAL
    link: ClassVar[str] = "log odds"
    ratio: ClassVar[str | None] = "odds_ratio"

    def read(self, y: Any, n: int) -> Response:
        """Check the response."""
        if self.trials is None:
            return _two_valued(y, n, self)
        trials, what = read_trials(self.trials, n), _called(y)
        counts = whole_counts(read_vector(y, n, "y"), what)
        bad = np.flatnonzero(counts > trials)
        if bad.size:
            raise DataError(
                f"{what} is {counts[bad[0]]:g} in row {bad[0]}, more than the {trials[bad[0]]:g} trials of that row; it must be "
                "the number of successes among the trials, not a share or a percentage"
            )
        if not counts.any() or (counts == trials).all():
            which = "no successes" if not counts.any() else "no failures"
            raise DataError(f"{what} has {which} in any row; there is nothing to explain")
        constant = gammaln(trials + 1) - gammaln(counts + 1) - gammaln(trials - counts + 1)
        return Response(counts, trials, 0.0, constant)

    def __repr__(self) -> str:
        if self.trials is None:
            return "Logistic()"
        if np.ndim(self.trials) == 0:
            return f"Logistic(trials={self.trials})"
        return f"Logistic(trials=[{len(self.trials)} values])"


@dataclass(frozen=True)
class Probit:
    r"""Probit regression of a two-valued response, :math:`P(y_i = 1) = \Phi(\eta_i)`.

    Slab and coefficients are on the probit scale, where coefficients are about 1/1.7 of those of logistic regression.

    Examples
    --------
    >>> Probit()
    Probit()
    """

    name: ClassVar[str] = "probit"
    code: ClassVar[int] = densities.PROBIT
    link: ClassVar[str] = "probit"
    ratio: ClassVar[str | None] = None

    def read(self, y: Any, n: int) -> Response:
        """Check the response."""
        return _two_valued(y, n, self)


@dataclass(frozen=True)
class Poisson:
    r"""Poisson regression of counts, :math:`y_i \sim \mathrm{Poisson}(e^{\eta_i})`.

    Coefficients are changes of the log of the rate. With an exposure t_i give ``offset=numpy.log(t)``. Counts that vary more than a
    Poisson distribution allows make nearly every variable seem important: use ``NegativeBinomial`` for them.

    Examples
    --------
    >>> Poisson()
    Poisson()
    """

    name: ClassVar[str] = "poisson"
    code: ClassVar[int] = densities.POISSON
    link: ClassVar[str] = "log rate"
    ratio: ClassVar[str | None] = "rate_ratio"

    def read(self, y: Any, n: int) -> Response:
        """Check the response."""
        counts = _counts(y, n)
        return Response(counts, np.ones(n), 0.0, -gammaln(counts + 1))


@dataclass(frozen=True)
class NegativeBinomial:
    r"""Negative binomial regression of counts with mean :math:`\mu_i = e^{\eta_i}` and variance :math:`\mu_i + \mu_i^2 / r`.

    The dispersion r, which R calls theta or size, is unknown unless it is given: the smaller, the more the counts vary; the Poisson
    distribution is its limit for large r. An unknown r has the prior :math:`\log r \sim N(\log m, s^2)`, the same in all models, over
    which the marginal likelihood of a model is integrated,

    .. math:: p(y \mid \gamma) = \int p(y \mid \gamma, r)\, p(\log r)\, d\log r,

    as are coefficients and predictions. The prior must be proper: with a flat one on log r the posterior would be improper, as the
    likelihood tends to that of the Poisson distribution. With the default, r lies between 0.1 and 250 with probability 95 %.

    Parameters
    ----------
    dispersion : float
        r, if it is known.
    prior_median : float
        m, the prior median of an unknown r.
    prior_sd : float
        s, the prior standard deviation of log r.

    Examples
    --------
    >>> import numpy as np, whichvars as wv
    >>> NegativeBinomial(), NegativeBinomial(dispersion=1.3)
    (NegativeBinomial(), NegativeBinomial(dispersion=1.3))
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(150, 3))
    >>> y = rng.negative_binomial(2, 2 / (2 + np.exp(1 + X[:, 0])))
    >>> posterior = wv.exact(wv.Problem(X, y, family=NegativeBinomial()))
    >>> posterior.dispersion().round(1)
    mean      1.6
    median    1.5
    lower     1.1
    upper     2.1
    Name: dispersion, dtype: float64
    """

    dispersion: float | None = None
    prior_median: float = 5.0
    prior_sd: float = 2.0
    name: ClassVar[str] = "negative-binomial"
    code: ClassVar[int] = densities.BINOMIAL  # with y + r trials, and log r less in the offset
    link: ClassVar[str] = "log rate"
    ratio: ClassVar[str | None] = "rate_ratio"

    def __post_init__(self) -> None:
        for name in ("prior_median", "prior_sd") + (("dispersion",) if self.dispersion is not None else ()):
            object.__setattr__(self, name, positive(getattr(self, name), name, self))
        for name in ("dispersion", "prior_median"):
            value = getattr(self, name)
            if value is not None and not 1e-6 <= value <= 1e9:
                raise DataError(
                    f"NegativeBinomial: {name} must lie between 1e-6 and 1e9, not {value:g}; counts that vary no more "
                    "than their mean are Poisson()"
                )
        if not 1e-4 <= self.prior_sd <= 10:
            raise DataError(
                f"NegativeBinomial: prior_sd must lie between 1e-4 and 10, not {self.prior_sd:g}; it is the standard deviation of "
                "log r. If r is known, give dispersion"
            )

    @property
    def start(self) -> float:
        """The dispersion, or the prior median of one that is unknown."""
        return self.prior_median if self.dispersion is None else self.dispersion

    def read(self, y: Any, n: int) -> Response:
        """Check the response."""
        counts, r = _counts(y, n), self.start
        constant = -gammaln(counts + 1)
        if self.dispersion is not None:
            constant = constant + gammaln(counts + r) - gammaln(r)
        return Response(counts, counts + r, -float(np.log(r)), constant)

    def __repr__(self) -> str:
        if self.dispersion is not None:
            return f"NegativeBinomial(dispersion={self.dispersion})"
        given = {name: getattr(self, name) for name in ("prior_median", "prior_sd")}
        default = {"prior_median": 5.0, "prior_sd": 2.0}
        return f"NegativeBinomial({', '.join(f'{k}={v}' for k, v in given.items() if v != default[k])})"


Counted = Logistic | Probit | Poisson | NegativeBinomial
Family = Gaussian | Logistic | Probit | Poisson | NegativeBinomial
NAMED: dict[str, Any] = {
    "gaussian": Gaussian, "logistic": Logistic, "binomial": Logistic, "probit": Probit, "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
}  # fmt: skip


def read_family(family: Any) -> Family:
    """The family that a string or an object means."""
    if isinstance(family, Family):
        return family
    if isinstance(family, str):
        name = family.lower().replace("_", "-").replace(" ", "-")
        if name in NAMED:
            return NAMED[name]()
    hint = f"; write {family.__name__}()" if isinstance(family, type) and issubclass(family, Family) else ""
    raise ArgumentTypeError(
        'family must be "gaussian", "logistic", "probit", "poisson", "negative-binomial", or an object such as '
        f"Logistic(trials=…) or NegativeBinomial(dispersion=…), not {family!r}{hint}"
    )


def check_slab_with_family(slab: Slab, family: Family, evidence: str) -> None:
    """DataError if the slab or the evidence cannot be combined with a family."""
    if evidence not in EVIDENCE:
        raise DataError(f"evidence must be one of {', '.join(map(repr, EVIDENCE))}, not {evidence!r}")
    if isinstance(family, Gaussian):
        if isinstance(slab, CCH) and slab.b < 2:
            raise DataError(
                f"{slab}: b must be at least 2 if the response is Gaussian, as small values of g would be too probable for an accurate integral"
            )
        if evidence != "auto":
            raise DataError(
                f"evidence={evidence!r} is for families that are not Gaussian; marginal likelihoods of the linear model are exact"
            )
        return
    if isinstance(slab, MomentPrior | CorrelatedNormal):
        raise DataError(f"{slab} is for Gaussian responses; with family={family} use IndependentNormal")
    if isinstance(slab, (BetaPrime, Robust, Intrinsic)):
        raise DataError(
            f"{slab} is for Gaussian responses, as its distribution of g depends on the model; with family={family} use HyperG, HyperGN, "
            "ZellnerSiow or CCH"
        )
    if isinstance(slab, LocalEmpiricalBayes) and evidence != "bas":
        raise DataError(
            f'LocalEmpiricalBayes() is available for family={family} with evidence="bas" alone, as its g is estimated from the maximum '
            "of the likelihood; use a mixture such as HyperGN(), or IndependentNormal, GPrior or BIC"
        )
    if getattr(family, "dispersion", 0.0) is None:
        if evidence == "bas":
            raise DataError(
                'evidence="bas" has no unknown dispersion; give it, NegativeBinomial(dispersion=…), or use evidence="auto"'
            )
        if isinstance(slab, MIXTURES_OF_G) or (isinstance(slab, IndependentNormal) and slab.unknown):
            raise DataError(
                f"{slab} and an unknown dispersion cannot both be averaged over; give the dispersion, "
                "NegativeBinomial(dispersion=…), or use IndependentNormal with a known g, GPrior or BIC"
            )
    if evidence == "bas" and isinstance(slab, IndependentNormal):
        raise DataError(
            'evidence="bas" is the formula of R\'s BAS for g-priors, their mixtures and BIC; with '
            f'slab={slab} use evidence="auto"'
        )
    if isinstance(slab, BIC) and evidence not in ("auto", "bas"):
        raise DataError(
            f'BIC is an approximation of its own, by the maximum of the likelihood; use evidence="auto", not {evidence!r}'
        )


def check_arguments_with_family(family: Family, X: Any, offset: Any, noise: Any) -> None:
    """DataError for arguments of ``Problem`` that the family cannot have."""
    if isinstance(family, Gaussian):
        if offset is not None:
            raise DataError(
                "offset is for families that are not Gaussian; in a linear model write y − offset for y"
            )
        return
    if noise is not None:
        raise DataError(
            f"noise={noise!r} is for Gaussian responses; family={family} has no noise variance. Leave it out"
        )
    if isinstance(X, Moments):
        raise DataError(
            f"SufficientStatistics are sums over rows, from which the likelihood of family={family} cannot be computed. Give X and y "
            "themselves; if X does not fit into memory, the path of a .npy file, or a random sample of the rows"
        )


# --- reading responses


def read_rows(family: Counted, y: Any, offset: Any, used: np.ndarray) -> tuple[Response, np.ndarray | None]:
    """The response of a family that is not Gaussian, and the offset, both of the rows that are `used`, (n,) bool."""
    n = len(used)
    response = family.read(y, n)
    known = None if offset is None else read_vector(offset, n, "offset")
    if used.all():
        return response, known
    known = None if known is None else known[used]
    response = response._replace(
        y=response.y[used], trials=response.trials[used], constant=response.constant[used]
    )
    all_succeed = family.name in ("logistic", "probit") and bool((response.y == response.trials).all())
    if not response.y.any() or all_succeed:
        raise DataError(
            f"{_called(y)} has a single value in the rows of positive weight; rows of several values, or of both classes, are needed"
        )
    return response, known


def _two_valued(y: Any, n: int, family: Logistic | Probit) -> Response:
    """0 and 1 for a response of two values of any type."""
    values, what = labels(y, n), _called(y)
    distinct = sorted(set(values), key=lambda v: (isinstance(v, str), v))
    if len(distinct) == 1:
        raise DataError(
            f"{what} is {distinct[0]!r} in every row; both classes are needed, or there is nothing to explain"
        )
    if len(distinct) > 2:
        some = ", ".join(repr(v) for v in distinct[:4]) + ", …" * (len(distinct) > 4)
        hint = (
            "; for numbers of successes give Logistic(trials=…), for counts Poisson()"
            if not isinstance(distinct[0], str)
            else ""
        )
        raise DataError(
            f"{what} has {len(distinct)} different values ({some}), but family={family} needs a response of two values{hint}"
        )
    high = distinct[1]
    vector = np.array([1.0 if v == high else 0.0 for v in values])
    return Response(vector, np.ones(n), 0.0, np.zeros(n), tuple(distinct))


def _called(y: Any) -> str:
    """How messages call a response."""
    name = response_name(y)
    return "y" if name is None else f"the response {name!r}"


def labels(y: Any, n: int) -> list[Any]:
    """The values of y as plain Python objects: numbers, booleans or text."""
    if hasattr(y, "columns") and len(y.columns) == 1:
        y = y[y.columns[0]]
    raw = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if raw.ndim == 2 and raw.shape[1] == 1:
        raw = raw[:, 0]
    if raw.dtype.kind in NUMERIC and raw.dtype.kind != "b":
        numbers = read_vector(y, n, "y")
        return [int(v) if v == np.floor(v) and abs(v) < 2**53 else float(v) for v in numbers.tolist()]
    if raw.ndim != 1 or len(raw) != n:
        read_vector(np.zeros(raw.shape), n, "y")  # says what is wrong with the shape
    values = raw.tolist()
    for row, value in enumerate(values):
        missing = value is None or value != value or type(value).__name__ in ("NAType", "NaTType")
        if missing:
            raise DataError(f"y is missing in row {row}; drop or fill such rows first")
        if not isinstance(value, (str, bool, int, float)):
            raise ArgumentTypeError(
                f"y is {value!r} in row {row}; the two values of y must be text, numbers or booleans"
            )
    if len({isinstance(value, str) for value in values}) > 1:
        raise ArgumentTypeError("y has both text and numbers; use one of them for both classes")
    return values


def read_trials(trials: Any, n: int) -> np.ndarray:
    """Numbers of trials, (n,)."""
    if np.ndim(trials) == 0:
        trials = np.full(n, trials)
    vector = whole_counts(read_vector(trials, n, "trials"), "trials")
    bad = np.flatnonzero(vector < 1)
    if bad.size:
        raise DataError(f"trials is 0 in row {bad[0]}; drop rows without trials")
    return vector


def _counts(y: Any, n: int) -> np.ndarray:
    counts = whole_counts(read_vector(y, n, "y"), _called(y))
    if not counts.any():
        raise DataError(f"{_called(y)} is 0 in every row; there is nothing to explain")
    return counts


def whole_counts(vector: np.ndarray, what: str) -> np.ndarray:
    """The vector, if it has whole numbers that are not negative; otherwise an error that names the row."""
    bad = np.flatnonzero((vector < 0) | (vector != np.floor(vector)) | (vector > LARGEST_COUNT))
    if bad.size:
        value = vector[bad[0]]
        wrong = "negative" if value < 0 else "not a whole number" if value != np.floor(value) else "too large"
        raise DataError(
            f"{what} is {value:g} in row {bad[0]}, which is {wrong}; counts are whole numbers from 0 to {LARGEST_COUNT:g}"
        )
    return vector
