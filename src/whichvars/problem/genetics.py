r"""The priors that problems of genotypes have by default.

Effects of single variants are small. With a column in units of its standard deviation, :math:`\beta_j \mid \sigma^2 \sim N(0,
g\sigma^2)` expects a variant that matters to explain a share of about g/(1 + g) of the variance. ``g = 1`` would mean one half,
which single variants of complex traits never do: it is so wide that it turns moderate effects away (Lindley's paradox). ``g = 0.01``
means one per cent. It lies between the default of FINEMAP, 0.05² = 0.0025, and the value at which susieR starts to
estimate it, 0.2, and an effect that is several times larger or smaller is found nearly as well. If a variant alone has an effect of
more than one prior standard deviation, the prior is made so wide that it is one. This is the g that makes such an effect most
probable, as susieR estimates it. Under a narrower prior, the evidence for one variant rather than another is weighed down by
ng/(1 + ng), so that credible sets are larger than they need be; and under one that is much narrower, all copies of a variant would be in.
Every entry point for genotypes and summary statistics asks this module, so that there is one place to change it.

A region that is fine-mapped is expected to have one causal variant; the number has a prior that is wide, P(k) ≈ 2⁻ᵏ⁻¹.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from whichvars.problem.arguments import are_genotypes
from whichvars.problem.model_priors import BetaBinomial, ModelPrior
from whichvars.problem.prior_width import distances
from whichvars.problem.priors import IndependentNormal, Slab, check_slab

if TYPE_CHECKING:
    from whichvars.problem.problem import Problem

# prior variance of an effect, in units of the noise variance, per standard deviation of the genotype
EFFECT_VARIANCE = 0.01
# prior standard deviations that the largest effect is away from 0 at most
MOST_DISTANT = 1.0


def default_slab() -> IndependentNormal:
    """The slab of problems of genotypes if none is given, unless an effect is large.

    >>> default_slab()
    IndependentNormal(g=0.01)
    """
    return IndependentNormal(EFFECT_VARIANCE)


def read_slab(slab: object, X: Any) -> Slab:
    """The slab that was given, or the default, which is narrower for genotypes than for other data."""
    usual = default_slab() if are_genotypes(X) else IndependentNormal()
    return check_slab(usual if slab is None else slab)


def wide_enough(problem: "Problem") -> "Problem":
    """The same problem under a slab that is wide enough for its largest effect; the problem itself if its slab is.

    >>> import numpy as np, whichvars as wv
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 6))
    >>> wide_enough(wv.Problem(X, X[:, 2] + 0.5 * rng.normal(size=200), slab=default_slab())).slab
    IndependentNormal(g=3.8)
    """
    far = distances(problem)
    if not len(far) or not MOST_DISTANT < far.max() < np.inf:
        return problem
    j = int(far.argmax())
    g = (far[j] / MOST_DISTANT) ** 2 / problem.target(0).slab.ridge[j]
    # two digits, so that it can be written down
    return problem.with_priors(slab=IndependentNormal(float(f"{g:.2g}")))


def default_region_prior(p: int) -> ModelPrior:
    """The prior on which of the p variants of one region matter, if none is given.

    >>> default_region_prior(1000)
    BetaBinomial(size=1.0)
    """
    return BetaBinomial(size=min(1.0, p / 2))
