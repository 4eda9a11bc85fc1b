"""Fast kernels of :class:`~mfmamodels.accumulation.AlignedSum`: coverage and block functions.

Three layers: :mod:`~mfmamodels.kernels.aligned_blocks` walks over a panel and is what the driver
calls, :mod:`~mfmamodels.kernels.aligned_lanes` does the arithmetic of a vector of lanes, and
:mod:`~mfmamodels.kernels.aligned_exact` is for lanes outside the range in which that is right.
"""

from __future__ import annotations

import hashlib
from functools import cache

from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    EarlyC,
    LastC,
    LateC,
    Rounding,
    SecondRounding,
)
from mfmamodels.kernels.aligned_blocks import block_function, largest_sum
from mfmamodels.kernels.aligned_lanes import (
    DROP_LAST,
    HIGHEST,
    KEEP_ALL,
    LOWEST,
    NARROW_NOTHING,
    NORMALISE,
)
from mfmamodels.kernels.cache import compile_callback
from mfmamodels.kernels.driver import BLOCK_SIGNATURE, Kernel
from mfmamodels.kernels.operands import is_narrow


def _operands_fit(arith: Arithmetic) -> bool:
    """Whether a product of two operands is exact in float32 and the exponents have one type."""
    a, b = arith.a, arith.b
    return a.precision + b.precision <= 24 and is_narrow(a) == is_narrow(b)


def _late_is_covered(arith: Arithmetic, kind: AlignedSum, c: LateC) -> bool:
    largest = largest_sum(arith, kind.n_fma, 24)
    # A shift limit is applied to |c|, which is the same as to e_c only for a normal c.
    lowest = NARROW_NOTHING if is_narrow(arith.a) else LOWEST
    return (
        arith.out.name == "fp32"
        and kind.frac_bits == c.c_frac_bits == 24
        and c.rounding is Rounding.RD
        and kind.rounding is Rounding.RNE
        and kind.out_frac_bits in (UNLIMITED, 23)
        and kind.e_min == UNLIMITED
        and (c.zero_exponent == UNLIMITED or c.zero_exponent <= -126)
        and (c.c_max_shift == UNLIMITED or c.c_max_shift <= 125 + lowest)
        and (c.sum_frac_bits, c.second) in _FAR
        and (c.second is SecondRounding.NONE or c.second_frac_bits == 31)
        and (kind.interleave == 1 or kind.join_rounding is Rounding.RD)
        and largest < 1 << 30  # with a near c below 2**30, int32 holds the sum
        and largest >> 1 <= (1 << 29) - (1 << 25)  # see add_far
    )


#: Which of the three bits below c's grid survive, by sum_frac_bits and second rounding.
_FAR = {
    (31, SecondRounding.NONE): DROP_LAST,
    (32, SecondRounding.NONE): KEEP_ALL,
    (31, SecondRounding.BLIND): DROP_LAST,
    (32, SecondRounding.BLIND): DROP_LAST,
    (32, SecondRounding.NORMALISED): NORMALISE,
    (32, SecondRounding.SUBNORMAL_AWARE): NORMALISE,
}


def _early_is_covered(arith: Arithmetic, kind: AlignedSum) -> bool:
    bits = arith.out.fraction_bits if kind.out_frac_bits == UNLIMITED else kind.out_frac_bits
    short = kind.rounding is Rounding.RTZ and _exact_in_f32(arith, kind)
    return (
        arith.out.name in ("fp16", "fp32")
        and kind.frac_bits <= 25
        and kind.n_fma <= 32
        and (bits == arith.out.fraction_bits or (arith.out.name == "fp32" and short and bits <= 23))
        and (
            kind.rounding is Rounding.RNE
            or (kind.rounding is Rounding.RTZ and arith.out.name == "fp32")
        )
        and (kind.e_min == UNLIMITED or kind.e_min <= HIGHEST)
    )


def _exact_in_f32(arith: Arithmetic, kind: AlignedSum) -> bool:
    return largest_sum(arith, kind.n_fma, kind.frac_bits) + (2 << kind.frac_bits) <= 1 << 24


def is_covered(arith: Arithmetic) -> bool:
    """Whether the vector code gives exactly this record's bits; it reads fields, not devices."""
    kind = arith.accumulation
    if not isinstance(kind, AlignedSum) or not _operands_fit(arith):
        return False
    reaches = arith.a.emax + arith.b.emax + 2
    limit_fits = (
        kind.product_limit == UNLIMITED
        or kind.product_limit >= HIGHEST + 2
        or kind.product_limit >= reaches
    )
    if kind.align_rounding is not Rounding.RTZ or kind.normalised_products or not limit_fits:
        return False
    if isinstance(kind.c, LateC):
        return not kind.order and _late_is_covered(arith, kind, kind.c)
    if isinstance(kind.c, LastC):
        return (
            kind.c.rounding is Rounding.RNE
            and _early_is_covered(arith, kind)
            and len(kind.order) in (0, kind.c.products)
        )
    return isinstance(kind.c, EarlyC) and not kind.order and _early_is_covered(arith, kind)


# --- the kernel -----------------------------------------------------------------------------------


def kernel(arith: Arithmetic) -> Kernel | None:
    """The fast kernel of a record, or None where :func:`is_covered` says no."""
    if not is_covered(arith):
        return None
    kind = arith.accumulation
    group = kind.c.products if isinstance(kind.c, LastC) else kind.n_fma
    second = _FAR[kind.c.sum_frac_bits, kind.c.second] if isinstance(kind.c, LateC) else KEEP_ALL

    @cache
    def block(dots: bool) -> int:
        name = "aligned_" + ("dots_" if dots else "gemm_") + _fingerprint(arith)
        function = block_function(arith, second, dots)
        return compile_callback(function, BLOCK_SIGNATURE, name).address

    return Kernel(group, block)


def _fingerprint(arith: Arithmetic) -> str:
    return hashlib.sha256(repr(arith).encode()).hexdigest()[:20]
