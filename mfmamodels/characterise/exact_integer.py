"""A second opinion: every kind of accumulation in integers, with one wide fixed-point register.

Slow beside the kernels, plain beside them, and sharing no code with them nor with the reference:
it decodes, aligns, sums and rounds by itself. A number is a sign, an integer m and an exponent q
of its unit (``m * 2**q``); sums meet in a register of 704 bits in which every sum of products below
fp64 is exact (a Kulisch accumulator). It is fast enough for ten million rows of validation.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    Bits,
    ExactSum,
    LastC,
    LateC,
    PairwiseSum,
    SecondRounding,
)
from mfmamodels.characterise._integer_blocks import (
    NONE,
    TERM,
    AlignedWidths,
    Layout,
    aligned_row,
    exact_row,
    pairwise_row,
)
from mfmamodels.characterise._wide import SIZE
from mfmamodels.formats import Format, Rounding, Specials


def dots(core: Arithmetic, a: NDArray, b: NDArray, c: NDArray | None, out: NDArray) -> None:
    """Independent dot products on codes, like :func:`mfmamodels.reference.dots`.

    Parameters
    ----------
    core : Arithmetic
        Any core but a chain of fused multiply-adds, and none with fp64.
    a, b : ndarray of unsigned int
        Codes, shape (rows, K).
    c : ndarray of unsigned int, or None
        Codes, shape (rows,); None means zero.
    out : ndarray of unsigned int
        Codes, shape (rows,), written.

    Raises
    ------
    ValueError
        For a core it does not cover: an fma is one operation of IEEE 754, with nothing of a device
        in it that a second opinion could be about; and alignment exponents above 200 (none is
        known above -19) leave its register.
    """
    if a.shape[1] == 0:
        out[:] = 0 if c is None else c
        return
    addend = np.zeros(out.shape, out.dtype) if c is None else c
    formats = (_layout(core.a), _layout(core.b), _layout(core.out), np.int64(core.nan))
    rounding = _CODES[core.accumulation.rounding]
    match core.accumulation:
        case AlignedSum() as kind:
            order = np.array(kind.order or range(kind.n_fma), np.int64)
            _aligned(a, b, addend, out, formats, _widths(kind), order)
        case ExactSum(n_fma=n_fma):
            _exact(a, b, addend, out, formats, n_fma, rounding)
        case PairwiseSum(n_fma=n_fma, flush=flush):
            _pairwise(a, b, addend, out, formats, n_fma, rounding, flush)
        case kind:
            raise ValueError(
                f"the second opinion is about sums of several products, not about {kind!r}; "
                "compare that with the reference"
            )


_CODES = {rounding: code for code, rounding in enumerate(Rounding)}
_SECOND = {second: code for code, second in enumerate(SecondRounding)}
_SPECIALS = {specials: code for code, specials in enumerate(Specials)}


def _layout(fmt: Format) -> Layout:
    return Layout(
        fmt.precision,
        fmt.emin,
        fmt.ignored_bits,
        fmt.width - 1,
        _SPECIALS[fmt.specials],
        # The first code that is no finite number any more.
        (fmt.max_code | ((1 << fmt.ignored_bits) - 1)) + 1,
    )


def _bits(value: Bits) -> int:
    return NONE if value == UNLIMITED else int(value)


def _widths(kind: AlignedSum) -> AlignedWidths:
    late = kind.c if isinstance(kind.c, LateC) else LateC()
    for name, exponent in (("e_min", kind.e_min), ("zero_exponent", late.zero_exponent)):
        if exponent != UNLIMITED and exponent > 200:
            raise ValueError(
                f"{name} is {exponent}; allowed for the second opinion: 200 at most, or UNLIMITED"
            )
    return AlignedWidths(
        n_fma=kind.n_fma,
        frac=kind.frac_bits,
        align=_CODES[kind.align_rounding],
        interleave=kind.interleave,
        join=_CODES[kind.join_rounding],
        limit=_bits(kind.product_limit),
        e_min=_bits(kind.e_min),
        out_frac=_bits(kind.out_frac_bits),
        rounding=_CODES[kind.rounding],
        normalised=kind.normalised_products,
        late=isinstance(kind.c, LateC),
        c_frac=_bits(late.c_frac_bits),
        sum_frac=_bits(late.sum_frac_bits),
        late_rounding=_CODES[late.rounding],
        c_max_shift=_bits(late.c_max_shift),
        second=_SECOND[late.second],
        second_frac=late.second_frac_bits,
        zero_exponent=_bits(late.zero_exponent),
        last=kind.c.products if isinstance(kind.c, LastC) else 0,
        last_rounding=_CODES[kind.c.rounding if isinstance(kind.c, LastC) else Rounding.RNE],
    )


@njit(cache=True, nogil=True)
def _aligned(a, b, c, out, formats, widths, order):
    limbs = np.zeros(SIZE, np.int64)
    terms = np.zeros((widths.n_fma + 1, TERM), np.int64)
    for row in range(out.size):
        addend = np.int64(c[row])
        out[row] = aligned_row(limbs, terms, a[row], b[row], addend, formats, widths, order)


@njit(cache=True, nogil=True)
def _exact(a, b, c, out, formats, n_fma, rounding):
    limbs = np.zeros(SIZE, np.int64)
    for row in range(out.size):
        out[row] = exact_row(limbs, a[row], b[row], np.int64(c[row]), formats, n_fma, rounding)


@njit(cache=True, nogil=True)
def _pairwise(a, b, c, out, formats, n_fma, rounding, flush):
    limbs = np.zeros(SIZE, np.int64)
    level = np.zeros(n_fma, np.int64)
    for row in range(out.size):
        out[row] = pairwise_row(
            limbs, level, a[row], b[row], np.int64(c[row]), formats, rounding, flush
        )
