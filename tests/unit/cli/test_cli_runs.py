"""The commands that work on the user's files: run directories, exit codes, messages without tracebacks."""

import csv
import gc
import io
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import whichvars as wv
from whichvars.cli import main
from whichvars.cli.options import SAMPLERS, SLABS, parse_slab
from whichvars.cli.runs import is_accurate, protect, to_csv
from whichvars.cli.show import best_models, new_console, notes, percents, wrapped
from whichvars.errors import DataError
from whichvars.sampling.checkpoint import Passing

Call = Callable[..., Result]


REAL_REPORT = wv.Posterior.report


def write_word(posterior: wv.Posterior, path: Path, *_: object, **__: object) -> None:
    path.write_text("report")


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run a command in a directory of its own, with a report that costs nothing; no exception but an exit may come
    out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wv.Posterior, "report", write_word, raising=False)

    def run(*arguments: object, code: int = 0) -> Result:
        result = CliRunner().invoke(main, [str(a) for a in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code, result.output
        return result

    return run


def test_notes_name_options_where_warnings_name_python(capsys: pytest.CaptureFixture[str]) -> None:
    with notes(quiet=False) as found:
        warnings.warn(
            "use ParallelTempering(). posterior.explain() says more", wv.ConvergenceWarning, stacklevel=1
        )
    assert capsys.readouterr().err == "Note: Use --sampler tempering. The report says more.\n"
    assert len(found) == 1


def test_a_command_leaves_the_search_for_garbage_as_it_was(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = gc.get_threshold(), []
    monkeypatch.setattr(
        "whichvars.cli.data.new_console", lambda: seen.append(gc.get_threshold()) or new_console()
    )
    call("datasets", "list")
    assert seen[0][0] > before[0]
    assert gc.get_threshold() == before


def frame(p: int = 4, n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(p)
    X = pd.DataFrame(rng.normal(size=(n, p)), columns=[f"x{j}" for j in range(p)])
    X.insert(0, "y", 2 * X["x0"] - X["x1"] + rng.normal(size=n))
    X["site"] = np.array(["north", "south", "west"])[np.arange(n) % 3]
    return X


@pytest.fixture
def small(tmp_path: Path) -> Path:
    frame().to_csv(tmp_path / "small.csv", index=False)
    return tmp_path / "small.csv"


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """Too many variables for "auto" to look at every model."""
    frame(20).to_csv(tmp_path / "wide.csv", index=False)
    return tmp_path / "wide.csv"


# --- fit


def test_a_run_directory_has_everything(call: Call, small: Path) -> None:
    result = call("fit", small, "--response", "y", "--always", "x1", "--drop", "x3", "--seed", 7)
    run = small.parent / "small-run"
    assert "Written to small-run" in result.output
    assert "The probabilities are exact" in result.output
    assert "category with 3 levels" in result.stderr
    posterior = wv.Posterior.load(run / "posterior.npz")
    assert posterior.problem.names == ["x0", "x2", "site"]
    assert posterior.problem.always_names == ["x1"]
    summary = pd.read_csv(run / "summary.csv", index_col="variable")
    np.testing.assert_allclose(summary["pip"], posterior.summary()["pip"])
    assert len(pd.read_csv(run / "top_models.csv")) == 8
    settings = json.loads((run / "settings.json").read_text())
    assert settings["asked"]["seed"] == 7
    assert settings["versions"]["whichvars"] == wv.__version__
    assert settings["data"]["rows"] == 40
    assert len(settings["data"]["sha256"]) == 64
    assert settings["encoding"]["levels"] == {"site": ["north", "south", "west"]}
    assert settings["result"]["converged"] is True
    assert str(small.parent) not in (run / "settings.json").read_text()


def test_sampling_gives_what_sample_gives(call: Call, wide: Path) -> None:
    call(
        "fit",
        wide,
        "-y",
        "y",
        "--draws",
        20000,
        "--slab",
        "g-prior:n",
        "--prior-size",
        3,
        "--out",
        "out",
        "--seed",
        3,
    )
    posterior = wv.Posterior.load("out/posterior.npz")
    data = pd.read_csv(wide)
    X = data.drop(columns=["y", "site"]).assign(
        **{"site=south": data["site"] == "south", "site=west": data["site"] == "west"}
    )
    problem = wv.Problem(
        X,
        data["y"],
        slab=wv.GPrior("n"),
        model_prior=wv.BetaBinomial(size=3),
        groups={"site": ["site=south", "site=west"]},
    )
    again = wv.sample(problem, draws=20000, seed=3, progress=False)
    np.testing.assert_array_equal(posterior.pip, again.pip)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_can_be_named(
    sampler: str, call: Call, wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    posterior = wv.exact(wv.Problem(np.eye(5)[:, :2], np.arange(5.0) / 2))

    def sample(problem: Any, **options: Any) -> Any:
        asked.append(options)
        return posterior

    monkeypatch.setattr(wv, "sample", sample)
    monkeypatch.setattr("whichvars.cli.fitting.check_fit", lambda *arguments: None)  # it is another posterior
    call(
        "fit",
        wide,
        "-y",
        "y",
        "--sampler",
        sampler,
        "--quiet",
        "--budget",
        "2m",
        "--target-mcse",
        0.01,
        "--threads",
        1,
    )
    (options,) = asked
    assert type(options.pop("sampler")).__name__ == SAMPLERS[sampler]
    assert options == {
        "replicates": 4,
        "threads": 1,
        "seed": 0,
        "budget": 120.0,
        "target_mcse": 0.01,
        "progress": False,
        "checkpoint": Passing(Path("wide-run/checkpoint")),
    }


def test_what_is_not_given_is_left_to_sample(call: Call, wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    posterior = wv.exact(wv.Problem(np.eye(5)[:, :2], np.arange(5.0) / 2))
    monkeypatch.setattr(wv, "sample", lambda problem, **options: asked.append(options) or posterior)
    monkeypatch.setattr("whichvars.cli.fitting.check_fit", lambda *arguments: None)
    call("fit", wide, "-y", "y", "--quiet")
    call("fit", wide, "-y", "y", "--quiet", "--overwrite", "--budget", "1e6", "--replicates", 3)
    common = {
        "sampler": "auto",
        "threads": None,
        "seed": 0,
        "progress": False,
        "checkpoint": Passing(Path("wide-run/checkpoint")),
    }
    assert asked == [{**common, "replicates": 4}, {**common, "replicates": 3, "draws": 333_334}]
    call("fit", wide, "-y", "y", "--overwrite", "--budget", "1e6", "--draws", 10, code=2)


def test_inaccurate_runs_exit_with_3_and_say_so(call: Call, wide: Path) -> None:
    result = call(
        "fit", wide, "-y", "y", "--draws", 10, "--replicates", 2, "--sampler", "add-delete-swap", code=3
    )
    verdict = "DO NOT TRUST THESE NUMBERS YET"
    assert result.output.count(verdict) == 1
    assert result.output.index(verdict) < result.output.index("probability it matters")  # before any number
    assert json.loads(Path("wide-run/settings.json").read_text())["result"]["converged"] is False


def test_the_priors_are_named_beside_the_probabilities(call: Call, wide: Path) -> None:
    options = ("--sampler", "add-delete-swap", "--slab", "independent:4", "--prior-size", 3)
    result = call("fit", wide, "-y", "y", "--draws", 10, "--replicates", 2, *options, code=3)
    text = " ".join(result.output.split())
    named = "Under IndependentNormal(g=4.0) for coefficients and BetaBinomial(size=3.0) for models; --slab and --prior-size choose others."
    assert text.index("probability it matters") < text.index(named)


def test_a_target_is_the_measure_of_accuracy() -> None:
    rng = np.random.default_rng(1)
    problem = wv.Problem(rng.normal(size=(20, 2)), rng.normal(size=20))
    posterior = wv.sample(problem, wv.AddDeleteSwap(), draws=2000, seed=1, progress=False)
    object.__setattr__(posterior, "mcse", np.array([0.02, np.nan]))
    assert is_accurate(posterior)
    assert is_accurate(posterior, 0.02)
    assert not is_accurate(posterior, 0.01)


def test_json_is_all_there_is(call: Call, small: Path) -> None:
    result = call("fit", small, "-y", "y", "--json")
    found = json.loads(result.stdout)
    assert result.stderr == ""
    assert found["run"] == "small-run"
    assert {v["variable"] for v in found["variables"]} == {"x0", "x1", "x2", "x3", "site"}
    assert found["variables"][0]["ess"] is None  # infinite: exact
    assert found["top_models"][0]["size"] >= 2
    assert call("fit", small, "-y", "y", "--quiet", "--out", "b").output == ""


def test_exact_looks_at_every_model_or_refuses(call: Call, wide: Path) -> None:
    call("exact", wide, "-y", "y", "--max-size", 2)
    assert wv.Posterior.load("wide-run/posterior.npz").iterations == 1 + 21 + 210
    frame(40).to_csv("wider.csv", index=False)
    assert "more than max_models" in call("exact", "wider.csv", "-y", "y", code=2).stderr
    assert not Path("wider-run").exists()


def test_the_report_is_made_where_it_can_be(call: Call, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Report: small-run/report.html" in call("fit", small, "-y", "y").output
    Path("small-run/report.html").unlink()
    assert call("report", "small-run").output.strip() == "small-run/report.html"
    call("report", "small-run", "--out", "else.html")
    assert Path("else.html").read_text() == Path("small-run/report.html").read_text() == "report"
    call("fit", small, "-y", "y", "--overwrite", "--no-report")
    assert not Path("small-run/report.html").exists()
    monkeypatch.setattr("whichvars.cli.runs.missing_for_report", lambda: ["jinja2"])
    assert (
        "No report was written; it needs: pip install jinja2"
        in call("fit", small, "-y", "y", "--overwrite").output
    )
    assert "pip install jinja2" in call("report", "small-run", code=2).stderr


def test_the_real_report_is_a_page(call: Call, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wv.Posterior, "report", REAL_REPORT)
    call("fit", small, "-y", "y")
    assert "</html>" in Path("small-run/report.html").read_text(encoding="utf-8")


# --- mistakes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("y,x\n1,2\n2,abc\n3,4\n", "column 'x' has 'abc' in row 2"),
        ("y,x,x\n1,2,3\n", "columns 2 and 3 are both called 'x'"),
        ("z,x\n1,2\n", "there is no column 'y' to be the response"),
        ("y,x\n1,1\n2,1\n3,1\n", "every candidate column is constant"),
        ("y,x\n1,1\n1,2\n1,3\n", "the response 'y' is 1 in every row"),
        ("y,x\n1,1\n", "at least 3 are needed"),
        ("y,when\n1,2024-01-01\n2,2024-01-02\n", "contains dates"),
        ("", "is empty"),
    ],
)
def test_bad_data_give_a_message_and_leave_nothing(content: str, message: str, call: Call) -> None:
    Path("bad.csv").write_text(content)
    result = call("fit", "bad.csv", "-y", "y", code=2)
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert os.listdir() == ["bad.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--slab", "gprior"], "choose among independent, g-prior"),
        (["--slab", "bic:3"], "bic takes no number"),
        (["--slab", "g-prior:many"], "'many'"),
        (["--slab", "independent:-1"], "must be positive"),
        (["--slab", "independent:x"], "must be a number"),
        (["--prior-size", "99"], "size of 99 needs more than the 5 variables"),
        (["--budget", "soon"], "budget 'soon' cannot be read"),
        (["--target-mcse", "0"], "--target-mcse must lie between 0 and 1"),
        (["--sampler", "gibbs"], "Invalid value for '--sampler'"),
        (["--drop", "nothere"], "drop: there is no column 'nothere'"),
        (["--max-size", "0"], "max_size must be a whole number"),
        (["--out", "small.csv"], "small.csv is a file"),
    ],
)
def test_bad_options_give_a_message(arguments: list[str], message: str, call: Call, small: Path) -> None:
    assert message in call("fit", small, "-y", "y", *arguments, code=2).stderr


def test_bad_settings_of_a_run_give_a_message(call: Call, wide: Path) -> None:
    for option, message in [
        ("--draws", "draws must be"),
        ("--replicates", "replicates must be"),
        ("--threads", "threads must be"),
    ]:
        assert message in call("fit", wide, "-y", "y", "-q", option, 0, code=2).stderr
    assert (
        "draws must be a whole number" in call("fit", wide, "-y", "y", "-q", "--draws", 10.5, code=2).stderr
    )
    assert not Path("wide-run").exists()


def test_no_file_and_no_run(call: Call, small: Path) -> None:
    assert "nowhere.csv: No such file" in call("fit", "nowhere.csv", "-y", "y", code=2).stderr
    assert "there is no directory nowhere" in call("predict", "nowhere", small, code=2).stderr
    assert "contains no run" in call("report", ".", code=2).stderr


def test_a_run_is_replaced_only_when_asked(call: Call, small: Path) -> None:
    call("fit", small, "-y", "y", "-q")
    before = Path("small-run/posterior.npz").read_bytes()
    assert "--overwrite" in call("fit", small, "-y", "y", code=2).stderr
    assert Path("small-run/posterior.npz").read_bytes() == before
    call("fit", small, "-y", "y", "-q", "--overwrite", "--slab", "bic")
    assert Path("small-run/posterior.npz").read_bytes() != before
    Path("mine").mkdir()
    Path("mine/thesis.txt").touch()
    assert (
        "contains no run of whichvars"
        in call("fit", small, "-y", "y", "--out", "mine", "--overwrite", code=2).stderr
    )


def test_a_directory_that_cannot_be_written_is_noticed_before_the_run(
    call: Call, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("whichvars.cli.runs.tempfile.TemporaryFile", refuse)
    monkeypatch.setattr(wv, "sample", lambda problem, **options: pytest.fail("it ran"))
    assert "cannot write to small-run: Permission denied" in call("fit", small, "-y", "y", code=2).stderr


def test_interrupts_leave_a_message_and_no_directory(
    call: Call, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(problem: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(wv, "sample", interrupt)
    assert "interrupted; nothing was written" in call("fit", small, "-y", "y", code=130).stderr
    assert not Path("small-run").exists()


def test_a_run_interrupted_later_is_written_with_what_was_counted(
    call: Call, wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = wv.sample

    def sample(problem: Any, sampler: Any = "auto", **options: Any) -> wv.Posterior:
        def stop(report: Any) -> None:
            if report.done > 50_000:
                raise KeyboardInterrupt

        return real(problem, sampler, **{**options, "progress": stop, "warmup": 1000, "chunk": 1000})

    monkeypatch.setattr(wv, "sample", sample)
    result = call("fit", wide, "-y", "y", "--draws", 1e9, "--out", "part", code=130)
    assert "Note: Interrupted after" in result.stderr
    assert 50_000 < wv.Posterior.load("part/posterior.npz").iterations < 10**9
    assert "Continue with: whichvars resume part" in result.output
    assert (
        "unfinished run; continue it with `whichvars resume part`"
        in call("fit", wide, "-y", "y", "--out", "part", code=2).stderr
    )


def test_resume_gives_what_an_uninterrupted_run_gives(
    call: Call, wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("fit", wide, "-y", "y", "--draws", 30_000, "--out", "whole", "-q", "--no-report")
    assert sorted(p.name for p in Path("whole").iterdir()) == ["posterior.npz", "residual_check.npz", "settings.json", "summary.csv", "top_models.csv"]  # fmt: skip
    real = wv.sample

    def sample(problem: Any, sampler: Any, **options: Any) -> wv.Posterior:
        def stop(report: Any) -> None:
            raise KeyboardInterrupt

        return real(problem, sampler, **{**options, "progress": stop, "chunk": 1000})

    monkeypatch.setattr(wv, "sample", sample)
    interrupted = call(
        "fit", wide, "-y", "y", "--draws", 30_000, "--out", "part", "-q", "--no-report", code=130
    )
    assert "interrupted; continue with: whichvars resume part" in interrupted.stderr
    call("resume", "part", "-q", "--no-report")
    assert Path("part/summary.csv").read_bytes() == Path("whole/summary.csv").read_bytes()
    a, b = (wv.Posterior.load(f"{place}/posterior.npz") for place in ("whole", "part"))
    assert a.settings == b.settings
    assert a.pip.tobytes() == b.pip.tobytes()
    assert not Path("part/checkpoint").exists()
    assert not Path("part/unfinished.json").exists()
    settings = [json.loads(Path(place, "settings.json").read_text()) for place in ("whole", "part")]
    assert settings[0]["encoding"] == settings[1]["encoding"]
    assert settings[0]["notes"] == settings[1]["notes"]
    assert "is finished; there is nothing to continue" in call("resume", "part", code=2).stderr


def test_resume_needs_a_run(call: Call) -> None:
    Path("empty").mkdir()
    assert "contains no unfinished run" in call("resume", "empty", code=2).stderr
    Path("empty/unfinished.json").write_text("{")
    assert "damaged" in call("resume", "empty", code=2).stderr


def test_paths_with_blanks_and_letters_of_all_kinds(call: Call) -> None:
    place = Path("Übung 1/données")
    place.mkdir(parents=True)
    frame().rename(columns={"x0": "Größe [cm]", "x1": "=1+1"}).to_csv(
        place / "файл mit Leer.csv", index=False
    )
    call("fit", place / "файл mit Leer.csv", "-y", "y", "--out", place / "ein Lauf", "--always", "Größe [cm]")
    assert wv.Posterior.load(place / "ein Lauf" / "posterior.npz").problem.always_names == ["Größe [cm]"]
    assert "'=1+1" in pd.read_csv(place / "ein Lauf" / "summary.csv")["variable"].tolist()


def test_names_with_commas_can_be_given(call: Call) -> None:
    frame().rename(columns={"x0": "a,b"}).to_csv("commas.csv", index=False)
    call("fit", "commas.csv", "-y", "y", "-q", "--always", "a,b", "--drop", "x1, x2")
    posterior = wv.Posterior.load("commas-run/posterior.npz")
    assert (posterior.problem.always_names, posterior.problem.names) == (["a,b"], ["x3", "site"])


def test_names_cannot_steer_a_terminal(call: Call) -> None:
    frame().rename(columns={"x0": "a\x1b[31m", "x1": "[red]b[/red]", "x2": "[/]"}).to_csv(
        "odd.csv", index=False
    )
    output = call("fit", "odd.csv", "-y", "y").output
    assert "\x1b" not in output
    assert "[red]b[/red]" in output
    assert "[/]" in output


def test_a_constant_column_is_left_out_with_a_note(call: Call) -> None:
    frame().assign(x2=1).to_csv("constant.csv", index=False)
    assert "Left out 1 column" in call("fit", "constant.csv", "-y", "y").stderr
    settings = json.loads(Path("constant-run/settings.json").read_text())
    assert settings["problem"]["left_out"] == {"x2": "constant"}
    assert any("left out 1 column" in note for note in settings["notes"])
    frame().drop(columns="x2").to_csv("new.csv", index=False)
    call("predict", "constant-run", "new.csv", code=2)  # the run was made with it


def test_many_columns(call: Call) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 20_000)).round(2)
    lines = [",".join(["y", *(f"v{j}" for j in range(X.shape[1]))])]
    lines += [",".join(map(str, [3 * row[5], *row])) for row in X.tolist()]
    Path("many.csv").write_text("\n".join(lines))
    result = call(
        "fit",
        "many.csv",
        "-y",
        "y",
        "--draws",
        5000,
        "--replicates",
        2,
        "--out",
        "many",
        "--slab",
        "independent:10",
    )
    assert "19,985 more" in result.output


# --- predict, compare, datasets, doctor


def test_predictions_are_the_posteriors(call: Call, small: Path) -> None:
    call("fit", small, "-y", "y", "-q")
    new = frame(n=45).iloc[40:].drop(columns="y")
    new[["site", "x3", "x0", "x2", "x1"]].assign(extra="2024-01-01").to_csv("new.csv", index=False, sep=";")
    found = pd.read_csv(io.StringIO(call("predict", "small-run", "new.csv", "--interval", 0.9).stdout))
    posterior = wv.Posterior.load("small-run/posterior.npz")
    X = new.drop(columns="site").assign(
        **{"site=south": new["site"] == "south", "site=west": new["site"] == "west"}
    )
    mean, std, ends = posterior.predict(X, return_std=True, interval=0.9)
    np.testing.assert_allclose(found, np.column_stack([range(1, 6), mean, std, ends]))
    call("predict", "small-run", "new.csv", "--out", "predicted.csv", "--estimator", "HPM")
    np.testing.assert_allclose(pd.read_csv("predicted.csv")["mean"], posterior.predict(X, "HPM"))
    assert json.loads(call("predict", "small-run", "new.csv", "--json").stdout)[0]["row"] == 1
    Path("new.csv").write_text("x0,x1,x2,x3,site\n1,2,3,4,east\n")
    assert "column 'site' has 'east' in row 1" in call("predict", "small-run", "new.csv", code=2).stderr


def test_a_damaged_run_is_refused(call: Call, small: Path) -> None:
    call("fit", small, "-y", "y", "-q")
    content = Path("small-run/posterior.npz").read_bytes()
    Path("small-run/posterior.npz").write_bytes(content[:-100])
    assert "damaged" in call("predict", "small-run", small, code=2).stderr
    Path("small-run/settings.json").write_text("{")
    assert "settings.json is damaged" in call("predict", "small-run", small, code=2).stderr


def test_the_demonstration_leaves_a_run_like_any_other(call: Call) -> None:
    call("demo", "--quick")
    call("datasets", "export", "tecator")
    assert len(call("predict", "whichvars-demo", "tecator.csv").stdout.splitlines()) == 173
    assert "Different" not in call("compare", "whichvars-demo", "whichvars-demo").output


def test_runs_side_by_side(call: Call, wide: Path) -> None:
    call("fit", wide, "-y", "y", "-q", "--draws", 5000, "--out", "a")
    call(
        "fit",
        wide,
        "-y",
        "y",
        "-q",
        "--draws",
        5000,
        "--out",
        "b",
        "--slab",
        "bic",
        "--drop",
        "x7",
        "--seed",
        1,
    )
    found = json.loads(call("compare", "a", "b", "--json").stdout)
    a, b = (wv.Posterior.load(f"{name}/posterior.npz") for name in "ab")
    assert any("Different slab" in line for line in found["differences"])
    assert len(found["variables"]) == 21
    for row in found["variables"]:
        name = row["variable"]
        if name == "x7":
            assert row["pip_second"] is None
        else:
            difference = b.inclusion_probabilities[name] - a.inclusion_probabilities[name]
            assert row["difference"] == pytest.approx(difference)
            error = np.hypot(a.inclusion_mcse[name], b.inclusion_mcse[name])
            assert (
                row["errors"] is None
                if np.isnan(error)
                else row["errors"] == pytest.approx(difference / error)
            )
    sizes = [abs(row["difference"] or 0) for row in found["variables"][:-1]]
    assert sizes == sorted(sizes, reverse=True)
    output = call("compare", "a", "b", "--rows", 3).output
    heading = next(line for line in output.splitlines() if line.startswith("variable"))
    assert heading.split()[1:3] == ["a", "b"]  # the names of the runs
    assert heading.endswith("difference, points  standard errors")
    assert "Different slab: IndependentNormal(g=1.0) and BIC()" in output
    assert "18 more" in output


def test_bundled_data_as_files(call: Call) -> None:
    assert "tecator" in call("datasets", "list").output
    for name, response in [("boston", None), ("growth", None), ("tecator", None), ("uscrime", "log_crime")]:
        result = call("datasets", "export", name)
        data = pd.read_csv(f"{name}.csv")
        bundled = getattr(wv.datasets, f"load_{name}")()
        assert data.columns[0] == bundled.y.name == (response or bundled.y.name)
        np.testing.assert_allclose(data.iloc[:, 1:], bundled.X)
        assert str(bundled.y.name) in result.stderr
    assert "--overwrite" in call("datasets", "export", "boston", code=2).stderr
    call("datasets", "export", "boston", "--overwrite")


def test_doctor_checks_and_can_fail(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whichvars.cli.checkup.DRAWS", 5000)
    output = call("doctor").output
    assert "Works:" in output
    assert "numba" in output
    monkeypatch.setattr("whichvars.cli.checkup.LIMIT", 0.0)
    assert "Does not work" in call("doctor", code=1).output


# --- small parts


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum", "\tx", "\rx", "=a\r=b"])
def test_formulas_are_protected(text: str) -> None:
    assert protect(text) == "'" + text
    table = to_csv(pd.DataFrame({text: [-1.0], "words": [text], "more": pd.Categorical([text])}))
    header, row = csv.reader(io.StringIO(table, newline=""))
    assert header == ["'" + text, "words", "more"]
    assert row == ["-1.0", "'" + text, "'" + text]


def test_every_slab_has_a_name() -> None:
    for name in SLABS:
        assert type(parse_slab(name)).__name__ == SLABS[name]
    with pytest.raises(DataError, match="a must be above 2"):
        parse_slab("hyper-g:1")


def test_every_option_has_help() -> None:
    for command in main.commands.values():
        assert command.help
        for parameter in command.params:
            assert isinstance(parameter, click.Argument) or parameter.help, (command.name, parameter.name)


def test_a_rare_model_is_not_said_to_be_impossible():
    class Run:
        class models:
            exact, mcse = False, None

        def top_models(self, n: int) -> pd.DataFrame:
            errors = [0.01, 2e-5, np.nan]
            return pd.DataFrame(
                {"probability": [0.25, 6e-4, 4e-5], "mcse": errors, "variables": ["a", "b", ""]}
            ).head(n)

    column = best_models(new_console(), Run(), 3).columns[0]
    assert [cell.replace("+-", "±") for cell in column.cells] == [
        "25.00 ±  1.00%",
        "0.06 ± <0.01%",
        "<0.01 ±     ?%",
    ]


def test_notes_end_lines_between_words_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.StringIO):
        def __init__(self, terminal: bool) -> None:
            super().__init__()
            self.terminal = terminal

        def isatty(self) -> bool:
            return self.terminal

    monkeypatch.setenv("COLUMNS", "40")
    message = "Note: 5 rows (7, 30, 35, 39, 71) are influential: see a/path/that-is-longer-than/one-line/of/the/terminal"
    assert wrapped(message, Stream(terminal=False)) == message
    lines = wrapped(message, Stream(terminal=True)).split("\n")
    assert " ".join(lines) == message
    assert [len(line) <= 40 for line in lines] == [True, True, False]  # a path is not broken


def test_errors_have_as_many_digits_as_their_probabilities() -> None:
    class Run:
        mcse = np.array([0.001])

    def shown(*errors: float) -> list[str]:
        lines = percents(new_console(), Run(), [0.598] * len(errors), errors)
        return [line.replace("+-", "±") for line in lines]

    assert shown(0.0012, 1e-5, np.nan) == [" 59.8 ±  0.1%", " 59.8 ± <0.1%", " 59.8 ±    ?%"]
    assert shown(0.0012, 0.004) == [" 59.8 ± 0.1%", " 59.8 ± 0.4%"]
    Run.mcse = np.array([1e-5, np.nan])  # an error that is not known is not left out
    assert shown(1e-5, np.nan) == [" 59.8 ± <0.1%", " 59.8 ±    ?%"]
    Run.mcse = np.array([1e-5, 2e-5])  # no error that one decimal shows
    assert shown(1e-5) == [" 59.8%"]
