"""Published answers that can only be sampled."""

from pathlib import Path

import numpy as np
import pytest

import whichvars as wv

GROWTH = {
    "GDP60": 0.999, "Confucian": 0.988, "LifeExp": 0.933, "EquipInv": 0.924, "SubSahara": 0.746, "Muslim": 0.635,
    "YrsOpen": 0.501, "RuleofLaw": 0.500, "EcoOrg": 0.466, "Mining": 0.459, "Protestants": 0.455,
}  # fmt: skip


def test_growth_inclusion_probabilities():
    """Those of the R package BMS 0.3.5, 3·10⁶ draws: .015 is about four errors of both runs together."""
    data = wv.datasets.load_growth()
    problem = wv.Problem(data.X, data.y, slab=wv.GPrior(1681), model_prior=wv.FixedInclusion(h=0.5))
    posterior = wv.sample(problem, wv.AddDeleteSwap(), draws=1_000_000, seed=1, progress=False)
    assert posterior.converged
    found = posterior.inclusion_probabilities[list(GROWTH)]
    np.testing.assert_allclose(found, list(GROWTH.values()), rtol=0, atol=0.015)
    assert posterior.mean_size == pytest.approx(10.45, abs=0.05)
    most = posterior.inclusion_probabilities.sort_values(ascending=False).index
    assert set(most[:5]) == set(list(GROWTH)[:5])


FINE_MAPPING = Path(__file__).parents[2] / "benchmarks" / "data" / "n3finemapping.npz"


@pytest.mark.filterwarnings("ignore:perfectly correlated:whichvars.errors.DataWarning")
def test_fine_mapping_clusters():
    """Truth: 403, 653 and 773, counted from 1."""
    with np.load(FINE_MAPPING) as data:
        X, y = data["X"], data["Y"][:, 0]
    problem = wv.Problem(
        X,
        y,
        slab=wv.IndependentNormal(1),
        model_prior=wv.FixedInclusion(h=5 / 1001),
        names=[str(i) for i in range(1, 1002)],
    )
    posterior = wv.sample(problem, wv.AddDeleteSwap(), draws=500_000, seed=1, progress=False)
    clusters = posterior.clusters(level=0.95)
    found = [set(v) for v in clusters["variables"]]
    assert {"653"} in found
    assert {"773", "777"} in found
    assert len(found) == 3
    third = next(v for v in found if "403" in v)
    assert third <= {str(i) for i in range(362, 416)}
    assert (clusters["purity"] > 0.8).all()
    published = {"653": 0.999, "773": 0.584, "777": 0.415, "381": 0.109, "386": 0.109, "403": 0.031}
    error = posterior.inclusion_probabilities[list(published)] - list(published.values())
    assert (error.abs() < 4 * posterior.inclusion_mcse[list(published)].fillna(0) + 0.002).all()
    assert posterior.mean_size == pytest.approx(3.56, abs=0.03)
    assert posterior.pip[361:415].sum() == pytest.approx(1.016, abs=0.02)
