"""README.md from the files of the figures: every number on it comes from them."""

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, Table, measured_at, number
from papers.individual_adaptation.study import Claim

DOCS = ROOT / "docs" / "paper"
MOST_BYTES = 2_000_000
COLOURS = 64  # of a picture in the documentation

HEAD = """# The paper, made again

Griffin, Łatuszyński and Steel, *Individual adaptation: an adaptive MCMC scheme for variable selection problems*
(arXiv 1412.6760). Each of its tables and figures, made with whichvars; for each claim the paper's number, ours, and whether they agree.
This page is written by a program from the files beside it. Where the paper shows a figure and says no number, it says so
here; where the paper's measure favours its method, a fairer one stands below.
"""


def read_sections(out: Path, order: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The sections that were made, in the order of the paper."""
    found = {}
    for name in order:
        path = out / f"{name}.json"
        if path.exists():
            found[name] = json.loads(path.read_text(encoding="utf-8"))
    return found


def claims_of(section: dict[str, Any]) -> list[Claim]:
    return [Claim(**claim) for claim in section["claims"]]


def tally(claims: list[Claim]) -> list[str]:
    """How many claims agree, differ, cannot be compared; then the same of the fairer measures."""
    own, fairer = ([c for c in claims if c.fairer is kind] for kind in (False, True))

    def count(some: list[Claim], verdict: bool | None) -> int:
        return sum(c.agrees is verdict for c in some)

    lines = [
        f"Of the paper's {len(own)} claims {count(own, True)} agree, {count(own, False)} differ, and {count(own, None)} cannot be compared as numbers.",
        f"Of {len(fairer)} questions that the paper does not ask, {count(fairer, True)} come out in favour of its method or of this "
        f"program, {count(fairer, False)} do not, {count(fairer, None)} are left open.",
    ]
    against = [c for c in fairer if c.agrees is False]
    if against:
        lines.append("What does **not** hold under a fairer measure:")
    lines += [f"- {c.statement}: {c.ours} ({c.why})." for c in against]
    return lines


def claims_table(title: str, claims: list[Claim]) -> str:
    table = Table(title, ["claim", "paper", "ours", "verdict", "why"])
    table.rows = [[c.statement, c.paper, c.ours, c.verdict, c.why] for c in claims]
    return table.markdown().replace("--:", ":--")


def shown_table(path: Path, caption: str) -> str:
    """A CSV file as Markdown, numbers in four digits."""

    def cell(text: str) -> str:
        try:
            value = float(text)
        except ValueError:
            return text or "–"
        return text if value.is_integer() and abs(value) < 1e6 and "." not in text else number(value, 4)

    with path.open(newline="", encoding="utf-8") as file:
        columns, *rows = csv.reader(file)
    return Table(caption, columns, [[cell(text) for text in row] for row in rows]).markdown()


def write_page(out: Path, order: Sequence[str]) -> Path:
    """README.md of all sections in a folder."""
    sections = read_sections(out, order)
    every = [claim for section in sections.values() for claim in claims_of(section)]
    parts = [HEAD]
    commands = list(dict.fromkeys(s["command"] for s in sections.values()))
    spent = sum(s["seconds"] for s in sections.values())
    modes = ", ".join(dict.fromkeys(s["mode"] for s in sections.values()))
    parts.append(
        f"Made by {' and '.join(f'`{c}`' for c in commands)} ({modes} mode) in {number(spent / 60, 2)} minutes on "
        f"{next((s['environment']['cpus'] for s in sections.values()), '–')} CPUs. "
        + " ".join(dict.fromkeys(measured_at(s) for s in sections.values()))
    )
    missing = [name for name in order if name not in sections]
    if missing:
        parts.append(f"Not made: {', '.join(missing)}.")
    parts.append("\n## In short\n")
    lines = tally(every)
    parts.append("\n".join(f"{line}\n" if not line.startswith("- ") else line for line in lines))
    for name, section in sections.items():
        parts.append(f"\n## {section['title']}\n")
        parts += [f"{text}\n" for text in section["text"]]
        for title, fairer in (("Claims", False), ("By a fairer measure, or asked by us", True)):
            claims = [c for c in claims_of(section) if c.fairer is fairer]
            if claims:
                parts.append(claims_table(title, claims))
        parts += [f"![{caption}]({file})\n\n*{caption}*\n" for file, caption in section["figures"]]
        parts += [shown_table(out / file, caption) for file, caption in section["tables"] if caption]
        files = ", ".join(f"`{file}`" for file, _ in section["tables"])
        about = section["environment"]
        parts.append(
            f"`python -m papers.individual_adaptation {name}`; {section['mode']} mode, {number(section['seconds'], 3)} s, {about['date']}, "
            f"commit {about['commit']}, load at the end {number(about['load_at_start'], 2)}. Numbers: {files}.\n"
        )
    path = out / "README.md"
    path.write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")
    return path


def copy_to_docs(out: Path, docs: Path | None = None) -> int:
    """The page and its pictures, made small, into the documentation; returns the bytes they take.

    Refused above 2 MB: then nothing is replaced.
    """
    from PIL import Image

    docs = DOCS if docs is None else docs
    page = (out / "README.md").read_text(encoding="utf-8")
    new = docs.with_name(docs.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    (new / "index.md").write_text(page, encoding="utf-8")
    for picture in sorted(out.glob("*.png")):
        if f"]({picture.name})" in page:
            with Image.open(picture) as image:
                small = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                small.save(new / picture.name, optimize=True)
    size = sum(file.stat().st_size for file in new.iterdir())
    if size > MOST_BYTES:
        shutil.rmtree(new)
        raise ValueError(
            f"the page and its pictures take {size:,} bytes, more than {MOST_BYTES:,}; the documentation is left as it was"
        )
    shutil.rmtree(docs, ignore_errors=True)
    new.rename(docs)
    return size
