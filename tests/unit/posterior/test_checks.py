"""Checks of a run against itself: what they find, what they leave alone, and how often they are wrong."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import whichvars as wv
from support.kinds import mainly
from support.paired import make_paired
from whichvars.posterior import checks
from whichvars.posterior.checks import (
    Comparison,
    between_replicates,
    compare_models,
    draws_worth,
    drift,
    far_apart,
    hidden_size,
    lagging,
    record_worth,
    too_much_mass,
    unequal_masses,
    unvisited,
)
from whichvars.posterior.diagnostics import doubts
from whichvars.posterior.replicates import combine_replicates
from whichvars.sampling.estimates import typical_at_least


def record(sizes, log_posteriors=None):
    """A thinned record from arrays of shape (replicates, chains, records)."""
    sizes = np.asarray(sizes, float)
    others = sizes if log_posteriors is None else np.asarray(log_posteriors, float)
    parts = [
        pd.DataFrame({"replicate": r, "chain": c, "size": sizes[r, c], "log_posterior": others[r, c]})
        for r in range(sizes.shape[0])
        for c in range(sizes.shape[1])
    ]
    return pd.concat(parts, ignore_index=True)


def noise(rng, chains=1, records=400, correlation=0.9):
    """Autoregressive records of variance 1, (4, chains, records)."""
    out = rng.normal(size=(4, chains, records))
    for i in range(1, records):
        out[..., i] = correlation * out[..., i - 1] + np.sqrt(1 - correlation**2) * out[..., i]
    return out


def compared(log_mass=(0.0, 0.0, 0.0, 0.0), union=0.1, total=(0.5,) * 4, known=(0.5,) * 4, degrees=31):
    return Comparison(np.array(log_mass), union, np.array(total), np.array(known), degrees)


# --- between replicates


@pytest.mark.parametrize("means", [(5.18, 3.58, 3.86, 4.18), (5.26, 2.61, 0.40, 0.40)])
@pytest.mark.parametrize("claimed", [1e-4, 0.003, 0.02, 0.1, 0.4])
def test_replicates_that_are_apart_are_found_whatever_their_errors(means, claimed):
    """Five variables share the difference; the errors that replicates claim may be as large as one likes."""
    pips = np.repeat(np.array(means)[:, None] / 6, 5, axis=1)
    variances = np.full(pips.shape, claimed**2)
    seen = between_replicates(pips, variances, 4, None), far_apart(pips, 0.05)
    assert any(part is not None for part in seen)


def test_differences_within_the_errors_are_left_alone():
    rng = np.random.default_rng(1)
    pips = 0.3 + 0.01 * rng.normal(size=(4, 50))
    assert between_replicates(pips, np.full(pips.shape, 1e-4), 4, None) is None
    assert far_apart(pips, 0.05) is None


def test_differences_that_nobody_minds_are_left_alone():
    pips = np.array([[0.3], [0.30001], [0.3], [0.3]])
    assert between_replicates(pips, np.full((4, 1), 1e-16), 4, None) is None


def test_unknown_errors_say_nothing():
    pips = np.array([[0.3], [0.5], [0.3], [0.3]])
    for unknown in (0.0, np.nan):
        assert between_replicates(pips, np.full((4, 1), unknown), 4, None) is None
    assert between_replicates(pips, np.ones((4, 1)), 0, None) is None
    assert between_replicates(None, None, 4, None) is None
    assert far_apart(None, 0.05) is None
    assert far_apart(np.array([[0.1], [0.9]]), 0.05) is None  # two say too little


def test_the_record_of_a_replicate_that_is_elsewhere_is_found():
    rng = np.random.default_rng(2)
    values = noise(rng)
    assert between_replicates(None, None, 4, record(values)) is None
    values[2] += 3
    found = between_replicates(None, None, 4, record(values))
    assert found is not None
    assert np.argmax(found.means) == 2
    found = between_replicates(None, None, 4, record(noise(rng), values))
    assert found is not None
    assert found.quantity == "log_posterior"


def test_a_short_record_says_nothing():
    values = noise(np.random.default_rng(2), records=20)
    values[2] += 100
    assert between_replicates(None, None, 4, record(values)) is None
    assert drift(record(values)) is None


@pytest.mark.parametrize("chains", mainly([1, 5], [5]))
def test_false_alarms_are_rare(chains):
    """Faultless replicates whose records are correlated over a tenth of a batch; PIPs with errors from few chains."""
    rng, runs, alarms = np.random.default_rng(3), 250, 0
    for _ in range(runs):
        trace = record(noise(rng, chains, 400 // chains, 0.5), noise(rng, chains, 400 // chains, 0.5))
        p = 20
        by_chain = 0.3 + 0.02 * (rng.normal(size=(4, 5, 1)) + rng.normal(size=(4, 5, p)))
        pips, variances = by_chain.mean(axis=1), by_chain.var(axis=1, ddof=1) / 5
        found = between_replicates(pips, variances, 4, trace), drift(trace)
        alarms += any(part is not None for part in found)
    assert alarms / runs < 0.03


# --- drift


def test_a_run_on_its_way_is_found():
    rng = np.random.default_rng(4)
    for chains in (1, 5):
        values = noise(rng, chains)
        assert drift(record(values)) is None
        found = drift(record(5 + values + np.linspace(0, 3, values.shape[-1])))
        assert found is not None
        assert found.second > found.first
        assert found.t > 0


def test_a_way_in_that_is_soon_over_is_found():
    """Most of the change is in the first eighth of the run, of which the halves show little."""
    values = noise(np.random.default_rng(6), 5, correlation=0.95)
    time = np.arange(1, values.shape[-1] + 1) / values.shape[-1]
    found = drift(record(values + 2 * (1 - np.exp(-time / 0.1))))
    assert found is not None
    assert found.second > found.first + 0.5


def test_a_drift_that_nobody_minds_is_left_alone():
    values = np.random.default_rng(7).normal(size=(4, 5, 40_000))
    slow = values + 0.1 * np.linspace(0, 1, values.shape[-1])
    assert drift(record(slow)) is None
    assert drift(record(values + 0.5 * np.linspace(0, 1, values.shape[-1]))) is not None


def test_jumps_in_one_chain_are_no_drift():
    values = noise(np.random.default_rng(5))
    values[0, 0, 200:] += 5
    assert drift(record(values)) is None


# --- runs that are worth few draws


def test_few_draws_are_told_by_errors():
    pip = np.full(50, 0.3)
    assert draws_worth(pip, np.sqrt(pip * (1 - pip) / 400)) is None
    assert draws_worth(pip, np.sqrt(pip * (1 - pip) / 200)) == pytest.approx(200)
    one = np.sqrt(pip * (1 - pip) / 1000)
    assert draws_worth(pip, one) is None
    assert draws_worth(pip, np.full(50, np.nan)) is None
    assert draws_worth(np.full(50, 0.001), np.full(50, 0.01)) is None


@pytest.mark.parametrize("chains", [1, 5])
def test_few_draws_are_told_by_the_record(chains):
    rng = np.random.default_rng(11)
    assert record_worth(record(noise(rng, chains, 2000, 0.9))) is None
    slow = noise(rng, chains, 400, 0.99)
    assert record_worth(record(slow)) < 90
    assert record_worth(record(noise(rng, chains, 400, 0.5), slow)) < 90
    assert record_worth(record(np.ones((4, chains, 400)))) is None
    assert record_worth(None) is None


def test_every_chain_is_worth_ten_draws(run):
    """A record that is worth about 140 draws: enough for four chains, too few for twenty that take turns in it."""
    trace = record(noise(np.random.default_rng(12), 1, 2000, 0.965))
    assert record_worth(trace, 4) is None
    worth = record_worth(trace, 20)
    assert worth is not None
    assert 90 < worth < 200
    assert record_worth(record(noise(np.random.default_rng(12), 1, 2000, 0.8)), 20) is None  # about 900
    assert doubts(replace(run, trace=trace)) == []
    (reason,) = doubts(replace(run, trace=trace, comparison=replace(run.comparison, chains=20)))
    assert "the run is too short" in reason


def a_record_of_sizes(rng, records=4000):
    """Sizes around 20 with standard deviation 5, and models of 30 variables that are in more often the larger the size is."""
    size = 20 + 5 * rng.normal(size=records)
    models = rng.random((records, 30)) < 0.5 + (size[:, None] - 20) * np.linspace(0, 0.03, 30)
    trace = pd.DataFrame({"replicate": 0, "chain": 0, "size": size, "log_posterior": size})
    return trace, sparse.csr_array(models)


def test_a_common_trend_of_chains_is_seen():
    rng = np.random.default_rng(13)
    trace, models = a_record_of_sizes(rng)
    noise_of_lags = rng.normal(size=20)  # of mean 0 up to its error of .22
    noise_of_lags -= noise_of_lags.mean()
    behind = lagging(2.0 + noise_of_lags, trace, models)
    assert behind is not None
    assert behind.variable >= 27
    assert behind.size == pytest.approx(2.0)
    assert behind.pip == pytest.approx(0.03 * 2.2, rel=0.15)
    assert lagging(-2.0 + noise_of_lags, trace, models).size == pytest.approx(-2.0)
    assert lagging(0.3 + noise_of_lags, trace, models) is None  # 1.3 errors
    assert (
        lagging(0.6 + noise_of_lags, trace, models) is None
    )  # 2.7 errors, but a variable changes by .025 only
    # chains that go their own ways have no common trend
    assert lagging(0.3 + 8 * noise_of_lags, trace, models) is None
    assert lagging((2.0 + noise_of_lags)[:7], trace, models) is None  # few of them say nothing
    unknown = np.append(2.0 + noise_of_lags, np.nan)
    assert lagging(unknown, trace, models) == behind
    assert lagging(None, trace, models) is None
    assert lagging(2.0 + noise_of_lags, trace.assign(size=20.0), models) is None


def test_a_trend_of_the_size_is_a_reason_for_doubt(run):
    rng = np.random.default_rng(14)
    size = run.trace["size"].to_numpy(float)
    lags = size.std() * (0.5 + 0.1 * rng.normal(size=20))
    (reason,) = doubts(replace(run, comparison=replace(run.comparison, lags=lags)))
    assert "the run may still be on its way" in reason
    assert "below where they end" in reason
    assert doubts(replace(run, comparison=replace(run.comparison, lags=lags - lags.mean()))) == []


def test_chains_of_all_replicates_are_counted(run):
    assert run.comparison.chains == 4
    five = wv.sample(run.problem, wv.Hybrid(), draws=400, replicates=3, seed=4, progress=False)
    assert five.comparison.chains == 15


def test_a_run_that_is_worth_few_draws_says_so(run):
    assert run.converged
    few = replace(run, mcse=np.sqrt(run.pip * (1 - run.pip) / 100))
    (reason,) = doubts(few)
    assert "worth about 100 independent draws" in reason
    assert "up to 3 % of the posterior mass" in reason


# --- exact masses


def test_masses_are_those_of_the_models_that_all_have_kept():
    first = {(0,): (1.0, 0.0, 0.5), (1,): (0.0, 0.0, 0.5), (): (-9.0, 0.0, 0.0)}
    second = {(0,): (1.0, 0.0, 1.0), (2,): (0.5, 0.5, 0.0)}
    found = compare_models([first, second, {}], -5.0, [1.0, np.nan, 2.0], [0.5, 0.0, 0.1], 7, 15)
    e = np.e
    np.testing.assert_allclose(np.exp(found.log_mass), [e + 1, 2 * e, 0])
    assert np.exp(found.log_union) == pytest.approx(2 * e + 1)
    assert found.degrees == 7


def test_unequal_masses_are_found_where_models_are_met_again():
    assert unequal_masses(compared()) is None
    assert unequal_masses(compared(log_mass=(0.0, -1.0, 0.0, 0.0))) is None  # a factor of 2.7
    assert unequal_masses(compared(log_mass=(0.0, -2.0, 0.0, 0.0))) == pytest.approx(np.exp(2))
    assert unequal_masses(compared(log_mass=(0.0, -np.inf, 0.0, 0.0))) > 1e100
    # hardly any model was drawn twice
    assert unequal_masses(compared(log_mass=(0.0, -2.0, 0.0, 0.0), known=(1e-5,) * 4)) is None


def test_no_replicate_can_have_seen_all_if_the_others_saw_more():
    assert too_much_mass(compared()) is None
    assert too_much_mass(compared(union=1.5)) == pytest.approx(np.e)
    assert too_much_mass(compared(union=1.5, total=(0.5, 0.0, np.nan, 1.6))) == pytest.approx(np.exp(1.5))
    assert too_much_mass(compared(union=1.5, known=(0.01,) * 4)) is None
    assert too_much_mass(compared(union=1.5, total=(np.nan,) * 4)) is None


def test_found_and_not_visited():
    visited = {(1, 2): None, (): None}
    found = [(3.0, (1, 2)), (0.0, (4, 5)), (-1.0, (6,))]
    missed = unvisited(found, visited, 1.0, 0.5)
    assert missed is not None
    assert missed.model == (4, 5)
    assert missed.share == pytest.approx(np.exp(-1))
    assert unvisited(found, visited, 5.0, 0.5) is None  # less than 2 %
    assert unvisited(found, visited, 1.0, 0.04) is None  # the total is not trusted
    assert unvisited(found, visited, None, 0.5) is None
    assert unvisited(found[:1], visited, 1.0, 0.5) is None
    assert unvisited([], visited, 1.0, 0.5) is None
    assert unvisited([(2000.0, (7,))], visited, 1.0, 0.5).share > 1e100


def sizes_of(model_prior, p):
    return model_prior.size_distribution(p)


def test_models_that_may_be_hidden():
    """Where the prior expects more variables than n/(2 log p), and nothing that was found is better than chance."""
    sizes = sizes_of(wv.FixedInclusion(size=5), 10_000)
    assert hidden_size(0.0, 50, 10_000, sizes) == 3  # 50/(2 · 9.2) = 2.7
    assert hidden_size(np.log(19.0), 50, 10_000, sizes) == 3
    assert hidden_size(np.log(21.0), 50, 10_000, sizes) is None  # more than chance
    assert hidden_size(np.nan, 50, 10_000, sizes) is None  # nobody knows
    assert hidden_size(0.0, 90, 10_000, sizes) == 5
    assert hidden_size(0.0, 120, 10_000, sizes) is None  # so many rows that each of six would stand out
    assert hidden_size(0.0, 50, 10_000, sizes_of(wv.FixedInclusion(size=1), 10_000)) is None  # not expected
    assert hidden_size(0.0, 10, 20, sizes_of(wv.FixedInclusion(size=5), 20)) is None  # few enough to see all
    assert hidden_size(-np.inf, 4, 1, np.array([0.1, 0.9])) is None


def test_evidence_under_chance():
    """Its expectation is 1 where y has nothing to do with any variable, so that 20 is exceeded in at most one case of twenty."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 8))
    settings = {"slab": wv.IndependentNormal(1.0), "model_prior": wv.FixedInclusion(size=4)}
    evidence = np.exp(
        [wv.exact(wv.Problem(X, rng.normal(size=12), **settings)).log_evidence for _ in range(300)]
    )
    error = evidence.std(ddof=1) / np.sqrt(len(evidence))
    assert abs(evidence.mean() - 1) < 4 * error
    assert (evidence > 20).mean() < 0.05


