"""Fast kernels of :class:`~mfmamodels.accumulation.PairwiseSum` on the host's float32 operations.

Every step of the kind is an IEEE operation rounded to nearest, so the host's own instructions do
it, except for the flushes. Those are spared where they cannot act, which a look at the exponents of
a panel tells: if all products are multiples of the smallest normal number, so is every sum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mfmamodels.accumulation import Arithmetic, PairwiseSum, Rounding
from mfmamodels.formats import Format
from mfmamodels.kernels import emit
from mfmamodels.kernels.cache import compile_callback
from mfmamodels.kernels.driver import BLOCK_SIGNATURE, PANEL_K, Kernel
from mfmamodels.kernels.lanes import LANES, pointer_to, shifted
from mfmamodels.kernels.operands import NARROW_ZERO, WIDE_ZERO, is_narrow
from mfmamodels.kernels.tiles import Operands, column_of_tiles, jit, lane_sums, packer, stack_array

_MIN_NORMAL = 0x00800000  #: bits of float32's smallest normal number
_SIGN = -1 << 31
_START = ir.IntType(64)(0)
#: Stands for the smallest exponent where all values are zeros. Larger ones are taken for it, too:
#: understating a smallest exponent only costs time.
_NOTHING = 120
#: Rows of a tile by two AVX2 registers: more would not leave room for half a group's sums.
_HEIGHTS = (3, 2)


def is_covered(arith: Arithmetic) -> bool:
    """Whether float32 operations and flushes give exactly this record's bits."""
    kind = arith.accumulation
    return (
        isinstance(kind, PairwiseSum)
        and kind.rounding is Rounding.RNE
        and arith.out.name == "fp32"
        and kind.n_fma <= 16
    )


def kernel(arith: Arithmetic) -> Kernel | None:
    """The fast kernel of a record, or None where :func:`is_covered` says no."""
    if not is_covered(arith):
        return None
    kind = arith.accumulation

    @cache
    def block(dots: bool) -> int:
        function = (_dots_block if dots else _gemm_block)(arith)
        shape = f"{arith.a}_{arith.b}" if kind.flush else "unflushed"
        name = f"pairwise_{'dots' if dots else 'gemm'}_{kind.n_fma}_{shape}"
        return compile_callback(function, BLOCK_SIGNATURE, name).address

    return Kernel(kind.n_fma, block, exponents=_can_underflow(arith), flush=kind.flush)


def _can_underflow(arith: Arithmetic) -> bool:
    """Whether products and sums can be subnormal and have to be flushed.

    Products of two narrow formats' normal numbers are multiples of 2**-58 at least, and so are
    their sums. Only a c that is subnormal itself could then give a subnormal sum.
    """
    return arith.accumulation.flush and not (is_narrow(arith.a) and is_narrow(arith.b))


# --- one group --------------------------------------------------------------------------------


