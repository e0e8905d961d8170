"""Named tuples that kernels take as one pointer. One of four files that know Numba from inside (the others: linking.py,
shipped.py, shortcuts.py).

Numba passes a named tuple by value: a chain alone is some thirty arrays of seven to nine words each, an argument apiece of every
function on the way down, and LLVM pays for each. Here an entry writes all fields of a named tuple, once a call, into one *block* of
its stack, and kernels are given the address:

- an array takes Numba's own structure (``numba_adapt_ndarray`` fills it): owner, parent, number of items, bytes of an item, data,
  shape, strides, one word each;
- a number or truth value takes one word;
- a named tuple within takes the place of its own fields, so that its address, too, is that of a block.

Kernels load a field where they use it. No reference is counted: the caller's named tuple outlives the call.
"""

import hashlib
import operator
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, errors, types
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.numpy_support import as_dtype

BYTE, WORD = ir.IntType(8), ir.IntType(64)
POINTER = BYTE.as_pointer()
WORD_BYTES = 8

# places in an array's structure: the first five are words, then come as many as it has dimensions, twice
ITEMS, ITEM_BYTES, DATA, SHAPE, STRIDES = 2, 3, 4, 5, 6


class Reference(types.Type):
    """The type of an address of a block; `fields` is the named tuple's own type.

    Numba compares types, and writes their names, wherever a function is called. So both are short: the name of the class and a hash
    of all that is in it.
    """

    def __init__(self, fields: types.NamedTuple) -> None:
        self.fields = fields
        cls = fields.instance_class
        what = f"{cls.__module__}.{cls.__qualname__} {fields.fields} {fields.name}"
        super().__init__(name=f"{cls.__name__}_{hashlib.sha256(what.encode()).hexdigest()[:16]}")


class References(types.Type):
    """The type of an address of blocks that follow each other; `one` is the type of the first's."""

    def __init__(self, one: Reference) -> None:
        self.one = one
        super().__init__(name=f"several_{one.name}")


@register_model(References)
@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, manager: Any, reference: types.Type) -> None:
        super().__init__(manager, reference, POINTER)


_known: dict[Any, Reference] = {}


def _reference(value: Any, context: Any) -> Reference:
    """The type of a named tuple, made once. Where there are tuples of them Numba asks for it at every call of an entry, and
    it takes a tenth of a millisecond to make."""
    look = _look(value)
    reference = _known.get(look)
    if reference is None:
        reference = _known[look] = Reference(_by_value(value, context))
    return reference


def _look(value: Any) -> Any:
    """All of a value that its type depends on."""
    if isinstance(value, tuple):
        return (type(value), *[_look(field) for field in value])
    if isinstance(value, np.ndarray):
        single = value.shape == (1,) and value.strides[0] != value.itemsize
        return type(value), value.dtype, value.ndim, value.flags.num, single
    return (int, value.bit_length() > 63) if type(value) is int else type(value)


def register(cls: type) -> None:
    """Have Numba take instances of this class of named tuples by reference from now on."""
    typeof_impl.register(cls)(_reference)


def register_several(cls: type) -> None:
    """Have Numba take instances of this class, tuples of named tuples of one type, by reference from now on."""
    typeof_impl.register(cls)(lambda value, context: References(typeof_impl(value[0], context)))


def _by_value(value: Any, context: Any) -> Any:
    """The type by which Numba itself would pass `value`."""
    if hasattr(value, "_fields"):
        return types.NamedTuple([_by_value(field, context) for field in value], type(value))
    numba_type = typeof_impl(value, context)
    if isinstance(numba_type, types.Array) and value.shape == (1,) and value.strides[0] != value.itemsize:
        # NumPy calls it contiguous, which would make a single item a type of its own
        numba_type = numba_type.copy(layout="A")
    if not isinstance(numba_type, types.Array | types.Number | types.Boolean):
        raise errors.NumbaTypeError(f"a named tuple of kernels holds arrays and numbers, not {value!r}")
    return numba_type


def _words(field: types.Type) -> int:
    if isinstance(field, types.NamedTuple):
        return _places(field)[-1]
    return SHAPE + 2 * field.ndim if isinstance(field, types.Array) else 1


@cache
def _places(fields: types.NamedTuple) -> list[int]:
    """The word at which each field begins, and that at which the block ends."""
    places = [0]
    for field in fields.types:
        places.append(places[-1] + _words(field))
    return places


def _at(builder: ir.IRBuilder, block: ir.Value, word: int) -> ir.Value:
    return builder.gep(block, [WORD(word * WORD_BYTES)], inbounds=True) if word else block


# --- reading: in kernels