# --- errors that rest on little


def test_no_error_is_smaller_than_is_typical():
    """Of rare variables, those that came up too seldom have PIPs that are too small and errors that are far too small."""
    rng = np.random.default_rng(8)
    truth, draws, chains, p = 0.05, 15, 20, 10_000
    by_chain = rng.binomial(draws, truth, (chains, p)) / draws
    pip, mcse = by_chain.mean(axis=0), by_chain.std(axis=0, ddof=1) / np.sqrt(chains)
    better = typical_at_least(pip, mcse)
    assert (better >= mcse).all()
    off = np.abs(pip - truth)
    assert (off > 4 * mcse).sum() > 3 * (off > 4 * better).sum()
    claimed, actual = np.sqrt(np.mean(better**2)), np.sqrt(np.mean((pip - truth) ** 2))
    assert 0.8 < actual / claimed < 1.05


def test_errors_that_are_exact_or_unknown_stay():
    pip = np.array([0.2, 0.3, 0.25, 0.22, 0.28, 0.3, 0.3, 0.001])
    mcse = np.array([0.01, 0.01, 0.01, 0.01, 0.01, np.nan, 1e-7, 1e-5])
    better = typical_at_least(pip, mcse)
    np.testing.assert_array_equal(better[5:], mcse[5:])
    np.testing.assert_allclose(better[:5], mcse[:5], rtol=0.15)


