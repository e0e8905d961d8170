"""Memory for scans, and what both halves of a scan use: variables in the model are in ``scan.py``, those outside it in
``additions.py``."""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.chain import COLUMNS
from whichvars._kernels.jit import by_reference, inlined, kernel
from whichvars._kernels.linalg import sum_log
from whichvars._kernels.prior import log_flip_odds
from whichvars._kernels.products.kept_rows import KeptRows, empty_rows, new_kept_rows
from whichvars._kernels.target import Target

BLOCK_COLUMNS = 256  # columns at a time: k rows of Z for them stay in the processor's first cache
LARGEST_LOG_ODDS = 600.0  # bound of the log of finite odds; beyond it, rates are computed from logarithms
HEAVIEST = math.exp(70.0)  # largest weight with which products of odds stay below that bound
LARGEST_POWER = (
    4096  # ν up to which (S⁺/S)^ν is computed as a product, which saves one of two logs a variable
)


@by_reference
class Scan(NamedTuple):
    """The answer, `log_odds` or `odds`, and room to work for models of up to `capacity` columns."""

    log_odds: np.ndarray  # (p,)
    odds: np.ndarray  # (p,): filled by ``scan_odds`` only
    weight: np.ndarray  # (p,) e^(log prior odds)/√g: what the odds of a variable of one column have in common
    multiplies: bool  # whether no weight is so large that a product of odds could exceed its bound
    # (1,) int64: 1 if a flip has a rate beyond the bound, so that `odds` cannot be used
    steep: np.ndarray
    widest: int  # columns of the widest variable
    z: np.ndarray  # (capacity, P) Z; (capacity, block) of it where it is not kept
    pivot: np.ndarray  # (block,) d_c
    right: np.ndarray  # (block,) x_cᵀy − Z_cᵀL⁻¹X_γᵀy
    residual: np.ndarray  # (block,) S/S₀ with column c in, within its bounds
    power: np.ndarray  # (block,) (S⁺/S)^ν
    largest: np.ndarray  # (block,) max_j (A⁻¹)_jj with column c in, for the R² family
    scratch: np.ndarray  # (block,)
    inverse_factor: np.ndarray  # (capacity, capacity): row i is column i of L⁻¹
    squares: np.ndarray  # (capacity,) its squared length
    schur: np.ndarray  # (capacity, capacity): products of columns given those before a variable
    schur_pivot: np.ndarray  # (capacity,)
    schur_right: np.ndarray  # (capacity,)
    # a small factor: of the columns behind a variable that leaves, or of those of one that enters
    factor: np.ndarray
    inverse: np.ndarray
    solved: np.ndarray
    vector: np.ndarray
    rows: KeptRows  # of XᵀX


def new_scan(target: Target, capacity: int, kept_bytes: int = 64 << 20, row_bytes: int = 0) -> Scan:
    """Room for scans at models of up to `capacity` columns, with so much of it for rows of Z and of XᵀX."""
    design = target.design
    widest = int(np.diff(design.offsets).max())
    n_columns = int(design.offsets[-1])
    capacity = max(capacity, 1)
    most = max(capacity, widest)
    block = min(max(BLOCK_COLUMNS, widest), n_columns)
    weight = _weights(target)
    kept = n_columns if 8 * capacity * n_columns <= kept_bytes else block
    if kept % 512 == 0:
        kept += 8  # rows a multiple of 4 kB apart would compete for the same cache lines
    return Scan(
        log_odds=np.zeros(len(design.offsets) - 1),
        odds=np.zeros(len(design.offsets) - 1),
        weight=weight,
        multiplies=bool(weight.max() < HEAVIEST),
        steep=np.zeros(1, np.int64),
        widest=widest,
        z=np.zeros((capacity, kept)),
        **{name: np.zeros(block) for name in ("pivot", "right", "residual", "power", "largest", "scratch")},
        **{name: np.zeros((capacity, capacity)) for name in ("inverse_factor", "schur")},
        **{name: np.zeros(capacity) for name in ("squares", "schur_pivot", "schur_right")},
        factor=np.zeros((most, most)),
        **{name: np.zeros(most) for name in ("inverse", "solved", "vector")},
        rows=new_kept_rows(design, row_bytes),
    )


def _weights(target: Target) -> np.ndarray:
    log_weight = target.prior.log_odds - target.slab.half_log_g[target.design.offsets[:-1]]
    return np.exp(np.minimum(log_weight, LARGEST_LOG_ODDS))


def no_scan() -> Scan:
    """A ``Scan`` of the same type that has room for nothing."""
    matrices = ("z", "inverse_factor", "schur", "factor")
    others = {"widest": 1, "multiplies": False, "steep": np.zeros(1, np.int64), "rows": empty_rows(0, 0)}
    arrays = {
        name: np.zeros((0, 0) if name in matrices else 0) for name in Scan._fields if name not in others
    }
    return Scan(**others, **arrays)  # type: ignore[arg-type]


@inlined
def sums_of_model(slab, chain):
    """Of the chain's model, whose factor is up to date: what it explains of yᵀy, Σ ½ log g_j and Σ log L_ii."""
    explained = 0.0
    half = 0.0
    k = chain.ints[COLUMNS]
    for r in range(k):
        explained += chain.head_solved[r] * chain.head_solved[r]
        half += slab.half_log_g[chain.column[r]]
    return explained, half, -sum_log(chain.head_inverse, 0, k)


@kernel
def odds_of(log_odds):
    """exp(log_odds) where that is finite and not 0, else its nearest bound; 0 and infinity stay."""
    if log_odds == np.inf or log_odds == -np.inf:
        return math.exp(log_odds)
    return math.exp(min(max(log_odds, -LARGEST_LOG_ODDS), LARGEST_LOG_ODDS))


@inlined
def probability(log_odds):
    """1 / (1 + exp(−log_odds)), for infinite ones as well."""
    if log_odds >= 0.0:
        return 1.0 / (1.0 + math.exp(-log_odds))
    odds = math.exp(log_odds)
    return odds / (1.0 + odds)


@kernel
def flip_log_odds(prior, j, size_without, t, difference):
    """t · difference + the log prior odds; an infinite difference is one at every t."""
    odds = log_flip_odds(prior, j, size_without)
    if odds == -np.inf or difference == -np.inf:
        return -np.inf
    if difference == np.inf:
        return np.inf
    return t * difference + odds
