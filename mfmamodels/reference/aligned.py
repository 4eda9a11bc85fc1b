"""Sums of products aligned to the largest exponent (paper 4.3, Algorithms 1 and 2; NVIDIA).

Step names follow Algorithm 1: S is the sum of the aligned products, S_acc that sum with c.
"""

from __future__ import annotations

from mpmath import mpf

from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    Bits,
    EarlyC,
    LastC,
    LateC,
    SecondRounding,
)
from mfmamodels.formats import Format
from mfmamodels.reference.ieee import add
from mfmamodels.reference.numbers import (
    ZERO,
    Number,
    decode,
    encode,
    exponent_of,
    mp,
    product,
    round_at,
    round_out,
    special_sum,
)
from mfmamodels.reference.record import note

Term = tuple[mpf, int]  # value and exponent of its un-normalised significand


def dot(arithmetic: Arithmetic, pairs: list[tuple[Number, Number]], c: int) -> int:
    """Blocks of products in order, each on top of the result of the one before."""
    kind, out = arithmetic.accumulation, arithmetic.out
    assert isinstance(kind, AlignedSum)
    if isinstance(kind.c, LastC):
        d = _instructions(kind, kind.c, pairs, decode(c, out), out)
    else:
        d = decode(c, out)
        for block in _blocks(kind, pairs, max(kind.n_fma, len(kind.order))):
            d = _block(kind, block, d, out)
    return encode(d.value, out, arithmetic.nan, negative_zero=d.negative)


def _blocks(kind: AlignedSum, pairs: list, run: int) -> list[list]:
    """Pad with zero products to a multiple of ``run``, reorder, cut into blocks of n_fma."""
    zero = Number(ZERO, 0, False)
    pairs = pairs + [(zero, zero)] * (-len(pairs) % run)
    order = kind.order or tuple(range(kind.n_fma))
    ordered = [pairs[start + k] for start in range(0, len(pairs), len(order)) for k in order]
    return [ordered[i : i + kind.n_fma] for i in range(0, len(ordered), kind.n_fma)]


def _instructions(kind: AlignedSum, last: LastC, pairs: list, c: Number, out: Format) -> Number:
    """Each instruction sums its products from zero; c is added in an addition of its own."""
    for start in range(0, len(pairs), last.products):
        r = Number(ZERO, out.emin, False)
        run = max(last.products, len(kind.order))
        for block in _blocks(kind, pairs[start : start + last.products], run):
            r = _block(kind, block, r, out)
        note("last c", ["r", "c"], [r.value, c.value])
        c = add(_positive_zero(r), _positive_zero(c), out, last.rounding)
        c = _as_operand(c.value, out, c.negative)
    return c


def _positive_zero(x: Number) -> Number:
    return x._replace(negative=False) if x.is_zero else x


def _as_operand(value: mpf, out: Format, negative: bool) -> Number:
    """Give a result the exponent with which it enters the next block as c."""
    if not mp.isfinite(value) or not value:
        return Number(value, out.emin, negative)
    return Number(value, max(exponent_of(value), out.emin), negative)


def _block(kind: AlignedSum, pairs: list[tuple[Number, Number]], c: Number, out: Format) -> Number:
    """One multi-term addition."""
    note("block", ["c"], [c.value], exponents=[c.exponent])
    exact = [product(a, b) for a, b in pairs]
    products = [_limited(p, kind) for p in exact]
    note("products", "p", exact, products, exponents=[a.exponent + b.exponent for a, b in pairs])
    special = special_sum([*products, c.value])
    if special is not None:
        return Number(special, 0, bool(special < 0))
    terms = [(p, _exponent(kind, p, a, b)) for p, (a, b) in zip(products, pairs, strict=True)]
    if isinstance(kind.c, LateC):
        s_acc = _late(kind, kind.c, terms, c, out)
    else:
        s_acc = _early(kind, terms, c)
    note("sum", ["S_acc"], [s_acc])
    d = round_out(s_acc, out, kind.rounding, kind.out_frac_bits)
    return _as_operand(d, out, bool(s_acc < 0))


def _limited(p: mpf, kind: AlignedSum) -> mpf:
    """Turn a product of 2**product_limit or more into an infinity (4.3.2)."""
    if kind.product_limit == UNLIMITED or not mp.isfinite(p):
        return p
    too_large = abs(p) >= mp.ldexp(mp.mpf(1), kind.product_limit)
    return (mp.inf if p > 0 else -mp.inf) if too_large else p


def _exponent(kind: AlignedSum, p: mpf, a: Number, b: Number) -> int:
    """Exponent of a product: un-normalised, it is the sum of its operands' exponents."""
    if kind.normalised_products and p:
        return exponent_of(p)
    return a.exponent + b.exponent


