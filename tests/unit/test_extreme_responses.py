"""Separation, one event, nothing but zeros, huge offsets and the like: an answer or a message that names the column, whoever asks."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import whichvars as wv
from whichvars.cli import main
from whichvars.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")

N = 30
RNG = np.random.default_rng(1)
X = pd.DataFrame(RNG.normal(size=(N, 4)), columns=list("abcd"))
SEPARATED = (X["a"] > 0).astype(int)
NOISY = ((X["a"] + RNG.normal(size=N)) > 0).astype(int)
# all rows with the dummy are of one class
DUMMY = np.where((NOISY == 1) & (np.arange(N) % 2 == 0), 1.0, 0.0)
ONE = (np.arange(N) == 4).astype(int)
COUNTS = RNG.poisson(2, N)
COPIES = X.assign(again=X["a"], turned=-2 * X["a"])
TWO, COUNTED = ("logistic", "probit"), ("poisson", "negative-binomial")


class Face:
    """One way to ask: the names and inclusion probabilities of the variables, and predictions for the same rows."""

    def __init__(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)


class ByProblem(Face):
    def ask(self, X, y, family, always=None, offset=None, **settings):
        problem = wv.Problem(X, y, family=family, always_include=always, offset=offset, **settings)
        posterior = wv.exact(problem)
        return posterior.inclusion_probabilities, posterior.predict(X, offset=offset)


class ByEstimator(Face):
    def ask(self, X, y, family, always=None, offset=None, **settings):
        kind = wv.VariableSelectorClassifier if family in TWO else wv.VariableSelector
        selector = kind(family=family, always_include=always, **settings).fit(X, y, offset=offset)
        predict = (lambda *a: selector.predict_proba(*a)[:, 1]) if family in TWO else selector.predict
        arguments = (
            (X,) if offset is None else (X, offset) if family in TWO else (X, False, "BMA", None, offset)
        )
        return selector.posterior_.inclusion_probabilities, predict(*arguments)


class ByFormula(Face):
    def ask(self, X, y, family, always=None, offset=None, **settings):
        kind = wv.VariableSelectorClassifier if family in TWO else wv.VariableSelector
        table = X.assign(y=np.asarray(y), o=0.0 if offset is None else offset)
        terms = " + ".join(X.columns) + (" + offset(o)" if offset is not None else "")
        selector = kind.from_formula(
            f"y ~ {terms}",
            table,
            family=family,
            always=None if always is None else " + ".join(always),
            **settings,
        )
        prediction = selector.predict_proba(table)[:, 1] if family in TWO else selector.predict(table)
        return selector.posterior_.inclusion_probabilities, prediction


class ByCommand(Face):
    def ask(self, X, y, family, always=None, offset=None, **settings):
        table = X.assign(y=np.asarray(y), **({} if offset is None else {"o": offset}))
        table.to_csv("data.csv", index=False)
        options = [] if always is None else ["--always", ",".join(always)]
        options += [] if offset is None else ["--offset", "o"]
        options += [
            part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))
        ]
        self.run("fit", "data.csv", "-y", "y", "--family", family, "--no-report", "--overwrite", *options)
        self.run("predict", "data-run", "data.csv", "--out", "new.csv")
        summary = pd.read_csv("data-run/summary.csv", index_col="variable")
        return summary["pip"], pd.read_csv("new.csv").iloc[:, 1].to_numpy()

    def run(self, *arguments):
        result = CliRunner().invoke(main, arguments)
        if result.exit_code == 2:
            raise DataError(result.stderr)
        assert result.exit_code == 0, result.output


@pytest.fixture(params=[ByProblem, ByEstimator, ByFormula, ByCommand])
def face(request, tmp_path, monkeypatch):
    return request.param(tmp_path, monkeypatch)


@pytest.mark.parametrize("family", TWO)
def test_perfect_separation(face, family):
    pips, probability = face.ask(X, SEPARATED, family)
    assert pips["a"] > 0.99
    assert (probability[SEPARATED == 1] > 0.5).all()
    assert (probability[SEPARATED == 0] < 0.5).all()
    assert 0 < probability.min() < probability.max() < 1


@pytest.mark.parametrize("family", TWO)
def test_quasi_separation(face, family):
    pips, probability = face.ask(X.assign(part=DUMMY), NOISY, family)
    assert 0.5 < pips["part"] < 1
    assert 0 < probability.min() < probability.max() < 1
    assert probability[DUMMY == 1].mean() > 0.8


@pytest.mark.parametrize("family", TWO + COUNTED)
def test_one_event(face, family):
    pips, mean = face.ask(X, ONE, family)
    assert ((pips > 0.01) & (pips < 0.99)).all()  # a single event settles nothing
    # about 1/30; more, as a mean of a few uncertain rates is larger than the rate of their mean
    assert 1 / N / 2 < mean.mean() < 5 / N


def test_nothing_but_zeros(face):
    for family in COUNTED:
        with pytest.raises(DataError, match="is 0 in every row; there is nothing to explain"):
            face.ask(X, np.zeros(N, int), family)


def test_one_class_only(face):
    for family in TWO:
        with pytest.raises(DataError, match="is 1 in every row; both classes are needed"):
            face.ask(X, np.ones(N, int), family)


@pytest.mark.parametrize("family", TWO)
def test_an_always_included_column_that_separates_is_named(face, family):
    with pytest.raises(DataError, match="the always-included column 'a' separates the two classes"):
        face.ask(X, SEPARATED, family, always=["a", "b"])
    with pytest.raises(DataError, match="the always-included column 'part' separates the two classes"):
        face.ask(X.assign(part=DUMMY), NOISY, family, always=["part"])


@pytest.mark.parametrize("family", COUNTED)
def test_an_always_included_column_without_counts_is_named(face, family):
    with pytest.raises(
        DataError, match="the always-included column 'closed' separates rows without any count"
    ):
        face.ask(X.assign(closed=DUMMY), np.where(DUMMY == 1, 0, COUNTS + 1), family, always=["closed"])


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_huge_offsets(face, family):
    y = NOISY if family == "logistic" else COUNTS
    pips, mean = face.ask(X, y, family)
    for shift in (1e4, -1e4) if family == "logistic" else (600.0, -600.0):
        same, moved = face.ask(X, y, family, offset=np.full(N, shift))
        np.testing.assert_allclose(same, pips, atol=1e-6)  # the intercept takes it up
        np.testing.assert_allclose(moved, mean, rtol=1e-6)
    with pytest.raises(DataError, match=r"the offset separates the response; check its units"):
        face.ask(X, y, family, offset=np.linspace(-1e300, 1e300, N))


def test_an_offset_that_separates(face):
    with pytest.raises(DataError, match="the offset separates the response"):
        face.ask(X, NOISY, "logistic", offset=np.where(NOISY == 1, 1e3, -1e3))


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_duplicated_columns_share_their_probability(face, family):
    pips, mean = face.ask(COPIES, NOISY if family == "logistic" else COUNTS, family)
    np.testing.assert_allclose(pips[["again", "turned"]], pips["a"], rtol=1e-6)
    assert np.isfinite(mean).all()


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_many_more_columns_than_rows(face, family):
    wide = pd.DataFrame(RNG.normal(size=(20, 60)), columns=[f"v{j}" for j in range(60)])
    y = (wide["v7"] > 0).astype(int) * (1 if family == "logistic" else 4)
    pips, mean = face.ask(wide, y, family, max_size=2)
    assert pips.idxmax() == "v7"
    assert np.isfinite(mean).all()
