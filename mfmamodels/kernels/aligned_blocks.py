"""Block functions of aligned sums: the walk over a panel, and one vector of lanes at a time.

Everything that depends on the record is decided here, when a block function is compiled. Names are
those of :mod:`mfmamodels.kernels.driver`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from mfmamodels.accumulation import UNLIMITED, Arithmetic, LastC, LateC, Rounding
from mfmamodels.kernels import emit
from mfmamodels.kernels.aligned_exact import exact_group
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
from mfmamodels.kernels.aligned_products import Products
from mfmamodels.kernels.emit import Lanes, maximum, select, when
from mfmamodels.kernels.lanes import LANES, pointer_to, shifted
from mfmamodels.kernels.operands import exponent_type, is_narrow

#: Writes a block: (products, place of the first, c) -> results, and lanes where they are wrong.
Block = Callable[[Products, int, Lanes], tuple[Lanes, Lanes]]


# --- late c (CDNA3) ---------------------------------------------------------------------------


def _joined(
    products: Products, n: int, interleave: int, frac: int, nothing: int
) -> tuple[Lanes, Lanes]:
    """Sum of a block's products in units of 2**(e_max - frac), and e_max."""
    if interleave == 1:
        e = products.largest_exponent((0, n, 1))
        return products.sum((0, n, 1), power_of_two(frac - e)), e
    parts = [(0, n, 2), (1, n, 2)]
    exponents = [products.largest_exponent(part) for part in parts]
    e = maximum(*exponents)
    joined = []
    for part, own in zip(parts, exponents, strict=True):
        # Only zeros: any scale will do, but not an infinite one, since 0 * Inf is NaN.
        total = products.sum(part, power_of_two(frac - maximum(own, nothing)))
        joined.append(shift_right(total, e - own))
    return joined[0] + joined[1], e


def _late(arith: Arithmetic, second: int) -> Block:
    kind = arith.accumulation
    narrow = is_narrow(arith.a)
    nothing = NARROW_NOTHING if narrow else WIDE_NOTHING
    max_shift = None if kind.c.c_max_shift == UNLIMITED else kind.c.c_max_shift

    def late(products: Products, first: int, c: Lanes) -> tuple[Lanes, Lanes]:
        total, e = _joined(products, kind.n_fma, kind.interleave, kind.frac_bits, nothing)
        some = e >= nothing
        distance = exponent_field(c) - 127 - e
        far = (distance > 5) & some
        near = add_near(total, c, e, kind.frac_bits, max_shift)
        result = when(
            far.lane_bits(), lambda: select(far, add_far(total, c, distance, second), near), near
        )
        result = select(some, result, c + 0.0)  # a zero c of either sign gives +0
        wrong = far.constant(False) if narrow else ((e > HIGHEST) | (e < LOWEST)) & some
        return result, wrong

    return late


# --- early c (NVIDIA) ---------------------------------------------------------------------------


def largest_sum(arith: Arithmetic, products: int, frac_bits: int) -> int:
    """Upper bound of |sum of that many aligned products| in units of the alignment."""
    a, b = arith.a.fraction_bits, arith.b.fraction_bits
    largest = ((2 << a) - 1) * ((2 << b) - 1)  # in units of 2**-(a + b)
    return products * ((largest << frac_bits) >> (a + b))


def _round_out(arith: Arithmetic, total: Lanes, unit: Lanes, exact: bool) -> Lanes:
    """Round total * unit to the output format; ``exact``: any total fits float32's 24 bits."""
    kind = arith.accumulation
    bits = arith.out.fraction_bits if kind.out_frac_bits == UNLIMITED else kind.out_frac_bits
    if arith.out.name == "fp16":
        return round_to_half((total.to("f32") if exact else odd_float(total)) * unit)
    if kind.rounding is Rounding.RNE:
        return total.to("f32") * unit
    if exact:  # only the bits beyond out_frac_bits are to go
        return ((total.to("f32") * unit).bits("i32") & -1 << (23 - bits)).bits("f32")
    return with_sign(truncate_to_f32(total) * unit, total)


def _bounded_sum(
    arith: Arithmetic, products: Products, first: int, scale: Lanes
) -> tuple[Lanes, Lanes]:
    """Sum of a block's products, and lanes where adding c might pass int32's range.

    Halves are summed apart where the whole could pass 2**31, so that no sum can wrap unseen.
    """
    kind = arith.accumulation
    n = kind.n_fma
    bound = largest_sum(arith, n, kind.frac_bits)
    room = (1 << 31) - (2 << kind.frac_bits)  # an aligned c is below 2**(frac_bits + 1)
    if bound < 1 << 31:
        total = products.sum((first, first + n, 1), scale)
        if bound < room:
            return total, (total > 0).constant(False)
        return total, (total > room) | (total < -room)
    middle = first + n // 2
    lower = products.sum((first, middle, 1), scale)
    upper = products.sum((middle, first + n, 1), scale)
    half = room // 2
    outside = (lower > half) | (lower < -half) | (upper > half) | (upper < -half)
    return lower + upper, outside


