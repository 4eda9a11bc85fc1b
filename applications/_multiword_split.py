"""Splitting a matrix into words of a low-precision format (section 8.1), as numba kernels.

A matrix ``X`` of binary64 numbers, scaled by a power of two per row, becomes ``p`` matrices of
codes with ``2^l X = W_1 + u W_2 + ... + u^(p-1) W_p + residual``, where ``u = 2^-t`` and ``t`` is
the format's precision with the implicit bit. Every operation but the rounding of a word is exact:
words are subtracted from numbers that share their leading bits, and scales are powers of two.

The left operands are stored (words, rows, n), the right ones (words, n, columns), both in the
order in which a matrix core reads them.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mfmamodels.formats import Format, Rounding, Specials

FP32_MAX = (2.0 - 2.0**-23) * 2.0**127
FP32_MIN_NORMAL = 2.0**-126
_CHUNK = 512  # entries split together: they stay in the first cache


def theta(fmt: Format, n: int) -> float:
    """Largest magnitude to which a row may be scaled: no word and no binary32 sum overflows.

    Parameters
    ----------
    fmt : Format
    n : int
        Inner dimension; 0 counts as 1.
    """
    return min(fmt.max, math.sqrt(FP32_MAX / max(n, 1)))


def scale_exponents(largest: NDArray[np.float64], limit: float) -> NDArray[np.int64]:
    """Exponents l with ``2^l = 2^floor(log2(limit / largest))``; 0 where ``largest`` is 0.

    Found by comparing significands: ``log2`` of a quotient just below a power of two rounds up.
    """
    fraction, exponent = np.frexp(largest)
    limit_fraction, limit_exponent = math.frexp(limit)
    exponents = limit_exponent - exponent.astype(np.int64) - (fraction > limit_fraction)
    return np.where(largest == 0, 0, exponents)


def largest_magnitudes(x: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Largest magnitude along an axis, 0 for empty rows, without a temporary of x's size."""
    if x.shape[axis] == 0:
        return np.zeros(x.shape[1 - axis])
    return np.maximum(x.max(axis=axis), -x.min(axis=axis))


def split(
    x: NDArray[np.float64],
    exponents: NDArray[np.int64],
    fmt: Format,
    words: int,
    rounding: str = "rne",
    *,
    columns: bool = False,
) -> NDArray:
    """Codes of the words of a finite matrix.

    Parameters
    ----------
    x : ndarray of float64
        Two-dimensional, finite; copied unless in column-major order. Scaled entries must not
        exceed the format's range, which :func:`scale_exponents` sees to.
    exponents : ndarray of int64
        Power of two that multiplies each row (each column, with `columns`). A scaled entry below
        binary64's normal range, some 10^290 times smaller than the row's largest, is rounded.
    fmt : Format
        fp16, bf16 or e5m2 (one with an IEEE-like encoding, not wider than 16 bits).
    words : int
        How many.
    rounding : {"rne", "rtz"}
        Of each word.
    columns : bool
        Whether the exponents belong to columns.

    Returns
    -------
    ndarray of unsigned int
        Shape (words, *x.shape).
    """
    rtz = {Rounding.RNE: False, Rounding.RTZ: True}[Rounding(rounding)]
    out = np.empty((words, *x.shape), fmt.code_dtype)
    if x.size == 0:
        return out
    # The factor 2^l alone may not fit binary64, its two halves do.
    halves = exponents >> 1, exponents - (exponents >> 1)
    first, second = (np.ldexp(1.0, h.astype(np.int32)) for h in halves)
    kernel = _split_columns if columns else _split_rows
    # One memory order only: a compiled variant per order would cost seconds more than a copy.
    kernel(np.asfortranarray(x), first, second, rtz, fmt.precision, fmt.emin, out)
    return out


def shifted(codes: NDArray, shift: int, fmt: Format, out: NDArray | None = None) -> NDArray:
    """Codes of ``2^-shift`` times the given finite values, rounded to nearest even.

    Only results below the format's normal range are rounded. `out` may be a buffer to reuse.
    """
    if out is None:
        out = np.empty_like(codes)
    signed_zero = fmt.specials is not Specials.FNUZ  # there the code of -0 is NaN
    flat, flat_out = codes.reshape(-1), out.reshape(-1)
    bits = shift, fmt.fraction_bits, fmt.sign_mask, signed_zero
    if flat.size <= 1 << fmt.width:
        _shifted(flat, *bits, flat_out)
        return out
    every = np.arange(1 << fmt.width, dtype=fmt.code_dtype)
    table = np.empty_like(every)
    _shifted(every, *bits, table)
    look_up(table, flat, flat_out)
    return out


