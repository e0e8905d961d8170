"""What is reported of proposals: numbers of changes, acceptance, mutation rate along the run."""

from __future__ import annotations

import numpy as np
import pytest

import whichvars as wv
from support.cases import Case, problem
from whichvars._kernels.jit import entry
from whichvars._kernels.propose.changes import (
    BLOCK_LENGTH,
    CURRENT_BLOCK,
    IN_BLOCK,
    MOST_BLOCKS,
    MOST_CHANGES,
    Changes,
    describe_changes,
    new_changes,
    note_proposal,
)

FIRST_LENGTH = 64


@entry
def note_all(changes, counting_from, numbers, acceptances, accepted):
    for i in range(numbers.shape[0]):
        note_proposal(changes, i >= counting_from, numbers[i], acceptances[i], accepted[i])


def noted(
    iterations: int, warmup: int = 0, seed: int = 0, most: int = 6
) -> tuple[Changes, np.ndarray, np.ndarray, np.ndarray]:
    """Made-up proposals: numbers of changes, acceptance probabilities (1 where there is no change), acceptances."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, most, iterations)
    acceptances = np.where(numbers == 0, 1.0, rng.uniform(size=iterations) ** 2)
    accepted = (rng.uniform(size=iterations) < acceptances) & (numbers > 0)
    changes = new_changes()
    note_all(changes, warmup, numbers, acceptances, accepted)
    return changes, numbers, acceptances, accepted


LENGTHS = [
    0,
    1,
    63,
    64,
    65,
    1000,
    64 * MOST_BLOCKS - 1,
    64 * MOST_BLOCKS,
    64 * MOST_BLOCKS + 1,
    3 * 64 * MOST_BLOCKS + 17,
    400_000,
]


@pytest.mark.parametrize("iterations", LENGTHS)
def test_mutation_rate_along_the_run(iterations: int) -> None:
    """Blocks of equal length, merged in pairs when there are too many; each the mean of C·a."""
    changes, numbers, acceptances, _ = noted(iterations, warmup=iterations // 3)
    report = describe_changes([changes])
    length = FIRST_LENGTH
    while iterations >= length * MOST_BLOCKS:
        length *= 2
    assert report["block_length"] == length
    blocks = iterations // length
    mutation = np.where(numbers > 0, acceptances, 0.0)[: blocks * length].reshape(blocks, length)
    np.testing.assert_allclose(report["mutation_rate_along_run"], mutation.mean(axis=1), rtol=1e-12)
    assert changes.ints[CURRENT_BLOCK] == blocks < MOST_BLOCKS
    assert changes.ints[IN_BLOCK] == iterations % length
    assert changes.ints[BLOCK_LENGTH] == length
    if iterations >= 64 * MOST_BLOCKS:
        assert blocks >= MOST_BLOCKS // 2


@pytest.mark.parametrize("warmup", [0, 1, 300, 999, 1000])
def test_counts_after_warmup(warmup: int) -> None:
    changes, numbers, acceptances, accepted = noted(1000, warmup)
    report = describe_changes([changes])
    after = slice(warmup, None)
    proposed = np.bincount(numbers[after])
    if warmup == 1000:  # nothing was counted
        assert report["mutation_rate"] == 0
        assert np.array_equal(report["changes_proposed"], [0])
        assert np.isnan(report["acceptance_by_changes"]).all()  # type: ignore[call-overload]
        return
    np.testing.assert_array_equal(report["changes_proposed"], proposed)
    assert proposed.sum() == 1000 - warmup
    np.testing.assert_array_equal(
        report["changes_accepted"], np.bincount(numbers[after], accepted[after], len(proposed))
    )
    by_number = [
        acceptances[after][numbers[after] == c].mean() if n else np.nan for c, n in enumerate(proposed)
    ]
    np.testing.assert_allclose(report["acceptance_by_changes"], by_number, rtol=1e-12)
    c_a = np.where(numbers > 0, acceptances, 0.0)[after]
    assert report["mutation_rate"] == pytest.approx(c_a.mean(), rel=1e-12)


def test_numbers_that_never_came_are_nan() -> None:
    changes = new_changes()
    numbers = np.array([1, 4, 4])
    note_all(changes, 0, numbers, np.array([0.5, 0.25, 0.75]), np.array([True, False, True]))
    report = describe_changes([changes])
    np.testing.assert_array_equal(report["changes_proposed"], [0, 1, 0, 0, 2])
    np.testing.assert_array_equal(report["changes_accepted"], [0, 1, 0, 0, 1])
    np.testing.assert_array_equal(report["acceptance_by_changes"], [np.nan, 0.5, np.nan, np.nan, 0.5])


def test_very_many_changes_share_the_last_place() -> None:
    changes, numbers, _, accepted = noted(5000, most=2 * MOST_CHANGES)
    report = describe_changes([changes])
    proposed = report["changes_proposed"]
    assert isinstance(proposed, np.ndarray)
    assert len(proposed) == MOST_CHANGES
    assert proposed.sum() == 5000
    assert proposed[-1] == np.sum(numbers >= MOST_CHANGES - 1)
    assert report["changes_accepted"][-1] == np.sum(accepted[numbers >= MOST_CHANGES - 1])  # type: ignore[index]


def test_several_chains_are_put_together() -> None:
    runs = [noted(64 * MOST_BLOCKS + 40, warmup=100, seed=s) for s in range(3)]
    together = describe_changes([r[0] for r in runs])
    one_by_one = [describe_changes([r[0]]) for r in runs]
    for name in ("changes_proposed", "changes_accepted"):
        np.testing.assert_array_equal(together[name], np.sum([d[name] for d in one_by_one], axis=0))
    for name in ("mutation_rate", "mutation_rate_along_run"):
        np.testing.assert_allclose(together[name], np.mean([d[name] for d in one_by_one], axis=0), rtol=1e-12)
    weights = np.array([d["changes_proposed"] for d in one_by_one])
    values = np.array([d["acceptance_by_changes"] for d in one_by_one])
    np.testing.assert_allclose(
        together["acceptance_by_changes"], (weights * values).sum(axis=0) / weights.sum(axis=0), rtol=1e-12
    )


@pytest.mark.parametrize(
    "sampler",
    [wv.IndividualAdaptation(), wv.IndividualAdaptation(chains=5, merge_every=50), wv.Lamnisos()],
    ids=["rapa", "mca", "lamnisos"],
)
def test_report_of_a_run(sampler: wv.IndividualAdaptation | wv.Lamnisos) -> None:
    posterior = wv.sample(
        problem(Case("plain", "g", "fixed")),
        sampler,
        draws=20_000,
        warmup=1000,
        replicates=2,
        seed=5,
        progress=False,
    )
    assert len(posterior.adaptation) == 2
    for report in posterior.adaptation:
        proposed, accepted = report["changes_proposed"], report["changes_accepted"]
        assert proposed.sum() == 20_000
        assert accepted[0] == 0
        assert np.all(accepted <= proposed)
        mean = np.nansum(report["acceptance_by_changes"][1:] * proposed[1:]) / 20_000
        assert report["mutation_rate"] == pytest.approx(mean, rel=1e-12)
        # accepted moves have C·a as their expectation
        assert accepted.sum() / 20_000 == pytest.approx(mean, abs=4 * np.sqrt(mean / 20_000))
        along = report["mutation_rate_along_run"]
        assert len(along) == 21_000 // sampler.chains // report["block_length"]
        assert along[len(along) // 4 :].mean() == pytest.approx(mean, abs=0.05)
