r"""Sums over rows that are sufficient for a linear model, computed in one pass.

For columns x₁ … x_k with weights w: the number of rows, Σw, the means m and the scatter matrix

.. math:: S = \sum_i w_i (x_i - m)(x_i - m)^\top .

**One pass, without cancellation.** Rows are processed in blocks. The mean of a block is subtracted before anything is
squared. Two sets of rows with weights W₁, W₂, means m₁, m₂ and scatter matrices S₁, S₂ together have

.. math:: S = S_1 + S_2 + \frac{W_1 W_2}{W_1 + W_2}\,\delta\delta^\top, \qquad \delta = m_2 - m_1 .

Blocks are merged in pairs, then pairs of pairs, and so on, so that rounding errors grow with the logarithm of the number of
blocks. A mean is stored as the sum of two numbers: with a mean of 10⁸, δ would otherwise lose half of its digits.

Memory: one block of about a million numbers, or 2k rows if that is more, and one k × k matrix for each doubling of the
number of blocks.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from whichvars.errors import DataError

# numbers in a block
CELLS = 1 << 20
# a smaller sum of squares has lost digits
LEAST_SQUARE = 1e-290
M = TypeVar("M", bound="Moments")


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over rows. In every array, the columns of X come first and the responses after them."""

    names: list[str]  # of the P columns of X
    responses: list[str]  # r of them
    n: int  # rows of positive weight
    total_weight: float
    weight_range: tuple[float, float]  # the smallest and the largest weight; (1, 1) without weights
    origin: np.ndarray  # (P + r,) means, rounded
    offset: np.ndarray  # (P + r,) rounding errors of `origin`
    scatter: np.ndarray  # (P + r, P + r) S above
    has_names: bool  # whether the names came with the data

    @property
    def mean(self) -> np.ndarray:
        """Weighted means, (P + r,)."""
        return self.origin + self.offset

    def __add__(self: M, other: object) -> M:
        if not isinstance(other, Moments):
            return NotImplemented
        check_same_columns(self, other.names, other.responses, "the second")
        if self.n == 0 or other.n == 0:
            filled: Any = other if self.n == 0 else self
            return replace(self, **{name: getattr(filled, name) for name in _SUMS})
        total = self.total_weight + other.total_weight
        share = other.total_weight / total
        with np.errstate(all="ignore"):  # values that are too large to be squared are found in the sum
            delta = (other.origin - self.origin) + (other.offset - self.offset)
            step = np.sqrt(self.total_weight * share) * delta
            scatter = np.multiply.outer(step, step)
            scatter += self.scatter
            scatter += other.scatter
        _check_extent(scatter, delta, [*self.names, *self.responses])
        origin, offset = _two_sum(self.origin, self.offset + share * delta)
        return replace(
            self,
            n=self.n + other.n,
            total_weight=total,
            weight_range=(
                min(self.weight_range[0], other.weight_range[0]),
                max(self.weight_range[1], other.weight_range[1]),
            ),
            origin=origin,
            offset=offset,
            scatter=scatter,
        )


_SUMS = ("n", "total_weight", "weight_range", "origin", "offset", "scatter")


def no_rows(cls: type[M], names: Sequence[str], responses: Sequence[str], has_names: bool) -> M:
    """Moments of no rows, to which others can be added."""
    k = len(names) + len(responses)
    nothing = np.zeros(k)
    return cls(
        list(names), list(responses), 0, 0.0, (np.inf, 0.0), nothing, nothing, np.zeros((k, k)), has_names
    )