def test_the_largest_of_uneven_variances_stands_for_all():
    means = np.array([[0.050, 0.3], [0.052, 0.3], [0.055, 0.3], [0.053, 0.3]])
    variances = np.array([[0.002**2, 1e-4], [0.002**2, 1.1e-4], [0.012**2, 0.9e-4], [0.003**2, 1e-4]])
    _, error = combine_replicates(means, variances, 31)
    np.testing.assert_allclose(error, [0.006, 0.005], rtol=1e-6)
    _, error = combine_replicates(means, variances, 4)  # a few chains: uneven by nature
    assert error[0] == pytest.approx(np.sqrt(variances[:, 0].mean() / 4))


def test_models_that_were_visited_in_other_proportions_than_their_probabilities(run):
    """All models were met; what the draws say differs from the exact ratios by many errors."""
    total = np.full(4, wv.exact(run.problem).log_evidence) - run.problem.model_prior.log_constant(8)
    known = replace(run, known_share=0.98, comparison=replace(run.comparison, log_total=total))
    assert known.converged
    off = known.pip.copy()
    j = int(np.argmin(np.abs(off - 0.4)))
    off[j] -= 0.08
    wrong = replace(known, pip=off, frequencies=off, replicate_pips=np.tile(off, (4, 1)), rao_blackwell=None)
    assert any("exact ratios" in reason or "weighted models" in reason for reason in doubts(wrong))


