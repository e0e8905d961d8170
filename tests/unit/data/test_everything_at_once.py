"""Whatever is wrong with the response and with several columns is told in one message, with what would work."""

import contextlib
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import whichvars as wv
from whichvars.cli import main

RNG = np.random.default_rng(0)
N = 40
BASE = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)})
Y = pd.Series(BASE["a"] + RNG.normal(size=N), name="y")
NOTE = [f"remark number {i} on this row" for i in range(N)]
WHEN = [f"2024-01-{1 + i % 28:02d}" for i in range(N)]
HOLES = Y.where(~Y.index.isin([3, 7]))
# columns, the response, options of the command line, arguments of Problem; what must be told of the response by each of them
FREE_TEXT, DATES = "column 'note' contains free text", "column 'when' contains dates"
CASES = {
    "three words": (
        {"note": NOTE, "when": WHEN},
        np.where(Y > 1, "high", np.where(Y > 0, "mid", "low")),
        (),
        {},
        ("the response 'y' contains words", "y contains text or categories"),
        (FREE_TEXT, DATES),
    ),
    "missing responses": (
        {"note": NOTE, "when": WHEN},
        HOLES,
        (),
        {},
        ("column 'y' has no value in row 4", "y is missing (NaN) in row 3"),
        (FREE_TEXT, DATES),
    ),
    "missing values everywhere": (
        {"note": NOTE, "c": [np.nan, np.nan, *range(N - 2)]},
        HOLES,
        (),
        {},
        ("column 'y' has no value in row 4", "y is missing (NaN) in row 3"),
        (FREE_TEXT, "column 'c' has no value in row"),
    ),
    "a constant": (
        {"note": NOTE, "when": WHEN},
        np.full(N, 3.0),
        (),
        {},
        ("the response 'y' is 3 in every row", "y is constant"),
        (FREE_TEXT, DATES),
    ),
    "cells that are no numbers": (
        {"note": NOTE, "c": ["1.5"] * (N - 1) + ["lost (see notes)"]},
        ["12", "13"] * (N // 2 - 1) + ["14", "about 15"],
        (),
        {},
        ("has 'about 15' in row 40", "y contains text"),
        (FREE_TEXT, "column 'c' has 'lost (see notes)' in row"),
    ),
    "an infinite response": (
        {"when": WHEN, "c": [np.inf, *range(N - 1)]},
        Y.where(Y.index != 4, np.inf),
        (),
        {},
        ("column 'y' is infinite in row 5", "y is infinite in row 4"),
        (DATES, "column 'c' is infinite in row"),
    ),
    "dates for a response": (
        {"note": NOTE},
        WHEN,
        (),
        {},
        ("the response 'y' contains dates", "y contains text or categories"),
        (FREE_TEXT,),
    ),
    "negative counts": (
        {"note": NOTE, "when": WHEN},
        np.r_[-1, RNG.poisson(3, N - 1)],
        ("--family", "poisson"),
        {"family": "poisson"},
        ("the response 'y' is -1 in row 1", "the response 'y' is -1 in row 0"),
        (FREE_TEXT, DATES),
    ),
}
IDS = list(CASES)


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def data(name):
    columns, y, options, arguments, told, others = CASES[name]
    return BASE.assign(**columns), pd.Series(y, name="y"), options, arguments, told, others


def fit(path, *options):
    return CliRunner().invoke(main, ["fit", str(path), "-y", "y", "--no-report", *options])


@pytest.mark.parametrize("name", IDS)
def test_files(tmp_path, name):
    X, y, options, _, told, others = data(name)
    X.assign(y=y).to_csv(tmp_path / "data.csv", index=False)
    result = fit(tmp_path / "data.csv", *options)
    assert result.exit_code == 2
    lines = result.output.strip().split("\n")
    assert lines[0] == f"Error: {1 + len(others)} things are wrong:"
    assert told[0] in lines[1]
    for line, other in zip(lines[2:], others):
        assert other in line
    advice = lines[-1]
    assert advice.startswith(
        ("The file can be used as it is with --", "When the response is right, the file can be used with --")
    )
    if name.startswith("missing"):
        assert advice.startswith("The file can be used as it is")
    else:
        X.assign(y=Y.abs().round()).to_csv(tmp_path / "data.csv", index=False)
    again = fit(tmp_path / "data.csv", *options, *shlex.split(advice.partition(" with ")[2]))
    assert again.exit_code == 0, again.output
    if name == "missing values everywhere":
        found = pd.read_csv(tmp_path / "data-run" / "summary.csv")["variable"]
        assert set(found) == {"a", "b", "c"}, "rows with missing values are left out, not their column"


@pytest.mark.filterwarnings("ignore:the response 'y' consists of small whole numbers")
@pytest.mark.parametrize("name", IDS)
def test_frames(name):
    X, y, _, arguments, told, others = data(name)
    with pytest.raises(wv.DataError) as found:
        wv.Problem(X, y, **arguments)
    lines = str(found.value).split("\n")
    assert lines[0] == f"{1 + len(others)} things are wrong:"
    assert told[1] in lines[1]
    for line, other in zip(lines[2:], others):
        assert other in line
    call = re.search("wv\\.Problem\\(.*\\)$", lines[-1])[0]
    if name.startswith("missing"):
        assert lines[-1].startswith("The data can be used with")
    else:
        assert lines[-1].startswith("When y is right")
        y = Y.abs().round()
    with pytest.warns(wv.DataWarning) if "missing" in call else contextlib.nullcontext():
        problem = eval(call, {"wv": wv, "X": X, "y": y})
    assert "note" not in problem.names
    if name == "missing values everywhere":
        assert problem.names == ["a", "b", "c"], "rows with missing values are left out, not their column"


def test_two_words_or_truth_values_need_another_family(tmp_path):
    for y in (Y > 0, np.where(Y > 0, "yes", "no")):
        BASE.assign(note=NOTE, y=y).to_csv(tmp_path / "data.csv", index=False)
        result = fit(tmp_path / "data.csv", "--family", "poisson", "--overwrite")
        advice = result.output.strip().split("\n")[-1]
        assert advice == "The file can be used as it is with --drop note --family logistic"
        assert (
            fit(tmp_path / "data.csv", "--drop", "note", "--family", "logistic", "--overwrite").exit_code == 0
        )


def test_what_options_ask_of_a_response_is_told_with_the_columns(tmp_path):
    BASE.assign(note=NOTE, when=WHEN, y=Y, years=NOTE).to_csv(tmp_path / "data.csv", index=False)
    said = fit(tmp_path / "data.csv", "--log").output
    assert "--log: the response 'y' is" in said
    assert FREE_TEXT in said
    said = fit(tmp_path / "data.csv", "--family", "poisson", "--exposure", "years").output
    assert "--exposure: column 'years'" in said
    assert FREE_TEXT in said
    BASE.assign(note=NOTE, y=NOTE, z=Y).to_csv(tmp_path / "data.csv", index=False)
    said = CliRunner().invoke(main, ["fit", str(tmp_path / "data.csv"), "--responses", "y,z"]).output
    assert "the response 'y' contains words" in said
    assert FREE_TEXT in said


def test_words_are_told_beside_missing_responses(tmp_path):
    words = pd.Series(np.where(Y > 1, "high", np.where(Y > 0, "mid", "low"))).where(Y.index != 5)
    BASE.assign(y=words).to_csv(tmp_path / "data.csv", index=False)
    said = fit(tmp_path / "data.csv").output
    assert "column 'y' has no value in row 6" in said
    assert "the response 'y' contains words" in said
