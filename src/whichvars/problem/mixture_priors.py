"""Mixtures of g-priors whose distribution of g depends on the model: beta-prime, robust and intrinsic. The others are in priors.py."""

from dataclasses import dataclass
from typing import ClassVar

from whichvars._kernels import evidence

BAYARRI = (
    "Bayarri, M. J., Berger, J. O., Forte, A. and García-Donato, G. (2012). Criteria for Bayesian model choice with application to variable "
    "selection. Annals of Statistics 40, 1550–1577."
)
MARUYAMA = "Maruyama, Y. and George, E. I. (2011). Fully Bayes factors with a generalized g-prior. Annals of Statistics 39, 2740–2765."
WOMACK = (
    "Womack, A. J., León-Novelo, L. and Casella, G. (2014). Inference from intrinsic Bayes' procedures under model selection and uncertainty. "
    "Journal of the American Statistical Association 109, 1040–1053."
)


@dataclass(frozen=True)
class Robust:
    r"""Robust prior (Bayarri, Berger, Forte and García-Donato 2012): a g-prior with

    .. math:: \pi(g) = \tfrac12 \sqrt{\frac{n + 1}{k + k_0}}\, (1 + g)^{-3/2}, \qquad g > \frac{n + 1}{k + k_0} - 1,

    where the model has k columns besides the k₀ that all models have (the intercept and the always-included ones). It was derived
    from criteria that a prior for comparing models should meet, and has the tails of a Cauchy distribution. For Gaussian responses.

    Examples
    --------
    >>> Robust()
    Robust()
    """

    code: ClassVar = evidence.MIXTURE  # formula in the kernels
    references: ClassVar = (BAYARRI,)

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return "Coefficients had the robust prior."


@dataclass(frozen=True)
class Intrinsic:
    r"""Intrinsic prior (Womack, León-Novelo and Casella 2014): a g-prior with

    .. math:: g = \frac{n}{k + k_0} \cdot \frac1w, \qquad w \sim \mathrm{Beta}(\tfrac12, \tfrac12),

    where the model has k columns besides the k₀ that all models have. It is what an average over imaginary data from the null model
    makes of a flat prior. For Gaussian responses.

    Examples
    --------
    >>> Intrinsic()
    Intrinsic()
    """

    code: ClassVar = evidence.MIXTURE  # formula in the kernels
    references: ClassVar = (WOMACK,)

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return "Coefficients had the intrinsic prior."


@dataclass(frozen=True)
class BetaPrime:
    r"""Beta-prime prior (Maruyama and George 2011): a g-prior in which 1/(1 + g) has the distribution
    :math:`\mathrm{Beta}(\tfrac14, \tfrac{n - k - 1.5}{2})` in a model of k columns. For Gaussian responses.

    Examples
    --------
    >>> BetaPrime()
    BetaPrime()
    """

    code: ClassVar = evidence.MIXTURE  # formula in the kernels
    references: ClassVar = (MARUYAMA,)

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        return "Coefficients had the beta-prime prior."
