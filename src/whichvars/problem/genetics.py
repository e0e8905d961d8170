r"""The priors that problems of genotypes have by default.

Effects of single variants are small. With a column in units of its standard deviation, :math:`\beta_j \mid \sigma^2 \sim N(0,
g\sigma^2)` expects a variant that matters to explain a share of about g/(1 + g) of the variance. ``g = 1`` would mean one half,
which single variants of complex traits never do: it is so wide that it turns moderate effects away (Lindley's paradox). ``g = 0.01``
means one per cent. It lies between the default of FINEMAP, 0.05² = 0.0025, and the value at which susieR starts to
estimate it, 0.2, and an effect that is several times larger or smaller is found nearly as well. Every entry point for genotypes
and summary statistics asks ``default_slab``, so that there is one place to change it.

A region that is fine-mapped is expected to have one causal variant; the number has a prior that is wide, P(k) ≈ 2⁻ᵏ⁻¹.
"""

from whichvars.problem.model_priors import BetaBinomial, ModelPrior
from whichvars.problem.priors import IndependentNormal, Slab

# prior variance of an effect, in units of the noise variance, per standard deviation of the genotype
EFFECT_VARIANCE = 0.01


def default_slab() -> Slab:
    """The slab of problems of genotypes, if none is given.

    >>> default_slab()
    IndependentNormal(g=0.01)
    """
    return IndependentNormal(EFFECT_VARIANCE)


def default_region_prior(p: int) -> ModelPrior:
    """The prior on which of the p variants of one region matter, if none is given.

    >>> default_region_prior(1000)
    BetaBinomial(size=1.0)
    """
    return BetaBinomial(size=min(1.0, p / 2))
