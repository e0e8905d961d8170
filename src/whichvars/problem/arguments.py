"""Checks of the arguments of a ``Problem``, its weights, and the variable that each column belongs to."""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from typing import Any

import numpy as np

from whichvars.data.encoding import Encoded, remarks_on_numbers
from whichvars.data.frames import check_unique, find_columns, read_columns, read_vector, wrong_length
from whichvars.data.genotype_files import has_genotypes
from whichvars.data.genotypes import Genotypes
from whichvars.errors import ArgumentTypeError, DataError, DataWarning
from whichvars.problem.correlated_prior import CorrelatedNormal
from whichvars.problem.dilution import Dilution
from whichvars.problem.flat import LARGEST_SQUARE, SMALLEST_SQUARE
from whichvars.problem.graph_prior import MarkovRandomField
from whichvars.problem.model_priors import ModelPrior, default_model_prior
from whichvars.problem.priors import Slab

# least ratio of the smallest positive weight to the largest; below, rows of small weight are lost in rounding
WEIGHT_RATIO = 1e-20


def are_genotypes(X: Any) -> bool:
    """Whether X is ``Genotypes``, or a file of them."""
    return isinstance(X, Genotypes) or (isinstance(X, (str, os.PathLike)) and has_genotypes(X))


def check_positions(X: Any, y: Any, others: tuple[Any, ...]) -> None:
    """ArgumentTypeError unless exactly X and y were given by position."""
    if others:
        kind = (
            "model_prior"
            if isinstance(others[0], ModelPrior)
            else "slab"
            if isinstance(others[0], Slab)
            else "…"
        )
        raise ArgumentTypeError(
            f"Problem takes X and y by position and all other arguments by name: write Problem(X, y, {kind}={others[0]!r})"
        )
    if y is None:
        together = hasattr(X, "X") and hasattr(X, "y")
        hint = (
            "this is a data set that contains both: write Problem(data.X, data.y)"
            if together
            else "write Problem(X, y)"
        )
        raise ArgumentTypeError(f"Problem needs the response y besides the columns X; {hint}")


def check_choice(value: object, choices: tuple[str, ...], what: str) -> None:
    if not (isinstance(value, str) and value in choices):
        raise DataError(f"{what} must be {' or '.join(map(repr, choices))}, not {value!r}")


def check_missing(value: object) -> None:
    """DataError unless a problem knows what to do with missing values; one that imputes would need several tables."""
    if value == "impute":
        raise DataError(
            'missing="impute" makes several completed tables, and a Problem has one: use wv.VariableSelector(missing="impute"), '
            "or imputations = wv.impute(X, y) and then wv.pool([wv.sample(wv.Problem(Xi, imputations.y)) for Xi in imputations], imputations)"
        )
    check_choice(value, ("error", "drop"), "missing")


def check_max_size(value: object) -> None:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if value is not None and not (whole and value >= 1):  # type: ignore[operator]
        raise DataError(f"max_size must be a whole number of at least 1, not {value!r}")


def check_rows(n: int, which: str) -> None:
    if n < 3:
        raise DataError(f"X has {n} row{'s' * (n != 1)}{which}; at least 3 are needed")


def check_degrees(n: int, rank: int, always: int) -> int:
    """The residual degrees of freedom after `rank` columns that are always included."""
    if n - rank < 2:
        raise DataError(
            f"{n} rows leave {n - rank} degrees of freedom besides the intercept and the {always} "
            "always-included columns; at least 2 are needed: give more rows or include fewer columns"
        )
    return n - rank


def read_root_weights(weights: Any, n: int) -> np.ndarray:
    if weights is None:
        return np.ones(n)
    vector = read_vector(weights, n, "weights")
    bad = np.flatnonzero(vector < 0)
    if bad.size:
        raise DataError(
            f"weights is negative in row {bad[0]} ({vector[bad[0]]:g}); weights are precisions and cannot be negative"
        )
    if not vector.any():
        raise DataError("all weights are zero; at least 3 rows need a positive weight")
    bad = np.flatnonzero((vector > 0) & (vector < WEIGHT_RATIO * vector.max()))
    if bad.size:
        raise DataError(
            f"weights is {vector[bad[0]]:g} in row {bad[0]}, negligible compared with the largest, {vector.max():g}; set it to 0 to leave the row out"
        )
    return np.sqrt(vector)


