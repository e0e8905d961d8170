"""Posteriors that earlier versions saved are read, and say what they said then."""

import json
from pathlib import Path

import numpy as np

import whichvars as wv

HERE = Path(__file__).parent


def test_a_posterior_of_commit_b42f46d():
    """Its models have no weights by replicate; errors of averages then come from its thinned record."""
    old = wv.Posterior.load(HERE / "posterior_b42f46d.npz")
    said = json.loads((HERE / "posterior_b42f46d.json").read_text())
    np.testing.assert_array_equal(old.pip, said["pip"])
    np.testing.assert_array_equal(old.mcse, np.array(said["mcse"], float))
    np.testing.assert_allclose(old.coefficients(None)["mean"], said["mean"], rtol=1e-12)
    np.testing.assert_allclose(old.top_models(3)["probability"], said["probability"], rtol=1e-12)
    assert old.kept.by_replicate is None
    assert np.isnan(old.coefficients(None)["mean_mcse"]).all()
    assert np.isnan(old.top_models(3)["mcse"]).all()
    assert np.isfinite(old.given(include=0).mcse[1:]).any()
    assert np.isfinite(old.reweight(model_prior=wv.FixedInclusion(h=0.4)).mcse).any()
    assert isinstance(old.converged, bool)
    assert old.explain()
    assert repr(old)
