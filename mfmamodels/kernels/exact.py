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
from numba import njit

from mfmamodels.accumulation import Arithmetic, ExactSum, Rounding
from mfmamodels.formats import Format
from mfmamodels.kernels import lanes as v
from mfmamodels.kernels.cache import compile_callback
from mfmamodels.kernels.chunks import TILE_ROWS
from mfmamodels.kernels.driver import BLOCK_SIGNATURE, PANEL_K, Kernel
from mfmamodels.kernels.lanes import LANES, load, pointer_to, select, shifted, store
from mfmamodels.kernels.operands import NARROW_ZERO, WIDE_ZERO, exponent_type, is_narrow
from mfmamodels.kernels.tiles import Operands, fused, has_fma, stack_array, tile

jit = njit(error_model="numpy", forceinline=True)

_HALF = LANES // 2  #: lanes of float64 in two AVX2 registers: the width of a tile
_TALL, _LOW = 6, 4  #: heights of tiles; single rows for what is left
_NOTHING = 1 << 12  #: above every exponent: stands for the smallest one of zeros
_ALL_LANES = (1 << LANES) - 1


def is_covered(arith: Arithmetic) -> bool:
    """Whether the sums of this record are exact in the way the kernel needs.

    Products of narrow formats lie between 2**-48 and 2**32, so that up to 16 of them fit two
    float64 sums, one above and one below 2**-16. Of wide formats two products are summed as such.
    """
    kind = arith.accumulation
    narrow = is_narrow(arith.a) and is_narrow(arith.b)
    return (
        isinstance(kind, ExactSum)
        and kind.rounding is Rounding.RNE
        and arith.out.name == "fp32"
        and kind.n_fma <= (16 if narrow else 2)
    )


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


# --- the wide way -----------------------------------------------------------------------------


@jit
def _two_sum(x, y):
    """Sum and its rounding error, exact together (Knuth)."""
    s = x + y
    z = s - x
    return s, (x - (s - z)) + (y - z)


@jit
def _odd_sum(x, y):
    """Sum rounded to odd: a sum that is not exact gets an odd significand."""
    s, error = _two_sum(x, y)
    bits = v.bits_i64(s)
    toward = select((bits ^ v.bits_i64(error)) < 0, v.splat(np.int64(-1)), v.splat(np.int64(1)))
    even = (bits & 1) == 0
    return v.bits_f64(bits + select((error != 0.0) & even, toward, v.splat(np.int64(0))))


@jit
def _rounded_sum(x, y, z, plain):
    """Exact x + y + z, rounded once to float32 (float64 vectors; an exact zero gives +0).

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Trans. Comput. 57(4).
    ``plain`` is a sum of the same terms in which Inf and NaN stand as in IEEE 754: the result where
    it is not finite, as the terms' errors then are NaN. Finite terms cannot overflow float64.
    """
    high, low = _two_sum(y, z)
    top, rest = _two_sum(x, high)
    odd = _odd_sum(top, _odd_sum(rest, low))
    finite = plain - plain == 0.0
    return v.f64_to_f32(select(finite, odd, plain) + 0.0)


def _wide_group(narrow: bool, n: int, product: Callable) -> Callable:
    """Function that adds a group to a vector of sums: (a, b, lda, ldb, d) -> d, d in float32.

    ``product(a, b, k, lda, ldb)`` gives the k-th product as float64.
    """
    if narrow:
        split = 1.5 * 2.0**36  # to its neighbours 2**-16, the place where products are split

        @jit
        def group(a, b, lda, ldb, d):
            x = product(a, b, 0, lda, ldb)
            high = (x + split) - split
            low = x - high
            for k in range(1, n):
                x = product(a, b, k, lda, ldb)
                upper = (x + split) - split
                high = high + upper
                low = low + (x - upper)
            c = v.f32_to_f64(d)
            return _rounded_sum(high, low, c, high + c)

    else:

        @jit
        def group(a, b, lda, ldb, d):
            x = product(a, b, 0, lda, ldb)
            y = product(a, b, n - 1, lda, ldb) if n == 2 else x - x
            c = v.f32_to_f64(d)
            return _rounded_sum(x, y, c, x + y + c)

    return group


# --- the common way ---------------------------------------------------------------------------


