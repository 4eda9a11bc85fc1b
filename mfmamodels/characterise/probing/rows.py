"""Rows for probing: sparse dot products made from exact products, structured or random.

Nothing here knows a core's parameters. Values are float64, in which every operand of 32 bits and
fewer is exact; a row whose values the formats cannot hold is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from mfmamodels.formats import Format, Rounding, decode, round_significand
from mfmamodels.formats import _encode_exact as encode_exact
from mfmamodels.fpenv import ieee_environment

Queries = tuple[NDArray, NDArray, NDArray]  # codes of a (rows, K), b (rows, K), c (rows,)


@dataclass(frozen=True)
class Term:
    """One product in each of many rows: ``sign * ma * mb * 2**exponent`` at a position.

    All attributes broadcast to the number of rows; a sign of 0 leaves the product out.
    """

    position: ArrayLike
    exponent: ArrayLike
    sign: ArrayLike = 1
    ma: ArrayLike = 1
    mb: ArrayLike = 1


@dataclass(frozen=True)
class Bench:
    """The formats of a box, and what products and addends they can make."""

    a: Format
    b: Format
    out: Format

    @property
    def lowest(self) -> int:
        """Exponent of the smallest product that matters: nothing below it reaches an output bit."""
        product = _lowest(self.a) + _lowest(self.b)
        return max(product, 2 * (_lowest(self.out) - 64) // 2)

    @property
    def highest(self) -> int:
        """Exponent of the largest power of two among products, up to some beyond the output's."""
        return min(self.a.emax + self.b.emax, self.out.emax + 3)

    def split(self, exponent: ArrayLike) -> tuple[NDArray, NDArray]:
        """Exponents of two operands with a given sum, both normal where that can be."""
        e = np.asarray(exponent, np.int64)
        eb = np.clip(e - e // 2, self.b.emin, self.b.emax)
        ea = np.clip(e - eb, _lowest(self.a), self.a.emax)
        return ea, e - ea

    def rows(self, k: int, terms: Sequence[Term], c: ArrayLike) -> Queries:
        """Codes of rows; those that cannot be represented are left out."""
        queries, _ = self.rows_kept(k, terms, c)
        return queries

    def rows_kept(self, k: int, terms: Sequence[Term], c: ArrayLike) -> tuple[Queries, NDArray]:
        """As :meth:`rows`, with the mask of the rows that could be represented."""
        c = np.atleast_1d(np.asarray(c, np.float64))
        fields = [
            np.broadcast_arrays(c, t.position, t.exponent, t.sign, t.ma, t.mb)[1:] for t in terms
        ]
        count = max([c.size, *(f[0].size for f in fields)])
        c = np.broadcast_to(c, count)
        kept = _fits(c, self.out)
        a = np.zeros((count, k), self.a.code_dtype)
        b = np.zeros((count, k), self.b.code_dtype)
        if fields:
            self._write_products(
                a, b, kept, *(_stacked(f, count) for f in zip(*fields, strict=True))
            )
        with ieee_environment():
            c_codes = encode_exact(np.where(kept, c, 0.0), self.out)
        if kept.all():
            return (a, b, c_codes), kept
        return (a[kept], b[kept], c_codes[kept]), kept

    def _write_products(self, a, b, kept, position, exponent, sign, ma, mb) -> None:
        """Encode the operands of nonzero products (terms by rows), which are few in a row."""
        term, row = np.nonzero(sign)
        at = row, position[term, row]
        sign, ma, mb = (np.float64(x[term, row]) for x in (sign, ma, mb))
        ea, eb = self.split(exponent[term, row])
        for codes, fmt, x in (
            (a, self.a, np.ldexp(sign * ma, ea)),
            (b, self.b, np.ldexp(mb, eb)),
        ):
            fits = _fits(x, fmt)
            kept[row[~fits]] = False
            with ieee_environment():
                codes[at] = encode_exact(np.where(fits, x, 0.0), fmt)


def _stacked(arrays: Sequence[NDArray], count: int) -> NDArray:
    return np.stack([np.broadcast_to(x, count) for x in arrays])


def _lowest(fmt: Format) -> int:
    return fmt.emin - fmt.fraction_bits


def _fits(x: NDArray, fmt: Format) -> NDArray[np.bool_]:
    with ieee_environment(), np.errstate(over="ignore"):
        if fmt.precision == 53:
            return np.isfinite(x)
        return (round_significand(x, fmt, Rounding.RTZ) == x) & (np.abs(x) <= fmt.max)


def join(parts: Sequence[Queries]) -> Queries:
    """Rows of several queries of one length, one after the other."""
    a, b, c = (np.concatenate(x) for x in zip(*parts, strict=True))
    return a, b, c


def shuffled(queries: Queries, rng: Generator) -> Queries:
    """The same rows in another order, so that the first few are of every sort."""
    order = rng.permutation(len(queries[2]))
    return queries[0][order], queries[1][order], queries[2][order]


@dataclass(frozen=True)
class Shape:
    """What random rows look like.

    Attributes
    ----------
    k : int
        Products in a row.
    slots : sequence of int
        Positions that may hold a nonzero product.
    top : tuple of int
        Range of the largest exponent.
    depth : int
        How far below it other products and c go.
    terms : int
        Most nonzero products.
    c : {"any", "zero", "equal", "below", "above", "tiny"}
        Where c lies against the largest product.
    plain : bool
        One operand of each product is a power of two, so that the sum of the operands' exponents
        is the product's own exponent.
    """

    k: int
    slots: Sequence[int]
    top: tuple[int, int]
    depth: int = 52
    terms: int = 5
    c: str = "any"
    plain: bool = False


def random_rows(bench: Bench, rng: Generator, count: int, shape: Shape) -> Queries:
    """Sparse rows whose exponents differ by what rounding and alignment react to.

    Offsets are small, about the output's precision, or uniform; significands are mostly short;
    some second products cancel the first, some share an exponent.
    """
    slots = np.asarray(shape.slots)
    top = rng.integers(shape.top[0], shape.top[1], count, endpoint=True)
    most = min(shape.terms, slots.size)
    used = rng.integers(1, most, count, endpoint=True)
    places = slots[np.argsort(rng.random((count, slots.size)), axis=1)[:, :most]]
    terms, sign, exponent = [], np.ones(count), top
    first = (np.ones(count), np.ones(count))
    for t in range(most):
        exponent_t = top - (0 if t == 0 else _offsets(bench, rng, count, shape.depth))
        sign_t = rng.choice((-1, 1), count)
        ma, mb = _significands(bench, rng, count, shape.plain)
        if t:
            repeat = rng.random(count) < 0.25
            exponent_t = np.where(repeat, exponent, exponent_t)
        if t == 1:
            cancel = rng.random(count) < 0.2
            exponent_t = np.where(cancel, exponent, exponent_t)
            sign_t = np.where(cancel, -sign, sign_t)
            ma, mb = (np.where(cancel, x, y) for x, y in zip(first, (ma, mb), strict=True))
        first = (ma, mb)
        sign, exponent = sign_t, exponent_t
        terms.append(Term(places[:, t], exponent_t, np.where(t < used, sign_t, 0), ma, mb))
    return bench.rows(shape.k, terms, _addends(bench, rng, count, top, shape))


def _offsets(bench: Bench, rng: Generator, count: int, depth: int) -> NDArray:
    f = bench.out.fraction_bits
    sort = rng.random(count)
    near = rng.integers(f - 1, f + 4, count)
    return np.where(
        sort < 0.25, rng.integers(0, 4, count),
        np.where(sort < 0.5, near, rng.integers(0, depth, count, endpoint=True)),
    )  # fmt: skip


def _significands(bench: Bench, rng: Generator, count: int, plain: bool) -> tuple[NDArray, ...]:
    """Odd significands of a and b."""
    both = []
    for fmt in (bench.a, bench.b):
        bits = rng.integers(1, fmt.precision, count, endpoint=True)
        full = rng.integers(0, 1 << bits) | 1
        # A long significand must not raise the exponent: what counts is where its top bit lies.
        full = np.ldexp(full, -np.frexp(full)[1] + 1)
        both.append(np.where(rng.random(count) < 0.6, 1.0, full))
    if plain:
        both[1] = np.ones(count)
    return tuple(both)


def _addends(bench: Bench, rng: Generator, count: int, top: NDArray, shape: Shape) -> NDArray:
    fmt = bench.out
    offset = _offsets(bench, rng, count, shape.depth)
    mode = np.full(count, shape.c)
    if shape.c == "any":
        mode = rng.choice(["zero", "equal", "below", "below", "above", "above"], count)
    exponent = np.select(
        [mode == "equal", mode == "below", mode == "above"], [top, top - offset, top + offset], 0
    )
    exponent = np.where(mode == "tiny", rng.integers(_lowest(fmt), fmt.emin + 4, count), exponent)
    exponent = np.clip(exponent, _lowest(fmt), fmt.emax)
    # Bits that a subnormal can hold.
    room = np.clip(exponent - _lowest(fmt), 0, fmt.fraction_bits)
    fraction = rng.integers(0, 1 << room, endpoint=False)
    sort = rng.random(count)
    fraction = np.where(sort < 0.5, 0, np.where(sort < 0.6, 1, fraction))
    fraction = np.where(sort > 0.92, (1 << room) - 1, fraction)
    fraction = np.where((mode == "equal") | (room == 0), 0, fraction)
    c = np.ldexp(1.0 + np.ldexp(np.float64(fraction), -room), exponent)
    return np.where(mode == "zero", 0.0, c * rng.choice((-1, 1), count))


def near_ties(bench: Bench, rng: Generator, count: int, shape: Shape) -> Queries:
    """A large term, about half a unit of the result, and tails far below it.

    The large term is c, or a product where ``shape.c`` is "zero" or "tiny". At the bottom of the
    range the unit is the smallest subnormal. Whatever a core drops of a tail shows in the result's
    last bit.
    """
    slots, f = np.asarray(shape.slots), bench.out.fraction_bits
    large_c = shape.c not in ("zero", "tiny")
    exponent = rng.integers(shape.top[0], shape.top[1], count, endpoint=True)
    # Half a unit below, within or above the binade of the large term, once or three times.
    half = exponent - f - rng.integers(-1, 3, count)
    half = np.maximum(half, bench.out.emin - f - 1 + rng.integers(0, 2, count))
    most = min(slots.size, 5)
    places = slots[np.argsort(rng.random((count, slots.size)), axis=1)[:, :most]]
    used = rng.integers(1, most, count, endpoint=True)
    signs = rng.choice((-1, 1), (most + 1, count))
    # A power of two less a little lies in the binade below, where a unit is half as large.
    crossing = rng.random(count) < 0.3
    half = np.where(crossing, exponent - f - 2 + rng.integers(0, 2, count), half)
    signs[0] = np.where(crossing, -signs[-1], signs[0])
    terms = []
    if not large_c and most > 1:
        most -= 1
        sign = np.where(rng.random(count) < 0.7, signs[-1], 0)
        # Operands of 1.5 give a product of 2.25, whose own exponent is one more than their sum.
        ma, mb = rng.choice((1.0, 1.5), (2, count))
        terms.append(Term(places[:, most], exponent, sign, ma, mb))
        if most > 2:  # cancelled, it leaves nothing but the exponent that all are aligned to
            most -= 1
            used = np.minimum(used, most)
            cancel = np.where(rng.random(count) < 0.4, -sign, 0)
            terms.append(Term(places[:, most], exponent, cancel, ma, mb))
    for t in range(most):
        ma, _ = _significands(bench, rng, count, True)
        if t == 0:
            ma = np.choose(rng.integers(0, 3, count), [1.0, 1.5, ma])
        deep = np.where(
            rng.random(count) < 0.5, rng.integers(1, 14, count), rng.integers(1, 34, count)
        )
        sign = np.where(t < used, signs[t], 0)
        terms.append(Term(places[:, t], half - (deep if t else 0), sign, ma))
    if large_c and slots.size > 3:
        terms = terms[:3] + _heavy(rng, slots, places[:, :3], exponent, signs)
    if shape.c == "zero":
        return bench.rows(shape.k, terms, np.zeros(count))
    if shape.c == "tiny":
        return bench.rows(shape.k, terms, _addends(bench, rng, count, exponent, shape))
    room = np.clip(exponent - _lowest(bench.out), 0, f)
    last = (1 << room) - 1
    fraction = np.choose(
        rng.integers(0, 6, count),
        [0, np.minimum(1, last), last, last - 1, last // 2, rng.integers(0, 1 << room)],
    )
    fraction = np.where(crossing, 0, np.maximum(fraction, 0))
    with np.errstate(over="ignore"):  # an infinite c is left out
        c = np.ldexp(1.0 + np.ldexp(np.float64(fraction), -room), exponent)
    return bench.rows(shape.k, terms, c * signs[-1])


def _heavy(
    rng: Generator, slots: NDArray, taken: NDArray, exponent: NDArray, signs: NDArray
) -> list[Term]:
    """In some rows, all other products just below c in exponent: their sum is far above c."""
    heavy = rng.random(exponent.size) < 0.12
    terms = []
    for slot in slots[:32]:
        free = heavy & (taken != slot).all(axis=1)
        terms.append(Term(slot, exponent - 1, np.where(free, signs[-1], 0), 1.5, 1.5))
    return terms


def addends_only(bench: Bench, rng: Generator, count: int, k: int) -> Queries:
    """Rows without products: c of every sort and exponent."""
    c = _addends(
        bench, rng, count, rng.integers(_lowest(bench.out), bench.out.emax + 1, count),
        Shape(k, (0,), (0, 0), c="below", depth=2),
    )  # fmt: skip
    zero = np.zeros((count, k), np.int64)
    with ieee_environment():
        codes = encode_exact(c, bench.out)
    return zero.astype(bench.a.code_dtype), zero.astype(bench.b.code_dtype), codes


def largest_exponent(bench: Bench, queries: Queries) -> NDArray:
    """Largest sum of operands' exponents among each row's nonzero products; very low if none."""
    a, b = _exponents(queries[0], bench.a), _exponents(queries[1], bench.b)
    return (a + b).max(axis=1)


def addend_exponent(bench: Bench, queries: Queries) -> NDArray:
    """Exponent of each row's c; very low for zero."""
    return _exponents(queries[2], bench.out)


_VERY_LOW = -10_000


def _exponents(codes: NDArray, fmt: Format) -> NDArray:
    x = decode(codes, fmt)
    finite = np.where(np.isfinite(x), x, 1.0)
    return np.where(x == 0, _VERY_LOW, np.maximum(np.frexp(finite)[1] - 1, fmt.emin))
