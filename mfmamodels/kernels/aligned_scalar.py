"""One block of an :class:`~mfmamodels.accumulation.AlignedSum` in integers, one result at a time.

The vector code of :mod:`mfmamodels.kernels.aligned_lanes` covers operands and sums inside a safe
range of exponents. Lanes outside it (Inf, NaN, products beyond the format, subnormal results) are
recomputed here, from the same decoded values. Covers what the vector code covers, not every record.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from mfmamodels.accumulation import (
    UNLIMITED,
    Arithmetic,
    LateC,
    Rounding,
    SecondRounding,
)

#: Stands for a limit that does not exist (of an exponent, from above or from below).
NONE = 1 << 40

# Entries of a parameter tuple.
(
    N_FMA,
    FRAC,
    INTERLEAVE,
    PRODUCT_LIMIT,
    E_MIN,
    LATE,
    SUM_FRAC,
    C_MAX_SHIFT,
    SECOND,
    ZERO_EXPONENT,
    OUT_FRAC,
    OUT_EMIN,
    OUT_EMAX,
    TO_NEAREST,
    FRAC_A,
    EMIN_A,
    FRAC_B,
    EMIN_B,
) = range(18)

_SECOND = {
    SecondRounding.NONE: 0,
    SecondRounding.BLIND: 1,
    SecondRounding.NORMALISED: 2,
    SecondRounding.SUBNORMAL_AWARE: 3,
}

jit = njit(error_model="numpy")


def parameters(arith: Arithmetic) -> tuple[int, ...]:
    """The record's numbers in the order of the constants above."""
    kind, late = arith.accumulation, isinstance(arith.accumulation.c, LateC)
    c = kind.c if late else LateC()
    bits = arith.out.fraction_bits if kind.out_frac_bits == UNLIMITED else kind.out_frac_bits

    def limit(value, none):
        return none if value == UNLIMITED else value

    return (
        kind.n_fma,
        kind.frac_bits,
        kind.interleave,
        limit(kind.product_limit, NONE),
        limit(kind.e_min, -NONE),
        int(late),
        c.sum_frac_bits,
        limit(c.c_max_shift, NONE),
        _SECOND[c.second],
        limit(c.zero_exponent, -NONE),
        bits,
        arith.out.emin,
        arith.out.emax,
        int(kind.rounding is Rounding.RNE),
        arith.a.fraction_bits,
        arith.a.emin,
        arith.b.fraction_bits,
        arith.b.emin,
    )


@intrinsic
def _float_bits(typingctx, x):
    """Bits of a float32 as int32."""
    return types.int32(types.float32), lambda context, builder, sig, args: builder.bitcast(
        args[0], ir.IntType(32)
    )


@intrinsic
def _from_bits64(typingctx, x):
    """The float64 with the bits of an int64."""
    return types.float64(types.int64), lambda context, builder, sig, args: builder.bitcast(
        args[0], ir.DoubleType()
    )


@jit
def _bit_length(magnitude):
    length = 0
    while magnitude >> length:
        length += 1
    return length


@jit
def _split(x, fraction, emin):
    """Significand (an integer of ``fraction`` + 1 bits, signed) and exponent of a finite float32."""
    bits = np.int64(_float_bits(x))
    field = (bits >> 23) & 255
    exponent = max(max(field, 1) - 127, emin)
    significand = (bits & 0x7FFFFF) | ((field > 0) << 23)
    # The format's values are multiples of 2**(exponent - fraction): only zeros are shifted out.
    significand >>= min(63, exponent - fraction - (max(field, 1) - 127 - 23))
    return -significand if bits < 0 else significand, exponent


@jit
def _shift_floor(m, right):
    """floor(m * 2**-right); left shifts are small."""
    return m >> min(right, 63) if right >= 0 else m << -right


@jit
def _shift_truncate(m, right):
    """Round m * 2**-right toward zero."""
    return _shift_floor(m, right) if m >= 0 else -_shift_floor(-m, right)


@jit
def _round_out(total, quantum, p):
    """The sum total * 2**quantum rounded to the output format, as float32."""
    if total == 0:
        return np.float32(0.0)
    magnitude = abs(total)
    exponent = max(_bit_length(magnitude) - 1 + quantum, p[OUT_EMIN])
    shift = exponent - p[OUT_FRAC] - quantum
    if shift > 0:
        kept = _shift_floor(magnitude, shift)
        if p[TO_NEAREST] and shift < 63:
            rest = magnitude - (kept << shift)
            half = np.int64(1) << (shift - 1)
            kept += np.int64(rest > half or (rest == half and kept & 1 == 1))
        magnitude, quantum = kept, quantum + shift
    if _bit_length(magnitude) - 1 + quantum > p[OUT_EMAX]:
        result = np.inf
    else:  # float64 holds every value of float32 and fp16; its exponent field is biased by 1023
        scale = max(quantum, -1022)
        result = np.float64(magnitude) * _from_bits64(np.int64(scale + 1023) << 52)
    return np.float32(-result if total < 0 else result)


@jit
def _second_rounding(total, quantum, e_c, p):
    """The second rounding down, to 31 fraction bits: (total, quantum) after it."""
    if p[SECOND] == 0 or total == 0:
        return total, quantum
    exponent = e_c
    if p[SECOND] >= 2:
        exponent = _bit_length(abs(total)) - 1 + quantum
    if p[SECOND] == 3:
        exponent = max(exponent, p[OUT_EMIN])
    drop = exponent - 31 - quantum
    if drop > 0:
        return _shift_floor(total, drop), quantum + drop
    return total, quantum


