"""What the code of an aligned sum depends on, and which records it covers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    CAddition,
    LastC,
    LateC,
    Rounding,
    SecondRounding,
)
from mfmamodels.kernels.aligned_lanes import (
    DROP_LAST,
    HIGHEST,
    KEEP_ALL,
    LOWEST,
    NARROW_NOTHING,
    NORMALISE,
)
from mfmamodels.kernels.operands import is_narrow

# How large a sum of aligned products can get.
EXACT = "exact"  #: float32 holds the sum and c exactly
SAFE = "safe"  #: int32 holds the sum and c
CHECKED = "checked"  #: int32 holds the sum; adding c may pass its range
HALVED = "halved"  #: int32 holds the sum of half of the products

#: Which of the three bits below c's grid survive (see ``aligned_lanes.far_sticky``), by
#: sum_frac_bits and second rounding.
_FAR = {
    (31, SecondRounding.NONE): DROP_LAST,
    (32, SecondRounding.NONE): KEEP_ALL,
    (31, SecondRounding.BLIND): DROP_LAST,
    (32, SecondRounding.BLIND): DROP_LAST,
    (32, SecondRounding.NORMALISED): NORMALISE,
    (32, SecondRounding.SUBNORMAL_AWARE): NORMALISE,
}

_DOWN_OR_TRUNCATED = (Rounding.RD, Rounding.RTZ)


@dataclass(frozen=True)
class Recipe:
    """A record reduced to what changes the code; records with one recipe share compiled code.

    Attributes are those of :class:`~mfmamodels.accumulation.AlignedSum` but for

    narrow : bool
        Whether operands have short exponents (:mod:`mfmamodels.kernels.operands`).
    limit, e_min : int or None
        None where there is none, or where no operand reaches it.
    out_bits, out_emin, out_emax : int
        The output format, with the fraction bits that a result has.
    sums : str
        One of the constants of this module.
    """

    narrow: bool
    n_fma: int
    frac_bits: int
    c: CAddition
    rounding: Rounding
    interleave: int
    join_rounding: Rounding
    limit: int | None
    e_min: int | None
    out_bits: int
    out_emin: int
    out_emax: int
    order: tuple[int, ...]
    sums: str

    @property
    def group(self) -> int:
        """Products of one call: a block, or an instruction whose c is added last."""
        return self.c.products if isinstance(self.c, LastC) else self.n_fma

    @property
    def parts(self) -> tuple[tuple[int, int, int], ...]:
        """Places (first, last, step) of products that are aligned together."""
        n = self.n_fma
        return tuple(
            (start + i, start + n, self.interleave)
            for start in range(0, self.group, n)
            for i in range(self.interleave)
        )

    @property
    def half(self) -> bool:
        """Whether the output format is fp16."""
        return self.out_emax == 15

    @property
    def far(self) -> int:
        """What survives of a product sum shifted under a late c."""
        return _FAR[self.c.sum_frac_bits, self.c.second]


def recipe(arith: Arithmetic) -> Recipe | None:
    """The recipe of a record, or None where the vector code does not give its bits."""
    kind = arith.accumulation
    if not isinstance(kind, AlignedSum) or not _is_covered(arith, kind):
        return None
    narrow = is_narrow(arith.a)
    c = kind.c
    reached = arith.a.emax + arith.b.emax + 2
    limit = None if kind.product_limit in (UNLIMITED, reached) else kind.product_limit
    e_min = None if kind.e_min == UNLIMITED else kind.e_min
    if narrow:  # all products and every fp32 c lie above
        e_min = None if e_min is not None and e_min <= -126 else e_min
        c = replace(c, zero_exponent=-126) if isinstance(c, LateC) else c
    bits = arith.out.fraction_bits
    return Recipe(
        narrow=narrow,
        n_fma=kind.n_fma,
        frac_bits=kind.frac_bits,
        c=c,
        rounding=kind.rounding,
        interleave=kind.interleave,
        join_rounding=kind.join_rounding,
        limit=None if limit is not None and limit >= reached else limit,
        e_min=e_min,
        out_bits=bits if kind.out_frac_bits == UNLIMITED else kind.out_frac_bits,
        out_emin=arith.out.emin,
        out_emax=arith.out.emax,
        order=kind.order,
        sums=SAFE if isinstance(c, LateC) else _sums(arith, kind),
    )


def _largest_sum(arith: Arithmetic, kind: AlignedSum) -> int:
    """Upper bound of |sum of a block's aligned products| in units of the alignment."""
    a, b = arith.a.fraction_bits, arith.b.fraction_bits
    largest = ((2 << a) - 1) * ((2 << b) - 1)  # in units of 2**-(a + b)
    return kind.n_fma * ((largest << kind.frac_bits) >> (a + b))


