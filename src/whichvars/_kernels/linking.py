"""Kernels are lowered only; the entries that call them make machine code. One of four files that know Numba from inside (the
others: references.py, shipped.py, shortcuts.py).

By itself Numba optimises every function together with all that it calls, makes machine code of it, and does the same again for each
caller: what is at the bottom is compiled as often as there are functions above it. Nobody but other kernels calls a kernel, so here it
is translated to LLVM's language, not optimised, and kept so. An entry is compiled as Numba always does, and finds in the module of
each kernel that it calls everything that this kernel can reach: that is then optimised once, as a whole.

A routine is a kernel that many entries call and that is too large to be inlined. It gets machine code of its own, once, under a name
that depends on nothing but its own name and the types of its arguments; LLVM resolves that name when it loads an entry. Whatever calls a
routine remembers to load it first when it is itself read from the disk.
"""

import hashlib
import importlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler import Compiler, Flags, compile_result
from numba.core.funcdesc import default_mangler
from numba.core.runtime.nrt import rtsys
from numba.core.types import unliteral

from whichvars._kernels import shortcuts
from whichvars._kernels.collection import no_collection

# what is overridden or used here and not meant for others
PRIVATE = (
    "_ensure_finalized",
    "_finalize_dynamic_globals",
    "_get_module_for_linking",
    "_optimize_functions",
    "_raise_if_finalized",
    "add_linking_library",
    "finalize",
    "get_pointer_to_function",
)


class _WithoutEnvironment:
    """Numba's code generator but for what needs an address: a kernel has none. (An environment holds Python objects; kernels use
    none.)"""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def set_env(self, name: str, environment: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)


class _Module:
    """A module to be linked: a kernel's own, or one of Numba's that it calls; in memory, or in a file until it is needed."""

    _in_files: ClassVar[dict[Path, "_Module"]] = {}
    _of_numba: ClassVar[dict[Any, "_Module"]] = {}
    _reload_init: ClassVar[Any] = frozenset()  # Numba asks every library what to do when it is loaded

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.path: Path | None = None

    @cached_property
    def module(self) -> Any:
        return self._make()

    def _get_module_for_linking(self) -> Any:
        return self.module

    @classmethod
    def of(cls, library: Any) -> "_Module":
        """The module of a library that Numba made."""
        if library not in cls._of_numba:
            cls._of_numba[library] = cls(library._get_module_for_linking)
        return cls._of_numba[library]

    @classmethod
    def read(cls, path: Path) -> "_Module":
        """The module in a file, which is the same object for all kernels that need it."""
        if path not in cls._in_files:
            module = cls._in_files[path] = cls(lambda: llvm.parse_bitcode(path.read_bytes()))
            module.path = path
        return cls._in_files[path]

    def save(self, folder: Path) -> str:
        """Write the module to a file in that folder, if it is in none. Returns the file's name, a hash of its content."""
        if self.path is None:
            bitcode = self.module.as_bitcode()
            path = folder / (hashlib.sha256(bitcode).hexdigest()[:24] + ".bc")
            if not path.exists():
                new = path.with_suffix(f".{uuid.uuid4().hex[:12]}")
                new.write_bytes(bitcode)
                new.replace(path)  # another process may read, or write the same
            self.path, self._in_files[path] = path, self
        return self.path.name


