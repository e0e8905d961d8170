"""Data files: what is handled, and the message a person gets where it is not."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from whichvars.data.encoding import Encoding
from whichvars.data.files import read_table
from whichvars.data.roles import encode_table
from whichvars.errors import DataError

ROWS = "".join(f"{i},{i * i % 7},{'uv'[i % 2]}\n" for i in range(12))


def read(tmp_path: Path, content: str | bytes, response: str = "y", **options: Any) -> Any:
    path = tmp_path / "Daten für 2026.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return encode_table(read_table(path), response, **options)


def test_numbers_words_and_order(tmp_path: Path) -> None:
    found = read(tmp_path, "x,g,y,b\n" + "".join(f"{i},{'cab'[i % 3]},{i},{i % 2 == 0}\n" for i in range(12)))
    assert found.X.columns.tolist() == ["x", "g=b", "g=c", "b"]
    assert found.X.iloc[:3].to_numpy().tolist() == [[0, 0, 1, 1], [1, 0, 0, 0], [2, 1, 0, 1]]
    assert found.y.tolist() == list(range(12))
    assert found.encoding.groups == {"g": ["g=b", "g=c"]}
    assert found.encoding == Encoding(["x", "g", "b"], {"g": ["a", "b", "c"]})
    assert "compared with 'a'" in found.notes[-1]


@pytest.mark.parametrize(
    "content",
    [
        ("﻿y,x,g\n" + ROWS).encode(),  # byte order mark
        ("y,x,g\n" + ROWS).encode("utf-16"),
        ("y;x;g\n" + ROWS.replace(",", ";")).encode(),
        ("y\tx\tg\n" + ROWS.replace(",", "\t")).encode(),
        ("y, x, g\n" + ROWS.replace(",", ", ")).encode(),
        ('"y","x","g"\n' + ROWS).replace("\n", "\r\n").encode(),
        gzip.compress(("y,x,g\n" + ROWS).encode()),
        ("y,x,g,\n" + ROWS.replace("\n", ",\n") + "\n,,,\n").encode(),  # empty cells at the end of lines, empty rows
        ("\n\ny,x,g\n" + ROWS).encode(),
        ("y  x   g\n" + ROWS.replace(",", " ")).encode(),
        ("# made in 2026\n# by hand, of old tables\ny,x,g\n" + ROWS).encode(),
        (",y,x,g\n" + "".join(f"r{i},{row}\n" for i, row in enumerate(ROWS.splitlines()))).encode(),  # row labels
    ],
    ids=["BOM", "UTF-16", "semicolons", "tabs", "blanks", "quotes", "gzip", "empty cells", "empty lines", "words", "comments", "row labels"],
)  # fmt: skip
def test_dialects_give_the_same_table(content: bytes, tmp_path: Path) -> None:
    plain = read(tmp_path, "y,x,g\n" + ROWS)
    found = read(tmp_path, content)
    pd.testing.assert_frame_equal(found.X, plain.X)
    pd.testing.assert_series_equal(found.y, plain.y)
    assert found.encoding == plain.encoding


def test_decimal_commas_between_semicolons(tmp_path: Path) -> None:
    found = read(tmp_path, "y;x;z\n1;1,5;2,5e1\n2;-2;,25\n3;+0,125;1\n")
    assert found.X.to_numpy().tolist() == [[1.5, 25], [-2, 0.25], [0.125, 1]]
    assert found.notes == ["Commas are read as decimal commas in column x, z."]


def test_a_column_that_counts_the_rows_is_remarked_upon(tmp_path: Path) -> None:
    rows = "".join(f"{i % 3},{i + 7},{i + (i > 8)},{i / 2}\n" for i in range(12))
    (note,) = read(tmp_path, "y,my id,gap,half\n" + rows).notes
    assert note == "Column 'my id' counts the rows; if it is an identifier, leave it out with --drop 'my id'."


def test_predictions_have_advice_of_their_own(tmp_path: Path) -> None:
    encoding = read(tmp_path, "y,x,g\n" + ROWS).encoding
    (tmp_path / "new.csv").write_text("x,g\n1,\n2,b\n")
    with pytest.raises(
        DataError, match=r"'g' has no value in row 1; fill it in, or remove such rows from the file$"
    ):
        encoding.apply(read_table(tmp_path / "new.csv"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("y,x\n1,2\n2,abc\n3,4\n", r"column 'x' has 'abc' in row 2, which is not a number"),
        ("y,x\n1,2\n\n2,?\n3,4\n4,?\n1,1\n", r"column 'x' has '\?' in row 2 \(and 1 more such cell\)"),
        ("y,x,z,x\n1,2,3,4\n", r"columns 2 and 4 are both called 'x'"),
        ("y,x, x\n1,2,3\n", r"columns 2 and 3 are both called 'x'"),
        ("Y,x\n1,2\n", r"no column 'y' to be the response; the columns are Y, x"),
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("y,x\n", "a header but no rows"),
        ("y,x\n,\n", "names but no values"),
        ("y,x\n1,\n2,\n", "column 'x' is empty; leave it out with --drop x"),
        ("y,my col\n1,\n2,\n", "leave it out with --drop 'my col'"),
        ("y,x,z\n1,2,3\n2,,4\n3,4,\n", r"column 'x' has no value in row 2 \(2 cells of 2 columns are missing in total"),
        ("y,x\n1,2\nNA,4\n", r"column 'y' has no value in row 2; fill it in, or leave such rows out with --missing drop$"),
        ("y,x\n,2\n,4\n", r"column 'y' is empty; name another response$"),
        ("y,x\n1,2\n2,3,4\n", "line 3 has 3 cells but the header has 2 names"),
        ("y,x\n1,2,3\n2,3,4\n", "the header has 2 names but the first row has more cells"),
        ("y,x\n\n1,2,3\n2,3,4\n", "the header has 2 names but rows have more cells"),
        ("y,x\n\n1,2,3,4\n2,3,4,5\n", "the header has 2 names but rows have more cells"),
        ("y,x,,z\n1,2,3,4\n", "column 3 has no name"),
        ("1,2\n3,4\n", "has no header: its first line contains only numbers"),
        ("y\n1\n2\n", "no column left besides the response"),
        ("y,größe\n1,2\n".encode("latin-1"), "not a text file in UTF-8: line 1"),
        (b"y,x\n1,\0\n", "not a text file"),
        (b"PK\x03\x04rest", "an Excel workbook"),
        (b"\x6c\x1b\x01\x00\x00", r"a PLINK \.bed file.*read_bed"),
        (gzip.compress(("y,x\n" + ROWS).encode(), mtime=0)[:-12], "a damaged gzip file"),
        (b"PAR1 but no more", "cannot be read as Parquet"),
        (b"ARROW1 but no more", "cannot be read as Feather"),
        ("y,x\n" + "".join(f"{i},inf\n" for i in range(12)), "column 'x' is infinite in row 1"),
        ("y,x\n1,1\n2,inf\n", "column 'x' is infinite in row 2"),
        ("y,x\n1,1\n-inf,2\n", "column 'y' is infinite in row 2"),
        ('y,x\n1,"1,000"\n2,"2,500"\n', r"column 'x' has '1,000' in row 1: write numbers with a decimal point"),
        ("y;x\n1;1.000,5\n2;2.500,0\n", r"column 'x' has '1\.000,5' in row 1: write numbers with a decimal point"),
        ("y,when\n1,2024-01-31\n2,2024-02-01\n", r"column 'when' contains dates or times \(2024-01-31\).*--drop when"),
        ("y,when\n1,31.1.2024 10:05\n2,1.2.2024\n", "column 'when' contains dates"),
        ("y,note\n" + "".join(f"{i},text {i}\n" for i in range(9)), "'note' contains free text: 9 different values in 9 rows.*--drop note"),
        ("y,g\nTrue,1\nFalse,2\n", "the response 'y' contains true and false"),
        ("y,g\nlow,1\nhigh,2\n", "the response 'y' contains words .'high', 'low'., not numbers; .* write 0 for 'high' and 1 for 'low' if you mean that, or use --family logistic, or name another response"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_with_its_place(content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, content)


def test_all_bad_columns_are_named_at_once(tmp_path: Path) -> None:
    rows = "".join(f"{i},2024-01-{i:02d},free {i},{i}\n" for i in range(1, 10)) + "10,2024-01-10,free,oops\n"
    with pytest.raises(
        DataError, match=r"(?s)3 columns cannot be used.*'when'.*'note'.*'x' has 'oops' in row 10"
    ):
        read(tmp_path, "y,when,note,x\n" + rows)
    found = read(tmp_path, "y,when,note,x\n" + rows.replace("oops", "1"), drop=["when", "note"])
    assert found.X.columns.tolist() == ["x"]


def test_rows_with_gaps_are_left_out_when_asked(tmp_path: Path) -> None:
    content = "y,x,id\n1,2,\n2,,\n3,4,\n5,6,7\n"
    found = read(tmp_path, content, drop=["id"], missing="drop")
    assert found.y.tolist() == [1, 3, 5]
    assert found.notes == [
        "1 of 4 rows has missing values: 'x' in 1 (alone in 1).",
        "1 of 4 rows is left out.",
    ]
    with pytest.raises(
        DataError, match=r"every row has a missing value; column 'id' has the most: .*--drop id"
    ):
        read(tmp_path, "y,x,id\n1,2,\n2,,7\n3,4,\n", missing="drop")
    with pytest.raises(
        DataError, match="'x' has 'a' in row 4"
    ):  # the file's row, not one of those that are left
        read(tmp_path, "y,x\n1,2\n2,\n3,4\n5,a\n", missing="drop")


@pytest.mark.parametrize("blank", ["\u00a0", '"  "', "\x1f", '" NA"', "NA  ", '"\u2003null"'])
def test_blanks_of_all_kinds_are_gaps(blank: str, tmp_path: Path) -> None:
    content = f"y,x,g\n1,2,u\n2,{blank},v\n3,4,u\n4,5,{blank}\n5,1,v\n6,3,u\n7,3,v\n"
    found = read(tmp_path, content, missing="drop")
    assert found.y.tolist() == [1, 3, 5, 6, 7]
    assert found.X.to_dict("list") == {"x": [2, 4, 1, 3, 3], "g=v": [0, 0, 1, 0, 1]}
    with pytest.raises(
        DataError, match=r"column 'x' has no value in row 2 \(2 cells of 2 columns are missing in total"
    ):
        read(tmp_path, content)


def test_always_and_drop(tmp_path: Path) -> None:
    content = "y,x,g,h,z\n" + "".join(f"{i},{i % 5},{'pqr'[i % 3]},{'st'[i % 2]},1\n" for i in range(12))
    found = read(tmp_path, content, always=["g", "x"], drop=["z"])
    assert found.always == ["x", "g"]
    assert found.encoding.groups == {"g": ["g=q", "g=r"], "h": ["h=t"]}
    with pytest.raises(DataError, match="always: there is no column 'G'"):
        read(tmp_path, content, always=["G"])
    with pytest.raises(DataError, match="'x' is always included, so it cannot be dropped"):
        read(tmp_path, content, always=["x"], drop=["x"])
    with pytest.raises(DataError, match="'y' is the response, so it cannot be dropped"):
        read(tmp_path, content, drop=["y"])
    with pytest.raises(DataError, match="'y' is the response, so it cannot be always included"):
        read(tmp_path, content, always=["y"])


def test_one_word_is_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, "y,x,g\n1,2,a\n2,1,a\n5,2,a\n", always=["g"])
    assert found.X.columns.tolist() == ["x"]
    assert found.always == []
    assert "'g' contains only one word" in found.notes[0]


def test_parquet_and_feather_keep_their_kinds(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "y": [1.0, 2, 3, 4], "c": pd.Categorical(["3", "1", "3", "1"]), "i": pd.array([1, 2, 3, 4], "Int64"),
            "b": pd.array([True, False, True, True], "boolean"), "o": np.array([True, 2, 3.5, 0], object),
        }
    )  # fmt: skip
    frame["o"] = pd.to_numeric(frame["o"])
    frame.to_parquet(tmp_path / "a")
    frame.to_feather(tmp_path / "b")
    for name in ("a", "b"):
        found = encode_table(read_table(tmp_path / name), "y")
        assert found.X.to_dict("list") == {
            "c=3": [1, 0, 1, 0],
            "i": [1, 2, 3, 4],
            "b": [1, 0, 1, 1],
            "o": [1, 2, 3.5, 0],
        }
    frame["when"] = pd.date_range("2024-01-01", periods=4)
    frame.to_parquet(tmp_path / "a")
    with pytest.raises(DataError, match="column 'when' contains dates"):
        encode_table(read_table(tmp_path / "a"), "y")


def test_without_pyarrow_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path) -> None:
        raise ImportError("no pyarrow")

    (tmp_path / "a").write_bytes(b"PAR1....")
    monkeypatch.setattr(pd, "read_parquet", missing)
    with pytest.raises(DataError, match="pip install pyarrow"):
        read_table(tmp_path / "a")


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a directory"):
        read_table(tmp_path)


def test_new_data_are_encoded_alike(tmp_path: Path) -> None:
    found = read(tmp_path, "y,x,g\n" + ROWS)
    (tmp_path / "new.csv").write_text("g;extra;x\nv;2024-01-01;1,5\nv;a;2\n")
    X = found.encoding.apply(read_table(tmp_path / "new.csv"))
    assert X.to_dict("list") == {"x": [1.5, 2], "g=v": [1, 1]}
    for content, message in [
        (
            "g,x\nv,1\nw,2\n",
            r"column 'g' has 'w' in row 2, which the data of the run did not have; its levels are u, v",
        ),
        ("g\nv\n", "lacks the column 'x'"),
        ("g,x\nv,a\n", "column 'x' has 'a' in row 1"),
        ("g,x\nv,1\n,2\n", "column 'g' has no value in row 2"),
    ]:
        (tmp_path / "new.csv").write_text(content)
        with pytest.raises(DataError, match=message):
            found.encoding.apply(read_table(tmp_path / "new.csv"))


@pytest.mark.rest
def test_a_hundred_thousand_columns(tmp_path: Path) -> None:
    X = np.random.default_rng(0).integers(0, 3, size=(8, 100_000))
    lines = [",".join(["y", "g", *(f"v{j}" for j in range(X.shape[1]))])]
    lines += [",".join([str(i), "ab"[i % 2], *map(str, row)]) for i, row in enumerate(X.tolist())]
    found = read(tmp_path, "\n".join(lines))
    assert found.X.shape == (8, 100_001)
    np.testing.assert_array_equal(found.X.to_numpy()[:, 1:], X)
