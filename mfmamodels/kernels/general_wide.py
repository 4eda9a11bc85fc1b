"""Scalar integer arithmetic of the general kernel: codes, wide numbers, the one rounding.

A *wide number* is a magnitude of two 62-bit limbs and an exponent, ``(high * 2**62 + low) * 2**e``,
normalised so that ``2**59 <= high < 2**60`` (or high = low = 0). Signed 64-bit integers hold the
limbs with room for carries, so no unsigned arithmetic is needed. Bits beyond the low limb are kept
as a *sticky* bit: they are ORed into the lowest bit. That is enough for any later rounding which
drops at least two bits, since no operation here cancels more than one leading bit after a sticky
bit arose.
"""

from __future__ import annotations

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mfmamodels.accumulation import UNLIMITED, Bits
from mfmamodels.formats import Format, Rounding, Specials

# Every function costs compile time, and again in each of its callers: hence no wrappers for calls
# from Python, few functions, and tiny ones inlined. Only the outermost functions go to the cache.
jit = numba.njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
inlined = numba.njit(error_model="numpy", inline="always")

LIMB = 62
LIMB_MASK = (1 << LIMB) - 1
TOP = 2 * LIMB - 3  #: position of the leading bit of a normalised wide number

# Classes of a decoded operand, in an order in which comparisons mean something.
ZERO, FINITE, INFINITE, NAN = range(4)

# Directions as the kernels' integers.
RNE, RTZ, RD, RU = range(4)
DIRECTIONS = {Rounding.RNE: RNE, Rounding.RTZ: RTZ, Rounding.RD: RD, Rounding.RU: RU}

#: Run-time stand-in for UNLIMITED; larger than any exponent, width or shift.
NO_LIMIT = 1 << 40

# Run-time description of a format: positions within a tuple of integers.
_SIGN_SHIFT, _FRACTION, _BIAS, _IGNORED, _MAGNITUDE, _INF, _NAN, _FNUZ = range(8)

FormatCode = tuple[int, int, int, int, int, int, int, int]


def format_code(fmt: Format) -> FormatCode:
    """Describe a format to the kernels, as integers.

    Codes above the infinity are NaN; formats without infinity get an infinity no code reaches.
    """
    mask = fmt.sign_mask - 1
    fnuz = fmt.specials is Specials.FNUZ
    nan_above = fmt.inf_code if fmt.has_inf else (mask if fnuz else mask - 1)
    inf = fmt.inf_code if fmt.has_inf else NO_LIMIT
    return (
        fmt.width - 1,
        fmt.fraction_bits,
        fmt.bias,
        fmt.ignored_bits,
        mask,
        inf,
        nan_above,
        int(fnuz),
    )


def bits_or_no_limit(bits: Bits) -> int:
    """Make an integer of a width that may be unlimited."""
    return NO_LIMIT if bits == UNLIMITED else int(bits)


# --- memory -----------------------------------------------------------------------------------
# Operands are read through addresses: one compiled kernel serves all widths, strides (negative
# ones too), memory orders and read-only arrays, and nothing is copied.


def _by_width(builder, sign_shift, act):
    """Call ``act(bits)`` in a branch for every width; the formats' width is sign_shift + 1."""
    after = builder.append_basic_block("after")
    switch = builder.switch(sign_shift, after)
    results = []
    for bits in (8, 16, 32, 64):
        block = builder.append_basic_block(f"bits{bits}")
        switch.add_case(sign_shift.type(bits - 1), block)
        builder.position_at_end(block)
        results.append((act(bits), block))
        builder.branch(after)
    builder.position_at_end(after)
    return results


def _pointer(builder, address, bits):
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


@intrinsic
def read_code(typing_context, address, sign_shift):
    """Code at an address, of a format of sign_shift + 1 bits."""

    def generate(context, builder, signature, arguments):
        address, sign_shift = arguments
        before = builder.block

        def load(bits):
            code = builder.load(_pointer(builder, address, bits), align=1)
            return code if bits == 64 else builder.zext(code, ir.IntType(64))

        results = _by_width(builder, sign_shift, load)
        code = builder.phi(ir.IntType(64))
        code.add_incoming(ir.IntType(64)(0), before)
        for value, block in results:
            code.add_incoming(value, block)
        return code

    return types.int64(types.int64, types.int64), generate


@intrinsic
def write_code(typing_context, address, sign_shift, code):
    """Store a code of a format of sign_shift + 1 bits at an address."""

    def generate(context, builder, signature, arguments):
        address, sign_shift, code = arguments

        def store(bits):
            narrow = code if bits == 64 else builder.trunc(code, ir.IntType(bits))
            builder.store(narrow, _pointer(builder, address, bits), align=1)

        _by_width(builder, sign_shift, store)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def bit_length(typing_context, x):
    """Bits of a non-negative integer, 0 for 0."""

    def generate(context, builder, signature, arguments):
        zeros = builder.ctlz(arguments[0], ir.IntType(1)(0))
        return builder.sub(ir.IntType(64)(64), zeros)

    return types.int64(types.int64), generate


# --- codes ------------------------------------------------------------------------------------


@jit
def decode(code, f):
    """Class, sign (0 or 1), significand and exponent of a code.

    The value is ``significand * 2**(exponent - fraction bits)``; a subnormal has the exponent emin.
    """
    sign = (code >> f[_SIGN_SHIFT]) & 1
    magnitude = code & f[_MAGNITUDE]
    if magnitude == f[_INF]:
        return INFINITE, sign, 0, 0
    if magnitude > f[_NAN] or (f[_FNUZ] and sign and magnitude == 0):
        return NAN, sign, 0, 0
    magnitude >>= f[_IGNORED]
    field = magnitude >> f[_FRACTION]
    significand = magnitude & ((1 << f[_FRACTION]) - 1)
    if field:
        significand |= 1 << f[_FRACTION]
    elif significand == 0:
        return ZERO, sign, 0, 1 - f[_BIAS]
    return FINITE, sign, significand, max(field, 1) - f[_BIAS]


