"""Claims judged, and a picture drawn, again from numbers that were stored, so that a rule or a picture can change, and be tested, without
another run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import boston
from benchmarks.common import plain
from papers.individual_adaptation import (
    boston_bottlenecks,
    boston_learning,
    boston_models,
    boston_particles,
    boston_tempering,
    boston_trips,
    boston_wmse,
    pcr_correlation,
    pcr_pips,
)
from papers.individual_adaptation.page import kept_tables
from papers.individual_adaptation.study import QUICK, Claim, Section, Study, given, read_table

Row = dict[str, Any]
Read = Callable[[str], list[Row]]


def reader(folder: Path) -> Read:
    """Read a table by its name."""

    return lambda name: read_table(folder / f"{name}.csv")


def _one_draw() -> float:
    return boston.of_one_draw(Study(QUICK, Path()).truth("boston104").pip)


def _if_there(read: Read, name: str) -> list[Row]:
    """The rows of a table, none if there is no such table."""
    try:
        return read(name)
    except FileNotFoundError:
        return []


def _wmse(read: Read) -> list[Claim]:
    rows = read("boston_wmse")
    table = _if_there(read, boston_models.TABLE)
    scale = rows[0]["draws"] / boston.MH_DRAWS
    return boston_wmse.judge(
        rows,
        scale,
        _one_draw(),
        boston_models.as_tempering(table),
        _if_there(read, boston_trips.TABLE),
        _if_there(read, boston_particles.TABLE),
        _if_there(read, boston_wmse.VARIANTS),
    )


def _tempering(read: Read) -> list[Claim]:
    return boston_tempering.judge([given(row) for row in read("boston_tempering")])


def _particles(read: Read) -> list[Claim]:
    return boston_particles.judge(read(boston_particles.TABLE), _if_there(read, "boston_wmse"))


def _pcr(read: Read) -> list[Claim]:
    experiment = _if_there(read, pcr_correlation.TABLE)
    claims = pcr_pips.judge(read("pcr_agreement")) + pcr_pips.judge_default(read("pcr_default"))
    return claims + pcr_correlation.judge(experiment)


JUDGES: dict[str, Callable[[Read], list[Claim]]] = {
    "boston_wmse": _wmse,
    "boston_tempering": _tempering,
    "boston_bottlenecks": lambda read: boston_bottlenecks.judge(read("boston_bottlenecks")),
    "boston_learning": lambda read: boston_learning.judge(read(boston_learning.TABLE)),
    "boston_trips": lambda read: boston_trips.judge(read(boston_trips.TABLE)),
    "boston_particles": _particles,
    "pcr_pips": _pcr,
}


def judge_again(out: Path) -> list[str]:
    """Judge the claims of those sections in a folder whose tables are there, and write them; returns the names of the sections."""
    done = []
    for name, judge in JUDGES.items():
        path = out / f"{name}.json"
        if not path.exists():
            continue
        section = json.loads(path.read_text(encoding="utf-8"))
        if not all((out / file).exists() for file in kept_tables(section)):
            continue
        section["claims"] = [plain(vars(claim)) for claim in judge(reader(out))]
        path.write_text(json.dumps(section, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        done.append(name)
    return done


def draw_again(out: Path) -> list[str]:
    """Draw the pictures of a folder that need no more than its tables; returns the names of the sections. The others show what only a
    run has, such as its traces."""
    name = "boston_wmse"
    if not (out / f"{name}.json").exists() or not (out / f"{name}.csv").exists():
        return []
    study = Study(QUICK, out)
    figure = boston_wmse.drawn(reader(out)(name))
    study.picture(Section(boston_wmse.TITLE), name, figure, "")
    return [name]
