"""Exact numbers for the reference: codes to mpmath values and back, and the one rounding.

The context :data:`mp` has more bits than the widest exact sum of fp64 products needs (from
2**-2148 to 2**2048, and some hundred products), so no operation of the reference ever rounds
unless it says so.
"""

from __future__ import annotations

from typing import NamedTuple

from mpmath import MPContext, mpf

from mfmamodels.accumulation import UNLIMITED, Arithmetic, Bits
from mfmamodels.formats import Format, Rounding, Specials
from mfmamodels.reference.record import note

mp = MPContext()
mp.prec = 4500

ZERO = mp.mpf(0)


class Number(NamedTuple):
    """A decoded operand: exact value, exponent of its significand, sign bit.

    The exponent of a subnormal or a zero is the format's ``emin``. The sign bit is kept because
    mpmath has no -0.
    """

    value: mpf
    exponent: int
    negative: bool

    @property
    def is_zero(self) -> bool:
        """Whether the value is +0 or -0."""
        return not self.value


def decode(code: int, fmt: Format) -> Number:
    """Take a code apart: sign, exponent, significand (Table 1)."""
    negative = bool(code & fmt.sign_mask)
    magnitude = code & (fmt.sign_mask - 1)
    if fmt.specials is Specials.FNUZ and code == fmt.nan_code:
        return Number(mp.nan, 0, False)
    if fmt.specials is Specials.FN and magnitude == fmt.nan_code:
        return Number(mp.nan, 0, negative)
    if fmt.has_inf and magnitude >= fmt.inf_code:
        value = mp.inf if magnitude == fmt.inf_code else mp.nan
        return Number(-value if negative else value, 0, negative)
    magnitude >>= fmt.ignored_bits
    field, significand = divmod(magnitude, 1 << fmt.fraction_bits)
    if field:
        significand += 1 << fmt.fraction_bits
    exponent = max(field, 1) - fmt.bias
    value = mp.ldexp(mp.mpf(significand), exponent - fmt.fraction_bits)
    return Number(-value if negative else value, exponent, negative)


def exponent_of(x: mpf) -> int:
    """Exponent of the leading bit of a nonzero number: 0 for 1 <= abs(x) < 2."""
    return mp.frexp(x)[1] - 1


def round_at(x: mpf, quantum: Bits, rounding: Rounding) -> mpf:
    """Round to a multiple of 2**quantum; an unlimited quantum rounds nothing."""
    if quantum == UNLIMITED:
        return x
    steps = mp.ldexp(x, -quantum)
    if rounding is Rounding.RNE:
        steps = mp.nint(steps)  # ties to even
    elif rounding is Rounding.RD or (rounding is Rounding.RTZ and x > 0):
        steps = mp.floor(steps)
    else:
        steps = mp.ceil(steps)
    return mp.ldexp(steps, quantum)


def round_out(x: mpf, fmt: Format, rounding: Rounding, fraction_bits: Bits = UNLIMITED) -> mpf:
    """Round a finite number to a format, with fewer fraction bits where asked.

    The exponent is bounded below (subnormals) by the format; magnitudes of 2**(emax + 1) and more
    become infinities, whatever the direction.
    """
    if not x:
        return ZERO
    bits = fmt.fraction_bits
    if fraction_bits != UNLIMITED:  # a width beyond the format's own limits nothing
        bits = min(bits, int(fraction_bits))
    exponent = max(exponent_of(x), fmt.emin)
    rounded = round_at(x, exponent - bits, rounding)
    if abs(rounded) >= mp.ldexp(mp.mpf(1), fmt.emax + 1):
        rounded = mp.inf if x > 0 else -mp.inf
    note("round", ["d"], [x], [rounded], exponent=exponent, quantum=exponent - bits,
         rounding=rounding)  # fmt: skip
    return rounded


def encode(x: mpf, fmt: Format, nan: int, *, negative_zero: bool = False) -> int:
    """Code of a number that the format can hold; ``nan`` is the code of every NaN."""
    if mp.isnan(x):
        return nan
    negative = x < 0 or (not x and negative_zero)
    sign = fmt.sign_mask if negative else 0
    if mp.isinf(x):
        return sign | fmt.inf_code
    if not x:
        return sign
    exponent = max(exponent_of(x), fmt.emin)
    significand = int(mp.ldexp(abs(x), fmt.fraction_bits - exponent))
    # A subnormal's significand lacks the implicit bit, which makes its exponent field zero.
    return sign | (((exponent + fmt.bias - 1) << fmt.fraction_bits) + significand)


def product(a: Number, b: Number) -> mpf:
    """Exact product; NaN for infinity times zero."""
    if a.is_zero or b.is_zero:
        return ZERO if mp.isfinite(a.value) and mp.isfinite(b.value) else mp.nan
    return a.value * b.value


def special_sum(terms: list[mpf]) -> mpf | None:
    """NaN, +Inf or -Inf if a term decides the sum by itself; None if all terms are finite."""
    infinities = {t for t in terms if mp.isinf(t)}
    if any(mp.isnan(t) for t in terms) or len(infinities) == 2:
        special = mp.nan
    elif infinities:
        special = infinities.pop()
    else:
        return None
    note("special", ["d"], [special])
    return special


def operands(arithmetic: Arithmetic, a: list[int], b: list[int]) -> list[tuple[Number, Number]]:
    """Decode the two operand vectors of one dot product."""
    return [(decode(x, arithmetic.a), decode(y, arithmetic.b)) for x, y in zip(a, b, strict=True)]
