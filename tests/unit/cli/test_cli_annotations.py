"""``--annotations`` and ``--enrichment``: the prior is that of ``annotated_prior`` or ``estimate_enrichment``."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import whichvars as wv
from whichvars.cli import main

N, P = 120, 8
RNG = np.random.default_rng(0)
NAMES = [f"v{j}" for j in range(P)]
X = pd.DataFrame(RNG.normal(size=(N, P)), columns=NAMES)
Y = 0.3 * X["v1"] + 0.3 * X["v2"] + RNG.normal(size=N)
TABLE = pd.DataFrame({"coding": [0, 1, 1, 0, 0, 0, 1, 0], "near": [0.5, 0, 0, 1, 0, 2, 0, 0]}, index=NAMES)


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X.assign(y=Y).to_csv("data.csv", index=False)
    TABLE.sample(frac=1, random_state=1).rename_axis("name").reset_index().to_csv("known.csv", index=False)

    def run(*more, code=0):
        result = CliRunner().invoke(main, ["fit", "data.csv", "-y", "y", "--no-report", *more])
        assert result.exit_code == code, result.output
        return result

    return run


def pips():
    return pd.read_csv("data-run/summary.csv").set_index("variable")["pip"][NAMES].to_numpy()


def test_odds_ratios_that_are_given(call):
    result = call("--annotations", "known.csv", "--enrichment", "coding=6", "--prior-size", "2")
    assert "Annotations without --enrichment are not used: near." in " ".join(result.stderr.split())
    prior = wv.annotated_prior(TABLE[["coding"]], {"coding": np.log(6)}, size=2)
    want = wv.exact(wv.Problem(X, Y, model_prior=prior))
    assert pips() == pytest.approx(want.pip, abs=1e-9)
    settings = json.loads(Path("data-run/settings.json").read_text())
    assert settings["annotations"] == {"file": "known.csv", "odds_ratios": {"coding": 6.0}}


@pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")
def test_odds_ratios_that_are_estimated_are_told(call):
    result = call("--annotations", "known.csv")
    problem = wv.Problem(X, Y)
    found = wv.estimate_enrichment(problem, TABLE, size=4)
    want = wv.exact(problem.with_priors(model_prior=found.prior(TABLE)))
    assert pips() == pytest.approx(want.pip, abs=1e-9)
    ratio = found.table.loc["coding", "odds_ratio"]
    assert f"coding multiplies the prior odds by {ratio:.2g} (95 % interval" in " ".join(
        result.stderr.split()
    )
    assert json.loads(Path("data-run/settings.json").read_text())["annotations"]["estimated"]


def test_variables_that_are_not_in_the_file_have_zeros(call):
    TABLE.drop(index=["v6", "v7"]).rename_axis("name").reset_index().to_csv("known.csv", index=False)
    result = call("--annotations", "known.csv", "--enrichment", "coding=3,near=0.5")
    assert "2 of 8 variables are not in known.csv and have no annotations: v6, …." in " ".join(
        result.stderr.split()
    )
    prior = wv.annotated_prior(TABLE.drop(index=["v6", "v7"]).reindex(NAMES, fill_value=0), {"coding": np.log(3), "near": np.log(0.5)}, size=4)  # fmt: skip
    assert pips() == pytest.approx(wv.exact(wv.Problem(X, Y, model_prior=prior)).pip, abs=1e-9)


@pytest.mark.parametrize(
    ("content", "more", "message"),
    [
        (None, ["--enrichment", "coding=3"], "--enrichment needs --annotations"),
        (None, ["--annotations", "none.csv"], "there is no file none.csv"),
        ("name\nv1\n", ["--annotations", "bad.csv"], "bad.csv has only one column"),
        ("name,a\nv1,1\nv1,2\n", ["--annotations", "bad.csv"], "two rows for 'v1'"),
        ("name,a\nrs1,1\nrs2,2\n", ["--annotations", "bad.csv"], "none of the variables, such as 'v0', is in the first column"),
        ("name,a\nv1,1\nv2,much\n", ["--annotations", "bad.csv"], "the annotation 'a' of 'v2' is 'much'; write a number"),
        (None, ["--annotations", "known.csv", "--enrichment", "codin=3"], "there is no annotation 'codin'; did you mean 'coding'?"),
        (None, ["--annotations", "known.csv", "--enrichment", "coding=-3"], "write NAME=ODDS with a positive number"),
        (None, ["--annotations", "known.csv", "--missing", "impute"], "--annotations cannot be combined with --missing impute"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(call, content, more, message):
    if content is not None:
        Path("bad.csv").write_text(content)
    assert message in " ".join(call(*more, code=2).stderr.split())
    assert not Path("data-run").exists()
