"""The kinds of accumulation on integers, for any record: one dot product per call.

Every function takes its parameters as run-time integers, so one compilation serves all records of
a kind. The steps are those of the records' documentation (:mod:`mfmamodels.accumulation`).

Arguments that occur throughout:

- ``formats``: descriptions of a, b, out (:func:`general_wide.format_code`);
- ``kind``: parameters of the record, see the position names below;
- ``place``: addresses and strides in bytes of one row of a and one column of b, and K;
- ``d``: code of c, then of the blocks' results;
- ``scratch``: working memory of the calling thread, a (4, n) array of int64.
"""

from __future__ import annotations

from mfmamodels.kernels.general_wide import (
    FINITE,
    INFINITE,
    NAN,
    RD,
    ZERO,
    add,
    decode,
    flushed,
    inlined,
    jit,
    multiply,
    normalise,
    read_code,
    round_pack,
)

# Positions in ``kind``, shared by all kinds ...
N_FMA, ROUNDING, NAN_CODE, OUT_FRACTION, PADDED_K = range(5)
# ... of PairwiseSum and of ExactSum.
FLUSH = 5
LIMBS, LOWEST = 5, 6

# What a sum's special terms are, as bits.
HAS_NAN, HAS_PLUS_INFINITY, HAS_MINUS_INFINITY = 1, 2, 4


@inlined
def operand_code(place, which, f, k):
    """Code of a (``which`` = 0) or b (2) at k; zero beyond K."""
    return read_code(place[which] + k * place[which + 1], f[0]) if k < place[4] else 0


@inlined
def special_bit(number, sign):
    """Contribution of a term of class ``number`` to a sum's special terms."""
    infinity = HAS_PLUS_INFINITY << sign
    return HAS_NAN if number == NAN else (infinity if number == INFINITE else 0)


@inlined
def infinity_code(f, sign):
    """Code of an infinity."""
    return f[5] | (sign << f[0])


@inlined
def special_result(specials, nan, out):
    """Code of a sum with special terms."""
    one_sign = specials in (HAS_PLUS_INFINITY, HAS_MINUS_INFINITY)
    return infinity_code(out, specials >> 2) if one_sign else nan


@jit
def exact_product(formats, flush, a, b):
    """Class, sign, significand and exponent of a product (significand below 2**48 up to fp32).

    The exponent is the sum of the operands'; the value ``significand * 2**(exponent - fa - fb)``.
    With ``flush`` = 1 subnormal operands count as zeros (0: they do not).
    """
    class_a, sign_a, m_a, e_a = decode(a, formats[0])
    class_b, sign_b, m_b, e_b = decode(b, formats[1])
    if class_a == FINITE and m_a < flush << formats[0][1]:
        class_a, m_a = ZERO, 0
    if class_b == FINITE and m_b < flush << formats[1][1]:
        class_b, m_b = ZERO, 0
    larger, smaller = max(class_a, class_b), min(class_a, class_b)
    number = ZERO if larger == FINITE and smaller == ZERO else larger
    if larger == INFINITE and smaller == ZERO:
        number = NAN
    return number, sign_a ^ sign_b, m_a * m_b, e_a + e_b


# --- FmaChain ---------------------------------------------------------------------------------


@jit
def chain_dot(formats, kind, order, place, d, scratch):
    """Chain ``d = fma(a_k, b_k, d)`` in order of k."""
    fa, fb, out = formats
    for k in range(place[4]):
        class_a, sign_a, m_a, e_a = decode(operand_code(place, 0, fa, k), fa)
        class_b, sign_b, m_b, e_b = decode(operand_code(place, 2, fb, k), fb)
        class_d, sign_d, m_d, e_d = decode(d, out)
        sign = sign_a ^ sign_b
        number = max(class_a, class_b)
        if number == INFINITE and min(class_a, class_b) == ZERO:
            number = NAN
        specials = special_bit(number, sign) | special_bit(class_d, sign_d)
        if specials:
            d = special_result(specials, kind[NAN_CODE], out)
            continue
        h, low, e = multiply(m_a, m_b, e_a + e_b - fa[1] - fb[1])
        if h == 0 and m_d == 0 and sign == sign_d:
            continue  # zeros of one sign: d is the result
        hd, ld, ed = normalise(0, m_d, e_d - out[1])
        sign, h, low, e = add(sign, h, low, e, sign_d, hd, ld, ed)
        if h == 0:
            d = int(kind[ROUNDING] == RD) << out[0]
        else:
            d = round_pack(sign, h, low, e, out, kind[OUT_FRACTION], kind[ROUNDING])
    return d


# --- PairwiseSum ------------------------------------------------------------------------------


