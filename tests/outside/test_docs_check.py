"""The checker of the built documentation finds what it should, and nothing else."""

import importlib.util
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "docs" / "check.py"


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("docs_check", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GOOD = """<html><head><link rel="stylesheet" href="style.css"></head><body id="here">
<a href="other.html#there">x</a> <a href="#here">y</a> <a href="https://example.org/">z</a> <img src="a.png"></body></html>"""


def test_good_pages_have_no_faults(check, tmp_path):
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "other.html").write_text('<p id="there">')
    assert check.faults(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            '<script src="https://cdn.example.org/x.js"></script>',
            "index.html loads https://cdn.example.org/x.js",
        ),
        (
            '<link rel="stylesheet" href="//fonts.example.org/f.css">',
            "index.html loads //fonts.example.org/f.css",
        ),
        ('<a href="gone.html">x</a>', "index.html links to gone.html, which is not there"),
        ('<a href="#nowhere">x</a>', "index.html links to #nowhere, where there is no such place"),
    ],
)
def test_faults_are_found(check, tmp_path, text, fault):
    (tmp_path / "index.html").write_text(text)
    assert check.faults(tmp_path) == [fault]
