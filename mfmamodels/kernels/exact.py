"""Fast kernels of :class:`~mfmamodels.accumulation.ExactSum`: exact sums in float64.

Two ways lead to the same bits. The *common* way needs the products of a panel and c to be multiples
of one power of two, and all their partial sums to stay below 2**53 times it: then float64 adds
without error, and the only rounding is the one to float32 after each group. Smallest exponents and
Euclidean norms of a row and a column show whether that holds. The *wide* way needs nothing: sums of
two or three float64 numbers are rounded to odd, which float32's rounding then does not see.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from llvmlite import ir

from mfmamodels.accumulation import Arithmetic, ExactSum, Rounding
from mfmamodels.kernels.cache import compile_callback
from mfmamodels.kernels.chunks import TILE_ROWS
from mfmamodels.kernels.driver import BLOCK_SIGNATURE, PANEL_K, Kernel
from mfmamodels.kernels.exact_lanes import (
    NOTHING,
    clear,
    conclude,
    fits,
    survey,
    survey_pairs,
    wide_step,
)
from mfmamodels.kernels.lanes import LANES, pointer_to, shifted
from mfmamodels.kernels.operands import exponent_type, is_narrow
from mfmamodels.kernels.tiles import Operands, fused, has_fma, jit, stack_array, tile

_HALF = LANES // 2  #: lanes of float64 in two AVX2 registers: the width of a tile
_ALL_LANES = (1 << LANES) - 1


def is_covered(arith: Arithmetic) -> bool:
    """Whether the sums of this record are exact in the way the kernel needs.

    Products of narrow formats lie between 2**-48 and 2**32, so that up to 16 of them fit two
    float64 sums, one above and one below 2**-16. Of wide formats two products are summed as such.
    """
    kind = arith.accumulation
    return (
        isinstance(kind, ExactSum)
        and kind.rounding is Rounding.RNE
        and arith.out.name == "fp32"
        and kind.n_fma <= (16 if _is_narrow(arith) else 2)
    )


def _is_narrow(arith: Arithmetic) -> bool:
    return is_narrow(arith.a) and is_narrow(arith.b)


def kernel(arith: Arithmetic) -> Kernel | None:
    """The fast kernel of a record, or None where :func:`is_covered` says no."""
    if not is_covered(arith):
        return None
    n = arith.accumulation.n_fma

    @cache
    def block(dots: bool) -> int:
        function = (_dots_block if dots else _gemm_block)(arith)
        name = f"exact_{'dots' if dots else 'gemm'}_{n}_{arith.a}_{arith.b}_{has_fma()}"
        return compile_callback(function, BLOCK_SIGNATURE, name).address

    return Kernel(n, block)


def _emit(n: int) -> Callable:
    """Code for one group the common way: no error until the rounding to float32."""
    one_instruction = has_fma()

    def emit(builder: ir.IRBuilder, operands: Operands, sums: list[ir.Value]) -> list[ir.Value]:
        held = sums[0].type
        for k in range(n):
            b = operands.b(k)
            for row, d in enumerate(sums):
                a = operands.a(row, k)
                if one_instruction:
                    sums[row] = fused(builder, a, b, d)
                else:  # both steps are exact
                    sums[row] = builder.fadd(builder.fmul(a, b), d)
        single = ir.VectorType(ir.FloatType(), held.count)
        return [builder.fpext(builder.fptrunc(d, single), held) for d in sums]

    return emit


def _survey_rows(arith: Arithmetic) -> Callable:
    """Function that turns a tile of a into float64 and notes each row's low and norm."""
    look = survey(arith.a)
    integers, reals = stack_array(np.int32, 2 * LANES), stack_array(np.float64, LANES)

    @jit
    def survey_rows(a, ea, lda, rows, products, wide, lows, norms):
        least, squares = integers(), reals()
        norm = shifted(least, LANES)
        for row in range(rows):
            clear(least, squares)
            for k in range(0, products, LANES):
                at = row * lda + k
                look(
                    shifted(a, at),
                    shifted(ea, at),
                    shifted(wide, row * PANEL_K + k),
                    least,
                    squares,
                )
            for lane in range(1, LANES):
                least[0] = min(least[0], least[lane])
                squares[0] += squares[lane]
            conclude(least, squares, norm)
            lows[row], norms[row] = least[0], norm[0]

    return survey_rows


def _pair_lows(arith: Arithmetic) -> Callable:
    """Function that finds the smallest exponents of a row's products with 16 columns."""
    look = survey_pairs(arith.a, arith.b)
    narrow = is_narrow(arith.a) and is_narrow(arith.b)
    room = stack_array(np.int8 if narrow else np.int16, LANES)

    @jit
    def pair_lows(ea, eb, ldb, products, lows):
        least = room()
        for lane in range(LANES):
            least[lane] = NOTHING
        for k in range(products):
            look(shifted(ea, k), shifted(eb, k * ldb), least)
        for lane in range(LANES):
            lows[lane] = least[lane]

    return pair_lows


def _row_test(arith: Arithmetic) -> Callable:
    """Function that tells whether a row and 16 columns can go the common way."""
    test, pair_lows = fits(arith.a.fraction_bits + arith.b.fraction_bits), _pair_lows(arith)
    room = stack_array(np.int32, LANES)

    @jit
    def can_go(low, norm, lows, norms, ea, eb, ldb, products, c):
        if test(lows, low, norms, norm, c) == _ALL_LANES:
            return True
        exact_lows = room()
        pair_lows(ea, eb, ldb, products, exact_lows)
        return test(exact_lows, np.int32(0), norms, norm, c) == _ALL_LANES

    return can_go


