"""Sums of products aligned to the largest exponent, on integers, for any record.

Arguments as in :mod:`mfmamodels.kernels.general_blocks`, whose ``scratch`` holds the products of a
block here and is called ``terms``. A block's sum fits 64 bits: products have
at most ``frac_bits + 2 <= 50`` bits after alignment, and there are at most 64 of them and c.
"""

from __future__ import annotations

from mfmamodels.kernels.general_blocks import (
    HAS_MINUS_INFINITY,
    HAS_PLUS_INFINITY,
    N_FMA,
    NAN_CODE,
    OUT_FRACTION,
    PADDED_K,
    ROUNDING,
    exact_product,
    operand_code,
    rounded_sum,
    special_bit,
    special_result,
)
from mfmamodels.kernels.general_wide import (
    NO_LIMIT,
    TOP,
    add,
    bit_length,
    decode,
    inlined,
    jit,
    normalise,
    round_pack,
    round_wide,
    shift_round,
)

# Positions in ``kind`` after the shared ones.
(
    FRAC_BITS,
    ALIGN_ROUNDING,
    INTERLEAVE,
    JOIN_ROUNDING,
    PRODUCT_LIMIT,
    E_MIN,
    NORMALISED,
    C_FRAC_BITS,
    SUM_FRAC_BITS,
    LATE_ROUNDING,
    C_MAX_SHIFT,
    SECOND,
    SECOND_FRAC_BITS,
    ZERO_EXPONENT,
    LAST_PRODUCTS,
    LAST_ROUNDING,
) = range(5, 21)
# Values of SECOND; NOT_LATE marks a c that is not late.
SECOND_NONE, BLIND, NORMALISED_SUM, SUBNORMAL_AWARE, NOT_LATE = range(5)


# Rows of ``terms``, the scratch memory of a block: significands with sign (0 for a zero product),
# sums of the operands' exponents, exponents of the lowest bits, exponents of the leading bits.
SIGNIFICAND, EXPONENT, LOWEST_BIT, LEADING_BIT = range(4)


@jit
def aligned_dot(formats, kind, order, place, d, terms):
    """Blocks of aligned products, d entering each, or added after every LAST_PRODUCTS."""
    c = d
    d = first_sum(kind, d)
    for start in range(0, kind[PADDED_K], kind[N_FMA]):
        found = load_block(formats, kind[N_FMA], order, place, start, terms)
        c, d = add_block(formats[2], kind, terms, found, start, c, d)
    return c if kind[LAST_PRODUCTS] else d


@inlined
def first_sum(kind, c):
    """Code of the sum that enters the first block."""
    return 0 if kind[LAST_PRODUCTS] else c


@jit
def load_block(formats, n_fma, order, place, start, terms):
    """Write a block's products to ``terms``: all of it that no width decides.

    Returns the special terms, and the highest leading bits of positive and of negative products.
    """
    fraction = formats[0][1] + formats[1][1]
    specials, plus, minus = 0, -NO_LIMIT, -NO_LIMIT
    for i in range(n_fma):
        k = start + i
        if order.size > 1:
            within = k % order.size
            k += order[within] - within
        a = operand_code(place, 0, formats[0], k)
        b = operand_code(place, 2, formats[1], k)
        number, sign, m, e = exact_product(formats, 0, a, b)
        leading = bit_length(m) - 1 + e - fraction
        if m != 0 and sign:
            minus = max(minus, leading)
        elif m != 0:
            plus = max(plus, leading)
        specials |= special_bit(number, sign)
        terms[SIGNIFICAND][i] = m * (1 - 2 * sign)
        terms[EXPONENT][i] = e
        terms[LOWEST_BIT][i] = e - fraction
        terms[LEADING_BIT][i] = leading
    return specials, plus, minus


@jit
def add_block(out, kind, terms, found, start, c, d):
    """Add the block that begins at ``start`` to d, and d to c where c comes last; both are codes.

    ``found`` is what :func:`load_block` returned for the block.
    """
    specials, plus, minus = found
    # Products beyond the limit are infinities.
    if plus >= kind[PRODUCT_LIMIT]:
        specials |= HAS_PLUS_INFINITY
    if minus >= kind[PRODUCT_LIMIT]:
        specials |= HAS_MINUS_INFINITY
    number, sign, m, e = decode(d, out)
    specials |= special_bit(number, sign)
    if specials:
        d = special_result(specials, kind[NAN_CODE], out)
    elif kind[SECOND] == NOT_LATE:
        d = early_block(kind, out, terms, m * (1 - 2 * sign), e)
    else:
        d = late_block(kind, out, terms, m * (1 - 2 * sign), e)
    if kind[LAST_PRODUCTS] and (start + kind[N_FMA]) % kind[LAST_PRODUCTS] == 0:
        # Both zeros count as +0 in the separate addition of c.
        d = 0 if d & out[4] == 0 else d
        c = 0 if c & out[4] == 0 else c
        c = rounded_sum(out, kind[NAN_CODE], d, c, kind[LAST_ROUNDING])
        d = 0
    return c, d


