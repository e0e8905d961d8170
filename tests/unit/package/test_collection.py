"""Python's garbage collector is off while results are put together, and on again afterwards."""

import gc
from typing import Any

import pytest

import whichvars as wv
from support.cases import eight_variables
from whichvars._kernels.collection import no_collection
from whichvars.sampling import sample


def test_it_is_as_it_was_afterwards() -> None:
    assert gc.isenabled()
    with no_collection():
        assert not gc.isenabled()
        with no_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), no_collection():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_who_has_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_results_are_put_together_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, combine = [], sample.combine

    def looking(*arguments: Any) -> wv.Posterior:
        seen.append(gc.isenabled())
        return combine(*arguments)

    monkeypatch.setattr(sample, "combine", looking)
    wv.sample(eight_variables(), wv.AddDeleteSwap(), draws=2000, seed=1, progress=False)
    assert seen == [False]
    assert gc.isenabled()
