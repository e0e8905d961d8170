"""For all tests, those in docstrings included."""

import dataclasses
import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def no_figure_stays_open() -> Iterator[None]:
    """Matplotlib warns of more than twenty open figures, and which tests share a process is a matter of chance."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases that ``make test`` leaves out and ``make test-rest`` runs.

    If a test has several parameters, ``make test`` runs so many of their combinations that each value of each parameter is met. Cases that
    are marked already are left as they are.
    """
    apart = ("slow", "rest")
    quick = [i for i in items if hasattr(i, "callspec") and not any(map(i.get_closest_marker, apart))]
    for _, group in groupby(quick, key=lambda item: item.nodeid.partition("[")[0]):
        cases = list(group)
        met = set(_covering([_values(item.callspec.params) for item in cases]))  # type: ignore[attr-defined]
        for i, item in enumerate(cases):
            if i not in met:
                item.add_marker("rest")


def _values(parameters: dict[str, Any]) -> set[str]:
    """The values of all parameters; those of a data class are the values of its fields."""
    found = set()
    for name, value in parameters.items():
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            found |= {
                f"{name}.{field.name}={getattr(value, field.name)!r}" for field in dataclasses.fields(value)
            }
        else:
            found.add(f"{name}={value!r}")
    return found


def _covering(cases: list[set[str]]) -> list[int]:
    """Numbers of cases that together have every value: each time the case that has most of those that are missing."""
    missing, chosen = set().union(*cases), list[int]()
    while missing or not chosen:
        best = max(range(len(cases)), key=lambda i: len(cases[i] & missing))
        chosen.append(best)
        missing -= cases[best]
    return chosen
