"""VariableSelector: scikit-learn's own checks, and that it says what the parts say."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import whichvars as wv
from support.paired import make_paired
from whichvars.errors import DataError, DataWarning

PRECISIONS = "weights are precisions of the rows, not numbers of repetitions"
UNITS = "columns are in units of their standard deviations, which weights do not change"


def expected(estimator):
    return dict.fromkeys(
        ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
        PRECISIONS if isinstance(estimator, wv.VariableSelector) else UNITS,
    )


# one of the checks has 30 columns and 15 rows; with a largest size all models are fitted in a moment
@parametrize_with_checks(
    [wv.VariableSelector(max_size=3)],
    expected_failed_checks=expected,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.rest
@parametrize_with_checks(
    [
        wv.VariableSelectorClassifier(max_size=3),
        wv.VariableSelectorClassifier(max_size=3, family="probit"),
    ],
    expected_failed_checks=expected,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_of_classes(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def crime():
    return wv.datasets.load_uscrime()


def test_small_problems_are_exact_and_say_what_the_parts_say(crime):
    selector = wv.VariableSelector(slab=wv.GPrior(47), prior_size=4).fit(crime.X, crime.y)
    posterior = wv.exact(
        wv.Problem(crime.X, crime.y, slab=wv.GPrior(47), model_prior=wv.BetaBinomial(size=4))
    )
    np.testing.assert_array_equal(selector.inclusion_probabilities_, posterior.inclusion_probabilities)
    assert not selector.inclusion_mcse_.any()
    table = posterior.coefficients()["mean"]
    assert selector.intercept_ == pytest.approx(table["(intercept)"])
    np.testing.assert_allclose(selector.coefficients_, table[crime.X.columns])
    np.testing.assert_allclose(
        selector.predict(crime.X), selector.intercept_ + crime.X @ selector.coefficients_, rtol=1e-9
    )
    for one, other in zip(
        selector.predict(crime.X, return_std=True, interval=0.8),
        posterior.predict(crime.X, return_std=True, interval=0.8),
    ):
        np.testing.assert_allclose(one, other)
    assert selector.n_iter_ == 2**15
    assert selector.feature_names_in_.tolist() == list(crime.X.columns)
    chosen = crime.X.columns[posterior.inclusion_probabilities >= 0.5]
    assert selector.get_feature_names_out().tolist() == list(chosen)
    np.testing.assert_array_equal(selector.transform(crime.X), crime.X[chosen])


def test_larger_problems_are_sampled_and_repeat():
    case = make_paired(n=60, columns=18)
    fits = [wv.VariableSelector(draws=2000, random_state=4).fit(case.X, case.y) for _ in range(2)]
    posterior = wv.sample(wv.Problem(case.X, case.y), draws=2000, seed=4, progress=False)
    for fit in fits:
        np.testing.assert_array_equal(fit.inclusion_probabilities_, posterior.pip)
        np.testing.assert_array_equal(fit.coefficients_, fits[0].coefficients_)
        np.testing.assert_array_equal(fit.inclusion_mcse_, posterior.mcse)
    seeded = [
        wv.VariableSelector(draws=500, random_state=np.random.RandomState(1))
        .fit(case.X, case.y)
        .coefficients_
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*seeded)


@pytest.mark.filterwarnings("ignore::whichvars.errors.ConvergenceWarning")
def test_other_samplers():
    case = make_paired()
    smc = wv.SequentialMonteCarlo(particles=200, steps=5)
    exact = wv.VariableSelector(sampler="exact").fit(case.X, case.y)
    for sampler in (smc, wv.AddDeleteSwap()):
        selector = wv.VariableSelector(sampler=sampler, draws=20_000).fit(case.X, case.y)
        np.testing.assert_allclose(
            selector.inclusion_probabilities_, exact.inclusion_probabilities_, atol=0.15
        )


def test_columns_left_out_always_in_and_grouped():
    case = make_paired(columns=6)
    X = case.X.copy()
    X[:, 2] = 7.0
    selector = wv.VariableSelector(always_include=[5], groups={"pair": [0, 3]})
    with pytest.warns(DataWarning, match="left out 1 column"):
        selector.fit(X, case.y)
    pips = selector.inclusion_probabilities_
    assert (pips[2], pips[5]) == (0, 1)
    assert pips[0] == pips[3]
    assert selector.coefficients_[2] == 0 != selector.coefficients_[5]
    assert selector.get_support()[5]
    np.testing.assert_allclose(selector.predict(X), selector.intercept_ + X @ selector.coefficients_)


def test_sample_weights_are_precisions():
    case = make_paired(weighted=True)
    selector = wv.VariableSelector().fit(case.X, case.y, sample_weight=case.weights)
    posterior = wv.exact(wv.Problem(case.X, case.y, weights=case.weights))
    np.testing.assert_array_equal(selector.inclusion_probabilities_, posterior.pip)


def test_works_in_pipelines_and_searches(crime):
    pipe = make_pipeline(StandardScaler(), wv.VariableSelector(threshold=0.3), LinearRegression())
    search = GridSearchCV(
        pipe, {"variableselector__prior_size": [2, 6], "variableselector__threshold": [0.2]}, cv=3
    )
    X = crime.X.iloc[:, :8]
    search.fit(X, crime.y)
    assert search.predict(X).shape == (47,)


def test_copies(crime):
    X = crime.X.iloc[:, :6]
    selector = wv.VariableSelector(slab=wv.HyperG(), prior_size=2).fit(X, crime.y)
    again = pickle.loads(pickle.dumps(selector))
    np.testing.assert_array_equal(again.predict(X), selector.predict(X))
    assert clone(selector).get_params() == selector.get_params()


def test_names_of_polars(crime):
    X = crime.X.iloc[:, :6]
    selector = wv.VariableSelector().fit(pl.from_pandas(X), crime.y)
    assert selector.feature_names_in_.tolist() == list(X.columns)
    np.testing.assert_array_equal(selector.coefficients_, wv.VariableSelector().fit(X, crime.y).coefficients_)


def test_two_priors_are_one_too_many(crime):
    selector = wv.VariableSelector(prior_size=3, model_prior=wv.FixedInclusion(h=0.5))
    with pytest.raises(DataError, match="not both"):
        selector.fit(crime.X, crime.y)


def test_predict_needs_the_same_columns(crime):
    selector = wv.VariableSelector().fit(crime.X.iloc[:, :5], crime.y)
    with pytest.raises(ValueError, match="feature names"):
        selector.predict(pd.DataFrame(crime.X.iloc[:, 1:6]))


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix])
def test_sparse_matrices_are_the_same_as_dense_ones(form):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 5)) * (rng.random((80, 5)) < 0.4)
    eta = 1.5 * X[:, 1] - X[:, 3]
    held = form(X)
    for estimator, y in (
        (wv.VariableSelector(), eta + rng.normal(size=80)),
        (wv.VariableSelector(family="poisson"), rng.poisson(np.exp(eta / 2))),
        (wv.VariableSelectorClassifier(), np.where(eta + rng.normal(size=80) > 0, "yes", "no")),
    ):
        dense = clone(estimator).fit(X, y)
        fitted = clone(estimator).fit(held, y)
        np.testing.assert_allclose(fitted.inclusion_probabilities_, dense.inclusion_probabilities_, atol=1e-8)
        np.testing.assert_allclose(fitted.coefficients_, dense.coefficients_, atol=1e-7)
        predict = "predict_proba" if hasattr(fitted, "predict_proba") else "predict"
        np.testing.assert_allclose(getattr(fitted, predict)(held), getattr(dense, predict)(X), atol=1e-7)
        assert sparse.issparse(fitted.transform(held))