# --- in words


@pytest.fixture(scope="module")
def run():
    case = make_paired("g-prior", n=30, columns=8, seed=3)
    problem = case.problem(model_prior=wv.FixedInclusion(h=0.4))
    return wv.sample(problem, wv.AddDeleteSwap(), draws=20_000, seed=4, progress=False)


def test_a_good_run_draws_no_doubt(run):
    assert run.comparison.degrees > 0
    assert len(run.comparison.log_mass) == 4
    assert np.ptp(run.comparison.log_mass) < 0.1
    assert checks.against_itself(run, 0.05, False) == []
    assert run.converged


def test_each_reason_has_its_sentence(run):
    rng = np.random.default_rng(6)
    elsewhere = noise(rng)
    elsewhere[1] += 4
    pips = run.replicate_pips.copy()
    pips[:, 0] = [0.2, 0.5, 0.5, 0.25]
    comparison = run.comparison
    runs = {
        "replicates differ by more than their errors allow: mean model sizes": replace(run, trace=record(elsewhere, noise(rng))),
        "replicates differ by more than their errors allow: mean log posteriors": replace(run, trace=record(noise(rng), elsewhere)),
        "inclusion probabilities from 0.20 to 0.50": replace(
            run, replicate_pips=pips, replicate_variances=np.full(pips.shape, 0.01)
        ),
        "still on its way: the mean model size": replace(run, trace=record(noise(rng) + np.linspace(0, 4, 400), noise(rng))),
        "times the posterior mass that one of them takes for": replace(
            run, comparison=replace(comparison, log_total=comparison.log_total - [0, 0, 2, 0])
        ),
        "times the posterior mass of those that another visited": replace(
            run, comparison=replace(comparison, log_mass=comparison.log_mass - [0, 0, 2, 0])
        ),
    }  # fmt: skip
    for words, changed in runs.items():
        said = checks.against_itself(changed, 0.05, False)
        assert len(said) == 1, (words, said)
        assert words in said[0]
        assert "Use " in said[0] or "use " in said[0]
        assert not changed.converged
        assert words in changed.explain()


