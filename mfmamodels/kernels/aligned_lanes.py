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

import numpy as np
from numba import njit

from mfmamodels.kernels import lanes as v
from mfmamodels.kernels.lanes import select

#: Range of the alignment exponent e_max in which vector results are right. Products then stay
#: below 2**122, results with a near c do not overflow, and an infinite c is never near.
LOWEST, HIGHEST = -100, 120
#: Below every exponent of a nonzero product of narrow formats.
NARROW_NOTHING = -40
#: The same for wide formats.
WIDE_NOTHING = -500

jit = njit(error_model="numpy", forceinline=True)

_ONE = 127 << 23
_SIGN = -1 << 31


@jit
def power_of_two(exponent):
    """2.0**exponent for exponents of normal float32 numbers."""
    return v.bits_f32((exponent << 23) + _ONE)


@jit
def exponent_field(bits):
    """Biased exponent of float32 bits."""
    return (bits >> 23) & 255


@jit
def shift_right(x, count):
    """floor(x / 2**count) for counts from 0 up, however large."""
    return x >> v.minimum(count, 31)


@jit
def add_near(total, c, e_max, frac, max_shift):
    """Late c on the products' grid: total + floor(c / 2**(e_max - frac)), and that sum rounded.

    |c| < 2**(e_max + 6). ``max_shift``: a c shifted by more becomes zero (negative: no limit).
    """
    unit = power_of_two(e_max - frac)
    scaled = c * power_of_two(frac - e_max)
    shifted = v.f_to_i32(scaled)
    # Toward zero so far. Compared unscaled, since a tiny c may vanish when it is scaled.
    shifted = shifted - v.to_i32(v.i_to_f32(shifted) * unit > c)
    if max_shift >= 0:
        threshold = np.float32(2.0 ** (frac - max_shift))
        shifted = select(v.absolute(scaled) < threshold, v.splat(np.int32(0)), shifted)
    return v.i_to_f32(total + shifted) * unit


# What the second rounding leaves of the three bits below c's grid (see far_sticky).
KEEP_ALL, DROP_LAST, NORMALISE = 0, 1, 2


@jit
def far_sticky(upper, low, second):
    """Whether any of the three bits ``low`` below ``upper`` survives the roundings down.

    ``upper`` has its unit at 2**(e_c - 29), so ``low`` reaches 2**(e_c - 32). A sum of exponent x
    keeps 31 fraction bits: all three bits for x = e_c - 1, two for x = e_c, one for x = e_c + 1.
    """
    if second == DROP_LAST:
        return (low & 6) != 0
    if second == KEEP_ALL:
        return low != 0
    # For negative numbers x is that of the exact sum: -2**29 - 1 plus something is below 2**29.
    magnitude = upper ^ (upper >> 31)
    two, three = v.splat(np.int32(6)), v.splat(np.int32(7))
    mask = select(magnitude >= (1 << 29), two, three)
    mask = select(magnitude >= (1 << 30), v.splat(np.int32(4)), mask)
    return (low & mask) != 0


@jit
def add_far(total, c, distance, second):
    """Late c at least 2**6 times the products: c + total, rounded as the record says.

    ``distance`` is e_c - e_max > 5; c is normal. An infinite or NaN c is returned.
    """
    bits = v.bits_i32(c)
    field = exponent_field(bits)
    sign = bits >> 31
    significand = ((((bits & 0x7FFFFF) | 0x800000) ^ sign) - sign) << 6
    upper = significand + shift_right(total, v.maximum(distance - 5, 0))
    below = v.maximum(distance, 0) - 8
    low = shift_right(total, v.maximum(below, 0)) << v.minimum(v.maximum(0 - below, 0), 8)
    sticky = far_sticky(upper, low & 7, second)
    # A sticky bit at 2**(e_c - 29) is below the rounding bit: |upper| >= 2**25.
    sum_ = upper | v.to_i32(sticky)
    result = v.i_to_f32(sum_) * v.bits_f32((field - 29) << 23)
    return select(field == 255, c, result)


@jit
def truncate_to_f32(total):
    """|total| as float32, rounded toward zero (|total| < 2**31).

    Clearing the rounding bit makes the rest less than half a unit, so that the conversion to
    nearest cannot round up: the rounding bit is where the leading bit of ``|total| >> 24`` is.
    """
    sign = total >> 31
    magnitude = (total ^ sign) - sign
    rounding_bits = v.bits_u32(magnitude) >> 24
    return v.i_to_f32(magnitude & (v.bits_i32(rounding_bits) ^ -1))


@jit
def with_sign(magnitude, total):
    """The float ``magnitude`` with the sign of the integer ``total``."""
    return v.bits_f32(v.bits_i32(magnitude) | (total & _SIGN))


@jit
def odd_float(total):
    """``total`` as float32 with any lost bit kept as an odd last bit (|total| < 2**31)."""
    lost = v.to_i32((total & 127) != 0) << 7
    coarse = (total & -128) | lost
    small = (total + (1 << 24)) & (-1 << 25)  # zero where |total| < 2**24: nothing to lose
    return v.i_to_f32(select(small == 0, total, coarse))


@jit
def round_to_half(x):
    """float32 to the nearest value of fp16 (still as float32), ties to even, overflow to Inf."""
    bits = v.bits_i32(x)
    exponent = v.maximum(bits & 0x7F800000, (127 - 14) << 23)
    magic = v.bits_f32((exponent + (13 << 23)) | 0x400000)  # its unit is x's unit in fp16
    rounded = v.bits_i32(v.absolute((x + magic) - magic))
    rounded = select(rounded >= ((127 + 16) << 23), v.splat(np.int32(0x7F800000)), rounded)
    return v.bits_f32(rounded | (bits & _SIGN))
