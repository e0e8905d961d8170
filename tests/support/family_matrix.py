"""The exact transition matrix of one iteration of a two-stage sampler, by taking every branch of its real code.

    NUMBA_DISABLE_JIT=1 PYTHONPATH=tests python -m support.family_matrix SAMPLER=PROBLEM=REFERENCE ...

prints JSON: {"sampler=problem=reference": matrix}, in the oracle's order of models (variable 0 the lowest bit).
"""

from __future__ import annotations

import json
import sys

import numba

from statistical.samplers_under_test import SAMPLERS
from support.family_cases import PROBLEMS, with_reference
from support.transition_matrix import matrix_of
from whichvars.samplers import contract as run_module

TESTED = ("asi", "parni")
REFERENCES = ("found", "null", "far off")


def main() -> None:
    assert numba.config.DISABLE_JIT, "set NUMBA_DISABLE_JIT=1"  # type: ignore[attr-defined]
    run_module.KEPT_MODELS = run_module.KEPT_RECORDS = 64  # nothing is counted: keep the tables small
    out = {}
    for asked in sys.argv[1:]:
        sampler, name, reference = asked.split("=")
        problem = with_reference(PROBLEMS[name]()[1], reference)
        out[asked] = matrix_of(SAMPLERS[sampler], problem, 1.0)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
