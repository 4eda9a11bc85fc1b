"""Data of the multi-word study: A (10 x n) and B (n x 10) with entries s 10^(d (r - 1/2)).

r is uniform in [0, 1) and s a random sign; d = 20 decades in the paper. Two sources: the stream of
random numbers behind the published result files, and one with a seed of its own per data point.
All matrices are in column-major order.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from applications._multiword_published import SIZES

SIZE = 10  # rows of A and columns of B
DECADES = 20.0
Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


class PublishedStream:
    """The random numbers of the published experiments: MATLAB's ``rng(1)`` and what follows.

    MATLAB's generator is the Mersenne twister as in numpy's RandomState. It is seeded once per
    model and format, and runs on over the sizes n and the numbers of words p.
    """

    # States by the numbers drawn before: a stretch let go by once need not be walked again.
    _states: ClassVar[dict[int, dict]] = {}

    def __init__(self) -> None:
        self._random = np.random.RandomState(1)
        self._drawn = 0

    def matrices(self, n: int) -> Pair:
        """A and B of the next experiment: rand(10,n), rand(n,10), randi(2,10,n), randi(2,n,10)."""
        self._drawn += 4 * SIZE * n
        a = self._column_major(SIZE, n)
        b = self._column_major(n, SIZE)
        for x in (a, b):
            x *= DECADES
            x -= DECADES / 2
            np.power(10.0, x, out=x)
        for x in (a, b):
            # The sign is (-1)^randi(2), and randi(2) is 1 + floor(2 u).
            np.negative(x, out=x, where=self._column_major(*x.shape) < 0.5)
        return a, b

    def skip(self, n: int) -> None:
        """Let an experiment of size n go by."""
        self._drawn += 4 * SIZE * n
        if self._drawn in self._states:
            self._random.set_state(self._states[self._drawn])
            return
        remaining = 4 * 8 * SIZE * n  # a number takes 8 bytes of the generator's output
        while remaining:
            portion = min(remaining, 1 << 22)
            self._random.bytes(portion)
            remaining -= portion
        self._states[self._drawn] = self._random.get_state(legacy=False)

    def _column_major(self, rows: int, columns: int) -> NDArray[np.float64]:
        return self._random.random_sample((columns, rows)).T


def published_points(
    stream: PublishedStream, words: tuple[int, ...], sizes: frozenset[int]
) -> Iterator[tuple[int, int, Pair]]:
    """Yield (p, n, (A, B)) as the published experiments went, for the sizes asked for only."""
    for p in words:
        for n in SIZES:
            if n in sizes:
                yield p, n, stream.matrices(n)
            else:
                stream.skip(n)


def independent_matrices(seed: int, name: str, n: int, draw: int, decades: float) -> Pair:
    """A and B from a generator that depends on the point only, not on what was drawn before.

    Parameters
    ----------
    seed : int
        Root seed.
    name : str
        Whose data: the study and the format.
    n, draw : int
        Inner dimension; number of the draw.
    decades : float
        Spread of the magnitudes.
    """
    sequence = np.random.SeedSequence([seed, zlib.crc32(name.encode()), n, draw])
    random = np.random.Generator(np.random.SFC64(sequence))

    def matrix(rows: int, columns: int) -> NDArray[np.float64]:
        x = random.random((columns, rows))
        x -= 0.5
        x *= decades * math.log2(10.0)
        np.exp2(x, out=x)
        negative = random.integers(0, 2, x.shape, dtype=np.uint8).view(bool)
        return np.negative(x, out=x, where=negative).T

    return matrix(SIZE, n), matrix(n, SIZE)
