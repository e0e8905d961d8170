"""The numbers that priors are given: checks of them, and how they are printed."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import fields
from typing import Any

import numpy as np

from whichvars.errors import ArgumentTypeError, DataError

# outside this range a sum or a reciprocal may overflow
SMALLEST_NUMBER, LARGEST_NUMBER = 1e-300, 1e300
# values, one for each variable, that are shown
MOST_SHOWN = 4


def positive(value: Any, name: str, owner: object, below_one: bool = False) -> float:
    """`value` as a float, if it is a positive number (and with `below_one` below 1); otherwise an error."""
    label = f"{type(owner).__name__}: {name}"
    if isinstance(value, (np.ndarray, np.generic)) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)):
        raise ArgumentTypeError(f"{label} must be a number, not {value!r}")
    if below_one and not 0 < value < 1:
        raise DataError(
            f"{label} must lie strictly between 0 and 1, not {value}; "
            "use always_include for a variable that is in every model"
        )
    if not SMALLEST_NUMBER <= value <= LARGEST_NUMBER:
        raise DataError(f"{label} must be positive and finite (1e-300 to 1e300), not {value}")
    return float(value)


def numbers(value: Any, name: str, owner: object, below_one: bool = False) -> float | tuple[float, ...]:
    """A number, or a tuple with one number for each variable (so that priors are hashable)."""
    ordered = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Set, Mapping))
    if not ordered or getattr(value, "ndim", 1) == 0:
        return positive(value, name, owner, below_one)
    return tuple(positive(v, f"{name}[{i}]", owner, below_one) for i, v in enumerate(value))


def written(prior: object) -> str:
    """The expression that makes a prior, with only the arguments that were given."""
    given = [(f.name, getattr(prior, f.name)) for f in fields(prior)]  # type: ignore[arg-type]
    return f"{type(prior).__name__}({', '.join(f'{name}={value!r}' for name, value in given if value is not None)})"


def per_variable(value: float | tuple[float, ...], p: int, what: str) -> np.ndarray:
    """`value` as p numbers; an error if a list has another length."""
    if isinstance(value, tuple) and len(value) != p:
        raise DataError(
            f"{what} has {len(value)} values but there are {p} variables; give one number, or one per variable"
        )
    return np.full(p, value) if isinstance(value, float) else np.array(value)


def in_short(prior: Any, name: str) -> str:
    """A prior as it is shown: of many values of one field, one for each variable, only the smallest and the largest.

    >>> import whichvars as wv
    >>> print(wv.FixedInclusion(h=[0.1, 0.2, 0.1, 0.1, 0.4]))
    FixedInclusion(h=0.1 to 0.4, one for each of 5 variables)
    """
    values = getattr(prior, name)
    if not isinstance(values, tuple) or len(values) <= MOST_SHOWN:
        return repr(prior)
    return f"{type(prior).__name__}({name}={min(values):.3g} to {max(values):.3g}, one for each of {len(values):,} variables)"