def _sums(arith: Arithmetic, kind: AlignedSum) -> str:
    products, c = _largest_sum(arith, kind), 2 << kind.frac_bits
    if products + c <= 1 << 24:
        return EXACT
    if products + c < 1 << 31:
        return SAFE
    return CHECKED if products < 1 << 31 else HALVED


def _is_covered(arith: Arithmetic, kind: AlignedSum) -> bool:
    a, b = arith.a, arith.b
    products_fit = a.precision + b.precision <= 24 and is_narrow(a) == is_narrow(b)
    # Vector code never looks at the limit: it must lie beyond the operands or the code's range.
    limit_fits = kind.product_limit == UNLIMITED or kind.product_limit >= min(
        HIGHEST + 2, a.emax + b.emax + 2
    )
    if (
        not (products_fit and limit_fits)
        or kind.align_rounding is not Rounding.RTZ
        or kind.normalised_products
    ):
        return False
    if isinstance(kind.c, LateC):
        return not kind.order and _late_is_covered(arith, kind, kind.c)
    if isinstance(kind.c, LastC):
        return (
            kind.c.rounding is Rounding.RNE
            and len(kind.order) in (0, kind.c.products)
            and _early_is_covered(arith, kind)
        )
    return not kind.order and _early_is_covered(arith, kind)


def _late_is_covered(arith: Arithmetic, kind: AlignedSum, c: LateC) -> bool:
    largest = _largest_sum(arith, kind)
    # A shift limit is applied to |c|, which is the same as to e_c only for a normal c.
    lowest = NARROW_NOTHING if is_narrow(arith.a) else LOWEST
    return (
        arith.out.name == "fp32"
        and kind.frac_bits == c.c_frac_bits == 24
        and c.rounding in _DOWN_OR_TRUNCATED
        and (c.rounding is Rounding.RD or _FAR.get((c.sum_frac_bits, c.second)) == NORMALISE)
        and kind.join_rounding in _DOWN_OR_TRUNCATED
        and kind.rounding is Rounding.RNE
        and kind.out_frac_bits in (UNLIMITED, 23)
        and kind.e_min == UNLIMITED
        and (c.zero_exponent == UNLIMITED or c.zero_exponent <= -126)
        and (c.c_max_shift == UNLIMITED or c.c_max_shift <= 125 + lowest)
        and (c.sum_frac_bits, c.second) in _FAR
        and (c.second is SecondRounding.NONE or c.second_frac_bits == 31)
        and largest < 1 << 30  # with a near c below 2**30, int32 holds the sum
        and largest >> 1 <= (1 << 29) - (1 << 25)  # see aligned_lanes.add_far
    )


def _early_is_covered(arith: Arithmetic, kind: AlignedSum) -> bool:
    out = arith.out
    bits = out.fraction_bits if kind.out_frac_bits == UNLIMITED else kind.out_frac_bits
    truncates = kind.rounding is Rounding.RTZ and out.name == "fp32"
    shortened = bits < out.fraction_bits and truncates and _sums(arith, kind) == EXACT
    return (
        out.name in ("fp16", "fp32")
        and kind.frac_bits <= 25
        and kind.n_fma <= 32
        and (bits == out.fraction_bits or shortened)
        and (kind.rounding is Rounding.RNE or truncates)
        and (kind.e_min == UNLIMITED or kind.e_min <= HIGHEST)
    )
