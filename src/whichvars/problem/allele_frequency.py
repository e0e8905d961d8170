"""A prior under which effects of rare variants are larger, or smaller, than those of frequent ones."""

from typing import Any

import numpy as np

from whichvars.data.frames import read_vector
from whichvars.data.genotypes import Genotypes
from whichvars.errors import DataError
from whichvars.problem.genetics import EFFECT_VARIANCE
from whichvars.problem.priors import IndependentNormal


def slab_by_frequency(
    frequencies: Any, *, alpha: float = -0.25, g: float = EFFECT_VARIANCE
) -> IndependentNormal:
    r"""Independent normal slab whose variance depends on allele frequencies.

    The effect of one more copy of the allele has a variance proportional to :math:`(2f_j(1 - f_j))^\alpha` with the frequency :math:`f_j` of
    the allele. In units of the standard deviation of the genotype, in which slabs are, this is

    .. math:: g_j = c\, (2f_j(1 - f_j))^{1 + \alpha},

    with c such that the :math:`g_j` have the mean `g`. With :math:`\alpha = -1` all variants are expected to explain the same share of the variance,
    as under ``IndependentNormal(g)``. With :math:`\alpha = 0` one more copy is expected to matter as much for rare alleles as for frequent
    ones, so that rare variants explain less. Estimates for human traits lie between: about −0.25 (Speed et al. 2017) to −0.4 (Schoech et al. 2019).

    Parameters
    ----------
    frequencies : Genotypes, or array, shape (p,)
        Genotypes, or the frequencies of their alleles, in the order of the columns of X.
    alpha : float
        How the variance of effects depends on the frequency.
    g : float
        Mean prior variance of the effects, in units of the noise variance, per standard deviation of the genotype.

    Returns
    -------
    IndependentNormal
        With one g for each variant.

    References
    ----------
    Speed et al. (2017), Reevaluation of SNP heritability in complex human traits, Nature Genetics 49, 986–992.

    Schoech et al. (2019), Quantification of frequency-dependent genetic architectures in 25 UK Biobank traits reveals action of negative
    selection, Nature Communications 10, 790.

    Examples
    --------
    >>> import numpy as np, whichvars as wv
    >>> slab = wv.slab_by_frequency([0.01, 0.1, 0.5])
    >>> np.round(slab.g, 4).tolist()
    [0.0017, 0.009, 0.0193]
    """
    if isinstance(frequencies, Genotypes):
        table = frequencies.frequencies()["frequency"]
        if table.isna().any():
            raise DataError(
                f"all genotypes of {table.index[table.isna()][0]!r} are missing; leave the variant out"
            )
        f = table.to_numpy()
    else:
        f = read_vector(frequencies, None, "frequencies")
        outside = np.flatnonzero((f < 0) | (f > 1))
        if outside.size:
            raise DataError(
                f"frequencies must lie between 0 and 1; that in row {outside[0]} is {f[outside[0]]:g}"
            )
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float, np.number)) or not np.isfinite(alpha):
        raise DataError(f"alpha must be a finite number, not {alpha!r}")
    if isinstance(g, bool) or not isinstance(g, (int, float, np.number)) or not 0 < g < np.inf:
        raise DataError(f"g must be a positive number, not {g!r}")
    varies = (f > 0) & (f < 1)
    if not varies.any():
        raise DataError("no variant has two alleles: all frequencies are 0 or 1")
    # variants that do not vary are left out of a problem, whatever their g
    share = np.ones(len(f))
    share[varies] = (2 * f[varies] * (1 - f[varies])) ** (1 + float(alpha))
    share[varies] /= share[varies].mean()
    return IndependentNormal((g * share).tolist())
