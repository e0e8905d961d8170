"""Responses that are not Gaussian on the command line: which family it takes, what it prints, and what is in the files."""

import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import whichvars as wv
from whichvars.cli import main

REAL_REPORT = wv.Posterior.report
N = 60
RNG = np.random.default_rng(4)
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=list("abc")).round(4)
ETA = 1.5 * X["a"] - X["b"]
YES = RNG.uniform(size=N) < 1 / (1 + np.exp(-ETA))
YEARS = RNG.uniform(1, 9, N).round(2)
VISITS = RNG.poisson(YEARS * np.exp(0.6 * X["c"] - 1))
TRIES = RNG.integers(1, 9, N)
HITS = RNG.binomial(TRIES, 1 / (1 + np.exp(-ETA)))
SITE = np.array(["north", "south", "west"])[np.arange(N) % 3]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command in a directory of its own, with a report that costs nothing; no exception but an exit may come out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wv.Posterior, "report", lambda posterior, path, *_, **__: path.write_text("report"))

    def run(*arguments: object, code: int = 0, **columns: Any) -> Any:
        if columns:
            X.assign(**columns).to_csv("d.csv", index=False)
        result = CliRunner().invoke(main, [str(a) for a in arguments], env={"COLUMNS": "100"})
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code, result.output
        return result

    return run


def run_of(name: str = "d-run") -> tuple[wv.Posterior, dict[str, Any]]:
    settings = json.loads(Path(name, "settings.json").read_text())
    return wv.Posterior.load(f"{name}/posterior.npz"), settings


# --- which family


@pytest.mark.parametrize(
    ("y", "shown", "classes"),
    [
        (np.where(YES, "Yes", "No"), "No, Yes", ("No", "Yes")),
        (YES, "False, True", (False, True)),
        (YES.astype(int), "0, 1", (0, 1)),
        (np.where(YES, 2.5, 1.0), "1, 2.5", (1, 2.5)),
    ],
)
def test_two_values_are_logistic(call: Any, y: Any, shown: str, classes: tuple[Any, ...]) -> None:
    result = call("fit", "d.csv", "-y", "type", type=y)
    second = shown.split(", ")[1]
    assert (
        f"Note: The response 'type' has two values ({shown}): logistic regression for {second}; --family gaussian for the "
        "linear model.\n" in result.stderr
    )
    assert "8 models, which are all fitted" in result.stderr
    posterior, settings = run_of()
    assert posterior.problem.classes == classes
    np.testing.assert_array_equal(posterior.pip, wv.exact(wv.Problem(X, y, family="logistic")).pip)
    assert settings["family"] == "auto"
    assert settings["problem"]["family"] == "Logistic()"
    assert tuple(settings["problem"]["classes"]) == classes
    assert settings["problem"]["evidence"] == "auto"
    assert any("two values" in note for note in settings["notes"])


def test_what_is_printed_and_written(call: Any) -> None:
    result = call("fit", "d.csv", "-y", "type", type=np.where(YES, "Yes", "No"), site=SITE)
    posterior, _ = run_of()
    inside = posterior.coefficients(interval=None)["mean_included"]
    ratios = np.exp(inside[["a", "b", "c"]] * X.std())  # per standard deviation, whatever the units
    header, first = [line for line in result.output.splitlines() if "robab" in line or line.startswith("a ")][
        :2
    ]
    assert header.split()[-2:] == ["odds", "ratio"]
    assert float(first.split()[-1]) == pytest.approx(ratios["a"], rel=0.01)
    assert "Odds ratios: for one standard deviation more, given that the variable is in." in result.output
    assert "Report: d-run/report.html" in result.output
    summary = pd.read_csv("d-run/summary.csv", index_col="variable")
    np.testing.assert_allclose(summary["odds_ratio_per_sd"].drop("site"), ratios[summary.index.drop("site")])
    assert np.isnan(summary["odds_ratio_per_sd"]["site"])  # several columns have no single ratio
    found = json.loads(call("fit", "d.csv", "-y", "type", "--json", "--overwrite").stdout)
    assert found["variables"][0]["odds_ratio_per_sd"] == pytest.approx(
        ratios[found["variables"][0]["variable"]]
    )


