"""Compiled code on disk: never stale, where it was asked to be, safe from others, and not needed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from whichvars._kernels import jit

JIT_FILE = Path(jit.__file__)


def run_python(code: str, *, path: Path | None = None, **environment: str) -> str:
    """What `code` prints in a fresh process."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NUMBA_", "WHICHVARS_", "XDG_", "PYTHON"))
    }
    source = JIT_FILE.parents[2] if path is None else path
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env=inherited | {"PYTHONPATH": str(source)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# --- a callee in another file changes


def write_package(folder: Path, *, plain: bool) -> None:
    """A package of two kernels, one calling the other; with Numba's own cache or with a copy of our jit.py."""
    kernels = folder / "package" / "_kernels"
    kernels.mkdir(parents=True)
    (folder / "package" / "__init__.py").write_text("")
    (kernels / "__init__.py").write_text("")
    if plain:
        (kernels / "jit.py").write_text("import numba\nentry = kernel = numba.njit(cache=True)\n")
    else:
        shutil.copy(JIT_FILE, kernels / "jit.py")
    (kernels / "caller.py").write_text(
        "from package._kernels.jit import entry\n"
        "from package._kernels.callee import callee\n\n"
        "@entry\n"
        "def caller(x):\n"
        "    return callee(x)\n"
    )


def write_callee(folder: Path, result: str) -> None:
    (folder / "package" / "_kernels" / "callee.py").write_text(
        f"from package._kernels.jit import kernel\n\n@kernel\ndef callee(x):\n    return {result}\n"
    )


CALL = "from package._kernels.caller import caller; print(caller(1.0), sum(caller.stats.cache_hits.values()))"


@pytest.mark.parametrize("plain", [True, False])
def test_a_changed_callee_in_another_file(plain, tmp_path):
    write_package(tmp_path, plain=plain)
    cache = tmp_path / "cache"
    environment = {"NUMBA_CACHE_DIR" if plain else "WHICHVARS_CACHE_DIR": str(cache)}
    write_callee(tmp_path, "x + 1.0")
    assert run_python(CALL, path=tmp_path, **environment) == "2.0 0"
    assert run_python(CALL, path=tmp_path, **environment) == "2.0 1"  # from the disk
    write_callee(tmp_path, "x + 100.0")
    stale, fresh = "2.0 1", "101.0 0"
    # if Numba's own cache has learnt to look into callees, the stamp can go
    assert run_python(CALL, path=tmp_path, **environment) == (stale if plain else fresh)


def test_stamp_changes_with_every_source(tmp_path):
    folders = (tmp_path / "one", tmp_path / "two")
    for folder in folders:
        folder.mkdir()
        (folder / "kernel.py").write_text("x = 1\n")
    stamps = {jit.source_stamp(folders)}
    (folders[0] / "kernel.py").write_text("x = 2\n")
    stamps.add(jit.source_stamp(folders))
    (folders[1] / "kernel.py").write_text("x = 3\n")
    stamps.add(jit.source_stamp(folders))
    (folders[1] / "kernel.py").rename(folders[1] / "other.py")
    stamps.add(jit.source_stamp(folders))
    (folders[1] / "notes.txt").write_text("not a source")
    stamps.add(jit.source_stamp(folders))
    assert len(stamps) == 4
    assert jit.source_stamp(folders) == jit.source_stamp(folders)


def test_stamp_covers_every_file_with_kernels():
    """A decorated function outside the stamped folders could be served stale."""
    package = JIT_FILE.parents[1]
    outside = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if path.parent not in (package / "_kernels", package / "samplers")
        and any(line.startswith(("@kernel", "@entry", "@inlined", "@njit", "@numba")) for line in path.read_text().splitlines())
    ]  # fmt: skip
    assert outside == []


# --- where it is kept

WHERE = "from whichvars._kernels.jit import cache_directory; print(cache_directory())"
USE = """
from whichvars._kernels import jit
@jit.entry
def f(x):
    return x + 1
"""


def test_the_directory_asked_for_is_used(tmp_path):
    wanted = tmp_path / "here" / "and here"
    found = Path(run_python(WHERE, WHICHVARS_CACHE_DIR=str(wanted)))
    assert found == wanted / f"kernels-{jit.source_stamp()}"
    assert found.is_dir()
    assert found.stat().st_mode & 0o077 == 0


