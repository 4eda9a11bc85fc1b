"""Chains of fused multiply-adds (paper 4.1.1: fp32 on all CDNA; fp64 on CDNA2 and CDNA3)."""

from __future__ import annotations

from mfmamodels.accumulation import Arithmetic, FmaChain
from mfmamodels.reference.ieee import fused_multiply_add
from mfmamodels.reference.numbers import Number, decode, encode
from mfmamodels.reference.record import note


def dot(arithmetic: Arithmetic, pairs: list[tuple[Number, Number]], c: int) -> int:
    """D = fma(a_k, b_k, d) in order of k, starting from c."""
    kind, out = arithmetic.accumulation, arithmetic.out
    assert isinstance(kind, FmaChain)
    d = decode(c, out)
    for a, b in pairs:
        note("block", ["c"], [d.value])
        d = fused_multiply_add(a, b, d, out, kind.rounding)
    return encode(d.value, out, arithmetic.nan, negative_zero=d.negative)