@inlined
def flushed(f, code):
    """Code of an output format with a subnormal replaced by the zero of its sign."""
    subnormal = (code & f[_MAGNITUDE]) >> f[_FRACTION] == 0
    return code & ~f[_MAGNITUDE] if subnormal else code


@jit
def shift_round(x, shift, direction):
    """Round the signed x * 2**-shift to an integer; abs(x) < 2**61 and left shifts must fit."""
    if x == 0:
        return 0
    if shift <= 0:
        return x << -shift
    shift = min(shift, LIMB)  # all bits are dropped, and fewer than half a unit
    floor = x >> shift
    rest = x - (floor << shift)
    if direction == RNE:
        half = 1 << (shift - 1)
        return floor + (rest > half or (rest == half and floor & 1 == 1))
    if direction == RTZ:
        return floor + (x < 0 and rest != 0)
    if direction == RU:
        return floor + (rest != 0)
    return floor


# --- wide numbers -----------------------------------------------------------------------------


@jit
def multiply(x, y, exponent):
    """Wide product of two positive integers below 2**53, times 2**exponent."""
    half = (1 << 27) - 1
    x1, x0, y1, y0 = x >> 27, x & half, y >> 27, y & half
    middle = x1 * y0 + x0 * y1
    low = x0 * y0 + ((middle & half) << 27)  # below 2**55
    high = x1 * y1 + (middle >> 27)  # counts 2**54
    low += (high & 255) << 54
    return normalise((high >> 8) + (low >> LIMB), low & LIMB_MASK, exponent)


@jit
def normalise(high, low, exponent):
    """Bring the leading bit of a non-negative wide number to its place; high < 2**62."""
    if high == 0 and low == 0:
        return 0, 0, 0
    while high == 0:  # 60 positions at a time
        high, low, exponent = low >> 2, (low & 3) << 60, exponent - 60
    shift = 60 - bit_length(high)
    if shift >= 0:
        high = (high << shift) | (low >> (LIMB - shift))
        return high, (low << shift) & LIMB_MASK, exponent - shift
    shift = -shift
    sticky = (low & ((1 << shift) - 1)) != 0
    low = (low >> shift) | ((high << (LIMB - shift)) & LIMB_MASK) | sticky
    return high >> shift, low, exponent + shift


@jit
def add(sign1, h1, l1, e1, sign2, h2, l2, e2):
    """Sum of two signed wide numbers: sign, high, low, exponent; high = low = 0 if it is zero."""
    if h1 == 0:
        return sign2, h2, l2, e2
    if h2 == 0:
        return sign1, h1, l1, e1
    if e1 < e2:
        sign1, h1, l1, e1, sign2, h2, l2, e2 = sign2, h2, l2, e2, sign1, h1, l1, e1
    shift = e1 - e2
    if shift >= LIMB:  # drop the low limb; what is lost by either shift stays as the sticky bit
        h2, l2, shift = 0, h2 | (l2 != 0), min(shift - LIMB, LIMB)
    lost = l2 & ((1 << shift) - 1)
    l2 = (l2 >> shift) | ((h2 << (LIMB - shift)) & LIMB_MASK) | (lost != 0)
    h2 >>= shift
    if sign1 != sign2:
        h2, l2 = -h2, -l2
    h1, l1 = h1 + h2, l1 + l2
    if h1 < 0 or (h1 == 0 and l1 < 0):
        sign1, h1, l1 = sign2, -h1, -l1
    h1 += l1 >> LIMB  # a carry, or a borrow
    h1, l1, e1 = normalise(h1, l1 & LIMB_MASK, e1)
    return sign1, h1, l1, e1


@jit
def round_wide(sign, high, low, exponent, quantum, direction):
    """Magnitude in units of 2**quantum after rounding; quantum > exponent + 62."""
    shift = quantum - exponent - LIMB
    if shift > 60:  # less than half a unit, and not zero
        return int((direction == RD and sign == 1) or (direction == RU and sign == 0))
    kept = high >> shift
    rest = high & ((1 << shift) - 1)
    if direction == RNE:
        half = 1 << (shift - 1)
        up = rest > half or (rest == half and (low != 0 or kept & 1 == 1))
    else:
        away = (direction == RD and sign == 1) or (direction == RU and sign == 0)
        up = away and (rest | low) != 0
    return kept + int(up)


@jit
def round_pack(sign, high, low, exponent, f, fraction_bits, direction):
    """Code of a nonzero wide number, rounded once to ``fraction_bits`` fraction bits.

    The only place that knows the output's subnormals and overflow. A number that rounds to zero
    keeps its sign; 2**(emax + 1) and more is infinite in every direction.
    """
    leading = max(exponent + TOP, 1 - f[_BIAS])
    quantum = leading - fraction_bits
    if leading + f[_BIAS] >= f[_INF] >> f[_FRACTION]:
        return f[_INF] | (sign << f[_SIGN_SHIFT])
    significand = round_wide(sign, high, low, exponent, quantum, direction)
    # A carry out of the significand, or a subnormal becoming normal, steps the exponent field.
    significand <<= f[_FRACTION] - fraction_bits
    code = ((leading + f[_BIAS] - 1) << f[_FRACTION]) + significand
    return min(code, f[_INF]) | (sign << f[_SIGN_SHIFT])
