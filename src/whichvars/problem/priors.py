"""Priors a user writes down: on coefficients (slabs), on the noise variance, and on which variables are in.

Each is a frozen dataclass that knows its own formula and nothing of any data set: whatever depends on n or p
is worked out when a ``Problem`` is made.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import logsumexp

from whichvars._kernels import evidence
from whichvars.errors import ArgumentTypeError, DataError

SMALLEST_NUMBER, LARGEST_NUMBER = 1e-300, 1e300  # beyond these a square, a sum or a reciprocal may overflow


def _positive(value: Any, name: str, owner: object, below_one: bool = False) -> float:
    """`value` as a float, if it is a positive number (and below 1, if so asked)."""
    label = f"{type(owner).__name__}: {name}"
    if isinstance(value, (np.ndarray, np.generic)) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)):
        raise ArgumentTypeError(f"{label} must be a number, not {value!r}")
    if below_one and not 0 < value < 1:
        raise DataError(
            f"{label} must lie strictly between 0 and 1, not {value}; "
            "use always_include for a variable that is certainly in"
        )
    if not SMALLEST_NUMBER <= value <= LARGEST_NUMBER:
        raise DataError(f"{label} must be positive and finite (1e-300 to 1e300), not {value}")
    return float(value)


def _numbers(value: Any, name: str, owner: object, below_one: bool = False) -> float | tuple[float, ...]:
    """A number, or one number a variable as a tuple (so that priors stay hashable)."""
    ordered = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Set, Mapping))
    if not ordered or getattr(value, "ndim", 1) == 0:
        return _positive(value, name, owner, below_one)
    return tuple(_positive(v, f"{name}[{i}]", owner, below_one) for i, v in enumerate(value))


def _written(prior: object) -> str:
    """A prior as one would write it: only what was given."""
    given = [(f.name, getattr(prior, f.name)) for f in fields(prior)]  # type: ignore[arg-type]
    return f"{type(prior).__name__}({', '.join(f'{name}={value!r}' for name, value in given if value is not None)})"


def per_variable(value: float | tuple[float, ...], p: int, what: str) -> np.ndarray:
    """`value` as p numbers; an error where a list has another length."""
    if isinstance(value, tuple) and len(value) != p:
        raise DataError(
            f"{what} has {len(value)} values but there are {p} variables; give one number, or one per variable"
        )
    return np.full(p, value) if isinstance(value, float) else np.array(value)


# --- where slabs come from, for the methods section of a paper
# --------------------------------------------------------------

LIANG = (
    "Liang, F., Paulo, R., Molina, G., Clyde, M. A. and Berger, J. O. (2008). Mixtures of g priors for Bayesian "
    "variable selection. Journal of the American Statistical Association 103, 410–423."
)
ZELLNER = (
    "Zellner, A. (1986). On assessing prior distributions and Bayesian regression analysis with g-prior "
    "distributions. In Bayesian Inference and Decision Techniques, 233–243."
)
GEORGE = (
    "George, E. I. and McCulloch, R. E. (1997). Approaches for Bayesian variable selection. Statistica Sinica 7, "
    "339–373."
)
SCHWARZ = "Schwarz, G. (1978). Estimating the dimension of a model. Annals of Statistics 6, 461–464."

# --- slabs: p(β_γ | γ, σ²)
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IndependentNormal:
    r"""Independent normal slab, :math:`\beta_j \mid \sigma^2 \sim N(0, g_j \sigma^2)`.

    With columns in units of their standard deviation, ``g = 1`` expects effects of about one noise standard
    deviation per standard deviation of the variable; the paper uses ``g = 100``. Works for any number of
    variables, also p > n.

    Parameters
    ----------
    g : float or sequence of float
        Prior variance in units of the noise variance: one for all, or one per variable.

    Examples
    --------
    >>> IndependentNormal(g=100)
    IndependentNormal(g=100.0)
    """

    g: float | tuple[float, ...] = 1.0
    code: ClassVar = evidence.INDEPENDENT  # of its formula
    references: ClassVar = (GEORGE,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "g", _numbers(self.g, "g", self))

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        if isinstance(self.g, tuple):
            g = "variances g_j σ² that differ between variables"
        else:
            g = "variance σ²" if self.g == 1 else f"variance {self.g:g} σ²"
        return f"Coefficients had independent normal priors with mean zero and {g}, σ² the noise variance."


@dataclass(frozen=True)
class GPrior:
    r"""Zellner's g-prior, :math:`\beta_\gamma \mid \sigma^2 \sim N(0, g \sigma^2 (X_\gamma^T
    X_\gamma)^{-1})`.

    :math:`BF = (1+g)^{(\nu-k)/2} (1 + g(1-R^2))^{-\nu/2}`.

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
    code: ClassVar = evidence.G_PRIOR  # of its formula
    references: ClassVar = (ZELLNER,)

    def __post_init__(self) -> None:
        if isinstance(self.g, str):
            if self.g not in ("n", "bric"):
                raise DataError(f'GPrior: g must be a positive number, "n" or "bric", not {self.g!r}')
        else:
            object.__setattr__(self, "g", _positive(self.g, "g", self))

    def value(self, n: int, p: int) -> float:
        """The number g stands for with n rows and p variables.

        >>> GPrior("bric").value(72, 41)
        1681.0
        """
        return float({"n": n, "bric": max(n, p * p)}[self.g]) if isinstance(self.g, str) else self.g

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return f"Coefficients had Zellner's g-prior with g = {self.value(n, p):g}."


def _check_a(prior: "HyperG | HyperGN") -> None:
    object.__setattr__(prior, "a", _positive(prior.a, "a", prior))
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
    code: ClassVar = evidence.MIXTURE  # of its formula
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
    code: ClassVar = evidence.MIXTURE  # of its formula
    references: ClassVar = (LIANG,)

    def __post_init__(self) -> None:
        _check_a(self)

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return f"Coefficients had the hyper-g/n prior with a = {self.a:g}."


@dataclass(frozen=True)
class ZellnerSiow:
    r"""Zellner–Siow (JZS) prior: a g-prior with :math:`g \sim \mathrm{InvGamma}(1/2, n/2)`, a multivariate
    Cauchy on β.

    Examples
    --------
    >>> ZellnerSiow()
    ZellnerSiow()
    """

    code: ClassVar = evidence.MIXTURE  # of its formula
    references: ClassVar = (LIANG,)

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return "Coefficients had the Zellner–Siow prior."


@dataclass(frozen=True)
class LocalEmpiricalBayes:
    r"""Local empirical Bayes: in each model the g-prior at :math:`\hat g = \max(F - 1, 0)`, the value that
    suits it best.

    Examples
    --------
    >>> LocalEmpiricalBayes()
    LocalEmpiricalBayes()
    """

    code: ClassVar = evidence.EMPIRICAL_BAYES  # of its formula
    references: ClassVar = (LIANG,)

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return "Coefficients had a g-prior, g being estimated in each model (local empirical Bayes)."


@dataclass(frozen=True)
class BIC:
    r"""Schwarz's approximation, :math:`\log BF = -\frac n2 \log(1-R^2) - \frac k2 \log n`.

    Examples
    --------
    >>> BIC()
    BIC()
    """

    code: ClassVar = evidence.BIC  # of its formula
    references: ClassVar = (SCHWARZ,)

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return "Marginal likelihoods were approximated by the Bayesian information criterion."


Slab = IndependentNormal | GPrior | HyperG | HyperGN | ZellnerSiow | LocalEmpiricalBayes | BIC

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
        object.__setattr__(self, "a", _positive(self.a, "a", self))
        object.__setattr__(self, "b", _positive(self.b, "b", self))


@dataclass(frozen=True)
class KnownVariance:
    r"""The noise variance :math:`\sigma^2` is known, from repeated measurements or from an instrument's specification.

    With weights w the variance of observation i is :math:`\sigma^2 / w_i`. A slab must be ``IndependentNormal``,
    ``GPrior``, ``LocalEmpiricalBayes`` or ``BIC``.

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
        object.__setattr__(self, "variance", _positive(self.variance, "variance", self))


Noise = Jeffreys | InverseGamma | KnownVariance

# --- model priors: p(γ)
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class FixedInclusion:
    r"""Each variable is in with its own known probability, independently: :math:`p(\gamma) = \prod_j
    h_j^{\gamma_j}(1-h_j)^{1-\gamma_j}`.

    Parameters
    ----------
    h : float or sequence of float
        Prior inclusion probability: one for all, or one per variable.
    size : float
        Instead of h, the expected number of variables: h = size/p.

    Examples
    --------
    >>> FixedInclusion(size=5).inclusion(100)[:2]
    array([0.05, 0.05])
    >>> FixedInclusion(h=0.5).size_distribution(2)
    array([0.25, 0.5 , 0.25])
    """

    h: float | tuple[float, ...] | None = None
    size: float | None = None

    def __post_init__(self) -> None:
        if (self.h is None) == (self.size is None):
            raise DataError(
                "FixedInclusion: give either h (a probability) or size (an expected number of variables)"
            )
        if self.h is not None:
            object.__setattr__(self, "h", _numbers(self.h, "h", self, below_one=True))
        else:
            object.__setattr__(self, "size", _positive(self.size, "size", self))

    __repr__ = _written

    def inclusion(self, p: int) -> np.ndarray:
        """Prior inclusion probability of each of p variables, shape (p,)."""
        if self.h is not None:
            return per_variable(self.h, p, "FixedInclusion: h")
        assert self.size is not None
        if self.size >= p:
            raise DataError(
                f"FixedInclusion: an expected size of {self.size:g} needs more than the {p} variables there are"
            )
        return np.full(p, self.size / p)

    def log_terms(self, p: int) -> tuple[np.ndarray, np.ndarray]:
        """(log odds of each variable, term by size): log p(γ) is their sum over γ, up to a constant. Shapes
        (p,), (p + 1,)."""
        h = self.inclusion(p)
        return np.log(h) - np.log1p(-h), np.zeros(p + 1)

    def log_constant(self, p: int, max_size: int | None = None) -> float:
        """What must be added to the sum of ``log_terms`` to give the log of a probability."""
        return _log_constant(self, p, max_size)

    def size_distribution(self, p: int, max_size: int | None = None) -> np.ndarray:
        """Prior probability of each model size 0 … p, shape (p + 1,)."""
        return _size_distribution(self, p, max_size).copy()

    def draw(self, rng: np.random.Generator, p: int, max_size: int | None = None) -> np.ndarray:
        """The variables of one model drawn from the prior, sorted."""
        if isinstance(self.h, tuple):
            return _draw_by_variable(rng, self.inclusion(p), p if max_size is None else min(max_size, p))
        return _draw_exchangeable(self, rng, p, max_size)


@dataclass(frozen=True, repr=False)
class BetaBinomial:
    r"""Hierarchical prior :math:`h \sim \mathrm{Beta}(a, b)`, each variable in with probability h.

    :math:`p(\gamma) = B(a + k, b + p - k)/B(a, b)`: depends on the size k alone, and corrects for multiplicity.

    Parameters
    ----------
    a, b : float
        Parameters of the beta distribution.
    size : float
        Instead of a and b, the expected number of variables m: Beta(1, (p − m)/m), the paper's choice.

    Examples
    --------
    >>> BetaBinomial(a=1, b=1).size_distribution(3)
    array([0.25, 0.25, 0.25, 0.25])
    >>> float(BetaBinomial(size=5).size_distribution(100) @ range(101)).__round__(6)
    5.0
    """

    a: float | None = None
    b: float | None = None
    size: float | None = None

    def __post_init__(self) -> None:
        given = (self.a is not None, self.b is not None, self.size is not None)
        if given not in ((True, True, False), (False, False, True)):
            raise DataError("BetaBinomial: give either a and b, or size (an expected number of variables)")
        for name in ("a", "b", "size"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _positive(value, name, self))

    __repr__ = _written

    def parameters(self, p: int) -> tuple[float, float]:
        """(a, b) for p variables."""
        if self.size is None:
            assert self.a is not None
            assert self.b is not None
            return self.a, self.b
        if self.size >= p:
            raise DataError(
                f"BetaBinomial: an expected size of {self.size:g} needs more than the {p} variables there are"
            )
        return 1.0, (p - self.size) / self.size

    def inclusion(self, p: int) -> np.ndarray:
        """Prior inclusion probability of each of p variables, shape (p,)."""
        a, b = self.parameters(p)
        return np.full(p, a / (a + b))

    def log_terms(self, p: int) -> tuple[np.ndarray, np.ndarray]:
        """(log odds of each variable, term by size): log p(γ) is their sum over γ, up to a constant. Shapes
        (p,), (p + 1,)."""
        a, b = self.parameters(p)
        i = np.arange(p)
        null = (np.log(b + i) - np.log(a + b + i)).sum()  # log p(null model); then one factor per variable
        return np.zeros(p), null + _running_sums(np.log(a + i) - np.log(b + i[::-1]))

    def log_constant(self, p: int, max_size: int | None = None) -> float:
        """What must be added to the sum of ``log_terms`` to give the log of a probability."""
        return _log_constant(self, p, max_size)

    def size_distribution(self, p: int, max_size: int | None = None) -> np.ndarray:
        """Prior probability of each model size 0 … p, shape (p + 1,)."""
        return _size_distribution(self, p, max_size).copy()

    def draw(self, rng: np.random.Generator, p: int, max_size: int | None = None) -> np.ndarray:
        """The variables of one model drawn from the prior, sorted."""
        return _draw_exchangeable(self, rng, p, max_size)


ModelPrior = FixedInclusion | BetaBinomial


def _running_sums(steps: np.ndarray) -> np.ndarray:
    """0, s_0, s_0 + s_1, … of p steps, shape (p + 1,)."""
    return np.concatenate([[0.0], np.cumsum(steps)])


def _log_size_weights(prior: ModelPrior, p: int, top: int) -> np.ndarray:
    """log Σ exp(log terms) over the models of each size 0 … top."""
    log_odds, log_size = prior.log_terms(p)
    if isinstance(prior, FixedInclusion) and isinstance(prior.h, tuple):
        return _log_symmetric_sums(log_odds, top)
    i = np.arange(top)
    return _running_sums(np.log((p - i) / (i + 1)) + log_odds[0]) + log_size[: top + 1]


def _log_symmetric_sums(log_odds: np.ndarray, top: int) -> np.ndarray:
    """log of the elementary symmetric sums e_0 … e_top of the odds, one variable at a time."""
    sums = np.full(top + 1, -np.inf)
    sums[0] = 0.0
    for value in log_odds:
        sums[1:] = np.logaddexp(sums[1:], sums[:-1] + value)
    return sums


def _log_constant(prior: ModelPrior, p: int, max_size: int | None) -> float:
    if max_size is not None and max_size < p:
        return -float(logsumexp(_log_size_weights(prior, p, max_size)))
    return float(np.log1p(-prior.inclusion(p)).sum()) if isinstance(prior, FixedInclusion) else 0.0


@lru_cache(maxsize=16)
def _size_distribution(prior: ModelPrior, p: int, max_size: int | None) -> np.ndarray:
    top = p if max_size is None else min(max_size, p)
    if isinstance(prior, FixedInclusion):  # Bernstein's bound: larger models have no mass in floating point
        mean = prior.inclusion(p).sum()
        top = min(top, int(mean + 250 + np.sqrt(250**2 + 1500 * mean)) + 1)
    weights = _log_size_weights(prior, p, top)
    out = np.zeros(p + 1)
    out[: top + 1] = np.exp(weights - weights.max())
    out /= out.sum()
    out.flags.writeable = False  # it is kept for the next call
    return out


def _draw_exchangeable(
    prior: ModelPrior, rng: np.random.Generator, p: int, max_size: int | None
) -> np.ndarray:
    size = rng.choice(p + 1, p=_size_distribution(prior, p, max_size))
    return np.sort(rng.choice(p, size=size, replace=False))


def _draw_by_variable(rng: np.random.Generator, h: np.ndarray, max_size: int) -> np.ndarray:
    for _ in range(100):
        members = np.flatnonzero(rng.random(len(h)) < h)
        if len(members) <= max_size:
            return members
    return _draw_small_model(rng, np.log(h) - np.log1p(-h), max_size)


def _draw_small_model(rng: np.random.Generator, log_odds: np.ndarray, max_size: int) -> np.ndarray:
    """A model drawn with these odds, given that it has at most max_size variables: its size first, then
    variable by variable."""
    p = len(log_odds)
    rest = np.full((p + 1, max_size + 1), -np.inf)  # [j, k]: log weight of all models of k variables ≥ j
    rest[p, 0] = 0.0
    for j in reversed(range(p)):
        rest[j] = rest[j + 1]
        rest[j, 1:] = np.logaddexp(rest[j, 1:], rest[j + 1, :-1] + log_odds[j])
    left = int(rng.choice(max_size + 1, p=np.exp(rest[0] - logsumexp(rest[0]))))
    members = []
    for j in range(p):
        if left and rng.random() < np.exp(log_odds[j] + rest[j + 1, left - 1] - rest[j, left]):
            members.append(j)
            left -= 1
    return np.array(members, dtype=np.int64)


def default_model_prior(p: int) -> BetaBinomial:
    """Beta-binomial with expected size min(5, p/2).

    >>> default_model_prior(4)
    BetaBinomial(size=2.0)
    """
    return BetaBinomial(size=min(5.0, p / 2))


def check_slab(slab: object) -> Slab:
    """`slab`, or a TypeError that names the choices."""
    if not isinstance(slab, Slab):
        names = ", ".join(kind.__name__ for kind in Slab.__args__)
        raise ArgumentTypeError(
            f"slab must be one of {names}; got {slab!r}. Write for example slab=IndependentNormal(g=1)"
        )
    return slab


def check_model_prior(prior: object) -> ModelPrior:
    """`prior`, or a TypeError that names the choices."""
    if not isinstance(prior, ModelPrior):
        raise ArgumentTypeError(
            f"model_prior must be FixedInclusion(...) or BetaBinomial(...); got {prior!r}. "
            "Write for example model_prior=BetaBinomial(size=5)"
        )
    return prior


def check_noise(noise: object) -> Noise:
    """`noise`, or a TypeError that names the choices."""
    if not isinstance(noise, Noise):
        raise ArgumentTypeError(
            f"noise must be Jeffreys(), InverseGamma(a, b) or KnownVariance(variance); got {noise!r}"
        )
    return noise


def check_slab_with_noise(slab: Slab, noise: Noise) -> None:
    """DataError where the two do not go together."""
    if isinstance(slab, BIC) and isinstance(noise, InverseGamma):
        raise DataError(
            "BIC has no prior on the noise variance; use noise=Jeffreys(), or a slab such as GPrior('n')"
        )
    if isinstance(slab, (HyperG, HyperGN, ZellnerSiow)) and isinstance(noise, KnownVariance):
        raise DataError(
            f"{slab} is worked out for an unknown noise variance only; with noise={noise} use IndependentNormal, GPrior, "
            "LocalEmpiricalBayes or BIC"
        )
