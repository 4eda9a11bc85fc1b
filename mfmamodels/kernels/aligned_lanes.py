"""The aligned sums of :class:`~mfmamodels.accumulation.AlignedSum` on vectors of lanes.

How a block is computed (names as in the paper's Algorithms 1 and 2):

- The product of two values is exact in float32, scaling it by a power of two is exact, and the
  processor's conversion to integer truncates toward zero: that is the alignment. Sums are int32.
- The exponents of a block's products are compared as small integers beside the values.
- A late c (CDNA3) is aligned like the products when it is less than 2**6 times larger than they
  are (``near``); then everything is one integer and one conversion. Larger sums need the shifted
  product sum with a sticky bit (``far``), computed for all lanes when any lane needs it.
- An early c (NVIDIA) is aligned with the products.

Preconditions, which the callers in :mod:`mfmamodels.kernels.aligned` establish: e_max of a lane is
between :data:`LOWEST` and :data:`HIGHEST` (so that neither products that matter nor results leave
float32's normal range), or all products are zero. Other lanes hold rubbish and are recomputed.
"""

from __future__ import annotations

from mfmamodels.kernels.emit import Lanes, absolute, maximum, minimum, select

#: Range of the alignment exponent e_max in which vector results are right. Products then stay
#: below 2**122, results with a near c do not overflow, and an infinite c is never near.
LOWEST, HIGHEST = -100, 120
#: Below every exponent of a nonzero product of narrow formats.
NARROW_NOTHING = -40
#: The same for wide formats.
WIDE_NOTHING = -500

_ONE = 127 << 23
_SIGN = -1 << 31
_INFINITY = 0x7F800000


def power_of_two(exponent: Lanes) -> Lanes:
    """Give 2.0**exponent for exponents of normal float32 numbers."""
    return ((exponent << 23) + _ONE).bits("f32")


def exponent_field(x: Lanes) -> Lanes:
    """Biased exponent of float32 numbers."""
    return (x.bits("i32") >> 23) & 255


def shift_right(x: Lanes, count: Lanes) -> Lanes:
    """Give floor(x / 2**count) for counts from 0 up, however large."""
    return x >> minimum(count, 31)


def shift_right_truncated(x: Lanes, count: Lanes) -> Lanes:
    """Give x / 2**count rounded toward zero for counts from 0 up (|x| < 2**31)."""
    sign = x >> 31
    magnitude = (x ^ sign) - sign
    return (shift_right(magnitude, count) ^ sign) - sign


def add_near(
    total: Lanes, c: Lanes, e_max: Lanes, frac: int, max_shift: int | None, *, truncate: bool
) -> Lanes:
    """Late c on the products' grid: total + c / 2**(e_max - frac), and that sum rounded.

    Needs |c| < 2**(e_max + 6). The shifted c is rounded down, or toward zero to ``truncate``. If it
    is shifted by more than ``max_shift`` it becomes zero.
    """
    unit = power_of_two(e_max - frac)
    scaled = c * power_of_two(frac - e_max)
    shifted = scaled.to("i32")
    if not truncate:
        # Toward zero so far. Compared unscaled, since a tiny c may vanish when it is scaled.
        shifted = shifted - (shifted.to("f32") * unit > c).to("i32")
    if max_shift is not None:
        shifted = select(absolute(scaled) < 2.0 ** (frac - max_shift), 0, shifted)
    return (total + shifted).to("f32") * unit


# What the roundings down leave of the three bits below c's grid (see far_sticky).
KEEP_ALL, DROP_LAST, NORMALISE = 0, 1, 2


def far_sticky(upper: Lanes, low: Lanes, second: int) -> Lanes:
    """1 where any of the three bits ``low`` below ``upper`` survives the roundings down, else 0.

    ``upper`` has its unit at 2**(e_c - 29), so ``low`` reaches 2**(e_c - 32). A sum of exponent x
    keeps 31 fraction bits: all three bits for x = e_c - 1, two for x = e_c, one for x = e_c + 1.
    """
    if second == DROP_LAST:
        low = low >> 1
    elif second == NORMALISE:
        # For negative numbers x is that of the exact sum: -2**29 - 1 and a bit is above -2**29 - 1.
        magnitude = upper ^ (upper >> 31)
        low = low >> (magnitude >> 29)  # |upper| < 3 * 2**29
    return minimum(low, 1)


