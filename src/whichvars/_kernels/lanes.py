"""Two things that cannot be written in Numba's Python: sums of products in the vector registers of the processor, and requests for memory
before it is needed.

A sum of products has to be formed in one fixed order, so that it has the same bits everywhere. Here, entries go to several running sums
in turn. A vector register can hold these sums, one in each of its lanes. LLVM does not make vectors of scalar sums in one loop by itself,
so the vectors are written here in LLVM's language. Products are rounded before they are added. The Python functions below give the same
bits; they run if Numba is switched off (``NUMBA_DISABLE_JIT=1``).

Memory that was not touched for a while takes as long to come as some hundred operations. If it is known early what will be needed, it can
be asked for without waiting. That changes no number.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing import signature
from numba.extending import intrinsic

from whichvars._kernels.jit import numba_config

BYTE, DOUBLE, WORD = ir.IntType(8), ir.DoubleType(), ir.IntType(64)
DOUBLE_BYTES = 8


def _sum_in_python(lanes: int) -> Callable[..., float]:
    def sum_of_products(a: Any, b: Any, n: int) -> float:
        sums = [0.0] * lanes
        whole = n - n % lanes
        for t in range(whole):
            sums[t % lanes] += a[t] * b[t]
        for t in range(whole, n):
            sums[0] += a[t] * b[t]
        while len(sums) > 1:
            half = len(sums) // 2
            sums = [sums[lane] + sums[half + lane] for lane in range(half)]
        return sums[0]

    return sum_of_products


def _write_sums(
    context: Any, builder: Any, kind: Any, values: Sequence[Any], n: Any, lanes: int
) -> list[Any]:
    """What Numba writes where a kernel calls for sums of products of the first array with each of the others: a loop over vectors of so
    many numbers, one over those that are left, and the sums of the lanes."""
    vector, first_lane = ir.VectorType(DOUBLE, lanes), ir.IntType(32)(0)
    numbers = [context.make_array(kind)(context, builder, value).data for value in values]
    vectors = [builder.bitcast(at, vector.as_pointer()) for at in numbers]
    whole = builder.sdiv(n, WORD(lanes))
    sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * lanes)) for _ in values[1:]]
    with cgutils.for_range(builder, whole, intp=WORD) as loop:
        # arrays of doubles lie at multiples of eight bytes, and their parts need not lie at multiples of more
        x, *others = (builder.load(builder.gep(at, [loop.index]), align=DOUBLE_BYTES) for at in vectors)
        for y, place in zip(others, sums):
            builder.store(builder.fadd(builder.load(place), builder.fmul(x, y)), place)
    firsts = [
        cgutils.alloca_once_value(builder, builder.extract_element(builder.load(place), first_lane))
        for place in sums
    ]
    with cgutils.for_range_slice(builder, builder.mul(whole, WORD(lanes)), n, WORD(1), WORD) as (at, _):
        x, *others = (builder.load(builder.gep(some, [at])) for some in numbers)
        for y, place in zip(others, firsts):
            builder.store(builder.fadd(builder.load(place), builder.fmul(x, y)), place)
    totals = []
    for place, first in zip(sums, firsts):
        total = builder.insert_element(builder.load(place), builder.load(first), first_lane)
        half = lanes // 2
        while half:
            low, high = (
                builder.shuffle_vector(total, total, ir.Constant(ir.VectorType(ir.IntType(32), half), places))
                for places in (list(range(half)), list(range(half, 2 * half)))
            )
            total = builder.fadd(low, high)
            half //= 2
        totals.append(builder.extract_element(total, first_lane))
    return totals


def _are_numbers_in_a_row(arrays: Sequence[Any]) -> bool:
    return all(
        isinstance(array, types.Array)
        and array.ndim == 1
        and array.layout == "C"
        and array.dtype == types.float64
        for array in arrays
    )


def _sum_by(lanes: int) -> Any:
    if numba_config.DISABLE_JIT:
        return _sum_in_python(lanes)

    def lower(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        *values, n = arguments
        return _write_sums(context, builder, sig.args[0], values, n, lanes)[0]

    def sum_of_products(typing: Any, a: Any, b: Any, n: Any) -> Any:
        return (signature(types.float64, a, b, types.int64), lower) if _are_numbers_in_a_row((a, b)) else None

    return intrinsic(sum_of_products)


def _four_sums_by(lanes: int) -> Any:
    if numba_config.DISABLE_JIT:
        one = _sum_in_python(lanes)

        def four_sums_in_python(a: Any, b0: Any, b1: Any, b2: Any, b3: Any, n: int) -> tuple[float, ...]:
            return tuple(one(a, b, n) for b in (b0, b1, b2, b3))

        return four_sums_in_python

    def lower(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        *values, n = arguments
        totals = _write_sums(context, builder, sig.args[0], values, n, lanes)
        return context.make_tuple(builder, sig.return_type, totals)

    def four_sums_of_products(typing: Any, a: Any, b0: Any, b1: Any, b2: Any, b3: Any, n: Any) -> Any:
        arrays = (a, b0, b1, b2, b3)
        if not _are_numbers_in_a_row(arrays):
            return None
        return signature(types.UniTuple(types.float64, 4), *arrays, types.int64), lower

    return intrinsic(four_sums_of_products)


# (a, b, n) → aᵀb over the first n entries. Lane i sums entries i, i + 4, i + 8, …; what is left over goes to the first lane; the sums of
# the lanes are (s0 + s2) + (s1 + s3)
sum_by_fours = _sum_by(4)
# the same by eights; in the end ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
sum_by_eights = _sum_by(8)
# (a, b0, b1, b2, b3, n) → the four sums ``sum_by_eights`` of a with each of the others, to the same bits, in less time than one after the
# other takes: none of the additions waits for those of another sum
four_sums_by_eights = _four_sums_by(8)


# --- fetching ahead

READ, KEEP, DATA = (
    0,
    3,
    1,
)  # arguments of llvm.prefetch: for reading, to be kept in all caches, data and not code
LINE = 64  # bytes of a line of the processor's cache


def _lower_fetch(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    """A request for each line of memory that has a part of ``a[first:last]``."""
    kind, (value, first, last) = sig.args[0], arguments
    data = context.make_array(kind)(context, builder, value).data
    size = ir.Constant(WORD, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    flag, pointer = ir.IntType(32), BYTE.as_pointer()
    described = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
    fetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], described)
    start = builder.ptrtoint(data, WORD)
    begin, end = builder.add(start, builder.mul(first, size)), builder.add(start, builder.mul(last, size))
    begin = builder.and_(begin, WORD(-LINE))  # where the first line begins
    with cgutils.for_range_slice(builder, begin, end, WORD(LINE), WORD) as (at, _):
        builder.call(fetch, [builder.inttoptr(at, pointer), flag(READ), flag(KEEP), flag(DATA)])
    return context.get_dummy_value()


def _fetch(typing: Any, a: Any, first: Any, last: Any) -> Any:
    if not (isinstance(a, types.Array) and a.ndim == 1 and a.layout == "C"):
        return None
    return signature(types.none, a, types.int64, types.int64), _lower_fetch


def _do_nothing(a: Any, first: int, last: int) -> None:
    pass


# (a, first, last): a[first:last] will be needed soon
fetch = _do_nothing if numba_config.DISABLE_JIT else intrinsic(_fetch)
