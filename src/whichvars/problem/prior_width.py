r"""Is the prior on effects wide enough for the effects that the data show?

The coefficient of a regression on column j alone is compared with the prior's standard deviation,

.. math:: d_j^2 = \hat\beta_j^2 / (g \hat\sigma_j^2), \qquad \hat\beta_j = x_j^T y / x_j^T x_j.

An effect that two copies of a variable share has a prior density of about :math:`e^{-d^2/4}`, and one of :math:`e^{-d^2/2}` if one of them has it
alone. If d is large, this outweighs what a further variable costs: all copies are in, as if each of them were certain.

For responses of two values and Student's, the coefficient is that of one step of Fisher scoring from the null model, the score of column j over its
information; rows are taken to have the same information about it as about all columns on average. A step from the null model says little of the
effects on counts, which are not judged.
"""

from typing import TYPE_CHECKING

import numpy as np

from whichvars.problem.families import Gaussian, Logistic, Probit, Student
from whichvars.problem.priors import IndependentNormal, KnownVariance

if TYPE_CHECKING:
    from whichvars.problem.problem import Problem

# prior standard deviations beyond which an effect is remarked upon
FAR = 5.0


def distances(problem: "Problem") -> np.ndarray:
    """How many prior standard deviations the effect of each column alone is away from 0, (P,); empty if the prior has no fixed width.

    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> print(distances(wv.Problem(data.X, data.y, slab=wv.IndependentNormal(0.01))).max().round(1))
    9.1
    """
    fixed = isinstance(problem.slab, IndependentNormal) and not problem.slab.unknown
    if not fixed or not isinstance(problem.family, (Gaussian, Logistic, Probit, Student)):
        return np.zeros(0)
    target = problem.target(0)
    design, slab = target.design, target.slab
    coefficient = design.xty / design.diagonal
    if problem.fit_data is not None:
        return np.abs(steps_from_null(problem)[0]) / _noise_unit(problem) * np.sqrt(slab.ridge)
    if isinstance(problem.noise, KnownVariance):
        precision = np.full(len(coefficient), 2 * slab.half_precision)
    else:
        # y has length 1
        left = np.maximum(slab.s_null - coefficient * design.xty, 0.0)
        with np.errstate(divide="ignore"):
            precision = slab.nu / left
    return np.abs(coefficient) * np.sqrt(precision * slab.ridge)


def steps_from_null(problem: "Problem") -> tuple[np.ndarray, np.ndarray]:
    """If the family is not Gaussian: the coefficient of each column alone, by one step of Fisher scoring from the null model, and its
    information, (P,) each. Columns are in the units of the slab."""
    data, design = problem.fit_data, problem.target(0).design
    assert data is not None
    information = data.information.sum() / data.weights.sum() / _noise_unit(problem) ** 2
    # the score has length 1 in the design
    length = np.sqrt(data.weights @ data.score**2)
    return design.xty * length / (design.diagonal * information), design.diagonal * information


def _noise_unit(problem: "Problem") -> float:
    """The scale of a Student response in the null model, to which slabs are relative; 1 for other families that are not Gaussian."""
    assert problem.fit_data is not None
    return problem.fit_data.dispersion if isinstance(problem.family, Student) else 1.0


def narrow_prior(problem: "Problem") -> list[str]:
    """What to say of a prior under which the largest effect is very improbable; empty if it is not."""
    far = distances(problem)
    if not len(far) or far.max() <= FAR:
        return []
    j = int(far.argmax())
    wide = float(f"{far[j] ** 2 / problem.target(0).slab.ridge[j]:.2g}")
    rather = f"; IndependentNormal({wide:g}) would be wide enough" if np.isfinite(wide) else ""
    times = f"{far[j]:,.0f}" if far[j] < 1e6 else "more than a million"
    return [
        f"the effect of {problem.columns_used[j]} alone is {times} prior standard deviations. Under so narrow a prior ({problem.slab}), copies of "
        f"one variable may all seem certain{rather}"
    ]
