"""One block of an aligned sum over the whole range of exponents, in float64.

The code of :mod:`mfmamodels.kernels.aligned_lanes` is right inside a range of exponents. Vectors of
lanes with an Inf or NaN, a product beyond the format or a result among the subnormals come here.
float64 holds every product and every intermediate sum exactly, far from its own limits, so that
each line is one step of the definition; the price is several times the fast code's time.

Covers the records that :mod:`mfmamodels.kernels.aligned_recipe` accepts.
"""

from __future__ import annotations

import math
from dataclasses import replace

from llvmlite import ir

from mfmamodels.accumulation import UNLIMITED, LastC, LateC, Rounding, SecondRounding
from mfmamodels.kernels.aligned_products import Products
from mfmamodels.kernels.aligned_recipe import Recipe
from mfmamodels.kernels.emit import (
    Lanes,
    absolute,
    floor,
    full,
    maximum,
    nearest,
    select,
    truncate,
)

#: Exponent of what takes no part: below all others, and 2.0**-NOTHING is still a float64.
NOTHING = -600

_SIGN = -1 << 63
#: To whole numbers, where a record may have either direction.
_WHOLE = {Rounding.RD: floor, Rounding.RTZ: truncate}
_OPERANDS = ("a", "ea", "b", "eb", "lda", "ldb")


def _power_of_two(exponent: Lanes) -> Lanes:
    """Give 2.0**exponent as float64, for exponents of its normal numbers."""
    return ((exponent + 1023).to("i64") << 52).bits("f64")


def _exponent(x: Lanes) -> Lanes:
    """Exponent of the leading bit of normal float64 numbers (-1023 for zero), as int32."""
    return ((x.bits("i64") >> 52) & 0x7FF).to("i32") - 1023


def _product_exponent(products: Products, index: ir.Value, p: Lanes) -> Lanes:
    return select(p.equals(0.0), NOTHING, products.exponent(index).to("i32"))


def _limited(recipe: Recipe, p: Lanes) -> Lanes:
    """The product, infinite where the record limits it."""
    if recipe.limit is None:
        return p
    infinity = (p.bits("i64") & _SIGN | 0x7FF << 52).bits("f64")
    return select(absolute(p) >= 2.0**recipe.limit, infinity, p)


def _survey(
    recipe: Recipe, products: Products, places: tuple[int, int, int], c: Lanes
) -> tuple[Lanes, Lanes]:
    """Largest product exponent, and the sum of c and all products as far as it shows specials.

    Infinities and NaN go through an IEEE addition as through a block: finite values do not matter
    to them, so each is taken as zero.
    """

    def step(index, e, special):
        p = products.value(index, "f64")
        e = maximum(e, _product_exponent(products, index, p))
        limited = _limited(recipe, p)
        # x - x is zero for a finite x; an Inf or NaN keeps itself.
        return e, special + select((limited - limited).equals(0.0), 0.0, limited)

    nothing = full(products.builder, NOTHING, "i32")
    start = select((c - c).equals(0.0), 0.0, c)
    return products.fold(places, (nothing, start), step)


def _sum(products: Products, places: tuple[int, int, int], scale: Lanes) -> Lanes:
    """Sum of products times scale, each truncated."""

    def step(index, total):
        return (total + truncate(products.value(index, "f64") * scale),)

    return products.fold(places, (scale.constant(0.0),), step)[0]


def _round_out(recipe: Recipe, total: Lanes, quantum: Lanes) -> Lanes:
    """Round total * 2**quantum to the output format; a zero total gives +0."""
    total = total + 0.0  # -0 becomes +0
    target = maximum(_exponent(total) + quantum, recipe.out_emin) - recipe.out_bits
    target = maximum(target, quantum)  # nothing to round where the sum's own unit is larger
    steps = absolute(total) * _power_of_two(quantum - target)
    rounded = (nearest if recipe.rounding is Rounding.RNE else truncate)(steps)
    value = rounded * _power_of_two(target)
    value = select(value >= 2.0 ** (recipe.out_emax + 1), math.inf, value)
    return (value.bits("i64") | (total.bits("i64") & _SIGN)).bits("f64")