def test_the_real_report_is_a_page(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wv.Posterior, "report", REAL_REPORT)
    call("fit", "d.csv", "-y", "type", type=YES)
    assert "odds" in Path("d-run/report.html").read_text(encoding="utf-8")
    assert call("report", "d-run", "--out", "again.html").output.strip() == "again.html"
    assert call("report", "d-run", "--brief", "--title", "In short").output.strip().endswith("summary.html")
    text = Path("d-run/summary.html").read_text(encoding="utf-8")
    assert "<h1>In short</h1>" in text
    assert "<script" not in text


def test_the_linear_model_can_be_had(call: Any) -> None:
    result = call("fit", "d.csv", "-y", "type", "--family", "gaussian", type=YES.astype(int))
    assert "linear probability model" in result.stderr
    assert "--family logistic models the log odds" in result.stderr
    assert "odds ratio" not in result.stdout
    assert run_of()[0].problem.family.name == "gaussian"


def test_counts_get_a_hint_and_no_decision(call: Any) -> None:
    result = call("fit", "d.csv", "-y", "visits", visits=VISITS)
    assert "For counts use --family poisson, or --family negative-binomial if their variance" in result.stderr
    assert run_of()[1]["problem"]["family"] == "Gaussian()"


@pytest.mark.parametrize("family", ["probit", "poisson", "negative-binomial", "logistic"])
def test_every_family_can_be_named(call: Any, family: str) -> None:
    y = VISITS if family in ("poisson", "negative-binomial") else YES
    result = call("exact", "d.csv", "-y", "y", "--family", family, y=y)
    assert "two values" not in result.stderr
    np.testing.assert_array_equal(run_of()[0].pip, wv.exact(wv.Problem(X, y, family=family)).pip)
    ratio = {"probit": None, "logistic": "odds ratio"}.get(family, "rate ratio")
    assert ("ratio" in result.stdout) == (ratio is not None)
    assert ratio is None or ratio in result.stdout


# --- columns with a meaning of their own


@pytest.mark.parametrize("option", ["exposure", "offset"])
def test_exposure_and_offset(call: Any, option: str) -> None:
    column = YEARS if option == "exposure" else np.log(YEARS)
    call("fit", "d.csv", "-y", "visits", "--family", "poisson", f"--{option}", "t", visits=VISITS, t=column)
    posterior, settings = run_of()
    assert posterior.problem.names == ["a", "b", "c"]
    expected = wv.exact(wv.Problem(X, VISITS, family="poisson", offset=np.log(YEARS)))
    np.testing.assert_allclose(posterior.pip, expected.pip, atol=1e-12)
    assert (settings[option], settings["encoding"]["columns"]) == ("t", ["a", "b", "c"])
    new = X.head(3)[["c", "a", "b"]].assign(t=4.0 if option == "exposure" else np.log(4.0))
    new.to_csv("new.csv", index=False)
    result = call("predict", "d-run", "new.csv", "--interval", 0.9)
    found = pd.read_csv(io.StringIO(result.stdout))
    mean, std, ends = expected.predict(X.head(3), offset=np.log(4.0), return_std=True, interval=0.9)
    assert found.columns.tolist() == ["row", "mean", "std", "lower", "upper"]
    np.testing.assert_allclose(found, np.column_stack([range(1, 4), mean, std, ends]))
    assert "Means are expected counts." in result.stderr
    new.drop(columns="t").to_csv("new.csv", index=False)
    message = (
        f"the file lacks the column 't', which was the {option} of the run and is needed for predictions too"
    )
    assert message in call("predict", "d-run", "new.csv", code=2).stderr


