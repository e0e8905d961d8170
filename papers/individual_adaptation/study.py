"""What all figures and tables of the paper share: sizes, runs that several of them use, files, claims."""

import csv
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import whichvars as wv
from benchmarks import references
from benchmarks.common import ROOT, environment, number, plain
from benchmarks.problems import build
from benchmarks.runs import quiet, side_by_side
from papers.individual_adaptation.records import Records, Run
from papers.individual_adaptation.summaries import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
MILLION = 1_000_000
PICTURE_DPI = 110
# finished runs, which took hours; they come with the program
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
    measurement shows it; `brief` says the same in a few words, for the table at the top. `evidence` is a table of measurements, its
    headings first.
    """

    statement: str
    paper: str
    ours: str
    agrees: bool | None
    why: str
    fairer: bool = False
    reason: str = ""
    brief: str = ""
    evidence: list[list[str]] = field(default_factory=list)

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
    smaller: str = ""  # what is smaller than in a study of full size, "" if nothing is
    kept_cpu_seconds: float = 0.0  # of all runs that are kept, whenever they were made


class TooFewRunsError(Exception):
    """A section cannot be made yet: the runs that it needs are not there, and this study may make no more."""


@dataclass
class Progress:
    """How many of the runs of a table there are, and their CPU time."""

    wanted: int = 0
    there: int = 0
    cpu_seconds: float = 0.0
    missing_seconds: float = 0.0  # estimated from the runs that there are

    def add(self, wanted: int, seconds: Sequence[float], usual: float) -> None:
        """Runs of one setting: how many there should be, how long those took that there are, and how long one takes if there is none."""
        self.wanted += wanted
        self.there += len(seconds)
        self.cpu_seconds += sum(seconds)
        self.missing_seconds += (wanted - len(seconds)) * (float(np.mean(seconds)) if seconds else usual)

    def in_words(self, table: str) -> str:
        """One line.

        >>> print(Progress(12, 9, 60.0, 20.0).in_words("t"))
        t: 9 of 12 runs (1.0 CPU minutes); the others take about 0.33
        """
        words = f"{table}: {self.there:,} of {self.wanted:,} runs ({number(self.cpu_seconds / 60, 2)} CPU minutes)"
        if self.there < self.wanted:
            words += f"; the others take about {number(self.missing_seconds / 60, 2)}" if self.there else "; the time of the others is not known"  # fmt: skip
        return words


@dataclass
class Study:
    """One making of the figures: how large, where to, and what was computed already."""

    effort: Effort
    out: Path
    say: Callable[[str], None] = lambda text: None
    gene_data: Any = None  # the real matrix, as a Dataset, where the user has it
    done: dict[str, Any] = field(default_factory=dict)
    kept: Path | None = None  # the folder of finished runs; one in `out` if not given
    deadline: float | None = None  # by the monotonic clock; no run is begun after it

    def __post_init__(self) -> None:
        if (
            self.kept is None or self.gene_data is not None
        ):  # runs on other data are not kept with the program
            self.kept = self.out / "kept"
        self.records = Records(self.kept)
        self.progress: dict[str, Progress] = {}

    def once(self, key: str, compute: Callable[[], T]) -> T:
        """What `compute` returns, computed the first time only: figures that rest on the same runs share them."""
        if key not in self.done:
            self.done[key] = compute()
        return self.done[key]

    @property
    def may_run(self) -> bool:
        return self.deadline is None or time.monotonic() < self.deadline

    def results(
        self,
        table: str,
        settings: Sequence[dict[str, Any]],
        seeds: Sequence[int],
        run: Run,
        small: dict[str, Any],
        due: Callable[[dict[str, Any], int], bool] = lambda setting, place: True,
    ) -> list[list[dict[str, Any]]]:
        """Results of runs: for each setting a list in the order of the seeds. Runs that are kept are not made again; the others are made,
        the settings taking turns, and each is kept as soon as it ends. After the deadline no run is begun, and the lists are shorter.

        `small` has the sizes of the short run by which it is decided whether a kept run was made by a program that gives the same
        results (``records``). `due` says whether a setting has the run with a given place among the seeds.
        """

        def one(setting: dict[str, Any], seed: int) -> dict[str, Any] | None:
            program = self.records.program(table, setting, seeds[0], run, small)
            found = self.records.find(table, setting, seed, program)
            if found is None and self.may_run:
                found = self.records.add(table, setting, seed, program, run(setting, seed))
            return found

        found: list[list[dict[str, Any]]] = [[] for _ in settings]
        for place, seed in enumerate(seeds):
            wanted = [k for k, setting in enumerate(settings) if due(setting, place)]
            self.say(f"{table}: run {place + 1} of {len(seeds)}")
            made = side_by_side([partial(one, settings[k], seed) for k in wanted], self.effort.threads)
            for k, result in zip(wanted, made):
                if result is not None:
                    found[k].append(result)
        times = [[result.get("cpu_seconds", 0.0) for result in results] for results in found]
        every = [seconds for some in times for seconds in some]
        progress = self.progress.setdefault(table, Progress())
        for setting, some in zip(settings, times):
            wanted_runs = sum(due(setting, place) for place in range(len(seeds)))
            progress.add(wanted_runs, some, float(np.mean(every)) if every else 0.0)
        return found

    def kept_run(self, name: str, program: str, compute: Callable[[], wv.Posterior]) -> Summary:
        """A long run. What is needed of it is saved when it ends and read the next time, so that a study that was interrupted goes on
        where it was. Runs of the paper's own length are kept with the program. `program` is the fingerprint of a short run."""
        assert self.kept is not None
        folder = self.kept if self.effort.name == FULL.name else self.out / "runs" / self.effort.name
        path = folder / f"{name}.npz"
        if path.exists() and Summary.load(path).about.get("program") == program:
            self.say(f"{name}: read from an earlier study")
        elif not self.may_run:
            raise TooFewRunsError(name)
        else:
            about = {**environment(), "program": program}
            Summary.of(compute(), about).save(path)
        return Summary.load(path)

    def finished(self, names: Sequence[str], program: str) -> list[Summary] | None:
        """Runs of the paper's own size, if all that are named were finished earlier, by a program with this fingerprint."""
        assert self.kept is not None
        paths = [self.kept / f"{name}.npz" for name in names]
        if not all(path.exists() for path in paths):
            return None
        runs = [Summary.load(path) for path in paths]
        return runs if all(run.about.get("program") == program for run in runs) else None

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
    """The rows of a CSV file; None where a cell is empty. A commit is a text, even if all of its digits are decimal."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {key: text if key == "commit" and text else value_of(text) for key, text in row.items()}
            for row in csv.DictReader(file)
        ]


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


def runs_in_words(counts: Sequence[int], of: int) -> str:
    """How many runs there are of each setting, if any has fewer than it should; "" otherwise.

    >>> runs_in_words([10, 10], 10), runs_in_words([2, 2], 10), runs_in_words([2, 3], 10)
    ('', '2 runs instead of 10', '2–3 runs instead of 10')
    """
    least, most = min(counts), max(counts)
    if least >= of:
        return ""
    return f"{least if least == most else f'{least}–{most}'} runs instead of {of}"


def times(value: float) -> str:
    """A ratio in words.

    >>> times(2.345), times(0.5)
    ('2.3 times', '0.50 times')
    """
    return f"{number(value, 2)} times"
