"""Test vectors of paper section 4.1: CDNA1."""

from __future__ import annotations

from collections.abc import Iterator

from mfmamodels.characterise.vectors.stated import (
    INF,
    MINUS_NAN,
    Stated,
    both_signs,
    permuted,
    power_sum,
)

#: One and a half units in the last place of 1 in fp32.
UNIT_AND_HALF = 2.0**-23 + 2.0**-24
FP32_MAX = (2 - 2.0**-23) * 2.0**127


def final_rounding() -> Iterator[Stated]:
    """4.1.1: round to nearest, ties to even."""
    for c, d in ((UNIT_AND_HALF, 1 + 2.0**-22), (2.0**-24, 1.0)):
        yield from both_signs(Stated(f"final rounding, c={c.hex()}", {1: 1.0}, c, d))


def chain_order() -> Iterator[Stated]:
    """4.1.1: (((c + p1) + p2) + p3) + ..., one rounding each."""

    def after_c_and_p1(where: dict[str, float]) -> float:
        return 1 + 2.0**-23 if where["p2"] == 2.0**-23 else 1 + 2.0**-22

    small = (1.0, 2.0**-23, 2.0**-24)
    for vector in permuted("order of c, p1 and p2", small, ("c", "p1", "p2"), after_c_and_p1):
        yield from both_signs(vector)

    def last_is_one(where: dict[str, float]) -> float:
        return 1 + 2.0**-22 + 2.0**-23 if where["p3"] == 1 else 1 + 2.0**-21

    large = (1.0, UNIT_AND_HALF, UNIT_AND_HALF)
    yield from permuted("order of p1, p2 and p3", large, ("p1", "p2", "p3"), last_is_one)


def chain_products() -> Iterator[Stated]:
    """4.1.1, tests 1 to 3: products are not rounded before they are added."""
    tiny, half = 2.0**-149, 2.0**-150
    operands = (2.0**-126 + 2.0**-127, 2.0**-23)
    yield from both_signs(Stated("products in full, test 1", {1: operands}, 0.0, 2.0**-148))
    yield Stated("products in full, test 2", {1: tiny, 2: tiny + half}, 0.0, 2.0**-148)
    yield Stated("products in full, test 3", {1: tiny, 2: 2 * tiny + half}, 0.0, 2.0**-147)


def chain_specials() -> Iterator[Stated]:
    """4.1.1: infinities, the sign of NaN, subnormals."""
    overflow = {1: (FP32_MAX, 1.0), 2: (FP32_MAX, 1.0)}
    yield from both_signs(Stated("overflow gives infinity", overflow, 0.0, INF))
    yield opposite_infinities()
    yield from both_signs(Stated("subnormal input", {1: (2.0**-127, 1.0)}, 0.0, 2.0**-127))
    yield from both_signs(Stated("subnormal output", {1: (2.0**-65, 2.0**-65)}, 0.0, 2.0**-130))


def opposite_infinities() -> Stated:
    """4.1.1, 4.1.2, 4.1.3: a1 = -a2 = Inf."""
    return Stated("infinities of both signs", {1: (INF, 1.0), 2: (-INF, 1.0)}, 0.0, MINUS_NAN)


def subnormals() -> Iterator[Stated]:
    """4.1.2: subnormal operands and results are kept."""
    yield from both_signs(Stated("subnormal input", {1: (2.0**-24, 2.0**-24)}, 0.0, 2.0**-48))
    yield from subnormal_outputs()


def subnormal_outputs() -> Iterator[Stated]:
    """4.1.2: d = c for c = +-2^e, e <= -126."""
    for e in range(-126, -150, -1):
        yield from both_signs(Stated(f"subnormal output, e={e}", {}, 2.0**e, 2.0**e))


def no_chain() -> Iterator[Stated]:
    """4.1.2: all permutations give the same."""
    values = (1.0, UNIT_AND_HALF, UNIT_AND_HALF)
    yield from permuted("no chain", values, ("p1", "p2", "p3"), 1 + 2.0**-22 + 2.0**-23)


