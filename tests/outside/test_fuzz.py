"""Mutated files are read as what they say, or refused: ``benchmarks/fuzz.py`` with fewer files; and it notices what it is
there for: readers that are broken on purpose."""

from __future__ import annotations

import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks import common, fuzz, page  # noqa: E402
from whichvars.data import archives, files  # noqa: E402


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> fuzz.Checkpoints:
    return fuzz.Checkpoints(tmp_path_factory.mktemp("checkpoints") / "run")


def kinds(found: dict[str, Any]) -> dict[str, int]:
    assert sum(found["outcomes"].values()) == found["files"]
    return {word: sum(n for what, n in found["outcomes"].items() if what.startswith(word)) for word in ("read", "refused")}  # fmt: skip


def test_mutated_tables_are_read_or_refused(tmp_path: Path) -> None:
    found = kinds(fuzz.many(lambda i: fuzz.read_one_table(1, i, tmp_path / "t.csv"), 2000))
    assert min(found.values()) > 200


def test_mutated_checkpoints_are_refused(checkpoints: fuzz.Checkpoints) -> None:
    found = fuzz.many(lambda i: checkpoints.read_one(1, i), 2000)
    assert kinds(found)["refused"] > 1800
    assert {"read: nothing that matters was changed", "read: changed, with all checksums right"} < set(found["outcomes"])  # fmt: skip


@pytest.mark.slow
def test_a_hundred_thousand_of_each() -> None:
    """A crash, a hang or a wrong result raises; here it is counted that none was left out."""
    found = fuzz.measure(fuzz.FILES, seed=2, say=lambda _: None)
    for kind in ("tables", "checkpoints"):
        assert found[kind]["files"] == sum(found[kind]["outcomes"].values()) == 100_000
    text = page.section("fuzz", common.plain(found))
    assert text.count("100,000") == 2


# --- what must be noticed


def test_a_file_can_be_made_again(checkpoints: fuzz.Checkpoints) -> None:
    assert fuzz.table_mutant(3, 19) == fuzz.table_mutant(3, 19) != fuzz.table_mutant(4, 19)
    assert checkpoints.mutant(3, 5) == checkpoints.mutant(3, 5) != checkpoints.mutant(4, 5)


def fuzz_tables(tmp_path: Path) -> None:
    fuzz.many(lambda i: fuzz.read_one_table(1, i, tmp_path / "t.csv"), 300)


def broken(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    real = files._read_csv
    monkeypatch.setattr(files, "_read_csv", lambda *a: change(real(*a)))


def test_a_wrong_number_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(table: files.Table) -> files.Table:
        if table.frame.shape[1] == 4 and table.frame["z"].dtype.kind in "if":
            table.frame["z"] = table.frame["z"] * (1 + 1e-12)
        return table

    broken(monkeypatch, change)
    with pytest.raises(fuzz.FoundError, match=r"column 'z' has .* which was read as"):
        fuzz_tables(tmp_path)


def test_a_lost_row_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, lambda table: table._replace(frame=table.frame.iloc[:-1]))
    with pytest.raises(fuzz.FoundError, match="rows were read, but there are"):
        fuzz_tables(tmp_path)


def test_an_error_without_a_message_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, lambda table: 1 / 0)
    with pytest.raises(fuzz.FoundError, match="ZeroDivisionError"):
        fuzz_tables(tmp_path)


@pytest.mark.skipif(
    not fuzz.HAS_TIMER, reason="without a timer (Windows) a hang ends the process, and pytest with it"
)
def test_a_hang_is_noticed() -> None:
    with pytest.raises(fuzz.FoundError, match=r"not done after 0\.05 seconds"):
        fuzz.many(lambda i: time.sleep(60) or "read", 1, seconds=0.05)


def test_damage_that_no_checksum_finds_is_noticed(
    checkpoints: fuzz.Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_check_digest", lambda *_: None)
    monkeypatch.setattr(zipfile.ZipExtFile, "_update_crc", lambda *_: None)
    with pytest.raises(fuzz.FoundError, match="read as something else"):
        fuzz.many(lambda i: checkpoints.read_one(1, i), 300)
