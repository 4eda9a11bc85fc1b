"""Blocking, threads and memory: what all fast kernels share.

A kind of accumulation plugs in with one function, its *block function*, wrapped in a
:class:`Kernel` by a factory ``kernel(arith) -> Kernel | None`` (None: not covered; the caller then
takes :mod:`mfmamodels.kernels.general`). Everything else happens here: codes are decoded panel by
panel (any strides, no copy of an operand), sums are kept as decoded values, work is split among
the threads of numba's pool, each with the floating-point unit in its default state.

The block function is compiled for C with :data:`BLOCK_SIGNATURE`::

    block(a, ea, lda, hot_a, b, eb, ldb, hot_b, acc, ldc, rows, lanes, groups)

    a, b     addresses of decoded values (float32, or float64 for fp64 operands)
    ea, eb   addresses of their exponents (int8, or int16 for wide formats)
    acc      address of the sums, values of the kind float32 (float64 when out is fp64): read as c,
             written as d, [row * ldc + lane]. c may be Inf or NaN; any NaN may be written.
    rows, lanes   size of the tile; ``lanes`` is a multiple of LANES
    groups   number of groups of ``Kernel.group`` products in the panel

Product ``k`` of row r and lane j is::

    a[r * lda + k] * b[k * ldb + j]        in a matrix product ("gemm")
    a[k * lda + j] * b[k * ldb + j]        in independent dot products ("dots", rows = 1)

so one source makes both block functions, the one with a broadcast of ``a``, the other without.
``hot_a`` (one int8 per row; in dots per lane) and ``hot_b`` (per lane) are addresses of flags: -1
where the panel holds an Inf or NaN in that row or column, else 0 (only with ``exponents``).
Lanes beyond the matrix hold zeros; K is padded with zeros (+0) to a multiple of the group.

Compile a block function with ``compile_callback(function, BLOCK_SIGNATURE, unique_name)``: compiled
code is found again by that name, which must therefore say everything that the closure holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from math import gcd

import numba
import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core.typing import signature
from numba.extending import intrinsic
from numpy.typing import NDArray

from mfmamodels.accumulation import Arithmetic
from mfmamodels.kernels import environment
from mfmamodels.kernels.cache import enable_cache
from mfmamodels.kernels.lanes import LANES, pointer_to
from mfmamodels.kernels.operands import decoder, encoder, value_type

BLOCK_SIGNATURE = signature(types.void, *[types.intp] * 13)


@dataclass(frozen=True)
class Kernel:
    """A compiled block function and how it wants its operands.

    Attributes
    ----------
    group : int
        Products that belong together (``n_fma``, or a whole instruction where it has an order).
    block : callable
        ``block(dots: bool) -> int``: address of the block function, compiled when first asked for.
    exponents : bool
        Whether the block function reads exponents and hot flags.
    flush : bool
        Whether subnormal operands a and b become zeros of their sign.
    """

    group: int
    block: Callable[[bool], int]
    exponents: bool = True
    flush: bool = False


# A plan is an int64 array with these entries, shared by all chunks of one call. Addresses and
# strides are in bytes where the name says so, strides else in elements.
(
    M,
    N,
    K,
    GROUP,
    A,
    A_ROW,
    A_K,
    A_BYTES,
    B,
    B_K,
    B_COL,
    B_BYTES,
    C,
    C_ROW,
    C_COL,
    OUT,
    OUT_BYTES,
    NAN,
    BLOCK,
    DECODE_A,
    DECODE_B,
    DECODE_C,
    ENCODE,
    VALUE_BYTES,
    EXPONENT_BYTES,
    STRIP,
    ROW_SPLIT,
    PANEL,
    PLAN_LENGTH,
) = range(29)

#: Rows whose sums are kept in one tile, and products decoded at a time.
TILE_ROWS = 64
PANEL_K = 128
#: Below this many products a call stays on the calling thread.
SERIAL_LIMIT = 1 << 18


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


_call_decode, _call_encode, _call_block = _caller(12), _caller(7), _caller(13)


@njit(error_model="numpy")
def _padded(count):
    return (count + LANES - 1) // LANES * LANES


@njit(error_model="numpy")
def _load_sums(plan, row, column, rows, columns, first, codes, acc, ld, unused):
    """Fetch a tile of c (first panel) or of the sums so far, which ``out`` holds."""
    if first and plan[C] == 0:
        _zero(acc, rows * ld * plan[VALUE_BYTES])
        return
    size = plan[OUT_BYTES]
    base, row_stride, column_stride = plan[OUT], plan[N], 1
    if first:
        base, row_stride, column_stride = plan[C], plan[C_ROW], plan[C_COL]
    source = base + (row * row_stride + column * column_stride) * size
    _call_decode(
        plan[DECODE_C],
        (source, row_stride, column_stride, rows, columns, rows, codes, acc, unused, ld, unused, 0),
    )


@njit(error_model="numpy")
def _zero(address, size):
    byte = pointer_to(address, np.uint8)
    for i in range(size):
        byte[i] = 0


@njit(error_model="numpy")
def _store_sums(plan, row, column, rows, columns, acc, ld):
    target = plan[OUT] + (row * plan[N] + column) * plan[OUT_BYTES]
    _call_encode(plan[ENCODE], (acc, ld, rows, columns, target, plan[N], plan[NAN]))


@njit(error_model="numpy")
def _carve(plan, sizes):
    """One allocation for all scratch panels, each on a cache line of its own."""
    total = 64
    for size in sizes:
        total += (size + 127) // 64 * 64
    return np.empty(total, np.uint8)


@njit(error_model="numpy")
def _gemm_chunk(plan, task):
    """All K of one strip of columns and one range of rows."""
    splits = plan[ROW_SPLIT]
    column = task // splits * plan[STRIP]
    columns = min(plan[STRIP], plan[N] - column)
    part = task % splits
    first_row, last_row = plan[M] * part // splits, plan[M] * (part + 1) // splits
    ld, depth = _padded(columns), plan[PANEL]
    lda = _padded(depth)
    value, power = plan[VALUE_BYTES], plan[EXPONENT_BYTES]
    sizes = (
        depth * ld * value,
        depth * ld * power,
        ld,
        TILE_ROWS * lda * value,
        TILE_ROWS * lda * power,
        TILE_ROWS,
        TILE_ROWS * ld * value,
        max(depth * ld, TILE_ROWS * max(lda, ld)) * value,
    )
    room = _carve(plan, sizes)
    at = (room.ctypes.data + 63) // 64 * 64
    b = at
    eb = b + (sizes[0] + 63) // 64 * 64
    hot_b = eb + (sizes[1] + 63) // 64 * 64
    a = hot_b + (sizes[2] + 63) // 64 * 64
    ea = a + (sizes[3] + 63) // 64 * 64
    hot_a = ea + (sizes[4] + 63) // 64 * 64
    acc = hot_a + (sizes[5] + 63) // 64 * 64
    codes = acc + (sizes[6] + 63) // 64 * 64
    for k in range(0, plan[K], depth):
        products = min(depth, plan[K] - k)
        groups = (products + plan[GROUP] - 1) // plan[GROUP]
        panel = groups * plan[GROUP]
        source = plan[B] + (k * plan[B_K] + column * plan[B_COL]) * plan[B_BYTES]
        _call_decode(
            plan[DECODE_B],
            (source, plan[B_K], plan[B_COL], products, columns, panel, codes, b, eb, ld, hot_b, 0),
        )
        for row in range(first_row, last_row, TILE_ROWS):
            rows = min(TILE_ROWS, last_row - row)
            source = plan[A] + (row * plan[A_ROW] + k * plan[A_K]) * plan[A_BYTES]
            _call_decode(
                plan[DECODE_A],
                (source, plan[A_ROW], plan[A_K], rows, products, rows, codes, a, ea, lda, hot_a, 1),
            )
            _load_sums(plan, row, column, rows, columns, k == 0, codes, acc, ld, hot_a)
            _call_block(
                plan[BLOCK], (a, ea, lda, hot_a, b, eb, ld, hot_b, acc, ld, rows, ld, groups)
            )
            _store_sums(plan, row, column, rows, columns, acc, ld)
    room[0] = 0  # keeps the allocation alive to the end


@njit(error_model="numpy")
def _dots_chunk(plan, task):
    """All K of a range of rows; a matrix of one row whose columns are the dot products."""
    splits = plan[ROW_SPLIT]
    blocks = (plan[N] + plan[STRIP] - 1) // plan[STRIP]
    depth, strip = plan[PANEL], plan[STRIP]
    value, power = plan[VALUE_BYTES], plan[EXPONENT_BYTES]
    sizes = (depth * strip * value, depth * strip * power, strip, strip * value)
    room = _carve(plan, (2 * sizes[0] + 64, 2 * sizes[1] + 64, 2 * strip + 64, sizes[3], sizes[0]))
    a = (room.ctypes.data + 63) // 64 * 64
    b = a + (sizes[0] + 63) // 64 * 64
    ea = b + (sizes[0] + 63) // 64 * 64
    eb = ea + (sizes[1] + 63) // 64 * 64
    hot_a = eb + (sizes[1] + 63) // 64 * 64
    hot_b = hot_a + (strip + 63) // 64 * 64
    acc = hot_b + (strip + 63) // 64 * 64
    codes = acc + (sizes[3] + 63) // 64 * 64
    for block in range(blocks * task // splits, blocks * (task + 1) // splits):
        column = block * strip
        columns = min(strip, plan[N] - column)
        ld = _padded(columns)
        for k in range(0, plan[K], depth):
            products = min(depth, plan[K] - k)
            groups = (products + plan[GROUP] - 1) // plan[GROUP]
            panel = groups * plan[GROUP]
            source = plan[A] + (column * plan[A_ROW] + k * plan[A_K]) * plan[A_BYTES]
            _call_decode(
                plan[DECODE_A],
                (
                    source,
                    plan[A_K],
                    plan[A_ROW],
                    products,
                    columns,
                    panel,
                    codes,
                    a,
                    ea,
                    ld,
                    hot_a,
                    0,
                ),
            )
            source = plan[B] + (column * plan[B_COL] + k * plan[B_K]) * plan[B_BYTES]
            _call_decode(
                plan[DECODE_B],
                (
                    source,
                    plan[B_K],
                    plan[B_COL],
                    products,
                    columns,
                    panel,
                    codes,
                    b,
                    eb,
                    ld,
                    hot_b,
                    0,
                ),
            )
            _load_sums(plan, 0, column, 1, columns, k == 0, codes, acc, ld, hot_a)
            _call_block(plan[BLOCK], (a, ea, ld, hot_a, b, eb, ld, hot_b, acc, ld, 1, ld, groups))
            _store_sums(plan, 0, column, 1, columns, acc, ld)
    room[0] = 0


def _serial(plan, dots, tasks):
    state = environment.enter()
    for task in range(tasks):
        if dots:
            _dots_chunk(plan, task)
        else:
            _gemm_chunk(plan, task)
    environment.leave(state)


def _parallel(plan, dots, tasks):
    for task in prange(tasks):
        state = environment.enter()
        if dots:
            _dots_chunk(plan, task)
        else:
            _gemm_chunk(plan, task)
        environment.leave(state)


_PLAN_TYPE = types.Array(types.int64, 1, "C")


@cache
def _runner(parallel: bool):
    options = {"error_model": "numpy", "nogil": True, "parallel": parallel}
    function = njit(**options)(_parallel if parallel else _serial)
    enable_cache(function, "run_parallel" if parallel else "run_serial")
    function.compile((_PLAN_TYPE, types.boolean, types.intp))
    return function


# --- one call -------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _template(arith: Arithmetic, kernel: Kernel, dots: bool) -> NDArray[np.int64]:
    """The entries of a plan that do not depend on the arrays."""
    plan = np.zeros(PLAN_LENGTH, np.int64)
    plan[GROUP] = kernel.group
    plan[BLOCK] = kernel.block(dots)
    for entry, fmt in ((DECODE_A, arith.a), (DECODE_B, arith.b)):
        plan[entry] = decoder(fmt, exponents=kernel.exponents, flush=kernel.flush)
    plan[DECODE_C] = decoder(arith.out, exponents=False)
    plan[ENCODE] = encoder(arith.out)
    plan[NAN] = np.uint64(arith.nan).astype(np.int64)
    plan[OUT_BYTES] = arith.out.width // 8
    plan[A_BYTES], plan[B_BYTES] = arith.a.width // 8, arith.b.width // 8
    plan[VALUE_BYTES] = np.dtype(value_type(arith.out)).itemsize
    plan[EXPONENT_BYTES] = 2
    plan[PANEL] = max(1, PANEL_K // kernel.group) * kernel.group
    return plan


def _strides(array: NDArray) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(stride // array.itemsize for stride in array.strides)


def _run(plan: NDArray[np.int64], dots: bool, products: int) -> None:
    threads = numba.get_num_threads() if products >= SERIAL_LIMIT else 1
    strips = -(-int(plan[N]) // int(plan[STRIP]))
    if dots:
        plan[ROW_SPLIT] = tasks = min(strips, threads if threads == 1 else 4 * threads)
    else:
        plan[ROW_SPLIT] = min(int(plan[M]), threads // gcd(strips, threads))
        tasks = strips * int(plan[ROW_SPLIT])
    _runner(threads > 1 and tasks > 1)(plan, dots, tasks)


def gemm(
    arith: Arithmetic, kernel: Kernel, a: NDArray, b: NDArray, c: NDArray | None, out: NDArray
) -> None:
    """Compute ``out = a @ b + c`` with a kernel; arrays of codes as in ``mfmamodels.kernels``."""
    (m, k), n = a.shape, b.shape[1]
    if m == 0 or n == 0 or k == 0:
        out[...] = 0 if c is None else c
        return
    plan = _template(arith, kernel, False).copy()
    plan[[M, N, K]] = m, n, k
    plan[[A, A_ROW, A_K]] = a.ctypes.data, *_strides(a)
    plan[[B, B_K, B_COL]] = b.ctypes.data, *_strides(b)
    if c is not None:
        plan[[C, C_ROW, C_COL]] = c.ctypes.data, *_strides(c)
    plan[OUT] = out.ctypes.data
    # The panel rows of one group and one strip stay in the first-level cache.
    widest = min(512, max(64, 4096 // kernel.group // LANES * LANES))
    plan[STRIP] = min(widest, -(-n // LANES) * LANES)
    _run(plan, False, m * n * k)


def dots(
    arith: Arithmetic, kernel: Kernel, a: NDArray, b: NDArray, c: NDArray | None, out: NDArray
) -> None:
    """Compute independent dot products with a kernel; arrays as in ``mfmamodels.kernels``."""
    rows, k = a.shape
    if rows == 0 or k == 0:
        out[...] = 0 if c is None else c
        return
    plan = _template(arith, kernel, True).copy()
    plan[[M, N, K]] = 1, rows, k
    plan[[A, A_ROW, A_K]] = a.ctypes.data, *_strides(a)
    plan[[B, B_COL, B_K]] = b.ctypes.data, *_strides(b)
    if c is not None:
        plan[[C, C_COL]] = c.ctypes.data, *_strides(c)
    plan[OUT] = out.ctypes.data
    plan[STRIP] = 128
    _run(plan, True, rows * k)
