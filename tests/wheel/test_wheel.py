"""The wheel with machine code, installed into a new environment: every sampler, every slab, the same bits, and nothing compiled. Run
by ``make test-wheel``, which builds the wheel."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheel
ROOT = Path(__file__).resolve().parents[2]
BITS = (
    "import runpy, sys; sys.argv[1:] = ['long']; runpy.run_module('support.print_bits', run_name='__main__')\n"
    "import whichvars; from whichvars.sampling.compiling import work; print(work().finished, whichvars.__file__)"
)


def run(python: Path | str, *arguments: str, cache: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "WHICHVARS_", "PYTHON"))}  # fmt: skip
    kept |= {"PYTHONPATH": str(ROOT / "tests"), "WHICHVARS_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [str(python), *arguments], env=kept | environment, capture_output=True, text=True, cwd=cache.parent, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """Of a new environment with the wheel."""
    (wheel,) = (ROOT / "dist").glob("whichvars-*x86_64.whl")
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    found = folder / "bin" / "python"
    install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-c",
        str(ROOT / "constraints.txt"),
    ]
    subprocess.run([str(found), *install, str(wheel)], check=True)
    return found


@pytest.fixture(scope="module")
def compiled_here(tmp_path_factory) -> dict[str, object]:
    """Results of the checkout."""
    cache = tmp_path_factory.mktemp("here")
    keep = {name: os.environ[name] for name in ("WHICHVARS_CACHE_DIR",) if name in os.environ}
    printed = run(sys.executable, "-c", BITS, cache=cache / "kernels", **keep)
    return json.loads(printed.splitlines()[0])


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64"])
def test_every_sampler_gives_the_same_bits_and_nothing_is_compiled(level, python, compiled_here, tmp_path):
    """Cases of support.print_bits: all samplers and slabs, both engines, groups, heredity, stored columns."""
    (folder,) = python.parents[1].glob("lib/python*/site-packages/whichvars/_kernels/objects")
    better = folder / "x86-64-v3"
    hidden = folder / "hidden"
    if level == "x86-64":
        better.rename(hidden)  # as if this processor could not run it
    try:
        bits, last = run(python, "-c", BITS, cache=tmp_path / "empty").splitlines()
        assert level in run(
            python, "-c", "from whichvars._kernels.jit import SHIPPED; print(SHIPPED.level)", cache=tmp_path / "empty"
        )  # fmt: skip
    finally:
        if hidden.exists():
            hidden.rename(better)
    number, where = last.split(maxsplit=1)
    assert number == "0", "functions were compiled"
    assert str(ROOT) not in where
    assert not [path for path in (tmp_path / "empty").rglob("*") if path.is_file()]
    results = json.loads(bits)
    assert results.keys() == compiled_here.keys()
    for case, found in results.items():
        assert found == compiled_here[case], case


def test_what_users_meet_first(python, tmp_path):
    printed = run(python, "-m", "whichvars", "doctor", cache=tmp_path / "empty")
    assert re.search(r"machine code +came with the package, for x86-64(-v3)? processors", printed)
    assert "Works:" in printed
    assert "already compiled" in run(
        python, "-m", "whichvars", "doctor", "--compile", cache=tmp_path / "empty"
    )
    assert not [path for path in (tmp_path / "empty").rglob("*") if path.is_file()]


def test_other_sources_are_compiled_and_doctor_says_so(python, tmp_path):
    """A kernel that somebody has changed since."""
    (kernel,) = python.parents[1].glob("lib/python*/site-packages/whichvars/_kernels/linalg.py")
    before = kernel.read_text()
    kernel.write_text(before + "\n# changed\n")
    try:
        code = "from whichvars.cli.checkup import _compiled_code; print(_compiled_code())"
        printed = run(python, "-c", code, cache=tmp_path / "empty")
    finally:
        kernel.write_text(before)
    assert printed.startswith(
        "made on this machine (the machine code in the package was made for another version of the kernels)"
    )


def test_every_entry_that_the_package_calls_is_in_the_wheel():
    """Others are there for tests."""
    from whichvars._kernels import jit
    from whichvars.cli.checkup import names

    assert names()  # which imports all samplers
    shipped = set()
    for index in (ROOT / "build" / "objects").glob("*/index.json"):
        shipped |= {key.partition("(")[0] for key in json.loads(index.read_text())["entries"]}
    sources = {path: path.read_text() for path in (ROOT / "src").rglob("*.py")}
    for entry in jit.entries:
        function = entry.py_func
        name = f"{function.__module__}.{function.__qualname__}"
        if name not in shipped:
            own = Path(function.__code__.co_filename)
            others = [path.name for path, text in sources.items() if path != own and re.search(rf"\b{function.__name__}\b", text)]  # fmt: skip
            assert others == [], name