def test_a_group_that_was_found_and_not_visited(run):
    known = replace(run.comparison, known=np.full(4, 0.9), log_total=np.full(4, run.comparison.log_union))
    heavy = known.log_union - 1
    met, unmet = tuple(sorted(run.models.members[0])), (0, 1, 2, 3, 4, 5, 6, 7, 8)
    assert checks.against_itself(replace(run, comparison=known, found=((heavy, met),)), 0.05, False) == []
    problem = SimpleNamespace(
        names=[f"x{j}" for j in range(9)], n=30, p=9, max_size=9, model_prior=run.problem.model_prior
    )
    changed = replace(run, comparison=known, found=((heavy, met), (heavy, unmet)), problem=problem)
    (said,) = checks.against_itself(changed, 0.05, False)
    assert "around the one with x0, x1, x2, x3, x4, … that the run never visited, with 0.37 times" in said


def test_a_mode_that_is_not_found_is_feared():
    """Eight effects in blocks of near copies: the true model is 150 times as probable as the null model, and neither the search nor the
    run finds it."""
    data = wv.datasets.simulate_blocks(n=40, p=1100, block=20, correlation=0.9, effects=8, seed=409)
    y = data.y + 0.5 * data.X.to_numpy() @ data.truth.to_numpy()
    settings = {"slab": wv.IndependentNormal(100), "model_prior": wv.FixedInclusion(size=5)}
    hidden = wv.Problem(data.X, y, **settings)
    run = wv.sample(hidden, draws=4000, seed=1, progress=False)
    assert run.pip[data.truth.to_numpy() != 0].max() < 0.5
    assert any(
        "good models may be hidden: with 40 rows and 1,100 variables" in reason for reason in doubts(run)
    )
    assert not run.converged
    # where models that were met have little of the mass, their evidence says nothing
    assert not any("hidden" in reason for reason in doubts(replace(run, log_evidence=None)))
    # the same columns, and a response that two of them explain
    plain = wv.Problem(
        data.X,
        2 * data.X.iloc[:, 0] - data.X.iloc[:, 500] + 0.3 * data.y.to_numpy()[::-1] / data.y.std(),
        **settings,
    )
    run = wv.sample(plain, draws=4000, seed=1, progress=False)
    assert not any("hidden" in reason for reason in doubts(run))


def test_what_was_said_is_not_said_again(run):
    pips = run.replicate_pips.copy()
    pips[:, 0] = [0.0, 1.0, 1.0, 0.0]
    changed = replace(run, replicate_pips=pips)
    assert len([reason for reason in doubts(changed) if "replicates d" in reason]) == 1


def test_particles_are_no_sequence(run):
    values = noise(np.random.default_rng(7))
    values[1] += 4
    changed = replace(run, trace=record(values), comparison=replace(run.comparison, degrees=0))
    assert checks.against_itself(changed, 0.05, False) == []


def test_it_is_saved(run, tmp_path):
    run.save(tmp_path / "run.npz")
    again = wv.Posterior.load(tmp_path / "run.npz")
    np.testing.assert_array_equal(again.comparison.log_mass, run.comparison.log_mass)
    assert run.reweight(slab=wv.GPrior(10)).comparison is None
