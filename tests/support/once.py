"""What takes long and several tests look at is made once in a run of the tests, whichever of pytest-xdist's processes comes first.

Whether tests that look at the same thing come to the same process depends on how they happen to be distributed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

try:
    import fcntl
except ImportError:  # not on Windows: there every process makes its own
    fcntl = None  # type: ignore[assignment]


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[], Any]) -> Any:
    """What `make` returns, as JSON brings it back: called by one process, while the others wait."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" not in os.environ or fcntl is None:
        return json.loads(json.dumps(make()))
    file = hashlib.sha256(name.encode()).hexdigest()[:24]
    kept = base.parent / f"{file}.json"
    with open(base.parent / f"{file}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        if not kept.exists():
            kept.write_text(json.dumps(make()), encoding="utf-8")
        return json.loads(kept.read_text(encoding="utf-8"))


def asked_for(request: pytest.FixtureRequest, *tests: str) -> list[dict[str, Any]]:
    """The parameters of all cases of these tests that this run of pytest is to run, in the file of the test that asks."""
    return [
        item.callspec.params  # type: ignore[attr-defined]
        for item in request.session.items
        if item.path == request.path and item.originalname in tests  # type: ignore[attr-defined]
    ]
