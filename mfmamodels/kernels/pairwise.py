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
from numba import njit

from mfmamodels.accumulation import Arithmetic, PairwiseSum, Rounding
from mfmamodels.formats import Format
from mfmamodels.kernels import lanes as v
from mfmamodels.kernels.cache import compile_callback
from mfmamodels.kernels.driver import BLOCK_SIGNATURE, PANEL_K, Kernel
from mfmamodels.kernels.lanes import LANES, load, pointer_to, select, shifted, store
from mfmamodels.kernels.operands import NARROW_ZERO, WIDE_ZERO, exponent_type, is_narrow
from mfmamodels.kernels.tiles import Operands, column_of_tiles, dots_step, pack, stack_array

jit = njit(error_model="numpy", forceinline=True)

_MIN_NORMAL = 0x00800000  #: bits of float32's smallest normal number
_SIGN = -1 << 31
HEIGHTS = (3, 1)
_NO_SMALLEST = 1 << 12  #: above every exponent: stands for the smallest one of zeros


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


def _emit(n: int, flush: bool) -> Callable:
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

    def emit(builder: ir.IRBuilder, operands: Operands, sums: list[ir.Value]) -> list[ir.Value]:
        return add(builder, sums, tree(builder, operands, len(sums), 0, n))

    return emit


# --- what a panel holds -----------------------------------------------------------------------


def _smallest_exponent(fmt: Format) -> Callable:
    """Function ``(address, ld, rows, columns)``: smallest exponent of a panel's nonzero values."""
    kind, zero = exponent_type(fmt), NARROW_ZERO if is_narrow(fmt) else WIDE_ZERO
    room = stack_array(np.int32, LANES)

    @jit
    def smallest(address, ld, rows, columns):
        exponents, lanes = pointer_to(address, kind), room()
        least = v.splat(np.int32(_NO_SMALLEST))
        nothing = v.splat(np.int32(_NO_SMALLEST))
        for row in range(rows):
            for j in range(0, columns, LANES):
                e = v.to_i32(load(exponents, row * ld + j))
                least = v.minimum(least, select(e == zero, nothing, e))
        store(lanes, 0, least)
        result = lanes[0]
        for j in range(1, LANES):
            result = min(result, lanes[j])
        return result

    return smallest


@jit
def _flush_c(acc, ldc, rows, lanes):
    """Flush the sums; whether all are zero or at least 2**-103, so multiples of 2**-126."""
    small = v.splat(np.int32(0)) != 0
    for row in range(rows):
        for j in range(0, lanes, LANES):
            bits = load(acc, row * ldc + j)
            magnitude = bits & 0x7FFFFFFF
            bits = select(magnitude < _MIN_NORMAL, bits & _SIGN, bits)
            store(acc, row * ldc + j, bits)
            small = small | ((magnitude >= _MIN_NORMAL) & (magnitude < (127 - 103) << 23))
    return v.lane_bits(small) == 0


# --- block functions --------------------------------------------------------------------------


def _gemm_block(arith: Arithmetic) -> Callable:
    n, flush, can_underflow = (
        arith.accumulation.n_fma,
        arith.accumulation.flush,
        _can_underflow(arith),
    )
    width = 16
    plain = column_of_tiles(HEIGHTS, width, n, _emit(n, False))
    strip = stack_array(np.float32, PANEL_K * width)

    if not can_underflow:

        def block(a, ea, lda, hot_a, b, eb, ldb, hot_b, acc, ldc, rows, lanes, groups):
            packed, sums = strip(), pointer_to(acc, np.float32)
            if flush:
                _flush_c(pointer_to(acc, np.int32), ldc, rows, lanes)
            for j in range(0, lanes, width):
                pack(shifted(pointer_to(b, np.float32), j), ldb, n * groups, width, packed)
                plain(pointer_to(a, np.float32), lda, packed, shifted(sums, j), ldc, rows, groups)

        return block

    flushed = column_of_tiles(HEIGHTS, width, n, _emit(n, True))
    smallest_a, smallest_b = _smallest_exponent(arith.a), _smallest_exponent(arith.b)
    bits = arith.a.fraction_bits + arith.b.fraction_bits

    def block_with_flushes(a, ea, lda, hot_a, b, eb, ldb, hot_b, acc, ldc, rows, lanes, groups):
        packed, sums = strip(), pointer_to(acc, np.float32)
        exact_c = _flush_c(pointer_to(acc, np.int32), ldc, rows, lanes)
        least = smallest_a(ea, lda, rows, n * groups) + smallest_b(eb, ldb, n * groups, lanes)
        nothing_underflows = exact_c and least - bits >= -126
        for j in range(0, lanes, width):
            pack(shifted(pointer_to(b, np.float32), j), ldb, n * groups, width, packed)
            if nothing_underflows:
                plain(pointer_to(a, np.float32), lda, packed, shifted(sums, j), ldc, rows, groups)
            else:
                flushed(pointer_to(a, np.float32), lda, packed, shifted(sums, j), ldc, rows, groups)

    return block_with_flushes


def _dots_block(arith: Arithmetic) -> Callable:
    n, flush = arith.accumulation.n_fma, arith.accumulation.flush
    add_group = dots_step(_emit(n, _can_underflow(arith)))

    def block(a, ea, lda, hot_a, b, eb, ldb, hot_b, acc, ldc, rows, lanes, groups):
        x, y = pointer_to(a, np.float32), pointer_to(b, np.float32)
        sums = pointer_to(acc, np.float32)
        if flush:
            _flush_c(pointer_to(acc, np.int32), ldc, 1, lanes)
        for j in range(0, lanes, LANES):
            d = load(sums, j)
            for group in range(groups):
                k = group * n
                d = add_group(shifted(x, k * lda + j), lda, shifted(y, k * ldb + j), ldb, d)
            store(sums, j, d)

    return block
