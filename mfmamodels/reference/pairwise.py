"""Pairwise sums of rounded products (paper 4.2: CDNA2 fp16 and bf16)."""

from __future__ import annotations

from mfmamodels.accumulation import Arithmetic, PairwiseSum
from mfmamodels.formats import Format
from mfmamodels.reference.ieee import add, multiply
from mfmamodels.reference.numbers import ZERO, Number, decode, encode
from mfmamodels.reference.record import note

_PADDING = Number(ZERO, 0, False)


def dot(arithmetic: Arithmetic, pairs: list[tuple[Number, Number]], c: int) -> int:
    """D = fl(d + tree of a block's products), every fl() followed by a flush."""
    kind, out = arithmetic.accumulation, arithmetic.out
    assert isinstance(kind, PairwiseSum)

    def flushed(x: Number, fmt: Format = out) -> Number:
        tiny = kind.flush and abs(x.value) < fmt.min_normal  # false for NaN
        if tiny and not x.is_zero:
            note("flush", ["x"], [x.value], [ZERO])
        return Number(ZERO, x.exponent, x.negative) if tiny else x

    def fl_add(x: Number, y: Number) -> Number:
        return flushed(add(x, y, out, kind.rounding))

    def fl_product(a: Number, b: Number) -> Number:
        a, b = flushed(a, arithmetic.a), flushed(b, arithmetic.b)
        return flushed(multiply(a, b, out, kind.rounding))

    d = flushed(decode(c, out))
    for start in range(0, len(pairs), kind.n_fma):
        note("block", ["c"], [d.value])
        level = [fl_product(a, b) for a, b in pairs[start : start + kind.n_fma]]
        level += [_PADDING] * (kind.n_fma - len(level))
        while len(level) > 1:
            level = [fl_add(x, y) for x, y in zip(level[::2], level[1::2], strict=True)]
        d = fl_add(d, level[0])
    return encode(d.value, out, arithmetic.nan, negative_zero=d.negative)
