"""Ozaki's scheme I with 8-bit integer slices: a binary64 product without any rounding in the core.

Rows of A and columns of B become fixed-point numbers, cut into slices of 7 bits, which fit int8.
Products of slices and their int32 sums are exact, so every integer matrix unit gives the same
result, on any device; only the slices left out and the last binary64 sum err.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

SLICE_BITS = 7
#: Products of two slices are at most 2^12 in magnitude: so many of them fit an int32.
INT32_BLOCK = 2**16


def slices(x: NDArray[np.float64], exponents: NDArray[np.int64], count: int) -> NDArray[np.int8]:
    """Cut ``2^-exponent x``, at most 1 in magnitude, into slices of 7 bits.

    Parameters
    ----------
    x : ndarray of float64, shape (rows, n)
        Finite.
    exponents : ndarray of int64, shape (rows,)
        With ``|x_ik| <= 2^exponent_i``.
    count : int
        Number of slices; each takes the nearest multiple of its unit from what the ones before
        left, so that all are between -64 and 64.

    Returns
    -------
    ndarray of int8, shape (count, rows, n)
        ``2^-exponent x`` is the sum of ``slices[s] 2^(-6 - 7 s)``, up to half a unit of the last.
    """
    rest = np.ldexp(x, 6 - exponents[:, None])
    out = np.empty((count, *x.shape), np.int8)
    for s in range(count):
        whole = np.rint(rest)
        out[s] = whole
        rest -= whole
        rest *= 2.0**SLICE_BITS
    return out


def ozaki_matmul(
    a: NDArray[np.float64], b: NDArray[np.float64], counts: Iterable[int]
) -> dict[int, tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Multiply through int8 slices, for several numbers of slices q at once.

    Parameters
    ----------
    a, b : ndarray of float64
        Finite, shapes (m, n) and (n, columns).
    counts : iterable of int
        Values of q; the q(q+1)/2 products of slices s + t < q are summed.

    Returns
    -------
    dict
        For each q the scaled product and the exponents: the product is ``2^exponents`` times it.
    """
    counts = sorted(counts)
    left, right = (_exponents(x, axis) for x, axis in ((a, 1), (b, 0)))
    sums = _integer_sums(a, b, left, right, max(counts))
    scale = left[:, None] + right[None, :]
    return {q: (_combine(sums, q), scale) for q in counts}


def _exponents(x: NDArray[np.float64], axis: int) -> NDArray[np.int64]:
    """Exponents of the smallest powers of two above the magnitudes along an axis."""
    largest = np.maximum(x.max(axis=axis, initial=0.0), -x.min(axis=axis, initial=0.0))
    return np.frexp(largest)[1].astype(np.int64)


def _integer_sums(a, b, left, right, count) -> dict[tuple[int, int], NDArray[np.float64]]:
    """Exact products of slices, by (s, t): int32 sums of a block, then 53-bit integers."""
    n = a.shape[1]
    zero = np.zeros((a.shape[0], b.shape[1]))
    sums = {(s, t): zero.copy() for s in range(count) for t in range(count - s)}
    for start in range(0, n, INT32_BLOCK):
        block = slice(start, start + INT32_BLOCK)
        # Integers below 2^28 are exact in binary64, whose multiplication is the fast one here.
        x = slices(a[:, block], left, count).astype(np.float64)
        y = slices(b[block].T, right, count).astype(np.float64)
        for s, t in sums:
            sums[s, t] += x[s] @ y[t].T
    return sums


def _combine(sums, count: int) -> NDArray[np.float64]:
    """Sum of the weighted integer products, the smallest weight first."""
    pairs = [pair for pair in sums if sum(pair) < count]
    total = np.zeros_like(sums[0, 0])
    for s, t in sorted(pairs, key=lambda pair: -sum(pair)):
        total += np.ldexp(sums[s, t], -12 - SLICE_BITS * (s + t))
    return total
