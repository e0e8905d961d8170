"""Reading responses: two values of any type, counts, and numbers of trials."""

from typing import Any, NamedTuple

import numpy as np

from whichvars.data.frames import NUMERIC, read_vector
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.arguments import response_name

# counts above this are refused: sums of their logarithms would be inaccurate
LARGEST_COUNT = 1e12
# what programs write for missing numbers, PLINK the first of these; and how many interquartile ranges such a code is below all others
MISSING_CODES, FAR = (-9.0, -99.0, -999.0, -9999.0), 3.0
# a response consists of small whole numbers if at least the share MOSTLY is at most SMALL_NUMBER
SMALL_NUMBER, MOSTLY = 10, 0.9


class Response(NamedTuple):
    """A response as the kernels of a family see it."""

    y: np.ndarray  # (n,)
    trials: np.ndarray  # (n,)
    shift: float  # added to the offset
    constant: np.ndarray  # (n,): terms of the log density that do not depend on η
    classes: tuple[Any, ...] = ()  # of two-valued responses: the values that are counted as 0 and as 1


def two_valued(y: Any, n: int, family: Any) -> Response:
    """0 and 1 for a response of two values of any type."""
    values, what = labels(y, n), called(y)
    distinct = sorted(set(values), key=lambda v: (isinstance(v, str), v))
    if len(distinct) == 1:
        raise DataError(
            f"{what} is {distinct[0]!r} in every row; both classes are needed, or there is nothing to explain"
        )
    if len(distinct) > 2:
        some = ", ".join(repr(v) for v in distinct[:4]) + ", …" * (len(distinct) > 4)
        hint = (
            "; for numbers of successes give Logistic(trials=…), for counts Poisson()"
            if not isinstance(distinct[0], str)
            else ""
        )
        raise DataError(
            f"{what} has {len(distinct)} different values ({some}), but family={family} needs a response of two values{hint}"
        )
    high = distinct[1]
    vector = np.array([1.0 if v == high else 0.0 for v in values])
    return Response(vector, np.ones(n), 0.0, np.zeros(n), tuple(distinct))


def called(y: Any) -> str:
    """How messages call a response."""
    name = response_name(y)
    return "y" if name is None else f"the response {name!r}"


def labels(y: Any, n: int) -> list[Any]:
    """The values of y as plain Python objects: numbers, booleans or text."""
    if hasattr(y, "columns") and len(y.columns) == 1:
        y = y[y.columns[0]]
    raw = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if raw.ndim == 2 and raw.shape[1] == 1:
        raw = raw[:, 0]
    if raw.dtype.kind in NUMERIC and raw.dtype.kind != "b":
        numbers = read_vector(y, n, "y")
        return [int(v) if v == np.floor(v) and abs(v) < 2**53 else float(v) for v in numbers.tolist()]
    if raw.ndim != 1 or len(raw) != n:
        read_vector(np.zeros(raw.shape), n, "y")  # says what is wrong with the shape
    values = raw.tolist()
    for row, value in enumerate(values):
        missing = value is None or value != value or type(value).__name__ in ("NAType", "NaTType")
        if missing:
            raise DataError(f"y is missing in row {row}; drop or fill such rows first")
        if not isinstance(value, (str, bool, int, float)):
            raise ArgumentTypeError(
                f"y is {value!r} in row {row}; the two values of y must be text, numbers or booleans"
            )
    if len({isinstance(value, str) for value in values}) > 1:
        raise ArgumentTypeError("y has both text and numbers; use one of them for both classes")
    return values


def read_trials(trials: Any, n: int) -> np.ndarray:
    """Numbers of trials, (n,)."""
    if np.ndim(trials) == 0:
        trials = np.full(n, trials)
    vector = whole_counts(read_vector(trials, n, "trials"), "trials")
    bad = np.flatnonzero(vector < 1)
    if bad.size:
        raise DataError(f"trials is 0 in row {bad[0]}; drop rows without trials")
    return vector


def read_counts(y: Any, n: int) -> np.ndarray:
    """Counts of which at least one is not 0, (n,)."""
    counts = whole_counts(read_vector(y, n, "y"), called(y))
    if not counts.any():
        raise DataError(f"{called(y)} is 0 in every row; there is nothing to explain")
    return counts


def whole_counts(vector: np.ndarray, what: str) -> np.ndarray:
    """The vector, if it has whole numbers that are not negative; otherwise an error that names the row."""
    bad = np.flatnonzero((vector < 0) | (vector != np.floor(vector)) | (vector > LARGEST_COUNT))
    if bad.size:
        value = vector[bad[0]]
        wrong = "negative" if value < 0 else "not a whole number" if value != np.floor(value) else "too large"
        raise DataError(
            f"{what} is {value:g} in row {bad[0]}, which is {wrong}; counts are whole numbers from 0 to {LARGEST_COUNT:g}"
        )
    return vector


def missing_code(y: np.ndarray) -> str:
    """What there is to say if the smallest values are a code that programs write for missing ones, far from all others; "" otherwise.

    >>> missing_code(np.array([1.2, -9.0, 0.4, 2.0, -9.0, 1.4]))
    '-9 in 2 rows, far from all others'
    """
    low = float(y.min())
    rest = y[y > low]
    if low not in MISSING_CODES or len(rest) < len(y) / 2:
        return ""
    quarter, three_quarters = np.quantile(rest, [0.25, 0.75])
    if rest.min() - low <= FAR * (three_quarters - quarter):
        return ""
    count = len(y) - len(rest)
    return f"{low:g} in {count:,} row{'s' * (count > 1)}, far from all others"


def remark_on_response(y: np.ndarray, what: str) -> str | None:
    """What there is to say of a response, called `what`, for which a linear model is only an approximation, or which has codes for missing values."""
    low, high = float(y.min()), float(y.max())
    if code := missing_code(y):
        return f"{what} is {code}; if this means that it is missing, leave such rows out."
    if ((y == low) | (y == high)).all():
        return (
            f"{what} has only two values, {low:g} and {high:g}. The linear model treats them as numbers with normal noise (a "
            "linear probability model). Inclusion probabilities are then approximate, however exactly they are computed, "
            'and predictions can lie outside the two values. Problem(…, family="logistic") models the log odds of the '
            "second value instead."
        )
    if low >= 0 and (y == np.floor(y)).all() and np.mean(y <= SMALL_NUMBER) >= MOSTLY:
        return (
            f"{what} consists of small whole numbers, such as counts or grades. The linear model treats them as numbers with "
            "normal noise of constant variance. Inclusion probabilities are then approximate, however exactly they are "
            'computed. For counts use Problem(…, family="poisson"), or family="negative-binomial" if their '
            "variance is larger than their mean. Models for ordered classes are not part of whichvars yet."
        )
    return None