def _flush(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Zero of its sign for a subnormal; anything else, NaN too, unchanged."""
    count = x.type.count
    vector = ir.VectorType(ir.IntType(32), count)

    def constant(value):
        return ir.Constant(vector, [value] * count)

    bits = builder.bitcast(x, vector)
    normal = builder.icmp_signed(
        ">=", builder.and_(bits, constant(0x7FFFFFFF)), constant(_MIN_NORMAL)
    )
    kept = builder.or_(builder.sext(normal, vector), constant(_SIGN))
    return builder.bitcast(builder.and_(bits, kept), x.type)


def _group(n: int, flush: bool) -> Callable:
    """Code for one group: a balanced tree per row, added to the row's sum."""

    def finished(builder, x):
        return _flush(builder, x) if flush else x

    def tree(builder, operands, rows, first, count):
        if count == 1:
            b = operands.b(first)
            return [finished(builder, builder.fmul(operands.a(r, first), b)) for r in range(rows)]
        left = tree(builder, operands, rows, first, count // 2)
        right = tree(builder, operands, rows, first + count // 2, count // 2)
        return add(builder, left, right)

    def add(builder, left, right):
        return [finished(builder, builder.fadd(x, y)) for x, y in zip(left, right, strict=True)]

    def group(builder: ir.IRBuilder, operands: Operands, sums: list[ir.Value]) -> list[ir.Value]:
        return add(builder, sums, tree(builder, operands, len(sums), 0, n))

    return group


# --- what a panel holds -----------------------------------------------------------------------


def _smallest_exponent(fmt: Format) -> Callable:
    """Function ``(address, ld, rows, columns)``: smallest exponent of a panel's nonzero values."""
    dtype, kind = (np.int8, "i8") if is_narrow(fmt) else (np.int16, "i16")
    zero = NARROW_ZERO if is_narrow(fmt) else WIDE_ZERO
    room = stack_array(dtype, LANES)

    @intrinsic
    def fold(typingctx, exponents, least):
        def codegen(context, builder, sig, args):
            e = emit.load(builder, args[0], _START, kind)
            e = emit.select(e.equals(zero), _NOTHING, e)
            e = emit.minimum(emit.load(builder, args[1], _START, kind), e)
            emit.store(e, args[1], _START)
            return context.get_dummy_value()

        return types.void(exponents, least), codegen

    @jit
    def smallest(address, ld, rows, columns):
        exponents, least = pointer_to(address, dtype), room()
        for lane in range(LANES):
            least[lane] = _NOTHING
        for row in range(rows):
            for j in range(0, columns, LANES):
                fold(shifted(exponents, row * ld + j), least)
        result = _NOTHING
        for lane in range(LANES):
            result = min(result, least[lane])
        return result

    return smallest


@intrinsic
def _flush_sums(typingctx, sums):
    """Flush a vector of sums; how many are neither zero nor at least 2**-103."""

    def codegen(context, builder, sig, args):
        bits = emit.load(builder, args[0], _START, "i32")
        magnitude = bits & 0x7FFFFFFF
        subnormal = magnitude < _MIN_NORMAL
        emit.store(emit.select(subnormal, bits & _SIGN, bits), args[0], _START)
        return (~subnormal & (magnitude < (127 - 103) << 23)).lane_bits()

    return types.int64(sums), codegen


@jit
def _flush_c(acc, ldc, rows, lanes):
    """Flush a tile of sums; whether all are zero or at least 2**-103, so multiples of 2**-126."""
    small = 0
    for row in range(rows):
        for j in range(0, lanes, LANES):
            small |= _flush_sums(shifted(acc, row * ldc + j))
    return small == 0


# --- block functions --------------------------------------------------------------------------


def _gemm_block(arith: Arithmetic) -> Callable:
    n, flush, can_underflow = (
        arith.accumulation.n_fma,
        arith.accumulation.flush,
        _can_underflow(arith),
    )
    width = 16
    pack = packer(width)
    plain = column_of_tiles(_HEIGHTS, width, n, _group(n, False))
    strip = stack_array(np.float32, PANEL_K * width)

    if not can_underflow:

        def block(a, ea, lda, hot_a, b, eb, ldb, hot_b, acc, ldc, rows, lanes, groups):
            packed, sums = strip(), pointer_to(acc, np.float32)
            if flush:
                _flush_c(pointer_to(acc, np.int32), ldc, rows, lanes)
            for j in range(0, lanes, width):
                pack(shifted(pointer_to(b, np.float32), j), ldb, n * groups, packed)
                plain(pointer_to(a, np.float32), lda, packed, shifted(sums, j), ldc, rows, groups)

        return block

    flushed = column_of_tiles(_HEIGHTS, width, n, _group(n, True))
    smallest_a, smallest_b = _smallest_exponent(arith.a), _smallest_exponent(arith.b)
    bits = arith.a.fraction_bits + arith.b.fraction_bits

    def block_with_flushes(a, ea, lda, hot_a, b, eb, ldb, hot_b, acc, ldc, rows, lanes, groups):
        packed, sums = strip(), pointer_to(acc, np.float32)
        exact_c = _flush_c(pointer_to(acc, np.int32), ldc, rows, lanes)
        least = smallest_a(ea, lda, rows, n * groups) + smallest_b(eb, ldb, n * groups, lanes)
        nothing_underflows = exact_c and least - bits >= -126
        for j in range(0, lanes, width):
            pack(shifted(pointer_to(b, np.float32), j), ldb, n * groups, packed)
            if nothing_underflows:
                plain(pointer_to(a, np.float32), lda, packed, shifted(sums, j), ldc, rows, groups)
            else:
                flushed(pointer_to(a, np.float32), lda, packed, shifted(sums, j), ldc, rows, groups)

    return block_with_flushes


def _dots_block(arith: Arithmetic) -> Callable:
    n, flush = arith.accumulation.n_fma, arith.accumulation.flush
    run = lane_sums(n, _group(n, _can_underflow(arith)))

    def block(a, ea, lda, hot_a, b, eb, ldb, hot_b, acc, ldc, rows, lanes, groups):
        x, y = pointer_to(a, np.float32), pointer_to(b, np.float32)
        sums = pointer_to(acc, np.float32)
        if flush:
            _flush_c(pointer_to(acc, np.int32), ldc, 1, lanes)
        for j in range(0, lanes, LANES):
            run(shifted(x, j), lda, shifted(y, j), ldb, shifted(sums, j), groups)

    return block
