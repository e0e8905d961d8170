"""``whichvars fit --stream``: the answer of ``fit``, from files that are never in memory as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import whichvars as wv
from whichvars.cli import main

RNG = np.random.default_rng(6)
FRAME = pd.DataFrame(RNG.standard_normal((200, 5)), columns=list("abcde")).assign(
    y=lambda frame: 0.4 * frame.a - 0.2 * frame.c + RNG.standard_normal(200), id="word"
)


def run(*arguments: object) -> dict:
    result = CliRunner().invoke(main, [*map(str, arguments), "--no-report", "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "years"
    path.mkdir()
    FRAME.iloc[:80].to_csv(path / "1.csv", index=False)
    FRAME.iloc[80:].to_parquet(path / "2.parquet", index=False)
    return path


@pytest.mark.parametrize("command", ["fit", "exact"])
def test_the_answer_is_that_of_fit(command, folder, tmp_path):
    FRAME.to_csv(tmp_path / "whole.csv", index=False)
    options = ["--response", "y", "--drop", "id", "--always", "b", "--slab", "hyper-g"]
    streamed = run(command, folder, *options, "--stream", "--out", tmp_path / "one")
    whole = run(command, tmp_path / "whole.csv", *options, "--out", tmp_path / "two")
    assert [v["variable"] for v in streamed["variables"]] == [v["variable"] for v in whole["variables"]]
    for ours, theirs in zip(streamed["variables"], whole["variables"]):
        assert ours["pip"] == pytest.approx(theirs["pip"], abs=1e-10)
    data = streamed["data"]
    assert (data["file"], data["rows"], data["columns"]) == ("years", 200, 6)
    assert data["bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    posterior = wv.Posterior.load(tmp_path / "one" / "posterior.npz")
    assert posterior.problem.always_names == ["b"]
    predicted = [
        CliRunner().invoke(main, ["predict", str(tmp_path / name), str(tmp_path / "whole.csv")]).output
        for name in ("one", "two")
    ]
    means = [np.array([line.split(",")[1] for line in text.splitlines()[1:]], float) for text in predicted]
    np.testing.assert_allclose(*means, atol=1e-9)
    assert len(means[0]) == 200


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--stream"], "column 'id'"),
        (["--stream", "--drop", "id", "--missing", "drop"], "--missing needs the whole table"),
        (["--drop", "id"], "is a directory; name a file, or read all in it with --stream"),
    ],
)
def test_what_it_refuses(options, said, folder, tmp_path):
    result = CliRunner().invoke(
        main, ["fit", str(folder), "-y", "y", *options, "--out", str(tmp_path / "out")]
    )
    assert result.exit_code == 2
    assert said in result.output.replace("\n", " ")
    assert not (tmp_path / "out").exists()
