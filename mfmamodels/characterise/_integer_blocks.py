"""Blocks of the second opinion: what happens to products and c, in integers.

``limbs`` is the wide register, zero between calls. c and results are codes of the output format.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mfmamodels.characterise._wide import (
    RD,
    add,
    bit_length,
    leading,
    restore,
    settle,
    shift_right,
    take,
)

NONE = 1 << 20  # an unlimited width, or a limit that does not exist
_NOWHERE = -(1 << 20)  # exponent of what takes no part

TERM = 5  # entries of a product: negative, integer, exponent of its unit, exponent, state

FINITE, INFINITE, NAN = range(3)
_IEEE, _FN, _FNUZ = range(3)  # the order of formats.Specials
_SECOND_NONE, _BLIND, _NORMALISED, _AWARE = range(4)  # the order of SecondRounding


class Layout(NamedTuple):
    """What decoding a format needs."""

    precision: int
    emin: int
    ignored: int
    sign_bit: int
    specials: int
    beyond: int  # magnitude of the first code that is not finite


class AlignedWidths(NamedTuple):
    """An AlignedSum in integers; NONE for what is unlimited."""

    n_fma: int
    frac: int
    align: int
    interleave: int
    join: int
    limit: int
    e_min: int
    out_frac: int
    rounding: int
    normalised: bool
    late: bool
    c_frac: int
    sum_frac: int
    late_rounding: int
    c_max_shift: int
    second: int
    second_frac: int
    zero_exponent: int
    last: int
    last_rounding: int


@njit(cache=True)
def decode(code, fmt):
    """State, sign, integer significand, exponent of its unit, exponent of the number."""
    negative = (code >> fmt.sign_bit) & 1 != 0
    magnitude = code & ((np.int64(1) << fmt.sign_bit) - 1)
    unit = 1 - fmt.precision
    if fmt.specials == _FNUZ:
        if negative and magnitude == 0:
            return NAN, False, np.int64(0), fmt.emin + unit, fmt.emin
    elif magnitude >= fmt.beyond:
        infinite = fmt.specials == _IEEE and magnitude == fmt.beyond
        return INFINITE if infinite else NAN, negative, np.int64(0), fmt.emin + unit, fmt.emin
    magnitude >>= fmt.ignored
    field = magnitude >> (fmt.precision - 1)
    m = magnitude & ((np.int64(1) << (fmt.precision - 1)) - 1)
    if field == 0:
        return FINITE, negative, m, fmt.emin + unit, fmt.emin
    exponent = fmt.emin + field - 1
    return FINITE, negative, m | (np.int64(1) << (fmt.precision - 1)), exponent + unit, exponent


@njit(cache=True)
def product(x, y, formats):
    """State, sign, integer, exponent of its unit, and the sum of the factors' exponents."""
    state_a, negative_a, ma, qa, ea = decode(np.int64(x), formats[0])
    state_b, negative_b, mb, qb, eb = decode(np.int64(y), formats[1])
    state = max(state_a, state_b)
    zero_times_infinity = (state_a == INFINITE and state_b == FINITE and mb == 0) or (
        state_b == INFINITE and state_a == FINITE and ma == 0
    )
    if zero_times_infinity:
        state = NAN
    return state, negative_a != negative_b, ma * mb, qa + qb, ea + eb


@njit(cache=True)
def special_code(seen_nan, seen_plus, seen_minus, formats):
    """Code of a sum that a NaN or an infinity decides; -1 if none does."""
    out = formats[2]
    if seen_nan or (seen_plus and seen_minus):
        return formats[3]
    if seen_plus:
        return np.int64(out.beyond)
    if seen_minus:
        return np.int64(out.beyond) | (np.int64(1) << out.sign_bit)
    return np.int64(-1)


@njit(cache=True)
def result(limbs, out, frac, mode, zero_negative):
    """Code of the register rounded to the output format, which clears the register."""
    negative = settle(limbs)
    top = leading(limbs)
    sign = np.int64(1) << out.sign_bit
    if top < -1000:
        return sign if zero_negative else np.int64(0)
    exponent = max(top, out.emin)
    m = take(limbs, exponent - frac, negative, mode) << (out.precision - 1 - frac)
    code = min((np.int64(exponent - out.emin) << (out.precision - 1)) + m, np.int64(out.beyond))
    return code | sign if negative else code


# --- aligned sums -----------------------------------------------------------------------------


@njit(cache=True)
def _group(terms, start, step, count, widths):
    """Largest exponent among the nonzero products of a group, and their aligned sum."""
    e_max = _NOWHERE
    for i in range(start, count, step):
        if terms[i, 1] != 0:
            e_max = max(e_max, terms[i, 3])
    if e_max == _NOWHERE:
        return np.int64(0), e_max
    if widths.e_min != NONE:
        e_max = max(e_max, widths.e_min)
    total = np.int64(0)
    for i in range(start, count, step):
        negative = terms[i, 0] != 0
        shift = e_max - widths.frac - terms[i, 2]
        m = shift_right(terms[i, 1], shift, negative, widths.align) if terms[i, 1] else 0
        total += -m if negative else m
    return total, e_max


