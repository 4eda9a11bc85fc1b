"""Block functions of aligned sums: the walk over a panel, and one vector of lanes at a time.

Everything that depends on the record is decided here, when a block function is compiled; names are
those of :mod:`mfmamodels.kernels.driver`. The small functions take pointers to a block's first
product, and the distances ``lda``, ``ldb`` between successive products.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from mfmamodels.accumulation import UNLIMITED, AlignedSum, Arithmetic, LastC, LateC, Rounding
from mfmamodels.kernels import aligned_scalar as scalar
from mfmamodels.kernels import lanes as v
from mfmamodels.kernels.aligned_lanes import (
    HIGHEST,
    LOWEST,
    NARROW_NOTHING,
    WIDE_NOTHING,
    add_far,
    add_near,
    exponent_field,
    odd_float,
    power_of_two,
    round_to_half,
    shift_right,
    truncate_to_f32,
    with_sign,
)
from mfmamodels.kernels.lanes import LANES, load, pointer_to, select, shifted, store
from mfmamodels.kernels.operands import exponent_type, is_narrow

jit = njit(error_model="numpy", forceinline=True)
NO_LIMIT = -(1 << 30)


# --- products ---------------------------------------------------------------------------------


def _readers(dots: bool) -> tuple[Callable, Callable]:
    """Functions that read the k-th product and its exponent for a vector of lanes."""
    if dots:

        @jit
        def product(a, b, k, lda, ldb):
            return load(a, k * lda) * load(b, k * ldb)

        @jit
        def exponent(ea, eb, k, lda, ldb):
            return load(ea, k * lda) + load(eb, k * ldb)
    else:

        @jit
        def product(a, b, k, lda, ldb):
            return load(b, k * ldb) * a[k]

        @jit
        def exponent(ea, eb, k, lda, ldb):
            return load(eb, k * ldb) + ea[k]

    return product, exponent


def _position(order: tuple[int, ...]) -> Callable:
    """Function from a place in the order of summation to a product's index."""
    if not order:

        @jit
        def position(k):
            return k
    else:
        table = np.array(order, np.int64)

        @jit
        def position(k):
            return table[k]

    return position


def _largest(exponent: Callable, position: Callable, first: int, last: int, step: int) -> Callable:
    """Largest exponent of the products first, first + step, ... below last, as int32."""

    @jit
    def largest(ea, eb, lda, ldb):
        e = exponent(ea, eb, position(first), lda, ldb)
        for k in range(first + step, last, step):
            e = v.maximum(e, exponent(ea, eb, position(k), lda, ldb))
        return v.to_i32(e)

    return largest


def _sum(product: Callable, position: Callable, first: int, last: int, step: int) -> Callable:
    """Sum of products first, first + step, ... below last, each times ``scale`` and truncated."""

    @jit
    def total(a, b, lda, ldb, scale):
        s = v.f_to_i32(product(a, b, position(first), lda, ldb) * scale)
        for k in range(first + step, last, step):
            s = s + v.f_to_i32(product(a, b, position(k), lda, ldb) * scale)
        return s

    return total


# --- late c (CDNA3) ---------------------------------------------------------------------------


def _joined(arith: Arithmetic, dots: bool, nothing: int) -> Callable:
    """(a, ea, b, eb, lda, ldb) -> sum of products and its e_max, with even and odd k apart."""
    kind = arith.accumulation
    product, exponent = _readers(dots)
    position = _position(())
    n, frac, step = kind.n_fma, kind.frac_bits, kind.interleave
    largest_even, largest_odd = (_largest(exponent, position, i, n, step) for i in (0, step - 1))
    sum_even, sum_odd = (_sum(product, position, i, n, step) for i in (0, step - 1))

    if step == 1:

        @jit
        def joined(a, ea, b, eb, lda, ldb):
            e = largest_even(ea, eb, lda, ldb)
            return sum_even(a, b, lda, ldb, power_of_two(frac - e)), e
    else:

        @jit
        def joined(a, ea, b, eb, lda, ldb):
            even, odd = largest_even(ea, eb, lda, ldb), largest_odd(ea, eb, lda, ldb)
            e = v.maximum(even, odd)
            # Zeros only: any scale will do, but not an infinite one (0 * Inf).
            scale_even = power_of_two(frac - v.maximum(even, nothing))
            scale_odd = power_of_two(frac - v.maximum(odd, nothing))
            total = shift_right(sum_even(a, b, lda, ldb, scale_even), e - even)
            return total + shift_right(sum_odd(a, b, lda, ldb, scale_odd), e - odd), e

    return joined


