"""Files and folders in portions: the same sums as from memory, in bounded memory; what is refused, by file, column, row."""

from __future__ import annotations

import datetime
import gzip
import os
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import whichvars as wv
from whichvars.data.streaming import find_sources, read_portions
from whichvars.errors import DataError, WhichvarsError

Statistics = wv.SufficientStatistics
N = 300
RNG = np.random.default_rng(2)
FRAME = pd.DataFrame(
    {
        "a": 1e6 + RNG.standard_normal(N),
        "b": RNG.integers(-5, 5, N),
        "c": RNG.random(N) < 0.3,
        "y": RNG.standard_normal(N).round(6),
        "w": RNG.uniform(0.5, 2, N).round(3),
    }
)
X = FRAME[["a", "b", "c"]].astype(float)
WHOLE = Statistics.from_arrays(X, FRAME["y"], FRAME["w"])


def same(found, whole=WHOLE):
    assert (found.names, found.responses, found.n) == (whole.names, whole.responses, whole.n)
    np.testing.assert_allclose(found.scatter, whole.scatter, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.mean, whole.mean, rtol=1e-14)


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False, row_group_size=70)
    elif path.suffix == ".gz":
        with gzip.open(path, "wt", encoding="utf-8") as stream:
            frame.to_csv(stream, index=False, float_format="%.17g")
    else:
        frame.to_csv(path, index=False, float_format="%.17g")
    return path


@pytest.mark.parametrize("rows", [None, 1, 64, 300, 1000])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_file_gives_what_memory_gives(suffix, rows, tmp_path):
    found = Statistics.from_files(write(FRAME, tmp_path / f"d{suffix}"), "y", weights="w", rows=rows)
    same(found)
    assert found.has_names


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_folder_is_its_files_one_after_the_other(suffix, tmp_path):
    for i in range(3):
        part = FRAME.iloc[100 * i : 100 * (i + 1)]
        part = part[["w", "y", "c", "a", "b"]] if i == 1 else part  # the order may differ
        write(part, tmp_path / f"part{i}{suffix}")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part0.crc").write_bytes(b"crc")
    found = Statistics.from_files(tmp_path, "y", weights="w")
    same(found)
    listed = [tmp_path / f"part{i}{suffix}" for i in range(3)]
    np.testing.assert_array_equal(Statistics.from_files(listed, "y", weights="w").scatter, found.scatter)
    np.testing.assert_array_equal(
        Statistics.from_files([str(path) for path in listed], "y", weights="w").scatter, found.scatter
    )


def test_files_of_both_kinds_may_be_together(tmp_path):
    write(FRAME.iloc[:120], tmp_path / "1.csv")
    write(FRAME.iloc[120:], tmp_path / "2.parquet")
    same(Statistics.from_files(tmp_path, "y", weights="w"))


def test_drop_and_several_responses(tmp_path):
    path = write(FRAME.assign(id="word", when=datetime.date(2020, 1, 1)), tmp_path / "d.csv")
    found = Statistics.from_files(path, ["y", "a"], drop=["id", "when", "w"])
    assert (found.names, found.responses) == (["b", "c"], ["y", "a"])
    path = write(FRAME.assign(id="word"), tmp_path / "d.parquet")
    assert Statistics.from_files(path, "y", drop="id").names == ["a", "b", "c", "w"]


def test_csv_as_people_have_it(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes("\r\n;dose;y\r\n1;1,5;2\r\n2;2,5;3\r\n3;0,5;1\r\n".encode("utf-8-sig"))
    found = Statistics.from_files(path, "y", rows=2)
    assert found.names == ["dose"]
    assert found.means.to_dict() == {"dose": 1.5, "y": 2.0}
    path.write_text("a\ty\n1\t2\n2\t4\n", encoding="utf-16")
    assert Statistics.from_files(path, "y").means.to_dict() == {"a": 1.5, "y": 3.0}
    table = Statistics.from_files(write(FRAME, tmp_path / "e.csv"), "y", drop="w")
    direct = pd.read_csv(tmp_path / "e.csv")
    same(table, Statistics.from_arrays(direct[["a", "b", "c"]].astype(float), direct["y"]))


def test_all_kinds_of_numbers_in_parquet(tmp_path):
    columns = {
        "f4": pa.array([1.5, 2.5, 4.0], pa.float32()),
        "f2": pa.array(np.array([1.5, 2.5, 4.0], np.float16)),
        "i1": pa.array([1, -2, 3], pa.int8()),
        "u8": pa.array([1, 2, 2**63], pa.uint64()),
        "flag": pa.array([True, False, True]),
        "money": pa.array([1, 2, 4], pa.decimal128(10, 2)),
        "y": pa.array([1.0, 2.0, 0.0]),
    }
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table(columns), path)
    means = Statistics.from_files(path, "y").means
    expected = [8 / 3, 8 / 3, 2 / 3, (3 + 2**63) / 3, 2 / 3, 7 / 3, 1.0]
    np.testing.assert_allclose(means, expected, rtol=1e-15)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_memory_does_not_grow_with_the_rows(suffix, tmp_path):
    peaks = []
    for copies in (20, 200):
        path = tmp_path / f"{copies}{suffix}"
        write(pd.concat([FRAME] * copies, ignore_index=True), path)
        wanted = ["a", "b", "y"]
        list(read_portions(find_sources(path), wanted, 500))  # imports
        tracemalloc.start()
        for _ in read_portions(find_sources(path), wanted, 500):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 100_000  # 60,000 rows of three numbers would be 1.4 MB