@njit(cache=True)
def _floor_to(total, shift, mode):
    """Shift a signed integer right and round it."""
    m = shift_right(abs(total), shift, total < 0, mode)
    return -m if total < 0 else m


@njit(cache=True)
def _products(terms, count, widths):
    """Sum of the products in units of 2**(e_max - frac), and e_max (Algorithm 2 lines 3 to 8)."""
    if widths.interleave == 1:
        return _group(terms, 0, 1, count, widths)
    even, e_even = _group(terms, 0, 2, count, widths)
    odd, e_odd = _group(terms, 1, 2, count, widths)
    e_max = max(e_even, e_odd)
    if e_even != _NOWHERE:
        even = _floor_to(even, e_max - e_even, widths.join)
    if e_odd != _NOWHERE:
        odd = _floor_to(odd, e_max - e_odd, widths.join)
    return even + odd, e_max


@njit(cache=True)
def _late(limbs, terms, count, widths, c, out):
    """Bring products and a late c into the register (Algorithm 1 lines 3 to 13)."""
    negative, m, q, e_c = c
    total, e_max = _products(terms, count, widths)
    if e_max == _NOWHERE:
        add(limbs, negative, m, q)
        return
    unit = e_max - widths.frac
    if m == 0:
        e_c = widths.zero_exponent if widths.zero_exponent != NONE else _NOWHERE
    if e_max >= e_c:
        add(limbs, total < 0, abs(total), unit)
        if m == 0 or (widths.c_max_shift != NONE and e_max - e_c > widths.c_max_shift):
            return
        if widths.c_frac != NONE and e_max - widths.c_frac > q:
            grid = e_max - widths.c_frac
            m, q = shift_right(m, grid - q, negative, widths.late_rounding), grid
        add(limbs, negative, m, q)
        return
    if widths.sum_frac != NONE and e_c - widths.sum_frac > unit:
        grid = e_c - widths.sum_frac
        total, unit = _floor_to(total, grid - unit, widths.late_rounding), grid
    add(limbs, total < 0, abs(total), unit)
    add(limbs, negative, m, q)
    _second(limbs, widths, e_c, out)


@njit(cache=True)
def _second(limbs, widths, e_c, out):
    """Round the register once more."""
    if widths.second == _SECOND_NONE:
        return
    negative = settle(limbs)
    top = leading(limbs)
    if top >= -1000:
        exponent = top
        if widths.second == _BLIND:
            exponent = e_c
        elif widths.second == _AWARE:
            exponent = max(top, out.emin)
        q = exponent - widths.second_frac
        if top - q > 60 or q < -340:  # nothing lies below so low a unit: only restore the sign
            restore(limbs, negative)
        else:
            add(limbs, negative, take(limbs, q, negative, widths.late_rounding), q)


@njit(cache=True)
def _aligned_block(limbs, terms, count, c_code, formats, widths):
    """One multi-term addition of the products in ``terms``."""
    out = formats[2]
    state, negative, m, q, e_c = decode(c_code, out)
    nan, plus, minus = state == NAN, False, False
    if state == INFINITE:
        plus, minus = not negative, negative
    for i in range(count):
        what = terms[i, 4]
        if what == FINITE and terms[i, 2] + 62 > widths.limit and terms[i, 1] != 0:
            what = int(terms[i, 2] + bit_length(terms[i, 1]) - 1 >= widths.limit)  # INFINITE
        nan |= what == NAN
        if what == INFINITE:
            plus, minus = plus or terms[i, 0] == 0, minus or terms[i, 0] != 0
    special = special_code(nan, plus, minus, formats)
    if special >= 0:
        return special
    if widths.late:
        _late(limbs, terms, count, widths, (negative, m, q, e_c), out)
    else:
        terms[count, 0], terms[count, 1], terms[count, 2], terms[count, 3] = negative, m, q, e_c
        total, e_max = _group(terms, 0, 1, count + 1, widths)
        if e_max != _NOWHERE:
            add(limbs, total < 0, abs(total), e_max - widths.frac)
    frac = out.precision - 1 if widths.out_frac == NONE else widths.out_frac
    return result(limbs, out, frac, widths.rounding, False)


