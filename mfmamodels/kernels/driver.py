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
    rows, lanes   size of the tile; ``lanes`` is a multiple of LANES, at most MAX_LANES
    groups   number of groups of ``Kernel.group`` products in the panel

Product ``k`` of row r and lane j is::

    a[r * lda + k] * b[k * ldb + j]        in a matrix product ("gemm")
    a[k * lda + j] * b[k * ldb + j]        in independent dot products ("dots", rows = 1)

so one source makes both block functions, the one with a broadcast of ``a``, the other without.
``hot_a`` (one int8 per row; in dots per lane) and ``hot_b`` (per lane) are addresses of flags: -1
where the panel holds an Inf or NaN in that row or column, else 0 (only with ``exponents``).
Reading 64 bytes beyond the end of ``ea`` or ``eb`` is allowed.
Lanes beyond the matrix hold anything; K is padded with zeros (+0) to a multiple of the group.
``ldb`` may be smaller than ``lanes``: then those lanes hold what the next product's first ones do.

Compile a block function with ``compile_callback(function, BLOCK_SIGNATURE, unique_name)``: compiled
code is found again by that name, which must therefore say everything that the closure holds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

import numba
import numpy as np
from numba import types
from numba.core.typing import signature
from numpy.typing import NDArray

from mfmamodels.accumulation import Arithmetic
from mfmamodels.formats import Format
from mfmamodels.kernels import chunks
from mfmamodels.kernels.gathering import gatherer
from mfmamodels.kernels.lanes import LANES
from mfmamodels.kernels.operands import decoder, encoder, exponent_type, value_type

BLOCK_SIGNATURE = signature(types.void, *[types.intp] * 13)

#: Products decoded at a time.
PANEL_K = 128
#: Lanes of a tile at most.
MAX_LANES = 512
#: Dot products computed at a time.
DOTS_STRIP = 128
#: Below this many products a call stays on the calling thread.
SERIAL_LIMIT = 1 << 18


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


