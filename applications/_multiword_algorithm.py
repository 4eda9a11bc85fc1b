"""Multi-word matrix multiplication (section 8.1; Mary and Mikaitis 2025) on any matrix core.

``A B`` is the sum of products of words, ``u^(j+k-2) A_j B_k`` with j + k <= p + 1, each product
multiplied by a core, whose accumulator carries the sum from one product to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike, NDArray

from applications._multiword_split import (
    largest_magnitudes,
    look_up,
    scale_exponents,
    shifted,
    split,
    theta,
)
from mfmamodels.formats import Format, decode, encode, get_format

Matmul = Callable[..., NDArray]
Step = tuple[int, int]

#: Inner dimension of the parts that are decoded at once: they stay in the cache.
_STRIP = 2048

ORDERS = ("largest first", "smallest first", "separate")


def steps(words: int, order: str = "largest first") -> list[Step]:
    """Pairs (j, k), from 0, of the words to multiply, in order.

    Parameters
    ----------
    words : int
        p: products with j + k < p are made, p(p+1)/2 of them.
    order : str
        "largest first": (0,0), (0,1), ..., (1,0), ...: row by row, as published.
        "smallest first" and "separate": by falling j + k.
    """
    pairs = [(j, k) for j in range(words) for k in range(words) if j + k < words]
    if order == "largest first":
        return pairs
    if order in ORDERS:
        return sorted(pairs, key=lambda step: -sum(step))
    raise ValueError(f"unknown order {order!r}; known: {', '.join(ORDERS)}")


@dataclass(frozen=True)
class Engine:
    """Something that multiplies words and adds.

    Attributes
    ----------
    name : str
    matmul : callable
        ``matmul(A, B, C)`` with words in the type of `inputs` and C of an earlier result, or None.
    inputs : Format
    """

    name: str
    matmul: Matmul
    inputs: Format

    def product(self, left: NDArray, right: NDArray, c: NDArray | None) -> NDArray:
        """``left @ right + c`` for codes in the format of the inputs."""
        return self.matmul(left.view(self.inputs.dtype), right.view(self.inputs.dtype), c)


@dataclass(frozen=True)
class Way:
    """How the products of words are put together.

    Attributes
    ----------
    order : str
        One of :data:`ORDERS`. "separate" gives every product an accumulator of its own; their
        results are added in binary32 (round to nearest).
    promotion : int
        Add the accumulator to a binary32 sum (round to nearest) and restart it from zero every so
        many products; 0 for never.
    """

    order: str = "largest first"
    promotion: int = 0

    def add(self, engine: Engine, left: NDArray, right: NDArray, c: NDArray | None) -> NDArray:
        """One product of words, added to c."""
        n = left.shape[1]
        if self.promotion == 0 and self.order != "separate":
            return engine.product(left, right, c)
        length = self.promotion or max(n, 1)
        parts = [slice(start, start + length) for start in range(0, max(n, 1), length)]
        sums = (engine.product(left[:, part], right[part], None) for part in parts)
        return reduce(np.add, sums if c is None else chain([c], sums))


@dataclass(frozen=True)
class Words:
    """Both operands as words.

    Attributes
    ----------
    a, b : ndarray of unsigned int
        Codes, shapes (p, rows, n) and (p, n, columns).
    left, right : ndarray of int64
        Exponents of the powers of two that scaled a's rows and b's columns.
    format : Format
    """

    a: NDArray
    b: NDArray
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    format: Format

    @cached_property
    def exponents(self) -> NDArray[np.int64]:
        """Exponents of the scaled product."""
        return self.left[:, None] + self.right[None, :]

    def converted(self, fmt: Format) -> Words:
        """The same words in another format that holds them all: e5m2 in e5m2fnuz.

        A converted word that is scaled down keeps a bit more below the format's normal range.
        """
        if fmt == self.format:
            return self
        codes = np.arange(1 << self.format.width, dtype=self.format.code_dtype)
        table = encode(decode(codes, self.format), fmt, overflow="saturate")
        return Words(table[self.a], table[self.b], self.left, self.right, fmt)


def scales(
    a: NDArray[np.float64], b: NDArray[np.float64], fmt: Format
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Exponents that scale a's rows and b's columns to the format's range."""
    limit = theta(fmt, a.shape[1])
    return (
        scale_exponents(largest_magnitudes(a, axis=1), limit),
        scale_exponents(largest_magnitudes(b, axis=0), limit),
    )