def _second_rounding(
    recipe: Recipe, total: Lanes, quantum: Lanes, e_c: Lanes
) -> tuple[Lanes, Lanes]:
    """Round once more, to a number of fraction bits below some exponent."""
    c = recipe.c
    if c.second is SecondRounding.NONE:
        return total, quantum
    if c.second is SecondRounding.BLIND:
        exponent = e_c
    else:
        exponent = _exponent(total) + quantum
        if c.second is SecondRounding.SUBNORMAL_AWARE:
            exponent = maximum(exponent, recipe.out_emin)
    target = maximum(exponent - c.second_frac_bits, quantum)
    return _WHOLE[c.rounding](total * _power_of_two(quantum - target)), target


def _late(recipe: Recipe, total: Lanes, e: Lanes, c: Lanes, e_c: Lanes) -> Lanes:
    """Late c, added to ``total`` in units of 2**(e - frac_bits)."""
    frac, late = recipe.frac_bits, recipe.c
    zero_exponent = NOTHING if late.zero_exponent == UNLIMITED else late.zero_exponent
    e_c = select(c.equals(0.0), max(zero_exponent, NOTHING), e_c)
    whole = _WHOLE[late.rounding]
    shifted = whole(c * _power_of_two(frac - e))
    if late.c_max_shift != UNLIMITED:
        shifted = select(e - e_c > late.c_max_shift, 0.0, shifted)
    near = _round_out(recipe, total + shifted, e - frac)
    quantum = e_c - late.sum_frac_bits
    far = whole(total * _power_of_two(e - frac - quantum)) + c * _power_of_two(0 - quantum)
    far = _round_out(recipe, *_second_rounding(recipe, far, quantum, e_c))
    only_c = _round_out(recipe, c * _power_of_two(0 - quantum), quantum)
    return select(e.equals(NOTHING), only_c, select(e >= e_c, near, far))


def exact_block(recipe: Recipe, products: Products, first: int, c: Lanes) -> Lanes:
    """Write one block, whose products start at place ``first``; c and the result are float32."""
    frac, n = recipe.frac_bits, recipe.n_fma
    c = c.to("f64")
    e_c = maximum(_exponent(c), recipe.out_emin)
    parts = [(first + i, first + n, recipe.interleave) for i in range(recipe.interleave)]
    surveys = [_survey(recipe, products, part, c) for part in parts]
    special = surveys[0][1] if len(surveys) == 1 else surveys[0][1] + surveys[1][1]
    e = surveys[0][0] if len(surveys) == 1 else maximum(surveys[0][0], surveys[1][0])
    if isinstance(recipe.c, LateC):
        total = c.constant(0.0)
        for part, (own, _) in zip(parts, surveys, strict=True):
            aligned = _sum(products, part, _power_of_two(frac - own))
            total = total + _WHOLE[recipe.join_rounding](aligned * _power_of_two(own - e))
        result = _late(recipe, total, e, c, e_c)
    else:
        e = maximum(e, select(c.equals(0.0), NOTHING, e_c))
        if recipe.e_min is not None:
            e = maximum(e, recipe.e_min)
        scale = _power_of_two(frac - e)
        total = _sum(products, parts[0], scale) + truncate(c * scale)
        result = _round_out(recipe, total, e - frac)
    return select(special.equals(0.0), result, special).to("f32")


def exact_group(recipe: Recipe, products: Products, c: Lanes) -> Lanes:
    """Write a call of a function that computes one group: all its blocks, without a last c.

    A function of its own keeps this code's registers and loads out of the fast code.
    """
    builder = products.builder
    arguments = [*(getattr(products, name) for name in _OPERANDS), c.value]
    function_type = ir.FunctionType(c.value.type, [x.type for x in arguments])
    function = ir.Function(builder.module, function_type, "exact_group")
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("cold")
    inside = ir.IRBuilder(function.append_basic_block())
    *operands, c_inside = function.args
    products = replace(products, builder=inside, **dict(zip(_OPERANDS, operands, strict=True)))
    inside.ret(_blocks(recipe, products, Lanes(inside, c_inside, c.kind)).value)
    return c.like(builder.call(function, arguments))


def _blocks(recipe: Recipe, products: Products, c: Lanes) -> Lanes:
    if not isinstance(recipe.c, LastC):
        return exact_block(recipe, products, 0, c)
    r = c.constant(0.0)
    for first in range(0, recipe.group, recipe.n_fma):
        r = exact_block(recipe, products, first, r)
    return r
