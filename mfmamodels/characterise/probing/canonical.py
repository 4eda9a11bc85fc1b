"""One form for records that are the same arithmetic, so that they can be compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    LastC,
    LateC,
    SecondRounding,
)
from mfmamodels.formats import Rounding

_NO_LIMIT = 10_000  # wider than any width


def may_drop(
    second: NDArray,
    sum_bits: ArrayLike,
    second_bits: ArrayLike,
    kind: AlignedSum,
    fraction_bits: int,
    *,
    directed: bool,
) -> NDArray[np.bool_]:
    """Which second roundings do something that no other record says more simply.

    Parameters
    ----------
    second : ndarray
        0 for none, 1 for blind, else a normalised kind.
    sum_bits, second_bits : array_like of int
        Fraction bits of the shifted sum and of the second rounding.
    kind : AlignedSum
        Gives ``n_fma`` and ``frac_bits``.
    fraction_bits : int
        Of the output format, thus of c.
    directed : bool
        Whether the shifts round in one direction.

    Notes
    -----
    Let c have exponent 0. A blind second rounding drops bits only of c or of the sum; in a
    direction, and no coarser than c, it is the same as one rounding of the sum to the smaller
    width. A normalised one can drop more where the sum is large: n products, below it in exponent
    and each below 4, are together below 2n, so the exponent rises by at most log2(2n + 2). But the
    sum's own lowest bit lies ``frac_bits`` below the products' exponent, which is at most log2(4n)
    below that of such a sum.
    """
    second, sum_bits, second_bits = (np.asarray(x) for x in (second, sum_bits, second_bits))
    finest = np.maximum(sum_bits, fraction_bits)
    blind = second_bits < (fraction_bits if directed else finest)
    rise = (2 * kind.n_fma + 2).bit_length() - 1
    large = np.maximum(fraction_bits + rise, kind.frac_bits + (4 * kind.n_fma).bit_length())
    normalised = (second_bits <= finest) | (second_bits < np.minimum(large, finest + rise))
    return np.where(second == 0, second_bits == 0, np.where(second == 1, blind, normalised))


def useful_second(
    base: Arithmetic, second: NDArray, sum_bits: NDArray, second_bits: NDArray
) -> NDArray[np.bool_]:
    """:func:`may_drop` for a grid of second, sum_frac_bits and second_frac_bits."""
    kind = base.accumulation
    assert isinstance(kind, AlignedSum) and isinstance(kind.c, LateC)
    directed = kind.c.rounding is not Rounding.RNE
    return may_drop(second, sum_bits, second_bits, kind, base.out.fraction_bits, directed=directed)


def canonical(record: Arithmetic) -> Arithmetic:
    """The same arithmetic in the form that a probe reports.

    Positions within a block are sorted (apart by parity where even and odd are), a width of the
    result that the format has anyway is unlimited, a second rounding that changes nothing is none.
    """
    kind = record.accumulation
    if not isinstance(kind, AlignedSum):
        return record
    changes: dict = {"order": _sorted_order(kind)}
    if kind.out_frac_bits != UNLIMITED and int(kind.out_frac_bits) >= record.out.fraction_bits:
        changes["out_frac_bits"] = UNLIMITED
    if isinstance(kind.c, LateC):
        changes["c"] = _plain_second(kind, kind.c, record.out.fraction_bits)
    if isinstance(kind.c, LastC) and kind.c.products == kind.n_fma and not kind.order:
        changes["order"] = ()
    return replace(record, accumulation=replace(kind, **changes))


def _plain_second(kind: AlignedSum, c: LateC, fraction_bits: int) -> LateC:
    if c.second is SecondRounding.NONE:
        return c
    sum_bits = _NO_LIMIT if c.sum_frac_bits == UNLIMITED else int(c.sum_frac_bits)
    number = np.array(1 if c.second is SecondRounding.BLIND else 2)
    directed = c.rounding is not Rounding.RNE
    if may_drop(number, sum_bits, c.second_frac_bits, kind, fraction_bits, directed=directed):
        return c
    if c.second is SecondRounding.BLIND and directed:
        sum_bits = min(sum_bits, c.second_frac_bits)
    width = UNLIMITED if sum_bits == _NO_LIMIT else sum_bits
    return replace(c, second=SecondRounding.NONE, second_frac_bits=0, sum_frac_bits=width)


def _sorted_order(kind: AlignedSum) -> tuple[int, ...]:
    """Positions of a block in rising order, even and odd places apart if they are summed so."""
    ordered: list[int] = []
    for start in range(0, len(kind.order), kind.n_fma):
        block = kind.order[start : start + kind.n_fma]
        halves = [sorted(block[i :: kind.interleave]) for i in range(kind.interleave)]
        halves.sort()  # the two halves play the same part
        ordered += [k for group in zip(*halves, strict=True) for k in group]
    return tuple(ordered)
