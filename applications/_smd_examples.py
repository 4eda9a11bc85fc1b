"""Parahermitian matrices to diagonalise: two families as data, and a matrix of the user's own.

The matrix of the paper is unpublished. It is 8 x 8 with "polynomial order 8"; all families here
have that size, lags -4 .. 4, so that magnitudes and orders may be compared with the paper's Figures
7 to 9, but not curves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from applications._polynomial import Array, as_parahermitian, multiply, paraconjugate


@dataclass(frozen=True)
class RandomProduct:
    """R(z) = A(z) A~(z), the coefficients of A independent standard normal.

    trace(R[0]) is scaled to the number of channels. Its eigenvalues are close to each other at some
    frequencies and its smallest one is nearly zero there: hard.
    """

    taps: int = 5
    channels: int = 8
    complex: bool = False

    @property
    def label(self) -> str:
        kind = "complex" if self.complex else "real"
        size = f"{self.channels} × {self.channels}, lags −{self.taps - 1} to {self.taps - 1}"
        return f"random {kind} A(z)A~(z), {size}"

    def matrix(self, seed: int) -> Array:
        """Return the matrix that belongs to `seed`."""
        rng = np.random.default_rng(seed)
        shape = (self.taps, self.channels, self.channels)
        a = rng.standard_normal(shape)
        if self.complex:
            a = a + 1j * rng.standard_normal(shape)
        r = multiply(a, paraconjugate(a))
        return r / np.trace(r[len(r) // 2]).real * self.channels


@dataclass(frozen=True)
class SourceModel:
    """R(z) = U(z) S(z) U~(z): independent sources mixed by a random paraunitary matrix.

    Source k has the power spectral density g_k (1 + r (a cos W + (1 - |a|) s cos 2W)), a uniform in
    [-1, 1] and s = 1 or -1 at random, with gains g_k in equal steps of dB over `range_db`. If the
    spectra shall not cross, the ripple r is 0.9 of what keeps neighbours apart; if they shall, it
    is 0.9. U is a random rotation times two elementary paraunitary matrices I - v v^T + z^-1 v v^T
    with random unit vectors v. trace(R[0]) is the number of channels.
    """

    range_db: float = 20.0
    crossing: bool = False
    channels: int = 8

    @property
    def label(self) -> str:
        spectra = "crossing" if self.crossing else "majorised"
        size = f"{self.channels} × {self.channels}, lags −4 to 4"
        return f"source model, {self.range_db:g} dB, {spectra} spectra, {size}"

    def spectra(self, seed: int) -> NDArray[np.float64]:
        """Return the autocorrelations before scaling, shape (5, channels), lags -2 .. 2."""
        return self._draw(np.random.default_rng(seed))

    def _draw(self, rng: np.random.Generator) -> NDArray[np.float64]:
        position = np.arange(self.channels) / max(self.channels - 1, 1)
        gains = 10.0 ** (-self.range_db / 10.0 * position)
        step = 10.0 ** (self.range_db / 10.0 / max(self.channels - 1, 1))
        ripple = 0.9 if self.crossing else 0.9 * (step - 1) / (step + 1)
        first = rng.uniform(-1, 1, self.channels)
        second = (1 - np.abs(first)) * rng.choice([-1.0, 1.0], self.channels)
        half = ripple / 2 * np.stack([second, first])
        return gains * np.concatenate([half, np.ones((1, self.channels)), half[::-1]])

    def matrix(self, seed: int) -> Array:
        """Return the matrix that belongs to `seed`."""
        rng = np.random.default_rng(seed)
        sources = np.zeros((5, self.channels, self.channels))
        index = np.arange(self.channels)
        sources[:, index, index] = self._draw(rng)
        mixing = np.linalg.qr(rng.standard_normal((self.channels, self.channels)))[0][None]
        for _ in range(2):
            v = rng.standard_normal(self.channels)
            projection = np.outer(v, v) / (v @ v)
            mixing = multiply(mixing, np.stack([np.eye(self.channels) - projection, projection]))
        r = multiply(multiply(mixing, sources), paraconjugate(mixing))
        return r / np.trace(r[len(r) // 2]) * self.channels


FAMILIES: dict[str, RandomProduct | SourceModel] = {
    "random": RandomProduct(),
    "random-complex": RandomProduct(complex=True),
    "sources-10dB": SourceModel(10.0),
    "sources-20dB": SourceModel(20.0),
    "sources-40dB": SourceModel(40.0),
    "sources-20dB-crossing": SourceModel(20.0, crossing=True),
}


def power_of_two_scale(r: Array, largest: float) -> float:
    """Return the power of two that brings trace(R[0]) into (largest / 8, largest / 4].

    `largest` is the largest finite number of the format of the GEMM inputs. R is positive
    semidefinite, so the trace bounds every element of R, and delays and rotations keep the trace:
    nothing overflows. The factor of 4 is the margin for rotations that are orthogonal only up to
    rounding. Small elements lose as little as possible this way, which matters where the core
    flushes subnormal inputs. A power of two changes no bit of a significand.
    """
    trace = float(np.trace(r[len(r) // 2]).real)
    if not trace > 0:
        return 1.0
    exponent = math.frexp(largest / 4 / trace)[1]  # the ratio is in [1/2, 1) times 2^exponent
    return math.ldexp(1.0, exponent - 1)


def load_matrix(path: str | Path) -> Array:
    """Return the parahermitian matrix stored in an ``.npz`` file.

    The array is called ``R`` and has shape (2 L + 1, M, M), lag first.

    Raises
    ------
    ValueError
        If there is no such file or array, or the array is not a parahermitian matrix of finite
        numbers.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            if "R" not in archive:
                raise ValueError(
                    f"{path} holds {', '.join(archive) or 'nothing'}, but no array named R"
                )
            return as_parahermitian(archive["R"])
    except FileNotFoundError as error:
        raise ValueError(f"there is no matrix file {path}") from error