def _late(arith: Arithmetic, second: int, dots: bool) -> Callable:
    """(a, ea, b, eb, lda, ldb, c) -> results, and lanes in which they are wrong."""
    kind = arith.accumulation
    narrow = is_narrow(arith.a)
    nothing = NARROW_NOTHING if narrow else WIDE_NOTHING
    joined = _joined(arith, dots, nothing)
    frac = kind.frac_bits
    max_shift = -1 if kind.c.c_max_shift == UNLIMITED else kind.c.c_max_shift
    plus_zero = np.float32(0.0)

    @jit
    def late(a, ea, b, eb, lda, ldb, c):
        total, e = joined(a, ea, b, eb, lda, ldb)
        some = e >= nothing
        distance = exponent_field(v.bits_i32(c)) - 127 - e
        result = add_near(total, c, e, frac, max_shift)
        far = (distance > 5) & some
        if v.lane_bits(far) != 0:
            result = select(far, add_far(total, c, distance, second), result)
        result = select(some, result, c + plus_zero)  # a zero c of either sign gives +0
        if narrow:
            wrong = e != e
        else:
            wrong = ((e > HIGHEST) | (e < LOWEST)) & some
        return result, wrong

    return late


# --- early c (NVIDIA) ---------------------------------------------------------------------------


def _rounding_out(arith: Arithmetic, exact: bool) -> Callable:
    """(total, unit) -> total * unit rounded to the output format; ``exact``: fits 24 bits."""
    kind = arith.accumulation
    bits = arith.out.fraction_bits if kind.out_frac_bits == UNLIMITED else kind.out_frac_bits
    dropped = -1 << (23 - bits)
    if arith.out.name == "fp16":

        @jit
        def round_out(total, unit):
            return round_to_half((v.i_to_f32(total) if exact else odd_float(total)) * unit)
    elif kind.rounding is Rounding.RNE:

        @jit
        def round_out(total, unit):
            return v.i_to_f32(total) * unit
    elif exact:  # only the bits beyond out_frac_bits are to go

        @jit
        def round_out(total, unit):
            return v.bits_f32(v.bits_i32(v.i_to_f32(total) * unit) & dropped)
    else:

        @jit
        def round_out(total, unit):
            return with_sign(truncate_to_f32(total) * unit, total)

    return round_out


def _bounded_sum(arith: Arithmetic, dots: bool, first: int, bound: int) -> Callable:
    """(a, b, lda, ldb, scale) -> sum of a block's products, and lanes where int32 might overflow.

    ``bound`` is the largest |sum| of the block's products. Halves are summed apart where the whole
    could pass 2**32, so that no sum can wrap round unseen.
    """
    kind = arith.accumulation
    product, _ = _readers(dots)
    position = _position(kind.order)
    last = first + kind.n_fma
    room = (1 << 31) - (2 << kind.frac_bits)  # for c, which is below 2**(e_max + 1)
    if bound < 1 << 31:
        total = _sum(product, position, first, last, 1)
        always_fits = bound < room

        @jit
        def bounded(a, b, lda, ldb, scale):
            s = total(a, b, lda, ldb, scale)
            if always_fits:
                return s, (s != s)
            return s, (s > room) | (s < -room)
    else:
        middle = first + kind.n_fma // 2
        lower, upper = (
            _sum(product, position, i, j, 1) for i, j in ((first, middle), (middle, last))
        )
        half = room // 2

        @jit
        def bounded(a, b, lda, ldb, scale):
            s, t = lower(a, b, lda, ldb, scale), upper(a, b, lda, ldb, scale)
            return s + t, (s > half) | (s < -half) | (t > half) | (t < -half)

    return bounded


