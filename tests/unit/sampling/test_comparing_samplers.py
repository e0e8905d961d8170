"""Samplers compared on one problem: the numbers of the table, from the posteriors behind it."""

import numpy as np
import pytest
from matplotlib import pyplot

import whichvars as wv
from support.paired import make_paired
from whichvars.errors import ArgumentTypeError, DataError


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def problem():
    return make_paired("g-prior", n=30, columns=7).problem()


@pytest.fixture(scope="module")
def compared(problem):
    samplers = [
        wv.AddDeleteSwap(),
        wv.Hybrid(),
        wv.SequentialMonteCarlo(particles=200),
        wv.AddDeleteSwap(swap=0.1),
    ]
    return wv.compare_samplers(problem, samplers, return_posteriors=True, draws=4000, seed=3)


def test_the_table(problem, compared):
    table, posteriors = compared
    assert list(table.index) == ["AddDeleteSwap", "Hybrid", "SequentialMonteCarlo", "AddDeleteSwap 2"]
    truth = wv.exact(problem).pip
    for name, posterior in posteriors.items():
        row, pips = table.loc[name], posterior.replicate_pips
        squared = np.mean([(one - truth) @ (one - truth) / len(truth) for one in pips])
        assert row["work"] == pytest.approx(squared * posterior.cpu_seconds / len(pips))
        assert row["rmse"] == pytest.approx(np.sqrt(np.mean((posterior.pip - truth) ** 2)))
        assert row["speed"] == pytest.approx(table["work"].iloc[0] / row["work"])
        assert row["largest_mcse"] == pytest.approx(np.nanmax(posterior.mcse))
        assert row["cpu_seconds"] == posterior.cpu_seconds
        assert row["iterations"] == posterior.iterations
        assert row["converged"] == posterior.converged
    rates = [learned["mutation_rate"] for learned in posteriors["AddDeleteSwap"].adaptation]
    assert table.loc["AddDeleteSwap", "mutation_rate"] == pytest.approx(np.mean(rates))
    assert np.isnan(table.loc["Hybrid", "mutation_rate"])


def test_without_the_truth_replicates_are_compared(problem, monkeypatch):
    monkeypatch.setattr("whichvars.sampling.comparing_samplers.MOST_MODELS", 10)
    table, posteriors = wv.compare_samplers(
        problem, {"mine": wv.AddDeleteSwap()}, return_posteriors=True, draws=2000, replicates=3
    )
    posterior = posteriors["mine"]
    spread = posterior.replicate_pips.var(axis=0, ddof=1).mean()
    assert table.loc["mine", "work"] == pytest.approx(spread * posterior.cpu_seconds / 3)
    assert np.isnan(table.loc["mine", "rmse"])


def test_a_truth_of_ones_own(problem):
    truth = np.full(7, 0.5)
    settings = {"draws": 1000, "seed": 1}
    one = wv.compare_samplers(problem, wv.AddDeleteSwap(), truth, **settings)
    posterior = wv.exact(problem)
    other = wv.compare_samplers(problem, wv.AddDeleteSwap(), posterior, **settings)
    assert one["rmse"].item() > 5 * other["rmse"].item()
    with pytest.raises(DataError, match="truth has 3 values, but there are 7 variables"):
        wv.compare_samplers(problem, wv.AddDeleteSwap(), truth[:3])


def test_what_is_refused(problem):
    with pytest.raises(DataError, match="samplers is empty"):
        wv.compare_samplers(problem, [])
    with pytest.raises(DataError, match="replicates must be at least 2"):
        wv.compare_samplers(problem, [wv.Hybrid()], replicates=1)
    with pytest.raises(ArgumentTypeError, match="sampler"):
        wv.compare_samplers(problem, ["quick"])


def test_picture(compared):
    table, _ = compared
    ax = wv.plot_samplers(table)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(table.index)
    ends = sorted(bar.get_x() + bar.get_width() for bar in ax.patches)
    np.testing.assert_allclose(ends, sorted(table["work"]))
    with pytest.raises(ArgumentTypeError, match="compare_samplers"):
        wv.plot_samplers(table.drop(columns="work"))
