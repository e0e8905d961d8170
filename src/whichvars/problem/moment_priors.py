"""Non-local slabs, whose density is 0 at 0. What they are worth is in moment_factors.py."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from whichvars._kernels import evidence
from whichvars.problem.prior_numbers import positive

JOHNSON = (
    "Johnson, V. E. and Rossell, D. (2012). Bayesian model selection in high-dimensional settings. Journal of the American Statistical "
    "Association 107, 649–660."
)
ROSSELL = (
    "Rossell, D., Telesca, D. and Johnson, V. E. (2013). High-dimensional Bayesian classifiers using non-local priors. In Statistical Models for Data "
    "Analysis, 305–313."
)


@dataclass(frozen=True)
class ProductMoment:
    r"""Product moment prior, pMOM (Johnson and Rossell 2012): a *non-local* slab,

    .. math:: p(\beta_\gamma \mid \sigma^2) = \prod_{j \in \gamma} \frac{\beta_j^2}{\tau\sigma^2}\, N(\beta_j; 0, \tau\sigma^2) .

    Its density is 0 where a coefficient is 0. So a model with a variable that does nothing is not just a little worse than the model without it: its
    Bayes factor falls like :math:`n^{-3/2}` and not like :math:`n^{-1/2}`, as under a normal slab. The slab is that of R's ``mombf::momprior(tau)``, with columns
    in units of their standard deviation and the noise variance integrated out under the prior `noise` of the ``Problem``. For Gaussian responses. Each column of a group
    has a factor of its own.

    Parameters
    ----------
    tau : float
        The scale. The default of mombf, 0.348, says that an effect is larger than 0.2 noise standard deviations per standard deviation of the
        variable with probability 0.99.

    Examples
    --------
    >>> ProductMoment()
    ProductMoment(tau=0.348)
    """

    tau: float = 0.348
    code: ClassVar = evidence.INDEPENDENT  # formula of its normal factor in the kernels
    references: ClassVar = (JOHNSON,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", positive(self.tau, "tau", self))

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return (
            f"Coefficients had the product moment prior (pMOM) with scale τ = {self.tau:g}: independent normal priors with variance τσ², σ² the "
            "noise variance, times β²/(τσ²)."
        )


@dataclass(frozen=True)
class ExponentialMoment:
    r"""Product exponential moment prior, peMOM (Johnson and Rossell 2012; Rossell, Telesca and Johnson 2013): a non-local slab,

    .. math:: p(\beta_\gamma \mid \sigma^2) = \prod_{j \in \gamma} \exp\Big(\sqrt2 - \frac{\tau\sigma^2}{\beta_j^2}\Big)\, N(\beta_j; 0, \tau\sigma^2) .

    Near 0 its density falls faster than any power of β, and the Bayes factor of a variable that does nothing like :math:`e^{-\sqrt{2n\tau}}`. So it
    leaves out more than ``ProductMoment``, true variables of small effect among them. It is that of R's ``mombf::emomprior(tau)``, under the conventions
    of ``ProductMoment``. Marginal likelihoods are means over 1,024
    quasi-random points, the same for all models. Their logarithms are accurate to about 0.005, and for many columns with correlations of 0.8 to about 0.1.

    Parameters
    ----------
    tau : float
        The scale. The default of mombf, 0.119, says that an effect is larger than 0.2 noise standard deviations per standard deviation of the
        variable with probability 0.99.

    Examples
    --------
    >>> ExponentialMoment()
    ExponentialMoment(tau=0.119)
    """

    tau: float = 0.119
    code: ClassVar = evidence.INDEPENDENT  # formula of its normal factor in the kernels
    references: ClassVar = (JOHNSON, ROSSELL)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", positive(self.tau, "tau", self))

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return (
            f"Coefficients had the product exponential moment prior (peMOM) with scale τ = {self.tau:g}: independent normal priors with variance τσ², "
            "σ² the noise variance, times exp(√2 − τσ²/β²)."
        )


MomentPrior = ProductMoment | ExponentialMoment


def log_factor_without_effect(slab: MomentPrior, squares: float) -> float:
    """log of the mean factor of a column of this sum of squares whose coefficient is estimated as 0."""
    if isinstance(slab, ProductMoment):
        return -float(np.log1p(squares * slab.tau))
    return float(np.sqrt(2) - np.sqrt(2 * (1 + squares * slab.tau)))
