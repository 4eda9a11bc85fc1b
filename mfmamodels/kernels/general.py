"""One integer kernel per kind of accumulation, for every record that can be written.

It serves cores that users define, the rows with special values that a fast kernel leaves out, and
as a second opinion on the fast kernels: it shares no code with them nor with the reference. Only
integers are used, so the state of the host's floating-point unit cannot matter.

Functions take and give codes (unsigned integers of the formats' widths), of any strides.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from math import lcm

import numba
import numpy as np
from numpy.typing import NDArray

from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    ExactSum,
    FmaChain,
    LastC,
    LateC,
    PairwiseSum,
    SecondRounding,
)
from mfmamodels.kernels import general_aligned as aligned
from mfmamodels.kernels.cache import enable_cache
from mfmamodels.kernels.general_aligned import aligned_dot
from mfmamodels.kernels.general_blocks import PADDED_K, chain_dot, exact_dot, pairwise_dot
from mfmamodels.kernels.general_wide import (
    DIRECTIONS,
    NO_LIMIT,
    bits_or_no_limit,
    format_code,
    inlined,
    jit,
    read_code,
    write_code,
)

# --- records as integers ----------------------------------------------------------------------

_SECOND = {
    SecondRounding.NONE: aligned.SECOND_NONE,
    SecondRounding.BLIND: aligned.BLIND,
    SecondRounding.NORMALISED: aligned.NORMALISED_SUM,
    SecondRounding.SUBNORMAL_AWARE: aligned.SUBNORMAL_AWARE,
}


def _signed(code: int, width: int) -> int:
    """Reinterpret a code as the kernels hold it: 64-bit codes become negative integers."""
    return code - (1 << 64) if width == 64 and code >> 63 else code


def _register(arithmetic: Arithmetic) -> tuple[int, int]:
    """Number of 32-bit limbs and exponent of the lowest bit of a register for exact sums.

    Three empty limbs at the bottom spare :func:`general_blocks.round_register` a case; 9 bits at
    the top hold the sum of 65 terms (7), significands of products up to 4 (1) and the sign.
    """
    a, b, out = arithmetic.a, arithmetic.b, arithmetic.out
    lowest = min(a.emin + b.emin - a.fraction_bits - b.fraction_bits, out.emin - out.fraction_bits)
    highest = max(a.emax + b.emax + 1, out.emax) + 9
    return (highest - lowest) // 32 + 3 + 3, lowest - 96


def _aligned_parameters(kind: AlignedSum) -> tuple[int, ...]:
    """Parameters from FRAC_BITS to LAST_ROUNDING."""
    late = kind.c if isinstance(kind.c, LateC) else LateC()
    last = kind.c if isinstance(kind.c, LastC) else None
    e_min = -NO_LIMIT if kind.e_min == UNLIMITED else int(kind.e_min)
    return (
        kind.frac_bits,
        DIRECTIONS[kind.align_rounding],
        kind.interleave,
        DIRECTIONS[kind.join_rounding],
        bits_or_no_limit(kind.product_limit),
        e_min,
        int(kind.normalised_products),
        bits_or_no_limit(late.c_frac_bits),
        bits_or_no_limit(late.sum_frac_bits),
        DIRECTIONS[late.rounding],
        bits_or_no_limit(late.c_max_shift),
        _SECOND[late.second] if isinstance(kind.c, LateC) else aligned.NOT_LATE,
        late.second_frac_bits,
        bits_or_no_limit(late.zero_exponent),
        last.products if last else 0,
        DIRECTIONS[last.rounding] if last else 0,
    )


@lru_cache(maxsize=256)
def _parameters(arithmetic: Arithmetic) -> tuple[tuple, tuple[int, ...], NDArray, int]:
    """Formats, parameters of the kind (all but the padded K), order and run length."""
    kind, out = arithmetic.accumulation, arithmetic.out
    fraction, run, order = out.fraction_bits, kind.n_fma, (0,)
    own: tuple[int, ...] = ()
    if isinstance(kind, PairwiseSum):
        own = (int(kind.flush),)
    elif isinstance(kind, ExactSum):
        own = _register(arithmetic)
    elif isinstance(kind, AlignedSum):
        own = _aligned_parameters(kind)
        order = kind.order or (0,)
        run = lcm(run, len(order), kind.c.products if isinstance(kind.c, LastC) else 1)
        if kind.out_frac_bits != UNLIMITED:
            fraction = min(fraction, int(kind.out_frac_bits))
    formats = (format_code(arithmetic.a), format_code(arithmetic.b), format_code(out))
    shared = (kind.n_fma, DIRECTIONS[kind.rounding], _signed(arithmetic.nan, out.width), fraction)
    return formats, shared + own, np.array(order, np.int64), run


# --- kernels ----------------------------------------------------------------------------------

# Positions in ``memory``: addresses and strides in bytes, then how elements are numbered.
(
    _A,
    _A_ROW,
    _A_K,
    _B,
    _B_COLUMN,
    _B_K,
    _C,
    _C_ROW,
    _C_COLUMN,
    _D,
    _D_ROW,
    _D_COLUMN,
    _K,
    _COUNT,
    _COLUMNS,
    _ROW_LIST,
    _COLUMN_LIST,
) = range(17)

#: Below this many products a call stays on the calling thread.
_SERIAL_LIMIT = 1 << 15
_SCRATCH = (4, 64)  # at most 64 products in a block; an exact register has at most 26 limbs


def _kernel(function: Callable) -> Callable:
    """Compile a kernel, or find it on disk."""
    compiled = numba.njit(error_model="numpy", nogil=True)(function)
    return enable_cache(compiled, "general" + function.__name__)


@inlined
def _element(memory, n):
    """Row and column of the n-th element."""
    if memory[_ROW_LIST]:
        i, j = read_code(memory[_ROW_LIST] + 8 * n, 63), read_code(memory[_COLUMN_LIST] + 8 * n, 63)
    elif memory[_COLUMNS]:
        i, j = n // memory[_COLUMNS], n % memory[_COLUMNS]
    else:
        i, j = n, n
    return i, j


@jit
def _locate(formats, memory, n):
    """``place`` of :mod:`general_blocks`, code of c and address of d for the n-th element."""
    i, j = _element(memory, n)
    place = (
        memory[_A] + i * memory[_A_ROW],
        memory[_A_K],
        memory[_B] + j * memory[_B_COLUMN],
        memory[_B_K],
        memory[_K],
    )
    c = 0
    if memory[_C]:
        c = read_code(memory[_C] + i * memory[_C_ROW] + j * memory[_C_COLUMN], formats[2][0])
    return place, c, memory[_D] + i * memory[_D_ROW] + j * memory[_D_COLUMN]


# The four kernels differ in one call. A function passed as an argument would spare the repetition
# but would be compiled anew in every process: numba's disk cache does not know it.


@_kernel
def _chain(formats, kind, order, memory, first, end):
    scratch = np.empty(_SCRATCH, np.int64)
    for n in range(first, end):
        place, c, target = _locate(formats, memory, n)
        d = chain_dot(formats, kind, order, place, c, scratch)
        write_code(target, formats[2][0], d)


@_kernel
def _pairwise(formats, kind, order, memory, first, end):
    scratch = np.empty(_SCRATCH, np.int64)
    for n in range(first, end):
        place, c, target = _locate(formats, memory, n)
        d = pairwise_dot(formats, kind, order, place, c, scratch)
        write_code(target, formats[2][0], d)


@_kernel
def _exact(formats, kind, order, memory, first, end):
    scratch = np.empty(_SCRATCH, np.int64)
    for n in range(first, end):
        place, c, target = _locate(formats, memory, n)
        d = exact_dot(formats, kind, order, place, c, scratch)
        write_code(target, formats[2][0], d)


@_kernel
def _aligned(formats, kind, order, memory, first, end):
    scratch = np.empty(_SCRATCH, np.int64)
    for n in range(first, end):
        place, c, target = _locate(formats, memory, n)
        d = aligned_dot(formats, kind, order, place, c, scratch)
        write_code(target, formats[2][0], d)


_KERNELS: dict[type, Callable] = {
    FmaChain: _chain,
    PairwiseSum: _pairwise,
    ExactSum: _exact,
    AlignedSum: _aligned,
}


# --- entry points -----------------------------------------------------------------------------


def gemm(arithmetic: Arithmetic, a: NDArray, b: NDArray, c: NDArray | None, out: NDArray) -> None:
    """``out = a @ b + c`` on codes.

    Parameters
    ----------
    arithmetic : Arithmetic
        Any record.
    a, b : ndarray of unsigned int, shapes (M, K) and (K, N)
        Codes of ``arithmetic.a`` and ``arithmetic.b``; any strides.
    c : ndarray of unsigned int, shape (M, N), or None
        Codes of ``arithmetic.out``; None stands for +0. May be ``out`` itself.
    out : ndarray of unsigned int, shape (M, N)
        Codes of the results. With K = 0 those of c, unchanged.
    """
    c_strides = (0, 0) if c is None else c.strides
    _run(
        arithmetic,
        (a, *a.strides),
        (b, b.strides[1], b.strides[0]),
        (c, *c_strides),
        (out, *out.strides),
        k=a.shape[1],
        count=out.size,
        columns=out.shape[1],
    )


def dots(arithmetic: Arithmetic, a: NDArray, b: NDArray, c: NDArray | None, out: NDArray) -> None:
    """Independent dot products on codes: ``out[r] = sum(a[r] * b[r]) + c[r]``.

    Parameters
    ----------
    arithmetic : Arithmetic
    a, b : ndarray of unsigned int, shape (rows, K)
    c : ndarray of unsigned int, shape (rows,), or None
    out : ndarray of unsigned int, shape (rows,)
    """
    c_stride = 0 if c is None else c.strides[0]
    _run(
        arithmetic,
        (a, *a.strides),
        (b, *b.strides),
        (c, c_stride, 0),
        (out, out.strides[0], 0),
        k=a.shape[1],
        count=out.size,
    )


def patch(
    arithmetic: Arithmetic,
    a: NDArray,
    b: NDArray,
    c: NDArray | None,
    out: NDArray,
    rows: NDArray,
    columns: NDArray,
) -> None:
    """Compute chosen elements of a :func:`gemm`, leaving the others alone.

    Parameters
    ----------
    arithmetic, a, b, c, out
        As in :func:`gemm`. c must still hold its values, so it must not be ``out`` if another
        kernel has written there.
    rows, columns : ndarray of int, shape (n,)
        The elements ``out[rows[i], columns[i]]``.
    """
    lists = [np.ascontiguousarray(x, np.int64) for x in (rows, columns)]
    c_strides = (0, 0) if c is None else c.strides
    _run(
        arithmetic,
        (a, *a.strides),
        (b, b.strides[1], b.strides[0]),
        (c, *c_strides),
        (out, *out.strides),
        k=a.shape[1],
        count=lists[0].size,
        lists=lists,
    )


def _run(
    arithmetic: Arithmetic,
    a: tuple,
    b: tuple,
    c: tuple,
    out: tuple,
    *,
    k: int,
    count: int,
    columns: int = 0,
    lists: list[NDArray] | None = None,
) -> None:
    """Call the kind's kernel; a, b, c, out are arrays with their strides in row, column or k."""
    if count == 0:
        return
    formats, kind, order, run = _parameters(arithmetic)
    padded = -(-k // run) * run
    memory = [
        x if n else (0 if x is None else x.ctypes.data)
        for operand in (a, b, c, out)
        for n, x in enumerate(operand)
    ]
    memory += [k, count, columns, *(x.ctypes.data for x in lists or ())]
    memory += [0] * (17 - len(memory))
    parameters = np.array((*kind[:PADDED_K], padded, *kind[PADDED_K:]), np.int64)
    arguments = (formats, parameters, order, tuple(memory))
    kernel = _KERNELS[type(arithmetic.accumulation)]
    threads = min(count, numba.get_num_threads()) if count * k > _SERIAL_LIMIT else 1
    if threads == 1:
        kernel(*arguments, 0, count)
        return
    # Python's threads do (the kernel releases the interpreter), and compile in half the time that
    # numba's parallel loops need. Integers do not care for a thread's floating-point environment.
    bounds = [count * i // threads for i in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(kernel, *arguments, *pair) for pair in pairwise(bounds)]:
            done.result()