def split_pair(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    fmt: Format,
    words: int,
    rounding: str = "rne",
    exponents: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> Words:
    """Split both operands, A by rows and B by columns."""
    left, right = scales(a, b, fmt) if exponents is None else exponents
    return Words(
        split(a, left, fmt, words, rounding),
        split(b, right, fmt, words, rounding, columns=True),
        left,
        right,
        fmt,
    )


def scaled_products(
    words: Words, counts: Iterable[int], engines: Sequence[Engine], way: Way = Way()
) -> dict[int, list[NDArray]]:
    """Scaled products with the first p words, for several p and several engines at once.

    Parameters
    ----------
    words : Words
        At least max(counts) of them.
    counts : iterable of int
        Numbers of words p.
    engines : sequence of Engine
        Their inputs are in the format of the words.
    way : Way

    Returns
    -------
    dict
        For each p, one (rows, columns) array per engine; the product is 2^-exponents times it.
    """
    fmt = words.format
    # Accumulators after each run of steps: numbers of words with a common beginning share it.
    after: dict[tuple[Step, ...], list] = {(): [None] * len(engines)}
    buffer = np.empty(words.a.shape[1:], words.a.dtype)
    for p in sorted(counts):
        done: tuple[Step, ...] = ()
        for j, k in steps(p, way.order):
            accumulators = after[done]
            done = (*done, (j, k))
            if done not in after:
                left = shifted(words.a[j], fmt.precision * (j + k), fmt, buffer)
                after[done] = [
                    way.add(engine, left, words.b[k], c)
                    for engine, c in zip(engines, accumulators, strict=True)
                ]
    return {p: after[tuple(steps(p, way.order))] for p in counts}


def exact_products(
    words: Words, counts: Iterable[int], order: str = "largest first"
) -> dict[int, NDArray[np.float64]]:
    """The same without rounding to speak of: words multiplied and summed in binary64.

    Parameters
    ----------
    words, counts
        As in :func:`scaled_products`.
    order : str
        One of :data:`ORDERS`.
    """
    counts = list(counts)
    made = steps(max(counts))
    fmt, (rows, n), columns = words.format, words.a.shape[1:], words.b.shape[2]
    tables = [_scaled_values(fmt, s) for s in range(max(counts))]
    sums = {step: np.zeros((rows, columns)) for step in made}
    for start in range(0, n, _STRIP):
        part = slice(start, min(start + _STRIP, n))
        right = [_looked_up(tables[0], codes[part]) for codes in words.b[: max(counts)]]
        left = [codes[:, part].copy() for codes in words.a[: max(counts)]]
        for j, k in made:
            sums[j, k] += _looked_up(tables[j + k], left[j]) @ right[k]
    return {p: reduce(np.add, (sums[step] for step in steps(p, order))) for p in counts}


@cache
def _scaled_values(fmt: Format, s: int) -> NDArray[np.float64]:
    """Values of all codes after they were scaled down by u^s."""
    every = np.arange(1 << fmt.width, dtype=fmt.code_dtype)
    return decode(shifted(every, fmt.precision * s, fmt), fmt)


def _looked_up(table: NDArray[np.float64], codes: NDArray) -> NDArray[np.float64]:
    found = np.empty(codes.shape)
    look_up(table, codes.reshape(-1), found.reshape(-1))
    return found


def multiword_matmul(
    a: ArrayLike,
    b: ArrayLike,
    matmul: Matmul,
    fmt: str | Format,
    words: int,
    *,
    inputs: str | Format | None = None,
    rounding: str = "rne",
    way: Way = Way(),
) -> NDArray[np.float64]:
    """Multiply two binary64 matrices through words of a low-precision format.

    Parameters
    ----------
    a, b : array_like
        Shapes (m, n) and (n, q), any finite scales. An entry more than some 10^290 times smaller
        than its row's largest may be rounded before it is split.
    matmul : callable
        ``matmul(A, B, C)``: a core's, or any other.
    fmt : str or Format
        Of the words: fp16, bf16 or e5m2.
    words : int
        p, at least 1.
    inputs : str or Format, optional
        What `matmul` takes, if not `fmt` ("e5m2fnuz").
    rounding : {"rne", "rtz"}
        Of the words.
    way : Way
        Order of summation and promotion.

    Returns
    -------
    ndarray of float64
        Shape (m, q); zeros for n = 0. Where a row of `a` or a column of `b` holds Inf or NaN, the
        result is that of a binary64 product (Inf or NaN), since words cannot hold them.

    Raises
    ------
    ValueError
        Shapes that do not match, or fewer than one word.
    """
    a, b = (np.asarray(x, dtype=np.float64) for x in (a, b))
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"A (m, n) and B (n, q) are needed; given shapes {a.shape} and {b.shape}")
    if words < 1:
        raise ValueError(f"words is {words}; at least one is needed")
    fmt = get_format(fmt)
    finite_rows, finite_columns = np.isfinite(a).all(axis=1), np.isfinite(b).all(axis=0)
    special = ~np.logical_and.outer(finite_rows, finite_columns)
    finite_a, finite_b = (np.where(np.isfinite(x), x, 0.0) for x in (a, b))
    engine = Engine("core", matmul, get_format(inputs or fmt))
    pair = split_pair(finite_a, finite_b, fmt, words, rounding).converted(engine.inputs)
    product = scaled_products(pair, [words], [engine], way)[words][0].astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):  # as a binary64 product would
        result = np.ldexp(product, -pair.exponents)
    if special.any():
        with np.errstate(invalid="ignore", over="ignore"):
            result[special] = (a @ b)[special]
    return result
