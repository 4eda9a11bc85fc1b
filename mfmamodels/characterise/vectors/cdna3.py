"""Test vectors of paper section 4.3: CDNA3. Those of fp32 are chain tests of 4.1.1."""

from __future__ import annotations

from collections.abc import Iterator

from mfmamodels.characterise.vectors.cdna1 import chain_order, final_rounding
from mfmamodels.characterise.vectors.stated import (
    INF,
    MINUS_NAN,
    Stated,
    both_signs,
    permuted,
    power_sum,
)

ABOVE_ONE = 1 + 2.0**-23
#: Running indices without a stated end go up to the last bit of an fp32 significand.
OPEN_END = 23


def common(n_fma: int) -> Iterator[Stated]:
    """4.3.1, which 4.3.2 and 4.3.3 refer to for bf16 and xf32."""
    yield from alignment()
    yield from block_size(n_fma)
    yield from no_interleaving()
    yield from truncation()
    yield from unnormalised_products()
    yield from late_c()
    yield from shifted_c()
    yield from shifted_sum(n_fma)
    yield from second_rounding(n_fma)
    yield cancellation()


def alignment() -> Iterator[Stated]:
    """One alignment bit more than fp32 has."""
    values = (1.0, 2.0**-24, 2.0**-24)
    for vector in permuted("extra alignment bit", values, ("c", "p1", "p2"), ABOVE_ONE):
        yield from both_signs(vector)


def block_size(n_fma: int) -> Iterator[Stated]:
    """p_j is added to p1 before c for j <= N_FMA."""
    for j in range(2, n_fma + 1):
        yield Stated(f"N_FMA, j={j}", {1: 2.0**-24, j: 2.0**-24}, 1.0, ABOVE_ONE)


def no_interleaving() -> Iterator[Stated]:
    """Even and odd products are not summed apart."""
    values = (1.0, 0.0, 2.0**-24 + 2.0**-25)
    for vector in permuted("no interleaving", values, ("p1", "p2", "p3"), 1.0):
        yield from both_signs(vector)


def truncation() -> Iterator[Stated]:
    """An aligned product is truncated after 24 fraction bits."""
    for j in range(1, OPEN_END + 1):
        p = {1: 1.0, 2: 2.0**-24 + 2.0 ** (-24 - j)}
        yield from both_signs(Stated(f"products are truncated, j={j}", p, 0.0, 1.0))


def unnormalised_products() -> Iterator[Stated]:
    """The exponent of 1.5 * 1.5 is 0, that of 2.25 * 1 is 1."""
    rest: dict = {2: 2.0**-23, 3: 2.0**-24, 4: 2.0**-24}
    large, small = {1: (1.5, 1.5), **rest}, {1: (2.25, 1.0), **rest}
    yield Stated("products un-normalised, 1.5*1.5", large, 0.0, 2.25 + 2.0**-22)
    yield Stated("products un-normalised, 2.25*1", small, 0.0, 2.25)


def late_c() -> Iterator[Stated]:
    """The finished sum of the products, not rounded, meets c."""
    p = {1: 2.0**-25, 2: 2.0**-25, 3: 2.0**-24}
    yield Stated("c is added late", p, 1.0, ABOVE_ONE)
    p = {1: 1.0, 2: 2.0**-24}
    yield Stated("the sum is not rounded before c", p, 2.0**-24, ABOVE_ONE)


def shifted_c() -> Iterator[Stated]:
    """A shifted c is rounded down to 24 fraction bits."""
    for j in range(1, OPEN_END + 1):
        c = 2.0**-24 + 2.0 ** (-24 - j)
        vector = Stated(f"shifted c rounds down, j={j}", {1: 1.0}, c, 1.0)
        yield from both_signs(vector, -ABOVE_ONE)


