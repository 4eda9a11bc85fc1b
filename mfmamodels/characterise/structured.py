"""Rows of structured significands, with cancellations, and with special codes strewn in."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from mfmamodels.accumulation import Arithmetic
from mfmamodels.characterise.directed import (
    Ints,
    Rows,
    operand_span,
    product_span,
    significands,
    signs,
)
from mfmamodels.formats import Format, Specials, decode, encode
from mfmamodels.fpenv import ieee_environment


def cancellation(core: Arithmetic, rows: int, k: int, rng: Generator) -> Rows:
    """Products that cancel each other or c, exactly or but for a last bit.

    Half of the products are the negatives of the others; c is zero, far below them, or the
    negative of their rounded sum.
    """
    a, b, _ = structured(core, rows, k, rng)
    pairs = k // 2
    a[:, pairs : 2 * pairs] = _negated(a[:, :pairs], core.a)
    b[:, pairs : 2 * pairs] = b[:, :pairs]
    low_bit = a.dtype.type(1 << core.a.ignored_bits)
    magnitude = a & a.dtype.type(core.a.sign_mask - 1)
    # Neither a zero nor an infinity may come of it.
    changeable = (magnitude > low_bit) & (magnitude < core.a.max_code)
    a = np.where(changeable & (rng.random(a.shape) < 0.05), a ^ low_bit, a)
    half_only = rng.random(rows) < 0.3  # products of one sign more often, left for c to cancel
    b[half_only, pairs:] = 0
    order = rng.permuted(np.broadcast_to(np.arange(k), a.shape), axis=1)
    a, b = np.take_along_axis(a, order, 1), np.take_along_axis(b, order, 1)
    return a, b, _cancelling_addend(core, a, b, rng)


def _cancelling_addend(core: Arithmetic, a: NDArray, b: NDArray, rng: Generator) -> NDArray:
    with ieee_environment(), np.errstate(all="ignore"):
        products = decode(a, core.a) * decode(b, core.b)
        total = np.zeros(len(a))
        for column in products.T:  # in this order, since numpy's own sum depends on the host
            total = total + column
        top = np.abs(products).max(axis=1, initial=0.0)
        exponent = np.frexp(top)[1] - rng.integers(-2, 44, len(a))
        m = significands(rng, len(a), core.out.precision).astype(float)
        below = signs(rng, len(a)) * np.ldexp(m, exponent - core.out.precision)
        role = rng.choice(3, len(a), p=[0.2, 0.45, 0.35])
        c = np.choose(role, [np.zeros(len(a)), below, -total])
        codes = encode(np.nan_to_num(c, posinf=core.out.max), core.out, overflow="saturate")
    step = rng.integers(-2, 3, len(a)) * (role == 2) * (rng.random(len(a)) < 0.3)
    magnitude = codes & codes.dtype.type(core.out.sign_mask - 1)
    room = (magnitude > 2) & (magnitude < core.out.max_code - 2)
    return np.where(room, codes + step.astype(codes.dtype), codes)  # steps wrap as they should


def _negated(codes: NDArray, fmt: Format) -> NDArray:
    """Codes with the other sign; the zero of FNUZ formats has none."""
    flipped = codes ^ codes.dtype.type(fmt.sign_mask)
    return np.where(codes == 0, codes, flipped) if fmt.specials is Specials.FNUZ else flipped


def structured(core: Arithmetic, rows: int, k: int, rng: Generator) -> Rows:
    """Significands of few ones or few zeros, products within reach of each other and of c.

    A row's products lie around an exponent drawn from the whole range, from around the smallest
    results, or from around overflow.
    """
    with ieee_environment():
        base = _row_exponents(core, rng, rows)
        spread = rng.choice(np.array([0, 4, 12, 30, 60]), rows)
        x = base[:, None] - rng.integers(0, spread[:, None] + 1, (rows, k))
        span_a, span_b = operand_span(core.a), operand_span(core.b)
        low = np.maximum(span_a.low, x - span_b.high)
        high = np.minimum(span_a.high, x - span_b.low)
        low, high = np.minimum(low, span_a.high), np.maximum(high, span_a.low)
        low = np.minimum(low, high)
        ea = rng.integers(low, high + 1)
        middle = np.clip((span_a.low + x - span_b.low) // 2, low, high)
        ea = np.where(rng.random((rows, 1)) < 0.5, ea, middle)
        eb = np.clip(x - ea, span_b.low, span_b.high)
        a, b = (_values(rng, e, fmt) for e, fmt in ((ea, core.a), (eb, core.b)))
        keep = rng.random((rows, k)) >= rng.choice([0.0, 0.2, 0.8], (rows, 1))
        ec = np.clip(base + rng.integers(-45, 46, rows), core.out.emin - 23, core.out.emax)
        c = _values(rng, ec[:, None], core.out)[:, 0] * (rng.random(rows) < 0.85)
        return (
            encode(a * keep, core.a, overflow="saturate"),
            encode(b, core.b, overflow="saturate"),
            encode(c, core.out, overflow="saturate"),
        )


def _row_exponents(core: Arithmetic, rng: Generator, rows: int) -> Ints:
    products, out = product_span(core), core.out
    around = np.stack(
        [
            rng.integers(products.low, products.high + 1, rows),
            rng.integers(out.emin - out.fraction_bits - 12, out.emin + 30, rows),
            rng.integers(out.emax - 4, out.emax + 3, rows),
        ]
    )
    chosen = around[rng.choice(3, rows, p=[0.6, 0.3, 0.1]), np.arange(rows)]
    feasible = (products.low <= chosen) & (chosen <= products.high)
    return np.where(feasible, chosen, around[0])


def _values(rng: Generator, exponent: Ints, fmt: Format) -> NDArray:
    """Values of the exponents, rounded where they are subnormal."""
    size = exponent.size
    m = significands(rng, size, fmt.precision).reshape(exponent.shape) * signs(rng, size).reshape(
        exponent.shape
    )
    subnormal = np.maximum(fmt.emin - exponent, 0)
    # Cut to the format's grid, toward zero, so that encoding never rounds.
    m = np.sign(m) * (np.abs(m) >> np.minimum(subnormal, 62))
    return np.ldexp(m.astype(float), np.maximum(exponent, fmt.emin) - fmt.fraction_bits)


def specials(core: Arithmetic, rows: int, k: int, rng: Generator) -> Rows:
    """Structured rows with NaNs, infinities, zeros of both signs and limits strewn in."""
    a, b, c = structured(core, rows, k, rng)
    # Mostly finite rows, so that one special decides; some where specials meet.
    share = rng.choice([0.5 / k if k else 0.0, 0.15, 0.6], rows, p=[0.6, 0.3, 0.1])
    for codes, fmt in ((a, core.a), (b, core.b), (c, core.out)):
        chosen = (rng.random(codes.T.shape) < share).T
        pool = special_codes(fmt)
        codes[chosen] = pool[rng.integers(0, pool.size, codes.shape)][chosen]
    return a, b, c


def special_codes(fmt: Format) -> NDArray:
    """Codes at the ends of a format's ranges, of both signs, and its NaNs and infinities."""
    unit = 1 << fmt.ignored_bits
    smallest_normal = 1 << (fmt.fraction_bits + fmt.ignored_bits)
    one = fmt.bias << (fmt.fraction_bits + fmt.ignored_bits)
    codes = [0, unit, smallest_normal - unit, smallest_normal, one, fmt.max_code]
    if fmt.has_inf:
        codes += [fmt.inf_code, fmt.nan_code, fmt.inf_code | unit]
        if fmt.ignored_bits:
            # An infinity in the bits that are read, a NaN by those that are not; a last fraction
            # bit below those that are read.
            codes += [fmt.inf_code | 1, one | (unit - 1), unit - 1]
    elif fmt.specials is Specials.FN:
        codes.append(fmt.nan_code)
    both = codes + [code | fmt.sign_mask for code in codes]  # in FNUZ, that of zero is NaN
    return np.array(sorted(set(both)), fmt.code_dtype)
