"""``make test`` meets each value of each parameter, and ``make test-rest`` every combination that is left."""

import runpy
from dataclasses import dataclass
from itertools import product
from pathlib import Path

CONFTEST = runpy.run_path(str(Path(__file__).resolve().parents[3] / "conftest.py"))
covering, values = CONFTEST["_covering"], CONFTEST["_values"]


@dataclass(frozen=True)
class Case:
    slab: str
    prior: int


def test_each_value_is_met_by_few_cases() -> None:
    everything = [{"a": a, "b": b, "c": c} for a, b, c in product(range(5), "xyz", (None, 1.5))]
    cases = [values(each) for each in everything]
    chosen = covering(cases)
    assert set().union(*(cases[i] for i in chosen)) == set().union(*cases)
    assert len(chosen) == 5


def test_fields_of_data_classes_are_values() -> None:
    assert values({"case": Case("g", 3), "draws": 10}) == {"case.slab='g'", "case.prior=3", "draws=10"}
    # the class itself is a value like others
    assert values({"kind": Case}) == {f"kind={Case!r}"}


def test_a_single_parameter_leaves_nothing_out() -> None:
    assert sorted(covering([values({"n": n}) for n in range(7)])) == list(range(7))
    assert covering([set()]) == [0]