def test_compiled_code_lands_there_and_numba_is_left_as_it_was(tmp_path):
    code = (
        "import numba\n"
        "before = numba.config.CACHE_DIR\n"
        "from whichvars._kernels.mixture import mixture_log_bayes_factor\n"
        "from whichvars._kernels.enumeration import trie_marginals\n"
        "import numpy as np\n"
        "one = np.zeros(1, np.int32)\n"
        "trie_marginals(one, one, np.ones(1), one.copy(), np.zeros(1), np.zeros(2))\n"
        "print(numba.config.CACHE_DIR == before)"
    )
    assert (
        run_python(code, WHICHVARS_CACHE_DIR=str(tmp_path), NUMBA_CACHE_DIR=str(tmp_path / "other")) == "True"
    )
    assert list(tmp_path.rglob("kernels-*/**/*.nbc"))
    assert not (tmp_path / "other").exists()


def test_the_users_cache_directory_comes_next(tmp_path):
    stamp = f"kernels-{jit.source_stamp()}"
    found = run_python(WHERE, XDG_CACHE_HOME=str(tmp_path / "xdg"), HOME=str(tmp_path / "home"))
    assert Path(found) == tmp_path / "xdg" / "whichvars" / stamp
    found = run_python(WHERE, HOME=str(tmp_path / "home"))
    assert Path(found) == tmp_path / "home" / ".cache" / "whichvars" / stamp


def below_a_file(tmp_path: Path) -> str:
    """A path that nobody, not even root, can make."""
    (tmp_path / "file").write_text("")
    return str(tmp_path / "file" / "home")


def test_a_read_only_home_is_survived(tmp_path):
    (tmp_path / "tmp").mkdir()
    found = run_python(WHERE, HOME=below_a_file(tmp_path), TMPDIR=str(tmp_path / "tmp"))
    assert Path(found).parent.parent == tmp_path / "tmp"
    assert Path(found).parent.stat().st_mode & 0o077 == 0


def test_a_read_only_cache_is_survived(tmp_path):
    """Asked for a directory that cannot be made: compile in memory."""
    code = f"{WHERE}\n{USE}\nprint(f(1), type(f._cache).__name__)"
    found = run_python(code, WHICHVARS_CACHE_DIR=below_a_file(tmp_path), HOME=str(tmp_path))
    assert found.splitlines() == ["None", "2 NullCache"]


def test_a_machine_that_is_read_only_everywhere_is_survived(tmp_path):
    code = (
        "import tempfile\n"
        "def nowhere():\n"
        "    raise FileNotFoundError('no usable temporary directory')\n"
        "tempfile.gettempdir = nowhere\n"
        f"{WHERE}\n{USE}\nprint(f(1))"
    )
    assert run_python(code, HOME=below_a_file(tmp_path)).splitlines() == ["None", "2"]


def test_an_unknown_home_makes_no_directory_called_tilde(tmp_path, monkeypatch):
    monkeypatch.delenv("WHICHVARS_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert all(candidate.is_absolute() for candidate in jit._candidates())


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o720, 0o702])
def test_a_directory_others_can_write_to_is_refused(mode, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    assert not jit._private_and_writable(shared)
    shared.chmod(0o755)
    assert jit._private_and_writable(shared)


def test_a_stamped_directory_others_can_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o700)
    stamped = tmp_path / f"kernels-{jit.source_stamp()}"
    stamped.mkdir()
    stamped.chmod(0o777)
    assert run_python(WHERE, WHICHVARS_CACHE_DIR=str(tmp_path)) == "None"
    stamped.chmod(0o700)
    assert run_python(WHERE, WHICHVARS_CACHE_DIR=str(tmp_path)) == str(stamped)


def test_a_directory_of_somebody_else_is_refused(tmp_path, monkeypatch):
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert not jit._private_and_writable(tmp_path / "theirs")


def test_without_the_jit_kernels_are_plain_functions():
    code = f"{USE}\nprint(type(f).__name__, f(1))"
    assert run_python(code, NUMBA_DISABLE_JIT="1") == "function 2"