@jit
def pairwise_dot(formats, kind, order, place, d, scratch):
    """Balanced trees of rounded products, each added to d."""
    fa, fb, out = formats
    level = scratch[0]
    flush = kind[FLUSH] == 1
    d = flushed(out, d) if flush and place[4] > 0 else d
    for start in range(0, kind[PADDED_K], kind[N_FMA]):
        for i in range(kind[N_FMA]):
            a = operand_code(place, 0, fa, start + i)
            b = operand_code(place, 2, fb, start + i)
            level[i] = rounded_product(formats, kind, a, b)
            level[i] = flushed(out, level[i]) if flush else level[i]
        width = kind[N_FMA]
        while width > 0:  # the last round adds the tree's root to d
            width >>= 1
            for i in range(max(width, 1)):
                x, y = (level[2 * i], level[2 * i + 1]) if width else (d, level[0])
                z = rounded_sum(out, kind[NAN_CODE], x, y, kind[ROUNDING])
                level[i] = flushed(out, z) if flush else z
        d = level[0]
    return d


@jit
def rounded_product(formats, kind, a, b):
    """Code of a product rounded to the output format."""
    out = formats[2]
    number, sign, m, e = exact_product(formats, kind[FLUSH], a, b)
    if number == NAN:
        return kind[NAN_CODE]
    if number == INFINITE:
        return infinity_code(out, sign)
    if number == ZERO:
        return sign << out[0]
    h, low, e = normalise(0, m, e - formats[0][1] - formats[1][1])
    return round_pack(sign, h, low, e, out, out[1], kind[ROUNDING])


@jit
def rounded_sum(out, nan, x, y, rounding):
    """IEEE addition of two codes of the output format."""
    class_x, sign_x, m_x, e_x = decode(x, out)
    class_y, sign_y, m_y, e_y = decode(y, out)
    specials = special_bit(class_x, sign_x) | special_bit(class_y, sign_y)
    if specials:
        return special_result(specials, nan, out)
    if m_x == 0 and m_y == 0 and sign_x == sign_y:
        return x
    hx, lx, ex = normalise(0, m_x, e_x - out[1])
    hy, ly, ey = normalise(0, m_y, e_y - out[1])
    s, h, low, e = add(sign_x, hx, lx, ex, sign_y, hy, ly, ey)
    if h == 0:
        return int(rounding == RD) << out[0]
    return round_pack(s, h, low, e, out, out[1], rounding)


# --- ExactSum ---------------------------------------------------------------------------------


@jit
def exact_dot(formats, kind, order, place, d, scratch):
    """Sums of n_fma products and d in a fixed-point register wide enough for all (Kulisch)."""
    fa, fb, out = formats
    register = scratch[0]
    lowest_product = kind[LOWEST] + fa[1] + fb[1]
    for start in range(0, kind[PADDED_K], kind[N_FMA]):
        for i in range(kind[LIMBS]):
            register[i] = 0
        number, sign, m, e = decode(d, out)
        specials = special_bit(number, sign)
        e -= kind[LOWEST] + out[1]
        for i in range(kind[N_FMA] + 1):
            if i > 0:
                a = operand_code(place, 0, fa, start + i - 1)
                b = operand_code(place, 2, fb, start + i - 1)
                number, sign, m, e = exact_product(formats, 0, a, b)
                specials |= special_bit(number, sign)
                e -= lowest_product
            if m != 0:
                deposit(register, sign, m, e)
        if specials:
            d = special_result(specials, kind[NAN_CODE], out)
        else:
            d = round_register(register, kind, out)
    return d


@jit
def deposit(register, sign, m, position):
    """Add a term with its lowest bit at a position; limbs keep 32 bits, carries wait."""
    i, shift = position >> 5, position & 31
    low = (m & 0xFFFFFFFF) << shift
    middle = ((m >> 32) << shift) + (low >> 32)
    factor = 1 - 2 * sign
    register[i] += factor * (low & 0xFFFFFFFF)
    register[i + 1] += factor * (middle & 0xFFFFFFFF)
    register[i + 2] += factor * (middle >> 32)


@jit
def round_register(register, kind, out):
    """Code of the register's value, rounded once; an exact zero is +0."""
    top = kind[LIMBS] - 1
    factor = 1
    for _ in range(2):  # propagate carries; a negative value is negated, and its carries again
        for i in range(top):
            limb = factor * register[i]
            register[i + 1] += factor * (limb >> 32)
            register[i] = limb & 0xFFFFFFFF
        register[top] *= factor
        if register[top] >= 0:
            break
        factor = -1
    while top > 3 and register[top] == 0:
        top -= 1
    # The four top limbs fill a wide number (up to 60 + 62 bits) but for the six lowest bits.
    high = (register[top] << 28) | (register[top - 1] >> 4)
    low = ((register[top - 1] & 15) << 58) | (register[top - 2] << 26) | (register[top - 3] >> 6)
    sticky = register[top - 3] & 63
    for i in range(top - 3):
        sticky |= register[i]
    high, low, e = normalise(high, low, kind[LOWEST] + 32 * (top - 3) + 6)
    if high == 0:
        return 0
    sign = int(factor < 0)
    return round_pack(sign, high, low | (sticky != 0), e, out, kind[OUT_FRACTION], kind[ROUNDING])
