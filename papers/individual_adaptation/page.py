"""README.md from the files of the figures: every number on it comes from them."""

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, Table, number
from papers.individual_adaptation import published
from papers.individual_adaptation.study import FULL, QUICK, Claim

DOCS = ROOT / "docs" / "paper"
NUMBERS = "numbers"  # the folder of the sections and their tables beside the page in the documentation
MOST_BYTES = 2_000_000
HEADINGS = {
    "wmse": "WMSE",
    "wmse_se": "standard error",
    "tau": "τ",
    "worth_draws": "worth independent draws",
    "cpu_seconds": "CPU seconds",
    "worth_of_a_trip_se": "standard error of it",
    "ratio_se": "standard error of the ratio",
    "mutation_rate_top": "mutation rate at the target",
    "mutation_rate_bottom": "mutation rate of the hottest rung",
}
# tables that are not on the page but from which claims are judged
JUDGED = ("pcr_agreement.csv", "pcr_default.csv")
NOT_SHOWN = ("commit", "scale")  # columns of tables that are in the CSV files only
COLOURS = 64  # of a picture in the documentation
NOT_IN_THE_PAPER = "This section is not in the paper. It is here to explain what differs."

HEAD = """# The paper, made again

This page compares whichvars with the paper that it began with: J. E. Griffin, K. Łatuszyński and M. F. J. Steel (2014), *Individual
adaptation: an adaptive MCMC scheme for variable selection problems*, [arXiv:1412.6760](https://arxiv.org/abs/1412.6760). Each of the
paper's tables and figures was computed again.
"""
GUIDE = """## How to read this page

The table above lists every claim of the paper that can be checked, with what the paper says beside what we find, and the reason where the
two differ. The sections below take the figures and tables one by one: what the paper shows, what we get, what agrees, what differs and why.
For each difference there is a reason, and a table of the measurements that show it.

- Where the paper shows a figure and gives no number, none was read off it, and the table says so.
- The gene expression data of the PCR example are not ours to distribute. A simulated design of the same size takes their place, so
  that numbers of that example cannot be compared, only what the paper says about the sampler.
- Whether a claim agrees is decided by rules that are written down in the program. The rule stands beside each claim.
- Some questions are ours and not the paper's. They have a table of their own at the end of a section, and are not counted as claims.
"""


