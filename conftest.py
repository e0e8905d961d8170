"""For all tests, those in docstrings included."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_figure_stays_open() -> Iterator[None]:
    """Matplotlib warns of more than twenty open figures, and which tests share a process is a matter of chance."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
