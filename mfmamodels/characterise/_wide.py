"""A fixed-point register of 704 bits and the rounding of integers, for the second opinion.

The register holds limbs of 32 bits in int64, the first of weight 2**LOWEST. While terms are added
the limbs may be negative or too large; :func:`settle` propagates the carries and leaves the
magnitude. Two more entries say which limbs may differ from zero, so that nothing has to walk over
all of them; an array of zeros is an empty register.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Products of two fp32 subnormals are multiples of 2**-298; sums stay below 2**270, and a term
# reaches two limbs beyond that of its unit.
LOWEST = -352
LIMBS = 22
SIZE = LIMBS + 2
# Limbs used: those from LIMBS - limbs[_BELOW] up to, not including, limbs[_ABOVE].
_BELOW, _ABOVE = LIMBS, LIMBS + 1
_MASK = 0xFFFFFFFF

RNE, RTZ, RD, RU = range(4)  # the order of formats.Rounding


@njit(cache=True)
def bit_length(m):
    """Number of bits of a positive integer."""
    # The exponent of m as a float64, which rounding may have raised by one.
    n = (np.float64(m).view(np.int64) >> 52) - 1022
    return n - (m >> (n - 1) == 0)


@njit(cache=True)
def rounded_up(mode, negative, odd, half, below):
    """Whether a magnitude cut to an integer has to grow: the one rounding decision.

    ``half`` is the first bit cut off, ``below`` whether anything nonzero follows it.
    """
    if mode == RNE:
        return half and (below or odd)
    if mode == RTZ:
        return False
    return (half or below) and negative == (mode == RD)


@njit(cache=True)
def shift_right(m, shift, negative, mode):
    """Magnitude of ``m * 2**-shift`` rounded to an integer; exact where shift <= 0."""
    if shift <= 0:
        return m << -shift
    if shift > 62:
        return np.int64(rounded_up(mode, negative, False, False, m != 0))
    kept = m >> shift
    half = (m >> (shift - 1)) & 1 != 0
    below = m & ((np.int64(1) << (shift - 1)) - 1) != 0
    return kept + rounded_up(mode, negative, kept & 1 != 0, half, below)


@njit(cache=True)
def add(limbs, negative, m, q):
    """Add ``m * 2**q`` with its sign, 0 <= m < 2**62."""
    if m == 0:
        return
    position = q - LOWEST
    first, shift = position >> 5, position & 31
    sign = -1 if negative else 1
    low, high = m & _MASK, m >> 32
    limbs[first] += sign * ((low << shift) & _MASK)
    limbs[first + 1] += sign * (((low << shift) >> 32) + ((high << shift) & _MASK))
    limbs[first + 2] += sign * ((high << shift) >> 32)
    limbs[_BELOW] = max(limbs[_BELOW], LIMBS - first)
    limbs[_ABOVE] = max(limbs[_ABOVE], first + 3)


@njit(cache=True)
def settle(limbs):
    """Turn the register into sign and magnitude; return whether it was negative."""
    lowest, above = LIMBS - limbs[_BELOW], limbs[_ABOVE]
    carry = np.int64(0)
    for i in range(lowest, above):
        total = limbs[i] + carry
        carry = total >> 32  # toward minus infinity
        limbs[i] = total & _MASK
    negative = carry < 0
    if negative:  # two's complement: invert and add one
        borrow = np.int64(1)
        for i in range(lowest, above):
            total = (limbs[i] ^ _MASK) + borrow
            borrow = total >> 32
            limbs[i] = total & _MASK
        carry = borrow - carry - 1
    if carry != 0:
        limbs[above] = carry
        limbs[_ABOVE] = above + 1
    return negative


@njit(cache=True)
def leading(limbs):
    """Exponent of the leading bit of a settled register; far below LOWEST if it is zero."""
    for i in range(limbs[_ABOVE] - 1, LIMBS - limbs[_BELOW] - 1, -1):
        if limbs[i]:
            return LOWEST + 32 * i + bit_length(limbs[i]) - 1
    return LOWEST - 1000


@njit(cache=True)
def take(limbs, q, negative, mode):
    """Magnitude of a settled register in units of 2**q, rounded, and clear the register.

    The result must have fewer than 62 bits.
    """
    position = max(q - LOWEST, 0)
    first, shift = position >> 5, position & 31
    m, below, half = np.int64(0), False, False
    lowest = LIMBS - limbs[_BELOW]
    for i in range(limbs[_ABOVE] - 1, min(lowest, first) - 1, -1):
        limb = limbs[i]
        limbs[i] = 0
        if i > first:
            m = (m << 32) | limb
        elif i == first:
            m = (m << (32 - shift)) | (limb >> shift)
            if shift:
                half = (limb >> (shift - 1)) & 1 != 0
                below = limb & ((1 << (shift - 1)) - 1) != 0
        elif i == first - 1 and shift == 0:
            half = limb >> 31 != 0
            below = limb & 0x7FFFFFFF != 0
        elif limb:
            below = True
    limbs[_BELOW] = limbs[_ABOVE] = 0
    m += rounded_up(mode, negative, m & 1 != 0, half, below)
    return m << max(LOWEST - q, 0)


@njit(cache=True)
def restore(limbs, negative):
    """Undo what settling did to the sign."""
    if negative:
        for i in range(LIMBS - limbs[_BELOW], limbs[_ABOVE]):
            limbs[i] = -limbs[i]