class Accumulator:
    """Adds up rows, in portions of any size; ``total`` does not depend on how they were divided, to the last bit."""

    def __init__(self, empty: Moments) -> None:
        self.empty = empty
        k = len(empty.origin)
        self.block = np.empty((k, max(CELLS // max(k, 1), 2 * k, 2)))  # a column of the data is a row here
        self.weights = np.ones(self.block.shape[1])
        self.filled = 0
        self.sums: list[tuple[int, Moments]] = []  # (k, the sum of 2^k blocks)
        # for a single thread, so that results are the same on every machine
        self.blas = ThreadpoolController()

    def add(self, columns: Sequence[np.ndarray], weights: np.ndarray | None = None) -> None:
        """Add rows, given as one vector of finite numbers for each column; rows of weight 0 are left out."""
        if weights is not None and not (weights > 0).all():
            used = weights > 0
            columns, weights = [column[used] for column in columns], weights[used]
        start, rows = 0, len(columns[0])
        while start < rows:
            step = min(rows - start, self.block.shape[1] - self.filled)
            place, rows_added = slice(self.filled, self.filled + step), slice(start, start + step)
            for i, column in enumerate(columns):
                self.block[i, place] = column[rows_added]
            self.weights[place] = 1.0 if weights is None else weights[rows_added]
            self.filled += step
            start += step
            if self.filled == self.block.shape[1]:
                self._flush()

    def _flush(self) -> None:
        with self.blas.limit(limits=1, user_api="blas"):
            new = _block_moments(self.empty, self.block[:, : self.filled], self.weights[: self.filled])
        self.filled, level = 0, 0
        while self.sums and self.sums[-1][0] == level:
            new = self.sums.pop()[1] + new
            level += 1
        self.sums.append((level, new))

    def total(self) -> Moments:
        """The moments of all rows that were added."""
        if self.filled:
            self._flush()
        total = self.empty
        for _, moments in reversed(self.sums):  # from few rows to many; the order of the rows is kept
            total = moments + total
        return total


def _block_moments(empty: Moments, block: np.ndarray, weights: np.ndarray) -> Moments:
    """Moments of a block of rows, which is overwritten."""
    low, high = float(weights.min()), float(weights.max())
    total = float(weights.sum())
    equal = low == high == 1.0
    with np.errstate(all="ignore"):  # overflow is detected below

        def means() -> np.ndarray:
            return block.mean(axis=1) if equal else block @ (weights / total)

        first = means()
        block -= first[:, None]
        second = means()  # the rounding error of the first
        if not equal:
            block *= np.sqrt(weights)
        scatter = block @ block.T
        step = np.sqrt(total) * second
        scatter -= np.multiply.outer(step, step)
        scatter = (scatter + scatter.T) / 2
        np.fill_diagonal(scatter, np.maximum(np.diagonal(scatter), 0.0))  # rounding of a constant column
    _check_extent(scatter, block, [*empty.names, *empty.responses])
    origin, offset = _two_sum(first, second)
    return replace(
        empty,
        n=block.shape[1],
        total_weight=total,
        weight_range=(low, high),
        origin=origin,
        offset=offset,
        scatter=scatter,
    )


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """fl(a + b) and its exact rounding error."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _check_extent(scatter: np.ndarray, columns: np.ndarray, names: list[str]) -> None:
    """DataError naming a column whose sum of squares overflows or has lost digits; `columns` has a row for each."""
    squares = np.diagonal(scatter)
    large = np.flatnonzero(~np.isfinite(squares))
    small = [
        i
        for i in np.flatnonzero(squares < LEAST_SQUARE)
        if 0
        < np.abs(columns[i]).max()
        < math.sqrt(LEAST_SQUARE)  # otherwise it is constant, apart from rounding
    ]
    for bad, size, remedy in ((large, "large", "divide"), (small, "small", "multiply")):
        if len(bad):
            raise DataError(
                f"column {names[bad[0]]!r} (times the square root of the weights) is too {size} to be squared; "
                f"{remedy} it by a power of ten"
            )


def check_same_columns(a: Moments, names: list[str], responses: list[str], subject: str) -> None:
    """DataError naming the first column in which the other table differs, called `subject` in the message."""
    for what, left, right in (("columns", a.names, names), ("responses", a.responses, responses)):
        if left == right:
            continue
        lacking = [name for name in left if name not in right]
        extra = [name for name in right if name not in left]
        how = (
            f"lacks {lacking[0]!r}"
            if lacking
            else f"has {extra[0]!r} as well"
            if extra
            else "has them in another order"
        )
        raise DataError(f"the {what} are not the same: {subject} {how}")


def add_all(moments: Iterable[M]) -> M:
    """The sum of one or more moments, from left to right."""
    total, *others = moments
    for other in others:
        total = total + other
    return total