def _early(arith: Arithmetic) -> Block:
    kind = arith.accumulation
    frac, n = kind.frac_bits, kind.n_fma
    nothing = NARROW_NOTHING if is_narrow(arith.a) else WIDE_NOTHING
    exact = largest_sum(arith, n, frac) + (2 << frac) <= 1 << 24
    half = arith.out.name == "fp16"

    def early(products: Products, first: int, c: Lanes) -> tuple[Lanes, Lanes]:
        e_p = products.largest_exponent((first, first + n, 1))
        e_c = exponent_field(c) - 127
        if half:  # subnormals of fp16 are normal float32; a zero must stay out of the way
            e_c = select(c.differs(0.0), maximum(e_c, arith.out.emin), e_c)
        e = maximum(e_p, e_c)
        if kind.e_min != UNLIMITED and kind.e_min > LOWEST:
            e = maximum(e, kind.e_min)
        outside = (e > HIGHEST) | ((e < LOWEST) & (c.differs(0.0) | (e_p > nothing)))
        e = maximum(e, LOWEST)
        scale = power_of_two(frac - e)
        total, too_large = _bounded_sum(arith, products, first, scale)
        total = total + (c * scale).to("i32")
        result = _round_out(arith, total, power_of_two(e - frac), exact)
        # Outside lanes have no meaningful sum to look at.
        return result, select(outside, outside.constant(True), too_large)

    return early


# --- c last (fp8 through mma.sync) ----------------------------------------------------------------


def _without_c(arith: Arithmetic) -> Block:
    """Blocks of one instruction, each an early c of the next, starting from zero."""
    kind = arith.accumulation
    early = _early(arith)

    def run(products: Products, first: int, c: Lanes) -> tuple[Lanes, Lanes]:
        r, wrong = early(products, 0, c.constant(0.0))
        for start in range(kind.n_fma, kind.c.products, kind.n_fma):
            r, also_wrong = early(products, start, r)
            wrong = wrong | also_wrong
        return r, wrong

    return run


def _finish(arith: Arithmetic, r: Lanes, c: Lanes) -> Lanes:
    """Turn r into d: nothing to do, or the last addition of c (to nearest)."""
    if not isinstance(arith.accumulation.c, LastC):
        return r
    d = (r + c) + 0.0  # a zero sum is +0
    if arith.out.name == "fp32":
        return d
    # float32 holds enough bits for two fp16 numbers: rounding their sum twice is harmless.
    return select(d.differs(d), d, round_to_half(d))


# --- the walk over a panel ------------------------------------------------------------------------


def _vector_of_lanes(arith: Arithmetic, second: int, dots: bool):
    """Intrinsic that brings one vector of lanes forward by one group of products."""
    kind = arith.accumulation
    if isinstance(kind.c, LateC):
        write = _late(arith, second)
    else:
        write = (_without_c if isinstance(kind.c, LastC) else _early)(arith)
    exponent_kind = "i8" if is_narrow(arith.a) else "i16"

    @intrinsic
    def advance(typingctx, a, ea, b, eb, lda, ldb, sums, hot):
        def codegen(context, builder, sig, args):
            *pointers, sums_at, hot_lanes = args
            products = Products(builder, *pointers, dots, exponent_kind, kind.order)
            c = emit.load(builder, sums_at, ir.IntType(64)(0), "f32")
            r, wrong = write(products, 0, c)
            wrong_lanes = builder.or_(wrong.lane_bits(), hot_lanes)
            r = emit.when(wrong_lanes, lambda: exact_group(arith, products, c), r)
            emit.store(_finish(arith, r, c), sums_at, ir.IntType(64)(0))
            return context.get_dummy_value()

        return types.void(a, ea, b, eb, lda, ldb, sums, types.int64), codegen

    return advance


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
    group = kind.c.products if isinstance(kind.c, LastC) else kind.n_fma
    advance = _vector_of_lanes(arith, second, dots)
    exponent_kind = exponent_type(arith.a)

    def block(
        a_at, ea_at, lda, hot_a_at, b_at, eb_at, ldb, hot_b_at, acc_at, ldc, rows, lanes, groups
    ):
        a, ea = pointer_to(a_at, np.float32), pointer_to(ea_at, exponent_kind)
        b, eb = pointer_to(b_at, np.float32), pointer_to(eb_at, exponent_kind)
        hot_a, hot_b = pointer_to(hot_a_at, np.int8), pointer_to(hot_b_at, np.int8)
        acc = pointer_to(acc_at, np.float32)
        any_hot = any_flag(hot_a, lanes if dots else rows) or any_flag(hot_b, lanes)
        for g in range(groups):
            k = g * group
            for row in range(rows):
                for j in range(0, lanes, LANES):
                    at_a = k * lda + j if dots else row * lda + k
                    at_b = k * ldb + j
                    hot = 0
                    if any_hot:
                        hot = flag_bits(hot_b, j)
                        if dots:
                            hot |= flag_bits(hot_a, j)
                        elif hot_a[row] != 0:
                            hot = (1 << LANES) - 1
                    advance(
                        shifted(a, at_a),
                        shifted(ea, at_a),
                        shifted(b, at_b),
                        shifted(eb, at_b),
                        lda,
                        ldb,
                        shifted(acc, row * ldc + j),
                        hot,
                    )

    return block


_lean = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_lean
def any_flag(flags, count):
    """Whether any of the first flags is set."""
    found = 0
    for i in range(count):
        found |= flags[i]
    return found != 0


@_lean
def flag_bits(flags, start):
    """Flags of one vector of lanes, a bit each."""
    bits = 0
    for lane in range(LANES):
        bits |= (flags[start + lane] & 1) << lane
    return bits
