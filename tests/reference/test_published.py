"""Numbers of the paper and of other packages that exact computation must meet."""

import numpy as np
import pytest

import whichvars as wv
from support.kernels import chain_at
from whichvars._kernels.chain import LOG_MARGINAL, LOG_PRIOR

USCRIME = {
    # equal to BAS 2.0.2 within 5e-7
    "g-prior, g = 47": (
        wv.GPrior(47),
        ".8504 .2307 .9776 .6655 .4216 .1567 .1603 .3302 .6793 .2083 .5996 .3125 .9975 .8963 .3333",
    ),
    "independent, g = 100": (
        wv.IndependentNormal(100),
        ".4263 .0581 .7088 .6673 .4148 .0333 .0557 .0917 .1851 .0262 .1195 .1331 .9826 .3487 .0403",
    ),
}


@pytest.mark.parametrize("name", USCRIME)
def test_uscrime_inclusion_probabilities(name):
    slab, published = USCRIME[name]
    data = wv.datasets.load_uscrime()
    posterior = wv.exact(wv.Problem(data.X, data.y, slab=slab, model_prior=wv.FixedInclusion(h=0.5)))
    assert " ".join(posterior.problem.names) == "M So Ed Po1 Po2 LF M.F Pop NW U1 U2 GDP Ineq Prob Time"
    expected = np.array(published.split(), float)
    np.testing.assert_allclose(posterior.pip, expected, rtol=0, atol=5.0001e-5)
    if name.startswith("independent"):
        assert posterior.mean_size == pytest.approx(4.2915, abs=5e-5)


def _boston_models() -> list[tuple[set[int], float]]:
    """The paper's table of models in its own numbering (from 1), with exact ratios scaled to .243."""

    def model(text: str) -> set[int]:
        return set(map(int, text.split()))

    first = model("5 6 8 13 24 29 49 55 58 67 78 86 91 97 101")
    second = first - {49}
    fifth = model("5 6 8 9 10 13 24 29 49 55 78 86 91 97 101")
    sixth = model("5 6 8 13 29 49 50 55 59 78 86 91 97 101")
    eighth = model("5 6 8 13 14 49 50 55 59 78 86 91 97 101")
    return [
        (first, 0.243),
        (second, 0.146),
        (model("5 6 8 11 12 13 29 49 50 55 59 61 86 97 101"), 0.017),
        (first | {103}, 0.023),
        (fifth, 0.006),
        (sixth, 0.025),
        (sixth | {58}, 0.020),
        (eighth, 0.016),
        (sixth | {54}, 0.017),
        (second | {104}, 0.013),
        (eighth | {24}, 0.014),
        (fifth - {49}, 0.004),
        (sixth | {67}, 0.016),
    ]


@pytest.mark.filterwarnings("ignore:.*perfectly correlated:whichvars.errors.DataWarning")
@pytest.mark.parametrize("engine", ["gram", "columns"])
def test_boston_model_ratios(engine):
    data = wv.datasets.load_boston()
    problem = wv.Problem(
        data.X,
        data.y,
        slab=wv.IndependentNormal(100),
        model_prior=wv.FixedInclusion(size=5),
        scale="none",
        engine=engine,
    )
    log_posterior = []
    for model, _ in _boston_models():
        chain = chain_at(problem, sorted(number - 1 for number in model))
        assert chain is not None
        log_posterior.append(chain.floats[LOG_MARGINAL] + chain.floats[LOG_PRIOR])
    ratios = 0.243 * np.exp(np.array(log_posterior) - log_posterior[0])
    np.testing.assert_allclose(ratios, [value for _, value in _boston_models()], rtol=0, atol=1e-3)
