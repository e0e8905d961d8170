"""Responses of new rows, for a problem whose family is not Gaussian."""

from typing import Any

import numpy as np

from whichvars.data.frames import read_vector
from whichvars.errors import DataError
from whichvars.problem.families import Counted, Family
from whichvars.problem.reading import labels, read_trials, whole_counts


def read_new_response(
    family: Counted, classes: tuple[Any, ...], y: Any, n: int, trials: Any
) -> tuple[np.ndarray, np.ndarray]:
    """New responses, and the trials of each of them, (n,) each; `classes` are those of the problem."""
    if family.name in ("poisson", "negative-binomial"):
        refuse_trials(family, trials)
        return whole_counts(read_vector(y, n, "y"), "y"), np.ones(n)
    if family.name == "student":
        refuse_trials(family, trials)
        return read_vector(y, n, "y"), np.ones(n)
    t = read_new_trials(family, trials, n)
    if getattr(family, "trials", None) is not None:
        successes = whole_counts(read_vector(y, n, "y"), "y")
        bad = np.flatnonzero(successes > t)
        if bad.size:
            raise DataError(f"y is {successes[bad[0]]:g} in row {bad[0]}, more than its {t[bad[0]]:g} trials")
        return successes, t
    values = labels(y, n)
    for row, value in enumerate(values):
        if value not in classes:
            raise DataError(
                f"y is {value!r} in row {row}, but the problem's response has the values {classes[0]!r} and {classes[1]!r}"
            )
    return np.array([1.0 if value == classes[1] else 0.0 for value in values]), t


def read_new_trials(family: Counted, trials: Any, n: int) -> np.ndarray:
    """The trials of new rows, (n,): 1 unless the problem was made with trials."""
    own = getattr(family, "trials", None)
    if own is None:
        refuse_trials(family, trials)
        return np.ones(n)
    if trials is None and np.ndim(own) > 0:
        raise DataError(
            "the problem was made with numbers of trials, so that new rows need trials= too: one number, or one for each row"
        )
    return read_trials(own if trials is None else trials, n)


def refuse_trials(family: Family, trials: Any) -> None:
    """DataError if there are trials, but the family has none."""
    if trials is not None:
        raise DataError(
            f"trials is for problems made with Logistic(trials=…), not for family={family}; leave it out"
        )
