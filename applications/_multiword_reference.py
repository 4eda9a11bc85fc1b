"""Exact enough products: what the errors of the multi-word study are measured against."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numba as nb
import numpy as np
from numpy.typing import NDArray

_CHUNK = 64


@dataclass(frozen=True)
class Reference:
    """A product to some 100 bits, scaled by powers of two per row and column.

    Attributes
    ----------
    high, low : ndarray of float64, shape (rows, columns)
        ``2^(l_i + m_j) (A B)_ij`` is high + low.
    absolute : ndarray of float64
        The same of ``|A| |B|``, in binary64.
    exponents : ndarray of int64
        ``l_i + m_j``.
    norm, norm_exponent : float, int
        ``||A||_inf ||B||_inf`` (largest absolute row sums, unscaled) is norm * 2^norm_exponent.
    """

    high: NDArray[np.float64]
    low: NDArray[np.float64]
    absolute: NDArray[np.float64]
    exponents: NDArray[np.int64]
    norm: float
    norm_exponent: int

    def difference(self, c: NDArray) -> NDArray[np.float64]:
        """``c - A B`` for a scaled product c; result scaled as well."""
        return (c - self.high) - self.low

    def normwise(self, difference: NDArray[np.float64]) -> float:
        """``||difference||_inf / (||A||_inf ||B||_inf)``; 0 if the product is empty or zero."""
        if difference.size == 0 or self.norm == 0:
            return 0.0
        return infinity_norm(np.ldexp(difference, -self.exponents - self.norm_exponent)) / self.norm

    def componentwise(self, difference: NDArray[np.float64]) -> float:
        """Largest ``|difference|_ij / (|A| |B|)_ij``, where 0/0 counts as 0."""
        with np.errstate(invalid="ignore"):
            quotients = np.abs(difference) / self.absolute
        quotients[(difference == 0) & (self.absolute == 0)] = 0.0
        return float(quotients.max(initial=0.0))


def infinity_norm(x: NDArray[np.float64]) -> float:
    """Largest absolute row sum; 0 for an empty matrix."""
    return float(np.abs(x).sum(axis=1).max(initial=0.0))


def product_of_norms(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, int]:
    """``||A||_inf ||B||_inf`` as a number times a power of two, where it might not fit binary64."""
    norm, exponent = 1.0, 0
    for x in (a, b):
        largest = max(float(x.max(initial=0.0)), -float(x.min(initial=0.0)))
        scale = math.frexp(largest)[1]
        if abs(scale) < 400:  # sums and products fit by far: spare the scaled copy
            norm *= infinity_norm(x)
        else:
            norm *= infinity_norm(np.ldexp(x, -scale))
            exponent += scale
    return norm, exponent


def reference(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> Reference:
    """Product of two finite binary64 matrices in double-double arithmetic.

    Parameters
    ----------
    a, b : ndarray of float64
        Shapes (rows, n) and (n, columns).
    left, right : ndarray of int64
        Exponents l of a's rows and m of b's columns, as the split uses them: the scaled entries
        stay below 2^129, so that no product overflows.

    Notes
    -----
    Each product is exact (Dekker), each sum has a relative error of about 2^-104.
    """
    rows, columns = a.shape[0], b.shape[1]
    padded = -(-columns // 4) * 4  # whole vectors of four: the loop over columns has no rest
    high, low, absolute = (np.zeros((rows, padded)) for _ in range(3))
    _products(
        np.asfortranarray(a), np.asfortranarray(b), *_halves(left), *_halves(right),
        high, low, absolute,
    )  # fmt: skip
    return Reference(
        high[:, :columns],
        low[:, :columns],
        absolute[:, :columns],
        left[:, None] + right[None, :],
        *product_of_norms(a, b),
    )


def _halves(exponents: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two factors whose product is 2^exponent; the one factor might not fit binary64."""
    half = exponents >> 1
    return np.ldexp(1.0, half), np.ldexp(1.0, exponents - half)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _products(a, b, a_first, a_second, b_first, b_second, high, low, absolute):
    rows, n = a.shape
    columns = b.shape[1]
    padded = high.shape[1]
    top, rest = np.zeros((_CHUNK, padded)), np.zeros((_CHUNK, padded))
    for start in range(0, n, _CHUNK):
        size = min(_CHUNK, n - start)
        for j in range(columns):
            for k in range(size):
                x = b[start + k, j] * b_first[j] * b_second[j]
                carried = 134217729.0 * x  # 2^27 + 1: Veltkamp's splitting into two halves
                top[k, j] = carried - (carried - x)
                rest[k, j] = x - top[k, j]
        for k in range(size):
            for i in range(rows):
                x = a[i, start + k] * a_first[i] * a_second[i]
                _add_row(x, top[k], rest[k], high[i], low[i], absolute[i])


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _add_row(x, top, rest, high, low, absolute):
    """Add x times the row top + rest to high + low."""
    carried = 134217729.0 * x
    x_top = carried - (carried - x)
    x_rest = x - x_top
    for j in range(high.size):
        product = x * (top[j] + rest[j])
        error = ((x_top * top[j] - product) + x_top * rest[j] + x_rest * top[j]) + x_rest * rest[j]
        total = high[j] + product
        part = total - high[j]
        error += (high[j] - (total - part)) + (product - part)
        # Renormalised at once: the low part must stay small beside the high one.
        error += low[j]
        high[j] = total + error
        low[j] = error - (high[j] - total)
        absolute[j] += abs(product)