def test_a_parquet_file_is_not_fetched_whole(tmp_path):
    """Not even where it has one row group only; the library would, unless told not to."""
    path = tmp_path / "d.parquet"
    rows = 400_000
    table = pa.table({name: RNG.standard_normal(rows) for name in "abcy"})
    pq.write_table(table, path, row_group_size=rows, use_dictionary=False)
    del table
    before, most = pa.total_allocated_bytes(), 0
    for _ in read_portions(find_sources(path), list("abcy"), 5000):
        most = max(most, pa.total_allocated_bytes() - before)
    assert 0 < most < path.stat().st_size / 2


# --- what is refused
# ----------------------------------------------------------------------------------------------------------


def parts(tmp_path, suffix, change):
    """A folder of three files, the last of which was changed."""
    for i in range(3):
        part = FRAME.iloc[100 * i : 100 * (i + 1)].reset_index(drop=True)
        write(change(part) if i == 2 else part, tmp_path / f"part{i}{suffix}")
    return tmp_path


def with_value(row, column, value):
    def change(frame):
        frame = frame.astype({column: object if isinstance(value, str) else float})
        frame.loc[row, column] = value
        return frame

    return change


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda part: part.drop(columns="b"), r"part2\S+ lacks the column 'b', which \S+part0"),
        (lambda part: part.rename(columns={"b": "B"}), r"part2\S+ lacks the column 'b'"),
        (lambda part: part.assign(d=1.0), r"part2\S+ has a column 'd', which \S+part0\S+ lacks"),
        (with_value(57, "a", np.nan), r"part2\S+: column 'a' has no value in row 58"),
        (with_value(99, "y", np.inf), r"part2\S+: column 'y' is infinite in row 100"),
        (with_value(3, "w", -1.0), r"part2\S+: weights is negative in row 4"),
        (with_value(3, "w", np.nan), r"part2\S+: column 'w' has no value in row 4"),
        (lambda part: part.assign(b="word"), r"part2\S+: column 'b' (has 'word' in row 1 .* not a number|contains \w*string)"),
        (lambda part: part.assign(b=pd.Timestamp("2020-01-01")), r"part2\S+: column 'b' contains (dates|timestamp)"),
    ],
)  # fmt: skip
def test_bad_files_of_a_folder_are_named(suffix, change, said, tmp_path):
    with pytest.raises(DataError, match=said):
        Statistics.from_files(parts(tmp_path, suffix, change), "y", weights="w", rows=40)


def test_a_word_among_numbers_is_named(tmp_path):
    change = with_value(57, "b", "oops")
    with pytest.raises(
        DataError, match=r"part2.csv: column 'b' has 'oops' in row 58.*, which is not a number"
    ):
        Statistics.from_files(parts(tmp_path, ".csv", change), "y", rows=40)


def test_a_gap_among_words_is_a_gap(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a,y\nx,1\n,2\nz,3\n")
    with pytest.raises(DataError, match=r"column 'a' has no value in row 2"):
        Statistics.from_files(path, "y")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"a,y\n", "there are no rows"),
        (b"1,2\n3,4\n", "has no header"),
        (b"a,a,y\n1,2,3\n", "columns 1 and 2 are both called 'a'"),
        (b"a,,y\n1,2,3\n", "column 2 has no name"),
        (b"a,y\n1,2\n1,2,3\n4,5\n", "line 3 has 3 cells but the header has 2 names"),
        (b"a,y\n1,2\n\xff,3\n", "not a text file in UTF-8"),
        (b"a,y\n1,\x002\n", "number|text"),
        (b"PK\x03\x04zip", "Excel workbook"),
        (b"ARROW1\x00\x00", "Feather"),
        (b"PAR1 cut short", "cannot be read as Parquet"),
        (gzip.compress(b"a,y\n" + os.urandom(3000).hex().encode())[:-900], "damaged gzip"),
    ],
)
def test_bad_files_are_refused(content, said, tmp_path):
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(DataError, match=said):
        Statistics.from_files(path, "y", rows=1)


def test_a_parquet_file_damaged_inside_is_named(tmp_path):
    path = write(FRAME, tmp_path / "d.parquet")
    content = bytearray(path.read_bytes())
    content[200:1500] = b"\xff" * 1300
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"d.parquet cannot be read as Parquet|d.parquet: column"):
        Statistics.from_files(path, "y")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"response": "z"}, "response: there is no column 'z'"),
        ({"response": []}, "name at least one"),
        ({"response": "y", "weights": "v"}, "weights: there is no column 'v'"),
        ({"response": "y", "weights": "y"}, "both the weights and a response"),
        ({"response": "y", "drop": ["y"]}, "'y' is given as response, so it cannot be dropped"),
        ({"response": "y", "drop": ["q"]}, "drop: there is no column 'q'"),
        ({"response": "y", "drop": ["a", "b", "c", "w"]}, "no column left besides the response"),
        ({"response": "y", "rows": 0}, "rows must be a whole number"),
    ],
)
def test_bad_arguments_are_refused(arguments, said, tmp_path):
    with pytest.raises(WhichvarsError, match=said):
        Statistics.from_files(write(FRAME, tmp_path / "d.csv"), **arguments)


def test_bad_folders_are_refused(tmp_path):
    with pytest.raises(DataError, match="contains no files"):
        Statistics.from_files(tmp_path, "y")
    with pytest.raises(DataError, match="no file was given"):
        Statistics.from_files([], "y")
    with pytest.raises(DataError, match="name a file, a folder or a list"):
        Statistics.from_files(3, "y")
    with pytest.raises(FileNotFoundError):
        Statistics.from_files(tmp_path / "nowhere.csv", "y")
    (tmp_path / "year=2020").mkdir()
    with pytest.raises(DataError, match="contains a folder 'year=2020'"):
        Statistics.from_files(tmp_path, "y")
