"""Exact block sums, rounded once (paper 4.1.2 and 4.1.3: CDNA1)."""

from __future__ import annotations

from mfmamodels.accumulation import Arithmetic, ExactSum
from mfmamodels.reference.numbers import (
    Number,
    decode,
    encode,
    mp,
    product,
    round_out,
    special_sum,
)
from mfmamodels.reference.record import note


def dot(arithmetic: Arithmetic, pairs: list[tuple[Number, Number]], c: int) -> int:
    """Add products to c block after block: the sum exact, then one rounding."""
    kind, out = arithmetic.accumulation, arithmetic.out
    assert isinstance(kind, ExactSum)
    d = total = decode(c, out).value
    for start in range(0, len(pairs), kind.n_fma):
        note("block", ["c"], [d])
        products = [product(a, b) for a, b in pairs[start : start + kind.n_fma]]
        note("products", "p", products)
        terms = [d, *products]
        special = special_sum(terms)
        total = mp.fsum(terms) if special is None else special
        note("sum", ["S"], [total])
        d = round_out(total, out, kind.rounding) if special is None else special
    # A sum that is exactly zero is +0; one that underflows to zero keeps its sign.
    return encode(d, out, arithmetic.nan, negative_zero=bool(total < 0))
