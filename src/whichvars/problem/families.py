"""Families: how the response depends on the linear predictor η, and what a response must look like.

The kernels of samplers know one likelihood, a normal linear model with weights. A Gaussian response is given to them as it is. For
the other families they get a stand-in, in which the response is replaced by the score of the null model; what a model is worth then
comes from a fit of that model (``fitting.py``, ``_kernels/likelihood.py``).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from whichvars._kernels import densities
from whichvars._kernels import likelihood as kernels
from whichvars.data.frames import read_vector
from whichvars.data.moments import Moments
from whichvars.errors import ArgumentTypeError, DataError
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
from whichvars.problem.reading import (
    Response,
    called,
    read_counts,
    read_trials,
    remark_on_response,
    two_valued,
    whole_counts,
)

# of a Student response, whose square must be a number
LARGEST_UNIT = 1e100
MIXTURES_OF_G = (HyperG, HyperGN, ZellnerSiow, CCH)
EVIDENCE = {
    "auto": kernels.EVIDENCE_AUTO,
    "laplace": kernels.LAPLACE,
    "second-order": kernels.SECOND_ORDER,
    "importance": kernels.IMPORTANCE,
    "bas": kernels.BAS,
}


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
        what = f"The response {name!r}" if name else "The response"
        return remark_on_response(y, what)


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
            return two_valued(y, n, self)
        trials, what = read_trials(self.trials, n), called(y)
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
        return two_valued(y, n, self)


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
        counts = read_counts(y, n)
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
        counts, r = read_counts(y, n), self.start
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


@dataclass(frozen=True)
class Student:
    r"""A linear model with heavy tails: :math:`y_i = \eta_i + s\,\varepsilon_i`, where :math:`\varepsilon_i` has Student's t distribution.

    Rows far from their fitted value count less than under normal noise, so that a few outliers cannot decide which variables are in. With :math:`\nu`
    degrees of freedom the noise has the standard deviation :math:`s\sqrt{\nu/(\nu - 2)}`, which is 1.4 s for the default of four. Coefficients
    are changes of the response, as in the linear model.

    The scale s is unknown and has the prior :math:`\log s \sim N(\log m, t^2)`, the same in all models, over which marginal likelihoods,
    coefficients and predictions are averaged. Slabs are relative to s: with ``IndependentNormal(g)`` a coefficient has the prior variance g s², for
    columns in units of their standard deviation. So results do not depend on the units of the response.

    Parameters
    ----------
    df : float
        :math:`\nu`, the degrees of freedom, above 2 and at most 1,000; the smaller, the heavier the tails.
    prior_median : float
        m. The default is the median absolute deviation of the response from its median, divided by 0.6745: for a normal distribution that is
        the standard deviation.
    prior_sd : float
        t. With the default, s lies within a factor of 350 of m with probability 95 %.

    Examples
    --------
    >>> import numpy as np, whichvars as wv
    >>> Student(), Student(df=3)
    (Student(df=4), Student(df=3))
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(100, 4))
    >>> y = X[:, 0] + rng.standard_t(3, size=100)
    >>> y[0] = 500  # a mistake in the data
    >>> wv.exact(wv.Problem(X, y)).pip.round(2)
    array([0.04, 0.04, 0.04, 0.07])
    >>> posterior = wv.exact(wv.Problem(X, y, family=wv.Student()))
    >>> posterior.pip.round(2)
    array([1.  , 0.11, 0.11, 0.26])
    >>> posterior.dispersion().round(1)[["median", "lower", "upper"]].tolist()
    [1.2, 1.0, 1.4]
    """

    df: float = 4
    prior_median: float | None = None
    prior_sd: float = 3.0
    name: ClassVar[str] = "student"
    code: ClassVar[int] = densities.STUDENT
    link: ClassVar[str] = "response"
    ratio: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        if isinstance(self.df, str):
            raise DataError(
                f"Student: df must be a number, not {self.df!r}; estimate_df(X, y) averages over degrees of freedom"
            )
        for name in ("df", "prior_sd") + (("prior_median",) if self.prior_median is not None else ()):
            positive(getattr(self, name), name, self)
        if not 2 < self.df <= 1000:
            raise DataError(
                f"Student: df must be above 2, so that the response has a variance, and at most 1000, not {self.df:g}; noise with larger df "
                'is nearly normal, which is family="gaussian"'
            )
        if not 1e-4 <= self.prior_sd <= 10:
            raise DataError(
                f"Student: prior_sd must lie between 1e-4 and 10, not {self.prior_sd:g}; it is the standard deviation of log s"
            )

    @property
    def noise_factor(self) -> float:
        """The variance of the noise divided by s²."""
        return self.df / (self.df - 2)

    def read(self, y: Any, n: int) -> Response:
        """Check the response."""
        vector, df = read_vector(y, n, "y"), self.df
        constant = float(gammaln((df + 1) / 2) - gammaln(df / 2) - np.log(df * np.pi) / 2)
        return Response(vector, np.full(n, float(df)), 0.0, np.full(n, constant))

    def unit(self, y: np.ndarray, weights: np.ndarray) -> float:
        """The prior median of the scale, from responses less their offsets, (n,)."""
        share = np.bincount(np.unique(y, return_inverse=True)[1], weights).max() / weights.sum()
        if share > self.df / (self.df + 1):
            raise DataError(
                f"{share:.0%} of the responses have the same value, but with family={self} at most {self.df / (self.df + 1):.0%} may have: a scale of 0 "
                "would fit best otherwise"
            )
        away = np.abs(y - weighted_median(y, weights))
        spread = weighted_median(away, weights) / 0.6745
        unit = self.prior_median or spread or float(away @ weights / weights.sum())
        if not 1 / LARGEST_UNIT < unit < LARGEST_UNIT:
            raise DataError(
                f"the responses are of the order of {unit:.0e}, and squares of such numbers cannot be computed; use other units"
            )
        return unit

    def __repr__(self) -> str:
        given = {"df": self.df, "prior_median": self.prior_median, "prior_sd": self.prior_sd}
        default = {"prior_median": None, "prior_sd": 3.0}
        return f"Student({', '.join(f'{k}={v}' for k, v in given.items() if k == 'df' or v != default[k])})"


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """The middle of the values that have at most half of the weight below and above them; (n,) each."""
    order = np.argsort(values, kind="stable")
    up_to = np.cumsum(weights[order])
    first, last = (np.searchsorted(up_to, up_to[-1] / 2, side=side) for side in ("left", "right"))
    return float(values[order[first]] + values[order[min(last, len(order) - 1)]]) / 2


Counted = Logistic | Probit | Poisson | NegativeBinomial | Student
Family = Gaussian | Counted
NAMED: dict[str, Any] = {
    "gaussian": Gaussian, "logistic": Logistic, "binomial": Logistic, "probit": Probit, "poisson": Poisson,
    "negative-binomial": NegativeBinomial, "student": Student,
}  # fmt: skip


def is_linear(family: Family) -> bool:
    """Whether the linear predictor is the expected response itself, a number of any size."""
    return isinstance(family, (Gaussian, Student))


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
        'family must be "gaussian", "logistic", "probit", "poisson", "negative-binomial", "student", or an object such as '
        f"Logistic(trials=…) or Student(df=…), not {family!r}{hint}"
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
    if isinstance(slab, LocalEmpiricalBayes) and isinstance(family, Student):
        raise DataError(f"{slab} is not available for family={family}; use IndependentNormal, GPrior or BIC")
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
    if isinstance(family, Student):
        if evidence == "bas":
            raise DataError('evidence="bas" has no unknown scale of the noise; use evidence="auto"')
        if isinstance(slab, MIXTURES_OF_G) or (isinstance(slab, IndependentNormal) and slab.unknown):
            raise DataError(
                f"{slab} and the unknown scale of family={family} cannot both be averaged over; use IndependentNormal with a known g, GPrior or BIC"
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
            f"{called(y)} has a single value in the rows of positive weight; rows of several values, or of both classes, are needed"
        )
    return response, known
