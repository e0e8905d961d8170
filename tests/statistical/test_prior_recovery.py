"""Under a constant likelihood (inverse temperature 0) a sampler gives back the prior."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from statistical.samplers_under_test import SAMPLERS
from support.cases import PRIORS, Case, data, priors, problem, truth
from support.scores import AtTemperature, scores
from whichvars.samplers.run import Sampler

DRAWS = 30_000
TEMPERED = [name for name, tested in SAMPLERS.items() if tested.tempers]


@pytest.mark.parametrize("name", TEMPERED)
def test_prior_comes_back(name: str) -> None:
    """Each case within its error, and all of them together (a case's scores move together, cases do not)."""
    sampler: Sampler = AtTemperature(SAMPLERS[name].settings, 0.0)  # type: ignore[assignment]
    settings = [("independent", "plain"), ("g", "plain"), ("independent", "groups")]
    few = SAMPLERS[name].cases == "few"
    if few:
        settings = settings[2:]
    found = {}
    for prior in PRIORS[::2] if few else PRIORS:
        heredity = (
            [("independent", "heredity-groups")] if prior in ("fixed", "beta-binomial") and not few else []
        )
        for slab, dataset in settings + heredity:
            case = Case(dataset, slab, prior)
            found[case] = scores(
                problem(case),
                sampler,
                truth(case, temper=0.0),
                draws=SAMPLERS[name].draws or DRAWS,
                start="mixed",
                seed=zlib.crc32(f"prior {name} {case.id}".encode()) % 10**6,
                conditional=False,  # conditional probabilities know no temperature
            )
            assert np.abs(found[case].all).max() < 4.5, (case, found[case])
    for part in ("pips", "sizes", "models"):
        together = np.concatenate([getattr(f, part) for f in found.values()])
        assert np.sqrt(np.mean(together**2)) < 0.1 + SAMPLERS[name].rms, (part, found)
    assert abs(np.mean([f.mean_size for f in found.values()])) < 3.5 / np.sqrt(len(found)), found


@pytest.mark.parametrize("prior", PRIORS)
def test_the_truth_is_the_prior(prior: str) -> None:
    """The oracle at temper = 0 against the priors' own formulas."""
    case = Case("plain", "independent", prior)
    p = data("plain").p
    model_prior, _, max_size = priors(p)[prior]
    exact = truth(case, temper=0.0)
    np.testing.assert_allclose(
        exact.size_distribution, model_prior.size_distribution(p, max_size), atol=1e-12
    )
    if max_size is None:
        np.testing.assert_allclose(exact.pips, model_prior.inclusion(p), atol=1e-12)