def add_far(total: Lanes, c: Lanes, distance: Lanes, second: int) -> Lanes:
    """Late c at least 2**6 times the products: c + total, rounded as the record says.

    ``distance`` is e_c - e_max > 5; c is normal. An infinite or NaN c is returned. Other lanes get
    shift counts out of range and hold rubbish.
    """
    field = exponent_field(c)
    significand = (c * ((127 + 127 + 29 - field) << 23).bits("f32")).to("i32")  # at 2**(e_c - 29)
    upper = significand + shift_right(total, distance - 5)
    below = distance - 8  # from -2 up
    right = maximum(below, 0)
    low = shift_right(total << (right - below), right) & 7  # what overflows is not looked at
    # A sticky bit at 2**(e_c - 29) is below the rounding bit: |upper| >= 2**25.
    exact_enough = upper | far_sticky(upper, low, second)
    result = exact_enough.to("f32") * ((field - 29) << 23).bits("f32")
    return select(field.equals(255), c, result)


def add_far_truncated(total: Lanes, c: Lanes, distance: Lanes) -> Lanes:
    """As :func:`add_far` with truncation for the roundings down, and ``NORMALISE``.

    The sum has the sign of c, and for a positive sum the second rounding is the same in either
    direction; so the sum is computed for |c|, and only the shifted product sum needs care.
    """
    sign = c.bits("i32") >> 31
    total = (total ^ sign) - sign
    # Rounded down, a negative sum that is not a multiple of 2**(distance - 8) is one too low there.
    below = maximum(distance - 8, 0)
    inexact = shift_right(total, below).differs(shift_right_truncated(total, below))
    room = minimum(below, 30)
    total = select(inexact, total + (total.constant(1) << room), total)
    magnitude = add_far(total, absolute(c), distance, NORMALISE)
    return (magnitude.bits("i32") | (sign & _SIGN)).bits("f32")


def truncate_to_f32(total: Lanes) -> Lanes:
    """|total| as float32, rounded toward zero (|total| < 2**31).

    Clearing the rounding bit makes the rest less than half a unit, so that the conversion to
    nearest cannot round up: the rounding bit is where the leading bit of ``|total| >> 24`` is.
    """
    sign = total >> 31
    magnitude = (total ^ sign) - sign
    rounding_bits = (magnitude.bits("u32") >> 24).bits("i32")
    return (magnitude & ~rounding_bits).to("f32")


def with_sign(magnitude: Lanes, total: Lanes) -> Lanes:
    """Give the float ``magnitude`` the sign of the integer ``total``."""
    return (magnitude.bits("i32") | (total & _SIGN)).bits("f32")


def odd_float(total: Lanes) -> Lanes:
    """``total`` as float32 with any lost bit kept as an odd last bit (|total| < 2**31)."""
    lost = (total & 127).differs(0).to("i32") << 7
    coarse = (total & -128) | lost
    large = (total + (1 << 24)) & (-1 << 25)  # zero where |total| < 2**24: nothing to lose
    return select(large.equals(0), total, coarse).to("f32")


def round_to_half(x: Lanes) -> Lanes:
    """float32 to the nearest value of fp16 (still as float32), ties to even, overflow to Inf."""
    bits = x.bits("i32")
    exponent = maximum(bits & _INFINITY, (127 - 14) << 23)
    magic = ((exponent + (13 << 23)) | 0x400000).bits("f32")  # its unit is x's unit in fp16
    rounded = absolute((x + magic) - magic).bits("i32")
    rounded = select(rounded >= (127 + 16) << 23, _INFINITY, rounded)
    return (rounded | (bits & _SIGN)).bits("f32")
