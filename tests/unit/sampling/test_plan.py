"""Budgets: what people write is a time or a number of draws, and nothing else passes."""

from typing import Any

import pytest

from whichvars.errors import ArgumentTypeError, DataError
from whichvars.sampling.plan import parse_budget


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("90s", 90), ("2m", 120), ("2min", 120), ("1h", 3600), ("1h30m", 5400), ("1h 30m 5s", 5405), ("1.5m", 90), (".5s", 0.5),
        ("500ms", 0.5), ("1d", 86400), ("2M", 120), (" 2 m ", 120), (90, 90), (0.25, 0.25),
    ],
)  # fmt: skip
def test_times(value: Any, seconds: float) -> None:
    assert parse_budget(value) == (pytest.approx(seconds), None)


@pytest.mark.parametrize(
    ("value", "draws"), [("1e7", 10**7), ("10_000", 10_000), ("1,000", 1000), ("250", 250)]
)
def test_draws(value: str, draws: int) -> None:
    assert parse_budget(value) == (None, draws)


@pytest.mark.parametrize(
    "value", ["", " ", "soon", "2x", "m", "2m3", "-5s", "-5", "0", "0s", "1.5", "inf", "nan", 0, -1, float("nan"), "1h-2m"]
)  # fmt: skip
def test_nonsense_is_refused_with_advice(value: Any) -> None:
    with pytest.raises(DataError, match=r"budget.*90s"):
        parse_budget(value)


@pytest.mark.parametrize("value", [None, True, [1]])
def test_other_kinds_are_refused(value: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="budget must be"):
        parse_budget(value)