def _emit(n: int, fused_steps: bool) -> Callable:
    """Code for one group: products added without error, then one rounding to float32."""

    def emit(builder: ir.IRBuilder, operands: Operands, sums: list[ir.Value]) -> list[ir.Value]:
        held = sums[0].type
        for k in range(n):
            b = operands.b(k)
            for row, d in enumerate(sums):
                a = operands.a(row, k)
                if fused_steps:
                    sums[row] = fused(builder, a, b, d)
                else:  # both steps are exact
                    sums[row] = builder.fadd(builder.fmul(a, b), d)
        single = ir.VectorType(ir.FloatType(), held.count)
        return [builder.fpext(builder.fptrunc(d, single), held) for d in sums]

    return emit


@jit
def _exponent_of(x):
    """Exponents of float64 lanes, -1023 for 0."""
    return v.to_i32(v.bits_i64(x) >> 52) - 1023


def _fits(fraction_bits: int) -> Callable:
    """Function ``(low, squares, c)``: whether a row and 16 columns can go the common way.

    ``low``: sum of the smallest exponents of row and column; ``squares``: sum of the exponents of
    their squared norms; ``c``: bits of the sums so far.
    """

    @jit
    def fits(low, squares, c):
        unit = low - fraction_bits  # every product is a multiple of 2**unit
        magnitude = c & 0x7FFFFFFF
        field = magnitude >> 23
        e = v.maximum(field, 1) - 127
        significand = magnitude & 0x7FFFFF
        significand = select(field > 0, significand | 0x800000, significand)
        dropped = v.minimum(v.maximum(unit - (e - 23), 0), 24)
        multiple = (significand & ((v.splat(np.int32(1)) << dropped) - 1)) == 0
        # By Cauchy and Schwarz all products together, with any signs, stay below 2**(unit + 51):
        # a squared norm is below 2**(its exponent + 1), and one bit is for its rounding errors.
        bounded = (squares + 3 <= 2 * unit + 102) & (e <= unit + 50)
        # Multiples of float32's smallest number: no sum is rounded to a zero with a sign.
        return v.lane_bits(multiple & bounded & (unit >= -149)) == _ALL_LANES

    return fits


def _smallest(fmt: Format) -> tuple[Callable, Callable]:
    """Functions that fold a vector of exponents into a smallest one, and finish (0 for none)."""
    zero = NARROW_ZERO if is_narrow(fmt) else WIDE_ZERO

    @jit
    def fold(least, exponents):
        e = v.to_i32(exponents)
        return v.minimum(least, select(e == zero, v.splat(np.int32(_NOTHING)), e))

    @jit
    def finish(least):
        return select(least == _NOTHING, v.splat(np.int32(0)), least)

    return fold, finish


def _survey_rows(fmt: Format) -> Callable:
    """Function that turns a tile of a into float64 and notes each row's low and square."""
    fold, _ = _smallest(fmt)
    lane_room, square_room = stack_array(np.int32, LANES), stack_array(np.float64, LANES)

    @jit
    def survey(a, ea, lda, rows, products, wide, lows, squares):
        lanes, terms = lane_room(), square_room()
        for row in range(rows):
            least = v.splat(np.int32(_NOTHING))
            square = v.splat(0.0)
            for k in range(0, products, LANES):
                least = fold(least, load(ea, row * lda + k))
                x = v.f32_to_f64(load(a, row * lda + k))
                square = square + x * x
                store(wide, row * PANEL_K + k, x)
            store(lanes, 0, least)
            store(terms, 0, square)
            low, total = lanes[0], terms[0]
            for i in range(1, LANES):
                low = min(low, lanes[i])
                total += terms[i]
            lows[row] = np.int32(0) if low == _NOTHING else low
            store(lanes, 0, _exponent_of(v.splat(total)))
            squares[row] = lanes[0]

    return survey


def _survey_columns(fmt: Format) -> Callable:
    """Function that packs 16 columns of b as float64; returns their lows and squares."""
    fold, finish = _smallest(fmt)

    @jit
    def survey(b, eb, ldb, products, packed):
        least = v.splat(np.int32(_NOTHING))
        square = v.splat(0.0)
        for k in range(products):
            least = fold(least, load(eb, k * ldb))
            x = v.f32_to_f64(load(b, k * ldb))
            square = square + x * x
            store(packed, k * LANES, x)
        return finish(least), _exponent_of(square)

    return survey


# --- block functions --------------------------------------------------------------------------


