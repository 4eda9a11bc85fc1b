"""Exact sums on vectors of lanes: rounding to odd, and the test for when float64 needs none of it.

Everything here writes code (:mod:`mfmamodels.kernels.emit`) and is used by
:mod:`mfmamodels.kernels.exact` as functions of pointers.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mfmamodels.formats import Format
from mfmamodels.kernels import emit
from mfmamodels.kernels.emit import Lanes, full, maximum, minimum, select, when
from mfmamodels.kernels.lanes import LANES
from mfmamodels.kernels.operands import NARROW_ZERO, WIDE_ZERO, is_narrow
from mfmamodels.kernels.tiles import spread

#: Stands for the smallest exponent where all values are zeros. Larger ones are taken for it, too:
#: understating a smallest exponent only costs time.
NOTHING = 100
_START = ir.IntType(64)(0)
#: Between its neighbours in float64 lies 2**-16, the place where products are split.
_SPLIT = 1.5 * 2.0**36


# --- sums rounded to odd ----------------------------------------------------------------------


def _two_sum(x: Lanes, y: Lanes) -> tuple[Lanes, Lanes]:
    """Sum and its rounding error, exact together (Knuth)."""
    s = x + y
    z = s - x
    return s, (x - (s - z)) + (y - z)


def _odd_sum(x: Lanes, y: Lanes) -> Lanes:
    """Sum rounded to odd: a sum that is not exact gets an odd significand."""
    s, error = _two_sum(x, y)
    bits = s.bits("i64")
    toward = (bits ^ error.bits("i64")) >> 63 | 1  # -1 where the error's sign is the other one
    inexact_and_even = error.differs(0.0) & (bits & 1).equals(0)
    return (bits + select(inexact_and_even, toward, 0)).bits("f64")


def _rounded_sum(x: Lanes, y: Lanes, z: Lanes, plain: Lanes) -> Lanes:
    """Exact x + y + z, rounded once to float32; an exact zero gives +0.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Trans. Comput. 57(4).
    ``plain`` is a sum of the same terms in which Inf and NaN stand as in IEEE 754: the result where
    it is not finite, as the terms' errors then are NaN. Finite terms cannot overflow float64.
    """
    high, low = _two_sum(y, z)
    top, rest = _two_sum(x, high)
    odd = _odd_sum(top, _odd_sum(rest, low))
    finite = (plain - plain).equals(0.0)
    return (select(finite, odd, plain) + 0.0).to("f32")


def wide_sum(products: list[Lanes], d: Lanes, narrow: bool) -> Lanes:
    """Exact sum of products (float64) and d (float32), rounded once to float32.

    Up to 16 products of narrow formats, which lie between 2**-48 and 2**32, or up to two others.
    Mostly float64 adds them without error, as the errors themselves then say.
    """
    c = d.to("f64")
    total, any_error = products[0], products[0].bits("i64") & 0
    for x in [*products[1:], c]:
        total, error = _two_sum(total, x)
        any_error = any_error | error.bits("i64")
    inexact = (any_error << 1).differs(0)  # NaN among them where a term is not finite
    plain = (total + 0.0).to("f32")  # an exact zero gives +0
    return when(inexact.lane_bits(), lambda: _odd_sums(products, c, narrow), plain)


def _odd_sums(products: list[Lanes], c: Lanes, narrow: bool) -> Lanes:
    """Do the same where float64 would lose bits."""
    if not narrow:
        x, y = products if len(products) == 2 else (products[0], c.constant(0.0))
        return _rounded_sum(x, y, c, x + y + c)
    upper = [(x + _SPLIT) - _SPLIT for x in products]
    high, low = upper[0], products[0] - upper[0]
    for x, u in zip(products[1:], upper[1:], strict=True):
        high, low = high + u, low + (x - u)
    return _rounded_sum(high, low, c, high + c)


def wide_step(n: int, narrow: bool, dots: bool) -> Callable:
    """Make ``step(a, lda, b, ldb, sums)``: add one group to a vector of float32 sums in memory.

    Product k is that of ``b[k*ldb ...]`` with ``a[k]``, in float64, or in dots with
    ``a[k*lda ...]``, both in float32.
    """

    @intrinsic
    def step(typingctx, a, lda, b, ldb, sums):
        def codegen(context, builder, sig, args):
            pointer_a, lda, pointer_b, ldb, pointer_d = args
            products = []
            for k in range(n):
                at = builder.mul(ldb, ldb.type(k))
                if dots:
                    x = emit.load(builder, pointer_a, builder.mul(lda, lda.type(k)), "f32")
                    y = emit.load(builder, pointer_b, at, "f32")
                    # Products of narrow formats are float32 numbers.
                    products.append((x * y).to("f64") if narrow else x.to("f64") * y.to("f64"))
                else:
                    x = emit.broadcast(builder, pointer_a, ldb.type(k), "f64")
                    products.append(emit.load(builder, pointer_b, at, "f64") * x)
            d = emit.load(builder, pointer_d, _START, "f32")
            emit.store(wide_sum(products, d, narrow), pointer_d, _START)
            return context.get_dummy_value()

        return types.void(a, types.intp, b, types.intp, sums), codegen

    return step


# --- when float64 adds without error ----------------------------------------------------------


def _exponent_kind(fmt: Format) -> str:
    return "i8" if is_narrow(fmt) else "i16"


@intrinsic
def clear(typingctx, least, squares):
    """Smallest exponents and sums of squares of nothing."""

    def codegen(context, builder, sig, args):
        emit.store(full(builder, NOTHING, "i32"), args[0], _START)
        emit.store(full(builder, 0.0, "f64"), args[1], _START)
        return context.get_dummy_value()

    return types.void(least, squares), codegen


def survey(fmt: Format) -> Callable:
    """Make ``look(values, exponents, wide, least, squares)`` for one vector of a panel.

    Values go to ``wide`` in float64; their exponents and squares are folded into the smallest
    exponents (int32) and the sums of squares (float64) that stand in memory.
    """
    kind, zero = _exponent_kind(fmt), NARROW_ZERO if is_narrow(fmt) else WIDE_ZERO

    @intrinsic
    def look(typingctx, values, exponents, wide, least, squares):
        def codegen(context, builder, sig, args):
            values, exponents, wide, least, squares = args
            e = emit.load(builder, exponents, _START, kind).to("i32")
            e = select(e.equals(zero), NOTHING, e)
            emit.store(minimum(emit.load(builder, least, _START, "i32"), e), least, _START)
            x = emit.load(builder, values, _START, "f32").to("f64")
            emit.store(x, wide, _START)
            total = emit.load(builder, squares, _START, "f64") + x * x
            emit.store(total, squares, _START)
            return context.get_dummy_value()

        return types.void(values, exponents, wide, least, squares), codegen

    return look


def survey_pairs(a: Format, b: Format) -> Callable:
    """Make ``look(ea, eb, least)``: fold exponents of one row's products into the smallest."""
    same = is_narrow(a) == is_narrow(b)
    kind = _exponent_kind(a) if same else "i16"
    # With a zero the exponent lies below that of any other product (or, for formats of different
    # kinds, may be taken for one: then the exact sum is only found in another way).
    lowest = a.emin + b.emin

    @intrinsic
    def look(typingctx, ea, eb, least):
        def codegen(context, builder, sig, args):
            ea, eb, least = args
            x = emit.broadcast(builder, ea, _START, _exponent_kind(a)).to(kind)
            e = emit.load(builder, eb, _START, _exponent_kind(b)).to(kind) + x
            e = select(e < lowest, NOTHING, e)
            emit.store(minimum(emit.load(builder, least, _START, kind), e), least, _START)
            return context.get_dummy_value()

        return types.void(ea, eb, least), codegen

    return look


