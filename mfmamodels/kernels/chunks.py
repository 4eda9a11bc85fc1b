"""The compiled part of the driver: one chunk of a matrix product or of many dot products.

A chunk decodes its operands panel by panel and calls the block function. It runs on one thread,
with the floating-point unit in its default state, and owns its scratch memory.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.core.typing import signature
from numba.extending import intrinsic

from mfmamodels.kernels import environment
from mfmamodels.kernels.cache import compile_callback, enable_cache
from mfmamodels.kernels.lanes import LANES, pointer_to

# A plan is an int64 array with these entries, shared by all chunks of a call. A, B, C and OUT are
# addresses, *_BYTES sizes of an element; strides count elements. In dots M is 1, N counts rows.
(
    M,
    N,
    K,
    GROUP,
    A,
    A_ROW,
    A_K,
    A_BYTES,
    A_EXPONENT_BYTES,
    B,
    B_K,
    B_COL,
    B_BYTES,
    B_EXPONENT_BYTES,
    C,
    C_ROW,
    C_COL,
    OUT,
    OUT_BYTES,
    NAN,
    BLOCK,
    GATHER_A,
    GATHER_B,
    GATHER_C,
    DECODE_A,
    DECODE_B,
    DECODE_C,
    ENCODE,
    VALUE_BYTES,
    STRIP,
    SPLITS,
    PANEL,
) = range(32)
PLAN_LENGTH = 32

#: Rows whose sums are kept in one tile.
TILE_ROWS = 64
_EXPONENT_BYTES = 2  # room for the wider kind

CHUNK_SIGNATURE = signature(types.void, types.intp, types.intp)

_lean = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _caller(count: int):
    """Intrinsic that calls the C function at an address with ``count`` integers."""

    @intrinsic
    def call(typingctx, address, arguments):
        def codegen(context, builder, sig, args):
            word = ir.IntType(64)
            function_type = ir.FunctionType(ir.VoidType(), [word] * count)
            function = builder.inttoptr(args[0], function_type.as_pointer())
            builder.call(function, [builder.extract_value(args[1], i) for i in range(count)])
            return context.get_dummy_value()

        return types.void(types.intp, types.UniTuple(types.intp, count)), codegen

    return call


_gather, _decode, _encode = _caller(8), _caller(7), _caller(7)
_advance, _chunk = _caller(13), _caller(2)


def _libc(builder, name: str, result: ir.Type, argument: ir.Value) -> ir.Value:
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(result, [argument.type]), name
    )
    return builder.call(function, [argument])


@intrinsic
def _allocate(typingctx, size):
    """Address of ``size`` bytes of memory."""

    def codegen(context, builder, sig, args):
        return builder.ptrtoint(
            _libc(builder, "malloc", cgutils.voidptr_t, args[0]), ir.IntType(64)
        )

    return types.intp(types.intp), codegen


@intrinsic
def _release(typingctx, address):
    """Give memory back."""

    def codegen(context, builder, sig, args):
        _libc(builder, "free", ir.VoidType(), builder.inttoptr(args[0], cgutils.voidptr_t))
        return context.get_dummy_value()

    return types.void(types.intp), codegen


@_lean
def _lines(size):
    """Size rounded up to whole cache lines."""
    return (size + 63) // 64 * 64


@_lean
def _load_panel(gather, decode, block, codes, values, exponents, px, ld, hot, by_row):
    """Decode a block (source, its strides, its sizes) to a panel of px rows of ld codes."""
    source, sx, sy, nx, ny = block
    if decode == 0:  # the codes are the values
        _gather(gather, (source, sx, sy, nx, ny, values, ld, px))
    else:
        _gather(gather, (source, sx, sy, nx, ny, codes, ld, px))
        _decode(decode, (codes, values, exponents, px, ld, hot, by_row))


@_lean
def _load_rows(p, row, k, rows, products, codes, values, exponents, ld, hot):
    """Decode a panel of a; whole rows that lie densely are read where they are."""
    source = p[A] + (row * p[A_ROW] + k * p[A_K]) * p[A_BYTES]
    if p[A_K] != 1 or products != ld or p[DECODE_A] == 0:
        block = source, p[A_ROW], p[A_K], rows, products
        _load_panel(p[GATHER_A], p[DECODE_A], block, codes, values, exponents, rows, ld, hot, 1)
        return
    for x in range(rows):
        at = source + x * p[A_ROW] * p[A_BYTES]
        powers = exponents + x * ld * p[A_EXPONENT_BYTES]
        _decode(p[DECODE_A], (at, values + x * ld * 4, powers, 1, ld, hot + x, 1))


@_lean
def _load_run(p, source, size, filled, codes, values, exponents, hot, columns):
    """Decode ``size`` codes of b that lie one after the other, as one run without padded rows.

    Whole vectors are read where they are. Zeros fill up to ``filled`` values, a multiple of LANES.
    All columns are hot if any code is Inf or NaN.
    """
    flags, whole = pointer_to(hot, np.int8), size // LANES * LANES
    _decode(p[DECODE_B], (source, values, exponents, 1, whole, hot, 1))
    seen, rest = flags[0], filled - whole
    source += whole * p[B_BYTES]
    _gather(p[GATHER_B], (source, 1, 1, 1, size - whole, codes, rest, 1))
    values += whole * 4
    exponents += whole * p[B_EXPONENT_BYTES]
    _decode(p[DECODE_B], (codes, values, exponents, 1, rest, hot, 1))
    seen |= flags[0]
    for j in range(columns):
        flags[j] = seen


@_lean
def _load_sums(p, row, column, rows, columns, first, codes, acc, ld):
    """Fetch a tile of c (first panel) or of the sums so far, which ``out`` holds."""
    if first and p[C] == 0:
        word = pointer_to(acc, np.int32)
        for i in range(rows * ld * (p[VALUE_BYTES] // 4)):
            word[i] = 0
        return
    base, row_stride, column_stride = p[OUT], p[N], 1
    if first:
        base, row_stride, column_stride = p[C], p[C_ROW], p[C_COL]
    source = base + (row * row_stride + column * column_stride) * p[OUT_BYTES]
    block = source, row_stride, column_stride, rows, columns
    _load_panel(p[GATHER_C], p[DECODE_C], block, codes, acc, codes, rows, ld, codes, 0)


@_lean
def _store_sums(p, row, column, rows, columns, acc, ld):
    target = p[OUT] + (row * p[N] + column) * p[OUT_BYTES]
    _encode(p[ENCODE], (acc, ld, rows, columns, target, p[N], p[NAN]))


def _gemm_chunk(plan, task):
    """All K of one strip of columns and one range of rows."""
    state = environment.enter()
    p = pointer_to(plan, np.int64)
    column, part = task // p[SPLITS] * p[STRIP], task % p[SPLITS]
    columns = min(p[STRIP], p[N] - column)
    first_row, last_row = p[M] * part // p[SPLITS], p[M] * (part + 1) // p[SPLITS]
    depth, ld = p[PANEL], (columns + LANES - 1) // LANES * LANES
    lda = (depth + LANES - 1) // LANES * LANES
    # Narrow products, such as 10 columns, lie densely: their rows need no padding.
    dense = columns < ld and p[B_COL] == 1 and p[B_K] == columns and p[DECODE_B] != 0
    stays = last_row - first_row <= TILE_ROWS  # one tile, whose sums need not leave it
    value = p[VALUE_BYTES]
    size_b, size_a, size_c = depth * ld, TILE_ROWS * lda, TILE_ROWS * ld
    size_codes = max(size_b, max(size_a, size_c)) * value
    room = _allocate(
        64
        + _lines(size_codes)
        + _lines((size_a + size_b + size_c) * value)
        + _lines((size_a + size_b) * _EXPONENT_BYTES)
        + _lines(ld)
        + TILE_ROWS
    )
    codes = _lines(room)
    a = codes + _lines(size_codes)
    b, acc = a + size_a * value, a + (size_a + size_b) * value
    ea = a + _lines((size_a + size_b + size_c) * value)
    eb = ea + size_a * _EXPONENT_BYTES
    hot_b = ea + _lines((size_a + size_b) * _EXPONENT_BYTES)
    hot_a = hot_b + _lines(ld)
    for k in range(0, p[K], depth):
        products = min(depth, p[K] - k)
        groups = (products + p[GROUP] - 1) // p[GROUP]
        source = p[B] + (k * p[B_K] + column * p[B_COL]) * p[B_BYTES]
        padded, ldb = groups * p[GROUP], ld
        if dense:
            ldb = columns
            filled = (padded * columns + 2 * LANES - 1) // LANES * LANES
            _load_run(p, source, products * columns, filled, codes, b, eb, hot_b, ld)
        else:
            block = source, p[B_K], p[B_COL], products, columns
            _load_panel(p[GATHER_B], p[DECODE_B], block, codes, b, eb, padded, ld, hot_b, 0)
        for row in range(first_row, last_row, TILE_ROWS):
            rows = min(TILE_ROWS, last_row - row)
            _load_rows(p, row, k, rows, products, codes, a, ea, lda, hot_a)
            if k == 0 or not stays:
                _load_sums(p, row, column, rows, columns, k == 0, codes, acc, ld)
            _advance(p[BLOCK], (a, ea, lda, hot_a, b, eb, ldb, hot_b, acc, ld, rows, ld, groups))
            if k + depth >= p[K] or not stays:
                _store_sums(p, row, column, rows, columns, acc, ld)
    _release(room)
    environment.leave(state)


def _dots_chunk(plan, task):
    """All K of a range of dot products: one row of sums, in strips."""
    state = environment.enter()
    p = pointer_to(plan, np.int64)
    depth, strip, value = p[PANEL], p[STRIP], p[VALUE_BYTES]
    size = depth * strip
    room = _allocate(
        64
        + _lines(size * value) * 3
        + _lines(size * _EXPONENT_BYTES) * 2
        + _lines(strip) * 2
        + strip * value
    )
    codes = _lines(room)
    a = codes + _lines(size * value)
    b = a + _lines(size * value)
    ea = b + _lines(size * value)
    eb = ea + _lines(size * _EXPONENT_BYTES)
    hot_a = eb + _lines(size * _EXPONENT_BYTES)
    hot_b = hot_a + _lines(strip)
    acc = hot_b + _lines(strip)
    strips = (p[N] + strip - 1) // strip
    for block in range(strips * task // p[SPLITS], strips * (task + 1) // p[SPLITS]):
        row = block * strip
        rows = min(strip, p[N] - row)
        ld = (rows + LANES - 1) // LANES * LANES
        for k in range(0, p[K], depth):
            products = min(depth, p[K] - k)
            groups = (products + p[GROUP] - 1) // p[GROUP]
            padded = groups * p[GROUP]
            source = p[A] + (row * p[A_ROW] + k * p[A_K]) * p[A_BYTES]
            block = source, p[A_K], p[A_ROW], products, rows
            _load_panel(p[GATHER_A], p[DECODE_A], block, codes, a, ea, padded, ld, hot_a, 0)
            source = p[B] + (row * p[B_COL] + k * p[B_K]) * p[B_BYTES]
            block = source, p[B_K], p[B_COL], products, rows
            _load_panel(p[GATHER_B], p[DECODE_B], block, codes, b, eb, padded, ld, hot_b, 0)
            _load_sums(p, 0, row, 1, rows, k == 0, codes, acc, ld)
            _advance(p[BLOCK], (a, ea, ld, hot_a, b, eb, ld, hot_b, acc, ld, 1, ld, groups))
            _store_sums(p, 0, row, 1, rows, acc, ld)
    _release(room)
    environment.leave(state)


@cache
def chunk(dots: bool):
    """Compiled chunk function: ``.address``, and ``.ctypes`` to call it without the GIL."""
    function, name = (_dots_chunk, "chunk_dots") if dots else (_gemm_chunk, "chunk_gemm")
    return compile_callback(function, CHUNK_SIGNATURE, name)


def _spread(address, plan, tasks):
    for task in prange(tasks):
        _chunk(address, (plan, task))


@cache
def spread():
    """Compiled function that runs chunks on numba's pool of threads."""
    function = njit(error_model="numpy", nogil=True, parallel=True)(_spread)
    enable_cache(function, "spread")
    function.compile((types.intp, types.intp, types.intp))
    return function
