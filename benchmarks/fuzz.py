"""Mutated files: tables and checkpoints are read as what they say, or refused with a message; nothing else happens.

File i of a seed can be made again by itself: ``table_mutant(seed, i)`` and ``Checkpoints.mutant(seed, i)``.
"""

import faulthandler
import gzip
import io
import math
import random
import signal
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import Table, number

FILES = 100_000
SECONDS = 60.0  # for one file: no machine is that busy
HAS_TIMER = hasattr(signal, "setitimer")  # Windows has none
BYTES_OF_ZEROS = 1 << 26  # that a checkpoint may leave out; a file of this size has no more


class FoundError(AssertionError):
    """A reader did what it must not do."""


@contextmanager
def no_longer_than(seconds: float) -> Iterator[None]:
    """An error after so long; where not even that gets through to compiled code, the end of the process a while later."""

    def give_up(*_: Any) -> None:
        raise FoundError(f"not done after {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, give_up) if HAS_TIMER else None
    if HAS_TIMER:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(3 * seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        if HAS_TIMER:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def many(
    read: Callable[[int], str],
    files: int,
    seconds: float = SECONDS,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Read so many files. `read` makes, reads and checks the i-th and returns what it was: "read …" or "refused …"."""
    outcomes: Counter[str] = Counter()
    longest = 0.0
    for i in range(files):
        clock = time.monotonic()
        try:
            with no_longer_than(seconds):
                outcomes[read(i)] += 1
        except Exception as error:
            raise FoundError(f"file {i}: {type(error).__name__}: {error}") from error
        longest = max(longest, time.monotonic() - clock)
        if (i + 1) % 10_000 == 0:
            say(f"{i + 1:,} files")
    return {"files": files, "outcomes": dict(outcomes.most_common()), "longest": longest}


def refusal(error: Exception, kinds: tuple[str, ...]) -> str:
    """Which of the known messages it is; one that is not known is a fault too."""
    for kind in kinds:
        if kind in str(error):
            return f"refused: {kind}"
    raise FoundError(f"an unknown message: {error}") from error


# --- tables


TABLE = "y,x,g,z\n" + "".join(f"{i * 7 % 5}.5,{i},{'uvw'[i % 3]},{i * i % 11}\n" for i in range(14))
PIECES = [
    b'"', b",", b"\n", b"\r", b"\x00", b"\xff\xfe", b";", b"\t", b"nan", b"1e999", b"-inf", b"=1+1", b"'", "é".encode(), b"," * 50, b"9" * 400,
    b"\xef\xbb\xbf", b"#", b"\\", b"7", b".", b"-", b"e3", b" ", b"NA", b"True", b'""', b"1.25",
]  # fmt: skip
GAPS = frozenset(
    ["#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", ""]
)  # fmt: skip
TABLE_REFUSALS = (
    "is empty", "not a text file", "damaged gzip", "no header", "are both called", "has no name", "more cells", "cells but the header has",
    "cannot be read as CSV", "a header but no rows", "names but no values", "has no value in row", "every row has a missing value", "is infinite",
    "write numbers with a decimal point", "contains dates", "which is not a number", "contains words", "contains free text", "true and false",
    "no column left", "columns cannot be used",
)  # fmt: skip


def table_mutant(seed: int, i: int) -> bytes:
    """A table with pieces put in, replaced, taken out or changed; one in ten is gzipped, half of these changed again."""
    rng = random.Random(f"table {seed} {i}")
    content = _changed(TABLE.encode(), rng)
    if i % 10 == 9:
        content = gzip.compress(content, mtime=0)
        content = _changed(content, rng) if i % 20 == 19 else content
    return content


def _changed(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 3, 4])):
        at, kind = rng.randrange(len(data) + 1), rng.randrange(5)
        if kind == 0:
            data[at:at] = rng.choice(PIECES)
        elif kind == 1:
            data[at : at + rng.randint(1, 9)] = rng.choice(PIECES)
        elif kind == 2:
            del data[at : at + rng.randint(1, 30)]
        elif data:  # any byte, or one that is usual in tables
            data[min(at, len(data) - 1)] = (
                rng.randrange(256) if kind == 3 else rng.choice(b"0123456789.-eE, uvw")
            )
    return bytes(data)


def read_one_table(seed: int, i: int, path: Path) -> str:
    """Make, read and check file i."""
    from whichvars.data.files import read_table
    from whichvars.data.roles import encode_table
    from whichvars.errors import WhichvarsError

    content = table_mutant(seed, i)
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            table = read_table(path)
            found = encode_table(table, table.frame.columns[0], missing="drop" if i % 2 == 0 else "error")
        except WhichvarsError as error:
            return refusal(error, TABLE_REFUSALS)
    check_table(content, found, drop_missing=i % 2 == 0)
    return "read: every cell is what the text says"


def check_table(content: bytes, found: Any, drop_missing: bool) -> None:
    """Compare what was made of a file with its text, which is taken apart here by other means than there."""
    names, rows, separator = plain_cells(content)
    first = next(j for j, name in enumerate(names) if name)
    named = [j for j, name in enumerate(names) if name]
    rows = [row for row in rows if any(row[j] not in GAPS for j in named)]
    if drop_missing:
        # columns without any value are left out, and then rows with missing values
        named = [j for j in named if j == first or any(row[j] not in GAPS for row in rows)]
        rows = [row for row in rows if all(row[j] not in GAPS for j in named)]
    if len(rows) != len(found.y) or len(rows) != len(found.encoded.X):
        raise FoundError(f"{len(found.y)} rows were read, but there are {len(rows)}")
    commas = separator != ","
    _same_numbers(names[first], [row[first] for row in rows], found.y.to_numpy(), commas)
    X, at = found.encoded.X.to_numpy(float), 0
    for j in named:
        name, texts = names[j], [row[j] for row in rows]
        if j == first:
            continue
        if name not in found.encoded.encoding.columns:
            if len(set(texts)) > 1:
                raise FoundError(f"column {name!r} was left out")
        elif name in found.encoded.encoding.levels:
            levels = found.encoded.encoding.levels[name]
            if sorted(set(texts)) != levels:
                raise FoundError(f"column {name!r} has other levels than {levels}")
            for level in levels[1:]:
                if [text == level for text in texts] != X[:, at].tolist():
                    raise FoundError(f"column {name!r} has {level!r} in other rows")
                at += 1
        else:
            _same_numbers(name, texts, X[:, at], commas)
            at += 1
    if at != X.shape[1]:
        raise FoundError(f"there are {X.shape[1] - at} columns too many")


def _same_numbers(name: str, texts: list[str], values: np.ndarray, commas: bool) -> None:
    for row, (text, value) in enumerate(zip(texts, values, strict=True), start=1):
        if not math.isclose(plain_number(text, commas), value, rel_tol=1e-14):
            raise FoundError(f"column {name!r} has {text!r} in row {row}, which was read as {value!r}")


def plain_number(text: str, commas: bool) -> float:
    """A number as a cell has it; NaN where it is none, which is equal to nothing."""
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    try:
        return float(text.replace(",", ".") if commas else text)
    except ValueError:
        return math.nan


def plain_cells(content: bytes) -> tuple[list[str], list[list[str]], str]:
    """Names, cells by row without empty lines, each row as long as the names, and what separates them."""
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    utf16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = content.decode("utf-16" if utf16 else "utf-8-sig").lstrip("\r\n")
    parts = text.split("\n")[0].split('"')
    outside = "".join(parts[::2]) + (
        parts[-1] if len(parts) % 2 == 0 else ""
    )  # a quote that never ends is none
    separator = max(",;\t", key=outside.count)
    names, *rows = _split(text, separator)
    names = [name.strip() for name in names]
    full = [[cell.strip() for cell in row] + [""] * (len(names) - len(row)) for row in rows]
    for row in full:
        if len(row) > len(names):
            raise FoundError(f"a row of {len(row)} cells was read under {len(names)} names")
    return names, full, separator


def _split(text: str, separator: str) -> Iterator[list[str]]:
    """Cells, a character at a time; blanks before a cell are no part of it, lines of blanks alone no rows."""
    row: list[str] = []
    cell, begun, quoted, i = "", False, False, 0
    text = text.replace("\r\n", "\n")
    while i < len(text):
        c = text[i]
        if quoted and c == '"' and text[i + 1 : i + 2] == '"':
            cell, i = cell + c, i + 1
        elif quoted and c == '"':
            quoted = False
        elif quoted:
            cell += c
        elif c == '"' and not begun:
            quoted = begun = True
        elif c == separator:
            row.append(cell)
            cell, begun = "", False
        elif c in "\r\n":
            if row or begun:
                yield [*row, cell]
            row, cell, begun = [], "", False
        elif begun or c not in " \t":
            cell, begun = cell + c, True
        i += 1
    if row or begun:
        yield [*row, cell]


# --- checkpoints


CHECKPOINT_REFUSALS = (
    "is not a file that whichvars saved", "its checksum is wrong", "is in format", "holds a ", "cannot be read",
)  # fmt: skip


class Checkpoints:
    """The files of a small run, to be mutated. A third of the mutants is that alone; a third has a right checksum put on
    afterwards; and in a third, contents of entries were changed and all checksums are right."""

    def __init__(self, place: Path) -> None:
        import whichvars as wv
        from whichvars.problem import saving
        from whichvars.sampling import checkpoint

        rng = np.random.default_rng(4)
        X = rng.normal(size=(20, 5))
        problem = wv.Problem(X, X[:, 0] + rng.normal(size=20), slab=wv.GPrior("n"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wv.ConvergenceWarning)
            wv.sample(
                problem, wv.AddDeleteSwap(memo_slots=4), draws=50, warmup=10, replicates=1, checkpoint=place, progress=False
            )  # fmt: skip
        self.known = {**checkpoint.classes(), **{c.__name__: c for c in saving.CLASSES}}
        self.path = place / "mutant"
        self.kinds = ("run", "replicate")
        self.contents = [(place / name).read_bytes() for name in ("run.npz", "replicate-0.npz")]
        self.digests = [self._digest(content, kind) for content, kind in zip(self.contents, self.kinds)]

    def _digest(self, content: bytes, kind: str) -> str:
        """What a file is read as."""
        from whichvars.data import storage

        self.path.write_bytes(content)
        return storage.digest_of(
            storage.load(self.path, kind, self.known, most_zeros=BYTES_OF_ZEROS), self.known
        )

    def mutant(self, seed: int, i: int) -> bytes:
        content, rng = self.contents[i % 2], random.Random(f"checkpoint {seed} {i}")
        how = i // 2 % 3
        if how == 2:
            return sealed(_repacked(content, rng))
        return sealed(_damaged(content, rng)) if how else _damaged(content, rng)

    def read_one(self, seed: int, i: int) -> str:
        """Make, read and check file i."""
        from whichvars.errors import DataError

        content, which = self.mutant(seed, i), i % 2
        try:
            digest = self._digest(content, self.kinds[which])
        except DataError as error:
            return refusal(error, CHECKPOINT_REFUSALS)
        if digest == self.digests[which]:
            return "read: nothing that matters was changed"
        if i // 2 % 3 == 2:
            return "read: changed, with all checksums right"
        raise FoundError("a damaged file was read as something else")


def _damaged(content: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, cut, repeated or moved."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        kind, at = rng.randrange(5), rng.randrange(max(len(data), 1))
        size = rng.choice([1, 2, 8, 64])
        if kind == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at : at + size] = rng.randbytes(size)
        elif kind == 3:
            data[at:at] = data[at : at + size]
        else:
            del data[at : at + size]
    return bytes(data)


def _repacked(content: bytes, rng: random.Random) -> bytes:
    """The same archive with one entry damaged; half of the time it is the header."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
        comment = archive.comment
    chosen = "header.npy" if rng.random() < 0.5 else rng.choice(list(entries))
    entries[chosen] = _damaged(entries[chosen], rng)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.comment = comment
        for name, entry in entries.items():
            archive.writestr(zipfile.ZipInfo(name), entry)
    return stream.getvalue()


def sealed(content: bytes) -> bytes:
    """A file with the checksum that it should have, where there is any."""
    from whichvars.data import archives

    try:
        return content[: -archives.DIGEST] + archives.digest_of(io.BytesIO(content), len(content))
    except Exception:  # as bytes of any kind may raise
        return content


# --- both


def measure(files: int = FILES, seed: int = 0, say: Callable[[str], None] = print) -> dict[str, Any]:
    """So many mutated files of each kind; an error if any is read wrongly."""
    environment = common.environment()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "mutant.csv"
        say("tables")
        tables_found = many(lambda i: read_one_table(seed, i, path), files, say=say)
        say("checkpoints")
        checkpoints = Checkpoints(Path(directory) / "run")
        checkpoints_found = many(lambda i: checkpoints.read_one(seed, i), files, say=say)
    return {
        "environment": environment,
        "seed": seed,
        "tables": tables_found,
        "checkpoints": checkpoints_found,
    }


def tables(result: dict[str, Any]) -> list[Table]:
    """What became of the files."""
    made = []
    for kind, title in (
        ("tables", "Mutated CSV files, one in ten gzipped"),
        ("checkpoints", "Mutated checkpoints, of the run and of a replicate"),
    ):
        found = result[kind]
        table = Table(f"{title}: {found['files']:,}, seed {result['seed']}", ["what happened", "files"])
        table.rows = [[what, f"{count:,}"] for what, count in found["outcomes"].items()]
        table.rows += [["a crash, a hang or a wrong result", "0"], ["seconds for one, at most", number(found["longest"])]]  # fmt: skip
        made.append(table)
    return made
