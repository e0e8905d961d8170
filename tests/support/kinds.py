"""Which cases ``make test`` tries where several are of one kind."""

from collections.abc import Iterable
from typing import Any

import pytest

# one that compares two models at a time, and one that moves by the rates of all neighbours
KINDS = ("AddDeleteSwap", "Hybrid")


def by_kind(samplers: Iterable[Any]) -> list[Any]:
    """Parameters of a test: the two kinds are in ``make test``, the other samplers in ``make test-rest``."""
    return [
        pytest.param(s, id=type(s).__name__, marks=() if type(s).__name__ in KINDS else pytest.mark.rest)
        for s in samplers
    ]


def mainly(values: Iterable[Any], often: Iterable[Any]) -> list[Any]:
    """Parameters of a test: those of `often` are in ``make test``, the other values in ``make test-rest``."""
    chosen = list(often)
    return [pytest.param(v, id=str(v), marks=() if v in chosen else pytest.mark.rest) for v in values]
