"""`whichvars fit --responses`: every response as it would be alone, in tables."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bed_reader import to_bed
from click.testing import CliRunner, Result

import whichvars as wv
from tests.support.cluster import cluster
from whichvars.cli import main
from whichvars.problem.genetics import wide_enough

Call = Callable[..., Result]
RNG = np.random.default_rng(6)
N, P = 80, 6
COUNTS = RNG.integers(0, 3, size=(N, P)).astype(np.int8)
IID = [f"{i:03d}" for i in range(N)]
AGE = RNG.normal(50, 9, N).round(1)
Y = pd.DataFrame(
    {
        "tall": 0.9 * COUNTS[:, 1] + 0.1 * AGE + RNG.normal(size=N),
        "loud": RNG.normal(size=N),
        "wide": -0.8 * COUNTS[:, 4] + RNG.normal(size=N),
    }
).round(4)
GAPS = Y.copy()
GAPS.loc[::6, "tall"] = np.nan
GAPS.loc[:9, "wide"] = -9


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    to_bed(
        "cohort.bed", COUNTS,
        properties={
            "fid": IID, "iid": IID, "sid": [f"rs{j}" for j in range(P)], "chromosome": ["6"] * P,
            "bp_position": list(range(1, P + 1)), "allele_1": ["A"] * P, "allele_2": ["G"] * P,
        },
    )  # fmt: skip
    GAPS.assign(IID=IID, never="NA").iloc[::-1].to_csv("traits.csv", index=False)
    pd.DataFrame({"IID": IID, "age": AGE}).to_csv("people.csv", index=False)
    words = np.array(["east", "north", "west"])[RNG.integers(0, 3, N)]
    columns = pd.DataFrame(COUNTS, columns=[f"c{j}" for j in range(P)]).assign(site=words)
    pd.concat([columns, GAPS.assign(wide=Y["wide"])], axis=1).assign(IID=IID).to_csv("table.csv", index=False)

    def run(*arguments: object, code: int = 0) -> Result:
        result = CliRunner().invoke(main, [str(a) for a in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code, result.output
        return result

    return run


def own_pips(directory: str, response: str) -> dict[str, float]:
    table = pd.read_csv(f"{directory}/variables.csv")
    return table[table["response"] == response].set_index("variable")["pip"].to_dict()


def test_each_phenotype_of_a_bed_file_has_the_posterior_that_it_has_alone(call: Call) -> None:
    result = call("fit", "cohort.bed", "--phenotypes", "traits.csv", "--responses", "all", "--covariates", "people.csv")  # fmt: skip
    said = " ".join(result.stderr.split())
    assert "10 values of responses are -9, which is PLINK's code for a missing phenotype." in said
    assert (
        "1 of 4 responses could not be fitted, 'never'; the column not_fitted of responses.csv says why"
        in said
    )
    rows = pd.read_csv("cohort-run/responses.csv").set_index("response")
    assert rows.index.tolist() == ["tall", "loud", "wide", "never"]
    assert rows["rows"].tolist() == [66, 80, 70, 0]
    assert rows.loc["never", "not_fitted"] == "no row has a value; at least 3 are needed"
    assert rows["sets"].tolist()[:3] == [1, 0, 1]
    for name in Y.columns:
        there = (GAPS[name].notna() & (GAPS[name] != -9)).to_numpy()
        alone = wv.exact(
            wide_enough(wv.Problem(
                wv.Genotypes(COUNTS[there], names=[f"rs{j}" for j in range(P)]), Y.loc[there, name].to_numpy(), covariates=AGE[there, None],
                slab=wv.IndependentNormal(0.01), model_prior=wv.BetaBinomial(size=1.0),
            ))
        ).inclusion_probabilities  # fmt: skip
        assert own_pips("cohort-run", name) == pytest.approx(alone[alone >= 0.01].to_dict(), abs=1e-9)
    sets = pd.read_csv("cohort-run/credible_sets.csv", dtype={"chromosome": str})
    first = sets[sets["response"] == "tall"].iloc[0]
    assert first[["variable", "chromosome", "position", "allele1", "allele2"]].tolist() == [
        "rs1",
        "6",
        2,
        "A",
        "G",
    ]
    assert set(sets["response"]) >= {"tall", "wide"}
    settings = json.loads(Path("cohort-run/settings.json").read_text())
    assert settings["responses"] == ["tall", "loud", "wide", "never"]
    assert settings["result"]["not_fitted"] == 1


def test_responses_of_a_table_have_the_priors_and_the_posterior_of_single_runs(call: Call) -> None:
    call("fit", "table.csv", "--responses", "tall,wide", "--drop", "loud", "--covariates", "people.csv")
    call("fit", "table.csv", "-y", "tall", "--drop", "loud,wide", "--covariates", "people.csv", "--missing", "drop", "--out", "alone", "--no-report")  # fmt: skip
    alone = pd.read_csv("alone/summary.csv").set_index("variable")["pip"]
    assert "site" in alone.index
    assert own_pips("table-run", "tall") == pytest.approx(alone[alone >= 0.01].to_dict(), abs=1e-9)
    assert pd.read_csv("table-run/responses.csv")["rows"].tolist() == [66, 80]
    # tables have no chromosomes
    assert "chromosome" not in pd.read_csv("table-run/credible_sets.csv").columns


def test_runs_of_both_kinds_replace_one_another_without_leaving_files(call: Call) -> None:
    one = ("fit", "table.csv", "-y", "wide", "--drop", "tall,loud,IID", "--no-report")
    many = ("fit", "table.csv", "--responses", "wide,loud", "--drop", "tall,IID")
    call(*one)
    call(*many, code=2)
    call(*many, "--overwrite")
    files = {"responses.csv", "variables.csv", "credible_sets.csv", "settings.json"}
    assert {file.name for file in Path("table-run").iterdir()} == files
    for command in (["predict", "table-run", "table.csv"], ["report", "table-run"]):
        assert "a run of several responses, of which only tables are kept" in call(*command, code=2).stderr
    call(*one, "--overwrite")
    assert not {"responses.csv", "variables.csv"} & {file.name for file in Path("table-run").iterdir()}


def test_output_for_people_and_for_machines(call: Call) -> None:
    shown = call("fit", "table.csv", "--responses", "wide,loud", "--drop", "tall,IID").stdout
    assert "largest error" in shown
    assert "c4" in shown
    assert "1 of 2 responses has a credible set." in shown
    found = json.loads(call("fit", "table.csv", "--responses", "wide,tall", "--drop", "loud,IID", "--json", "--out", "b").stdout)  # fmt: skip
    assert [row["lead"] for row in found["table"]] == ["c1", "c4"]
    assert {row["response"] for row in found["credible_sets"]} == {"tall", "wide"}
    assert call("fit", "table.csv", "--responses", "wide,tall", "--drop", "loud,IID", "--quiet", "--out", "c").output == ""  # fmt: skip
    binary = pd.read_csv("table.csv").assign(case=(COUNTS[:, 0] > 0).astype(int))
    binary.to_csv("binary.csv", index=False)
    said = call("fit", "binary.csv", "--responses", "wide,case", "--drop", "tall,loud,IID").stderr
    said = " ".join(said.split())
    assert "such as counts: 'case'. --responses fits the linear model to them" in said
    assert "one by one with --response and --family" in said


def test_responses_that_are_not_accurate_are_named_and_change_the_exit_code(call: Call) -> None:
    wide = pd.DataFrame(RNG.normal(size=(N, 30)), columns=[f"z{j}" for j in range(30)])
    wide.assign(u=wide["z3"] + 2 * RNG.normal(size=N), v=RNG.normal(size=N)).to_csv("wide.csv", index=False)
    command = ("fit", "wide.csv", "--responses", "u,v", "--overwrite")
    shown = call(*command, "--draws", 10, code=3).stdout
    assert "DO NOT TRUST ALL OF THESE NUMBERS YET" in shown
    call(*command)
    assert pd.read_csv("wide-run/responses.csv")["converged"].all()
    call(*command, "--draws", 5000, "--target-mcse", 1e-6, code=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-y", "tall"], "--response cannot be combined with --responses"),
        (["--family", "logistic"], "--family logistic cannot be combined with --responses"),
        (["--missing", "impute"], "--missing impute cannot be combined with --responses"),
        (["--budget", "1m"], "--budget cannot be combined with --responses; say how accurate"),
        (["--always", "c1"], "--always cannot be combined with --responses; put the columns into a file"),
        (["--sampler", "asi"], "--sampler cannot be combined with --responses"),
        (["--log"], "--log cannot be combined with --responses"),
        (["--title", "x"], "--title cannot be combined with --responses"),
        (["--drop", "tall"], "column 'tall' is a response, so it cannot be dropped"),
        (["--responses", "size"], "--responses: there is no column 'size'"),
        (["--responses", "site"], "the response 'site' contains words"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_it_is_refused_by_name(call: Call, options: list[str], message: str) -> None:
    result = call("fit", "table.csv", "--responses", "tall", *options, code=2)
    assert message in " ".join(result.stderr.split())
    assert not Path("table-run").exists()


def test_a_response_must_be_named(call: Call) -> None:
    assert "--response, or several with --responses" in call("fit", "table.csv", code=2).stderr
    assert "name the response with --response" in call("exact", "table.csv", code=2).stderr
    assert (
        "no column left besides the responses"
        in call("fit", "table.csv", "--responses", "all", code=2).stderr
    )
    assert "name it with --phenotypes" in " ".join(call("fit", "cohort.bed", "--responses", "all", code=2).stderr.split())  # fmt: skip


def test_rows_that_lack_another_column_are_left_out_if_asked(call: Call) -> None:
    table = pd.read_csv("table.csv").drop(columns=["IID"])
    table.loc[[1, 2], "c0"] = np.nan
    table.to_csv("gaps.csv", index=False)
    assert "c0" in call("fit", "gaps.csv", "--responses", "tall,loud,wide", code=2).stderr
    said = call("fit", "gaps.csv", "--responses", "tall,loud,wide", "--missing", "drop").stderr
    assert "2 of 80 rows are left out." in said
    assert pd.read_csv("gaps-run/responses.csv")["rows"].tolist() == [64, 78, 78]


# --- runs that are interrupted


BED = ("cohort.bed", "--phenotypes", "traits.csv", "--responses", "all", "--covariates", "people.csv", "--draws", 300)  # fmt: skip
TABLES = ("responses.csv", "credible_sets.csv", "variables.csv")


def tables(directory: str) -> list[pd.DataFrame]:
    frames = [pd.read_csv(f"{directory}/{name}") for name in TABLES]
    return [frame.drop(columns="cpu_seconds", errors="ignore") for frame in frames]


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Make the run end with Ctrl-C when so many responses are done."""
    from whichvars.sampling.progress import CountedProgress

    def stop(self: CountedProgress, done: int) -> None:
        if done == after:
            raise KeyboardInterrupt

    monkeypatch.setattr(CountedProgress, "update", stop)