def test_trials(call: Any) -> None:
    call("fit", "d.csv", "-y", "hits", "--trials", "tries", hits=HITS, tries=TRIES)
    posterior, settings = run_of()
    expected = wv.exact(wv.Problem(X, HITS, family=wv.Logistic(trials=TRIES)))
    np.testing.assert_array_equal(posterior.pip, expected.pip)
    assert settings["trials"] == "tries"
    assert settings["problem"]["family"] == "Logistic(trials=[60 values])"
    X.to_csv("new.csv", index=False)
    result = call("predict", "d-run", "new.csv")
    found = pd.read_csv(io.StringIO(result.stdout))
    np.testing.assert_allclose(found["probability"], expected.predict(X))
    assert "Probabilities are those of a success in one trial." in result.stderr


def test_probabilities_are_predicted(call: Any) -> None:
    call("fit", "d.csv", "-y", "type", "-q", type=np.where(YES, "Yes", "No"))
    result = call("predict", "d-run", "d.csv")
    assert "Probabilities are those of Yes." in result.stderr
    expected = wv.exact(wv.Problem(X, YES, family="logistic")).predict(X)
    np.testing.assert_allclose(pd.read_csv(io.StringIO(result.stdout))["probability"], expected)


def test_rows_with_gaps_are_left_out_of_all_columns(call: Any) -> None:
    years = YEARS.copy()
    years[[3, 8]] = np.nan
    arguments = ("fit", "d.csv", "-y", "visits", "--family", "poisson", "--exposure", "t")
    assert "column 't' has no value in row 4" in call(*arguments, visits=VISITS, t=years, code=2).stderr
    call(*arguments, "--missing", "drop")
    kept = np.isfinite(years)
    expected = wv.Problem(X[kept], VISITS[kept], family="poisson", offset=np.log(YEARS[kept]))
    np.testing.assert_allclose(run_of()[0].pip, wv.exact(expected).pip, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-y visits --exposure t", "--exposure is for counts; add --family poisson or --family negative-binomial"),
        ("-y visits --offset t", "--offset is not for the linear model, and the response 'visits' has"),
        ("-y visits --offset t --family gaussian", "--offset is not for the linear model (--family gaussian); subtract"),
        ("-y visits --offset t --exposure a --family poisson", "give --offset or --exposure, not both"),
        ("-y visits --trials t --family poisson", "--trials is for --family logistic, not for poisson"),
        ("-y visits --exposure a --family poisson", "--exposure: column 'a' is -"),
        ("-y visits --exposure site --family poisson", "--exposure: column 'site' has 'north' in row 1"),
        ("-y visits --exposure u --family poisson", "--exposure: there is no column 'u'"),
        ("-y visits --exposure visits --family poisson", "--exposure: column 'visits' is the response; name another column"),
        ("-y visits --exposure t --always t --family poisson", "--exposure: column 't' is always included"),
        ("-y visits --exposure t --drop t --family poisson", "--exposure: column 't' is dropped"),
        ("-y visits --family poisson --stream", "--family poisson needs the rows themselves, and --stream keeps only sums"),
        ("-y visits --trials t --stream", "--trials needs the rows themselves"),
        ("-y a --family poisson", "in row 1, which is "),
        ("-y visits --trials zero", "in 0 trials (column 'zero'); there must be at least one trial"),
        ("-y visits --trials one", "there cannot be more successes than trials"),
        ("-y visits --trials t", "--trials: column 't' is"),
        ("-y type --trials t", "the response 'type' must be the number of successes among the trials of column 't'"),
        ("-y site --family probit", "the response 'site' has 3 different values ('north', 'south', 'west')"),
        ("-y site", "the response 'site' contains words ('north', 'south', 'west'), not numbers"),
        ("-y type --family poisson", "contains words ('No', 'Yes'), not numbers; this is a regression of counts"),
        ("-y zero --family poisson", "the response 'zero' is 0 in every row"),
        ("-y same", "the response 'same' is 'x' in every row; both classes are needed"),
        ("-y visits --family logistic", "the response 'visits' has"),
        ("-y type --family tobit", "Invalid value for '--family'"),
        ("-y type --always sure", "the always-included column 'sure' separates the two classes, so that its coefficient would be infinite under the flat prior of columns that are in every model; take it out of --always or covariates"),
    ],
)  # fmt: skip
def test_mistakes_have_messages(call: Any, options: str, message: str) -> None:
    result = call(
        "fit",
        "d.csv",
        *options.split(),
        code=2,
        visits=VISITS,
        t=YEARS,
        zero=0,
        one=1,
        site=SITE,
        type=np.where(YES, "Yes", "No"),
        sure=np.where(YES, 1, -1),
        same="x",
    )
    assert message in result.stderr
    assert not Path("d-run").exists()


