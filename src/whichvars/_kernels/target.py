"""What is fixed: the data, the slab and the model prior as kernels see them. One type for every problem.

Every field has one dtype and one layout, fixed by ``Problem`` (vectors by column, and those by variable, are strided
views that share their lines of memory), so that each kernel compiles once for all slabs, priors and engines: which
formula applies is an integer code, not a type.
"""

from typing import NamedTuple

import numpy as np

from whichvars._kernels.jit import by_reference
from whichvars._kernels.products.stored import Stored, new_stored


@by_reference
class Design(NamedTuple):
    """Residualised data: P columns of p variables as a Gram matrix, as the columns themselves, or as columns that are
    stored as they came and are made into residuals when they are used."""

    gram: np.ndarray  # (P, P) float64, or (0, 0) in the column engine
    columns: np.ndarray  # (P, n) float64, one column of X a row, or (0, 0)
    diagonal: np.ndarray  # (P,) x_jᵀx_j
    xty: np.ndarray  # (P,) x_jᵀy
    offsets: np.ndarray  # (p + 1,) int64: variable j owns columns offsets[j] … offsets[j + 1] − 1
    keys: np.ndarray  # (p,) uint64: one random word a variable; a model's key is their xor
    stored: Stored = new_stored()


@by_reference
class Slab(NamedTuple):
    """The coefficient prior."""

    code: int  # see _kernels/evidence.py
    ridge: np.ndarray  # (P,) 1/g_j for the independent slab, else 0
    half_log_g: np.ndarray  # (P,) ½ log g_j for the independent slab, else 0
    nu: float  # ν + 2·a0; infinite where the noise variance σ² is known
    s_null: float  # yᵀy + 2·b0
    rows: float  # n, rows of positive weight
    g: float
    max_columns: int
    table: np.ndarray  # (K + 1, 1 + intervals, 14): see _kernels/evidence.py; (1, 1, 2) where unused
    half_precision: float = 0.0  # yᵀy/(2σ²) where σ² is known
    # True if all this is a surrogate: models are worth what fits of them say, or an average over g
    surrogate: bool = False
    # (values, 3), if g of the independent slab is unknown: each value as a factor of `ridge`, the log of its prior probability, and what it
    # adds to ½ log g_j; or (0, 3)
    grid: np.ndarray = np.zeros((0, 3))


@by_reference
class ModelPrior(NamedTuple):
    """log p(γ) = Σ_{j in γ} log_odds[j] + log_size[k], up to a constant.

    Under heredity, with m the number of variables that are available (all their parents are in γ), also
    Σ_{j available, with parents} terms[j, 0] + terms[m − k, 1] + terms[m, 2], which is 0 for the null model; and
    −inf where a variable in γ is not available. `links` holds, one after the other: the number of variables
    without parents; 2p + 1 places in `links` itself, at which the parents of each variable, then the children
    of each begin (and the last ends); all variables, parents before children (p); these parents and children.

    Of a graph, Σ of the strengths of edges with both ends in γ instead. `links` then holds −1; p + 1 places in `links`, at which the neighbours of
    each variable begin (and the last ends); these neighbours. `terms[e, 0]` is the strength of the edge to the e-th of them.
    """

    log_odds: np.ndarray  # (p,)
    log_size: np.ndarray  # (p + 1,)
    max_size: int
    links: np.ndarray  # int64; of length 0 without heredity
    terms: np.ndarray  # (p + 1, 3) float64, of a graph (twice its edges, 3), or (0, 3)


@by_reference
class Target(NamedTuple):
    """The unnormalised posterior p(y | γ) p(γ)."""

    design: Design
    slab: Slab
    prior: ModelPrior
