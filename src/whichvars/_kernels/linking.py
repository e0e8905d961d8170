"""Kernels are lowered only; the entries that call them make machine code. One of the two files that know Numba from inside (the
other: references.py).

By itself Numba optimises every function together with all that it calls, makes machine code of it, and does the same again for each
caller: what is at the bottom is compiled as often as there are functions above it. Nobody but other kernels calls a kernel, so here it
is translated to LLVM's language, not optimised, and kept so. An entry is compiled as Numba always does, and finds in the module of
each kernel that it calls everything that this kernel can reach: that is then optimised once, as a whole.
"""

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.runtime.nrt import rtsys

# what is overridden or used here and not meant for others
PRIVATE = (
    "_codegen",
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


class KernelLibrary(JITCodeLibrary):
    """What one kernel was lowered to, and which libraries it calls."""

    _closure: Any = None  # the module with all that the kernel can reach, once it was asked for

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironment(self._codegen)

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        for function in self._final_module.functions:
            # may be there several times, and go once it has been inlined everywhere
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def reached(self) -> list[Any]:
        """This library and all that it needs, each once."""
        found: dict[int, Any] = {}
        waiting: list[Any] = [self]
        while waiting:
            library = waiting.pop()
            if (
                id(library) in found or library is rtsys.library
            ):  # Numba's run time: every entry has it by itself
                continue
            found[id(library)] = library
            if isinstance(library, KernelLibrary):
                waiting.extend(library._linking_libraries)
        return list(found.values())

    def _get_module_for_linking(self) -> Any:
        self._ensure_finalized()
        if self._closure is None:
            self._closure = self._final_module.clone()
            for library in self.reached()[1:]:
                own = isinstance(library, KernelLibrary)
                module = library._final_module if own else library._get_module_for_linking()
                self._closure.link_in(module, preserve=True)
        return self._closure


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
        with _no_collection():
            return super().compile_extra(function)


class KernelCompiler(_QuickCompiler):
    """Numba's compiler for a function that is only lowered."""

    def compile_extra(self, function: Any) -> Any:
        self.state.library = KernelLibrary(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Entries compile under Numba's lock, one at a time; one within another finds the collector off and leaves it so."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def missing() -> list[str]:
    """What this file uses of Numba and this Numba does not have."""
    return [name for name in PRIVATE if not hasattr(JITCodeLibrary, name) and name != "_codegen"]
