"""to_arviz(): the numbers of the posterior in ArviZ's shapes, for both generations of ArviZ, and small for large p."""

import sys
import types

import arviz
import numpy as np
import pytest
import xarray

import whichvars as wv
from support.paired import make_paired
from whichvars.errors import ArgumentTypeError, DataError

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.errors.ConvergenceWarning")


@pytest.fixture(scope="module")
def posterior():
    case = make_paired()
    return wv.sample(
        case.problem(), wv.IndividualAdaptation(chains=2), draws=6000, replicates=3, seed=1, progress=False
    )


def as_version(monkeypatch, version: str) -> None:
    """Let the ArviZ that is installed pass for another: the newer one has no InferenceData to offer."""
    stand_in = types.ModuleType("arviz")
    stand_in.__version__ = version
    if version.startswith("0"):
        stand_in.InferenceData = arviz.InferenceData
    monkeypatch.setitem(sys.modules, "arviz", stand_in)


@pytest.mark.parametrize("version", ["0.20.0", "1.2.0"])
def test_what_is_in_it(posterior, monkeypatch, version):
    as_version(monkeypatch, version)
    found = posterior.to_arviz()
    assert isinstance(found, arviz.InferenceData if version[0] == "0" else xarray.DataTree)
    names = posterior.problem.names
    for replicate in range(3):
        mine = np.flatnonzero(posterior.trace["replicate"] == replicate)
        trace = posterior.trace.iloc[mine]
        models = posterior.trace_models.toarray()[mine]
        order = np.argsort(trace["iteration"].to_numpy() * 10 + trace["chain"].to_numpy())
        draws = found["posterior"].sel(chain=replicate)
        np.testing.assert_array_equal(draws["model_size"], trace["size"].to_numpy()[order])
        np.testing.assert_array_equal(draws["log_posterior"], trace["log_posterior"].to_numpy()[order])
        np.testing.assert_array_equal(draws["gamma"].sel(variable=names), models[order])
        statistics = found["sample_stats"].sel(chain=replicate)
        np.testing.assert_array_equal(statistics["lp"], draws["log_posterior"])
        assert statistics["chain_in_run"].to_numpy()[:4].tolist() == [0, 1, 0, 1]
        assert (np.diff(statistics["iteration"].to_numpy()) >= 0).all()
    assert found["posterior"]["gamma"].dims == ("chain", "draw", "variable")
    assert found["posterior"]["gamma"].dtype == bool
    np.testing.assert_array_equal(
        found["posterior"]["gamma"].sum("variable"), found["posterior"]["model_size"]
    )
    inclusion = found["inclusion"]
    np.testing.assert_array_equal(inclusion["probability"].sel(variable=names), posterior.pip)
    np.testing.assert_array_equal(inclusion["mcse"], posterior.mcse)
    np.testing.assert_array_equal(inclusion["probability_by_chain"], posterior.replicate_pips)
    constant = found["constant_data"]
    np.testing.assert_array_equal(
        constant["prior_inclusion"], posterior.problem.model_prior.inclusion(len(names))
    )
    assert found["posterior"].attrs["inference_library"] == "whichvars"


def test_arviz_takes_it(posterior, tmp_path):
    data = posterior.to_arviz()
    table = arviz.summary(data, var_names=["model_size", "gamma"], kind="diagnostics")
    assert list(table.index)[:2] == ["model_size", "gamma[x0]"]
    assert table["ess_bulk"].notna().any()
    assert float(arviz.rhat(data)["model_size"]) < 1.2
    data.to_netcdf(str(tmp_path / "run.nc"), engine="h5netcdf")
    again = arviz.from_netcdf(str(tmp_path / "run.nc"), engine="h5netcdf")
    np.testing.assert_array_equal(again["inclusion"]["probability"], posterior.pip)


def test_which_variables(posterior):
    names = posterior.problem.names
    best = sorted(np.argsort(-posterior.pip)[:2].tolist())

    def chosen(variables):
        return posterior.to_arviz(variables)["posterior"]["variable"].to_numpy().tolist()

    assert chosen(2) == [names[j] for j in best]
    assert chosen(["x5", "x1"]) == ["x1", "x5"]
    assert chosen(1000) == chosen(None) == names
    for wrong, error, message in (
        (0, DataError, "at least 1"),
        ([], DataError, "empty"),
        (["nope"], DataError, "no column 'nope'"),
        (True, ArgumentTypeError, "names or a number"),
    ):
        with pytest.raises(error, match=message):
            posterior.to_arviz(wrong)


def test_twenty_thousand_variables_are_no_problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 20_000))
    run = wv.sample(
        wv.Problem(X, X[:, 7] * 3 + rng.normal(size=30)), wv.AddDeleteSwap(), draws=2000, replicates=2, progress=False
    )  # fmt: skip
    data = run.to_arviz()
    assert data["posterior"].sizes["variable"] == 200
    assert "x7" in data["posterior"]["variable"]
    assert data["inclusion"].sizes["variable"] == 20_000
    assert sum(data[group].nbytes for group in data.groups()) < 10e6


def test_particles(posterior):
    run = wv.sample(
        posterior.problem, wv.SequentialMonteCarlo(particles=100, steps=3), replicates=2, progress=False
    )
    found = run.to_arviz()["posterior"]
    np.testing.assert_allclose(found["gamma"].mean(["chain", "draw"]), run.frequencies)


def test_unequal_records_are_cut_to_the_shortest(posterior):
    from dataclasses import replace

    rows = np.arange(len(posterior.trace) - 10)
    short = replace(posterior, trace=posterior.trace.iloc[rows], trace_models=posterior.trace_models[rows])
    full = posterior.to_arviz()["posterior"].sizes["draw"]
    assert short.to_arviz()["posterior"].sizes == {"chain": 3, "draw": full - 10, "variable": 7}


def test_exact_posteriors_have_no_draws(posterior):
    with pytest.raises(DataError, match=r"no chains.*draw\(\)"):
        wv.exact(posterior.problem).to_arviz()


def test_without_arviz(posterior, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ModuleNotFoundError, match=r"whichvars\[arviz\]"):
        posterior.to_arviz()
