"""From priors and products of columns to the ``Target`` that kernels see: numbers and arrays, no classes."""

from typing import Literal

import numpy as np

from whichvars._kernels.evidence import BY_FIT, INDEPENDENT
from whichvars._kernels.products.stored import frozen
from whichvars._kernels.target import Design, Target
from whichvars._kernels.target import ModelPrior as KernelPrior
from whichvars._kernels.target import Slab as KernelSlab
from whichvars.errors import DataError
from whichvars.problem.columns import ZOBRIST_SEED, Products, side_by_side
from whichvars.problem.correlated_prior import CorrelatedNormal
from whichvars.problem.dilution import Dilution
from whichvars.problem.flat import LARGEST_SQUARE
from whichvars.problem.graph_prior import MarkovRandomField
from whichvars.problem.heredity import ConditionalPrior
from whichvars.problem.mixture_priors import BetaPrime, Intrinsic, Robust
from whichvars.problem.mixtures import Parameters, mixture_table
from whichvars.problem.model_priors import ModelPrior
from whichvars.problem.moment_priors import MomentPrior, log_factor_without_effect
from whichvars.problem.prior_numbers import per_variable
from whichvars.problem.priors import (
    CCH,
    GPrior,
    HyperG,
    HyperGN,
    IndependentNormal,
    InverseGamma,
    KnownVariance,
    Noise,
    Slab,
    ZellnerSiow,
    values_of_g,
)

MIXTURES = {
    HyperG: "hyper-g", HyperGN: "hyper-g/n", ZellnerSiow: "zellner-siow", CCH: "cch", BetaPrime: "beta-prime", Robust: "robust",
    Intrinsic: "intrinsic",
}  # fmt: skip
# size of the largest Gram matrix that engine="auto" computes
GRAM_BYTES = 512 << 20
# most columns for which it computes that of a surrogate
MOST_IN_GRAM = 1024
# yᵀy/(2σ²) above which rounding errors of log marginal likelihoods exceed about 0.001
SHARPEST = 1e12


def choose_engine(
    engine: str, n_columns: int, n: int, gaussian: bool
) -> tuple[Literal["gram", "columns"], bool]:
    """Whether products of columns are all computed at once, and whether those of a surrogate are."""
    if not gaussian:  # fits need the columns in any case
        return "columns", engine == "gram" or (engine == "auto" and n_columns <= MOST_IN_GRAM)
    fits = n_columns**2 * 8 <= GRAM_BYTES
    # otherwise a short dot product is cheaper than a cache miss
    small = n_columns <= 2048 or n >= 256
    return ("gram" if engine == "gram" or (engine == "auto" and fits and small) else "columns"), False


def kernel_slab(
    slab: Slab, noise: Noise, offsets: np.ndarray, n: int, nu: int, y_scale: float, spread: float
) -> KernelSlab:
    """The priors on coefficients and noise for the kernels, in which y is divided by its length `y_scale`. `spread` is the mean variance of the
    columns, 1 if they are scaled."""
    p, n_columns = len(offsets) - 1, int(offsets[-1])
    a0, b0 = (noise.a, noise.b) if isinstance(noise, InverseGamma) else (0.0, 0.0)
    ridge, half_log_g = np.zeros(n_columns), np.zeros(n_columns)
    known = isinstance(noise, KnownVariance)
    # one column fewer than there are dimensions, so that a residual is left to estimate σ² from
    g, max_columns = 0.0, min(n_columns, nu if known else nu - 1)
    code, grid = slab.code, np.zeros((0, 3))
    if isinstance(slab, IndependentNormal) and slab.unknown:
        values, probabilities = values_of_g(n)
        code, max_columns = BY_FIT, n_columns
        # what the values are factors of: they are those of g = 1 divided by the mean variance of the columns
        ridge, half_log_g = np.full(n_columns, spread), np.full(n_columns, -0.5 * np.log(spread))
        grid = np.column_stack([1 / values, np.log(probabilities), 0.5 * np.log(values)])
    elif isinstance(slab, CorrelatedNormal):
        variances = slab.variances(n_columns)
        ridge, half_log_g, max_columns = 1 / variances, 0.5 * np.log(variances), n_columns
    elif isinstance(slab, MomentPrior):
        half = 0.5 * np.log(slab.tau) - log_factor_without_effect(slab, n * spread)
        ridge, half_log_g = np.full(n_columns, 1 / slab.tau), np.full(n_columns, half)
        max_columns = n_columns
    elif isinstance(slab, IndependentNormal):
        assert not isinstance(slab.g, str)
        by_variable = per_variable(slab.g, p, "IndependentNormal: g")
        by_column = np.repeat(by_variable, np.diff(offsets))
        ridge, half_log_g = 1.0 / by_column, 0.5 * np.log(by_column)
        max_columns = n_columns
    elif isinstance(slab, GPrior):
        g = slab.value(n, p)
    prior_rss = 2 * b0 / y_scale / y_scale
    if prior_rss > LARGEST_SQUARE:
        raise DataError(
            f"noise: b = {b0:g} is out of proportion to y (residual length {y_scale:g}); "
            "b has the units of y squared"
        )
    half_precision = 0.0
    if isinstance(noise, KnownVariance):
        half_precision = y_scale / noise.variance * y_scale / 2
        if not half_precision < SHARPEST:
            raise DataError(
                f"noise: a variance of {noise.variance:g} is negligible compared with that of y (residual length {y_scale:g}), so "
                "that rounding errors would dominate; variance has the units of y squared"
            )
    return KernelSlab(
        code=code,
        ridge=ridge,
        half_log_g=half_log_g,
        nu=np.inf if known else float(nu + 2 * a0),
        s_null=1.0 + prior_rss,
        rows=float(n),
        g=float(g),
        max_columns=int(max_columns),
        table=np.zeros((1, 1, 2)),
        half_precision=float(half_precision),
        grid=np.ascontiguousarray(grid),
    )


