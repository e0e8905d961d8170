"""Responses that a linear model does not really fit: two values, small whole numbers and words are not passed over."""

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner

import whichvars as wv
from whichvars.cli import main
from whichvars.errors import ArgumentTypeError, DataError, DataWarning
from whichvars.problem.families import Gaussian

N = 40
RNG = np.random.default_rng(5)
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["a", "b", "c"])
NOISY = X["a"] + RNG.normal(size=N)
SOLD = (NOISY > 0).astype(int).rename("sold")
VISITS = pd.Series(RNG.poisson(2.5, N), name="visits")
WORDS = SOLD.map({0: "no", 1: "yes"}).rename("sold")
TWO = r"has only two values, .*linear probability model\)\. Inclusion probabilities are then approximate"
SMALL = r"consists of small whole numbers, such as counts or grades\..*Inclusion probabilities are then approximate"


def said(call):
    """What warnings there were, as text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(w.category is DataWarning for w in caught)
    return [str(w.message) for w in caught]


# --- in Python


@pytest.mark.parametrize(
    ("y", "beginning"),
    [
        (SOLD, "The response 'sold' has only two values, 0 and 1. "),
        (SOLD.astype(bool), "The response 'sold' has only two values, 0 and 1. "),
        (SOLD.to_frame(), "The response 'sold' has only two values, 0 and 1. "),
        (SOLD.to_numpy(), "The response has only two values, 0 and 1. "),
        (pl.Series(SOLD.tolist()), "The response has only two values, 0 and 1. "),
        (SOLD.rename(None) * 3.5 - 1, "The response has only two values, -1 and 2.5. "),
        (VISITS, "The response 'visits' consists of small whole numbers, "),
        (VISITS.to_numpy(dtype=float), "The response consists of small whole numbers, "),
    ],
)
def test_a_problem_warns_once(y, beginning):
    found = said(lambda: wv.Problem(X, y))
    assert len(found) == 1
    assert found[0].startswith(beginning)


def test_the_place_is_the_line_of_the_user():
    with pytest.warns(DataWarning, match=TWO) as caught:
        problem = wv.Problem(X, SOLD)
    assert caught[0].filename == __file__
    assert not said(lambda: (problem.with_priors(slab=wv.GPrior("n")), wv.exact(problem).predict(X)))


def test_the_selector_warns_once():
    for y, text in ((SOLD, TWO), (SOLD.astype(bool), TWO), (VISITS, SMALL)):
        with pytest.warns(DataWarning, match=text) as caught:
            wv.VariableSelector().fit(X, y)
        assert len(caught) == 1
    with pytest.warns(DataWarning, match=TWO):
        wv.VariableSelector.from_formula("sold ~ a + b", X.assign(sold=SOLD))


def test_rows_of_weight_zero_do_not_count():
    y = SOLD.astype(float)
    y.iloc[3] = 0.5
    weights = np.ones(N)
    assert not said(lambda: wv.Problem(X, y, weights=weights))
    weights[3] = 0
    with pytest.warns(DataWarning, match=TWO):
        wv.Problem(X, y, weights=weights)


@pytest.mark.parametrize(
    "y",
    [
        [0, 1, 2], [1, 2, 3, 4, 5], range(11), [0] * 9 + [3, 57], [0, 0, 0, 2, 1, 0, 0, 0, 0, 12],
        RNG.poisson(0.3, 200) + 1, RNG.poisson(5, 1000), RNG.negative_binomial(1, 0.3, 1000),
    ],
)  # fmt: skip
def test_small_whole_numbers(y):
    assert "small whole numbers" in Gaussian().remark(np.array(y, float))


@pytest.mark.parametrize(
    "y",
    [
        RNG.normal(size=200), RNG.exponential(size=200), RNG.uniform(size=5),
        RNG.integers(18, 90, 200),  # ages
        RNG.integers(0, 101, 200),  # scores
        RNG.integers(1990, 2020, 200),  # years
        RNG.integers(200, 900, 200) * 1000,  # prices
        RNG.integers(-5, 5, 200),  # differences
        RNG.integers(0, 5, 200) + 0.5, RNG.integers(0, 21, 200), RNG.poisson(30, 200), [0, 1, 2.5], [10, 20, 30],
    ],
)  # fmt: skip
def test_other_numbers_are_left_in_peace(y):
    assert Gaussian().remark(np.array(y, float)) is None


@pytest.mark.parametrize("load", ["load_boston", "load_growth", "load_tecator", "load_uscrime"])
def test_bundled_data_are_left_in_peace(load):
    data = getattr(wv.datasets, load)()
    assert Gaussian().remark(data.y.to_numpy(float)) is None


FORMS = [
    WORDS, WORDS.astype(object), WORDS.astype("category"), WORDS.tolist(), WORDS.to_numpy(str), pl.Series(WORDS.tolist()),
    pl.Series(WORDS.tolist(), dtype=pl.Categorical), WORDS.to_frame(),
]  # fmt: skip


@pytest.mark.parametrize("y", FORMS, ids=range(len(FORMS)))
@pytest.mark.parametrize("make", [wv.Problem, lambda X, y: wv.VariableSelector().fit(X, y)])
def test_two_words(make, y):
    message = r"^y contains .*; give it as numbers, or use (family=\"logistic\") or (VariableSelectorClassifier), .* the odds of 'yes'$"
    with pytest.raises(ArgumentTypeError, match=message):
        make(X, y)
    # what the message says, done
    assert wv.Problem(X, np.asarray(y).ravel(), family="logistic").classes == ("no", "yes")
    assert wv.VariableSelectorClassifier().fit(X, np.asarray(y).ravel()).classes_.tolist() == ["no", "yes"]


def test_two_words_beside_columns_that_cannot_be_used():
    table = pd.DataFrame(X).assign(who=[f"person {i}" for i in range(N)])
    table.columns = table.columns.map(str)
    with pytest.raises(DataError, match="2 things are wrong") as raised:
        wv.Problem(table, WORDS)
    call = str(raised.value).splitlines()[-1].removeprefix("The data can be used with ")
    assert 'family="logistic"' in call
    assert eval(call, {"wv": wv, "X": table, "y": WORDS}).classes == ("no", "yes")


@pytest.mark.parametrize("make", [wv.Problem, lambda X, y: wv.VariableSelector().fit(X, y)])
def test_more_words(make):
    y = pd.Series(["u", "v", "w", "x"] * (N // 4))
    with pytest.raises(
        ArgumentTypeError, match=r"classes \('u', 'v', 'w', …\) can be .* only if they have an order"
    ):
        make(X, y)


def test_words_elsewhere_get_the_advice_that_fits():
    with pytest.raises(
        ArgumentTypeError,
        match=r"^y contains .* give it as numbers: write y = np\.asarray\(y, dtype=float\)$",
    ):
        wv.Problem(X, SOLD.astype(str))
    with pytest.raises(ArgumentTypeError, match=r"^weights contains text or categories; give it as numbers$"):
        wv.Problem(X, NOISY, weights=WORDS)
    mixed = NOISY.astype(object)
    mixed.iloc[4] = "two"
    with pytest.raises(
        ArgumentTypeError, match=r"^y contains 'two', which is not a number; give it as numbers$"
    ):
        wv.Problem(X, mixed)
    with pytest.raises(
        DataError, match=r"the response 'sold' gives 2 columns, .* code two classes as 0 and 1 first"
    ):
        wv.VariableSelector.from_formula("sold ~ a", X.assign(sold=WORDS))


# --- on the command line


@pytest.fixture
def fit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(y, *options, code=0):
        X.assign(**{"the y": y}).to_csv("data.csv", index=False)
        arguments = ["fit", "data.csv", "--response", "the y", "--no-report", "--overwrite", *options]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == code, result.output
        return result.stderr

    return run


@pytest.mark.parametrize(
    ("y", "text", "family"),
    [
        (SOLD, "has only two values, 0 and 1. ", "gaussian"),
        (SOLD, "has two values (0, 1): logistic regression for 1", "auto"),
        (VISITS, "consists of small whole numbers, ", "auto"),
    ],
)
def test_a_note_of_the_command_line(fit, tmp_path, y, text, family):
    note = f"Note: The response 'the y' {text}"
    assert fit(y, "--family", family).count(note) == 1
    assert fit(y, "--family", family, "--quiet") == ""
    kept = json.loads((tmp_path / "data-run" / "settings.json").read_text())["notes"]
    assert [one.startswith(note.removeprefix("Note: ")) for one in kept] == [True]


def test_no_note_of_other_responses(fit):
    assert "Note" not in fit(NOISY)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (WORDS, r"contains words ('no', 'yes'), not numbers; this is linear regression: write 0 for 'no' and 1 for 'yes' if you mean that, or use --family logistic, or name another response"),
        (["u", "v", "w", "w"] * (N // 4), "contains words ('u', 'v', 'w'), not numbers; this is linear regression: write numbers if the words have an order that numbers can represent, or"),
        (SOLD.astype(bool), "contains true and false; this is linear regression: write 0 and 1 if you mean that"),
    ],
)  # fmt: skip
def test_words_on_the_command_line(fit, y, message):
    assert f"Error: the response 'the y' {message}" in fit(y, "--family", "gaussian", code=2)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["2024-01-31"] * N, "Error: the response 'the y' contains dates or times"),
        (
            ["1,5"] * N,
            "Error: the response: column 'the y' has '1,5' in row 1: write numbers with a decimal point",
        ),
        (
            ["n/k", *range(1, N)],
            "Error: the response: column 'the y' has 'n/k' in row 1, which is not a number; correct",
        ),
    ],
)
def test_what_is_not_words_has_its_own_message(fit, y, message):
    assert message in fit(y, code=2)


def test_words_of_a_column_of_categories(tmp_path, fit, monkeypatch):
    X.assign(y=WORDS.astype("category")).to_parquet(tmp_path / "data.parquet")
    arguments = ["fit", str(tmp_path / "data.parquet"), "-y", "y", "--no-report"]
    result = CliRunner().invoke(main, [*arguments, "--family", "gaussian"])
    assert "the response 'y' contains words ('no', 'yes'), not numbers" in result.stderr
    assert (
        "has two values (no, yes): logistic regression for yes" in CliRunner().invoke(main, arguments).stderr
    )


def test_codes_for_missing_responses_are_remarked_upon() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    coded = np.where(np.arange(50) < 2, -9.0, y)
    with pytest.warns(wv.DataWarning, match="The response is -9 in 2 rows, far from all others"):
        wv.Problem(X, coded)
    with pytest.warns(wv.DataWarning, match="-9 or another code .*: 'b'. If these are missing, write NaN"):
        wv.sample_many(X, pd.DataFrame({"a": y, "b": coded}), draws=100, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wv.Problem(X, y)
        wv.Problem(X, 5 * y - 9 - 5 * y[0])  # -9 among numbers like it
        wv.Problem(X, np.where(np.arange(50) < 30, -9.0, y))  # most of them