@nb.njit(cache=True, nogil=True, error_model="numpy")
def look_up(table, codes, out):
    """``out = table[codes]`` for one-dimensional arrays; numpy would convert the codes first."""
    for q in range(codes.size):
        out[q] = table[codes[q]]


def word_values(codes: NDArray, exponents: NDArray, fmt: Format, *, columns: bool = False):
    """Sum of all words, unscaled: the matrix that the words stand for, as float64.

    For p words of t bits the sum has up to p*t bits plus gaps: exact where that fits binary64.
    """
    from mfmamodels.formats import decode

    total = np.zeros(codes.shape[1:])
    for j in reversed(range(len(codes))):
        total += np.ldexp(decode(codes[j], fmt), -fmt.precision * j)
    return np.ldexp(total, -(exponents[None, :] if columns else exponents[:, None]))


@nb.njit(cache=True, inline="always")
def _bits(x):
    return np.float64(x).view(np.int64)


@nb.njit(cache=True, inline="always")
def _float(bits):
    return np.int64(bits).view(np.float64)


@nb.njit(cache=True, inline="always")
def _power_of_two(exponent):
    """2^exponent for normal results, from its bits."""
    return _float((exponent + 1023) << 52)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _split_chunk(r, power, rtz, precision, emin, codes):
    """Write the codes of r/power, each rounded, and subtract them from r; all loops vectorise.

    Adding and subtracting 1.5 * 2^52 quanta rounds to a multiple of the quantum, to nearest even.
    """
    sign = 1 << (8 * codes.itemsize - 1)
    lowest = _power_of_two(emin)
    last_place = _power_of_two(1 - precision)
    to_magic = 1.5 * _power_of_two(53 - precision)
    drop = 53 - precision
    # Exponent field 1 belongs to emin: the code of the normal number z is (bits of z) - offset.
    offset = (emin + 1022) << 52
    inverse = 1.0 / power
    for q in range(r.size):
        y = r[q] * inverse
        size = abs(y)
        # A number below the normal range has the quantum of that range's lowest binade.
        binade = _float(_bits(size if size > lowest else lowest) & (0x7FF << 52))
        magic = binade * to_magic
        whole = (size + magic) - magic
        if rtz:
            whole -= binade * last_place if whole > size else 0.0
        # Below the normal range the significand shows after adding that range's lowest number.
        normal = _bits(whole) - offset
        subnormal = _bits(whole + lowest) - _bits(lowest)
        code = (normal if whole >= lowest else subnormal) >> drop
        codes[q] = code | (sign if _bits(y) < 0 else 0)
        taken = whole * power
        r[q] -= taken if _bits(y) >= 0 else -taken


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _split_rows(x, first, second, rtz, precision, emin, out):
    words, rows, n = out.shape
    r = np.empty(_CHUNK)
    for start in range(0, n, _CHUNK):
        size = min(n - start, _CHUNK)
        for i in range(rows):
            for k in range(size):
                r[k] = x[i, start + k] * first[i] * second[i]
            for j in range(words):
                power = _power_of_two(-precision * j)
                codes = out[j, i, start : start + size]
                _split_chunk(r[:size], power, rtz, precision, emin, codes)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _split_columns(x, first, second, rtz, precision, emin, out):
    words, n, columns = out.shape
    height = max(1, _CHUNK // columns)  # whole rows, since each entry of a row has its own factor
    r = np.empty(height * columns)
    for start in range(0, n, height):
        stop = min(n, start + height)
        size = (stop - start) * columns
        for i in range(columns):
            for k in range(start, stop):
                r[(k - start) * columns + i] = x[k, i] * first[i] * second[i]
        for j in range(words):
            power = _power_of_two(-precision * j)
            codes = out[j, start:stop].reshape(-1)
            _split_chunk(r[:size], power, rtz, precision, emin, codes)


@nb.njit(cache=True, nogil=True)
def _shifted(codes, shift, fraction_bits, sign_mask, signed_zero, out):
    for q in range(codes.size):
        code = np.int64(codes[q])
        sign = code & sign_mask
        magnitude = code & (sign_mask - 1)
        field = magnitude >> fraction_bits
        if field > shift:
            out[q] = sign | (magnitude - (shift << fraction_bits))
            continue
        implicit = 1 << fraction_bits if field > 0 else 0
        significand = (magnitude & ((1 << fraction_bits) - 1)) | implicit
        places = shift + 1 - max(field, 1)
        if places > fraction_bits + 2:
            places = fraction_bits + 2  # everything is below half of the last place
        half = (1 << places) >> 1
        kept = significand >> places
        rest = significand - (kept << places)
        if rest > half or (rest == half and places > 0 and kept & 1):
            kept += 1
        out[q] = sign | kept if kept > 0 or signed_zero else 0
