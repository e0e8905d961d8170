"""The exact transition matrix of one iteration of a sampler, by taking every branch of its real code.

    NUMBA_DISABLE_JIT=1 PYTHONPATH=tests python -m support.transition_matrix ads=three:g:fixed parni=three:bic:fixed

prints JSON: {"sampler=case": {temperature: matrix}}, for the temperatures at which the sampler is tested; rows and
columns in the oracle's order of models (variable 0 the lowest bit); rows of models without mass are null.
"""

from __future__ import annotations

import argparse
import json

import numba
import numpy as np

from statistical.samplers_under_test import SAMPLERS, UnderTest
from support.branching import Branching, law, starting_point
from support.cases import Case, problem
from whichvars._kernels.chain import INVERSE_TEMPERATURE
from whichvars._kernels.propose.informed import draw_additions
from whichvars.errors import DataError
from whichvars.problem.problem import Problem
from whichvars.samplers import asi, parni
from whichvars.samplers import contract as run_module
from whichvars.samplers.surrogates import problem_for


def transition_matrix(tested: UnderTest, case: Case, temperature: float) -> list[list[float] | None]:
    return matrix_of(tested, problem_for(problem(case), tested.one_step), temperature)


def matrix_of(tested: UnderTest, target: Problem, temperature: float) -> list[list[float] | None]:
    models = 1 << target.p
    seed = np.random.SeedSequence(1, spawn_key=(0,))

    def step_from(start: np.ndarray):
        run = tested.one_step.init(target, seed, [start])
        if tested.prepare is not None:
            tested.prepare(target, run)
        (unit,) = run.units
        unit.chain.floats[INVERSE_TEMPERATURE] = temperature
        restore = starting_point(run, unit)

        def step(rng: Branching) -> int:
            restore()
            unit.rng = rng  # type: ignore[assignment]
            tested.one_step.advance(target, run, 0, 1)
            return int(sum(1 << int(j) for j in np.flatnonzero(unit.chain.position >= 0)))

        return step

    rows: list[list[float] | None] = []
    for index in range(models):
        start = np.flatnonzero([(index >> j) & 1 for j in range(target.p)])
        try:
            row = law(step_from(start))
        except DataError:  # no mass
            rows.append(None)
            continue
        rows.append([row.get(m, 0.0) for m in range(models)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("matrices", nargs="+", help="sampler=data:slab:prior")
    asked = parser.parse_args()
    if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        parser.error("set NUMBA_DISABLE_JIT=1")
    run_module.KEPT_MODELS = run_module.KEPT_RECORDS = 64  # nothing is counted: keep the tables small
    out: dict[str, dict[str, list[list[float] | None]]] = {}
    for name in asked.matrices:
        sampler, case = name.split("=")
        tested = SAMPLERS[sampler]
        asi.draw_additions = parni.draw_additions = draw_additions  # samplers under test may change them
        out[name] = {
            f"{t:g}": transition_matrix(tested, Case(*case.split(":")), t)
            for t in (tested.temperatures if tested.tempers else (1.0,))
        }
    print(json.dumps(out))


if __name__ == "__main__":
    main()
