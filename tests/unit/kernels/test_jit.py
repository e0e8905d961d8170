"""Compiled code on disk: never stale, where it was asked to be, safe from others, and not needed."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import llvmlite
import numba
import numpy as np
import pytest

import whichvars as wv
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
    """A package of two kernels, one calling the other; with Numba's own cache or with a copy of what compiles ours."""
    kernels = folder / "package" / "_kernels"
    kernels.mkdir(parents=True)
    (folder / "package" / "__init__.py").write_text("")
    (kernels / "__init__.py").write_text("")
    if plain:
        (kernels / "jit.py").write_text("import numba\nentry = kernel = numba.njit(cache=True)\n")
    else:
        for name in ("jit.py", "linking.py", "locks.py", "references.py", "shipped.py", "shortcuts.py"):
            source = (JIT_FILE.parent / name).read_text(encoding="utf-8")
            (kernels / name).write_text(source.replace("whichvars._kernels", "package._kernels"))
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


# of plain Numba it says only that our own stamp is needed
@pytest.mark.parametrize("plain", [pytest.param(True, marks=pytest.mark.slow), False])
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
        if path.relative_to(package).parts[0] not in ("_kernels", "samplers")
        and any(line.startswith(("@kernel", "@routine", "@entry", "@inlined", "@njit", "@numba")) for line in path.read_text().splitlines())
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


