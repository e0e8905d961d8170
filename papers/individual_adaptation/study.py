"""What all figures and tables of the paper share: sizes, runs that several of them use, files, claims."""

import csv
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import whichvars as wv
from benchmarks import references
from benchmarks.common import ROOT, environment, number, plain
from benchmarks.problems import build
from benchmarks.runs import quiet
from papers.individual_adaptation.summaries import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
MILLION = 1_000_000
PICTURE_DPI = 110
# summaries of runs of the paper's own length, which took hours; they come with the program
KEPT = ROOT / "papers" / "individual_adaptation" / "kept"


@dataclass(frozen=True)
class Effort:
    """How much is computed. The defaults are the paper's sizes."""

    name: str = "full"
    tecator_draws: int = MILLION  # and a tenth of it as warm-up
    tecator_runs: int = 10
    all_taus: bool = True
    adaptation_runs: int = 10
    trace_draws: int = 4000
    model_draws: int = 20 * MILLION  # a replicate, for the table of models
    wmse_runs: int = 60
    wmse_few_runs: int = 60  # of SMC with K < 25
    wmse_scale: float = 1.0
    variant_runs: int = 20  # of each variant of tempering and SMC
    wmse_taus: tuple[float, ...] = (0.25, 0.35, 0.45, 0.55, 0.65)
    pcr_part: float = 1.0  # of the paper's 24·10⁶ iterations
    timed_part: float = 0.1  # of the same, from which their time is extrapolated
    pcr_p: int = 22_576
    screen: int = 2000
    threads: int = 2


FULL = Effort()
# what a quick study has less of; the other sections are as large as in a full one
QUICK_HAS = {
    "tecator_mutation": "2 runs of each setting instead of 10",
    "tecator_ess": "2 runs of each setting instead of 10",
    "boston_models": "2 million draws a replicate instead of 20 million, 10 runs for the error of a table instead of 20",
    "boston_wmse": "20 runs instead of 60 (3 of SMC with K < 25), two values of τ instead of five",
    "boston_tempering": "10 runs of each variant instead of 20",
    "boston_bottlenecks": "10 runs of each variant instead of 20",
    **dict.fromkeys(
        ("pcr_pips", "pcr_noise", "pcr_sizes", "pcr_traces", "pcr_screening"), "a twentieth of the iterations"
    ),
}
QUICK = Effort(
    name="quick",
    tecator_runs=2,
    model_draws=2 * MILLION,
    wmse_runs=20,
    wmse_few_runs=3,
    variant_runs=10,
    wmse_taus=(0.25, 0.45),
    pcr_part=1 / 20,
)


@dataclass(frozen=True)
class Claim:
    """One statement: the paper's number and ours.

    `agrees` is None where the two cannot be compared; `why` says what was asked of ours, or why not. `fairer` marks what
    the paper does not claim: the same question under another measure. `reason` says why the two differ, and which
    measurement shows it.
    """

    statement: str
    paper: str
    ours: str
    agrees: bool | None
    why: str
    fairer: bool = False
    reason: str = ""

    @property
    def verdict(self) -> str:
        if self.fairer:
            return {True: "holds", False: "**does not hold**", None: "not judged"}[self.agrees]
        return {True: "agrees", False: "**differs**", None: "not comparable"}[self.agrees]


@dataclass
class Section:
    """What a figure or table comes to: texts, files and claims."""

    title: str
    text: list[str] = field(default_factory=list)
    figures: list[tuple[str, str]] = field(default_factory=list)  # name of the PNG file, caption
    tables: list[tuple[str, str]] = field(default_factory=list)  # name of the CSV file, caption
    claims: list[Claim] = field(default_factory=list)
    smaller: str | None = (
        None  # what is smaller than in the paper, "" if nothing is; None if that follows from the size of the study
    )
    kept_cpu_seconds: float = 0.0  # of runs that were kept from an earlier study


