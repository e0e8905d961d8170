r"""Making a ``Problem`` from sums over rows (``moments``), without the rows.

Columns are scaled to unit scatter, which turns S into a matrix of correlations R. The always-included columns are projected
out one after the other, as in Cholesky's elimination: after column z,

.. math:: R_{ij} \leftarrow R_{ij} - R_{iz} R_{zj} / R_{zz},

and what is left on the diagonal is 1 − R² of each column given those projected out. R has rounding errors of about 10⁻¹⁵, so
that a column counts as a combination of others if 1 − R² ≤ 10⁻¹²; with the rows, a ``Problem`` can distinguish them down to
10⁻²⁴.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from whichvars.data.frames import check_unique, read_names
from whichvars.data.moments import Moments
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.arguments import WEIGHT_RATIO
from whichvars.problem.flat import FlatPart

# A column is constant if the ratio of its scatter to its sum of squares is at most this.
CONSTANT = 1e-24
# A column is a combination of others if 1 − R² given them is at most this.
COMBINATION = 1e-12
# Two columns are duplicates if 1 − |correlation| is at most this.
DUPLICATE = 1e-12


class Reduced(NamedTuple):
    """The candidates that are not combinations of the intercept and Z, after projecting these out."""

    rank: int  # columns of Z that are not combinations of those before them
    y_scale: float  # length of the residual of y
    kept: list[int]  # which columns of X the P candidates are
    excluded: dict[int, str]  # the others, with the reason
    lengths: np.ndarray  # (P,) of the residuals
    spread: np.ndarray  # (P,) standard deviations of the columns themselves, ddof 1
    gram: np.ndarray  # (P, P) products of residuals of length 1
    xty: np.ndarray  # (P,) their products with the residual of y, of length 1 too
    flat: FlatPart

    def ordered(self, place: np.ndarray) -> "Reduced":
        """The same with the candidates in another order."""
        flat = self.flat._replace(x_mean=self.flat.x_mean[place], x_on_z=self.flat.x_on_z[:, place])
        return self._replace(
            kept=[self.kept[i] for i in place],
            lengths=self.lengths[place],
            spread=self.spread[place],
            gram=self.gram[np.ix_(place, place)],
            xty=self.xty[place],
            flat=flat,
        )


def moments_for_problem(moments: Moments, weights: Any, names: Any, engine: str) -> Moments:
    """Moments with the given names; an error for arguments of a ``Problem`` that need the rows."""
    if weights is not None:
        raise DataError(
            "weights: the rows were weighted when the statistics were computed; give the weights there"
        )
    if engine == "columns":
        raise DataError("engine='columns' needs the rows, but statistics have only XᵀX; leave engine out")
    low, high = moments.weight_range
    if moments.n and low < WEIGHT_RATIO * high:
        raise DataError(
            f"the smallest weight, {low:g}, is negligible compared with the largest, {high:g}; set it to 0 to leave the row out"
        )
    if names is None:
        return moments
    new = read_names(names, len(moments.names), "the statistics")
    check_unique(new, "names")
    return replace(moments, names=new, has_names=True)


def find_response(moments: Moments, y: Any) -> int:
    """Index of the response that `y` names; `y` may be None if there is only one."""
    known = ", ".join(map(repr, moments.responses[:8])) + ", …" * (len(moments.responses) > 8)
    if y is None:
        if len(moments.responses) > 1:
            raise ArgumentTypeError(
                f"the statistics have {len(moments.responses)} responses, {known}; name one: Problem(statistics, "
                f"{moments.responses[0]!r})"
            )
        return len(moments.names)
    if not isinstance(y, str):
        raise ArgumentTypeError(
            f"y must be the name of a response of the statistics ({known}), not {type(y).__name__}: statistics do not "
            "contain the rows"
        )
    if y not in moments.responses:
        raise DataError(f"the statistics have no response {y!r}; they have {known}")
    return len(moments.names) + moments.responses.index(y)


def reduce_moments(moments: Moments, response: int, always: list[int], candidates: list[int]) -> Reduced:
    """Project the intercept and the always-included columns out of y and the candidates.

    Parameters
    ----------
    moments : Moments
    response : int
        The index of y among its columns.
    always, candidates : list of int
        Columns of X.
    """
    scatter, mean, total = moments.scatter, moments.mean, moments.total_weight
    square = np.diagonal(scatter)
    constant = ~(square > CONSTANT * (square + total * mean**2))
    length = np.sqrt(np.where(constant, 1.0, square))
    if constant[response]:
        raise DataError(f"y ({_name(moments, response)!r}) is constant; there is nothing to explain")
    columns = np.array([*always, *candidates, response])
    left = scatter[np.ix_(columns, columns)] / length[columns] / length[columns, None]
    chosen: list[int] = []  # places in `columns`
    for i in range(len(always)):
        if not constant[always[i]] and left[i, i] > COMBINATION:
            step = left[i] / np.sqrt(left[i, i])
            left = left - np.multiply.outer(step, step)
            chosen.append(i)
    remains = np.diagonal(left)
    if not remains[-1] > COMBINATION:
        raise DataError(
            f"y ({_name(moments, response)!r}) is constant given the always-included columns; there is nothing to explain"
        )
    excluded: dict[int, str] = {}
    alive = []
    for place, i in enumerate(candidates, start=len(always)):
        if constant[i]:
            excluded[i] = "constant"
        elif not remains[place] > COMBINATION:
            excluded[i] = "a combination of the always-included columns"
        else:
            alive.append(place)
    root = np.sqrt(remains[alive])
    kept = [int(columns[place]) for place in alive]
    return Reduced(
        rank=len(chosen),
        y_scale=float(length[response] * np.sqrt(remains[-1])),
        kept=kept,
        excluded=excluded,
        lengths=length[kept] * root,
        spread=length[kept] / np.sqrt(total * (moments.n - 1) / moments.n),
        gram=left[np.ix_(alive, alive)] / root / root[:, None],
        xty=left[alive, -1] / root / np.sqrt(remains[-1]),
        flat=_flat(moments, response, [always[i] for i in chosen], kept, length),
    )


def _flat(moments: Moments, response: int, z: list[int], kept: list[int], length: np.ndarray) -> FlatPart:
    """Least squares of y and of the candidates on Z, in the units of the data."""
    scatter, mean = moments.scatter, moments.mean
    lower = np.linalg.cholesky(scatter[np.ix_(z, z)] / length[z] / length[z, None])

    def on_z(columns: list[int]) -> np.ndarray:
        right = scatter[np.ix_(z, columns)] / length[z, None]
        return np.linalg.solve(lower.T, np.linalg.solve(lower, right)) / length[z, None]

    return FlatPart(
        mean_variance=1 / moments.total_weight,
        y_mean=float(mean[response]),
        x_mean=mean[kept],
        z_index=z,
        z_mean=mean[z],
        z_root=np.linalg.inv(lower.T) / length[z, None],
        y_on_z=on_z([response])[:, 0],
        x_on_z=on_z(kept),
    )


def duplicates_in_gram(gram: np.ndarray) -> list[list[int]]:
    """Sets of columns with |correlation| 1, from the products of columns of length 1."""
    sets: list[list[int]] = []
    taken: set[int] = set()
    first, second = np.nonzero(np.triu(np.abs(gram) > 1 - DUPLICATE, 1))
    for i in dict.fromkeys(first.tolist()):
        if i not in taken:
            sets.append([i, *second[first == i].tolist()])
            taken.update(sets[-1])
    return sets


def _name(moments: Moments, column: int) -> str:
    return [*moments.names, *moments.responses][column]
