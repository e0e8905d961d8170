"""Likelihoods: what a ``Problem`` asks of one before the kernels.

Kernels know one likelihood, that of a normal linear model with weights, whose noise variance has a prior or is known. A family
says which such model stands for the data.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from whichvars.problem.arguments import read_root_weights
from whichvars.problem.priors import Noise

# a response is of small whole numbers if this share of it is at most so large
SMALL_NUMBER, MOSTLY = 10, 0.9


class Working(NamedTuple):
    """The normal linear model that stands for the data."""

    response: np.ndarray  # (n,)
    root_weights: np.ndarray  # (n,): observation i has variance σ²/w_i; 0 leaves a row out
    noise: Noise  # what is known of σ²


@dataclass(frozen=True)
class Gaussian:
    """Normal noise: the response stands for itself."""

    noise: Noise

    def working(self, y: np.ndarray, weights: Any) -> Working:
        """The model that kernels are given; `weights` as of ``Problem``."""
        return Working(y, read_root_weights(weights, len(y)), self.noise)

    def remark(self, y: np.ndarray, name: str | None = None) -> str | None:
        """What is to be said of a response that a linear model fits in a manner of speaking only: of two values, or of
        small whole numbers. None of any other."""
        what = f"the response {name!r}" if name else "the response"
        low, high = float(y.min()), float(y.max())
        if ((y == low) | (y == high)).all():
            return (
                f"{what} has two values only, {low:g} and {high:g}. The linear model takes them as numbers with normal noise (a "
                "linear probability model). Inclusion probabilities are then approximate, however exactly they are computed, "
                "and predictions can lie beyond the two values. Models for two classes are not part of whichvars yet"
            )
        if low >= 0 and (y == np.floor(y)).all() and np.mean(y <= SMALL_NUMBER) >= MOSTLY:
            return (
                f"{what} holds small whole numbers, such as counts or grades. The linear model takes them as numbers with the "
                "same normal noise everywhere. Inclusion probabilities are then approximate, however exactly they are "
                "computed. Models for counts and for ordered classes are not part of whichvars yet; the square root of counts "
                "is often closer to a linear model"
            )
        return None
