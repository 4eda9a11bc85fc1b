"""IEEE 754 operations with signed zeros, for the kinds that chain them."""

from __future__ import annotations

from mpmath import mpf

from mfmamodels.formats import Format, Rounding
from mfmamodels.reference.numbers import Number, mp, product, round_out, special_sum
from mfmamodels.reference.record import note


def round_number(x: mpf, fmt: Format, rounding: Rounding, negative_zero: bool) -> Number:
    """Round an exact result; the sign of a zero is that of x, or as given where x is zero."""
    if not mp.isfinite(x):
        return Number(x, 0, bool(x < 0))
    negative = bool(x < 0) or (not x and negative_zero)
    return Number(round_out(x, fmt, rounding), fmt.emin, negative)


def multiply(a: Number, b: Number, fmt: Format, rounding: Rounding) -> Number:
    """Rounded product."""
    note("multiply", ["a", "b"], [a.value, b.value])
    return round_number(product(a, b), fmt, rounding, a.negative != b.negative)


def add(x: Number, y: Number, fmt: Format, rounding: Rounding) -> Number:
    """Rounded sum. Zeros of one sign keep it; an exact cancellation is +0 (-0 rounding down)."""
    note("add", ["x", "y"], [x.value, y.value])
    special = special_sum([x.value, y.value])
    if special is not None:
        return round_number(special, fmt, rounding, False)
    both_zero_same_sign = x.is_zero and y.is_zero and x.negative == y.negative
    negative_zero = x.negative if both_zero_same_sign else rounding is Rounding.RD
    return round_number(x.value + y.value, fmt, rounding, negative_zero)


def fused_multiply_add(a: Number, b: Number, c: Number, fmt: Format, rounding: Rounding) -> Number:
    """``a*b + c`` with one rounding: the sum of the exact product and c."""
    note("multiply-add", ["a", "b"], [a.value, b.value])
    exact_product = Number(product(a, b), 0, a.negative != b.negative)
    return add(exact_product, c, fmt, rounding)
