"""Checks of the arguments of plots, and values that they need from a posterior."""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from whichvars.errors import ArgumentTypeError, DataError
from whichvars.plots.drawing import NothingToDrawError
from whichvars.posterior.pooling import PooledPosterior
from whichvars.posterior.posterior import Posterior


def one_blas_thread() -> Any:
    """Use one thread for many small matrices, for which several threads would only wait for one another."""
    return threadpool_limits(limits=1, user_api="blas")


def check_posterior(posterior: object) -> None:
    if not isinstance(posterior, Posterior):
        hint = "; give its posterior_" if hasattr(posterior, "posterior_") else ""
        raise ArgumentTypeError(
            f"plots take a Posterior, as sample() and exact() return it, not {type(posterior).__name__}{hint}"
        )


def doubt(posterior: Posterior | PooledPosterior) -> str:
    """The warning on every plot of a posterior that should not be trusted; empty for others."""
    return "" if posterior.converged else "Do not trust these numbers yet: see explain()"


def check_choice(value: object, choices: tuple[str, ...], name: str) -> None:
    if value not in choices:
        raise DataError(
            f"{name} must be {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}, not {value!r}"
        )


def check_count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ArgumentTypeError(f"{name} must be a whole number, not {value!r}")
    if value < 1:
        raise DataError(f"{name} must be at least 1, not {value}")
    return int(value)


def most_probable(posterior: Posterior) -> np.ndarray:
    """All variables, the most probable first."""
    return np.argsort(-posterior.pip, kind="stable")


def quantile(mass: np.ndarray, level: float) -> int:
    return int(np.searchsorted(np.cumsum(mass), level * mass.sum()))


def percent(share: float) -> str:
    """
    >>> percent(0.4213), percent(0.0213), percent(0.00001)
    ('42 %', '2.1 %', 'under 0.1 %')
    """
    if share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"


def why_none(posterior: Posterior, what: str) -> str:
    if posterior.models.exact:
        return f"an exact posterior was not sampled and has no {what}"
    return f"{posterior.sampler.split('(')[0]} has no {what}"


def has_particles(posterior: Posterior) -> bool:
    return bool(posterior.adaptation) and "distinct_particles" in posterior.adaptation[0]


def learned_by_replicate(posterior: Posterior, key: str, samplers: str) -> list[dict[str, Any]]:
    """What each replicate learned, if the sampler learns `key`."""
    if not posterior.adaptation or key not in posterior.adaptation[0]:
        what = key.replace("_", " ")
        raise NothingToDrawError(
            f"there is nothing to draw: {why_none(posterior, what)}; {samplers} would give it"
        )
    return posterior.adaptation