def read_sections(out: Path, order: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The sections that were made, in the order of the paper."""
    found = {}
    for name in order:
        path = out / f"{name}.json"
        if path.exists():
            found[name] = json.loads(path.read_text(encoding="utf-8"))
    return found


def kept_tables(section: dict[str, Any]) -> list[str]:
    """The tables that are kept in the documentation: those on the page, and those from which claims are judged."""
    return [file for file, caption in section["tables"] if caption or file in JUDGED]


def claims_of(section: dict[str, Any]) -> list[Claim]:
    return [Claim(**claim) for claim in section["claims"]]


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A table of words in Markdown."""
    lines = ["| " + " | ".join(columns) + " |", "|" + ":--|" * len(columns)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([*lines, ""])


def verdict_and_reason(claim: Claim) -> str:
    """For the table at the top: a claim that differs has its reason there.

    >>> verdict_and_reason(Claim("s", "1", "2", False, "rule", brief="other data"))
    '**differs**: other data'
    """
    return f"{claim.verdict}: {claim.brief}" if claim.agrees is False and claim.brief else claim.verdict


def reasons(claims: Sequence[Claim]) -> list[str]:
    """Why claims differ: a paragraph for those that have the same reason, and their measurements in one table."""
    parts = []
    for reason in dict.fromkeys(claim.reason for claim in claims):
        some = [claim for claim in claims if claim.reason == reason]
        parts.append(
            f"*{'; '.join(c.statement for c in some)}.* {reason or 'We do not know yet why this differs.'}\n"
        )
        measured = [claim.evidence for claim in some if claim.evidence]
        if measured:
            headings = measured[0][0]
            rows = dict.fromkeys(tuple(row) for evidence in measured for row in evidence[1:])
            parts.append(table(headings, [list(row) for row in rows]))
    return parts


def summary(sections: dict[str, dict[str, Any]]) -> list[str]:
    """The table of all claims of the paper, and how many of them agree."""
    rows, every = [], []
    for section in sections.values():
        claims = claims_of(section)
        every += claims
        own = [c for c in claims if not c.fairer]
        rows += [
            ["" if k else section["title"], c.statement, c.paper, c.ours, verdict_and_reason(c)]
            for k, c in enumerate(own)
        ]
    own, asked = ([c for c in every if c.fairer is kind] for kind in (False, True))

    def count(some: list[Claim], verdict: bool | None) -> int:
        return sum(c.agrees is verdict for c in some)

    return [
        "## Summary\n",
        f"Of the paper's {len(own)} claims {count(own, True)} agree, {count(own, False)} differ, and {count(own, None)} cannot be compared. "
        "If a claim differs, the last column says why, and its section has the measurements that show it.\n",
        table(["figure or table", "claim", "the paper", "here", "verdict"], rows),
        f"Besides these claims, we asked {len(asked)} questions of our own. {count(asked, True)} come out in favour of the paper's method or of this program, "
        f"{count(asked, False)} do not, and {count(asked, None)} are left open.\n",
    ]


def shown_table(path: Path, caption: str) -> str:
    """A CSV file as Markdown, numbers in four digits."""

    def cell(text: str, column: str) -> str:
        try:
            value = float(text)
        except ValueError:
            return text or "–"
        if column == "tau":
            return f"{value:g}"
        return (
            f"{int(value):,}"
            if value.is_integer() and abs(value) < 1e6 and "." not in text
            else number(value, 4)
        )

    with path.open(newline="", encoding="utf-8") as file:
        columns, *rows = csv.reader(file)
    shown = [place for place, column in enumerate(columns) if column not in NOT_SHOWN]
    columns, rows = [columns[k] for k in shown], [[row[k] for k in shown] for row in rows]
    headings = [HEADINGS.get(column, column.replace("_", " ")) for column in columns]
    cells = [[cell(text, column) for text, column in zip(row, columns)] for row in rows]
    return Table(caption, headings, cells).markdown()


def claims_text(claims: list[Claim]) -> list[str]:
    """What agrees; what differs, and why; what cannot be compared; what the paper does not ask."""
    parts = []
    for title, verdict in (("What agrees", True), ("What differs, and why", False), ("What cannot be compared", None)):  # fmt: skip
        some = [c for c in claims if not c.fairer and c.agrees is verdict]
        if some:
            parts.append(f"**{title}**\n")
            parts.append(
                table(
                    ["claim", "the paper", "here", "rule" if verdict is not None else "why not"],
                    [[c.statement, c.paper, c.ours, c.why] for c in some],
                )
            )
            if verdict is False:
                parts += reasons(some)
    asked = [c for c in claims if c.fairer]
    if asked:
        parts.append("**What the paper does not ask**\n")
        parts.append(
            table(
                ["question", "here", "verdict", "remarks"],
                [[c.statement, c.ours, c.verdict, c.why] for c in asked],
            )
        )
    return parts


def section_text(out: Path, name: str, section: dict[str, Any]) -> list[str]:
    """One figure or table: theirs, ours, and how they compare."""
    shown = published.SHOWN[name]
    parts = [
        f"\n## {section['title']}\n",
        f"**In the paper.** {shown}\n" if shown else f"{NOT_IN_THE_PAPER}\n",
    ]
    if section["text"]:
        first, *rest = section["text"]
        parts += [f"**Here.** {first}\n", *(f"{text}\n" for text in rest)]
    parts += [f"![{caption}]({file})\n\n*{caption}*\n" for file, caption in section["figures"]]
    parts += [shown_table(out / file, caption) for file, caption in section["tables"] if caption]
    parts += claims_text(claims_of(section))
    files = ", ".join(f"`{file}`" for file in [f"{name}.json", *kept_tables(section)])
    about = section["environment"]
    parts.append(
        f"*Made by `{section['command']}` on {about['date']} at commit {about['commit']}. Size: {size_of(section)}. "
        f"Time: {time_of(section)}. Numbers beside this page, in `{NUMBERS}`: {files}.*\n"
    )
    return parts


def size_of(section: dict[str, Any]) -> str:
    """In words: full size, or what is smaller than that."""
    if section["mode"] not in (QUICK.name, FULL.name):
        return section["mode"]
    return section["smaller"] or "full"


def in_words(seconds: float) -> str:
    """Seconds, or minutes where there are many.

    >>> in_words(7.31), in_words(2769.4)
    ('7.3 s', '46 min')
    """
    return f"{number(seconds, 2)} s" if seconds < 120 else f"{number(seconds / 60, 2)} min"


def time_of(section: dict[str, Any]) -> str:
    """CPU time of the runs if they are kept, otherwise how long the section took."""
    kept = section.get("kept_cpu_seconds", 0.0)
    if kept:
        return f"{in_words(kept)} of CPU time"
    return f"{in_words(section['seconds'])} on {section['environment']['cpus']} CPUs"


def sizes_and_times(sections: dict[str, dict[str, Any]]) -> list[str]:
    """How large each section is, and how long it took."""
    rows = [[s["title"], size_of(s), time_of(s), s["environment"]["date"]] for s in sections.values()]
    full = sum(row[1] == "full" for row in rows)
    hours = sum(s.get("kept_cpu_seconds", 0.0) for s in sections.values()) / 3600
    some_are_not = full < len(rows)
    which = f"{full} of the {len(rows)}" if some_are_not else f"All {full}"
    others, short = (
        (
            " The others have the paper's numbers of iterations unless the table says otherwise, but fewer runs.",
            "`make paper ARGS=--full` makes the runs that are missing and keeps each when it ends, so that it can be interrupted and "
            "continued. ",
        )
        if some_are_not
        else ("", "")
    )
    return [
        "## Sizes and times\n",
        f"{which} sections are of full size, which means the paper's numbers of iterations and, where the paper says how many "
        f"runs it made, as many runs.{others} "
        f"The runs that are kept with the program took {number(hours, 2)} hours of CPU time together. {short}Times are CPU time of all "
        "runs of a section if these are kept, otherwise the time that it took to make the section; sections that share the runs of another "
        "one take seconds. [Another page](../performance/paper.md) has the Tecator settings as the benchmarks measure them.\n",
        table(["section", "size", "time", "date"], rows),
    ]


def write_page(out: Path, order: Sequence[str]) -> Path:
    """README.md of all sections in a folder."""
    sections = read_sections(out, order)
    parts = [HEAD]
    missing = [name for name in order if name not in sections]
    if missing:
        parts.append(f"Not made: {', '.join(missing)}.\n")
    parts += summary(sections)
    parts.append(GUIDE)
    parts += sizes_and_times(sections)
    for name, section in sections.items():
        parts += section_text(out, name, section)
    path = out / "README.md"
    path.write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")
    return path


def copy_from_docs(out: Path, docs: Path | None = None) -> None:
    """Begin with the numbers and pictures of the documentation. What is in the folder already is left as it is."""
    docs = DOCS if docs is None else docs
    out.mkdir(parents=True, exist_ok=True)
    for file in [*sorted((docs / NUMBERS).iterdir()), *sorted(docs.glob("*.png"))]:
        if file.is_file() and not (out / file.name).exists():
            shutil.copy(file, out)


def copy_to_docs(out: Path, order: Sequence[str], docs: Path | None = None) -> int:
    """The page, its pictures, made small, and the numbers that it is written from, into the documentation; returns the bytes they take.

    Refused above 2 MB: then nothing is replaced.
    """
    from PIL import Image

    docs = DOCS if docs is None else docs
    page = (out / "README.md").read_text(encoding="utf-8")
    new = docs.with_name(docs.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    (new / NUMBERS).mkdir(parents=True)
    (new / "index.md").write_text(page, encoding="utf-8")
    for name, section in read_sections(out, order).items():
        shutil.copy(out / f"{name}.json", new / NUMBERS)
        for file in kept_tables(section):
            shutil.copy(out / file, new / NUMBERS)
        for file, _ in section["figures"]:
            with Image.open(out / file) as image:
                if image.mode == "P":  # it came from the documentation and is small already
                    shutil.copy(out / file, new)
                    continue
                small = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                small.save(new / file, optimize=True)
    size = sum(file.stat().st_size for file in new.rglob("*") if file.is_file())
    if size > MOST_BYTES:
        shutil.rmtree(new)
        raise ValueError(
            f"the page and its pictures take {size:,} bytes, more than {MOST_BYTES:,}; the documentation is left as it was"
        )
    shutil.rmtree(docs, ignore_errors=True)
    new.rename(docs)
    return size