@jit
def _add_late(total, e_max, mc, e_c, p):
    """Algorithms 1 and 2 from the sum of products on: total in units of 2**(e_max - FRAC)."""
    if mc == 0:
        e_c = p[ZERO_EXPONENT]
    if e_max >= e_c:
        quantum = e_max - p[FRAC]
        if e_max - e_c <= p[C_MAX_SHIFT]:
            total += _shift_floor(mc, quantum - (e_c - 23)) if mc != 0 else 0
        return _round_out(total, quantum, p)
    quantum = e_c - p[SUM_FRAC]
    total = _shift_floor(total, quantum - (e_max - p[FRAC])) + (mc << (p[SUM_FRAC] - 23))
    total, quantum = _second_rounding(total, quantum, e_c, p)
    return _round_out(total, quantum, p)


@jit
def _special(nan, plus, minus):
    if nan or (plus and minus):
        return np.float32(np.nan)
    return np.float32(np.inf if plus else -np.inf)


@jit
def _product_kind(x, y, p):
    """0 finite and nonzero, 1 zero, 2 +Inf, 3 -Inf, 4 NaN."""
    if np.isnan(x) or np.isnan(y):
        return 4
    if np.isinf(x) or np.isinf(y):
        if x == 0 or y == 0:
            return 4
        return 3 if (x < 0) != (y < 0) else 2
    if x == 0 or y == 0:
        return 1
    mx, ex = _split(x, p[FRAC_A], p[EMIN_A])
    my, ey = _split(y, p[FRAC_B], p[EMIN_B])
    m = mx * my
    if _bit_length(abs(m)) - 1 + ex + ey - p[FRAC_A] - p[FRAC_B] >= p[PRODUCT_LIMIT]:
        return 3 if m < 0 else 2
    return 0


@jit
def _exponents(a, sa, b, sb, positions, start, c, p):
    """Largest product exponents of even and odd k (-NONE: none), and NaN, +Inf, -Inf seen."""
    even, odd = -NONE, -NONE
    nan, plus, minus = np.isnan(c), c == np.inf, c == -np.inf
    for k in range(p[N_FMA]):
        x, y = a[positions[start + k] * sa], b[positions[start + k] * sb]
        kind = _product_kind(x, y, p)
        nan, plus, minus = nan or kind == 4, plus or kind == 2, minus or kind == 3
        if kind == 0:
            exponent = _split(x, p[FRAC_A], p[EMIN_A])[1] + _split(y, p[FRAC_B], p[EMIN_B])[1]
            if k & 1 and p[INTERLEAVE] == 2:
                odd = max(odd, exponent)
            else:
                even = max(even, exponent)
    return even, odd, nan, plus, minus


@jit
def _sum(a, sa, b, sb, positions, start, first, step, e, p):
    """Sum of aligned finite products in units of 2**(e - FRAC)."""
    total = np.int64(0)
    for k in range(first, p[N_FMA], step):
        x, y = a[positions[start + k] * sa], b[positions[start + k] * sb]
        if x != 0 and y != 0:
            mx, ex = _split(x, p[FRAC_A], p[EMIN_A])
            my, ey = _split(y, p[FRAC_B], p[EMIN_B])
            total += _shift_truncate(mx * my, e - ex - ey - p[FRAC] + p[FRAC_A] + p[FRAC_B])
    return total


@jit
def block(a, sa, b, sb, positions, start, c, p):
    """One block; its k-th product is a[i * sa] * b[i * sb] with i = positions[start + k].

    ``p`` is :func:`parameters`; ``a`` and ``b`` point to decoded float32 values.
    """
    even, odd, nan, plus, minus = _exponents(a, sa, b, sb, positions, start, c, p)
    if nan or plus or minus:
        return _special(nan, plus, minus)
    mc, e_c = _split(c, 23, -126) if p[OUT_EMIN] == -126 else _split_half(c)
    e_max = max(even, odd)
    frac = p[FRAC]
    if p[LATE] == 0:
        e = max(e_max, e_c if mc != 0 else -NONE)
        if e == -NONE:
            return np.float32(0.0)
        e = max(e, p[E_MIN])
        total = _sum(a, sa, b, sb, positions, start, 0, 1, e, p)
        total += _shift_truncate(mc, e - frac - (e_c - 23)) if mc != 0 else 0
        return _round_out(total, e - frac, p)
    if e_max == -NONE:
        return _round_out(mc, e_c - 23, p)
    e_max = max(e_max, p[E_MIN])
    if p[INTERLEAVE] == 1:
        total = _sum(a, sa, b, sb, positions, start, 0, 1, e_max, p)
    else:
        total = np.int64(0)
        if even != -NONE:
            total += _shift_floor(_sum(a, sa, b, sb, positions, start, 0, 2, even, p), e_max - even)
        if odd != -NONE:
            total += _shift_floor(_sum(a, sa, b, sb, positions, start, 1, 2, odd, p), e_max - odd)
    return _add_late(total, e_max, mc, e_c, p)


@jit
def _split_half(c):
    """As ``_split`` with 23 fraction bits, for c in fp16: exponents not below -14."""
    bits = np.int64(_float_bits(c))
    magnitude = bits & 0x7FFFFFFF
    field = magnitude >> 23
    if field == 0:
        return np.int64(0), np.int64(-14)
    significand = (magnitude & 0x7FFFFF) | (1 << 23)
    exponent = max(field - 127, -14)
    significand >>= exponent - (field - 127)  # at most 10 of the 13 zero bits below fp16's
    return -significand if bits < 0 else significand, exponent