@dataclass
class Study:
    """One making of the figures: how large, where to, and what was computed already."""

    effort: Effort
    out: Path
    say: Callable[[str], None] = lambda text: None
    gene_data: Any = None  # the real matrix, as a Dataset, where the user has it
    done: dict[str, Any] = field(default_factory=dict)
    kept: Path = KEPT

    def once(self, key: str, compute: Callable[[], T]) -> T:
        """What `compute` returns, computed the first time only: figures that rest on the same runs share them."""
        if key not in self.done:
            self.done[key] = compute()
        return self.done[key]

    def kept_run(self, name: str, compute: Callable[[], wv.Posterior]) -> Summary:
        """A long run. What is needed of it is saved when it ends and read the next time, so that a study that was interrupted goes on
        where it was."""
        path = self.out / "runs" / self.effort.name / f"{name}.npz"
        if path.exists():
            self.say(f"{name}: read from an earlier study")
        else:
            about = environment()
            Summary.of(compute(), about).save(path)
        return Summary.load(path)

    def finished(self, names: Sequence[str], p: int) -> list[Summary] | None:
        """Runs of the paper's own size with p variables, if all that are named were finished earlier, here or by those who wrote this."""
        found = []
        for name in names:
            places = [folder / f"{name}.npz" for folder in (self.out / "runs" / FULL.name, self.kept)]
            runs = [Summary.load(path) for path in places if path.exists()]
            runs = [run for run in runs if len(run.pip) == p]
            if not runs:
                return None
            found.append(runs[0])
        return found

    def problem(self, name: str) -> wv.Problem:
        """One of the benchmarks' problems."""
        return build(name)

    def truth(self, name: str) -> references.Reference:
        """The stored reference of a problem."""
        stored = references.load(name, self.problem(name))
        if isinstance(stored, str):
            raise FileNotFoundError(f"{name}: {stored}")
        return stored

    def sample(self, problem: wv.Problem, sampler: Any, **arguments: Any) -> wv.Posterior:
        """A run without a word, on all threads of the study."""
        with quiet():
            return wv.sample(problem, sampler, threads=self.effort.threads, progress=False, **arguments)

    def picture(self, section: Section, name: str, figure: "Figure", caption: str) -> None:
        """Write a figure as PNG and SVG."""
        self.out.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.out / f"{name}.png", dpi=PICTURE_DPI)
        figure.savefig(self.out / f"{name}.svg", metadata={"Date": None})
        section.figures.append((f"{name}.png", caption))

    def table(self, section: Section, name: str, rows: Sequence[dict[str, Any]], caption: str = "") -> None:
        """Write rows as CSV; with a caption, the page shows them too."""
        self.out.mkdir(parents=True, exist_ok=True)
        columns = list(dict.fromkeys(key for row in rows for key in row))
        with (self.out / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(plain(row) for row in rows)
        section.tables.append((f"{name}.csv", caption))

    def row(self, table: str, key: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A row of a table whose rows take minutes each. It is written as soon as it is known. A row that has this key and is there
        already, from an earlier study, is taken as it is."""
        path = self.out / f"{table}.csv"
        before = [given(row) for row in read_table(path)] if path.exists() else []
        for row in before:
            if all(row.get(name) == value for name, value in key.items()):
                self.say(f"{table}: {', '.join(map(str, key.values()))}: read from an earlier study")
                return row
        commit = environment()["commit"]
        new = plain({**key, **compute(), "commit": commit})
        self.table(Section(""), table, [*before, new])
        return given(new)

    def write(self, name: str, section: Section, command: str, started: float) -> Path:
        """Keep a section, so that the page can be made of all that were ever made."""
        content = {
            "environment": environment(),
            "command": command,
            "mode": self.effort.name,
            "seconds": time.monotonic() - started,
            **asdict(section),
        }
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{name}.json"
        path.write_text(json.dumps(plain(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return path


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


def read_table(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV file; None where a cell is empty."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: value_of(text) for key, text in row.items()} for row in csv.DictReader(file)]


def given(row: dict[str, Any]) -> dict[str, Any]:
    """A row without its empty cells."""
    return {key: value for key, value in row.items() if value is not None}


def new_figure(
    columns: int = 1, rows: int = 1, width: float = 4.2, height: float = 3.4, **sharing: Any
) -> Any:
    """A figure that opens no window, and its axes, shape (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **sharing)


def label_outer(axes: Any, x: str, y: str) -> None:
    """Names of the axes, at the lowest and the leftmost of several."""
    for ax in axes[-1]:
        ax.set_xlabel(x)
    for ax in axes[:, 0]:
        ax.set_ylabel(y)


def between(value: float, low: float, high: float) -> bool:
    """Whether low ≤ value ≤ high; False for NaN."""
    return bool(low <= value <= high)


def worst_difference(pips: np.ndarray) -> float:
    """Largest difference of a PIP between any two runs; shape (runs, p)."""
    return float((np.max(pips, axis=0) - np.min(pips, axis=0)).max())


def times(value: float) -> str:
    """A ratio in words.

    >>> times(2.345), times(0.5)
    ('2.3 times', '0.50 times')
    """
    return f"{number(value, 2)} times"
