"""Puts the tables of the last results into the pages of docs/performance/, docs/reliability.md and docs/genetics.md, between the markers that are there.

The text around the markers is written by hand, the numbers never are.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import (
    boston,
    calibration,
    cluster,
    compare,
    credible_sets,
    engine,
    fuzz,
    genetics,
    honesty,
    messy,
    soak,
    speed,
    startup,
    stopping,
    strong,
    tall,
    tecator,
    wide,
)
from benchmarks.common import ROOT, Table, measured_at, read_result
from benchmarks.peers import contest
from benchmarks.problems import LOGISTIC

# one screen, whose numbers are copied by hand from the pages that it links to
STORY = ROOT / "docs" / "performance.md"
PAGES = (
    *sorted((ROOT / "docs" / "performance").glob("*.md")),
    ROOT / "docs" / "reliability.md",
    ROOT / "docs" / "genetics.md",
)


def _compared(result: dict[str, Any]) -> str:
    return f"{result['budget']:g} CPU seconds per run, {result['runs']} runs of each sampler, one thread."


def _engine(result: dict[str, Any]) -> str:
    return "Small budgets: read the shape, not the digits." if result["small"] else ""


def _shared(result: dict[str, Any]) -> str:
    load = result["environment"]["load_at_start"]
    return f"The processors were shared with other work (load {load:g} at the start)." if load > 1 else ""


def _tecator(result: dict[str, Any]) -> str:
    return f"{result['runs']} runs of {result['warmup']:,} + {result['draws']:,} iterations for each setting."


def _strong(result: dict[str, Any]) -> str:
    return f"Four replicates of {result['draws']:,} draws a run, of {result['block_draws']:,} with blocks."


SECTIONS: dict[str, tuple[Callable[[dict[str, Any]], list[Table]], Callable[[dict[str, Any]], str]]] = {
    "compare": (compare.tables, _compared),
    "families": (compare.tables, _compared),
    "engine": (engine.tables, _engine),
    "speed": (speed.tables, lambda result: "The baseline is commit b42f46d."),
    "startup": (startup.tables, _shared),
    "tecator": (tecator.tables, _tecator),
    "boston": (boston.tables, lambda result: ""),
    "peers": (contest.tables, contest.about),
    "cluster": (cluster.tables, _shared),
    "tall": (tall.tables, lambda result: ""),
    "messy": (messy.tables, _shared),
    "wide": (wide.tables, lambda result: ""),
    "genetics": (genetics.tables, _shared),
    "credible-sets": (credible_sets.tables, lambda result: ""),
    "honesty": (honesty.tables, lambda result: "Four replicates in each run, one thread."),
    "stopping": (stopping.tables, lambda result: f"At most {result['budget']:g} seconds per run."),
    "strong": (strong.tables, _strong),
    "fuzz": (fuzz.tables, lambda result: ""),
    "soak": (soak.tables, lambda result: f"{result['replicates']} replicates, {result['threads']} threads."),
    "calibration": (calibration.tables, lambda result: f"Two replicates of {result['draws']:,} draws each."),
}
# responses that are not Gaussian have a table of their own
FAMILIES = f"compare --problems {','.join(LOGISTIC)} --samplers ads,hybrid --budget 2 --out benchmarks/results/families.json"


def section(kind: str, result: dict[str, Any]) -> str:
    """What stands between the markers of `kind`."""
    tables, about = SECTIONS[kind]
    head = " ".join(part for part in (measured_at(result), about(result)) if part)
    return "\n".join([head, "", *(table.markdown() for table in tables(result))]).rstrip() + "\n"


def replace(text: str, kind: str, content: str) -> str:
    """`text` with `content` between ``<!-- begin kind -->`` and ``<!-- end kind -->``."""
    begin, end = f"<!-- begin {kind} -->", f"<!-- end {kind} -->"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"the page needs the markers {begin} and {end} exactly once")
    return pattern.sub(lambda _: f"{begin}\n\n{content}\n{end}", text)


def kinds_of(text: str) -> list[str]:
    """The sections that a page has markers for."""
    return re.findall(r"<!-- begin ([\w-]+) -->", text)


def assemble(page: Path, write: bool = True) -> list[str]:
    """Renew every section of a page that has a result; returns a line on each."""
    text = before = page.read_text()
    said = []
    for kind in kinds_of(text):
        result = read_result(kind)
        if result is None:
            how = FAMILIES if kind == "families" else kind
            said.append(f"{kind}: no result; run `python -m benchmarks {how}` (section left as it was)")
            continue
        text = replace(text, kind, section(kind, result))
        said.append(f"{kind}: {measured_at(result)}")
    if write and text != before:
        page.write_text(text)
    said.append(f"{page.name}: {'unchanged' if text == before else 'written' if write else 'would change'}")
    return said
