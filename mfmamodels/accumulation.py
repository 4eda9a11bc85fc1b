"""How a matrix core sums products: the kinds of accumulation as small immutable records.

All kinds compute ``d = a[0]*b[0] + ... + a[K-1]*b[K-1] + c`` in blocks of ``n_fma`` products (the
paper's N_FMA); the result of one block is the ``c`` of the next, and K is padded with zero
products. They differ in what happens inside a block. Each field is explained here and nowhere
else, with its section of the paper; kernels and reference read fields and never ask which device
they model.

Exponents are those of the leading significand bit (1.0 has exponent 0). The exponent of a product
is the sum of its operands' exponents, where a subnormal operand has its format's ``emin``; so
products are *un-normalised*, with significands in [0, 4).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import Final

from mfmamodels.formats import Format, Rounding


class Unlimited(StrEnum):
    """A width or limit that does not exist in the hardware."""

    UNLIMITED = "unlimited"

    def __repr__(self) -> str:
        return "UNLIMITED"


UNLIMITED: Final = Unlimited.UNLIMITED
Bits = int | Unlimited


def _one_of(record: object, field: str, kind: type[StrEnum]) -> None:
    value = getattr(record, field)
    if value not in tuple(kind):
        allowed = ", ".join(repr(str(k)) for k in kind)
        raise ValueError(f"{type(record).__name__}.{field} is {value!r}; allowed: {allowed}")
    object.__setattr__(record, field, kind(value))  # canonical form: "rne" equals Rounding.RNE


def _integer(
    record: object, field: str, low: int, high: int, why: str, *, unlimited: bool = False
) -> None:
    value = getattr(record, field)
    if unlimited and value == UNLIMITED:
        object.__setattr__(record, field, UNLIMITED)
        return
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        also = ", or UNLIMITED" if unlimited else ""
        raise ValueError(
            f"{type(record).__name__}.{field} is {value!r}; "
            f"allowed: an integer from {low} to {high}{also} ({why})"
        )


@dataclass(frozen=True)
class FmaChain:
    """Fused multiply-adds in order of k, starting from c (paper 4.1.1: fp32; fp64).

    Each step is the correctly rounded IEEE operation; subnormals are kept.
    """

    rounding: Rounding = Rounding.RNE  #: of every step

    def __post_init__(self) -> None:
        _one_of(self, "rounding", Rounding)

    @property
    def n_fma(self) -> int:
        """One product per step."""
        return 1


@dataclass(frozen=True)
class ExactSum:
    """Exact (Kulisch) sum of ``n_fma`` products and c, one rounding (paper 4.1.2, 4.1.3: CDNA1).

    Products are never rounded nor limited; only the block's result can overflow.
    """

    n_fma: int
    rounding: Rounding = Rounding.RNE  #: of the block's result (4.1.2)

    def __post_init__(self) -> None:
        _integer(self, "n_fma", 1, 64, "products in one addition")
        _one_of(self, "rounding", Rounding)


@dataclass(frozen=True)
class PairwiseSum:
    """Balanced tree of IEEE additions over ``n_fma`` rounded products, then c (paper 4.2: CDNA2).

    For four products ``fl(c + fl(fl(p1 + p2) + fl(p3 + p4)))``, where every product is first
    rounded to the output format.
    """

    n_fma: int
    #: Subnormal operands (a, b and c), rounded products and rounded sums become zeros of
    #: their sign (4.2.1, 4.2.2). A sum is judged after rounding.
    flush: bool = True
    rounding: Rounding = Rounding.RNE  #: of products and sums (4.2.1)

    def __post_init__(self) -> None:
        _integer(self, "n_fma", 1, 64, "a power of two")
        if self.n_fma & (self.n_fma - 1):
            raise ValueError(
                f"PairwiseSum.n_fma is {self.n_fma}; a balanced tree needs a power of two"
            )
        _one_of(self, "rounding", Rounding)


@dataclass(frozen=True)
class EarlyC:
    """c is aligned and added together with the products (NVIDIA tensor cores).

    A zero c takes no part in the largest exponent.
    """


class SecondRounding(StrEnum):
    """What is rounded a second time after a shifted product sum has met c (4.3.1, 4.3.2)."""

    NONE = "none"  #: nothing
    BLIND = "blind"  #: the un-normalised sum, at fraction bit ``bits`` below c's exponent
    NORMALISED = "normalised"  #: the sum normalised without a lowest exponent
    SUBNORMAL_AWARE = "subnormal-aware"  #: normalised, the exponent not below the format's emin


@dataclass(frozen=True)
class LateC:
    """c is added to the un-normalised sum of the block's products (CDNA3, Algorithms 1 and 2).

    The operand with the smaller exponent is shifted right and rounded: c to ``c_frac_bits`` below
    the products' largest exponent, or the product sum to ``sum_frac_bits`` below c's.
    """

    c_frac_bits: Bits = 24  #: fraction bits kept of a shifted c (Algorithm 1 line 7)
    sum_frac_bits: Bits = 32  #: fraction bits kept of a shifted product sum (line 10)
    rounding: Rounding = Rounding.RD  #: of either shift and of the second rounding
    #: A c shifted by more than this becomes 0 instead of being rounded (Algorithm 2 line 11).
    c_max_shift: Bits = UNLIMITED
    #: After a shifted product sum was added, the sum is rounded again (line 12, 13) ...
    second: SecondRounding = SecondRounding.SUBNORMAL_AWARE
    second_frac_bits: int = 31  #: ... to this many fraction bits
    #: Exponent with which c = 0 takes part (4.3.2 item 3); UNLIMITED: it takes no part.
    zero_exponent: Bits = -126

    def __post_init__(self) -> None:
        why = "fraction bits below the larger exponent"
        _integer(self, "c_frac_bits", 0, 48, why, unlimited=True)
        _integer(self, "sum_frac_bits", 0, 48, why, unlimited=True)
        _integer(self, "second_frac_bits", 0, 48, "fraction bits after the second rounding")
        _integer(self, "c_max_shift", 0, 600, "a shift in bits", unlimited=True)
        _integer(self, "zero_exponent", -1100, 1100, "an exponent", unlimited=True)
        _one_of(self, "rounding", Rounding)
        _one_of(self, "second", SecondRounding)
        if self.second is SecondRounding.NONE:
            object.__setattr__(self, "second_frac_bits", 0)  # means nothing: one canonical form


@dataclass(frozen=True)
class LastC:
    """c is added last, in one addition of its own (fp8 through ``mma.sync``).

    ``products`` products (all those of one instruction) are summed in blocks that start from
    zero, each block's rounded result entering the next as an early c; then ``c`` is added.
    """

    products: int  #: products per instruction, a multiple of ``n_fma``
    rounding: Rounding = Rounding.RNE  #: of that last addition

    def __post_init__(self) -> None:
        _integer(self, "products", 1, 256, "products of one instruction")
        _one_of(self, "rounding", Rounding)


CAddition = EarlyC | LateC | LastC


@dataclass(frozen=True)
class AlignedSum:
    """Fixed-point sum of products aligned to the largest exponent (NVIDIA; CDNA3, 4.3).

    Zero products take no part in the largest exponent. A block whose products are all zero gives
    c (rounded as any result is). An exactly zero sum is +0.
    """

    n_fma: int
    #: Fraction bits kept below the largest exponent (Table 3 "Prd. Align.": 23 + n_eab). A sum
    #: without this limit is an ExactSum.
    frac_bits: int
    c: CAddition
    rounding: Rounding  #: of the block's result to the output format (Table 3 "out. round.")
    #: Of an aligned product, and of an early c (4.3.1: truncation).
    align_rounding: Rounding = Rounding.RTZ
    #: 1, or 2 where even and odd k are aligned and summed apart and then joined (4.3.4).
    interleave: int = 1
    #: Of either partial sum when the two are joined (Algorithm 2 line 7).
    join_rounding: Rounding = Rounding.RD
    #: |p| >= 2**product_limit becomes an infinity (4.3.2; Table 3 "|p_i|-overflow").
    product_limit: Bits = UNLIMITED
    #: Alignment never looks below this exponent (Table 3 "e_min^lim" of NVIDIA).
    e_min: Bits = UNLIMITED
    #: Fraction bits of a result; fewer than the format's on Hopper's and Ada's fp8.
    out_frac_bits: Bits = UNLIMITED
    #: Whether products are normalised before alignment (no known core; 4.3.1's test is for it).
    normalised_products: bool = False
    #: Order in which products enter blocks: position i of a run of len(order) products takes the
    #: product order[i] of that run. Empty: as they come.
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _integer(self, "n_fma", 1, 64, "products in one addition")
        _integer(self, "frac_bits", 1, 48, "fraction bits; for an unlimited width use ExactSum")
        _integer(self, "interleave", 1, 2, "1, or 2 for even and odd apart")
        _integer(self, "product_limit", -1100, 2100, "an exponent", unlimited=True)
        _integer(self, "e_min", -2200, 1100, "an exponent", unlimited=True)
        _integer(self, "out_frac_bits", 1, 52, "fraction bits of the result", unlimited=True)
        for field in ("rounding", "align_rounding", "join_rounding"):
            _one_of(self, field, Rounding)
        if not isinstance(self.c, EarlyC | LateC | LastC):
            raise ValueError(
                f"AlignedSum.c is {self.c!r}; allowed: EarlyC(), LateC(...), LastC(...)"
            )
        self._check_combination()

    def _check_combination(self) -> None:
        if self.interleave == 2 and self.n_fma % 2:
            raise ValueError(
                f"AlignedSum.interleave is 2 but n_fma is {self.n_fma}: even and odd "
                "products need an even number"
            )
        if self.interleave == 2 and not isinstance(self.c, LateC):
            raise ValueError(
                "AlignedSum.interleave is 2 with c not late: partial sums are joined "
                "before c is added, so c must be LateC"
            )
        if self.interleave == 1:
            object.__setattr__(self, "join_rounding", Rounding.RD)  # means nothing: canonical
        order = tuple(self.order)
        if order == tuple(range(len(order))):
            order = ()
        if order and sorted(order) != list(range(len(order))):
            raise ValueError(
                f"AlignedSum.order is {order}: not a permutation of 0..{len(order) - 1}"
            )
        if len(order) % self.n_fma:
            raise ValueError(
                f"AlignedSum.order has {len(order)} entries, no multiple of n_fma = {self.n_fma}"
            )
        object.__setattr__(self, "order", order)
        if isinstance(self.c, LastC) and self.c.products % self.n_fma:
            raise ValueError(
                f"LastC.products is {self.c.products}, no multiple of n_fma = {self.n_fma}"
            )
        if isinstance(self.c, LastC) and order and self.c.products % len(order):
            raise ValueError(
                f"AlignedSum.order has {len(order)} entries, which do not divide the "
                f"{self.c.products} products of an instruction (LastC.products)"
            )


Accumulation = FmaChain | ExactSum | PairwiseSum | AlignedSum


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """All that decides the bits of a result: formats, kind of accumulation, NaN.

    Attributes
    ----------
    a, b : Format
        Formats of the operands.
    out : Format
        Format of c and d.
    accumulation : Accumulation
        One of the kinds of this module.
    nan : int
        Code of every NaN result.
    """

    a: Format
    b: Format
    out: Format
    accumulation: Accumulation
    nan: int

    # Records are keys of caches that every product asks, so their hash is kept. It does not go to
    # other processes, whose strings have other hashes.
    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, f.name) for f in fields(self)))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    def __post_init__(self) -> None:
        if not isinstance(self.accumulation, FmaChain | ExactSum | PairwiseSum | AlignedSum):
            raise ValueError(
                f"accumulation is {self.accumulation!r}; allowed: FmaChain, ExactSum, "
                "PairwiseSum or AlignedSum"
            )
        if not self.out.has_inf:
            raise ValueError(
                f"out is {self.out}: a format with infinities is needed, since sums overflow"
            )
        if self.out.name not in ("fp16", "fp32", "fp64"):
            raise ValueError(f"out is {self.out}; allowed: fp16, fp32, fp64")
        kind = self.accumulation
        if self.out.name == "fp64" and not isinstance(kind, FmaChain):
            raise ValueError(
                f"out is fp64 with {type(kind).__name__}: only FmaChain is known there"
            )
        if "fp64" in (self.a.name, self.b.name) and self.out.name != "fp64":
            raise ValueError(f"operands in fp64 need out in fp64, not {self.out}")