def _early(arith: Arithmetic, bound: int, dots: bool, first: int = 0) -> Callable:
    """(a, ea, b, eb, lda, ldb, c) -> results, and lanes in which they are wrong."""
    kind = arith.accumulation
    _, exponent = _readers(dots)
    frac = kind.frac_bits
    largest = _largest(exponent, _position(kind.order), first, first + kind.n_fma, 1)
    bounded = _bounded_sum(arith, dots, first, bound)
    round_out = _rounding_out(arith, bound + (2 << frac) <= 1 << 24)
    e_min = NO_LIMIT if kind.e_min == UNLIMITED else kind.e_min
    half = arith.out.name == "fp16"
    emin_out = arith.out.emin
    nothing = NARROW_NOTHING if is_narrow(arith.a) else WIDE_NOTHING
    zero = np.float32(0.0)

    @jit
    def early(a, ea, b, eb, lda, ldb, c):
        e_p = largest(ea, eb, lda, ldb)
        e_c = exponent_field(v.bits_i32(c)) - 127
        if half:  # subnormals of fp16 are normal float32; a zero must stay out of the way
            e_c = select(c != zero, v.maximum(e_c, emin_out), e_c)
        e = v.maximum(e_p, e_c)
        if e_min > LOWEST:
            e = v.maximum(e, e_min)
        low = (e < LOWEST) & ((c != zero) | (e_p > nothing))
        e_clamped = v.maximum(e, LOWEST)
        scale = power_of_two(frac - e_clamped)
        total, wrong = bounded(a, b, lda, ldb, scale)
        total = total + v.f_to_i32(c * scale)
        result = round_out(total, power_of_two(e_clamped - frac))
        return result, wrong | low | (e > HIGHEST)

    return early


# --- c last (fp8 through mma.sync) ----------------------------------------------------------------


def _run_from_zero(arith: Arithmetic, bound: int, dots: bool) -> Callable:
    """(a, ea, b, eb, lda, ldb, c) -> sum of one instruction's products without c, and wrong lanes."""
    kind = arith.accumulation
    n, products = kind.n_fma, kind.c.products
    zero = np.float32(0.0)
    start = _early(arith, bound, dots, 0)
    rest = tuple(_early(arith, bound, dots, first) for first in range(n, products, n))
    chain = start

    def extended(previous, following):
        @jit
        def both(a, ea, b, eb, lda, ldb, c):
            r, wrong = previous(a, ea, b, eb, lda, ldb, c)
            r, also_wrong = following(a, ea, b, eb, lda, ldb, r)
            return r, wrong | also_wrong

        return both

    for following in rest:
        chain = extended(chain, following)

    @jit
    def run(a, ea, b, eb, lda, ldb, c):
        return chain(a, ea, b, eb, lda, ldb, v.splat(zero))

    return run


def _finish(arith: Arithmetic) -> Callable:
    """(r, c) -> d: nothing to do, or the last addition of c (to nearest)."""
    half = arith.out.name == "fp16"
    zero = np.float32(0.0)
    if not isinstance(arith.accumulation.c, LastC):

        @jit
        def finish(r, c):
            return r
    else:

        @jit
        def finish(r, c):
            # float32 holds enough bits for two fp16 numbers: rounding their sum twice is harmless.
            d = (r + c) + zero
            return select(d == d, round_to_half(d), d) if half else d

    return finish


# --- lanes outside the vector code's range --------------------------------------------------------


@intrinsic
def _lane_buffer(typingctx):
    """Room for one float32 per lane on the stack."""
    pointer = types.CPointer(types.float32)

    def codegen(context, builder, sig, args):
        room = cgutils.alloca_once(builder, ir.ArrayType(ir.FloatType(), LANES))
        return builder.bitcast(room, ir.FloatType().as_pointer())

    return pointer(), codegen


def _scalar_run(kind: AlignedSum, p: tuple[int, ...]) -> Callable:
    """One result of one group in integers: (a, sa, b, sb, c) -> r."""
    last = isinstance(kind.c, LastC)
    group = kind.c.products if last else kind.n_fma
    n = kind.n_fma
    positions = np.array(kind.order or range(group), np.int64)
    zero = np.float32(0.0)

    @njit(error_model="numpy")
    def run(a, sa, b, sb, c):
        if not last:
            return scalar.block(a, sa, b, sb, positions, 0, c, p)
        r = zero
        for first in range(0, group, n):
            r = scalar.block(a, sa, b, sb, positions, first, r, p)
        return r

    return run