@infer_getattr
class _Fields(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> types.Type | None:  # type: ignore[override]
        fields = reference.fields
        if name not in fields.fields:
            return None
        field = fields[fields.fields.index(name)]
        return Reference(field) if isinstance(field, types.NamedTuple) else field


@lower_getattr_generic(Reference)
def _read_field(
    context: Any, builder: ir.IRBuilder, reference: Reference, block: ir.Value, name: str
) -> ir.Value:
    fields = reference.fields
    index = fields.fields.index(name)
    field = fields[index]
    start = _at(builder, block, _places(fields)[index])
    if isinstance(field, types.NamedTuple):
        return start
    if isinstance(field, types.Array):
        return _read_array(context, builder, field, start)
    model = context.data_model_manager[field]
    return model.from_data(builder, _load(builder, start, 0, model.get_data_type()))


@infer_global(operator.getitem)
class _Items(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        several, index = args
        if isinstance(several, References) and isinstance(index, types.Integer):
            return signature(several.one, several, types.intp)
        return None


@lower_builtin(operator.getitem, References, types.Integer)
def _find_block(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
    block, index = args
    bytes_each = WORD(_words(sig.return_type.fields) * WORD_BYTES)
    return builder.gep(block, [builder.mul(index, bytes_each)], inbounds=True)


def _read_array(context: Any, builder: ir.IRBuilder, field: types.Array, start: ir.Value) -> ir.Value:
    """The array as Numba holds it, but without an owner to count."""
    n, item_bytes = field.ndim, WORD(as_dtype(field.dtype).itemsize)
    data_type = context.get_data_type(field.dtype).as_pointer()
    shape = [_load(builder, start, SHAPE + i, WORD) for i in range(n)]
    strides = [_load(builder, start, SHAPE + n + i, WORD) for i in range(n)]
    if field.layout == "C":
        strides[-1] = item_bytes  # known already now: loops over the last axis can use vectors
    array = ir.Constant(context.get_value_type(field), None)  # all zero
    items = shape[0]
    for length in shape[1:]:
        items = builder.mul(items, length)
    array = builder.insert_value(array, items, ITEMS)
    array = builder.insert_value(array, item_bytes, ITEM_BYTES)
    array = builder.insert_value(array, _load(builder, start, DATA, data_type), DATA)
    for i in range(n):
        array = builder.insert_value(array, shape[i], [SHAPE, i])
        array = builder.insert_value(array, strides[i], [STRIDES, i])
    return array


def _load(builder: ir.IRBuilder, start: ir.Value, word: int, kind: ir.Type) -> ir.Value:
    value = builder.load(builder.bitcast(_at(builder, start, word), kind.as_pointer()))
    # else every write to an array might, for all LLVM knows, change this field, and it would be loaded anew after each
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


# --- writing: where Python calls an entry


@unbox(Reference)
def _write_block(reference: Reference, value: ir.Value, c: Any) -> NativeValue:
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    block = _room(c.builder, WORD(_words(reference.fields)))
    _write_fields(reference.fields, value, block, failed, c)
    return NativeValue(_hidden(c.builder, block), is_error=c.builder.load(failed))


@unbox(References)
def _write_blocks(several: References, value: ir.Value, c: Any) -> NativeValue:
    builder, fields = c.builder, several.one.fields
    failed = cgutils.alloca_once_value(builder, cgutils.false_bit)
    number = c.pyapi.tuple_size(value)
    blocks = _room(builder, builder.mul(number, WORD(_words(fields))))
    with cgutils.for_range(builder, number) as loop:
        kind = ir.FunctionType(c.pyapi.pyobj, [c.pyapi.pyobj, c.pyapi.py_ssize_t])
        get = cgutils.get_or_insert_function(builder.module, kind, "PyTuple_GetItem")
        start = builder.gep(blocks, [builder.mul(loop.index, WORD(_words(fields) * WORD_BYTES))])
        _write_fields(fields, builder.call(get, [value, loop.index]), start, failed, c)
    return NativeValue(_hidden(builder, blocks), is_error=builder.load(failed))


def _room(builder: ir.IRBuilder, words: ir.Value) -> ir.Value:
    return builder.bitcast(builder.alloca(WORD, words), POINTER)


def _hidden(builder: ir.IRBuilder, block: ir.Value) -> ir.Value:
    """The same address, but LLVM does not know: what kernels load there is "invariant", and from that it may conclude that nothing was
    ever written. An empty piece of assembler may, for all it knows, read all memory and return the address of something else."""
    kind = ir.FunctionType(POINTER, [POINTER])
    return builder.asm(kind, "", "=r,0,~{memory}", [block], side_effect=True)


def _write_fields(
    fields: types.NamedTuple, value: ir.Value, block: ir.Value, failed: ir.Value, c: Any
) -> None:
    builder = c.builder
    for index, (field, word) in enumerate(zip(fields.types, _places(fields))):
        item = c.pyapi.tuple_getitem(value, index)
        start = _at(builder, block, word)
        if isinstance(field, types.NamedTuple):
            _write_fields(field, item, start, failed, c)
            continue
        if isinstance(field, types.Array):
            kind = ir.FunctionType(ir.IntType(32), [c.pyapi.pyobj, POINTER])
            adapt = cgutils.get_or_insert_function(builder.module, kind, "numba_adapt_ndarray")
            wrong = cgutils.is_not_null(builder, builder.call(adapt, [item, start]))
        else:
            native = c.unbox(field, item)
            data = c.context.data_model_manager[field].as_data(builder, native.value)
            builder.store(data, builder.bitcast(start, data.type.as_pointer()))
            wrong = native.is_error
        with builder.if_then(wrong, likely=False):
            builder.store(cgutils.true_bit, failed)
