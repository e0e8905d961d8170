"""Claims judged again from numbers that were stored, so that a rule can change, and be tested, without another run."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import boston
from benchmarks.common import plain
from papers.individual_adaptation import boston_bottlenecks, boston_tempering, boston_wmse, pcr_pips
from papers.individual_adaptation.study import QUICK, Claim, Study

Row = dict[str, Any]
Read = Callable[[str], list[Row]]


def value_of(text: str) -> Any:
    """A cell of a CSV file: None, a whole number, a number or a text.

    >>> [value_of(cell) for cell in ("", "12", "0.5", "1e-3", "MH")]
    [None, 12, 0.5, 0.001, 'MH']
    """
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def reader(folder: Path) -> Read:
    """Read a table by its name."""

    def read(name: str) -> list[Row]:
        with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            return [{key: value_of(text) for key, text in row.items()} for row in csv.DictReader(file)]

    return read


def _one_draw() -> float:
    return boston_wmse.of_one_draw(Study(QUICK, Path()).truth("boston104").pip)


def _wmse(read: Read) -> list[Claim]:
    rows = read("boston_wmse")
    return boston_wmse.judge(rows, rows[0]["draws"] / boston.MH_DRAWS, _one_draw())


def _tempering(read: Read) -> list[Claim]:
    rows = [
        {key: value for key, value in row.items() if value is not None} for row in read("boston_tempering")
    ]
    return boston_tempering.judge(rows)


JUDGES: dict[str, Callable[[Read], list[Claim]]] = {
    "boston_wmse": _wmse,
    "boston_tempering": _tempering,
    "boston_bottlenecks": lambda read: boston_bottlenecks.judge(read("boston_bottlenecks")),
    "pcr_pips": lambda read: (
        pcr_pips.judge(read("pcr_agreement")) + pcr_pips.judge_default(read("pcr_default"))
    ),
}


def judge_again(out: Path) -> list[str]:
    """Judge the claims of those sections in a folder whose tables are there, and write them; returns the names of the sections."""
    done = []
    for name, judge in JUDGES.items():
        path = out / f"{name}.json"
        if not path.exists():
            continue
        section = json.loads(path.read_text(encoding="utf-8"))
        if not all((out / file).exists() for file, _ in section["tables"]):
            continue
        section["claims"] = [plain(vars(claim)) for claim in judge(reader(out))]
        path.write_text(json.dumps(section, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        done.append(name)
    return done
