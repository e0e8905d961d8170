"""VariableSelectorClassifier, and VariableSelector for counts: they say what the parts say, with labels of any type."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import whichvars as wv
from whichvars.errors import ArgumentTypeError, DataError

RNG = np.random.default_rng(2)
N = 60
X = pd.DataFrame(RNG.normal(size=(N, 4)), columns=list("abcd"))
ETA = 1.5 * X["a"] - X["b"]
YES = (RNG.uniform(size=N) < 1 / (1 + np.exp(-ETA))).to_numpy()
YEARS = RNG.uniform(1, 9, N)
VISITS = RNG.poisson(YEARS * np.exp(0.4 * X["c"] - 1))
TRIALS = RNG.integers(1, 9, N)
HITS = RNG.binomial(TRIALS, 1 / (1 + np.exp(-ETA)))
TABLE = X.assign(
    sold=np.where(YES, "yes", "no"),
    years=YEARS,
    visits=VISITS,
    hits=HITS,
    misses=TRIALS - HITS,
    tries=TRIALS,
)


@pytest.fixture(scope="module")
def classifier():
    return wv.VariableSelectorClassifier().fit(X, TABLE["sold"])


# --- classes


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_it_says_what_the_parts_say(family):
    fitted = wv.VariableSelectorClassifier(family=family, slab=wv.GPrior(20), prior_size=1).fit(X, YES)
    problem = wv.Problem(X, YES, family=family, slab=wv.GPrior(20), model_prior=wv.BetaBinomial(size=1))
    posterior = wv.exact(problem)
    np.testing.assert_array_equal(fitted.inclusion_probabilities_, posterior.pip)
    assert fitted.classes_.tolist() == [False, True]
    probability = posterior.predict(X)
    np.testing.assert_array_equal(fitted.predict_proba(X), np.column_stack([1 - probability, probability]))
    np.testing.assert_array_equal(fitted.predict(X), probability > 0.5)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), fitted.predict_proba(X))
    assert (fitted.coefficients_.shape, fitted.intercept_.shape) == ((1, 4), (1,))
    np.testing.assert_allclose(fitted.decision_function(X), fitted.intercept_ + X @ fitted.coefficients_[0])
    np.testing.assert_allclose(fitted.coefficients_[0], posterior.coefficients()["mean"].iloc[1:])
    assert fitted.score(X, YES) == np.mean(fitted.predict(X) == YES)
    np.testing.assert_array_equal(fitted.transform(X), X.loc[:, posterior.pip >= 0.5])


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.where(YES, "yes", "no"), ["no", "yes"]),
        (pd.Series(np.where(YES, "yes", "no")).astype("category"), ["no", "yes"]),
        (pl.Series(np.where(YES, "yes", "no").tolist()), ["no", "yes"]),
        (np.where(YES, "yes", "no").astype(object), ["no", "yes"]),
        (YES.tolist(), [False, True]),
        (YES * 3 - 5, [-5, -2]),
        (np.where(YES, 2.0, 1.0), [1.0, 2.0]),
        (pd.array(YES, dtype="boolean"), [False, True]),
    ],
)
def test_labels_of_any_type(classifier, y, classes):
    fitted = wv.VariableSelectorClassifier().fit(X, y)
    assert fitted.classes_.tolist() == classes
    assert fitted.posterior_.problem.classes == tuple(classes)
    np.testing.assert_array_equal(fitted.predict_proba(X), classifier.predict_proba(X))
    assert set(np.asarray(fitted.predict(X)).tolist()) <= set(classes)


def test_more_or_fewer_classes_are_refused():
    three = np.array(["a", "b", "c"])[np.arange(N) % 3]
    with pytest.raises(
        DataError,
        match=r"Only binary classification is supported.*3 classes \('a', 'b', 'c'\).*OneVsRestClassifier",
    ):
        wv.VariableSelectorClassifier().fit(X, three)
    one_by_one = OneVsRestClassifier(wv.VariableSelectorClassifier()).fit(X, three)  # what the message says
    assert one_by_one.predict_proba(X).shape == (N, 3)
    with pytest.raises(DataError, match="y is 'a' in every row; both classes are needed"):
        wv.VariableSelectorClassifier().fit(X, ["a"] * N)
    with pytest.raises(ValueError, match="Unknown label type"):
        wv.VariableSelectorClassifier().fit(X, ETA)


def test_class_weights_multiply_likelihoods(classifier):
    weighted = wv.VariableSelectorClassifier(class_weight={"no": 1.0, "yes": 2.5}).fit(X, TABLE["sold"])
    posterior = wv.exact(wv.Problem(X, YES, family="logistic", weights=np.where(YES, 2.5, 1.0)))
    np.testing.assert_array_equal(weighted.inclusion_probabilities_, posterior.pip)
    assert weighted.predict_proba(X)[:, 1].mean() > classifier.predict_proba(X)[:, 1].mean() + 0.05
    rows = np.linspace(0.5, 2, N)
    both = wv.VariableSelectorClassifier(class_weight="balanced").fit(X, TABLE["sold"], sample_weight=rows)
    share = N / (2 * np.array([(~YES).sum(), YES.sum()]))
    posterior = wv.exact(wv.Problem(X, YES, family="logistic", weights=rows * share[YES.astype(int)]))
    np.testing.assert_array_equal(both.inclusion_probabilities_, posterior.pip)
    with pytest.raises(DataError, match="class_weight has the class 'maybe', but y has only 'no', 'yes'"):
        wv.VariableSelectorClassifier(class_weight={"maybe": 2}).fit(X, TABLE["sold"])


def test_it_works_in_pipelines_searches_and_copies(classifier):
    pipe = make_pipeline(StandardScaler(), wv.VariableSelectorClassifier())
    search = GridSearchCV(
        pipe, {"variableselectorclassifier__prior_size": [1, 2]}, cv=2, scoring="neg_log_loss"
    )
    assert search.fit(X, TABLE["sold"]).predict(X).shape == (N,)
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict(X), classifier.predict(X))
    assert clone(classifier).get_params() == classifier.get_params()


def test_offsets_of_classes():
    offset = np.linspace(-1, 1, N)
    fitted = wv.VariableSelectorClassifier().fit(X, YES, offset=offset)
    posterior = wv.exact(wv.Problem(X, YES, family="logistic", offset=offset))
    np.testing.assert_array_equal(
        fitted.predict_proba(X, offset=offset)[:, 1], posterior.predict(X, offset=offset)
    )
    np.testing.assert_allclose(
        fitted.decision_function(X, offset), fitted.intercept_ + X @ fitted.coefficients_[0] + offset
    )
    assert fitted.score(X, YES, offset=offset) == np.mean(fitted.predict(X, offset) == YES)
    with pytest.raises(DataError, match="predictions need offset= too"):
        fitted.predict(X)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (wv.VariableSelectorClassifier(family="poisson"), 'family must be "logistic" or "probit" for classes, not \'poisson\''),
        (wv.VariableSelectorClassifier(family=wv.Logistic(trials=3)), "numbers of successes for a response, not classes"),
        (wv.VariableSelector(family="logistic"), r"use VariableSelectorClassifier\(family='logistic'\)"),
        (wv.VariableSelector(family="probit"), r"use VariableSelectorClassifier\(family='probit'\)"),
        (wv.VariableSelector(family="poisson", noise=wv.Jeffreys()), "has no noise variance"),
        (wv.VariableSelectorClassifier(slab=wv.LocalEmpiricalBayes()), "LocalEmpiricalBayes"),
        (wv.VariableSelectorClassifier(prior_size=2, model_prior=wv.FixedInclusion(h=0.5)), "not both"),
    ],
)  # fmt: skip
def test_refused(estimator, message):
    with pytest.raises(DataError, match=message):
        estimator.fit(X, YES.astype(int))


def test_statistics_are_refused():
    with pytest.raises(ArgumentTypeError, match="VariableSelectorClassifier needs rows"):
        wv.VariableSelectorClassifier().fit(wv.SufficientStatistics.from_arrays(X, VISITS), YES)


# --- counts


@pytest.mark.parametrize("family", ["poisson", wv.NegativeBinomial(dispersion=3)])
def test_counts_with_an_exposure(family):
    offset = np.log(YEARS)
    fitted = wv.VariableSelector(family=family).fit(X, VISITS, offset=offset)
    posterior = wv.exact(wv.Problem(X, VISITS, family=family, offset=offset))
    np.testing.assert_array_equal(fitted.inclusion_probabilities_, posterior.pip)
    np.testing.assert_array_equal(fitted.predict(X, offset=offset), posterior.predict(X, offset=offset))
    np.testing.assert_allclose(fitted.coefficients_, posterior.coefficients()["mean"].iloc[1:])
    mean, _, ends = fitted.predict(X, return_std=True, interval=0.5, offset=0)
    assert (ends[:, 0] < mean).all()
    residual = VISITS - fitted.predict(X, offset=offset)
    expected = 1 - (residual**2).sum() / ((VISITS - VISITS.mean()) ** 2).sum()
    assert fitted.score(X, VISITS, offset=offset) == pytest.approx(expected)
    assert fitted.__sklearn_tags__().target_tags.positive_only
    with pytest.raises(DataError, match="predictions need offset= too"):
        fitted.predict(X)


def test_successes_among_trials():
    family = wv.Logistic(trials=TRIALS)
    fitted = wv.VariableSelector(family=family).fit(X, HITS)
    posterior = wv.exact(wv.Problem(X, HITS, family=family))
    np.testing.assert_array_equal(fitted.predict(X), posterior.predict(X))
    assert 0 < fitted.score(X, HITS / TRIALS) < 1


def test_the_linear_model_has_no_offset():
    with pytest.raises(DataError, match="write y − offset for y"):
        wv.VariableSelector().fit(X, ETA + RNG.normal(size=N), offset=np.zeros(N))


# --- formulas


def test_a_formula_of_classes(classifier):
    fitted = wv.VariableSelectorClassifier.from_formula("sold ~ a + b + c + d", TABLE)
    np.testing.assert_array_equal(fitted.predict_proba(TABLE), classifier.predict_proba(X))
    assert fitted.predict(TABLE.head(3)).tolist() == classifier.predict(X.head(3)).tolist()
    assert fitted.score(TABLE, TABLE["sold"]) == classifier.score(X, TABLE["sold"])
    by_expression = wv.VariableSelectorClassifier.from_formula("{visits > 2} ~ a + c", TABLE)
    plain = wv.VariableSelectorClassifier().fit(X[["a", "c"]], VISITS > 2)
    np.testing.assert_array_equal(by_expression.coefficients_, plain.coefficients_)
    for left in ("C(sold)", "sold"):
        words = wv.VariableSelectorClassifier.from_formula(f"{left} ~ a", TABLE)
        assert words.classes_.tolist() == ["no", "yes"]


def test_a_formula_with_an_offset():
    formula = "visits ~ a + c + offset(log(years))"
    fitted = wv.VariableSelector.from_formula(formula, TABLE, family="poisson")
    plain = wv.VariableSelector(family="poisson").fit(X[["a", "c"]], VISITS, offset=np.log(YEARS))
    np.testing.assert_array_equal(fitted.coefficients_, plain.coefficients_)
    np.testing.assert_array_equal(fitted.predict(TABLE), plain.predict(X[["a", "c"]], offset=np.log(YEARS)))
    doubled = fitted.predict(TABLE.assign(years=2 * YEARS))
    np.testing.assert_allclose(doubled, 2 * fitted.predict(TABLE))
    assert fitted.score(TABLE, VISITS) == plain.score(X[["a", "c"]], VISITS, offset=np.log(YEARS))
    assert fitted.posterior_.problem.names == ["a", "c"]
    both = wv.VariableSelector.from_formula(
        "visits ~ a + c + offset(log(years) / 2) + offset(np.log(years) / 2)", TABLE, family="poisson"
    )
    np.testing.assert_allclose(both.coefficients_, fitted.coefficients_)
    with pytest.raises(DataError, match="the formula has an offset, which is computed from X"):
        fitted.predict(TABLE, offset=0)
    with pytest.raises(DataError, match=r"there is no column 'years'"):
        fitted.predict(TABLE.drop(columns="years"))
    with (
        pytest.raises(DataError, match=r"offset\(log\(years\)\) is infinite in row 0"),
        np.errstate(divide="ignore"),
    ):
        fitted.predict(TABLE.assign(years=0.0))
    with pytest.raises(DataError, match="write y − offset for y"):
        wv.VariableSelector.from_formula(formula, TABLE)


def test_a_formula_of_successes_and_failures():
    plain = wv.VariableSelector(family=wv.Logistic(trials=TRIALS)).fit(X[["a", "d"]], HITS)
    for left in ("cbind(hits, misses)", "cbind(hits, tries - hits)"):
        fitted = wv.VariableSelector.from_formula(f"{left} ~ a + d", TABLE, family="logistic")
        np.testing.assert_array_equal(fitted.coefficients_, plain.coefficients_)
        np.testing.assert_array_equal(fitted.predict(TABLE), plain.predict(X[["a", "d"]]))
    classes = wv.VariableSelectorClassifier.from_formula("cbind(hits, misses) ~ a + d", TABLE)
    assert classes.classes_.tolist() == ["misses", "hits"]
    np.testing.assert_array_equal(classes.predict_proba(TABLE)[:, 1], plain.predict(X[["a", "d"]]))
    everything = wv.VariableSelectorClassifier.from_formula("cbind(hits, misses) ~ . - tries - sold", TABLE)
    assert everything.posterior_.problem.names == ["a", "b", "c", "d", "years", "visits"]
    for settings, message in (
        (
            {},
            r'cbind\(hits, misses\) is a number of successes among some trials, which needs family="logistic"',
        ),
        ({"family": "probit"}, "needs family=\"logistic\", not 'probit'"),
        ({"family": wv.Logistic(trials=9)}, "has the trials; give family"),
    ):
        with pytest.raises(DataError, match=message):
            wv.VariableSelector.from_formula("cbind(hits, misses) ~ a", TABLE, **settings)
    with pytest.raises(DataError, match="class_weight needs one row for each observation"):
        wv.VariableSelectorClassifier.from_formula("cbind(hits, misses) ~ a", TABLE, class_weight="balanced")


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("visits ~ a + (b", "this bracket has no partner\n    visits ~ a + (b\n                 ^"),
        ("visits ~ a + log(b", "is not closed\n    visits ~ a + log(b\n                 ^^^^^"),
        ("visits ~ {a + }", "this is no expression\n    visits ~ {a + }\n              ^^^"),
        ("visits ~ a + bb", "no column 'bb'; did you mean 'b'?\n    visits ~ a + bb\n                 ^^"),
        ("visits ~\n a $ b", "Unknown operator '$'.\n    visits ~  a $ b\n                ^"),
        ("visits ~ a + offset(log(yeers))", "no column 'yeers'; did you mean 'years'?\n    visits ~ a + offset(log(yeers))\n                            ^^^^^"),
        ("visits ~ a:offset(years)", "is all that is before it\n    visits ~ a:offset(years)\n               ^^^^^^"),
        ("visits ~ a + cbind(b, c)", "cbind(…) cannot be used here"),
        ("cbind(hits, misses) + visits ~ a", "cbind(…) cannot be used here"),
        ("offset(visits) ~ a", "offset(…) cannot be used here"),
        ("visits ~ a + offset()", "offset() must have one argument"),
        ("visits ~ a + offset(b, c)", "offset(b, c) must have one argument"),
        ("visits ~ a + offset(sold)", "offset(sold) gives 2 columns"),
        ("visits ~ offset(years)", "has no terms to select from"),
        ("cbind(hits) ~ a", "must have two arguments, the numbers of successes and of failures"),
        ("cbind(hits, a) ~ b", "numbers of successes and of failures are whole and not negative\n    cbind(hits, a) ~ b\n                ^"),
    ],
)  # fmt: skip
def test_mistakes_in_a_formula_are_shown_where_they_are(formula, message):
    with pytest.raises(DataError) as caught:
        wv.VariableSelector.from_formula(
            formula, TABLE, family="logistic" if "cbind(h" in formula else "poisson"
        )
    assert message in str(caught.value)


def test_offsets_belong_in_the_formula():
    with pytest.raises(DataError, match="always: offset"):
        wv.VariableSelector.from_formula("visits ~ a", TABLE, always="offset(years)", family="poisson")


def test_odd_names_in_offsets():
    table = TABLE.rename(columns={"years": "größe (cm)"})
    formula = "visits ~ a + c + offset(log(`größe (cm)`))"
    fitted = wv.VariableSelector.from_formula(formula, table, family="poisson")
    plain = wv.VariableSelector.from_formula("visits ~ a + c + offset(log(years))", TABLE, family="poisson")
    np.testing.assert_array_equal(fitted.coefficients_, plain.coefficients_)
