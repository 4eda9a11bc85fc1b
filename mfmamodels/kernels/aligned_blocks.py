"""Block functions of aligned sums: the walk over a panel, and one vector of lanes at a time.

Everything that depends on the record is decided here, when a block function is compiled. Names are
those of :mod:`mfmamodels.kernels.driver`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from mfmamodels.accumulation import UNLIMITED, EarlyC, LastC, LateC, Rounding
from mfmamodels.kernels import emit
from mfmamodels.kernels.aligned_exact import exact_group
from mfmamodels.kernels.aligned_lanes import (
    HIGHEST,
    LOWEST,
    NARROW_NOTHING,
    WIDE_NOTHING,
    add_far,
    add_far_truncated,
    add_near,
    exponent_field,
    odd_float,
    power_of_two,
    round_to_half,
    shift_right,
    shift_right_truncated,
    truncate_to_f32,
    with_sign,
)
from mfmamodels.kernels.aligned_products import Products, Range
from mfmamodels.kernels.aligned_recipe import CHECKED, EXACT, HALVED, Recipe
from mfmamodels.kernels.driver import MAX_LANES
from mfmamodels.kernels.emit import Lanes, maximum, select, when
from mfmamodels.kernels.lanes import LANES, pointer_to, shifted

#: Writes a group of products: (products, largest exponent of each part of the group, c) -> results,
#: and lanes where they are wrong.
Group = Callable[[Products, list[Lanes], Lanes], tuple[Lanes, Lanes]]


# --- late c (CDNA3) ---------------------------------------------------------------------------


def _joined(
    recipe: Recipe, products: Products, exponents: list[Lanes], nothing: int
) -> tuple[Lanes, Lanes]:
    """Sum of a block's products in units of 2**(e_max - frac), and e_max."""
    frac = recipe.frac_bits
    if recipe.interleave == 1:
        e = exponents[0]
        return products.sum(recipe.parts[0], power_of_two(frac - e)), e
    e = maximum(*exponents)
    shift = shift_right if recipe.join_rounding is Rounding.RD else shift_right_truncated
    joined = []
    for part, own in zip(recipe.parts, exponents, strict=True):
        # Only zeros: any scale will do, but not an infinite one, since 0 * Inf is NaN.
        total = products.sum(part, power_of_two(frac - maximum(own, nothing)))
        joined.append(shift(total, e - own))
    return joined[0] + joined[1], e


def _late(recipe: Recipe) -> Group:
    nothing = NARROW_NOTHING if recipe.narrow else WIDE_NOTHING
    max_shift = None if recipe.c.c_max_shift == UNLIMITED else recipe.c.c_max_shift
    truncate = recipe.c.rounding is Rounding.RTZ

    def add_distant(total: Lanes, c: Lanes, distance: Lanes) -> Lanes:
        if truncate:
            return add_far_truncated(total, c, distance)
        return add_far(total, c, distance, recipe.far)

    def late(products: Products, exponents: list[Lanes], c: Lanes) -> tuple[Lanes, Lanes]:
        total, e = _joined(recipe, products, exponents, nothing)
        some = e >= nothing
        distance = exponent_field(c) - 127 - e
        far = (distance > 5) & some
        near = add_near(total, c, e, recipe.frac_bits, max_shift, truncate=truncate)
        result = when(
            far.lane_bits(),
            lambda: select(far, add_distant(total, c, distance), near),
            near,
        )
        result = select(some, result, c + 0.0)  # a zero c of either sign gives +0
        wrong = far.constant(False) if recipe.narrow else ((e > HIGHEST) | (e < LOWEST)) & some
        return result, wrong

    return late


# --- early c (NVIDIA) ---------------------------------------------------------------------------


def _round_out(recipe: Recipe, total: Lanes, unit: Lanes) -> Lanes:
    """Round total * unit to the output format."""
    if recipe.half:
        return round_to_half((total.to("f32") if recipe.sums == EXACT else odd_float(total)) * unit)
    if recipe.rounding is Rounding.RNE:
        return total.to("f32") * unit
    if recipe.sums == EXACT:  # only the bits beyond out_bits are to go
        dropped = 23 - recipe.out_bits
        return ((total.to("f32") * unit).bits("i32") & -1 << dropped).bits("f32")
    return with_sign(truncate_to_f32(total) * unit, total)


