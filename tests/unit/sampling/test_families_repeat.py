"""Runs of responses that are not Gaussian: the same bits from threads, files and checkpoints. (On a cluster:
``test_cluster.py``, where there is one.)"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whichvars as wv
from support.cases import eight_variables_and_two_classes
from unit.sampling.test_checkpoint import Killed, assert_same, die_after, extend, resume, run
from whichvars.samplers import contract
from whichvars.samplers.contract import Entries
from whichvars.sampling import checkpoint as checkpoints

FEW = {"memo_slots": 1 << 10}
SAMPLERS: dict[str, Any] = {
    "hybrid": wv.Hybrid(chains=2, table_bytes=1 << 13, **FEW),
    "subset": wv.SubsetGibbs(subset=4, anchors=1, chains=2, **FEW),
    "asi": wv.ASI(chains=2, **FEW),
    "add, delete, swap": wv.AddDeleteSwap(**FEW),
}
# those that fit models within kernels, too
OTHERS: dict[str, Any] = {
    "tempered gibbs": wv.TemperedGibbs(chains=2, table_bytes=1 << 13, **FEW),
    "parni": wv.PARNI(chains=2, **FEW),
    "individual": wv.IndividualAdaptation(chains=2, **FEW),
    "lamnisos": wv.Lamnisos(**FEW),
    "tempering": wv.ParallelTempering(rungs=3, steps=2, **FEW),
    "particles": wv.SequentialMonteCarlo(particles=40, steps=3, groups=2, **FEW),
}
SHORT = {"draws": 900, "warmup": 300}


@pytest.fixture(scope="module")
def problem() -> wv.Problem:
    return eight_variables_and_two_classes()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SHARE", np.inf)


@pytest.mark.parametrize("name", SAMPLERS)
def test_threads_and_a_run_that_died(
    problem: wv.Problem, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(problem, SAMPLERS[name], threads=1, **SHORT)
    assert_same(run(problem, SAMPLERS[name], threads=3, chunk=70, **SHORT), whole)
    with monkeypatch.context() as patch:
        die_after(patch, 5)
        with pytest.raises(Killed):
            run(problem, SAMPLERS[name], checkpoint=tmp_path, every=1e-9, chunk=90, **SHORT)
    assert_same(resume(tmp_path), whole)


@pytest.mark.parametrize("name", [*SAMPLERS, *OTHERS])
def test_fits_within_kernels_have_the_bits_of_those_that_python_asks_for(
    problem: wv.Problem, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = {**SAMPLERS, **OTHERS}[name]
    length = SHORT if getattr(sampler, "by_draws", True) else {}
    asked, fit = [0], contract.fit_proposal

    def counted(*arguments: Any) -> None:
        asked[0] += 1
        fit(*arguments)

    @contextmanager
    def without_fits(entries: Entries, problem: wv.Problem) -> Iterator[Any]:
        yield entries.gaussian

    monkeypatch.setattr(contract, "fit_proposal", counted)
    within = run(problem, sampler, threads=1, **length)
    few, asked[0] = asked[0], 0
    monkeypatch.setattr(Entries, "for_problem", without_fits)
    assert_same(run(problem, sampler, threads=1, **length), within)
    # within kernels, Python asks only for the models that chains and particles start from
    assert few < 0.6 * asked[0]


def test_a_posterior_that_was_saved_is_extended_with_the_same_bits(
    problem: wv.Problem, tmp_path: Path
) -> None:
    sampler = SAMPLERS["hybrid"]
    longer = run(problem, sampler, draws=1800, warmup=300)
    first = run(problem, sampler, checkpoint=tmp_path / "run", **SHORT)
    first.save(tmp_path / "posterior")
    again = wv.Posterior.load(tmp_path / "posterior")
    assert_same(again, first)
    assert_same(run(again.problem, sampler, draws=1800, warmup=300), longer)
    assert_same(extend(first, draws=900), longer)
