"""Priors on models, that is on which variables are in: p(γ)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from scipy.special import logsumexp

from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.dilution import Dilution
from whichvars.problem.graph_prior import MarkovRandomField
from whichvars.problem.prior_numbers import in_short, numbers, per_variable, positive, written


@dataclass(frozen=True, repr=False)
class FixedInclusion:
    r"""Each variable is in the model independently, with a known probability: :math:`p(\gamma) = \prod_j
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
            object.__setattr__(self, "h", numbers(self.h, "h", self, below_one=True))
        else:
            object.__setattr__(self, "size", positive(self.size, "size", self))

    __repr__ = written

    def __str__(self) -> str:
        return in_short(self, "h")

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
    r"""Hierarchical prior: :math:`h \sim \mathrm{Beta}(a, b)`, and each variable is in the model with probability h.

    :math:`p(\gamma) = B(a + k, b + p - k)/B(a, b)` depends only on the size k, and corrects for multiplicity.

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
                object.__setattr__(self, name, positive(value, name, self))

    __repr__ = written

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


class BySize(ABC):
    """What priors share under which all models of the same size are equally probable, p(γ) = π(k)/C(p, k)."""

    @abstractmethod
    def log_sizes(self, p: int) -> np.ndarray:
        """log π(k) of the sizes 0 … p, up to a constant, shape (p + 1,)."""

    def inclusion(self, p: int) -> np.ndarray:
        """Prior inclusion probability of each of p variables, shape (p,)."""
        return np.full(p, mean_of_sizes(self.size_distribution(p)) / p)

    def log_terms(self, p: int) -> tuple[np.ndarray, np.ndarray]:
        """(log odds of each variable, term by size): log p(γ) is their sum over γ, up to a constant. Shapes
        (p,), (p + 1,)."""
        sizes, i = self.log_sizes(p), np.arange(p)
        return np.zeros(p), sizes - logsumexp(sizes) - _running_sums(np.log((p - i) / (i + 1)))

    def log_constant(self, p: int, max_size: int | None = None) -> float:
        """What must be added to the sum of ``log_terms`` to give the log of a probability."""
        return _log_constant(cast(ModelPrior, self), p, max_size)

    def size_distribution(self, p: int, max_size: int | None = None) -> np.ndarray:
        """Prior probability of each model size 0 … p, shape (p + 1,)."""
        return _size_distribution(cast(ModelPrior, self), p, max_size).copy()

    def draw(self, rng: np.random.Generator, p: int, max_size: int | None = None) -> np.ndarray:
        """The variables of one model drawn from the prior, sorted."""
        return _draw_exchangeable(cast(ModelPrior, self), rng, p, max_size)


@dataclass(frozen=True)
class PoissonSize(BySize):
    r"""The number of variables in the model has a Poisson distribution, cut off at the number there are: :math:`\pi(k) \propto m^k/k!`.

    Models of the same size are equally probable. The size varies less than under ``BetaBinomial(size=m)``, and about as much as under
    ``FixedInclusion(size=m)``, which it approaches if there are many variables. With `max_size` of the ``Problem`` it is R's
    ``BAS::tr.poisson``.

    Parameters
    ----------
    size : float
        m, the expected number of variables before the distribution is cut off.

    Examples
    --------
    >>> PoissonSize(size=1).size_distribution(3)
    array([0.375 , 0.375 , 0.1875, 0.0625])
    """

    size: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", positive(self.size, "size", self))

    def log_sizes(self, p: int) -> np.ndarray:
        """log π(k) of the sizes 0 … p, up to a constant, shape (p + 1,)."""
        return _running_sums(np.log(self.size) - np.log(np.arange(1, p + 1)))


@dataclass(frozen=True)
class Complexity(BySize):
    r"""Complexity prior (Castillo, Schmidt-Hieber and van der Vaart 2015): :math:`\pi(k) \propto c^{-k} p^{-a k}`.

    Every further variable costs a factor of c pᵃ, so that large models are improbable from the outset. It is for very many candidates of
    which few matter: under it the posterior concentrates on the right variables if p grows with n. If p is small, or many variables
    matter, it leaves variables out that other priors find.

    Parameters
    ----------
    a : float
        The power of p; 1 is usual, larger values are stricter.
    c : float
        A further factor for each variable.

    Examples
    --------
    >>> Complexity().size_distribution(100)[:3].round(4).tolist()
    [0.99, 0.0099, 0.0001]
    """

    a: float = 1.0
    c: float = 1.0

    def __post_init__(self) -> None:
        for name in ("a", "c"):
            object.__setattr__(self, name, positive(getattr(self, name), name, self))

    def log_sizes(self, p: int) -> np.ndarray:
        """log π(k) of the sizes 0 … p, up to a constant, shape (p + 1,)."""
        return -np.arange(p + 1) * (np.log(self.c) + self.a * np.log(p))


@dataclass(frozen=True)
class SizeDistribution(BySize):
    r"""Any distribution of the number of variables in the model; models of the same size are equally probable.

    Parameters
    ----------
    weights : sequence of float
        One positive number for each of the sizes 0, 1, 2, …; they need not sum to one. If they end before the number of variables, give the last size as
        `max_size` of the ``Problem``.

    Examples
    --------
    >>> SizeDistribution([1, 2, 1]).size_distribution(2)
    array([0.25, 0.5 , 0.25])
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        given = self.weights
        if not isinstance(given, Iterable) or isinstance(given, (Mapping, Set, str, bytes)):
            raise ArgumentTypeError(
                f"SizeDistribution: weights must be a list with one positive number for each of the sizes 0, 1, 2, …, not {given!r}"
            )
        object.__setattr__(self, "weights", numbers(given, "weights", self))

    def log_sizes(self, p: int) -> np.ndarray:
        """log π(k) of the sizes 0 … p, up to a constant, shape (p + 1,); −∞ for sizes that were not given."""
        if len(self.weights) > p + 1:
            raise DataError(
                f"SizeDistribution: there are {len(self.weights)} weights, but {p} variables; give at most {p + 1}, for the sizes 0 to {p}"
            )
        return np.concatenate([np.log(self.weights), np.full(p + 1 - len(self.weights), -np.inf)])


ModelPrior = (
    FixedInclusion | BetaBinomial | PoissonSize | Complexity | SizeDistribution | MarkovRandomField | Dilution
)


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


def log_sizes_given(
    prior: ModelPrior, p: int, max_size: int | None, inside: Sequence[int], outside: Sequence[int]
) -> np.ndarray:
    """log prior probability of all models of each size 0 … p that have the variables `inside` and lack those `outside`, (p + 1,)."""
    log_odds, log_size = prior.log_terms(p)
    top = p if max_size is None else min(max_size, p)
    most = min(top, p - len(outside)) - len(inside)
    out = np.full(p + 1, -np.inf)
    if most < 0:
        return out
    others = np.delete(log_odds, [*inside, *outside])
    if (others == others[:1]).all():
        i = np.arange(most)
        sums = _running_sums(np.log((len(others) - i) / (i + 1)) + (others[0] if len(others) else 0.0))
    else:
        sums = _log_symmetric_sums(others, min(most, _most_of(prior, p)))
    sizes = len(inside) + np.arange(len(sums))
    out[sizes] = sums + log_odds[list(inside)].sum() + log_size[sizes] + prior.log_constant(p, max_size)
    return out


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


def _most_of(prior: ModelPrior, p: int) -> int:
    """A size above which models have no mass in floating point: Bernstein's bound, if variables are independent."""
    if not isinstance(prior, FixedInclusion):
        return p
    mean = prior.inclusion(p).sum()
    return int(mean + 250 + np.sqrt(250**2 + 1500 * mean)) + 1


@lru_cache(maxsize=16)
def _size_distribution(prior: ModelPrior, p: int, max_size: int | None) -> np.ndarray:
    top = p if max_size is None else min(max_size, p)
    top = min(top, _most_of(prior, p))
    weights = _log_size_weights(prior, p, top)
    out = np.zeros(p + 1)
    out[: top + 1] = np.exp(weights - weights.max())
    out /= out.sum()
    out.flags.writeable = False  # it is kept for the next call
    return out


def mean_of_sizes(probabilities: np.ndarray) -> float:
    """The mean of a distribution of the sizes 0 … p, (p + 1,).

    This is not a product of two vectors: BLAS shares products of more than 10,000 numbers among its threads, and for about .2 seconds
    these wait for more work as busily as if they had some.

    >>> mean_of_sizes(np.array([0.5, 0.25, 0.25]))
    0.75
    """
    return float((probabilities * np.arange(len(probabilities))).sum())


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
    """Draw a model with these odds, given that it has at most max_size variables: first its size, then one variable
    after the other."""
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


def check_model_prior(prior: object) -> ModelPrior:
    """`prior`, or a TypeError that names the choices."""
    if not isinstance(prior, ModelPrior):
        raise ArgumentTypeError(
            f"model_prior must be one of {', '.join(kind.__name__ for kind in ModelPrior.__args__)}; got {prior!r}. "
            "Write for example model_prior=BetaBinomial(size=5)"
        )
    if isinstance(prior, Dilution) and prior.base is not None:
        check_model_prior(prior.base)
    return prior


def check_sizes(prior: object, p: int, max_size: int) -> None:
    """DataError if a prior gives no probability to sizes that are possible, or cannot be cut off at a size."""
    prior = prior.base if isinstance(prior, Dilution) else prior
    if isinstance(prior, MarkovRandomField) and max_size < p:
        raise DataError(
            "MarkovRandomField cannot be combined with max_size, as its normalising constant would not be known"
        )
    if isinstance(prior, SizeDistribution) and len(prior.weights) < min(p, max_size) + 1:
        last = len(prior.weights) - 1
        raise DataError(
            f"SizeDistribution: there are weights for the sizes 0 to {last}, but models may have {min(p, max_size)} variables; give "
            f"max_size={last} too"
        )