@pytest.mark.parametrize("data", [BED, ("table.csv", "--responses", "tall,loud,wide", "--drop", "IID")])
def test_a_run_that_was_interrupted_can_be_resumed(
    call: Call, data: tuple[object, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    call("fit", *data, "--out", "whole")
    assert not Path("whole/checkpoint").exists()
    assert not Path("whole/unfinished.json").exists()
    with monkeypatch.context() as patched:
        interrupt(patched, 2)
        stopped = call("fit", *data, "--out", "parts", code=130)
    assert "whichvars resume parts" in " ".join(stopped.stderr.split())
    assert len(list(Path("parts/checkpoint").glob("response-*.json"))) == 2
    refused = call("fit", *data, "--out", "parts", code=2)
    assert "unfinished run; continue it with `whichvars resume parts`" in " ".join(refused.stderr.split())
    # from another directory too
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    call("resume", "../parts")
    monkeypatch.chdir(tmp_path)
    for one, other in zip(tables("parts"), tables("whole")):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
    assert sorted(f.name for f in Path("parts").iterdir()) == sorted(f.name for f in Path("whole").iterdir())
    first, second = (json.loads(Path(f"{name}/settings.json").read_text()) for name in ("whole", "parts"))
    for name in ("data", "responses", "asked", "problem", "notes"):
        assert first[name] == second[name]


def test_files_that_changed_or_vanished_meanwhile_are_named(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        interrupt(patched, 1)
        call("fit", *BED, "--out", "parts", code=130)
    people = Path("people.csv").read_text()
    Path("people.csv").write_text(people.replace("age", "years"))
    said = " ".join(call("resume", "parts", code=2).stderr.split())
    assert "people.csv has changed since the run in parts began; start it again" in said
    Path("people.csv").unlink()
    said = " ".join(call("resume", "parts", code=2).stderr.split())
    assert "people.csv, from which the run in parts began; put it back" in said
    Path("people.csv").write_text(people)
    alleles = Path("cohort.bim").read_text()
    Path("cohort.bim").write_text("\n".join(alleles.splitlines()[::-1]) + "\n")
    said = " ".join(call("resume", "parts", code=2).stderr.split())
    assert "X, the covariates or the priors are others" in said
    Path("cohort.bim").write_text(alleles)
    call("resume", "parts")


@pytest.mark.rest
def test_a_cluster_gives_the_same_tables(call: Call, tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    with cluster(tmp_path / "cluster", 1) as processes:
        call("fit", *BED, "--out", "there", "--dask", processes.address)
    call("fit", *BED, "--out", "here")
    for one, other in zip(tables("there"), tables("here")):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