@njit(cache=True)
def _sum_of_two(limbs, x, y, formats, mode):
    """IEEE addition of two codes, with IEEE's signs of zeros."""
    out = formats[2]
    state_x, negative_x, mx, qx, _ = decode(x, out)
    state_y, negative_y, my, qy, _ = decode(y, out)
    nan = state_x == NAN or state_y == NAN
    plus = (state_x == INFINITE and not negative_x) or (state_y == INFINITE and not negative_y)
    minus = (state_x == INFINITE and negative_x) or (state_y == INFINITE and negative_y)
    special = special_code(nan, plus, minus, formats)
    if special >= 0:
        return special
    add(limbs, negative_x, mx, qx)
    add(limbs, negative_y, my, qy)
    same_zero = mx == 0 and my == 0 and negative_x == negative_y
    return result(limbs, out, out.precision - 1, mode, negative_x if same_zero else mode == RD)


@njit(cache=True)
def aligned_row(limbs, terms, a, b, c, formats, widths, order):
    """One dot product of an AlignedSum; ``terms`` has room for a block's products and c."""
    run = max(widths.last, order.size)
    d = c
    for start in range(0, a.size, run):
        if widths.last:
            d = np.int64(0)
        for block in range(0, run, widths.n_fma):
            if not widths.last and start + block - (block % order.size) >= a.size:
                break  # past the padding of the last run
            for i in range(widths.n_fma):
                place = block + i
                k = start + place - place % order.size + order[place % order.size]
                terms[i, :] = 0
                if k < a.size:
                    state, negative, m, q, e = product(a[k], b[k], formats)
                    if widths.normalised and m != 0:
                        e = q + bit_length(m) - 1
                    terms[i, 0], terms[i, 1], terms[i, 2] = negative, m, q
                    terms[i, 3], terms[i, 4] = e, state
            d = _aligned_block(limbs, terms, widths.n_fma, d, formats, widths)
        if widths.last:
            c = _last_addition(limbs, d, c, formats, widths.last_rounding)
    return c if widths.last else d


@njit(cache=True)
def _last_addition(limbs, d, c, formats, mode):
    """Add c to an instruction's sum; a sum of zeros is +0."""
    sign = np.int64(1) << formats[2].sign_bit
    d, c = np.int64(0) if d == sign else d, np.int64(0) if c == sign else c
    return _sum_of_two(limbs, d, c, formats, mode)


# --- exact sums and trees ---------------------------------------------------------------------


@njit(cache=True)
def exact_row(limbs, a, b, c, formats, n_fma, mode):
    """One dot product of an ExactSum."""
    out = formats[2]
    for start in range(0, a.size, n_fma):
        state, negative, m, q, _ = decode(c, out)
        nan, plus, minus = state == NAN, False, False
        if state == INFINITE:
            plus, minus = not negative, negative
        add(limbs, negative, m, q)
        for k in range(start, min(start + n_fma, a.size)):
            state, negative, m, q, _ = product(a[k], b[k], formats)
            nan |= state == NAN
            if state == INFINITE:
                plus, minus = plus or not negative, minus or negative
            add(limbs, negative, m, q)
        special = special_code(nan, plus, minus, formats)
        if special >= 0:
            limbs[:] = 0
            c = special
        else:
            c = result(limbs, out, out.precision - 1, mode, False)
    return c


@njit(cache=True)
def _flushed(code, fmt, flush):
    """Zero of its sign for a subnormal."""
    magnitude = (code & ((np.int64(1) << fmt.sign_bit) - 1)) >> fmt.ignored
    if flush and 0 < magnitude < np.int64(1) << (fmt.precision - 1):
        return code & (np.int64(1) << fmt.sign_bit)
    return code


@njit(cache=True)
def _rounded_product(limbs, x, y, formats, mode, flush):
    """Product of two codes, rounded to the output format, flushed before and after."""
    out = formats[2]
    x, y = _flushed(x, formats[0], flush), _flushed(y, formats[1], flush)
    state, negative, m, q, _ = product(x, y, formats)
    special = special_code(
        state == NAN, state == INFINITE and not negative, state == INFINITE and negative, formats
    )
    if special >= 0:
        return special
    add(limbs, negative, m, q)
    return _flushed(result(limbs, out, out.precision - 1, mode, negative), out, flush)


@njit(cache=True)
def pairwise_row(limbs, level, a, b, c, formats, mode, flush):
    """One dot product of a PairwiseSum; ``level`` has room for a block of codes."""
    out = formats[2]
    d = _flushed(c, out, flush)
    for start in range(0, a.size, level.size):
        for i in range(level.size):
            k = start + i
            level[i] = 0
            if k < a.size:
                x, y = np.int64(a[k]), np.int64(b[k])
                level[i] = _rounded_product(limbs, x, y, formats, mode, flush)
        width = level.size
        while width > 1:
            width //= 2
            for i in range(width):
                total = _sum_of_two(limbs, level[2 * i], level[2 * i + 1], formats, mode)
                level[i] = _flushed(total, out, flush)
        d = _flushed(_sum_of_two(limbs, d, level[0], formats, mode), out, flush)
    return d
