"""The intercept and the always-included columns: their basis, and what is needed to return to the user's units."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from whichvars.errors import DataError

# squared lengths and units of columns and of y must lie between these
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-305, 1e305
# share of its length by which a column must differ from a combination of others
COLLINEAR = 1e-10


class FlatPart(NamedTuple):
    """The least squares regression on the intercept and Z, which is integrated out, for returning to the user's units.

    Z are the q always-included columns that are not combinations of those before them. Means are weighted. Z and X are
    centred, so that the intercept is the mean of y.
    """

    mean_variance: float  # 1/Σ w, the variance of the mean of y if σ² = 1
    y_mean: float
    x_mean: np.ndarray  # (P,) of the candidate columns, as in Problem.columns_used
    z_index: list[int]  # columns of X that are Z
    z_mean: np.ndarray  # (q,)
    z_root: np.ndarray  # (q, q): T with TTᵀ = (ZᵀWZ)⁻¹
    y_on_z: np.ndarray  # (q,)
    x_on_z: np.ndarray  # (q, P)


def power_of_two(largest: np.ndarray) -> np.ndarray:
    """The largest power of two that is not above each of these numbers; dividing by it is exact."""
    return np.ldexp(1.0, np.frexp(largest)[1] - 1)


def flat_basis(always: np.ndarray, root_weights: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the weighted intercept and always-included columns, shape (n, rank)."""
    root = root_weights / root_weights.max()
    centred, independent, chosen = _independent(always, root)
    if len(chosen) < always.shape[1]:
        # the coefficients of ``flat_part`` belong to these directions and to no others
        return np.column_stack([root / np.linalg.norm(root), independent])
    flat = np.column_stack([root, centred])
    left = np.linalg.svd(flat / np.linalg.norm(flat, axis=0), full_matrices=False)[0]
    return np.asfortranarray(left)


def flat_part(
    raw: np.ndarray,
    y: np.ndarray,
    root_weights: np.ndarray,
    always: list[int],
    means_and_products: Callable[[np.ndarray], tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]],
) -> FlatPart:
    """The ``FlatPart`` of the always-included columns `raw` (n, q), whose indices in X are `always`. `means_and_products`
    is that of a ``ColumnReader``."""
    top = float(root_weights.max())
    root = root_weights / top
    share = root**2 / (root @ root)
    x_mean, products = means_and_products(share)
    y_mean = float(share @ y)
    power = power_of_two(np.abs(raw).max(axis=0))
    centred, basis, chosen = _independent(raw, root)
    power, z_mean = power[chosen], share @ raw[:, chosen]
    triangle = basis.T @ centred[:, chosen]
    x_on_z = np.zeros((len(chosen), len(x_mean)))
    if chosen:
        x_on_z = np.linalg.solve(triangle, products(basis)) / power[:, None]
    return FlatPart(
        mean_variance=float(1 / (root @ root) / top / top),
        y_mean=y_mean,
        x_mean=x_mean,
        z_index=[always[i] for i in chosen],
        z_mean=z_mean,
        z_root=np.linalg.inv(triangle) / power[:, None] / top,
        y_on_z=np.linalg.solve(triangle, basis.T @ (root * (y - y_mean))) / power,
        x_on_z=x_on_z,
    )


def _independent(raw: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Always-included columns `raw`, (n, q), in units of a power of two, centred and weighted; an orthonormal basis of those
    that are not combinations of others; and the indices of these.

    Powers of one column may all differ from combinations of those before them, and be collinear together all the same:
    coefficients would be 10¹³ and predictions noise. The column that takes part most in such a combination is left out, until
    the others are independent.
    """
    weights = root**2
    scaled = raw / power_of_two(np.abs(raw).max(axis=0))
    columns = root[:, None] * (scaled - weights @ scaled / weights.sum())
    lengths = np.linalg.norm(root[:, None] * scaled, axis=0)
    left_out: set[int] = set()
    while True:
        basis, chosen = np.zeros((len(columns), 0)), []
        for i in range(columns.shape[1]):
            left = residuals(columns[:, i], basis)
            length = np.linalg.norm(left)
            if i not in left_out and length > COLLINEAR * lengths[i]:
                basis = np.column_stack([basis, left / length])
                chosen.append(i)
        if not chosen:
            return columns, basis, chosen
        triangle = basis.T @ columns[:, chosen]
        _, singular, combinations = np.linalg.svd(triangle / np.linalg.norm(triangle, axis=0))
        if singular[-1] > COLLINEAR * singular[0]:
            return columns, basis, chosen
        left_out.add(chosen[int(np.argmax(np.abs(combinations[-1])))])


def residuals(rows: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Rows minus their projection on the basis, computed twice: the second time removes the rounding error of the first."""
    for _ in range(2):
        rows = rows - (rows @ basis) @ basis.T
    return rows


def scaled_response(
    y: np.ndarray, root_weights: np.ndarray, basis: np.ndarray, always: list[str], is_score: bool
) -> tuple[np.ndarray, float]:
    """The weighted residual of y on the basis, divided by its length, and that length. `is_score`: y is the score of a null model, whose
    residual is as long as it is itself."""
    power, top = float(power_of_two(np.abs(y).max())), float(root_weights.max())
    scaled = y / power
    residual = residuals((scaled - scaled.mean()) * (root_weights / top), basis)
    length = float(np.linalg.norm(residual))
    if is_score:
        scaled = np.ones(len(y))  # the score is orthogonal to the basis already
    if not length > 1e-12 * np.linalg.norm(scaled * (root_weights / top)):
        given = " given the always-included columns" if always else ""
        raise DataError(f"y is constant{given}; there is nothing to explain")
    scale = length * power * top
    if not SMALLEST_SQUARE < scale < LARGEST_SQUARE:
        raise DataError(
            f"y is too {'large' if scale > 1 else 'small'} to compute with (its largest absolute value is "
            f"{np.abs(y).max():g}); multiply it by a power of ten"
        )
    return residual / length, scale  # unit length: results do not depend on the units of y
