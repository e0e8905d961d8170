"""Priors on coefficients (slabs) and on the noise variance. Priors on models are in model_priors.py.

Each is a frozen dataclass that does not depend on a data set: whatever depends on n or p is computed when a ``Problem``
is made.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from whichvars._kernels import evidence
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.correlated_prior import CorrelatedNormal
from whichvars.problem.mixture_priors import BetaPrime, Intrinsic, Robust
from whichvars.problem.moment_priors import ExponentialMoment, ProductMoment
from whichvars.problem.prior_numbers import in_short, numbers, positive

# An unknown g: its least value times the number of rows, about its largest value, and the fewest steps from one to the other
LEAST_G_TIMES_ROWS, LARGEST_G, FEWEST_DOUBLINGS = 10.0, 100.0, 7


# --- references for the slabs, for the methods section of a paper
# --------------------------------------------------------------

LIANG = (
    "Liang, F., Paulo, R., Molina, G., Clyde, M. A. and Berger, J. O. (2008). Mixtures of g priors for Bayesian "
    "variable selection. Journal of the American Statistical Association 103, 410–423."
)
ZELLNER = (
    "Zellner, A. (1986). On assessing prior distributions and Bayesian regression analysis with g-prior "
    "distributions. In Bayesian Inference and Decision Techniques, 233–243."
)
FERNANDEZ = "Fernández, C., Ley, E. and Steel, M. F. J. (2001). Benchmark priors for Bayesian model averaging. Journal of Econometrics 100, 381–427."
KASS = (
    "Kass, R. E. and Wasserman, L. (1995). A reference Bayesian test for nested hypotheses and its relationship to the Schwarz criterion. Journal of "
    "the American Statistical Association 90, 928–934."
)
ZELLNER_SIOW = (
    "Zellner, A. and Siow, A. (1980). Posterior odds ratios for selected regression hypotheses. In Bayesian Statistics: Proceedings of the "
    "First International Meeting, 585–603."
)
FOSTER = "George, E. I. and Foster, D. P. (2000). Calibration and empirical Bayes variable selection. Biometrika 87, 731–747."
GEORGE = (
    "George, E. I. and McCulloch, R. E. (1997). Approaches for Bayesian variable selection. Statistica Sinica 7, "
    "339–373."
)
LI_CLYDE = (
    "Li, Y. and Clyde, M. A. (2018). Mixtures of g-priors in generalized linear models. Journal of the American "
    "Statistical Association 113, 1828–1845."
)
GELMAN = "Gelman, A. (2006). Prior distributions for variance parameters in hierarchical models. Bayesian Analysis 1, 515–534."
SCHWARZ = "Schwarz, G. (1978). Estimating the dimension of a model. Annals of Statistics 6, 461–464."

# --- slabs: p(β_γ | γ, σ²)
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IndependentNormal:
    r"""Independent normal slab, :math:`\beta_j \mid \sigma^2 \sim N(0, g_j \sigma^2)`.

    With columns in units of their standard deviation, ``g = 1`` expects effects of about one noise standard
    deviation per standard deviation of the variable; the paper uses ``g = 100``. Works for any number of
    variables, also p > n.

    With ``g="estimate"``, one g for all variables is unknown and is averaged over. It has one of the values
    :math:`g_l = 10 \cdot 2^l / n` up to about 100, with prior probabilities proportional to
    :math:`\sqrt{g_l} / (1 + g_l)`: on these values, :math:`\sqrt g` has a half-Cauchy prior of scale 1. There are no values
    below 10/n, because a slab that is narrower than what the data can resolve makes all variables "in".

    Parameters
    ----------
    g : float, sequence of float, or "estimate"
        Prior variance in units of the noise variance: one for all, or one per variable; or "estimate" for one that is unknown. If the
        columns are not scaled (``scale="none"``), the values of an unknown g are divided by the mean variance of the columns.

    Examples
    --------
    >>> IndependentNormal(g=100), IndependentNormal("estimate")
    (IndependentNormal(g=100.0), IndependentNormal(g='estimate'))
    """

    g: float | tuple[float, ...] | Literal["estimate"] = 1.0
    code: ClassVar = evidence.INDEPENDENT  # formula in the kernels

    def __post_init__(self) -> None:
        if isinstance(self.g, str):
            if self.g != "estimate":
                raise ArgumentTypeError(
                    f'IndependentNormal: g must be a number, one per variable, or "estimate", not {self.g!r}'
                )
        else:
            object.__setattr__(self, "g", numbers(self.g, "g", self))

    def __str__(self) -> str:
        return in_short(self, "g")

    @property
    def unknown(self) -> bool:
        """Whether g is averaged over."""
        return self.g == "estimate"

    @property
    def references(self) -> tuple[str, ...]:
        """References for the methods section of a paper."""
        return (GEORGE, GELMAN) if self.unknown else (GEORGE,)

    def words_of_unknown(self, n: int) -> str:
        """What the methods section of a paper says of an unknown g, with n rows."""
        values = values_of_g(n)[0]
        return (
            f"The unknown g had {len(values)} values from {values[0]:.2g} to {values[-1]:.3g}, each twice the one before, with a half-Cauchy "
            "prior of scale 1 on √g."
        )

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        if self.unknown:
            return (
                "Coefficients had independent normal priors with mean zero and variance g σ², where σ² is the noise variance. "
                f"{self.words_of_unknown(n)}"
            )
        if isinstance(self.g, tuple):
            g = "variances g_j σ² that differ between variables"
        else:
            g = "variance σ²" if self.g == 1 else f"variance {self.g:g} σ²"
        return f"Coefficients had independent normal priors with mean zero and {g}, where σ² is the noise variance."


def values_of_g(n: int) -> tuple[np.ndarray, np.ndarray]:
    r"""The values of the g of ``IndependentNormal("estimate")`` and their prior probabilities, with n rows.

    Examples
    --------
    >>> g, probability = values_of_g(100)
    >>> print(len(g), g[0].round(3), g[-1].round(3))
    11 0.1 102.4
    >>> print(probability.argmax(), round(float(probability.sum()), 9))
    3 1.0
    """
    least = LEAST_G_TIMES_ROWS / n
    g = least * 2.0 ** np.arange(1 + max(FEWEST_DOUBLINGS, round(np.log2(LARGEST_G / least))))
    weight = np.sqrt(g) / (1 + g)
    return g, weight / weight.sum()


# what the values of g that have a name are, and are called
NAMED_G = {"n": ("n = ", " (unit information)"), "bric": ("max(n, p²) = ", " (the benchmark prior BRIC)")}


@dataclass(frozen=True)
class GPrior:
    r"""Zellner's g-prior, :math:`\beta_\gamma \mid \sigma^2 \sim N(0, g \sigma^2 (X_\gamma^T
    X_\gamma)^{-1})`.

    .. math:: BF = (1+g)^{(\nu-k)/2} (1 + g(1-R^2))^{-\nu/2}.

    Parameters
    ----------
    g : float, "n" or "bric"
        A number; "n": the number of rows (unit information); "bric": max(n, p²) (Fernández, Ley & Steel
        2001).

    Examples
    --------
    >>> GPrior("bric")
    GPrior(g='bric')
    """

    g: float | Literal["n", "bric"] = "n"
    code: ClassVar = evidence.G_PRIOR  # formula in the kernels

    @property
    def references(self) -> tuple[str, ...]:
        return (ZELLNER, *({"n": (KASS,), "bric": (FERNANDEZ,)}[self.g] if isinstance(self.g, str) else ()))

    def __post_init__(self) -> None:
        if isinstance(self.g, str):
            if self.g not in ("n", "bric"):
                raise DataError(f'GPrior: g must be a positive number, "n" or "bric", not {self.g!r}')
        else:
            object.__setattr__(self, "g", positive(self.g, "g", self))

    def value(self, n: int, p: int) -> float:
        """The value of g for n rows and p variables.

        >>> GPrior("bric").value(72, 41)
        1681.0
        """
        return float({"n": n, "bric": max(n, p * p)}[self.g]) if isinstance(self.g, str) else self.g

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        rule, name = NAMED_G[self.g] if isinstance(self.g, str) else ("", "")
        return f"Coefficients had Zellner's g-prior with g = {rule}{self.value(n, p):g}{name}."


@dataclass(frozen=True)
class EstimatedG(GPrior):
    """Zellner's g-prior with a g that was estimated from the data by global empirical Bayes: what ``global_empirical_bayes`` returns.

    Examples
    --------
    >>> EstimatedG(12.5)
    EstimatedG(g=12.5)
    """

    @property
    def references(self) -> tuple[str, ...]:
        return FOSTER, ZELLNER

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return (
            f"Coefficients had Zellner's g-prior with g = {self.value(n, p):.4g}, the value that maximises the marginal likelihood of the data averaged "
            "over models (global empirical Bayes)."
        )


def _check_a(prior: "HyperG | HyperGN") -> None:
    object.__setattr__(prior, "a", positive(prior.a, "a", prior))
    if prior.a <= 2:
        raise DataError(
            f"{type(prior).__name__}: a must be above 2 (a proper prior), not {prior.a}; 3 is usual"
        )


@dataclass(frozen=True)
class HyperG:
    r"""Hyper-g prior (Liang et al. 2008): a g-prior with :math:`\pi(g) = \frac{a-2}{2} (1+g)^{-a/2}`.

    Examples
    --------
    >>> HyperG()
    HyperG(a=3.0)
    """

    a: float = 3.0
    code: ClassVar = evidence.MIXTURE  # formula in the kernels
    references: ClassVar = (LIANG,)

    def __post_init__(self) -> None:
        _check_a(self)

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return f"Coefficients had the hyper-g prior with a = {self.a:g}."


@dataclass(frozen=True)
class HyperGN:
    r"""Hyper-g/n prior (Liang et al. 2008): a g-prior with :math:`\pi(g) = \frac{a-2}{2n} (1+g/n)^{-a/2}`.

    Examples
    --------
    >>> HyperGN(a=4)
    HyperGN(a=4.0)
    """

    a: float = 3.0
    code: ClassVar = evidence.MIXTURE  # formula in the kernels
    references: ClassVar = (LIANG,)

    def __post_init__(self) -> None:
        _check_a(self)

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return f"Coefficients had the hyper-g/n prior with a = {self.a:g}."


@dataclass(frozen=True)
class ZellnerSiow:
    r"""Zellner–Siow (JZS) prior: a g-prior with :math:`g \sim \mathrm{InvGamma}(1/2, n r^2/2)`, a multivariate
    Cauchy on β.

    Parameters
    ----------
    r : float
        Scale of the Cauchy distribution, in units of the noise standard deviation per standard deviation of a column: 1 is the prior of
        Zellner and Siow (1980). R's ``BayesFactor::regressionBF`` uses √2/4 ("medium"), ½ ("wide") or √2/2 ("ultrawide").

    Examples
    --------
    >>> ZellnerSiow(), ZellnerSiow(r=0.5)
    (ZellnerSiow(), ZellnerSiow(r=0.5))
    """

    r: float = 1.0
    code: ClassVar = evidence.MIXTURE  # formula in the kernels
    references: ClassVar = (ZELLNER_SIOW, LIANG)

    def __post_init__(self) -> None:
        object.__setattr__(self, "r", positive(self.r, "r", self))
        if not 0.05 <= self.r <= 100:
            raise DataError(f"ZellnerSiow: r must lie between 0.05 and 100, not {self.r:g}; 1 is usual")

    def __repr__(self) -> str:
        return "ZellnerSiow()" if self.r == 1 else f"ZellnerSiow(r={self.r})"

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return f"Coefficients had the Zellner–Siow prior{'' if self.r == 1 else f' with scale r = {self.r:.4g}'}."


@dataclass(frozen=True)
class CCH:
    r"""Compound confluent hypergeometric prior (Li and Clyde 2018): a g-prior in which u = 1/(1 + g) has the density

    .. math:: \pi(u) \propto u^{a/2 - 1} (1 - u)^{b/2 - 1} e^{-s u/2}, \qquad 0 < u < 1.

    ``CCH(a - 2, 2)`` is ``HyperG(a)``. It is R's ``BAS::CCH(alpha, beta, s)``.

    Parameters
    ----------
    a, b : float
        Shape: small a makes large g probable, large b excludes small g. At least 0.1 and 0.5 (b at least 2 if the response is Gaussian), at most 100 and
        1e6.
    s : float
        Tilt towards large g, between −100 and 100.

    Examples
    --------
    >>> CCH(a=1, b=266)
    CCH(a=1.0, b=266.0, s=0.0)
    """

    a: float = 1.0
    b: float = 2.0
    s: float = 0.0
    code: ClassVar = evidence.MIXTURE  # formula in the kernels
    references: ClassVar = (LI_CLYDE,)

    def __post_init__(self) -> None:
        for name, least, most in (("a", 0.1, 100), ("b", 0.5, 1e6)):
            value = positive(getattr(self, name), name, self)
            object.__setattr__(self, name, value)
            if not least <= value <= most:
                raise DataError(f"CCH: {name} must lie between {least:g} and {most:g}, not {value:g}")
        if isinstance(self.s, bool) or not isinstance(self.s, (int, float, np.floating)):
            raise ArgumentTypeError(f"CCH: s must be a number, not {self.s!r}")
        object.__setattr__(self, "s", float(self.s))
        if not -100 <= self.s <= 100:
            raise DataError(f"CCH: s must lie between -100 and 100, not {self.s:g}")

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return f"Coefficients had the compound confluent hypergeometric prior with a = {self.a:g}, b = {self.b:g} and s = {self.s:g}."


@dataclass(frozen=True)
class LocalEmpiricalBayes:
    r"""Local empirical Bayes: in each model the g-prior with :math:`\hat g = \max(F - 1, 0)`, which maximises its marginal
    likelihood.

    Examples
    --------
    >>> LocalEmpiricalBayes()
    LocalEmpiricalBayes()
    """

    code: ClassVar = evidence.EMPIRICAL_BAYES  # formula in the kernels
    references: ClassVar = (LIANG,)

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return "Coefficients had a g-prior, with g estimated in each model (local empirical Bayes)."


@dataclass(frozen=True)
class BIC:
    r"""Schwarz's approximation, :math:`\log BF = -\frac n2 \log(1-R^2) - \frac k2 \log n`.

    Examples
    --------
    >>> BIC()
    BIC()
    """

    code: ClassVar = evidence.BIC  # formula in the kernels
    references: ClassVar = (SCHWARZ,)

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return "Marginal likelihoods were approximated by the Bayesian information criterion."


Slab = (
    IndependentNormal | GPrior | HyperG | HyperGN | ZellnerSiow | CCH | BetaPrime | Robust | Intrinsic | LocalEmpiricalBayes | BIC
    | ProductMoment | ExponentialMoment | CorrelatedNormal
)  # fmt: skip

# --- noise: p(σ²)
# ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Jeffreys:
    r"""Jeffreys prior on the noise variance, :math:`p(\sigma^2) \propto 1/\sigma^2`.

    Examples
    --------
    >>> Jeffreys()
    Jeffreys()
    """


@dataclass(frozen=True)
class InverseGamma:
    r"""Inverse gamma prior on the noise variance, :math:`p(\sigma^2) \propto (\sigma^2)^{-a-1}
    e^{-b/\sigma^2}`.

    Examples
    --------
    >>> InverseGamma(a=2, b=1)
    InverseGamma(a=2.0, b=1.0)
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", positive(self.a, "a", self))
        object.__setattr__(self, "b", positive(self.b, "b", self))


@dataclass(frozen=True)
class KnownVariance:
    r"""The noise variance :math:`\sigma^2` is known, from repeated measurements or from an instrument's specification.

    With weights w the variance of observation i is :math:`\sigma^2 / w_i`. A slab must be ``IndependentNormal``,
    ``CorrelatedNormal``, ``ProductMoment``, ``ExponentialMoment``, ``GPrior``, ``LocalEmpiricalBayes`` or ``BIC``.

    Parameters
    ----------
    variance : float
        :math:`\sigma^2`, in the units of y squared.

    Examples
    --------
    >>> KnownVariance(0.25)
    KnownVariance(variance=0.25)
    """

    variance: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", positive(self.variance, "variance", self))


Noise = Jeffreys | InverseGamma | KnownVariance


def check_slab(slab: object) -> Slab:
    """`slab`, or a TypeError that names the choices."""
    if not isinstance(slab, Slab):
        names = ", ".join(kind.__name__ for kind in Slab.__args__)
        raise ArgumentTypeError(
            f"slab must be one of {names}; got {slab!r}. Write for example slab=IndependentNormal(g=1)"
        )
    return slab


def check_noise(noise: object) -> Noise:
    """`noise`, or a TypeError that names the choices."""
    if not isinstance(noise, Noise):
        raise ArgumentTypeError(
            f"noise must be Jeffreys(), InverseGamma(a, b) or KnownVariance(variance); got {noise!r}"
        )
    return noise


def check_slab_with_noise(slab: Slab, noise: Noise) -> None:
    """DataError if the slab cannot be combined with the prior on the noise."""
    if isinstance(slab, BIC) and isinstance(noise, InverseGamma):
        raise DataError(
            "BIC has no prior on the noise variance; use noise=Jeffreys(), or a slab such as GPrior('n')"
        )
    if slab.code == evidence.MIXTURE and isinstance(noise, KnownVariance):
        raise DataError(
            f"{slab} is available for an unknown noise variance only; with noise={noise} use IndependentNormal, GPrior, "
            "LocalEmpiricalBayes or BIC"
        )
