"""What all benchmarks share: where results go, what they say about themselves, and how a table is printed."""

import importlib.metadata
import json
import math
import os
import platform
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TICK = 1e-6  # seconds: a run of some hundred iterations can end before the clock of the processor moves
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("whichvars", "numpy", "scipy", "numba")


def environment() -> dict[str, Any]:
    """Date, commit, versions and number of CPUs: what a reader needs to judge a number, and nothing about
    whose machine it was."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
        "cpus": cpus,
        "machine": platform.machine(),
        "load_at_start": round(load, 2),
    }


def commit() -> str:
    """The commit that was measured; with a + where tracked files differ from it."""

    def git(*arguments: str) -> str:
        run = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
        return run.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "src")
        return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def plain(value: Any) -> Any:
    """`value` as JSON knows it: numpy turned into numbers and lists, NaN and infinities into null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_result(kind: str, content: dict[str, Any], out: str | Path | None = None) -> Path:
    """Write a result as JSON, to `out` or to benchmarks/results/`kind`.json; returns where."""
    path = RESULTS / f"{kind}.json" if out is None else Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain({"kind": kind, **content}), indent=1, ensure_ascii=False) + "\n")
    return path


def read_result(kind: str) -> dict[str, Any] | None:
    """The last result of a benchmark, or None if it was not run."""
    path = RESULTS / f"{kind}.json"
    return json.loads(path.read_text()) if path.exists() else None


def measured_at(result: dict[str, Any]) -> str:
    """One line on where a result comes from."""
    about = result["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return f"Measured {about['date']} at commit {about['commit']} on {about['cpus']} CPU{'s' if about['cpus'] != 1 else ''} ({about['machine']}); {versions}."


LONGEST_WORD = 10  # of characters in a heading that is never broken
LONGEST_LINE = 16  # of characters in a cell of several numbers, which have a line each otherwise
LONGEST_NUMBER = 24  # of characters in a cell that has a number with its error, a range or a few words


def breakable(heading: str) -> str:
    """A heading whose long names may be broken between their words, so that a table is no wider than need be.

    >>> breakable("IndependentNormal(1)"), breakable("actual/claimed"), breakable("CPU seconds")
    ('Independent<wbr>Normal<wbr>(1)', 'actual/<wbr>claimed', 'CPU seconds')
    """
    return " ".join(
        re.sub(r"(?<=[a-z])(?=[A-Z])|(?=\()|(?<=/)(?=\w{3})", "<wbr>", word)
        if len(word) > LONGEST_WORD
        else word
        for word in heading.split(" ")
    )


@dataclass
class Table:
    """A table of texts, for a terminal or for Markdown."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""

    def markdown(self) -> str:
        """The table in Markdown, with its title in bold above and its note below."""
        numeric = self.right_aligned()
        lines = [f"**{self.title}**", ""]
        lines.append("| " + " | ".join(map(breakable, self.columns)) + " |")
        lines.append("|" + "|".join("--:" if right else ":--" for right in numeric) + "|")
        for row in self.rows:
            cells = [
                cell.replace(", ", ",<br>") if right and len(cell) > LONGEST_LINE else cell
                for cell, right in zip(row, numeric)
            ]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        return "\n".join([*lines, "", self.note, ""] if self.note else [*lines, ""])

    def right_aligned(self) -> list[bool]:
        """Which columns are aligned at the right: those of numbers, but for the first.

        >>> Table("", ["what", "seconds", "method"], [["a", "1.5 ± 0.2", "exact"], ["b", "–", "a sampler"]]).right_aligned()
        [False, True, False]
        """
        out = []
        for i in range(len(self.columns)):
            cells = [row[i] for row in self.rows if row[i] not in ("", "–")]
            numbers = sum(any(c.isdigit() for c in cell) for cell in cells)
            out.append(
                i > 0 and 2 * numbers >= len(cells) and max(map(len, cells), default=0) <= LONGEST_NUMBER
            )
        return out

    def show(self) -> None:
        """Print it with rich."""
        from rich.console import Console
        from rich.table import Table as RichTable

        console = Console()
        if not console.is_terminal:
            console = Console(width=160)
        table = RichTable(title=self.title, title_justify="left")
        for column, right in zip(self.columns, self.right_aligned()):
            table.add_column(column, justify="right" if right else "left")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        if self.note:
            console.print(self.note, highlight=False)
        console.print()


def present(result: dict[str, Any], tables: Callable[[dict[str, Any]], list[Table]], markdown: bool) -> None:
    """Print the tables of a result, for the eye or as Markdown."""
    result = plain(result)  # what is printed now is what would be printed from the file
    for table in tables(result):
        if markdown:
            print(table.markdown())
        else:
            table.show()
    print(measured_at(result))


def number(value: float | None, digits: int = 3) -> str:
    """A number in `digits` significant digits, without exponents where they can be avoided; – for None.

    >>> number(1234567), number(0.012345), number(None), number(2.0)
    ('1,230,000', '0.0123', '–', '2.00')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -4:
        return f"{value:.{digits - 1}e}"
    rounded = round(value, digits - 1 - magnitude)
    return f"{rounded:,.{max(0, digits - 1 - magnitude)}f}"
