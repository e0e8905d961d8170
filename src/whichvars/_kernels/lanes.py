"""What Numba has no words for: running sums of products side by side, in the vector registers of the processor, and fetching ahead.

A sum of products has to be formed in one fixed order, so that it has the same bits everywhere. Several running sums in turn are such an
order, and one that vector registers can follow: each of them is a lane. But LLVM does not find out by itself that eight scalar sums in
one loop are eight lanes. So it is told here, in its own language. Products are rounded before they are added, as in the Python
functions below, which run if Numba is switched off (``NUMBA_DISABLE_JIT=1``) and give the same bits.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing import signature
from numba.extending import intrinsic

from whichvars._kernels.jit import numba_config

BYTE, DOUBLE, WORD = ir.IntType(8), ir.DoubleType(), ir.IntType(64)
DOUBLE_BYTES = 8


def _sums_in_python(lanes: int) -> Callable[..., Any]:
    def sums(a: Any, b: Any, n: int) -> tuple[float, ...]:
        total = [0.0] * lanes
        for t in range(0, n - n % lanes, lanes):
            for lane in range(lanes):
                total[lane] += a[t + lane] * b[t + lane]
        return tuple(total)

    return sums


def _lower_sums(lanes: int) -> Callable[..., Any]:
    """What Numba writes where a kernel calls for the sums: one loop over vectors of so many numbers."""

    def lower(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        vector = ir.VectorType(DOUBLE, lanes)
        first, second = (
            builder.bitcast(context.make_array(kind)(context, builder, value).data, vector.as_pointer())
            for kind, value in zip(sig.args[:2], arguments[:2])
        )
        total = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * lanes))
        vectors = builder.sdiv(arguments[2], WORD(lanes))
        with cgutils.for_range(builder, vectors, intp=WORD) as loop:
            # arrays of doubles lie at multiples of eight bytes, and their parts need not lie at multiples of more
            x, y = (builder.load(builder.gep(at, [loop.index]), align=DOUBLE_BYTES) for at in (first, second))
            builder.store(builder.fadd(builder.load(total), builder.fmul(x, y)), total)
        sums = builder.load(total)
        parts = [builder.extract_element(sums, ir.IntType(32)(lane)) for lane in range(lanes)]
        return context.make_tuple(builder, sig.return_type, parts)

    return lower


def _running_sums(lanes: int) -> Any:
    if numba_config.DISABLE_JIT:
        return _sums_in_python(lanes)

    def sums(typing: Any, a: Any, b: Any, n: Any) -> Any:
        for array in (a, b):
            if not (isinstance(array, types.Array) and array.dtype == types.float64 and array.layout == "C"):
                return None
        return signature(types.UniTuple(types.float64, lanes), a, b, types.int64), _lower_sums(lanes)

    return intrinsic(sums)


# (a, b, n) → the sums of a[t] b[t] over t = 0, 4, 8, …, over t = 1, 5, 9, …, and so on, of the largest multiple of 4 that is not above n
four_sums = _running_sums(4)
# the same by eights
eight_sums = _running_sums(8)


# --- fetching ahead

READ, KEEP, DATA = 0, 3, 1  # what LLVM is told: it will be read, more than once, and it is data
LINE = 64  # bytes that come together


def _lower_fetch(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    """A request for each line of memory that has a part of ``a[first:last]``."""
    kind, (value, first, last) = sig.args[0], arguments
    data = context.make_array(kind)(context, builder, value).data
    size = ir.Constant(WORD, kind.dtype.bitwidth // 8)
    name, flag = "llvm.prefetch.p0i8", ir.IntType(32)
    described = ir.FunctionType(ir.VoidType(), [BYTE.as_pointer(), flag, flag, flag])
    fetch = cgutils.get_or_insert_function(builder.module, described, name)
    start = builder.bitcast(data, BYTE.as_pointer())
    begin, end = builder.mul(first, size), builder.mul(last, size)
    with cgutils.for_range_slice(builder, begin, end, WORD(LINE), WORD) as (at, _):
        builder.call(fetch, [builder.gep(start, [at]), flag(READ), flag(KEEP), flag(DATA)])
    return context.get_dummy_value()


def _fetch(typing: Any, a: Any, first: Any, last: Any) -> Any:
    if not (isinstance(a, types.Array) and a.ndim == 1 and a.layout == "C"):
        return None
    return signature(types.none, a, types.int64, types.int64), _lower_fetch


def _do_nothing(a: Any, first: int, last: int) -> None:
    pass


# (a, first, last): a[first:last] will be needed soon
fetch = _do_nothing if numba_config.DISABLE_JIT else intrinsic(_fetch)
