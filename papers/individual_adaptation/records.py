"""Finished runs, in small files beside the program, so that a study goes on where an earlier one stopped, on whichever machine.

Each table has a row for each run: its setting, its seed, its program and its results. A row is used again if all of the first
three are those of the run that is wanted. *Its program* is a fingerprint of the results of a short run of the same setting: it
changes with the kernels, the starts, the data or the reference if that changes results, and with nothing else. Results are rounded
to six digits for this purpose and for the table, so that the last bits, in which processors differ, play no part.
"""

import csv
import hashlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common import commit

DIGITS = 6
TIMES = ("cpu_seconds", "iterations_per_second")  # results that differ each time
KEY = ("setting", "seed", "program")
ABOUT = (*KEY, "commit")
Row = dict[str, Any]
Run = Callable[[Row, int], Row]  # setting, seed → results
Rows = dict[tuple[str, ...], dict[str, str]]  # cells as they are in a file, by setting, seed and program


def rounded(result: Row) -> Row:
    """Numbers as they are stored. What is None is NaN.

    >>> rounded({"a": 0.123456789, "b": 12345678, "c": None})
    {'a': 0.123457, 'b': 12345678, 'c': nan}
    """

    def shortened(value: Any) -> float | int:
        if value is None:
            return math.nan
        if isinstance(value, int):
            return value
        return float(f"{float(value):.{DIGITS}g}")

    return {key: shortened(value) for key, value in result.items()}


def fingerprint(result: Row) -> str:
    """Eight digits that stand for the results of a run, times excepted.

    >>> fingerprint({"wmse": 0.1, "cpu_seconds": 3}) == fingerprint({"wmse": 0.1 + 1e-12, "cpu_seconds": 4})
    True
    >>> fingerprint({"wmse": 0.1}) == fingerprint({"wmse": 0.1001})
    False
    """
    words = ";".join(f"{key}={value}" for key, value in sorted(rounded(result).items()) if key not in TIMES)
    return hashlib.sha256(words.encode()).hexdigest()[:8]


def in_words(setting: Row) -> str:
    """A setting as one text.

    >>> in_words({"method": "PT, m = 8", "tau": 0.25, "draws": 1000, "warmup": None})
    'method=PT, m = 8; tau=0.25; draws=1000'
    """
    return "; ".join(f"{key}={value}" for key, value in setting.items() if value is not None)


def made_small(setting: Row, small: Row) -> Row:
    """The setting of a short run: sizes are at most those of `small`.

    >>> made_small({"tau": 0.25, "draws": 1000}, {"draws": 10, "particles": 5})
    {'tau': 0.25, 'draws': 10}
    """
    return {
        key: min(value, small[key]) if value is not None and key in small else value
        for key, value in setting.items()
    }


@dataclass
class Records:
    """The tables in a folder."""

    folder: Path
    programs: dict[tuple[str, str], str] = field(default_factory=dict)  # fingerprints, by table and setting
    read: dict[Path, tuple[int, Rows]] = field(default_factory=dict)  # files as they were at a time
    lock: Any = field(default_factory=threading.RLock)

    def path(self, table: str) -> Path:
        return self.folder / f"{table}.csv"

    def rows(self, table: str) -> Rows:
        """Of a table as it is on disk now."""
        path = self.path(table)
        if not path.exists():
            return {}
        with self.lock:
            written = path.stat().st_mtime_ns
            if path not in self.read or self.read[path][0] != written:
                with path.open(newline="", encoding="utf-8") as file:
                    found = {tuple(row[key] for key in KEY): row for row in csv.DictReader(file)}
                self.read[path] = (written, found)
            return self.read[path][1]

    def program(self, table: str, setting: Row, seed: int, run: Run, small: Row) -> str:
        """The fingerprint of a short run of the setting by the present program."""
        short = made_small(setting, small)
        key = (table, f"{in_words(short)}; seed={seed}")
        with self.lock:
            known = self.programs.get(key)
        if known is None:
            known = fingerprint(run(short, seed))
            with self.lock:
                self.programs[key] = known
        return known

    def find(self, table: str, setting: Row, seed: int, program: str) -> Row | None:
        """The results of a run that is kept, or None."""
        row = self.rows(table).get((in_words(setting), str(seed), program))
        if row is None:
            return None
        return {key: _number(text) for key, text in row.items() if key not in ABOUT and text}

    def add(self, table: str, setting: Row, seed: int, program: str, result: Row) -> Row:
        """Keep the results of a run; returns them as they are stored. Runs of the same setting and seed by another program go."""
        stored = rounded(result)
        key = (in_words(setting), str(seed), program)
        with self.lock:  # the file is read again, as another process may have written to it
            rows = {old: row for old, row in self.rows(table).items() if old[:2] != key[:2]}
            rows[key] = {**dict(zip(KEY, key)), "commit": commit(), **{k: str(v) for k, v in stored.items()}}
            columns = list(dict.fromkeys([*ABOUT, *(name for row in rows.values() for name in row)]))
            self.folder.mkdir(parents=True, exist_ok=True)
            unfinished = self.path(table).with_suffix(".unfinished")
            with unfinished.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows.values())
            unfinished.replace(self.path(table))
        return stored


def _number(text: str) -> float | int:
    return int(text) if text.lstrip("-").isdigit() else float(text)
