"""What Numba works out again and again while it compiles is worked out once. One of four files that know Numba from inside (the
others: references.py, linking.py, shipped.py).

While an entry compiles, some of Numba's own functions are replaced by others that do the same in less time:

- the type of ``a + b`` or ``x[i]`` is looked for among dozens of templates, for every place in every kernel; here once for the same
  types of arguments;
- before every function Numba looks through all its registries for what was registered since the last one; here only if there is
  something new;
- which variables a statement names is asked for many times per statement; here by a loop instead of a recursion;
- for every function that waits for a callee, a stopwatch is told of each call of LLVM; here there is none, as nobody reads it.

They hold for whatever else is compiled meanwhile, which is why they must give the same results for all functions.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from numba.core import event, ir
from numba.core.cpu import CPUContext
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction

_find_call_type = BaseFunction.get_call_type
_refresh = CPUContext.refresh
# the types of calls that were found, and what was registered when a context was last refreshed
_call_types: dict[Any, tuple[Any, Any]] = {}
_seen_at_refresh: dict[Any, Any] = {}


def _call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
    """The signature of a function of Numba's for these types of arguments."""
    if kws:
        return _find_call_type(self, context, args, kws)
    # Numba has some functions of its own once for every set of options
    key = context, self, tuple(args), ConfigStack.top_or_none()
    known = _call_types.get(key)
    if known is None:
        signature: Any = _find_call_type(self, context, args, kws)
        _call_types[key] = signature, self._impl_keys[signature.args]
        return signature
    signature, implementation = known
    self._impl_keys[signature.args] = implementation
    return signature


def _refresh_if_needed(self: Any) -> None:
    """Let a context know of what was registered since it was last asked."""
    registries = self._registries  # the same for all contexts that are made from one
    known, registered = _seen_at_refresh.get(id(registries), (None, None))
    if known is not registries or registered != _registered(self):
        _refresh(self)
        _seen_at_refresh[id(registries)] = registries, _registered(self)


def _registered(context: Any) -> tuple[int, int]:
    """Changes when something is registered, or a registry may have been added, which takes an import."""
    items = 0
    for registries in (context._registries, context.typing_context._registries):
        for registry, loader in registries.items():
            items += sum(len(getattr(registry, name)) for name in loader.registry_items)
    return len(sys.modules), items


def _variables_in(self: Any, value: Any) -> list[Any]:
    """All variables in an expression, in the order in which they stand there."""
    variables: list[Any] = []
    for item in value.values() if isinstance(value, dict) else (value,):
        if isinstance(item, ir.Var):
            variables.append(item)
        elif isinstance(item, ir.Inst):
            variables += item.list_vars()
        elif isinstance(item, list | tuple):
            for part in item:
                variables += _variables_in(self, part)
        elif isinstance(item, dict):
            variables += _variables_in(self, item)
    return variables


def _no_timer(kind: str, callback: Any) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


REPLACED: tuple[tuple[Any, str, Any], ...] = (
    (BaseFunction, "get_call_type", _call_type),
    (CPUContext, "refresh", _refresh_if_needed),
    (ir.Inst, "_rec_list_vars", _variables_in),
    (event, "install_timer", _no_timer),
)


def missing() -> list[str]:
    """What is replaced here and this Numba does not have."""
    return [name for owner, name, _ in REPLACED if not hasattr(owner, name)]


@contextlib.contextmanager
def in_use() -> Iterator[None]:
    """Within, under Numba's lock, the shortcuts are taken."""
    # one entry within another finds them in use, and leaves them so
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in REPLACED]
    try:
        for owner, name, shortcut in REPLACED:
            setattr(owner, name, shortcut)
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)
