"""Operands for stated products: a pair (a, b) of format values with exactly that product."""

from __future__ import annotations

import math
from functools import cache

from mfmamodels.formats import Format

Pair = tuple[float, float]


def _odd_and_exponent(x: float) -> tuple[int, int]:
    """Write x > 0 as m * 2^e with m odd."""
    numerator, denominator = x.as_integer_ratio()
    shift = (numerator & -numerator).bit_length() - 1
    return numerator >> shift, shift - (denominator.bit_length() - 1)


def _splits(m: int) -> list[tuple[int, int]]:
    """All m1 * m2 = m; those with a power of two on one side first."""
    small = [i for i in range(1, math.isqrt(m) + 1) if m % i == 0]
    return [split for i in small for split in ((m // i, i), (i, m // i))]


def _exponents(m: int, fmt: Format, *, normal: bool) -> range:
    """Exponents e for which m * 2^e is a value of the format (a normal one if asked)."""
    bits = m.bit_length()
    if bits > fmt.precision:
        return range(0)
    low = fmt.emin - (bits - 1 if normal else fmt.fraction_bits)
    high = fmt.emax - (bits - 1)
    if math.ldexp(m, high) > fmt.max:
        high -= 1
    return range(low, high + 1)


@cache
def factor(product: float, a: Format, b: Format) -> Pair | None:
    """Find operands of a product: normal numbers where possible, a near 1.

    Parameters
    ----------
    product : float
        Finite.
    a, b : Format

    Returns
    -------
    tuple of float or None
        None where no pair of the formats has this product.
    """
    if product == 0:
        return 0.0, 0.0
    m, e = _odd_and_exponent(abs(product))
    for normal in (True, False):
        for m1, m2 in _splits(m):
            of_a = _exponents(m1, a, normal=normal)
            of_b = _exponents(m2, b, normal=normal)
            low = max(of_a.start, e - of_b.stop + 1)
            high = min(of_a.stop - 1, e - of_b.start)
            if of_a and of_b and low <= high:
                i = min(max(1 - m1.bit_length(), low), high)
                return math.copysign(math.ldexp(m1, i), product), math.ldexp(m2, e - i)
    return None


def spread(total: float, count: int, a: Format, b: Format) -> list[Pair] | None:
    """Find at most ``count`` operand pairs whose products sum to ``total``, largest first."""
    pairs: list[Pair] = []
    while total:
        if len(pairs) == count:
            return None
        m, e = _odd_and_exponent(abs(total))
        pair = factor(total, a, b)
        if pair is None:  # take off the leading bits that fit
            cut = max(m.bit_length() - a.precision, 1)
            pair = factor(math.copysign(math.ldexp(m >> cut, e + cut), total), a, b)
            if pair is None:
                return None
        pairs.append(pair)
        total -= pair[0] * pair[1]
    return pairs
