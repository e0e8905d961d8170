"""Priors from annotations: log odds that are linear in them."""

import numpy as np
import pandas as pd
import pytest

import whichvars as wv

TABLE = pd.DataFrame({"enhancer": [0, 1, 1, 0, 1], "distance": [0.5, -1.0, 0.0, 2.0, 1.5]})
COEFFICIENTS = {"distance": -0.4, "enhancer": 1.2}


def test_log_odds_are_linear_in_the_annotations() -> None:
    h = wv.annotated_prior(TABLE, COEFFICIENTS, intercept=-2.0).inclusion(5)
    odds = np.exp(-2.0 + 1.2 * TABLE["enhancer"] - 0.4 * TABLE["distance"]).to_numpy()
    assert h == pytest.approx(odds / (1 + odds), rel=1e-12)
    # coefficients in the order of the columns
    for given in ([1.2, -0.4], np.array([1.2, -0.4]), pd.Series(COEFFICIENTS)):
        assert wv.annotated_prior(TABLE, given, intercept=-2.0).inclusion(5) == pytest.approx(h, rel=1e-12)
    assert wv.annotated_prior(TABLE.to_numpy(), [1.2, -0.4], intercept=-2.0).inclusion(5) == pytest.approx(h)


@pytest.mark.parametrize("size", [0.01, 1.0, 4.9])
def test_the_expected_number_of_variables_is_that_asked_for(size: float) -> None:
    h = wv.annotated_prior(TABLE, COEFFICIENTS, size=size).inclusion(5)
    assert h.sum() == pytest.approx(size, rel=1e-9)
    log_odds = np.log(h / (1 - h)) - TABLE.to_numpy() @ [1.2, -0.4]
    assert np.ptp(log_odds) == pytest.approx(0.0, abs=1e-9)


def test_probabilities_are_never_0_or_1() -> None:
    h = wv.annotated_prior(TABLE, [1000.0, 0.0], intercept=-500.0).inclusion(5)
    assert (h > 0).all()
    assert (h < 1).all()


def test_a_column_that_is_left_out_loses_its_annotation() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 5))
    X[:, 1] = 3.0
    prior = wv.annotated_prior(TABLE, COEFFICIENTS, size=1)
    with pytest.warns(wv.DataWarning, match="left out 1 column"):
        problem = wv.Problem(X, rng.normal(size=40), model_prior=prior)
    assert problem.model_prior.inclusion(4) == pytest.approx(np.delete(prior.inclusion(5), 1))


@pytest.mark.parametrize(
    ("enrichment", "settings", "message"),
    [
        ({"enhancer": 1.0}, {"size": 1}, "no coefficient of the annotation 'distance'"),
        ({**COEFFICIENTS, "enhancers": 1.0}, {"size": 1}, "no annotation 'enhancers'; did you mean 'enhancer'"),
        ([1.0], {"size": 1}, "1 coefficients but there are 2 annotations"),
        ([1.0, np.nan], {"size": 1}, "finite"),
        (COEFFICIENTS, {}, "either size"),
        (COEFFICIENTS, {"size": 1, "intercept": 0.0}, "either size"),
        (COEFFICIENTS, {"size": 5}, "between 0 and the number of variables, 5"),
        (COEFFICIENTS, {"intercept": np.inf}, "intercept must be a finite number"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(enrichment: object, settings: dict[str, float], message: str) -> None:
    with pytest.raises(wv.DataError, match=message):
        wv.annotated_prior(TABLE, enrichment, **settings)
    with pytest.raises(wv.DataError, match="annotations column 'distance' is missing"):
        wv.annotated_prior(TABLE.replace(2.0, np.nan), COEFFICIENTS, size=1)
