r"""A normal slab with a covariance matrix and means that the user gives.

In a model γ, :math:`\beta_\gamma \mid \sigma^2 \sim N(m_\gamma, \sigma^2 \Sigma_{\gamma\gamma})`: the rows and columns of γ are taken from m and Σ, as for the marginal distribution of these
coefficients. With G = XᵀX and c = Xᵀy of the model's residual columns and :math:`r = c - Gm`, the residuals :math:`y - Xm` have the covariance
:math:`\sigma^2 (I + X\Sigma X^T)`, so that

.. math:: S = y^Ty - 2c^Tm + m^TGm - r^T V r, \qquad V = (G + \Sigma^{-1})^{-1}, \qquad
          m(\gamma) \propto |I + G\Sigma|^{-1/2}\, S^{-\nu/2},

or :math:`\exp(-S/(2\sigma^2))` in place of the last factor if σ² is known, and :math:`\beta \mid \sigma^2, y \sim N(m + Vr, \sigma^2 V)`. Means cannot be subtracted from y once and for all,
as models without a variable are without its mean too.

For scans the slab is the independent one with the variances of Σ (``problem/for_kernels.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from whichvars._kernels import evidence
from whichvars._kernels.evidence import SMALLEST_RESIDUAL
from whichvars._kernels.target import Target
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.columns import ColumnsOfModels, gram_of
from whichvars.problem.prior_numbers import positive

CHIPMAN = (
    "Chipman, H., George, E. I. and McCulloch, R. E. (2001). The practical implementation of Bayesian model selection. In Model Selection, "
    "65–134."
)
# numbers of arrays that are made at a time
AT_ONCE = 1 << 21
# least eigenvalue of a covariance matrix, in units of the largest
LEAST_EIGENVALUE = 1e-10


@dataclass(frozen=True, repr=False)
class CorrelatedNormal:
    r"""Normal slab with a given covariance matrix, and with means if you like: :math:`\beta_\gamma \mid \sigma^2 \sim N(m_\gamma, \sigma^2
    \Sigma_{\gamma\gamma})`.

    It is for what an earlier study, or a theory, says of the coefficients: how large they are, in which direction they go, and which of them are alike. A model
    with some of the variables takes their rows and columns of Σ and their entries of m. For Gaussian responses.

    Parameters
    ----------
    covariance : matrix, shape (P, P), or float
        Σ, in units of the noise variance, with a row for each candidate column in the order of X, always-included ones left out. Coefficients
        are those of columns in units of their standard deviation (as they are with ``scale="none"``). A number is the variance of all of them, without correlations.
    means : sequence of float, shape (P,)
        m, in the units of y for each standard deviation of the column. The default is 0.

    Examples
    --------
    Two coefficients that are expected to be alike, and a third one that is expected to be about 0.5:

    >>> CorrelatedNormal([[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]], means=[0, 0, 0.5])
    CorrelatedNormal(3 columns, with means)
    """

    covariance: Any
    means: Any = None
    code: ClassVar = evidence.INDEPENDENT  # formula of the surrogate in the kernels
    references: ClassVar = (CHIPMAN,)

    def __post_init__(self) -> None:
        means = None if self.means is None else _vector(self.means)
        if np.ndim(self.covariance) == 0:
            covariance: Any = positive(self.covariance, "covariance", self)
        else:
            covariance = _matrix(self.covariance)
        if means is not None and not isinstance(covariance, float) and len(means) != len(covariance):
            raise DataError(
                f"CorrelatedNormal: there are {len(means)} means, but covariance has {len(covariance)} rows"
            )
        object.__setattr__(self, "covariance", covariance)
        object.__setattr__(self, "means", means)

    def __repr__(self) -> str:
        rows = (
            f"{self.covariance}" if isinstance(self.covariance, float) else f"{len(self.covariance)} columns"
        )
        return f"CorrelatedNormal({rows}{'' if self.means is None else ', with means'})"

    def of_columns(self, kept: Sequence[int], count: int) -> "CorrelatedNormal":
        """The same for those of `count` columns that were kept, in this order."""
        for what, values in (("covariance", self.covariance), ("means", self.means)):
            if isinstance(values, tuple) and len(values) not in (count, len(kept)):
                raise DataError(
                    f"CorrelatedNormal: {what} is for {len(values)} columns, but there are {count} candidate columns"
                )
        covariance, means = self.covariance, self.means
        if isinstance(covariance, tuple) and len(covariance) == count:
            covariance = tuple(tuple(covariance[i][j] for j in kept) for i in kept)
        if means is not None and len(means) == count:
            means = tuple(means[i] for i in kept)
        return CorrelatedNormal(covariance, means)

    @cached_property
    def _covariances(self) -> np.ndarray:
        """Σ as an array, (P, P), if it was given as a matrix."""
        return np.array(self.covariance)

    def variances(self, P: int) -> np.ndarray:
        """The diagonal of Σ, (P,)."""
        return (
            np.full(P, self.covariance)
            if isinstance(self.covariance, float)
            else self._covariances.diagonal()
        )

    def among(self, columns: np.ndarray) -> np.ndarray:
        """Σ of the columns of each model, (models, k, k). `columns` is (models, k)."""
        if isinstance(self.covariance, float):
            return np.tile(self.covariance * np.eye(columns.shape[1]), (len(columns), 1, 1))
        return self._covariances[columns[:, :, None], columns[:, None, :]]

    def means_of(self, columns: np.ndarray) -> np.ndarray:
        """m of the columns of each model, (models, k)."""
        return np.zeros(columns.shape) if self.means is None else self._means[columns]

    @cached_property
    def _means(self) -> np.ndarray:
        return np.array(self.means)

    def words(self, n: int, p: int) -> str:
        """A sentence for the methods section of a paper, with n rows and p variables."""
        means = "mean zero" if self.means is None else "given means"
        if isinstance(self.covariance, float):
            return f"Coefficients had independent normal priors with {means} and variance {self.covariance:g} σ², where σ² is the noise variance."
        return (
            f"Coefficients had a joint normal prior with {means} and a given covariance matrix, in units of the noise variance σ²; a model had the part of "
            "it that is about its own coefficients."
        )


def _vector(values: Any) -> tuple[float, ...]:
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "fiu" or numbers.ndim != 1:
        raise ArgumentTypeError(f"CorrelatedNormal: means must be a list of numbers, not {values!r}")
    if not np.isfinite(numbers).all():
        raise DataError(
            f"CorrelatedNormal: mean {int(np.argmin(np.isfinite(numbers)))} is not a finite number"
        )
    return tuple(float(v) for v in numbers)


def _matrix(values: Any) -> tuple[tuple[float, ...], ...]:
    matrix = np.asarray(values)
    if matrix.dtype.kind not in "fiu" or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ArgumentTypeError(
            f"CorrelatedNormal: covariance must be a number or a square matrix of numbers, not {values!r}"
        )
    if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T, rtol=1e-8, atol=0.0):
        raise DataError("CorrelatedNormal: covariance must be a symmetric matrix of finite numbers")
    matrix = (matrix + matrix.T) / 2.0
    smallest, largest = np.linalg.eigvalsh(matrix)[[0, -1]]
    if not smallest > LEAST_EIGENVALUE * largest:
        raise DataError(
            f"CorrelatedNormal: covariance must be positive definite, but its smallest eigenvalue is {smallest:.3g}"
        )
    return tuple(tuple(float(v) for v in row) for row in matrix)


class Posteriors(NamedTuple):
    """The posteriors of m models of k columns, in the kernels' units."""

    b: np.ndarray  # (m, k)
    V: np.ndarray  # (m, k, k)
    S: np.ndarray  # (m,): of the residuals, with what the prior on the noise adds
    log_determinant: np.ndarray  # (m,): of I + GΣ


