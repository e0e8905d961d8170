"""Twenty awkward files: each gives an answer, or one message that suffices."""

import gzip
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
        ["--drop", "when,note", "--missing", "drop"], 0, ["1 of 40 rows are left out"],
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