class KernelLibrary(JITCodeLibrary):
    """What one kernel was lowered to, and what it needs."""

    _needs: list[_Module] | None = None  # see modules
    _closure: Any = None  # the module with all that the kernel can reach, once it was asked for

    @classmethod
    def from_files(cls, codegen: Any, name: str, paths: list[Path]) -> "KernelLibrary":
        """The kernel whose modules are in these files."""
        self = cls(codegen, name)
        self._needs = [_Module.read(path) for path in paths]
        self._finalized = True
        return self

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironment(self._codegen)

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        for library in self._linking_libraries:
            _inherit(self, getattr(library, "_reload_init", ()))
            # with one of these, no kernel that calls this one can be kept on the disk
            self._dynamic_globals.extend(library._dynamic_globals)
        for function in self._final_module.functions:
            # may be there several times, and go once it has been inlined everywhere
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def modules(self) -> list[_Module]:
        """The kernel's own module and all those that it needs, each once."""
        self._ensure_finalized()
        if self._needs is None:
            needed = {_Module(lambda: self._final_module): None}  # in this order
            for library in self._linking_libraries:
                if isinstance(library, KernelLibrary):
                    needed |= dict.fromkeys(library.modules())
                elif library in _routines:
                    pass  # it is called by its name
                elif library is not rtsys.library:  # Numba's run time: every entry has it by itself
                    needed[_Module.of(library)] = None
            self._needs = list(needed)
        return self._needs

    def _get_module_for_linking(self) -> Any:
        if self._closure is None:
            first, *others = self.modules()
            self._closure = first.module.clone()
            for module in others:
                self._closure.link_in(module.module, preserve=True)
        return self._closure


class EntryLibrary(JITCodeLibrary):
    """What an entry is compiled to, with all the kernels that it can reach."""

    def add_linking_library(self, library: Any) -> None:
        if isinstance(library, KernelLibrary):
            _inherit(self, getattr(library, "_reload_init", ()))
            self._linking_libraries.extend(library.modules())  # which Numba links once each
        elif library in _routines:
            _inherit(self, library._reload_init)
        else:
            super().add_linking_library(library)

    def _optimize_final_module(self) -> None:
        """Once. Numba goes over it twice, so as to find reference counts that cancel; kernels have none."""
        manager = self._codegen._module_pass_manager()
        passes, *options = manager if isinstance(manager, tuple) else [manager]  # of Numba before 0.62: alone
        passes.run(self._final_module, *options)


class RoutineLibrary(EntryLibrary):
    """What a routine is compiled to. Python does not call it, so that there is no address to ask for."""

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironment(self._codegen)

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0


_routines: set[Any] = (
    set()
)  # the libraries of all routines in this process, compiled or read; machine code of others jumps there


@dataclass(frozen=True)
class _Load:
    """What whoever calls a routine does when it is read from the disk: see that the routine is there."""

    module: str
    name: str
    arguments: tuple[Any, ...]

    def __call__(self) -> None:
        getattr(importlib.import_module(self.module), self.name).compile(self.arguments)


def _register_routine(library: Any, load: _Load) -> None:
    library._reload_init.add(load)
    _routines.add(library)


def _inherit(library: Any, to_do: Any) -> None:
    """What is to be done when the library is loaded. Numba 0.61 knows of no such thing."""
    if to_do:
        library._reload_init.update(to_do)


class _KernelFiles(CompileResultCacheImpl):
    """How a lowered kernel is written to the disk: its modules, each in a file of its own as many kernels need the same, and their
    names with what Numba has to know of it."""

    folder: Path

    def reduce(self, result: Any) -> Any:
        files = [module.save(self.folder) for module in result.library.modules()]
        described = result.fndesc
        described.typemap = described.calltypes = None  # as Numba does: not needed, and may fail to pickle
        return files, result.library.name, described, result.environment, result.signature, result.reload_init

    def rebuild(self, target_context: Any, reduced: Any) -> Any:
        files, name, described, environment, signature, reload_init = reduced
        paths = [self.folder / file for file in files]
        if not all(path.exists() for path in paths):
            return None  # and it is compiled anew
        for function in reload_init:
            function()
        library = KernelLibrary.from_files(target_context.codegen(), name, paths)
        _inherit(library, reload_init)
        return compile_result(
            typing_context=target_context.typing_context,
            target_context=target_context,
            entry_point=target_context.get_executable(library, described, environment),
            library=library,
            signature=signature,
            objectmode=False,
            lifted=(),
            fndesc=described,
            environment=environment,
            reload_init=reload_init,
        )


class KernelCache(FunctionCache):
    """Numba's cache of a function, for a kernel: what several kernels need is in `folder`."""

    _impl_class = _KernelFiles

    def __init__(self, function: Any, folder: Path) -> None:
        super().__init__(function)
        self._impl.folder = folder


