"""Machine code that came with the package: the same bits without compiling, used only where it fits, and said where not."""

import json
import os
from pathlib import Path

import pytest

from unit.kernels.test_jit import JIT_FILE, SMALL, run_python
from whichvars._kernels import jit, shipped

SOURCES = "made from these"
WRITE = """
import sys
import small
from pathlib import Path
from whichvars._kernels import jit, shipped
missing = shipped.write(Path(sys.path[1]) / "objects" / "x86-64", jit.entries, "made from these")
assert set(missing) == {f"{d.py_func.__module__}.{d.py_func.__qualname__}" for d in jit.entries if not d.overloads}
"""
READ = """
import sys
from pathlib import Path
from whichvars._kernels import jit, shipped
jit.SHIPPED, why = shipped.find("made from these", Path(sys.path[1]) / "objects")
assert why == ""
import small
counts = [(sum(f.stats.cache_misses.values()), sum(f.stats.cache_hits.values())) for f in (small.one, small.all_of_them)]
print(*counts)
small.one(small.first._replace(whole=2.5))  # of another type
print(sum(small.one.stats.cache_misses.values()))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """One with the code of two entries, and what they print."""
    where = tmp_path_factory.mktemp("shipped")
    (where / "small.py").write_text(SMALL)
    as_in_a_wheel = {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "", "WHICHVARS_ROUTINES": "0"}
    printed = run_python(WRITE, **settings(where, "compile"), **as_in_a_wheel)
    (where / "printed").write_text(printed)
    return where


def settings(where: Path, cache: str) -> dict[str, str]:
    path = os.pathsep.join([str(where), str(JIT_FILE.parents[2])])
    return {"WHICHVARS_CACHE_DIR": str(where / cache), "PYTHONPATH": path}


def test_the_same_bits_without_compiling(folder):
    *answers, counts, other = run_python(READ, **settings(folder, "read")).splitlines()
    assert answers == (folder / "printed").read_text().splitlines()
    assert counts == "(0, 1) (0, 1)"
    assert other == "1", "arguments of other types are compiled"


def test_a_helper_that_numba_no_longer_has(folder, tmp_path):
    """LLVM would end the process."""
    objects = tmp_path / "objects" / "x86-64"
    objects.mkdir(parents=True)
    (tmp_path / "small.py").write_text(SMALL)
    for file in (folder / "objects" / "x86-64").iterdir():
        (objects / file.name).write_bytes(file.read_bytes())
    index = objects / shipped.INDEX_FILE
    index.write_text(index.read_text().replace("numba_adapt_ndarray", "numba_has_no_such_helper"))
    *answers, counts, _ = run_python(READ, **settings(tmp_path, "read")).splitlines()
    assert answers == (folder / "printed").read_text().splitlines()
    assert counts == "(1, 0) (1, 0)"


def change(folder: Path, tmp_path: Path, name: str, value: object) -> Path:
    """The same code with one thing that does not fit."""
    index = json.loads((folder / "objects" / "x86-64" / shipped.INDEX_FILE).read_text())
    assert name in index
    (tmp_path / "x86-64").mkdir()
    (tmp_path / "x86-64" / shipped.INDEX_FILE).write_text(json.dumps(index | {name: value}))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("platform", "macosx-14-arm64"),
        ("version of the kernels", "other sources"),
        ("layout of Numba's arrays", ["data"]),
    ],
)
def test_what_does_not_fit_is_not_used(name, value, folder, tmp_path):
    found, why = shipped.find(SOURCES, change(folder, tmp_path, name, value))
    assert found is None
    assert why == f"the machine code in the package was made for another {name}"


def test_processors(folder, tmp_path, monkeypatch):
    objects = folder / "objects"
    found, _ = shipped.find(SOURCES, objects)
    assert found is not None
    assert found.level == "x86-64"
    better = change(folder, tmp_path, "platform", shipped._fits("")["platform"]) / "x86-64"
    better.rename(tmp_path / "x86-64-v3")
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: {"avx": True, "avx2": False})
    assert shipped.find(SOURCES, tmp_path) == (
        None,
        "the machine code in the package is for other processors",
    )
    all_of_them = dict.fromkeys(shipped.LEVELS["x86-64-v3"], True)
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: all_of_them)
    found, _ = shipped.find(SOURCES, tmp_path)
    assert found is not None
    assert found.level == "x86-64-v3"


def test_a_checkout_has_none(tmp_path):
    assert shipped.find(SOURCES, tmp_path / "objects") == (None, "this is not a wheel with machine code")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"WHICHVARS_COMPILE": "1"}, "WHICHVARS_COMPILE is set"),
        ({"WHICHVARS_PLAIN_NUMBA": "1"}, "kernels are plain Numba functions"),
        ({"NUMBA_DISABLE_JIT": "1"}, "NUMBA_DISABLE_JIT is set, so that kernels run as plain Python"),
    ],
)
def test_it_can_be_left_alone(settings, why):
    code = "from whichvars._kernels import jit; print(jit.SHIPPED, jit.WHY_NOT_SHIPPED)"
    assert run_python(code, **settings) == f"None {why}"


def test_doctor_says_where_machine_code_comes_from(monkeypatch):
    from whichvars.cli.checkup import _compiled_code

    monkeypatch.setattr(
        jit, "WHY_NOT_SHIPPED", "the machine code in the package was made for another platform"
    )
    assert "made for another platform); kept in " in _compiled_code()
    monkeypatch.setattr(jit, "SHIPPED", shipped.Shipped(Path("objects/x86-64-v3"), {}))
    assert _compiled_code() == "came with the package, for x86-64-v3 processors"