def with_known_g(target: Target, g: float, surrogate: bool) -> Target:
    """The target with `g` times the value that an unknown g has at 1: as a posterior of its own, or as a surrogate of the one in which g is
    unknown."""
    slab, design = target.slab, target.design
    known = slab._replace(
        code=INDEPENDENT,
        ridge=slab.ridge / g,
        half_log_g=slab.half_log_g + 0.5 * np.log(g),
        surrogate=surrogate,
        grid=slab.grid * [g, 1.0, 1.0] - [0.0, 0.0, 0.5 * np.log(g)] if surrogate else np.zeros((0, 3)),
    )
    return as_compiled(Target(design, known, target.prior), design.offsets)


def kernel_prior(prior: ModelPrior | ConditionalPrior, p: int, max_size: int) -> KernelPrior:
    """The prior on models; of one that is diluted, its base."""
    if isinstance(prior, Dilution):
        return kernel_prior(prior.base, p, max_size)
    links, terms = np.zeros(0, np.int64), np.zeros((0, 3))
    if isinstance(prior, ConditionalPrior):
        log_odds, log_size, links, terms = prior.kernel_terms()
    elif isinstance(prior, MarkovRandomField):
        log_odds, log_size, links, terms = prior.kernel_terms(p)
    else:
        log_odds, log_size = prior.log_terms(p)
    return KernelPrior(log_odds, np.ascontiguousarray(log_size, float), max_size, links, terms)


def make_target(products: Products, slab: KernelSlab, prior: KernelPrior, offsets: np.ndarray) -> Target:
    """The target distribution of the kernels."""
    keys = np.random.Generator(np.random.PCG64DXSM(ZOBRIST_SEED)).integers(
        1, np.iinfo(np.uint64).max, size=len(offsets) - 1, dtype=np.uint64
    )
    design = Design(
        gram=products.gram,
        columns=products.columns,
        diagonal=products.diagonal,
        xty=products.xty,
        offsets=offsets,
        keys=keys,
        stored=products.stored,
    )
    return as_compiled(Target(design, slab, prior), offsets)


def as_compiled(target: Target, offsets: np.ndarray) -> Target:
    """The same numbers in the memory layout that kernels expect: vectors that are read together are adjacent, and stored
    columns are read-only."""
    design, slab, prior = target
    p = len(offsets) - 1
    diagonal, xty, ridge, half_log_g = side_by_side(design.diagonal, design.xty, slab.ridge, slab.half_log_g)
    offsets, keys, log_odds = side_by_side(offsets, design.keys, prior.log_odds)
    return Target(
        design._replace(
            diagonal=diagonal,
            xty=xty,
            offsets=offsets,
            keys=keys[:p],
            stored=frozen(design.stored),
        ),
        slab._replace(ridge=ridge, half_log_g=half_log_g),
        prior._replace(log_odds=log_odds[:p]),
    )


def mixture_law(slab: Slab, rows: float, common: int) -> tuple[str, float, Parameters]:
    """The kind of a mixture of g-priors, its n and its other parameters (see mixtures.py), where all models have `common` columns."""
    kind = MIXTURES[type(slab)]
    if isinstance(slab, ZellnerSiow):
        return kind, rows * slab.r**2, 3.0
    if isinstance(slab, CCH):
        return kind, rows, (slab.a, slab.b, slab.s)
    return kind, rows, slab.a if isinstance(slab, (HyperG, HyperGN)) else float(common)


def with_mixture_rows(target: Target, slab: Slab, columns: int, common: int) -> Target:
    """The target, with a table for models of up to `columns` columns if the slab is a mixture of g-priors. All models have `common` columns
    besides."""
    kind, table = MIXTURES.get(type(slab)), target.slab.table
    rows = min(columns, target.slab.max_columns) + 1
    if kind is None or len(table) >= rows or target.slab.code == BY_FIT:
        return target
    start = len(table) if table.shape[1] > 1 else 0
    kind, n, a = mixture_law(slab, target.slab.rows, common)
    more = mixture_table(kind, target.slab.nu, n, a, start, rows)
    table = np.ascontiguousarray(np.concatenate([table[:start], more]) if start else more)
    return target._replace(slab=target.slab._replace(table=table))
