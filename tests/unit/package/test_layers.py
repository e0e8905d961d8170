"""Who may import whom: no module imports one of a higher layer, and none imports itself by a detour."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import whichvars

PACKAGE = Path(whichvars.__file__).parent

# from the bottom to the top; a package stands for all its modules
# the rooms, from the bottom up: each imports from those before it only
LAYERS = (
    "errors",
    "_kernels",
    "data",
    "datasets",
    "problem",
    "samplers",
    "posterior",
    "sampling",
    "plots",
    "report",
    "estimator",
    "cli",
)
LEVEL = {name: level for level, name in enumerate(LAYERS)}
KERNELS_MAY_IMPORT = {"numpy", "math", "numba", "typing", "whichvars"}
COMPILE_KERNELS = {
    "_kernels.jit",
    "_kernels.lanes",
    "_kernels.linking",
    "_kernels.locks",
    "_kernels.references",
    "_kernels.shipped",
    "_kernels.shortcuts",
}  # and have none themselves
OF_PYTHON = {"_kernels.collection"}  # neither kernels nor anything of Numba's


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(path: Path, for_types: bool = True) -> list[tuple[int, str]]:
    """(line, module) of every import, those inside functions too, and those for types alone if they are asked for."""
    found = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not for_types:
        tree.body = [node for node in tree.body if not is_for_types(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: write imports with the package's name"
            assert node.module is not None
            for alias in node.names:  # from whichvars import module, or from whichvars.module import name
                inner = f"{node.module}.{alias.name}".removeprefix("whichvars.")
                found.append((node.lineno, f"whichvars.{inner}" if inner in MODULES else node.module))
    return found


def is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def imports_from_package(name: str, for_types: bool = True) -> list[tuple[int, str]]:
    """Imports of the package's own modules; the package itself, from which rooms take public names late, is "__init__"."""
    own = []
    for line, module in imports(MODULES[name], for_types):
        if module == "whichvars":
            own.append((line, "__init__"))
        elif module.startswith("whichvars."):
            own.append((line, module.removeprefix("whichvars.")))
    return own


def layer(name: str) -> int:
    room = name.split(".")[0]
    # the command line uses the package as a user does
    return LEVEL["cli"] if room in ("__init__", "__main__") else LEVEL[room]


def test_every_module_has_a_layer():
    assert {name.split(".")[0] for name in MODULES} == {*LAYERS, "__init__", "__main__"}
    assert len(LAYERS) <= 12, "a dozen names at the top of the package are enough"


@pytest.mark.parametrize("name", MODULES)
def test_no_module_imports_a_higher_layer(name):
    wrong = [
        f"line {line}: {other}" for line, other in imports_from_package(name) if layer(other) > layer(name)
    ]
    assert not wrong, f"{name} imports from above: {wrong}"


def test_no_module_imports_itself_by_a_detour():
    graph = {
        name: {other for _, other in imports_from_package(name, False)} & MODULES.keys() for name in MODULES
    }
    for name in ("__init__", "__main__", "cli"):  # the package's front imports everything, by name and late
        graph.pop(name, None)
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"imports in a circle: {' → '.join([*path[path.index(name) :], name])}"
        if name in done or name not in graph:
            return
        for other in sorted(graph[name]):
            visit(other, (*path, name))
        done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("_kernels")])
def test_kernels_import_next_to_nothing(name):
    for line, module in imports(MODULES[name]):
        top = module.split(".")[0]
        allowed = top in KERNELS_MAY_IMPORT or (
            name in COMPILE_KERNELS and (top in sys.stdlib_module_names or top == "llvmlite")
        )
        allowed = allowed or (name in OF_PYTHON and top in sys.stdlib_module_names)
        assert allowed, f"{name}, line {line}: {module}"
        if top == "whichvars":
            assert module.startswith("whichvars._kernels."), f"{name}, line {line}: {module}"


def test_only_jit_and_the_clock_know_numba():
    users = [name for name in MODULES if any(m.split(".")[0] == "numba" for _, m in imports(MODULES[name]))]
    assert users == [*sorted(COMPILE_KERNELS), "sampling.compiling"]


def test_no_public_name_is_a_modules_name_too():
    """``import whichvars.exact`` would put the module in the place of the function ``whichvars.exact``."""
    functions = set(whichvars.__all__) - {"datasets"}
    assert not functions & MODULES.keys()


def test_no_underscored_name_is_imported_from_another_file():
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("whichvars"):
                private = [
                    alias.name
                    for alias in node.names
                    if re.match(r"_[^_]", alias.name)
                    and f"{node.module}.{alias.name}".removeprefix("whichvars.") not in MODULES
                    and alias.name != "_kernels"
                ]
                assert not private, f"{name}, line {node.lineno}: {private}"


def test_type_checkers_know_every_public_name() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    parts = [node for node in tree.body if is_for_types(node)]
    known = {
        alias.name
        for part in parts
        for node in ast.walk(part)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert known == set(whichvars.__all__)


def test_files_are_not_too_long_to_be_read():
    for name, path in MODULES.items():
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 500, name


def test_a_gaussian_answer_imports_nothing_that_only_others_need() -> None:
    """These parts of SciPy together take longer to import than a small problem takes to sample."""
    code = (
        "import sys, whichvars as wv\n"
        "data = wv.datasets.load_uscrime()\n"
        "problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47))\n"
        "print(wv.sample(problem, draws=200, seed=1, progress=False).summary())\n"
        "slow = ('interpolate', 'integrate', 'optimize', 'spatial', 'stats')\n"
        "print([name for name in slow if f'scipy.{name}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
