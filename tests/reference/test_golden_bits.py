"""Every sampler with three slabs, both engines and groups gives the bits that it gave before the last change of layout."""

import json
from functools import cache
from typing import Any

import pytest

from support import golden


@cache
def kept() -> dict[str, Any]:
    return json.loads(golden.FILE.read_text(encoding="utf-8"))


@cache
def computed() -> dict[str, str]:
    return golden.compute()


def test_every_setting_has_its_bits():
    """On any machine: everything runs, and no setting is missing from the file."""
    assert computed().keys() == kept()["bits"].keys()
    assert len(set(computed().values())) > len(computed()) // 2


def test_golden_bits():
    """Sums of products (BLAS) and the C library's exp and log round differently on other processors, and a chain that rounds
    differently once goes another way: there the bits of this file say nothing. That bits do not depend on threads, on how a run is cut
    into pieces, on machine code or on the JIT is tested on every machine, by runs that are compared with one another."""
    if kept()["arithmetic"] != golden.arithmetic():
        pytest.skip("this processor or C library rounds differently from that of the frozen bits")
    assert [name for name in computed() if computed()[name] != kept()["bits"][name]] == []