def _block_of_rows(arith: Arithmetic, height: int) -> Callable:
    """Function for ``height`` rows and 16 columns of one panel, both operands in float64.

    Rows that cannot go the common way go the wide one first, aside; then all go the common way,
    and those rows are put back.
    """
    n = arith.accumulation.n_fma
    emit = _emit(n, has_fma())
    run = tile(height, _HALF, n, emit, pitch=LANES)
    fits = _fits(arith.a.fraction_bits + arith.b.fraction_bits)
    aside = stack_array(np.float32, height * LANES)

    @jit
    def product(a, b, k, lda, ldb):
        return load(b, k * ldb) * a[k]

    add_group = _wide_group(is_narrow(arith.a) and is_narrow(arith.b), n, product)

    @jit
    def rows(a, lows, squares, packed, low, square, acc, ldc, groups):
        saved, apart = aside(), 0
        for row in range(height):
            c = load(acc, row * ldc)
            if not fits(low + lows[row], square + squares[row], v.bits_i32(c)):
                apart |= 1 << row
                for group in range(groups):
                    k = group * n
                    c = add_group(
                        shifted(a, row * PANEL_K + k), shifted(packed, k * LANES), 0, LANES, c
                    )
                store(saved, row * LANES, c)
        run(a, PANEL_K, packed, acc, ldc, groups)
        run(a, PANEL_K, shifted(packed, _HALF), shifted(acc, _HALF), ldc, groups)
        if apart:
            for row in range(height):
                if apart >> row & 1:
                    store(acc, row * ldc, load(saved, row * LANES))

    return rows


def _gemm_block(arith: Arithmetic) -> Callable:
    n = arith.accumulation.n_fma
    tall, low_rows, single = (_block_of_rows(arith, height) for height in (_TALL, _LOW, 1))
    survey_rows, survey_columns = _survey_rows(arith.a), _survey_columns(arith.b)
    type_a, type_b = exponent_type(arith.a), exponent_type(arith.b)
    wide_room = stack_array(np.float64, TILE_ROWS * PANEL_K)
    strip_room = stack_array(np.float64, PANEL_K * LANES)
    row_room = stack_array(np.int32, 2 * TILE_ROWS)

    def block(a, ea, lda, hot_a, b, eb, ldb, hot_b, acc, ldc, rows, lanes, groups):
        wide, packed, lows = wide_room(), strip_room(), row_room()
        squares = shifted(lows, TILE_ROWS)
        _unsign_zeros(pointer_to(acc, np.float32), ldc, rows, lanes)
        survey_rows(
            pointer_to(a, np.float32),
            pointer_to(ea, type_a),
            lda,
            rows,
            n * groups,
            wide,
            lows,
            squares,
        )
        for j in range(0, lanes, LANES):
            low, square = survey_columns(
                shifted(pointer_to(b, np.float32), j),
                shifted(pointer_to(eb, type_b), j),
                ldb,
                n * groups,
                packed,
            )
            sums = shifted(pointer_to(acc, np.float32), j)
            row = 0
            while row + _TALL <= rows:
                tall(
                    shifted(wide, row * PANEL_K),
                    shifted(lows, row),
                    shifted(squares, row),
                    packed,
                    low,
                    square,
                    shifted(sums, row * ldc),
                    ldc,
                    groups,
                )
                row += _TALL
            while row + _LOW <= rows:
                low_rows(
                    shifted(wide, row * PANEL_K),
                    shifted(lows, row),
                    shifted(squares, row),
                    packed,
                    low,
                    square,
                    shifted(sums, row * ldc),
                    ldc,
                    groups,
                )
                row += _LOW
            while row < rows:
                single(
                    shifted(wide, row * PANEL_K),
                    shifted(lows, row),
                    shifted(squares, row),
                    packed,
                    low,
                    square,
                    shifted(sums, row * ldc),
                    ldc,
                    groups,
                )
                row += 1

    return block


@jit
def _unsign_zeros(acc, ldc, rows, lanes):
    """Make +0 of a c that is -0: products of value zero leave +0, whatever their signs."""
    for row in range(rows):
        for j in range(0, lanes, LANES):
            store(acc, row * ldc + j, load(acc, row * ldc + j) + np.float32(0.0))


def _dots_block(arith: Arithmetic) -> Callable:
    n = arith.accumulation.n_fma

    @jit
    def product(a, b, k, lda, ldb):
        return v.f32_to_f64(load(a, k * lda)) * v.f32_to_f64(load(b, k * ldb))

    add_group = _wide_group(is_narrow(arith.a) and is_narrow(arith.b), n, product)

    def block(a, ea, lda, hot_a, b, eb, ldb, hot_b, acc, ldc, rows, lanes, groups):
        x, y = pointer_to(a, np.float32), pointer_to(b, np.float32)
        sums = pointer_to(acc, np.float32)
        for j in range(0, lanes, LANES):
            d = load(sums, j)
            for group in range(groups):
                k = group * n
                d = add_group(shifted(x, k * lda + j), shifted(y, k * ldb + j), lda, ldb, d)
            store(sums, j, d)

    return block