def test_rows_of_the_file_are_named(call: Any) -> None:
    visits = VISITS.astype(float)
    visits[7] = 2.5
    X.assign(visits=visits).to_csv("d.csv", index=False)
    lines = Path("d.csv").read_text().splitlines()
    Path("d.csv").write_text("\n".join([*lines[:3], ",,,", *lines[3:]]))
    message = "the response 'visits' is 2.5 in row 9, which is not a whole number"
    assert message in call("fit", "d.csv", "-y", "visits", "--family", "poisson", code=2).stderr


def test_infinite_coefficients_are_a_message(call: Any) -> None:
    result = call("fit", "d.csv", "-y", "y", "--slab", "bic", y=(X["a"] > 0).astype(int), code=2)
    assert "the coefficients of the model ['a'] have no finite estimates under BIC()" in result.stderr
    assert "Use --slab independent" in result.stderr
    assert not Path("d-run").exists()


def test_warnings_about_coefficients_are_notes(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = wv.Posterior.summary

    def summary(posterior: wv.Posterior, *arguments: Any, **settings: Any) -> pd.DataFrame:
        warnings.warn("they say nothing", wv.DataWarning, stacklevel=2)
        return real(posterior, *arguments, **settings)

    monkeypatch.setattr(wv.Posterior, "summary", summary)
    assert call("fit", "d.csv", "-y", "y", y=YES).stderr.count("Note: They say nothing") == 1
    assert call("fit", "d.csv", "-y", "y", "--quiet", "--overwrite").stderr == ""


def test_evidence_and_mixtures_of_g(call: Any) -> None:
    call("exact", "d.csv", "-y", "y", "--slab", "cch:1,20,0.5", "--evidence", "bas", y=YES.astype(int))
    posterior, settings = run_of()
    problem = wv.Problem(X, YES.astype(int), family="logistic", slab=wv.CCH(1, 20, 0.5), evidence="bas")
    np.testing.assert_array_equal(posterior.pip, wv.exact(problem).pip)
    assert settings["problem"]["evidence"] == "bas"
    for options, message in (
        (("--slab", "cch:1,2,3,4"), "cch takes only a, b, s"),
        (("--slab", "cch:1,x"), "b must be a number"),
        (("--slab", "g-prior:3,4"), "g-prior takes one number"),
        (("--evidence", "bas"), "use --evidence auto"),
        (
            ("--family", "gaussian", "--evidence", "laplace"),
            "--evidence laplace is for families that are not Gaussian",
        ),
    ):
        assert message in call("exact", "d.csv", "-y", "y", *options, "--out", "other", code=2).stderr


# --- resume and compare


@pytest.mark.filterwarnings("ignore::whichvars.errors.ConvergenceWarning")
def test_resume_gives_what_an_uninterrupted_run_gives(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options = (
        "-y",
        "visits",
        "--family",
        "poisson",
        "--exposure",
        "t",
        "--draws",
        400,
        "--replicates",
        2,
        "-q",
    )
    X.assign(visits=VISITS, t=YEARS).to_csv("d.csv", index=False)
    runner = CliRunner()
    whole = runner.invoke(main, ["fit", "d.csv", *map(str, options), "--out", "whole"])
    real = wv.sample

    def sample(problem: Any, sampler: Any, **settings: Any) -> wv.Posterior:
        def stop(report: Any) -> None:
            raise KeyboardInterrupt

        return real(problem, sampler, **{**settings, "progress": stop, "chunk": 50})

    monkeypatch.setattr(wv, "sample", sample)
    stopped = runner.invoke(main, ["fit", "d.csv", *map(str, options), "--out", "part"])
    assert "interrupted; continue with: whichvars resume part" in stopped.stderr
    again = runner.invoke(main, ["resume", "part", "-q"])
    assert again.exit_code == whole.exit_code
    (a, first), (b, second) = run_of("whole"), run_of("part")
    assert a.pip.tobytes() == b.pip.tobytes()
    assert Path("whole/summary.csv").read_bytes() == Path("part/summary.csv").read_bytes()
    for name in ("family", "exposure", "offset", "trials", "encoding", "problem"):
        assert first[name] == second[name]
    found = json.loads(runner.invoke(main, ["predict", "part", "d.csv", "--json"]).stdout)
    np.testing.assert_allclose([row["mean"] for row in found], b.predict(X, offset=np.log(YEARS)))


def test_compare_names_the_families(call: Any) -> None:
    columns: dict[str, Any] = {"visits": VISITS, "t": YEARS}
    call(
        "fit",
        "d.csv",
        "-y",
        "visits",
        "-q",
        "--family",
        "poisson",
        "--exposure",
        "t",
        "--out",
        "one",
        **columns,
    )
    call("fit", "d.csv", "-y", "visits", "-q", "--family", "negative-binomial", "--drop", "t", "--out", "two")
    output = call("compare", "one", "two").output
    assert "Different family: Poisson() and NegativeBinomial()." in output
    assert "Different exposure: t and None." in output


def test_degrees_of_freedom(call: Any) -> None:
    y = (ETA + np.random.default_rng(1).standard_t(2, N)).round(4)
    call("fit", "d.csv", "-y", "y", "--family", "student", "--df", "3", y=y)
    pips = pd.read_csv("d-run/summary.csv").set_index("variable")["pip"][["a", "b", "c"]]
    want = wv.exact(wv.Problem(X, y, family=wv.Student(df=3.0)), progress=False)
    np.testing.assert_allclose(pips, want.pip, rtol=1e-8)
    settings = json.loads(Path("d-run/settings.json").read_text())
    assert settings["df"] == 3
    assert settings["problem"]["family"] == "Student(df=3.0)"
    holes = y.where(y.index > 1)
    call(
        "fit", "d.csv", "-y", "y", "--family", "student", "--df", "3", "--missing", "impute", "--imputations", "2", "--overwrite",
        y=holes, a=X["a"].where(X.index != 8),
    )  # fmt: skip
    assert "Student(df=3.0)" in Path("d-run/settings.json").read_text()
    heavy = 1e3 * np.random.default_rng(2).standard_t(1, 60).round(3)
    said = call("fit", "d.csv", "-y", "y", "--family", "student", "--df", "30", "--overwrite", y=heavy).output
    assert "Fewer degrees of freedom may fit better: --df 3." in " ".join(said.split())
    assert (
        "--df is for --family student"
        in call("fit", "d.csv", "-y", "y", "--df", "3", "--out", "other", code=2).output
    )
    assert (
        "df must be above 2"
        in call(
            "fit", "d.csv", "-y", "y", "--family", "student", "--df", "2", "--out", "other", code=2
        ).output
    )
    many = call("fit", "d.csv", "--responses", "y,a", "--df", "3", "--out", "other", code=2).output
    assert "--df cannot be combined with --responses" in many
