"""Some of all combinations in ``make test``, all of them in ``make test-slow``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest


def in_turn(*values: Iterable[Any]) -> list[Any]:
    """All combinations, for ``parametrize``. Those whose places add up to a multiple of the second largest number of values are
    not slow: among them is every value, in another company each time."""
    lists: list[Sequence[Any]] = [list(v) for v in values]
    every = sorted(map(len, lists))[-2]
    return [
        pytest.param(
            *(v[i] for v, i in zip(lists, places)), marks=[] if sum(places) % every == 0 else pytest.mark.slow
        )
        for places in product(*(range(len(v)) for v in lists))
    ]
