"""The description of a run: its settings, its plan, its replicates, and budgets given as text."""

import dataclasses
import math
import re
from typing import Any, NamedTuple

import numpy as np

from whichvars.errors import ArgumentTypeError, DataError
from whichvars.samplers.contract import Run, Sampler

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
DURATION = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(ms|min|s|m|h|d)\s*", re.IGNORECASE)
ADVICE = (
    'write "90s", "2m", "1h30m", a number of seconds, or on the command line a number of draws such as 1e7'
)


class Budget(NamedTuple):
    """A time or a number of draws; the other one is None."""

    seconds: float | None
    draws: int | None


def parse_budget(value: str | float) -> Budget:
    """Read a budget of time or draws.

    Text with units (ms, s, m or min, h, d) is a time, text without units is a number of draws, and a number is a time
    in seconds.

    Parameters
    ----------
    value : str or float

    Returns
    -------
    Budget
        A named tuple of `seconds` and `draws`, one of them None.

    Examples
    --------
    >>> parse_budget("1h30m").seconds, parse_budget("1e7").draws, parse_budget(90).seconds
    (5400.0, 10000000, 90.0)
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ArgumentTypeError(f"budget must be text or a number, not {value!r}; {ADVICE}")
    if not isinstance(value, str):
        return Budget(_positive(float(value), value), None)
    try:
        draws = _positive(float(value.replace("_", "").replace(",", "")), value)
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        return Budget(_positive(_seconds(value), value), None)
    if not draws.is_integer():
        raise DataError(
            f"budget {value!r} is neither a whole number of draws nor a time with its unit; {ADVICE}"
        )
    return Budget(None, int(draws))


def _seconds(text: str) -> float:
    total, place = 0.0, 0
    while match := DURATION.match(text, place):
        total += float(match[1]) * UNITS[match[2].lower()]
        place = match.end()
    if place < len(text) or not text.strip():
        raise DataError(f"budget {text!r} cannot be read; {ADVICE}")
    return total


def _positive(number: float, value: object) -> float:
    if not (math.isfinite(number) and number > 0):
        raise DataError(f"budget must be positive and finite, not {value!r}; {ADVICE}")
    return number


class Plan(NamedTuple):
    """Iterations of each chain, and the limits that may end a run earlier."""

    warmup: int
    draws: int
    seconds: float | None = None
    target: float | None = None
    first_check: int = 0


@dataclasses.dataclass(frozen=True)
class Settings:
    """All settings of a run."""

    sampler: Sampler
    plan: Plan
    entropy: Any  # of the seed
    path: list[int]  # spawn key of the seed; replicate i appends i to it
    replicates: int
    start: Any
    rao_blackwell: bool
    asked: dict[str, Any]  # the user's arguments, for ``Posterior.settings``
    chosen: str = ""

    def seeds(self) -> list[np.random.SeedSequence]:
        return [
            np.random.SeedSequence(self.entropy, spawn_key=(*self.path, i)) for i in range(self.replicates)
        ]


@dataclasses.dataclass
class Replicate:
    """A replicate, and what the main loop records about it."""

    run: Run
    counting: bool = False
    check: int = 0  # draws after which the accuracy is checked next
    seconds: float = 0.0  # spent sampling by the whole run: wall time without compiling
    cpu_seconds: float = 0.0
    own_seconds: float = 0.0  # spent sampling by this replicate
    late: bool = False  # whether it had to be advanced after the budget was used up
    # iterations of each chain, and what the sampler had learned for each variable by then (``learning.py``)
    learned: list[tuple[int, np.ndarray]] = dataclasses.field(default_factory=list)


def whole_number(value: Any, name: str, least: int) -> int:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, np.integer, float))
        or not float(value).is_integer()
    ):
        raise ArgumentTypeError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise DataError(f"{name} must be at least {least}, not {value}")
    return int(value)