def block_size(n_fma: int, k: int) -> Iterator[Stated]:
    """4.1.2, 4.1.3: p_j joins c and p1 up to j = N_FMA."""
    for j in range(2, k + 1):
        d = 1 + 2.0**-22 + 2.0**-23 if j <= n_fma else 1 + 2.0**-21
        for c, p1 in ((1.0, UNIT_AND_HALF), (UNIT_AND_HALF, 1.0)):
            name = f"N_FMA, j={j}, c={c.hex()}"
            yield Stated(name, {1: p1, j: UNIT_AND_HALF}, c, d)


def exact_sum() -> Iterator[Stated]:
    """4.1.2, tests 1 to 3: no bit is lost in alignment."""
    places = ("c", "p1", "p2")
    for n in range(25):
        values = (1.0, 2.0**-24, 2.0 ** (-25 - n))
        yield from permuted(f"alignment, test 1, n_eab={n}", values, places, 1 + 2.0**-23)
    # c reaches down to the smallest fp32 number, products to 2^-48.
    for n in range(149 - 25 + 1):
        small = -(2.0 ** (-25 - n))
        test = f"alignment, test 2, n_eab={n}"
        for vector in permuted(test, (1.0, UNIT_AND_HALF, small), places, 1 + 2.0**-23):
            if n <= 48 - 25 or vector.c == small:
                yield vector
    for last in range(26, 49):
        four = (1.0, 2.0**-23, power_sum(25, last), 2.0**-last)
        test = f"alignment, test 3, L={last}"
        for vector in permuted(test, four, ("c", "p1", "p2", "p3"), 1 + 2.0**-22):
            yield from both_signs(vector)


def infinities() -> Iterator[Stated]:
    """4.1.2: infinities among the operands."""
    yield from both_signs(Stated("infinite operand", {1: (INF, 1.0)}, 0.0, INF))
    yield opposite_infinities()


def wide_products() -> Iterator[Stated]:
    """4.1.3: products are kept in full, far beyond fp32's range."""
    tiny, half = 2.0**-149, 2.0**-150
    first = Stated("products in full, test 1", {1: tiny + half, 2: tiny}, 0.0, 2.0**-148)
    yield from both_signs(first)
    second = Stated("products in full, test 2", {1: 2 * tiny + half, 2: tiny}, 0.0, 2.0**-147)
    yield from both_signs(second)
    for n in range(266 - 25 + 1):
        p = {1: UNIT_AND_HALF, 2: -(2.0 ** (-25 - n))}
        yield from both_signs(Stated(f"alignment, n_eab={n}", p, 1.0, 1 + 2.0**-23))
    below = {1: power_sum(151, 156), 2: 2.0**-156}
    yield from both_signs(Stated("products below 2^-149 count", below, 2.0**-149, 2.0**-148))


def infinities_and_overflow() -> Iterator[Stated]:
    """4.1.3: an infinity is one by its operand; a product beyond 2^128 is none."""
    infinite = Stated("infinite operand, small factor", {1: (INF, 2.0**-20)}, 0.0, INF)
    yield from both_signs(infinite)
    beyond = {1: (2.0**65, 2.0**64), 2: (2.0**65, -(2.0**64))}
    yield Stated("products of 2^129 cancel", beyond, 0.0, 0.0)
    yield opposite_infinities()


def fp32() -> Iterator[Stated]:
    """All vectors of 4.1.1."""
    yield from final_rounding()
    yield from chain_order()
    yield from chain_products()
    yield from chain_specials()


def fp16() -> Iterator[Stated]:
    """All vectors of 4.1.2."""
    yield from subnormals()
    yield from final_rounding()
    yield from no_chain()
    yield from block_size(4, 16)
    yield from exact_sum()
    yield from infinities()


def bf16() -> Iterator[Stated]:
    """All vectors of 4.1.3."""
    yield from block_size(2, 8)
    yield from subnormal_outputs()
    yield from final_rounding()
    yield from wide_products()
    yield from infinities_and_overflow()
