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


def may_drop(
    second: NDArray,
    sum_bits: ArrayLike,
    second_bits: ArrayLike,
    *,
    n_fma: int,
    directed: bool,
    fraction_bits: int,
) -> NDArray[np.bool_]:
    """Which second roundings do something that no other record says more simply.

    Parameters
    ----------
    second : ndarray
        0 for none, 1 for blind, else a normalised kind.
    sum_bits, second_bits : array_like of int
        Fraction bits of the shifted sum and of the second rounding.
    n_fma : int
    directed : bool
        Whether the shifts round in one direction.
    fraction_bits : int
        Of the output format, thus of c.

    Notes
    -----
    A blind second rounding in a direction, no coarser than c, is the same as one rounding of the
    sum to the smaller width: c has no bits that it could drop, and rounding twice in one direction
    is rounding once. A normalised one drops nothing if it is wider than the sum by the bits that
    n products can carry above c: below it in exponent and each below 4, they and c are below
    2n + 2 times c's power of two.
    """
    second, sum_bits, second_bits = (np.asarray(x) for x in (second, sum_bits, second_bits))
    blind = second_bits < sum_bits
    if directed:
        blind &= second_bits < fraction_bits
    normalised = second_bits < sum_bits + (2 * n_fma + 2).bit_length() - 1
    return np.where(second == 0, second_bits == 0, np.where(second == 1, blind, normalised))


def useful_second(
    base: Arithmetic, second: NDArray, sum_bits: NDArray, second_bits: NDArray
) -> NDArray[np.bool_]:
    """:func:`may_drop` for a grid of second, sum_frac_bits and second_frac_bits."""
    kind = base.accumulation
    assert isinstance(kind, AlignedSum) and isinstance(kind.c, LateC)
    return may_drop(
        second, sum_bits, second_bits, n_fma=kind.n_fma,
        directed=kind.c.rounding is not Rounding.RNE, fraction_bits=base.out.fraction_bits,
    )  # fmt: skip


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
        changes["c"] = _plain_second(kind.c, kind.n_fma, record.out.fraction_bits)
    if isinstance(kind.c, LastC) and kind.c.products == kind.n_fma and not kind.order:
        changes["order"] = ()
    return replace(record, accumulation=replace(kind, **changes))


def _plain_second(c: LateC, n_fma: int, fraction_bits: int) -> LateC:
    if c.second is SecondRounding.NONE:
        return c
    sum_bits = 10_000 if c.sum_frac_bits == UNLIMITED else int(c.sum_frac_bits)
    number = 1 if c.second is SecondRounding.BLIND else 2
    directed = c.rounding is not Rounding.RNE
    if may_drop(
        np.array(number), sum_bits, c.second_frac_bits, n_fma=n_fma, directed=directed,
        fraction_bits=fraction_bits,
    ):  # fmt: skip
        return c
    if c.second is SecondRounding.BLIND and directed:
        sum_bits = min(sum_bits, c.second_frac_bits)
    width = UNLIMITED if sum_bits == 10_000 else sum_bits
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
