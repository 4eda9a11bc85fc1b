"""Polynomial matrices: the few operations that a polynomial eigenvalue decomposition needs.

A polynomial matrix A(z) = sum_t A[t] z^-t is an array of shape (lags, rows, columns), the lag
first. Two kinds occur and the array does not say which:

* *centred*: 2 L + 1 lags, -L .. L, lag 0 in the middle. Parahermitian matrices (space-time
  covariances) are of this kind: R[-t] equals the conjugate transpose of R[t].
* *causal*: N taps, 0 .. N - 1. Filter banks are of this kind; which tap is called 0 is only a
  delay.

Nothing here rounds more than float64 does, and `shift_similarity`, `shift_row` and the trims move
numbers without any arithmetic on them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.inexact[Any]]

# A covariance estimated in float64 misses exact symmetry by rounding only; anything above this is
# another matrix.
PARAHERMITIAN_TOLERANCE = 1e-10


def paraconjugate(a: Array) -> Array:
    """Return A~(z) = A^H(1/z*): lags reversed, every coefficient conjugated and transposed.

    A centred array stays centred; a causal one comes back as taps -(N - 1) .. 0.
    """
    return a[::-1].conj().transpose(0, 2, 1)


def multiply(a: Array, b: Array) -> Array:
    """Return the product A(z) B(z), of shape (lags of A + lags of B - 1, rows of A, columns of B).

    The first lag of the product is the sum of the first lags; centred times centred is centred.
    """
    if len(a) > len(b):  # loop over the shorter factor
        return multiply(b.transpose(0, 2, 1), a.transpose(0, 2, 1)).transpose(0, 2, 1)
    product = np.zeros((len(a) + len(b) - 1, a.shape[1], b.shape[2]), np.result_type(a, b))
    for tap, coefficient in enumerate(a):
        product[tap : tap + len(b)] += coefficient @ b
    return product


def symmetrise(r: Array) -> Array:
    """Return (R + R~) / 2, which is parahermitian to the last bit. R is centred."""
    return (r + paraconjugate(r)) / 2


def squared(a: Array) -> Array:
    """Return |a|^2 elementwise, without the square root and overflow guard of ``abs``."""
    return a.real**2 + a.imag**2 if np.iscomplexobj(a) else a * a


def coefficient_energies(a: Array) -> Array:
    """Return the squared Frobenius norm of each coefficient, shape (lags,)."""
    return squared(a).sum(axis=(1, 2))


def off_diagonal_squares(r: Array) -> Array:
    """Return |R[t][m, k]|^2 with zeros on the diagonals, of the shape of R."""
    squares = squared(r)
    index = np.arange(r.shape[1])
    squares[:, index, index] = 0.0
    return squares


def resize_centred(r: Array, order: int) -> Array:
    """Return the centred matrix with lags -order .. order, cropped or padded with zeros."""
    have = len(r) // 2
    if order <= have:
        return r[have - order : have + order + 1]
    out = np.zeros((2 * order + 1, *r.shape[1:]), r.dtype)
    out[order - have : order + have + 1] = r
    return out


def shift_similarity(r: Array, lag: int, column: int) -> Array:
    """Return Lambda(z) R(z) Lambda~(z) for centred R.

    Lambda is diagonal with z^-lag at `column` and ones elsewhere. Column `column` of lag `lag` and
    row `column` of lag -`lag` land in lag 0; the diagonal element stays. The result has |lag| lags
    more at both ends.
    """
    if lag == 0:
        return r
    taps, pad = len(r), abs(lag)
    out = np.zeros((taps + 2 * pad, *r.shape[1:]), r.dtype)
    out[pad : pad + taps] = r
    out[:, column, :] = 0
    out[:, :, column] = 0
    out[pad + lag : pad + lag + taps, column, :] = r[:, column, :]
    out[pad - lag : pad - lag + taps, :, column] = r[:, :, column]
    # Row and column met at the diagonal element, which the two delays leave where it was.
    out[:, column, column] = 0
    out[pad : pad + taps, column, column] = r[:, column, column]
    return out


def shift_row(q: Array, lag: int, row: int) -> Array:
    """Return Lambda(z) Q(z) for causal Q: row `row` delayed by `lag` taps.

    For a negative lag all *other* rows are delayed by |lag|, which keeps Q causal; the common delay
    has no effect on Q R Q~. The result has |lag| taps more.
    """
    if lag == 0:
        return q
    taps, pad = len(q), abs(lag)
    out = np.zeros((taps + pad, *q.shape[1:]), q.dtype)
    others, moved = (0, lag) if lag > 0 else (pad, 0)
    out[others : others + taps] = q
    out[:, row, :] = 0
    out[moved : moved + taps, row, :] = q[:, row, :]
    return out


def order_kept(r: Array, mu: float) -> int:
    """Return the largest lag kept when trimming may cut off the share `mu` of the energy.

    R is centred. Pairs (-L, L) go from outside in; lag 0 always stays. With mu = 0 only pairs that
    are exactly zero go.
    """
    energies = coefficient_energies(r)
    order = len(r) // 2
    budget, removed = mu * energies.sum(), 0.0
    while order > 0:
        removed += energies[0 + len(r) // 2 - order] + energies[len(r) // 2 + order]
        if removed > budget:
            break
        order -= 1
    return order


def taps_kept(q: Array, mu: float) -> tuple[int, int]:
    """Return (first, stop) of the taps kept when trimming may cut off the share `mu` of the energy.

    Each time the smaller of the two end taps goes, the first one on ties; at least one tap stays.
    """
    energies = coefficient_energies(
        q
    ).tolist()  # plain floats: the loop below touches one at a time
    first, stop = 0, len(energies)
    budget, removed = mu * sum(energies), 0.0
    while stop - first > 1:
        at_start = energies[first] <= energies[stop - 1]
        removed += energies[first] if at_start else energies[stop - 1]
        if removed > budget:
            break
        first, stop = (first + 1, stop) if at_start else (first, stop - 1)
    return first, stop


def spectrum(r: Array, bins: int) -> NDArray[np.complex128]:
    """Return centred R on the unit circle at W = 2 pi n / bins, shape (bins, rows, columns).

    Lag 0 is put at index 0 of the transform, so the spectrum of a parahermitian R is Hermitian
    without any phase factor. With more lags than bins the lags are added up modulo `bins`: on this
    grid, z^-bins = 1, so the values are still those of R.
    """
    folded = np.zeros((bins, *r.shape[1:]), r.dtype)
    np.add.at(folded, (np.arange(len(r)) - len(r) // 2) % bins, r)
    return np.fft.fft(folded, axis=0)


def as_parahermitian(r: object) -> Array:
    """Return `r` as a float64 or complex128 array after checking that it is a parahermitian matrix.

    Raises
    ------
    ValueError
        If the shape is not (2 L + 1, M, M), an element is NaN or infinite, or R differs from R~ by
        more than 1e-10 of its Frobenius norm; the message says where.
    TypeError
        If the elements are not numbers.
    """
    r = np.asarray(r)
    if r.dtype.kind not in "iufc":
        raise TypeError(f"a polynomial matrix holds real or complex numbers, not {r.dtype}")
    if r.ndim != 3 or r.shape[1] != r.shape[2] or r.shape[0] % 2 == 0 or 0 in r.shape:
        raise ValueError(
            "a parahermitian matrix has shape (2 L + 1, M, M): an odd number of lags, then square "
            f"coefficients; got {r.shape}"
        )
    r = r.astype(np.complex128 if r.dtype.kind == "c" else np.float64)
    if not np.isfinite(r).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(r))[0])
        raise ValueError(
            f"element {index} (array index: lag, row, column) is {r[index]}; "
            "all elements must be finite"
        )
    # Scale first: the squares of the elements may leave the range of float64.
    scale = np.abs(r).max()
    if scale > 0:
        off = np.linalg.norm(r / scale - paraconjugate(r / scale)) / np.linalg.norm(r / scale)
        if off > PARAHERMITIAN_TOLERANCE:
            raise ValueError(
                f"the matrix is not parahermitian: R and R~ differ by {off:.1e} of the norm of R"
                f" (allowed {PARAHERMITIAN_TOLERANCE:g}); symmetrise(R) makes it so"
            )
    return r
