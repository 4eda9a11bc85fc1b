"""Random records of every kind and operands that reach their corners, for tests of kernels."""

import numpy as np

from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    EarlyC,
    ExactSum,
    FmaChain,
    LastC,
    LateC,
    PairwiseSum,
)
from mfmamodels.formats import FORMATS

NAN = {"fp16": 0x7FFF, "fp32": 0xFFC00000, "fp64": 0xFFF8000000000000}
ROUNDINGS = ("rne", "rtz", "rd", "ru")
_SMALL = [name for name in FORMATS if name != "fp64"]


def arithmetic(a, b, out, kind):
    """Record of three format names and a kind."""
    return Arithmetic(a=FORMATS[a], b=FORMATS[b], out=FORMATS[out], accumulation=kind, nan=NAN[out])


def _maybe(rng, *values):
    """Unlimited every third time."""
    return UNLIMITED if rng.random() < 1 / 3 else int(rng.choice(values))


def _late(rng):
    return LateC(
        c_frac_bits=_maybe(rng, 0, 5, 24, 31, 48),
        sum_frac_bits=_maybe(rng, 0, 7, 31, 32, 48),
        rounding=rng.choice(ROUNDINGS),
        c_max_shift=_maybe(rng, 0, 3, 25, 100),
        second=rng.choice(["none", "blind", "normalised", "subnormal-aware"]),
        second_frac_bits=int(rng.choice([0, 9, 22, 31, 48])),
        zero_exponent=_maybe(rng, -1100, -126, -14, 0, 90),
    )


def _aligned(rng):
    n_fma = int(rng.choice([1, 2, 4, 8, 12, 16, 64]))
    c = [EarlyC(), _late(rng), LastC(n_fma * int(rng.integers(1, 4)), rng.choice(ROUNDINGS))]
    c = c[rng.integers(3)]
    order = ()
    if rng.random() < 0.3:  # whole blocks, and whole instructions where there are some
        length = c.products if isinstance(c, LastC) else n_fma * int(rng.integers(1, 3))
        order = tuple(int(i) for i in rng.permutation(length))
    return AlignedSum(
        n_fma=n_fma,
        frac_bits=int(rng.choice([1, 3, 13, 23, 24, 25, 40, 48])),
        c=c,
        rounding=rng.choice(ROUNDINGS),
        align_rounding=rng.choice(ROUNDINGS),
        interleave=2 if isinstance(c, LateC) and n_fma % 2 == 0 and rng.random() < 0.5 else 1,
        join_rounding=rng.choice(ROUNDINGS),
        product_limit=_maybe(rng, -20, 15, 128, 200),
        e_min=_maybe(rng, -1000, -133, -21, 0),
        out_frac_bits=_maybe(rng, 1, 7, 10),
        normalised_products=bool(rng.integers(2)),
        order=order,
    )


def random_record(rng, kind):
    """Any legal record of a kind."""
    a, b = (str(x) for x in rng.choice(_SMALL, 2))
    out = str(rng.choice(["fp16", "fp32"]))
    rounding = rng.choice(ROUNDINGS)
    if kind is FmaChain:
        if rng.random() < 0.4:
            a, b, out = str(rng.choice(list(FORMATS))), str(rng.choice(["fp64", "fp32"])), "fp64"
        return arithmetic(a, b, out, FmaChain(rounding))
    if kind is ExactSum:
        return arithmetic(a, b, out, ExactSum(int(rng.choice([1, 2, 3, 4, 16, 64])), rounding))
    if kind is PairwiseSum:
        n_fma = 1 << int(rng.integers(7))
        return arithmetic(a, b, out, PairwiseSum(n_fma, bool(rng.integers(2)), rounding))
    return arithmetic(a, b, out, _aligned(rng))


def random_codes(rng, fmt, shape, spread, specials=0.03, at=0):
    """Codes whose exponents lie around ``at``, with zeros, subnormals and specials among them.

    Significands have all bits random, or few ones, or few zeros; ``spread`` is the standard
    deviation of the exponents.
    """
    fraction = fmt.fraction_bits
    field = np.rint(rng.normal(at + fmt.bias, spread, shape)).astype(np.int64)
    field = np.clip(field, 0, fmt.emax + fmt.bias - (fmt.specials == "fn"))
    significand = rng.integers(0, 1 << fraction, shape)
    style = rng.integers(0, 4, shape)
    one = np.int64(1) << rng.integers(0, max(fraction, 1), shape)
    significand = np.where(style == 0, one, significand)
    significand = np.where(style == 1, ((1 << fraction) - 1) ^ one, significand)
    magnitude = ((field << fraction) | significand) << fmt.ignored_bits
    top = fmt.inf_code if fmt.has_inf else fmt.max_code
    corner = np.array(
        [0, 1 << fmt.ignored_bits, fmt.max_code, top, fmt.nan_code & (fmt.sign_mask - 1)]
    )
    chance = rng.random(shape)
    zero = chance < 0.06
    magnitude = np.where(zero, 0, magnitude)
    magnitude = np.where(chance > 1 - specials, rng.choice(corner, shape), magnitude)
    codes = magnitude.astype(np.uint64)
    codes |= rng.integers(0, 2, shape).astype(np.uint64) << np.uint64(fmt.width - 1)
    if fmt.specials == "fnuz":  # -0 would be the NaN: leave it to the specials
        codes[zero] = 0
    return codes.astype(fmt.code_dtype)


def operands(rng, record, rows, k):
    """a, b, c for ``rows`` dot products: exponents near and far apart, c near and far from them.

    Every third set has no special values, another one few, another many; a quarter of the rows
    cancel: half of their products return with the other sign.
    """
    spread = float(rng.choice([0.5, 3.0, 12.0, 60.0]))
    specials = float(rng.choice([0.0, 0.01, 0.1]))
    at = int(rng.choice([0, 0, 0, record.a.emin + 3, record.a.emax - 2]))
    a = random_codes(rng, record.a, (rows, k), spread, specials, at)
    b = random_codes(rng, record.b, (rows, k), spread, specials, int(rng.integers(-4, 5)))
    c = random_codes(rng, record.out, (rows,), 2 * spread, specials, at + int(rng.integers(-9, 9)))
    c[rng.random(rows) < 0.1] = 0
    half = k // 2
    if half and record.a.specials != "fnuz":
        again = rng.random(rows) < 0.25
        a[again, half : 2 * half] = a[again, :half] ^ record.a.code_dtype.type(record.a.sign_mask)
        b[again, half : 2 * half] = b[again, :half]
    return a, b, c
