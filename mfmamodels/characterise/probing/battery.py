"""Rows that any core can be checked on, whatever it is: all scales, all sorts of values."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from mfmamodels.characterise.probing.rows import (
    Bench,
    Queries,
    Shape,
    addends_only,
    join,
    near_ties,
    random_rows,
    shuffled,
)
from mfmamodels.formats import Format


def general_rows(bench: Bench, rng: Generator, k: int, high: int, size: int = 1) -> Queries:
    """Sparse and dense rows at all scales, raw codes, special values, signed zeros.

    Parameters
    ----------
    bench : Bench
    rng : numpy.random.Generator
    k : int
        Products in a row.
    high : int
        Largest exponent at which a single product comes back.
    size : int
        How many rows, in units of about 1700.
    """
    every = (bench.lowest, high + 2)
    top = (high - 6, high - 2)
    bottom = (max(bench.lowest, bench.out.emin - 30), min(bench.out.emin + 6, high))
    bottom = (min(bottom), max(bottom))
    slots = range(k)
    many = min(k, 24)

    def rows(count: int, **shape) -> Queries:
        return random_rows(bench, rng, count * size, Shape(k, **({"slots": slots} | shape)))

    def ties(count: int, **shape) -> Queries:
        return near_ties(bench, rng, count * size, Shape(k, **({"slots": slots} | shape)))

    sparse = rows(200, top=top)
    parts = [
        sparse,
        rows(300, top=every), rows(200, top=top, slots=range(min(k, 4))),
        rows(150, top=top, terms=many, depth=30), rows(150, top=every, terms=many, depth=30),
        rows(200, top=bottom), rows(100, top=bottom, c="tiny"), rows(100, top=every, c="zero"),
        rows(80, top=every, c="above", depth=160),
        ties(150, top=every), ties(100, top=top, slots=range(min(k, 4))), ties(100, top=bottom),
        ties(100, top=bottom, c="zero"), ties(60, top=bottom, c="tiny"),
        _raw(bench, rng, k, 100 * size), _zeros(bench, rng, k, 24),
        _with_specials(bench, rng, sparse), _flushable(bench, rng, k, 80 * size),
        addends_only(bench, rng, 100 * size, k),
    ]  # fmt: skip
    return shuffled(join(parts), rng)


def tied_rows(bench: Bench, rng: Generator, k: int, high: int, count: int) -> Queries:
    """Near ties wherever a core may round: under c, among products, at the bottom."""
    f, out = bench.out.fraction_bits, bench.out
    above = min(high + f - 1, out.emax)
    low = max(bench.lowest, out.emin - f - 4)
    shapes = [
        Shape(k, range(k), (max(above - 12, bench.lowest + f), above)),
        Shape(k, range(k), (min(bench.lowest + f + 4, above), above)),
        Shape(k, range(k), (high - 8, high - 2), c="zero"),
        Shape(k, range(k), (low, min(low + 30, high))),
        Shape(k, range(k), (low, min(low + 30, high)), c="zero"),
        Shape(k, range(k), (low, min(low + 10, high)), c="zero"),
        Shape(k, range(k), (low, min(low + 30, high)), c="tiny"),
    ]
    parts = [near_ties(bench, rng, count // len(shapes), shape) for shape in shapes]
    for c in ("below", "equal", "any"):
        top = (high - 8, high - 3)
        parts.append(random_rows(bench, rng, count // 6, Shape(k, range(k), top, depth=300, c=c)))
        every = (bench.lowest, high)
        parts.append(random_rows(bench, rng, count // 6, Shape(k, range(k), every, c=c)))
    return shuffled(join(parts), rng)


def _codes(fmt: Format, rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    bits = rng.integers(0, 1 << 63, shape, dtype=np.uint64, endpoint=True) << np.uint64(1)
    bits |= rng.integers(0, 2, shape, dtype=np.uint64)
    return (bits & np.uint64((1 << fmt.width) - 1)).astype(fmt.code_dtype)


def _raw(bench: Bench, rng: Generator, k: int, count: int) -> Queries:
    """Random bits, few of them nonzero so that not every row of short formats is NaN."""
    a, b = _codes(bench.a, rng, (count, k)), _codes(bench.b, rng, (count, k))
    used = rng.random((count, k)) < np.where(rng.random((count, 1)) < 0.5, 0.9, 2.0 / k)
    zero = bench.a.code_dtype.type(0)
    return np.where(used, a, zero), b, _codes(bench.out, rng, (count,))


def _zeros(bench: Bench, rng: Generator, k: int, count: int) -> Queries:
    """Zeros of both signs, where the format has them, and c = +-0."""

    def zeros(fmt: Format, shape: tuple[int, ...], share: float) -> np.ndarray:
        negative = 0 if fmt.nan_code == fmt.sign_mask else fmt.sign_mask
        signs = np.where(rng.random(shape) < share, negative, 0)
        return signs.astype(fmt.code_dtype)

    one = bench.b.bias << bench.b.fraction_bits + bench.b.ignored_bits
    b = np.full((count, k), one, bench.b.code_dtype)
    # Rows of nothing but -0 show what a sum starts from.
    shares = np.where(np.arange(count) < count // 3, 1.0, rng.random(count))[:, None]
    return zeros(bench.a, (count, k), shares), b, zeros(bench.out, (count,), 0.8)


def _with_specials(bench: Bench, rng: Generator, queries: Queries) -> Queries:
    """Rows with infinities, NaN or the largest numbers put in."""
    a, b, c = (x.copy() for x in queries)
    k = a.shape[1]
    for codes, fmt, share in ((a, bench.a, 1.2 / k), (b, bench.b, 1.2 / k), (c, bench.out, 0.2)):
        values = [fmt.nan_code, fmt.max_code, fmt.max_code | fmt.sign_mask]
        values += [fmt.inf_code, fmt.inf_code | fmt.sign_mask] * 2 if fmt.has_inf else []
        put = rng.random(codes.shape) < share
        codes[put] = rng.choice(np.array(values, codes.dtype), int(put.sum()))
    return a, b, c


def _flushable(bench: Bench, rng: Generator, k: int, count: int) -> Queries:
    """Subnormal operands, alone or beside others."""
    a, b = np.zeros((count, k), bench.a.code_dtype), np.zeros((count, k), bench.b.code_dtype)
    index = np.arange(count)
    for _ in range(2):
        place = rng.integers(0, k, count)
        for codes, fmt in ((a, bench.a), (b, bench.b)):
            subnormal = rng.integers(1, 1 << fmt.fraction_bits, count) << fmt.ignored_bits
            other = _codes(fmt, rng, (count,))
            sign = rng.integers(0, 2, count).astype(fmt.code_dtype) << fmt.code_dtype.type(
                fmt.width - 1
            )
            pick = rng.random(count) < 0.5
            codes[index, place] = np.where(pick, subnormal.astype(fmt.code_dtype) | sign, other)
    c = np.zeros(count, bench.out.code_dtype)
    some = rng.random(count) < 0.5
    c[some] = rng.integers(0, 1 << bench.out.fraction_bits, int(some.sum()))
    return a, b, c
