"""What replaces functions of Numba while an entry compiles does what they do, and only then."""

import operator

import numba
import pytest
from numba.core import compiler, cpu, ir, types
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction
from numba.extending import overload

from whichvars._kernels import inverse, jit, shortcuts
from whichvars._kernels.scan import additions

NUMBERS = (types.float64, types.int64, types.boolean, types.int8, types.float32)


def functions_now():
    return [getattr(owner, name) for owner, name, _ in shortcuts.REPLACED]


def compile_and_fail():
    taken = [shortcut for _, _, shortcut in shortcuts.REPLACED]
    with shortcuts.in_use():
        with shortcuts.in_use():
            assert functions_now() == taken
        assert functions_now() == taken
        raise ValueError("something else")


def test_they_are_used_only_within():
    before = functions_now()
    with pytest.raises(ValueError, match="something else"):
        compile_and_fail()
    assert functions_now() == before


def test_calls_have_the_same_types_with_them():
    context = cpu_target.typing_context
    cpu_target.target_context.refresh()
    arrays = [types.Array(dtype, n, "C") for dtype in NUMBERS for n in (1, 2)]
    cases = [
        (function, (a, b)) for function in (operator.add, operator.lt, operator.truediv, min) for a in NUMBERS for b in NUMBERS
    ] + [(operator.getitem, (array, index)) for array in arrays for index in (types.int64, types.UniTuple(types.int64, 2))]  # fmt: skip
    for function, arguments in cases:
        kind = context.resolve_value_type(function)
        try:
            wanted = kind.get_call_type(context, arguments, {})
        except numba.TypingError:
            with shortcuts.in_use(), pytest.raises(numba.TypingError):
                kind.get_call_type(context, arguments, {})
            continue
        with shortcuts.in_use():
            first = kind.get_call_type(context, arguments, {})
            kind._impl_keys.clear()
            again = kind.get_call_type(context, arguments, {})
        assert first == again == wanted
        assert kind.get_impl_key(again) is not None


def test_a_call_is_looked_for_once_for_each_set_of_options(monkeypatch):
    looked_for = []
    find = shortcuts._find_call_type
    monkeypatch.setattr(shortcuts, "_find_call_type", lambda *all: looked_for.append(all[2]) or find(*all))
    monkeypatch.setattr(shortcuts, "_call_types", {})
    context = cpu_target.typing_context
    add = context.resolve_value_type(operator.add)
    options = compiler.Flags(), compiler.Flags()
    options[1].nrt = True
    with shortcuts.in_use():
        for flags in (*options, *options):
            with ConfigStack().enter(flags.copy()):
                add.get_call_type(context, (types.int64, types.int64), {})
                add.get_call_type(context, (types.int64, types.float64), {})
    assert looked_for == [(types.int64, types.int64), (types.int64, types.float64)] * 2


def test_contexts_are_refreshed_when_there_is_something_new(monkeypatch):
    refreshed = []
    refresh = shortcuts._refresh
    monkeypatch.setattr(shortcuts, "_refresh", lambda context: refreshed.append(context) or refresh(context))
    context = cpu_target.target_context
    with shortcuts.in_use():
        context.refresh()
        refreshed.clear()
        context.refresh()
        assert not refreshed

        def new_function(x):
            raise NotImplementedError

        @overload(new_function)
        def _(x):
            return lambda x: x + 1

        context.subtarget().refresh()
        assert len(refreshed) == 1
        assert cpu_target.typing_context.resolve_value_type(new_function) is not None
        context.refresh()
        assert len(refreshed) == 1


@pytest.mark.parametrize("function", [additions.additions, inverse.follow, additions.scan_group])
def test_the_variables_of_a_statement_are_those_that_numba_finds(function):
    statements = [
        statement
        for block in compiler.run_frontend(getattr(function, "py_func", function)).blocks.values()
        for statement in block.body
    ]
    assert len(statements) > 20
    wanted = [statement.list_vars() for statement in statements]
    with shortcuts.in_use():
        assert [statement.list_vars() for statement in statements] == wanted
    nested = {"a": [(wanted[0][0], 3), {"b": wanted[1][0]}], "c": "text"}
    assert shortcuts._variables_in(statements[0], nested) == statements[0]._rec_list_vars(nested)


def test_a_numba_without_them_is_noticed(monkeypatch):
    assert not shortcuts.missing()
    monkeypatch.delattr(ir.Inst, "_rec_list_vars")
    assert shortcuts.missing() == ["_rec_list_vars"]
    assert jit.linking.missing() == ["_rec_list_vars"]
    assert cpu.CPUContext.refresh is shortcuts._refresh
    assert BaseFunction.get_call_type is shortcuts._find_call_type