def posteriors(target: Target, columns: np.ndarray, slab: CorrelatedNormal, y_scale: float) -> Posteriors:
    """Of models with these columns, (m, k). In the kernels, y is divided by `y_scale`."""
    design, null = target.design, target.slab.s_null
    k = columns.shape[1]
    sigma, m = slab.among(columns), slab.means_of(columns) / y_scale
    gram, c = gram_of(design, columns), design.xty[columns]
    V = np.linalg.inv(gram + np.linalg.inv(sigma))
    V = (V + V.transpose(0, 2, 1)) / 2
    r = c - np.einsum("mij,mj->mi", gram, m)
    shift = np.einsum("mij,mj->mi", V, r)
    residual = null - np.einsum("mi,mi->m", c + r, m) - np.einsum("mi,mi->m", r, shift)
    log_determinant = np.linalg.slogdet(np.eye(k) + gram @ sigma)[1]
    return Posteriors(m + shift, V, np.maximum(residual, SMALLEST_RESIDUAL * null), log_determinant)


def log_correlated_marginals(
    target: Target,
    offsets: np.ndarray,
    members: np.ndarray,
    start: np.ndarray,
    slab: CorrelatedNormal,
    y_scale: float,
) -> np.ndarray:
    """log p(y | γ) − log p(y | null model) of each model, (models,). Models are given as for ``log_priors_of``."""
    known, null = target.slab.nu == np.inf, target.slab.s_null
    columns = ColumnsOfModels.of(offsets, members, start)
    sizes = np.diff(columns.start)
    out = np.zeros(len(sizes))
    for k in np.unique(sizes[sizes > 0]):
        chosen = np.flatnonzero(sizes == k)
        step = max(1, AT_ONCE // int(k * max(k, len(target.design.columns.T))))
        for first in range(0, len(chosen), step):
            some = chosen[first : first + step]
            index = columns.columns[columns.start[some][:, None] + np.arange(k)]
            found = posteriors(target, index, slab, y_scale)
            if known:
                fit = target.slab.half_precision * (null - found.S) / null
            else:
                fit = -0.5 * target.slab.nu * np.log(found.S / null)
            out[some] = fit - 0.5 * found.log_determinant
    return out
