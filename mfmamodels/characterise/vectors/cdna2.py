"""Test vectors of paper section 4.2: CDNA2. Those of fp32 are the ones of 4.1.1."""

from __future__ import annotations

from collections.abc import Iterator

from mfmamodels.characterise.vectors.cdna1 import UNIT_AND_HALF, final_rounding
from mfmamodels.characterise.vectors.stated import INF, MINUS_NAN, Stated, both_signs, permuted


def flush() -> Iterator[Stated]:
    """4.2.1: subnormals become zero, in the input and in the output."""
    for e in range(-127, -150, -1):
        yield from both_signs(Stated(f"subnormal c, e={e}", {}, 2.0**e, 0.0))
    yield Stated("subnormal operand", {1: (2.0**-24, 1.0)}, 0.0, 0.0)


def no_common_alignment() -> Iterator[Stated]:
    """4.2.1, test 1: permutations of c, p1 and p2 differ."""
    values = (1.0, UNIT_AND_HALF, UNIT_AND_HALF)
    yield from permuted("tree, test 1", values, ("c", "p1", "p2"), None)


def group_size(group: int, k: int) -> Iterator[Stated]:
    """4.2.1, test 2: p_j is added to p1 before c up to j = the size of a group."""
    for j in range(2, k + 1):
        d = 1 + 2.0**-22 + 2.0**-23 if j <= group else 1 + 2.0**-21
        yield Stated(f"tree, test 2, j={j}", {1: UNIT_AND_HALF, j: UNIT_AND_HALF}, 1.0, d)


def tree_of_four() -> Iterator[Stated]:
    """4.2.1, tests 3 and 4: fl(c + fl(fl(p1 + p2) + fl(p3 + p4)))."""
    x = UNIT_AND_HALF
    for one in (1, 2):
        p = {one: 1.0, 3: x, 4: x}
        yield Stated(f"tree, test 3, p{one}=1", p, 0.0, 1 + 2.0**-22 + 2.0**-23)
    p = {1: 1.0, 2: x, 3: 1.0, 4: x}
    yield Stated("tree, test 4", p, 0.0, 2 + 2.0**-21)
    c = 2.0**-23 + 2.0**-25
    yield Stated("tree, test 4 with c", p, c, 2 + 2.0**-21 + 2.0**-22)


def opposite_infinities() -> Stated:
    """4.2.1: a1 = a2 = 1, b1 = -b2 = Inf."""
    return Stated("infinities of both signs", {1: (1.0, INF), 2: (1.0, -INF)}, 0.0, MINUS_NAN)


def products_in_fp32() -> Iterator[Stated]:
    """4.2.2: products are rounded to fp32 and flushed."""
    p = {1: (2.0**64, 2.0**64), 2: (-(2.0**64), 2.0**64)}
    yield Stated("products of 2^128 overflow", p, 0.0, MINUS_NAN)
    p = {1: (2.0**-64, 2.0**-63), 2: (2.0**-63, 2.0**-64)}
    yield Stated("subnormal products are flushed", p, 0.0, 0.0)


def infinities() -> Iterator[Stated]:
    """4.2.2: infinities in a, b and c."""
    yield from both_signs(Stated("infinite b", {1: (1.0, INF)}, 0.0, INF), -INF)
    yield from both_signs(Stated("infinite a", {1: (INF, 1.0)}, 0.0, INF))
    yield from both_signs(Stated("infinite c", {}, INF, INF))
    yield opposite_infinities()
    p = {1: (1.0, -INF), 2: (1.0, INF)}
    yield Stated("infinities of both signs, the negative first", p, 0.0, MINUS_NAN)


def fp16() -> Iterator[Stated]:
    """All vectors of 4.2.1."""
    yield from flush()
    yield from final_rounding()
    yield from no_common_alignment()
    yield from group_size(4, 16)
    yield from tree_of_four()
    yield opposite_infinities()


def bf16() -> Iterator[Stated]:
    """All vectors of 4.2.2 for instructions without ``_1k``: groups of 2."""
    yield from final_rounding()
    yield from no_common_alignment()
    yield from group_size(2, 8)
    yield from products_in_fp32()
    yield from infinities()


def bf16_1k() -> Iterator[Stated]:
    """All vectors of 4.2.2 for instructions with ``_1k``: groups of 4."""
    yield from final_rounding()
    yield from no_common_alignment()
    yield from group_size(4, 16)
    yield from tree_of_four()
    yield from products_in_fp32()
    yield from infinities()