def _bounded_sum(
    recipe: Recipe, products: Products, part: Range, scale: Lanes
) -> tuple[Lanes, Lanes]:
    """Sum of a block's products, and lanes where adding c might pass int32's range.

    Halves are summed apart where the whole could pass 2**31, so that no sum can wrap unseen.
    """
    first, last, _ = part
    room = (1 << 31) - (2 << recipe.frac_bits)  # an aligned c is below 2**(frac_bits + 1)
    if recipe.sums != HALVED:
        total = products.sum(part, scale)
        if recipe.sums != CHECKED:
            return total, (total > 0).constant(False)
        return total, (total > room) | (total < -room)
    middle, half = (first + last) // 2, room // 2
    lower = products.sum((first, middle, 1), scale)
    upper = products.sum((middle, last, 1), scale)
    outside = (lower > half) | (lower < -half) | (upper > half) | (upper < -half)
    return lower + upper, outside


def _early_block(
    recipe: Recipe, products: Products, part: Range, e_p: Lanes, c: Lanes
) -> tuple[Lanes, Lanes]:
    """One block, whose products are ``part`` with largest exponent ``e_p``, and lanes it fails."""
    frac = recipe.frac_bits
    nothing = NARROW_NOTHING if recipe.narrow else WIDE_NOTHING
    e_c = exponent_field(c) - 127
    if recipe.half:  # subnormals of fp16 are normal float32; a zero must stay out of the way
        e_c = select(c.differs(0.0), maximum(e_c, recipe.out_emin), e_c)
    e = maximum(e_p, e_c)
    if recipe.e_min is not None and recipe.e_min > LOWEST:
        e = maximum(e, recipe.e_min)
    outside = (e > HIGHEST) | ((e < LOWEST) & (c.differs(0.0) | (e_p > nothing)))
    e = maximum(e, LOWEST)
    scale = power_of_two(frac - e)
    total, too_large = _bounded_sum(recipe, products, part, scale)
    total = total + (c * scale).to("i32")
    result = _round_out(recipe, total, power_of_two(e - frac))
    # Lanes outside have no meaningful sum to look at.
    return result, select(outside, outside.constant(True), too_large)


def _early(recipe: Recipe) -> Group:
    def early(products: Products, exponents: list[Lanes], c: Lanes) -> tuple[Lanes, Lanes]:
        return _early_block(recipe, products, recipe.parts[0], exponents[0], c)

    return early


# --- c last (fp8 through mma.sync) ----------------------------------------------------------------


def _without_c(recipe: Recipe) -> Group:
    """Blocks of one instruction, each an early c of the next, starting from zero."""

    def run(products: Products, exponents: list[Lanes], c: Lanes) -> tuple[Lanes, Lanes]:
        r, wrong = c.constant(0.0), c.differs(c).constant(False)
        for part, e_p in zip(recipe.parts, exponents, strict=True):
            r, also_wrong = _early_block(recipe, products, part, e_p, r)
            wrong = wrong | also_wrong
        return r, wrong

    return run


def _finish(recipe: Recipe, r: Lanes, c: Lanes) -> Lanes:
    """Turn r into d: nothing to do, or the last addition of c (to nearest)."""
    if not isinstance(recipe.c, LastC):
        return r
    d = (r + c) + 0.0  # a zero sum is +0
    if not recipe.half:
        return d
    # float32 holds enough bits for two fp16 numbers: rounding their sum twice is harmless.
    return select(d.differs(d), d, round_to_half(d))


# --- the walk over a panel ------------------------------------------------------------------------


#: Lanes of which exponents are compared at once: a whole register of them.
_SURVEY_LANES = 32


def _survey(recipe: Recipe, dots: bool):
    """Intrinsic that finds the largest exponents of a group's parts in several vectors of lanes.

    Comparing exponents for a whole row first keeps this chain of operations out of the other one.
    """
    kind = "i8" if recipe.narrow else "i16"

    @intrinsic
    def survey(typingctx, ea, eb, lda, ldb, largest):
        def codegen(context, builder, sig, args):
            ea_at, eb_at, lda_, ldb_, target = args
            products = Products(
                builder, None, ea_at, None, eb_at, lda_, ldb_, dots, kind, recipe.order
            )
            for i, part in enumerate(recipe.parts):
                e = products.largest_exponent(part, _SURVEY_LANES)
                if recipe.narrow:  # zeros only: below any c
                    e = select(e > NARROW_NOTHING, e, -128)
                emit.store(e, target, ir.IntType(64)(i * _ROOM))
            return context.get_dummy_value()

        return types.void(ea, eb, lda, ldb, largest), codegen

    return survey