@jit
def largest_exponent(kind, terms, group, largest):
    """Largest of the exponents of the group's nonzero products and a given one; bounded by e_min.

    The group is every INTERLEAVE-th product. -NO_LIMIT stands for nothing, given or as a result.
    """
    significand = terms[SIGNIFICAND]
    exponent = terms[LEADING_BIT if kind[NORMALISED] else EXPONENT]
    for i in range(group, kind[N_FMA], kind[INTERLEAVE]):
        if significand[i] != 0:
            largest = max(largest, exponent[i])
    return max(largest, kind[E_MIN]) if largest > -NO_LIMIT else largest


@jit
def aligned_sum(kind, terms, group, largest):
    """Sum of the group's products cut FRAC_BITS below ``largest``, in units of that bit."""
    significand, lowest = terms[SIGNIFICAND], terms[LOWEST_BIT]
    total = 0
    for i in range(group, kind[N_FMA], kind[INTERLEAVE]):
        shift = largest - kind[FRAC_BITS] - lowest[i]
        total += shift_round(significand[i], shift, kind[ALIGN_ROUNDING])
    return total


@inlined
def round_sum(kind, out, total, quantum):
    """Code of total * 2**quantum, rounded to the output; zero gives +0."""
    h, low, e = normalise(0, abs(total), quantum)
    sign = int(total < 0)
    return round_pack(sign, h, low, e, out, kind[OUT_FRACTION], kind[ROUNDING]) if h else 0


@jit
def early_block(kind, out, terms, c, e_c):
    """Products and c (significand with sign, exponent), all aligned to the largest exponent."""
    group = kind[INTERLEAVE] - 1  # 0; a constant would make numba compile a second version
    largest = largest_exponent(kind, terms, group, e_c if c != 0 else -NO_LIMIT)
    quantum = largest - kind[FRAC_BITS]
    total = aligned_sum(kind, terms, group, largest)
    total += shift_round(c, quantum - (e_c - out[1]), kind[ALIGN_ROUNDING])
    return round_sum(kind, out, total, quantum)


@jit
def products_sum(kind, terms):
    """Sum of the products and its exponent (of all, or of even and odd apart, then joined)."""
    total, joint = 0, -NO_LIMIT
    for group in range(kind[INTERLEAVE]):
        own = largest_exponent(kind, terms, group, -NO_LIMIT)
        if own == -NO_LIMIT:
            continue  # only zero products: takes no part
        part = aligned_sum(kind, terms, group, own)
        larger = max(own, joint)
        if joint > -NO_LIMIT:
            total = shift_round(total, larger - joint, kind[JOIN_ROUNDING])
            part = shift_round(part, larger - own, kind[JOIN_ROUNDING])
        total, joint = total + part, larger
    return total, joint


@jit
def late_block(kind, out, terms, c, e_c):
    """Sum of the products, then c; whichever has the smaller exponent is shifted and rounded."""
    total, largest = products_sum(kind, terms)
    quantum_c = e_c - out[1]
    if largest == -NO_LIMIT:
        return round_sum(kind, out, c, quantum_c)
    quantum = largest - kind[FRAC_BITS]
    if c == 0:
        e_c = kind[ZERO_EXPONENT]
        if e_c == NO_LIMIT:
            return round_sum(kind, out, total, quantum)
    if largest >= e_c:
        coarser = largest - kind[C_FRAC_BITS]
        if largest - e_c > kind[C_MAX_SHIFT]:
            c = 0
        elif coarser > quantum_c:
            c = shift_round(c, coarser - quantum_c, kind[LATE_ROUNDING])
            quantum_c = coarser
    else:
        coarser = e_c - kind[SUM_FRAC_BITS]
        if coarser > quantum:
            total = shift_round(total, coarser - quantum, kind[LATE_ROUNDING])
            quantum = coarser
    h1, l1, e1 = normalise(0, abs(total), quantum)
    h2, l2, e2 = normalise(0, abs(c), quantum_c)
    sign, h, low, e = add(int(total < 0), h1, l1, e1, int(c < 0), h2, l2, e2)
    if h != 0 and largest < e_c and kind[SECOND] != SECOND_NONE:
        at = e + TOP
        if kind[SECOND] == BLIND:
            at = e_c
        elif kind[SECOND] == SUBNORMAL_AWARE:
            at = max(at, 1 - out[2])
        at -= kind[SECOND_FRAC_BITS]
        h, low, e = normalise(0, round_wide(sign, h, low, e, at, kind[LATE_ROUNDING]), at)
    if h == 0:
        return 0
    return round_pack(sign, h, low, e, out, kind[OUT_FRACTION], kind[ROUNDING])