def read_covariates(
    covariates: Any, column_names: list[str], used: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """The names of the covariates and their values in the rows that are used, (n, q)."""
    if covariates is None:
        return [], np.zeros((int(used.sum()), 0))
    table = read_columns(covariates, "covariates")
    if len(table.values) != len(used):
        raise DataError(wrong_length("covariates", len(used), len(table.values)))
    names = table.names if table.has_names else [f"covariate{i}" for i in range(len(table.names))]
    both = sorted(set(names) & set(column_names))
    if both:
        raise DataError(
            f"{listed(list(map(repr, both)), 3, ', ')}: both X and covariates have a column of this name; a column of X that is in "
            "every model is named in always_include instead, and need not be given twice"
        )
    return names, table.values[used]


def refuse_covariates_of_moments(covariates: Any) -> None:
    if covariates is not None:
        raise DataError(
            "X are statistics, which have no rows beside which covariates could be: make the statistics of X and the covariates "
            "together, and name these in always_include"
        )


def response_name(y: Any) -> str | None:
    """The name of a Series, or of the column of a frame with one column."""
    columns = getattr(y, "columns", None)
    name = getattr(y, "name", None) if columns is None else columns[0]
    return name if isinstance(name, str) else None


def variable_labels(groups: Any, names: list[str], always: list[int]) -> list[str]:
    """The variable that each column belongs to: its group, or itself."""
    if groups is None:
        return names
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise ArgumentTypeError(
            f"groups must be a mapping from names to columns, or a list with one label per column, not {groups!r}"
        )
    if not isinstance(groups, Mapping):
        labels = [str(label) for label in groups]
        if len(labels) != len(names):
            raise DataError(
                f"groups has {len(labels)} labels but X has {len(names)} columns; give one label per column"
            )
        return labels
    check_unique([str(group) for group in groups], "names of groups")
    owner: dict[int, str] = {}
    for group, members in groups.items():
        indices = find_columns(members, names, f"groups[{group!r}]")
        if not indices:
            raise DataError(f"groups[{group!r}] has no columns; name at least one or leave the group out")
        for i in indices:
            if i in owner:
                raise DataError(
                    f"groups: column {names[i]!r} is in both {owner[i]!r} and {str(group)!r}; a column can be in one group only"
                )
            if i in always:
                raise DataError(
                    f"groups[{group!r}]: column {names[i]!r} is always included, so it cannot be in a group"
                )
            owner[i] = str(group)
    taken = set(owner.values())
    for i, name in enumerate(names):
        if i not in owner and name in taken:
            raise DataError(f"groups: {name!r} is the name of a group and of a column outside it; rename one")
    return [owner.get(i, name) for i, name in enumerate(names)]


def without_excluded(prior: Any, kept: list[int], count: int) -> Any:
    """`prior`, with only the values of the `kept` variables if it has one for each of `count` variables."""
    for name in ("h", "g"):
        value = getattr(prior, name, None)
        if isinstance(value, tuple) and len(value) == count > len(kept):
            return replace(prior, **{name: [value[i] for i in kept]})
    return prior


def slab_of_kept(slab: Any, kept: list[int], count: int, columns: list[int], candidates: list[int]) -> Any:
    """The slab for the variables that were kept, of `count`, which have these columns of the candidates."""
    if isinstance(slab, CorrelatedNormal):
        place = {column: i for i, column in enumerate(candidates)}
        return slab.of_columns([place[column] for column in columns], len(candidates))
    return without_excluded(slab, kept, count)


def prior_of_kept(
    prior: ModelPrior | None, names: Sequence[str], kept: list[int], count: int, left_out: Iterable[str]
) -> ModelPrior:
    """The prior on models, or the default, for the variables that were kept, which have these names, of `count`."""
    if prior is None:
        return default_model_prior(len(names))
    prior = without_excluded(prior, kept, count)
    if isinstance(prior, MarkovRandomField):
        prior = prior.resolved(names, kept, count, left_out)
        prior.log_constant(len(names))  # an error if it cannot be computed
    if isinstance(prior, Dilution):
        return Dilution(prior_of_kept(prior.base, names, kept, count, left_out), prior.power)
    return prior


def listed(items: list[str], most: int, separator: str) -> str:
    return separator.join(items[:most] + ["…"] * (len(items) > most))


def count(items: Sized, noun: str) -> str:
    return f"1 {noun}" if len(items) == 1 else f"{len(items)} {noun}s"


def warn_of_table(X: Any, encoded: Encoded | None) -> None:
    """Warn about what may be a mistake in a table, and about categories that are left out."""
    remarks = remarks_on_numbers(X) if encoded is None else [*encoded.remarks]
    if encoded is not None and encoded.constant:
        remarks.append(f"left out categories that have only one level: {listed(encoded.constant, 5, ', ')}")
    for remark in remarks:
        warnings.warn(remark, DataWarning, stacklevel=3)


def warn_of_excluded(excluded: dict[str, str], some_left: bool) -> None:
    """Warn about columns that are left out, with the reasons; DataError if there are no others."""
    if excluded:
        why = listed([f"{name!r} ({reason})" for name, reason in excluded.items()], 5, ", ")
        warnings.warn(
            f"left out {count(excluded, 'column')} that add{'s' * (len(excluded) == 1)} nothing to the intercept and the "
            f"always-included columns: {why}",
            DataWarning,
            stacklevel=4,
        )
    if not some_left:
        raise DataError(
            "every candidate column is constant or always included; there is nothing to select from"
        )


def check_extents(extents: tuple[np.ndarray, np.ndarray], names: list[str], scale: str) -> None:
    """DataError if units or squared lengths of columns, (P,) each, are too large or too small to compute with."""
    for extent in extents:
        bad = np.flatnonzero(~((extent > SMALLEST_SQUARE) & (extent < LARGEST_SQUARE)))
        if bad.size:
            hint = ", or use scale='unit'" if scale == "none" else ""
            size, remedy = ("large", "divide") if extent[bad[0]] > 1 else ("small", "multiply")
            raise DataError(
                f"X column {names[bad[0]]!r} (times the square root of the weights) is too {size} to be squared; "
                f"{remedy} it by a power of ten{hint}"
            )