def shifted_sum(n_fma: int) -> Iterator[Stated]:
    """A shifted sum of products is rounded down to 32 fraction bits: tests 1 to 3."""
    over = tuple(range(1, n_fma + 1))
    for j in range(1, OPEN_END + 1):
        d = ABOVE_ONE if j < 8 else 1.0
        total = 2.0**-24 + 2.0 ** (-24 - j)
        vector = Stated(f"RD at 32, test 1, j={j}", {}, 1.0, d, total, over)
        yield from both_signs(vector, -ABOVE_ONE)
    for j in range(11):
        total = -(2.0**-24 + power_sum(26, 30 + j))
        d = 1 - 2.0**-24 if j <= 2 else 1 - 2.0**-23
        yield Stated(f"RD at 32, test 2, j={j}", {}, 1.0, d, total, over)
    total = -(2.0**-24 + power_sum(26, 31)) + 2.0**-33
    yield Stated("RD at 32, test 3", {}, 1.0, 1 - 2.0**-24, total, over)


def second_rounding(n_fma: int) -> Iterator[Stated]:
    """After c was added, the normalised sum is rounded down to 31 fraction bits."""
    over = tuple(range(2, n_fma + 1))
    for j in range(24, 33):
        d = 2 + 2.0**-22 if j <= 30 else 2.0
        total = 2.0**-23 + 2.0**-j
        yield Stated(f"second RD, test 1, j={j}", {1: 2.0**-22}, 2 - 2.0**-22, d, total, over)
    for j in range(28, 33):
        d = -2 - 2.0**-22 if j <= 30 else -2 - 2.0**-21
        p = {1: -(2.0**-21), 2: -(2.0**-22)}
        total = -power_sum(24, j)
        test = f"second RD, test 2, j={j}"
        yield Stated(test, p, -2 + 2.0**-21, d, total, over[1:])
    for j, d in ((31, ABOVE_ONE), (32, 1.0)):
        yield Stated(f"second RD keeps 31 bits, j={j}", {1: 2.0**-24, 2: 2.0**-j}, 1.0, d)
    total = -(2.0**-24 + power_sum(26, 32))
    over = (1, *over)
    yield Stated("second RD after normalisation", {}, 1.0, 1 - 2.0**-24, total, over)


def cancellation() -> Stated:
    """The exponent that aligns c is that of the largest product, though the products cancel."""
    return Stated("cancelled products align c", {1: 2.0**35, 2: -(2.0**35)}, 2.0**10, 0.0)


def product_overflow() -> Iterator[Stated]:
    """4.3.2: |p| >= 2^128 is an infinity, by its magnitude."""
    yield from both_signs(Stated("product of 2^128", {1: (2.0**64, 2.0**64)}, 0.0, INF))
    p = {1: (1.5 * 2.0**64, 1.5 * 2.0**63), 2: (1.5 * 2.0**64, -1.5 * 2.0**63)}
    yield Stated("products of 2.25*2^127", p, 0.0, MINUS_NAN)


def zero_c() -> Iterator[Stated]:
    """4.3.2, tests 1 and 2: c = 0 takes part with exponent -126."""
    for i in range(24):
        p = {1: 2.0**-150, 2: 2.0 ** (-152 - i)}
        d = 2.0**-149 if i < 6 else 0.0
        vector = Stated(f"c = 0 has exponent -126, i={i}", p, 0.0, d)
        yield from both_signs(vector, -(2.0**-149))


def subnormal_c(n_fma: int) -> Iterator[Stated]:
    """4.3.2: the second rounding is aware of subnormals."""
    over = tuple(range(1, n_fma + 1))
    c = 2.0**-127 - 2.0**-140
    for j in range(11):
        d = 2.0**-127 + (2.0**-149 if j <= 3 else 0.0)
        total = 2.0**-140 + 2.0**-150 + 2.0 ** (-154 - j)
        yield Stated(f"second RD with subnormal c, j={j}", {}, c, d, total, over)


