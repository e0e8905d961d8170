"""Under a constant likelihood (inverse temperature 0) a sampler gives back the prior."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from statistical.samplers_under_test import IN_TURN, SAMPLERS
from support.cases import PRIORS, Case, data, priors, problem, truth
from support.scores import AtTemperature, scores
from whichvars.samplers.contract import Sampler

DRAWS = {"quick": 10_000, "long": 30_000}  # ``make test-slow`` has long runs, of every case
TEMPERED = [name for name, tested in SAMPLERS.items() if tested.tempers]
DATA = [("groups", "independent"), ("plain", "g"), ("plain", "independent")]
HEREDITY = [Case("heredity-groups", "independent", prior) for prior in ("fixed", "beta-binomial")]
ONCE = [Case(*DATA[i % len(DATA)], prior) for i, prior in enumerate(PRIORS)]  # every prior
EVERYTHING = [Case(*d, prior) for d in DATA for prior in PRIORS] + HEREDITY


def cases_of(name: str, quick: bool) -> list[Case]:
    if SAMPLERS[name].cases == "few":
        return ONCE[::2]
    return ONCE + HEREDITY[1:] if quick and SAMPLERS[name].quick == "few" else EVERYTHING


TESTED = [
    # those in turn differ from others in what has nothing to do with the prior
    *(pytest.param(n, cases_of(n, quick=True), "quick", id=n) for n in TEMPERED if n not in IN_TURN),
    *(
        pytest.param(name, cases_of(name, quick=False), "long", id=f"{name}-all", marks=pytest.mark.slow)
        for name in TEMPERED
    ),
]


@pytest.mark.parametrize(("name", "cases", "length"), TESTED)
def test_prior_comes_back(name: str, cases: list[Case], length: str) -> None:
    """Each case within its error, and all of them together (a case's scores move together, cases do not)."""
    sampler: Sampler = AtTemperature(SAMPLERS[name].settings, 0.0)  # type: ignore[assignment]
    tested, found = SAMPLERS[name], {}
    draws = (tested.quick_draws if length == "quick" else None) or tested.draws or DRAWS[length]
    for case in cases:
        found[case] = scores(
            problem(case),
            sampler,
            truth(case, temper=0.0),
            draws=2 * draws,
            runs=tested.runs_of(length),
            start="prior",  # modes say nothing where there are no data
            seed=zlib.crc32(f"prior {name} {case.id}".encode()) % 10**6,
            conditional=False,  # conditional probabilities know no temperature
        )
        # some thousand scores in all, of errors from short adaptive runs, which are too small by a seventh or so
        assert np.abs(found[case].all).max() < 5.2, (case, found[case])
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