def _aligned_sum(kind: AlignedSum, terms: list[Term], e_max: int, labels: list[str]) -> mpf:
    """Sum of terms cut at the fraction bits below e_max (Algorithm 1 line 4)."""
    quantum = e_max - kind.frac_bits
    exact, exponents = [x for x, _ in terms], [e for _, e in terms]
    kept = [round_at(x, quantum, kind.align_rounding) if x else x for x in exact]
    note("align", labels, exact, kept, exponents=exponents, exponent=e_max, quantum=quantum,
         rounding=kind.align_rounding)  # fmt: skip
    return mp.fsum(kept)


def _largest_exponent(kind: AlignedSum, terms: list[Term]) -> int | None:
    """Largest exponent of the nonzero terms, none if all are zero; not below e_min."""
    exponents = [e for x, e in terms if x]
    if not exponents:
        return None
    return max(exponents) if kind.e_min == UNLIMITED else max([*exponents, kind.e_min])


def _early(kind: AlignedSum, terms: list[Term], c: Number) -> mpf:
    """Align c with the products and add all at once."""
    assert isinstance(kind.c, EarlyC | LastC)
    terms = [*terms, (c.value, c.exponent)]
    e_max = _largest_exponent(kind, terms)
    labels = [*_labels(len(terms) - 1), "c"]
    return ZERO if e_max is None else _aligned_sum(kind, terms, e_max, labels)


def _labels(count: int) -> list[str]:
    return [f"p{i}" for i in range(1, count + 1)]


def _products_sum(kind: AlignedSum, terms: list[Term]) -> tuple[mpf, int | None]:
    """Sum of the products and their largest exponent (lines 3-4; Algorithm 2 lines 3-8)."""
    labels = _labels(len(terms))
    summed = []
    for i in range(kind.interleave):
        group = terms[i :: kind.interleave]
        e_group = _largest_exponent(kind, group)
        if e_group is not None:
            s = _aligned_sum(kind, group, e_group, labels[i :: kind.interleave])
            summed.append((s, e_group))
    if not summed:
        return ZERO, None
    e_max = max(e for _, e in summed)
    if kind.interleave == 1:
        return summed[0][0], e_max
    quantum = e_max - kind.frac_bits
    exact, exponents = [s for s, _ in summed], [e for _, e in summed]
    kept = [round_at(s, quantum, kind.join_rounding) for s in exact]
    note("join", "S", exact, kept, exponents=exponents, exponent=e_max, quantum=quantum,
         rounding=kind.join_rounding)  # fmt: skip
    return mp.fsum(kept), e_max


def _late(kind: AlignedSum, late: LateC, terms: list[Term], c: Number, out: Format) -> mpf:
    """Add c to the un-normalised sum of the products (Algorithm 1 lines 5-14)."""
    s, e_max = _products_sum(kind, terms)
    if e_max is None:
        return c.value
    e_c: int = c.exponent
    if c.is_zero:
        if late.zero_exponent == UNLIMITED:
            return s
        e_c = late.zero_exponent
    if e_max >= e_c:
        if late.c_max_shift != UNLIMITED and e_max - e_c > late.c_max_shift:
            note("drop c", ["c"], [c.value], [ZERO], exponents=[e_c], exponent=e_max)
            return s  # Algorithm 2 line 14
        quantum = _below(e_max, late.c_frac_bits)
        c_shifted = round_at(c.value, quantum, late.rounding)
        note("shift c", ["S", "c"], [s, c.value], [s, c_shifted], exponents=[e_max, e_c],
             exponent=e_max, quantum=quantum, rounding=late.rounding)  # fmt: skip
        return s + c_shifted
    quantum = _below(e_c, late.sum_frac_bits)
    shifted = round_at(s, quantum, late.rounding)
    note("shift sum", ["S", "c"], [s, c.value], [shifted, c.value], exponents=[e_max, e_c],
         exponent=e_c, quantum=quantum, rounding=late.rounding)  # fmt: skip
    return _second_rounding(late, shifted + c.value, e_c, out)


def _below(exponent: int, bits: Bits) -> Bits:
    return UNLIMITED if bits == UNLIMITED else exponent - bits


def _second_rounding(late: LateC, s_acc: mpf, e_c: int, out: Format) -> mpf:
    """Round S_acc again before the result's rounding (lines 12-13)."""
    if late.second is SecondRounding.NONE or not s_acc:
        return s_acc
    exponent = e_c if late.second is SecondRounding.BLIND else exponent_of(s_acc)
    if late.second is SecondRounding.SUBNORMAL_AWARE:
        exponent = max(exponent, out.emin)
    quantum = exponent - late.second_frac_bits
    rounded = round_at(s_acc, quantum, late.rounding)
    note("second rounding", ["S_acc"], [s_acc], [rounded], exponent=exponent, quantum=quantum,
         rounding=late.rounding)  # fmt: skip
    return rounded