# --- one call -------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _template(arith: Arithmetic, kernel: Kernel, dots: bool) -> NDArray[np.int64]:
    """The entries of a plan that do not depend on the arrays."""
    plan = np.zeros(chunks.PLAN_LENGTH, np.int64)
    _fill(
        plan,
        GROUP=kernel.group,
        BLOCK=kernel.block(dots),
        GATHER_A=gatherer(arith.a.width),
        GATHER_B=gatherer(arith.b.width),
        GATHER_C=gatherer(arith.out.width),
        DECODE_A=decoder(arith.a, exponents=kernel.exponents, flush=kernel.flush),
        DECODE_B=decoder(arith.b, exponents=kernel.exponents, flush=kernel.flush),
        DECODE_C=decoder(arith.out, exponents=False),
        ENCODE=encoder(arith.out),
        NAN=int(np.uint64(arith.nan).astype(np.int64)),
        A_BYTES=arith.a.width // 8,
        B_BYTES=arith.b.width // 8,
        A_EXPONENT_BYTES=np.dtype(exponent_type(arith.a)).itemsize,
        B_EXPONENT_BYTES=np.dtype(exponent_type(arith.b)).itemsize,
        OUT_BYTES=arith.out.width // 8,
        VALUE_BYTES=np.dtype(value_type(arith.out)).itemsize,
        PANEL=max(1, PANEL_K // kernel.group) * kernel.group,
    )
    return plan


def _fill(plan: NDArray[np.int64], **entries: int) -> None:
    for name, value in entries.items():
        plan[getattr(chunks, name)] = value


def _codes(array: NDArray, fmt: Format, shape: tuple[int, ...]) -> NDArray:
    """Check an array of codes; copied only where its elements are not whole in memory."""
    if array.dtype != fmt.code_dtype or array.shape != shape:
        raise TypeError(
            f"codes of {fmt} are {fmt.code_dtype} of shape {shape}, "
            f"not {array.dtype} of shape {array.shape}"
        )
    whole = array.flags.aligned and all(s % array.itemsize == 0 for s in array.strides)
    return array if whole else array.copy()


def _check_out(out: NDArray, fmt: Format, shape: tuple[int, ...]) -> None:
    _codes(out, fmt, shape)
    if not out.flags.carray:
        raise ValueError("out has to be C-contiguous, aligned and writeable")


def _place(array: NDArray | None) -> tuple[int, ...]:
    """Address and strides in elements of an operand; zeros for a matrix that is not there."""
    if array is None:
        return 0, 0, 0
    return array.ctypes.data, *(stride // array.itemsize for stride in array.strides)


# Entries of a plan that a call fills in, in this order. The rows of b in dots are its columns.
_SIZES = [chunks.M, chunks.N, chunks.K, chunks.STRIP, chunks.SPLITS, chunks.A, chunks.A_ROW,
          chunks.A_K]  # fmt: skip
_GEMM = np.array([*_SIZES, chunks.B, chunks.B_K, chunks.B_COL, chunks.C, chunks.C_ROW,
                  chunks.C_COL, chunks.OUT])  # fmt: skip
_DOTS = np.array([*_SIZES, chunks.B, chunks.B_COL, chunks.B_K, chunks.C, chunks.C_COL,
                  chunks.C_ROW, chunks.OUT])  # fmt: skip


#: numba's pool takes work from one thread at a time.
_POOL = threading.Lock()


def _run(plan: NDArray[np.int64], dots: bool, tasks: int, threads: int) -> None:
    """Run the chunks of a plan, on the calling thread or on numba's."""
    compiled, address = chunks.chunk(dots), plan.ctypes.data
    if threads == 1 or tasks == 1:
        for task in range(tasks):
            compiled.ctypes(address, task)
        return
    with _POOL:
        chunks.spread()(compiled.address, address, tasks)


def _threads(products: int) -> int:
    return numba.get_num_threads() if products >= SERIAL_LIMIT else 1


def gemm(
    arith: Arithmetic, kernel: Kernel, a: NDArray, b: NDArray, c: NDArray | None, out: NDArray
) -> None:
    """Compute ``out = a @ b + c`` with a kernel; arrays of codes as in ``mfmamodels.kernels``."""
    (m, k), n = a.shape, b.shape[1]
    a, b = _codes(a, arith.a, (m, k)), _codes(b, arith.b, (k, n))
    c = None if c is None else _codes(c, arith.out, (m, n))
    _check_out(out, arith.out, (m, n))
    if m == 0 or n == 0 or k == 0:
        out[...] = 0 if c is None else c
        return
    # The part of a panel that belongs to one group stays in the first-level cache.
    strip = min(MAX_LANES, max(64, 4096 // kernel.group // LANES * LANES), -(-n // LANES) * LANES)
    strips, threads = -(-n // strip), _threads(m * n * k)
    splits = min(m, threads // gcd(strips, threads))
    plan = _template(arith, kernel, False).copy()
    plan[_GEMM] = (m, n, k, strip, splits, *_place(a), *_place(b), *_place(c), out.ctypes.data)
    _run(plan, False, strips * splits, threads)


def dots(
    arith: Arithmetic, kernel: Kernel, a: NDArray, b: NDArray, c: NDArray | None, out: NDArray
) -> None:
    """Compute independent dot products with a kernel; arrays as in ``mfmamodels.kernels``."""
    rows, k = a.shape
    a, b = _codes(a, arith.a, (rows, k)), _codes(b, arith.b, (rows, k))
    c = None if c is None else _codes(c, arith.out, (rows,))
    _check_out(out, arith.out, (rows,))
    if rows == 0 or k == 0:
        out[...] = 0 if c is None else c
        return
    threads = _threads(rows * k)
    tasks = 1 if threads == 1 else min(4 * threads, -(-rows // DOTS_STRIP))
    plan = _template(arith, kernel, True).copy()
    addend = (*_place(c), 0) if c is not None else (0, 0, 0)
    plan[_DOTS] = (1, rows, k, DOTS_STRIP, tasks, *_place(a), *_place(b), *addend, out.ctypes.data)
    _run(plan, True, tasks, threads)