def truncated_inputs() -> Iterator[Stated]:
    """4.3.3: operands keep 10 fraction bits."""
    a = 1 + 2.0**-10 + 2.0**-11
    for b in (1.0, -1.0):
        d = b * (1 + 2.0**-10)
        yield Stated(f"inputs are truncated, b={b:g}", {1: (a, b)}, 0.0, d)


def interleaving() -> Iterator[Stated]:
    """4.3.4: odd and even products are summed apart and joined rounding down."""
    values = (1.0, 0.0, 2.0**-24 + 2.0**-25)
    for vector in permuted("interleaving", values, ("p1", "p2", "p3"), 1.0):
        yield from both_signs(vector, -1.0 if vector.p[2] == 0 else -ABOVE_ONE)


def c_against_one_group() -> Iterator[Stated]:
    """4.3.4: c and p1, c and p2 as in 4.3.1, whichever is shifted."""
    for first, over in ((1, (1, 3, 5, 7)), (2, (2, 4, 6, 8))):
        for i in range(11):
            small = 2.0**-24 + 2.0 ** (-24 - i)
            test = f"c and p{first}, i={i}"
            d = ABOVE_ONE if i == 0 else 1.0
            vector = Stated(f"{test}, c shifted", {first: 1.0}, small, d)
            yield from both_signs(vector, -ABOVE_ONE)
            d = ABOVE_ONE if i < 8 else 1.0
            vector = Stated(f"{test}, product shifted", {}, 1.0, d, small, over)
            yield from both_signs(vector, -ABOVE_ONE)


def vanishing_c() -> Iterator[Stated]:
    """4.3.4: a c shifted by more than 25 bits is dropped, not rounded."""
    p = {1: 1.0, 2: 2.0**-24}
    for i in range(1, 149 - 24 + 1):
        vector = Stated(f"c shifted out, i={i}", p, 2.0 ** (-24 - i), 1.0)
        yield from both_signs(vector, -ABOVE_ONE if i == 1 else -1.0)
    for i in range(OPEN_END):
        c = 2.0**-24 + 2.0 ** (-25 - i)
        vector = Stated(f"c not quite shifted out, i={i}", {1: 1.0}, c, 1.0)
        yield from both_signs(vector, -ABOVE_ONE)


def groups_before_c() -> Iterator[Stated]:
    """4.3.4: the two groups are joined before c is added."""
    c = 2.0**-24 + 2.0**-25
    for vector in permuted("groups before c", (1.0, 2.0**-25), ("p1", "p2"), 1.0):
        with_c = Stated(f"{vector.test}, c={c.hex()}", vector.p, c, 1.0)
        yield from both_signs(with_c, -(1 + 2.0**-22))


def cancelled_group() -> Stated:
    """4.3.4: a group that cancels still has its exponent."""
    p = {1: (1.0, 1.0), 2: (2.0**5, 1.0), 4: (-(2.0**5), 1.0)}
    return Stated("cancelled group aligns c", p, 2.0**-20, 1.0)


def fp32() -> Iterator[Stated]:
    """Chain vectors of 4.1.1, to which 4.3 refers."""
    yield from final_rounding()
    yield from chain_order()


def fp16() -> Iterator[Stated]:
    """All vectors of 4.3.1."""
    yield from common(8)


def bf16() -> Iterator[Stated]:
    """All vectors of 4.3.2."""
    yield from common(8)
    yield from product_overflow()
    yield from zero_c()
    yield from subnormal_c(8)


def xf32() -> Iterator[Stated]:
    """All vectors of 4.3.3."""
    yield from common(4)
    yield from truncated_inputs()
    yield from zero_c()


def binary8() -> Iterator[Stated]:
    """All vectors of 4.3.4."""
    yield from interleaving()
    yield from block_size(16)
    yield from c_against_one_group()
    yield from vanishing_c()
    yield from groups_before_c()
    yield cancellation()
    yield cancelled_group()
