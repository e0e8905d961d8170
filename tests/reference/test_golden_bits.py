"""Every sampler with three slabs, both engines and groups gives the bits that it gave before the last change of layout."""

import json

import pytest

from support import golden


def test_golden_bits():
    kept = json.loads(golden.FILE.read_text(encoding="utf-8"))
    if kept["arithmetic"] != golden.arithmetic():
        pytest.skip("this machine rounds sums or functions differently from the one that the bits are of")
    found = golden.compute()
    assert found.keys() == kept["bits"].keys()
    assert [name for name in found if found[name] != kept["bits"][name]] == []
