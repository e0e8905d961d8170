"""Likelihoods, and how they are represented for the kernels.

The kernels know one likelihood: a normal linear model with weights, whose noise variance has a prior or is known. A family
says which such model represents the data.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from whichvars.problem.arguments import read_root_weights
from whichvars.problem.priors import Noise

# a response consists of small whole numbers if at least the share MOSTLY is at most SMALL_NUMBER
SMALL_NUMBER, MOSTLY = 10, 0.9


class Working(NamedTuple):
    """The normal linear model that represents the data."""

    response: np.ndarray  # (n,)
    root_weights: np.ndarray  # (n,): observation i has variance σ²/w_i; 0 leaves a row out
    noise: Noise  # prior on σ², or its value


@dataclass(frozen=True)
class Gaussian:
    """Normal noise: the response is used as it is."""

    noise: Noise

    def working(self, y: np.ndarray, weights: Any) -> Working:
        """The model for the kernels; `weights` are those of ``Problem``."""
        return Working(y, read_root_weights(weights, len(y)), self.noise)

    def remark(self, y: np.ndarray, name: str | None = None) -> str | None:
        """A warning about a response for which a linear model is only an approximation, as it has two values or consists of
        small whole numbers; None for any other."""
        what = f"the response {name!r}" if name else "the response"
        low, high = float(y.min()), float(y.max())
        if ((y == low) | (y == high)).all():
            return (
                f"{what} has only two values, {low:g} and {high:g}. The linear model treats them as numbers with normal noise (a "
                "linear probability model). Inclusion probabilities are then approximate, however exactly they are computed, "
                "and predictions can lie outside the two values. Models for two classes are not part of whichvars yet"
            )
        if low >= 0 and (y == np.floor(y)).all() and np.mean(y <= SMALL_NUMBER) >= MOSTLY:
            return (
                f"{what} consists of small whole numbers, such as counts or grades. The linear model treats them as numbers with "
                "normal noise of constant variance. Inclusion probabilities are then approximate, however exactly they are "
                "computed. Models for counts and for ordered classes are not part of whichvars yet; the square root of counts "
                "is often closer to a linear model"
            )
        return None