def _wide_row(arith: Arithmetic) -> Callable:
    """Function that adds to a copy of one row's sums with 16 columns the wide way."""
    n = arith.accumulation.n_fma
    step = wide_step(n, _is_narrow(arith), False)

    @jit
    def wide_row(a, packed, groups, c, copy):
        for lane in range(LANES):
            copy[lane] = c[lane]
        for k in range(0, n * groups, n):
            step(shifted(a, k), 0, shifted(packed, k * LANES), LANES, copy)

    return wide_row


def _common_rows(arith: Arithmetic) -> Callable:
    """Function that adds to the sums of six, four or one rows with 16 columns the common way."""
    n = arith.accumulation.n_fma
    six, four, one = (tile(rows, _HALF, n, _emit(n), pitch=LANES) for rows in (6, 4, 1))

    @jit
    def common_rows(height, a, packed, sums, ldc, groups):
        for half in range(0, LANES, _HALF):
            b, c = shifted(packed, half), shifted(sums, half)
            if height == 6:
                six(a, PANEL_K, b, c, ldc, groups)
            elif height == 4:
                four(a, PANEL_K, b, c, ldc, groups)
            else:
                one(a, PANEL_K, b, c, ldc, groups)

    return common_rows


def _strip(arith: Arithmetic) -> Callable:
    """Function for all rows of a tile and 16 columns, both packed and surveyed.

    Rows that cannot go the common way go the wide one first, aside; then all go the common way, and
    those rows are put back.
    """
    n = arith.accumulation.n_fma
    can_go, wide_row, common_rows = _row_test(arith), _wide_row(arith), _common_rows(arith)
    aside = stack_array(np.float32, 6 * LANES)

    @jit
    def strip(
        a, row_lows, row_norms, ea, lda, packed, lows, norms, eb, ldb, acc, ldc, rows, groups
    ):
        copies, row = aside(), 0
        while row < rows:
            height = 6 if row + 6 <= rows else 4 if row + 4 <= rows else 1
            first, sums = shifted(a, row * PANEL_K), shifted(acc, row * ldc)
            apart = 0
            for r in range(height):
                c, exponents = shifted(sums, r * ldc), shifted(ea, (row + r) * lda)
                low, norm = row_lows[row + r], row_norms[row + r]
                if not can_go(low, norm, lows, norms, exponents, eb, ldb, n * groups, c):
                    apart |= 1 << r
                    copy = shifted(copies, r * LANES)
                    wide_row(shifted(first, r * PANEL_K), packed, groups, c, copy)
            common_rows(height, first, packed, sums, ldc, groups)
            for r in range(height):
                if apart >> r & 1:
                    for lane in range(LANES):
                        sums[r * ldc + lane] = copies[r * LANES + lane]
            row += height

    return strip


def _gemm_block(arith: Arithmetic) -> Callable:
    n = arith.accumulation.n_fma
    survey_rows, look, strip = _survey_rows(arith), survey(arith.b), _strip(arith)
    type_a, type_b = exponent_type(arith.a), exponent_type(arith.b)
    wide_room = stack_array(np.float64, TILE_ROWS * PANEL_K)
    strip_room = stack_array(np.float64, (PANEL_K + 1) * LANES)
    integers = stack_array(np.int32, 2 * TILE_ROWS + 2 * LANES)

    def block(a_at, ea_at, lda, hot_a, b_at, eb_at, ldb, hot_b, acc_at, ldc, rows, lanes, groups):
        a, ea = pointer_to(a_at, np.float32), pointer_to(ea_at, type_a)
        b, eb = pointer_to(b_at, np.float32), pointer_to(eb_at, type_b)
        acc, products = pointer_to(acc_at, np.float32), n * groups
        wide, packed, row_lows = wide_room(), strip_room(), integers()
        squares = shifted(packed, PANEL_K * LANES)
        row_norms = shifted(row_lows, TILE_ROWS)
        lows = shifted(row_norms, TILE_ROWS)
        norms = shifted(lows, LANES)
        for row in range(rows):  # products of value zero leave +0, whatever the sign of a zero c
            for lane in range(lanes):
                acc[row * ldc + lane] += np.float32(0.0)
        survey_rows(a, ea, lda, rows, products, wide, row_lows, row_norms)
        for j in range(0, lanes, LANES):
            clear(lows, squares)
            for k in range(products):
                at = k * ldb + j
                look(shifted(b, at), shifted(eb, at), shifted(packed, k * LANES), lows, squares)
            conclude(lows, squares, norms)
            eb_j, acc_j = shifted(eb, j), shifted(acc, j)
            strip(
                wide,
                row_lows,
                row_norms,
                ea,
                lda,
                packed,
                lows,
                norms,
                eb_j,
                ldb,
                acc_j,
                ldc,
                rows,
                groups,
            )

    return block


def _dots_block(arith: Arithmetic) -> Callable:
    n = arith.accumulation.n_fma
    step = wide_step(n, _is_narrow(arith), True)

    def block(a, ea, lda, hot_a, b, eb, ldb, hot_b, acc, ldc, rows, lanes, groups):
        x, y = pointer_to(a, np.float32), pointer_to(b, np.float32)
        for j in range(0, lanes, LANES):
            sums = shifted(pointer_to(acc, np.float32), j)
            for g in range(groups):
                step(shifted(x, g * n * lda + j), lda, shifted(y, g * n * ldb + j), ldb, sums)

    return block