class _RoutineFiles(CompileResultCacheImpl):
    """How a routine is written to the disk and read: as Numba does it for what Python calls."""

    function: Any

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        result = super().rebuild(target_context, payload)
        load = _Load(self.function.__module__, self.function.__qualname__, tuple(result.signature.args))
        _register_routine(result.library, load)
        return result


class RoutineCache(FunctionCache):
    """Numba's cache of a function, for a routine."""

    _impl_class = _RoutineFiles

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._impl.function = function


class _QuickFlags(Flags):
    """Numba's options of one compilation. It compares them tens of thousands of times, each time option by option, and gives all the
    same hash; here those that were set the same way are equal at once."""

    __slots__ = ()
    _hash = hash(Flags())

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> Any:
        return getattr(other, "_values", None) == self._values or super().__eq__(other)


class _QuickCompiler(Compiler):
    def __init__(
        self,
        typingctx: Any,
        targetctx: Any,
        library: Any,
        args: Any,
        return_type: Any,
        flags: Any,
        locals: Any,
    ) -> None:
        flags = _QuickFlags(flags)
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)


class EntryCompiler(_QuickCompiler):
    """Numba's compiler with Python's garbage collector off: it would look a fifth of the time for what is not there."""

    def compile_extra(self, function: Any) -> Any:
        self.state.library = EntryLibrary(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library.enable_object_caching()
        with no_collection(), shortcuts.in_use():
            return super().compile_extra(function)


class KernelCompiler(_QuickCompiler):
    """Numba's compiler for a function that is only lowered."""

    def compile_extra(self, function: Any) -> Any:
        context = self.state.targetctx  # of this compilation only
        context.add_dynamic_addr = partial(_address_of, context.add_dynamic_addr)
        self.state.library = KernelLibrary(context.codegen(), function.__qualname__)
        return super().compile_extra(function)


class RoutineCompiler(_QuickCompiler):
    """Numba's compiler for a function that gets machine code of its own, which entries call by its name."""

    def compile_extra(self, function: Any) -> Any:
        context = self.state.targetctx  # of this compilation only
        context.add_dynamic_addr = partial(_address_of, context.add_dynamic_addr)
        context.mangler = _name_of_routine
        self.state.library = RoutineLibrary(context.codegen(), function.__qualname__)
        self.state.library.enable_object_caching()
        result = super().compile_extra(function)
        load = _Load(function.__module__, function.__qualname__, tuple(result.signature.args))
        _register_routine(result.library, load)
        return result


def _name_of_routine(name: str, types: Any, **_: Any) -> str:
    """The same in every process, other than the names that Numba makes, which count its functions."""
    arguments = hashlib.sha256(", ".join(map(str, types)).encode()).hexdigest()[:16]
    return default_mangler(name, (), abi_tags=(arguments,))


def without_literals(dispatcher: Any) -> Any:
    """Have a kernel compiled for whole numbers, not for the number 1 and for the number 2. LLVM knows which it is where that helps."""
    as_numba_does = dispatcher.get_call_template

    def get_call_template(arguments: Any, keywords: Any) -> Any:
        plain = tuple(map(unliteral, arguments))
        return as_numba_does(plain, {key: unliteral(value) for key, value in keywords.items()})

    dispatcher.get_call_template = get_call_template
    return dispatcher


def can_make_routines() -> bool:
    """Whether this Numba does what it is told to when it reads a function from the disk; from 0.62 on."""
    return "_reload_init" in CodeLibrary.__init__.__code__.co_names


def _address_of(as_numba_does: Any, builder: Any, address: int, info: str) -> Any:
    """The name of a function that is called stands for an object of Python, whose address in this process would keep the kernel from
    being kept on the disk. Nothing needs it; Numba, too, would find that out and drop it."""
    if info == "CPUDispatcher":
        return ir.Constant(ir.IntType(8).as_pointer(), None)
    return as_numba_does(builder, address, info)


def missing() -> list[str]:
    """What this file uses of Numba and this Numba does not have."""
    return [name for name in PRIVATE if not hasattr(JITCodeLibrary, name)] + shortcuts.missing()
