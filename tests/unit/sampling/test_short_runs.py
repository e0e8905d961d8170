"""Runs too short for an event of every chain: conditional probabilities that are not there are not taken for 0."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import whichvars as wv
from support.cases import Case, problem, truth
from whichvars._kernels.count.averages import GROUP, GROUP_LENGTH, SCANS, no_averages
from whichvars.samplers.contract import Estimate, RaoBlackwell
from whichvars.sampling.estimates import (
    Look,
    combine_pips,
    combine_rao_blackwell,
    rao_blackwell,
)
from whichvars.sampling.mixing import mix_with_visits, with_two_more

VISITS = np.array([[90.0, 10.0], [80.0, 0.0], [100.0, 20.0]])
DRAWS = np.full(3, 100.0)


def part(*weights: float) -> RaoBlackwell:
    """Three chains, two variables; conditional probabilities .8 and .3 while there is time."""
    held = np.array(weights)
    return RaoBlackwell.of_chains(held[:, None] * [0.8, 0.3], held, VISITS, DRAWS)


@pytest.mark.parametrize("weights", [(0, 0, 0), (0, 2, 0)])
def test_shares_of_draws_alone(weights: tuple[float, ...]) -> None:
    (pip,), (variance,) = mix_with_visits([part(*weights)])
    np.testing.assert_allclose(pip, [0.9, 0.1])
    np.testing.assert_allclose(variance, VISITS.var(axis=0, ddof=1) / 100**2 / 3)


def test_both_where_most_chains_have_events() -> None:
    (pip,), _ = mix_with_visits([part(1.0, 2.0, 0.0)])
    assert 0.8 <= pip[0] < 0.9
    assert 0.1 < pip[1] <= 0.3


def replicates(scans: float) -> list[RaoBlackwell]:
    """Four replicates of five chains. The first variable is out in every twentieth draw, and no scan saw that; the second is in by itself
    in every twentieth draw, and scans say so exactly."""
    rng = np.random.default_rng(1)
    parts = []
    for _ in range(4):
        out, into = rng.poisson(50, (2, 5))
        visits = np.column_stack([1000.0 - out, into])
        sums = np.column_stack([np.full(5, 1.0 - 1e-9), 0.05 + 1e-4 * rng.normal(size=5)])
        parts.append(RaoBlackwell.of_chains(sums, np.ones(5), visits, np.full(5, 1000.0), scans=scans))
    return parts


def test_a_group_of_models_that_no_scan_fell_into() -> None:
    """With five scans and five thousand draws a replicate, conditional probabilities that do not vary are no proof that a variable is
    always in. With a hundred scans they count as before."""
    few, variance = mix_with_visits(replicates(5))
    np.testing.assert_allclose(few[:, 0], 0.95, atol=0.02)
    assert (variance[:, 0] > 1e-6).all()
    np.testing.assert_allclose(few[:, 1], 0.05, atol=0.001)  # the two agree, and the better one counts
    found = combine_pips([Look(part.pip, part.variance, 4, part) for part in replicates(5)])
    assert abs(found.pip[0] - 0.95) < 4 * found.mcse[0] < 0.05
    many, variance = mix_with_visits(replicates(100))
    np.testing.assert_allclose(many[:, 0], 1.0, atol=1e-6)
    assert (variance[:, 0] < 1e-12).all()


def test_scans_of_one_replicate_do_not_make_up_for_those_of_another() -> None:
    parts = [*replicates(5)[:3], replicates(1_000_000)[3]]
    assert (mix_with_visits(parts)[0][:3, 0] < 0.97).all()


def middling_replicates(p: int, shift: float, scans: float = 20) -> list[RaoBlackwell]:
    """Four replicates of five chains, variables of probability .3. A scan says it to within .02, and shares of draws are worth four hundred
    draws in all. By scans the first variable is `shift` more probable than it is, always."""
    rng = np.random.default_rng(2)
    parts = []
    for _ in range(4):
        averages = 0.3 + 0.02 * rng.normal(size=(5, p))
        averages[:, 0] += shift
        visits = 1000 * (0.3 + np.sqrt(0.21 / 20) * rng.normal(size=(5, p)))
        parts.append(RaoBlackwell.of_chains(averages, np.ones(5), visits, np.full(5, 1000.0), scans=scans))
    return parts


def test_shares_that_differ_by_chance_are_not_chosen() -> None:
    """Of two hundred middling variables, those whose shares of draws happen to be far off keep their conditional probabilities."""
    parts = middling_replicates(200, 0.0)
    means, variances = mix_with_visits(parts)
    error = means.mean(axis=0) - 0.3
    # 0.02/√20, and as much as the shares of draws still count
    assert np.sqrt(np.mean(error**2)) < 0.006
    assert np.sqrt(np.mean(error**2) / np.mean(variances / 4)) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("p", [10, 200])
def test_a_middling_variable_that_is_far_off_is_still_found(p: int) -> None:
    means, _ = mix_with_visits(middling_replicates(p, 0.3))
    assert abs(means[:, 0].mean() - 0.3) < 0.08
    assert np.abs(means[:, 1:].mean(axis=0) - 0.3).max() < 0.1


def test_two_more_of_each_kind() -> None:
    """Of 100 draws. What came up half of the time stays as it is."""
    pip = np.array([0.01, 0.5, 0.99, 0.0])
    variance = with_two_more(pip, pip * (1 - pip) / 100)
    share = 0.03 / 1.04  # or as much short of 1
    np.testing.assert_allclose(variance[[0, 2]], share * (1 - share) / 100)
    assert variance[1] == pytest.approx(0.25 / 100)
    assert variance[3] == 0
    assert np.isnan(with_two_more(np.array([0.3]), np.array([np.nan]))).all()


def test_replicates_count_equally() -> None:
    """However long the time that their processes hold: one that stands still may have nearly all of it."""
    rng = np.random.default_rng(0)
    times = [1000.0, 1.0, 1.0, 1.0]
    pips = [0.1, 0.9, 0.9, 0.9]
    parts = []
    for time, pip in zip(times, pips):
        held = time * rng.uniform(0.9, 1.1, 5)
        around = pip + 0.01 * rng.normal(size=(5, 2))
        parts.append(RaoBlackwell.of_chains(held[:, None] * around, held, 100 * around, np.full(5, 100.0)))
    looks = [Look(part.pip, part.variance, 4, part) for part in parts]
    found = combine_pips(looks)
    np.testing.assert_allclose(found.pip, np.mean(pips), atol=0.02)
    assert (found.mcse > 0.15).all()


def test_no_averages_without_events() -> None:
    def seen(*weights: float) -> list[Estimate]:
        return [type("E", (), {"rao_blackwell": part(*weights)})()]  # type: ignore[list-item]

    assert combine_rao_blackwell(seen(0, 0, 0), np.ones(2, bool)) is None
    assert combine_rao_blackwell(seen(0, 1, 0), np.ones(2, bool)) is None
    found = combine_rao_blackwell(seen(1, 1, 0), np.ones(2, bool))
    assert found is not None
    np.testing.assert_allclose(found[0], [0.8, 0.3])


@pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")
def test_a_run_that_ends_within_its_first_burst() -> None:
    case = Case("plain", "independent", "fixed")
    posterior = wv.sample(
        problem(case), wv.Hybrid(moves=4000, chains=2), draws=1500, replicates=2, seed=3, progress=False
    )
    assert posterior.rao_blackwell is None
    np.testing.assert_allclose(posterior.pip, posterior.frequencies)
    np.testing.assert_allclose(posterior.pip, truth(case).pips, atol=0.1)
    assert np.nanmax(posterior.mcse) > 1e-3


def test_averages_of_unknown_error_do_not_take_the_place_of_shares_with_a_known_one() -> None:
    """A single scan says nothing of how accurate it is."""
    one = RaoBlackwell(np.array([0.8, 0.3]), np.full(2, np.nan), 0)
    look = Look(np.array([0.7, 0.2]), np.array([1e-4, 1e-4]), 31, one)
    found = combine_pips([look])
    np.testing.assert_array_equal(found.pip, look.pip)
    np.testing.assert_allclose(found.mcse, 0.01)
    still = combine_pips([look._replace(variance=np.zeros(2))])  # neither has an error: averages know more
    np.testing.assert_array_equal(still.pip, one.pip)
    assert np.isnan(still.mcse).all()


@pytest.mark.parametrize("groups", [1, 2, 7, 8, 20])
def test_few_groups_of_scans_say_nothing_of_their_error(groups: int) -> None:
    """Two groups may agree by chance: at n = 65,536 errors were 24 times too small."""
    averages = no_averages()._replace(
        ints=np.zeros(6, np.int64), running=np.zeros(2), groups=np.zeros((32, 2), np.float32)
    )
    averages.ints[[GROUP, GROUP_LENGTH, SCANS]] = groups, 5, 5 * groups
    averages.groups[:groups] = np.random.default_rng(0).random((groups, 2))
    found = rao_blackwell(SimpleNamespace(units=[SimpleNamespace(averages=averages)]))  # type: ignore[arg-type]
    assert found is not None
    np.testing.assert_allclose(found.pip, averages.groups[:groups].mean(axis=0) / 5, rtol=1e-6)
    if groups < 8:
        assert np.isnan(found.variance).all()
    else:
        want = (averages.groups[:groups] / 5).var(axis=0, ddof=1) / groups
        np.testing.assert_allclose(found.variance, want, rtol=1e-5)


def surrogate_part(seed: int, time: float, wrong: bool) -> RaoBlackwell:
    """Five chains of a replicate whose conditional probabilities hardly vary, and are .005 for five variables that are in with
    probability .2 if `wrong`."""
    rng = np.random.default_rng(seed)
    share = np.full((5, 40), 0.005)
    share[:, :5] = 0.2
    visited = np.full(5, 4000.0)
    visits = visited[:, None] * np.clip(share * rng.uniform(0.5, 1.5, share.shape), 0, 1)
    weights = np.full(5, time / 5)
    averages = np.where(share > 0.1, 0.005 if wrong else 0.2, share) * rng.uniform(0.98, 1.02, share.shape)
    return RaoBlackwell.of_chains(weights[:, None] * averages, weights, visits, visited, surrogate=True)


@pytest.mark.parametrize("time", [0.5, 50.0])
def test_probabilities_of_a_surrogate_that_was_not_corrected_do_not_count(time: float) -> None:
    """They do not vary, which must not make them seem accurate."""
    parts = [surrogate_part(seed, time, wrong=True) for seed in range(4)]
    means, variances = mix_with_visits(parts)
    found, error = means.mean(axis=0), np.sqrt(variances.mean(axis=0) / 4)
    assert (np.abs(found[:5] - 0.2) < 4 * error[:5]).all()
    plain = [replace(part, surrogate=False) for part in parts]
    assert (mix_with_visits(plain)[0][:, :5] < 0.05).all()


def test_those_of_one_that_was_do() -> None:
    parts = [surrogate_part(seed, 50.0, wrong=False) for seed in range(4)]
    for one, other in zip(
        mix_with_visits(parts), mix_with_visits([replace(p, surrogate=False) for p in parts])
    ):
        np.testing.assert_array_equal(one, other)
    short = [surrogate_part(seed, 0.5, wrong=False) for seed in range(4)]
    shares = np.array([part.visits.sum(axis=0) / part.visited.sum() for part in short])
    np.testing.assert_allclose(mix_with_visits(short)[0], shares)
