"""Machine code that came with the package, so that nothing has to be compiled. One of four files that know Numba
from inside (the others: linking.py, references.py, shortcuts.py).

A wheel may hold the machine code of every entry: one object file each, for one or more *levels* of processors, in a folder per level
with an index. ``write`` makes such a folder while a wheel is built, from what Numba has compiled then; ``find`` chooses the best level
that this machine can run. Nothing in an object file depends on the version of Python: it calls functions of CPython's stable
interface, a few helpers of Numba and the mathematical library.

Code is used only if all of this fits: the platform, the processor, the sources of the kernels, the layout of Numba's arrays, and the
helpers that it calls. Whatever is not there, or does not fit, is compiled as in a checkout.
"""

import ctypes
import json
import sysconfig
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba.core import types
from numba.core.compiler import compile_result
from numba.core.datamodel import default_manager
from numba.core.environment import Environment
from numba.core.funcdesc import PythonFunctionDescriptor
from numba.core.typing import signature

FOLDER = Path(__file__).parent / "objects"
INDEX_FILE = "index.json"

# what a processor must have for each level, as LLVM calls it; best first
LEVELS = {
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2", "ssse3", "xsave"),
    "x86-64": (),
}  # fmt: skip


@dataclass(frozen=True)
class Code:
    """The machine code of one entry, for arguments of certain types."""

    file: str
    function: str  # its symbol in the file, as Python's wrapper has it but for "cpython"
    environment: str  # the symbol of a pointer that Numba's wrappers want to be set
    calls: list[str]  # functions outside of the file


class Shipped:
    """The code of one level."""

    def __init__(self, folder: Path, entries: dict[str, Code]) -> None:
        self.folder = folder
        self.entries = entries

    @property
    def level(self) -> str:
        return self.folder.name

    @cached_property
    def _engine(self) -> Any:
        """Where LLVM links object files into this process."""
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)

    def load(self, function: Any, arguments: Any, context: Any) -> Any:
        """What Numba's compiler would return for this function and these types of arguments; None if it is not there."""
        code = self.entries.get(_key(function, arguments))
        if code is None or any(llvm.address_of_symbol(name) is None for name in code.calls):
            return None  # LLVM would end the process for a symbol that it cannot find
        engine = self._engine
        engine.add_object_file(llvm.ObjectFileRef.from_path(str(self.folder / code.file)))
        engine.finalize_object()
        described = _describe(function, arguments, code)
        environment = Environment.from_fndesc(described)
        library = _Loaded(engine)
        return compile_result(
            typing_context=context.typing_context,
            target_context=context,
            entry_point=context.get_executable(library, described, environment),
            library=library,
            signature=signature(types.pyobject, *arguments),  # only Python calls it
            objectmode=False,
            lifted=(),
            fndesc=described,
            environment=environment,
            reload_init=[],
        )


class _Loaded:
    """What Numba asks of a library for a function to be called."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    @property
    def codegen(self) -> "_Loaded":
        return self

    def get_pointer_to_function(self, name: str) -> int:
        return self.engine.get_function_address(name)

    def set_env(self, name: str, environment: Any) -> None:
        pointer = ctypes.c_void_p.from_address(self.engine.get_global_value_address(name))
        pointer.value = id(environment)


class Cache:
    """Numba's cache of a function, asked after what came with the package."""

    def __init__(self, function: Any, shipped: Shipped, cache: Any) -> None:
        self._function, self._shipped, self._cache = function, shipped, cache

    def load_overload(self, arguments: Any, context: Any) -> Any:
        context.refresh()  # as Numba does: its helpers are known afterwards
        compiled = self._shipped.load(self._function, arguments, context)
        return self._cache.load_overload(arguments, context) if compiled is None else compiled

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


def find(sources: str, folder: Path = FOLDER) -> tuple[Shipped | None, str]:
    """The code for this machine, or None, with the reason in words. `sources`: a hash of what the kernels are made from."""
    if not folder.is_dir():
        return None, "this is not a wheel with machine code"
    features = llvm.get_host_cpu_features()
    for level, needed in LEVELS.items():
        if not (folder / level / INDEX_FILE).exists() or not all(features.get(name) for name in needed):
            continue
        index = json.loads((folder / level / INDEX_FILE).read_text(encoding="utf-8"))
        entries = {key: Code(**code) for key, code in index.pop("entries").items()}
        made_for, here = {name: index.get(name) for name in _fits("")}, _fits(sources)
        for name, value in here.items():
            if made_for[name] != value:
                return None, f"the machine code in the package was made for another {name}"
        return Shipped(folder / level, entries), ""
    return None, "the machine code in the package is for other processors"


def write(folder: Path, dispatchers: Iterable[Any], sources: str) -> list[str]:
    """Write the machine code of these entries into a folder, whose name is the level. Returns the names of entries that were not
    compiled."""
    folder.mkdir(parents=True)
    entries: dict[str, Any] = {}
    missing = []
    for dispatcher in dispatchers:
        function = dispatcher.py_func
        if not dispatcher.overloads:
            missing.append(f"{function.__module__}.{function.__qualname__}")
        for arguments, result in dispatcher.overloads.items():
            if result.environment.consts:
                raise ValueError(f"{function.__qualname__} needs objects of Python")
            file = f"{len(entries):03}-{function.__module__.rpartition('.')[2]}.{function.__name__}.o"
            (folder / file).write_bytes(result.library._get_compiled_object())
            calls = [
                called.name
                for called in result.library._final_module.functions
                if called.is_declaration and not called.name.startswith("llvm.")
            ]
            described = result.fndesc
            code = Code(file, described.mangled_name, described.env_name, sorted(calls))
            entries[_key(function, arguments)] = asdict(code)
    index = _fits(sources) | {"entries": entries}
    (folder / INDEX_FILE).write_text(json.dumps(index, indent=1), encoding="utf-8")
    return missing


def _fits(sources: str) -> dict[str, Any]:
    """What must be the same where code is made and where it is used."""
    array = default_manager[types.Array(types.float64, 2, "C")]
    return {
        "platform": sysconfig.get_platform(),
        "version of the kernels": sources,
        "layout of Numba's arrays": list(array._fields),
    }


def _key(function: Any, arguments: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}({', '.join(map(str, arguments))})"


def _describe(function: Any, arguments: Any, code: Code) -> Any:
    return PythonFunctionDescriptor(
        native=True,
        modname=function.__module__,
        qualname=function.__qualname__,
        unique_name=function.__qualname__,
        doc=function.__doc__ or "",
        typemap=None,
        restype=types.pyobject,
        calltypes=None,
        args=function.__code__.co_varnames[: function.__code__.co_argcount],
        kws=(),
        mangler=lambda *_, **__: code.function,
        argtypes=tuple(arguments),
        env_name=code.environment,
    )