@intrinsic
def conclude(typingctx, least, squares, norms):
    """Smallest exponents (0 where all are zeros), in place; exponents of the sums of squares."""

    def codegen(context, builder, sig, args):
        least, squares, norms = args
        e = emit.load(builder, least, _START, "i32")
        emit.store(select(e >= NOTHING, 0, e), least, _START)
        bits = emit.load(builder, squares, _START, "f64").bits("i64")
        emit.store((bits >> 52).to("i32") - 1023, norms, _START)  # -1023 for 0
        return context.get_dummy_value()

    return types.void(least, squares, norms), codegen


def fits(fraction_bits: int) -> Callable:
    """Make ``test(lows, low, norms, norm, c) -> lanes`` where float64 adds without error.

    Arguments are smallest exponents (of columns in memory, of a row), exponents of squared norms
    likewise, and the sums so far. The result has a bit for each lane.

    There has to be a unit 2**u of which all products, c and so every sum are multiples, such that
    no sum reaches 2**(u + 53). u is chosen as small as norms and c allow.
    """

    @intrinsic
    def test(typingctx, lows, low, norms, norm, c):
        def codegen(context, builder, sig, args):
            lows, low, norms, norm, c = args
            low = emit.load(builder, lows, _START, "i32") + _lanes_of(builder, low)
            norm = emit.load(builder, norms, _START, "i32") + _lanes_of(builder, norm)
            ok = _multiples(low - fraction_bits, norm, emit.load(builder, c, _START, "f32"))
            return ok.lane_bits()

        return types.int64(lows, types.int32, norms, types.int32, c), codegen

    return test


def _lanes_of(builder: ir.IRBuilder, x: ir.Value) -> Lanes:
    return Lanes(builder, spread(builder, x, LANES), "i32")


def _multiples(lowest: Lanes, norm: Lanes, c: Lanes) -> Lanes:
    """Mask of lanes that have such a unit; products are multiples of 2**lowest."""
    magnitude = c.bits("i32") & 0x7FFFFFFF
    field = magnitude >> 23
    e = maximum(field, 1) - 127
    # By Cauchy and Schwarz all products together, with any signs, stay below 2**(u + 51): a squared
    # norm is below 2**(its exponent + 1), and one bit is for its rounding errors. So does c.
    # Multiples of float32's smallest number: no sum is rounded to a zero with a sign.
    unit = maximum(maximum((norm - 98) >> 1, e - 50), -149)
    significand = magnitude & 0x7FFFFF
    significand = select(field > 0, significand | 0x800000, significand)
    dropped = minimum(maximum(unit - (e - 23), 0), 24)
    multiple = (significand & ((full(c.builder, 1, "i32") << dropped) - 1)).equals(0)
    return multiple & (unit <= lowest) & (field < 255)
