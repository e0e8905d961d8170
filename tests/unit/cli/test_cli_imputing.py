"""Runs of completed copies of a file: reports, resuming, covariates, and the same bits."""

import json
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import whichvars as wv
from whichvars.cli import main
from whichvars.cli.serving import checkpoint_of

Call = Callable[..., Result]
# enumeration is out of the question, so that there is something to resume
SAMPLED = ("--sampler", "add-delete-swap", "--draws", 4000, "--replicates", 2, "--imputations", 3, "-q")


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, code: int | None = 0) -> Result:
        result = CliRunner().invoke(main, [str(a) for a in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert code is None or result.exit_code == code, result.output
        return result

    return run


def table(share: float = 0.1, n: int = 120, p: int = 6) -> pd.DataFrame:
    """Numbers, a category and an identifier, some cells missing, and a complete response."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(n, p)), columns=[f"x{j}" for j in range(p)])
    X["town"] = rng.choice(["north", "south", "west"], n)
    y = X["x0"] + 0.5 * X["x1"] + (X["town"] == "west") + rng.normal(size=n)
    return X.mask(rng.random(X.shape) < share).assign(id=[f"p{i:03d}" for i in range(n)], y=y)


def pips(run: str) -> np.ndarray:
    return wv.PooledPosterior.load(f"{run}/posterior.npz").pip


def test_the_same_bits_on_any_number_of_threads_and_after_a_kill(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    table().to_csv("a.csv", index=False)
    fit = ("fit", "a.csv", "-y", "y", "--drop", "id", "--missing", "impute", "--no-report", *SAMPLED)
    call(*fit, "--out", "whole", "--threads", 1, code=None)
    call(*fit, "--out", "threads", "--threads", 2, code=None)
    assert pips("whole").tobytes() == pips("threads").tobytes()
    assert not Path("whole/checkpoint").exists()
    real, begun = wv.sample, []

    def sample(problem: Any, sampler: Any, **options: Any) -> wv.Posterior:
        begun.append(options["seed"])

        def stop(report: Any) -> None:
            raise KeyboardInterrupt

        # the second of three is interrupted
        extra = {"progress": stop, "chunk": 500} if len(begun) == 2 else {}
        return real(problem, sampler, **{**options, **extra})

    monkeypatch.setattr(wv, "sample", sample)
    stopped = call(*fit, "--out", "part", code=130)
    assert "interrupted; continue with: whichvars resume part" in stopped.stderr
    kept = sorted(path.name for path in Path("part/checkpoint").iterdir())
    assert kept == ["imputation-2", "imputations.npz", "posterior-1.npz", "problem-1.npz", "problem-2.npz", "problem-3.npz"]  # fmt: skip
    assert not Path("part/settings.json").exists()
    # what `whichvars watch` shows
    assert checkpoint_of(Path("part")) == Path("part/checkpoint/imputation-2")
    assert "unfinished run" in call(*fit, "--out", "part", code=2).stderr
    Path("a.csv").unlink()  # all that is needed is in the directory
    call("resume", "part", "-q", "--no-report", "--threads", 1, code=None)
    assert Path("part/summary.csv").read_bytes() == Path("whole/summary.csv").read_bytes()
    assert Path("part/top_models.csv").read_bytes() == Path("whole/top_models.csv").read_bytes()
    assert pips("part").tobytes() == pips("whole").tobytes()
    assert not Path("part/checkpoint").exists()
    assert "there is nothing to continue" in call("resume", "part", code=2).stderr
    one, other = (json.loads(Path(place, "settings.json").read_text()) for place in ("whole", "part"))
    assert one["notes"] == other["notes"]
    assert one["missing"] == other["missing"]
    # independent errors need different seeds
    assert len(set(begun)) == len(begun) == 3


def test_without_holes_it_is_the_ordinary_run(call: Call) -> None:
    table(0.0).to_csv("a.csv", index=False)
    fit = ("fit", "a.csv", "-y", "y", "--drop", "id", "--no-report", *SAMPLED)
    call(*fit, "--out", "plain", code=None)
    call(*fit, "--out", "imputed", "--missing", "impute", code=None)
    assert pips("imputed").tobytes() == wv.Posterior.load("plain/posterior.npz").pip.tobytes()
    found = wv.PooledPosterior.load("imputed/posterior.npz")
    assert not found.imputation_error.any()
    assert not found.coefficients(interval=None)["imputation_error"].any()
    selector = wv.VariableSelector(missing="impute", sampler=wv.AddDeleteSwap(), draws=4000, replicates=2)
    frame = table(0.0).drop(columns="id")
    fitted = selector.fit(frame.drop(columns="y"), frame["y"])
    ordinary = selector.set_params(missing="error").fit(frame.drop(columns="y"), frame["y"])
    assert fitted.inclusion_probabilities_.tobytes() == ordinary.inclusion_probabilities_.tobytes()


def test_few_holes_change_little(call: Call) -> None:
    whole = table(0.0).drop(columns="id")
    few = whole.copy()
    few.iloc[:2, 3] = np.nan
    exact = wv.exact(wv.Problem(whole.drop(columns="y"), whole["y"]))
    made = wv.impute(few.drop(columns="y"), few["y"], m=20)
    found = wv.pool([wv.exact(wv.Problem(X, made.y)) for X in made], made)
    # two rows out of 120 are not known: what they could change at most is what leaving them out changes
    left = wv.exact(wv.Problem(whole.drop(columns="y").iloc[2:], whole["y"].iloc[2:]))
    reach = np.abs(left.pip - exact.pip).max() + 4 * found.imputation_error.max()
    assert np.abs(found.pip - exact.pip).max() <= reach
    assert found.imputation_error.max() > 0


def test_a_report_says_what_was_missing(call: Call) -> None:
    data = table()
    data.to_csv("a.csv", index=False)
    done = call("exact", "a.csv", "-y", "y", "--drop", "id", "--missing", "impute", "--imputations", 3)
    assert "Report: a-run" in done.output
    for words in ("probability it matters", "imputation error", "in words", "██", "almost certainly"):
        assert words in done.output, "the table is that of other fits"
    assert done.output.count("have missing values") == 1, "what was noted before is not repeated"
    assert "0 from sampling" not in done.output
    page = Path("a-run/report.html").read_text()
    cells = int(data.isna().sum().sum())
    for words in (
        "Missing values</h2>",
        f"<dd>{cells:,}</dd>",
        f'<th scope="row" class="name">town</th><td class="number">{int(data["town"].isna().sum())}</td>',
        "a.csv",
        "town: north",
        "Agreement of the imputations",
        "the three imputations of missing values differ by ",
        "were imputed 3 times by chained Bayesian regressions",
    ):
        assert words in page, words
    about_gaps, later = page.split('<section id="missing"')[1].split("</section>", 1)
    assert "have missing values" in about_gaps
    assert "town&#39; is a category" not in about_gaps
    assert "town&#39; is a category" in later
    assert call("report", "a-run", "--brief").output.strip() == "a-run/summary.html"
    brief = Path("a-run/summary.html").read_text()
    assert "x0: 1" in brief or "x0: 0.9" in brief
    again = call("report", "a-run", "--out", "other.html", "--title", "Holes")
    assert "<h1>Holes</h1>" in Path(again.output.strip()).read_text()
    best = pd.read_csv("a-run/top_models.csv")
    pooled = wv.PooledPosterior.load("a-run/posterior.npz")
    assert best["probability"].is_monotonic_decreasing
    # all models of all parts, one by one
    shares: dict[tuple[int, ...], list[float]] = {}
    for i, part in enumerate(pooled.parts):
        for at in range(len(part.kept)):
            shares.setdefault(part.kept.model(at), [0.0] * 3)[i] = float(part.kept.weight[at])
    expected = sorted((np.mean(v) for v in shares.values()), reverse=True)[: len(best)]
    np.testing.assert_allclose(best["probability"], expected)
    first = max(shares, key=lambda m: np.mean(shares[m]))
    assert best["variables"][0] == ", ".join(pooled.names[j] for j in first)
    assert best["lowest"][0] == pytest.approx(min(shares[first]))


def test_covariates_may_have_holes_too_and_are_in_every_model(call: Call) -> None:
    data = table()
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"id": data["id"], "age": rng.normal(50, 9, len(data)), "sex": rng.choice(["f", "m"], len(data))})  # fmt: skip
    people.loc[3, "age"] = np.nan
    people.loc[5, "sex"] = None
    data.sample(frac=1, random_state=0).to_csv("a.csv", index=False)
    people.iloc[:-2].to_csv("people.csv", index=False, sep=";", decimal=",")
    fit = ("exact", "a.csv", "-y", "y", "--missing", "impute", "--imputations", 2, "--no-report")
    done = call(*fit, "--covariates", "people.csv", "--always", "x5", "--out", "run")
    assert "Covariates of people.csv, in every model: age, sex." in done.stderr
    assert "2 of 120 rows of a.csv are not in people.csv and are left out" in done.stderr
    pooled = wv.PooledPosterior.load("run/posterior.npz")
    assert pooled.problem.always_names == ["x5", "age", "sex=m"]
    assert pooled.problem.n == 118
    # the same as one table that has been joined
    both = data.merge(people.iloc[:-2], on="id")
    both = both.set_index("id").loc[data.sample(frac=1, random_state=0)["id"][lambda s: s.isin(both["id"])]]
    both.to_csv("b.csv", index=False)
    call(*(str(a).replace("a.csv", "b.csv") for a in fit), "--always", "x5,age,sex", "--out", "joined")
    np.testing.assert_allclose(pips("run"), pips("joined"), rtol=1e-10)
    new = data.tail(30).head(28)
    new.to_csv("new.csv", index=False)
    call("predict", "run", "new.csv", "--covariates", "people.csv", "--out", "p.csv")
    new.merge(people, on="id").to_csv("new_joined.csv", index=False)
    call("predict", "joined", "new_joined.csv", "--out", "q.csv")
    np.testing.assert_allclose(pd.read_csv("p.csv")["mean"], pd.read_csv("q.csv")["mean"], rtol=1e-8)
    assert "name the file" in call("predict", "run", "new.csv", code=2).stderr


def test_decimal_commas_in_new_rows(call: Call) -> None:
    data = table().drop(columns=["id", "town"])
    data.to_csv("a.csv", index=False)
    data.to_csv("comma.csv", index=False, sep=";", decimal=",")
    call("exact", "comma.csv", "-y", "y", "--missing", "impute", "--imputations", 2, "--no-report", "-q")
    call("predict", "comma-run", "a.csv", "--out", "p.csv")
    call("predict", "comma-run", "comma.csv", "--out", "q.csv")
    assert Path("p.csv").read_text() == Path("q.csv").read_text()


def test_a_budget_is_for_all_imputations_together(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    table().to_csv("a.csv", index=False)
    fit = (
        "fit",
        "a.csv",
        "-y",
        "y",
        "--drop",
        "id",
        "--missing",
        "impute",
        "--imputations",
        4,
        "--no-report",
        "-q",
    )
    call(*fit, "--budget", "8000", "--replicates", 2, "--sampler", "add-delete-swap", code=None)
    pooled = wv.PooledPosterior.load("a-run/posterior.npz")
    assert [part.settings["draws"] for part in pooled.parts] == [1000] * 4


def test_an_estimator_keeps_each_imputation_in_a_directory_of_its_own(tmp_path: Path) -> None:
    data = table().drop(columns="id")
    settings: dict[str, Any] = {
        "missing": "impute", "imputations": 2, "sampler": wv.AddDeleteSwap(), "draws": 2000, "replicates": 2,
    }  # fmt: skip
    X, y = data.drop(columns="y"), data["y"]
    plain = wv.VariableSelector(**settings).fit(X, y)
    kept = wv.VariableSelector(**settings, checkpoint=tmp_path / "run").fit(X, y)
    again = wv.VariableSelector(**settings, checkpoint=tmp_path / "run").fit(X, y)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["imputation-1", "imputation-2"]
    for other in (kept, again):
        assert other.posterior_.pip.tobytes() == plain.posterior_.pip.tobytes()
    one, two = plain.posterior_.parts
    assert one.settings["seed"] != two.settings["seed"]


def test_ordered_categories_stay_ordered() -> None:
    data = table()
    X = data[["x0", "x1"]].assign(size=pd.Categorical(data["town"], ["south", "north", "west"], ordered=True))
    for how, columns in (("scores", ["size score"]), ("differences", ["size≥north", "size≥west"])):
        categories = wv.Categories(**{how: ["size"]})
        fitted = wv.VariableSelector(missing="impute", imputations=2, categories=categories).fit(X, data["y"])
        assert fitted.posterior_.problem.columns_used == ["x0", "x1", *columns]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries decide for themselves")
def test_commands_give_the_memory_of_large_arrays_back() -> None:
    """Arrays of 8 MB below one that stays: by itself, the C library of GNU keeps them once it has freed a larger array."""
    program = """
import sys
import numpy as np
from whichvars.cli import give_back_memory

def used():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

if sys.argv[1] == "yes":
    give_back_memory()
np.ones(3_000_000)  # freed at once, after which the library keeps up to 24 MB
before = used()
arrays = [np.ones(1_000_000) for _ in range(20)]
last = [np.ones(1000) for _ in range(100)]
del arrays
print(used() - before)
"""
    kept, given_back = (
        int(
            subprocess.run(
                [sys.executable, "-c", program, asked], capture_output=True, text=True, check=True
            ).stdout
        )
        for asked in ("no", "yes")
    )
    assert given_back < 20e6 < 120e6 < kept


@pytest.mark.parametrize("option", [("--signal", 0.5), ("--level", 0.9)])
def test_there_are_no_credible_sets_to_choose(call: Call, option: tuple[str, float]) -> None:
    table().to_csv("a.csv", index=False)
    said = " ".join(call("fit", "a.csv", "-y", "y", "--missing", "impute", *option, code=2).stderr.split())
    assert "are about credible sets, and completed tables have none" in said