def _advance(recipe: Recipe, dots: bool, exact_only: bool):
    """Intrinsic that brings one vector of lanes forward by one group of products."""
    write = {LateC: _late, LastC: _without_c, EarlyC: _early}[type(recipe.c)](recipe)
    kind = "i8" if recipe.narrow else "i16"

    @intrinsic
    def advance(typingctx, a, ea, b, eb, lda, ldb, largest, sums, hot):
        def codegen(context, builder, sig, args):
            *pointers, largest_at, sums_at, hot_lanes = args
            products = Products(builder, *pointers, dots, kind, recipe.order)
            exponents = [
                emit.load(builder, largest_at, ir.IntType(64)(i * _ROOM), kind).to("i32")
                for i in range(len(recipe.parts))
            ]
            c = emit.load(builder, sums_at, ir.IntType(64)(0), "f32")
            r, wrong = write(products, exponents, c)
            wrong_lanes = builder.or_(wrong.lane_bits(), hot_lanes)
            if exact_only:
                wrong_lanes = ir.IntType(64)(-1)
            r = emit.when(wrong_lanes, lambda: exact_group(recipe, products, c), r)
            emit.store(_finish(recipe, r, c), sums_at, ir.IntType(64)(0))
            return context.get_dummy_value()

        return types.void(a, ea, b, eb, lda, ldb, largest, sums, types.int64), codegen

    return advance


#: Lanes of a row at most, and what a survey may write beyond them.
_ROOM = MAX_LANES + _SURVEY_LANES


def _stack(element: types.Type, count: int):
    """Intrinsic that gives a pointer to ``count`` elements on the stack."""

    @intrinsic
    def stack(typingctx):
        def codegen(context, builder, sig, args):
            array = ir.ArrayType(context.get_value_type(element), count)
            room = cgutils.alloca_once(builder, array)
            return builder.bitcast(room, array.element.as_pointer())

        return types.CPointer(element)(), codegen

    return stack


def block_function(recipe: Recipe, dots: bool, *, exact_only: bool = False) -> Callable:
    """Block function of an aligned sum (see :mod:`mfmamodels.kernels.driver`).

    ``dots`` says whether ``a`` has its own element in every lane. With ``exact_only`` every vector
    is computed as those outside the fast code's range are: to test that code on all data.
    """
    group = recipe.group
    survey, advance = _survey(recipe, dots), _advance(recipe, dots, exact_only)
    exponent_kind = np.int8 if recipe.narrow else np.int16
    stack = _stack(types.int8 if recipe.narrow else types.int16, len(recipe.parts) * _ROOM)

    def block(
        a_at, ea_at, lda, hot_a_at, b_at, eb_at, ldb, hot_b_at, acc_at, ldc, rows, lanes, groups
    ):
        a, ea = pointer_to(a_at, np.float32), pointer_to(ea_at, exponent_kind)
        b, eb = pointer_to(b_at, np.float32), pointer_to(eb_at, exponent_kind)
        hot_a, hot_b = pointer_to(hot_a_at, np.int8), pointer_to(hot_b_at, np.int8)
        acc, largest = pointer_to(acc_at, np.float32), stack()
        any_hot = any_flag(hot_a, lanes if dots else rows) or any_flag(hot_b, lanes)
        at_once = max(1, MAX_LANES // lanes)  # rows whose exponents are compared ahead
        step = int(dots)
        for g in range(groups):
            at_b = g * group * ldb
            for first in range(0, rows, at_once):
                last = min(first + at_once, rows)
                for row in range(first, last):
                    at_a = g * group * lda if dots else row * lda + g * group
                    for j in range(0, lanes, _SURVEY_LANES):
                        survey(
                            shifted(ea, at_a + j * step),
                            shifted(eb, at_b + j),
                            lda,
                            ldb,
                            shifted(largest, (row - first) * lanes + j),
                        )
                for row in range(first, last):
                    at_a = g * group * lda if dots else row * lda + g * group
                    for j in range(0, lanes, LANES):
                        hot = 0
                        if any_hot:
                            hot = flag_bits(hot_b, j)
                            if dots:
                                hot |= flag_bits(hot_a, j)
                            elif hot_a[row] != 0:
                                hot = (1 << LANES) - 1
                        advance(
                            shifted(a, at_a + j * step),
                            shifted(ea, at_a + j * step),
                            shifted(b, at_b + j),
                            shifted(eb, at_b + j),
                            lda,
                            ldb,
                            shifted(largest, (row - first) * lanes + j),
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
