"""Twenty awkward files: each gives an answer, or one message that suffices."""

import gzip
import importlib.util
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from whichvars.cli import main

N = 40
RNG = np.random.default_rng(8)


def base() -> pd.DataFrame:
    x = RNG.normal(size=(N, 2))
    return pd.DataFrame({"y": x[:, 0] + RNG.normal(size=N), "a": x[:, 0], "b": x[:, 1]}).round(4)


def holes(frame: pd.DataFrame, name: str, rows: list[int]) -> pd.DataFrame:
    frame = frame.copy()
    frame.loc[rows, name] = None
    return frame


def words(values: list[str]) -> list[str]:
    return [values[i % len(values)] for i in range(N)]


F = base()
# name: the content, options, the exit code, and what is said
FILES: dict[str, tuple[str | bytes, list[str], int, list[str]]] = {
    "an id and a date": (
        F.assign(id=range(N), when=[f"2024-01-{i % 28 + 1:02d}" for i in range(N)]).to_csv(index=False),
        [], 2, ["column 'when' contains dates", "--drop when"],
    ),
    "dates, free text and holes at once": (
        holes(F.assign(when=[f"2024-01-{i % 28 + 1:02d}" for i in range(N)], note=[f"remark {i}" for i in range(N)]), "a", [3]).to_csv(index=False),
        [], 2, ["2 columns cannot be used and values are missing", "'when'", "'note'", "'a' has no value in row 4", "can be used as it is with --drop when,note --missing drop"],
    ),
    "the same with the options that were named": (
        holes(F.assign(when=[f"2024-01-{i % 28 + 1:02d}" for i in range(N)], note=[f"remark {i}" for i in range(N)]), "a", [3]).to_csv(index=False),
        ["--drop", "when,note", "--missing", "drop"], 0, ["1 of 40 rows is left out"],
    ),
    "holes in most rows": (
        holes(holes(F.assign(when=[f"2024-01-{i % 28 + 1:02d}" for i in range(N)]), "a", [*range(0, N, 2)]), "b", [*range(1, N, 3)]).to_csv(index=False),
        [], 2, ["--drop when --missing impute"],
    ),
    "a column without values": (F.assign(empty="").to_csv(index=False), [], 2, ["column 'empty' is empty", "--drop empty"]),
    "a column without values, dropped": (F.assign(empty="").to_csv(index=False), ["--missing", "drop"], 0, ["without any value: 'empty'"]),
    "every row has a hole": (
        holes(holes(F, "a", [*range(0, N, 2)]), "b", [*range(1, N, 2)]).to_csv(index=False), ["--missing", "drop"], 2,
        ["every row has a missing value", "--missing impute"],
    ),
    "every row has a hole, imputed": (
        holes(holes(F, "a", [*range(0, N, 2)]), "b", [*range(1, N, 2)]).to_csv(index=False), ["--missing", "impute", "--imputations", "2"], 0,
        ["missing cells are imputed, 2 times"],
    ),
    "two rows left": (holes(F, "a", [*range(2, N)]).to_csv(index=False), ["--missing", "drop"], 2, ["at least 3 are needed"]),
    "one level": (F.assign(site="north").to_csv(index=False), [], 0, ["'site' contains only one word"]),
    "F and f": (F.assign(sex=words(["F", "f", "M"])).to_csv(index=False), [], 0, ["differ only in capitals", "'F' and 'f'"]),
    "money": (F.assign(price=[f"${1000 + 37 * i:,}" for i in range(N)]).to_csv(index=False), [], 0, ["read as numbers in $"]),
    "percentages": (F.assign(share=[f"{i % 17} %" for i in range(N)]).to_csv(index=False), [], 0, ["read as numbers in %"]),
    "mixed currencies": (
        F.assign(price=[f"{'$€'[i % 2]}{100 + i}" for i in range(N)]).to_csv(index=False), [], 2, ["contains free text", "--category price"],
    ),
    "decimal commas": (F.to_csv(index=False, sep=";", decimal=","), [], 0, ["Commas are read as decimal commas"]),
    "a typo among numbers": (F.assign(c=[*map(str, range(N - 1)), "1O5"]).to_csv(index=False), [], 2, ["'c' has '1O5' in row 40"]),
    "gzip with a byte order mark": (gzip.compress(("\ufeff" + F.to_csv(index=False)).encode()), [], 0, []),
    "an infinite cell": (F.assign(c=["inf", *map(str, range(N - 1))]).to_csv(index=False), [], 2, ["'c' is infinite in row 1"]),
    "postcodes": (F.assign(zip=[f"{10000 + 7 * (i % 9)}" for i in range(N)]).to_csv(index=False), [], 0, ["name of a code", "--category zip"]),
    "true and false": (F.assign(flag=[i % 2 == 0 for i in range(N)]).to_csv(index=False), [], 0, []),
    "a skewed response": (F.assign(y=np.exp(3 * F["y"])).to_csv(index=False), [], 0, ["--log"]),
    "ten rows": (F.head(10).to_csv(index=False), [], 0, []),
    "more columns than rows, with holes": (
        pd.concat([F.head(8), pd.DataFrame(RNG.normal(size=(8, 12))).add_prefix("z").mask(RNG.random((8, 12)) < 0.1)], axis=1).to_csv(index=False),
        ["--missing", "impute", "--imputations", "2", "--max-size", "2"], 0, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_an_answer_or_one_message(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, options, code, said = FILES[name]
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    result: Result = CliRunner().invoke(main, ["exact", "data.csv", "-y", "y", "--no-report", *options])
    assert result.exit_code == code, result.output
    for part in said:
        assert part in result.output
    assert "Traceback" not in result.output
    assert Path("data-run/summary.csv").exists() == (code == 0)


# Files of packages that are installed with whichvars or its tests: where they are, the response, options, the exit code, and what is said. Those of
# scikit-learn begin with the numbers of rows and columns and the names of classes, or have no names at all.
SAMPLES, TABLES = "matplotlib/mpl-data/sample_data", "sklearn/datasets/data"
REAL: dict[str, tuple[str, str, list[str], int, list[str]]] = {
    "a comment above the header, dates and holes": (
        f"{SAMPLES}/Stocks.csv", "IBM", [], 2, ["column 'IBM' has no value in row 3", "--missing drop"],
    ),
    "the same with options": (
        f"{SAMPLES}/Stocks.csv", "IBM", ["--date", "Date", "--missing", "drop"], 0, ["rows are left out"],
    ),
    "dates with names of months": (f"{SAMPLES}/msft.csv", "Volume", [], 2, ["column 'Date' contains dates", "--date Date"]),
    "the same as days": (f"{SAMPLES}/msft.csv", "Volume", ["--date", "Date"], 0, ["Date days"]),
    "blanks between columns, no header": (f"{SAMPLES}/data_x_x2_x3.csv", "y", [], 2, ["has no header", "(0, 0, 0)"]),
    "the same, zipped": (f"{TABLES}/diabetes_data_raw.csv.gz", "bmi", [], 2, ["has no header", "(59, 2, 32.1, …)"]),
    "blanks between columns": (f"{TABLES}/linnerud_exercise.csv", "Jumps", [], 0, ["Chins", "Situps"]),
    "blanks between columns, again": (f"{TABLES}/linnerud_physiological.csv", "Pulse", [], 0, ["Waist"]),
    "one column without a name": (f"{TABLES}/diabetes_target.csv.gz", "y", [], 2, ["has no header"]),
    "pixels without names": (f"{TABLES}/digits.csv.gz", "x", [], 2, ["has no header", "put a line with the names of the columns first"]),
    "fewer names than columns": (f"{TABLES}/breast_cancer.csv", "benign", [], 2, ["the header has 4 names but the first row has more cells"]),
    "fewer names than columns, again": (f"{TABLES}/wine_data.csv", "class_0", [], 2, ["the header has 5 names"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_real_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, response, options, code, said = REAL[name]
    package, _, rest = where.partition("/")
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.origin is not None
    monkeypatch.chdir(tmp_path)
    path = Path(found.origin).parent / rest
    arguments = ["exact", str(path), "-y", response, "--no-report", "--out", "run", *options]
    result: Result = CliRunner().invoke(main, arguments, env={"COLUMNS": "120"})
    assert result.exit_code == code, result.output
    for part in said:
        assert part in result.output
    assert "Traceback" not in result.output
    assert Path("run/summary.csv").exists() == (code == 0)


def test_everything_is_remarked_upon_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code, labels that are nearly the same, and a category of one level; in a file they are looked at before there is a problem."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pd.DataFrame({
        "postcode": rng.choice([10115, 20095, 50667], 60), "sex": rng.choice(["F", "f", "M"], 60), "same": "u", "y": rng.normal(size=60),
    }).to_csv("a.csv", index=False)  # fmt: skip
    run = CliRunner().invoke(main, ["exact", "a.csv", "-y", "y", "--out", "run", "--no-report"])
    assert run.exit_code == 0, run.output
    for name in ("'postcode' has whole numbers", "'F' and 'f'", "'same'"):
        assert run.output.count(name) == 1, name
    notes = json.loads(Path("run/settings.json").read_text())["notes"]
    assert len(notes) == len(set(notes)) == 4  # and the levels of sex