def _repair(arith: Arithmetic, dots: bool) -> Callable:
    """Function that recomputes the lanes ``wrong`` (a bit each) of the vector r."""
    scalar_run = _scalar_run(arith.accumulation, scalar.parameters(arith))

    @njit(error_model="numpy")
    def recompute(wrong, a, b, lda, ldb, c, r):
        for lane in range(LANES):
            if wrong >> lane & 1:
                if dots:
                    r[lane] = scalar_run(shifted(a, lane), lda, shifted(b, lane), ldb, c[lane])
                else:
                    r[lane] = scalar_run(a, 1, shifted(b, lane), ldb, c[lane])

    @jit
    def repair(wrong, a, b, lda, ldb, c, r):
        room = _lane_buffer()
        store(room, 0, r)
        recompute(wrong, a, b, lda, ldb, c, room)
        return load(room, 0)

    return repair


# --- the walk over a panel ------------------------------------------------------------------------


def block_function(arith: Arithmetic, second: int, dots: bool) -> Callable:
    """Block function of an aligned sum (see :mod:`mfmamodels.kernels.driver`).

    Parameters
    ----------
    arith : Arithmetic
        A record that :func:`mfmamodels.kernels.aligned.is_covered` accepts.
    second : int
        What survives of a product sum shifted under a late c (``aligned_lanes.far_sticky``).
    dots : bool
        Whether ``a`` has its own element in every lane.
    """
    kind = arith.accumulation
    late, last = isinstance(kind.c, LateC), isinstance(kind.c, LastC)
    group = kind.c.products if last else kind.n_fma
    bound = largest_sum(arith, kind.n_fma, kind.frac_bits)
    if late:
        sum_group = _late(arith, second, dots)
    else:
        sum_group = (_run_from_zero if last else _early)(arith, bound, dots)
    finish, repair = _finish(arith), _repair(arith, dots)
    exponent_kind = exponent_type(arith.a)

    def block(
        a_at, ea_at, lda, hot_a_at, b_at, eb_at, ldb, hot_b_at, acc_at, ldc, rows, lanes, groups
    ):
        a, ea = pointer_to(a_at, np.float32), pointer_to(ea_at, exponent_kind)
        b, eb = pointer_to(b_at, np.float32), pointer_to(eb_at, exponent_kind)
        hot_a, hot_b = pointer_to(hot_a_at, np.int8), pointer_to(hot_b_at, np.int8)
        acc = pointer_to(acc_at, np.float32)
        any_hot = _any(hot_a, lanes if dots else rows) | _any(hot_b, lanes)
        for g in range(groups):
            k = g * group
            for row in range(rows):
                for j in range(0, lanes, LANES):
                    at_a = k * lda + j if dots else row * lda + k
                    at_b = k * ldb + j
                    a_k, b_k = shifted(a, at_a), shifted(b, at_b)
                    c_at = shifted(acc, row * ldc + j)
                    c = load(c_at, 0)
                    r, out_of_range = sum_group(
                        a_k, shifted(ea, at_a), b_k, shifted(eb, at_b), lda, ldb, c
                    )
                    wrong = v.lane_bits(out_of_range)
                    if any_hot:
                        wrong |= v.lane_bits(load(hot_b, j) != 0)
                        if dots:
                            wrong |= v.lane_bits(load(hot_a, j) != 0)
                        elif hot_a[row] != 0:
                            wrong = -1
                    if wrong != 0:
                        r = repair(wrong, a_k, b_k, lda, ldb, c_at, r)
                    store(c_at, 0, finish(r, c))

    return block


@njit(error_model="numpy")
def _any(flags, count):
    for i in range(count):
        if flags[i] != 0:
            return True
    return False


def largest_sum(arith: Arithmetic, products: int, frac_bits: int) -> int:
    """Upper bound of |sum of that many aligned products| in units of the alignment."""
    a, b = arith.a.fraction_bits, arith.b.fraction_bits
    largest = ((2 << a) - 1) * ((2 << b) - 1)  # in units of 2**-(a + b)
    return products * ((largest << frac_bits) >> (a + b))