def directory_under(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Path | None:
    """What a process would choose that has nothing else said to it."""
    for name in ("WHICHVARS_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return jit.cache_directory.__wrapped__()


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
        "from whichvars._kernels.evidence import mixture_log_bayes_factor\n"
        "from whichvars._kernels.enumerate import trie_marginals\n"
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


def test_the_users_cache_directory_comes_next(tmp_path, monkeypatch):
    stamp = f"kernels-{jit.source_stamp()}"
    home = str(tmp_path / "home")
    found = directory_under(monkeypatch, XDG_CACHE_HOME=str(tmp_path / "xdg"), HOME=home)
    assert found == tmp_path / "xdg" / "whichvars" / stamp
    assert directory_under(monkeypatch, HOME=home) == tmp_path / "home" / ".cache" / "whichvars" / stamp


def below_a_file(tmp_path: Path) -> str:
    """A path that nobody, not even root, can make."""
    (tmp_path / "file").write_text("")
    return str(tmp_path / "file" / "home")


def test_a_read_only_home_is_survived(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    found = directory_under(monkeypatch, HOME=below_a_file(tmp_path))
    assert found is not None
    assert found.parent.parent == tmp_path / "tmp"
    assert found.parent.stat().st_mode & 0o077 == 0


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


def test_a_stamped_directory_others_can_write_to_is_refused(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    stamped = tmp_path / f"kernels-{jit.source_stamp()}"
    stamped.mkdir()
    stamped.chmod(0o777)
    assert directory_under(monkeypatch, WHICHVARS_CACHE_DIR=str(tmp_path)) is None
    stamped.chmod(0o700)
    assert directory_under(monkeypatch, WHICHVARS_CACHE_DIR=str(tmp_path)) == stamped


def test_a_directory_of_somebody_else_is_refused(tmp_path, monkeypatch):
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert not jit._private_and_writable(tmp_path / "theirs")


def test_without_the_jit_kernels_are_plain_functions():
    code = f"{USE}\nprint(type(f).__name__, f(1))"
    assert run_python(code, NUMBA_DISABLE_JIT="1") == "function 2"


# --- what Numba does not promise to keep


def test_this_numba_has_what_linking_and_references_use():
    """If this fails, Numba has changed inside. Kernels still give the same bits, as plain Numba functions, but take four times
    as long to compile: mend _kernels/linking.py, _kernels/references.py and _kernels/shortcuts.py."""
    told = f"numba {numba.__version__}, llvmlite {llvmlite.__version__}"
    assert jit.linking is not None, f"{told}: an import of linking.py, references.py or shortcuts.py fails"
    assert not jit.linking.missing(), f"{told}: Numba no longer has {jit.linking.missing()}"
    assert jit.LINKED or os.environ.get("NUMBA_DISABLE_JIT") or os.environ.get("WHICHVARS_PLAIN_NUMBA"), told


def test_a_numba_without_it_is_plain_numba(tmp_path):
    code = (
        "from numba.core import codegen\n"
        "del codegen.CPUCodeLibrary._optimize_functions\n"
        f"from whichvars._kernels import jit\n{USE}\nprint(jit.LINKED)"
    )
    assert run_python(code, WHICHVARS_CACHE_DIR=below_a_file(tmp_path)) == "False"


SMALL = """
import warnings
from typing import NamedTuple
import numpy as np
from whichvars._kernels import jit
from whichvars._kernels.jit import Several, by_reference, entry, inlined, kernel, routine

@by_reference
class Inner(NamedTuple):
    words: np.ndarray
    flags: np.ndarray
    yes: bool

@by_reference
class Outer(NamedTuple):
    ints: np.ndarray
    matrix: np.ndarray
    strided: np.ndarray
    inner: Inner
    number: float
    whole: int

def new(seed):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(5, 3))
    inner = Inner(rng.integers(0, 9, 4).astype(np.uint64), rng.random(3) < .5, bool(seed % 2))
    return Outer(np.arange(4), rng.normal(size=(4, 3)), table[:, 1], inner, rng.random(), seed)

@inlined
def bump(inner, by):
    if inner.yes:
        inner.words[0] += np.uint64(by)
    return inner.flags.shape[0]

@routine
def half(words, which):
    return words[which] / 2

@routine
def weigh(inner, matrix):
    return half(inner.words, 0) + half(inner.words, len(inner.flags)) + matrix[0, 0]

@kernel
def add_up(outer, total):
    total += outer.number * outer.whole + bump(outer.inner, 3) + weigh(outer.inner, outer.matrix)
    for i in range(outer.matrix.shape[0]):
        outer.ints[i] += i
        for j in range(outer.matrix.shape[1]):
            total += outer.matrix[i, j] * outer.ints[i] + outer.strided[i] / (1 + j) + outer.matrix.size + len(outer.ints)
    return total + outer.inner.words[0] + outer.strided.size

@entry
def one(outer):
    return add_up(outer, 0.0)

@entry
def all_of_them(several, order):
    total = 0.0
    for i in order:
        total = add_up(several[i], total)
    return total

first = new(1)
print(one(first).hex(), one(first).hex(), first.ints.tolist(), int(first.inner.words[0]))
for n in (2, 3):
    print(all_of_them(Several(new(k) for k in range(n)), np.array([1, 0, n - 1])).hex())
"""


@pytest.mark.rest
def test_named_tuples_by_reference_give_the_same_bits(tmp_path):
    """Arrays of one and two dimensions, strided ones, truth values, numbers, a named tuple in another, several of them: compiled,
    in plain Numba, and as Python."""
    (tmp_path / "small.py").write_text(SMALL)
    code = "import small; from whichvars._kernels import jit; print(jit.LINKED)"
    path = os.pathsep.join([str(tmp_path), str(JIT_FILE.parents[2])])
    kept = {"WHICHVARS_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path}
    linked = run_python(code, **kept).splitlines()
    again = run_python(code, **kept).splitlines()
    whole = run_python(code, **kept, WHICHVARS_ROUTINES="0").splitlines()
    plain = run_python(code, **kept, WHICHVARS_PLAIN_NUMBA="1").splitlines()
    python = run_python(code, **kept, NUMBA_DISABLE_JIT="1").splitlines()
    assert linked[-1] == again[-1] == whole[-1] == "True"
    assert plain[-1] == python[-1] == "False"
    assert linked[:-1] == again[:-1] == whole[:-1] == plain[:-1] == python[:-1]


COUNT = (
    "compiled = lambda f: (sum(f.stats.cache_misses.values()), sum(f.stats.cache_hits.values()))\n"
    "print(*map(compiled, (small.one, small.all_of_them, small.add_up, small.bump, small.weigh, small.half)))"
)


def test_nothing_is_compiled_twice(tmp_path):
    """Neither in one process, whatever the number of named tuples, nor in two; kernels without their entries are read too, and
    entries have their routines read, or compiled where they are lost."""
    (tmp_path / "small.py").write_text(SMALL)
    path = os.pathsep.join([str(tmp_path), str(JIT_FILE.parents[2])])
    kept = {"WHICHVARS_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path}
    code = f"import small\n{COUNT}"

    def lose(files: str) -> None:
        for file in (tmp_path / "cache").rglob(files):
            file.unlink()

    def check(entries_and_kernels: str, routines: str) -> list[str]:
        """What was compiled and what was read; the older Numba has no routines, and treats them as kernels."""
        *answers, counts = run_python(code, **kept).splitlines()
        assert counts.startswith(entries_and_kernels)
        assert counts.endswith(routines) or not jit.ROUTINES
        return answers

    answers = check("(1, 0) (1, 0) (1, 0) (1, 0)", "(1, 0) (1, 0)")
    assert check("(0, 1) (0, 1) (0, 0) (0, 0)", "(0, 1) (0, 1)") == answers
    lose("small.all_of_them*")
    assert check("(0, 1) (1, 0) (0, 1) (0, 0)", "(0, 1) (0, 1)") == answers
    if jit.ROUTINES:
        lose("small.half*")
        assert check("(0, 1) (0, 1) (0, 0) (0, 0)", "(0, 1) (1, 0)") == answers
        lose("small.weigh*")
        assert check("(0, 1) (0, 1) (0, 0) (0, 0)", "(1, 0) (0, 1)") == answers
    lose("*.bc")  # the kernels' indices now name what is not there
    lose("small.all_of_them*")
    assert check("(0, 1) (1, 0) (1, 0) (1, 0)", "(0, 1) (0, 1)") == answers


def start_python(code: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | environment, stdout=subprocess.PIPE, text=True
    )


def test_one_variable_is_no_type_of_its_own():
    """Columns of one row are contiguous, those of several are not: kernels were compiled again for a single variable."""
    rng = np.random.default_rng(0)
    types = set()
    for p in (1, 2, 5):
        for engine in ("gram", "columns"):
            problem = wv.Problem(rng.normal(size=(30, p)), rng.normal(size=30), engine=engine)
            types.add(numba.typeof(problem.target(0)))
            run = wv.AddDeleteSwap().init(problem, np.random.SeedSequence(1), [np.array([0])])
            types.add(numba.typeof(run.units[0].chain))
    assert len(types) == 2, "one of targets, one of chains"


def test_two_processes_compile_together_what_one_would(tmp_path):
    """The second waits for each function that the first is at, and reads it."""
    (tmp_path / "small.py").write_text(SMALL)
    path = os.pathsep.join([str(tmp_path), str(JIT_FILE.parents[2])])
    kept = {"WHICHVARS_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path}
    functions = "(small.one, small.all_of_them, small.add_up, small.bump, small.weigh, small.half)"
    code = f"import small\nprint(*[sum(f.stats.cache_misses.values()) for f in {functions}])"
    running = [start_python(code, **kept) for _ in range(3)]
    outputs = [process.communicate(timeout=300)[0].splitlines() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    counts = [list(map(int, lines[-1].split())) for lines in outputs]
    assert [sum(each) for each in zip(*counts)] == [1, 1, 1, 1, 1, 1]
    assert outputs[0][:-1] == outputs[1][:-1] == outputs[2][:-1]


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_process_that_was_stopped_is_not_waited_for(tmp_path, monkeypatch):
    locks = jit.locks
    path = tmp_path / "f.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    monkeypatch.setattr(locks, "PATIENCE", 0.1)
    with locks._locked(path):
        assert path not in locks._held
    holder.communicate("")  # it ends, and its lock with it
    with locks._locked(path):
        assert path in locks._held
        with locks._locked(path):
            pass
    assert path not in locks._held


def test_where_files_cannot_be_locked_everybody_compiles_alone(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("no locks on this file system")

    with jit.locks._locked(Path(below_a_file(tmp_path)) / "f.lock"):
        assert not jit.locks._held
    monkeypatch.setattr(jit.locks.fcntl, "flock", refuse)
    with jit.locks._locked(tmp_path / "f.lock"):
        assert not jit.locks._held


def test_every_named_tuple_of_kernels_goes_by_reference():
    """One that does not would be passed by value, which works, at the price that references.py tells of."""
    package = JIT_FILE.parents[1]
    for path in (*package.glob("_kernels/**/*.py"), *package.glob("samplers/*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for before, line in itertools.pairwise(lines):
            if line.startswith("class ") and "(NamedTuple)" in line:
                assert before == "@by_reference", f"{path.name}: {line}"


def test_the_garbage_collector_is_left_as_it_was(tmp_path):
    code = f"import gc\n{USE}\nf(1)\nprint(gc.isenabled())\ngc.disable()\nf(1.5)\nprint(gc.isenabled())"
    assert run_python(code, WHICHVARS_CACHE_DIR=below_a_file(tmp_path)).split() == ["True", "False"]


def test_plain_numba_can_call_a_kernel(tmp_path):
    """As tests do: it gets all that the kernel needs."""
    code = (
        "import numba\n"
        "from whichvars._kernels import jit\n"
        "@jit.kernel\ndef low(x):\n    return x * 3.0\n"
        "@jit.routine\ndef middle(x):\n    return low(x) / 2.0\n"
        "@jit.kernel\ndef high(x):\n    return low(x) + middle(x) + 1.0\n"
        "@numba.njit\ndef call(x):\n    return high(x) + low(x) + middle(x)\n"
        "print(call(2.0))"
    )
    (tmp_path / "calls.py").write_text(code)
    path = os.pathsep.join([str(tmp_path), str(JIT_FILE.parents[2])])
    assert run_python("import calls", PYTHONPATH=path, WHICHVARS_CACHE_DIR=str(tmp_path / "cache")) == "19.0"
